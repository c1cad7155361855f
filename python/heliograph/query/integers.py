"""How a table is laid out in encrypted integers of TFHE: a number for each row and column, of the width that it needs.

What a query asks for is computed by circuits, so nothing of it needs to be known when the table is made: columns are compared with
each other, multiplied and searched for their extremes. It takes bootstraps, milliseconds for each row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heliograph import _core
from heliograph._arrays import is_whole, readable_bytes
from heliograph._html import Shown
from heliograph.query.columns import Column
from heliograph.query.costs import foretold
from heliograph.query.layout import Part
from heliograph.query.monomials import Monomial
from heliograph.tfhe import Parameters

_TOGETHER = 64  # rows whose sum takes one carry propagation
_MEMORY = 1 << 28  # bytes of the rows that are computed together
_MOST_ROWS = 1 << 40
_MOST_BITS = 64
LARGEST_SUM = 63  #: bits of a summand, and of a sum in one ciphertext


@dataclass(frozen=True)
class IntegerLayout(Shown):
    """How a table is encrypted in integers of TFHE. Made by `hg.query.layout`.

    >>> whole = hg.query.layout(frame, compares=["salary > age * 100"], extremes=["salary"])
    >>> whole.parameters.scheme, whole.types
    ('TFHE', {'age': 'uint6', 'salary': 'uint14'})
    """

    table: str  #: its name in queries
    rows: int  #: how many
    columns: Mapping[str, Column]  #: all that is in it
    filters: tuple[str, ...]  #: columns that were announced for WHERE and GROUP BY
    sums: tuple[Monomial, ...]  #: products of columns that were announced for SUM
    why: str  #: it is of TFHE
    parameters: Parameters  #: of the keys

    @property
    def blocks(self) -> int:
        """Rows: each has ciphertexts of its own."""
        return self.rows

    @cached_property
    def bases(self) -> dict[str, int]:
        """What is taken off a column's integers before they are encrypted: of days the table's first one, else nothing."""
        first = min((column.low for column in self.columns.values() if column.kind == "date"), default=0)
        return {name: first if column.kind == "date" else 0 for name, column in self.columns.items()}

    @cached_property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """The least and the most of what is encrypted of each column; 0 among them, which is what NULL is."""
        found = {}
        for name, column in self.columns.items():
            base = self.bases[name]
            found[name] = min(column.low - base, 0), max(column.high - base, 0)
        return found

    @cached_property
    def types(self) -> dict[str, str]:
        """The columns' types, as `hg.tfhe` names them."""
        return {
            name: "bool" if column.kind == "bool" else type_of(*self.ranges[name], self.parameters)
            for name, column in self.columns.items()
        }

    def type_of(self, part: Part) -> str:
        """A vector's type.

        >>> whole.type_of(whole.parts[0])
        'uint6'
        """
        return self.types[part.names[0]] if part.kind == "value" else "bool"

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The table's vectors, in their order in files."""
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
        """Bytes of the table in a file, but for headers."""
        return 8 * self.wires * self.rows

    @property
    def span(self) -> int:
        """Rows that are read and computed together."""
        row = sum(self.parameters.ciphertext_bytes(self.type_of(part)) for part in self.parts)
        return max(_TOGETHER, _MEMORY // row // _TOGETHER * _TOGETHER)

    def explain(self) -> str:
        """Several lines for a person. Seconds are forecast on this device, by keys that are made for that and thrown away.

        >>> "TFHE" in whole.explain()
        True
        """
        return told([*self.told(), *foretold(self)])

    def told(self) -> list[tuple[str, str]]:
        """What is known without a forecast, line by line.

        >>> whole.told()[0]
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
        """For a file; the parameters are in its ciphertexts.

        >>> sorted(whole.data())[:3]
        ['columns', 'filters', 'rows']
        """
        return {
            **{"table": self.table, "rows": self.rows, "why": self.why, "filters": list(self.filters)},
            **{"sums": [list(m) for m in self.sums], "columns": [[n, c.data()] for n, c in self.columns.items()]},
        }

    @classmethod
    def of_data(cls, data: Any, parameters: Parameters) -> IntegerLayout:
        """Reads `data`, of anybody. Raises DamagedFileError.

        >>> hg.query.IntegerLayout.of_data(whole.data(), whole.parameters) == whole
        True
        """
        wrong = _core.DamagedFileError("what this file says of its table cannot be")
        if not isinstance(data, dict) or set(data) != {"table", "rows", "why", "filters", "sums", "columns"}:
            raise wrong
        try:
            columns = {name: Column.of_data(found) for name, found in data["columns"]}
            filters, sums = tuple(data["filters"]), tuple(tuple(names) for names in data["sums"])
            known = all(isinstance(name, str) and name in columns for name in itertools.chain(filters, *sums))
        except (TypeError, ValueError):
            raise wrong from None
        if not all(isinstance(text, str) for text in (data["table"], data["why"], *columns)) or not known:
            raise wrong
        if len(columns) != len(data["columns"]) or not columns or not all(sums):
            raise wrong
        if not is_whole(data["rows"]) or not 1 <= data["rows"] <= _MOST_ROWS:
            raise wrong
        return cls(data["table"], int(data["rows"]), columns, filters, sums, data["why"], parameters)


def told(rows: list[tuple[str, str]]) -> str:
    """Lines with their labels."""
    return "\n".join(f"{label:>10}  {text}" for label, text in rows)


def bits_of(low: int, high: int) -> int:
    """That integers from `low` to `high` take, a sign where one is negative."""
    return max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0, 1) + (low < 0)


def type_of(low: int, high: int, parameters: Parameters) -> str:
    """The narrowest type of a set that holds integers from `low` to `high`. Raises ParameterError beyond 64 bits."""
    step = max(2, parameters.message_bits)
    bits = -(-bits_of(low, high) // step) * step
    if bits > _MOST_BITS:
        raise _core.ParameterError(
            f"integers from {low} to {high} take {bits} bits; encrypted ones have at most {_MOST_BITS}"
        )
    return f"{'int' if low < 0 else 'uint'}{bits}"
