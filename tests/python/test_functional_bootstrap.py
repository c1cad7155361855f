"""Functional bootstrapping evaluates tables of integers in CKKS; the tests use a small ring."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
from ckks_rig import Party


@functools.cache
def party() -> Party:
    """Returns a party of a small insecure set with bootstrapping."""
    parameters = hg.ckks.parameters(n=2**11, depth=6, log_scale=39, bootstrap=True, insecure=True)
    made = Party(parameters, ())
    made.keys = made.secret.evaluation_keys(bootstrap=True)
    made.server = hg.Server(made.keys)
    return made


def whole(p: int, *shape: int, seed: int = 1) -> npt.NDArray[np.int64]:
    """Returns random integers below p."""
    return np.random.default_rng(seed).integers(0, p, (*shape, party().parameters.slots))


def test_tables_are_looked_up() -> None:
    """Every item is replaced by its entry in the table, within the error bound. The result is at the top level minus the
    levels of the polynomial.

    """
    numbers = whole(4, 3)
    table = np.array([2, -1, 0.5, 7])
    x = party().tensor(numbers, level=party().parameters.bootstrapping_level)
    y = hg.ckks.functional_bootstrap(x, table)
    assert (y.shape, y.level) == ((3,), party().parameters.levels - 2)
    party().check(y, table[numbers])
    party().check(x.functional_bootstrap([0, 1j, 2, 3]), np.array([0, 1j, 2, 3])[numbers])


def test_tables_of_bits_compute_gates() -> None:
    """Tables of bits take no level. Tables that are applied to the sum of two bits compute XOR and AND. The error after a
    look-up in each table is proportional to the square of the input's error.

    """
    bits = whole(2, 2)
    x = party().tensor(bits + 0.01 * np.cos(np.arange(bits.size)).reshape(bits.shape))
    clean = hg.ckks.functional_bootstrap(x, [0, 1])
    assert clean.level == party().parameters.levels
    worst = float(np.abs(party().secret.decrypt(clean) - bits).max())
    assert 2e-4 < worst < 3.3e-4  # at most 3.29 * 0.01^2
    again = hg.ckks.functional_bootstrap(clean, [0, 1])
    assert np.abs(party().secret.decrypt(again) - bits).max() < 4e-7
    party().check(hg.ckks.functional_bootstrap(again[0] + again[1], [0, 1]), bits[0] ^ bits[1])
    party().check(hg.ckks.functional_bootstrap(again[0] + 2 * again[1], [0, 0, 0, 1]), bits[0] & bits[1])


def test_refusals() -> None:
    """Invalid tables and invalid operands are refused."""
    x = party().tensor(whole(2))
    for table, error in (
        ([1], hg.ParameterError),
        ([], hg.ParameterError),
        (range(257), hg.ParameterError),
        ([[0, 1]], hg.ShapeError),
        ([0, np.inf], hg.PlaintextRangeError),
        (["a", "b"], hg.DtypeError),
    ):
        with pytest.raises(error):
            hg.ckks.functional_bootstrap(x, table)
    with pytest.raises(hg.DtypeError, match="real"):
        hg.ckks.functional_bootstrap(x * 1j, [0, 1])
    with pytest.raises(hg.LevelError, match="level 4"):
        hg.ckks.functional_bootstrap(hg.ckks.lower(x, 3), [0, 1])
    with pytest.raises(hg.MissingKeyError):
        hg.ckks.functional_bootstrap(x, [0, 1], keys=party().secret.evaluation_keys())
