"""The evidence for bootstrapping's sparse key: what attacks on it cost, and how often its bound on I is broken.

    python benchmarks/sparse_key_security.py                                   # failure probabilities alone, exact
    PYTHONPATH=lattice-estimator python benchmarks/sparse_key_security.py --jobs 2 --out benchmarks/results/FILE.json

Costs are the lattice-estimator's (github.com/malb/lattice-estimator, which needs Sage: `pip install passagemath-standard`); neither is
needed by the library, its tests or its build. docs/bootstrapping-security.md tells what the figures mean.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import run as runner

try:
    import sage.all  # noqa: F401  (first of all that is Sage's)
    from estimator import LWE, ND, RC, lwe_dual, lwe_guess, lwe_primal, prob, reduction, simulator
    from sage.all import QQ, RR, ZZ
    from scipy.special import betainc, erf, gammaln
except ImportError as error:
    MISSING: str | None = str(error)
else:
    MISSING = None

Row = dict[str, Any]
KNOWN: dict[tuple[Any, ...], Row] = {}  # rows of an earlier run that ended before its end
DEVIATION = 3.19
TABLES = "MATZOV"  # the cost model of ePrint 2024/463: its published script names it
OTHER = "BDGL16"
PLANNED = {15: (78, 88, 90, 93), 16: (88, 92, 96, 100, 110)}  # log2 of N; of q0 p, weight 32
CELLS = ((15, 32), (15, 64), (16, 32), (16, 64))  # log2 of N, weight
WINNERS = 2  # of attacks(), the first
DENSE = (15, 868)  # log2 of N and of the modulus: a line of the tables, to be found again


# Failure: c0 + c1 s = m + q0 I exactly, so I = round((T - m) / q0) where T is a sum of `weight` coefficients of c1, each uniform.
@cache
def sum_of_uniforms(count: int) -> tuple[tuple[Fraction, ...], ...]:
    """The distribution function of a sum of uniforms on [0, 1], exact: a polynomial of the distance into each unit interval.

    Each step is a convolution: F'(x) = F_before(x) - F_before(x - 1).
    """
    pieces: list[tuple[Fraction, ...]] = [(Fraction(0), Fraction(1))]
    for _ in range(count - 1):
        below: list[tuple[Fraction, ...]] = [(Fraction(0),), *pieces]
        here: list[tuple[Fraction, ...]] = [*pieces, (Fraction(1),)]
        start, pieces = Fraction(0), []
        for high, low in zip(here, below, strict=True):
            slope = [
                (high[i] if i < len(high) else Fraction(0)) - (low[i] if i < len(low) else Fraction(0))
                for i in range(max(len(high), len(low)))
            ]
            pieces.append((start, *(s / (i + 1) for i, s in enumerate(slope))))
            start = sum(pieces[-1])
        assert start == 1
    return tuple(pieces)


def below(count: int, x: Fraction) -> Fraction:
    """The probability that a sum of `count` uniforms on [0, 1] is below x."""
    if x <= 0:
        return Fraction(0)
    if x >= count:
        return Fraction(1)
    piece = sum_of_uniforms(count)[int(x)]
    return sum((c * (x - int(x)) ** i for i, c in enumerate(piece)), Fraction(0))


def exceeds(weight: int, least: int, message: Fraction) -> Fraction:
    """The probability that abs I >= least in one coefficient, whose message is that part of q0. Both signs have the same law."""
    edge = Fraction(weight, 2) - least + Fraction(1, 2)
    return below(weight, edge + message) + below(weight, edge - message)


def log2(x: Fraction) -> float | None:
    """Of a fraction of any size; None of zero."""
    return round(math.log2(x.numerator) - math.log2(x.denominator), 2) if x else None


def failures() -> list[Row]:
    """By union over all coefficients of a ciphertext, every message at its bound."""
    bounds = {32: (15, 16, 17), 64: (16, 20, 24, 28, 29, 30)}
    parts = {32: (None, 10, 8, 5, 4), 64: (None,)}
    return [
        {
            "log_n": log_n,
            "weight": weight,
            "abs_i_at_least": least,
            "message_over_q0": f"2^-{rho}" if rho else "0",
            "log2_probability": log2(exceeds(weight, least, Fraction(1, 2**rho) if rho else Fraction(0)) * 2**log_n),
        }
        for log_n, weight in CELLS
        for least in bounds[weight]
        for rho in parts[weight]
    ]


def check_law() -> None:
    """The closed formula of the far tail, and the whole law of I adding up to one."""
    assert exceeds(32, 16, Fraction(0)) == Fraction(2, 2**32 * math.factorial(32))
    law = [below(32, Fraction(2 * k + 33, 2)) - below(32, Fraction(2 * k + 31, 2)) for k in range(-16, 17)]
    assert sum(law) == 1


# The estimator spends its time in loops over the lattice's dimension: the same formulas on arrays.
def gsa(d: int, n: int, q: int, beta: int, xi: float = 1, tau: float | None = 1, dual: bool = False) -> Any:
    """The geometric series of squared Gram-Schmidt norms, as `simulator.GSA`."""
    log_vol = math.log2(q) * (d - n - bool(tau)) + math.log2(xi) * n + (math.log2(tau) if tau else 0)
    log_delta = math.log2(reduction.delta(beta))
    logs = 2 * ((d - 1 - 2 * np.arange(int(d))) * log_delta + log_vol / int(d))
    return 2.0 ** np.clip(logs, -1000, 1000)  # beyond these no probability differs from one and from zero


def babai(r: Any, norm: float) -> float:
    """The probability that rounding finds the closest vector, as `prob.babai`."""
    inside = np.clip(1 - np.asarray(r, float) / (2 * float(norm)) ** 2, 0, 1)
    with np.errstate(divide="ignore"):
        return float(np.exp(np.sum(np.log1p(-betainc((len(r) - 1) / 2, 0.5, inside)))))


def admissible(r: Any, stddev: float, fast: bool = False) -> float:
    """The probability that two halves meet, as `prob.mitm_babai_probability`."""
    x = np.sqrt(0.5 * np.asarray(r, float)) / float(stddev)
    with np.errstate(divide="ignore"):
        return float(np.exp(np.sum(np.log(erf(x) + np.expm1(-x * x) / (x * np.sqrt(np.pi))))))


def drop(n: int, h: int, k: int, fail: int = 0, rotations: bool = False) -> Any:
    """The probability that `fail` of h places are among k of n, as `prob.drop`, without binomials of many thousand digits."""
    n, h, k, fail = int(n), int(h), int(k), int(fail)
    return QQ(math.comb(k, fail) * math.comb(n - k, h - fail)) / QQ(math.comb(n, h)) if fail <= min(h, k) else QQ(0)


def svp_dimension(d: int, log_vol: float, log_delta: float, error: Any, is_homogeneous: bool = False) -> Any:
    """The dimension in which the rest of the error is the shortest vector, as `PrimalHybrid.svp_dimension_gsa`."""
    i = np.arange(d - 1754 if d > 4096 else 0, int(d))
    left, stddev = int(d) - i, float(error.stddev)
    logs = 2 * (left / int(d) * float(log_vol) - i * left * float(log_delta)) + 2 * math.log(stddev)
    balls = (left + 1) / 2 * math.log(math.pi) - gammaln((left + 1) / 2 + 1)
    hit = np.flatnonzero((logs - 2 * balls) / (left + 1) < np.log(stddev**2 * (left + 1)))
    return ZZ(int(left[hit[0]]) + 2) if hit.size else ZZ(2)


def log(x: Any, base: float = math.e) -> Any:
    """A number at once: Sage's of a whole number is an expression, which comparisons may fail to decide."""
    return RR(x).log() / math.log(base)


