"""Train and apply a logistic regression on encrypted rows with CKKS; see README.md.

Use
    python helr.py                                      synthetic rows
    python helr.py --csv lbw.txt --iterations 4
    python helr.py --csv nhanes3.txt --iterations 8     a ring of 2^16
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg

Array = np.ndarray[Any, Any]

#: Least-squares fit of a cubic to 1 / (1 + e^-x) on [-8, 8] (Kim, Song, Kim, Lee, Cheon 2018, BMC Medical Genomics 11:83,
#: section 2.2).
SIGMOID = (0.5, 1.20096 / 8, 0.0, -0.81562 / 8**3)
LEVELS = 4  #: levels of one iteration: an inner product, a cubic, a product
LARGEST = 8  #: log2 of a bound on all intermediate values


@dataclass(frozen=True)
class Table:
    """Rows of standardised attributes, clipped to three deviations; the first attribute is 1. Labels are 0 or 1."""

    x: Array
    y: Array

    @property
    def signed(self) -> Array:
        """Return the rows times +1 or -1, the input of training, [attributes, rows]."""
        return np.ascontiguousarray((self.x * (2.0 * self.y - 1)[:, None]).T)


def standardised(x: Array, y: Array) -> Table:
    """Subtract the mean of each attribute and divide by its deviation."""
    deviation = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return Table(np.column_stack([np.ones(len(x)), np.clip(x, -3, 3)]), y)


def synthetic(rows: int, attributes: int, seed: int = 1) -> Table:
    """Draw labels from a logistic model."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (rows, attributes))
    chance = 1 / (1 + np.exp(-(x @ rng.normal(0, 1, attributes) + 0.5)))
    return standardised(x, (rng.random(rows) < chance).astype(int))


def read(path: Path) -> Table:
    """Read numbers between commas, semicolons or blanks, one row per line, the label last; with or without a header."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"cannot read {path}: {error.strerror if isinstance(error, OSError) else error}") from None
    rows = rows_of([re.split(r"[,;\s]+", line.strip()) for line in text.splitlines() if line.strip()], path)
    labels = np.unique(rows[:, -1])
    if len(labels) != 2:
        raise SystemExit(f"{path}: the last column has {len(labels)} different values; a label has two")
    return standardised(rows[:, :-1], (rows[:, -1] == labels[1]).astype(int))


def rows_of(lines: list[list[str]], path: Path) -> Array:
    """Return numbers [rows, columns]; a first line of words is a header."""
    rows = []
    for number, words in enumerate(lines, start=1):
        try:
            rows.append([float(word) for word in words])
        except ValueError as error:
            if number > 1:
                raise SystemExit(f"{path}, row {number}: {error}") from None
    lengths = {len(row) for row in rows}
    if len(rows) < 5 or lengths <= {1}:
        raise SystemExit(f"{path} holds {len(rows)} rows of numbers; it must hold five or more of an attribute and a label")
    if len(lengths) > 1:
        raise SystemExit(f"{path}: rows have {min(lengths)} to {max(lengths)} columns")
    found = np.array(rows)
    if not np.isfinite(found).all():
        raise SystemExit(f"{path}: not every number is finite")
    return found


def split(table: Table, share: float, seed: int) -> tuple[Table, Table]:
    """Split the rows into training and test rows."""
    order = np.random.default_rng(seed).permutation(len(table.y))
    cut = max(1, round(len(order) * share))
    return Table(table.x[order[cut:]], table.y[order[cut:]]), Table(table.x[order[:cut]], table.y[order[:cut]])


@dataclass(frozen=True)
class Step:
    """Coefficients of one iteration of Nesterov's method. The momentum is a factor in the cubic's coefficients, which saves
    a level.

    The gradient is taken at the point v, which is `factor` times the stored point. `ratio` combines the last two weights into
    the next stored point.
    """

    factor: float
    rate: float  # learning rate divided by the number of rows
    ratio: float

    @property
    def cubic(self) -> list[float]:
        """Return the coefficients of rate * sigmoid(-factor * t) in the stored inner product t."""
        return [self.rate * c * (-self.factor) ** k for k, c in enumerate(SIGMOID)]


def schedule(iterations: int, attributes: int, rows: int) -> list[Step]:
    """Return the steps of Nesterov's method at a constant rate, which is independent of the rows.

    The method converges unless the largest eigenvalue of the attributes' correlations is near half their number.
    """
    rate = 3 / (SIGMOID[1] * attributes)  # the curvature is at most the cubic's slope times that eigenvalue
    steps, momentum, factor = [], 1.0, 1.0
    for _ in range(iterations):
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        eta = (1 - momentum) / following  # v = (1 - eta) w + eta w_before
        steps.append(Step(factor, rate / rows, eta / (1 - eta)))
        factor, momentum = 1 - eta, following
    return steps


def train_clear(z: Array, iterations: int) -> Array:
    """Return the weights after these iterations, computed like the server's, in float64. z is Table.signed."""
    stored = before = np.zeros(len(z))
    for step in schedule(iterations, *z.shape):
        slope = np.polynomial.polynomial.polyval(stored @ z, step.cubic)
        weights = step.factor * stored + z @ slope
        stored, before = weights + step.ratio * before, weights
    return before


