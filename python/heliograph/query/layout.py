"""How a table is encrypted: which ciphertexts it has, of which parameter set. Public: both parties know it.

A column that conditions ask for is encrypted as *indicators*: its values, counted from 0, are written in digits, and for each digit
and each of its values but the last there is a vector that has 1 where the row's digit is at most that. A comparison with a number
that is known then takes sums of indicators and a product less than there are digits, in a tree; a range of one digit takes
no product at all. More digits are fewer indicators and more depth; `choose_layout` takes what makes a small table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heliograph import _core
from heliograph._arrays import count_of, described, is_whole, readable_bytes, text_of
from heliograph._html import Shown
from heliograph.bfv import parameters as bfv_parameters
from heliograph.bgv import parameters as bgv_parameters
from heliograph.exact import Parameters
from heliograph.query.columns import Column
from heliograph.query.costs import foretold
from heliograph.query.monomials import Monomial, Summand, named, nullable, radices, range_of, summed

_PLAIN_BITS = (16, 17, 18, 20, 22, 24, 26, 28, 32, 36, 40)
_DIGITS = (1, 2, 4, 8)  # those of a depth of 0, 1, 2, 3
_MOST_DEPTH = 10
_A_PRODUCT = 1.25  # so many times as many bytes are taken for a product less in a row, which answers sooner
_LARGEST_SUMMAND = 62  # bits
_TOGETHER = 64  # blocks of rows whose sums fit into a slot, at least, where there are so many
_MOST_INDICATORS = 1 << 14
_MOST_ROWS = 1 << 40


@dataclass(frozen=True)
class Part:
    """A vector of the table, a number for each row: one ciphertext for each block of rows."""

    kind: str  #: "digit", "valid", "limb"; of encrypted integers "value"
    names: tuple[str, ...]  #: of columns
    digit: int = 0  #: which digit (0 is the most significant), or which limb (0 is the least significant)
    at_most: int = 0  #: of a digit: 1 where it is at most that

    def __str__(self) -> str:
        if self.kind == "digit":
            return f"{self.names[0]}: digit {self.digit} at most {self.at_most}"
        if self.kind == "limb":
            return f"{named(self.names)}: limb {self.digit}"
        return f"{', '.join(self.names)}: not NULL" if self.kind == "valid" else self.names[0]


@dataclass(frozen=True)
class Layout(Shown):
    """How a table is encrypted. Made by `hg.query.layout`.

    >>> layout.parameters.scheme, layout.rows, layout.depth
    ('BGV', 6, 1)
    >>> print(layout.explain().splitlines()[0].strip())
    table  t, 6 rows in 1 block of 4,096
    """

    table: str  #: its name in queries
    rows: int  #: how many
    columns: Mapping[str, Column]  #: those that are asked for
    digits: Mapping[str, tuple[int, ...]]  #: of columns in conditions and groups: how many values each digit has
    sums: tuple[Monomial, ...]  #: products of columns whose sums are kept
    depth: int  #: products in a row that a query may take
    parameters: Parameters  #: of the keys

    @property
    def blocks(self) -> int:
        """Ciphertexts that the rows of one vector take."""
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
        """Ciphertexts of a block that a product of columns takes.

        >>> layout.limbs(("salary",))
        1
        """
        return limbs_of(range_of(monomial, self.columns), self.limb_bits)

    def limb_bound(self, monomial: Monomial, limb: int) -> int:
        """The largest absolute value of a limb.

        >>> layout.limb_bound(("salary",), 0)
        4800
        """
        shift = self.limb_bits * limb
        if limb < self.limbs(monomial) - 1:
            return (1 << self.limb_bits) - 1
        return max(1, *(abs(end >> shift) for end in range_of(monomial, self.columns)))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The table's vectors, in their order in files."""
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
        """Bytes of the table in a file, but for headers."""
        return self.parameters.ciphertext_bytes() // 2 * self.blocks * len(self.parts)

    def explain(self) -> str:
        """Several lines for a person. Seconds are forecast on this device, by keys that are made for that and thrown away.

        >>> "sums" in layout.explain()
        True
        """
        return "\n".join(f"{label:>10}  {text}" for label, text in [*self.told(), *foretold(self)])

    def told(self) -> list[tuple[str, str]]:
        """What is known without a forecast, line by line.

        >>> layout.told()[0]
        ('table', 't, 6 rows in 1 block of 4,096')
        """
        blocks = f"{self.blocks:,} block{'s' if self.blocks > 1 else ''}"
        rows = [("table", f"{self.table}, {self.rows:,} rows in {blocks} of {self.parameters.slots:,}")]
        rows += [("column", f"{name}: {self._told(name, column)}") for name, column in self.columns.items()]
        rows += [("sums", ", ".join(f"{named(m)} ({self.limbs(m)})" for m in self.sums) or "counts alone")]
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
        return f"<layout of {self.table}: {self.rows:,} rows in {blocks:,} x {len(self.parts)} ciphertexts, depth {self.depth}, {scheme}>"

    def _told(self, name: str, column: Column) -> str:
        text = repr(column)[8:-1]
        if name not in self.digits:
            return f"{text}; summed only"
        several = self.digits[name]
        count = sum(several) - len(several)
        return f"{text}; {count} indicators of {len(several)} digit{'s' if len(several) > 1 else ''}"

    def data(self) -> dict[str, Any]:
        """For a file; the parameters are in its ciphertexts.

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
        """Reads `data`, of anybody. Raises DamagedFileError.

        >>> hg.query.Layout.of_data(layout.data(), layout.parameters) == layout
        True
        """
        wrong = _core.DamagedFileError("what this file says of its table cannot be")
        try:
            if not isinstance(data, dict) or set(data) != {"table", "rows", "depth", "sums", "columns", "digits"}:
                raise wrong
            columns = {name: Column.of_data(found) for name, found in data["columns"]}
            digits = {name: tuple(several) for name, several in data["digits"]}
            sums = tuple(tuple(names) for names in data["sums"])
        except (TypeError, ValueError):
            raise wrong from None
        if not all(monomial and all(isinstance(name, str) and name in columns for name in monomial) for monomial in sums):
            raise wrong
        named_columns = len(columns) == len(data["columns"]) and all(isinstance(name, str) for name in columns)
        if not isinstance(data["table"], str) or not named_columns or len(digits) != len(data["digits"]):
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
        made = cls(data["table"], int(data["rows"]), columns, digits, sums, int(data["depth"]), parameters)
        if made.depth > _MOST_DEPTH or made.limb_bits < 1 or any(made.limbs(m) > _LARGEST_SUMMAND for m in sums):
            raise wrong
        return made


def limb_bits(half: int, blocks: int) -> int:
    """Of summands below 2^bits, some blocks' sums are at most `half`."""
    return int(half // min(max(1, blocks), _TOGETHER)).bit_length() - 1


def limbs_of(ends: tuple[int, int], bits: int) -> int:
    """Of integers between two ends, the last limb with a sign."""
    return max(1, *(-(-(abs(end) if end >= 0 else -end - 1).bit_length() // bits) for end in ends))


def tree_depth(depths: Iterable[int]) -> int:
    """Of a product of factors with depths of their own: the two least deep first.

    >>> from heliograph.query.layout import tree_depth
    >>> tree_depth([2, 0, 0]), tree_depth([1, 1]), tree_depth([])
    (3, 2, 0)
    """
    left = sorted(depths)
    while len(left) > 1:
        left = sorted([max(left[0], left[1]) + 1, *left[2:]])
    return left[0] if left else 0


@dataclass(frozen=True)
class _Needs:
    """What a table of some digits takes."""

    indicators: int  #: vectors of conditions
    depth: int
    digits: dict[str, tuple[int, ...]]


def _ways(domains: Mapping[str, int], together: int, flags: int) -> list[_Needs]:
    """Ways to write the columns in digits: for each depth the one of the fewest indicators. So many flags of NULLs are factors too."""
    options = {}
    for name, domain in domains.items():
        found: dict[int, tuple[int, ...]] = {}
        for own, count in enumerate(_DIGITS):
            several = radices(domain, count)
            if 1 not in several[:1] or count == 1:
                found[own] = several
        options[name] = found
    many = math.prod(len(found) for found in options.values()) > 4096
    best: dict[int, _Needs] = {}
    levels: Iterable[Sequence[int]] = itertools.product(*options.values())
    if many:  # all columns of as many digits, as far as they have them
        levels = ([max(o for o in found if o <= cap) for found in options.values()] for cap in range(len(_DIGITS)))
    for level in levels:
        digits = {name: options[name][own] for name, own in zip(domains, level, strict=True)}
        indicators = sum(sum(several) - len(several) for several in digits.values())
        depth = tree_depth([*sorted(level, reverse=True)[:together], *[0] * flags]) + 1
        if depth not in best or indicators < best[depth].indicators:
            best[depth] = _Needs(indicators, depth, digits)
    return list(best.values())


def _terms(depth: int, blocks: int) -> int:
    """Of each product, for the noise: sums of comparisons on the way, blocks at its end. Found by the noise left, with room."""
    return 1 << max(4, -(-(max(1, blocks).bit_length() + 4 * depth) // depth))


def choose_layout(
    table: str,
    rows: int,
    columns: dict[str, Column],
    filters: Sequence[str],
    sums: Sequence[Summand],
    *,
    scheme: str,
    edition: str,
    depth: int | None,
    conditions: int | None,
) -> Layout:
    """The layout with the smallest file, depth counted in. Raises ParameterError where none is of 128 bits."""
    text_of(scheme, "the scheme of a table", ("bgv", "bfv"))
    text_of(edition, "the edition", ("w64", "w32"))
    if depth is not None and not 1 <= count_of(depth, "depth") <= _MOST_DEPTH:
        raise _core.ParameterError(f"a table's depth is 1 to {_MOST_DEPTH}, not {described(depth)}")
    together = len(filters) if conditions is None else count_of(conditions, "conditions", 1)
    monomials = summed(sums, columns)
    for monomial in monomials:
        if max(abs(end) for end in range_of(monomial, columns)).bit_length() > _LARGEST_SUMMAND:
            raise _core.ParameterError(f"{named(monomial)} has values beyond {_LARGEST_SUMMAND} bits: say nearer bounds")
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
            found = _size(
                scheme, edition, deep, bits, rows, [range_of(m, columns) for m in monomials], way.indicators + valid
            )
            if found is None:
                continue
            cost = found[0] * _A_PRODUCT**deep
            if best is None or cost < best[0]:
                best = cost, way, found[1]
    if best is None:
        widest = max(domains, key=lambda name: domains[name], default="the sums")
        raise _core.ParameterError(
            f"no 128-bit set serves conditions on {len(filters)} columns ({widest} has {domains.get(widest, 0):,} values) at "
            f"{'any depth' if depth is None else f'depth {depth}'}: say fewer columns, nearer bounds, conditions=1"
        )
    make = {"bgv": bgv_parameters, "bfv": bfv_parameters}[scheme]
    asked = dict(best[2])
    # Residues: limbs are as narrow as totals below t/2 ask, which bounds on sums of products of masks would not tell.
    parameters = make(edition=edition, exact=False, **asked)
    return Layout(table, rows, columns, best[1].digits, monomials, asked["depth"], parameters)


def _size(
    scheme: str, edition: str, depth: int, bits: int, rows: int, ranges: list[tuple[int, int]], vectors: int
) -> tuple[int, dict[str, Any]] | None:
    """Bytes of a table in a file by the smallest set of a depth, and what that set is asked for by."""
    n = 4096
    for _ in range(2):  # the blocks depend on the ring, and the noise of sums a little on the blocks
        asked = {"depth": depth, "plain_bits": bits, "slots": n, "terms": _terms(depth, -(-rows // n))}
        try:
            spec = _core.choose(depth, bits, [], n, asked["terms"], edition, scheme)
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
    word = 4 if edition == "w32" else 8
    return vectors * blocks * n * word * len(spec.chain) * len(spec.plain_moduli), asked
