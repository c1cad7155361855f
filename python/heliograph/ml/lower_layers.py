"""Canonical operations of layers: products of matrices, windows, reductions, normalizations (see `lowering`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from heliograph.ml import kernels
from heliograph.ml.draft import Draft
from heliograph.ml.graph import Array, Graph
from heliograph.ml.lowering import Lowering, lowers, with_pads

# ---- products ----


def _dense(low: Lowering, value: str, weight: Array, bias: Array) -> str:
    return low.draft.put("dense", (value,), {"weight": weight, "bias": bias}, low.source)


@lowers("Gemm")
def gemm(low: Lowering) -> None:
    """Lower Gemm: a dense layer if the second factor is a constant."""
    alpha, beta = float(low.attribute("alpha")), float(low.attribute("beta"))
    rows, outputs = low.result_shape
    left = low.full(0) if low.attribute("left") or not low.is_constant(1) else low.operand(0)
    left = low.draft.transpose(left, (1, 0), low.source) if low.attribute("left") else left
    if low.is_constant(1):
        weight = low.constant(1, "the weight")
        weight = alpha * (weight if low.attribute("right") else weight.T)
        bias = np.zeros(outputs)
        if len(low.node.inputs) > 2 and low.is_constant(2):
            summand = beta * np.broadcast_to(low.constant(2, "the summand"), (rows, outputs))
            bias = np.array(summand[:1]).reshape(outputs)
            value = _dense(low, left, weight, bias)
            if np.any(summand != bias):
                value = low.scaled(value, 1.0, summand - bias)
            low.finish(value)
            return
        value = _dense(low, left, weight, bias)
    else:
        right = low.full(1)
        right = low.draft.transpose(right, (1, 0), low.source) if low.attribute("right") else right
        value = low.scaled(low.draft.put("matmul", (left, right), {}, low.source), alpha)
    if len(low.node.inputs) > 2:
        value = low.draft.reshape(value, low.result, low.source)
        if low.is_constant(2):
            value = low.scaled(value, 1.0, beta * low.factor(low.constant(2, "the summand")))
        else:
            value = low.pair("add", value, low.scaled(low.spread(2), beta))
    low.finish(value)


@lowers("MatMul")
def matmul(low: Lowering) -> None:
    """Lower MatMul: a dense layer if one factor is a constant matrix, a product of values else."""
    a, b = low.shape(0), low.shape(1)
    if low.is_constant(1) and math.prod(b[:-2]) == 1:
        weight = low.constant(1, "the weight")
        weight = weight.reshape(weight.shape[-2:]) if len(b) > 1 else weight.reshape(-1, 1)
        value = low.full() if len(a) == 1 else low.operand(0)
        low.finish(_dense(low, value, weight.T, np.zeros(b[-1] if len(b) > 1 else 1)))
        return
    if low.is_constant(0) and math.prod(a[:-2]) == 1:
        weight = low.constant(0, "the weight")
        weight = weight.reshape(a[-2:]) if len(a) > 1 else weight.reshape(1, -1)
        value = low.draft.reshape(low.full(1), b if len(b) > 1 else (*b, 1), low.source)
        low.finish(low.along(value, len(low.draft.shapes[value]) - 2, weight))
        return
    left = low.draft.reshape(low.operand(0), a if len(a) > 1 else (1, *a), low.source)
    right = low.draft.reshape(low.operand(1), b if len(b) > 1 else (*b, 1), low.source)
    if len(a) == len(b) and len(a) > 2 and a[0] == b[0] == 1:
        left = low.draft.reshape(left, a[1:], low.source)
        right = low.draft.reshape(right, b[1:], low.source)
    low.finish(low.draft.put("matmul", (left, right), {}, low.source))


@lowers("Einsum")
def einsum(low: Lowering) -> None:
    """Lower Einsum to sums, transpositions and a matrix product of [shared, kept, summed] operands."""
    left, right = low.attribute("equation").split("->")
    terms = left.split(",")
    values = [low.full(i) for i in range(len(terms))]
    for i, term in enumerate(terms):
        others = set("".join(terms[:i] + terms[i + 1 :])) | set(right)
        axes = tuple(k for k, letter in enumerate(term) if letter not in others)
        if axes:
            values[i] = low.draft.put("sum", (values[i],), {"axes": axes, "keepdims": False}, low.source)
            terms[i] = "".join(letter for letter in term if letter in others)
    if len(terms) == 1:
        low.finish(low.draft.transpose(values[0], tuple(terms[0].index(c) for c in right), low.source))
        return
    sizes = {
        c: n for term, value in zip(terms, values, strict=True) for c, n in zip(term, low.draft.shapes[value], strict=True)
    }
    shared = [c for c in right if c in terms[0] and c in terms[1]]
    summed = [c for c in terms[0] if c in terms[1] and c not in right]
    rows, columns = ([c for c in right if c in term and c not in shared] for term in terms)

    def arranged(value: str, term: str, order: list[list[str]]) -> str:
        letters = list(chain.from_iterable(order))
        turned = low.draft.transpose(value, tuple(term.index(c) for c in letters), low.source)
        return low.draft.reshape(turned, tuple(math.prod(sizes[c] for c in group) for group in order), low.source)

    product = low.draft.put(
        "matmul",
        (arranged(values[0], terms[0], [shared, rows, summed]), arranged(values[1], terms[1], [shared, summed, columns])),
        {},
        low.source,
    )
    letters = [*shared, *rows, *columns]
    parts = low.draft.reshape(product, tuple(sizes[c] for c in letters), low.source)
    low.finish(low.draft.transpose(parts, tuple(letters.index(c) for c in right), low.source))


# ---- windows ----


def _image(low: Lowering, name: str = "") -> tuple[str, int]:
    """Return operand 0, or another value, as [channels, height, width], and the number of its spatial axes."""
    name = name or low.node.inputs[0]
    shape = tuple(low.raw_shapes[name])
    if shape[0] != 1 or len(shape) not in (3, 4) or name not in low.values:
        raise low.error(f"the operand must be [1, channels, 1 or 2 spatial axes], got shape {shape}")
    return low.draft.reshape(low.values[name], (shape[1], *(1,) * (4 - len(shape)), *shape[2:]), low.source), len(shape) - 2


def _two(values: Sequence[int], rank: int, filling: int) -> tuple[int, ...]:
    """Return attributes of one spatial axis as those of two: a height of 1 in front."""
    values = tuple(values)
    if rank == 2:
        return values
    return (filling, values[0]) if len(values) == 1 else (filling, values[0], filling, values[1])


@lowers("Conv")
def convolution(low: Lowering) -> None:
    """Lower Conv of one or two spatial axes."""
    value, rank = _image(low)
    weight = low.constant(1, "the weight")
    weight = weight.reshape(*weight.shape[:2], *(1,) * (2 - rank), *weight.shape[2:])
    bias = low.constant(2, "the bias") if len(low.node.inputs) > 2 else np.zeros(len(weight))
    attributes = {
        "weight": weight,
        "bias": bias,
        "strides": _two(low.attribute("strides"), rank, 1),
        "pads": _two(low.attribute("pads"), rank, 0),
        "dilations": _two(low.attribute("dilations"), rank, 1),
        "groups": low.attribute("groups"),
    }
    low.finish(low.draft.put("convolution", (value,), attributes, low.source))


def mean_weight(channels: int, kernel: Sequence[int]) -> Array:
    """Return the weight of a mean over windows, for one group a channel."""
    return np.full((channels, 1, *kernel), 1 / math.prod(kernel))


@lowers("AveragePool")
def average_pool(low: Lowering) -> None:
    """Lower AveragePool to a convolution with one group a channel; uneven counts at the border to a scale."""
    value, rank = _image(low)
    channels, *sizes = low.draft.shapes[value]
    kernel = _two(low.attribute("kernel"), rank, 1)
    windows: dict[str, Any] = {
        "strides": _two(low.attribute("strides"), rank, 1),
        "pads": _two(low.attribute("pads"), rank, 0),
        "dilations": _two(low.attribute("dilations"), rank, 1),
    }
    attributes = {"weight": mean_weight(channels, kernel), "bias": np.zeros(channels), "groups": channels, **windows}
    value = low.draft.put("convolution", (value,), attributes, low.source)
    if any(windows["pads"]) and not low.attribute("include_pads"):
        counts = kernels.real_elements(sizes, kernel, **windows)
        if not np.all(counts):
            raise low.error("a window must not lie in the padding alone")
        value = low.scaled(value, math.prod(kernel) / counts)
    low.finish(value)


@lowers("MaxPool")
def maximum_pool(low: Lowering) -> None:
    """Lower MaxPool without dilations. Edges or minus infinity around its operand become its padding."""
    pad = low.absorbed.get(low.node.inputs[0])
    value, rank = _image(low, pad.inputs[0] if pad else "")
    if any(step != 1 for step in low.attribute("dilations")):
        raise low.error(f"dilations must be 1, got {tuple(low.attribute('dilations'))}")
    attributes = {
        "kernel": _two(low.attribute("kernel"), rank, 1),
        "strides": _two(low.attribute("strides"), rank, 1),
        "pads": _two(with_pads(low.node, pad), rank, 0),
    }
    low.finish(low.draft.put("maximum_pool", (value,), attributes, low.source))


# ---- reductions and normalizations ----


def _reduced(low: Lowering, value: str) -> tuple[str, int]:
    """Return the sum of a value of the file's shape over the reduced axes, and the number of its summands."""
    axes = tuple(low.attribute("axes"))
    count = math.prod(low.shape()[axis] for axis in axes)
    if not count:
        raise low.error("the reduced axes must not be empty")
    if low.shape()[:1] == (1,):
        value = low.draft.reshape(value, low.shape()[1:], low.source)
        axes = tuple(axis - 1 for axis in axes if axis > 0)
    axes = tuple(axis for axis in axes if low.draft.shapes[value][axis] != 1)
    if axes:
        value = low.draft.put("sum", (value,), {"axes": axes, "keepdims": True}, low.source)
    return value, count


