"""The TFHE applications in examples/ give exactly the integers of the clear computation. The tests use small fast sets."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from alike import load_program
from tfhe_rig import party, stranger

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


regression = load_program(EXAMPLES / "tfhe_regression" / "regression.py")
lookup = load_program(EXAMPLES / "tfhe_lookup" / "lookup.py")
NARROW = regression.Format(16, 4, 4.0)


# Regression


@pytest.mark.parametrize("encoding", ["digits", "bits"])
@pytest.mark.parametrize("binary", [False, True], ids=["numeric", "binary"])
@pytest.mark.parametrize("mode", ["sums", "step"])
def test_regression(tmp_path: Path, mode: str, binary: bool, encoding: str) -> None:
    """Each mode of the regression is right on 12 rows of 3 attributes. Integers are exact and differ from floating point by
    no more than the tolerance.

    """
    table = regression.synthetic(12, 3, NARROW, binary=binary)
    report = regression.run(party(encoding).secret, table, mode, tmp_path)
    assert report.exact
    assert report.error <= report.allowed < 0.2
    assert report.result.shape == ((2, 3) if mode == "sums" else (4,))
    assert report.bootstraps > 0


@pytest.mark.parametrize("mode", ["sums", "step"])
def test_regression_in_wide_numbers(tmp_path: Path, mode: str) -> None:
    """The number format for large tables, which has values of 16 bits and sums of 32 bits, is exact for more rows than one
    dot-product circuit takes.

    """
    fmt = regression.Format(32, 8, 8.0)
    assert (fmt.sent, fmt.name) == ("int16", "Q23.8 in int32")
    report = regression.run(party().secret, regression.synthetic(18, 1, fmt), mode, tmp_path)
    assert report.exact
    assert report.error <= report.allowed < 0.01


def test_steps_of_the_regression_continue(tmp_path: Path) -> None:
    """Three encrypted steps give the integers of three clear steps, which are close to floating point. One step gives a
    different result from three steps.

    """
    table = regression.synthetic(6, 2, NARROW, binary=True)
    (tmp_path / "one").mkdir()
    three = regression.run(party().secret, table, "step", tmp_path, steps=3)
    one = regression.run(party().secret, table, "step", tmp_path / "one")
    assert three.exact
    assert three.error <= three.allowed
    assert three.bootstraps == 3 * one.bootstraps
    assert three.result.tolist() != one.result.tolist()


def test_regression_counts_many_rows(tmp_path: Path) -> None:
    """Counts of bits are right for more rows than the circuit of one sum takes."""
    table = regression.synthetic(150, 2, NARROW, binary=True)
    report = regression.run(party().secret, table, "sums", tmp_path)
    assert report.exact
    assert report.error <= report.allowed


@pytest.mark.parametrize("broken", ["xy", "firsts"])
def test_the_regression_reports_a_wrong_answer(tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an answer is wrong, this is reported."""
    server = regression.server_sums

    def wrong(folder: Path, fmt: Any) -> None:
        server(folder, fmt)
        path = folder / f"{broken}.hg"
        (party().server.load(path) + 1).save(path)

    monkeypatch.setattr(regression, "server_sums", wrong)
    assert not regression.run(party().secret, regression.synthetic(4, 1, NARROW), "sums", tmp_path).exact


#: Rows, attributes and boolean attributes of four public tables whose targets are booleans (benchmarks/runners/training.py).
LIKE = {"lbw": (189, 9, 6), "pcs": (379, 9, 3), "uis": (575, 8, 3), "edin": (1253, 9, 9)}


def table_like(name: str, folder: Path, *, rows: int | None = None, binary: bool = False) -> Any:
    """Writes and reads a table like a public table: booleans, counts, measures of different sizes, and a target that depends
    on them.
    """
    all_rows, attributes, bits = LIKE[name]
    rng = np.random.default_rng(len(name) + all_rows)
    x = np.round(rng.gamma(3, 12, (all_rows, attributes)), 1)
    x[:, :bits] = rng.random((all_rows, bits)) < 0.3
    y = (x / x.std(0)) @ rng.uniform(-1, 1, attributes) + rng.normal(size=all_rows)
    path = folder / f"{name}.txt"
    path.write_text("\n".join("\t".join(f"{v:g}" for v in row) for row in np.column_stack([x, y > np.median(y)])))
    return regression.read_table(path, regression.Format(32, 8, 8.0), rows=rows, attributes=attributes, binary=binary)


WHOLE = [pytest.param(name, marks=[pytest.mark.full] if name in ("uis", "edin") else []) for name in LIKE]


