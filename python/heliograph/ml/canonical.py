"""Canonical form of models: ONNX operators become the operations of `graph.OPERATIONS`, simplified by rules."""

from __future__ import annotations

import numpy as np

from heliograph.ml.chains import with_softmax
from heliograph.ml.draft import Draft
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph
from heliograph.ml.lower_layers import lower
from heliograph.ml.patterns import PATTERNS
from heliograph.ml.rules import MERGES, RULES, Rule

_MOST_PASSES = 200


def canonical(graph: Graph) -> Graph:
    """Return a graph of ONNX operators in canonical form: same inputs, outputs and values, without the batch axis.

    Batch normalizations, scales and averages are folded into their neighbours; transpositions that cancel are removed;
    GELU, SiLU, layer normalization and other patterns become one node. Values differ from the file's by rounding, and by
    2^-18 of an activation's scale where a pattern is replaced. Samples for which the file computes NaN are not covered.

    Raises ModelError for an operator without a canonical form, or a constant that is not finite; the message names the node.

    >>> import numpy as np
    >>> from heliograph.ml.graph import Graph, Node
    >>> shapes = {"x": (1, 2), "s": (1, 2), "y": (1, 1)}
    >>> attributes = {"alpha": 1.0, "beta": 1.0, "left": False, "right": False}
    >>> nodes = (Node("Mul", ("x", "c"), "s"), Node("Gemm", ("s", "w"), "y", attributes))
    >>> raw = Graph(("x",), ("y",), nodes, shapes, {"c": np.array([2.0, 3.0]), "w": np.ones((2, 1))})
    >>> [(node.operation, node.attributes["weight"].tolist()) for node in canonical(raw).nodes]
    [('dense', [[2.0, 3.0]])]
    """
    with np.errstate(all="ignore"):  # constants that are not finite are refused below
        draft = lower(with_softmax(graph))
        simplify(draft, (*MERGES, *PATTERNS))  # before scales move into layers, which hides patterns
        simplify(draft, RULES)
        simplify(draft, (*RULES, *PATTERNS))
    result = draft.graph()
    for node in result.nodes:
        for name, value in node.attributes.items():
            if isinstance(value, np.ndarray) and not np.all(np.isfinite(value)):
                raise ModelError(f"cannot compile node {node.source}: its {name} must have finite numbers only")
    return result


def simplify(draft: Draft, rules: tuple[Rule, ...]) -> bool:
    """Apply rules until no rule changes the draft. Return whether one did."""
    ever = False
    draft.prune()
    for _ in range(_MOST_PASSES):
        changed = False
        for node in draft.order():
            for rule in rules:
                if draft.nodes.get(node.output) is not node:
                    break  # the node was changed or dropped in this pass
                changed |= rule(draft, node)
        if not changed:
            return ever
        ever = True
    return ever
