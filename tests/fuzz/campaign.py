#!/usr/bin/env python3
"""Runs the fuzz targets side by side and counts (docs/fuzzing.md). Needs the program, this file and Python alone.

    campaign.py run PROGRAM --seconds 600 --work DIR [--processes json=4,container=3] [--json counts.json]
    campaign.py keep PROGRAM --work DIR      # what adds coverage and is small, into tests/fuzz/corpus
    campaign.py coverage FILE                # of llvm-cov export, into benchmarks/results/fuzz.json
    campaign.py add "files signed again" 100000 0    # cases and faults of the Python runs, into the same
    campaign.py blind plain|sanitized --on MACHINE --commit COMMIT LOG...   # what fuzz_blind printed, into the same
    campaign.py page                         # the counts of benchmarks/results/fuzz.json into docs/fuzzing.md

Counts of several runs into one file add up. The exit status is 1 where something was found; DIR/TARGET/faults has the inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CORPUS = HERE / "corpus"
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "fuzz.json", ROOT / "docs" / "fuzzing.md"
SMALL, MANY = 4096, 24  # bytes of a kept input; kept inputs of a target

Counts = dict[str, Any]


def targets(program: Path) -> list[str]:
    """Their names, which the program tells whoever asks for none."""
    said = subprocess.run([program, "none"], capture_output=True, text=True, check=False).stderr
    return re.findall(r"[a-z-]+", said.rpartition("there are ")[2])


# Running


def once(program: Path, target: str, folder: Path, seconds: int, log: Path) -> Counts:
    """One process until its time is over or it finds something."""
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    (folder / "faults").mkdir(exist_ok=True)
    command = [str(program), target, str(folder / "corpus")]
    command += [str(CORPUS / target)] if (CORPUS / target).is_dir() else []
    command += [f"-max_total_time={seconds}", "-print_final_stats=1", "-reload=60", f"-artifact_prefix={folder / 'faults'}/"]
    with log.open("a") as out:
        status = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
    text = log.read_text(errors="replace")
    executed = re.findall(r"stat::number_of_executed_units:\s+(\d+)", text)
    last = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", text)
    edges, features, corpus = map(int, last[-1]) if last else (0, 0, 0)
    return {
        "executions": sum(map(int, executed)), "edges": edges, "features": features, "corpus": corpus, "status": status,
    }  # fmt: skip


def until(program: Path, target: str, folder: Path, end: float, log: Path) -> Counts:
    """The same, begun again after each fault."""
    log.unlink(missing_ok=True)
    counts: Counts = {}
    while (left := end - time.time()) > 1 or not counts:
        before = time.time()
        counts = once(program, target, folder, max(1, int(left)), log)
        if counts["status"] != 0 and time.time() - before < 2:
            time.sleep(2)  # what fails at once is not tried for ever
    return counts


def run(program: Path, work: Path, seconds: int, processes: dict[str, int], only: list[str]) -> dict[str, Counts]:
    """Every target at once; a process each, or as many as said."""
    names = [n for n in targets(program) if not only or n in only]
    found: dict[str, Counts] = {}
    lock, end = threading.Lock(), time.time() + seconds

    def one(name: str, number: int) -> None:
        counts = until(program, name, work / name, end, work / name / f"{number}.log")
        with lock:
            all_of = found.setdefault(name, {"executions": 0, "edges": 0, "features": 0, "corpus": 0})
            all_of["executions"] += counts["executions"]
            for field in ("edges", "features", "corpus"):
                all_of[field] = max(all_of[field], counts[field])

    threads = []
    for name in names:
        (work / name).mkdir(parents=True, exist_ok=True)
        for number in range(processes.get(name, 1)):
            threads.append(threading.Thread(target=one, args=(name, number)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, counts in found.items():
        faults = [p for p in (work / name / "faults").iterdir() if not p.name.startswith("slow-unit")]
        counts["faults"] = len(faults)
        counts["seconds"] = seconds * processes.get(name, 1)
    return {name: found[name] for name in names}


def merged(old: dict[str, Counts], new: dict[str, Counts]) -> dict[str, Counts]:
    """Executions, seconds and faults add up; coverage is the furthest."""
    result = {name: dict(counts) for name, counts in old.items()}
    for name, counts in new.items():
        before = result.setdefault(name, {})
        for field, value in counts.items():
            had = before.get(field, 0)
            before[field] = had + value if field in ("executions", "seconds", "faults") else max(had, value)
    return result


def machine() -> str:
    """Its processor."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return f"{names[0] if names else 'unknown'}, {os.cpu_count()} cores"


