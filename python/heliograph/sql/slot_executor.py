"""A query on the indicators of some blocks of rows: products and sums of BGV or BFV ciphertexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from heliograph import _core
from heliograph._common.functions import dot, relinearize
from heliograph._common.functions import sum as total_of
from heliograph.exact import Tensor, encode
from heliograph.sql.slot_layout import Part
from heliograph.sql.slot_plan import ROWS, Linear, Plan, Total

_ALL_ROWS: Linear = ((ROWS, 1),)


class BlockSums:
    """A query on some blocks of rows. `read` returns the vectors of the query's blocks or rows. Results are dropped after
    their last use.

    """

    def __init__(self, plan: Plan, blocks: range, load: Callable[[Part], Tensor]) -> None:
        self._plan, self._blocks, self._load = plan, blocks, load
        self._masks: dict[Linear, Tensor] = {}  # relinearized masks
        self._nodes: dict[int, Tensor] = {}
        self._limbs: dict[Part, Tensor] = {}
        self._uses: Counter[Linear] = Counter()
        self._node_uses: Counter[int] = Counter()
        for node in plan.graph.nodes:
            if isinstance(node, tuple):
                self._uses.update(node)
        self._uses.update(t.mask for t in plan.aggregates)
        for linear in self._uses:
            self._node_uses.update(node for node, _ in linear)

    def add_to(self, sums: dict[tuple[int, int], Tensor]) -> None:
        """Adds the sums of these blocks of rows to those of other blocks, by total and by group of blocks that share a
        ciphertext.
        """
        for number, aggregate in enumerate(self._plan.aggregates):
            for stretch, tensor in self._sums(aggregate):
                key = number, stretch
                sums[key] = sums[key] + tensor if key in sums else tensor

    def _sums(self, aggregate: Total) -> Iterator[tuple[int, Tensor]]:
        """Yields the sum of each stretch of blocks that shares one ciphertext."""
        mask = None if aggregate.mask == _ALL_ROWS else self._mask(aggregate.mask, aggregate.part is not None)
        values = None if aggregate.part is None else self._values(aggregate.part)
        start = self._blocks.start
        while start < self._blocks.stop:
            stretch = start // aggregate.together
            stop = min(self._blocks.stop, (stretch + 1) * aggregate.together)
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
            self._limbs[part] = self._load(part)
        return self._limbs[part]

    def _mask(self, linear: Linear, factor: bool) -> Tensor:
        """Returns a linear combination of nodes; as a factor of a product, the combination is relinearized only once."""
        if linear in self._masks:
            mask = self._masks[linear]
        else:
            mask = self._summed(linear)
            for node, _ in linear:
                self._node_uses[node] -= 1
                if not self._node_uses[node]:
                    self._nodes.pop(node, None)
        if factor and mask.degree > 1:
            mask = relinearize(mask)
        self._uses[linear] -= 1
        if self._uses[linear]:
            self._masks[linear] = mask
        else:
            self._masks.pop(linear, None)
        return mask

    def _summed(self, linear: Linear) -> Tensor:
        total: Tensor | None = None
        constant = 0
        for node, factor in linear:
            if node == ROWS:
                constant = factor
                continue
            one = self._node(node)
            if total is None:
                total = one if factor == 1 else -one if factor == -1 else one * factor
            else:
                total = total + one if factor == 1 else total - one if factor == -1 else total + one * factor
        if total is None:
            raise _core.InternalError("a linear combination must have at least one vector")
        return self._plus_rows(total, constant) if constant else total

    def _plus_rows(self, tensor: Tensor, constant: int) -> Tensor:
        """Adds a constant in each row of the table. Slots after the last row stay 0."""
        layout = self._plan.layout
        slots = layout.parameters.slots
        if self._blocks.stop * slots <= layout.rows:
            return tensor + constant
        rows = np.arange(self._blocks.start * slots, self._blocks.stop * slots) < layout.rows
        return tensor + encode(layout.parameters, constant * rows.reshape(-1, slots).astype(np.int64))

    def _node(self, node: int) -> Tensor:
        if node not in self._nodes:
            what = self._plan.graph.nodes[node]
            if isinstance(what, Part):
                self._nodes[node] = self._load(what)
            else:
                assert what is not None
                a, b = (self._mask(linear, True) for linear in what)
                self._nodes[node] = a * b
        return self._nodes[node]
