"""Elementary functions of encrypted reals, on an interval, with an error bound."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from heliograph import _core
from heliograph._common.arguments import described, interval_of, is_real, text_of
from heliograph._common.matrices import along_axis
from heliograph._common.operations import composite
from heliograph._common.tensor import keys_of
from heliograph.ckks.approximation import (
    DEFAULT_ERROR,
    Approximation,
    Errors,
    Floats,
    approximate,
    domain_of,
    error_bound,
    errors_of,
    inside,
    met,
    real_tensor,
    require_inside,
    without_errors,
)
from heliograph.ckks.automatic import ready
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Tensor

Domain = tuple[float, float] | float | None
_START_DEPTHS = (2, 3, 4, 5, 6)  #: levels of the polynomial from which Newton's method starts
_MOST_STEPS = 20
_MOST_WIDTH = 8.0  #: of an interval for the polynomial of exp before squarings


@functools.lru_cache(maxsize=256)
def _fitted(name: str, low: float, high: float, error: float | None) -> Approximation:
    found = approximate(_FUNCTIONS[name], low, high, error=error)
    found.name = name
    return found


def _logistic(v: Floats) -> Floats:
    return 1 / (1 + np.exp(-v))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(v: Floats) -> Floats:
    return np.asarray(v * (1 + _erf(v / math.sqrt(2))) / 2)


_FUNCTIONS: dict[str, Callable[[Floats], Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v), "inverse": lambda v: 1 / v,
    "sigmoid": _logistic, "tanh": np.tanh, "gelu": _gelu, "erf": _erf, "sin": np.sin, "cos": np.cos,
}  # fmt: skip


def _apply(
    name: str,
    x: Any,
    error: float | None,
    domain: Domain,
    guard: bool | None,
    keys: EvaluationKeys | None,
    what: str | None = None,
) -> Tensor:
    """Returns a function by one polynomial on the interval of x. Its guard has the name `what`, by default `name`."""
    x, low, high = domain_of(real_tensor(x, name), domain, name, guard)
    low, high = _not_a_point(low, high)
    if error is not None:
        error = error_bound(error, 1)
    f = _fitted(name, low, high, None if error is None else error / 2)
    y = f._of(x, keys, what or name)
    return met(y, errors_of(y), error, name)


def _not_a_point(low: float, high: float) -> tuple[float, float]:
    """Returns an interval of positive length that contains the given one."""
    margin = 2.0**-10 * (abs(low) or 1.0)
    return (low, high) if low < high else (low - margin, high + margin)


@composite
def exp(
    x: Tensor,
    *,
    error: float | None = None,
    method: Literal["auto", "polynomial", "squaring"] = "auto",
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns e to the power of each value.

    This and the following functions take real values of an interval and have two options:

    - `error`: the largest error of a result, noise included. NoiseError is raised if the tensor's noise alone exceeds it.
      Without it the polynomial's error is 2^-20 of the largest result, and `precision` and the tensor's noise decide.
    - `domain` = (low, high), or a magnitude, declares that all values are inside; values outside give wrong results. By
      default it is the interval of the tensor's `bounds`. A short interval needs a polynomial of lower degree, so fewer
      levels.
    - `guard`: for a declared interval the result has a guard, and decryption raises OutOfIntervalError if a value was
      outside. ``guard=True`` makes a strong one, which notices a value among many ciphertexts that is 5% outside.
      ``guard=False`` makes none, also for declarations before (`within`).

    Raises ParameterError without an interval, or if no polynomial reaches the error there; LevelError, MissingKeyError,
    DtypeError.

    `method` of `exp` alone: "polynomial" is one polynomial, "squaring" a polynomial of x / 2^r whose result is squared r
    times, "auto" the one with fewer levels. One polynomial has fewer levels on every interval where one exists.

    >>> holder.decrypt(hg.ckks.exp(v, error=1e-4)).round(3)  # v holds 0.25, 0.5, 1 and 2
    array([1.284, 1.649, 2.718, 7.389])
    """
    text_of(method, "method", ("auto", "polynomial", "squaring"))
    x, low, high = domain_of(real_tensor(x, "exp"), domain, "exp", guard)
    low, high = _not_a_point(low, high)
    wanted = None if error is None else error_bound(error, 1)
    f, squarings = _exp_plan(low, high, wanted, method)
    own_keys = keys_of([x], keys, "exp")
    y, least, most = f._of(x, own_keys, "exp"), math.exp(low / 2**squarings), math.exp(high / 2**squarings)
    slack = 2 * f.error if f.is_relative else 0.0
    for _ in range(squarings):
        y = ready(inside(y, least * (1 - slack), most * (1 + slack)), 1, own_keys)
        y, least, most, slack = y.multiply(y, keys=own_keys), least**2, most**2, 2 * slack + slack**2
    return met(y, errors_of(y), wanted, "exp")


