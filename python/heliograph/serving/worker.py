"""An engine: a process that computes on one set of devices. Only the service starts this process, as ``python -m
heliograph.serving.worker``.

The engine reads commands as JSON lines from a socket and answers by JSON lines. The engine holds the models, and the most
recently used keys of clients. The main thread computes; a signal interrupts its computation (`heliograph/interrupt.h`).
Other threads read the next job's keys and request meanwhile, even while that request arrives, and write the previous
answer. The process ends with its service."""

from __future__ import annotations

import hashlib
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

from heliograph import _core
from heliograph._common.process import threads as device_threads
from heliograph._common.service.errors import EvictedKeyError, ModelUnavailableError, StorageError, error_to_json
from heliograph._common.service.kinds import KINDS
from heliograph.serving.disks import disk_errors
from heliograph.serving.engine_messages import (
    Arrived,
    Begun,
    Cancel,
    Computed,
    Damaged,
    Done,
    Drop,
    ErrorFields,
    Failure,
    Fault,
    Forget,
    Message,
    Progress,
    Read,
    Ready,
    Run,
    Start,
    Update,
    decode,
)
from heliograph.serving.incoming import IncomingRequest
from heliograph.serving.log import error_fields
from heliograph.serving.served import ENCRYPTED_TABLES, Compute, Query, Served, served_of

_PROGRESS_INTERVAL = 0.1  # seconds between progress messages
_Job = Run | Update
_Ready = tuple[_Job, Compute | Exception | None]  # a job, and its computation or error; None: the request is not read yet


class _Stopped(BaseException):
    """The job that is being computed was cancelled."""


