"""Measures encrypted data frames: errors against pandas, NumPy and scikit-learn, and seconds of server and owner.

    python -m benchmarks.runners.frames --out benchmarks/results/mine-frames.jsonl

The table is generated: 1,003 rows of five real columns, one of integers and one of truth values. Errors of `describe`, `corr` and
`least_squares` are relative to the largest value of each result's row; the error of `logistic_regression` is the largest
difference of a probability. Times are single calls on new operands; the result is the median of --calls."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common

REALS = ["age", "income", "height", "score", "dose"]


def table(rows: int, seed: int = 1) -> pd.DataFrame:
    """Returns the table; its label follows a logistic model of the reals."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1, (rows, 5))
    z[:, 3] += 0.5 * z[:, 0]
    frame = pd.DataFrame(z * [12, 9000, 0.1, 1, 3] + [45, 40000, 1.7, 0, 10], columns=REALS)
    frame["visits"] = rng.integers(0, 40, rows)
    frame["bought"] = rng.random(rows) < 1 / (1 + np.exp(-z @ [1, -0.5, 0.8, 0, 0.3] - 0.3))
    return frame


def relative(found: Any, expected: Any) -> float:
    """Returns the largest error, relative to the largest value of its row."""
    a, b = np.atleast_2d(np.asarray(found, float)), np.atleast_2d(np.asarray(expected, float))
    return float((np.abs(a - b) / np.abs(b).max(axis=1, keepdims=True)).max())


def probabilities(frame: pd.DataFrame, intercept: float, weights: Any) -> Any:
    """Returns the probabilities of a fitted model."""
    return 1 / (1 + np.exp(-(frame[REALS].to_numpy() @ np.asarray(weights) + intercept)))


def cases(clear: pd.DataFrame) -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], float]]]:
    """Returns each statistic on the server, and the error of the owner's result."""
    design = np.column_stack([np.ones(len(clear)), clear[["age", "height", "score", "dose"]]])
    line = np.linalg.lstsq(design, clear["income"].to_numpy(), rcond=None)[0]
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=100_000).fit(clear[REALS], clear["bought"])
    chance = probabilities(clear, model.intercept_[0], model.coef_[0])
    numbers = clear.astype(float)
    features = ["age", "height", "score", "dose"]
    return {
        "describe": (
            lambda f: f.describe(),
            lambda r: relative(r.T, numbers.describe().loc[["count", "mean", "std"]].T),
        ),
        "corr": (lambda f: f.astype(float).corr(), lambda r: relative(r, numbers.corr())),
        "least_squares": (lambda f: f.least_squares("income", features), lambda r: relative(r, line)),
        "logistic_regression": (
            lambda f: f.logistic_regression("bought", REALS),
            lambda r: float(np.abs(probabilities(clear, r["intercept"], r[REALS]) - chance).max()),
        ),
    }


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=1003)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--out", type=results.file, help="results file to write (.jsonl)")
    given = parser.parse_args()
    clear, load = table(given.rows), common.load()
    start = time.perf_counter()
    params = hg.frame.parameters_for(clear)
    owner = hg.frame.SecretKey.generate(params)
    keys = owner.evaluation_keys()
    encrypted = owner.encrypt(clear)
    prepared = time.perf_counter() - start
    frame = hg.frame.Server(keys).bind(encrypted)
    print(params.explain(), f"\n  owner  {prepared:.2f} s for parameters, keys and encryption", flush=True)
    rows = []
    for name, (call, error_of) in cases(clear).items():
        seconds = []
        for _ in range(given.calls):
            start = time.perf_counter()
            answer = call(frame)
            nbytes = len(answer.to_bytes())  # computes all results of the case
            middle = time.perf_counter()
            result = owner.decrypt(answer)
            seconds.append((middle - start, time.perf_counter() - middle))
        server, finish = (statistics.median(several) for several in zip(*seconds, strict=True))
        row = {"statistic": name, "error": error_of(result), "server_seconds": server, "owner_seconds": finish}
        rows.append({**row, "answer_bytes": nbytes, "frame_bytes": params.nbytes, "rows": given.rows, "prepared": prepared})
        print(
            f"{name:20s} error {row['error']:.1e}, server {server:.2f} s, owner {finish:.2f} s, {nbytes:,} bytes", flush=True
        )
    results.save(
        given.out,
        common.report(rows, kind="frames", parameters={"columns": len(clear.columns)}, engine=common.engine(), load=load),
    )


if __name__ == "__main__":
    main()
