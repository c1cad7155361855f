"""Markdown of forecasts beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]


def is_forecasts(report: Row) -> bool:
    """Whether it is of benchmarks/forecasts.py."""
    return report.get("kind") == "forecasts"


def off(row: Row) -> float:
    """How many times a forecast is off, to either side."""
    ratio = float(row["forecast_s"] / row["least_s"])
    return max(ratio, 1 / ratio)


def rows(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a case, then how many are within a factor of two."""
    lines = ["| what | forecast | least time | median | forecast over least |", "|---|---|---|---|---|"]
    every = [r for report in reports.values() for r in report["results"]]
    for r in every:
        lines.append(
            f"| {r['what']} | {seconds(r['forecast_s'])} | {seconds(r['least_s'])} | {seconds(r['median_s'])} "
            f"| {r['forecast_s'] / r['least_s']:.2f} |"
        )
    near = sum(off(r) <= 2 for r in every)
    loads = ", ".join(
        f"{report['load']:.1f} (of {report['machine']['cores']} cores, {report['machine']['threads']} used)"
        for report in reports.values()
    )
    lines += [
        "",
        f"{near} of {len(every)} within a factor of two, the worst off by {max(map(off, every)):.2f}; load of the machine: {loads}.",
    ]
    return lines
