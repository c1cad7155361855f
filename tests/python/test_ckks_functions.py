"""Functions of encrypted reals: over many values and the worst values, the largest error is within the promised bound."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
from bits import digest
from heliograph import _core
from places import places
from rigs import SEED

C = hg.ckks
SLOTS = 1024
RNG = np.random.default_rng(44)
Array = npt.NDArray[np.float64]


class Owner:
    """A secret key and a server with its evaluation keys."""

    def __init__(self, parameters: Any, **keys: Any) -> None:
        self.secret = hg.SecretKey.generate(parameters)
        self.server = hg.Server(self.secret.evaluation_keys(**keys))

    def encrypt(self, values: npt.ArrayLike, **options: Any) -> Any:
        return self.server.bind(self.secret.encrypt(np.asarray(values, dtype=float), **options))

    def decrypt(self, x: Any) -> Array:
        return np.asarray(self.secret.decrypt(x))


@pytest.fixture(scope="module")
def deep() -> Owner:
    """A set with 45 levels."""
    params = C.parameters(n=2 * SLOTS, levels=46, log_scale=45, base_bits=60, insecure=True)
    return Owner(params, rotations=C.sort_rotations(SLOTS))


@pytest.fixture(scope="module")
def refreshing() -> Owner:
    """A set with bootstrapping and 13 levels between two bootstraps."""
    return Owner(C.parameters(n=2 * SLOTS, depth=13, log_scale=45, bootstrap=True, insecure=True), bootstrap=True)


def promised(y: Any) -> float:
    """Returns the trusted error bound."""
    return float(_core.ckks.error_bounds(y._core)[0])


def check(owner: Owner, y: Any, wanted: Array, *, where: Any = ..., within_bits: float | None = None) -> None:
    """Checks that the largest error is below the promised bound, but only by a few bits."""
    largest = float(np.abs(owner.decrypt(y) - wanted)[where].max())
    assert largest <= promised(y)
    if within_bits is not None:
        assert promised(y) <= largest * 2**within_bits


def spread(low: float, high: float) -> Array:
    """Returns values of an interval, both ends included."""
    return np.concatenate([[low, high], RNG.uniform(low, high, SLOTS - 2)])


def gelu(v: Array) -> Array:
    return np.array([a * (1 + math.erf(a / math.sqrt(2))) / 2 for a in v])


ELEMENTARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exp": (np.exp, -4, 4),
    "log": (np.log, 0.1, 8),
    "sigmoid": (lambda v: 1 / (1 + np.exp(-v)), -8, 8),
    "tanh": (np.tanh, -4, 4),
    "gelu": (gelu, -5, 5),
    "erf": (lambda v: np.array([math.erf(a) for a in v]), -3, 3),
    "sin": (np.sin, -10, 10),
    "cos": (np.cos, -10, 10),
    "inverse": (lambda v: 1 / v, 0.05, 3),
    "rsqrt": (lambda v: v**-0.5, 0.05, 3),
    "sqrt": (np.sqrt, 0.05, 3),
}


@pytest.mark.parametrize("name", ELEMENTARY)
def test_the_error_of_an_elementary_function_is_below_its_bound(deep: Owner, name: str) -> None:
    """The error of 1,024 values, including the ends of the interval, is below the promised bound, and this bound is below
    the requested error.
    """
    f, low, high = ELEMENTARY[name]
    v = spread(low, high)
    y = getattr(C, name)(deep.encrypt(v, bound=(low, high)), error=2.0**-18)
    assert promised(y) <= 2.0**-18
    check(deep, y, f(v), within_bits=9 if name in ("inverse", "rsqrt", "sqrt") else 2)


@pytest.mark.parametrize("name", [*ELEMENTARY, "power"])
def test_values_outside_the_interval_are_refused(deep: Owner, name: str) -> None:
    """A function raises an error if there are no bounds, or if the values cannot be in the domain."""
    x = deep.encrypt(spread(0.5, 1), bound=(0.5, 1))
    function = (lambda a, **o: C.power(a, 1.5, **o)) if name == "power" else getattr(C, name)
    with pytest.raises(hg.PlaintextRangeError, match="outside the domain"):
        function(x, domain=(2, 3))
    with pytest.raises(hg.DtypeError, match="real numbers"):
        function(deep.server.bind(deep.secret.encrypt(np.full(SLOTS, 1j))))
    with pytest.raises(hg.ParameterError, match="error"):
        function(x, error=0)


@pytest.mark.parametrize("name", ["log", "inverse", "rsqrt", "sqrt"])
def test_an_interval_with_a_pole_is_refused(deep: Owner, name: str) -> None:
    """Functions with a pole or branch point at 0 raise an error that states which interval they need."""
    with pytest.raises(hg.ParameterError, match="interval"):
        getattr(C, name)(deep.encrypt(spread(-1, 1), bound=1))


def test_an_error_below_the_noise_is_refused(deep: Owner) -> None:
    """A value with a precision of 2^-30 has too much noise for an error of 2^-40."""
    with pytest.raises(hg.NoiseError, match="error is at most"):
        C.exp(deep.encrypt(spread(-1, 1), bound=1), error=2.0**-40)


def test_inverse_of_negative_values(deep: Owner) -> None:
    v = spread(-3, -0.1)
    check(deep, C.inverse(deep.encrypt(v, bound=(-3, -0.1)), error=2.0**-16), 1 / v)
    check(deep, C.power(deep.encrypt(v, bound=(-3, -0.1)), -1, error=2.0**-16), 1 / v)
    check(deep, C.power(deep.encrypt(v, bound=(-3, -0.1)), 3, error=2.0**-16), v**3)


def test_a_wide_interval_takes_newton_steps(deep: Owner) -> None:
    """On [0.001, 1], 1/x is computed by steps of Newton's method from a polynomial of low degree."""
    v = spread(0.001, 1)
    y = C.inverse(deep.encrypt(v, bound=(0.001, 1)))
    check(deep, y, 1 / v)
    assert promised(y) < 0.01  # the values are up to 1,000


