"""Functions of encrypted reals by polynomials, with an error bound."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import count_of, described, flag, has_masked, interval_of, is_finite_real, reals
from heliograph._common.functions import concatenate
from heliograph._common.operations import composite, operation
from heliograph._common.tensor import keys_of, of_tensors
from heliograph.ckks.automatic import ready
from heliograph.ckks.keys import EvaluationKeys, TrialKeys
from heliograph.ckks.linear import LinearTransform
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.tensor import Tensor
from heliograph.keys import NotingKeys

Floats = npt.NDArray[np.float64]
Errors = tuple[float, float]  #: trusted and assumed error bounds of every slot; NaN is unknown
Domain = tuple[float, float] | float | None


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
    """Returns x with narrower bounds on its values; the caller has proved these bounds."""
    return x._narrowed(_core.ckks.inside, low, high)


@operation
def doubled_parts(x: Tensor) -> Tensor:
    """Returns twice the real and twice the imaginary parts, as real tensors on a new first axis."""
    keys = keys_of([x], None, "a separation of real and imaginary parts")
    return Tensor(_core.ckks.parts_doubled(x._core, keys._for(swap=True)), keys)


def real_tensor(x: Any, what: str) -> Tensor:
    """Returns x, a tensor of real numbers. Raises DtypeError."""
    tensor: Tensor = of_tensors([x], Tensor, what)[0]
    if tensor.dtype == np.complex128:
        raise _core.DtypeError(f"{what} takes real numbers, not complex ones")
    return tensor


class Evaluator:
    """Performs each operation of a function by a method of `Tensor`, which observers and automatic bootstraps see.

    `x` is the function's operand. `keys` are the caller's keys; None selects the keys of the operand. `what` names the
    function."""

    def __init__(self, x: Tensor, keys: EvaluationKeys | None, what: str) -> None:
        self._x, self._given, self._what = x, keys, what

    @functools.cached_property
    def keys(self) -> EvaluationKeys:
        """Evaluation keys of the operations. Raises MissingKeyError."""
        return keys_of([self._x], self._given, self._what)

    def is_trial(self) -> bool:
        """Tells whether this is a trial run on zeros, which finds the keys that a function needs."""
        return issubclass(type(self._x._keys), NotingKeys)

    def ready(self, x: Tensor, levels: int) -> Tensor:
        """Returns x, bootstrapped first if it has too few levels and `auto_bootstrap` is on."""
        return ready(x, levels, self.keys)

    def polynomial(self, x: Tensor, coefficients: Sequence[float], guard: str) -> Tensor:
        """Evaluates a Chebyshev series."""
        return x._polynomial(coefficients, "chebyshev", guard, self.keys)

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Returns the product."""
        return a.multiply(b, keys=self.keys)

    def times(self, x: Tensor, factor: float) -> Tensor:
        """Returns the product with a number."""
        return x.multiply(factor, keys=self.keys)

    def plus(self, x: Tensor, summand: float) -> Tensor:
        """Returns the sum with a number."""
        return x + summand

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """Returns the sum."""
        return a + b

    def subtract(self, a: Tensor, b: Tensor) -> Tensor:
        """Returns the difference."""
        return a - b

    def negate(self, x: Tensor) -> Tensor:
        """Returns the negative."""
        return -x

    def sum(self, x: Tensor, axis: int) -> Tensor:
        """Returns the sum along an axis of ciphertexts."""
        return x.sum(axis)

    def sum_slots(self, x: Tensor) -> Tensor:
        """Returns the sum of all slots."""
        return x.sum_slots(keys=self.keys)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Returns the tensor with another shape."""
        return x.reshape(*shape)

    def index(self, x: Tensor, position: int) -> Tensor:
        """Returns an entry of the first axis."""
        return x[position]

    def concatenate(self, parts: Sequence[Tensor]) -> Tensor:
        """Returns the tensors joined along the first axis."""
        return concatenate(parts)

    def slice(self, x: Tensor, start: int, count: int) -> Tensor:
        """Returns entries of the first axis."""
        return x[start : start + count]

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Returns the tensor with its axes in another order."""
        return x.transpose(*order)

    def lower(self, x: Tensor, level: int) -> Tensor:
        """Returns the tensor at a lower level."""
        return x.lower(level)

    def rotate(self, x: Tensor, steps: int, composes: bool) -> Tensor:
        """Returns the slots rotated left."""
        return x.rotate(steps, keys=self.keys, compose=True if composes else None)

    def times_each(self, x: Tensor, values: Floats) -> Tensor:
        """Returns the product with numbers."""
        return x.multiply(values, keys=self.keys)

    def plus_each(self, x: Tensor, values: Floats) -> Tensor:
        """Returns the sum with numbers."""
        return x + values

    def first_slots(self, x: Tensor, count: int, factor: float) -> Tensor:
        """Returns the first `count` slots times a number."""
        y = self.ready(x, 1)
        return y._transformed(_mask(y.parameters, count, y.level, factor), self.keys, None)

    def has_rotations(self, steps: Sequence[int]) -> bool:
        """Tells whether the keys have these rotations."""
        return isinstance(self.keys, TrialKeys) or all(self.keys._core.switches(step) == 1 for step in steps)

    def require_rotations(self, steps: Sequence[int], what: str) -> None:
        """Raises MissingKeyError unless the keys have these rotations and relinearization."""
        self.keys._require(what, list(steps), False, relinearize=True, ask="rotations=hg.ckks.sort_rotations(period)")

    def with_error(self, x: Tensor, trusted: float, assumed: float) -> Tensor:
        """Returns the tensor with other error bounds."""
        return with_errors(x, (trusted, assumed))

    def inside(self, x: Tensor, low: float, high: float) -> Tensor:
        """Returns the tensor with narrower bounds; the function has proved these bounds."""
        return inside(x, low, high)

    def within(self, x: Tensor, low: float, high: float) -> Tensor:
        """Returns the tensor with narrower bounds; the caller declares these bounds."""
        return x.within((low, high))

    def guarded(self, x: Tensor, is_strong: bool) -> Tensor:
        """Returns the tensor with strong guards of its declared bounds, or none."""
        return x._guarded(is_strong)


