"""Run encrypted queries of a table on a small ring: a sum WHERE, and a look-up; see README.md.

Use
    python query.py where                             SUM(amount), COUNT(*) WHERE region = 3, of 4,096 random rows
    python query.py where --csv sales.csv --value 2
    python query.py look-up                           an entry of a table of 8 x 8
    python query.py look-up --rows 64 --columns 4096 --key 123456
    python query.py look-up --device cuda             also cpu, rtl, and other values of HELIOGRAPH_DEVICE
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg

Array = np.ndarray[Any, Any]
GROUPS = 16  # most groups of a filtered column; more would exhaust the noise budget


class QueryError(hg.HeliographError):
    """Raised for a table that does not fit, or an unsupported query."""


def where_parameters() -> hg.bfv.Parameters:
    """Return parameters for two products in sequence and sums below 7,516,372,993."""
    return hg.bfv.parameters(n=4096, log_q=106, special=0, plain_modulus=(65537, 114689), word_size=32)


def look_up_parameters() -> hg.bfv.Parameters:
    """Return parameters for a product by plaintexts followed by a product of ciphertexts, with values below 1,073,153."""
    return hg.bfv.parameters(n=4096, log_q=106, special=0, plain_modulus=1073153, word_size=32)


@dataclass(frozen=True)
class Report:
    """The result and the cost of a query."""

    answer: tuple[int, ...]
    expected: tuple[int, ...]
    seconds: float  # time of the server
    question: int  # bytes of the query
    reply: int  # bytes of the answer
    cycles: hg.Cycles | None  # cycles of the server, if its device is simulated


def measured(work: Callable[[], bytes]) -> tuple[bytes, float, hg.Cycles | None]:
    """Return the result of a server's work, its seconds, and its cycles."""
    before, start = hg.cycles(), time.perf_counter()
    reply = work()
    seconds, after = time.perf_counter() - start, hg.cycles()
    return reply, seconds, after - before if before and after else None


def require_question(asked: hg.bfv.Tensor, shape: tuple[int, ...]) -> None:
    """Raise QueryError for an unsupported query."""
    if asked.shape != shape:
        raise QueryError(f"a query must have the shape {shape} for this table, not {asked.shape}")


def require_rows(*counts: int) -> None:
    """Raise QueryError for a random table of negative size."""
    if min(counts) < 1:
        raise QueryError(f"a random table has 1 or more rows and columns, not {min(counts)}")


