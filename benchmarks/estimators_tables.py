"""Markdown of estimators that were mirrored and refused, from what benchmarks/estimators.py wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

FILES = ("zen4-estimators.json",)


def _most(rows: list[Row], what: str) -> str:
    values = [row["off"][what] for row in rows if what in row["off"]]
    return f"{max(values):.1e}" if values else "-"


def estimators(reports: dict[str, Row], seconds: Time) -> list[str]:
    """The table: how many are right, refused and wrong, and the largest differences."""
    del seconds
    ((name, report),) = reports.items()
    rows = report["results"]
    lines = [
        "| estimators and options | cases | wrong without an error | largest difference: decision values | probabilities | predictions of numbers | other classes |",
        "|---|---|---|---|---|---|---|",
    ]
    for words, exact in (
        ("linear, and perceptrons without a polynomial", True),
        ("perceptrons with polynomials of degree 7", False),
    ):
        taken = [row for row in rows if "off" in row and row["exact"] == exact]
        wrong = sum(row["kind"] == "wrong" for row in taken)
        figures = " | ".join(_most(taken, what) for what in ("decision_function", "predict_proba", "predict", "classes"))
        lines.append(f"| {words} | {len(taken)} | {wrong} | {figures} |")
    refused = [row for row in rows if "error" in row]
    return [
        *lines,
        f"| refused by a typed error | {len(refused)} | - | - | - | - | - |",
        "",
        f"From [{name}](benchmarks/results/{name}), {report['commit'][:12]}, scikit-learn {report['scikit_learn']}: encrypted, by a client without the weights. "
        "A case counts as wrong that differs by more than its report states and 2^-20. Differences of exponentials are relative where they are above 1.",
    ]
