"""The container of docs/format.md, for what has no object in the engine: read and written here, checked as the engine checks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import printable
from heliograph._json import read_json

Array = npt.NDArray[Any]
_MAGIC, _VERSION, _READ = b"\x89HELIO\r\n", 3, (1, 2, 3)
PREFIX, DIGEST, _ALIGNMENT = 32, 32, 64
_LONGEST_HEADER, _DEEPEST, _MOST_ARRAYS, _MOST_AXES = 1 << 20, 32, 1 << 16, 16
_DTYPES = {"u8": "<u1", "i8": "<i1", "u32": "<u4", "u64": "<u8", "i64": "<i8"}
_NAMES = {np.dtype(kind): name for name, kind in _DTYPES.items()}


class Real(float):
    """A number with a fraction, as its text has it: what is written again is the same text."""

    text: str

    def __new__(cls, text: str) -> Real:
        made = super().__new__(cls, text)
        made.text = text
        return made


@dataclass(frozen=True)
class Container:
    """A container that was read whole."""

    type: str
    header: dict[str, Any]
    arrays: dict[str, Array]
    digest: str  #: SHA-256 of all its bytes, its own digest included


def canonical(value: Any, depth: int = 0) -> str:
    """The one text of a value. Raises DamagedFileError for what no header holds."""
    if depth > _DEEPEST:
        raise _core.DamagedFileError("a file's header is nested too deep")
    if isinstance(value, Real):
        return value.text
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(canonical(v, depth + 1) for v in value) + "]"
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        fields = (f"{json.dumps(name, ensure_ascii=False)}:{canonical(value[name], depth + 1)}" for name in sorted(value))
        return "{" + ",".join(fields) + "}"
    raise _core.DamagedFileError(f"a file's header holds a {type(value).__name__} that it cannot hold")


def beginning(kind: str, header: Mapping[str, Any], arrays: Sequence[tuple[str, str, Sequence[int]]]) -> bytes:
    """All before the first array, of arrays by name, dtype and shape. Raises FormatError for a header beyond what the format allows."""
    text = b""
    while True:  # offsets depend on the text's length, and it on their digits
        offset, entries = padded(PREFIX + len(text)), []
        for name, dtype, shape in arrays:
            size = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
            entries.append({"bytes": size, "dtype": dtype, "name": name, "offset": offset, "shape": list(shape)})
            offset += padded(size)
        new = canonical({"arrays": entries, "header": dict(header), "type": kind}).encode()
        if len(new) == len(text):
            break
        text = new
    if len(new) > _LONGEST_HEADER or len(arrays) > _MOST_ARRAYS:
        raise _core.FormatError(
            f"a file's header takes at most {_LONGEST_HEADER:,} bytes, and a file {_MOST_ARRAYS:,} arrays; "
            f"this would have {len(new):,} and {len(arrays):,}"
        )
    prefix = struct.pack("<8sIIQQ", _MAGIC, _VERSION, 0, len(new), offset + DIGEST)
    return (prefix + new).ljust(padded(PREFIX + len(new)), b"\0")


def to_bytes(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """A container. Raises FormatError for a header beyond what the format allows."""
    words = {name: np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")) for name, a in arrays.items()}
    parts = [beginning(kind, header, [(name, _NAMES[a.dtype], a.shape) for name, a in words.items()])]
    for array in words.values():
        parts += [array.tobytes(), bytes(padded(array.nbytes) - array.nbytes)]
    whole = b"".join(parts)
    return whole + hashlib.sha256(whole).digest()


def from_bytes(data: bytes | bytearray | memoryview) -> Container:
    """Reads and checks everything, in the order of docs/format.md. Raises FormatError, VersionError, DamagedFileError."""
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError):
        raise _core.DtypeError(f"a file's bytes are bytes in a row, not {type(data).__name__}") from None
    length = header_length(bytes(view[:PREFIX]), len(view))
    if hashlib.sha256(view[:-DIGEST]).digest() != bytes(view[-DIGEST:]):
        raise _core.DamagedFileError("the digest does not fit: the file was changed")
    said = parsed(bytes(view[PREFIX : PREFIX + length]))
    start = padded(PREFIX + length)
    _require_zeros(view[PREFIX + length : start])
    arrays: dict[str, Array] = {}
    for entry in said["arrays"]:
        name, dtype, shape, size = described(entry, start)
        if name in arrays:
            raise _core.DamagedFileError("two arrays of a file have one name")
        stop = start + size
        if stop > len(view) - DIGEST:
            raise _core.DamagedFileError("an array goes beyond the end of its file")
        try:
            arrays[name] = np.frombuffer(view[start:stop], dtype=dtype).reshape(shape)
        except ValueError:  # an axis of length zero beside those that no array has
            raise _core.DamagedFileError("a file's array has no shape that an array has") from None
        start = padded(stop)
        _require_zeros(view[stop:start])
    if start != len(view) - DIGEST:
        raise _core.DamagedFileError("a file holds more than its arrays")
    return Container(said["type"], said["header"], arrays, hashlib.sha256(view).hexdigest())


def load(path: str) -> Container:
    """The same of a file, read whole. Raises OSError, OutOfMemoryError besides."""
    with Path(path).open("rb") as stream:
        prefix = stream.read(PREFIX)
        header_length(prefix, os.fstat(stream.fileno()).st_size)  # before memory is taken
        try:
            return from_bytes(prefix + stream.read())
        except MemoryError:
            raise _core.OutOfMemoryError(f"{printable(path)} is larger than the memory there is") from None


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file to write, which takes the path's place when all is written, or never. Raises OSError."""
    target = Path(path)
    temporary = target.parent / f".heliograph-{secrets.token_hex(8)}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def save(path: str, data: bytes) -> None:
    """Writes a file, all or nothing. Raises OSError."""
    with replacing(path) as stream:
        stream.write(data)


