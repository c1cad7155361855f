"""Random small ONNX graphs over the operators that the reader knows, for comparisons with another runtime."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSETS = (9, 10, 11, 12, 13, 14, 15, 17, 18, 20, 21, 22, 23, 24)


class GraphMaker:
    """Grows a graph from one input. `current` is the newest value; its shape is known, with a batch axis of 1."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        kind = self.rng.integers(4)
        if kind < 2:
            shape = (1, int(self.rng.integers(1, 4)) * 2, *map(int, self.rng.integers(5, 10, 2)))
        elif kind == 2:
            shape = (1, int(self.rng.integers(3, 6)), 2 * int(self.rng.integers(2, 5)))
        else:
            shape = (1, int(self.rng.integers(3, 9)))
        self.input_shape = shape
        self.current, self.shape = "x", shape
        self.old = [("x", shape)]

    # ---- parts ----

    def number(self, low: int, high: int) -> int:
        """Draw an integer of [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weights(self, *shape: int, size: float = 1.0) -> np.ndarray:
        """Draw float32 weights."""
        return (self.rng.normal(size=shape) * size).astype(np.float32)

    def integers(self, *values: int) -> str:
        """Add an initializer of 64-bit integers."""
        return self.constant(np.array(values, np.int64))

    def emit(self, operator: str, inputs: list[str], shape: tuple[int, ...], outputs: int = 1, **attributes: Any) -> str:
        """Add a node, whose first result becomes the current value."""
        names = [f"v{len(self.nodes)}"] + [f"v{len(self.nodes)}_{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        self.current, self.shape = names[0], shape
        self.old.append((names[0], shape))
        return names[0]

    def same(self, operator: str, *others: str, **attributes: Any) -> str:
        """Add a node whose result has the current shape."""
        return self.emit(operator, [self.current, *others], self.shape, **attributes)

    def axes(self, operator: str, axes: tuple[int, ...], shape: tuple[int, ...], since: int, **attributes: Any) -> None:
        """Add a node with axes, which are an input from opset `since` on."""
        if self.opset >= since:
            self.emit(operator, [self.current, self.integers(*axes)], shape, **attributes)
        else:
            self.emit(operator, [self.current], shape, axes=list(axes), **attributes)

    def model(self, steps: int) -> Any:
        """Return a model of about this many operators."""
        while len(self.nodes) < steps:
            choices = [*ANY, *BY_RANK.get(len(self.shape), [])]
            choices[int(self.rng.integers(len(choices)))](self)
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("x", 1, ["N", *self.input_shape[1:]])],
            [helper.make_tensor_value_info(self.current, 1, [None] * len(self.shape))],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


# ---- any rank ----


def unary(m: GraphMaker) -> None:
    """Add a function of one value; those of positive numbers after a shift."""
    name = str(
        m.rng.choice(["Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Erf", "Abs", "Neg", "Identity", "Sin", "Cos"])
    )
    m.same(name)


def positive(m: GraphMaker) -> None:
    """Add a function of positive numbers, of |x| + 1/2."""
    m.same("Abs")
    m.same("Add", m.constant(np.float32(0.5)))
    m.same(str(m.rng.choice(["Sqrt", "Log", "Reciprocal"])))


def exponential(m: GraphMaker) -> None:
    """Add exp(tanh(x))."""
    m.same("Tanh")
    m.same("Exp")


def parameterized(m: GraphMaker) -> None:
    """Add an activation with attributes."""
    name = str(m.rng.choice(["LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Gelu", "Mish", "Celu", "Swish"]))
    since = {"HardSwish": 14, "Gelu": 20, "Mish": 18, "Celu": 12, "Swish": 24}
    if m.opset < since.get(name, 0):
        name = "LeakyRelu"
    attributes = (
        {"alpha": float(m.rng.uniform(0.1, 0.9))} if name in ("LeakyRelu", "Elu", "Celu", "HardSigmoid", "Swish") else {}
    )
    if name == "Gelu" and m.rng.integers(2):
        attributes = {"approximate": "tanh"}
    m.same(name, **attributes)


def clip(m: GraphMaker) -> None:
    """Add Clip with one or two bounds."""
    low, high = sorted(float(v) for v in m.rng.normal(size=2))
    if m.opset < 11:
        m.same("Clip", min=low, max=high)
    else:
        kind = m.rng.integers(3)
        inputs = ["" if kind == 1 else m.constant(np.float32(low)), "" if kind == 2 else m.constant(np.float32(high))]
        m.same("Clip", *inputs)


def constant_operand(m: GraphMaker) -> None:
    """Add arithmetic with a constant that broadcasts, on either side."""
    shape = tuple(n if m.rng.integers(2) else 1 for n in m.shape[m.number(0, len(m.shape)) :])
    name = str(m.rng.choice(["Add", "Sub", "Mul", "Div", "Max", "Min"]))
    value = m.weights(*shape)
    if name == "Div":
        value = np.sign(value + 1e-9) * (np.abs(value) + 0.5).astype(np.float32)
    other = m.constant(value.astype(np.float32))
    if m.rng.integers(2) or name == "Div":
        m.same(name, other)
    else:
        m.emit(name, [other, m.current], m.shape)


def residual(m: GraphMaker) -> None:
    """Add arithmetic with an older value of a shape that broadcasts."""
    fits = [
        (name, shape)
        for name, shape in m.old
        if len(shape) == len(m.shape) and all(a in (1, b) for a, b in zip(shape, m.shape, strict=True))
    ]
    if fits:
        other = fits[int(m.rng.integers(len(fits)))][0]
        m.same(str(m.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])), other)
        m.same("Tanh")


def several(m: GraphMaker) -> None:
    """Add Sum or Mean of three operands."""
    m.same(str(m.rng.choice(["Sum", "Mean"])), m.constant(m.weights(*m.shape[1:])), m.current)


def power(m: GraphMaker) -> None:
    """Add a power."""
    exponent = float(m.rng.choice([1.0, 2.0, 3.0]))
    m.same("Tanh")
    m.same("Pow", m.constant(np.float32(exponent)))


def known_pattern(m: GraphMaker) -> None:
    """Add GELU, SiLU, Mish or hard Swish, written with other operators."""
    x, shape = m.current, m.shape
    kind = m.number(0, 5)
    if kind == 0:
        m.same("Div", m.constant(np.float32(math.sqrt(2))))
        m.same("Erf")
        m.same("Add", m.constant(np.float32(1)))
        m.emit("Mul", [x, m.current], shape)
        m.same("Mul", m.constant(np.float32(0.5)))
    elif kind == 1:
        m.same("Sigmoid")
        m.emit("Mul", [x, m.current], shape)
    elif kind == 2:
        m.same("Mul", m.constant(np.float32(1.702)))
        m.same("Sigmoid")
        m.emit("Mul", [m.current, x], shape)
    elif kind == 3:
        m.same("Softplus")
        m.same("Tanh")
        m.emit("Mul", [x, m.current], shape)
    elif kind == 4:
        m.same("Add", m.constant(np.float32(3)))
        if m.opset < 11:
            m.same("Clip", min=0.0, max=6.0)
        else:
            m.same("Clip", m.constant(np.float32(0)), m.constant(np.float32(6)))
        m.emit("Mul", [x, m.current], shape)
        m.same("Div", m.constant(np.float32(6)))
    else:
        m.same("Pow", m.constant(np.float32(3)))
        m.same("Mul", m.constant(np.float32(0.044715)))
        m.emit("Add", [x, m.current], shape)
        m.same("Mul", m.constant(np.float32(math.sqrt(2 / math.pi))))
        m.same("Tanh")
        m.same("Add", m.constant(np.float32(1)))
        half = m.emit("Mul", [x, m.constant(np.float32(0.5))], shape)
        m.emit("Mul", [half, m.old[-2][0]], shape)


def where(m: GraphMaker) -> None:
    """Add Where with a constant condition."""
    condition = m.constant(m.rng.integers(0, 2, m.shape[1:]).astype(bool))
    m.emit("Where", [condition, m.current, m.constant(np.float32(0.25))], m.shape)


def reshape(m: GraphMaker) -> None:
    """Add a reshape whose shape is computed from Shape, as exporters write it."""
    rest = math.prod(m.shape[1:])
    x, shape = m.current, m.shape
    m.emit("Shape", [x], (len(shape),))
    size = m.emit("Gather", [m.current, m.integers(0)], (1,), axis=0)
    full = m.emit("Concat", [size, m.integers(-1)], (2,), axis=0)
    del m.old[-3:]
    m.emit("Reshape", [x, full], (1, rest))


def flatten(m: GraphMaker) -> None:
    """Add Flatten."""
    m.emit("Flatten", [m.current], (1, math.prod(m.shape[1:])))


def unsqueeze(m: GraphMaker) -> None:
    """Add an axis and remove it, or keep it."""
    if len(m.shape) > 3:
        return
    axis = m.number(1, len(m.shape))
    old = m.shape
    m.axes("Unsqueeze", (axis,), (*old[:axis], 1, *old[axis:]), 13)
    if m.rng.integers(2):
        m.axes("Squeeze", (axis,), old, 13)


def transpose(m: GraphMaker) -> None:
    """Add a transposition of the axes after the first."""
    order = [0, *(int(i) for i in 1 + m.rng.permutation(len(m.shape) - 1))]
    m.emit("Transpose", [m.current], tuple(m.shape[i] for i in order), perm=order)


def slices(m: GraphMaker) -> None:
    """Add Slice of one axis, with a step that may be negative."""
    if m.opset < 10 or len(m.shape) < 2:
        return
    axis = m.number(1, len(m.shape) - 1)
    size = m.shape[axis]
    start = m.number(0, size - 1)
    step = int(m.rng.choice([1, 1, 2, -1]))
    stop = m.number(start + 1, size) if step > 0 else -size - 1
    count = len(range(start, stop, step)) if step > 0 else start + 1
    inputs = [m.current, m.integers(start), m.integers(stop), m.integers(axis), m.integers(step)]
    m.emit("Slice", inputs, (*m.shape[:axis], count, *m.shape[axis + 1 :]))


def split(m: GraphMaker) -> None:
    """Add Split into two, and use both."""
    axis = len(m.shape) - 1
    if m.shape[axis] % 2 or not axis:
        return
    half = (*m.shape[:axis], m.shape[axis] // 2)
    attributes = {"num_outputs": 2} if m.opset >= 18 else {}
    first = m.emit("Split", [m.current], half, outputs=2, axis=axis, **attributes)
    second = f"{first}_1"
    if m.rng.integers(2):
        m.emit("Mul", [first, second], half)
    else:
        m.emit("Concat", [second, first], (*half[:axis], 2 * half[axis]), axis=axis)


def gather(m: GraphMaker) -> None:
    """Add Gather by constant indices."""
    axis = m.number(1, len(m.shape) - 1) if len(m.shape) > 1 else 0
    size = m.shape[axis]
    if m.rng.integers(2) and len(m.shape) > 2:
        index = m.constant(np.array(m.number(0, size - 1), np.int64))
        m.emit("Gather", [m.current, index], (*m.shape[:axis], *m.shape[axis + 1 :]), axis=axis)
    else:
        values = [m.number(0, size - 1) for _ in range(m.number(1, size))]
        m.emit("Gather", [m.current, m.integers(*values)], (*m.shape[:axis], len(values), *m.shape[axis + 1 :]), axis=axis)


def concatenate(m: GraphMaker) -> None:
    """Add Concat with a constant or with itself."""
    axis = len(m.shape) - 1
    if m.shape[axis] > 24 or not axis:
        return
    other = m.current if m.rng.integers(2) else m.constant(m.weights(*m.shape))
    m.emit("Concat", [m.current, other], (*m.shape[:axis], 2 * m.shape[axis]), axis=axis - len(m.shape))


def pad(m: GraphMaker) -> None:
    """Add Pad of the axes after the first."""
    if m.opset < 11 or max(m.shape[1:], default=99) > 16:
        return
    pads = [(0, 0), *((m.number(0, 1), m.number(0, 1)) for _ in m.shape[1:])]
    shape = tuple(n + a + b for n, (a, b) in zip(m.shape, pads, strict=True))
    flat = [a for a, _ in pads] + [b for _, b in pads]
    mode = str(m.rng.choice(["constant", "edge"]))
    inputs = [m.current, m.integers(*flat)]
    if mode == "constant" and m.rng.integers(2):
        inputs.append(m.constant(np.float32(0.3)))
    m.emit("Pad", inputs, shape, mode=mode)


def tile(m: GraphMaker) -> None:
    """Add Tile or Expand of the last axis."""
    if m.shape[-1] > 12 or len(m.shape) < 2:
        return
    if m.shape[-1] == 1:
        m.emit("Expand", [m.current, m.integers(*m.shape[:-1], 3)], (*m.shape[:-1], 3))
    else:
        m.emit("Tile", [m.current, m.integers(*(1,) * (len(m.shape) - 1), 2)], (*m.shape[:-1], 2 * m.shape[-1]))


def reduction(m: GraphMaker) -> None:
    """Add a reduction of the last axes."""
    if len(m.shape) < 3:
        return
    name = str(m.rng.choice(["ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"]))
    axes = tuple(range(m.number(1, len(m.shape) - 1), len(m.shape)))
    keep = m.number(0, 1)
    shape = tuple(1 if i in axes else n for i, n in enumerate(m.shape)) if keep else m.shape[: axes[0]]
    m.axes(name, axes, shape, 13 if name == "ReduceSum" else 18, keepdims=keep)
    m.same("Tanh")


def nothing(m: GraphMaker) -> None:
    """Add operators that do nothing in inference."""
    m.same("Dropout") if m.rng.integers(2) else m.same("Cast", to=1)


def softmax(m: GraphMaker) -> None:
    """Add Softmax along an axis."""
    if len(m.shape) > 1:
        m.same("Softmax", axis=m.number(1, len(m.shape) - 1))


# ---- images ----


def convolution(m: GraphMaker) -> None:
    """Add Conv with strides, pads, dilations and groups, or automatic padding."""
    channels, sizes = m.shape[1], m.shape[2:]
    groups = int(m.rng.choice([g for g in (1, 2, channels) if channels % g == 0]))
    outputs = groups * m.number(1, 3)
    kernel = [m.number(1, min(3, n)) for n in sizes]
    strides = [m.number(1, 2) for _ in sizes]
    inputs = [m.current, m.constant(m.weights(outputs, channels // groups, *kernel, size=0.4))]
    if m.rng.integers(2):
        inputs.append(m.constant(m.weights(outputs)))
    attributes: dict[str, Any] = {"strides": strides, "group": groups, "kernel_shape": kernel}
    if m.rng.integers(3) == 0:
        attributes["auto_pad"] = str(m.rng.choice(["SAME_UPPER", "SAME_LOWER"]))
        shape = tuple(-(-n // s) for n, s in zip(sizes, strides, strict=True))
    else:
        dilations = [1 if k == 1 or 2 * (k - 1) + 1 > n else m.number(1, 2) for k, n in zip(kernel, sizes, strict=True)]
        pads = [m.number(0, 1) for _ in range(2 * len(sizes))]
        attributes |= {"dilations": dilations, "pads": pads}
        rank = len(sizes)
        shape = tuple(
            (sizes[i] + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
        )
    m.emit("Conv", inputs, (1, outputs, *shape), **attributes)


def transposed_convolution(m: GraphMaker) -> None:
    """Add ConvTranspose."""
    channels, sizes = m.shape[1], m.shape[2:]
    if max(sizes) > 10:
        return
    outputs, kernel = m.number(1, 3), [m.number(1, 3) for _ in sizes]
    strides = [m.number(1, 2) for _ in sizes]
    pads = [min(1, k - 1) * m.number(0, 1) for k in kernel] * 2
    extra = [m.number(0, s - 1) for s in strides]
    shape = [(n - 1) * s + k + e - 2 * p for n, s, k, e, p in zip(sizes, strides, kernel, extra, pads, strict=False)]
    if min(shape) < 1:
        return
    weight = m.constant(m.weights(channels, outputs, *kernel, size=0.4))
    m.emit("ConvTranspose", [m.current, weight], (1, outputs, *shape), strides=strides, pads=pads, output_padding=extra)


def pool(m: GraphMaker) -> None:
    """Add AveragePool or MaxPool."""
    sizes, rank = m.shape[2:], len(m.shape) - 2
    kernel = [m.number(1, min(3, n)) for n in sizes]
    strides = [m.number(1, 2) for _ in sizes]
    pads = [min(1, k - 1) * m.number(0, 1) for k in kernel] * 2
    name = str(m.rng.choice(["AveragePool", "MaxPool"]))
    attributes: dict[str, Any] = {"count_include_pad": m.number(0, 1)} if name == "AveragePool" else {}
    floor = [(sizes[i] + 2 * pads[i] - kernel[i]) // strides[i] + 1 for i in range(rank)]
    if m.opset >= 10 and name == "MaxPool" and m.rng.integers(2):
        ceil = [-(-(sizes[i] + 2 * pads[i] - kernel[i]) // strides[i]) + 1 for i in range(rank)]
        if all((c - 1) * strides[i] < sizes[i] + pads[i] for i, c in enumerate(ceil)):
            attributes["ceil_mode"], floor = 1, ceil
    m.emit(name, [m.current], (*m.shape[:2], *floor), kernel_shape=kernel, strides=strides, pads=pads, **attributes)


def global_pool(m: GraphMaker) -> None:
    """Add a pool over all of the image."""
    m.emit(
        str(m.rng.choice(["GlobalAveragePool", "GlobalMaxPool"])), [m.current], (*m.shape[:2], *(1,) * (len(m.shape) - 2))
    )


def normalization(m: GraphMaker) -> None:
    """Add BatchNormalization or InstanceNormalization."""
    channels = m.shape[1]
    parts = [m.constant(m.rng.uniform(0.5, 1.5, channels).astype(np.float32)), m.constant(m.weights(channels))]
    if m.rng.integers(2) and math.prod(m.shape[2:]) > 3:
        m.same("InstanceNormalization", *parts, epsilon=0.1)
    else:
        more = [m.constant(m.weights(channels)), m.constant(m.rng.uniform(0.5, 1.5, channels).astype(np.float32))]
        m.same("BatchNormalization", *parts, *more)


def channels_last(m: GraphMaker) -> None:
    """Add operators on channels last, between two transpositions, as TensorFlow's exports have them."""
    n, c, h, w = m.shape
    m.emit("Transpose", [m.current], (n, h, w, c), perm=[0, 2, 3, 1])
    m.same("Mul", m.constant(m.weights(c)))
    m.same("Relu")
    m.emit("Transpose", [m.current], (n, c, h, w), perm=[0, 3, 1, 2])


