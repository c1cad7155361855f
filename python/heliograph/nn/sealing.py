"""Sealed networks: what is written of each, and how it is read and used (`heliograph.sealed`)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from heliograph import _core, bfv
from heliograph._arrays import Int64Array, integers
from heliograph._html import Rows
from heliograph._sealing import SEALERS
from heliograph.choose import parameters_for
from heliograph.clear import ClearTensor
from heliograph.exact import Parameters, SecretKey, Tensor
from heliograph.keys import Server
from heliograph.nn.networks import Layer, Network
from heliograph.nn.packed import PackedNetwork
from heliograph.nn.sets import SETUPS
from heliograph.nn.tiled import TiledNetwork
from heliograph.sealed import (
    Form,
    SealedModel,
    Side,
    Watch,
    count_in,
    fields_of,
    form,
    list_in,
    sent_bytes,
    text_in,
    write,
)

Arrays = dict[str, npt.NDArray[Any]]
F = TypeVar("F", bound=Form)
_MOST_LAYERS, _LONGEST, _MOST_WEIGHTS, _MOST_WORDS, _MOST_DIGITS = 64, 1 << 20, 1 << 30, 8, 200
_LAYER = ("groups", "name", "padding", "pool", "shape", "square", "stride")


def _damaged(what: str) -> _core.DamagedFileError:
    return _core.DamagedFileError(f"a sealed network {what}")


# Networks as JSON and arrays


def _said(network: Network) -> dict[str, Any]:
    """All of a network but its weights."""
    layers = [
        {"shape": list(layer.weight.shape), **{name: getattr(layer, name) for name in _LAYER if name != "shape"}}
        for layer in network.layers
    ]
    return {
        "name": network.name,
        "image": list(network.image),
        "levels": network.levels,
        "top": network.top,
        "largest_logit": str(int(network.meta["max_abs_logit_training"])),  # may be beyond 64 bits
        "layers": layers,
    }


def _weights(network: Network) -> Arrays:
    """Its weights, in the least bytes."""
    arrays: Arrays = {}
    for number, layer in enumerate(network.layers):
        narrow = np.abs(layer.weight).max(initial=0) < 128
        arrays[f"weight{number}"] = layer.weight.astype(np.int8 if narrow else np.int64)
        arrays[f"bias{number}"] = layer.bias if layer.bias.dtype == np.int64 else _words(layer.bias)
    return arrays


def _words(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Integers of any size [count] as two's complement [count, words], the least significant word first."""
    words = max(int(v).bit_length() for v in values) // 64 + 1
    data = b"".join(int(v).to_bytes(8 * words, "little", signed=True) for v in values)
    return np.frombuffer(data, dtype="<u8").reshape(len(values), words)


def _numbers(words: npt.NDArray[Any]) -> npt.NDArray[Any]:
    made = [int.from_bytes(row.tobytes(), "little", signed=True) for row in np.asarray(words, dtype="<u8")]
    return np.array(made, dtype=object)


def _network(said: Any, arrays: Arrays | None) -> Network:
    """The other way, checked; without arrays with weights of zero that take no memory."""
    fields = fields_of(said, "name", "image", "levels", "top", "largest_logit", "layers")
    image = tuple(count_in(side, "side of an image", 1, _LONGEST) for side in list_in(fields["image"], "an image", 3))
    largest = fields["largest_logit"]
    if len(image) < 2 or not (isinstance(largest, str) and largest.isascii() and largest.isdigit()):
        raise _damaged("has no images, or no largest logit")
    if len(largest) > _MOST_DIGITS or int(largest) == 0:
        raise _damaged("has a largest logit that cannot be")
    top = count_in(fields["top"], "largest pixel", 1, 1 << 32)
    levels = count_in(fields["levels"], "number of levels", 1, 1 << 24)
    layers = list_in(fields["layers"], "layers", _MOST_LAYERS)
    if not layers:
        raise _damaged("has no layers")
    shape: tuple[int, ...] = (1, *image) if len(image) == 2 else image
    made = []
    for number, one in enumerate(layers):
        layer = _layer(one, arrays, number)
        shape = _shape_after(layer, shape, number == len(layers) - 1)
        made.append(layer)
    if arrays is not None and set(arrays) != {f"{what}{i}" for what in ("weight", "bias") for i in range(len(layers))}:
        raise _damaged("has other arrays than layers")
    meta = {"input": {"levels": levels, "top": top}, "max_abs_logit_training": int(largest)}
    return Network(text_in(fields["name"], "name"), tuple(made), image, meta)


