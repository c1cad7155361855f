"""Products of attention as sums of products of rotated ciphertexts, and their layouts.

Both operands have the tokens outermost, so that a rotation turns all tokens. With `width` places for a head, queries
q[i, h, f] and scores y[s, h, i] share the places of token i and head h: feature f, and diagonal s = width * a + g in
block a of ciphertexts at place g. Then

- scores: y_a[i, h, g] = sum over t of q[i, h, g + t] k[i + width a + g, h, g + t];
- values: y[i, h, f] = sum over a and t of w_a[i, h, f + t] v[i + width a + f + t, h, f].

For each t, the first factor is q or w rotated by t places, times a mask of 0 and 1. The second factor is a rotation of one
skewed tensor, in which feature f is rotated by f tokens. All rotations of a tensor share one decomposition, and a sum of
products has one relinearization.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Shape
from heliograph.ml.networks.diagonals import Diagonals, made_of
from heliograph.ml.networks.layouts import Digits, Layout
from heliograph.ml.networks.terms import Floats

OPERATIONS = ("attention_scores", "attention_values")  #: operations of canonical graphs that become sums of products


def is_direct(lead: Shape, count: int) -> bool:
    """Tells whether attention with axes `lead` before its tokens can be such a sum: the number of tokens is a power of two.

    >>> is_direct((1, 12), 128), is_direct((12,), 100)
    (True, False)
    """
    return count & (count - 1) == 0 and sum(size > 1 for size in lead) <= 1


@dataclass(frozen=True)
class Heads:
    """Places of the operands of attention.

    >>> heads = Heads((12,), 128, 32, 1 << 15, 256)
    >>> heads.blocks, heads.ciphertexts
    (4, 2)
    """

    lead: Shape  #: axes before the tokens; at most one of them is longer than 1: the heads
    count: int  #: number of tokens, a power of two
    width: int  #: places of a head, a power of two
    slots: int
    distance: int = 0  #: distance of tokens in slots

    @property
    def inner(self) -> int:
        """Diagonals of the scores in one block of ciphertexts."""
        return min(self.count, self.width)

    @property
    def blocks(self) -> int:
        """Blocks of ciphertexts of the scores."""
        return self.count // self.inner

    @property
    def ciphertexts(self) -> int:
        """Ciphertexts of queries, keys or values."""
        return -(-math.prod(self.lead) * self.width // self.distance)

    @property
    def period(self) -> int:
        """Slots with which each ciphertext repeats."""
        return self.distance * self.count

    def require(self) -> None:
        """Raises ModelError if a head has more places than there are slots for a token."""
        if self.width > self.slots // self.count:
            raise ModelError(
                f"cannot compile attention over {self.count} tokens with heads of more than {self.slots // self.count} "
                f"features: each token has only {self.slots // self.count} of the {self.slots:,} slots; use shorter "
                "sequences or smaller heads"
            )

    def _lead(self) -> tuple[Digits, ...]:
        per, heads = self.distance // self.width, math.prod(self.lead)
        own: Digits = ((heads, self.width),) if heads <= per else ((per, self.width), (self.ciphertexts, self.slots))
        return tuple(own if size > 1 else ((1, 1),) for size in self.lead)

    def operand(self, features: int) -> Layout:
        """Returns the layout of queries, keys or values [*lead, count, features]."""
        digits = (*self._lead(), ((self.count, self.distance),), ((features, 1),))
        period = self.period if self.ciphertexts == 1 else self.ciphertexts * self.slots
        return Layout((*self.lead, self.count, features), digits, period, self.slots)

    def scores(self) -> Layout:
        """Returns the layout of scores [count, *lead, count]."""
        outer = ((self.blocks, self.ciphertexts * self.slots),) if self.blocks > 1 else ()
        digits = (((self.inner, 1), *outer), *self._lead(), ((self.count, self.distance),))
        total = self.blocks * self.ciphertexts
        period = self.period if total == 1 else total * self.slots
        return Layout((self.count, *self.lead, self.count), digits, period, self.slots)


@dataclass(frozen=True)
class Contraction:
    """The steps of one product of attention."""

    blocks: int  #: blocks of ciphertexts of the scores
    versions: tuple[int, ...]  #: rotations of the first factor; an output sums over them
    masks: Floats = field(repr=False)  #: factors 0 and 1 of these for the places of a head [versions, width]
    skew: Diagonals  #: turns feature f of the second factor by f tokens
    steps: tuple[tuple[int, ...], ...]  #: rotations of the skewed factor, for each block and version
    sums_blocks: bool  #: whether blocks are summed (values), instead of results of their own (scores)
    terms: int  #: largest number of products that one result sums

    @property
    def rotations(self) -> tuple[int, ...]:
        """Different rotations of the skewed factor."""
        return tuple(sorted({step for steps in self.steps for step in steps} - {0}))

    def interleaved(self, share: int) -> Contraction:
        """Returns the same product for `share` interleaved samples."""
        return replace(
            self,
            versions=tuple(step * share for step in self.versions),
            masks=np.repeat(self.masks, share, axis=1),
            skew=self.skew.interleaved(share),
            steps=tuple(tuple(step * share for step in steps) for steps in self.steps),
        )


def contraction_of(heads: Heads, features: int, sums_blocks: bool) -> Contraction:
    """Returns the steps of scores, or of values with `sums_blocks`, for heads of `features` features.

    >>> made = contraction_of(Heads((12,), 128, 32, 1 << 15, 256), 32, False)
    >>> len(made.versions), len(made.rotations)
    (63, 251)
    """
    # Places of the result that are used, and places of the first factor.
    results, sources = (features, heads.inner) if sums_blocks else (heads.inner, features)
    period, place = heads.period, np.arange(heads.width)
    versions = range(1 - results, sources)
    masks = [(place < results) & (place + t >= 0) & (place + t < sources) for t in versions]
    steps = []
    for a in range(heads.blocks):
        tokens = [heads.inner * a + (t if sums_blocks else -t) for t in versions]
        places = [0 if sums_blocks else t for t in versions]
        steps.append(tuple((heads.distance * i + p) % period for i, p in zip(tokens, places, strict=True)))
    every = np.arange(features)
    numbers = every * heads.distance % period
    skew = made_of(np.unique(numbers), period, (), lambda: iter([(numbers, every, np.ones(features))]), heads.width)
    terms = heads.count if sums_blocks else features
    turned = tuple(t % period for t in versions)
    return Contraction(heads.blocks, turned, np.array(masks, dtype=np.float64), skew, tuple(steps), sums_blocks, terms)
