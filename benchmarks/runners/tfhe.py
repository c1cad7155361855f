"""The benchmark runner of TFHE: kernels, gates, 32-bit integers, and the tables of Morshed and others 2020.

    python -m benchmarks.runners.tfhe --list
    python -m benchmarks.runners.tfhe --only gates,integers --seconds 5 --out FILE.jsonl
    python -m benchmarks.runners.tfhe --threads 1 --kernels build/bench/benchmarks/tfhe_kernels --out FILE.jsonl
    python -m benchmarks.runners.tfhe --device cuda --total 500 --out FILE.jsonl

On cores every case runs on one core and on all; on a GPU once. A case is skipped if its estimated time (its bootstraps at the rate of the
NAND cases) exceeds `--seconds`; the results have the estimate. `--total` limits the whole run. Shorter cases are repeated for `--repeat`
seconds. Results are decrypted and compared once, outside the time. The floor of a case is the longer of its multiply-adds and its bytes
(mainly the keys of every layer) at the machine's rates. The program named by `--kernels` (benchmarks/cpp/tfhe.cpp) counts both on the `null`
device, and measures the rates of cores; without it there are no floors. The JSON is written after every row.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import results
from benchmarks.runners import common, mesh

Row = dict[str, Any]
SHAPES = "boolean,2_2,morshed-2020,1_1,2_2/latency"
PARTS = ("combine", "key_switch", "bootstrap")

#: FP64 multiply-adds per second, by device name: measured on an H200, from the data sheet for an H100.
GPU_FMA = {"H200": 16.3e12, "H100": 16.7e12}


def lines(command: list[str], env: dict[str, str], limit: float) -> Iterator[Row]:
    """Yields the JSON objects that a process prints; if the process fails, the last object describes how it ended."""
    for line in mesh.lines(command, env, limit):
        yield json.loads(line)


def counts_of(program: Path) -> dict[str, Any]:
    """Returns, by set, the null device's counts of a bootstrap with its key switch, and of each layer of any size."""
    command = [str(program), "--device", "null", "--shapes", SHAPES, "--counts", "1,2"]
    by_count: dict[str, dict[int, Row]] = {}
    for row in lines(command, {}, 120):
        if "ended" in row:
            raise SystemExit(f"{program} {row['ended']}")
        by_count.setdefault(row["shape"], {})[row["count"]] = row

    def totals(row: Row) -> dict[str, float]:
        kernels = {**{part: part for part in PARTS}, "key_switch": "lwe_key_switch"}  # names of the kernels in device/call.h
        counted = {part: row[f"{kernels[part]}_counts"] for part in PARTS}
        return {
            "fma": counted["bootstrap"]["products"],
            "mac": counted["key_switch"]["products"] + counted["combine"]["products"],
            "bytes": sum(c["bytes"] for c in counted.values()),
        }

    found = {}
    for shape, rows in by_count.items():
        one, two = totals(rows[1]), totals(rows[2])
        each = {key: two[key] - one[key] for key in one}
        layer = {key: one[key] - each[key] for key in one}
        # The indicators of a group's values sum to 1, so a backend need not store the first.
        read = 2 * rows[1]["bootstrap_counts"]["bytes"] - rows[2]["bootstrap_counts"]["bytes"]
        layer["bytes"] -= read / 2 ** rows[1]["group"]
        found[shape] = {"each": each, "layer": layer} | {key: rows[1][key] for key in ("n", "k", "degree", "group")}
    return found


def kernel_floor(counts: Row | None, count: int, rates: dict[str, float]) -> float | None:
    """Returns the floor of all three kernels on a batch."""
    if not counts or not rates.get("bytes_s") or not rates.get("fma_s"):
        return None
    products = count * counts["each"]["fma"] / rates["fma_s"]
    if rates.get("mac_s"):
        products += count * counts["each"]["mac"] / rates["mac_s"]
    return max(products, (counts["layer"]["bytes"] + count * counts["each"]["bytes"]) / rates["bytes_s"])


def kernels(program: Path, device: str, env: dict[str, str], options: argparse.Namespace) -> Iterator[Row]:
    """Yields the rows of benchmarks/cpp/tfhe: rates of cores, then batches of each set."""
    sizes = "1,2,4,8,16,32,256" if device.startswith("cpu") else "1,2,4,8,16,32,132,528,1056,4096,16384,65536"
    command = [str(program), "--device", device, "--shapes", options.shapes, "--counts", options.counts or sizes]
    command += ["--seconds", str(min(0.3, options.repeat / 5)), "--longest", str(options.seconds / 4)]
    for row in lines(command, env, 120 + 4 * options.seconds):
        if "shape" not in row:
            yield row
            continue
        times = {f"{part}_s": row[f"{part}_us"] * 1e-6 for part in (*PARTS, "all", "prepare")}
        yield {"shape": row["shape"], "count": row["count"], "a_second": row["a_second"]} | times


