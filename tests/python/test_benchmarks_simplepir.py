"""The benchmark of look-ups beside SimplePIR, with a program in its place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from figures_rig import FOLDER, program_of

pytestmark = pytest.mark.usefixtures("benchmarks")

#: Which table it was told of and which cores it may use; calls take 1, 2, 3, ... seconds.
PEER = """
    import itertools, json, os, sys

    times = itertools.count(1)
    for line in sys.stdin:
        word, value = line.split()
        if word == "prepare":
            rows, width = map(int, value.split("x"))
            if width == 100:
                sys.exit(3)
            found = {"first_s": 0.5, "prepare_s": 90.5, "ask_s": 0.25, "read_s": 0.1, "table_bytes": rows * width}
            found |= {"hint_bytes": 12_345_678, "up_bytes": 2000, "down_bytes": 3000, "affinity": len(os.sched_getaffinity(0))}
            found |= {"parameters": {"dimension": 1024, "log_q": 32, "deviation": 6.4, "plain_modulus": 991, "matrix": [1, 2]}}
        else:
            found = {"times_s": [next(times) for _ in range(int(value))]}
        print(json.dumps(found), flush=True)
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Our side beside a program that stands for SimplePIR's."""
    peer = program_of(folder / "simplepir", PEER)
    command = [sys.executable, str(FOLDER / "beside_simplepir.py"), "--peer", str(peer), "--megabytes", "1", *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_both_sides_are_measured(tmp_path: Path) -> None:
    """On the same core; the medians of all turns; lines of the table."""
    import lookup_tables

    out = tmp_path / "beside.json"
    done = run(tmp_path, "--turns", "3", "--seconds", "0.01", "--out", str(out))
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    (row,) = report["results"]
    ours, peer = row["ours"], row["peer"]
    assert (row["rows"], row["row_bytes"], report["peer_commit"]) == (4096, 256, "unknown")
    assert (peer["affinity"], peer["runs"], peer["median_s"]) == (1, 3, 2)
    assert row["ratio"] == 2 / ours["median_s"]
    assert (ours["hint_bytes"], ours["table_bytes"]) == (0, 1 << 20)
    assert ours["up_bytes"] > 4 * ours["parameters"]["matrix"][0]
    assert peer["bytes_per_second"] == 2**20 / 2
    lines = "\n".join(lookup_tables.beside({"mine.json": report}, lambda s: f"{s:.2f} s"))
    assert "| 2.00 s | 12 MB | 2 kB | 3 kB | 90.50 s | 0.25 s | 128-bit, as its paper states |" in lines
    assert "| nothing |" in lines


def test_a_peer_that_ends_or_is_not_built_is_told_of(tmp_path: Path) -> None:
    """And what is no clone of it."""
    done = run(tmp_path, "--row-bytes", "100")
    assert (done.returncode, "the peer ended with 3" in done.stderr) == (1, True)
    for name in ("empty", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "git").symlink_to(str(shutil.which("git")))
    command = [sys.executable, str(FOLDER / "beside_simplepir.py"), "--peer", str(tmp_path / "empty")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": str(tmp_path / "bin")})
    assert done.returncode == 1
    assert "the peer's program is not built: there is no Go" in done.stderr
