"""Measuring on a device that computes while its caller goes on: every time ends with a wait for the result.

A case has two times. Its latency is one call and the wait for it, the median of at least twenty. "Pipe" is the time for
each of many calls made back to back before one wait. Energy is the whole board's over the same calls, by a counter that a thread
of its own reads: the calls do not wait for it.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpu_cases
import mesh
import numpy as np
import nvml

import heliograph as hg
from heliograph import _core

LATENCY_RUNS = 20  # at least
STRETCH = 0.025  # seconds of calls before one wait
LONG = 0.5  # seconds of a call that is timed by itself
LONG_RUNS = 3  # of such calls
LOOK = 0.005  # seconds between two looks at a counter of energy
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


class Meter:
    """Notes each step of an energy counter, in joules, beside the calls that use them. Reading takes milliseconds a board: in
    between the calls it would be a pause, whose energy is none of theirs.
    """

    def __init__(self, joules: Callable[[], float | None]) -> None:
        self.steps: list[tuple[float, float]] = []  #: seconds of time.perf_counter, joules
        self._joules, self._over = joules, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        last = self._joules()
        while last is not None and not self._over.wait(LOOK):
            used = self._joules()
            if used is not None and used != last:
                self.steps.append((time.perf_counter(), used))
            last = used


def pipe(
    run: Callable[[], hg.Tensor], alone: float, seconds: float, joules: Callable[[], float | None], at_least: int = 3
) -> Pipe:
    """Stretches of calls, for so many seconds. The energy counter moves now and then: only from one step of it to another
    is it known how much the calls took, which are counted in parts of a stretch.
    """
    count = max(3, round(STRETCH / alone)) if alone < LONG else 1
    times: list[float] = []
    with Meter(joules) as meter:
        begin = time.perf_counter()
        ends = [begin]
        while len(times) < at_least or time.perf_counter() < begin + seconds:
            start = time.perf_counter()
            for _ in range(count):
                result = run()
            result.wait()
            ends.append(time.perf_counter())
            times.append((ends[-1] - start) / count)
    found = Pipe(statistics.median(times), None, None, times)
    steps = [step for step in meter.steps if begin <= step[0] <= ends[-1]]
    if len(steps) >= 2:
        (start, first), (end, total) = steps[0], steps[-1]
        calls = np.interp([start, end], ends, count * np.arange(len(ends)))
        found.joules = (total - first) / float(calls[1] - calls[0])
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
    begin = time.perf_counter()
    ready.run().wait()  # cold: constants are prepared, memory is taken
    first = time.perf_counter() - begin
    runs = case.runs or (LONG_RUNS if first > LONG else None)
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
        "first_s": first,
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
    gpu = nvml.Gpus(mesh.numbers_of(members), used[0] == "cuda")
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
