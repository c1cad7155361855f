"""Recorded programs that bootstrap: placed by their whole cost (`hg.program(f, bootstrap=True)`) beside `hg.ckks.auto_bootstrap`.

    python benchmarks/placement.py --set small --out benchmarks/results/mine-placement.json

Both are programs of one function on the same operands, timed in turns; shown is the least time of the replays, and their median. Both results
are decrypted and compared with the function in the clear. Cases: HELR's iterations as in benchmarks/helr_bootstrap.py but for levels, which
this function does not mention; twenty layers of one product each, of which the middle ones have eight ciphertexts, as eight tensors or
as one tensor of eight.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bootstrap_cases
import ckks_cases
import helr_bootstrap as helr
import numpy as np
import programs
import run as runner

import heliograph as hg
from heliograph import ckks

Array = np.ndarray[Any, Any]

LAYERS, WIDE = 20, 8  #: of the chain, and ciphertexts in its middle
ENDS = 7  #: layers before the middle; one goes into it and one comes out
FEATURES, ROWS, ITERATIONS = 196, 1024, 8  #: of HELR


@dataclass(frozen=True)
class Case:
    """A function, what it is called with, what it gives in the clear, and how large its tensors get."""

    what: str
    function: Callable[..., Any]
    operands: list[Any]
    expected: Array
    bound: float


def layer(x: Any) -> Any:
    """One product; values in [-1, 1] stay there."""
    return x * x - 0.5


def chain(x: Any, turn: Callable[[Any, int], Any], several: bool) -> Any:
    """Twenty layers: seven of one ciphertext, six of eight (the first of them turns it), seven of one again."""
    for _ in range(ENDS):
        x = layer(x)
    if several:
        wide = [x * turn(x, k) for k in range(1, WIDE + 1)]
        for _ in range(LAYERS - 2 * ENDS - 1):
            wide = [layer(y) for y in wide]
        x = wide[0]
        for y in wide[1:]:
            x = x + y
    else:
        y = x * hg.stack([turn(x, k) for k in range(1, WIDE + 1)])
        for _ in range(LAYERS - 2 * ENDS - 1):
            y = layer(y)
        x = hg.sum(y, 0)
    x = x * (1 / WIDE)
    for _ in range(ENDS - 1):
        x = layer(x)
    return x


def chains(p: ckks.Parameters) -> tuple[ckks.SecretKey, dict[str, Case]]:
    """The chain, twice."""
    secret = ckks.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(rotations=list(range(1, WIDE + 1)), bootstrap=True))
    values = np.random.default_rng(3).uniform(-1, 1, p.slots)
    x = server.bind(secret.encrypt(values, bound=1)) + 0
    expected = chain(values, lambda v, k: np.roll(v, -k), several=True)

    def of(several: bool) -> Callable[[Any], Any]:
        return lambda x: chain(x, ckks.rotate, several)

    words = "20 layers, 8 ciphertexts in the middle"
    return secret, {
        "chain": Case(f"{words}, as tensors", of(True), [x], expected, 1.0 * WIDE),
        "batch": Case(f"{words}, as one tensor", of(False), [x], expected, 1.0 * WIDE),
    }


class Steps:
    """HELR's iterations without a word about levels."""

    def __init__(self, layout: helr.Layout, rows: list[int], iterations: int) -> None:
        self.layout = layout
        self.etas = helr.momentum(iterations)
        self.masks = []
        for k, eta in enumerate(self.etas):
            rate = helr.RATE / rows[k % len(rows)] * helr.SCALE / helr.ROOT
            self.masks.append(layout.firsts([(1 - eta) * rate, rate]))

    def gradient(self, real: Any, pairs: Any, v: Any) -> Any:
        """As `helr_bootstrap.Training.gradient`."""
        t = pairs * v
        for step in self.layout.over_places:
            t = t + ckks.rotate(t, step)
        turned = ckks.conjugate(t)
        t = hg.concatenate([t + turned, (turned - t) * 1j])
        total = ckks.inner_product(real * t, t * t + helr.SIGMOID[1], axis=0)
        at_zero = hg.sum(real, 0) * (helr.ROOT * helr.SIGMOID[0])
        return ckks.sum_slots(total + at_zero, self.layout.rows)

    def __call__(self, batches: list[tuple[Any, Any]], v: Any, w: Any) -> Any:
        """All iterations; the weights."""
        for k, (eta, mask) in enumerate(zip(self.etas, self.masks, strict=True)):
            real, pairs = batches[k % len(batches)]
            change = self.gradient(real, pairs, v).reshape(1) * mask
            for step in self.layout.back:
                change = change + ckks.rotate(change, step)
            v, w = v * (1 - eta) + w * eta + change[0], v + change[1]
        return w


