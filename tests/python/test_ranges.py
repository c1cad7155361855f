"""CKKS hands out no wrong value without an error: computations on ordinary data by the hundred, bounds against what lies in each
place, files that lie, and words that do not hold.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev as np_chebyshev

import heliograph as hg
import range_rig as rig
from places import places

pytestmark = pytest.mark.usefixtures("benchmarks")

#: Slots of sets, and values in them. A power of two of slots repeats.
PACKINGS = ((4, 4), (16, 16), (100, 100), (256, 256), (1000, 1000), (2048, 2048))
#: Bits of the lowest primes: rooms of 2^11, 2^21, 2^31 and 2^41.
ROOMS = (50, 60, 70, 80)
DATA = Path(__file__).with_name("data")


def cases() -> Any:
    """The module, which the benchmarks' folder has."""
    import range_cases

    return range_cases


def refused(found: Counter[str]) -> float:
    """The part of right results that are refused."""
    return found["refused right"] / max(1, found["refused right"] + found["right"])


def outcomes(seeds: range, base_bits: int, each: int) -> Counter[str]:
    """Of random computations. Fails for a wrong value without an error."""
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
    """On twelve kinds of data."""
    rc = cases()
    assert len(rc.CASES) >= 32
    assert len(rc.DATA) >= 12


@pytest.mark.parametrize("base_bits", ROOMS)
def test_no_wrong_value_without_an_error(base_bits: int) -> None:
    """Through files and in one process, with bounds that are said or not; what is unchecked shows that values wrapped."""
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
    """The same."""
    found = outcomes(range(100 + 40 * part, 140 + 40 * part), base_bits, 6)
    assert found["right"] > 400
    if base_bits == ROOMS[-1]:
        assert refused(found) < 0.01


def test_a_test_of_nothing_hands_out_wrong_values() -> None:
    """Of `unchecked`: prices times quantities beyond the room."""
    party = cases().small(16, 50)
    a, b = np.linspace(50, 100, 16), np.linspace(40, 100, 16)
    y = hg.ckks.lower(party.server.bind(party.secret.encrypt(a)) * party.server.bind(party.secret.encrypt(b)), 1)
    off = np.abs(party.secret.decrypt(y, unchecked=True) - a * b).max()
    assert off > party.parameters.room
    with pytest.raises(hg.RoomError, match=r"Room for 2\^11.*integer_bits=1[345] holds.*unchecked=True"):
        party.secret.decrypt(y)


# Bounds


def check_bounds(seeds: range, each: int) -> None:
    """Of random computations: no bound is below what lies there."""
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


def test_bounds_are_above_what_lies_there() -> None:
    """Of values, of all places, of the coefficients, of the mean."""
    check_bounds(range(2), 7)


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_bounds_are_above_what_lies_there_in_hundreds(part: int) -> None:
    """The same."""
    check_bounds(range(100 + 20 * part, 120 + 20 * part), 10)


def wide(base_bits: int = 50) -> Any:
    """A party whose ciphertexts have 2,048 places."""
    return cases().small(2048, base_bits)


def sent(party: Any, x: Any) -> Any:
    """Through a file."""
    return party.server.from_bytes(x.to_bytes())


def test_places_behind_the_values_count() -> None:
    """What a polynomial makes of them, where they are known and where a file does not tell."""
    p = wide()
    v = np.random.default_rng(0).uniform(4, 6, 5)
    x = p.server.bind(p.secret.encrypt(v, pad=True, bound=(4, 6)))
    for z in (x - 3, sent(p, x - 3)):  # -3 stands behind them
        y = hg.ckks.polynomial(z, [3, -4, 1])  # 24 there, and at most 1 of the values
        assert not rig.below(p, y, (v - 3) ** 2 - 4 * (v - 3) + 3)


@pytest.mark.parametrize("degree", [5, 7, 9])
@pytest.mark.parametrize("middle", [2.9, 3.0, 3.15, 4.0])
def test_a_series_whose_argument_is_unknown_behind_the_values(degree: int, middle: float) -> None:
    """An honest word is of the values alone: T_k of what stands behind them leaves the room."""
    p, c = wide(), np.eye(10)[degree]
    v = np.random.default_rng(degree).uniform(-0.9, 0.9, 5)
    x = p.server.bind(p.secret.encrypt(v + middle, pad=True, bound=(middle - 1, middle + 1)))
    z = sent(p, x - middle)
    right_or_refused(p, hg.ckks.polynomial(hg.ckks.within(z, 1), c, basis="chebyshev"), np_chebyshev.chebval(v, c))
    power = np.eye(8)[7]
    right_or_refused(p, hg.ckks.polynomial(hg.ckks.within(z, 1), power), v**7)


def right_or_refused(p: Any, x: Any, clear: Any, off: float = 1e-2) -> bool:
    """Of what is decrypted at the lowest level; whether it was right."""
    low = hg.ckks.lower(x, 1)
    try:
        found = p.secret.decrypt(low)
    except hg.RoomError:
        return False
    np.testing.assert_allclose(found, clear, atol=off, rtol=1e-4)
    return True


def test_a_word_is_of_the_values_alone() -> None:
    """A file does not tell what stands behind them: 2,400 there is beyond the room."""
    p = wide()
    v = np.random.default_rng(1).uniform(2.2, 3.8, 5)
    x = sent(p, p.server.bind(p.secret.encrypt(v, pad=True, bound=(0, 8))) * 800.0 - 2400.0)
    assert not right_or_refused(p, hg.ckks.within(x, 800), (v - 3) * 800)
    inside = hg.ckks.multiply(x, np.ones(5))  # zeros stand there
    assert right_or_refused(p, hg.ckks.within(inside, 800), (v - 3) * 800)


def test_complex_arguments_of_a_series() -> None:
    """T_7 of i is 239: [-1, 1] is no interval of complex values."""
    p, c = wide(), 100 * np.eye(8)[7]
    v = 1j * np.random.default_rng(2).uniform(0.5, 1, 2048)
    x = sent(p, p.secret.encrypt(v, bound=1))
    assert not right_or_refused(p, hg.ckks.polynomial(x, c, basis="chebyshev"), np_chebyshev.chebval(v, c))


@pytest.mark.parametrize("bound", [37.3, 1 / 3, 1000.1, math.pi])
def test_a_series_of_values_divided_by_their_bound(bound: float) -> None:
    """Bounds in files are rounded outward, which is no reason to refuse."""
    p, c = wide(), np.ones(16) / 16
    v = np.random.default_rng(3).uniform(-bound, bound, 2048)
    x = sent(p, p.secret.encrypt(v, bound=bound)) * (1 / bound)
    y = hg.ckks.polynomial(x, c, basis="chebyshev")
    assert right_or_refused(p, y, np_chebyshev.chebval(v / bound, c))
    assert not rig.below(p, y, np_chebyshev.chebval(v / bound, c))
    with pytest.raises(hg.PlaintextRangeError, match=r"within\(x, 1\)"):
        hg.ckks.polynomial(x * 1.001, c, basis="chebyshev")


def test_factors_of_thousands_of_ciphertexts() -> None:
    """Bounds of more than 4,096 ciphertexts are one: of both signs."""
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
