"""Compute a linear regression on encrypted rows: sums for least squares, or steps of gradient descent; see README.md.

Use
    python regression.py                                          8 rows of 2 attributes, synthetic
    python regression.py --mode step --data binary --rows 50
    python regression.py --mode step --steps 3 --data binary
    python regression.py --csv table.txt --rows 100 --attributes 4
    python regression.py --rows 300 --attributes 20 --width 32 --fraction 8 --limit 8 --estimate
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """Numbers as integers in units of 2^-fraction; products and sums of them in `width` bits, two's complement."""

    width: int = 16
    fraction: int = 4
    limit: float = 4.0  # inputs are clipped to -limit .. limit

    @property
    def name(self) -> str:
        """Return the Q notation: integer bits (without the sign) and fraction bits."""
        return f"Q{self.width - 1 - self.fraction}.{self.fraction} in int{self.width}"

    @property
    def dtype(self) -> str:
        """Return the type of products, sums and weights."""
        return f"int{self.width}"

    @property
    def sent(self) -> str:
        """Return the type of the encrypted table's values; the server widens them."""
        most = self.limit * 2**self.fraction
        return next(f"int{w}" for w in (8, 16, 24, 32, 64) if w == self.width or most < 2 ** (w - 1))

    def fixed(self, values: Array) -> Array:
        """Clip real values and round them to the nearest unit."""
        return np.rint(np.clip(values, -self.limit, self.limit) * 2**self.fraction).astype(np.int64)

    def real(self, units: Array) -> Array:
        """Convert units to real values."""
        return np.asarray(units, dtype=np.float64) / 2**self.fraction

    def check(self, name: str, values: Array) -> Array:
        """Return the values if they fit the integer width; earlier sums may exceed it, since they wrap."""
        most = int(np.abs(values).max(initial=0))
        if most >= 2 ** (self.width - 1):
            raise ValueError(f"{name} reaches {most}, beyond {self.dtype}: take fewer fraction bits or a greater width")
        return values


@dataclass(frozen=True)
class Table:
    """Rows of attributes x and a target y: units of the format, or bits."""

    x: Array
    y: Array
    fmt: Format

    @property
    def binary(self) -> bool:
        """Return whether all values are bits."""
        return bool(self.x.dtype == bool)

    def real(self) -> tuple[Array, Array]:
        """Return x and y as real numbers."""
        return (self.x * 1.0, self.y * 1.0) if self.binary else (self.fmt.real(self.x), self.fmt.real(self.y))


def synthetic(rows: int, attributes: int, fmt: Format, *, binary: bool = False, seed: int = 1) -> Table:
    """Draw a table from a linear model with noise; for bits, from a majority with some flipped rows."""
    rng = np.random.default_rng(seed)
    if binary:
        bits = rng.random((rows, attributes)) < 0.5
        truth = bits @ rng.uniform(-1, 1, attributes)
        return Table(bits, (truth > np.median(truth)) ^ (rng.random(rows) < 0.1), fmt)
    x = rng.normal(size=(rows, attributes))
    y = x @ rng.uniform(-1, 1, attributes) / np.sqrt(attributes) + rng.normal(scale=0.1, size=rows) + 0.5
    return Table(fmt.fixed(x), fmt.fixed(y), fmt)


def read_table(
    path: Path, fmt: Format, *, rows: int | None = None, attributes: int | None = None, binary: bool = False
) -> Table:
    """Read numbers between commas, semicolons or blanks, one row per line, the target last, after an optional header.

    The first `rows` rows and `attributes` columns are used. Columns are standardised (mean 0, deviation 1). Binary values state
    whether a value is above its column's mean.
    """
    lines = [re.split(r"[,;\s]+", line.strip(" ,;\t")) for line in path.read_text().splitlines() if line.strip()]
    kept: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        try:
            kept.append([float(cell) for cell in line])
        except ValueError:
            if number > 1:
                raise ValueError(f"{path}: row {number} must hold numbers only") from None
        if kept and len(kept[-1]) != len(kept[0]):
            raise ValueError(f"{path}: row {number} has {len(kept[-1])} columns, others have {len(kept[0])}")
    if not kept or len(kept[0]) < 2:
        raise ValueError(f"{path} holds no rows of attributes and a target")
    whole = np.array(kept)[:rows]
    x, y = whole[:, :-1][:, :attributes], whole[:, -1:]
    centred = [v - v.mean(axis=0) for v in (x, y)]
    if binary:
        return Table(centred[0] > 0, centred[1][:, 0] > 0, fmt)
    scaled = [fmt.fixed(v / np.where(v.std(axis=0) > 0, v.std(axis=0), 1)) for v in centred]
    return Table(scaled[0], scaled[1][:, 0], fmt)


