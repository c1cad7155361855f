"""The shipped networks: integer weights, the square between layers, nothing else.

They run on tensors and on clear tensors alike, with equal results: what is clear is what the encrypted run must give.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, bfv
from heliograph._arrays import Int64Array
from heliograph.clear import ClearTensor
from heliograph.functions import AnyTensor, conv2d, matmul, relinearize, shrink, square
from heliograph.tensor import Tensor

#: Called with what is being computed and the share of it done, 0 to 1.
StageProgress = Callable[[str, float], None]


@dataclass(frozen=True)
class Layer:
    """One linear layer: a convolution where its weights have four axes, else dense."""

    name: str
    weight: Int64Array
    bias: Int64Array
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def convolution(self) -> bool:
        """Whether it convolves."""
        return self.weight.ndim == 4

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the output for an input of `shape`."""
        if not self.convolution:
            return (self.weight.shape[0],)
        sides = [
            (side + 2 * self.padding - kernel) // self.stride + 1
            for side, kernel in zip(shape[1:], self.weight.shape[2:], strict=True)
        ]
        return (self.weight.shape[0], *sides)

    def apply(self, x: AnyTensor, progress: Callable[[float], None] | None = None) -> AnyTensor:
        """weight * x + bias, one engine call."""
        if not self.convolution:
            return matmul(self.weight, x.reshape(-1), self.bias, progress=progress)
        return conv2d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            groups=self.groups,
            progress=progress,
        )


@dataclass(frozen=True)
class Counts:
    """What one evaluation does, in ciphertext operations, whatever the batch."""

    inputs: int
    products: int  #: ciphertext times ciphertext
    constants: int  #: ciphertext times integer
    relinearizations: int


