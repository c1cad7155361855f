"""Means, variances, covariances and correlations of encrypted numbers equal NumPy's, for any number of values."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
from ckks_rig import SLOTS, Party, parameters
from heliograph import _core

COUNTS = (1, 2, 300, SLOTS)
ERROR = 1e-7


@functools.cache
def party(slots: int = 0, n: int = 2 * SLOTS) -> Party:
    """Returns a party with the keys for statistics and enough levels for a correlation."""
    p = parameters(levels=11, slots=slots, n=n)
    return Party(p, rotations=tuple(hg.ckks.sum_rotations(p.period)))


def sample(count: int, *shape: int, seed: int = 1) -> npt.NDArray[np.float64]:
    """Returns normally distributed heights, whose mean is large compared with their deviation."""
    return np.random.default_rng(seed).normal(1.75, 0.1, (*shape, count))


def check(p: Party, found: hg.ckks.Tensor, expected: Any, error: float = ERROR) -> None:
    """Checks that every slot has NumPy's result."""
    values = p.secret.decrypt(found)
    assert values.shape[:-1] == np.shape(expected)
    np.testing.assert_allclose(values, np.broadcast_to(np.asarray(expected)[..., None], values.shape), atol=error, rtol=0)


@pytest.mark.parametrize("count", COUNTS)
def test_mean_and_variance(count: int) -> None:
    """Statistics are correct for the encrypted values, for any number of slots, and use the documented levels."""
    p, a = party(), sample(count)
    x = p.tensor(a, pad=True)
    mean, var = hg.ckks.mean(x, "slots"), hg.ckks.var(x, "slots")
    check(p, mean, a.mean())
    check(p, var, a.var())
    assert x.level - mean.level == 1
    assert x.level - var.level == (2 if count == SLOTS else 3)
    if count > 1:
        check(p, hg.ckks.var(x, ddof=1), a.var(ddof=1))


@pytest.mark.parametrize("count", COUNTS)
def test_unused_places_do_not_count(count: int) -> None:
    """Additions change the unused places, too; statistics ignore these places."""
    p, a = party(), sample(count)
    x = 1000 - p.tensor(a, pad=True) * 3
    check(p, hg.ckks.mean(x, "slots"), 1000 - 3 * a.mean(), 1e-5)
    check(p, hg.ckks.var(x, "slots"), 9 * a.var(), 1e-5)


def test_statistics_of_a_thousand_slots() -> None:
    """A set of 1,000 slots rotates all N/2 places; with a plain sum, the mean would be divided by the wrong number."""
    p, a = party(slots=1000, n=2048), sample(1000)
    x = p.tensor(a)
    check(p, hg.ckks.mean(x, "slots"), a.mean())
    check(p, hg.ckks.var(x, "slots"), a.var())
    b = 2 * a + sample(1000, seed=2)
    check(p, hg.ckks.cov(x, p.tensor(b)), np.cov(a, b))


def test_computed_values_have_room() -> None:
    """The bound of a variance does not assume that values have magnitude 1. So a variance can be decrypted if the set has
    room for the values.
    """
    parameters = hg.ckks.parameters(depth=3, precision=30, slots=1000)  # the set has a room of 2^15
    p = Party(parameters, rotations=tuple(hg.ckks.sum_rotations(parameters.period)))
    a = sample(1000) * np.array([[1], [2]])
    x = p.tensor(a)
    for found, expected in (
        (hg.ckks.mean(x, "slots"), a.mean(1)),
        (hg.ckks.var(x, "slots"), a.var(1)),
        (hg.ckks.cov(x), np.cov(a)),
    ):
        check(p, found, expected)
        assert found.precision is not None
        assert found.precision > 0


def test_the_precision_of_sums_over_slots() -> None:
    """Errors of different slots are added like random errors: a variance promises 20 bits and has 20 correct bits."""
    parameters = hg.ckks.parameters(depth=3, precision=30, slots=100)
    for seed in range(4):
        p, a = Party(parameters, rotations=tuple(hg.ckks.sum_rotations(parameters.period))), sample(100, seed=seed) - 1.75
        x = p.tensor(10 * a)
        for found, expected, least in (
            (x.sum_slots(), 10 * a.sum(), 20),
            (hg.ckks.mean(x, "slots"), 10 * a.mean(), 29),
            (hg.ckks.var(x, "slots"), 100 * a.var(), 20),
        ):
            assert found.precision is not None
            assert least < found.precision < -np.log2(np.abs(p.secret.decrypt(found) - expected).max())
    wanted = hg.parameters_for(lambda x: hg.ckks.var(x), 10 * a, scheme="ckks", precision=20)
    p = Party(wanted, rotations=tuple(hg.ckks.sum_rotations(wanted.period)))
    np.testing.assert_allclose(p.secret.decrypt(hg.ckks.var(p.tensor(10 * a), "slots")), 100 * a.var(), atol=2.0**-20)


def test_statistics_of_repeating_values() -> None:
    """Statistics of 16 values that repeat in the slots equal NumPy's."""
    p, a = party(slots=16), sample(16)
    check(p, hg.ckks.var(p.tensor(a), "slots"), a.var())
    check(p, hg.ckks.var(p.tensor(a[:5], pad=True), "slots"), a[:5].var())


