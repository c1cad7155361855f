"""Served objects under one interface: model bundles, tables for private look-up, vectors, and clients' encrypted tables.

A `Served` has two parts. The service reads a file's description, which it uses to admit and batch jobs. An engine also loads
the contents (`load`) and prepares jobs (`prepare`).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from heliograph import _core
from heliograph._common.arguments import path_of, printable, readable_bytes
from heliograph._common.ciphertext_files import Parts
from heliograph._common.schemes import type_of_bytes
from heliograph._common.service.kinds import GET, NEAREST, RUN, SESSION, SQL, JobKind
from heliograph.keys import EvaluationKeys, Server, load
from heliograph.knn.vectors import INDEX_TYPE, Vectors, served_vectors
from heliograph.models import bundle
from heliograph.models.bundle import ModelBundle
from heliograph.models.halves import Half, digest_of
from heliograph.pir.keyword import DATABASE_TYPE, Database, served
from heliograph.serving.engine_messages import Run
from heliograph.serving.incoming import IncomingRequest
from heliograph.sql.server import SqlServer

_DIGITS = 24 << 10  # bytes for each column of a look-up's matrix: digits of masks, and the masks
_PASS = 4  # encrypted vectors answered by one pass over the rows
_BLOCK, _WIDTH = 4096, 8  # rows of vectors prepared as one block, and bytes of a prepared component
_LONGEST_QUERY = 1 << 16  # bytes of an SQL query
_SPARE = 1 << 20  # bytes by which a request may exceed its predicted size
Compute = Callable[[], Any]  # returns an object with the answer's `to_bytes`, or None


class Context(Protocol):
    """The parts of an engine that `Served.prepare` uses."""

    def server(self, name: str, make: Callable[[], tuple[Any, int]], other_memory: int) -> Any:
        """Returns the server of a client's keys, from memory, or from `make` with the bytes of the keys."""

    @property
    def memory(self) -> int:
        """The engine's memory limit in bytes."""

    def stored(self, job: Run, path: str, digest: str, load: Callable[[str], Any]) -> Any:
        """Loads a file of the client. Raises EvictedKeyError for a damaged file."""

    def progress(self, stage: str, share: float, *jobs: str) -> None:
        """Reports progress of jobs."""


@dataclass(frozen=True)
class Query:
    """The computation of one query, alone or in a batch with other queries of its group."""

    query: Any
    answers: Callable[[list[Any]], list[Any]]  #: returns the answers of a list of `query`

    def __call__(self) -> Any:
        return self.answers([self.query])[0]


class Served(ABC):
    """An object that clients use by its name. Sizes of a served object are in bytes."""

    kinds: tuple[JobKind, ...]  #: kinds of jobs that the object answers
    kind: str  #: kind of the object, as clients see it
    is_updated = True  #: whether a file with other rows may replace the loaded one
    complete = True  #: whether the file has all data that an engine needs
    name, version, title, digest = "", "", "", ""
    key_bytes, input_bytes, output_bytes = 0, 0, 0

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """Bytes of an engine's memory that one request needs."""

    def max_request_bytes(self, kind: JobKind) -> int:
        """Returns the largest size of a request."""
        return 2 * self.input_bytes + _SPARE if kind.has_tensors else 0

    def answer_bytes(self, kind: JobKind) -> int | None:
        """Returns the expected size of an answer. Returns None if the size is unknown."""
        return self.output_bytes if kind.has_tensors else 0

    def max_batch(self, memory: int, most: int) -> int:
        """Returns the largest batch, at most `most`, for an engine with `memory` bytes."""
        return 1

    def client(self) -> Half:
        """Returns the client's half."""
        raise NotImplementedError

    # Functions for engines

    def load(self) -> None:  # noqa: B027  a model has no other contents than its description
        """Loads the contents. Raises FormatError and its subclasses, OSError."""

    def update(self) -> Compute:
        """Reads the rows of the present file. Returns a function that replaces the loaded rows by these rows."""
        raise NotImplementedError

    @abstractmethod
    def prepare(self, job: Run, kind: JobKind, request: IncomingRequest, engine: Context) -> Compute:
        """Reads a job's keys and request. Returns its computation."""


