"""Compares `hg.forecast` with measured times, for operations of every scheme.

    HELIOGRAPH_THREADS=1 python -m benchmarks.runners.forecasts --out benchmarks/results/mine-forecasts.jsonl

Each case is forecast before its first call, from its operands alone, and then timed. The result is the least time of the calls, which
other load disturbs least (the forecast's rates are least times too), and their median.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common

Function = Callable[[Any], Any]


@cache
def _party(scheme: str) -> tuple[hg.SecretKey, hg.Server]:
    params: Any = {
        "bfv": lambda: hg.bfv.parameters("hcnn5-2020"),
        "bgv": lambda: hg.bgv.parameters("bgv-n14"),
        "ckks": lambda: hg.ckks.parameters("n14-l8"),
        "ckks-large": lambda: hg.ckks.parameters("n15-l20"),
        "tfhe": lambda: hg.tfhe.parameters("2_2"),
        "boolean": lambda: hg.tfhe.parameters("boolean"),
    }[scheme]()
    secret: Any = hg.SecretKey.generate(params)
    wanted: dict[str, Any] = {}
    if scheme in ("bfv", "bgv"):
        wanted = {"rotations": [1, 2, 4, 8]}
    elif scheme.startswith("ckks"):
        wanted = {"rotations": hg.ckks.sum_rotations(params.period)}
    return secret, hg.Server(secret.evaluation_keys(**wanted))


def tensor(scheme: str, count: int) -> Any:
    """Returns a tensor with the given number of ciphertexts, which encrypt 1s; in TFHE 8-bit integers or booleans."""
    secret, server = _party(scheme)
    if scheme == "tfhe":
        return server.bind(secret.encrypt(np.ones(count, dtype=np.uint8)))  # type: ignore[call-arg,unused-ignore]
    if scheme == "boolean":
        return server.bind(secret.encrypt(np.ones(count, dtype=bool)))
    return server.bind(secret.encrypt(np.ones((count, 2), dtype=int), pad=True))


def logistic(x: Any) -> Any:
    """Computes an inner product, then a cubic polynomial of the result."""
    y = hg.ckks.sum_slots(x * 0.01)
    return y * (y * y * -0.004 + 0.197) + 0.5


WEIGHTS = np.random.default_rng(1).integers(-50, 50, (16, 32))
TABLE = np.arange(256, dtype=np.uint8)
#: Description, scheme, number of ciphertexts or elements, function.
CASES: dict[str, tuple[str, str, int, Function]] = {
    "bfv-add": ("BFV, 32 additions, N=2^14", "bfv", 32, lambda x: x + x),
    "bfv-multiply": ("BFV, one multiplication + relinearization, N=2^14", "bfv", 1, lambda x: hg.relinearize(x * x)),
    "bfv-multiply-8": ("BFV, 8 multiplications + relinearizations, N=2^14", "bfv", 8, lambda x: hg.relinearize(x * x)),
    "bfv-rotate": ("BFV, 4 hoisted rotations, N=2^14", "bfv", 1, lambda x: hg.rotate_rows(x, [1, 2, 4, 8])),
    "bfv-matmul": ("BFV, 16 x 32 clear weights, N=2^14", "bfv", 32, lambda x: hg.matmul(WEIGHTS, x)),
    "bfv-shrink": ("BFV, 8 modulus switches, N=2^14", "bfv", 8, lambda x: hg.shrink(x, 2)),
    "bgv-multiply": ("BGV, one multiplication + relinearization, N=2^14", "bgv", 1, lambda x: hg.relinearize(x * x)),
    "ckks-multiply": ("CKKS, one multiplication, N=2^14", "ckks", 1, lambda x: x * x),
    "ckks-multiply-4": ("CKKS, 4 multiplications, N=2^15, 20 limbs", "ckks-large", 4, lambda x: x * x),
    "ckks-rotate": ("CKKS, one rotation, N=2^15, 20 limbs", "ckks-large", 1, lambda x: hg.ckks.rotate(x, 1)),
    "ckks-logistic": ("CKKS, an inner product and a cubic polynomial, N=2^14", "ckks", 1, logistic),
    "tfhe-and": ("TFHE, 8 gates, set boolean", "boolean", 16, lambda x: hg.tfhe.nand(x[:8], x[8:])),
    "tfhe-add": ("TFHE, two sums of 8 bits", "tfhe", 2, lambda x: x + x),
    "tfhe-multiply": ("TFHE, a product of 8 bits", "tfhe", 1, lambda x: x * x),
    "tfhe-look-up": ("TFHE, a table of 8 bits", "tfhe", 1, lambda x: hg.tfhe.look_up(x, TABLE)),
}


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Runs one case."""
    words, scheme, count, function = CASES[name]
    x = tensor(scheme, count)
    predicted = hg.forecast(function, x)
    times, _ = common.times_of(lambda: function(x), seconds, warm_up=1)  # the first call makes constants and plans
    return {
        "forecast": name,
        "what": words,
        "calls": sum(predicted.calls.values()),
        "floor_s": predicted.floor or None,
        "forecast_s": predicted.seconds,
        "least_s": min(times),
        "median_s": statistics.median(times),
        "runs": len(times),
        "memory_bytes": predicted.nbytes,
    }


def line(row: dict[str, Any]) -> str:
    """Formats a row for the terminal."""
    return (
        f"{row['what']:56s} forecast {row['forecast_s'] * 1e3:9.3f} ms, takes {row['least_s'] * 1e3:9.3f} ms "
        f"(median {row['median_s'] * 1e3:9.3f}): {row['forecast_s'] / row['least_s']:.2f}"
    )


def main() -> None:
    """Measures, prints and writes."""
    common.run_named("forecasts", __doc__, CASES, measure, line, seconds=1.0)


if __name__ == "__main__":
    main()
