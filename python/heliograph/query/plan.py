"""What a server computes for a query: sums and products of a table's vectors, each once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliograph._arrays import readable_bytes
from heliograph._html import Shown
from heliograph.query.columns import Column, Value
from heliograph.query.conditions import And, Comparison, Condition, Is, Ranges
from heliograph.query.costs import Cost
from heliograph.query.errors import SqlError
from heliograph.query.layout import Layout, Part
from heliograph.query.monomials import Monomial, named, nullable
from heliograph.query.sql import Query

#: A sum: the factor of each node. () is zero.
Linear = tuple[tuple[int, int], ...]
MOST_GROUPS = 1024
ZERO = -1  #: in place of a total: it is known to be 0
ROWS = 0  #: the node that is 1 in every row of the table, and 0 behind them: public


@dataclass
class Graph:
    """Vectors and products of two sums of them, alike ones once; the positions are their names. Sums are not nodes: they cost little."""

    nodes: list[Part | tuple[Linear, Linear] | None] = field(default_factory=lambda: [None])
    depths: list[int] = field(default_factory=lambda: [0])
    known: dict[object, int] = field(default_factory=dict)

    def _node(self, key: Part | tuple[Linear, Linear], depth: int) -> Linear:
        if key not in self.known:
            self.known[key] = len(self.nodes)
            self.nodes.append(key)
            self.depths.append(depth)
        return ((self.known[key], 1),)

    def part(self, part: Part) -> Linear:
        """A vector of the table."""
        return self._node(part, 0)

    def depth(self, linear: Linear) -> int:
        """Products in a row."""
        return max((self.depths[node] for node, _ in linear), default=0)

    def product(self, a: Linear, b: Linear) -> Linear:
        """a * b."""
        if not a or not b:
            return ()
        a, b = sorted((a, b))
        return self._node((a, b), max(self.depth(a), self.depth(b)) + 1)

    def conjunction(self, several: Iterable[Linear]) -> Linear:
        """The product of all, of the least depth; factors of ROWS alone change nothing in a mask."""
        every: Linear = ((ROWS, 1),)
        left = [one for one in dict.fromkeys(several) if one != every]
        if () in left:
            return ()
        while len(left) > 1:
            left.sort(key=self.depth)
            left = [self.product(left[0], left[1]), *left[2:]]
        return left[0] if left else every

    def disjunction(self, several: Iterable[Linear]) -> Linear:
        """1 where one is: a + b - a b."""
        left = [one for one in dict.fromkeys(several) if one]
        if ((ROWS, 1),) in left:
            return ((ROWS, 1),)
        while len(left) > 1:
            left.sort(key=self.depth)
            a, b = left[:2]
            left = [plus(a, b, (self.product(a, b), -1)), *left[2:]]
        return left[0] if left else ()


def plus(*several: Linear | tuple[Linear, int]) -> Linear:
    """A sum of sums, some with a factor."""
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
        """1 where a condition is true. Raises SqlError for columns that have no indicators."""
        if condition is None:
            return ((ROWS, 1),)
        if isinstance(condition, Is):
            return self.within(condition.column, condition.ranges)
        if isinstance(condition, Comparison):
            raise SqlError(
                condition.text,
                f"this table compares columns with known values alone; hg.query.layout(..., compares=[{condition.text!r}]) makes one "
                "that compares columns with each other, of TFHE",
            )
        masks = [self.of(part) for part in condition.parts]
        return self.graph.conjunction(masks) if isinstance(condition, And) else self.graph.disjunction(masks)

    def valid(self, names: Iterable[str]) -> Linear:
        """1 where none of some columns is NULL."""
        null = nullable(names, self._layout.columns)
        if not null:
            return ((ROWS, 1),)
        if (part := Part("valid", null)) in self._layout.parts:
            return self.graph.part(part)
        left, several = set(null), []
        there = [part for part in self._layout.parts if part.kind == "valid" and left.issuperset(part.names)]
        while left:  # by as few vectors as a greedy cover takes
            best = max(there, key=lambda part: len(left.intersection(part.names)), default=None)
            if best is None or not left.intersection(best.names):
                name = min(left)
                raise SqlError(name, "this table was encrypted without its NULLs: name it in filters= or sums=")
            several.append(self.graph.part(best))
            left.difference_update(best.names)
        return self.graph.conjunction(several)

    def within(self, name: str, ranges: Ranges) -> Linear:
        """1 where a column is in a set."""
        column = self._layout.columns[name]
        if not column.nullable:  # whether it is NULL is known
            ranges = Ranges(ranges.ranges, False)
        found: list[Linear | tuple[Linear, int]] = []
        within = ranges.within(column)
        whole = ((0, column.high - column.low),)
        if within and within != whole and name not in self._layout.digits:
            there = ", ".join(self._layout.digits) or "none"
            raise SqlError(name, f"this table has no indicators for conditions on it; it has them for {there}")
        for low, high in within:
            found += [self._at_most(name, high), (self._at_most(name, low - 1), -1)]
        if ranges.null is True:
            found += [((ROWS, 1),), (self.valid([name]), -1)]
        return plus(*found)

    def _at_most(self, name: str, number: int) -> Linear:
        """1 where a column's value, counted from 0, is at most a number."""
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
        """1 where the digits from `low` to `high` are less than some (with `equal`, at most), and where they are these."""
        if high - low == 1:
            up = self._digit(name, several, low, digits[low])
            less = self._digit(name, several, low, digits[low] - 1)
            return (up if equal else less), plus(up, (less, -1))
        middle = (low + high) // 2
        less, same = self._below(name, several, digits, low, middle, False)
        rest, rest_same = self._below(name, several, digits, middle, high, equal)
        every = self.valid([name])
        made = same if rest == every else self.graph.product(same, rest)
        both = () if equal else self.graph.product(same, rest_same)  # at most is all that is asked for at the end
        return plus(less, made), both

    def _digit(self, name: str, several: Sequence[int], digit: int, value: int) -> Linear:
        if value < 0:
            return ()
        if value >= several[digit] - 1:
            return self.valid([name])
        return self.graph.part(Part("digit", (name,), digit, value))


