"""Signs, comparisons, choices, extremes and ranks of encrypted reals, by compositions of polynomials.

Source: Lee, Lee, No, Kang, Kang, ePrint 2020/834. scripts/sign_composites.py computes the polynomials.
"""

from __future__ import annotations

import builtins
import functools
import json
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from heliograph import _core
from heliograph._common.arguments import described, is_real, text_of
from heliograph._common.functions import concatenate
from heliograph._common.operations import composite
from heliograph._common.tensor import keys_of
from heliograph.ckks.approximation import (
    Errors,
    Floats,
    domain_of,
    error_bound,
    errors_of,
    guard_name,
    inside,
    met,
    real_tensor,
    with_errors,
    without_errors,
)
from heliograph.ckks.automatic import ready
from heliograph.ckks.elementary import Domain
from heliograph.ckks.functions import polynomial_depth
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Tensor

_SLACK = 2.0**-6  #: share of a polynomial's domain that noise may use up (scripts/sign_composites.py)
_MARGIN = 1.006  #: between a polynomial's largest value and 1 (scripts/sign_composites.py)
_GROWTH_MARGIN = 1.1  #: of a derivative measured on points


@dataclass(frozen=True)
class _Composite:
    """Odd polynomials whose composition is within `error` of the sign for gap <= |x| <= 1."""

    gap: float
    error: float
    stages: tuple[Floats, ...]
    lows: tuple[float, ...]  #: lower ends of the polynomials' domains
    growths: tuple[float, ...]  #: largest derivative of the composition from each polynomial to the last, on its domain
    error_of_abs: float  #: largest distance of x times the composition from |x| on [-1, 1]
    growths_of_abs: tuple[
        float, ...
    ]  #: largest value on [-1, 1] of |x| times the derivative from each polynomial to the last

    @property
    def depths(self) -> tuple[int, ...]:
        return tuple(polynomial_depth(len(stage) - 1) for stage in self.stages)


@functools.cache
def _composites() -> tuple[_Composite, ...]:
    text = resources.files("heliograph.ckks").joinpath("sign_composites.json").read_text()
    return tuple(_composite_of(row) for row in json.loads(text))


def _composite_of(row: dict[str, Any]) -> _Composite:
    stages = []
    for odd in row["odd"]:
        coefficients = np.zeros(2 * len(odd))
        coefficients[1::2] = odd
        stages.append(coefficients)
    low, lows, growths = 2.0 ** -row["gap_bits"] * (1 - _SLACK), [], []
    for place, stage in enumerate(stages):
        x = low ** np.linspace(1, 0, 20001)
        lows.append(low)
        _, slope = _composed(tuple(stages[place:]), x)
        growths.append(float(np.abs(slope).max()) * _GROWTH_MARGIN)
        low = float(chebyshev.chebval(x, stage).min()) * (1 - _SLACK)
    gap = 2.0 ** -row["gap_bits"]
    x = np.concatenate([np.linspace(0, gap, 4001), gap ** np.linspace(1, 0, 20001)])
    of_abs, value = [], x
    for place, stage in enumerate(stages):
        last, slope = _composed(tuple(stages[place:]), value)
        of_abs.append(float((x * np.abs(slope)).max()) * _GROWTH_MARGIN)
        value = np.asarray(chebyshev.chebval(value, stage))
    error_of_abs = float(np.abs(x * last - x).max()) * 1.02
    lists = tuple(stages), tuple(lows), tuple(growths)
    return _Composite(gap, 2.0 ** -row["error_bits"], *lists, error_of_abs, tuple(of_abs))


def _composed(stages: tuple[Floats, ...], x: Floats) -> tuple[Floats, Floats]:
    """Returns the values and derivatives of a composition."""
    value: Floats = x
    slope: Floats = np.ones_like(x)
    for each in stages:
        slope = np.asarray(slope * chebyshev.chebval(value, chebyshev.chebder(each)))
        value = np.asarray(chebyshev.chebval(value, each))
    return value, slope


def _composite_for(gap: float, error: float) -> _Composite:
    """Returns the composition of the fewest levels for |x| in [gap, 1]."""
    fitting = [c for c in _composites() if c.gap <= gap * (1 + 2.0**-20) and c.error <= error]
    if not fitting:
        least = builtins.min(_composites(), key=lambda c: (c.gap, c.error))
        raise _core.ParameterError(
            f"no composition separates values 2^{math.log2(gap):.1f} of the largest apart with an error of "
            f"2^{math.log2(error):.1f}; the limits are 2^{math.log2(least.gap):.0f} and 2^{math.log2(least.error):.1f}"
        )
    return _shortest(fitting)


