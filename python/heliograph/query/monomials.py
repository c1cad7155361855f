"""What is summed: polynomials in columns, as the monomials that they are made of.

SUM(price * (1 - discount)) is SUM(price) - SUM(price * discount): a table has the sums of some monomials, a query asks for a
combination of them, and whoever decrypts combines exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from heliograph.query.columns import Column

#: Names of columns in their order, each as often as it is a factor; () is 1, of which the sum is the count.
Monomial = tuple[str, ...]
#: The factor of each monomial, none of them 0.
Polynomial = dict[Monomial, Fraction]


def constant(value: Fraction) -> Polynomial:
    """A number."""
    return {(): value} if value else {}


def added(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    """a + b, or a - b."""
    total = dict(a)
    for monomial, factor in b.items():
        total[monomial] = total.get(monomial, Fraction(0)) + sign * factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    """a * b."""
    total: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            monomial = tuple(sorted(left + right))
            total[monomial] = total.get(monomial, Fraction(0)) + x * y
    return {monomial: factor for monomial, factor in total.items() if factor}


def named(monomial: Monomial) -> str:
    """As SQL has it."""
    return " * ".join(monomial) or "1"


def places_of(monomial: Monomial, columns: Mapping[str, Column]) -> int:
    """After the decimal point, of its values."""
    return sum(columns[name].places for name in monomial)


def range_of(monomial: Monomial, columns: Mapping[str, Column]) -> tuple[int, int]:
    """The least and the most that its integers can be; 0 among them, which is what NULL is stored as."""
    low = high = 1
    for name in monomial:
        ends = [end * bound for end in (low, high) for bound in (columns[name].low, columns[name].high)]
        low, high = min(ends), max(ends)
    return min(low, 0), max(high, 0)


def nullable(names: Iterable[str], columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Those of some columns that may be NULL, each once: where one is, so is their product."""
    return tuple(sorted({name for name in names if columns[name].nullable}))


@dataclass(frozen=True)
class Summand:
    """An announced sum."""

    monomials: tuple[Monomial, ...]
    names: tuple[str, ...]  #: all its columns, also those that cancel: where one is NULL, so is the polynomial


def summed(several: Iterable[Summand], columns: Mapping[str, Column]) -> tuple[Monomial, ...]:
    """The products of columns that a table needs: those of its sums, and a column alone if only its NULLs are needed."""
    sums = list(several)
    found = dict.fromkeys(monomial for one in sums for monomial in one.monomials)
    for one in sums:
        flags = {name for monomial in found if set(monomial) <= set(one.names) for name in nullable(monomial, columns)}
        found.update(dict.fromkeys((name,) for name in nullable(one.names, columns) if name not in flags))
    return tuple(found)


def interval_of(difference: Mapping[Monomial, int], ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The least and the most of a polynomial of integer factors, where its columns lie in ranges of their own."""
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
    """Of a number below `domain` in so many digits, the most significant first: those with the least sum.

    >>> from heliograph.query.monomials import radices
    >>> radices(2526, 4)
    (5, 8, 8, 8)
    """
    if digits == 1:
        return (domain,)
    base = round(domain ** (1 / digits))
    base += base**digits < domain
    found = [max(2, base)] * digits
    for position in range(digits):
        while found[position] > 2 and math.prod(found) // found[position] * (found[position] - 1) >= domain:
            found[position] -= 1
    rest = math.prod(found[1:])
    return (-(-domain // rest), *found[1:])
