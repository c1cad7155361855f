"""The parameter sets of an encrypted frame, found from its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heliograph import _core, bgv, ckks, exact
from heliograph._common.arguments import count_of, is_whole, readable_bytes, word_size_of
from heliograph._common.columns import Column
from heliograph._common.html import HtmlRepr
from heliograph.frame.columns import NUMBERS, AnyColumn, columns_of, data_of, of_data, raws_of

_MOST_ROWS = 1 << 40
MOST_PRECISION = 60  #: largest precision of a file
_MOST_BITS = 100
_EXACT_DEPTH = 5  #: largest depth for which the exact set has more levels


@dataclass(frozen=True)
class Part:
    """A vector of the frame: one ciphertext for each block of rows.

    >>> params.parts[0]
    Part(column='price', role='value', scheme='ckks', vectors=1)
    """

    column: str
    #: "value": the numbers, with 0 for NULL; "valid": 1 unless the value is NULL; "group": 1 in rows of a category
    role: str
    scheme: str  #: "ckks" or "bgv"
    vectors: int = 1  #: categories of a vector of kind "group"


@dataclass(frozen=True)
class Parameters(HtmlRepr):
    """Columns, rows and parameter sets of a frame. Created by `hg.frame.parameters_for`. The parameters are public: both
    parties know them.

    >>> params.rows, list(params.columns), params.reals.scheme, params.exact.scheme
    (4, ['price', 'quantity', 'region'], 'CKKS', 'BGV')
    """

    rows: int  #: number of rows
    columns: Mapping[str, AnyColumn]  #: descriptions of the columns, by name
    reals: ckks.Parameters | None  #: the set of real columns, and of exact columns' copies for `astype`
    exact: exact.Parameters | None  #: the set of exact columns
    precision: int  #: bits after the point of each computed value, relative to its column's bounds

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The frame's vectors, in file order."""
        parts = []
        for name, column in self.columns.items():
            for scheme, parameters in (("ckks", self.reals), ("bgv", self.exact)):
                if parameters is None:
                    continue
                if column.kind in NUMBERS and not (scheme == "bgv" and column.kind == "real"):
                    parts.append(Part(name, "value", scheme))
                    if column.nullable:
                        parts.append(Part(name, "valid", scheme))
                if column.kind in ("text", "bool"):
                    parts.append(Part(name, "group", scheme, int(column.high or 0) + 1))
        return tuple(parts)

    def set_of(self, scheme: str) -> Any:
        """Returns the parameter set of a scheme, "ckks" or "bgv".

        >>> params.set_of("bgv") == params.exact
        True
        """
        return self.reals if scheme == "ckks" else self.exact

    def blocks(self, scheme: str) -> int:
        """Returns the ciphertexts of a vector.

        >>> params.blocks("ckks")
        1
        """
        return int(-(-self.rows // self.set_of(scheme).slots))

    @property
    def nbytes(self) -> int:
        """Bytes of the encrypted frame in a file, without headers."""
        each = {"ckks": self.reals and self.reals.ciphertext_bytes(), "bgv": self.exact and self.exact.ciphertext_bytes()}
        return sum((each[part.scheme] or 0) // 2 * self.blocks(part.scheme) * part.vectors for part in self.parts)

    def explain(self) -> str:
        """Describes columns, bytes and sets in several lines.

        >>> print(params.explain().splitlines()[1].strip())
        column  price: real, 8 to 32, nullable, by CKKS
        """
        return "\n".join(f"{label:>10}  {text}" for label, text in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("frame", f"{self.rows:,} rows, {len(self.columns)} columns")]
        for name, column in self.columns.items():
            schemes = dict.fromkeys({"ckks": "CKKS", "bgv": "BGV"}[p.scheme] for p in self.parts if p.column == name)
            rows.append(("column", f"{name}: {repr(column)[8:-1]}, by {' and '.join(schemes)}"))
        sets = [("reals", self.reals), ("exact", self.exact)]
        rows += [(label, repr(one)[1:-1].splitlines()[0]) for label, one in sets if one is not None]
        rows.append(("size", f"{readable_bytes(self.nbytes)} in a file"))
        return rows

    def __repr__(self) -> str:
        return f"<parameters of a frame: {self.rows:,} rows, {len(self.columns)} columns, {readable_bytes(self.nbytes)}>"

    def data(self) -> dict[str, Any]:
        """Returns rows, columns and precision for a file's header.

        >>> sorted(params.data())
        ['columns', 'precision', 'rows']
        """
        columns = [[name, data_of(column)] for name, column in self.columns.items()]
        return {"rows": self.rows, "precision": self.precision, "columns": columns}

    @classmethod
    def of_data(cls, data: Any, reals: Any, exact_set: Any) -> Parameters:
        """Reads an untrusted file's header that `data` wrote. Raises DamagedFileError.

        >>> hg.frame.Parameters.of_data(params.data(), params.reals, params.exact) == params
        True
        """
        wrong = _core.DamagedFileError("this file's header describes an invalid frame")
        if not isinstance(data, dict) or set(data) != {"rows", "precision", "columns"}:
            raise wrong
        try:
            columns = {name: of_data(column) for name, column in data["columns"]}
        except (TypeError, ValueError):
            raise wrong from None
        if not columns or len(columns) < len(data["columns"]) or not all(isinstance(name, str) for name in columns):
            raise wrong
        if not is_whole(data["rows"]) or not 1 <= data["rows"] <= _MOST_ROWS:
            raise wrong
        if not is_whole(data["precision"]) or not 1 <= data["precision"] <= MOST_PRECISION:
            raise wrong
        return cls(int(data["rows"]), columns, reals, exact_set, int(data["precision"]))


def parameters_for(
    frame: Any,
    *,
    columns: Mapping[str, AnyColumn] | None = None,
    depth: int = 3,
    precision: int = 30,
    factors: int = 2,
    copies: bool = True,
    word_size: int = 64,
) -> Parameters:
    """Returns columns and 128-bit parameter sets for a data frame of pandas, polars or Arrow, or a dict of arrays.

    A column of floats becomes reals (`Real`, CKKS). Integers, decimals and truth values stay exact (`Column`, BGV). Texts
    and categories become groups. `columns` overrides the description of a column.

    `depth` is the number of successive products (3): a variance takes one product, and a group takes one more for each
    column of its key. NULLs of several columns in `least_squares` take one more. The exact set also has this depth, up to 5.
    `precision` is in bits after the point, relative to a column's bounds.

    `factors` is the number of exact columns in a product (2), for which the exact set has room. A result with more factors
    raises RoomError when it is decrypted.

    With `copies`, an exact column is also encrypted as reals, which `astype(float)` selects.

    Raises DtypeError, ParameterError, ShapeError, PlaintextRangeError for infinite values and values outside bounds.

    >>> hg.frame.parameters_for({"age": [31, 45]}, columns={"age": hg.frame.Column("int", low=18, high=90)}).columns
    {'age': <column int, 18 to 90>}
    """
    raws = raws_of(frame)
    described_columns = columns_of(raws, columns)
    rows = len(next(iter(raws.values()))[0])
    depth, factors, word_size = count_of(depth, "depth", 1), count_of(factors, "factors", 1), word_size_of(word_size)
    slots = min(4096, 1 << (rows - 1).bit_length())
    exacts = [c for c in described_columns.values() if isinstance(c, Column) and c.kind != "text"]
    has_text = any(column.kind == "text" for column in described_columns.values())
    has_reals = copies or any(column.kind == "real" for column in described_columns.values())
    reals = exact_set = None
    precision = count_of(precision, "precision", 1)
    if has_reals and rows > 2 ** (precision - 2):
        raise _core.ParameterError(
            f"counts of {rows:,} rows by CKKS need a precision of {(rows - 1).bit_length() + 2} bits, not {precision}; pass "
            "precision="
        )
    if has_reals:
        reals = _wide(lambda n: ckks.parameters(depth=depth, precision=precision, slots=n, word_size=word_size), rows, slots)
    if exacts or (has_text and reals is None):
        largest = max((max(abs(column.low or 0), abs(column.high or 0)) for column in exacts), default=1)
        bits = factors * max(1, int(largest).bit_length()) + (-(-rows // slots)).bit_length() + 2
        if bits > _MOST_BITS:
            raise _core.ParameterError(
                f"products of {factors} exact values need {bits} bits, above the maximum of {_MOST_BITS}: give "
                "narrower bounds or fewer places in columns=, or declare the column as hg.frame.Real()"
            )
        exact_set = _wide(
            lambda n: bgv.parameters(
                depth=max(2, factors - 1, min(depth, _EXACT_DEPTH) - 1),
                plain_bits=max(16, bits),
                slots=n,
                word_size=word_size,
                exact=True,
            ),
            rows,
            slots,
        )
    return Parameters(rows, described_columns, reals, exact_set, precision)


def _wide(make: Any, rows: int, slots: int) -> Any:
    """Returns the set with a number of slots; with all slots of the set if the rows fill them."""
    chosen = make(slots)
    room = chosen.n // 2
    return make(room) if rows > slots and room > slots else chosen