def quicken() -> None:
    """Puts them in, once they agree with the estimator's own at points that attacks reach."""
    for d, n, log_q, beta in ((4919, 2400, 90, 229), (6170, 3000, 100, 274), (3759, 1800, 90, 132)):
        theirs = simulator.GSA(d, n, 2**log_q, beta, xi=100, tau=False)
        ours = gsa(d, n, 2**log_q, beta, xi=100, tau=False)
        norm = math.sqrt(d) * DEVIATION
        assert np.allclose([float(x) for x in theirs], ours, rtol=1e-9)
        assert math.isclose(prob.babai(theirs, norm), babai(ours, norm), rel_tol=1e-9, abs_tol=1e-300)
        assert math.isclose(
            prob.mitm_babai_probability(theirs, DEVIATION), admissible(ours, DEVIATION), rel_tol=1e-9, abs_tol=1e-300
        )
        for log_vol in (d * 2.0, d * 4.0, d * 8.0):
            shape = (d, log_vol, math.log(reduction.delta(beta)), ND.DiscreteGaussian(DEVIATION))
            assert lwe_primal.PrimalHybrid.svp_dimension_gsa(*shape) == svp_dimension(*shape)
    for places in ((32768, 32, 31000, 5), (65536, 64, 60000, 40), (65536, 32, 20, 0), (65536, 32, 65530, 32)):
        assert prob.drop(*places) == drop(*places)
    prob.drop = lwe_dual.prob_drop = drop
    lwe_primal.PrimalHybrid.svp_dimension_gsa = staticmethod(svp_dimension)
    lwe_primal.log = lwe_guess.log = log
    lwe_guess.log2 = partial(log, base=2)
    lwe_primal.GSA = simulator.GSA = gsa
    lwe_primal.prob_babai = babai
    lwe_primal.mitm_babai_probability = admissible


