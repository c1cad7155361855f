"""Rewriting rules of canonical graphs. Each returns whether it changed the draft at a node, and never changes the values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heliograph.ml import kernels
from heliograph.ml.draft import Draft
from heliograph.ml.graph import Array, Node, Shape, floats
from heliograph.ml.lower_layers import mean_weight

Rule = Callable[[Draft, Node], bool]

_MOST_WORK = 1 << 33  # products of a convolution that a rule computes
#: Results that are never negative, so that zeros around them do not change a maximum.
_NOT_NEGATIVE = {"relu", "sigmoid", "hard_sigmoid", "square", "abs", "exp", "softplus", "sqrt"}


def is_identity_scale(node: Node) -> bool:
    """Return whether a `scale` returns its operand."""
    return bool(np.all(node.attributes["factor"] == 1) and not np.any(node.attributes["offset"]))


def remove_identity(draft: Draft, node: Node) -> bool:
    """Remove operations that return their operand."""
    if len(node.inputs) != 1 or node.inputs[0] in draft.constants:
        return False
    same = draft.shapes[node.inputs[0]] == draft.shapes[node.output]
    a = node.attributes
    idle: dict[str, Callable[[], bool]] = {
        "scale": lambda: is_identity_scale(node),
        "reshape": lambda: same,
        "broadcast": lambda: same,
        "pad": lambda: same,
        "slice": lambda: same,
        "transpose": lambda: tuple(a["permutation"]) == tuple(range(len(a["permutation"]))),
        "concatenate": lambda: True,
        "sum": lambda: not a["axes"],
    }
    if node.operation not in idle or not idle[node.operation]():
        return False
    draft.replace(node.output, node.inputs[0])
    return True


def merge_scales(draft: Draft, node: Node) -> bool:
    """Merge a scale of a scale into one."""
    first = draft.maker(node.inputs[0], "scale") if node.operation == "scale" else None
    if first is None:
        return False
    factor, offset = node.attributes["factor"], node.attributes["offset"]
    value = first.inputs[0]
    draft.scale(
        value, first.attributes["factor"] * factor, first.attributes["offset"] * factor + offset, node.source, node.output
    )
    draft.drop(first.output)
    return True


def merge_scales_in_a_row(draft: Draft, node: Node) -> bool:
    """Merge a scale of a scale into one, where no other operation reads the first one."""
    return node.operation == "scale" and draft.only_user(node.inputs[0]) and merge_scales(draft, node)


def by_output(array: Array, rank: int, axis: int, size: int) -> Array | None:
    """Return an array that broadcasts to `rank` axes as [size] numbers along one axis; None if it depends on others."""
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(n != 1 for i, n in enumerate(shape) if i != axis):
        return None
    return np.broadcast_to(array.reshape(-1), (size,))


def scale_after_linear(draft: Draft, node: Node) -> bool:
    """Fold a scale for each output into the dense layer, convolution or normalization before it."""
    if node.operation != "scale" or not draft.only_user(node.inputs[0]):
        return False
    linear = draft.maker(node.inputs[0], "dense", "convolution", "normalize")
    if linear is None:
        return False
    rank = len(draft.shapes[linear.output])
    attributes = dict(linear.attributes)
    factor, offset = node.attributes["factor"], node.attributes["offset"]
    if linear.operation == "normalize":
        axes = attributes["axes"]
        if factor.ndim > axes or offset.ndim > axes:
            return False
        attributes["factor"], attributes["offset"] = attributes["factor"] * factor, attributes["offset"] * factor + offset
        rest: Array = np.zeros(())
    else:
        axis = rank - 1 if linear.operation == "dense" else 0
        outputs = len(attributes["weight"])
        factors = by_output(factor, rank, axis, outputs)
        if factors is None:
            return False
        weight = attributes["weight"]
        offsets = by_output(offset, rank, axis, outputs)
        if offsets is None and np.all(factors == 1):
            return False
        attributes["weight"] = weight * factors.reshape(-1, *(1,) * (weight.ndim - 1))
        attributes["bias"] = attributes["bias"] * factors + (0 if offsets is None else offsets)
        rest = offset if offsets is None else np.zeros(())
    if np.any(rest):
        draft.put(linear.operation, linear.inputs, attributes, linear.source, linear.output)
        draft.scale(linear.output, 1.0, rest, node.source, node.output)
    else:
        draft.put(linear.operation, linear.inputs, attributes, linear.source, node.output)
        draft.drop(linear.output)
    return True


def scale_before_dense(draft: Draft, node: Node) -> bool:
    """Fold a scale into the dense layer after it."""
    scale = draft.maker(node.inputs[0], "scale") if node.operation == "dense" else None
    if scale is None:
        return False
    shape = draft.shapes[scale.output]
    factor, offset = scale.attributes["factor"], scale.attributes["offset"]
    factors = by_output(factor, len(shape), len(shape) - 1, shape[-1])
    if factors is None:
        return False
    weight, bias = node.attributes["weight"], node.attributes["bias"]
    wide = np.broadcast_to(offset, (*offset.shape[:-1], shape[-1]))
    added = wide @ weight.T
    return _replaced_linear(draft, node, scale, {"weight": weight * factors}, added, bias, len(shape), len(shape) - 1)


def scale_before_convolution(draft: Draft, node: Node) -> bool:
    """Fold a scale into the convolution after it. Beside padding, the offset becomes a map of offsets."""
    scale = draft.maker(node.inputs[0], "scale") if node.operation == "convolution" else None
    if scale is None:
        return False
    shape = draft.shapes[scale.output]
    factors = by_output(scale.attributes["factor"], 3, 0, shape[0])
    if factors is None:
        return False
    weight, bias, groups = (node.attributes[name] for name in ("weight", "bias", "groups"))
    windows = {name: node.attributes[name] for name in ("strides", "pads", "dilations")}
    if math.prod(draft.shapes[node.output]) * weight[0].size > _MOST_WORK:
        return False
    added: Array = np.zeros(())
    if np.any(scale.attributes["offset"]):
        filled = np.broadcast_to(scale.attributes["offset"], shape)[None]
        added = kernels.convolve(np.ascontiguousarray(filled), weight, groups=groups, **windows)[0]
        if not any(windows["pads"]) and by_output(scale.attributes["offset"], 3, 0, shape[0]) is not None:
            added = added[:, :1, :1]
    parts = factors.reshape(groups, 1, -1)
    changed = (weight.reshape(groups, -1, *weight.shape[1:]) * parts[..., None, None]).reshape(weight.shape)
    return _replaced_linear(draft, node, scale, {"weight": changed}, added, bias, 3, 0)


def _replaced_linear(
    draft: Draft, node: Node, scale: Node, changed: dict[str, Any], added: Array, bias: Array, rank: int, axis: int
) -> bool:
    """Let a linear node read the operand of a scale, and add `added`, the contribution of the scale's offset."""
    offsets = by_output(added, rank, axis, len(bias))
    attributes = {**node.attributes, **changed}
    if offsets is not None:
        attributes["bias"] = bias + offsets
        draft.put(node.operation, scale.inputs, attributes, node.source, node.output)
    else:
        linear = draft.put(node.operation, scale.inputs, attributes, node.source)
        draft.scale(linear, 1.0, added, node.source, node.output)
    draft.drop(scale.output)
    return True