def test_division(deep: Owner) -> None:
    a, b = spread(-1, 1), spread(0.5, 2)
    quotient = C.divide(deep.encrypt(a, bound=1), deep.encrypt(b, bound=(0.5, 2)))
    check(deep, quotient, a / b)
    check(deep, C.divide(1.0, deep.encrypt(b, bound=(0.5, 2))), 1 / b)


# ---- approximations


def test_an_approximation_states_degree_levels_and_error(deep: Owner) -> None:
    """The numbers that `approximate` returns are true for its clear values and for its encrypted values."""
    f = C.approximate(lambda v: np.exp(-(v**2)), -3, 2, error=1e-5)
    v = spread(-3, 2)
    clear = f.clear(v)
    assert np.abs(clear - np.exp(-(v**2))).max() <= f.error <= 1e-5
    x = deep.encrypt(v, bound=(-3, 2))
    y = f(x)
    assert x.level - y.level == f.depth
    check(deep, y, np.exp(-(v**2)), within_bits=2)
    assert f"degree {f.degree}" in repr(f)
    shallow = C.approximate(np.exp, -1, 1, depth=3)
    assert (shallow.degree, shallow.depth) == (7, 3)
    constant = C.approximate(lambda v: 0 * v + 2, -1, 1, error=0.1)
    assert np.allclose(deep.decrypt(constant(deep.encrypt(spread(-1, 1), bound=1))), 2, atol=1e-6)


def test_an_approximation_can_be_pickled() -> None:
    f = C.approximate(np.exp, -1, 2, depth=4, relative=True)
    again = pickle.loads(pickle.dumps(f))
    assert repr(again) == repr(f)
    assert np.array_equal(again.clear([-1, 0.5, 2]), f.clear([-1, 0.5, 2]))


def test_a_relative_error(deep: Owner) -> None:
    f = C.approximate(np.exp, -6, 6, error=1e-4, relative=True)
    v = spread(-6, 6)
    assert np.abs(f.clear(v) / np.exp(v) - 1).max() <= f.error <= 1e-4
    check(deep, f(deep.encrypt(v, bound=6)), np.exp(v))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: C.approximate(np.abs, -1, 1, error=1e-9), hg.ParameterError, "no polynomial"),
        (lambda: C.approximate(np.exp, 1, 1), hg.ParameterError, "different ends"),
        (lambda: C.approximate(np.exp, 2, 1), hg.ParameterError, "bound on values"),
        (lambda: C.approximate(np.log, -1, 1), hg.PlaintextRangeError, "not finite"),
        (lambda: C.approximate(lambda v: 1.0, -1, 1), hg.ParameterError, "vectorize"),
        (lambda: C.approximate(np.sin, -1, 1, relative=True), hg.ParameterError, "zero in the interval"),
        (lambda: C.approximate(np.exp, -1, 1, error=1e-3, depth=3), hg.ParameterError, "not both"),
        (lambda: C.approximate(3, -1, 1), hg.ParameterError, "takes a function"),
        (lambda: C.approximate(np.exp, -1, 1, error=1e-3).clear([2]), hg.PlaintextRangeError, "must be in"),
    ],
)
def test_impossible_fits_are_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_an_approximation_refuses_values_outside_its_interval(deep: Owner) -> None:
    """Bounds outside the interval raise an error. After `within` declares an interval, the function runs."""
    f = C.approximate(np.exp, -1, 1, error=1e-4)
    x = deep.encrypt(spread(-1, 1), bound=2)
    with pytest.raises(hg.PlaintextRangeError, match="within"):
        f(x)
    declared = f(C.within(x, (-1, 1)))
    assert np.abs(deep.decrypt(declared) - np.exp(deep.decrypt(x))).max() < 1e-4 + 1e-6
    with pytest.raises(hg.ParameterError, match="pair"):
        C.within(x, (1, -1))