def train(z: hg.ckks.Tensor, rows: int, iterations: int, progress: Any = None) -> hg.ckks.Tensor:
    """Return the weights, one ciphertext per attribute, each with its weight in every slot.

    `z` is Table.signed, one ciphertext for each attribute, rows in the slots and zeros behind them.
    """
    steps = schedule(iterations, z.shape[0], rows)
    # At weights 0 the sigmoid is 1/2 for every row: the first gradient is a sum.
    before = hg.ckks.sum_slots(z) * steps[0].cubic[0]
    stored = before
    for k, step in enumerate(steps[1:], start=1):
        slope = hg.ckks.polynomial(hg.ckks.inner_product(z, stored, axis=0), step.cubic)
        weights = hg.ckks.sum_slots(z * slope) + stored * step.factor
        stored, before = weights + before * step.ratio, weights
        if progress:
            progress(k + 1, iterations)
    return before


def scores(x: hg.ckks.Tensor, weights: hg.ckks.Tensor) -> hg.ckks.Tensor:
    """Return the cubic's probability of label 1, for rows in slots, [attributes]."""
    return hg.ckks.polynomial(hg.ckks.inner_product(x, weights, axis=0), list(SIGMOID))


def auc(values: Array, y: Array) -> float:
    """Return the probability that a row of label 1 scores above a row of label 0; ties count half."""
    ranks = np.empty(len(values))
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    first = np.searchsorted(sorted_values, sorted_values, "left")
    last = np.searchsorted(sorted_values, sorted_values, "right")
    ranks[order] = (first + last + 1) / 2
    ones = int(y.sum())
    return float((ranks[y == 1].sum() - ones * (ones + 1) / 2) / max(1, ones * (len(y) - ones)))


def quality(values: Array, y: Array) -> dict[str, float]:
    """Return the accuracy at threshold 0, and the AUC."""
    return {"accuracy": float(np.mean((values > 0) == (y == 1))), "auc": auc(values, y)}


def converged(z: Array) -> Array:
    """Return the weights of maximum likelihood, by Newton's method with a small ridge."""
    w = np.zeros(len(z))
    for _ in range(50):
        p = 1 / (1 + np.exp(np.clip(w @ z, -30, 30)))
        hessian = (z * (p * (1 - p))) @ z.T + 1e-6 * np.eye(len(z))
        move = np.linalg.solve(hessian, z @ p - 1e-6 * w)
        w = w + move
        if np.abs(move).max() < 1e-9:
            break
    return w


def owner(folder: Path, parameters: hg.ckks.Parameters, table: Table, test: Table) -> hg.ckks.SecretKey:
    """Make keys and encrypt both tables into `folder`."""
    secret = hg.SecretKey.generate(parameters)
    rotations = hg.ckks.sum_rotations(parameters.period)
    secret.evaluation_keys(relinearize=True, rotations=rotations).save(folder / "server.hg")
    for name, values in (("train", table.signed), ("test", test.x.T)):
        secret.encrypt(values, slots=1, pad=True).save(folder / f"{name}.hg")
    return secret


def server(folder: Path, rows: int, iterations: int, progress: Any = None) -> dict[str, float]:
    """Train on the encrypted table and score the encrypted test rows; both results stay encrypted. Return the seconds of each."""
    here = hg.Server(hg.load(folder / "server.hg"))
    z, x = here.load(folder / "train.hg"), here.load(folder / "test.hg")
    start = time.perf_counter()
    weights = train(z, rows, iterations, progress)
    weights.wait()
    trained = time.perf_counter()
    found = scores(x, weights)
    found.wait()
    done = time.perf_counter()
    weights.save(folder / "weights.hg")
    found.save(folder / "scores.hg")
    return {"training": trained - start, "inference": done - trained}