def padded(size: int) -> int:
    """With what follows up to the next array."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _require_zeros(padding: memoryview) -> None:
    if any(padding):
        raise _core.DamagedFileError("a file's padding is not zero")


def header_length(prefix: bytes, size: int) -> int:
    """The header's length, of a file of so many bytes. Raises FormatError, VersionError, DamagedFileError."""
    if prefix[: len(_MAGIC)] != _MAGIC[: len(prefix)]:
        raise _core.FormatError("this is none of Heliograph's files")
    if len(prefix) < PREFIX:
        raise _core.DamagedFileError("a file is truncated")
    _, version, reserved, length, total = struct.unpack("<8sIIQQ", prefix)
    if version not in _READ:
        raise _core.VersionError(
            f"the file is of format version {version}; this Heliograph reads versions {_READ[0]} to {_READ[-1]}"
        )
    if reserved or length > _LONGEST_HEADER:
        raise _core.DamagedFileError("a file's prefix says what cannot be")
    if total != size:
        how = "truncated" if size < total else "oversized"
        raise _core.DamagedFileError(f"a file is {how}: {size:,} bytes, and it says {total:,}")
    if total < padded(PREFIX + length) + DIGEST or total % _ALIGNMENT != DIGEST:
        raise _core.DamagedFileError("a file's prefix says what cannot be")
    return int(length)


def parsed(text: bytes) -> dict[str, Any]:
    """A header's three fields, of canonical JSON. Raises DamagedFileError."""
    try:
        said = read_json(text.decode(), longest=_LONGEST_HEADER, parse_float=Real)
        whole = isinstance(said, dict) and canonical(said).encode() == text  # a field twice has another text, too
    except ValueError:
        whole = False
    if not whole or set(said) != {"arrays", "header", "type"}:
        raise _core.DamagedFileError("a file's header is no canonical JSON of a type, a header and arrays")
    if not isinstance(said["type"], str) or not 1 <= len(said["type"].encode()) <= 64:
        raise _core.DamagedFileError("a file does not say what it holds")
    if not isinstance(said["header"], dict) or not isinstance(said["arrays"], list):
        raise _core.DamagedFileError("a file's header is no object, or its arrays no list")
    if len(said["arrays"]) > _MOST_ARRAYS:
        raise _core.DamagedFileError(f"a file has at most {_MOST_ARRAYS:,} arrays")
    found: dict[str, Any] = said
    return found


def described(entry: Any, offset: int) -> tuple[str, str, tuple[int, ...], int]:
    """Name, dtype, shape and bytes of an array that is to start there. Raises DamagedFileError."""
    if not isinstance(entry, dict) or set(entry) != {"bytes", "dtype", "name", "offset", "shape"}:
        raise _core.DamagedFileError("a file does not describe its arrays as the format says")
    name, shape = entry["name"], entry["shape"]
    kind = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if not isinstance(name, str) or not 1 <= len(name.encode()) <= 256 or kind is None:
        raise _core.DamagedFileError("a file's array has no name or no known dtype")
    if not isinstance(shape, list) or len(shape) > _MOST_AXES or not all(_is_count(n, 1 << 62) for n in shape):
        raise _core.DamagedFileError("a file's array has no shape that an array has")
    size = np.dtype(kind).itemsize
    for length in shape:
        size *= length
    if (type(entry["bytes"]), type(entry["offset"])) != (int, int) or (entry["bytes"], entry["offset"]) != (size, offset):
        raise _core.DamagedFileError("a file's array does not lie where and as long as it says")
    return name, kind, tuple(shape), size


def _is_count(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most
