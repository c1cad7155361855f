"""Measures ensembles of trees on encrypted rows: one row by CKKS, a batch of rows by BGV.

    python -m benchmarks.runners.trees --out benchmarks/results/mine-trees.jsonl
    HELIOGRAPH_DEVICE=cuda python -m benchmarks.runners.trees --source random --out benchmarks/results/mine-trees.jsonl

The ensemble has --trees trees of --depth. --source xgboost fits XGBoost on scikit-learn's breast cancer table; --source random makes
complete trees with --conditions conditions and needs no package. Answers are decrypted and compared with the clear ensemble. --peer
PYTHON also times Concrete-ML by benchmarks/peers/concrete_ml.py, in the environment of that interpreter.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common
from heliograph.ml.trees.compile import compile_ensemble
from heliograph.ml.trees.ensemble import Builder, Condition, Ensemble

#: Cases: rows of a batch, and options of the compilation. Largest seconds: two cores, one H200.
CASES: dict[str, tuple[int, dict[str, Any], tuple[float, float]]] = {
    "one row": (1, {"scheme": "ckks", "reveal": "thresholds"}, (0.04, 0.002)),
    "one row, conditions by tree": (1, {"scheme": "ckks", "reveal": "trees"}, (0.04, 0.002)),
    "16,384 rows": (16384, {"scheme": "bgv"}, (0.7, 0.01)),
}
_WIDTH = 24  #: features of random trees


def random_ensemble(trees: int, depth: int, conditions: int) -> tuple[Ensemble, Any]:
    """Returns complete trees with random conditions, and 16,384 rows of samples."""
    random = np.random.default_rng(1)
    builder = Builder("random trees", _WIDTH, 1)
    values = random.normal(size=conditions)
    known = [builder.condition(Condition(place % _WIDTH, float(value)), "a tree") for place, value in enumerate(values)]
    inner = (1 << depth) - 1
    places = np.arange(2 * inner + 1)
    left = np.where(places < inner, 2 * places + 1, -1)
    for number in range(trees):
        condition = random.choice(known, len(places))
        leaves = random.uniform(-0.5, 0.5, (len(places), 1))
        builder.add(condition, left, left + 1, leaves, f"tree {number}")
    output = hg.ml.Output("class", probability="logistic")
    return builder.made(np.zeros(1), output, np.arange(2), single=False), random.normal(size=(16384, _WIDTH))


def fitted_ensemble(trees: int, depth: int) -> tuple[Any, Any]:
    """Returns XGBoost's model of the breast cancer table, and 16,384 rows near those of the table."""
    import xgboost
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    random = np.random.default_rng(1)
    rows = x[random.integers(0, len(x), 16384)] * random.uniform(0.9, 1.1, (16384, x.shape[1]))
    return xgboost.XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1).fit(x, y), rows


def measured(name: str, source: Any, rows: Any, given: Any) -> dict[str, Any]:
    """Compiles, runs, and checks a case."""
    batch, options, targets = CASES[name]
    start = time.perf_counter()
    if isinstance(source, Ensemble):
        model = compile_ensemble(source, rows[:1024], batch=batch, **options)
    else:
        model = hg.ml.compile(source, rows[:1024], batch=batch, **options)
    compiled = time.perf_counter() - start
    secret = hg.SecretKey.generate(model.parameters())
    keys = model.keys(secret)
    server = hg.Server(keys)
    request = model.encrypt(secret, rows[:batch])
    x = server.from_bytes(request.to_bytes())
    seconds = []
    for _ in range(given.calls + 2):
        begin, cpu = time.perf_counter(), time.process_time()
        answer = model(x)
        answer.wait()
        seconds.append((time.perf_counter() - begin, time.process_time() - cpu))
    values, exact = model.decrypt(secret, answer, like=rows[:batch]), model.clear(rows[:batch])
    ensemble = model._reader.ensemble
    error = float(np.abs(values - exact).max() / ensemble.largest)
    forecast = model.forecast
    return {
        "case": name,
        "rows": batch,
        "scheme": model.scheme,
        "parameters": repr(model.parameters()),
        "trees": len(ensemble.trees),
        "depth": ensemble.depth,
        "leaves": ensemble.leaves,
        "conditions": len(ensemble.conditions),
        "seconds": statistics.median(clock for clock, _ in seconds[2:]),
        "cpu_seconds": statistics.median(cpu for _, cpu in seconds[2:]),
        "first_seconds": seconds[0][0],
        "compile_seconds": compiled,
        "forecast_seconds": forecast.seconds,
        "forecast_bytes": forecast.nbytes,
        "floor_seconds": forecast.floor,
        "key_bytes": len(keys.to_bytes()),
        "request_bytes": len(request.to_bytes()),
        "answer_bytes": len(answer.to_bytes()),
        "log2_error": float(np.log2(error)) if error else None,
        "equal_classes": float(np.mean(model.predictions(values) == model.predictions(exact))),
        "asked_cores": targets[0],
        "asked_h200": targets[1],
        "calls": given.calls,
    }


def shown(row: dict[str, Any]) -> None:
    """Prints a row."""
    more = f", {1e3 * row['cpu_seconds']:.1f} ms of processor time" if "cpu_seconds" in row else ""
    print(f"{row['case']}: {1e3 * row['seconds']:.2f} ms{more}", flush=True)


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(
        __doc__,
        source=("xgboost", "xgboost or random"),
        trees=50,
        depth=4,
        conditions=(128, "conditions of random trees"),
        calls=9,
        only=("", "first letters of cases, with commas"),
        peer=("", "Python interpreter with Concrete-ML"),
    ).parse_args()
    if given.source == "random":
        source, rows = random_ensemble(given.trees, given.depth, given.conditions)
    else:
        source, rows = fitted_ensemble(given.trees, given.depth)
    more = {"kind": "trees", "source": given.source}
    table = common.Rows(given.out, shown, **more)
    table.machine |= common.engine()
    for name in CASES:
        if not given.only or name.startswith(tuple(given.only.split(","))):
            row = measured(name, source, rows, given)
            table.add(row)
    if given.peer:
        command = [given.peer, str(common.ROOT / "benchmarks" / "peers" / "concrete_ml.py")]
        command += ["--trees", str(given.trees), "--depth", str(given.depth)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        table.add({"case": "Concrete-ML, one row", "seconds": statistics.median(found["row_seconds"]), **found})


if __name__ == "__main__":
    main()
