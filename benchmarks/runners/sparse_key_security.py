"""Computes costs of attacks on bootstrapping's sparse key, and the probability that its bound on I fails.

    python -m benchmarks.runners.sparse_key_security                                   # only failure probabilities, exact
    PYTHONPATH=lattice-estimator python -m benchmarks.runners.sparse_key_security --jobs 2 --out benchmarks/results/FILE.jsonl

Costs are the lattice-estimator's (github.com/malb/lattice-estimator, which needs Sage: `pip install passagemath-standard`).
Heliograph, its tests and its build need neither the estimator nor Sage. docs/bootstrapping-security.md explains the results.
"""

from __future__ import annotations

import importlib.metadata
import itertools
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

from benchmarks.report import results
from benchmarks.runners import common

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
KNOWN: dict[tuple[Any, ...], Row] = {}  # already computed rows, of an interrupted run
DEVIATION = 3.19
TABLES = "MATZOV"  # cost model of ePrint 2024/463, named by its published script
OTHER = "BDGL16"
PLANNED = {15: (78, 88, 90, 93), 16: (88, 92, 96, 100, 110)}  # planned sets: values of log2(q0 p) by log2 N, key weight 32
CELLS = ((15, 32), (15, 64), (16, 32), (16, 64))  # searched sets: log2 N and weight of the key
WINNERS = 2  # number of attacks, the first of attacks(), that the searches use
DENSE = (15, 868)  # log2 N and log2 of the modulus of a row in the published tables, which is reproduced


# For a failure, c0 + c1 s = m + q0 I holds exactly. So I = round((T - m) / q0), with T a sum of `weight` uniform
# coefficients of c1.
@cache
def sum_of_uniforms(count: int) -> tuple[tuple[Fraction, ...], ...]:
    """Returns the exact distribution function of a sum of uniforms on [0, 1]: a polynomial of the distance into each unit interval.

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
    """Returns the probability that a sum of `count` uniforms on [0, 1] is below x."""
    if x <= 0:
        return Fraction(0)
    if x >= count:
        return Fraction(1)
    piece = sum_of_uniforms(count)[int(x)]
    return sum((c * (x - int(x)) ** i for i, c in enumerate(piece)), Fraction(0))


def exceeds(weight: int, least: int, message: Fraction) -> Fraction:
    """Returns the probability that |I| >= least in one coefficient, for a message of magnitude `part` times q0. The
    distribution of I is symmetric.
    """
    edge = Fraction(weight, 2) - least + Fraction(1, 2)
    return below(weight, edge + message) + below(weight, edge - message)


def log2(x: Fraction) -> float | None:
    """Returns log2 of a fraction of any size; None for zero."""
    return round(math.log2(x.numerator) - math.log2(x.denominator), 2) if x else None


def failures() -> list[Row]:
    """Returns failure probabilities by a union bound over all coefficients of a ciphertext, with every message at its bound."""
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
    """Checks the closed formula of the far tail, and that the probabilities of all I add up to one."""
    assert exceeds(32, 16, Fraction(0)) == Fraction(2, 2**32 * math.factorial(32))
    law = [below(32, Fraction(2 * k + 33, 2)) - below(32, Fraction(2 * k + 31, 2)) for k in range(-16, 17)]
    assert sum(law) == 1


# The estimator's slow parts are loops over the lattice dimension. The functions below compute the same formulas on arrays.
def gsa(d: int, n: int, q: int, beta: int, xi: float = 1, tau: float | None = 1, dual: bool = False) -> Any:
    """Returns the geometric series of squared Gram-Schmidt norms, as `simulator.GSA`."""
    log_vol = math.log2(q) * (d - n - bool(tau)) + math.log2(xi) * n + (math.log2(tau) if tau else 0)
    log_delta = math.log2(reduction.delta(beta))
    logs = 2 * ((d - 1 - 2 * np.arange(int(d))) * log_delta + log_vol / int(d))
    return 2.0 ** np.clip(logs, -1000, 1000)  # beyond these limits all probabilities are zero or one


def babai(r: Any, norm: float) -> float:
    """Returns the probability that rounding finds the closest vector, as `prob.babai`."""
    inside = np.clip(1 - np.asarray(r, float) / (2 * float(norm)) ** 2, 0, 1)
    with np.errstate(divide="ignore"):
        return float(np.exp(np.sum(np.log1p(-betainc((len(r) - 1) / 2, 0.5, inside)))))


def admissible(r: Any, stddev: float, fast: bool = False) -> float:
    """Returns the probability that two halves meet, as `prob.mitm_babai_probability`."""
    x = np.sqrt(0.5 * np.asarray(r, float)) / float(stddev)
    with np.errstate(divide="ignore"):
        return float(np.exp(np.sum(np.log(erf(x) + np.expm1(-x * x) / (x * np.sqrt(np.pi))))))


def drop(n: int, h: int, k: int, fail: int = 0, rotations: bool = False) -> Any:
    """Returns the probability that `fail` of h positions are among k of n, as `prob.drop`, without binomials of many
    thousand digits.
    """
    n, h, k, fail = int(n), int(h), int(k), int(fail)
    return QQ(math.comb(k, fail) * math.comb(n - k, h - fail)) / QQ(math.comb(n, h)) if fail <= min(h, k) else QQ(0)


def svp_dimension(d: int, log_vol: float, log_delta: float, error: Any, is_homogeneous: bool = False) -> Any:
    """Returns the dimension in which the rest of the error is the shortest vector, as `PrimalHybrid.svp_dimension_gsa`."""
    i = np.arange(d - 1754 if d > 4096 else 0, int(d))
    left, stddev = int(d) - i, float(error.stddev)
    logs = 2 * (left / int(d) * float(log_vol) - i * left * float(log_delta)) + 2 * math.log(stddev)
    balls = (left + 1) / 2 * math.log(math.pi) - gammaln((left + 1) / 2 + 1)
    hit = np.flatnonzero((logs - 2 * balls) / (left + 1) < np.log(stddev**2 * (left + 1)))
    return ZZ(int(left[hit[0]]) + 2) if hit.size else ZZ(2)


def log(x: Any, base: float = math.e) -> Any:
    """Returns a numeric logarithm: Sage's logarithm of an integer is an expression, which comparisons may fail to decide."""
    return RR(x).log() / math.log(base)


