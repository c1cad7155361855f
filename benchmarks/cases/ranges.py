"""Computations on ordinary data, each written once for NumPy arrays and for tensors, and the classification of their results.

A computation is a function of a source of values: `Clear` returns arrays, `Encrypted` returns tensors of the same numbers. An array of shape
[..., slots] corresponds to a tensor of shape [...]. A random generator with the same seed draws the same numbers for both.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev as np_chebyshev
from numpy.polynomial import polynomial as np_polynomial

import heliograph as hg

Random = np.random.Generator

#: Typical data of users, by kind; each function draws random values of this kind.
DATA: dict[str, Callable[[Random, Any], Any]] = {
    "heights": lambda r, shape: r.normal(175, 10, shape),
    "weights": lambda r, shape: r.normal(75, 12, shape).clip(30),
    "ages": lambda r, shape: r.uniform(18, 90, shape),
    "salaries": lambda r, shape: r.normal(60e3, 15e3, shape).clip(1e4),
    "prices": lambda r, shape: r.uniform(10, 100, shape),
    "counts": lambda r, shape: r.poisson(20, shape).astype(float),
    "celsius": lambda r, shape: r.uniform(-10, 35, shape),
    "probabilities": lambda r, shape: r.uniform(0, 1, shape),
    "standard": lambda r, shape: r.normal(size=shape),
    "sensor": lambda r, shape: r.uniform(-1, 1, shape),
    "returns": lambda r, shape: r.normal(0.0005, 0.02, shape),
    "log-normal": lambda r, shape: r.lognormal(3, 1, shape),
}
#: Sources of the ranges of the inputs: the process that encrypted them, a bound stated in a file, or none.
KNOWN = ("process", "said", "nothing")
#: Rotation steps that the computations use in addition to the steps of sums over slots.
STEPS = (1, 2, 4, -1)
#: Columns of dense matrices on slots.
COLUMNS = 16


def some(random: Random, shape: Any, *names: str) -> Any:
    """Draws values of one kind, chosen at random among the named kinds or all kinds."""
    return DATA[str(random.choice(names or tuple(DATA)))](random, shape)


# Sources of values


class Clear:
    """Source of clear arrays. `inputs` is the largest magnitude of the inputs, `between` the largest magnitude of
    intermediate values.
    """

    def __init__(self, width: int) -> None:
        self.width, self.inputs, self.between = width, 0.0, 0.0

    def __call__(self, values: Any) -> Any:
        """Returns an input array and records its magnitude."""
        self.inputs = max(self.inputs, float(np.abs(values).max(initial=0)))
        return values

    def passed(self, values: Any) -> None:
        """Records the magnitude of intermediate values."""
        self.between = max(self.between, float(np.abs(values).max(initial=0)))


class Encrypted:
    """A source of encrypted arrays. `known`, one of KNOWN, is the source of the inputs' ranges."""

    def __init__(self, party: Party, known: str, width: int) -> None:
        self.party, self.known, self.width = party, known, width

    def __call__(self, values: Any) -> hg.ckks.Tensor:
        """Returns an input, which passes through a file unless it stays in the process. Raises PlaintextRangeError."""
        largest = float(np.abs(values).max(initial=0))
        power = float(2.0 ** np.ceil(np.log2(largest))) if largest > 0 else 1.0
        beyond = self.known == "process" and largest > self.party.parameters.bound
        x = self.party.secret.encrypt(values, pad=True, bound=power if self.known == "said" or beyond else None)
        server = self.party.server
        return server.bind(x) if self.known == "process" else server.from_bytes(x.to_bytes())

    def passed(self, values: Any) -> None:
        """Does nothing, because the magnitude of an encrypted value cannot be measured."""


