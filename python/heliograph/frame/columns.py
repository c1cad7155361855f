"""Columns of an encrypted frame: reals by CKKS, and the exact columns of `hg.sql` by BGV."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import described, flag, is_real, printable
from heliograph._common.columns import BoolArray, Column, Int64Array, Raw, frame_of, of_values

Floats = npt.NDArray[np.float64]
NUMBERS = ("real", "int", "decimal", "bool")
_MOST_CATEGORIES = 256


@dataclass(frozen=True)
class Real:
    """Description of a column of real numbers. The description is public: the server reads it.

    `low` and `high` bound the values, and the error of a result is proportional to their distance. `nullable` allows NULL.
    `hg.frame.parameters_for` takes missing bounds from the data, rounded outward to an eighth of their distance.

    >>> hg.frame.Real(18, 90)
    <column real, 18 to 90>
    """

    low: float | None = None
    high: float | None = None
    nullable: bool | None = None

    kind = "real"

    def __post_init__(self) -> None:
        for limit in (self.low, self.high):
            if limit is not None and not (is_real(limit) and math.isfinite(limit)):
                raise _core.ParameterError(f"a bound of a column must be a finite number, got {described(limit)}")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise _core.ParameterError(f"a column's low must be below its high, got {self.low:g} and {self.high:g}")
        if self.nullable is not None:
            flag(self.nullable, "nullable")

    def numbers(self, raw: Raw, name: str) -> Floats:
        """Returns the values as float64, 0 for NULL. Raises DtypeError, PlaintextRangeError, naming the column and a row.

        >>> import numpy as np
        >>> hg.frame.Real(0, 9).numbers((np.array([2.5, np.nan]), np.array([True, False])), "a")
        array([2.5, 0. ])
        """
        values, valid = raw
        numbers = np.zeros(len(values))
        if values.dtype.kind in "cmMUS" or any(isinstance(value, str) for value in values.tolist()):
            raise _core.DtypeError(f"{printable(name)} must hold real numbers, got values of {values.dtype}; convert them")
        try:
            numbers[valid] = values[valid].astype(np.float64)
        except (TypeError, ValueError):
            raise _core.DtypeError(f"{printable(name)} must hold real numbers; convert its values to float") from None
        if np.isnan(numbers).any():
            row = int(np.flatnonzero(np.isnan(numbers))[0])
            raise _core.PlaintextRangeError(
                f"{printable(name)} is NaN in row {row:,}, which is no NULL in Arrow and polars; replace NaN by NULL or by "
                "numbers"
            )
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise _core.PlaintextRangeError(
                f"{printable(name)} is infinite in row {row:,}; replace the value or make it NULL"
            )
        if self.nullable is False and not valid.all():
            row = int(np.flatnonzero(~valid)[0])
            raise _core.PlaintextRangeError(
                f"{printable(name)} is NULL in row {row:,}; give the column nullable=True, or fill it"
            )
        outside = valid & np.array(
            (numbers < (-math.inf if self.low is None else self.low))
            | (numbers > (math.inf if self.high is None else self.high))
        )
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise _core.PlaintextRangeError(
                f"{printable(name)}, row {row:,}: {numbers[row]:g} is outside the column's bounds, {self._range()}; give "
                "wider ones in columns="
            )
        return numbers

    def completed(self, raw: Raw, name: str) -> Real:
        """Returns a copy of the description with missing fields taken from the data.

        >>> hg.frame.parameters_for({"a": [0.3, 6.2]}).columns["a"]
        <column real, 0 to 7>
        """
        values, valid = self.numbers(raw, name), raw[1]
        present = values[valid] if valid.any() else np.zeros(1)
        least, most = float(present.min()), float(present.max())
        largest = max(abs(least), abs(most))
        if largest > 2.0**500:
            raise _core.PlaintextRangeError(f"{printable(name)} has values up to {largest:g}; change its unit")
        width = max(most - least, largest * 2.0**-40, 2.0**-500) if most > least else largest or 1.0
        step = 2.0 ** (math.ceil(math.log2(width)) - 3)
        low = math.floor(least / step) * step if self.low is None else float(self.low)
        high = math.ceil(most / step) * step if self.high is None else float(self.high)
        if low >= high:  # a constant
            low, high = (low - step, high) if self.low is None else (low, low + step)
        return Real(low, high, bool(not valid.all()) if self.nullable is None else self.nullable)

    def _range(self) -> str:
        low, high = ("any" if end is None else f"{end:g}" for end in (self.low, self.high))
        return f"{low} to {high}"

    def __repr__(self) -> str:
        return f"<column real, {self._range()}{', nullable' if self.nullable else ''}>"


AnyColumn = Real | Column


def raws_of(frame: Any) -> dict[str, Raw]:
    """Returns the columns of a data frame of pandas, polars or Arrow, or of a mapping. Raises DtypeError, ShapeError."""
    if hasattr(frame, "to_arrow") and not hasattr(frame, "isna"):
        try:
            frame = frame.to_arrow()
        except (ValueError, TypeError, NotImplementedError) as error:
            raise _core.DtypeError(f"cannot convert this {type(frame).__name__} to Arrow: {printable(str(error))}") from None
    raws = frame_of(frame)
    rows = len(next(iter(raws.values()))[0])
    if rows == 0:
        raise _core.ShapeError("cannot encrypt a frame without rows; it must have at least one")
    return raws


def columns_of(raws: dict[str, Raw], declared: Mapping[str, AnyColumn] | None) -> dict[str, AnyColumn]:
    """Returns the description of each column. Raises DtypeError, ParameterError, PlaintextRangeError."""
    given = dict(declared or {})
    for name in given:
        if name not in raws:
            raise _core.ParameterError(f"columns= has {described(name)}, but the frame's columns are {', '.join(raws)}")
    columns: dict[str, AnyColumn] = {}
    for name, raw in raws.items():
        if name not in given:
            _require_one_kind(raw, name)
        column = given.get(name) or (Real() if raw[0].dtype.kind == "f" or _has_floats(raw) else of_values(raw, name))
        if not isinstance(column, (Real, Column)):
            raise _core.DtypeError(
                f"columns[{described(name)}] must be an hg.frame.Real or an hg.frame.Column, got {described(column)}"
            )
        if column.kind == "date":
            raise _core.DtypeError(
                f"{printable(name)} holds dates, which a frame does not have; convert them to days, as integers"
            )
        column = column.completed(raw, name)
        if column.kind == "text" and not column.values:  # type: ignore[union-attr]
            raise _core.DtypeError(f"{printable(name)}, a column of text, has no values; drop the column")
        if isinstance(column, Column) and len(column.values) > _MOST_CATEGORIES:
            raise _core.ParameterError(
                f"{printable(name)} has {len(column.values)} texts, above the maximum of {_MOST_CATEGORIES}; drop the column"
            )
        columns[name] = column
    return columns


def _require_one_kind(raw: Raw, name: str) -> None:
    """Raises DtypeError for objects of floats with truth values or decimals."""
    if _has_floats(raw):
        values, valid = raw
        for row, value in zip(np.flatnonzero(valid), values[valid].tolist(), strict=True):
            if isinstance(value, (bool, np.bool_, Decimal)):
                raise _core.DtypeError(
                    f"{printable(name)} holds floats and, in row {row:,}, {described(value)}: the values of a column must "
                    "be of one kind; convert them, or declare the column as hg.frame.Real()"
                )


def _has_floats(raw: Raw) -> bool:
    values, valid = raw
    return values.dtype == object and any(isinstance(value, (float, np.floating)) for value in values[valid].tolist())


def centre_of(column: AnyColumn) -> tuple[float, float]:
    """Returns (scale, offset) such that (value - offset) / scale is in [-1, 1]."""
    low, high = (float(end) for end in (column.low or 0, column.high or 0))
    unit = 10.0**-column.places if isinstance(column, Column) else 1.0
    scale = (high - low) / 2 or max(1.0, abs(high))
    return scale * unit, (high + low) / 2 * unit


def data_of(column: AnyColumn) -> Any:
    """Returns a column for a file's header."""
    if isinstance(column, Column):
        return column.data()
    return {"kind": "real", "low": column.low, "high": column.high, "nullable": bool(column.nullable)}


def of_data(data: Any) -> AnyColumn:
    """Reads `data_of`. Raises DamagedFileError."""
    if not isinstance(data, dict) or data.get("kind") != "real":
        return Column.of_data(data)
    try:
        column = Real(**{name: value for name, value in data.items() if name != "kind"})
    except (TypeError, _core.HeliographError):
        raise _core.DamagedFileError("this frame's header describes an invalid column") from None
    if column.low is None or column.high is None or column.nullable is None:
        raise _core.DamagedFileError("this frame's header describes an invalid column")
    return column


def indicators(column: Column, numbers: Int64Array, valid: BoolArray) -> Int64Array:
    """Returns a vector for each value of a column of text or bool, 1 in its rows, [values, rows]."""
    codes = np.arange(int(column.high or 0) + 1)[:, None]
    return np.asarray((numbers[None, :] == codes) & valid[None, :], dtype=np.int64)
