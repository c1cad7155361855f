"""The benchmark runner: one figure, its floor and their ratio for each case, and a JSON of everything.

    python benchmarks/run.py                 # every case, one and two threads where it says so
    python benchmarks/run.py --only multiply --threads 1 --out benchmarks/results/multiply.json
    python benchmarks/run.py --device cuda --out benchmarks/results/gpu.json   # the cases of gpu_cases.py, on a GPU
    python benchmarks/run.py --device cuda --counts 1,2 --out FILE.json        # the cases of mesh.py, on one GPU and on two

The floor of a case is the larger of two times: the bytes its kernels must move over the machine's copy rate, and the
modular products they must make over the machine's product rates (butterflies, and sums of products reduced once). Both counts come from running the case on the `null`
device; both rates are measured here, at the start, on as many cores as the case may use. Peers run in the same call
where they are installed (``pip install tenseal``).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent


def machine() -> dict[str, Any]:
    """What this machine is."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")

    def told(name: str) -> str:
        return next(
            (line.split(":", 1)[1].strip() for line in info.splitlines() if line.split("\t")[0].strip() == name), "?"
        )

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": told("model name"),
        "family": f"{told('vendor_id')} family {told('cpu family')} model {told('model')}",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def engine() -> dict[str, Any]:
    """The device in use, and the threads that it may take."""
    import heliograph as hg

    return {"device": hg.devices()[0], "threads": os.environ.get("HELIOGRAPH_THREADS", "all")}


