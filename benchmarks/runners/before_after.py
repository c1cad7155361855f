"""Compares the cases of a GPU before and after a change, in turns on one device, to detect regressions.

    python -m benchmarks.runners.before_after --before OTHER/python --before-commit 853d753 --out benchmarks/results/mine-beside.jsonl
    python -m benchmarks.runners.before_after --before OTHER/python --only ckks,bgv --device cuda:1

Two processes run side by side, one with each tree's package. Both processes prepare a case; then, in each of several turns,
the tree before the change is timed, and after it the tree with the change. The result is the lowest of the medians of the
turns: other load makes single turns slower, a regression also makes the fastest turn slower. A case that seems slower by
more than the limit is timed for as many turns again.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import results
from benchmarks.runners import common

LIMIT = 1.03
LEAST = 10  # minimum number of calls per turn


class Tree:
    """A child process that computes with one tree's package."""

    def __init__(self, package: Path, device: str) -> None:
        path = os.pathsep.join([str(package.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = dict(os.environ, PYTHONPATH=path, HELIOGRAPH_DEVICE=device)
        command = [*common.module("runners.before_after"), "--serve"]
        self._process = subprocess.Popen(
            command, cwd=common.ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **what: Any) -> None:
        """Sends a request to the process."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        """Waits for the reply to a request."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a benchmark process ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    """Runs in a child process: prepares and times the cases that the parent requests, with the package on the path."""
    import heliograph as hg
    from benchmarks.cases import gpu as gpu_cases
    from benchmarks.runners import gpu
    from heliograph import _core

    case = ready = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "case" in asked:
                ready = None  # frees the previous case's memory first
                case = gpu_cases.case_of(asked["case"])
                ready = case.prepare()
                found = {"parameters": ready.parameters, "device": hg.devices()[0], "package": str(Path(hg.__file__).parent)}
            else:
                assert case
                assert ready
                if case.runs:
                    alone = gpu.Latency(gpu.pipe(ready.run, gpu.LONG, 0, lambda: None, case.runs).times, [])
                    among = statistics.median(alone.times)
                else:
                    alone = gpu.latency(ready.run, 0.5 * asked["seconds"], LEAST)
                    among = gpu.pipe(ready.run, statistics.median(alone.times), 0.5 * asked["seconds"], lambda: None).seconds
                found = {
                    "median_s": statistics.median(alone.times),
                    "call_s": statistics.median(alone.calls) if alone.calls else None,
                    "pipe_s": among,
                    "runs": len(alone.times),
                }
        except (hg.HeliographError, AttributeError, TypeError) as error:  # a tree may lack a function that the case calls
            found = {"skipped": f"{type(error).__name__}: {error}"}
        print(json.dumps(found | {"name": _core.device.name()}), flush=True)


def lowest(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the lowest value of each measured number over the turns."""
    names = [name for name in ("median_s", "call_s", "pipe_s") if turns[0][name] is not None]
    return {name: min(turn[name] for turn in turns) for name in names} | {"turns_s": [turn["median_s"] for turn in turns]}


def compare(name: str, trees: tuple[Tree, Tree], seconds: float, turns: int, limit: float) -> dict[str, Any]:
    """Compares one case."""
    for tree in trees:
        tree.ask(case=name)
    replies = [tree.reply() for tree in trees]
    if skipped := next((t["skipped"] for t in replies if "skipped" in t), None):
        return {"beside": name, "skipped": skipped}
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    ratio = 0.0
    for attempt in range(2):
        if attempt and ratio <= limit:
            break
        for _ in range(turns):
            for tree, times in zip(trees, found, strict=True):
                tree.ask(seconds=seconds)
                times.append(tree.reply())
        before, after = (lowest(times) for times in found)
        ratio = after["median_s"] / before["median_s"]
    row = {"beside": name, "parameters": replies[1]["parameters"], "before": before, "after": after, "ratio": ratio}
    return row | {"device": replies[1]["device"]}


def main() -> None:
    """Measures, prints and writes. The JSON is written after every case."""
    parser = common.parser(
        __doc__,
        before=(Path, "folder `python` of the other tree, with its extension built"),
        before_commit="?",
        after=common.ROOT / "python",
        only=("", "comma-separated prefixes of case names; whole names of bootstrap.py's cases"),
        without=("hcnn11", "comma-separated prefixes of cases to skip"),
        device="cuda:0",
        seconds=(0.5, "seconds per turn and case"),
        turns=2,
        serve=False,
    )
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    if not given.before:
        parser.error("--before is missing: give the folder `python` of the other tree")

    sys.path.insert(0, str(given.after.resolve()))
    from benchmarks.cases import bootstrap as bootstrap_cases
    from benchmarks.cases import gpu as gpu_cases

    def begins(name: str, words: str) -> bool:
        return bool(words) and name.startswith(tuple(words.split(",")))

    names = [n for n in gpu_cases.CASES if (not given.only or begins(n, given.only)) and not begins(n, given.without)]
    names += [word for word in given.only.split(",") if word.startswith(bootstrap_cases.BEGIN)]
    trees = Tree(given.before, given.device), Tree(given.after, given.device)
    rows: list[dict[str, Any]] = []
    report = common.report(rows, kind="beside", before_commit=given.before_commit)
    for name in names:
        row = compare(name, trees, given.seconds, given.turns, LIMIT)
        rows.append({"what": gpu_cases.case_of(name).what} | row)
        if "skipped" in row:
            print(f"{name:34} skipped: {row['skipped']}", flush=True)
        else:
            report["machine"]["device"] = row.pop("device")
            rows[-1].pop("device")
            times = "  ".join(
                f"{row[w]['median_s'] * 1e6:10.1f} (host {(row[w].get('call_s') or 0) * 1e6:6.1f})"
                for w in ("before", "after")
            )
            print(f"{name:34} {times}  {row['ratio']:.3f}{' !' if row['ratio'] > LIMIT else ''}", flush=True)
        results.save(given.out, report)
    for tree in trees:
        tree.close()


if __name__ == "__main__":
    main()
