"""Runs the benchmark of functions on a small set."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.report import results


def test_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results file has the promised error and the largest measured error of each function. No measured error exceeds the
    promised error.
    """
    from benchmarks.runners import functions

    path = tmp_path / "small-functions.jsonl"
    monkeypatch.setattr(sys, "argv", ["functions", "--small", "--calls", "1", "--out", str(path)])
    functions.main()
    rows = results.read(path)["results"]
    assert {row["function"] for row in rows} == {case.name for case in functions.CASES}
    assert all(row["log2_largest"] <= row["log2_promised"] for row in rows)