def gpu_rates(name: str) -> dict[str, float]:
    """Returns the multiply-adds of doubles per second of a known GPU."""
    return next(({"fma_s": rate} for key, rate in GPU_FMA.items() if key in name), {})


def ceilings() -> None:
    """Prints the device in use, and a GPU's rates (bytes per second of the fastest copy); runs in a separate process."""
    import heliograph as hg
    from heliograph import _core

    name = _core.device.name()
    found = hg.devices()
    rates: dict[str, float] = {}
    machine: Row = {"device": found[0]}
    if name != "null" and not name.startswith("cpu"):
        from benchmarks.cases import gpu as gpu_cases

        machine |= mesh.boards().describe()
        rates["bytes_s"] = gpu_cases.ceilings()["copy_bytes_s"]
        rates |= gpu_rates(f"{found[0]} {machine.get('gpu', '')}")
    print(json.dumps({"name": name, "machine": machine, "rates": rates}), flush=True)


def own(device: str, threads: int | None) -> dict[str, str]:
    """Returns the environment of a process on a device with the given number of cores."""
    env = {"HELIOGRAPH_DEVICE": device} if device else {}
    if threads:
        env |= {"HELIOGRAPH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    return env


def pinned(command: list[str], threads: int | None) -> list[str]:
    """Returns the command pinned to the first `threads` cores."""
    if not threads:
        return command
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    return ["taskset", "-c", cores, *command]


def measured(names: list[str], options: argparse.Namespace, work: Row, env: dict[str, str]) -> Iterator[Row]:
    """Yields the rows of cases. After a failure a new process continues with the next case."""
    left = list(names)
    while left:
        work = work | {"names": left}
        command = pinned([*common.module("runners.tfhe"), "--child", json.dumps(work)], work["threads"])
        for row in lines(command, env, 180 + 4 * options.seconds):
            if "ended" in row:
                yield {"case": left.pop(0), "skipped": row["ended"]}
                break
            if "case" in row:
                left.remove(row["case"])
            yield row
        else:
            return


def show(row: Row) -> None:
    """Prints a row for the terminal."""
    where = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}" if row.get("threads") else ""
    if "shape" in row:
        parts = " ".join(f"{part} {row[f'{part}_s'] * 1e3:.3f}" for part in (*PARTS, "all"))
        floor = f", floor {row['floor_s'] * 1e3:.3f}" if row.get("floor_s") else ""
        print(f"{row['shape']} x{row['count']}: {parts} ms{floor}: {row['a_second']:,.0f}/s {where}", flush=True)
    elif "rates" in row:
        rate = f"one {row['alone_s'] * 1e3:.3f} ms, {row['a_second']:,.0f} bootstraps/s"
        print(f"# {row['rates']}: keys in {row['keys_s']:.1f} s, {rate} {where}", flush=True)
    elif "begun" in row:
        print(f"# {row['begun']}: about {row['estimate_s']:.0f} s a call", flush=True)
    elif "skipped" in row:
        about = f" (about {row['estimate_s']:,.0f} s)" if "estimate_s" in row else ""
        print(f"{row['case']:34} skipped: {row['skipped']}{about} {where}", flush=True)
    elif "case" in row:
        floor = f" floor {row['floor_s'] * 1e3:9.3f} x{row['over_floor']:.2f}" if row["floor_s"] else ""
        bad = f" WRONG: {row['wrong']}" if row["wrong"] else ""
        print(
            f"{row['case']:34} {row['median_s'] * 1e3:11.3f} ms{floor} {row['bootstraps_s']:10,.0f} bootstraps/s {where}{bad}",
            flush=True,
        )


class Report:
    """The report, which is written to its file after every row."""

    def __init__(self, path: Path | None, machine: Row) -> None:
        self.path = path
        self.found = common.report([], machine, kind="tfhe", load=[common.load()])

    def add(self, row: Row) -> None:
        """Adds a row to the report."""
        show(row)
        if "begun" in row:
            return
        self.found["results"].append(row)
        self.found["load"] = [self.found["load"][0], common.load()]
        results.save(self.path, self.found)


