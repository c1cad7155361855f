"""Measures logistic regression with bootstrapping as published: MNIST's 3 against 8 (Han, Song, Cheon, Park, ePrint 2018/662).

    python -m benchmarks.runners.helr_bootstrap --mnist FOLDER --out benchmarks/results/mine-helr-bootstrap.jsonl

`--mnist` is a folder with the four IDX files, gzipped or not; without it rows are synthetic. Features are 14 x 14 pixels (means of four)
and a constant. Training uses 1,024 rows per minibatch, 32 iterations of Nesterov's method at rate 1, and the paper's cubic for the sigmoid
on [-16, 16]. Rows and weights are encrypted. The same steps are computed in the clear on the same minibatches.

Slot f * R + r of a ciphertext is feature f of row r, with R rows per ciphertext and a power of two of feature positions. Rows are stored
twice: as real ciphertexts, and in pairs as real and imaginary parts. An iteration takes four levels:

1. pairs times weights, summed over the positions and split into real and imaginary parts (t);
2. rows times t, and t^2 + b;
3. the product of both, which is the gradient by the cubic, summed over the rows;
4. a mask with the rate, after which rotations copy the sums to all rows.

Momentum is in masks and in products with weights of a higher level. The weights and the point of the gradient are
bootstrapped as one complex ciphertext; splitting this ciphertext takes one level.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import bootstrap as bootstrap_cases
from benchmarks.cases import ckks as ckks_cases
from benchmarks.cases.examples import example
from benchmarks.report import results
from benchmarks.runners import common, programs
from heliograph import ckks
from heliograph.cli import idx

Array = np.ndarray[Any, Any]

SIGMOID = (0.5, -0.0843, 0.0002)  #: coefficients of the sigmoid's polynomial in -t: of 1, t and t^3
ROOT = math.sqrt(SIGMOID[2])  #: factor of t with which the cubic begins with a square
LARGEST = 8.0  #: bound on all weights
SCALE = 1 / LARGEST  #: factor of the encrypted weights
PAIRS = ROOT / (2 * SCALE)  #: factor of the paired rows, because splitting a pair doubles them
LEVELS = 4  #: levels per iteration
RATE = 1.0
ASKED = 25e-3  #: target seconds per iteration on one H200
DIGITS = (3, 8)


@dataclass(frozen=True)
class Rows:
    """Training and test data: a constant and features between 0 and 1; labels 0 or 1."""

    x: Array
    y: Array

    @property
    def signed(self) -> Array:
        """Returns the training's input: rows multiplied by +1 or -1, according to their label."""
        return np.asarray(self.x * (2.0 * self.y - 1)[:, None])


