"""Measures the errors of CKKS encryptions and operations, and SEAL's (tenseal) if it is installed.

    python -m benchmarks.runners.precision --out benchmarks/results/mine-precision.jsonl

N = 2^14, a scale of 2^40, one special prime and values in [-1, 1]: the largest error of 8,192 slots and the root of the mean square,
medians over runs with different keys and values. The errors do not depend on the machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common

SLOTS = 8192
Errors = dict[str, Any]


def errors(got: Any, wanted: Any) -> tuple[float, float]:
    """Returns log2 of the largest error and of the root of the mean square."""
    off = np.abs(np.asarray(got) - wanted)
    return float(np.log2(off.max())), float(np.log2(np.sqrt((off**2).mean())))


def ours(random: np.random.Generator) -> Errors:
    """Runs each case once; returns errors and promised precision."""
    params = hg.ckks.parameters(n=1 << 14, levels=6, log_scale=40, base_bits=50, special=1)
    secret = hg.SecretKey.generate(params)
    public, keys = secret.public_key(), secret.evaluation_keys(rotations=[1])
    server = hg.Server(keys)
    a, b = random.uniform(-1, 1, (2, SLOTS))
    x, y = server.bind(secret.encrypt(a)), server.bind(secret.encrypt(b))
    made = {
        "secret key": (secret.encrypt(a), a),
        "public key": (public.encrypt(a), a),
        "product": (x * y, a * b),
        "rotation": (hg.ckks.rotate(x, 1), np.roll(a, -1)),
    }
    return {name: (*errors(secret.decrypt(t), w), t.precision) for name, (t, w) in made.items()}


def tenseal(random: np.random.Generator) -> Errors:
    """Runs the cases with SEAL, which encrypts with the public key."""
    import tenseal as ts

    context = ts.context(ts.SCHEME_TYPE.CKKS, 1 << 14, coeff_mod_bit_sizes=[50, 40, 40, 40, 40, 40, 50])
    context.global_scale = 2.0**40
    a, b = random.uniform(-1, 1, (2, SLOTS))
    x, y = ts.ckks_vector(context, a), ts.ckks_vector(context, b)
    return {"public key": (*errors(x.decrypt(), a), None), "product": (*errors((x * y).decrypt(), a * b), None)}


def measure(who: str, run: Callable[[np.random.Generator], Errors], runs: int) -> list[dict[str, Any]]:
    """Returns a row per case."""
    every = [run(np.random.default_rng(seed)) for seed in range(runs)]
    return [
        {
            "who": who,
            "what": what,
            "log2_largest": statistics.median(e[what][0] for e in every),
            "log2_root_mean_square": statistics.median(e[what][1] for e in every),
            "promised_bits": every[0][what][2],
            "runs": runs,
        }
        for what in every[0]
    ]


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(__doc__, runs=9).parse_args()
    rows = measure("Heliograph", ours, given.runs)
    try:
        rows += measure("SEAL (tenseal)", tenseal, given.runs)
    except ImportError:
        print("tenseal is not installed: SEAL is skipped")
    for row in rows:
        print(f"{row['who']:16s} {row['what']:12s} 2^{row['log2_largest']:.1f}, mean 2^{row['log2_root_mean_square']:.1f}")
    sets = {"n": 1 << 14, "log_scale": 40, "levels": 6, "special": 1, "edition": "w64", "security": 128}
    results.save(given.out, common.report(rows, kind="precision", parameters=sets))


if __name__ == "__main__":
    main()
