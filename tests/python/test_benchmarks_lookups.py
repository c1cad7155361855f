"""Runs a short benchmark of private look-ups over a service. Answers are right, no call is lost, and the page has the
benchmark's rows.
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


def test_concurrent_clients_get_right_answers(tmp_path: Path) -> None:
    """One client and three concurrent clients get right answers; a batch has at most two queries."""
    out = tmp_path / "lookups.jsonl"
    words = ["--what", "lookups", "--table", "0.001", "--crowds", "1", "3", "--together", "2", "--seconds", "0.5"]
    done = subprocess.run([*module("serving.run"), *words, "--out", str(out)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    (found,) = report["results"]
    assert min(found["library"].values()) > 0
    assert [crowd["clients"] for crowd in found["crowds"]] == [1, 3]
    for crowd in found["crowds"]:
        assert (crowd["wrong"], crowd["refused"]) == (0, [])
        assert crowd["answers"] >= crowd["clients"]
        assert 1 <= crowd["together"] <= 2
        assert 0 < crowd["median"] <= crowd["p99"]

    from benchmarks.report import services

    lines = services.SERVICE({"mine.jsonl": report})
    rows = [line for line in lines if line.startswith("| private look-ups in 0.00")]
    assert [row.split(", ")[1].split(";")[0] for row in rows] == ["1 client", "3 clients at once"]
    assert all("0 refused" in row and " per batch; median " in row for row in rows)