@lowers("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2")
def sums(low: Lowering) -> None:
    """Lower a sum, of a function, over axes."""
    name, value = low.node.operation, low.full()
    if name in ("ReduceSumSquare", "ReduceL2"):
        value = low.apply(value, "square")
    if name == "ReduceL1":
        value = low.apply(value, "abs")
    value, count = _reduced(low, value)
    if name == "ReduceMean" and count != 1:
        value = low.scaled(value, 1 / count)
    low.finish(low.apply(value, "sqrt") if name == "ReduceL2" else value)


@lowers("ReduceMax", "ReduceMin")
def extremes(low: Lowering) -> None:
    """Lower a maximum over the spatial axes of an image to a pool; a minimum is a negated maximum."""
    shape, axes = low.shape(), tuple(sorted(low.attribute("axes")))
    if len(shape) not in (3, 4) or shape[0] != 1 or axes not in (tuple(range(2, len(shape))), tuple(range(1, len(shape)))):
        raise low.error(f"a maximum must be over the spatial axes of [1, channels, spatial...], got axes {axes} of {shape}")
    value, _ = _image(low)
    if axes[0] == 1:
        value = low.draft.reshape(value, (1, shape[1], math.prod(shape[2:])), low.source)
    kernel = low.draft.shapes[value][1:]
    sign = 1.0 if low.node.operation == "ReduceMax" else -1.0
    value = low.scaled(value, sign) if sign < 0 else value
    value = low.draft.put("maximum_pool", (value,), {"kernel": kernel, "strides": (1, 1), "pads": (0,) * 4}, low.source)
    low.finish(low.scaled(value, sign) if sign < 0 else value)


