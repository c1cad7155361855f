"""The service itself, which knows no protocol: models, keys, jobs and engines. All of it runs in one event loop.

HTTP and gRPC are faces of this (`http`, `rpc`): what they refuse is refused here, in the same words.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from heliograph import _core
from heliograph._arrays import readable_bytes
from heliograph.sealed import SealedModel
from heliograph.serving.access import Access, Pace, Rate
from heliograph.serving.engines import Engine
from heliograph.serving.errors import (
    BusyError,
    ConflictError,
    DeadlineError,
    ModelUnavailableError,
    RevokedKeyError,
    UnknownJobError,
    UnknownModelError,
    from_wire,
)
from heliograph.serving.figures import Figures, Spans
from heliograph.serving.jobs import COMPUTED, ENDS, Asked, Job, Queue, group_of
from heliograph.serving.log import REQUEST, Log, error_fields
from heliograph.serving.spool import Body, Spool
from heliograph.serving.store import Store
from heliograph.serving.tables import Index, Table, jobs_of, served_of

_BLOCK = 1 << 18  # bytes that are written at a time; each client that sends has two
_LONGEST_QUERY = 1 << 16
_SLOWEST = 16 << 10  # bytes a second that a client must send on average
_LAST_BYTES = 2.0  # seconds for requests that are coming when the service stops
_SWEEP = 5.0  # seconds between two looks for what has expired
_AT_THE_DISK = 2  # calls of one client
_REQUESTS, _REFUSALS = 300, 20  # a second of one client, before answers to it are held back
_LONGEST_DELAY = 5.0  # seconds for which they are
_EARLY, _TOLD = 1 << 20, 1 << 20  # bytes of a request that is read while it comes, and between two words of how far it is
_UNAVAILABLE = (
    "cannot use {}: the service's file of it is damaged, or of another one than it began with; its operator has to mend that"
)
_STALLED = 30.0  # seconds without a turn of the event loop after which the process is not alive
_BEAT = 1.0  # seconds between two turns that are noted
_MOST_ATTEMPTS, _MOST_BESIDE = 2, 4  # of a job that an engine was computing as it ended, and of one beside it


T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What clients may ask for. None: as much as they like."""

    queue: int = 64  #: jobs that wait, of all clients
    jobs: int = 16  #: jobs of one client that have not ended
    rate: float | None = None  #: jobs and uploads begun a second, of one client
    memory: int = 4 << 30  #: bytes of an engine's memory
    seconds: float = 3600.0  #: that a job may take from its acceptance
    idle: float = 30.0  #: seconds in which nothing comes of a request's bytes
    together: int = 32  #: questions to one table that are answered together
    kept: float = 300.0  #: seconds for which an answer can be asked for again
    kept_bytes: int = 256 << 20  #: of one client's answers that are kept
    kept_jobs: int = 1000  #: of one client that are known after they ended
    held: int = 256 << 20  #: bytes of all requests in memory; what is beyond lies in files
    answers: int = 64 << 20  #: bytes of all answers in memory; what is beyond lies in files


