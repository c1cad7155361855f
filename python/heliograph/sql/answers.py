"""Encrypted answers to queries, and their decryption."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from heliograph import _core, exact, tfhe
from heliograph._common.arguments import printable, readable_bytes
from heliograph._common.ciphertext_files import Parts, Serializable, pieces
from heliograph._common.columns import Column, Value, scaled
from heliograph._common.container import Piece
from heliograph._common.html import HtmlRepr
from heliograph._common.sql_error import SqlError
from heliograph.keys import from_bytes
from heliograph.sql.monomials import nullable, places_of
from heliograph.sql.parser import Item
from heliograph.sql.slot_plan import ZERO, Plan, key_values
from heliograph.sql.table import SecretKey, layout_of, plan_of
from heliograph.sql.tfhe_plan import IntegerPlan

TYPE = "heliograph.query.answer"
Tensor = exact.Tensor | tfhe.Tensor


@dataclass(frozen=True)
class Result(HtmlRepr):
    """A decrypted answer with SQL's results, NULL as None. Integers and decimals are exact, averages are floats.

    >>> result = answer.decrypt(secret)
    >>> result.columns, result.rows
    (['total', 'count(*)'], [(8300, 3)])
    """

    columns: list[str]  #: labels of the columns
    rows: list[tuple[Any, ...]]  #: rows of the result, in the order of the groups' values

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns a list for each column. If two columns have one label, the later one is returned.

        >>> result.to_dict()
        {'total': [8300], 'count(*)': [3]}
        """
        return {name: [row[at] for row in self.rows] for at, name in enumerate(self.columns)}

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame.

        >>> result.to_pandas().shape
        (1, 2)
        """
        try:
            import pandas
        except ImportError:
            raise _core.HeliographError("cannot make a data frame: pandas is not installed; pip install pandas") from None
        return pandas.DataFrame(self.rows, columns=self.columns)

    def to_arrow(self) -> Any:
        """Returns a pyarrow.Table with a column for each label. Integers are int64, or decimals without places if one
        exceeds 64 bits (decimal128 of 38 digits, decimal256 of 76).

        >>> result.to_arrow().num_rows
        1
        """
        try:
            import pyarrow
        except ImportError:
            raise _core.HeliographError(
                "cannot make an Arrow table: pyarrow is not installed; pip install 'heliograph[sql]'"
            ) from None
        arrays = [_arrow_array(pyarrow, name, [row[at] for row in self.rows]) for at, name in enumerate(self.columns)]
        return pyarrow.Table.from_arrays(arrays, names=self.columns)


def _arrow_array(pyarrow: Any, name: str, values: list[Any]) -> Any:
    """Converts a result's column to an Arrow array. Raises PlaintextRangeError."""
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
            f"cannot make an Arrow table: column {printable(name)} holds a number of {most} characters, and Arrow's "
            "decimals have at most 76 digits; use rows or to_dict"
        ) from None


