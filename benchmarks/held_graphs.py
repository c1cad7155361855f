"""Random small networks as ONNX models, over the operators that the reader and compiled networks support.

A network has an input of one to three axes, blocks of layers, and a head of scores or numbers. Weights are scaled so that values
stay near 1, as after training. The seed determines the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSETS = (11, 13, 15, 17, 18, 20, 21, 22)
_MOST_VALUES = 1536  # of a tensor
Shape = tuple[int, ...]


class Maker:
    """Grows a network from one input. `current` is the newest value, with a batch axis of 1."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng((20261128, seed))
        self.opset = int(self.rng.choice(OPSETS))
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.activations = 0
        kind = self.number(0, 9)
        if kind < 4:
            self.shape: Shape = (1, self.number(3, 48))
        elif kind < 6:
            self.shape = (1, self.number(1, 6), self.number(6, 32))
        else:
            self.shape = (1, self.number(1, 3), self.number(6, 14), self.number(6, 14))
        self.input_shape = self.shape
        self.current = "x"

    # ---- parts ----

    def number(self, low: int, high: int) -> int:
        """Draws an integer of [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, *choices: Any) -> Any:
        """Draws one of some values."""
        return choices[self.number(0, len(choices) - 1)]

    def constant(self, value: Any) -> str:
        """Adds an initializer; floats become float32."""
        name, array = f"c{len(self.constants)}", np.asarray(value)
        self.constants[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return name

    def weights(self, *shape: int, inputs: int = 1) -> Any:
        """Draws weights, whose sums of `inputs` products are near 1."""
        return self.rng.normal(size=shape) * 1.2 / math.sqrt(inputs)

    def emit(self, operator: str, inputs: list[str], shape: Shape, outputs: int = 1, **attributes: Any) -> str:
        """Adds a node, whose first result becomes the current value."""
        number = len(self.nodes)
        names = [f"v{number}", *(f"v{number}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, inputs, names, name=f"{operator.lower()}{number}", **attributes))
        self.current, self.shape = names[0], tuple(shape)
        return names[0]

    def same(self, operator: str, *others: str, **attributes: Any) -> str:
        """Adds a node whose result has the current shape."""
        return self.emit(operator, [self.current, *others], self.shape, **attributes)

    def at(self, value: str, shape: Shape) -> None:
        """Makes an older value the current one."""
        self.current, self.shape = value, shape

    @property
    def values(self) -> int:
        """Number of values of the current tensor."""
        return math.prod(self.shape)

    def model(self) -> Any:
        """Returns the network as an ONNX model with the input ``x``."""
        wanted = self.number(1, 4)
        for _ in range(12):
            if self.activations >= wanted:
                break
            blocks = [*EVERY, *BY_RANK[len(self.shape)]]
            self.one_of(*blocks)(self)
        head(self)
        ends = [
            helper.make_tensor_value_info("x", 1, ["n", *self.input_shape[1:]]),
            helper.make_tensor_value_info(
                self.current, 7 if self.nodes[-1].op_type == "ArgMax" else 1, [None] * len(self.shape)
            ),
        ]
        arrays = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "held-out", ends[:1], ends[1:], arrays)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(made)
        return made


# ---- layers of any rank ----


def activation(m: Maker) -> None:
    """Adds one of the elementwise functions, or SiLU and GELU written with others."""
    m.activations += 1
    since = {"HardSwish": 14, "Gelu": 20, "Mish": 18, "Celu": 12}
    names = ["Relu"] * 6 + [
        "LeakyRelu",
        "Elu",
        "Selu",
        "HardSigmoid",
        "Sigmoid",
        "Tanh",
        "Softplus",
        "Softsign",
        "Erf",
        "Abs",
    ]
    names += ["Clip", "PRelu", "Pow", "SiLU", "GeluErf", "HardSwish", "Gelu", "Mish", "Celu", "ThresholdedExp"]
    name = m.one_of(*names)
    name = "Relu" if m.opset < since.get(name, 0) else name
    x, shape = m.current, m.shape
    if name == "Clip":
        m.same("Clip", m.constant(np.float32(0)), m.constant(np.float32(m.one_of(1, 2, 6))))
    elif name == "PRelu":
        slopes = m.rng.uniform(0.05, 0.4, (shape[1], *(1,) * (len(shape) - 2)))
        m.same("PRelu", m.constant(slopes if m.number(0, 1) else m.rng.uniform(0.05, 0.4, (1,))))
    elif name == "Pow":
        m.same("Pow", m.constant(np.float32(m.one_of(2, 3))))
        m.same("Mul", m.constant(np.float32(0.3)))
    elif name == "SiLU":
        m.same("Sigmoid")
        m.emit("Mul", [x, m.current], shape)
    elif name == "GeluErf":
        m.same("Div", m.constant(np.float32(math.sqrt(2))))
        m.same("Erf")
        m.same("Add", m.constant(np.float32(1)))
        m.emit("Mul", [x, m.current], shape)
        m.same("Mul", m.constant(np.float32(0.5)))
    elif name == "ThresholdedExp":
        m.same("Mul", m.constant(np.float32(-0.5)))
        m.same("Exp")
    elif name in ("LeakyRelu", "Elu", "Celu"):
        m.same(name, alpha=float(m.rng.uniform(0.05, 0.9)))
    else:
        m.same(name, **({"approximate": m.one_of("none", "tanh")} if name == "Gelu" else {}))


def affine(m: Maker) -> None:
    """Adds a factor and a summand, of numbers or arrays that broadcast."""
    shape = tuple(n if m.number(0, 1) else 1 for n in m.shape[1:])
    m.same(m.one_of("Mul", "Div"), m.constant(m.rng.uniform(0.6, 1.6, shape)))
    if m.number(0, 1):
        m.emit("Sub", [m.constant(m.weights(*shape) * 0.3), m.current], m.shape)
    else:
        m.same("Add", m.constant(m.weights(*shape) * 0.3))


def slices(m: Maker) -> None:
    """Adds a slice of the last axis, with a step."""
    size, axis = m.shape[-1], len(m.shape) - 1
    if size < 4:
        return
    step, start = m.one_of(1, 1, 2, -1), m.number(0, 1)
    first, last = (start, size) if step > 0 else (size - 1 - start, -size - 1)
    count = len(range(start, size, step)) if step > 0 else size - start
    m.emit("Slice", [m.current, *(m.constant(np.array([v])) for v in (first, last, axis, step))], (*m.shape[:-1], count))


def pad(m: Maker) -> None:
    """Adds padding of the last axis: zeros, a number, edges or reflections."""
    if m.shape[-1] < 3 or m.values > _MOST_VALUES // 2:
        return
    before, after, mode = m.number(0, 2), m.number(0, 2), m.one_of("constant", "constant", "edge", "reflect")
    flat = [*(0,) * (len(m.shape) - 1), before, *(0,) * (len(m.shape) - 1), after]
    inputs = [m.current, m.constant(np.array(flat))]
    if mode == "constant" and m.number(0, 1):
        inputs.append(m.constant(np.float32(0.25)))
    m.emit("Pad", inputs, (*m.shape[:-1], m.shape[-1] + before + after), mode=mode)


def concatenation(m: Maker) -> None:
    """Adds two branches, joined along the axis of channels or features."""
    x, shape = m.current, m.shape
    if m.values > _MOST_VALUES // 4:
        return
    m.one_of(affine, activation)(m)
    other, other_shape = m.current, m.shape
    m.at(x, shape)
    if m.number(0, 1):
        affine(m)
    m.emit("Concat", [m.current, other], (1, shape[1] + other_shape[1], *shape[2:]), axis=m.one_of(1, 1 - len(shape)))


def sum_of_branches(m: Maker) -> None:
    """Adds a sum, a mean or a difference of a value and an activation of it."""
    x, shape = m.current, m.shape
    activation(m)
    operator = m.one_of("Add", "Sub", "Sum", "Mean")
    m.emit(operator, [m.current, x], shape)


def product(m: Maker) -> None:
    """Adds a gate: the product of a value and a bounded function of it."""
    x, shape = m.current, m.shape
    affine(m)
    m.same(m.one_of("Tanh", "Sigmoid"))
    m.activations += 2
    m.emit("Mul", [x, m.current], shape)


def moved(m: Maker) -> None:
    """Adds a transposition or a reshape, and one back or none."""
    shape = m.shape
    order = [0, *(int(i) for i in 1 + m.rng.permutation(len(shape) - 1))]
    m.emit("Transpose", [m.current], tuple(shape[i] for i in order), perm=order)
    if m.number(0, 1):
        affine(m)
        back = [int(i) for i in np.argsort(order)]
        m.emit("Transpose", [m.current], shape, perm=back)


def gather(m: Maker) -> None:
    """Adds elements of the last axis by constant indices."""
    count = m.number(2, m.shape[-1]) if m.shape[-1] > 2 else 2
    indices = m.rng.integers(0, m.shape[-1], count)
    m.emit("Gather", [m.current, m.constant(indices)], (*m.shape[:-1], count), axis=m.one_of(-1, len(m.shape) - 1))


def halves(m: Maker) -> None:
    """Adds a split into two parts along axis 1, and their sum, or the parts in the other order."""
    if m.shape[1] % 2:
        return
    half = (1, m.shape[1] // 2, *m.shape[2:])
    if m.opset >= 18:
        first = m.emit("Split", [m.current], half, 2, axis=1, num_outputs=2)
    else:
        first = m.emit("Split", [m.current], half, 2, axis=1)
    if m.number(0, 1):
        m.emit("Add", [first, f"{first}_1"], half)
    else:
        m.emit("Concat", [f"{first}_1", first], (1, 2 * half[1], *half[2:]), axis=1)


def idle(m: Maker) -> None:
    """Adds operators that do nothing in inference."""
    m.same("Dropout") if m.number(0, 1) else m.same("Identity")


# ---- vectors ----


def dense(m: Maker) -> None:
    """Adds Gemm or MatMul, and often an activation."""
    size, outputs = m.shape[-1], m.number(4, 48)
    if m.number(0, 1):
        right = m.number(0, 1)
        weight = m.weights(*((outputs, size) if right else (size, outputs)), inputs=size)
        m.emit("Gemm", [m.current, m.constant(weight), m.constant(m.weights(outputs) * 0.2)], (1, outputs), transB=right)
    else:
        m.emit("MatMul", [m.current, m.constant(m.weights(size, outputs, inputs=size))], (1, outputs))
        m.same("Add", m.constant(m.weights(outputs) * 0.2))
    if m.number(0, 3):
        activation(m)


def residual_dense(m: Maker) -> None:
    """Adds x + W2 f(W1 x)."""
    x, size = m.current, m.shape[1]
    inner = m.number(4, 32)
    m.emit("MatMul", [x, m.constant(m.weights(size, inner, inputs=size))], (1, inner))
    activation(m)
    m.emit("MatMul", [m.current, m.constant(m.weights(inner, size, inputs=inner))], (1, size))
    m.emit("Add", [m.current, x], (1, size))
    if m.number(0, 1):
        activation(m)


def folded(m: Maker) -> None:
    """Adds a reshape of a vector to a sequence or an image."""
    sizes = [k for k in range(2, 9) if m.shape[1] % k == 0 and m.shape[1] // k > 1]
    if not sizes:
        return
    channels = m.one_of(*sizes)
    shape = (1, channels, m.shape[1] // channels)
    shape = (*shape[:2], shape[2], 1) if m.number(0, 1) else shape
    m.emit("Reshape", [m.current, m.constant(np.array([-1 if m.number(0, 1) else 1, *shape[1:]]))], shape)


# ---- sequences and images ----


def convolution(m: Maker) -> None:
    """Adds Conv with strides, pads, dilations and groups, often a normalization, and often an activation."""
    channels, sizes = m.shape[1], m.shape[2:]
    groups = m.one_of(*(g for g in (1, 1, 2, channels) if channels % g == 0))
    outputs = groups * max(1, m.number(2, 8) // groups)
    kernel = [m.number(1, min(5 if i else 3, n)) for i, n in enumerate(sizes)]
    strides = [m.one_of(1, 1, 2) if n > 3 else 1 for n in sizes]
    weight = m.weights(outputs, channels // groups, *kernel, inputs=channels // groups * math.prod(kernel))
    inputs = [m.current, m.constant(weight), *([m.constant(m.weights(outputs) * 0.2)] if m.number(0, 1) else [])]
    attributes: dict[str, Any] = {"strides": strides, "group": groups}
    rank = len(sizes)
    if m.number(0, 3) == 0:
        attributes["auto_pad"] = m.one_of("SAME_UPPER", "SAME_LOWER")
        shape = [-(-n // s) for n, s in zip(sizes, strides, strict=True)]
    else:
        dilations = [2 if 2 * (k - 1) + 1 <= n and m.number(0, 3) == 0 else 1 for k, n in zip(kernel, sizes, strict=True)]
        pads = [min(m.number(0, 2), k - 1) for k in (*kernel, *kernel)]
        attributes |= {"dilations": dilations, "pads": pads}
        spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
        shape = [(n + pads[i] + pads[i + rank] - spans[i]) // strides[i] + 1 for i, n in enumerate(sizes)]
    if outputs * math.prod(shape) > _MOST_VALUES:
        return
    m.emit("Conv", inputs, (1, outputs, *shape), **attributes)
    _after_layer(m)


def transposed_convolution(m: Maker) -> None:
    """Adds ConvTranspose with a stride of 1 or 2."""
    channels, sizes = m.shape[1], m.shape[2:]
    outputs, kernel = m.number(1, 3), [m.number(2, 3) for _ in sizes]
    strides = [m.number(1, 2) for _ in sizes]
    shape = [(n - 1) * s + k - 2 for n, s, k in zip(sizes, strides, kernel, strict=True)]
    if min(shape) < 1 or outputs * math.prod(shape) > _MOST_VALUES:
        return
    weight = m.constant(m.weights(channels, outputs, *kernel, inputs=channels * math.prod(kernel)))
    pads = [1] * 2 * len(sizes)
    m.emit("ConvTranspose", [m.current, weight], (1, outputs, *shape), strides=strides, pads=pads)
    _after_layer(m)


def _after_layer(m: Maker) -> None:
    if m.number(0, 1):
        normalization(m)
    if m.number(0, 3):
        activation(m)


def normalization(m: Maker) -> None:
    """Adds BatchNormalization."""
    channels = m.shape[1]
    parts = [m.rng.uniform(0.6, 1.4, channels), m.weights(channels) * 0.3, m.weights(channels) * 0.3]
    m.same("BatchNormalization", *(m.constant(part) for part in (*parts, m.rng.uniform(0.6, 1.4, channels))))


def residual_convolution(m: Maker) -> None:
    """Adds a residual block: convolution, activation, convolution, sum, activation."""
    x, shape, rank = m.current, m.shape, len(m.shape) - 2
    channels, inner = shape[1], m.number(2, 6)
    for last, (a, b) in enumerate(((channels, inner), (inner, channels))):
        weight = m.constant(m.weights(b, a, *(3,) * rank, inputs=a * 3**rank))
        m.emit("Conv", [m.current, weight], (1, b, *shape[2:]), pads=[1] * 2 * rank)
        normalization(m)
        if not last:
            activation(m)
    m.emit("Add", [x, m.current], shape)
    activation(m)


def pool(m: Maker) -> None:
    """Adds AveragePool, with padding and a partial last window at times."""
    sizes = m.shape[2:]
    kernel = [min(m.number(2, 3), n) for n in sizes]
    strides = [m.number(1, 2) for _ in sizes]
    pads = [min(1, k - 1) * m.number(0, 1) for k in kernel] * 2
    rank = len(sizes)
    shape = [(n + 2 * pads[i] - kernel[i]) // strides[i] + 1 for i, n in enumerate(sizes)]
    include = m.number(0, 1)
    up = [-(-(n + 2 * pads[i] - kernel[i]) // strides[i]) + 1 for i, n in enumerate(sizes)]
    ceil = not include and m.number(0, 2) == 0 and all((up[i] - 1) * strides[i] < sizes[i] + pads[i] for i in range(rank))
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads, "count_include_pad": include}
    m.emit("AveragePool", [m.current], (*m.shape[:2], *(up if ceil else shape)), ceil_mode=int(ceil), **attributes)


def squeeze_and_excite(m: Maker) -> None:
    """Adds a factor for each channel: a sigmoid of a dense layer of the channels' means."""
    x, shape = m.current, m.shape
    channels, rank = shape[1], len(shape) - 2
    m.emit("GlobalAveragePool", [x], (1, channels, *(1,) * rank))
    weight = m.constant(m.weights(channels, channels, *(1,) * rank, inputs=channels))
    m.emit("Conv", [m.current, weight], (1, channels, *(1,) * rank))
    m.same(m.one_of("Sigmoid", "HardSigmoid"))
    m.activations += 2
    m.emit("Mul", [x, m.current], shape)