# The owner of the table, who has the secret key. A folder contains all exchanged files.


def send_table(secret: hg.tfhe.SecretKey, table: Table, folder: Path) -> None:
    """Write the encrypted table and the evaluation keys."""
    dtype = "bool" if table.binary else table.fmt.sent
    secret.evaluation_keys().save(folder / "keys.hg")
    secret.encrypt(table.x, dtype).save(folder / "x.hg")
    secret.encrypt(table.y, dtype).save(folder / "y.hg")


def send_weights(secret: hg.tfhe.SecretKey, weights: Array, intercept: int, fmt: Format, folder: Path) -> None:
    """Write the encrypted model, in units of the format."""
    secret.encrypt(weights, fmt.dtype).save(folder / "weights.hg")
    secret.encrypt(np.array(intercept), fmt.dtype).save(folder / "intercept.hg")


def read(secret: hg.tfhe.SecretKey, folder: Path, *names: str) -> list[Array]:
    """Return the decrypted tensors of the answer, in int64."""
    return [np.asarray(secret.decrypt(hg.load(folder / f"{name}.hg")), dtype=np.int64) for name in names]


def read_sums(secret: hg.tfhe.SecretKey, table: Table, folder: Path) -> dict[str, Array]:
    """Decrypt the results of `server_sums`: sums of each x, of y, of each x * y and x * x, in units (of products: squared)."""
    firsts, xy, xx = read(secret, folder, "firsts", "xy", "xx")
    return {"x": firsts[:-1], "y": firsts[-1], "xy": xy, "xx": xx}


def least_squares(sums: dict[str, Array], rows: int, unit: float = 1.0) -> Array:
    """Return slopes and intercepts of y on each attribute separately, [2, attributes]; slope 0 for a constant attribute."""
    x, y, xy, xx = (np.asarray(sums[k], dtype=np.float64) for k in ("x", "y", "xy", "xx"))
    spread = rows * xx - x * x
    slope = np.where(spread > 0, rows * xy - x * y, 0) / np.where(spread > 0, spread, 1)
    return np.stack([slope, (y - slope * x) / rows * unit])


# The server: evaluation keys, encrypted tensors, public numbers. Each line is one call over whole tensors.


def server_sums(folder: Path, fmt: Format) -> None:
    """Compute the sums over the rows."""
    server = hg.Server(hg.load(folder / "keys.hg"))
    x, y = server.load(folder / "x.hg"), server.load(folder / "y.hg")
    rows, attributes = x.shape
    if x.dtype == bool:  # products are ANDs, squares the bits themselves, sums counts
        xy = x & y[:, None]
        counts = hg.tfhe.concatenate([x, y[:, None], xy], axis=1).sum(0, dtype="uint16")
        firsts, xy, xx = counts[: attributes + 1], counts[attributes + 1 :], counts[:attributes]
    else:
        x, y = x.astype(fmt.dtype), y.astype(fmt.dtype)
        firsts = hg.tfhe.concatenate([x, y[:, None]], axis=1).sum(0, dtype=fmt.dtype)
        xy = x.T @ y
        xx = (x.T.reshape(attributes, 1, rows) @ x.T.reshape(attributes, rows, 1)).reshape(attributes)
    for name, tensor in (("firsts", firsts), ("xy", xy), ("xx", xx)):
        tensor.save(folder / f"{name}.hg")


def server_step(folder: Path, fmt: Format, rate: int, steps: int = 1) -> None:
    """Repeat weights -= (gradient of half the squared error, summed over rows) / 2^rate, and the same for the intercept."""
    server = hg.Server(hg.load(folder / "keys.hg"))
    x, y, w, b = (server.load(folder / f"{name}.hg") for name in ("x", "y", "weights", "intercept"))
    binary = x.dtype == bool
    y = y.astype(fmt.dtype) << fmt.fraction if binary else y.astype(fmt.dtype)
    x = x if binary else x.astype(fmt.dtype)
    for _ in range(steps):
        if binary:  # a product selects a number or 0
            residuals = hg.tfhe.select(x, w, 0).sum(1, dtype=fmt.dtype) + b - y
            w = w - (hg.tfhe.select(x, residuals[:, None], 0).sum(0, dtype=fmt.dtype) >> rate)
        else:
            residuals = ((x @ w) >> fmt.fraction) + b - y
            w = w - (x.T @ residuals >> (fmt.fraction + rate))
        b = b - (residuals.sum(dtype=fmt.dtype) >> rate)
    w.save(folder / "new-weights.hg")
    b.save(folder / "new-intercept.hg")


