"""Functions of encrypted columns of reals: quotients, limits, comparisons and choices, by the functions of `hg.ckks`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.arguments import described, interval_of, is_real, printable
from heliograph.ckks.approximation import errors_of, inside
from heliograph.ckks.statistics import Division
from heliograph.frame.parameters import Parameters

DEFAULT_ERROR = 2.0**-16
_NEAR = 2.0**-20  #: relative to a step: rounding of numbers that are multiples of the step
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def rows_of(parameters: Parameters, scheme: str) -> npt.NDArray[Any]:
    """Returns an array [blocks, slots] that is 1 in slots with a row of the frame and 0 in the slots after the last row."""
    blocks, slots = parameters.blocks(scheme), parameters.set_of(scheme).slots
    ones = np.zeros(blocks * slots, np.int64 if scheme == "bgv" else np.float64)
    ones[: parameters.rows] = 1
    return ones.reshape(blocks, slots)


def joint(a: Any, b: Any) -> Any:
    """Returns the product of two vectors of 0 and 1; None stands for a vector of ones."""
    return b if a is None else a if b is None or b is a else a * b


def times(x: Any, factor: float) -> Any:
    """Returns x * factor; an integer factor takes no level."""
    return x if factor == 1 else x * (int(factor) if factor.is_integer() else factor)


def ones_of(one: Any) -> Any:
    """Returns 1 in rows of a column of reals that are not NULL: an array [blocks, slots] or a tensor [blocks]."""
    return rows_of(one.parameters, "ckks") if one.valid is None else one.valid


def is_number(number: Any) -> bool:
    """Tells whether a value is a finite number that a float holds."""
    try:
        return is_real(number) and not isinstance(number, bool) and math.isfinite(number)
    except OverflowError:
        return False


def is_multiple(number: float, step: float) -> bool:
    """Tells whether a number is a multiple of a step above 0, up to rounding."""
    if not step:
        return False
    place = number / step
    return abs(place - round(place)) <= _NEAR * max(1.0, abs(place))


def common_step(step: float, number: float) -> float:
    """Returns the step of values that are multiples of a step, plus a number; returns 0 if there is no such step."""
    if is_multiple(number, step):
        return step
    return abs(number) if step and is_multiple(step, abs(number)) else 0.0


@contextmanager
def enough_levels(what: str, one: Any) -> Iterator[None]:
    """Context manager: a LevelError names the column, its levels and the remedy."""
    try:
        yield
    except _core.LevelError as error:
        left = max(0, one.tensor.level - 1)
        raise _core.LevelError(
            f"{what} takes more levels than the {left} that {printable(one.name)} has left: make the frame with "
            f"parameters_for(..., depth=) of more than {one.parameters.reals.levels - 1}, with a smaller precision= for "
            f"great depths, or allow a greater error, gap or fewer bins ({error})"
        ) from None


def require_reals(one: Any, what: str) -> None:
    """Raises DtypeError for an exact column."""
    if one.is_exact:
        raise _core.DtypeError(
            f"{what} takes columns of reals, and {printable(one.name)} is exact: write {one.name}.astype(float)"
        )


def interval(one: Any, what: str) -> tuple[float, float]:
    """Returns the interval of a column's values, from its limits or from tracked bounds. Raises ParameterError."""
    if one.limits is not None:
        return one.limits  # type: ignore[no-any-return]
    if one.tensor.bounds is None:
        raise _core.ParameterError(f"{what} needs an interval of {printable(one.name)}, which has no bounds")
    v = one.variable
    low, high = sorted(v.scale * end + v.offset for end in one.tensor.bounds)
    return low, high


def limited(one: Any) -> Any:
    """Returns a column's tensor with bounds that follow from the column's limits, and from 0 for NULL."""
    t, v = one.tensor, one.variable
    if one.limits is None or t.bounds is None:
        return t
    ends = sorted([0.0, *((end - v.offset) / v.scale for end in one.limits)])
    return inside(t, max(ends[0], t.bounds[0]), min(ends[-1], t.bounds[1]))


def product_of(a: tuple[float, float] | None, b: tuple[float, float] | None) -> tuple[float, float] | None:
    """Returns the interval of products of values from two intervals."""
    if a is None or b is None:
        return None
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def square_of(a: tuple[float, float] | None) -> tuple[float, float] | None:
    """Returns the interval of squares of values of an interval."""
    if a is None:
        return None
    ends = [end * end for end in a]
    return 0.0 if a[0] <= 0 <= a[1] else min(ends), max(ends)