def record(path: Path, found: dict[str, Counts], commit: str) -> None:
    """Into a file of counts."""
    told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    told["targets"] = merged(told.get("targets", {}), found)
    told["machine"] = machine()
    if commit:
        told["commit"] = commit
        told.pop("rebased_as", None)  # of the commit before
    told.setdefault("commit", "")
    path.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


# Keeping


def keep(program: Path, work: Path) -> None:
    """The smallest inputs that together reach most of what the small ones reach."""
    for name in targets(program):
        with tempfile.TemporaryDirectory() as scratch:
            small, best = Path(scratch, "small"), Path(scratch, "best")
            small.mkdir(), best.mkdir()
            for folder in (work / name / "corpus", CORPUS / name):
                for path in folder.iterdir() if folder.is_dir() else ():
                    if 0 < path.stat().st_size <= SMALL:
                        shutil.copy(path, small)
            subprocess.run([program, name, "-merge=1", best, small], check=True, capture_output=True)
            (CORPUS / name).mkdir(parents=True, exist_ok=True)
            kept = sorted(best.iterdir(), key=lambda p: (p.stat().st_size, p.name))
            step = max(1, len(kept) / MANY)
            for path in (kept[int(i * step)] for i in range(min(MANY, len(kept)))):
                shutil.copy(path, CORPUS / name)


# Telling


def blind_table(blind: dict[str, Any]) -> list[str]:
    """Of the runs without guidance: a build as users run it, and one under both sanitizers."""
    rows = ["| target | without guidance | of them under sanitizers | faults |", "|---|---|---|---|"]

    def row(name: str, of: list[str]) -> str:
        plain, checked = ([blind.get(kind, {}).get(n, {}) for n in of] for kind in ("plain", "sanitized"))
        every, under = (sum(c.get("executions", 0) for c in counts) for counts in (plain + checked, checked))
        return f"| {name} | {every:,} | {under:,} | {sum(c.get('faults', 0) for c in plain + checked)} |"

    names = sorted(set(blind.get("plain", {})) | set(blind.get("sanitized", {})))
    return ["", *rows, *(row(name, [name]) for name in names), row("all", names), "", f"Ran at {'; '.join(blind['ran'])}."]


def table(told: dict[str, Any]) -> str:
    """The counts as the page has them."""
    rows = ["| target | executions | edges | features | faults |", "|---|---|---|---|---|"]
    for name, c in sorted(told["targets"].items()):
        rows.append(f"| {name} | {c['executions']:,} | {c['edges']:,} | {c['features']:,} | {c['faults']} |")
    executions = sum(c["executions"] for c in told["targets"].values())
    faults = sum(c["faults"] for c in told["targets"].values())
    rows.append(f"| all | {executions:,} | | | {faults} |")
    if "blind" in told:
        rows += blind_table(told["blind"])
    for what, c in sorted(told.get("python", {}).items()):
        rows.append(f"\nPython, {what}: {c['executions']:,} cases, {c['faults']} faults.")
    if "coverage" in told:
        rows += ["", "| file | lines run |", "|---|---|"]
        rows += [f"| {name} | {share:.1f}% |" for name, share in sorted(told["coverage"].items())]
    return "\n".join(rows)


