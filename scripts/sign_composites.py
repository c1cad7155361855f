#!/usr/bin/env python3
"""Computes the polynomials whose composition approximates the sign: src/circuits/ckks/sign_composites.inc.

For each gap 2^-alpha and error 2^-beta the program searches compositions of odd minimax polynomials of degrees 7, 15 and
31. The result has the fewest levels, and among those the fewest products. If levels run out, bootstraps are placed between
polynomials, so the order of the polynomials decides their cost. Therefore the table also has, for each number of levels
between two bootstraps, the composition with the cheapest bootstraps. Source: Lee, Lee, No, Kang, Kang, ePrint 2020/834,
section 3. Each polynomial but the last is scaled so that its values, with a margin for interval arithmetic, are in [-1, 1],
the domain of the next polynomial."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

TABLE = Path(__file__).resolve().parents[1] / "src/circuits/ckks/sign_composites.inc"
ALPHAS = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
BETAS = (10, 15, 20, 25)
DEGREES = {7: 3, 15: 4, 31: 5}  # levels
PRODUCTS = {7: 4, 15: 6, 31: 9}  # approximate number of relinearizations in Paterson and Stockmeyer's evaluation
MARGIN = 1.006  # margin of a polynomial's range, for the engine's interval arithmetic (1 / cos(pi / 32)) and noise
SLACK = 1 - 2.0**-6  # factor of a domain's lower end, as a margin for noise
MOST_STAGES = 6
GROWTH_MARGIN = 1.1  # margin of a derivative that is measured on points
GROWTH_POINTS = 6001
BUDGETS = range(5, 19)  # levels between two bootstraps
MORE_LEVELS = 2  # additional levels that an order with cheaper bootstraps may take
# The error of a bootstrap is about 2^-15; with a second iteration the error is far smaller.
BOOTSTRAP_BITS = 14.7
TWICE = 2.1  # time of a bootstrap with two iterations, in bootstraps


def grid(low: float, count: int) -> np.ndarray:
    """Returns points of [low, 1], dense at both ends."""
    angles = (1 - np.cos(np.linspace(0, np.pi, count))) / 2
    return np.unique(np.concatenate([low + (1 - low) * angles, low ** np.linspace(1, 0, count)]).clip(low, 1))


@cache
def minimax(degree: int, low: float) -> tuple[np.ndarray, float]:
    """Returns the Chebyshev coefficients of the odd polynomial closest to 1 on [low, 1], and its largest distance from 1."""
    odd = np.arange(1, degree + 1, 2)
    x = grid(low, 3000)
    basis = np.cos(np.outer(np.arccos(x), odd))
    scale = (1 - np.cos(np.linspace(0, np.pi, len(odd) + 1))) / 2
    extrema = low ** (1 - scale) if low < 0.1 else low + (1 - low) * scale
    at = np.unique(np.searchsorted(x, extrema).clip(0, len(x) - 1))
    while len(at) < len(odd) + 1:
        at = np.unique(np.append(at, np.setdiff1d(np.arange(len(x)), at)[: len(odd) + 1 - len(at)]))
    best: tuple[float, np.ndarray] | None = None
    for _ in range(60):
        signs = (-1.0) ** np.arange(len(at))
        solution = np.linalg.solve(np.column_stack([basis[at], signs]), np.ones(len(at)))
        error = basis @ solution[:-1] - 1
        largest = np.abs(error).max()
        if best is None or largest < best[0]:
            best = (largest, solution[:-1])
        if largest <= abs(solution[-1]) * (1 + 1e-6):
            break
        # One extremum for each run of equal signs; drop from the ends until there are enough.
        bounds = np.flatnonzero(np.diff(np.sign(error))) + 1
        runs = np.split(np.arange(len(x)), bounds)
        peaks = [run[np.argmax(np.abs(error[run]))] for run in runs]
        while len(peaks) > len(odd) + 1:
            peaks = peaks[1:] if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else peaks[:-1]
        if len(peaks) < len(odd) + 1:
            break
        at = np.array(peaks)
    assert best is not None
    coefficients = np.zeros(degree + 1)
    coefficients[odd] = best[1]
    roots = chebyshev.chebroots(chebyshev.chebder(coefficients))  # the extrema are too narrow for a grid
    turns = roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > low) & (roots.real < 1)]
    return coefficients, float(np.abs(chebyshev.chebval(np.concatenate([[low, 1], turns]), coefficients) - 1).max())


def composite(degrees: tuple[int, ...], gap: float) -> tuple[list[np.ndarray], float]:
    """Returns the polynomials of a composition and its error."""
    low, stages = gap * SLACK, []
    for place, degree in enumerate(degrees):
        try:
            coefficients, error = minimax(degree, low)
        except np.linalg.LinAlgError:  # the error is below the precision of floats
            return stages, np.inf
        if place < len(degrees) - 1 and error < 2.0 ** -max(BETAS) / 8:
            return [*stages, coefficients], np.inf  # a shorter composition is precise enough
        if place == len(degrees) - 1 or error >= 1:
            return [*stages, coefficients], error
        largest = (1 + error) * MARGIN
        stages.append(coefficients / largest)
        low = (1 - error) / largest * SLACK
    raise AssertionError("a composition has at least one polynomial")


def growth(stages: list[np.ndarray], gap: float) -> list[tuple[float, float]]:
    """Returns for each polynomial the lower end of its domain, and the largest derivative of the composition from this
    polynomial to the last."""
    values = [(gap * SLACK) ** np.linspace(1, 0, 4001)]
    for stage in stages:
        values.append(chebyshev.chebval(values[-1], stage))
    slope, found = np.ones_like(values[0]), []
    for value, stage in zip(values[-2::-1], stages[::-1], strict=True):
        slope = slope * chebyshev.chebval(value, chebyshev.chebder(stage))
        found.append((float(value.min()), float(np.abs(slope).max()) * 1.1))
    return found[::-1]


def bootstraps(degrees: tuple[int, ...], growths: list[tuple[float, float]], budget: int, error: float) -> float:
    """Returns the time of a composition's bootstraps, in units of one bootstrap. Each bootstrap is placed as late as levels
    allow."""
    left, time, precise = budget, 0.0, 2.0**-BOOTSTRAP_BITS
    for degree, (low, slope) in zip(degrees, growths, strict=True):
        if DEGREES[degree] > budget:
            return np.inf
        if left < DEGREES[degree]:
            time += 1 if precise < low * 2.0**-6 and precise * slope < error / 4 else TWICE
            left = budget
        left -= DEGREES[degree]
    return time


def main() -> None:
    """Writes the table."""
    ways = [w for n in range(1, MOST_STAGES + 1) for w in itertools.product(DEGREES, repeat=n)]
    cost = {w: (sum(DEGREES[d] for d in w), sum(PRODUCTS[d] for d in w), list(w) != sorted(w)) for w in ways}
    ways.sort(key=cost.__getitem__)
    table = []
    for alpha in ALPHAS:
        gap, fewest, chosen = 2.0**-alpha, {}, {}
        for way in ways:
            levels = cost[way][0]
            if (
                levels < 0.8 * alpha
                or levels > 34
                or (len(fewest) == len(BETAS) and levels > max(fewest.values()) + MORE_LEVELS)
            ):
                continue
            stages, error = composite(way, gap)
            growths = growth(stages, gap) if error < 2.0 ** -min(BETAS) else []
            for beta in BETAS:
                if error > 2.0**-beta or levels > fewest.get(beta, levels) + MORE_LEVELS:
                    continue
                if beta not in fewest:
                    chosen[beta, None] = (), way
                fewest.setdefault(beta, levels)
                for budget in BUDGETS:
                    key = bootstraps(way, growths, budget, 2.0**-beta), cost[way]
                    if (beta, budget) not in chosen or key < chosen[beta, budget][0]:
                        chosen[beta, budget] = key, way
        found = {way for key, way in chosen.values() if not key or 0 < key[0] < np.inf}
        for way in sorted(found, key=cost.__getitem__):
            stages, error = composite(way, gap)
            odd = [[float(c) for c in stage[1::2]] for stage in stages]
            row = {"gap_bits": alpha, "error_bits": -float(np.log2(error)), "degrees": way}
            table.append({**row, "abs_error_bits": -float(np.log2(error_of_abs(stages, gap))), "odd": odd})
            print(alpha, cost[way], way, round(float(np.log2(error)), 2), flush=True)
    TABLE.write_text(written(table))


def written(table: list[dict[str, Any]]) -> str:
    """Returns the table as C++."""
    coefficients, rows = [], []
    for row in table:
        stages = [np.zeros(2 * len(odd)) for odd in row["odd"]]
        for stage, odd in zip(stages, row["odd"], strict=True):
            stage[1::2] = odd
        lows, growths = of_gap(stages, 2.0 ** -row["gap_bits"])
        lists = [row["degrees"], lows, growths, of_magnitudes(stages, 2.0 ** -row["gap_bits"])]
        bits = f"{row['gap_bits']}, {row['error_bits']!r}, {row['abs_error_bits']!r}"
        numbers = ", ".join("{" + ", ".join(repr(v) for v in each) + "}" for each in lists)
        rows.append(f"    {{{bits}, {len(stages)}, {len(coefficients)}, {numbers}}},")
        coefficients += [c for odd in row["odd"] for c in odd]
    lines = ["// Made by scripts/sign_composites.py."]
    lines.append(f"inline constexpr std::array<double, {len(coefficients)}> kSignCoefficients = {{")
    lines += ["    " + " ".join(f"{c!r}," for c in coefficients[i : i + 4]) for i in range(0, len(coefficients), 4)]
    lines += ["};", f"inline constexpr std::array<CompositionRow, {len(rows)}> kSignRows = {{{{", *rows, "}};"]
    return "\n".join(lines) + "\n"


def least(stage: np.ndarray, low: float) -> float:
    """Returns the smallest value of a polynomial on [low, 1]. Uses the derivative's roots, because the minima are too
    narrow for a grid."""
    roots = chebyshev.chebroots(chebyshev.chebder(stage))
    turns = roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > low) & (roots.real < 1)]
    return float(chebyshev.chebval(np.concatenate([[low, 1], turns]), stage).min())


def slope(stages: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Returns the derivative of a composition."""
    value, found = x, np.ones_like(x)
    for stage in stages:
        found = found * chebyshev.chebval(value, chebyshev.chebder(stage))
        value = chebyshev.chebval(value, stage)
    return found