# ---- signs and comparisons


def near_gap(gap: float) -> Array:
    """Returns values at the gap, inside the gap, at 0, at the ends, and random values."""
    tiny = np.nextafter(gap, 1)
    return np.concatenate([[gap, -gap, tiny, -tiny, gap / 2, -gap / 2, 0, 2.0**-40, 1, -1], spread(-1, 1)[:-10]])


@pytest.mark.parametrize("bits", [3, 8, 11])
def test_signs_are_exact_to_their_error_from_the_gap_on(deep: Owner, bits: int) -> None:
    """Outside the gap around 0 the error is below its bound. In the gap the result is in [-1, 1] and has the sign of the
    value.
    """
    gap = 2.0**-bits
    v = near_gap(gap)
    y = C.sign(deep.encrypt(v, bound=1), gap=gap)
    outside = np.abs(v) >= gap
    assert promised(y) <= 2.0**-20
    check(deep, y, np.sign(v), where=outside)
    inner = deep.decrypt(y)[~outside]
    assert np.all(np.abs(inner) <= 1.01)
    assert np.all(inner * np.sign(v[~outside]) >= -promised(y))
    assert abs(deep.decrypt(y)[6]) < 2.0**-10  # the value at 0


@pytest.mark.parametrize("largest", [0.3, 1.0, 700.0])
def test_signs_of_other_ranges(deep: Owner, largest: float) -> None:
    v = largest * spread(-1, 1)
    y = C.sign(deep.encrypt(v, bound=largest), gap=largest / 64, error=2.0**-15)
    check(deep, y, np.sign(v), where=np.abs(v) >= largest / 64)


def test_functions_of_signs(deep: Owner) -> None:
    """Magnitudes, extremes and limits are correct within their error bound for all values, also inside the gap."""
    error = 2.0**-8
    v, w = near_gap(error), spread(-1, 1)
    x, z = deep.encrypt(v, bound=1), deep.encrypt(w, bound=1)
    cases = [
        (C.abs(x, error=error), np.abs(v)),
        (C.relu(x, error=error), np.maximum(v, 0)),
        (C.clip(x, -0.5, 0.25, error=error), np.clip(v, -0.5, 0.25)),
        (C.maximum(x, z, error=error), np.maximum(v, w)),
        (C.minimum(x, z, error=error), np.minimum(v, w)),
        (C.maximum(0.25, x, error=error), np.maximum(v, 0.25)),
    ]
    for y, wanted in cases:
        assert promised(y) <= error
        check(deep, y, wanted)


def test_comparisons_and_choices(deep: Owner) -> None:
    gap = 2.0**-6
    v = np.round(spread(-1, 1) * 32) / 32
    w = np.round(spread(-1, 1) * 32) / 32
    x, z = deep.encrypt(v, bound=1), deep.encrypt(w, bound=1)
    apart = np.abs(v - w) >= gap
    less = C.compare(x, "<", z, gap=gap)
    check(deep, less, (v < w) * 1.0, where=apart)
    assert np.allclose(deep.decrypt(less)[~apart], 0.5, atol=2.0**-6)  # equal values
    check(deep, C.compare(x, ">=", z, gap=gap), (v >= w) * 1.0, where=apart)
    check(deep, C.compare(x, "==", z, gap=gap), (v == w) * 1.0)
    check(deep, C.compare(x, "!=", z, gap=gap), (v != w) * 1.0)
    check(deep, C.where(less, x, z), np.minimum(v, w), where=apart)
    check(deep, C.where(less, 1.0, -1.0), np.where(v < w, 1.0, -1.0), where=apart)
    with pytest.raises(hg.PlaintextRangeError, match="condition"):
        C.where(x, x, z)
    with pytest.raises(hg.ParameterError, match="relation"):
        C.compare(x, "=", z, gap=gap)


