"""Every operation on encrypted real and complex numbers equals NumPy's result; also tests levels, files and errors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev, polynomial

import heliograph as hg
from ckks_rig import SLOTS, Party, complexes, parameters, party, real, stranger
from heliograph.cli import run, selftest_ckks

FAST = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
Operator = Callable[[Any, Any], Any]


@pytest.fixture
def p() -> Party:
    """Returns the shared party: secret key and server."""
    return party()


@pytest.mark.parametrize("word_size", [64, 32])
def test_encrypted_values_are_decrypted(word_size: int) -> None:
    """Real and complex values decrypt correctly, encrypted by secret and public key, along any axis."""
    p = party(word_size)
    a, c = real(2, 3), complexes(2)
    p.check(p.secret.encrypt(a), a)
    p.check(p.secret.encrypt(c), c)
    public, own = p.secret.public_key().encrypt(a), p.secret.encrypt(a)
    p.check(public, a)
    assert (
        own.precision - 5 < public.precision < own.precision
    )  # public-key encryption adds a rounding error times the secret, but no product with an encryption error
    assert np.abs(p.secret.decrypt(public) - a).max() < 2.0**-public.precision
    moved = np.moveaxis(a, -1, 0)
    np.testing.assert_allclose(p.secret.decrypt(p.secret.encrypt(moved, slots=0), slots=0), moved, atol=1e-6)
    some = p.secret.encrypt([1, 2, 3], pad=True)
    assert (some.slots, some.shape, some.dtype) == (3, (), np.float64)
    p.check(some, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul])
def test_operators(p: Party, op: Operator) -> None:
    """Operators accept tensors, numbers, arrays along the slots and arrays of one number per ciphertext, on either side."""
    a, b, c = real(2, 3), real(3, seed=5), complexes(2, 1)
    x, y, z = p.tensor(a), p.tensor(b), p.tensor(c)
    p.check(op(x, y), op(a, b))
    p.check(op(x, z), op(a, c))
    each = real(2, 3, seed=7)[..., :1]
    for other in (2.5, -3, 0, 0.0, np.float64(1e-3), 1.5 - 2j, b, b[0], c, each, each + 1j * each, np.arange(3)[:, None]):
        p.check(op(x, other), op(a, np.asarray(other)))
        p.check(op(other, x), op(np.asarray(other), a))


def test_levels(p: Party) -> None:
    """A product takes one level, an integer factor takes none. Operands at different levels use the lower level."""
    a = real()
    x = p.tensor(a)
    assert (x.level, x.degree) == (7, 1)
    assert (x * x).level == (x * 2.5).level == (x * a).level == 6
    assert (x * 3).level == (x * np.array([3])).level == (x * 1j).level == (x + 1.5).level == 7
    assert (x * x).scale == p.parameters.scale(6)
    y = x * x
    p.check(y + x, a * a + a)
    p.check(y * x, a**3)
    assert (y * x).level == 5
    low = hg.ckks.lower(x, 2)
    assert (low.level, low.scale) == (2, p.parameters.scale(2))
    p.check(low, a)
    p.check(low * low, a * a)
    p.check(p.tensor(a, level=2) * low, a * a)
    assert p.tensor(a, level=2).nbytes < x.nbytes
    with pytest.raises(hg.LevelError, match="level"):
        p.tensor(a, level=1) * low
    with pytest.raises(hg.LevelError):
        hg.ckks.lower(low, 3)
    with pytest.raises(hg.LevelError, match="levels 1 to 7"):
        p.tensor(a, level=8)
    with pytest.raises(hg.LevelError):
        hg.rescale(p.tensor(a, level=1))


def test_powers_take_the_fewest_levels(p: Party) -> None:
    """The n-th power takes ceil(log2 n) levels."""
    a = real()
    for n in (1, 2, 3, 5, 7, 8):
        y = p.tensor(a) ** n
        assert y.level == 7 - (n - 1).bit_length()
        p.check(y, a**n)
    p.check(p.tensor(a) / 3.0, a / 3)
    p.check(-p.tensor(a), -a)


def test_lazy_products(p: Party) -> None:
    """Unrelinearized products are summed, then relinearized and rescaled once."""
    a, b = real(2), real(2, seed=9)
    x, y = p.tensor(a), p.tensor(b)
    lazy = hg.ckks.multiply(x, y, relinearize=False, rescale=False)
    assert (lazy.degree, lazy.level) == (2, 7)
    assert lazy.scale == pytest.approx(x.scale**2)
    p.check(lazy, a * b)
    p.check(hg.ckks.relinearize_rescale(lazy.sum(0)), (a * b).sum(0))
    p.check(hg.rescale(hg.relinearize(lazy)), a * b)
    p.check(hg.relinearize(hg.rescale(lazy)), a * b)
    p.check(hg.ckks.multiply(x, 0.5, rescale=False), a / 2)
    with pytest.raises(hg.ScaleError):
        lazy + x


def test_rotations_and_conjugation(p: Party) -> None:
    """Rotations to the left, to the right and by several steps in one call are correct, and so is conjugation."""
    a, c = real(2), complexes()
    x = p.tensor(a)
    p.check(hg.ckks.rotate(x, 3), np.roll(a, -3, -1))
    p.check(hg.ckks.rotate(x, -1), np.roll(a, 1, -1))
    p.check(hg.ckks.rotate(x, [0, 1, 256]), np.stack([np.roll(a, -k, -1) for k in (0, 1, 256)]))
    p.check(p.tensor(c).conjugate(), c.conj())
    p.check(p.tensor(c) * 1j, c * 1j)
    with pytest.raises(hg.MissingKeyError, match=r"rotation 7.*1, 2, 3"):
        hg.ckks.rotate(x, 7)


def test_sums_and_inner_products(p: Party) -> None:
    """Sums and inner products over ciphertexts and over slots equal NumPy's."""
    a, b = real(3, 2), real(3, 2, seed=4)
    x, y = p.tensor(a), p.tensor(b)
    p.check(hg.sum(x, 0), a.sum(0))
    p.check(x.sum(), a.sum((0, 1)))
    p.check(hg.ckks.sum_slots(x, 4), sum(np.roll(a, -k, -1) for k in range(4)))
    p.check(hg.ckks.sum_slots(x), np.broadcast_to(a.sum(-1, keepdims=True), a.shape), 1e-4)
    z = hg.ckks.inner_product(x, y, axis=1)
    assert (z.shape, z.level) == ((3,), 6)
    p.check(z, (a * b).sum(1))
    p.check(hg.ckks.inner_product(x, b, axis=0), (a * b).sum(0))
    both = (a * b).sum((0, -1), keepdims=False)
    p.check(hg.ckks.inner_product(x, y, 0, SLOTS), np.repeat(both[:, None], SLOTS, -1), 1e-4)
    p.check(hg.dot(x[:, 0], y[:, 0]), (a * b)[:, 0].sum(0))
    p.check(hg.dot(x[:, 0], [1.5, 2.0, -3.0]), np.array([1.5, 2, -3]) @ a[:, 0])
    p.check(hg.dot(np.array([1, 2, -3]), x[:, 0]), np.array([1, 2, -3]) @ a[:, 0])
    assert hg.ckks.sum_rotations(8) == [1, 2, 4]


