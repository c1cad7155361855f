"""Maximum pools as maxima of pairs: max(a, b) = (a + b) / 2 + |a - b| / 2, where |.| is an activation.

The maximum of a window is the maximum of its rows, then of its columns. Windows of 2, 4, 8, ... elements come from pairs of
shorter windows; two windows that may overlap make the last one. A window that reaches into the padding reads the element
at the edge again. That element is in the window, so the maximum stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph, Node, Shape
from heliograph.ml.networks.terms import Indices

#: Activations that never fall, so a maximum may move before them. Those of `_RISING` need a parameter of at least 0.
_MONOTONE = ("clip", "erf", "exp", "relu", "selu", "sigmoid", "softplus", "softsign", "tanh")
_RISING = {"leaky_relu": "alpha", "elu": "alpha", "hard_sigmoid": "alpha"}
_LAYERS = ("convolution", "dense", "sum")
_CHEAP = ("scale", "reshape", "transpose", "slice", "pad", "concatenate", "broadcast")  # maps of one factor per value


@dataclass(frozen=True)
class Windows:
    """Windows of `length` elements along an axis. They start at 0, step, 2 step, ... of the padded axis."""

    length: int
    step: int
    count: int

    def starts(self, offset: int = 0) -> Indices:
        """Returns the first element of each window, plus an offset.

        >>> Windows(2, 2, 3).starts(1)
        array([1, 3, 5])
        """
        return offset + np.arange(self.count, dtype=np.int64) * self.step


@dataclass(frozen=True)
class Stage:
    """Maxima of pairs of windows: `first` at the starts of `result`, and `second`, which starts `offset` later."""

    result: Windows
    first: int  #: length of the first window of a pair
    second: int  #: length of the second window of a pair
    offset: int


def stages_of(kernel: int, stride: int, count: int) -> tuple[Stage, ...]:
    """Returns the stages for `count` windows of `kernel` elements, with the fewest maxima.

    >>> [(stage.result.length, stage.result.count) for stage in stages_of(3, 2, 16)]
    [(2, 16), (3, 16)]
    >>> [(stage.result.length, stage.result.count) for stage in stages_of(8, 1, 1)]
    [(2, 4), (4, 2), (8, 1)]
    """
    if kernel == 1:
        return ()
    half = 1 << ((kernel - 1).bit_length() - 1)
    seconds = [1 << i for i in range(half.bit_length()) if 1 << i >= kernel - half]
    options = [_chain(kernel, stride if count > 1 else 0, count, half, second) for second in seconds]
    return min(options, key=lambda stages: sum(stage.result.count for stage in stages))


def _chain(kernel: int, stride: int, count: int, half: int, second: int) -> tuple[Stage, ...]:
    """Returns the stages whose last one has windows of `half` and `second` elements. A step of 0 stands for one window."""
    last = stride * (count - 1)
    needs: dict[int, tuple[int, int]] = {}  # the step and the last start of windows, by their length

    def need(length: int, step: int, end: int) -> None:
        old = needs.get(length, (step, end))
        needs[length] = (math.gcd(old[0], step), max(old[1], end))

    need(half, stride, last)
    need(second, math.gcd(stride, kernel - second), last + kernel - second)
    stages = [Stage(Windows(kernel, stride, count), half, second, kernel - second)]
    length = half
    while length > 1:
        step, end = needs[length]
        made = Windows(length, step, end // step + 1 if step else 1)
        length //= 2
        need(length, math.gcd(step, length), end + length)
        stages.append(Stage(made, length, length, length))
    return tuple(reversed(stages))


def unused(name: str, names: Container[str]) -> str:
    """Returns a name that is not among other names.

    >>> unused("x", {"x"})
    'x_'
    """
    while name in names:
        name += "_"
    return name


class _Rewriter:
    """Makes nodes in place of one pool."""

    def __init__(self, node: Node, shapes: dict[str, Shape]) -> None:
        self._node, self._shapes, self.nodes = node, shapes, list[Node]()

    def put(self, operation: str, inputs: tuple[str, ...], shape: Shape, what: str = "", /, **attributes: Any) -> str:
        """Adds a node and returns the name of its value. `what` completes the name of the pool in reports."""
        name = unused(f"{self._node.output}/{operation}{len(self.nodes)}", self._shapes)
        source = f"{self._node.source} ({what})" if what else self._node.source
        self.nodes.append(Node(operation, inputs, name, attributes, source))
        self._shapes[name] = shape
        return name

    def activation(self, value: str, function: str, what: str) -> str:
        """Adds an activation."""
        return self.put("activation", (value,), self._shapes[value], what, function=function, parameters={})

    def along(self, value: str, axis: int, kernel: int, stride: int, before: int, count: int) -> str:
        """Adds the maxima along one axis. `before` is the padding at its start."""
        if count == 1:  # a single window may read its last element again
            value = self._sliced(value, axis, np.arange(min(self._shapes[value][axis], kernel - before)))
            kernel = 1 << (kernel - 1).bit_length()
        made = {1: (value, Windows(1, 1, 0))}
        stages = stages_of(kernel, stride, count)
        for number, stage in enumerate(stages, 1):
            what = f"{'rows' if axis == 1 else 'columns'}, stage {number} of {len(stages)}"
            a = self._taken(made[stage.first], axis, stage.result.starts(), before)
            b = self._taken(made[stage.second], axis, stage.result.starts(stage.offset), before)
            made[stage.result.length] = (self._larger(a, b, what), stage.result)
        return made[kernel][0] if stages else self._taken(made[1], axis, Windows(1, stride, count).starts(), before)

    def _larger(self, a: str, b: str, what: str) -> str:
        """Adds the maximum of two values."""
        shape = self._shapes[a]
        minus = self.put("scale", (b,), shape, factor=np.float64(-1.0), offset=np.float64(0.0))
        distance = self.activation(self.put("add", (a, minus), shape), "abs", what)
        total = self.put("add", (self.put("add", (a, b), shape), distance), shape)
        return self.put("scale", (total,), shape, factor=np.float64(0.5), offset=np.float64(0.0))

    def _taken(self, made: tuple[str, Windows], axis: int, starts: Indices, before: int) -> str:
        """Adds the selection of windows by their starts. Elements outside the axis are those at its edges."""
        value, windows = made
        size = self._shapes[value][axis]
        if windows.length > 1:
            return self._sliced(value, axis, starts // max(1, windows.step))
        places = starts - before
        low, high = int(np.count_nonzero(places < 0)), int(np.count_nonzero(places >= size))
        inside = places[low : len(places) - high]
        parts = [self._edge(value, axis, 0, low)] if low else []
        parts += [self._sliced(value, axis, inside)] if len(inside) else []
        parts += [self._edge(value, axis, size - 1, high)] if high else []
        if len(parts) == 1:
            return parts[0]
        return self.put("concatenate", tuple(parts), self._with(value, axis, len(starts)), axis=axis)

    def _edge(self, value: str, axis: int, place: int, count: int) -> str:
        """Adds `count` copies of one element along an axis."""
        one = self._sliced(value, axis, np.array([place]))
        shape = self._with(value, axis, count)
        return one if count == 1 else self.put("broadcast", (one,), shape, shape=shape)

    def _sliced(self, value: str, axis: int, places: Indices) -> str:
        """Adds a slice of places of equal distances."""
        shape = self._shapes[value]
        first, last = int(places[0]), int(places[-1])
        step = int(places[1]) - first if len(places) > 1 else 1
        if len(places) == shape[axis] and step == 1:
            return value
        slices = tuple((first, last + 1, step) if i == axis else (0, n, 1) for i, n in enumerate(shape))
        return self.put("slice", (value,), self._with(value, axis, len(places)), slices=slices)

    def _with(self, value: str, axis: int, length: int) -> Shape:
        return tuple(length if i == axis else n for i, n in enumerate(self._shapes[value]))


def without_pools(graph: Graph) -> Graph:
    """Returns the graph with maxima of pairs in place of each maximum pool.

    A pool after an activation that never falls moves before it, if that leaves fewer values for the activation.
    Raises ModelError for a window that lies in the padding alone."""
    if not any(node.operation == "maximum_pool" for node in graph.nodes):
        return graph
    graph = _before_activations(graph)
    nodes: list[Node] = []
    shapes = dict(graph.shapes)
    makers = {node.output: node for node in graph.nodes}
    for node in graph.nodes:
        if node.operation == "maximum_pool":
            nodes += _replaced(graph, node, shapes, makers)
        else:
            nodes.append(node)
    return Graph(graph.inputs, graph.outputs, tuple(nodes), shapes, graph.constants, graph.name)


def _replaced(graph: Graph, node: Node, shapes: dict[str, Shape], makers: Mapping[str, Node]) -> Iterator[Node]:
    """Yields the nodes in place of a pool. The last one makes the pool's value."""
    kernel, strides, pads = (tuple(int(n) for n in node.attributes[name]) for name in ("kernel", "strides", "pads"))
    shape = tuple(shapes[node.output])
    if any(max(pads[i], pads[i + 2]) >= kernel[i] for i in (0, 1)):
        raise ModelError(
            f"cannot compile node {node.source or node.output} (maximum_pool): its pads, {pads}, must be smaller than its "
            f"kernel, {kernel}; a window must not lie in the padding alone"
        )
    made = _Rewriter(node, shapes)
    value = node.inputs[0]
    if _is_costly(graph, value, makers):
        value = made.activation(value, "identity", "operand")
    for axis in _order(tuple(shapes[value]), shape, kernel, strides):
        i = axis - 1
        value = made.along(value, axis, kernel[i], strides[i], pads[i], shape[axis])
    if _feeds_layers(graph, node.output):
        value = made.activation(value, "identity", "result")
    yield from made.nodes
    yield Node("reshape", (value,), node.output, {"shape": shape}, node.source)


