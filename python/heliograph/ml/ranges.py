"""Input ranges of fitted estimators: calibration, proof, and checks of clear samples before encryption."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import digits_of
from heliograph.ckks.parameters import Parameters
from heliograph.ml.inputs import Inputs
from heliograph.ml.layers import Activation, Dense, Floats

#: Slack of comparisons for rounding in float64. A polynomial of degree d amplifies this rounding by d^2.
_SLACK = 2.0**-30
_MANTISSA = 10  #: bits of a published bound, rounded outward so that files hide the exact extremes of the calibration data
_STEPS = 10  #: steps of the bisection that finds the largest proven fraction of the input intervals
#: The last part of an error, which says what to do.
WAYS_OUT = (
    "calibrate with samples like this one, use a larger margin= in hg.ml.compile, or pass unchecked=True to encrypt it "
    "anyway"
)


@dataclass(frozen=True)
class Ranges:
    """Ranges of a model's features.

    >>> known = ml.Ranges((0.0, -1.0), (4.0, 1.0), 16.0, 1.0)
    >>> known.bound, known.proven  # no encrypted value is larger than 8
    (8.0, 1.0)
    """

    low: tuple[float, ...]  #: range of each feature: that of the calibration data, widened by the margin
    high: tuple[float, ...]
    reach: float  #: largest magnitude of inputs and outputs, for which parameters have room
    #: Share of each range, about its middle, for which all results are proven correct; 1.0 for all samples inside the
    #: ranges.
    proven: float

    @property
    def bound(self) -> float:
        """Public bound on the magnitude of encrypted features: twice the largest in the ranges."""
        return self.bound_of(Inputs())

    def bound_of(self, inputs: Inputs) -> float:
        """Returns the bound of features that `inputs` centres and scales.

        >>> ml.Ranges((30.0,), (50.0,), 16.0, 1.0).bound_of(ml.Inputs((), (40.0,), (8.0,)))
        2.5
        """
        ends = inputs.encoded(np.array([self.low, self.high]).T)
        return min(2 * float(np.abs(ends).max()), self.reach) or self.reach

    def summary(self) -> str:
        """Describes the ranges in one line.

        >>> ml.Ranges((0.0, -1.0), (4.0, 1.0), 16.0, 0.5).summary()
        'each in its calibrated range, between -1 and 4; results are proven in 50% of each range'
        """
        proof = (
            "all results inside are proven" if self.proven >= 1 else f"results are proven in {self.proven:.0%} of each range"
        )
        digits = digits_of(min(self.low), max(self.high))
        return f"each in its calibrated range, between {min(self.low):.{digits}g} and {max(self.high):.{digits}g}; {proof}"


def calibrated(samples: Floats, margin: float) -> tuple[Floats, Floats]:
    """Returns the ranges [features] of samples [count, features], `margin` times as wide about their middles, rounded
    outward.
    """
    low, high = samples.min(0), samples.max(0)
    middle, half = low / 2 + high / 2, (high / 2 - low / 2) * margin
    lower, upper = np.minimum(middle - half, low), np.maximum(middle + half, high)
    return _outward(lower, half, np.floor), _outward(upper, half, np.ceil)


def _outward(values: Floats, half: Floats, rounding: np.ufunc) -> Floats:
    """Rounds values to `_MANTISSA` bits, relative to themselves or to half the range if that is smaller."""
    _, exponent = np.frexp(values)
    _, narrow = np.frexp(half)
    exponent = np.where(half > 0, np.minimum(exponent, narrow), exponent) - _MANTISSA
    return np.asarray(np.ldexp(rounding(np.ldexp(values, -exponent)), exponent), dtype=np.float64)


def image(weight: Floats, bias: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Returns the ranges of W x + b for x in a box, by interval arithmetic."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    centre, width = weight @ middle + bias, np.abs(weight) @ half
    return centre - width, centre + width


def polynomial_image(coefficients: Sequence[float], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Returns the extremes of a Chebyshev series on intervals [low, high], one for each unit.

    The extremes are at the ends or at roots of the derivative.
    """
    chebyshev = np.polynomial.chebyshev
    roots: npt.NDArray[Any] | list[float] = (
        chebyshev.chebroots(chebyshev.chebtrim(chebyshev.chebder(coefficients), 1e-300)) if len(coefficients) > 2 else []
    )
    places = [low, high, *(np.clip(float(np.real(root)), low, high) for root in roots)]
    values = chebyshev.chebval(np.stack(places), coefficients)
    slack = _SLACK * float(np.abs(coefficients).sum())
    return values.min(0) - slack, values.max(0) + slack


