"""Division of a network at its activations.

A cut is a tensor that is encrypted or results from an activation. Everything between cuts is a sum of linear maps and a
constant: a `Form`. A product of two tensors is a cut, too, and its two factors are cuts. Maximum pools become maxima of
pairs (`pools`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape, floats
from heliograph.ml.interpreter import CANONICAL
from heliograph.ml.networks.evaluation import function_of
from heliograph.ml.networks.pools import unused, without_pools
from heliograph.ml.networks.primitives import PRODUCTS, client_part, with_factors
from heliograph.ml.networks.pushes import PUSHES, alike, concatenated, scaled
from heliograph.ml.networks.terms import MOST_WHOLE, Floats, Indices, LinearMap, Terms

_MOST_TRIPLETS = 1 << 28  # some minutes of one core

_SIGMOIDS = ("sigmoid", "hard_sigmoid")
_MOVES = ("reshape", "transpose", "slice", "concatenate", "broadcast")  # operations that only move values

_COPIES = ("reshape", "transpose", "slice", "broadcast", "shifts", "pad")  # moves of one value, which may copy

_REMEDIES = {
    "softmax": "a softmax is supported as the last operation, which the client computes",
    "log_softmax": "a softmax is supported as the last operation, which the client computes",
    "argmax": "an argmax is supported as the last operation, which the client computes",
    "normalize": "train with batch normalization instead, which becomes part of the layer before",
    "matmul": "a product of two encrypted matrices is not supported",
}


@dataclass(frozen=True)
class Form:
    """An affine map: the sum of linear maps of cuts, and a constant."""

    shape: Shape
    maps: Mapping[str, LinearMap]  #: linear map of each cut that it reads
    constant: Floats  #: constant [values], flattened

    @property
    def count(self) -> int:
        """Maximum number of triplets of all maps."""
        return sum(terms.count for terms in self.maps.values())

    @property
    def stored(self) -> int:
        """Number of weights of all maps in memory, or that are made for each use."""
        return sum(terms.stored for terms in self.maps.values())

    def largest(self, bounds: Mapping[str, float]) -> float:
        """Returns the largest magnitude of a result, for magnitudes of cuts of at most `bounds`.

        >>> Form((2,), {"x": Terms.identity((2,))}, np.array([1.0, -3.0])).largest({"x": 2.0})
        5.0
        """
        most = np.abs(self.constant)
        for name, terms in self.maps.items():
            for part in terms.parts():
                most = most + bounds[name] * np.bincount(part.rows, np.abs(part.weights), len(most))
        return float(most.max(initial=0.0))

    def plus(self, other: Form) -> Form:
        """Returns the sum of two forms of one shape.

        >>> one = Form((1,), {"x": Terms.identity((1,))}, np.ones(1))
        >>> one.plus(one).constant
        array([2.])
        """
        maps = dict(self.maps)
        for name, terms in other.maps.items():
            maps[name] = maps[name].plus(terms) if name in maps else terms
        return Form(self.shape, maps, self.constant + other.constant)

    def without_weights(self) -> Form:
        """Returns the form without the triplets of its maps.

        >>> one = Form((1,), {"x": Terms.identity((1,))}, np.ones(1)).without_weights()
        >>> list(one.maps), one.maps["x"].count
        (['x'], 0)
        """
        return replace(self, maps={name: terms.without_weights() for name, terms in self.maps.items()})

    def joined(self) -> Form:
        """Returns the form with one triplet for each pair of indices, of 32 bits each, without maps of zeros.

        >>> one = Form((1,), {"x": Terms.identity((1,))}, np.ones(1))
        >>> one.plus(one).joined().maps["x"].weights
        array([2.])
        """
        joined = {name: terms.joined().short() for name, terms in self.maps.items()}
        return Form(self.shape, {name: terms for name, terms in joined.items() if not terms.is_zero}, self.constant)


@dataclass(frozen=True)
class Cut:
    """A tensor between linear maps: the input, or the result of an activation or of a product of two other cuts."""

    name: str  #: name of the value in the graph
    shape: Shape
    node: Node | None  #: the activation or product; None for the input
    form: Form | None  #: argument of the activation, or the two factors of the product; None for the input

    @property
    def is_product(self) -> bool:
        """Whether the cut is a product of the two cuts that its form reads."""
        return self.node is not None and self.node.operation in PRODUCTS

    @property
    def is_contraction(self) -> bool:
        """Whether the cut is a product of attention, which sums products."""
        return self.is_product and self.node is not None and self.node.operation != "multiply"

    @property
    def is_linear(self) -> bool:
        """Whether the cut is no approximation: the input, or a value that several maps read and that is kept for them."""
        return self.node is None or self.node.attributes.get("function") == "identity"

    @property
    def label(self) -> str:
        """Words that name the cut in reports and errors."""
        return "input" if self.node is None else self.node.source or self.name


@dataclass(frozen=True)
class Network:
    """A graph as cuts in topological order, the form of its output, and the operations that the client computes."""

    graph: Graph
    cuts: tuple[Cut, ...]
    output: Form
    client: tuple[Node, ...]

    @property
    def activations(self) -> tuple[Cut, ...]:
        """The cuts with an activation."""
        return tuple(cut for cut in self.cuts if cut.node is not None and not cut.is_product)

    @property
    def result(self) -> str:
        """Name of the value that the encrypted program computes: the output before the client's operations."""
        return self.client[0].inputs[0] if self.client else self.graph.outputs[0]

    @property
    def has_sigmoids(self) -> bool:
        """Whether all values of the result are sigmoids, which are probabilities of labels and no scores."""
        return _are_sigmoids(self.graph, self.result)

    def factors(self) -> dict[str, str]:
        """Returns the linear cuts that a product reads, directly or through cuts that only move elements.

        The value of a name is the cut whose elements this cut moves, or "" if this cut computes its own values."""
        cuts, makers = {cut.name: cut for cut in self.cuts}, {node.output: node for node in self.graph.nodes}
        names = [name for cut in self.cuts if cut.is_product and cut.form is not None for name in cut.form.maps]
        found: dict[str, str] = {}
        while names:
            cut = cuts[names.pop()]
            if not cut.is_linear or cut.node is None or cut.name in found:
                continue
            value = cut.node.inputs[0]
            while value not in cuts and makers[value].operation in _COPIES:
                value = makers[value].inputs[0]
            found[cut.name] = value if value in cuts else ""
            names += [value] if value in cuts else []
        return found

    def without_weights(self) -> Network:
        """Returns the network without the triplets of its maps, which diagonals replace: they take gigabytes."""
        cuts = tuple(replace(cut, form=None if cut.form is None else cut.form.without_weights()) for cut in self.cuts)
        return replace(self, cuts=cuts, output=self.output.without_weights())

    def upto(self, value: str) -> Graph:
        """Returns the graph with another value as its output, without later nodes."""
        nodes = self.graph.nodes
        count = next((i + 1 for i, node in enumerate(nodes) if node.output == value), 0)
        return replace(self.graph, nodes=nodes[:count], outputs=(value,))