def test_shapes(p: Party) -> None:
    """Reshaped, sliced and transposed tensors equal NumPy's; no computation is needed."""
    a = real(2, 3)
    x = p.tensor(a)
    p.check(x.reshape(3, -1), a.reshape(3, 2, SLOTS))
    p.check(x.T, a.transpose(1, 0, 2))
    p.check(x[1, ::-1], a[1, ::-1])
    p.check(x[:, None, 1], a[:, None, 1])
    p.check(hg.stack([x[0], x[1]]), a)
    p.check(hg.concatenate([x, x], axis=1), np.concatenate([a, a], axis=1))
    p.check(x[0].broadcast_to((2, 3)), np.stack([a[0], a[0]]))
    assert len(x) == 2
    assert [t.shape for t in x] == [(3,), (3,)]
    assert "level 7 of 7" in repr(x)
    assert "insecure" in repr(x)


# Matrices


def random_matrix(rows: int, columns: int, seed: int = 3, *, is_complex: bool = False) -> Any:
    """Returns a matrix with entries of about 1/columns."""
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(rows, columns)) / columns
    return made + 1j * rng.normal(size=(rows, columns)) / columns if is_complex else made


def keys_for(p: Party, *transforms: hg.ckks.LinearTransform) -> hg.ckks.EvaluationKeys:
    """Returns keys with only the rotations of these transforms."""
    return p.secret.evaluation_keys(relinearize=False, rotations={r for t in transforms for r in t.rotations})


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (5, 12), (12, 5), (1, 7), (7, 1)])
def test_matrices_on_a_few_slots(p: Party, rows: int, columns: int) -> None:
    """Products of square and rectangular matrices with a batch of values, padded with zeros, are correct."""
    w = random_matrix(rows, columns)
    a = real(2)[:, :columns]
    t = hg.ckks.LinearTransform(p.parameters, w)
    x = p.bound(keys_for(p, t), a, pad=True)
    y = t @ x
    assert (y.level, y.slots, y.shape, y.scale) == (6, rows, (2,), p.parameters.scale(6))
    p.check(y, a @ w.T)
    p.check(hg.matmul(w, x), a @ w.T)
    p.check(w @ x + np.ones(rows), a @ w.T + 1)


