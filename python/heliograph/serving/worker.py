"""The process that computes: one for a set of devices. ``python -m heliograph.serving.worker``, started by its service alone.

It reads lines of JSON from a socket, one for each thing to do, and answers by lines. It has the models, and of clients' keys those that were used last.
The main thread computes, and a signal to it ends what it computes (`heliograph/interrupt.h`). Others read the next job's keys and request
meanwhile, also one that is still coming, and write the answer before. It ends when its service does.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import heliograph as hg
from heliograph.query.containers import Parts
from heliograph.query.lookup import DATABASE_TYPE
from heliograph.query.vectors import INDEX_TYPE
from heliograph.serving.coming import Coming
from heliograph.serving.disks import full_disks
from heliograph.serving.errors import EvictedKeyError, ModelUnavailableError, StorageError, to_wire
from heliograph.serving.log import error_fields
from heliograph.serving.tables import digest_of, type_of

_OFTEN = 0.1  # seconds between two words of progress
_Compute = Callable[[], Any]  # what has an answer's bytes, `to_bytes`; None for none
_Found = _Compute | Exception | None
_Ready = tuple[dict[str, Any], _Found]  # a job, and what was read of it; None: it is still to be read


class _Stopped(BaseException):
    """The job that is being computed is not wanted any more."""


class Keyring:
    """Servers of clients' keys, within so many bytes of memory: what was used least recently leaves, and stays on the disk."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._held: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, name: str, make: Callable[[], tuple[Any, int]], besides: int) -> Any:
        """By name; made where it is not there. `besides` is what its use takes beside keys."""
        with self._lock:
            found = self._held.get(name)
        if found is None:
            found = make()
        with self._lock:
            self._held[name] = found
            self._held.move_to_end(name)
            room = max(self.memory - besides, 0)
            while len(self._held) > 1 and self.nbytes > room:
                self._held.popitem(last=False)
        return found[0]

    def forget(self, digest: str) -> None:
        """Revoked, expired: from memory too."""
        with self._lock:
            for name in [name for name in self._held if digest in name]:
                del self._held[name]

    @property
    def nbytes(self) -> int:
        """In memory."""
        with self._lock:
            return sum(size for _, size in self._held.values())

    def __len__(self) -> int:
        return len(self._held)


@dataclass(frozen=True)
class Question:
    """What computes an answer alone, or together with those of its job's group."""

    one: Any
    together: Callable[[list[Any]], list[Any]]  #: of several `one`

    def __call__(self) -> Any:
        return self.together([self.one])[0]


