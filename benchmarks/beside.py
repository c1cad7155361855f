"""The cases of a GPU before and after a change, in turns on one device: is anything slower?

    python benchmarks/beside.py --before OTHER/python --before-commit 853d753 --out benchmarks/results/mine-beside.json
    python benchmarks/beside.py --before OTHER/python --only ckks,bgv --device cuda:1

Two processes live side by side, one with each tree's package; both prepare a case, then they are timed one after the other, before and
after, so many turns. A figure is the lower of the medians of its turns: what else the machine did is in all of them, what a change
cost is in the lowest too. A case that seems slower by more than the limit is timed for as many turns again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT = 1.03
LEAST = 10  # calls of a turn


class Tree:
    """A process that computes with one tree's package."""

    def __init__(self, package: Path, device: str) -> None:
        path = os.pathsep.join([str(package.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = dict(os.environ, PYTHONPATH=path, HELIOGRAPH_DEVICE=device)
        command = [sys.executable, str(HERE / "beside.py"), "--serve"]
        self._process = subprocess.Popen(
            command, cwd=HERE, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **what: Any) -> None:
        """Begins something."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def told(self) -> dict[str, Any]:
        """What came of it."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a benchmark process ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    """Prepares and times what the other process asks for, with the package that is on the path."""
    import gpu
    import gpu_cases

    import heliograph as hg
    from heliograph import _core

    case = ready = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "case" in asked:
                ready = None  # its memory first
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
        except (hg.HeliographError, AttributeError, TypeError) as error:  # the other tree may not have what a case calls
            found = {"skipped": f"{type(error).__name__}: {error}"}
        print(json.dumps(found | {"name": _core.device_name()}), flush=True)


def lowest(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure, over the turns."""
    names = [name for name in ("median_s", "call_s", "pipe_s") if turns[0][name] is not None]
    return {name: min(turn[name] for turn in turns) for name in names} | {"turns_s": [turn["median_s"] for turn in turns]}


def compare(name: str, trees: tuple[Tree, Tree], seconds: float, turns: int, limit: float) -> dict[str, Any]:
    """One case."""
    for tree in trees:
        tree.ask(case=name)
    told = [tree.told() for tree in trees]
    if skipped := next((t["skipped"] for t in told if "skipped" in t), None):
        return {"beside": name, "skipped": skipped}
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    ratio = 0.0
    for attempt in range(2):
        if attempt and ratio <= limit:
            break
        for _ in range(turns):
            for tree, times in zip(trees, found, strict=True):
                tree.ask(seconds=seconds)
                times.append(tree.told())
        before, after = (lowest(times) for times in found)
        ratio = after["median_s"] / before["median_s"]
    row = {"beside": name, "parameters": told[1]["parameters"], "before": before, "after": after, "ratio": ratio}
    return row | {"device": told[1]["device"]}


def main() -> None:
    """Measures, shows and writes; the JSON is written after every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the folder `python` of the other tree, with its extension built")
    parser.add_argument("--before-commit", default="?")
    parser.add_argument("--after", type=Path, default=HERE.parent / "python")
    parser.add_argument("--only", default="", help="comma-separated beginnings of case names; names of bootstrap.py's")
    parser.add_argument("--without", default="hcnn11", help="the same of those left out")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each turn of each case")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    if not given.before:
        parser.error("--before: the other tree's package")
    import run as runner

    sys.path.insert(0, str(given.after.resolve()))
    import bootstrap_cases
    import gpu_cases

    def begins(name: str, words: str) -> bool:
        return bool(words) and name.startswith(tuple(words.split(",")))

    names = [n for n in gpu_cases.CASES if (not given.only or begins(n, given.only)) and not begins(n, given.without)]
    names += [word for word in given.only.split(",") if word.startswith(bootstrap_cases.BEGIN)]
    trees = Tree(given.before, given.device), Tree(given.after, given.device)
    rows: list[dict[str, Any]] = []
    report = runner.report(rows, kind="beside", before_commit=given.before_commit)
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
        runner.save(given.out, report)
    for tree in trees:
        tree.close()


if __name__ == "__main__":
    main()
