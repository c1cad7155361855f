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
from pathlib import Path
from typing import Any

import heliograph as hg
from heliograph.query.lookup import DATABASE_TYPE
from heliograph.query.vectors import INDEX_TYPE
from heliograph.serving.coming import Coming
from heliograph.serving.errors import EvictedKeyError, to_wire
from heliograph.serving.store import full_disks
from heliograph.serving.tables import type_of

_OFTEN = 0.1  # seconds between two words of progress
_Compute = Callable[[], Any]  # what has an answer's bytes, `to_bytes`; None for none


class _Stopped(BaseException):
    """The job that is being computed is not wanted any more."""


class Keyring:
    """Servers of clients' keys, within so many bytes of memory: what was used least recently leaves, and stays on the disk."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._held: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

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
        return sum(size for _, size in self._held.values())

    def __len__(self) -> int:
        return len(self._held)


class Worker:
    """The process's state."""

    def __init__(self, line: socket.socket, models: dict[str, str], memory: int) -> None:
        self._line = line
        kinds = {name: type_of(Path(path)) for name, path in models.items()}
        self._tables = {name: hg.query.Database.load(models[name]) for name, kind in kinds.items() if kind == DATABASE_TYPE}
        self._vectors = {name: hg.query.Vectors.load(models[name]) for name, kind in kinds.items() if kind == INDEX_TYPE}
        rest = kinds.keys() - self._tables.keys() - self._vectors.keys()
        self._models = {name: hg.SealedModel.load(models[name]) for name in rest}
        self._keys = Keyring(memory)
        self._ready: queue.Queue[tuple[dict[str, Any], _Compute | Exception | None]] = queue.Queue(maxsize=1)
        self._asked: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._early: dict[str, tuple[dict[str, Any], Coming, Future[_Compute]]] = {}
        self._computed: queue.Queue[tuple[dict[str, Any], Any, float]] = queue.Queue()
        self._unended, self._counting = 0, threading.Lock()  # jobs that the main thread has before it or at hand
        self._unwanted: set[str] = set()
        self._current = ""
        self._computing = False
        self._sending = threading.Lock()
        self._told = 0.0

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
            self._unwanted.add(words["job"])
            if self._current == words["job"]:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        elif words["do"] == "forget":
            self._keys.forget(words["digest"])
        elif words["do"] == "read":
            self._begin(words)
        elif words["do"] == "have":
            self._early[words["job"]][1].more(words["bytes"])
        elif words["do"] == "drop":
            self._early.pop(words["job"])[1].drop()
        else:
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
        if self._computing and self._current in self._unwanted:
            raise _Stopped

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
        if asked["kind"] == "get":
            question, table = Path(asked["input"]).read_bytes(), self._tables[asked["model"]]
            return lambda: table.answer(question)
        if asked["model"] in self._vectors:
            return self._nearest(asked, self._vectors[asked["model"]])
        model = self._models[asked["model"]]
        server = self._server(asked, model)
        if asked["kind"] == "session":
            return lambda: self._session(model, server)
        size = sum(asked["parts"])
        tensors = _tensors(server, asked["parts"], coming or Coming(asked["input"], size, size))
        watch = (lambda stage, share: self._progress(asked["job"], stage, share)) if asked["watch"] else None
        return lambda: model.run(server, tensors, watch)

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
        watch = (lambda share: self._progress(asked["job"], "scores", share)) if asked["watch"] else None
        return lambda: index.scores(vector, progress=watch)

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
        return lambda: server.sql(text, progress=lambda share: self._progress(asked["job"], "answer", share))

    def _progress(self, job: str, stage: str, share: float) -> None:
        now = time.monotonic()
        if now - self._told >= _OFTEN:
            self._told = now
            self.say(event="progress", job=job, stage=stage, share=share)

    # Computing

    def work(self) -> None:
        """The main thread: one job after the other."""
        while True:
            asked, found = self._ready.get()
            if found is None:
                found = self._read(asked)
            job, started = asked["job"], time.monotonic()
            try:
                answer, said = self._answer(asked, found)
            except _Stopped:  # between two lines of `_answer`
                answer, said = None, to_wire(hg.CancelledError("the job was cancelled"))
            self._current, self._computing = "", False
            self._unwanted.discard(job)
            seconds = time.monotonic() - started
            with self._counting:
                self._unended -= 1
            if said is None and not self._ready.empty():  # another is there to be computed
                self.say(event="computed", job=job)
                self._computed.put((asked, answer, seconds))
            else:
                self._tell(asked, said or self._written(asked, answer), seconds)

    def write(self) -> None:
        """Writes answers while the main thread computes the next."""
        while True:
            asked, answer, seconds = self._computed.get()
            self._tell(asked, self._written(asked, answer), seconds)
            del answer  # its memory

    def _tell(self, asked: dict[str, Any], said: dict[str, Any] | int, seconds: float) -> None:
        """An error, or how many bytes an answer has."""
        told = {"event": "done", "bytes": said} if isinstance(said, int) else {"event": "failed", "error": said}
        self.say(**told, job=asked["job"], seconds=seconds, keys=len(self._keys), key_bytes=self._keys.nbytes)

    def _answer(self, asked: dict[str, Any], found: _Compute | Exception) -> tuple[Any, dict[str, Any] | None]:
        """Computes an answer; or an error that says why there is none."""
        try:
            self._current = asked["job"]
            self._computing = True
            if asked["job"] in self._unwanted:
                raise _Stopped
            if isinstance(found, Exception):
                raise found
            answer = found()
            self._computing = False
            return answer, None
        except _Stopped:
            return None, to_wire(hg.CancelledError("the job was cancelled"))
        except Exception as error:
            self._computing = False
            return None, self._known(asked, error)

    def _written(self, asked: dict[str, Any], answer: Any) -> dict[str, Any] | int:
        """Writes an answer: how many bytes it has; an error that says why not."""
        try:
            data = answer if isinstance(answer, bytes) else b"" if answer is None else answer.to_bytes()
            with full_disks():
                _write(asked["output"], data)
        except Exception as error:
            return self._known(asked, error)
        return len(data)

    def _known(self, asked: dict[str, Any], error: Exception) -> dict[str, Any]:
        """An error as it travels; one that is none of ours is a fault besides."""
        if not isinstance(error, hg.HeliographError):
            self.say(event="fault", job=asked["job"], what=f"{type(error).__name__} in {_place_of(error)}")
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
    try:
        threads = hg.threads()  # opens the device, before a model that cannot be read by it is called damaged
        worker = _started(said)
    except hg.HeliographError as error:
        print(f"heliograph: engine: {error}", file=sys.stderr)
        sys.exit(1)
    worker.say(event="ready", devices=hg.devices() if said.get("devices") else [], threads=threads)
    worker.work()


def _started(said: dict[str, Any]) -> Worker:
    """Listens, and heeds signals."""
    worker = Worker(socket.socket(fileno=int(said["line"])), said["models"], int(said["memory"]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # those that are for the service
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, worker.interrupt)
    for task in (worker.listen, worker.fetch, worker.write):
        threading.Thread(target=task, daemon=True).start()
    return worker


if __name__ == "__main__":
    main()
