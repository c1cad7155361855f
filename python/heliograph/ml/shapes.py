"""Shapes of results: one function per operation, of operand shapes and attributes. Nothing here allocates arrays.

The operators of ONNX are those that the readers emit: opset differences are resolved, and sizes are attributes
(`read/operators.py`). Each function raises ValueError with a reason for shapes that do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heliograph.ml.graph import Shape
from heliograph.ml.kernels import window_counts

Attributes = Mapping[str, Any]
Rule = Callable[[list[Shape], Attributes], Shape]
_MOST_WIDTH = 1 << 16  # places of a head of attention

#: Operators of one result value per operand value.
UNARY = [
    "Abs",
    "Cast",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "CumSum",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tanh",
    "Trilu",
]
#: Operators of operands that broadcast.
BROADCAST = [
    "Add",
    "And",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
]
#: Operators that normalize their first operand.
NORMALIZING = ["BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"]
REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]


def axis_of(axis: int, rank: int) -> int:
    """Return an axis of 0 to rank - 1 from one that may be negative."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} must be between {-rank} and {rank - 1}")
    return axis % rank


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that operands broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[i] not in (1, size):
                raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
            result[i] = size if result[i] == 1 else result[i]
    return tuple(result)


def matmul(a: Shape, b: Shape) -> Shape:
    """Return the shape of NumPy's matrix product."""
    if not a or not b:
        raise ValueError("a matrix product takes no scalars")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise ValueError(f"shapes {a} and {b} do not multiply: {left[-1]} columns and {right[-2]} rows")
    outer = broadcast([left[:-2], right[:-2]])
    return outer + (left[-2:-1] if len(a) > 1 else ()) + (right[-1:] if len(b) > 1 else ())