def test_matrices_on_repeating_values_and_on_all_slots(p: Party) -> None:
    """The product of a complex matrix and values that repeat in the slots is correct. The product of a real matrix with as
    many rows as slots is correct, too.
    """
    period = 32
    w = random_matrix(period, period, is_complex=True)
    t = hg.ckks.LinearTransform(p.parameters, w, repeats=True, level=3)
    assert len(t.rotations) < 14
    a = real(2).reshape(2, -1, period)[:, 0]
    x = p.bound(keys_for(p, t), np.tile(a, SLOTS // period))
    y = t @ x
    assert y.level == 2
    p.check(y, np.tile(a @ w.T, SLOTS // period))
    small = party_of_few_slots()
    m = random_matrix(16, 16)
    t = hg.ckks.LinearTransform(small.parameters, m)
    b = real()[:16]
    small.check(t @ small.bound(keys_for(small, t), b), m @ b)


@pytest.mark.parametrize("baby", [1, 2, 4, 16])
def test_a_matrix_is_as_precise_as_single_rotations(p: Party, baby: int) -> None:
    """With any number of baby steps, a matrix product is at least as precise as with single rotations; views give the same
    bits as copies.

    """
    size, a = 16, real(3)
    w = random_matrix(size, size)
    t = hg.ckks.LinearTransform(p.parameters, w, repeats=True, baby=baby, level=3)
    keys = p.secret.evaluation_keys(relinearize=False, rotations={*t.rotations, *range(1, size)})
    vectors = a[:, :size]
    x = p.bound(keys, np.tile(vectors, SLOTS // size))
    want = np.tile(vectors @ w.T, SLOTS // size)
    y = t @ x
    p.check(y, want)
    p.check(t @ x[::-2], want[::-2])
    p.check(t @ x[1].broadcast_to((2, 2)), np.broadcast_to(want[1], (2, 2, SLOTS)))
    assert (t @ x[:0]).shape == (0,)
    low = hg.ckks.lower(x, 3)
    diagonals = [np.tile([w[i, (i + k) % size] for i in range(size)], SLOTS // size) for k in range(size)]
    one_by_one = [
        hg.ckks.multiply(turned, diagonal, rescale=False)
        for turned, diagonal in zip(hg.ckks.rotate(low, range(size)), diagonals, strict=True)
    ]
    together = hg.rescale(sum(one_by_one[1:], one_by_one[0]))
    p.check(together, want)
    assert y.precision is not None
    assert together.precision is not None
    assert y.precision >= together.precision - 0.05


def test_any_number_of_slots() -> None:
    """If the number of slots is not a power of two, rotations move all N/2 places, and the values beyond the slots are not
    shown.
    """
    p = Party(parameters(slots=100), rotations=(1, 2))
    w = random_matrix(100, 100)
    a = real(2)[:, :100]
    t = hg.ckks.LinearTransform(p.parameters, w, level=2)
    p.check(t @ p.bound(keys_for(p, t), a), a @ w.T)
    turned = hg.ckks.rotate(p.tensor(a), 2)
    p.check(turned, np.pad(a, ((0, 0), (0, 2)))[:, 2:])
    p.check(turned * a, np.pad(a, ((0, 0), (0, 2)))[:, 2:] * a)


def party_of_few_slots() -> Party:
    """Returns a party whose set has 16 slots. The values of a ciphertext repeat at all its places."""
    return Party(parameters(slots=16), rotations=(1,))


@FAST
@given(st.data())
def test_sparse_matrices(data: st.DataObject) -> None:
    """A matrix with a few nonzero diagonals is correct with any number of baby steps; zero diagonals need no key switch."""
    p, size = party(), 16
    w = np.zeros((size, size))
    for k in data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=4)):
        w[np.arange(size), (np.arange(size) + k) % size] = data.draw(
            st.floats(-2, 2).filter(lambda v: v == 0 or abs(v) > 1e-3)
        )
    baby = data.draw(st.integers(0, size))
    t = hg.ckks.LinearTransform(p.parameters, w, repeats=True, baby=baby, level=2)
    assert len(t.rotations) <= 8 or baby
    a = real()[:size]
    p.check(t @ p.bound(keys_for(p, t), np.tile(a, SLOTS // size)), np.tile(w @ a, SLOTS // size))


def test_errors_of_matrices(p: Party) -> None:
    """Wrong shapes, levels and keys are refused."""
    x = p.tensor(real())
    for wrong in (np.ones(3), np.ones((2, SLOTS + 1)), np.zeros((0, 4))):
        with pytest.raises(hg.ShapeError):
            hg.ckks.LinearTransform(p.parameters, wrong)
    with pytest.raises(hg.ShapeError, match="power of two"):
        hg.ckks.LinearTransform(p.parameters, np.ones((3, 3)), repeats=True)
    with pytest.raises(hg.ShapeError, match="does not fit"):
        hg.matmul(np.ones((2, 3)), x)
    with pytest.raises(hg.LevelError):
        hg.ckks.LinearTransform(p.parameters, np.ones((2, 2)), level=1)
    t = hg.ckks.LinearTransform(p.parameters, random_matrix(64, 64), repeats=True)
    with pytest.raises(hg.LevelError, match="level 6"):
        t @ (x * x)
    with pytest.raises(hg.MissingKeyError, match="rotation"):
        t @ x
    with pytest.raises(hg.DtypeError):
        hg.matmul(np.ones((2, 2)), np.ones(2))  # type: ignore[type-var]
    with pytest.raises(hg.MismatchError):
        hg.ckks.LinearTransform(parameters(levels=4), np.eye(SLOTS), level=2)(x)


# Polynomials


def evaluate(coefficients: Any, a: Any, basis: str) -> Any:
    """Evaluates the polynomial by NumPy."""
    c = np.asarray(coefficients, dtype=float)
    return chebyshev.chebval(a, c) if basis == "chebyshev" else polynomial.polyval(a, c)


@pytest.mark.parametrize("basis", ["chebyshev", "monomial"])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 63])
def test_polynomials_of_a_degree(p: Party, degree: int, basis: str) -> None:
    """A polynomial takes the fewest levels and ends at the scale of its last level."""
    a = real(2)
    c = np.random.default_rng(degree).uniform(-1, 1, degree + 1)
    y = hg.ckks.polynomial(p.tensor(a), c, basis)
    levels = hg.ckks.polynomial_depth(degree)
    assert levels == degree.bit_length()
    assert (y.level, y.degree) == (7 - levels, 1)
    assert y.scale == pytest.approx(p.parameters.scale(y.level), rel=2**-30)
    p.check(y, evaluate(c, a, basis) + 0 * a, 2e-6 * (degree + 1))


@FAST
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(-8, 8).filter(lambda v: abs(v) > 1e-6)), min_size=1, max_size=48),
    st.sampled_from(["chebyshev", "monomial"]),
    st.sampled_from(["any", "odd", "even"]),
)
def test_any_polynomial(coefficients: list[float], basis: str, parity: str) -> None:
    """Polynomials are correct if any of their coefficients are zero, also if the last coefficients are."""
    p, a = party(), real()
    c = np.array(coefficients)
    if parity != "any":
        c[(0 if parity == "odd" else 1) :: 2] = 0
    y = hg.ckks.polynomial(p.tensor(a), c, basis)
    used = int(np.flatnonzero(c).max(initial=0))
    assert y.level == 7 - used.bit_length()
    p.check(y, evaluate(c, a, basis) + 0 * a, 1e-4)


def test_polynomials_at_other_levels_and_word_sizes() -> None:
    """Polynomials of computed tensors are correct in both word sizes."""
    c = chebyshev.chebinterpolate(np.exp, 7)
    for word_size in (64, 32):
        p, a = party(word_size), real()
        y = hg.ckks.polynomial(p.tensor(a) * 0.5, c, "chebyshev")
        assert (y.level, y.scale) == (3, p.parameters.scale(3))
        p.check(y, chebyshev.chebval(a / 2, c))
        d = np.random.default_rng(5).uniform(-1, 1, 41)
        p.check(hg.ckks.polynomial(p.tensor(a), d, "chebyshev"), chebyshev.chebval(a, d), 1e-4)


def test_errors_of_polynomials(p: Party) -> None:
    """Wrong levels, coefficients and keys are refused."""
    x = p.tensor(real())
    with pytest.raises(hg.LevelError, match=r"degree 64 needs 7 levels.*level 7"):
        hg.ckks.polynomial(x, np.ones(65))
    with pytest.raises(hg.ParameterError, match="basis"):
        hg.ckks.polynomial(x, [1, 2], "legendre")
    with pytest.raises(hg.DtypeError):
        hg.ckks.polynomial(x, [1j, 2])
    with pytest.raises(hg.ShapeError):
        hg.ckks.polynomial(x, [])
    with pytest.raises(hg.PlaintextRangeError):
        hg.ckks.polynomial(x, [1, np.inf])
    with pytest.raises(hg.MissingKeyError):
        hg.ckks.polynomial(p.secret.encrypt(real()), [1, 2, 3])


# Keys, files, errors


def test_files(p: Party, tmp_path: Path) -> None:
    """Tensors, computed tensors and keys of each kind are equal after saving and loading."""
    a = real(2)
    x = p.secret.encrypt(a)
    x.save(tmp_path / "x.hg")
    p.keys.save(tmp_path / "keys.hg")
    p.secret.save(tmp_path / "secret.hg")
    p.secret.public_key().save(tmp_path / "public.hg")
    keys = hg.load(tmp_path / "keys.hg")
    assert isinstance(keys, hg.ckks.EvaluationKeys)
    assert (keys.rotations, keys.relinearize, keys.conjugate) == (p.keys.rotations, True, True)
    server = hg.Server(keys)
    y = server.load(tmp_path / "x.hg") * 0.5
    y.save(tmp_path / "y.hg")
    z = hg.load(tmp_path / "y.hg")
    assert isinstance(z, hg.ckks.Tensor)
    assert (z.level, z.scale, z.precision) == (y.level, y.scale, None)
    assert z.to_bytes() == y.to_bytes()
    secret = hg.SecretKey.load(tmp_path / "secret.hg")
    assert secret.id == p.secret.id
    np.testing.assert_allclose(secret.decrypt(z), a / 2, atol=1e-6)
    public = hg.load(tmp_path / "public.hg")
    np.testing.assert_allclose(secret.decrypt(public.encrypt(a)), a, atol=2e-6)
    p.check(p.secret.public_key().encrypt(a), a)
    np.testing.assert_allclose(secret.decrypt(server.from_bytes(x.to_bytes())), a, atol=2e-6)
    assert len(x.to_bytes()) < 0.6 * len((x + 0.5).to_bytes())
    with pytest.raises(hg.FormatError, match="SecretKey"):
        hg.load(tmp_path / "secret.hg")
    data = bytearray(x.to_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.hg").write_bytes(bytes(data))
    with pytest.raises(hg.DamagedFileError):
        hg.load(tmp_path / "bad.hg")


def test_the_command_line_supports_ckks(p: Party, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands inspect, params and selftest support CKKS."""
    x = p.tensor(real(2))
    x.save(tmp_path / "x.hg")
    (x * x).save(tmp_path / "y.hg")
    p.keys.save(tmp_path / "keys.hg")
    p.secret.save(tmp_path / "secret.hg")
    names = ["x.hg", "y.hg", "keys.hg", "secret.hg"]
    assert run(["inspect", *(str(tmp_path / name) for name in names)]) == 0
    said = capsys.readouterr().out
    assert said.count("whole: digest") == said.count("scheme  CKKS") == said.count("below 128 bits") == len(names)
    assert "N = 1,024" in said
    assert run(["params", "n15-l20"]) == 0
    assert "19 multiplications" in capsys.readouterr().out
    assert run(["params", "--scheme", "ckks", "--depth", "2", "--precision", "20"]) == 0
    assert "CKKS" in capsys.readouterr().out
    for trial in selftest_ckks.QUICK:
        rows = list(selftest_ckks.run_trial(trial))
        assert len(rows) == 2 + len(selftest_ckks.OPERATIONS)
        assert [row for row in rows if row.fault] == []


def test_wrong_keys(p: Party) -> None:
    """Another key, another set, another scheme and missing keys are errors."""
    a, other = real(), stranger()
    x = p.tensor(a)
    with pytest.raises(hg.WrongKeyError):
        other.secret.decrypt(x)
    with pytest.raises(hg.WrongKeyError):
        x + other.tensor(a)
    with pytest.raises(hg.WrongKeyError):
        other.server.bind(x)
    small = hg.SecretKey.generate(parameters(levels=2)).encrypt(a)
    with pytest.raises(hg.MismatchError):
        x + small
    with pytest.raises(hg.MismatchError):
        p.server.bind(small)
    with pytest.raises(hg.MissingKeyError, match="Server"):
        p.secret.encrypt(a) * p.secret.encrypt(a)
    bare = hg.Server(p.secret.evaluation_keys(relinearize=False)).bind(p.secret.encrypt(a))
    with pytest.raises(hg.MissingKeyError, match="relinearize"):
        bare * bare
    with pytest.raises(hg.MissingKeyError, match="conjugat"):
        bare.conjugate()


def test_values_that_are_refused(p: Party) -> None:
    """Wrong types, shapes and magnitudes are refused."""
    x = p.tensor(real())
    with pytest.raises(hg.DtypeError):
        p.secret.encrypt(["a"] * SLOTS)
    with pytest.raises(hg.DtypeError):
        x + "a"
    for bad in (np.inf, np.nan, 1e300):
        with pytest.raises(hg.PlaintextRangeError):
            p.secret.encrypt(np.full(SLOTS, bad))
    with pytest.raises(hg.ShapeError, match="pad=True"):
        p.secret.encrypt([1.0, 2.0])
    with pytest.raises(hg.ShapeError, match="slots"):
        p.secret.encrypt(np.zeros(SLOTS + 1))
    with pytest.raises(hg.ShapeError):
        p.secret.encrypt(1.0)
    with pytest.raises(hg.ShapeError, match="last axis"):
        x + np.ones(5)
    with pytest.raises(hg.PlaintextRangeError, match="zero"):
        x / 0.0
    with pytest.raises(hg.DtypeError, match="clear numbers"):
        1 / x
    with pytest.raises(hg.ParameterError):
        x**0
    with pytest.raises(TypeError):
        bool(x)
    with pytest.raises(hg.DtypeError):
        p.secret.decrypt(real())  # type: ignore[arg-type]
    with pytest.raises(hg.DtypeError, match="CKKS"):
        hg.shrink(x)  # type: ignore[type-var]


def test_plaintexts_are_encoded_once(p: Party) -> None:
    """A plaintext is encoded once per level and then used for products and sums."""
    a, b = real(2), real(seed=8)
    x = p.tensor(a)
    plain = p.server.encode(b)
    assert plain.shape == ()
    p.check(x * plain, a * b)
    p.check(x + plain, a + b)
    p.check(x - plain, a - b)
    low = hg.ckks.encode(p.parameters, b, level=6)
    p.check(x * x * low, a * a * b)
    with pytest.raises(hg.ScaleError):
        hg.ckks.encode(p.parameters, b, scale=0.1)


def test_decryption_for_publication(p: Party) -> None:
    """Decryption for publication adds noise of the requested size. Decryption for publication is refused if no precision or
    no bound remains.
    """
    a = real()
    x = p.tensor(a)
    errors = [np.abs(p.secret.decrypt(x, publish_bits=bits) - a).max() for bits in (0, 8)]
    plain = np.abs(p.secret.decrypt(x) - a).max()
    assert plain < errors[0] < errors[1] < 1e-2
    assert np.any(p.secret.decrypt(x, publish_bits=8) != p.secret.decrypt(x, publish_bits=8))
    with pytest.raises(hg.NoiseError):
        p.secret.decrypt(x, publish_bits=60)
    loaded = hg.ckks.Tensor(hg._core.ckks.Ciphertext.from_bytes((x * x).to_bytes()))
    with pytest.raises(hg.NoiseError):
        p.secret.decrypt(loaded, publish_bits=4)
    known = (x * x).precision
    assert np.abs(p.secret.decrypt(loaded, publish_bits=4, precision=known) - a * a).max() < 1e-2
    with pytest.raises(hg.NoiseError):
        p.secret.decrypt(loaded, publish_bits=4, precision=1)
    with pytest.raises(hg.ParameterError):
        p.secret.decrypt(x, publish_bits=-1)


# Parameters


def test_parameters_are_found_and_explained() -> None:
    """The parameter set found for a request is secure and sufficient."""
    params = hg.ckks.parameters(depth=2, precision=20)
    assert params.security == "128-bit"
    assert params.depth >= 2
    text = str(params)
    for word in ("CKKS", "128-bit", "levels", "slots" if "slots" in text else "numbers", "publish"):
        assert word in text
    p = Party(params, rotations=())
    a = np.random.default_rng(1).uniform(-1, 1, params.slots)
    x = p.tensor(a)
    found = p.secret.decrypt(x * x * x)
    np.testing.assert_allclose(found, a**3, atol=2**-20)
    assert params == hg.ckks.parameters(depth=2, precision=20)
    assert hash(params) == hash(hg.ckks.parameters(depth=2, precision=20))
    wider = hg.ckks.parameters(depth=2, precision=20, slots=2 * params.n)
    assert wider.n > params.n


def test_parameters_that_are_refused() -> None:
    """Insecure, impossible and unknown sets are refused."""
    with pytest.raises(hg.SecurityError):
        hg.ckks.parameters(n=1024, levels=7)
    with pytest.raises(hg.ParameterError):
        hg.ckks.parameters("n14-none")
    with pytest.raises(hg.ParameterError):
        hg.ckks.parameters(depth=99, precision=40)
    with pytest.raises(hg.ParameterError, match="needs a name"):
        hg.ckks.parameters()
    with pytest.raises(hg.ParameterError, match="depth"):
        hg.ckks.parameters(depth=-1)
    assert "n15-l20" in hg.ckks.named()


def test_named_sets_are_as_their_names_state() -> None:
    """Named sets are secure; N and the levels after a bootstrap are as their names state."""
    for name in hg.ckks.named():
        params = hg.ckks.parameters(name)
        assert params.security == "128-bit"
        assert name.startswith(f"n{params.n.bit_length() - 1}")
        assert params.depth_between == int(name.partition("-b")[2].partition("-")[0].partition("/")[0] or 0)


@pytest.mark.parametrize("op", [operator.add, operator.mul])
def test_schemes_do_not_mix(p: Party, op: Operator) -> None:
    """Operators of CKKS and BGV tensors refuse each other, on either side, with a message."""
    exact = hg.SecretKey.generate(hg.bgv.parameters(n=1024, log_q=100, special=1, plain_modulus=65537, insecure=True))
    y = hg.Server(exact.evaluation_keys()).bind(exact.encrypt(np.zeros(1024, dtype=int), coefficients=-1))
    x = p.tensor(real())
    for a, b in ((x, y), (y, x)):
        with pytest.raises(hg.MismatchError, match="schemes do not mix"):
            op(a, b)


def test_errors_state_the_cause() -> None:
    """Errors state the scale of an unrescaled product and the largest size of a matrix."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=3, precision=25, slots=4))
    x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt([0.1, 0.2, 0.3, 0.4]))
    with pytest.raises(hg.ScaleError, match=r"this tensor has a scale of 2\^.*rescale products before"):
        hg.ckks.polynomial(hg.ckks.multiply(x, x, rescale=False), [1, 2, 3])
    with pytest.raises(
        hg.ShapeError, match="of 17 x 4: it must have at most as many rows and columns as there are slots, 4"
    ):
        hg.ckks.LinearTransform(secret.parameters, np.ones((17, 4)))
