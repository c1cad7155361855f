"""CKKS parameter sets: room for values, bounds of inputs, versions, and padding behind short vectors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import _core
from resign import canonical, signed, take_apart

PRECISIONS = (12, 15, 18, 20, 22, 25, 28, 30)
DEPTHS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)

#: Sets that version 0.2 chose, as word size, depth, precision, integer bits, slots; log2 N, primes, hash.
OLD = [
    (64, 0, 12, 10, 0, 12, 1, "d80b9c119b1ab9ed"),
    (64, 1, 20, 10, 0, 13, 2, "ba1cb8784457fb5c"),
    (64, 1, 30, 10, 0, 13, 3, "188647b0c2841e50"),
    (64, 2, 18, 10, 16, 13, 3, "5bcf5db58faaf08b"),
    (64, 3, 30, 10, 4, 14, 5, "83f3c68d75c657cd"),
    (64, 3, 25, 20, 1000, 14, 5, "b2e134abaea182b1"),
    (64, 4, 20, 6, 0, 14, 5, "a1892d274cdff26c"),
    (64, 5, 22, 10, 0, 14, 7, "0945b00d70073ed6"),
    (64, 6, 28, 0, 0, 14, 7, "e60bc38936c71f92"),
    (64, 8, 15, 10, 8192, 14, 9, "a041b3aa1eb39e00"),
    (64, 8, 30, 30, 0, 15, 10, "6e53ac9e07efa4e2"),
    (64, 10, 30, 10, 0, 15, 12, "394fb56677593f0d"),
    (64, 12, 20, 40, 0, 15, 14, "a15bdb36b4c8700a"),
    (64, 16, 25, 10, 0, 15, 18, "a029a867bbe9745e"),
    (64, 20, 12, 10, 0, 15, 21, "386e9e2417a2124d"),
    (64, 20, 28, 10, 0, 16, 22, "91e18f3fa32d44d8"),
    (32, 0, 12, 10, 0, 12, 2, "9981965e977565da"),
    (32, 1, 20, 10, 0, 13, 5, "61c99ea36a17d510"),
    (32, 1, 30, 10, 0, 13, 5, "61c99ea36a17d510"),
    (32, 2, 18, 10, 16, 14, 10, "b3ed4aa742e96b84"),
    (32, 3, 30, 10, 4, 15, 12, "fe52230dc86ecdfa"),
    (32, 3, 25, 20, 1000, 15, 12, "b7a607469bdce43e"),
    (32, 4, 20, 6, 0, 15, 13, "3a9ec255fc2f1f7e"),
    (32, 5, 22, 10, 0, 15, 15, "0c566705a79ffe5f"),
    (32, 6, 28, 0, 0, 15, 16, "7c09780f9fe7a819"),
    (32, 8, 15, 10, 8192, 15, 20, "d812ef203a036d9f"),
    (32, 8, 30, 30, 0, 15, 21, "530d4b1eff2b66ba"),
    (32, 10, 30, 10, 0, 15, 24, "32ecb904b80cd372"),
    (32, 12, 20, 40, 0, 16, 28, "3425ef7c53751085"),
    (32, 16, 25, 10, 0, 16, 34, "ffe6b1289dd7eb0e"),
    (32, 20, 12, 10, 0, 16, 40, "1c3c7258fde0d3b5"),
    (32, 20, 28, 10, 0, 16, 40, "1c3c7258fde0d3b5"),
]


def chosen(depth: int, precision: int, word_size: int, version: str) -> Any:
    """Returns the set of a request, on the null device, or None if there is none."""
    try:
        spec = _core.ckks.choose(depth, precision, None, 0, word_size, version=version)
    except hg.ParameterError:
        return None
    return _core.ckks.Parameters(spec).on_device("null")


def shape(p: Any) -> tuple[Any, ...]:
    """Returns the costs of a set: N, primes by level, special primes, digits, bytes."""
    s = p.spec
    limbs = [p.level_limbs(level) for level in range(1, p.top_level + 1)]
    return s.n, len(s.chain), limbs, len(s.special), len(s.digits), p.ciphertext_bytes(), p.switch_key_bytes


@pytest.mark.parametrize("old", OLD, ids=lambda old: "-".join(map(str, old[:5])))
def test_version_0_2_has_its_numbers(old: tuple[Any, ...]) -> None:
    """Requests with version="0.2" give the numbers that were recorded for that version."""
    word_size, depth, precision, integer_bits, slots, log_n, primes, digest = old
    request = {"depth": depth, "precision": precision, "integer_bits": integer_bits, "slots": slots, "word_size": word_size}
    p = hg.ckks.parameters(**request, version="0.2")
    assert (p.n, len(p._core.spec.chain), p.hash[:16]) == (2**log_n, primes, digest)
    now = hg.ckks.parameters(**request)
    assert depth > 2 or now == hg.ckks.parameters(**request, version="0.3")
    assert now.n == p.n
    assert len(now._core.spec.chain) == primes  # with integer_bits, both versions choose the same number of primes
    assert now.room >= p.room >= 2.0**integer_bits


# A search with short words takes five times as long, so three precisions and every second depth have short words.
@pytest.mark.parametrize(("word_size", "precision"), [*((64, t) for t in PRECISIONS), (32, 15), (32, 20), (32, 28)])
def test_room_takes_at_most_one_prime(word_size: int, precision: int) -> None:
    """From precision 22 on, sets have the N, primes and ciphertext bytes of version 0.2. For lower precisions, sets have at
    most one prime more. A set has another gadget, and therefore larger keys, only if the gadget of version 0.2 would give it
    a room below 2^30.

    """
    seen = 0
    depths = DEPTHS[:: 64 // word_size]
    for depth in depths:
        old, new = chosen(depth, precision, word_size, "0.2"), chosen(depth, precision, word_size, "")
        assert (old is None) == (new is None)
        if old is None:
            continue
        seen += 1
        (n, primes, limbs, *_), (new_n, new_primes, new_limbs, *_) = shape(old), shape(new)
        assert new.secure
        assert new.room >= old.room
        assert new.room < 2.0**42
        if shape(new) != shape(old) and precision >= 22:
            assert (new_n, new_primes, new_limbs) == (n, primes, limbs)
            assert new.ciphertext_bytes() == old.ciphertext_bytes()
            assert new.switch_key_bytes <= 2 * old.switch_key_bytes
            assert new.room > 2 * old.room
        elif shape(new) != shape(old):
            assert new_n == n
            assert new_primes <= primes + 1
            assert all(b <= a + 1 for a, b in zip(limbs, new_limbs, strict=True))
            assert new.room > old.room
    assert seen >= len(depths) * 3 // 4


def test_most_sets_have_room() -> None:
    """Nearly all default sets of precision below 22 have a room of 2^31."""
    rooms = [math.log2(chosen(d, p, 64, "").room) for p in (12, 15, 18) for d in DEPTHS]
    assert sum(room >= 31 for room in rooms) >= 25
    assert sum(room >= 26 for room in rooms) >= 34
    rooms = [math.log2(p.room) for t in (22, 25, 28, 30) for d in DEPTHS if (p := chosen(d, t, 64, ""))]
    assert sum(room >= 31 for room in rooms) >= 33
    assert sum(room >= 26 for room in rooms) >= 39


def test_integer_bits_is_the_least_room() -> None:
    """integer_bits sets the least room and adds no prime that is not needed."""
    p = hg.ckks.parameters(depth=1, precision=20, integer_bits=10)
    more = hg.ckks.parameters(depth=1, precision=20)
    assert len(p._core.spec.chain) + 1 == len(more._core.spec.chain)
    assert p.room >= 2**11
    assert more.room >= 2.0**40
    assert hg.ckks.parameters(depth=1, precision=20, integer_bits=30).room >= 2.0**30
    assert "a prime less" in more.explain()
    assert "a prime less" not in p.explain()
    assert "a prime less" not in hg.ckks.parameters(depth=1, precision=30).explain()


@pytest.mark.parametrize("name", ["n13-l4", "n14-l8", "n15-l20", "n16-l24", "n13-l4/w32"])
def test_named_sets_keep_their_numbers(name: str) -> None:
    """Named sets have the same numbers in both versions."""
    assert hg.ckks.parameters(name) == hg.ckks.parameters(name, version="0.2")
    assert hg.ckks.parameters(name).name == name


# Bounds on inputs


def test_the_bound_follows_the_room() -> None:
    """The default bound is 14 bits below the room, but at least 2^10 and at most 2^20. Values at the bound fit the room
    together with their noise.

    """
    for p in (
        hg.ckks.parameters("n13-l4"),
        hg.ckks.parameters("n15-l20"),
        hg.ckks.parameters("n16-l24"),
        hg.ckks.parameters(depth=1, precision=20),
        hg.ckks.parameters(depth=3, precision=25),
        hg.ckks.parameters(depth=1, precision=20, version="0.2"),
        hg.ckks.parameters(depth=2, precision=20, word_size=32),
    ):
        room = math.log2(p.room)
        assert math.log2(p.bound) == pytest.approx(min(min(max(math.floor(room - 14), 10), 20), room - 0.25))
    assert hg.ckks.parameters(depth=1, precision=20).bound == 2**20


def test_a_given_bound_limits_encryption() -> None:
    """A given bound is used exactly, is part of the set and limits encryption."""
    p = hg.ckks.parameters(depth=1, precision=20, slots=2, bound=1000)
    assert p.bound == 1000
    assert p != hg.ckks.parameters(depth=1, precision=20, slots=2)
    assert "up to 1,000," in p.explain()
    secret = hg.ckks.SecretKey.generate(p)
    x = secret.encrypt([1000.0, -1000.0])
    assert np.allclose(secret.decrypt(x), [1000, -1000], atol=2**-20)
    with pytest.raises(hg.PlaintextRangeError, match="1000"):
        secret.encrypt([1000.1, 0])
    assert np.allclose(secret.decrypt(secret.encrypt([5000.0, 5000], bound=5000)), 5000, atol=2**-20)


def test_inputs_beyond_the_default_bound() -> None:
    """Values beyond the default bound need an explicit bound, even if the lowest level could hold them."""
    secret = hg.ckks.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20, slots=1))
    with pytest.raises(hg.PlaintextRangeError):
        secret.encrypt([2.0**21])
    assert np.allclose(secret.decrypt(secret.encrypt([2.0**21], bound=2.0**22)), 2.0**21)


def test_a_small_bound() -> None:
    """A bound below 1 limits the largest value."""
    secret = hg.ckks.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20, slots=1, bound=0.01))
    assert np.allclose(secret.decrypt(secret.encrypt([0.01])), 0.01, atol=2**-20)
    with pytest.raises(hg.PlaintextRangeError):
        secret.encrypt([0.02])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hg.ckks.parameters(depth=1, bound=0), "above 0"),
        (lambda: hg.ckks.parameters(depth=1, bound=-3), "-3"),
        (lambda: hg.ckks.parameters(depth=1, bound=math.inf), "finite"),
        (lambda: hg.ckks.parameters(depth=1, bound=math.nan), "finite"),
        (lambda: hg.ckks.parameters(depth=1, bound=2.0**50), "exceeds 2\\^40"),
        (lambda: hg.ckks.parameters("n13-l4", bound=1024), "1024 .* room, 430.5"),
        (lambda: hg.ckks.parameters(depth=1, precision=12, integer_bits=10, bound=2.0**20), "1.04858e\\+06 .* room"),
        (lambda: hg.ckks.parameters(depth=1, version="0.1"), '"0.2" and "0.3"'),
        (lambda: hg.ckks.parameters(depth=1, version=0.2), '"0.2" and "0.3"'),
        (lambda: _core.ckks.choose(1, 20, None, 0, 64, version="1"), "0.2 or 0.3"),
        (lambda: hg.ckks.parameters("n13-l4", repeat=False), "takes no repeat"),
        (lambda: hg.ckks.parameters(depth=1, like=[1.0, -3.0], bound=2), "reach 3"),
        (lambda: hg.ckks.parameters("n13-l4", like=np.ones(5000)), "5,000 values.*4,096 slots"),
    ],
)
def test_refusals(make: Callable[[], Any], said: str) -> None:
    """The error states the given and the allowed values."""
    with pytest.raises(hg.ParameterError, match=said):
        make()


def test_a_bound_implies_room() -> None:
    """If integer_bits is not given, the bound determines how much room is needed."""
    p = hg.ckks.parameters(depth=0, precision=22, bound=2.0**30)
    assert p.bound == 2.0**30
    assert p.room >= 2.0**30
    assert hg.ckks.parameters(depth=9, bootstrap=True, bound=500).bound == 500


def test_parameters_like_data() -> None:
    """`like=` sets the bound to twice the data's largest magnitude, rounded up to a power of two, and the slots to the last
    axis.
    """
    p = hg.ckks.parameters(depth=1, like=np.array([[1.0, -90.0, 3.0], [2.0, 60.0, 0.0]]))
    assert (p.bound, p.slots) == (256, 3)
    assert hg.ckks.parameters(depth=1, like=[1, 2], slots=16).slots == 16
    assert hg.ckks.parameters(depth=1, like=[1, 2], bound=2).bound == 2
    assert hg.ckks.parameters(depth=1, like=[3 + 4j]).bound == 16
    assert hg.ckks.parameters(depth=1, like=[0.001]).bound == 2.0**-8
    assert hg.ckks.parameters(depth=1, like=[0, 0]).bound == 1
    assert hg.ckks.parameters("n13-l4", like=[7, 7]).bound == 16
    with pytest.raises(hg.ShapeError):
        hg.ckks.parameters(depth=1, like=3.0)
    with pytest.raises(hg.DtypeError):
        hg.ckks.parameters(depth=1, like="many")


# Padding with zeros behind short vectors


@pytest.mark.parametrize("word_size", [64, 32])
def test_zeros_follow_vectors_that_do_not_repeat(word_size: int, tmp_path: Path) -> None:
    """The values are followed by zeros, rotations move all places, and files contain the setting."""
    p = hg.ckks.parameters(depth=2, precision=20, slots=4, repeat=False, word_size=word_size)
    assert (p.slots, p.period) == (4, p.n // 2)
    assert p != hg.ckks.parameters(depth=2, precision=20, slots=4, word_size=word_size)
    assert "zeros behind" in p.explain()
    secret = hg.ckks.SecretKey.generate(p)
    keys = secret.evaluation_keys(rotations=[1, -1])
    server = hg.Server(keys)
    x = server.bind(secret.encrypt([1.0, 2, 3, 4]))
    assert np.allclose(secret.decrypt(x.rotate(1)), [2, 3, 4, 0], atol=1e-4)
    assert np.allclose(secret.decrypt(x.rotate(-1)), [0, 1, 2, 3], atol=1e-4)
    assert np.allclose(secret.decrypt(x * x + 1), [2, 5, 10, 17], atol=1e-4)
    x.save(tmp_path / "x")
    again = server.load(tmp_path / "x")
    assert again.parameters == p
    assert again.parameters.period == p.period
    same = [hg.ckks.parameters(depth=2, precision=20, slots=3, repeat=r, word_size=word_size) for r in (True, False)]
    assert same[0] == same[1]  # three slots: their values never repeat


def test_circuits_on_vectors_that_do_not_repeat() -> None:
    """Matrices, sums and statistics are correct. Matrices on values that repeat are refused, also for 1,000 slots."""
    values, matrix = np.array([0.1, -0.5, 0.25, 1.0]), np.arange(16.0).reshape(4, 4) / 10
    p = hg.ckks.parameters(depth=3, precision=20, slots=4, repeat=False)
    on_slots = hg.ckks.LinearTransform(p, matrix)
    secret = hg.ckks.SecretKey.generate(p)
    keys = secret.evaluation_keys(rotations=sorted({*on_slots.rotations, *hg.ckks.sum_rotations(p.period)}))
    x = hg.Server(keys).bind(secret.encrypt(values))
    assert np.allclose(secret.decrypt(on_slots(x)), matrix @ values, atol=1e-5)
    assert np.allclose(secret.decrypt(x.sum_slots()), values.sum(), atol=1e-4)
    assert np.allclose(secret.decrypt(hg.ckks.mean(x, "slots")), values.mean(), atol=1e-4)
    assert np.allclose(secret.decrypt(hg.ckks.var(x, "slots")), values.var(), atol=1e-4)
    for other in (p, hg.ckks.parameters(depth=3, precision=20, slots=1000)):
        with pytest.raises(hg.ShapeError, match="repeat=False"):
            hg.ckks.LinearTransform(other, matrix, repeats=True)


def test_vectors_that_do_not_repeat_can_be_bootstrapped() -> None:
    """A bootstrap of a few real values is correct; the set is too small to be secure."""
    p = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True, slots=4, repeat=False)
    assert (p.slots, p.period) == (4, 1024)
    secret = hg.ckks.SecretKey.generate(p)
    values = np.array([0.1, -0.5, 0.25, 1.0])
    x = hg.Server(secret.evaluation_keys(bootstrap=True)).bind(secret.encrypt(values, level=p.bootstrapping_level))
    y = hg.ckks.bootstrap(x)
    assert y.level == p.levels
    assert np.allclose(secret.decrypt(y), values, atol=1e-4)


# Sets that do not match


def test_mismatches_name_both_sets(tmp_path: Path) -> None:
    """The error for sets that do not match states the numbers of both, and how to get the set of the other version."""
    new, old = (hg.ckks.parameters(depth=1, precision=20, slots=16, version=v) for v in ("0.3", "0.2"))
    a, b = hg.ckks.SecretKey.generate(new), hg.ckks.SecretKey.generate(old)
    x, server = b.encrypt(np.ones(16)), hg.Server(a.evaluation_keys())
    x.save(tmp_path / "x")
    for fault in (
        lambda: server.bind(x),
        lambda: server.load(tmp_path / "x"),
        lambda: a.decrypt(x),
        lambda: a.encrypt(np.ones(16)) + x,
    ):
        with pytest.raises(hg.MismatchError) as raised:
            fault()
        text = str(raised.value)
        for part in (
            "N=2^13",
            "log q 86",
            "log q 115",
            "room 2^11",
            "room 2^40",
            "2 levels",
            "scale 2^37.0",
            'version="0.2"',
        ):
            assert part in text, text
    other = hg.ckks.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20, slots=16, bound=50))
    with pytest.raises(hg.MismatchError, match=r"bound 50.*same bound="):
        server.bind(other.encrypt(np.ones(16)))
    far = hg.ckks.SecretKey.generate(hg.ckks.parameters("n13-l4"))
    with pytest.raises(hg.MismatchError) as raised:
        server.bind(far.encrypt(np.ones(4096)))
    assert "version" not in str(raised.value)
    assert "n13-l4 (N=2^13, log q 154" in str(raised.value)


IMPOSSIBLE: list[dict[str, Any]] = [
    {"levels": [[0], [0, 120]]},
    {"levels": [[0], []]},
    {"bootstrapping": {"levels": 64, "log_scale": 45.0, "entry": 2}},
    {"bootstrapping": {"levels": 2, "log_scale": 45.0, "entry": 2}},
    {"chain": []},
    {"n": 0},
    {"bound": -1.0},
]


@pytest.mark.parametrize("wrong", IMPOSSIBLE, ids=str)
def test_impossible_sets_in_files(wrong: dict[str, Any]) -> None:
    """A file with an impossible set is refused before its numbers are used."""
    p = hg.ckks.parameters(depth=1, precision=20, slots=16)
    secret = hg.ckks.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys())
    d = take_apart(secret.encrypt(np.ones(16)).to_bytes())
    d.header["parameters"] |= wrong
    d.header["parameter_hash"] = hashlib.sha256(canonical(d.header["parameters"] | {"name": ""})).hexdigest()
    with pytest.raises(hg.DamagedFileError, match="invalid"):
        server.from_bytes(signed(d))
