"""Operators of ONNX, opsets 7 to 24: each becomes steps without differences between opsets, with sizes as attributes.

`interpreter.RAW` and `shapes.RAW` define the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heliograph.ml.graph import Shape
from heliograph.ml.read.call import Call, Step
from heliograph.ml.read.tensors import dtype_of

Normalizer = Callable[[Call], list[Step]]

#: Functions by operator. `@operator(...)` adds to it.
OPERATORS: dict[str, Normalizer] = {}


def operator(*names: str) -> Callable[[Normalizer], Normalizer]:
    """Register a function for operators."""

    def register(function: Normalizer) -> Normalizer:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


def alone(call: Call, **attributes: Any) -> list[Step]:
    """Return one step with the operator's name and inputs."""
    return [Step(call.operator, tuple(name for name in call.inputs if name), attributes)]


def reshaped(name: str, shape: Sequence[int], output: str = "") -> Step:
    """Return a step that changes a shape."""
    return Step("Reshape", (name,), {"shape": tuple(shape)}, output)


def count_inputs(call: Call, least: int, most: int) -> None:
    """Raise ModelError unless the operator has `least` to `most` inputs, the first `least` of them given."""
    if not least <= len(call.inputs) <= most or not all(call.inputs[:least]):
        raise call.error(f"it must have {least} to {most} inputs, got {len(call.inputs)}")


# ---- elementwise ----


@operator(
    *[
        "Abs",
        "Ceil",
        "Cos",
        "Erf",
        "Exp",
        "Floor",
        "HardSwish",
        "Identity",
        "IsNaN",
        "Log",
        "Mish",
        "Neg",
        "Not",
        "Reciprocal",
        "Relu",
        "Round",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tanh",
    ]
)
def unary(call: Call) -> list[Step]:
    """Read an operator of one operand without attributes."""
    count_inputs(call, 1, 1)
    return alone(call)


@operator(
    *["Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mul", "Or", "Pow", "Sub", "Xor"]
)
def binary(call: Call) -> list[Step]:
    """Read an operator of two operands that broadcast."""
    count_inputs(call, 2, 2)
    kinds = {"f" if call.dtype(i).kind == "f" else "b" if call.dtype(i).kind == "b" else "i" for i in range(2)}
    if len(kinds) != 1 and call.operator != "Pow":
        raise call.error(f"operands must have one type, got {call.dtype(0)} and {call.dtype(1)}")
    return alone(call)


@operator("Max", "Min", "Sum", "Mean")
def variadic(call: Call) -> list[Step]:
    """Read an operator of one or more operands that broadcast."""
    count_inputs(call, 1, 1 << 16)
    if not all(call.inputs):
        raise call.error("each input must be given")
    return alone(call)


@operator("PRelu")
def prelu(call: Call) -> list[Step]:
    """Read PRelu, whose slopes broadcast to the operand."""
    count_inputs(call, 2, 2)
    return alone(call)


@operator("Where")
def where(call: Call) -> list[Step]:
    """Read Where, of a condition and two operands."""
    count_inputs(call, 3, 3)
    if call.dtype(0).kind != "b":
        raise call.error(f"the condition must be of bool, got {call.dtype(0)}")
    return alone(call)


@operator("Mod")
def modulo(call: Call) -> list[Step]:
    """Read Mod; `fmod` takes the sign of the dividend."""
    count_inputs(call, 2, 2)
    return alone(call, fmod=bool(call.attribute("fmod", 0)))


def _with_floats(name: str, **defaults: float) -> None:
    def normalize(call: Call) -> list[Step]:
        count_inputs(call, 1, 1)
        return alone(call, **{key: call.attribute(key, value) for key, value in defaults.items()})

    normalize.__doc__ = f"Read {name}."
    OPERATORS[name] = normalize


_with_floats("LeakyRelu", alpha=0.01)
_with_floats("Elu", alpha=1.0)
_with_floats("Selu", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)
_with_floats("HardSigmoid", alpha=0.2, beta=0.5)
_with_floats("Swish", alpha=1.0)


@operator("Celu")
def celu(call: Call) -> list[Step]:
    """Read Celu, which divides by alpha."""
    count_inputs(call, 1, 1)
    alpha = call.attribute("alpha", 1.0)
    if not alpha:
        raise call.error("alpha must not be 0")
    return alone(call, alpha=alpha)


