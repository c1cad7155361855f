"""Division of a network at its activations.

A cut is a tensor that is encrypted or results from an activation. Everything between cuts is a sum of linear maps and a
constant: a `Form`. A product of two tensors is a cut, too, and its two factors are cuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from heliograph._common.arguments import readable_bytes
from heliograph._common.process import available_memory
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape, floats
from heliograph.ml.networks.evaluation import function_of
from heliograph.ml.networks.primitives import client_part, with_factors
from heliograph.ml.networks.terms import PUSHES, Floats, Terms, concatenated

_MOST_TRIPLETS, _TRIPLET_BYTES = 1 << 26, 24  # 1.6 GB
_COPIES = 3  # of the weights of all linear maps: the maps, and their diagonals for several sizes of rings
_MANY_TRIPLETS = 1 << 22  # of a map that is joined before it grows further

_SIGMOIDS = ("sigmoid", "hard_sigmoid")
_MOVES = ("reshape", "transpose", "slice", "concatenate", "broadcast")  # operations that only move values

_REMEDIES = {
    "maximum_pool": "train with average pools instead",
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
    maps: Mapping[str, Terms]  #: linear map of each cut that it reads
    constant: Floats  #: constant [values], flattened

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
        >>> list(one.maps), len(one.maps["x"].weights)
        (['x'], 0)
        """
        none = np.zeros(0, dtype=np.int64)
        return replace(
            self, maps={name: Terms(t.shape, t.columns, none, none, np.zeros(0)) for name, t in self.maps.items()}
        )

    def joined(self) -> Form:
        """Returns the form with one triplet for each pair of indices, without maps of zeros.

        >>> one = Form((1,), {"x": Terms.identity((1,))}, np.ones(1))
        >>> one.plus(one).joined().maps["x"].weights
        array([2.])
        """
        joined = {name: terms.joined() for name, terms in self.maps.items()}
        return Form(self.shape, {name: terms for name, terms in joined.items() if len(terms.weights)}, self.constant)


@dataclass(frozen=True)
class Cut:
    """A tensor between linear maps: the input, or the result of an activation or of a product of two other cuts."""

    name: str  #: name of the value in the graph
    shape: Shape
    node: Node | None  #: the activation or product; None for the input
    form: Form | None  #: argument of the activation, or the two factors of the product; None for the input

    @property
    def is_product(self) -> bool:
        """Whether the cut is the product of the two cuts that its form reads."""
        return self.node is not None and self.node.operation == "multiply"

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
    graph = with_factors(graph)
    client = client_part(graph)
    inner = graph.nodes[: len(graph.nodes) - len(client)]
    name = graph.inputs[0]
    cuts = [Cut(name, tuple(graph.shapes[name]), None, None)]
    forms: dict[str, Form] = {name: _whole(name, cuts[0].shape)}
    last = client[0].inputs[0] if client else graph.outputs[0]
    uses = {value: i for i, node in enumerate(inner) for value in node.inputs}
    held = 0
    for i, node in enumerate(inner):
        shape = tuple(graph.shapes[node.output])
        operands = [forms[v] if v in forms else _constant(graph, node, v) for v in node.inputs]
        if node.operation == "activation":
            form = operands[0].joined()
            held += sum(len(terms.rows) for terms in form.maps.values())
            _require_memory(node, held)
            if form.maps:
                cuts.append(Cut(node.output, shape, node, form))
                forms[node.output] = _whole(node.output, shape)
            else:
                forms[node.output] = Form(shape, {}, _finite(node, function_of(node)(form.constant)))
        elif node.operation == "multiply" and all(form.maps for form in operands):
            cuts.append(Cut(node.output, shape, node, _factors(node, operands)))
            forms[node.output] = _whole(node.output, shape)
        else:
            forms[node.output] = _pushed(node, operands, shape)
        for value in {*node.inputs, node.output} - {last}:
            if uses.get(value, -1) <= i:
                forms.pop(value, None)
    output = forms[last].joined()
    if not output.maps:
        raise ModelError("cannot compile this network: its output must depend on its input, and is constant")
    network = Network(graph, tuple(cuts), output, client)
    return _without_unused(network)