def network_of(graph: Graph) -> Network:
    """Divides a canonical graph at its activations.

    Raises ModelError for an operation that encrypted networks do not support, with the name of its node."""
    graph = with_factors(without_pools(graph))
    client = client_part(graph)
    inner = graph.nodes[: len(graph.nodes) - len(client)]
    name = graph.inputs[0]
    made = _Division(graph, {name: _whole(name, tuple(graph.shapes[name]))})
    for node in inner:
        made.add(node)
    last = client[0].inputs[0] if client else graph.outputs[0]
    output = made.forms[last].joined()
    if not output.maps:
        raise ModelError("cannot compile this network: its output must depend on its input, and is constant")
    graph = replace(graph, nodes=(*made.nodes, *client), shapes=made.shapes)
    return _without_unused(Network(graph, tuple(made.cuts), output, client))


class _Division:
    """The cuts and forms of the nodes so far. Values that are better computed once become cuts, too (`keep`)."""

    def __init__(self, graph: Graph, forms: dict[str, Form]) -> None:
        (name,) = forms
        self._graph, self.forms = graph, forms
        self.cuts = [Cut(name, forms[name].shape, None, None)]
        self.nodes: list[Node] = []
        self.shapes = dict(graph.shapes)
        self._kept: dict[str, str] = {}  # the cut of each value that is kept

    def add(self, node: Node) -> None:
        """Adds the next node."""
        node = replace(node, inputs=tuple(self._kept.get(value, value) for value in node.inputs))
        shape = tuple(self.shapes[node.output])
        operands = [self.forms[v] if v in self.forms else _constant(self._graph, node, v) for v in node.inputs]
        if node.operation in ("convolution", "dense") and _is_better_apart(node, operands[0], shape):
            kept = self.keep(node.inputs[0])
            node, operands = replace(node, inputs=(kept,)), [self.forms[kept]]
        if node.operation == "activation":
            self._activate(node, operands[0].joined(), shape)
        elif node.operation in PRODUCTS and all(form.maps for form in operands):
            self.nodes.append(node)
            self.cuts.append(Cut(node.output, shape, node, _factors(node, operands)))
            self.forms[node.output] = _whole(node.output, shape)
        else:
            self.nodes.append(node)
            self.forms[node.output] = form = _pushed(node, operands, shape)
            if len(self._graph.users(node.output)) > 1 and form.stored > max(MOST_WHOLE, 2 * math.prod(shape)):
                self.keep(node.output)

    def keep(self, value: str) -> str:
        """Makes a cut of a value without an activation, for all later nodes that read it. Returns its name."""
        name, shape = unused(f"{value}/kept", self.shapes), tuple(self.shapes[value])
        maker = next((node.source for node in self.nodes if node.output == value), "")
        self.shapes[name] = shape
        self._kept[value] = name
        attributes = {"function": "identity", "parameters": {}}
        self._activate(
            Node("activation", (value,), name, attributes, f"{maker or value} (result)"), self.forms[value], shape
        )
        return name

    def _activate(self, node: Node, form: Form, shape: Shape) -> None:
        self.nodes.append(node)
        form = form.joined()
        if form.maps:
            self.cuts.append(Cut(node.output, shape, node, form))
            self.forms[node.output] = _whole(node.output, shape)
        else:
            self.forms[node.output] = Form(shape, {}, _finite(node, function_of(node)(form.constant)))


