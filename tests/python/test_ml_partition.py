"""The division of models of tokens: the client looks up embeddings and prepares masks; layers stay encrypted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heliograph.ml import ModelError
from heliograph.ml.interpreter import run
from heliograph.ml.partition import CLIENT, partition
from heliograph.ml.read.onnx import read_onnx
from test_ml_read_onnx import model, node, reference, small_network


def transformer() -> Any:
    """Return attention with a mask on embeddings, and the mean of the tokens that the mask keeps."""
    rng = np.random.default_rng(5)
    constants = {
        "table": rng.normal(size=(50, 8)).astype(np.float32),
        "places": rng.normal(size=(6, 8)).astype(np.float32),
        **{name: (0.4 * rng.normal(size=(8, 8))).astype(np.float32) for name in "qkv"},
        "one": np.float32(1),
        "low": np.float32(-1e4),
        "zero": np.float32(0),
        "factor": rng.normal(size=8).astype(np.float32),
        "offset": rng.normal(size=8).astype(np.float32),
        "column": np.array([2]),
        "row": np.array([1]),
        "middle": np.array([1]),
    }
    nodes = [
        node("Gather", "table x", "words"),
        node("Add", "words places", "sum"),
        node("LayerNormalization", "sum factor offset", "h"),
        *(node("MatMul", f"h {name}", f"h{name}") for name in "qkv"),
        node("Transpose", "hk", "kt", perm=[0, 2, 1]),
        node("MatMul", "hq kt", "scores"),
        node("Unsqueeze", "mask row", "wide"),
        node("Cast", "wide", "floats", to=1),
        node("Sub", "one floats", "rest"),
        node("Mul", "rest low", "bias"),
        node("Add", "scores bias", "masked"),
        node("Softmax", "masked", "soft"),
        node("IsNaN", "soft", "nan"),
        node("Where", "nan zero soft", "safe"),
        node("MatMul", "safe hv", "mixed"),
        node("Cast", "mask", "weights", to=1),
        node("Unsqueeze", "weights column", "weight"),
        node("Mul", "mixed weight", "kept"),
        node("ReduceSum", "kept middle", "total", keepdims=0),
        node("ReduceSum", "weight middle", "count", keepdims=0),
        node("Div", "total count", "y"),
    ]
    return model(nodes, {"x": [1, 6], "mask": [1, 6]}, ["y"], constants, kind=7)


def feeds(count: int) -> dict[str, np.ndarray]:
    """Return tokens and masks."""
    rng = np.random.default_rng(6)
    mask = (np.arange(6) < rng.integers(2, 7, (count, 1))).astype(np.int64)
    return {"x": rng.integers(0, 50, (count, 6)), "mask": mask}


def test_a_transformer() -> None:
    """The client computes look-ups, masks and the inverse count; the result equals onnxruntime's."""
    proto = transformer()
    parts = partition(read_onnx(proto))
    assert parts.client is not None
    assert {n.operation for n in parts.client.nodes} <= CLIENT
    assert not {n.operation for n in parts.encrypted.nodes} & {"Gather", "Cast", "IsNaN", "Where", "Div"}
    assert set(parts.encrypted.inputs) == set(parts.client.outputs)
    assert not parts.encrypted.dtypes
    values = feeds(4)
    wanted = np.concatenate([reference(proto, {k: v[i : i + 1] for k, v in values.items()})[0] for i in range(4)])
    for graph in (parts.encrypted, parts.canonical()):
        assert np.abs(run(graph, parts.prepare(values))["y"] - wanted).max() < 1e-5
    assert {n.operation for n in parts.canonical().nodes} >= {"softmax", "normalize", "matmul", "dense"}


def test_a_mask_by_selection() -> None:
    """A selection by the client's condition becomes a product with a mask."""
    constants = {"w": np.eye(4, dtype=np.float32), "low": np.float32(-50), "three": np.array(3)}
    nodes = [
        node("Cast", "x", "f", to=1),
        node("MatMul", "f w", "m"),
        node("Less", "x three", "small"),
        node("Where", "small m low", "y"),
    ]
    proto = model(nodes, {"x": [1, 4]}, ["y"], constants, kind=7)
    parts = partition(read_onnx(proto))
    x = np.array([[1, 2, 3, 4]])
    assert run(parts.canonical(), parts.prepare(x))["y"].tolist() == [[1, 2, -50, -50]]
    assert run(parts.canonical(), parts.prepare({"x": x}))["y"].tolist() == reference(proto, {"x": x})[0].tolist()


def test_models_of_floats() -> None:
    """The client of a model of floats only encrypts."""
    raw = read_onnx(small_network())
    parts = partition(raw)
    assert parts.client is None
    assert parts.encrypted is raw or parts.encrypted.nodes == raw.nodes
    x = np.ones((1, 3, 8, 8))
    assert parts.prepare(x)["x"] is parts.prepare({"x": x})["x"]


LAYERS = {
    "layers": (
        [node("MatMul", "f w", "m"), node("Cast", "m", "i", to=7), node("Gather", "table i", "y")],
        r"node i \(Cast\): Cast needs clear.*m \(MatMul\)",
    ),
    "no layer": ([node("Gather", "table x", "y")], "depends on no layer"),
    "other operators": ([node("Sigmoid", "f", "s"), node("Round", "s", "y")], "Round needs clear values.*Sigmoid"),
}


@pytest.mark.parametrize("case", LAYERS)
def test_refusals(case: str) -> None:
    """Clear values that depend on a layer are refused by the names of both nodes."""
    nodes, words = LAYERS[case]
    constants = {"w": np.eye(4, dtype=np.float32), "table": np.ones((5, 2), np.float32)}
    with pytest.raises(ModelError, match=words):
        partition(read_onnx(model([node("Cast", "x", "f", to=1), *nodes], {"x": [1, 4]}, ["y"], constants, kind=7)))
