"""Measures the tables of Frame's thesis (2015): add, subtract and multiply of DoubleCRT objects, resident and copied.

    python -m benchmarks.runners.doublecrt --program build/bench/benchmarks/doublecrt --out FILE.jsonl
    python -m benchmarks.runners.doublecrt --program build/bench-cuda/benchmarks/doublecrt --device cuda --out FILE.jsonl
    python -m benchmarks.runners.doublecrt --program ... --device cuda --ranks 1,2,4,8 --out FILE.jsonl   # a GPU each
    python -m benchmarks.runners.doublecrt --program ... --device cuda --copies build/workbench/workbench/workbench_copies --out FILE.jsonl

Runs the program benchmarks/cpp/doublecrt.cpp, which checks every result before it is timed. The program runs on cores with one thread and
with two, on a GPU once; then as the ranks of one mesh, in three layouts. The layout `limb` distributes rows round-robin ("rolling
round-robin" in the thesis). `--copies` names the built workbench/copies.cu, which pipelines the copies around an operation. A process
that fails loses only its own rows. No Python package is needed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import results
from benchmarks.runners import common, hosts, mesh, nvml

Row = dict[str, Any]
LAYOUTS = ("batch", "limb", "coefficient")
QUICK = ("--sizes", "1000", "--rings", "1024", "--batch", "2", "--seconds", "0.001")


@dataclass(frozen=True)
class Plan:
    """One run of the program, as one process or as the ranks of a mesh."""

    device: str
    edition: str = "w64"
    threads: int = 0  # number of threads; 0: all
    ranks: int = 0  # number of ranks; 0: no mesh
    layout: str = ""
    options: tuple[str, ...] = ()

    @property
    def mark(self) -> Row:
        """Returns the fields that identify the run in its rows."""
        return {
            "device": self.device,
            "edition": self.edition,
            "threads": self.threads,
            "ranks": self.ranks,
            "layout": self.layout,
        }


def plans(device: str, cores: int, ranks: list[int], editions: list[str]) -> Iterator[Plan]:
    """Yields the runs; the base of comparisons is first."""
    on_cores = device.split("/")[0].startswith("cpu")
    for edition in editions:
        options = () if edition == editions[0] else ("--levels", "function", "--rings", "131072", "--batch", "1")
        for threads in [t for t in (1, 2) if t <= cores] if on_cores else [0]:
            yield Plan(device, edition, threads, options=options)
    for count in ranks:
        for layout in LAYOUTS:
            levels = "function,phase,circuit" if layout == "batch" else "function,phase"
            rings = "8192" if layout == "batch" else ""
            operations = "add,sub,mul,neg,multiply"
            options = ("--levels", levels, "--rings", rings, "--operations", operations)
            yield Plan(device, editions[0], 1 if on_cores else 0, count, layout, options)


def free_port() -> int:
    """Returns a TCP port that is free at the time of the call."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def commands(plan: Plan, places: hosts.Hosts) -> list[tuple[str, dict[str, str]]]:
    """Returns the device and the environment of each process. Ranks run on the given hosts."""
    base = {"HELIOGRAPH_THREADS": str(plan.threads)} if plan.threads else {}
    if not plan.ranks:
        return [(plan.device, base)]
    names = mesh.members(plan.device, plan.ranks)
    options = "".join("/" + word for word in plan.device.split("/")[1:])
    if plan.layout != mesh.AUTO:
        options += f"/uncalibrated/{plan.layout}"
    if len(set(names)) < len(names) and names[0].startswith("cuda"):
        options += "/sockets"  # NCCL does not join ranks on one GPU
    if plan.ranks == 1:
        return [(f"1*{names[0]}{options}", base)]
    meet = {"HELIOGRAPH_RANKS": str(plan.ranks), "HELIOGRAPH_MEET": f"{places.addresses[0]}:{free_port()}"}
    return [(name + options, base | meet | {"HELIOGRAPH_RANK": str(r)}) for r, name in enumerate(names)]


