"""Runs cases on several devices as one: cases, numbers of devices, layouts.

A run with `--counts 1,2` is a list of processes, one per count and layout, with HELIOGRAPH_DEVICE set. Each process runs its cases one
after the other (gpu.py). A process that ends or hangs loses one case; a new process continues with the next case.
"""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.runners import common, nvml

AUTO = "auto"  # the mesh chooses the layout; with one device there is no mesh
ONE = "mesh of one"  # a mesh of one device, to measure the mesh's overhead
LONG = "hcnn11"
OVER = "the time was over"
#: One ciphertext, in every layout and with every algorithm of conversions and key switches over limbs.
ALONE = ("multiply-2^15-x1-w64", "multiply-2^16-x1-w64")
FORCED = (
    "batch",
    "limb",
    "limb/broadcast/input",
    "limb/broadcast/output",
    "limb/transpose/input",
    "limb/transpose/output",
    "coefficient",
)
#: Layouts of each case. The longest cases are last.
LAYOUTS: dict[str, tuple[str, ...]] = dict.fromkeys(ALONE, (AUTO, ONE, *FORCED)) | {
    "add-2^15-x1-w64": (AUTO,),
    "multiply-2^15-x16-w64": (AUTO, "limb"),
    "multiply-2^16-x16-w64": (AUTO, "limb"),
    "hvadd-2^15-x500-w64": (AUTO,),
    "hvadd-2^15-x500-w32": (AUTO,),
    "hvmul-2^15-x250-w64": (AUTO, "limb"),
    "hvmul-2^15-x250-w32": (AUTO,),
    "bgv-multiply-2^14-x1-w64": (AUTO,),
    "ckks-rescaled-2^16-x1-w64": (AUTO, "limb"),
    "ckks-rescaled-2^16-x16-w64": (AUTO,),
    "ckks-slice-2^16-x8-w64": (AUTO,),
    "hcnn5-2020-w64": (AUTO,),
    "hcnn5-2020-w32": (AUTO,),
    "hcnn5-paper-w64": (AUTO,),
    "hcnn11-2020-one-w64": (AUTO,),
    "hcnn11-one-w64": (AUTO,),
    "hcnn11-2020-all-w64": (AUTO,),
    "hcnn11-all-w64": (AUTO,),
}


def members(device: str, count: int) -> list[str]:
    """Returns the first `count` devices of a list. If the list has one kind, returns GPUs with numbers, or the device
    `count` times. Options after a slash are dropped.
    """
    names = device.split("/")[0].split(",")
    if len(names) >= count and (len(names) > 1 or ":" in names[0]):
        return names[:count]
    if len(names) > 1:
        raise SystemExit(f"cannot use {count} devices: {device} names {len(names)}")
    return [f"cuda:{n}" for n in range(count)] if names[0] == "cuda" else names * count


def members_of(device: str) -> list[str]:
    """Returns the members of a mesh from its name."""
    names: list[str] = []
    for word in device.split("/")[0].split(","):
        count, star, name = word.rpartition("*")
        names += [name] * int(count) if star else [word]
    return names


def numbers_of(names: list[str]) -> list[int]:
    """Returns the numbers of devices; 0 for names without a number."""
    return [int(number) if (number := name.rpartition(":")[2]).isdigit() else 0 for name in names]


def boards() -> nvml.Gpus:
    """Returns the GPUs of this process: all GPUs for a name without numbers, none for cores."""
    import heliograph as hg
    from heliograph import _core

    members = members_of(os.environ.get("HELIOGRAPH_DEVICE") or _core.device.name())
    there = sum(device.startswith("cuda") for device in hg.devices())
    numbers = list(range(there)) if members == ["cuda"] else numbers_of(members)
    return nvml.Gpus(numbers, members[0].startswith("cuda"))


@dataclass(frozen=True)
class Process:
    """Cases in one layout on a number of devices."""

    device: str
    devices: int
    layout: str
    names: tuple[str, ...]

    @property
    def mark(self) -> dict[str, Any]:
        """Returns the fields by which rows name their process."""
        return {"device": self.device, "devices": self.devices, "layout": self.layout}


def chosen(only: str, known: list[str]) -> list[str]:
    """Returns the cases of LAYOUTS whose names begin with a prefix; if there is none, all such cases of the benchmark."""
    words = tuple(only.split(","))
    if not only:
        return list(LAYOUTS)
    return [n for n in LAYOUTS if n.startswith(words)] or [n for n in known if n.startswith(words)]