@pytest.mark.parametrize("count", [1, 300, SLOTS])
def test_batches(count: int) -> None:
    """Statistics of each ciphertext, and of all ciphertexts along an axis, equal NumPy's."""
    p, a = party(), sample(count, 2, 3)
    x = p.tensor(a, pad=True)
    check(p, hg.ckks.mean(x, "slots"), a.mean(2))
    check(p, hg.ckks.var(x, "slots"), a.var(2))
    check(p, hg.ckks.mean(x, axis=0), a.mean((0, 2)))
    check(p, hg.ckks.var(x, axis=-1, ddof=1), a.var((1, 2), ddof=1))


@pytest.mark.parametrize("count", [2, 300, SLOTS])
def test_covariances(count: int) -> None:
    """Covariances of one tensor's ciphertexts, of two tensors at different levels, and of one variable equal NumPy's."""
    p, a = party(), sample(count, 3)
    a[1] += 2 * a[0]
    x = p.tensor(a, pad=True)
    check(p, hg.ckks.cov(x), np.cov(a))
    check(p, hg.ckks.cov(x[0], hg.ckks.lower(x[1:], 6), ddof=0), np.cov(a, ddof=0))
    check(p, hg.ckks.cov(x[2]), np.cov(a[2]))


@functools.cache
def deep(slots: int = 0) -> Party:
    """Returns a party with enough levels for a division by deviations."""
    p = hg.ckks.parameters(n=2 * SLOTS, levels=24, log_scale=45, base_bits=60, special=3, slots=slots, insecure=True)
    return Party(p, rotations=tuple(hg.ckks.sum_rotations(p.period)))


def error_of(x: hg.ckks.Tensor) -> float:
    """Returns the error bound of a result."""
    return float(_core.ckks.error_bounds(x._core)[1])


@pytest.mark.parametrize("count", [300, SLOTS])
def test_correlations(count: int) -> None:
    """Correlations need no declared interval of the variances. The bounds of the values are sufficient."""
    p, a = deep(), sample(count, 3) * 10
    a[1] = (a[1] + 0.5 * a[0]) * 1.2
    x = p.tensor(a, pad=True, bound=(8, 40))
    expected = np.corrcoef(a)
    found = hg.ckks.corrcoef(x, least=0.9)
    check(p, found, expected, 2 * 2.0**-12)
    assert error_of(found) < 2.0**-6
    assert found.precision is None  # by the bounds, a deviation could be below 1/16 of the largest deviation
    check(p, hg.ckks.corrcoef(x[0], x[1], least=0.5, error=2.0**-15), expected[:2, :2], 2.0**-14)
    check(p, hg.ckks.corrcoef(x[2], least=1), 1.0, 2.0**-11)
    declared = hg.ckks.corrcoef(x, domain=(0.5, 2.5), error=2.0**-10)
    check(p, declared, expected, 2.0**-9)
    assert declared.level > found.level
    assert found.guards == ()  # all variances are inside the interval
    with pytest.raises(hg.OutOfIntervalError, match="the variances of corrcoef"):
        p.secret.decrypt(hg.ckks.corrcoef(x, domain=(0.2, 0.5), error=2.0**-10))


def test_small_deviations() -> None:
    """A variable whose deviation is below `least` has smaller coefficients, which can be seen in the diagonal. No value
    becomes very large.
    """
    p, a = deep(), sample(SLOTS, 4) - 1.75
    a[1] *= 1e-3
    a[2] = 0.25
    found = p.secret.decrypt(hg.ckks.corrcoef(p.tensor(a, bound=1), least=0.05))[..., 0]
    factors = np.sqrt(np.diagonal(found).clip(0))
    assert factors[[0, 3]] == pytest.approx([1, 1], abs=1e-4)
    assert factors[1] < 0.5
    assert factors[2] < 1e-3
    expected = np.corrcoef(np.where(np.arange(4)[:, None] == 2, sample(SLOTS), a)) * np.outer(factors, factors)
    np.testing.assert_allclose(found[:2, :2], expected[:2, :2], atol=1e-4)
    assert np.abs(found).max() < 1 + 1e-4


@pytest.mark.parametrize("count", [300, SLOTS])
def test_standardized_values(count: int) -> None:
    """Standardized values have mean 0 and deviation 1, for each ciphertext or along an axis of ciphertexts."""
    p, a = deep(), sample(count, 2, 3)
    x = p.tensor(a, pad=True, bound=(1, 3))
    for axis, along in (("slots", 2), (1, (1, 2))):
        found = hg.ckks.standardize(x, axis, least=0.05, ddof=1)  # type: ignore[arg-type]
        expected = (a - a.mean(along, keepdims=True)) / a.std(along, keepdims=True, ddof=1)
        largest = np.abs(p.secret.decrypt(found)[..., :count] - expected).max()
        assert largest < 2.0**-12 * (1 + np.abs(expected).max())
        assert largest < error_of(found)
        assert found.precision is None
    flat = hg.ckks.standardize(p.tensor(np.full(count, 0.5), pad=True, bound=(0, 1)), error=2.0**-10)
    assert np.abs(p.secret.decrypt(flat)).max() < 2.0**-8
    declared = hg.ckks.standardize(x[0, 0], domain=(0.005, 0.02))
    expected = (a[0, 0] - a[0, 0].mean()) / a[0, 0].std()
    assert np.abs(p.secret.decrypt(declared)[..., :count] - expected).max() < 1e-4


