"""Extremes, ranks and order of encrypted reals, by comparisons of all pairs or in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import count_of, described, flag, is_real, reals
from heliograph._common.matrices import along_axis
from heliograph._common.operations import composite
from heliograph.ckks.approximation import Domain, computed, error_bound, real_tensor
from heliograph.ckks.comparisons import separation
from heliograph.ckks.integers import Method
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.signs import SignEvaluator
from heliograph.ckks.tensor import Tensor

Axis = int | Literal["slots"]


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
    """Returns the largest value along an axis, up to `error`, in rounds of `maximum`.

    An axis of ciphertexts is removed. With ``axis="slots"`` every slot holds the largest of all slots; the tensor must fill
    the set's `period`, and keys for the rotations `sum_rotations(period)` are needed. Each round takes the levels of `abs`
    with the error divided by the number of rounds.

    >>> holder.decrypt(hg.ckks.max(w, "slots", error=0.02)).round(1)  # w holds -1, -0.25, 0 and 0.5
    array([0.5, 0.5, 0.5, 0.5])
    """
    return _extreme("max", x, axis, error, domain, guard, keys)


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
    """Returns the smallest value along an axis, up to `error`. Options and errors are those of `max`.

    >>> holder.decrypt(hg.ckks.min(w, "slots", error=0.02)).round(1)
    array([-1., -1., -1., -1.])
    """
    return _extreme("min", x, axis, error, domain, guard, keys)


def _extreme(
    name: str, x: Any, axis: Any, error: Any, domain: Domain, guard: bool | None, keys: EvaluationKeys | None
) -> Tensor:
    along = (along_axis(real_tensor(x, name), axis),)
    return computed(name, x, error_bound(error), domain, guard, keys, axis=along, evaluator=SignEvaluator)


def _ordered(
    name: str, x: Any, axis: Any, apart: tuple[Any, Any, Any], count: Any, domain: Domain, guard: bool | None,
    keys: EvaluationKeys | None, *more: Any,
) -> Tensor:  # fmt: skip
    """Calls the engine's function of order `name`. `apart` holds the options gap, integers and method."""
    gap, method = separation(*apart, name)
    along = (along_axis(real_tensor(x, name), axis),)
    number = None if count is None else count_of(count, "count", 1)
    rest = gap, method, number, *more
    return computed(name, x, None, domain, guard, keys, axis=along, more=rest, evaluator=SignEvaluator, has_error=False)


