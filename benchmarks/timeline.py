"""When a GPU's kernels run while a bootstrap of 28-bit primes is run as instructions of single limbs: kernel by kernel, as graphs, and fused.

    python benchmarks/timeline.py --out benchmarks/results/mine-timeline.json --trace benchmarks/results/mine-timeline-trace.json

Needs a GPU and PyTorch, whose profiler sees all kernels of the process. Writes figures (the share of the time in which no kernel runs; how many run at
once) and some milliseconds of each run as a trace, which Perfetto and chrome://tracing open and docs/pictures/kim.py draws. Figure 5.2 of Kim's
thesis (2025).
"""

from __future__ import annotations

import argparse
import bisect
import json
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import run as runner

#: Of benchmarks/instructions.py.
CHOSEN = ("calls", "stream", "branches", "all")
SET = "n16-b13/w32"
MOST_EVENTS = 3500  # of a run in a trace

#: Begin and length in microseconds, and a kernel's name.
Kernel = tuple[float, float, str]


def short(name: str) -> str:
    """A kernel's own name, without its scope, its parameters and what it is made for."""
    plain = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "").removeprefix("void ")
    return re.split(r"[<(]", plain, maxsplit=1)[0].rsplit("::", 1)[-1].removesuffix("_kernel").strip()


def kernels_of(trace: dict[str, Any]) -> list[Kernel]:
    """A profile's kernels, copies and fills, by their begin."""
    taken = ("kernel", "gpu_memcpy", "gpu_memset")
    events = (e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in taken)
    return sorted((float(e["ts"]), float(e["dur"]), short(e["name"])) for e in events)


def figures(kernels: list[Kernel]) -> dict[str, Any]:
    """Of one run."""
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
    """For each the first lane that is free when it begins."""
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
    """What begins in a stretch of so long, from 0: where most begin, since a profiler stops at times to write down what it saw."""
    begins = [ts for ts, _, _ in kernels]
    most = max(range(len(begins)), key=lambda i: bisect.bisect_left(begins, begins[i] + microseconds) - i)
    start = begins[most]
    inside = [(ts - start, length, name) for ts, length, name in kernels if start <= ts < start + microseconds]
    return inside[:MOST_EVENTS]


def events(number: int, words: str, kernels: list[Kernel]) -> list[dict[str, Any]]:
    """Of one run, in the format of traces: a run is a process, a lane a thread."""
    return [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": words}},
        *(
            {"ph": "X", "name": name, "ts": round(ts, 2), "dur": round(length, 2), "pid": number, "tid": lane}
            for (ts, length, name), lane in zip(kernels, lanes(kernels), strict=True)
        ),
    ]


def profiled(call: Any) -> list[Kernel]:
    """The kernels of a call."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return kernels_of(json.loads(path.read_text(encoding="utf-8")))


def measure(out: Path | None, trace: Path | None, microseconds: float, names: list[str], set_name: str) -> None:
    """All runs; figures and trace are written after each."""
    try:
        import torch
    except ImportError:
        raise SystemExit("the profiler is PyTorch's: pip install torch") from None
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU")
    torch.zeros(1, device="cuda")
    import ckks_cases
    import instructions
    import numpy as np

    import heliograph as hg

    function, server, x, secret = instructions._bootstrap(set_name)
    program = hg.program(function, x)
    expected = secret.decrypt(program(x))
    written = hg.cinnamon.write(program, inputs=["x"], results=["y"])
    rows: list[dict[str, Any]] = []
    drawn: list[dict[str, Any]] = []
    profiled(lambda: program(x).wait())  # the profiler's own start
    for number, name in enumerate(names):
        words, options = instructions.VARIANTS[name]
        run = written.at(server, **options)
        seconds = []
        for _ in range(7):  # from the third on what is measured
            start = time.perf_counter()
            result = run(x=x)["y"]
            result.wait()
            seconds.append(time.perf_counter() - start)
        if not np.array_equal(secret.decrypt(result)[..., : expected.shape[-1]], expected):
            raise SystemExit(f"{name}: other values than the recorded program's")
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
        machine = runner.machine() | runner.engine() | instructions.boards()
        more = {
            "kind": "timeline",
            "parameters": ckks_cases.describe(server.keys.parameters),
            "profiler": f"PyTorch {torch.__version__}",
        }
        runner.save(out, runner.report(rows, machine, **more))
        if trace is not None:
            said = {"device": torch.cuda.get_device_name(), "commit": runner.commit(), "window_us": microseconds}
            compact = json.dumps({"otherData": said, "traceEvents": drawn}, separators=(",", ":"))
            trace.write_text(compact.replace('{"ph"', '\n{"ph"') + "\n", encoding="utf-8")


def line(row: dict[str, Any]) -> str:
    """For a person."""
    return (
        f"{row['words']:28s} {row['replay_s'] * 1e3:8.2f} ms (profiled {row['span_s'] * 1e3:8.2f}), {row['kernels']:6d} kernels of {row['median_kernel_s'] * 1e6:.1f} us, "
        f"none runs {row['idle_share']:.0%} of the time, {row['running_at_once']:.1f} at once"
    )


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--trace", type=Path, help="where the trace is written")
    parser.add_argument("--window", type=float, default=2000.0, help="microseconds of each run in it")
    parser.add_argument("--variants", default=",".join(CHOSEN))
    parser.add_argument("--set", default=SET)
    given = parser.parse_args()
    measure(given.out, given.trace, given.window, given.variants.split(","), given.set)


if __name__ == "__main__":
    main()