class Keyring:
    """Servers of clients' keys within a memory limit; the least recently used one is dropped, and its keys stay on disk."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._next_job: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, name: str, make: Callable[[], tuple[Any, int]], other_memory: int) -> Any:
        """Returns the server under a name, made by `make` if it is not in memory. `other_memory` is the memory that the use
        of the server takes in addition to keys.

        """
        with self._lock:
            found = self._next_job.get(name)
        if found is None:
            found = make()
        with self._lock:
            self._next_job[name] = found
            self._next_job.move_to_end(name)
            room = max(self.memory - other_memory, 0)
            while len(self._next_job) > 1 and self.nbytes > room:
                self._next_job.popitem(last=False)
        return found[0]

    def forget(self, digest: str) -> None:
        """Drops revoked or expired keys from memory."""
        with self._lock:
            for name in [name for name in self._next_job if digest in name]:
                del self._next_job[name]

    @property
    def nbytes(self) -> int:
        """Bytes of keys in memory."""
        with self._lock:
            return sum(size for _, size in self._next_job.values())


class Worker:
    """The engine's state."""

    def __init__(
        self, line: socket.socket, models: dict[str, tuple[str, str]], memory: int, batches: dict[str, int]
    ) -> None:
        self._line, self._batches, self._files, self.memory = line, batches, models, memory
        self._served: dict[str, Served] = {"": ENCRYPTED_TABLES}
        self.refused: dict[str, Exception] = {}  #: models whose files are damaged, missing or of another model
        for name in models:
            try:
                self._served[name] = self._loaded(name)
            except _core.DeviceError:
                raise
            except (_core.HeliographError, OSError, MemoryError) as error:
                self.refused[name] = error
        self._keys = Keyring(memory)
        self._ready: queue.Queue[_Ready] = queue.Queue()  # the queue is short: the service limits the jobs that it sends
        self._next_job: _Ready | None = None  # a job taken from `_ready`, of another group than the present batch
        self._unread: queue.Queue[_Job] = queue.Queue()
        self._early: dict[str, tuple[Read, IncomingRequest, Future[Compute]]] = {}
        self._computed: queue.Queue[tuple[_Job, Any, float, int]] = queue.Queue()
        self._unended, self._counting = 0, threading.Lock()  # jobs that the main thread computes or will compute
        self._waiting: set[str] = set()  # jobs that have not started
        self._current: set[str] = set()  # jobs of the batch that the main thread computes
        self._cancelled: set[str] = set()  # cancelled jobs of that batch
        self._computing = False
        self._changing = threading.Lock()  # guards the sets of jobs above
        self._sending = threading.Lock()
        self._reported = 0.0  # time of the last progress message

    def _loaded(self, name: str) -> Served:
        """Loads a model or table from its file. Raises FormatError and its subclasses, MismatchError for another model,
        OSError.
        """
        path, digest = self._files[name]
        found = served_of(Path(path))
        found.load()
        if found.digest != digest:
            raise _core.MismatchError(
                f"cannot serve the file of {name}: it must be the model or table that the service started with, "
                "got another; restart the service to serve it"
            )
        return found

    def _take(self, name: str, found: Served) -> None:
        self._served[name] = found
        self.refused.pop(name, None)

    # Messages

    def send(self, message: Message) -> None:
        """Sends a message to the service."""
        with self._sending:
            self._line.sendall(message.encode())

    def listen(self) -> None:
        """Reads commands until the service ends; then ends this process."""
        try:
            with self._line.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    self.handle(decode(line))
        finally:
            os._exit(0)

    def handle(self, message: Message) -> None:
        """Executes a command of the service."""
        match message:
            case Cancel(job):
                self._cancel(job)
            case Forget(digest):
                self._keys.forget(digest)
            case Read():
                self._begin(message)
            case Arrived(job, nbytes):
                self._early[job][1].set_arrived(nbytes)
            case Drop(job):
                self._early.pop(job)[1].drop()
            case Run() | Update():
                self._enqueue(message)

    def _enqueue(self, job: _Job) -> None:
        with self._changing:
            self._waiting.add(job.job)
        if (early := self._early.get(job.job)) is not None:
            early[1].set_arrived(sum(early[0].parts))  # the whole request has arrived
        with self._counting:
            self._unended += 1
            idle = self._unended == 1
        if idle:  # the main thread is idle and reads the request itself
            self._ready.put((job, None))
        else:
            self._unread.put(job)

    def interrupt(self, *_: Any) -> None:
        """Handles the cancellation signal, in the main thread."""
        if self._computing and self._current and self._current <= self._cancelled:
            raise _Stopped

    def _cancel(self, job: str) -> None:
        """Cancels a job. A cancelled job that waits, or is part of a batch, ends at once; a computation is interrupted once
        all of its jobs are cancelled.

        """
        with self._changing:
            if job in self._waiting:
                self._waiting.remove(job)
            elif job in self._current - self._cancelled:
                self._cancelled.add(job)
                if self._current <= self._cancelled:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                    return
                self._current.remove(job)
                self._cancelled.remove(job)
            else:
                return
        self._report(job, error_to_json(_core.CancelledError("the job was cancelled")), 0.0)

    # Reading

    def fetch(self) -> None:
        """Reads each job's keys and request while the main thread computes the previous job."""
        while True:
            job = self._unread.get()
            self._ready.put((job, self._read(job)))

    def _read(self, job: _Job) -> Compute | Exception:
        """Returns a job's computation, or the error that prevents the computation."""
        early = self._early.pop(job.job, None)
        try:
            return self._prepared(job) if early is None else early[2].result()
        except Exception as error:
            return error

    def _begin(self, job: Read) -> None:
        """Reads a request while it arrives, on a separate thread because its client may be slow. The service starts one
        early reading at a time.

        """
        incoming, future = IncomingRequest(job.request, sum(job.parts)), Future[Compute]()
        self._early[job.job] = job, incoming, future

        def read() -> None:
            try:
                future.set_result(self._prepared(job, incoming))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=read, daemon=True).start()

    def _prepared(self, job: _Job, request: IncomingRequest | None = None) -> Compute:
        """Returns a job's computation."""
        if isinstance(job, Update):
            return self._update(job.model)
        if job.model in self.refused:
            raise ModelUnavailableError(
                f"cannot use {job.model}: the engine could not load its file; tell the service's operator"
            )
        size = sum(job.parts)
        return self._served[job.model].prepare(
            job, KINDS[job.kind], request or IncomingRequest(job.request, size, size), self
        )

    def _update(self, name: str) -> Compute:
        """Loads a table's new file while the main thread computes. The returned computation replaces the rows between two
        batches.
        """
        if name in self.refused:
            found = self._loaded(name)
            return lambda: self._take(name, found)
        return self._served[name].update()

    # Methods of `Context`

    def server(self, name: str, make: Callable[[], tuple[Any, int]], other_memory: int) -> Any:
        """Implements `Context.server`."""
        return self._keys.get(name, make, other_memory)

    def progress(self, stage: str, share: float, *jobs: str) -> None:
        """Implements `Context.progress`, at most once in `_PROGRESS_INTERVAL` seconds."""
        now = time.monotonic()
        if now - self._reported < _PROGRESS_INTERVAL:
            return
        self._reported = now
        for job in jobs:
            self.send(Progress(job, stage, share))

    def stored(self, job: Run, path: str, digest: str, load: Callable[[str], Any]) -> Any:
        """Implements `Context.stored`. A file damaged by the disk is evicted, so that the client uploads it again."""
        try:
            return load(path)
        except (_core.FormatError, OSError) as error:
            if not Path(path).exists() or _digest_of(path) != digest:
                self.send(Damaged(job.job, digest))
                raise EvictedKeyError(f"{digest[:8]} was damaged on the service's disk; upload it again") from None
            if isinstance(error, OSError):
                raise
            raise type(error)(str(error).removeprefix(f"'{path}': ")) from None

    # Computing

    def work(self) -> None:
        """Computes, in the main thread: one job after another, or batches of one group."""
        while True:
            batch = self._next()
            started = time.monotonic()
            ends = self._ended(batch)
            seconds = time.monotonic() - started
            with self._counting:
                self._unended -= len(batch)
            busy = self._next_job is not None or not self._ready.empty()  # another job is ready
            for job, answer, error in ends:
                if error is None and busy:
                    self.send(Computed(job.job))
                    self._computed.put((job, answer, seconds, len(ends)))
                else:
                    result = self._written(job, answer) if error is None else self._error_fields(job, error)
                    self._report(job.job, result, seconds, len(ends))

    def _next(self) -> list[_Ready]:
        """Returns the next batch: a job and the ready jobs of its group."""
        job, found = self._next_job or self._ready.get()
        self._next_job = None
        batch: list[_Ready] = [(job, self._read(job) if found is None else found)]
        group = _group(job)
        most = 1 if group is None else self._batches[group]
        while len(batch) < most:
            try:
                other, found = self._ready.get_nowait()
            except queue.Empty:
                break
            if _group(other) != group:
                self._next_job = other, found
                break
            batch.append((other, self._read(other) if found is None else found))
        return batch

    def write(self) -> None:
        """Writes answers while the main thread computes the next job."""
        while True:
            job, answer, seconds, batch = self._computed.get()
            self._report(job.job, self._written(job, answer), seconds, batch)
            del answer  # frees the memory of the answer

    def _report(self, job: str, result: ErrorFields | int, seconds: float, batch: int = 1) -> None:
        """Reports the end of a job: its error or the answer's size, and the seconds of its batch."""
        error, nbytes = (None, result) if isinstance(result, int) else (result, 0)
        self.send(Done(job, error, nbytes, seconds, batch, self._keys.nbytes))

    def _ended(self, batch: list[_Ready]) -> list[tuple[_Job, Any, Exception | None]]:
        """Computes a batch. Returns the batch's jobs with their answers or errors, without jobs whose cancellation was
        already reported.

        """
        ends = dict[str, tuple[Any, Exception | None]]()
        begun = self._begin_batch(batch)
        try:
            self._computing = True
            if self._current <= self._cancelled:
                raise _Stopped
            self._compute(begun, ends)
            self._computing = False
        except _Stopped:  # all jobs were cancelled
            self._computing = False
        with self._changing:
            left, self._current, self._cancelled = self._current, set(), set()
        stopped = None, _core.CancelledError("the job was cancelled")
        return [(job, *ends.get(job.job, stopped)) for job, _ in begun if job.job in left]

    def _begin_batch(self, batch: list[_Ready]) -> list[_Ready]:
        """Returns the jobs that are not cancelled. For a batch, reports its start, so that the service can gather the next
        batch.

        """
        with self._changing:
            begun = [(job, found) for job, found in batch if job.job in self._waiting]
            self._current = {job.job for job, _ in begun}
            self._waiting -= self._current
        if begun and _group(begun[0][0]) is not None:
            count = sum(not isinstance(found, Exception) for _, found in begun)
            self.send(Begun([job.job for job, _ in begun], begun[0][0].model, count))
        return begun

    def _compute(self, begun: list[_Ready], ends: dict[str, tuple[Any, Exception | None]]) -> None:
        """Computes answers, as one batch if there are several queries. If the batch fails, computes each query alone to find
        the query that fails.

        """
        ends |= {job.job: (None, found) for job, found in begun if isinstance(found, Exception)}
        rest = [(job.job, found) for job, found in begun if callable(found)]
        queries = [found for _, found in rest if isinstance(found, Query)]
        if len(queries) > 1:
            try:
                answers = queries[0].answers([one.query for one in queries])
                ends |= {job: (answer, None) for (job, _), answer in zip(rest, answers, strict=True)}
                return
            except Exception:  # one query is invalid, or the memory does not suffice for all queries
                pass
        for job, compute in rest:
            if job in self._current:
                try:
                    ends[job] = compute(), None
                except Exception as error:
                    ends[job] = None, error

    def _written(self, job: _Job, answer: Any) -> ErrorFields | int:
        """Writes an answer. Returns the answer's size, or the error as JSON. An update of a table has no answer."""
        if isinstance(job, Update):
            return 0
        try:
            data = answer if isinstance(answer, bytes) else b"" if answer is None else answer.to_bytes()
            with disk_errors():
                _write(job.output, data)
        except Exception as error:
            return self._error_fields(job, error)
        return len(data)

    def _error_fields(self, job: _Job, error: Exception) -> ErrorFields:
        """Converts an error to JSON. An unexpected error is also reported as a fault."""
        if not isinstance(error, _core.HeliographError) or isinstance(error, StorageError):
            where = f"{type(error).__name__} in {_code_line(error)}"
            self.send(Fault(job.job, where, error_fields(error)["errno"]))
        return error_to_json(error)


