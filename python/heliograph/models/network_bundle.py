"""Network bundles: their format, reader and use (`heliograph.models.bundle`)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from heliograph import _core, bfv
from heliograph._common.arguments import Int64Array, integers
from heliograph._common.clear_tensor import ClearTensor
from heliograph._common.exporters import EXPORTERS
from heliograph._common.html import Rows
from heliograph._common.tensor import StageProgress
from heliograph.exact import Parameters, SecretKey, Tensor
from heliograph.keys import Server
from heliograph.models.bundle import Form, ModelBundle, TensorSpec, form, sent_bytes, write
from heliograph.models.header import count_in, fields_of, list_in, text_in
from heliograph.nn.networks import Layer, Network
from heliograph.nn.packed import PackedNetwork
from heliograph.nn.sets import SETUPS
from heliograph.nn.tiled import TiledNetwork
from heliograph.parameter_search import parameters_for

Arrays = dict[str, npt.NDArray[Any]]
F = TypeVar("F", bound=Form)
_MOST_LAYERS, _LONGEST, _MOST_WEIGHTS, _MOST_WORDS, _MOST_DIGITS = 64, 1 << 20, 1 << 30, 8, 200
_LAYER = ("groups", "name", "padding", "pool", "shape", "square", "stride")


def _damaged(what: str) -> _core.DamagedFileError:
    return _core.DamagedFileError(f"damaged network bundle: {what}")


# Networks as JSON and arrays


def _network_fields(network: Network) -> dict[str, Any]:
    """Returns a network without its weights, as JSON."""
    layers = [
        {"shape": list(layer.weight.shape), **{name: getattr(layer, name) for name in _LAYER if name != "shape"}}
        for layer in network.layers
    ]
    return {
        "name": network.name,
        "image": list(network.image),
        "levels": network.levels,
        "top": network.top,
        "largest_logit": str(int(network.meta["max_abs_logit_training"])),  # a string, because the number may exceed 64 bits
        "layers": layers,
    }


def _weights(network: Network) -> Arrays:
    """Returns the weights of a network, in the narrowest types."""
    arrays: Arrays = {}
    for number, layer in enumerate(network.layers):
        narrow = np.abs(layer.weight).max(initial=0) < 128
        arrays[f"weight{number}"] = layer.weight.astype(np.int8 if narrow else np.int64)
        arrays[f"bias{number}"] = layer.bias if layer.bias.dtype == np.int64 else _words(layer.bias)
    return arrays


def _words(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Returns integers of any size [count] in two's complement [count, words], the least significant word first."""
    words = max(int(v).bit_length() for v in values) // 64 + 1
    data = b"".join(int(v).to_bytes(8 * words, "little", signed=True) for v in values)
    return np.frombuffer(data, dtype="<u8").reshape(len(values), words)


def _numbers(words: npt.NDArray[Any]) -> npt.NDArray[Any]:
    integers = [int.from_bytes(row.tobytes(), "little", signed=True) for row in np.asarray(words, dtype="<u8")]
    return np.array(integers, dtype=object)


def _network(description: Any, arrays: Arrays | None) -> Network:
    """Reads and checks a network from JSON and arrays. Without arrays, its weights are zeros that take no memory."""
    fields = fields_of(description, "name", "image", "levels", "top", "largest_logit", "layers")
    image = tuple(count_in(length, "side of an image", 1, _LONGEST) for length in list_in(fields["image"], "an image", 3))
    largest = fields["largest_logit"]
    if len(image) < 2 or not (isinstance(largest, str) and largest.isascii() and largest.isdigit()):
        raise _damaged("the image must have two or three lengths, and the largest logit must be a decimal string")
    if len(largest) > _MOST_DIGITS or int(largest) == 0:
        raise _damaged(f"the largest logit must be above 0 and have at most {_MOST_DIGITS} digits")
    top = count_in(fields["top"], "largest pixel", 1, 1 << 32)
    levels = count_in(fields["levels"], "number of levels", 1, 1 << 24)
    layers = list_in(fields["layers"], "layers", _MOST_LAYERS)
    if not layers:
        raise _damaged("it must have at least one layer")
    shape: tuple[int, ...] = (1, *image) if len(image) == 2 else image
    network_layers = []
    for number, one in enumerate(layers):
        layer = _layer(one, arrays, number)
        shape = _shape_after(layer, shape, number == len(layers) - 1)
        network_layers.append(layer)
    if arrays is not None and set(arrays) != {f"{what}{i}" for what in ("weight", "bias") for i in range(len(layers))}:
        raise _damaged("it must have exactly one weight and one bias array for each layer")
    meta = {"input": {"levels": levels, "top": top}, "max_abs_logit_training": int(largest)}
    return Network(text_in(fields["name"], "name"), tuple(network_layers), image, meta)


