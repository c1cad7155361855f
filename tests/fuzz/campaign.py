#!/usr/bin/env python3
"""Runs the fuzz targets in parallel and counts executions, coverage and faults (docs/fuzzing.md). The script needs the
program, this file, benchmarks/report/results.py and Python.

    campaign.py run PROGRAM --seconds 600 --work DIR [--processes json=4,container=3] [--out counts.jsonl]
    campaign.py counts FILE...               # adds counts of other machines (run --out) to benchmarks/results/fuzz.jsonl
    campaign.py keep PROGRAM --work DIR [--targets json]   # adds small inputs with new coverage to the corpus
    campaign.py unpack DIR                   # writes the corpus to DIR, a folder per target
    campaign.py coverage FILE                # adds an export of llvm-cov to benchmarks/results/fuzz.jsonl
    campaign.py add "files signed again" 100000 0    # adds cases and faults of the Python runs to it
    campaign.py blind plain|sanitized --on MACHINE --commit COMMIT LOG...   # adds the output of fuzz_blind to it
    campaign.py page                         # writes the counts of benchmarks/results/fuzz.jsonl to docs/fuzzing.md

If several runs write to one file, their counts are added. The exit status is 1 if there are faults; the inputs with faults
are in DIR/TARGET/faults.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.report import results  # noqa: E402  (from the tree, which is not installed)

CORPUS = HERE / "corpus.tar.xz"  # the corpus: an archive with an entry TARGET/NAME per input
RESULTS, PAGE = results.FOLDER / "fuzz.jsonl", ROOT / "docs" / "fuzzing.md"
SMALL, MANY = 4096, 24  # limits of the corpus: bytes of an input, and inputs of a target

Counts = dict[str, Any]
Inputs = dict[str, dict[str, bytes]]  # bytes of inputs, by target and name


def corpus() -> Inputs:
    """Returns the inputs of the corpus, by target and name."""
    found: Inputs = {}
    with tarfile.open(CORPUS) as archive:
        for member in archive:
            target, name = member.name.split("/")
            source = archive.extractfile(member)
            assert source is not None
            found.setdefault(target, {})[name] = source.read()
    return found


def pack(inputs: Inputs) -> None:
    """Writes the corpus as an archive whose entries are sorted and have no dates."""
    with tarfile.open(CORPUS, "w:xz", preset=9) as archive:
        for target, files in sorted(inputs.items()):
            for name, data in sorted(files.items()):
                member = tarfile.TarInfo(f"{target}/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def unpack(folder: Path) -> None:
    """Writes the inputs of the corpus to files, in a folder per target."""
    for target, inputs in corpus().items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (folder / target / name).write_bytes(data)


def targets(program: Path) -> list[str]:
    """Returns the names of the targets; the program lists them in its error message for an unknown target."""
    said = subprocess.run([program, "none"], capture_output=True, text=True, check=False).stderr
    return re.findall(r"[a-z-]+", said.rpartition("the targets are ")[2])


# Running


def once(program: Path, target: str, folder: Path, seconds: int, log: Path) -> Counts:
    """Runs one fuzzing process until its time is over or it finds a fault, and returns its counts."""
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    (folder / "faults").mkdir(exist_ok=True)
    command = [str(program), target, str(folder / "corpus")]
    command += [str(folder / "seeds")] if (folder / "seeds").is_dir() else []
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
    """Runs a target until the time `end`, and restarts its process after each fault."""
    log.unlink(missing_ok=True)
    counts: Counts = {}
    while (left := end - time.time()) > 1 or not counts:
        before = time.time()
        counts = once(program, target, folder, max(1, int(left)), log)
        if counts["status"] != 0 and time.time() - before < 2:
            time.sleep(2)  # waits, so a fault at the start does not restart the process in a tight loop
    return counts


def run(program: Path, work: Path, seconds: int, processes: dict[str, int], only: list[str]) -> dict[str, Counts]:
    """Runs all targets concurrently, each in one process or in `processes[name]` processes."""
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
    seeds = corpus()
    for name in names:
        (work / name).mkdir(parents=True, exist_ok=True)
        for seed, data in seeds.get(name, {}).items():
            (work / name / "seeds").mkdir(exist_ok=True)
            (work / name / "seeds" / seed).write_bytes(data)
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
    """Merges the counts of two runs: adds executions, seconds and faults, and takes the maximum of coverage."""
    result = {name: dict(counts) for name, counts in old.items()}
    for name, counts in new.items():
        before = result.setdefault(name, {})
        for field, value in counts.items():
            had = before.get(field, 0)
            before[field] = had + value if field in ("executions", "seconds", "faults") else max(had, value)
    return result


def machine() -> str:
    """Returns the name of the processor and its number of cores."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return f"{names[0] if names else 'unknown'}, {os.cpu_count()} cores"