def test_too_small_gaps_are_refused(deep: Owner) -> None:
    x = deep.encrypt(spread(-1, 1), bound=1)
    for gap, error, message in [
        (2.0**-25, 2.0**-10, "separates"),
        (0.1, 2.0**-50, "separates"),
        (0, None, "gap"),
        (2, None, "above"),
    ]:
        with pytest.raises(hg.ParameterError, match=message):
            C.sign(x, gap=gap, error=error)
    noisy = _core.ckks.with_error(x._core, 2.0**-12, 2.0**-12)
    with pytest.raises(hg.NoiseError, match="larger gap"):
        C.sign(x._wrap(noisy), gap=2.0**-8)


def test_a_sign_bootstraps_on_its_way(refreshing: Owner) -> None:
    """If a sign needs more levels than are left, it is bootstrapped once, and its error bound is true."""
    gap = 2.0**-12
    v = near_gap(gap)
    x = refreshing.encrypt(v, bound=1)
    with pytest.raises(hg.LevelError):
        C.sign(x, gap=gap)
    with C.auto_bootstrap() as auto:
        y = C.sign(x, gap=gap, error=2.0**-12)
    assert auto.count == 1
    check(refreshing, y, np.sign(v), where=np.abs(v) >= gap, within_bits=4)


# ---- extremes and order


@pytest.fixture(scope="module")
def table() -> Array:
    """Three rows of values on a grid of 0.1, with many ties."""
    return RNG.integers(-10, 11, (3, SLOTS)) / 10


def test_extremes_along_ciphertexts(deep: Owner, table: Array) -> None:
    x = deep.encrypt(table, bound=1)
    for name in ("max", "min"):
        y = getattr(C, name)(x, 0, error=0.05)
        assert promised(y) <= 0.05
        check(deep, y, getattr(np, name)(table, axis=0))


def test_the_index_of_an_extreme(deep: Owner, table: Array) -> None:
    """Among equal values, the result is the first index, as in NumPy."""
    x = deep.encrypt(table, bound=1)
    check(deep, C.argmax(x, 0, gap=0.1), table.argmax(0))
    check(deep, C.argmin(x, 0, gap=0.1), table.argmin(0))
    hot = C.argmax(deep.encrypt(table[None, :2], bound=1), 1, gap=0.1, one_hot=True)
    check(deep, hot, np.moveaxis(np.eye(2)[table[None, :2].argmax(1)], -1, 1))


def test_order_along_ciphertexts(deep: Owner, table: Array) -> None:
    x = deep.encrypt(table, bound=1)
    check(deep, C.sort(x, 0, gap=0.1), np.sort(table, 0))
    check(deep, C.top_k(x, 2, 0, gap=0.1), np.sort(table, 0)[::-1][:2])
    check(deep, C.quantile(x, 0.4, 0, gap=0.1), np.quantile(table, 0.4, axis=0))
    check(deep, C.median(x, 0, gap=0.1), np.median(table, axis=0))


def test_order_along_slots(deep: Owner) -> None:
    """13 values with ties are sorted in one ciphertext; quantiles and counts follow."""
    n = 13
    v = RNG.integers(-10, 11, n) / 10
    x = deep.encrypt(np.concatenate([v, np.zeros(SLOTS - n)]), bound=1)
    ordered = C.sort(x, "slots", gap=0.1, count=n)
    assert np.abs(deep.decrypt(ordered)[:n] - np.sort(v)).max() <= promised(ordered)
    assert abs(deep.decrypt(C.median(x, "slots", gap=0.1, count=n))[0] - np.median(v)) < 1e-5
    assert abs(deep.decrypt(C.quantile(x, 0.3, "slots", gap=0.1, count=n))[0] - np.quantile(v, 0.3)) < 1e-5
    edges = [-1.05, -0.55, 0.05, 0.75]
    counts = deep.decrypt(C.histogram(x, edges, gap=0.05, count=n))
    assert np.allclose(counts, np.histogram(v, edges)[0][:, None], atol=1e-4)


@pytest.fixture(scope="module")
def few() -> Owner:
    """A set of 16 slots."""
    params = C.parameters(n=1024, slots=16, levels=46, log_scale=45, base_bits=60, insecure=True)
    return Owner(params, rotations=C.sort_rotations(16))