# The same computation in the clear: in the server's integers, and in floating point


def clear_sums(table: Table) -> dict[str, Array]:
    """Return the exact result of `read_sums`. Raises ValueError if the format is too narrow."""
    x, y = table.x.astype(np.int64), table.y.astype(np.int64)
    sums = {"x": x.sum(0), "y": y.sum(), "xy": x.T @ y, "xx": (x * x).sum(0)}
    if not table.binary:
        for name, values in sums.items():
            table.fmt.check(f"a sum of {name}", values)
    elif len(x) >= 1 << 16:
        raise ValueError("counts of bits are held in 16 bits: take fewer rows")
    return sums


def clear_step(table: Table, weights: Array, intercept: int, rate: int) -> tuple[Array, Array]:
    """Return the exact new weights. Raises ValueError if the format is too narrow."""
    fmt = table.fmt
    x, y = table.x.astype(np.int64), table.y.astype(np.int64)
    f = 0 if table.binary else fmt.fraction  # excess fraction bits of a product with x
    residuals = (fmt.check("a prediction", x @ weights) >> f) + intercept - (y << (fmt.fraction - f))
    gradient = fmt.check("the gradient", x.T @ fmt.check("a residual", residuals))
    total = fmt.check("the sum of residuals", residuals.sum())
    new = weights - (gradient >> (f + rate)), intercept - (total >> rate)
    return fmt.check("a weight", new[0]), fmt.check("the intercept", new[1])


def float_step(table: Table, weights: Array, intercept: float, rate: int) -> tuple[Array, Array]:
    """Compute the step in floating point, from the same table and the same weights."""
    x, y = table.real()
    residuals = x @ weights + intercept - y
    return weights - x.T @ residuals / 2**rate, intercept - residuals.sum() / 2**rate


@dataclass(frozen=True)
class Training:
    """Weights followed by the intercept."""

    start: Array  # first weights, in units of the format
    exact: Array  # weights after the steps in the server's integers, in units of the format
    real: Array  # weights after the same steps in floating point


def rate_of(rows: int) -> int:
    """Return the rate: 2^-rate times the sum of the rows' gradients is the mean gradient times 1/4 to 1/2."""
    return (rows - 1).bit_length() + 1


def clear_training(table: Table, steps: int = 1, seed: int = 1) -> Training:
    """Compute steps of gradient descent on clear values, from random weights. Raises ValueError if the format is too narrow."""
    rate, fmt = rate_of(len(table.x)), table.fmt
    start = fmt.fixed(np.random.default_rng(seed).uniform(-0.5, 0.5, table.x.shape[1] + 1))
    exact: tuple[Array, Any] = start[:-1], int(start[-1])
    real: tuple[Array, Any] = fmt.real(start[:-1]), fmt.real(start[-1])
    for _ in range(steps):
        exact, real = clear_step(table, *exact, rate), float_step(table, *real, rate)
    return Training(start, np.append(*exact), np.append(*real))


def accuracy(table: Table, model: Array) -> float:
    """Return the share of rows whose prediction and target are on the same side of the mean target."""
    x, y = table.real()
    return float(np.mean((x @ model[:-1] + model[-1] > y.mean()) == (y > y.mean())))


def tolerance(table: Table, rate: int, steps: int = 1) -> float:
    """Return the largest possible distance of fixed-point steps from `float_step`.

    Each prediction and the step itself are rounded down by less than a unit. The rounding of a weight
    changes a prediction by at most |weight| |x| / 2^rate. A step multiplies the previous error by at most
    the largest row sum of |I - X^T X / 2^rate|, X with a column of ones.
    """
    values = table.real()[0]
    reach = 0.0 if table.binary else max(float(np.abs(values).sum(0).max()), len(values)) / 2**rate
    whole = np.column_stack([values, np.ones(len(values))])
    grows = float(np.abs(np.eye(whole.shape[1]) - whole.T @ whole / 2**rate).sum(1).max())
    return (1 + reach) / 2**table.fmt.fraction * sum(grows**k for k in range(steps))


# Costs


