"""The benchmark of look-ups over a service, small: answers are right, none is lost, and the page has a row for each crowd."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from figures_rig import FOLDER

for needed in ("starlette", "uvicorn", "prometheus_client"):
    pytest.importorskip(needed)
pytestmark = [
    pytest.mark.usefixtures("benchmarks"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate by OpenSSL's command"),
]


def test_crowds_look_up(tmp_path: Path) -> None:
    """Two crowds, two questions a reading at most."""
    out = tmp_path / "lookups.json"
    words = ["--what", "lookups", "--table", "0.001", "--crowds", "1", "3", "--together", "2", "--seconds", "0.5"]
    done = subprocess.run(
        [sys.executable, str(FOLDER / "serving.py"), *words, "--out", str(out)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    found = report["lookups"]
    assert min(found["library"].values()) > 0
    assert [crowd["clients"] for crowd in found["crowds"]] == [1, 3]
    for crowd in found["crowds"]:
        assert (crowd["wrong"], crowd["refused"]) == (0, [])
        assert crowd["answers"] >= crowd["clients"]
        assert 1 <= crowd["together"] <= 2
        assert 0 < crowd["median"] <= crowd["p99"]

    import pages
    import serving_tables

    lines = serving_tables.service({"mine.json": report}, pages.table.seconds)
    rows = [line for line in lines if line.startswith("| private look-ups in 0.00")]
    assert [row.split(", ")[1].split(";")[0] for row in rows] == ["1 client", "3 clients at once"]
    assert all("0 refused" in row and " a reading; median " in row for row in rows)