@pytest.mark.parametrize("n", [5, 9])
def test_order_along_slots_of_several_ciphertexts(few: Owner, n: int) -> None:
    """The pairs of 5 values fill several ciphertexts of 16 slots, the pairs of 9 values more."""
    v = RNG.integers(-5, 6, 16) / 5
    x = few.encrypt(v, bound=1)
    first = np.sort(v[:n])
    if n == 9:
        ordered = C.sort(x, "slots", gap=0.2, count=n)
        assert np.abs(few.decrypt(ordered)[:n] - first).max() <= promised(ordered) < 0.01
        return
    best = C.top_k(x, 3, "slots", gap=0.2, count=n)
    assert np.abs(few.decrypt(best) - np.concatenate([first[::-1][:3], np.zeros(13)])).max() <= promised(best)
    assert abs(few.decrypt(C.median(x, "slots", gap=0.2, count=n))[0] - np.median(first)) < 1e-4


def test_indices_along_slots(few: Owner) -> None:
    """Among equal extremes, the result is the first index, in each ciphertext of a batch."""
    n = 5
    v = RNG.integers(-2, 3, (2, 16)) / 2
    x = few.encrypt(v, bound=1)
    check(few, C.argmax(x, "slots", gap=0.5, count=n), v[:, :n].argmax(axis=1)[:, None])
    check(few, C.argmin(x, "slots", gap=0.5, count=n, one_hot=True), np.eye(16)[v[:, :n].argmin(axis=1)])


def test_wrong_axes_and_counts_are_refused(deep: Owner, table: Array) -> None:
    x = deep.encrypt(table, bound=1)
    calls: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: C.sort(x, "slots", gap=0.1), hg.ParameterError),  # the pairs of 1,024 values fill 1,024 ciphertexts
        (lambda: C.sort(x, "slots", gap=0.1, count=2000), hg.ParameterError),
        (lambda: C.sort(x, 0, gap=0.1, count=2), hg.ParameterError),
        (lambda: C.argmax(x, 0, gap=0.1, count=2), hg.ParameterError),
        (lambda: C.median(x, 0, gap=0.1, count=2), hg.ParameterError),
        (lambda: C.top_k(x, 1, 0, gap=0.1, count=2), hg.ParameterError),
        (lambda: C.top_k(x, 5, "slots", gap=0.1, count=4), hg.ParameterError),
        (lambda: C.max(deep.encrypt([1.0], pad=True), "slots", error=0.1), hg.ShapeError),
        (lambda: C.top_k(x, 5, 0, gap=0.1), hg.ParameterError),
        (lambda: C.quantile(x, 1.5, 0, gap=0.1), hg.ParameterError),
        (lambda: C.histogram(x, [1, 0], gap=0.1), hg.ParameterError),
    ]
    for call, error in calls:
        with pytest.raises(error):
            call()


def test_softmax_and_norms(deep: Owner) -> None:
    v = np.stack([spread(-1, 1) for _ in range(3)])
    x = deep.encrypt(v, bound=1)
    total = np.exp(v).sum(0)
    check(deep, C.softmax(x, 0), np.exp(v) / total)
    check(deep, C.logsumexp(x, 0), np.log(total))
    check(deep, C.norm(x, 0, domain=(0.01, 2)), np.sqrt((v**2).sum(0)), where=(v**2).sum(0) >= 1e-4)
    wide = deep.encrypt(spread(-25, 25), bound=25)
    with pytest.raises(hg.NoiseError, match="narrower"):
        C.softmax(wide, "slots")
    check(deep, C.inverse(deep.encrypt(np.full(SLOTS, 2.0), bound=(2, 2))), np.full(SLOTS, 0.5))
    with pytest.raises(hg.ParameterError, match="norm needs an interval"):
        C.norm(x, 0)


def test_the_noise_of_a_series_is_its_slope_times_the_noise(deep: Owner) -> None:
    """The error bound of a Chebyshev series is true, and is within 8 bits of the error; for a noisy argument within one bit."""
    v = spread(-1, 1)
    coefficients = np.polynomial.chebyshev.chebinterpolate(np.tanh, 31)
    y = deep.encrypt(v, bound=1).polynomial(coefficients, "chebyshev")
    check(deep, y, np.polynomial.chebyshev.chebval(v, coefficients), within_bits=8)
    off = RNG.choice([-1, 1], SLOTS) * 2.0**-20
    x = deep.encrypt(np.clip(v + off, -1, 1), bound=1)
    noisy = x._wrap(_core.ckks.with_error(x._core, 2.0**-20, 2.0**-20)).polynomial(coefficients, "chebyshev")
    check(deep, noisy, np.polynomial.chebyshev.chebval(v, coefficients), within_bits=1)


