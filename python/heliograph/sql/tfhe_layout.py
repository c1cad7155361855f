"""The layout of a table in encrypted integers of TFHE: one integer for each row and column, as wide as the column needs.

Circuits compute any query, so queries need not be announced: columns are compared with each other, multiplied and searched
for extremes. The circuits need bootstraps, milliseconds per row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heliograph import _core
from heliograph._common.arguments import is_whole, readable_bytes
from heliograph._common.columns import Column
from heliograph._common.html import HtmlRepr
from heliograph.sql.costs import forecast_rows
from heliograph.sql.monomials import Monomial
from heliograph.sql.slot_layout import Part
from heliograph.tfhe import Parameters

_SUMMED_ROWS = 64  # rows whose sum needs one carry propagation
_MEMORY = 1 << 28  # bytes of the rows that are computed at a time
_MOST_ROWS = 1 << 40
_MOST_BITS = 64
LARGEST_SUM = 63  #: limit of a summand and of one ciphertext's sum, in bits


@dataclass(frozen=True)
class IntegerLayout(HtmlRepr):
    """The layout of a table in integers of TFHE. Created by `hg.sql.layout`.

    >>> whole = hg.sql.layout(frame, compares=["salary > age * 100"], extremes=["salary"])
    >>> whole.parameters.scheme, whole.types
    ('TFHE', {'age': 'uint6', 'salary': 'uint14'})
    """

    table: str  #: name in queries
    rows: int  #: number of rows
    columns: Mapping[str, Column]  #: all columns
    filters: tuple[str, ...]  #: columns announced for WHERE and GROUP BY
    sums: tuple[Monomial, ...]  #: products of columns announced for SUM
    why: str  #: reason for TFHE
    parameters: Parameters  #: parameters of the keys

    @property
    def blocks(self) -> int:
        """The rows; each row has separate ciphertexts."""
        return self.rows

    @cached_property
    def bases(self) -> dict[str, int]:
        """Offsets subtracted from a column's integers before encryption: the table's first day for dates, else 0."""
        first = min((column.low for column in self.columns.values() if column.kind == "date"), default=0)
        return {name: first if column.kind == "date" else 0 for name, column in self.columns.items()}

    @cached_property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """The least and largest encrypted integer of each column, extended to 0, the encoding of NULL."""
        ranges = {}
        for name, column in self.columns.items():
            base = self.bases[name]
            ranges[name] = min(column.low - base, 0), max(column.high - base, 0)
        return ranges

    @cached_property
    def types(self) -> dict[str, str]:
        """The columns' types, named as in `hg.tfhe`."""
        return {
            name: "bool" if column.kind == "bool" else type_of(*self.ranges[name], self.parameters)
            for name, column in self.columns.items()
        }

    def type_of(self, part: Part) -> str:
        """Returns the type of a vector.

        >>> whole.type_of(whole.parts[0])
        'uint6'
        """
        return self.types[part.names[0]] if part.kind == "value" else "bool"

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The table's vectors, in file order."""
        return tuple(self._parts())

    def _parts(self) -> Iterator[Part]:
        for name, column in self.columns.items():
            yield Part("value", (name,))
            if column.nullable:
                yield Part("valid", (name,))

    @property
    def wires(self) -> int:
        """LWE ciphertexts of a row."""
        return sum(self.parameters.wires(self.type_of(part)) for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the table in a file, without headers."""
        return 8 * self.wires * self.rows

    @property
    def piece_rows(self) -> int:
        """Rows that are read and computed at a time."""
        row = sum(self.parameters.ciphertext_bytes(self.type_of(part)) for part in self.parts)
        return max(_SUMMED_ROWS, _MEMORY // row // _SUMMED_ROWS * _SUMMED_ROWS)

    def explain(self) -> str:
        """Describes the layout in several lines. Forecasts seconds on this device with temporary keys.

        >>> "TFHE" in whole.explain()
        True
        """
        return lines_of([*self.summary_rows(), *forecast_rows(self)])

    def summary_rows(self) -> list[tuple[str, str]]:
        """Returns the lines of `explain` without the forecast.

        >>> whole.summary_rows()[0]
        ('table', 't, 6 rows, each encrypted by itself')
        """
        rows = [("table", f"{self.table}, {self.rows:,} rows, each encrypted by itself")]
        rows += [("column", f"{name}: {repr(column)[8:-1]}; {self.types[name]}") for name, column in self.columns.items()]
        return [
            *rows,
            ("sums", "any products of columns"),
            ("size", f"{readable_bytes(self.nbytes)} in a file, {self.nbytes / self.rows:,.0f} bytes a row"),
            ("parameters", repr(self.parameters)),
            ("scheme", f"TFHE: {self.why}"),
        ]

    def __repr__(self) -> str:
        return f"<layout of {self.table}: {self.rows:,} rows x {self.wires} LWE ciphertexts, TFHE>"

    def data(self) -> dict[str, Any]:
        """Returns the layout for a file's header. The parameters are in the table's ciphertexts.

        >>> sorted(whole.data())[:3]
        ['columns', 'filters', 'rows']
        """
        return {
            **{"table": self.table, "rows": self.rows, "why": self.why, "filters": list(self.filters)},
            **{"sums": [list(m) for m in self.sums], "columns": [[n, c.data()] for n, c in self.columns.items()]},
        }

    @classmethod
    def of_data(cls, data: Any, parameters: Parameters) -> IntegerLayout:
        """Parses `data` from an untrusted file. Raises DamagedFileError.

        >>> hg.sql.IntegerLayout.of_data(whole.data(), whole.parameters) == whole
        True
        """
        wrong = _core.DamagedFileError("this file's header describes an invalid table")
        if not isinstance(data, dict) or set(data) != {"table", "rows", "why", "filters", "sums", "columns"}:
            raise wrong
        try:
            columns = {name: Column.of_data(column) for name, column in data["columns"]}
            filters, sums = tuple(data["filters"]), tuple(tuple(names) for names in data["sums"])
            is_known = all(isinstance(name, str) and name in columns for name in itertools.chain(filters, *sums))
        except (TypeError, ValueError):
            raise wrong from None
        if not all(isinstance(text, str) for text in (data["table"], data["why"], *columns)) or not is_known:
            raise wrong
        if len(columns) != len(data["columns"]) or not columns or not all(sums):
            raise wrong
        if not is_whole(data["rows"]) or not 1 <= data["rows"] <= _MOST_ROWS:
            raise wrong
        return cls(data["table"], int(data["rows"]), columns, filters, sums, data["why"], parameters)


def lines_of(rows: list[tuple[str, str]]) -> str:
    """Formats lines with labels."""
    return "\n".join(f"{label:>10}  {text}" for label, text in rows)


def bits_of(low: int, high: int) -> int:
    """Returns the number of bits of integers from `low` to `high`, with a sign bit if `low` is negative."""
    return max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0, 1) + (low < 0)


def type_of(low: int, high: int, parameters: Parameters) -> str:
    """Returns the narrowest type of a set for integers from `low` to `high`. Raises ParameterError beyond 64 bits."""
    step = max(2, parameters.message_bits)
    bits = -(-bits_of(low, high) // step) * step
    if bits > _MOST_BITS:
        raise _core.ParameterError(
            f"integers from {low} to {high} need {bits} bits; encrypted integers have at most {_MOST_BITS}"
        )
    return f"{'int' if low < 0 else 'uint'}{bits}"
