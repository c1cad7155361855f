"""Products of conditions, for many rows: a plan of exact integer operations by BGV, with a row in each slot.

The bit of each condition is a ciphertext. The indicator of a node is 1 in the rows that reach the node. The indicator of a
left child is a product of its parent's and a bit; the right child has the rest. Indicators of leaves times integer values
are summed. Values are integers in digits, so that each sum fits the plaintext modulus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from heliograph.ml.errors import ModelError
from heliograph.ml.trees.ensemble import Ensemble, Floats, Ints, Tree

MODULUS = 65537
_VALUE_BITS = 21  #: bits of a value below the largest leaf, before the sum over trees
_CHAINED_DEPTH = 4  #: deeper trees take balanced products, of fewer levels

#: A value is ("bit", condition), ("product", a, b) or ("difference", a, b). The constant 1 is `None`.
Value = Any


@dataclass(frozen=True)
class Step:
    """Values made at once: products, products that are only summed ("last"), differences, or complements 1 - a."""

    kind: str
    left: Ints  #: numbers of the first operands
    right: Ints  #: numbers of the second operands; empty for complements


@dataclass(frozen=True)
class Plan:
    """Operations on values, which are numbered: bits, then those of each step."""

    conditions: int
    steps: tuple[Step, ...]
    weights: tuple[
        tuple[Ints, Ints], ...
    ]  #: for bits and each step: places of values, and weights [outputs * digits, places]
    constants: Ints  #: [outputs * digits], added to the sums
    digits: int
    base: int
    unit: float  #: value of 1 in the lowest digit
    outputs: int
    levels: int  #: successive products

    @property
    def products(self) -> int:
        """Number of ciphertext products."""
        return sum(len(step.left) for step in self.steps if step.kind in ("product", "last"))

    def decoded(self, sums: Any) -> Floats:
        """Returns the values [count, outputs] of sums [outputs * digits, count] modulo the plaintext modulus."""
        return decoded(sums, self.outputs, self.digits, self.base, self.unit)

    def run(self, bits: Any, *, multiply: Any, relinearize: Any, weigh: Any, join: Any) -> Any:
        """Returns the sums [outputs * digits] of values [conditions].

        `weigh(weights, values, constants)` is a product of a clear matrix and values, plus constants or None.
        """
        pool, starts = [bits], [0, self.conditions]
        for step in self.steps:
            left = self._taken(pool, starts, step.left, join)
            if step.kind == "complement":
                made = 1 - left
            else:
                right = self._taken(pool, starts, step.right, join)
                made = left - right if step.kind == "difference" else multiply(left, right)
                made = relinearize(made) if step.kind == "product" else made
            pool.append(made)
            starts.append(starts[-1] + len(step.left))
        total, constants = None, self.constants
        for part, (places, weights) in zip(pool, self.weights, strict=True):
            if len(places):
                term = weigh(
                    weights, part if len(places) == len(part) else part[places], constants if total is None else None
                )
                total = term if total is None else total + term
        if total is None:  # no condition: the sums are constants
            total = weigh(np.zeros((len(constants), len(bits)), dtype=np.int64), bits, constants)
        return relinearize(total)

    @staticmethod
    def _taken(pool: list[Any], starts: list[int], numbers: Ints, join: Any) -> Any:
        """Returns the values with these numbers, from the tensors of the pool."""
        source = np.searchsorted(starts[1:], numbers, side="right")
        ends = [*(np.flatnonzero(np.diff(source)) + 1).tolist(), len(numbers)]
        pieces, at = [], 0
        for end in ends:
            pieces.append(pool[source[at]][numbers[at:end] - starts[source[at]]])
            at = end
        return pieces[0] if len(pieces) == 1 else join(pieces)


def decoded(sums: Any, outputs: int, digits: int, base: int, unit: float) -> Floats:
    """Returns the values [count, outputs] of sums [outputs * digits, count] modulo the plaintext modulus."""
    found = _centred(np.asarray(sums, dtype=np.int64)).astype(np.float64)
    scale = float(base) ** np.arange(digits)
    return np.asarray((found.reshape(outputs, digits, -1) * scale[:, None]).sum(1).T * unit)


def plan_of(ensemble: Ensemble) -> Plan:
    """Returns the plan of an ensemble. Raises ModelError for too many trees."""
    count = max(len(ensemble.trees), 1)
    if count + 1 > MODULUS // 4:
        raise ModelError(f"cannot compile {ensemble.name} for many rows: it must have fewer than {MODULUS // 4} trees")
    base = 1 << int(math.log2(MODULUS // (count + 1)))
    unit = ensemble.largest * 2.0 ** -(_VALUE_BITS + math.ceil(math.log2(count)))
    largest = max(
        [float(np.abs(tree.values).max(initial=0)) for tree in ensemble.trees] + [float(np.abs(ensemble.base).max())]
    )
    digits = 1
    while base**digits // 2 <= largest / unit + 1:
        digits += 1
    balanced = max((tree_height(tree, 0) for tree in ensemble.trees), default=0) > _CHAINED_DEPTH
    weights: dict[Value, Ints] = {None: _digits(ensemble.base / unit, base, digits)}
    for tree in ensemble.trees:
        for leaf, value in _indicators(tree, 0, tree_height(tree, 0), balanced):
            _weigh(weights, value, _digits(tree.row(leaf, ensemble.outputs) / unit, base, digits))
    constants = weights.pop(None)
    steps, groups, levels = _ordered(weights, len(ensemble.conditions))
    found = []
    for group in groups:
        places = [place for place, value in enumerate(group) if value in weights and weights[value].any()]
        columns = [_centred(weights[group[place]]) for place in places]
        rows = np.stack(columns, axis=1) if columns else np.zeros((len(constants), 0), dtype=np.int64)
        found.append((np.array(places, dtype=np.int64), np.ascontiguousarray(rows)))
    return Plan(
        len(ensemble.conditions), steps, tuple(found), _centred(constants), digits, base, unit, ensemble.outputs, levels
    )


def _digits(values: Floats, base: int, digits: int) -> Ints:
    """Returns the signed digits [outputs * digits] of rounded values [outputs], lowest first."""
    rest = [round(float(value)) for value in values]
    found = np.zeros((len(rest), digits), dtype=np.int64)
    for place in range(digits):
        for row, value in enumerate(rest):
            digit = (value + base // 2) % base - base // 2 if place + 1 < digits else value
            found[row, place], rest[row] = digit, (value - digit) // base
    return found.reshape(-1)


def _centred(values: Ints) -> Ints:
    """Returns residues modulo the plaintext modulus, about 0."""
    return np.asarray((values + MODULUS // 2) % MODULUS - MODULUS // 2, dtype=np.int64)


def tree_height(tree: Tree, node: int) -> int:
    """Returns the largest number of conditions from a node to a leaf."""
    height, layer = 0, [node]
    while True:
        layer = [int(c) for n in layer if tree.left[n] >= 0 for c in (tree.left[n], tree.right[n])]
        if not layer:
            return height
        height += 1


def _indicators(tree: Tree, node: int, height: int, balanced: bool) -> list[tuple[int, Value]]:
    """Returns the nodes `height` conditions below a node, and leaves above, with their indicators relative to the node."""
    if tree.left[node] < 0 or height == 0:
        return [(node, None)]
    if height == 1:
        bit = ("bit", int(tree.condition[node]))
        return [(int(tree.left[node]), bit), (int(tree.right[node]), ("difference", None, bit))]
    upper = 1 << (height - 1).bit_length() - 1 if balanced else height - 1
    found: list[tuple[int, Value]] = []
    for middle, above in _indicators(tree, node, upper, balanced):
        below = _indicators(tree, middle, height - upper, balanced)
        rest = above
        for end, value in below[:-1]:
            product = value if above is None else ("product", *sorted((above, value), key=repr))
            found.append((end, product))
            rest = ("difference", rest, product)
        found.append((below[-1][0], rest))
    return found


def _weigh(weights: dict[Value, Ints], value: Value, amount: Ints) -> None:
    """Adds weights to a value. A difference passes them to its operands."""
    while value is not None and value[0] == "difference":
        _weigh(weights, value[2], -amount)
        value = value[1]
    weights[value] = weights.get(value, np.zeros_like(amount)) + amount


def _ordered(weights: dict[Value, Ints], conditions: int) -> tuple[tuple[Step, ...], list[list[Value]], int]:
    """Returns the steps that make the weighted values, the values of each step, and the levels."""
    ranks: dict[Value, tuple[int, int]] = {}  # level of products, and place of differences in a level
    operands: set[Value] = set()
    stack = [value for value in weights if value[0] != "bit"]
    while stack:
        value = stack[-1]
        inner = [one for one in value[1:] if one is not None and one[0] != "bit"]
        todo = [one for one in inner if one not in ranks]
        if todo:
            stack += todo
            continue
        stack.pop()
        operands.update(inner)
        below = [ranks[one] for one in inner] or [(0, 0)]
        level = max(rank[0] for rank in below)
        if value[0] == "product":
            ranks[value] = (level + 1, 0)
        else:
            ranks[value] = (level, 1 + max(rank[1] for rank in below if rank[0] == level))
    grouped: dict[tuple[Any, ...], list[Value]] = {}
    for value, (level, place) in ranks.items():
        kind = "product" if value in operands else "last"
        if value[0] == "difference":
            kind = "complement" if value[1] is None else "difference"
        grouped.setdefault((level, place, kind), []).append(value)
    numbers: dict[Value, int] = {("bit", place): place for place in range(conditions)}
    groups = [list(numbers)]
    steps = []
    for (_, _, kind), values in sorted(grouped.items()):
        first, second = (1, 2) if kind != "complement" else (2, 2)
        values.sort(key=lambda value: (numbers[value[first]], numbers[value[second]]))
        left = np.array([numbers[value[first]] for value in values], dtype=np.int64)
        right = np.array([numbers[value[second]] for value in values], dtype=np.int64)
        steps.append(Step(kind, left, right))
        for value in values:
            numbers[value] = len(numbers)
        groups.append(values)
    return tuple(steps), groups, max((rank[0] for rank in ranks.values()), default=0)
