"""Compares functions of CKKS with OpenFHE's, in turns on the same cores: the logistic function, division, an exact comparison.

    python -m benchmarks.peers.openfhe_functions --peer BUILD/openfhe_functions --out benchmarks/results/mine-functions-openfhe.jsonl

benchmarks/peers/openfhe_functions.cpp is OpenFHE's side. Both sides have the same numbers of values, the same intervals and an error of
at most 2^-20, or exact results. Both sides prepare a case, then one is timed while the other waits, in turns; the result is
the median.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.openfhe import PAUSE, Side
from benchmarks.runners import common
from benchmarks.runners.bootstrap import pinned

Row = dict[str, Any]
VALUES = 1 << 14  # values of a series
COMPARED = 8  # values of the comparison
ERROR = 2.0**-20


@dataclass(frozen=True)
class Case:
    """A case of both sides: OpenFHE's function, and ours."""

    what: str
    theirs: str
    ours: str


CASES = {
    "logistic": Case("1 / (1 + exp(-x)) on [-8, 8], 16,384 values", "EvalLogistic", "hg.ckks.sigmoid"),
    "divide": Case("1 / x on [1, 16], 16,384 values", "EvalDivide", "hg.ckks.inverse"),
    "compare": Case("x < 0, exact at 16 bits, 8 values", "EvalCompareSchemeSwitching", "hg.switching"),
}


class Ours:
    """Executes the commands on Heliograph's side."""

    def prepare(self, name: str) -> Row:
        """Makes keys and operands, and checks a first call."""
        self._call: Callable[[], Any]
        start = time.perf_counter()
        open_it, wanted, parameters = _compare(self) if name == "compare" else _series(self, name)
        keys_s = time.perf_counter() - start
        first, _, y = common.timed(self._call)
        largest = float(np.abs(open_it(y) - wanted).max())
        return {
            "parameters": parameters,
            "values": len(wanted),
            "log2_error": math.log2(largest),
            "keys_s": keys_s,
            "first_s": first,
        }

    def time(self, calls: int) -> Row:
        """Returns the time of each call."""
        return {"times_s": [common.timed(self._call)[0] for _ in range(calls)]}


Prepared = tuple[Callable[[Any], Any], Any, Row]


def _described(params: Any, **more: Any) -> Row:
    return {"scheme": "ckks", "n": params.n, "security": params.security, **more}


def _series(side: Ours, name: str) -> Prepared:
    import heliograph as hg

    low, high = (-8, 8) if name == "logistic" else (1, 16)
    params = hg.ckks.parameters(depth=7 if name == "logistic" else 6, precision=26, slots=VALUES)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys())
    v = np.random.default_rng(1).uniform(low, high, VALUES)
    v[:2] = low, high
    x = server.bind(secret.encrypt(v, bound=(low, high)))
    if name == "logistic":
        side._call = lambda: hg.ckks.sigmoid(x, error=ERROR)
        return secret.decrypt, 1 / (1 + np.exp(-v)), _described(params, levels=params.levels)
    side._call = lambda: hg.ckks.inverse(x, error=ERROR)
    return secret.decrypt, 1 / v, _described(params, levels=params.levels)


def _compare(side: Ours) -> Prepared:
    import heliograph as hg

    params, tfhe = hg.ckks.parameters("n16-b13", slots=COMPARED), hg.tfhe.parameters("2_2")
    ckks_secret, tfhe_secret = hg.SecretKey.generate(params), hg.SecretKey.generate(tfhe)
    keys = hg.switching.keys(ckks_secret, tfhe_secret)
    server = hg.switching.Server(
        keys,
        ckks_secret.evaluation_keys(bootstrap=True),
        tfhe_secret.evaluation_keys(),
    )
    v = np.random.default_rng(1).integers(-(2**15), 2**15, COMPARED)
    v[:3] = 0, 1, -1
    x = ckks_secret.encrypt(v / 2.0**15, bound=(-1, 1 - 2.0**-15))
    side._call = lambda: server.to_ckks(server.to_tfhe(x, bits=16, unit=2.0**-15) < 0)
    about = _described(params, name="n16-b13", tfhe="2_2", log2_failure=hg.switching.log2_failure(keys, bits=16))
    return ckks_secret.decrypt, (v < 0).astype(float), about


def serve() -> None:
    """Executes the parent's commands."""
    ours = Ours()
    for line in sys.stdin:
        word, value = line.split()
        print(json.dumps(ours.prepare(value) if word == "prepare" else ours.time(int(value))), flush=True)


def show(row: Row) -> None:
    """Prints a row for the terminal."""
    ours, peer = row["ours"], row["peer"]
    print(
        f"{row['case']:10} {row['threads']} cores: ours {ours['median_s']:.4g} s, error 2^{ours['log2_error']:.1f}; peer "
        f"{peer['median_s']:.4g} s, error 2^{peer['log2_error']:.1f}; ratio {row['ratio']:.2f}",
        flush=True,
    )


def compare(name: str, sides: tuple[Side, Side], turns: int, seconds: float) -> Row:
    """Compares one case."""
    prepared = [side.ask("prepare", name) for side in sides]
    times: list[list[float]] = [[], []]
    for _ in range(turns):
        for side, about, found in zip(sides, prepared, times, strict=True):
            time.sleep(PAUSE)
            found += side.ask("time", max(1, round(seconds / min(found, default=about["first_s"]))))["times_s"]
    for about, found in zip(prepared, times, strict=True):
        about |= {"median_s": statistics.median(found), "fastest_s": min(found), "slowest_s": max(found), "runs": len(found)}
    ours, peer = prepared
    case = CASES[name]
    named = {"case": name, "what": case.what, "ours_function": case.ours, "peer_function": case.theirs}
    return {**named, "ours": ours, "peer": peer, "ratio": peer["median_s"] / ours["median_s"]}


def main() -> None:
    """Parses the command line and writes the results."""
    given = common.parser(
        __doc__,
        peer=(Path, "program built from benchmarks/peers"),
        only=("", f"comma-separated, of {', '.join(CASES)}"),
        threads=(2, "number of cores"),
        seconds=(1.0, "seconds per turn, of at least one call"),
        turns=3,
        build=("", "how the peer's library was built"),
        serve=False,
    ).parse_args()
    os.environ["HELIOGRAPH_DEVICE"] = "cpu"  # OpenFHE has no GPU backend
    if given.serve:
        serve()
        return
    if not given.peer:
        raise SystemExit("--peer is missing: give the program of OpenFHE's side")
    pinned(given.threads)
    report = common.Rows(given.out, show, kind="functions beside openfhe", build=given.build, engine=common.engine())
    for name in given.only.split(",") if given.only else CASES:
        # Each case has new processes: the keys of all cases would not fit together.
        sides = (
            Side("our side", [*common.module("peers.openfhe_functions"), "--serve"]),
            Side("the peer", [str(given.peer.resolve())]),
        )
        report.add({**compare(name, sides, given.turns, given.seconds), "threads": given.threads, "load": common.load()})
        for side in sides:
            side.close()


if __name__ == "__main__":
    main()