@pytest.mark.parametrize("name", ["inverse", "rsqrt", "sqrt", "exp"])
def test_the_error_of_an_operand_is_in_the_bound(deep: Owner, name: str) -> None:
    """Values with an error of 2^-16 give results whose bound includes the effect of this error."""
    f, low, high = ELEMENTARY[name]
    v = spread(low, high)
    off = np.clip(v + RNG.choice([-1, 1], SLOTS) * 2.0**-16, low, high)
    x = deep.encrypt(off, bound=(low, high))
    noisy = x._wrap(_core.ckks.with_error(x._core, 2.0**-16, 2.0**-16))
    check(deep, getattr(C, name)(noisy), f(v), within_bits=3)


# ---- arguments


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ("x", hg.DtypeError),
        (1j, hg.DtypeError),
        (np.array([0.5 + 1j]), hg.DtypeError),
        ([None, 1], hg.DtypeError),
        ([[1], [1, 2]], hg.ShapeError),
        (np.ma.masked_array([0.0, 0.5, 1], [0, 1, 0]), hg.DtypeError),
        ([10**400, 1], hg.PlaintextRangeError),
    ],
)
def test_clear_values_of_other_types_are_refused(deep: Owner, values: Any, error: type[Exception]) -> None:
    """Complex and masked values raise an error, so the imaginary part or the mask is never dropped silently."""
    with pytest.raises(error):
        C.approximate(np.cosh, -1, 1, error=1e-4).clear(values)
    with pytest.raises(error):
        C.histogram(deep.encrypt(np.zeros(SLOTS), bound=1), values, gap=0.1)


def test_numbers_beyond_floats_are_refused(deep: Owner) -> None:
    """Integers above the largest float are invalid options, just as infinities are."""
    x, huge = deep.encrypt(np.full(SLOTS, 0.5), bound=(0.25, 1)), 10**400
    for call in (
        lambda: C.sign(x, gap=huge),
        lambda: C.abs(x, error=huge),
        lambda: C.clip(x, 0, huge, error=0.1),
        lambda: C.power(x, huge),
        lambda: C.exp(x, domain=(0, huge)),
        lambda: C.approximate(np.cosh, -1, 1, error=huge),
    ):
        with pytest.raises(hg.ParameterError):
            call()


@pytest.mark.filterwarnings("error")
def test_intervals_of_short_floats(deep: Owner) -> None:
    """The ends of an interval may have any of NumPy's number types, and no warning is given."""
    f = C.approximate(np.cosh, np.float32(0), np.float16(1))
    assert (f.low, f.high) == (0, 1)
    x = deep.encrypt(np.full(SLOTS, 0.5), bound=(np.float16(0.25), np.float32(1)))
    assert C.exp(x, domain=(np.int8(0), np.float32(1))).shape == ()


def test_functions_of_masked_values_are_refused() -> None:
    """A function that masks some of its values cannot be approximated."""
    with pytest.raises(hg.DtypeError, match="masked"):
        C.approximate(lambda v: np.ma.masked_less(v, 0), -1, 1)


# ---- the same bits


@functools.cache
def bits_on(device: str) -> list[str]:
    """Returns digests of results under fixed keys."""
    core = C.parameters(n=2 * SLOTS, levels=16, log_scale=45, base_bits=60, insecure=True)._core.on_device(device)
    secret = C.SecretKey(_core.ckks.SecretKey.generate_for_test(core, SEED))
    server = hg.Server(secret.evaluation_keys())
    values = np.random.default_rng(1).uniform(0.25, 1, (2, SLOTS))
    x = server.bind(secret.encrypt(values, bound=(0.25, 1)))
    results = [C.exp(x), C.inverse(x, error=2.0**-23), C.sqrt(x), C.sign(x - 0.5, gap=1 / 32, error=2.0**-10)]
    return [digest(y) for y in results]


@pytest.mark.parametrize(
    "device", places("ref", "2*cpu/limb/uncalibrated", "cuda:0", "cuda:0,cuda:1", usual=("ref", "2*cpu/limb/uncalibrated"))
)
def test_functions_have_the_same_bits_on_every_device(device: str) -> None:
    """The results of functions have the same words on every device."""
    assert bits_on(device) == bits_on("cpu")
