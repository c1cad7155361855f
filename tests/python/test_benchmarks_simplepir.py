"""The benchmark of private look-ups beside SimplePIR (the peer), with a simulated peer program."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.report import results
from figures_rig import ROOT, module, program_of

#: A simulated peer that reports its table and the cores that it may use; calls take 1, 2, 3, ... seconds.
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
    """Runs our library beside the simulated peer."""
    peer = program_of(folder / "simplepir", PEER)
    command = [*module("peers.simplepir"), "--peer", str(peer), "--megabytes", "1", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_both_sides_are_measured(tmp_path: Path) -> None:
    """Both sides use the same core, times are medians over all turns, and the table has a line for each side."""
    from benchmarks.report import services

    out = tmp_path / "beside.jsonl"
    done = run(tmp_path, "--turns", "3", "--seconds", "0.01", "--out", str(out))
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    (row,) = report["results"]
    ours, peer = row["ours"], row["peer"]
    assert (row["rows"], row["row_bytes"], report["peer_commit"]) == (4096, 256, "unknown")
    assert (peer["affinity"], peer["runs"], peer["median_s"]) == (1, 3, 2)
    assert row["ratio"] == 2 / ours["median_s"]
    assert (ours["hint_bytes"], ours["table_bytes"]) == (0, 1 << 20)
    assert ours["up_bytes"] > 4 * ours["parameters"]["matrix"][0]
    assert peer["bytes_per_second"] == 2**20 / 2
    lines = "\n".join(services.SIMPLEPIR({"mine.jsonl": report}))
    assert "| 2 s | 12 MB | 2 kB | 3 kB | 90.5 s | 250 ms | 128-bit, as its paper states |" in lines
    assert "| nothing |" in lines


def test_a_peer_that_exits_or_is_not_built_is_reported(tmp_path: Path) -> None:
    """The benchmark reports a peer that exits, and a folder that does not contain a built clone of the peer."""
    done = run(tmp_path, "--row-bytes", "100")
    assert (done.returncode, "the peer ended with 3" in done.stderr) == (1, True)
    for name in ("empty", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "git").symlink_to(str(shutil.which("git")))
    command = [*module("peers.simplepir"), "--peer", str(tmp_path / "empty")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PATH": str(tmp_path / "bin")}
    )
    assert done.returncode == 1
    assert "cannot build the peer's program: install Go" in done.stderr
