"""Ensembles of decision trees: conditions on features, trees, and values of leaves.

Readers of each library make an `Ensemble` of the library's model. All comparisons have the form x <= threshold: a library
that compares x < t in float32 has the threshold below t, and features are rounded to float32 first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.outputs import Output

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
MOST_NODES, MOST_FEATURES, MOST_DEPTH, MOST_OUTPUTS = 1 << 20, 1 << 20, 64, 1 << 10
MOST_VALUES = 1 << 26  #: of all nodes, outputs without values left out
_LARGEST = 2.0**500  #: largest magnitude of a leaf, so that sums are finite
#: LightGBM treats a value up to this magnitude as zero, the float32 number nearest to 1e-35.
ZERO = float(np.float32(1e-35))


@dataclass(frozen=True)
class Condition:
    """A test of one feature. It is true for x <= `threshold` or, with `categories`, for members (or for all others)."""

    feature: int
    threshold: float = 0.0
    missing: bool = False  #: result for a missing value
    zero: bool | None = None  #: result for a value near zero, if zeros count as missing
    categories: tuple[float, ...] | None = None  #: sorted members; None for a comparison
    member: bool = True  #: result for a member of `categories`; other values have the opposite result

    def order(self) -> tuple[Any, ...]:
        """Returns the key by which conditions are sorted."""
        zero = -1 if self.zero is None else int(self.zero)
        return (
            self.feature,
            self.categories is not None,
            self.threshold,
            self.categories or (),
            self.missing,
            zero,
            self.member,
        )

    def results(self, x: Floats, cast: str) -> Bools:
        """Returns the results for values [count] of the feature. NaN is missing."""
        missing = np.isnan(x)
        if self.categories is None:
            found = x <= self.threshold
        else:
            whole = np.trunc(x) if cast == "truncate" else np.floor(x) if cast == "floor" else x
            found = np.isin(whole, np.array(self.categories)) == self.member
        if self.zero is not None:
            found = np.where(np.abs(x) <= ZERO, self.zero, found)
        return np.asarray(np.where(missing, self.missing, found), dtype=np.bool_)


@dataclass(frozen=True)
class Tree:
    """A tree. Node 0 is the root. A node with `left` -1 is a leaf; the others go left if their condition is true."""

    condition: Ints  #: [nodes], numbers of conditions; 0 for a leaf
    left: Ints
    right: Ints
    values: Floats  #: [nodes, outputs], or [nodes, 1] of the output `column`; zeros for inner nodes
    column: int | None = None  #: the only output with values

    def dense(self, outputs: int) -> Floats:
        """Returns the values [nodes, outputs]."""
        if self.column is None:
            return self.values
        found = np.zeros((len(self.values), outputs))
        found[:, self.column] = self.values[:, 0]
        return found

    def row(self, node: int, outputs: int) -> Floats:
        """Returns the values [outputs] of a node."""
        if self.column is None:
            return np.asarray(self.values[node])
        found = np.zeros(outputs)
        found[self.column] = self.values[node, 0]
        return found

    def places(self, bits: Bools) -> Ints:
        """Returns the leaf of each sample [count] for results of conditions [count, conditions]."""
        node = np.zeros(len(bits), dtype=np.int64)
        rows = np.arange(len(bits))
        while True:
            inner = self.left[node] >= 0
            if not inner.any():
                return node
            down = np.where(bits[rows, self.condition[node]], self.left[node], self.right[node])
            node = np.where(inner, down, node)

    def paths(self) -> list[tuple[int, tuple[tuple[int, bool], ...]]]:
        """Returns each reachable leaf with its literals (condition, result), without repetitions."""
        found: list[tuple[int, tuple[tuple[int, bool], ...]]] = []
        stack: list[tuple[int, dict[int, bool]]] = [(0, {})]
        while stack:
            node, known = stack.pop()
            if self.left[node] < 0:
                found.append((node, tuple(sorted(known.items()))))
                continue
            condition = int(self.condition[node])
            for child, result in ((int(self.right[node]), False), (int(self.left[node]), True)):
                if known.get(condition, result) == result:
                    stack.append((child, {**known, condition: result}))
        return found


@dataclass(frozen=True)
class Ensemble:
    """A model of trees. Its values are `base` plus the values of one leaf of each tree."""

    name: str
    features: int
    names: tuple[str, ...]  #: names of the columns; empty if the model was fitted without names
    conditions: tuple[Condition, ...]
    trees: tuple[Tree, ...]
    base: Floats  #: [outputs]
    output: Output
    classes: npt.NDArray[Any] | None
    single: bool  #: whether features are rounded to float32
    cast: str = ""  #: rounding of categories: "" (none), "truncate" or "floor"
    missing: float = float("nan")  #: value that is missing, besides NaN
    accepts_missing: tuple[bool, ...] = ()  #: for each feature, whether it may be missing; empty: all may

    @property
    def outputs(self) -> int:
        """Number of values of a sample."""
        return len(self.base)

    @property
    def leaves(self) -> int:
        """Number of leaves of all trees."""
        return sum(int((tree.left < 0).sum()) for tree in self.trees)

    @property
    def depth(self) -> int:
        """Largest number of different conditions on a path."""
        return max((len(path) for tree in self.trees for _, path in tree.paths()), default=0)

    @property
    def largest(self) -> float:
        """Largest magnitude of a leaf, or of the base value if there is no leaf above 0."""
        leaves = max((float(np.abs(tree.values).max(initial=0)) for tree in self.trees), default=0.0)
        return leaves or float(np.abs(self.base).max(initial=0)) or 1.0

    def prepared(self, x: Floats) -> Floats:
        """Returns features [count, features] as the library compares them: rounded, and NaN for missing values."""
        if not np.isnan(self.missing):
            x = np.where(x == self.missing, np.nan, x)
        if self.single:
            with np.errstate(over="ignore"):
                x = x.astype(np.float32).astype(np.float64)
        return np.asarray(x, dtype=np.float64)

    def bits(self, x: Floats) -> Bools:
        """Returns the results of the conditions [count, conditions] for features [count, features]."""
        x = self.prepared(x)
        found = np.zeros((len(x), len(self.conditions)), dtype=np.bool_)
        for number, condition in enumerate(self.conditions):
            found[:, number] = condition.results(x[:, condition.feature], self.cast)
        return found

    def values(self, bits: Bools) -> Floats:
        """Returns the values [count, outputs] for results of conditions [count, conditions]."""
        total = np.tile(self.base, (len(bits), 1))
        for tree in self.trees:
            found = tree.values[tree.places(bits)]
            if tree.column is None:
                total += found
            else:
                total[:, tree.column] += found[:, 0]
        return total


class Builder:
    """Collects the trees of a file or an estimator, and checks them. `where` in errors names the tree."""

    def __init__(self, name: str, features: Any, outputs: Any) -> None:
        self.name = name
        self.features = whole(features, f"the number of features of {name}", 1, MOST_FEATURES)
        self.outputs = whole(outputs, f"the number of outputs of {name}", 1, MOST_OUTPUTS)
        self._numbers: dict[Condition, int] = {}
        self._trees: list[Tree] = []
        self._nodes = self._values = 0

    def condition(self, condition: Condition, where: str) -> int:
        """Returns the number of a condition, the same one for equal conditions. Raises ModelError."""
        if not 0 <= condition.feature < self.features:
            raise ModelError(f"cannot read {where}: a feature must be 0 to {self.features - 1}, got {condition.feature}")
        if np.isnan(condition.threshold):
            raise ModelError(f"cannot read {where}: a threshold must be a number, got NaN")
        condition = replace(condition, threshold=condition.threshold + 0.0)  # -0.0 equals 0.0
        return self._numbers.setdefault(condition, len(self._numbers))

    def add(self, condition: Any, left: Any, right: Any, values: Any, where: str, column: int | None = None) -> None:
        """Adds a tree with values [nodes, outputs], or [nodes, 1] of the output `column`. A `left` below 0 marks a leaf.

        Raises ModelError for cycles, wrong children and values, and for more than 2^20 nodes or 2^26 values.
        """
        tree = checked_tree(condition, left, right, values, where, column)
        self._values += tree.values.size
        if self._values > MOST_VALUES:
            raise ModelError(f"cannot read {where}: the leaves of all trees must have at most {MOST_VALUES:,} values")
        self._nodes += len(tree.left)
        if self._nodes > MOST_NODES:
            raise ModelError(f"cannot read {where}: all trees together must have at most {MOST_NODES:,} nodes")
        self._trees.append(tree)

    def made(self, base: Any, output: Output, classes: Any, *, single: bool, **more: Any) -> Ensemble:
        """Returns the ensemble, with sorted conditions."""
        base = np.asarray(base, dtype=np.float64)
        if base.shape != (self.outputs,) or not (np.abs(base) < _LARGEST).all():
            raise ModelError(f"cannot read {self.name}: its base must be {self.outputs} finite numbers, got {base.tolist()}")
        given = more.pop("names", None)
        names = () if given is None else tuple(str(name) for name in given)
        if len(names) not in (0, self.features):
            raise ModelError(
                f"cannot read {self.name}: it must have {self.features} feature names or none, got {len(names)}"
            )
        made = Ensemble(
            self.name, self.features, names, tuple(self._numbers), tuple(self._trees), base, output, classes, single, **more
        )
        return sorted_conditions(made)


def whole(value: Any, what: str, least: int, most: int) -> int:
    """Returns an integer of a model, also from a string. Raises ModelError."""
    try:
        number = int(str(value)) if isinstance(value, str) else int(value)
        right = not isinstance(value, bool) and number == (float(value) if not isinstance(value, str) else number)
    except (TypeError, ValueError, OverflowError):
        right, number = False, 0
    if not right or not least <= number <= most:
        raise ModelError(f"{what} must be an integer from {least} to {most}, got {str(value)[:40]!r}")
    return number


def require_codes(categories: Any, column: str, name: str) -> None:
    """Raises ModelError unless the categories of a pandas column are the numbers 0, 1, ..., which are their codes.

    Trees compare codes, and samples hold the categories themselves.
    """
    right = isinstance(categories, list) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) and value == code
        for code, value in enumerate(categories)
    )
    if not right:
        shown = ", ".join(map(str, categories[:5])) if isinstance(categories, list) else "no list"
        raise ModelError(
            f"cannot compile {name}: the categories of {column} must be the numbers 0, 1, ... in this order, got "
            f"{shown[:80]}; train on the codes of this column (column.cat.codes), and send codes"
        )


def checked_tree(condition: Any, left: Any, right: Any, values: Any, where: str, column: int | None = None) -> Tree:
    """Returns the reachable nodes in the order of a breadth-first walk from node 0. Raises ModelError."""
    condition, left, right = (np.asarray(one, dtype=np.int64) for one in (condition, left, right))
    values = np.asarray(values, dtype=np.float64)
    count = len(left)
    if not count or len(right) != count or len(condition) != count or values.ndim != 2 or len(values) != count:
        raise ModelError(f"cannot read {where}: it must have a node, and children, conditions and values for each node")
    number, order, depth = {0: 0}, [0], {0: 0}
    for node in order:
        if left[node] < 0:
            continue
        for child in (int(left[node]), int(right[node])):
            if not 0 <= child < count:
                raise ModelError(f"cannot read {where}: a child of node {node} must be 0 to {count - 1}, got {child}")
            if child in number:
                raise ModelError(f"cannot read {where}: node {child} must have one parent, but node {node} is another one")
            number[child], depth[child] = len(order), depth[node] + 1
            order.append(child)
            if depth[child] > 4 * MOST_DEPTH:
                raise ModelError(f"cannot read {where}: its depth must be at most {4 * MOST_DEPTH}")
    is_leaf = left[order] < 0
    kept = np.where(is_leaf[:, None], values[order], 0.0)
    if not (np.abs(kept) < _LARGEST).all():
        raise ModelError(f"cannot read {where}: the values of its leaves must be finite numbers")
    children = [
        np.array([-1 if leaf else number[int(side[node])] for node, leaf in zip(order, is_leaf, strict=True)])
        for side in (left, right)
    ]
    return Tree(np.where(is_leaf, 0, condition[order]), children[0], children[1], kept, column)


def sorted_conditions(ensemble: Ensemble) -> Ensemble:
    """Returns an ensemble with used and different conditions only, sorted by feature and threshold."""
    used = {int(c) for tree in ensemble.trees for c, child in zip(tree.condition, tree.left, strict=True) if child >= 0}
    kept = sorted({ensemble.conditions[number] for number in used}, key=Condition.order)
    places = {condition: place for place, condition in enumerate(kept)}
    moved = np.array([places.get(condition, 0) for condition in ensemble.conditions] or [0], dtype=np.int64)
    trees = tuple(replace(tree, condition=np.where(tree.left < 0, 0, moved[tree.condition])) for tree in ensemble.trees)
    return replace(ensemble, conditions=tuple(kept), trees=trees)


def without_missing(ensemble: Ensemble, accepts: Iterable[bool]) -> Ensemble:
    """Returns an ensemble that refuses missing values of some features. Conditions that differ only for these are merged."""
    accepts = tuple(bool(one) for one in accepts)
    merged = tuple(
        condition if accepts[condition.feature] else replace(condition, missing=False) for condition in ensemble.conditions
    )
    return sorted_conditions(replace(ensemble, conditions=merged, accepts_missing=accepts))


def below(threshold: Any) -> float:
    """Returns the largest float32 number below a threshold: x < threshold if and only if x <= it, for float32 x."""
    return float(np.nextafter(np.float32(threshold), np.float32(-np.inf)))


def at_most(threshold: Any) -> float:
    """Returns the largest float32 number that is not above a float64 threshold."""
    with np.errstate(over="ignore"):
        near = np.float32(threshold)
    return float(near) if float(near) <= float(threshold) else below(near)