def quicken() -> None:
    """Replaces the estimator's functions by those above, after a check that both agree at points that attacks reach."""
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
    """Returns LWE of one key-switch key of one digit: N samples modulo 2^log_q under a key with `weight` nonzero
    coefficients, half of them -1.
    """
    n = 2**log_n
    half = weight // 2
    return LWE.Parameters(n=n, q=2**log_q, Xs=ND.SparseTernary(half, half, n), Xe=ND.DiscreteGaussian(DEVIATION), m=n)


def attacks(model: str) -> dict[str, Callable[[Any], Any]]:
    """Returns the estimator's calls by name; the first two are the cheapest attacks."""
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
    """Returns log2; None if the estimator finds no sufficient block size up to 1754."""
    return round(math.log2(x), 2) if math.isfinite(float(x)) else None


def row_of(cost: Any) -> Row:
    """Returns the stored fields of an estimate."""
    numbers = {k: int(cost[k]) for k in ("beta", "eta", "d", "zeta", "h1", "k") if k in cost and cost[k] is not None}
    logs = {"memory_log2": "mem", "search_space_log2": "|S|", "repetitions_log2": "repetitions", "samples_log2": "m"}
    finite = bits(cost["rop"])
    found = {k: bits(cost[v]) for k, v in logs.items() if v in cost}
    return {"rop_log2": finite} | (numbers | found if finite is not None else {})


def estimate(log_n: int, weight: int, log_q: int, model: str, names: int | None) -> list[Row]:
    """Returns a row for each attack: for the first `names` attacks, or for all. Rows that are already known are not computed
    again.
    """
    rows = []
    lwe = problem(log_n, weight, log_q)
    for name, attack in list(attacks(model).items())[:names]:
        where = {"log_n": log_n, "weight": weight, "log_q": log_q, "model": model, "attack": name}
        if tuple(where.values()) not in KNOWN:
            start = time.perf_counter()
            found = row_of(attack(lwe))
            KNOWN[tuple(where.values())] = where | found | {"seconds": round(time.perf_counter() - start, 1)}
            print(KNOWN[tuple(where.values())], flush=True)
        rows.append(KNOWN[tuple(where.values())])
    return rows


def key(row: Row) -> tuple[Any, ...]:
    """Returns the fields that identify a row."""
    return tuple(row[k] for k in ("log_n", "weight", "log_q", "model", "attack"))


