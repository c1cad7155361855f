"""The shipped networks: integer weights, squares and sums over windows between layers, nothing else.

They run on tensors and on clear tensors alike, with equal results: what is clear is what the encrypted run must give.
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

from heliograph import _core, bfv
from heliograph._arrays import Int64Array, absolute_sums, array_of, flag, from_residues, integers
from heliograph._json import read_json
from heliograph._sealing import seal
from heliograph.clear import ClearTensor
from heliograph.exact import EvaluationKeys, Tensor
from heliograph.functions import (
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

AnyTensor = TypeVar("AnyTensor", Tensor, ClearTensor)
#: Called with what is being computed and the share of it done, 0 to 1.
StageProgress = Callable[[str, float], None]


@dataclass(frozen=True)
class Layer:
    """One linear layer and what is done to its outputs. A convolution where its weights have four axes, else dense.

    >>> [layer.name for layer in network.layers], network.layers[0].weight.shape
    (['dense1', 'dense2'], (32, 64))
    """

    name: str
    weight: Int64Array
    bias: npt.NDArray[Any]  #: int64, or Python's integers where 64 bits do not hold them
    stride: int = 1
    padding: int = 0  #: zeros around each map; negative: so many pixels at each border are left out
    groups: int = 1
    square: bool = False  #: its outputs are squared
    pool: int = 1  #: then summed over windows of pool x pool

    @property
    def convolution(self) -> bool:
        """Whether it convolves."""
        return self.weight.ndim == 4

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the output for an input of `shape`.

        >>> nn.load("hcnn5").layers[0].output_shape((1, 28, 28))
        (5, 12, 12)
        """
        channels, *sides = self.linear_shape(shape)
        return (channels, *(side // self.pool for side in sides))

    def linear_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Its shape before windows are summed.

        >>> nn.load("hcnn5").layers[0].linear_shape((1, 28, 28))
        (5, 12, 12)
        """
        if not self.convolution:
            return (self.weight.shape[0],)
        sides = [
            (side + 2 * self.padding - kernel) // self.stride + 1
            for side, kernel in zip(shape[1:], self.weight.shape[2:], strict=True)
        ]
        return (self.weight.shape[0], *sides)

    def apply(self, x: AnyTensor, progress: Callable[[float], None] | None = None) -> AnyTensor:
        """weight * x + bias, one engine call; and squares and sums of windows, where it has windows.

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
        """Images [count, height, width] as its windows see them: with zeros around, or less of the border.

        >>> nn.load("mnist-packed").layers[0].padded(np.zeros((1, 28, 28), dtype=int)).shape
        (1, 30, 30)
        >>> nn.load("mnist-small").layers[0].padded(np.zeros((1, 28, 28), dtype=int)).shape
        (1, 26, 26)
        """
        if self.padding < 0:
            return images[:, -self.padding : self.padding, -self.padding : self.padding]
        return np.pad(images, ((0, 0), (self.padding,) * 2, (self.padding,) * 2))

    def bound(self, largest: int) -> int:
        """What no output's absolute value exceeds where no input's exceeds `largest`.

        >>> network.layers[0].bound(network.levels) > network.levels
        True
        """
        rows = absolute_sums(self.weight)
        linear = max(row * largest + abs(int(b)) for row, b in zip(rows, self.bias, strict=True))
        return (linear * linear if self.square else linear) * self.pool**2


@dataclass(frozen=True)
class Counts:
    """What one evaluation does, in ciphertext operations, whatever the batch.

    >>> network.counts()
    Counts(inputs=64, products=32, constants=2368, additions=2326, biases=42, relinearizations=10)
    """

    inputs: int
    products: int  #: ciphertext times ciphertext
    constants: int  #: ciphertext times integer
    additions: int  #: ciphertext plus ciphertext
    biases: int  #: ciphertext plus integer
    relinearizations: int


@dataclass(frozen=True)
class Network:
    """Integer weights and how they are used. Immutable.

    >>> network.name, network.image, network.classes
    ('digits', (8, 8), 10)
    >>> network.shapes()
    [(1, 8, 8), (32,), (10,)]
    """

    name: str
    layers: tuple[Layer, ...]
    image: tuple[int, ...]  #: shape of one image: (height, width), or (channels, height, width)
    meta: dict[str, Any]  #: how it was trained, its accuracy, the largest logits seen

    @property
    def classes(self) -> int:
        """Number of logits."""
        return int(self.layers[-1].weight.shape[0])

    @property
    def levels(self) -> int:
        """Quantized pixels lie in 0 ... levels."""
        return int(self.meta["input"]["levels"])

    @property
    def top(self) -> int:
        """Pixels of images lie in 0 ... top."""
        return int(self.meta["input"].get("top", 16 if self.image == (8, 8) else 255))

    @property
    def plain_bits(self) -> int:
        """Bits of a plaintext modulus of more than four times the largest logit of the training images."""
        return math.ceil(math.log2(4 * int(self.meta["max_abs_logit_training"])))

    @property
    def needs(self) -> dict[str, Any]:
        """The arguments of `SecretKey.evaluation_keys` that make its keys."""
        return {"relinearize": True}

    def quantize(self, images: npt.ArrayLike, *, unchecked: bool = False) -> Int64Array:
        """Images of 0 ... `top` (255; 16 for digits), (count, *image), as integers 0 ... levels, to nearest.

        Pixels outside 0 ... `top` are a PlaintextRangeError, for their logits may be wrong, unless ``unchecked=True``. Pixels with a
        fraction are a PlaintextRangeError, too. Raises DtypeError, ShapeError besides.

        >>> int(network.quantize([image]).max()), network.levels
        (8, 8)
        """
        values, top = array_of(images, "images"), self.top
        if values.shape[1:] != self.image:
            raise _core.ShapeError(f"{self.name} takes images of shape {self.image}, not {values.shape[1:]}")
        if values.dtype.kind == "f":
            if not np.array_equal(values, np.rint(values)):  # NaN differs from itself
                raise _core.PlaintextRangeError(
                    f"pixels are whole numbers from 0 to {top}; these have fractions, or are no numbers"
                )
            values = np.clip(values, -(2.0**62), 2.0**62).astype(np.int64)  # beyond 62 bits all are outside
        values = integers(values, "images")
        if not flag(unchecked, "unchecked") and (values.min(initial=0) < 0 or values.max(initial=0) > top):
            rows = values.reshape(len(values), -1)
            row = int(((rows < 0) | (rows > top)).any(1).argmax())
            raise _core.PlaintextRangeError(
                f"row {row}: pixels are whole numbers from 0 to {top}; these go from {rows[row].min()} to {rows[row].max()}; scale them, or "
                "pass unchecked=True to use them anyway"
            )
        return (values * self.levels + top // 2) // top

    def arrange(self, images: npt.ArrayLike, *, unchecked: bool = False) -> Int64Array:
        """Quantized pixels [channels, height, width, count]: one pixel a ciphertext, one image a slot. Raises as `quantize`.

        >>> network.arrange([image, image]).shape  # one pixel a ciphertext, one image a slot
        (1, 8, 8, 2)
        """
        return np.moveaxis(self.quantize(images, unchecked=unchecked), 0, -1).reshape(*self.shapes()[0], -1)

    def blank(self) -> Int64Array:
        """One image of zeros.

        >>> network.blank().shape
        (1, 8, 8)
        """
        return np.zeros((1, *self.image), dtype=np.int64)

    def squares_before(self, index: int) -> bool:
        """Whether layer `index` takes the squares of what the layer before gives: no layer before made them.

        >>> [network.squares_before(i) for i in range(len(network.layers))]
        [False, True]
        """
        before = self.layers[index - 1]
        return index > 0 and before.square and before.pool == 1

    def relinearizes_before(self, index: int) -> bool:
        """Whether squares are relinearized before layer `index`, or its fewer outputs after it.

        >>> [network.relinearizes_before(i) for i in range(len(network.layers))]
        [False, False]
        """
        shape = self.shapes()[index]
        return self.squares_before(index) and math.prod(shape) < math.prod(self.layers[index].linear_shape(shape))

    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of the input, then of each layer's output.

        >>> network.shapes()
        [(1, 8, 8), (32,), (10,)]
        """
        shapes: list[tuple[int, ...]] = [(1, *self.image) if len(self.image) == 2 else self.image]
        for layer in self.layers:
            shapes.append(layer.output_shape(shapes[-1]))
        return shapes

    def counts(self) -> Counts:
        """Ciphertext operations of `evaluate`, zero weights included.

        >>> network.counts()
        Counts(inputs=64, products=32, constants=2368, additions=2326, biases=42, relinearizations=10)
        """
        sizes = [math.prod(shape) for shape in self.shapes()]
        products = constants = additions = biases = relinearized = 0
        for index, layer in enumerate(self.layers):
            outputs = math.prod(layer.linear_shape(self.shapes()[index]))
            terms = math.prod(layer.weight.shape[1:])
            constants += outputs * terms
            additions += outputs * (terms - 1) + outputs - sizes[index + 1]  # of products, then of windows
            biases += outputs
            products += outputs if layer.square else 0
            if layer.square and layer.pool > 1:
                relinearized += sizes[index + 1]
            if self.squares_before(index):
                relinearized += sizes[index] if self.relinearizes_before(index) else sizes[index + 1]
        return Counts(sizes[0], products, constants, additions, biases, relinearized)

    def evaluate(self, x: AnyTensor, progress: StageProgress | None = None) -> AnyTensor:
        """Logits (classes,) of x (channels, height, width), in as small a modulus as their noise allows.

        Hand the tensor over without keeping it (``evaluate(server.load(path))``): each layer's input is dropped
        when it is used up, which halves the memory needed. Of several plaintext moduli one is computed after the other;
        logits of some of the moduli keep their modulus until they are joined (``shrink(join_moduli(...))``).

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
        """The same of a tensor that comes split (`split_moduli`), each part dropped before the next is taken: made one by one
        (``secret.encrypt(..., moduli=range(k, k + 1))``), they are never all in memory.

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

    def _logits(self, held: list[AnyTensor], progress: StageProgress | None) -> AnyTensor:
        x = held.pop()  # nobody else has it
        where = _which_moduli(x)

        def watch(what: str) -> Callable[[float], None] | None:
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
        """What no logit of any image exceeds.

        >>> network.worst_case() > 0  # of any image
        True
        """
        largest = self.levels
        for layer in self.layers:
            largest = layer.bound(largest)
        return largest

    def clear_logits(self, images: npt.ArrayLike, progress: Callable[[float], None] | None = None) -> npt.NDArray[Any]:
        """Logits [count, classes] of the integer network itself, unencrypted: int64, or Python's integers where a logit of any
        image could exceed 63 bits (then computed modulo as many primes as its worst case needs).

        >>> network.clear_logits([image, image]).shape
        (2, 10)
        """
        values = array_of(images, "images")
        bits = self.worst_case().bit_length() + 1
        moduli = _core.batching_primes(1024, bits, -(-bits // 29)) if bits > 63 else []
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
        """Images to compute at a time: of the largest convolution, each input of each output is written out."""
        shapes = self.shapes()
        written = max(
            math.prod(layer.linear_shape(shape)[1:]) * math.prod(layer.weight.shape[1:])
            for layer, shape in zip(self.layers, shapes[:-1], strict=True)
        )
        return max(1, min(1000, (1 << 24) // written))

    def noise_budget(self, parameters: bfv.Parameters) -> float:
        """Bits of noise left in the logits, from the model: nothing is computed. Negative: so many are missing.

        >>> network.noise_budget(nn.setup("digits-batch").parameters()) > 0
        True
        """
        core = parameters._core.on_device("null")
        secret = _core.SecretKey.generate(core)
        largest = int(np.argmax(parameters.plain_moduli))  # the first to fail
        x = secret.encrypt(self.arrange(self.blank()), "slots", None, largest, 1)
        keys = EvaluationKeys(secret.evaluation_keys(True, [], False))
        return float(self._logits([Tensor(x, keys)], None)._core.noise_budget)

    def require_fit(self, parameters: bfv.Parameters) -> None:
        """Raises ParameterError for a set that cannot hold the logits, or whose noise would not last.

        >>> network.require_fit(nn.setup("digits-batch").parameters())  # else a ParameterError that says what is missing
        """
        if not parameters.has_slots:
            raise _core.ParameterError("this set has no slots, which networks need")
        bits, room = self.plain_bits, math.log2(parameters.plain_modulus)
        if room < bits - 1:  # twice the largest logit seen must fit
            raise _core.ParameterError(f"{self.name}'s logits take {bits - 1} bits; the plaintext moduli have {room:.0f}")
        budget = self.noise_budget(parameters)
        if budget < 0:
            raise _core.ParameterError(f"{self.name} needs {-budget:.0f} more bits of noise budget than {parameters!r} has")

    def memory(self, parameters: bfv.Parameters) -> int:
        """Bytes `evaluate_moduli` needs at its worst moment: one plaintext modulus' ciphertexts of a layer, beside their squares
        or, where windows are summed, one channel's.

        >>> network.memory(nn.setup("digits-batch").parameters()) > 0  # bytes
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
        return max(moments) * 9 // 8 + (1 << 28)  # an eighth for rooms that do not fit, and the interpreter

    def seal(self, path: Any, *, parameters: bfv.Parameters | None = None, **texts: Any) -> Any:
        """Writes it as a sealed model (`hg.SealedModel`) for many images at once, one a slot, and gives that model.

        `parameters`: the set it runs with; of a shipped network its own, else the smallest found. Besides: `name`, by which a
        service has it (the file's), `version` ("1"), `title`, and `labels` of the scores. Raises ParameterError for a set that cannot
        hold the logits or whose noise would not last, OSError.

        >>> model = network.seal("digits.hgm", labels="zero one two three four five six seven eight nine".split())
        >>> model.inputs[0].items, model.predict(network.clear_logits([np.zeros((8, 8), dtype=int)])).shape
        (4096, (1,))
        """
        return seal("network.batch", self, path, parameters=parameters, **texts)


def _shrunk(x: AnyTensor) -> AnyTensor:
    """In as small a modulus as the noise allows: one for all plaintext moduli, so where all are there."""
    some = isinstance(x, Tensor) and len(x.plain_moduli) < len(x.parameters.plain_moduli)
    return x if some else shrink(x)


def _which_moduli(x: Tensor | ClearTensor) -> str:
    """Which part of a tensor of several plaintext moduli this is."""
    if isinstance(x, ClearTensor) or len(x.parameters.plain_moduli) == 1:
        return ""
    return f", modulus {x._core.first_modulus + 1} of {len(x.parameters.plain_moduli)}"


def _dense_of_squares(layer: Layer, x: AnyTensor, watch: Callable[[str], Callable[[float], None] | None]) -> AnyTensor:
    """A dense layer of x squared, left at degree two, in parts where the squares are many: they need not all be kept."""
    flat = x.reshape(-1)
    many = isinstance(flat, Tensor) and flat.nbytes >= _MANY and 4 * flat.nbytes > flat.parameters.free_memory
    parts = min(_PARTS, flat.size) if many else 1
    result: AnyTensor | None = None
    for part in range(parts):
        chosen = slice(flat.size * part // parts, flat.size * (part + 1) // parts)
        squares = square(flat[chosen], progress=_share(watch("square"), part, parts))
        bias = layer.bias if part == 0 else None
        product = matmul(layer.weight[:, chosen], squares, bias, progress=watch(layer.name))
        result = product if result is None else result + product
    assert result is not None
    return result


def _share(progress: Callable[[float], None] | None, part: int, parts: int) -> Callable[[float], None] | None:
    return None if progress is None else lambda share: progress((part + share) / parts)


_PARTS, _MANY = 8, 1 << 29  # bytes


@dataclass(frozen=True)
class _Plan:
    """What the weight file does not say. All layers but the last are squared unless they say otherwise."""

    image: tuple[int, ...]
    layers: tuple[tuple[str, dict[str, Any]], ...]


_PLANS = {
    "hcnn5": _Plan((28, 28), (("conv1", {"stride": 2}), ("conv2", {"stride": 2}), ("dense", {}))),
    "hcnn5-paper": _Plan(
        (28, 28),
        (("conv1", {"stride": 2}), ("conv2", {"stride": 2, "groups": 5}), ("dense", {})),
    ),
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
    """The shipped networks.

    >>> "digits" in nn.names()
    True
    """
    return [name for name in _PLANS if _weights(name).is_file()]


@cache
def load(name: str) -> Network:
    """A shipped network. Raises ParameterError for a name there is none of.

    >>> nn.load("hcnn5").classes
    10
    """
    if name not in names():
        raise _core.ParameterError(f'there is no network "{name}"; there are {", ".join(names())}')
    with _weights(name).open("rb") as stream:
        return read(stream, name)


def read(stream: IO[bytes], name: str) -> Network:
    """A network's weights from an .npz file of the shipped ones' form (examples/integer_network.py describes it)."""
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
    """Integers as they are, or as decimal strings where 64 bits do not hold them all."""
    return values if values.dtype.kind != "U" else np.array([int(v) for v in values], dtype=object)


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = values.copy() if values.dtype == object else values.astype(np.int64)
    array.flags.writeable = False
    return array
