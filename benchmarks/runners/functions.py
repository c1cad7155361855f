"""Measures the functions of encrypted reals: promised and largest error, levels, bootstraps and seconds.

    python -m benchmarks.runners.functions --out benchmarks/results/mine-functions.jsonl

The set is n16-b10-h, 32,768 slots, and levels run out inside `hg.ckks.auto_bootstrap`. --small takes an insecure set with N = 2^11,
to try the runner. Values include the ends of the interval, the gap and 0. Times are medians of warm calls. The cost of a guard is its
share of modular products.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common

C = hg.ckks
SET = "n16-b10-h"
erf = np.vectorize(math.erf, otypes=[float])


@dataclass(frozen=True)
class Case:
    """A function of one tensor: its clear form, the interval, and the values that are compared."""

    name: str
    options: str
    call: Callable[[Any], Any]
    clear: Callable[[Any], Any]
    low: float
    high: float
    gap: float = 0.0  # values nearer to 0 are not compared
    iterations: int = 1  # iterations of a bootstrap


def _sign(bits: int, error: int, iterations: int = 1) -> Case:
    gap = 2.0**-bits
    options = f"gap 2^-{bits}, error 2^-{error}"
    return Case("sign", options, lambda x: C.sign(x, gap=gap, error=2.0**-error), np.sign, -1, 1, gap, iterations)


CASES = (
    Case("exp", "", C.exp, np.exp, -4, 4),
    Case("log", "", C.log, np.log, 0.1, 4),
    Case("sigmoid", "", C.sigmoid, lambda v: 1 / (1 + np.exp(-v)), -8, 8),
    Case("tanh", "", C.tanh, np.tanh, -4, 4),
    Case("gelu", "", C.gelu, lambda v: v * (1 + erf(v / 2**0.5)) / 2, -5, 5),
    Case("erf", "", C.erf, erf, -3, 3),
    Case("sin", "", C.sin, np.sin, -10, 10),
    Case("cos", "", C.cos, np.cos, -10, 10),
    Case("inverse", "", C.inverse, lambda v: 1 / v, 0.1, 4),
    Case("sqrt", "", C.sqrt, np.sqrt, 0.1, 4),
    Case("rsqrt", "", C.rsqrt, lambda v: v**-0.5, 0.1, 4),
    Case("power", "exponent 1.5", lambda x: C.power(x, 1.5), lambda v: v**1.5, 0.1, 4),
    _sign(8, 12),
    _sign(12, 12),
    _sign(16, 15, 2),
    Case("abs", "error 2^-8", lambda x: C.abs(x, error=2.0**-8), np.abs, -1, 1),
    Case("relu", "error 2^-8", lambda x: C.relu(x, error=2.0**-8), lambda v: np.maximum(v, 0), -1, 1),
    Case(
        "clip",
        "to [-1/2, 1/4], error 2^-8",
        lambda x: C.clip(x, -0.5, 0.25, error=2.0**-8),
        lambda v: v.clip(-0.5, 0.25),
        -1,
        1,
    ),
    Case(
        "maximum", "with 1/4, error 2^-8", lambda x: C.maximum(x, 0.25, error=2.0**-8), lambda v: np.maximum(v, 0.25), -1, 1
    ),
)


def guard_share(case: Case, x: Any, secret: Any, server: Any) -> float:
    """Returns the modular products of a guard for a declared interval, as a share of the function's modular products."""
    wide = secret.encrypt(np.zeros(server.parameters.slots), bound=(case.low - 1, case.high + 1), level=x.level)
    declared = C.within(server.from_bytes(wide.to_bytes()), (case.low, case.high))

    def called(t: Any) -> Any:
        with C.auto_bootstrap(iterations=case.iterations):
            return case.call(t)

    with_guard, without = (hg.forecast(called, t).products for t in (declared, C.unguarded(declared)))
    return with_guard / without - 1


def measure(case: Case, secret: Any, server: Any, calls: int) -> dict[str, Any]:
    """Returns the row of a function."""
    random, slots = np.random.default_rng(44), server.parameters.slots
    v = random.uniform(case.low, case.high, slots)
    v[:2] = case.low, case.high
    if case.gap:
        v[2:6] = case.gap, -case.gap, 0, case.gap / 2
    x = server.bind(secret.encrypt(v, bound=(case.low, case.high)))
    seconds = []
    for _ in range(calls + 1):  # the first call prepares constants
        with C.auto_bootstrap(iterations=case.iterations) as auto:
            start = time.perf_counter()
            y = case.call(x)
            y.wait()
            seconds.append(time.perf_counter() - start)
    off = np.abs(secret.decrypt(y) - case.clear(v))[np.abs(v) >= case.gap]
    trusted, _ = hg._core.ckks.error_bounds(y._core)
    return {
        "function": case.name,
        "options": case.options,
        "interval": [case.low, case.high],
        "levels": None if auto.count else x.level - y.level,
        "bootstraps": auto.count,
        "log2_promised": math.log2(trusted),
        "log2_largest": float(np.log2(off.max())),
        "first_seconds": seconds[0],
        "seconds": statistics.median(seconds[1:]),
        "guard_share": guard_share(case, x, secret, server),
        "calls": calls,
    }


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(__doc__, calls=3, small=(False, "an insecure set with N = 2^11")).parse_args()
    params = (
        C.parameters(n=2**11, depth=13, log_scale=45, bootstrap=True, insecure=True) if given.small else C.parameters(SET)
    )
    load = common.load()
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(bootstrap=True))
    rows = []
    for case in CASES:
        try:
            rows.append(row := measure(case, secret, server, given.calls))
        except hg.HeliographError as error:
            print(f"{case.name} {case.options}: {error}")
            continue
        print(
            f"{row['function']:9s} {row['options']:28s} promised 2^{row['log2_promised']:.1f}, largest error 2^{row['log2_largest']:.1f}, "
            f"{row['bootstraps']} bootstraps, {row['seconds']:.3f} s, guard {100 * row['guard_share']:.1f} %",
            flush=True,
        )
    sets = {"name": None if given.small else SET, "n": params.n, "slots": params.slots, "security": params.security}
    engine = common.engine()
    results.save(given.out, common.report(rows, kind="functions", parameters=sets, engine=engine, load=load))


if __name__ == "__main__":
    main()
