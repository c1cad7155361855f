"""Integers beyond 64 bits in BFV and BGV: their encryption, arithmetic, encoding and bounds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import heliograph as hg


@cache
def party(scheme: str, bits: int) -> tuple[Any, Any, int]:
    """Returns a secret key, a server, and the largest integer."""
    find = {"bfv": hg.bfv.parameters, "bgv": hg.bgv.parameters}[scheme]
    params = find(depth=1, plain_bits=bits, slots=4)
    secret = hg.SecretKey.generate(params)
    return secret, hg.Server(secret.evaluation_keys(rotations=[1])), (params.plain_modulus - 1) // 2


def exact(*values: int) -> Any:
    """Returns an array of Python integers."""
    return np.array(values, object)


@pytest.mark.parametrize(("scheme", "bits"), [("bfv", 200), ("bgv", 200), ("bfv", 70)])
def test_large_values(scheme: str, bits: int) -> None:
    """Positive and negative values up to half the modulus are decrypted exactly. Tested with both keys, in coefficients and
    after saving to files.

    """
    secret, server, most = party(scheme, bits)
    a = exact(2 ** (bits - 4), -(2 ** (bits - 5)) + 1, 2**64, -(2**63) - 1)
    edges = exact(most, -most, 2**63, -(2**63))
    for key in (secret, secret.public_key()):
        for values in (a, edges, [int(v) for v in a], np.array([[*a], [1, 2, 3, 4]], object)):
            assert secret.decrypt(key.encrypt(values)).tolist() == np.array(values, object).tolist()
    assert secret.decrypt(secret.encrypt(np.array([2**64 - 1, 2**63, 0, 1], np.uint64))).tolist() == [2**64 - 1, 2**63, 0, 1]
    lying = secret.encrypt(a[None].T, slots=0)
    assert secret.decrypt(lying)[0].tolist() == a.tolist()
    inside = secret.encrypt(a, coefficients=0, pad=True)
    assert secret.decrypt(inside)[:4].tolist() == a.tolist()
    x = server.bind(secret.encrypt(a))
    for y in (x, server.from_bytes(x.to_bytes())):
        assert secret.decrypt(hg.rotate_rows(y, 1))[:3].tolist() == a[1:].tolist()
        assert secret.decrypt(0 - (0 - y)).tolist() == a.tolist()


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_progress_over_moduli(scheme: str) -> None:
    """Over all plaintext moduli together, the completed share rises only once to 1."""
    secret, server, _ = party(scheme, 200)
    x = server.bind(secret.encrypt(np.ones((3, 4), dtype=int)))
    square = hg.square(x)
    for attempt in (
        lambda f: hg.square(x, progress=f),
        lambda f: hg.relinearize(square, progress=f),
        lambda f: hg.rotate_rows(x, 1, progress=f),
        lambda f: hg.matmul([[1, 2, 3]], x, progress=f),
    ):
        shares: list[float] = []
        attempt(shares.append)
        assert len(shares) > 1
        assert shares == sorted(shares)
        assert shares[-1] == 1


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_large_operands(scheme: str) -> None:
    """Integers, arrays of integers and plaintexts are added, subtracted and multiplied, on either side and in place."""
    secret, server, _ = party(scheme, 200)
    a, c, d = exact(2**70, -5, 2**80 + 3, 0), 2**100 + 7, -(2**90)
    x = server.bind(secret.encrypt(np.stack([a, -a])))
    both = np.stack([a, -a])
    column = exact(c, d)[:, None]
    plain = exact(c, d, 1, 0)
    encoded = server.encode(plain)
    for made, wanted in (
        (x + c, both + c),
        (d - x, d - both),
        (x * c, both * c),
        (x * d, both * d),
        (x + exact(c, d), both + column),
        (x - exact(c, d), both - column),
        (x * exact(c, 0), both * exact(c, 0)[:, None]),
        (x * exact(c, c), both * c),
        (x + encoded, both + plain),
        (x * encoded, both * plain),
        ((x + 1) * x, (both + 1) * both),
    ):
        assert secret.decrypt(made).tolist() == wanted.tolist()
    y = x + 0
    y += c
    y -= exact(d, c)
    assert secret.decrypt(y).tolist() == (both + c - exact(d, c)[:, None]).tolist()


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_bounds_of_large_values(scheme: str) -> None:
    """The bounds of large values follow the operations. Wrapped values are refused, and strict mode proves values that fit."""
    secret, server, most = party(scheme, 200)
    x = server.bind(secret.encrypt(exact(2**80, -(2**79), 1, 0), bound=2**80))
    assert x.bound == 2**80
    assert (x * 2**70 + 2**65).bound == 2**150 + 2**65
    assert server.from_bytes(x.to_bytes()).bound == 2**80
    with pytest.raises(hg.PlaintextRangeError, match="given bound"):
        secret.encrypt(exact(2**80 + 1, 0, 0, 0), bound=2**80)
    assert secret.decrypt(x * x, checked=True).tolist() == [2**160, 2**158, 1, 0]
    large = server.bind(secret.encrypt(exact(2**150, 1, 0, 0)))
    assert secret.decrypt(large + large, checked=True).tolist() == [2**151, 2, 0, 0]
    for wrapped in (large * 2**100, large * large):
        with pytest.raises(hg.RoomError, match="may have wrapped"):
            secret.decrypt(wrapped)
    # for a sum from a file, the bound is the largest value that the key encrypted in this process
    loaded = server.from_bytes(large.to_bytes())
    with pytest.raises(hg.RoomError):
        secret.decrypt(loaded * 2**80)
    assert secret.decrypt(loaded * 2**10).tolist() == [2**160, 2**10, 0, 0]
    beyond = secret.encrypt([1, 2, 3, 4], bound=2**5000)
    assert 0 < beyond.bound <= max(2**63, 2 * most + 2)


def test_values_that_do_not_fit() -> None:
    """The error states the value and the valid range; values that are not integers are refused."""
    secret, server, most = party("bfv", 70)
    x = server.bind(secret.encrypt([1, 2, 3, 4]))
    for value in (most + 1, -most - 1, 2**90, 2**5000):
        for call in (
            lambda v=value: secret.encrypt(exact(v, 0, 0, 0)),
            lambda v=value: x + v,
            lambda v=value: x * v,
            lambda v=value: server.encode(exact(v, 0, 0, 0)),
        ):
            with pytest.raises(hg.PlaintextRangeError, match="beyond half the plaintext modulus"):
                call()
    for wrong in (exact(2**70, 1.5, 0, 0), exact(2**65, None, 0, 0), exact(2**65, "1", 0, 0)):
        with pytest.raises(hg.DtypeError):
            secret.encrypt(wrong)
    small = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20, slots=4))
    with pytest.raises(hg.PlaintextRangeError, match="hold 36893488147419103232, of 66 bits"):
        small.encrypt([2**65, 0, 0, 0])