class ServedModel(Served):
    """A model bundle."""

    kinds = (RUN, SESSION)
    is_updated = False

    def __init__(self, path: Path) -> None:
        self.model = model = ModelBundle.load(path)
        self.name, self.version, self.title, self.kind = model.name, model.version, model.title, model.kind
        self.digest, self.complete, self.key_bytes = model.digest, model.complete, model.key_bytes
        self.input_bytes, self.output_bytes = model.input_bytes, model.output_bytes

    @property
    def memory_bytes(self) -> int:
        """Implements `Served.memory_bytes`."""
        return self.model.memory_bytes

    def client(self) -> Half:
        """Implements `Served.client`."""
        return self.model.client()

    def prepare(self, job: Run, kind: JobKind, request: IncomingRequest, engine: Context) -> Compute:
        """Implements `Served.prepare`."""
        model, server = self.model, self._server(job, engine)
        if kind is SESSION:

            def check() -> None:
                model.require_keys(server.keys)
                model.prepare()

            return check
        tensors = _tensors(server, job.parts, request)
        watch = (lambda stage, share: engine.progress(stage, share, job.job)) if job.watch else None
        return lambda: model.run(server, tensors, watch)

    def _server(self, job: Run, engine: Context) -> Server[Any]:
        other_memory = max(self.memory_bytes - self.key_bytes, 0)

        def made() -> tuple[Any, int]:
            room = max(engine.memory - other_memory, 0)
            read = functools.partial(load, kind=EvaluationKeys, memory=room)  # larger keys stay in their file
            keys: Any = engine.stored(job, job.keys, job.keys_digest, read)
            self.model.require_keys(keys)
            return Server(keys, limit=self.memory_bytes), min(int(keys.nbytes), room)

        found: Server[Any] = engine.server(f"{self.name}:{job.keys_digest}", made, other_memory)
        return found