def unit_values(one: Any) -> tuple[Any, float]:
    """Returns a column's values, 0 for NULL, divided by a number, and this number."""
    v = one.variable
    unit = abs(v.scale) + abs(v.offset)
    t = times(one.tensor, v.scale / unit)
    return (t + ones_of(one) * (v.offset / unit) if v.offset else t), unit


def quotient(numerator: Any, one: Any, domain: Any, error: float, name: str) -> Any:
    """Returns a column or a number divided by a column of reals."""
    declared = domain is not None
    low, high = interval(one, "a quotient")
    if declared:
        known, (low, high) = (low, high), interval_of(domain)
        if known[0] > high or known[1] < low:
            raise _core.PlaintextRangeError(
                f"all values of {printable(one.name)} are in [{known[0]:.6g}, {known[1]:.6g}], outside the domain "
                f"[{low:.6g}, {high:.6g}]"
            )
    if low <= 0 <= high:
        raise _core.ParameterError(
            f"cannot divide by {printable(one.name)}: its values may be in [{low:.6g}, {high:.6g}], which has 0 inside; "
            "give bounds without 0 in columns=, or declare them: divide(..., domain=(low, high))"
        )
    v, unit = one.variable, max(abs(low), abs(high))
    centre = v.offset if low <= v.offset <= high else (low + high) / 2  # the value in rows that have no value
    y = times(one.tensor, v.scale / unit)
    if centre != v.offset:
        y = y + ones_of(one) * ((v.offset - centre) / unit)
    y = y + centre / unit
    ends = low / unit, high / unit
    y = y.within(ends) if declared else inside(y, *ends)
    inverse = 1 / high, 1 / low
    with enough_levels("a quotient", one):
        share = ckks.inverse(y, error=error * unit / min(abs(low), abs(high)))
        if is_real(numerator):
            tensor, scale, valid = share * ones_of(one), float(numerator) / unit, one.valid
            limits = product_of((float(numerator), float(numerator)), inverse)
        else:
            values, own = unit_values(numerator)
            if one.valid is not None:
                values = values * one.valid
            tensor, scale, valid = values * share, own / unit, joint(numerator.valid, one.valid)
            limits = product_of(interval(numerator, "a quotient"), inverse)
    return _function(one, tensor, valid, name, scale, 0.0, limits)


def clipped(one: Any, lower: float | None, upper: float | None, error: float) -> Any:
    """Returns values limited to an interval, with an error that is relative to half the interval of the column."""
    require_reals(one, "clip")
    low, high = interval(one, "clip")
    limits = [low if lower is None else lower, high if upper is None else upper]
    for limit in limits:
        if not is_number(limit):
            raise _core.ParameterError(f"a limit of clip must be a finite number, got {described(limit)}")
    least, most = (min(max(float(limit), low), high) for limit in limits)
    if not limits[0] < limits[1] or least >= most:
        raise _core.ParameterError(
            f"clip needs a lower limit below the upper one, and values between them, got {limits[0]:g} and {limits[1]:g} "
            f"for values of {printable(one.name)} in [{low:.6g}, {high:.6g}]"
        )
    v, spread = one.variable, error * (high - low) / 2 / abs(one.variable.scale)
    a, b = sorted(((least - v.offset) / v.scale, (most - v.offset) / v.scale))
    if (least, most) == (low, high):
        return one
    t = limited(one)
    with enough_levels("clip", one):
        if least > low and most < high:
            t = ckks.clip(t, a, b, error=spread)
        elif (least > low) == (v.scale > 0):
            t = ckks.maximum(t, a, error=spread)
        else:
            t = ckks.minimum(t, b, error=spread)
        t = t * ones_of(one)
    return _function(one, t, one.valid, one.name, v.scale, v.offset, (least, most))


def compared(one: Any, relation: str, other: Any, gap: float | None, error: float | None) -> Any:
    """Returns 1 in rows in which a relation holds, and 0 in other rows."""
    require_reals(one, "a comparison")
    difference, number, step = one, other, one.step
    if hasattr(other, "variable"):
        require_reals(other, "a comparison")
        difference, number, step = one - other, 0.0, one.step if one.step == other.step else 0.0
    elif not is_number(other):
        raise _core.DtypeError(f"a column compares with a column or a finite number, not {described(other)}")
    if gap is None:
        number, gap, relation = _on_steps(float(number), relation, step, one.name)
    elif not is_real(gap) or not 0 < gap < math.inf:
        raise _core.ParameterError(f"a gap must be a number above 0, not {described(gap)}")
    # A limit far outside the interval is replaced by a limit just outside.
    low, high = interval(difference, "a comparison")
    number = min(max(float(number), low - 2 * gap), high + 2 * gap)
    v = difference.variable
    wanted = count_error(one.parameters.rows) if error is None else error
    way = relation if v.scale > 0 else _FLIPPED[relation]
    threshold = (number - v.offset) / v.scale
    name = f"{one.name} {relation} {other.name if hasattr(other, 'variable') else f'{other:g}'}"
    with enough_levels("a comparison", difference):
        found = ckks.compare(limited(difference), way, threshold, gap=gap / abs(v.scale), error=wanted)
        found = found * ones_of(difference)
    result = _function(difference, found, difference.valid, name, 1.0, 0.0, (0.0, 1.0))
    return replace(result, variable=replace(result.variable, binary=True))


