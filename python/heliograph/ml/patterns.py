"""Patterns of several operations that are one: activations written with others, layer normalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heliograph.ml import activations
from heliograph.ml.draft import Draft
from heliograph.ml.graph import Array, Node
from heliograph.ml.rules import Rule

_POINTS = np.linspace(-12, 12, 4801)
_LONGEST = 24  #: operations of a pattern
#: Functions without parameters that a chain of operations is compared with, by their values.
_KNOWN = ("gelu", "gelu_tanh", "silu", "mish", "hard_swish", "softplus", "softsign", "relu")
_TOLERANCE = 2e-6


def _number(array: Array) -> float | None:
    return float(array.reshape(())) if array.size == 1 else None


def affine(draft: Draft, value: str) -> tuple[str, float, float]:
    """Return (base, factor, offset) of a value that is base * factor + offset for numbers; (value, 1, 0) for others."""
    node = draft.maker(value, "scale")
    if node is not None:
        factor, offset = _number(node.attributes["factor"]), _number(node.attributes["offset"])
        if factor is not None and offset is not None:
            return node.inputs[0], factor, offset
    return value, 1.0, 0.0


def _function(draft: Draft, value: str, *names: str) -> Node | None:
    node = draft.maker(value, "activation")
    return node if node is not None and node.attributes["function"] in names else None


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(1.0, abs(b))


# ---- activations ----


def hard_sigmoid(draft: Draft, node: Node) -> bool:
    """Replace a scaled clip with the range [0, 1] by a hard sigmoid."""
    if node.operation != "scale":
        return False
    base, factor, offset = affine(draft, node.output)
    clip = _function(draft, base, "clip")
    if clip is None or factor <= 0:
        return False
    low, high = (clip.attributes["parameters"][name] for name in ("low", "high"))
    if not (abs(low * factor + offset) < 1e-6 and _close(high * factor + offset, 1.0)):
        return False
    value, slope, shift = affine(draft, clip.inputs[0])
    draft.activation(value, "hard_sigmoid", node.source, node.output, alpha=slope * factor, beta=shift * factor + offset)
    draft.drop(clip.output)
    return True


def silu(draft: Draft, node: Node) -> bool:
    """Replace x * sigmoid(a x) by SiLU, and x * hard_sigmoid(x) by hard Swish."""
    if node.operation != "multiply":
        return False
    for one, two in (node.inputs, node.inputs[::-1]):
        base, factor, offset = affine(draft, one)
        gate = _function(draft, two, "sigmoid", "hard_sigmoid")
        if gate is None or offset:
            continue
        value, slope, shift = affine(draft, gate.inputs[0])
        if value != base:
            continue
        parameters = gate.attributes["parameters"]
        if gate.attributes["function"] == "sigmoid" and not shift:
            done = draft.activation(value, "silu", node.source, alpha=slope)
        elif (
            gate.attributes["function"] == "hard_sigmoid"
            and _close(parameters["alpha"] * slope, 1 / 6)
            and _close(parameters["alpha"] * shift + parameters["beta"], 0.5)
        ):
            done = draft.activation(value, "hard_swish", node.source)
        else:
            continue
        draft.scale(done, factor, 0.0, node.source, node.output)
        return True
    return False


def _cone(draft: Draft, output: str) -> tuple[str, list[Node]] | None:
    """Return the value that an elementwise computation depends on alone, with its nodes in order; None if there is none.

    The computation has scales by numbers, activations, sums and products.
    """
    nodes: dict[str, Node] = {}
    leaves = {output}
    while len(nodes) <= _LONGEST:
        if len(leaves) == 1 and nodes:
            return leaves.pop(), list(nodes.values())[::-1]
        inner = [name for name in leaves if _is_elementwise(draft.maker(name))]
        # A leaf opens only when no other leaf depends on it, so that the nodes come in order.
        ready = [name for name in inner if not any(_reaches(draft, other, name) for other in leaves if other != name)]
        if not ready:
            return None
        node = draft.nodes[ready[0]]
        nodes[node.output] = node
        leaves.remove(node.output)
        leaves.update(node.inputs)
    return None


def _is_elementwise(node: Node | None) -> bool:
    if node is None:
        return False
    if node.operation == "scale":
        return bool(node.attributes["factor"].size == 1 and node.attributes["offset"].size == 1)
    return node.operation in ("activation", "add", "multiply")


def _reaches(draft: Draft, start: str, target: str) -> bool:
    """Return whether a value depends on another one through elementwise operations, within a pattern's length."""
    pending, seen = [start], {start}
    while pending and len(seen) <= 4 * _LONGEST:
        node = draft.maker(pending.pop())
        if node is None or not _is_elementwise(node):
            continue
        for name in node.inputs:
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return False