@dataclass(frozen=True)
class Total:
    """A number of the answer: a sum over all rows of a mask, or of its product with one limb of a vector."""

    mask: Linear
    part: Part | None  #: of None: the mask's own sum, a count
    together: int  #: blocks of rows whose sums are in one ciphertext


@dataclass(frozen=True)
class Plan(Shown):
    """How a query is computed. Made by `EncryptedTable.plan`.

    >>> plan = table.plan("SELECT COUNT(*) FROM t WHERE age < 30")
    >>> plan.depth <= layout.depth, plan.totals
    (True, 1)
    """

    query: Query
    layout: Layout
    graph: Graph
    keys: tuple[tuple[int | None, ...], ...]  #: of the groups; None: NULL
    sums: dict[
        tuple[int, Monomial, tuple[str, ...], int], int
    ]  #: which total a group's sum of a limb is, of rows where no column of some is NULL
    counts: dict[
        tuple[int, tuple[str, ...]], int | None
    ]  #: a group's count of rows where no column of some is NULL; None: all rows
    asked: tuple[Total, ...]
    cost: Cost | None = None  #: what it is forecast to take; None where nobody asked

    @property
    def totals(self) -> int:
        """Numbers in the answer."""
        return len(self.asked)

    @property
    def depth(self) -> int:
        """Products in a row."""
        return max(
            (self.graph.depth(t.mask) + (t.part is not None and t.mask != ((ROWS, 1),)) for t in self.asked), default=0
        )

    @property
    def reads(self) -> tuple[Part, ...]:
        """The vectors that it reads."""
        found = [node for node in self.graph.nodes if isinstance(node, Part)]
        return tuple(dict.fromkeys(found + [t.part for t in self.asked if t.part is not None]))

    @property
    def products(self) -> int:
        """Products of ciphertexts, of one block of rows."""
        inside = sum(isinstance(node, tuple) for node in self.graph.nodes)
        return inside + sum(t.part is not None and t.mask != ((ROWS, 1),) for t in self.asked)

    @property
    def results(self) -> int:
        """Ciphertexts of the answer."""
        return sum(-(-self.layout.blocks // t.together) for t in self.asked)

    @property
    def read_bytes(self) -> int:
        """Bytes of the vectors that it reads in a file, but for headers."""
        return len(self.reads) * self.layout.blocks * self.layout.parameters.ciphertext_bytes() // 2

    @property
    def seconds(self) -> float | None:
        """What it is forecast to take on this device; None where nobody asked, or nothing forecasts it."""
        return None if self.cost is None else self.cost.seconds

    def explain(self) -> str:
        """Several lines for a person.

        >>> "products" in plan.explain()
        True
        """
        layout = self.layout
        reads = len(self.reads)
        groups = f" for each of {len(self.keys)} groups" if self.query.groups else ""
        rows = [
            ("query", " ".join(self.query.text.split())),
            ("by", f"{layout.parameters.scheme}, conditions on indicators, sums over slots by whoever decrypts"),
            ("reads", f"{reads} of {len(layout.parts)} vectors, {readable_bytes(self.read_bytes)} in a file"),
            (
                "products",
                f"{self.products} of each of {layout.blocks:,} blocks of rows, {self.depth} in a row of {layout.depth}",
            ),
            ("answer", f"{self.totals} sums{groups}, {self.results} ciphertexts"),
        ]
        rows += [] if self.cost is None else self.cost.rows()
        return "\n".join(f"{label:>10}  {text}" for label, text in rows)


def made_plan(query: Query, layout: Layout) -> Plan:
    """Raises SqlError for what this table has no vectors or no depth for."""
    masks = Masks(layout)
    conditions = query.where.parts if isinstance(query.where, And) else (query.where,)
    fixed = {one.column: one.ranges for one in conditions if isinstance(one, Is)}
    domains = [group_keys(layout.columns, name, fixed.get(name)) for name in query.groups]
    if math.prod(len(domain) for domain in domains) > MOST_GROUPS:
        raise SqlError("GROUP BY", f"it has more than {MOST_GROUPS:,} groups: narrow them by WHERE")
    rest = [one for one in conditions if one is not None and not (isinstance(one, Is) and one.column in query.groups)]
    base = [masks.of(one) for one in rest]
    keys = tuple(itertools.product(*domains))
    asked: dict[Total, int] = {}
    sums: dict[tuple[int, Monomial, tuple[str, ...], int], int] = {}
    counts: dict[tuple[int, tuple[str, ...]], int | None] = {}

    def total(mask: Linear, part: Part | None, bound: int) -> int:
        if not mask:
            return ZERO
        together = min(layout.blocks, layout.half // bound)
        return asked.setdefault(Total(mask, part, together), len(asked))

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
                said = f"{item.function}({item.column})"
                wanted = f"hg.query.layout(..., extremes=[{item.column!r}]) makes one that does, of TFHE"
                raise SqlError(item.function, f"this table does not answer {said}; {wanted}")
            null = nullable(item.names, layout.columns)
            if item.names:
                count(group, mask, null)
            for monomial, _ in item.polynomial:
                if not monomial:
                    continue
                if monomial not in layout.sums:
                    there = ", ".join(named(m) for m in layout.sums) or "none"
                    raise SqlError(
                        f"SUM({named(monomial)})",
                        f'this table was encrypted without it; its sums= are {there}. One of TFHE sums any: scheme="tfhe"',
                    )
                known = mask  # a product is 0 where it is NULL itself
                if null != nullable(monomial, layout.columns):
                    known = masks.graph.conjunction([*base, *own, masks.valid(null)])
                for limb in range(layout.limbs(monomial)):
                    part = Part("limb", monomial, limb)
                    sums[group, monomial, null, limb] = total(known, part, layout.limb_bound(monomial, limb))
    plan = Plan(query, layout, masks.graph, keys, sums, counts, tuple(asked))
    if plan.depth > layout.depth:
        raise SqlError(
            "WHERE",
            f"it takes {plan.depth} products in a row, and this table's parameters {layout.depth}: encrypt it with depth=",
        )
    return plan


def group_keys(columns: Mapping[str, Column], name: str, only: Ranges | None) -> list[int | None]:
    """Values of a column that its groups can have, as far as WHERE leaves them."""
    column = columns[name]
    size = column.high - column.low + 1
    ranges = ((0, size - 1),) if only is None else only.within(column)
    if sum(high - low + 1 for low, high in ranges) > MOST_GROUPS:
        raise SqlError("GROUP BY", f"{name} has more than {MOST_GROUPS:,} values: narrow them by WHERE")
    found: list[int | None] = [code for low, high in ranges for code in range(low, high + 1)]
    return [*found, None] if column.nullable and (only is None or only.null is True) else found


def only_of(columns: Mapping[str, Column], name: str, code: int | None) -> Ranges:
    """The set of one value."""
    if code is None:
        return Ranges((), True)
    number = code + columns[name].low
    return Ranges(((number, number),), None)


def key_values(query: Query, columns_of: Mapping[str, Column], key: tuple[int | None, ...]) -> list[Value]:
    """A group's key as the columns have it."""
    columns = [columns_of[name] for name in query.groups]
    return [None if code is None else c.shown(code + c.low) for c, code in zip(columns, key, strict=True)]