class Party:
    """A key, its server, and the rotations for sums, matrices and complex values."""

    def __init__(self, parameters: hg.ckks.Parameters, bootstrap: bool = False) -> None:
        self.parameters = parameters
        self.secret = hg.SecretKey.generate(parameters)
        if bootstrap:
            self.server = hg.Server(self.secret.evaluation_keys(bootstrap=True))
            return
        columns = min(COLUMNS, parameters.slots)
        steps = {*hg.ckks.sum_rotations(parameters.period), *STEPS}
        if columns & (columns - 1) == 0:
            steps |= set(hg.ckks.LinearTransform(parameters, np.ones((columns, columns))).rotations)
        self.server = hg.Server(self.secret.evaluation_keys(rotations=sorted(steps), conjugate=True))


# Functions that accept arrays and tensors


def is_clear(x: Any) -> bool:
    """Returns whether the operand is an array and not a tensor."""
    return isinstance(x, np.ndarray)


def _everywhere(sums: Any, like: Any) -> Any:
    """Returns an operand with one number per ciphertext, repeated in every slot."""
    return np.broadcast_to(sums, (*sums.shape[:-1], like.shape[-1])).copy()


def total(x: Any) -> Any:
    """Returns the sum over the slots, in every slot."""
    return _everywhere(x.sum(-1, keepdims=True), x) if is_clear(x) else hg.sum(x, axis="slots")


def mean(x: Any, axis: int | None = None) -> Any:
    """Returns the mean over the slots and, if `axis` is given, over that axis of the tensor too."""
    if not is_clear(x):
        return hg.ckks.mean(x, "slots" if axis is None else axis)
    means = x.mean(-1, keepdims=True)
    return _everywhere(means if axis is None else means.mean(axis), x)


def variance(x: Any, axis: int | None = None, ddof: int = 0) -> Any:
    """Returns the variance over the same axes as `mean`."""
    if not is_clear(x):
        return hg.ckks.var(x, "slots" if axis is None else axis, ddof=ddof)
    axes = (-1,) if axis is None else (axis, -1)
    found = x.var(axes, ddof=ddof, keepdims=True)
    return _everywhere(found if axis is None else found.squeeze(axis), x)


def covariances(x: Any) -> Any:
    """Returns the covariances of ciphertexts."""
    if not is_clear(x):
        return hg.ckks.cov(x)
    return _everywhere(np.cov(x)[..., None], x)


def matrix(w: Any, x: Any) -> Any:
    """Multiplies by a matrix on slots, with as many rows as columns."""
    return x @ w.T if is_clear(x) else hg.matmul(w, x, axis="slots")


def rows(w: Any, x: Any, bias: Any = None) -> Any:
    """Multiplies by a matrix along the ciphertexts."""
    if not is_clear(x):
        return hg.matmul(w, x, bias, axis=0)
    return np.tensordot(w, x, 1) + (0 if bias is None else np.asarray(bias)[:, None])


def polynomial(x: Any, coefficients: Any) -> Any:
    """Evaluates a polynomial in the monomial basis."""
    return np_polynomial.polyval(x, coefficients) if is_clear(x) else hg.ckks.polynomial(x, coefficients)


def chebyshev(x: Any, coefficients: Any) -> Any:
    """Evaluates a Chebyshev series of values that are in [-1, 1], which `within` truthfully asserts."""
    if not is_clear(x):
        return hg.ckks.polynomial(within(x, 1), coefficients, basis="chebyshev")
    assert np.abs(x).max(initial=0) <= 1
    return np_chebyshev.chebval(x, coefficients)


def within(x: Any, bound: float) -> Any:
    """Declares a bound on the values (`within`). With arrays, checks that the bound is true."""
    if not is_clear(x):
        return hg.ckks.within(x, bound)
    assert np.abs(x).max(initial=0) <= bound
    return x


def turned(x: Any, steps: int) -> Any:
    """Rotates slots left: cyclically among the values, whose number is the period."""
    return np.roll(x, -steps, -1) if is_clear(x) else hg.ckks.rotate(x, steps)


def window(x: Any, count: int) -> Any:
    """Returns the sum of each slot and the `count` - 1 after it, cyclically: the number of values is the period."""
    if not is_clear(x):
        return hg.ckks.sum_slots(x, count)
    return sum(np.roll(x, -i, -1) for i in range(count))


