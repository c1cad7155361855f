"""Rewriting of normalizations, softmax and matrix products of computed values to linear maps, activations and products.

`with_primitives` runs before calibration, and needs samples only for the range of a softmax. `with_factors` prepares
products, also when a file is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape
from heliograph.ml.networks.evaluation import batches, evaluate

#: Operations at the end of a graph that the client computes after decryption.
CLIENT_OPERATIONS = ("softmax", "log_softmax", "argmax")

_MOST_TERMS = 1 << 22  # elementwise products of one matrix product
_RATIO = 200.0  # largest ratio of the sums of a softmax, for one polynomial of 1 / x
_SPAN = 16.0  # longest range of the arguments of exp
_SQUARINGS = 6  # maximum squarings of a softmax
_SAMPLES = 256  # samples for the ranges of a softmax
_BATCH = 64
_MOVES = ("reshape", "transpose", "broadcast", "slice")  # operations of masks


def client_part(graph: Graph) -> tuple[Node, ...]:
    """Returns the last operations of a graph that the client computes."""
    nodes: list[Node] = []
    value = graph.outputs[0]
    for node in reversed(graph.nodes):
        if node.operation not in CLIENT_OPERATIONS or node.output != value or len(graph.users(value)) > bool(nodes):
            break
        nodes.insert(0, node)
        value = node.inputs[0]
    return tuple(nodes)


class _Writer:
    """Appends nodes of one source, with names below that of its output."""

    def __init__(self, graph: Graph, nodes: list[Node], shapes: dict[str, Shape], node: Node) -> None:
        self._graph, self._nodes, self._shapes, self._node = graph, nodes, shapes, node
        self._count = 0

    def put(
        self, operation: str, inputs: tuple[str, ...], result: Shape, output: str = "", /, part: str = "", **attributes: Any
    ) -> str:
        """Appends a node and returns the name of its value. `part` is appended to the source in reports and errors."""
        name = output
        if not name:
            name, self._count = f"{self._node.output}/{self._count}", self._count + 1
        source = f"{self._node.source or self._node.output} ({part})" if part else self._node.source
        self._nodes.append(Node(operation, inputs, name, attributes, source))
        self._shapes[name] = result
        return name

    def shape(self, value: str) -> Shape:
        """Returns the shape of a value."""
        return tuple(self._shapes[value])

    def function(self, value: str, function: str, part: str, **parameters: float) -> str:
        """Appends an activation."""
        return self.put("activation", (value,), self.shape(value), part=part, function=function, parameters=parameters)

    def summed(self, value: str, weight: npt.NDArray[np.float64]) -> str:
        """Appends a dense layer along the last axis."""
        shape = (*self.shape(value)[:-1], len(weight))
        return self.put("dense", (value,), shape, weight=weight, bias=np.zeros(len(weight)))


def with_primitives(graph: Graph, samples: npt.NDArray[np.float32], masks: Container[str] = ()) -> Graph:
    """Returns a canonical graph without normalizations, and without softmax and matrix products of computed values.

    A softmax at the end stays, because the client computes it. `samples` [count, ...] are calibration samples. `masks` are
    values of 0 and 1, which the graph adds to the arguments of a softmax in place of large negative numbers and 0.

    Raises ModelError for a matrix product of too many terms, for a softmax whose range is too long, and for another use of
    a mask."""
    kept = {node.output for node in client_part(graph)}

    def softmax(writer: _Writer, node: Node) -> None:
        _softmax(writer, node, *_masked(graph, nodes, shapes, node.inputs[0], samples, masks))

    rules: dict[str, Callable[[_Writer, Node], None]] = {
        "normalize": _normalized,
        "matmul": _multiplied,
        "softmax": lambda writer, node: _softmax(
            writer, node, *_masked(graph, nodes, shapes, node.inputs[0], samples, masks)
        ),
    }
    nodes: list[Node] = []
    shapes = {name: tuple(shape) for name, shape in graph.shapes.items()}
    dropped = {
        node.inputs[0] for node in graph.nodes if node.operation == "softmax" and _mask_of(graph, node.inputs[0], masks)
    }
    for node in graph.nodes:
        if node.output in dropped:
            _require_one_use(graph, node)
            continue
        if node.operation in rules and node.output not in kept:
            rules[node.operation](_Writer(graph, nodes, shapes, node), node)
        else:
            nodes.append(node)
    return Graph(graph.inputs, graph.outputs, tuple(nodes), shapes, graph.constants, graph.name)


def with_factors(graph: Graph) -> Graph:
    """Returns the graph with a square for x x, and with factors of other products that are activations or products.

    Other factors of computed values become identity activations, whose calibrated ranges give the scale of the product."""
    nodes: list[Node] = []
    shapes = {name: tuple(shape) for name, shape in graph.shapes.items()}
    ready = {node.output for node in graph.nodes if node.operation == "activation" or _is_product(graph, node)}
    made: dict[str, str] = {}
    for node in graph.nodes:
        if not _is_product(graph, node):
            nodes.append(node)
            continue
        x, y = node.inputs
        if x == y:
            nodes.append(Node("activation", (x,), node.output, {"function": "square", "parameters": {}}, node.source))
            continue
        for name in (x, y):
            if name not in ready and name not in made:
                made[name] = f"{name}/factor"
                source = f"{node.source or node.output} (factor)"
                attributes = {"function": "identity", "parameters": {}}
                nodes.append(Node("activation", (name,), made[name], attributes, source))
                shapes[made[name]] = shapes[name]
        nodes.append(Node("multiply", (made.get(x, x), made.get(y, y)), node.output, node.attributes, node.source))
    return Graph(graph.inputs, graph.outputs, tuple(nodes), shapes, graph.constants, graph.name)


def _is_product(graph: Graph, node: Node) -> bool:
    """Tells whether a node multiplies two computed values."""
    return node.operation == "multiply" and not any(name in graph.constants for name in node.inputs)


def _mask_of(graph: Graph, value: str, masks: Container[str]) -> tuple[str, str] | None:
    """Returns the two summands of a value that adds a mask, the mask last; None for any other value."""
    node = graph.maker(value)
    if node is None or node.operation != "add":
        return None
    for one, two in (node.inputs, node.inputs[::-1]):
        name: str | None = two
        while name is not None and name not in masks:
            maker = graph.maker(name)
            name = maker.inputs[0] if maker is not None and maker.operation in _MOVES else None
        if name is not None:
            return one, two
    return None


def _require_one_use(graph: Graph, node: Node) -> None:
    """Raises ModelError if another node than a softmax reads the sum of a mask and other values."""
    for user in graph.users(node.output):
        if user.operation != "softmax":
            raise ModelError(
                f"cannot compile node {user.source or user.output} ({user.operation}) for encrypted data: a mask of large "
                "negative numbers must be added to the argument of a softmax only"
            )


def _masked(
    graph: Graph,
    nodes: list[Node],
    shapes: dict[str, Shape],
    value: str,
    samples: npt.NDArray[np.float32],
    masks: Container[str],
) -> tuple[str, str, Array]:
    """Returns the argument of a softmax without its mask, the mask or "", and the argument on calibration samples.

    These [count, ...] are -infinity where they are masked. `nodes` are the rewritten nodes before the softmax."""
    found = _mask_of(graph, value, masks)
    names = (value,) if found is None else found
    part = Graph(graph.inputs, names, tuple(nodes), shapes, graph.constants, graph.name)
    seen = [evaluate(part, some) for some in batches(samples[:_SAMPLES], _BATCH)]
    arguments, *rest = (np.concatenate([one[name] for one in seen]) for name in names)
    if found is None:
        return value, "", arguments
    return (*found, np.where(np.broadcast_to(rest[0], arguments.shape) > 0.5, arguments, -np.inf))


def _normalized(writer: _Writer, node: Node) -> None:
    """(x - mean) times the inverse square root of the variance, which is computed at all places of its axes."""
    (value,), a = node.inputs, node.attributes
    shape = writer.shape(value)
    inner = math.prod(shape[len(shape) - int(a["axes"]) :])
    flat = (*shape[: len(shape) - int(a["axes"])], inner)
    mean = np.full((inner, inner), 1 / inner)
    x = value if flat == shape else writer.put("reshape", (value,), flat, shape=flat)
    centred = writer.function(writer.summed(x, np.eye(inner) - mean), "identity", "distance from the mean")
    variance = writer.summed(writer.function(centred, "square", "square"), mean)
    shifted = writer.put("scale", (variance,), flat, factor=np.float64(1), offset=np.float64(a["epsilon"]))
    inverse = writer.function(shifted, "power", "inverse deviation", exponent=-0.5)
    y = writer.put("multiply", (centred, inverse), flat)
    if flat != shape:
        y = writer.put("reshape", (y,), shape, shape=shape)
    writer.put("scale", (y,), shape, node.output, factor=a["factor"], offset=a["offset"])


def _multiplied(writer: _Writer, node: Node) -> None:
    """All products of elements, and their sums."""
    left, right = node.inputs
    a, b = writer.shape(left), writer.shape(right)
    rank = max(len(a), len(b))
    a, b = ((1,) * (rank - len(s)) + s for s in (a, b))
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    rows, inner, columns = a[-2], a[-1], b[-1]
    whole = (*lead, rows, inner, columns)
    if math.prod(whole) > _MOST_TERMS:
        raise ModelError(
            f"cannot compile node {node.source or node.output} (matmul) for encrypted data: a product of two encrypted "
            f"matrices must have at most {_MOST_TERMS:,} terms, and has {math.prod(whole):,}; use shorter sequences or "
            "fewer features"
        )
    factors = []
    for value, shape in ((left, (*a, 1)), (right, (*b[:-2], 1, *b[-2:]))):
        made = writer.put("reshape", (value,), shape, shape=shape)
        factors.append(writer.put("broadcast", (made,), whole, shape=whole))
    product = writer.put("multiply", (factors[0], factors[1]), whole)
    writer.put("sum", (product,), (*lead, rows, columns), node.output, axes=(rank - 1,), keepdims=False)


def _softmax(writer: _Writer, node: Node, value: str, mask: str, seen: Array) -> None:
    """exp(x - c) divided by its sum, where c is the largest argument of a row on the calibration samples.

    If the sums would span too large a range for one polynomial of 1 / x, exp((x - c) / 2^k) is divided by its sum, and the
    result is squared and divided by its sum k times. Masked exponentials are multiplied by 0."""
    axis = int(node.attributes["axis"])
    shape = writer.shape(node.inputs[0])
    axis %= len(shape)
    order = (*(i for i in range(len(shape)) if i != axis), axis)
    turned = tuple(shape[i] for i in order)
    seen = np.moveaxis(np.asarray(seen, np.float64), axis + 1, -1)
    top = seen.max(axis=-1, keepdims=True).max(axis=0)
    largest = np.where(np.isfinite(top), top, 0.0)  # 0: a row that is masked in all samples
    halvings = _halvings(node, seen - largest)
    x = _turned(writer, value, shape, order)
    scale = 2.0**-halvings
    x = writer.put("scale", (x,), turned, factor=np.float64(scale), offset=-scale * np.broadcast_to(largest, turned))
    ones = np.ones((turned[-1], turned[-1]))
    part = writer.function(x, "exp", "exp")
    if mask:
        part = writer.put("multiply", (part, _turned(writer, mask, shape, order)), turned)
    for i in range(halvings + 1):
        inverse = writer.function(writer.summed(part, ones), "reciprocal", "inverse sum")
        part = writer.put("multiply", (part, inverse), turned)
        if i < halvings:
            part = writer.function(part, "square", "square")
    back = tuple(int(i) for i in np.argsort(order))
    writer.put("transpose", (part,), shape, node.output, permutation=back)


def _turned(writer: _Writer, value: str, shape: Shape, order: tuple[int, ...]) -> str:
    """Returns a value, repeated to a shape, with other axes."""
    if writer.shape(value) != shape:
        value = writer.put("broadcast", (value,), shape, shape=shape)
    if order == tuple(range(len(shape))):
        return value
    return writer.put("transpose", (value,), tuple(shape[i] for i in order), permutation=order)


def _halvings(node: Node, arguments: Array) -> int:
    """Returns k such that the sums of exp(arguments / 2^k) along the last axis have a small ratio. Masked arguments are
    -infinity."""
    inside = np.isfinite(arguments)
    if np.isnan(arguments).any() or np.isposinf(arguments).any() or not inside.any(axis=-1).all():
        raise ModelError(
            f"cannot compile node {node.source or node.output} (softmax): its arguments must be finite on the calibration "
            "samples, and each row must have an argument that is not masked"
        )
    span = float(np.ptp(arguments[inside]))
    for k in range(_SQUARINGS + 1):
        sums = np.exp(arguments / 2**k).sum(axis=-1)
        if sums.max() <= _RATIO * sums.min() and span <= _SPAN * 2**k:
            return k
    raise ModelError(
        f"cannot compile node {node.source or node.output} (softmax) for encrypted data: its arguments span "
        f"{span:.4g} on the calibration samples, and may span at most {_SPAN * 2**_SQUARINGS:g}"
    )