class Worker:
    """The process's state."""

    def __init__(
        self, line: socket.socket, models: dict[str, tuple[str, str]], memory: int, together: dict[str, int]
    ) -> None:
        self._line, self._together, self._files = line, together, models
        self._tables: dict[str, hg.query.Database] = {}
        self._vectors: dict[str, hg.query.Vectors] = {}
        self._models: dict[str, hg.SealedModel] = {}
        self.refused: dict[str, Exception] = {}  #: files that are damaged, lost, or of another model: the others are served
        for name in models:
            try:
                self._take(name, self._loaded(name))
            except hg.DeviceError:
                raise
            except (hg.HeliographError, OSError, MemoryError) as error:
                self.refused[name] = error
        self._keys = Keyring(memory)
        self._ready: queue.Queue[_Ready] = queue.Queue()  # the service sends no more than is to be read
        self._held: _Ready | None = None  # taken from there, and not of the group that is answered
        self._asked: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._early: dict[str, tuple[dict[str, Any], Coming, Future[_Compute]]] = {}
        self._computed: queue.Queue[tuple[dict[str, Any], Any, float, int]] = queue.Queue()
        self._unended, self._counting = 0, threading.Lock()  # jobs that the main thread has before it or at hand
        self._waiting: set[str] = set()  # jobs that have not begun
        self._current: set[str] = set()  # that the main thread computes, together
        self._unwanted: set[str] = set()  # of these, what was cancelled
        self._computing = False
        self._changing = threading.Lock()  # of these sets
        self._sending = threading.Lock()
        self._told = 0.0

    # Files

    def _loaded(self, name: str) -> Any:
        """A model or table of its file. Raises FormatError and its kinds, MismatchError for another one, OSError."""
        path, digest = self._files[name]
        kind = type_of(Path(path))
        found: Any
        if kind == DATABASE_TYPE:
            found = hg.query.Database.load(path)
            own = digest_of(found.client())
        elif kind == INDEX_TYPE:
            found = hg.query.Vectors.load(path)
            own = digest_of(found.layout)
        else:
            found = hg.SealedModel.load(path)
            own = found.digest
        if own != digest:
            raise hg.MismatchError(
                "this file is of another model or table than the service began with: restart it to serve this one"
            )
        return found

    def _take(self, name: str, found: Any) -> None:
        kinds: tuple[tuple[type, dict[str, Any]], ...] = (
            (hg.query.Database, self._tables),
            (hg.query.Vectors, self._vectors),
            (hg.SealedModel, self._models),
        )
        next(held for kind, held in kinds if isinstance(found, kind))[name] = found
        self.refused.pop(name, None)

    # The line

    def say(self, **words: Any) -> None:
        """A line to the service."""
        with self._sending:
            self._line.sendall(json.dumps(words).encode() + b"\n")

    def listen(self) -> None:
        """Reads lines until the service ends; then this process ends, whatever it is at."""
        try:
            with self._line.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    self._heard(json.loads(line))
        finally:
            os._exit(0)

    def _heard(self, words: dict[str, Any]) -> None:
        if words["do"] == "cancel":
            self._cancel(words["job"])
        elif words["do"] == "forget":
            self._keys.forget(words["digest"])
        elif words["do"] == "read":
            self._begin(words)
        elif words["do"] == "have":
            self._early[words["job"]][1].more(words["bytes"])
        elif words["do"] == "drop":
            self._early.pop(words["job"])[1].drop()
        else:
            with self._changing:
                self._waiting.add(words["job"])
            if (early := self._early.get(words["job"])) is not None:
                early[1].more(sum(early[0]["parts"]))  # all of it
                words = early[0] | words
            with self._counting:
                self._unended += 1
                idle = self._unended == 1
            if idle:  # the main thread has nothing else to do: it reads the request itself
                self._ready.put((words, None))
            else:
                self._asked.put(words)

    def interrupt(self, *_: Any) -> None:
        """The signal's handler, in the main thread."""
        if self._computing and self._current and self._current <= self._unwanted:
            raise _Stopped

    def _cancel(self, job: str) -> None:
        """A job that waits ends at once, and so does one of several that are computed together; what is computed alone is stopped."""
        with self._changing:
            if job in self._waiting:
                self._waiting.remove(job)
            elif job in self._current - self._unwanted:
                self._unwanted.add(job)
                if self._current <= self._unwanted:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                    return
                self._current.remove(job)
                self._unwanted.remove(job)
            else:
                return
        self._tell(job, to_wire(hg.CancelledError("the job was cancelled")), 0.0)

    # Reading

    def fetch(self) -> None:
        """Reads each job's keys and request while the main thread computes the one before."""
        while (asked := self._asked.get()) is not None:
            self._ready.put((asked, self._read(asked)))

    def _read(self, asked: dict[str, Any]) -> _Compute | Exception:
        """What computes a job's answer, or why there is none."""
        early = self._early.pop(asked["job"], None)
        try:
            return self._prepared(asked) if early is None else early[2].result()
        except Exception as error:
            return error

    def _begin(self, asked: dict[str, Any]) -> None:
        """Reads a request as it comes, on a thread of its own: its client may be slow. The service has one at a time so."""
        coming, future = Coming(asked["input"], sum(asked["parts"])), Future[_Compute]()
        self._early[asked["job"]] = asked, coming, future

        def read() -> None:
            try:
                future.set_result(self._prepared(asked, coming))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=read, daemon=True).start()

    def _prepared(self, asked: dict[str, Any], coming: Coming | None = None) -> _Compute:
        """What computes a job's answer."""
        if asked["kind"] == "sql":
            return self._query(asked)
        if asked["kind"] == "update":
            return self._update(asked["model"])
        if asked["model"] in self.refused:
            raise ModelUnavailableError(
                f"cannot use {asked['model']}: its file could not be taken when its engine started; its operator has to mend that"
            )
        if asked["kind"] == "get":
            table = self._tables[asked["model"]]
            return Question(table._asked(Path(asked["input"]).read_bytes()), table._answered)
        if asked["model"] in self._vectors:
            return self._nearest(asked, self._vectors[asked["model"]])
        model = self._models[asked["model"]]
        server = self._server(asked, model)
        if asked["kind"] == "session":
            return lambda: self._session(model, server)
        size = sum(asked["parts"])
        tensors = _tensors(server, asked["parts"], coming or Coming(asked["input"], size, size))
        watch = (lambda stage, share: self._progress(stage, share, asked["job"])) if asked["watch"] else None
        return lambda: model.run(server, tensors, watch)

    def _update(self, name: str) -> _Compute:
        """The file is read and checked beside what is computed; rows change between two readings."""
        if name in self.refused:
            found = self._loaded(name)
            return lambda: self._take(name, found)
        path, _ = self._files[name]
        if name in self._tables:
            table, parts = self._tables[name], Parts(path, DATABASE_TYPE)
            return lambda: table._follow(parts)
        index, parts = self._vectors[name], Parts(path, INDEX_TYPE)
        return lambda: index._follow(parts)

    def _nearest(self, asked: dict[str, Any], index: hg.query.Vectors) -> _Compute:
        """Scores of all rows; of a session that the keys are right for them."""

        def made() -> tuple[Any, int]:
            keys: Any = self._stored(asked, "keys", asked["digest"], lambda path: hg.load(path, hg.EvaluationKeys))
            index.layout.require_keys(keys)
            return hg.Server(keys, limit=2 * index.layout.query_bytes + (1 << 20)), int(keys.nbytes)

        server: hg.Server[Any] = self._keys.get(f"{asked['model']}:{asked['digest']}", made, index.layout.answer_bytes)
        if asked["kind"] == "session":
            return lambda: None
        size = sum(asked["parts"])
        (vector,) = _tensors(server, asked["parts"], Coming(asked["input"], size, size))

        def scores(several: list[tuple[Any, str | None]]) -> list[Any]:
            watched = [job for _, job in several if job is not None]
            watch = (lambda share: self._progress("scores", share, *watched)) if watched else None
            return list(index.scores_together([one for one, _ in several], progress=watch))

        return Question((vector, asked["job"] if asked["watch"] else None), scores)

    def _server(self, asked: dict[str, Any], model: hg.SealedModel) -> hg.Server[Any]:
        besides = max(model.memory_bytes - model.key_bytes, 0)

        def made() -> tuple[Any, int]:
            room = max(self._keys.memory - besides, 0)
            load = functools.partial(hg.load, kind=hg.EvaluationKeys, memory=room)  # what is larger stays in its file
            keys: Any = self._stored(asked, "keys", asked["digest"], load)
            model.require_keys(keys)
            return hg.Server(keys, limit=model.memory_bytes), min(int(keys.nbytes), room)

        found: hg.Server[Any] = self._keys.get(f"{model.name}:{asked['digest']}", made, besides)
        return found

    def _stored(self, asked: dict[str, Any], name: str, digest: str, load: Callable[[str], Any]) -> Any:
        """A client's file, read. Where the disk has damaged it, it is evicted: the client has it, and sends it again."""
        path = asked[name]
        try:
            return load(path)
        except (hg.FormatError, OSError) as error:
            if not Path(path).exists() or _digest_of(path) != digest:
                self.say(event="damaged", job=asked["job"], digest=digest)
                raise EvictedKeyError(f"{digest[:8]} was damaged on the service's disk: upload it again") from None
            if isinstance(error, OSError):
                raise
            raise type(error)(str(error).removeprefix(f"'{path}': ")) from None

    @staticmethod
    def _session(model: hg.SealedModel, server: hg.Server[Any]) -> None:
        """The model can be run by these keys, or an error says why not."""
        model.require_keys(server.keys)
        model.prepare()

    def _query(self, asked: dict[str, Any]) -> _Compute:
        def made() -> tuple[Any, int]:
            keys: Any = self._stored(asked, "keys", asked["digest"], lambda path: hg.load(path, hg.EvaluationKeys))
            return hg.query.SqlServer(keys), int(keys.nbytes)

        server: hg.query.SqlServer = self._keys.get(f"sql:{asked['digest']}:{asked['table_digest']}", made, 0)
        if not server.tables:
            self._stored(asked, "table", asked["table_digest"], server.load)
        text = Path(asked["input"]).read_text(encoding="utf-8")
        return lambda: server.sql(text, progress=lambda share: self._progress("answer", share, asked["job"]))

    def _progress(self, stage: str, share: float, *jobs: str) -> None:
        now = time.monotonic()
        if now - self._told < _OFTEN:
            return
        self._told = now
        for job in jobs:
            self.say(event="progress", job=job, stage=stage, share=share)

    # Computing

    def work(self) -> None:
        """The main thread: one job after the other, or questions of one group together."""
        while True:
            several = self._next()
            started = time.monotonic()
            ends = self._ended(several)
            seconds = time.monotonic() - started
            with self._counting:
                self._unended -= len(several)
            busy = self._held is not None or not self._ready.empty()  # another is there to be computed
            for asked, answer, error in ends:
                if error is None and busy:
                    self.say(event="computed", job=asked["job"])
                    self._computed.put((asked, answer, seconds, len(ends)))
                else:
                    said = self._written(asked, answer) if error is None else self._known(asked, error)
                    self._tell(asked["job"], said, seconds, len(ends))

    def _next(self) -> list[_Ready]:
        """What is computed now: a job, and of its group what is there."""
        asked, found = self._held or self._ready.get()
        self._held = None
        several: list[_Ready] = [(asked, self._read(asked) if found is None else found)]
        most = 1 if asked["group"] is None else self._together[asked["group"]]
        while len(several) < most:
            try:
                other, found = self._ready.get_nowait()
            except queue.Empty:
                break
            if other["group"] != asked["group"]:
                self._held = other, found
                break
            several.append((other, self._read(other) if found is None else found))
        return several

    def write(self) -> None:
        """Writes answers while the main thread computes the next."""
        while True:
            asked, answer, seconds, together = self._computed.get()
            self._tell(asked["job"], self._written(asked, answer), seconds, together)
            del answer  # its memory

    def _tell(self, job: str, said: dict[str, Any] | int, seconds: float, together: int = 1) -> None:
        """How a job ended, in how many seconds for so many: with an error, or an answer of so many bytes."""
        told = {"event": "done", "bytes": said} if isinstance(said, int) else {"event": "failed", "error": said}
        held = {"keys": len(self._keys), "key_bytes": self._keys.nbytes}
        self.say(**told, job=job, seconds=seconds, together=together, **held)

    def _ended(self, several: list[_Ready]) -> list[tuple[dict[str, Any], Any, Exception | None]]:
        """Jobs with their answers, or errors that say why there is none; without those that were cancelled and have ended already."""
        ends = dict[str, tuple[Any, Exception | None]]()
        begun = self._taken_up(several)
        try:
            self._computing = True
            if self._current <= self._unwanted:
                raise _Stopped
            self._compute(begun, ends)
            self._computing = False
        except _Stopped:  # none of them is wanted
            self._computing = False
        with self._changing:
            left, self._current, self._unwanted = self._current, set(), set()
        stopped = None, hg.CancelledError("the job was cancelled")
        return [(asked, *ends.get(asked["job"], stopped)) for asked, _ in begun if asked["job"] in left]

    def _taken_up(self, several: list[_Ready]) -> list[_Ready]:
        """Those that are still wanted; of a group the service is told, that others may gather meanwhile."""
        with self._changing:
            begun = [(asked, found) for asked, found in several if asked["job"] in self._waiting]
            self._current = {asked["job"] for asked, _ in begun}
            self._waiting -= self._current
        if begun and begun[0][0]["group"] is not None:
            count = sum(not isinstance(found, Exception) for _, found in begun)
            jobs = [asked["job"] for asked, _ in begun]
            self.say(event="begun", jobs=jobs, model=begun[0][0]["model"], count=count)
        return begun

    def _compute(self, begun: list[_Ready], ends: dict[str, tuple[Any, Exception | None]]) -> None:
        """Answers, together where they are several; where that fails, each by itself, which tells whose fault it was."""
        ends |= {asked["job"]: (None, found) for asked, found in begun if isinstance(found, Exception)}
        rest = [(asked["job"], found) for asked, found in begun if callable(found)]
        questions = [found for _, found in rest if isinstance(found, Question)]
        if len(questions) > 1:
            try:
                answers = questions[0].together([question.one for question in questions])
                ends |= {job: (answer, None) for (job, _), answer in zip(rest, answers, strict=True)}
                return
            except Exception:  # of one of them, or there is no room for all
                pass
        for job, compute in rest:
            if job in self._current:
                try:
                    ends[job] = compute(), None
                except Exception as error:
                    ends[job] = None, error

    def _written(self, asked: dict[str, Any], answer: Any) -> dict[str, Any] | int:
        """Writes an answer: how many bytes it has; an error that says why not. An update has none."""
        if asked["kind"] == "update":
            return 0
        try:
            data = answer if isinstance(answer, bytes) else b"" if answer is None else answer.to_bytes()
            with full_disks():
                _write(asked["output"], data)
        except Exception as error:
            return self._known(asked, error)
        return len(data)

    def _known(self, asked: dict[str, Any], error: Exception) -> dict[str, Any]:
        """An error as it travels; one that is none of ours is a fault besides."""
        if not isinstance(error, hg.HeliographError) or isinstance(error, StorageError):
            what = f"{type(error).__name__} in {_place_of(error)}"
            self.say(event="fault", job=asked["job"], what=what, errno=error_fields(error)["errno"])
        return to_wire(error)