def _require_memory(node: Node, count: int) -> None:
    """Raises ModelError if the linear maps so far, with their diagonals, exceed the free memory."""
    free, large = available_memory(), _COPIES * _TRIPLET_BYTES * count
    if free is not None and large > free:
        raise _unsupported(
            node,
            f"the linear maps up to it have {count:,} weights and would take {readable_bytes(large)} while compiling, "
            f"and {readable_bytes(free)} are free; use smaller inputs, or a machine with more memory",
        )


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
    if one.shape != two.shape or not whole or one.maps.keys() == two.maps.keys():
        raise _unsupported(node, "the factors of a product must be two activations of one shape")
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
        maps = {name: Terms(t.shape, t.columns, t.rows, t.cols, t.weights * factor[t.rows]) for name, t in form.maps.items()}
        return Form(shape, maps, form.constant * factor)
    if kind == "concatenate":
        return _concatenated(node, operands, shape)
    if kind not in PUSHES:
        raise _unsupported(
            node, _REMEDIES.get(kind, f"supported are {', '.join(sorted(PUSHES))}, add, multiply, activation")
        )
    form = operands[0]
    if _count_after(node, form) > _MANY_TRIPLETS:  # linear layers in a row: one triplet for each pair of indices
        form = form.joined()
    _require_small(node, form)
    maps = {name: PUSHES[kind](node, terms, shape) for name, terms in form.maps.items()}
    return Form(shape, maps, _constant_after(node, form, shape))


def _constant_after(node: Node, form: Form, shape: Shape) -> Floats:
    """Returns the constant of a form after a linear operation and its bias."""
    size = math.prod(form.shape)
    nonzero = np.flatnonzero(form.constant)
    terms = Terms(form.shape, size, nonzero, nonzero, np.ones(len(nonzero)))
    made = PUSHES[node.operation](node, terms, shape).apply(form.constant)
    if node.operation == "scale":
        return made + np.broadcast_to(floats(node.attributes["offset"]), shape).ravel()
    if node.operation in ("dense", "convolution"):
        bias = floats(node.attributes["bias"])
        bias = bias if node.operation == "dense" else bias[:, None, None]
        return made + np.broadcast_to(bias, shape).ravel()
    return made


def _count_after(node: Node, form: Form) -> int:
    """Returns about the triplets after a linear operation."""
    grow = 1
    if node.operation == "dense":
        grow = int(np.shape(node.attributes["weight"])[0])
    elif node.operation == "convolution":
        weight = np.shape(node.attributes["weight"])
        grow = weight[0] // int(node.attributes["groups"]) * weight[2] * weight[3]
    count = sum(len(terms.rows) for terms in form.maps.values()) * grow
    if node.operation == "convolution":
        count //= max(1, int(np.prod(node.attributes["strides"])))
    return count


def _require_small(node: Node, form: Form) -> None:
    """Raises ModelError for a linear map of too many weights for the memory of the compiler."""
    count = _count_after(node, form)
    if count > _MOST_TRIPLETS:
        raise _unsupported(
            node,
            f"its linear map must have at most {_MOST_TRIPLETS:,} weights, and has {count:,}, which take "
            f"{readable_bytes(_TRIPLET_BYTES * count)} while compiling; use smaller inputs",
        )


def _broadcast(node: Node, form: Form, shape: Shape) -> Form:
    """Returns a form whose values are repeated to a larger shape by NumPy's rules."""
    if form.shape == shape:
        return form
    source = np.broadcast_to(np.arange(math.prod(form.shape)).reshape(form.shape), shape).ravel()
    maps = {}
    for name, terms in form.maps.items():
        joined = terms.joined()
        order = np.argsort(joined.rows, kind="stable")
        joined = Terms(joined.shape, joined.columns, joined.rows[order], joined.cols[order], joined.weights[order])
        start = np.searchsorted(joined.rows, source)
        count = np.searchsorted(joined.rows, source, side="right") - start
        index = np.repeat(start - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
        rows = np.repeat(np.arange(len(source)), count)
        maps[name] = Terms(shape, terms.columns, rows, joined.cols[index], joined.weights[index])
    return Form(shape, maps, form.constant[source])


def _concatenated(node: Node, operands: list[Form], shape: Shape) -> Form:
    axis = int(node.attributes["axis"])
    total = Form(shape, {}, np.zeros(math.prod(shape)))
    offset = 0
    for form in operands:
        maps = {name: concatenated(terms, shape, axis, offset) for name, terms in form.maps.items()}
        spread = concatenated(Terms.identity(form.shape), shape, axis, offset)
        total = total.plus(Form(shape, maps, spread.apply(form.constant)))
        offset += form.shape[axis]
    return total
