"""Tensors of few values in blocks of slots: several ciphertexts share one, so that functions of slots run on fewer.

A block has a power of two of slots. Packing adds ciphertexts that are rotated to their blocks; unpacking rotates back and
clears the slots outside the block.
"""

from __future__ import annotations

import functools
import math

from heliograph._common.functions import concatenate
from heliograph.ckks.automatic import is_automatic, ready
from heliograph.ckks.keys import EvaluationKeys, TrialKeys
from heliograph.ckks.linear import LinearTransform
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.tensor import Tensor


def block_rotations(slots: int, period: int) -> list[int]:
    """Returns the rotations by which functions of order along an axis pack tensors of `slots` values.

    `period` is the number of slots of the set. Blocks have `slots` slots, rounded up to a power of two.

    >>> hg.ckks.block_rotations(100, 1024)
    [128, 256, 512, -128, -256, -512]
    """
    steps = [1 << k for k in range(_log2_size(int(slots)), max(0, int(period).bit_length() - 1))]
    return steps + [-step for step in steps]


def _log2_size(slots: int) -> int:
    return max(0, slots - 1).bit_length()


class Blocks:
    """Blocks for the ciphertexts of a tensor.

    2^k ciphertexts share one, for k steps of rotations. There are no steps, and nothing is packed, without
    `hg.ckks.auto_bootstrap`, because unpacking takes a level; and if the keys lack a rotation.
    """

    def __init__(self, x: Tensor, keys: EvaluationKeys) -> None:
        self.keys, self.width, self.shape, self.count = keys, x.slots, x.shape, math.prod(x.shape)
        first, period = _log2_size(x.slots), x.parameters.period
        halvings = min(period.bit_length() - 1 - first, (self.count - 1).bit_length()) if self.count else 0
        self.steps = [1 << (first + k) for k in range(halvings)]
        if not is_automatic() or not all(self._has(sign * step) for step in self.steps for sign in (1, -1)):
            self.steps = []

    def _has(self, step: int) -> bool:
        return isinstance(self.keys, TrialKeys) or self.keys._core.switches(step) == 1

    def pack(self, x: Tensor) -> Tensor:
        """Returns ceil(count / 2^k) ciphertexts: block i % 2^k of ciphertext i // 2^k has ciphertext i."""
        if not self.steps:
            return x
        x = x.reshape(self.count)
        fill = -self.count % (1 << len(self.steps))
        if fill:
            x = concatenate([x, x[:fill] - x[:fill]])
        for step in self.steps:
            x = x[0::2] + x[1::2].rotate(-step, keys=self.keys)
        return x

    def unpack(self, y: Tensor, factor: float = 1.0) -> Tensor:
        """Returns the ciphertexts that `pack` joined, times a factor. Takes one level, without packing only for a factor.

        Unpacked ciphertexts have zeros outside their values.
        """
        if not self.steps:
            return y if factor == 1 else y * factor
        y = ready(y, 1, self.keys)
        for place in reversed(range(len(self.steps))):
            parts = (y, y.rotate(self.steps[place], keys=self.keys))
            both = concatenate([part.reshape(part.shape[0], 1) for part in parts], 1)
            left = -(-self.count // (1 << place))  # the number of ciphertexts after this rotation
            y = both.reshape(2 * y.shape[0])[:left]
        cleared = y._transformed(_mask(y.parameters, self.width, y.level, factor), self.keys, None)
        return cleared.reshape(self.shape)


@functools.lru_cache(maxsize=8)
def _mask(parameters: Parameters, width: int, level: int, factor: float) -> LinearTransform:
    return LinearTransform._mask(parameters, width, level, factor)
