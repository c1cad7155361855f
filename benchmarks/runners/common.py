"""Helpers of the runners: machine, commit, timing, reports, and rows that are printed and saved one by one."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.report import results

ROOT = Path(__file__).resolve().parents[2]


#: Help of the options that several runners have.
HELP = {
    "only": "comma-separated prefixes of case names",
    "seconds": "seconds per case",
    "device": "device, as in HELIOGRAPH_DEVICE",
    "counts": "comma-separated numbers of devices, used as one",
    "limit": "seconds without output after which a process is killed",
    "total": "seconds of the whole run",
    "program": "built program benchmarks/cpp/doublecrt",
    **dict.fromkeys(("child", "serve", "rates"), argparse.SUPPRESS),
}


def parser(text: str | None, /, needs: Iterable[str] = (), **options: Any) -> argparse.ArgumentParser:
    """Returns a parser of `--out` and the given options, described by a module's docstring.

    An option is given by its default, by its type if it has no default, by False for a flag, or by one of these with a help
    text. `needs`: required options.
    """
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, given in options.items():
        value, words = given if isinstance(given, tuple) else (given, HELP.get(name))
        option = f"--{name.replace('_', '-')}"
        if value is False:
            made.add_argument(option, action="store_true", help=words)
        elif isinstance(value, type):
            made.add_argument(option, type=value, required=name in needs, help=words)
        else:
            made.add_argument(option, type=type(value), default=value, help=words)
    made.add_argument("--out", type=results.file, required="out" in needs, help="results file to write (.jsonl)")
    return made


def module(name: str) -> list[str]:
    """Returns the command that runs a module of the benchmarks. The command must run in ROOT."""
    return [sys.executable, "-m", f"benchmarks.{name}"]


def machine() -> dict[str, Any]:
    """Describes this machine."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")

    def field(name: str) -> str:
        return next(
            (line.split(":", 1)[1].strip() for line in info.splitlines() if line.split("\t")[0].strip() == name), "?"
        )

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": field("model name"),
        "family": f"{field('vendor_id')} family {field('cpu family')} model {field('model')}",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def engine() -> dict[str, Any]:
    """Returns the name of the device in use, and its number of threads."""
    import heliograph as hg

    return {"device": hg.devices()[0], "threads": os.environ.get("HELIOGRAPH_THREADS", "all")}


def load() -> float:
    """Returns the machine's load average over the last minute."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """Returns the measured commit, with a mark if the tree has uncommitted changes (other than results).

    HELIOGRAPH_COMMIT names the commit in a copy of the tree without git.
    """
    if given := os.environ.get("HELIOGRAPH_COMMIT"):
        return given

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)benchmarks/results")
    return git("rev-parse", "HEAD") + ("+changes" if changed else "")


def measure(function: Any, seconds: float, at_least: int = 5) -> list[float]:
    """Returns the times in seconds of repeated calls, after one warm-up call."""
    function()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < at_least or (time.perf_counter() < end and len(times) < 200):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Returns the seconds of a call with the wait for its results, the seconds of the call alone, and the result."""
    start = time.perf_counter()
    result = call()
    alone = time.perf_counter() - start
    for part in result if isinstance(result, tuple) else (result,):
        if hasattr(part, "wait"):
            part.wait()
    return time.perf_counter() - start, alone, result


def times_of(
    call: Callable[[], Any], seconds: float, at_least: int = 5, most: float = float("inf"), warm_up: int = 0
) -> tuple[list[float], list[float]]:
    """Returns the seconds of repeated calls with the wait, and of the calls alone, after some warm-up calls."""
    for _ in range(warm_up):
        timed(call)
    waited, alone = list[float](), list[float]()
    end = time.perf_counter() + seconds
    while len(waited) < at_least or (time.perf_counter() < end and len(waited) < most):
        both = timed(call)[:2]  # keeps only one result in memory at a time
        waited.append(both[0])
        alone.append(both[1])
    return waited, alone


def report(rows: list[dict[str, Any]], found: dict[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
    """Returns a report of rows: date, commit, machine (this one by default), and `more`."""
    now = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
    return more | now | {"machine": machine() if found is None else found, "results": rows}


def run_named(
    kind: str,
    words: str | None,
    names: Iterable[str],
    measured: Callable[[str, float], dict[str, Any]],
    line: Callable[[dict[str, Any]], str],
    seconds: float,
    more: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Runs a program with named cases: parses the command line, measures, prints, and writes a report of the given kind.

    `more` returns additional fields of the machine.
    """
    given = parser(words, only="", seconds=seconds).parse_args()
    rows = []
    for name in names:
        if not given.only or name.startswith(tuple(given.only.split(","))):
            rows.append(measured(name, given.seconds))
            print(line(rows[-1]), flush=True)
            results.save(given.out, report(rows, machine() | engine() | more(), kind=kind, load=load()))


class Rows:
    """A report that is printed and written row by row, so that an interrupted run keeps its rows. `more`: additional fields."""

    def __init__(self, out: Path | None, shown: Callable[[dict[str, Any]], None] | None = None, **more: Any) -> None:
        self.out, self.shown, self.more = out, shown or show, more
        self.machine, self.rows = machine(), list[dict[str, Any]]()
        self._most, self._before = 0, load()

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row, or the machine's description; of several descriptions, that of the largest mesh is kept."""
        if "machine" in row:
            if row["devices"] >= self._most:
                self.machine |= row["machine"]
                self._most = row["devices"]
            return
        self.rows.append(row)
        self.shown(row)
        results.save(self.out, report(self.rows, self.machine, **{"load": [self._before, load()]} | self.more))


def show(row: dict[str, Any]) -> None:
    """Prints a row for the terminal."""
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
