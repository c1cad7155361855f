"""Tables of more entries than one circuit looks up: a multiplexer over rows of 256."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._arrays import listed
from heliograph._shapes import Progress
from heliograph.forecasting import announced
from heliograph.tfhe.dtypes import Words, bits_of, holder, is_signed, words_of
from heliograph.tfhe.parameters import COSTS
from heliograph.tfhe.tensor import Tensor, clear, run

#: Rows to look up, of all elements, before their time is forecast: fewer take less than a minute anywhere.
_FEW = 32
BYTE = 8  # bits that the engine's own look-ups take
WIDEST = 16


def require_entries(index: str, entries: int) -> int:
    """The bits of an index's type. Raises DtypeError for one that is too wide, ParameterError for another number of entries."""
    bits = bits_of(index)
    if bits > WIDEST:
        raise _core.DtypeError(f"look_up takes an integer of at most {WIDEST} bits, not {index}; convert it with .astype")
    if bits > BYTE and entries != 1 << bits:
        raise _core.ParameterError(f"a table for {index} has {1 << bits:,} entries, one for each value, not {entries:,}")
    return bits


def look_up_rows(a: Tensor, words: Words, name: str, goal: str, progress: Progress | None) -> Tensor:
    """table[a] of an index of 9 to 16 bits: its lower byte in each row of 256 entries, then one row by the upper bits; or the other
    way round, where that has fewer rows that differ.
    """
    index = a.astype(f"uint{bits_of(a._name)}")
    low, high = index.astype("uint8"), (index >> BYTE).astype("uint8")
    by_upper, rows, order = _layout(words)
    inside, by = (low, high) if by_upper else (high, low)

    def computed(inside: Tensor, by: Tensor, progress: Progress | None = None) -> Tensor:
        return _Multiplexer(inside, by, rows, name, goal, progress).chosen(order)

    several = math.prod(a.shape) * len(rows) >= _FEW
    with announced(f"look_up of {a.shape} elements in {len(words):,} entries", computed if several else None, inside, by):
        return computed(inside, by, progress)


def look_up_cost(parameters: Any, kind: str, words: Words, name: str, goal: str) -> tuple[int, int]:
    """(bootstraps, layers) of `look_up_rows` on an element of a type."""
    unsigned = f"uint{bits_of(kind)}"
    by_upper, rows, order = _layout(words)
    counter = _Counter(parameters, rows, name, goal)
    low = counter.after("convert", [(kind, 0)], dtype="uint8")
    shifted = counter.after("shift_right", [(unsigned, 0)], [BYTE])
    high = counter.after("convert", [(unsigned, shifted)], dtype="uint8")
    counter.inside, counter.by = (low, high) if by_upper else (high, low)
    layers = counter.chosen(order)
    return counter.bootstraps, layers


def _layout(words: Words) -> tuple[bool, Words, tuple[int, ...]]:
    """Whether the index's lower byte goes into rows that its upper bits choose, the rows that differ, and the one of each choice."""
    table = words.reshape(-1, 1 << BYTE)
    across = np.zeros((1 << BYTE, 1 << BYTE), dtype=words.dtype)  # its upper byte in each column
    across[:, : len(table)] = table.T
    rows, columns = (np.unique(t, axis=0, return_inverse=True) for t in (table, across))
    by_upper = len(columns[0]) >= len(rows[0])
    found, order = rows if by_upper else columns
    return by_upper, found, tuple(int(row) for row in order.ravel())


class _Choices:
    """Rows that differ, looked up once each when first chosen; choices that recur are made once."""

    def __init__(self, rows: Words) -> None:
        self._rows = rows
        self._made: dict[tuple[int, ...], Any] = {}

    def choice(self, order: tuple[int, ...]) -> Any:
        """The row whose number stands in `order` at the choosing index: encrypted, or a clear word if it is the same for every index."""
        if all(row == order[0] for row in order):
            order = order[:1]
        if order not in self._made:
            self._made[order] = self._row(order[0]) if len(order) == 1 else self._either(order)
        return self._made[order]

    def _row(self, number: int) -> Any:
        row = self._rows[number]
        return row[0] if np.all(row == row[0]) else self._looked_up(row)

    def _either(self, order: tuple[int, ...]) -> Any:
        half = len(order) // 2
        without, given = self.choice(order[:half]), self.choice(order[half:])
        return self._selected(half.bit_length() - 1, given, without)

    def _looked_up(self, row: Words) -> Any:
        """The entry of a row."""
        raise NotImplementedError

    def _selected(self, bit: int, given: Any, without: Any) -> Any:
        """One of two, by a bit of the choosing index."""
        raise NotImplementedError