@lowers("BatchNormalization")
def batch_normalization(low: Lowering) -> None:
    """Lower BatchNormalization to a scale for each channel."""
    factor, offset, mean, variance = (low.constant(i, "the statistics") for i in range(1, 5))
    if not np.all(variance + low.attribute("epsilon") > 0):
        raise low.error("the variances plus epsilon must be positive")
    scale = factor / np.sqrt(variance + low.attribute("epsilon"))
    shape = (-1, *(1,) * (len(low.shape()) - 2))
    low.finish(low.scaled(low.value(), scale.reshape(shape), (offset - mean * scale).reshape(shape)))


def _normalized(low: Lowering, value: str, axes: int, factor: Array, offset: Array, output: str = "") -> str:
    attributes = {"axes": axes, "epsilon": float(low.attribute("epsilon")), "factor": factor, "offset": offset}
    return low.draft.put("normalize", (value,), attributes, low.source, output)


@lowers("InstanceNormalization", "GroupNormalization")
def channel_normalization(low: Lowering) -> None:
    """Lower a normalization of groups of channels, with a factor and an offset for each channel."""
    shape = low.shape()
    if shape[0] != 1:
        raise low.error(f"the operand must be [1, channels, ...], got shape {shape}")
    groups = shape[1] if low.node.operation == "InstanceNormalization" else low.attribute("groups")
    value = low.draft.reshape(low.value(), (groups, math.prod(shape[1:]) // groups), low.source)
    value = _normalized(low, value, 1, np.ones(()), np.zeros(()))
    value = low.draft.reshape(value, shape[1:], low.source)
    factor, offset = (low.constant(i, "the factors").reshape(-1, *(1,) * (len(shape) - 2)) for i in (1, 2))
    low.finish(low.scaled(value, factor, offset))


@lowers("LayerNormalization")
def layer_normalization(low: Lowering) -> None:
    """Lower LayerNormalization."""
    rank, axis = len(low.shape()), low.attribute("axis")
    value = low.full() if axis == 0 else low.value()
    factor = low.constant(1, "the factor")
    offset = low.constant(2, "the offset") if len(low.node.inputs) > 2 else np.zeros(())
    low.finish(_normalized(low, value, rank - axis, factor, offset))


@lowers("RMSNormalization")
def rms_normalization(low: Lowering) -> None:
    """Lower RMSNormalization: x (mean of squares + epsilon)^-1/2 times a factor."""
    value, axis = low.full(), low.attribute("axis")
    axes = tuple(range(axis, len(low.shape())))
    squares = low.draft.put("sum", (low.apply(value, "square"),), {"axes": axes, "keepdims": True}, low.source)
    mean = low.scaled(squares, 1 / math.prod(low.shape()[axis:]), float(low.attribute("epsilon")))
    root = low.draft.broadcast(low.apply(mean, "power", exponent=-0.5), low.shape(), low.source)
    low.finish(low.scaled(low.pair("multiply", value, root), low.constant(1, "the factor")))


@lowers("Softmax", "LogSoftmax")
def softmax(low: Lowering) -> None:
    """Lower Softmax and LogSoftmax."""
    axis, operation = low.attribute("axis"), "softmax" if low.node.operation == "Softmax" else "log_softmax"
    batch = low.shape()[:1] == (1,) and axis > 0
    value = low.value() if batch else low.full()
    low.finish(low.draft.put(operation, (value,), {"axis": axis - batch}, low.source))


@lowers("ArgMax")
def argmax(low: Lowering) -> None:
    """Lower ArgMax, a last operation."""
    axis = low.attribute("axis")
    batch = low.shape()[:1] == (1,) and axis > 0
    value = low.value() if batch else low.full()
    keep = bool(low.attribute("keepdims"))
    low.finish(low.draft.put("argmax", (value,), {"axis": axis - batch, "keepdims": keep}, low.source))


def lower(graph: Graph) -> Draft:
    """Return the canonical operations of a graph of ONNX operators, not yet rewritten."""
    return Lowering(graph).run()
