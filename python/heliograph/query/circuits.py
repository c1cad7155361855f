"""A query on encrypted integers, on some rows of a table: TFHE's circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from heliograph import tfhe
from heliograph.query.columns import Column
from heliograph.query.conditions import MIRRORED, And, Comparison, Condition, Is, Ranges
from heliograph.query.integer_plan import IntegerPlan, Number, Side, group_condition, sides_of
from heliograph.query.integers import type_of
from heliograph.query.layout import Part
from heliograph.query.monomials import Monomial, interval_of
from heliograph.tfhe import EvaluationKeys, Tensor
from heliograph.tfhe.dtypes import is_signed

#: Of each row whether something holds; a bool where it holds in all, or in none.
Mask = Tensor | bool
_TERMS = 64  # of a sum that takes one carry propagation
_TABLE = 8  # bits of an integer that one table looks up
_METHODS = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def both(a: Mask, b: Mask) -> Mask:
    """AND."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def opposite(a: Mask) -> Mask:
    """NOT."""
    return not a if isinstance(a, bool) else ~a


def either(a: Mask, b: Mask) -> Mask:
    """OR."""
    if isinstance(a, bool) or isinstance(b, bool):
        return opposite(both(opposite(a), opposite(b)))
    return a | b


class Rows:
    """A query on some rows, whose vectors `read` gives. What is computed once is kept while these rows last."""

    def __init__(self, keys: EvaluationKeys, plan: IntegerPlan, rows: range, read: Callable[[Part], Tensor]) -> None:
        self._keys, self._plan, self._layout = keys, plan, plan.layout
        self._rows, self._read = rows, read
        self._vectors: dict[Part, Tensor] = {}
        self._products: dict[Monomial, Tensor] = {}
        self._sets: dict[tuple[str, Ranges], Mask] = {}

    def numbers(self) -> Iterator[tuple[int, int, Tensor]]:
        """Each number of the plan, by its place and the stretch of rows it is of: tensors of shape ()."""
        base: Mask = True
        for condition in self._plan.base:
            base = both(base, self._mask(condition))
        group, mask = -1, base
        for place, number in enumerate(self._plan.asked):
            if number.group != group:
                group, mask = number.group, base
                for condition in group_condition(self._plan, group):
                    mask = both(mask, self._mask(condition))
            yield from self._number(place, number, mask)

    def _number(self, place: int, number: Number, mask: Mask) -> Iterator[tuple[int, int, Tensor]]:
        for name in number.null:
            mask = both(mask, self._valid(name))
        if number.kind == "SUM":
            terms = self._chosen(self._product(number.names), mask)
            low, high = interval_of({number.names: 1}, self._layout.ranges)
            start = self._rows.start
            while start < self._rows.stop:
                stretch = start // number.together
                stop = min(self._rows.stop, (stretch + 1) * number.together)
                piece = terms[start - self._rows.start : stop - self._rows.start]
                yield place, stretch, self._total(piece, low, high).astype(number.type)
                start = stop
            return
        for name in number.names:
            mask = both(mask, self._valid(name))
        if number.kind == "COUNT":
            yield place, 0, self._total(self._booleans(mask), 0, 1).astype(number.type)
        else:
            yield place, 0, self._extreme(number, mask)

    # Columns

    def _vector(self, part: Part) -> Tensor:
        if part not in self._vectors:
            self._vectors[part] = self._read(part)
        return self._vectors[part]

    def _valid(self, name: str) -> Mask:
        """Where a column is not NULL."""
        return self._vector(Part("valid", (name,))) if self._layout.columns[name].nullable else True

    def _value(self, name: str, kind: str) -> Tensor:
        """A column as integers of a type."""
        return self._vector(Part("value", (name,))).astype(kind)

    def _product(self, names: Monomial) -> Tensor:
        """0 where a factor is NULL."""
        if names not in self._products:
            kind = _type(self._plan, {names: 1})
            if len(names) == 1:
                self._products[names] = self._value(names[0], kind)
            else:
                self._products[names] = self._times(self._product(names[:-1]), self._product(names[-1:]), kind)
        return self._products[names]

    def _times(self, a: Tensor, b: Tensor, kind: str) -> Tensor:
        """A product that a type holds: by the engine's circuit, or a sum over the bits of one factor, as is cheapest."""
        found = [(self._layout.parameters.cost("multiply", kind, kind)[0], a, b, 0)]
        for one, other in ((a, b), (b, a)):
            bits = int(other._name.lstrip("uint"))
            if not is_signed(other._name) and bits <= _TABLE:
                found.append((self._bit_steps(one._name, other._name, bits, kind), one, other, bits))
        _, one, other, bits = min(found, key=lambda way: way[0])
        if not bits:
            return one.astype(kind) * other.astype(kind)
        terms = []
        for bit in range(bits):
            holds = tfhe.look_up(other, [value >> bit & 1 for value in range(1 << bits)], "bool")
            terms.append(self._chosen(one, holds).astype(kind) << bit)
        return tfhe.stack(terms).sum(0)

    def _bit_steps(self, one: str, other: str, bits: int, kind: str) -> int:
        """Bootstraps of a product by bits, nearly."""
        cost = self._layout.parameters.cost
        total = 2 * cost("add", kind, kind)[0] * (bits > 1)
        for bit in range(bits):
            entries = [value >> bit & 1 for value in range(1 << bits)]
            total += self._cost("look_up", other, entries, "bool") + self._cost("look_up", "bool", [0, 1], one)
            total += cost("and", one, one)[0] + self._cost("shift_left", kind, [bit])
        return total

    def _side(self, side: Side, kind: str) -> Tensor | int:
        """A sum of products of columns, modulo what the type holds."""
        total: Tensor | int = 0
        for monomial, factor in side.items():
            if not monomial:
                continue
            made = self._product(monomial).astype(kind)
            made = made if factor == 1 else made * factor
            total = made if isinstance(total, int) else total + made
        rest = side.get((), 0)
        return total + rest if rest else total

    # Masks

    def _mask(self, condition: Condition) -> Mask:
        if isinstance(condition, Is):
            key = condition.column, condition.ranges
            if key not in self._sets:
                self._sets[key] = self._within(condition.column, condition.ranges)
            return self._sets[key]
        if isinstance(condition, Comparison):
            made = self._compared(condition)
            for name in condition.names:
                made = both(made, self._valid(name))
            return made
        made = isinstance(condition, And)
        for part in condition.parts:
            one = self._mask(part)
            made = both(made, one) if isinstance(condition, And) else either(made, one)
        return made

    def _within(self, name: str, ranges: Ranges) -> Mask:
        """Where a column is in a set."""
        column, valid = self._layout.columns[name], self._valid(name)
        inside = self._inside(name, column, ranges)
        if ranges.null is not True or valid is True:
            return both(inside, valid)
        return True if inside is True else either(both(inside, valid), opposite(valid))

    def _inside(self, name: str, column: Column, ranges: Ranges) -> Mask:
        """Of what is not NULL: by comparisons with the ends of the ranges or of what lies between, or by a table, as is cheapest."""
        shift, last = column.low - self._layout.bases[name], column.high - column.low
        within = ranges.within(column)
        if not within or within == ((0, last),):
            return bool(within)
        vector = self._vector(Part("value", (name,)))
        if column.kind == "bool":
            return vector if within == ((1, 1),) else ~vector
        kind, low, high = self._layout.types[name], shift, shift + last
        positive = [(a + shift, b + shift) for a, b in within]
        negative = [(a + shift, b + shift) for a, b in ranges.negated().within(column)]
        ways = [(self._steps(some, low, high, kind), some, some is negative) for some in (positive, negative)]
        steps, some, turned = min(ways, key=lambda way: way[0])
        table = self._table(positive, kind)
        if table and self._cost("look_up", kind, table, "bool") <= steps:
            return tfhe.look_up(vector, table, "bool")
        made: Mask = False
        for a, b in some:
            if a == b:
                made = either(made, vector == a)
            else:
                above, below = a == low or vector >= a, b == high or vector <= b
                made = either(made, both(above, below))
        return opposite(made) if turned else made

    def _steps(self, some: list[tuple[int, int]], low: int, high: int, kind: str) -> int:
        """Bootstraps of a row, for comparisons with the ends of some ranges."""
        total = len(some) - 1
        for a, b in some:
            if a == b:
                total += self._cost("equal", kind, [a])
            else:
                total += 0 if a == low else self._cost("greater_equal", kind, [a])
                total += 0 if b == high else self._cost("less_equal", kind, [b])
                total += a != low and b != high
        return total

    def _cost(self, name: str, kind: str, arguments: list[int], dtype: str | None = None) -> int:
        return self._layout.parameters.cost(name, kind, arguments=arguments, dtype=dtype)[0]

    @staticmethod
    def _table(some: list[tuple[int, int]], kind: str) -> list[int]:
        """A set as a table; empty where the type is too wide for one."""
        bits = int(kind.lstrip("uint"))
        if bits > _TABLE:
            return []
        entries = [0] * (1 << bits)
        for a, b in some:
            for value in range(a, b + 1):
                entries[value % (1 << bits)] = 1
        return entries

    def _compared(self, comparison: Comparison) -> Mask:
        """Where a comparison holds, of rows that have no NULL in it."""
        if comparison.texts is not None:
            left, right = self._ranked(*comparison.texts)
            return _holds(left, comparison.sign, right)
        found = sides_of(comparison, self._layout)
        if isinstance(found, bool):
            return found
        one, other, kind = found
        return _holds(self._side(one, kind), comparison.sign, self._side(other, kind))

    def _ranked(self, left: str, right: str) -> tuple[Tensor, Tensor]:
        """Two columns of text by their places among the texts of both."""
        columns = self._layout.columns
        every = sorted({*columns[left].values, *columns[right].values})
        kind = _narrowest(0, len(every) - 1, self._plan)
        made = []
        for name in (left, right):
            ranks = [every.index(text) for text in columns[name].values]
            own = self._layout.types[name]
            if ranks == list(range(len(ranks))):
                made.append(self._value(name, kind))
            else:
                entries = ranks + [0] * ((1 << int(own.lstrip("uint"))) - len(ranks))
                made.append(tfhe.look_up(self._vector(Part("value", (name,))), entries, kind))
        return made[0], made[1]

    # Numbers of rows

    def _booleans(self, mask: Mask) -> Tensor:
        return tfhe.trivial(self._keys, [mask] * len(self._rows), "bool") if isinstance(mask, bool) else mask

    def _chosen(self, values: Tensor, mask: Mask, fill: bool = False) -> Tensor:
        """Values where a mask holds; elsewhere 0, or with `fill` all ones."""
        if mask is True:
            return values
        kind = values._name
        ones = -1 if is_signed(kind) else (1 << int(kind.lstrip("uint"))) - 1
        entries = [ones, 0] if fill else [0, ones]
        every = tfhe.look_up(self._booleans(mask), entries, kind)
        return values | every if fill else values & every

    def _total(self, terms: Tensor, low: int, high: int) -> Tensor:
        """The sum of all, each from `low` to `high`: as many as one carry propagation takes at a time, no wider than they need."""
        while True:
            count = terms.shape[0]
            take = min(_TERMS, count)
            low, high = take * low, take * high
            kind = _narrowest(low, high, self._plan)
            if take == count:
                return terms.sum(0, dtype=kind)
            whole = count // take * take
            made = terms[:whole].reshape(-1, take).sum(1, dtype=kind)
            if whole < count:
                made = tfhe.concatenate([made, terms[whole:].sum(0, dtype=kind).reshape(1)])
            terms = made

    def _extreme(self, number: Number, mask: Mask) -> Tensor:
        """The least or the most where a mask holds. Where it does nowhere, anything: nobody reads it."""
        values = self._value(number.names[0], number.type)
        least = number.kind == "MIN"
        if is_signed(number.type) and mask is not True:
            low, high = self._layout.ranges[number.names[0]]
            values = tfhe.select(self._booleans(mask), values, high if least else low)
        else:
            values = self._chosen(values, mask, fill=least)
        while values.shape[0] > 1:
            half = values.shape[0] // 2
            made = further(number, values[:half], values[half : 2 * half])
            values = tfhe.concatenate([made, values[2 * half :]]) if values.shape[0] % 2 else made
        return values.reshape(())


def _narrowest(low: int, high: int, plan: IntegerPlan) -> str:
    """The narrowest type of a plan's parameters for integers from `low` to `high`."""
    return type_of(low, high, plan.layout.parameters)


def _type(plan: IntegerPlan, side: Side) -> str:
    """As `_narrowest`, for a sum of products of columns."""
    return _narrowest(*interval_of(side, plan.layout.ranges), plan)


def further(number: Number, a: Tensor, b: Tensor) -> Tensor:
    """A number of some rows with the same of others."""
    if number.kind in ("MIN", "MAX"):
        return tfhe.minimum(a, b) if number.kind == "MIN" else tfhe.maximum(a, b)
    return a + b


def _holds(left: Tensor | int, sign: str, right: Tensor | int) -> Mask:
    """A comparison of each row; one side may be a number for all."""
    if isinstance(left, int):
        left, right, sign = right, left, MIRRORED[sign]
    made: Any = getattr(left, _METHODS[sign])(right)
    return made  # type: ignore[no-any-return]
