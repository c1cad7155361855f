"""Extremes, ranks and order of encrypted reals, by comparisons of all pairs or in rounds."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import count_of, described, flag, is_real
from heliograph._common.functions import concatenate
from heliograph._common.matrices import along_axis
from heliograph._common.operations import composite
from heliograph._common.tensor import keys_of
from heliograph.ckks.approximation import (
    Domain,
    domain_of,
    error_bound,
    errors_of,
    inside,
    real_tensor,
    with_errors,
    without_errors,
)
from heliograph.ckks.blocks import Blocks
from heliograph.ckks.comparisons import extreme, gap_of, gap_or_integers, inside_unit, with_approximation
from heliograph.ckks.integers import Method, method_of
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.signs import SignEvaluator, signs_of
from heliograph.ckks.tensor import Tensor

Axis = int | Literal["slots"]


@dataclass(frozen=True)
class _Gap:
    """The smallest distance of two different values; for integers also the method that compares them."""

    size: float
    method: str | None = None

    @staticmethod
    def of(gap: Any, integers: Any, method: Any, what: str, along: int | None = 0) -> _Gap:
        integers = flag(integers, "integers")
        chosen = method_of(method, integers, what)
        if along is None and chosen == "bootstrap":
            raise _core.ParameterError(f'{what}: method="bootstrap" needs an axis of ciphertexts, not axis="slots"')
        return _Gap(gap_or_integers(gap, integers, what), chosen if integers else None)


_TABLE_ERROR = 2.0**-12  #: of a table of ranks
_RANK_ERROR = 2.0**-12  #: of a comparison of two values, divided by the number of values
_MOST_BLOCKS = 256  #: ciphertexts of all pairs of slots
_TOGETHER = 8  #: of these ciphertexts in one call


@composite
def max(
    x: Tensor,
    axis: Axis,
    *,
    error: float,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the largest value along an axis, to `error`, in rounds of `maximum`.

    An axis of ciphertexts is removed. With ``axis="slots"`` every slot holds the largest of all slots; the tensor must fill
    the set's `period`, and keys for the rotations `sum_rotations(period)` are needed. Each round takes the levels of `abs`
    with the error divided by the number of rounds.

    >>> holder.decrypt(hg.ckks.max(w, "slots", error=0.02)).round(1)  # w holds -1, -0.25, 0 and 0.5
    array([0.5, 0.5, 0.5, 0.5])
    """
    return _rounds(x, axis, error, domain, guard, keys, "max")