def page(told: dict[str, Any], text: str) -> str:
    """The page with the counts between its marks."""
    begin, end = "<!-- campaign -->\n", "\n<!-- end of campaign -->"
    head, rest = text.split(begin)
    return head + begin + table(told) + end + rest.split(end)[1]


def processes_of(text: str) -> dict[str, int]:
    """ "json=4,container=3" """
    return {name: int(count) for name, count in (part.split("=") for part in text.split(",") if part)}


def shares(exported: dict[str, Any]) -> dict[str, float]:
    """Lines run of each file, in percent."""
    files = exported["data"][0]["files"]
    return {f["filename"].rpartition("/src/")[2]: round(f["summary"]["lines"]["percent"], 1) for f in files}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("run", "keep"):
        each = verbs.add_parser(verb)
        each.add_argument("program", type=Path)
        each.add_argument("--work", type=Path, required=True)
        if verb == "run":
            each.add_argument("--seconds", type=int, default=60)
            each.add_argument("--processes", type=processes_of, default={})
            each.add_argument("--targets", default="", help="some of them, with commas between")
            each.add_argument("--json", type=Path)
            each.add_argument("--commit", default="")
    verbs.add_parser("page")
    added = verbs.add_parser("add")
    added.add_argument("what")
    added.add_argument("cases", type=int)
    added.add_argument("faults", type=int)
    blind = verbs.add_parser("blind")
    for field in ("on", "commit"):
        blind.add_argument(f"--{field}", required=True)
    blind.add_argument("kind", choices=("plain", "sanitized"))
    blind.add_argument("logs", type=Path, nargs="+")
    verbs.add_parser("coverage").add_argument("file", type=Path)
    given = parser.parse_args()
    actions: dict[str, Callable[[], int]] = {"run": lambda: _run(given), "keep": lambda: _keep(given), "page": _page}
    actions["add"] = lambda: _add(given.what, given.cases, given.faults)
    actions["blind"] = lambda: _blind(given.kind, given.logs, given.on, given.commit)
    actions["coverage"] = lambda: _coverage(given.file)
    return actions[given.verb]()


def _run(given: argparse.Namespace) -> int:
    program = given.program.resolve()
    found = run(program, given.work.resolve(), given.seconds, given.processes, [t for t in given.targets.split(",") if t])
    if given.json is not None:
        record(given.json, found, given.commit)
    print(table({"targets": found}))
    return 1 if any(c["faults"] for c in found.values()) else 0


def _keep(given: argparse.Namespace) -> int:
    keep(given.program.resolve(), given.work.resolve())
    return 0


def _results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"targets": {}}
    return found


def _keep_results(told: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


def _add(what: str, cases: int, faults: int) -> int:
    told = _results()
    told["python"] = merged(told.get("python", {}), {what: {"executions": cases, "faults": faults}})
    _keep_results(told)
    return 0


def _blind(kind: str, logs: list[Path], machine: str, commit: str) -> int:
    told, found = _results(), {}
    for log in logs:
        for name, executions, faults, seconds in re.findall(
            r"^([a-z-]+) executions (\d+) faults (\d+) seconds (\d+)", log.read_text(), re.M
        ):
            each = {"executions": int(executions), "faults": int(faults), "seconds": int(seconds)}
            found = merged(found, {name: each})
    blind = told.setdefault("blind", {})
    blind["ran"] = sorted({*blind.get("ran", []), f"{commit}, {machine}"})
    blind[kind] = merged(blind.get(kind, {}), found)
    _keep_results(told)
    return 0


def _coverage(file: Path) -> int:
    told = _results()
    told["coverage"] = shares(json.loads(file.read_text()))
    for name, share in sorted(told["coverage"].items()):
        print(f"{share:6.1f}%  {name}")
    _keep_results(told)
    return 0


def _page() -> int:
    PAGE.write_text(page(json.loads(RESULTS.read_text()), PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
