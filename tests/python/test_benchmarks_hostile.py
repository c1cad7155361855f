"""Runs a short benchmark of clients beside a malicious client. No other client fails, and the page has a row for each phase."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.report import results
from figures_rig import ROOT, module

for needed in ("starlette", "uvicorn", "prometheus_client", "grpc"):
    pytest.importorskip(needed)
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command to make a certificate")


@pytest.mark.full
def test_no_client_fails_beside_a_malicious_one(tmp_path: Path) -> None:
    """All attacks run at the same time. No call of another client fails or is wrong."""
    out = tmp_path / "hostile.jsonl"
    words = ["--what", "hostile", "--seconds", "1", "--pairs", "1", "--tenants", "2", "--out", str(out)]
    done = subprocess.run([*module("serving.run"), *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    (found,) = report["results"]
    (pair,) = found["pairs"]
    assert (found["failures"], found["wrong"], pair["beside"]["failures"]) == (0, 0, [])
    assert min(pair[phase]["answers"] for phase in ("alone", "beside")) >= 2
    made = {" ".join(word for word in name.split() if word.islower() or "=" in word) for name in pair["done"]}
    attacks = {"unfinished uploads", "announced bytes", "tiny objects", "wait=nan", "wrong tokens", "reused ids"}
    assert made >= attacks | {"idle connections", "watchers", "slow requests"}

    from benchmarks.report import services

    lines = services.SERVICE({"mine.jsonl": report})
    rows = [line for line in lines if line.startswith("| 2 tenants at once, digits")]
    assert [", alone," in row for row in rows] == [True, False]
    assert "; 0 failures" in rows[1]