def _layer(said: Any, arrays: Arrays | None, number: int) -> Layer:
    fields = fields_of(said, *_LAYER)
    shape = tuple(count_in(n, "length", 1, _LONGEST) for n in list_in(fields["shape"], "a layer's weights", 4))
    if len(shape) not in (2, 4) or math.prod(shape) > _MOST_WEIGHTS:
        raise _damaged("has a layer that is neither dense nor a convolution, or too large")
    if not isinstance(fields["square"], bool):
        raise _damaged("does not say whether a layer squares")
    how: dict[str, Any] = {name: count_in(fields[name], name, 1, _LONGEST) for name in ("stride", "groups", "pool")}
    padding = count_in(fields["padding"], "padding", -_LONGEST, _LONGEST)
    weight: npt.NDArray[Any] = np.broadcast_to(np.int64(0), shape)
    bias: npt.NDArray[Any] = np.broadcast_to(np.int64(0), shape[:1])
    if arrays is not None:
        weight, bias = _array(arrays, f"weight{number}", shape), arrays.get(f"bias{number}", np.zeros(0))
        if bias.dtype == np.uint64 and bias.ndim == 2 and len(bias) == shape[0] and 1 <= bias.shape[1] <= _MOST_WORDS:
            bias = _numbers(bias)
        elif bias.dtype != np.int64 or bias.shape != shape[:1]:
            raise _damaged("has a bias that does not fit its weights")
        bias.flags.writeable = False
    name = text_in(fields["name"], "layer's name")
    return Layer(name, weight, bias, padding=padding, square=fields["square"], **how)


def _array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> Int64Array:
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype not in (np.int8, np.int64):
        raise _damaged("has weights of another shape than it says")
    if found.dtype == np.int64 and found.size and (found.min() <= -(1 << 62) or found.max() >= 1 << 62):
        raise _damaged("has weights beyond what any has")
    made = found.astype(np.int64)
    made.flags.writeable = False
    return made


