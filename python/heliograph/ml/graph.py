"""Intermediate representation of a model: a list of operations on arrays of fixed shapes.

Readers make graphs of ONNX operators, with a batch axis of 1. `canonical` rewrites them to the operations of `OPERATIONS`,
without the batch axis. A value is named by a string; each node makes one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

#: Operations of a canonical graph, with their attributes. Shapes have no batch axis: an image is [channels, height, width].
OPERATIONS: dict[str, str] = {
    "dense": "weight [outputs, inputs] @ x + bias [outputs], along the last axis of x",
    "convolution": "weight [outputs, inputs / groups, h, w], bias [outputs], strides (2), pads (top, left, bottom, right), "
    "dilations (2), groups. Average pools are convolutions with groups = channels",
    "maximum_pool": "kernel (2), strides (2), pads (4)",
    "scale": "x * factor + offset, both broadcast to the shape of x",
    "activation": "function: a name of `activations.FUNCTIONS`; parameters: a dict of floats. Elementwise, one input",
    "add": "sum of two values of one shape",
    "multiply": "elementwise product of two values; the second one may have length 1 where the first one is longer",
    "matmul": "matrix product of two values, with NumPy's broadcasting",
    "reshape": "shape; row-major order",
    "transpose": "permutation of the axes",
    "slice": "slices: one (start, stop, step) per axis",
    "pad": "pads: one (before, after) per axis, with zeros",
    "concatenate": "axis; two or more inputs",
    "broadcast": "shape, by NumPy's rules",
    "sum": "axes, keepdims",
    "shifts": "axis, count: copies on a new first axis, turned along `axis`: y[s, ..., i, ...] = x[..., (i + s) % n, ...]",
    "attention_scores": "queries and keys [..., n, d]: y[s, ..., i] = sum over f of q[..., i, f] k[..., (i + s) % n, f]",
    "attention_values": "weights [n, ..., n] and values [..., n, d]: "
    "y[..., i, f] = sum over s of w[s, ..., i] v[..., (i + s) % n, f]",
    "softmax": "axis",
    "log_softmax": "axis; only as a last operation, which the client does",
    "normalize": "(x - mean) / sqrt(variance + epsilon) * factor + offset along the last `axes`; layer normalization",
    "argmax": "axis, keepdims; only as a last operation, which the client does",
}


@dataclass(frozen=True)
class Node:
    """One operation. `source` names the node and operator of the file, for errors: ``/layer1/conv1 (Conv)``."""

    operation: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order, with the shape of every value. All inputs and values are floats."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    shapes: Mapping[str, Shape]
    constants: Mapping[str, Array] = field(default_factory=dict)
    name: str = ""
    #: NumPy dtypes of inputs and values that are not floats, such as token numbers. Canonical graphs have none.
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def users(self, value: str) -> tuple[Node, ...]:
        """Return the nodes that read a value."""
        return tuple(node for node in self.nodes if value in node.inputs)

    def maker(self, value: str) -> Node | None:
        """Return the node that makes a value; None for an input or a constant."""
        return next((node for node in self.nodes if node.output == value), None)


def floats(array: Any) -> npt.NDArray[np.float64]:
    """Return an array as 64-bit floats."""
    return np.asarray(array, dtype=np.float64)
