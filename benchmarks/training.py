"""Table X of Morshed and others 2020 in the clear: how well the models of its tables predict, by the server's integers.

    python benchmarks/training.py --tabular FOLDER --out FILE.json

A run on ciphertexts (tfhe.py --only table10) decrypts to these integers, which it says of itself ("wrong": 0), so that its model
predicts as is said here. Beside it stand the same steps in floating point and the least squares of all attributes, the end of a
training. It takes a moment and no key; of the public tables' rows nothing is written down.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import run as runner
import tfhe_cases

Row = dict[str, Any]


def least_squares(table: Any) -> Any:
    """Weights and intercept with the least squared error over the rows, attributes together."""
    x, y = table.real()
    return np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]


def rows() -> Iterator[Row]:
    """For each column of the table, bits and numbers, and each training that is measured."""
    example = tfhe_cases.example()
    for name, case in tfhe_cases.CASES.items():
        r = case.regression
        if r is None or r.mode != "step":
            continue
        told = {"of": name, "line": case.line, "column": case.column, "steps": r.steps}
        try:
            table = tfhe_cases.regression_table(r)
        except FileNotFoundError as error:
            yield told | {"skipped": str(error)}
            continue
        made = example.clear_training(table, r.steps)
        models = {"start": table.fmt.real(made.start), "exact": table.fmt.real(made.exact), "real": made.real}
        yield told | {
            "rows": len(table.x),
            "error": float(np.abs(models["exact"] - models["real"]).max()),
            "allowed": example.tolerance(table, example.rate_of(len(table.x)), r.steps),
            **{what: example.accuracy(table, model) for what, model in models.items()},
            "least_squares": example.accuracy(table, least_squares(table)),
        }


def line(row: Row) -> str:
    """For a person."""
    if "skipped" in row:
        return f"{row['of']}: skipped: {row['skipped']}"
    return f"{row['of']}: right {row['exact']:.1%}, in floating point {row['real']:.1%}, by least squares {row['least_squares']:.1%}"


def main() -> None:
    """Parses the command line and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tabular", type=Path, help="folder of lbw.txt, pcs.txt, uis.txt, edin.txt; synthetic rows without")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.tabular:
        os.environ["HELIOGRAPH_TABULAR"] = str(options.tabular.resolve())
    report = runner.Rows(options.out, shown=lambda row: print(line(row), flush=True), kind="training")
    for row in rows():
        report.add(row)


if __name__ == "__main__":
    main()