def conjugate(x: Any) -> Any:
    """Conjugates complex values."""
    return x.conj() if is_clear(x) else hg.ckks.conjugate(x)


def joined(parts: Any) -> Any:
    """Concatenates along the first axis of ciphertexts."""
    return np.concatenate(parts) if is_clear(parts[0]) else hg.concatenate(parts)


# Computations


@dataclasses.dataclass(frozen=True)
class Case:
    """A computation: the function `compute(source, random)`, its sequential multiplications, and whether it needs slots
    whose values repeat.
    """

    compute: Callable[[Any, Random], Any]
    depth: int
    cyclic: bool = False
    dense: bool = False

    def fits(self, parameters: hg.ckks.Parameters, width: int) -> bool:
        """Returns whether the parameter set can run the computation."""
        if self.dense and (width > COLUMNS or width & (width - 1)):
            return False
        return parameters.depth >= self.depth and (not self.cyclic or width == parameters.period)


CASES: dict[str, Case] = {}


def case(depth: int, **how: bool) -> Callable[[Callable[[Any, Random], Any]], Callable[[Any, Random], Any]]:
    """Declares a function as a case."""

    def put(function: Callable[[Any, Random], Any]) -> Callable[[Any, Random], Any]:
        CASES[function.__name__] = Case(function, depth, **how)
        return function

    return put


@case(1)
def mean_of_values(e: Any, r: Random) -> Any:
    return mean(e(some(r, e.width)))


@case(1)
def mean_of_tables(e: Any, r: Random) -> Any:
    return mean(e(some(r, (3, e.width))), 0)


@case(0)
def sum_of_values(e: Any, r: Random) -> Any:
    return total(e(some(r, e.width)))


@case(1)
def sum_of_squares(e: Any, r: Random) -> Any:
    x = e(some(r, e.width))
    return total(x * x)


@case(2)
def mean_square(e: Any, r: Random) -> Any:
    x = e(some(r, e.width))
    return mean(x * x)


@case(3)
def variance_of_values(e: Any, r: Random) -> Any:
    return variance(e(some(r, e.width)))


@case(3)
def variance_of_tables(e: Any, r: Random) -> Any:
    return variance(e(some(r, (2, e.width))), 0, 1)


@case(3)
def covariance_matrix(e: Any, r: Random) -> Any:
    x = some(r, e.width)
    return covariances(e(np.stack([x, 0.5 * x + some(r, e.width)])))


@case(1)
def dot_product(e: Any, r: Random) -> Any:
    return total(e(some(r, e.width)) * e(some(r, e.width)))


@case(1)
def product(e: Any, r: Random) -> Any:
    return e(some(r, e.width)) * e(some(r, e.width))


@case(1)
def product_with_clear_values(e: Any, r: Random) -> Any:
    return e(some(r, e.width)) * some(r, e.width)


@case(1)
def revenue(e: Any, r: Random) -> Any:
    prices, counts = e(DATA["prices"](r, e.width)), e(DATA["counts"](r, e.width))
    return total(prices * counts)


@case(1)
def z_scores(e: Any, r: Random) -> Any:
    values = some(r, e.width)
    x = e(values)
    return (x - float(values.mean())) * float(1 / max(values.std(), 1e-3))


@case(1)
def fahrenheit(e: Any, r: Random) -> Any:
    return e(DATA["celsius"](r, e.width)) * 1.8 + 32


@case(1)
def regression_on_standard_columns(e: Any, r: Random) -> Any:
    return rows(r.normal(size=(1, 10)), e(r.normal(size=(10, e.width))), r.normal(size=1))


@case(1)
def regression_on_raw_columns(e: Any, r: Random) -> Any:
    columns = np.stack([some(r, e.width) for _ in range(6)])
    return rows(r.normal(size=(1, 6)) * 10 / columns.std(1).clip(1e-3), e(columns), [20.0])


@case(3)
def squared_error(e: Any, r: Random) -> Any:
    x, w = r.normal(size=(4, e.width)), r.normal(size=(1, 4))
    y = w @ x + 0.1 * r.normal(size=(1, e.width))
    d = rows(w, e(x)) - e(y)
    return mean(d * d)