def merge_dense(draft: Draft, node: Node) -> bool:
    """Merge two dense layers in a row, where their product is not larger than both."""
    first = draft.maker(node.inputs[0], "dense") if node.operation == "dense" else None
    if first is None or not draft.only_user(first.output):
        return False
    a, b = first.attributes["weight"], node.attributes["weight"]
    if b.shape[0] * a.shape[1] > a.size + b.size:
        return False
    attributes = {"weight": b @ a, "bias": b @ first.attributes["bias"] + node.attributes["bias"]}
    draft.put("dense", first.inputs, attributes, node.source, node.output)
    draft.drop(first.output)
    return True


def merge_shapes(draft: Draft, node: Node) -> bool:
    """Merge two reshapes, transpositions or broadcasts in a row into one."""
    first = draft.maker(node.inputs[0], node.operation) if node.operation in ("reshape", "transpose", "broadcast") else None
    if first is None:
        return False
    attributes = dict(node.attributes)
    if node.operation == "transpose":
        attributes["permutation"] = tuple(first.attributes["permutation"][i] for i in node.attributes["permutation"])
    draft.put(node.operation, first.inputs, attributes, node.source, node.output)
    draft.drop(first.output)
    return True


def transpose_of_ones(draft: Draft, node: Node) -> bool:
    """Replace a transposition that moves only axes of size 1 by a reshape."""
    if node.operation != "transpose":
        return False
    shape = draft.shapes[node.inputs[0]]
    moved = [axis for axis in node.attributes["permutation"] if shape[axis] != 1]
    if moved != sorted(moved):
        return False
    draft.reshape(node.inputs[0], draft.shapes[node.output], node.source, node.output)
    return True


