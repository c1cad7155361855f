#!/usr/bin/env python3
"""Computes the polynomials whose composition approximates the sign: python/heliograph/ckks/sign_composites.json.

For each gap 2^-alpha and error 2^-beta it searches the composition of odd minimax polynomials of degrees 7, 15 and 31 with the
fewest levels, then with the fewest products. Source: Lee, Lee, No, Kang, Kang, ePrint 2020/834, section 3. Each polynomial but
the last is scaled so that its values, with a margin for interval arithmetic, are in [-1, 1], the next one's domain.
"""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path

import numpy as np
from numpy.polynomial import chebyshev

TABLE = Path(__file__).resolve().parents[1] / "python/heliograph/ckks/sign_composites.json"
ALPHAS = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
BETAS = (10, 15, 20, 25)
DEGREES = {7: 3, 15: 4, 31: 5}  # levels
PRODUCTS = {7: 4, 15: 6, 31: 9}  # relinearizations of Paterson and Stockmeyer's evaluation, about
MARGIN = 1.006  # of a polynomial's range, for the engine's interval arithmetic (1 / cos(pi / 32)) and for noise
SLACK = 1 - 2.0**-6  # of a domain's lower end, for noise
MOST_STAGES = 6


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
    fine = grid(low, 20000)
    return coefficients, float(np.abs(chebyshev.chebval(fine, coefficients) - 1).max())


def composite(degrees: tuple[int, ...], gap: float) -> tuple[list[np.ndarray], float]:
    """Returns the polynomials of a composition and its error."""
    low, stages = gap * SLACK, []
    for place, degree in enumerate(degrees):
        coefficients, error = minimax(degree, low)
        if place == len(degrees) - 1 or error >= 1:
            return [*stages, coefficients], error
        largest = (1 + error) * MARGIN
        stages.append(coefficients / largest)
        low = (1 - error) / largest * SLACK
    raise AssertionError("a composition has at least one polynomial")


def main() -> None:
    """Writes the table."""
    ways = [w for n in range(1, MOST_STAGES + 1) for w in itertools.combinations_with_replacement(DEGREES, n)]
    cost = {w: (sum(DEGREES[d] for d in w), sum(PRODUCTS[d] for d in w)) for w in ways}
    table = []
    for alpha in ALPHAS:
        todo = sorted(BETAS)
        for way in sorted(ways, key=cost.__getitem__):
            if not todo:
                break
            if cost[way][0] < 0.8 * alpha or cost[way][0] > 34:  # levels that are too few
                continue
            stages, error = composite(way, 2.0**-alpha)
            reached = [beta for beta in todo if error <= 2.0**-beta]
            if reached:
                todo = [beta for beta in todo if beta not in reached]
                odd = [[float(c) for c in stage[1::2]] for stage in stages]
                table.append({"gap_bits": alpha, "error_bits": -float(np.log2(error)), "degrees": way, "odd": odd})
                print(alpha, cost[way], way, round(float(np.log2(error)), 2), flush=True)
    TABLE.write_text("[\n" + ",\n".join(json.dumps(row) for row in table) + "\n]\n")


if __name__ == "__main__":
    main()