@operator("Gelu")
def gelu(call: Call) -> list[Step]:
    """Read Gelu, by erf or by its approximation with tanh."""
    count_inputs(call, 1, 1)
    approximate = call.attribute("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise call.error(f"approximate must be none or tanh, got {approximate!r}")
    return alone(call, tanh=approximate == "tanh")


@operator("Clip")
def clip(call: Call) -> list[Step]:
    """Read Clip. Its bounds are attributes before opset 11 and inputs after; computed bounds become Max and Min."""
    if call.version < 11:
        count_inputs(call, 1, 1)
        low, high = call.attribute("min", -math.inf), call.attribute("max", math.inf)
        return alone(call, low=low, high=high)
    count_inputs(call, 1, 3)
    if all(call.is_constant(i) or not call.has(i) for i in (1, 2)):
        low = call.number(1, "the lower bound") if call.has(1) else -math.inf
        high = call.number(2, "the upper bound") if call.has(2) else math.inf
        return [Step("Clip", call.inputs[:1], {"low": low, "high": high})]
    steps, value = [], call.input(0)
    for i, name in ((1, "Max"), (2, "Min")):
        if call.has(i):
            steps.append(Step(name, (value, call.input(i)), {}, call.temporary()))
            value = steps[-1].output
    return [*steps, Step("Identity", (value,))]


@operator("Dropout")
def dropout(call: Call) -> list[Step]:
    """Read Dropout, which does nothing in inference."""
    call.only_output()
    call.drop("ratio", "seed")
    if call.version >= 12 and call.has(2) and call.number(2, "training_mode"):
        raise call.error("training_mode must be 0; export the model for inference")
    return [Step("Identity", call.inputs[:1])]


@operator("Cast", "CastLike")
def cast(call: Call) -> list[Step]:
    """Read Cast. Floats that depend on an input keep their full precision."""
    call.drop("saturate", "round_mode")
    if call.operator == "CastLike":
        target, bfloat16 = call.dtype(1), False
    else:
        number = call.attribute("to", int)
        target, bfloat16 = dtype_of(number, f"node {call.source}"), number == 16
    if call.dtype().kind == target.kind == "f" and not call.is_constant(0):
        return [Step("Identity", call.inputs[:1])]
    return [Step("Cast", call.inputs[:1], {"dtype": target.name, "bfloat16": bfloat16})]


@operator("DequantizeLinear")
def dequantize(call: Call) -> list[Step]:
    """Read DequantizeLinear of constants: (x - zero point) * scale, along an axis or in blocks."""
    count_inputs(call, 2, 3)
    axis, block = call.attribute("axis", 1), call.attribute("block_size", 0)
    call.drop("output_dtype")
    x, scale = call.constant(0, "a quantized tensor"), call.constant(1, "the scale")
    point = call.constant(2, "the zero point") if call.has(2) else np.zeros((), x.dtype)
    if x.dtype.kind not in "iu" or point.dtype != x.dtype:
        raise call.error(f"a quantized tensor and its zero point must be integers, got {x.dtype} and {point.dtype}")

    def spread(values: Any) -> Any:
        if values.size == 1:
            return values.reshape(())
        along = call.axis(axis)
        if values.ndim == 1 and values.size == x.shape[along]:
            return values.reshape(tuple(-1 if i == along else 1 for i in range(x.ndim)))
        if block > 0 and values.ndim == x.ndim and -(-x.shape[along] // block) == values.shape[along]:
            wide = np.take(values, np.arange(x.shape[along]) // block, axis=along)
            if wide.shape == x.shape:
                return wide
        raise call.error(f"a scale of shape {values.shape} does not fit a tensor of shape {x.shape} along axis {axis}")

    value = (x.astype(np.int64) - spread(point).astype(np.int64)) * spread(scale).astype(np.float64)
    return [Step("Identity", (call.new_constant(value.astype(np.float32)),))]


@operator("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger")
def quantized(call: Call) -> list[Step]:
    """Refuse operators that round activations."""
    raise call.error("activations that are rounded to integers are not supported; export the model with float activations")


# ---- shapes ----


@operator("Shape")
def shape_of(call: Call) -> list[Step]:
    """Read Shape: a constant, since shapes are fixed."""
    shape = call.shape()
    start, end = call.attribute("start", 0), call.attribute("end", len(shape))
    return [Step("Identity", (call.new_constant(np.array(shape[slice(start, end)], np.int64)),))]


@operator("Size")
def size_of(call: Call) -> list[Step]:
    """Read Size: a constant, since shapes are fixed."""
    return [Step("Identity", (call.new_constant(np.array(math.prod(call.shape()), np.int64)),))]


@operator("Reshape")
def reshape(call: Call) -> list[Step]:
    """Read Reshape. A size of 0 copies the operand's size, and one size of -1 takes the rest."""
    count_inputs(call, 2, 2)
    allow_zero = bool(call.attribute("allowzero", 0))
    old, target = call.shape(), list(call.integers(1, "the shape"))
    for i, size in enumerate(target):
        if size == 0 and not allow_zero:
            if i >= len(old):
                raise call.error(f"size 0 at axis {i} has no axis of shape {old} to copy")
            target[i] = old[i]
    if target.count(-1) > 1 or min(target, default=0) < -1:
        raise call.error(f"the shape must have at most one -1 and no other negative size, got {tuple(target)}")
    if -1 in target:
        rest = -math.prod(target)
        if rest == 0 or math.prod(old) % rest:
            raise call.error(
                f"shape {old} cannot become {tuple(target)}; a fixed batch may be in the shape: export with -1 there"
            )
        target[target.index(-1)] = math.prod(old) // rest
    return [reshaped(call.input(0), target)]


@operator("Flatten")
def flatten(call: Call) -> list[Step]:
    """Read Flatten: the axes before `axis` become one, the others another."""
    shape, axis = call.shape(), call.attribute("axis", 1)
    axis = len(shape) if axis == len(shape) else call.axis(axis)
    return [reshaped(call.input(0), (math.prod(shape[:axis]), math.prod(shape[axis:])))]


def _axes(call: Call, rank: int, since: int) -> tuple[int, ...] | None:
    """Return the axes of an attribute, or of input 1 from opset `since` on; None if they are not given."""
    if call.version >= since:
        values = call.integers(1, "the axes") if call.has(1) else None
    else:
        given = call.attribute("axes")
        values = None if given is None else tuple(given)
    return None if values is None else call.axes(values, rank)


@operator("Squeeze")
def squeeze(call: Call) -> list[Step]:
    """Read Squeeze: axes of size 1 are removed."""
    shape = call.shape()
    axes = _axes(call, len(shape), 13)
    axes = tuple(i for i, size in enumerate(shape) if size == 1) if axes is None else axes
    if any(shape[i] != 1 for i in axes):
        raise call.error(f"axes {axes} of shape {shape} must have size 1")
    return [reshaped(call.input(0), [size for i, size in enumerate(shape) if i not in axes])]


@operator("Unsqueeze")
def unsqueeze(call: Call) -> list[Step]:
    """Read Unsqueeze: axes of size 1 are added, at places in the result."""
    shape = call.shape()
    values = call.integers(1, "the axes") if call.version >= 13 else tuple(call.attribute("axes", list))
    axes = call.axes(values, len(shape) + len(values))
    rest = iter(shape)
    return [reshaped(call.input(0), [1 if i in axes else next(rest) for i in range(len(shape) + len(axes))])]


@operator("Transpose")
def transpose(call: Call) -> list[Step]:
    """Read Transpose; by default it reverses the axes."""
    count_inputs(call, 1, 1)
    rank = len(call.shape())
    order = call.attribute("perm", list(range(rank))[::-1])
    return [Step("Transpose", call.inputs, {"permutation": call.axes(order)})]


@operator("Concat")
def concatenate(call: Call) -> list[Step]:
    """Read Concat."""
    count_inputs(call, 1, 1 << 16)
    return alone(call, axis=call.axis(call.attribute("axis", int)))


@operator("Slice")
def slices(call: Call) -> list[Step]:
    """Read Slice. Its bounds are attributes before opset 10 and inputs after."""
    shape = call.shape()
    if call.version < 10:
        starts, ends = tuple(call.attribute("starts", list)), tuple(call.attribute("ends", list))
        axes, steps = tuple(call.attribute("axes", list(range(len(starts))))), (1,) * len(starts)
    else:
        starts, ends = call.integers(1, "the starts"), call.integers(2, "the ends")
        axes = call.integers(3, "the axes") if call.has(3) else tuple(range(len(starts)))
        steps = call.integers(4, "the steps") if call.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise call.error("starts, ends, axes and steps must have one length, and steps must not be 0")
    parts: list[tuple[int, int | None, int]] = [(0, size, 1) for size in shape]
    for axis, start, end, step in zip(call.axes(axes), starts, ends, steps, strict=True):
        first, last, _ = slice(start, end, step).indices(shape[axis])
        parts[axis] = (first, None if last < 0 else last, step)
    return [Step("Slice", call.inputs[:1], {"slices": tuple(parts)})]


@operator("Split")
def split(call: Call) -> list[Step]:
    """Read Split: one slice for each output."""
    shape, axis = call.shape(), call.axis(call.attribute("axis", 0))
    count, size = len(call.outputs), shape[axis]
    if call.version < 13:
        sizes: tuple[int, ...] = tuple(call.attribute("split", []))
    elif call.has(1):
        sizes = call.integers(1, "the sizes")
    else:
        sizes = ()
    wanted = call.attribute("num_outputs", count)
    if not sizes:
        if wanted != count or (call.version < 18 and size % count):
            raise call.error(f"{size} elements along axis {axis} do not split into {count} outputs")
        step = -(-size // count)
        sizes = tuple(min(step, size - i * step) for i in range(count))
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != size:
        raise call.error(f"sizes {sizes} must be one for each of {count} outputs with sum {size}")
    steps, start = [], 0
    for name, length in zip(call.outputs, sizes, strict=True):
        parts = tuple((start, start + length, 1) if i == axis else (0, n, 1) for i, n in enumerate(shape))
        if name:
            steps.append(Step("Slice", call.inputs[:1], {"slices": parts}, name))
        start += length
    return steps


@operator("Pad")
def pad(call: Call) -> list[Step]:
    """Read Pad. Negative pads become a slice."""
    shape = call.shape()
    mode = call.attribute("mode", "constant")
    value, axes = 0.0, tuple(range(len(shape)))
    if call.version < 11:
        pads, value = call.attribute("pads", list), call.attribute("value", 0.0)
    else:
        pads = call.integers(1, "the pads")
        value = call.number(2, "the value") if call.has(2) else 0.0
        axes = call.axes(call.integers(3, "the axes")) if call.has(3) else axes
    if mode not in ("constant", "edge", "reflect"):
        raise call.error(f"mode must be constant, edge or reflect, got {mode!r}")
    if len(pads) != 2 * len(axes):
        raise call.error(f"pads must be {2 * len(axes)} integers, got {len(pads)}")
    pairs = [(0, 0)] * len(shape)
    for i, axis in enumerate(axes):
        pairs[axis] = (int(pads[i]), int(pads[i + len(axes)]))
    if mode == "reflect" and any(max(pair) >= max(size, 1) for pair, size in zip(pairs, shape, strict=True)):
        raise call.error(f"reflected pads {pairs} must be smaller than shape {shape}")
    if mode != "constant" and any(min(pair) < 0 for pair in pairs):
        raise call.error(f"negative pads need mode constant, got {mode}")
    steps, name = [], call.input(0)
    if min(min(pair) for pair in pairs) < 0:
        cut = tuple((max(0, -a), max(0, size + min(0, b)), 1) for (a, b), size in zip(pairs, shape, strict=True))
        steps.append(Step("Slice", (name,), {"slices": cut}, call.temporary()))
        name = steps[0].output
    positive = tuple((max(0, a), max(0, b)) for a, b in pairs)
    return [*steps, Step("Pad", (name,), {"pads": positive, "mode": mode, "value": value})]


@operator("Expand")
def expand(call: Call) -> list[Step]:
    """Read Expand: a broadcast to a shape."""
    return [Step("Expand", call.inputs[:1], {"shape": _sizes(call, 1)})]


def _sizes(call: Call, i: int) -> Shape:
    sizes = call.integers(i, "the shape")
    if min(sizes, default=0) < 0:
        raise call.error(f"the shape must have sizes of at least 0, got {sizes}")
    return sizes


@operator("Tile")
def tile(call: Call) -> list[Step]:
    """Read Tile."""
    return [Step("Tile", call.inputs[:1], {"repeats": call.integers(1, "the repeats")})]


@operator("Gather")
def gather(call: Call) -> list[Step]:
    """Read Gather."""
    count_inputs(call, 2, 2)
    _require_integers(call, 1)
    return alone(call, axis=call.axis(call.attribute("axis", 0)))


@operator("GatherND")
def gather_nd(call: Call) -> list[Step]:
    """Read GatherND."""
    count_inputs(call, 2, 2)
    _require_integers(call, 1)
    return alone(call, batch_dims=call.attribute("batch_dims", 0))


def _require_integers(call: Call, i: int) -> None:
    if call.dtype(i).kind not in "iu":
        raise call.error(f"indices must be integers, got {call.dtype(i)}")


@operator("Constant")
def constant(call: Call) -> list[Step]:
    """Read Constant, of a tensor, a number or a list of numbers."""
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for name, dtype in kinds.items():
        value = call.attribute(name)
        if value is not None:
            return [Step("Identity", (call.new_constant(np.array(value, dtype)),))]
    value = call.attribute("value")
    if not isinstance(value, np.ndarray):
        raise call.error("it must have a value of numbers")
    return [Step("Identity", (call.new_constant(value),))]


@operator("ConstantOfShape")
def constant_of_shape(call: Call) -> list[Step]:
    """Read ConstantOfShape: one value, broadcast."""
    value = call.attribute("value")
    value = np.zeros(1, np.float32) if value is None else value
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise call.error("the value must be one number")
    return [Step("Expand", (call.new_constant(value.reshape(())),), {"shape": _sizes(call, 0)})]


@operator("Range")
def arange(call: Call) -> list[Step]:
    """Read Range, of constants."""
    names = ("the start", "the limit", "the step")
    start, limit, step = (call.constant(i, name).reshape(-1)[:1] for i, name in enumerate(names))
    if not start.size == limit.size == step.size == 1 or not step[0]:
        raise call.error("start, limit and step must be numbers, and the step must not be 0")
    length = max(0, math.ceil((limit[0].item() - start[0].item()) / step[0].item()))
    call.values.require((length,), call.source)
    values = start[0] + np.arange(length, dtype=start.dtype) * step[0]
    return [Step("Identity", (call.new_constant(values.astype(start.dtype)),))]


@operator("CumSum")
def cumsum(call: Call) -> list[Step]:
    """Read CumSum along a known axis."""
    axis = call.axis(int(call.number(1, "the axis")))
    attributes = {name: bool(call.attribute(name, 0)) for name in ("exclusive", "reverse")}
    return [Step("CumSum", call.inputs[:1], {"axis": axis, **attributes})]


@operator("Trilu")
def trilu(call: Call) -> list[Step]:
    """Read Trilu: the upper or lower triangle of matrices."""
    k = int(call.number(1, "the diagonal")) if call.has(1) else 0
    if len(call.shape()) < 2:
        raise call.error(f"the operand must be matrices, got shape {call.shape()}")
    k = max(-(1 << 31), min(k, 1 << 31))
    return [Step("Trilu", call.inputs[:1], {"upper": bool(call.attribute("upper", 1)), "k": k})]


@operator("DepthToSpace", "SpaceToDepth")
def depth(call: Call) -> list[Step]:
    """Read DepthToSpace and SpaceToDepth: a reshape, a transposition and a reshape."""
    block, shape = call.attribute("blocksize", int), call.shape()
    mode = call.attribute("mode", "DCR")
    if len(shape) != 4 or block < 1:
        raise call.error(f"the operand must have 4 axes and the block at least 1, got shape {shape} and block {block}")
    n, c, h, w = shape
    if call.operator == "SpaceToDepth":
        if h % block or w % block:
            raise call.error(f"height and width of {shape} must be multiples of the block, {block}")
        first, order = (n, c, h // block, block, w // block, block), (0, 3, 5, 1, 2, 4)
        last = (n, c * block * block, h // block, w // block)
    else:
        if c % (block * block) or mode not in ("DCR", "CRD"):
            raise call.error(f"{c} channels must be a multiple of {block * block}, and mode DCR or CRD, got {mode!r}")
        rest, last = c // (block * block), (n, c // (block * block), h * block, w * block)
        first = (n, block, block, rest, h, w) if mode == "DCR" else (n, rest, block, block, h, w)
        order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    parts = reshaped(call.input(0), first, call.temporary())
    turned = Step("Transpose", (parts.output,), {"permutation": order}, call.temporary())
    return [parts, turned, reshaped(turned.output, last)]