def of_gap(stages: list[np.ndarray], gap: float) -> tuple[list[float], list[float]]:
    """Returns for each polynomial the lower end of its domain, and the largest derivative of the composition from this
    polynomial to the last."""
    low, lows, growths = gap * SLACK, [], []
    for place, stage in enumerate(stages):
        x = low ** np.linspace(1, 0, GROWTH_POINTS)
        lows.append(low)
        growths.append(float(np.abs(slope(stages[place:], x)).max()) * GROWTH_MARGIN)
        low = least(stage, low) * SLACK
    return lows, growths


def of_magnitudes(stages: list[np.ndarray], gap: float) -> list[float]:
    """Returns for each polynomial the largest value on [-1, 1] of |x| times the derivative of the composition from this
    polynomial to the last."""
    x = np.concatenate([np.linspace(0, gap, 4001), gap ** np.linspace(1, 0, GROWTH_POINTS)])
    growths, value = [], x
    for place, stage in enumerate(stages):
        growths.append(float((x * np.abs(slope(stages[place:], value))).max()) * GROWTH_MARGIN)
        value = chebyshev.chebval(value, stage)
    return growths


def error_of_abs(stages: list[np.ndarray], gap: float) -> float:
    """Returns the largest difference between |x| and x times the composition, on [-1, 1], rounded up."""
    x = np.concatenate([np.linspace(0, gap, 4001), gap ** np.linspace(1, 0, 20001)])
    value = x
    for stage in stages:
        value = chebyshev.chebval(value, stage)
    return float(np.abs(x * value - x).max()) * 1.02


if __name__ == "__main__":
    main()