@composite
def min(
    x: Tensor,
    axis: Axis,
    *,
    error: float,
    domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the smallest value along an axis, to `error`, as `max`.

    >>> holder.decrypt(hg.ckks.min(w, "slots", error=0.02)).round(1)
    array([-1., -1., -1., -1.])
    """
    return _rounds(x, axis, error, domain, guard, keys, "min")


def _rounds(
    x: Any, axis: Any, error: Any, domain: Domain, guard: bool | None, keys: EvaluationKeys | None, what: str
) -> Tensor:
    x, _, _ = domain_of(real_tensor(x, what), domain, what, guard)
    along = along_axis(x, axis)
    wanted = error_bound(error)
    if along is None:
        _require_full(x, what)
        count = x.slots
    else:
        count = x.shape[along]
        x = _first(x, along)
        if count == 0:
            raise _core.ShapeError(f"cannot compute the {what} of no values: the axis has length 0")
    rounds = builtins.max(1, math.ceil(math.log2(count)))
    spent, way = 0.0, 1 if what == "max" else -1

    def larger(a: Tensor, b: Tensor) -> Tensor:
        nonlocal spent
        found, step = extreme(a, b, a - b, wanted / rounds * 0.95, keys, way, what)
        spent = builtins.max(spent, step)
        return found

    if along is None:
        for k in range(rounds):
            x = larger(x, x.rotate(2**k, keys=keys))
    else:
        while x.shape[0] > 1:
            half = x.shape[0] // 2
            best, rest = larger(x[:half], x[half : 2 * half]), x[2 * half :]
            x = concatenate([best, rest.lower(builtins.min(best.level, rest.level))]) if rest.shape[0] else best
        x = x[0]
    return with_approximation(x, spent * rounds, wanted, what)


def _first(x: Tensor, axis: int) -> Tensor:
    """Returns x with an axis moved to the front."""
    if axis == 0:
        return x
    order = (axis, *(i for i in range(x.ndim) if i != axis))
    return x.transpose(*order)


def _require_full(x: Tensor, what: str) -> None:
    period = x.parameters.period
    if x.slots != period:
        raise _core.ShapeError(
            f"{what} along slots needs a tensor that fills the set's {period:,} slots, not {x.slots:,}; append "
            "zeros to the array before encryption, and pass count="
        )


@composite
def argmax(
    x: Tensor, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    one_hot: bool = False, count: int | None = None, domain: Domain = None, guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the index of the largest value along an axis; the first of equal ones.

    Each two values must be equal or at least `gap` apart. If the largest two are closer, the result is a number between
    their indices. ``integers=True`` declares, in place of `gap`, that all values are integers; `method` is as for `sign`,
    and along slots it is "polynomial". With ``one_hot=True`` the axis stays and holds 1 at the index and 0 elsewhere. All
    pairs are compared.

    - An axis of ciphertexts: an index for each slot. n values take n (n - 1) / 2 signs, and n signs of ranks. Inside
      `auto_bootstrap`, ciphertexts of few values share one for these signs, if the keys have the rotations
      `block_rotations(slots, period)`.
    - ``axis="slots"``: the index among the first `count` slots, in every slot. Sizes and keys are those of `sort`.

    Raises the errors of `sign`; ShapeError for an empty axis, ParameterError for a wrong count.

    >>> holder.decrypt(hg.ckks.argmax(hg.stack([w, 0.5 * w, -w]), 0, gap=0.1)).round(2) + 0  # w: -1, -0.25, 0 and 0.5
    array([2., 2., 0., 0.])
    """
    return _arg(x, axis, (gap, integers, method), one_hot, count, domain, guard, keys, "argmax")


@composite
def argmin(
    x: Tensor, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    one_hot: bool = False, count: int | None = None, domain: Domain = None, guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the index of the smallest value along an axis, as `argmax`.

    >>> holder.decrypt(hg.ckks.argmin(hg.stack([w, 0.5 * w, -w]), 0, gap=0.1)).round(2) + 0
    array([0., 0., 0., 2.])
    """
    return _arg(x, axis, (gap, integers, method), one_hot, count, domain, guard, keys, "argmin")


def _arg(
    x: Any, axis: Any, gap: tuple[Any, Any, Any], one_hot: bool, wanted: Any, domain: Domain, guard: bool | None,
    keys: EvaluationKeys | None, what: str,
) -> Tensor:  # fmt: skip
    x, low, high = domain_of(real_tensor(x, what), domain, what, guard)
    along = along_axis(x, axis)
    apart = _Gap.of(*gap, what, along)
    if along is None:
        ends = (x, low, high) if what == "argmax" else (-x, -high, -low)
        return _Pairs(*ends, apart.size, wanted, keys, what).largest(one_hot)
    _require_whole(wanted, what)
    x = _first(x, along)
    count = x.shape[0]
    if count == 0:
        raise _core.ShapeError(f"cannot compute {what} of no values: the axis has length 0")
    if count == 1:
        hot: Tensor = x * 0.0 + 1.0
    else:
        ranks = _ranks(x if what == "argmax" else -x, apart, high - low, keys, what)
        hot = _at_least(ranks, count - 1, count, keys, what)
    if one_hot:
        order = np.argsort([along, *(i for i in range(x.ndim) if i != along)])
        return hot.transpose(*order.tolist())
    places: Tensor = hot * np.arange(count, dtype=float).reshape(-1, *[1] * x.ndim)
    return inside(places.sum(0), -0.5, count - 0.5)


def _ranks(x: Tensor, gap: _Gap, spread: float, keys: EvaluationKeys | None, what: str) -> Tensor:
    """Returns the number of smaller values for each value along the first axis; of equal values the first is the largest."""
    count = x.shape[0]
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    differences = concatenate([x[i : i + 1] - x[j : j + 1] for i, j in pairs])
    error = _RANK_ERROR / count
    blocks = Blocks(differences, keys_of([x], keys, what))
    differences = inside(blocks.pack(differences), -spread, spread)
    half, most = gap.size / 2, spread + (gap.size / 2 if gap.method else gap.size)
    larger = _by_table(differences, -spread, spread, error / 2, most, half, gap.method, keys, what) if gap.method else None
    if larger is not None:
        larger = blocks.unpack(larger - 0.5)
    else:
        shifted = inside(differences + half, -most, most)
        larger = blocks.unpack(_signs(shifted, most, half, error, keys, what, after=1), 0.5)
    ranks = []
    for k in range(count):
        wins = [larger[p : p + 1] if i == k else -larger[p : p + 1] for p, (i, j) in enumerate(pairs) if k in (i, j)]
        ranks.append(concatenate(wins).sum(0).reshape(1, *x.shape[1:]) + (count - 1) / 2)
    return inside(concatenate(ranks), -0.25, count - 0.75)


def _at_least(ranks: Tensor, least: Any, count: int, keys: EvaluationKeys | None, what: str) -> Tensor:
    """Returns 1 for ranks, whole numbers below `count`, of at least `least`, a number or an array, and 0 for others.

    Ranks are integers, so that a functional bootstrap may be the cheaper way.
    """
    error = 2.0**-20
    low, high = -float(np.max(least)), count - 1 - float(np.min(least))
    differences = inside(ranks - least, low - 0.25, high + 0.25)
    blocks = Blocks(differences, keys_of([ranks], keys, what))
    packed = inside(blocks.pack(differences), low - 0.25, high + 0.25)
    found = _by_table(packed, low, high, _TABLE_ERROR, float(count), 0.45, "auto", keys, what)
    if found is not None:
        return inside_unit(blocks.unpack(found), _TABLE_ERROR)
    shifted = inside(packed + 0.5, -float(count), float(count))
    found = blocks.unpack(_signs(shifted, float(count), 0.45, error, keys, what, after=1), 0.5)
    return inside_unit(found + 0.5, error)


def _by_table(
    x: Tensor, low: float, high: float, error: float, largest: float, gap: float, method: str,
    keys: EvaluationKeys | None, what: str,
) -> Tensor | None:  # fmt: skip
    """Returns 1 for integers of at least 0 and 0 for others by a functional bootstrap, if the method takes one."""
    by = SignEvaluator(x, keys, what)
    found = _core.ckks.functions.at_least_0_by_table(by, x, low, high, error, largest, gap, method, what)
    return cast("Tensor | None", found)


def _signs(
    x: Tensor, largest: float, gap: float, error: float, keys: EvaluationKeys | None, what: str, after: int = 0
) -> Tensor:  # fmt: skip
    """Returns signs to about `error`. Their error bounds include that of the composition. `after` is as for `signs_of`."""
    return signs_of(x, largest, gap, error / 0.75, keys, what, after)


@composite
def sort(
    x: Tensor, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    count: int | None = None, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the values in ascending order.

    Each two values must be equal or at least `gap` apart; closer ones may be replaced by a mixture of both. All pairs are
    compared, then each rank with each place. ``integers=True`` declares, in place of `gap`, that all values are integers;
    `method` is as for `sign`, and along slots it is "polynomial".

    - An axis of ciphertexts: each slot is sorted by itself, with n (n - 1) signs for n values. `block_rotations` are as
      for `argmax`.
    - ``axis="slots"``: the first `count` slots of each ciphertext. The tensor must fill the set's `period`. n values take
      the signs of 2 n m / period ciphertexts, where m is n, rounded up to a power of two; n m / period may be up to 256. It
      needs keys for the rotations `sort_rotations(period)`. The results are in the first `count` slots; other slots hold
      copies.

    Raises the errors of `sign`; ShapeError, ParameterError for a wrong count.

    >>> holder.decrypt(hg.ckks.sort(hg.stack([v, w]), 0, gap=0.2)).round(2) + 0
    array([[-1.  , -0.25,  0.  ,  0.5 ],
           [ 0.25,  0.5 ,  1.  ,  2.  ]])
    """
    x, low, high = domain_of(real_tensor(x, "sort"), domain, "sort", guard)
    along = along_axis(x, axis)
    apart = _Gap.of(gap, integers, method, "sort", along)
    if along is None:
        return _Pairs(x, low, high, apart.size, count, keys, "sort").sort()
    _require_whole(count, "sort")
    x = _first(x, along)
    n = x.shape[0]
    return _ordered(x, range(n), low, high, apart, keys, "sort") if n > 1 else x


def _require_whole(count: Any, what: str) -> None:
    if count is not None:
        raise _core.ParameterError(f'{what}: count belongs to axis="slots"; an axis of ciphertexts is taken whole')


@composite
def top_k(
    x: Tensor, k: int, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    count: int | None = None, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the k largest values along an axis, the largest first. With ``axis="slots"`` they are in the first k slots,
    and 0 is in others. The rest is as for `sort`.

    >>> holder.decrypt(hg.ckks.top_k(hg.stack([v, w]), 1, 0, gap=0.2)).round(2)
    array([[0.25, 0.5 , 1.  , 2.  ]])
    """
    x, low, high = domain_of(real_tensor(x, "top_k"), domain, "top_k", guard)
    along = along_axis(x, axis)
    apart = _Gap.of(gap, integers, method, "top_k", along)
    pairs = _Pairs(-x, -high, -low, apart.size, count, keys, "top_k") if along is None else None
    if along is not None:
        _require_whole(count, "top_k")
        x = _first(x, along)
    n = x.shape[0] if pairs is None else pairs.n
    if not 1 <= count_of(k, "k", 1) <= n:
        raise _core.ParameterError(f"k must be 1 to {n}, the number of values, not {described(k)}")
    if pairs is not None:
        return pairs.sort() * -(np.arange(x.slots) < k).astype(float)
    return _ordered(x, range(n - 1, n - 1 - k, -1), low, high, apart, keys, "top_k") if n > 1 else x


def _ordered(
    x: Tensor, wanted: range, low: float, high: float, gap: _Gap, keys: EvaluationKeys | None, what: str
) -> Tensor:  # fmt: skip
    """Returns the values of these ranks along the first axis."""
    n = x.shape[0]
    ranks = _ranks(x, gap, high - low, keys, what)
    edges = sorted({r for w in wanted for r in (w, w + 1) if 0 < r < n})
    steps = {}
    if edges:
        all_ranks = concatenate([ranks.reshape(1, *ranks.shape)] * len(edges))
        offsets = np.array(edges, dtype=float).reshape(-1, *[1] * (x.ndim + 1))
        at_least = _at_least(all_ranks, offsets, n, keys, what)
        steps = {edge: at_least[i] for i, edge in enumerate(edges)}
    results = []
    for r in wanted:
        if r == 0:
            hot = 1 - steps[1]
        elif r == n - 1:
            hot = steps[r]
        else:
            hot = steps[r] - steps[r + 1]
        results.append(x.multiply(hot, keys=keys).sum(0).reshape(1, *x.shape[1:]))
    return concatenate(results)  # values closer than the gap may add up, so the bounds are those of the sum


def sort_rotations(period: int) -> list[int]:
    """Returns the rotations that `sort` along slots needs: powers of two, left and right.

    >>> hg.ckks.sort_rotations(8)
    [1, 2, 4, -1, -2, -4]
    """
    powers = [1 << k for k in range(builtins.max(0, int(period).bit_length() - 1))]
    return powers + [-p for p in powers]


class _Pairs:
    """All pairs of the first n slots, as m rows of m slots, m a power of two: slot j of row i has the pair (i, j).

    The rows fill one ciphertext after another, along a new first axis: row i is row i % rows of ciphertext i // rows.
    """

    def __init__(
        self, x: Tensor, low: float, high: float, gap: float, count: int | None, keys: EvaluationKeys | None, what: str
    ) -> None:  # fmt: skip
        _require_full(x, what)
        self.x, self.low, self.high, self.gap, self.period, self.what = x, low, high, gap, x.slots, what
        self.keys = keys_of([x], keys, what)
        self.n = x.slots if count is None else count_of(count, "count", 1)
        if self.n > x.slots:
            raise _core.ParameterError(f"count must be at most {x.slots:,}, the number of slots, not {self.n:,}")
        self.m = builtins.min(self.period, 1 << builtins.max(1, (self.n - 1).bit_length()))
        rows = self.period // self.m
        self.blocks = -(-self.n // rows)
        if self.blocks > _MOST_BLOCKS:
            raise _core.ParameterError(
                f"{what} along slots compares all pairs of {self.n:,} values, which fill {self.blocks:,} ciphertexts of "
                f"{self.period:,} slots; at most {_MOST_BLOCKS} are allowed. Pass a smaller count=, choose a set with more "
                "slots, or put the values along an axis of ciphertexts"
            )
        self.keys._require(
            what, sort_rotations(self.period), False, relinearize=True, ask="rotations=hg.ckks.sort_rotations(period)"
        )
        row, self.column = np.divmod(np.arange(self.period), self.m)
        self.row = row + rows * np.arange(self.blocks)[:, None]
        self.used = self.row < self.n

    def sort(self) -> Tensor:
        """Returns the values in ascending order, in the first n slots."""
        place = self.column + (self.m - self.n)  # filling values have the lowest ranks
        last = self.column == self.m - 1

        def picked(part: slice, rows: Tensor, ranks: Tensor) -> Tensor:
            shifted = ranks - self._each(np.where(self.used[part], place - 0.5, 0.0))
            steps = self._signs(shifted, 2.0 * self.m, 0.45, 2.0**-20)  # whether the rank is at least the place
            following = steps.rotate(1, keys=self.keys) * (0.5 * ~last)
            hot = inside_unit(steps * 0.5 - following + 0.5 * last, 2.0**-20)
            product: Tensor = rows.multiply(hot, keys=self.keys)  # rows after the last are 0
            return product

        return self._down(self._summed(picked))

    def largest(self, one_hot: bool) -> Tensor:
        """Returns the index of the largest value in every slot, or 1 in its slot and 0 in others."""
        own = (self.column == self.row) if one_hot else (self.column == 0)
        weights = own & self.used if one_hot else (own & self.used) * self.row

        def weighted(part: slice, _: Tensor, ranks: Tensor) -> Tensor:
            steps = self._signs(ranks - (self.m - 1.5), 2.0 * self.m, 0.45, 2.0**-20)
            product: Tensor = (steps * 0.5 + 0.5) * self._each(weights[part])
            return product

        total = self._summed(weighted)
        if one_hot:
            return inside_unit(self._down(total) * (np.arange(self.period) < self.n).astype(float), self.n * 2.0**-20)
        return inside(total.sum_slots(keys=self.keys), -0.5, self.n - 0.5)

    def _summed(self, compute: Callable[[slice, Tensor, Tensor], Tensor]) -> Tensor:
        """Returns the sum over ciphertexts of a function of rows and ranks, a few ciphertexts at a time."""
        least = self.low - 2 * self.gap  # of the places that fill up to m
        slot = np.arange(self.period)
        filled = np.where((slot >= self.n) & (slot < self.m), least, 0.0)
        limits = builtins.min(least, 0.0), builtins.max(self.high, 0.0)
        first = inside(self.x * (slot < self.n).astype(float) + filled, *limits)
        columns = inside(self._repeated(first, [-step for step in self._steps_down()]), *limits)
        columns = columns.reshape(1, *columns.shape)
        sums = []
        for start in range(0, self.blocks, _TOGETHER):
            part = slice(start, start + _TOGETHER)
            rows = inside(self._across(columns, (self.row == self.column) & self.used, part), *limits)
            sums.append(compute(part, rows, self._ranks(rows, columns, part, self.high - least)).sum(0))
        level = builtins.min(one.level for one in sums)
        return concatenate([one.lower(level).reshape(1, *one.shape) for one in sums]).sum(0)

    def _ranks(self, rows: Tensor, columns: Tensor, part: slice, spread: float) -> Tensor:
        """Returns the number of smaller values in all slots of a row; of equal values the first has the largest rank."""
        row = self.row[part]
        tie = np.sign(self.column - row) * self.gap / 2 + (row == self.column) * self.gap
        larger = self._signs(rows - columns + self._each(tie), spread + self.gap, self.gap / 2, _RANK_ERROR / self.m)
        ranks = self._across(larger, self.used * 0.5, part)  # the sum of the signs of a row, halved
        return inside(ranks + (self.m / 2 - 1), -self.m * 1.0, self.m * 1.0)

    def _signs(self, x: Tensor, largest: float, gap: float, error: float) -> Tensor:
        return _signs(inside(x, -largest, largest), largest, gap, error, self.keys, self.what)

    def _each(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Returns numbers for all slots of some ciphertexts, [ciphertexts, 1 for each axis of x, slots]."""
        return values.astype(float).reshape(-1, *[1] * self.x.ndim, self.period)

    def _steps_down(self) -> list[int]:
        """Returns the rotations whose sum adds the rows of a ciphertext."""
        return [self.m << k for k in range((self.period // self.m).bit_length() - 1)]

    def _down(self, x: Tensor) -> Tensor:
        """Returns the sum of the rows of a ciphertext, in each row."""
        for step in self._steps_down():
            x = x + x.rotate(step, keys=self.keys)
        return x

    def _across(self, x: Tensor, weights: npt.NDArray[Any], part: slice) -> Tensor:
        """Returns the sum of each row times weights, in all of its slots."""
        x = x * self._each(weights[part])
        for k in range(self.m.bit_length() - 1):
            x = x + x.rotate(1 << k, keys=self.keys)
        x = x * self._each(((self.column == 0) & self.used)[part])
        return self._repeated(x, [-(1 << k) for k in range(self.m.bit_length() - 1)])

    def _repeated(self, x: Tensor, steps: list[int]) -> Tensor:
        """Adds rotations of values between zeros. Each slot has the error of one value, and of the rotations."""
        of_one, x = errors_of(x), without_errors(x)
        for step in steps:
            x = x + x.rotate(step, keys=self.keys)
        rounding = errors_of(x)
        return with_errors(x, (of_one[0] + rounding[0], of_one[1] + rounding[1]))


@composite
def quantile(
    x: Tensor, q: float, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    count: int | None = None, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns a quantile along an axis, by linear interpolation of the sorted values, as `numpy.quantile`.

    With ``axis="slots"`` it is in slot 0. Options and errors are as for `sort`.

    >>> holder.decrypt(hg.ckks.quantile(hg.stack([v, w]), 0.2, 0, gap=0.2)).round(2) + 0
    array([-0.75, -0.1 ,  0.2 ,  0.8 ])
    """
    if not is_real(q) or not 0 <= q <= 1:
        raise _core.ParameterError(f"a quantile must be a number from 0 to 1, not {described(q)}")
    y, low, high = domain_of(real_tensor(x, "quantile"), domain, "quantile", guard)
    along = along_axis(y, axis)
    if along is not None:
        _require_whole(count, "quantile")
    n = y.shape[along] if along is not None else (y.slots if count is None else count_of(count, "count", 1))
    if n == 0:
        raise _core.ShapeError("cannot compute a quantile of no values")
    place = float(q) * (n - 1)
    below = builtins.min(math.floor(place), n - 1)
    share = place - below
    apart = _Gap.of(gap, integers, method, "quantile", along)
    if along is None:
        ordered = _Pairs(y, low, high, apart.size, count, keys, "quantile").sort()
        value = ordered.rotate(below, keys=keys, compose=True) if below else ordered
        if not share:
            return value
        return value * (1 - share) + ordered.rotate(below + 1, keys=keys, compose=True) * share
    y = _first(y, along)
    if n == 1:
        return y[0]
    wanted = [below, below + 1] if share else [below]
    values = _ordered(y, range(wanted[0], wanted[-1] + 1), low, high, apart, keys, "quantile")
    return values[0] if not share else values[0] * (1 - share) + values[1] * share


@composite
def median(
    x: Tensor, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    count: int | None = None, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the median along an axis: `quantile` of 1/2.

    >>> holder.decrypt(hg.ckks.median(hg.stack([v, w, -v]), 0, gap=0.2)).round(2) + 0
    array([-0.25, -0.25,  0.  ,  0.5 ])
    """
    return quantile(
        x, 0.5, axis, gap=gap, integers=integers, method=method, count=count, domain=domain, guard=guard, keys=keys
    )  # fmt: skip


@composite
def histogram(
    x: Tensor, edges: npt.ArrayLike, *, gap: float, count: int | None = None, domain: Domain = None,
    guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the number of values of each ciphertext between two successive edges, in a new first axis and every slot.

    `edges` are ascending public numbers. Values at least `gap` from an edge count 1 in one bin. A value at an edge counts
    1/2 in both bins. Values below the first and above the last edge do not count. `count` is the number of values, the first
    slots of each ciphertext; the tensor must fill the set's period.

    Needs keys for the rotations `sum_rotations(period)`. Raises the errors of `sign`; ParameterError for edges that are not
    ascending.

    >>> holder.decrypt(hg.ckks.histogram(w, [-1.5, -0.5, 0.3, 1], gap=0.2))[:, 0].round(2)
    array([1., 2., 1.])
    """
    x, low, high = domain_of(real_tensor(x, "histogram"), domain, "histogram", guard)
    _require_full(x, "histogram")
    at = np.asarray(edges, dtype=np.float64)
    if at.ndim != 1 or at.size < 2 or not np.isfinite(at).all() or (np.diff(at) <= 0).any():
        raise _core.ParameterError("edges must be at least two ascending finite numbers")
    n = x.slots if count is None else count_of(count, "count", 1)
    if n > x.slots:
        raise _core.ShapeError(f"count must be at most {x.slots:,}, the number of slots, not {n:,}")
    spread = builtins.max(high - float(at[0]), float(at[-1]) - low, gap_of(gap))
    offsets = at.reshape(-1, *[1] * (x.ndim + 1))
    shifted = concatenate([x.reshape(1, *x.shape)] * at.size) - offsets
    steps = _signs(inside(shifted, -spread, spread), spread, gap_of(gap), 2.0**-20, keys, "histogram")
    inner = (steps[:-1] - steps[1:]) * (np.arange(x.slots) < n).astype(float) * 0.5
    return inside(inside_unit(inner, 2.0**-20).sum_slots(keys=keys), -0.5, n + 0.5)