def plan(device: str, counts: list[int], names: list[str], layouts: str = "") -> Iterator[Process]:
    """Yields processes in order: bases of comparisons first, the longest cases last. Options in `device` apply to meshes of several.
    `layouts` restricts the layouts, and applies them to every case.
    """
    options = "".join("/" + word for word in device.split("/")[1:])
    wanted = layouts.split(",") if layouts else []
    for long in (False, True):
        some = [n for n in names if n.startswith(LONG) == long]
        for count in sorted(counts):
            list_of = ",".join(members(device, count))
            have = ([AUTO, ONE] if count == 1 else [AUTO, *FORCED]) if not wanted else [AUTO] if count == 1 else wanted
            for layout in have:
                cases = tuple(n for n in some if wanted or layout in LAYOUTS.get(n, (AUTO,)))
                if not cases:
                    continue
                name = list_of + ("" if count == 1 else options) + ("" if layout == AUTO else "/" + layout)
                if layout == ONE:
                    name = f"1*{list_of}/uncalibrated"
                yield Process(name, count, layout, cases)


def lines(command: list[str], env: dict[str, str], limit: float, until: float = math.inf) -> Iterator[str]:
    """Yields the lines that a process prints. Kills the process after `limit` seconds without a line, and at the time
    `until` of `time.monotonic`. If the process failed, a last line describes how it ended.

    """
    process = subprocess.Popen(
        command, cwd=common.ROOT, env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    found: queue.Queue[str | None] = queue.Queue()
    said: list[str] = []

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            found.put(line)
        found.put(None)

    def listen() -> None:
        assert process.stderr
        said.extend(process.stderr)

    threads = [threading.Thread(target=read, daemon=True), threading.Thread(target=listen, daemon=True)]
    for thread in threads:
        thread.start()
    try:
        while (line := found.get(timeout=max(0.0, min(limit, until - time.monotonic())))) is not None:
            yield line
        process.wait(timeout=limit)
    except (queue.Empty, subprocess.TimeoutExpired):
        yield json.dumps({"ended": OVER if time.monotonic() >= until else f"silent for {limit:.0f} s"})
        return
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    threads[1].join()
    if process.returncode:
        words = " ".join("".join(said).split()[-60:])
        yield json.dumps({"ended": f"ended with {process.returncode}: {words}"})


def measure(
    process: Process,
    seconds: float,
    limit: float,
    rates: dict[str, float] | None,
    program: Sequence[str] = ("run",),
    until: float = math.inf,
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a process. After a failure a new process continues with the next case. `program` is the module of the cases, with its
    options.
    """
    left = list(process.names)
    env = {"HELIOGRAPH_DEVICE": process.device}
    while left:
        command = [*common.module(program[0]), *program[1:], "--child", ",".join(left), "--seconds", str(seconds)]
        command += ["--device", process.device, "--rates", json.dumps(rates)]
        started, before = False, len(left)
        for line in lines(command, env, limit, until):
            row = json.loads(line)
            started = started or "machine" in row
            if "case" in row:
                left.remove(row["case"])
            if "ended" in row:
                broken, left = (left[:1], left[1:]) if started and row["ended"] != OVER else (left, [])
                for name in broken:
                    yield {"case": name, "skipped": row["ended"]} | process.mark
            else:
                yield row | process.mark
        if len(left) == before:
            return


def exchanges(program: Path, device: str, counts: list[int], seconds: float, limit: float) -> Iterator[dict[str, Any]]:
    """Yields the rows of benchmarks/cpp/mesh, from one process per count."""
    for count in sorted(counts):
        command = [str(program), "--members", ",".join(members(device, count)), "--seconds", str(seconds)]
        for line in lines(command, {}, limit):
            row = json.loads(line)
            yield {"exchange": "", "devices": count, "skipped": row["ended"]} if "ended" in row else row


def run(
    device: str,
    counts: list[int],
    names: list[str],
    layouts: str,
    seconds: float,
    limit: float,
    add: Callable[[dict[str, Any]], None],
    moving: Path | None = None,
    program: Sequence[str] = ("run",),
    until: float = math.inf,
) -> None:
    """Runs everything, row by row. The first process of one device measures its rates; speed-ups are over its times.
    `moving` is the program that measures exchanges, `program` the program that measures cases.

    """
    rates: dict[str, float] | None = None
    alone: dict[str, float] = {}
    if moving:
        for row in exchanges(moving, device, counts, 0.1 * seconds, limit):
            add(row)
    for process in plan(device, counts, names, layouts):
        for row in measure(process, seconds, limit, rates, program, until):
            if "ceilings" in row and process.devices == 1:
                rates = rates or row["ceilings"]
            if "median_s" in row:
                if process.devices == 1 and process.layout == AUTO:
                    alone[row["case"]] = row["median_s"]
                one = alone.get(row["case"])
                row["speedup"] = one / row["median_s"] if one else None
            add(row)
