"""Exhausted noise budgets and overflows give errors instead of wrong values, also if the noise has few distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heliograph as hg
from exhausted import Case, outcome, party, word_of
from model import Container, build, parse

EXACT = pytest.mark.parametrize("scheme", ["bfv", "bgv"])


@pytest.mark.parametrize("number", range(54))
def test_no_exhausted_ciphertext_decrypts_wrongly(number: int) -> None:
    """In a sample of the cases of `exhausted.py`, with every scheme, operation and kind of data, no exhausted ciphertext
    decrypts wrongly without an error.
    """
    case = Case(number)
    found = outcome(case, **word_of(case))
    # CKKS values that still fit can be decrypted, so the outcome may be "right"
    assert found in (("error", "right") if case.scheme == "ckks" else ("error",))


@EXACT
def test_the_measured_budget_promises_nothing_for_a_wrong_value(scheme: str) -> None:
    """When decryption refuses a tensor, the measured noise budget is 0, also for loaded tensors."""
    for number in range({"bfv": 0, "bgv": 1}[scheme], 36, 6):
        for n in (number, number + 3):
            case = Case(n)
            x, _ = case.run()
            assert case.loaded == (n % 6 > 2)
            assert x.noise_budget == 0
            assert party(scheme)[0].noise_budget(x) == 0


@EXACT
@pytest.mark.parametrize("loaded", [False, True])
def test_correct_values_are_decrypted(scheme: str, loaded: bool) -> None:
    """Until the estimate is exhausted no result is refused, and the measured budget is never below the estimate."""
    secret, server = party(scheme)
    values = np.full(secret.parameters.slots, 7)
    x, expected, steps = server.bind(secret.encrypt(values)), 7, 0
    while (following := x + x).noise_budget:
        x, expected, steps = following, expected * 2 % secret.parameters.plain_modulus, steps + 1
    if loaded:
        x = server.from_bytes(x.to_bytes())
    assert steps > 10
    assert np.all(secret.decrypt(x) % secret.parameters.plain_modulus == expected)
    assert secret.noise_budget(x) >= x.noise_budget > 0


@EXACT
def test_unchecked_decrypts_beyond_the_estimate(scheme: str) -> None:
    """The estimate is a bound: when it is exhausted, `unchecked` decrypts as long as the measured noise leaves one bit."""
    secret, server = party(scheme)
    values = np.arange(secret.parameters.slots)
    x, expected = server.bind(secret.encrypt(values)), values.astype(object)
    while x.noise_budget:
        x, expected = x + x, expected * 2
    with pytest.raises(hg.NoiseError, match=r"by the estimate \d+ more bits"):
        secret.decrypt(x)
    assert secret.noise_budget(x) == 0
    assert secret.noise_budget(x, beyond_estimate=True) > 1
    t = secret.parameters.plain_modulus
    np.testing.assert_array_equal(secret.decrypt(x, beyond_estimate=True) % t, expected % t)
    for _ in range(30):
        x = x + x
    assert secret.noise_budget(x, beyond_estimate=True) == 0
    with pytest.raises(hg.NoiseError, match="by measurement"):
        secret.decrypt(x, beyond_estimate=True)


def without_figures(data: bytes) -> bytes:
    """Returns the same ciphertext as a file without a noise estimate, as in format 1."""
    container = parse(data)
    header = {k: v for k, v in container.header.items() if k != "noise"}
    return build(Container(container.type, header, container.arrays, container.version))


@EXACT
@pytest.mark.parametrize(("factor", "most"), [(1000, 6), (3, 6), (2, 24)])
def test_exhaustion_without_an_estimate_is_rarely_missed(scheme: str, factor: int, most: int) -> None:
    """The noise of a constant has about a dozen distinct values, so its exhaustion can be missed, but at most in one of
    thirty cases. If the constant is doubled again and again, it wraps by nearly whole multiples of moduli near powers of
    two. Then at most one of five cases is missed.

    """
    secret, server = party(scheme)
    x, tried, missed = server.bind(secret.encrypt(np.full(secret.parameters.slots, 7))), 0, 0
    while tried < 60:
        x = x * factor
        if x._core.noise_budget > -6:
            continue
        tried += 1
        y = server.from_bytes(without_figures(x.to_bytes()))
        assert y.noise_budget is None
        try:
            secret.decrypt(y)
            missed += 1
        except hg.NoiseError:
            assert secret.noise_budget(y) == 0
    assert missed <= most


@EXACT
def test_noise_beyond_a_files_estimate(scheme: str) -> None:
    """If a file states too little noise, the file is refused by the measured noise, long before the limit."""
    secret, server = party(scheme)
    x = server.bind(secret.encrypt(np.arange(secret.parameters.slots)))
    y = x
    for _ in range(40):
        y = y + y
    container = parse(y.to_bytes())
    container.header["noise"] = [n - 16 * 20 for n in container.header["noise"]]
    lie = server.from_bytes(build(container))
    assert lie.noise_budget > y.noise_budget
    with pytest.raises(hg.NoiseError, match="by measurement"):
        secret.decrypt(lie)
    assert secret.noise_budget(lie) == 0
    t = secret.parameters.plain_modulus
    np.testing.assert_array_equal(secret.decrypt(y) % t, np.arange(x.slots) * (2**40 % t) % t)


def test_shrink_without_a_noise_figure() -> None:
    """Without a noise figure, shrink raises an error instead of choosing one prime; with a level it works."""
    secret, server = party("bfv")
    x = server.bind(secret.encrypt(np.arange(secret.parameters.slots)))
    y = server.from_bytes(without_figures((x + x).to_bytes()))
    for unknown in (y, y + x, x + y, hg.concatenate([x[None], y[None]]), hg.concatenate([y[None], x[None]])):
        assert unknown.noise_budget is None
        with pytest.raises(hg.NoiseError, match="give the level"):
            hg.shrink(unknown)
    assert hg.shrink(y, 1).level == 1
    assert hg.shrink(server.from_bytes((x + x).to_bytes())).level < x.level


# CKKS


def ckks(values: Any, **options: Any) -> hg.ckks.Tensor:
    """Encrypts values and binds them to a server that multiplies."""
    secret, server = party("ckks")
    return server.bind(secret.encrypt(values, pad=True, **options))


def reloaded(x: hg.ckks.Tensor) -> hg.ckks.Tensor:
    """Saves a tensor and loads it at the server."""
    return party("ckks")[1].from_bytes(x.to_bytes())


@pytest.mark.parametrize("count", [1, 100])
def test_values_that_outgrow_their_modulus(count: int) -> None:
    """300,000^3 exceeds a room of 2^41, so `precision` is None and decryption refuses the result, also after loading."""
    secret, _ = party("ckks")
    x = ckks(np.full(count, 300_000.0))
    cube = x * x * x
    assert cube.precision is None
    assert "may exceed the modulus" in repr(cube)
    for lost in (cube, reloaded(cube)):
        for words in ({}, {"checked": True}):
            with pytest.raises(hg.RoomError):
                secret.decrypt(lost, **words)
        assert abs(secret.decrypt(lost, unchecked=True)[0] / 2.7e16 - 1) > 0.01
    with pytest.raises((hg.RoomError, hg.NoiseError)):
        secret.decrypt(cube, publish_bits=1)
    assert (x * x).precision
    np.testing.assert_allclose(secret.decrypt(x * x, checked=True)[:count], 9e10, rtol=1e-4)
    np.testing.assert_allclose(secret.decrypt(reloaded(x * x))[:count], 9e10, rtol=1e-4)
    with pytest.raises(hg.RoomError, match="came from a file"):
        secret.decrypt(reloaded(x * x), checked=True)


def test_intermediate_values_may_exceed_the_room() -> None:
    """Sums, products and rescalings are modular. So a difference that fits the room can be decrypted, even if its operands
    do not fit.

    """
    secret, _ = party("ckks")
    values = np.linspace(1, 1000, 64)
    x = ckks(values)
    wide = hg.ckks.lower(x * 3.0e10, 1)  # 3e13, beyond 2^41
    assert "may exceed the modulus" in repr(wide)
    back = wide - hg.ckks.lower(x * 2.9999999e10, 1)
    for y in (back, reloaded(back)):
        np.testing.assert_allclose(secret.decrypt(y)[:64], values * 1000, rtol=1e-3)


def test_many_wrapped_values_are_detected() -> None:
    """Many distinct wrapped values exceed a bound that was declared falsely, or reach the edge of the modulus."""
    secret, _ = party("ckks")
    x = ckks(np.random.default_rng(3).normal(0, 100_000, secret.parameters.slots))
    cube = reloaded(hg.ckks.within(x * x * x, 1000))  # a false declared bound, which would be taken as a proof
    with pytest.raises(hg.RoomError, match="outside of the bounds"):
        secret.decrypt(cube)
    at_the_edge = reloaded(hg.ckks.within(x * x * x, secret.parameters.room * 0.99))
    with pytest.raises(hg.RoomError, match=r"limit of the modulus|outside of the bounds"):
        secret.decrypt(at_the_edge)


def test_bounds_of_results_follow_the_declared_bound() -> None:
    """The bounds of a loaded result follow from the `bound` that the caller gave at encryption and not from the values."""
    secret, server = party("ckks")
    values = np.linspace(-2, 2, secret.parameters.slots)
    small, plain = ckks(values, bound=2.5), ckks(values)
    answer = reloaded(small * small * small)
    assert answer.bounds == (-15.625, 15.625)
    assert reloaded(ckks(np.abs(values), bound=(0, 4)) * 2 - 1).bounds == (-1.0, 7.0)
    assert reloaded(plain).bounds == (-secret.parameters.bound, secret.parameters.bound)
    np.testing.assert_allclose(secret.decrypt(answer), values**3, atol=1e-2)
    np.testing.assert_allclose(secret.decrypt(reloaded(plain * plain * plain)), values**3, atol=1e-2)
    headers = [parse(ckks(v).to_bytes()).header for v in (values, values / 1000, values * 0)]
    assert len({str(h["ranges"]) for h in headers}) == 1
    for options in ({"bound": 1.5}, {"bound": 1e40}, {"bound": (0, 2)}, {"bound": (-2, 1)}):
        with pytest.raises(hg.PlaintextRangeError):
            ckks(values, **options)
    with pytest.raises(hg.PlaintextRangeError, match="bound="):
        ckks(values * 1e7)
    assert np.abs(secret.decrypt(ckks(values * 1e7, bound=3e7)) - values * 1e7).max() < 100
    for bound in (0, -1, float("nan"), float("inf"), "2", (2, 1), (1, 2, 3), (0, 0), (0, float("nan")), ("0", 1), True):
        with pytest.raises(hg.ParameterError):
            ckks(values, bound=bound)
    assert server.bind(secret.public_key().encrypt(values, bound=2)).fresh


def test_rescaling_to_rounding_errors_is_refused() -> None:
    """Rescaling is refused if the new scale leaves only the rounding error, whether in two steps or in one."""
    x = ckks(np.ones(4))
    low = hg.ckks.rescale
    with pytest.raises(hg.ScaleError, match="smallest scale"):
        low(low(x))
    with pytest.raises(hg.ScaleError, match="smallest scale"):
        low(hg.ckks.multiply(x, hg.ckks.encode(x.parameters, [0.5], scale=2.0), rescale=False))
    product = hg.ckks.multiply(x, x, rescale=False)
    assert low(product).scale == x.parameters.scale(low(product).level)
