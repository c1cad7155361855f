"""The errors of CKKS encryptions and operations, beside SEAL's (tenseal) where it is installed.

    python benchmarks/precision.py --out benchmarks/results/mine-precision.json

N = 2^14, a scale of 2^40, one special prime and values in [-1, 1]: the largest error of 8,192 slots and the root of the mean
square, medians over runs with keys and values of their own. The errors depend on no machine.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import run as runner

import heliograph as hg

SLOTS = 8192
Errors = dict[str, Any]


def errors(got: Any, wanted: Any) -> tuple[float, float]:
    """The largest and the root of the mean square, log2."""
    off = np.abs(np.asarray(got) - wanted)
    return float(np.log2(off.max())), float(np.log2(np.sqrt((off**2).mean())))


def ours(random: np.random.Generator) -> Errors:
    """One run of each case; what each promises."""
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
    """The same of SEAL, which encrypts with the public key."""
    import tenseal as ts

    context = ts.context(ts.SCHEME_TYPE.CKKS, 1 << 14, coeff_mod_bit_sizes=[50, 40, 40, 40, 40, 40, 50])
    context.global_scale = 2.0**40
    a, b = random.uniform(-1, 1, (2, SLOTS))
    x, y = ts.ckks_vector(context, a), ts.ckks_vector(context, b)
    return {
        "public key": (*errors(x.decrypt(), a), None),
        "product": (*errors((x * y).decrypt(), a * b), None),
    }


def measure(who: str, run: Callable[[np.random.Generator], Errors], runs: int) -> list[dict[str, Any]]:
    """A row a case."""
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
    """Measures, shows and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = measure("Heliograph", ours, given.runs)
    try:
        rows += measure("SEAL (tenseal)", tenseal, given.runs)
    except ImportError:
        print("tenseal is not installed: SEAL left out")
    for row in rows:
        print(f"{row['who']:16s} {row['what']:12s} 2^{row['log2_largest']:.1f}, mean 2^{row['log2_root_mean_square']:.1f}")
    sets = {"n": 1 << 14, "log_scale": 40, "levels": 6, "special": 1, "edition": "w64", "security": 128}
    runner.save(given.out, runner.report(rows, kind="precision", parameters=sets))


if __name__ == "__main__":
    main()
