"""CKKS bootstrapping: what it takes, how precise it is, what its keys take.

    python benchmarks/bootstrap.py --device cuda --runs 100 --out FILE.json     # on a GPU
    python benchmarks/bootstrap.py --device cuda --counts 1,2 --out FILE.json   # on one GPU and on two as one
    python benchmarks/bootstrap.py --threads 1,2 --out FILE.json                # on one core and on two

Values are uniform, real and imaginary parts each in [-1, 1]. A process for each set, number of devices and of threads makes
keys once. Beside bootstraps stands a product at the top level of the same set. The JSON is written after every row.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import mesh
import run as runner
from tfhe import chosen

Row = dict[str, Any]


def child(names: list[str], runs: int, seconds: float, device: str, rates: dict[str, float] | None) -> None:
    """Runs cases in this process and prints their results as JSON lines."""
    import bootstrap_cases
    import gpu

    gpu.child(names, seconds, device, rates, more=lambda name: bootstrap_cases.figures(name, runs))


def pinned(threads: int) -> None:
    """This process and those that it starts compute on so many cores."""
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise SystemExit(f"there are {len(cores)} cores, not {threads}")
    os.sched_setaffinity(0, cores[:threads])
    os.environ["HELIOGRAPH_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)


def main() -> None:
    """Parses the command line and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="n16-b13,n16-b9", help="comma-separated; small: one without security, to try this")
    parser.add_argument("--only", default="", help="comma-separated names of cases, or their beginnings")
    parser.add_argument("--runs", type=int, default=3, help="ciphertexts whose precision is measured")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, or as HELIOGRAPH_DEVICE")
    parser.add_argument("--counts", default="1", help="comma-separated numbers of devices to make one")
    parser.add_argument(
        "--threads", default="", help="comma-separated numbers of cores; default: all, as the library has them"
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="for each case; calls of half a second and more: three of them"
    )
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a silent process is ended")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--rates", default="null", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        names = options.child.split(",")
        child(names, options.runs, options.seconds, options.device, json.loads(options.rates))
        return
    import bootstrap_cases

    cases = {name: chosen(options.only, bootstrap_cases.names_of(name)) for name in options.sets.split(",")}
    if options.list:
        print("\n".join(name for every in cases.values() for name in every))
        return
    report = runner.Rows(options.out, kind="bootstrap", load=runner.load())
    counts = [int(count) for count in options.counts.split(",")]
    everywhere = os.sched_getaffinity(0)
    for threads in map(int, options.threads.split(",")) if options.threads else (None,):
        if threads:
            pinned(threads)
        mark = {"threads": threads} if threads else {}

        def add(row: Row, mark: Row = mark) -> None:
            report.add(row | mark)

        for names in filter(None, cases.values()):
            program = ("bootstrap.py", "--runs", str(options.runs))
            mesh.run(options.device, counts, names, "", options.seconds, options.limit, add, program=program)
        os.sched_setaffinity(0, everywhere)


if __name__ == "__main__":
    main()
