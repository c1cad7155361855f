"""The benchmark of CKKS beside OpenFHE (the peer), with a simulated peer program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import results
from figures_rig import ROOT, module, program_of, require_lines, table_of

#: A simulated peer that gives the same answer for every case, with the cores that it may use; calls take 2, 4, 6, ...
#: seconds.
PEER = """
    import itertools, json, os, sys

    levels = {"levels": 23, "level_before": 1, "level_after": 5}
    cores = {"affinity": len(os.sched_getaffinity(0)), "openmp": os.environ["OMP_NUM_THREADS"]}
    parameters = {"n": 2**16, "log_q": 1231.4, "log_qp": 1651.4, "log_scale": 51, "limbs": 24, "special": 7, "digits": 3}
    parameters |= levels | {"security": "128-bit"}
    told = {"parameters": parameters, "first_s": 0.5, "keys_s": 40.5, "version": "v1.5.1", "hexl": True, **cores}
    times = itertools.count(2, 2)
    for line in sys.stdin:
        word, value = line.split()
        if value == "rotate":
            sys.exit(3)
        if word == "time":
            found = {"times_s": [next(times) for _ in range(int(value))]}
        else:
            found = told if word == "prepare" else {"ciphertexts": int(value), "mean_bits": 12.7, "worst_bits": 8.3}
        print(json.dumps(found), flush=True)
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs our library with small sets beside the simulated peer."""
    peer = program_of(folder / "openfhe_ckks", PEER)
    command = [*module("peers.openfhe"), "--small", "--peer", str(peer), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_both_sides_are_measured(tmp_path: Path) -> None:
    """Both sides use the same core, times are medians over all turns, and the table has a line for each case."""
    out = tmp_path / "beside.jsonl"
    words = ["--only", "multiply,bootstrap", "--threads", "1", "--turns", "3", "--seconds", "0.01", "--out", str(out)]
    done = run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    assert (report["kind"], report["machine"]["device"][:3]) == ("beside openfhe", "cpu")
    multiply, bootstrap = report["results"]
    assert [(r["case"], r["threads"], r["asked"]) for r in (multiply, bootstrap)] == [
        ("multiply", 1, 4.5),
        ("bootstrap", 1, 4),
    ]
    assert (multiply["peer"]["affinity"], multiply["peer"]["openmp"]) == (1, "1")
    assert [(r["peer"]["runs"], r["peer"]["median_s"]) for r in (multiply, bootstrap)] == [(3, 4), (3, 4)]
    for row in (multiply, bootstrap):
        assert row["ratio"] == row["peer"]["median_s"] / row["ours"]["median_s"] > 1
    assert ("precision" in multiply["ours"], multiply["ours"]["parameters"]["name"]) == (False, "n13-l4")
    assert bootstrap["ours"]["precision"]["mean_bits"] > 17
    assert (bootstrap["ours"]["precision"]["ciphertexts"], bootstrap["peer"]["precision"]["ciphertexts"]) == (2, 2)
    require_lines(
        table_of("beside OpenFHE", out),
        """
        | multiply + relinearize | 1 |
        | 4 s |
        | bootstraps | ours | insecure
        | 4 to 9 |
        | bootstraps | OpenFHE 1.5.1 with HEXL | 128-bit | 65,536 | 1231 | 1651 | 2^51 | 24 + 7 | 3 | 1 to 5 | 12.7 / 8.3 of 2 | 40.5 s |
        | the others | OpenFHE 1.5.1 with HEXL | 128-bit | 65,536 | 1231 | 1651 | 2^51 | 24 + 7 | 3 | 23 | - |
        """,
    )


def test_a_peer_that_exits_is_reported(tmp_path: Path) -> None:
    """If the peer exits, the benchmark reports it; names of unknown cases are refused."""
    done = run(tmp_path, "--only", "rotate", "--threads", "1")
    assert (done.returncode, "the peer ended with 3" in done.stderr) == (1, True)
    done = run(tmp_path, "--only", "nothing")
    assert (done.returncode, "unknown case nothing" in done.stderr) == (2, True)


def test_both_sides_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has as many calls as its time allows; precision is measured if requested."""
    from benchmarks.peers import openfhe as beside_openfhe

    asked: list[tuple[Any, ...]] = []

    class Side(beside_openfhe.Side):
        def __init__(self, name: str, seconds: float) -> None:
            self._name, self._seconds = name, seconds

        def ask(self, *words: Any) -> dict[str, Any]:
            asked.append((self._name, *words))
            if words[0] == "time":
                return {"times_s": [self._seconds] * words[1]}
            return {"first_s": self._seconds} if words[0] == "prepare" else {}

    monkeypatch.setattr(beside_openfhe, "PAUSE", 0)
    sides = Side("ours", 0.125), Side("peer", 2)
    row = beside_openfhe.compare("bootstrap", sides, 0.5, 2, 7)
    assert asked[:2] == [("ours", "prepare", "bootstrap"), ("peer", "prepare", "bootstrap")]
    assert asked[2:6] == [("ours", "time", 4), ("peer", "time", 1)] * 2
    assert asked[6:] == [("ours", "precision", 7), ("peer", "precision", 7)]
    assert (row["ratio"], row["ours"]["runs"]) == (16, 8)
    asked.clear()
    assert "precision" not in beside_openfhe.compare("bootstrap", sides, 0.5, 1, 0)["ours"]
    assert len(asked) == 4
    beside_openfhe.compare("multiply", sides, 0.5, 1, 7)
    assert len(asked) == 8


def test_the_table_has_speedups_of_two_cores_over_one() -> None:
    """The table has the speed-up of each library on two cores over one core."""
    from benchmarks.report import workloads

    side = {"parameters": {"levels": 3, "security": "128-bit", "n": 8, "log_q": 1, "log_qp": 1, "log_scale": 1, "limbs": 4}}
    side["parameters"] |= {"special": 1, "digits": 3}
    case = {"case": "rotate", "what": "one rotation", "bootstraps": False, "asked": 4.5}

    def row(threads: int, ours: float, peer: float) -> dict[str, Any]:
        told = {"ours": {**side, "median_s": ours}, "peer": {**side, "median_s": peer, "version": "v1", "hexl": False}}
        return {**case, **told, "ratio": peer / ours, "threads": threads}

    lines = workloads.openfhe({"x.jsonl": {"results": [row(1, 0.02, 0.1), row(2, 0.0125, 0.08)]}})
    assert lines[2:4] == [
        "| one rotation | 1 | 20 ms | 100 ms | 5.00 | 4.5 | - | - |",
        "| one rotation | 2 | 12.5 ms | 80 ms | 6.40 | - | 1.60 | 1.25 |",
    ]
    assert "| the others | OpenFHE 1 | 128-bit |" in lines[-1]
