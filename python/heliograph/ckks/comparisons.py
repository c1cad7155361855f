"""Signs, comparisons, choices and extremes of encrypted reals."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import described, flag, is_real, text_of
from heliograph._common.functions import concatenate
from heliograph._common.operations import composite
from heliograph.ckks.approximation import (
    domain_of,
    error_bound,
    errors_of,
    inside,
    met,
    real_tensor,
    with_errors,
    without_errors,
)
from heliograph.ckks.elementary import Domain
from heliograph.ckks.integers import Integers, Method, method_of
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.signs import signs_for_abs, signs_of
from heliograph.ckks.tensor import Tensor


def gap_of(gap: Any) -> float:
    if not is_real(gap) or not 0 < gap < math.inf:
        raise _core.ParameterError(f"a gap must be a number above 0, not {described(gap)}")
    return float(gap)


def _error_bound(error: Any, integers: bool) -> float:
    """Returns the error of a sign; by default 2^-20, and 2^-10 for integers, which a table can reach."""
    return error_bound((2.0**-10 if integers else 2.0**-20) if error is None else error, 1)


def gap_or_integers(gap: Any, integers: bool, what: str) -> float:
    """Returns the gap, 1 for integers. Raises ParameterError without either or with both."""
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
    """Returns 1 for values of at least `gap`, -1 for values of at most -`gap`, each to `error` (2^-20).

    Between -gap and gap the result is between -1 and 1, and near 0 at 0. A composition of polynomials is used; it has more
    levels for a smaller ratio of gap and largest value and for a smaller error: 7 for 1/4, 13 for 2^-8, 22 for 2^-16. Inside
    `hg.ckks.auto_bootstrap` it bootstraps where levels run out. It chooses the composition, the places and the iterations
    of its bootstraps by their cost.

    ``integers=True`` declares, in place of `gap`, that all values are integers up to their error. Then `error` is by default
    2^-10, and `method` may be:

    - "bootstrap": one `functional_bootstrap` by a table of the at most 256 integers of the interval. 0 gives 0.
    - "polynomial": the composition.
    - "auto": the cheaper one whose error bound meets `error`, by a forecast. Levels that a method takes count as a share of
      a bootstrap.

    `domain` = (low, high), or a magnitude, declares that all values are inside; values outside give wrong results. By
    default it is the interval of the tensor's `bounds`. `guard` is as for `exp`.

    Raises NoiseError if the tensor's noise exceeds 2^-6 of the gap, or if the result's error exceeds `error`. Raises
    ParameterError for a gap below 2^-20 of the largest value, an error below 2^-30 or too many integers for a table;
    LevelError, MissingKeyError, DtypeError.

    >>> holder.decrypt(hg.ckks.sign(w, gap=0.25, error=1e-3)).round(2) + 0  # w holds -1, -0.25, 0 and 0.5
    array([-1., -1.,  0.,  1.])
    """
    integers = flag(integers, "integers")
    gap, method = gap_or_integers(gap, integers, "sign"), method_of(method, integers, "sign")
    x, low, high = domain_of(real_tensor(x, "sign"), domain, "sign", guard)
    wanted, largest = _error_bound(error, integers), builtins.max(-low, high)
    if integers:
        numbers = Integers(x, low, high, keys, "sign")
        if numbers.takes_table(method, np.sign, wanted, largest, gap):
            return numbers.looked_up(np.sign, wanted)
    return _sign(x, largest, gap, wanted, keys, "sign")


def _sign(x: Tensor, largest: float, gap: float, error: float, keys: EvaluationKeys | None, what: str) -> Tensor:
    """Returns signs to `error`. Raises NoiseError if noise exceeds it."""
    found = signs_of(x, largest, gap, error, keys, what)
    return met(found.tensor, found.total(), error, what)


_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


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
    """Returns 1 where the relation of a and b holds and 0 where it does not, each to `error` (2^-20).

    `relation` is "<", "<=", ">", ">=", "==" or "!=". Orders hold or fail for certain if the values are at least `gap` apart;
    closer values give a number between 0 and 1, and equal ones 1/2, with or without "=". "==" gives 1 up to a distance of
    gap/2 and 0 from 3/2 gap on.

    ``integers=True`` declares that all values of a - b are integers up to their error. Then every relation is exact, also
    for equal values; `error` and `method` are as for `sign`.

    One operand may be a number or an array. `domain` declares the interval of a - b. Errors are those of `sign`.

    >>> holder.decrypt(hg.ckks.compare(w, "<", 0.25, gap=0.25, error=1e-3)).round(2)  # w holds -1, -0.25, 0 and 0.5
    array([1., 1., 1., 0.])
    """
    text_of(relation, "relation", tuple(_RELATIONS))
    integers = flag(integers, "integers")
    gap, method = gap_or_integers(gap, integers, "compare"), method_of(method, integers, "compare")
    x, low, high = domain_of(real_tensor(a - b, "compare"), domain, "compare", guard)
    wanted = _error_bound(error, integers)
    if integers:
        return related(x, low, high, relation, wanted, method, keys, "compare")
    largest = builtins.max(-low, high)
    if relation[0] in "<>":
        ordered = x if relation[0] == ">" else -x
        return inside_unit(_sign(ordered, largest, gap, 2 * wanted, keys, "compare") * 0.5 + 0.5, wanted)
    return _equal(x, largest, gap, relation, wanted, keys, "compare")


def _equal(
    x: Tensor, largest: float, gap: float, relation: str, error: float, keys: EvaluationKeys | None, what: str
) -> Tensor:  # fmt: skip
    both = concatenate([(x + gap).reshape(1, *x.shape), (x - gap).reshape(1, *x.shape)])
    signs = _sign(both, largest + gap, gap / 2, error, keys, what) * 0.5
    equal = signs[0] - signs[1]
    return inside_unit(equal if relation == "==" else 1 - equal, error)


def related(
    x: Tensor, low: float, high: float, relation: str, error: float, method: str, keys: EvaluationKeys | None, what: str
) -> Tensor:
    """Returns 1 where a relation to 0 holds and 0 where it does not, for integers in [low, high]."""
    numbers, compared = Integers(x, low, high, keys, what), _RELATIONS[relation]
    largest, is_order = builtins.max(-low, high), relation[0] in "<>"
    # For "==": gap is 2/3, of which signs separate one half.
    gap, most = (0.5, largest + 0.5) if is_order else (1 / 3, largest + 2 / 3)
    if numbers.takes_table(method, lambda m: compared(m, 0), error, most, gap):
        return inside_unit(numbers.looked_up(lambda m: compared(m, 0), error), error)
    if not is_order:
        return _equal(x, largest, 2 / 3, relation, error, keys, what)
    ordered = x if relation[0] == ">" else -x
    shifted = ordered + (0.5 if "=" in relation else -0.5)
    return inside_unit(_sign(shifted, most, gap, 2 * error, keys, what) * 0.5 + 0.5, error)


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
    s, scale = signs_for_abs(x, largest, error, keys, what)
    noise = errors_of(x)
    product = without_errors(x).multiply(without_errors(s.tensor), keys=keys)
    rounding = errors_of(product)
    total = tuple(1.01 * noise[i] + s.noise[i] / scale + rounding[i] for i in (0, 1))
    y = inside(with_errors(product, (total[0], total[1])), -error, largest + error)
    return Approximate(y, s.composition.error_of_abs / scale)


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
