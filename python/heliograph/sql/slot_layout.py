"""The layout of a table: its ciphertexts and parameter set. The layout is public: both parties know it.

A column in conditions is encrypted as *indicators*. The column's values, counted from 0, are written in digits; for each
digit and each digit value but the last, a vector has 1 in the rows whose digit is at most that value. A comparison with a
constant is then sums of indicators and one product fewer than digits, in a tree; a range of one digit needs no product. More
digits mean fewer indicators and more depth; `choose_layout` finds a small table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heliograph import _core
from heliograph._common.arguments import count_of, described, is_whole, readable_bytes, text_of, word_size_of
from heliograph._common.columns import Column
from heliograph._common.html import HtmlRepr
from heliograph.exact.parameters import Parameters, set_for
from heliograph.sql.costs import forecast_rows
from heliograph.sql.monomials import Monomial, Summand, monomial_text, nullable, radices, range_of, summed

_PLAIN_BITS = (16, 17, 18, 20, 22, 24, 26, 28, 32, 36, 40)
_DIGITS = (1, 2, 4, 8)  # numbers of digits, for depths of 0, 1, 2, 3
_MOST_DEPTH = 10
#: The factor by which a table may be larger for each level of depth that it saves, because its queries are then faster.
_LEVEL_FACTOR = 1.25
_LARGEST_SUMMAND = 62  # limit of bits of a summand
_SUMMED_BLOCKS = 64  # maximum number of blocks of rows whose sum must fit in a slot
_MOST_INDICATORS = 1 << 14
_MOST_ROWS = 1 << 40


@dataclass(frozen=True)
class Part:
    """A vector of the table with a number for each row: one ciphertext for each block of rows."""

    kind: str  #: kinds of vectors: "digit", "valid", "limb"; "value" for encrypted integers
    names: tuple[str, ...]  #: the columns
    digit: int = 0  #: index of the digit (0 is the most significant) or limb (0 is the least significant)
    at_most: int = 0  #: of a digit: the vector is 1 if the digit is at most this number

    def __str__(self) -> str:
        if self.kind == "digit":
            return f"{self.names[0]}: digit {self.digit} at most {self.at_most}"
        if self.kind == "limb":
            return f"{monomial_text(self.names)}: limb {self.digit}"
        return f"{', '.join(self.names)}: not NULL" if self.kind == "valid" else self.names[0]


@dataclass(frozen=True)
class Layout(HtmlRepr):
    """The layout of a table. Created by `hg.sql.layout`.

    >>> layout.parameters.scheme, layout.rows, layout.depth
    ('BGV', 6, 1)
    >>> print(layout.explain().splitlines()[0].strip())
    table  t, 6 rows in 1 block of 4,096
    """

    table: str  #: name in queries
    rows: int  #: number of rows
    columns: Mapping[str, Column]  #: columns of conditions and sums
    digits: Mapping[str, tuple[int, ...]]  #: number of values of each digit, for columns in conditions and groups
    sums: tuple[Monomial, ...]  #: products of columns that the table stores for sums
    depth: int  #: largest multiplicative depth of a query
    parameters: Parameters  #: parameters of the keys

    @property
    def blocks(self) -> int:
        """Ciphertexts of one vector."""
        return -(-self.rows // self.parameters.slots)

    @property
    def half(self) -> int:
        """The largest value of a slot."""
        return (self.parameters.plain_modulus - 1) // 2

    @property
    def limb_bits(self) -> int:
        """Bits of a summand in one ciphertext."""
        return limb_bits(self.half, self.blocks)

    def limbs(self, monomial: Monomial) -> int:
        """Returns the limbs of a product of columns: ciphertexts for each block.

        >>> layout.limbs(("salary",))
        1
        """
        return limbs_of(range_of(monomial, self.columns), self.limb_bits)

    def limb_bound(self, monomial: Monomial, limb: int) -> int:
        """Returns the largest absolute value of a limb.

        >>> layout.limb_bound(("salary",), 0)
        4800
        """
        shift = self.limb_bits * limb
        if limb < self.limbs(monomial) - 1:
            return (1 << self.limb_bits) - 1
        return max(1, *(abs(end >> shift) for end in range_of(monomial, self.columns)))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The table's vectors, in file order."""
        return tuple(self._parts())

    def _parts(self) -> Iterator[Part]:
        for name, several in self.digits.items():
            for digit, values in enumerate(several):
                yield from (Part("digit", (name,), digit, at_most) for at_most in range(values - 1))
        sets = [nullable([name], self.columns) for name in self.digits]
        sets += [nullable(monomial, self.columns) for monomial in self.sums]
        yield from (Part("valid", names) for names in dict.fromkeys(sets) if names)
        for monomial in self.sums:
            yield from (Part("limb", monomial, limb) for limb in range(self.limbs(monomial)))

    @property
    def nbytes(self) -> int:
        """Bytes of the table in a file, without headers."""
        return self.parameters.ciphertext_bytes() // 2 * self.blocks * len(self.parts)

    def explain(self) -> str:
        """Describes the layout in several lines. Forecasts seconds on this device with temporary keys.

        >>> "sums" in layout.explain()
        True
        """
        return "\n".join(f"{label:>10}  {text}" for label, text in [*self.summary_rows(), *forecast_rows(self)])

    def summary_rows(self) -> list[tuple[str, str]]:
        """Returns the lines of `explain` without the forecast.

        >>> layout.summary_rows()[0]
        ('table', 't, 6 rows in 1 block of 4,096')
        """
        blocks = f"{self.blocks:,} block{'s' if self.blocks > 1 else ''}"
        rows = [("table", f"{self.table}, {self.rows:,} rows in {blocks} of {self.parameters.slots:,}")]
        rows += [("column", f"{name}: {self._column_text(name, column)}") for name, column in self.columns.items()]
        rows += [("sums", ", ".join(f"{monomial_text(m)} ({self.limbs(m)})" for m in self.sums) or "only counts")]
        rows += [
            ("vectors", f"{len(self.parts):,}, each {self.blocks:,} ciphertexts"),
            ("size", f"{readable_bytes(self.nbytes)} in a file, {self.nbytes / self.rows:,.0f} bytes a row"),
            ("depth", f"{self.depth} products in a row"),
            ("parameters", repr(self.parameters)),
            ("scheme", f"{self.parameters.scheme}: conditions compare columns with known values, sums are announced"),
        ]
        return rows

    def __repr__(self) -> str:
        blocks, scheme = self.blocks, self.parameters.scheme
        size = f"{self.rows:,} rows in {blocks:,} x {len(self.parts)} ciphertexts"
        return f"<layout of {self.table}: {size}, depth {self.depth}, {scheme}>"

    def _column_text(self, name: str, column: Column) -> str:
        text = repr(column)[8:-1]
        if name not in self.digits:
            return f"{text}; summed only"
        several = self.digits[name]
        count = sum(several) - len(several)
        return f"{text}; {count} indicators of {len(several)} digit{'s' if len(several) > 1 else ''}"

    def data(self) -> dict[str, Any]:
        """Returns the layout for a file's header. The parameters are in the table's ciphertexts.

        >>> sorted(layout.data())[:3]
        ['columns', 'depth', 'digits']
        """
        return {
            **{"table": self.table, "rows": self.rows, "depth": self.depth, "sums": [list(m) for m in self.sums]},
            "columns": [[name, column.data()] for name, column in self.columns.items()],
            "digits": [[name, list(several)] for name, several in self.digits.items()],
        }

    @classmethod
    def of_data(cls, data: Any, parameters: Any) -> Layout:
        """Parses `data` from an untrusted file. Raises DamagedFileError.

        >>> hg.sql.Layout.of_data(layout.data(), layout.parameters) == layout
        True
        """
        wrong = _core.DamagedFileError("this file's header describes an invalid table")
        try:
            if not isinstance(data, dict) or set(data) != {"table", "rows", "depth", "sums", "columns", "digits"}:
                raise wrong
            columns = {name: Column.of_data(column) for name, column in data["columns"]}
            digits = {name: tuple(several) for name, several in data["digits"]}
            sums = tuple(tuple(names) for names in data["sums"])
        except (TypeError, ValueError):
            raise wrong from None
        if not all(monomial and all(isinstance(name, str) and name in columns for name in monomial) for monomial in sums):
            raise wrong
        has_names = len(columns) == len(data["columns"]) and all(isinstance(name, str) for name in columns)
        if not isinstance(data["table"], str) or not has_names or len(digits) != len(data["digits"]):
            raise wrong
        counts = [data["rows"], data["depth"], *itertools.chain.from_iterable(digits.values())]
        if not all(is_whole(count) and 1 <= count <= _MOST_ROWS for count in counts):
            raise wrong
        if not isinstance(parameters, Parameters) or not parameters.has_slots:
            raise wrong
        for name, several in digits.items():
            if name not in columns or math.prod(several) < columns[name].high - columns[name].low + 1:
                raise wrong
        if sum(sum(several) for several in digits.values()) > _MOST_INDICATORS or len(set(sums)) < len(sums):
            raise wrong
        layout = cls(data["table"], int(data["rows"]), columns, digits, sums, int(data["depth"]), parameters)
        if layout.depth > _MOST_DEPTH or layout.limb_bits < 1 or any(layout.limbs(m) > _LARGEST_SUMMAND for m in sums):
            raise wrong
        return layout


