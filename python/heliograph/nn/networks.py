"""The shipped networks: linear layers with integer weights, and squares and sum pooling between them.

The networks run on encrypted and on clear tensors, with equal results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import Int64Array, absolute_sums, array_of, flag, from_residues, integers
from heliograph._common.clear_tensor import ClearTensor
from heliograph._common.exporters import export
from heliograph._common.functions import (
    conv2d,
    conv2d_square_pool,
    join_moduli,
    matmul,
    relinearize,
    shrink,
    split_moduli,
    square,
    sum_pool2d,
)
from heliograph._common.json import read_json
from heliograph._common.tensor import Progress, StageProgress
from heliograph.exact import EvaluationKeys, Parameters, Tensor

AnyTensor = TypeVar("AnyTensor", Tensor, ClearTensor)


@dataclass(frozen=True)
class Layer:
    """A linear layer with an optional square and sum pooling: a convolution if its weights have four axes, else dense.

    >>> [layer.name for layer in network.layers], network.layers[0].weight.shape
    (['dense1', 'dense2'], (32, 64))
    """

    name: str
    weight: Int64Array
    bias: npt.NDArray[Any]  #: int64, or Python integers beyond 64 bits
    stride: int = 1
    padding: int = 0  #: zeros around each map; if negative, pixels that are cropped at each border
    groups: int = 1
    square: bool = False  #: whether outputs are squared
    pool: int = 1  #: outputs are then summed over windows of pool x pool

    @property
    def convolution(self) -> bool:
        """Whether the layer is a convolution."""
        return self.weight.ndim == 4

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the output for an input of `shape`.

        >>> nn.load("hcnn5").layers[0].output_shape((1, 28, 28))
        (5, 12, 12)
        """
        channels, *lengths = self.linear_shape(shape)
        return (channels, *(length // self.pool for length in lengths))

    def linear_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the output before pooling.

        >>> nn.load("hcnn5").layers[0].linear_shape((1, 28, 28))
        (5, 12, 12)
        """
        if not self.convolution:
            return (self.weight.shape[0],)
        lengths = [
            (length + 2 * self.padding - kernel) // self.stride + 1
            for length, kernel in zip(shape[1:], self.weight.shape[2:], strict=True)
        ]
        return (self.weight.shape[0], *lengths)

    def apply(self, x: AnyTensor, progress: Progress | None = None) -> AnyTensor:
        """Returns weight * x + bias, in one call of the engine. A layer with pooling also squares and pools.

        >>> x = hg.ClearTensor(network.arrange([image]))
        >>> network.layers[0].apply(x).shape
        (32,)
        """
        if not self.convolution:
            return matmul(self.weight, x.reshape(-1), self.bias, progress=progress)
        if self.padding < 0:
            x = x[:, -self.padding : self.padding, -self.padding : self.padding]
        padding = max(0, self.padding)
        how: dict[str, Any] = {"stride": self.stride, "padding": padding, "groups": self.groups, "progress": progress}
        if self.square and self.pool > 1:
            return conv2d_square_pool(x, self.weight, self.bias, pool=self.pool, **how)
        return sum_pool2d(conv2d(x, self.weight, self.bias, **how), self.pool)

    def padded(self, images: Int64Array) -> Int64Array:
        """Pads images [count, height, width] with zeros, or crops them for a negative padding.

        >>> nn.load("mnist-packed").layers[0].padded(np.zeros((1, 28, 28), dtype=int)).shape
        (1, 30, 30)
        >>> nn.load("mnist-small").layers[0].padded(np.zeros((1, 28, 28), dtype=int)).shape
        (1, 26, 26)
        """
        if self.padding < 0:
            return images[:, -self.padding : self.padding, -self.padding : self.padding]
        return np.pad(images, ((0, 0), (self.padding,) * 2, (self.padding,) * 2))

    def bound(self, largest: int) -> int:
        """Returns an upper bound on the magnitude of outputs for inputs of magnitude up to `largest`.

        >>> network.layers[0].bound(network.levels) > network.levels
        True
        """
        rows = absolute_sums(self.weight)
        linear = max(row * largest + abs(int(b)) for row, b in zip(rows, self.bias, strict=True))
        return (linear * linear if self.square else linear) * self.pool**2


@dataclass(frozen=True)
class Counts:
    """Ciphertext operations of one evaluation, for any number of images.

    >>> network.counts()
    Counts(inputs=64, products=32, constants=2368, additions=2326, biases=42, relinearizations=10)
    """

    inputs: int
    products: int  #: products of two ciphertexts
    constants: int  #: products of a ciphertext and an integer
    additions: int  #: sums of two ciphertexts
    biases: int  #: sums of a ciphertext and an integer
    relinearizations: int


@dataclass(frozen=True)
class Network:
    """A network: layers with integer weights. It is immutable.

    >>> network.name, network.image, network.classes
    ('digits', (8, 8), 10)
    >>> network.shapes()
    [(1, 8, 8), (32,), (10,)]
    """

    name: str
    layers: tuple[Layer, ...]
    image: tuple[int, ...]  #: shape of one image: (height, width), or (channels, height, width)
    meta: dict[str, Any]  #: data on the training, the accuracy, and the largest logit on the training images

    @property
    def classes(self) -> int:
        """Number of logits."""
        return int(self.layers[-1].weight.shape[0])

    @property
    def levels(self) -> int:
        """Largest value of a quantized pixel."""
        return int(self.meta["input"]["levels"])

    @property
    def top(self) -> int:
        """Largest value of a pixel of an image."""
        return int(self.meta["input"].get("top", 16 if self.image == (8, 8) else 255))

    @property
    def plain_bits(self) -> int:
        """Bits of a plaintext modulus that exceeds four times the largest logit of the training images."""
        return math.ceil(math.log2(4 * int(self.meta["max_abs_logit_training"])))

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for its keys."""
        return {"relinearize": True}

    def quantize(self, images: npt.ArrayLike, *, unchecked: bool = False) -> Int64Array:
        """Quantizes images (count, *image) with pixels 0 ... `top` to integers 0 ... `levels`, rounding to nearest.

        Raises DtypeError, ShapeError, and PlaintextRangeError for pixels with fractions or outside 0 ... `top`, whose logits
        may be wrong. ``unchecked=True`` allows pixels outside 0 ... `top`.

        >>> int(network.quantize([image]).max()), network.levels
        (8, 8)
        """
        values, top = array_of(images, "images"), self.top
        if values.shape[1:] != self.image:
            raise _core.ShapeError(f"{self.name} takes images of shape {self.image}, not {values.shape[1:]}")
        if values.dtype.kind == "f":
            if not np.array_equal(values, np.rint(values)):  # NaN differs from itself
                raise _core.PlaintextRangeError(f"pixels must be integers from 0 to {top}; these have fractions or NaN")
            values = np.clip(values, -(2.0**62), 2.0**62).astype(np.int64)  # larger values are outside too
        values = integers(values, "images")
        if not flag(unchecked, "unchecked") and (values.min(initial=0) < 0 or values.max(initial=0) > top):
            rows = values.reshape(len(values), -1)
            row = int(((rows < 0) | (rows > top)).any(1).argmax())
            raise _core.PlaintextRangeError(
                f"row {row}: pixels must be integers from 0 to {top}, not {rows[row].min()} to {rows[row].max()}; scale "
                "them, or pass unchecked=True to use them anyway"
            )
        return (values * self.levels + top // 2) // top

    def arrange(self, images: npt.ArrayLike, *, unchecked: bool = False) -> Int64Array:
        """Returns quantized pixels [channels, height, width, count], whose last axis becomes the slots. Raises as
        `quantize`.

        >>> network.arrange([image, image]).shape  # a ciphertext for each pixel, a slot for each image
        (1, 8, 8, 2)
        """
        return np.moveaxis(self.quantize(images, unchecked=unchecked), 0, -1).reshape(*self.shapes()[0], -1)

    def blank(self) -> Int64Array:
        """Returns one image of zeros.

        >>> network.blank().shape
        (1, 8, 8)
        """
        return np.zeros((1, *self.image), dtype=np.int64)

    def squares_before(self, index: int) -> bool:
        """Tells whether layer `index` squares its input: the previous layer's square, unless that layer computed it for
        pooling.

        >>> [network.squares_before(i) for i in range(len(network.layers))]
        [False, True]
        """
        before = self.layers[index - 1]
        return index > 0 and before.square and before.pool == 1

    def relinearizes_before(self, index: int) -> bool:
        """Tells whether squares are relinearized before layer `index` (if the layer has more outputs than inputs) or after
        it.

        >>> [network.relinearizes_before(i) for i in range(len(network.layers))]
        [False, False]
        """
        shape = self.shapes()[index]
        return self.squares_before(index) and math.prod(shape) < math.prod(self.layers[index].linear_shape(shape))

    def shapes(self) -> list[tuple[int, ...]]:
        """Returns the shape of the input, then that of each layer's output.

        >>> network.shapes()
        [(1, 8, 8), (32,), (10,)]
        """
        shapes: list[tuple[int, ...]] = [(1, *self.image) if len(self.image) == 2 else self.image]
        for layer in self.layers:
            shapes.append(layer.output_shape(shapes[-1]))
        return shapes

    def counts(self) -> Counts:
        """Returns the ciphertext operations of `evaluate`, including those with zero weights.

        >>> network.counts()
        Counts(inputs=64, products=32, constants=2368, additions=2326, biases=42, relinearizations=10)
        """
        sizes = [math.prod(shape) for shape in self.shapes()]
        products = constants = additions = biases = relinearized = 0
        for index, layer in enumerate(self.layers):
            outputs = math.prod(layer.linear_shape(self.shapes()[index]))
            terms = math.prod(layer.weight.shape[1:])
            constants += outputs * terms
            additions += outputs * (terms - 1) + outputs - sizes[index + 1]  # additions of the products, then of the pooling
            biases += outputs
            products += outputs if layer.square else 0
            if layer.square and layer.pool > 1:
                relinearized += sizes[index + 1]
            if self.squares_before(index):
                relinearized += sizes[index] if self.relinearizes_before(index) else sizes[index + 1]
        return Counts(sizes[0], products, constants, additions, biases, relinearized)

    def evaluate(self, x: AnyTensor, progress: StageProgress | None = None) -> AnyTensor:
        """Returns logits (classes,) of x (channels, height, width), at the smallest modulus that their noise allows.

        Pass the tensor without keeping a reference (``evaluate(server.load(path))``): each layer's input is freed after use,
        which halves the memory. Plaintext moduli are computed one after another. Logits of a tensor with some of the moduli
        keep their level; shrink them after joining (``shrink(join_moduli(...))``).

        >>> setup = nn.setup("digits-batch")
        >>> secret = hg.SecretKey.generate(setup.parameters())
        >>> server = hg.Server(secret.evaluation_keys(**setup.keys()))
        >>> logits = secret.decrypt(network.evaluate(server.bind(secret.encrypt(network.arrange([image]), pad=True))))[:, 0]
        >>> np.array_equal(logits, network.clear_logits([image])[0])
        True
        """
        parts = split_moduli(x)
        del x
        return self.evaluate_moduli((parts.pop(0) for _ in range(len(parts))), progress)

    def evaluate_moduli(self, parts: Iterable[AnyTensor], progress: StageProgress | None = None) -> AnyTensor:
        """Returns logits of a tensor that is split by plaintext moduli (`split_moduli`).

        Each part is freed before the next is taken from the iterable. If the iterable makes parts one by one
        (``secret.encrypt(..., moduli=range(k, k + 1))``), only one is in memory at a time.

        >>> x = hg.ClearTensor(network.arrange([image]))
        >>> network.evaluate_moduli([x]).shape
        (10,)
        """
        source, answers = iter(parts), []
        while True:
            try:
                answers.append(self._logits([next(source)], progress))
            except StopIteration:
                return _shrunk(join_moduli(answers))

    def _logits(self, inputs: list[AnyTensor], progress: StageProgress | None) -> AnyTensor:
        x = inputs.pop()  # the only reference, so that the input is freed after its use
        where = _which_moduli(x)

        def watch(what: str) -> Progress | None:
            return None if progress is None else lambda share: progress(what + where, share)

        for index, layer in enumerate(self.layers):
            if not self.squares_before(index):
                x = layer.apply(x, watch(layer.name))
            elif not layer.convolution and not self.relinearizes_before(index):
                x = _dense_of_squares(layer, x, watch)
            else:
                x = square(x, progress=watch("square"))
                if self.relinearizes_before(index):
                    x = relinearize(x, progress=watch("relinearize"))
                x = layer.apply(x, watch(layer.name))
            x = relinearize(x, progress=watch("relinearize"))
        return x

    def worst_case(self) -> int:
        """Returns an upper bound on the magnitude of logits of any image.

        >>> network.worst_case() > 0
        True
        """
        largest = self.levels
        for layer in self.layers:
            largest = layer.bound(largest)
        return largest

    def clear_logits(self, images: npt.ArrayLike, progress: Progress | None = None) -> npt.NDArray[Any]:
        """Returns logits [count, classes] of images, computed in the clear by the integer network.

        The logits are int64, or Python integers if `worst_case` exceeds 63 bits; such large logits are computed modulo
        several primes.

        >>> network.clear_logits([image, image]).shape
        (2, 10)
        """
        values = array_of(images, "images")
        bits = self.worst_case().bit_length() + 1
        moduli = _core.exact.batching_primes(1024, bits, -(-bits // 29)) if bits > 63 else []
        chunk = self._clear_chunk()
        parts: list[npt.NDArray[Any]] = []
        for first in range(0, len(values), chunk):
            x = self.arrange(values[first : first + chunk])
            if moduli:
                residues = [self.evaluate(ClearTensor(x, t)).values.T % t for t in moduli]
                parts.append(from_residues(np.stack(residues), moduli))
            else:
                parts.append(self.evaluate(ClearTensor(x)).values.T)
            if progress:
                progress(min(1.0, (first + chunk) / len(values)))
        return np.concatenate(parts) if parts else np.zeros((0, self.classes), dtype=np.int64)

    def _clear_chunk(self) -> int:
        """Returns the images of one clear run, which stores each input of each output of the largest convolution."""
        shapes = self.shapes()
        largest = max(
            math.prod(layer.linear_shape(shape)[1:]) * math.prod(layer.weight.shape[1:])
            for layer, shape in zip(self.layers, shapes[:-1], strict=True)
        )
        return max(1, min(1000, (1 << 24) // largest))

    def noise_budget(self, parameters: Parameters) -> float:
        """Returns the noise budget of the logits in bits, by the noise model; negative if it is exhausted.

        >>> network.noise_budget(nn.setup("digits-batch").parameters()) > 0
        True
        """
        core = parameters._core.on_device("null")
        secret = _core.exact.SecretKey.generate(core)
        largest = int(np.argmax(parameters.plain_moduli))  # the modulus with the smallest budget
        x = secret.encrypt(self.arrange(self.blank()), "slots", None, largest, 1)
        keys = EvaluationKeys(secret.evaluation_keys(True, [], False))
        return float(self._logits([Tensor(x, keys)], None)._core.noise_budget)

    def require_fit(self, parameters: Parameters) -> None:
        """Raises ParameterError if a set cannot hold the logits or its noise budget does not suffice.

        >>> network.require_fit(nn.setup("digits-batch").parameters())
        """
        if not parameters.has_slots:
            raise _core.ParameterError(f"{self.name} needs a set with slots, and {parameters!r} has none")
        bits, room = self.plain_bits, math.log2(parameters.plain_modulus)
        if room < bits - 1:  # the plaintext moduli must hold twice the largest observed logit
            raise _core.ParameterError(
                f"the plaintext moduli must have at least {bits - 1} bits for the logits of {self.name}, not {room:.0f}"
            )
        budget = self.noise_budget(parameters)
        if budget < 0:
            raise _core.ParameterError(f"{self.name} needs {-budget:.0f} more bits of noise budget than {parameters!r} has")

    def memory(self, parameters: Parameters) -> int:
        """Returns the peak memory of `evaluate_moduli`, in bytes.

        The peak is that of one plaintext modulus's ciphertexts of a layer and their squares; a layer with pooling squares
        one channel at a time.

        >>> network.memory(nn.setup("digits-batch").parameters()) > 0
        True
        """
        shapes = self.shapes()
        sizes = [math.prod(shape) for shape in shapes]
        one, two = (parameters.ciphertext_bytes(degree) // len(parameters.plain_moduli) for degree in (1, 2))
        moments = []
        for index, layer in enumerate(self.layers):
            both = (sizes[index] + sizes[index + 1]) * one
            if layer.square and layer.pool > 1:
                channels = layer.weight.shape[0] // layer.groups if layer.groups > 1 else 1
                both += channels * math.prod(layer.linear_shape(shapes[index])[1:]) * (one + two)
            moments.append(both)
            if self.squares_before(index):
                parts = 1 if self.relinearizes_before(index) or sizes[index] * one < _MANY else _PARTS
                moments.append(sizes[index] * (one + two // parts))
        return max(moments) * 9 // 8 + (1 << 28)  # adds 1/8 for fragmentation, and the interpreter's memory

    def export(self, path: Any, *, parameters: Parameters | None = None, **texts: Any) -> Any:
        """Writes the network as a model bundle (`hg.ModelBundle`) for many images at once, one in each slot. Returns that
        model.

        `parameters` is its set; by default the shipped network's own, else the smallest that `parameters_for` finds. Further
        options are `name`, its name in a service (by default the file's), `version` ("1"), `title` and `labels` of the
        scores. Raises ParameterError for a set that `require_fit` refuses, OSError.

        >>> model = network.export("digits.hgm", labels="zero one two three four five six seven eight nine".split())
        >>> model.inputs[0].items, model.predict(network.clear_logits([np.zeros((8, 8), dtype=int)])).shape
        (4096, (1,))
        """
        return export("network.batch", self, path, parameters=parameters, **texts)


def _shrunk(x: AnyTensor) -> AnyTensor:
    """Shrinks x to the smallest modulus that its noise allows, unless x lacks some of the plaintext moduli."""
    some = isinstance(x, Tensor) and len(x.plain_moduli) < len(x.parameters.plain_moduli)
    return x if some else shrink(x)


def _which_moduli(x: Tensor | ClearTensor) -> str:
    """Names the plaintext modulus of x for progress, if there are several."""
    if isinstance(x, ClearTensor) or len(x.parameters.plain_moduli) == 1:
        return ""
    return f", modulus {x._core.first_modulus + 1} of {len(x.parameters.plain_moduli)}"


def _dense_of_squares(layer: Layer, x: AnyTensor, watch: Callable[[str], Progress | None]) -> AnyTensor:
    """Applies a dense layer to the squares of x, with a result of degree two.

    Many squares are computed in parts, to save memory.
    """
    flat = x.reshape(-1)
    many = isinstance(flat, Tensor) and flat.nbytes >= _MANY and 4 * flat.nbytes > flat.parameters.free_memory
    parts = min(_PARTS, flat.size) if many else 1
    result: AnyTensor | None = None
    for part in range(parts):
        part_of_inputs = slice(flat.size * part // parts, flat.size * (part + 1) // parts)
        squares = square(flat[part_of_inputs], progress=_share(watch("square"), part, parts))
        bias = layer.bias if part == 0 else None
        product = matmul(layer.weight[:, part_of_inputs], squares, bias, progress=watch(layer.name))
        result = product if result is None else result + product
    assert result is not None
    return result


def _share(progress: Progress | None, part: int, parts: int) -> Progress | None:
    return None if progress is None else lambda share: progress((part + share) / parts)


_PARTS, _MANY = 8, 1 << 29  # bytes


@dataclass(frozen=True)
class _Plan:
    """The geometry of a network, which its weight file lacks. By default all layers but the last are squared."""

    image: tuple[int, ...]
    layers: tuple[tuple[str, dict[str, Any]], ...]


_PLANS = {
    "hcnn5": _Plan((28, 28), (("conv1", {"stride": 2}), ("conv2", {"stride": 2}), ("dense", {}))),
    "hcnn5-paper": _Plan((28, 28), (("conv1", {"stride": 2}), ("conv2", {"stride": 2, "groups": 5}), ("dense", {}))),
    "mnist-packed": _Plan((28, 28), (("conv1", {"stride": 2, "padding": 1}), ("dense1", {}), ("dense2", {}))),
    "mnist-small": _Plan((28, 28), (("conv1", {"stride": 2, "padding": -1}), ("dense", {}))),
    "digits": _Plan((8, 8), (("dense1", {}), ("dense2", {}))),
    "hcnn11": _Plan(
        (3, 32, 32),
        (
            ("conv1", {"padding": 1, "pool": 2}),
            ("conv2", {"padding": 1, "pool": 2}),
            ("conv3", {"padding": 1, "pool": 2}),
            ("dense1", {"square": False}),
            ("dense2", {}),
        ),
    ),
}


def _weights(name: str) -> Traversable:
    return resources.files("heliograph.nn") / "weights" / f"{name}.npz"


def names() -> list[str]:
    """Returns the names of the shipped networks.

    >>> "digits" in nn.names()
    True
    """
    return [name for name in _PLANS if _weights(name).is_file()]


@cache
def load(name: str) -> Network:
    """Returns a shipped network. Raises ParameterError for an unknown name.

    >>> nn.load("hcnn5").classes
    10
    """
    if name not in names():
        raise _core.ParameterError(f'there is no network "{name}"; the shipped networks are {", ".join(names())}')
    with _weights(name).open("rb") as stream:
        return read(stream, name)


def read(stream: IO[bytes], name: str) -> Network:
    """Reads a network from an .npz file in the format of the shipped ones (see examples/integer_network.py)."""
    plan = _PLANS[name]
    last = plan.layers[-1][0]
    with np.load(stream, allow_pickle=False) as arrays:
        meta = read_json(str(arrays["meta"]))
        layers = tuple(
            Layer(
                layer,
                _frozen(arrays[f"{layer}_weight"]),
                _frozen(_integers(arrays[f"{layer}_bias"])),
                **({"square": layer != last} | how),
            )
            for layer, how in plan.layers
        )
    return Network(name, layers, plan.image, meta)


def _integers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns stored integers, which are decimal strings if some exceed 64 bits."""
    return values if values.dtype.kind != "U" else np.array([int(v) for v in values], dtype=object)


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = values.copy() if values.dtype == object else values.astype(np.int64)
    array.flags.writeable = False
    return array
