"""Measuring on a device that computes while its caller goes on: every time ends with a wait for the result.

A case has two times. Its latency is one call and the wait for it, the median of at least twenty. "Pipe" is the time for
each of many calls made back to back before one wait. Energy is the whole board's over the same calls.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpu_cases
import mesh
import nvml

import heliograph as hg
from heliograph import _core

LATENCY_RUNS = 20  # at least
STRETCH = 0.025  # seconds of calls before one wait
LONG = 0.5  # seconds of a call that is timed by itself
LONG_RUNS = 3  # of such calls
COUNTED_RUNS = 5


@dataclass
class Latency:
    """Seconds from the call to its result's arrival, and until the call returned."""

    times: list[float]
    calls: list[float]


def latency(run: Callable[[], hg.Tensor], seconds: float, at_least: int) -> Latency:
    """Single calls, after three to warm up."""
    for _ in range(3):
        run().wait()
    found = Latency([], [])
    end = time.perf_counter() + seconds
    while len(found.times) < at_least or (time.perf_counter() < end and len(found.times) < 1000):
        start = time.perf_counter()
        result = run()
        found.calls.append(time.perf_counter() - start)
        result.wait()
        found.times.append(time.perf_counter() - start)
        del result
    return found


@dataclass
class Pipe:
    """Of each call among many: seconds and joules. Watts on the average. The times of all stretches of calls."""

    seconds: float
    joules: float | None
    watts: float | None
    times: list[float]


def pipe(
    run: Callable[[], hg.Tensor], alone: float, seconds: float, joules: Callable[[], float | None], at_least: int = 3
) -> Pipe:
    """Stretches of calls, for so many seconds. The energy counter moves now and then: only from one step of it to another
    is it known how many calls took how much; beside a call of half a second or more its step is small.
    """
    count = max(3, round(STRETCH / alone)) if alone < LONG else 1
    times: list[float] = []
    steps: list[tuple[float, int, float]] = []  # joules, calls and seconds at each step of the counter
    last = joules()
    begin = time.perf_counter()
    if alone >= LONG and last is not None:
        steps.append((last, 0, begin))
    while len(times) < at_least or time.perf_counter() < begin + seconds:
        start = time.perf_counter()
        for _ in range(count):
            result = run()
        result.wait()
        now = time.perf_counter()
        times.append((now - start) / count)
        used = joules()
        if used is not None and used != last:
            steps.append((used, count * len(times), now))
            last = used
    found = Pipe(statistics.median(times), None, None, times)
    if len(steps) >= (2 if alone >= LONG else 3):
        (first, calls, start), (total, all_calls, end) = steps[0], steps[-1]
        found.joules = (total - first) / (all_calls - calls)
        found.watts = (total - first) / (end - start)
    return found


def counters() -> dict[str, float]:
    """What has been asked of the device, has crossed between it and the host, and moved between its members."""
    found = dict(_core.device_traffic())
    if hasattr(_core, "device_moved"):
        moved = _core.device_moved()
        found |= {"exchanges": moved["exchanges"], "exchanged_bytes": moved["bytes"], "staged_bytes": moved["staged_bytes"]}
    return found


def since(before: dict[str, float], calls: int) -> dict[str, float]:
    """Of each of so many calls."""
    return {name: (value - before[name]) / calls for name, value in counters().items()}


def traffic(run: Callable[[], hg.Tensor]) -> dict[str, float]:
    """What one call asks and moves."""
    before = counters()
    for _ in range(COUNTED_RUNS):
        result = run()
    after = since(before, COUNTED_RUNS)
    result.wait()
    return after


def row_of(name: str, rates: dict[str, float], seconds: float, at_least: int, gpu: nvml.Gpus) -> dict[str, Any]:
    """Everything of one case."""
    case = gpu_cases.case_of(name)
    ready = case.prepare()
    runs = case.runs
    if runs != 1:
        begin = time.perf_counter()
        ready.run().wait()
        if time.perf_counter() - begin > LONG:
            runs = runs or LONG_RUNS
    if runs:  # seconds each: the calls that are timed are those that are counted
        before = counters()
        together = pipe(ready.run, LONG, 0, gpu.joules, runs)
        alone = Latency(together.times, [])
        moved = since(before, len(alone.times))
    else:
        alone = latency(ready.run, 0.3 * seconds, at_least)
        together = pipe(ready.run, statistics.median(alone.times), 0.7 * seconds, gpu.joules)
        moved = traffic(ready.run)
    median = statistics.median(alone.times)
    floor, origin = gpu_cases.floor_of(case, ready, rates)
    if floor is not None:
        floor /= gpu.count
    return {
        "case": name,
        "what": case.what,
        "parameters": ready.parameters,
        "items": case.items,
        "median_s": median,
        "fastest_s": min(alone.times),
        "slowest_s": max(alone.times),
        "runs": len(alone.times),
        "call_s": statistics.median(alone.calls) if alone.calls else None,
        "pipe_s": together.seconds,
        "floor_s": floor,
        "floor_from": origin,
        "over_floor": median / floor if floor else None,
        "pipe_over_floor": together.seconds / floor if floor else None,
        "asked_s": case.asked,
        "joules": together.joules,
        "watts": together.watts,
        "traffic": moved,
        "extra": {"layers_s": ready.layers()} if ready.layers else {},
    }


def child(
    names: list[str],
    seconds: float,
    device: str,
    rates: dict[str, float] | None = None,
    at_least: int = LATENCY_RUNS,
    more: Callable[[str], dict[str, Any]] = lambda name: {},
) -> None:
    """Runs cases in this process and prints their results as JSON lines. Rates of one member are measured where they are not
    given; what several members do together has a floor of so many times less. `more` is what is found out of a case besides.
    """
    members = mesh.members_of(device)
    used, wanted = ([name.split(":")[0] for name in mesh.members_of(d)] for d in (_core.device_name(), device))
    if used != wanted:
        raise SystemExit(f"asked for {', '.join(wanted)}, computing on {', '.join(used)}")
    gpu = nvml.Gpus(mesh.numbers_of(members))
    found = hg.devices()
    print(json.dumps({"machine": {"device": found[0], "devices": found} | gpu.describe()}), flush=True)
    if rates is None:
        rates = gpu_cases.ceilings() if len(members) == 1 else gpu_cases.UNKNOWN
        print(json.dumps({"ceilings": rates}), flush=True)
    fault = False
    for name in names:
        try:
            row = row_of(name, rates, seconds, at_least, gpu)
            row["extra"] |= more(name)
        except hg.HeliographError as error:
            row = {"case": name, "skipped": f"{type(error).__name__}: {error}"}
            fault = isinstance(error, hg.DeviceError)
        print(json.dumps(row), flush=True)
        if fault:  # it would show in every case that follows; the process that asked may start another
            return