def check_shapes(counts: dict[str, Any], rows: list[Row]) -> None:
    """Checks that the program of the kernels has the same parameter sets. Raises SystemExit if the sets differ."""
    for row in rows:
        p = row.get("parameters", {})
        shape = counts.get(p.get("name", ""))
        if shape and any(shape[key] != p[key] for key in ("n", "k", "degree", "group")):
            raise SystemExit(f"benchmarks/cpp/tfhe.cpp has different numbers for {p['name']}")


def group(report: Report, names: list[str], options: argparse.Namespace, threads: int | None, until: float) -> None:
    """Runs all cases on one device, on the given number of its cores."""
    env = own(options.device, threads)
    probe = [*common.module("runners.tfhe"), "--child", json.dumps({"ceilings": True})]
    found = next(lines(pinned(probe, threads), env, 180))
    if "ended" in found:
        raise SystemExit(f"cannot use the device: {found['ended']}")
    rates, device = found["rates"], found["name"]
    report.found["machine"] |= found["machine"]
    mark: Row = {"threads": threads} if threads else {}
    counts: dict[str, Any] = {}
    if options.kernels:
        counts = counts_of(options.kernels)
        one = mesh.members_of(options.device or device)[0]
        for row in [] if device == "null" else kernels(options.kernels, one, env, options):
            if "ended" in row:
                report.add({"case": "kernels", "skipped": row["ended"]} | mark)
            elif "fma_s" in row:
                rates |= row
            else:
                floor = kernel_floor(counts.get(row["shape"]), row["count"], rates)
                report.add(row | {"floor_s": floor, "over_floor": row["all_s"] / floor if floor else None} | mark)
    report.found.setdefault("ceilings", []).append(rates | mark)
    work = {"threads": threads, "seconds": options.seconds, "repeat": options.repeat, "until": until}
    work |= {"counts": counts, "rates": rates}
    rows = []
    for row in measured(names, options, work, env):
        rows.append(row)
        report.add(row | mark)
    check_shapes(counts, rows)


def chosen(only: str, known: list[str]) -> list[str]:
    """Returns cases by name or prefix; all cases for an empty text, none for "none"."""
    if only == "none":
        return []
    words = only.split(",")
    exact = [w for w in words if w in known]
    begun = tuple(w for w in words if w not in known)
    return [n for n in known if not only or n in exact or n.startswith(begun)]


def main() -> None:
    """Parses the command line and runs."""
    options = common.parser(
        __doc__,
        only=("", "comma-separated prefixes of case names; none: only kernels"),
        device=(os.environ.get("HELIOGRAPH_DEVICE", ""), "device; default: the library's choice"),
        threads=("", "on cores: comma-separated numbers of threads; default: 1 and all"),
        seconds=(10.0, "longest call in seconds; longer cases are skipped"),
        repeat=(1.0, "seconds of repetition of shorter calls"),
        total=(1e9, "seconds of the whole run; cases that do not fit are skipped"),
        kernels=(Path, "built program benchmarks/cpp/tfhe; adds kernels and floors"),
        shapes=(SHAPES, "comma-separated sets for the kernels"),
        counts=("", "comma-separated batch sizes of the kernels"),
        tabular=(Path, "folder of the public data sets of table10: lbw.txt, pcs.txt, uis.txt, edin.txt"),
        list=False,
        child=str,
    ).parse_args()
    until = time.time() + options.total
    if options.device == "cuda":
        options.device = "cuda:0"  # the name without a number means all GPUs
    if options.kernels:
        options.kernels = options.kernels.resolve()
    if options.tabular:
        os.environ["HELIOGRAPH_TABULAR"] = str(options.tabular.resolve())
    if options.child:
        work = json.loads(options.child)
        if "ceilings" in work:
            ceilings()
            return
        from benchmarks.cases import tfhe as tfhe_cases

        del work["threads"]
        tfhe_cases.child(**work)
        return
    from benchmarks.cases import tfhe as tfhe_cases

    known = tfhe_cases.CASES
    names = chosen(options.only, list(known))
    if options.list:
        print("\n".join(f"{n:38} {known[n].what}" for n in names))
        return
    report = Report(options.out, common.machine())
    cores = len(os.sched_getaffinity(0))
    on_cores = not options.device or options.device.startswith("cpu")
    if on_cores and not options.device:
        probe = next(lines([*common.module("runners.tfhe"), "--child", json.dumps({"ceilings": True})], {}, 180))
        on_cores = str(probe.get("name", "")).startswith("cpu")
    wanted = [int(t) for t in options.threads.split(",")] if options.threads else sorted({1, cores})
    for threads in [t for t in wanted if t <= cores] if on_cores else [None]:
        group(report, names, options, threads, until)


if __name__ == "__main__":
    main()
