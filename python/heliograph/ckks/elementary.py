"""Elementary functions of encrypted reals, on an interval, with an error bound."""

from __future__ import annotations

from typing import Any, Literal

from heliograph import _core
from heliograph._common.arguments import described, is_finite_real, text_of
from heliograph._common.matrices import along_axis
from heliograph._common.operations import composite
from heliograph.ckks.approximation import Domain, Evaluator, computed, real_tensor
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Tensor


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

    This and the following functions take real values of an interval and have three options:

    - `error`: the largest error of a result, including noise. The function raises NoiseError if the tensor's noise alone
      exceeds `error`. Without `error`, the polynomial has an error of 2^-20 of the largest result, and the tensor's noise
      adds to it.
    - `domain` = (low, high), or a magnitude, declares that all values are inside; values outside give wrong results. By
      default it is the interval of the tensor's `bounds`. A short interval needs a polynomial of lower degree, so fewer
      levels.
    - `guard`: for a declared interval the result has a guard, and decryption raises OutOfIntervalError if a value was
      outside. ``guard=True`` makes a strong guard, which notices a single value among many ciphertexts that is 5% outside.
      ``guard=False`` makes no guard, also for earlier declarations (`within`).

    Raises ParameterError without an interval, or if no polynomial reaches the error there; LevelError, MissingKeyError,
    DtypeError.

    Only `exp` has `method`: "polynomial" is one polynomial, "squaring" a polynomial of x / 2^r whose result is squared r
    times, "auto" the method with fewer levels. Wherever one polynomial exists, it has fewer levels than squaring.

    >>> holder.decrypt(hg.ckks.exp(v, error=1e-4)).round(3)  # v holds 0.25, 0.5, 1 and 2
    array([1.284, 1.649, 2.718, 7.389])
    """
    text_of(method, "method", ("auto", "polynomial", "squaring"))
    return computed("exp", x, error, domain, guard, keys, more=(method,))


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
    return computed("log", x, error, domain, guard, keys)


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
    return computed("sigmoid", x, error, domain, guard, keys)


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
    return computed("tanh", x, error, domain, guard, keys)


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
    return computed("gelu", x, error, domain, guard, keys)


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
    return computed("erf", x, error, domain, guard, keys)


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
    return computed("sin", x, error, domain, guard, keys)


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
    return computed("cos", x, error, domain, guard, keys)


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
    relative error. The function takes the number of steps that needs the fewest levels in total.

    >>> holder.decrypt(hg.ckks.inverse(v, error=1e-4)).round(3)
    array([4. , 2. , 1. , 0.5])
    """
    return computed("inverse", x, error, domain, guard, keys)


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
    return computed("rsqrt", x, error, domain, guard, keys)


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
    return computed("sqrt", x, error, domain, guard, keys)


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
    """Returns a / b, by the inverse of b. `domain` is the interval of b and must not contain 0; `error` is the error of
    1/b.

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
    """Returns each value to the power of a known number. An exponent that is not an integer needs an interval above 0; a
    negative exponent needs an interval without 0. Options and errors are as for `exp`.

    >>> holder.decrypt(hg.ckks.power(v, 1.5, error=1e-4)).round(3)
    array([0.125, 0.354, 1.   , 2.828])
    """
    if not is_finite_real(exponent):
        raise _core.ParameterError(f"an exponent must be a finite number, not {described(exponent)}")
    return computed("power", x, error, domain, guard, keys, more=(float(exponent),))


def inverse_root(x: Tensor, low: float, high: float, relative: float, what: str) -> tuple[Tensor, float, float]:
    """Returns y, r and e with |y - f(x)| <= r f(x) + e for f(x) = 1 / sqrt(x) on [low, high]. `what` names the guard."""
    made: tuple[Tensor, float, float] = _core.ckks.functions.inverse_root(
        Evaluator(x, None, what), x, low, high, relative, what
    )
    return made


def inverse_root_from_zero(x: Tensor, low: float, high: float, relative: float, what: str) -> tuple[Tensor, float]:
    """Returns 1 / sqrt(x) and its relative error for values of at least `low`. Values between 0 and `low` give smaller
    results than 1 / sqrt(x). `what` names the guard."""
    made: tuple[Tensor, float] = _core.ckks.functions.inverse_root_from_zero(
        Evaluator(x, None, what), x, low, high, relative, what
    )
    return made


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
    return _along("softmax", x, axis, None, domain, guard, keys)


@composite
def logsumexp(
    x: Tensor,
    axis: int | Literal["slots"],
    *,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns log(sum(exp(x))) along an axis of ciphertexts, or over the slots, in every slot. Options and errors are those
    of `softmax`.

    >>> holder.decrypt(hg.ckks.logsumexp(v, "slots")).round(3)
    array([2.568, 2.568, 2.568, 2.568])
    """
    return _along("logsumexp", x, axis, None, domain, guard, keys)


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
    return _along("norm", x, axis, error, domain, guard, keys)


def _along(
    name: str, x: Any, axis: Any, error: float | None, domain: Domain, guard: bool | None, keys: EvaluationKeys | None
) -> Tensor:
    """Returns the engine's function `name` along an axis."""
    return computed(name, x, error, domain, guard, keys, axis=(along_axis(real_tensor(x, name), axis),))
