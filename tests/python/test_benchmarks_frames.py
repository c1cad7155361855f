"""Tests the benchmark of encrypted data frames (benchmarks/runners/frames.py) on small tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.report import results


def test_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results file has the error and the seconds of each statistic."""
    pytest.importorskip("sklearn")
    from benchmarks.runners import frames

    path = tmp_path / "small-frames.jsonl"
    monkeypatch.setattr(sys, "argv", ["frames", "--rows", "300", "--calls", "1", "--out", str(path)])
    frames.main()
    rows = {row["statistic"]: row for row in results.read(path)["results"]}
    assert list(rows) == ["describe", "corr", "least_squares", "logistic_regression"]
    assert all(row["error"] < 1e-6 for name, row in rows.items() if name != "logistic_regression")
    assert rows["logistic_regression"]["error"] < 0.01
    assert all(row["server_seconds"] > 0 and row["answer_bytes"] > 0 for row in rows.values())