@dataclass(frozen=True)
class Network:
    """Integer weights and how they are used. Immutable."""

    name: str
    layers: tuple[Layer, ...]
    image: tuple[int, ...]  #: shape of one image
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
    def plain_bits(self) -> int:
        """Bits of a plaintext modulus of more than four times the largest logit of the training images."""
        return math.ceil(math.log2(4 * int(self.meta["max_abs_logit_training"])))

    def quantize(self, images: npt.ArrayLike) -> Int64Array:
        """Images of 0 ... `top` (255; 16 for digits), (count, height, width), as integers 0 ... levels, to nearest."""
        values = np.asarray(images)
        top = int(self.meta["input"].get("top", 16 if self.image == (8, 8) else 255))
        if values.shape[1:] != self.image:
            raise _core.ShapeError(f"{self.name} takes images of shape {self.image}, not {values.shape[1:]}")
        return (values.astype(np.int64) * self.levels + top // 2) // top

    def arrange(self, images: npt.ArrayLike) -> Int64Array:
        """Quantized pixels [1, height, width, count]: one pixel a ciphertext, one image a slot."""
        return np.moveaxis(self.quantize(images), 0, -1)[None]

    def blank(self) -> Int64Array:
        """One image of zeros, (1, height, width)."""
        return np.zeros((1, *self.image), dtype=np.int64)

    def relinearizes_before(self, index: int) -> bool:
        """Whether squares are relinearized before layer `index`, or its fewer outputs after it."""
        shapes = self.shapes()
        return index > 0 and math.prod(shapes[index]) < math.prod(shapes[index + 1])

    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of the input, then of each layer's output."""
        shapes: list[tuple[int, ...]] = [(1, *self.image)]
        for layer in self.layers:
            shapes.append(layer.output_shape(shapes[-1]))
        return shapes

    def counts(self) -> Counts:
        """Ciphertext operations of `evaluate`, zero weights included."""
        shapes = self.shapes()
        sizes = [math.prod(shape) for shape in shapes]
        constants = sum(size * math.prod(layer.weight.shape[1:]) for layer, size in zip(self.layers, sizes[1:], strict=True))
        relinearized = sum(
            sizes[index] if self.relinearizes_before(index) else sizes[index + 1] for index in range(1, len(self.layers))
        )
        return Counts(sizes[0], sum(sizes[1:-1]), constants, relinearized)

    def evaluate(self, x: AnyTensor, progress: StageProgress | None = None) -> AnyTensor:
        """Logits (classes,) of x (1, height, width), in as small a modulus as their noise allows.

        Hand the tensor over without keeping it (``evaluate(server.load(path))``): each layer's input is dropped
        when it is used up, which halves the memory needed.
        """

        def watch(what: str) -> Callable[[float], None] | None:
            return None if progress is None else lambda share: progress(what, share)

        for index, layer in enumerate(self.layers):
            if index and not layer.convolution and not self.relinearizes_before(index):
                x = _dense_of_squares(layer, x, watch)
            elif index:
                x = square(x, progress=watch("square"))
                if self.relinearizes_before(index):
                    x = relinearize(x, progress=watch("relinearize"))
                x = layer.apply(x, watch(layer.name))
            else:
                x = layer.apply(x, watch(layer.name))
            if index + 1 < len(self.layers):
                x = relinearize(x, progress=watch("relinearize"))
        return shrink(relinearize(x, progress=watch("relinearize")))

    def clear_logits(self, images: npt.ArrayLike) -> Int64Array:
        """Logits [count, classes] of the integer network itself, unencrypted."""
        values = np.asarray(images)
        parts = [
            self.evaluate(ClearTensor(self.arrange(values[first : first + 1000]))).values.T
            for first in range(0, len(values), 1000)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.classes), dtype=np.int64)

    def memory(self, parameters: bfv.Parameters) -> int:
        """Bytes `evaluate` needs at its worst moment: a layer's ciphertexts beside their squares."""
        sizes = [math.prod(shape) for shape in self.shapes()]
        one, two = parameters.ciphertext_bytes(1), parameters.ciphertext_bytes(2)
        moments = [(sizes[0] + sizes[1]) * one]
        for index in range(1, len(self.layers)):
            squares = sizes[index] * (one + two)
            if not self.relinearizes_before(index) and sizes[index] * one >= _MANY:
                squares = sizes[index] * (one + two // _PARTS)
            moments += [squares, (sizes[index] + sizes[index + 1]) * one]
        return max(moments) * 9 // 8 + (1 << 28)  # an eighth for rooms that do not fit, and the interpreter


def _dense_of_squares(layer: Layer, x: AnyTensor, watch: Callable[[str], Callable[[float], None] | None]) -> AnyTensor:
    """A dense layer of x squared, left at degree two, in parts where the squares are many: they need not all be kept."""
    flat = x.reshape(-1)
    parts = min(_PARTS, flat.size) if isinstance(flat, Tensor) and flat.nbytes >= _MANY else 1
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
    """What the weight file does not say."""

    image: tuple[int, int]
    layers: tuple[tuple[str, dict[str, int]], ...]


_PLANS = {
    "hcnn5": _Plan((28, 28), (("conv1", {"stride": 2}), ("conv2", {"stride": 2}), ("dense", {}))),
    "hcnn5-paper": _Plan(
        (28, 28),
        (("conv1", {"stride": 2}), ("conv2", {"stride": 2, "groups": 5}), ("dense", {})),
    ),
    "mnist-packed": _Plan((28, 28), (("conv1", {"stride": 2, "padding": 1}), ("dense1", {}), ("dense2", {}))),
    "digits": _Plan((8, 8), (("dense1", {}), ("dense2", {}))),
}


def names() -> list[str]:
    """The shipped networks."""
    return list(_PLANS)


@cache
def load(name: str) -> Network:
    """A shipped network. Raises ParameterError for a name there is none of."""
    if name not in _PLANS:
        raise _core.ParameterError(f'there is no network "{name}"; there are {", ".join(_PLANS)}')
    plan = _PLANS[name]
    file = resources.files("heliograph.nn") / "weights" / f"{name}.npz"
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        meta = json.loads(str(arrays["meta"]))
        layers = tuple(
            Layer(layer, _frozen(arrays[f"{layer}_weight"]), _frozen(arrays[f"{layer}_bias"]), **how)
            for layer, how in plan.layers
        )
    return Network(name, layers, plan.image, meta)


def _frozen(values: npt.NDArray[Any]) -> Int64Array:
    array = values.astype(np.int64)
    array.flags.writeable = False
    return array