def problem(log_n: int, weight: int, log_q: int) -> Any:
    """LWE of one key-switch key of one digit: N samples modulo 2^log_q under a key of `weight` signs, half of them minus."""
    n = 2**log_n
    half = weight // 2
    return LWE.Parameters(n=n, q=2**log_q, Xs=ND.SparseTernary(half, half, n), Xe=ND.DiscreteGaussian(DEVIATION), m=n)


def attacks(model: str) -> dict[str, Callable[[Any], Any]]:
    """The estimator's calls by name; the first two are the ones that win."""
    red = {"red_cost_model": getattr(RC, model)}
    shape = red | {"red_shape_model": "gsa"}
    return {
        "dual hybrid, meet in the middle": partial(lwe_dual.dual_hybrid, mitm_optimization=True, **red),
        "primal hybrid, meet in the middle, SVP": partial(LWE.primal_hybrid, mitm=True, babai=False, **shape),
        "primal hybrid, meet in the middle, Babai": partial(LWE.primal_hybrid, mitm=True, babai=True, **shape),
        "dual hybrid, exhaustive": partial(lwe_dual.dual_hybrid, mitm_optimization=False, **red),
        "primal hybrid, exhaustive, SVP": partial(LWE.primal_hybrid, mitm=False, babai=False, **shape),
        "primal hybrid, exhaustive, Babai": partial(LWE.primal_hybrid, mitm=False, babai=True, **shape),
        "primal uSVP": partial(LWE.primal_usvp, **shape),
        "primal BDD": partial(LWE.primal_bdd, **shape),
        "dual hybrid, FFT (MATZOV)": partial(LWE.dual_hybrid, **red),
        "meet in the middle": partial(lwe_guess.mitm, optimization="numerical"),
    }


def bits(x: Any) -> float | None:
    """log2; None where the estimator finds no block size, up to 1754, that does."""
    return round(math.log2(x), 2) if math.isfinite(float(x)) else None


def told(cost: Any) -> Row:
    """What is kept of an estimate."""
    numbers = {k: int(cost[k]) for k in ("beta", "eta", "d", "zeta", "h1", "k") if k in cost and cost[k] is not None}
    logs = {"memory_log2": "mem", "search_space_log2": "|S|", "repetitions_log2": "repetitions", "samples_log2": "m"}
    finite = bits(cost["rop"])
    found = {k: bits(cost[v]) for k, v in logs.items() if v in cost}
    return {"rop_log2": finite} | (numbers | found if finite is not None else {})


