"""Layouts: the places of a tensor's values in the slots of ciphertexts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from heliograph.ml.graph import Shape
from heliograph.ml.networks.terms import Floats, Indices

#: Digits of an index along one axis: (length, distance in slots), the lowest digit first.
Digits = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """Places of the values of a tensor, and of several samples, in ciphertexts of `slots` slots.

    An index along an axis is written in mixed radix. Each digit moves by its distance, so channels can fill the gaps that
    strides leave between pixels. The values of a sample repeat with `period`. A tensor of more places than a sample has in a
    ciphertext has several ciphertexts.

    `share` samples are interleaved: place p of sample s is slot p * share + s. A rotation by a multiple of `share` rotates
    the places of each sample and mixes no samples, so a map has the diagonals of one sample in slots / share places.

    >>> layout = Layout((2, 2), (((2, 4),), ((2, 1),)), 8, 16)
    >>> layout.pack(np.array([[[1, 2], [3, 4]]]))[0, :8]
    array([1., 2., 0., 0., 3., 4., 0., 0.])
    """

    shape: Shape
    digits: tuple[Digits, ...]  #: digits of each axis
    period: int  #: places of one sample: a power of two, or whole ciphertexts
    slots: int  #: slots of a ciphertext
    share: int = 1  #: samples that share the ciphertexts, a power of two
    fill: int = 1  #: neighbouring slots that hold each value, a power of two; only of layouts of inputs
    parts: tuple[Layout, ...] = ()  #: layouts of consecutive runs of the values, each in separate ciphertexts

    @property
    def ciphertexts(self) -> int:
        """Number of ciphertexts."""
        return max(1, self.period * self.share // self.slots)

    @property
    def width(self) -> int:
        """Places of a sample in all ciphertexts."""
        return self.ciphertexts * self.slots // self.share

    @property
    def places(self) -> Indices:
        """Place of each value of a sample, in row-major order: the first one of those that hold it."""
        if self.parts:
            starts = np.cumsum([0, *(part.ciphertexts * part.slots // part.share for part in self.parts)])
            return np.concatenate([part.places + start for part, start in zip(self.parts, starts[:-1], strict=True)])
        total = np.zeros((), dtype=np.int64)
        for length, digits in zip(self.shape, self.digits, strict=True):
            index, place = np.arange(length, dtype=np.int64), np.zeros(length, dtype=np.int64)
            for i, (size, distance) in enumerate(digits):
                digit = index if i == len(digits) - 1 else index % size
                place, index = place + digit * distance, index // size
            total = total[..., None] + place
        return total.ravel()

    @property
    def fills(self) -> Indices:
        """Number of neighbouring slots that hold each value."""
        if self.parts:
            return np.concatenate([part.fills for part in self.parts])
        return np.full(math.prod(self.shape), self.fill)

    def near(self, values: Indices, places: Indices) -> Indices:
        """Returns the places of some values. Of a value with `fill` copies in neighbouring places it takes the copy that is
        congruent to its entry of `places` modulo `fill`, so one diagonal serves all of them.

        >>> Layout((2,), (((2, 4),),), 8, 16, fill=4).near(np.array([0, 1, 1]), np.array([0, 1, 2]))
        array([0, 5, 6])
        """
        own: Indices = self.places[values]
        if self.fill == 1 and all(part.fill == 1 for part in self.parts):
            return own
        return own + places % self.fills[values]

    def spread(self, values: Floats, other: float = 0.0) -> Floats:
        """Returns one vector of values of a sample, repeated for all samples: [ciphertexts, slots]. `other` fills the places
        that the layout does not use.

        >>> Layout((1,), (((1, 1),),), 1, 4).spread(np.array([2.0]))
        array([[2., 2., 2., 2.]])
        """
        one = np.full(self.period, other, dtype=np.float64)
        one[self.places] = values
        every = np.repeat(np.tile(one, self.width // self.period), self.share)
        return every.reshape(self.ciphertexts, self.slots)

    def pack(self, samples: npt.NDArray[np.floating]) -> Floats:
        """Returns samples [count, ...] of at most `share` as slots [ciphertexts, slots]. The first sample fills the places
        of missing samples.

        >>> Layout((1,), (((1, 1),),), 2, 4, 2).pack(np.array([[5.0], [6.0]]))
        array([[5., 6., 0., 0.]])
        """
        count = len(samples)
        if self.parts:
            flat, sizes = samples.reshape(count, -1), np.cumsum([0, *(math.prod(part.shape) for part in self.parts)])
            runs = zip(self.parts, sizes[:-1], sizes[1:], strict=True)
            return np.concatenate([part.pack(flat[:, i:j]) for part, i, j in runs])
        one = np.zeros((self.share, self.period))
        for i in range(self.fill):
            one[:count, self.places + i] = np.asarray(samples, dtype=np.float64).reshape(count, -1)
        one[count:] = one[0]  # a sample of zeros could leave an interval
        every = np.tile(one, (1, self.width // self.period))
        return np.ascontiguousarray(every.T).reshape(self.ciphertexts, self.slots)

    def unpack(self, slots: Floats, count: int = 1) -> Floats:
        """Returns `count` samples [count, ...] of slots [ciphertexts, slots].

        >>> layout = Layout((1,), (((1, 1),),), 2, 4, 2)
        >>> layout.unpack(layout.pack(np.array([[5.0], [6.0]])), 2).ravel()
        array([5., 6.])
        """
        every = np.asarray(slots).reshape(self.width, self.share)
        return np.ascontiguousarray(every[self.places, :count].T).reshape(count, *self.shape)

    def pack_groups(self, samples: npt.NDArray[np.floating]) -> Floats:
        """Returns samples [count, ...] as slots [groups, ciphertexts, slots], with `share` samples in a group.

        >>> Layout((1,), (((1, 1),),), 1, 2, 2).pack_groups(np.array([[5.0], [6.0], [7.0]])).tolist()
        [[[5.0, 6.0]], [[7.0, 7.0]]]
        """
        return np.stack([self.pack(samples[i : i + self.share]) for i in range(0, len(samples), self.share)])

    def unpack_groups(self, slots: Floats, count: int) -> Floats:
        """Returns `count` samples [count, ...] of slots [groups, ciphertexts, slots].

        >>> Layout((1,), (((1, 1),),), 1, 2, 2).unpack_groups(np.array([[[5.0, 6.0]], [[7.0, 7.0]]]), 3).ravel()
        array([5., 6., 7.])
        """
        groups = np.asarray(slots).reshape(-1, self.ciphertexts, self.slots)
        return np.concatenate([self.unpack(group, self.share) for group in groups])[:count]

    def interleaved(self, share: int) -> Layout:
        """Returns the layout of `share` samples in ciphertexts of `share` times the slots.

        >>> Layout((1,), (((1, 1),),), 2, 4).interleaved(2).slots
        8
        """
        parts = tuple(part.interleaved(share) for part in self.parts)
        return replace(self, slots=self.slots * share, share=self.share * share, parts=parts)


def power(size: int) -> int:
    """Returns the least power of two that is at least `size`.

    >>> power(5)
    8
    """
    return 1 << max(0, size - 1).bit_length()


def raster(shape: Shape, slots: int) -> Layout:
    """Returns the row-major layout, each axis padded to a power of two.

    >>> raster((3, 4, 4), 64).period
    64
    """
    distance, digits = 1, []
    for length in reversed(shape):
        digits.append(((length, distance),))
        distance *= power(length)
    return Layout(shape, tuple(reversed(digits)), distance, slots)


def packed(shape: Shape, slots: int) -> Layout:
    """Returns the row-major layout without places between the rows.

    >>> packed((3, 5), 64).period
    16
    """
    distance, digits = 1, []
    for length in reversed(shape):
        digits.append(((length, distance),))
        distance *= length
    return Layout(shape, tuple(reversed(digits)), period_of(distance, slots), slots)


def period_of(size: int, slots: int) -> int:
    """Returns the least period of `size` places: a power of two, or whole ciphertexts.

    >>> period_of(5, 8), period_of(17, 8)
    (8, 24)
    """
    return power(size) if size <= slots else -(-size // slots) * slots


def strided(source: Layout, strides: Sequence[int], shape: Shape) -> Layout | None:
    """Returns the layout of an image [channels, rows, columns] after a stride of a convolution or pool of `source`.

    Rows and columns keep their places, so only every stride-th place is used. Channels fill the places between. Returns None
    if the source is no image whose rows and columns have one distance, or if a stride or a distance is no power of two.
    """
    if len(source.shape) != 3 or any(len(d) != 1 for d in source.digits[1:]) or any(s & (s - 1) for s in strides):
        return None
    (high, row), (wide, column) = source.digits[1][0], source.digits[2][0]
    if shape[1] > -(-high // strides[0]) or shape[2] > -(-wide // strides[1]):
        return None
    gaps: list[tuple[int, int]] = []
    distances = [row, column, *(distance for size, distance in source.digits[0] if size > 1)]
    if any(d & (d - 1) for d in distances) or wide * column > row:
        return None
    blocks = power(max(high * row, wide * column))
    inside = [digit for digit in source.digits[0] if digit[1] < blocks and digit[0] > 1]
    gaps += inside
    # The gaps of short axes end where the next axis begins.
    columns, rows_between = (row // column, blocks // row) if high > 1 else (blocks // column, 1)
    gaps += [(size, column)] if (size := min(strides[1], columns)) > 1 else []
    gaps += [(size, row)] if (size := min(strides[0], rows_between)) > 1 else []
    count, digits = shape[0], []
    for size, distance in gaps:
        if count <= 1:
            break
        digits.append((size, distance))
        count = -(-count // size)
    digits.append((count, blocks))
    rows = (((shape[1], row * strides[0]),), ((shape[2], column * strides[1]),))
    return Layout(shape, (tuple(digits), *rows), blocks * power(count), source.slots)