def _shape_after(layer: Layer, shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """What a layer makes of an input of that shape. Raises DamagedFileError where it cannot take it."""
    lengths = layer.weight.shape
    if layer.square and last:
        raise _damaged("squares its scores")
    if not layer.convolution:
        if lengths[1] != math.prod(shape) or (layer.stride, layer.padding, layer.groups, layer.pool) != (1, 0, 1, 1):
            raise _damaged("has a dense layer that does not fit the one before")
        return (lengths[0],)
    sides = [side + 2 * layer.padding for side in shape[1:]]
    fits = len(shape) == 3 and lengths[1] * layer.groups == shape[0] and lengths[0] % layer.groups == 0 and not last
    if not fits or any(side < kernel or side > _LONGEST for side, kernel in zip(sides, lengths[2:], strict=True)):
        raise _damaged("has a convolution that does not fit the one before")
    made = layer.linear_shape(shape)
    if any(side % layer.pool for side in made[1:]) or math.prod(made) > _LONGEST:
        raise _damaged("has a convolution of too many outputs, or windows that do not cover them")
    return layer.output_shape(shape)


# What networks of every layout share


class _NetworkForm(Form):
    """A network for one parameter set."""

    network: Network
    title: ClassVar[str]

    def __init__(self, parameters: Any, complete: bool) -> None:
        if not isinstance(parameters, Parameters):
            raise _core.DtypeError(f"networks are sealed with parameters of BFV, not {type(parameters).__name__}")
        if not parameters.has_slots:
            raise _core.ParameterError("this set has no slots, which networks need")
        self.parameters, self.complete = parameters, complete

    def arrays(self) -> Arrays:
        """Its weights."""
        return _weights(self.network)

    @property
    def inputs(self) -> tuple[Side, ...]:
        """Pictures."""
        network, encoding = self.network, self.kind.rpartition(".")[2]
        dtype = "uint8" if network.top < 256 else "int64"
        return (Side("images", network.image, dtype, 0, network.top, encoding, self.items, self.title),)

    @property
    def outputs(self) -> tuple[Side, ...]:
        """Scores."""
        encoding = self.kind.rpartition(".")[2]
        text = "a score for each class; the largest is the answer"
        return (Side("scores", (self.network.classes,), "int64", None, None, encoding, self.items, text),)

    @property
    @abstractmethod
    def items(self) -> int:
        """Images that a request holds at most."""

    @property
    @abstractmethod
    def request_shape(self) -> tuple[int, ...]:
        """Ciphertexts of a request."""

    @abstractmethod
    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """What is encrypted of images [count, ...]."""

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Tensor:
        """Of one image or several."""
        images = integers(x, "images")
        _, alone = self.count(images)
        made: Tensor = key.encrypt(self.packed(images[None] if alone else images, unchecked), pad=True)
        return made

    def prepared(self) -> Callable[[tuple[Any, ...], Watch | None], Tensor]:
        """Its weights, encoded."""
        runner, shape = self.runner(self.parameters), self.request_shape

        def run(tensors: tuple[Any, ...], progress: Watch | None) -> Tensor:
            if len(tensors) != 1 or tensors[0].shape != shape:
                found = " and ".join(str(t.shape) for t in tensors) or "nothing"
                raise _core.ShapeError(f"a request is one tensor of shape {shape}, not {found}")
            return runner(tensors[0], progress)

        return run

    @abstractmethod
    def runner(self, parameters: Any) -> Callable[[Tensor, Watch | None], Tensor]:
        """What computes scores."""

    def rows(self) -> Rows:
        """Its layers."""
        return [("network", f"{self.network.name}: {', '.join(_told(layer) for layer in self.network.layers)}")]

    def figures(self) -> dict[str, int]:
        """By a run on the device that computes nothing. Raises ParameterError where the parameters do not suffice."""
        bits, room = self.network.plain_bits, math.log2(self.parameters.plain_modulus)
        if room < bits - 1:  # twice the largest score seen must fit
            raise _core.ParameterError(
                f"{self.network.name}'s logits take {bits - 1} bits; the plaintext moduli have {room:.0f}"
            )
        parameters = Parameters(self.parameters._core.on_device("null"))
        secret = SecretKey(_core.SecretKey.generate(parameters._core))
        server = Server(secret.evaluation_keys(**self.needs))
        x = secret.encrypt(self.packed(np.zeros((1, *self.network.image), dtype=np.int64)), pad=True)
        y = self.runner(parameters)(server.bind(x), None)
        if not float(y._core.noise_budget) > -_FORMER_BITS:
            missing = -float(y._core.noise_budget)
            raise _core.ParameterError(
                f"{self.network.name} needs {missing:.0f} more bits of noise budget than {self.parameters!r} has"
            )
        return {
            "input_bytes": sent_bytes(x),
            "output_bytes": sent_bytes(y),
            "memory_bytes": int(parameters._core.peak_bytes),
        }


def _told(layer: Layer) -> str:
    shape = layer.weight.shape
    what = f"{layer.name} {shape[1]} to {shape[0]}"
    if layer.convolution:
        what = f"{layer.name} {shape[0]} maps of {shape[2]} x {shape[3]} by {layer.stride}"
    return (
        what + (", squared" if layer.square else "") + (f", sums of {layer.pool} x {layer.pool}" if layer.pool > 1 else "")
    )


def _require_shape(network: Network, convolutions: tuple[list[bool], ...]) -> None:
    """Raises ParameterError for networks that a layout in slots does not hold."""
    shape = [layer.convolution for layer in network.layers]
    squares = [layer.square for layer in network.layers]
    plain = all((layer.groups, layer.pool) == (1, 1) for layer in network.layers)
    if shape not in convolutions or squares != [True] * (len(shape) - 1) + [False] or not plain or len(network.image) != 2:
        raise _core.ParameterError(f"the layers of {network.name} are not those of this layout: squares between few of them")


@form
class BatchForm(_NetworkForm):
    """Many images: one pixel a ciphertext, one image a slot."""

    kind = "network.batch"
    title = "one pixel a ciphertext, one image a slot"

    def __init__(self, network: Network, parameters: Any, complete: bool = True) -> None:
        super().__init__(parameters, complete)
        self.network = network

    @classmethod
    def read(cls, said: Any, arrays: Arrays | None, parameters: Any) -> BatchForm:
        """Of a file."""
        return _made(lambda: cls(_network(said, arrays), parameters, arrays is not None))

    def described(self) -> dict[str, Any]:
        """The network."""
        return _said(self.network)

    @property
    def needs(self) -> dict[str, Any]:
        """Relinearization."""
        return {"relinearize": True}

    @property
    def items(self) -> int:
        """One a slot."""
        return int(self.parameters.slots)

    @property
    def request_shape(self) -> tuple[int, ...]:
        """One pixel a ciphertext."""
        return self.network.shapes()[0]

    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """Pixels by images."""
        return self.network.arrange(images, unchecked=unchecked)

    def runner(self, parameters: Any) -> Callable[[Tensor, Watch | None], Tensor]:
        """`Network.evaluate`."""
        return self.network.evaluate

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> npt.NDArray[Any]:
        """Scores [images, classes]."""
        values = _logits(secret, tensor)
        if values.ndim != 2 or len(values) != self.network.classes:
            raise _core.ShapeError(f"this is no answer of {self.network.name}: {values.shape[:-1]} ciphertexts")
        return np.ascontiguousarray(values.T)


class _SlotsForm(_NetworkForm):
    """A layout of images in the slots."""

    layout: Any

    @property
    def needs(self) -> dict[str, Any]:
        """The layout's rotations."""
        needs: dict[str, Any] = self.layout.needs
        return needs

    @property
    def items(self) -> int:
        """The layout's."""
        return int(self.layout.images)

    @property
    def request_shape(self) -> tuple[int, ...]:
        """A ciphertext for each offset of the first kernel."""
        first = self.network.layers[0]
        return (math.prod(first.weight.shape[1:]),) if first.convolution else ()

    def runner(self, parameters: Any) -> Callable[[Tensor, Watch | None], Tensor]:
        """The layout's server."""
        server = self.layout.server(parameters)
        return lambda x, _: server.run(x)

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> npt.NDArray[Any]:
        """Scores [images, classes]."""
        values = _logits(secret, tensor)
        if values.shape != (self.parameters.slots,):
            raise _core.ShapeError(f"this is no answer of {self.network.name}: {values.shape[:-1]} ciphertexts")
        scores: npt.NDArray[Any] = self.layout.unpack(values).reshape(self.items, self.network.classes)
        return scores


@form
class PackedForm(_SlotsForm):
    """One image at low latency."""

    kind = "network.packed"
    title = "one image side by side in the slots, at low latency"

    def __init__(self, layout: PackedNetwork, parameters: Any, complete: bool = True) -> None:
        super().__init__(parameters, complete)
        _require_shape(layout.network, ([True, False, False], [False, False]))
        if layout.n != parameters.slots:
            raise _core.ParameterError(f"a layout of {layout.n:,} slots for a set of {parameters.slots:,}")
        self.layout, self.network = layout, layout.network

    @classmethod
    def read(cls, said: Any, arrays: Arrays | None, parameters: Any) -> PackedForm:
        """Of a file, whose copies and period are checked and not searched."""
        fields = fields_of(said, "network", "copies", "period")
        found = count_in(fields["copies"], "number of copies", 1), count_in(fields["period"], "period", 1)
        network = _network(fields["network"], arrays)

        def make() -> PackedForm:
            _require_shape(network, ([True, False, False], [False, False]))
            return cls(PackedNetwork(network, parameters.slots, found), parameters, arrays is not None)

        return _made(make)

    def described(self) -> dict[str, Any]:
        """The network, and how its inputs are repeated."""
        return {"network": _said(self.network), "copies": self.layout.copies, "period": self.layout.period}

    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """One."""
        values: Int64Array = self.layout.pack(images[0], unchecked=unchecked)
        return values


@form
class TiledForm(_SlotsForm):
    """Some images in a small ring."""

    kind = "network.tiled"
    title = "images side by side in the slots, in the smallest ring"

    def __init__(self, layout: TiledNetwork, parameters: Any, complete: bool = True) -> None:
        super().__init__(parameters, complete)
        _require_shape(layout.network, ([True, False],))
        if layout.n != parameters.slots:
            raise _core.ParameterError(f"a layout of {layout.n:,} slots for a set of {parameters.slots:,}")
        self.layout, self.network = layout, layout.network

    @classmethod
    def read(cls, said: Any, arrays: Arrays | None, parameters: Any) -> TiledForm:
        """Of a file."""
        network = _network(said, arrays)
        return _made(lambda: cls(TiledNetwork(network, parameters.slots), parameters, arrays is not None))

    def described(self) -> dict[str, Any]:
        """The network."""
        return _said(self.network)

    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """Side by side."""
        values: Int64Array = self.layout.pack(images, unchecked=unchecked)
        return values


def _made(make: Callable[[], F]) -> F:
    """A form of what a file says; what its maker would be told as a mistake of his is damage here."""
    try:
        return make()
    except (_core.ParameterError, _core.DtypeError, _core.ShapeError) as error:
        raise _core.DamagedFileError(f"a sealed network cannot be: {error}") from None


#: Sets of models that version 0.2 sealed were found by noise bounds that fail with 2^-64, three factors of which in a network's noise are
#: this many bits smaller than those of 2^-128. Answers are decrypted by the noise measured (`_logits`), whatever the estimate.
_FORMER_BITS = 1.2


def _logits(secret: Any, tensor: Any) -> npt.NDArray[Any]:
    """A network's answer, decrypted."""
    # Unchecked: that logits fit is the network's word (`Network.require_fit`: twice the largest seen), which is far less than weights
    # and pixels at their worst allow.
    values: npt.NDArray[Any] = secret.decrypt(tensor, beyond_estimate=True, unchecked=True)
    return values


# Sealing


def _searched(network: Network, layout: PackedNetwork | TiledNetwork | None) -> Any:
    """The set of a shipped network, or the smallest for one's own."""
    kind = None if layout is None else type(layout)
    for setup in SETUPS.values():
        if setup.kind is kind and setup.load() is network and (layout is None or layout.n == setup.n):
            return setup.parameters()
    bits = network.plain_bits  # by the largest logits seen, not by what weights and pixels at their worst allow: residues
    if layout is None:
        return parameters_for(network.evaluate, network.arrange(network.blank()), plain_bits=bits, exact=False)

    def function(x: Any) -> Any:
        return layout.server(None if isinstance(x, ClearTensor) else x.parameters).run(x)

    blank = network.blank()
    return parameters_for(
        function,
        layout.pack(blank if isinstance(layout, TiledNetwork) else blank[0]),
        n=layout.n,
        plain_bits=bits,
        exact=False,
    )


def _seal_batch(network: Network, path: Any, parameters: bfv.Parameters | None = None, **texts: Any) -> SealedModel:
    chosen = _searched(network, None) if parameters is None else parameters
    return write(BatchForm(network, chosen), path, **texts)


def _seal_packed(layout: PackedNetwork, path: Any, parameters: bfv.Parameters | None = None, **texts: Any) -> SealedModel:
    chosen = _searched(layout.network, layout) if parameters is None else parameters
    return write(PackedForm(layout, chosen), path, **texts)


def _seal_tiled(layout: TiledNetwork, path: Any, parameters: bfv.Parameters | None = None, **texts: Any) -> SealedModel:
    chosen = _searched(layout.network, layout) if parameters is None else parameters
    return write(TiledForm(layout, chosen), path, **texts)


SEALERS.update({BatchForm.kind: _seal_batch, PackedForm.kind: _seal_packed, TiledForm.kind: _seal_tiled})
