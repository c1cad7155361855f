"""Input ranges of fitted estimators: what is calibrated, what is proven, and the check of clear samples before encryption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph.ckks.parameters import Parameters

if TYPE_CHECKING:
    from heliograph.nn.estimators import Dense

Floats = npt.NDArray[np.float64]
#: Slack of comparisons: rounding of float64 in two orders of summation. A polynomial of degree d grows by d^2 times as much.
_SLACK = 2.0**-30
_MANTISSA = 10  #: bits of a published bound: rounded outward, files do not hold exact extremes of the calibration data
_STEPS = 10  #: of the bisection for the proven share
#: The end of an error: what to do.
WAYS_OUT = (
    "calibrate with samples like this one, use a larger margin= in from_sklearn, or pass unchecked=True to encrypt it anyway"
)


@dataclass(frozen=True)
class Ranges:
    """Ranges of a model's features.

    >>> known = nn.Ranges((0.0, -1.0), (4.0, 1.0), 16.0, 1.0)
    >>> known.bound, known.proven  # no encrypted value is larger than 8
    (8.0, 1.0)
    """

    low: tuple[float, ...]  #: of each feature: the calibration data's, widened by the margin
    high: tuple[float, ...]
    reach: float  #: largest magnitude of inputs and outputs that parameters have room for
    #: Share of each range, about its middle, in which all results are proven: 1.0 if all samples inside the ranges are right.
    proven: float

    @property
    def bound(self) -> float:
        """Largest magnitude of an encrypted feature: twice the largest in the ranges. It is public."""
        largest = max(max(map(abs, self.low)), max(map(abs, self.high)))
        return min(2 * largest, self.reach) or self.reach

    def summary(self) -> str:
        """One line for a person.

        >>> nn.Ranges((0.0, -1.0), (4.0, 1.0), 16.0, 0.5).summary()
        'each in its calibrated range, between -1 and 4; results are proven in 50% of each range'
        """
        proof = (
            "all results inside are proven" if self.proven >= 1 else f"results are proven in {self.proven:.0%} of each range"
        )
        return f"each in its calibrated range, between {min(self.low):.6g} and {max(self.high):.6g}; {proof}"


def calibrated(samples: Floats, margin: float) -> tuple[Floats, Floats]:
    """The ranges [features] of samples [count, features], `margin` times as wide about their middles, rounded outward."""
    low, high = samples.min(0), samples.max(0)
    middle, half = low / 2 + high / 2, (high / 2 - low / 2) * margin
    return _outward(np.minimum(middle - half, low), np.floor), _outward(np.maximum(middle + half, high), np.ceil)


def _outward(values: Floats, rounding: np.ufunc) -> Floats:
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(rounding(np.ldexp(mantissa, _MANTISSA)), exponent - _MANTISSA), dtype=np.float64)


def image(weight: Floats, bias: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The ranges of W x + b for x in a box (interval arithmetic)."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    centre, width = weight @ middle + bias, np.abs(weight) @ half
    return centre - width, centre + width


def polynomial_image(coefficients: Sequence[float], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The extremes of a Chebyshev series on intervals [low, high], one of each unit: at the ends and the roots of its derivative."""
    chebyshev = np.polynomial.chebyshev
    roots: npt.NDArray[Any] | list[float] = (
        chebyshev.chebroots(chebyshev.chebtrim(chebyshev.chebder(coefficients), 1e-300)) if len(coefficients) > 2 else []
    )
    places = [low, high, *(np.clip(float(np.real(root)), low, high) for root in roots)]
    values = chebyshev.chebval(np.stack(places), coefficients)
    slack = _SLACK * float(np.abs(coefficients).sum())
    return values.min(0) - slack, values.max(0) + slack


