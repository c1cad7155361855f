"""The parameter sets of the shipped networks: what `parameters_for` finds for them at 128 bits (a test repeats it)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from heliograph import _core, bfv
from heliograph.choose import parameters_for
from heliograph.clear import ClearTensor
from heliograph.nn.networks import Network, load, names
from heliograph.nn.packed import PackedNetwork
from heliograph.nn.tiled import TiledNetwork


@dataclass(frozen=True)
class Setup:
    """A network, how its images are laid out, and the numbers of its parameter set.

    >>> setup = nn.setup("digits")
    >>> setup.title, setup.n
    ('one 8x8 digit at low latency', 8192)
    """

    name: str
    network: str
    kind: type[PackedNetwork] | type[TiledNetwork] | None  #: how images lie in the slots; None: one image a slot
    n: int
    log_q: int
    special: int
    plain_modulus: tuple[int, ...]
    title: str
    named: str = ""  #: the named set that it is
    given_moduli: bool = False  #: the search is given the plaintext moduli
    log_q_short: int | None = None  #: of edition w32, where another number
    edition: str = "w64"

    def load(self) -> Network:
        """The network.

        >>> nn.setup("digits-batch").load().name
        'digits'
        """
        return load(self.network)

    @property
    def packed(self) -> bool:
        """Whether a ciphertext holds many pixels of an image; else one pixel, of one image a slot."""
        return self.kind is not None

    def layout(self, n: int | None = None) -> PackedNetwork | TiledNetwork:
        """How images lie in the slots. Raises ParameterError for a network that takes one image a slot.

        >>> nn.setup("digits").layout().n
        8192
        """
        if self.kind is None:
            raise _core.ParameterError(f"{self.name} takes one image a slot")
        return self.kind(self.load(), n or self.n)

    def parameters(self) -> bfv.Parameters:
        """The parameter set.

        >>> nn.setup("digits").parameters()
        <BFV parameters: N=2^13, log q 136, 128-bit, 20-bit plaintext, 8,192 slots, w64>
        """
        if self.named:
            return bfv.parameters(self.named, edition=self.edition)
        log_q = self.log_q if self.log_q_short is None or self.edition == "w64" else self.log_q_short
        return bfv.parameters(
            n=self.n, log_q=log_q, special=self.special, plain_modulus=self.plain_modulus, edition=self.edition
        )

    def seal(self, path: Any, **texts: Any) -> Any:
        """Writes it as a sealed model, with its parameter set and its title; as `Network.seal`.

        >>> nn.setup("mnist-packed").seal("digits.hgm").inputs[0].shape
        (28, 28)
        """
        what = self.layout() if self.packed else self.load()
        return what.seal(path, **{"parameters": self.parameters(), "title": self.title, **texts})

    def keys(self) -> dict[str, Any]:
        """What `SecretKey.evaluation_keys` must make for it.

        >>> nn.setup("digits-batch").keys()
        {'relinearize': True}
        """
        if not self.packed:
            return {"relinearize": True}
        needs: dict[str, Any] = self.layout().needs
        return needs

    @property
    def plain_bits(self) -> int:
        """Bits that the plaintext modulus was asked to exceed: enough for four times the largest logit seen."""
        return max(load(name).plain_bits for name in _SHARED.get(self.network, (self.network,)))

    def search(self) -> bfv.Parameters:
        """The set `parameters_for` finds, at this ring degree.

        >>> nn.setup("digits-batch").search().n
        4096
        """
        network = self.load()
        function: Callable[[Any], Any] = network.evaluate
        if self.packed:
            layout = self.layout()
            example = layout.pack(network.blank() if isinstance(layout, TiledNetwork) else network.blank()[0])

            def function(x: Any) -> Any:
                return layout.server(None if isinstance(x, ClearTensor) else x.parameters).run(x)

        else:
            example = network.arrange(network.blank())
        if self.given_moduli:
            return parameters_for(function, example, n=self.n, edition=self.edition, plain_modulus=self.plain_modulus)
        # Residues: `plain_bits` is four times the largest logit seen, far below what weights and pixels at their worst allow.
        return parameters_for(function, example, n=self.n, edition=self.edition, plain_bits=self.plain_bits, exact=False)


_SHARED = dict.fromkeys(("hcnn5", "hcnn5-paper"), ("hcnn5", "hcnn5-paper"))  # one set for both


SETUPS = {
    setup.name: setup
    for setup in (
        Setup(
            "digits", "digits", PackedNetwork, 8192, 136, 1, (1032193,),
            "one 8x8 digit at low latency",
        ),
        Setup(
            "digits-batch", "digits", None, 4096, 76, 0, (1032193,),
            "many 8x8 digits, one a slot", log_q_short=75,
        ),
        Setup(
            "mnist-packed", "mnist-packed", PackedNetwork, 8192, 182, 0, (163841, 147457),
            "one 28x28 digit at low latency", log_q_short=180,
        ),
        Setup(
            "mnist-small", "mnist-small", TiledNetwork, 4096, 106, 0, (557057,),
            "up to 32 28x28 digits in the smallest ring that holds them", given_moduli=True, edition="w32",
        ),
        Setup(
            "hcnn5", "hcnn5", None, 8192, 187, 0, (8796092858369,),
            "many 28x28 digits, one a slot; each filter of the second convolution reads all maps", "hcnn5",
        ),
        Setup(
            "hcnn5-paper", "hcnn5-paper", None, 8192, 188, 0, (8796092858369,),
            "the same as the paper counts it: each filter of the second convolution reads one map",
        ),
        Setup(
            "hcnn11", "hcnn11", None, 8192, 210, 0,
            (2424833, 2654209, 2752513, 3604481, 3735553, 4423681, 4620289, 4816897, 4882433, 5308417),
            "many 32x32 colour images, one a slot", "hcnn11", given_moduli=True,
        ),
    )
    if setup.network in names()
}  # fmt: skip


def setup(name: str) -> Setup:
    """A setup by name; ``/w32`` or ``/w64`` after it names an edition. Raises ParameterError listing them.

    >>> nn.setup("hcnn5").parameters().name
    'hcnn5'
    >>> nn.setup("mnist-packed/w32").parameters().edition
    'w32'
    """
    base, slash, edition = name.partition("/")
    if base not in SETUPS:
        raise _core.ParameterError(f'there is no network "{name}"; there are {", ".join(SETUPS)}')
    if not slash:
        return SETUPS[base]
    if edition not in ("w32", "w64"):
        raise _core.ParameterError(f'there is no edition "{edition}" of {base}; there are w32, w64')
    return replace(SETUPS[base], name=name, edition=edition)
