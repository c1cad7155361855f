"""Tests the benchmark that compares placed with automatic bootstraps (benchmarks/runners/placement.py), on a small insecure
set.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.report import results


def test_both_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The programs with placed and with automatic bootstraps are correct. The predicted time with placed bootstraps is not
    longer than with automatic bootstraps.
    """
    from benchmarks.runners import placement

    out = tmp_path / "placement.jsonl"
    small = ["--set", "small", "--only", "helr", "--features", "3", "--rows", "128", "--iterations", "3", "--times", "1"]
    monkeypatch.setattr(sys, "argv", ["placement.py", *small, "--out", str(out)])
    placement.main()
    report = results.read(out)
    (row,) = report["results"]
    assert report["kind"] == "placement"
    assert row["bootstraps"] <= row["automatic_bootstraps"]
    assert 0 < row["predicted_s"] <= row["automatic_predicted_s"]
    assert "HELR, 3 iterations" in capsys.readouterr().out
