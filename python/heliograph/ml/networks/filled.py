"""Linear maps that use the copies of a small tensor: each copy takes its share of the diagonals.

The values of a tensor repeat with a period of P slots, and a ciphertext has r = slots / P copies. A first matrix turns copy
i by an offset o(i): z[i P + q] = x[q + o(i)]. Then one diagonal k of a second matrix does the work of the steps k + o(0),
k + o(1) and so on, each in a copy of its own. Rotations by multiples of the period add the copies, so the sums are right in
all of them. The first matrix takes one more level, but only as many diagonals as there are offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from heliograph.ml.networks.diagonals import ROTATION_COST, Diagonals, Entries, Surveys, made_of, split, surveys
from heliograph.ml.networks.layouts import Layout
from heliograph.ml.networks.terms import Floats, Indices, LinearMap

_TRIED = 4  # offsets whose giant steps are counted, in each doubling
_MOST_OFFSETS = 64  # more offsets cost more than they save

_Steps = tuple[int, ...]


@dataclass(frozen=True)
class Filled:
    """A map as two matrices: `spread` turns the copies of the input, and `matrix` multiplies each copy by its diagonals."""

    spread: Diagonals
    matrix: Diagonals

    @property
    def cost(self) -> float:
        """Cost in products with a diagonal of the whole ciphertext."""
        return self.spread.cost + self.matrix.cost

    def apply(self, x: Floats) -> Floats:
        """Returns the map of slots [slots], as the encrypted products compute it."""
        return self.matrix.apply(self.spread.apply(x))

    def interleaved(self, share: int) -> Filled:
        """Returns the same map for `share` interleaved samples."""
        return Filled(self.spread.interleaved(share), self.matrix.interleaved(share))


def filled_of(terms: LinearMap, source: Layout, target: Layout, found: Surveys | None = None) -> Filled | None:
    """Returns the map by filled copies; None if there are no copies, or if offsets save nothing.

    `found` has the surveys of the map; without it they are made. Maps of several ciphertexts have no copies."""
    slots, period = source.slots, max(source.period, target.period)
    if period >= slots:
        return None
    found = surveys(terms, source, [target])[0] if found is None else found
    if not found:
        return None
    steps = found[0, 0].steps
    present = np.zeros(source.period, dtype=bool)
    present[steps] = True
    base, offsets = _cover(present.tobytes(), slots // period, slots)
    if len(offsets) == 1:
        return None
    number, copy = _assigned(base, offsets, source.period)
    folds = tuple(target.period << i for i in range((slots // target.period).bit_length() - 1))
    entries = partial(_entries, terms, source, target, number, copy)
    return Filled(_spread(offsets, period, slots), made_of(np.unique(number[steps]), slots, folds, entries, slots))


def _entries(terms: LinearMap, source: Layout, target: Layout, number: Indices, copy: Indices) -> Iterator[Entries]:
    """Yields the entries of the second matrix. `number` and `copy` have a diagonal and a copy for each distance."""
    slots, period = source.slots, max(source.period, target.period)
    inputs, outputs = source.places, target.places
    for part in terms.parts():
        rows = outputs[part.rows]
        steps = (inputs[part.cols] - rows) % source.period
        taken = number[steps]
        yield taken, (copy[steps] * period + (rows + taken) % period - taken) % slots, part.weights


def _spread(offsets: _Steps, period: int, slots: int) -> Diagonals:
    """Returns the matrix that turns copy i by offset i; further copies repeat the offsets."""
    slot = np.arange(slots, dtype=np.int64)
    turned = np.asarray(offsets, dtype=np.int64)[slot // period % len(offsets)]
    return made_of(np.unique(turned), slots, (), lambda: iter([(turned, slot, np.ones(slots))]), slots)


def _assigned(base: Indices, offsets: _Steps, period: int) -> tuple[Indices, Indices]:
    """Returns for each step a diagonal of `base` and the copy whose offset completes it; -1 for a step without one."""
    number, copy = np.full(period, -1, dtype=np.int64), np.zeros(period, dtype=np.int64)
    for i, offset in enumerate(offsets):
        reached = (base + offset) % period
        free = number[reached] < 0
        number[reached[free]], copy[reached[free]] = base[free], i
    return number, copy


@lru_cache(maxsize=64)
def _cover(present: bytes, copies: int, slots: int) -> tuple[Indices, _Steps]:
    """Returns diagonals and at most `copies` offsets whose sums, modulo the period, reach all present steps.

    Each round doubles the offsets by one distance, which halves the diagonals at best. The cheapest round is returned."""
    steps = np.frombuffer(present, dtype=bool)
    base, offsets = np.flatnonzero(steps), [0]
    best, least = (base, tuple(offsets)), _cost(base, offsets, slots)
    while 2 * len(offsets) <= min(copies, _MOST_OFFSETS):
        found = list(_halves(steps))
        if not found:
            break
        few = sorted(found, key=lambda one: int(np.count_nonzero(one[1])))[:_TRIED]
        options = [(half, [*offsets, *((o + distance) % len(steps) for o in offsets)]) for distance, half in few]
        steps, offsets = min(options, key=lambda one: _cost(np.flatnonzero(one[0]), one[1], slots))
        base = np.flatnonzero(steps)
        cost = _cost(base, offsets, slots)
        if cost < least:
            best, least = (base, tuple(offsets)), cost
    return best


def _cost(base: Indices, offsets: list[int], slots: int) -> float:
    """Returns the cost of both matrices, in products with a diagonal."""
    numbers = np.unique(np.asarray(offsets, dtype=np.int64))
    rotations = len(split(base, slots)[1]) + len(split(numbers, slots)[1])
    return len(base) + len(numbers) + ROTATION_COST * rotations


def _halves(steps: npt.NDArray[np.bool_]) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """Yields distances d, powers of two, and few steps that together with those d further reach all steps."""
    for i in range((len(steps) - 1).bit_length()):
        distance = 1 << i
        left, taken = steps.copy(), np.zeros(len(steps), dtype=bool)
        while left.any():
            first = left & ~np.roll(left, distance)  # the starts of chains of this distance
            if not first.any():  # only whole cycles are left
                first = left & (np.arange(len(steps)) // distance % 2 == 0)
            taken |= first
            left &= ~(first | np.roll(first, distance))
        yield distance, taken
