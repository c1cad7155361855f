"""Many rounds of a mix of operations: memory stays flat, and nothing is cleared anew in each round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import heliograph as hg

MIX = Path(__file__).resolve().parents[2] / "benchmarks" / "mix.py"
ROUNDS = 14


@pytest.mark.skipif(
    not hg.devices()[0].startswith("cpu") and "PYTEST_XDIST_WORKER" in os.environ,
    reason="a GPU's bytes in use are those of all tests that run on it now",
)
@pytest.mark.parametrize("name", [pytest.param("ckks:n15-l20", marks=pytest.mark.full), "bgv:bgv-n15"])
def test_memory_is_flat_over_a_mix(name: str, tmp_path: Path) -> None:
    """Blocks of every size come and go; what one operation freed must serve the next, whole or in pieces."""
    out = tmp_path / "mix.json"
    command = [
        sys.executable,
        str(MIX),
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
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    row = json.loads(out.read_text())["results"][0]
    used = row["bytes_after_round"]
    assert len(used) == ROUNDS
    mebibytes = [round(b / 2**20) for b in used]
    assert used[-1] <= used[6] + (8 << 20), f"bytes in use grew: {mebibytes} MiB"
    if hg.devices()[0].startswith("cpu"):
        # Memory that is handed out again faults no more; a fresh huge page would fault once.
        computed = {k: v["page_faults"] for k, v in row["operations"].items() if k not in ("to bytes and back", "encrypt")}
        assert max(computed.values()) < 3, f"page faults a call: {computed}"
