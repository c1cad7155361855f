"""Rows of a table as bytes of one width, and the placement of keys in buckets: shared by server and client of a private
look-up.
"""

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
from heliograph._common.arguments import described, is_whole, listed, printable, require_unmasked
from heliograph._common.columns import require_different, require_spelling

Bytes2D = npt.NDArray[np.uint8]
Words64 = npt.NDArray[np.uint64]
WIDEST = 1 << 16
_STRETCH = 1024  # rows of a matrix that are compared at a time
TAG = 8  #: bytes of a key's hash in its slot
_KINDS = "iufbMmSV"
_SEPARATE_KINDS: tuple[Any, ...] = ((bool, np.bool_), np.datetime64, np.timedelta64)
_NUMBERS = (int, float, np.number, np.bool_, np.datetime64, np.timedelta64)
Columns = dict[str, tuple[npt.NDArray[Any], bool]]  # encoded columns, and whether they are strings


def columns_of(frame: Any) -> dict[str, Any]:
    """Returns the arrays of a dict, a pyarrow.Table or a pandas.DataFrame by name. Raises DtypeError."""
    if isinstance(frame, Mapping):
        if not all(isinstance(name, str) and name for name in frame):
            raise _core.DtypeError("the columns' names of a table must be strings that are not empty")
        return dict(frame)
    if hasattr(frame, "column_names"):
        require_different(frame.column_names)
        return {name: frame.column(name) for name in frame.column_names}
    if hasattr(frame, "columns"):
        require_different(str(name) for name in frame.columns)
        return {str(name): frame[name] for name in frame.columns}
    raise _core.DtypeError(
        f"a table must be a dict of arrays, a pyarrow.Table or a pandas.DataFrame, got {type(frame).__name__}"
    )


@dataclass(frozen=True)
class Field:
    """A column of a row: its name, NumPy's dtype, and whether its bytes are a string in UTF-8."""

    name: str
    dtype: str
    text: bool = False


def _array_of(values: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
    """Returns a column as encoded in rows, and whether the column holds strings. Raises DtypeError."""
    null = values.isna() if hasattr(values, "isna") else None  # pandas
    if getattr(values, "null_count", 0) or (null is not None and bool(np.any(null))):
        raise _core.DtypeError(
            f"column {printable(name)} has NULLs, which a look-up's rows cannot hold; fill them, or drop their rows"
        )
    require_unmasked(values, f"column {printable(name)}: its values")
    array = np.asarray(values) if hasattr(values, "__array__") else None
    if array is None or (array.ndim == 1 and array.dtype.kind in "OU"):
        several = listed(values if array is None else array.tolist())
        if several and all(isinstance(v, str) for v in several):
            return _coded(several, name), True
        array = np.asarray(0 if several is None else _of_list(several, name))
    if array.ndim != 1 or array.dtype.kind not in _KINDS or array.dtype.names:
        raise _core.DtypeError(
            f"column {printable(name)} must hold numbers, strings, bytes, dates or truth values on one axis, got "
            f"{array.dtype} of shape {array.shape}"
        )
    if array.dtype.kind == "S":  # keeps trailing zeros: bytes of one length
        return np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}"), False
    return array.astype(array.dtype.newbyteorder("<")), False


def _coded(texts: list[str], name: str) -> npt.NDArray[Any]:
    """Encodes strings in UTF-8."""
    try:
        coded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        raise _core.DtypeError(f"column {printable(name)} has a string that cannot be written in UTF-8") from None
    if any(text.endswith(b"\0") for text in coded):
        raise _core.DtypeError(
            f"column {printable(name)} has a string that ends in a zero character, which a row cannot hold; strip it"
        )
    return np.array(coded, dtype=f"S{max([1, *map(len, coded)])}")


