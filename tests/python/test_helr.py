"""Tests logistic regression on encrypted rows (examples/helr): training steps in clear, tables of data, and errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from alike import load_program

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT.parent / "shared" / "data" / "tabular"


helr = load_program(ROOT / "examples" / "helr" / "helr.py")


def test_a_small_run_equals_the_clear_steps() -> None:
    """For 64 rows of 3 attributes and two iterations, encrypted weights and scores equal the clear results, and the report
    is complete.

    """
    found = helr.run(helr.synthetic(64, 3), 2)
    assert found["largest_weight_error"] < 1e-3
    assert found["largest_score_error"] < 1e-3
    assert (found["rows"], found["test_rows"], found["attributes"], found["depth"]) == (51, 13, 3, 8)
    assert found["encrypted"] == found["same_steps_in_the_clear"]
    assert found["security"] == "128-bit"
    assert set(found["bytes"]) == {"server", "train", "test", "weights", "scores"}


def test_the_clear_steps_are_nesterovs_method() -> None:
    """The clear steps, which write momentum as factors, give the weights of Nesterov's method. The weights of Nesterov's
    method approach the maximum likelihood.

    """
    table = helr.synthetic(300, 3)
    z = table.signed
    w = v = np.zeros(len(z))
    momentum = 1.0
    rate = 3 / (helr.SIGMOID[1] * len(z)) / z.shape[1]
    for _ in range(5):
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        eta = (1 - momentum) / following
        new = v + rate * z @ np.polynomial.polynomial.polyval(-(v @ z), helr.SIGMOID)
        v, w, momentum = (1 - eta) * new + eta * w, new, following
    np.testing.assert_allclose(helr.train_clear(z, 5), w, rtol=1e-12)
    best = helr.quality(table.x @ helr.converged(z), table.y)
    assert best["auc"] - helr.quality(table.x @ helr.train_clear(z, 8), table.y)["auc"] < 0.02


def test_the_server_cannot_read(tmp_path: Path) -> None:
    """The server's folder contains no secret key."""
    table = helr.synthetic(20, 2)
    secret = helr.owner(tmp_path, hg.ckks.parameters(depth=4, precision=20), *helr.split(table, 0.2, 1))
    assert {p.name for p in tmp_path.iterdir()} == {"server.hg", "train.hg", "test.hg"}
    helr.server(tmp_path, 16, 1)
    stranger = hg.SecretKey.generate(secret.parameters)
    with pytest.raises(hg.WrongKeyError):
        stranger.decrypt(hg.load(tmp_path / "weights.hg"))


# Tables


ROWS = np.array([[1.5, 20, 0], [2.5, 10, 2], [3.5, 60, 2], [2.0, 15, 0], [9.0, 15, 2], [0.5, 30, 0]])


@pytest.mark.parametrize(
    ("separator", "header"), [("\t", ""), (", ", "weight, height, y\n"), (";", "a;b;c\n"), ("   ", ""), (" ", "\n\n")]
)
def test_tables_are_read(tmp_path: Path, separator: str, header: str) -> None:
    """Tables are read with and without a header. The larger label is 1; attributes are standardised, and a column of ones
    precedes them.

    """
    path = tmp_path / "table.txt"
    path.write_text(header + "\n".join(separator.join(map(str, row)) for row in ROWS) + "\n")
    table = helr.read(path)
    assert table.y.tolist() == [0, 1, 1, 0, 1, 0]
    clear = ROWS[:, :2]
    expected = np.clip((clear - clear.mean(0)) / clear.std(0), -3, 3)
    np.testing.assert_allclose(table.x, np.column_stack([np.ones(6), expected]))
    np.testing.assert_array_equal(table.signed, (table.x * np.array([-1, 1, 1, -1, 1, -1])[:, None]).T)


def test_a_constant_attribute_is_no_error() -> None:
    """A constant attribute, whose deviation is 0, becomes 0."""
    table = helr.standardised(np.ones((6, 1)), np.arange(6) % 2)
    np.testing.assert_array_equal(table.x[:, 1], np.zeros(6))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"cannot read .*table\.txt: No such file"),
        ("", "holds 0 rows"),
        ("a,b\n1,0\n2,1\n", "holds 2 rows"),
        ("1\n2\n3\n4\n5\n", "holds 5 rows"),
        ("1,0\n2,1\n3,0\n4,1\n5,1,1\n", "rows have 2 to 3 columns"),
        ("1,0\n2,1\n3,x\n4,1\n5,1\n", "row 3: could not convert"),
        ("1,0\n2,1\n3,nan\n4,1\n5,1\n", "not every number is finite"),
        ("1,0\n2,1\n3,2\n4,1\n5,1\n", "3 different values; a label has two"),
        ("1,1\n2,1\n3,1\n4,1\n5,1\n", "1 different values; a label has two"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    """An error names the file and the reason."""
    path = tmp_path / "table.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=message):
        helr.read(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--iterations", "0"], "at least 1"),
        (["--rows", "3"], "--rows 5"),
        (["--iterations", "60"], "60 iterations at 24 bits"),
        (["--precision", "40", "--iterations", "2"], "no parameter set of 128 bits"),
    ],
)
def test_command_lines_that_are_refused(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong options are refused by an error of one line, before any computation."""
    monkeypatch.setattr(sys, "argv", ["helr.py", *arguments])
    with pytest.raises(SystemExit) as stopped:
        helr.main()
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


def test_the_program_reports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The program reports results. The program fails if the encrypted model differs from the clear model."""
    monkeypatch.setattr(
        sys,
        "argv",
        ["helr.py", "--rows", "30", "--attributes", "2", "--iterations", "1", "--json", str(tmp_path / "f.json")],
    )
    helr.main()
    told = capsys.readouterr().out
    for words in ("24 rows of 2 attributes", "1 iterations", "6 rows", "encrypted", "largest error"):
        assert words in told
    assert (tmp_path / "f.json").stat().st_size > 100
    original = helr.train_clear

    def other(z: Any, iterations: int) -> Any:
        return original(z, iterations) + 0.5

    monkeypatch.setattr(helr, "train_clear", other)
    with pytest.raises(SystemExit, match="not the clear one"):
        helr.main()


@pytest.mark.parametrize("name", ["lbw", "edin", "pcs", "uis"])
def test_published_tables(name: str) -> None:
    """Published tables are read, and the model fits them nearly as well as a converged model. One of the tables is
    encrypted.
    """
    path = TABLES / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {TABLES}")
    table = helr.read(path)
    z = table.signed
    few, all_the_way = (helr.quality(table.x @ w, table.y)["auc"] for w in (helr.train_clear(z, 8), helr.converged(z)))
    assert 0.5 < all_the_way - 0.05 < few
    if name == "lbw":
        found = helr.run(helr.Table(table.x[:, :4], table.y), 1)
        assert max(found["largest_weight_error"], found["largest_score_error"]) < 1e-3
