"""Tests the benchmark of keys for levels and matrices (benchmarks/runners/level_keys.py) on a small parameter set."""

from __future__ import annotations

import heliograph as hg
from benchmarks.runners import level_keys
from ckks_rig import parameters


def test_the_cases_run_on_a_small_set() -> None:
    """Each case has a time and the bytes of its keys; keys for a level and compact plaintexts take fewer bytes."""
    secret = hg.SecretKey.generate(parameters())
    cases = [
        *level_keys.rotations(secret, 3),
        *level_keys.matrices(secret, 3),
        *level_keys.blocks(secret, 3),
    ]
    rows = {name: level_keys.measured(name, call, sizes, 0) for name, call, sizes in cases}
    assert list(rows) == [
        "rotation-usual-l3",
        "rotation-level-l3",
        "matrix64-transformed-l3",
        "matrix64-compact-l3",
        "blocks4x4-l3",
        "singles4x4-l3",
    ]
    assert all(row["median_s"] > 0 and row["key_bytes"] > 0 for row in rows.values())
    assert rows["rotation-level-l3"]["key_bytes"] < rows["rotation-usual-l3"]["key_bytes"]
    assert rows["matrix64-compact-l3"]["plaintext_bytes"] < rows["matrix64-transformed-l3"]["plaintext_bytes"]
