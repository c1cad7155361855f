"""Sparse linear maps between flattened tensors, built from the linear operations of a graph.

A map is a list of triplets (output index, input index, weight). Each operation transforms the output index of the triplets
that it receives, so no dense matrix is made. `Terms` holds all triplets of a map. `Deferred` makes the triplets of a large
map again for each use, in parts of some inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from heliograph.ml.graph import Node, Shape, floats

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MOST_WHOLE = 3 << 20  #: maximum triplets of a map that is kept as `Terms`
_PART = 1 << 21  # triplets in a part of a larger map


@dataclass(frozen=True)
class Terms:
    """Triplets of a linear map from a tensor of `columns` values to one of shape `shape`.

    >>> Terms.identity((2, 2)).dense()[0]
    array([1., 0., 0., 0.])
    """

    shape: Shape  #: shape of the output
    columns: int  #: number of values of the input
    rows: Indices  #: flattened output index of each triplet
    cols: Indices  #: flattened input index of each triplet
    weights: Floats  #: weight of each triplet
    #: 2: an input has at most one triplet. 1: a pair of indices has at most one triplet. 0: neither is known.
    distinct: int = 0

    @staticmethod
    def identity(shape: Shape, first: int = 0, last: int | None = None) -> Terms:
        """Returns the identity, or its triplets of the inputs from `first` to before `last`.

        >>> Terms.identity((3,), 1).rows
        array([1, 2])
        """
        size = math.prod(shape)
        index = np.arange(first, size if last is None else last, dtype=np.int64)
        return Terms(tuple(shape), size, index, index, np.ones(len(index)), 2)

    def dense(self) -> Floats:
        """Returns the matrix [outputs, inputs].

        >>> Terms.identity((2,)).times(3.0).dense()
        array([[3., 0.],
               [0., 3.]])
        """
        matrix = np.zeros((math.prod(self.shape), self.columns))
        np.add.at(matrix, (self.rows, self.cols), self.weights)
        return matrix

    def joined(self) -> Terms:
        """Returns the map with one triplet for each pair of indices, without zeros.

        >>> twice = Terms((1,), 1, np.array([0, 0]), np.array([0, 0]), np.array([1.0, 2.0]))
        >>> twice.joined().weights
        array([3.])
        """
        if self.distinct:
            keep = self.weights != 0
            return self if keep.all() else self._some(keep)
        key = self.rows.astype(np.int64) * self.columns + self.cols
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(key) > 0])) if len(key) else np.zeros(0, np.int64)
        weights = np.add.reduceat(self.weights[order], first) if len(key) else self.weights
        made = Terms(self.shape, self.columns, key[first] // self.columns, key[first] % self.columns, weights, 1)
        return made._some(weights != 0)

    def _some(self, keep: Mask) -> Terms:
        return Terms(self.shape, self.columns, self.rows[keep], self.cols[keep], self.weights[keep], self.distinct)

    @property
    def count(self) -> int:
        """Number of triplets."""
        return len(self.rows)

    @property
    def is_zero(self) -> bool:
        """Whether the map has no triplets."""
        return not len(self.rows)

    def of(self, inputs: Mask) -> Terms:
        """Returns the triplets of some inputs.

        >>> Terms.identity((3,)).of(np.array([True, False, True])).rows
        array([0, 2])
        """
        return self._some(inputs[self.cols])

    def parts(self, inputs: Mask | None = None) -> Iterator[Terms]:
        """Yields the triplets of some inputs, or all of them.

        >>> [part.count for part in Terms.identity((3,)).parts()]
        [3]
        """
        yield self if inputs is None else self.of(inputs)

    def pushed(self, push: Callable[[Terms], Terms], shape: Shape, count: int) -> LinearMap:
        """Returns the map after an operation on triplets, `push`. `count` is the most triplets that the result can have.

        >>> Terms.identity((3,)).pushed(lambda terms: terms.times(2.0), (3,), 3).factor()
        2.0
        """
        if count <= MOST_WHOLE:
            return push(self)
        return Deferred(shape, self.columns, count, lambda inputs: push(self.of(inputs)))

    def short(self) -> Terms:
        """Returns the map with indices of 32 bits, which take less memory."""
        return replace(self, rows=self.rows.astype(np.int32), cols=self.cols.astype(np.int32))

    def without_weights(self) -> Terms:
        """Returns a map of the same shapes without triplets."""
        none = np.zeros(0, dtype=np.int64)
        return Terms(self.shape, self.columns, none, none, np.zeros(0))

    def times(self, factor: float) -> Terms:
        """Returns the map times a number.

        >>> Terms.identity((1,)).times(2.0).weights
        array([2.])
        """
        return Terms(self.shape, self.columns, self.rows, self.cols, self.weights * factor, self.distinct)

    def plus(self, other: LinearMap) -> LinearMap:
        """Returns the sum of two maps of one shape.

        >>> one = Terms.identity((1,))
        >>> one.plus(one).joined().weights
        array([2.])
        """
        if isinstance(other, Deferred) or self.count + other.count > MOST_WHOLE:
            return _sum_of(self, other)
        return self._with(other)

    def _with(self, other: Terms) -> Terms:
        return Terms(
            self.shape,
            self.columns,
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.cols, other.cols]),
            np.concatenate([self.weights, other.weights]),
        )

    def factor(self) -> float | None:
        """Returns the number by which the map multiplies each value in place; None for any other map.

        >>> Terms.identity((3,)).times(0.5).factor()
        0.5
        """
        size = math.prod(self.shape)
        if size != self.columns or len(self.rows) != size or not np.array_equal(self.rows, self.cols):
            return None
        return float(self.weights[0]) if (self.weights == self.weights[0]).all() else None

    def apply(self, values: Floats) -> Floats:
        """Returns the map of one flattened tensor.

        >>> Terms.identity((2,)).times(2.0).apply(np.array([1.0, 3.0]))
        array([2., 6.])
        """
        return np.bincount(self.rows, self.weights * values[self.cols], math.prod(self.shape)).astype(np.float64)


@dataclass(frozen=True)
class Deferred:
    """A linear map of too many triplets for memory: they are made for some inputs at a time, each time that they are read.

    >>> twice = Deferred((4,), 4, 4, lambda inputs: Terms.identity((4,)).of(inputs).times(2.0))
    >>> twice.apply(np.ones(4))
    array([2., 2., 2., 2.])
    """

    shape: Shape  #: shape of the output
    columns: int  #: number of values of the input
    count: int  #: maximum number of triplets
    of: Callable[[Mask], Terms] = field(repr=False)  #: returns the triplets of some inputs

    def parts(self, inputs: Mask | None = None) -> Iterator[Terms]:
        """Yields the triplets of some inputs, or all of them, in parts with one triplet for each pair of indices."""
        chosen = np.arange(self.columns) if inputs is None else np.flatnonzero(inputs)
        each = max(1, self.columns * _PART // max(1, self.count))
        for start in range(0, len(chosen), each):
            part = np.zeros(self.columns, dtype=np.bool_)
            part[chosen[start : start + each]] = True
            yield self.of(part).joined()

    def pushed(self, push: Callable[[Terms], Terms], shape: Shape, count: int) -> LinearMap:
        """Returns the map after an operation on triplets, `push`. `count` is the most triplets that the result can have."""
        return Deferred(shape, self.columns, count, lambda inputs: push(self.of(inputs)))

    def plus(self, other: LinearMap) -> LinearMap:
        """Returns the sum of two maps of one shape."""
        return _sum_of(self, other)

    def joined(self) -> LinearMap:
        """Returns the map itself: its parts are joined."""
        return self

    @property
    def is_zero(self) -> bool:
        """Whether the map has no triplets."""
        return not any(part.count for part in self.parts())

    def factor(self) -> float | None:
        """Returns None: large maps are no factors in place."""
        return None

    def apply(self, values: Floats) -> Floats:
        """Returns the map of one flattened tensor."""
        total = np.zeros(math.prod(self.shape))
        for part in self.parts():
            total += part.apply(values)
        return total

    def short(self) -> Deferred:
        """Returns the map itself, which holds no triplets."""
        return self

    def without_weights(self) -> Terms:
        """Returns a map of the same shapes without triplets."""
        none = np.zeros(0, dtype=np.int64)
        return Terms(self.shape, self.columns, none, none, np.zeros(0))


LinearMap = Terms | Deferred


def _sum_of(a: LinearMap, b: LinearMap) -> Deferred:
    return Deferred(a.shape, a.columns, a.count + b.count, lambda inputs: a.of(inputs)._with(b.of(inputs)))


def _positions(terms: Terms) -> tuple[Indices, ...]:
    return tuple(np.asarray(i, dtype=np.int64) for i in np.unravel_index(terms.rows, terms.shape))


def _moved(terms: Terms, shape: Shape, index: tuple[Indices, ...], keep: npt.NDArray[np.bool_] | None = None) -> Terms:
    """Returns the triplets with other output indices; `keep` selects triplets first."""
    rows = np.asarray(np.ravel_multi_index(index, shape), dtype=np.int64) if len(index[0]) else terms.rows[:0]
    if keep is None:
        return Terms(shape, terms.columns, rows, terms.cols, terms.weights, terms.distinct)
    return Terms(shape, terms.columns, rows, terms.cols[keep], terms.weights[keep], terms.distinct)


def _dense(node: Node, terms: Terms, shape: Shape) -> Terms:
    weight = floats(node.attributes["weight"])
    outputs, inputs = weight.shape
    lead, feature = terms.rows // inputs, terms.rows % inputs
    rows = (lead[:, None] * outputs + np.arange(outputs)).ravel()
    weights = (terms.weights[:, None] * weight.T[feature]).ravel()
    return Terms(shape, terms.columns, rows, np.repeat(terms.cols, outputs), weights, terms.distinct // 2)


def _convolution(node: Node, terms: Terms, shape: Shape) -> Terms:
    a = node.attributes
    weight, groups = floats(a["weight"]), int(a["groups"])
    outputs, per, high, wide = weight.shape
    each = outputs // groups
    channel, row, column = _positions(terms)
    (down, across), (top, left) = a["strides"], a["pads"][:2]
    spread = a.get("dilations", (1, 1))
    parts = []
    for y in range(high):
        for x in range(wide):
            at_row, at_column = row + top - y * spread[0], column + left - x * spread[1]
            keep = (at_row % down == 0) & (at_column % across == 0) & (at_row >= 0) & (at_column >= 0)
            keep &= (at_row // down < shape[1]) & (at_column // across < shape[2])
            group, inner = channel[keep] // per, channel[keep] % per
            out = (group * each)[:, None] + np.arange(each)
            taps = weight[out, inner[:, None], y, x]
            place = (at_row[keep] // down * shape[2] + at_column[keep] // across)[:, None]
            rows = (out * (shape[1] * shape[2]) + place).ravel()
            weights = (terms.weights[keep][:, None] * taps).ravel()
            parts.append((rows, np.repeat(terms.cols[keep], each), weights))
    rows, cols, weights = (np.concatenate([p[i] for p in parts]) for i in range(3))
    return Terms(shape, terms.columns, rows, cols, weights, terms.distinct // 2)


def _scale(node: Node, terms: Terms, shape: Shape) -> Terms:
    factor = np.broadcast_to(floats(node.attributes["factor"]), shape).ravel()
    return Terms(shape, terms.columns, terms.rows, terms.cols, terms.weights * factor[terms.rows], terms.distinct)


def _reshape(node: Node, terms: Terms, shape: Shape) -> Terms:
    return Terms(shape, terms.columns, terms.rows, terms.cols, terms.weights, terms.distinct)


def _transpose(node: Node, terms: Terms, shape: Shape) -> Terms:
    index = _positions(terms)
    return _moved(terms, shape, tuple(index[int(axis)] for axis in node.attributes["permutation"]))


def _slice(node: Node, terms: Terms, shape: Shape) -> Terms:
    index, keep = [], np.ones(len(terms.rows), dtype=bool)
    for at, length, (start, stop, step) in zip(_positions(terms), terms.shape, node.attributes["slices"], strict=True):
        taken = range(length)[slice(start, stop, step)]
        place = np.full(length, -1, dtype=np.int64)
        place[np.asarray(taken, dtype=np.int64)] = np.arange(len(taken))
        index.append(place[at])
        keep &= place[at] >= 0
    return _moved(terms, shape, tuple(i[keep] for i in index), keep)


def _pad(node: Node, terms: Terms, shape: Shape) -> Terms:
    pads = node.attributes["pads"]
    return _moved(terms, shape, tuple(at + int(before) for at, (before, _) in zip(_positions(terms), pads, strict=True)))


def _sum(node: Node, terms: Terms, shape: Shape) -> Terms:
    rank = len(terms.shape)
    axes = {int(a) % rank for a in np.atleast_1d(node.attributes["axes"])}
    index = tuple(at for axis, at in enumerate(_positions(terms)) if axis not in axes)
    if bool(node.attributes["keepdims"]):
        index = tuple(np.zeros_like(at) if axis in axes else at for axis, at in enumerate(_positions(terms)))
    distinct = terms.distinct if terms.distinct == 2 else 0
    rows = np.asarray(np.ravel_multi_index(index, shape), np.int64) if index and len(index[0]) else np.zeros_like(terms.rows)
    return Terms(shape, terms.columns, rows, terms.cols, terms.weights, distinct)


def _shifts(node: Node, terms: Terms, shape: Shape) -> Terms:
    count, axis = int(node.attributes["count"]), int(node.attributes["axis"])
    index = [np.tile(at, count) for at in _positions(terms)]
    shift = np.repeat(np.arange(count, dtype=np.int64), len(terms.rows))
    index[axis] = (index[axis] - shift) % terms.shape[axis]
    rows = np.asarray(np.ravel_multi_index((shift, *index), shape), dtype=np.int64) if len(shift) else terms.rows[:0]
    return Terms(shape, terms.columns, rows, np.tile(terms.cols, count), np.tile(terms.weights, count), terms.distinct // 2)


#: For each linear operation of one operand: the function of a node, triplets of its operand, and the result's shape.
PUSHES: Mapping[str, Callable[[Node, Terms, Shape], Terms]] = {
    "dense": _dense,
    "convolution": _convolution,
    "scale": _scale,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "shifts": _shifts,
    "sum": _sum,
}


def concatenated(terms: Terms, shape: Shape, axis: int, offset: int) -> Terms:
    """Returns the triplets of one operand of a concatenation, whose place along the axis starts at `offset`.

    >>> concatenated(Terms.identity((1,)), (3,), 0, 2).rows
    array([2])
    """
    index = _positions(terms)
    return _moved(terms, shape, tuple(at + offset if i == axis % len(shape) else at for i, at in enumerate(index)))
