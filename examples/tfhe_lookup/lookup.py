"""Look up an encrypted key in a table: the matching rows, their number, and the sums of their values; see README.md.

Use
    python lookup.py                                  8 rows, a table in the clear
    python lookup.py --table encrypted --rows 16 --key-bits 8
    python lookup.py --csv people.csv --key 1742
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
WIDTHS = (8, 16, 24, 32, 64)


@dataclass(frozen=True)
class Table:
    """Rows of an unsigned key and unsigned values."""

    keys: Array  # [rows]
    values: Array  # [rows, columns]
    key_bits: int
    value_bits: int

    @property
    def sum_dtype(self) -> str:
        """Return the narrowest type that holds the sum of any rows of a column."""
        most = int(self.values.astype(object).sum(0).max(initial=0))
        for width in WIDTHS:
            if width >= self.value_bits and most < 2**width:
                return f"uint{width}"
        raise ValueError(f"a column sums to {most}, beyond 64 bits")

    @property
    def count_dtype(self) -> str:
        """Return the narrowest type that holds the number of rows."""
        return next(f"uint{w}" for w in WIDTHS if len(self.keys) < 2**w)


def bits_for(values: Array) -> int:
    """Return the narrowest integer width that holds the values. Raises ValueError for negative values."""
    if values.size and int(values.min()) < 0:
        raise ValueError(f"{int(values.min())} is negative: keys and values are unsigned")
    return next(w for w in WIDTHS if int(values.max(initial=0)) < 2**w)


def synthetic(rows: int, columns: int, key_bits: int, value_bits: int, *, unique: bool = False, seed: int = 1) -> Table:
    """Draw random keys, each about twice unless `unique`, and random values."""
    if unique and rows > 2**key_bits:
        raise ValueError(f"{key_bits} bits are too few for {rows} different keys")
    rng = np.random.default_rng(seed)
    drawn: set[int] = set()
    while len(drawn) < min(rows if unique else (rows + 1) // 2, 2**key_bits):
        drawn.add(int(rng.integers(0, 2**key_bits - 1, dtype=np.uint64, endpoint=True)))
    known = np.array(sorted(drawn), dtype=np.uint64)
    keys = rng.permutation(known) if unique else rng.choice(known, rows)
    values = rng.integers(0, 2**value_bits - 1, (rows, columns), dtype=np.uint64, endpoint=True)
    return Table(keys, values, key_bits, value_bits)


def read_table(path: Path, rows: int | None = None) -> Table:
    """Read unsigned integers between commas, semicolons or blanks, one row per line, the key first, after an optional header."""
    lines = [re.split(r"[,;\s]+", line.strip(" ,;\t")) for line in path.read_text().splitlines() if line.strip()]
    if lines and not all(cell.isdecimal() for cell in lines[0]):
        lines = lines[1:]
    for number, line in enumerate(lines, 1):
        if len(line) != len(lines[0]) or not all(cell.isdecimal() and int(cell) < 2**64 for cell in line):
            raise ValueError(f"{path}: row {number} is not {len(lines[0])} unsigned integers of 64 bits")
    if not lines or len(lines[0]) < 2:
        raise ValueError(f"{path} holds no rows of a key and values")
    whole = np.array([[int(cell) for cell in line] for line in lines[:rows]], dtype=np.uint64)
    return Table(whole[:, 0], whole[:, 1:], bits_for(whole[:, 0]), bits_for(whole[:, 1:]))


def look_up(keys: Any, values: Any, asked: hg.tfhe.Tensor, sum_dtype: str, count_dtype: str) -> tuple[Any, Any, Any]:
    """Compute on the server (bit of each row, count, sum of each column over the matching rows), all encrypted.

    keys [rows] is a clear array or an encrypted tensor, values [rows, columns] a tensor (of clear values: hg.tfhe.trivial), asked
    one encrypted key. Four calls process the whole table, independent of the key.
    """
    match = asked == keys
    count = match.sum(dtype=count_dtype)
    total = hg.tfhe.select(match[:, None], values, 0).sum(0, dtype=sum_dtype)
    return match, count, total


def clear_look_up(table: Table, asked: int) -> tuple[Array, int, Array]:
    """Compute bits, count and sums on clear values."""
    match = table.keys == np.uint64(asked)
    return match, int(match.sum()), table.values[match].sum(0)


def bootstraps(parameters: hg.tfhe.Parameters, table: Table) -> int:
    """Estimate the server's bootstraps; exact if the engine uses circuits of the fewest bootstraps and at most 64 rows."""

    def one(operation: str, *dtypes: str, **more: Any) -> int:
        return parameters.cost(operation, *dtypes, goal="fewest", **more)[0]

    rows, columns = table.values.shape
    key, value, total = f"uint{table.key_bits}", f"uint{table.value_bits}", table.sum_dtype
    cost = rows * one("equal", key, key) + rows * columns * one("select", "bool", value, value)
    cost += 0 if value == total else rows * columns * one("convert", value, dtype=total)
    for start in range(0, rows, 64):
        terms = min(64, rows - start)
        cost += one("sum", *["bool"] * terms, dtype=table.count_dtype) + columns * one("sum", *[total] * terms)
    return cost


