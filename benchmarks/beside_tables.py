"""Markdown of cases before and after a change."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]
LIMIT = 1.03


def is_beside(report: Row) -> bool:
    """Whether it is of benchmarks/beside.py."""
    return report.get("kind") == "beside"


def rows(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a file in short, then a line a case."""
    lines = []
    for name, report in reports.items():
        found = [r for r in report["results"] if "ratio" in r]
        ratios = [r["ratio"] for r in found]
        lines += [
            f"**{name}**: {report['machine']['device'].split(',')[0]} ({report['machine']['processor']}); commit {report['commit'][:12]} beside "
            f"{report['before_commit'][:12]}; {report['date']}",
            "",
            f"{len(found)} cases; now over before {statistics.median(ratios):.3f} (median), {min(ratios):.3f} to {max(ratios):.3f}; above {LIMIT}: "
            + (
                "; ".join(
                    f"{r['what']} {r['ratio']:.3f} (turns {seconds(min(r['before']['turns_s']))} to {seconds(max(r['before']['turns_s']))} before, "
                    f"{seconds(min(r['after']['turns_s']))} to {seconds(max(r['after']['turns_s']))} now)"
                    for r in found
                    if r["ratio"] > LIMIT
                )
                or "none"
            )
            + ".",
            "",
            "| what | before | now | now over before | host before | host now |",
            "|---|---|---|---|---|---|",
        ]
        for r in found:
            before, now = r["before"], r["after"]
            lines.append(
                f"| {r['what']} | {seconds(before['median_s'])} | {seconds(now['median_s'])} | {r['ratio']:.3f} "
                f"| {seconds(before.get('call_s'))} | {seconds(now.get('call_s'))} |"
            )
    return lines
