"""Tests the benchmark of bootstraps by period (benchmarks/runners/bootstrap_periods.py) on a small parameter set."""

from __future__ import annotations

import heliograph as hg
from benchmarks.runners import bootstrap_periods


def test_rows_on_a_small_set() -> None:
    """Each level and period has a row for one ciphertext and for a pair; counts fall with the period."""
    p = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True)
    rows = {row["case"]: row for row in bootstrap_periods.rows_of(p, [5], [256, 64], 1e-6)}
    assert list(rows) == [f"l5-p{period}-x{items}" for period in (1024, 256, 64) for items in (1, 2)]
    assert all(row["median_s"] > 0 and row["bytes_read"] > 0 for row in rows.values())
    for items in (1, 2):
        products = [rows[f"l5-p{period}-x{items}"]["products"] for period in (1024, 256, 64)]
        assert products == sorted(products, reverse=True)
