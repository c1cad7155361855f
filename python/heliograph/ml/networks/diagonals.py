"""Diagonals of a linear map between two layouts, and their counts.

A map from one ciphertext to another is a sum of slot vectors times rotations: y[s] = sum over k of d_k[s] x[s + k]. Three
forms are counted and the cheapest one is taken:

- "first": the sums are right in the first places of the output; rotations add the copies;
- "every": the sums are right in all copies;
- "window": k is less than the period of the output, and each place holds a part of a sum, which rotations add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

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

    `folds` are rotations that add the parts of sums, or the copies of results, after the product. `share` neighbouring slots
    have the same weights: those of the samples that share a ciphertext."""

    period: int
    numbers: Indices  #: number of each diagonal, ascending
    index: npt.NDArray[np.int32]  #: position in `numbers` of each entry
    slot: npt.NDArray[np.int32]  #: slot of each entry, divided by `share`
    weights: Floats  #: weight of each entry
    baby: int  #: number of diagonals in a giant step
    rotations: tuple[int, ...]  #: steps of the baby and giant steps
    folds: tuple[int, ...] = ()
    share: int = 1

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
        made = np.zeros((self.count, self.period // self.share))
        np.add.at(made, (self.index, self.slot), self.weights)
        return np.repeat(made, self.share, axis=1) if self.share > 1 else made

    def interleaved(self, share: int) -> Diagonals:
        """Returns the same map for `share` interleaved samples: rotations by `share` times the steps."""
        return replace(
            self,
            period=self.period * share,
            numbers=self.numbers * share,
            baby=self.baby * share,
            rotations=tuple(step * share for step in self.rotations),
            folds=tuple(step * share for step in self.folds),
            share=self.share * share,
        )

    def apply(self, x: Floats) -> Floats:
        """Returns the map of slots [slots], as the encrypted product computes it."""
        total = np.zeros(len(x))
        for number, values in zip(self.numbers, self.values(), strict=True):
            total += np.tile(values, len(x) // self.period) * np.roll(x, -int(number))
        for step in self.folds:
            total = total + np.roll(total, -step)
        return total


#: Diagonals of a map by (ciphertext of the output, ciphertext of the input). All have one period, `baby` and `folds`.
Blocks = Mapping[tuple[int, int], Diagonals]


def turns_of(blocks: Blocks) -> int:
    """Returns the rotations of a map: the baby steps of an input serve all outputs, and an output has its giant steps."""
    babies = {(of, int(k)) for (_, of), d in blocks.items() for k in np.unique(d.numbers % d.baby) if k}
    giants = {(to, int(k)) for (to, _), d in blocks.items() for k in np.unique(d.numbers // d.baby) if k}
    folds = {(to, step) for (to, _), d in blocks.items() for step in d.folds}
    return len(babies) + len(giants) + len(folds)


def cost_of(blocks: Blocks) -> float:
    """Returns the cost of a map in products with a diagonal of a whole ciphertext."""
    if len(blocks) == 1:
        return next(iter(blocks.values())).cost
    folds = sum(len(d.folds) for d in {to: d for (to, _), d in blocks.items()}.values())
    return sum(d.count for d in blocks.values()) + ROTATION_COST * (turns_of(blocks) + folds)


def diagonals_of(terms: Terms, source: Layout, target: Layout) -> dict[tuple[int, int], Diagonals]:
    """Returns the diagonals of a map, by (ciphertext of the output, ciphertext of the input)."""
    slots = source.slots
    cols, rows = source.places[terms.cols], target.places[terms.rows]
    low, high = min(source.period, slots), min(target.period, slots)
    pairs = (rows // slots) * source.ciphertexts + cols // slots
    numbers = [int(pair) for pair in _present(pairs)]
    chosen = [pairs == pair for pair in numbers] if len(numbers) > 1 else [np.ones(len(pairs), dtype=bool)]
    entries = [(rows[some] % slots, cols[some] % slots, terms.weights[some]) for some in chosen]
    names = [divmod(pair, source.ciphertexts) for pair in numbers]
    best: dict[tuple[int, int], Diagonals] | None = None
    for form in _forms(low, high, max((len(one[0]) for one in entries), default=0)):
        made = {name: form(*one, low, high, len(names) == 1) for name, one in zip(names, entries, strict=True)}
        made = made if len(made) < 2 else _shared(made)
        best = made if best is None or cost_of(made) < cost_of(best) else best
    return {} if best is None or not names else best


#: Makes the diagonals of entries (rows, columns, weights, period of the input, period of the output, alone).
_Form = Callable[[Indices, Indices, Floats, int, int, bool], Diagonals]


def _forms(source: int, target: int, count: int) -> tuple[_Form, ...]:
    """Returns the forms of the maps between periods, for blocks of at most `count` entries."""
    if target >= source:
        return (_first,)
    return (_first, _window, _every) if source // target * count <= 1 << 24 else (_first, _window)


def _copies(source: int, target: int) -> tuple[int, ...]:
    """Returns the rotations that add the copies of an output of a smaller period."""
    return tuple(target << i for i in range((source // target).bit_length() - 1))


def _first(rows: Indices, cols: Indices, weights: Floats, source: int, target: int, alone: bool) -> Diagonals:
    return made_of((cols - rows) % source, rows, weights, max(source, target), _copies(source, target), alone)


def _window(rows: Indices, cols: Indices, weights: Floats, source: int, target: int, alone: bool) -> Diagonals:
    steps = (cols - rows) % target
    return made_of(steps, (cols - steps) % source, weights, source, _copies(source, target), alone)


def _every(rows: Indices, cols: Indices, weights: Floats, source: int, target: int, alone: bool) -> Diagonals:
    count = source // target
    every = (rows[:, None] + target * np.arange(count)).ravel()
    return made_of((np.repeat(cols, count) - every) % source, every, np.repeat(weights, count), source, (), alone)


def _shared(blocks: dict[tuple[int, int], Diagonals]) -> dict[tuple[int, int], Diagonals]:
    """Returns blocks with the number of diagonals in a giant step that is cheapest for all of them together."""
    period = next(iter(blocks.values())).period
    every = np.unique(np.concatenate([d.numbers for d in blocks.values()]))
    inputs = {of: _union([d for (_, i), d in blocks.items() if i == of]) for _, of in blocks}
    outputs = {to: _union([d for (o, _), d in blocks.items() if o == to]) for to, _ in blocks}

    def cost(baby: int) -> float:
        babies = sum(np.count_nonzero(np.unique(numbers % baby)) for numbers in inputs.values())
        giants = sum(np.count_nonzero(np.unique(numbers // baby)) for numbers in outputs.values())
        return float(babies + _GIANT_COST * giants)

    baby = min((period, *_candidates(every, period)), key=cost)
    return {name: replace(d, baby=baby, rotations=_steps(d.numbers, baby)) for name, d in blocks.items()}


def _union(blocks: list[Diagonals]) -> Indices:
    return np.unique(np.concatenate([d.numbers for d in blocks]))


def made_of(
    steps: Indices, slot: Indices, weights: Floats, period: int, folds: tuple[int, ...], alone: bool = True
) -> Diagonals:
    """Returns the diagonals of entries, each with its step, its slot and its weight.

    Blocks that are not `alone` have no giant steps yet."""
    numbers = _present(steps)
    place = np.zeros(int(numbers[-1]) + 1 if len(numbers) else 1, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    index = place[steps].astype(np.int32)
    baby, rotations = split(numbers, period) if alone else (period, ())
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
    best, least = period, np.inf
    for baby in (period, *_candidates(numbers, period)):
        babies, giants = np.unique(numbers % baby), np.unique(numbers - numbers % baby)
        cost = float(np.count_nonzero(babies) + _GIANT_COST * np.count_nonzero(giants))
        if cost < least:
            best, least = baby, cost
    return int(best), _steps(numbers, int(best))


def _steps(numbers: Indices, baby: int) -> tuple[int, ...]:
    """Returns the rotations of the baby steps and giant steps."""
    taken = np.union1d(numbers % baby, numbers - numbers % baby)
    return tuple(int(step) for step in taken if step)
