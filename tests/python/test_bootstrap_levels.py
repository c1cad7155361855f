"""Bootstraps to a level below the top."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core

#: Small sets: 64-bit words, 32-bit words, few slots, and a corrected sine. Bootstraps start at level 3 or 4.
SETS: dict[str, dict[str, Any]] = {
    "w64": {"depth": 4, "log_scale": 39},
    "w32": {"depth": 4, "log_scale": 29.5, "word_size": 32},
    "few": {"depth": 3, "log_scale": 39, "slots": 64},
    "corrected": {},
}


@functools.cache
def parameters(name: str) -> hg.ckks.Parameters:
    """Returns a set with bootstrapping."""
    if name == "corrected":
        spec = _core.ckks.make_bootstrapping_spec(2**11, 3, 39, 49.9, insecure=True, corrected=True)
        return hg.ckks.Parameters(_core.ckks.Parameters(spec))
    return hg.ckks.parameters(n=2**11, bootstrap=True, insecure=True, **SETS[name])


@functools.cache
def server(name: str) -> tuple[hg.ckks.SecretKey, Any]:
    """Returns a secret key and a server of a set."""
    secret = hg.SecretKey.generate(parameters(name))
    return secret, hg.Server(secret.evaluation_keys(bootstrap=True, rotations=[1], level=5))


@pytest.mark.parametrize("name", SETS)
def test_bootstraps_to_every_level(name: str) -> None:
    """A bootstrap to a lower level has the values, the scale and the precision of one to the top; its result can be used."""
    params = parameters(name)
    secret, party = server(name)
    a = np.random.default_rng(1).uniform(-1, 1, (3, params.slots))
    x = party.bind(secret.encrypt(a, bound=1, level=params.bootstrapping_level))
    top = hg.ckks.bootstrap(x)
    for level in range(params.bootstrapping_level + 1, params.levels + 1):
        y = hg.ckks.bootstrap(x, level=level)
        assert (y.level, y.shape, y.scale) == (level, x.shape, params.scale(level))
        assert y.precision is not None
        assert top.precision is not None
        assert abs(y.precision - top.precision) < 1.5
        error = np.abs(secret.decrypt(y) - a).max()
        assert error < 2.0**-y.precision
        sums = y + hg.ckks.lower(top, level)
        assert np.abs(secret.decrypt(sums) - 2 * a).max() < 2.0**-13
        assert np.abs(secret.decrypt(y * y) - a * a).max() < 2.0**-12
    again = hg.ckks.bootstrap(hg.ckks.bootstrap(x, level=params.levels - 1) * 0.5, level=params.bootstrapping_level + 1)
    assert np.abs(secret.decrypt(again) - a / 2).max() < 2.0**-12


def test_complex_values_iterations_and_batches() -> None:
    """Bootstraps to a lower level take complex values, several iterations, tensors of any shape, and none."""
    params = parameters("w64")
    secret, party = server("w64")
    level = params.bootstrapping_level + 1
    rng = np.random.default_rng(2)
    a = rng.uniform(-0.7, 0.7, params.slots) + 1j * rng.uniform(-0.7, 0.7, params.slots)
    z = party.bind(secret.encrypt(a, bound=1))  # above the level of bootstraps
    once, twice = (hg.ckks.bootstrap(z, iterations=n, level=level) for n in (1, 2))
    errors = [np.abs(secret.decrypt(y) - a).max() for y in (once, twice)]
    assert errors[1] < errors[0] < 2.0**-14
    assert hg.ckks.bootstrap(party.bind(secret.encrypt(np.zeros((0, params.slots)))), level=level).shape == (0,)


def test_programs_record_bootstraps_to_a_level() -> None:
    """A recorded program has the bits of the function."""
    params = parameters("w64")
    secret, party = server("w64")
    a = np.random.default_rng(1).uniform(-1, 1, params.slots)
    x = party.bind(secret.encrypt(a, bound=1, level=params.bootstrapping_level))
    program = hg.program(lambda x: hg.ckks.bootstrap(x, level=6) * 0.5, x)
    want = hg.ckks.bootstrap(x, level=6) * 0.5
    assert np.array_equal(secret.decrypt(program(x)), secret.decrypt(want))


def test_errors_of_levels_of_bootstraps() -> None:
    """Unknown levels, and levels that a bootstrap could not raise, are refused."""
    params = parameters("w64")
    secret, party = server("w64")
    x = party.bind(secret.encrypt(np.zeros(params.slots), bound=1))
    for level in (0, params.levels + 1, -1):
        with pytest.raises(hg.LevelError, match="no level"):
            hg.ckks.bootstrap(x, level=level)
    for level in (1, params.bootstrapping_level):
        with pytest.raises(hg.LevelError, match="gives results of levels"):
            hg.ckks.bootstrap(x, level=level)
    with pytest.raises(hg.DtypeError):
        hg.ckks.bootstrap(x, level="5")  # type: ignore[arg-type]
    with pytest.raises(hg.LevelError, match="bootstrapping needs level"):
        hg.ckks.bootstrap(hg.ckks.lower(x, 2), level=6)


def bits(device: str) -> list[bytes]:
    """Returns the bytes of bootstraps from a fixed seed on a device."""
    on = hg.ckks.Parameters(parameters("w64")._core.on_device(device))
    secret = hg.SecretKey(_core.ckks.SecretKey.generate_for_test(on._core, rigs.SEED))
    x = hg.Server(secret.evaluation_keys(bootstrap=True)).bind(
        secret.encrypt(np.random.default_rng(3).uniform(-1, 1, on.slots), bound=1, level=on.bootstrapping_level)
    )
    return [hg.ckks.bootstrap(x, level=level).to_bytes() for level in (5, 6)]


@functools.cache
def reference() -> list[bytes]:
    """Returns the bytes of the device `ref`."""
    return bits("ref")


@pytest.mark.parametrize("device", ["cpu", "2*cpu/limb/uncalibrated", "cuda:0"])
def test_every_device_gives_the_bits_of_ref(device: str) -> None:
    """Bootstraps to a lower level have equal bits on every device."""
    try:
        parameters("w64")._core.on_device(device)
    except (hg.ParameterError, hg.DeviceError):
        pytest.skip(f"device {device} is not available")
    assert bits(device) == reference()
