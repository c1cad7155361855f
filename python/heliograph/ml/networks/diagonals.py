"""Diagonals of a linear map between two layouts, and their counts.

A map from one ciphertext to another is a sum of slot vectors times rotations: y[s] = sum over k of d_k[s] x[s + k]. Three
forms are counted and the cheapest one is taken:

- "first": the sums are right in the first places of the output; rotations add the copies;
- "every": the sums are right in all copies;
- "window": k is less than the period of the output, and each place holds a part of a sum, which rotations add.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heliograph.ml.networks.layouts import Layout
from heliograph.ml.networks.terms import Floats, Indices, Terms

#: Cost of one rotation in products with a diagonal, measured at level 6 of n16-b13 on two cores.
ROTATION_COST = 12.0
_GIANT_COST = 1.8  # rotations that a giant step counts as; the engine divides and decomposes for each


@dataclass(frozen=True)
class Diagonals:
    """Diagonals of a map from one ciphertext to another, for slots that repeat with `period`.

    `folds` are rotations that add the parts of sums, or the copies of results, after the product."""

    period: int
    numbers: Indices  #: number of each diagonal, ascending
    index: npt.NDArray[np.int32]  #: position in `numbers` of each entry
    slot: npt.NDArray[np.int32]  #: slot of each entry
    weights: Floats  #: weight of each entry
    baby: int  #: number of diagonals in a giant step
    rotations: tuple[int, ...]  #: steps of the baby and giant steps
    folds: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of diagonals."""
        return len(self.numbers)

    @property
    def turns(self) -> int:
        """Number of rotations."""
        return len(self.rotations) + len(self.folds)

    @property
    def cost(self) -> float:
        """Cost in products with a diagonal of the whole ciphertext."""
        return self.count + ROTATION_COST * (len(self.rotations) + 2 * len(self.folds))

    def values(self) -> Floats:
        """Returns the diagonals [count, period]."""
        made = np.zeros((self.count, self.period))
        np.add.at(made, (self.index, self.slot), self.weights)
        return made

    def apply(self, x: Floats) -> Floats:
        """Returns the map of slots [slots], as the encrypted product computes it."""
        total = np.zeros(len(x))
        for number, values in zip(self.numbers, self.values(), strict=True):
            total += np.tile(values, len(x) // self.period) * np.roll(x, -int(number))
        for step in self.folds:
            total = total + np.roll(total, -step)
        return total


def diagonals_of(terms: Terms, source: Layout, target: Layout) -> dict[tuple[int, int], Diagonals]:
    """Returns the diagonals of a map, by (ciphertext of the output, ciphertext of the input)."""
    slots = source.slots
    cols, rows = source.places[terms.cols], target.places[terms.rows]
    if source.batch > 1:
        return _of_batch(terms, source, target, rows, cols)
    made: dict[tuple[int, int], Diagonals] = {}
    pairs = (rows // slots) * source.ciphertexts + cols // slots
    for pair in _present(pairs):
        some = pairs == pair
        to, of = divmod(int(pair), source.ciphertexts)
        low, high = min(source.period, slots), min(target.period, slots)
        made[to, of] = _cheapest(rows[some] % slots, cols[some] % slots, terms.weights[some], low, high)
    return made


def _cheapest(rows: Indices, cols: Indices, weights: Floats, source: int, target: int) -> Diagonals:
    """Returns the cheapest diagonals between one ciphertext of period `source` and one of period `target`."""
    period = max(source, target)
    copies = tuple(target << i for i in range((period // target).bit_length() - 1))
    steps = (cols - rows) % source
    if not copies:  # the output's period is the larger one
        return made_of(steps, rows, weights, period, ())
    candidates = [made_of((cols - rows) % period, rows, weights, period, copies)]
    window = (cols - rows) % target
    candidates.append(made_of(window, (cols - window) % period, weights, period, copies))
    least = min(candidates, key=lambda d: d.cost)
    count = period // target
    if count * len(rows) <= 1 << 24:
        every = (rows[:, None] + target * np.arange(count)).ravel()
        candidates.append(made_of((np.repeat(cols, count) - every) % period, every, np.repeat(weights, count), period, ()))
        least = min(least, candidates[-1], key=lambda d: d.cost)
    return least


def _of_batch(
    terms: Terms, source: Layout, target: Layout, rows: Indices, cols: Indices
) -> dict[tuple[int, int], Diagonals]:
    """Returns the diagonals for several samples, `period` apart: rotations may not mix samples."""
    if source.ciphertexts != 1 or target.ciphertexts != 1 or source.period != target.period:
        raise ValueError("several samples must share one ciphertext with one period")
    slots, count = source.slots, source.slots // source.period
    every = (np.arange(count) * source.period)[:, None]
    steps = np.tile((cols - rows) % slots, count)
    return {(0, 0): made_of(steps, (rows + every).ravel(), np.tile(terms.weights, count), slots, ())}


def made_of(steps: Indices, slot: Indices, weights: Floats, period: int, folds: tuple[int, ...]) -> Diagonals:
    """Returns the diagonals of entries, each with its step, its slot and its weight."""
    numbers = _present(steps)
    place = np.zeros(int(numbers[-1]) + 1 if len(numbers) else 1, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    index = place[steps].astype(np.int32)
    baby, rotations = split(numbers, period)
    return Diagonals(period, numbers, index, slot.astype(np.int32), weights, baby, rotations, folds)


def _present(values: Indices) -> Indices:
    """Returns the distinct values, ascending, of small numbers that are not negative."""
    return np.flatnonzero(np.bincount(values))


def _candidates(numbers: Indices, period: int) -> Iterator[int]:
    yield from (1 << i for i in range(period.bit_length() - 1))
    gaps = np.unique(np.diff(numbers))
    yield from (int(gap) for gap in gaps[:32] if gap < period)


def split(numbers: Indices, period: int) -> tuple[int, tuple[int, ...]]:
    """Returns the cheapest number of diagonals in a giant step, and the rotations of both kinds of steps."""
    best, least, taken = period, np.inf, np.zeros(0, np.int64)
    for baby in (period, *_candidates(numbers, period)):
        babies, giants = np.unique(numbers % baby), np.unique(numbers - numbers % baby)
        cost = float(np.count_nonzero(babies) + _GIANT_COST * np.count_nonzero(giants))
        if cost < least:
            best, least, taken = baby, cost, np.union1d(babies, giants)
    return int(best), tuple(int(step) for step in taken if step)
