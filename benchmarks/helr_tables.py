"""Table of what benchmarks/helr.py measured: logistic regression on encrypted rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def is_helr(report: Row) -> bool:
    """Whether it is of this runner."""
    return report.get("kind") == "helr"


def whole(reports: dict[str, Row], seconds: Callable[[float | None], str]) -> list[str]:
    """A line for each table of rows and number of iterations."""
    lines = [
        "| where | rows of | iterations | set | an iteration | training | inference | AUC encrypted | in the clear | converged | file |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        where = report["machine"]["device"].partition(",")[0].partition(": ")[2]
        for r in report["results"]:
            auc = [f"{r[key]['auc']:.4f}" for key in ("encrypted", "same_steps_in_the_clear", "converged")]
            what = f"{r['table']}: {r['rows']:,} of {r['attributes']} attributes, {r['test_rows']:,} more for the test"
            kind = f"N={r['n']:,}, log QP {r['log_qp']:.0f}, {r['security']}"
            times = [seconds(r[key]) for key in ("iteration_s", "training_s", "inference_s")]
            cells = [where, what, str(r["iterations"]), kind, *times, *auc, name]
            lines.append("| " + " | ".join(cells) + " |")
    return lines
