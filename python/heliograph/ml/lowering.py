"""From operators of ONNX to canonical operations, one function an operator. The batch axis, of size 1, is dropped.

A value of shape [1, ...] becomes a value of shape [...]; other values keep their shape. So each function works with the
file's shapes, and reshapes where an axis of 1 is missing or left over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from heliograph.ml.draft import Draft
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape, floats

_MOST_ENTRIES = 1 << 26  # of a matrix that selects or sums elements


def without_batch(shape: Shape) -> Shape:
    """Return the canonical shape of a value."""
    return shape[1:] if shape[:1] == (1,) else shape


class Lowering:
    """Makes a draft of a graph of ONNX operators."""

    def __init__(self, graph: Graph) -> None:
        self.raw = graph
        self.raw_shapes = dict(graph.shapes)
        self.constants = {name: np.asarray(array) for name, array in graph.constants.items()}
        inputs = {name: without_batch(tuple(graph.shapes[name])) for name in graph.inputs}
        self.draft = Draft(inputs, {}, graph.name)
        self.values = {name: name for name in graph.inputs}  #: canonical values by the file's
        self.node = Node("", (), "")
        self.absorbed: dict[str, Node] = {}  #: pads that the pools after them take, by their output
        self.users: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.users.setdefault(name, []).append(node)

    def run(self) -> Draft:
        """Return the draft."""
        for name in self.raw.inputs:
            if name in self.raw.dtypes:
                raise ModelError(
                    f"cannot compile input {name}: it must be of floats, got {self.raw.dtypes[name]}; split the graph by "
                    "heliograph.ml.partition, so that the client computes its floats"
                )
        for node in self.raw.nodes:
            self.node = node
            if node.operation not in LOWERINGS:
                raise self.error(f"operator {node.operation} is not supported on encrypted values")
            users = [] if node.output in self.raw.outputs else self.users.get(node.output, [])
            if node.operation == "Pad" and _only_before_maxima(users, node):
                self.absorbed[node.output] = node
                continue
            LOWERINGS[node.operation](self)
        for name in self.raw.outputs:
            if name not in self.values:
                raise ModelError(f"cannot compile output {name}: it does not depend on an input")
            self.draft.outputs[name] = self.values[name]
        return self.draft

    def error(self, reason: str) -> ModelError:
        """Return an error that names the node."""
        return ModelError(f"cannot compile node {self.node.source}: {reason}")

    # ---- operands ----

    @property
    def source(self) -> str:
        """The node's name and operator in the file."""
        return self.node.source

    def attribute(self, name: str) -> Any:
        """Return an attribute of the node."""
        return self.node.attributes[name]

    def is_constant(self, i: int) -> bool:
        """Return whether an operand is known."""
        return self.node.inputs[i] in self.constants

    def constant(self, i: int, what: str) -> Array:
        """Return a known operand as finite floats."""
        if not self.is_constant(i):
            raise self.error(f"{what} must be a constant, not a value that depends on an input")
        array = floats(self.constants[self.node.inputs[i]])
        if not np.all(np.isfinite(array)):
            raise self.error(f"{what} must have finite numbers only")
        return array

    def shape(self, i: int = 0) -> Shape:
        """Return the file's shape of an operand."""
        return tuple(self.raw_shapes[self.node.inputs[i]])

    @property
    def result_shape(self) -> Shape:
        """The file's shape of the result."""
        return tuple(self.raw_shapes[self.node.output])

    @property
    def result(self) -> Shape:
        """The canonical shape of the result."""
        return without_batch(self.result_shape)

    def value(self, i: int = 0) -> str:
        """Return the canonical value of an operand that depends on an input."""
        if self.is_constant(i):
            raise self.error(f"operand {i} must depend on an input")
        return self.values[self.node.inputs[i]]

    def operand(self, i: int) -> str:
        """Return the canonical value of an operand, where a constant becomes a value of the graph."""
        name = self.node.inputs[i]
        if name not in self.values:
            array = self.constant(i, f"operand {i}")
            self.draft.constants[name] = array.reshape(without_batch(array.shape))
            self.draft.shapes[name] = self.draft.constants[name].shape
            self.values[name] = name
        return self.values[name]

    def full(self, i: int = 0) -> str:
        """Return an operand with the file's shape, with a batch axis of 1 if the file has one."""
        return self.draft.reshape(self.operand(i), self.shape(i), self.source)

    def finish(self, value: str) -> None:
        """Set the node's value, in the canonical shape of the result. A new value takes the file's name."""
        value, name = self.draft.reshape(value, self.result, self.source), self.node.output
        last = self.draft.nodes.get(value)
        new = last is not None and "@" in value and last.source == self.source and not self.draft.users(value)
        if last is not None and new and name not in self.draft.shapes:
            self.draft.put(last.operation, last.inputs, last.attributes, last.source, name)
            self.draft.drop(value)
            value = name
        self.values[name] = value

    def factor(self, array: Array) -> Array:
        """Return a constant so that it broadcasts to the canonical shape of the result."""
        rank = len(self.result_shape)
        array = array.reshape((1,) * (rank - array.ndim) + array.shape)
        return array[0] if self.result_shape[:1] == (1,) and rank else array

    def spread(self, i: int) -> str:
        """Return an operand broadcast to the result."""
        value = self.operand(i)
        shape = self.shape(i)
        rank = len(self.result_shape)
        if math.prod(shape) == math.prod(self.result):
            return self.draft.reshape(value, self.result, self.source)
        wide = (1,) * (rank - len(shape)) + shape
        wide = wide[1:] if self.result_shape[:1] == (1,) else wide
        return self.draft.broadcast(self.draft.reshape(value, wide, self.source), self.result, self.source)

    # ---- shared steps ----

    def scaled(self, value: str, factor: Any, offset: Any = 0.0) -> str:
        """Return value * factor + offset."""
        return self.draft.scale(value, factor, offset, self.source)

    def apply(self, value: str, function: str, **parameters: float) -> str:
        """Return an activation of a value."""
        return self.draft.activation(value, function, self.source, "", **parameters)

    def pair(self, operation: str, a: str, b: str) -> str:
        """Return the sum or the product of two values of one shape."""
        if operation == "multiply" and a == b:
            return self.apply(a, "square")
        return self.draft.put(operation, (a, b), {}, self.source)

    def along(self, value: str, axis: int, matrix: Array) -> str:
        """Return [outputs, inputs] `matrix` times a value, along one axis of its canonical shape."""
        rank = len(self.draft.shapes[value])
        order = (*(i for i in range(rank) if i != axis), axis)
        back = tuple(int(i) for i in np.argsort(order))
        moved = self.draft.transpose(value, order, self.source)
        attributes = {"weight": floats(matrix), "bias": np.zeros(len(matrix))}
        dense = self.draft.put("dense", (moved,), attributes, self.source)
        return self.draft.transpose(dense, back, self.source)

    def require_matrix(self, rows: int, columns: int) -> None:
        """Raise ModelError for a matrix that would take too much memory."""
        if rows * columns > _MOST_ENTRIES:
            raise self.error(f"its matrix of {rows} x {columns} must have at most {_MOST_ENTRIES} entries")

    def select(self, value: str, axis: int, indices: Sequence[int]) -> str:
        """Return the elements of a value at constant indices of one axis."""
        size = self.draft.shapes[value][axis]
        step = indices[1] - indices[0] if len(indices) > 1 else 1
        if step > 0 and all(b - a == step for a, b in pairwise(indices)):
            parts = [(0, n, 1) for n in self.draft.shapes[value]]
            parts[axis] = (indices[0], indices[-1] + 1, step)
            return self.draft.put("slice", (value,), {"slices": tuple(parts)}, self.source)
        times = len(indices) // size
        if times > 1 and list(indices) == [i // times for i in range(size * times)]:  # each element repeated
            shape = self.draft.shapes[value]
            thin, wide = (*shape[: axis + 1], 1, *shape[axis + 1 :]), (*shape[: axis + 1], times, *shape[axis + 1 :])
            repeated = self.draft.broadcast(self.draft.reshape(value, thin, self.source), wide, self.source)
            return self.draft.reshape(repeated, (*shape[:axis], len(indices), *shape[axis + 1 :]), self.source)
        self.require_matrix(len(indices), size)
        matrix = np.zeros((len(indices), size))
        matrix[np.arange(len(indices)), list(indices)] = 1
        return self.along(value, axis, matrix)


def with_pads(pool: Node, pad: Node | None) -> tuple[int, ...]:
    """Return the pads of a pool, with those of the Pad before it."""
    own = tuple(pool.attributes["pads"])
    if pad is None:
        return own
    pairs = pad.attributes["pads"][2:]
    return tuple(a + b for a, b in zip(own, (*(p[0] for p in pairs), *(p[1] for p in pairs)), strict=True))


def _only_before_maxima(users: list[Node], pad: Node) -> bool:
    """Return whether only maxima read a Pad of edges or minus infinity, and each window has an element of the image.

    A window that reaches over the edge has the edge's element, so the edge's copies do not change its maximum.
    """
    pairs, mode, value = (pad.attributes[name] for name in ("pads", "mode", "value"))
    if not users or len(pairs) not in (3, 4) or any(map(any, pairs[:2])):
        return False
    if mode != "edge" and not (mode == "constant" and value == -math.inf):
        return False
    return all(
        user.operation == "MaxPool"
        and all(pads < kernel for pads, kernel in zip(with_pads(user, pad), (*user.attributes["kernel"],) * 2, strict=True))
        for user in users
    )


Lower = Callable[[Lowering], None]
LOWERINGS: dict[str, Lower] = {}


def lowers(*names: str) -> Callable[[Lower], Lower]:
    """Register a function for operators."""

    def register(function: Lower) -> Lower:
        LOWERINGS.update(dict.fromkeys(names, function))
        return function

    return register


# ---- elementwise ----

_FUNCTIONS = {
    "Abs": "abs",
    "Celu": "celu",
    "Cos": "cos",
    "Elu": "elu",
    "Erf": "erf",
    "Exp": "exp",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "LeakyRelu": "leaky_relu",
    "Log": "log",
    "Mish": "mish",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Selu": "selu",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Swish": "silu",
    "Tanh": "tanh",
}


@lowers(*_FUNCTIONS)
def activation(low: Lowering) -> None:
    """Lower an elementwise function; its attributes are the parameters."""
    low.finish(low.apply(low.value(), _FUNCTIONS[low.node.operation], **low.node.attributes))


@lowers("Gelu")
def gelu(low: Lowering) -> None:
    """Lower Gelu, exact or by tanh."""
    low.finish(low.apply(low.value(), "gelu_tanh" if low.attribute("tanh") else "gelu"))


@lowers("Identity", "Cast")
def identity(low: Lowering) -> None:
    """Lower Identity, and Cast between floats."""
    if low.node.operation == "Cast" and np.dtype(low.attribute("dtype")).kind != "f":
        raise low.error("an encrypted value cannot be rounded to integers")
    low.finish(low.value())


@lowers("Neg")
def negative(low: Lowering) -> None:
    """Lower Neg to a scale of -1."""
    low.finish(low.scaled(low.value(), -1.0))


@lowers("Add", "Sub", "Mul", "Sum", "Mean")
def arithmetic(low: Lowering) -> None:
    """Lower sums, differences and products: a constant becomes a scale."""
    name, count = low.node.operation, len(low.node.inputs)
    factor, offset = np.ones(()), np.zeros(())
    total: str | None = None
    for i in range(count):
        sign = -1.0 if name == "Sub" and i else 1.0
        if low.is_constant(i):
            array = low.factor(low.constant(i, "a constant operand"))
            factor, offset = (factor * array, offset) if name == "Mul" else (factor, offset + sign * array)
            continue
        value = low.spread(i)
        value = low.scaled(value, sign) if sign < 0 else value
        total = value if total is None else low.pair("multiply" if name == "Mul" else "add", total, value)
    assert total is not None
    if name == "Mean":
        factor, offset = factor / count, offset / count
    low.finish(low.scaled(total, factor, offset) if not (np.all(factor == 1) and not np.any(offset)) else total)


@lowers("Div")
def divide(low: Lowering) -> None:
    """Lower a division: by a constant, a scale; by a value, a product with its reciprocal."""
    if low.is_constant(1):
        divisor = low.factor(low.constant(1, "the divisor"))
        if not np.all(divisor):
            raise low.error("the divisor must not be 0")
        low.finish(low.scaled(low.spread(0), 1 / divisor))
        return
    inverse = low.draft.broadcast(_wide(low, low.apply(low.value(1), "reciprocal"), 1), low.result, low.source)
    if low.is_constant(0):
        low.finish(low.scaled(inverse, low.factor(low.constant(0, "the dividend"))))
    else:
        low.finish(low.pair("multiply", low.spread(0), inverse))


def _wide(low: Lowering, value: str, i: int) -> str:
    """Return a value of operand i's size with the rank of the result."""
    shape = (1,) * (len(low.result_shape) - len(low.shape(i))) + low.shape(i)
    return low.draft.reshape(value, shape[1:] if low.result_shape[:1] == (1,) else shape, low.source)


@lowers("Pow")
def power(low: Lowering) -> None:
    """Lower a power with a constant exponent, or of a constant positive base."""
    if low.is_constant(0):
        base = low.factor(low.constant(0, "the base"))
        if not np.all(base > 0):
            raise low.error("a constant base must be positive")
        low.finish(low.apply(low.scaled(low.spread(1), np.log(base)), "exp"))
        return
    exponents = np.unique(low.constant(1, "the exponent"))
    if exponents.size != 1:
        raise low.error("the exponent must be one number for all elements")
    exponent = float(exponents[0])
    value = low.spread(0)
    if exponent == 1:
        low.finish(value)
    elif exponent in (2, 0.5, -1):
        low.finish(low.apply(value, {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal"}[exponent]))
    else:
        low.finish(low.apply(value, "power", exponent=exponent))


@lowers("Clip")
def clip(low: Lowering) -> None:
    """Lower Clip: one bound is a ReLU."""
    bound, top = float(low.attribute("low")), float(low.attribute("high"))
    if math.isnan(bound) or math.isnan(top) or bound > top:
        raise low.error(f"the bounds must be numbers in order, got {bound} and {top}")
    _limited(low, low.value(), bound, top)


def _limited(low: Lowering, value: str, bound: float, top: float) -> None:
    if math.isfinite(bound) and math.isfinite(top):
        low.finish(low.apply(value, "clip", low=bound, high=top))
    elif math.isfinite(bound):
        rest = low.apply(low.scaled(value, 1.0, -bound), "relu")
        low.finish(low.scaled(rest, 1.0, bound))
    elif math.isfinite(top):
        rest = low.apply(low.scaled(value, -1.0, top), "relu")
        low.finish(low.scaled(rest, -1.0, top))
    elif bound < top:
        low.finish(value)
    else:
        raise low.error(f"the bounds must not both be {bound}")


@lowers("Max", "Min")
def extreme(low: Lowering) -> None:
    """Lower a maximum: max(a, b) = b + relu(a - b); a minimum: min(a, b) = a - relu(a - b)."""
    sign = 1.0 if low.node.operation == "Max" else -1.0
    values = [i for i in range(len(low.node.inputs)) if not low.is_constant(i)]
    total = low.spread(values[0])
    for i in values[1:]:
        other = low.spread(i)
        above = low.pair("add", total, low.scaled(other, -1.0))
        rest = low.apply(above, "relu")
        total = low.pair("add", other, rest) if sign > 0 else low.pair("add", total, low.scaled(rest, -1.0))
    for i in range(len(low.node.inputs)):
        if low.is_constant(i):
            bound = low.factor(low.constant(i, "a constant operand"))
            rest = low.apply(low.scaled(total, sign, -sign * bound), "relu")
            total = low.scaled(rest, sign, bound)
    low.finish(total)


@lowers("PRelu")
def prelu(low: Lowering) -> None:
    """Lower PRelu: one slope is a leaky ReLU; slopes s per channel are s x + (1 - s) relu(x)."""
    slopes = low.factor(low.constant(1, "the slopes"))
    value = low.value()
    if np.unique(slopes).size == 1:
        low.finish(low.apply(value, "leaky_relu", alpha=float(slopes.flat[0])))
        return
    positive = low.scaled(low.apply(value, "relu"), 1 - slopes)
    low.finish(low.pair("add", low.scaled(value, slopes), positive))


@lowers("Where")
def where(low: Lowering) -> None:
    """Lower Where of a constant condition: m a + (1 - m) b for the mask m."""
    mask = np.asarray(low.factor(low.constant(0, "the condition")) != 0)
    total: str | None = None
    offset = np.zeros(())
    for i, part in ((1, mask), (2, ~mask)):
        if low.is_constant(i):
            array = np.asarray(low.factor(floats(low.constants[low.node.inputs[i]])))
            offset = offset + np.where(part, array, 0.0)
            continue
        value = low.scaled(low.spread(i), part.astype(np.float64))
        total = value if total is None else low.pair("add", total, value)
    if total is None:
        raise low.error("one of its operands must depend on an input")
    low.finish(low.scaled(total, 1.0, offset))


@lowers("Trilu")
def trilu(low: Lowering) -> None:
    """Lower Trilu to a product with a mask."""
    rows, columns = low.shape()[-2:]
    function = np.triu if low.attribute("upper") else np.tril
    low.finish(low.scaled(low.value(), function(np.ones((rows, columns)), low.attribute("k"))))


# ---- shapes ----


@lowers("Reshape")
def reshape(low: Lowering) -> None:
    """Lower Reshape."""
    low.finish(low.value())


@lowers("Transpose")
def transpose(low: Lowering) -> None:
    """Lower Transpose. Where the batch axis moves, the other axes keep its place of size 1."""
    order, value = tuple(low.attribute("permutation")), low.value()
    if low.shape()[:1] == (1,) and order[0] == 0:
        low.finish(low.draft.transpose(value, tuple(axis - 1 for axis in order[1:]), low.source))
    else:
        low.finish(low.draft.transpose(low.full(), order, low.source))


@lowers("Concat")
def concatenate(low: Lowering) -> None:
    """Lower Concat."""
    axis, batch = low.attribute("axis"), low.result_shape[:1] == (1,)
    if batch and axis > 0:
        inputs = tuple(low.operand(i) for i in range(len(low.node.inputs)))
        low.finish(low.draft.put("concatenate", inputs, {"axis": axis - 1}, low.source))
    else:
        inputs = tuple(low.full(i) for i in range(len(low.node.inputs)))
        low.finish(low.draft.put("concatenate", inputs, {"axis": axis}, low.source))


@lowers("Slice")
def slices(low: Lowering) -> None:
    """Lower Slice. Steps backward select by a matrix."""
    value = low.full()
    for axis, part in enumerate(low.attribute("slices")):
        size = low.draft.shapes[value][axis]
        indices = range(*slice(*part).indices(size))
        if not len(indices):
            raise low.error(f"axis {axis} of its result must not be empty")
        if indices != range(size):
            value = low.select(value, axis, indices)
    low.finish(value)


@lowers("Gather")
def gather(low: Lowering) -> None:
    """Lower Gather by constant indices: a slice or a product with a selection matrix."""
    axis, value = low.attribute("axis"), low.full()
    size = low.shape()[axis]
    indices = np.asarray(low.constant(1, "the indices"), np.int64).reshape(-1)
    if not indices.size or indices.min() < -size or indices.max() >= size:
        raise low.error(f"indices must be between {-size} and {size - 1}, and at least one")
    low.finish(low.select(value, axis, [int(i) % size for i in indices]))


@lowers("Pad")
def pad(low: Lowering) -> None:
    """Lower Pad: zeros around value - constant, plus the constant; reflections and edges select by a matrix."""
    value, pads = low.full(), low.attribute("pads")
    if low.attribute("mode") != "constant":
        for axis, pair in enumerate(pads):
            if any(pair):
                places = np.arange(low.shape()[axis])
                value = low.select(value, axis, np.pad(places, pair, mode=low.attribute("mode")).tolist())
        low.finish(value)
        return
    filling = float(low.attribute("value"))
    value = low.scaled(value, 1.0, -filling) if filling else value
    if low.shape()[:1] == (1,) and not any(pads[0]):  # without the batch axis, so that a convolution can take it
        value, pads = low.draft.reshape(value, low.shape()[1:], low.source), pads[1:]
    value = low.draft.put("pad", (value,), {"pads": tuple(map(tuple, pads))}, low.source)
    low.finish(low.scaled(value, 1.0, filling) if filling else value)


@lowers("Expand")
def expand(low: Lowering) -> None:
    """Lower Expand to a broadcast."""
    low.finish(low.spread(0))


@lowers("Tile")
def tile(low: Lowering) -> None:
    """Lower Tile: an axis in front of each repeated one, broadcast."""
    shape, repeats = low.shape(), low.attribute("repeats")
    if not math.prod(low.result_shape):
        raise low.error("its result must not be empty")
    thin = tuple(chain.from_iterable((1, size) for size in shape))
    wide = tuple(chain.from_iterable(zip(repeats, shape, strict=True)))
    value = low.draft.reshape(low.value(), thin, low.source)
    low.finish(low.draft.reshape(low.draft.broadcast(value, wide, low.source), low.result_shape, low.source))


@lowers("CumSum")
def cumsum(low: Lowering) -> None:
    """Lower CumSum to a product with a triangular matrix."""
    axis = low.attribute("axis")
    low.require_matrix(low.shape()[axis], low.shape()[axis])
    matrix = np.tri(low.shape()[axis], k=-1 if low.attribute("exclusive") else 0)
    low.finish(low.along(low.full(), axis, matrix.T if low.attribute("reverse") else matrix))