def _order(shape: Shape, result: Shape, kernel: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Returns the axes of an image, the one first whose maxima leave fewer maxima in total."""
    count = [sum(s.result.count for s in stages_of(kernel[i], strides[i], result[i + 1])) for i in (0, 1)]
    rows_first = count[0] * shape[2] + count[1] * result[1]
    return (1, 2) if rows_first <= count[1] * shape[1] + count[0] * result[2] else (2, 1)


def _is_costly(graph: Graph, value: str, makers: Mapping[str, Node]) -> bool:
    """Tells whether a value is more than factors times values of one tensor: of the input, or of an activation."""
    names, seen, read = [value], set[str](), set[str]()
    while names:
        name = names.pop()
        node = makers.get(name)
        if (
            node is None
            or node.operation == "activation"
            or (node.operation == "maximum_pool" and _feeds_layers(graph, name))
        ):
            read.update((name,) if name not in graph.constants else ())
        elif node.operation not in _CHEAP:
            return True
        elif name not in seen:
            seen.add(name)
            names += node.inputs
    return len(read) > 1


def _feeds_layers(graph: Graph, value: str) -> bool:
    """Tells whether a layer reads a value, before any activation: each map of the value would be joined with the layer."""
    names, seen = [value], set[str]()
    while names:
        for node in graph.users(names.pop()):
            if node.operation in (*_CHEAP, "add") and node.output not in seen:
                seen.add(node.output)
                names.append(node.output)
            elif node.operation in _LAYERS:
                return True
    return False


def _before_activations(graph: Graph) -> Graph:
    """Returns the graph with pools before activations that never fall.

    A pool moves if it alone reads the activation, and if the activation then has fewer values."""
    nodes, shapes = list(graph.nodes), dict(graph.shapes)
    makers = {node.output: node for node in nodes}
    for node in graph.nodes:
        before = makers.get(node.inputs[0]) if node.operation == "maximum_pool" else None
        if (
            before is None
            or not _never_falls(before)
            or len(graph.users(before.output)) > 1
            or before.output in graph.outputs
        ):
            continue
        if math.prod(shapes[node.output]) >= math.prod(shapes[before.output]):
            continue
        name = unused(f"{node.output}/maximum", shapes)
        shapes[name] = tuple(shapes[node.output])
        at = nodes.index(node)
        pool = Node("maximum_pool", before.inputs, name, node.attributes, node.source)
        after = Node("activation", (name,), node.output, before.attributes, before.source)
        nodes[at : at + 1] = [pool, after]
        nodes.remove(before)
        makers |= {name: pool, node.output: after}
    return Graph(graph.inputs, graph.outputs, tuple(nodes), shapes, graph.constants, graph.name)


def _never_falls(node: Node) -> bool:
    if node.operation != "activation":
        return False
    name, parameters = str(node.attributes["function"]), node.attributes.get("parameters", {})
    return name in _MONOTONE or (name in _RISING and float(parameters.get(_RISING[name], 0.0)) >= 0)
