"""Signs, comparisons, choices and extremes of encrypted reals."""

from __future__ import annotations

import builtins
from typing import Any, cast

import numpy as np

from heliograph import _core
from heliograph._common.arguments import described, flag, is_finite_real, text_of
from heliograph._common.operations import composite
from heliograph.ckks.approximation import Domain, computed, domain_of, error_bound, real_tensor
from heliograph.ckks.integers import Method, method_of
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.signs import SignEvaluator
from heliograph.ckks.tensor import Tensor

_RELATIONS = ("<", "<=", ">", ">=", "==", "!=")


def gap_of(gap: Any) -> float:
    if not is_finite_real(gap) or not gap > 0:
        raise _core.ParameterError(f"a gap must be a number above 0, not {described(gap)}")
    return float(gap)


def gap_or_integers(gap: Any, integers: bool, what: str) -> float:
    """Returns the gap, which is 1 for integers. Raises ParameterError unless either a gap or ``integers=True`` is given."""
    if integers:
        if gap is not None:
            raise _core.ParameterError(f"{what}: integers are at least 1 apart; pass gap= or integers=True, not both")
        return 1.0
    if gap is None:
        raise _core.ParameterError(
            f"{what} needs gap=, the smallest distance to tell apart, or integers=True, which declares that all values are "
            "integers"
        )
    return gap_of(gap)