def estimate(log_n: int, weight: int, log_q: int, model: str, names: int | None) -> list[Row]:
    """A row an attack: the first `names` of them, or all. A row that is known is not computed again."""
    rows = []
    lwe = problem(log_n, weight, log_q)
    for name, attack in list(attacks(model).items())[:names]:
        where = {"log_n": log_n, "weight": weight, "log_q": log_q, "model": model, "attack": name}
        if tuple(where.values()) not in KNOWN:
            start = time.perf_counter()
            found = told(attack(lwe))
            KNOWN[tuple(where.values())] = where | found | {"seconds": round(time.perf_counter() - start, 1)}
            print(KNOWN[tuple(where.values())], flush=True)
        rows.append(KNOWN[tuple(where.values())])
    return rows


def key(row: Row) -> tuple[Any, ...]:
    """What tells rows apart."""
    return tuple(row[k] for k in ("log_n", "weight", "log_q", "model", "attack"))


def least(rows: list[Row]) -> float:
    """Of the cheapest attack."""
    return min(r["rop_log2"] for r in rows if r["rop_log2"] is not None)


def splits(log_n: int, weight: int, log_q: int) -> Row:
    """The cheapest split of the strongest attack on a grid: the estimator's search can stay in a local minimum."""
    where = {"log_n": log_n, "weight": weight, "log_q": log_q, "model": TABLES, "attack": "dual hybrid on a grid"}
    if tuple(where.values()) in KNOWN:
        return KNOWN[tuple(where.values())]
    lwe = problem(log_n, weight, log_q)
    solve = partial(lwe_guess.mitm, optimization="analytical")
    best = math.inf
    for kept in (0.02, 0.03, 0.035, 0.04, 0.045, 0.05, 0.055, 0.06, 0.065, 0.07, 0.08, 0.1, 0.15, 0.3, 0.6):
        for h1 in range(1, weight + 1):
            cost = lwe_dual.DH.optimize_blocksize(
                solver=solve, params=lwe, zeta=int(lwe.n * (1 - kept)), h1=h1, red_cost_model=getattr(RC, TABLES)
            )
            best = min(best, bits(cost["rop"]) or math.inf)
    return {
        "log_n": log_n,
        "weight": weight,
        "log_q": log_q,
        "model": TABLES,
        "attack": "dual hybrid on a grid",
        "rop_log2": best,
    }


def securities(log_n: int, weight: int, model: str) -> dict[int, float]:
    """Of what is known: the cheaper of the strongest attacks, by log2 of the modulus."""
    found: dict[int, list[float]] = {}
    winners = list(attacks(model))[:WINNERS]
    for (n, h, log_q, by, attack), row in KNOWN.items():
        if (n, h, by) == (log_n, weight, model) and attack in winners and row["rop_log2"]:
            found.setdefault(log_q, []).append(row["rop_log2"])
    return {log_q: min(costs) for log_q, costs in sorted(found.items()) if len(costs) == WINNERS}


