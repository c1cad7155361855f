"""The benchmark of calls while connections die, small: none is lost, no answer is wrong, and the page has a row for it."""

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


def test_events_while_clients_ask(tmp_path: Path) -> None:
    """Some connections die; the dice of the first events choose no stop of the service."""
    out = tmp_path / "cuts.json"
    words = ["--what", "cuts", "--events", "3", "--askers", "1", "--out", str(out)]
    done = subprocess.run([sys.executable, str(FOLDER / "serving.py"), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    found = report["cuts"]
    assert (found["lost"], found["wrong"]) == ([], 0)
    assert sum(found["kinds"].values()) == found["events"] == 3
    assert found["calls"] > 3

    import pages
    import serving_tables

    (row,) = (line for line in serving_tables.service({"mine.json": report}, pages.table.seconds) if " events " in line)
    assert row.startswith("| 3 events while 1 client asks digits and one uploads: ")
    assert f"of {found['calls']} calls and {found['uploads']} uploads 0 lost, 0 wrong" in row
