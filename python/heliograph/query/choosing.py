"""Which scheme a table is encrypted by, and how: what its owner announces of the queries decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from heliograph import _core, tfhe
from heliograph._arrays import described, listed, printable, text_of
from heliograph.query.columns import Column, Raw, frame_of, of_values
from heliograph.query.conditions import Comparison, single
from heliograph.query.errors import SqlError
from heliograph.query.integers import LARGEST_SUM, IntegerLayout, bits_of
from heliograph.query.layout import Layout, choose_layout
from heliograph.query.monomials import Monomial, Summand, named, range_of
from heliograph.query.sql import Reader


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
    edition: str = "w64",
    parameters: tfhe.Parameters | None = None,
) -> Layout | IntegerLayout:
    """How a table is best encrypted for some queries: by which scheme and set, into which ciphertexts. Nothing is encrypted yet.

    `frame` is a pandas.DataFrame, a pyarrow.Table or a dict of arrays. `filters` are the columns of WHERE and GROUP BY,
    `sums` what is summed or averaged: columns and products of columns (``"price * discount"``). `compares` are conditions
    that compare columns with each other (``"shipped < received"``), `extremes` columns of MIN and MAX. `columns` says what
    a column is where the data do not tell, and wider bounds than theirs (`hg.query.Column`).

    What is announced chooses the scheme, and ``explain()`` tells why: BGV answers `filters` and `sums` in milliseconds,
    TFHE answers any query on the columns that are named (all columns, where none is) in seconds a row. `scheme` says "bgv",
    "bfv" (slower here) or "tfhe" instead. Of BGV and BFV, at most `conditions` columns of `filters` are asked for at once
    (all, unless said); `depth` fixes the products in a row in place of taking those that make a small table; `edition` is
    that of their parameters. Of TFHE, `parameters` is another set than ``hg.tfhe.parameters()``.

    Raises DtypeError, ShapeError, PlaintextRangeError for data that do not fit, SqlError for sums and conditions that are
    none, ParameterError where no 128-bit set serves, or the scheme that was said does not answer what is announced.

    >>> print(hg.query.layout(frame, filters=["age"], sums=["salary"]))
    <layout of t: 6 rows in 1 x 31 ciphertexts, depth 1, BGV>
    >>> print(hg.query.layout(frame, filters=["age"], extremes=["salary"]))
    <layout of t: 6 rows x 11 LWE ciphertexts, TFHE>
    """
    data = frame_of(frame)
    if not isinstance(table, str) or not table.isidentifier():
        raise _core.ParameterError(f"a table's name is a word of letters, digits and _, not {described(table)}")
    rows = len(next(iter(data.values()))[0])
    if not rows:
        raise _core.ShapeError("a table without rows has nothing to encrypt")
    asked = _Announced(data, table, dict(columns or {}), filters, sums, compares, extremes)
    wanted = _scheme(scheme, parameters, asked, (depth, conditions))
    if wanted != "tfhe":
        try:
            return choose_layout(
                table,
                rows,
                asked.columns(),
                asked.filters,
                asked.summands,
                scheme=wanted,
                edition=edition,
                depth=depth,
                conditions=conditions,
            )
        except _core.ParameterError as error:
            if scheme is not None or depth is not None or conditions is not None or edition != "w64":
                raise
            asked.why = f"of BGV there is {error}"
    known = asked.columns(True)
    if not known:
        raise _core.ParameterError("nothing is known of this table's columns: say what they are, columns={...}")
    for monomial in asked.sums:
        if bits_of(*range_of(monomial, known)) > LARGEST_SUM:
            raise _core.ParameterError(f"{named(monomial)} has values beyond {LARGEST_SUM} bits: say nearer bounds")
    return IntegerLayout(
        table,
        rows,
        known,
        tuple(asked.filters),
        asked.sums,
        asked.why or "it was asked for",
        tfhe.parameters() if parameters is None else parameters,
    )


def _scheme(scheme: str | None, parameters: Any, asked: _Announced, options: tuple[Any, Any]) -> str:
    """What was said, or what the announced queries take. Raises ParameterError, DtypeError."""
    if scheme is not None:
        text_of(scheme, "the scheme of a table", ("bgv", "bfv", "tfhe"))
    if parameters is not None and not isinstance(parameters, tfhe.Parameters):
        raise _core.DtypeError(f"parameters= is a set of TFHE, which hg.tfhe.parameters makes, not {described(parameters)}")
    if scheme in ("bgv", "bfv"):
        if asked.why:
            raise _core.ParameterError(f'{asked.why}, which scheme="{scheme}" does not answer: leave it out, or say "tfhe"')
        if parameters is not None:
            raise _core.ParameterError(
                f'parameters= is a set of TFHE; those of scheme="{scheme}" follow from what is announced'
            )
        return str(scheme)
    if scheme is None and parameters is None and not asked.why:
        return "bgv"
    if options != (None, None):
        raise _core.ParameterError(f"depth= and conditions= are of BGV and BFV, and this is a table of TFHE{asked.reason}")
    return "tfhe"


class _Announced:
    """What queries were said to ask for."""

    def __init__(
        self,
        data: dict[str, Raw],
        table: str,
        given: dict[str, Column],
        filters: Any,
        sums: Any,
        compares: Any,
        extremes: Any,
    ) -> None:
        self._data = data
        for name, said in given.items():
            self._require(name, "columns")
            if not isinstance(said, Column):
                raise _core.DtypeError(f"columns= holds hg.query.Column, not {type(said).__name__}")
        self._kinds = {name: given.get(name) or _kind(raw, name) for name, raw in data.items()}
        reader = Reader(table, {name: kind for name, kind in self._kinds.items() if kind is not None})
        wanted, self._others = set(_names(filters, "filters")), set(_names(extremes, "extremes"))
        read = [self._read(reader.summand, text) for text in _names(sums, "sums")]
        self.summands = [Summand(tuple(m for m in polynomial if m), names) for polynomial, names in read]
        self.why = f"MIN and MAX of {printable(', '.join(sorted(self._others)))[:100]} are asked for" if self._others else ""
        for text in _names(compares, "compares"):
            for one in single(self._read(reader.condition, text)):
                if isinstance(one, Comparison):
                    self._others.update(one.names)
                    self.why = self.why or f"{one.text} compares columns with each other"
                else:
                    wanted.add(one.column)
        for name in wanted:
            self._require(name, "filters")
        for name in self._others:
            self._require(name, "extremes")
        self.filters = [name for name in data if name in wanted]
        self.sums: tuple[Monomial, ...] = tuple(dict.fromkeys(m for one in self.summands for m in one.monomials))

    def _read(self, read: Callable[[str], Any], text: str) -> Any:
        """What a text says. A column of unknown kind is refused for that, not for being absent. Raises SqlError, DtypeError."""
        try:
            return read(text)
        except SqlError as error:
            if error.construct in self._data and self._kinds[error.construct] is None:
                of_values(self._data[error.construct], error.construct)  # raises, and says why
            raise

    @property
    def reason(self) -> str:
        """Why it is TFHE, where that was not said."""
        return f": {self.why}" if self.why else ""

    def _require(self, name: str, what: str) -> None:
        if name not in self._data:
            there = printable(", ".join(self._data))[:300]
            raise _core.ParameterError(f"{what}= names {described(name)}, and the table has {there}")

    def columns(self, every: bool = False) -> dict[str, Column]:
        """Those that are named, complete; with `every`, all of a known kind where none is."""
        wanted = {*self.filters, *self._others, *(name for one in self.summands for name in one.names)}
        if every and not wanted:
            wanted = {name for name, kind in self._kinds.items() if kind is not None}
        return {
            name: (self._kinds[name] or of_values(raw, name)).completed(raw, name)
            for name, raw in self._data.items()
            if name in wanted
        }


def _names(several: Any, what: str) -> list[str]:
    found = listed(several)
    if found is None or not all(isinstance(name, str) for name in found):
        raise _core.DtypeError(f"{what}= is a list of texts, not {described(several)}")
    return list(dict.fromkeys(found))


def _kind(raw: Raw, name: str) -> Column | None:
    """None where only the column's use would tell that nothing is known of it."""
    try:
        return of_values(raw, name)
    except _core.DtypeError:
        return None
