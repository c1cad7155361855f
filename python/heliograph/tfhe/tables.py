"""Look-ups in tables of more than 256 entries: a multiplexer over rows of 256."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import listed
from heliograph._common.tensor import Progress
from heliograph.programs.forecast import announced
from heliograph.tfhe.dtypes import Words, bits_of, holder, is_signed, words_of
from heliograph.tfhe.parameters import COSTS
from heliograph.tfhe.tensor import Tensor, run, trivial

#: Minimum row look-ups of a call whose time is forecast; a call with fewer takes less than a minute on any machine.
_FEW = 32
BYTE = 8  # bits of an index of the engine's own look-ups
WIDEST = 16


def require_entries(index: str, entries: int) -> int:
    """Returns the bits of an index's type.

    Raises DtypeError if the type is too wide, ParameterError for a wrong number of entries.
    """
    bits = bits_of(index)
    if bits > WIDEST:
        raise _core.DtypeError(f"look_up takes an integer of at most {WIDEST} bits, not {index}; convert it with .astype")
    if bits > BYTE and entries != 1 << bits:
        raise _core.ParameterError(
            f"a table for {index} must have {1 << bits:,} entries, one for each value, not {entries:,}"
        )
    return bits


def look_up_rows(a: Tensor, words: Words, name: str, goal: str, progress: Progress | None) -> Tensor:
    """Returns table[a] for an index of 9 to 16 bits.

    The lower byte is looked up in each distinct row of 256 entries, and the upper bits select a row. If the transposed table
    has fewer distinct rows, the lower and the upper byte exchange roles.
    """
    index = a.astype(f"uint{bits_of(a._name)}")
    low, high = index.astype("uint8"), (index >> BYTE).astype("uint8")
    by_upper, rows, order = _layout(words)
    inside, by = (low, high) if by_upper else (high, low)

    def computed(inside: Tensor, by: Tensor, progress: Progress | None = None) -> Tensor:
        return _Multiplexer(inside, by, rows, name, goal, progress).result(order)

    several = math.prod(a.shape) * len(rows) >= _FEW
    with announced(f"look_up of {a.shape} elements in {len(words):,} entries", computed if several else None, inside, by):
        return computed(inside, by, progress)


def look_up_cost(parameters: Any, kind: str, words: Words, name: str, goal: str) -> tuple[int, int]:
    """Returns (bootstraps, layers) of `look_up_rows` on one element of a type."""
    unsigned = f"uint{bits_of(kind)}"
    by_upper, rows, order = _layout(words)
    counter = _Counter(parameters, rows, name, goal)
    low = counter.after("convert", [(kind, 0)], dtype="uint8")
    shifted = counter.after("shift_right", [(unsigned, 0)], [BYTE])
    high = counter.after("convert", [(unsigned, shifted)], dtype="uint8")
    counter.inside, counter.by = (low, high) if by_upper else (high, low)
    layers = counter.result(order)
    return counter.bootstraps, layers


def _layout(words: Words) -> tuple[bool, Words, tuple[int, ...]]:
    """Returns whether the upper bits select the row, the distinct rows, and the row's number for each selecting value."""
    table = words.reshape(-1, 1 << BYTE)
    across = np.zeros((1 << BYTE, 1 << BYTE), dtype=words.dtype)  # transposed: columns by the upper byte
    across[:, : len(table)] = table.T
    rows, columns = (np.unique(t, axis=0, return_inverse=True) for t in (table, across))
    by_upper = len(columns[0]) >= len(rows[0])
    rows_or_columns, order = rows if by_upper else columns
    return by_upper, rows_or_columns, tuple(int(row) for row in order.ravel())


class _Choices:
    """A multiplexer over distinct rows. Each row is looked up once, and equal subtrees of selections are computed once."""

    def __init__(self, rows: Words) -> None:
        self._rows = rows
        self._results: dict[tuple[int, ...], Any] = {}

    def choice(self, order: tuple[int, ...]) -> Any:
        """Returns the entry of the row that `order` gives for the selecting index; a clear word if it is constant."""
        if all(row == order[0] for row in order):
            order = order[:1]
        if order not in self._results:
            self._results[order] = self._row(order[0]) if len(order) == 1 else self._either(order)
        return self._results[order]

    def _row(self, number: int) -> Any:
        row = self._rows[number]
        return row[0] if np.all(row == row[0]) else self._look_up(row)

    def _either(self, order: tuple[int, ...]) -> Any:
        half = len(order) // 2
        low, high = self.choice(order[:half]), self.choice(order[half:])
        return self._select(half.bit_length() - 1, high, low)

    def _look_up(self, row: Words) -> Any:
        """Looks up the entry of a row."""
        raise NotImplementedError

    def _select(self, bit: int, high: Any, low: Any) -> Any:
        """Selects one of two values by a bit of the selecting index."""
        raise NotImplementedError