def dot_cost(parameters: hg.tfhe.Parameters, dtype: str, terms: int) -> int:
    """Return the bootstraps of a dot product: the engine splits it into circuits of at most 512 bits per side, and adds them."""
    pairs = min(terms, 512 // int(dtype.lstrip("uint")))
    groups, rest = divmod(terms, pairs)
    cost = groups * parameters.cost("dot", *[dtype] * 2 * pairs, goal="fewest")[0]
    cost += dot_cost(parameters, dtype, rest) if rest else 0
    return cost + sum_cost(parameters, dtype, dtype, groups + bool(rest))


def sum_cost(parameters: hg.tfhe.Parameters, dtype: str, result: str, terms: int) -> int:
    """Return the bootstraps of a sum, which uses circuits of 64 terms."""
    groups, rest = divmod(terms, 64)
    cost = 0
    for count, size in ((groups, 64), (1, rest)):
        if count * size > 1 or (size == 1 and dtype != result):
            cost += count * parameters.cost("sum", *[dtype] * size, dtype=result, goal="fewest")[0]
    left = groups + bool(rest)
    return cost + (sum_cost(parameters, result, result, left) if left > 1 else 0)


def bootstraps(parameters: hg.tfhe.Parameters, mode: str, rows: int, attributes: int, binary: bool, fmt: Format) -> int:
    """Estimate the server's bootstraps; exact if the engine uses circuits of the fewest bootstraps."""

    def one(operation: str, *dtypes: str, **more: Any) -> int:
        return parameters.cost(operation, *dtypes, goal="fewest", **more)[0]

    d, values = fmt.dtype, rows * attributes
    if binary and mode == "sums":
        return values * one("and", "bool", "bool") + (2 * attributes + 1) * sum_cost(parameters, "bool", "uint16", rows)
    if mode == "sums":
        widen = one("convert", fmt.sent, dtype=d)
        sums = 2 * attributes * dot_cost(parameters, d, rows) + (attributes + 1) * sum_cost(parameters, d, d, rows)
        return sums + (values + rows) * widen
    update = one("subtract", d, d) + one("shift_right", d, arguments=[fmt.fraction])
    cost = (attributes + 1) * update + sum_cost(parameters, d, d, rows)
    cost += rows * (one("add", d, d) + one("subtract", d, d))
    if binary:
        choices = 2 * values * one("select", "bool", d, d) + rows * one("convert", "bool", dtype=d)
        return cost + choices + rows * sum_cost(parameters, d, d, attributes) + attributes * sum_cost(parameters, d, d, rows)
    cost += (values + rows) * one("convert", fmt.sent, dtype=d) + rows * one("shift_right", d, arguments=[fmt.fraction])
    return cost + rows * dot_cost(parameters, d, attributes) + attributes * dot_cost(parameters, d, rows)


def seconds_each(parameters: hg.tfhe.Parameters) -> float:
    """Measure the seconds per bootstrap of batches that fill the machine, on gates."""
    secret = hg.SecretKey.generate(parameters)
    bits = hg.Server(secret.evaluation_keys()).bind(secret.encrypt(np.zeros(4 * parameters.parallel_bootstraps, dtype=bool)))
    (bits & bits[::-1]).wait()
    start = time.perf_counter()
    (bits & bits[::-1]).wait()
    return (time.perf_counter() - start) / bits.size


@dataclass(frozen=True)
class Report:
    """The result and the cost of a run."""

    bootstraps: int
    seconds: float  # time of the server
    request: int  # bytes of the encrypted table, without the keys
    exact: bool  # whether every integer equals the integer computed in the clear
    error: float  # largest difference from the floating-point result
    allowed: float  # largest allowed difference
    result: Array  # slopes and intercepts, or weights and intercept, as real numbers
    right: tuple[float, float] | None  # share of correct predictions, of the result and of floating point; None for sums


def run(secret: hg.tfhe.SecretKey, table: Table, mode: str, folder: Path, *, seed: int = 1, steps: int = 1) -> Report:
    """Run owner, server, owner, and compare with the clear results. `steps` counts steps of gradient descent."""
    fmt, (rows, attributes) = table.fmt, table.x.shape
    send_table(secret, table, folder)
    if mode == "sums":
        expected = clear_sums(table)
    else:
        training = clear_training(table, steps, seed)
        send_weights(secret, training.start[:-1], int(training.start[-1]), fmt, folder)
    request = sum(path.stat().st_size for path in folder.iterdir() if path.name != "keys.hg")

    right: tuple[float, float] | None = None
    begin = time.perf_counter()
    if mode == "sums":
        server_sums(folder, fmt)
    else:
        server_step(folder, fmt, rate_of(rows), steps)
    seconds = time.perf_counter() - begin

    if mode == "sums":
        sums, unit = read_sums(secret, table, folder), 1.0 if table.binary else 2.0**-fmt.fraction
        same = all(np.array_equal(sums[k], expected[k]) for k in expected)
        result, allowed = least_squares(sums, rows, unit), 1e-9
        x, y = table.real()
        reference = np.stack([np.linalg.lstsq(np.stack([v - v.mean(), np.ones(rows)], 1), y, rcond=None)[0] for v in x.T], 1)
        reference[1] -= reference[0] * x.mean(0)
    else:
        found = np.append(*read(secret, folder, "new-weights", "new-intercept"))
        same = np.array_equal(found, training.exact)
        result, reference, allowed = fmt.real(found), training.real, tolerance(table, rate_of(rows), steps)
        right = accuracy(table, result), accuracy(table, reference)
    cost = (steps if mode == "step" else 1) * bootstraps(secret.parameters, mode, rows, attributes, table.binary, fmt)
    return Report(cost, seconds, request, same, float(np.abs(result - reference).max()), allowed, result, right)


def main() -> int:
    """Run or estimate the regression of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["sums", "step"], default="sums")
    parser.add_argument("--steps", type=int, default=1, help="steps of gradient descent; the weights stay encrypted")
    parser.add_argument("--data", choices=["numeric", "binary"], default="numeric")
    parser.add_argument("--rows", type=int, help="number of rows; default: 8, or all rows of a file")
    parser.add_argument("--attributes", type=int, help="number of attributes; default: 2, or all attributes of a file")
    parser.add_argument("--csv", type=Path, help="file of a table of numbers whose last column is the target")
    parser.add_argument("--seed", type=int, default=1, help="seed of synthetic rows and of the first weights")
    parser.add_argument("--width", type=int, choices=[16, 24, 32, 64], default=16, help="bits of products and sums")
    parser.add_argument("--fraction", type=int, default=4, help="bits after the binary point")
    parser.add_argument("--limit", type=float, default=4.0, help="magnitude to which values are clipped")
    parser.add_argument("--parameters", default="2_2", help=f"one of {', '.join(hg.tfhe.named())}")
    parser.add_argument("--insecure", action="store_true", help="allow a parameter set with less than 128 bits of security")
    parser.add_argument(
        "--estimate", action="store_true", help="measure some bootstraps and print the estimated time instead of computing"
    )
    args = parser.parse_args()

    fmt, binary = Format(args.width, args.fraction, args.limit), args.data == "binary"
    try:
        if args.steps < 1:
            raise ValueError("--steps must be at least 1")
        if args.csv:
            table = read_table(args.csv, fmt, rows=args.rows, attributes=args.attributes, binary=binary)
        else:
            table = synthetic(args.rows or 8, args.attributes or 2, fmt, binary=binary, seed=args.seed)
        parameters = hg.tfhe.parameters(args.parameters, insecure=args.insecure)
        rows, attributes = table.x.shape
        held = "bits" if binary and args.mode == "sums" else fmt.name
        print(f"{args.mode} of {rows} rows x {attributes} attributes, {args.data}, {held}\n{parameters!r}")
        if args.estimate:
            times = args.steps if args.mode == "step" else 1
            cost = times * bootstraps(parameters, args.mode, rows, attributes, binary, fmt)
            each = seconds_each(parameters)
            print(f"{cost:,} bootstraps; at {each * 1e3:.2f} ms each, as measured now: {cost * each / 60:.1f} min")
            return 0
        with tempfile.TemporaryDirectory() as folder:
            report = run(hg.SecretKey.generate(parameters), table, args.mode, Path(folder), seed=args.seed, steps=args.steps)
    except (ValueError, OSError, hg.HeliographError) as error:
        print(f"regression: {error}")
        return 1
    print("\n  rows  attributes  bootstraps   seconds  ms each  request    integers      error    allowed")
    print(
        f"{rows:6d}  {attributes:10d}  {report.bootstraps:10,d}  {report.seconds:8.2f}  "
        f"{report.seconds / report.bootstraps * 1e3:7.2f}  {report.request:6d} B  "
        f"{'equal' if report.exact else 'DIFFER':>8s}  {report.error:9.1e}  {report.allowed:9.1e}"
    )
    names = ("slopes", "intercepts") if args.mode == "sums" else ("weights and intercept",)
    for name, values in zip(names, np.atleast_2d(report.result), strict=True):
        print(f"{name}: {' '.join(f'{v:.4f}' for v in values)}")
    if report.right:
        print(
            "rows predicted on the right side of the mean: {:.1%}, after training in the clear {:.1%}".format(*report.right)
        )
    return 0 if report.exact and report.error <= report.allowed else 1


if __name__ == "__main__":
    raise SystemExit(main())
