"""CKKS never returns a wrong value without an error. The tests run hundreds of computations on ordinary data and compare the
bound of each slot with its value. The tests also load malicious files and false declared bounds.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev as np_chebyshev

import heliograph as hg
import range_rig as rig
import resign
from places import places

#: Pairs of the number of slots of a set and the number of values. If the number of slots is a power of two, values repeat
#: over the places.
PACKINGS = ((4, 4), (16, 16), (100, 100), (256, 256), (1000, 1000), (2048, 2048))
#: Bits of the lowest primes, which give rooms of 2^11, 2^21, 2^31 and 2^41.
ROOMS = (50, 60, 70, 80)
DATA = Path(__file__).with_name("data")


def cases() -> Any:
    """Returns the module range_cases of the benchmarks."""
    from benchmarks.cases import ranges as range_cases

    return range_cases


def refused(found: Counter[str]) -> float:
    """Returns which fraction of the correct results is refused."""
    return found["refused right"] / max(1, found["refused right"] + found["right"])


def outcomes(seeds: range, base_bits: int, each: int) -> Counter[str]:
    """Counts the outcomes of random computations; fails if a value is wrong and no error is raised."""
    rc, found = cases(), Counter[str]()
    for seed in seeds:
        random = np.random.default_rng([seed, base_bits])
        for slots, width in PACKINGS:
            party = rc.small(slots, base_bits)
            names = [name for name, one in rc.CASES.items() if one.fits(party.parameters, width)]
            for name in random.choice(names, each, replace=False):
                known = str(random.choice(rc.KNOWN))
                one = rc.run(str(name), party, known, [seed, width], width)
                said = f"{name}, {width} values, known: {known}, seed {seed}, off by {one.off}: {one.tensor}"
                assert one.kind != "wrong", said
                found[one.kind] += 1
                found["refused right"] += one.kind == "refused" and one.right
                found["wrapped"] += one.kind == "refused" and not one.right
    return found


def test_there_are_cases_of_many_kinds() -> None:
    """There are at least 32 computations and 12 kinds of data."""
    rc = cases()
    assert len(rc.CASES) >= 32
    assert len(rc.DATA) >= 12


@pytest.mark.parametrize("base_bits", ROOMS)
def test_no_wrong_value_without_an_error(base_bits: int) -> None:
    """Results in memory and from files, with and without given bounds, are correct or refused. Unchecked results show the
    wrong values.

    """
    found = outcomes(range(2), base_bits, 6)
    assert found["right"] > 20
    if base_bits == ROOMS[0]:
        assert found["wrapped"] > 3
    if base_bits == ROOMS[-1]:
        assert refused(found) < 0.03


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("base_bits", ROOMS)
def test_no_wrong_value_in_hundreds_of_seeds(base_bits: int, part: int) -> None:
    """For hundreds of seeds, results are correct or refused."""
    found = outcomes(range(100 + 40 * part, 140 + 40 * part), base_bits, 6)
    assert found["right"] > 400
    if base_bits == ROOMS[-1]:
        assert refused(found) < 0.015  # the fraction is about 0.0075 over all parts


def test_unchecked_decryption_returns_wrong_values() -> None:
    """Control: `unchecked` returns wrong values for prices times quantities beyond the room."""
    party = cases().small(16, 50)
    a, b = np.linspace(50, 100, 16), np.linspace(40, 100, 16)
    y = hg.ckks.lower(party.server.bind(party.secret.encrypt(a)) * party.server.bind(party.secret.encrypt(b)), 1)
    off = np.abs(party.secret.decrypt(y, unchecked=True) - a * b).max()
    assert off > party.parameters.room
    with pytest.raises(hg.RoomError, match=r"Room for 2\^11.*integer_bits=1[345] holds.*unchecked=True"):
        party.secret.decrypt(y)


# Bounds


def check_bounds(seeds: range, each: int) -> None:
    """Checks that the bounds of random computations are never below the values."""
    rc = cases()
    for seed in seeds:
        random = np.random.default_rng([seed, 7])
        for slots, width in ((4, 4), (16, 16), (256, 100), (2048, 4), (2048, 16), (2048, 1000), (2048, 2048)):
            party = rc.small(slots, 80)
            names = [name for name, one in rc.CASES.items() if one.fits(party.parameters, width)]
            names = [name for name in names if not rc.CASES[name].dense or width == slots]
            for name in random.choice(names, each, replace=False):
                one = rc.run(str(name), party, str(random.choice(rc.KNOWN)), [seed, width], width)
                if one.kind == "right":
                    wrong = rig.below(party, one.tensor, one.clear)
                    assert not wrong, f"{name}, {width} of {slots} slots, seed {seed}: {wrong}"


def test_bounds_of_random_computations_hold() -> None:
    """Bounds of values, of all places, of coefficients and of the mean are never below the actual numbers."""
    check_bounds(range(2), 7)


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_bounds_are_above_the_values_in_hundreds_of_seeds(part: int) -> None:
    """For hundreds of seeds, no bound is below the actual number."""
    check_bounds(range(100 + 20 * part, 120 + 20 * part), 10)


def wide(base_bits: int = 50) -> Any:
    """Returns a party whose ciphertexts have 2,048 places."""
    return cases().small(2048, base_bits)


def sent(party: Any, x: Any) -> Any:
    """Saves a tensor and loads it at the server."""
    return party.server.from_bytes(x.to_bytes())


def test_bounds_include_unused_places() -> None:
    """A polynomial also changes the unused places. Bounds include these places, whether their contents are known or (from
    files) unknown.
    """
    p = wide()
    v = np.random.default_rng(0).uniform(4, 6, 5)
    x = p.server.bind(p.secret.encrypt(v, pad=True, bound=(4, 6)))
    for z in (x - 3, sent(p, x - 3)):  # the unused places hold -3
        y = hg.ckks.polynomial(z, [3, -4, 1])  # the unused places hold 24; the values are at most 1
        assert not rig.below(p, y, (v - 3) ** 2 - 4 * (v - 3) + 3)


@pytest.mark.parametrize("degree", [5, 7, 9])
@pytest.mark.parametrize("middle", [2.9, 3.0, 3.15, 4.0])
def test_a_series_may_exceed_the_room_at_unused_places(degree: int, middle: float) -> None:
    """A declared bound covers only the values, so T_k at the unused places may exceed the room. If T_k exceeds the room at
    an unused place, the result is refused.

    """
    p, c = wide(), np.eye(10)[degree]
    v = np.random.default_rng(degree).uniform(-0.9, 0.9, 5)
    x = p.server.bind(p.secret.encrypt(v + middle, pad=True, bound=(middle - 1, middle + 1)))
    z = sent(p, x - middle)
    right_or_refused(p, hg.ckks.polynomial(hg.ckks.within(z, 1), c, basis="chebyshev"), np_chebyshev.chebval(v, c))
    power = np.eye(8)[7]
    right_or_refused(p, hg.ckks.polynomial(hg.ckks.within(z, 1), power), v**7)


def right_or_refused(p: Any, x: Any, clear: Any, off: float = 1e-2) -> bool:
    """Decrypts at the lowest level and returns whether the result is correct. A result that is neither correct nor refused
    fails the test.
    """
    low = hg.ckks.lower(x, 1)
    try:
        found = p.secret.decrypt(low)
    except hg.RoomError:
        return False
    np.testing.assert_allclose(found, clear, atol=off, rtol=1e-4)
    return True


def test_a_declared_bound_covers_only_the_values() -> None:
    """A declared bound covers only the values. Here 2,400 at the unused places exceeds the room, so the result is refused.
    Files state that unused places whose content is public are zero.

    """
    p = wide()
    v = np.random.default_rng(1).uniform(2.2, 3.8, 5)
    x = p.server.bind(p.secret.encrypt(v, pad=True, bound=(0, 8))) * 800.0 - 2400.0
    assert not right_or_refused(p, hg.ckks.within(x, 800), (v - 3) * 800)
    assert right_or_refused(p, hg.ckks.within(sent(p, x), 800), (v - 3) * 800)
    inside = hg.ckks.multiply(x, np.ones(5))  # the unused places become zero
    assert right_or_refused(p, hg.ckks.within(inside, 800), (v - 3) * 800)


def test_complex_arguments_of_a_series() -> None:
    """Complex arguments of a Chebyshev series are not bounded by [-1, 1]: T_7(i) has magnitude 239."""
    p, c = wide(), 100 * np.eye(8)[7]
    v = 1j * np.random.default_rng(2).uniform(0.5, 1, 2048)
    x = sent(p, p.secret.encrypt(v, bound=1))
    assert not right_or_refused(p, hg.ckks.polynomial(x, c, basis="chebyshev"), np_chebyshev.chebval(v, c))


@pytest.mark.parametrize("bound", [37.3, 1 / 3, 1000.1, math.pi])
def test_a_series_of_values_divided_by_their_bound(bound: float) -> None:
    """Bounds in files are rounded up. Values scaled by a bound that was rounded up are still accepted as arguments of a
    polynomial on the interval.

    """
    p, c = wide(), np.ones(16) / 16
    v = np.random.default_rng(3).uniform(-bound, bound, 2048)
    x = sent(p, p.secret.encrypt(v, bound=bound)) * (1 / bound)
    y = hg.ckks.polynomial(x, c, basis="chebyshev")
    assert right_or_refused(p, y, np_chebyshev.chebval(v / bound, c))
    assert not rig.below(p, y, np_chebyshev.chebval(v / bound, c))
    with pytest.raises(hg.PlaintextRangeError, match=r"within\(x, 1\)"):
        hg.ckks.polynomial(x * 1.001, c, basis="chebyshev")


def test_factors_of_thousands_of_ciphertexts() -> None:
    """More than 4,096 ciphertexts have one bound together, which covers both signs."""
    params = hg.ckks.parameters(n=1024, levels=3, log_scale=38, base_bits=50, slots=4, insecure=True)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys())
    factors = np.full((4097, 1), 0.5)
    factors[7] = -7000
    x = server.bind(secret.encrypt(np.ones((4097, 4)), bound=1))
    assert (x * factors).bounds == (-7000.0, 7000.0)
    one = server.bind(secret.encrypt(np.ones(4), bound=(0, 1)))
    low, high = (one * factors).bounds or (0, 0)
    assert (low, high) == (-7000.0, 0.5)
    with pytest.raises(hg.RoomError):
        secret.decrypt(hg.ckks.lower(x * factors, 1))


# Malicious files


@pytest.mark.parametrize("width", [2048, 100])
@pytest.mark.parametrize("bits", [1, 3, 6, 10, 20])
def test_a_bound_too_small_in_a_file(bits: int, width: int) -> None:
    """Default decryption trusts the bound of a sender unless known places or the values contradict it. Checked decryption
    does not trust a sender's bound.

    """
    p = wide()
    size = 2.0 ** (10 + bits)
    # the values have one sign, so their mean exceeds the room
    v = np.random.default_rng(bits).uniform(-1, 1, width) * size + size
    x = p.server.bind(p.secret.encrypt(v / size, pad=True, bound=2)) * size
    true = sent(p, hg.ckks.lower(x, 1))
    lying = p.server.from_bytes(rig.rewritten(true, ranges=[[0.0, 2048.0 / 2**bits]]))
    for options in ({"checked": True}, {}):
        with hg.strict(not options), pytest.raises(hg.RoomError, match="proof is required"):
            p.secret.decrypt(lying, **options)
    right = np.abs(p.secret.decrypt(lying, unchecked=True) - v).max() < 1
    if not right:
        with pytest.raises(hg.RoomError):
            p.secret.decrypt(true)
    if width < 2048 and not right:
        loose = p.server.from_bytes(rig.rewritten(true, ranges=[[-size * 4, size * 4, 1.0]]))
        for options in ({}, {"publish_bits": 2, "precision": 20}):
            with pytest.raises(hg.RoomError, match=r"padding slots|outside of the bounds"):
                p.secret.decrypt(loose, **options)
    if right:  # the values exceed the bound that the file declares
        with pytest.raises(hg.RoomError, match="outside of the bounds"):
            p.secret.decrypt(lying)


def test_a_false_bound_of_full_ciphertexts() -> None:
    """If all places hold values and the values have wrapped at the lowest level, the sender's bound decides, and no
    precision is promised.

    """
    p = wide()
    v = np.random.default_rng(5).uniform(0, 9000, 2048)
    x = sent(p, hg.ckks.lower(p.server.bind(p.secret.encrypt(v / 9000, bound=1)) * 9000.0, 1))
    with pytest.raises(hg.RoomError):
        p.secret.decrypt(x)
    with pytest.raises(hg.RoomError, match="outside of the bounds that were declared, 0 to 2000"):
        p.secret.decrypt(p.server.from_bytes(rig.rewritten(x, ranges=[[0.0, 2000.0]])))
    lying = p.server.from_bytes(rig.rewritten(x, ranges=[[-9000.0, 9000.0, 2000.0]]))
    off = np.abs(p.secret.decrypt(lying) - v).max()
    assert off > p.parameters.room
    assert lying.precision is None


def test_falsely_declared_zeros_are_refused() -> None:
    """A false declaration that unused places are zero is refused if the bound is not trusted."""
    p = wide()
    v = np.linspace(-1, 1, 100)
    x = p.server.bind(p.secret.encrypt(v, pad=True, bound=1))
    z = x - hg.ckks.mean(x + 0.5, "slots")
    forged = p.server.from_bytes(rig.rewritten(z, tail="zero"))
    with pytest.raises(hg.RoomError, match="padding slots"):
        p.secret.decrypt(forged)
    for other in ("", "one", 0, ["zero"]):
        with pytest.raises(hg.DamagedFileError):
            p.server.from_bytes(rig.rewritten(z, tail=other))


DAMAGED: dict[str, Any] = {
    "reversed": [[2.0, 1.0]],
    "a negative root mean square": [[0.0, 1.0, -1.0]],
    "a negative mean": [[0.0, 1.0, 1.0, -1.0]],
    "a negative peak": [[0.0, 1.0, 1.0, 1.0, -1.0]],
    "not a number": [[math.nan, 1.0]],
    "infinite": [[-math.inf, math.inf]],
    "an infinite root mean square": [[0.0, 1.0, math.inf]],
    "of more ciphertexts": [[0.0, 1.0]] * 3,
    "of fewer ciphertexts": [],
    "of very many ciphertexts": [[0.0, 1.0]] * 100_000,
    "one number": [[1.0]],
    "seven": [[0.0, 1.0, 1.0, 1.0, 1.0, True, 1.0]],
    "a word that is a number": [[0.0, 1.0, 1.0, 1.0, 1.0, 1.0]],
    "texts": [["0", "1"]],
    "an object": {"low": 0.0},
    "nested": [[[0.0, 1.0]]],
    "a number": 1.0,
    "a text": "unknown",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_ranges(what: str) -> None:
    """Damaged ranges raise DamagedFileError before anything is computed."""
    p = cases().small(16, 50)
    x = p.server.bind(p.secret.encrypt(np.ones((2, 16)), bound=1)) * 1.0
    with pytest.raises(hg.DamagedFileError):
        p.server.from_bytes(rig.rewritten(x, ranges=DAMAGED[what]))


@pytest.mark.parametrize("fresh", [True, False])
def test_huge_and_missing_ranges(fresh: bool) -> None:
    """Huge ranges mean unknown bounds, which every operation accepts."""
    p = cases().small(16, 50)
    x = p.server.bind(p.secret.encrypt(np.ones((2, 16)), bound=1))
    x = x if fresh else x * 1.0
    for ranges in (None, [[-1e308, 1e308]], [[-1e308, 1e308, 1e308, 1e308, 1e308, True]]):
        y = p.server.from_bytes(rig.rewritten(x, ranges=ranges))
        z = hg.ckks.mean(y, "slots") * y - hg.ckks.polynomial(y, [1, 2, 3]) + hg.ckks.rotate(y, 1)
        z = hg.sum(z * z)
        np.testing.assert_allclose(p.secret.decrypt(hg.ckks.lower(z, 3)), 32, rtol=1e-4)
        assert z.bounds is None
        assert y.precision is None


@pytest.mark.parametrize("word_size", [32, 64])
@pytest.mark.parametrize("version", [1, 2])
def test_files_of_older_formats(version: int, word_size: int) -> None:
    """Format 2 has a magnitude, format 1 has no bound; decryption uses the numbers that are known."""
    folder = DATA / f"format-v{version}"
    secret = hg.SecretKey.load(folder / f"ckks-secret-key-w{word_size}.hg")
    server = hg.Server(hg.EvaluationKeys.from_bytes((folder / f"ckks-evaluation-keys-w{word_size}.hg").read_bytes()))
    x = server.load(folder / f"ckks-ciphertext-w{word_size}.hg")
    product = server.load(folder / f"ckks-product-w{word_size}.hg")
    assert (x.bounds is None, product.bounds is None) == ((True, True) if version == 1 else (False, False))
    for tensor in (x, product):
        values = secret.decrypt(tensor, unchecked=True)
        if tensor is x:
            np.testing.assert_array_equal(secret.decrypt(x), values)
        else:  # without a bound and a noise estimate, this product is refused
            with pytest.raises(hg.RoomError, match=r"no bound on their noise is known.*unchecked=True") as refused:
                secret.decrypt(product)
            assert "within" not in str(refused.value)
        with pytest.raises(hg.RoomError):
            secret.decrypt(tensor, checked=True)
        if version == 2:
            low, high = tensor.bounds or (0, 0)
            assert low <= values.real.min() <= values.real.max() <= high == -low


# Equal on all devices


@pytest.mark.parametrize(
    "device", places("ref", "cpu", "2*cpu/limb/uncalibrated", "cuda:0", usual=("ref", "2*cpu/limb/uncalibrated", "cuda:0"))
)
def test_devices_refuse_the_same(device: str) -> None:
    """All devices give the same bytes, bounds and errors."""
    for width in (16, 100):
        assert everything_on(device, width) == everything_on("cpu:scalar", width)


@functools.cache
def everything_on(device: str, width: int) -> list[Any]:
    """Returns the bytes, bounds and errors of results; some of these results exceed the room."""
    core = hg.ckks.parameters(n=2048, levels=4, log_scale=38, base_bits=50, special=1, slots=width, insecure=True)._core
    from heliograph import _core

    secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(core.on_device(device), bytes(range(32))))
    server = hg.Server(secret.evaluation_keys(rotations=hg.ckks.sum_rotations(secret.parameters.period)))
    made: list[Any] = []
    for size in (1.0, 10.0, 40.0, 500.0):
        v = size * np.random.default_rng(width).uniform(0.5, 1, (3, width))
        x = server.bind(secret.encrypt(v, bound=(0, size)))
        for y in (
            x * x,
            hg.ckks.mean(x * x, "slots"),
            hg.sum(x, axis="slots"),
            hg.matmul([[1, -1, 2.5]], x),
            x[:1] - x[1:] * 3,
        ):
            low = hg.ckks.lower(y, 1)
            made += [low.to_bytes(), rig.bounds_of(low, True), rig.bounds_of(low, False)]
            try:
                made.append(secret.decrypt(low).tobytes())
            except hg.RoomError as error:
                made.append(str(error))
    assert any(isinstance(m, str) for m in made)
    return made


# Shapes, degrees, programs


def test_shapes_keep_the_bounds_of_each_ciphertext() -> None:
    """Slices, transposes, broadcasts, concatenations and in-place operations keep the bounds of each ciphertext."""
    p = wide(80)
    v = np.array([1.0, 10, 100, 1000, 1e4, 1e5])[:, None] * np.random.default_rng(6).uniform(0.5, 1, (6, 5))
    x = p.server.bind(p.secret.encrypt(v, pad=True, bound=1e5))
    a, y = v.reshape(2, 3, 5), x.reshape(2, 3)
    steps: list[tuple[Any, Any]] = [
        (y.transpose(), a.transpose(1, 0, 2)),
        (y[1, ::-1], a[1, ::-1]),
        (x[4:1:-2], v[4:1:-2]),
        (y[0][:, None].broadcast_to((3, 2)), np.broadcast_to(a[0][:, None], (3, 2, 5))),
        (hg.concatenate([y[:, 1:], y], axis=1), np.concatenate([a[:, 1:], a], 1)),
        (hg.stack([x[0], x[5] * 2]), np.stack([v[0], v[5] * 2])),
        (hg.sum(y, axis=1), a.sum(1)),
        (hg.matmul([[1, -1], [0.5, 0]], y, axis=0), np.tensordot([[1, -1], [0.5, 0]], a, 1)),
        (hg.dot(x, [1, 2, 3, -4, 5, -6.5]), np.tensordot([1, 2, 3, -4, 5, -6.5], v, 1)),
        (hg.ckks.inner_product(x, x), (v * v).sum(0)),
        (x * [[1], [-1], [2], [3], [0], [1e-3]] + [[5], [-9], [0], [0], [-3], [7]], None),
    ]
    steps[-1] = (steps[-1][0], v * [[1], [-1], [2], [3], [0], [1e-3]] + [[5], [-9], [0], [0], [-3], [7]])
    for made, clear in steps:
        np.testing.assert_allclose(p.secret.decrypt(made), clear, rtol=1e-5, atol=1e-3)
        assert not rig.below(p, made, clear)
    highest = [max(-low, high) for low, high, *_ in rig.bounds_of(steps[1][0], True)]
    assert highest == sorted(highest, reverse=True)
    assert highest[0] > 50 * highest[-1]
    z = +x[:2]
    z += x[2:4]
    z -= x[4:]
    z *= x[:2]
    clear = (v[:2] + v[2:4] - v[4:]) * v[:2]
    assert not rig.below(p, z, clear)
    np.testing.assert_allclose(p.secret.decrypt(z), clear, rtol=1e-5)


def test_products_of_degree_two_and_levels() -> None:
    """Products that have degree two, are not rescaled, are lowered or are rotated have correct bounds."""
    p = wide(60)
    v = np.random.default_rng(8).uniform(-90, 100, 100)
    x = p.server.bind(p.secret.encrypt(v, pad=True, bound=100))
    square = hg.ckks.multiply(x, x, relinearize=False, rescale=False)
    for made, clear in (
        (square, v * v),
        (square + square, 2 * v * v),
        (square.relinearize(), v * v),
        (hg.ckks.lower(x * x, 1), v * v),
        (hg.ckks.lower(square.relinearize_rescale(), 2), v * v),
        (hg.ckks.sum_slots(x), np.full(100, v.sum())),
        (hg.ckks.conjugate(x * 1j), -1j * v),
    ):
        np.testing.assert_allclose(p.secret.decrypt(made), clear, rtol=1e-4, atol=1e-4)
        assert not rig.below(p, made, clear)
    for made in (hg.ckks.rotate(x, 4), hg.ckks.rotate(x - hg.ckks.mean(x, "slots"), -1), hg.ckks.sum_slots(x, 4)):
        assert not rig.below(p, made, p.secret.decrypt(made, unchecked=True))


def test_sums_over_slots_of_fewer_slots_than_places() -> None:
    """Sums over slots with fewer values than places are correct or refused, because the unused places are unknown."""
    p = wide()
    for size in (1.0, 8.0, 30.0, 41.0, 45.0, 100.0, 1000.0):
        v = size * np.random.default_rng(9).uniform(0.5, 1, 50)
        x = p.server.bind(p.secret.encrypt(v, pad=True, bound=(0, size)))
        for y in (x, sent(p, x)):
            total = hg.ckks.lower(hg.sum(y, axis="slots"), 1)
            fits = right_or_refused(p, total, np.full(50, v.sum()))
            assert fits >= (size * 50 <= p.parameters.room)
            assert fits <= (v.sum() <= p.parameters.room)
            pairs = np.zeros(2048)
            pairs[:50] = v + np.append(v[1:], 0)
            pairs[-1] = v[0]
            assert right_or_refused(p, hg.ckks.sum_slots(hg.ckks.lower(y, 1), 2), pairs)


def test_bounds_of_a_program_follow_its_operands() -> None:
    """The bounds of a replayed program follow from its operands, also for a loaded program whose operands exceed the
    recorded operands.
    """
    p = wide()

    def f(x: Any, y: Any) -> Any:
        return hg.ckks.lower(hg.ckks.mean(x * y, "slots") * 2.0, 1)

    def operands(size: float, bound: float) -> tuple[list[Any], Any]:
        v = size * np.random.default_rng(10).uniform(0.5, 1, (2, 2048))
        return [p.server.bind(p.secret.encrypt(each, bound=bound)) for each in v], np.full(2048, 2 * (v[0] * v[1]).mean())

    program = hg.program(f)
    program(*operands(1.0, 1.0)[0])
    loaded = hg.Program.from_bytes(program.to_bytes())
    for size, bound, fits in (
        (1.0, 1.0, True),
        (0.5, 1.0, True),
        (10.0, 16.0, True),
        (60.0, 64.0, False),
        (300.0, 512.0, False),
    ):
        given, clear = operands(size, bound)
        for y in (program(*given), f(*given)):
            assert rig.bounds_of(y, True) == rig.bounds_of(f(*given), True)
            assert rig.bounds_of(y, False) == rig.bounds_of(f(*given), False)
            assert right_or_refused(p, y, clear) == fits
        if bound > 1:
            with pytest.raises(hg.MismatchError, match="larger values"):
                loaded(*given)
            continue
        y = loaded(*given)
        assert right_or_refused(p, y, clear)
        with pytest.raises(hg.RoomError, match="proof"):
            p.secret.decrypt(y, checked=True)


def test_a_loaded_program_of_unknown_operands() -> None:
    """If the bounds of operands are unknown, the bounds of a loaded program's results are unknown. The bounds of the
    recorded operands are not used.

    """
    p = wide()
    v = np.full(2048, 50.0)
    x = p.server.bind(p.secret.encrypt(v / 50, bound=1))
    loaded = hg.Program.from_bytes(hg.program(lambda x: hg.ckks.lower(x * x, 1), x).to_bytes())
    y = p.server.bind(p.secret.encrypt(v, bound=64))
    unknown = p.server.from_bytes(rig.rewritten(y, ranges=None, noise=None))
    lying = p.server.from_bytes(rig.rewritten(y, ranges=[[-1.0, 1.0]]))
    assert loaded(unknown).bounds is None
    assert not right_or_refused(p, loaded(unknown), v * v)
    np.testing.assert_allclose(
        p.secret.decrypt(loaded(lying), unchecked=True), p.secret.decrypt(loaded(unknown), unchecked=True), atol=1e-2
    )
    with pytest.raises(hg.MismatchError):
        loaded(y)


def test_a_program_whose_file_lacks_ranges() -> None:
    """If the file of a program lists too few ranges of operands, the results have no bounds."""
    p = wide()
    x, y = (p.server.bind(p.secret.encrypt([np.full(2048, v) for v in (0.5, 0.25)], bound=1)) for _ in range(2))
    program = hg.program(lambda x, y: hg.ckks.lower(x * y, 1), x, y)
    ranges = resign.take_apart(program.to_bytes()).header["ranges"]
    assert hg.Program.from_bytes(rig.rewritten(program, ranges=ranges))(x, y).bounds is not None
    assert hg.Program.from_bytes(rig.rewritten(program, ranges=ranges[:1]))(x, y).bounds is None
    with pytest.raises(hg.FormatError):
        hg.Program.from_bytes(rig.rewritten(program, ranges=[ranges[0], []]))


# Edge cases


def test_values_and_noise_near_the_room() -> None:
    """Values just below the room are decrypted. Values just above it are refused because of their bound or of known places."""
    p = cases().small(16, 50)
    room = p.parameters.room
    for part in (0.5, 0.9, 0.999, 0.9999, 1.0001, 1.01, 1.5):
        v = np.full(16, part * room)
        x = hg.ckks.lower(p.server.bind(p.secret.encrypt(v, bound=part * room, level=2)), 1)
        assert right_or_refused(p, x, v) == (part < 1)
        assert right_or_refused(p, sent(p, x), v) in ((True, False) if part < 1 and part > 0.98 else (part < 1,))


def test_tiny_values_and_known_places() -> None:
    """Values of 1e-9 are below the precision of this scale. The tensor states this, and the zeros behind the values are not
    a reason to refuse it.

    """
    p = wide()
    v = np.full(100, 1e-9)
    x = p.server.bind(p.secret.encrypt(v, pad=True, bound=1e-9))
    for y in (x, sent(p, x), hg.ckks.lower(x * x, 1), hg.ckks.mean(x, "slots")):
        assert np.abs(p.secret.decrypt(y)).max() < 1e-6
    assert x.bounds is not None
    assert x.bounds[1] == pytest.approx(1e-9, rel=1e-3)


def test_no_items() -> None:
    """An empty tensor is never refused."""
    p = cases().small(16, 50)
    x = p.server.bind(p.secret.encrypt(np.ones((3, 16))))[:0]
    for y in (x, x * 2 + 1, x * x, hg.ckks.mean(x, "slots"), sent(p, x * 0.5)):
        assert p.secret.decrypt(y).shape == (0, 16)
        assert p.secret.decrypt(y, unchecked=True).shape == (0, 16)
    np.testing.assert_array_equal(p.secret.decrypt(hg.sum(x)), 0)


def test_zeros_behind_small_vectors() -> None:
    """With `repeat=False`, the zeros behind the values reveal every wrap, and four values may be larger by 4.5 bits."""
    rc = cases()
    repeated, behind = rc.small(4, 50), rc.small(4, 50, repeat=False)
    for size in (1.0, 30.0, 100.0, 200.0, 3000.0):
        v = size * np.array([0.5, 0.8, 1.0, 0.9])
        fits = []
        for p in (repeated, behind):
            x = sent(p, p.secret.encrypt(v / size, pad=True, bound=1)) * size
            y = hg.ckks.lower(x * x, 1)
            fits.append(right_or_refused(p, y, v * v, off=1))
        assert fits == [size <= 30, size <= 200]


# Declared bounds


def test_bootstraps_under_declared_bounds() -> None:
    """In chains of bootstraps, true declared bounds never give a wrong value. A bound that is far too small is detected by
    the values that exceed it.

    """
    rc = cases()
    for slots, width in ((0, 100), (256, 256)):
        party = rc.bootstrapping(slots)
        for seed, count in enumerate((1, 3)):
            one = rc.bootstrapped_chain(party, width, count, 1, [seed, width])
            assert (one.right, one.refused, one.outside) == (True, False, False)
            for too_small in (10, 1000):
                one = rc.bootstrapped_chain(party, width, count, too_small, [seed, width])
                assert one.refused
                assert one.outside


@pytest.mark.full
@pytest.mark.parametrize("width", [100, 256])
def test_long_chains_of_bootstraps(width: int) -> None:
    """For one to ten bootstraps, true bounds give right values and false ones are detected."""
    rc = cases()
    party = rc.bootstrapping(256 if width == 256 else 0)
    for seed in range(30):
        one = rc.bootstrapped_chain(party, width, 1 + seed % 10, 1, [seed, width])
        assert (one.right, one.refused) == (True, False)
        for too_small in (5, 20, 100):
            one = rc.bootstrapped_chain(party, width, 1 + seed % 10, too_small, [seed, width])
            assert one.right or one.refused


def test_values_beyond_a_declared_bound() -> None:
    """If values exceed the declared bound by more than a fifth, decryption raises RoomError, whichever numbers are at the
    unused places.

    """
    p = wide()
    for width in (100, 2048):
        v = np.linspace(-3, 3, width)
        x = sent(p, p.secret.encrypt(v, pad=True, bound=4))
        np.testing.assert_allclose(p.secret.decrypt(hg.ckks.within(x, 2.9)), v, atol=1e-4)
        for y in (hg.ckks.within(x, 2), hg.ckks.within(x, 2) * 2 + 1, sent(p, hg.ckks.within(x, 0.01))):
            with pytest.raises(hg.RoomError, match="outside of the bounds that were declared"):
                p.secret.decrypt(y)
            p.secret.decrypt(y, unchecked=True)
    mine = p.server.bind(p.secret.encrypt(np.linspace(-3, 3, 2048), bound=4))
    with pytest.raises(hg.RoomError, match="outside of the bounds"):
        p.secret.decrypt(hg.ckks.within(mine, 2))


# The benchmark


def test_the_benchmark_counts_every_outcome() -> None:
    """The benchmark's rows for a small set have each kind of outcome, and the benchmark's table has a line for each."""
    from benchmarks.report import services
    from benchmarks.runners import ranges

    rc = cases()
    rows = []
    for known in rc.KNOWN:
        row = ranges.counted(rc.small(16, 50), 16, known, 20, [3])
        assert sum(row["counts"].values()) == row["runs"] == 20
        assert row["counts"].get("wrong", 0) == 0
        assert sum(row["refused"].values()) == row["counts"].get("refused", 0)
        rows += [{"kind": "computations", "sets": which, "name": "small"} | row for which in ("default", "named")]
    counts = {"right": 3, "wrong": 2, "wrong, not refused": 1, "refused": 4, "outside of its bound": 1}
    rows += [{"kind": "chains", "word_too_small": 5, "zeros_behind": b, "runs": 5, "counts": counts} for b in (False, True)]
    lines = services.ranges({"a.jsonl": {"results": rows, "commit": "0123456789abcdef"}})
    assert sum(line.startswith("| small, room 2^11: ") for line in lines) == 3
    assert "| 5 times too small, zeros behind the values | 5 | 1 | 1 | 3 |" in lines
    assert "[a.jsonl](benchmarks/results/a.jsonl), 0123456789ab: " in lines[-1]
