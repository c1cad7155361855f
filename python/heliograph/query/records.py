"""Rows of a table as bytes of one width, and where keys lie: what server and client of a private look-up agree on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import described, is_whole, printable

Bytes2D = npt.NDArray[np.uint8]
Words64 = npt.NDArray[np.uint64]
WIDEST = 1 << 16
TAG = 8  #: bytes of a key's hash in its slot


def columns_of(frame: Any) -> dict[str, Any]:
    """Arrays by name, of a dict, a pyarrow.Table or a pandas.DataFrame. Raises DtypeError."""
    if isinstance(frame, Mapping):
        return dict(frame)
    if hasattr(frame, "column_names"):
        return {name: frame.column(name).to_numpy() for name in frame.column_names}
    if hasattr(frame, "columns"):
        return {str(name): frame[name].to_numpy() for name in frame.columns}
    raise _core.DtypeError(f"a table is a dict of arrays, a pyarrow.Table or a pandas.DataFrame, not {type(frame).__name__}")


@dataclass(frozen=True)
class Field:
    """A column in a row: its name, NumPy's dtype in the row, and whether its bytes are a text's, in UTF-8."""

    name: str
    dtype: str
    text: bool = False


def _array_of(values: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "OU":
        if not all(isinstance(v, str) for v in array.tolist()):
            raise _core.DtypeError(f"column {printable(name)} holds texts and other things, or nothing, in one column")
        coded = [v.encode() for v in array.tolist()]
        if any(v.endswith(b"\0") for v in coded):
            raise _core.DtypeError(f"a text of column {printable(name)} ends in a zero, which a row does not keep")
        return np.array(coded, dtype=f"S{max([1, *map(len, coded)])}"), True
    if array.ndim != 1 or array.dtype.kind not in "iufbMmS":
        raise _core.DtypeError(f"column {printable(name)} is no row of numbers, texts, bytes, days or truth values")
    if array.dtype.kind == "S":  # trailing zeros are kept: bytes of one length
        return array.view(f"V{array.dtype.itemsize}"), False
    return array.astype(array.dtype.newbyteorder("<")), False


class Records:
    """How rows lie in bytes. Without fields a row is bytes as they are."""

    def __init__(self, fields: list[Field], width: int) -> None:
        self.fields, self.width = fields, width
        try:
            self._dtype = np.dtype([(f.name, f.dtype) for f in fields])
        except (TypeError, ValueError):
            raise _core.DamagedFileError("a look-up's file names columns that no table has") from None
        if fields and self._dtype.itemsize != width:
            raise _core.DamagedFileError("a look-up's file has columns of another width than its rows")

    @classmethod
    def made(cls, frame: Any) -> tuple[Records, Bytes2D, dict[str, Any]]:
        """Of a table: how its rows lie, the rows [row, byte], and its columns. Raises DtypeError, ShapeError."""
        if isinstance(frame, np.ndarray):
            if frame.ndim != 2 or frame.dtype != np.uint8:
                raise _core.DtypeError("rows of bytes are a two-dimensional array of uint8")
            records, rows, columns = cls([], frame.shape[1]), np.ascontiguousarray(frame), {}
        else:
            columns = columns_of(frame)
            if not columns:
                raise _core.ShapeError("a table has columns")
            arrays = {name: _array_of(values, name) for name, values in columns.items()}
            if len({len(array) for array, _ in arrays.values()}) != 1:
                raise _core.ShapeError("the columns of a table are of different lengths")
            fields = [Field(name, array.dtype.str, text) for name, (array, text) in arrays.items()]
            records = cls(fields, sum(array.dtype.itemsize for array, _ in arrays.values()))
            rows = records._packed(arrays)
        if not len(rows) or not 1 <= records.width <= WIDEST:
            raise _core.ShapeError(f"a table has rows of 1 to {WIDEST:,} bytes; this has {len(rows):,} of {records.width:,}")
        return records, rows, columns

    def _packed(self, arrays: dict[str, tuple[npt.NDArray[Any], bool]]) -> Bytes2D:
        count = len(next(iter(arrays.values()))[0])
        packed = np.zeros(count, dtype=self._dtype)
        for f in self.fields:
            packed[f.name] = arrays[f.name][0]
        return packed.view(np.uint8).reshape(count, self.width)

    def fitted(self, frame: Any) -> tuple[Bytes2D, dict[str, Any]]:
        """Other rows of the same columns. Raises DtypeError, ShapeError where they are not, or do not fit."""
        other, rows, columns = Records.made(frame)
        if not self.fields or not other.fields:
            if other.fields or self.fields or other.width != self.width:
                raise _core.ShapeError(f"this table has other rows than these: its own have {self.width:,} bytes")
            return rows, columns
        if [f.name for f in other.fields] != [f.name for f in self.fields]:
            raise _core.ShapeError(f"this table has the columns {printable(', '.join(f.name for f in self.fields))}")
        arrays = {}
        for mine, its in zip(self.fields, other.fields, strict=True):
            array, text = _array_of(columns[mine.name], mine.name)
            wide = np.dtype(mine.dtype)
            fits = np.array_equal(array.astype(wide).astype(array.dtype), array) if array.dtype.kind == wide.kind else False
            if text != mine.text or not fits:
                raise _core.DtypeError(
                    f"column {printable(mine.name)} has values of {its.dtype} that do not fit its {mine.dtype}"
                )
            arrays[mine.name] = (array.astype(wide), text)
        return self._packed(arrays), columns

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


def key_bytes(key: Any) -> bytes:
    """A key as what is hashed: whole numbers, texts and bytes are never alike. Raises DtypeError."""
    if isinstance(key, str):
        return b"t" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if is_whole(key):
        return b"i" + str(int(key)).encode()
    raise _core.DtypeError(f"keys are whole numbers, texts or bytes, not {described(key)}")


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
