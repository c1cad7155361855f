"""Methods for signs and comparisons: how a composition and its bootstraps are chosen, and tables of integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
from heliograph import _core
from heliograph.ckks import signs
from heliograph.ckks.parameters import _after_bootstrap

C = hg.ckks
SLOTS = 1024
RNG = np.random.default_rng(45)
Integers = npt.NDArray[np.int64]


class Owner:
    """A secret key and a server that has keys for bootstrapping."""

    def __init__(self, depth: int, log_scale: float) -> None:
        self.parameters = C.parameters(n=2 * SLOTS, depth=depth, log_scale=log_scale, bootstrap=True, insecure=True)
        self.secret = hg.SecretKey.generate(self.parameters)
        self.server = hg.Server(self.secret.evaluation_keys(bootstrap=True))

    def encrypt(self, values: npt.ArrayLike, **options: Any) -> Any:
        return self.server.bind(self.secret.encrypt(np.asarray(values, dtype=float), **options))

    def check(self, y: Any, wanted: npt.ArrayLike, error: float) -> None:
        """Checks that the largest error is within the promised error, and that the promised error is within `error`."""
        promised = float(_core.ckks.error_bounds(y._core)[0])
        assert np.abs(self.secret.decrypt(y) - wanted).max() <= promised <= error


@pytest.fixture(scope="module")
def precise() -> Owner:
    """A set with ten levels between bootstraps and a large scale, like the set n16-b10-h."""
    return Owner(10, 47)


@pytest.fixture(scope="module")
def roomy() -> Owner:
    """A set with thirteen levels between bootstraps, which suffice for a table of 256 numbers."""
    return Owner(13, 45)


def integers(bits: int) -> Integers:
    """Returns integers of some bits, including both ends, 0 and its neighbours."""
    half = 2 ** (bits - 1)
    return np.concatenate([[0, 1, -1, half - 1, -half], RNG.integers(-half, half, SLOTS - 5)])


# ---- bootstraps of compositions


def test_a_small_gap_takes_two_single_bootstraps(precise: Owner) -> None:
    """The plan places bootstraps where their error has little effect, so that no bootstrap needs a second iteration."""
    gap, error = 2.0**-16, 2.0**-20
    v = np.concatenate([[gap, -gap, 1, -1], RNG.choice([-1, 1], SLOTS - 4) * RNG.uniform(gap, 1, SLOTS - 4)])
    x = precise.encrypt(v, bound=1)
    with C.auto_bootstrap() as auto:
        y = C.sign(x, gap=gap, error=error)
    assert auto.count == 2
    assert y.level >= precise.parameters.bootstrapping_level  # more bootstraps would be possible
    precise.check(y, np.sign(v), error)


def test_a_plan_keeps_to_levels_and_errors(precise: Owner) -> None:
    """A plan has enough levels for every polynomial. The errors of bootstraps and polynomials together are within the
    requested error.
    """
    entry, top = precise.parameters.bootstrapping_level, precise.parameters.levels
    x = precise.encrypt(np.zeros(SLOTS), bound=1)
    for level in (top, top - 3, entry):
        for bits, error in ((4, 2.0**-10), (8, 2.0**-20), (12, 2.0**-10), (16, 2.0**-15)):
            with C.auto_bootstrap():
                plan = signs._plan(x.lower(level), signs._fitting(2.0**-bits, 0.75 * error), True, error, 0)
            assert plan.composition.gap <= 2.0**-bits
            assert plan.composition.error <= 0.75 * error
            left = level
            for depth, iterations in zip(plan.composition.depths, plan.iterations, strict=True):
                assert iterations is not None
                left = (top if iterations else left) - depth
                assert left >= entry
            noise = [
                2.0 ** -precise.parameters.bootstrapping_precision(iterations=k) * growth if k else 0
                for k, growth in zip(plan.iterations, plan.composition.growths, strict=True)
            ]
            assert plan.composition.error + sum(noise) < error
    assert signs._plan(x, signs._fitting(2.0**-8, 2.0**-12), True, 2.0**-11, 0).iterations == (None,) * 3  # without auto


def test_magnitudes_bootstrap_on_their_way(precise: Owner) -> None:
    v = RNG.uniform(-1, 1, SLOTS)
    with C.auto_bootstrap() as auto:
        y = C.abs(precise.encrypt(v, bound=1), error=2.0**-10)
    assert auto.count >= 1
    precise.check(y, np.abs(v), 2.0**-10)


def test_each_composition_is_as_its_row_says() -> None:
    """On many points the errors of compositions are within the errors stated in the table, for signs and for magnitudes."""
    for c in signs._composites():
        x = np.concatenate([c.gap ** np.linspace(1, 0, 5003), np.linspace(c.gap, 1, 5003)]).clip(c.gap, 1)
        inner = np.linspace(0, c.gap, 501)
        value, near = x, inner
        for stage, low in zip(c.stages, c.lows, strict=True):
            assert low <= value.min() <= value.max() <= 1
            value, near = (np.polynomial.chebyshev.chebval(v, stage) for v in (value, near))
        assert np.abs(value - 1).max() <= c.error * 1.001 + 2.0**-48
        assert np.abs(inner * near - inner).max() <= c.error_of_abs


def test_a_sign_can_be_recorded(precise: Owner) -> None:
    """A plan is made when a program is recorded, and the program gives the same bits."""
    x = precise.encrypt(RNG.choice([-1, 1], SLOTS) * RNG.uniform(2.0**-12, 1, SLOTS), bound=1)

    def separated(x: Any) -> Any:
        with C.auto_bootstrap():
            return C.sign(x, gap=2.0**-12, error=2.0**-12)

    _after_bootstrap.cache_clear()
    signs._rounding.cache_clear()
    program = hg.program(separated)
    bits = [y.to_bytes() for y in (program(x), separated(x), program(x))]
    assert bits[0] == bits[1] == bits[2]


# ---- integers


RELATIONS = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("method", ["polynomial", "bootstrap"])
def test_relations_of_integers_are_exact(roomy: Owner, method: Any) -> None:
    """The methods by polynomials and by a bootstrap recognise equal integers."""
    v = integers(5)
    x = roomy.encrypt(v, bound=(-16, 15))
    for relation, compared in RELATIONS.items():
        y = C.compare(x, relation, 0, integers=True, method=method)
        roomy.check(y, compared(v, 0), 2.0**-10)
        assert (y.level == roomy.parameters.levels - 5) == (method == "bootstrap")
    w = RNG.integers(-3, 4, SLOTS)
    other = roomy.encrypt(w, bound=(-3, 3))
    roomy.check(C.compare(other, "<=", roomy.encrypt(-w, bound=(-3, 3)), integers=True, method=method), w <= -w, 2.0**-10)


def test_signs_of_8_bits_take_one_table(roomy: Owner) -> None:
    v = integers(8)
    x = roomy.encrypt(v, bound=(-128, 127), level=roomy.parameters.bootstrapping_level)
    y = C.sign(x, integers=True, method="bootstrap")
    assert y.level == roomy.parameters.levels - 8
    roomy.check(y, np.sign(v), 2.0**-20)
    noisy = x._wrap(_core.ckks.with_error(x._core, 2.0**-4, 2.0**-4))
    y = C.sign(noisy + 2.0**-5 * np.cos(np.arange(SLOTS)), integers=True, method="bootstrap", error=2.0**-4)
    roomy.check(y, np.sign(v), 2.0**-4)  # the table squares the error


@pytest.mark.parametrize("low", [-128, -127, -100])
def test_tables_of_signs_are_odd_waves(roomy: Owner, low: int) -> None:
    """Polynomials of sign tables have half of the powers. A table of 258 numbers doubles the error of the result at 0."""
    v = np.clip(integers(8), low, 127)
    v[5:100] = 0
    entry = roomy.parameters.bootstrapping_level
    x = roomy.encrypt(v, bound=(low, 127), level=entry)
    noisy = x._wrap(_core.ckks.with_error(x._core, 2.0**-9, 2.0**-9)) + 2.0**-9 * np.cos(np.arange(SLOTS))
    for tensor, error in ((x, 2.0**-14), (noisy, 2.0**-5)):
        y = C.sign(tensor, integers=True, method="bootstrap", error=error)
        assert y.level == roomy.parameters.levels - 8
        roomy.check(y, np.sign(v), error)

    def products(f: Any) -> int:
        return hg.forecast(f, x).products

    table = [0, *[1] * 127, *[-1] * 128]
    fewer = products(lambda x: C.sign(x, integers=True, method="bootstrap"))
    assert fewer < 0.95 * products(lambda x: C.functional_bootstrap(x, table))


def test_a_table_of_258_numbers_must_be_an_odd_wave(roomy: Owner) -> None:
    wave = [0, *[1] * 128, 0, *[-1] * 128]
    x = roomy.encrypt(integers(8), bound=(-128, 127))
    roomy.check(C.functional_bootstrap(x, wave), np.sign(roomy.secret.decrypt(x).round()), 2.0**-14)
    for place in (0, 5, 129):
        other = [v + (i == place) for i, v in enumerate(wave)]
        with pytest.raises(hg.ParameterError, match="2 to 256"):
            C.functional_bootstrap(x, other)


def test_the_cheaper_method_is_chosen(roomy: Owner) -> None:
    """At the top level a composition of few levels is cheaper; at the level where bootstrapping starts, the table is
    cheaper."""
    v = integers(4)
    for level, from_table in ((roomy.parameters.levels, False), (roomy.parameters.bootstrapping_level, True)):
        x = roomy.encrypt(v, bound=(-8, 7), level=level)
        y = C.compare(x, ">", 0, integers=True)
        assert (y.level == roomy.parameters.levels - 4) == from_table
        roomy.check(y, v > 0, 2.0**-10)


def test_order_of_integers(roomy: Owner) -> None:
    """Comparisons of pairs and of ranks are exact, with ties."""
    v = RNG.integers(0, 4, (3, SLOTS))
    x = roomy.encrypt(v, bound=(0, 3), level=roomy.parameters.bootstrapping_level)
    with C.auto_bootstrap():
        for method in ("auto", "bootstrap"):
            y = C.argmax(x, 0, integers=True, method=method)
            roomy.check(y, v.argmax(0), 2.0**-6)
        roomy.check(C.top_k(x, 2, 0, integers=True), np.sort(v, 0)[:0:-1], 2.0**-6)
        roomy.check(C.median(x, 0, integers=True), np.median(v, 0), 2.0**-6)


def test_wrong_words_are_refused(roomy: Owner) -> None:
    x = roomy.encrypt(integers(4), bound=(-8, 7))
    wide = roomy.encrypt(integers(10), bound=(-512, 511))
    for call, error, message in (
        (lambda: C.sign(x), hg.ParameterError, "needs gap="),
        (lambda: C.sign(x, gap=1, integers=True), hg.ParameterError, "not both"),
        (lambda: C.sign(x, gap=1, method="bootstrap"), hg.ParameterError, "integers=True"),
        (lambda: C.compare(x, "<", 1, gap=1, method="table"), hg.ParameterError, "method must be"),
        (lambda: C.sign(x, integers=1), hg.DtypeError, "True or False"),
        (lambda: C.sign(wide, integers=True, method="bootstrap"), hg.ParameterError, "at most 256 integers"),
        (lambda: C.sign(x, integers=True, domain=(0.2, 0.8)), hg.PlaintextRangeError, "no integer"),
        (lambda: C.sign(x, integers=True, method="bootstrap", error=2.0**-30), hg.NoiseError, "asked for"),
        (lambda: C.sort(x, "slots", integers=True, method="bootstrap"), hg.ParameterError, "axis of ciphertexts"),
        (lambda: C.argmax(x.reshape(1), 0), hg.ParameterError, "needs gap="),
    ):
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(hg.MissingKeyError):
        C.sign(x, integers=True, method="bootstrap", keys=roomy.secret.evaluation_keys())
    y = C.sign(wide, integers=True)  # too many integers for a table
    assert math.log2(_core.ckks.error_bounds(y._core)[0]) <= -10


# ---- exponentials


def test_a_table_needs_proved_bounds_or_a_word(roomy: Owner) -> None:
    """A table has no guard that checks values at decryption. So for a declared interval polynomials are used, unless the
    caller declines the guard.
    """
    v = integers(4)
    x = roomy.encrypt(v, bound=1000)
    with pytest.raises(hg.ParameterError, match="guard=False"):
        C.sign(x, integers=True, method="bootstrap", domain=(-8, 7))
    with C.auto_bootstrap():
        y = C.sign(x, integers=True, domain=(-8, 7))
    assert [guard.operation.split()[0] for guard in y.guards] == ["sign"]
    assert np.abs(roomy.secret.decrypt(y) - np.sign(v)).max() < 2.0**-10
    z = C.sign(x, integers=True, method="bootstrap", domain=(-8, 7), guard=False)
    assert not z.guards
    assert np.abs(roomy.secret.decrypt(z) - np.sign(v)).max() < 2.0**-10


@pytest.mark.parametrize("low", [-4, -64])
def test_exponentials_by_squaring(roomy: Owner, low: float) -> None:
    """The errors of both methods are within their bounds, and "auto" chooses the method with fewer levels."""
    v = np.concatenate([[low, 0], RNG.uniform(low, 0, SLOTS - 2)])
    x = roomy.encrypt(v, bound=(low, 0))
    found = {method: C.exp(x, method=method, error=2.0**-16) for method in ("polynomial", "squaring", "auto")}  # type: ignore[arg-type]
    for y in found.values():
        roomy.check(y, np.exp(v), 2.0**-16)
    assert found["auto"].level == found["polynomial"].level >= found["squaring"].level


def test_exponentials_of_impossible_intervals_are_refused(roomy: Owner) -> None:
    x = roomy.encrypt(np.zeros(SLOTS), bound=1)
    with pytest.raises(hg.ParameterError, match="method must be"):
        C.exp(x, method="table")  # type: ignore[arg-type]
    for method in ("auto", "squaring"):
        with pytest.raises(hg.PlaintextRangeError, match="largest float"):
            C.exp(x, method=method, domain=(0, 1000))  # type: ignore[arg-type]
    with pytest.raises(hg.NoiseError, match="asked for"):
        C.exp(x, method="squaring", error=2.0**-40)