_MOST_SQUARINGS = 16
_MOST_EXPONENT = 700.0


def _exp_of_part(r: int) -> Callable[[Floats], Floats]:
    """Returns exp(v / 2^r)."""
    return lambda v: np.asarray(np.exp(v / 2**r))


@functools.lru_cache(maxsize=256)
def _exp_plan(low: float, high: float, error: float | None, method: str) -> tuple[Approximation, int]:
    """Returns a polynomial and the number of squarings after it, with the fewest levels. Raises ParameterError."""
    if high > _MOST_EXPONENT:
        raise _core.PlaintextRangeError(f"exp of values up to {high:.6g} exceeds the largest float")
    found: list[tuple[Approximation, int]] = []
    refused: _core.ParameterError | None = None
    if method != "squaring":
        try:
            found.append((_fitted("exp", low, high, None if error is None else error / 2), 0))
        except _core.ParameterError as why:
            if method == "polynomial":
                raise
            refused = why
    if method == "squaring" or not found:
        relative = DEFAULT_ERROR if error is None else min(0.5, error / 2 / math.exp(high))
        for r in range(1, _MOST_SQUARINGS + 1):
            if (high - low) / 2**r > _MOST_WIDTH:
                continue
            try:
                f = approximate(_exp_of_part(r), low, high, error=relative / 2**r / 1.05, relative=True)
            except _core.ParameterError as why:
                refused = why
                continue
            f.name = "exp"
            found.append((f, r))
            if (high - low) / 2**r < 2:
                break
    if not found:
        raise refused or _core.ParameterError(f"exp: the interval [{low:.6g}, {high:.6g}] is too wide")
    return min(found, key=lambda plan: (plan[0].depth + plan[1], plan[0].degree))


@composite
def log(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the natural logarithm of each value. The interval must be above 0. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.log(v, error=1e-4)).round(3)
    array([-1.386, -0.693,  0.   ,  0.693])
    """
    x, low, high = _positive(x, domain, "log", guard)
    return _apply("log", x, error, (low, high), None, keys)


@composite
def sigmoid(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns 1 / (1 + exp(-x)) of each value. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.sigmoid(v, error=1e-4)).round(3)
    array([0.562, 0.622, 0.731, 0.881])
    """
    return _apply("sigmoid", x, error, domain, guard, keys)


@composite
def tanh(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the hyperbolic tangent of each value. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.tanh(v, error=1e-4)).round(3)
    array([0.245, 0.462, 0.762, 0.964])
    """
    return _apply("tanh", x, error, domain, guard, keys)


@composite
def gelu(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns x times the probability that a standard normal number is below x. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.gelu(v, error=1e-4)).round(2)
    array([0.15, 0.35, 0.84, 1.95])
    """
    return _apply("gelu", x, error, domain, guard, keys)


@composite
def erf(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the error function of each value. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.erf(v, error=1e-4)).round(2)
    array([0.28, 0.52, 0.84, 1.  ])
    """
    return _apply("erf", x, error, domain, guard, keys)


@composite
def sin(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the sine of each value, an angle in radians. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.sin(v, error=1e-4)).round(3)
    array([0.247, 0.479, 0.841, 0.909])
    """
    return _apply("sin", x, error, domain, guard, keys)


