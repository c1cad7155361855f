"""Placed bootstraps beside automatic ones (benchmarks/placement.py), on a small set without security."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_both_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And are right; the placed one is predicted to be no slower."""
    import placement

    out = tmp_path / "placement.json"
    small = ["--set", "small", "--only", "helr", "--features", "3", "--rows", "128", "--iterations", "3", "--times", "1"]
    monkeypatch.setattr(sys, "argv", ["placement.py", *small, "--out", str(out)])
    placement.main()
    report = json.loads(out.read_text())
    (row,) = report["results"]
    assert report["kind"] == "placement"
    assert row["bootstraps"] <= row["automatic_bootstraps"]
    assert 0 < row["predicted_s"] <= row["automatic_predicted_s"]
    assert "HELR, 3 iterations" in capsys.readouterr().out
