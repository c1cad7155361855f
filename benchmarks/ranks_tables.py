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


def network(reports: dict[str, dict[str, Any]], seconds: Callable[[float], str]) -> list[str]:
    """A network over ranks: a line for each file and number of ranks; what each operation sends, where that was counted."""
    lines = [
        "| HCNN-5, as many images as slots, over | time | over one rank | one process of as many devices | sent in a call | from |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    counted: list[tuple[str, Row]] = []
    for name, report in reports.items():
        rows = [r for r in report["results"] if r["case"] == "hcnn5-paper"] if is_ranks(report) else []
        one = next((r["median_s"] for r in rows if r["count"] == 1), None)
        for row in sorted((r for r in rows if r["form"] == "ranks" and one), key=lambda r: int(r["count"])):
            beside = next(r for r in rows if r["form"] == "one process" and r["count"] == row["count"])
            what = device_of(report)
            core = f" ({report['machine']['processor']})" if what.endswith("thread") else ""
            where = f"{row['count']} ranks of {what}{core}, {report['commit'][:12]}"
            lines.append(
                f"| {where} | {seconds(row['median_s'])} | {one / row['median_s']:.2f}x | {one / beside['median_s']:.2f}x | "
                f"{_megabytes(row['sent_bytes'] / row['calls'])} | [{name}](benchmarks/results/{name}) |"
            )
            if row.get("steps"):
                counted.append((where, row))
    for where, row in counted:
        lines += [
            "",
            f"| {where}: operation | its ciphertexts | moved, as words | sent |",
            "| --- | --- | --- | --- |",
        ]
        for step in row["steps"]:
            outputs = f"{step['outputs']}, {_megabytes(step['outputs_bytes'])}"
            lines.append(
                f"| {step['what']} | {outputs} | {_megabytes(step['exchanged_bytes'])} | {_megabytes(step['sent_bytes'])} |"
            )
        lines.append(
            f"| the first call, with keys and what is kept of the images | | | {_megabytes(row['first_sent_bytes'])} |"
        )
    return lines


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB" if count else "0"
