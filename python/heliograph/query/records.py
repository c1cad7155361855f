"""Rows of a table as bytes of one width, and where keys lie: what server and client of a private look-up agree on."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import described, is_whole, listed, printable, require_unmasked
from heliograph.query.columns import require_different, require_written

Bytes2D = npt.NDArray[np.uint8]
Words64 = npt.NDArray[np.uint64]
WIDEST = 1 << 16
_STRETCH = 1024  # rows of a matrix that are compared at a time
TAG = 8  #: bytes of a key's hash in its slot
_KINDS = "iufbMmSV"
_APART: tuple[Any, ...] = ((bool, np.bool_), np.datetime64, np.timedelta64)
_NUMBERS = (int, float, np.number, np.bool_, np.datetime64, np.timedelta64)
Columns = dict[str, tuple[npt.NDArray[Any], bool]]  # as they lie in rows, and whether they are texts


def columns_of(frame: Any) -> dict[str, Any]:
    """Arrays by name, of a dict, a pyarrow.Table or a pandas.DataFrame. Raises DtypeError."""
    if isinstance(frame, Mapping):
        if not all(isinstance(name, str) and name for name in frame):
            raise _core.DtypeError("the columns of a table are named by texts")
        return dict(frame)
    if hasattr(frame, "column_names"):
        require_different(frame.column_names)
        return {name: frame.column(name) for name in frame.column_names}
    if hasattr(frame, "columns"):
        require_different(str(name) for name in frame.columns)
        return {str(name): frame[name] for name in frame.columns}
    raise _core.DtypeError(f"a table is a dict of arrays, a pyarrow.Table or a pandas.DataFrame, not {type(frame).__name__}")


@dataclass(frozen=True)
class Field:
    """A column in a row: its name, NumPy's dtype in the row, and whether its bytes are a text's, in UTF-8."""

    name: str
    dtype: str
    text: bool = False


def _array_of(values: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
    """A column as it lies in rows, and whether it is texts. Raises DtypeError."""
    null = values.isna() if hasattr(values, "isna") else None  # of pandas
    if getattr(values, "null_count", 0) or (null is not None and bool(np.any(null))):
        raise _core.DtypeError(
            f"column {printable(name)} has NULLs, which a row does not keep: fill them, or drop their rows"
        )
    require_unmasked(values, f"column {printable(name)}: its values")
    array = np.asarray(values) if hasattr(values, "__array__") else None
    if array is None or (array.ndim == 1 and array.dtype.kind in "OU"):
        several = listed(values if array is None else array.tolist())
        if several and all(isinstance(v, str) for v in several):
            return _coded(several, name), True
        array = np.asarray(0 if several is None else _of_list(several, name))
    if array.ndim != 1 or array.dtype.kind not in _KINDS or array.dtype.names:
        raise _core.DtypeError(f"column {printable(name)} is no row of numbers, texts, bytes, days or truth values")
    if array.dtype.kind == "S":  # trailing zeros are kept: bytes of one length
        return np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}"), False
    return array.astype(array.dtype.newbyteorder("<")), False


def _coded(texts: list[str], name: str) -> npt.NDArray[Any]:
    """Texts in UTF-8."""
    try:
        coded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        raise _core.DtypeError(f"column {printable(name)} has a text that UTF-8 cannot write") from None
    if any(text.endswith(b"\0") for text in coded):
        raise _core.DtypeError(f"a text of column {printable(name)} ends in a zero, which a row does not keep")
    return np.array(coded, dtype=f"S{max([1, *map(len, coded)])}")


def _of_list(several: list[Any], name: str) -> npt.NDArray[Any]:
    """Of values that must be of one kind: NumPy makes texts of bytes and of numbers that are beside texts."""
    if several and all(isinstance(v, bytes) for v in several):
        if len(lengths := set(map(len, several))) > 1 or 0 in lengths:
            raise _core.DtypeError(
                f"column {printable(name)} has bytes of {min(lengths)} to {max(lengths)}; those of a column are of one length: pad them"
            )
        return np.frombuffer(b"".join(several), f"V{len(several[0])}")
    kinds = set(map(type, several))
    if kinds == {datetime.date}:
        return np.array(several, "M8[D]")
    if several and all(map(is_whole, several)):
        return _whole_numbers([int(v) for v in several], name)
    apart = [
        {kind for kind in kinds if issubclass(kind, one)} for one in _APART
    ]  # NumPy makes numbers of these beside numbers
    if not all(issubclass(kind, _NUMBERS) for kind in kinds) or any(some and some != kinds for some in apart):
        strange = next((v for v in several if not isinstance(v, (*_NUMBERS, str, bytes))), None)
        beside = next((v for v in several if type(v) is not type(several[0])), strange)
        raise _core.DtypeError(
            f"column {printable(name)} has {described(beside if strange is None and len(kinds) > 1 else strange)}: "
            "values are numbers, texts, bytes, days or truth values, all of one kind"
        )
    try:
        array = np.asarray(several)
    except (TypeError, ValueError):
        raise _core.DtypeError(
            f"column {printable(name)}: values are of different kinds, of which a column has one"
        ) from None
    if array.dtype.kind == "O":
        raise _core.DtypeError(f"column {printable(name)} has a number of more than 64 bits")
    if array.dtype.kind == "f":
        for value, made in zip(several, array.tolist(), strict=True):
            if is_whole(value) and int(value) != made:
                raise _core.DtypeError(
                    f"column {printable(name)}: {described(value)} stands beside real numbers, and a float does not hold it; "
                    "make its values of one kind"
                )
    return array


def _whole_numbers(several: list[int], name: str) -> npt.NDArray[Any]:
    """As int64, or as uint64 if one is beyond it: never as floats. Raises DtypeError."""
    low, high = min(several), max(several)
    if low < -(1 << 63) or high >= 1 << (63 if low < 0 else 64):
        raise _core.DtypeError(
            f"column {printable(name)}: whole numbers from {described(low)} to {described(high)} take more than 64 bits"
        )
    return np.array(several, np.int64 if high < 1 << 63 else np.uint64)


def _fits(array: npt.NDArray[Any], wide: np.dtype[Any]) -> bool:
    """Whether each value is one of a column's type too."""
    kinds = array.dtype.kind + wide.kind
    if len(array) and kinds in ("ii", "iu", "ui", "uu", "if", "uf"):
        most = 2 ** (np.finfo(wide).nmant + 1) if wide.kind == "f" else np.iinfo(wide).max
        return (-most if wide.kind == "f" else np.iinfo(wide).min) <= int(array.min()) and int(array.max()) <= most
    if kinds == "VV":
        return array.dtype == wide
    if array.dtype.kind != wide.kind:
        return False
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(wide).astype(array.dtype), array, equal_nan=wide.kind in "fMm")


