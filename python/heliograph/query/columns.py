"""Columns of an encrypted table: what their values are, and how those become integers."""

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
from heliograph._arrays import count_of, described, flag, is_real, is_whole, printable, text_of

Array = npt.NDArray[Any]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
#: A column's values, and which of them are not NULL.
Raw = tuple[Array, BoolArray]
#: What a value is for whoever asks: in results, in ranges.
Value = int | bool | str | decimal.Decimal | datetime.date | None

KINDS = ("int", "decimal", "date", "text", "bool")
EPOCH = datetime.date(1970, 1, 1)
_MOST_PLACES = 9  # after the decimal point
_LARGEST = 1 << 53  # of a value as an integer: what floats hold, and products of two are far below 2^127
_MOST_TEXTS = 1 << 12


@dataclass(frozen=True)
class Column:
    """What a column holds. The server reads all of it; it is no secret.

    `kind` is int, decimal (with `places` after the point), date, text (of known `values`) or bool. `low` and `high` bound the
    values, in the kind's own terms; `nullable` says that some may be NULL. What is left out, `hg.query.layout` takes from the
    data: the bounds and the texts that occur are then what the server learns.

    >>> hg.query.Column("decimal", places=2, low="0.00", high="0.10")
    <column decimal(2), 0.00 to 0.10>
    >>> hg.query.Column("text", values=["AIR", "MAIL", "SHIP"])
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
            raise _core.ParameterError(f"a column of {self.kind} has no {places} places; decimals have 0 to {_MOST_PLACES}")
        if self.nullable is not None:
            flag(self.nullable, "nullable")
        self._set("values", self._texts())
        if self.kind in ("text", "bool"):
            if self.low is not None or self.high is not None:
                raise _core.ParameterError(f"a column of {self.kind} has no low and no high")
            last = len(self.values) - 1 if self.kind == "text" else 1
            if last >= 0:
                self._set("low", 0)
                self._set("high", last)
            return
        for name in ("low", "high"):
            given = getattr(self, name)
            if given is not None:
                self._set(name, self.exact(given, name))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise _core.ParameterError(
                f"a column's low is at most its high, not {self.shown(self.low)} to {self.shown(self.high)}"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _texts(self) -> tuple[str, ...]:
        """In their order, which is that of their code points."""
        if self.kind != "text":
            if self.values:
                raise _core.ParameterError(f"only a column of text has values, not one of {self.kind}")
            return ()
        given: Any = self.values
        several = [given] if isinstance(given, str) else list(given)
        if not all(isinstance(value, str) for value in several):
            raise _core.DtypeError("the values of a column of text are texts")
        for value in several:
            require_written(value, "a value of a column of text")
        if len(set(several)) < len(several) or len(several) > _MOST_TEXTS:
            raise _core.ParameterError(f"the values of a column of text are different, and at most {_MOST_TEXTS:,}")
        return tuple(sorted(several))

    # One value

    def exact(self, value: Any, what: str) -> int:
        """A value in the column's terms as its integer. Raises DtypeError for another kind, or one that is between two.

        >>> hg.query.Column("decimal", places=2, low=0, high=1, nullable=False).exact(0.25, "a discount")
        25
        """
        found: Fraction = self.fraction(value, what)
        rounded = isinstance(value, (float, np.floating))  # 2^53 as a float may have been 2^53 + 1
        if found.denominator == 1 and abs(found) > _LARGEST - rounded:
            most = decimal.Decimal(_LARGEST).scaleb(-self.places)
            raise _core.DtypeError(
                f"{what}: {described(value)} is not between -{most:,} and {most:,}, as all values of {self._kind()} are"
            )
        if found.denominator != 1:
            way = f"; round it: numpy.round(values, {self.places})" if rounded else ""
            raise _core.DtypeError(f"{what}: {described(value)} is no value of a column of {self._kind()}{way}")
        return int(found)

    def fraction(self, value: Any, what: str) -> Fraction:
        """As `exact`, of numbers between two values too: what a condition compares with.

        >>> hg.query.Column("decimal", places=2, low=0, high=1, nullable=False).fraction(0.125, "a discount")
        Fraction(25, 2)
        """
        wrong = _core.DtypeError(f"{what}: a column of {self._kind()} is not compared with {described(value)}")
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
            if getattr(value, "nanosecond", 0):  # pandas's
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
        """The value of an integer, as results have it.

        >>> hg.query.Column("decimal", places=2, low=0, high=1, nullable=False).shown(25)
        Decimal('0.25')
        """
        if self.kind == "date":
            return EPOCH + datetime.timedelta(days=number)
        if self.kind == "text":
            return self.values[number]
        if self.kind == "bool":
            return bool(number)
        return scaled(number, self.places) if self.kind == "decimal" else number

    # Many values

    def numbers(self, raw: Raw, name: str) -> Int64Array:
        """Values as integers, 0 where NULL. Raises DtypeError, PlaintextRangeError, which name the column and a row.

        >>> hg.query.Column("decimal", places=2, low=0, high=1, nullable=False).numbers((np.array([0.25, 1.0]), np.array([True, True])), "discount")
        array([ 25, 100])
        """
        values, valid = raw
        found = np.zeros(len(values), np.int64)
        if not valid.all() and self.nullable is False:
            row = int(np.flatnonzero(~valid)[0])
            raise _core.PlaintextRangeError(f"{printable(name)} is NULL in row {row:,}; a column is nullable=True for that")
        if valid.any():
            found[valid] = self._integers(values[valid], np.flatnonzero(valid), name)
        return found

    def _integers(self, values: Array, rows: Int64Array, name: str) -> Int64Array:
        made = {"date": self._days, "text": self._codes, "bool": self._truths}.get(self.kind, self._scaled)(values)
        wrong = made is None
        if made is None:  # one by one, for a sentence that names the first
            for row, value in zip(rows, values, strict=True):
                self._require(value, f"{printable(name)}, row {row:,}")
        if wrong or made is None:
            raise _core.DtypeError(f"{printable(name)} has values that are not of a column of {self._kind()}")
        if self.low is not None and self.high is not None:
            outside = np.flatnonzero((made < self.low) | (made > self.high))
            if len(outside):
                row = int(outside[0])
                raise _core.PlaintextRangeError(
                    f"{printable(name)}, row {rows[row]:,}: {described(values[row])} is outside of what the column is said to "
                    f"hold, {self._range()}"
                )
        return made

    def _require(self, value: Any, what: str) -> None:
        if self.kind == "text":
            if not isinstance(value, str):
                raise _core.DtypeError(f"{what}: {described(value)} is no text")
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
                made = values.astype(np.float64) * 10**self.places
                near = np.rint(made)
                # a float stands for the decimal whose nearest float it is: exact numbers of at most 53 bits, one division
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
        known = {text: code for code, text in enumerate(self.values)}
        codes = np.array([known.get(text, -1) for text in texts], np.int64)
        return None if (codes < 0).any() else codes[where]

    def _truths(self, values: Array) -> Int64Array | None:
        if values.dtype.kind != "b" and not all(isinstance(value, (bool, np.bool_)) for value in values.tolist()):
            return None
        return values.astype(bool).astype(np.int64)

    def completed(self, raw: Raw, name: str) -> Column:
        """With what was left out taken from the data.

        >>> hg.query.Column("int").completed((np.array([3, 9]), np.array([True, True])), "a")
        <column int, 3 to 9>
        """
        values, valid = raw
        column = copy.copy(self)
        if self.kind == "text" and not self.values:
            found = {value for value in values[valid].tolist() if isinstance(value, str)}
            for value in found:
                require_written(value, f"a value of {printable(name)}")
            column._set("values", tuple(sorted(found)))
            column._set("low", 0)
            column._set("high", max(0, len(found) - 1))
        if self.nullable is None:
            column._set("nullable", not bool(valid.all()))
        if column.low is None or column.high is None:
            numbers = column.numbers(raw, name)[valid]
            least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
            low, high = least if column.low is None else column.low, most if column.high is None else column.high
            column._set("low", min(low, high))
            column._set("high", high)
        else:
            column.numbers(raw, name)  # within them, or an error that names a row
        return column

    # As data

    def data(self) -> dict[str, Any]:
        """For a file.

        >>> hg.query.Column("decimal", places=2, low=0, high=1, nullable=False).data()["places"]
        2
        """
        return {
            **{"kind": self.kind, "places": self.places, "low": self.low, "high": self.high},
            **{"values": list(self.values), "nullable": bool(self.nullable)},
        }

    @staticmethod
    def of_data(data: Any) -> Column:
        """Reads `data`. Raises DamagedFileError.

        >>> hg.query.Column.of_data(hg.query.Column("decimal", places=2, low=0, high=1, nullable=False).data())
        <column decimal(2), 0.00 to 1.00>
        """
        wrong = _core.DamagedFileError("a column of this table is none")
        if not isinstance(data, dict) or set(data) != {"kind", "places", "low", "high", "values", "nullable"}:
            raise wrong
        low, high, values = data["low"], data["high"], data["values"]
        if not all(is_whole(bound) and abs(bound) <= _LARGEST for bound in (low, high)) or low > high:
            raise wrong
        if not isinstance(values, list) or not isinstance(data["nullable"], bool) or not is_whole(data["places"]):
            raise wrong
        try:
            made = Column(data["kind"], places=data["places"], values=tuple(values), nullable=data["nullable"])
        except _core.HeliographError:
            raise wrong from None
        if made.kind in ("text", "bool") and (low, high) != (made.low or 0, made.high or 0):
            raise wrong
        try:
            made._set("low", int(low))
            made._set("high", int(high))
            made.shown(int(low)), made.shown(int(high))
        except (OverflowError, IndexError):
            raise wrong from None
        return made

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
    """number / 10^places, with all its places, however many digits it has."""
    sign, digits = number < 0, tuple(int(digit) for digit in str(abs(number)))
    return decimal.Decimal((int(sign), digits, -places))


def of_values(raw: Raw, name: str) -> Column:
    """The kind of a column of which nothing was said. Raises DtypeError."""
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
    told = values[valid].tolist()
    reals = [float(value) for value in told if isinstance(value, (float, np.floating))]
    if kind == "O" and reals and all(is_real(value) for value in told):
        kind, told = "f", reals
    kinds: tuple[tuple[str, tuple[type, ...]], ...] = (
        ("bool", (bool, np.bool_)),
        ("int", (int, np.integer)),
        ("text", (str,)),
        ("date", (datetime.date,)),
    )
    for found, classes in kinds:
        if told and all(isinstance(value, classes) for value in told):
            return Column(found)
    if told and all(isinstance(value, (decimal.Decimal, int)) for value in told):
        exponents = [decimal.Decimal(value).as_tuple().exponent for value in told]
        if all(isinstance(e, int) for e in exponents):
            return Column("decimal", places=max(0, -min(int(e) for e in exponents)))
    if kind == "f":
        if told and all(value.is_integer() for value in told):  # integers with NULLs, as pandas has them
            return Column("int")
        raise _core.DtypeError(
            f"{printable(name)} holds real numbers: say what they are, "
            f'columns={{"{printable(name)}": hg.query.Column("decimal", places=2)}}'
        )
    raise _core.DtypeError(f"{printable(name)} holds values of no kind that a column has; there are {', '.join(KINDS)}")


# Data frames


def frame_of(frame: Any) -> dict[str, Raw]:
    """Columns of a pandas.DataFrame, a pyarrow.Table or a mapping of arrays. Raises DtypeError, ShapeError."""
    if hasattr(frame, "column_names") and hasattr(frame, "schema"):
        require_different(frame.column_names)
        found = {name: _of_arrow(frame.column(name)) for name in frame.column_names}
    elif hasattr(frame, "isna") and hasattr(frame, "columns"):
        require_different(frame.columns)
        found = {name: _of_series(frame[name]) for name in frame.columns}
    elif isinstance(frame, Mapping):
        found = {name: _of_array(values, name) for name, values in frame.items()}
    else:
        raise _core.DtypeError(
            f"a table is a pandas.DataFrame, a pyarrow.Table or a dict of arrays, not {type(frame).__name__}"
        )
    for name in found:
        if not isinstance(name, str) or not name:
            raise _core.DtypeError(f"a column's name is a text, not {described(name)}")
        require_written(name, "a column's name")
    lengths = {len(values) for values, _ in found.values()}
    if len(lengths) != 1:
        raise _core.ShapeError("a table has at least one column, and its columns are of one length")
    return found


def require_different(names: Iterable[Any]) -> None:
    """Raises ParameterError where a data frame has two columns of one name: neither pandas nor Arrow says which is meant."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise _core.ParameterError(f"the table has two columns called {described(name)}: rename one")
        seen.add(name)


