"""Functions of encrypted reals by polynomials, with an error bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from heliograph import _core
from heliograph._common.arguments import count_of, described, flag, interval_of, is_real
from heliograph._common.operations import composite
from heliograph._common.tensor import keys_of, of_tensors
from heliograph.ckks.automatic import ready
from heliograph.ckks.functions import polynomial_depth
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Tensor
from heliograph.keys import NotingKeys

Floats = npt.NDArray[np.float64]
Errors = tuple[float, float]  #: trusted and assumed error bounds of every slot; NaN is unknown

DEFAULT_ERROR = 2.0**-20  #: of the largest value
MOST_DEPTH = 10  #: levels of a fitted polynomial
_POINTS = 8  #: points of the check of a fit, for each degree
_REACH = 1 / math.cos(math.pi / (2 * _POINTS))  #: at most this times the largest value on these points (Ehlich and Zeller)


def errors_of(x: Tensor) -> Errors:
    """Returns the error bounds of every slot."""
    trusted, assumed = _core.ckks.error_bounds(x._core)
    return trusted, assumed


def with_errors(x: Tensor, errors: Errors) -> Tensor:
    """Returns x with other error bounds."""
    return x._narrowed(_core.ckks.with_error, *errors)


def without_errors(x: Tensor) -> Tensor:
    """Returns x with error bounds 0, so that a result's bounds are those of the operations alone."""
    return with_errors(x, (0.0, 0.0))


def inside(x: Tensor, low: float, high: float) -> Tensor:
    """Returns x with narrower bounds on its values, which the caller has proved."""
    return x._narrowed(_core.ckks.inside, low, high)


def real_tensor(x: Any, what: str) -> Tensor:
    """Returns x, a tensor of real numbers. Raises DtypeError."""
    tensor: Tensor = of_tensors([x], Tensor, what)[0]
    if tensor.dtype == np.complex128:
        raise _core.DtypeError(f"{what} takes real numbers, not complex ones")
    return tensor


def error_bound(error: Any, largest: float) -> float:
    """Returns the error of a function whose largest value is `largest`. Raises ParameterError."""
    if error is None:
        return DEFAULT_ERROR * largest
    if not is_real(error) or not 0 < error < math.inf:
        raise _core.ParameterError(f"an error must be a number above 0, not {described(error)}")
    return float(error)


def domain_of(x: Tensor, domain: Any, what: str, guard: bool | None = None) -> tuple[Tensor, float, float]:
    """Returns x and the interval of its values: declared by the caller, or the tracked bounds.

    With ``guard=False`` polynomials make no guard for declared bounds of the result, with ``guard=True`` a strong one.

    Raises ParameterError if neither exists, and PlaintextRangeError for a declared domain outside which no value can be.
    """
    if guard is not None:
        x, low, high = domain_of(x, domain, what)
        return x._guarded(guard), low, high
    if domain is None:
        if x.bounds is None:
            raise _core.ParameterError(
                f"{what} needs an interval of the values: this tensor has no bounds; pass domain=(low, high)"
            )
        return x, *x.bounds
    low, high = interval_of(domain)
    if x.bounds is not None and (x.bounds[0] > high or x.bounds[1] < low):
        if issubclass(type(x._keys), NotingKeys):  # a trial with zeros, to find the keys
            return x + (low + high) / 2, low, high
        raise _core.PlaintextRangeError(
            f"{what}: all values are in [{x.bounds[0]:.6g}, {x.bounds[1]:.6g}], outside the domain [{low:.6g}, {high:.6g}]"
        )
    return x.within((low, high)), low, high


def met(y: Tensor, errors: Errors, error: float | None, what: str) -> Tensor:
    """Returns y with its error bounds. Raises NoiseError if they are above the `error` that the caller asked for."""
    if error is not None and errors[1] > error:
        raise _core.NoiseError(
            f"{what}: the error is at most 2^{math.log2(errors[1]):.1f}, above the 2^{math.log2(error):.1f} asked for; "
            "encrypt with a set of higher precision, or pass a larger error="
        )
    return with_errors(y, errors)


