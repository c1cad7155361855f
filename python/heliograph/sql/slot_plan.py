"""The plan of a query on indicators: sums and products of a table's vectors, without repetition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliograph._common.arguments import readable_bytes
from heliograph._common.columns import Column, Value
from heliograph._common.html import HtmlRepr
from heliograph._common.sql_error import SqlError
from heliograph.sql.conditions import And, Comparison, Condition, Is, Ranges
from heliograph.sql.costs import Cost
from heliograph.sql.monomials import Monomial, monomial_text, nullable
from heliograph.sql.parser import Query
from heliograph.sql.slot_layout import Layout, Part

#: A linear combination: pairs of node and factor. The empty combination () is zero.
Linear = tuple[tuple[int, int], ...]
MOST_GROUPS = 1024
ZERO = -1  #: stands for a total that is known to be 0
ROWS = 0  #: the public node that is 1 in every row of the table and 0 after the last row


@dataclass
class Graph:
    """Vectors and products of two linear combinations, without duplicates; a node is identified by its position. Sums are
    not nodes, because sums are cheap.

    """

    nodes: list[Part | tuple[Linear, Linear] | None] = field(default_factory=lambda: [None])
    depths: list[int] = field(default_factory=lambda: [0])
    numbers: dict[object, int] = field(default_factory=dict)

    def _node(self, key: Part | tuple[Linear, Linear], depth: int) -> Linear:
        if key not in self.numbers:
            self.numbers[key] = len(self.nodes)
            self.nodes.append(key)
            self.depths.append(depth)
        return ((self.numbers[key], 1),)

    def part(self, part: Part) -> Linear:
        """Returns the node of a vector of the table."""
        return self._node(part, 0)

    def depth(self, linear: Linear) -> int:
        """Returns the multiplicative depth of a linear combination."""
        return max((self.depths[node] for node, _ in linear), default=0)

    def product(self, a: Linear, b: Linear) -> Linear:
        """Returns a * b."""
        if not a or not b:
            return ()
        a, b = sorted((a, b))
        return self._node((a, b), max(self.depth(a), self.depth(b)) + 1)

    def conjunction(self, several: Iterable[Linear]) -> Linear:
        """Returns the product of all linear combinations with the least depth. Factors equal to ROWS are dropped: masks are
        0 after the last row.

        """
        every: Linear = ((ROWS, 1),)
        remaining = [one for one in dict.fromkeys(several) if one != every]
        if () in remaining:
            return ()
        while len(remaining) > 1:
            remaining.sort(key=self.depth)
            remaining = [self.product(remaining[0], remaining[1]), *remaining[2:]]
        return remaining[0] if remaining else every

    def disjunction(self, several: Iterable[Linear]) -> Linear:
        """Returns the OR of masks: a + b - a b."""
        remaining = [one for one in dict.fromkeys(several) if one]
        if ((ROWS, 1),) in remaining:
            return ((ROWS, 1),)
        while len(remaining) > 1:
            remaining.sort(key=self.depth)
            a, b = remaining[:2]
            remaining = [plus(a, b, (self.product(a, b), -1)), *remaining[2:]]
        return remaining[0] if remaining else ()


def plus(*several: Linear | tuple[Linear, int]) -> Linear:
    """Returns a sum of linear combinations, each with an optional factor."""
    total: dict[int, int] = {}
    for one in several:
        linear, factor = (one[0], one[1]) if len(one) == 2 and isinstance(one[1], int) else (one, 1)
        for node, times in linear:
            total[node] = total.get(node, 0) + factor * times
    return tuple(sorted((node, times) for node, times in total.items() if times))


class Masks:
    """Vectors of 0 and 1 for conditions on a layout's columns."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.graph = Graph()

    def of(self, condition: Condition | None) -> Linear:
        """Returns the mask of a condition: 1 if it is true. Raises SqlError for columns without indicators."""
        if condition is None:
            return ((ROWS, 1),)
        if isinstance(condition, Is):
            return self.within(condition.column, condition.ranges)
        if isinstance(condition, Comparison):
            raise SqlError(
                condition.text,
                "this table compares columns only with known values; to compare columns with each other, encrypt it with "
                f"TFHE: hg.sql.layout(..., compares=[{condition.text!r}])",
            )
        masks = [self.of(part) for part in condition.parts]
        return self.graph.conjunction(masks) if isinstance(condition, And) else self.graph.disjunction(masks)

    def valid(self, names: Iterable[str]) -> Linear:
        """Returns the mask of rows in which none of the columns is NULL."""
        null = nullable(names, self._layout.columns)
        if not null:
            return ((ROWS, 1),)
        if (part := Part("valid", null)) in self._layout.parts:
            return self.graph.part(part)
        uncovered, several = set(null), []
        there = [part for part in self._layout.parts if part.kind == "valid" and uncovered.issuperset(part.names)]
        while uncovered:  # greedy cover
            best = max(there, key=lambda part: len(uncovered.intersection(part.names)), default=None)
            if best is None or not uncovered.intersection(best.names):
                name = min(uncovered)
                raise SqlError(
                    name, "the table does not store which values of this column are NULL; name it in filters= or sums="
                )
            several.append(self.graph.part(best))
            uncovered.difference_update(best.names)
        return self.graph.conjunction(several)

    def within(self, name: str, ranges: Ranges) -> Linear:
        """Returns the mask of rows whose column is in a set."""
        column = self._layout.columns[name]
        if not column.nullable:  # no value is NULL
            ranges = Ranges(ranges.ranges, False)
        terms: list[Linear | tuple[Linear, int]] = []
        within = ranges.within(column)
        full_range = ((0, column.high - column.low),)
        if within and within != full_range and name not in self._layout.digits:
            there = ", ".join(self._layout.digits) or "none"
            raise SqlError(
                name, f"the table has no indicators for conditions on this column, only for {there}; name it in filters="
            )
        for low, high in within:
            terms += [self._at_most(name, high), (self._at_most(name, low - 1), -1)]
        if ranges.null is True:
            terms += [((ROWS, 1),), (self.valid([name]), -1)]
        return plus(*terms)

    def _at_most(self, name: str, number: int) -> Linear:
        """Returns the mask of rows whose value, counted from 0, is at most `number`."""
        column = self._layout.columns[name]
        if number < 0:
            return ()
        if number >= column.high - column.low:
            return self.valid([name])
        several = self._layout.digits[name]
        digits = []
        for values in reversed(several):
            number, digit = divmod(number, values)
            digits.append(digit)
        return self._below(name, several, digits[::-1], 0, len(several), True)[0]

    def _below(
        self, name: str, several: Sequence[int], digits: Sequence[int], low: int, high: int, equal: bool
    ) -> tuple[Linear, Linear]:
        """Returns two masks of rows: rows whose digits from `low` to `high` are less than given digits (with `equal`, at
        most these), and rows whose digits equal the given digits."""
        if high - low == 1:
            up = self._digit(name, several, low, digits[low])
            less = self._digit(name, several, low, digits[low] - 1)
            return (up if equal else less), plus(up, (less, -1))
        middle = (low + high) // 2
        less, same = self._below(name, several, digits, low, middle, False)
        rest, rest_same = self._below(name, several, digits, middle, high, equal)
        every = self.valid([name])
        product = same if rest == every else self.graph.product(same, rest)
        both = () if equal else self.graph.product(same, rest_same)  # the last level needs only "at most"
        return plus(less, product), both

    def _digit(self, name: str, several: Sequence[int], digit: int, value: int) -> Linear:
        if value < 0:
            return ()
        if value >= several[digit] - 1:
            return self.valid([name])
        return self.graph.part(Part("digit", (name,), digit, value))