def _of_list(several: list[Any], name: str) -> npt.NDArray[Any]:
    """Converts a list of values of one kind. NumPy would make strings of mixed bytes, numbers and strings."""
    if several and all(isinstance(v, bytes) for v in several):
        if len(lengths := set(map(len, several))) > 1 or 0 in lengths:
            raise _core.DtypeError(
                f"the bytes of column {printable(name)} must have one length above 0, got {min(lengths)} to {max(lengths)}; "
                "pad them"
            )
        return np.frombuffer(b"".join(several), f"V{len(several[0])}")
    kinds = set(map(type, several))
    if kinds == {datetime.date}:
        return np.array(several, "M8[D]")
    if several and all(map(is_whole, several)):
        return _whole_numbers([int(v) for v in several], name)
    # In a list with numbers, NumPy would convert these types to numbers.
    apart = [{kind for kind in kinds if issubclass(kind, one)} for one in _SEPARATE_KINDS]
    if not all(issubclass(kind, _NUMBERS) for kind in kinds) or any(some and some != kinds for some in apart):
        unsupported = next((v for v in several if not isinstance(v, (*_NUMBERS, str, bytes))), None)
        beside = next((v for v in several if type(v) is not type(several[0])), unsupported)
        raise _core.DtypeError(
            f"column {printable(name)} has {described(beside if unsupported is None and len(kinds) > 1 else unsupported)}: "
            "values must be numbers, strings, bytes, dates or truth values, all of one kind"
        )
    try:
        array = np.asarray(several)
    except (TypeError, ValueError):
        raise _core.DtypeError(f"the values of column {printable(name)} must be of one kind; convert them") from None
    if array.dtype.kind == "O":
        raise _core.DtypeError(f"column {printable(name)} has a number of more than 64 bits, the limit")
    if array.dtype.kind == "f":
        for value, converted in zip(several, array.tolist(), strict=True):
            if is_whole(value) and int(value) != converted:
                raise _core.DtypeError(
                    f"column {printable(name)} mixes {described(value)} with real numbers, and a float cannot hold it; "
                    "convert the values to one kind"
                )
    return array


def _whole_numbers(several: list[int], name: str) -> npt.NDArray[Any]:
    """Converts to int64, or to uint64 if a number exceeds int64; never to floats. Raises DtypeError."""
    low, high = min(several), max(several)
    if low < -(1 << 63) or high >= 1 << (63 if low < 0 else 64):
        raise _core.DtypeError(
            f"column {printable(name)}: whole numbers from {described(low)} to {described(high)} need more than 64 bits"
        )
    return np.array(several, np.int64 if high < 1 << 63 else np.uint64)


def _fits(array: npt.NDArray[Any], wide: np.dtype[Any]) -> bool:
    """Returns whether a column's type holds each value."""
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