def read(path: Path) -> dict[str, Any]:
    """Returns the counts in a file, with the targets by name. If there is no file, there are no targets."""
    told = results.read(path) if path.exists() else {"results": []}
    targets = {row["target"]: {k: v for k, v in row.items() if k != "target"} for row in told.pop("results")}
    return told | {"targets": targets}


def write(path: Path, told: dict[str, Any]) -> None:
    """Writes counts to a file, one target a line."""
    rows = [{"target": name} | counts for name, counts in sorted(told["targets"].items())]
    run = {key: value for key, value in sorted(told.items()) if key != "targets"}
    results.save(path, run | {"results": rows})


def record(path: Path, found: dict[str, Counts], ran: list[str]) -> None:
    """Adds the counts of some runs to a file. `ran` lists the commit and the machine of each of these runs."""
    told = read(path)
    told["targets"] = merged(told["targets"], found)
    told["ran"] = sorted({*told.get("ran", []), *ran})
    told["commit"] = ", ".join(dict.fromkeys(words.split(",")[0] for words in told["ran"]))
    write(path, told)


# Corpus


def keep(program: Path, work: Path, only: list[str]) -> None:
    """Adds the smallest inputs that together reach most of the coverage of all small inputs."""
    inputs = corpus()
    for name in (n for n in targets(program) if not only or n in only):
        with tempfile.TemporaryDirectory() as scratch:
            small, best = Path(scratch, "small"), Path(scratch, "best")
            small.mkdir(), best.mkdir()
            folder = work / name / "corpus"
            for path in folder.iterdir() if folder.is_dir() else ():
                if 0 < path.stat().st_size <= SMALL:
                    shutil.copy(path, small)
            for seed, data in inputs.get(name, {}).items():
                (small / seed).write_bytes(data)
            subprocess.run([program, name, "-merge=1", best, small], check=True, capture_output=True)
            kept = sorted(best.iterdir(), key=lambda p: (p.stat().st_size, p.name))
            step = max(1, len(kept) / MANY)
            for path in (kept[int(i * step)] for i in range(min(MANY, len(kept)))):
                inputs.setdefault(name, {})[path.name] = path.read_bytes()
    pack(inputs)


# Reports


def blind_table(blind: dict[str, Any]) -> list[str]:
    """Returns the table of the runs of fuzz_blind: runs of a normal build, and runs of a build with both sanitizers."""
    rows = ["| target | without guidance | of them under sanitizers | faults |", "|---|---|---|---|"]

    def row(name: str, of: list[str]) -> str:
        plain, checked = ([blind.get(kind, {}).get(n, {}) for n in of] for kind in ("plain", "sanitized"))
        every, under = (sum(c.get("executions", 0) for c in counts) for counts in (plain + checked, checked))
        return f"| {name} | {every:,} | {under:,} | {sum(c.get('faults', 0) for c in plain + checked)} |"

    names = sorted(set(blind.get("plain", {})) | set(blind.get("sanitized", {})))
    return ["", *rows, *(row(name, [name]) for name in names), row("all", names), "", f"Ran at {'; '.join(blind['ran'])}."]


def table(told: dict[str, Any]) -> str:
    """Returns the tables of docs/fuzzing.md."""
    rows = ["| target | executions | edges | features | faults |", "|---|---|---|---|---|"]
    for name, c in sorted(told["targets"].items()):
        rows.append(f"| {name} | {c['executions']:,} | {c['edges']:,} | {c['features']:,} | {c['faults']} |")
    executions = sum(c["executions"] for c in told["targets"].values())
    faults = sum(c["faults"] for c in told["targets"].values())
    rows.append(f"| all | {executions:,} | | | {faults} |")
    if told.get("ran"):
        rows += ["", f"Ran at {'; '.join(told['ran'])}."]
    if "blind" in told:
        rows += blind_table(told["blind"])
    for what, c in sorted(told.get("python", {}).items()):
        rows.append(f"\nPython, {what}: {c['executions']:,} cases, {c['faults']} faults.")
    if "coverage" in told:
        rows += ["", "| file | lines run |", "|---|---|"]
        rows += [f"| {name} | {share:.1f}% |" for name, share in sorted(told["coverage"].items())]
    return "\n".join(rows)