@dataclass(frozen=True)
class Total:
    """A number of the answer: a sum over all rows of a mask, or of a mask's product with one limb of a vector."""

    mask: Linear
    part: Part | None  #: None: the total is the sum of the mask, a count
    together: int  #: blocks of rows whose sums share one ciphertext


@dataclass(frozen=True)
class Plan(HtmlRepr):
    """The computation of a query. Created by `EncryptedTable.plan`.

    >>> plan = table.plan("SELECT COUNT(*) FROM t WHERE age < 30")
    >>> plan.depth <= layout.depth, plan.totals
    (True, 1)
    """

    query: Query
    layout: Layout
    graph: Graph
    keys: tuple[tuple[int | None, ...], ...]  #: values of the groups; None: NULL
    #: Total of a group's sum of a limb, over the rows in which none of some columns is NULL.
    sums: dict[tuple[int, Monomial, tuple[str, ...], int], int]
    #: Total of a group's count of rows in which none of some columns is NULL; None: all rows.
    counts: dict[tuple[int, tuple[str, ...]], int | None]
    aggregates: tuple[Total, ...]
    cost: Cost | None = None  #: forecast of the running time on this device; None if not computed

    @property
    def totals(self) -> int:
        """The number of numbers in the answer."""
        return len(self.aggregates)

    @property
    def depth(self) -> int:
        """The multiplicative depth."""
        return max(
            (self.graph.depth(t.mask) + (t.part is not None and t.mask != ((ROWS, 1),)) for t in self.aggregates), default=0
        )

    @property
    def reads(self) -> tuple[Part, ...]:
        """The vectors that the query reads."""
        parts = [node for node in self.graph.nodes if isinstance(node, Part)]
        return tuple(dict.fromkeys(parts + [t.part for t in self.aggregates if t.part is not None]))

    @property
    def products(self) -> int:
        """Products of ciphertexts for each block of rows."""
        inside = sum(isinstance(node, tuple) for node in self.graph.nodes)
        return inside + sum(t.part is not None and t.mask != ((ROWS, 1),) for t in self.aggregates)

    @property
    def results(self) -> int:
        """The number of ciphertexts in the answer."""
        return sum(-(-self.layout.blocks // t.together) for t in self.aggregates)

    @property
    def read_bytes(self) -> int:
        """Bytes of the vectors that the query reads in a file, without headers."""
        return len(self.reads) * self.layout.blocks * self.layout.parameters.ciphertext_bytes() // 2

    @property
    def seconds(self) -> float | None:
        """Forecast seconds on this device; None if not computed or unknown."""
        return None if self.cost is None else self.cost.seconds

    def explain(self) -> str:
        """Describes the plan in several lines.

        >>> "products" in plan.explain()
        True
        """
        layout = self.layout
        reads = len(self.reads)
        groups = f" for each of {len(self.keys)} groups" if self.query.groups else ""
        rows = [
            ("query", " ".join(self.query.text.split())),
            ("by", f"{layout.parameters.scheme}: conditions on indicators; decryption sums the slots"),
            ("reads", f"{reads} of {len(layout.parts)} vectors, {readable_bytes(self.read_bytes)} in a file"),
            (
                "products",
                f"{self.products} for each of {layout.blocks:,} blocks of rows, depth {self.depth} of {layout.depth}",
            ),
            ("answer", f"{self.totals} sums{groups}, {self.results} ciphertexts"),
        ]
        rows += [] if self.cost is None else self.cost.rows()
        return "\n".join(f"{label:>10}  {text}" for label, text in rows)


def make_plan(query: Query, layout: Layout) -> Plan:
    """Plans a query. Raises SqlError if the table lacks vectors or depth for the query."""
    masks = Masks(layout)
    conditions = query.where.parts if isinstance(query.where, And) else (query.where,)
    fixed = {one.column: one.ranges for one in conditions if isinstance(one, Is)}
    domains = [group_keys(layout.columns, name, fixed.get(name)) for name in query.groups]
    if math.prod(len(domain) for domain in domains) > MOST_GROUPS:
        raise SqlError("GROUP BY", f"at most {MOST_GROUPS:,} groups are allowed; restrict their columns in WHERE")
    rest = [one for one in conditions if one is not None and not (isinstance(one, Is) and one.column in query.groups)]
    base = [masks.of(one) for one in rest]
    keys = tuple(itertools.product(*domains))
    aggregates: dict[Total, int] = {}
    sums: dict[tuple[int, Monomial, tuple[str, ...], int], int] = {}
    counts: dict[tuple[int, tuple[str, ...]], int | None] = {}

    def total(mask: Linear, part: Part | None, bound: int) -> int:
        if not mask:
            return ZERO
        together = min(layout.blocks, layout.half // bound)
        return aggregates.setdefault(Total(mask, part, together), len(aggregates))

    def count(group: int, mask: Linear, null: tuple[str, ...]) -> None:
        if (group, null) not in counts:
            if null and mask == ((ROWS, 1),):
                counts[group, null] = total(masks.valid(null), None, 1)
            elif null and (part := Part("valid", null)) in layout.parts:
                counts[group, null] = total(mask, part, 1)
            elif null:
                counts[group, null] = total(masks.graph.conjunction([mask, masks.valid(null)]), None, 1)
            else:
                counts[group, null] = None if mask == ((ROWS, 1),) else total(mask, None, 1)

    for group, key in enumerate(keys):
        own = [masks.within(name, only_of(layout.columns, name, code)) for name, code in zip(query.groups, key, strict=True)]
        mask = masks.graph.conjunction([*base, *own])
        count(group, mask, ())
        for item in query.items:
            if item.function in ("MIN", "MAX"):
                function = f"{item.function}({item.column})"
                advice = f"encrypt it with TFHE: hg.sql.layout(..., extremes=[{item.column!r}])"
                raise SqlError(item.function, f"this table does not answer {function}; {advice}")
            null = nullable(item.names, layout.columns)
            if item.names:
                count(group, mask, null)
            for monomial, _ in item.polynomial:
                if not monomial:
                    continue
                if monomial not in layout.sums:
                    there = ", ".join(monomial_text(m) for m in layout.sums) or "none"
                    raise SqlError(
                        f"SUM({monomial_text(monomial)})",
                        f"the table does not store this product; its sums= are {there}. Name it there, or give "
                        'scheme="tfhe", '
                        "which sums any",
                    )
                sum_mask = mask  # a product is 0 if one of its factors is NULL
                if null != nullable(monomial, layout.columns):
                    sum_mask = masks.graph.conjunction([*base, *own, masks.valid(null)])
                for limb in range(layout.limbs(monomial)):
                    part = Part("limb", monomial, limb)
                    sums[group, monomial, null, limb] = total(sum_mask, part, layout.limb_bound(monomial, limb))
    plan = Plan(query, layout, masks.graph, keys, sums, counts, tuple(aggregates))
    if plan.depth > layout.depth:
        raise SqlError(
            "WHERE",
            f"it takes {plan.depth} products in a row, this table's parameters allow {layout.depth}; encrypt it with "
            f"depth={plan.depth}",
        )
    return plan


def group_keys(columns: Mapping[str, Column], name: str, only: Ranges | None) -> list[int | None]:
    """Returns the values of a column that its groups can have under WHERE."""
    column = columns[name]
    size = column.high - column.low + 1
    ranges = ((0, size - 1),) if only is None else only.within(column)
    if sum(high - low + 1 for low, high in ranges) > MOST_GROUPS:
        raise SqlError("GROUP BY", f"{name} may have more than {MOST_GROUPS:,} values; restrict it in WHERE")
    codes: list[int | None] = [code for low, high in ranges for code in range(low, high + 1)]
    return [*codes, None] if column.nullable and (only is None or only.null is True) else codes


def only_of(columns: Mapping[str, Column], name: str, code: int | None) -> Ranges:
    """Returns the set of one value."""
    if code is None:
        return Ranges((), True)
    number = code + columns[name].low
    return Ranges(((number, number),), None)


def key_values(query: Query, columns_of: Mapping[str, Column], key: tuple[int | None, ...]) -> list[Value]:
    """Returns a group's key as values of the columns."""
    columns = [columns_of[name] for name in query.groups]
    return [None if code is None else c.shown(code + c.low) for c, code in zip(columns, key, strict=True)]
