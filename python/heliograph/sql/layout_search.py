"""Chooses a table's scheme and layout from the announced queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from heliograph import _core, tfhe
from heliograph._common.arguments import described, listed, printable, text_of
from heliograph._common.columns import Column, Raw, frame_of, of_values
from heliograph._common.sql_error import SqlError
from heliograph.sql.conditions import Comparison, single
from heliograph.sql.monomials import Monomial, Summand, monomial_text, range_of
from heliograph.sql.parser import Reader
from heliograph.sql.slot_layout import Layout, choose_layout
from heliograph.sql.tfhe_layout import LARGEST_SUM, IntegerLayout, bits_of


def layout(
    frame: Any,
    *,
    filters: Iterable[str] = (),
    sums: Iterable[str] = (),
    compares: Iterable[str] = (),
    extremes: Iterable[str] = (),
    columns: Mapping[str, Column] | None = None,
    table: str = "t",
    scheme: str | None = None,
    depth: int | None = None,
    conditions: int | None = None,
    word_size: int = 64,
    parameters: tfhe.Parameters | None = None,
) -> Layout | IntegerLayout:
    """Chooses how to encrypt a table for announced queries: scheme, parameter set and ciphertexts. This function encrypts
    nothing.

    `frame` is a pandas.DataFrame, a pyarrow.Table or a dict of arrays. `filters` are the columns of WHERE and GROUP BY.
    `sums` are the polynomials to sum or average: columns and products of columns (``"price * discount"``). `compares` are
    conditions that compare columns with each other (``"shipped < received"``). `extremes` are columns of MIN and MAX.
    `columns` describes columns whose kind the data do not show, or sets wider bounds (`hg.sql.Column`).

    The announced queries choose the scheme, and ``explain()`` gives the reason. BGV answers `filters` and `sums` in
    milliseconds. TFHE answers any query on the named columns (on all columns if none is named) in seconds per row. `scheme`
    sets "bgv", "bfv" (slower here) or "tfhe" instead.

    For BGV and BFV: `conditions` is the most columns of `filters` in one query (default: all). `depth` sets the
    multiplicative depth; by default a small table decides. `word_size` is the bits of the words of residues. For TFHE:
    `parameters` is a set instead of ``hg.tfhe.parameters()``.

    Raises DtypeError, ShapeError, PlaintextRangeError for data that do not fit; SqlError for invalid sums and conditions;
    ParameterError if no 128-bit set serves, or if the given scheme cannot answer the announced queries.

    >>> print(hg.sql.layout(frame, filters=["age"], sums=["salary"]))
    <layout of t: 6 rows in 1 x 31 ciphertexts, depth 1, BGV>
    >>> print(hg.sql.layout(frame, filters=["age"], extremes=["salary"]))
    <layout of t: 6 rows x 11 LWE ciphertexts, TFHE>
    """
    data = frame_of(frame)
    if not isinstance(table, str) or not table.isidentifier():
        raise _core.ParameterError(f"a table's name must be a word of letters, digits and _, got {described(table)}")
    rows = len(next(iter(data.values()))[0])
    if not rows:
        raise _core.ShapeError("cannot lay out a table without rows; give at least one row")
    queries = _AnnouncedQueries(data, table, dict(columns or {}), filters, sums, compares, extremes)
    scheme_name = _scheme(scheme, parameters, queries, (depth, conditions))
    if scheme_name != "tfhe":
        try:
            return choose_layout(
                table,
                rows,
                queries.columns(),
                queries.filters,
                queries.summands,
                scheme=scheme_name,
                word_size=word_size,
                depth=depth,
                conditions=conditions,
            )
        except _core.ParameterError as error:
            if scheme is not None or depth is not None or conditions is not None or word_size != 64:
                raise
            queries.why = str(error)
    typed_columns = queries.columns(True)
    if not typed_columns:
        raise _core.ParameterError(
            "cannot lay out this table: the kind of none of its columns is known; give columns={name: hg.sql.Column(...)}"
        )
    for monomial in queries.sums:
        if bits_of(*range_of(monomial, typed_columns)) > LARGEST_SUM:
            raise _core.ParameterError(
                f"cannot sum {monomial_text(monomial)}: its values may exceed {LARGEST_SUM} bits; give narrower bounds in "
                "columns="
            )
    return IntegerLayout(
        table,
        rows,
        typed_columns,
        tuple(queries.filters),
        queries.sums,
        queries.why or 'scheme="tfhe" or parameters= was given',
        tfhe.parameters() if parameters is None else parameters,
    )


def _scheme(scheme: str | None, parameters: Any, queries: _AnnouncedQueries, options: tuple[Any, Any]) -> str:
    """Returns the given scheme, or the scheme that the announced queries need. Raises ParameterError, DtypeError."""
    if scheme is not None:
        text_of(scheme, "the scheme of a table", ("bgv", "bfv", "tfhe"))
    if parameters is not None and not isinstance(parameters, tfhe.Parameters):
        raise _core.DtypeError(
            f"parameters= must be a set of TFHE, as hg.tfhe.parameters() returns, got {described(parameters)}"
        )
    if scheme in ("bgv", "bfv"):
        if queries.why:
            raise _core.ParameterError(
                f'{queries.why}, which scheme="{scheme}" does not answer; omit scheme= or give "tfhe"'
            )
        if parameters is not None:
            raise _core.ParameterError(
                f'parameters= requires TFHE; the parameters of scheme="{scheme}" follow from the announced queries'
            )
        return str(scheme)
    if scheme is None and parameters is None and not queries.why:
        return "bgv"
    if options != (None, None):
        raise _core.ParameterError(f"depth= and conditions= require BGV or BFV, and this table needs TFHE{queries.reason}")
    return "tfhe"


class _AnnouncedQueries:
    """The announced queries."""

    def __init__(
        self,
        data: dict[str, Raw],
        table: str,
        typed_columns: dict[str, Column],
        filters: Any,
        sums: Any,
        compares: Any,
        extremes: Any,
    ) -> None:
        self._data = data
        for name, column in typed_columns.items():
            self._require(name, "columns")
            if not isinstance(column, Column):
                raise _core.DtypeError(f"columns= must map names to hg.sql.Column, got {type(column).__name__}")
        self._kinds = {name: typed_columns.get(name) or _kind(raw, name) for name, raw in data.items()}
        reader = Reader(table, {name: kind for name, kind in self._kinds.items() if kind is not None})
        filter_names, self._others = set(_names(filters, "filters")), set(_names(extremes, "extremes"))
        sum_terms = [self._parsed(reader.summand, text) for text in _names(sums, "sums")]
        self.summands = [Summand(tuple(m for m in polynomial if m), names) for polynomial, names in sum_terms]
        self.why = (
            f"extremes= announces MIN and MAX of {printable(', '.join(sorted(self._others)))[:100]}" if self._others else ""
        )
        for text in _names(compares, "compares"):
            for one in single(self._parsed(reader.condition, text)):
                if isinstance(one, Comparison):
                    self._others.update(one.names)
                    self.why = self.why or f"{one.text} compares columns with each other"
                else:
                    filter_names.add(one.column)
        for name in filter_names:
            self._require(name, "filters")
        for name in self._others:
            self._require(name, "extremes")
        self.filters = [name for name in data if name in filter_names]
        self.sums: tuple[Monomial, ...] = tuple(dict.fromkeys(m for one in self.summands for m in one.monomials))

    def _parsed(self, parse: Callable[[str], Any], text: str) -> Any:
        """Parses the text of a query. If a column's kind is unknown, raises the error of its values instead of "no such
        column". Raises SqlError, DtypeError.
        """
        try:
            return parse(text)
        except SqlError as error:
            if error.construct in self._data and self._kinds[error.construct] is None:
                of_values(self._data[error.construct], error.construct)  # raises with the reason
            raise

    @property
    def reason(self) -> str:
        """The reason why the layout uses TFHE, if the queries need TFHE."""
        return f": {self.why}" if self.why else ""

    def _require(self, name: str, what: str) -> None:
        if name not in self._data:
            there = printable(", ".join(self._data))[:300]
            raise _core.ParameterError(
                f"{what}= names {described(name)}, which the table does not have; its columns are {there}"
            )

    def columns(self, every: bool = False) -> dict[str, Column]:
        """Returns the named columns, completed from the data; with `every` and no named column, returns all columns of a
        known kind.

        """
        names = {*self.filters, *self._others, *(name for one in self.summands for name in one.names)}
        if every and not names:
            names = {name for name, kind in self._kinds.items() if kind is not None}
        return {
            name: (self._kinds[name] or of_values(raw, name)).completed(raw, name)
            for name, raw in self._data.items()
            if name in names
        }


def _names(several: Any, what: str) -> list[str]:
    names = listed(several)
    if names is None or not all(isinstance(name, str) for name in names):
        raise _core.DtypeError(f"{what}= must be a list of strings, got {described(several)}")
    return list(dict.fromkeys(names))


def _kind(raw: Raw, name: str) -> Column | None:
    """Returns the kind of a column, or None if the values do not show it."""
    try:
        return of_values(raw, name)
    except _core.DtypeError:
        return None
