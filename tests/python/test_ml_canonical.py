"""The canonical form of models: same values as onnxruntime, with fewer operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.ml import ModelError, patterns, rules
from heliograph.ml.canonical import canonical, simplify
from heliograph.ml.interpreter import run
from heliograph.ml.lower_layers import lower
from heliograph.ml.read.onnx import read_onnx
from onnx_graphs import GraphMaker, known_pattern, layer_normalization, random_model
from test_ml_read_onnx import model, node, reference, small_network

KINDS = 50  # random graphs


def compared(proto: Any, graph: Any, seed: int = 1) -> float:
    """Return the largest difference from onnxruntime, relative to the largest value if that exceeds 1."""
    raw = read_onnx(proto)
    x = np.random.default_rng(seed).normal(size=(3, *raw.shapes["x"][1:])).astype(np.float32)
    wanted = np.stack([reference(proto, {"x": x[i : i + 1]})[0] for i in range(3)])
    values = run(graph, x)[graph.outputs[0]].reshape(wanted.shape)
    return float(np.abs(values - wanted).max() / max(1.0, np.abs(wanted).max()))


def test_a_small_network() -> None:
    """The normalization goes into the convolution before it; the average becomes a convolution."""
    proto = small_network()
    graph = canonical(read_onnx(proto))
    assert [n.operation for n in graph.nodes] == ["convolution", "activation", "convolution", "reshape", "dense"]
    assert graph.shapes["x"] == (3, 8, 8)
    assert graph.shapes["y"] == (5,)
    assert compared(proto, graph) < 1e-5


@pytest.mark.parametrize("seed", range(KINDS))
def test_random_graphs(seed: int) -> None:
    """The graph of a random model, and its canonical form, equal onnxruntime."""
    proto = random_model(seed)
    raw = read_onnx(proto)
    assert compared(proto, raw, seed) < 1e-5
    assert compared(proto, canonical(raw), seed) < 1e-5


# ---- rules, one at a time ----


def image(rng: np.random.Generator) -> GraphMaker:
    """Return a maker with an image as its input."""
    maker = GraphMaker(int(rng.integers(1 << 30)))
    maker.opset, maker.rng = 17, rng
    shape = (1, int(rng.integers(2, 5)), *map(int, rng.integers(4, 8, 2)))
    maker.input_shape = maker.shape = shape
    maker.old = [("x", shape)]
    return maker


def tokens(rng: np.random.Generator) -> GraphMaker:
    """Return a maker with a sequence as its input."""
    maker = image(rng)
    maker.input_shape = maker.shape = (1, int(rng.integers(2, 5)), int(rng.integers(3, 7)))
    maker.old = [("x", maker.shape)]
    return maker


def convolved(m: GraphMaker, pads: int = 1, groups: int = 1) -> None:
    """Add a convolution of kernel 3."""
    n, channels, *sizes = m.shape
    outputs = 2 * groups
    inputs = [m.current, m.constant(m.weights(outputs, channels // groups, 3, 3)), m.constant(m.weights(outputs))]
    m.emit("Conv", inputs, (n, outputs, *(s + 2 * pads - 2 for s in sizes)), pads=[pads] * 4, group=groups)


def per_channel(m: GraphMaker) -> str:
    """Return a constant with a number for each channel."""
    return m.constant(m.weights(m.shape[1], *(1,) * (len(m.shape) - 2)))


def scaled(m: GraphMaker, constant: str) -> None:
    """Add a product and a sum with constants."""
    m.same("Mul", constant)
    m.same("Add", m.constant(m.weights(*m.constants[constant].shape)))


def turned(m: GraphMaker, *order: int) -> None:
    """Add a transposition."""
    m.emit("Transpose", [m.current], tuple(m.shape[i] for i in order), perm=list(order))


def matrix(m: GraphMaker, columns: int = 3) -> None:
    """Add a product with a constant matrix."""
    weight = m.constant(m.weights(m.shape[-1], columns))
    m.emit("MatMul", [m.current, weight], (*m.shape[:-1], columns))


def case_remove_identity(rng: np.random.Generator) -> GraphMaker:
    """Operators that do nothing."""
    m = image(rng)
    m.emit("Reshape", [m.current, m.integers(*m.shape)], m.shape)
    m.same("Div", m.constant(np.float32(1)))
    return m


def case_merge_equal(rng: np.random.Generator) -> GraphMaker:
    """One activation twice."""
    m = image(rng)
    first = m.same("Tanh")
    m.emit("Tanh", ["x"], m.shape)
    m.same("Mul", first)
    return m


def case_merge_shapes(rng: np.random.Generator) -> GraphMaker:
    """Two transpositions, or two reshapes."""
    m = image(rng)
    if rng.integers(2):
        turned(m, 0, 2, 3, 1)
        turned(m, 0, 1, 3, 2)
    else:
        m.emit("Reshape", [m.current, m.integers(1, -1)], (1, math.prod(m.shape)))
        m.emit("Reshape", [m.current, m.integers(1, m.input_shape[1], -1)], (1, m.input_shape[1], 0))
    return m


def case_transpose_of_ones(rng: np.random.Generator) -> GraphMaker:
    """A transposition that moves an axis of size 1."""
    m = tokens(rng)
    m.emit("Unsqueeze", [m.current, m.integers(1)], (1, 1, *m.shape[1:]))
    turned(m, 0, 2, 1, 3)
    return m


def case_merge_scales(rng: np.random.Generator) -> GraphMaker:
    """Arithmetic with several constants."""
    m = image(rng)
    scaled(m, per_channel(m))
    scaled(m, m.constant(m.weights(m.shape[-1])))
    return m


def case_merge_scales_in_a_row(rng: np.random.Generator) -> GraphMaker:
    """A product and a sum with constants."""
    m = image(rng)
    scaled(m, per_channel(m))
    return m


def case_scale_before_broadcast(rng: np.random.Generator) -> GraphMaker:
    """A scale after Expand."""
    m = tokens(rng)
    m.axes("ReduceMean", (2,), (*m.shape[:2], 1), 18)
    m.emit("Expand", [m.current, m.integers(1, m.shape[1], 4)], (1, m.shape[1], 4))
    scaled(m, m.constant(np.float32(rng.normal())))
    return m


def case_transpose_down(rng: np.random.Generator) -> GraphMaker:
    """Operators between transpositions."""
    m = image(rng)
    turned(m, 0, 2, 3, 1)
    kind = rng.integers(6)
    if kind == 0:
        m.same("Relu")
    elif kind == 1:
        scaled(m, m.constant(m.weights(m.shape[-1])))
    elif kind == 2:
        m.emit("ReduceSum", [m.current, m.integers(1, 3)], (1, m.shape[2]), keepdims=int(rng.integers(2)))
    elif kind == 3:
        m.same("Softmax", axis=int(rng.integers(1, 4)))
    elif kind == 4:
        m.emit("Pad", [m.current, m.integers(0, 1, 0, 2, 0, 0, 1, 0)], m.shape)
    else:
        first = m.current
        m.same("Tanh")
        m.emit("Concat", [m.current, first], m.shape, axis=int(rng.integers(1, 4)))
    return m


def case_reshape_down(rng: np.random.Generator) -> GraphMaker:
    """Elementwise operators after a new axis."""
    m = tokens(rng)
    m.emit("Unsqueeze", [m.current, m.integers(2)], (1, m.shape[1], 1, m.shape[2]))
    if rng.integers(2):
        m.same("Tanh")
    else:
        scaled(m, m.constant(m.weights(m.shape[1], 1, m.shape[3])))
    return m


def case_sum_to_convolution(rng: np.random.Generator) -> GraphMaker:
    """A mean over an image."""
    m = image(rng)
    m.axes("ReduceMean", (2, 3), m.shape[:2], 18, keepdims=int(rng.integers(2)))
    return m


def case_pad_into_window(rng: np.random.Generator) -> GraphMaker:
    """Zeros around a convolution's or a pool's image."""
    m = image(rng)
    kind = rng.integers(3)
    if kind == 2:
        m.same("Relu")
    last = m.shape[1:] if kind else None
    if kind == 0:  # channels last
        n, h, w, c = m.shape
        pads, shape = (0, 1, 2, 0, 0, 1, 0, 0), (n, h + 2, w + 2, c)
    else:
        pads, shape = (0, 0, 1, 2, 0, 0, 1, 0), (*m.shape[:2], m.shape[2] + 2, m.shape[3] + 2)
    m.emit("Pad", [m.current, m.integers(*pads)], shape)
    if last is None:
        turned(m, 0, 3, 1, 2)
    if kind == 2:
        m.emit("MaxPool", [m.current], (*m.shape[:2], m.shape[2] - 2, m.shape[3] - 2), kernel_shape=[3, 3])
    else:
        convolved(m, pads=int(rng.integers(2)))
    return m


def case_transpose_into_dense(rng: np.random.Generator) -> GraphMaker:
    """Flattening with channels last."""
    m = image(rng)
    turned(m, 0, 2, 3, 1)
    m.emit("Flatten", [m.current], (1, math.prod(m.shape)))
    matrix(m)
    return m


def case_scale_after_linear(rng: np.random.Generator) -> GraphMaker:
    """A scale, or an offset for each pixel, after a linear layer or a normalization."""
    m = image(rng)
    kind = rng.integers(4)
    if kind < 2:
        convolved(m)
        if kind:
            scaled(m, per_channel(m))
        else:
            m.same("Mul", per_channel(m))
            m.same("Add", m.constant(m.weights(*m.shape[2:])))
    elif kind == 2:
        matrix(m)
        scaled(m, m.constant(m.weights(m.shape[-1])))
    else:
        size = m.shape[-1]
        m.same("LayerNormalization", m.constant(m.weights(size)), m.constant(m.weights(size)), axis=-1)
        scaled(m, m.constant(m.weights(size)))
    return m


def case_scale_before_dense(rng: np.random.Generator) -> GraphMaker:
    """A scale before a dense layer; its offset may differ from token to token."""
    m = tokens(rng)
    m.same("Mul", m.constant(m.weights(m.shape[-1])))
    m.same("Add", m.constant(m.weights(*m.shape[1 + int(rng.integers(2)) :])))
    matrix(m)
    return m


def case_scale_before_convolution(rng: np.random.Generator) -> GraphMaker:
    """A scale before a convolution with or without pads and groups."""
    m = image(rng)
    channels = m.shape[1]
    scaled(m, per_channel(m))
    convolved(m, pads=int(rng.integers(2)), groups=channels if rng.integers(2) else 1)
    return m


def case_merge_dense(rng: np.random.Generator) -> GraphMaker:
    """Two dense layers."""
    m = tokens(rng)
    matrix(m, 8)
    matrix(m, 2)
    return m


def case_hard_sigmoid(rng: np.random.Generator) -> GraphMaker:
    """A clip between 0 and 6, divided by 6."""
    m = image(rng)
    m.same("Add", m.constant(np.float32(rng.normal())))
    m.same("Clip", m.constant(np.float32(0)), m.constant(np.float32(6)))
    m.same("Div", m.constant(np.float32(6)))
    return m


def case_silu(rng: np.random.Generator) -> GraphMaker:
    """A value times its sigmoid or its hard sigmoid."""
    m = image(rng)
    x = m.current
    if rng.integers(2):
        m.same("Mul", m.constant(np.float32(rng.uniform(0.5, 2))))
        m.same("Sigmoid")
    else:
        m.same("HardSigmoid", alpha=1 / 6, beta=0.5)
    m.emit("Mul", [m.current, x] if rng.integers(2) else [x, m.current], m.shape)
    return m


def case_known_function(rng: np.random.Generator) -> GraphMaker:
    """GELU and Mish, written with other operators."""
    m = image(rng)
    kinds = iter((int(rng.choice([0, 3, 5])), 0, 0, 0))
    m.number = lambda low, high: next(kinds)  # type: ignore[method-assign]
    known_pattern(m)
    return m


def case_layer_normalization(rng: np.random.Generator) -> GraphMaker:
    """A layer normalization, written with means."""
    m = tokens(rng)
    m.opset = 13
    layer_normalization(m)
    return m


CASES: dict[str, Callable[[np.random.Generator], GraphMaker]] = {
    name.removeprefix("case_"): value for name, value in globals().items() if name.startswith("case_")
}
EVERY = {rule.__name__: rule for rule in (*rules.RULES, *patterns.PATTERNS)}
#: Rules that bring other operations into the form that a rule reads.
BEFORE: dict[str, list[str]] = {
    "hard_sigmoid": ["merge_scales"],
    "known_function": ["merge_scales", "remove_identity"],
    "layer_normalization": [rule.__name__ for rule in rules.RULES],
    "pad_into_window": ["merge_shapes", "remove_identity"],
    "transpose_down": ["merge_shapes", "remove_identity"],
    "scale_before_dense": ["merge_scales"],
    "scale_before_convolution": ["merge_scales"],
    "scale_after_linear": ["merge_scales"],
}


def test_each_rule_has_a_case() -> None:
    """Each rule is tested alone."""
    assert CASES.keys() == EVERY.keys()


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=8, deadline=None, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_rule_keeps_the_values(name: str, seed: int) -> None:
    """A rule alone changes the graph, and not the values."""
    proto = CASES[name](np.random.default_rng(seed)).model(0)
    draft = lower(read_onnx(proto))
    simplify(draft, tuple(EVERY[rule] for rule in BEFORE.get(name, [])))
    assert simplify(draft, (EVERY[name],))
    assert compared(proto, draft.graph(), seed) < 1e-5


FORMS = {
    "remove_identity": ["scale"],
    "transpose_into_dense": ["reshape", "dense"],
    "sum_to_convolution": None,
    "known_function": ["activation"],
    "layer_normalization": ["normalize"],
    "merge_dense": ["dense"],
    "hard_sigmoid": ["activation"],
    "silu": ["activation"],
}


@pytest.mark.parametrize("name", FORMS)
def test_canonical_forms(name: str) -> None:
    """The whole set of rules leaves the expected operations."""
    for seed in range(6):
        operations = [n.operation for n in canonical(read_onnx(CASES[name](np.random.default_rng(seed)).model(0))).nodes]
        assert operations == FORMS[name] or (FORMS[name] is None and operations[0] == "convolution")


REFUSED = {
    "rounding": (node("Round", "x"), "operator Round is not supported on encrypted values"),
    "sign": (node("Sign", "x"), "node y .Sign.: operator Sign is not supported"),
    "division": (node("Div", "x zero"), "the divisor must not be 0"),
    "infinite": (node("Mul", "x inf"), "finite"),
    "weights": (node("MatMul", "x nan"), "finite"),
    "exponents": (node("Pow", "x powers"), "one number for all elements"),
    "base": (node("Pow", "negative x"), "must be positive"),
    "maximum": (node("ReduceMax", "x", axes=[1]), "spatial axes"),
    "condition": (node("IsNaN", "x"), "IsNaN is not supported on encrypted values"),
    "bounds": (node("Clip", "x one zero"), "the bounds must be numbers in order, got 1.0 and 0.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    """Operators without a canonical form, and constants that are not finite, are refused by the node's name."""
    operator, words = REFUSED[case]
    constants = {
        "zero": np.float32(0),
        "one": np.float32(1),
        "inf": np.float32(np.inf),
        "nan": np.full((4, 2), np.nan, np.float32),
        "powers": np.arange(4, dtype=np.float32),
        "negative": np.float32(-2),
    }
    with pytest.raises(ModelError, match=words):
        canonical(read_onnx(model([operator], {"x": [1, 4]}, ["y"], constants)))


