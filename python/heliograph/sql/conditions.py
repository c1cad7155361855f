"""Conditions of a query as sets of a column's integers. All conditions on one column are combined to one set, in the clear.

UNKNOWN (a comparison with NULL) is distinct from false, because NOT maps false to true and UNKNOWN to UNKNOWN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from heliograph import _core
from heliograph._common.columns import Column
from heliograph._common.sql_error import SqlError
from heliograph.sql.monomials import Monomial

#: For each comparison, its negation: for values that are not NULL, exactly one of the two is true.
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
#: For each comparison operator, the operator for exchanged sides.
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _both(a: bool | None, b: bool | None) -> bool | None:
    """Returns SQL's a AND b."""
    return False if a is False or b is False else None if a is None or b is None else True


@dataclass(frozen=True)
class Ranges:
    """The integers for which a condition is true: ascending ranges that do not touch, and the result for NULL. A range with
    an infinite end is unbounded on that side.

    """

    ranges: tuple[tuple[float, float], ...]
    null: bool | None

    @staticmethod
    def of(several: Iterable[tuple[float, float]], null: bool | None) -> Ranges:
        """Sorts and joins ranges."""
        merged: list[tuple[float, float]] = []
        for low, high in sorted(r for r in several if r[0] <= r[1]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], high)
            else:
                merged.append((low, high))
        return Ranges(tuple(merged), null)

    def negated(self) -> Ranges:
        """Returns the NOT of a set."""
        ends = [-math.inf]
        for low, high in self.ranges:
            ends += [low - 1, high + 1]
        ends.append(math.inf)
        pairs = [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a <= b and a != math.inf and b != -math.inf]
        return Ranges.of(pairs, None if self.null is None else not self.null)

    def meet(self, other: Ranges) -> Ranges:
        """Returns the AND of two sets."""
        pairs = [(max(a, c), min(b, d)) for a, b in self.ranges for c, d in other.ranges]
        return Ranges.of(pairs, _both(self.null, other.null))

    def join(self, other: Ranges) -> Ranges:
        """Returns the OR of two sets."""
        null = _both(*(None if n is None else not n for n in (self.null, other.null)))
        return Ranges.of(self.ranges + other.ranges, None if null is None else not null)

    def within(self, column: Column) -> tuple[tuple[int, int], ...]:
        """Returns the ranges among a column's values, counted from 0."""
        last = column.high - column.low
        clipped = ((max(low - column.low, 0), min(high - column.low, last)) for low, high in self.ranges)
        return tuple((int(low), int(high)) for low, high in clipped if low <= high)


@dataclass(frozen=True)
class Is:
    """The condition that a column's value is in a set."""

    column: str
    ranges: Ranges


@dataclass(frozen=True)
class Comparison:
    """A comparison of columns with each other. The comparison is UNKNOWN if a column is NULL."""

    text: str  #: text in the query
    sign: str
    names: tuple[str, ...]  #: all columns
    difference: tuple[tuple[Monomial, Fraction], ...] = ()  #: left minus right, in the columns' values; dates as days
    texts: tuple[str, str] | None = None  #: the columns of a comparison of two texts


@dataclass(frozen=True)
class _Joined:
    parts: tuple[Condition, ...]

    @classmethod
    def of(cls, several: Iterable[Condition]) -> Condition:
        """Flattens conditions, and combines the conditions on one column to one set of values."""
        sets: dict[str, Ranges] = {}
        rest: list[Condition] = []
        flat = [part for one in several for part in (one.parts if type(one) is cls else (one,))]
        for part in flat:
            if not isinstance(part, Is):
                rest.append(part)
                continue
            previous = sets.get(part.column)
            joined = (
                part.ranges if previous is None else previous.meet(part.ranges) if cls is And else previous.join(part.ranges)
            )
            sets[part.column] = joined
        parts = (*(Is(name, ranges) for name, ranges in sets.items()), *rest)
        return parts[0] if len(parts) == 1 else And(parts) if cls is And else Or(parts)


class And(_Joined):
    """The condition that all parts hold (AND)."""


class Or(_Joined):
    """The condition that at least one part holds (OR)."""


Condition = Is | Comparison | And | Or


def negated(one: Condition) -> Condition:
    """Returns NOT of a condition."""
    if isinstance(one, Is):
        return Is(one.column, one.ranges.negated())
    if isinstance(one, Comparison):
        return replace(one, sign=OPPOSITE[one.sign])
    parts = [negated(part) for part in one.parts]
    return (Or if isinstance(one, And) else And).of(parts)


def single(condition: Condition | None) -> Iterator[Is | Comparison]:
    """Yields the conditions that AND and OR combine."""
    if isinstance(condition, (Is, Comparison)):
        yield condition
    elif condition is not None:
        for part in condition.parts:
            yield from single(part)


def compared(column: Column, sign: str, value: Any, name: str) -> Ranges:
    """Returns the set for which a comparison with a constant holds. Raises SqlError for a constant of another kind."""
    if column.kind == "text":
        return _text_compared(column, sign, value, name)
    if column.kind == "bool" and sign not in ("=", "<>"):
        raise SqlError(sign, f"{name} is a truth value, which only = and <> compare")
    try:
        number = column.fraction(value, name)
    except _core.DtypeError as error:
        raise SqlError(name, str(error).removeprefix(f"{name}: ")) from None
    return ranges_of(sign, number)


def ranges_of(sign: str, number: Fraction) -> Ranges:
    """Returns the integers for which a comparison with a number holds."""
    below, above = math.floor(number), math.ceil(number)
    equal: list[tuple[float, float]] = [(below, below)] if below == above else []
    sets: dict[str, list[tuple[float, float]]] = {
        "=": equal,
        "<>": equal,
        "<": [(-math.inf, above - 1)],
        "<=": [(-math.inf, below)],
        ">": [(below + 1, math.inf)],
        ">=": [(above, math.inf)],
    }
    ranges = Ranges.of(sets[sign], None)
    return ranges.negated() if sign == "<>" else ranges


def _text_compared(column: Column, sign: str, value: Any, name: str) -> Ranges:
    if not isinstance(value, str):
        raise SqlError(name, "a column of text must be compared with a text in single quotes")
    signs: dict[str, Callable[[str, str], bool]] = {"=": operator.eq, "<>": operator.ne, "<": operator.lt}
    signs |= {"<=": operator.le, ">": operator.gt, ">=": operator.ge}
    hold = signs[sign]
    return Ranges.of([(code, code) for code, text in enumerate(column.values) if hold(text, value)], None)