def test_divisions_by_deviations_that_are_refused() -> None:
    """A missing interval, a wrong interval, and noise above the error are typed errors."""
    p, a = deep(), sample(SLOTS, 2)
    x = p.tensor(a, bound=(1, 3))
    for function in (hg.ckks.corrcoef, functools.partial(hg.ckks.standardize, axis="slots")):
        for options in ({"domain": (2, 1)}, {"domain": (0, 1)}, {"domain": (1, float("inf"))}, {"domain": "ab"}):
            with pytest.raises(hg.ParameterError):
                function(x, **options)
        for least in (0, -1, float("nan"), "a", 1.5):
            with pytest.raises(hg.ParameterError, match="least must be"):
                function(x, least=least)
        with pytest.raises(hg.ParameterError, match="not both"):
            function(x, least=0.1, domain=(0.1, 1))
        with pytest.raises(hg.ParameterError, match="an error must be"):
            function(x, error=0)
        with pytest.raises(hg.NoiseError, match="pass a larger least= or error="):
            function(x, least=0.1, error=1e-11)
        with pytest.raises(hg.LevelError):
            function(hg.ckks.lower(x, 8), least=0.1)
        with pytest.raises(hg.DtypeError, match="real variables"):
            function(p.tensor(a + 1j))


@pytest.mark.parametrize("count", [1, 300, SLOTS])
def test_complex_values(count: int) -> None:
    """The variance is real; the covariance conjugates its second variable."""
    p, a = party(), sample(count, 2) + 1j * sample(count, 2, seed=7)
    x = p.tensor(a, pad=True)
    check(p, hg.ckks.mean(x, "slots"), a.mean(1))
    check(p, hg.ckks.var(x, "slots"), a.var(1))
    if count > 1:
        check(p, hg.ckks.cov(x), np.cov(a))


def test_errors() -> None:
    """Errors have a type and are raised before anything is computed."""
    p = party()
    x = p.tensor(sample(300, 2), pad=True)
    with pytest.raises(hg.LevelError, match=r"mean takes 1 level here.*level 1 of 11"):
        hg.ckks.mean(hg.ckks.lower(x, 1), "slots")
    with pytest.raises(hg.LevelError, match=r"var takes 3 levels here.*has 2 left"):
        hg.ckks.var(hg.ckks.lower(x, 3), "slots")
    with pytest.raises(hg.LevelError, match="cov takes 3 levels"):
        hg.ckks.cov(x, hg.ckks.lower(x, 3))
    with pytest.raises(hg.LevelError, match="corrcoef takes 4 levels"):
        hg.ckks.corrcoef(hg.ckks.lower(x, 4))
    with pytest.raises(hg.ParameterError, match="number of values, 300, not 300"):
        hg.ckks.var(x, "slots", ddof=300)
    with pytest.raises(hg.ShapeError, match="no axis 1"):
        hg.ckks.mean(x, axis=1)
    with pytest.raises(hg.ShapeError, match="of no values"):
        hg.ckks.mean(x[:0], axis=0)
    with pytest.raises(hg.ShapeError, match="as many slots each"):
        hg.ckks.cov(x, p.tensor(sample(299), pad=True))
    with pytest.raises(hg.ShapeError, match="one axis at most"):
        hg.ckks.cov(x.reshape(2, 1))
    with pytest.raises(hg.DtypeError, match="takes a tensor of CKKS"):
        hg.ckks.mean(sample(3), "slots")  # type: ignore[arg-type]
    with pytest.raises(hg.MissingKeyError, match="mean needs evaluation keys"):
        hg.ckks.mean(p.secret.encrypt(sample(SLOTS)), "slots")
    with pytest.raises(
        hg.MissingKeyError, match=r"mean: it needs the rotations 1, 2, 4,.* lack the rotations 2, 4,.*sum_rotations"
    ):
        hg.ckks.mean(hg.Server(p.secret.evaluation_keys(rotations=[1])).bind(p.secret.encrypt(sample(SLOTS))), "slots")


def test_unrescaled_products() -> None:
    """Statistics of an unrescaled product are refused, because its scale would round clear factors to 0."""
    p, a = party(), sample(SLOTS)
    x = p.tensor(a)
    square = hg.ckks.multiply(x, x, rescale=False)
    for use in (lambda t: t * 0.3, lambda t: t / a, lambda t: hg.ckks.inner_product(t[None], a[None]), hg.ckks.mean):
        with pytest.raises(hg.ScaleError, match="rescale products before"):
            use(square)
    np.testing.assert_allclose(p.secret.decrypt(hg.ckks.rescale(square) * 0.3), a * a * 0.3, atol=1e-6)
