"""Tables of what benchmarks/ranks.py measured: so many ranks beside one process with as many devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def is_ranks(report: dict[str, Any]) -> bool:
    """Whether a report is of ranks."""
    return any(row.get("form") == "ranks" for row in report["results"])


def device_of(report: dict[str, Any]) -> str:
    """What the ranks compute on, as their first device calls itself."""
    first: str = report["machine"]["ranks"][0]
    return first.partition(": ")[2].partition(",")[0]


def whole(reports: dict[str, dict[str, Any]], seconds: Callable[[float], str]) -> list[str]:
    """A table for each file: a line for each case and number of ranks."""
    lines: list[str] = []
    for report in reports.values():
        rows: list[Row] = report["results"]
        one = {r["case"]: r for r in rows if r["count"] == 1}
        together = {(r["case"], r["count"]): r for r in rows if r["form"] == "one process"}
        lines += [
            "",
            "| batch | ranks | time | over one | one process of as many devices | ranks over one process | sent to other ranks in a call |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in sorted((r for r in rows if r["form"] == "ranks"), key=lambda r: (list(one).index(r["case"]), r["count"])):
            beside = together[row["case"], row["count"]]["median_s"]
            lines.append(
                f"| {row['what']} | {row['count']} | {seconds(row['median_s'])} | {one[row['case']]['median_s'] / row['median_s']:.2f}x | "
                f"{seconds(beside)} | {row['median_s'] / beside:.2f} | {row['sent_bytes'] / row['calls']:,.0f} bytes |"
            )
    return lines