def limb_bits(half: int, blocks: int) -> int:
    """Returns the bits of summands such that sums over the blocks are at most `half`."""
    return int(half // min(max(1, blocks), _SUMMED_BLOCKS)).bit_length() - 1


def limbs_of(ends: tuple[int, int], bits: int) -> int:
    """Returns the limbs of integers between two ends; the last limb is signed."""
    return max(1, *(-(-(abs(end) if end >= 0 else -end - 1).bit_length() // bits) for end in ends))


def tree_depth(depths: Iterable[int]) -> int:
    """Returns the depth of a product of factors with given depths, multiplied in order of depth.

    >>> from heliograph.sql.layout import tree_depth
    >>> tree_depth([2, 0, 0]), tree_depth([1, 1]), tree_depth([])
    (3, 2, 0)
    """
    remaining = sorted(depths)
    while len(remaining) > 1:
        remaining = sorted([max(remaining[0], remaining[1]) + 1, *remaining[2:]])
    return remaining[0] if remaining else 0


@dataclass(frozen=True)
class _Needs:
    """The needs of a table for one choice of digits."""

    indicators: int  #: number of indicator vectors
    depth: int
    digits: dict[str, tuple[int, ...]]


def _ways(domains: Mapping[str, int], together: int, flags: int) -> list[_Needs]:
    """Returns the choice of digits with the fewest indicators for each depth. `flags` vectors of NULLs are factors too."""
    options = {}
    for name, domain in domains.items():
        choices: dict[int, tuple[int, ...]] = {}
        for own, count in enumerate(_DIGITS):
            several = radices(domain, count)
            if 1 not in several[:1] or count == 1:
                choices[own] = several
        options[name] = choices
    many = math.prod(len(choices) for choices in options.values()) > 4096
    best: dict[int, _Needs] = {}
    levels: Iterable[Sequence[int]] = itertools.product(*options.values())
    if many:  # the same number of digits for all columns; columns with few values have fewer digits
        levels = ([max(o for o in choices if o <= cap) for choices in options.values()] for cap in range(len(_DIGITS)))
    for level in levels:
        digits = {name: options[name][own] for name, own in zip(domains, level, strict=True)}
        indicators = sum(sum(several) - len(several) for several in digits.values())
        depth = tree_depth([*sorted(level, reverse=True)[:together], *[0] * flags]) + 1
        if depth not in best or indicators < best[depth].indicators:
            best[depth] = _Needs(indicators, depth, digits)
    return list(best.values())


def _terms(depth: int, blocks: int) -> int:
    """Returns the terms of each product for the noise estimate: sums of comparisons, and sums over blocks. The factors were
    found by experiment and have a safety margin.

    """
    return 1 << max(4, -(-(max(1, blocks).bit_length() + 4 * depth) // depth))


def choose_layout(
    table: str,
    rows: int,
    columns: dict[str, Column],
    filters: Sequence[str],
    sums: Sequence[Summand],
    *,
    scheme: str,
    word_size: int,
    depth: int | None,
    conditions: int | None,
) -> Layout:
    """Returns the layout with the smallest file, weighted by depth. Raises ParameterError if no 128-bit set exists."""
    text_of(scheme, "the scheme of a table", ("bgv", "bfv"))
    word_size = word_size_of(word_size)
    if depth is not None and not 1 <= count_of(depth, "depth") <= _MOST_DEPTH:
        raise _core.ParameterError(f"depth must be 1 to {_MOST_DEPTH}, got {described(depth)}")
    together = len(filters) if conditions is None else count_of(conditions, "conditions", 1)
    monomials = summed(sums, columns)
    for monomial in monomials:
        if max(abs(end) for end in range_of(monomial, columns)).bit_length() > _LARGEST_SUMMAND:
            raise _core.ParameterError(
                f"cannot sum {monomial_text(monomial)}: its values may exceed {_LARGEST_SUMMAND} bits; give narrower bounds "
                "in columns="
            )
    domains = {name: columns[name].high - columns[name].low + 1 for name in filters}
    flags = {nullable([n], columns) for n in filters} | {nullable(m, columns) for m in monomials}
    valid = len(flags - {()})
    mixed = [null for p in sums if {nullable(m, columns) for m in p.monomials} != {null := nullable(p.names, columns)}]
    factors = max((1 if null in flags else len(null) for null in mixed), default=0)
    best: tuple[float, _Needs, dict[str, Any]] | None = None
    for way in _ways(domains, together, factors):
        deep = way.depth if depth is None else depth
        if way.depth > deep or way.indicators > _MOST_INDICATORS or deep > _MOST_DEPTH:
            continue
        for bits in _PLAIN_BITS:
            result = _size(
                scheme, word_size, deep, bits, rows, [range_of(m, columns) for m in monomials], way.indicators + valid
            )
            if result is None:
                continue
            cost = result[0] * _LEVEL_FACTOR**deep
            if best is None or cost < best[0]:
                best = cost, way, result[1]
    if best is None:
        widest = max(domains, key=lambda name: domains[name], default="the sums")
        raise _core.ParameterError(
            f"no 128-bit set of {scheme.upper()} serves conditions on {len(filters)} columns ({widest} has "
            f"{domains.get(widest, 0):,} values) at {'any depth' if depth is None else f'depth {depth}'}; "
            "give fewer columns, narrower bounds or conditions=1"
        )
    requirements = dict(best[2])
    # exact=False: limbs are so narrow that totals stay below t/2; the bounds of masked sums cannot prove this.
    parameters = set_for(scheme, word_size=word_size, exact=False, **requirements)
    return Layout(table, rows, columns, best[1].digits, monomials, requirements["depth"], parameters)


def _size(
    scheme: str, word_size: int, depth: int, bits: int, rows: int, ranges: list[tuple[int, int]], vectors: int
) -> tuple[int, dict[str, Any]] | None:
    """Returns the bytes of a table's file with the smallest set of a depth, and the arguments of that set; None if no set
    exists.
    """
    n = 4096
    for _ in range(2):  # blocks depend on N, and the noise of sums slightly on the blocks
        requirements = {"depth": depth, "plain_bits": bits, "slots": n, "terms": _terms(depth, -(-rows // n))}
        try:
            spec = _core.exact.choose(depth, bits, [], n, requirements["terms"], word_size, scheme)
        except _core.ParameterError:
            return None
        if spec.n == n:
            break
        n = int(spec.n)
    blocks, half = -(-rows // n), (math.prod(spec.plain_moduli) - 1) // 2
    width = limb_bits(half, blocks)
    if width < 1:
        return None
    vectors += sum(limbs_of(ends, width) for ends in ranges)
    word = 4 if word_size == 32 else 8
    return vectors * blocks * n * word * len(spec.chain) * len(spec.plain_moduli), requirements
