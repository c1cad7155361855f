"""Compares the predicted seconds and bytes of compiled models with measured ones: networks, trees and estimators.

    python -m benchmarks.runners.model_forecasts --out benchmarks/results/mine-model-forecasts.jsonl

Seconds are processor time over threads, the least of some calls. Predicted bytes are those of keys and matrices; of trees and estimators
those of a request. HELIOGRAPH_DATA has MNIST for LeNet-5; without it this case is left out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common
from benchmarks.runners.beside_networks import digits, graph_of, lenet5

_CALLS, _LONGEST = 15, 5.0


def least(call: Callable[[], Any]) -> tuple[float, float, float]:
    """Returns the least seconds of a call, by processor time over threads and by the clock, and the first call's."""
    found = re.search(r"(\d+) threads?", hg.devices()[0])
    threads = int(found[1]) if found else 1
    seconds, clock = [], []
    begun = time.perf_counter()
    while len(seconds) < 3 or (len(seconds) < _CALLS and time.perf_counter() - begun < _LONGEST):
        start, used = time.perf_counter(), time.process_time()
        call().wait()
        clock.append(time.perf_counter() - start)
        seconds.append((time.process_time() - used) / threads)
    return min(seconds[1:]), min(clock[1:]), seconds[0]


def network(name: str, make: Callable[[], Any], **options: Any) -> dict[str, Any]:
    """Returns the row of a network."""
    layers, arrays, calibration, test = make()
    model = hg.ml.compile(graph_of(layers, arrays, name), calibrate=calibration, accuracy=0.01, **options)
    secret = hg.SecretKey.generate(model.parameters)
    keys = model.keys(secret)
    server = hg.Server(keys)
    model.circuit.prepare()
    request = server.bind(model.encrypt(secret, test[0]))
    seconds, clock, first = least(lambda: model(request))
    return {
        "predicted_seconds": model.report.seconds,
        "seconds": seconds,
        "clock_seconds": clock,
        "first_seconds": first,
        "predicted_bytes": model.report.matrix_bytes + model.report.key_bytes,
        "bytes": int(keys.nbytes) + sum(one.bytes for one in model.circuit._encoded.values()),
    }


def trees(batch: int, **options: Any) -> dict[str, Any]:
    """Returns the row of an ensemble of 50 trees."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier

    x, y = load_breast_cancer(return_X_y=True)
    fitted = GradientBoostingClassifier(n_estimators=50, max_depth=4, random_state=0).fit(x, y)
    model = hg.ml.compile(fitted, calibrate=x, batch=batch, **options)
    secret = hg.SecretKey.generate(model.parameters())
    server = hg.Server(model.keys(secret))
    rows = np.tile(x, (-(-batch // len(x)), 1))[:batch]
    request = server.bind(model.encrypt(secret, rows))
    seconds, clock, first = least(lambda: model(request))
    told = model.forecast
    return {
        "scheme": model.scheme,
        "predicted_seconds": told.seconds,
        "seconds": seconds,
        "clock_seconds": clock,
        "first_seconds": first,
        "predicted_bytes": told.nbytes,
    }


def estimator(name: str) -> dict[str, Any]:
    """Returns the row of an estimator of scikit-learn."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = load_breast_cancer(return_X_y=True)
    last = LogisticRegression() if name == "logistic" else MLPClassifier((16,), max_iter=60, random_state=0)
    fitted = make_pipeline(StandardScaler(), last).fit(x, y)
    model = hg.ml.compile(fitted, calibrate=x, batch=len(x))
    secret = hg.SecretKey.generate(model.parameters(samples=len(x)))
    server = hg.Server(model.keys(secret))
    request = server.bind(model.encrypt(secret, x))
    told = hg.forecast(model, request)
    seconds, clock, first = least(lambda: model(request))
    return {
        "predicted_seconds": told.seconds,
        "seconds": seconds,
        "clock_seconds": clock,
        "first_seconds": first,
        "predicted_bytes": told.nbytes,
    }


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "perceptron 64-32-10": lambda: network("digits", digits),
    "LeNet-5": lambda: network("lenet5", lenet5),
    "50 trees, one row": lambda: trees(1),
    "50 trees, one row, counted": lambda: trees(1, target="two-cores"),
    "50 trees, 8,192 rows": lambda: trees(8192),
    "logistic regression, 569 rows": lambda: estimator("logistic"),
    "perceptron 30-16-1, 569 rows": lambda: estimator("perceptron"),
}


def shown(row: dict[str, Any]) -> None:
    """Prints a row."""
    words = f"{row['case']}: {1e3 * row['seconds']:.2f} ms, forecast x{row['predicted_seconds'] / row['seconds']:.2f}"
    if "bytes" in row:
        words += f", bytes x{row['predicted_bytes'] / row['bytes']:.3f}"
    print(f"{words}, clock {1e3 * row['clock_seconds']:.2f} ms, first {1e3 * row['first_seconds']:.2f} ms", flush=True)


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(__doc__, only="").parse_args()
    table = common.Rows(given.out, shown, kind="model forecasts")
    table.machine |= common.engine()
    for name, measure in CASES.items():
        if given.only and not name.startswith(tuple(given.only.split(","))):
            continue
        if name == "LeNet-5" and "HELIOGRAPH_DATA" not in os.environ:
            continue
        table.add({"case": name, **measure(), "load": common.load()})


if __name__ == "__main__":
    main()
