"""Switching between CKKS and TFHE: values, errors, files, and computations between two switches."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import tfhe_rig

RELATIONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}


def ckks_parameters(slots: int = 64) -> hg.ckks.Parameters:
    """Returns a small set that has bootstrapping."""
    return hg.ckks.parameters(n=2**11, depth=5, log_scale=39, slots=slots, bootstrap=True, insecure=True)


class Party:
    """Secret keys of both schemes, and a server that can switch."""

    def __init__(self) -> None:
        self.ckks = hg.SecretKey.generate(ckks_parameters())
        self.tfhe = hg.SecretKey.generate(tfhe_rig.parameters("digits"))
        self.ckks_keys = self.ckks.evaluation_keys(rotations=[1], bootstrap=True)
        self.tfhe_keys = self.tfhe.evaluation_keys()
        self.keys = hg.switching.keys(self.ckks, self.tfhe)
        self.server = hg.switching.Server(self.keys, hg.Server(self.ckks_keys), self.tfhe_keys)


@functools.cache
def party() -> Party:
    """Returns the shared party."""
    return Party()


def test_values_become_integers_and_return() -> None:
    """Rounded values of many ciphertexts are compared exactly by TFHE, and the results return to CKKS."""
    p = party()
    values = np.random.default_rng(1).uniform(-1, 1, (3, 64))
    values[0, :4] = 0, 1 / 64, -1 / 64, 1
    x = p.ckks.encrypt(values, bound=1)
    y = p.server.to_tfhe(x, bits=10, unit=2**-8)
    whole = p.tfhe.decrypt(y)
    assert y.shape == (3, 64)
    assert np.abs(whole - values * 2**8).max() < 0.55
    assert np.array_equal(whole[0, :4], [0, 4, -4, 256])
    assert np.array_equal(p.tfhe.decrypt(y < 0), whole < 0)
    largest = functools.reduce(hg.tfhe.maximum, [y[:, i] for i in range(4)])
    assert np.array_equal(p.tfhe.decrypt(largest), whole[:, :4].max(axis=1))
    signs = p.server.to_ckks(y < 0)
    found = p.ckks.decrypt(signs)
    assert signs.precision is not None
    assert np.abs(found - (whole < 0)).max() < 2.0**-signs.precision < 0.05
    # The result is a valid operand of later operations. The test keeps negative values and replaces all other values by 0.
    product = p.ckks.decrypt(signs * x)
    assert np.abs(product - np.where(whole < 0, values, 0)).max() < 2e-2
    same = p.server.to_ckks(y, unit=2**-8)
    assert np.abs(p.ckks.decrypt(same) - whole / 2**8).max() < 2e-2


def test_the_default_unit_follows_the_public_bound() -> None:
    """The unit is the smallest power of two for which all values within the public bound fit."""
    p = party()
    for bound, unit in ((1, 2.0**-6), (0.9, 2.0**-7), (127, 1.0), (128, 2.0)):
        x = p.ckks.encrypt(np.full(64, 0.75), bound=bound)
        assert hg.switching.unit_for(x, bits=8) == unit
        assert np.array_equal(p.tfhe.decrypt(p.server.to_tfhe(x, bits=8)), np.full(64, round(0.75 / unit)))


def test_keys_travel(tmp_path: Path) -> None:
    """Keys that were in files, bytes and pickles switch in the same way as the original keys."""
    p = party()
    x = p.ckks.encrypt(np.linspace(-1, 1, 64), bound=1)
    p.keys.save(tmp_path / "switching.hg")
    for keys in (
        hg.switching.load(tmp_path / "switching.hg"),
        hg.switching.Keys.from_bytes(p.keys.to_bytes()),
        pickle.loads(pickle.dumps(p.keys)),
    ):
        server = hg.switching.Server(keys, p.ckks_keys, p.tfhe_keys)
        y = server.to_tfhe(x, bits=8)
        assert np.abs(p.tfhe.decrypt(y) - np.linspace(-64, 64, 64)).max() < 0.55
        assert np.abs(p.ckks.decrypt(server.to_ckks(y, unit=2**-6)) - np.linspace(-1, 1, 64)).max() < 2e-2
    assert repr(p.keys).startswith("<switching keys of CKKS key ")
    damaged = bytearray(p.keys.to_bytes())
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(hg.DamagedFileError):
        hg.switching.Keys.from_bytes(damaged)
    with pytest.raises(hg.FormatError, match="not switching keys"):
        hg.switching.Keys.from_bytes(p.tfhe_keys.to_bytes())


def test_keys_of_others_are_refused() -> None:
    """Keys that do not belong together, and objects of other kinds, are typed errors."""
    p = party()
    other, third = hg.SecretKey.generate(p.ckks.parameters), hg.SecretKey.generate(p.tfhe.parameters)
    with pytest.raises(hg.WrongKeyError, match="CKKS"):
        hg.switching.Server(p.keys, other.evaluation_keys(bootstrap=True), p.tfhe_keys)
    with pytest.raises(hg.WrongKeyError, match="TFHE"):
        hg.switching.Server(p.keys, p.ckks_keys, third.evaluation_keys())
    with pytest.raises(hg.MissingKeyError, match="bootstrap"):
        hg.switching.Server(p.keys, p.ckks.evaluation_keys(), p.tfhe_keys)
    with pytest.raises(hg.DtypeError):
        hg.switching.Server(p.keys, p.tfhe_keys, p.ckks_keys)
    with pytest.raises(hg.DtypeError):
        hg.switching.keys(p.tfhe, p.ckks)  # type: ignore[arg-type]
    with pytest.raises(hg.DtypeError):
        hg.switching.Server(p.ckks_keys, p.ckks_keys, p.tfhe_keys)  # type: ignore[arg-type]
    with pytest.raises(hg.WrongKeyError):
        p.server.to_tfhe(other.encrypt(np.zeros(64)))
    with pytest.raises(hg.WrongKeyError):
        p.server.to_ckks(third.encrypt([1, 2], "int8"))
    with pytest.raises(hg.DtypeError):
        p.server.to_tfhe(p.tfhe.encrypt([1, 2], "int8"))  # type: ignore[arg-type]
    with pytest.raises(hg.DtypeError):
        p.server.to_ckks(p.ckks.encrypt(np.zeros(64)))  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [3, 8, 16])
def test_comparisons_are_exact(bits: int) -> None:
    """All relations are right for positive and negative values, also for ties, at both ends of the integers and around 0."""
    p = party()
    most = 2 ** (bits - 1)
    v = np.random.default_rng(bits).integers(-most, most, 64)
    near = min(most, 8)
    v[: 2 * near] = np.arange(-near, near)
    v[-2:] = most - 1, -most
    x = p.ckks.encrypt(v / most, bound=(-1, 1 - 1 / most))
    for name, relation in RELATIONS.items():
        y = p.server.compare(x, name, bits=bits, unit=1 / most)
        assert y.dtype == bool
        assert np.array_equal(p.tfhe.decrypt(y), relation(v, 0)), name
    off = p.ckks.encrypt(np.clip((v + 0.3) / most, -1, 1 - 1 / most), bound=(-1, 1 - 1 / most))
    assert np.array_equal(p.tfhe.decrypt(p.server.compare(off, ">=", bits=bits, unit=1 / most)), v >= 0)


def test_comparisons_take_tensors_numbers_and_arrays() -> None:
    """Comparisons work with a second operand, several ciphertexts and the default unit. The results return to CKKS."""
    p = party()
    a, b = np.random.default_rng(2).integers(-100, 100, (2, 3, 64))
    b[:, :16] = a[:, :16]
    x, y = p.ckks.encrypt(a, bound=100), p.ckks.encrypt(b, bound=100)
    for name, relation in RELATIONS.items():
        assert np.array_equal(p.tfhe.decrypt(p.server.compare(x, name, y, 9, unit=1)), relation(a, b)), name
    assert np.array_equal(p.tfhe.decrypt(p.server.compare(x, "<", 7, 8, unit=1)), a < 7)
    assert np.array_equal(p.tfhe.decrypt(p.server.compare(x, "==", b[0].astype(float), 9)), a == b[0])
    larger = p.server.to_ckks(p.server.compare(x, ">", y, 9))
    assert np.abs(p.ckks.decrypt(larger) - (a > b)).max() < 0.02
    assert p.server.compare(x[:0], "<").shape == (0, 64)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"relation": "=>"}, hg.ParameterError, "relation"),
        ({"bits": 0}, hg.ParameterError, "1 to 64 bits"),
        ({"bits": 40}, hg.NoiseError, "half a unit"),
        ({"bits": 26}, hg.NoiseError, "half a unit"),
        ({"bits": 8, "unit": 2**-7}, hg.PlaintextRangeError, "hold -1 to 0.992188"),
        ({"bits": 8, "unit": -1}, hg.ParameterError, "above 0"),
        ({"bits": 7, "y": 5}, hg.PlaintextRangeError, "unit=|larger unit"),
    ],
)
def test_impossible_comparisons_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    """Relations, widths, units and bounds that cannot be right are errors before anything is computed."""
    p = party()
    x = p.ckks.encrypt(np.ones(64), bound=1)
    with pytest.raises(error, match=text):
        p.server.compare(x, options.pop("relation", "<"), **({"unit": 2**-5} | options))
    with pytest.raises(hg.LevelError, match="needs level"):
        p.server.compare(p.ckks.encrypt(np.zeros(64), level=2), "<")
    with pytest.raises(hg.DtypeError):
        p.server.compare(p.tfhe.encrypt([1, 2], "int8"), "<")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"bits": 7}, hg.DtypeError, "multiple of 2 bits"),
        ({"bits": 0}, hg.ParameterError, "1 to 64 bits"),
        ({"bits": 40}, hg.DtypeError, "at most 27 bits"),
        ({"bits": 26}, hg.NoiseError, "half a unit"),
        ({"bits": 8, "unit": 2**-7}, hg.PlaintextRangeError, "hold -1 to 0.992188"),
        ({"bits": 8, "unit": -1}, hg.ParameterError, "above 0"),
        ({"bits": 8, "unit": "1"}, hg.DtypeError, "the unit"),
    ],
)
def test_impossible_integers_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    """Widths, units and bounds that cannot be right are errors before anything is computed."""
    p = party()
    x = p.ckks.encrypt(np.ones(64), bound=1)
    with pytest.raises(error, match=text):
        p.server.to_tfhe(x, **options)


def test_operands_that_cannot_switch_are_refused() -> None:
    """Invalid levels, complex values and invalid shapes are typed errors."""
    p = party()
    with pytest.raises(hg.LevelError, match="needs level"):
        p.server.to_tfhe(p.ckks.encrypt(np.zeros(64), level=2))
    with pytest.raises(hg.DtypeError, match="complex"):
        p.server.to_tfhe(p.ckks.encrypt(np.zeros(64) + 1j))
    with pytest.raises(hg.ShapeError, match="1 to 64"):
        p.server.to_ckks(p.tfhe.encrypt(np.zeros(65, dtype=bool)))
    with pytest.raises(hg.ShapeError, match="slots"):
        p.server.to_ckks(p.tfhe.encrypt(True))
    assert p.server.to_tfhe(p.ckks.encrypt(np.zeros((0, 64))), bits=4).shape == (0, 64)
    sent = hg.Server(p.ckks_keys).from_bytes(p.ckks.encrypt(np.linspace(-1, 1, 64), bound=4).to_bytes())
    guarded = hg.ckks.polynomial(hg.ckks.within(sent, 1), [0, 0.5, 0, 0.5], "chebyshev")
    with pytest.raises(hg.OutOfIntervalError, match="TFHE's tensors carry no guards"):
        p.server.to_tfhe(guarded, bits=6)
    assert p.server.to_tfhe(hg.ckks.unguarded(guarded), bits=6).shape == (64,)


def test_sets_that_cannot_switch_are_refused() -> None:
    """Sets are refused if they have no bootstrapping, no digits, or a key of another dimension."""
    p = party()
    with pytest.raises(hg.ParameterError, match="digits"):
        hg.switching.keys(p.ckks, hg.SecretKey.generate(tfhe_rig.parameters("bits")))
    plain = hg.ckks.parameters(n=2**11, levels=4, log_scale=40, base_bits=50, special=2, insecure=True)
    with pytest.raises(hg.ParameterError, match="bootstrapping"):
        hg.switching.keys(hg.SecretKey.generate(plain), p.tfhe)


def test_few_values_of_a_ciphertext() -> None:
    """If there are fewer values than slots, the unused slots do not switch and do not appear in the result."""
    p = party()
    x = p.ckks.encrypt([0.5, -0.5, 0.25], pad=True, bound=1)
    y = p.server.to_tfhe(x, bits=8)
    assert y.shape == (3,)
    assert np.array_equal(p.tfhe.decrypt(y), [32, -32, 16])
    back = p.server.to_ckks(y[:2], unit=2**-6)
    assert back.slots == 2
    assert np.abs(p.ckks.decrypt(back) - [0.5, -0.5]).max() < 2e-2
    assert np.abs(p.ckks.decrypt(p.server.to_ckks(y != 16)) - [1, 1, 0]).max() < 2e-2


def test_programs_record_switches() -> None:
    """A replayed program switches its own operands, in both directions."""
    p = party()
    positive = hg.program(lambda x: p.server.to_ckks(p.server.to_tfhe(x, bits=8, unit=2**-6) > 0))
    for factor in (1, -1, 0.25):  # no value times 64 is within 0.2 of 1/2, where the sign of the rounded value changes
        values = factor * np.linspace(-1, 1, 64)
        found = p.ckks.decrypt(positive(hg.Server(p.ckks_keys).bind(p.ckks.encrypt(values, bound=1))))
        assert np.abs(found - (np.round(values * 64) > 0)).max() < 2e-2


@pytest.mark.parametrize("unit", [1.0, 2.0**12, 2.0**16, 2.0**20])
def test_large_values_are_right_or_refused(unit: float) -> None:
    """The rounding of the first matrix matters for large values in units of many bits. If this rounding may change such a
    value, an error is raised.

    """
    p = party()
    v = np.random.default_rng(3).integers(-(2**19) + 4, 2**19 - 4, 64)
    v[:32] = np.arange(32) % 3 - 1
    x = hg.Server(p.ckks_keys).bind(p.ckks.encrypt(v * unit, bound=float(np.abs(v).max() * unit)))
    if unit > 1:
        with pytest.raises(hg.NoiseError, match="divide the values and the unit"):
            p.server.to_tfhe(x, bits=20, unit=unit)
        with pytest.raises(hg.NoiseError, match="divide the values and the unit"):
            p.server.compare(x, "==", bits=20, unit=unit)
        x, unit = x * 2.0**-20, unit * 2.0**-20
    assert np.array_equal(p.tfhe.decrypt(p.server.to_tfhe(x, bits=20, unit=unit)), v)
    assert np.array_equal(p.tfhe.decrypt(p.server.compare(x, "==", bits=20, unit=unit)), v == 0)
