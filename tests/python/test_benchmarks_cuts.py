"""Runs a short benchmark of calls during connection losses. No call is lost, no answer is wrong, and the page has the
benchmark's row.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.report import results
from figures_rig import ROOT, module

for needed in ("starlette", "uvicorn", "prometheus_client"):
    pytest.importorskip(needed)
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command to make a certificate")


def test_calls_during_connection_losses_are_not_lost(tmp_path: Path) -> None:
    """If connections fail, no call is lost and no answer is wrong. The first random events do not include a stop of the
    service.

    """
    out = tmp_path / "cuts.jsonl"
    words = ["--what", "cuts", "--events", "3", "--askers", "1", "--out", str(out)]
    done = subprocess.run([*module("serving.run"), *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    (found,) = report["results"]
    assert (found["lost"], found["wrong"]) == ([], 0)
    assert sum(found["kinds"].values()) == found["events"] == 3
    assert found["calls"] > 3

    from benchmarks.report import services

    (row,) = (line for line in services.SERVICE({"mine.jsonl": report}) if " events " in line)
    assert row.startswith("| 3 events while 1 client asks digits and one uploads: ")
    assert f"of {found['calls']} calls and {found['uploads']} uploads 0 lost, 0 wrong" in row