# ---- transpositions and reshapes move toward the outputs, where they meet their inverses ----


def _permuted(array: Array, permutation: tuple[int, ...]) -> Array:
    """Return a constant that broadcasts to the operand of a transposition, from one that broadcasts to its result."""
    array = array.reshape((1,) * (len(permutation) - array.ndim) + array.shape)
    return array.transpose(tuple(int(i) for i in np.argsort(permutation)))


def transpose_down(draft: Draft, node: Node) -> bool:
    """Move transpositions from operands to the result."""
    first = draft.maker(node.inputs[0], "transpose")
    if first is None:
        return False
    order = tuple(first.attributes["permutation"])
    back = tuple(int(i) for i in np.argsort(order))
    others = [draft.maker(name, "transpose") for name in node.inputs[1:]]
    if any(other is None or tuple(other.attributes["permutation"]) != order for other in others):
        return False
    a = dict(node.attributes)
    if node.operation == "scale":
        a["factor"], a["offset"] = _permuted(a["factor"], order), _permuted(a["offset"], order)
    elif node.operation == "pad":
        a["pads"] = tuple(a["pads"][i] for i in back)
    elif node.operation == "slice":
        a["slices"] = tuple(a["slices"][i] for i in back)
    elif node.operation in ("concatenate", "softmax"):
        a["axis"] = order[a["axis"]]
    elif node.operation == "sum":
        a["axes"] = tuple(sorted(order[i] for i in a["axes"]))
        if not a["keepdims"]:
            kept = [axis for axis in order if axis not in a["axes"]]
            order = tuple(sorted(kept).index(axis) for axis in kept)
    elif node.operation not in ("activation", "add", "multiply"):
        return False
    operands = tuple(draft.nodes[name].inputs[0] for name in node.inputs)
    moved = draft.put(node.operation, operands, a, node.source)
    draft.transpose(moved, order, first.source, node.output)
    for name in node.inputs:
        draft.drop(name)
    return True


def _same_axes(array: Array, wide: Shape, narrow: Shape) -> Array | None:
    """Return a constant for the shape before a reshape that adds or removes axes of size 1; None for other reshapes."""
    if [n for n in wide if n != 1] != [n for n in narrow if n != 1]:
        return array if array.size == 1 else None
    array = array.reshape((1,) * (len(wide) - array.ndim) + array.shape)
    sizes = iter([size for size, n in zip(array.shape, wide, strict=True) if n != 1])
    return array.reshape([1 if n == 1 else next(sizes) for n in narrow])


def reshape_down(draft: Draft, node: Node) -> bool:
    """Move reshapes from operands to the result of elementwise operations."""
    first = draft.maker(node.inputs[0], "reshape")
    if first is None or node.operation not in ("activation", "scale", "add", "multiply"):
        return False
    before, after = draft.shapes[first.inputs[0]], draft.shapes[first.output]
    others = [draft.maker(name, "reshape") for name in node.inputs[1:]]
    if any(other is None or draft.shapes[other.inputs[0]] != before for other in others):
        return False
    a = dict(node.attributes)
    if node.operation == "scale":
        factor, offset = (_same_axes(a[name], after, before) for name in ("factor", "offset"))
        if factor is None or offset is None:
            return False
        a["factor"], a["offset"] = (array.reshape(()) if array.size == 1 else array for array in (factor, offset))
    operands = tuple(draft.nodes[name].inputs[0] for name in node.inputs)
    moved = draft.put(node.operation, operands, a, node.source)
    draft.reshape(moved, after, first.source, node.output)
    for name in node.inputs:
        draft.drop(name)
    return True


def scale_before_broadcast(draft: Draft, node: Node) -> bool:
    """Move a scale by numbers before a broadcast, where it is smaller."""
    wide = draft.maker(node.inputs[0], "broadcast") if node.operation == "scale" else None
    if wide is None or node.attributes["factor"].size != 1 or node.attributes["offset"].size != 1:
        return False
    scaled = draft.scale(wide.inputs[0], node.attributes["factor"], node.attributes["offset"], node.source)
    draft.put("broadcast", (scaled,), wide.attributes, wide.source, node.output)
    draft.drop(wide.output)
    return True


