#!/usr/bin/env python3
"""Search TFHE parameter sets: the cheapest with a small failure probability at 128 bits (docs/tfhe-parameters.md).

The noise model is a second implementation of src/lwe/noise.cpp; tests compare the named sets with it. Needs only Python.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple


def tuniform(b: float) -> float:
    """Return log2 of the deviation of TUniform(b), in turns."""
    return b - 64 - math.log2(3) / 2


PUBLISHED = ((805, -17.38), (879, tuniform(46)), (918, tuniform(45)), (1077, tuniform(41)), (2048, tuniform(17)))
MARGIN = 0.25  # additional bits of noise for dimensions below the smallest published dimension


def least_secure(dimension: int) -> float:
    """Return log2 of the least deviation for 128 bits, by straight lines between published sets."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(PUBLISHED)]
    if dimension < PUBLISHED[0][0]:
        return PUBLISHED[0][1] + min(slopes) * (dimension - PUBLISHED[0][0]) + MARGIN
    for (d, s), slope, (end, _) in zip(PUBLISHED, slopes, PUBLISHED[1:], strict=False):
        if dimension <= end:
            return s + slope * (dimension - d)
    return PUBLISHED[-1][1]


class Set(NamedTuple):
    """A parameter set."""

    n: int
    k: int
    degree: int
    lwe: float  # log2 deviations
    glwe: float
    base: int
    length: int
    switch_base: int
    switch_length: int
    group: int


def variances(s: Set) -> tuple[float, float, float]:
    """Return the variances of a bootstrap's result, the key switch and the modulus switch, in turns squared."""
    wide, groups, values, rows = s.k * s.degree, s.n // s.group, 2**s.group, (s.k + 1) * s.length
    digit, switch_digit = (4**s.base + 2) / 12, (4**s.switch_base + 2) / 12
    cut, switch_cut = 4.0 ** (-s.base * s.length) / 12, 4.0 ** (-s.switch_base * s.switch_length) / 12
    word = 2.0**-64 / 12
    summands = values * rows * s.degree * digit
    transforms = (2.2 * math.log2(s.degree) + 2 * values) * 2.0**-106 * summands / 12
    bootstrap = groups * (summands * 4**s.glwe + (cut + transforms) * (1 + wide / 2))
    key_switch = wide * s.switch_length * switch_digit * (4**s.lwe + word) + switch_cut * wide / 2 + word
    return bootstrap, key_switch, (s.n / 4 + 1) / (2 * s.degree) ** 2 / 12


def log2_failure(s: Set, norm: int, half: float) -> float:
    """Return log2 of the probability that a bootstrap's input is further than `half` from its value."""
    bootstrap, key_switch, modulus_switch = variances(s)
    x = half / math.sqrt(2 * (norm * bootstrap + key_switch + modulus_switch))
    if x < 20:
        return math.log2(math.erfc(x))
    return -x * x / math.log(2) - math.log2(x * math.sqrt(math.pi)) + math.log2(1 - 1 / (2 * x * x))


def cost(s: Set) -> float:
    """Return the floating-point operations of a blind rotation, plus the multiply-adds of the key switch."""
    rows, half = (s.k + 1) * s.length, s.degree // 2
    transform = 5 * half * math.log2(half)
    product = 8 * half * rows * (s.k + 1) * 2**s.group
    return s.n / s.group * ((rows + s.k + 1) * transform + product) + switch_macs(s)


def switch_macs(s: Set) -> float:
    """Return the multiply-adds of a key switch."""
    return s.k * s.degree * s.switch_length * (s.n + 1)


def search(
    name: str,
    k: int,
    degree: int,
    glwe: float,
    half: float,
    norm: int,
    limit: float,
    group: int,
    dimensions: dict[int, float],
) -> None:
    """Print the cheapest sets with a failure probability of at most 2^limit."""
    found = []
    for n, lwe in dimensions.items():
        if n % group:
            continue
        for length, bases in ((1, range(8, 27)), (2, range(6, 17))):
            for base in bases:
                for switch_base in range(1, 9):
                    for switch_length in range(1, min(16, 32 // switch_base) + 1):
                        s = Set(n, k, degree, lwe, glwe, base, length, switch_base, switch_length, group)
                        failure = log2_failure(s, norm, half)
                        if failure <= limit and switch_macs(s) < 10e6:
                            found.append((cost(s), s, failure))
    found.sort(key=lambda f: (f[0], f[2]))
    print(f"{name}: norm {norm}, at most 2^{limit}, group {group}")
    seen: set[tuple[int, int]] = set()
    for c, s, failure in found:
        if (s.n, s.length) in seen:
            continue
        seen.add((s.n, s.length))
        same = [f for f in found if f[1][:5] == s[:5] and f[0] == c]
        c, s, failure = min(same, key=lambda f: f[2])
        print(
            f"  n={s.n} lwe 2^{s.lwe:.2f} gadget 2^{s.base}x{s.length} switch 2^{s.switch_base}x{s.switch_length}"
            f" failure 2^{failure:.1f} {c / 1e6:.1f} Mflop, {switch_macs(s) / 1e6:.1f} of them key switch"
        )
        if len(seen) == 4:
            break


def line(first: int, last: int, step: int = 2) -> dict[int, float]:
    """Return dimensions, each with the least noise on the line of 128-bit security, rounded up to a hundredth of a bit."""
    return {n: math.ceil(least_secure(n) * 100) / 100 for n in range(first, last, step)}


def main() -> None:
    """Search every set."""
    digit = 2.0**-6  # half a unit of two message and two carry bits
    for name, group in (("2_2", 2), ("2_2/latency", 4)):
        search(name, 1, 2048, tuniform(17), digit, 17, -128, group, {920: tuniform(45)})
    search("2_2/p64", 1, 2048, tuniform(17), digit, 17, -64, 2, {880: tuniform(46), **line(700, 804)})
    search("1_1", 4, 512, tuniform(17), 2.0**-4, 5, -128, 2, {880: tuniform(46), **line(640, 804)})
    search("1_1/p64", 4, 512, tuniform(17), 2.0**-4, 5, -64, 2, line(560, 804))
    for degree, k, glwe in ((512, 3, 31), (512, 2, 43), (1024, 1, 43), (1024, 2, 17), (256, 6, 31)):
        print(k, degree, tuniform(glwe), least_secure(k * degree))
        for name, limit in (("boolean", -128), ("boolean/p64", -64)):
            search(name, k, degree, tuniform(glwe), 1 / 8, 3, limit, 2, line(560, 804))


if __name__ == "__main__":
    main()