def run(
    table: Table,
    iterations: int,
    *,
    precision: int = 24,
    share: float = 0.2,
    seed: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run owner and server, and return the results for the report and benchmarks. `say` receives progress messages."""
    training, test = split(table, share, seed)
    depth = LEVELS * (iterations - 1) + 1 + 3  # the first iteration is a sum, without a level; the scores take 3 levels
    rows = max(len(training.y), len(test.y))
    slots = 1 << (rows - 1).bit_length()  # a power of two repeats through the ring, so sums need fewer rotations
    parameters = hg.ckks.parameters(depth=depth, precision=precision, slots=slots, integer_bits=LARGEST)
    say(
        f"{len(training.y)} rows of {training.x.shape[1] - 1} attributes, N = {parameters.n}, log QP {parameters.log_qp:.0f}, "
        f"{parameters.security}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        secret = owner(folder, parameters, training, test)
        prepared = time.perf_counter() - start
        say(f"keys and both tables {prepared:8.2f} s")
        seconds = server(folder, len(training.y), iterations, lambda k, of: say(f"iteration {k} of {of}"))
        sizes = {p.stem: p.stat().st_size for p in folder.iterdir()}
        weights = secret.decrypt(hg.load(folder / "weights.hg"))[:, 0]
        chances = secret.decrypt(hg.load(folder / "scores.hg"))[: len(test.y)]
    clear = train_clear(training.signed, iterations)
    expected = np.polynomial.polynomial.polyval(test.x @ clear, SIGMOID)
    return {
        "rows": len(training.y),
        "attributes": training.x.shape[1] - 1,
        "test_rows": len(test.y),
        "iterations": iterations,
        "n": parameters.n,
        "depth": depth,
        "log_qp": parameters.log_qp,
        "security": parameters.security,
        "owner_s": prepared,
        "training_s": seconds["training"],
        "iteration_s": seconds["training"] / max(1, iterations - 1),
        "inference_s": seconds["inference"],
        "bytes": sizes,
        "encrypted": quality(chances - 0.5, test.y),
        "same_steps_in_the_clear": quality(expected - 0.5, test.y),
        "converged": quality(test.x @ converged(training.signed), test.y),
        "largest_weight_error": float(np.abs(weights - clear).max()),
        "largest_score_error": float(np.abs(chances - expected).max()),
    }


def shown(text: str) -> None:
    """Print without buffering."""
    print(text, flush=True)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, help="file of a table; default: synthetic rows")
    parser.add_argument("--rows", type=int, default=400, help="number of synthetic rows")
    parser.add_argument("--attributes", type=int, default=8, help="number of synthetic attributes")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--precision", type=int, default=24, help="correct bits after the binary point of the results")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file to write the results to")
    options = parser.parse_args()
    if options.iterations < 1 or options.attributes < 1 or options.rows < 5:
        parser.error("--iterations and --attributes are at least 1, --rows 5")
    table = read(options.csv) if options.csv else synthetic(options.rows, options.attributes, options.seed)
    try:
        found = run(table, options.iterations, precision=options.precision, seed=options.seed, say=shown)
    except hg.ParameterError as error:
        parser.error(f"{options.iterations} iterations at {options.precision} bits: {error}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"training   {found['training_s']:8.2f} s for {found['iterations']} iterations")
    print(f"inference  {found['inference_s']:8.2f} s for {found['test_rows']} rows")
    for key, words in (("encrypted", "encrypted"), ("same_steps_in_the_clear", "the same steps in the clear"),
                       ("converged", "converged, in the clear")):  # fmt: skip
        print(f"{words:28} accuracy {100 * found[key]['accuracy']:5.1f}%   AUC {found[key]['auc']:.4f}")
    print(f"largest error of a weight {found['largest_weight_error']:.2g}, of a score {found['largest_score_error']:.2g}")
    if max(found["largest_weight_error"], found["largest_score_error"]) > 1e-2:
        raise SystemExit("the encrypted model is not the clear one")


if __name__ == "__main__":
    main()