def prelu(m: GraphMaker) -> None:
    """Add PRelu with a slope for each channel."""
    m.same("PRelu", m.constant(m.rng.uniform(0, 0.5, (m.shape[1], *(1,) * (len(m.shape) - 2))).astype(np.float32)))


def depth(m: GraphMaker) -> None:
    """Add SpaceToDepth or DepthToSpace."""
    n, c, h, w = m.shape
    if h % 2 == 0 and w % 2 == 0:
        m.emit("SpaceToDepth", [m.current], (n, 4 * c, h // 2, w // 2), blocksize=2)
    elif c % 4 == 0 and m.opset >= 11:
        m.emit("DepthToSpace", [m.current], (n, c // 4, 2 * h, 2 * w), blocksize=2, mode=str(m.rng.choice(["DCR", "CRD"])))


def resize(m: GraphMaker) -> None:
    """Add Resize by a factor of 2 to the nearest element."""
    n, c, h, w = m.shape
    if m.opset >= 13 and max(h, w) < 8:
        scales = m.constant(np.array([1, 1, 2, 2], np.float32))
        modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        m.emit("Resize", [m.current, "", scales], (n, c, 2 * h, 2 * w), mode="nearest", **modes)


# ---- sequences and vectors ----


def matmul(m: GraphMaker) -> None:
    """Add MatMul by a constant on either side."""
    if m.rng.integers(3) == 0 and len(m.shape) > 2:
        rows = m.number(2, 5)
        weight = m.constant(m.weights(rows, m.shape[-2], size=0.4))
        m.emit("MatMul", [weight, m.current], (*m.shape[:-2], rows, m.shape[-1]))
    else:
        columns = 2 * m.number(1, 4)
        weight = m.constant(m.weights(m.shape[-1], columns, size=0.4))
        m.emit("MatMul", [m.current, weight], (*m.shape[:-1], columns))


def quantized_matmul(m: GraphMaker) -> None:
    """Add MatMul by a weight of 8-bit integers, which an operator turns into floats."""
    if m.opset < 13:
        return
    columns = 2 * m.number(1, 4)
    weight = m.constant(m.rng.integers(-127, 128, (m.shape[-1], columns)).astype(np.int8))
    scale = m.constant(m.rng.uniform(0.001, 0.01, columns).astype(np.float32))
    x, shape = m.current, m.shape
    floats = m.emit("DequantizeLinear", [weight, scale], (shape[-1], columns), axis=1)
    m.old.pop()
    m.emit("MatMul", [x, floats], (*shape[:-1], columns))


def layer_normalization(m: GraphMaker) -> None:
    """Add LayerNormalization, or its parts before opset 17."""
    size = m.shape[-1]
    if size < 3:
        return
    factor, offset = m.constant(m.weights(size)), m.constant(m.weights(size))
    if m.opset >= 17 and m.rng.integers(2):
        m.same("LayerNormalization", factor, offset, epsilon=0.01)
        return
    x, shape = m.current, m.shape
    small = (*shape[:-1], 1)
    m.axes("ReduceMean", (-1,), small, 18)
    centered = m.emit("Sub", [x, m.current], shape)
    m.same("Pow", m.constant(np.float32(2)))
    m.axes("ReduceMean", (-1,), small, 18)
    m.same("Add", m.constant(np.float32(0.01)))
    m.same("Sqrt")
    m.emit("Div", [centered, m.current], shape)
    m.same("Mul", factor)
    m.same("Add", offset)


def newer_normalization(m: GraphMaker) -> None:
    """Add RMSNormalization or GroupNormalization, in opsets that have them."""
    if m.opset >= 23 and m.rng.integers(2):
        m.same("RMSNormalization", m.constant(m.weights(m.shape[-1])), epsilon=0.01)
    elif m.opset >= 21 and m.shape[1] % 2 == 0:
        channels = m.shape[1]
        parts = [m.constant(m.weights(channels)), m.constant(m.weights(channels))]
        m.same("GroupNormalization", *parts, num_groups=2, epsilon=0.1)


def attention(m: GraphMaker) -> None:
    """Add self-attention with one or two heads."""
    n, tokens, size = m.shape
    heads = 2 if size % 2 == 0 and m.rng.integers(2) else 1
    x, parts = m.current, []
    for i in range(3):
        m.emit("MatMul", [x, m.constant(m.weights(size, size, size=0.4))], (n, tokens, size))
        m.emit("Reshape", [m.current, m.integers(0, 0, heads, size // heads)], (n, tokens, heads, size // heads))
        order = [0, 2, 3, 1] if i == 1 else [0, 2, 1, 3]
        shape = (n, tokens, heads, size // heads)
        parts.append(m.emit("Transpose", [m.current], tuple(shape[k] for k in order), perm=order))
    m.emit("MatMul", parts[:2], (n, heads, tokens, tokens))
    m.same("Mul", m.constant(np.float32(0.5)))
    m.same("Softmax", axis=-1 if m.opset >= 11 else 3)
    m.emit("MatMul", [m.current, parts[2]], (n, heads, tokens, size // heads))
    m.emit("Transpose", [m.current], (n, tokens, heads, size // heads), perm=[0, 2, 1, 3])
    m.emit("Reshape", [m.current, m.integers(0, 0, size)], (n, tokens, size))


def einsum(m: GraphMaker) -> None:
    """Add Einsum of a sequence with itself, or with a constant."""
    n, a, b = m.shape
    if m.opset < 12 or max(a, b) > 12:
        return
    m.same("Tanh")
    if m.rng.integers(2):
        m.emit("Einsum", [m.current, m.current], (n, a, a), equation="bik,bjk->bij")
    else:
        m.emit("Einsum", [m.current, m.constant(m.weights(b, 3))], (n, 3, a), equation="bik,kj->bji")


def triangle(m: GraphMaker) -> None:
    """Add Trilu or CumSum."""
    if m.opset >= 14 and m.rng.integers(2):
        m.same("Trilu", upper=m.number(0, 1))
    elif m.opset >= 11:
        m.same("CumSum", m.constant(np.array(1, np.int64)), exclusive=m.number(0, 1), reverse=m.number(0, 1))


def gemm(m: GraphMaker) -> None:
    """Add Gemm."""
    outputs, right = 2 * m.number(1, 4), m.number(0, 1)
    size = m.shape[1]
    weight = m.weights(*((outputs, size) if right else (size, outputs)), size=0.4)
    inputs = [m.current, m.constant(weight), m.constant(m.weights(outputs))]
    m.emit("Gemm", inputs, (m.shape[0], outputs), alpha=0.75, beta=1.25, transB=right)


ANY: list[Callable[[GraphMaker], None]] = [
    clip,
    concatenate,
    constant_operand,
    exponential,
    flatten,
    gather,
    known_pattern,
    nothing,
    pad,
    parameterized,
    positive,
    power,
    reduction,
    reshape,
    residual,
    several,
    slices,
    softmax,
    split,
    tile,
    transpose,
    unary,
    unsqueeze,
    where,
]
IMAGE = [channels_last, convolution, convolution, convolution, depth, global_pool, normalization, pool, pool, prelu, resize]
BY_RANK: dict[int, list[Callable[[GraphMaker], None]]] = {
    4: [*IMAGE, *IMAGE, transposed_convolution],
    3: [
        attention,
        attention,
        convolution,
        einsum,
        layer_normalization,
        newer_normalization,
        matmul,
        matmul,
        normalization,
        pool,
        quantized_matmul,
        triangle,
    ],
    2: [gemm, gemm, gemm, matmul, quantized_matmul, layer_normalization],
}


def random_model(seed: int, steps: int | None = None) -> Any:
    """Return a random model with one input ``x`` and one output."""
    maker = GraphMaker(seed)
    model = maker.model(steps or maker.number(4, 14))
    onnx.checker.check_model(model)
    return model