def trainings(p: ckks.Parameters, features: int, size: int, iterations: int) -> tuple[ckks.SecretKey, dict[str, Case]]:
    """HELR on two minibatches of synthetic rows."""
    layout = helr.Layout.of(p.slots, features + 1)
    clear = helr.minibatches(helr.synthetic(2 * size, features, 1), size)
    count = 2 * -(-size // (2 * layout.rows))
    secret = ckks.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(rotations=layout.rotations, conjugate=True, bootstrap=True))

    def encrypted(values: Array) -> Any:
        return server.bind(secret.encrypt(values, bound=1)) + 0

    batches = []
    for z in clear:
        packed = layout.pack(z, count)
        batches.append((encrypted(packed), encrypted(helr.PAIRS * (packed[: count // 2] + 1j * packed[count // 2 :]))))
    v, w = (encrypted(np.zeros(p.slots)) for _ in range(2))
    trained, _ = helr.train_clear(clear, iterations)
    expected = np.zeros((layout.places, layout.rows))
    expected[: len(trained)] = trained[:, None] * helr.SCALE
    words = f"HELR, {iterations} iterations of {features} features and {size} rows ({count} ciphertexts)"
    return secret, {
        "helr": Case(words, Steps(layout, list(map(len, clear)), iterations), [batches, v, w], expected.ravel(), 1.0)
    }


def measure(name: str, case: Case, secret: ckks.SecretKey, times: int) -> dict[str, Any]:
    """One case, in turns."""
    start = time.perf_counter()
    placed = hg.program(case.function, *case.operands, bootstrap=ckks.Bootstraps(case.bound))
    placing_s = time.perf_counter() - start
    with ckks.auto_bootstrap(case.bound):
        late = hg.program(case.function, *case.operands)
    told = placed.bootstraps
    assert told is not None
    took: dict[str, list[float]] = {"placed": [], "automatic": []}
    errors = {}
    for k in range(times + 1):  # the first replays make what is made once
        for what, program in (("placed", placed), ("automatic", late)):
            start = time.perf_counter()
            y = program(*case.operands)
            y.wait()
            if k:
                took[what].append(time.perf_counter() - start)
            else:
                errors[what] = float(np.abs(secret.decrypt(y) - case.expected).max())
    if max(errors.values()) > 2.0**-8:
        raise SystemExit(f"{name}: what is decrypted is not what the clear function gives: {errors}")
    return {
        "placement": name,
        "what": case.what,
        "parameters": ckks_cases.describe(secret.parameters),
        "operations": told.operations,
        "exact": told.exact,
        "record_s": placing_s,
        "bootstraps": told.count,
        "bootstrapped_ciphertexts": sum(b.ciphertexts for b in told.bootstraps),
        "automatic_bootstraps": told.automatic_count,
        "predicted_s": told.seconds,
        "automatic_predicted_s": told.automatic_seconds,
        "least_s": min(took["placed"]),
        "median_s": statistics.median(took["placed"]),
        "automatic_least_s": min(took["automatic"]),
        "automatic_median_s": statistics.median(took["automatic"]),
        "times": times,
        "error": errors["placed"],
        "automatic_error": errors["automatic"],
    }


def line(row: dict[str, Any]) -> str:
    """For a person."""
    return (
        f"{row['what']}: {row['bootstraps']} bootstraps instead of {row['automatic_bootstraps']}; predicted {row['predicted_s']:.3g} s "
        f"instead of {row['automatic_predicted_s']:.3g}, takes {row['least_s']:.3g} instead of {row['automatic_least_s']:.3g} "
        f"(median {row['median_s']:.3g}, {row['automatic_median_s']:.3g}); recorded in {row['record_s']:.2g} s, "
        f"{row['operations']} operations{'' if row['exact'] else ', not all looked at'}"
    )


def main() -> None:
    """Parses the command line and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="n15-b4", help="a parameter set; small: one without security, to try this")
    parser.add_argument("--only", default="", help="cases whose names begin so, separated by commas")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--features", type=int, default=FEATURES, help="of HELR")
    parser.add_argument("--rows", type=int, default=ROWS, help="of a minibatch")
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    p = bootstrap_cases.parameters_of(options.set)
    rows = []
    for make in (lambda: chains(p), lambda: trainings(p, options.features, options.rows, options.iterations)):
        secret, found = make()
        for name, case in found.items():
            if not options.only or name.startswith(tuple(options.only.split(","))):
                rows.append(measure(name, case, secret, options.times))
                print(line(rows[-1]), flush=True)
        del secret, found
        gc.collect()  # keys of one kind at a time
    found_here = runner.machine() | runner.engine() | programs.boards()
    runner.save(options.out, runner.report(rows, found_here, kind="placement", load=runner.load()))


if __name__ == "__main__":
    main()
