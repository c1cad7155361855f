"""Compares bootstraps placed by their total cost (`hg.program(f, bootstrap=True)`) with `hg.ckks.auto_bootstrap`.

    python -m benchmarks.runners.placement --set small --out benchmarks/results/mine-placement.jsonl

Two programs of one function on the same operands are timed in turns, one for each method. The result is the least time of the replays, and their
median. Both results are decrypted and compared with the function in the clear. Cases: HELR's iterations as in
benchmarks/runners/helr_bootstrap.py without its explicit levels; twenty layers of one product each, the middle ones on eight ciphertexts, as
eight tensors or as one tensor of eight."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import bootstrap as bootstrap_cases
from benchmarks.cases import ckks as ckks_cases
from benchmarks.report import results
from benchmarks.runners import common, programs
from benchmarks.runners import helr_bootstrap as helr
from heliograph import ckks

Array = np.ndarray[Any, Any]

LAYERS, WIDE = 20, 8  #: number of layers of the chain, and of ciphertexts in its middle
ENDS = 7  #: number of layers before the middle; one layer enters the middle and one leaves it
FEATURES, ROWS, ITERATIONS = 196, 1024, 8  #: HELR's number of features, of rows per minibatch, and of iterations


@dataclass(frozen=True)
class Case:
    """A case: a function, its operands, its result in the clear, and a bound on its tensors."""

    what: str
    function: Callable[..., Any]
    operands: list[Any]
    expected: Array
    bound: float


def layer(x: Any) -> Any:
    """Computes one product; values in [-1, 1] stay in this interval."""
    return x * x - 0.5


def chain(x: Any, turn: Callable[[Any, int], Any], several: bool) -> Any:
    """Computes twenty layers: seven of one ciphertext, six of eight ciphertexts (the first of these layers rotates), seven
    of one again.
    """
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
    """Returns two cases: the chain with ciphertexts as one tensor and as separate tensors."""
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
    """HELR's iterations without explicit levels."""

    def __init__(self, layout: helr.Layout, rows: list[int], iterations: int) -> None:
        self.layout = layout
        self.etas = helr.momentum(iterations)
        self.masks = []
        for k, eta in enumerate(self.etas):
            rate = helr.RATE / rows[k % len(rows)] * helr.SCALE / helr.ROOT
            self.masks.append(layout.firsts([(1 - eta) * rate, rate]))

    def gradient(self, real: Any, pairs: Any, v: Any) -> Any:
        """Computes `helr_bootstrap.Training.gradient`."""
        t = pairs * v
        for step in self.layout.over_places:
            t = t + ckks.rotate(t, step)
        turned = ckks.conjugate(t)
        t = hg.concatenate([t + turned, (turned - t) * 1j])
        total = ckks.inner_product(real * t, t * t + helr.SIGMOID[1], axis=0)
        at_zero = hg.sum(real, 0) * (helr.ROOT * helr.SIGMOID[0])
        return ckks.sum_slots(total + at_zero, self.layout.rows)

    def __call__(self, batches: list[tuple[Any, Any]], v: Any, w: Any) -> Any:
        """Computes all iterations; returns the weights."""
        for k, (eta, mask) in enumerate(zip(self.etas, self.masks, strict=True)):
            real, pairs = batches[k % len(batches)]
            change = self.gradient(real, pairs, v).reshape(1) * mask
            for step in self.layout.back:
                change = change + ckks.rotate(change, step)
            v, w = v * (1 - eta) + w * eta + change[0], v + change[1]
        return w


def trainings(p: ckks.Parameters, features: int, size: int, iterations: int) -> tuple[ckks.SecretKey, dict[str, Case]]:
    """Returns HELR on two minibatches of synthetic rows."""
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
    """Measures one case, in turns."""
    bootstraps = ckks.Bootstraps(case.bound)
    placing_s, _, placed = common.timed(lambda: hg.program(case.function, *case.operands, bootstrap=bootstraps))
    with ckks.auto_bootstrap(case.bound):
        late = hg.program(case.function, *case.operands)
    plan = placed.bootstraps
    assert plan is not None
    took: dict[str, list[float]] = {"placed": [], "automatic": []}
    errors = {}
    for k in range(times + 1):  # the first replays make constants and plans, and are not timed
        for what, program in (("placed", placed), ("automatic", late)):
            seconds, _, y = common.timed(partial(program, *case.operands))
            if k:
                took[what].append(seconds)
            else:
                errors[what] = float(np.abs(secret.decrypt(y) - case.expected).max())
    if max(errors.values()) > 2.0**-8:
        raise SystemExit(f"{name}: the decrypted results differ from the clear function: {errors}")
    return {
        "placement": name,
        "what": case.what,
        "parameters": ckks_cases.describe(secret.parameters),
        "operations": plan.operations,
        "exact": plan.exact,
        "record_s": placing_s,
        "bootstraps": plan.count,
        "bootstrapped_ciphertexts": sum(b.ciphertexts for b in plan.bootstraps),
        "automatic_bootstraps": plan.automatic_count,
        "predicted_s": plan.seconds,
        "automatic_predicted_s": plan.automatic_seconds,
        "least_s": min(took["placed"]),
        "median_s": statistics.median(took["placed"]),
        "automatic_least_s": min(took["automatic"]),
        "automatic_median_s": statistics.median(took["automatic"]),
        "times": times,
        "error": errors["placed"],
        "automatic_error": errors["automatic"],
    }


def line(row: dict[str, Any]) -> str:
    """Formats a row for the terminal."""
    return (
        f"{row['what']}: {row['bootstraps']} bootstraps instead of {row['automatic_bootstraps']}; predicted {row['predicted_s']:.3g} s "
        f"instead of {row['automatic_predicted_s']:.3g}, takes {row['least_s']:.3g} instead of {row['automatic_least_s']:.3g} "
        f"(median {row['median_s']:.3g}, {row['automatic_median_s']:.3g}); recorded in {row['record_s']:.2g} s, "
        f"{row['operations']} operations{'' if row['exact'] else ', search not exhaustive'}"
    )


def main() -> None:
    """Parses the command line and writes the results."""
    options = common.parser(
        __doc__,
        set=("n15-b4", "parameter set; small: a set without security, for tests"),
        only="",
        times=5,
        features=(FEATURES, "features of HELR"),
        rows=(ROWS, "rows per minibatch"),
        iterations=ITERATIONS,
    ).parse_args()
    p = bootstrap_cases.parameters_of(options.set)
    rows = []
    for make in (lambda: chains(p), lambda: trainings(p, options.features, options.rows, options.iterations)):
        secret, found = make()
        for name, case in found.items():
            if not options.only or name.startswith(tuple(options.only.split(","))):
                rows.append(measure(name, case, secret, options.times))
                print(line(rows[-1]), flush=True)
        del secret, found
        gc.collect()  # cases with the same keys run together, to save memory
    found_here = common.machine() | common.engine() | programs.boards()
    results.save(options.out, common.report(rows, found_here, kind="placement", load=common.load()))


if __name__ == "__main__":
    main()
