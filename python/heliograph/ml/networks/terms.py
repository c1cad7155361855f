"""Sparse linear maps between flattened tensors, built from the linear operations of a graph.

A map is a list of triplets (output index, input index, weight). Each operation transforms the output index of the triplets
that it receives, so no dense matrix is made. `Terms` holds all triplets of a map. `Deferred` makes the triplets of a large
map again for each use, in parts of some inputs. `Alike` holds one matrix for all indices along an axis, such as the
tokens of a dense layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from heliograph.ml.graph import Shape

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MOST_WHOLE = 3 << 20  #: maximum triplets of a map that is kept as `Terms`
PART = 1 << 21  #: triplets in a part of a larger map
MOST_MATRIX = 1 << 26  #: entries of the matrix of an `Alike`


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
    def stored(self) -> int:
        """Number of weights in memory, or that are made for each use."""
        return self.count

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
        return _nothing(self.shape, self.columns)

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
        if not isinstance(other, Terms):
            return other.plus(self)
        return _sum_of(self, other) if self.count + other.count > MOST_WHOLE else self._with(other)

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
        each = max(1, self.columns * PART // max(1, self.count))
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
    def stored(self) -> int:
        """Number of weights in memory, or that are made for each use."""
        return self.count

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
        return _nothing(self.shape, self.columns)


@dataclass(frozen=True)
class Alike:
    """A linear map that is the same for each index along one axis of its output, such as a dense layer for each token.

    Only the matrix of one index is stored, so a map of 10^8 triplets takes megabytes, and its diagonals are periodic.
    Rows are the outputs of an index in row-major order of the other axes.

    >>> twice = Alike((2, 1), 0, np.array([[0, 1], [2, 3]]), np.array([[1.0, 1.0]]))
    >>> twice.apply(np.array([1.0, 2.0, 3.0, 4.0]))
    array([3., 7.])
    """

    shape: Shape  #: shape of the output
    axis: int  #: the axis of the output
    inputs: Indices = field(repr=False)  #: flattened input indices [indices along the axis, columns of the matrix]
    matrix: Floats = field(repr=False)  #: [outputs, inputs] of one index

    @property
    def repeats(self) -> int:
        """Number of indices along the axis."""
        return len(self.inputs)

    @property
    def rest(self) -> Shape:
        """Shape of the outputs of one index."""
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])

    @property
    def columns(self) -> int:
        """Number of values of the input."""
        return self.inputs.size

    @property
    def count(self) -> int:
        """Number of triplets."""
        return self.repeats * int(np.count_nonzero(self.matrix))

    @property
    def stored(self) -> int:
        """Number of weights in memory, or that are made for each use."""
        return self.matrix.size

    @property
    def is_zero(self) -> bool:
        """Whether the map has no triplets."""
        return not self.matrix.any()

    @property
    def outputs(self) -> Indices:
        """Flattened output indices [indices along the axis, rows of the matrix]."""
        every = np.arange(math.prod(self.shape), dtype=np.int64).reshape(self.shape)
        return np.moveaxis(every, self.axis, 0).reshape(self.repeats, -1)

    def one(self) -> tuple[Indices, Indices, Floats]:
        """Returns the rows, columns and weights of the matrix that are not zero."""
        rows, cols = (index.astype(np.int64) for index in np.nonzero(self.matrix))
        return rows, cols, self.matrix[rows, cols]

    def of(self, inputs: Mask) -> Terms:
        """Returns the triplets of some inputs.

        >>> twice = Alike((2, 1), 0, np.array([[0, 1], [2, 3]]), np.ones((1, 2)))
        >>> twice.of(np.array([False, False, True, True])).rows
        array([1, 1])
        """
        wanted = inputs[self.inputs]
        some, used = np.flatnonzero(wanted.any(axis=1)), np.asarray(wanted.any(axis=0))
        rows, cols, weights = self.one()
        rows, cols, weights = rows[used[cols]], cols[used[cols]], weights[used[cols]]
        outer, inner = self.outputs[some][:, rows].ravel(), self.inputs[some][:, cols].ravel()
        keep = inputs[inner]
        every = np.tile(weights, len(some))
        return Terms(self.shape, self.columns, outer[keep], inner[keep], every[keep], 1)

    def parts(self, inputs: Mask | None = None) -> Iterator[Terms]:
        """Yields the triplets of some inputs, or all of them, in parts."""
        yield from self._deferred().parts(inputs)

    def _deferred(self) -> Deferred:
        return Deferred(self.shape, self.columns, self.count, self.of)

    def _expanded(self) -> LinearMap:
        return self.of(np.ones(self.columns, dtype=np.bool_)) if self.count <= PART else self._deferred()

    def pushed(self, push: Callable[[Terms], Terms], shape: Shape, count: int) -> LinearMap:
        """Returns the map after an operation on triplets, `push`. `count` is the most triplets that the result can have."""
        return self._expanded().pushed(push, shape, count)

    def plus(self, other: LinearMap) -> LinearMap:
        """Returns the sum of two maps of one shape.

        >>> one = Alike((1,), 0, np.zeros((1, 1), np.int64), np.ones((1, 1)))
        >>> one.plus(one).matrix
        array([[2.]])
        """
        found = other if isinstance(other, Alike) else along(other, self.axis)
        if found is not None and found.axis == self.axis and np.array_equal(found.inputs, self.inputs):
            return replace(self, matrix=self.matrix + found.matrix)
        return self._expanded().plus(other._expanded() if isinstance(other, Alike) else other)

    def joined(self) -> Alike:
        """Returns the map itself, which has one weight for each pair of indices."""
        return self

    def short(self) -> Alike:
        """Returns the map itself."""
        return self

    def without_weights(self) -> Terms:
        """Returns a map of the same shapes without triplets."""
        return _nothing(self.shape, self.columns)

    def factor(self) -> float | None:
        """Returns the number by which the map multiplies each value in place; None for any other map."""
        size, number = len(self.matrix), float(self.matrix[0, 0])
        if self.matrix.shape != (size, size) or not np.array_equal(self.matrix, number * np.eye(size)):
            return None
        return number if np.array_equal(self.inputs, self.outputs) else None

    def apply(self, values: Floats) -> Floats:
        """Returns the map of one flattened tensor."""
        made = np.zeros(math.prod(self.shape))
        made[self.outputs] = values[self.inputs] @ self.matrix.T
        return made


def along(terms: LinearMap, axis: int) -> Alike | None:
    """Returns a map that multiplies values in place as a map that is the same for each index along an axis.

    Returns None for other maps, and if the numbers differ along the axis.

    >>> along(Terms.identity((2, 2)), 0).matrix
    array([[1., 0.],
           [0., 1.]])
    """
    size = terms.columns // terms.shape[axis]
    if not isinstance(terms, Terms) or size * size > MOST_MATRIX or math.prod(terms.shape) != terms.columns:
        return None
    if terms.distinct < 1 or not np.array_equal(terms.rows, terms.cols):
        return None
    every = np.arange(terms.columns, dtype=np.int64).reshape(terms.shape)
    index = np.moveaxis(every, axis, 0).reshape(-1, size)
    numbers = np.zeros(terms.columns)
    numbers[terms.rows] = terms.weights
    numbers = numbers[index]
    return Alike(terms.shape, axis, index, np.diag(numbers[0])) if (numbers == numbers[0]).all() else None


LinearMap = Terms | Deferred | Alike


def _nothing(shape: Shape, columns: int) -> Terms:
    none = np.zeros(0, dtype=np.int64)
    return Terms(shape, columns, none, none, np.zeros(0))


def _sum_of(a: LinearMap, b: LinearMap) -> Deferred:
    return Deferred(a.shape, a.columns, a.count + b.count, lambda inputs: a.of(inputs)._with(b.of(inputs)))
