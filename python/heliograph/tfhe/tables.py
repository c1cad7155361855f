"""Tables of more entries than one circuit looks up: a multiplexer over rows of 256."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliograph import _core
from heliograph._shapes import Progress
from heliograph.tfhe.dtypes import Words, bits_of, holder
from heliograph.tfhe.tensor import Tensor, clear, run

BYTE = 8  # bits that the engine's own look-ups take
WIDEST = 16


def require_index(a: Tensor, entries: int) -> int:
    """The bits of an index. Raises DtypeError for one that is too wide, ParameterError for another number of entries."""
    bits = bits_of(a._name)
    if bits > WIDEST:
        raise _core.DtypeError(f"look_up takes an integer of at most {WIDEST} bits, not {a._name}; convert it with .astype")
    if bits > BYTE and entries != 1 << bits:
        raise _core.ParameterError(f"a table for {a._name} has {1 << bits:,} entries, one for each value, not {entries:,}")
    return bits


def look_up_rows(a: Tensor, words: Words, name: str, goal: str, progress: Progress | None) -> Tensor:
    """table[a] of an index of 9 to 16 bits: its lower byte in each row of 256 entries, then one row by the upper bits; or the other
    way round, where that has fewer rows that differ.
    """
    bits = bits_of(a._name)
    index = a.astype(f"uint{bits}")
    low, high = index.astype("uint8"), (index >> BYTE).astype("uint8")
    table = words.reshape(-1, 1 << BYTE)
    across = np.zeros((1 << BYTE, 1 << BYTE), dtype=words.dtype)  # its upper byte in each column
    across[:, : len(table)] = table.T
    rows, columns = (np.unique(t, axis=0, return_inverse=True) for t in (table, across))
    found, order = columns if len(columns[0]) < len(rows[0]) else rows
    inside, by = (high, low) if len(columns[0]) < len(rows[0]) else (low, high)
    return _Multiplexer(inside, by, found, name, goal, progress).chosen(tuple(int(row) for row in order.ravel()))


class _Multiplexer:
    """Rows that differ, looked up once each when first chosen; choices that recur are made once."""

    def __init__(self, inside: Tensor, by: Tensor, rows: Words, name: str, goal: str, progress: Progress | None) -> None:
        self._inside, self._by, self._rows, self._name, self._goal = inside, by, rows, name, goal
        self._progress, self._looked_up = progress, 0
        self._made: dict[tuple[int, ...], Any] = {}
        self._bits: dict[int, Tensor] = {}

    def chosen(self, order: tuple[int, ...]) -> Tensor:
        """The row whose number stands in `order` at the choosing index."""
        made = self._choice(order)
        self._tell(1.0)
        if isinstance(made, Tensor):
            return made
        return clear(made, self._inside, "the table", self._name).broadcast_to(self._inside.shape)

    def _choice(self, order: tuple[int, ...]) -> Any:
        """A tensor, or a clear value where it is the same for every index."""
        if all(row == order[0] for row in order):
            order = order[:1]
        if order not in self._made:
            self._made[order] = self._row(order[0]) if len(order) == 1 else self._either(order)
        return self._made[order]

    def _row(self, number: int) -> Any:
        row = self._rows[number]
        self._looked_up += 1
        if np.all(row == row[0]):
            return self._value(row[0])
        table = row.view(np.int64).tolist()
        made = run("look_up", [self._inside], table, dtype=self._name, goal=self._goal)[0]
        self._tell(self._looked_up / (len(self._rows) + 1))  # the choices come last
        return made

    def _tell(self, share: float) -> None:
        if self._progress is not None:
            self._progress(share)

    def _value(self, word: np.uint64) -> Any:
        return np.asarray(word).view(np.int64).astype(holder(self._name))

    def _either(self, order: tuple[int, ...]) -> Any:
        half = len(order) // 2
        without, given = self._choice(order[:half]), self._choice(order[half:])
        a, b = (v if isinstance(v, Tensor) else clear(v, self._inside, "the table", self._name) for v in (given, without))
        return run("select", [self._bit(half.bit_length() - 1), a, b], goal=self._goal)[0]

    def _bit(self, number: int) -> Tensor:
        """One of the choosing index, as a boolean."""
        if number not in self._bits:
            table = [value >> number & 1 for value in range(1 << BYTE)]
            self._bits[number] = run("look_up", [self._by], table, dtype="bool", goal=self._goal)[0]
        return self._bits[number]
