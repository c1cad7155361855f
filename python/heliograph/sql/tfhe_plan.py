"""The plan of a query on encrypted integers: masks of rows, and numbers of the rows in them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from heliograph import _core
from heliograph._common.arguments import readable_bytes
from heliograph._common.html import HtmlRepr
from heliograph._common.sql_error import SqlError
from heliograph.sql.conditions import And, Comparison, Condition, Is, single
from heliograph.sql.costs import Cost
from heliograph.sql.monomials import Monomial, Polynomial, added, constant, interval_of, monomial_text, multiplied, nullable
from heliograph.sql.parser import Query
from heliograph.sql.slot_layout import Part
from heliograph.sql.slot_plan import MOST_GROUPS, group_keys, only_of
from heliograph.sql.tfhe_layout import LARGEST_SUM, IntegerLayout, bits_of, lines_of, type_of

#: One side of a comparison: a polynomial of columns with positive coefficients. The monomial () is the constant term.
IntegerPolynomial = dict[Monomial, int]


@dataclass(frozen=True)
class Number:
    """An aggregate of the answer, over the rows of a group."""

    kind: str  #: "COUNT", "SUM", "MIN", "MAX"
    group: int
    names: tuple[str, ...]  #: COUNT: columns that are not NULL; SUM: factors; MIN, MAX: the column
    type: str  #: type of the ciphertext
    together: int  #: number of rows that one ciphertext of the answer sums
    null: tuple[str, ...] = ()  #: SUM: further columns that must not be NULL


@dataclass(frozen=True)
class IntegerPlan(HtmlRepr):
    """The computation of a query on encrypted integers. Created by `EncryptedTable.plan`.

    >>> plan = integers.plan("SELECT MAX(salary) FROM t WHERE salary > age * 100")
    >>> plan.totals, plan.results
    (2, 2)
    """

    query: Query
    layout: IntegerLayout
    keys: tuple[tuple[int | None, ...], ...]  #: values of the groups; None: NULL
    base: tuple[Condition, ...]  #: conditions of every group, combined by AND
    aggregates: tuple[Number, ...]
    cost: Cost | None = None  #: forecast of the running time on this device; None if not computed

    @property
    def totals(self) -> int:
        """The number of numbers in the answer."""
        return len(self.aggregates)

    @property
    def results(self) -> int:
        """The number of ciphertexts in the answer."""
        return sum(-(-self.layout.rows // number.together) for number in self.aggregates)

    @cached_property
    def places(self) -> dict[tuple[str, int, tuple[str, ...], tuple[str, ...]], int]:
        """Positions of the numbers in `aggregates`."""
        return {(n.kind, n.group, n.names, n.null): at for at, n in enumerate(self.aggregates)}

    @property
    def reads(self) -> tuple[Part, ...]:
        """The encrypted vectors of the table that the query reads."""
        names: set[str] = set()
        null_names: set[str] = set()  # columns whose NULL vector the query reads
        for one in itertools.chain.from_iterable(single(condition) for condition in self.base):
            names.update(one.names if isinstance(one, Comparison) else [one.column] if one.ranges.ranges else [])
            null_names.update(one.names if isinstance(one, Comparison) else [one.column])
        names.update(self.query.groups)
        null_names.update(self.query.groups)
        for number in self.aggregates:
            names.update(() if number.kind == "COUNT" else number.names)
            null_names.update(number.null if number.kind == "SUM" else number.names)
        return tuple(p for p in self.layout.parts if p.names[0] in (names if p.kind == "value" else null_names))

    @property
    def read_bytes(self) -> int:
        """Bytes of the vectors in `reads` in a file, without headers."""
        layout = self.layout
        return sum(8 * layout.parameters.wires(layout.type_of(part)) * layout.rows for part in self.reads)

    @property
    def seconds(self) -> float | None:
        """Forecast seconds on this device; None if not computed or unknown."""
        return None if self.cost is None else self.cost.seconds

    def explain(self) -> str:
        """Describes the plan in several lines.

        >>> "TFHE" in integers.plan("SELECT MAX(salary) FROM t").explain()
        True
        """
        layout = self.layout
        groups = f" for each of {len(self.keys)} groups" if self.query.groups else ""
        return lines_of(
            [
                ("query", " ".join(self.query.text.split())),
                ("by", "TFHE: circuits on all rows"),
                ("reads", f"{len(self.reads)} of {len(layout.parts)} vectors, {readable_bytes(self.read_bytes)} in a file"),
                ("answer", f"{self.totals} numbers{groups}, {self.results} ciphertexts"),
                *([] if self.cost is None else self.cost.rows()),
            ]
        )


def integer_plan(query: Query, layout: IntegerLayout) -> IntegerPlan:
    """Plans a query. Raises SqlError for values beyond 64 bits, and for too many groups."""
    where = query.where
    conditions = where.parts if isinstance(where, And) else () if where is None else (where,)
    fixed = {one.column: one.ranges for one in conditions if isinstance(one, Is)}
    domains = [group_keys(layout.columns, name, fixed.get(name)) for name in query.groups]
    if math.prod(len(domain) for domain in domains) > MOST_GROUPS:
        raise SqlError("GROUP BY", f"at most {MOST_GROUPS:,} groups are allowed; restrict their columns in WHERE")
    base = tuple(one for one in conditions if not (isinstance(one, Is) and one.column in query.groups))
    for one in itertools.chain.from_iterable(single(condition) for condition in base):
        if isinstance(one, Comparison) and one.texts is None:
            comparison_operands(one, layout)
    keys = tuple(itertools.product(*domains))
    aggregates: dict[Number, None] = {}

    def count(group: int, null: tuple[str, ...]) -> None:
        if where is not None or query.groups or null:
            kind = type_of(0, layout.rows, layout.parameters)
            aggregates[Number("COUNT", group, null, kind, layout.rows)] = None

    for group in range(len(keys)):
        if query.groups:
            count(group, ())
        for item in query.items:
            if item.function in ("MIN", "MAX"):
                kind = type_of(*layout.ranges[item.column], layout.parameters)
                aggregates[Number(item.function, group, (item.column,), kind, layout.rows)] = None
            null = nullable(item.names, layout.columns)
            for monomial, _ in item.polynomial:
                if monomial:
                    aggregates[_sum(monomial, tuple(name for name in null if name not in monomial), group, layout)] = None
            if item.function:
                count(group, null)
    return IntegerPlan(query, layout, keys, base, tuple(aggregates))


def _sum(monomial: Monomial, null: tuple[str, ...], group: int, layout: IntegerLayout) -> Number:
    low, high = interval_of({monomial: 1}, layout.ranges)
    if bits_of(low, high) > LARGEST_SUM:
        raise SqlError(
            f"SUM({monomial_text(monomial)})",
            f"its values need {bits_of(low, high)} bits, at most {LARGEST_SUM} are summed; give narrower bounds in columns=",
        )
    together = min(layout.rows, ((1 << LARGEST_SUM) - 1) // max(-low, high, 1))
    return Number("SUM", group, monomial, type_of(together * low, together * high, layout.parameters), together, null)


def comparison_operands(
    comparison: Comparison, layout: IntegerLayout
) -> tuple[IntegerPolynomial, IntegerPolynomial, str] | bool:
    """Returns both sides of a comparison of encrypted integers and constants, with their type; or the result, if it is the
    same for all values.

    Raises SqlError.
    """
    total: Polynomial = {}
    for monomial, factor in comparison.difference:
        product: Polynomial = {(): factor}
        for name in monomial:
            base = Fraction(layout.bases[name])
            value: Polynomial = {(name,): Fraction(1, 10 ** layout.columns[name].places)}
            product = multiplied(product, added(value, constant(base)))
        total = added(total, product)
    scale = math.lcm(*(factor.denominator for factor in total.values()))
    integers = {monomial: int(factor * scale) for monomial, factor in total.items()}
    divisor = math.gcd(*integers.values()) or 1
    left = {monomial: factor // divisor for monomial, factor in integers.items() if factor > 0}
    right = {monomial: -factor // divisor for monomial, factor in integers.items() if factor < 0}
    decided = _decided(comparison.sign, interval_of(left, layout.ranges), interval_of(right, layout.ranges))
    if decided is not None:
        return decided
    ends = [interval_of(operand, layout.ranges) for operand in (left, right)]
    low = min(least for least, _ in ends)  # intermediate sums may wrap, the final sum does not
    high = max(*(most for _, most in ends), *left.values(), *right.values())
    try:
        return left, right, type_of(low, high, layout.parameters)
    except _core.ParameterError as error:
        raise SqlError(comparison.text, str(error)) from None


def _decided(sign: str, left: tuple[int, int], right: tuple[int, int]) -> bool | None:
    """Returns the result of a comparison if it is the same for all numbers of two ranges, else None."""
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
    """Returns the conditions on a group's own columns."""
    pairs = zip(plan.query.groups, plan.keys[group], strict=True)
    return tuple(Is(name, only_of(plan.layout.columns, name, code)) for name, code in pairs)