def _composite_for_abs(error: float) -> _Composite:
    """Returns the composition of the fewest levels for |x| on [-1, 1]."""
    fitting = [c for c in _composites() if c.error_of_abs <= error]
    if not fitting:
        least = builtins.min(c.error_of_abs for c in _composites())
        raise _core.ParameterError(
            f"no composition gives magnitudes to 2^{math.log2(error):.1f} of the largest; the limit is "
            f"2^{math.log2(least):.1f}"
        )
    return _shortest(fitting)


def _shortest(composites: list[_Composite]) -> _Composite:
    return builtins.min(composites, key=lambda c: (sum(c.depths), sum(len(s) for s in c.stages)))


def gap_of(gap: Any) -> float:
    if not is_real(gap) or not 0 < gap < math.inf:
        raise _core.ParameterError(f"a gap must be a number above 0, not {described(gap)}")
    return float(gap)


@composite
def sign(
    x: Tensor,
    *,
    gap: float,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns 1 for values of at least `gap`, -1 for values of at most -`gap`, each to `error` (2^-20).

    Between -gap and gap the result is between -1 and 1, and near 0 at 0. A composition of polynomials is used; it has more
    levels for a smaller ratio of gap and largest value and for a smaller error: 7 for 1/4, 13 for 2^-8, 22 for 2^-16. Inside
    `hg.ckks.auto_bootstrap` it bootstraps where levels run out.

    `domain` = (low, high), or a magnitude, declares that all values are inside; values outside give wrong results. By
    default it is the interval of the tensor's `bounds`. `guard` is as for `exp`.

    Raises NoiseError if the tensor's noise exceeds 2^-6 of the gap, or if the result's error exceeds `error`. Raises
    ParameterError for a gap below 2^-20 of the largest value or an error below 2^-30; LevelError, MissingKeyError,
    DtypeError.

    >>> holder.decrypt(hg.ckks.sign(w, gap=0.25, error=1e-3)).round(2) + 0  # w holds -1, -0.25, 0 and 0.5
    array([-1., -1.,  0.,  1.])
    """
    x, low, high = domain_of(real_tensor(x, "sign"), domain, "sign", guard)
    wanted = error_bound(2.0**-20 if error is None else error, 1)
    return _sign(x, builtins.max(-low, high), gap_of(gap), wanted, keys, "sign")


@dataclass(frozen=True)
class Signs:
    """Signs of a tensor's values. Their error is the sum of both errors."""

    tensor: Tensor
    composition: _Composite
    noise: Errors

    def total(self) -> Errors:
        return self.composition.error + self.noise[0], self.composition.error + self.noise[1]


def signs_of(x: Tensor, largest: float, gap: float, error: float, keys: EvaluationKeys | None, what: str) -> Signs:
    """Returns signs of values in [-largest, largest] by a composition whose own error is at most `error`."""
    if gap > largest:
        raise _core.ParameterError(f"{what}: the gap {gap:.6g} is above the largest value, {largest:.6g}")
    own_keys = keys_of([x], keys, what)
    u, scale = _scaled(x, largest, own_keys)
    return _composed_signs(u, scale, _composite_for(gap * scale, error), True, own_keys, what)


def _scaled(x: Tensor, largest: float, keys: EvaluationKeys) -> tuple[Tensor, float]:
    """Returns x times a number, so that the largest value is at most 1, and that number."""
    if 0.5 <= largest <= 1:
        return x, 1.0
    return ready(x, 1 + _composites()[0].depths[0], keys) * (1 / largest), 1 / largest


def _composed_signs(
    u: Tensor, scale: float, composition: _Composite, has_gap: bool, keys: EvaluationKeys, what: str
) -> Signs:
    """Evaluates a composition. With a gap, the noise is that of values from the gap on; without, it is divided by |u|.

    `scale` is the factor by which values were multiplied.
    """
    guard = guard_name(what, -1 / scale, 1 / scale)
    growths = composition.growths if has_gap else composition.growths_of_abs
    noise = [0.0, 0.0]
    for place, (stage, depth) in enumerate(zip(composition.stages, composition.depths, strict=True)):
        u = ready(u, depth, keys)
        before = errors_of(u)
        if has_gap and before[1] > composition.lows[place] * _SLACK:
            raise _core.NoiseError(
                f"{what}: the tensor's error, up to 2^{math.log2(before[1]):.1f}, is above 2^-6 of the smallest value "
                f"to tell from 0, 2^{math.log2(composition.lows[place]):.1f} here; take a larger gap or a set of higher "
                "precision"
            )
        noise = [t + growths[place] * e for t, e in zip(noise, before, strict=True)]
        y = without_errors(u)._polynomial(stage, "chebyshev", guard, keys)
        u = with_errors(y, errors_of(y))
    after = errors_of(u)
    return Signs(u, composition, (noise[0] + after[0], noise[1] + after[1]))


def _sign(x: Tensor, largest: float, gap: float, error: float, keys: EvaluationKeys | None, what: str) -> Tensor:
    """Returns signs to `error`. Raises NoiseError if noise exceeds it."""
    found = signs_of(x, largest, gap, error * 0.75, keys, what)
    return met(found.tensor, found.total(), error, what)


@composite
def compare(
    a: Any,
    relation: str,
    b: Any,
    *,
    gap: float,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns 1 where the relation of a and b holds and 0 where it does not, each to `error` (2^-20).

    `relation` is "<", "<=", ">", ">=", "==" or "!=". Orders hold or fail for certain if the values are at least `gap` apart;
    closer values give a number between 0 and 1, and equal ones 1/2, with or without "=". "==" gives 1 up to a distance of
    gap/2 and 0 from 3/2 gap on.

    One operand may be a number or an array. `domain` declares the interval of a - b. Errors are those of `sign`.

    >>> holder.decrypt(hg.ckks.compare(w, "<", 0.25, gap=0.25, error=1e-3)).round(2)  # w holds -1, -0.25, 0 and 0.5
    array([1., 1., 1., 0.])
    """
    text_of(relation, "relation", ("<", "<=", ">", ">=", "==", "!="))
    difference = b - a if relation[0] == "<" else a - b
    x, low, high = domain_of(real_tensor(difference, "compare"), domain, "compare", guard)
    gap, wanted = gap_of(gap), error_bound(2.0**-20 if error is None else error, 1)
    largest = builtins.max(-low, high)
    if relation[0] in "<>":
        return inside_unit(_sign(x, largest, gap, 2 * wanted, keys, "compare") * 0.5 + 0.5, wanted)
    both = concatenate([(x + gap).reshape(1, *x.shape), (x - gap).reshape(1, *x.shape)])
    signs = _sign(both, largest + gap, gap / 2, wanted, keys, "compare") * 0.5
    equal = signs[0] - signs[1]
    return inside_unit(equal if relation == "==" else 1 - equal, wanted)


def inside_unit(x: Tensor, error: float) -> Tensor:
    """Returns x with bounds 0 and 1, up to an error."""
    return inside(x, -error - 2.0**-10, 1 + error + 2.0**-10)


@composite
def where(condition: Tensor, a: Any, b: Any, *, keys: EvaluationKeys | None = None) -> Tensor:
    """Returns a where the condition is 1 and b where it is 0: b + condition * (a - b). `condition` is a result of `compare`;
    a number between 0 and 1 gives the weighted mean. One level.

    >>> holder.decrypt(hg.ckks.where(hg.ckks.compare(w, "<", 0.25, gap=0.25, error=1e-3), w, 0)).round(2) + 0
    array([-1.  , -0.25,  0.  ,  0.  ])
    """
    x = real_tensor(condition, "where")
    if x.bounds is not None and not (x.bounds[0] > -0.25 and x.bounds[1] < 1.25):
        raise _core.PlaintextRangeError(
            f"a condition must be 0 or 1, a result of compare, but this tensor may be in [{x.bounds[0]:.6g}, "
            f"{x.bounds[1]:.6g}]"
        )
    chosen: Tensor = x.multiply(a - b, keys=keys) + b
    return chosen


@composite
def abs(
    x: Tensor, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns magnitudes to `error`: x sign(x). Options and errors are as for `sign`.

    >>> holder.decrypt(hg.ckks.abs(w, error=0.002)).round(2) + 0
    array([1.  , 0.25, 0.  , 0.5 ])
    """
    x, low, high = domain_of(real_tensor(x, "abs"), domain, "abs", guard)
    wanted = error_bound(error, 1)
    return _abs(x, builtins.max(-low, high), wanted, keys, "abs").met(wanted, "abs")


@dataclass(frozen=True)
class Approximate:
    """A tensor whose error bounds are those of noise, and the error of its approximation."""

    tensor: Tensor
    error: float

    def met(self, error: float, what: str) -> Tensor:
        """Returns the tensor with both errors. Raises NoiseError if they exceed `error`."""
        noise = errors_of(self.tensor)
        return met(self.tensor, (self.error + noise[0], self.error + noise[1]), error, what)


def _abs(x: Tensor, largest: float, error: float, keys: EvaluationKeys | None, what: str) -> Approximate:
    if error >= largest:
        raise _core.ParameterError(f"{what}: the error {error:.6g} is not below the largest value, {largest:.6g}")
    own_keys = keys_of([x], keys, what)
    u, scale = _scaled(x, largest, own_keys)
    composition = _composite_for_abs(error * 0.95 * scale)
    s = _composed_signs(u, scale, composition, False, own_keys, what)
    noise = errors_of(x)
    product = without_errors(x).multiply(without_errors(s.tensor), keys=own_keys)
    rounding = errors_of(product)
    total = tuple(1.01 * noise[i] + s.noise[i] / scale + rounding[i] for i in (0, 1))
    y = inside(with_errors(product, (total[0], total[1])), -error, largest + error)
    return Approximate(y, composition.error_of_abs / scale)


@composite
def maximum(
    a: Any, b: Any, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns the larger of two values to `error`: (a + b + |a - b|) / 2. `domain` declares the interval of a - b.

    >>> holder.decrypt(hg.ckks.maximum(w, 0.25, error=0.002)).round(2)
    array([0.25, 0.25, 0.25, 0.5 ])
    """
    return _extreme(a, b, error, domain, guard, keys, 1, "maximum")


@composite
def minimum(
    a: Any, b: Any, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns the smaller of two values to `error`: (a + b - |a - b|) / 2. `domain` declares the interval of a - b.

    >>> holder.decrypt(hg.ckks.minimum(w, 0.25, error=0.002)).round(2) + 0
    array([-1.  , -0.25,  0.  ,  0.25])
    """
    return _extreme(a, b, error, domain, guard, keys, -1, "minimum")


def _extreme(
    a: Any, b: Any, error: Any, domain: Domain, guard: bool | None, keys: EvaluationKeys | None, way: int, what: str
) -> Tensor:
    difference = a - b
    x, _, _ = domain_of(real_tensor(difference, what), domain, what, guard)
    wanted = error_bound(error, 1)
    return extreme(a, b, x, wanted, keys, way, what).met(wanted, what)


def extreme(
    a: Any, b: Any, difference: Tensor, error: float, keys: EvaluationKeys | None, way: int, what: str
) -> Approximate:  # fmt: skip
    """Returns the larger (way = 1) or smaller (-1) values, given a - b with its bounds."""
    low, high = difference.bounds or (0.0, 0.0)
    half = _abs(difference * 0.5, builtins.max(-low, high) / 2, error, keys, what)
    middle = (a + b) * 0.5
    result: Tensor = middle + half.tensor if way > 0 else middle - half.tensor
    limits = [t.bounds if isinstance(t, Tensor) else (float(np.min(t)), float(np.max(t))) for t in (a, b)]
    if limits[0] is not None and limits[1] is not None:
        pick = builtins.max if way > 0 else builtins.min
        result = inside(result, pick(limits[0][0], limits[1][0]) - error, pick(limits[0][1], limits[1][1]) + error)
    return Approximate(result, half.error)


@composite
def relu(
    x: Tensor, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns the larger of each value and 0, to `error`. Options and errors are as for `abs`.

    >>> holder.decrypt(hg.ckks.relu(w, error=0.002)).round(2) + 0
    array([0. , 0. , 0. , 0.5])
    """
    x, low, high = domain_of(real_tensor(x, "relu"), domain, "relu", guard)
    wanted = error_bound(error, 1)
    half = x * 0.5
    magnitude = _abs(half, builtins.max(-low, high) / 2, wanted, keys, "relu")
    result = Approximate(half + magnitude.tensor, magnitude.error).met(wanted, "relu")
    return inside(result, -wanted, builtins.max(high, 0.0) + wanted)


@composite
def clip(
    x: Tensor,
    low: float,
    high: float,
    *,
    error: float,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns values limited to [low, high], to `error`: (|x - low| - |x - high| + low + high) / 2. Options and errors
    are as for `abs`.

    >>> holder.decrypt(hg.ckks.clip(w, -0.5, 0.25, error=0.002)).round(2) + 0
    array([-0.5 , -0.25,  0.  ,  0.25])
    """
    if not (is_real(low) and is_real(high) and -math.inf < low < high < math.inf):
        raise _core.ParameterError(
            f"clip needs two finite limits, the lower one first, not {described(low)}, {described(high)}"
        )
    x, least, most = domain_of(real_tensor(x, "clip"), domain, "clip", guard)
    wanted = error_bound(error, 1)
    half = x * 0.5
    both = concatenate([(half - low / 2).reshape(1, *x.shape), (half - high / 2).reshape(1, *x.shape)])
    largest = (
        builtins.max(
            builtins.abs(least - low), builtins.abs(most - low), builtins.abs(least - high), builtins.abs(most - high)
        )
        / 2
    )
    magnitudes = _abs(both, largest, wanted / 2, keys, "clip")
    limited = magnitudes.tensor[0] - magnitudes.tensor[1] + (low + high) / 2
    return inside(Approximate(limited, 2 * magnitudes.error).met(wanted, "clip"), low - wanted, high + wanted)
