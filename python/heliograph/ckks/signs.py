"""Compositions of polynomials that approximate the sign, and the choice of a composition and of its bootstraps.

Source: Lee, Lee, No, Kang, Kang, ePrint 2020/834. scripts/sign_composites.py computes the polynomials.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from heliograph import _core
from heliograph._common.tensor import keys_of
from heliograph.ckks.approximation import Errors, Floats, errors_of, guard_name, with_errors, without_errors
from heliograph.ckks.automatic import automatic_now, ready
from heliograph.ckks.functions import polynomial_depth
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.parameters import Parameters, tried
from heliograph.ckks.tensor import Tensor

_SLACK = 2.0**-6  #: share of a polynomial's domain that noise may use up (scripts/sign_composites.py)
_GROWTH_MARGIN = 1.1  #: of a derivative measured on points
_GROWTH_POINTS = 6001
# Modular products of n16-b10-h (hg.forecast), in those of one product of tensors at the top level.
_PRODUCTS = {7: 4.0, 15: 5.6, 31: 7.2}  #: of a polynomial by its degree
BOOTSTRAP_PRODUCTS = 47  #: of a bootstrap
_SECOND_ITERATION = 1.39  #: of a bootstrap's second iteration, in bootstraps
_MOST_ITERATIONS = 2


@dataclass(frozen=True)
class Composite:
    """Odd polynomials whose composition is within `error` of the sign for gap <= |x| <= 1."""

    gap: float
    error: float
    error_of_abs: float  #: largest distance of x times the composition from |x| on [-1, 1]
    degrees: tuple[int, ...]
    place: int  #: in the table

    @functools.cached_property
    def depths(self) -> tuple[int, ...]:
        return tuple(polynomial_depth(degree) for degree in self.degrees)

    @functools.cached_property
    def stages(self) -> tuple[Floats, ...]:
        stages = []
        for odd in _rows()[self.place]["odd"]:
            coefficients = np.zeros(2 * len(odd))
            coefficients[1::2] = odd
            stages.append(coefficients)
        return tuple(stages)

    @functools.cached_property
    def _growing(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        low, lows, growths = self.gap * (1 - _SLACK), [], []
        for place, stage in enumerate(self.stages):
            x = low ** np.linspace(1, 0, _GROWTH_POINTS)
            lows.append(low)
            growths.append(float(np.abs(_slope(self.stages[place:], x)).max()) * _GROWTH_MARGIN)
            low = _least(stage, low) * (1 - _SLACK)
        return tuple(lows), tuple(growths)

    @property
    def lows(self) -> tuple[float, ...]:
        """Lower ends of the polynomials' domains."""
        return self._growing[0]

    @property
    def growths(self) -> tuple[float, ...]:
        """Largest derivative of the composition from each polynomial to the last, on its domain."""
        return self._growing[1]

    @functools.cached_property
    def growths_of_abs(self) -> tuple[float, ...]:
        """Largest value on [-1, 1] of |x| times the derivative from each polynomial to the last."""
        x = np.concatenate([np.linspace(0, self.gap, 4001), self.gap ** np.linspace(1, 0, _GROWTH_POINTS)])
        growths, value = [], x
        for place, stage in enumerate(self.stages):
            growths.append(float((x * np.abs(_slope(self.stages[place:], value))).max()) * _GROWTH_MARGIN)
            value = np.asarray(chebyshev.chebval(value, stage))
        return tuple(growths)

    @property
    def cost(self) -> tuple[int, float]:
        """Levels and products."""
        return sum(self.depths), sum(_PRODUCTS[degree] for degree in self.degrees)


@functools.cache
def _rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(resources.files("heliograph.ckks").joinpath("sign_composites.json").read_text())
    return found


@functools.cache
def _composites() -> tuple[Composite, ...]:
    return tuple(
        Composite(
            2.0 ** -row["gap_bits"], 2.0 ** -row["error_bits"], 2.0 ** -row["abs_error_bits"], tuple(row["degrees"]), place
        )
        for place, row in enumerate(_rows())
    )


def _least(stage: Floats, low: float) -> float:
    """Returns the smallest value of a polynomial on [low, 1]: its dips are too narrow for a grid."""
    roots = chebyshev.chebroots(chebyshev.chebder(stage))
    turns = roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > low) & (roots.real < 1)]
    return float(chebyshev.chebval(np.concatenate([[low, 1], turns]), stage).min())


def _slope(stages: tuple[Floats, ...], x: Floats) -> Floats:
    """Returns the derivative of a composition."""
    value: Floats = x
    slope: Floats = np.ones_like(x)
    for each in stages:
        slope = np.asarray(slope * chebyshev.chebval(value, chebyshev.chebder(each)))
        value = np.asarray(chebyshev.chebval(value, each))
    return slope