@case(5)
def logistic_regression(e: Any, r: Random) -> Any:
    x, w = r.uniform(-2, 2, (10, e.width)), r.uniform(-1, 1, (1, 10))
    series = np_chebyshev.chebinterpolate(lambda t: 1 / (1 + np.exp(-8 * t)), 15)
    return chebyshev(rows(w / 20, e(x)), series)


@case(3)
def network_of_squares(e: Any, r: Random) -> Any:
    h = rows(r.normal(size=(16, 16)) / 4, e(r.normal(size=(16, e.width))), r.normal(size=16) / 4)
    return rows(r.normal(size=(3, 16)) / 4, h * h, r.normal(size=3))


@case(5)
def network_of_tanh(e: Any, r: Random) -> Any:
    w = r.uniform(-1, 1, (8, 8)) / 16
    h = rows(w, e(r.uniform(-2, 2, (8, e.width))))
    series = np_chebyshev.chebinterpolate(lambda u: np.tanh(6 * u), 7)
    return rows(r.normal(size=(3, 8)) / 2, chebyshev(h, series), r.normal(size=3))


@case(2)
def cubic(e: Any, r: Random) -> Any:
    return polynomial(e(r.uniform(-1, 1, e.width) * r.choice([1, 2, 5, 20])), r.normal(size=4))


@case(4)
def series_of_degree_15(e: Any, r: Random) -> Any:
    series = np_chebyshev.chebinterpolate(lambda t: np.exp(t) * np.cos(5 * t), 15)
    return chebyshev(e(r.uniform(-1, 1, e.width)), series)


@case(3)
def exponential(e: Any, r: Random) -> Any:
    return polynomial(e(r.uniform(-2, 2, e.width)), 1 / np.cumprod([1, 1, 2, 3, 4, 5, 6, 7.0]))


@case(3)
def kurtosis(e: Any, r: Random) -> Any:
    x = e(r.normal(size=e.width))
    q = x * x
    return mean(q * q)


@case(3)
def skewness(e: Any, r: Random) -> Any:
    x = e(some(r, e.width))
    return mean(x * x * x)


@case(1, dense=True)
def orthogonal_matrix(e: Any, r: Random) -> Any:
    return matrix(np.linalg.qr(r.normal(size=(e.width, e.width)))[0], e(some(r, e.width)))


@case(1, dense=True)
def random_matrix(e: Any, r: Random) -> Any:
    return matrix(r.normal(size=(e.width, e.width)), e(some(r, e.width)))


@case(1, cyclic=True)
def moving_average(e: Any, r: Random) -> Any:
    return window(e(some(r, e.width)), 4) * 0.25


@case(1, cyclic=True)
def squared_differences(e: Any, r: Random) -> Any:
    x = e(some(r, e.width))
    d = x - turned(x, 1)
    return total(d * d)


@case(1)
def squared_distance(e: Any, r: Random) -> Any:
    values = some(r, e.width, "standard", "sensor", "prices", "ages", "heights")
    d = e(values) - e(values + r.normal(size=e.width))
    return total(d * d)


@case(2)
def quadratic_regression(e: Any, r: Random) -> Any:
    values = some(r, e.width, "ages", "celsius", "sensor", "prices")
    size = np.abs(values).max()
    x = e(values)
    return x * x * (r.normal() * 10 / size**2) + x * (r.normal() * 10 / size) + 5.0


@case(4)
def gradient(e: Any, r: Random) -> Any:
    x, y = e(r.normal(size=(8, e.width))), e(r.normal(size=(1, e.width)))
    d = rows(r.normal(size=(1, 8)), x) - y
    return mean(x * d)


@case(5)
def newton_inverse(e: Any, r: Random) -> Any:
    x = e(r.uniform(0.5, 1.5, e.width))
    y = 2 - x
    for _ in range(2):
        y = y * (2 - x * y)
    return y


