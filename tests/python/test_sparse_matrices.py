"""Matrices on slots that are given as their diagonals."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
import rigs
from ckks_rig import SLOTS, Party, complexes, parameters, party, real
from heliograph import _core

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


def keys_for(p: Party, *transforms: hg.ckks.LinearTransform) -> Any:
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


def test_compact_diagonals_give_the_same_bits(p: Party) -> None:
    """Plaintexts that are coefficients at rest take less memory, and products have the same bits."""
    for diagonals in (
        {k: RNG.normal(size=SLOTS) for k in (0, 1, 2, 7, 8, 9, 300)},
        {0: 1e4, 1: [1, 2], 5: complexes(seed=4)},
    ):
        for party_ in (p, party(32)):
            both = [
                hg.ckks.LinearTransform.from_diagonals(party_.parameters, diagonals, level=4, compact=compact)
                for compact in (False, True)
            ]
            assert both[0].rotations == both[1].rotations
            assert both[1].bytes < both[0].bytes / 2
            x = party_.bound(keys_for(party_, both[0]), complexes(2, seed=9))
            plain, compact = (party_.secret.decrypt(t @ x) for t in both)
            assert np.array_equal(plain, compact)
            assert (both[0] @ x).precision == (both[1] @ x).precision
            party_.check(both[1] @ x, complexes(2, seed=9) @ dense(diagonals, SLOTS).T, 1e-2)


Block = dict[int, Any] | None


def block_keys(p: Party, blocks: hg.ckks.BlockTransform) -> Any:
    """Returns keys for blocks alone."""
    return p.secret.evaluation_keys(relinearize=False, for_=blocks)


def expected(table: list[list[Block]], a: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Returns the product of blocks and a[inputs, ..., slots]."""
    return np.stack([sum(a[i] @ dense(b or {0: 0.0}, rows).T for i, b in enumerate(row)) for row in table])


TABLES: list[list[list[Block]]] = [
    [[{k: RNG.normal(size=SLOTS) for k in (0, 1, 2, 8, 9, 16, 17, -1)} for _ in range(3)] for _ in range(2)],
    [[{0: 1.0, 5: [1, 2]}, None], [None, {3: real(seed=5)}], [None, None], [{9: 1j}, {9: 0.5, -4: complexes(seed=6)}]],
    [[{100: 2.0}]],
]


@pytest.mark.parametrize("word_size", [64, 32])
@pytest.mark.parametrize("table", TABLES, ids=["dense", "sparse", "one"])
def test_blocks(table: list[list[Block]], word_size: int) -> None:
    """Products of blocks equal NumPy's, with any steps, batches and storage; compact plaintexts give the same bits."""
    p = party(word_size)
    a = np.stack([complexes(2, seed=i) for i in range(len(table[0]))])
    want = expected(table, a, SLOTS)
    seen = []
    options: list[tuple[int, bool | None]] = [(0, False), (0, True), (1, None), (8, None)]
    several = [hg.ckks.BlockTransform(p.parameters, table, level=3, baby=b, compact=compact) for b, compact in options]
    x = p.bound(p.secret.evaluation_keys(relinearize=False, for_=several), a)
    for blocks in several:
        y = blocks @ x
        assert (y.shape, y.level, y.scale) == ((len(table), 2), 2, p.parameters.scale(2))
        p.check(y, want, 1e-4)
        p.check(blocks @ x[:, 0], want[:, 0], 1e-4)
        assert (blocks @ x[:, :0]).shape == (len(table), 0)
        bound = np.abs(want).max()
        assert y.bounds is not None
        assert bound <= y.bounds[1] * 1.001
        seen.append(p.secret.decrypt(y))
    assert np.array_equal(seen[0], seen[1])


