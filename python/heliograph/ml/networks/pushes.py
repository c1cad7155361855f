"""Linear operations of canonical graphs on linear maps: on triplets, and on maps that treat all parts alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heliograph.ml.graph import Node, Shape, floats
from heliograph.ml.networks.terms import MOST_MATRIX, Alike, Floats, Indices, LinearMap, Terms, along

_LEAST = 2  # indices along an axis from which one matrix stands for all of them


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


def alike(node: Node, terms: LinearMap, shape: Shape) -> Alike | None:
    """Returns the map after an operation that treats all indices along an axis alike; None for other operations.

    A map by a factor becomes such a map along the longest axis whose length is a power of two.

    >>> layer = Node("dense", ("x",), "y", {"weight": np.array([[1.0, 2.0]])})
    >>> alike(layer, Terms.identity((4, 2)), (4, 1)).repeats
    4
    """
    push = _ALIKE.get(node.operation)
    if push is None:
        return None
    if isinstance(terms, Alike):
        return push(node, terms, shape)
    if node.operation not in ("dense", "sum", "transpose"):
        return None
    touched = _touched(node, len(terms.shape))
    lengths = [n if n & (n - 1) == 0 and i not in touched else 1 for i, n in enumerate(terms.shape)]
    longest = max(lengths, default=1)
    if longest < _LEAST:
        return None
    axis = len(lengths) - 1 - lengths[::-1].index(longest)
    found = along(terms, axis)
    return None if found is None else push(node, found, shape)


def _touched(node: Node, rank: int) -> set[int]:
    """Returns the axes along which an operation mixes values."""
    if node.operation == "transpose":
        return set()
    return {rank - 1} if node.operation == "dense" else {int(axis) % rank for axis in np.atleast_1d(node.attributes["axes"])}


def _alike_dense(node: Node, terms: Alike, shape: Shape) -> Alike | None:
    weight = floats(node.attributes["weight"])
    columns = terms.matrix.shape[1]
    if terms.axis == len(shape) - 1 or len(terms.matrix) // weight.shape[1] * len(weight) * columns > MOST_MATRIX:
        return None
    every = terms.matrix.reshape(-1, weight.shape[1], columns)
    return replace(terms, shape=shape, matrix=np.matmul(weight, every).reshape(-1, columns))


def _alike_scale(node: Node, terms: Alike, _: Shape) -> Alike | None:
    return scaled(terms, np.broadcast_to(floats(node.attributes["factor"]), terms.shape))


def scaled(terms: LinearMap, factor: Floats) -> Alike | None:
    """Returns the map with each output times a number; None if the numbers differ along the axis.

    >>> scaled(along(Terms.identity((2, 1)), 0), np.array([[3.0], [3.0]])).matrix
    array([[3.]])
    """
    if not isinstance(terms, Alike):
        return None
    each = np.moveaxis(factor.reshape(terms.shape), terms.axis, 0).reshape(terms.repeats, -1)
    return replace(terms, matrix=terms.matrix * each[0][:, None]) if (each == each[0]).all() else None


def _alike_reshape(_: Node, terms: Alike, shape: Shape) -> Alike | None:
    before = math.prod(terms.shape[: terms.axis])
    for axis, length in enumerate(shape):
        if length == terms.repeats and math.prod(shape[:axis]) == before:
            return replace(terms, shape=shape, axis=axis)
    return None


def _alike_transpose(node: Node, terms: Alike, shape: Shape) -> Alike:
    order = [int(i) for i in node.attributes["permutation"]]
    rest = [i - (i > terms.axis) for i in order if i != terms.axis]
    every = terms.matrix.reshape(*terms.rest, -1).transpose(*rest, len(rest))
    return replace(terms, shape=shape, axis=order.index(terms.axis), matrix=every.reshape(terms.matrix.shape))


def _alike_sum(node: Node, terms: Alike, shape: Shape) -> Alike | None:
    axes = _touched(node, len(terms.shape))
    if terms.axis in axes:
        return None
    keep = bool(node.attributes["keepdims"])
    columns = terms.matrix.shape[1]
    every = terms.matrix.reshape(*terms.rest, columns).sum(axis=tuple(i - (i > terms.axis) for i in axes))
    axis = terms.axis if keep else terms.axis - sum(i < terms.axis for i in axes)
    return replace(terms, shape=shape, axis=axis, matrix=every.reshape(-1, columns))


#: For some linear operations of one operand: the function of a node, the map of its operand, and the result's shape.
_ALIKE: Mapping[str, Callable[[Node, Alike, Shape], Alike | None]] = {
    "dense": _alike_dense,
    "reshape": _alike_reshape,
    "scale": _alike_scale,
    "sum": _alike_sum,
    "transpose": _alike_transpose,
}
