"""CKKS bootstrapping: values return to the top level with the promised precision, or an error is raised.

The tests use a small insecure set of N = 2^11, with as many levels and the same sine polynomial as the named sets.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
from alike import in_threads, require_refused
from bits import digest
from heliograph import _core
from heliograph.programs import forecast as forecasting
from model import Container, build, parse
from places import places
from rigs import SEED

Values = npt.NDArray[Any]
SLOTS, ENTRY, TOP = 1024, 4, 7


class Party:
    """A secret key and a bootstrapping server, with functions that check results."""

    def __init__(self, device: str = "") -> None:
        core = hg.ckks.parameters(n=2 * SLOTS, depth=3, log_scale=39, bootstrap=True, insecure=True)._core
        core = core.on_device(device) if device else core
        self.secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(core, SEED))
        self.keys = self.secret.evaluation_keys(bootstrap=True)
        self.server = hg.Server(self.keys)

    def tensor(self, values: Any, *, level: int = ENTRY, bound: float = 1.0) -> hg.ckks.Tensor:
        return self.server.bind(self.secret.encrypt(values, level=level, bound=bound))

    def off(self, tensor: hg.ckks.Tensor, expected: Any) -> float:
        """Returns the largest error of the real and the imaginary parts."""
        found = self.secret.decrypt(tensor) - expected
        return max(float(np.abs(found.real).max(initial=0)), float(np.abs(found.imag).max(initial=0)))

    def check(self, tensor: hg.ckks.Tensor, expected: Any, bits: float | None = None) -> None:
        """Checks that a tensor is at the top level and has its promised precision, or the precision `bits` if it is given."""
        assert (tensor.level, tensor.degree, tensor.shape) == (TOP, 1, np.shape(expected)[:-1])
        assert tensor.dtype == np.asarray(expected).dtype
        least = tensor.precision if bits is None else bits
        assert least is not None
        assert self.off(tensor, expected) <= 2.0**-least


@functools.cache
def party() -> Party:
    """Returns the shared party."""
    return Party()


@pytest.fixture
def p() -> Party:
    return party()


def test_parameters_state_the_precision_of_a_bootstrap(p: Party) -> None:
    """Parameters state the least precision of a bootstrap before any key is made. Every tensor has at least this precision."""
    parameters = hg.ckks.parameters(n=2 * SLOTS, depth=3, log_scale=39, bootstrap=True, insecure=True)
    told = parameters.explain()
    for iterations in (1, 2):
        bits = parameters.bootstrapping_precision(iterations=iterations)
        assert f"{bits:.1f} " in next(line for line in told.splitlines() if "its precision" in line)
        for values in (random(), random(2), random() + 1j * random(seed=2), np.full((2, SLOTS), 1.0)):
            y = hg.ckks.bootstrap(p.tensor(values, bound=2**0.5), bound=2**0.5, iterations=iterations)
            promised = parameters.bootstrapping_precision(2**0.5, iterations)
            assert y.precision is not None
            assert bits > y.precision >= promised - 0.01
            p.check(y, values, promised - 0.01)
    with pytest.raises(hg.ParameterError, match="between 2\\^-20 and 2\\^20"):
        parameters.bootstrapping_precision(0)
    with pytest.raises(hg.ParameterError, match="iterations must be 1 to 4"):
        parameters.bootstrapping_precision(1, 5)
    with pytest.raises(hg.ParameterError, match="no bootstrapping"):
        hg.ckks.parameters("n13-l4").bootstrapping_precision()


def test_a_long_bootstrap_is_announced(p: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long bootstrap gives a warning; a bootstrap of few ciphertexts or a recorded bootstrap does not."""
    monkeypatch.setattr(forecasting, "rates_of", lambda _: forecasting._Ring(call_seconds=1.0))
    x = p.tensor(random(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", hg.LongCallWarning)
        with pytest.raises(hg.LongCallWarning, match=r"a bootstrap of 4 ciphertexts is forecast to take \d+"):
            hg.ckks.bootstrap(x)
        hg.forecast(hg.ckks.bootstrap, x)
        p.check(hg.ckks.bootstrap(x[0]), p.secret.decrypt(x[0]))


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in hg.ckks.named() if hg.ckks.parameters(name).bootstrapping_level])
def test_explain_states_the_precision_of_a_bootstrap(name: str) -> None:
    """`explain` states the engine's precision bounds, rounded down."""
    parameters = hg.ckks.parameters(name)
    told = next(line for line in parameters.explain().splitlines() if "its precision" in line)
    one, two = (int(10 * parameters.bootstrapping_precision(iterations=n)) / 10 for n in (1, 2))
    assert f"at least {one} bits" in told
    assert f"({two} with iterations=2)" in told or two < one + 0.5


def random(*shape: int, seed: int = 1, size: float = 1.0) -> Values:
    return np.random.default_rng(seed).uniform(-size, size, (*shape, SLOTS))