def proven_share(layers: Sequence[Dense], low: Floats, high: Floats, reach: float) -> float:
    """The largest share of a box, about its middle, for which interval arithmetic keeps each activation's argument in [-1, 1]
    and each output within `reach`; rounded down."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2

    def holds(share: float) -> bool:
        at, to = middle - share * half, middle + share * half
        for layer in layers:
            at, to = image(layer.weight, layer.bias, at, to)
            if layer.activation is not None:
                if max(-at.min(), to.max()) > 1 + _SLACK:
                    return False
                at, to = polynomial_image(layer.activation.coefficients, np.maximum(at, -1), np.minimum(to, 1))
        return bool(max(-at.min(), to.max()) <= reach * (1 + _SLACK))

    if holds(1.0):
        return 1.0
    good, bad = 0.0, 1.0
    if not holds(0.0):
        return 0.0
    for _ in range(_STEPS):
        share = (good + bad) / 2
        good, bad = (share, bad) if holds(share) else (good, share)
    return good


def room_of(parameters: Parameters, level: int) -> float:
    """The largest magnitude that decodes at a level. Above level 1 decoding reads two levels, and 64 bits above the scale, at most."""
    return parameters.room if level == 1 else max(parameters.room, min(2.0**60, parameters.room * parameters.scale(2) / 2))


def require_features(known: Ranges, samples: Floats) -> None:
    """Raises PlaintextRangeError for samples [features, count] with a feature outside its range."""
    low, high = np.array(known.low), np.array(known.high)
    slack = _SLACK * np.maximum(np.abs(low), np.abs(high))
    if (found := _outside(samples, low - slack, high + slack)) is not None:
        row, feature, rows = found
        raise _core.PlaintextRangeError(
            f"row {row}: feature {feature} is {samples[feature, row]:.6g}, outside its calibrated range "
            f"[{low[feature]:.6g}, {high[feature]:.6g}]{_more(rows)}; {WAYS_OUT}"
        )


def require_bound(samples: Floats, bound: float) -> None:
    """Raises PlaintextRangeError for samples [features, count] with a feature beyond the model's input bound."""
    most = np.full(len(samples), bound)
    if (found := _outside(samples, -most, most)) is not None:
        row, feature, rows = found
        raise _core.PlaintextRangeError(
            f"row {row}: feature {feature} is {samples[feature, row]:.6g}, outside [{-bound:.6g}, {bound:.6g}], twice the calibrated "
            f"ranges{_more(rows)}; {WAYS_OUT}"
        )


def require_layers(layers: Sequence[Dense], samples: Floats, reach: float) -> None:
    """Raises PlaintextRangeError for samples [features, count] that take an activation outside its calibrated interval, or a
    result beyond `reach`. Runs the clear layers.
    """
    x = samples
    for number, layer in enumerate(layers, start=1):
        x = layer.weight @ x + layer.bias[:, None]
        if (a := layer.activation) is None:
            continue
        most = np.full(len(x), 1 + _SLACK)
        if (found := _outside(x, -most, most)) is not None:
            row, unit, rows = found
            value = (a.high + a.low) / 2 + x[unit, row] * (a.high - a.low) / 2
            raise _core.PlaintextRangeError(
                f"row {row}: the argument of {a.name} in layer {number}, unit {unit}, is {value:.6g}, outside its calibrated interval "
                f"[{a.low:.6g}, {a.high:.6g}]{_more(rows)}; {WAYS_OUT}"
            )
        x = np.asarray(np.polynomial.chebyshev.chebval(x, a.coefficients), dtype=np.float64)
    most = np.full(len(x), reach)
    if (found := _outside(x, -most, most)) is not None:
        row, unit, rows = found
        raise _core.PlaintextRangeError(
            f"row {row}: result {unit} is {x[unit, row]:.6g}, outside [{-reach:.6g}, {reach:.6g}], the model's room{_more(rows)}; {WAYS_OUT}"
        )


def _outside(values: Floats, low: Floats, high: Floats) -> tuple[int, int, int] | None:
    """Of values [things, count]: the first column with a value outside [low, high], its value farthest outside, and how many such
    columns there are."""
    excess = np.maximum(low[:, None] - values, values - high[:, None])
    columns = ~(excess <= 0).all(0)
    if not columns.any():
        return None
    row = int(columns.argmax())
    return row, int(excess[:, row].argmax()), int(columns.sum())


def _more(rows: int) -> str:
    return "" if rows == 1 else f" ({rows:,} such rows)"