def page(told: dict[str, Any], text: str) -> str:
    """Returns the page with the tables inserted between its markers."""
    begin, end = "<!-- campaign -->\n", "\n<!-- end of campaign -->"
    head, rest = text.split(begin)
    return head + begin + table(told) + end + rest.split(end)[1]


def processes_of(text: str) -> dict[str, int]:
    """Parses the numbers of processes by target, such as "json=4,container=3"."""
    return {name: int(count) for name, count in (part.split("=") for part in text.split(",") if part)}


def names_of(text: str) -> list[str]:
    """Splits names at commas."""
    return [name for name in text.split(",") if name]


def shares(exported: dict[str, Any]) -> dict[str, float]:
    """Returns the executed lines of each file in percent."""
    files = exported["data"][0]["files"]
    return {f["filename"].rpartition("/src/")[2]: round(f["summary"]["lines"]["percent"], 1) for f in files}


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("run", "keep"):
        each = verbs.add_parser(verb)
        each.add_argument("program", type=Path)
        each.add_argument("--work", type=Path, required=True)
        each.add_argument("--targets", type=names_of, default=[], help="comma-separated names of targets; default: all")
        if verb == "run":
            each.add_argument("--seconds", type=int, default=60)
            each.add_argument("--processes", type=processes_of, default={})
            each.add_argument("--out", type=Path)
            each.add_argument("--commit", default="")
    verbs.add_parser("page")
    verbs.add_parser("unpack").add_argument("folder", type=Path)
    verbs.add_parser("counts").add_argument("files", type=Path, nargs="+")
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
    actions["unpack"] = lambda: _unpack(given.folder)
    actions["counts"] = lambda: _counts(given.files)
    actions["add"] = lambda: _add(given.what, given.cases, given.faults)
    actions["blind"] = lambda: _blind(given.kind, given.logs, given.on, given.commit)
    actions["coverage"] = lambda: _coverage(given.file)
    return actions[given.verb]()


def _run(given: argparse.Namespace) -> int:
    program = given.program.resolve()
    found = run(program, given.work.resolve(), given.seconds, given.processes, given.targets)
    if given.out is not None:
        record(given.out, found, [f"{given.commit}, {machine()}"])
    print(table({"targets": found}))
    return 1 if any(c["faults"] for c in found.values()) else 0


def _keep(given: argparse.Namespace) -> int:
    keep(given.program.resolve(), given.work.resolve(), given.targets)
    return 0


def _unpack(folder: Path) -> int:
    unpack(folder)
    return 0


def _counts(files: list[Path]) -> int:
    for file in files:
        told = read(file)
        record(RESULTS, told["targets"], told["ran"])
    return 0


def _add(what: str, cases: int, faults: int) -> int:
    told = read(RESULTS)
    told["python"] = merged(told.get("python", {}), {what: {"executions": cases, "faults": faults}})
    write(RESULTS, told)
    return 0


def _blind(kind: str, logs: list[Path], machine: str, commit: str) -> int:
    told, found = read(RESULTS), {}
    for log in logs:
        for name, executions, faults, seconds in re.findall(
            r"^([a-z-]+) executions (\d+) faults (\d+) seconds (\d+)", log.read_text(), re.M
        ):
            each = {"executions": int(executions), "faults": int(faults), "seconds": int(seconds)}
            found = merged(found, {name: each})
    blind = told.setdefault("blind", {})
    blind["ran"] = sorted({*blind.get("ran", []), f"{commit}, {machine}"})
    blind[kind] = merged(blind.get(kind, {}), found)
    write(RESULTS, told)
    return 0


def _coverage(file: Path) -> int:
    told = read(RESULTS)
    told["coverage"] = shares(json.loads(file.read_text()))
    for name, share in sorted(told["coverage"].items()):
        print(f"{share:6.1f}%  {name}")
    write(RESULTS, told)
    return 0


def _page() -> int:
    PAGE.write_text(page(read(RESULTS), PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
