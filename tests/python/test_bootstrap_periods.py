"""Bootstraps of values that repeat with a period."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core
from heliograph.ml.costs import Counter

#: Small sets: 64-bit words, 32-bit words, few slots, and a corrected sine.
SETS: dict[str, dict[str, Any]] = {
    "w64": {"depth": 4, "log_scale": 39},
    "w32": {"depth": 4, "log_scale": 29.5, "word_size": 32},
    "few": {"depth": 3, "log_scale": 39, "slots": 64},
    "corrected": {},
}
HALVES = 128  # a period whose rotation has a key


@functools.cache
def parameters(name: str) -> hg.ckks.Parameters:
    """Returns a set with bootstrapping."""
    if name == "corrected":
        spec = _core.ckks.make_bootstrapping_spec(2**11, 3, 39, 49.9, insecure=True, corrected=True)
        return hg.ckks.Parameters(_core.ckks.Parameters(spec))
    return hg.ckks.parameters(n=2**11, bootstrap=True, insecure=True, **SETS[name])


@functools.cache
def server(name: str, *rotations: int) -> tuple[hg.ckks.SecretKey, Any]:
    """Returns a secret key and a server of a set."""
    secret = hg.SecretKey.generate(parameters(name))
    return secret, hg.Server(secret.evaluation_keys(bootstrap=True, rotations=rotations))


def repeated(params: hg.ckks.Parameters, period: int, shape: tuple[int, ...] = (), parts: int = 1) -> Any:
    """Returns values that repeat with a period, real or complex ones."""
    a = np.random.default_rng(period).uniform(-0.7, 0.7, (parts, *shape, period))
    return np.tile(a[0] if parts == 1 else a[0] + 1j * a[1], params.slots // period)


def error(secret: hg.ckks.SecretKey, x: Any, values: Any) -> float:
    """Returns the largest error of a value."""
    return float(np.abs(secret.decrypt(x) - values).max())


@pytest.mark.parametrize("name", SETS)
def test_every_period(name: str) -> None:
    """Each power of two of slots gives the values, with an error like that of the whole bootstrap, at every place."""
    params = parameters(name)
    secret, party = server(name)
    whole = None
    for period in [params.slots >> k for k in range(params.slots.bit_length())]:
        a = repeated(params, period, (2,) if name == "few" else ())
        x = party.bind(secret.encrypt(a, bound=1, level=params.bootstrapping_level))
        y = hg.ckks.bootstrap(x, level=params.levels - 1, period=period)
        assert (y.level, y.shape, y.dtype) == (params.levels - 1, a.shape[:-1], a.dtype)
        whole = whole or error(secret, y, a)
        assert error(secret, y, a) < 2 * whole
        assert error(secret, y * y, a * a) < 2.0**-11


@pytest.mark.parametrize("rotations", [(), (HALVES,)], ids=["two sines", "one sine"])
@pytest.mark.parametrize(("shape", "parts"), [((), 2), ((3,), 1), ((2, 2), 1), ((2,), 2)])
def test_halves(rotations: tuple[int, ...], shape: tuple[int, ...], parts: int) -> None:
    """Complex values and pairs have the same values with the key of the rotation, which saves a sine, and without it."""
    params = parameters("w64")
    secret, party = server("w64", *rotations)
    a = repeated(params, HALVES, shape, parts)
    x = party.bind(secret.encrypt(a, bound=1, level=params.bootstrapping_level))
    for options in ({}, {"level": 5}, {"iterations": 2}):
        y = hg.ckks.bootstrap(x, period=HALVES, **options)
        assert (y.shape, y.dtype) == (shape, a.dtype)
        assert error(secret, y, a) < (2.0**-23 if options.get("iterations") else 2.0**-16)
    assert error(secret, hg.ckks.bootstrap(x, period=512), a) < 2.0**-16


@pytest.mark.parametrize("name", ["w32", "corrected"])
def test_halves_in_other_sets(name: str) -> None:
    """One sine serves both halves with 32-bit words and with a corrected sine."""
    params = parameters(name)
    secret, party = server(name, HALVES)
    a = repeated(params, HALVES, (), 2)
    x = party.bind(secret.encrypt(a, bound=1, level=params.bootstrapping_level))
    assert error(secret, hg.ckks.bootstrap(x, period=HALVES), a) < 2 * error(secret, hg.ckks.bootstrap(x), a)


def test_noise_need_not_repeat() -> None:
    """An error that does not repeat stays an error of about its size, and the bound on the error covers its growth."""
    params = parameters("w64")
    secret, party = server("w64")
    a, off = repeated(params, 16), np.random.default_rng(3).choice([-1, 1], params.slots) * 2.0**-8
    x = party.bind(secret.encrypt(a + off, bound=1, level=params.bootstrapping_level))
    known = type(x)(_core.ckks.with_error(x._core, 2.0**-8, 2.0**-8), x._keys)
    y = hg.ckks.bootstrap(known, period=16)
    found = secret.decrypt(y, unchecked=True) - a
    assert 0.6 < np.sqrt(np.mean(found**2)) / 2.0**-8 < 1.1  # the imaginary part of the error is removed
    assert np.abs(found).max() < _core.ckks.error_bounds(y._core)[1] < 8.5 * 2.0**-8  # 8 is the square root of 64 copies


def test_precision_is_declared() -> None:
    """The caller declares the period, so this process promises no precision, as for `within`."""
    params = parameters("w64")
    secret, party = server("w64")
    x = party.bind(secret.encrypt(repeated(params, 64), bound=1, level=params.bootstrapping_level))
    assert hg.ckks.bootstrap(x, period=64).precision is None
    assert hg.ckks.bootstrap(x, period=params.slots).precision == hg.ckks.bootstrap(x).precision
    with hg.strict(), pytest.raises(hg.HeliographError):
        secret.decrypt(hg.ckks.bootstrap(x, period=64))


def test_counts() -> None:
    """Smaller periods take fewer products, halves take one sine, and the closed counts equal those of the null device."""

    def products(period: int | None, rotations: tuple[int, ...] = (), parts: int = 1) -> int:
        null = hg.ckks.Parameters(parameters("w64")._core.on_device("null"))
        secret = hg.SecretKey.generate(null)
        party = hg.Server(secret.evaluation_keys(bootstrap=True, rotations=rotations))
        x = party.bind(secret.encrypt(np.ones(null.slots) * (1j if parts == 2 else 1), bound=1)).lower(
            null.bootstrapping_level
        )
        x = x.within((-1.0, 1.0)) if parts == 1 else x
        found = hg.forecast(lambda a: hg.ckks.bootstrap(a, level=6, period=period), x).products
        if parts == 1:
            assert found == Counter(parameters("w64")).bootstrap(6, period).products
        return int(found)

    counts = [products(period) for period in (None, 512, 256, 64, 8)]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == len(counts)
    assert products(HALVES, (HALVES,), 2) < 0.85 * products(HALVES, (), 2)
    assert 0.9 < products(HALVES, (HALVES,), 2) / products(None, (), 1) < 1.1


def test_keys_for_a_purpose() -> None:
    """Keys for a function have the rotation that saves a sine, if its example has two halves."""
    params = parameters("w64")
    secret = hg.SecretKey.generate(params)
    boot = functools.partial(hg.ckks.bootstrap, bound=1, period=HALVES)
    own = set(secret.evaluation_keys(bootstrap=True).rotations)
    for example, more in ((np.zeros(params.slots), set()), (np.zeros((2, params.slots)), {HALVES})):
        assert set(secret.evaluation_keys(for_=[(boot, example)]).rotations) - own == more


def test_programs_record_periods() -> None:
    """A recorded program has the bits of the function."""
    params = parameters("w64")
    secret, party = server("w64", HALVES)
    x = party.bind(secret.encrypt(repeated(params, HALVES, (2,)), bound=1, level=params.bootstrapping_level))

    def function(x: Any) -> Any:
        return hg.ckks.bootstrap(x, level=6, period=HALVES)

    assert hg.program(function, x)(x).to_bytes() == function(x).to_bytes()


def test_refusals() -> None:
    """Periods that do not divide the slots, and values that cannot repeat, are refused."""
    params = parameters("w64")
    secret, party = server("w64")
    x = party.bind(secret.encrypt(np.zeros(params.slots), bound=1))
    for period in (3, 48, 2 * params.slots):
        with pytest.raises(hg.ParameterError, match=rf"power of two of at most the set's period, 1024, not {period}"):
            hg.ckks.bootstrap(x, period=period)
    for wrong in (0, -4, 2.5, "4"):
        with pytest.raises(hg.ParameterError, match="period of a bootstrap must be an integer"):
            hg.ckks.bootstrap(x, period=wrong)  # type: ignore[arg-type]
    short = party.bind(secret.encrypt(np.ones(64), pad=True, bound=1))
    with pytest.raises(hg.ShapeError, match="64 values and unused slots behind them"):
        hg.ckks.bootstrap(short, period=64)
    assert hg.ckks.bootstrap(x[None][:0], period=64).shape == (0,)


def bits(device: str) -> list[bytes]:
    """Returns the bytes of bootstraps from a fixed seed on a device."""
    on = hg.ckks.Parameters(parameters("w64")._core.on_device(device))
    secret = hg.SecretKey(_core.ckks.SecretKey.generate_for_test(on._core, rigs.SEED))
    party = hg.Server(secret.evaluation_keys(bootstrap=True, rotations=[HALVES]))
    x = party.bind(secret.encrypt(repeated(on, HALVES, (2,)), bound=1, level=on.bootstrapping_level))
    return [hg.ckks.bootstrap(y, level=5, period=HALVES).to_bytes() for y in (x, x[0])]


@functools.cache
def reference() -> list[bytes]:
    """Returns the bytes of the device `ref`."""
    return bits("ref")


@pytest.mark.parametrize("device", ["cpu", "2*cpu/limb/uncalibrated", "cuda:0"])
def test_every_device_gives_the_bits_of_ref(device: str) -> None:
    """Bootstraps with a period have equal bits on every device."""
    try:
        parameters("w64")._core.on_device(device)
    except (hg.ParameterError, hg.DeviceError):
        pytest.skip(f"device {device} is not available")
    assert bits(device) == reference()
