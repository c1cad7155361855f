"""Over many rounds of mixed operations, the use of memory is constant, and freed memory is reused without page faults."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import heliograph as hg
from benchmarks.report import results
from figures_rig import ROOT, module

ROUNDS = 14


@pytest.mark.skipif(
    not hg.devices()[0].startswith("cpu") and "PYTEST_XDIST_WORKER" in os.environ,
    reason="a GPU's bytes in use include those of concurrent tests",
)
@pytest.mark.parametrize("name", [pytest.param("ckks:n15-l20", marks=pytest.mark.full), "bgv:bgv-n15"])
def test_memory_use_of_mixed_operations_is_constant(name: str, tmp_path: Path) -> None:
    """Blocks of every size are allocated and freed. Freed memory must be reused, whole or split."""
    out = tmp_path / "mix.jsonl"
    command = [
        *module("runners.mix"),
        "--sets",
        name,
        "--items",
        "2",
        "--rounds",
        str(ROUNDS),
        "--alone",
        "1",
        "--out",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    row = results.read(out)["results"][0]
    used = row["bytes_after_round"]
    assert len(used) == ROUNDS
    mebibytes = [round(b / 2**20) for b in used]
    assert used[-1] <= used[6] + (8 << 20), f"bytes in use increased: {mebibytes} MiB"
    if hg.devices()[0].startswith("cpu"):
        # Memory that is reused causes no page faults; a new huge page would cause one.
        computed = {k: v["page_faults"] for k, v in row["operations"].items() if k not in ("to bytes and back", "encrypt")}
        assert max(computed.values()) < 3, f"page faults per call: {computed}"
