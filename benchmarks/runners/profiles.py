"""Compares forecasts by a cost profile with measured times, for CKKS sets and levels that the profile does not have.

    heliograph profile --out here.json
    HELIOGRAPH_PROFILE=here.json python -m benchmarks.runners.profiles --out benchmarks/results/mine-profiles.jsonl

Without HELIOGRAPH_PROFILE the forecasts use the profile of the package for the device in use. Each row also has processor time, which
other load disturbs less.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common
from heliograph.ml.profile import profile_of

STEPS = [*range(1, 8), *range(8, 128, 8)]


@cache
def _party(name: str) -> tuple[Any, Any, Any]:
    """Returns a set, a tensor of one ciphertext, and the set's forecasts."""
    params: Any = hg.ckks.parameters(name)
    secret: Any = hg.SecretKey.generate(params)
    bootstrap = {"bootstrap": True} if params.bootstrapping_level else {}
    server = hg.Server(secret.evaluation_keys(relinearize=True, rotations=STEPS, **bootstrap))
    x = server.bind(secret.encrypt(np.zeros((1, params.slots))))
    return params, x, profile_of(os.environ.get("HELIOGRAPH_PROFILE")).rates(params)


def _matrix(params: Any, numbers: list[int], level: int) -> Any:
    values = np.linspace(0.1, 1, params.slots)
    return hg.ckks.LinearTransform.from_diagonals(params, dict.fromkeys(numbers, values), level=level, baby=8)


#: Description, set, level (0: the level of a bootstrap), number of ciphertexts, operation.
CASES: dict[str, tuple[str, str, int, int, str]] = {
    "product-n14": ("product, n14-l8, level 6", "n14-l8", 6, 1, "product"),
    "product-n15": ("product, n15-l20, level 12", "n15-l20", 12, 1, "product"),
    "product-n15-8": ("8 products, n15-l20, level 12", "n15-l20", 12, 8, "product"),
    "rotation-n15": ("rotation, n15-l20, level 7", "n15-l20", 7, 1, "rotation"),
    "matrix-n15": ("matrix of 128 diagonals, n15-l20, level 6", "n15-l20", 6, 1, "matrix"),
    "matrix-n16": ("matrix of 128 diagonals, n16-b13, level 7", "n16-b13", 7, 1, "matrix"),
    "rotation-n16": ("rotation, n16-b13, level 5", "n16-b13", 5, 1, "rotation"),
    "bootstrap-n16": ("bootstrap of real values, n16-b13", "n16-b13", 0, 1, "bootstrap"),
    "bootstrap-n16-2": ("2 bootstraps of real values, n16-b13", "n16-b13", 0, 2, "bootstrap"),
}


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Runs one case."""
    words, set_name, level, count, operation = CASES[name]
    params, one, rates = _party(set_name)
    level = level or params.bootstrapping_level
    x = one.lower(level) if level < one.level else one
    x = hg.concatenate([x] * count) if count > 1 else x
    numbers = list(range(128))
    if operation == "bootstrap":
        x = x.within((-1.0, 1.0))
    calls: dict[str, tuple[Callable[[], Any], Callable[[], float]]] = {
        "product": (lambda: x * x, lambda: rates.product(level, count)),
        "rotation": (lambda: x.rotate(1), lambda: rates.rotation(level, count)),
        "matrix": (lambda: matrix(x), lambda: rates.transform(level, numbers, 8, count)),
        "bootstrap": (lambda: x.bootstrap(1.0), lambda: rates.bootstrap(count)),
    }
    matrix = _matrix(params, numbers, level) if operation == "matrix" else None
    call, forecast = calls[operation]
    start = time.process_time()
    times, _ = common.times_of(call, seconds, warm_up=1)
    spent = (time.process_time() - start) / (len(times) + 1)
    return {
        "profile": name,
        "what": words,
        "forecast_s": count * forecast(),
        "least_s": min(times),
        "median_s": statistics.median(times),
        "processor_s": spent,
        "runs": len(times),
        "of": rates.profile.name,
    }


def line(row: dict[str, Any]) -> str:
    """Formats a row for the terminal."""
    return (
        f"{row['what']:44s} forecast {row['forecast_s'] * 1e3:9.3f} ms, takes {row['least_s'] * 1e3:9.3f} ms "
        f"(median {row['median_s'] * 1e3:9.3f}, processor {row['processor_s'] * 1e3:9.3f}): "
        f"{row['forecast_s'] / row['least_s']:.2f}"
    )


def main() -> None:
    """Measures, prints and writes."""
    common.run_named("profiles", __doc__, CASES, measure, line, seconds=1.0)


if __name__ == "__main__":
    main()
