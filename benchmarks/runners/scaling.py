"""Measures all workloads that scale over several GPUs, in one call of at most eight minutes.

    python -m benchmarks.runners.scaling --out FILE.jsonl                                  # on 1, 2, 3, 4, 8 GPUs, up to those available
    python -m benchmarks.runners.scaling --device cpu --counts 1,2 --small --out FILE.jsonl   # on cores, with small cases

The cases are HVAdd, HVMul, a BFV product, a CKKS product and bootstrapping, alone and batched, batches of TFHE's gates and
products, HCNN-5 in both forms, and HCNN-11. A row has the seconds of a call with the wait, and the speed-up over one device.
The first call of a process prepares constants and allocates memory: it is timed separately (`first_s`). Groups
of cases run one after the other, each on all numbers of GPUs, the longest last. The JSON is written after every row, and lists cases that
did not fit the time limit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.runners import common, mesh, nvml
from benchmarks.runners.tfhe import chosen

Row = dict[str, Any]
#: Cases that run in one process; TFHE's cases use another program.
GROUPS: tuple[tuple[str, ...], ...] = (
    (
        *("hvadd-2^15-x500-w64", "hvmul-2^15-x250-w64", "multiply-2^16-x1-w64"),
        *("ckks-rescaled-2^16-x1-w64", "ckks-rescaled-2^16-x16-w64"),
    ),
    ("gates/nand/boolean/x65536", "integers/multiply/2_2/x256"),
    ("bootstrap-n16-b13-complex-x1", "bootstrap-n16-b13-complex-x16"),
    ("hcnn5-2020-w64", "hcnn5-paper-w64"),
    ("hcnn11-one-w64",),
    ("hcnn11-all-w64",),
)
SMALL: tuple[tuple[str, ...], ...] = (
    ("multiply-2^14-x1-w64", "bootstrap-small-product-x1", "bootstrap-small-product-x16"),
    ("gates/nand/boolean/x1",),
    ("bootstrap-small-complex-x1", "bootstrap-small-real-x2"),
)
NO_RATES = {"copy_bytes_s": 0.0, "products_s": 0.0}  # other benchmarks measure floors


def counts_of(device: str) -> list[int]:
    """Returns 1, 2, 3, 4 and 8, up to the available number."""
    names = device.split("/")[0].split(",")
    there = nvml.count() if names == ["cuda"] else len(names)
    if not there:
        raise SystemExit("no GPU found: use --device cpu for cores")
    return [n for n in (1, 2, 3, 4, 8) if n <= there]


def tfhe(process: mesh.Process, seconds: float, limit: float, until: float) -> Iterator[Row]:
    """Yields the rows of TFHE's cases."""
    left = max(0.0, until - time.monotonic())
    work = {"names": process.names, "threads": None, "seconds": left, "repeat": seconds, "until": time.time() + left}
    command = [*common.module("runners.tfhe"), "--child", json.dumps(work | {"counts": {}, "rates": {}})]
    wanted = list(process.names)
    for line in mesh.lines(command, {"HELIOGRAPH_DEVICE": process.device}, limit, until):
        row = json.loads(line)
        if "case" in row:
            wanted.remove(row["case"])
            yield row | process.mark
        elif "ended" in row:
            yield from ({"case": name, "skipped": row["ended"]} | process.mark for name in wanted)


def processes(device: str, counts: list[int], group: tuple[str, ...]) -> list[mesh.Process]:
    """Returns the description of a process per number of devices, whose mesh chooses its own layout."""
    options = "".join("/" + word for word in device.split("/")[1:])
    return [
        mesh.Process(",".join(mesh.members(device, n)) + (options if n > 1 else ""), n, mesh.AUTO, group)
        for n in sorted(counts)
    ]


def measure(
    device: str,
    counts: list[int],
    groups: tuple[tuple[str, ...], ...],
    seconds: float,
    limit: float,
    until: float,
    add: Callable[[Row], None],
) -> None:
    """Adds every row to the report, with its speed-up over one device."""
    alone: dict[str, float] = {}
    for group in groups:
        for process in processes(device, counts, group):
            if time.monotonic() >= until:
                rows: Iterator[Row] = iter([{"case": name, "skipped": mesh.OVER} | process.mark for name in group])
            elif group[0].startswith("gates/"):
                rows = tfhe(process, seconds, limit, until)
            else:
                rows = mesh.measure(process, seconds, limit, NO_RATES, until=until)
            for row in rows:
                if "median_s" in row:
                    if process.devices == 1:
                        alone[row["case"]] = row["median_s"]
                    one = alone.get(row["case"])
                    row["speedup"] = one / row["median_s"] if one else None
                add(row)


def line(row: Row) -> str:
    """Formats a row for the terminal."""
    if "skipped" in row:
        return f"{row['case']:34} {row['devices']} skipped: {row['skipped']}"
    faster = f"{row['speedup']:.2f}" if row["speedup"] else "-"
    return f"{row['case']:34} {row['devices']} {row['median_s'] * 1e3:12.3f} ms {faster:>6} times one"


def main() -> None:
    """Parses the command line and writes the results."""
    begin = time.monotonic()
    options = common.parser(
        __doc__,
        device="cuda",
        counts=("", "comma-separated numbers of devices; default: 1, 2, 3, 4, 8, up to those available"),
        only="",
        small=(False, "use small cases, some without security, for tests"),
        seconds=(0.5, "seconds per case; calls of half a second or more are made three times"),
        total=460.0,
        limit=200.0,
    ).parse_args()
    os.environ.pop("HELIOGRAPH_DEVICE", None)
    counts = [int(count) for count in options.counts.split(",")] if options.counts else counts_of(options.device)
    groups = SMALL if options.small else GROUPS
    wanted = chosen(options.only, [name for group in groups for name in group])
    groups = tuple(filter(None, (tuple(name for name in group if name in wanted) for group in groups)))
    report = common.Rows(options.out, shown=lambda row: print(line(row), flush=True), kind="scaling")
    measure(options.device, counts, groups, options.seconds, options.limit, begin + options.total, report.add)


if __name__ == "__main__":
    main()
