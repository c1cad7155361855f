"""Columns of an encrypted table: kinds of values and their encoding as integers."""

from __future__ import annotations

import copy
import datetime
import decimal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import count_of, described, flag, is_real, is_whole, printable, text_of

Array = npt.NDArray[Any]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
#: A column's values, and the mask of values that are not NULL.
Raw = tuple[Array, BoolArray]
#: The type of a column's values in results and of the column's bounds, with None for NULL.
Value = int | bool | str | decimal.Decimal | datetime.date | None

KINDS = ("int", "decimal", "date", "text", "bool")
EPOCH = datetime.date(1970, 1, 1)
_MOST_PLACES = 9  # decimal places
_LARGEST = 1 << 53  # largest integer of a value: exact in floats, and products of two are far below 2^127
_MOST_TEXTS = 1 << 12


@dataclass(frozen=True)
class Column:
    """Description of a column. The description is public: the server reads it.

    `kind` is int, decimal (with `places` decimal places), date, text (of known `values`) or bool. `low` and `high` bound the
    values, as values of the kind. `nullable` allows NULL. `hg.sql.layout` takes missing fields from the data: then the
    server learns the least and largest value, and the texts that occur.

    >>> hg.sql.Column("decimal", places=2, low="0.00", high="0.10")
    <column decimal(2), 0.00 to 0.10>
    >>> hg.sql.Column("text", values=["AIR", "MAIL", "SHIP"])
    <column text, of 3>
    """

    kind: str
    places: int = 0
    low: Any = None
    high: Any = None
    values: tuple[str, ...] = ()
    nullable: bool | None = None

    def __post_init__(self) -> None:
        text_of(self.kind, "a column's kind", KINDS)
        places = count_of(self.places, "places")
        if places > _MOST_PLACES or (places and self.kind != "decimal"):
            raise _core.ParameterError(
                f"places must be 0 to {_MOST_PLACES} for a decimal column and 0 for others, got {places} for {self.kind}"
            )
        if self.nullable is not None:
            flag(self.nullable, "nullable")
        self._set("values", self._texts())
        if self.kind in ("text", "bool"):
            if self.low is not None or self.high is not None:
                raise _core.ParameterError(f"low and high are not allowed for a column of {self.kind}; omit them")
            last = len(self.values) - 1 if self.kind == "text" else 1
            if last >= 0:
                self._set("low", 0)
                self._set("high", last)
            return
        for name in ("low", "high"):
            limit = getattr(self, name)
            if limit is not None:
                self._set(name, self.exact(limit, name))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise _core.ParameterError(
                f"a column's low must be at most its high, got {self.shown(self.low)} and {self.shown(self.high)}"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _texts(self) -> tuple[str, ...]:
        """Returns the texts in the order of their code points."""
        if self.kind != "text":
            if self.values:
                raise _core.ParameterError(
                    f"values are only allowed for a column of text, got one of {self.kind}; omit them"
                )
            return ()
        raw: Any = self.values
        several = [raw] if isinstance(raw, str) else list(raw)
        if not all(isinstance(value, str) for value in several):
            raise _core.DtypeError("the values of a column of text must be strings")
        for value in several:
            require_spelling(value, "a value of a column of text")
        if len(set(several)) < len(several) or len(several) > _MOST_TEXTS:
            raise _core.ParameterError(
                f"the values of a column of text must be different and at most {_MOST_TEXTS:,}, got {len(several):,}"
            )
        return tuple(sorted(several))

    # Encoding of a single value

    def exact(self, value: Any, what: str) -> int:
        """Encodes a value as the column's integer. Raises DtypeError for a value of another kind, or between two values of
        the column.

        >>> hg.sql.Column("decimal", places=2, low=0, high=1, nullable=False).exact(0.25, "a discount")
        25
        """
        number: Fraction = self.fraction(value, what)
        rounded = isinstance(value, (float, np.floating))  # the float 2^53 may be a rounded 2^53 + 1
        if number.denominator == 1 and abs(number) > _LARGEST - rounded:
            most = decimal.Decimal(_LARGEST).scaleb(-self.places)
            raise _core.DtypeError(
                f"{what}: {described(value)} is not between -{most:,} and {most:,}, the range of a column of {self._kind()}"
            )
        if number.denominator != 1:
            way = f"; round the values: numpy.round(values, {self.places})" if rounded else ""
            raise _core.DtypeError(f"{what}: {described(value)} is no value of a column of {self._kind()}{way}")
        return int(number)

    def fraction(self, value: Any, what: str) -> Fraction:
        """Same as `exact`, but also accepts numbers between two values of the column, which conditions may compare with the
        column.

        >>> hg.sql.Column("decimal", places=2, low=0, high=1, nullable=False).fraction(0.125, "a discount")
        Fraction(25, 2)
        """
        wrong = _core.DtypeError(f"{what}: {described(value)} is not of the kind of a column of {self._kind()}")
        if self.kind == "date":
            return Fraction((self._date(value, wrong) - EPOCH).days)
        if self.kind == "bool":
            if not isinstance(value, (bool, np.bool_)):
                raise wrong
            return Fraction(int(value))
        if isinstance(value, (bool, np.bool_)):
            raise wrong
        try:
            if isinstance(value, (str, decimal.Decimal, Fraction)) or is_whole(value):
                return Fraction(Fraction(int(value) if is_whole(value) else value) * 10**self.places)
            if isinstance(value, (float, np.floating)):
                return Fraction(Fraction(repr(float(value))) * 10**self.places)
        except (ValueError, OverflowError, ZeroDivisionError):
            pass
        raise wrong

    @staticmethod
    def _date(value: Any, wrong: Exception) -> datetime.date:
        if isinstance(value, np.datetime64):
            if np.isnat(value) or value.astype("datetime64[D]") != value:
                raise wrong
            value = value.astype("datetime64[D]").item()
        if isinstance(value, datetime.datetime):
            if value.time() != datetime.time() or value.tzinfo is not None:
                raise wrong
            if getattr(value, "nanosecond", 0):  # only a pandas.Timestamp has nanoseconds
                raise wrong
            return value.date()
        if isinstance(value, str):
            try:
                return datetime.date.fromisoformat(value)
            except ValueError:
                raise wrong from None
        if not isinstance(value, datetime.date):
            raise wrong
        return value

    def shown(self, number: int) -> Value:
        """Decodes an integer to the value that results have.

        >>> hg.sql.Column("decimal", places=2, low=0, high=1, nullable=False).shown(25)
        Decimal('0.25')
        """
        if self.kind == "date":
            return EPOCH + datetime.timedelta(days=number)
        if self.kind == "text":
            return self.values[number]
        if self.kind == "bool":
            return bool(number)
        return scaled(number, self.places) if self.kind == "decimal" else number

    # Encoding of arrays

    def numbers(self, raw: Raw, name: str) -> Int64Array:
        """Encodes values as integers, 0 for NULL. Raises DtypeError, PlaintextRangeError, naming the column and a row.

        >>> column = hg.sql.Column("decimal", places=2, low=0, high=1, nullable=False)
        >>> column.numbers((np.array([0.25, 1.0]), np.array([True, True])), "discount")
        array([ 25, 100])
        """
        values, valid = raw
        numbers = np.zeros(len(values), np.int64)
        if not valid.all() and self.nullable is False:
            row = int(np.flatnonzero(~valid)[0])
            raise _core.PlaintextRangeError(
                f"{printable(name)} is NULL in row {row:,}; give the column nullable=True, or fill it"
            )
        if valid.any():
            numbers[valid] = self._integers(values[valid], np.flatnonzero(valid), name)
        return numbers

    def _integers(self, values: Array, rows: Int64Array, name: str) -> Int64Array:
        integers = {"date": self._days, "text": self._codes, "bool": self._truths}.get(self.kind, self._scaled)(values)
        wrong = integers is None
        if integers is None:  # one by one, for an error that names the first invalid value
            for row, value in zip(rows, values, strict=True):
                self._require(value, f"{printable(name)}, row {row:,}")
        if wrong or integers is None:
            raise _core.DtypeError(f"{printable(name)} has values that are not of the kind of a column of {self._kind()}")
        if self.low is not None and self.high is not None:
            outside = np.flatnonzero((integers < self.low) | (integers > self.high))
            if len(outside):
                row = int(outside[0])
                raise _core.PlaintextRangeError(
                    f"{printable(name)}, row {rows[row]:,}: {described(values[row])} is outside the column's bounds, "
                    f"{self._range()}; give wider ones in columns="
                )
        return integers

    def _require(self, value: Any, what: str) -> None:
        if self.kind == "text":
            if not isinstance(value, str):
                raise _core.DtypeError(f"{what}: {described(value)} is not a string; a column of text takes strings")
            if value in self.values:
                return
            raise _core.PlaintextRangeError(f"{what}: {described(value)} is none of the column's {len(self.values)} texts")
        self.exact(value, what)

    def _scaled(self, values: Array) -> Int64Array | None:
        if values.dtype.kind in "iu" and (
            self.places == 0 or np.abs(values.astype(float)).max() < _LARGEST / 10**self.places
        ):
            within = int(values.min()) >= -_LARGEST and int(values.max()) <= _LARGEST
            return values.astype(np.int64) * 10**self.places if within else None
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore", over="ignore"):
                scaled = values.astype(np.float64) * 10**self.places
                near = np.rint(scaled)
                # a float encodes a decimal if it is the float nearest to that decimal; one division tests it up to 53 bits
                fits = near / 10**self.places == values.astype(np.float64)
                return near.astype(np.int64) if bool((fits & (np.abs(near) < _LARGEST)).all()) else None
        try:
            return np.array([self.exact(value, "a value") for value in values.tolist()], np.int64)
        except _core.HeliographError:
            return None

    def _days(self, values: Array) -> Int64Array | None:
        if values.dtype.kind == "M":
            days = values.astype("datetime64[D]")
            return days.astype(np.int64) if bool((days == values).all()) else None
        try:
            return np.array([self.exact(value, "a value") for value in values.tolist()], np.int64)
        except _core.HeliographError:
            return None

    def _codes(self, values: Array) -> Int64Array | None:
        if not all(isinstance(value, str) for value in values.tolist()):
            return None
        texts, where = np.unique(values.astype(object), return_inverse=True)
        code_of = {text: code for code, text in enumerate(self.values)}
        codes = np.array([code_of.get(text, -1) for text in texts], np.int64)
        return None if (codes < 0).any() else codes[where]

    def _truths(self, values: Array) -> Int64Array | None:
        if values.dtype.kind != "b" and not all(isinstance(value, (bool, np.bool_)) for value in values.tolist()):
            return None
        return values.astype(bool).astype(np.int64)

    def completed(self, raw: Raw, name: str) -> Column:
        """Returns a copy of the description with missing fields taken from the data.

        >>> hg.sql.Column("int").completed((np.array([3, 9]), np.array([True, True])), "a")
        <column int, 3 to 9>
        """
        values, valid = raw
        column = copy.copy(self)
        if self.kind == "text" and not self.values:
            texts = {value for value in values[valid].tolist() if isinstance(value, str)}
            for value in texts:
                require_spelling(value, f"a value of {printable(name)}")
            column._set("values", tuple(sorted(texts)))
            column._set("low", 0)
            column._set("high", max(0, len(texts) - 1))
        if self.nullable is None:
            column._set("nullable", not bool(valid.all()))
        if column.low is None or column.high is None:
            numbers = column.numbers(raw, name)[valid]
            least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
            low, high = least if column.low is None else column.low, most if column.high is None else column.high
            column._set("low", min(low, high))
            column._set("high", high)
        else:
            column.numbers(raw, name)  # raises for values outside the bounds
        return column

    # Serialization

    def data(self) -> dict[str, Any]:
        """Returns the column for a file's header.

        >>> hg.sql.Column("decimal", places=2, low=0, high=1, nullable=False).data()["places"]
        2
        """
        return {
            **{"kind": self.kind, "places": self.places, "low": self.low, "high": self.high},
            **{"values": list(self.values), "nullable": bool(self.nullable)},
        }

    @staticmethod
    def of_data(data: Any) -> Column:
        """Reads `data`. Raises DamagedFileError.

        >>> hg.sql.Column.of_data(hg.sql.Column("decimal", places=2, low=0, high=1, nullable=False).data())
        <column decimal(2), 0.00 to 1.00>
        """
        wrong = _core.DamagedFileError("this table's header describes an invalid column")
        if not isinstance(data, dict) or set(data) != {"kind", "places", "low", "high", "values", "nullable"}:
            raise wrong
        low, high, values = data["low"], data["high"], data["values"]
        if not all(is_whole(bound) and abs(bound) <= _LARGEST for bound in (low, high)) or low > high:
            raise wrong
        if not isinstance(values, list) or not isinstance(data["nullable"], bool) or not is_whole(data["places"]):
            raise wrong
        try:
            column = Column(data["kind"], places=data["places"], values=tuple(values), nullable=data["nullable"])
        except _core.HeliographError:
            raise wrong from None
        if column.kind in ("text", "bool") and (low, high) != (column.low or 0, column.high or 0):
            raise wrong
        try:
            column._set("low", int(low))
            column._set("high", int(high))
            column.shown(int(low)), column.shown(int(high))
        except (OverflowError, IndexError):
            raise wrong from None
        return column

    def _kind(self) -> str:
        return f"{self.kind}({self.places})" if self.kind == "decimal" else self.kind

    def _range(self) -> str:
        if self.kind == "text":
            return f"of {len(self.values)}"
        return (
            "not known yet"
            if self.low is None or self.high is None
            else f"{self.shown(self.low)} to {self.shown(self.high)}"
        )

    def __repr__(self) -> str:
        null = ", nullable" if self.nullable else ""
        return f"<column {self._kind()}, {self._range()}{null}>"


def scaled(number: int, places: int) -> decimal.Decimal:
    """Returns number / 10^places with all its places, for any number of digits."""
    sign, digits = number < 0, tuple(int(digit) for digit in str(abs(number)))
    return decimal.Decimal((int(sign), digits, -places))


def of_values(raw: Raw, name: str) -> Column:
    """Determines the kind of a column from its values. Raises DtypeError."""
    values, valid = raw
    kind = values.dtype.kind
    if kind in "iu":
        return Column("int")
    if kind == "b":
        return Column("bool")
    if kind == "M":
        return Column("date")
    if kind in "US":
        return Column("text")
    items = values[valid].tolist()
    if kind == "O" and not items:
        raise _core.DtypeError(
            f"{printable(name)} has only NULLs, which are of no kind: declare the column's kind in columns=, or drop the "
            "column"
        )
    reals = [float(value) for value in items if isinstance(value, (float, np.floating))]
    if kind == "O" and reals and all(is_real(value) for value in items):
        kind, items = "f", reals
    kinds: tuple[tuple[str, tuple[type, ...]], ...] = (
        ("bool", (bool, np.bool_)),
        ("int", (int, np.integer)),
        ("text", (str,)),
        ("date", (datetime.date,)),
    )
    for type_name, classes in kinds:
        if items and all(isinstance(value, classes) for value in items):
            return Column(type_name)
    if items and all(isinstance(value, (decimal.Decimal, int)) for value in items):
        exponents = [decimal.Decimal(value).as_tuple().exponent for value in items]
        if all(isinstance(e, int) for e in exponents):
            return Column("decimal", places=max(0, -min(int(e) for e in exponents)))
    if kind == "f":
        if items and all(value.is_integer() for value in items):  # integers with NULLs in pandas
            return Column("int")
        raise _core.DtypeError(
            f"{printable(name)} holds real numbers, which need a number of decimal places: give "
            f'columns={{"{printable(name)}": hg.sql.Column("decimal", places=2)}}'
        )
    raise _core.DtypeError(f"the values of {printable(name)} must be of one kind of {', '.join(KINDS)}; convert them")


# Data frames


def frame_of(frame: Any) -> dict[str, Raw]:
    """Returns the columns of a pandas.DataFrame, a pyarrow.Table or a mapping of arrays. Raises DtypeError, ShapeError."""
    if hasattr(frame, "column_names") and hasattr(frame, "schema"):
        require_different(frame.column_names)
        frame_columns = {name: _of_arrow(frame.column(name)) for name in frame.column_names}
    elif hasattr(frame, "isna") and hasattr(frame, "columns"):
        require_different(frame.columns)
        frame_columns = {name: _of_series(frame[name]) for name in frame.columns}
    elif isinstance(frame, Mapping):
        frame_columns = {name: _of_array(values, name) for name, values in frame.items()}
    else:
        raise _core.DtypeError(
            f"a table must be a pandas.DataFrame, a pyarrow.Table or a dict of arrays, got {type(frame).__name__}"
        )
    for name in frame_columns:
        if not isinstance(name, str) or not name:
            raise _core.DtypeError(f"a column's name must be a string that is not empty, got {described(name)}")
        require_spelling(name, "a column's name")
    lengths = {len(values) for values, _ in frame_columns.values()}
    if len(lengths) != 1:
        raise _core.ShapeError(
            "a table must have at least one column, all of one length; got lengths "
            f"{', '.join(map(str, sorted(lengths))) or 'of none'}"
        )
    return frame_columns


def require_different(names: Iterable[Any]) -> None:
    """Raises ParameterError if a data frame has two columns of one name, because a name would be ambiguous."""
    previous: set[Any] = set()
    for name in names:
        if name in previous:
            raise _core.ParameterError(f"the table has two columns called {described(name)}; rename one")
        previous.add(name)


def require_spelling(text: str, what: str) -> None:
    """Raises DtypeError for a string with an unpaired surrogate, before writing a file fails halfway."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _core.DtypeError(
            f"{what}: {printable(text)[:200]} cannot be written in UTF-8: it has an unpaired surrogate"
        ) from None


def _of_array(values: Any, name: Any) -> Raw:
    # NumPy would turn Arrow's integers with NULLs into floats.
    if hasattr(values, "to_arrow"):  # a polars.Series
        values = values.to_arrow()
    if hasattr(values, "null_count") and hasattr(values, "is_valid"):
        return _of_arrow(values)
    if hasattr(values, "isna") and hasattr(values, "to_numpy"):
        return _of_series(values)
    try:
        array = (
            np.asarray(values)
            if hasattr(values, "__array__") or _is_of_one_type(values)
            else np.asarray(values, dtype=object)
        )
    except ValueError:
        raise _core.ShapeError(
            f"column {described(name)} must be a list of values, got a ragged one: rows of different lengths"
        ) from None
    if array.ndim != 1:
        raise _core.ShapeError(f"column {described(name)} must be a list of values on one axis, got shape {array.shape}")
    return array, _present(array) & ~np.ma.getmaskarray(values if isinstance(values, np.ma.MaskedArray) else array)


def _of_series(series: Any) -> Raw:
    """Returns the values of a pandas.Series. ``to_numpy`` makes floats of pandas' own integers with NULLs, so they are
    converted as objects.
    """
    valid = np.asarray(~series.isna().to_numpy(), dtype=bool)
    if hasattr(series, "cat") and not valid.all():  # to_numpy makes floats of integer categories
        values = np.full(len(valid), None, dtype=object)
        values[valid] = series.cat.categories.to_numpy(dtype=object)[series.cat.codes.to_numpy()[valid]]
        return values, valid
    own = not isinstance(series.dtype, np.dtype) and not valid.all()
    return series.to_numpy(dtype=object) if own else series.to_numpy(), valid


def _is_of_one_type(values: Any) -> bool:
    """Returns whether NumPy keeps a list's values when it converts the list. NumPy converts mixed lists to strings and large
    integers to floats.

    """
    types = set(map(type, values)) if isinstance(values, (list, tuple)) else set()
    if len(types) != 1:
        return False
    (kind,) = types
    if kind is int:
        return bool(min(values) >= -(1 << 63) and max(values) < 1 << 63)
    return issubclass(kind, (bool, float, np.generic)) and not issubclass(kind, (str, bytes))


def _present(array: Array) -> BoolArray:
    """Returns the mask of values that are not missing."""
    if array.dtype.kind in "fc":
        return np.asarray(~np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(~np.isnat(array))
    if array.dtype == object:
        return np.array([not _missing(v) for v in array.tolist()], dtype=bool)
    return np.ones(len(array), dtype=bool)


def _missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, NaT, masked, or pandas' NA."""
    return (
        value is None
        or value is np.ma.masked
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, (float, np.floating, decimal.Decimal)) and bool(value != value))
        or (isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value)))
    )


def _of_arrow(column: Any) -> Raw:
    if not hasattr(column, "chunks"):
        import pyarrow

        column = pyarrow.chunked_array([column])
    valid = np.asarray(column.is_valid().to_numpy(), dtype=bool)
    if column.null_count and str(column.type).startswith(("int", "uint", "bool")):
        column = column.fill_null(False if str(column.type) == "bool" else 0)
    return np.asarray(column.to_numpy()), valid