class Approximation:
    """A function's polynomial on an interval; calling it applies it to a tensor. `hg.ckks.approximate` makes it.

    - `low`, `high`: the interval.
    - `error`: largest distance from the function there, without the noise of encryption. If `is_relative` is true, it is
      divided by the magnitude of the function's value.
    - `coefficients` of the Chebyshev polynomials of the interval, and their `degree`.
    - `depth`: number of levels.

    >>> f = hg.ckks.approximate(np.cosh, -1, 1, error=2**-20)
    >>> f.degree, f.depth
    (6, 3)
    """

    def __init__(self, name: str, low: float, high: float, coefficients: Floats, error: float, is_relative: bool) -> None:
        self.name, self.low, self.high, self.coefficients = name, low, high, coefficients
        self.error, self.is_relative = error, is_relative

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return len(self.coefficients) - 1

    @property
    def depth(self) -> int:
        """Number of levels, that of scaling to [-1, 1] included."""
        return polynomial_depth(self.degree) + (not self._is_unit())

    def _is_unit(self) -> bool:
        return (self.low, self.high) == (-1, 1)

    def __repr__(self) -> str:
        kind = "relative error" if self.is_relative else "error"
        return (
            f"<approximation of {self.name} on [{self.low:.6g}, {self.high:.6g}]: degree {self.degree}, {self.depth} "
            f"levels, {kind} 2^{math.log2(self.error) if self.error else -math.inf:.1f}>"
        )

    def clear(self, values: npt.ArrayLike) -> Floats:
        """Returns the polynomial at numbers that are not encrypted. Raises PlaintextRangeError outside the interval.

        >>> hg.ckks.approximate(np.cosh, -1, 1, error=2**-20).clear([0, 1]).round(5)
        array([1.     , 1.54308])
        """
        x = np.asarray(values, dtype=np.float64)
        if x.size and not (self.low <= x.min() and x.max() <= self.high):
            raise _core.PlaintextRangeError(f"values must be in [{self.low:.6g}, {self.high:.6g}]")
        return np.asarray(chebyshev.chebval(self._scaled(x), self.coefficients))

    def _scaled(self, x: Any) -> Any:
        if self._is_unit():
            return x
        half = (self.high - self.low) / 2
        return x * (1 / half) - (self.high + self.low) / (2 * half)

    def _largest(self) -> float:
        """Returns the largest magnitude of the polynomial, rounded up."""
        angles = np.linspace(0, np.pi, _POINTS * max(1, self.degree) + 1)
        return float(np.abs(chebyshev.chebval(np.cos(angles), self.coefficients)).max()) * _REACH

    @composite
    def __call__(self, x: Tensor, *, guard: bool | None = None, keys: EvaluationKeys | None = None) -> Tensor:
        """Returns the function's values. The result's `precision` includes the error of the approximation.

        If only a declaration (`within`) shows that the values are inside the interval, the result has a guard: decryption
        raises OutOfIntervalError if a value was outside. ``guard=True`` makes a strong one, ``guard=False`` none
        (`hg.ckks.exp`).

        Raises PlaintextRangeError if the values may be outside the interval by their bounds (`within` declares others),
        LevelError, MissingKeyError, DtypeError for complex values.
        """
        real = real_tensor(x, self.name)
        return self._of(real if guard is None else real._guarded(guard), keys, self.name)

    def _of(self, x: Tensor, keys: EvaluationKeys | None, name: str) -> Tensor:
        """Returns the values of a real tensor. A guard has the `name`."""
        require_inside(x, self.low, self.high, self.name)
        own_keys = keys_of([x], keys, self.name)
        if self.degree == 0:
            return with_errors(x * 0.0 + float(self.coefficients[0]), (self.error, self.error))
        u = self._scaled(ready(x, self.depth, own_keys))
        y = u._polynomial(self.coefficients, "chebyshev", guard_name(name, self.low, self.high), own_keys)
        more = self.error * self._largest() if self.is_relative else self.error
        trusted, assumed = errors_of(y)
        return with_errors(y, (trusted + more, assumed + more))


def guard_name(what: str, low: float, high: float) -> str:
    """Returns the name of a guard: an operation and the interval of its argument."""
    return f"{what} on [{low:.6g}, {high:.6g}]"


def require_inside(x: Tensor, low: float, high: float, what: str) -> None:
    """Raises PlaintextRangeError unless the bounds of x are inside [low, high], up to the rounding of stored bounds."""
    slack = (high - low) * 2.0**-14
    if x.bounds is None or x.bounds[0] < low - slack or x.bounds[1] > high + slack:
        have = "have no bounds" if x.bounds is None else f"may be in [{x.bounds[0]:.6g}, {x.bounds[1]:.6g}]"
        raise _core.PlaintextRangeError(
            f"{what} takes values in [{low:.6g}, {high:.6g}], but these {have}; widen the interval, or declare that all "
            f"values are inside: hg.ckks.within(x, ({low:.6g}, {high:.6g}))"
        )