def _layer(description: Any, arrays: Arrays | None, number: int) -> Layer:
    fields = fields_of(description, *_LAYER)
    shape = tuple(count_in(n, "length", 1, _LONGEST) for n in list_in(fields["shape"], "a layer's weights", 4))
    if len(shape) not in (2, 4) or math.prod(shape) > _MOST_WEIGHTS:
        raise _damaged(
            f"the weights of a layer must have two or four axes and at most {_MOST_WEIGHTS:,} entries, not shape {shape}"
        )
    if not isinstance(fields["square"], bool):
        raise _damaged("the field square of a layer must be true or false")
    how: dict[str, Any] = {name: count_in(fields[name], name, 1, _LONGEST) for name in ("stride", "groups", "pool")}
    padding = count_in(fields["padding"], "padding", -_LONGEST, _LONGEST)
    weight: npt.NDArray[Any] = np.broadcast_to(np.int64(0), shape)
    bias: npt.NDArray[Any] = np.broadcast_to(np.int64(0), shape[:1])
    if arrays is not None:
        weight, bias = _array(arrays, f"weight{number}", shape), arrays.get(f"bias{number}", np.zeros(0))
        if bias.dtype == np.uint64 and bias.ndim == 2 and len(bias) == shape[0] and 1 <= bias.shape[1] <= _MOST_WORDS:
            bias = _numbers(bias)
        elif bias.dtype != np.int64 or bias.shape != shape[:1]:
            raise _damaged(f"bias{number} does not fit its layer's weights of shape {shape}")
        bias.flags.writeable = False
    name = text_in(fields["name"], "layer's name")
    return Layer(name, weight, bias, padding=padding, square=fields["square"], **how)


def _array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> Int64Array:
    array = arrays.get(name)
    if array is None or array.shape != shape or array.dtype not in (np.int8, np.int64):
        raise _damaged(f"{name} must be an array of int8 or int64 of shape {shape}")
    if array.dtype == np.int64 and array.size and (array.min() <= -(1 << 62) or array.max() >= 1 << 62):
        raise _damaged(f"the weights of {name} must be below 2^62 in magnitude")
    values = array.astype(np.int64)
    values.flags.writeable = False
    return values


