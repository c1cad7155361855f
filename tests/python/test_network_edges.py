"""Compiled networks with unusual labels, outputs and magnitudes: right results, or errors that name the remedy."""

from __future__ import annotations

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml.interpreter import run
from heliograph.ml.networks import compile_graph
from network_graphs import perceptron


def samples(count: int = 200, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 12))


@pytest.mark.parametrize("change", [lambda y: y + 1, lambda y: y - 1, lambda y: np.full_like(y, 7)])
def test_labels_without_an_output_are_refused(change: object) -> None:
    x, graph = samples(), perceptron()
    labels = run(graph, x)[graph.outputs[0]].argmax(axis=1)
    with pytest.raises(hg.ParameterError, match="must be numbers of outputs, 0 to 3"):
        compile_graph(graph, (x, change(labels)), accuracy=0.05)  # type: ignore[operator]