def gemm(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of a product of two matrices, which may be transposed."""
    a, b = shapes[:2]
    if len(a) != 2 or len(b) != 2:
        raise ValueError(f"both factors must be matrices, got shapes {a} and {b}")
    result = matmul(a[::-1] if attributes["left"] else a, b[::-1] if attributes["right"] else b)
    if len(shapes) > 2 and broadcast([result, shapes[2]]) != result:
        raise ValueError(f"the summand of shape {shapes[2]} must broadcast to {result}")
    return result


def reshape(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the attribute `shape`, which must have as many elements as the operand."""
    shape: Shape = tuple(attributes["shape"])
    if math.prod(shape) != math.prod(shapes[0]):
        raise ValueError(f"shape {shapes[0]} cannot become {shape}: {math.prod(shapes[0])} and {math.prod(shape)} elements")
    return shape


def transpose(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the permuted shape."""
    order = attributes["permutation"]
    if sorted(order) != list(range(len(shapes[0]))):
        raise ValueError(f"permutation {tuple(order)} must have each of the {len(shapes[0])} axes once")
    return tuple(shapes[0][i] for i in order)


def slices(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of a slice: one (start, stop, step) per axis, where stop may be None."""
    parts = attributes["slices"]
    if len(parts) != len(shapes[0]):
        raise ValueError(f"{len(parts)} slices do not fit {len(shapes[0])} axes")
    return tuple(len(range(*slice(*part).indices(size))) for part, size in zip(parts, shapes[0], strict=True))


def concatenate(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of operands joined along `axis`."""
    axis = axis_of(attributes["axis"], len(shapes[0]))
    rest = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(rest) != 1 or len({len(shape) for shape in shapes}) != 1:
        raise ValueError(f"shapes {', '.join(map(str, shapes))} must be equal but for axis {axis}")
    return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def pad(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the padded shape: one (before, after) per axis."""
    pads = attributes["pads"]
    if len(pads) != len(shapes[0]):
        raise ValueError(f"{len(pads)} pairs of pads do not fit {len(shapes[0])} axes")
    return tuple(size + before + after for size, (before, after) in zip(shapes[0], pads, strict=True))


def reduction(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape without the reduced axes, or with 1 in their place."""
    axes = attributes["axes"]
    kept = enumerate(shapes[0])
    if attributes["keepdims"]:
        return tuple(1 if i in axes else size for i, size in kept)
    return tuple(size for i, size in kept if i not in axes)


def argmax(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape without one axis, or with 1 in its place."""
    return reduction(shapes, {"axes": (attributes["axis"],), "keepdims": attributes.get("keepdims", False)})


def gather(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of elements taken along `axis` by an array of indices."""
    x, indices = shapes
    axis = axis_of(attributes["axis"], len(x))
    return x[:axis] + indices + x[axis + 1 :]


def gather_nd(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of elements taken by index tuples, which are the last axis of the indices."""
    x, indices = shapes
    batch = attributes["batch_dims"]
    if not indices or not 0 < indices[-1] <= len(x) - batch or x[:batch] != indices[:batch]:
        raise ValueError(f"indices of shape {indices} do not fit shape {x} with {batch} batch axes")
    return indices[:-1] + x[batch + indices[-1] :]


def expand(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of a broadcast."""
    return broadcast([shapes[0], tuple(attributes["shape"])])


def tile(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of an array repeated along each axis."""
    repeats = attributes["repeats"]
    if len(repeats) != len(shapes[0]) or any(count < 0 for count in repeats):
        raise ValueError(f"repeats {tuple(repeats)} must be one count of at least 0 for each of {len(shapes[0])} axes")
    return tuple(size * count for size, count in zip(shapes[0], repeats, strict=True))


def convolution(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of a convolution of [batch, channels, spatial...]."""
    x, weight, *bias = shapes
    groups, rank = attributes["groups"], len(x) - 2
    if rank < 1 or len(weight) != len(x):
        raise ValueError(f"an operand of shape {x} and a weight of shape {weight} must have one rank of at least 3")
    if groups < 1 or x[1] != weight[1] * groups or weight[0] % groups:
        raise ValueError(f"{x[1]} channels and {groups} groups do not fit a weight of shape {weight}")
    if bias and bias[0] != weight[:1]:
        raise ValueError(f"the bias must have shape ({weight[0]},), got {bias[0]}")
    return (x[0], weight[0], *_windows(x[2:], weight[2:], attributes))


def pool(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of a pool of [batch, channels, spatial...]."""
    return (*shapes[0][:2], *_windows(shapes[0][2:], attributes["kernel"], attributes))


def _windows(sizes: Shape, kernel: Sequence[int], attributes: Attributes) -> Shape:
    rank = len(sizes)
    strides, pads, dilations = attributes["strides"], attributes["pads"], attributes["dilations"]
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise ValueError(f"kernel, strides and dilations must have {rank} sizes and pads {2 * rank}")
    if min((*kernel, *strides, *dilations)) < 1 or min(pads) < 0:
        raise ValueError("kernel, strides and dilations must be at least 1 and pads at least 0")
    counts = window_counts(sizes, kernel, strides, pads, dilations)
    if min(counts) < 1:
        raise ValueError(f"a kernel of {tuple(kernel)} exceeds the padded size of {sizes}")
    return counts


def prelu(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the operand's shape, which the slopes must broadcast to."""
    if broadcast(shapes) != shapes[0]:
        raise ValueError(f"slopes of shape {shapes[1]} must broadcast to {shapes[0]}")
    return shapes[0]


def normalizing(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the operand's shape. The other operands have one number a channel, or broadcast to the normalized axes."""
    x, *others = shapes
    channels = attributes.get("channels", False)
    if channels and len(x) < 2:
        raise ValueError(f"an operand of shape {x} has no axis of channels")
    for other in others:
        fits = other == x[1:2] if channels else broadcast([x, other]) == x
        if not fits:
            raise ValueError(f"factors of shape {other} do not fit an operand of shape {x}")
    return x


def einsum(shapes: list[Shape], attributes: Attributes) -> Shape:
    """Return the shape of an Einstein sum with explicit output letters."""
    left, right = attributes["equation"].split("->")
    sizes: dict[str, int] = {}
    for term, shape in zip(left.split(","), shapes, strict=True):
        if len(term) != len(shape):
            raise ValueError(f"term {term!r} does not fit shape {shape}")
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ValueError(f"letter {letter!r} has sizes {sizes[letter]} and {size}")
    return tuple(sizes[letter] for letter in right)


#: Shapes of the operators that the readers emit.
RAW: dict[str, Rule] = {
    **dict.fromkeys(UNARY, lambda shapes, _: shapes[0]),
    **dict.fromkeys(BROADCAST, lambda shapes, _: broadcast(shapes)),
    **dict.fromkeys(NORMALIZING, normalizing),
    **dict.fromkeys(REDUCTIONS, reduction),
    "PRelu": prelu,
    "ArgMax": argmax,
    "AveragePool": pool,
    "Concat": concatenate,
    "Conv": convolution,
    "Einsum": einsum,
    "Expand": expand,
    "Gather": gather,
    "GatherND": gather_nd,
    "Gemm": gemm,
    "MatMul": lambda shapes, _: matmul(*shapes),
    "MaxPool": pool,
    "Pad": pad,
    "Reshape": reshape,
    "Slice": slices,
    "Tile": tile,
    "Transpose": transpose,
}


def work(operation: str, shapes: list[Shape], result: Shape, attributes: Attributes) -> int:
    """Return the elementary steps of an operator, within a small factor. Readers bound it before they fold constants."""
    count = math.prod(result)
    if operation == "MatMul":
        return count * shapes[0][-1]
    if operation == "Gemm":
        return count * shapes[0][0 if attributes["left"] else 1]
    if operation == "Conv":
        return count * math.prod(shapes[1][1:])
    if operation in ("AveragePool", "MaxPool"):
        return count * math.prod(attributes["kernel"])
    if operation == "Einsum":
        sizes = dict(zip("".join(attributes["equation"].split("->")[0].split(",")), sum(shapes, ()), strict=True))
        return math.prod(sizes.values())
    return count + sum(math.prod(shape) for shape in shapes)


# ---- canonical operations: shapes without the batch axis ----


def _dense(shapes: list[Shape], attributes: Attributes) -> Shape:
    outputs, inputs = attributes["weight"].shape
    (x,) = shapes
    if x[-1:] != (inputs,) or attributes["bias"].shape != (outputs,):
        raise ValueError(f"a weight of shape {(outputs, inputs)} does not fit an operand of shape {x}")
    return (*x[:-1], outputs)


def _canonical_convolution(shapes: list[Shape], attributes: Attributes) -> Shape:
    (x,) = shapes
    if len(x) != 3:
        raise ValueError(f"an image must be [channels, height, width], got shape {x}")
    weight, bias = attributes["weight"], attributes["bias"]
    return convolution([(1, *x), weight.shape, bias.shape], attributes)[1:]


def _canonical_pool(shapes: list[Shape], attributes: Attributes) -> Shape:
    (x,) = shapes
    if len(x) != 3:
        raise ValueError(f"an image must be [channels, height, width], got shape {x}")
    return pool([(1, *x)], {"dilations": (1, 1), **attributes})[1:]


def _scale(shapes: list[Shape], attributes: Attributes) -> Shape:
    return _unchanged(shapes, attributes["factor"].shape, attributes["offset"].shape)


def _normalize(shapes: list[Shape], attributes: Attributes) -> Shape:
    if not 0 < attributes["axes"] <= len(shapes[0]):
        raise ValueError(f"{attributes['axes']} axes of shape {shapes[0]} cannot be normalized")
    return _unchanged(shapes, attributes["factor"].shape, attributes["offset"].shape)


def _unchanged(shapes: list[Shape], *others: Shape) -> Shape:
    if broadcast([shapes[0], *others]) != shapes[0]:
        raise ValueError(f"factors of shapes {', '.join(map(str, others))} must broadcast to {shapes[0]}")
    return shapes[0]


def _equal(shapes: list[Shape], _: Attributes) -> Shape:
    if len(set(shapes)) != 1:
        raise ValueError(f"operands must have one shape, got {', '.join(map(str, shapes))}")
    return shapes[0]


def _canonical_matmul(shapes: list[Shape], _: Attributes) -> Shape:
    if min(len(shape) for shape in shapes) < 2:
        raise ValueError(f"operands must have at least 2 axes, got shapes {', '.join(map(str, shapes))}")
    return matmul(*shapes)


def _broadcast(shapes: list[Shape], attributes: Attributes) -> Shape:
    shape = tuple(attributes["shape"])
    if broadcast([shapes[0], shape]) != shape:
        raise ValueError(f"shape {shapes[0]} does not broadcast to {shape}")
    return shape


#: Shapes of canonical operations.
def _shifts(shapes: list[Shape], attributes: Attributes) -> Shape:
    (shape,) = shapes
    axis, count = attributes["axis"], attributes["count"]
    if not 0 <= axis < len(shape) or not 1 <= count <= shape[axis]:
        raise ValueError(f"axis {axis} of shape {shape} has no {count} shifts")
    return (count, *shape)


def _require_width(attributes: Attributes, features: int) -> None:
    """Raises ValueError for places of a head that are no power of two, or fewer than its features."""
    width = attributes["width"]
    if type(width) is not int or not features <= width <= _MOST_WIDTH or width & (width - 1):
        raise ValueError(f"the width of a head must be a power of two of at least its {features} features")


def _attention_scores(shapes: list[Shape], attributes: Attributes) -> Shape:
    queries, keys = shapes
    if queries != keys or len(queries) < 2:
        raise ValueError(f"queries of shape {queries} have no scores with keys of shape {keys}")
    _require_width(attributes, queries[-1])
    return (queries[-2], *queries[:-1])


def _attention_values(shapes: list[Shape], attributes: Attributes) -> Shape:
    weights, values = shapes
    if len(values) < 2 or weights != (values[-2], *values[:-1]):
        raise ValueError(f"weights of shape {weights} have no product with values of shape {values}")
    _require_width(attributes, values[-1])
    return values


def _product(shapes: list[Shape], attributes: Attributes) -> Shape:
    one, two = shapes
    if len(one) != len(two) or any(b not in (a, 1) for a, b in zip(one, two, strict=True)):
        raise ValueError(f"shapes {one} and {two} have no product")
    bound = attributes.get("largest", 1.0)
    if not isinstance(bound, float) or not 0 < bound < math.inf:
        raise ValueError("the bound of a product must be a finite number above 0")
    return one


CANONICAL: dict[str, Rule] = {
    "activation": lambda shapes, _: shapes[0],
    "add": _equal,
    "argmax": argmax,
    "attention_scores": _attention_scores,
    "attention_values": _attention_values,
    "broadcast": _broadcast,
    "concatenate": concatenate,
    "convolution": _canonical_convolution,
    "dense": _dense,
    "log_softmax": lambda shapes, _: shapes[0],
    "matmul": _canonical_matmul,
    "maximum_pool": _canonical_pool,
    "multiply": _product,
    "normalize": _normalize,
    "pad": pad,
    "reshape": reshape,
    "scale": _scale,
    "shifts": _shifts,
    "slice": slices,
    "softmax": lambda shapes, _: shapes[0],
    "sum": reduction,
    "transpose": transpose,
}
