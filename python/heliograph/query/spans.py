"""A query on the indicators of some blocks of rows: products and sums of BGV's or BFV's ciphertexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from heliograph import _core
from heliograph.exact import Tensor, encode
from heliograph.functions import dot, relinearize
from heliograph.functions import sum as total_of
from heliograph.query.layout import Part
from heliograph.query.plan import ROWS, Linear, Plan, Total

_EVERY: Linear = ((ROWS, 1),)


class Span:
    """A query on some blocks of rows, whose vectors `read` gives. What is computed is forgotten at its last use."""

    def __init__(self, plan: Plan, blocks: range, read: Callable[[Part], Tensor]) -> None:
        self._plan, self._blocks, self._read = plan, blocks, read
        self._masks: dict[Linear, Tensor] = {}  # of degree one
        self._nodes: dict[int, Tensor] = {}
        self._limbs: dict[Part, Tensor] = {}
        self._uses: Counter[Linear] = Counter()
        self._node_uses: Counter[int] = Counter()
        for node in plan.graph.nodes:
            if isinstance(node, tuple):
                self._uses.update(node)
        self._uses.update(t.mask for t in plan.asked)
        for linear in self._uses:
            self._node_uses.update(node for node, _ in linear)

    def add_to(self, sums: dict[tuple[int, int], Tensor]) -> None:
        """This span's sums to those of the others: by total, and by which stretch of blocks."""
        for number, asked in enumerate(self._plan.asked):
            for stretch, made in self._sums(asked):
                key = number, stretch
                sums[key] = sums[key] + made if key in sums else made

    def _sums(self, asked: Total) -> Iterator[tuple[int, Tensor]]:
        """Of each stretch of blocks that goes into one ciphertext."""
        mask = None if asked.mask == _EVERY else self._mask(asked.mask, asked.part is not None)
        values = None if asked.part is None else self._values(asked.part)
        start = self._blocks.start
        while start < self._blocks.stop:
            stretch = start // asked.together
            stop = min(self._blocks.stop, (stretch + 1) * asked.together)
            at = slice(start - self._blocks.start, stop - self._blocks.start)
            if mask is None or values is None:
                one = values if mask is None else mask
                assert one is not None
                yield stretch, total_of(one[at], 0)
            else:
                yield stretch, dot(mask[at], values[at])
            start = stop

    def _values(self, part: Part) -> Tensor:
        if part not in self._limbs:
            self._limbs[part] = self._read(part)
        return self._limbs[part]

    def _mask(self, linear: Linear, factor: bool) -> Tensor:
        """A sum of nodes; as a factor of degree one, so that it is relinearized once."""
        if linear in self._masks:
            made = self._masks[linear]
        else:
            made = self._summed(linear)
            for node, _ in linear:
                self._node_uses[node] -= 1
                if not self._node_uses[node]:
                    self._nodes.pop(node, None)
        if factor and made.degree > 1:
            made = relinearize(made)
        self._uses[linear] -= 1
        if self._uses[linear]:
            self._masks[linear] = made
        else:
            self._masks.pop(linear, None)
        return made

    def _summed(self, linear: Linear) -> Tensor:
        found: Tensor | None = None
        constant = 0
        for node, factor in linear:
            if node == ROWS:
                constant = factor
                continue
            one = self._node(node)
            if found is None:
                found = one if factor == 1 else -one if factor == -1 else one * factor
            else:
                found = found + one if factor == 1 else found - one if factor == -1 else found + one * factor
        if found is None:
            raise _core.InternalError("a sum of no vectors")
        return self._plus_rows(found, constant) if constant else found

    def _plus_rows(self, found: Tensor, constant: int) -> Tensor:
        """Plus a number in each row of the table; what stands behind the rows stays 0."""
        layout = self._plan.layout
        slots = layout.parameters.slots
        if self._blocks.stop * slots <= layout.rows:
            return found + constant
        rows = np.arange(self._blocks.start * slots, self._blocks.stop * slots) < layout.rows
        return found + encode(layout.parameters, constant * rows.reshape(-1, slots).astype(np.int64))

    def _node(self, node: int) -> Tensor:
        if node not in self._nodes:
            what = self._plan.graph.nodes[node]
            if isinstance(what, Part):
                self._nodes[node] = self._read(what)
            else:
                assert what is not None
                a, b = (self._mask(linear, True) for linear in what)
                self._nodes[node] = a * b
        return self._nodes[node]
