"""Sums of paths, for few rows: the layout of an ensemble in slots of CKKS, and its evaluation.

A term is a leaf with a value for one output. Its path is a set of literals: conditions with their results. Let e be the
number of literals that a sample misses. e is 0 for one leaf of each tree, and 1 to `depth` for the others. The client
sends the results of all conditions as bits. A clear matrix times the bits gives t = a (e - h) in the slot of each term,
with h = (depth + 1) / 2 for an even depth. The polynomial of t with the roots e = 1, ..., depth is a product of factors
t^2 - a^2 r^2. The factor a of the term is chosen so that this product is the leaf's value for e = 0: values cost no level.
The slots of an output are then summed.

A slot holds two bits, as real and imaginary part, which halves the diagonals of the matrix. The real part of the product
is t.

One value of each tree is subtracted from all leaves and added to a constant, so that all values are at least 0.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.trees.ensemble import Bools, Ensemble, Floats, Ints

Literals = tuple[tuple[int, bool], ...]
#: Rotations cost about as much as this many diagonals.
_ROTATION_COST = 4


@dataclass(frozen=True)
class Term:
    """A leaf with a value above 0 for one output, and its literals."""

    output: int
    tree: int
    value: float
    literals: Literals


@dataclass(frozen=True)
class Terms:
    """The terms of an ensemble: its values are `constant` plus `unit` times the values of the matching terms."""

    terms: tuple[Term, ...]
    constant: Floats  #: [outputs], in units
    unit: float  #: largest value; those of terms are at most 1
    depth: int  #: largest number of literals
    conditions: int

    @property
    def reach(self) -> float:
        """Bound on the magnitude of values, in units."""
        outputs = len(self.constant)
        largest: dict[tuple[int, int], float] = {}
        for term in self.terms:
            key = (term.output, term.tree)
            largest[key] = max(largest.get(key, 0.0), term.value)
        sums = np.abs(self.constant)
        for (output, _), value in largest.items():
            sums[output] += value
        return float(sums.max(initial=0.0)) if outputs else 0.0


def terms_of(ensemble: Ensemble) -> Terms:
    """Returns the terms of an ensemble."""
    constant = ensemble.base.copy()
    raw: list[Term] = []
    for number, tree in enumerate(ensemble.trees):
        paths = tree.paths()
        values = np.array([tree.values[leaf] for leaf, _ in paths])
        least = values.min(0)
        constant[slice(None) if tree.column is None else tree.column] += least if tree.column is None else least[0]
        for (_, literals), shifted in zip(paths, values - least, strict=True):
            raw += [
                Term(int(k) if tree.column is None else tree.column, number, float(shifted[k]), literals)
                for k in np.flatnonzero(shifted)
            ]
    unit = max((term.value for term in raw), default=float(np.abs(constant).max(initial=0)) or 1.0)
    scaled = tuple(Term(term.output, term.tree, term.value / unit, term.literals) for term in raw)
    depth = max((len(term.literals) for term in scaled), default=0)
    return Terms(scaled, constant / unit, unit, depth, len(ensemble.conditions))


@dataclass(frozen=True)
class Polynomial:
    """The factors of the polynomial of t for paths of up to `depth` literals."""

    depth: int

    @property
    def middle(self) -> float:
        """Number h of missed literals for which t is 0."""
        return (2 * self.factors + 1) / 2

    @property
    def factors(self) -> int:
        """Number of factors t^2 - a^2 r^2."""
        return (self.depth + 1) // 2

    @property
    def roots(self) -> Floats:
        """Squares of the roots of t / a, largest first."""
        return np.asarray((np.arange(self.factors, 0, -1) - 0.5) ** 2, dtype=np.float64)

    @property
    def levels(self) -> int:
        """Levels of the polynomial, the matrix included."""
        if self.depth <= 1:
            return 1
        depths = [1] * (self.factors // 2) + [0] * (self.factors % 2)
        while len(depths) > 1:
            depths = sorted(depths)
            depths = [max(depths[:2]) + 1, *depths[2:]]
        return 2 + depths[0]

    def sizes(self, values: Floats) -> Floats:
        """Returns the factor a of terms with these values; the values themselves for a depth of at most 1."""
        if self.depth <= 1:
            return values
        at_zero = float(np.prod(self.middle**2 - self.roots))
        return np.asarray((values / at_zero) ** (1 / (2 * self.factors)))

    def of(self, t: Any, sizes: Any, square: Any, multiply: Any) -> Any:
        """Returns the polynomial of t. `sizes` are the factors a of its slots; operations are those of t's type."""
        if self.depth <= 1:
            return t
        u, roots = square(t), list(self.roots)
        parts = []
        while len(roots) > 1:
            first, last = roots.pop(0), roots.pop()
            middle, half = (first + last) / 2, (first - last) / 2
            parts.append((1, square(u - sizes**2 * middle) - sizes**4 * half**2))
        if roots:
            parts.append((0, u - sizes**2 * roots[0]))
        while len(parts) > 1:
            parts.sort(key=lambda part: part[0])
            (low, a), (high, b) = parts[:2]
            parts = [(max(low, high) + 1, multiply(a, b)), *parts[2:]]
        return parts[0][1]