def _fitting(gap: float, error: float) -> list[Composite]:
    """Returns the compositions for |x| in [gap, 1]. Raises ParameterError if there is none."""
    fitting = [c for c in _composites() if c.gap <= gap * (1 + 2.0**-20) and c.error <= error]
    if fitting:
        return fitting
    least = min(_composites(), key=lambda c: (c.gap, c.error))
    raise _core.ParameterError(
        f"no composition separates values 2^{math.log2(gap):.1f} of the largest apart with an error of "
        f"2^{math.log2(error):.1f}; the limits are 2^{math.log2(least.gap):.0f} and 2^{math.log2(least.error):.1f}"
    )


def _fitting_abs(error: float) -> list[Composite]:
    """Returns the compositions for |x| on [-1, 1]. Raises ParameterError if there is none."""
    fitting = [c for c in _composites() if c.error_of_abs <= error]
    if fitting:
        return fitting
    least = min(c.error_of_abs for c in _composites())
    raise _core.ParameterError(
        f"no composition gives magnitudes to 2^{math.log2(error):.1f} of the largest; the limit is 2^{math.log2(least):.1f}"
    )


@dataclass(frozen=True)
class Plan:
    """A composition, and the iterations of the bootstrap before each polynomial.

    An iteration count of 0 is no bootstrap; None leaves the decision to `ready`.
    """

    composition: Composite
    has_gap: bool
    iterations: tuple[int | None, ...]

    @property
    def growths(self) -> tuple[float, ...]:
        return self.composition.growths if self.has_gap else self.composition.growths_of_abs


def _plan(x: Tensor, candidates: list[Composite], has_gap: bool, error: float, scaling: int, after: int = 0) -> Plan:
    """Returns the cheapest plan for x. `error`: that of the composition and its bootstraps; `scaling`: 1 if x takes a level
    before the first polynomial; `after`: levels above the bootstrapping level that remain for later operations.

    Without `hg.ckks.auto_bootstrap`, and if no plan meets the error, it is the composition of the fewest levels.
    """
    auto = automatic_now()
    if auto is not None and x.parameters.bootstrapping_level:
        found = _cheapest(x, candidates, has_gap, error, scaling, after)
        if found is None and after:
            found = _cheapest(x, candidates, has_gap, error, scaling, 0)
        if found is not None:
            return found
    shortest = min(candidates, key=lambda c: c.cost)
    return Plan(shortest, has_gap, (None,) * len(shortest.stages))


def _cheapest(
    x: Tensor, candidates: list[Composite], has_gap: bool, error: float, scaling: int, after: int
) -> Plan | None:  # fmt: skip
    parameters = x.parameters
    top = parameters.levels
    precise = {k: 2.0 ** -parameters.bootstrapping_precision(iterations=k) for k in range(1, _MOST_ITERATIONS + 1)}
    best: tuple[float, Plan] | None = None
    for c in candidates:
        depths = (c.depths[0] + scaling, *c.depths[1:])
        for places in itertools.product((False, True), repeat=len(depths)):
            levels = _levels(x.level, top, parameters.bootstrapping_level, depths, places)
            if levels is None or levels[-1] - depths[-1] < parameters.bootstrapping_level + after:
                continue
            time = sum(_PRODUCTS[d] * at / top for d, at in zip(c.degrees, levels, strict=True))
            if best is not None and time + sum(places) * BOOTSTRAP_PRODUCTS >= best[0]:
                continue
            iterations = _iterations(Plan(c, has_gap, ()), places, precise, error, parameters)
            if iterations is None:
                continue
            time += sum(BOOTSTRAP_PRODUCTS * (1 + _SECOND_ITERATION * (k - 1)) for k in iterations if k)
            if best is None or time < best[0]:
                best = time, Plan(c, has_gap, iterations)
    return None if best is None else best[1]


def _levels(
    level: int, top: int, entry: int, depths: tuple[int, ...], places: tuple[bool, ...]
) -> tuple[int, ...] | None:  # fmt: skip
    """Returns the level at which each polynomial starts; None if levels do not suffice."""
    found = []
    for depth, bootstraps in zip(depths, places, strict=True):
        if bootstraps:
            if level < entry:
                return None
            level = top
        found.append(level)
        level -= depth
        if level < entry:
            return None
    return tuple(found)


def _iterations(
    plan: Plan, places: tuple[bool, ...], precise: dict[int, float], error: float, parameters: Parameters
) -> tuple[int, ...] | None:  # fmt: skip
    """Returns the fewest iterations of bootstraps at these places that meet `error` by their bounds; None if none do."""
    c, growths = plan.composition, plan.growths
    roundings = [_rounding(parameters, c.place, stage) for stage in range(len(c.degrees))]
    left = error - (c.error if plan.has_gap else c.error_of_abs) - roundings[-1]
    found = []
    for place, bootstraps in enumerate(places):
        before = roundings[place - 1] if place else 0.0
        left -= growths[place] * before
        for k, noise in (precise if bootstraps else {0: 0.0}).items():
            is_separate = not plan.has_gap or before + noise <= c.lows[place] * _SLACK
            if is_separate and growths[place] * noise <= left / 2:
                found.append(k)
                left -= growths[place] * noise
                break
        else:
            return None
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _rounding(parameters: Parameters, place: int, stage: int) -> float:
    """Returns the error bound of a polynomial's roundings, by an evaluation on the `null` device."""
    coefficients = _composites()[place].stages[stage].tolist()

    def error(secret: Any, keys: Any) -> float:
        x = secret.encrypt(np.zeros((1, parameters.slots)), False, parameters.levels, None, (-1.0, 1.0))
        y = _core.ckks.evaluate_polynomial(_core.ckks.with_error(x, 0.0, 0.0), coefficients, True, keys, None, "")
        return float(_core.ckks.error_bounds(y)[1])

    return tried(parameters, error)


