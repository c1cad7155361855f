"""Checks of samples, and the ranges of a network's values on calibration samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import complexes, described, has_masked
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Node
from heliograph.ml.networks.cuts import Network
from heliograph.ml.networks.evaluation import batches, evaluate, is_of_positives
from heliograph.ml.networks.fitting import BINS, Observed, interval_of

_BATCH = 64
_COUNTED = 512  # maximum samples of the histograms


def samples_of(values: Any, shape: tuple[int, ...], what: str) -> npt.NDArray[np.float64]:
    """Returns samples [count, ...] as real numbers. A single sample gets the axis of samples.

    Raises DtypeError, ShapeError, and PlaintextRangeError for infinities and NaN."""
    if has_masked(values):
        raise _core.DtypeError(f"{what} must have no masked values; fill them first (filled(0))")
    array, is_complex = complexes(values, what)
    if is_complex:
        raise _core.DtypeError(f"{what} must be real numbers, not complex ones")
    x = np.asarray(array.real, dtype=np.float64)
    if x.shape == shape:
        x = x[None]
    if x.shape[1:] != shape or not len(x):
        sizes = ", ".join(map(str, shape))
        raise _core.ShapeError(f"{what} must have shape (count, {sizes}) with at least one sample, not {x.shape}")
    return x


def labels_of(labels: Any, count: int) -> npt.NDArray[np.int64]:
    """Returns class numbers [count]. Raises ShapeError, DtypeError."""
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise _core.DtypeError(f"labels must be whole class numbers, not {described(labels)}")
    if array.shape != (count,):
        raise _core.ShapeError(f"labels must be one class number for each of {count} samples, not of shape {array.shape}")
    return array.astype(np.int64)


def require_classes(labels: npt.NDArray[np.int64], outputs: int) -> None:
    """Raises ParameterError for a class number without an output."""
    wrong = np.flatnonzero((labels < 0) | (labels >= outputs))
    if len(wrong):
        raise _core.ParameterError(
            f"labels of calibrate=(samples, labels) must be numbers of outputs, 0 to {outputs - 1}, but {len(wrong)} of "
            f"{len(labels)} are not: label {wrong[0]} is {labels[wrong[0]]}; number the classes as the outputs are"
        )


@dataclass(frozen=True)
class Calibration:
    """Ranges of values on the calibration samples, and the exact outputs."""

    samples: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64] | None
    outputs: npt.NDArray[Any]  #: exact outputs before the client's operations
    seen: Mapping[str, Observed]  #: arguments of activations, by the cut's name
    largest: Mapping[str, float]  #: largest magnitudes of the input and the output, with the margin


def _counted(
    network: Network, x: npt.NDArray[np.float32], ranges: Mapping[str, list[float]], margin: float
) -> dict[str, Observed]:
    """Returns the ranges, with histograms of the arguments of some samples."""
    positive = {cut.name: cut.node is not None and is_of_positives(cut.node) for cut in network.activations}
    edges = {name: interval_of(low, high, margin, positive[name]) for name, (low, high, _) in ranges.items()}
    counts = {name: np.zeros(BINS, dtype=np.int64) for name in ranges}

    def count(node: Node, argument: npt.NDArray[Any]) -> None:
        if node.output in counts:
            counts[node.output] += np.histogram(argument, BINS, edges[node.output])[0]

    for part in batches(x, _BATCH):
        evaluate(network.upto(network.result), part, count)
    return {
        name: Observed(low, high, int(number), edges[name], counts[name]) for name, (low, high, number) in ranges.items()
    }


def split(calibrate: Any, shape: tuple[int, ...]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64] | None]:
    """Returns calibration samples [count, ...] and class numbers; None without them.

    Raises the errors of `samples_of` and `labels_of`."""
    labels = None
    if isinstance(calibrate, tuple) and len(calibrate) == 2 and np.ndim(calibrate[0]) > np.ndim(calibrate[1]):
        calibrate, labels = calibrate
    samples = samples_of(calibrate, shape, "calibration samples")
    return samples.astype(np.float32), None if labels is None else labels_of(labels, len(samples))


def calibrated(network: Network, calibrate: Any, margin: float) -> Calibration:
    """Evaluates a network on samples [count, ...], or on a pair of samples and class numbers.

    Raises ModelError if a value is not finite, and the errors of `samples_of` and `labels_of`."""
    x, classes = split(calibrate, network.cuts[0].shape)
    ranges: dict[str, list[float]] = {cut.name: [np.inf, -np.inf, 0.0] for cut in network.activations}

    def note(node: Node, argument: npt.NDArray[Any]) -> None:
        if node.output in ranges:
            seen = ranges[node.output]
            seen[0], seen[1] = float(np.minimum(seen[0], argument.min())), float(np.maximum(seen[1], argument.max()))
            seen[2] += argument.size

    last = network.result
    graph = network.upto(last)
    outputs = np.concatenate([evaluate(graph, part, note)[last] for part in batches(x, _BATCH)])
    for cut in network.activations:
        if not np.isfinite(ranges[cut.name]).all():
            raise ModelError(f"cannot compile node {cut.label}: its argument is not finite on the calibration samples")
    if not np.isfinite(outputs).all():
        raise ModelError("cannot compile this network: its output is not finite on the calibration samples")
    seen = _counted(network, x[:_COUNTED], ranges, margin)
    tiny = 1e-12
    largest = {
        "input": max(float(np.abs(x).max()) * margin, tiny),
        "output": max(float(np.abs(outputs).max()) * margin, tiny),
    }
    return Calibration(x, classes, outputs, seen, largest)