@functools.lru_cache(maxsize=8)
def _mask(parameters: Parameters, width: int, level: int, factor: float) -> LinearTransform:
    return LinearTransform._mask(parameters, width, level, factor)


def error_bound(error: Any) -> float:
    """Returns the largest error of a function, 2^-20 for None. Raises ParameterError."""
    if error is None:
        return 2.0**-20
    if not is_finite_real(error) or not error > 0:
        raise _core.ParameterError(f"an error must be a number above 0, not {described(error)}")
    return float(error)


def domain_of(x: Tensor, domain: Domain, what: str, guard: bool | None = None) -> tuple[Tensor, float, float]:
    """Returns x and the interval of its values: declared by the caller, or the tracked bounds.

    With ``guard=False`` polynomials make no guard for declared bounds of the result, with ``guard=True`` a strong guard.

    Raises ParameterError without a declared interval and bounds, and PlaintextRangeError if no value can be inside the
    declared domain."""
    made: tuple[Tensor, float, float] = _core.ckks.functions.bounded_by(
        Evaluator(x, None, what), x, _interval(domain), _strong(guard), what
    )
    return made


def _interval(domain: Domain) -> tuple[float, float] | None:
    return None if domain is None else interval_of(domain)


def _strong(guard: bool | None) -> bool | None:
    return None if guard is None else flag(guard, "guard")


def computed(
    name: str,
    x: Any,
    error: float | None,
    domain: Domain,
    guard: bool | None,
    keys: EvaluationKeys | None,
    *,
    axis: tuple[int | None, ...] = (),
    more: tuple[Any, ...] = (),
    evaluator: type[Evaluator] = Evaluator,
    has_error: bool = True,
) -> Tensor:
    """Returns the engine's function `name` of a tensor. `axis` and `more` are its arguments before and after the options.
    If `has_error` is false, the function has no option `error`."""
    tensor = real_tensor(x, name)
    wanted = (None if error is None else error_bound(error),) if has_error else ()
    options = *wanted, _interval(domain), _strong(guard)
    function = getattr(_core.ckks.functions, name)
    return cast(Tensor, function(evaluator(tensor, keys, name), tensor, *axis, *options, *more))


