"""The benchmark runner: measures time, floor and their ratio for each case, and writes a file with all data.

    python -m benchmarks.run                 # every case, on one and two threads if the case declares them
    python -m benchmarks.run --only multiply --threads 1 --out benchmarks/results/multiply.jsonl
    python -m benchmarks.run --device cuda --out benchmarks/results/gpu.jsonl   # the cases of gpu_cases.py, on a GPU
    python -m benchmarks.run --device cuda --counts 1,2 --out FILE.jsonl        # the cases of mesh.py, on one GPU and on two

The floor of a case is the longer of two times. The first time is that of the bytes that the kernels must move, at the
machine's copy rate. The second time is that of the modular products, at the machine's product rates (butterflies, and sums
of products with one reduction). The counts of bytes and products come from a run of the case on the `null` device. The copy
and product rates are measured at the start, on as many cores as the case may use. Peers run in the same call if they are
installed (``pip install tenseal``)."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import results
from benchmarks.runners import common


def child(names: list[str], seconds: float) -> None:
    """Runs cases in this process and prints their results as JSON lines."""
    from benchmarks.cases import cores as cases

    rates = cases.ceilings()
    print(json.dumps({"ceilings": rates}), flush=True)
    for name in names:
        case = cases.CASES[name]
        reason = case.missing()
        if reason:
            print(json.dumps({"case": name, "skipped": reason}), flush=True)
            continue
        prepared = case.prepare()
        times = common.measure(prepared.run, seconds, case.runs)
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
    """Adds the rows of a child process, each with the fields `mark`, and prints the rows as they arrive."""
    command = [*common.module("run"), "--child", ",".join(names), "--seconds", str(seconds)]
    if "device" in mark:
        command += ["--device", mark["device"]]
    process = subprocess.Popen(
        command, cwd=common.ROOT, env=dict(os.environ, **env), stdout=subprocess.PIPE, text=True, **how
    )
    assert process.stdout
    for line in process.stdout:
        row = json.loads(line) | mark
        rows.append(row)
        common.show(row)
    if process.wait():
        raise SystemExit(f"a benchmark process ended with {process.returncode}")


def run_group(rows: list[dict[str, Any]], names: list[str], threads: int, seconds: float) -> None:
    """Runs cases in one process with the given number of threads, pinned to as many cores."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    device = os.environ.get("HELIOGRAPH_DEVICE") or "cpu"
    env = {"HELIOGRAPH_DEVICE": device, "HELIOGRAPH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    pin = {"preexec_fn": lambda: os.sched_setaffinity(0, cores)}
    run_child(rows, names, seconds, env, {"threads": threads}, **pin)


def device_kernels(micro: Path, device: str) -> list[dict[str, Any]]:
    """Returns single kernels and batches of them on a device."""
    from benchmarks.cases import gpu as gpu_cases

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
    """Returns single kernels on one core, by instruction set."""
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


def several(options: argparse.Namespace, declared: dict[str, Any]) -> None:
    """Runs the cases of several devices as one."""
    from benchmarks.runners import mesh

    counts = [int(count) for count in options.counts.split(",")]
    names = [] if options.only == "none" else mesh.chosen(options.only, list(declared))
    seconds = options.seconds or 1.0
    if options.list:
        for process in mesh.plan(options.device, counts, names, options.layouts):
            print(f"{process.device}: {' '.join(process.names)}")
        return
    add = common.Rows(options.out).add
    mesh.run(options.device, counts, names, options.layouts, seconds, options.limit, add, options.exchanges)


def main() -> None:
    """Parses the command line and writes the results."""
    options = common.parser(
        __doc__,
        only="",
        threads=("", "comma-separated thread counts; default: each case's own"),
        device=("cpu", "cpu: processor cores, by threads; cuda: a GPU, with its own cases"),
        seconds=(float, "seconds per case; default: 3, on a GPU 1"),
        micro=(Path, "built program benchmarks/cpp/micro; adds single kernels"),
        counts=("", "comma-separated numbers of devices, used as one, with the cases of mesh.py"),
        layouts=("", "with --counts: comma-separated layouts; auto is the mesh's own choice"),
        exchanges=(Path, "with --counts: built program benchmarks/cpp/mesh; adds transfers between devices"),
        limit=(150.0, "with --counts: seconds without output after which a process is killed"),
        list=False,
        child=str,
        rates=str,
    ).parse_args()
    on_cores = options.device == "cpu" and not options.counts and not options.rates
    seconds = options.seconds or (3.0 if on_cores else 1.0)
    if options.child:
        if on_cores:
            child(options.child.split(","), seconds)
        else:
            from benchmarks.runners import gpu

            rates = json.loads(options.rates) if options.rates else None
            gpu.child(options.child.split(","), seconds, options.device, rates)
        return
    declared: dict[str, Any] = importlib.import_module(f"benchmarks.cases.{'cores' if on_cores else 'gpu'}").CASES
    if options.counts:
        several(options, declared)
        return
    chosen = [n for n in declared if not options.only or n.startswith(tuple(options.only.split(",")))]
    if options.list:
        print("\n".join(f"{n:34} {declared[n].what}" for n in chosen))
        return
    found, failure = common.machine(), ""
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
                one = "cuda:0" if options.device == "cuda" else options.device  # the name without a number means all GPUs
                run_child(rows, chosen, seconds, {"HELIOGRAPH_DEVICE": one}, {"device": options.device})
            if options.micro:
                rows += device_kernels(options.micro, options.device)
        except (SystemExit, subprocess.CalledProcessError) as error:  # the rows measured so far are kept
            failure = str(error)
        for row in rows:
            found |= row.get("machine", {})
        rows = [row for row in rows if "machine" not in row]
    if rows:
        results.save(options.out, common.report(rows, found))
    if failure:
        raise SystemExit(failure)


if __name__ == "__main__":
    main()
