"""Tests the keys, files and errors of TFHE, and the secure parameter sets."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from tfhe_rig import NUMBERS, Party, parameters, party, stranger

Attempt = Callable[[Party], Any]
U8 = np.array([1, 2, 3], dtype=np.uint8)

DTYPES: dict[str, tuple[Attempt, str]] = {
    "mixed widths": (lambda p: p.tensor(U8) + p.tensor(U8, "uint16"), r"uint8 and uint16; convert one with \.astype"),
    "mixed signs": (lambda p: p.tensor(U8) < p.tensor(U8, "int8"), "uint8 and int8"),
    "real numbers": (lambda p: p.tensor(U8) * 1.5, "not float64"),
    "encrypting reals": (lambda p: p.secret.encrypt([0.5]), "not float64"),
    "encrypting text": (lambda p: p.secret.encrypt("1"), "must be booleans or integers"),
    "adding booleans": (lambda p: p.tensor([True]) + p.tensor([True]), "astype"),
    "no such dtype": (lambda p: p.tensor(U8, "uint65"), "uint65"),
    "a float dtype": (lambda p: p.tensor(U8).astype(float), "float64"),
    "an integer condition": (lambda p: hg.tfhe.select(p.tensor(U8), p.tensor(U8), 1), "boolean"),
    "a clear condition": (lambda p: hg.tfhe.select(True, p.tensor(U8), 1), "condition"),
    "a wide index": (lambda p: hg.tfhe.look_up(p.tensor(U8, "uint24"), [1, 2]), "at most 16 bits, not uint24"),
    "gates of integers": (lambda p: hg.tfhe.and3(p.tensor(U8), p.tensor(U8), p.tensor(U8)), "booleans"),
    "half a digit": (
        lambda p: p.tensor(U8, "uint7"),
        "uint7 does not fit this set: its integers must have a multiple of 2 bits",
    ),
    "a clear sum": (lambda p: hg.tfhe.sum(U8), "trivial"),
    "a clear index": (lambda p: hg.tfhe.look_up(U8, [0] * 256), "ndarray"),
    "a clear not": (lambda p: hg.tfhe.not_(True), "bool"),
    "clear booleans": (lambda p: hg.tfhe.and3(True, False, True), "at least one"),
    "clear arrays joined": (lambda p: hg.tfhe.concatenate([p.tensor(U8), U8]), "ndarray"),
    "clear arrays stacked": (lambda p: hg.stack([p.tensor(U8), U8]), "ndarray"),
    "a convolution": (
        lambda p: hg.conv2d(p.tensor(U8), np.ones((1, 1, 1, 1), int)),
        "TFHE has no conv2d: use hg.tfhe.matmul",
    ),
    "slots": (lambda p: hg.rotate_rows(p.tensor(U8), 1), "TFHE has no rotate_rows"),
    "relinearization": (lambda p: hg.relinearize(p.tensor(U8)), "need no relinearization"),
    "a bias": (lambda p: hg.matmul(np.ones((1, 3), int), p.tensor(U8), [1]), "add it to the product"),
    "a sum of nothing encrypted": (lambda p: hg.sum(U8), "takes a tensor, not ndarray"),
    "a BFV tensor": (lambda p: p.secret.decrypt(U8), "ndarray"),
}
OTHERS: dict[str, tuple[Attempt, type[Exception], str]] = {
    "too large to encrypt": (
        lambda p: p.secret.encrypt([256], "uint8"),
        hg.PlaintextRangeError,
        "the values to encrypt: 256 is out of range; uint8 is 0 to 255",
    ),
    "too small to encrypt": (lambda p: p.secret.encrypt([-129], "int8"), hg.PlaintextRangeError, "-129"),
    "too large a constant": (lambda p: p.tensor(U8) + 256, hg.PlaintextRangeError, "256"),
    "a negative constant": (lambda p: p.tensor(U8) * -1, hg.PlaintextRangeError, "-1"),
    "shapes": (lambda p: p.tensor(U8) + p.tensor(U8[:2]), hg.ShapeError, r"\(3,\) and \(2,\)"),
    "shapes of clear values": (lambda p: p.tensor(U8) + np.array([1, 1]), hg.ShapeError, "broadcast"),
    "an index": (lambda p: p.tensor(U8)[3], hg.ShapeError, "out of range"),
    "an axis": (lambda p: p.tensor(U8).sum(1), hg.ShapeError, "axis 1"),
    "matrices": (lambda p: p.tensor(U8) @ p.tensor(U8[:2]), hg.ShapeError, "3"),
    "Cannon's rectangles": (
        lambda p: hg.tfhe.matmul(p.tensor(np.ones((2, 3), np.uint8)), np.ones((3, 2), int), algorithm="cannon"),
        hg.ShapeError,
        "square",
    ),
    "division by a clear zero": (lambda p: p.tensor(U8) // 0, hg.ParameterError, "by a clear zero"),
    "a negative shift": (lambda p: p.tensor(U8) << -1, hg.ParameterError, "must not be negative"),
    "a goal": (lambda p: hg.tfhe.add(p.tensor(U8), 1, goal="fast"), hg.ParameterError, "fewest"),
    "a variant": (lambda p: hg.tfhe.multiply(p.tensor(U8), p.tensor(U8), variant="fast"), hg.ParameterError, "karatsuba"),
    "a variant of another operation": (
        lambda p: hg.tfhe.add(p.tensor(U8), p.tensor(U8), variant="karatsuba"),
        hg.ParameterError,
        'no variant "karatsuba" in sets of digits; the variants are "ripple" and "prefix"',
    ),
    "a variant of clear factors": (
        lambda p: hg.tfhe.multiply(p.tensor(U8), 3, variant="karatsuba"),
        hg.ParameterError,
        "by a clear operand",
    ),
    "a short table": (
        lambda p: hg.tfhe.look_up(p.tensor(U8), [1, 2, 3]),
        hg.ParameterError,
        "for uint8 must have 256 entries",
    ),
    "an operand out of range": (
        lambda p: p.tensor(U8) + 70000,
        hg.PlaintextRangeError,
        "the right operand of add: 70000 is out of range; uint8",
    ),
    "no keys": (lambda p: p.secret.encrypt(U8) + p.secret.encrypt(U8), hg.MissingKeyError, "Server"),
    "another's operand": (lambda p: p.tensor(U8) + stranger().secret.encrypt(U8), hg.WrongKeyError, "key"),
    "another's key": (lambda p: stranger().secret.decrypt(p.tensor(U8)), hg.WrongKeyError, "key"),
    "another's server": (lambda p: stranger().server.bind(p.tensor(U8)), hg.WrongKeyError, "key"),
    "another set": (lambda p: p.tensor(U8) + party("bits").secret.encrypt(U8), hg.MismatchError, "parameters|set"),
    "another set's key": (lambda p: party("bits").secret.decrypt(p.tensor(U8)), hg.MismatchError, "parameters|set"),
    "another set's server": (lambda p: party("bits").server.bind(p.tensor(U8)), hg.MismatchError, "parameters|set"),
    "plaintexts": (lambda p: p.server.encode([1]), hg.MismatchError, "trivial"),
    "no such set": (lambda p: hg.tfhe.parameters("3_3"), hg.ParameterError, "2_2"),
    "a weak set": (lambda p: hg.tfhe.parameters("morshed-2020"), hg.SecurityError, "insecure=True"),
    "a weak set by numbers": (
        lambda p: hg.tfhe.parameters(
            **{"n": 64, "k": 1, "bootstrap": (18, 1), "switch": (4, 4)},
            **{"lwe_noise": ("gaussian", -20), "glwe_noise": ("gaussian", -30)},
            **NUMBERS["bits"],
        ),
        hg.SecurityError,
        "insecure",
    ),
    "numbers that often err": (
        lambda p: hg.tfhe.parameters(
            **{"n": 920, "k": 1, "degree": 2048, "lwe_noise": ("tuniform", 45), "glwe_noise": ("tuniform", 17)},
            **{"bootstrap": (23, 1), "switch": (4, 4), "message_bits": 2, "carry_bits": 2, "norm": 5000},
        ),
        hg.ParameterError,
        "at most 2\\^-64, but fails with 2\\^-[0-9]+.*log2_failure",
    ),
    "too few numbers": (
        lambda p: hg.tfhe.parameters(n=32, degree=512, message_bits=0, insecure=True),
        hg.ParameterError,
        "needs k, lwe_noise, glwe_noise, bootstrap, switch, carry_bits, norm too",
    ),
    "a group alone": (lambda p: hg.tfhe.parameters(group=2), hg.ParameterError, "needs n, k, degree, lwe_noise"),
    "a name and a number": (lambda p: hg.tfhe.parameters("2_2", n=3), hg.ParameterError, "not both"),
}
KINDLY: dict[str, tuple[Attempt, str]] = {
    "branching": (lambda p: bool(p.tensor(U8) == 1), "select"),
    "counting": (lambda p: list(range(p.tensor(U8)[0])), "decrypt it"),
    "hashing": (lambda p: {p.tensor(U8)}, "unhashable"),
    "a length": (lambda p: len(p.tensor(U8)[0]), "no length"),
}


@pytest.mark.parametrize("name", DTYPES)
def test_wrong_types(name: str) -> None:
    """A DtypeError states the remedy."""
    attempt, said = DTYPES[name]
    with pytest.raises(hg.DtypeError, match=said):
        attempt(party())
    party().check(party().tensor(U8) + 1, U8 + 1)


@pytest.mark.parametrize("name", OTHERS)
def test_wrong_operands(name: str) -> None:
    """Each attempt raises its typed error, and the library still works afterwards."""
    attempt, kind, said = OTHERS[name]
    with pytest.raises(kind, match=said):
        attempt(party())
    party().check(party().tensor(U8) + 1, U8 + 1)


@pytest.mark.parametrize("name", KINDLY)
def test_python_operations_that_need_a_value(name: str) -> None:
    """Python operations that need a plain value raise a TypeError that states the reason."""
    attempt, said = KINDLY[name]
    with pytest.raises(TypeError, match=said):
        attempt(party())


# Keys and files


@pytest.mark.parametrize("name", NUMBERS)
def test_tensors_and_keys_survive_files(name: str, tmp_path: Path) -> None:
    """Fresh tensors, computed tensors and keys can be written to files and bytes and read again. The server computes on
    loaded tensors with loaded keys.
    """
    secret = hg.SecretKey.generate(parameters(name))
    assert isinstance(secret, hg.tfhe.SecretKey)
    secret.save(tmp_path / "secret.hg")
    secret.evaluation_keys().save(tmp_path / "keys.hg")
    a = np.array([[1, 200], [7, 90]], dtype=np.uint8)
    fresh = secret.encrypt(a)
    fresh.save(tmp_path / "x.hg")
    assert stat.S_IMODE((tmp_path / "secret.hg").stat().st_mode) == 0o600
    assert (tmp_path / "x.hg").stat().st_size < 8192  # seeded
    keys = hg.load(tmp_path / "keys.hg")
    assert isinstance(keys, hg.tfhe.EvaluationKeys)
    server = hg.Server(keys)
    x = server.load(tmp_path / "x.hg")
    y = x * x + x.T
    y.save(tmp_path / "y.hg")
    again = hg.SecretKey.load(tmp_path / "secret.hg")
    found = hg.load(tmp_path / "y.hg")
    assert isinstance(found, hg.tfhe.Tensor)
    np.testing.assert_array_equal(again.decrypt(found), a * a + a.T)
    np.testing.assert_array_equal(again.decrypt(server.from_bytes(y.to_bytes()) - 1), a * a + a.T - 1)
    assert hg.tfhe.EvaluationKeys.from_bytes(keys.to_bytes()).id == secret.id
    with pytest.raises(hg.FormatError, match=r"SecretKey\.load"):
        hg.load(tmp_path / "secret.hg")


@pytest.mark.parametrize("kind", ["fresh", "computed", "keys"])
def test_damaged_bytes(kind: str) -> None:
    """Truncated or changed bytes raise typed errors, even if the digest is valid."""
    p = party("bits")
    x = p.secret.encrypt(U8)
    data = {"fresh": x.to_bytes, "computed": (p.server.bind(x) + 1).to_bytes, "keys": p.keys.to_bytes}[kind]()
    read: Any = hg.tfhe.EvaluationKeys.from_bytes if kind == "keys" else p.server.from_bytes
    read(data)
    for cut in (0, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(hg.FormatError):
            read(data[:cut])
    rng = np.random.default_rng(5)
    for at in rng.integers(0, len(data), 40):
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(hg.HeliographError):
            read(bytes(flipped))
    # If header bytes are changed and the digest is valid, the file is refused or gives another value of the right shape.
    for at in rng.integers(8, 500, 60):
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        try:
            read(bytes(flipped[:-32]) + hashlib.sha256(flipped[:-32]).digest())
        except hg.HeliographError:
            continue


def test_progress_and_cancelling() -> None:
    """Progress is between 0 and 1, and an exception of the callback propagates."""
    p, seen = party(), []
    a = np.arange(40, dtype=np.uint8)
    p.check(hg.tfhe.multiply(p.tensor(a), p.tensor(a), progress=seen.append), a * a)
    assert seen
    assert all(0 <= share <= 1 for share in seen)
    assert seen == sorted(seen)

    def stop(share: float) -> None:
        raise hg.CancelledError("enough")

    with pytest.raises(hg.CancelledError, match="enough"):
        hg.tfhe.multiply(p.tensor(a), p.tensor(a), progress=stop)
    p.check(p.tensor(a) + 1, a + 1)


def test_trivial_tensors_are_valid_operands() -> None:
    """Trivial tensors, which can be read without a key, are valid operands."""
    p = party()
    x = hg.tfhe.trivial(p.keys, U8)
    p.check(x + p.tensor(U8), U8 + U8)
    p.check(x * x, U8 * U8)
    assert "clear values" in repr(x)


# Secure sets


@pytest.mark.parametrize("name", hg.tfhe.named())
def test_the_named_sets_explain_themselves(name: str) -> None:
    """The texts of the named sets state the security, the failure probability and the sizes."""
    p = hg.tfhe.parameters(name, insecure=True)
    text = str(p)
    weak = name == "morshed-2020"
    assert ("128-bit" in text) != weak
    assert "failure" in text
    assert name in repr(p)
    if not weak:
        assert p.log2_failure <= (-64 if name.endswith("/p64") else -128)
    assert p.wires("uint32") * max(1, p.message_bits) == 32


@pytest.mark.parametrize("name", ["2_2", "boolean"])
def test_operations_of_a_secure_set(name: str) -> None:
    """A few operations with a secure set are right."""
    p = Party(hg.tfhe.parameters(name))
    a, b = np.array([200, 9], dtype=np.uint8), np.array([100, 250], dtype=np.uint8)
    x, y = p.tensor(a), p.tensor(b)
    p.check(x + y, a + b)
    p.check(x < y, a < b)
    p.check(x * 3 - y, a * np.uint8(3) - b)
    p.check(hg.tfhe.select(x > y, x, y), np.maximum(a, b))


def variants_of(name: str, kind: str, clear: bool = False) -> set[str]:
    """Returns the variants that the error of the engine lists."""
    p = party(kind)
    x = p.tensor(U8)
    with pytest.raises(hg.ParameterError) as told:
        getattr(hg.tfhe, name)(x, 3 if clear else x, variant="fast")
    return set(re.findall(r'"(\w+)"', str(told.value))) - {"fast"}


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_docstrings_list_the_variants_of_the_engine(name: str) -> None:
    """The docstring names each variant for sets of bits and for sets of digits, and no other variant."""
    known = variants_of(name, "bits") | variants_of(name, "digits") | variants_of(name, "digits", clear=True)
    text = getattr(hg.tfhe, name).__doc__.split(">>>")[0]
    assert set(re.findall(r'"(\w+)"', text)) == known
