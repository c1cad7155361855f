"""Interpreter of graphs in NumPy: the exact functions of a model, on clear samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import array_of
from heliograph.ml import activations, kernels
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import OPERATIONS, Array, Graph, Node

Attributes = Mapping[str, Any]
Kernel = Callable[[list[Array], Attributes], Array]

_CHUNK_ELEMENTS = 1 << 22  #: largest elements of all inputs of one chunk of a batch


# ---- operators of ONNX, as the readers emit them ----


def _unary(function: Callable[[Array], Array]) -> Kernel:
    return lambda operands, _: function(operands[0])


def _activation(name: str) -> Kernel:
    function = activations.FUNCTIONS[name]
    return lambda operands, attributes: _float(function(operands[0], **attributes), operands[0])


def _float(values: Array, like: Array) -> Array:
    """Return values with the dtype of the operand, if NumPy widened it."""
    return np.asarray(values).astype(like.dtype, copy=False)


def _divide(operands: list[Array], _: Attributes) -> Array:
    a, b = operands
    if np.issubdtype(a.dtype, np.floating):
        return np.asarray(a / b)
    if not np.all(b):
        raise ValueError("an integer is divided by zero")
    quotient = np.floor_divide(a, b)  # ONNX rounds to zero
    return np.asarray(quotient + ((quotient < 0) & (quotient * b != a)), a.dtype)


def _modulo(operands: list[Array], attributes: Attributes) -> Array:
    a, b = operands
    if not np.issubdtype(a.dtype, np.floating) and not np.all(b):
        raise ValueError("an integer is divided by zero")
    return np.asarray(np.fmod(a, b) if attributes["fmod"] else np.mod(a, b))


def _power(operands: list[Array], _: Attributes) -> Array:
    a, b = operands
    return _float(np.power(a.astype(np.float64), b), a) if a.dtype.kind in "iu" else _float(np.power(a, b), a)


def _fold(function: Callable[[Array, Array], Array]) -> Kernel:
    def kernel(operands: list[Array], _: Attributes) -> Array:
        total = operands[0]
        for other in operands[1:]:
            total = function(total, other)
        return np.asarray(total)

    return kernel


def _mean_of(operands: list[Array], _: Attributes) -> Array:
    return np.asarray(_fold(np.add)(operands, {}) / len(operands))


def _cast(operands: list[Array], attributes: Attributes) -> Array:
    (x,) = operands
    target = np.dtype(attributes["dtype"])
    if x.dtype.kind == "f" and target.kind in "iu" and not np.all(np.isfinite(x)):
        raise ValueError(f"a value that is not finite has no {target}")
    return x.astype(target)


def _batch_normalization(operands: list[Array], attributes: Attributes) -> Array:
    x, factor, offset, mean, variance = operands
    shape = (-1, *(1,) * (x.ndim - 2))
    scale = factor / np.sqrt(variance + attributes["epsilon"])
    return _float(x * scale.reshape(shape) + (offset - mean * scale).reshape(shape), x)


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centered = x - x.mean(axis=axes, keepdims=True)
    return np.asarray(centered / np.sqrt(np.square(centered).mean(axis=axes, keepdims=True) + epsilon))


def _instance_normalization(operands: list[Array], attributes: Attributes) -> Array:
    x, factor, offset = operands
    shape = (-1, *(1,) * (x.ndim - 2))
    value = _standardized(x, tuple(range(2, x.ndim)), attributes["epsilon"])
    return _float(value * factor.reshape(shape) + offset.reshape(shape), x)


def _group_normalization(operands: list[Array], attributes: Attributes) -> Array:
    x, factor, offset = operands
    groups = x.reshape(len(x), attributes["groups"], -1)
    shape = (-1, *(1,) * (x.ndim - 2))
    value = _standardized(groups, (2,), attributes["epsilon"]).reshape(x.shape)
    return _float(value * factor.reshape(shape) + offset.reshape(shape), x)


def _layer_normalization(operands: list[Array], attributes: Attributes) -> Array:
    x, factor, *offset = operands
    value = _standardized(x, tuple(range(attributes["axis"], x.ndim)), attributes["epsilon"]) * factor
    return _float(value + offset[0] if offset else value, x)


def _rms_normalization(operands: list[Array], attributes: Attributes) -> Array:
    x, factor = operands
    squares = np.square(x).mean(axis=tuple(range(attributes["axis"], x.ndim)), keepdims=True)
    return _float(x / np.sqrt(squares + attributes["epsilon"]) * factor, x)


def softmax(x: Array, axis: int) -> Array:
    """Return the softmax along an axis, without overflow."""
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def log_softmax(x: Array, axis: int) -> Array:
    """Return the logarithm of the softmax along an axis."""
    shifted = x - x.max(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


def _gemm(operands: list[Array], attributes: Attributes) -> Array:
    a, b, *summand = operands
    product = attributes["alpha"] * np.matmul(a.T if attributes["left"] else a, b.T if attributes["right"] else b)
    return _float(product + attributes["beta"] * summand[0] if summand else product, a)


def _window_attributes(attributes: Attributes) -> dict[str, Any]:
    return {name: attributes[name] for name in ("strides", "pads", "dilations")}


def _conv(operands: list[Array], attributes: Attributes) -> Array:
    return kernels.convolve(*operands, groups=attributes["groups"], **_window_attributes(attributes))


def _average_pool(operands: list[Array], attributes: Attributes) -> Array:
    return kernels.average_pool(
        operands[0],
        kernel=attributes["kernel"],
        include_pads=attributes["include_pads"],
        **_window_attributes(attributes),
    )


def _maximum_pool(operands: list[Array], attributes: Attributes) -> Array:
    return kernels.maximum_pool(operands[0], kernel=attributes["kernel"], **_window_attributes(attributes))


def _pad(operands: list[Array], attributes: Attributes) -> Array:
    mode = attributes["mode"]
    options = {"constant_values": attributes["value"]} if mode == "constant" else {}
    return np.asarray(np.pad(operands[0], attributes["pads"], mode=mode, **options))


def _slice(operands: list[Array], attributes: Attributes) -> Array:
    return operands[0][tuple(slice(*part) for part in attributes["slices"])]


def _gather(operands: list[Array], attributes: Attributes) -> Array:
    x, indices = operands
    size = x.shape[attributes["axis"]]
    return np.asarray(np.take(x, _checked(indices, size), axis=attributes["axis"]))


def _checked(indices: Array, size: int) -> Array:
    """Return indices, negative ones counted from the end. Raises ValueError outside [-size, size)."""
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise ValueError(f"indices must be between {-size} and {size - 1}, got {indices.min()} to {indices.max()}")
    return np.where(indices < 0, indices + size, indices)


def _gather_nd(operands: list[Array], attributes: Attributes) -> Array:
    x, indices = operands
    batch = attributes["batch_dims"]
    outer = np.indices(indices.shape[:-1])[:batch]
    parts = [_checked(indices[..., i], x.shape[batch + i]) for i in range(indices.shape[-1])]
    return np.asarray(x[(*outer, *parts)])


def _reduction(function: Callable[..., Array]) -> Kernel:
    def kernel(operands: list[Array], attributes: Attributes) -> Array:
        (x,) = operands
        axes = tuple(attributes["axes"])
        return _float(
            function(x, axis=axes, keepdims=bool(attributes["keepdims"])) if axes else function(x[None], axis=0), x
        )

    return kernel


def _log_sum_exp(x: Array, axis: Any, keepdims: bool = False) -> Array:
    top = x.max(axis=axis, keepdims=True)
    total = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return np.asarray(total if keepdims else np.squeeze(total, axis=axis))


def _argmax(operands: list[Array], attributes: Attributes) -> Array:
    return np.asarray(operands[0].argmax(axis=attributes["axis"], keepdims=bool(attributes["keepdims"])))


def _cumsum(operands: list[Array], attributes: Attributes) -> Array:
    (x,) = operands
    axis, step = attributes["axis"], -1 if attributes["reverse"] else 1
    order = (*(slice(None),) * axis, slice(None, None, step))
    total = np.cumsum(x[order], axis=axis, dtype=x.dtype)
    return np.asarray((total - x[order] if attributes["exclusive"] else total)[order])


def _trilu(operands: list[Array], attributes: Attributes) -> Array:
    return np.asarray((np.triu if attributes["upper"] else np.tril)(operands[0], attributes["k"]))


#: Kernels of the operators that the readers emit. Operands have the file's shapes, with a batch axis of 1.
RAW: dict[str, Kernel] = {
    "Abs": _unary(np.abs),
    "Add": _fold(np.add),
    "And": _fold(np.logical_and),
    "ArgMax": _argmax,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Ceil": _unary(np.ceil),
    "Celu": _activation("celu"),
    "Clip": _activation("clip"),
    "Concat": lambda operands, attributes: np.concatenate(operands, axis=attributes["axis"]),
    "Conv": _conv,
    "Cos": _unary(np.cos),
    "CumSum": _cumsum,
    "Div": _divide,
    "Einsum": lambda operands, attributes: np.asarray(np.einsum(attributes["equation"], *operands, optimize=True)),
    "Elu": _activation("elu"),
    "Equal": _fold(np.equal),
    "Erf": _activation("erf"),
    "Exp": _unary(np.exp),
    "Expand": lambda operands, attributes: np.array(
        np.broadcast_to(operands[0], np.broadcast_shapes(operands[0].shape, attributes["shape"]))
    ),
    "Floor": _unary(np.floor),
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Gelu": lambda operands, attributes: _float(
        (activations.gelu_tanh if attributes["tanh"] else activations.gelu)(operands[0]), operands[0]
    ),
    "Gemm": _gemm,
    "Greater": _fold(np.greater),
    "GreaterOrEqual": _fold(np.greater_equal),
    "GroupNormalization": _group_normalization,
    "HardSigmoid": _activation("hard_sigmoid"),
    "HardSwish": _activation("hard_swish"),
    "Identity": _unary(np.asarray),
    "InstanceNormalization": _instance_normalization,
    "IsNaN": _unary(np.isnan),
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": _activation("leaky_relu"),
    "Less": _fold(np.less),
    "LessOrEqual": _fold(np.less_equal),
    "Log": _unary(np.log),
    "LogSoftmax": lambda operands, attributes: log_softmax(operands[0], attributes["axis"]),
    "MatMul": lambda operands, _: np.asarray(np.matmul(*operands)),
    "Max": _fold(np.maximum),
    "MaxPool": _maximum_pool,
    "Mean": _mean_of,
    "Min": _fold(np.minimum),
    "Mish": _activation("mish"),
    "Mod": _modulo,
    "Mul": _fold(np.multiply),
    "Neg": _unary(np.negative),
    "Not": _unary(np.logical_not),
    "Or": _fold(np.logical_or),
    "PRelu": lambda operands, _: np.where(operands[0] >= 0, operands[0], operands[1] * operands[0]),
    "Pad": _pad,
    "Pow": _power,
    "RMSNormalization": _rms_normalization,
    "Reciprocal": _activation("reciprocal"),
    "ReduceL1": _reduction(lambda x, **how: np.abs(x).sum(**how)),
    "ReduceL2": _reduction(lambda x, **how: np.sqrt(np.square(x).sum(**how))),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "ReduceSumSquare": _reduction(lambda x, **how: np.square(x).sum(**how)),
    "Relu": _activation("relu"),
    "Reshape": lambda operands, attributes: operands[0].reshape(attributes["shape"]),
    "Round": _unary(np.rint),
    "Selu": _activation("selu"),
    "Sigmoid": _activation("sigmoid"),
    "Sign": _unary(np.sign),
    "Sin": _unary(np.sin),
    "Slice": _slice,
    "Softmax": lambda operands, attributes: softmax(operands[0], attributes["axis"]),
    "Softplus": _activation("softplus"),
    "Softsign": _activation("softsign"),
    "Sqrt": _unary(np.sqrt),
    "Sub": _fold(np.subtract),
    "Sum": _fold(np.add),
    "Swish": _activation("silu"),
    "Tanh": _unary(np.tanh),
    "Tile": lambda operands, attributes: np.tile(operands[0], attributes["repeats"]),
    "Transpose": lambda operands, attributes: operands[0].transpose(attributes["permutation"]),
    "Trilu": _trilu,
    "Where": lambda operands, _: np.where(*operands),
    "Xor": _fold(np.logical_xor),
}


# ---- canonical operations: every operand has one more axis in front, of samples ----


def _shifted(permutation: Iterable[int]) -> tuple[int, ...]:
    return (0, *(axis + 1 for axis in permutation))


def _dense(operands: list[Array], attributes: Attributes) -> Array:
    x = operands[0]
    result = np.matmul(x, attributes["weight"].T.astype(x.dtype, copy=False))
    return np.asarray(result + attributes["bias"].astype(x.dtype, copy=False))


def _convolution(operands: list[Array], attributes: Attributes) -> Array:
    return kernels.convolve(
        operands[0],
        attributes["weight"],
        attributes["bias"],
        groups=attributes["groups"],
        **_window_attributes(attributes),
    )


def _scale(operands: list[Array], attributes: Attributes) -> Array:
    x = operands[0]
    return np.asarray(x * attributes["factor"].astype(x.dtype) + attributes["offset"].astype(x.dtype))


def _function(operands: list[Array], attributes: Attributes) -> Array:
    function = activations.FUNCTIONS[attributes["function"]]
    return _float(function(operands[0], **attributes["parameters"]), operands[0])


def _canonical_pool(operands: list[Array], attributes: Attributes) -> Array:
    options = {name: attributes[name] for name in ("kernel", "strides", "pads")}
    return kernels.maximum_pool(operands[0], dilations=(1, 1), **options)


def _matmul(operands: list[Array], _: Attributes) -> Array:
    """Return the product of [samples, ...] operands, whose other axes broadcast from the right."""
    a, b = operands
    rank = max(a.ndim, b.ndim)
    a, b = (x.reshape(x.shape[0], *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (a, b))
    return np.asarray(np.matmul(a, b))


def _normalize(operands: list[Array], attributes: Attributes) -> Array:
    (x,) = operands
    value = _standardized(x, tuple(range(x.ndim - attributes["axes"], x.ndim)), attributes["epsilon"])
    return np.asarray(value * attributes["factor"].astype(x.dtype) + attributes["offset"].astype(x.dtype))


def _canonical_argmax(operands: list[Array], attributes: Attributes) -> Array:
    return np.asarray(operands[0].argmax(axis=attributes["axis"] + 1, keepdims=attributes["keepdims"]))


def _broadcast(operands: list[Array], attributes: Attributes) -> Array:
    (x,) = operands
    shape = tuple(attributes["shape"])
    return np.broadcast_to(x.reshape(len(x), *(1,) * (len(shape) + 1 - x.ndim), *x.shape[1:]), (len(x), *shape))


def _sum(operands: list[Array], attributes: Attributes) -> Array:
    axes = tuple(axis + 1 for axis in attributes["axes"])
    return np.asarray(operands[0].sum(axis=axes, keepdims=attributes["keepdims"]))


def _shifts(operands: list[Array], attributes: Attributes) -> Array:
    (x,) = operands
    return np.stack([np.roll(x, -shift, attributes["axis"] + 1) for shift in range(attributes["count"])], axis=1)


def _turned(count: int) -> Array:
    """The column (i + s) % count of each diagonal s and row i."""
    index = np.arange(count)
    return np.asarray((index[:, None] + index) % count)


def _attention_scores(operands: list[Array], _: Attributes) -> Array:
    queries, keys = operands
    count = queries.shape[-2]
    scores = np.matmul(queries, np.swapaxes(keys, -1, -2))
    return np.asarray(np.moveaxis(scores[..., np.arange(count), _turned(count)], -2, 1))


def _attention_values(operands: list[Array], _: Attributes) -> Array:
    weights, values = operands
    count = values.shape[-2]
    # Row i and column j of the matrix of weights are diagonal (j - i) % count and row i.
    row = np.arange(count)
    matrix = np.moveaxis(weights, 1, -2)[..., (row - row[:, None]) % count, row[:, None]]
    return np.asarray(np.matmul(matrix, values))


CANONICAL: dict[str, Kernel] = {
    "activation": _function,
    "add": _fold(np.add),
    "argmax": _canonical_argmax,
    "attention_scores": _attention_scores,
    "attention_values": _attention_values,
    "broadcast": _broadcast,
    "concatenate": lambda operands, attributes: np.concatenate(operands, axis=attributes["axis"] + 1),
    "convolution": _convolution,
    "dense": _dense,
    "log_softmax": lambda operands, attributes: log_softmax(operands[0], attributes["axis"] + 1),
    "matmul": _matmul,
    "maximum_pool": _canonical_pool,
    "multiply": _fold(np.multiply),
    "normalize": _normalize,
    "pad": lambda operands, attributes: np.pad(operands[0], ((0, 0), *attributes["pads"])),
    "reshape": lambda operands, attributes: operands[0].reshape(len(operands[0]), *attributes["shape"]),
    "scale": _scale,
    "shifts": _shifts,
    "slice": lambda operands, attributes: operands[0][(slice(None), *(slice(*part) for part in attributes["slices"]))],
    "softmax": lambda operands, attributes: softmax(operands[0], attributes["axis"] + 1),
    "sum": _sum,
    "transpose": lambda operands, attributes: operands[0].transpose(_shifted(attributes["permutation"])),
}
assert CANONICAL.keys() == OPERATIONS.keys()


def is_canonical(graph: Graph) -> bool:
    """Return whether all nodes of a graph are canonical operations."""
    return all(node.operation in OPERATIONS for node in graph.nodes)


def run(
    graph: Graph,
    inputs: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    *,
    until: Iterable[str] | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> dict[str, Array]:
    """Compute a graph on clear samples, with exact functions.

    `inputs` maps each input's name to samples; a graph of one input also takes the array alone. Samples are
    [count, shape...]: the first axis is the batch, in place of the batch axis of 1 of a graph of ONNX operators.
    `until` names the values to return (default: the graph's outputs); later nodes are not computed. Floats are computed as
    `dtype`, float64 or float32. Each result is [count, shape...].

    Raises ShapeError for inputs of other shapes, DtypeError for other types, ModelError for an unknown value. An operator
    without a value, such as an integer division by zero, is a ModelError.
    """
    wanted = tuple(graph.outputs if until is None else until)
    nodes = _needed(graph, wanted)
    samples, count = samples_of(graph, inputs, np.dtype(dtype))
    canonical = is_canonical(graph)
    chunk = 1
    if canonical:
        largest = max((int(np.prod(shape)) for shape in graph.shapes.values()), default=1)
        chunk = max(1, _CHUNK_ELEMENTS // max(1, largest))
    parts: list[dict[str, Array]] = []
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        values = {name: array[start:stop] for name, array in samples.items()}
        parts.append(_computed(graph, nodes, values, wanted, np.dtype(dtype), canonical))
    if not parts:
        return {name: np.empty((0, *sample_shape(graph, name))) for name in wanted}
    return {name: np.concatenate([part[name] for part in parts]) for name in wanted}


def sample_shape(graph: Graph, name: str) -> tuple[int, ...]:
    """Return the shape of one sample of a value: without the batch axis of 1 of a graph of ONNX operators."""
    shape = tuple(graph.shapes[name])
    return shape if is_canonical(graph) or shape[:1] != (1,) else shape[1:]


def _needed(graph: Graph, wanted: tuple[str, ...]) -> list[Node]:
    """Return the nodes that make the wanted values, in order."""
    known = {*graph.inputs, *graph.constants, *(node.output for node in graph.nodes)}
    for name in wanted:
        if name not in known:
            raise ModelError(f"the graph has no value {name!r}; its outputs are {', '.join(graph.outputs)}")
    needed, nodes = set(wanted), []
    for node in reversed(graph.nodes):
        if node.output in needed:
            nodes.append(node)
            needed.update(node.inputs)
    return nodes[::-1]


def samples_of(graph: Graph, inputs: Any, dtype: np.dtype[Any]) -> tuple[dict[str, Array], int]:
    """Return the arrays [samples, shape...] of a graph's inputs by name, and the number of samples.

    Raises ShapeError, DtypeError, and PlaintextRangeError for integers that the type of an input does not hold."""
    if dtype not in (np.float64, np.float32):
        raise _core.DtypeError(f"dtype must be float64 or float32, got {dtype}")
    if not isinstance(inputs, Mapping):
        if len(graph.inputs) != 1:
            raise _core.ShapeError(f"a graph of inputs {', '.join(graph.inputs)} takes a mapping of names to arrays")
        inputs = {graph.inputs[0]: inputs}
    if set(inputs) != set(graph.inputs):
        raise _core.ShapeError(f"inputs must be {', '.join(graph.inputs)}, got {', '.join(map(str, inputs)) or 'none'}")
    arrays: dict[str, Array] = {}
    for name, values in inputs.items():
        array = array_of(values, f"input {name!r}")
        if array.dtype.kind not in "fiub":
            raise _core.DtypeError(f"input {name!r} must be numbers, got {array.dtype}")
        shape = sample_shape(graph, name)
        if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
            raise _core.ShapeError(
                f"input {name!r} must have shape (samples, {', '.join(map(str, shape))}), got {array.shape}"
            )
        kind = np.dtype(graph.dtypes.get(name, "float64"))
        if kind.kind in "iub" and array.dtype.kind == "f":
            raise _core.DtypeError(f"input {name!r} must be of {kind}, got {array.dtype}")
        arrays[name] = array.astype(dtype if kind.kind == "f" else kind)
        changed = kind.kind != "f" and (arrays[name] != array)
        if np.any(changed):
            raise _core.PlaintextRangeError(f"input {name!r} must hold values of {kind}, got {array[changed][0]}")
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1:
        raise _core.ShapeError(f"inputs must have one number of samples, got {sorted(counts)}")
    return arrays, counts.pop()


def _computed(
    graph: Graph,
    nodes: list[Node],
    values: dict[str, Array],
    wanted: tuple[str, ...],
    dtype: np.dtype[Any],
    canonical: bool,
) -> dict[str, Array]:
    """Compute the nodes on one chunk of samples. Values that no later node reads are dropped."""
    count = len(next(iter(values.values()), ()))
    last = {name: i for i, node in enumerate(nodes) for name in node.inputs}
    batched = {name for name in graph.inputs if canonical or graph.shapes[name][:1] == (1,)}
    values = {name: array if name in batched else array[0] for name, array in values.items()}

    def operand(name: str) -> Array:
        if name in values:
            return values[name]
        constant = graph.constants[name]
        constant = constant.astype(dtype, copy=False) if constant.dtype.kind == "f" else constant
        return np.broadcast_to(constant, (count, *constant.shape)) if canonical else constant

    with np.errstate(all="ignore"):
        for i, node in enumerate(nodes):
            values[node.output] = evaluate(node, [operand(name) for name in node.inputs], canonical)
            for name in node.inputs:
                if last[name] == i and name not in wanted:
                    values.pop(name, None)
    results = {}
    for name in wanted:
        array = operand(name)
        if canonical:
            results[name] = np.broadcast_to(array, (count, *array.shape[1:]))
        else:
            results[name] = array if graph.shapes[name][:1] == (1,) else array[None]
    return results


def evaluate(node: Node, operands: list[Array], canonical: bool = False) -> Array:
    """Return the value of one node. Raises ModelError, with the node's name, if it has none."""
    try:
        return (CANONICAL if canonical else RAW)[node.operation](operands, node.attributes)
    except (ValueError, IndexError, OverflowError, TypeError) as error:
        raise ModelError(f"cannot compute node {node.source or node.output}: {error}") from error
