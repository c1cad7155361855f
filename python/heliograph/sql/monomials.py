"""Polynomials whose variables are columns of a table, as sums of monomials.

SUM(price * (1 - discount)) is SUM(price) - SUM(price * discount). A table stores the monomials' values, a query asks for
some of their sums, and decryption combines these exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from heliograph._common.columns import Column

#: A monomial: sorted names of columns, each repeated as often as it is a factor. The empty monomial () is 1, whose sum is
#: the count.
Monomial = tuple[str, ...]
#: The factor of each monomial; no factor is 0.
Polynomial = dict[Monomial, Fraction]


def constant(value: Fraction) -> Polynomial:
    """Returns a constant polynomial."""
    return {(): value} if value else {}


def added(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    """Returns a + b, or a - b with sign -1."""
    total = dict(a)
    for monomial, factor in b.items():
        total[monomial] = total.get(monomial, Fraction(0)) + sign * factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    """Returns a * b."""
    total: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            monomial = tuple(sorted(left + right))
            total[monomial] = total.get(monomial, Fraction(0)) + x * y
    return {monomial: factor for monomial, factor in total.items() if factor}


def monomial_text(monomial: Monomial) -> str:
    """Formats a monomial as SQL."""
    return " * ".join(monomial) or "1"


def places_of(monomial: Monomial, columns: Mapping[str, Column]) -> int:
    """Returns the decimal places of a monomial's values."""
    return sum(columns[name].places for name in monomial)


def range_of(monomial: Monomial, columns: Mapping[str, Column]) -> tuple[int, int]:
    """Returns the least and largest integer of a monomial, extended to 0, the encoding of NULL."""
    low = high = 1
    for name in monomial:
        ends = [end * bound for end in (low, high) for bound in (columns[name].low, columns[name].high)]
        low, high = min(ends), max(ends)
    return min(low, 0), max(high, 0)


def nullable(names: Iterable[str], columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Returns the columns that may be NULL, sorted. A product is NULL if one of its factors is NULL."""
    return tuple(sorted({name for name in names if columns[name].nullable}))


@dataclass(frozen=True)
class Summand:
    """An announced sum."""

    monomials: tuple[Monomial, ...]
    names: tuple[str, ...]  #: all columns, including those that cancel: the polynomial is NULL if one of them is


def summed(several: Iterable[Summand], columns: Mapping[str, Column]) -> tuple[Monomial, ...]:
    """Returns the products of columns that a table needs: those of its sums, and single columns of which only the NULLs are
    needed.
    """
    sums = list(several)
    monomials = dict.fromkeys(monomial for one in sums for monomial in one.monomials)
    for one in sums:
        flags = {name for monomial in monomials if set(monomial) <= set(one.names) for name in nullable(monomial, columns)}
        monomials.update(dict.fromkeys((name,) for name in nullable(one.names, columns) if name not in flags))
    return tuple(monomials)


def interval_of(difference: Mapping[Monomial, int], ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Returns the least and largest value of a polynomial with integer factors, for ranges of its columns."""
    low = high = 0
    for monomial, factor in difference.items():
        least = most = 1
        for name in monomial:
            ends = [end * bound for end in (least, most) for bound in ranges[name]]
            least, most = min(ends), max(ends)
        ends = [factor * least, factor * most]
        low, high = low + min(ends), high + max(ends)
    return low, high


def radices(domain: int, digits: int) -> tuple[int, ...]:
    """Returns the numbers of values of each of `digits` digits, most significant first, for a number below `domain`, with
    the least sum.

    >>> from heliograph.sql.monomials import radices
    >>> radices(2526, 4)
    (5, 8, 8, 8)
    """
    if digits == 1:
        return (domain,)
    base = round(domain ** (1 / digits))
    base += base**digits < domain
    bases = [max(2, base)] * digits
    for position in range(digits):
        while bases[position] > 2 and math.prod(bases) // bases[position] * (bases[position] - 1) >= domain:
            bases[position] -= 1
    rest = math.prod(bases[1:])
    return (-(-domain // rest), *bases[1:])
