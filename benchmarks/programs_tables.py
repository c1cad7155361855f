"""Markdown of recorded programs beside their functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]


def is_programs(report: Row) -> bool:
    """Whether it is of benchmarks/programs.py."""
    return report.get("kind") == "programs"


def rows(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a case."""
    lines = [
        "| what | calls | together | function | its host time | program | its host time | function over program |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for report in reports.values():
        for r in report["results"]:
            together = f"{r['launches']}, a graph" if r["graphs"] else "-"
            lines.append(
                f"| {r['what']} | {r['calls']} | {together} | {seconds(r['eager_s'])} | {seconds(r['eager_host_s'])} "
                f"| {seconds(r['program_s'])} | {seconds(r['program_host_s'])} | {r['eager_s'] / r['program_s']:.2f} |"
            )
    return lines