class Answer(Serializable):
    """An encrypted answer. Created by `SqlServer.sql`.

    >>> answer.sql[:18], answer.key_id == secret.id
    ('SELECT SUM(salary)', True)
    >>> hg.sql.Answer.from_bytes(answer.to_bytes()).decrypt(secret).rows
    [(8300, 3)]
    """

    _TYPE = TYPE

    def __init__(self, plan: Plan | IntegerPlan, key_id: str, tensors: list[Any]) -> None:
        self.plan = plan  #: how the answer was computed, as the server claims
        self.key_id = key_id  #: id of the key that decrypts the answer
        self._tensors = tensors

    @property
    def sql(self) -> str:
        """The text of the query."""
        return self.plan.query.text

    @property
    def nbytes(self) -> int:
        """Bytes of the ciphertexts in memory."""
        return sum(tensor.nbytes for tensor in self._tensors)

    @property
    def noise_budget(self) -> float | None:
        """Estimated bits of noise left; None for TFHE, for an answer without ciphertexts, or if unknown."""
        budgets = [tensor.noise_budget for tensor in self._tensors if isinstance(tensor, exact.Tensor) and tensor.size]
        return None if not budgets or None in budgets else min(b for b in budgets if b is not None)

    def explain(self) -> str:
        """Same as `Plan.explain`, with the noise left and the size.

        >>> "noise" in answer.explain()
        True
        """
        if isinstance(self.plan, IntegerPlan):
            return f"{self.plan.explain()}\n{'size':>10}  {readable_bytes(self.nbytes)}"
        budget = self.noise_budget
        budget_text = "unknown" if budget is None else f"{budget:.0f} bits left"
        return f"{self.plan.explain()}\n{'noise':>10}  {budget_text}\n{'size':>10}  {readable_bytes(self.nbytes)}"

    def decrypt(self, secret: SecretKey, *, sql: str | None = None) -> Result:
        """Decrypts the result with the table's secret key. If `sql` is given, raises MismatchError for the answer to another
        query.

        Raises WrongKeyError, MismatchError for an answer of another key or to another query, NoiseError for a result that
        may be wrong. A server that does not follow the protocol can return any answer: an answer contains no proof of its
        computation.

        >>> answer.decrypt(secret).rows
        [(8300, 3)]
        """
        if not isinstance(secret, SecretKey):
            raise _core.DtypeError(
                f"cannot decrypt: the key must be a secret key of BGV, BFV or TFHE, got {type(secret).__name__}"
            )
        if sql is not None and sql != self.sql:
            raise _core.MismatchError(f"cannot decrypt: this is the answer to another query: {printable(self.sql)[:200]}")
        if self.key_id != secret.id:
            raise _core.WrongKeyError(
                f"cannot decrypt: the answer needs key {printable(self.key_id[:8])}, got {secret.id[:8]}; load that secret "
                "key"
            )
        if isinstance(self.plan, IntegerPlan):
            return self._integers(self.plan, secret)
        values: list[int] = []
        key: Any = secret  # a key of BFV or BGV, like the plan
        for tensor in self._tensors:
            # Unchecked: `Layout` chooses limbs so narrow that totals stay below t/2, whatever the masks.
            slots: Any = key.decrypt(tensor.reshape(-1), unchecked=True)
            values += [int(row.sum()) if row.dtype != object else sum(row.tolist()) for row in slots]
        if len(values) != self.plan.results:
            raise _core.DamagedFileError(
                f"this answer must have {self.plan.results} ciphertexts by its query, got {len(values)}"
            )
        totals, at = [], 0
        for aggregate in self.plan.aggregates:
            count = -(-self.plan.layout.blocks // aggregate.together)
            totals.append(sum(values[at : at + count]))
            at += count
        return _Reading(self.plan, totals).result()

    def _integers(self, plan: IntegerPlan, secret: Any) -> Result:
        """Decrypts an answer whose numbers are separate ciphertexts. An answer without numbers has one empty tensor."""
        totals, at = [], 0
        for aggregate in plan.aggregates:
            several = self._tensors[at : (at := at + -(-plan.layout.rows // aggregate.together))]
            if not all(tensor.shape == () and tensor._name == aggregate.type for tensor in several):
                raise _core.DamagedFileError("this answer's types are not those of its query")
            totals.append(sum(int(secret.decrypt(tensor)) for tensor in several))
        if len(self._tensors) != max(1, plan.results):
            raise _core.DamagedFileError(
                f"this answer must have {plan.results} ciphertexts by its query, got {len(self._tensors)}"
            )
        return _IntegerReading(plan, totals).result()

    def _pieces(self) -> Iterator[Piece]:
        parts = [tensor.to_bytes() for tensor in self._tensors]
        header = {"key": self.key_id, "layout": self.plan.layout.data(), "sql": self.sql}
        return pieces(TYPE, header, parts, [len(part) for part in parts])

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        header = parts.header
        if set(header) != {"key", "layout", "sql"} or not all(isinstance(header[name], str) for name in ("key", "sql")):
            raise _core.DamagedFileError("this file's header must be that of an answer: key, layout and sql")
        tensors: list[Any] = [from_bytes(parts[number]) for number in range(len(parts))]
        if not tensors or not any(all(isinstance(t, kind) for t in tensors) for kind in (exact.Tensor, tfhe.Tensor)):
            raise _core.DamagedFileError("an answer must hold tensors of BGV or BFV, or of TFHE")
        layout = layout_of(header["layout"], tensors[0].parameters)
        try:
            plan = plan_of(header["sql"], layout)
        except SqlError as error:
            raise _core.DamagedFileError(f"this answer's query does not fit its table: {error}") from None
        return cls(plan, header["key"], tensors)

    def _rows(self) -> list[tuple[str, str]]:
        lines = (line.strip().partition("  ") for line in self.explain().split("\n"))
        return [(label, text.strip()) for label, _, text in lines]

    def __repr__(self) -> str:
        return (
            f"<answer of {self.plan.results} ciphertexts, {readable_bytes(self.nbytes)}, key {printable(self.key_id[:8])}>"
        )


class _Rows(ABC):
    """Converts an answer's numbers to the rows of its query."""

    def __init__(self, plan: Plan | IntegerPlan) -> None:
        self._plan = plan

    def result(self) -> Result:
        plan = self._plan
        rows = []
        for group, key in enumerate(plan.keys):
            if plan.query.groups and not self._count(group, ()):
                continue
            group_values = dict(zip(plan.query.groups, key_values(plan.query, plan.layout.columns, key), strict=True))
            rows.append(tuple(self._value(group, item, group_values) for item in plan.query.items))
        return Result([item.label for item in plan.query.items], rows)

    @staticmethod
    def _value_of(column: Column, number: int, item: Item) -> Value:
        """Converts an integer to the column's value. Raises DamagedFileError, because a server may send any number."""
        if not column.low <= number <= column.high:
            raise _core.DamagedFileError(
                f"this answer's {item.function} is no value of {printable(item.column)}: it must be from {column.low} to "
                f"{column.high}, got {number}"
            )
        return column.shown(number)

    @abstractmethod
    def _count(self, group: int, null: tuple[str, ...]) -> int:
        """Returns the count of a group's rows in which none of the columns `null` is NULL."""

    @abstractmethod
    def _sum(self, group: int, monomial: tuple[str, ...], null: tuple[str, ...]) -> int:
        """Returns a group's sum of a product of columns, over the rows in which none of the columns `null` is NULL."""

    def _extreme(self, group: int, item: Item) -> int:
        """Returns a group's minimum or maximum of a column."""
        raise _core.InternalError(f"a plan of sums has no {item.function}")

    def _value(self, group: int, item: Item, group_values: dict[str, Value]) -> Any:
        columns = self._plan.layout.columns
        if not item.function:
            return group_values[item.column]
        if item.function == "COUNT":
            return self._count(group, nullable(item.names, columns))
        if item.function in ("MIN", "MAX"):
            has_values = self._count(group, nullable(item.names, columns))
            return self._value_of(columns[item.column], self._extreme(group, item), item) if has_values else None
        null = nullable(item.names, columns)
        count = self._count(group, null)
        if not count:
            return None
        total, places = Fraction(0), 0
        for monomial, factor in item.polynomial:
            number = count if not monomial else self._sum(group, monomial, null)
            own = places_of(monomial, columns)
            total += factor * Fraction(number, 10**own)
            places = max(places, own + _places(factor))
        if item.function == "AVG":
            return float(total / count)
        return scaled(int(total * 10**places), places) if places else int(total)


class _Reading(_Rows):
    """Reads sums over slots from decrypted ciphertexts."""

    def __init__(self, plan: Plan, totals: list[int]) -> None:
        super().__init__(plan)
        self._typed_plan, self._totals = plan, totals

    def _total(self, number: int) -> int:
        return 0 if number == ZERO else self._totals[number]

    def _count(self, group: int, null: tuple[str, ...]) -> int:
        number = self._typed_plan.counts[group, null]
        return self._typed_plan.layout.rows if number is None else self._total(number)

    def _sum(self, group: int, monomial: tuple[str, ...], null: tuple[str, ...]) -> int:
        layout = self._typed_plan.layout
        limbs = range(layout.limbs(monomial))
        return sum(
            self._total(self._typed_plan.sums[group, monomial, null, limb]) << (layout.limb_bits * limb) for limb in limbs
        )


class _IntegerReading(_Rows):
    """Reads decrypted integers of TFHE."""

    def __init__(self, plan: IntegerPlan, totals: list[int]) -> None:
        super().__init__(plan)
        self._typed_plan, self._totals = plan, totals

    def _count(self, group: int, null: tuple[str, ...]) -> int:
        place = self._typed_plan.places.get(("COUNT", group, null, ()))
        return self._typed_plan.layout.rows if place is None else self._totals[place]

    def _sum(self, group: int, monomial: tuple[str, ...], null: tuple[str, ...]) -> int:
        others = tuple(name for name in null if name not in monomial)
        return self._totals[self._typed_plan.places["SUM", group, monomial, others]]

    def _extreme(self, group: int, item: Item) -> int:
        return (
            self._totals[self._typed_plan.places[item.function, group, (item.column,), ()]]
            + self._typed_plan.layout.bases[item.column]
        )


def _places(factor: Fraction) -> int:
    """Returns the decimal places of a number."""
    places = 0
    while (factor * 10**places).denominator != 1:
        places += 1
    return places