def transpose_into_dense(draft: Draft, node: Node) -> bool:
    """Fold a transposition before a flattening into the columns of the dense layer after it."""
    flat = draft.maker(node.inputs[0], "reshape") if node.operation == "dense" else None
    turned = draft.maker(flat.inputs[0], "transpose") if flat else None
    if flat is None or turned is None or len(draft.shapes[flat.output]) != 1:
        return False
    shape, order = draft.shapes[turned.inputs[0]], turned.attributes["permutation"]
    places = np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(-1)
    weight = np.empty_like(node.attributes["weight"])
    weight[:, places] = node.attributes["weight"]
    value = draft.reshape(turned.inputs[0], draft.shapes[flat.output], flat.source)
    draft.put("dense", (value,), {**node.attributes, "weight": weight}, node.source, node.output)
    draft.drop(flat.output)
    return True


# ---- windows ----


def pad_into_window(draft: Draft, node: Node) -> bool:
    """Fold zeros around an image into the convolution after them, or into a maximum of numbers that are not negative."""
    if node.operation not in ("convolution", "maximum_pool"):
        return False
    turned = draft.maker(node.inputs[0], "transpose")
    pad = draft.maker(turned.inputs[0] if turned else node.inputs[0], "pad")
    if pad is None:
        return False
    order = turned.attributes["permutation"] if turned else (0, 1, 2)
    channels, *pairs = (pad.attributes["pads"][axis] for axis in order)
    if any(channels):
        return False
    (top, bottom), (left, right) = pairs
    a = dict(node.attributes)
    t, le, b, r = a["pads"]
    if node.operation == "maximum_pool":
        maker = draft.maker(pad.inputs[0], "activation")
        kernel = a["kernel"]
        small = max(t + top, b + bottom) < kernel[0] and max(le + left, r + right) < kernel[1]
        if maker is None or maker.attributes["function"] not in _NOT_NEGATIVE or not small or any(a["pads"]):
            return False
    a["pads"] = (t + top, le + left, b + bottom, r + right)
    value = draft.transpose(pad.inputs[0], order, turned.source) if turned else pad.inputs[0]
    draft.put(node.operation, (value,), a, node.source, node.output)
    draft.drop(turned.output if turned else pad.output)
    return True


def sum_to_convolution(draft: Draft, node: Node) -> bool:
    """Replace a sum over height and width by a convolution with one group a channel."""
    if node.operation != "sum" or len(draft.shapes[node.inputs[0]]) != 3 or tuple(sorted(node.attributes["axes"])) != (1, 2):
        return False
    channels, *kernel = draft.shapes[node.inputs[0]]
    attributes = {
        "weight": mean_weight(channels, kernel) * math.prod(kernel),
        "bias": np.zeros(channels),
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "groups": channels,
    }
    if node.attributes["keepdims"]:
        draft.put("convolution", node.inputs, attributes, node.source, node.output)
    else:
        value = draft.put("convolution", node.inputs, attributes, node.source)
        draft.reshape(value, (channels,), node.source, node.output)
    return True


def merge_equal(draft: Draft, node: Node) -> bool:
    """Merge operations without weights that read the same values."""
    if node.operation in ("dense", "convolution", "normalize"):
        return False
    for other in draft.users(node.inputs[0]):
        if other.output == node.output or other.operation != node.operation or other.inputs != node.inputs:
            continue
        if all(_equal(other.attributes[name], value) for name, value in node.attributes.items()):
            draft.replace(node.output, other.output)
            return True
    return False


def _equal(a: Any, b: Any) -> bool:
    return np.array_equal(floats(a), floats(b)) if isinstance(a, np.ndarray) else bool(a == b)


#: Rules that leave each operation in its place.
MERGES: tuple[Rule, ...] = (
    remove_identity,
    merge_equal,
    merge_shapes,
    transpose_of_ones,
    merge_scales_in_a_row,
    scale_before_broadcast,
)
RULES: tuple[Rule, ...] = (
    *MERGES,
    merge_scales,
    transpose_down,
    reshape_down,
    sum_to_convolution,
    pad_into_window,
    transpose_into_dense,
    scale_after_linear,
    scale_before_dense,
    scale_before_convolution,
    merge_dense,
)