@composite
def cos(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the cosine of each value, an angle in radians. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.cos(v, error=1e-4)).round(3)
    array([ 0.969,  0.878,  0.54 , -0.416])
    """
    return _apply("cos", x, error, domain, guard, keys)


@composite
def inverse(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns 1/x of each value. The interval must not contain 0. Options and errors are as for `exp`.

    A polynomial gives a first value, and Newton's method y (2 - x y) improves it; each step takes two levels and squares the
    relative error. The number of steps with the fewest levels is taken.

    >>> holder.decrypt(hg.ckks.inverse(v, error=1e-4)).round(3)
    array([4. , 2. , 1. , 0.5])
    """
    x, low, high = domain_of(real_tensor(x, "inverse"), domain, "inverse", guard)
    if low <= 0 <= high:
        raise _core.ParameterError(f"1/x needs an interval without 0, not [{low:.6g}, {high:.6g}]; pass domain=(low, high)")
    low, high = _not_a_point(low, high)
    if high < 0:
        return -_Inverse(-high, -low, error).of(-x, keys)
    return _Inverse(low, high, error).of(x, keys)


@composite
def rsqrt(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns 1 / sqrt(x) of each value. The interval must be above 0. Options and errors are as for `exp`.

    Newton's method y (3 - x y^2) / 2 takes two levels a step.

    >>> holder.decrypt(hg.ckks.rsqrt(v, error=1e-4)).round(3)
    array([2.   , 1.414, 1.   , 0.707])
    """
    x, low, high = _positive(x, domain, "rsqrt", guard)
    return InverseRoot(low, high, error).of(x, keys)


@composite
def sqrt(
    x: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the square root of each value: x / sqrt(x), by `rsqrt`. The interval must be above 0. Options and errors
    are as for `exp`.

    >>> holder.decrypt(hg.ckks.sqrt(v, error=1e-4)).round(3)
    array([0.5  , 0.707, 1.   , 1.414])
    """
    x, low, high = _positive(x, domain, "sqrt", guard)
    most = math.sqrt(high)
    bound = error_bound(error, most)
    y, relative, rounding = InverseRoot(low, high, None, bound / (2 * most)).relative(x, keys, "sqrt")
    product = x.multiply(y, keys=keys)
    last, noise = errors_of(without_errors(x) * without_errors(y)), errors_of(x)
    # The noisy x' is at most `noise` from x, so sqrt(x') at most noise / (2 sqrt(low)) from sqrt(x).
    errors = tuple(most * relative + high * rounding[i] + last[i] + noise[i] / math.sqrt(low) for i in (0, 1))
    return inside(met(product, (errors[0], errors[1]), error, "sqrt"), 0, most * 1.001 + bound)


@composite
def divide(
    a: Any,
    b: Tensor,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns a / b, by `inverse` of b. `domain` is that of b and must not contain 0; `error` is that of 1/b.

    >>> holder.decrypt(hg.ckks.divide(v, v, error=1e-4)).round(3)
    array([1., 1., 1., 1.])
    """
    quotient: Tensor = inverse(b, error=error, domain=domain, guard=guard, keys=keys) * a
    return quotient


@composite
def power(
    x: Tensor,
    exponent: float,
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns each value to the power of a known number. Exponents that are not whole numbers need an interval above 0;
    negative ones an interval without 0. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.power(v, 1.5, error=1e-4)).round(3)
    array([0.125, 0.354, 1.   , 2.828])
    """
    if not is_real(exponent) or not math.isfinite(exponent):
        raise _core.ParameterError(f"an exponent must be a finite number, not {described(exponent)}")
    p = float(exponent)
    x, low, high = domain_of(real_tensor(x, "power"), domain, "power", guard)
    whole = p.is_integer()
    if (not whole and low <= 0) or (p < 0 and low <= 0 <= high):
        need = "above 0" if not whole else "without 0"
        raise _core.ParameterError(
            f"the power {p:g} needs an interval {need}, not [{low:.6g}, {high:.6g}]; pass domain=(low, high)"
        )
    low, high = _not_a_point(low, high)
    wanted = None if error is None else error_bound(error, 1)
    f = approximate(lambda v: v**p, low, high, error=None if wanted is None else wanted / 2)
    f.name = "power"
    y = f._of(x, keys, "power")
    return met(y, errors_of(y), wanted, "power")


def _positive(x: Any, domain: Domain, what: str, guard: bool | None) -> tuple[Tensor, float, float]:
    x, low, high = domain_of(real_tensor(x, what), domain, what, guard)
    if low <= 0:
        raise _core.ParameterError(f"{what} needs an interval above 0, not [{low:.6g}, {high:.6g}]; pass domain=(low, high)")
    low, high = _not_a_point(low, high) if low == high else (low, high)
    return x, low, high


class _Newton:
    """A function f(x) > 0 on a positive interval, as y = f(x) (1 - r) with a bound on |r|, by Newton's method."""

    name: str

    def __init__(self, low: float, high: float, error: float | None, relative: float | None = None) -> None:
        """`relative`, or half of `error`, is the largest error of the method without noise."""
        self.low, self.high = low, high
        self.given = None if error is None else error_bound(error, 1)
        self.start, self.steps = self._plan(relative or error_bound(error, self.most()) / 2 / self.most())

    def most(self) -> float:
        """Returns the largest value of f."""
        raise NotImplementedError

    def f(self, v: Floats) -> Floats:
        raise NotImplementedError

    def squared(self, relative: float) -> float:
        """Returns the bound of |r| after a step without rounding."""
        raise NotImplementedError

    def start_of(self, depth: int) -> Approximation:
        """Returns the first value, a polynomial of `depth` levels."""
        return approximate(self.f, self.low, self.high, relative=True, depth=depth)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def prepared(self, x: Tensor) -> Tensor:
        """Returns x as the steps use it."""
        return x

    def _plan(self, wanted: float) -> tuple[Approximation, int]:
        """Returns the start and the number of steps with the fewest levels that reach a relative error."""
        best: tuple[int, int, Approximation] | None = None
        for depth in _START_DEPTHS:
            start = self.start_of(depth + 1)
            reached, steps = start.error, 0
            while reached > wanted and steps <= _MOST_STEPS and reached < 0.999:
                reached, steps = self.squared(reached), steps + 1
            if reached <= wanted and (best is None or start.depth + 2 * steps < best[0]):
                best = start.depth + 2 * steps, steps, start
        if best is None:
            raise _core.ParameterError(
                f"{self.name} on [{self.low:.6g}, {self.high:.6g}] does not reach a relative error of "
                f"2^{math.log2(wanted):.1f}; take a narrower interval or a larger error"
            )
        start = best[2]
        start.name = self.name
        return start, best[1]

    def relative(self, x: Tensor, keys: EvaluationKeys | None, what: str) -> tuple[Tensor, float, Errors]:
        """Returns y, r and e with |y - f(x')| <= r f(x') + e for the noisy x'; e is the rounding. `what` names the guard."""
        require_inside(x, self.low, self.high, self.name)
        own_keys = keys_of([x], keys, self.name)
        x = without_errors(x)
        y = self.start._of(x, own_keys, what)
        least, most = (float(v) for v in sorted(self.f(np.array([self.low, self.high]))))
        of_start = self.start.error * self.start._largest()
        r, (trusted, assumed) = self.start.error, errors_of(y)
        e = (trusted - of_start, assumed - of_start)
        z = self.prepared(x)
        for _ in range(self.steps):
            total = r + max(0.0, e[1]) / least
            y = inside(without_errors(y), min(0.0, least * (1 - total)), most * (1 + total))
            y, z = ready(y, 2, own_keys), ready(z, 2, own_keys)
            y = self.step(z, y)
            # Unknown trusted bounds stay unknown: errors_of(y) has them too.
            r, e = self.squared(total), errors_of(y)
        return y, r, e

    def slope(self) -> float:
        """Returns the largest |f'|."""
        raise NotImplementedError

    def of(self, x: Tensor, keys: EvaluationKeys | None) -> Tensor:
        y, r, rounding = self.relative(x, keys, self.name)
        noise, most = errors_of(x), self.most()
        errors = tuple(most * r + rounding[i] + 1.01 * self.slope() * noise[i] for i in (0, 1))
        return inside(met(y, (errors[0], errors[1]), self.given, self.name), -most, 2 * most)


class _Inverse(_Newton):
    name = "inverse"

    def most(self) -> float:
        return 1 / self.low

    def f(self, v: Floats) -> Floats:
        return 1 / v

    def squared(self, relative: float) -> float:
        return relative**2

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        improved: Tensor = y * (2 - inside(x * y, 0, 2))
        return improved

    def slope(self) -> float:
        return 1 / self.low**2


class InverseRoot(_Newton):
    name = "rsqrt"

    def most(self) -> float:
        return 1 / math.sqrt(self.low)

    def f(self, v: Floats) -> Floats:
        return 1 / np.sqrt(v)

    def start_of(self, depth: int) -> Approximation:
        fit = super().start_of(depth)
        # Below f, r is in [0, 1), where the method converges from every r.
        down = 1 / (1 + fit.error)
        return Approximation(fit.name, fit.low, fit.high, fit.coefficients * down, 2 * fit.error * down, is_relative=True)

    def squared(self, relative: float) -> float:
        return (1.5 - 0.5 * relative) * relative**2

    def prepared(self, x: Tensor) -> Tensor:
        return x * 0.5

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        improved: Tensor = y * 1.5 - (x * y) * (y * y)
        return improved

    def slope(self) -> float:
        return float(0.5 * self.low**-1.5)


class InverseRootFromZero(InverseRoot):
    """1 / sqrt(x) to a relative error for values from `low` to `high`, and between 0 and 1 / sqrt(x) for smaller ones.

    The first value is at most 1 / sqrt(x + low), so Newton's method stays below 1 / sqrt(x) for every x from 0 on.
    """

    name = "1 / sqrt"

    def __init__(self, low: float, high: float, relative: float) -> None:
        super().__init__(low, high, None, relative)

    def start_of(self, depth: int) -> Approximation:
        fit = approximate(lambda v: 1 / np.sqrt(v + self.low), 0, self.high, relative=True, depth=depth)
        down = 1 / (1 + fit.error)
        error = 1 - (1 - fit.error) * down * math.sqrt(0.5)  # the largest one from low on, at low
        return Approximation(fit.name, 0, self.high, fit.coefficients * down, error, is_relative=True)

    def bounded(self, x: Tensor, keys: EvaluationKeys | None, what: str) -> tuple[Tensor, float]:
        """Returns y and its relative error for values from `low` on, without that of the noise of x. The bounds of y are
        those for these values; y is at most 1.5^steps times larger for smaller ones. `what` names the guard.
        """
        own_keys = keys_of([x], keys, self.name)
        x = without_errors(x)
        y = self.start._of(x, own_keys, what)
        relative = self.start.error + (errors_of(y)[1] - self.start.error * self.start._largest()) * math.sqrt(self.high)
        z, most, largest = self.prepared(x), 1 / math.sqrt(self.low), math.sqrt(self.high)
        for _ in range(self.steps):
            y = inside(without_errors(y), 0, most)
            y, z = ready(y, 2, own_keys), ready(z, 2, own_keys)
            square = y * y
            y = y * 1.5 - inside(z * y, 0, largest) * square
            # Divided by y, up to `most`: the error of z times y^3, roundings of products times y^2, y and 1.
            rounding = errors_of(square)[1]
            noise = errors_of(z)[1] / self.low + rounding * (most + 4 * largest)
            relative = self.squared(min(1.0, relative)) + noise
        return inside(y, 0, most), relative


@composite
def softmax(
    x: Tensor,
    axis: int | Literal["slots"],
    *,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns exp(x) / sum(exp(x)) along an axis of ciphertexts, or over the slots of a tensor that fills the set's period.

    `domain` is as for `exp`. A narrow interval gives a small error. For an interval of width w, `inverse` divides on an
    interval whose ends have the ratio e^w, and errors grow by up to e^(w/2). `precision` of the result states the error.
    Errors are those of `exp`.

    >>> holder.decrypt(hg.ckks.softmax(v, "slots")).round(3)
    array([0.098, 0.126, 0.208, 0.567])
    """
    x, total, along, _ = _exponentials(x, axis, domain, guard, keys, "softmax")
    share = inverse(total, keys=keys)
    if along is not None:
        share = share.reshape(*share.shape[:along], 1, *share.shape[along:])
    return inside(x.multiply(share, keys=keys), -(2.0**-8), 1 + 2.0**-8)


@composite
def logsumexp(
    x: Tensor,
    axis: int | Literal["slots"],
    *,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns log(sum(exp(x))) along an axis of ciphertexts, or over the slots, in every slot. The rest is as for `softmax`.

    >>> holder.decrypt(hg.ckks.logsumexp(v, "slots")).round(3)
    array([2.568, 2.568, 2.568, 2.568])
    """
    _, total, _, middle = _exponentials(x, axis, domain, guard, keys, "logsumexp")
    return log(total, keys=keys) + middle


def _exponentials(
    x: Any, axis: Any, domain: Domain, guard: bool | None, keys: EvaluationKeys | None, what: str
) -> tuple[Tensor, Tensor, int | None, float]:
    """Returns exp(x - c), its sum, the axis and c."""
    x, low, high = domain_of(real_tensor(x, what), domain, what, guard)
    along = along_axis(x, axis)
    if along is None and x.slots != x.parameters.period:
        raise _core.ShapeError(
            f"{what} along slots needs a tensor that fills the set's {x.parameters.period:,} slots, not {x.slots:,}"
        )
    count = x.slots if along is None else x.shape[along]
    if count == 0:
        raise _core.ShapeError(f"cannot compute {what} of no values")
    middle = (low + high) / 2
    powers = _apply("exp", x - middle, None, None, None, keys, what)
    least, most = math.exp(low - middle), math.exp(high - middle)
    margin = 2.0**-8
    if not errors_of(powers)[1] <= least * margin:  # also for an unknown error
        raise _core.NoiseError(
            f"{what}: the error of exp is not below 2^-8 of its smallest value on [{low:.6g}, {high:.6g}]; pass a narrower "
            "domain=, or use a set of higher precision"
        )
    powers = inside(powers, least * (1 - margin), most * (1 + margin))
    total = powers.sum_slots(keys=keys) if along is None else powers.sum(along)
    total = inside(total, count * least * (1 - 2 * margin), count * most * (1 + 2 * margin))
    return powers, total, along, middle


@composite
def norm(
    x: Tensor,
    axis: int | Literal["slots"],
    *,
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the Euclidean norm along an axis of ciphertexts, or over all slots: `sqrt` of the sum of squares.

    `domain` declares an interval of the norm above 0; the sum of squares alone has no lower bound. `error` is as for `exp`.

    >>> holder.decrypt(hg.ckks.norm(v, "slots", domain=(1, 4))).round(3)
    array([2.305, 2.305, 2.305, 2.305])
    """
    x = real_tensor(x, "norm")
    along = along_axis(x, axis)
    squares = x.multiply(x, keys=keys)
    total = squares.sum_slots(keys=keys) if along is None else squares.sum(along)
    if domain is None:
        raise _core.ParameterError("norm needs an interval of the norm above 0: pass domain=(low, high)")
    low, high = interval_of(domain)
    if low <= 0:
        raise _core.ParameterError(f"norm needs an interval above 0, not [{low:.6g}, {high:.6g}]")
    return sqrt(total, error=error, domain=(low**2, high**2), guard=guard, keys=keys)