#: Allowed types, as `numpy.dtype.str`. NumPy would parse some other type texts as Python code.
_TYPE = re.compile(
    r"[<|]i1|[<|]u1|<[iu][248]|<f(?:2|4|8|16)|[<|]b1|\|[SV][1-9][0-9]{0,4}|"
    r"<[mM]8(?:\[(?:[1-9][0-9]{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)


def _dtype_of(text: str) -> np.dtype[Any]:
    """Parses a column's type. Raises ValueError, TypeError."""
    if not _TYPE.fullmatch(text):
        raise ValueError(text)
    return np.dtype(text)


def fields_of(descriptions: Any) -> list[Field]:
    """Parses the columns of a file's header. Raises ValueError."""
    if not isinstance(descriptions, list) or len(descriptions) > WIDEST:
        raise ValueError
    for one in descriptions:
        if not isinstance(one, dict) or set(one) != {"name", "dtype", "text"} or type(one["text"]) is not bool:
            raise ValueError
        if not isinstance(one["name"], str) or not one["name"] or not isinstance(one["dtype"], str):
            raise ValueError
    return [Field(**one) for one in descriptions]


class Records:
    """The encoding of rows as bytes. If the table has no named columns, a row is encoded as its bytes."""

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
            raise _core.DamagedFileError("the look-up's file describes columns of invalid types") from None
        if fields and self._dtype.itemsize != width:
            raise _core.DamagedFileError(
                f"the look-up's columns must have {width} bytes, the width of its rows, got {self._dtype.itemsize}"
            )

    def field(self, name: str) -> Field:
        """Returns a column by its name."""
        return next(f for f in self.fields if f.name == name)

    def kind(self, name: str) -> str:
        """Returns NumPy's kind of a column."""
        return _dtype_of(self.field(name).dtype).kind

    def columns_text(self) -> str:
        """Describes the columns and their types."""
        return ", ".join(f"{f.name} ({'text' if f.text else _dtype_of(f.dtype).name})" for f in self.fields)

    @classmethod
    def from_frame(cls, frame: Any) -> tuple[Records, Bytes2D, Columns]:
        """Returns a table's encoding, its rows [row, byte] and its columns. Raises DtypeError, ShapeError."""
        arrays: Columns = {}
        if isinstance(frame, np.ndarray):
            if frame.ndim != 2 or frame.dtype != np.uint8:
                raise _core.DtypeError(
                    f"rows of bytes must be a two-dimensional array of uint8, got {frame.dtype} of shape {frame.shape}"
                )
            records, rows = cls([], frame.shape[1]), np.ascontiguousarray(frame)
        else:
            columns = columns_of(frame)
            if not columns:
                raise _core.ShapeError("a table must have at least one column, got none")
            for name in columns:
                require_spelling(name, "a column's name")
            arrays = {name: _array_of(values, name) for name, values in columns.items()}
            if len({len(array) for array, _ in arrays.values()}) != 1:
                raise _core.ShapeError("the columns of a table must have one length, got different ones")
            fields = [Field(name, array.dtype.str, text) for name, (array, text) in arrays.items()]
            records = cls(fields, sum(array.dtype.itemsize for array, _ in arrays.values()))
            rows = records._packed(arrays)
        if not len(rows) or not 1 <= records.width <= WIDEST:
            raise _core.ShapeError(
                f"a table must have rows of 1 to {WIDEST:,} bytes, got {len(rows):,} rows of {records.width:,}"
            )
        return records, rows, arrays

    def _packed(self, arrays: Columns) -> Bytes2D:
        count = len(next(iter(arrays.values()))[0])
        packed = np.zeros(count, dtype=self._dtype)
        for f in self.fields:
            packed[f.name] = arrays[f.name][0]
        return packed.view(np.uint8).reshape(count, self.width)

    def fitted(self, frame: Any) -> tuple[Bytes2D, Columns]:
        """Encodes new rows; the order of their columns does not matter. Raises DtypeError or ShapeError for other columns,
        or values that do not fit.

        """
        other, rows, columns = Records.from_frame(frame)
        if not self.fields or not other.fields:
            if other.fields or self.fields or other.width != self.width:
                raise _core.ShapeError(f"the rows must be those of this table, of {self.width:,} bytes; got {other.width:,}")
            return rows, columns
        if set(columns) != {f.name for f in self.fields}:
            raise _core.ShapeError(
                f"the rows must have the columns {printable(', '.join(f.name for f in self.fields))}, "
                f"got {printable(', '.join(columns))}"[:1000]
            )
        arrays: Columns = {}
        for f in self.fields:
            (array, text), wide = columns[f.name], _dtype_of(f.dtype)
            if text != f.text or not _fits(array, wide):
                raise _core.DtypeError(
                    f"column {printable(f.name)} has values of {array.dtype.str} that do not fit its type {f.dtype}"
                )
            arrays[f.name] = (array.astype(wide), text)
        return self._packed(arrays), arrays

    def read(self, row: bytes) -> Any:
        """Decodes a row to values by column; if the table has no columns, returns the row's bytes."""
        if not self.fields:
            return row
        record = np.frombuffer(row, dtype=self._dtype)[0]
        values = {}
        for f in self.fields:
            value = record[f.name]
            plain = value.item() if value.dtype.kind in "iufbS" else value.tobytes() if value.dtype.kind == "V" else value
            values[f.name] = plain.decode("utf-8", "replace") if f.text else plain
        return values


#: The kind of keys by NumPy's kind of the column.
KEYS = {"i": "whole numbers", "u": "whole numbers", "S": "texts", "V": "bytes"}


def require_key(key: Any, field: Field) -> None:
    """Raises DtypeError for a key that cannot be in the table: a key of another kind, or bytes of another length."""
    column = _dtype_of(field.dtype)
    kind = KEYS.get(column.kind, "other values")
    own = {"whole numbers": is_whole(key), "texts": isinstance(key, str), "bytes": isinstance(key, bytes)}.get(kind, False)
    if not own:
        raise _core.DtypeError(
            f"cannot look up {described(key)}, of type {type(key).__name__}: the keys of this table, column "
            f"{printable(field.name)}, are {kind}; convert the key"
        )
    if kind == "bytes" and len(key) != column.itemsize:
        raise _core.DtypeError(f"keys of this table have {column.itemsize:,} bytes, got {len(key):,}")


def key_bytes(key: Any) -> bytes:
    """Returns the bytes of a key that are hashed; they differ for whole numbers, strings and bytes. Raises DtypeError."""
    if isinstance(key, str):
        return b"t" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if is_whole(key):
        return b"i" + str(int(key)).encode()
    raise _core.DtypeError(f"a key must be a whole number, a string or bytes, got {described(key)}")


def keys_of(column: tuple[npt.NDArray[Any], bool]) -> list[Any]:
    """Returns the values of a key column."""
    array, text = column
    return [key.decode() for key in array.tolist()] if text else list(array.tolist())


def hashed(keys: Any, seed: bytes) -> tuple[Words64, Words64]:
    """Returns for each key a 64-bit tag, never 0, and a hash. The key's buckets are hash mod n and (tag - hash) mod n."""
    tags, places = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
    for i, key in enumerate(keys):
        digest = hashlib.blake2b(key_bytes(key), digest_size=16, key=seed).digest()
        tags[i] = int.from_bytes(digest[:8], "little") or 1
        places[i] = int.from_bytes(digest[8:], "little")
    return tags, places


def other_bucket(tags: Any, bucket: Any, buckets: int) -> Any:
    """Returns the alternative cuckoo bucket."""
    n = np.uint64(buckets)
    return (tags % n + n - np.asarray(bucket, dtype=np.uint64)) % n


@dataclass(frozen=True)
class Shape:
    """A table's byte matrix: its rows, columns, and the width of a slot."""

    rows: int
    columns: int
    slot: int

    @property
    def slots(self) -> int:
        """Slots of a row."""
        return self.columns // self.slot

    def tags(self, matrix: Bytes2D, count: int) -> Words64:
        """Returns the tags of the keys in a matrix's slots, 0 for an empty slot. Raises DamagedFileError if there are not
        `count` keys.
        """
        slots = matrix[:, : self.slots * self.slot].reshape(self.rows, self.slots, self.slot)
        tags = np.ascontiguousarray(slots[:, :, :TAG]).view("<u8")[:, :, 0].astype(np.uint64)
        if np.count_nonzero(tags) != count:
            raise _core.DamagedFileError(
                f"the look-up's table must have {count:,} keys by its header, got {np.count_nonzero(tags):,}"
            )
        return tags

    @classmethod
    def of(cls, count: int, slot: int, keyed: bool) -> Shape:
        """Chooses the matrix shape for `count` slots with the least traffic: a matrix row costs 4 bytes of upload, and 2,048
        columns cost 10 kB of download, and time.

        Keyed tables get spare slots for cuckoo moves. Raises ParameterError.
        """
        step = _core.pir.STEP
        parts = max(math.ceil(math.sqrt(count * slot) / (4 * step)), math.ceil(slot / step))
        while parts * step <= _core.pir.MOST_COLUMNS:
            slots = parts * step // slot
            share = {1: 0.4, 2: 0.75, 3: 0.85}.get(slots, 0.9) if keyed else 1
            rows = math.ceil(math.ceil(count / share) / slots / step) * step
            if rows <= _core.pir.MOST_ROWS:
                return cls(rows, parts * step, slot)
            parts += 1
        raise _core.ParameterError(f"{count:,} rows of {slot:,} bytes do not fit in one table; split them into several")


def changed_slots(before: Bytes2D, after: Bytes2D, shape: Shape) -> list[tuple[int, int]]:
    """Returns rows and slots in which two matrices differ."""
    used, changed = shape.slots * shape.slot, list[tuple[int, int]]()
    for first in range(0, shape.rows, _STRETCH):
        part = slice(first, first + _STRETCH)
        same = (before[part, :used] == after[part, :used]).reshape(-1, shape.slots, shape.slot).all(axis=2)
        rows, slots = np.nonzero(~same)
        changed += zip((rows + first).tolist(), slots.tolist(), strict=True)
    return changed
