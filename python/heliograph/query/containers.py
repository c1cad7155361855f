"""Files of tables and answers: containers of docs/format.md, whose arrays are ciphertexts' containers and are read one by one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from heliograph import _container, _core
from heliograph._arrays import Buffer, path_of, printable
from heliograph._html import Shown

_PIECE = 1 << 22
Piece = bytes | memoryview


def pieces(kind: str, header: dict[str, Any], parts: Iterable[Piece], sizes: Sequence[int]) -> Iterator[Piece]:
    """A container, piece by piece."""
    digest = hashlib.sha256()
    first = _container.beginning(kind, header, [(f"part{k}", "u8", [size]) for k, size in enumerate(sizes)])
    digest.update(first)
    yield first
    for part, size in zip(parts, sizes, strict=True):
        if len(part) != size:
            raise _core.InternalError("a part has another size than was said")
        for piece in (part, bytes(_container.padded(size) - size)):
            digest.update(piece)
            yield piece
    yield digest.digest()


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
        head = bytes(file.read(_container.PREFIX))
        length = _container.header_length(head, self._size)
        text = bytes(file.read(length))
        start = _container.padded(_container.PREFIX + length)
        if any(file.read(start - _container.PREFIX - length)):
            raise _core.DamagedFileError("a file's padding is not zero")
        self._digest(file, self._size)
        said = _container.parsed(text)
        if said["type"] != kind:
            raise _core.FormatError(f"this file holds {printable(said['type'])}, not {kind}")
        places = []
        for number, entry in enumerate(said["arrays"]):
            name, _, shape, size = _container.described(entry, start)
            if (name, len(shape), shape[-1:]) != (f"part{number}", 1, (size,)):
                raise _core.DamagedFileError("this file's header names arrays that cannot be")
            places.append((start, size))
            start += _container.padded(size)
        if start != self._size - _container.DIGEST:
            raise _core.DamagedFileError("this file's header is not what its parts are")
        return said["header"], places

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


class Saved(Shown):
    """What goes from one side to the other: as bytes, or as a file of the same bytes."""

    _TYPE: ClassVar[str]  # what its files say that they hold

    def _pieces(self) -> Iterator[Piece]:
        """The file, piece by piece."""
        raise NotImplementedError

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        """Of a file whose digest is right. Raises DamagedFileError for what it cannot say."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """The bytes of a file of it.

        >>> len(answer.to_bytes()) > 1000
        True
        """
        return b"".join(bytes(piece) for piece in self._pieces())

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing. Raises OSError.

        >>> answer.save("answer.hg")
        >>> hg.query.Answer.load("answer.hg").decrypt(secret).rows
        [(8300, 3)]
        """
        with _container.replacing(path_of(path)) as file:
            for piece in self._pieces():
                file.write(piece)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Reads `save`. Raises FormatError, DamagedFileError, VersionError, OSError.

        >>> table.save("t.hg")
        >>> hg.query.EncryptedTable.load("t.hg").nbytes == table.nbytes
        True
        """
        return cls._of(Parts(path_of(path), cls._TYPE))

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Reads `to_bytes`. Raises as `load`.

        >>> hg.query.Scores.from_bytes(scores.to_bytes()).rows
        4
        """
        return cls._of(Parts(source_of(data), cls._TYPE))
