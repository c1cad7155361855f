"""The benchmark of tenants beside a hostile one, short: none of them fails, and the page has a row for each phase."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from figures_rig import FOLDER

for needed in ("starlette", "uvicorn", "prometheus_client", "grpc"):
    pytest.importorskip(needed)
pytestmark = [
    pytest.mark.usefixtures("benchmarks"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate by OpenSSL's command"),
]


@pytest.mark.full
def test_tenants_beside_a_hostile_one(tmp_path: Path) -> None:
    """All attacks at once cost nobody an answer; each was made."""
    out = tmp_path / "hostile.json"
    words = ["--what", "hostile", "--seconds", "1", "--pairs", "1", "--tenants", "2", "--out", str(out)]
    done = subprocess.run([sys.executable, str(FOLDER / "serving.py"), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    found = report["hostile"]
    (pair,) = found["pairs"]
    assert (found["failures"], found["wrong"], pair["beside"]["failures"]) == (0, 0, [])
    assert min(pair[phase]["answers"] for phase in ("alone", "beside")) >= 2
    made = {" ".join(word for word in name.split() if word.islower() or "=" in word) for name in pair["done"]}
    attacks = {"unfinished uploads", "announced bytes", "tiny objects", "wait=nan", "wrong tokens", "reused ids"}
    assert made >= attacks | {"idle connections", "watchers", "slow requests"}

    import pages
    import serving_tables

    lines = serving_tables.service({"mine.json": report}, pages.table.seconds)
    rows = [line for line in lines if line.startswith("| 2 tenants at once, digits")]
    assert [", alone," in row for row in rows] == [True, False]
    assert "; 0 failures" in rows[1]
