"""Files of tables and answers: containers of docs/format.md, whose arrays are ciphertexts' containers."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from heliograph import _core
from heliograph._arrays import Buffer, is_whole, path_of, printable

_MAGIC = b"\x89HELIO\r\n"
_VERSION = 2
_HEADER = 1 << 20
_PIECE = 1 << 22
Piece = bytes | memoryview


def _text(value: Any) -> bytes:
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _up(count: int) -> int:
    return -(-count // 64) * 64


def _prefix(kind: str, header: dict[str, Any], sizes: Sequence[int]) -> bytes:
    """All before the first array."""
    length = 0
    while True:
        offset, arrays = _up(32 + length), []
        for number, size in enumerate(sizes):
            arrays.append({"bytes": size, "dtype": "u8", "name": f"part{number}", "offset": offset, "shape": [size]})
            offset = _up(offset + size)
        text = _text({"arrays": arrays, "header": header, "type": kind})
        if len(text) == length:
            break
        length = len(text)
    if length > _HEADER or len(sizes) > 1 << 16:
        raise _core.FormatError(f"a file of {len(sizes):,} parts has too long a header")
    head = (
        _MAGIC + _VERSION.to_bytes(8, "little") + length.to_bytes(8, "little") + (offset + 32).to_bytes(8, "little") + text
    )
    return head + bytes(_up(len(head)) - len(head))


def pieces(kind: str, header: dict[str, Any], parts: Iterable[Piece], sizes: Sequence[int]) -> Iterator[Piece]:
    """A container, piece by piece."""
    digest = hashlib.sha256()
    first = _prefix(kind, header, sizes)
    digest.update(first)
    yield first
    for part, size in zip(parts, sizes, strict=True):
        if len(part) != size:
            raise _core.InternalError("a part has another size than was said")
        for piece in (part, bytes(_up(size) - size)):
            digest.update(piece)
            yield piece
    yield digest.digest()


@contextmanager
def replacing(path: Any) -> Iterator[IO[bytes]]:
    """A file to write that takes the path's place when all is written, or never."""
    name = Path(path_of(path))
    handle, draft = tempfile.mkstemp(dir=name.parent or None, prefix=f".{name.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(draft).chmod(0o666 & ~_umask())
        Path(draft).replace(name)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class Parts:
    """A container that has been checked: its header, and its parts, which stay where they are until they are asked for."""

    def __init__(self, source: bytes | str, kind: str) -> None:
        self._path = source if isinstance(source, str) else None
        self._data = memoryview(source) if isinstance(source, bytes) else None
        with self._opened() as file:
            self._size = file.seek(0, os.SEEK_END)
            self.header, self._arrays = self._read(file, kind)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        if self._path is None:
            yield _Memory(self._data)  # type: ignore[arg-type]
        else:
            with Path(self._path).open("rb") as file:
                yield file

    def _read(self, file: Any, kind: str) -> tuple[dict[str, Any], list[tuple[int, int]]]:
        file.seek(0)
        head = bytes(file.read(32))
        if head[:8] != _MAGIC:
            raise _core.FormatError("this is not one of Heliograph's files")
        if int.from_bytes(head[8:12], "little") != _VERSION:
            raise _core.VersionError(
                f"a table's file is of version {_VERSION}, this one of {int.from_bytes(head[8:12], 'little')}"
            )
        length, whole = (int.from_bytes(head[at : at + 8], "little") for at in (16, 24))
        if len(head) < 32 or any(head[12:16]) or length > _HEADER or whole != self._size:
            raise _core.DamagedFileError(
                f"this file of {self._size:,} bytes is truncated, or oversized: it says {whole:,} bytes"
            )
        text = bytes(file.read(length))
        self._digest(file, whole)
        try:
            seen = json.loads(text)
            canonical = _text(seen) == text
        except (ValueError, RecursionError):
            canonical = False
        if not canonical or not isinstance(seen, dict) or set(seen) != {"arrays", "header", "type"}:
            raise _core.DamagedFileError("this file's header is not canonical")
        if seen["type"] != kind:
            raise _core.FormatError(f"this file holds {printable(str(seen['type']))[:80]}, not {kind}")
        arrays = seen["arrays"]
        if not isinstance(arrays, list) or not isinstance(seen["header"], dict):
            raise _core.DamagedFileError("this file's header is not canonical")
        sizes: list[Any] = [a.get("bytes") if isinstance(a, dict) else None for a in arrays]
        if not all(is_whole(size) and 0 <= size <= whole for size in sizes):
            raise _core.DamagedFileError("this file's header names arrays that cannot be")
        expected = _prefix(kind, seen["header"], sizes)
        file.seek(0)
        if bytes(file.read(len(expected))) != expected:  # it says where every array lies, and the whole length
            raise _core.DamagedFileError("this file's header is not what its parts are")
        return seen["header"], [(a["offset"], a["bytes"]) for a in arrays]

    @staticmethod
    def _digest(file: Any, whole: int) -> None:
        digest, left = hashlib.sha256(), whole - 32
        if left < 32:
            raise _core.DamagedFileError("this file is truncated")
        file.seek(0)
        while left:
            piece = file.read(min(left, _PIECE))
            if not len(piece):
                raise _core.DamagedFileError("this file is truncated")
            digest.update(piece)
            left -= len(piece)
        if bytes(file.read(32)) != digest.digest():
            raise _core.DamagedFileError("this file's digest is not that of its bytes")

    def __len__(self) -> int:
        return len(self._arrays)

    def sizes(self) -> list[int]:
        """Bytes of each."""
        return [size for _, size in self._arrays]

    def __getitem__(self, number: int) -> Piece:
        offset, size = self._arrays[number]
        with self._opened() as file:
            file.seek(offset)
            part: Piece = file.read(size)
        if len(part) != size:
            raise _core.DamagedFileError("this file was cut short after it was opened")
        return part


class _Memory:
    """Bytes, read as a file is and not copied."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = len(self._data) if whence == os.SEEK_END else offset
        return self._at

    def read(self, count: int) -> memoryview:
        found = self._data[self._at : self._at + count]
        self._at += len(found)
        return found


def source_of(data: Buffer) -> bytes:
    """Bytes that nobody changes meanwhile. Raises DtypeError."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise _core.DtypeError(f"a file's bytes are bytes, not {type(data).__name__}")
    return bytes(data)