BOMBS = {
    "cumulative sum": ([node("CumSum", "x one")], 1 << 20, "matrix of 1048576 x 1048576"),
    "selection": ([node("Gather", "x many", axis=1)], 1 << 20, "matrix of 100 x 1048576"),
    "repetition": ([node("Resize", "x factors", mode="nearest")], 1 << 20, "at most .* elements"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_large_matrices(case: str) -> None:
    """Small files whose canonical form would take much memory are refused before it is allocated."""
    nodes, size, words = BOMBS[case]
    constants = {
        "one": np.array(1),
        "many": np.arange(100)[::-1] * 7,
        "factors": np.array([1, 1 << 20], np.float32),
    }
    with pytest.raises(ModelError, match=words):
        canonical(read_onnx(model(nodes, {"x": [1, size]}, ["y"], constants, opset=10 if case == "repetition" else 17)))


def test_pools_of_large_images() -> None:
    """The counts of border windows take time for each window, not for each element of each window."""
    pool = node("AveragePool", "x", kernel_shape=[4001, 4001], pads=[2000] * 4, strides=[1000, 1000])
    graph = canonical(read_onnx(model([pool], {"x": [1, 1, 4000, 4000]}, ["y"])))
    assert graph.shapes["y"] == (1, 4, 4)


def test_outputs_keep_their_names() -> None:
    """Inputs and equal values can be outputs, each with its name."""
    nodes = [node("Identity", "x", "a"), node("Relu", "x", "b"), node("Identity", "b", "c"), node("Relu", "x", "d")]
    graph = canonical(read_onnx(model(nodes, {"x": [1, 3]}, ["a", "b", "c", "d"])))
    values = run(graph, [[1.0, -1.0, 2.0]])
    assert {name: value.tolist() for name, value in values.items()} == {
        "a": [[1, -1, 2]],
        **{name: [[1, 0, 2]] for name in "bcd"},
    }


def test_integer_inputs_are_refused() -> None:
    """A graph with integer inputs is not encrypted as it is."""
    nodes = [node("Cast", "x", "f", to=1), node("Relu", "f")]
    with pytest.raises(ModelError, match="input x: it must be of floats, got int64"):
        canonical(read_onnx(model(nodes, {"x": [1, 3]}, ["y"], kind=7)))


def test_edges_before_a_maximum() -> None:
    """Edges and minus infinity around the operand of a maximum become its padding."""
    for mode, value in (("edge", 0.0), ("constant", -np.inf)):
        pads = {"p": np.array([0, 0, 0, 1, 0, 0, 2, 1]), "v": np.float32(value)}
        nodes = [node("Pad", "x p v", "q", mode=mode), node("MaxPool", "q", kernel_shape=[3, 3], strides=[2, 2])]
        proto = model(nodes, {"x": [1, 2, 7, 8]}, ["y"], pads)
        graph = canonical(read_onnx(proto))
        assert [(n.operation, n.attributes["pads"]) for n in graph.nodes] == [("maximum_pool", (0, 1, 2, 1))]
        assert compared(proto, graph) < 1e-6


@pytest.mark.parametrize(("keep", "subtract"), [(1, True), (0, True), (1, False)])
def test_a_written_softmax(keep: int, subtract: bool) -> None:
    """Exponentials divided by their sum are one softmax, however the sums are spread again."""
    nodes = [node("ReduceMax", "x", "top", axes=[1], keepdims=keep), node("Max", "top low", "bound")]
    nodes += [] if keep else [node("Reshape", "bound column", "high")]
    nodes += [node("Sub", f"x {'bound' if keep else 'high'}", "d")] if subtract else []
    nodes += [node("Exp", "d" if subtract else "x", "e"), node("ReduceSum", "e one", "sum", keepdims=keep)]
    nodes += [] if keep else [node("Reshape", "sum column", "wide")]
    nodes += [node("Expand", "sum" if keep else "wide", "all"), node("Div", "e all")]
    nodes[-2].input.append("shape")
    constants = {
        "low": np.float32(-np.inf),
        "column": np.array([1, 1, 4]),
        "one": np.array([1]),
        "shape": np.array([1, 4, 4]),
    }
    proto = model(nodes, {"x": [1, 4, 4]}, ["y"], constants)
    graph = canonical(read_onnx(proto))
    assert [(n.operation, n.attributes["axis"]) for n in graph.nodes] == [("softmax", 0)]
    assert compared(proto, graph) < 1e-6


def test_other_divisions_are_no_softmax() -> None:
    """A sum that is spread along another axis stays a sum."""
    nodes = [
        node("Exp", "x", "e"),
        node("ReduceSum", "e one", "sum", keepdims=0),
        node("Reshape", "sum row", "wide"),
        node("Div", "e wide"),
    ]
    proto = model(nodes, {"x": [1, 4, 4]}, ["y"], {"one": np.array([1]), "row": np.array([1, 4, 1])})
    graph = canonical(read_onnx(proto))
    assert "softmax" not in {n.operation for n in graph.nodes}
    assert compared(proto, graph) < 1e-5
