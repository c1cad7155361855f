"""Linear steps before a fitted model, such as scalers: exact formulas of scikit-learn's fitted attributes, folded into one layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: 64 bits of mantissa on x86: a shift far from zero loses no bits that float64 holds.
Wide = npt.NDArray[np.longdouble]
Indices = npt.NDArray[np.int64]


class Step(Protocol):
    """A linear function of the features of one sample."""

    def value(self, x: Wide) -> Wide:
        """The outputs [outputs] for features [features]."""

    def size(self, x: Wide) -> Wide:
        """Bounds on the magnitudes that float arithmetic meets [outputs], for features of magnitudes [features]."""

    def pull(self, weight: Floats) -> Floats:
        """The weights [rows, features] of a layer [rows, outputs] after this step."""


@dataclass(frozen=True)
class Scaling:
    """factor * (x - before) + after, feature by feature."""

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
    """matrix (x - before), such as principal components."""

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
    """Several chains of steps, each of some of the features; their outputs one after the other."""

    features: int
    chains: tuple[tuple[Indices, tuple[Step, ...]], ...]

    def value(self, x: Wide) -> Wide:
        return _joined([value(chain, x[chosen]) for chosen, chain in self.chains])

    def size(self, x: Wide) -> Wide:
        return _joined([size(chain, x[chosen]) for chosen, chain in self.chains])

    def pull(self, weight: Floats) -> Floats:
        found, start = np.zeros((len(weight), self.features)), 0
        for chosen, chain in self.chains:
            count = len(value(chain, np.zeros(len(chosen), dtype=np.longdouble)))
            for place, column in zip(chosen, pull(chain, weight[:, start : start + count]).T, strict=True):
                found[:, place] += column  # a feature may be chosen twice
            start += count
        return found


def value(steps: Sequence[Step], x: Wide) -> Wide:
    """The outputs of all the steps, in order."""
    for step in steps:
        x = step.value(x)
    return x


def size(steps: Sequence[Step], x: Wide) -> Wide:
    """Bounds on the magnitudes of their outputs."""
    for step in steps:
        x = step.size(x)
    return x


def pull(steps: Sequence[Step], weight: Floats) -> Floats:
    """The weights of a layer after the steps as weights of the features."""
    for step in reversed(steps):
        weight = step.pull(weight)
    return weight


def folded(steps: Sequence[Step], weight: Floats, bias: Floats, centre: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """A layer after the steps as one layer of (features - centre) / unit.

    The bias is the layer's value at the centre, in extended precision: no difference of large numbers is left to rounding.
    """
    at = value(steps, centre.astype(np.longdouble))
    constant = weight.astype(np.longdouble) @ at + bias
    return np.array(pull(steps, weight) * unit, dtype=np.float64), np.asarray(constant, dtype=np.float64)


def wide(values: Any) -> Wide:
    """Numbers in extended precision."""
    return np.asarray(values).astype(np.longdouble)


def _joined(parts: list[Wide]) -> Wide:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.longdouble)
