"""Softmax as exporters write it: exponentials divided by their sum after a maximum is subtracted. Masks of infinities."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from heliograph.ml.graph import Array, Graph, Node

#: Operations through which a mask reaches a softmax.
_SUMS = ("Add", "Where", "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Expand")


def with_softmax(graph: Graph) -> Graph:
    """Return a graph of ONNX operators in which exp(x - max x) / sum exp(x - max x) along an axis is Softmax.

    The subtracted value may be any value without that axis: it cancels. Constant masks of minus infinity become large
    finite numbers.
    """
    graph = _with_finite_masks(graph)
    makers = {node.output: node for node in graph.nodes}
    nodes = []
    for node in graph.nodes:
        found = _softmax(graph, makers, node) if node.operation == "Div" else None
        nodes.append(found or node)
    needed, kept = set(graph.outputs), []
    for node in reversed(nodes):
        if node.output in needed:
            kept.append(node)
            needed.update(node.inputs)
    return replace(graph, nodes=tuple(kept[::-1]))


def _with_finite_masks(graph: Graph) -> Graph:
    """Return the graph with at least -1e30 in constants that Add and Where put only into arguments of Softmax."""
    constants, nodes, arguments = dict(graph.constants), [], _arguments_of_softmax(graph)
    for node in graph.nodes:
        names = [name for name in node.inputs if name in constants and _is_mask(constants[name])]
        if node.operation in ("Add", "Where") and names and node.output in arguments:
            made = {name: f"{name}/finite" for name in names}
            constants |= {made[name]: np.maximum(constants[name], np.float32(-1e30)) for name in names}
            node = replace(node, inputs=tuple(made.get(name, name) for name in node.inputs))
        nodes.append(node)
    if len(constants) == len(graph.constants):
        return graph
    shapes = {**graph.shapes, **{name: np.shape(array) for name, array in constants.items()}}
    return replace(graph, nodes=tuple(nodes), constants=constants, shapes=shapes)


def _arguments_of_softmax(graph: Graph) -> set[str]:
    """Return the values that only arguments of Softmax depend on, through sums, selections and moves of elements."""
    users: dict[str, list[Node]] = {}
    found: set[str] = set()
    for node in reversed(graph.nodes):
        own = users.get(node.output, [])
        every = all(user.operation == "Softmax" or (user.operation in _SUMS and user.output in found) for user in own)
        if own and every and node.output not in graph.outputs:
            found.add(node.output)
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    return found


def _is_mask(array: Array) -> bool:
    array = np.asarray(array)
    return array.dtype.kind == "f" and bool((array < -1e30).any())


def _softmax(graph: Graph, makers: dict[str, Node], node: Node) -> Node | None:
    """Return the Softmax that a division is; None for other divisions."""
    power = makers.get(_same(makers, node.inputs[0]))
    if power is None or power.operation != "Exp":
        return None
    shape = tuple(graph.shapes[power.output])
    total = _reduced(graph, makers, node.inputs[1], shape)
    if total is None or total.operation != "ReduceSum" or _same(makers, total.inputs[0]) != power.output:
        return None
    axes = tuple(total.attributes["axes"])
    if len(axes) != 1 or tuple(graph.shapes[node.output]) != shape:
        return None
    x = _same(makers, power.inputs[0])
    shifted = makers.get(x)
    if shifted is not None and shifted.operation == "Sub" and tuple(graph.shapes[shifted.inputs[0]]) == shape:
        top = _reduced(graph, makers, shifted.inputs[1], shape)
        if top is not None and top.operation == "ReduceMax" and tuple(top.attributes["axes"]) == axes:
            x = shifted.inputs[0]
    return Node("Softmax", (x,), node.output, {"axis": axes[0]}, node.source)


def _same(makers: dict[str, Node], name: str) -> str:
    """Return the value that Identity operators copy."""
    while (node := makers.get(name)) is not None and node.operation == "Identity":
        name = node.inputs[0]
    return name


def _reduced(graph: Graph, makers: dict[str, Node], name: str, shape: tuple[int, ...]) -> Node | None:
    """Return the reduction of one axis whose result is spread over `shape` again, by axes of size 1 and broadcasts."""
    forms: list[tuple[int, ...]] = []
    while (node := makers.get(name)) is not None:
        if node.operation in ("ReduceSum", "ReduceMax"):
            axes = tuple(node.attributes["axes"])
            wide = tuple(1 if i in axes else size for i, size in enumerate(shape))
            thin = tuple(size for i, size in enumerate(shape) if i not in axes)
            if tuple(graph.shapes[node.inputs[0]]) != shape:
                return None
            # Each step keeps the places of the other axes: a thin result becomes wide before it is broadcast.
            own = tuple(graph.shapes[node.output])
            steps = [own, *reversed(forms)]
            fits = all(one in (thin, wide, shape) for one in steps) and steps[-1] in (wide, shape)
            return node if fits and all(b != shape or a != thin for a, b in pairwise(steps)) else None
        if node.operation in ("Identity", "Reshape", "Expand") or _is_bound(graph, node):
            forms.append(tuple(graph.shapes[name]))
            name = next(value for value in node.inputs if value not in graph.constants)
        else:
            return None
    return None


def _is_bound(graph: Graph, node: Node) -> bool:
    """Return whether an operator is a maximum with minus infinity, which changes nothing."""
    constants = [graph.constants[name] for name in node.inputs if name in graph.constants]
    return (
        node.operation == "Max" and len(node.inputs) == 2 and len(constants) == 1 and bool(np.all(np.isneginf(constants[0])))
    )
