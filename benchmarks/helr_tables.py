"""Tables of what benchmarks/helr.py and benchmarks/helr_bootstrap.py measured: logistic regression on encrypted rows."""

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


def is_bootstrapped(report: Row) -> bool:
    """Whether it is of benchmarks/helr_bootstrap.py."""
    return report.get("kind") == "helr-bootstrap"


def bootstrapped(reports: dict[str, Row], seconds: Callable[[float | None], str]) -> list[str]:
    """A line for each training."""
    lines = [
        "| where | rows of | iterations | bootstraps | set | an iteration | asked | training | accuracy encrypted | in the clear | file |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        where = report["machine"]["device"].partition(",")[0].partition(": ")[2]
        for r in report["results"]:
            p = r["parameters"]
            what = f"{r['table']}: {r['rows']:,} of {r['features']} features, {r['minibatch']:,} a minibatch"
            kind = f"{p['name']}, log QP {p['log_qp']:.0f}, {p['security']}"
            right = [f"{100 * r[key]['accuracy']:.2f}%" for key in ("encrypted", "same_steps_in_the_clear")]
            asked = r["asked_s"] if "gpu" in report["machine"] else None
            times = [seconds(value) for value in (r["iteration_s"], asked, r["training_s"])]
            cells = [where, what, str(r["iterations"]), str(r["bootstraps"]), kind, *times, *right, name]
            lines.append("| " + " | ".join(cells) + " |")
    return lines