def _write(path: str, data: bytes) -> None:
    """Writes an answer to a file, or to memory that the service lends. The file is not flushed to the disk: after a crash of
    the machine, clients submit their jobs again.

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


def _code_line(error: BaseException) -> str:
    """Returns file and line of an error, for the log; they contain no values."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "nowhere"


def _group(job: _Job) -> str | None:
    return job.group if isinstance(job, Run) else None


def main() -> None:
    """Runs the engine."""
    start = decode(sys.argv[1])
    assert isinstance(start, Start)
    line = socket.socket(fileno=start.line)
    try:
        threads = device_threads()  # opens the device first, so that its errors are not reported as damaged models
        worker = _started(line, start)
    except _core.HeliographError as error:
        line.sendall(Failure(_operator_error(error)).encode())
        sys.exit(1)
    worker.send(Ready(threads, {name: _operator_error(error) for name, error in worker.refused.items()}))
    worker.work()


def _operator_error(error: Exception) -> ErrorFields:
    """Converts an error of the service's own files to JSON, for the operator."""
    return {"name": type(error).__name__, "text": str(error)}


def _started(line: socket.socket, start: Start) -> Worker:
    """Starts the engine's threads and signal handlers."""
    worker = Worker(line, start.models, start.memory, start.batches)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service handles these signals
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, worker.interrupt)
    for task in (worker.listen, worker.fetch, worker.write):
        threading.Thread(target=task, daemon=True).start()
    return worker


if __name__ == "__main__":
    main()
