"""Compares private look-up with SimplePIR's own code, in turns on one core: rate of answers, bytes of hint, upload and download.

    git clone https://github.com/ahenzinger/simplepir FOLDER
    python -m benchmarks.peers.simplepir --peer FOLDER --out benchmarks/results/mine-lookup-beside.jsonl
    python -m benchmarks.peers.simplepir --peer FOLDER --megabytes 64

Go and a C compiler build the peer's program (benchmarks/peers) with the flags of its own sources. Two processes run side by side on the
same core. Each process prepares a table of random rows and one question, and checks the answer. Then the two processes are
timed in turns; while one is timed, the other one waits. The result is the median of all calls of all turns. Heliograph is
timed from the question's bytes to the answer's; the peer is timed on matrices in memory. For a gigabyte the peer takes 9 GB
of memory and a minute or two of preparation.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.openfhe import MOST, PAUSE, Row, Side
from benchmarks.runners import common
from benchmarks.runners.bootstrap import pinned

MODULE = "github.com/ahenzinger/simplepir"
#: Security of these parameters, as stated in SECURITY.md and in the peer's paper (ePrint 2022/949).
SECURITY = {"ours": "128-bit", "peer": "128-bit, as its paper states"}


def built(peer: Path, folder: Path) -> Path:
    """Builds the peer's program from the sources in `peer`. The build downloads nothing."""
    (folder / "main.go").write_bytes(Path(__file__).with_suffix(".go").read_bytes())
    needs = f"module heliograph_peers\n\ngo 1.18\n\nrequire {MODULE} v0.0.0\n\nreplace {MODULE} => {peer.resolve()}\n"
    (folder / "go.mod").write_text(needs, encoding="utf-8")
    env = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "1"}
    if not (go := shutil.which("go")):
        raise SystemExit("cannot build the peer's program: install Go (Debian: golang-go)")
    done = subprocess.run([go, "build", "-o", "simplepir", "."], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cannot build the peer's program:\n{done.stderr}")
    return folder / "simplepir"


def commit_of(peer: Path) -> str:
    """Returns the commit of the peer's clone, or "unknown"."""
    done = subprocess.run(["git", "-C", str(peer), "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if not done.returncode else "unknown"


class Ours:
    """Executes the commands on Heliograph's side."""

    def prepare(self, what: str) -> Row:
        """Prepares a table of rows x bytes, and a question."""
        import heliograph as hg

        count, width = map(int, what.split("x"))
        rows = np.frombuffer(np.random.default_rng(7).bytes(count * width), np.uint8).reshape(count, width)
        start = time.perf_counter()
        self._db = db = hg.pir.Database(rows)
        prepared = time.perf_counter() - start
        client, number = db.client(), count // 3
        start = time.perf_counter()
        question = client.ask(number)
        self._sent = question.to_bytes()
        ask = time.perf_counter() - start
        start = time.perf_counter()
        answer = db.answer(self._sent)
        first = time.perf_counter() - start
        start = time.perf_counter()
        if question.read(answer) != rows[number].tobytes():
            raise SystemExit("the answer is not the requested row")
        return {
            **{"first_s": first, "prepare_s": prepared, "ask_s": ask, "read_s": time.perf_counter() - start},
            **{"table_bytes": rows.nbytes, "hint_bytes": 0, "up_bytes": len(self._sent), "down_bytes": len(answer)},
            "parameters": {"dimension": 2048, "log_q": 50, "deviation": 3.19, "matrix": [db._shape.rows, db._shape.columns]},
            "device": hg.devices()[0],
        }

    def time(self, calls: str) -> Row:
        """Returns the time of each answer."""
        times = []
        for _ in range(int(calls)):
            start = time.perf_counter()
            self._db.answer(self._sent)
            times.append(time.perf_counter() - start)
        return {"times_s": times}


def serve() -> None:
    """Executes the parent's commands."""
    ours = Ours()
    for line in sys.stdin:
        word, value = line.split()
        print(json.dumps(getattr(ours, word)(value)), flush=True)


def compare(count: int, width: int, sides: dict[str, Side], seconds: float, turns: int) -> Row:
    """Compares one table on both sides."""
    answers = {name: side.ask("prepare", f"{count}x{width}") for name, side in sides.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, side in sides.items():
            time.sleep(PAUSE)
            calls = min(MOST, max(1, round(seconds / min(times[name], default=answers[name]["first_s"]))))
            times[name] += side.ask("time", calls)["times_s"]
    for name, found in times.items():
        median = statistics.median(found)
        answers[name] |= {"median_s": median, "fastest_s": min(found), "slowest_s": max(found), "runs": len(found)}
        answers[name] |= {"bytes_per_second": count * width / median, "security": SECURITY[name]}
    return {"rows": count, "row_bytes": width, **answers, "ratio": answers["peer"]["median_s"] / answers["ours"]["median_s"]}


def show(row: Row) -> None:
    """Prints a line per side for the terminal."""
    for name in ("ours", "peer"):
        side = row[name]
        bytes_of = ", ".join(f"{what} {side[f'{what}_bytes'] / 1000:,.0f} kB" for what in ("hint", "up", "down"))
        rate = f"{side['bytes_per_second'] / 1e9:6.2f} GB/s {side['median_s'] * 1e3:9.2f} ms of {side['runs']}"
        print(f"{name}: {rate}; {bytes_of}; prepared in {side['prepare_s']:.1f} s", flush=True)


def main() -> None:
    """Parses the command line and writes the results."""
    parser = common.parser(
        __doc__,
        peer=(Path, "clone of SimplePIR's repository, or a built program"),
        megabytes=(1024.0, "size of the table in MiB"),
        row_bytes=256,
        seconds=(2.0, "seconds per turn, of at least one call"),
        turns=5,
        serve=False,
    )
    given = parser.parse_args()
    os.environ["HELIOGRAPH_DEVICE"] = "cpu"  # the peer has no GPU backend
    if given.serve:
        serve()
        return
    if not given.peer:
        parser.error("--peer is missing: give a clone of SimplePIR's repository")
    report = common.Rows(given.out, show, kind="look-up beside", load=common.load(), peer_commit=commit_of(given.peer))
    with tempfile.TemporaryDirectory() as folder:
        program = built(given.peer, Path(folder)) if given.peer.is_dir() else given.peer.resolve()
        pinned(1)
        own = [*common.module("peers.simplepir"), "--serve"]
        sides = {"ours": Side("our side", own), "peer": Side("the peer", [str(program)])}
        count = int(given.megabytes * 2**20) // given.row_bytes
        row: dict[str, Any] = compare(count, given.row_bytes, sides, given.seconds, given.turns)
        report.machine["device"] = row["ours"].pop("device")
        report.add(row)
        for side in sides.values():
            side.close()


if __name__ == "__main__":
    main()
