"""What a server computes for a query on encrypted integers: masks of rows, and numbers of the rows in them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from heliograph import _core
from heliograph._arrays import readable_bytes
from heliograph._html import Shown
from heliograph.query.conditions import And, Comparison, Condition, Is, single
from heliograph.query.costs import Cost
from heliograph.query.errors import SqlError
from heliograph.query.integers import LARGEST_SUM, IntegerLayout, bits_of, told, type_of
from heliograph.query.layout import Part
from heliograph.query.monomials import (
    Monomial,
    Polynomial,
    added,
    constant,
    interval_of,
    multiplied,
    named,
    nullable,
)
from heliograph.query.plan import MOST_GROUPS, group_keys, only_of
from heliograph.query.sql import Query

#: Both sides of a comparison: positive factors of products of columns, () of a number.
Side = dict[Monomial, int]


@dataclass(frozen=True)
class Number:
    """A number of the answer, of the rows of a group."""

    kind: str  #: "COUNT", "SUM", "MIN", "MAX"
    group: int
    names: tuple[str, ...]  #: of columns that are not NULL; the product; the column
    type: str  #: of its ciphertext
    together: int  #: rows that go into one ciphertext
    null: tuple[str, ...] = ()  #: of a sum: columns that are not NULL in its rows, those of the product aside


@dataclass(frozen=True)
class IntegerPlan(Shown):
    """How a query is computed on encrypted integers. Made by `EncryptedTable.plan`.

    >>> plan = integers.plan("SELECT MAX(salary) FROM t WHERE salary > age * 100")
    >>> plan.totals, plan.results
    (2, 2)
    """

    query: Query
    layout: IntegerLayout
    keys: tuple[tuple[int | None, ...], ...]  #: of the groups; None: NULL
    base: tuple[Condition, ...]  #: what holds in every group, all of it
    asked: tuple[Number, ...]
    cost: Cost | None = None  #: what it is forecast to take; None where nobody asked

    @property
    def totals(self) -> int:
        """Numbers in the answer."""
        return len(self.asked)

    @property
    def results(self) -> int:
        """Ciphertexts of the answer."""
        return sum(-(-self.layout.rows // number.together) for number in self.asked)

    @cached_property
    def places(self) -> dict[tuple[str, int, tuple[str, ...], tuple[str, ...]], int]:
        """Where a number is among those that are asked for."""
        return {(n.kind, n.group, n.names, n.null): at for at, n in enumerate(self.asked)}

    @property
    def reads(self) -> tuple[Part, ...]:
        """The vectors that it reads."""
        names: set[str] = set()
        known: set[str] = set()  # read for their NULLs
        for one in itertools.chain.from_iterable(single(condition) for condition in self.base):
            names.update(one.names if isinstance(one, Comparison) else [one.column] if one.ranges.ranges else [])
            known.update(one.names if isinstance(one, Comparison) else [one.column])
        names.update(self.query.groups)
        known.update(self.query.groups)
        for number in self.asked:
            names.update(() if number.kind == "COUNT" else number.names)
            known.update(number.null if number.kind == "SUM" else number.names)
        return tuple(p for p in self.layout.parts if p.names[0] in (names if p.kind == "value" else known))

    @property
    def read_bytes(self) -> int:
        """Bytes of them in a file, but for headers."""
        layout = self.layout
        return sum(8 * layout.parameters.wires(layout.type_of(part)) * layout.rows for part in self.reads)

    @property
    def seconds(self) -> float | None:
        """What it is forecast to take on this device; None where nobody asked, or nothing forecasts it."""
        return None if self.cost is None else self.cost.seconds

    def explain(self) -> str:
        """Several lines for a person.

        >>> "TFHE" in integers.plan("SELECT MAX(salary) FROM t").explain()
        True
        """
        layout = self.layout
        groups = f" for each of {len(self.keys)} groups" if self.query.groups else ""
        return told(
            [
                ("query", " ".join(self.query.text.split())),
                ("by", "TFHE, circuits on all rows"),
                ("reads", f"{len(self.reads)} of {len(layout.parts)} vectors, {readable_bytes(self.read_bytes)} in a file"),
                ("answer", f"{self.totals} numbers{groups}, {self.results} ciphertexts"),
                *([] if self.cost is None else self.cost.rows()),
            ]
        )


def integer_plan(query: Query, layout: IntegerLayout) -> IntegerPlan:
    """Raises SqlError for what 64 bits do not hold, and for too many groups."""
    where = query.where
    conditions = where.parts if isinstance(where, And) else () if where is None else (where,)
    fixed = {one.column: one.ranges for one in conditions if isinstance(one, Is)}
    domains = [group_keys(layout.columns, name, fixed.get(name)) for name in query.groups]
    if math.prod(len(domain) for domain in domains) > MOST_GROUPS:
        raise SqlError("GROUP BY", f"it has more than {MOST_GROUPS:,} groups: narrow them by WHERE")
    base = tuple(one for one in conditions if not (isinstance(one, Is) and one.column in query.groups))
    for one in itertools.chain.from_iterable(single(condition) for condition in base):
        if isinstance(one, Comparison) and one.texts is None:
            sides_of(one, layout)
    keys = tuple(itertools.product(*domains))
    asked: dict[Number, None] = {}

    def count(group: int, null: tuple[str, ...]) -> None:
        if where is not None or query.groups or null:
            kind = type_of(0, layout.rows, layout.parameters)
            asked[Number("COUNT", group, null, kind, layout.rows)] = None

    for group in range(len(keys)):
        if query.groups:
            count(group, ())
        for item in query.items:
            if item.function in ("MIN", "MAX"):
                kind = type_of(*layout.ranges[item.column], layout.parameters)
                asked[Number(item.function, group, (item.column,), kind, layout.rows)] = None
            null = nullable(item.names, layout.columns)
            for monomial, _ in item.polynomial:
                if monomial:
                    asked[_sum(monomial, tuple(name for name in null if name not in monomial), group, layout)] = None
            if item.function:
                count(group, null)
    return IntegerPlan(query, layout, keys, base, tuple(asked))


def _sum(monomial: Monomial, null: tuple[str, ...], group: int, layout: IntegerLayout) -> Number:
    low, high = interval_of({monomial: 1}, layout.ranges)
    if bits_of(low, high) > LARGEST_SUM:
        raise SqlError(f"SUM({named(monomial)})", f"its values take {bits_of(low, high)} bits; {LARGEST_SUM} are summed")
    together = min(layout.rows, ((1 << LARGEST_SUM) - 1) // max(-low, high, 1))
    return Number("SUM", group, monomial, type_of(together * low, together * high, layout.parameters), together, null)


def sides_of(comparison: Comparison, layout: IntegerLayout) -> tuple[Side, Side, str] | bool:
    """What is compared, in encrypted integers and clear ones, and their type; or what always holds. Raises SqlError."""
    total: Polynomial = {}
    for monomial, factor in comparison.difference:
        product: Polynomial = {(): factor}
        for name in monomial:
            base = Fraction(layout.bases[name])
            value: Polynomial = {(name,): Fraction(1, 10 ** layout.columns[name].places)}
            product = multiplied(product, added(value, constant(base)))
        total = added(total, product)
    scale = math.lcm(*(factor.denominator for factor in total.values()))
    whole = {monomial: int(factor * scale) for monomial, factor in total.items()}
    divisor = math.gcd(*whole.values()) or 1
    left = {monomial: factor // divisor for monomial, factor in whole.items() if factor > 0}
    right = {monomial: -factor // divisor for monomial, factor in whole.items() if factor < 0}
    decided = _decided(comparison.sign, interval_of(left, layout.ranges), interval_of(right, layout.ranges))
    if decided is not None:
        return decided
    ends = [interval_of(side, layout.ranges) for side in (left, right)]
    low = min(least for least, _ in ends)  # sums on the way may wrap: they come back
    high = max(*(most for _, most in ends), *left.values(), *right.values())
    try:
        return left, right, type_of(low, high, layout.parameters)
    except _core.ParameterError as error:
        raise SqlError(comparison.text, str(error)) from None


def _decided(sign: str, left: tuple[int, int], right: tuple[int, int]) -> bool | None:
    """Whether a comparison always or never holds of numbers in two ranges."""
    if sign in (">", ">="):
        return _decided({">": "<", ">=": "<="}[sign], right, left)
    if sign in ("=", "<>"):
        apart = left[1] < right[0] or right[1] < left[0]
        alike = left == right and left[0] == left[1]
        return (sign == "<>") if apart else (sign == "=") if alike else None
    less = left[1] < right[0] or (sign == "<=" and left[1] <= right[0])
    more = left[0] > right[1] or (sign == "<" and left[0] >= right[1])
    return True if less else False if more else None


def group_condition(plan: IntegerPlan, group: int) -> tuple[Condition, ...]:
    """What holds of a group's own columns."""
    pairs = zip(plan.query.groups, plan.keys[group], strict=True)
    return tuple(Is(name, only_of(plan.layout.columns, name, code)) for name, code in pairs)