class LookupTable(Served):
    """A saved `hg.pir.Database`, as a service uses it. Raises FormatError and its subclasses, OSError."""

    kinds = (GET,)
    kind = "look-up"
    database: Database  # loaded by an engine

    def __init__(self, path: Path) -> None:
        self._path = path
        self._half, about = served(Parts(path_of(path), DATABASE_TYPE))
        self.name, self.version, self.title = (about[name] for name in ("name", "version", "title"))
        self.digest = digest_of(self._half)
        self.input_bytes, self.output_bytes = self._half.question_bytes, self._half.answer_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of the matrix twice (on the device, and for updates), and of prepared data."""
        shape = self._half._shape
        return 2 * shape.rows * shape.columns + _DIGITS * shape.columns + self.input_bytes + self.output_bytes

    def max_batch(self, memory: int, most: int) -> int:
        """Implements `Served.max_batch`."""
        return _fitting(memory - self.memory_bytes, 3 * self.input_bytes + 4 * self.output_bytes, most)

    def client(self) -> Half:
        """Implements `Served.client`."""
        return self._half

    def load(self) -> None:
        """Implements `Served.load`."""
        self.database = Database.load(self._path)
        self.digest = digest_of(self.database.client())

    def update(self) -> Compute:
        """Implements `Served.update`."""
        parts = Parts(path_of(self._path), DATABASE_TYPE)
        return lambda: self.database._follow(parts)

    def prepare(self, job: Run, kind: JobKind, request: IncomingRequest, engine: Context) -> Compute:
        """Implements `Served.prepare`."""
        return Query(self.database._query_arrays(Path(job.request).read_bytes()), self.database._answer_all)

    def _rows(self) -> list[tuple[str, str]]:
        return _described(self, self._half._rows())


class VectorIndex(Served):
    """Saved `hg.knn.Vectors`, as a service uses them. Raises the errors of `LookupTable`."""

    kinds = (NEAREST, SESSION)
    kind = "neighbours"
    vectors: Vectors  # loaded by an engine

    def __init__(self, path: Path) -> None:
        self._path = path
        self._half, about = served_vectors(Parts(path_of(path), INDEX_TYPE))
        self.name, self.version, self.title = (about[name] for name in ("name", "version", "title"))
        self.digest, self.key_bytes = digest_of(self._half), self._half.key_bytes
        self.input_bytes, self.output_bytes = self._half.query_bytes, self._half.answer_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of rows as stored and prepared, of keys, and of scores before and after rounding."""
        rows, half = -(-self._half.rows // _BLOCK) * _BLOCK, self._half
        return (1 + _WIDTH) * rows * half.dimension + self.key_bytes + 4 * self.output_bytes

    def max_batch(self, memory: int, most: int) -> int:
        """Implements `Served.max_batch`, but at most the size of one pass. Each query has its own keys."""
        each = self.key_bytes + 3 * self.input_bytes + 4 * self.output_bytes
        return _fitting(memory - self.memory_bytes, each, min(most, _PASS))

    def client(self) -> Half:
        """Implements `Served.client`."""
        return self._half

    def load(self) -> None:
        """Implements `Served.load`."""
        self.vectors = Vectors.load(self._path)
        self.digest = digest_of(self.vectors.layout)

    def update(self) -> Compute:
        """Implements `Served.update`."""
        parts = Parts(path_of(self._path), INDEX_TYPE)
        return lambda: self.vectors._follow(parts)

    def prepare(self, job: Run, kind: JobKind, request: IncomingRequest, engine: Context) -> Compute:
        """Implements `Served.prepare`. The engine's session checks these keys."""
        layout = self.vectors.layout

        def made() -> tuple[Any, int]:
            keys: Any = engine.stored(job, job.keys, job.keys_digest, lambda path: load(path, EvaluationKeys))
            layout.require_keys(keys)
            return Server(keys, limit=2 * layout.query_bytes + _SPARE), int(keys.nbytes)

        server: Server[Any] = engine.server(f"{self.name}:{job.keys_digest}", made, layout.answer_bytes)
        if kind is SESSION:
            return lambda: None
        (vector,) = _tensors(server, job.parts, request)

        def scores(queries: list[tuple[Any, str | None]]) -> list[Any]:
            watched = [one for _, one in queries if one is not None]
            watch = (lambda share: engine.progress("scores", share, *watched)) if watched else None
            return list(self.vectors.scores_together([one for one, _ in queries], progress=watch))

        return Query((vector, job.job if job.watch else None), scores)

    def _rows(self) -> list[tuple[str, str]]:
        return _described(self, self._half._rows())


class EncryptedTables(Served):
    """Clients' uploaded tables. All uploaded tables share one such object, which has no file and no name."""

    kinds = (SQL,)
    memory_bytes = 0

    def max_request_bytes(self, kind: JobKind) -> int:
        """Implements `Served.max_request_bytes`: the bytes of a query's text."""
        return _LONGEST_QUERY

    def answer_bytes(self, kind: JobKind) -> int | None:
        """Implements `Served.answer_bytes`: unknown."""
        return None

    def prepare(self, job: Run, kind: JobKind, request: IncomingRequest, engine: Context) -> Compute:
        """Implements `Served.prepare`."""

        def made() -> tuple[Any, int]:
            keys: Any = engine.stored(job, job.keys, job.keys_digest, lambda path: load(path, EvaluationKeys))
            return SqlServer(keys), int(keys.nbytes)

        server: SqlServer = engine.server(f"sql:{job.keys_digest}:{job.table_digest}", made, 0)
        if not server.tables:
            engine.stored(job, job.table, job.table_digest, server.load)
        text = Path(job.request).read_text(encoding="utf-8")
        return lambda: server.sql(text, progress=lambda share: engine.progress("answer", share, job.job))


ENCRYPTED_TABLES = EncryptedTables()
_FILES: dict[str | None, type[LookupTable | VectorIndex]] = {DATABASE_TYPE: LookupTable, INDEX_TYPE: VectorIndex}


def served_of(path: Path) -> ServedModel | LookupTable | VectorIndex:
    """Reads the description of a file. Raises FormatError and its subclasses, OSError."""
    with path.open("rb") as file:
        kind = _FILES.get(
            type_of_bytes(file.read(_core.container.PREFIX_BYTES + _core.container.MAX_HEADER_BYTES)), ServedModel
        )
    try:
        return kind(path)
    except _core.HeliographError as error:
        text = str(error)
        if type(error) is _core.FormatError and bundle.TYPE in text:
            text = f"{text}, nor a table written by Database.save or Vectors.save"
        raise type(error)(f"{path_of(path)}: {text}") from None


def _fitting(memory: int, each: int, most: int) -> int:
    """Returns how many items of `each` bytes fit in half of `memory`: the other half is for the next batch, which is read
    meanwhile.
    """
    return max(1, min(most, memory // (2 * each)))


def _described(one: LookupTable | VectorIndex, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    title = printable(f"{one.name} {one.version}" + (f": {one.title}" if one.title else ""))
    return [("table", title), *rows, ("memory", f"{readable_bytes(one.memory_bytes)} at the server"), ("digest", one.digest)]


def _tensors(server: Server[Any], sizes: list[int], request: IncomingRequest) -> tuple[Any, ...]:
    """Reads a request's tensors from its bytes in place."""
    if not sum(sizes):
        raise _core.FormatError("the request must hold 1 to 16 tensors, got none: parts= has their sizes in bytes")
    found, start = [], 0
    with request:
        for size in sizes:
            part, arrived = request.part(start, size)
            with part:
                found.append(server._from_stream(part, arrived))
            start += size
    return tuple(found)