@dataclass(frozen=True)
class Report:
    """The result and the cost of a look-up."""

    match: Array
    count: int
    total: Array
    exact: bool  # whether all results equal those computed in the clear
    bootstraps: int
    seconds: float  # time of the server
    question: int  # bytes of the query
    answer: int  # bytes of the answer


def run(secret: hg.tfhe.SecretKey, table: Table, asked: int, folder: Path, *, encrypted: bool = False) -> Report:
    """Run client, server, client. With an encrypted table the client is also its owner."""
    secret.evaluation_keys().save(folder / "keys.hg")
    secret.encrypt(asked, f"uint{table.key_bits}").save(folder / "question.hg")
    if encrypted:
        secret.encrypt(table.keys, f"uint{table.key_bits}").save(folder / "table-keys.hg")
        secret.encrypt(table.values, f"uint{table.value_bits}").save(folder / "table-values.hg")

    server = hg.Server(hg.load(folder / "keys.hg"))  # the server does not use the secret key
    begin = time.perf_counter()
    question = server.load(folder / "question.hg")
    if encrypted:
        keys, values = server.load(folder / "table-keys.hg"), server.load(folder / "table-values.hg")
    else:
        keys, values = table.keys, hg.tfhe.trivial(server.keys, table.values, f"uint{table.value_bits}")
    for name, tensor in zip(
        ("match", "count", "total"), look_up(keys, values, question, table.sum_dtype, table.count_dtype), strict=True
    ):
        tensor.save(folder / f"{name}.hg")
    seconds = time.perf_counter() - begin

    names = [folder / f"{name}.hg" for name in ("match", "count", "total")]
    match, count, total = (secret.decrypt(hg.load(name)) for name in names)
    expected = clear_look_up(table, asked)
    exact = np.array_equal(match, expected[0]) and int(count) == expected[1] and np.array_equal(total, expected[2])
    sizes = [(folder / "question.hg").stat().st_size, sum(name.stat().st_size for name in names)]
    return Report(match, int(count), total, exact, bootstraps(secret.parameters, table), seconds, *sizes)


def main() -> int:
    """Run the look-up of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=["clear", "encrypted"], default="clear", help="form of the server's table")
    parser.add_argument("--rows", type=int, help="number of rows; default: 8, or all rows of a file")
    parser.add_argument("--columns", type=int, default=1, help="value columns of a synthetic table")
    parser.add_argument("--key-bits", type=int, choices=WIDTHS, default=16)
    parser.add_argument("--value-bits", type=int, choices=WIDTHS, default=8)
    parser.add_argument("--unique", action="store_true", help="draw different keys, so that a sum is the value of a row")
    parser.add_argument("--csv", type=Path, help="a table of unsigned integers whose first column is the key")
    parser.add_argument("--key", type=int, help="key to look up; default: the key of the middle row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parameters", default="2_2", help=f"one of {', '.join(hg.tfhe.named())}")
    parser.add_argument("--insecure", action="store_true", help="allow a parameter set with less than 128 bits of security")
    args = parser.parse_args()
    try:
        if args.csv:
            table = read_table(args.csv, args.rows)
        else:
            shape = args.rows or 8, args.columns, args.key_bits, args.value_bits
            table = synthetic(*shape, unique=args.unique, seed=args.seed)
        parameters = hg.tfhe.parameters(args.parameters, insecure=args.insecure)
        asked = int(table.keys[len(table.keys) // 2]) if args.key is None else args.key
        with tempfile.TemporaryDirectory() as folder:
            report = run(hg.SecretKey.generate(parameters), table, asked, Path(folder), encrypted=args.table == "encrypted")
    except (ValueError, OSError, hg.HeliographError) as error:
        print(f"lookup: {error}")
        return 1
    rows, columns = table.values.shape
    print(
        f"{rows} rows, {args.table}: keys of {table.key_bits} bits, {columns} columns of {table.value_bits}\n{parameters!r}\n"
    )
    print("  bootstraps   seconds  ms each  question      answer   result")
    print(
        f"  {report.bootstraps:10,d}  {report.seconds:8.2f}  {report.seconds / report.bootstraps * 1e3:7.2f}  "
        f"{report.question:6d} B  {report.answer:8d} B  {'exact' if report.exact else 'WRONG'}"
    )
    print(f"key {asked}: {report.count} rows match ({np.flatnonzero(report.match).tolist()}), sums {report.total.tolist()}")
    return 0 if report.exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
