"""Matrices on slots that are given as their diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
from ckks_rig import SLOTS, Party, complexes, parameters, party, real

RNG = np.random.default_rng(45)


@pytest.fixture
def p() -> Party:
    """Returns the shared party."""
    return party()


def dense(diagonals: dict[int, Any], rows: int, size: int | None = None) -> npt.NDArray[Any]:
    """Returns the matrix [rows, rows] with these diagonals, with indices modulo `size`."""
    size = size or rows
    entries = {k: np.asarray(d) for k, d in diagonals.items()}
    matrix = np.zeros((rows, rows), dtype=np.result_type(float, *entries.values()))
    for k, values in entries.items():
        for row in range(rows):
            if (column := (row + k) % size) < rows:
                matrix[row, column] = values.flat[row % values.size]
    return matrix


def keys_for(p: Party, *transforms: hg.ckks.LinearTransform) -> hg.ckks.EvaluationKeys:
    """Returns keys with only the rotations of these transforms."""
    return p.secret.evaluation_keys(relinearize=False, for_=list(transforms))


def test_diagonals_give_the_bits_of_the_dense_matrix(p: Party) -> None:
    """Full, repeating, complex, negative and constant diagonals give the results of the dense matrix, in every bit."""
    diagonals = {0: real(seed=3)[:SLOTS], 1: [1, -2, 3, 4], -3: complexes(seed=4), 17: 0.25, 40: np.zeros(SLOTS)}
    matrix = dense(diagonals, SLOTS)
    sparse = hg.ckks.LinearTransform.from_diagonals(p.parameters, diagonals, level=3)
    whole = hg.ckks.LinearTransform(p.parameters, matrix, level=3)
    assert (sparse.shape, sparse.level, sparse.rotations) == (whole.shape, 3, whole.rotations)
    a = complexes(2, seed=9)
    x = p.bound(keys_for(p, sparse), a)
    p.check(sparse @ x, a @ matrix.T, 1e-5)
    assert np.array_equal(p.secret.decrypt(sparse @ x), p.secret.decrypt(whole @ x))
    assert (sparse @ x).precision == (whole @ x).precision


@pytest.mark.parametrize("baby", [0, 1, 4])
def test_diagonals_of_a_period(p: Party, baby: int) -> None:
    """With a period, the diagonals are those of a small matrix, which is applied to values that repeat."""
    period = 32
    diagonals = {k: RNG.normal(size=period) for k in (0, 1, 5, 31)}
    made = hg.ckks.LinearTransform.from_diagonals(p.parameters, diagonals, period=period, level=2, baby=baby)
    assert made.shape == (period, period)
    a = np.tile(RNG.uniform(-1, 1, period), SLOTS // period)
    p.check(made @ p.bound(keys_for(p, made), a), np.tile(dense(diagonals, period) @ a[:period], SLOTS // period), 1e-5)


def test_diagonals_of_slots_that_are_padded() -> None:
    """If zeros follow the slots, entries must be in the rows and columns of the slots."""
    p = Party(parameters(slots=100), rotations=(1,))
    inside = np.r_[RNG.normal(size=97), 0, 0, 0]
    diagonals = {3: inside, 0: RNG.normal(size=100), -2: np.r_[0, 0, RNG.normal(size=98)]}
    made = hg.ckks.LinearTransform.from_diagonals(p.parameters, diagonals, level=2)
    a = real(2)[:, :100]
    y = made @ p.bound(keys_for(p, made), a)
    p.check(y, a @ dense(diagonals, 100, p.parameters.period).T, 1e-5)
    for wrong in ({3: np.ones(100)}, {-1: np.ones(100)}, {0: np.ones(50)}, {0: 1.0}, {3: np.ones(97)}):
        with pytest.raises(hg.ShapeError, match="diagonal"):
            hg.ckks.LinearTransform.from_diagonals(p.parameters, wrong)
    with pytest.raises(hg.ShapeError, match="whole ciphertext"):
        hg.ckks.LinearTransform.from_diagonals(p.parameters, {0: np.ones(32)}, period=32)


def test_no_diagonals_are_the_zero_matrix(p: Party) -> None:
    """A matrix without nonzero diagonals gives zeros and needs no rotation."""
    for none in ({}, {3: 0.0}):
        made = hg.ckks.LinearTransform.from_diagonals(p.parameters, none)
        assert made.rotations == []
        p.check(made @ p.tensor(real()), np.zeros(SLOTS))


def test_errors_of_diagonals(p: Party) -> None:
    """Wrong numbers, lengths, values and kinds of diagonals are refused."""
    make = hg.ckks.LinearTransform.from_diagonals
    cases: list[tuple[Any, type[Exception], str]] = [
        ([np.ones(SLOTS)], hg.DtypeError, "mapping"),
        ({"1": np.ones(SLOTS)}, hg.DtypeError, "number of a diagonal"),
        ({1.5: np.ones(SLOTS)}, hg.DtypeError, "number of a diagonal"),
        ({SLOTS: np.ones(SLOTS)}, hg.ShapeError, f"diagonals {1 - SLOTS} to {SLOTS - 1}"),
        ({1: 1.0, 1 - SLOTS: 1.0}, hg.ShapeError, "there already"),
        ({1: np.ones(3)}, hg.ShapeError, "diagonal 1 must have one axis"),
        ({1: np.ones((2, 2))}, hg.ShapeError, "diagonal 1 must have one axis"),
        ({1: []}, hg.ShapeError, "diagonal 1 must have one axis"),
        ({2: [1, np.nan]}, hg.PlaintextRangeError, "diagonal 2"),
        ({2: [1, 1e300]}, hg.PlaintextRangeError, "does not fit"),
        ({2: "one"}, hg.DtypeError, "diagonal 2"),
    ]
    for diagonals, error, text in cases:
        with pytest.raises(error, match=text):
            make(p.parameters, diagonals)
    for period in (0, 3, 2 * SLOTS, -4):
        with pytest.raises(hg.ShapeError, match="power of two"):
            make(p.parameters, {0: 1.0}, period=period)
    with pytest.raises(hg.LevelError):
        make(p.parameters, {0: 1.0}, level=1)
    with pytest.raises(hg.ParameterError):
        make(p.parameters, {0: 1.0}, baby=-1)
