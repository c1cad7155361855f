"""Tests the benchmark of signs and comparisons (benchmarks/runners/orders.py) on small parameter sets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.report import results


def test_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results file has every case, and no measured error exceeds the promised error."""
    from benchmarks.runners import orders

    path = tmp_path / "small-orders.jsonl"
    monkeypatch.setattr(sys, "argv", ["orders", "--small", "--calls", "1", "--out", str(path)])
    orders.main()
    rows = results.read(path)["results"]
    assert [row["case"] for row in rows] == list(orders.CASES)
    assert all(row["log2_largest"] <= row["log2_promised"] < -5 for row in rows)
    assert all(row["seconds"] > 0 for row in rows)
