"""Files of encrypted tables and answers. Each file is a container (docs/format.md) whose arrays are ciphertext containers,
which are read one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common import container
from heliograph._common.arguments import Buffer, described, path_of, printable
from heliograph._common.container import Piece
from heliograph._common.html import HtmlRepr

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST = 200  # maximum characters of a version or title


def pieces(kind: str, header: dict[str, Any], parts: Iterable[Piece], sizes: Sequence[int]) -> Iterator[Piece]:
    """Yields a container piece by piece."""
    return container.pieces(kind, header, [(f"part{k}", "|u1", [size]) for k, size in enumerate(sizes)], parts)


def titled(name: Any, version: Any, title: Any) -> dict[str, str]:
    """Returns the name, version and title of a file to serve, for its header. Raises ParameterError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _core.ParameterError(
            f"a table's name must be 1 to 64 letters, digits, dots, dashes or underscores, got {described(name)}"
        )
    metadata = {"name": name, "version": str(version), "title": str(title)}
    if max(map(len, metadata.values())) > _LONGEST:
        raise _core.ParameterError(
            f"a table's version and title must have at most {_LONGEST} characters, got {max(map(len, metadata.values()))}"
        )
    return metadata


def split_title(header: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Splits a header into its name, version and title (second) and its other fields (first). Raises DamagedFileError."""
    fields = dict(header)
    metadata = {name: fields.pop(name, None) for name in ("name", "version", "title")}
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in metadata.values()) or not _NAME.fullmatch(
        metadata["name"]
    ):
        raise _core.DamagedFileError("this file's header must have a valid name, version and title")
    return fields, metadata


class Parts:
    """A verified container: its header, and its parts, which stay in the file until they are read."""

    def __init__(self, source: bytes | str, kind: str) -> None:
        self._source = source
        file = _core.container.read_file(source) if isinstance(source, str) else _core.container.read(source)
        if file.type != kind:
            raise _core.FormatError(f"this file holds {printable(file.type)}; it must hold {kind}")
        for number, entry in enumerate(file.arrays):
            if (entry.name, entry.shape) != (f"part{number}", [entry.bytes]):
                raise _core.DamagedFileError("this file's header describes invalid arrays")
        self.header: dict[str, Any] = json.loads(file.header)
        self._arrays = [(entry.offset, entry.bytes) for entry in file.arrays]

    def __len__(self) -> int:
        return len(self._arrays)

    def sizes(self) -> list[int]:
        """Returns the bytes of each part."""
        return [size for _, size in self._arrays]

    def __getitem__(self, number: int) -> Piece:
        offset, size = self._arrays[number]
        if isinstance(self._source, bytes):
            return memoryview(self._source)[offset : offset + size]
        with Path(self._source).open("rb") as file:
            file.seek(offset)
            part = file.read(size)
        if len(part) != size:
            raise _core.DamagedFileError("this file was truncated after it was opened")
        return part

    def array(self, number: int) -> npt.NDArray[np.uint8]:
        """Returns a copy of a part as a writable array, uint8 [bytes]."""
        if isinstance(self._source, bytes):
            return np.frombuffer(self[number], np.uint8).copy()
        offset, size = self._arrays[number]
        part = np.fromfile(self._source, np.uint8, size, offset=offset)
        if len(part) != size:
            raise _core.DamagedFileError("this file was truncated after it was opened")
        return part


def source_of(data: Buffer) -> bytes:
    """Returns an immutable copy of the bytes of a part. Raises DtypeError."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise _core.DtypeError(f"a file's content must be bytes, got {type(data).__name__}")
    return bytes(data)


class Serializable(HtmlRepr):
    """Base class of objects that client and server exchange, as bytes or as a file of the same bytes."""

    _TYPE: ClassVar[str]  # the field `type` of the file header

    def _pieces(self) -> Iterator[Piece]:
        """Yields the file piece by piece."""
        raise NotImplementedError

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        """Creates the object from a file with a valid digest. Raises DamagedFileError for an invalid header or parts."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Returns the bytes of the file.

        >>> len(answer.to_bytes()) > 1000
        True
        """
        return b"".join(bytes(piece) for piece in self._pieces())

    def save(self, path: Any) -> None:
        """Writes a file atomically. Raises OSError.

        >>> answer.save("answer.hg")
        >>> hg.sql.Answer.load("answer.hg").decrypt(secret).rows
        [(8300, 3)]
        """
        with container.replacing(path_of(path)) as file:
            for piece in self._pieces():
                file.write(piece)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Reads a file that `save` wrote. Raises FormatError, DamagedFileError, VersionError, OSError.

        >>> table.save("t.hg")
        >>> hg.sql.EncryptedTable.load("t.hg").nbytes == table.nbytes
        True
        """
        return cls._of(Parts(path_of(path), cls._TYPE))

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Reads bytes that `to_bytes` returned. Raises the errors of `load`.

        >>> hg.sql.EncryptedTable.from_bytes(table.to_bytes()).nbytes == table.nbytes
        True
        """
        return cls._of(Parts(source_of(data), cls._TYPE))