@dataclass(frozen=True)
class Layout:
    """Places of terms and bits in slots. A piece is a ciphertext of terms; pieces are summed."""

    slots: int
    width: int  #: slots of one copy of all outputs; copies repeat
    region: int  #: slots of one output: output k starts at k * region
    period: int  #: number of diagonals; a period holds twice as many conditions
    shared: bool  #: whether all pieces read one ciphertext of bits, which repeats with the period
    bits: Ints  #: [inputs, 2, slots], the conditions of each slot's real and imaginary part; -1 for none
    terms: Ints  #: [pieces, slots], the term in each slot; -1 for none

    @property
    def pieces(self) -> int:
        """Number of ciphertexts of terms."""
        return len(self.terms)

    @property
    def inputs(self) -> int:
        """Number of ciphertexts of bits."""
        return len(self.bits)

    @property
    def copies(self) -> int:
        """Number of equal copies of the terms in the slots."""
        return self.slots // self.width

    @property
    def cost(self) -> float:
        """Cost of the matrices, in diagonals."""
        rotations = 2 * np.sqrt(self.period) + np.log2(self.region)
        return float(self.pieces * (self.period + _ROTATION_COST * rotations) * self.slots)

    def encoded(self, bits: Bools) -> npt.NDArray[np.complex128]:
        """Returns the values to encrypt [count, inputs, slots] for results of conditions [count, conditions]."""
        padded = np.concatenate([bits, np.zeros((len(bits), 1), dtype=np.bool_)], axis=1)[:, self.bits]
        return np.asarray(padded[:, :, 0] + 1j * padded[:, :, 1])

    def decoded(self, slots: Floats, outputs: int) -> Floats:
        """Returns the values [count, outputs] of decrypted slots [count, slots]: means over the copies."""
        starts = np.arange(outputs) * self.region
        places = starts[None, :] + self.width * np.arange(self.copies)[:, None]
        return np.asarray(slots[:, places].mean(1))


def power_of_two(count: int) -> int:
    """Returns the smallest power of two of at least `count`."""
    return 1 << max(0, count - 1).bit_length()


