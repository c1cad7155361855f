"""Linear steps of a pipeline, such as scalers, folded into one layer by scikit-learn's formulas and fitted attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: Extended precision, with a 64-bit mantissa on x86: a shift far from zero loses no bits of a float64.
Wide = npt.NDArray[np.longdouble]
Indices = npt.NDArray[np.int64]


class Step(Protocol):
    """A linear function of the features of one sample."""

    def value(self, x: Wide) -> Wide:
        """Returns the outputs [outputs] for features [features]."""

    def size(self, x: Wide) -> Wide:
        """Returns bounds on intermediate magnitudes [outputs], for features of magnitudes [features]."""

    def pull(self, weight: Floats) -> Floats:
        """Returns weights [rows, features] that combine this step with a following layer [rows, outputs]."""


@dataclass(frozen=True)
class Scaling:
    """Scales each feature: factor * (x - before) + after."""

    before: Wide | float
    factor: Wide | float
    after: Wide | float

    def value(self, x: Wide) -> Wide:
        return np.asarray(self.factor * (x - self.before) + self.after)

    def size(self, x: Wide) -> Wide:
        return np.asarray(np.abs(self.factor) * (x + np.abs(self.before)) + np.abs(self.after))

    def pull(self, weight: Floats) -> Floats:
        return np.asarray(weight * np.asarray(self.factor, dtype=np.float64))


@dataclass(frozen=True)
class Projection:
    """Projects features: matrix (x - before), as for principal components."""

    before: Wide | float
    matrix: Floats  #: [outputs, features]

    def value(self, x: Wide) -> Wide:
        return np.asarray(self.matrix.astype(np.longdouble) @ (x - self.before))

    def size(self, x: Wide) -> Wide:
        return np.asarray(np.abs(self.matrix) @ (x + np.abs(self.before)).astype(np.float64), dtype=np.longdouble)

    def pull(self, weight: Floats) -> Floats:
        return np.asarray(weight @ self.matrix)


@dataclass(frozen=True)
class Pieces:
    """Chains of steps on subsets of the features, with concatenated outputs."""

    features: int
    chains: tuple[tuple[Indices, tuple[Step, ...]], ...]

    def value(self, x: Wide) -> Wide:
        return _joined([value(chain, x[features]) for features, chain in self.chains])

    def size(self, x: Wide) -> Wide:
        return _joined([size(chain, x[features]) for features, chain in self.chains])

    def pull(self, weight: Floats) -> Floats:
        result, start = np.zeros((len(weight), self.features)), 0
        for features, chain in self.chains:
            count = len(value(chain, np.zeros(len(features), dtype=np.longdouble)))
            for place, column in zip(features, pull(chain, weight[:, start : start + count]).T, strict=True):
                result[:, place] += column  # a feature may be chosen twice
            start += count
        return result


def value(steps: Sequence[Step], x: Wide) -> Wide:
    """Returns the outputs of all steps in order."""
    for step in steps:
        x = step.value(x)
    return x


def size(steps: Sequence[Step], x: Wide) -> Wide:
    """Returns bounds on the magnitudes of the steps' outputs."""
    for step in steps:
        x = step.size(x)
    return x


def pull(steps: Sequence[Step], weight: Floats) -> Floats:
    """Returns the weights of features that combine the steps with a following layer."""
    for step in reversed(steps):
        weight = step.pull(weight)
    return weight


def folded(steps: Sequence[Step], weight: Floats, bias: Floats, centre: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """Returns weights and bias that combine the steps and a layer, for features encoded as (x - centre) / unit.

    The bias is the layer's value at the centre, in extended precision, which avoids cancellation of large numbers.
    """
    at = value(steps, centre.astype(np.longdouble))
    constant = weight.astype(np.longdouble) @ at + bias
    return np.array(pull(steps, weight) * unit, dtype=np.float64), np.asarray(constant, dtype=np.float64)


def wide(values: Any) -> Wide:
    """Returns numbers in extended precision."""
    return np.asarray(values).astype(np.longdouble)


def _joined(parts: list[Wide]) -> Wide:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.longdouble)
