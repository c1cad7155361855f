"""What a service serves: sealed models, tables for private look-up, and vectors to search, which are described alike."""

from __future__ import annotations

import hashlib
from pathlib import Path

from heliograph import _container, _core, sealed
from heliograph._arrays import Buffer, path_of, printable, readable_bytes
from heliograph._schemes import type_of_bytes
from heliograph.query.containers import Parts
from heliograph.query.lookup import CLIENT_TYPE, DATABASE_TYPE, LookupClient, served
from heliograph.query.vectors import INDEX_TYPE, LAYOUT_TYPE, VectorLayout, served_vectors
from heliograph.sealed import SealedModel

_DIGITS = 24 << 10  # bytes for each column of a look-up's matrix, whatever its rows: digits of masks, and the masks
_PASS = 4  # encrypted vectors that one reading of the rows serves
_BLOCK, _WIDTH = 4096, 8  # rows of vectors that are prepared together, and bytes of a component then
Half = SealedModel | LookupClient | VectorLayout


class Table:
    """A saved `hg.query.Database` as a service has it, which does not prepare it: engines do. Raises FormatError and its kinds, OSError."""

    kind = "look-up"
    complete = True
    jobs = ("get",)
    key_bytes = 0  #: there are none to upload: each question brings its own

    def __init__(self, path: Path) -> None:
        self._half, told = served(Parts(path_of(path), DATABASE_TYPE))
        self.name, self.version, self.title = (told[name] for name in ("name", "version", "title"))
        self.digest = digest_of(self._half)
        self.input_bytes, self.output_bytes = self._half.question_bytes, self._half.answer_bytes

    @property
    def memory_bytes(self) -> int:
        """Of an engine: the matrix twice, for the device and for updates, and what is prepared."""
        shape = self._half._shape
        return 2 * shape.rows * shape.columns + _DIGITS * shape.columns + self.input_bytes + self.output_bytes

    def together(self, memory: int, most: int) -> int:
        """Questions that are answered together, by an engine that may take so many bytes: `most`, or fewer."""
        return _together(memory - self.memory_bytes, 3 * self.input_bytes + 4 * self.output_bytes, most)

    def client(self) -> LookupClient:
        """What clients need."""
        return self._half

    def _rows(self) -> list[tuple[str, str]]:
        return _told(self, self._half._rows())


class Index:
    """Saved `hg.query.Vectors` as a service has them, which does not prepare them: engines do. Raises as `Table`."""

    kind = "neighbours"
    complete = True
    jobs = ("nearest", "session")

    def __init__(self, path: Path) -> None:
        self._half, told = served_vectors(Parts(path_of(path), INDEX_TYPE))
        self.name, self.version, self.title = (told[name] for name in ("name", "version", "title"))
        self.digest, self.key_bytes = digest_of(self._half), self._half.key_bytes
        self.input_bytes, self.output_bytes = self._half.query_bytes, self._half.answer_bytes

    @property
    def memory_bytes(self) -> int:
        """Of an engine: rows as they are and prepared, keys, scores before and after they are rounded."""
        rows, half = -(-self._half.rows // _BLOCK) * _BLOCK, self._half
        return (1 + _WIDTH) * rows * half.dimension + self.key_bytes + 4 * self.output_bytes

    def together(self, memory: int, most: int) -> int:
        """As `Table.together`; more than one reading serves would wait for each other in vain. Each has keys of its own."""
        each = self.key_bytes + 3 * self.input_bytes + 4 * self.output_bytes
        return _together(memory - self.memory_bytes, each, min(most, _PASS))

    def client(self) -> VectorLayout:
        """What clients need."""
        return self._half

    def _rows(self) -> list[tuple[str, str]]:
        return _told(self, self._half._rows())


def _together(room: int, each: int, most: int) -> int:
    """So many beside one, and as many that are read meanwhile."""
    return max(1, min(most, room // (2 * each)))


def _told(one: Table | Index, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    title = printable(f"{one.name} {one.version}" + (f": {one.title}" if one.title else ""))
    return [("table", title), *rows, ("memory", f"{readable_bytes(one.memory_bytes)} at the server"), ("digest", one.digest)]


def digest_of(half: Half) -> str:
    """By what both sides mean one model: a sealed one's own; of others SHA-256 of the client's half, for their rows may change."""
    if isinstance(half, SealedModel):
        return half.digest
    return hashlib.sha256(half._identity() if isinstance(half, LookupClient) else half.to_bytes()).hexdigest()


def type_of(path: Path) -> str | None:
    """What a file to be served is, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return type_of_bytes(file.read(_container.PREFIX + (1 << 20)))


def served_of(path: Path) -> SealedModel | Table | Index:
    """A file to serve. Raises FormatError and its kinds, OSError."""
    kinds: dict[str | None, type[Table | Index]] = {DATABASE_TYPE: Table, INDEX_TYPE: Index}
    kind = kinds.get(type_of(path))
    try:
        return SealedModel.load(path) if kind is None else kind(path)
    except _core.HeliographError as error:
        said = str(error)
        if type(error) is _core.FormatError and sealed.TYPE in said:
            said = f"{said}, nor a table that Database.save or Vectors.save wrote"
        raise type(error)(f"{path_of(path)}: {said}") from None


def jobs_of(model: SealedModel | Table | Index) -> tuple[str, ...]:
    """Kinds of jobs that it answers."""
    return ("run", "session") if isinstance(model, SealedModel) else model.jobs


def half_of(data: Buffer) -> Half:
    """A client's half, of what is served. Raises FormatError and its kinds."""
    kind = type_of_bytes(data)
    if kind == CLIENT_TYPE:
        return LookupClient.from_bytes(data)
    return VectorLayout.from_bytes(data) if kind == LAYOUT_TYPE else SealedModel.load(data)
