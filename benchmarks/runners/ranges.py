"""Counts wrong values that CKKS returns and right values that it refuses, over random computations on ordinary data.

    python -m benchmarks.runners.ranges --out benchmarks/results/mine-ranges.jsonl

The sets are those of ``parameters(depth, precision)``, of 128 bits, with 4 to 4,096 slots; named sets are counted separately. Every input
and every result is serialised, unless all ranges are known in the process. Chains with bootstraps, whose ranges the user asserts, use an
insecure set. Except for noise, the counts do not depend on the machine.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import ranges as cases
from benchmarks.report import results
from benchmarks.runners import common

#: Sequential multiplications and precision of the default sets.
NEEDS = ((1, 18), (1, 26), (3, 18), (3, 22), (3, 30), (6, 20), (6, 26), (6, 30))
SLOTS = (4, 16, 100, 1000, 4096)
NAMED = ("n13-l4", "n14-l8", "n15-l20")
#: Factor by which a declared bound is too small; 1: the bound is true.
WORDS = (1, 2, 5, 10, 20, 50, 100)


def counted(party: cases.Party, width: int, known: str, runs: int, seed: Any) -> dict[str, Any]:
    """Returns the numbers of right, refused and wrong computations with one parameter set, for one entry of KNOWN."""
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
    """Returns the rows of chains with one to ten bootstraps, under a declared range."""
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
    """Measures, prints and writes."""
    given = common.parser(
        __doc__,
        computations=(10_000, "number of random computations with the default sets"),
        named=(600, "number of random computations with named sets"),
        chains=(20, "number of chains with bootstraps per kind"),
    ).parse_args()
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
    results.save(given.out, common.report(every, kind="ranges"))


if __name__ == "__main__":
    main()