class Service:
    """Models, a store of keys, engines, and the jobs of clients."""

    def __init__(
        self,
        models: dict[str, Path],
        store: Store,
        access: Access,
        limits: Limits,
        *,
        devices: list[str | None],
        log: Log,
        figures: Figures,
        spans: Spans,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.access, self.limits, self.log, self.figures, self.spans = store, access, limits, log, figures, spans
        self.models, self._paths = {name: served_of(path) for name, path in models.items()}, models
        self._rereading, self._updates = asyncio.Lock(), itertools.count()
        self._stamps: dict[str, tuple[int, int, int] | None] = {name: _stamp(path) for name, path in models.items()}
        for name, model in self.models.items():
            if not model.complete:
                raise _core.ParameterError(f"{name} is a client's half: a service needs the whole model")
            if model.memory_bytes > limits.memory:
                need, have = readable_bytes(model.memory_bytes), readable_bytes(limits.memory)
                raise _core.LimitError(f"the model {name} needs {need} for one request, and an engine may take {have}")
        self.halves = {name: model.client().to_bytes() for name, model in self.models.items()}
        self.folder = store.folder / "spool"  # of requests and answers that memory has no room for
        self.spool = Spool(limits.held, limits.answers)
        files = {name: (str(path), self.models[name].digest) for name, path in models.items()}
        together = {
            group_of(model.jobs[0], name): model.together(limits.memory, limits.together)
            for name, model in self.models.items()
            if not isinstance(model, SealedModel)
        }
        self.engines = [
            Engine(n, device, files, limits.memory, together, self._heard, self._lost, log)
            for n, device in enumerate(devices)
        ]
        self.jobs: dict[str, Job] = {}
        self._unended: dict[str, Job] = {}  # of these; most have ended, and their answers are kept
        self._saving: asyncio.Task[None] | None = None
        self.stopping = False
        self._queue, self._seconds = Queue(), dict[str, float]()
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._rate: Rate | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.failure = asyncio.Event()  #: a task that the service cannot do without has ended; the log says which
        self.on_change: list[Callable[[], None]] = []  #: called once `ready` may have changed
        self._writable, self._alive = True, alive
        self._started, self._beat = False, time.monotonic()
        figures.count(
            "log_lines_dropped", "Lines of the log that were lost: its stream was stuck, full or closed", lambda: log.dropped
        )
        self.requests = Pace(_REQUESTS, 2 * _REQUESTS, _LONGEST_DELAY, time.monotonic)  #: of a client
        self.refusals = Pace(_REFUSALS, 5 * _REFUSALS, _LONGEST_DELAY, time.monotonic)  #: of a client, or of an address

    # Its life

    async def start(self) -> None:
        """Starts the engines. Raises DeviceError where one does not come up, and what a model's file is refused for."""
        shutil.rmtree(self.folder, ignore_errors=True)  # of jobs whose senders know of no answer, and ask again
        self.folder.mkdir(mode=0o700)
        self._rate = Rate(self.limits.rate, asyncio.get_running_loop().time)
        self._tasks.append(asyncio.create_task(self._beats(), name="heartbeat"))
        for problem in self.store.problems():
            self.log("fault", what=problem)
        try:
            await asyncio.gather(*(engine.start() for engine in self.engines))
        except BaseException:
            await asyncio.gather(*(engine.stop() for engine in self.engines))
            raise
        self._tasks.append(asyncio.create_task(self._sweep(), name="sweeper"))
        for task in (*self._tasks, *(engine.supervision for engine in self.engines)):
            task.add_done_callback(self._ended)
        self._tell_store()
        await asyncio.to_thread(self._tell_disk)
        self._tell_jumps()
        self._started = True
        self._changed()
        self.log("started", models=sorted(self.models), engines=len(self.engines), threads=[e.threads for e in self.engines])

    async def stop(self, grace: float) -> None:
        """Refuses what is new, ends what was accepted within so many seconds, and stops the engines."""
        self.stopping = True
        self._changed()
        self.log("stopping", jobs=len(self.unfinished()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                latest = asyncio.get_running_loop().time() + _LAST_BYTES
                while any(j.state != "receiving" or asyncio.get_running_loop().time() < latest for j in self.unfinished()):
                    await asyncio.sleep(0.02)
        for job in self.unfinished():
            self._end(job, "failed", BusyError("the service stopped before this job was done", 5.0))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(engine.stop() for engine in self.engines))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log("stopped")

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that goes on for as long as the service has ended: so must the process, for somebody to start it again."""
        if not task.cancelled() and not self.stopping:
            error = task.exception()
            self.log("fault", what=f"{task.get_name()} ended", **(error_fields(error) if error else {}))
            self.failure.set()

    async def _beats(self) -> None:
        while True:
            self._beat = time.monotonic()
            self._alive()
            await asyncio.sleep(_BEAT)

    def live(self) -> tuple[bool, str]:
        """Whether the process does anything, and words for people. Any thread may ask."""
        stalled = time.monotonic() - self._beat
        return (True, "ok") if stalled < _STALLED else (False, f"the event loop has stood still for {stalled:.0f} s")

    def ready(self) -> tuple[bool, str]:
        """Whether jobs are taken, and words for people, without names. Any thread may ask."""
        if self.stopping:
            return False, "stopping"
        up = [engine for engine in self.engines if engine.ready.is_set()]
        if not self._started or not up:
            return False, f"starting: {len(up)} of {len(self.engines)} engines are up"
        missing = sum(self._missing(name) for name in self.models)
        if missing == len(self.models):
            return False, "no model's file can be read"
        return True, "ok" + (f": {missing} of {len(self.models)} models are unavailable" if missing else "")

    def _missing(self, name: str) -> bool:
        return all(name in engine.refused for engine in self.engines)

    def _changed(self) -> None:
        """Engines came or went, or what they have."""
        for engine in self.engines:
            self.figures.engine_up.labels(str(engine.number)).set(engine.ready.is_set())
            for name in self.models:
                self.figures.model_available.labels(name, str(engine.number)).set(name not in engine.refused)
        for tell in self.on_change:
            tell()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            try:
                for record in await asyncio.to_thread(self.store.sweep):
                    self.log("expired", client=record.owner, digest=record.digest[:8])
                    for engine in self.engines:
                        engine.forget(record.digest)
                self.folder.mkdir(mode=0o700, exist_ok=True)  # somebody may have removed it
                self._drop_answers()
                self._tell_store()
                await asyncio.to_thread(self._tell_disk)
                self._tell_jumps()
            except (OSError, _core.HeliographError) as error:
                self.log("fault", what="sweep", **error_fields(error))

    async def reread(self) -> bool:
        """Tables whose files were saved anew: each engine takes the rows over between two readings. Another table is not taken.
        Files that an engine has refused are read again, models' too. Whether all were taken, as far as it is known.
        """
        fine = True
        async with self._rereading:
            for name, model in self.models.items():
                refused = any(name in engine.refused for engine in self.engines)
                try:
                    stamp = _stamp(self._paths[name])
                    if not refused and (isinstance(model, SealedModel) or stamp == self._stamps[name]):
                        continue
                    found = await asyncio.to_thread(served_of, self._paths[name])
                    if type(found) is not type(model) or (found.name, found.digest) != (name, model.digest):
                        raise _core.MismatchError("this file is of another table, whose clients are others")
                except (OSError, _core.HeliographError) as error:
                    self.log("fault", what=f"table {name}", **error_fields(error))
                    fine = False
                    continue
                self._stamps[name] = stamp
                self.models[name], self.halves[name] = found, found.client().to_bytes()
                for engine in self.engines:
                    if not isinstance(model, SealedModel) or name in engine.refused:
                        engine.update(name, next(self._updates))
        return fine

    def _tell_jumps(self) -> None:
        for seconds in self.store.ages.jumps():
            self.log("clock jumped", seconds=round(seconds))  # or the service was away for as long

    def _drop_answers(self) -> None:
        now, held, count = asyncio.get_running_loop().time(), dict[str, int](), Counter[str]()
        for key, job in sorted(self.jobs.items(), key=lambda item: -(item[1].ended or now)):
            if job.ended is None:
                continue
            held[job.owner] = held.get(job.owner, 0) + job.answer.nbytes
            count[job.owner] += 1
            beyond = now - job.ended > self.limits.kept or held[job.owner] > self.limits.kept_bytes
            beyond |= count[job.owner] > self.limits.kept_jobs
            if beyond and not job.answer.is_lent:
                del self.jobs[key]
                job.answer.close()
        self.spool.sweep()

    async def _save_answers(self) -> None:
        """The oldest answers go into files, where memory has many. What the disk has no room for stays, and new ones are refused."""
        try:
            while (answer := self.spool.oldest()) is not None:
                await asyncio.to_thread(answer.save)
                answer.saved()
        except OSError as error:
            self.log("fault", what="answers", **error_fields(error))
        finally:
            self._saving = None

    def _tell_store(self) -> None:
        for kind, count in self.store.counts().items():
            self.figures.stored.labels(kind).set(count)
        self.figures.stored_bytes.set(self.store.used_bytes())
        self.figures.tell_stored(self.store.uses().items())
        for record, reason in self.store.removals():
            self.figures.removals.labels(reason).inc()
            if reason in ("evicted", "damaged"):
                self.log("evicted", client=record.owner, digest=record.digest[:8], bytes=record.nbytes, reason=reason)

    def _tell_disk(self) -> None:
        """On another thread: a disk of a network may not answer."""
        writable = self.store.writable()
        if writable != self._writable:
            self.log("store_writable" if writable else "store_read_only")
        self._writable = writable
        self.figures.store_writable.set(writable)
        with contextlib.suppress(OSError):
            disk = os.statvfs(self.store.folder)
            self.figures.store_free.set(disk.f_bavail * disk.f_frsize)
            self.figures.store_size.set(disk.f_blocks * disk.f_frsize)

    # Uploads

    async def receive(
        self, owner: str, digest: str, offset: int, total: int, nbytes: int, body: AsyncIterator[bytes]
    ) -> tuple[int, bool]:
        """A piece of an upload, from `offset` on: how far it is then, and whether it is whole. What came stays, also of a piece that
        was cut. Raises as `Store.begin` and `Store.finish`.
        """
        self.require_open()
        if offset == 0 and self._rate is not None:
            self._rate.take(owner)
        have, whole = self.store.progress(owner, digest)
        if whole:
            return have, True
        upload = await self._on_disk(owner, self.store.begin, owner, digest, offset, total)
        try:
            await self._written(body, nbytes, upload.write)
        except _core.FormatError:  # no keys: nothing of it stays
            await asyncio.to_thread(self.store.discard, owner, digest)
            raise
        finally:
            self.figures.client_received.labels(self.figures.client(owner)).inc(upload.offset - offset)
        whole = await self._on_disk(owner, self.store.finish, owner, upload, digest)
        if whole:
            self._tell_store()
            self.log("uploaded", client=owner, digest=digest[:8], bytes=total)
        return upload.offset, whole

    async def _on_disk(self, owner: str, call: Callable[..., T], *arguments: Any) -> T:
        """A call that waits for the disk, on another thread: few at a time of one client, for there are few threads."""
        turns = self._turns.setdefault(owner, asyncio.Semaphore(_AT_THE_DISK))
        async with turns:
            return await asyncio.to_thread(call, *arguments)

    async def _written(self, body: AsyncIterable[bytes], nbytes: int, write: Any) -> int:
        """A body's bytes through `write`, block by block, each written while the next comes; however slowly, within limits."""
        start, block, count = asyncio.get_running_loop().time(), bytearray(), 0
        writing: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(self.limits.idle) as clock:
                async for piece in body:
                    block += piece
                    count += len(piece)
                    if len(block) >= _BLOCK:
                        if writing is not None:
                            await writing
                        writing, block = asyncio.create_task(asyncio.to_thread(write, block)), bytearray()
                    clock.reschedule(self._latest(start, count))
        except TimeoutError:
            raise self._too_slow(count, nbytes) from None
        finally:
            self.figures.received.inc(count)
            if writing is not None:
                await writing
            if block:
                await asyncio.to_thread(write, block)
        return count

    def _latest(self, start: float, count: int) -> float:
        """When the next bytes of a body must be there that began then, and of which so many have come."""
        return min(asyncio.get_running_loop().time(), start + count / _SLOWEST) + self.limits.idle

    def _too_slow(self, count: int, nbytes: int) -> DeadlineError:
        return DeadlineError(
            f"cannot take this request: after {self.limits.idle:g} s its bytes must have come at {_SLOWEST:,} a second, "
            f"got {count:,} of {nbytes:,}; send it again"
        )

    async def revoke(self, owner: str, digest: str) -> None:
        """Keys or a table are taken back: jobs that use them end. Raises UnknownKeyError, ForeignKeyError."""
        await self._on_disk(owner, self.store.revoke, owner, digest)
        for engine in self.engines:
            engine.forget(digest)
        for job in self.unfinished(owner):
            if digest in (job.asked.keys, job.asked.table):
                self._end(job, "failed", RevokedKeyError(f"{digest[:8]} was taken back by its owner"))
        self.log("revoked", client=owner, digest=digest[:8])
        self._tell_store()

    # Jobs

    def require_open(self) -> None:
        """Raises BusyError where the service is stopping."""
        if self.stopping:
            raise BusyError("the service is stopping", 5.0)

    def model(self, name: str) -> SealedModel | Table | Index:
        """By its name. Raises UnknownModelError."""
        found = self.models.get(name)
        if found is None:
            raise UnknownModelError(f"no such model is served; there is {', '.join(sorted(self.models))}")
        return found

    async def submit(self, owner: str, asked: Asked, nbytes: int, body: Body) -> Job:
        """A job of a client, whose request is `body`; if the service knows the id already, that job.

        Raises BusyError, RateError, LimitError, QuotaError, DeadlineError, UnknownModelError and the errors of keys; ConflictError if
        the id was another request's.
        """
        known = self.jobs.get(f"{owner}/{asked.id}")
        if known is not None:
            if known.state == "receiving":
                raise BusyError("this job is being received", 0.2)
            await self._require_same(known, asked, nbytes, body)
            return known
        self.require_open()
        assert self._rate is not None
        self._rate.take(owner)
        self._require_admissible(owner, asked, nbytes)
        place = self.folder / secrets.token_hex(16)
        answer = self.spool.answer(self._expected_bytes(asked), place.with_suffix(".answer"))
        request = self.spool.take(owner, nbytes, place.with_suffix(".request"))
        job = Job(asked, owner, request, answer, asyncio.get_running_loop().time(), REQUEST.get())
        self.jobs[job.key] = self._unended[job.key] = job
        try:
            count = await self._received(job, body)
            self.figures.client_received.labels(self.figures.client(owner)).inc(count)
            if count != nbytes:
                raise _core.DamagedFileError(f"a request was to have {nbytes:,} bytes, and had {count:,}")
            if job.state == "receiving":
                self._require_queue()  # it may have filled meanwhile: only whole requests have a place there
        except BaseException:
            self.jobs.pop(job.key, None)
            self._unended.pop(job.key, None)
            self._drop_early(job)
            request.close()
            raise
        if job.state == "receiving":
            self._accept(job)
        else:  # it was cancelled meanwhile
            self._drop_early(job)
            request.close()
        return job

    async def _require_same(self, known: Job, asked: Asked, nbytes: int, body: Body) -> None:
        """Reads a repeated request, and keeps nothing of it. Raises ConflictError where it is another."""
        sha = hashlib.sha256()
        if (asked.subject, nbytes) == (known.asked.subject, known.request.nbytes):
            await self._written(body, nbytes, sha.update)
            if sha.digest() == known.request.sha.digest():
                return
        raise ConflictError(
            f"cannot submit job {asked.id}: its request must be the one that was sent with this id before, got another; "
            "give each request an id of its own"
        )

    async def _received(self, job: Job, body: Body) -> int:
        """A request's bytes, where its engine will find them: an engine that has nothing to do reads them as they come."""
        if not job.request.in_memory:
            return await self._written(body, job.request.nbytes, job.request.write)
        loop, request, told = asyncio.get_running_loop(), job.request, 0
        start, early = loop.time(), self._begin_early(job)

        def taken(piece: memoryview | bytes) -> None:
            request.write(piece)
            came()

        def placed(count: int) -> None:
            request.placed(count)
            came()

        def came() -> None:
            nonlocal told
            clock.reschedule(self._latest(start, request.have))
            if early is not None and told + _TOLD <= request.have < request.nbytes:  # that all is there is told with the job
                told = request.have
                early.have(job.key, told)

        try:
            async with asyncio.timeout(self.limits.idle) as clock:
                await body.pour(taken, request.place, placed)
        except TimeoutError:
            raise self._too_slow(request.have, request.nbytes) from None
        finally:
            self.figures.received.inc(request.have)
        return request.have

    def _begin_early(self, job: Job) -> Engine | None:
        """The engine that reads a request while it comes: one that would be given it at once, were it there."""
        if job.asked.kind != "run" or job.request.nbytes < _EARLY or len(self._queue):
            return None
        engine = next((e for e in self.engines if e.free and e.early is None and job.asked.model not in e.refused), None)
        if engine is not None:
            engine.read(job.key, **self._words(job))
        return engine

    def _drop_early(self, job: Job) -> None:
        for engine in self.engines:
            engine.drop(job.key)

    def _words(self, job: Job) -> dict[str, Any]:
        """What an engine must know of a job. Raises the errors of keys."""
        asked = job.asked
        told: dict[str, Any] = {"kind": asked.kind, "model": asked.model, "parts": asked.parts, "watch": asked.watch}
        told["group"] = job.group
        if asked.kind != "get":
            told |= {"keys": str(self.store.path(job.owner, asked.keys, "keys")), "digest": asked.keys}
        if asked.kind == "sql":
            told |= {"table": str(self.store.path(job.owner, asked.table, "table")), "table_digest": asked.table}
        return told | {"input": job.request.path}

    def _expected_bytes(self, asked: Asked) -> int | None:
        """Of a job's answer."""
        if asked.kind == "sql":
            return None
        return 0 if asked.kind == "session" else self.model(asked.model).output_bytes

    def _accept(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        job.created = loop.time()
        seconds = min(job.asked.seconds or self.limits.seconds, self.limits.seconds)
        job.timer = loop.call_later(seconds, self._late, job, seconds)
        self._queue.put(job)
        job.change("queued")
        self._dispatch()

    def _late(self, job: Job, seconds: float) -> None:
        self._end(job, "failed", DeadlineError(f"it was not done within {seconds:g} s"))

    def _require_admissible(self, owner: str, asked: Asked, nbytes: int) -> None:
        """Predicted memory, predicted time, and how many there are already."""
        if asked.kind == "sql":
            need, most = 0, _LONGEST_QUERY
            self.store.path(owner, asked.table, "table")
        else:
            model = self.model(asked.model)
            if self._missing(asked.model):
                raise ModelUnavailableError(_UNAVAILABLE.format(model.name))
            if asked.kind not in jobs_of(model):
                raise _core.ParameterError(
                    f"{model.name} answers jobs of kind {', '.join(jobs_of(model))}, not {asked.kind}"
                )
            need, most = model.memory_bytes, 0 if asked.kind == "session" else 2 * model.input_bytes + (1 << 20)
        if asked.kind != "get":
            self.store.path(owner, asked.keys, "keys")
        if nbytes > most:
            raise _core.LimitError(
                f"this takes a request of at most {readable_bytes(most)}, not of {readable_bytes(nbytes)}"
            )
        if asked.kind in COMPUTED and sum(asked.parts) != nbytes:
            raise _core.LimitError(f"parts= tells of {sum(asked.parts):,} bytes, and the request has {nbytes:,}")
        if need + nbytes > self.limits.memory:
            raise _core.LimitError(
                f"it would take {readable_bytes(need + nbytes)}; an engine may take {readable_bytes(self.limits.memory)}"
            )
        self._require_queue()
        wait = self.expected_wait()
        if len(self.unfinished(owner)) >= self.limits.jobs:
            raise BusyError(f"{self.limits.jobs} jobs of yours have not ended", wait)
        takes = self._seconds.get(asked.model, 0.0)
        if asked.seconds is not None and wait + takes > asked.seconds:
            raise BusyError(
                f"it would not be done within {asked.seconds:g} s: about {wait + takes:.3g} s are before it", wait
            )

    def _require_queue(self) -> None:
        if len(self._queue) >= self.limits.queue:
            raise BusyError(f"{self.limits.queue} jobs wait already", self.expected_wait())

    def expected_wait(self) -> float:
        """Seconds until an engine takes a new job, about."""
        ahead = [job for job in self._unended.values() if job.state in ("queued", "running")]
        known = sum(self._seconds.get(job.asked.model, 0.05) for job in ahead)
        return float(min(max(known / max(len(self.engines), 1), 0.05 if ahead else 0.0), 600.0))

    @property
    def waiting(self) -> int:
        """Jobs that no engine has yet."""
        return len(self._queue)

    def unfinished(self, owner: str | None = None) -> list[Job]:
        """Jobs that have not ended, of one client or of all."""
        return [job for job in self._unended.values() if owner in (None, job.owner)]

    def job(self, owner: str, id: str) -> Job:
        """One of a client's. Raises UnknownJobError."""
        found = self.jobs.get(f"{owner}/{id}")
        if found is None:
            raise UnknownJobError("there is no such job: it was not accepted, or its answer was kept long enough")
        return found

    def cancel(self, owner: str, id: str) -> Job:
        """Ends a job that has not ended, and frees its device. Raises UnknownJobError."""
        job = self.job(owner, id)
        self._end(job, "cancelled", _core.CancelledError("the job was cancelled"))
        return job

    # Engines

    def _dispatch(self) -> None:
        """Gives engines what they can take: two jobs each, one of which is read while the other is computed, and what goes with these."""
        while (found := self._next()) is not None:
            job, engine = found
            asked, key = job.asked, job.key
            try:
                words = {"digest": asked.keys, "group": job.group} if engine.early == key else self._words(job)
                words["output"] = job.answer.lent()
            except (_core.HeliographError, OSError) as error:
                self._end(job, "failed", error)
                continue
            job.attempts, job.engine = job.attempts + 1, engine.number
            engine.send(key, **words)
            self._drop_early(job)
            job.change("running")
        self.figures.queued.set(len(self._queue))
        self.figures.running.set(sum(len(engine.jobs) for engine in self.engines))

    def _next(self) -> tuple[Job, Engine] | None:
        """The job whose turn it is, and its engine. Where none is free: a question to the table that an engine will read next."""
        if free := [engine for engine in self.engines if engine.free]:
            common = set.intersection(*(engine.refused for engine in free))  # those that no free engine has
            job = self._queue.take(without=common)
            if job is None:
                return None
            asked, key = job.asked, job.key
            free = [engine for engine in free if asked.model not in engine.refused]
            return job, min(free, key=lambda e: (e.early != key, len(e.jobs), asked.keys not in e.warm))
        for engine in self.engines:
            group = engine.last_group
            if group is not None and engine.takes(group) and (job := self._queue.take(group)) is not None:
                return job, engine
        return None

    def _heard(self, engine: Engine, words: dict[str, Any]) -> None:
        """What an engine says."""
        event, job = words["event"], self.jobs.get(words.get("job", ""))
        if event == "ready":
            for name, error in words["refused"].items():
                self.log("model_refused", model=name, engine=engine.number, error=error["name"], text=error["text"])
            self._refuse_unavailable()
            self._changed()
        elif event == "begun":
            self.figures.together.labels(words["model"]).observe(words["count"])
        elif event == "fault":
            self.log("fault", job=_short(job), what=words["what"], errno=words.get("errno"))
        elif event == "damaged" and job is not None:
            self.log("fault", job=_short(job), what=f"{words['digest'][:8]} is damaged on the disk")
            self.store.drop(job.owner, words["digest"])
        elif event == "progress" and job is not None and job.state == "running":
            job.stage, job.share = words["stage"], words["share"]
            job.change()
        elif event in ("done", "failed") and "/" not in words["job"]:
            name, error = words["job"].split(":")[1], words.get("error", {}).get("name")
            if error is None:
                engine.refused.discard(name)
                self._changed()
            self.log("fault" if error else "updated", what=f"table {name}", engine=engine.number, error=error)
        elif event in ("done", "failed") and job is not None:
            self._done(job, words)
            asyncio.get_running_loop().call_soon(self._count, engine, job, words)
        if event in ("ready", "computed", "done", "failed"):
            self._dispatch()

    def _refuse_unavailable(self) -> None:
        """Jobs that wait for what no engine has any more."""
        for job in self._queue.jobs():
            if job.asked.model in self.models and self._missing(job.asked.model):
                self._end(job, "failed", ModelUnavailableError(_UNAVAILABLE.format(job.asked.model)))

    def _done(self, job: Job, words: dict[str, Any]) -> None:
        """An engine is done with a job."""
        error = None if words["event"] == "done" else from_wire(words["error"])
        if error is None and job.state == "running":
            try:
                job.answer.take(words["bytes"])
            except (_core.HeliographError, OSError) as raised:
                error = raised
        job.answer.release()
        self._end(job, "done" if error is None else "failed", error)
        if self._saving is None and self.spool.oldest() is not None:
            self._saving = asyncio.create_task(self._save_answers())

    def _count(self, engine: Engine, job: Job, words: dict[str, Any]) -> None:
        """Figures of a job that has ended, after its answer is on its way."""
        seconds = words["seconds"]
        self.figures.resident.labels(str(engine.number)).set(words["key_bytes"])
        self.figures.wait_seconds.observe(max(asyncio.get_running_loop().time() - seconds - job.created, 0.0))
        if job.asked.kind in COMPUTED and words["event"] == "done":
            own = seconds / words["together"]
            self._seconds[job.asked.model] = 0.7 * self._seconds.get(job.asked.model, own) + 0.3 * own
            self.figures.job_seconds.labels(job.asked.model).observe(seconds)
        self.figures.client_seconds.labels(self.figures.client(job.owner)).inc(seconds / words["together"])

    def _lost(self, engine: Engine, keys: list[str]) -> None:
        """An engine ended. Its jobs come first in the queue again, unless one has had its chances."""
        self.figures.restarts.inc()
        self.log("engine ended", engine=engine.number, jobs=len(keys), status=engine.status)
        self._changed()
        for place, key in reversed(list(enumerate(keys))):
            job = self.jobs.get(key)
            if job is None:
                continue
            job.answer.release()
            if job.state in ENDS:
                continue
            if job.attempts >= (_MOST_ATTEMPTS if place == 0 else _MOST_BESIDE):
                self._end(
                    job, "failed", _core.DeviceError(f"the engine ended {job.attempts} times while it was at this job")
                )
                continue
            job.share, job.stage = 0.0, ""
            self._queue.put(job, first=True)
            job.change("queued")
        self._dispatch()

    def _end(self, job: Job, state: str, error: BaseException | None) -> None:
        """A job ends, once; whatever the engine says of it later is too late."""
        if job.state in ENDS:
            return
        running, receiving = job.state == "running", job.state == "receiving"
        now = asyncio.get_running_loop().time()
        job.error, job.ended = error, now
        self._unended.pop(job.key, None)
        if job.timer is not None:
            job.timer.cancel()
        if running and state != "done" and job.engine is not None:
            self.engines[job.engine].cancel(job.key)
        self._queue.remove(job)
        job.change(state)
        if not receiving:
            job.request.close(read=state == "done")
        asyncio.get_running_loop().call_soon(self._tell_end, job, now)
        if not running:
            self._dispatch()

    def _tell_end(self, job: Job, now: float) -> None:
        """After its answer is on its way."""
        outcome = "done" if job.error is None else type(job.error).__name__
        self.figures.jobs.labels(job.asked.model or "tables", outcome).inc()
        taken = now - job.created
        told = {"client": job.owner, "model": job.asked.model or None, "kind": job.asked.kind, "outcome": outcome}
        self.figures.client_jobs.labels(self.figures.client(job.owner)).inc()
        failed = {} if job.error is None else {"errno": error_fields(job.error)["errno"]}
        self.log(
            "job", **(job.request_fields | told), job=_short(job), seconds=round(taken, 4), attempts=job.attempts, **failed
        )
        self.spans.job(taken, **{name: value for name, value in told.items() if value})


def _stamp(path: Path) -> tuple[int, int, int]:
    """A file that was written anew has another."""
    told = path.stat()
    return told.st_ino, told.st_size, told.st_mtime_ns


def _short(job: Job | None) -> str | None:
    return None if job is None else job.asked.id[:8]


def half_of_memory() -> int:
    """Bytes: what an engine may take where nobody said it. Of the machine, or of the container or unit if that has less."""
    return _core.host_memory() // 2
