"""Markdown of private look-ups, from what benchmarks/lookup.py wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

#: Of benchmarks/beside_simplepir.py.
BESIDE = ("xeon-lookup-beside.json", "zen5-lookup-beside.json")
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


def beside(reports: dict[str, Row], seconds: Time) -> list[str]:
    """Two lines a machine, ours and SimplePIR's."""
    lines = [
        "| 1 core | table | read | answer one | down before, once a client | up | down | prepare | ask | security | from |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    loads = []
    for name, report in reports.items():
        row, processor = report["results"][0], report["machine"]["processor"]
        loads.append(f"{report['load']:g}")
        for side, who, commit in (
            ("ours", "ours", report["commit"]),
            ("peer", "SimplePIR's own code", report["peer_commit"]),
        ):
            of = row[side]
            hint = f"{of['hint_bytes'] / 1e6:.0f} MB" if of["hint_bytes"] else "nothing"
            lines.append(
                f"| {who} ({processor}) | {of['table_bytes'] / 2**30:g} GiB of {row['row_bytes']} B | {of['bytes_per_second'] / 1e9:.1f} GB/s "
                f"| {seconds(of['median_s'])} | {hint} | {of['up_bytes'] / 1000:.0f} kB | {of['down_bytes'] / 1000:.0f} kB "
                f"| {seconds(of['prepare_s'])} | {seconds(of['ask_s'])} | {of['security']} | [{name}](benchmarks/results/{name}), {commit[:12]} |"
            )
    of = next(iter(reports.values()))["results"][0]["peer"]["parameters"]
    return [
        *lines,
        "",
        f"In turns on the same core, medians; load of the machine before: {', '.join(loads)}. SimplePIR (ePrint 2022/949): LWE of dimension {of['dimension']:,}, "
        f"modulus 2^{of['log_q']}, deviation {of['deviation']:g}, entries modulo {of['plain_modulus']}; its hint changes with the table.",
    ]