def _is_better_apart(node: Node, form: Form, shape: Shape) -> bool:
    """Tells whether a large linear map has less than half of the weights if the node's operand is computed first."""
    if all(alike(node, terms, shape) is not None for terms in form.maps.values()):
        return False
    together = form.count * _growth(node, shape)
    apart = form.count + math.prod(form.shape) * _growth(node, shape)
    return together > max(MOST_WHOLE, 2 * apart)


def _without_unused(network: Network) -> Network:
    """Returns the network without cuts that its output does not depend on."""
    needed = set(network.output.maps)
    kept = []
    for cut in reversed(network.cuts):
        if cut.name in needed or cut.node is None:
            kept.append(cut)
            needed.update(cut.form.maps if cut.form else ())
    return Network(network.graph, tuple(reversed(kept)), network.output, network.client)


def _are_sigmoids(graph: Graph, value: str) -> bool:
    """Tells whether all elements of a value are results of a sigmoid."""
    made = {node.output: node for node in graph.nodes}
    names, found = [value], False
    while names:
        node = made.get(names.pop())
        if node is not None and node.operation in _MOVES:
            names += node.inputs
        elif node is not None and node.operation == "activation" and node.attributes["function"] in _SIGMOIDS:
            found = True
        else:
            return False
    return found


def _factors(node: Node, operands: list[Form]) -> Form:
    """Returns the two cuts of a product as one form."""
    one, two = operands
    whole = all([t.factor() for t in form.maps.values()] == [1.0] and not form.constant.any() for form in operands)
    if not whole or one.maps.keys() == two.maps.keys():
        raise _unsupported(node, "the factors of a product must be two different activations")
    return Form(one.shape, {**one.maps, **two.maps}, np.zeros(math.prod(one.shape)))


def _whole(name: str, shape: Shape) -> Form:
    return Form(shape, {name: Terms.identity(shape)}, np.zeros(math.prod(shape)))


def _constant(graph: Graph, node: Node, value: str) -> Form:
    if value not in graph.constants:
        raise ModelError(f"cannot compile node {node.source or node.output}: its operand {value!r} must be made before it")
    array = floats(graph.constants[value])
    return Form(array.shape, {}, array.ravel())


def _finite(node: Node, values: Array) -> Floats:
    """Returns a constant value. Raises ModelError for infinities and NaN."""
    if not np.isfinite(values).all():
        raise _unsupported(node, "its value, which does not depend on the input, must be finite")
    return floats(values)


def _unsupported(node: Node, remedy: str) -> ModelError:
    name = node.source or node.output
    return ModelError(f"cannot compile node {name} ({node.operation}) for encrypted data: {remedy}")