def cell(log_n: int, weight: int, model: str, target: int) -> list[Row]:
    """All attacks at the largest whole log2 of the modulus that keeps so many bits, and the strongest at those on the way there."""
    found = securities(log_n, weight, model)

    def security(log_q: int) -> float:
        if log_q not in found:
            found[log_q] = least(estimate(log_n, weight, log_q, model, WINNERS))
        return found[log_q]

    low = max((q for q in found if found[q] >= target), default=60)
    high = min((q for q in found if found[q] < target), default=low * 3 // 2)
    while security(high) >= target:
        low, high = high, high * 3 // 2
    while high - low > 1:  # costs are nearly straight in 1 / log_q
        above, under = security(low) - target, target - security(high)
        middle = round((above + under) / (above / high + under / low))
        for log_q in (middle, middle - 1, middle + 1, (low + high) // 2):
            if low < log_q < high:
                low, high = (log_q, high) if security(log_q) >= target else (low, log_q)
    rows = [row for log_q in found for row in estimate(log_n, weight, log_q, model, WINNERS)]
    if model == TABLES:
        rows += estimate(log_n, weight, low, model, None)[WINNERS:]
        assert least(estimate(log_n, weight, low, model, None)) >= target
    return rows


def largest() -> list[Row]:
    """The table, where the search has ended: one more bit of the modulus costs less than so many bits of security."""
    table = []
    for (log_n, weight), model in itertools.product(CELLS, (TABLES, OTHER)):
        found = securities(log_n, weight, model)
        line: Row = {"log_n": log_n, "weight": weight, "model": model}
        for name, target in (("log_q", 128 + log_n), ("log_q_without_rotations", 128)):
            ends = [q for q in found if found[q] >= target > found.get(q + 1, math.inf)]
            line |= {name: ends[0]} if ends else {}
        table += [line] if len(line) > 3 else []
    return table


def planned(log_n: int, log_q: int) -> list[Row]:
    """A planned set by every attack, and by the strongest in the other model."""
    rows = estimate(log_n, 32, log_q, TABLES, None) + estimate(log_n, 32, log_q, OTHER, WINNERS)
    return [*rows, splits(log_n, 32, log_q)]


def dense() -> list[Row]:
    """A line of the tables, which says whether this estimator and these settings are theirs."""
    log_n, log_q = DENSE
    rows: list[Row] = []
    for more in (0, 1):
        lwe = LWE.Parameters(n=2**log_n, q=2 ** (log_q + more), Xs=ND.Uniform(-1, 1), Xe=ND.DiscreteGaussian(DEVIATION))
        for name in ("primal uSVP", "primal BDD"):
            where = {"log_n": log_n, "weight": "uniform", "log_q": log_q + more, "model": TABLES, "attack": name}
            rows.append(where | told(attacks(TABLES)[name](lwe)))
    return rows


def work(task: tuple[Callable[..., list[Row]], tuple[Any, ...]]) -> list[Row]:
    """One of the above, in a process of its own."""
    function, given = task
    return function(*given)


def estimated(jobs: int) -> Iterator[list[Row]]:
    """All of it, as it comes."""
    quicken()
    searches = [(*c, model, 128 + more * c[0]) for more in (1, 0) for c in CELLS for model in (TABLES, OTHER)]
    searches.sort(key=lambda task: (task[1], task[2] != TABLES))
    tasks = [
        (dense, ()),
        *((planned, (n, q)) for n in PLANNED for q in PLANNED[n]),
        *((cell, search) for search in searches),
    ]
    with get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:  # each begins with what is known by then
        yield from pool.imap_unordered(work, tasks)


def versions() -> Row:
    """Of the estimator and of what it runs on."""
    folder = Path(lwe_primal.__file__).parent
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    names = ("passagemath-modules", "passagemath-symbolics", "passagemath-flint", "scipy", "numpy")
    return {"lattice-estimator": done.stdout.strip()} | {name: importlib.metadata.version(name) for name in names}


def main() -> None:
    """Computes, shows and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    check_law()
    failure = failures()
    for row in failure:
        print(row)
    if MISSING:
        raise SystemExit(f"no estimates, nothing written: {MISSING}")
    if given.out and given.out.exists():
        KNOWN.update({key(row): row for row in json.loads(given.out.read_text(encoding="utf-8"))["results"]})
    what = {
        "secret": "ternary of fixed weight, as many minus as plus ones, which is fewer keys than signs at random",
        "error": f"discrete Gaussian, deviation {DEVIATION}",
        "samples": "N: one key-switch key of one digit",
        "shape": "GSA",
        "none": "an attack without rop_log2 has no block size up to 1754 that makes it work",
        "tables": f"ePrint 2024/463, cost model {TABLES}",
        "rotations": "N shifts of one ring sample are N instances that may share work: at most log2 N bits",
    }
    for more in estimated(given.jobs):
        KNOWN.update({key(row): row for row in more})
        rows = sorted(KNOWN.values(), key=lambda r: (r["log_n"], str(r["weight"]), r["log_q"], r["model"]))
        report = runner.report(
            rows,
            kind="sparse-key-security",
            estimator=versions(),
            assumed=what,
            largest_secure_sparse_log_q=largest(),
            failure=failure,
        )
        runner.save(given.out, report)


if __name__ == "__main__":
    main()