def require_written(text: str, what: str) -> None:
    """Raises DtypeError for a text with half of a surrogate pair, before it is met in the middle of writing a file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _core.DtypeError(f"{what}: {printable(text)[:200]} is a text that UTF-8 cannot write") from None


def _of_array(values: Any, name: Any) -> Raw:
    if hasattr(values, "null_count") and hasattr(
        values, "is_valid"
    ):  # Arrow's, whose integers NumPy has as floats beside NULLs
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
        raise _core.ShapeError(f"{described(name)}: ragged, rows of different lengths") from None
    if array.ndim != 1:
        raise _core.ShapeError(f"a column is a list of values; {described(name)} has the shape {array.shape}")
    return array, _present(array) & ~np.ma.getmaskarray(values if isinstance(values, np.ma.MaskedArray) else array)


def _of_series(series: Any) -> Raw:
    """Of pandas, whose own integers beside NULLs ``to_numpy`` has as floats."""
    valid = np.asarray(~series.isna().to_numpy(), dtype=bool)
    own = not isinstance(series.dtype, np.dtype) and not valid.all()
    return series.to_numpy(dtype=object) if own else series.to_numpy(), valid


def _is_of_one_type(values: Any) -> bool:
    """Whether NumPy keeps a list as it is: of others it makes texts of numbers beside texts, and floats of large integers."""
    types = set(map(type, values)) if isinstance(values, (list, tuple)) else set()
    if len(types) != 1:
        return False
    (kind,) = types
    if kind is int:
        return bool(min(values) >= -(1 << 63) and max(values) < 1 << 63)
    return issubclass(kind, (bool, float, np.generic)) and not issubclass(kind, (str, bytes))


def _present(array: Array) -> BoolArray:
    """Which values are not missing."""
    if array.dtype.kind in "fc":
        return np.asarray(~np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(~np.isnat(array))
    if array.dtype == object:
        return np.array([not _missing(v) for v in array.tolist()], dtype=bool)
    return np.ones(len(array), dtype=bool)


def _missing(value: Any) -> bool:
    """None, what is no number or no day, what is masked, and pandas's own of these."""
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
