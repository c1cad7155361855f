"""Conditions of a query, as sets of a column's integers: whatever is asked of one column alone is one set, computed in the clear.

What SQL does not know (a comparison with NULL) is kept apart from what is false, for NOT makes true of the one and not of the other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from heliograph import _core
from heliograph.query.columns import Column
from heliograph.query.errors import SqlError
from heliograph.query.monomials import Monomial

#: What holds where a comparison of values that are known does not.
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
#: The same with its sides exchanged.
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _both(a: bool | None, b: bool | None) -> bool | None:
    """SQL's AND."""
    return False if a is False or b is False else None if a is None or b is None else True


@dataclass(frozen=True)
class Ranges:
    """Integers for which a condition is true, as ranges from the least on that do not touch; what NULL gives. An end of None: endless."""

    ranges: tuple[tuple[float, float], ...]
    null: bool | None

    @staticmethod
    def of(several: Iterable[tuple[float, float]], null: bool | None) -> Ranges:
        """In order and joined."""
        found: list[tuple[float, float]] = []
        for low, high in sorted(r for r in several if r[0] <= r[1]):
            if found and low <= found[-1][1] + 1:
                found[-1] = found[-1][0], max(found[-1][1], high)
            else:
                found.append((low, high))
        return Ranges(tuple(found), null)

    def negated(self) -> Ranges:
        """NOT."""
        ends = [-math.inf]
        for low, high in self.ranges:
            ends += [low - 1, high + 1]
        ends.append(math.inf)
        pairs = [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a <= b and a != math.inf and b != -math.inf]
        return Ranges.of(pairs, None if self.null is None else not self.null)

    def meet(self, other: Ranges) -> Ranges:
        """AND."""
        pairs = [(max(a, c), min(b, d)) for a, b in self.ranges for c, d in other.ranges]
        return Ranges.of(pairs, _both(self.null, other.null))

    def join(self, other: Ranges) -> Ranges:
        """OR."""
        null = _both(*(None if n is None else not n for n in (self.null, other.null)))
        return Ranges.of(self.ranges + other.ranges, None if null is None else not null)

    def within(self, column: Column) -> tuple[tuple[int, int], ...]:
        """Of a column's values, counted from 0."""
        last = column.high - column.low
        clipped = ((max(low - column.low, 0), min(high - column.low, last)) for low, high in self.ranges)
        return tuple((int(low), int(high)) for low, high in clipped if low <= high)


@dataclass(frozen=True)
class Is:
    """A column is in a set."""

    column: str
    ranges: Ranges


@dataclass(frozen=True)
class Comparison:
    """Columns are compared with each other. Nothing is known where one of them is NULL."""

    text: str  #: as the query has it
    sign: str
    names: tuple[str, ...]  #: of all its columns
    difference: tuple[tuple[Monomial, Fraction], ...] = ()  #: left less right, in the columns' terms; of days, since 1970
    texts: tuple[str, str] | None = None  #: of a comparison of two texts: the columns


@dataclass(frozen=True)
class _Joined:
    parts: tuple[Condition, ...]

    @classmethod
    def of(cls, several: Iterable[Condition]) -> Condition:
        """Flat, with one set for each column."""
        sets: dict[str, Ranges] = {}
        rest: list[Condition] = []
        flat = [part for one in several for part in (one.parts if type(one) is cls else (one,))]
        for part in flat:
            if not isinstance(part, Is):
                rest.append(part)
                continue
            known = sets.get(part.column)
            joined = part.ranges if known is None else known.meet(part.ranges) if cls is And else known.join(part.ranges)
            sets[part.column] = joined
        parts = (*(Is(name, found) for name, found in sets.items()), *rest)
        return parts[0] if len(parts) == 1 else And(parts) if cls is And else Or(parts)


class And(_Joined):
    """All hold."""


class Or(_Joined):
    """One holds at least."""


Condition = Is | Comparison | And | Or


def negated(one: Condition) -> Condition:
    """NOT."""
    if isinstance(one, Is):
        return Is(one.column, one.ranges.negated())
    if isinstance(one, Comparison):
        return replace(one, sign=OPPOSITE[one.sign])
    parts = [negated(part) for part in one.parts]
    return (Or if isinstance(one, And) else And).of(parts)


def single(condition: Condition | None) -> Iterator[Is | Comparison]:
    """What a condition is made of by AND and OR."""
    if isinstance(condition, (Is, Comparison)):
        yield condition
    elif condition is not None:
        for part in condition.parts:
            yield from single(part)


def compared(column: Column, sign: str, value: Any, name: str) -> Ranges:
    """The set for which a comparison with a known value holds. Raises SqlError for a value of another kind."""
    if column.kind == "text":
        return _text_compared(column, sign, value, name)
    if column.kind == "bool" and sign not in ("=", "<>"):
        raise SqlError(sign, f"{name} is a truth value: = and <> alone")
    try:
        number = column.fraction(value, name)
    except _core.DtypeError as error:
        raise SqlError(name, str(error).removeprefix(f"{name}: ")) from None
    return ranges_of(sign, number)


def ranges_of(sign: str, number: Fraction) -> Ranges:
    """Integers for which a comparison with a number holds."""
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
    made = Ranges.of(sets[sign], None)
    return made.negated() if sign == "<>" else made


def _text_compared(column: Column, sign: str, value: Any, name: str) -> Ranges:
    if not isinstance(value, str):
        raise SqlError(name, "a column of text is compared with texts, in single quotes")
    signs: dict[str, Callable[[str, str], bool]] = {"=": operator.eq, "<>": operator.ne, "<": operator.lt}
    signs |= {"<=": operator.le, ">": operator.gt, ">=": operator.ge}
    hold = signs[sign]
    return Ranges.of([(code, code) for code, text in enumerate(column.values) if hold(text, value)], None)