def around_zero(values: Array, modulus: int) -> Array:
    """Return values of 0 to modulus - 1 as centred residues for encoding."""
    return (values + modulus // 2) % modulus - modulus // 2


# SUM(amount), COUNT(*) WHERE group = value: the server reads neither the columns nor the value


@dataclass(frozen=True)
class Columns:
    """Rows of a group, 0 to `count` - 1, and an amount."""

    groups: Array
    amounts: Array
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= GROUPS:
            raise QueryError(f"{self.count} groups; a column has 1 to {GROUPS}")
        if not 0 <= int(self.groups.min(initial=0)) <= int(self.groups.max(initial=0)) < self.count:
            wrong = self.groups[(self.groups < 0) | (self.groups >= self.count)][0]
            raise QueryError(f"a row has group {wrong}; they are 0 to {self.count - 1}")
        if int(self.amounts.min(initial=0)) < 0:
            raise QueryError(f"a row has the amount {self.amounts.min()}; they are 0 or more")


def synthetic(rows: int, count: int, seed: int) -> Columns:
    """Draw random groups, and amounts below 1,000,000."""
    require_rows(rows, count)
    rng = np.random.default_rng(seed)
    return Columns(rng.integers(0, count, rows), rng.integers(0, 1_000_000, rows), count)


def send_columns(secret: hg.bfv.SecretKey, table: Columns) -> tuple[bytes, bytes]:
    """Encrypt the owner's table: for each group a ciphertext with 1 at its rows, and the amounts."""
    slots, modulus = secret.parameters.slots, secret.parameters.plain_modulus
    if len(table.groups) > slots:
        raise QueryError(f"{len(table.groups):,} rows; a ciphertext of {secret.parameters!r} holds {slots:,}")
    total = int(table.amounts.sum())
    if total >= modulus:
        raise QueryError(f"the amounts add up to {total:,}; sums stay below {modulus:,}")
    is_group, amounts = np.zeros((table.count, slots), np.int64), np.zeros(slots, np.int64)
    is_group[:, : len(table.groups)] = table.groups == np.arange(table.count)[:, None]
    amounts[: len(table.amounts)] = around_zero(table.amounts, modulus)
    return secret.encrypt(is_group).to_bytes(), secret.encrypt(amounts).to_bytes()


def ask_where(secret: hg.bfv.SecretKey, count: int, value: int) -> bytes:
    """Encrypt the query: for each group a ciphertext of ones or of zeros."""
    if not 0 <= value < count:
        raise QueryError(f"there is no group {value}; they are 0 to {count - 1}")
    chosen = (np.arange(count) == value).astype(np.int64)
    return bytes(secret.encrypt(np.repeat(chosen[:, None], secret.parameters.slots, axis=1)).to_bytes())


def where(groups: hg.bfv.Tensor, amounts: hg.bfv.Tensor, asked: hg.bfv.Tensor) -> hg.bfv.Tensor:
    """Compute (count, sum) on the server, each in every slot. The work does not depend on the query."""
    require_question(asked, groups.shape)
    match = hg.relinearize(hg.dot(asked, groups))
    return hg.shrink(hg.sum(hg.stack([match, hg.relinearize(match * amounts)]), axis="slots"))


def run_where(parameters: hg.bfv.Parameters, table: Columns, value: int) -> Report:
    """Run owner, client and server; owner and client are one party here."""
    secret = hg.SecretKey.generate(parameters)
    turns = [1 << k for k in range((parameters.n // 2).bit_length() - 1)]
    server = hg.Server(secret.evaluation_keys(rotations=turns, columns=True))
    groups, amounts = (server.from_bytes(sent) for sent in send_columns(secret, table))
    question = ask_where(secret, table.count, value)
    reply, seconds, cycles = measured(lambda: where(groups, amounts, server.from_bytes(question)).to_bytes())
    found = secret.decrypt(hg.from_bytes(reply))[:, 0] % parameters.plain_modulus
    chosen = table.groups == value
    expected = (int(chosen.sum()), int(table.amounts[chosen].sum()))
    return Report((int(found[0]), int(found[1])), expected, seconds, len(question), len(reply), cycles)


# An entry of a clear table by an encrypted key: the server does not learn which


@dataclass(frozen=True)
class Grid:
    """Public keys and their values; a key's position in ascending order determines its row and column."""

    keys: Array  # keys in ascending order
    values: Array
    columns: int

    def __post_init__(self) -> None:
        if not len(self.keys) or self.columns < 1:
            raise QueryError("a table has rows and columns")
        if len(np.unique(self.keys)) != len(self.keys):
            raise QueryError("a table has each key once")

    @property
    def rows(self) -> int:
        """Return the number of rows that hold all keys."""
        return -(-len(self.keys) // self.columns)

    def place(self, key: int) -> tuple[int, int]:
        """Return the row and the column of a key. Raises QueryError for an unknown key."""
        at = int(np.searchsorted(self.keys, key))
        if at == len(self.keys) or self.keys[at] != key:
            raise QueryError(f"there is no key {key}; there are {len(self.keys):,} from {self.keys[0]} to {self.keys[-1]}")
        row, column = divmod(at, self.columns)
        return row, column


def synthetic_grid(rows: int, columns: int, most: int, seed: int) -> Grid:
    """Draw a table with keys 0, 1, 2, ..., and random values below `most`."""
    require_rows(rows, columns)
    return Grid(np.arange(rows * columns), np.random.default_rng(seed).integers(0, most, rows * columns), columns)


def prepare(parameters: hg.bfv.Parameters, grid: Grid) -> hg.bfv.Plaintext:
    """Encode the server's table: a plaintext for each row."""
    slots, modulus = parameters.slots, parameters.plain_modulus
    if grid.columns > slots:
        raise QueryError(f"{grid.columns:,} columns; a ciphertext of {parameters!r} holds {slots:,}")
    if not 0 <= int(grid.values.min()) <= int(grid.values.max()) < modulus:
        wrong = grid.values[(grid.values < 0) | (grid.values >= modulus)][0]
        raise QueryError(f"the table holds {wrong}; values are 0 to {modulus - 1:,}")
    cells = np.zeros((grid.rows, grid.columns), dtype=np.int64)
    cells.reshape(-1)[: len(grid.values)] = around_zero(grid.values, modulus)
    whole = np.zeros((grid.rows, slots), dtype=np.int64)
    whole[:, : grid.columns] = cells
    return hg.encode(parameters, whole)


def ask_key(secret: hg.bfv.SecretKey, grid: Grid, key: int) -> bytes:
    """Encrypt the query: for each row a ciphertext of ones or of zeros, then one with a 1 only at the column."""
    row, column = grid.place(key)
    chosen = np.zeros((grid.rows + 1, secret.parameters.slots), dtype=np.int64)
    chosen[row] = 1
    chosen[-1, column] = 1
    return bytes(secret.encrypt(chosen).to_bytes())


def look_up(table: hg.bfv.Plaintext, asked: hg.bfv.Tensor) -> hg.bfv.Tensor:
    """Compute the value at its column, and zeros elsewhere, on the server. The work does not depend on the query."""
    require_question(asked, (table.shape[0] + 1,))
    row = hg.sum(asked[:-1] * table, axis=0)
    return hg.shrink(hg.relinearize(row * asked[-1]))


def run_look_up(parameters: hg.bfv.Parameters, grid: Grid, key: int) -> Report:
    """Run client and server."""
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys())
    table = prepare(parameters, grid)
    question = ask_key(secret, grid, key)
    reply, seconds, cycles = measured(lambda: look_up(table, server.from_bytes(question)).to_bytes())
    found = secret.decrypt(hg.from_bytes(reply)) % parameters.plain_modulus
    column = grid.place(key)[1]
    answer = int(found[column]), int(np.delete(found, column).sum())
    expected = int(grid.values[np.searchsorted(grid.keys, key)]), 0
    return Report(answer, expected, seconds, len(question), len(reply), cycles)


# The command line


def read_pairs(path: Path) -> Array:
    """Read two integers per line, between commas, semicolons or blanks, after an optional header. Return [rows, 2]."""
    lines = [re.split(r"[,;\s]+", line.strip(" ,;\t")) for line in path.read_text().splitlines() if line.strip()]
    if lines and not any(re.fullmatch(r"[+-]?\d+", cell) for cell in lines[0]):
        lines = lines[1:]
    for number, line in enumerate(lines, 1):
        if len(line) != 2 or not all(re.fullmatch(r"[+-]?\d{1,18}", cell) for cell in line):
            raise QueryError(f"{path}: row {number} is not two integers of up to 18 digits")
    if not lines:
        raise QueryError(f"{path} holds no rows")
    return np.array([[int(cell) for cell in line] for line in lines], dtype=np.int64)


def read_columns(path: Path, count: int) -> Columns:
    """Read rows of a group and an amount from a file."""
    pairs = read_pairs(path)
    return Columns(pairs[:, 0], pairs[:, 1], count)


def read_grid(path: Path, columns: int) -> Grid:
    """Read rows of a key and its value from a file."""
    pairs = read_pairs(path)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return Grid(pairs[:, 0], pairs[:, 1], columns)


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--device", help="device: cpu, cuda, rtl ...; default: the device found")
    common.add_argument("--csv", type=Path, help="file of a table with two integers a row; default: a random table")
    common.add_argument("--seed", type=int, default=1, help="seed of a random table")
    queries = parser.add_subparsers(dest="query", required=True)
    sums = queries.add_parser("where", parents=[common], help="SUM(amount), COUNT(*) WHERE group = value")
    sums.add_argument("--rows", type=int, default=4096, help="rows of a random table")
    sums.add_argument("--groups", type=int, default=8, help=f"number of groups, numbered from 0; at most {GROUPS}")
    sums.add_argument("--value", type=int, default=3, help="group to query")
    entry = queries.add_parser("look-up", parents=[common], help="the value of a key")
    entry.add_argument("--rows", type=int, default=8, help="rows of a random table")
    entry.add_argument("--columns", type=int, default=8, help="columns of a random table")
    entry.add_argument("--key", type=int, default=42, help="key to look up")
    return parser


def main() -> int:
    """Run the query of the command line."""
    args = arguments().parse_args()
    if args.device:
        os.environ["HELIOGRAPH_DEVICE"] = args.device  # the engine reads this variable when it first computes
    try:
        if args.query == "where":
            parameters = where_parameters()
            table = read_columns(args.csv, args.groups) if args.csv else synthetic(args.rows, args.groups, args.seed)
            print(f"SELECT COUNT(*), SUM(amount) WHERE group = {args.value}, of {len(table.groups):,} rows\n{parameters!r}")
            report = run_where(parameters, table, args.value)
            print(f"count {report.answer[0]:,}, sum {report.answer[1]:,}")
        else:
            parameters = look_up_parameters()
            most = parameters.plain_modulus
            grid = (
                read_grid(args.csv, args.columns) if args.csv else synthetic_grid(args.rows, args.columns, most, args.seed)
            )
            print(f"the value of key {args.key}, of {grid.rows:,} x {grid.columns:,}\n{parameters!r}")
            report = run_look_up(parameters, grid, args.key)
            print(f"value {report.answer[0]:,}")
    except (ValueError, OSError, hg.HeliographError) as error:
        print(f"query: {error}")
        return 1
    exact = report.answer == report.expected
    print(f"{'as' if exact else 'NOT as'} in the clear; {1e3 * report.seconds:.1f} ms of the server on {hg.devices()[0]}")
    if report.cycles:
        clock = f"an assumed {report.cycles.clock / 1e6:g} MHz"
        print(f"{report.cycles.cycles:,} cycles, {1e3 * report.cycles.seconds:.2f} ms at {clock}")
    print(f"question {report.question:,} bytes, answer {report.reply:,}")
    return 0 if exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
