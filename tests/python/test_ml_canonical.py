"""The canonical form of models: same values as onnxruntime, with fewer operations."""

from __future__ import annotations

import numpy as np

from heliograph.ml.canonical import canonical
from heliograph.ml.interpreter import run
from heliograph.ml.read.onnx import read_onnx
from test_ml_read_onnx import reference, small_network


def test_a_small_network() -> None:
    """The normalization goes into the convolution before it; the average becomes a convolution."""
    proto = small_network()
    graph = canonical(read_onnx(proto))
    assert [n.operation for n in graph.nodes] == ["convolution", "activation", "convolution", "reshape", "dense"]
    assert graph.shapes["x"] == (3, 8, 8)
    assert graph.shapes["y"] == (5,)
    x = np.random.default_rng(2).normal(size=(3, 3, 8, 8)).astype(np.float32)
    assert np.abs(run(graph, x)["y"] - reference(proto, {"x": x})[0]).max() < 1e-4