def _write(path: str, data: bytes) -> None:
    """A file, or memory that the service lends, which keeps its pages. It is on no disk when this returns: who asks does so
    before the machine stops, or asks again.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _digest_of(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place_of(error: BaseException) -> str:
    """File and line, for the log: no value stands there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "nowhere"


def _tensors(server: hg.Server[Any], sizes: list[int], coming: Coming) -> tuple[Any, ...]:
    """A request's tensors, from its bytes where they lie."""
    if not sum(sizes):
        raise hg.FormatError("a request holds no tensor")
    found, start = [], 0
    with coming:
        for size in sizes:
            part, arrived = coming.part(start, size)
            with part:
                found.append(server._from_coming(part, arrived))
            start += size
    return tuple(found)


def main() -> None:
    """The process."""
    said = json.loads(sys.argv[1])
    line = socket.socket(fileno=int(said["line"]))
    try:
        threads = hg.threads()  # opens the device, before a model that cannot be read by it is called damaged
        worker = _started(line, said)
    except hg.HeliographError as error:
        line.sendall(json.dumps({"event": "unable", "error": _named(error)}).encode() + b"\n")
        sys.exit(1)
    refused = {name: _named(error) for name, error in worker.refused.items()}
    worker.say(event="ready", devices=hg.devices() if said.get("devices") else [], threads=threads, refused=refused)
    worker.work()


def _named(error: Exception) -> dict[str, str]:
    """An error of this service's own files, for its operator."""
    return {"name": type(error).__name__, "text": str(error)}


def _started(line: socket.socket, said: dict[str, Any]) -> Worker:
    """Listens, and heeds signals."""
    worker = Worker(line, said["models"], int(said["memory"]), said["together"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # those that are for the service
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, worker.interrupt)
    for task in (worker.listen, worker.fetch, worker.write):
        threading.Thread(target=task, daemon=True).start()
    return worker


if __name__ == "__main__":
    main()