def _shape_after(layer: Layer, shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """Returns the shape of a layer's output for an input of a shape. Raises DamagedFileError if they do not fit."""
    lengths = layer.weight.shape
    if layer.square and last:
        raise _damaged("the last layer must not square its outputs")
    if not layer.convolution:
        if lengths[1] != math.prod(shape) or (layer.stride, layer.padding, layer.groups, layer.pool) != (1, 0, 1, 1):
            raise _damaged(f"the dense layer of shape {lengths} does not fit its input of shape {shape}")
        return (lengths[0],)
    padded_lengths = [length + 2 * layer.padding for length in shape[1:]]
    fits = len(shape) == 3 and lengths[1] * layer.groups == shape[0] and lengths[0] % layer.groups == 0 and not last
    if not fits or any(
        length < kernel or length > _LONGEST for length, kernel in zip(padded_lengths, lengths[2:], strict=True)
    ):
        raise _damaged(f"the convolution of shape {lengths} does not fit its input of shape {shape}")
    output = layer.linear_shape(shape)
    if any(length % layer.pool for length in output[1:]) or math.prod(output) > _LONGEST:
        raise _damaged(
            f"windows of {layer.pool} x {layer.pool} must tile a convolution's at most {_LONGEST:,} outputs, not {output}"
        )
    return layer.output_shape(shape)


# Networks of every layout


class _NetworkForm(Form):
    """A network with a parameter set."""

    network: Network
    title: ClassVar[str]

    def __init__(self, parameters: Any, complete: bool) -> None:
        if not isinstance(parameters, Parameters):
            raise _core.DtypeError(f"networks are exported with parameters of BFV, not {type(parameters).__name__}")
        if not parameters.has_slots:
            raise _core.ParameterError(
                "this set has no slots, which networks need; use a plaintext modulus that is 1 modulo 2N"
            )
        self.parameters, self.complete = parameters, complete

    def arrays(self) -> Arrays:
        """Returns the weights."""
        return _weights(self.network)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The images."""
        network, encoding = self.network, self.kind.rpartition(".")[2]
        dtype = "uint8" if network.top < 256 else "int64"
        return (TensorSpec("images", network.image, dtype, 0, network.top, encoding, self.items, self.title),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The scores."""
        encoding = self.kind.rpartition(".")[2]
        text = "a score for each class; the largest is the answer"
        return (TensorSpec("scores", (self.network.classes,), "int64", None, None, encoding, self.items, text),)

    @property
    @abstractmethod
    def items(self) -> int:
        """Maximum images of a request."""

    @property
    @abstractmethod
    def request_shape(self) -> tuple[int, ...]:
        """Shape of a request's tensor."""

    @abstractmethod
    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """Returns the values to encrypt of images [count, ...]."""

    def encrypt(self, key: Any, x: Any, unchecked: bool = False) -> Tensor:
        """Encrypts one or several images."""
        images = integers(x, "images")
        _, alone = self.count(images)
        request: Tensor = key.encrypt(self.packed(images[None] if alone else images, unchecked), pad=True)
        return request

    def prepared(self) -> Callable[[tuple[Any, ...], StageProgress | None], Tensor]:
        """Encodes the weights and returns the function of a request."""
        runner, shape = self.runner(self.parameters), self.request_shape

        def run(tensors: tuple[Any, ...], progress: StageProgress | None) -> Tensor:
            if len(tensors) != 1 or tensors[0].shape != shape:
                shapes = " and ".join(str(t.shape) for t in tensors) or "nothing"
                raise _core.ShapeError(f"a request must be one tensor of shape {shape}, not {shapes}")
            return runner(tensors[0], progress)

        return run

    @abstractmethod
    def runner(self, parameters: Any) -> Callable[[Tensor, StageProgress | None], Tensor]:
        """Returns the function that computes scores, for a parameter set."""

    def rows(self) -> Rows:
        """Describes the layers."""
        return [("network", f"{self.network.name}: {', '.join(_layer_text(layer) for layer in self.network.layers)}")]

    def byte_counts(self) -> dict[str, int]:
        """Measures bytes by a run on the `null` device. Raises ParameterError if the parameters do not suffice."""
        bits, room = self.network.plain_bits, math.log2(self.parameters.plain_modulus)
        if room < bits - 1:  # the plaintext moduli must hold twice the largest observed score
            raise _core.ParameterError(
                f"the plaintext moduli must have at least {bits - 1} bits for the logits of {self.network.name}, not "
                f"{room:.0f}"
            )
        parameters = Parameters(self.parameters._core.on_device("null"))
        secret = SecretKey(_core.exact.SecretKey.generate(parameters._core))
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


def _layer_text(layer: Layer) -> str:
    shape = layer.weight.shape
    what = f"{layer.name} {shape[1]} to {shape[0]}"
    if layer.convolution:
        what = f"{layer.name} {shape[0]} maps of {shape[2]} x {shape[3]} by {layer.stride}"
    return (
        what + (", squared" if layer.square else "") + (f", sums of {layer.pool} x {layer.pool}" if layer.pool > 1 else "")
    )


def _require_shape(network: Network, convolutions: tuple[list[bool], ...]) -> None:
    """Raises ParameterError for networks that a layout in slots does not support."""
    shape = [layer.convolution for layer in network.layers]
    squares = [layer.square for layer in network.layers]
    plain = all((layer.groups, layer.pool) == (1, 1) for layer in network.layers)
    if shape not in convolutions or squares != [True] * (len(shape) - 1) + [False] or not plain or len(network.image) != 2:
        raise _core.ParameterError(
            f"cannot export {network.name} in this layout: it must have the layout's layers, with squares between them and "
            "without groups or pooling"
        )


@form
class BatchForm(_NetworkForm):
    """Many images: a ciphertext for each pixel, a slot for each image."""

    kind = "network.batch"
    title = "a ciphertext for each pixel, a slot for each image"

    def __init__(self, network: Network, parameters: Any, complete: bool = True) -> None:
        super().__init__(parameters, complete)
        self.network = network

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> BatchForm:
        """Creates the model from a file's fields and arrays."""
        return _constructed(lambda: cls(_network(description, arrays), parameters, arrays is not None))

    def described(self) -> dict[str, Any]:
        """Returns the network."""
        return _network_fields(self.network)

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return {"relinearize": True}

    @property
    def items(self) -> int:
        """The number of slots."""
        return int(self.parameters.slots)

    @property
    def request_shape(self) -> tuple[int, ...]:
        """A ciphertext for each pixel."""
        return self.network.shapes()[0]

    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """Returns quantized pixels [..., images]."""
        return self.network.arrange(images, unchecked=unchecked)

    def runner(self, parameters: Any) -> Callable[[Tensor, StageProgress | None], Tensor]:
        """Returns `Network.evaluate`."""
        return self.network.evaluate

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> npt.NDArray[Any]:
        """Returns scores [images, classes]."""
        values = _logits(secret, tensor)
        if values.ndim != 2 or len(values) != self.network.classes:
            raise _core.ShapeError(
                f"an answer of {self.network.name} must have shape ({self.network.classes},), not {values.shape[:-1]}"
            )
        return np.ascontiguousarray(values.T)


class _SlotsForm(_NetworkForm):
    """A layout of images in the slots."""

    layout: Any

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for the layout's keys."""
        needs: dict[str, Any] = self.layout.needs
        return needs

    @property
    def items(self) -> int:
        """The layout's number of images."""
        return int(self.layout.images)

    @property
    def request_shape(self) -> tuple[int, ...]:
        """A ciphertext for each offset of the first kernel."""
        first = self.network.layers[0]
        return (math.prod(first.weight.shape[1:]),) if first.convolution else ()

    def runner(self, parameters: Any) -> Callable[[Tensor, StageProgress | None], Tensor]:
        """Returns the function of the layout's server."""
        server = self.layout.server(parameters)
        return lambda x, _: server.run(x)

    def decrypted(self, secret: Any, tensor: Any, unchecked: bool = False) -> npt.NDArray[Any]:
        """Returns scores [images, classes]."""
        values = _logits(secret, tensor)
        if values.shape != (self.parameters.slots,):
            raise _core.ShapeError(
                f"an answer of {self.network.name} must be one ciphertext, not of shape {values.shape[:-1]}"
            )
        scores: npt.NDArray[Any] = self.layout.unpack(values).reshape(self.items, self.network.classes)
        return scores


@form
class PackedForm(_SlotsForm):
    """One image at low latency."""

    kind = "network.packed"
    title = "one image packed into the slots, at low latency"

    def __init__(self, layout: PackedNetwork, parameters: Any, complete: bool = True) -> None:
        super().__init__(parameters, complete)
        _require_shape(layout.network, ([True, False, False], [False, False]))
        if layout.n != parameters.slots:
            raise _core.ParameterError(f"the set must have {layout.n:,} slots, as the layout, not {parameters.slots:,}")
        self.layout, self.network = layout, layout.network

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> PackedForm:
        """Creates the model from a file's fields and arrays. Checks the file's copies and period, then uses them.""" ""
        fields = fields_of(description, "network", "copies", "period")
        copies_and_period = count_in(fields["copies"], "number of copies", 1), count_in(fields["period"], "period", 1)
        network = _network(fields["network"], arrays)

        def make() -> PackedForm:
            _require_shape(network, ([True, False, False], [False, False]))
            return cls(PackedNetwork(network, parameters.slots, copies_and_period), parameters, arrays is not None)

        return _constructed(make)

    def described(self) -> dict[str, Any]:
        """Returns the network with the copies and the period of its inputs."""
        return {"network": _network_fields(self.network), "copies": self.layout.copies, "period": self.layout.period}

    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """Returns the packed pixels of one image."""
        values: Int64Array = self.layout.pack(images[0], unchecked=unchecked)
        return values


@form
class TiledForm(_SlotsForm):
    """Some images in a small ring."""

    kind = "network.tiled"
    title = "images tiled over the slots, in the smallest ring"

    def __init__(self, layout: TiledNetwork, parameters: Any, complete: bool = True) -> None:
        super().__init__(parameters, complete)
        _require_shape(layout.network, ([True, False],))
        if layout.n != parameters.slots:
            raise _core.ParameterError(f"the set must have {layout.n:,} slots, as the layout, not {parameters.slots:,}")
        self.layout, self.network = layout, layout.network

    @classmethod
    def read(cls, description: Any, arrays: Arrays | None, parameters: Any) -> TiledForm:
        """Creates the model from a file's fields and arrays."""
        network = _network(description, arrays)
        return _constructed(lambda: cls(TiledNetwork(network, parameters.slots), parameters, arrays is not None))

    def described(self) -> dict[str, Any]:
        """Returns the network."""
        return _network_fields(self.network)

    def packed(self, images: Int64Array, unchecked: bool = False) -> Int64Array:
        """Returns the tiled pixels of images."""
        values: Int64Array = self.layout.pack(images, unchecked=unchecked)
        return values


def _constructed(make: Callable[[], F]) -> F:
    """Creates a model from a file's fields. Errors of its arguments become DamagedFileError."""
    try:
        return make()
    except (_core.ParameterError, _core.DtypeError, _core.ShapeError) as error:
        raise _damaged(str(error)) from None


#: Bits by which the noise bounds of version 0.2 (failure 2^-64) are smaller than the present ones (2^-128), for three
#: factors in a network's noise. Models of version 0.2 have sets for its bounds; their answers are decrypted by the measured
#: noise (`_logits`).
_FORMER_BITS = 1.2


def _logits(secret: Any, tensor: Any) -> npt.NDArray[Any]:
    """Decrypts a network's answer."""
    # Unchecked: logits fit by `Network.require_fit` (twice the largest observed), not by the far larger worst-case bound.
    values: npt.NDArray[Any] = secret.decrypt(tensor, beyond_estimate=True, unchecked=True)
    return values


# Export


def _searched(network: Network, layout: PackedNetwork | TiledNetwork | None) -> Any:
    """Returns the set of a shipped network, or the smallest set for another network."""
    kind = None if layout is None else type(layout)
    for setup in SETUPS.values():
        if setup.kind is kind and setup.load() is network and (layout is None or layout.n == setup.n):
            return setup.parameters()
    bits = network.plain_bits  # by the largest observed logits, not the worst case; hence exact=False
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


def _export_batch(network: Network, path: Any, parameters: bfv.Parameters | None = None, **texts: Any) -> ModelBundle:
    parameter_set = _searched(network, None) if parameters is None else parameters
    return write(BatchForm(network, parameter_set), path, **texts)


def _export_packed(layout: PackedNetwork, path: Any, parameters: bfv.Parameters | None = None, **texts: Any) -> ModelBundle:
    parameter_set = _searched(layout.network, layout) if parameters is None else parameters
    return write(PackedForm(layout, parameter_set), path, **texts)


def _export_tiled(layout: TiledNetwork, path: Any, parameters: bfv.Parameters | None = None, **texts: Any) -> ModelBundle:
    parameter_set = _searched(layout.network, layout) if parameters is None else parameters
    return write(TiledForm(layout, parameter_set), path, **texts)


EXPORTERS.update({BatchForm.kind: _export_batch, PackedForm.kind: _export_packed, TiledForm.kind: _export_tiled})