def cost_of_signs(x: Tensor, largest: float, gap: float, error: float) -> float | None:
    """Returns the time of `signs_of` in products at the top level, or None if levels do not suffice.

    Levels count as a share of the bootstrap that restores them, if the set has bootstrapping.
    """
    parameters, scale = x.parameters, _scale_of(largest)
    plan = _plan(x, _fitting(gap * scale, error * 0.75), True, error, int(scale != 1))
    top, entry, level, time = parameters.levels, max(1, parameters.bootstrapping_level), x.level, 0.0
    depths = (plan.composition.depths[0] + int(scale != 1), *plan.composition.depths[1:])
    for depth, degree, iterations in zip(depths, plan.composition.degrees, plan.iterations, strict=True):
        if iterations:
            level, time = top, time + BOOTSTRAP_PRODUCTS * (1 + _SECOND_ITERATION * (iterations - 1))
        time += _PRODUCTS[degree] * level / top
        level -= depth
        if level < entry:
            return None
    if not parameters.bootstrapping_level:
        return time
    return time + BOOTSTRAP_PRODUCTS * (x.level - level) / parameters.depth_between


@dataclass(frozen=True)
class Signs:
    """Signs of a tensor's values. Their error is the sum of both errors."""

    tensor: Tensor
    composition: Composite
    noise: Errors

    def total(self) -> Errors:
        return self.composition.error + self.noise[0], self.composition.error + self.noise[1]


def signs_of(
    x: Tensor, largest: float, gap: float, error: float, keys: EvaluationKeys | None, what: str, after: int = 0
) -> Signs:  # fmt: skip
    """Returns signs of values in [-largest, largest] to `error`, of which the composition takes at most 3/4.

    `after`: levels that the next operations take. A plan of bootstraps leaves them if it can.
    """
    if gap > largest:
        raise _core.ParameterError(f"{what}: the gap {gap:.6g} is above the largest value, {largest:.6g}")
    scale = _scale_of(largest)
    return _composed(x, scale, _fitting(gap * scale, error * 0.75), True, error, keys, what, after)


def signs_for_abs(x: Tensor, largest: float, error: float, keys: EvaluationKeys | None, what: str) -> tuple[Signs, float]:
    """Returns s with |x s - |x|| <= error for values in [-largest, largest], and the factor 1/scale of its noise."""
    scale = _scale_of(largest)
    found = _composed(x, scale, _fitting_abs(error * 0.95 * scale), False, error * scale, keys, what)
    return found, scale


def _scale_of(largest: float) -> float:
    """Returns the factor after which the largest value is at most 1."""
    return 1.0 if 0.5 <= largest <= 1 else 1 / largest


def _composed(
    x: Tensor, scale: float, candidates: list[Composite], has_gap: bool, error: float, keys: EvaluationKeys | None,
    what: str, after: int = 0,
) -> Signs:  # fmt: skip
    """Evaluates a composition. With a gap, the noise is that of values from the gap on; without, it is divided by |u|."""
    own_keys = keys_of([x], keys, what)
    plan = _plan(x, candidates, has_gap, error, int(scale != 1), after)
    composition = plan.composition
    guard = guard_name(what, -1 / scale, 1 / scale)
    noise, u = [0.0, 0.0], x
    for place, (stage, depth) in enumerate(zip(composition.stages, composition.depths, strict=True)):
        scaling = place == 0 and scale != 1
        u = _bootstrapped(u, plan.iterations[place], depth + int(scaling), own_keys)
        if scaling:
            u = u * scale
        before = errors_of(u)
        if has_gap and before[1] > composition.lows[place] * _SLACK:
            raise _core.NoiseError(
                f"{what}: the tensor's error, up to 2^{math.log2(before[1]):.1f}, is above 2^-6 of the smallest value "
                f"to tell from 0, 2^{math.log2(composition.lows[place]):.1f} here; take a larger gap or a set of higher "
                "precision"
            )
        noise = [t + plan.growths[place] * e for t, e in zip(noise, before, strict=True)]
        y = without_errors(u)._polynomial(stage, "chebyshev", guard, own_keys)
        u = with_errors(y, errors_of(y))
    last = errors_of(u)
    return Signs(u, composition, (noise[0] + last[0], noise[1] + last[1]))


def _bootstrapped(u: Tensor, iterations: int | None, levels: int, keys: EvaluationKeys) -> Tensor:
    if iterations is None:
        return ready(u, levels, keys)
    auto = automatic_now()
    if not iterations or auto is None:
        return u
    made: Tensor = auto._bootstrapped(u, keys, iterations)
    return made
