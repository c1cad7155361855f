"""Operators of layers: convolutions, pools, products of matrices, normalizations, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heliograph.ml.graph import Shape
from heliograph.ml.kernels import window_counts
from heliograph.ml.read.call import Call, Step
from heliograph.ml.read.operators import count_inputs, operator, reshaped
from heliograph.ml.shapes import REDUCTIONS


def _sizes(call: Call, name: str, default: Sequence[int]) -> tuple[int, ...]:
    values = tuple(call.attribute(name, list(default)))
    if len(values) != len(default) or not all(isinstance(v, int) and 0 <= v < 1 << 31 for v in values):
        raise call.error(f"{name} must be {len(default)} integers of at least 0, got {values}")
    return values


def _windows(call: Call, sizes: Shape, kernel: Sequence[int], dilated: bool = True) -> dict[str, Any]:
    """Return strides, pads and dilations, where automatic padding is resolved."""
    rank = len(sizes)
    strides = _sizes(call, "strides", (1,) * rank)
    dilations = _sizes(call, "dilations", (1,) * rank) if dilated else (1,) * rank
    pads = _sizes(call, "pads", (0,) * 2 * rank)
    mode = call.attribute("auto_pad", "NOTSET")
    if min((*strides, *dilations, *kernel), default=1) < 1:
        raise call.error(f"kernel {tuple(kernel)}, strides {strides} and dilations {dilations} must be at least 1")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        begins, ends = [], []
        for i, size in enumerate(sizes):
            span = dilations[i] * (kernel[i] - 1) + 1
            total = (-(-size // strides[i]) - 1) * strides[i] + span - size
            if total < -1:
                raise call.error(f"auto_pad {mode} with stride {strides[i]} is ambiguous for size {size}; export with pads")
            total = max(0, total)
            small, large = total // 2, total - total // 2
            begins.append(small if mode == "SAME_UPPER" else large)
            ends.append(large if mode == "SAME_UPPER" else small)
        pads = (*begins, *ends)
    elif mode == "VALID":
        pads = (0,) * 2 * rank
    elif mode != "NOTSET":
        raise call.error(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {mode!r}")
    return {"strides": strides, "pads": pads, "dilations": dilations}


def _spatial(call: Call) -> Shape:
    shape = call.shape()
    if not 3 <= len(shape) <= 5:
        raise call.error(f"the operand must be [batch, channels, 1 to 3 spatial axes], got shape {shape}")
    return shape[2:]


@operator("Conv")
def convolution(call: Call) -> list[Step]:
    """Read Conv."""
    count_inputs(call, 2, 3)
    sizes, weight = _spatial(call), call.shape(1)
    kernel = call.attribute("kernel_shape", list(weight[2:]))
    if tuple(kernel) != weight[2:] or len(weight) != len(sizes) + 2:
        raise call.error(f"a kernel of {tuple(kernel)} and a weight of shape {weight} do not fit shape {call.shape()}")
    attributes = _windows(call, sizes, weight[2:])
    inputs = tuple(name for name in call.inputs if name)
    return [Step("Conv", inputs, {**attributes, "groups": call.attribute("group", 1)})]


@operator("ConvTranspose")
def transposed_convolution(call: Call) -> list[Step]:
    """Read ConvTranspose: zeros between the elements, then a convolution by the reversed weight."""
    count_inputs(call, 2, 3)
    sizes, weight = _spatial(call), call.constant(1, "the weight")
    rank, groups = len(sizes), call.attribute("group", 1)
    inputs = call.shape()[1]
    if weight.ndim != rank + 2 or groups < 1 or inputs % groups or weight.shape[0] != inputs:
        raise call.error(f"a weight of shape {weight.shape} and {groups} groups do not fit shape {call.shape()}")
    kernel = weight.shape[2:]
    if tuple(call.attribute("kernel_shape", list(kernel))) != kernel:
        raise call.error(f"kernel_shape must be {kernel}")
    if call.attribute("auto_pad", "NOTSET") != "NOTSET" or call.attribute("output_shape") is not None:
        raise call.error("automatic padding is not supported; export with pads")
    extra = _sizes(call, "output_padding", (0,) * rank)
    windows = _windows(call, sizes, kernel)
    strides, pads, dilations = (windows[name] for name in ("strides", "pads", "dilations"))
    name, steps = call.input(0), []
    shape = list(call.shape())
    for i in range(rank):
        if strides[i] > 1:
            wide = [*shape[: 3 + i], 1, *shape[3 + i :]]
            steps.append(reshaped(name, wide, call.temporary()))
            zeros = tuple((0, strides[i] - 1) if j == 3 + i else (0, 0) for j in range(len(wide)))
            padded = {"pads": zeros, "mode": "constant", "value": 0.0}
            steps.append(Step("Pad", (steps[-1].output,), padded, call.temporary()))
            shape[2 + i] *= strides[i]
            steps.append(reshaped(steps[-1].output, shape, call.temporary()))
            name = steps[-1].output
    margins = []
    for i in range(rank):
        reach = dilations[i] * (kernel[i] - 1)
        result = (sizes[i] - 1) * strides[i] + reach + 1 + extra[i] - pads[i] - pads[i + rank]
        before = reach - pads[i]
        margins.append((before, result + reach - shape[2 + i] - before))
    cut = (
        (0, shape[0], 1),
        (0, shape[1], 1),
        *((max(0, -a), n - max(0, -b), 1) for (a, b), n in zip(margins, shape[2:], strict=True)),
    )
    steps.append(Step("Slice", (name,), {"slices": cut}, call.temporary()))
    turned = weight.reshape(groups, inputs // groups, *weight.shape[1:]).swapaxes(1, 2)
    turned = np.flip(turned, tuple(range(3, 3 + rank))).reshape(-1, inputs // groups, *kernel)
    attributes = {
        "strides": (1,) * rank,
        "pads": (*(max(0, a) for a, _ in margins), *(max(0, b) for _, b in margins)),
        "dilations": dilations,
        "groups": groups,
    }
    others = (call.new_constant(turned), *call.inputs[2:])
    return [*steps, Step("Conv", (steps[-1].output, *(name for name in others if name)), attributes)]


@operator("AveragePool", "MaxPool")
def pool(call: Call) -> list[Step]:
    """Read AveragePool and MaxPool. A last partial window becomes padding at the end."""
    count_inputs(call, 1, 1)
    call.only_output()
    sizes = _spatial(call)
    rank = len(sizes)
    kernel = tuple(call.attribute("kernel_shape", list))
    if len(kernel) != rank:
        raise call.error(f"the kernel must have {rank} sizes, got {kernel}")
    average = call.operator == "AveragePool"
    include = bool(call.attribute("count_include_pad", 0)) if average else False
    call.drop("storage_order")
    windows = _windows(call, sizes, kernel)
    if call.attribute("ceil_mode", 0):
        pads, strides = list(windows["pads"]), windows["strides"]
        floor = window_counts(sizes, kernel, strides, pads, windows["dilations"])
        for i in range(rank):
            padded = sizes[i] + pads[i] + pads[i + rank] - windows["dilations"][i] * (kernel[i] - 1) - 1
            starts = floor[i] * strides[i] < sizes[i] + pads[i]
            if padded % strides[i] and starts:  # a window that starts in the padding at the end does not count
                pads[i + rank] += strides[i] - padded % strides[i]
                if include:
                    raise call.error("ceil_mode and count_include_pad together are not supported where a window is partial")
        windows["pads"] = tuple(pads)
    spans = [windows["dilations"][i] * (kernel[i] - 1) + 1 for i in range(rank)]
    if any(max(windows["pads"][i], windows["pads"][i + rank]) >= spans[i] for i in range(rank)):
        raise call.error(f"pads {windows['pads']} must be smaller than the kernel, {kernel}")
    attributes = {"kernel": kernel, **windows, **({"include_pads": include} if average else {})}
    return [Step(call.operator, call.inputs, attributes)]


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call: Call) -> list[Step]:
    """Read a pool over all spatial axes: a reduction."""
    count_inputs(call, 1, 1)
    axes = tuple(range(2, 2 + len(_spatial(call))))
    name = "ReduceMean" if call.operator == "GlobalAveragePool" else "ReduceMax"
    return [Step(name, call.inputs, {"axes": axes, "keepdims": True})]


@operator("Gemm")
def gemm(call: Call) -> list[Step]:
    """Read Gemm: alpha A B + beta C."""
    count_inputs(call, 2, 3)
    attributes = {
        "alpha": call.attribute("alpha", 1.0),
        "beta": call.attribute("beta", 1.0),
        "left": bool(call.attribute("transA", 0)),
        "right": bool(call.attribute("transB", 0)),
    }
    return [Step("Gemm", tuple(name for name in call.inputs if name), attributes)]


@operator("MatMul")
def matmul(call: Call) -> list[Step]:
    """Read MatMul."""
    count_inputs(call, 2, 2)
    return [Step("MatMul", call.inputs)]


@operator("Einsum")
def einsum(call: Call) -> list[Step]:
    """Read Einsum of one or two operands, each letter at most once an operand."""
    count_inputs(call, 1, 2)
    equation = call.attribute("equation", str).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    letters = left.replace(",", "")
    right = right if arrow else "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    fits = len(terms) == len(call.inputs) and letters.isalpha() and letters.isascii() and set(right) <= set(letters)
    if not fits or any(len(set(term)) != len(term) for term in (*terms, right)):
        raise call.error(f"the equation must have different letters in each term and no dots, got {equation!r}")
    return [Step("Einsum", call.inputs, {"equation": f"{left}->{right}"})]


# ---- normalizations ----


@operator("BatchNormalization")
def batch_normalization(call: Call) -> list[Step]:
    """Read BatchNormalization with the statistics of training."""
    count_inputs(call, 5, 5)
    call.only_output()
    call.drop("momentum")
    if call.attribute("training_mode", 0) or not call.attribute("spatial", 1):
        raise call.error("only inference with one mean a channel is supported; export the model for inference")
    return [Step("BatchNormalization", call.inputs, {"epsilon": call.attribute("epsilon", 1e-5), "channels": True})]


@operator("InstanceNormalization")
def instance_normalization(call: Call) -> list[Step]:
    """Read InstanceNormalization."""
    count_inputs(call, 3, 3)
    _spatial(call)
    return [Step("InstanceNormalization", call.inputs, {"epsilon": call.attribute("epsilon", 1e-5), "channels": True})]


@operator("GroupNormalization")
def group_normalization(call: Call) -> list[Step]:
    """Read GroupNormalization of opset 21, which has a factor for each channel."""
    count_inputs(call, 3, 3)
    groups, shape = call.attribute("num_groups", int), call.shape()
    call.drop("stash_type")
    if call.version < 21:
        raise call.error("its factors are for groups before opset 21; export with opset 21 or later")
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        raise call.error(f"the channels of shape {shape} must be a multiple of {groups} groups")
    epsilon = call.attribute("epsilon", 1e-5)
    return [Step("GroupNormalization", call.inputs, {"groups": groups, "epsilon": epsilon, "channels": True})]


@operator("LayerNormalization", "RMSNormalization")
def layer_normalization(call: Call) -> list[Step]:
    """Read LayerNormalization and RMSNormalization, over the axes from `axis` on."""
    count_inputs(call, 2, 3 if call.operator == "LayerNormalization" else 2)
    call.only_output()
    call.drop("stash_type")
    attributes = {"axis": call.axis(call.attribute("axis", -1)), "epsilon": call.attribute("epsilon", 1e-5)}
    return [Step(call.operator, tuple(name for name in call.inputs if name), attributes)]


@operator("Softmax", "LogSoftmax")
def softmax(call: Call) -> list[Step]:
    """Read Softmax and LogSoftmax. Before opset 13 all axes from `axis` on are one."""
    count_inputs(call, 1, 1)
    shape = call.shape()
    axis = call.attribute("axis", -1 if call.version >= 13 else 1)
    axis = len(shape) if call.version < 13 and axis == len(shape) else call.axis(axis)
    if call.version >= 13 or axis == len(shape) - 1:
        return [Step(call.operator, call.inputs, {"axis": axis})]
    flat = (*shape[:axis], int(np.prod(shape[axis:], dtype=object)))
    first = reshaped(call.input(0), flat, call.temporary())
    middle = Step(call.operator, (first.output,), {"axis": axis}, call.temporary())
    return [first, middle, reshaped(middle.output, shape)]


# ---- reductions ----


@operator(*REDUCTIONS)
def reduction(call: Call) -> list[Step]:
    """Read a reduction. The axes are an attribute before opset 18 (ReduceSum: 13) and an input after."""
    count_inputs(call, 1, 2)
    rank = len(call.shape())
    if call.version >= (13 if call.operator == "ReduceSum" else 18):
        given = call.integers(1, "the axes") if call.has(1) else ()
    else:
        given = call.attribute("axes", [])
    keep = bool(call.attribute("keepdims", 1))
    if call.attribute("noop_with_empty_axes", 0) and not given:
        return [Step("Identity", call.inputs[:1])]
    axes = call.axes(given) if given else tuple(range(rank))
    return [Step(call.operator, call.inputs[:1], {"axes": axes, "keepdims": keep})]


@operator("ArgMax")
def argmax(call: Call) -> list[Step]:
    """Read ArgMax, the first index of the maximum."""
    count_inputs(call, 1, 1)
    if call.attribute("select_last_index", 0):
        raise call.error("select_last_index must be 0")
    axis = call.axis(call.attribute("axis", 0))
    return [Step("ArgMax", call.inputs, {"axis": axis, "keepdims": bool(call.attribute("keepdims", 1))})]


# ---- resizing ----


@operator("Resize", "Upsample")
def resize(call: Call) -> list[Step]:
    """Read Resize and Upsample by whole factors to the nearest element: each element is repeated."""
    shape = call.shape()
    mode = call.attribute("mode", "nearest")
    mapping = call.attribute("coordinate_transformation_mode", "half_pixel")
    rounding = call.attribute("nearest_mode", "round_prefer_floor")
    call.drop("cubic_coeff_a", "extrapolation_value", "antialias", "exclude_outside")
    if call.attribute("keep_aspect_ratio_policy", "stretch") != "stretch" or call.attribute("axes") is not None:
        raise call.error("keep_aspect_ratio_policy and axes are not supported")
    modern = call.operator == "Resize" and call.version >= 11
    regular = (mapping, rounding) in (
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
    )
    if mode != "nearest" or (modern and not regular):
        raise call.error(f"only whole factors by mode nearest are supported, got {mode!r}, {mapping!r}, {rounding!r}")
    if call.operator == "Upsample" and call.version < 9:
        factors = tuple(call.attribute("scales", list))
    else:
        place = 2 if modern else 1
        if modern and call.has(3):
            sizes = call.integers(3, "the sizes")
            factors = tuple(size / old if old else 0 for size, old in zip(sizes, shape, strict=False))
        else:
            factors = tuple(float(v) for v in call.constant(place, "the factors").reshape(-1)[:16])
    if len(factors) != len(shape) or any(f != int(f) or not 1 <= f <= 1 << 20 for f in factors):
        raise call.error(f"factors must be {len(shape)} whole numbers of at least 1, got {factors}")
    steps, name, current = [], call.input(0), list(shape)
    for axis, factor in enumerate(int(f) for f in factors):
        if factor > 1:
            call.values.require((current[axis] * factor,), call.source)
            indices = call.new_constant(np.repeat(np.arange(current[axis]), factor))
            steps.append(Step("Gather", (name, indices), {"axis": axis}, call.temporary()))
            name, current[axis] = steps[-1].output, current[axis] * factor
    return [*steps, Step("Identity", (name,))]
