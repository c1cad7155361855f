"""Diagonals of a linear map between two layouts, and their counts.

A map from one ciphertext to another is a sum of slot vectors times rotations: y[s] = sum over k of d_k[s] x[s + k]. Three
forms are counted and the cheapest one is taken:

- "first": the sums are right in the first places of the output; rotations add the copies;
- "every": the sums are right in all copies;
- "window": k is less than the period of the output, and each place holds a part of a sum, which rotations add.

The distinct distances between places of input and output give the numbers of the diagonals in all forms (`surveys`).
The weights are read when a matrix is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heliograph.ml.networks.layouts import Layout
from heliograph.ml.networks.terms import Alike, Floats, Indices, LinearMap, Mask

#: Cost of one rotation in products with a diagonal, measured at level 6 of n16-b13 on two cores.
ROTATION_COST = 12.0
_GIANT_COST = 1.8  # rotations that a giant step counts as; the engine divides and decomposes for each
_MOST_COPIED = 1 << 24  # maximum entries of a block in the form "every"

#: The number, slot and weight of entries of diagonals. A pair of number and slot has one entry.
Entries = tuple[Indices, Indices, Floats]


@dataclass(frozen=True)
class Diagonals:
    """Diagonals of a map from one ciphertext to another, for slots that repeat with `period`.

    `folds` are rotations that add the parts of sums, or the copies of results, after the product. `share` neighbouring slots
    have the same weights: those of the samples that share a ciphertext. The weights repeat with `span` slots, which is less
    than the period for maps that are the same for each token."""

    period: int
    numbers: Indices  #: number of each diagonal, ascending
    baby: int  #: number of diagonals in a giant step
    rotations: tuple[int, ...]  #: steps of the baby and giant steps
    folds: tuple[int, ...]
    entries: Callable[[], Iterator[Entries]] = field(repr=False, compare=False)  #: yields the entries in parts
    span: int  #: slots after which the weights repeat: the period, or a divisor
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
        """Returns the diagonals [count, span]."""
        base = self.span // self.share
        made = np.zeros(self.count * base)
        row = np.zeros(int(self.numbers[-1]) // self.share + 1 if self.count else 1, dtype=np.int64)
        row[self.numbers // self.share] = np.arange(self.count) * base
        for number, slot, weights in self.entries():
            made[row[number] + slot] += weights
        values = made.reshape(self.count, base)
        return np.repeat(values, self.share, axis=1) if self.share > 1 else values

    def interleaved(self, share: int) -> Diagonals:
        """Returns the same map for `share` interleaved samples: rotations by `share` times the steps."""
        return replace(
            self,
            period=self.period * share,
            numbers=self.numbers * share,
            baby=self.baby * share,
            rotations=tuple(step * share for step in self.rotations),
            folds=tuple(step * share for step in self.folds),
            span=self.span * share,
            share=self.share * share,
        )

    def apply(self, x: Floats) -> Floats:
        """Returns the map of slots [slots], as the encrypted product computes it."""
        total = np.zeros(len(x))
        for number, values in zip(self.numbers, self.values(), strict=True):
            total += np.tile(values, len(x) // self.span) * np.roll(x, -int(number))
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


@dataclass(frozen=True)
class Survey:
    """The distances of a block of a map: (place of the input - place of the output) modulo the period of the input."""

    steps: Indices  #: distinct distances, ascending
    count: int  #: number of triplets


#: Surveys of a map by (ciphertext of the output, ciphertext of the input).
Surveys = Mapping[tuple[int, int], Survey]


def surveys(terms: LinearMap, source: Layout, targets: Sequence[Layout]) -> list[Surveys]:
    """Returns the surveys of a map from one layout to each of several others. Reads the triplets once."""
    if isinstance(terms, Alike) and all(distance_of(terms, source, target) for target in targets):
        return [_alike(terms, source, target) for target in targets]
    low = min(source.period, source.slots)
    outputs = [target.places for target in targets]
    found = [np.zeros(target.ciphertexts * source.ciphertexts * low, dtype=np.int64) for target in targets]
    for part in terms.parts():
        for places, counts in zip(outputs, found, strict=True):
            rows = places[part.rows]
            cols = source.near(part.cols, rows)
            key = (cols - rows) & (low - 1)
            if len(counts) > low:
                key += ((rows // source.slots) * source.ciphertexts + cols // source.slots) * low
            counts += np.bincount(key, minlength=len(counts))
    return [_blocks(counts.reshape(-1, low), source.ciphertexts) for counts in found]


def distance_of(terms: Alike, source: Layout, target: Layout) -> int:
    """Returns the distance of the indices along the axis of a map, if both layouts divide their period among them: then its
    diagonals repeat with this distance. Returns 0 for other layouts.

    >>> from heliograph.ml.networks.layouts import raster
    >>> from heliograph.ml.networks.terms import Terms, along
    >>> distance_of(along(Terms.identity((2, 4)), 0), raster((2, 4), 16), raster((2, 4), 16))
    4
    """
    low = min(source.period, source.slots)
    if source.parts or source.fill > 1:
        return 0
    if low != min(target.period, target.slots) or low % terms.repeats:
        return 0
    inputs, outputs = source.places[terms.inputs], target.places[terms.outputs]
    starts = inputs[:, :1] - inputs[0, 0]
    distance = low // terms.repeats
    same = np.array_equal(inputs, inputs[0] + starts) and np.array_equal(outputs, outputs[0] + starts)
    tiled = np.array_equal(np.sort((starts % low).ravel()), distance * np.arange(terms.repeats))
    return distance if same and tiled and (starts // source.slots == starts[0] // source.slots).all() else 0


def _one(terms: Alike, source: Layout, target: Layout) -> tuple[Indices, Indices, Floats]:
    """Returns the places of outputs and inputs, and the weights, of the first index along the axis of a map."""
    rows, cols, weights = terms.one()
    return target.places[terms.outputs[0]][rows], source.places[terms.inputs[0]][cols], weights


def _alike(terms: Alike, source: Layout, target: Layout) -> Surveys:
    """Returns the survey of a map whose diagonals repeat."""
    low = min(source.period, source.slots)
    rows, cols, _ = _one(terms, source, target)
    key = ((cols - rows) & (low - 1)) + low * ((rows // source.slots) * source.ciphertexts + cols // source.slots)
    counts = np.bincount(key, minlength=target.ciphertexts * source.ciphertexts * low)
    return _blocks(terms.repeats * counts.reshape(-1, low), source.ciphertexts)


def _blocks(counts: npt.NDArray[np.int64], inputs: int) -> Surveys:
    made = {divmod(i, inputs): Survey(np.flatnonzero(block), int(block.sum())) for i, block in enumerate(counts)}
    return {name: one for name, one in made.items() if one.count}


def diagonals_of(
    terms: LinearMap, source: Layout, target: Layout, found: Surveys | None = None
) -> dict[tuple[int, int], Diagonals]:
    """Returns the diagonals of a map, by (ciphertext of the output, ciphertext of the input).

    `found` has the surveys of the map; without it they are made."""
    found = surveys(terms, source, [target])[0] if found is None else found
    low, high = min(source.period, source.slots), min(target.period, source.slots)
    span = distance_of(terms, source, target) if isinstance(terms, Alike) else 0
    if isinstance(terms, Alike) and span:
        repeated = {name: partial(_repeated, terms, source, target, *name, span) for name in found}
        alone = len(found) == 1
        same = {name: made_of(one.steps, low, (), repeated[name], span, alone) for name, one in found.items()}
        return same if alone else _shared(same)
    best: dict[tuple[int, int], Diagonals] | None = None
    places = _Places(terms, source, target)
    for form in _forms(low, high, max((one.count for one in found.values()), default=0)):
        made = {}
        for name, one in found.items():
            entries = partial(places.entries, *name, partial(form.entries, low, high))
            made[name] = made_of(
                form.numbers(one.steps, low, high), form.period, form.folds, entries, form.period, len(found) == 1
            )
        made = made if len(made) < 2 else _shared(made)
        best = made if best is None or cost_of(made) < cost_of(best) else best
    return {} if best is None or not found else best


def _repeated(terms: Alike, source: Layout, target: Layout, to: int, of: int, span: int) -> Iterator[Entries]:
    """Yields the entries of a block of a map whose diagonals repeat with `span` slots."""
    rows, cols, weights = _one(terms, source, target)
    keep = (rows // source.slots == to) & (cols // source.slots == of)
    rows, cols = rows[keep], cols[keep]
    yield (cols - rows) % min(source.period, source.slots), rows % span, weights[keep]


class _Places:
    """The triplets of a map as slots of its blocks.

    All blocks of an input are made at once, and each one is dropped when it is read."""

    def __init__(self, terms: LinearMap, source: Layout, target: Layout) -> None:
        self._terms, self._source, self._target = terms, source, target
        self._of = -1  # the input whose blocks are made
        self._made: dict[int, list[Entries]] = {}

    def entries(self, to: int, of: int, form: Callable[[Indices, Indices, Floats], Entries]) -> Iterator[Entries]:
        """Yields the entries of a block, in parts, in a form of rows, columns (slots) and weights."""
        if self._source.ciphertexts == self._target.ciphertexts == 1:
            yield from (form(*entries) for _, entries in self._slots(None))
            return
        if of != self._of or to not in self._made:
            self._make(of)
        yield from (form(*entries) for entries in self._made.pop(to))

    def _make(self, of: int) -> None:
        self._of, self._made = of, {to: [] for to in range(self._target.ciphertexts)}
        for outputs, (rows, cols, weights) in self._slots(self._source.places // self._source.slots == of):
            for to in np.unique(outputs):
                keep = outputs == to
                self._made[int(to)].append((rows[keep], cols[keep], weights[keep]))

    def _slots(self, some: Mask | None) -> Iterator[tuple[Indices, Entries]]:
        """Yields the output ciphertext, row, column and weight of the triplets of some inputs, in parts."""
        slots, outputs = self._source.slots, self._target.places
        for part in self._terms.parts(some):
            rows = outputs[part.rows]
            cols = self._source.near(part.cols, rows)
            yield rows // slots, (rows % slots, cols % slots, part.weights)


class _Form(NamedTuple):
    """A form of diagonals for a period of the input and one of the output."""

    entries: Callable[[int, int, Indices, Indices, Floats], Entries]  #: of both periods, rows, columns and weights
    numbers: Callable[[Indices, int, int], Indices]  #: of distances and both periods
    period: int  #: period of the diagonals
    folds: tuple[int, ...]


def _forms(source: int, target: int, count: int) -> tuple[_Form, ...]:
    """Returns the forms of the maps between periods, for blocks of at most `count` entries."""
    copies = _copies(source, target)
    first = _Form(_first, lambda steps, _, __: steps, max(source, target), copies)
    if target >= source:
        return (first,)
    window = _Form(_window, lambda steps, _, high: np.unique(steps % high), source, copies)
    every = _Form(_every, _copied, source, ())
    return (first, window, every) if source // target * count <= _MOST_COPIED else (first, window)


def _copies(source: int, target: int) -> tuple[int, ...]:
    """Returns the rotations that add the copies of an output of a smaller period."""
    return tuple(target << i for i in range((source // target).bit_length() - 1))


def _first(source: int, target: int, rows: Indices, cols: Indices, weights: Floats) -> Entries:
    return (cols - rows) % source, rows, weights


def _window(source: int, target: int, rows: Indices, cols: Indices, weights: Floats) -> Entries:
    steps = (cols - rows) % target
    return steps, (cols - steps) % source, weights


def _every(source: int, target: int, rows: Indices, cols: Indices, weights: Floats) -> Entries:
    count = source // target
    every = (rows[:, None] + target * np.arange(count)).ravel()
    return (np.repeat(cols, count) - every) % source, every, np.repeat(weights, count)


def _copied(steps: Indices, source: int, target: int) -> Indices:
    """Returns the numbers of diagonals that are right in all copies of the output."""
    present = np.zeros((source // target, target), dtype=bool)
    present.ravel()[steps] = True
    return np.flatnonzero(np.tile(present.any(axis=0), source // target))


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
    numbers: Indices,
    period: int,
    folds: tuple[int, ...],
    entries: Callable[[], Iterator[Entries]],
    span: int,
    alone: bool = True,
) -> Diagonals:
    """Returns the diagonals of some numbers. Blocks that are not `alone` have no giant steps yet."""
    baby, rotations = split(numbers, period) if alone else (period, ())
    return Diagonals(period, numbers, baby, rotations, folds, entries, span)


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