def spike(at: int) -> Values:
    return np.eye(1, SLOTS, at)[0]


ALTERNATING = np.where(np.arange(SLOTS) % 2, -1.0, 1.0)
SIGNS = np.sign(random(seed=5))

# Values


@pytest.mark.parametrize(
    "values",
    [random(), random() + 1j * random(seed=2), random(3), random(2, 1, seed=3), random(3) + 1j * random(3, seed=4)],
    ids=["one", "complex", "three", "a shape", "three complex"],
)
def test_bootstrapped_values_have_the_promised_precision(p: Party, values: Values) -> None:
    """Values return to the top level with at least the promised precision, which is above 17.5 bits."""
    bound = max(1.0, float(np.abs(values).max()))
    y = hg.ckks.bootstrap(p.tensor(values, bound=2), bound=bound)
    p.check(y, values)
    assert y.precision is not None
    assert y.precision > 17.5
    # bootstrap first lowers the tensor to the entry level
    p.check(hg.ckks.bootstrap(p.tensor(values, level=TOP, bound=2), bound=bound), values)


@pytest.mark.parametrize(
    "values",
    [
        *(SIGNS, SIGNS * 1j, SIGNS + 1j * ALTERNATING, np.ones(SLOTS), -np.ones(SLOTS), 1j * np.ones(SLOTS)),
        *(spike(0), spike(SLOTS - 1), -1j * spike(5), ALTERNATING, np.zeros(SLOTS), np.repeat([1.0, -1.0], SLOTS // 2)),
    ],
)
def test_the_hardest_values_have_the_promised_precision(p: Party, values: Values) -> None:
    """The promised precision also holds for the worst values. Some of the worst values are where the sine differs most from
    a line; others have few large coefficients.

    """
    bound = float(max(np.abs(values.real).max(), np.abs(values.imag).max(), 0.5))
    x = hg.ckks.within(p.tensor(values, bound=1.5), bound)
    p.check(hg.ckks.bootstrap(x, bound=bound), values, bits=18)


def test_values_beyond_the_declared_bound_have_no_precision(p: Party) -> None:
    """Values beyond the declared bound get the cubic error of the sine, and the result promises no precision."""
    values = 1.02 * SIGNS
    y = hg.ckks.bootstrap(hg.ckks.within(p.tensor(values, bound=2), 1))
    assert y.precision is None
    within = p.off(hg.ckks.bootstrap(p.tensor(SIGNS)), SIGNS)
    assert within < p.off(y, values) < 1.1 * within


def test_pairing_real_ciphertexts_does_not_change_values(p: Party) -> None:
    """Two real ciphertexts share one complex bootstrap; the last of an odd number of ciphertexts is bootstrapped alone.
    Pairing does not change the values."""
    values = np.stack([random(seed=s) for s in range(3)])
    x = p.tensor(values)
    together = hg.ckks.bootstrap(x)
    alone = [hg.ckks.bootstrap(x[i]) for i in range(3)]
    assert together.dtype == np.float64
    for i in range(3):
        p.check(together[i], values[i])
        assert p.off(together[i] - alone[i], 0) < 2.0**-18
    mixed = hg.ckks.bootstrap(p.tensor(np.stack([ALTERNATING, np.zeros(SLOTS)])))
    p.check(mixed, np.stack([ALTERNATING, np.zeros(SLOTS)]))  # the values of one ciphertext do not appear in the other


def test_no_values(p: Party) -> None:
    y = hg.ckks.bootstrap(p.tensor(random(2))[:0])
    assert (y.shape, y.level) == ((0,), TOP)


@pytest.mark.parametrize("bound", [2.0**-10, 0.1, 3.0, 10.0, 500.0])
def test_the_error_is_proportional_to_the_bound(p: Party, bound: float) -> None:
    """The error is proportional to the declared bound, and so is the promised error."""
    values = random(size=bound)
    y = hg.ckks.bootstrap(hg.ckks.within(p.tensor(values, bound=max(bound, 1)), bound), bound=bound)
    p.check(y, values, bits=None if bound >= 1 else 18 - np.log2(bound) / 2)
    assert p.off(y, values) < 2.0**-15 * max(bound, 2.0**-10)


def test_iterations(p: Party) -> None:
    """Each iteration bootstraps the error that remains."""
    values = np.stack([random(), SIGNS, ALTERNATING])
    for expected in (values[0], values[1], values * (0.6 + 0.8j)):
        y = hg.ckks.bootstrap(p.tensor(expected), iterations=2)
        p.check(y, expected, bits=25)
        assert y.precision is not None
        assert y.precision > 23
    with hg.ckks.auto_bootstrap(iterations=2):
        assert p.off(p.tensor(SIGNS) * 1.5, SIGNS * 1.5) < 2.0**-25


def test_a_loose_bound_costs_precision_only(p: Party) -> None:
    """A loose bound is still correct; only the precision is lower."""
    for bound in (2.0, 4.0, 16.0):
        p.check(hg.ckks.bootstrap(p.tensor(SIGNS), bound=bound), SIGNS)


def test_errors_of_fifty_bootstraps_accumulate_like_noise(p: Party) -> None:
    """Errors accumulate like noise: small values, for which the sine is linear, do not drift or shrink."""
    values = random(size=2.0**-4)
    y = p.tensor(values)
    once = p.off(hg.ckks.bootstrap(y, bound=1), values)
    for _ in range(50):
        y = hg.ckks.bootstrap(hg.ckks.lower(y, ENTRY), bound=1)
    error = p.secret.decrypt(y) - values
    assert np.abs(error).max() < 20 * once
    assert abs(error.mean()) < 6 * error.std() / np.sqrt(SLOTS)
    shrunk = np.dot(error, values) / np.dot(values, values)
    assert abs(shrunk) < 6 * error.std() / np.linalg.norm(values)


def test_products_after_a_bootstrap(p: Party) -> None:
    """A bootstrapped ciphertext allows the promised number of products."""
    values = random()
    y, expected = hg.ckks.bootstrap(p.tensor(values)), values
    for _ in range(TOP - ENTRY):
        y, expected = y * y, expected * expected
    assert y.level == ENTRY
    p.check(hg.ckks.bootstrap(y, bound=1.01), expected, bits=15)


# Promised precision


def test_the_promise_holds(p: Party) -> None:
    """`precision` is at most the measured worst precision over many slots, and close to it."""
    values = np.concatenate([random(16, seed=9), np.stack([SIGNS, ALTERNATING])])
    y = hg.ckks.bootstrap(p.tensor(values))
    assert y.precision is not None
    worst = -np.log2(p.off(y, values))
    assert y.precision <= worst < y.precision + 2


def test_unknown_bounds_promise_no_precision(p: Party) -> None:
    """Tensors from files, and tensors whose declared bound contradicts the tracked one, have no promised precision."""
    x = p.tensor(random())
    assert hg.ckks.within(x, 2).precision == x.precision
    assert hg.ckks.within(x, 0.5).precision is None
    assert hg.ckks.bootstrap(p.server.from_bytes(x.to_bytes())).precision is None
    assert hg.ckks.bootstrap(hg.Server(hg.from_bytes(p.keys.to_bytes(), hg.ckks.EvaluationKeys)).bind(x)).precision is None


def committed(name: str) -> tuple[dict[str, float], list[float]]:
    """Returns the constants of the committed polynomials and the coefficients of one polynomial."""
    text = (Path(__file__).parents[2] / "src/schemes/ckks/sine.inc").read_text()
    told = {name: float(value) for name, value in re.findall(r"k(\w+) = ([-+.e\d]+)[,;]", text)}
    coefficients = text.partition(f"{name} = {{")[2].partition("}")[0]
    return told, [float(c) for c in re.findall(r"[-+.e\d]+", coefficients)]


@pytest.mark.parametrize(("name", "terms", "change"), [("Sine", 16, 1e-9), ("LongSine", 27, 1e-12)])
def test_the_sine_has_its_stated_error(name: str, terms: int, change: float) -> None:
    """The error of the committed sine polynomial near whole numbers, compared with sin(2 pi u), is as stated."""
    told, coefficients = committed(f"k{name}Coefficients")
    assert len(coefficients) == terms
    most = int(told["SineMost"])
    u = np.add.outer(np.arange(-most, most + 1), np.linspace(-1, 1, 2001) * told["SineRoom"]).astype(np.longdouble)
    w = 2 * ((u - told["SineShift"] - 0.25) / told["SineRange"]) ** 2 - 1
    assert np.abs(w).max() <= 1

    def error(c: list[float]) -> Values:
        found = np.polynomial.chebyshev.chebval(w, np.array(c, np.longdouble))
        for _ in range(int(told[f"{name}Doublings"])):
            found = 2 * found * found - 1
        return found - np.sin(4 * np.arccos(np.longdouble(0)) * u)  # type: ignore[no-any-return]

    assert 0.9 * told[f"{name}Error"] < np.abs(error(coefficients)).max() < 1.01 * told[f"{name}Error"]
    changed = [c + change * (k == 3) for k, c in enumerate(coefficients)]
    assert np.abs(error(changed)).max() > 1.5 * told[f"{name}Error"]
    # Weights each whole number by the probability of this number as a rounded sum of 32 uniform numbers. If the mean of the
    # error were not zero, it would accumulate over bootstraps.
    steps = 100
    sums = np.fft.irfft(np.fft.rfft(np.full(steps + 1, 1 / (steps + 1)), 64 * steps) ** 32, 64 * steps)
    often = np.array([sums[(16 + i) * steps - steps // 2 :][: steps + 1].sum() for i in range(-most, most + 1)])
    # Coefficients are doubles, which limits the accuracy of the mean.
    assert abs(often @ error(coefficients)[:, 1000]) < max(0.01 * told[f"{name}Error"], 2e-14)
    assert abs(often @ error(changed)[:, 1000]) > 0.1 * told[f"{name}Error"]


def test_the_polynomial_of_tables_has_its_stated_error() -> None:
    """The error of the committed polynomial for tables is as stated, for all u: it approximates exp(2 pi i u) of a fraction
    of the angle.
    """
    told, coefficients = committed("kTurnCoefficients")
    assert len(coefficients) == 32
    y = np.linspace(-1, 1, 40_001) * (told["SineMost"] + 0.5) / told["SineRange"]
    turned = np.array(coefficients) * np.where(np.arange(32) % 2, 1j, 1)
    part = 2 * np.pi * told["SineRange"] / 2 ** told["TurnSquares"]

    def error(c: Values) -> float:
        return float(np.abs(np.polynomial.chebyshev.chebval(y, c) - np.exp(1j * part * y)).max())

    assert 0.9 * told["TurnError"] < error(turned) < 1.01 * told["TurnError"]
    assert error(turned + 1e-10) > 1.5 * told["TurnError"]


# The same bits


@functools.cache
def bits_on(device: str) -> list[str]:
    other = Party(device)
    tensors = [other.tensor(random(3)), other.tensor(random() + 1j * random(seed=2), bound=2)]
    return [digest(other.keys), *(digest(hg.ckks.bootstrap(t, bound=1.5)) for t in tensors)]


@pytest.mark.parametrize(
    "device",
    places("ref", "cpu:scalar", "cpu:avx2", "2*cpu/limb/uncalibrated", "cuda:0", usual=("ref", "2*cpu/limb/uncalibrated")),
)
def test_the_same_bits_everywhere(device: str) -> None:
    """Keys and results have the same bits on every device."""
    assert bits_on(device) == bits_on("cpu")


def test_a_recorded_bootstrap_has_the_same_bits(p: Party) -> None:
    """A recorded program gives the same bits, also for other operands and after loading from a file."""

    def function(x: hg.ckks.Tensor) -> hg.ckks.Tensor:
        return hg.ckks.bootstrap(x, bound=2) * x

    program = hg.program(function)
    for seed in (1, 2):
        x = p.tensor(random(2, seed=seed), level=5)
        assert digest(program(x)) == digest(function(x))
    assert (program.recordings, program.replays) == (1, 1)
    assert digest(hg.Program.from_bytes(program.to_bytes())(x)) == digest(function(x))


def test_forecast_and_trace(p: Party) -> None:
    """Forecast and trace count a bootstrap as one operation."""
    x = p.tensor(random())
    told = hg.forecast(lambda x: hg.ckks.bootstrap(x), x)
    assert told.calls["linear_sum"] == 5
    assert told.result_bytes == hg.ckks.bootstrap(x).nbytes
    with hg.trace() as trace:
        hg.ckks.bootstrap(x)
    assert "bootstrap" in str(trace)


def test_progress(p: Party) -> None:
    shares: list[float] = []
    hg.ckks.bootstrap(p.tensor(random()), progress=shares.append)
    assert len(shares) > 5
    assert 0 < min(shares) < max(shares) <= 1


# Errors


def test_refusals(p: Party) -> None:
    """Each refused call raises its own error type and message."""
    x = p.tensor(random(), level=TOP)
    product = hg.ckks.multiply(x, x, rescale=False)
    plain = hg.SecretKey.generate(hg.ckks.parameters(n=2 * SLOTS, levels=4, insecure=True))
    y = hg.Server(plain.evaluation_keys()).bind(plain.encrypt(random()))
    refused: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: hg.ckks.bootstrap(p.tensor(random(), level=3)), hg.LevelError, "needs level 4 or above; .* level 3"),
        (lambda: hg.ckks.bootstrap(x + x, bound=1), hg.PlaintextRangeError, "may reach 2.0*, above the bound of 1.0*"),
        (lambda: hg.ckks.bootstrap(x * 3e6), hg.PlaintextRangeError, "at most 2.20"),
        (lambda: hg.ckks.bootstrap(x, bound=0.5), hg.PlaintextRangeError, "within"),
        (lambda: hg.ckks.bootstrap(product), hg.ScaleError, "rescale"),
        (lambda: hg.ckks.bootstrap(p.secret.encrypt(random())), hg.MissingKeyError, "bootstrapping needs evaluation keys"),
        (lambda: hg.ckks.bootstrap(x, keys=p.secret.evaluation_keys()), hg.MissingKeyError, "bootstrap=True"),
        (lambda: hg.ckks.bootstrap(x, keys=stranger()), hg.WrongKeyError, "key"),
        (lambda: hg.ckks.bootstrap(y), hg.ParameterError, "no bootstrapping"),
        (lambda: plain.evaluation_keys(bootstrap=True), hg.ParameterError, "no bootstrapping"),
        (lambda: hg.ckks.bootstrap(p.secret.decrypt(x)), hg.DtypeError, "CKKS"),
        (lambda: hg.ckks.bootstrap(x, iterations=0), hg.ParameterError, "iterations must be 1 to 4"),
        (lambda: hg.ckks.bootstrap(x, iterations=1.5), hg.ParameterError, "iterations"),  # type: ignore[arg-type]
        (lambda: hg.ckks.bootstrap(x, bound="1"), hg.DtypeError, "bound"),  # type: ignore[arg-type]
        (lambda: p.secret.evaluation_keys(bootstrap=1), hg.DtypeError, "bootstrap"),  # type: ignore[arg-type]
    ]
    for bound in (0, -1.0, float("nan"), float("inf"), 2.0**21):
        refused.append((lambda b=bound: hg.ckks.bootstrap(x, bound=b), hg.ParameterError, "bound"))  # type: ignore[misc]
    for bound in (0, -1.0, float("nan"), float("inf")):
        refused.append((lambda b=bound: hg.ckks.within(x, b), hg.ParameterError, "bound"))  # type: ignore[misc]
    for attempt, error, words in refused:
        require_refused(attempt, error, words)


@functools.cache
def stranger() -> hg.ckks.EvaluationKeys:
    """Returns evaluation keys of another secret key of the same set."""
    return hg.SecretKey.generate(party().secret.parameters).evaluation_keys(bootstrap=True)


def test_sets_are_found_and_refused() -> None:
    """Sets are found by depth and precision or by numbers. An impossible request is refused, and the error has the possible
    values.
    """
    for depth, precision, name in (
        (4, 17, "n15-b4"),
        (4, 18, "n16-b9"),
        (5, 17, "n16-b9"),
        (9, None, "n16-b9"),
        (10, 20, "n16-b13"),
        (9, 25, "n16-b10-h"),
        (13, 20, "n16-b13"),
        (11, 23, "n16-b11-c"),
        (11, 26, "n16-b11/w32"),
        (18, 20, "n16-b18"),
    ):
        bits = 2 if precision == 25 else None
        found = hg.ckks.parameters(depth=depth, precision=precision, integer_bits=bits, bootstrap=True)
        assert (found.name, found.security) == (name, "128-bit")
        assert depth <= found.depth_between == found.levels - found.bootstrapping_level
    assert hg.ckks.parameters(depth=9, bootstrap=True, word_size=32).name == "n16-b11/w32"
    assert hg.ckks.parameters(depth=12, precision=15, bootstrap=True, word_size=32).name == "n16-b13/w32"
    small = hg.ckks.parameters(n=2048, depth=2, log_scale=36, bootstrap=True, insecure=True)
    assert (small.n, small.depth_between, small.slots) == (2048, 2, 1024)
    assert "(2 after a bootstrap)" in repr(small)
    assert small.bootstrapping_key_bytes == hg.SecretKey.generate(small).evaluation_keys(bootstrap=True).nbytes
    assert hg.ckks.parameters("n13-l4").bootstrapping_key_bytes == 0
    told = str(found)
    assert "its keys  " in told
    assert re.search("its precision  .* at least 14.5 bits .*18.2 with iterations=2.* near 2\\^-20\n", told)
    assert re.search("bootstrapping  from level 4 back to 22: 18 mult.* probability 2\\^-132.7", told)
    assert "bootstrapping" not in str(hg.ckks.parameters("n13-l4"))
    assert "its precision" not in str(hg.ckks.parameters("n13-l4"))
    for given, words in (
        ({"depth": 19}, "no named set .* 19 .*n16-b18 .18; 20; 10"),
        ({"depth": 9, "precision": 27}, "precision of 27 bits"),
        ({"depth": 12, "word_size": 32}, "no named set .* 12 "),
        ({"depth": 9, "word_size": "w16"}, "word_size must be 64 or 32"),
        ({"depth": 9, "precision": 31, "integer_bits": 0}, "precision of 31 bits"),
        ({"depth": 9, "integer_bits": 14}, "14 bits before the point"),
        ({}, "needs a depth"),
        ({"n": 1 << 16}, "needs a depth"),
        ({"depth": 9, "slots": 1 << 16}, "32,768, the slots"),
        ({"depth": 9, "levels": 3}, "takes no levels"),
        ({"depth": 9, "log_scale": 39}, "takes no log_scale"),
        ({"depth": 9, "special": 2}, "takes no special"),
        ({"n": 2048, "depth": 3, "precision": 20}, "takes no precision"),
        ({"n": 2048, "depth": 3, "word_size": 32}, "43 to 53"),
        ({"n": 2048, "depth": 3}, "128-bit"),
        ({"n": 1024, "depth": 3}, "2\\^11"),
        ({"n": 2048, "depth": 3, "log_scale": 48}, "log_scale with bootstrapping"),
        ({"name": "n16-b13"}, "takes no bootstrap"),
    ):
        with pytest.raises(hg.ParameterError, match=words):
            hg.ckks.parameters(bootstrap=True, **given)


# Keys and files


def test_keys_in_files(p: Party, tmp_path: Path) -> None:
    """Keys that are loaded at once or one by one give the same bits, and a result loaded from a file equals the saved
    result."""
    x = p.tensor(random())
    expected = digest(hg.ckks.bootstrap(x))
    p.keys.save(tmp_path / "keys.hg")
    each = p.secret.parameters.switch_key_bytes
    assert p.keys.nbytes > 20 * each  # the limit is too small for all keys, so some keys are evicted and reloaded
    for options in ({}, {"memory": 16 * each}):
        keys = hg.load(tmp_path / "keys.hg", hg.ckks.EvaluationKeys, **options)
        assert keys.bootstrap
        assert "bootstrapping" in repr(keys)
        assert (keys.nbytes, keys.rotations) == (p.keys.nbytes, p.keys.rotations)
        y = hg.ckks.bootstrap(hg.Server(keys).bind(x))
        y.save(tmp_path / "y.hg")
        back = p.server.load(tmp_path / "y.hg")
        assert back.level == TOP
        p.check(back, random(), bits=18)
        np.testing.assert_array_equal(p.secret.decrypt(back), p.secret.decrypt(hg.ckks.bootstrap(x)))
        assert back.to_bytes() == y.to_bytes()
    assert digest(hg.ckks.bootstrap(x)) == expected


def damaged() -> dict[str, Callable[[Container], None]]:
    """Returns functions that damage the file of the keys; the tests then recompute its digest."""

    def changed(name: str, how: Callable[[Values], Values]) -> Callable[[Container], None]:
        def damage(c: Container) -> None:
            c.arrays[name] = how(c.arrays[name].copy())

        return damage

    def over(a: Values) -> Values:
        a[0, 0, 0] = (1 << 64) - 1  # not a residue
        return a

    def without(name: str) -> Callable[[Container], None]:
        return lambda c: c.arrays.pop(name)

    def swapped(c: Container) -> None:
        c.arrays["to_sparse"], c.arrays["first_matrix"] = c.arrays["first_matrix"], c.arrays["to_sparse"]

    return {
        "a short first matrix": changed("first_matrix", lambda a: a[:-1]),
        "a short key to the sparse one": changed("to_sparse", lambda a: a[..., :1024]),
        "fewer primes": changed("first_matrix", lambda a: a[:, :-1]),
        "swapped": swapped,
        "no residue": changed("first_matrix", over),
        "no residue either": changed("to_sparse", over),
        "no first matrix": without("first_matrix"),
        "no key to the sparse one": without("to_sparse"),
        "no seed": lambda c: c.header["bootstrapping"].pop("to_sparse"),
        "not told": lambda c: c.header.pop("bootstrapping"),
    }


@functools.cache
def key_file() -> bytes:
    return party().keys.to_bytes()


@pytest.mark.parametrize("damage", damaged())
def test_damaged_keys(damage: str) -> None:
    """Missing arrays, short arrays and invalid residues are refused at loading, even in a file with a valid digest."""
    container = parse(key_file())
    assert build(container) == key_file()
    damaged()[damage](container)
    with pytest.raises(hg.DamagedFileError):
        hg.ckks.EvaluationKeys.from_bytes(build(container))


def test_bytes_that_changed() -> None:
    """A changed byte or a cut at any position is refused."""
    data = key_file()
    for at in (100, len(data) // 2, len(data) - 100_000):
        with pytest.raises(hg.DamagedFileError):
            hg.ckks.EvaluationKeys.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(hg.DamagedFileError):
            hg.ckks.EvaluationKeys.from_bytes(data[:at])


@pytest.mark.parametrize("name", ["first_matrix", "to_sparse"])
def test_a_foreign_key_gives_detectably_wrong_values(p: Party, name: str) -> None:
    """A file with a switching key of another owner passes every check. The precision tests above would detect the key by
    wrong values.

    """
    container, other = parse(key_file()), parse(stranger().to_bytes())
    container.arrays[name] = other.arrays[name]
    container.header["bootstrapping"][name] = other.header["bootstrapping"][name]
    keys = hg.ckks.EvaluationKeys.from_bytes(build(container))
    y = hg.ckks.bootstrap(hg.Server(keys).bind(p.tensor(random())))
    with pytest.raises((AssertionError, hg.RoomError)):
        p.check(y, random(), bits=10)


# Automatic bootstraps


@pytest.fixture
def auto() -> Iterator[hg.ckks.AutoBootstrap]:
    with hg.ckks.auto_bootstrap(bound=1.1) as made:
        yield made


def test_products_in_sequence_need_no_counting_of_levels(p: Party, auto: hg.ckks.AutoBootstrap) -> None:
    """Twenty products in sequence are correct on a set with three levels between bootstraps."""
    values = np.abs(random(2, size=0.9))
    x, expected = p.tensor(values, level=TOP), values
    for _ in range(20):
        x, expected = x * (1.5 - 0.5 * x), expected * (1.5 - 0.5 * expected)
        assert x.level >= ENTRY
        assert p.off(x, expected) < 2.0**-9
    assert auto.count > 5
    assert str(auto.count) in repr(auto)


def test_tensors_with_enough_levels_are_not_bootstrapped(p: Party, auto: hg.ckks.AutoBootstrap) -> None:
    """If enough levels are left, results have the same bits as without auto_bootstrap. Additions and rotations need no
    bootstrap.

    """
    x = p.tensor(random(), level=TOP)
    inside = [x * x, x * 0.5, x / 3, hg.ckks.polynomial(x, [0, 0, 1]), x * 3]
    with hg.ckks.auto_bootstrap():  # a nested context counts its own bootstraps
        low = hg.ckks.lower(x, ENTRY)
        for y in (low + x, low - 1, 3 * low, low * 1j, -low, low[None]):
            assert y.level == ENTRY
    assert auto.count == 0
    assert hg.ckks.multiply(x, x, rescale=False).level == TOP
    assert [digest(y) for y in inside] == [
        digest(y) for y in (x * x, x * 0.5, x / 3, hg.ckks.polynomial(x, [0, 0, 1]), x * 3)
    ]


def test_each_operation_bootstraps_its_operands(p: Party, auto: hg.ckks.AutoBootstrap) -> None:
    """Each operation bootstraps operands that are at the lowest levels."""
    values = random(2, seed=7, size=0.7)
    a, b = values
    weights = random(seed=8, size=0.5)
    keys = p.secret.evaluation_keys(bootstrap=True, rotations=[1, 2, 3])
    server = hg.Server(keys)
    small = np.zeros((SLOTS, SLOTS))
    small[np.arange(SLOTS), np.arange(SLOTS)] = weights
    small[np.arange(SLOTS), (np.arange(SLOTS) + 1) % SLOTS] = 0.25
    layer = hg.ckks.LinearTransform(p.secret.parameters, small)  # the matrix is encoded for the top level
    plain = hg.ckks.encode(p.secret.parameters, weights)
    turned = np.array([[0.6, 0.8], [-0.8, 0.6]])
    works: list[tuple[Callable[[hg.ckks.Tensor], Any], Values]] = [
        (lambda x: x[0] * x[1], a * b),
        (lambda x: x * x, values * values),
        (lambda x: x**3, values**3),
        (lambda x: x * 0.3, values * 0.3),
        (lambda x: x * weights, values * weights),
        (lambda x: x * (1 + 0.5j), values * (1 + 0.5j)),
        (lambda x: x * plain, values * weights),
        (lambda x: x / 3, values / 3),
        (lambda x: hg.ckks.polynomial(x, [0.1, 0.2, 0, 0.5]), 0.1 + 0.2 * values + 0.5 * values**3),
        (lambda x: hg.matmul(turned, x, axis=0), turned @ values),
        (lambda x: layer @ x, values @ small.T),
        (lambda x: hg.matmul(small, x, axis="slots"), values @ small.T),
        (lambda x: hg.dot(x, x), (values * values).sum(0)),
        (lambda x: hg.dot(x, [0.5, -0.25]), 0.5 * a - 0.25 * b),
        (lambda x: hg.ckks.inner_product(x, np.stack([weights, weights])), (values * weights).sum(0)),
        (lambda x: hg.ckks.multiply(x, x, relinearize=False, rescale=False), values * values),
    ]
    for work, expected in works:
        x = server.bind(p.tensor(values))
        before = auto.count
        y = work(x)
        assert y.level >= ENTRY
        assert before < auto.count <= before + 2
        assert p.off(y, expected) < 2.0**-16
    x = server.bind(p.tensor(values))
    x *= 0.5
    assert p.off(x, values / 2) < 2.0**-16


def test_statistics(p: Party, auto: hg.ckks.AutoBootstrap) -> None:
    """Statistics take several levels; their operations bootstrap when needed."""
    keys = p.secret.evaluation_keys(bootstrap=True, rotations=hg.ckks.sum_rotations(SLOTS))
    values = random(size=0.8)
    x = hg.Server(keys).bind(p.tensor(values))
    assert p.off(hg.ckks.mean(x, "slots"), values.mean()) < 2.0**-16
    assert p.off(hg.ckks.var(x, "slots"), values.var()) < 2.0**-14
    assert auto.count == 1


def test_a_tensor_used_several_times_is_bootstrapped_once(p: Party, auto: hg.ckks.AutoBootstrap) -> None:
    """A tensor that is used several times is bootstrapped only once, until it changes."""
    values = random(2, size=0.5)
    x, y = p.tensor(values[0]), p.tensor(values[1])
    assert p.off(x * x, values[0] ** 2) < 2.0**-16
    assert auto.count == 1
    assert p.off(x * y, values[0] * values[1]) < 2.0**-16
    assert auto.count == 2
    x += y  # changed in place
    assert p.off(x * x, values.sum(0) ** 2) < 2.0**-16
    assert auto.count == 3
    x -= 0.25
    assert p.off(x * y, (values.sum(0) - 0.25) * values[1]) < 2.0**-16
    assert auto.count == 4
    for _ in range(3):  # new tensors, which may reuse the memory of freed tensors
        assert p.off(p.tensor(values[0]) * p.tensor(values[1]), values[0] * values[1]) < 2.0**-16
    assert auto.count == 10
    assert len(auto._done) == 2  # entries of x and y; the entries of freed tensors are gone


def test_tensors_that_cannot_bootstrap(p: Party) -> None:
    """A tensor that cannot be bootstrapped raises a typed error when the first bootstrap is needed."""
    low = p.tensor(random())
    with hg.ckks.auto_bootstrap():
        with pytest.raises(hg.MissingKeyError, match="bootstrapping needs evaluation keys"):
            hg.ckks.lower(p.secret.encrypt(random()), ENTRY) * 0.5
        with pytest.raises(hg.MissingKeyError, match="bootstrap=True"):
            hg.ckks.multiply(low, low, keys=p.secret.evaluation_keys())
        with pytest.raises(hg.LevelError, match="takes 4 levels, but this set has 3"):
            hg.ckks.polynomial(low, np.ones(16))
        end = hg.ckks.lower(low, 2) * 0.5  # these tensors are below the entry level but still have levels
        assert end.level == 1
        with pytest.raises(hg.LevelError, match=r"needs level 4 or above; .* level 1"):
            end * 0.5
        plain = hg.SecretKey.generate(hg.ckks.parameters(n=2 * SLOTS, levels=2, insecure=True))
        y = hg.Server(plain.evaluation_keys()).bind(plain.encrypt(random()))
        y = y * y
        with pytest.raises(hg.ParameterError, match="no bootstrapping"):
            y * y
    with pytest.raises(hg.ParameterError, match="bound"), hg.ckks.auto_bootstrap(bound=0):
        pass


def test_the_setting_is_local_to_its_thread(p: Party, auto: hg.ckks.AutoBootstrap) -> None:
    """auto_bootstrap affects only the thread that entered it."""
    x = p.tensor(random(size=0.5))

    def other(_: int) -> int:
        return (x * x).level

    assert in_threads(other, 1) == [ENTRY - 1]
    assert (x * x).level == TOP - 1
    assert auto.count == 1


def test_a_program_accepts_other_keys(p: Party) -> None:
    """A recorded program works with the keys of another secret key, and holds no keys."""
    program = hg.program(hg.ckks.bootstrap)
    values = random(seed=4)
    assert p.off(program(p.tensor(values)), values) < 2.0**-17
    other = hg.SecretKey.generate(p.secret.parameters)
    x = other.encrypt(values, level=ENTRY, bound=1)
    y = program(hg.Server(other.evaluation_keys(bootstrap=True)).bind(x))
    assert np.abs(other.decrypt(y) - values).max() < 2.0**-17
    for wanted in ({}, {"rotations": p.keys.rotations, "conjugate": True}):
        with pytest.raises(hg.MissingKeyError):
            program(hg.Server(other.evaluation_keys(**wanted)).bind(x))


def test_recorded_bootstraps(p: Party) -> None:
    """A program records automatic bootstraps and gives the same bits. The tensors of a forecast hold no data, and are never
    reused as results.

    """
    y = p.tensor(random(seed=3, size=0.5))

    def function(x: hg.ckks.Tensor) -> hg.ckks.Tensor:
        with hg.ckks.auto_bootstrap():
            for _ in range(5):
                x = x * y
        return x

    x = p.tensor(random(size=0.5), level=TOP)
    program = hg.program(function)
    expected = digest(function(x))
    assert digest(program(x)) == digest(program(x)) == expected
    with hg.ckks.auto_bootstrap() as auto:
        assert hg.forecast(lambda x: x * y, x).calls["linear_sum"] == 5
        assert auto.count == 1
        assert p.off(x * y, random(size=0.5) * random(seed=3, size=0.5)) < 2.0**-16
        assert auto.count == 2
