"""Markdown of queries on encrypted tables, from what benchmarks/query.py wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

#: The table's depth is in the name.
FILES = tuple(f"{machine}-query-depth{depth}.json" for machine in ("xeon", "zen5", "h100", "h200") for depth in (5, 4))

#: Of benchmarks/query.py --scheme tfhe.
INTEGERS = tuple(f"{machine}-query-tfhe.json" for machine in ("xeon", "zen5", "h100", "h200"))


def place_of(report: Row) -> str:
    """Where a report's queries ran."""
    machine, engine = report["machine"], report["engine"]["device"]
    where = engine.split(",")[0].removeprefix("cuda: ") if engine.startswith("cuda") else f"{machine['cores']} cores"
    return f"{where} ({machine['processor']})"


def integers(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a machine, of tables of TFHE."""
    lines = [
        "| Q6 by TFHE on | rows | table | key | encrypt | answer | a row | forecast | decrypt | from |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        case = report["case"]
        times, rows = case["seconds"], case["rows"]
        lines.append(
            f"| {place_of(report)} | {rows:,} | {case['file_bytes'] / 1000:.0f} kB | {case['key_bytes'] / 2**20:.1f} MiB | {seconds(times['encrypt'])} "
            f"| {seconds(times['answer'])} | {seconds(times['answer'] / rows)} | {seconds(case['forecast'])} | {seconds(times['decrypt'])} "
            f"| [{name}](benchmarks/results/{name}), {report['commit'][:12]} |"
        )
    first = next(iter(reports.values()))
    return [
        *lines,
        "",
        f"{first['case']['security']} security, {first['case']['parameters'].strip('<>')}; medians of {len(first['case']['answers'])} answers; "
        f"load of the machine before: {', '.join(format(r['load'], 'g') for r in reports.values())}.",
    ]


def queries(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a machine and depth."""
    lines = [
        "| Q6 on | depth | table | encrypt | load | answer | decrypt | peak memory of owner and server | from |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        case = report["case"]
        times = case["seconds"]
        depth = next(line.split()[1] for line in case["layout"] if line.strip().startswith("depth"))
        lines.append(
            f"| {place_of(report)} | {depth} | {case['file_bytes'] / 2**30:.2f} GiB | {seconds(times['encrypt'])} | {seconds(times['load'])} "
            f"| {seconds(times['answer'])} | {seconds(times['decrypt'])} | {case['peak_bytes'] / 2**20:.0f} MiB "
            f"| [{name}](benchmarks/results/{name}), {report['commit'][:12]} |"
        )
    first = next(iter(reports.values()))["case"]
    return [
        *lines,
        "",
        f"{first['rows']:,} rows, {first['scheme'].upper()}, {first['security']} security; an answer has {first['answer_bytes'] / 2**20:.2f} MiB, the key "
        f"{first['key_bytes'] / 2**20:.1f} MiB. Medians of five answers, the file in the system's cache.",
    ]
