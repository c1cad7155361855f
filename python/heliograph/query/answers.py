"""Encrypted answers to queries, and what they become at the owner's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from heliograph import _core, exact, tfhe
from heliograph._arrays import printable, readable_bytes
from heliograph._html import Shown
from heliograph.keys import from_bytes
from heliograph.query.columns import Column, Value, scaled
from heliograph.query.containers import Parts, Piece, Saved, pieces
from heliograph.query.errors import SqlError
from heliograph.query.integer_plan import IntegerPlan
from heliograph.query.monomials import nullable, places_of
from heliograph.query.plan import ZERO, Plan, key_values
from heliograph.query.sql import Item
from heliograph.query.table import SecretKey, layout_of, plan_of

TYPE = "heliograph.query.answer"
Tensor = exact.Tensor | tfhe.Tensor


@dataclass(frozen=True)
class Result(Shown):
    """A decrypted answer: what SQL gives, NULL as None. Integers and decimals are exact, averages are floats.

    >>> result = answer.decrypt(secret)
    >>> result.columns, result.rows
    (['total', 'count(*)'], [(8300, 3)])
    """

    columns: list[str]  #: labels
    rows: list[tuple[Any, ...]]  #: in the order of the groups' values

    def to_dict(self) -> dict[str, list[Any]]:
        """A list for each column; the later one of two of a label.

        >>> result.to_dict()
        {'total': [8300], 'count(*)': [3]}
        """
        return {name: [row[at] for row in self.rows] for at, name in enumerate(self.columns)}

    def to_pandas(self) -> Any:
        """A pandas.DataFrame.

        >>> result.to_pandas().shape
        (1, 2)
        """
        try:
            import pandas
        except ImportError:
            raise _core.HeliographError("data frames are pandas's: pip install pandas") from None
        return pandas.DataFrame(self.rows, columns=self.columns)

    def to_arrow(self) -> Any:
        """A pyarrow.Table: a column for each label. Integers are int64, or decimals without places where one is beyond 64 bits
        (decimal128 of 38 digits, decimal256 of 76). Raises PlaintextRangeError for a number of more digits, which names the column.

        >>> result.to_arrow().num_rows
        1
        """
        try:
            import pyarrow
        except ImportError:
            raise _core.HeliographError("Arrow's tables are pyarrow's: pip install 'heliograph[query]'") from None
        arrays = [_arrow_array(pyarrow, name, [row[at] for row in self.rows]) for at, name in enumerate(self.columns)]
        return pyarrow.Table.from_arrays(arrays, names=self.columns)


def _arrow_array(pyarrow: Any, name: str, values: list[Any]) -> Any:
    """A column of a result. Raises PlaintextRangeError."""
    numbers = [value for value in values if type(value) is int]
    kind = None
    if any(not -(1 << 63) <= value < 1 << 63 for value in numbers):
        digits = max(len(str(abs(value))) for value in numbers)
        kind = pyarrow.decimal128(38) if digits <= 38 else pyarrow.decimal256(76)
    try:
        return pyarrow.array(values, type=kind)
    except (pyarrow.ArrowException, OverflowError):
        most = max(len(str(value)) for value in values if value is not None)
        raise _core.PlaintextRangeError(
            f"cannot make an Arrow table: column {printable(name)} holds a number of {most} characters, and Arrow's decimals have "
            "at most 76 digits; take rows or to_dict"
        ) from None


class Answer(Saved):
    """An encrypted answer. Made by `SqlServer.sql`.

    >>> answer.sql[:18], answer.key_id == secret.id
    ('SELECT SUM(salary)', True)
    >>> hg.query.Answer.from_bytes(answer.to_bytes()).decrypt(secret).rows
    [(8300, 3)]
    """

    _TYPE = TYPE

    def __init__(self, plan: Plan | IntegerPlan, key_id: str, tensors: list[Any]) -> None:
        self.plan = plan  #: how it was computed, or is said to have been
        self.key_id = key_id  #: which key it is of
        self._tensors = tensors

    @property
    def sql(self) -> str:
        """The query."""
        return self.plan.query.text

    @property
    def nbytes(self) -> int:
        """Bytes of its ciphertexts in memory."""
        return sum(tensor.nbytes for tensor in self._tensors)

    @property
    def noise_budget(self) -> float | None:
        """Bits of noise that are left, an estimate; None of TFHE, where nothing is encrypted in it, or nobody knows."""
        budgets = [tensor.noise_budget for tensor in self._tensors if isinstance(tensor, exact.Tensor) and tensor.size]
        return None if not budgets or None in budgets else min(b for b in budgets if b is not None)

    def explain(self) -> str:
        """As `Plan.explain`, with what it came to.

        >>> "noise" in answer.explain()
        True
        """
        if isinstance(self.plan, IntegerPlan):
            return f"{self.plan.explain()}\n{'size':>10}  {readable_bytes(self.nbytes)}"
        budget = self.noise_budget
        left = "unknown" if budget is None else f"{budget:.0f} bits left"
        return f"{self.plan.explain()}\n{'noise':>10}  {left}\n{'size':>10}  {readable_bytes(self.nbytes)}"

    def decrypt(self, secret: SecretKey, *, sql: str | None = None) -> Result:
        """The result, by the table's secret key. With `sql`, only of this query.

        Raises WrongKeyError, MismatchError for another key or another query, NoiseError for what cannot be right. A server that
        does not follow the protocol can answer with anything: nothing here proves what was computed.

        >>> answer.decrypt(secret).rows
        [(8300, 3)]
        """
        if not isinstance(secret, SecretKey):
            raise _core.DtypeError(f"answers are decrypted by a secret key of BGV, BFV or TFHE, not {type(secret).__name__}")
        if sql is not None and sql != self.sql:
            raise _core.MismatchError(f"this is the answer to another query: {printable(self.sql)[:200]}")
        if self.key_id != secret.id:
            raise _core.WrongKeyError(f"the answer is of key {printable(self.key_id[:8])}, this one is {secret.id[:8]}")
        if isinstance(self.plan, IntegerPlan):
            return self._integers(self.plan, secret)
        values: list[int] = []
        key: Any = secret  # of BFV or BGV, as the plan is
        for tensor in self._tensors:
            # Unchecked: the table's limbs are as narrow as its totals ask for to stay below t/2 (Layout), whatever the masks.
            slots: Any = key.decrypt(tensor.reshape(-1), unchecked=True)
            values += [int(row.sum()) if row.dtype != object else sum(row.tolist()) for row in slots]
        if len(values) != self.plan.results:
            raise _core.DamagedFileError(f"this answer has {len(values)} ciphertexts, and its query {self.plan.results}")
        totals, at = [], 0
        for asked in self.plan.asked:
            count = -(-self.plan.layout.blocks // asked.together)
            totals.append(sum(values[at : at + count]))
            at += count
        return _Reading(self.plan, totals).result()

    def _integers(self, plan: IntegerPlan, secret: Any) -> Result:
        """Of numbers that are ciphertexts of their own; one where nothing was asked for is none of them."""
        totals, at = [], 0
        for asked in plan.asked:
            several = self._tensors[at : (at := at + -(-plan.layout.rows // asked.together))]
            if not all(tensor.shape == () and tensor._name == asked.type for tensor in several):
                raise _core.DamagedFileError("this answer's numbers are not those of its query")
            totals.append(sum(int(secret.decrypt(tensor)) for tensor in several))
        if len(self._tensors) != max(1, plan.results):
            raise _core.DamagedFileError(f"this answer has {len(self._tensors)} ciphertexts, and its query {plan.results}")
        return _IntegerReading(plan, totals).result()

    def _pieces(self) -> Iterator[Piece]:
        parts = [tensor.to_bytes() for tensor in self._tensors]
        header = {"key": self.key_id, "layout": self.plan.layout.data(), "sql": self.sql}
        return pieces(TYPE, header, parts, [len(part) for part in parts])

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        header = parts.header
        if set(header) != {"key", "layout", "sql"} or not all(isinstance(header[name], str) for name in ("key", "sql")):
            raise _core.DamagedFileError("this file's header is not one of an answer")
        tensors: list[Any] = [from_bytes(parts[number]) for number in range(len(parts))]
        if not tensors or not any(all(isinstance(t, kind) for t in tensors) for kind in (exact.Tensor, tfhe.Tensor)):
            raise _core.DamagedFileError("an answer holds tensors of BGV, BFV or TFHE")
        layout = layout_of(header["layout"], tensors[0].parameters)
        try:
            plan = plan_of(header["sql"], layout)
        except SqlError as error:
            raise _core.DamagedFileError(f"this answer's query is none of its table: {error}") from None
        return cls(plan, header["key"], tensors)

    def _rows(self) -> list[tuple[str, str]]:
        lines = (line.strip().partition("  ") for line in self.explain().split("\n"))
        return [(label, text.strip()) for label, _, text in lines]

    def __repr__(self) -> str:
        return (
            f"<answer of {self.plan.results} ciphertexts, {readable_bytes(self.nbytes)}, key {printable(self.key_id[:8])}>"
        )


class _Rows(ABC):
    """An answer's numbers as the rows of its query."""

    def __init__(self, plan: Plan | IntegerPlan) -> None:
        self._plan = plan

    def result(self) -> Result:
        plan = self._plan
        rows = []
        for group, key in enumerate(plan.keys):
            if plan.query.groups and not self._count(group, ()):
                continue
            shown = dict(zip(plan.query.groups, key_values(plan.query, plan.layout.columns, key), strict=True))
            rows.append(tuple(self._value(group, item, shown) for item in plan.query.items))
        return Result([item.label for item in plan.query.items], rows)

    @staticmethod
    def _shown(column: Column, number: int, item: Item) -> Value:
        """What a column has; a server that computes something else may have sent anything."""
        if not column.low <= number <= column.high:
            raise _core.DamagedFileError(f"this answer's {item.function} is no value of {printable(item.column)}")
        return column.shown(number)

    @abstractmethod
    def _count(self, group: int, null: tuple[str, ...]) -> int:
        """Rows of a group where none of some columns is NULL."""

    @abstractmethod
    def _sum(self, group: int, monomial: tuple[str, ...], null: tuple[str, ...]) -> int:
        """A group's sum of a product of columns, of rows where none of some columns is NULL."""

    def _extreme(self, group: int, item: Item) -> int:
        """A group's least or most of a column."""
        raise _core.InternalError(f"sums have no {item.function}")

    def _value(self, group: int, item: Item, shown: dict[str, Value]) -> Any:
        columns = self._plan.layout.columns
        if not item.function:
            return shown[item.column]
        if item.function == "COUNT":
            return self._count(group, nullable(item.names, columns))
        if item.function in ("MIN", "MAX"):
            known = self._count(group, nullable(item.names, columns))
            return self._shown(columns[item.column], self._extreme(group, item), item) if known else None
        null = nullable(item.names, columns)
        count = self._count(group, null)
        if not count:
            return None
        found, places = Fraction(0), 0
        for monomial, factor in item.polynomial:
            number = count if not monomial else self._sum(group, monomial, null)
            own = places_of(monomial, columns)
            found += factor * Fraction(number, 10**own)
            places = max(places, own + _places(factor))
        if item.function == "AVG":
            return float(found / count)
        return scaled(int(found * 10**places), places) if places else int(found)


