"""Markdown of recorded programs beside their functions, and on two GPUs beside one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]


def is_programs(report: Row) -> bool:
    """Whether it is of benchmarks/programs.py."""
    return report.get("kind") == "programs"


def schedules(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a program: its time on one device, and on several with the times by which it is faster in the same run."""
    counts = sorted({r["devices"] for report in reports.values() for r in report["results"]})
    found: dict[str, dict[int, str]] = {}
    for report in reports.values():
        for r in report["results"]:
            times = found.setdefault(r["what"], {})
            if "skipped" in r:
                times.setdefault(r["devices"], "-")
            else:
                over = f" ({r['over_first']:.2f})" if r["devices"] > 1 else ""
                times.setdefault(r["devices"], seconds(r["program_s"]) + over)
    lines = [f"| program | {' | '.join(map(str, counts))} |", "|---" * (len(counts) + 1) + "|"]
    lines += [f"| {what} | {' | '.join(times.get(count, '-') for count in counts)} |" for what, times in found.items()]
    sources = [
        f"[{name}](../benchmarks/results/{name}): {report['machine']['gpu']}, commit {report['commit'][:12]}"
        for name, report in reports.items()
    ]
    return [*lines, "", f"{'; '.join(sources)}."]


def _several(report: Row) -> bool:
    return bool(report["machine"].get("gpus", 1) > 1)


def rows(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a case; cases on several GPUs beside the same on one in a table of their own."""
    alone = [report for report in reports.values() if not _several(report)]
    lines = [
        "| what | calls | together | function | its host time | program | its host time | function over program |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for report in alone:
        for r in report["results"]:
            together = f"{r['launches']}, a graph" if r["graphs"] else "-"
            lines.append(
                f"| {r['what']} | {r['calls']} | {together} | {seconds(r['eager_s'])} | {seconds(r['eager_host_s'])} "
                f"| {seconds(r['program_s'])} | {seconds(r['program_host_s'])} | {r['eager_s'] / r['program_s']:.2f} |"
            )
    one = {r["program"]: r for report in alone for r in report["results"]}
    for report in reports.values():
        if not _several(report):
            continue
        lines += [
            "",
            f"| on {report['machine']['gpus']} GPUs | function | program | its host time | times faster than one GPU's function | than one GPU's program |",
            "|---|---|---|---|---|---|",
        ]
        for r in report["results"]:
            first = one.get(r["program"])
            over = [f"{first[kind] / r['program_s']:.2f}" if first else "-" for kind in ("eager_s", "program_s")]
            lines.append(
                f"| {r['what']} | {seconds(r['eager_s'])} | {seconds(r['program_s'])} | {seconds(r['program_host_s'])} | {' | '.join(over)} |"
            )
    return lines