@composite
def sign(
    x: Tensor,
    *,
    gap: float | None = None,
    integers: bool = False,
    method: Method = "auto",
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns 1 for values of at least `gap`, -1 for values of at most -`gap`, with an error of at most `error` (2^-20).

    Between -gap and gap the result is between -1 and 1, and near 0 at 0. `sign` evaluates a composition of polynomials. The
    number of levels grows as `error` and the ratio of gap and largest value decrease: 7 levels for a ratio of 1/4, 13 for
    2^-8, 22 for 2^-16. Inside `hg.ckks.auto_bootstrap` the function bootstraps before levels run out, and chooses the
    composition and its bootstraps by cost.

    ``integers=True`` declares, in place of `gap`, that all values are integers up to their error. Then `error` is by default
    2^-10, and `method` may be:

    - "bootstrap": one `functional_bootstrap` by a table of the at most 256 integers of the interval; the sign of 0 is 0.
    - "polynomial": the composition.
    - "auto": the method whose error bound meets `error`; if both do, the cheaper method by a forecast, where levels count
      as a share of a bootstrap.

    `domain` = (low, high), or a magnitude, declares that all values are inside; values outside give wrong results. By
    default it is the interval of the tensor's `bounds`. `guard` is as for `exp`.

    Raises NoiseError if the tensor's noise exceeds 2^-6 of the gap, or if the result's error exceeds `error`. Raises
    ParameterError for a gap below 2^-20 of the largest value, an error below 2^-30 or too many integers for a table;
    LevelError, MissingKeyError, DtypeError.

    >>> holder.decrypt(hg.ckks.sign(w, gap=0.25, error=1e-3)).round(2) + 0  # w holds -1, -0.25, 0 and 0.5
    array([-1., -1.,  0.,  1.])
    """
    more = separation(gap, integers, method, "sign")
    return computed("sign", x, error, domain, guard, keys, more=more, evaluator=SignEvaluator)


def separation(gap: Any, integers: Any, method: Any, what: str) -> tuple[float | None, Method]:
    """Returns the gap, None for integers, and the method. Raises ParameterError."""
    integers = flag(integers, "integers")
    size = gap_or_integers(gap, integers, what)
    return None if integers else size, method_of(method, integers, what)


@composite
def compare(
    a: Any,
    relation: str,
    b: Any,
    *,
    gap: float | None = None,
    integers: bool = False,
    method: Method = "auto",
    error: float | None = None,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns 1 where the relation of a and b holds and 0 where it does not, with an error of at most `error` (2^-20).

    `relation` is "<", "<=", ">", ">=", "==" or "!=". The relations of order are decided correctly if a and b differ by at
    least `gap`. Closer values give a number between 0 and 1; equal values give 1/2, also for "<=" and ">=". "==" gives 1 up
    to a distance of gap/2, and 0 from a distance of 3/2 gap on.

    ``integers=True`` declares that all values of a - b are integers up to their error. Then every relation is exact, also
    for equal values; `error` and `method` are the options of `sign`.

    One operand may be a number or an array. `domain` declares the interval of a - b. Errors are those of `sign`.

    >>> holder.decrypt(hg.ckks.compare(w, "<", 0.25, gap=0.25, error=1e-3)).round(2)  # w holds -1, -0.25, 0 and 0.5
    array([1., 1., 1., 0.])
    """
    text_of(relation, "relation", _RELATIONS)
    more = *separation(gap, integers, method, "compare"), relation
    return computed("compare", a - b, error, domain, guard, keys, more=more, evaluator=SignEvaluator)


@composite
def where(condition: Tensor, a: Any, b: Any, *, keys: EvaluationKeys | None = None) -> Tensor:
    """Returns b + condition * (a - b): the value of `a` where the condition is 1, and the value of `b` where it is 0.

    `condition` is a result of `compare`; a number between 0 and 1 gives the weighted mean. One level.

    >>> holder.decrypt(hg.ckks.where(hg.ckks.compare(w, "<", 0.25, gap=0.25, error=1e-3), w, 0)).round(2) + 0
    array([-1.  , -0.25,  0.  ,  0.  ])
    """
    x = real_tensor(condition, "where")
    _core.ckks.functions.require_condition(x._core)
    chosen: Tensor = x.multiply(a - b, keys=keys) + b
    return chosen


@composite
def abs(
    x: Tensor, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns magnitudes, x sign(x), with an error of at most `error`. Options and errors are those of `sign`.

    >>> holder.decrypt(hg.ckks.abs(w, error=0.002)).round(2) + 0
    array([1.  , 0.25, 0.  , 0.5 ])
    """
    return computed("abs", x, error_bound(error), domain, guard, keys, evaluator=SignEvaluator)


@composite
def maximum(
    a: Any, b: Any, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns the larger of two values, (a + b + |a - b|) / 2, up to `error`. `domain` declares the interval of a - b.

    >>> holder.decrypt(hg.ckks.maximum(w, 0.25, error=0.002)).round(2)
    array([0.25, 0.25, 0.25, 0.5 ])
    """
    return _extreme(a, b, error, domain, guard, keys, 1, "maximum")


@composite
def minimum(
    a: Any, b: Any, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns the smaller of two values, (a + b - |a - b|) / 2, up to `error`. `domain` declares the interval of a - b.

    >>> holder.decrypt(hg.ckks.minimum(w, 0.25, error=0.002)).round(2) + 0
    array([-1.  , -0.25,  0.  ,  0.25])
    """
    return _extreme(a, b, error, domain, guard, keys, -1, "minimum")


def _extreme(
    a: Any, b: Any, error: Any, domain: Domain, guard: bool | None, keys: EvaluationKeys | None, way: int, what: str
) -> Tensor:
    difference, _, _ = domain_of(real_tensor(a - b, what), domain, what, guard)
    limits = [t.bounds if isinstance(t, Tensor) else (float(np.min(t)), float(np.max(t))) for t in (a, b)]
    pick, known = builtins.max if way > 0 else builtins.min, None
    if limits[0] is not None and limits[1] is not None:
        known = pick(limits[0][0], limits[1][0]), pick(limits[0][1], limits[1][1])
    by = SignEvaluator(difference, keys, what)
    wanted = error_bound(error)
    return cast(Tensor, _core.ckks.functions.extreme_of(by, a + b, difference, known, way > 0, wanted, what))


@composite
def relu(
    x: Tensor, *, error: float, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns the larger of each value and 0, up to `error`. Options and errors are those of `abs`.

    >>> holder.decrypt(hg.ckks.relu(w, error=0.002)).round(2) + 0
    array([0. , 0. , 0. , 0.5])
    """
    return computed("relu", x, error_bound(error), domain, guard, keys, evaluator=SignEvaluator)


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
    """Returns values limited to [low, high], (|x - low| - |x - high| + low + high) / 2, up to `error`. Options and errors
    are those of `abs`.

    >>> holder.decrypt(hg.ckks.clip(w, -0.5, 0.25, error=0.002)).round(2) + 0
    array([-0.5 , -0.25,  0.  ,  0.25])
    """
    if not (is_finite_real(low) and is_finite_real(high) and low < high):
        raise _core.ParameterError(
            f"clip needs two finite limits, the lower one first, not {described(low)}, {described(high)}"
        )
    more = float(low), float(high)
    return computed("clip", x, error_bound(error), domain, guard, keys, more=more, evaluator=SignEvaluator)