@case(4)
def newton_inverse_root(e: Any, r: Random) -> Any:
    x = e(r.uniform(0.5, 2, e.width))
    y = x * -0.35 + 1.35
    return y * 0.5 * (3 - x * (y * y))


@case(1)
def portfolio(e: Any, r: Random) -> Any:
    return rows(np.abs(r.normal(size=(1, 20))) * 1000, e(DATA["returns"](r, (20, e.width))))


@case(2)
def weighted_mean(e: Any, r: Random) -> Any:
    w = DATA["probabilities"](r, e.width)
    return total(e(some(r, e.width)) * e(w)) * float(1 / w.sum())


@case(2)
def difference_of_large_products(e: Any, r: Random) -> Any:
    """Computes x^2 - x (x - 1) = x: intermediate values may leave the room."""
    x = e(some(r, e.width, "salaries", "prices", "heights"))
    return x * x - x * (x - 1.0)


@case(1)
def pieces(e: Any, r: Random) -> Any:
    """Computes slices, a permutation, a sum along an axis, and an addition in place."""
    x = e(np.stack([some(r, e.width) for _ in range(4)]))
    y = joined([x[2:], x[:1]]) * 2.0
    y += x[1:4]
    if not is_clear(y):
        return hg.sum(y)
    return y.sum(0)


@case(1)
def scores_of_clear_weights(e: Any, r: Random) -> Any:
    return total(e(some(r, (2, e.width))) * r.normal(size=e.width))


@case(1)
def complex_product(e: Any, r: Random) -> Any:
    a, b = (some(r, e.width) + 1j * some(r, e.width) for _ in range(2))
    return e(a) * e(b)


@case(1)
def spectral_power(e: Any, r: Random) -> Any:
    a = e(some(r, e.width) + 1j * some(r, e.width))
    return total(a * conjugate(a))


@case(3)
def complex_variance(e: Any, r: Random) -> Any:
    return variance(e(some(r, e.width) + 1j * some(r, e.width)))


Moves = dict[str, tuple[int, Callable[[], Any]]]


def moves_of(x: Any, y: Any, z: Any, width: int, numbers: Any) -> Moves:
    """Returns the possible next operations, each with the number of levels that it takes."""
    a, b, c = (float(v) for v in numbers)
    return {
        "add": (0, lambda: z + y),
        "less": (0, lambda: x - z),
        "plus": (0, lambda: z + 10 * a),
        "negated": (0, lambda: -z),
        "twice": (0, lambda: z * 2),
        "total": (1, lambda: total(z)),
        "times": (1, lambda: z * a),
        "small": (1, lambda: z * (1 / 64)),
        "vector": (1, lambda: z * np.linspace(-1, 1, width)),
        "product": (1, lambda: z * y),
        "square": (1, lambda: z * z),
        "quadratic": (2, lambda: polynomial(z, [a, b, c])),
        "mean": (2, lambda: mean(z)),
        "centred": (2, lambda: z - mean(z)),
        "variance": (4, lambda: variance(z)),
    }


def chain(e: Any, r: Random, steps: int, depth: int) -> Any:
    """Applies random operations until no levels are left."""
    x, y = e(some(r, e.width)), e(some(r, e.width))
    z, left = x, depth
    for _ in range(steps):
        moves = moves_of(x, y, z, e.width, r.normal(size=3))
        name = str(r.choice([name for name, (cost, _) in moves.items() if cost <= left]))
        cost, move = moves[name]
        z, left = move(), left - cost
        e.passed(z)
    return z


def _chain(steps: int) -> Case:
    return Case(lambda e, r: chain(e, r, steps, 6), 6)


CASES |= {f"chain_of_{steps}": _chain(steps) for steps in (1, 2, 3, 4, 5, 6, 8, 10, 12)}


# Outcomes


@dataclasses.dataclass
class Outcome:
    """Outcome of a computation. `kind`: right, refused, wrong (without an error), or unencrypted (refused at encryption)."""

    kind: str
    right: bool  # whether the decrypted values are right, even if they were refused
    clear: Any = None
    tensor: Any = None
    error: str = ""
    off: float = 0.0