def measure(program: Path, plan: Plan, more: list[str], limit: float, places: hosts.Hosts | None = None) -> list[Row]:
    """Runs a plan and returns its rows. Ranks run on this machine unless hosts are given. If the run fails, the last row has
    the reason.
    """
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lines.json"
        processes = []
        places = places or hosts.loopback(max(1, plan.ranks))
        for number, (device, env) in enumerate(commands(plan, places)):
            command = [str(program), "--device", device, "--edition", plan.edition, *plan.options, *more]
            if number == 0:
                command += ["--json", str(out)]
            said = (Path(folder) / f"{number}.txt").open("w")
            mine = {cores[number % len(cores)]} if plan.ranks > 1 else set(cores[: plan.threads or None])
            processes.append(
                subprocess.Popen(
                    places.command(number, command), env=dict(os.environ, **env), stdout=said, stderr=said,
                    preexec_fn=lambda mine=mine: os.sched_setaffinity(0, mine) if plan.threads else None,
                )
            )  # fmt: skip
            said.close()
        end, codes = time.monotonic() + limit, []
        for process in processes:
            try:
                codes.append(process.wait(timeout=max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                process.kill()
                codes.append(process.wait())
        rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        if any(codes):
            first = next(i for i, code in enumerate(codes) if code)
            words = " ".join((Path(folder) / f"{first}.txt").read_text().split()[-40:])
            rows.append({"skipped": f"process {first} ended with {codes[first]}: {words}"})
    return rows


def copies(program: Path, rows: int, limit: float, largest: int = 400_000) -> list[Row]:
    """Returns the rows of workbench/copies.cu: operations with the copies around them, sequential and pipelined."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "copies.json"
        command = [str(program), str(out), str(rows), "25", str(largest)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return [{"skipped": f"copies took longer than {limit:.0f} s"}]
        if done.returncode:
            return [{"skipped": f"copies ended with {done.returncode}: {' '.join(done.stderr.split()[-40:])}"}]
        found = json.loads(out.read_text(encoding="utf-8"))
    return [
        {"level": "copies", "ring": False, "items": 1, "parts": 1, "median_s": r["seconds"]} | r for r in found["copies"]
    ]


def with_floors(rows: list[Row], threads: int) -> list[Row]:
    """Adds floors to the rows: the longer of the bytes at the rate of in-place negation of the same rows, and the products
    at the machine's rate.
    """
    head = next((r for r in rows if "products_s" in r), {"products_s": 0})
    products_s = head["products_s"] * max(1, threads)
    pace = {
        (r["row_size"], r["ring"], r["items"]): r["pipe_s"] / r["bytes"]
        for r in rows
        if r.get("operation") == "neg" and r["parts"] == 1
    }
    for r in rows:
        a_byte = pace.get((r.get("row_size"), r.get("ring"), r.get("items")))
        if "bytes" in r and a_byte and r["operation"] != "neg":
            r["floor_s"] = max(r["bytes"] * a_byte, r["products"] / products_s if products_s else 0)
    return rows


def show(row: Row) -> None:
    """Prints a row for the terminal."""
    if "skipped" in row:
        print("skipped:", row["skipped"], flush=True)
    elif "level" in row:
        where = f"{row['device']} {row['edition']}" + (f" x{row['threads']}" if row["threads"] else "")
        where += f" {row['ranks']} ranks {row['layout']}" if row["ranks"] else ""
        what = f"{row['level']} {row['operation']}, {row['row_size']:,}{' (ring)' if row['ring'] else ''} x{row['items']}"
        what += f" {row['way']} {row['order']} {'pinned' if row['pinned'] else ''}" if row["level"] == "copies" else ""
        floor = f" floor {row['floor_s'] * 1e6:11.2f}" if "floor_s" in row else ""
        moved = f" moved {row['moved'] + row.get('dealt', 0):.3g} B" if row["ranks"] else ""
        print(f"{where:34} {what:52} {row['median_s'] * 1e6:11.2f} us{floor}{moved}", flush=True)


def main() -> None:
    """Parses the command line and writes the results."""
    options = common.parser(
        __doc__,
        needs=("program", "out"),
        program=Path,
        device=("cpu", "cpu, or cuda (the first GPU, and one GPU per rank)"),
        ranks=(str, "comma-separated numbers of processes; default: 1,2,4,8,16 on cores, none on a GPU"),
        editions="w64,w32",
        rows=(8, "rows per object, one prime each"),
        seconds=(0.02, "seconds per row"),
        limit=(120.0, "seconds after which a run is killed"),
        copies=(Path, "built workbench/copies.cu; measures pipelined copies too"),
        quick=(False, "one small size, for tests"),
    ).parse_args()
    on_cores = options.device.split("/")[0].startswith("cpu")
    given = options.ranks if options.ranks is not None else "1,2,4,8,16" if on_cores else ""
    ranks = [int(count) for count in given.split(",") if count]
    more = ["--rows", str(options.rows), "--seconds", str(options.seconds)]
    found: Row = common.machine() | nvml.Gpus(range(min(max([1, *ranks]), nvml.count())), not on_cores).describe()
    rows: list[Row] = []
    report = common.report(rows, found, kind="doublecrt", rows=options.rows, load=common.load())
    alone = "cuda:0" if options.device == "cuda" else options.device
    for plan in plans(options.device, found["cores"], ranks, options.editions.split(",")):
        single = plan if plan.ranks else Plan(alone, plan.edition, plan.threads, options=plan.options)
        for row in with_floors(
            measure(options.program, single, more + list(QUICK if options.quick else ()), options.limit), plan.threads
        ):
            if "description" in row:
                found.setdefault("device", f"{row['device']}: {row['description']}")
            rows.append(row | plan.mark)
            show(rows[-1])
        results.save(options.out, report)
    if options.copies:
        for row in copies(options.copies.resolve(), options.rows, options.limit, 1000 if options.quick else 400_000):
            rows.append(row | Plan(alone).mark)
            show(rows[-1])
        results.save(options.out, report)


if __name__ == "__main__":
    main()