def load() -> float:
    """Of the machine, over the last minute."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """The commit measured, with a mark where the tree had changes (results aside).

    HELIOGRAPH_COMMIT names it where the tree is a copy that git does not know.
    """
    if given := os.environ.get("HELIOGRAPH_COMMIT"):
        return given

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)benchmarks/results")
    return git("rev-parse", "HEAD") + ("+changes" if changed else "")


@cache
def example(folder: str, name: str) -> ModuleType:
    """A program of examples/, as a module."""
    path = HERE.parent / "examples" / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def measure(function: Any, seconds: float, at_least: int = 5) -> list[float]:
    """Times of repeated calls, after one to warm up."""
    function()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < at_least or (time.perf_counter() < end and len(times) < 200):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def child(names: list[str], seconds: float) -> None:
    """Runs cases in this process and prints their results as JSON lines."""
    import cases

    rates = cases.ceilings()
    print(json.dumps({"ceilings": rates}), flush=True)
    for name in names:
        case = cases.CASES[name]
        reason = case.missing()
        if reason:
            print(json.dumps({"case": name, "skipped": reason}), flush=True)
            continue
        prepared = case.prepare()
        times = measure(prepared.run, seconds, case.runs)
        median = statistics.median(times)
        floor = prepared.floor(rates) if prepared.floor else None
        print(
            json.dumps(
                {
                    "case": name,
                    "what": case.what,
                    "parameters": prepared.parameters,
                    "median_s": median,
                    "fastest_s": min(times),
                    "slowest_s": max(times),
                    "runs": len(times),
                    "floor_s": floor,
                    "over_floor": median / floor if floor else None,
                    "asked_s": case.asked,
                    "extra": prepared.extra() if prepared.extra else {},
                }
            ),
            flush=True,
        )


def run_child(
    rows: list[dict[str, Any]], names: list[str], seconds: float, env: dict[str, str], mark: dict[str, Any], **how: Any
) -> None:
    """Adds the rows of a process of its own, each with a mark, and shows them as they come."""
    command = [sys.executable, __file__, "--child", ",".join(names), "--seconds", str(seconds)]
    if "device" in mark:
        command += ["--device", mark["device"]]
    process = subprocess.Popen(command, cwd=HERE, env=dict(os.environ, **env), stdout=subprocess.PIPE, text=True, **how)
    assert process.stdout
    for line in process.stdout:
        row = json.loads(line) | mark
        rows.append(row)
        show(row)
    if process.wait():
        raise SystemExit(f"a benchmark process ended with {process.returncode}")


def run_group(rows: list[dict[str, Any]], names: list[str], threads: int, seconds: float) -> None:
    """One process with so many threads, pinned to as many cores."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    device = os.environ.get("HELIOGRAPH_DEVICE") or "cpu"
    env = {"HELIOGRAPH_DEVICE": device, "HELIOGRAPH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    pin = {"preexec_fn": lambda: os.sched_setaffinity(0, cores)}
    run_child(rows, names, seconds, env, {"threads": threads}, **pin)


def device_kernels(micro: Path, device: str) -> list[dict[str, Any]]:
    """Single kernels and batches of them on a device."""
    import gpu_cases

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "micro.json"
        command = [str(micro), "--device", device, "--seconds", "0.1", "--json", str(out)]
        subprocess.run(command, check=True)
        figures = json.loads(out.read_text())["figures"]
    rows = []
    for f in figures:
        asked, floor = next((v for k, v in gpu_cases.KERNELS.items() if f["name"].startswith(k)), (None, None))
        rows.append(
            {
                "kernel": f["name"],
                "device": device,
                "median_s": f["microseconds"] * 1e-6,
                "pipe_s": f["pipe_microseconds"] * 1e-6,
                "units": f["units"],
                "unit": f["unit"],
                "asked_s": f["units"] / asked if asked else None,
                "floor_s": f["units"] / floor if floor else None,
            }
        )
    return rows


def kernels(micro: Path) -> list[dict[str, Any]]:
    """Single kernels on one core, by instruction set."""
    rows = []
    for instructions in ("avx512", "avx2", "scalar"):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "micro.json"
            command = [
                "taskset",
                "-c",
                str(min(os.sched_getaffinity(0))),
                str(micro),
                "--device",
                f"cpu:{instructions}",
                "--json",
                str(out),
            ]
            env = dict(os.environ, HELIOGRAPH_THREADS="1")
            if subprocess.run(command, env=env, check=False).returncode == 0:
                rows += [
                    {"kernel": f["name"], "level": instructions, "threads": 1, "median_s": f["microseconds"] * 1e-6}
                    for f in json.loads(out.read_text())["figures"]
                ]
    return rows


def report(rows: list[dict[str, Any]], found: dict[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
    """What is written of some rows: when, which commit, where (this machine where nothing is said), and `more`."""
    now = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
    return more | now | {"machine": machine() if found is None else found, "results": rows}


def save(path: Path | None, found: dict[str, Any]) -> None:
    """A report as JSON, all or nothing."""
    if path is None:
        return
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    aside.replace(path)


def run_named(
    kind: str,
    words: str | None,
    names: Iterable[str],
    measured: Callable[[str, float], dict[str, Any]],
    line: Callable[[dict[str, Any]], str],
    seconds: float,
    more: Callable[[], dict[str, Any]] = dict,
) -> None:
    """The command of a program whose cases have names: measures and shows those asked for, and writes a report of a kind.

    `more` is what is to be said of the machine besides.
    """
    parser = argparse.ArgumentParser(description=(words or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="cases whose names begin so, separated by commas")
    parser.add_argument("--seconds", type=float, default=seconds, help="for each case")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    for name in names:
        if not given.only or name.startswith(tuple(given.only.split(","))):
            rows.append(measured(name, given.seconds))
            print(line(rows[-1]), flush=True)
            save(given.out, report(rows, machine() | engine() | more(), kind=kind, load=load()))


class Rows:
    """A report that is shown and written row by row: time on GPUs is dear. `more` is what is said besides."""

    def __init__(self, out: Path | None, shown: Callable[[dict[str, Any]], None] | None = None, **more: Any) -> None:
        self.out, self.shown, self.more = out, shown or show, more
        self.machine, self.rows = machine(), list[dict[str, Any]]()
        self._most, self._before = 0, load()

    def add(self, row: dict[str, Any]) -> None:
        """One more, or the machine: it is described by its largest mesh."""
        if "machine" in row:
            if row["devices"] >= self._most:
                self.machine |= row["machine"]
                self._most = row["devices"]
            return
        self.rows.append(row)
        self.shown(row)
        save(self.out, report(self.rows, self.machine, **{"load": [self._before, load()]} | self.more))


def several(options: argparse.Namespace, declared: dict[str, Any]) -> None:
    """Several devices as one."""
    import mesh

    counts = [int(count) for count in options.counts.split(",")]
    names = [] if options.only == "none" else mesh.chosen(options.only, list(declared))
    seconds = options.seconds or 1.0
    if options.list:
        for process in mesh.plan(options.device, counts, names, options.layouts):
            print(f"{process.device}: {' '.join(process.names)}")
        return
    add = Rows(options.out).add
    mesh.run(options.device, counts, names, options.layouts, seconds, options.limit, add, options.exchanges)


def show(row: dict[str, Any]) -> None:
    """One line for a person."""
    if "exchange" in row:
        what = f"{row['exchange']} {row.get('matrix', row.get('megabytes', ''))}, {row.get('what', '')}, {row['devices']} devices"
        if "skipped" in row:
            print(f"{what}: skipped: {row['skipped']}")
        else:
            times = f"{row['median_s'] * 1e6:10.2f} us pipe {row['pipe_s'] * 1e6:10.2f} us {row['bytes_s'] / 1e9:8.2f} GB/s"
            print(f"{what + ', ' + row['path']:96} {times}", flush=True)
    elif "ceilings" in row:
        rates = row["ceilings"]
        if "device" in row:
            print(
                f"# {row['device']}: copy {rates['copy_bytes_s'] / 1e9:.0f} GB/s, {rates['products_s'] / 1e9:.0f} G products/s"
            )
            return
        print(
            f"# {row['threads']} thread(s): copy {rates['copy_bytes_s'] / 1e9:.1f} GB/s, {rates['products_s'] / 1e9:.2f} G butterflies/s, "
            f"{rates['sums_s'] / 1e9:.1f} G summed products/s"
        )
    elif "skipped" in row:
        print(f"{row['case']:34} skipped: {row['skipped']}", row.get("device", ""), flush=True)
    elif "machine" in row:
        print(f"# {row['machine']['device']}")
    else:
        unit, scale = ("ms", 1e3) if row["median_s"] < 2 else ("s ", 1)
        floor = f"{row['floor_s'] * scale:9.3f}" if row["floor_s"] else " " * 9
        ratio = f"{row['over_floor']:6.2f}" if row["over_floor"] else " " * 6
        asked = f"{row['asked_s'] * scale:9.3f}" if row["asked_s"] else " " * 9
        pipe = f"pipe {row['pipe_s'] * scale:9.3f} " if "pipe_s" in row else ""
        joules = f" {row['joules']:.3g} J" if row.get("joules") else ""
        if "layout" in row:
            joules += f" x{row['speedup']:.2f} of one," if row["speedup"] else ""
            joules += f" {row['device']}"
        print(
            f"{row['case']:34} {row['median_s'] * scale:9.3f} {unit} {pipe}floor {floor} x{ratio} asked {asked}{joules}  {row['extra'] or ''}",
            flush=True,
        )


def main() -> None:
    """Parses the command line and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="comma-separated beginnings of case names")
    parser.add_argument("--threads", default="", help="comma-separated thread counts; default: each case's own")
    parser.add_argument("--device", default="cpu", help="cpu: processor cores, by threads; cuda: a GPU and its own cases")
    parser.add_argument("--seconds", type=float, help="time for each case; default: 3, on a GPU 1")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--micro", type=Path, help="the built benchmarks/cpp/micro: single kernels go into the JSON too")
    parser.add_argument("--counts", default="", help="comma-separated numbers of devices to make one: the cases of mesh.py")
    parser.add_argument(
        "--layouts", default="", help="with --counts: only these, comma-separated; auto is the mesh's own choice"
    )
    parser.add_argument(
        "--exchanges", type=Path, help="with --counts: the built benchmarks/cpp/mesh: what moves between devices"
    )
    parser.add_argument(
        "--limit", type=float, default=150, help="with --counts: seconds after which a silent process is ended"
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--rates", help=argparse.SUPPRESS)
    options = parser.parse_args()
    on_cores = options.device == "cpu" and not options.counts and not options.rates
    seconds = options.seconds or (3.0 if on_cores else 1.0)
    if options.child:
        if on_cores:
            child(options.child.split(","), seconds)
        else:
            import gpu

            rates = json.loads(options.rates) if options.rates else None
            gpu.child(options.child.split(","), seconds, options.device, rates)
        return
    declared: dict[str, Any] = importlib.import_module("cases" if on_cores else "gpu_cases").CASES
    if options.counts:
        several(options, declared)
        return
    chosen = [n for n in declared if not options.only or n.startswith(tuple(options.only.split(",")))]
    if options.list:
        print("\n".join(f"{n:34} {declared[n].what}" for n in chosen))
        return
    found, failure = machine(), ""
    rows: list[dict[str, Any]] = []
    if on_cores:
        for threads in (1, 2):
            if options.threads and str(threads) not in options.threads.split(","):
                continue
            names = [n for n in chosen if threads in declared[n].threads]
            if names and threads <= found["cores"]:
                run_group(rows, names, threads, seconds)
        if options.micro:
            rows += kernels(options.micro)
    else:
        try:
            if chosen:
                one = "cuda:0" if options.device == "cuda" else options.device  # the bare name is all there are
                run_child(rows, chosen, seconds, {"HELIOGRAPH_DEVICE": one}, {"device": options.device})
            if options.micro:
                rows += device_kernels(options.micro, options.device)
        except (SystemExit, subprocess.CalledProcessError) as error:  # time on a GPU is dear: what there is is kept
            failure = str(error)
        for row in rows:
            found |= row.get("machine", {})
        rows = [row for row in rows if "machine" not in row]
    if rows:
        save(options.out, report(rows, found))
    if failure:
        raise SystemExit(failure)


if __name__ == "__main__":
    main()
