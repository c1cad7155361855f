"""Measures CKKS bootstrapping: time, precision, size of keys.

    python -m benchmarks.runners.bootstrap --device cuda --runs 100 --out FILE.jsonl     # on a GPU
    python -m benchmarks.runners.bootstrap --device cuda --counts 1,2 --out FILE.jsonl   # on one GPU and on two as one
    python -m benchmarks.runners.bootstrap --threads 1,2 --out FILE.jsonl                # on one core and on two

Values are uniform, with real and imaginary parts in [-1, 1]. One process for each set, number of devices and number of threads makes the
keys once. A product at the top level of the same set is measured for comparison. The JSON is written after every row.
"""

from __future__ import annotations

import json
import os
from typing import Any

from benchmarks.runners import common, mesh
from benchmarks.runners.tfhe import chosen

Row = dict[str, Any]


def child(names: list[str], runs: int, seconds: float, device: str, rates: dict[str, float] | None) -> None:
    """Runs cases in this process and prints their results as JSON lines."""
    from benchmarks.cases import bootstrap as bootstrap_cases
    from benchmarks.runners import gpu

    gpu.child(names, seconds, device, rates, more=lambda name: bootstrap_cases.figures(name, runs))


def pinned(threads: int) -> None:
    """Binds this process and its children to the given number of cores."""
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise SystemExit(f"cannot use {threads} cores: there are {len(cores)}")
    os.sched_setaffinity(0, cores[:threads])
    os.environ["HELIOGRAPH_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)


def main() -> None:
    """Parses the command line and writes the results."""
    options = common.parser(
        __doc__,
        sets=("n16-b13,n16-b9", "comma-separated sets; small: a set without security, for tests"),
        only="",
        runs=(3, "number of ciphertexts whose precision is measured"),
        device="cpu",
        counts="1",
        threads=("", "comma-separated numbers of cores; default: the library's"),
        seconds=(1.0, "seconds per case; calls of half a second or more are made three times"),
        limit=900.0,
        list=False,
        child=str,
        rates="null",
    ).parse_args()
    if options.child:
        names = options.child.split(",")
        child(names, options.runs, options.seconds, options.device, json.loads(options.rates))
        return
    from benchmarks.cases import bootstrap as bootstrap_cases

    cases = {name: chosen(options.only, bootstrap_cases.names_of(name)) for name in options.sets.split(",")}
    if options.list:
        print("\n".join(name for every in cases.values() for name in every))
        return
    report = common.Rows(options.out, kind="bootstrap", load=common.load())
    counts = [int(count) for count in options.counts.split(",")]
    everywhere = os.sched_getaffinity(0)
    for threads in map(int, options.threads.split(",")) if options.threads else (None,):
        if threads:
            pinned(threads)
        mark = {"threads": threads} if threads else {}

        def add(row: Row, mark: Row = mark) -> None:
            report.add(row | mark)

        for names in filter(None, cases.values()):
            program = ("runners.bootstrap", "--runs", str(options.runs))
            mesh.run(options.device, counts, names, "", options.seconds, options.limit, add, program=program)
        os.sched_setaffinity(0, everywhere)


if __name__ == "__main__":
    main()
