"""Reads and writes containers (docs/format.md) of objects that exist only in Python; replaces files atomically."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import printable

Array = npt.NDArray[Any]
Piece = bytes | memoryview


@dataclass(frozen=True)
class Container:
    """The content of a container."""

    type: str
    header: dict[str, Any]
    arrays: dict[str, Array]
    digest: str  #: SHA-256 of the whole file, including the digest at the end of the file


def pieces(
    kind: str, header: Mapping[str, Any], arrays: Sequence[tuple[str, str, Sequence[int]]], contents: Iterable[Piece]
) -> Iterator[Piece]:
    """Yields the bytes of a container piece by piece: `arrays` has (name, dtype, shape) of each array, and the bytes of each
    array follow.

    Raises FormatError if the header is too large, DamagedFileError if JSON cannot hold it.
    """
    try:
        text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise _core.DamagedFileError(f"cannot write this file: its header must be JSON: {error}") from None
    writer = _core.container.Writer(kind, text, [(name, dtype, list(shape)) for name, dtype, shape in arrays])
    yield writer.head()
    for content in contents:
        yield content
        yield writer.padding(content)
    yield writer.digest()


def to_bytes(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Returns the bytes of a container. Raises the errors of `pieces`."""
    words = {name: np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")) for name, a in arrays.items()}
    described = [(name, a.dtype.str, a.shape) for name, a in words.items()]
    return b"".join(pieces(kind, header, described, (a.tobytes() for a in words.values())))


def from_bytes(data: bytes | bytearray | memoryview) -> Container:
    """Reads and checks a container; its arrays are views of `data`.

    Raises FormatError, VersionError, DamagedFileError, and DtypeError for other data than contiguous bytes.
    """
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError):
        raise _core.DtypeError(f"a file's data must be contiguous bytes, not {type(data).__name__}") from None
    raw = _core.container.read(view)
    arrays = {}
    for entry in raw.arrays:
        words = np.frombuffer(view[entry.offset : entry.offset + entry.bytes], dtype=entry.dtype)
        try:
            arrays[entry.name] = words.reshape(entry.shape)
        except ValueError:  # an axis of length zero beside axes that are too long for NumPy
            raise _core.DamagedFileError(f"damaged file: no array has the shape {entry.shape}") from None
    return Container(raw.type, json.loads(raw.header), arrays, raw.digest)


def load(path: str) -> Container:
    """Reads and checks a whole file. Raises the errors of `from_bytes`, and OSError, OutOfMemoryError."""
    with Path(path).open("rb") as stream:
        prefix = stream.read(_core.container.PREFIX_BYTES)
        _core.container.header_end(prefix, os.fstat(stream.fileno()).st_size)  # check the length before allocating memory
        try:
            return from_bytes(prefix + stream.read())
        except MemoryError:
            raise _core.OutOfMemoryError(f"cannot read {printable(path)}: it is larger than the free memory") from None


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Context with a temporary file to write, which replaces the path at the end if nothing failed. Raises OSError."""
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
    """Writes a file atomically. Raises OSError."""
    with replacing(path) as stream:
        stream.write(data)