def shared_layout(terms: Terms, slots: int) -> Layout | None:
    """Returns a layout in which the bits of all conditions repeat, or None if they do not fit the slots."""
    period = power_of_two(max((terms.conditions + 1) // 2, 1))
    outputs = power_of_two(len(terms.constant))
    counts = np.bincount([term.output for term in terms.terms], minlength=len(terms.constant))
    if period > slots or outputs > slots:
        return None
    region = min(power_of_two(max(int(counts.max(initial=1)), 1)), slots // outputs)
    width = max(region * outputs, period)
    region = width // outputs
    pieces = max(1, -(-int(counts.max(initial=1)) // region))
    places = -np.ones((pieces, width), dtype=np.int64)
    used = np.zeros(len(terms.constant), dtype=np.int64)
    for number, term in enumerate(terms.terms):
        piece, at = divmod(int(used[term.output]), region)
        places[piece, term.output * region + at] = number
        used[term.output] += 1
    bits = shared_bits(terms.conditions, period, slots)
    return Layout(slots, width, region, period, True, bits, np.tile(places, slots // width))


def shared_bits(conditions: int, period: int, slots: int) -> Ints:
    """Returns the conditions of slots [1, 2, slots] in a layout with one ciphertext of bits."""
    bits = np.arange(slots) % period + np.array([[[0], [period]]])
    return np.where(bits < conditions, bits, -1)


def grouped_layout(terms: Terms, slots: int, period: int) -> Layout | None:
    """Returns a layout in blocks. A block holds terms of a group of trees, and their conditions, at most 2 * `period`.

    Returns None if a tree has more conditions, or if more than one copy of a block does not fit a region.
    """
    outputs = power_of_two(len(terms.constant))
    blocks = list(_blocks(terms, 2 * period))
    if any(len(conditions) > 2 * period for _, conditions, _ in blocks) or outputs > slots:
        return None
    lengths = np.zeros(len(terms.constant), dtype=np.int64)
    for output, _, numbers in blocks:
        lengths[output] += len(numbers) + period - 1
    region = min(power_of_two(int(lengths.max(initial=1))), slots // outputs)
    if any(len(numbers) + period - 1 > region for _, _, numbers in blocks):
        return None
    width = region * outputs
    rows: list[tuple[Ints, Ints]] = []
    if not blocks:  # single leaves only
        rows.append((-np.ones((2, width), dtype=np.int64), -np.ones(width, dtype=np.int64)))
    used = np.zeros((len(terms.constant), 2), dtype=np.int64)  # piece and slot of the next block
    for output, conditions, numbers in blocks:
        size = len(numbers) + period - 1
        if used[output, 1] + size > region:
            used[output] = used[output, 0] + 1, 0
        piece, start = int(used[output, 0]), output * region + int(used[output, 1])
        while piece >= len(rows):
            rows.append((-np.ones((2, width), dtype=np.int64), -np.ones(width, dtype=np.int64)))
        padded = np.array([*conditions, *([-1] * (2 * period - len(conditions)))], dtype=np.int64).reshape(2, period)
        rows[piece][0][:, start : start + size] = padded[:, np.arange(size) % period]
        rows[piece][1][start : start + len(numbers)] = numbers
        used[output, 1] += size
    copies = slots // width
    bits, places = (np.stack([np.tile(row[which], copies) for row in rows]) for which in (0, 1))
    return Layout(slots, width, region, period, False, bits, places)


def _blocks(terms: Terms, most: int) -> Iterable[tuple[int, list[int], list[int]]]:
    """Yields (output, conditions, numbers of terms) of groups of trees with at most `most` conditions. A single tree "
    "may have more."""
    groups: dict[tuple[int, int], list[int]] = {}
    for number, term in enumerate(terms.terms):
        groups.setdefault((term.output, term.tree), []).append(number)
    last, conditions, numbers = -1, set[int](), list[int]()
    for (output, _), own in sorted(groups.items()):
        used = {c for number in own for c, _ in terms.terms[number].literals}
        if numbers and (output != last or len(conditions | used) > most):
            yield last, sorted(conditions), numbers
            conditions, numbers = set(), []
        last, conditions, numbers = output, conditions | used, numbers + own
    if numbers:
        yield last, sorted(conditions), numbers


@dataclass(frozen=True)
class Matrices:
    """The clear numbers of a layout's evaluation."""

    diagonals: list[tuple[list[int], npt.NDArray[np.complex128]]]  #: of each piece: numbers, and values [diagonals, slots]
    constants: Floats  #: [pieces, slots], added to the products
    sizes: Floats  #: [pieces, slots], the factors a


def matrices(terms: Terms, layout: Layout, polynomial: Polynomial) -> Matrices:
    """Returns the matrices of the pieces."""
    values = np.array([term.value for term in terms.terms] + [0.0])
    sizes = polynomial.sizes(values)[layout.terms]
    constants = np.zeros(layout.terms.shape)
    pieces = []
    for piece, places in enumerate(layout.terms):
        source = layout.bits[0 if layout.shared else piece]
        find = _Places(layout, source).find
        rows = np.zeros((layout.period, layout.width), dtype=np.complex128)
        for slot in np.flatnonzero(places[: layout.width] >= 0):
            literals = terms.terms[places[slot]].literals
            sign = sizes[piece, slot] * (1.0 if polynomial.depth > 1 else -1.0)
            for condition, result in literals:
                part, diagonal = find(int(slot), condition)
                # Half of the product and of its conjugate: their sum is the real part.
                rows[diagonal, slot] += (-0.5 if result else 0.5) * sign * (-1j if part else 1)
            missed = sum(result for _, result in literals)
            constants[piece, slot] = sign * (missed - (polynomial.middle if polynomial.depth > 1 else 1.0))
        constants[piece] = np.tile(constants[piece, : layout.width], layout.copies)
        used = np.flatnonzero(rows.any(1))
        pieces.append((used.tolist(), np.tile(rows[used], layout.copies)))
    return Matrices(pieces, constants, sizes)


class _Places:
    """Finds the diagonals of conditions in a piece."""

    def __init__(self, layout: Layout, source: Ints) -> None:
        self._layout = layout
        self._slots: dict[int, list[tuple[int, int]]] = {}  # of each condition, rising: slots and parts
        if not layout.shared:
            for slot in range(layout.width):
                for part in (0, 1):
                    self._slots.setdefault(int(source[part, slot]), []).append((slot, part))

    def find(self, slot: int, condition: int) -> tuple[int, int]:
        """Returns the part, and the diagonal of a slot, that hold a condition."""
        if self._layout.shared:
            part, place = divmod(condition, self._layout.period)
            return part, (place - slot) % self._layout.period
        places = self._slots[condition]
        found, part = places[bisect.bisect_left(places, (slot, 0))]
        return part, found - slot


def evaluate(
    layout: Layout, polynomial: Polynomial, found: Matrices, x: Sequence[Any], product: Any, square: Any, multiply: Any
) -> Any:
    """Returns the sum of the pieces' polynomials, before the sums over slots.

    `product(piece, x)` returns twice the real part of a matrix times x.
    """
    total = None
    for piece in range(layout.pieces):
        t = product(piece, x[0 if layout.shared else piece]) + found.constants[piece]
        y = polynomial.of(t, found.sizes[piece], square, multiply)
        total = y if total is None else total + y
    return total


def clear_product(diagonals: tuple[list[int], npt.NDArray[np.complex128]], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns a matrix given by diagonals times slots x [..., slots]."""
    total = np.zeros(x.shape, dtype=np.complex128)
    for number, values in zip(*diagonals, strict=True):
        total += values * np.roll(x, -number, axis=-1)
    return total