def _on_steps(number: float, relation: str, step: float, name: str) -> tuple[float, float, str]:
    """Returns a threshold between two multiples of a step, the distance of the multiples from the threshold, and the
    relation.

    """
    if not step:
        raise _core.ParameterError(
            f"a comparison of {printable(name)}, a column of reals, needs a gap: values nearer to the limit than the gap "
            f"give a number between 0 and 1; write {name}.gt(number, gap=...), or lt, ge, le, eq, ne"
        )
    on = is_multiple(number, step)
    place = number / step
    nearest = round(place)
    if relation in ("==", "!="):
        if not on:
            raise _core.ParameterError(f"{number:g} is no value of {printable(name)}, a column of multiples of {step:g}")
        return nearest * step, step / 2, relation
    below = nearest if on else math.floor(place)  # the greatest multiple that is at most the number
    if on and relation in ("<", ">="):
        below -= 1
    return (below + 0.5) * step, step * 0.49, relation


def chosen(one: Any, condition: Any) -> Any:
    """Returns a column with NULL in rows where the condition is 0 or NULL."""
    if not hasattr(condition, "variable") or not condition.variable.binary:
        raise _core.DtypeError(
            "where takes a column of truth values: a result of a comparison, or a column of truth values of the frame; got "
            f"{described(condition)}"
        )
    one._require(condition)
    v = condition.variable
    holds = condition.tensor
    if not condition.is_exact and (v.scale, v.offset) != (1.0, 0.0):
        holds = times(holds, v.scale) + ones_of(condition) * v.offset
    changes = {} if one.is_exact else {"error": one.variable.error + errors_of(holds)[1]}
    return one._derived(one.tensor * holds, joint(one.valid, holds), limits=one.limits, step=one.step, **changes)


def standardized(one: Any, std: Any, least: float | None, error: float) -> Any:
    """Returns (value - mean) / standard deviation."""
    require_reals(one, "standardize")
    if one.valid is not None:
        raise _core.ParameterError(f"standardize takes a column without NULLs, and {printable(one.name)} has them")
    scale, x = one.variable.scale, one.tensor
    domain = None
    if std is not None:
        low, high = _two_positive(std)
        domain = (low / scale) ** 2, (high / scale) ** 2
    if is_real(least):
        least = abs(least / scale)
    division = Division(x, least, domain, error, "standardize")
    with enough_levels("standardize", one):
        tensor = _divided(one, division)
    return _function(one, tensor, None, one.name, math.copysign(1.0, scale), 0.0, None)


def _divided(one: Any, division: Division) -> Any:
    x, rows = one.tensor, one.parameters.rows
    centred = x - x.sum(0).sum_slots().reshape(1) * (rows_of(one.parameters, "ckks") / rows)
    squares = centred.multiply(centred, relinearize=False, rescale=False).sum(0).relinearize().rescale()
    variance = squares.sum_slots() * (1 / rows / division.largest**2)
    return division.of(times(centred, 1 / division.largest), variance.reshape(1), math.sqrt(rows))


def _two_positive(std: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) if is_real(end) else math.nan for end in std)
    except (TypeError, ValueError):
        raise _core.ParameterError(f"std must be two numbers, (low, high), got {described(std)}") from None
    if not 0 < low < high < math.inf:
        raise _core.ParameterError(f"std must be two positive numbers, the lower one first, got {described(std)}")
    return low, high


def count_error(rows: int) -> float:
    """Returns the error of a value of 0 or 1 up to which a sum over rows is an exact count."""
    return min(2.0**-12, 0.125 / rows)


def _function(one: Any, tensor: Any, valid: Any, name: str, scale: float, offset: float, limits: Any) -> Any:
    """Returns a column of a function's results, with their error."""
    error = errors_of(tensor)[1]
    variable = replace(one.variable, name=name, scale=scale, offset=offset, places=0, binary=False, error=error)
    return replace(one, tensor=tensor, valid=valid, variable=variable, copy=None, step=0.0, limits=limits)
