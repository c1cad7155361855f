"""Polynomials of activations, fitted to the values that calibration samples have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from heliograph import _core
from heliograph.ml.networks.terms import Floats

BINS = 2048
_CACHED = 1 << 13  # numbers of one step of an evaluation, which a processor's cache holds
#: Weight of the points that carry no calibration value, relative to the calibration values as a whole.
_FLOOR = 0.002
#: Degrees of fits, by levels of the evaluation.
DEGREES = (2, 3, 5, 7, 15, 31, 63, 127, 255)
_EVEN = 7  # largest degree of fits without more points near the ends of the interval, which keep the largest error small

Function = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True)
class Observed:
    """Values of one tensor on the calibration samples: range, and a histogram over the widened interval.

    >>> seen = Observed.of([np.array([0.0, 1.0])], margin=1.5)
    >>> seen.low, seen.high, seen.interval
    (0.0, 1.0, (-0.5, 1.5))
    """

    low: float  #: least value
    high: float  #: largest value
    count: int  #: number of values
    interval: tuple[float, float]  #: the range, widened at both ends by (margin - 1) times its largest magnitude
    histogram: npt.NDArray[np.int64] = field(repr=False, compare=False)

    @staticmethod
    def of(parts: list[npt.NDArray[Any]], margin: float) -> Observed:
        """Returns the range and the histogram of the values of all parts.

        >>> Observed.of([np.zeros(2)], margin=1.25).interval
        (-1.0, 1.0)
        """
        low, high = min(float(p.min()) for p in parts), max(float(p.max()) for p in parts)
        edges = interval_of(low, high, margin)
        histogram = np.sum([np.histogram(p, BINS, edges)[0] for p in parts], axis=0)
        return Observed(low, high, sum(p.size for p in parts), edges, histogram)

    def relative_error(self, function: Function, fitted: Function) -> float:
        """Returns the root mean square error of a fit at these values, relative to the function's values.

        >>> Observed.of([np.ones(3)], margin=2.0).relative_error(np.square, lambda x: 1.5 * x * x)
        0.5
        """
        low, high = self.interval
        x = low + (np.arange(BINS) + 0.5) * (high - low) / BINS
        x = x[self.histogram > 0]
        share = self.histogram[self.histogram > 0] / self.histogram.sum()
        return float(np.sqrt((share * (fitted(x) / function(x) - 1) ** 2).sum()))


def interval_of(low: float, high: float, margin: float, positive: bool = False) -> tuple[float, float]:
    """Returns a range, widened at both ends by (margin - 1) times its largest magnitude. The positive range of a `positive`
    argument stays positive: its ends are divided and multiplied by `margin`.

    >>> interval_of(-1.0, 2.0, 1.25), interval_of(1.0, 2.0, 1.25, positive=True)
    ((-1.5, 2.5), (0.8, 2.5))
    """
    more = (margin - 1) * max(-low, high)
    edges = (low / margin, high * margin) if positive and low > 0 else (low - more, high + more)
    if not edges[1] - edges[0] > 1e-6 * max(-low, high):  # all values are equal
        edges = (low - max(abs(low), 1.0), high + max(abs(high), 1.0))
    return edges


@dataclass(frozen=True)
class Polynomial:
    """A Chebyshev series on an interval, with its errors.

    >>> fit(np.square, Observed.of([np.linspace(-1, 1, 100)], margin=1.0), 2).mean_error < 1e-12
    True
    """

    low: float
    high: float
    coefficients: tuple[float, ...]  #: coefficients of the Chebyshev polynomials of the interval
    largest_error: float  #: largest distance from the function on the interval
    mean_error: float  #: root mean square distance at the calibration values

    @property
    def degree(self) -> int:
        """Degree of the polynomial.

        >>> Polynomial(0.0, 1.0, (1.0, 2.0), 0.0, 0.0).degree
        1
        """
        return len(self.coefficients) - 1

    @property
    def depth(self) -> int:
        """Number of levels that an evaluation of an argument in [-1, 1] takes.

        >>> Polynomial(-1.0, 1.0, (0.0,) * 32, 0.0, 0.0).depth
        5
        """
        return 0 if self.is_identity else int(_core.ckks.polynomial_depth(self.degree))

    @property
    def is_identity(self) -> bool:
        """Whether the polynomial is x on an interval around 0: `identity`.

        >>> identity(Observed.of([np.array([1.0, -2.0])], margin=1.0)).is_identity
        True
        """
        return self.low == -self.high and self.coefficients == (0.0, self.high)

    def __call__(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        u = (x - middle) / half
        return np.asarray(clenshaw(u, self.coefficients), dtype=x.dtype)


def clenshaw(u: npt.NDArray[Any], coefficients: tuple[float, ...]) -> npt.NDArray[Any]:
    """Returns the Chebyshev series at u, in the type of u.

    >>> clenshaw(np.array([0.5]), (0.0, 0.0, 1.0))
    array([-0.5])
    """
    flat = np.ascontiguousarray(u).reshape(-1)
    result = np.empty_like(flat)
    numbers = [u.dtype.type(c) for c in coefficients]
    for start in range(0, len(flat), _CACHED):
        part = flat[start : start + _CACHED]
        two = part + part
        last, before, spare = np.zeros_like(part), np.zeros_like(part), np.empty_like(part)
        for c in reversed(numbers[1:]):
            np.multiply(two, last, out=spare)
            spare -= before
            spare += c
            last, before, spare = spare, last, before
        result[start : start + _CACHED] = part * last - before + numbers[0]
    return result.reshape(u.shape)


def fit(function: Function, seen: Observed, degree: int, relative: bool = False) -> Polynomial:
    """Fits a polynomial by least squares, weighted by the histogram and by a small weight everywhere. `relative` minimizes
    errors relative to the function's values, which must not be 0.

    Raises ValueError if the function is not finite on the interval.

    >>> relu = fit(lambda v: np.maximum(v, 0), Observed.of([np.linspace(-1, 1, 100)], margin=1.25), 7)
    >>> relu.degree, relu.mean_error < 0.02
    (6, True)
    """
    low, high = seen.interval
    u = (np.arange(BINS) + 0.5) / (BINS / 2) - 1
    x = (low + high) / 2 + (high - low) / 2 * u
    y = np.asarray(function(x), dtype=np.float64)
    ends = np.asarray(function(np.array([low, high])), dtype=np.float64)
    if not (np.isfinite(y).all() and np.isfinite(ends).all()):
        raise ValueError(f"it is not finite on [{low:.6g}, {high:.6g}], the interval of the calibration samples")
    share = seen.histogram / max(1, seen.histogram.sum())
    weight = np.sqrt(share + _FLOOR / BINS)
    scale = max(float(np.abs(y).max()), 1e-300)
    if relative:
        weight = weight / np.maximum(np.abs(y) / scale, 1e-6)
    points, values = u, y
    if degree > _EVEN:
        nodes = np.cos(np.pi * (np.arange(4 * degree) + 0.5) / (4 * degree))
        points = np.concatenate([u, nodes])
        values = np.concatenate([y, np.asarray(function((low + high) / 2 + (high - low) / 2 * nodes), dtype=np.float64)])
        more = np.full(len(nodes), math.sqrt(_FLOOR / len(nodes)))
        if relative:
            more = more / np.maximum(np.abs(values[len(y) :]) / scale, 1e-6)
        weight = np.concatenate([weight, more])
    matrix = chebyshev.chebvander(points, degree)
    solution = np.linalg.lstsq(matrix * weight[:, None], values / scale * weight, rcond=None)[0]
    coefficients = tuple(float(c) for c in _trimmed(solution) * scale)
    near = np.linspace(-1, 1, 4 * BINS + 1)
    exact = np.asarray(function((low + high) / 2 + (high - low) / 2 * near), dtype=np.float64)
    largest = float(np.abs(clenshaw(near, coefficients) - exact).max())
    mean = float(np.sqrt(((clenshaw(u, coefficients) - y) ** 2 * share).sum()))
    return Polynomial(low, high, coefficients, largest, mean)


def identity(seen: Observed) -> Polynomial:
    """Returns x as a polynomial on the smallest interval around 0 that has the interval of a tensor.

    >>> identity(Observed.of([np.array([1.0, -2.0])], margin=1.0)).coefficients
    (0.0, 2.0)
    """
    high = max(-seen.interval[0], seen.interval[1])
    return Polynomial(-high, high, (0.0, high), 0.0, 0.0)


def _trimmed(coefficients: Floats) -> Floats:
    """Returns the coefficients without a negligible end."""
    kept = np.flatnonzero(np.abs(coefficients) > 1e-13 * np.abs(coefficients).max())
    return coefficients[: max(2, int(kept[-1]) + 1)] if len(kept) else np.zeros(2)