#: Types of columns as `numpy.dtype.str` has them: nothing else is read as one, for NumPy reads some texts as Python.
_TYPE = re.compile(
    r"[<|]i1|[<|]u1|<[iu][248]|<f(?:2|4|8|16)|[<|]b1|\|[SV][1-9][0-9]{0,4}|"
    r"<[mM]8(?:\[(?:[1-9][0-9]{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)


def _dtype_of(text: str) -> np.dtype[Any]:
    """A column's type by its text. Raises ValueError, TypeError."""
    if not _TYPE.fullmatch(text):
        raise ValueError(text)
    return np.dtype(text)


def fields_of(said: Any) -> list[Field]:
    """Columns by a file's header. Raises ValueError."""
    if not isinstance(said, list) or len(said) > WIDEST:
        raise ValueError
    for one in said:
        if not isinstance(one, dict) or set(one) != {"name", "dtype", "text"} or type(one["text"]) is not bool:
            raise ValueError
        if not isinstance(one["name"], str) or not one["name"] or not isinstance(one["dtype"], str):
            raise ValueError
    return [Field(**one) for one in said]


class Records:
    """How rows lie in bytes. Without fields a row is bytes as they are."""

    def __init__(self, fields: list[Field], width: int) -> None:
        self.fields, self.width = fields, width
        try:
            several = [_dtype_of(f.dtype) for f in fields]
            self._dtype = np.dtype([(f.name, kind) for f, kind in zip(fields, several, strict=True)])
            if not all(
                kind.kind in ("S" if f.text else _KINDS) and not kind.names and kind.subdtype is None
                for f, kind in zip(fields, several, strict=True)
            ):
                raise ValueError
        except (TypeError, ValueError):
            raise _core.DamagedFileError("a look-up's file names columns that no table has") from None
        if fields and self._dtype.itemsize != width:
            raise _core.DamagedFileError("a look-up's file has columns of another width than its rows")

    def field(self, name: str) -> Field:
        """A column by its name."""
        return next(f for f in self.fields if f.name == name)

    def kind(self, name: str) -> str:
        """NumPy's kind of a column."""
        return _dtype_of(self.field(name).dtype).kind

    def told(self) -> str:
        """The columns and their types, for people."""
        return ", ".join(f"{f.name} ({'text' if f.text else _dtype_of(f.dtype).name})" for f in self.fields)

    @classmethod
    def made(cls, frame: Any) -> tuple[Records, Bytes2D, Columns]:
        """Of a table: how its rows lie, the rows [row, byte], and its columns. Raises DtypeError, ShapeError."""
        arrays: Columns = {}
        if isinstance(frame, np.ndarray):
            if frame.ndim != 2 or frame.dtype != np.uint8:
                raise _core.DtypeError("rows of bytes are a two-dimensional array of uint8")
            records, rows = cls([], frame.shape[1]), np.ascontiguousarray(frame)
        else:
            columns = columns_of(frame)
            if not columns:
                raise _core.ShapeError("a table has columns")
            for name in columns:
                require_written(name, "a column's name")
            arrays = {name: _array_of(values, name) for name, values in columns.items()}
            if len({len(array) for array, _ in arrays.values()}) != 1:
                raise _core.ShapeError("the columns of a table are of different lengths")
            fields = [Field(name, array.dtype.str, text) for name, (array, text) in arrays.items()]
            records = cls(fields, sum(array.dtype.itemsize for array, _ in arrays.values()))
            rows = records._packed(arrays)
        if not len(rows) or not 1 <= records.width <= WIDEST:
            raise _core.ShapeError(f"a table has rows of 1 to {WIDEST:,} bytes; this has {len(rows):,} of {records.width:,}")
        return records, rows, arrays

    def _packed(self, arrays: Columns) -> Bytes2D:
        count = len(next(iter(arrays.values()))[0])
        packed = np.zeros(count, dtype=self._dtype)
        for f in self.fields:
            packed[f.name] = arrays[f.name][0]
        return packed.view(np.uint8).reshape(count, self.width)

    def fitted(self, frame: Any) -> tuple[Bytes2D, Columns]:
        """Other rows of the same columns, in any order. Raises DtypeError, ShapeError where they are not, or do not fit."""
        other, rows, columns = Records.made(frame)
        if not self.fields or not other.fields:
            if other.fields or self.fields or other.width != self.width:
                raise _core.ShapeError(f"this table has other rows than these: its own have {self.width:,} bytes")
            return rows, columns
        if set(columns) != {f.name for f in self.fields}:
            raise _core.ShapeError(f"this table has the columns {printable(', '.join(f.name for f in self.fields))}")
        arrays: Columns = {}
        for f in self.fields:
            (array, text), wide = columns[f.name], _dtype_of(f.dtype)
            if text != f.text or not _fits(array, wide):
                raise _core.DtypeError(
                    f"column {printable(f.name)} has values of {array.dtype.str} that do not fit its {f.dtype}"
                )
            arrays[f.name] = (array.astype(wide), text)
        return self._packed(arrays), arrays

    def read(self, row: bytes) -> Any:
        """A row's values by column; without columns its bytes."""
        if not self.fields:
            return row
        found = np.frombuffer(row, dtype=self._dtype)[0]
        values = {}
        for f in self.fields:
            value = found[f.name]
            plain = value.item() if value.dtype.kind in "iufbS" else value.tobytes() if value.dtype.kind == "V" else value
            values[f.name] = plain.decode("utf-8", "replace") if f.text else plain
        return values


#: What keys a column has, by NumPy's kind of it.
KEYS = {"i": "whole numbers", "u": "whole numbers", "S": "texts", "V": "bytes"}


def require_key(key: Any, field: Field) -> None:
    """Raises DtypeError for a key that no row of a column can have: of another kind, or bytes of another length."""
    column = _dtype_of(field.dtype)
    kind = KEYS.get(column.kind, "other values")
    own = {"whole numbers": is_whole(key), "texts": isinstance(key, str), "bytes": isinstance(key, bytes)}.get(kind, False)
    if not own:
        raise _core.DtypeError(
            f"cannot look up {described(key)}, of type {type(key).__name__}: the keys of this table, column {printable(field.name)}, "
            f"are {kind}: ask for one of these"
        )
    if kind == "bytes" and len(key) != column.itemsize:
        raise _core.DtypeError(f"keys of this table have {column.itemsize:,} bytes, not {len(key):,}")


def key_bytes(key: Any) -> bytes:
    """A key as what is hashed: whole numbers, texts and bytes are never alike. Raises DtypeError."""
    if isinstance(key, str):
        return b"t" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if is_whole(key):
        return b"i" + str(int(key)).encode()
    raise _core.DtypeError(f"keys are whole numbers, texts or bytes, not {described(key)}")


def keys_of(column: tuple[npt.NDArray[Any], bool]) -> list[Any]:
    """The values of a column, as they are asked for."""
    array, text = column
    return [key.decode() for key in array.tolist()] if text else list(array.tolist())


def hashed(keys: Any, seed: bytes) -> tuple[Words64, Words64]:
    """Of each key a tag of 64 bits, never 0, and a hash: it may lie in bucket hash mod n or (tag - hash) mod n."""
    tags, places = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
    for i, key in enumerate(keys):
        digest = hashlib.blake2b(key_bytes(key), digest_size=16, key=seed).digest()
        tags[i] = int.from_bytes(digest[:8], "little") or 1
        places[i] = int.from_bytes(digest[8:], "little")
    return tags, places


def other_bucket(tags: Any, bucket: Any, buckets: int) -> Any:
    """Where what lies in a bucket may lie besides."""
    n = np.uint64(buckets)
    return (tags % n + n - np.asarray(bucket, dtype=np.uint64)) % n


@dataclass(frozen=True)
class Shape:
    """A table's matrix of bytes, and how many slots of a width one of its rows has."""

    rows: int
    columns: int
    slot: int

    @property
    def slots(self) -> int:
        """Of a row."""
        return self.columns // self.slot

    def tags(self, matrix: Bytes2D, count: int) -> Words64:
        """Of the keys in a matrix's slots, `count` of them; 0 where there is none. Raises DamagedFileError."""
        slots = matrix[:, : self.slots * self.slot].reshape(self.rows, self.slots, self.slot)
        found = np.ascontiguousarray(slots[:, :, :TAG]).view("<u8")[:, :, 0].astype(np.uint64)
        if np.count_nonzero(found) != count:
            raise _core.DamagedFileError("a look-up's table has another number of keys than it says")
        return found

    @classmethod
    def of(cls, count: int, slot: int, keyed: bool) -> Shape:
        """So that questions and answers of `count` slots are short together: a row of the matrix costs 4 bytes up, 2,048 columns
        10 kB down and time. Keyed: with room to move in. Raises ParameterError."""
        step = _core.LOOKUP_STEP
        parts = max(math.ceil(math.sqrt(count * slot) / (4 * step)), math.ceil(slot / step))
        while parts * step <= _core.LOOKUP_MOST_COLUMNS:
            slots = parts * step // slot
            share = {1: 0.4, 2: 0.75, 3: 0.85}.get(slots, 0.9) if keyed else 1
            rows = math.ceil(math.ceil(count / share) / slots / step) * step
            if rows <= _core.LOOKUP_MOST_ROWS:
                return cls(rows, parts * step, slot)
            parts += 1
        raise _core.ParameterError(f"{count:,} rows of {slot:,} bytes are more than one table holds; make several")


def changed_slots(before: Bytes2D, after: Bytes2D, shape: Shape) -> list[tuple[int, int]]:
    """Rows and slots in which two matrices differ."""
    used, found = shape.slots * shape.slot, list[tuple[int, int]]()
    for first in range(0, shape.rows, _STRETCH):
        part = slice(first, first + _STRETCH)
        same = (before[part, :used] == after[part, :used]).reshape(-1, shape.slots, shape.slot).all(axis=2)
        rows, slots = np.nonzero(~same)
        found += zip((rows + first).tolist(), slots.tolist(), strict=True)
    return found