def proven_share(layers: Sequence[Dense], low: Floats, high: Floats, reach: float) -> float:
    """Returns the largest share of a box, about its middle, in which all results are proven; rounded down.

    There interval arithmetic keeps each activation's argument in [-1, 1] and each output within `reach`.
    """
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
    """Returns the largest magnitude that decodes at a level. Above level 1 decoding reads at most two levels."""
    if level == 1:
        return parameters.room
    spec = parameters._core.spec
    primes = [spec.chain[i] for i in spec.levels[1]] if spec.levels else spec.chain[:2]
    return float(2.0 ** min(1000.0, sum(map(math.log2, primes)) - 1 - math.log2(parameters.scale(level))))


@dataclass(frozen=True)
class Check:
    """A condition on samples: values [quantities, count] must be in [low, high], with an interval for each quantity."""

    values: Floats
    low: Floats
    high: Floats
    message: Callable[[int, float], str]  #: error text for a quantity's number and its value outside

    def inside(self) -> npt.NDArray[np.bool_]:
        """Tells for each sample [count] whether all its values are inside. NaN, the result of an overflow, is outside."""
        return np.asarray(((self.values >= self.low[:, None]) & (self.values <= self.high[:, None])).all(0))

    def require(self) -> None:
        """Raises PlaintextRangeError for the first sample outside, which names its value farthest outside."""
        inside = self.inside()
        if inside.all():
            return
        row, rows = int(inside.argmin()), int(np.count_nonzero(~inside))
        values = self.values[:, row]
        place = int(np.maximum(self.low - values, values - self.high).argmax())
        several = "" if rows == 1 else f" ({rows:,} such rows)"
        raise _core.PlaintextRangeError(f"row {row}: {self.message(place, float(values[place]))}{several}; {WAYS_OUT}")


def of_features(ranges: Ranges, samples: Floats) -> Check:
    """Returns the condition that each feature of samples [features, count] is in its range."""
    low, high = np.array(ranges.low), np.array(ranges.high)
    slack = _SLACK * (high - low)

    def message(feature: int, value: float) -> str:
        digits = digits_of(low[feature], high[feature])
        ends = f"[{low[feature]:.{digits}g}, {high[feature]:.{digits}g}]"
        return f"feature {feature} is {value:.{digits}g}, outside its calibrated range {ends}"

    return Check(samples, low - slack, high + slack, message)


def of_bound(samples: Floats, bound: float, inputs: Inputs) -> Check:
    """Returns the condition that no encoded feature [features, count] exceeds the model's input bound."""
    most = np.full(len(samples), bound)

    def message(feature: int, value: float) -> str:
        ends = np.zeros((len(samples), 3))
        ends[feature] = value, -bound, bound
        value, low, high = inputs.decoded(ends)[feature].tolist()
        digits = digits_of(low, high)
        twice = f"[{low:.{digits}g}, {high:.{digits}g}]"
        return f"feature {feature} is {value:.{digits}g}, outside {twice}, twice the calibrated ranges"

    return Check(samples, -most, most, message)


def of_layers(layers: Sequence[Dense], samples: Floats, reach: float) -> Iterator[Check]:
    """Runs the clear layers on samples [features, count] and yields the conditions of a correct result.

    Each activation's argument must be in its calibrated interval, and each result within `reach`.
    """
    x = samples
    for number, layer in enumerate(layers, start=1):
        x = layer.weight @ x + layer.bias[:, None]
        if (a := layer.activation) is not None:
            most = np.full(len(x), 1 + _SLACK)
            yield Check(x, -most, most, partial(_argument_message, number, a))
            x = np.asarray(np.polynomial.chebyshev.chebval(x, a.coefficients), dtype=np.float64)
    most = np.full(len(x), reach)

    def message(number: int, value: float) -> str:
        return f"result {number} is {value:.6g}, outside [{-reach:.6g}, {reach:.6g}], the model's room"

    yield Check(x, -most, most, message)


def _argument_message(number: int, a: Activation, unit: int, scaled: float) -> str:
    value = (a.high + a.low) / 2 + scaled * (a.high - a.low) / 2
    return (
        f"the argument of {a.name} in layer {number}, unit {unit}, is {value:.6g}, outside its calibrated interval "
        f"[{a.low:.6g}, {a.high:.6g}]"
    )
