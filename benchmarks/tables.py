"""All tables by name, and the tables of files.

python -m benchmarks.tables FILE.jsonl [FILE.jsonl ...]    # prints every case; files of one kind form one table
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.papers import al_badawi, coprocessor, frame, kim, morshed, slow_network
from benchmarks.report import held_out, models, operations, readme, results, services, tfhe, workloads
from benchmarks.report.render import Reports, Writer
from benchmarks.report.results import Report

TABLES: dict[str, Writer] = {
    name: writer
    for module in (
        operations,
        workloads,
        tfhe,
        services,
        models,
        held_out,
        readme,
        al_badawi,
        coprocessor,
        frame,
        kim,
        morshed,
        slow_network,
    )
    for name, writer in module.TABLES.items()
}
#: Name of the table of every case, by the report's field `kind`.
KINDS = {
    "scaling": "scaling",
    "doublecrt": "frame",
    "doublecrt-peer": "frame",
    "helr": "HELR",
    "helr-bootstrap": "HELR with bootstraps",
    "bootstrap": "bootstraps",
    "beside": "before and after",
    "beside openfhe": "beside OpenFHE",
    "functions beside openfhe": "functions beside OpenFHE",
    "orders": "orders",
    "forecasts": "forecasts",
    "mnist": "small rings",
    "instructions": "instructions",
    "programs": "programs",
    "schedules": "schedules",
    "tfhe": "TFHE",
    "ranges": "ranges",
    "estimators": "estimators",
    "trees": "trees",
    "models": "models",
    "held out": "held-out networks",
    "held files": "held-out files",
    "networks beside": "networks beside others",
    "model forecasts": "model forecasts",
    "level-keys": "level keys",
    "slow-network": "slow network",
}
#: Tables for reports without `kind`: the first test that holds selects its table.
SHAPES: dict[str, Callable[[Report], bool]] = {
    "ranks": workloads.is_ranks,
    "mesh": lambda report: operations.is_mesh(report) and not operations.is_levelled(report),
    "operations": lambda report: True,
}


def name_of(report: Report) -> str:
    """Returns the table of every case of a report."""
    known = KINDS.get(str(report.get("kind")))
    return known or next(name for name, holds in SHAPES.items() if holds(report))


def by_name(files: list[Path]) -> dict[str, Reports]:
    """Returns the reports of files, by the table of every case and by the file's name."""
    found: dict[str, Reports] = {}
    for file in files:
        report = results.read(file)
        found.setdefault(name_of(report), {})[file.name] = report
    return found


def main() -> None:
    """Prints the tables of the given files."""
    for name, reports in by_name([Path(file) for file in sys.argv[1:]]).items():
        print("\n".join(TABLES[name](reports)) + "\n")


if __name__ == "__main__":
    main()
