"""Records when a GPU's kernels run during a bootstrap of 28-bit primes as single-limb instructions: kernel by kernel, as graphs, fused.

    python -m benchmarks.runners.timeline --out benchmarks/results/mine-timeline.jsonl --trace benchmarks/results/mine-timeline-trace.json

Needs a GPU and PyTorch, whose profiler sees all kernels of the process. Writes statistics (the share of time without a running kernel; the
number of concurrent kernels) and some milliseconds of each run as a trace for Perfetto, chrome://tracing and docs/pictures/kim.py. Figure
5.2 of Kim's thesis (2025).
"""

from __future__ import annotations

import bisect
import json
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import results
from benchmarks.runners import common

#: Names of the measured variants in benchmarks/runners/instructions.py.
CHOSEN = ("calls", "stream", "branches", "all")
SET = "n16-b13/w32"
MOST_EVENTS = 3500  # default interval in microseconds of each run in the trace

#: Start and length in microseconds, and a kernel's name.
Kernel = tuple[float, float, str]


def short(name: str) -> str:
    """Returns a kernel's name without its scope, parameters and template arguments."""
    plain = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "").removeprefix("void ")
    return re.split(r"[<(]", plain, maxsplit=1)[0].rsplit("::", 1)[-1].removesuffix("_kernel").strip()


def kernels_of(trace: dict[str, Any]) -> list[Kernel]:
    """Returns a profile's kernels, copies and fills, by their start."""
    taken = ("kernel", "gpu_memcpy", "gpu_memset")
    events = (e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in taken)
    return sorted((float(e["ts"]), float(e["dur"]), short(e["name"])) for e in events)


def figures(kernels: list[Kernel]) -> dict[str, Any]:
    """Returns the statistics of one run."""
    begin, end = kernels[0][0], max(ts + length for ts, length, _ in kernels)
    busy = several = 0.0
    running, before = 0, begin
    for at, step in sorted([(ts, 1) for ts, _, _ in kernels] + [(ts + length, -1) for ts, length, _ in kernels]):
        busy += (at - before) * (running > 0)
        several += (at - before) * (running > 1)
        running, before = running + step, at
    lengths = [length for _, length, _ in kernels]
    times: dict[str, float] = {}
    for _, length, name in kernels:
        times[name] = times.get(name, 0.0) + length * 1e-6
    return {
        "kernels": len(kernels),
        "span_s": (end - begin) * 1e-6,
        "busy_s": busy * 1e-6,
        "idle_share": 1 - busy / (end - begin),
        "several_share": several / busy,
        "running_at_once": sum(lengths) / busy,
        "median_kernel_s": statistics.median(lengths) * 1e-6,
        "kernel_seconds": dict(sorted(times.items(), key=lambda item: -item[1])),
    }


def lanes(kernels: list[Kernel]) -> list[int]:
    """Returns, for each kernel, the first lane that is free at its start."""
    free: list[float] = []
    taken = []
    for ts, length, _ in kernels:
        lane = next((i for i, until in enumerate(free) if until <= ts + 1e-9), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane] = ts + length
        taken.append(lane)
    return taken


def window(kernels: list[Kernel], microseconds: float) -> list[Kernel]:
    """Returns the kernels that start in the interval with the most starts, from 0. The profiler pauses now and then to store events."""
    begins = [ts for ts, _, _ in kernels]
    most = max(range(len(begins)), key=lambda i: bisect.bisect_left(begins, begins[i] + microseconds) - i)
    start = begins[most]
    inside = [(ts - start, length, name) for ts, length, name in kernels if start <= ts < start + microseconds]
    return inside[:MOST_EVENTS]


def events(number: int, words: str, kernels: list[Kernel]) -> list[dict[str, Any]]:
    """Returns the trace events of one run: a run is a process, a lane a thread."""
    return [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": words}},
        *(
            {"ph": "X", "name": name, "ts": round(ts, 2), "dur": round(length, 2), "pid": number, "tid": lane}
            for (ts, length, name), lane in zip(kernels, lanes(kernels), strict=True)
        ),
    ]


def profiled(call: Any) -> list[Kernel]:
    """Returns the kernels of a call."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return kernels_of(json.loads(path.read_text(encoding="utf-8")))


def measure(out: Path | None, trace: Path | None, microseconds: float, names: list[str], set_name: str) -> None:
    """Measures all runs; writes statistics and trace after each."""
    try:
        import torch
    except ImportError:
        raise SystemExit("cannot profile: PyTorch is not installed; pip install torch") from None
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU")
    torch.zeros(1, device="cuda")
    import numpy as np

    import heliograph as hg
    from benchmarks.cases import ckks as ckks_cases
    from benchmarks.runners import instructions

    function, server, x, secret = instructions._bootstrap(set_name)
    program = hg.program(function, x)
    expected = secret.decrypt(program(x))
    written = hg.cinnamon.write(program, inputs=["x"], results=["y"])
    rows: list[dict[str, Any]] = []
    drawn: list[dict[str, Any]] = []
    profiled(lambda: program(x).wait())  # starts the profiler
    for number, name in enumerate(names):
        words, options = instructions.VARIANTS[name]
        run = written.at(server, **options)
        seconds = []
        for _ in range(7):  # the first two calls are warm-up
            start = time.perf_counter()
            result = run(x=x)["y"]
            result.wait()
            seconds.append(time.perf_counter() - start)
        if not np.array_equal(secret.decrypt(result)[..., : expected.shape[-1]], expected):
            raise SystemExit(f"{name}: the values differ from the recorded program's")
        kernels = profiled(lambda run=run: run(x=x)["y"].wait())
        if not kernels:
            raise SystemExit(f"{name}: the profiler saw no kernel")
        found = figures(kernels)
        replay = statistics.median(seconds[2:])
        rows.append(
            {"variant": name, "words": words, "calls": run.calls, "replay_s": replay}
            | {"idle_share_of_replay": 1 - found["busy_s"] / replay}
            | found
        )
        print(line(rows[-1]), flush=True)
        drawn += events(number, words, window(kernels, microseconds))
        machine = common.machine() | common.engine() | instructions.boards()
        more = {
            "kind": "timeline",
            "parameters": ckks_cases.describe(server.keys.parameters),
            "profiler": f"PyTorch {torch.__version__}",
        }
        results.save(out, common.report(rows, machine, **more))
        if trace is not None:
            said = {"device": torch.cuda.get_device_name(), "commit": common.commit(), "window_us": microseconds}
            compact = json.dumps({"otherData": said, "traceEvents": drawn}, separators=(",", ":"))
            trace.write_text(compact + "\n", encoding="utf-8")


def line(row: dict[str, Any]) -> str:
    """Formats a row for the terminal."""
    return (
        f"{row['words']:28s} {row['replay_s'] * 1e3:8.2f} ms (profiled {row['span_s'] * 1e3:8.2f}), {row['kernels']:6d} kernels of {row['median_kernel_s'] * 1e6:.1f} us, "
        f"none runs {row['idle_share']:.0%} of the time, {row['running_at_once']:.1f} at once"
    )


def main() -> None:
    """Parses the command line and measures."""
    given = common.parser(
        __doc__,
        trace=(Path, "trace file to write"),
        window=(2000.0, "microseconds of each run in the trace"),
        variants=",".join(CHOSEN),
        set=SET,
    ).parse_args()
    measure(given.out, given.trace, given.window, given.variants.split(","), given.set)


if __name__ == "__main__":
    main()
