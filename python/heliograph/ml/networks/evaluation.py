"""Evaluation of a canonical graph on batches of clear samples, with replaceable activations.

Calibration, the search of degrees and `NetworkModel.simulate` run this code. A hook replaces an activation by its polynomial
and can add the noise of encrypted computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.activations import FUNCTIONS
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import OPERATIONS, Graph, Node
from heliograph.ml.interpreter import CANONICAL

Array = npt.NDArray[Any]
HOOKED = ("multiply", "attention_scores", "attention_values")  #: operations whose values hooks may change
#: For activations called with a node and its argument [samples, ...]; returns the node's values, or None for the exact
#: function. For products called with their values, which it may replace.
Hook = Callable[[Node, Array], "Array | None"]


def described(node: Node) -> str:
    """Returns the words that name a node in errors."""
    return node.source or f"{node.output} ({node.operation})"


def evaluate(graph: Graph, samples: Array, hook: Hook | None = None) -> dict[str, Array]:
    """Returns the outputs of a canonical graph for samples [count, ...], each with the axis of samples first.

    Values that no later node reads are dropped."""
    return evaluated(graph, {graph.inputs[0]: samples}, hook)


def evaluated(graph: Graph, start: Mapping[str, Array], hook: Hook | None = None) -> dict[str, Array]:
    """Returns the outputs of a graph whose first values [count, ...] are known. Products call the hook with their value."""
    values = dict(start)
    samples = next(iter(start.values()))
    last = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    for i, node in enumerate(graph.nodes):
        values[node.output] = _computed(graph, node, values, samples.shape[:1], samples.dtype, hook)
        for name in node.inputs:
            if last[name] == i and name not in graph.outputs:
                values.pop(name, None)
    return {name: np.broadcast_to(x, (len(samples), *x.shape[1:])) for name, x in values.items()}


def evaluate_more(graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """Returns values [count, ...] and those of the nodes of a graph, which read them."""
    made = dict(values)
    first = next(iter(values.values()))
    for node in graph.nodes:
        made[node.output] = _computed(graph, node, made, first.shape[:1], first.dtype, None)
    return made


def _computed(
    graph: Graph, node: Node, values: Mapping[str, Array], count: tuple[int, ...], dtype: npt.DTypeLike, hook: Hook | None
) -> Array:
    """Returns the value of one node."""
    operands = [_operand(graph, values, name, dtype) for name in node.inputs]
    if node.operation == "concatenate":  # values that do not depend on the input have one sample
        operands = [np.broadcast_to(x, (*count, *x.shape[1:])) for x in operands]
    made = hook(node, operands[0]) if hook is not None and node.operation == "activation" else None
    with np.errstate(all="ignore"):
        value = CANONICAL[node.operation](operands, node.attributes) if made is None else made
    if hook is None or node.operation not in HOOKED:
        return value
    changed = hook(node, value)
    return value if changed is None else changed


def products_of_sample(graph: Graph) -> int:
    """Returns about the products of the evaluation of one sample."""
    total = 0
    for node in graph.nodes:
        size = math.prod(graph.shapes[node.output])
        if node.operation in ("dense", "convolution"):
            total += size * math.prod(np.shape(node.attributes["weight"])[1:])
        elif node.operation.startswith("attention"):
            total += size * graph.shapes[node.inputs[1]][-2]
        else:
            total += size
    return total


def _operand(graph: Graph, values: Mapping[str, Array], name: str, dtype: npt.DTypeLike) -> Array:
    """Returns a computed value, or a constant with an axis of samples."""
    return values[name] if name in values else np.asarray(graph.constants[name], dtype=dtype)[None]


def batches(samples: Array, batch: int) -> Iterator[Array]:
    """Yields consecutive parts of at most `batch` samples."""
    for start in range(0, len(samples), batch):
        yield samples[start : start + batch]


def function_of(node: Node) -> Callable[[Array], Array]:
    """Returns the exact function of an activation node. Raises ModelError for an unknown name."""
    name, parameters = str(node.attributes["function"]), dict(node.attributes.get("parameters", {}))
    if name not in FUNCTIONS:
        raise ModelError(
            f"cannot compile node {described(node)}: its activation must be one of {', '.join(sorted(FUNCTIONS))}, not "
            f"{name!r}"
        )

    def function(x: Array) -> Array:
        with np.errstate(all="ignore"):  # callers check that results are finite
            return np.asarray(FUNCTIONS[name](x, **parameters))

    return function


def is_of_positives(node: Node) -> bool:
    """Tells whether the function of an activation node is defined for positive arguments only, or has a pole at 0."""
    name = str(node.attributes["function"])
    if name == "power":
        exponent = float(node.attributes["parameters"]["exponent"])
        return exponent < 0 or exponent != int(exponent)
    return name in ("log", "reciprocal", "sqrt")


def is_relative(node: Node) -> bool:
    """Tells whether errors of an activation node count relative to its values: those of inverses, which are factors."""
    name = str(node.attributes["function"])
    return name == "reciprocal" or (name == "power" and float(node.attributes["parameters"]["exponent"]) < 0)


def require_known(graph: Graph) -> None:
    """Raises ModelError for an operation that no canonical graph has, or for several inputs or outputs."""
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise ModelError(
            f"cannot compile this network: it must have one input and one output, not {len(graph.inputs)} and "
            f"{len(graph.outputs)}; select an output of a file by outputs=, or make a model of one input and one output"
        )
    for node in graph.nodes:
        if node.operation == "activation":
            function_of(node)
        if node.operation not in OPERATIONS:
            known = ", ".join(sorted(OPERATIONS))
            raise ModelError(f"cannot compile node {described(node)}: its operation must be one of {known}")