def approximate(
    f: Callable[[Any], Any],
    low: float,
    high: float,
    *,
    error: float | None = None,
    relative: bool = False,
    depth: int | None = None,
) -> Approximation:
    """Fits a polynomial to a function of a real number on [low, high].

    `f` takes an array of numbers and returns as many (`numpy.vectorize` makes such a function). The polynomial has the
    smallest degree whose largest distance from `f` is below `error`, by default 2^-20 of the largest |f|. With
    ``relative=True`` the distance is divided by |f|, and the default is 2^-20. With `depth` instead of `error` it is the
    best polynomial of that many levels.

    The error is measured between the points of the fit. A function with a jump or a kink needs a high degree; `sign`, `abs`
    and `where` are better there.

    Raises ParameterError if no polynomial of 10 levels reaches the error, or for an invalid interval; PlaintextRangeError if
    f is not finite on the interval.

    >>> logistic = hg.ckks.approximate(lambda v: 1 / (1 + np.exp(-v)), -8, 8, error=1e-4)
    >>> logistic
    <approximation of <lambda> on [-8, 8]: degree 23, 6 levels, error 2^-14.0>
    """
    if not callable(f):
        raise _core.ParameterError(f"approximate takes a function, not {described(f)}")
    low, high = interval_of((low, high))
    if low == high:
        raise _core.ParameterError(f"an interval must have two different ends, not [{low:.6g}, {high:.6g}]")
    if error is not None and depth is not None:
        raise _core.ParameterError("approximate takes an error or a depth, not both")
    relative = flag(relative, "relative")
    name = str(getattr(f, "__name__", type(f).__name__))
    fit = _Fit(f, low, high, relative, name)
    if depth is not None:
        levels = count_of(depth, "depth", 1) - ((low, high) != (-1, 1))
        if not 1 <= levels <= MOST_DEPTH:
            raise _core.ParameterError(f"depth must be 1 to {MOST_DEPTH} levels, and one more to scale values to [-1, 1]")
        return fit.best(2**levels - 1)
    return fit.smallest(error_bound(error, 1 if relative else fit.largest()))


class _Fit:
    """Fits of one function."""

    def __init__(self, f: Callable[[Any], Any], low: float, high: float, relative: bool, name: str) -> None:
        self.f, self.low, self.high, self.relative, self.name = f, low, high, relative, name

    def values(self, points: Floats) -> Floats:
        """Returns f at points of [-1, 1], mapped to the interval."""
        x = np.clip((self.high + self.low) / 2 + (self.high - self.low) / 2 * points, self.low, self.high)
        with np.errstate(all="ignore"):
            y = np.asarray(self.f(x))
        if y.shape != x.shape or y.dtype.kind not in "biuf":
            raise _core.ParameterError(
                f"{self.name} must return one real number for each number of an array; see numpy.vectorize"
            )
        bad = np.flatnonzero(~np.isfinite(y.astype(np.float64)))
        if bad.size:
            raise _core.PlaintextRangeError(f"{self.name} is not finite at {x[bad[0]]:.6g}")
        if self.relative and (np.any(y == 0) or np.any(np.sign(y) != np.sign(y[0]))):
            raise _core.ParameterError(
                f"{self.name} has a zero in the interval; a relative error needs a function without zeros"
            )
        return y.astype(np.float64)

    def largest(self) -> float:
        largest = float(np.abs(self.values(np.cos(np.linspace(0, np.pi, 1025)))).max())
        return largest if largest > 0 else 1.0

    def best(self, degree: int) -> Approximation:
        """Returns the polynomial of a degree. Its error is measured on other points, with a margin."""
        nodes = np.cos(np.pi * (np.arange(2 * degree + 2) + 0.5) / (2 * degree + 2))
        y = self.values(nodes)
        basis = chebyshev.chebvander(nodes, degree)
        if self.relative:
            coefficients = np.asarray(np.linalg.lstsq(basis / y[:, None], np.ones(len(y)), rcond=None)[0], dtype=np.float64)
        else:  # interpolation at the Chebyshev points of a higher degree, cut: near the minimax polynomial
            coefficients = np.asarray(basis.T @ y * (2 / len(nodes)), dtype=np.float64)
            coefficients[0] /= 2
        return Approximation(self.name, self.low, self.high, coefficients, self._error(coefficients), self.relative)

    def _error(self, coefficients: Floats) -> float:
        points = np.concatenate([np.cos(np.linspace(0, np.pi, 16 * len(coefficients) + 129)), np.linspace(-1, 1, 4097)])
        y = self.values(points)
        distance = np.abs(chebyshev.chebval(points, coefficients) - y)
        rounding = 2.0**-50 * float(np.abs(coefficients).sum())
        return float((distance / np.abs(y) if self.relative else distance).max()) * 1.02 + rounding

    def smallest(self, error: float) -> Approximation:
        """Returns the polynomial of the smallest degree within an error."""
        high = 1
        while (found := self.best(high)).error > error:
            if high >= 2**MOST_DEPTH - 1:
                raise _core.ParameterError(
                    f"no polynomial of degree {high} approximates {self.name} on [{self.low:.6g}, {self.high:.6g}] to "
                    f"2^{math.log2(error):.1f}; its error is 2^{math.log2(found.error):.1f}. Take a narrower interval or a "
                    "larger error"
                )
            high = 2 * high + 1
        low = (high - 1) // 2
        while high - low > 1:
            middle = (low + high) // 2
            if (tried := self.best(middle)).error <= error:
                high, found = middle, tried
            else:
                low = middle
        return found
