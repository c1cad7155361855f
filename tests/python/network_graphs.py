"""Small canonical graphs for tests of encrypted networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heliograph.ml.graph import Graph, Node


class Builder:
    """Makes a canonical graph node by node. Weights are drawn from a seeded generator."""

    def __init__(self, shape: tuple[int, ...], seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[str, tuple[int, ...]] = {"x": shape}
        self.nodes: list[Node] = []

    def _add(self, operation: str, inputs: tuple[str, ...], result: tuple[int, ...], /, **attributes: Any) -> str:
        name = f"{operation}{len(self.nodes)}"
        self.nodes.append(Node(operation, inputs, name, attributes, f"/{name}"))
        self.shapes[name] = result
        return name

    def convolution(
        self, x: str, outputs: int, kernel: int = 3, *, stride: int = 1, pad: int = 1, groups: int = 1, dilation: int = 1
    ) -> str:
        channels, high, wide = self.shapes[x]
        weight = self.rng.normal(size=(outputs, channels // groups, kernel, kernel)) / kernel / math.sqrt(channels // groups)
        span = (kernel - 1) * dilation + 1
        shape = (outputs, *((n + 2 * pad - span) // stride + 1 for n in (high, wide)))
        return self._add(
            "convolution",
            (x,),
            shape,
            weight=weight,
            bias=self.rng.normal(size=outputs) / 10,
            strides=(stride, stride),
            pads=(pad, pad, pad, pad),
            dilations=(dilation, dilation),
            groups=groups,
        )

    def average_pool(self, x: str, size: int = 2) -> str:
        channels, high, wide = self.shapes[x]
        return self._add(
            "convolution",
            (x,),
            (channels, high // size, wide // size),
            weight=np.full((channels, 1, size, size), 1 / size**2),
            bias=np.zeros(channels),
            strides=(size, size),
            pads=(0, 0, 0, 0),
            dilations=(1, 1),
            groups=channels,
        )

    def maximum_pool(
        self, x: str, kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, ...] = (0, 0, 0, 0)
    ) -> str:
        channels, *size = self.shapes[x]
        shape = (channels, *((size[i] + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i in (0, 1)))
        return self._add("maximum_pool", (x,), shape, kernel=kernel, strides=strides, pads=pads)

    def activation(self, x: str, function: str = "relu", **parameters: float) -> str:
        return self._add("activation", (x,), self.shapes[x], function=function, parameters=parameters)

    def add(self, x: str, y: str) -> str:
        return self._add("add", (x, y), self.shapes[x])

    def multiply(self, x: str, y: str) -> str:
        return self._add("multiply", (x, y), self.shapes[x])

    def flatten(self, x: str) -> str:
        size = math.prod(self.shapes[x])
        return self._add("reshape", (x,), (size,), shape=(size,))

    def dense(self, x: str, outputs: int) -> str:
        inputs = self.shapes[x][-1]
        weight = self.rng.normal(size=(outputs, inputs)) / math.sqrt(inputs)
        return self._add(
            "dense", (x,), (*self.shapes[x][:-1], outputs), weight=weight, bias=self.rng.normal(size=outputs) / 10
        )

    def matmul(self, x: str, y: str) -> str:
        (*lead, rows, _), columns = self.shapes[x], self.shapes[y][-1]
        return self._add("matmul", (x, y), (*lead, rows, columns))

    def normalize(self, x: str, axes: int = 1) -> str:
        inner = self.shapes[x][-axes:]
        factor, offset = (self.rng.normal(size=inner) / 4 + k for k in (1, 0))
        return self._add("normalize", (x,), self.shapes[x], axes=axes, epsilon=0.1, factor=factor, offset=offset)

    def softmax(self, x: str, axis: int = -1) -> str:
        return self._add("softmax", (x,), self.shapes[x], axis=axis % len(self.shapes[x]))

    def transpose(self, x: str, permutation: tuple[int, ...]) -> str:
        shape = tuple(self.shapes[x][i] for i in permutation)
        return self._add("transpose", (x,), shape, permutation=permutation)

    def other(self, operation: str, x: str, result: tuple[int, ...], /, **attributes: Any) -> str:
        return self._add(operation, (x,), result, **attributes)

    def graph(self, output: str) -> Graph:
        return Graph(("x",), (output,), tuple(self.nodes), self.shapes)


def perceptron(seed: int = 1) -> Graph:
    """A perceptron 12 -> 16 -> 4 with a softmax."""
    b = Builder((12,), seed)
    out = b.dense(b.activation(b.dense("x", 16)), 4)
    return b.graph(b.other("softmax", out, (4,), axis=0))


def residual(seed: int = 1) -> Graph:
    """A network of five convolutions, two residuals, a stride and a linear layer on images [3, 8, 8]."""
    b = Builder((3, 8, 8), seed)
    first = b.activation(b.convolution("x", 4))
    inner = b.activation(b.convolution(first, 4))
    second = b.activation(b.add(b.convolution(inner, 4), first))
    down = b.activation(b.convolution(second, 8, stride=2))
    third = b.activation(b.add(b.convolution(down, 8), b.convolution(second, 8, 1, stride=2, pad=0)))
    return b.graph(b.dense(b.flatten(b.average_pool(third)), 10))


def attention(seed: int = 1, heads: int = 2) -> Graph:
    """A layer of a transformer on four tokens of eight features: attention, residual sums, layer normalizations, GELU."""
    b = Builder((4, 8), seed)
    parts = []
    for _ in range(3):
        part = b.other("reshape", b.dense("x", 8), (4, heads, 8 // heads), shape=(4, heads, 8 // heads))
        parts.append(b.transpose(part, (1, 0, 2)))
    weights = b.softmax(b.matmul(parts[0], b.transpose(parts[1], (0, 2, 1))))
    mixed = b.transpose(b.matmul(weights, parts[2]), (1, 0, 2))
    value = b.normalize(b.add("x", b.dense(b.other("reshape", mixed, (4, 8), shape=(4, 8)), 8)))
    value = b.normalize(b.add(value, b.dense(b.activation(b.dense(value, 16), "gelu"), 8)))
    return b.graph(b.dense(b.flatten(value), 3))