@pytest.mark.parametrize("name", WHOLE)
def test_sums_of_bits_of_complete_public_tables(tmp_path: Path, name: str) -> None:
    """On all rows of a table of a public table's shape, the integers equal those of the clear model."""
    table = table_like(name, tmp_path, binary=True)
    assert table.x.shape == LIKE[name][:2]
    (tmp_path / "run").mkdir()
    report = regression.run(party().secret, table, "sums", tmp_path / "run")
    assert report.exact
    assert report.error <= report.allowed
    assert report.right is None


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.full] if n != "lbw" else []) for n in LIKE])
def test_a_step_on_some_rows_of_public_tables(tmp_path: Path, name: str) -> None:
    """With all attributes in the number format for large tables, integers and accuracy equal the clear ones, and the
    tolerance is kept.

    """
    table = table_like(name, tmp_path, rows=5)
    (tmp_path / "run").mkdir()
    report = regression.run(party().secret, table, "step", tmp_path / "run")
    assert report.exact
    assert report.error <= report.allowed < 0.05
    assert report.right is not None
    assert abs(report.right[0] - report.right[1]) <= 0.2  # the two models classify at most one row in five differently


@pytest.mark.full
def test_a_step_of_bits_of_a_complete_public_table(tmp_path: Path) -> None:
    """A step on a table of 189 x 9, which takes 150,000 bootstraps, is exact."""
    table = table_like("lbw", tmp_path, binary=True)
    (tmp_path / "run").mkdir()
    report = regression.run(party().secret, table, "step", tmp_path / "run")
    assert report.exact
    assert report.error <= report.allowed
    assert report.right == pytest.approx((report.right[0],) * 2, abs=0.02)


