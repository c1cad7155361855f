"""Computes Table X of Morshed and others 2020 in the clear: predictions of its models, with the server's integers.

    python -m benchmarks.runners.training --tabular FOLDER --out FILE.jsonl

A run on ciphertexts (tfhe.py --only table10) decrypts to these integers ("wrong": 0), so its model makes the same predictions. The same steps
in floating point and the least squares over all attributes, the limit of a training, are computed for comparison. The program takes a
moment and needs no key. No rows of the public data sets are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import tfhe as tfhe_cases
from benchmarks.runners import common

Row = dict[str, Any]


def least_squares(table: Any) -> Any:
    """Returns weights and intercept with the least squared error over the rows, over all attributes together."""
    x, y = table.real()
    return np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]


def rows() -> Iterator[Row]:
    """Yields a row for each column of the table, for bits and numbers, and for each measured training."""
    example = tfhe_cases.regression()
    for name, case in tfhe_cases.CASES.items():
        r = case.regression
        if r is None or r.mode != "step":
            continue
        names = {"of": name, "line": case.line, "column": case.column, "steps": r.steps}
        try:
            table = tfhe_cases.regression_table(r)
        except FileNotFoundError as error:
            yield names | {"skipped": str(error)}
            continue
        made = example.clear_training(table, r.steps)
        models = {"start": table.fmt.real(made.start), "exact": table.fmt.real(made.exact), "real": made.real}
        yield names | {
            "rows": len(table.x),
            "error": float(np.abs(models["exact"] - models["real"]).max()),
            "allowed": example.tolerance(table, example.rate_of(len(table.x)), r.steps),
            **{what: example.accuracy(table, model) for what, model in models.items()},
            "least_squares": example.accuracy(table, least_squares(table)),
        }


def line(row: Row) -> str:
    """Formats a row for the terminal."""
    if "skipped" in row:
        return f"{row['of']}: skipped: {row['skipped']}"
    return f"{row['of']}: right {row['exact']:.1%}, in floating point {row['real']:.1%}, by least squares {row['least_squares']:.1%}"


def main() -> None:
    """Parses the command line and writes the results."""
    options = common.parser(
        __doc__, tabular=(Path, "folder of lbw.txt, pcs.txt, uis.txt, edin.txt; default: synthetic rows")
    ).parse_args()
    if options.tabular:
        os.environ["HELIOGRAPH_TABULAR"] = str(options.tabular.resolve())
    report = common.Rows(options.out, shown=lambda row: print(line(row), flush=True), kind="training")
    for row in rows():
        report.add(row)


if __name__ == "__main__":
    main()