def mean(m: Maker) -> None:
    """Adds a mean or a sum over the last axis."""
    name, keep = m.one_of("ReduceMean", "ReduceSum"), m.number(0, 1) if len(m.shape) > 3 else 1
    size, shape = m.shape[-1], (*m.shape[:-1], 1) if keep else m.shape[:-1]
    if m.opset >= (13 if name == "ReduceSum" else 18):
        m.emit(name, [m.current, m.constant(np.array([-1]))], shape, keepdims=keep)
    else:
        m.emit(name, [m.current], shape, axes=[-1], keepdims=keep)
    if name == "ReduceSum":
        m.same("Div", m.constant(np.float32(math.sqrt(size))))


def space_to_depth(m: Maker) -> None:
    """Adds SpaceToDepth or DepthToSpace."""
    _, channels, high, wide = m.shape
    if high % 2 == 0 and wide % 2 == 0:
        m.emit("SpaceToDepth", [m.current], (1, 4 * channels, high // 2, wide // 2), blocksize=2)
    elif channels % 4 == 0:
        m.emit("DepthToSpace", [m.current], (1, channels // 4, 2 * high, 2 * wide), blocksize=2, mode=m.one_of("DCR", "CRD"))


def resize(m: Maker) -> None:
    """Adds Resize by a factor of 2 to the nearest element."""
    _, channels, high, wide = m.shape
    if m.opset >= 13 and 4 * m.values <= _MOST_VALUES:
        scales = m.constant(np.array([1, 1, 2, 2], np.float32))
        modes: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        m.emit("Resize", [m.current, "", scales], (1, channels, 2 * high, 2 * wide), mode="nearest", **modes)


def layer_normalization(m: Maker) -> None:
    """Adds LayerNormalization of the last axis, or its parts before opset 17."""
    x, shape, size = m.current, m.shape, m.shape[-1]
    if not 4 <= size <= 64:
        return
    factor, offset = m.constant(m.rng.uniform(0.6, 1.4, size)), m.constant(m.weights(size) * 0.3)
    m.activations += 2
    if m.opset >= 17 and m.number(0, 1):
        m.same("LayerNormalization", factor, offset, epsilon=0.01)
        return
    small = (*shape[:-1], 1)

    def mean_of_last() -> None:
        if m.opset >= 18:
            m.emit("ReduceMean", [m.current, m.constant(np.array([-1]))], small)
        else:
            m.emit("ReduceMean", [m.current], small, axes=[-1])

    mean_of_last()
    centered = m.emit("Sub", [x, m.current], shape)
    m.same("Pow", m.constant(np.float32(2)))
    mean_of_last()
    m.same("Add", m.constant(np.float32(0.01)))
    m.same("Sqrt")
    m.emit("Div", [centered, m.current], shape)
    m.same("Mul", factor)
    m.same("Add", offset)


def attention(m: Maker) -> None:
    """Adds self-attention with one head, of a short sequence."""
    _, tokens, size = m.shape
    if tokens > 6 or not 2 <= size <= 12:
        return
    x, parts = m.current, []
    m.activations += 2
    for i in range(3):
        m.emit("MatMul", [x, m.constant(m.weights(size, size, inputs=size))], (1, tokens, size))
        if i == 1:
            m.emit("Transpose", [m.current], (1, size, tokens), perm=[0, 2, 1])
        parts.append(m.current)
    m.emit("MatMul", parts[:2], (1, tokens, tokens))
    m.same("Div", m.constant(np.float32(math.sqrt(size))))
    m.same("Softmax", axis=2)
    m.emit("MatMul", [m.current, parts[2]], (1, tokens, size))


def channels_last(m: Maker) -> None:
    """Adds a factor for each channel between two transpositions, as TensorFlow's exports have them."""
    n, c, h, w = m.shape
    m.emit("Transpose", [m.current], (n, h, w, c), perm=[0, 2, 3, 1])
    m.same("Mul", m.constant(m.rng.uniform(0.6, 1.4, c)))
    activation(m)
    m.emit("Transpose", [m.current], (n, c, h, w), perm=[0, 3, 1, 2])


def head(m: Maker) -> None:
    """Adds a pool or a reshape, one or two dense layers, and at times a softmax, an argmax or sigmoids."""
    if len(m.shape) > 2:
        if m.number(0, 2) == 0:
            m.emit("GlobalAveragePool", [m.current], (*m.shape[:2], *(1,) * (len(m.shape) - 2)))
            m.same("Mul", m.constant(np.float32(2)))
        if m.number(0, 1):
            m.emit("Flatten", [m.current], (1, m.values))
        else:
            m.emit("Reshape", [m.current, m.constant(np.array([0, -1]))], (1, m.values))
    if not m.activations:
        dense(m)
        activation(m)
    outputs = m.one_of(1, 2, 3, 5, 10, 10)
    size = m.shape[1]
    weight = m.constant(2 * m.weights(size, outputs, inputs=size))
    m.emit("Gemm", [m.current, weight, m.constant(m.weights(outputs) * 0.1)], (1, outputs))
    end = m.one_of("", "", "Softmax", "Softmax", "LogSoftmax", "ArgMax", "Sigmoid")
    if outputs > 1 and end == "ArgMax":
        m.emit("ArgMax", [m.current], (1,), axis=1, keepdims=0)
    elif outputs > 1 and end.endswith("Softmax"):
        m.same(end, axis=m.one_of(1, -1))
    elif end == "Sigmoid":
        m.same("Sigmoid")


Block = Callable[[Maker], None]
EVERY: list[Block] = [affine, slices, pad, concatenation, sum_of_branches, product, moved, gather, halves, idle]
_SPATIAL: list[Block] = [
    *(convolution,) * 6,
    *(residual_convolution,) * 2,
    transposed_convolution,
    pool,
    pool,
    squeeze_and_excite,
    mean,
]
BY_RANK: dict[int, list[Block]] = {
    2: [*(dense,) * 6, *(residual_dense,) * 3, folded, layer_normalization],
    3: [*_SPATIAL, layer_normalization, attention, attention],
    4: [*_SPATIAL, space_to_depth, resize, channels_last],
}


def random_network(seed: int) -> Any:
    """Returns the ONNX model of a seed."""
    return Maker(seed).model()