def _values(nodes: list[Node], base: str) -> Array:
    """Return the values of an elementwise computation at `_POINTS`."""
    known: dict[str, Any] = {base: _POINTS}
    with np.errstate(all="ignore"):
        for node in nodes:
            operands, a = [known[name] for name in node.inputs], node.attributes
            if node.operation == "scale":
                known[node.output] = operands[0] * a["factor"].reshape(()) + a["offset"].reshape(())
            elif node.operation == "activation":
                known[node.output] = activations.FUNCTIONS[a["function"]](operands[0], **a["parameters"])
            else:
                known[node.output] = operands[0] + operands[1] if node.operation == "add" else operands[0] * operands[1]
    return np.asarray(known[nodes[-1].output])


def known_function(draft: Draft, node: Node) -> bool:
    """Replace sums, products and activations of one value by the known function with the same values."""
    if node.operation not in ("multiply", "add"):
        return False
    found = _cone(draft, node.output)
    if found is None or not any(part.operation == "activation" for part in found[1]):
        return False
    base, nodes = found
    values = _values(nodes, base)
    if not np.all(np.isfinite(values)):
        return False
    arguments = [base, *(part.output for part in nodes if part.operation == "scale" and part.inputs == (base,))]
    for argument in arguments:  # the base, or a scale of it
        _, slope, shift = affine(draft, argument) if argument != base else (base, 1.0, 0.0)
        for name in _KNOWN:
            target = activations.FUNCTIONS[name](slope * _POINTS + shift)
            place = int(np.argmax(np.abs(target)))
            factor = float(values[place] / target[place]) if target[place] else 0.0
            if factor and np.max(np.abs(values - factor * target)) <= _TOLERANCE * abs(factor):
                done = draft.activation(argument, name, node.source)
                factor = round(factor) if _close(factor, round(factor)) else factor
                draft.scale(done, factor, 0.0, node.source, node.output)
                for part in nodes[:-1]:
                    draft.drop(part.output)
                return True
    return False


# ---- normalization ----


def _unwrapped(draft: Draft, value: str) -> str:
    """Return the value that a broadcast or a reshape that adds axes of size 1 reads."""
    while (node := draft.maker(value, "broadcast", "reshape")) is not None:
        before, after = draft.shapes[node.inputs[0]], draft.shapes[node.output]
        if node.operation == "reshape" and [n for n in before if n != 1] != [n for n in after if n != 1]:
            break
        value = node.inputs[0]
    return value


def _mean_of(draft: Draft, value: str) -> tuple[str, int, float, float] | None:
    """Return (operand, axes, factor, offset) of factor * the mean over the last axes + offset."""
    base, factor, offset = affine(draft, _unwrapped(draft, value))
    base = _unwrapped(draft, base)
    node = draft.maker(base, "sum")
    if node is None:
        return None
    shape, axes = draft.shapes[node.inputs[0]], sorted(node.attributes["axes"])
    if axes != list(range(len(shape) - len(axes), len(shape))):
        return None
    return node.inputs[0], len(axes), factor * math.prod(shape[axis] for axis in axes), offset


def _centered(draft: Draft, value: str, axes: int) -> str | None:
    """Return x if the value is x minus its mean over the last axes."""
    node = draft.maker(value, "add")
    if node is None:
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        mean = _mean_of(draft, other)
        if mean is not None and mean[0] == x and mean[1] == axes and _close(mean[2], -1.0) and mean[3] == 0:
            return x
    return None


def layer_normalization(draft: Draft, node: Node) -> bool:
    """Replace (x - mean) / sqrt(variance + epsilon), written with sums, by a normalization."""
    if node.operation != "multiply":
        return False
    for one, two in (node.inputs, node.inputs[::-1]):
        root = _root(draft, _unwrapped(draft, two))
        variance = _mean_of(draft, root) if root is not None else None
        if variance is None or not _close(variance[2], 1.0) or not 0 <= variance[3] < 1:
            continue
        square = _function(draft, variance[0], "square")
        if square is None:
            continue
        x, same = _centered(draft, square.inputs[0], variance[1]), _centered(draft, one, variance[1])
        if x is None or x != same:
            continue
        ones: dict[str, Any] = {"factor": np.ones(()), "offset": np.zeros(())}
        attributes = {"axes": variance[1], "epsilon": variance[3], **ones}
        draft.put("normalize", (x,), attributes, node.source, node.output)
        for name in (one, two):
            draft.drop(name)
        return True
    return False


def _root(draft: Draft, value: str) -> str | None:
    """Return v if the value is 1 / sqrt(v)."""
    direct = _function(draft, value, "power")
    if direct is not None and direct.attributes["parameters"]["exponent"] == -0.5:
        return direct.inputs[0]
    inverse = _function(draft, value, "reciprocal")
    root = _function(draft, _unwrapped(draft, inverse.inputs[0]), "sqrt") if inverse is not None else None
    return root.inputs[0] if root is not None else None


PATTERNS: tuple[Rule, ...] = (hard_sigmoid, silu, known_function, layer_normalization)