class _Multiplexer(_Choices):
    """The multiplexer on tensors."""

    def __init__(self, inside: Tensor, by: Tensor, rows: Words, name: str, goal: str, progress: Progress | None) -> None:
        super().__init__(rows)
        self._inside, self._by, self._name, self._goal = inside, by, name, goal
        self._progress, self._look_ups_done = progress, 0
        self._bits: dict[int, Tensor] = {}

    def result(self, order: tuple[int, ...]) -> Tensor:
        """Returns `choice` as a tensor, even if it is constant."""
        value = self.choice(order)
        self._report_progress(1.0)
        return value if isinstance(value, Tensor) else self._constant(value).broadcast_to(self._inside.shape)

    def _look_up(self, row: Words) -> Tensor:
        tensor = run("look_up", [self._inside], row.view(np.int64).tolist(), dtype=self._name, goal=self._goal)[0]
        self._look_ups_done += 1
        self._report_progress(self._look_ups_done / (len(self._rows) + 1))  # selections follow the look-ups
        return tensor

    def _select(self, bit: int, high: Any, low: Any) -> Tensor:
        a, b = (v if isinstance(v, Tensor) else self._constant(v) for v in (high, low))
        return run("select", [self._bit(bit), a, b], goal=self._goal)[0]

    def _bit(self, number: int) -> Tensor:
        """Returns a bit of the selecting index as a boolean."""
        if number not in self._bits:
            self._bits[number] = run("look_up", [self._by], _bit_table(number), dtype="bool", goal=self._goal)[0]
        return self._bits[number]

    def _constant(self, word: np.uint64) -> Tensor:
        value = np.asarray(word).view(np.int64).astype(holder(self._name))
        return trivial(value, self._inside, "the table", self._name)

    def _report_progress(self, share: float) -> None:
        if self._progress is not None:
            self._progress(share)


class _Counter(_Choices):
    """The multiplexer's costs: an encrypted value is represented by its layer of bootstraps, a constant by its word."""

    def __init__(self, parameters: Any, rows: Words, name: str, goal: str) -> None:
        super().__init__(rows)
        self._parameters, self._name, self._goal = parameters, name, goal
        self.bootstraps, self.inside, self.by = 0, 0, 0
        self._bits: dict[int, int] = {}

    def after(self, call: str, operands: Sequence[tuple[str, int]], arguments: Any = (), dtype: str | None = None) -> int:
        """Returns the layer of a call's result and counts its bootstraps. Operands are (type, layer)."""
        kinds = [kind for kind, _ in operands]
        more, layers = self._parameters.cost(call, *kinds, arguments=arguments, dtype=dtype, goal=self._goal or "fewest")
        self.bootstraps += more
        return max(layer for _, layer in operands) + int(layers)

    def result(self, order: tuple[int, ...]) -> int:
        """Returns the layer of the result; 0 if the result is constant."""
        value = self.choice(order)
        return value if isinstance(value, int) else 0

    def _look_up(self, row: Words) -> int:
        return self.after("look_up", [("uint8", self.inside)], row.view(np.int64).tolist(), self._name)

    def _select(self, bit: int, high: Any, low: Any) -> int:
        if bit not in self._bits:
            self._bits[bit] = self.after("look_up", [("uint8", self.by)], _bit_table(bit), "bool")
        both = [(self._name, v if isinstance(v, int) else 0) for v in (high, low)]
        return self.after("select", [("bool", self._bits[bit]), *both])


def _bit_table(number: int) -> list[int]:
    return [value >> number & 1 for value in range(1 << BYTE)]


def _cost(parameters: Any, index: str, arguments: Any, dtype: str, variant: str, goal: str) -> tuple[int, int]:
    """Returns the cost of a look-up in the given table, or in a random table."""
    bits, kind, entries = bits_of(index), dtype or index, listed(arguments)
    table = np.asarray(entries) if entries else np.zeros(0, np.uint64)
    if not table.size and bits <= WIDEST:
        table = np.random.default_rng(0).integers(0, 1 << (bits_of(kind) - is_signed(kind)), 1 << bits, dtype=np.uint64)
    words = words_of(table, kind, "the table")
    if bits <= BYTE or bits > WIDEST:
        bootstraps, layers = parameters._core.cost("look_up", words.view(np.int64).tolist(), kind, variant, goal, [index])
        return int(bootstraps), int(layers)
    require_entries(index, table.size)
    return look_up_cost(parameters, index, words, kind, goal)


COSTS["look_up"] = _cost