def least(rows: list[Row]) -> float:
    """Returns the cost of the cheapest attack."""
    return min(r["rop_log2"] for r in rows if r["rop_log2"] is not None)


def splits(log_n: int, weight: int, log_q: int) -> Row:
    """Returns the cheapest split of the strongest attack on a grid: the estimator's search can stop in a local minimum."""
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
    """Returns the cost of the cheapest strong attack by log2 of the modulus, of the known rows."""
    found: dict[int, list[float]] = {}
    winners = list(attacks(model))[:WINNERS]
    for (n, h, log_q, by, attack), row in KNOWN.items():
        if (n, h, by) == (log_n, weight, model) and attack in winners and row["rop_log2"]:
            found.setdefault(log_q, []).append(row["rop_log2"])
    return {log_q: min(costs) for log_q, costs in sorted(found.items()) if len(costs) == WINNERS}


def cell(log_n: int, weight: int, model: str, target: int) -> list[Row]:
    """Returns all attacks at the largest log2 of the modulus with `target` bits, and the strongest attacks at the moduli searched."""
    found = securities(log_n, weight, model)

    def security(log_q: int) -> float:
        if log_q not in found:
            found[log_q] = least(estimate(log_n, weight, log_q, model, WINNERS))
        return found[log_q]

    low = max((q for q in found if found[q] >= target), default=60)
    high = min((q for q in found if found[q] < target), default=low * 3 // 2)
    while security(high) >= target:
        low, high = high, high * 3 // 2
    while high - low > 1:  # interpolates, because log2 of the costs is nearly linear in 1 / log_q
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
    """Returns the table of the largest moduli with the target's security; one more bit of the modulus falls below the
    target.
    """
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
    """Returns the rows of a planned set: every attack in the model of TABLES, and the strongest attacks in the model of OTHER."""
    rows = estimate(log_n, 32, log_q, TABLES, None) + estimate(log_n, 32, log_q, OTHER, WINNERS)
    return [*rows, splits(log_n, 32, log_q)]


def dense() -> list[Row]:
    """Returns a row of the published tables, to check the estimator and its settings."""
    log_n, log_q = DENSE
    rows: list[Row] = []
    for more in (0, 1):
        lwe = LWE.Parameters(n=2**log_n, q=2 ** (log_q + more), Xs=ND.Uniform(-1, 1), Xe=ND.DiscreteGaussian(DEVIATION))
        for name in ("primal uSVP", "primal BDD"):
            where = {"log_n": log_n, "weight": "uniform", "log_q": log_q + more, "model": TABLES, "attack": name}
            rows.append(where | row_of(attacks(TABLES)[name](lwe)))
    return rows


def work(task: tuple[Callable[..., list[Row]], tuple[Any, ...]]) -> list[Row]:
    """Runs one of the functions above; called in a worker process."""
    function, given = task
    return function(*given)


def estimated(jobs: int) -> Iterator[list[Row]]:
    """Yields all rows as they arrive."""
    quicken()
    searches = [(*c, model, 128 + more * c[0]) for more in (1, 0) for c in CELLS for model in (TABLES, OTHER)]
    searches.sort(key=lambda task: (task[1], task[2] != TABLES))
    tasks = [
        (dense, ()),
        *((planned, (n, q)) for n in PLANNED for q in PLANNED[n]),
        *((cell, search) for search in searches),
    ]
    # each worker process knows the rows that were known when it was forked
    with get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(work, tasks)


def versions() -> Row:
    """Returns the versions of the estimator and its dependencies."""
    folder = Path(lwe_primal.__file__).parent
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    names = ("passagemath-modules", "passagemath-symbolics", "passagemath-flint", "scipy", "numpy")
    return {"lattice-estimator": done.stdout.strip()} | {name: importlib.metadata.version(name) for name in names}


def main() -> None:
    """Computes, prints and writes."""
    given = common.parser(__doc__, jobs=1).parse_args()
    check_law()
    failure = failures()
    for row in failure:
        print(row)
    if MISSING:
        raise SystemExit(f"cannot estimate, nothing is written: {MISSING}")
    if given.out and given.out.exists():
        KNOWN.update({key(row): row for row in results.read(given.out)["results"]})
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
        report = common.report(
            rows,
            kind="sparse-key-security",
            estimator=versions(),
            assumed=what,
            largest_secure_sparse_log_q=largest(),
            failure=failure,
        )
        results.save(given.out, report)


if __name__ == "__main__":
    main()