class Approximation:
    """A function's polynomial on an interval; calling it applies it to a tensor. `hg.ckks.approximate` makes it.

    - `low`, `high`: the interval.
    - `error`: largest distance from the function there, without the noise of encryption. If `is_relative` is true, the
      distance is divided by the magnitude of the function's value.
    - `coefficients` of the Chebyshev polynomials of the interval, and their `degree`.
    - `depth`: number of levels.

    >>> f = hg.ckks.approximate(np.cosh, -1, 1, error=2**-20)
    >>> f.degree, f.depth
    (6, 3)
    """

    def __init__(self, core: _core.ckks.functions.Approximation) -> None:
        self._core = core

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self.name, self.low, self.high, self.coefficients.tolist(), self.error, self.is_relative
        return _approximation_of, facts

    @property
    def name(self) -> str:
        """Name of the function."""
        return self._core.name

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self._core.low

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self._core.high

    @property
    def coefficients(self) -> Floats:
        """Coefficients of the Chebyshev polynomials of the interval."""
        return np.asarray(self._core.coefficients)

    @property
    def error(self) -> float:
        """Largest distance from the function on the interval."""
        return self._core.error

    @property
    def is_relative(self) -> bool:
        """Whether the error is divided by the magnitude of the function's value."""
        return self._core.is_relative

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return self._core.degree

    @property
    def depth(self) -> int:
        """Number of levels, including the level for scaling to [-1, 1]."""
        return self._core.depth

    def __repr__(self) -> str:
        kind = "relative error" if self.is_relative else "error"
        return (
            f"<approximation of {self.name} on [{self.low:.6g}, {self.high:.6g}]: degree {self.degree}, {self.depth} "
            f"levels, {kind} 2^{math.log2(self.error) if self.error else -math.inf:.1f}>"
        )

    def clear(self, values: npt.ArrayLike) -> Floats:
        """Returns the polynomial at numbers that are not encrypted.

        Raises PlaintextRangeError outside the interval, DtypeError for values that are not real numbers, ShapeError for rows
        of different lengths.

        >>> hg.ckks.approximate(np.cosh, -1, 1, error=2**-20).clear([0, 1]).round(5)
        array([1.     , 1.54308])
        """
        return np.asarray(self._core.clear(reals(values, "values")))

    @composite
    def __call__(self, x: Tensor, *, guard: bool | None = None, keys: EvaluationKeys | None = None) -> Tensor:
        """Returns the function's values. The result's `precision` includes the error of the approximation.

        If only a declaration (`within`) shows that the values are inside the interval, the result has a guard: decryption
        raises OutOfIntervalError if a value was outside. ``guard=True`` makes a strong guard, ``guard=False`` none
        (`hg.ckks.exp`).

        Raises PlaintextRangeError if the values may be outside the interval by their bounds (`within` declares others),
        LevelError, MissingKeyError, DtypeError for complex values.
        """
        real = real_tensor(x, self.name)
        return cast(
            Tensor, self._core.evaluate(Evaluator(real, keys, self.name), real if guard is None else real._guarded(guard))
        )


def _approximation_of(*facts: Any) -> Approximation:
    """Returns a pickled approximation."""
    return Approximation(_core.ckks.functions.Approximation(*facts))


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
    ``relative=True`` the distance is divided by |f|, and the default is 2^-20. With `depth` instead of `error` the result
    is the best polynomial of that many levels.

    The error is measured between the points of the fit. A function with a jump or a kink needs a high degree; `sign`, `abs`
    and `where` are better for such functions.

    Raises ParameterError if no polynomial of 10 levels reaches the error, or for an invalid interval; PlaintextRangeError if
    f is not finite on the interval; DtypeError for masked values. Exceptions of `f` pass unchanged.

    >>> logistic = hg.ckks.approximate(lambda v: 1 / (1 + np.exp(-v)), -8, 8, error=1e-4)
    >>> logistic
    <approximation of <lambda> on [-8, 8]: degree 23, 6 levels, error 2^-14.0>
    """
    if not callable(f):
        raise _core.ParameterError(f"approximate takes a function, not {described(f)}")
    low, high = interval_of((low, high))
    relative = flag(relative, "relative")
    name = str(getattr(f, "__name__", type(f).__name__))

    def values(points: Floats) -> Floats:
        with np.errstate(all="ignore"):
            given = f(points)
            y = np.asarray(given)
        if has_masked(given):
            raise _core.DtypeError(f"{name} returns masked values, which are missing numbers; fill them (filled(0))")
        if y.shape != points.shape or y.dtype.kind not in "biuf":
            raise _core.ParameterError(
                f"{name} must return one real number for each number of an array; see numpy.vectorize"
            )
        return np.ascontiguousarray(y, dtype=np.float64)

    levels = None if depth is None else count_of(depth, "depth", 1)
    wanted = None if error is None else error_bound(error)
    return Approximation(_core.ckks.functions.approximate(values, low, high, wanted, relative, levels, name))
