"""Markdown of private look-ups, from what benchmarks/lookup.py wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

FILES = ("xeon-lookup.json", "zen5-lookup.json", "h100-lookup.json", "h200-lookup.json")


def lookups(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a machine."""
    lines = [
        "| look-up on | table | answer one | read | up | down | in a batch | prepare | update a row | copy rate | from |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        case, machine, engine = report["case"], report["machine"], report["engine"]["device"]
        times = case["seconds"]
        cores = report["cores"]
        where = (
            engine.split(",")[0].removeprefix("cuda: ") if engine.startswith("cuda") else f"{cores} core{'s'[: cores > 1]}"
        )
        best = max(case["batches"], key=lambda b: b["questions"] / b["seconds"])
        lines.append(
            f"| {where} ({machine['processor']}) | {case['bytes'] / 2**30:g} GiB of {case['row_bytes']} B | {seconds(times['answer'])} "
            f"| {case['bytes'] / times['answer'] / 1e9:.1f} GB/s | {case['up_bytes'] / 1000:.0f} kB | {case['down_bytes'] / 1000:.0f} kB "
            f"| {best['questions'] / best['seconds']:,.0f}/s, {best['questions']} at once | {seconds(times['prepare'])} "
            f"| {seconds(times['update'])} | {case['copy_bytes_per_second'] / 1e9:.1f} GB/s "
            f"| [{name}](benchmarks/results/{name}), {report['commit'][:12]} |"
        )
    first = next(iter(reports.values()))["case"]
    return [
        *lines,
        "",
        f"By number; keys are counted in what goes up. The client takes {seconds(first['seconds']['ask'])} to ask and "
        f"{seconds(first['seconds']['read'])} to read. Medians; the copy rate is NumPy's, read and written, on the host.",
    ]
