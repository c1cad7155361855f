"""Rewriting of normalizations, softmax and matrix products of computed values to linear maps, activations and products.

`with_primitives` runs before calibration, and needs samples only for the range of a softmax. `with_factors` prepares
products, also when a file is read.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape
from heliograph.ml.networks.attention import (
    Attention,
    attention_of,
    diagonals_of_scores,
    fixed_mask,
    mask_of,
    require_terms,
)
from heliograph.ml.networks.contraction import OPERATIONS as CONTRACTIONS
from heliograph.ml.networks.evaluation import batches, evaluate_more
from heliograph.ml.networks.writer import Writer

PRODUCTS = ("multiply", *CONTRACTIONS)  #: operations that multiply two computed values

#: Operations at the end of a graph that the client computes after decryption.
CLIENT_OPERATIONS = ("softmax", "log_softmax", "argmax")

_RATIO = 300.0  # largest ratio of the sums of a softmax, for one polynomial of 1 / x
_SPAN = 16.0  # longest range of the arguments of exp
_SQUARINGS = 6  # maximum squarings of a softmax
_SAMPLES = 256  # samples for the ranges of a softmax
_FIXED = -100.0  # largest argument, less the largest one of its row, that a constant mask removes
_BATCH = 64


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


def with_primitives(graph: Graph, samples: npt.NDArray[np.float32], masks: Container[str] = ()) -> Graph:
    """Returns a canonical graph without normalizations, and without softmax and matrix products of computed values.

    A softmax at the end stays, because the client computes it. `samples` [count, ...] are calibration samples. `masks` are
    values of 0 and 1, which the graph adds to the arguments of a softmax in place of large negative numbers and 0.

    Raises ModelError for a matrix product of too many terms, for a softmax whose range is too long, and for another use of
    a mask."""
    return _Rewriting(graph, samples, masks).graph()


class _Rewriting:
    """Rewrites the nodes of a graph in order."""

    def __init__(self, graph: Graph, samples: npt.NDArray[np.float32], masks: Container[str]) -> None:
        self._graph, self._samples, self._masks = graph, samples, masks
        self._nodes: list[Node] = []
        self._turned: dict[tuple[str, Shape], str] = {}  # masks in the places of scores
        self._values: list[dict[str, Array]] = []  # values of each batch of samples, of the first `_done` nodes
        self._done, self._place = 0, 0
        self._shapes = {name: tuple(shape) for name, shape in graph.shapes.items()}

    def graph(self) -> Graph:
        """Returns the rewritten graph."""
        graph = self._graph
        kept = {node.output for node in client_part(graph)}
        inner = [node for node in graph.nodes if node.operation == "softmax" and node.output not in kept]
        attentions = {node.output: found for node in inner if (found := attention_of(graph, node, self._masks)) is not None}
        dropped = {name for found in attentions.values() for name in found.dropped}
        masked = {node.inputs[0] for node in inner if mask_of(graph, node.inputs[0], self._masks) is not None} - dropped
        ends = {found.product.output: found for found in attentions.values()}
        for self._place, node in enumerate(graph.nodes):
            writer = Writer(graph, self._nodes, self._shapes, node)
            if node.output in masked:
                _require_one_use(graph, node)
            elif node.output in ends:
                self._attention(writer, ends[node.output])
            elif node.output in dropped:
                continue
            elif node.operation == "normalize":
                _normalized(writer, node)
            elif node.operation == "matmul":
                _multiplied(writer, node)
            elif node.operation == "softmax" and node.output not in kept:
                self._softmax(writer, node)
            else:
                self._nodes.append(node)
        for name in ends:
            self._keep(name)
        return Graph(graph.inputs, graph.outputs, tuple(self._nodes), self._shapes, graph.constants, graph.name)

    def _keep(self, value: str) -> None:
        """Inserts an identity after a value and the operations that move its elements."""
        while True:
            users = [node for node in self._nodes if value in node.inputs]
            if len(users) != 1 or users[0].operation not in ("reshape", "transpose") or value in self._graph.outputs:
                break
            value = users[0].output
        if not users or value in self._graph.outputs:
            return
        place = next(i for i, node in enumerate(self._nodes) if node.output == value)
        made, source = f"{value}/kept", self._nodes[place].source
        attributes = {"function": "identity", "parameters": {}}
        self._nodes = [replace(n, inputs=tuple(made if i == value else i for i in n.inputs)) for n in self._nodes]
        self._nodes.insert(place + 1, Node("activation", (value,), made, attributes, f"{source} (sum)"))
        self._shapes[made] = self._shapes[value]

    def _seen(self, value: str, mask: str) -> Array:
        """Returns a value on calibration samples [count, ...], -infinity where it is masked."""
        names = (value, mask) if mask else (value,)
        seen = self._evaluated(names)
        arguments, *rest = (np.concatenate([one[name] for one in seen]) for name in names)
        return np.where(np.broadcast_to(rest[0], arguments.shape) > 0.5, arguments, -np.inf) if mask else arguments

    def _evaluated(self, names: tuple[str, ...]) -> list[dict[str, Array]]:
        """Returns values of each batch of samples. Only nodes that were written since the last call are evaluated; values
        that no later node can read are dropped."""
        graph = self._graph
        if not self._values:
            self._values = [{graph.inputs[0]: some} for some in batches(self._samples[:_SAMPLES], _BATCH)]
        later = {name for node in graph.nodes[self._place :] for name in node.inputs}
        kept = {*later, *names, *self._turned.values(), *graph.outputs}
        for node in reversed(self._nodes):  # attention reads values before they were moved
            if node.output in kept and node.operation in ("reshape", "transpose"):
                kept.update(node.inputs)
        part = Graph(graph.inputs, (), tuple(self._nodes[self._done :]), self._shapes, graph.constants, graph.name)
        self._values = [
            {name: x for name, x in evaluate_more(part, values).items() if name in kept} for values in self._values
        ]
        self._done = len(self._nodes)
        return self._values

    def _softmax(self, writer: Writer, node: Node) -> None:
        """A softmax whose argument may be the sum of a value and a mask."""
        value, mask = mask_of(self._graph, node.inputs[0], self._masks) or (node.inputs[0], "")
        fixed = fixed_mask(self._graph, node, self._masks)
        axis = int(node.attributes["axis"]) % len(writer.shape(value))
        made = weights_of(writer, node, value, mask, (axis,), self._seen(value, mask), fixed)
        writer.put("transpose", (made,), writer.shape(made), node.output, permutation=tuple(range(len(writer.shape(made)))))

    def _attention(self, writer: Writer, found: Attention) -> None:
        """Scores, softmax and values by diagonals of the matrix of scores."""
        value, mask = found.scores(writer, self._turned)
        own = Writer(self._graph, self._nodes, self._shapes, found.softmax)
        fixed = diagonals_of_scores(fixed_mask(self._graph, found.softmax, self._masks))
        shape = writer.shape(value)
        inner = min(shape[0], found.width(writer) or shape[0])
        blocks = (shape[0] // inner, inner, *shape[1:])
        axes = (0, 1) if blocks[0] > 1 else (0,)
        if blocks[0] > 1:  # a sum over ciphertexts, and one inside of them
            value = own.put("reshape", (value,), blocks, shape=blocks)
            if mask and (mask, blocks) not in self._turned:
                self._turned[mask, blocks] = own.put("reshape", (mask,), blocks, shape=blocks)
            mask = self._turned[mask, blocks] if mask else mask
            fixed = fixed.reshape(blocks)
        weights = weights_of(own, found.softmax, value, mask, axes, self._seen(value, mask), fixed)
        if blocks[0] > 1:
            weights = own.put("reshape", (weights,), shape, shape=shape)
        found.values(writer, weights)


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
        if x == y and node.operation == "multiply":
            nodes.append(Node("activation", (x,), node.output, {"function": "square", "parameters": {}}, node.source))
            continue
        for name in (x, y):
            if name not in ready and name not in made:
                made[name] = f"{name}/factor"
                source = f"{node.source or node.output} (factor)"
                attributes = {"function": "identity", "parameters": {}}
                nodes.append(Node("activation", (name,), made[name], attributes, source))
                shapes[made[name]] = shapes[name]
        nodes.append(replace(node, inputs=(made.get(x, x), made.get(y, y))))
    return Graph(graph.inputs, graph.outputs, tuple(nodes), shapes, graph.constants, graph.name)


def _is_product(graph: Graph, node: Node) -> bool:
    """Tells whether a node multiplies two computed values."""
    return node.operation in PRODUCTS and not any(name in graph.constants for name in node.inputs)


def _require_one_use(graph: Graph, node: Node) -> None:
    """Raises ModelError if another node than a softmax reads the sum of a mask and other values."""
    for user in graph.users(node.output):
        if user.operation != "softmax":
            raise ModelError(
                f"cannot compile node {user.source or user.output} ({user.operation}) for encrypted data: a mask of large "
                "negative numbers must be added to the argument of a softmax only"
            )


def _normalized(writer: Writer, node: Node) -> None:
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
    y = writer.put("multiply", (centred, inverse), flat, largest=math.sqrt(inner))
    if flat != shape:
        y = writer.put("reshape", (y,), shape, shape=shape)
    writer.put("scale", (y,), shape, node.output, factor=a["factor"], offset=a["offset"])


def _multiplied(writer: Writer, node: Node) -> None:
    """All products of elements, and their sums."""
    left, right = node.inputs
    a, b = writer.shape(left), writer.shape(right)
    rank = max(len(a), len(b))
    a, b = ((1,) * (rank - len(s)) + s for s in (a, b))
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    rows, inner, columns = a[-2], a[-1], b[-1]
    whole = (*lead, rows, inner, columns)
    require_terms(node, whole)
    factors = []
    for value, shape in ((left, (*a, 1)), (right, (*b[:-2], 1, *b[-2:]))):
        made = writer.put("reshape", (value,), shape, shape=shape)
        factors.append(writer.put("broadcast", (made,), whole, shape=whole))
    product = writer.put("multiply", (factors[0], factors[1]), whole)
    writer.put("sum", (product,), (*lead, rows, columns), node.output, axes=(rank - 1,), keepdims=False)


def weights_of(
    writer: Writer, node: Node, value: str, mask: str, axes: tuple[int, ...], seen: Array, fixed: npt.NDArray[np.bool_]
) -> str:
    """Appends exp(x - c) divided by its sum along one or two axes, and returns the name of the quotient. Of two axes the
    first one has the distance of whole ciphertexts; the sums have length 1 there.

    c is the largest argument of a row on the calibration samples, `seen` [count, ...]. `fixed` [...] shows arguments that a
    constant masks. Their exponentials are 0 if they were below e^-100 of the largest one of their row in all samples.

    If the sums would span too large a range for one polynomial of 1 / x, exp((x - c) / 2^k) is divided by its sum, and the
    result is squared and divided by its sum k times. Masked exponentials are multiplied by 0."""
    shape = writer.shape(value)
    inner, rows = axes[-1], tuple(axis + 1 for axis in axes)
    order = (*(i for i in range(len(shape)) if i != inner), inner)
    if fixed.all(axis=axes).any():
        raise ModelError(
            f"cannot compile node {node.source or node.output} (softmax) for encrypted data: its constant mask must keep at "
            "least one argument of each row"
        )
    if fixed.any():
        others = np.where(fixed, -np.inf, np.asarray(seen, np.float64))
        far = np.asarray(seen, np.float64) < others.max(axis=rows, keepdims=True) + _FIXED
        fixed = fixed & far.all(axis=0)
        seen = np.where(fixed, -np.inf, seen)
    most = np.asarray(seen, np.float64).max(axis=rows, keepdims=True).max(axis=0)
    largest = np.where(np.isfinite(most), most, 0.0)  # 0: a row that is masked in all samples
    halvings = _halvings(node, seen - largest, rows)
    scale = 2.0**-halvings
    offset = -scale * np.broadcast_to(largest, shape)
    factor = np.where(fixed, 0.0, scale) if fixed.any() else np.float64(scale)
    offset = np.where(fixed, 0.0, offset)
    part = writer.function(writer.put("scale", (value,), shape, factor=factor, offset=offset), "exp", "exp")
    if fixed.any():
        part = writer.put("scale", (part,), shape, factor=np.where(fixed, 0.0, 1.0), offset=np.float64(0))
    if mask:
        if writer.shape(mask) != shape:
            mask = writer.put("broadcast", (mask,), shape, shape=shape)
        part = writer.put("multiply", (part, mask), shape)
    ones = np.ones((shape[inner], shape[inner]))
    most = math.sqrt(math.prod(shape[axis] for axis in axes)) / 2 + 1  # of p / sum of p^2, for shares p
    for i in range(halvings + 1):
        total = part if i == 0 else writer.function(part, "square", "square")
        if len(axes) > 1:
            total = writer.put("sum", (total,), (1, *shape[1:]), axes=(axes[0],), keepdims=True)
        total = writer.turned(writer.summed(writer.turned(total, order), ones), tuple(int(k) for k in np.argsort(order)))
        inverse = writer.function(total, "reciprocal", "inverse sum")
        quotient = writer.put("multiply", (part, inverse), shape, largest=most if i else 1.0)
        # The square of a share p, divided by the sum of squares, is computed as p (p / sum): p^2 first would lose the bits
        # of small shares.
        part = writer.put("multiply", (part, quotient), shape, largest=1.0) if i else quotient
    return part


def _halvings(node: Node, arguments: Array, axes: tuple[int, ...]) -> int:
    """Returns k such that the sums of exp(arguments / 2^k) along some axes have a small ratio. Masked arguments are
    -infinity."""
    inside = np.isfinite(arguments)
    if np.isnan(arguments).any() or np.isposinf(arguments).any() or not inside.any(axis=axes).all():
        raise ModelError(
            f"cannot compile node {node.source or node.output} (softmax): its arguments must be finite on the calibration "
            "samples, and each row must have an argument that is not masked"
        )
    span = float(np.ptp(arguments[inside]))
    for k in range(_SQUARINGS + 1):
        sums = np.exp(arguments / 2**k).sum(axis=axes)
        if sums.max() <= _RATIO * sums.min() and span <= _SPAN * 2**k:
            return k
    raise ModelError(
        f"cannot compile node {node.source or node.output} (softmax) for encrypted data: its arguments span "
        f"{span:.4g} on the calibration samples, and may span at most {_SPAN * 2**_SQUARINGS:g}"
    )
