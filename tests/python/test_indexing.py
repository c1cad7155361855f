"""In every scheme, indices follow the rules of NumPy, and vectors may have more values than there are slots."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from rigs import N

SCHEMES = ["bfv", "bgv", "ckks", "tfhe"]
SLOTS = 4
SHAPE = (3, 4, 2)


@functools.cache
def secret(scheme: str) -> Any:
    if scheme == "ckks":
        return hg.SecretKey.generate(
            hg.ckks.parameters(n=N, levels=2, log_scale=40, base_bits=50, slots=SLOTS, insecure=True)
        )
    if scheme == "tfhe":
        return hg.SecretKey.generate(hg.tfhe.parameters())
    module: Any = getattr(hg, scheme)
    return hg.SecretKey.generate(module.parameters(n=N, log_q=100, plain_modulus=12289, insecure=True))


@functools.cache
def tensor(scheme: str) -> tuple[Any, Any]:
    """Returns a tensor of shape SHAPE and the array of its values; the first slot of each ciphertext has the value."""
    values = np.arange(24).reshape(SHAPE)
    if scheme == "tfhe":
        return secret(scheme).encrypt(values.astype(np.uint8)), values
    return secret(scheme).encrypt(values[..., None], pad=True), values


def opened(scheme: str, x: Any) -> Any:
    found = np.asarray(secret(scheme).decrypt(x))
    return found if scheme == "tfhe" else np.rint(found[..., 0]).astype(int)


MASK = np.array([True, False, True])
TWO = np.arange(12).reshape(3, 4) % 3 == 1
INDICES: dict[str, Any] = {
    "an integer": 1,
    "NumPy's integer": np.int8(-3),
    "a zero-dimensional array": np.array(2),
    "integers": (2, -1, 0),
    "a slice": slice(2, 0, -1),
    "an empty slice": slice(5, 9),
    "beyond the end": slice(-100, 100, 2),
    "None": (None, ..., None),
    "an ellipsis": (..., 1),
    "nothing": (),
    "a list": [2, 0],
    "a list of negatives": [-1, -3, 1, 1, 1],
    "an empty list": [],
    "an array": np.array([0, 2, 1]),
    "a range": (slice(None), range(3, 0, -2)),
    "a table of indices": np.array([[0, 1], [2, 2]]),
    "a list behind a slice": (slice(1), [3, 1]),
    "a list beside an integer": (1, [3, 1]),
    "an integer beside a list": (slice(None), [3, 1], 0),
    "a list and the rest": ([1, 2], ..., None),
    "a mask": MASK,
    "a list of booleans": [False, True, True],
    "a mask of two axes": TWO,
    "a mask of all axes": np.arange(24).reshape(SHAPE) % 5 == 0,
    "a mask behind a slice": (slice(None), np.array([True, False, False, True]), 1),
    "a mask of nothing": np.zeros(3, dtype=bool),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", INDICES)
def test_indices_give_numpys_results(scheme: str, name: str) -> None:
    """Indices of encrypted tensors and of clear tensors give the results of NumPy."""
    x, values = tensor(scheme)
    key: Any = INDICES[name]
    key = tuple(list(k) if isinstance(k, range) else k for k in key) if isinstance(key, tuple) else key
    expected = values[key]
    found = x[INDICES[name]]
    assert found.shape == expected.shape
    if expected.size:
        np.testing.assert_array_equal(opened(scheme, found), expected)
    if scheme == "bfv":
        np.testing.assert_array_equal(hg.ClearTensor(values[..., None])[INDICES[name]].values[..., 0], expected)


WRONG: dict[str, tuple[Any, str]] = {
    "out of range": (3, "index 3 is out of range for an axis of length 3"),
    "before the first": (-4, "index -4 is out of range"),
    "in a list": ([0, 3], "index 3 is out of range"),
    "too many": ((0, 0, 0, 0), "too many indices: 4 for a tensor of 3 axes"),
    "two ellipses": ((..., ...), "one ellipsis"),
    "a mask of another length": (np.array([True, False]), r"mask of shape \(2,\) does not fit axes of lengths \(3,\)"),
    "a mask of too many axes": (np.ones((3, 4, 2, 1), dtype=bool), "indices: 4"),
    "a float": (1.0, "not by 1.0"),
    "a list of floats": ([1.0], r"not by \[1.0\]"),
    "a truth value": (True, "not by True"),
    "a text": ("a", "not by 'a'"),
    "two lists": (([0], [1]), "one list, array or mask at a time"),
    "a list apart from an integer": ((0, slice(None), [1]), "must be adjacent"),
    "a step of 0": (slice(None, None, 0), "a step other than 0"),
    "a ragged list": ([[1], [1, 2]], "not by"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_indices(scheme: str, name: str) -> None:
    """Wrong indices raise hg.IndexingError, which is a subclass of IndexError."""
    key, words = WRONG[name]
    with pytest.raises(hg.IndexingError, match=words) as error:
        tensor(scheme)[0][key]
    assert isinstance(error.value, IndexError)
    assert isinstance(error.value, hg.ShapeError)


def test_encrypted_indices_are_refused() -> None:
    x, _ = tensor("tfhe")
    with pytest.raises(hg.IndexingError, match=r"encrypted one.*hg.tfhe.look_up"):
        x[x[0, 0, 0]]


def test_iteration_ends() -> None:
    """Iteration and reversed() stop when an IndexError is raised."""
    assert len(list(tensor("bfv")[0])) == 3
    assert [row.shape for row in reversed(tensor("bfv")[0])] == [(4, 2)] * 3


@pytest.mark.parametrize("scheme", ["bfv", "bgv", "ckks"])
@pytest.mark.parametrize("length", [0, 1, "slots - 1", "slots", "slots + 1", "3 slots - 1"])
def test_vectors_longer_than_the_slots(scheme: str, length: Any) -> None:
    """If requested, a long vector is distributed over ciphertexts. The vector is decrypted to its length, for the secret and
    the public key.

    """
    key, slots = secret(scheme), secret(scheme).parameters.slots
    count = int(eval(str(length).replace("3 slots", "3 * slots"), {"slots": slots}))
    values = np.arange(2 * count).reshape(2, count) % 1000
    for owner in (key, key.public_key()):
        x = owner.encrypt(values, split=True)
        assert x.shape == (2, max(1, -(-count // slots)))
        found = key.decrypt(x + 1, length=count)
        np.testing.assert_allclose(found, values + 1, atol=1e-4)
        np.testing.assert_allclose(key.decrypt(x[1], length=count), values[1], atol=1e-4)
    across = key.encrypt(values.T, slots=0, split=True)
    np.testing.assert_allclose(key.decrypt(across, length=count, slots=0), values.T, atol=1e-4)


@pytest.mark.parametrize("scheme", ["bfv", "bgv", "ckks"])
def test_too_long_vectors_are_refused_unless_asked(scheme: str) -> None:
    key, slots = secret(scheme), secret(scheme).parameters.slots
    with pytest.raises(
        hg.ShapeError, match=r"slots; pass split=True to spread them over 3 ciphertexts, and decrypt\(..., length="
    ):
        key.encrypt(np.zeros(2 * slots + 1, dtype=int))
    with pytest.raises(hg.DtypeError, match="split must be True or False"):
        key.encrypt(np.zeros(2 * slots, dtype=int), split=2)
    x = key.encrypt(np.zeros(2 * slots, dtype=int), split=True)
    with pytest.raises(hg.ShapeError, match=r"cannot join to .* has 2 ciphertexts of"):
        key.decrypt(x, length=2 * slots + 1)
    with pytest.raises(hg.ShapeError, match="cannot join ciphertexts"):
        key.decrypt(x[0], length=1)
    with pytest.raises(hg.ParameterError, match="length must be an integer of at least 0"):
        key.decrypt(x, length=-1)
    with pytest.raises(hg.OutOfMemoryError, match="encrypting this array"):
        key.encrypt(np.broadcast_to(np.int64(1), (1 << 42,)), split=True)


def test_coefficients_may_be_split_too() -> None:
    key = secret("bfv")
    values = np.arange(N + 5)
    x = key.encrypt(values, coefficients=-1, split=True)
    np.testing.assert_array_equal(key.decrypt(x, length=N + 5), values)
