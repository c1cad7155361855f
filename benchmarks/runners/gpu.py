"""Measures on an asynchronous device: every time ends with a wait for the result.

A case has two times. The latency is the time of one call and the wait for its result, the median of at least twenty. For the pipe time, a
burst of calls is enqueued, followed by one wait for the last result; the pipe time is the time per call. Energy is the
energy of the whole board over the same calls. A separate thread reads the energy counter, so that the calls do not wait for
it."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import gpu as gpu_cases
from benchmarks.runners import common, mesh, nvml
from heliograph import _core

LATENCY_RUNS = 20  # minimum number of calls for a latency
STRETCH = 0.025  # duration of a burst in seconds
LONG = 0.5  # limit in seconds; longer calls are measured one by one, not in bursts
LONG_RUNS = 3  # number of calls by which the latency of a long call is measured
LOOK = 0.005  # seconds between two reads of an energy counter
COUNTED_RUNS = 5  # number of calls over which launches and transfers are averaged


@dataclass
class Latency:
    """Measured seconds until the result is ready, and until the call returns."""

    times: list[float]
    calls: list[float]


def latency(run: Callable[[], hg.Tensor], seconds: float, at_least: int) -> Latency:
    """Times single calls, after three warm-up calls."""
    return Latency(*common.times_of(run, seconds, at_least, most=1000, warm_up=3))


@dataclass
class Pipe:
    """Seconds per call (median of the bursts), joules per call, mean watts, and the seconds per call of each burst."""

    seconds: float
    joules: float | None
    watts: float | None
    times: list[float]


class Meter:
    """Records each step of an energy counter, in joules, in a separate thread. A read takes milliseconds per board. A read
    in the calling thread would interrupt the calls, and the energy of the read would be added to that of the calls.

    """

    def __init__(self, joules: Callable[[], float | None]) -> None:
        self.steps: list[tuple[float, float]] = []  #: steps of the counter: seconds of time.perf_counter, joules
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
    """Times bursts of calls for the given seconds. The energy counter changes in steps. The energy per call is the energy between the
    counter's first and last step, divided by the number of calls between these steps; parts of a burst count as fractions.
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
    """Returns launches, allocations and transfers of the device, and exchanges between its members."""
    found = dict(_core.device.traffic())
    if hasattr(_core.device, "moved"):
        moved = _core.device.moved()
        found |= {"exchanges": moved["exchanges"], "exchanged_bytes": moved["bytes"], "staged_bytes": moved["staged_bytes"]}
    return found


def since(before: dict[str, float], calls: int) -> dict[str, float]:
    """Returns the change of the counters per call."""
    return {name: (value - before[name]) / calls for name, value in counters().items()}


def traffic(run: Callable[[], hg.Tensor]) -> dict[str, float]:
    """Returns launches, allocations and bytes of one call."""
    before = counters()
    for _ in range(COUNTED_RUNS):
        result = run()
    after = since(before, COUNTED_RUNS)
    result.wait()
    return after


def row_of(name: str, rates: dict[str, float], seconds: float, at_least: int, gpu: nvml.Gpus) -> dict[str, Any]:
    """Measures one case."""
    case = gpu_cases.case_of(name)
    ready = case.prepare()
    begin = time.perf_counter()
    ready.run().wait()  # the first call prepares constants and allocates memory
    first = time.perf_counter() - begin
    runs = case.runs or (LONG_RUNS if first > LONG else None)
    if runs:  # for long calls, the counters are read around the timed calls
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
    """Runs cases in this process and prints their results as JSON lines. Without `rates`, this function measures the rates
    of one member; the floor on several members is divided by their number. `more` returns additional fields of a case.

    """
    members = mesh.members_of(device)
    used, wanted = ([name.split(":")[0] for name in mesh.members_of(d)] for d in (_core.device.name(), device))
    if used != wanted:
        raise SystemExit(f"cannot measure on {', '.join(wanted)}: the engine uses {', '.join(used)}")
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
        if fault:  # the error would recur in every following case; the parent may start another process
            return