def _pushed(node: Node, operands: list[Form], shape: Shape) -> Form:
    """Returns the form of a linear operation. Raises ModelError for any other operation."""
    kind = node.operation
    if kind == "add":
        return _broadcast(node, operands[0], shape).plus(_broadcast(node, operands[1], shape))
    if kind == "broadcast":
        return _broadcast(node, operands[0], shape)
    if kind == "multiply":
        constant, form = sorted(operands, key=lambda f: bool(f.maps))
        factor = np.broadcast_to(constant.constant.reshape(constant.shape), shape).ravel()
        form = _broadcast(node, form, shape)
        times = partial(_times, factor)
        every = {name: scaled(t, factor) or t.pushed(times, shape, t.count) for name, t in form.maps.items()}
        return Form(shape, every, form.constant * factor)
    if kind == "concatenate":
        return _concatenated(node, operands, shape)
    if kind not in PUSHES:
        raise _unsupported(
            node, _REMEDIES.get(kind, f"supported are {', '.join(sorted(PUSHES))}, add, multiply, activation")
        )
    form = operands[0]
    grow = _growth(node, shape)
    push = partial(_push, node, shape)
    maps: dict[str, LinearMap] = {}
    for name, terms in form.maps.items():
        same = alike(node, terms, shape)
        if same is None:
            _require_small(node, int(terms.count * grow))
        maps[name] = terms.pushed(push, shape, int(terms.count * grow)) if same is None else same
    after = CANONICAL[kind]([form.constant.reshape(1, *form.shape)], node.attributes)
    return Form(shape, maps, floats(after).ravel())


def _push(node: Node, shape: Shape, terms: Terms) -> Terms:
    return PUSHES[node.operation](node, terms, shape)


def _times(factor: Floats, t: Terms) -> Terms:
    return Terms(t.shape, t.columns, t.rows, t.cols, t.weights * factor[t.rows], t.distinct)


def _growth(node: Node, shape: Shape) -> float:
    """Returns the number of outputs that an input of a node adds to, about."""
    if node.operation == "dense":
        return float(np.shape(node.attributes["weight"])[0])
    if node.operation == "shifts":
        return float(node.attributes["count"])
    if node.operation != "convolution":
        return 1.0
    outputs, _, *kernel = np.shape(node.attributes["weight"])
    taps = [min(k / s, n) for k, s, n in zip(kernel, node.attributes["strides"], shape[1:], strict=True)]
    return float(outputs // int(node.attributes["groups"]) * math.prod(taps))


def _require_small(node: Node, count: int) -> None:
    """Raises ModelError for a linear map of so many weights that its compilation takes hours."""
    if count > _MOST_TRIPLETS:
        raise _unsupported(
            node, f"its linear map must have at most {_MOST_TRIPLETS:,} weights, and has {count:,}; use smaller inputs"
        )


def _broadcast(node: Node, form: Form, shape: Shape) -> Form:
    """Returns a form whose values are repeated to a larger shape by NumPy's rules."""
    if form.shape == shape:
        return form
    source = np.broadcast_to(np.arange(math.prod(form.shape)).reshape(form.shape), shape).ravel()
    grow = len(source) // max(1, len(form.constant))
    maps = {
        name: terms.pushed(partial(_repeated, source, shape), shape, terms.count * grow) for name, terms in form.maps.items()
    }
    return Form(shape, maps, form.constant[source])


def _repeated(source: Indices, shape: Shape, terms: Terms) -> Terms:
    """Returns the triplets of a map whose output repeats: output i is the output `source[i]` of `terms`."""
    joined = terms.joined()
    order = np.argsort(joined.rows, kind="stable")
    joined = Terms(joined.shape, joined.columns, joined.rows[order], joined.cols[order], joined.weights[order])
    start = np.searchsorted(joined.rows, source)
    count = np.searchsorted(joined.rows, source, side="right") - start
    index = np.repeat(start - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
    rows = np.repeat(np.arange(len(source)), count)
    return Terms(shape, terms.columns, rows, joined.cols[index], joined.weights[index])


def _concatenated(node: Node, operands: list[Form], shape: Shape) -> Form:
    axis = int(node.attributes["axis"])
    total = Form(shape, {}, np.zeros(math.prod(shape)))
    offset = 0
    for form in operands:
        move = partial(concatenated, shape=shape, axis=axis, offset=offset)
        maps = {name: terms.pushed(move, shape, terms.count) for name, terms in form.maps.items()}
        spread = concatenated(Terms.identity(form.shape), shape, axis, offset)
        total = total.plus(Form(shape, maps, spread.apply(form.constant)))
        offset += form.shape[axis]
    return total
