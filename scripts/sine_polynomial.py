"""Write src/schemes/ckks/sine.inc: the polynomials with which CKKS bootstrapping removes multiples of the modulus.

    python scripts/sine_polynomial.py    (needs numpy and scipy)

sin(2 pi u), u = t / q, removes the multiples of q. The sine equals cos(2 pi (u - 1/4)). The cosine of a fraction of the
angle is an even polynomial in y = (u - 1/4 - SHIFT) / range; then the angle is doubled several times.

Only u near integers matter (Han and Ki, ePrint 2019/688). The polynomial minimizes the largest error there, including its growth
by doublings. A linear program computes its difference from the Chebyshev series, so that the numbers have similar sizes. The
error's mean over integers, weighted by their frequency, is 0: an equal error in every slot would accumulate over bootstraps.
There are two polynomials that take the same number of levels: the longer one has fewer doublings, for sets with long scales.

Tables of integers are functions of the whole angle: exp(2 pi i u) for all u, by a polynomial in y = u / RANGE and squarings.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial
from pathlib import Path

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import linprog

MOST = 15  # largest |u|, rounded to an integer
ROOM = 2.0**-5  # largest distance from an integer
SHIFT = 0  # centre of the even cosine, a multiple of 2^(doublings - 1)
RANGE = MOST + 0.25 + SHIFT + ROOM
WEIGHT = 32  # weight of the sparse key
#: By name: number of terms T_0(w), T_1(w), ..., w = 2 y^2 - 1, even in y; number of doublings.
SINES = {"Sine": (16, 3), "LongSine": (27, 2)}
TURN_DEGREE, TURN_SQUARES = 31, 3
TURN_EDGE = MOST + 0.5  # largest |u| without a failure


def series(angle: float, terms: int) -> np.ndarray:
    """Return the coefficients of cos(angle y) in T_k(2 y^2 - 1): J_0 and 2 (-1)^k J_2k, by the downward Bessel recurrence."""
    bessel = np.zeros(302)
    bessel[300] = 1e-300
    for k in range(300, 0, -1):
        bessel[k - 1] = 2 * k / angle * bessel[k] - bessel[k + 1]
        bessel *= 1e-100 if abs(bessel[k - 1]) > 1e100 else 1
    bessel /= bessel[0] + 2 * bessel[2:301:2].sum()
    return np.array([bessel[0], *(2 * (-1) ** k * bessel[2 * k] for k in range(1, terms))])


def occurrence(whole: int) -> float:
    """Return the probability that this integer is nearest to a sum of WEIGHT uniforms on [-1/2, 1/2] (Irwin and Hall)."""

    def below(x: Fraction) -> Fraction:
        terms = (Fraction((-1) ** k * comb(WEIGHT, k)) * (x - k) ** WEIGHT for k in range(int(x) + 1))
        return sum(terms, Fraction(0)) / factorial(WEIGHT)

    middle = Fraction(whole) + Fraction(WEIGHT, 2)
    return float(below(middle + Fraction(1, 2)) - below(middle - Fraction(1, 2)))


def fitted(terms: int, doublings: int) -> tuple[np.ndarray, float]:
    """Return the coefficients, and the largest error of sin(2 pi u)."""
    more = terms + 40
    angle = 2 * np.pi * RANGE / 2**doublings
    sign = (-1) ** (SHIFT >> doublings - 1) if SHIFT else 1  # sign of the shifted cosine
    exact = sign * series(angle, more)
    inside = ROOM * np.cos(np.pi * np.arange(9) / 8)
    y = np.concatenate([(whole - 0.25 - SHIFT + inside) / RANGE for whole in range(-MOST, MOST + 1)])
    basis = np.cos(np.outer(np.arccos(2 * y * y - 1), np.arange(more)))
    rest = basis[:, terms:] @ exact[terms:]
    slope, cosine = np.ones_like(y), sign * np.cos(angle * y)
    for _ in range(doublings):
        slope, cosine = slope * 4 * cosine, 2 * cosine * cosine - 1
    growth = np.abs(slope)
    assert np.allclose(cosine, np.sin(2 * np.pi * (RANGE * y + SHIFT + 0.25)))
    unit, worst = np.abs(rest).max(), np.abs(rest * growth).max()
    weighted = basis[:, :terms] * (growth * unit / worst)[:, None]
    wanted, ones = rest * growth / worst, np.ones((len(y), 1))
    often = np.zeros(len(y))
    often[len(inside) // 2 :: len(inside)] = [occurrence(whole) for whole in range(-MOST, MOST + 1)]
    often *= np.sign(slope)
    found = linprog(
        np.r_[np.zeros(terms), 1],
        A_ub=np.block([[weighted, -ones], [-weighted, -ones]]),
        b_ub=np.r_[wanted, -wanted],
        A_eq=np.r_[often @ weighted, 0][None, :],
        b_eq=[often @ wanted],
        bounds=[(None, None)] * terms + [(0, None)],
        method="highs",
    )
    added = found.x[:terms] * unit
    return exact[:terms] + added, error(exact[:terms] + added, doublings)


def error(coefficients: np.ndarray, doublings: int) -> float:
    """Return the largest error of sin(2 pi u) near integers with these double coefficients, in higher precision."""
    u = np.add.outer(np.arange(-MOST, MOST + 1), np.linspace(-1, 1, 2001) * ROOM).astype(np.longdouble)
    found = chebyshev.chebval(2 * ((u - 0.25 - SHIFT) / RANGE) ** 2 - 1, coefficients.astype(np.longdouble))
    for _ in range(doublings):
        found = 2 * found * found - 1
    return float(np.abs(found - np.sin(4 * np.arccos(np.longdouble(0)) * u)).max())


def turn() -> tuple[np.ndarray, float]:
    """Return the coefficients of T_k(y) for exp(2 pi i RANGE y / 2^TURN_SQUARES), those of odd k times i, and the largest error."""
    angle, edge = 2 * np.pi * RANGE / 2**TURN_SQUARES, TURN_EDGE / RANGE
    parts = [chebyshev.chebinterpolate(lambda s, of=of: of(angle * edge * s), TURN_DEGREE) for of in (np.cos, np.sin)]
    # Converts from T_k(y / edge) to T_k(y).
    by_y = [chebyshev.chebinterpolate(lambda y, part=part: chebyshev.chebval(y / edge, part), TURN_DEGREE) for part in parts]
    odd = np.arange(TURN_DEGREE + 1) % 2
    found = np.where(odd, by_y[1], by_y[0])
    y = np.linspace(-edge, edge, 200_001)
    made = chebyshev.chebval(y, found * (1 - odd)) + 1j * chebyshev.chebval(y, found * odd)
    return found, float(np.abs(made - np.exp(1j * angle * y)).max())


def written(coefficients: np.ndarray) -> list[str]:
    """Format the numbers, four per line."""
    return ["    " + " ".join(f"{float(c)!r}," for c in coefficients[i : i + 4]) for i in range(0, len(coefficients), 4)]


def main() -> None:
    turned, turn_error = turn()
    lines = [
        "// Made by scripts/sine_polynomial.py.",
        f"inline constexpr int kSineMost = {MOST}, kSineShift = {SHIFT};",
        f"inline constexpr double kSineRoom = {ROOM!r}, kSineRange = {RANGE!r};",
    ]
    for name, (terms, doublings) in SINES.items():
        coefficients, error = fitted(terms, doublings)
        lines += [
            f"inline constexpr int k{name}Doublings = {doublings};",
            f"inline constexpr double k{name}Error = {error:.3e};",
            f"inline constexpr std::array<double, {terms}> k{name}Coefficients = {{",
        ]
        lines += [*written(coefficients), "};"]
    lines.append(f"inline constexpr int kTurnSquares = {TURN_SQUARES};")
    lines.append(f"inline constexpr double kTurnError = {turn_error:.3e};")
    lines.append(f"inline constexpr std::array<double, {TURN_DEGREE + 1}> kTurnCoefficients = {{")
    lines += written(turned)
    Path(__file__).parent.parent.joinpath("src/schemes/ckks/sine.inc").write_text("\n".join(lines) + "\n};\n")


if __name__ == "__main__":
    main()