def tolerance(clear: Any, source: Clear) -> float:
    """Returns a tolerance that is far above the noise, which is relative to intermediate values, and below the error of a
    wrap.
    """
    return max(2.0**-8 * max(float(np.abs(clear).max(initial=0)), source.inputs, 1.0), 2.0**-26 * source.between)


def run(name: str, party: Party, known: str, seed: Any, width: int) -> Outcome:
    """Runs one computation, at the lowest level; tensors pass through a file unless they stay in the process."""
    one = CASES[name]
    source = Clear(width)
    clear = np.asarray(one.compute(source, np.random.default_rng(seed)))
    try:
        made = one.compute(Encrypted(party, known, width), np.random.default_rng(seed))
    except hg.PlaintextRangeError as refused:
        return Outcome("unencrypted", False, clear, error=str(refused))
    made = hg.ckks.lower(made, 1)
    if known != "process":
        made = party.server.from_bytes(made.to_bytes())
    found = party.secret.decrypt(made, unchecked=True)
    off = float(np.abs(found - clear).max(initial=0))
    right = off <= tolerance(clear, source)
    try:
        values = party.secret.decrypt(made)
    except hg.RoomError as refused:
        return Outcome("refused", right, clear, made, str(refused), off)
    same = np.array_equal(values, found)
    return Outcome("right" if right and same else "wrong", right, clear, made, "", off)


# Chains of bootstraps under a declared range


@dataclasses.dataclass
class Chain:
    """Outcome of a chain of bootstraps: whether its last values are right to 1 %, and if not, which check refused them."""

    right: bool
    refused: bool  # decryption raised RoomError
    outside: bool  # values outside `Tensor.bounds` revealed a false declared bound


def bootstrapped_chain(party: Party, width: int, count: int, too_small: float, seed: Any) -> Chain:
    """Repeats `count` times: a few products whose tracked bound grows, a declared bound, a bootstrap. Values stay within
    1.1. The bound declared for one of the bootstraps is smaller by the factor `too_small`.
    """
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, width)
    clear, at = values.copy(), int(random.integers(count))
    x = party.secret.encrypt(values, pad=True, bound=1)
    x = party.server.from_bytes(x.to_bytes())
    for i in range(count):
        a = float(random.uniform(1.6, 2.0))
        x, clear = x * (a - x * x), clear * (a - clear * clear)  # values are at most 1.09; the tracked bound is 3 or more
        word = 1.1 / (too_small if i == at else 1)
        x = hg.ckks.bootstrap(hg.ckks.within(hg.ckks.lower(x, x.parameters.bootstrapping_level), word))
    x = party.server.from_bytes(hg.ckks.lower(x, 1).to_bytes())
    found = party.secret.decrypt(x, unchecked=True)
    low, high = x.bounds or (-np.inf, np.inf)
    off = 2.0**-10
    try:
        party.secret.decrypt(x)
        refused = False
    except hg.RoomError:
        refused = True
    right = bool(np.abs(found - clear).max() <= 0.01)
    return Chain(right, refused, bool(found.min() < low - off or found.max() > high + off))


@functools.cache
def bootstrapping(slots: int) -> Party:
    """Returns an insecure party with N = 2^11."""
    return Party(
        hg.ckks.parameters(n=2048, depth=3, log_scale=39, bootstrap=True, slots=slots, insecure=True), bootstrap=True
    )


@functools.cache
def small(width: int, base_bits: int, levels: int = 7, repeat: bool = True, word_size: int = 64) -> Party:
    """Returns an insecure party with N = 2^12 and a room of 2^(base_bits - 39)."""
    numbers: dict[str, Any] = {"levels": levels, "log_scale": 38, "base_bits": base_bits, "special": 2}
    if word_size == 32:
        numbers |= {"log_scale": 48, "base_bits": base_bits + 10, "special": 5}
    return Party(hg.ckks.parameters(n=4096, **numbers, slots=width, repeat=repeat, word_size=word_size, insecure=True))
