"""The programs in examples/query, a conditional sum and a look-up, give the clear results on every device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
from alike import load_program
from places import places

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "query" / "query.py"
query = load_program(PROGRAM)


def run(*line: str) -> subprocess.CompletedProcess[str]:
    """Runs the program in a separate process."""
    return subprocess.run([sys.executable, str(PROGRAM), *line], capture_output=True, text=True, check=False)


def test_where() -> None:
    """The conditional sum is right for groups with and without rows. The sum is also right for tables with as many rows as
    slots, and with one row.

    """
    parameters = query.where_parameters()
    table = query.Columns(np.arange(4096) % 7, np.arange(4096) * 400, 8)
    for value in (0, 6, 7):
        report = query.run_where(parameters, table, value)
        rows = range(value, 4096, 7) if value < 7 else range(0)
        assert report.answer == report.expected == (len(rows), 400 * sum(rows))
    single = query.Columns(np.array([15]), np.array([7_516_372_992]), 16)
    assert query.run_where(parameters, single, 15).answer == (1, 7_516_372_992)
    assert query.run_where(parameters, single, 0).answer == (0, 0)


def test_look_up() -> None:
    """Look-ups in a table of 8 x 8 return its corners, its smallest value and its largest value. The answer contains no
    other value.

    """
    parameters = query.look_up_parameters()
    values = np.arange(64) ** 3
    values[[0, 63]] = 1_073_152, 0
    grid = query.Grid(np.arange(64) * 5 - 100, values, 8)
    for key, value in ((-100, 1_073_152), (215, 0), (-60, 512), (-65, 343)):
        assert query.run_look_up(parameters, grid, key).answer == (value, 0)


def test_look_up_in_a_large_table() -> None:
    """A look-up is right in a table of 64 rows with as many columns as slots, whose last row is not full."""
    keys = np.arange(64 * 4096 - 9)
    grid = query.Grid(keys, keys % 1_000_003, 4096)
    assert (grid.rows, grid.columns) == (64, 4096)
    report = query.run_look_up(query.look_up_parameters(), grid, int(keys[-1]))
    assert report.answer == (int(keys[-1]) % 1_000_003, 0)
    assert report.question > 60 * report.reply


def test_the_server_cannot_read() -> None:
    """Answers are encrypted under the key of the client. Queries for different groups have equal sizes."""
    secret, other = (hg.SecretKey.generate(query.look_up_parameters()) for _ in range(2))
    grid = query.Grid(np.arange(4), np.arange(4), 2)
    server = hg.Server(secret.evaluation_keys())
    answer = query.look_up(query.prepare(secret.parameters, grid), server.from_bytes(query.ask_key(secret, grid, 3)))
    assert secret.decrypt(answer)[1] == 3
    with pytest.raises(hg.WrongKeyError):
        other.decrypt(answer)
    assert len(query.ask_where(secret, 3, 0)) == len(query.ask_where(secret, 3, 2))


def test_impossible_queries() -> None:
    """Each invalid query raises its own error, which lists the allowed values."""
    secret = hg.SecretKey.generate(query.look_up_parameters())
    for value in (-1, 8):
        with pytest.raises(query.QueryError, match=rf"no group {value}; they are 0 to 7"):
            query.ask_where(secret, 8, value)
    grid = query.Grid(np.array([3, 5, 9]), np.arange(3), 2)
    for key in (2, 4, 10, 10**30):
        with pytest.raises(query.QueryError, match=rf"no key {key}; there are 3 from 3 to 9"):
            query.ask_key(secret, grid, key)
    server = hg.Server(secret.evaluation_keys())
    short = server.from_bytes(query.ask_key(secret, query.Grid(np.arange(2), np.arange(2), 2), 1))
    with pytest.raises(query.QueryError, match=r"a query must have the shape \(3,\) for this table, not \(2,\)"):
        query.look_up(query.prepare(secret.parameters, grid), short)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: query.Columns(np.array([0, 8]), np.array([1, 1]), 8), "a row has group 8; they are 0 to 7"),
        (lambda: query.Columns(np.array([-1]), np.array([1]), 8), "a row has group -1"),
        (lambda: query.Columns(np.array([0]), np.array([-5]), 8), "a row has the amount -5"),
        (lambda: query.Columns(np.array([0]), np.array([5]), 17), "17 groups; a column has 1 to 16"),
        (lambda: query.Grid(np.array([1, 1]), np.array([5, 6]), 8), "each key once"),
        (lambda: query.Grid(np.array([]), np.array([]), 8), "has rows and columns"),
        (lambda: query.synthetic(0, 8, 1), "1 or more rows"),
    ],
)
def test_tables_that_do_not_fit(make: object, message: str) -> None:
    """Invalid tables are refused before encryption."""
    with pytest.raises(query.QueryError, match=message):
        make()  # type: ignore[operator]


def test_tables_that_the_sets_do_not_hold() -> None:
    """Tables with more rows than slots, or with sums or values beyond the plaintext modulus, are refused."""
    secret = hg.SecretKey.generate(query.where_parameters())
    with pytest.raises(query.QueryError, match=r"4,097 rows; a ciphertext of .* holds 4,096"):
        query.send_columns(secret, query.Columns(np.zeros(4097, int), np.zeros(4097, int), 2))
    with pytest.raises(query.QueryError, match="add up to 7,516,372,993; sums stay below 7,516,372,993"):
        query.send_columns(secret, query.Columns(np.zeros(1, int), np.array([7_516_372_993]), 2))
    for values, columns, message in (([1_073_153], 1, "holds 1073153"), ([-1], 1, "holds -1"), ([1], 4097, "4,097 columns")):
        with pytest.raises(query.QueryError, match=message):
            query.prepare(query.look_up_parameters(), query.Grid(np.arange(1), np.array(values), columns))


@pytest.mark.parametrize("device", places("cpu", "2*cpu/limb/uncalibrated", "cuda:0", usual=("cpu", "cuda:0")))
@pytest.mark.parametrize("line", ["where --rows 999 --value 5", "look-up --key 63"])
def test_on_a_device(line: str, device: str) -> None:
    """The answer equals the answer in clear on each device, and the output has the name of the device."""
    done = run(*line.split(), "--device", device)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nas in the clear" in done.stdout
    assert f"of the server on {device.split('/')[0].removeprefix('2*')}" in done.stdout


def test_the_program(tmp_path: Path) -> None:
    """Tables can be read from files; errors have one line."""
    (tmp_path / "sales.csv").write_text("region, amount\n1, 10\n0, 5\n1, 7\n")
    done = run("where", "--csv", str(tmp_path / "sales.csv"), "--groups", "2", "--value", "1", "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert "of 3 rows" in done.stdout
    assert "count 2, sum 17\nas in the clear" in done.stdout
    done = run("look-up", "--csv", str(tmp_path / "sales.csv"), "--key", "0")
    assert (done.returncode, done.stdout) == (1, "query: a table has each key once\n")
    (tmp_path / "people.csv").write_text("1742;31\n12;40\n")
    done = run("look-up", "--csv", str(tmp_path / "people.csv"), "--key", "12")
    assert "value 40\nas in the clear" in done.stdout
    (tmp_path / "bad.csv").write_text("1,2\n1,two\n")
    for line, message in (
        (("where", "--csv", str(tmp_path / "bad.csv")), "row 2 is not two integers"),
        (("where", "--csv", "gone.csv"), "gone.csv"),
        (("where", "--value", "8"), "no group 8; they are 0 to 7"),
        (("look-up", "--device", "abacus"), 'unknown device "abacus"'),
    ):
        done = run(*line)
        assert (done.returncode, done.stderr) == (1, "")
        assert message in done.stdout.splitlines()[-1]
