"""How often CKKS hands out a wrong value, and how often it refuses a right one: random computations on ordinary data.

    python benchmarks/ranges.py --out benchmarks/results/mine-ranges.json

The sets are those of ``parameters(depth, precision)``, of 128 bits, with slots from 4 to 4,096; named sets are counted apart. Every
input and every result goes through bytes, unless all is known in the process. Chains with bootstraps, whose bounds are a user's
word, run on a set far below any security. The counts depend on no machine but for noise.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import range_cases as cases
import run as runner

import heliograph as hg

#: Multiplications in sequence and precision.
NEEDS = ((1, 18), (1, 26), (3, 18), (3, 22), (3, 30), (6, 20), (6, 26), (6, 30))
SLOTS = (4, 16, 100, 1000, 4096)
NAMED = ("n13-l4", "n14-l8", "n15-l20")
#: By how many times a word is too small; 1: it holds.
WORDS = (1, 2, 5, 10, 20, 50, 100)


def counted(party: cases.Party, width: int, known: str, runs: int, seed: Any) -> dict[str, Any]:
    """A row of the table: how many computations with one parameter set were right, refused or wrong, for one entry of KNOWN."""
    p, random, found = party.parameters, np.random.default_rng(seed), Counter[str]()
    names = [name for name, one in cases.CASES.items() if one.fits(p, width)]
    refusals = Counter[str]()
    for run in range(runs):
        name = str(random.choice(names))
        one = cases.run(name, party, known, [*seed, run], width)
        found["beyond the room, refused" if one.kind == "refused" and not one.right else one.kind] += 1
        if one.kind == "refused" and one.right:
            refusals[name] += 1
        if one.kind == "wrong":
            print(f"WRONG: {name}, {width} values, known: {known}, seed {[*seed, run]}, off by {one.off}")
    return {
        **{"parameters": repr(p), "security": p.security, "room": np.log2(p.room).round(1), "width": width},
        **{"known": known, "runs": runs, "counts": dict(found), "refused": dict(refusals)},
    }


def chains(runs: int) -> list[dict[str, Any]]:
    """Rows of chains with one to ten bootstraps, on a word."""
    rows = []
    for (slots, width), words in itertools.product(((0, 1024), (0, 100), (256, 256)), WORDS):
        party, found = cases.bootstrapping(slots), Counter[str]()
        for run in range(runs):
            one = cases.bootstrapped_chain(party, width, 1 + run % 10, words, [run, width])
            found["right" if one.right else "wrong"] += 1
            found["refused"] += one.refused
            found["wrong, not refused"] += not one.right and not one.refused
            found["outside of its bound"] += one.outside
        p = party.parameters
        rows.append(
            {
                **{"bootstraps": "1 to 10", "word_too_small": words, "width": width, "zeros_behind": width < p.period},
                **{"parameters": repr(p), "security": p.security, "runs": runs, "counts": dict(found)},
            }
        )
        print(f"chains, {width} values, word {words} times too small: {dict(found)}", flush=True)
    return rows


def main() -> None:
    """Measures, shows and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--computations", type=int, default=10_000, help="random computations at the default sets")
    parser.add_argument("--named", type=int, default=600, help="random computations at named sets")
    parser.add_argument("--chains", type=int, default=20, help="chains with bootstraps of each kind")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    jobs = [(need, slots) for need in NEEDS for slots in SLOTS]
    for at, ((depth, precision), slots) in enumerate(jobs):
        start = time.perf_counter()
        party = cases.Party(hg.ckks.parameters(depth=depth, precision=precision, slots=slots))
        for i, known in enumerate(cases.KNOWN):
            parts = 3 * len(jobs)
            part = 3 * at + i
            runs = given.computations * (part + 1) // parts - given.computations * part // parts
            row = counted(party, slots, known, runs, [1, depth, precision, slots, i])
            rows.append({"sets": "default", "depth": depth, "precision": precision} | row)
        print(f"depth {depth}, precision {precision}, {slots} slots: {time.perf_counter() - start:.1f} s", flush=True)
    for name, known in itertools.product(NAMED, cases.KNOWN):
        party = cases.Party(hg.ckks.parameters(name))
        width = 1000
        row = counted(party, width, known, given.named // (len(NAMED) * 3), [2, NAMED.index(name), cases.KNOWN.index(known)])
        rows.append({"sets": "named", "name": name} | row)
        print(f"{name}, {known}: {row['counts']}", flush=True)
    every = [{"kind": "computations"} | row for row in rows] + [{"kind": "chains"} | row for row in chains(given.chains)]
    runner.save(given.out, runner.report(every, kind="ranges"))


if __name__ == "__main__":
    main()