def mnist(folder: Path, part: str) -> Rows:
    """Reads the images of two digits and averages blocks of 2 x 2 pixels. Raises SystemExit if the files do not exist."""

    def of(kind: str) -> Path:
        found = sorted(folder.glob(f"{part}-{kind}*"))
        if not found:
            raise SystemExit(f"cannot read {part}-{kind}: no such file in {folder}")
        return found[0]

    images, labels = idx.images(of("images")), idx.labels(of("labels"))
    chosen = np.isin(labels, DIGITS)
    images, labels = images[chosen] / 255, labels[chosen]
    rows, height, width = images.shape
    small = images.reshape(rows, height // 2, 2, width // 2, 2).mean((2, 4)).reshape(rows, -1)
    return Rows(np.column_stack([np.ones(rows), small]), (labels == DIGITS[1]).astype(int))


def synthetic(rows: int, features: int, seed: int) -> Rows:
    """Draws rows with three of four features 0, as pixels are, and labels from one logistic model for all seeds."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (rows, features)) * (rng.random((rows, features)) < 0.25)
    law = np.random.default_rng(0).normal(0, 6, features)
    return Rows(np.column_stack([np.ones(rows), x]), (rng.random(rows) < 1 / (1 + np.exp(-(x - 0.125) @ law))).astype(int))


def minibatches(rows: Rows, size: int, seed: int = 1) -> list[Array]:
    """Returns signed rows in a random order, `size` at a time; the last minibatch may have fewer."""
    z = rows.signed[np.random.default_rng(seed).permutation(len(rows.y))]
    return [z[k : k + size] for k in range(0, len(z), size)]


def momentum(iterations: int) -> list[float]:
    """Returns Nesterov's factors eta <= 0: the next point is (1 - eta) w + eta w_before."""
    found, last = [], 1.0
    for _ in range(iterations):
        following = (1 + math.sqrt(1 + 4 * last**2)) / 2
        found.append((1 - last) / following)
        last = following
    return found


def train_clear(batches: list[Array], iterations: int) -> tuple[Array, float]:
    """Computes the server's steps in float64; returns the weights, and the largest magnitude of an intermediate value."""
    v = w = np.zeros(batches[0].shape[1])
    largest = 0.0
    for k, eta in enumerate(momentum(iterations)):
        z = batches[k % len(batches)]
        t = z @ v
        following = v + RATE / len(z) * (SIGMOID[0] + SIGMOID[1] * t + SIGMOID[2] * t**3) @ z
        v, w = (1 - eta) * following + eta * w, following
        largest = max(largest, float(np.abs([v, w]).max()))
    return w, largest


@dataclass(frozen=True)
class Layout:
    """The layout of rows in slots."""

    slots: int
    places: int  #: number of positions for features in a row

    @classmethod
    def of(cls, slots: int, features: int) -> Layout:
        """Returns the layout with as many rows per ciphertext as fit."""
        return cls(slots, 1 << (features - 1).bit_length())

    @property
    def rows(self) -> int:
        """Returns the rows per ciphertext."""
        return self.slots // self.places

    @property
    def over_places(self) -> list[int]:
        """Returns the rotations by which every slot gets the sum over its row's positions."""
        return [self.rows << k for k in range(self.places.bit_length() - 1)]

    @property
    def back(self) -> list[int]:
        """Returns the rotations that copy each position's first row to all its rows."""
        return [-(1 << k) for k in range(self.rows.bit_length() - 1)]

    @property
    def rotations(self) -> list[int]:
        """Returns all rotations for which keys are needed."""
        return [*self.over_places, *ckks.sum_rotations(self.rows), *self.back]

    def pack(self, z: Array, count: int) -> Array:
        """Returns rows [rows, features] as slots of `count` ciphertexts, with zeros after the rows and after the features."""
        whole = np.zeros((count * self.rows, self.places))
        whole[: len(z), : z.shape[1]] = z
        return np.ascontiguousarray(whole.reshape(count, self.rows, self.places).swapaxes(1, 2).reshape(count, self.slots))

    def firsts(self, factors: list[float]) -> Array:
        """Returns masks that select the first row of each position, multiplied by each of the factors."""
        mask = np.zeros(self.slots)
        mask[:: self.rows] = 1
        return np.outer(factors, mask)


def begins(levels: int, least: int, iterations: int) -> list[tuple[int, bool]]:
    """Returns the first level of each iteration, and whether it follows a bootstrap. Raises SystemExit if no schedule of
    levels fits.
    """
    if levels - LEVELS < least:
        raise SystemExit(f"an iteration needs {LEVELS} levels above the {least} of a bootstrap: the set has {levels}")
    found: list[tuple[int, bool]] = []
    level = levels
    for _ in range(iterations):
        refreshed = level - LEVELS < least
        level = levels if refreshed else level
        found.append((level, refreshed))
        level -= LEVELS
    return found


@dataclass(frozen=True)
class Minibatch:
    """An encrypted minibatch, with each tensor at the level of its use."""

    rows: int
    real: ckks.Tensor  #: rows for the inner products: [ciphertexts]
    pairs: ckks.Tensor  #: rows for the gradient, two ciphertexts packed as one: [ciphertexts / 2], times PAIRS


class Training:
    """The server's part: encrypted minibatches, and encoded masks."""

    def __init__(self, layout: Layout, batches: list[Minibatch], iterations: int) -> None:
        self.layout, self.batches = layout, batches
        p = batches[0].real.parameters
        self.etas = momentum(iterations)
        self.begins = begins(p.levels - 1, p.bootstrapping_level, iterations)
        self.masks = []
        for k, (eta, (level, _)) in enumerate(zip(self.etas, self.begins, strict=True)):
            rate = RATE / self.batch(k).rows * SCALE / ROOT
            mask = layout.firsts([(1 - eta) * rate, rate])
            self.masks.append(ckks.encode(p, mask, level=level - LEVELS + 1))

    def batch(self, k: int) -> Minibatch:
        """Returns the minibatch of an iteration."""
        return self.batches[k % len(self.batches)]

    @property
    def bootstraps(self) -> int:
        """Returns the number of bootstraps in all iterations."""
        return sum(refreshed for _, refreshed in self.begins)

    def gradient(self, batch: Minibatch, v: ckks.Tensor) -> ckks.Tensor:
        """Returns the gradient times ROOT, summed over rows into the first slot of each position; takes three levels. The
        vector v, times SCALE, is in every row.

        """
        t = batch.pairs * v
        for step in self.layout.over_places:
            t = t + ckks.rotate(t, step)
        turned = ckks.conjugate(t)
        t = hg.concatenate([t + turned, (turned - t) * 1j])
        total = ckks.inner_product(batch.real * t, t * t + SIGMOID[1], axis=0)
        at_zero = hg.sum(ckks.lower(batch.real, total.level + 1), 0) * (ROOT * SIGMOID[0])
        return ckks.sum_slots(total + at_zero, self.layout.rows)

    def refreshed(self, state: ckks.Tensor) -> ckks.Tensor:
        """Returns the weights and the point of the gradient at the level below the highest."""
        both = ckks.bootstrap(ckks.within(state[0] + state[1] * 1j, LARGEST * SCALE), LARGEST * SCALE)
        turned = ckks.conjugate(both)
        return hg.stack([both + turned, (turned - both) * 1j]) * 0.5

    def step(self, k: int, state: ckks.Tensor) -> ckks.Tensor:
        """Computes an iteration. `state`: the point of the gradient and the weights, times SCALE, in every row."""
        if self.begins[k][1]:
            state = self.refreshed(state)
        v, w = state[0], state[1]
        change = self.gradient(self.batch(k), v).reshape(1) * self.masks[k]
        for step in self.layout.back:
            change = change + ckks.rotate(change, step)
        eta = self.etas[k]
        return hg.stack([v * (1 - eta) + w * eta + change[0], v + change[1]])

    def run(self, state: ckks.Tensor, done: Callable[[int], None] = lambda k: None) -> ckks.Tensor:
        """Computes all iterations; returns the weights, times SCALE."""
        for k in range(len(self.etas)):
            state = self.step(k, state)
            done(k)
        return state[1]


def measure(
    train: Rows, test: Rows, parameters: ckks.Parameters, size: int, iterations: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Runs both parties and returns times and results."""
    features = train.x.shape[1]
    layout = Layout.of(parameters.slots, features)
    clear = minibatches(train, size)
    count = 2 * -(-min(size, len(train.y)) // (2 * layout.rows))
    start = time.perf_counter()
    secret = ckks.SecretKey.generate(parameters)
    keys = secret.evaluation_keys(rotations=layout.rotations, conjugate=True, bootstrap=True)
    server = hg.Server(keys)
    say(
        f"{len(train.y)} rows of {features - 1} features, {count} ciphertexts a minibatch; keys {time.perf_counter() - start:.1f} s"
    )
    start = time.perf_counter()
    top = parameters.levels - 1  # first level of an iteration

    def encrypted(values: Array, level: int) -> ckks.Tensor:
        x: ckks.Tensor = server.bind(secret.encrypt(values, level=level, bound=1))
        return x + 0  # the first use transforms the ciphertexts to the NTT domain

    batches = []
    for z in clear:
        packed = layout.pack(z, count)
        pairs = PAIRS * (packed[: count // 2] + 1j * packed[count // 2 :])
        batches.append(Minibatch(len(z), encrypted(packed, top - 1), encrypted(pairs, top)))
    zero = encrypted(np.zeros((2, parameters.slots)), top)
    training = Training(layout, batches, iterations)
    say(f"{len(batches)} minibatches and masks {time.perf_counter() - start:.1f} s")
    first = next((k for k, (_, refreshed) in enumerate(training.begins) if refreshed), iterations - 1)
    state = zero
    for k in range(first + 1):  # a warm-up run of the iterations up to the first bootstrap
        state = training.step(k, state)
    state.wait()
    say("ready")
    start = time.perf_counter()
    result = training.run(zero, lambda k: say(f"iteration {k + 1} of {iterations}"))
    result.wait()
    took = time.perf_counter() - start
    weights = secret.decrypt(result)[:: layout.rows][:features].real / SCALE
    expected, largest = train_clear(clear, iterations)
    quality = example("helr", "helr").quality
    return {
        "parameters": ckks_cases.describe(parameters),
        "rows": len(train.y),
        "test_rows": len(test.y),
        "features": features - 1,
        "minibatch": size,
        "ciphertexts": count,
        "iterations": iterations,
        "bootstraps": training.bootstraps,
        "rate": RATE,
        "keys_bytes": keys.nbytes,
        "training_s": took,
        "iteration_s": took / iterations,
        "asked_s": ASKED,
        "encrypted": quality(test.x @ weights, test.y),
        "same_steps_in_the_clear": quality(test.x @ expected, test.y),
        "largest_weight": largest,
        "largest_weight_error": float(np.abs(weights - expected).max()),
    }


def main() -> None:
    """Parses the command line and writes the results."""
    options = common.parser(
        __doc__,
        mnist=(Path, "folder with MNIST's four files; default: synthetic rows"),
        rows=(4096, "number of synthetic training rows; the test has half as many"),
        features=(196, "number of features of synthetic rows"),
        set=("n16-b13", "parameter set; small: a set without security, for tests"),
        minibatch=1024,
        iterations=32,
    ).parse_args()
    if options.mnist:
        train, test = mnist(options.mnist, "train"), mnist(options.mnist, "t10k")
    else:
        train, test = (synthetic(n, options.features, seed) for seed, n in enumerate((options.rows, options.rows // 2), 1))
    parameters = bootstrap_cases.parameters_of(options.set)
    row = {"table": "MNIST, 3 and 8" if options.mnist else "synthetic"}
    row |= measure(
        train, test, parameters, options.minibatch, options.iterations, lambda text: print(f"# {text}", flush=True)
    )
    print(
        f"{row['table']}: {row['iterations']} iterations, {row['bootstraps']} bootstraps, {1e3 * row['iteration_s']:.1f} ms an iteration; "
        f"accuracy {row['encrypted']['accuracy']:.4f} (clear {row['same_steps_in_the_clear']['accuracy']:.4f}), "
        f"weights off by {row['largest_weight_error']:.1g}"
    )
    found = common.machine() | common.engine() | programs.boards()
    results.save(options.out, common.report([row], found, kind="helr-bootstrap", load=common.load()))
    if row["largest_weight_error"] > 1e-2 or row["largest_weight"] > LARGEST:
        raise SystemExit("the encrypted model differs from the clear one")


if __name__ == "__main__":
    main()