class _Reading(_Rows):
    """Of sums over slots."""

    def __init__(self, plan: Plan, totals: list[int]) -> None:
        super().__init__(plan)
        self._asked, self._totals = plan, totals

    def _total(self, number: int) -> int:
        return 0 if number == ZERO else self._totals[number]

    def _count(self, group: int, null: tuple[str, ...]) -> int:
        number = self._asked.counts[group, null]
        return self._asked.layout.rows if number is None else self._total(number)

    def _sum(self, group: int, monomial: tuple[str, ...], null: tuple[str, ...]) -> int:
        layout = self._asked.layout
        limbs = range(layout.limbs(monomial))
        return sum(self._total(self._asked.sums[group, monomial, null, limb]) << (layout.limb_bits * limb) for limb in limbs)


class _IntegerReading(_Rows):
    """Of encrypted integers."""

    def __init__(self, plan: IntegerPlan, totals: list[int]) -> None:
        super().__init__(plan)
        self._asked, self._totals = plan, totals

    def _count(self, group: int, null: tuple[str, ...]) -> int:
        place = self._asked.places.get(("COUNT", group, null, ()))
        return self._asked.layout.rows if place is None else self._totals[place]

    def _sum(self, group: int, monomial: tuple[str, ...], null: tuple[str, ...]) -> int:
        others = tuple(name for name in null if name not in monomial)
        return self._totals[self._asked.places["SUM", group, monomial, others]]

    def _extreme(self, group: int, item: Item) -> int:
        return (
            self._totals[self._asked.places[item.function, group, (item.column,), ()]]
            + self._asked.layout.bases[item.column]
        )


def _places(factor: Fraction) -> int:
    """After the point of a number that was written as a decimal."""
    places = 0
    while (factor * 10**places).denominator != 1:
        places += 1
    return places
