"""Computes a query on rows of encrypted integers, by TFHE's circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from heliograph import tfhe
from heliograph._common.columns import Column
from heliograph.sql.conditions import MIRRORED, And, Comparison, Condition, Is, Ranges
from heliograph.sql.monomials import Monomial, interval_of
from heliograph.sql.slot_layout import Part
from heliograph.sql.tfhe_layout import type_of
from heliograph.sql.tfhe_plan import IntegerPlan, IntegerPolynomial, Number, comparison_operands, group_condition
from heliograph.tfhe import EvaluationKeys, Tensor
from heliograph.tfhe.dtypes import is_signed

#: A mask of rows; True or False if all rows or no rows match.
Mask = Tensor | bool
_TERMS = 64  # terms of a sum that needs one carry propagation
_TABLE = 8  # bits of an integer that one look-up table covers
_METHODS = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def both(a: Mask, b: Mask) -> Mask:
    """Returns a AND b."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def opposite(a: Mask) -> Mask:
    """Returns NOT a."""
    return not a if isinstance(a, bool) else ~a


def either(a: Mask, b: Mask) -> Mask:
    """Returns a OR b."""
    if isinstance(a, bool) or isinstance(b, bool):
        return opposite(both(opposite(a), opposite(b)))
    return a | b


class Rows:
    """A query on some rows. `read` returns the vectors of the query's blocks or rows. Intermediate results are cached for
    the query's rows.

    """

    def __init__(self, keys: EvaluationKeys, plan: IntegerPlan, rows: range, load: Callable[[Part], Tensor]) -> None:
        self._keys, self._plan, self._layout = keys, plan, plan.layout
        self._rows, self._load = rows, load
        self._vectors: dict[Part, Tensor] = {}
        self._products: dict[Monomial, Tensor] = {}
        self._sets: dict[tuple[str, Ranges], Mask] = {}

    def numbers(self) -> Iterator[tuple[int, int, Tensor]]:
        """Yields each number of the plan as a tensor of shape (), with its position in the plan and its group of rows."""
        base: Mask = True
        for condition in self._plan.base:
            base = both(base, self._mask(condition))
        group, mask = -1, base
        for place, number in enumerate(self._plan.aggregates):
            if number.group != group:
                group, mask = number.group, base
                for condition in group_condition(self._plan, group):
                    mask = both(mask, self._mask(condition))
            yield from self._number(place, number, mask)

    def _number(self, place: int, number: Number, mask: Mask) -> Iterator[tuple[int, int, Tensor]]:
        for name in number.null:
            mask = both(mask, self._valid(name))
        if number.kind == "SUM":
            terms = self._selected_values(self._product(number.names), mask)
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
            self._vectors[part] = self._load(part)
        return self._vectors[part]

    def _valid(self, name: str) -> Mask:
        """Returns the mask of rows in which a column is not NULL."""
        return self._vector(Part("valid", (name,))) if self._layout.columns[name].nullable else True

    def _value(self, name: str, kind: str) -> Tensor:
        """Returns a column as integers of a type."""
        return self._vector(Part("value", (name,))).astype(kind)

    def _product(self, names: Monomial) -> Tensor:
        """Returns a product of columns; 0 if a factor is NULL."""
        if names not in self._products:
            kind = _type(self._plan, {names: 1})
            if len(names) == 1:
                self._products[names] = self._value(names[0], kind)
            else:
                self._products[names] = self._times(self._product(names[:-1]), self._product(names[-1:]), kind)
        return self._products[names]

    def _times(self, a: Tensor, b: Tensor, kind: str) -> Tensor:
        """Multiplies by the cheapest way, in a type that holds the product: the engine's circuit, or a sum over the bits of
        one factor.
        """
        ways = [(self._layout.parameters.cost("multiply", kind, kind)[0], a, b, 0)]
        for one, other in ((a, b), (b, a)):
            bits = int(other._name.lstrip("uint"))
            if not is_signed(other._name) and bits <= _TABLE:
                ways.append((self._bit_steps(one._name, other._name, bits, kind), one, other, bits))
        _, one, other, bits = min(ways, key=lambda way: way[0])
        if not bits:
            return one.astype(kind) * other.astype(kind)
        terms = []
        for bit in range(bits):
            holds = tfhe.look_up(other, [value >> bit & 1 for value in range(1 << bits)], "bool")
            terms.append(self._selected_values(one, holds).astype(kind) << bit)
        return tfhe.stack(terms).sum(0)

    def _bit_steps(self, one: str, other: str, bits: int, kind: str) -> int:
        """Estimates the bootstraps of a product by bits."""
        cost = self._layout.parameters.cost
        total = 2 * cost("add", kind, kind)[0] * (bits > 1)
        for bit in range(bits):
            entries = [value >> bit & 1 for value in range(1 << bits)]
            total += self._cost("look_up", other, entries, "bool") + self._cost("look_up", "bool", [0, 1], one)
            total += cost("and", one, one)[0] + self._cost("shift_left", kind, [bit])
        return total

    def _polynomial(self, polynomial: IntegerPolynomial, kind: str) -> Tensor | int:
        """Returns a sum of products of columns, modulo 2^bits of the type."""
        total: Tensor | int = 0
        for monomial, factor in polynomial.items():
            if not monomial:
                continue
            term = self._product(monomial).astype(kind)
            term = term if factor == 1 else term * factor
            total = term if isinstance(total, int) else total + term
        rest = polynomial.get((), 0)
        return total + rest if rest else total

    # Masks

    def _mask(self, condition: Condition) -> Mask:
        if isinstance(condition, Is):
            key = condition.column, condition.ranges
            if key not in self._sets:
                self._sets[key] = self._within(condition.column, condition.ranges)
            return self._sets[key]
        if isinstance(condition, Comparison):
            mask = self._compared(condition)
            for name in condition.names:
                mask = both(mask, self._valid(name))
            return mask
        mask = isinstance(condition, And)
        for part in condition.parts:
            one = self._mask(part)
            mask = both(mask, one) if isinstance(condition, And) else either(mask, one)
        return mask

    def _within(self, name: str, ranges: Ranges) -> Mask:
        """Returns the mask of rows whose column is in a set."""
        column, valid = self._layout.columns[name], self._valid(name)
        inside = self._inside(name, column, ranges)
        if ranges.null is not True or valid is True:
            return both(inside, valid)
        return True if inside is True else either(both(inside, valid), opposite(valid))

    def _inside(self, name: str, column: Column, ranges: Ranges) -> Mask:
        """Returns the mask of non-NULL values in ranges, by the cheapest way: comparisons with the ranges' ends, with the
        gaps' ends, or a look-up.
        """
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
        mask: Mask = False
        for a, b in some:
            if a == b:
                mask = either(mask, vector == a)
            else:
                above, below = a == low or vector >= a, b == high or vector <= b
                mask = either(mask, both(above, below))
        return opposite(mask) if turned else mask

    def _steps(self, some: list[tuple[int, int]], low: int, high: int, kind: str) -> int:
        """Estimates the bootstraps of a row for comparisons with the ends of ranges."""
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
        """Returns a set as a look-up table; [] if the type is too wide."""
        bits = int(kind.lstrip("uint"))
        if bits > _TABLE:
            return []
        entries = [0] * (1 << bits)
        for a, b in some:
            for value in range(a, b + 1):
                entries[value % (1 << bits)] = 1
        return entries

    def _compared(self, comparison: Comparison) -> Mask:
        """Returns the mask of rows for which a comparison holds, if no column is NULL."""
        if comparison.texts is not None:
            left, right = self._ranked(*comparison.texts)
            return _holds(left, comparison.sign, right)
        operands = comparison_operands(comparison, self._layout)
        if isinstance(operands, bool):
            return operands
        one, other, kind = operands
        return _holds(self._polynomial(one, kind), comparison.sign, self._polynomial(other, kind))

    def _ranked(self, left: str, right: str) -> tuple[Tensor, Tensor]:
        """Returns two text columns as ranks among the texts of both columns."""
        columns = self._layout.columns
        every = sorted({*columns[left].values, *columns[right].values})
        kind = _narrowest(0, len(every) - 1, self._plan)
        tensors = []
        for name in (left, right):
            ranks = [every.index(text) for text in columns[name].values]
            own = self._layout.types[name]
            if ranks == list(range(len(ranks))):
                tensors.append(self._value(name, kind))
            else:
                entries = ranks + [0] * ((1 << int(own.lstrip("uint"))) - len(ranks))
                tensors.append(tfhe.look_up(self._vector(Part("value", (name,))), entries, kind))
        return tensors[0], tensors[1]

    # Aggregates of rows

    def _booleans(self, mask: Mask) -> Tensor:
        return tfhe.trivial(self._keys, [mask] * len(self._rows), "bool") if isinstance(mask, bool) else mask

    def _selected_values(self, values: Tensor, mask: Mask, fill: bool = False) -> Tensor:
        """Returns the values in rows of the mask; in other rows 0, or all ones with `fill`."""
        if mask is True:
            return values
        kind = values._name
        ones = -1 if is_signed(kind) else (1 << int(kind.lstrip("uint"))) - 1
        entries = [ones, 0] if fill else [0, ones]
        every = tfhe.look_up(self._booleans(mask), entries, kind)
        return values | every if fill else values & every

    def _total(self, terms: Tensor, low: int, high: int) -> Tensor:
        """Returns the sum of all terms, each from `low` to `high`, in groups that need one carry propagation and the
        narrowest types.
        """
        while True:
            count = terms.shape[0]
            take = min(_TERMS, count)
            low, high = take * low, take * high
            kind = _narrowest(low, high, self._plan)
            if take == count:
                return terms.sum(0, dtype=kind)
            full_rows = count // take * take
            sums = terms[:full_rows].reshape(-1, take).sum(1, dtype=kind)
            if full_rows < count:
                sums = tfhe.concatenate([sums, terms[full_rows:].sum(0, dtype=kind).reshape(1)])
            terms = sums

    def _extreme(self, number: Number, mask: Mask) -> Tensor:
        """Returns the minimum or maximum over the mask's rows. If the mask has no rows, the result is undefined: the count
        is then 0, and the client ignores the result.

        """
        values = self._value(number.names[0], number.type)
        least = number.kind == "MIN"
        if is_signed(number.type) and mask is not True:
            low, high = self._layout.ranges[number.names[0]]
            values = tfhe.select(self._booleans(mask), values, high if least else low)
        else:
            values = self._selected_values(values, mask, fill=least)
        while values.shape[0] > 1:
            half = values.shape[0] // 2
            halves = further(number, values[:half], values[half : 2 * half])
            values = tfhe.concatenate([halves, values[2 * half :]]) if values.shape[0] % 2 else halves
        return values.reshape(())


def _narrowest(low: int, high: int, plan: IntegerPlan) -> str:
    """Returns the narrowest type of the plan's parameters for integers from `low` to `high`."""
    return type_of(low, high, plan.layout.parameters)


def _type(plan: IntegerPlan, polynomial: IntegerPolynomial) -> str:
    """Same as `_narrowest`, for a sum of products of columns."""
    return _narrowest(*interval_of(polynomial, plan.layout.ranges), plan)


def further(number: Number, a: Tensor, b: Tensor) -> Tensor:
    """Combines an aggregate of some rows with the same aggregate of other rows."""
    if number.kind in ("MIN", "MAX"):
        return tfhe.minimum(a, b) if number.kind == "MIN" else tfhe.maximum(a, b)
    return a + b


def _holds(left: Tensor | int, sign: str, right: Tensor | int) -> Mask:
    """Compares each row; one side may be a constant."""
    if isinstance(left, int):
        left, right, sign = right, left, MIRRORED[sign]
    result: Any = getattr(left, _METHODS[sign])(right)
    return result  # type: ignore[no-any-return]