def test_another_learning_rate_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another learning rate gives other integers, and the tolerance does not hide the difference."""
    server = regression.server_step
    monkeypatch.setattr(regression, "server_step", lambda folder, fmt, rate, steps: server(folder, fmt, rate + 1, steps))
    table = regression.synthetic(12, 2, NARROW, binary=True)
    assert not regression.run(party().secret, table, "step", tmp_path).exact


def test_clear_training_goes_towards_least_squares(tmp_path: Path) -> None:
    """After fifty clear steps the integers are near floating point, and predictions are like those of the least-squares
    model.
    """
    table = table_like("pcs", tmp_path)
    made = [regression.clear_training(table, steps) for steps in (1, 50)]
    for training, steps in zip(made, (1, 50), strict=True):
        distance = np.abs(table.fmt.real(training.exact) - training.real).max()
        assert distance <= regression.tolerance(table, regression.rate_of(379), steps)
    x, y = table.real()
    solved = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
    best = regression.accuracy(table, solved)
    assert best > 0.7
    assert abs(regression.accuracy(table, table.fmt.real(made[1].exact)) - best) < 0.03
    assert regression.accuracy(table, -solved) < 0.3


def test_the_regression_server_cannot_read(tmp_path: Path) -> None:
    """The folder of the server has only evaluation keys and tensors. The tensors cannot be decrypted without the secret key."""
    table = regression.synthetic(4, 1, NARROW, binary=True)
    regression.send_table(party().secret, table, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"keys.hg", "x.hg", "y.hg"}
    regression.server_sums(tmp_path, NARROW)
    with pytest.raises(hg.WrongKeyError):
        regression.read_sums(stranger().secret, table, tmp_path)


def test_the_regression_refuses_numbers_that_are_too_wide() -> None:
    """Numbers that are too wide are refused before encryption."""
    x = np.full((20, 1), 64)
    table = regression.Table(x, x[:, 0], NARROW)
    with pytest.raises(ValueError, match=r"a sum of xy reaches 81920, beyond int16"):
        regression.clear_sums(table)
    with pytest.raises(ValueError, match="the gradient reaches"):
        regression.clear_step(table, np.array([-16]), 0, 6)


def test_regression_reads_tables(tmp_path: Path) -> None:
    """Tables with and without a header are read, separated by tabs, blanks and commas. The last column is the target."""
    x = np.array([[1.5, 20, 0], [2.5, 10, 1], [3.5, 60, 1]])
    tabs, blanks, commas = (tmp_path / name for name in ("tabs.txt", "blanks", "table.csv"))
    tabs.write_text("\n".join("\t".join(map(str, row)) for row in x))
    blanks.write_text("   0    1  Target\n" + "\n".join("  ".join(map(str, row)) + " " for row in x))
    commas.write_text("a, b, y\n" + "\n\n".join(", ".join(map(str, row)) for row in x) + "\n")
    wide = regression.Format(32, 8, 8.0)
    made = [regression.read_table(path, wide) for path in (tabs, blanks, commas)]
    expected = np.rint((x - x.mean(0)) / x.std(0) * 256)
    for table in made:
        np.testing.assert_array_equal(table.x, expected[:, :2])
        np.testing.assert_array_equal(table.y, expected[:, 2])
    few = regression.read_table(tabs, wide, rows=2, attributes=1, binary=True)
    np.testing.assert_array_equal(few.x, [[False], [True]])
    assert (few.y.tolist(), few.binary) == ([False, True], True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rows"),
        ("1\n2\n", "holds no rows"),
        ("1,2\n3\n", "row 2 has 1 columns, others have 2"),
        ("1,2\n3,x\n", "row 2 must hold numbers only"),
    ],
)
def test_regression_refuses_tables(tmp_path: Path, text: str, message: str) -> None:
    """Invalid tables are refused; the error names the file and the row."""
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"bad\.csv.* {message}|bad\.csv {message}"):
        regression.read_table(path, NARROW)


# Look-up


@pytest.mark.parametrize("encoding", ["digits", "bits"])
@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "encrypted"])
@pytest.mark.parametrize("unique", [False, True], ids=["repeated", "unique"])
def test_look_up(tmp_path: Path, unique: bool, encrypted: bool, encoding: str) -> None:
    """For keys that exist and for a missing key, look-ups give the right match bits, counts and sums."""
    table = lookup.synthetic(9, 2, 8, 8, unique=unique)
    missing = next(k for k in range(256) if k not in table.keys)
    for asked in (int(table.keys[4]), missing):
        report = lookup.run(party(encoding).secret, table, asked, tmp_path, encrypted=encrypted)
        assert report.exact
        assert report.count == np.count_nonzero(table.keys == asked)
    if unique:
        row = int(np.flatnonzero(table.keys == table.keys[4])[0])
        report = lookup.run(party(encoding).secret, table, int(table.keys[row]), tmp_path, encrypted=encrypted)
        np.testing.assert_array_equal(report.total, table.values[row])


def test_look_up_of_wide_keys_in_many_rows(tmp_path: Path) -> None:
    """A look-up is right if it has more rows than one circuit sums, and if sums are wider than the values."""
    table = lookup.synthetic(70, 1, 32, 16, seed=3)
    assert table.sum_dtype == "uint24"
    report = lookup.run(party().secret, table, int(table.keys[7]), tmp_path)
    assert report.exact
    assert report.count >= 1


def test_look_up_reads_tables(tmp_path: Path) -> None:
    """The bit widths follow from the values."""
    path = tmp_path / "people.csv"
    path.write_text("id,age,height\n1742,33,1810\n90,25,1690\n1742,70,1754\n")
    table = lookup.read_table(path)
    assert (table.key_bits, table.value_bits, table.sum_dtype, table.count_dtype) == (16, 16, "uint16", "uint8")
    report = lookup.run(party().secret, table, 1742, tmp_path)
    assert report.match.tolist() == [True, False, True]
    assert (report.count, report.total.tolist()) == (2, [103, 3564])
    for text, message in (("1,2\n3,-4\n", "row 2 is not 2 unsigned"), ("a,b\n", "holds no rows"), ("1\n", "holds no rows")):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            lookup.read_table(path)


def test_the_look_up_refuses_wide_keys(tmp_path: Path) -> None:
    """A key beyond the width of the table is refused, and so are too many distinct keys."""
    table = lookup.synthetic(2, 1, 8, 8)
    with pytest.raises(hg.PlaintextRangeError, match="uint8"):
        lookup.run(party().secret, table, 300, tmp_path)
    with pytest.raises(ValueError, match="too few for 300 different keys"):
        lookup.synthetic(300, 1, 8, 8, unique=True)


# Commands


def run_main(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs the main function of a program with a small set instead of the named set."""
    small = party().parameters
    monkeypatch.setattr(hg.tfhe, "parameters", lambda name, insecure=False: small)
    monkeypatch.setattr(sys, "argv", ["example", *arguments])
    return int(module.main())


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The programs print their tables and an estimate; errors have one line."""
    assert run_main(regression, monkeypatch) == 0
    said = capsys.readouterr().out
    assert "sums of 8 rows x 2 attributes, numeric, Q11.4 in int16" in said
    assert "equal" in said
    assert "slopes: " in said
    assert run_main(regression, monkeypatch, "--mode", "step", "--data", "binary", "--rows", "5") == 0
    said = capsys.readouterr().out
    assert "weights and intercept: " in said
    assert re.search(r"rows predicted on the right side of the mean: [\d.]+%, after training in the clear [\d.]+%", said)
    large = ["--rows", "300", "--attributes", "20", "--width", "32", "--fraction", "8", "--limit", "8", "--estimate"]
    assert run_main(regression, monkeypatch, *large) == 0
    assert " bootstraps; at " in capsys.readouterr().out
    assert run_main(regression, monkeypatch, "--csv", str(tmp_path / "nowhere")) == 1
    assert capsys.readouterr().out.startswith("regression: ")
    assert run_main(lookup, monkeypatch, "--rows", "4", "--table", "encrypted") == 0
    assert "exact" in capsys.readouterr().out
    assert run_main(lookup, monkeypatch, "--key", "-1") == 1
    assert capsys.readouterr().out.startswith("lookup: ")