@composite
def argmax(
    x: Tensor, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    one_hot: bool = False, count: int | None = None, domain: Domain = None, guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the index of the largest value along an axis; of equal values, the first index.

    Each two values must be equal or at least `gap` apart. If the largest two are closer, the result is a number between
    their indices. ``integers=True`` declares, in place of `gap`, that all values are integers; `method` is as for `sign`,
    and along slots it is "polynomial". With ``one_hot=True`` the axis stays and holds 1 at the index and 0 elsewhere. All
    pairs are compared.

    - An axis of ciphertexts: an index for each slot. n values take n (n - 1) / 2 signs, and n signs of ranks. Inside
      `auto_bootstrap`, ciphertexts of few values are packed into one ciphertext for these signs, if the keys have the
      rotations `block_rotations(slots, period)`.
    - ``axis="slots"``: the index among the first `count` slots, in every slot. Sizes and keys are those of `sort`.

    Raises the errors of `sign`; ShapeError for an empty axis, ParameterError for a wrong count.

    >>> holder.decrypt(hg.ckks.argmax(hg.stack([w, 0.5 * w, -w]), 0, gap=0.1)).round(2) + 0  # w: -1, -0.25, 0 and 0.5
    array([2., 2., 0., 0.])
    """
    hot = flag(one_hot, "one_hot")
    return _ordered("argmax", x, axis, (gap, integers, method), count, domain, guard, keys, hot)


@composite
def argmin(
    x: Tensor, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    one_hot: bool = False, count: int | None = None, domain: Domain = None, guard: bool | None = None,
    keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the index of the smallest value along an axis. Options and errors are those of `argmax`.

    >>> holder.decrypt(hg.ckks.argmin(hg.stack([w, 0.5 * w, -w]), 0, gap=0.1)).round(2) + 0
    array([0., 0., 0., 2.])
    """
    hot = flag(one_hot, "one_hot")
    return _ordered("argmin", x, axis, (gap, integers, method), count, domain, guard, keys, hot)


@composite
def sort(
    x: Tensor, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    count: int | None = None, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the values in ascending order.

    Each two values must be equal or at least `gap` apart; closer values may be replaced by mixtures of the two. The
    function compares all pairs of values, and then each value's rank with each position. ``integers=True`` declares, in
    place of `gap`, that all values are integers; `method` is as for `sign`, and along slots it is "polynomial".

    - An axis of ciphertexts: each slot is sorted separately, with n (n - 1) signs for n values. The use of
      `block_rotations` is that of `argmax`.
    - ``axis="slots"``: the first `count` slots of each ciphertext. The tensor must fill the set's `period`. n values take
      the signs of 2 n m / period ciphertexts, where m is n, rounded up to a power of two; n m / period may be up to 256.
      The keys need the rotations `sort_rotations(period)`. The results are in the first `count` slots; other slots hold
      copies.

    Raises the errors of `sign`; ShapeError, ParameterError for a wrong count.

    >>> holder.decrypt(hg.ckks.sort(hg.stack([v, w]), 0, gap=0.2)).round(2) + 0
    array([[-1.  , -0.25,  0.  ,  0.5 ],
           [ 0.25,  0.5 ,  1.  ,  2.  ]])
    """
    return _ordered("sort", x, axis, (gap, integers, method), count, domain, guard, keys)


@composite
def top_k(
    x: Tensor, k: int, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    count: int | None = None, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns the k largest values along an axis, the largest first. With ``axis="slots"`` the results are in the first k
    slots, and all other slots hold 0. Options and errors are those of `sort`.

    >>> holder.decrypt(hg.ckks.top_k(hg.stack([v, w]), 1, 0, gap=0.2)).round(2)
    array([[0.25, 0.5 , 1.  , 2.  ]])
    """
    return _ordered("top_k", x, axis, (gap, integers, method), count, domain, guard, keys, count_of(k, "k", 1))


def sort_rotations(period: int) -> list[int]:
    """Returns the rotations that `sort` along slots needs: powers of two, left and right.

    >>> hg.ckks.sort_rotations(8)
    [1, 2, 4, -1, -2, -4]
    """
    steps: list[int] = _core.ckks.functions.sort_rotations(count_of(period, "a period"))
    return steps


def block_rotations(slots: int, period: int) -> list[int]:
    """Returns the rotations by which functions of order along an axis pack tensors of `slots` values.

    `period` is the number of slots of the set. Blocks have `slots` slots, rounded up to a power of two.

    >>> hg.ckks.block_rotations(100, 1024)
    [128, 256, 512, -128, -256, -512]
    """
    sizes = count_of(slots, "slots", 1), count_of(period, "a period", 1)
    steps: list[int] = _core.ckks.functions.block_rotations(*sizes)
    return steps


@composite
def quantile(
    x: Tensor, q: float, axis: Axis, *, gap: float | None = None, integers: bool = False, method: Method = "auto",
    count: int | None = None, domain: Domain = None, guard: bool | None = None, keys: EvaluationKeys | None = None,
) -> Tensor:  # fmt: skip
    """Returns a quantile along an axis, by linear interpolation of the sorted values, like `numpy.quantile`.

    With ``axis="slots"`` the quantile is in slot 0. Options and errors are those of `sort`.

    >>> holder.decrypt(hg.ckks.quantile(hg.stack([v, w]), 0.2, 0, gap=0.2)).round(2) + 0
    array([-0.75, -0.1 ,  0.2 ,  0.8 ])
    """
    if not is_real(q) or not 0 <= q <= 1:
        raise _core.ParameterError(f"a quantile must be a number from 0 to 1, not {described(q)}")
    return _ordered("quantile", x, axis, (gap, integers, method), count, domain, guard, keys, float(q))


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
    """Counts each ciphertext's values between successive edges. The counts are along a new first axis, in every slot.

    `edges` are ascending public numbers. A value at least `gap` from every edge counts 1 in one bin. A value at an edge
    counts 1/2 in both neighbouring bins. Values below the first and above the last edge do not count. `count` is the number
    of values, the first slots of each ciphertext; the tensor must fill the set's period.

    Needs keys for the rotations `sum_rotations(period)`. Raises the errors of `sign`; ParameterError for edges that are not
    ascending, DtypeError for edges that are not real numbers.

    >>> holder.decrypt(hg.ckks.histogram(w, [-1.5, -0.5, 0.3, 1], gap=0.2))[:, 0].round(2)
    array([1., 2., 1.])
    """
    at = reals(edges, "edges")
    if at.ndim != 1:
        raise _core.ParameterError("edges must be at least two ascending finite numbers")
    return _ordered(
        "histogram", x, "slots", (gap, False, "auto"), count, domain, guard, keys, cast(Sequence[float], at.tolist())
    )
