"""Clear tensors define what encrypted computations must give; they equal Python integers and encrypted tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from rigs import N
from test_model import BIAS, CASES, K2, ROTATIONS, SIGNED_CASES, W

# A clear tensor has no plaintext polynomials and no levels.
LEFT_OUT = ("plaintext", "shrink", "levels", "below", "mixed domains")
ALL = CASES | ROTATIONS | SIGNED_CASES


class ClearOperands(rigs.Engine):
    """The library's operations on clear tensors."""


@pytest.mark.parametrize("case", [c for c in ALL if not any(word in c for word in LEFT_OUT)])
def test_clear_equals_exact_integers(case: str) -> None:
    """Every operation of tensors equals exact integer arithmetic."""
    rng = np.random.default_rng(2)
    values = [rng.integers(-300, 300, (*s, N)) for s in [(2, 2), (2,), (2, 2, 3)]]
    exact = rigs.Reference(*[rigs.Clear(v, 1 << 80, "slots") for v in values], None, 0, 0)
    clear = ClearOperands(*[hg.ClearTensor(v) for v in values], None, 0, 0)  # type: ignore[arg-type]
    result = ALL[case](clear)
    expected = ALL[case](exact)
    assert isinstance(result, hg.ClearTensor)
    assert result.shape == exact.shape(expected)
    assert result.bound() == abs(expected.centred()).max()
    np.testing.assert_array_equal(result.values, expected.centred())


def test_products_beyond_doubles() -> None:
    """Products are exact beyond the precision of doubles."""
    x = hg.ClearTensor(np.array([[(1 << 40) + 1, -(1 << 40) - 3], [(1 << 41) - 1, 7]]))
    w = np.array([[(1 << 20) + 1, -(1 << 20) + 1], [1, 1]])
    exact = w.astype(object) @ x.values.astype(object)
    np.testing.assert_array_equal(hg.matmul(w, x).values, exact)


OVERFLOWS: dict[str, Callable[[hg.ClearTensor], Any]] = {
    "add": lambda x: x + x,
    "subtract": lambda x: x - (-x),
    "subtract from": lambda x: (-(1 << 62)) - x,
    "multiply": lambda x: x * 2,
    "power": lambda x: x**2,
    "sum": lambda x: hg.sum(x),
    "sum of an axis": lambda x: hg.sum(x, 0),
    "matmul": lambda x: hg.matmul([[1, 1]], x),
    "bias": lambda x: hg.matmul([[1, 0]], x, [1 << 62]),
    "convolution": lambda x: hg.conv2d(x.reshape(1, 1, 2), [[[[1, 1]]]]),
}


@pytest.mark.parametrize("case", OVERFLOWS)
def test_nothing_wraps_round(case: str) -> None:
    """Results beyond 63 bits are an error."""
    with pytest.raises(hg.PlaintextRangeError, match="63 bits"):
        OVERFLOWS[case](hg.ClearTensor(np.full((2, 4), 1 << 62)))


MISFITS: dict[str, Callable[[hg.ClearTensor], Any]] = {
    "add": lambda x: x + hg.ClearTensor(np.ones((3, 4), dtype=int)),
    "multiply": lambda x: x * np.ones(3, dtype=int),
    "matmul": lambda x: hg.matmul(W.T, x),
    "matmul from the right": lambda x: x @ W,
    "convolution": lambda x: hg.conv2d(x, K2, BIAS),
    "transpose": lambda x: x.transpose([1]),
    "sum": lambda x: hg.sum(x, 1),
    "broadcast": lambda x: x.broadcast_to((3,)),
    "concatenate": lambda x: hg.concatenate([x, x], 1),
    "dot": lambda x: hg.dot(x, x[:1]),
}


@pytest.mark.parametrize("case", MISFITS)
def test_shapes(case: str) -> None:
    """Clear tensors raise the same errors about shapes as encrypted tensors."""
    with pytest.raises(hg.ShapeError):
        MISFITS[case](hg.ClearTensor(np.ones((2, 4), dtype=int)))