class _Multiplexer(_Choices):
    """Of tensors."""

    def __init__(self, inside: Tensor, by: Tensor, rows: Words, name: str, goal: str, progress: Progress | None) -> None:
        super().__init__(rows)
        self._inside, self._by, self._name, self._goal = inside, by, name, goal
        self._progress, self._done = progress, 0
        self._bits: dict[int, Tensor] = {}

    def chosen(self, order: tuple[int, ...]) -> Tensor:
        """`choice`, a tensor in any case."""
        made = self.choice(order)
        self._tell(1.0)
        return made if isinstance(made, Tensor) else self._clear(made).broadcast_to(self._inside.shape)

    def _looked_up(self, row: Words) -> Tensor:
        made = run("look_up", [self._inside], row.view(np.int64).tolist(), dtype=self._name, goal=self._goal)[0]
        self._done += 1
        self._tell(self._done / (len(self._rows) + 1))  # the choices come last
        return made

    def _selected(self, bit: int, given: Any, without: Any) -> Tensor:
        a, b = (v if isinstance(v, Tensor) else self._clear(v) for v in (given, without))
        return run("select", [self._bit(bit), a, b], goal=self._goal)[0]

    def _bit(self, number: int) -> Tensor:
        """One of the choosing index, as a boolean."""
        if number not in self._bits:
            self._bits[number] = run("look_up", [self._by], _bit_table(number), dtype="bool", goal=self._goal)[0]
        return self._bits[number]

    def _clear(self, word: np.uint64) -> Tensor:
        value = np.asarray(word).view(np.int64).astype(holder(self._name))
        return clear(value, self._inside, "the table", self._name)

    def _tell(self, share: float) -> None:
        if self._progress is not None:
            self._progress(share)


class _Counter(_Choices):
    """The same choices, of layers: encrypted values are the layer of bootstraps that they come from, clear ones are words."""

    def __init__(self, parameters: Any, rows: Words, name: str, goal: str) -> None:
        super().__init__(rows)
        self._parameters, self._name, self._goal = parameters, name, goal
        self.bootstraps, self.inside, self.by = 0, 0, 0
        self._bits: dict[int, int] = {}

    def after(self, call: str, operands: Sequence[tuple[str, int]], arguments: Any = (), dtype: str | None = None) -> int:
        """The layer of a call's result, of operands of a type and a layer each; its bootstraps are counted."""
        kinds = [kind for kind, _ in operands]
        more, layers = self._parameters.cost(call, *kinds, arguments=arguments, dtype=dtype, goal=self._goal or "fewest")
        self.bootstraps += more
        return max(layer for _, layer in operands) + int(layers)

    def chosen(self, order: tuple[int, ...]) -> int:
        """The layer of the result; 0 of a clear one."""
        made = self.choice(order)
        return made if isinstance(made, int) else 0

    def _looked_up(self, row: Words) -> int:
        return self.after("look_up", [("uint8", self.inside)], row.view(np.int64).tolist(), self._name)

    def _selected(self, bit: int, given: Any, without: Any) -> int:
        if bit not in self._bits:
            self._bits[bit] = self.after("look_up", [("uint8", self.by)], _bit_table(bit), "bool")
        both = [(self._name, v if isinstance(v, int) else 0) for v in (given, without)]
        return self.after("select", [("bool", self._bits[bit]), *both])


def _bit_table(number: int) -> list[int]:
    return [value >> number & 1 for value in range(1 << BYTE)]


def _cost(parameters: Any, index: str, arguments: Any, dtype: str, variant: str, goal: str) -> tuple[int, int]:
    """Of a look-up in the table that is given, or in a random one."""
    bits, kind, given = bits_of(index), dtype or index, listed(arguments)
    table = np.asarray(given) if given else np.zeros(0, np.uint64)
    if not table.size and bits <= WIDEST:
        table = np.random.default_rng(0).integers(0, 1 << (bits_of(kind) - is_signed(kind)), 1 << bits, dtype=np.uint64)
    words = words_of(table, kind, "the table")
    if bits <= BYTE or bits > WIDEST:
        bootstraps, layers = parameters._core.cost("look_up", words.view(np.int64).tolist(), kind, variant, goal, [index])
        return int(bootstraps), int(layers)
    require_entries(index, table.size)
    return look_up_cost(parameters, index, words, kind, goal)


COSTS["look_up"] = _cost
