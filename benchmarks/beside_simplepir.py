"""Private look-up beside SimplePIR's own code, in turns on one core: the answer's rate, and bytes down before, up and down.

    git clone https://github.com/ahenzinger/simplepir FOLDER
    python benchmarks/beside_simplepir.py --peer FOLDER --out benchmarks/results/mine-lookup-beside.json
    python benchmarks/beside_simplepir.py --peer FOLDER --megabytes 64

Go and a C compiler build the peer's program, which benchmarks/peers has, with the flags of its own sources. Two processes live side by side,
each computing on the same one core. Both prepare a table of random rows and one question, and check the answer; then one is timed while the
other waits, by turns. A figure is the median of all calls of all turns. Ours is timed from the question's bytes to the answer's, the peer on
matrices in memory. A gigabyte takes the peer 9 GB of memory and a minute or two to prepare.
"""

from __future__ import annotations

import argparse
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
import run as runner
from beside_openfhe import MOST, PAUSE, Row, Side
from bootstrap import pinned

HERE = Path(__file__).resolve().parent
MODULE = "github.com/ahenzinger/simplepir"
#: What our SECURITY.md and the paper of the peer (ePrint 2022/949) state for these parameters.
SECURITY = {"ours": "128-bit", "peer": "128-bit, as its paper states"}


def built(peer: Path, folder: Path) -> Path:
    """The peer's program, of the sources in `peer`; nothing is downloaded."""
    (folder / "main.go").write_bytes((HERE / "peers" / "simplepir" / "main.go").read_bytes())
    needs = f"module heliograph_peers\n\ngo 1.18\n\nrequire {MODULE} v0.0.0\n\nreplace {MODULE} => {peer.resolve()}\n"
    (folder / "go.mod").write_text(needs, encoding="utf-8")
    env = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "1"}
    if not (go := shutil.which("go")):
        raise SystemExit("the peer's program is not built: there is no Go (Debian's golang-go)")
    done = subprocess.run([go, "build", "-o", "simplepir", "."], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the peer's program is not built:\n{done.stderr}")
    return folder / "simplepir"


def commit_of(peer: Path) -> str:
    """The peer's, if it is a clone."""
    done = subprocess.run(["git", "-C", str(peer), "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if not done.returncode else "unknown"


class Ours:
    """What the process of our side does."""

    def prepare(self, what: str) -> Row:
        """A table of rows x bytes, and a question."""
        import heliograph as hg

        count, width = map(int, what.split("x"))
        rows = np.frombuffer(np.random.default_rng(7).bytes(count * width), np.uint8).reshape(count, width)
        start = time.perf_counter()
        self._db = db = hg.query.Database(rows)
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
            raise SystemExit("the answer is not the row that was asked for")
        return {
            **{"first_s": first, "prepare_s": prepared, "ask_s": ask, "read_s": time.perf_counter() - start},
            **{"table_bytes": rows.nbytes, "hint_bytes": 0, "up_bytes": len(self._sent), "down_bytes": len(answer)},
            "parameters": {"dimension": 2048, "log_q": 50, "deviation": 3.19, "matrix": [db._shape.rows, db._shape.columns]},
            "device": hg.devices()[0],
        }

    def time(self, calls: str) -> Row:
        """Of each answer."""
        times = []
        for _ in range(int(calls)):
            start = time.perf_counter()
            self._db.answer(self._sent)
            times.append(time.perf_counter() - start)
        return {"times_s": times}


def serve() -> None:
    """Does what the other process asks for."""
    ours = Ours()
    for line in sys.stdin:
        word, value = line.split()
        print(json.dumps(getattr(ours, word)(value)), flush=True)


def compare(count: int, width: int, sides: dict[str, Side], seconds: float, turns: int) -> Row:
    """One table on both sides."""
    told = {name: side.ask("prepare", f"{count}x{width}") for name, side in sides.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, side in sides.items():
            time.sleep(PAUSE)
            calls = min(MOST, max(1, round(seconds / min(times[name], default=told[name]["first_s"]))))
            times[name] += side.ask("time", calls)["times_s"]
    for name, found in times.items():
        median = statistics.median(found)
        told[name] |= {"median_s": median, "fastest_s": min(found), "slowest_s": max(found), "runs": len(found)}
        told[name] |= {"bytes_per_second": count * width / median, "security": SECURITY[name]}
    return {"rows": count, "row_bytes": width, **told, "ratio": told["peer"]["median_s"] / told["ours"]["median_s"]}


def show(row: Row) -> None:
    """A line a side for a person."""
    for name in ("ours", "peer"):
        side = row[name]
        bytes_of = ", ".join(f"{what} {side[f'{what}_bytes'] / 1000:,.0f} kB" for what in ("hint", "up", "down"))
        rate = f"{side['bytes_per_second'] / 1e9:6.2f} GB/s {side['median_s'] * 1e3:9.2f} ms of {side['runs']}"
        print(f"{name}: {rate}; {bytes_of}; prepared in {side['prepare_s']:.1f} s", flush=True)


def main() -> None:
    """Parses the command line and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="a clone of SimplePIR's repository, or a program in its place")
    parser.add_argument("--megabytes", type=float, default=1024, help="of 2^20 bytes")
    parser.add_argument("--row-bytes", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn, which is one call at least")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["HELIOGRAPH_DEVICE"] = "cpu"  # the peer has cores alone
    if given.serve:
        serve()
        return
    if not given.peer:
        parser.error("--peer: a clone of SimplePIR's repository")
    report = runner.Rows(given.out, show, kind="look-up beside", load=runner.load(), peer_commit=commit_of(given.peer))
    with tempfile.TemporaryDirectory() as folder:
        program = built(given.peer, Path(folder)) if given.peer.is_dir() else given.peer.resolve()
        pinned(1)
        own = [sys.executable, str(HERE / "beside_simplepir.py"), "--serve"]
        sides = {"ours": Side("our side", own), "peer": Side("the peer", [str(program)])}
        count = int(given.megabytes * 2**20) // given.row_bytes
        row: dict[str, Any] = compare(count, given.row_bytes, sides, given.seconds, given.turns)
        report.machine["device"] = row["ours"].pop("device")
        report.add(row)
        for side in sides.values():
            side.close()


if __name__ == "__main__":
    main()