def test_blocks_of_a_period(p: Party) -> None:
    """Blocks of a period act on values that repeat."""
    period = 16
    table: list[list[Block]] = [[{k: RNG.normal(size=period) for k in (0, 1, 3)} for _ in range(2)] for _ in range(2)]
    blocks = hg.ckks.BlockTransform(p.parameters, table, period=period, level=2)
    a = np.tile(RNG.uniform(-1, 1, (2, period)), SLOTS // period)
    want = np.tile(expected(table, a[:, :period], period), SLOTS // period)
    p.check(blocks @ p.bound(block_keys(p, blocks), a), want, 1e-5)


def test_blocks_are_at_least_as_precise_as_single_matrices(p: Party) -> None:
    """One rounding for all inputs: the bound on the error is at most the bound of a sum of single matrices."""
    table = TABLES[0]
    blocks = hg.ckks.BlockTransform(p.parameters, table, level=3, baby=8)
    singles = [
        [hg.ckks.LinearTransform.from_diagonals(p.parameters, b or {}, level=3, baby=8) for b in row] for row in table
    ]
    a = np.stack([real(seed=i) for i in range(3)])
    x = p.bound(block_keys(p, blocks), a)
    y = blocks @ x
    z: Any = hg.stack([row[0] @ x[0] + row[1] @ x[1] + row[2] @ x[2] for row in singles])
    p.check(z, expected(table, a, SLOTS), 1e-4)
    assert y.precision is not None
    assert z.precision is not None
    assert y.precision >= z.precision


def test_errors_of_blocks(p: Party) -> None:
    """Wrong tables, tensors and missing keys are refused."""
    make = hg.ckks.BlockTransform
    cases: list[tuple[Any, type[Exception], str]] = [
        ({0: 1.0}, hg.DtypeError, "list of lists"),
        ([{0: 1.0}], hg.DtypeError, "list of lists"),
        ([], hg.DtypeError, "list of lists"),
        ([[]], hg.ShapeError, "at least one input"),
        ([[None], [None, None]], hg.ShapeError, "equal lengths"),
        ([[None, {SLOTS: 1.0}]], hg.ShapeError, r"block \(0, 1\): cannot use diagonal"),
        ([[None], [{0: np.nan}]], hg.PlaintextRangeError, r"block \(1, 0\): diagonal 0"),
        ([[1.0]], hg.DtypeError, r"block \(0, 0\)"),
    ]
    for table, error, text in cases:
        with pytest.raises(error, match=text):
            make(p.parameters, table)
    blocks = make(p.parameters, [[{5: 1.0}, {6: 1.0}]], level=3)
    x = p.tensor(real(2))
    with pytest.raises(hg.MissingKeyError, match="needs the rotations 5, 6"):
        blocks @ x
    with pytest.raises(hg.ShapeError, match="first axis"):
        blocks @ x[0]
    with pytest.raises(hg.ShapeError, match="first axis"):
        blocks @ p.tensor(real(3))
    with pytest.raises(hg.LevelError, match="level 3"):
        blocks @ hg.ckks.lower(x, 2)
    with pytest.raises(hg.DtypeError, match="tensor of CKKS"):
        blocks @ real(2)  # type: ignore[type-var]
    with pytest.raises(hg.MismatchError):
        make(parameters(levels=4), [[None, None]], level=2) @ x
    with pytest.raises(hg.DtypeError, match="pickle"):
        blocks.__reduce__()


@pytest.mark.parametrize("word_size", [64, 32])
@pytest.mark.parametrize("span", [1, 2, 4, 64])
def test_short_diagonals_give_the_bits_of_tiled_ones(span: int, word_size: int) -> None:
    """Diagonals that repeat take as many bytes as their entries need, and products have the bits of whole diagonals."""
    p = party(word_size)
    short: dict[int, Any] = {k: RNG.normal(size=span) for k in (0, 1, 5, 17, -3)}
    short[9] = 0.5 + 0.25j if span == 1 else np.r_[RNG.normal(size=span // 2), 1j * RNG.normal(size=span // 2)]
    tiled = {k: np.tile(d, SLOTS // np.size(d)) for k, d in short.items()}
    whole = {k: RNG.normal(size=SLOTS) for k in short}
    a = complexes(2, seed=9)
    make = hg.ckks.LinearTransform.from_diagonals
    for baby in (0, 4):
        for compact in (False, True):
            one, two, other = (make(p.parameters, d, level=4, baby=baby, compact=compact) for d in (short, tiled, whole))
            x = p.bound(keys_for(p, one), a)
            p.check(one @ x, a @ dense(tiled, SLOTS).T, 1e-4)
            assert np.array_equal(p.secret.decrypt(one @ x), p.secret.decrypt(two @ x))
            assert (one @ x).precision == (two @ x).precision
            assert one.bytes == two.bytes < other.bytes
    table, same, wide = ([[d, None], [{0: 1.0}, d]] for d in (short, tiled, whole))
    for compact in (False, True):
        many, every, rest = (hg.ckks.BlockTransform(p.parameters, t, level=4, compact=compact) for t in (table, same, wide))
        x = p.bound(block_keys(p, many), a)
        assert np.array_equal(p.secret.decrypt(many @ x), p.secret.decrypt(every @ x))
        p.check(many @ x, np.stack([a[0] @ dense(tiled, SLOTS).T, a[0] + a[1] @ dense(tiled, SLOTS).T]), 1e-4)
        assert many.bytes == every.bytes < rest.bytes


def test_short_diagonals_beside_whole_ones(p: Party) -> None:
    """Blocks of different lengths, and short diagonals of a period, give the bits of tiled diagonals."""
    short, whole = {1: RNG.normal(size=8), 3: RNG.normal(size=32)}, {0: RNG.normal(size=SLOTS)}
    tiled = {k: np.tile(d, SLOTS // len(d)) for k, d in short.items()}
    a = complexes(2, seed=9)
    both = [hg.ckks.BlockTransform(p.parameters, [[d, whole], [d, None]], level=3) for d in (short, tiled)]
    x = p.bound(block_keys(p, both[0]), a)
    assert np.array_equal(*(p.secret.decrypt(blocks @ x) for blocks in both))
    p.check(both[0] @ x, expected([[tiled, whole], [tiled, None]], a, SLOTS), 1e-4)
    singles = [
        hg.ckks.LinearTransform.from_diagonals(p.parameters, {k: d[:n] for k, d in tiled.items()}, period=64, level=3)
        for n in (32, 64)
    ]
    b = np.tile(RNG.uniform(-1, 1, 64), SLOTS // 64)
    x = p.bound(keys_for(p, singles[0]), b)
    assert np.array_equal(*(p.secret.decrypt(made @ x) for made in singles))
    p.check(singles[0] @ x, dense(tiled, SLOTS) @ b, 1e-4)


def bits(device: str) -> list[bytes]:
    """Returns the bytes of products from a fixed seed on a device."""
    own = parameters()
    on = hg.ckks.Parameters(own._core.on_device(device))
    secret = hg.SecretKey(_core.ckks.SecretKey.generate_for_test(on._core, rigs.SEED))
    rng = np.random.default_rng(8)
    table: list[list[Block]] = [
        [{k: rng.normal(size=SLOTS) for k in (0, 1, 3, 8, 11, 500)}, {2: 0.5, 8: rng.normal(size=4)}, None],
        [None, {0: 1.0, 1: rng.normal(size=SLOTS)}, {17: rng.normal(size=SLOTS)}],
    ]
    blocks = [hg.ckks.BlockTransform(on, table, level=3, compact=compact) for compact in (False, True)]
    single = hg.ckks.LinearTransform.from_diagonals(on, table[0][0] or {}, level=3, compact=True)
    keys = secret.evaluation_keys(relinearize=False, for_=[*blocks, single])
    x = hg.Server(keys).bind(secret.encrypt(rng.uniform(-1, 1, (3, 3, SLOTS))))
    return [y.to_bytes() for y in [b @ x for b in blocks] + [blocks[0] @ x[:, 1], single @ x[0, 0]]]


@functools.cache
def reference() -> list[bytes]:
    """Returns the bytes of the device `ref`."""
    return bits("ref")


@pytest.mark.parametrize("device", [d for d in rigs.DEVICES if d != "ref"])
def test_every_device_gives_the_bits_of_ref(device: str) -> None:
    """Matrices of blocks have equal bits on every device."""
    try:
        parameters()._core.on_device(device)
    except (hg.ParameterError, hg.DeviceError):
        pytest.skip(f"device {device} is not available")
    found = bits(device)
    assert found[0] == found[1], "compact plaintexts change the result"
    assert found == reference()
