"""The parameter sets of the shipped networks, as `parameters_for` finds them at 128 bits; a test repeats the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from heliograph import _core
from heliograph._common.clear_tensor import ClearTensor
from heliograph.exact.parameter_search import search
from heliograph.exact.parameters import Parameters, set_for
from heliograph.nn.networks import Network, load, names
from heliograph.nn.packed import PackedNetwork
from heliograph.nn.tiled import TiledNetwork


@dataclass(frozen=True)
class Setup:
    """A network with the layout of its images and its parameter set.

    >>> setup = nn.setup("digits")
    >>> setup.title, setup.n
    ('one 8x8 digit at low latency', 8192)
    """

    name: str
    network: str
    kind: type[PackedNetwork] | type[TiledNetwork] | None  #: layout of images; None for one image in each slot
    n: int
    log_q: int
    special: int
    plain_modulus: tuple[int, ...]
    title: str
    named: str = ""  #: name of its parameter set, if it is a named one
    given_moduli: bool = False  #: whether the search uses these plaintext moduli
    log_q_short: int | None = None  #: log_q of 32-bit words, if it differs
    word_size: int = 64

    def load(self) -> Network:
        """Returns the network.

        >>> nn.setup("digits-batch").load().name
        'digits'
        """
        return load(self.network)

    @property
    def packed(self) -> bool:
        """Whether a ciphertext holds many pixels of an image, instead of one pixel of an image in each slot."""
        return self.kind is not None

    def layout(self, n: int | None = None) -> PackedNetwork | TiledNetwork:
        """Returns the layout of images in the slots. Raises ParameterError for a network with one image in each slot.

        >>> nn.setup("digits").layout().n
        8192
        """
        if self.kind is None:
            raise _core.ParameterError(f"{self.name} has no layout: it has one image in each slot; use Network.evaluate")
        return self.kind(self.load(), n or self.n)

    def parameters(self) -> Parameters:
        """Returns the parameter set.

        >>> nn.setup("digits").parameters()
        <BFV parameters: N=2^13, log q 136, 128-bit, 20-bit plaintext, 8,192 slots, w64>
        """
        if self.named:
            return set_for("bfv", self.named, word_size=self.word_size)
        log_q = self.log_q if self.log_q_short is None or self.word_size == 64 else self.log_q_short
        ring: dict[str, Any] = {"n": self.n, "log_q": log_q, "special": self.special}
        return set_for("bfv", plain_modulus=self.plain_modulus, word_size=self.word_size, **ring)

    def export(self, path: Any, **texts: Any) -> Any:
        """Writes the network as a model bundle, with its parameter set and title. Options are those of `Network.export`.

        >>> nn.setup("mnist-packed").export("digits.hgm").inputs[0].shape
        (28, 28)
        """
        what = self.layout() if self.packed else self.load()
        return what.export(path, **{"parameters": self.parameters(), "title": self.title, **texts})

    def keys(self) -> dict[str, Any]:
        """Returns the arguments of `SecretKey.evaluation_keys` for its keys.

        >>> nn.setup("digits-batch").keys()
        {'relinearize': True}
        """
        if not self.packed:
            return {"relinearize": True}
        needs: dict[str, Any] = self.layout().needs
        return needs

    @property
    def plain_bits(self) -> int:
        """Minimum bits of the plaintext modulus, for four times the largest logit of the training images."""
        return max(load(name).plain_bits for name in _SHARED.get(self.network, (self.network,)))

    def search(self) -> Parameters:
        """Searches the network's parameter set again, by `parameters_for` at this ring degree.

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
            return search(function, example, "bfv", n=self.n, word_size=self.word_size, plain_modulus=self.plain_modulus)
        # exact=False: `plain_bits` is that of four times the largest observed logit, far below the worst-case bound.
        sizes: dict[str, Any] = {"n": self.n, "word_size": self.word_size, "plain_bits": self.plain_bits}
        return search(function, example, "bfv", exact=False, **sizes)


_SHARED = dict.fromkeys(("hcnn5", "hcnn5-paper"), ("hcnn5", "hcnn5-paper"))  # networks that share a plaintext modulus


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
            "up to 32 28x28 digits in the smallest ring that holds them", given_moduli=True, word_size=32,
        ),
        Setup(
            "hcnn5", "hcnn5", None, 8192, 187, 0, (8796092858369,),
            "many 28x28 digits, one a slot; each filter of the second convolution reads all maps", "hcnn5",
        ),
        Setup(
            "hcnn5-paper", "hcnn5-paper", None, 8192, 188, 0, (8796092858369,),
            "many 28x28 digits, one a slot; each filter of the second convolution reads one map, as in the paper",
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
    """Returns a setup by name; the suffix ``/w32`` or ``/w64`` selects the words. Raises ParameterError, which lists the
    names.

    >>> nn.setup("hcnn5").parameters().name
    'hcnn5'
    >>> nn.setup("mnist-packed/w32").parameters().word_size
    32
    """
    base, slash, ending = name.partition("/")
    if base not in SETUPS:
        raise _core.ParameterError(f'there is no network "{name}"; the networks are {", ".join(SETUPS)}')
    if not slash:
        return SETUPS[base]
    if ending not in ("w32", "w64"):
        raise _core.ParameterError(f'the ending of {base} must be /w32 or none, not "/{ending}"')
    return replace(SETUPS[base], name=name, word_size=int(ending[1:]))
