"""The service, independent of protocols: models, keys, jobs and engines. The code of this module runs in one event loop.

HTTP (`web`) and gRPC (`grpc_service`) are interfaces to this core. Only the core refuses requests, so both interfaces
report the same errors."""

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
from pathlib import Path
from typing import Any, TypeVar

from heliograph import _core
from heliograph._common.arguments import readable_bytes
from heliograph._common.service.errors import (
    BusyError,
    ConflictError,
    DeadlineError,
    ModelUnavailableError,
    RevokedKeyError,
    UnknownJobError,
    UnknownModelError,
    error_from_json,
)
from heliograph.serving.access import Access, Pace, Rate
from heliograph.serving.engine_messages import (
    Begun,
    Computed,
    Damaged,
    Done,
    ErrorFields,
    Fault,
    Message,
    Progress,
    Read,
    Ready,
    Run,
)
from heliograph.serving.engines import UPDATE, Engine
from heliograph.serving.jobs import ENDS, Job, JobSpec, Queue, group_of
from heliograph.serving.log import REQUEST, Log, error_fields
from heliograph.serving.metrics import Metrics, Spans
from heliograph.serving.served import ENCRYPTED_TABLES, Served, served_of
from heliograph.serving.settings import Settings, half_of_memory
from heliograph.serving.spool import Body, Spool
from heliograph.serving.store import Store

_BLOCK = 1 << 18  # bytes of one write; each sending client has two such blocks
_SLOWEST = 16 << 10  # bytes a second; slowest average rate of a request's body
_LAST_BYTES = 2.0  # seconds to receive unfinished requests when the service stops
_SWEEP = 5.0  # seconds between sweeps for expired keys and answers
_MAX_DISK_CALLS = 2  # concurrent disk calls of one client
_REQUESTS, _REFUSALS = 300, 20  # requests and refusals a second of one client beyond which answers are delayed
_LONGEST_DELAY = 5.0  # seconds; longest delay of an answer
_STREAMED_BYTES, _REPORT = 1 << 20, 1 << 20  # bytes: least request read while it arrives, and report interval
_UNAVAILABLE = (
    "cannot use {}: the service's file is damaged, or no longer the one that the service started with; tell its operator"
)
_STALLED = 30.0  # seconds without a turn of the event loop after which the process counts as hung
_HEARTBEAT = 1.0  # seconds between heartbeats of the event loop
# Maximum attempts of a job whose engine ended: if the engine was computing the job, and if the job was queued at the engine.
_MAX_ATTEMPTS, _MAX_ATTEMPTS_QUEUED = 2, 4
T = TypeVar("T")


class Service:
    """Models, a key store, engines and clients' jobs."""

    def __init__(
        self,
        models: dict[str, Path],
        store: Store,
        access: Access,
        settings: Settings,
        *,
        devices: list[str | None],
        log: Log,
        metrics: Metrics,
        spans: Spans,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.access, self.settings = store, access, settings
        self.log, self.metrics, self.spans = log, metrics, spans
        self.memory = settings.memory_limit or half_of_memory()  #: bytes of memory of an engine
        self.models, self._paths = {name: served_of(path) for name, path in models.items()}, models
        self._rereading, self._updates = asyncio.Lock(), itertools.count()
        self._stamps: dict[str, tuple[int, int, int] | None] = {name: _stamp(path) for name, path in models.items()}
        for name, model in self.models.items():
            if not model.complete:
                raise _core.ParameterError(
                    f"cannot serve {name}: its file is a client's half, without weights; give the file of the whole model"
                )
            if model.memory_bytes > self.memory:
                need, have = readable_bytes(model.memory_bytes), readable_bytes(self.memory)
                raise _core.LimitError(
                    f"cannot serve {name}: one request needs {need} of an engine's memory, the limit is {have}; "
                    "raise --memory-limit"
                )
        self.halves = {name: model.client().to_bytes() for name, model in self.models.items()}
        self.folder = store.folder / "spool"  # files of requests and answers beyond the memory limits
        self.spool = Spool(settings.request_memory, settings.answer_memory)
        files = {name: (str(path), self.models[name].digest) for name, path in models.items()}
        batches = {
            group_of(kind, name): model.max_batch(self.memory, settings.max_batch_size)
            for name, model in self.models.items()
            for kind in model.kinds
            if kind.is_batched
        }
        self.engines = [
            Engine(n, device, files, self.memory, batches, self._on_message, self._engine_ended, log)
            for n, device in enumerate(devices)
        ]
        self.jobs: dict[str, Job] = {}
        self._unended: dict[str, Job] = {}  # the jobs that have not ended; ended jobs stay in `jobs` for their answers
        self._saving: asyncio.Task[None] | None = None
        self.stopping = False
        self._queue, self._seconds = Queue(), dict[str, float]()
        self._disk_slots: dict[str, asyncio.Semaphore] = {}
        self._rate: Rate | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.failure = asyncio.Event()  #: set if a permanent task has ended; the log names the task
        self.on_change: list[Callable[[], None]] = []  #: callbacks, called when `ready` may have changed
        self._writable, self._alive = True, alive
        self._started, self._last_heartbeat = False, time.monotonic()
        metrics.count(
            "log_lines_dropped", "Log lines lost because standard error was blocked, full or closed", lambda: log.dropped
        )
        self.requests = Pace(_REQUESTS, 2 * _REQUESTS, _LONGEST_DELAY, time.monotonic)  #: delays a client's requests
        self.refusals = Pace(_REFUSALS, 5 * _REFUSALS, _LONGEST_DELAY, time.monotonic)  #: delays a client's refusals

    # Start and stop

    async def start(self) -> None:
        """Starts the engines. Raises DeviceError if an engine does not start, and the error of a model's file."""
        shutil.rmtree(self.folder, ignore_errors=True)  # files of an earlier process, whose clients submit their jobs again
        self.folder.mkdir(mode=0o700)
        self._rate = Rate(self.settings.rate_limit, asyncio.get_running_loop().time)
        self._tasks.append(asyncio.create_task(self._run_heartbeat(), name="heartbeat"))
        for problem in self.store.problems():
            self.log("store_damaged", detail=problem)
        try:
            await asyncio.gather(*(engine.start() for engine in self.engines))
        except BaseException:
            await asyncio.gather(*(engine.stop() for engine in self.engines))
            raise
        self._tasks.append(asyncio.create_task(self._sweep(), name="sweeper"))
        for task in (*self._tasks, *(engine.supervision for engine in self.engines)):
            task.add_done_callback(self._task_ended)
        self._update_store_metrics()
        await asyncio.to_thread(self._update_disk_metrics)
        self._log_clock_jumps()
        self._started = True
        self._changed()
        self.log("started", models=sorted(self.models), engines=len(self.engines), threads=[e.threads for e in self.engines])

    async def stop(self, grace: float) -> None:
        """Refuses new jobs, finishes accepted jobs within `grace` seconds, and stops the engines."""
        self.stopping = True
        self._changed()
        self.log("stopping", jobs=len(self.unfinished()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                latest = asyncio.get_running_loop().time() + _LAST_BYTES
                while any(j.state != "receiving" or asyncio.get_running_loop().time() < latest for j in self.unfinished()):
                    await asyncio.sleep(0.02)
        for job in self.unfinished():
            self._end(job, "failed", BusyError("the service stopped before this job was done; submit it again in 5 s", 5.0))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(engine.stop() for engine in self.engines))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log("stopped")

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Handles the end of a permanent task: the process must end too, so that its supervisor restarts it."""
        if not task.cancelled() and not self.stopping:
            error = task.exception()
            self.log("task_failed", task=task.get_name(), **(error_fields(error) if error else {}))
            self.failure.set()

    async def _run_heartbeat(self) -> None:
        while True:
            self._last_heartbeat = time.monotonic()
            self._alive()
            await asyncio.sleep(_HEARTBEAT)

    def live(self) -> tuple[bool, str]:
        """Returns whether the event loop runs, and a message. Thread-safe."""
        stalled = time.monotonic() - self._last_heartbeat
        return (True, "ok") if stalled < _STALLED else (False, f"the event loop has not run for {stalled:.0f} s")

    def ready(self) -> tuple[bool, str]:
        """Returns whether the service accepts jobs, and a message that names no model. Thread-safe."""
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
        """Updates metrics and callbacks after an engine, or its models, changed."""
        for engine in self.engines:
            self.metrics.engine_up.labels(str(engine.number)).set(engine.ready.is_set())
            for name in self.models:
                self.metrics.model_available.labels(name, str(engine.number)).set(name not in engine.refused)
        for tell in self.on_change:
            tell()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            try:
                for record in await asyncio.to_thread(self.store.sweep):
                    self.log("object_expired", client=record.owner, digest=record.digest[:8])
                    for engine in self.engines:
                        engine.forget(record.digest)
                self.folder.mkdir(mode=0o700, exist_ok=True)  # another program may have removed the folder
                self._drop_answers()
                self._update_store_metrics()
                await asyncio.to_thread(self._update_disk_metrics)
                self._log_clock_jumps()
            except (OSError, _core.HeliographError) as error:
                self.log("sweep_failed", **error_fields(error))

    async def reread(self) -> bool:
        """Makes engines load tables whose files were replaced, and files that an engine has refused. Returns whether all
        files were valid.

        A file of another table or model is not loaded.
        """
        valid = True
        async with self._rereading:
            for name, model in self.models.items():
                refused = any(name in engine.refused for engine in self.engines)
                try:
                    stamp = _stamp(self._paths[name])
                    if not refused and (not model.is_updated or stamp == self._stamps[name]):
                        continue
                    found = await asyncio.to_thread(served_of, self._paths[name])
                    if type(found) is not type(model) or (found.name, found.digest) != (name, model.digest):
                        raise _core.MismatchError("the file holds another table or model than the one that is served")
                except (OSError, _core.HeliographError) as error:
                    self.log("model_reload_failed", model=name, **error_fields(error))
                    valid = False
                    continue
                self._stamps[name] = stamp
                self.models[name], self.halves[name] = found, found.client().to_bytes()
                for engine in self.engines:
                    if model.is_updated or name in engine.refused:
                        engine.update(name, next(self._updates))
        return valid

    def _log_clock_jumps(self) -> None:
        for seconds in self.store.clock.jumps():
            self.log("clock_jumped", seconds=round(seconds))  # the service may instead have been suspended for that time

    def _drop_answers(self) -> None:
        now, held, count = asyncio.get_running_loop().time(), dict[str, int](), Counter[str]()
        for key, job in sorted(self.jobs.items(), key=lambda item: -(item[1].ended or now)):
            if job.ended is None:
                continue
            held[job.owner] = held.get(job.owner, 0) + job.answer.nbytes
            count[job.owner] += 1
            beyond = (
                now - job.ended > self.settings.answer_time_to_live
                or held[job.owner] > self.settings.max_answer_bytes_per_client
            )
            beyond |= count[job.owner] > self.settings.max_ended_jobs_per_client
            if beyond and not job.answer.is_shared:
                del self.jobs[key]
                job.answer.close()
        self.spool.sweep()

    async def _save_answers(self) -> None:
        """Moves the oldest answers from memory to files. If the disk is full, answers stay and new jobs are refused."""
        try:
            while (answer := self.spool.oldest()) is not None:
                await asyncio.to_thread(answer.save)
                answer.saved()
        except OSError as error:
            self.log("spool_failed", **error_fields(error))
        finally:
            self._saving = None

    def _update_store_metrics(self) -> None:
        for kind, count in self.store.counts().items():
            self.metrics.stored.labels(kind).set(count)
        self.metrics.stored_bytes.set(self.store.used_bytes())
        self.metrics.set_client_bytes(self.store.uses().items())
        for record, reason in self.store.removals():
            self.metrics.removals.labels(reason).inc()
            if reason in ("evicted", "damaged"):
                self.log("object_evicted", client=record.owner, digest=record.digest[:8], bytes=record.nbytes, reason=reason)

    def _update_disk_metrics(self) -> None:
        """Updates the disk's metrics. The function runs on another thread, because a network file system may block."""
        writable = self.store.writable()
        if writable != self._writable:
            self.log("store_writable" if writable else "store_read_only")
        self._writable = writable
        self.metrics.store_writable.set(writable)
        with contextlib.suppress(OSError):
            disk = os.statvfs(self.store.folder)
            self.metrics.store_free.set(disk.f_bavail * disk.f_frsize)
            self.metrics.store_size.set(disk.f_blocks * disk.f_frsize)

    # Uploads

    async def receive(
        self, owner: str, digest: str, offset: int, total: int, nbytes: int, body: AsyncIterator[bytes]
    ) -> tuple[int, bool]:
        """Receives a piece of an upload from `offset` on. Returns the new offset and whether the upload is complete.

        If a piece is interrupted, the bytes that arrived remain. Raises the errors of `Store.begin` and `Store.finish`.
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
        except _core.FormatError:  # the upload is neither keys nor a table: its bytes are deleted
            await asyncio.to_thread(self.store.discard, owner, digest)
            raise
        finally:
            self.metrics.client_received.labels(self.metrics.client(owner)).inc(upload.offset - offset)
        whole = await self._on_disk(owner, self.store.finish, owner, upload, digest)
        if whole:
            self._update_store_metrics()
            self.log("object_uploaded", client=owner, digest=digest[:8], bytes=total)
        return upload.offset, whole

    async def _on_disk(self, owner: str, call: Callable[..., T], *arguments: Any) -> T:
        """Runs a blocking disk call on another thread, with at most two of one client at a time."""
        turns = self._disk_slots.setdefault(owner, asyncio.Semaphore(_MAX_DISK_CALLS))
        async with turns:
            return await asyncio.to_thread(call, *arguments)

    async def _written(self, body: AsyncIterable[bytes], nbytes: int, write: Any) -> int:
        """Passes a body to `write` block by block, each written while the next arrives. Raises DeadlineError for a body that
        is too slow.
        """
        start, block, count = asyncio.get_running_loop().time(), bytearray(), 0
        writing: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(self.settings.body_timeout) as clock:
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
            self.metrics.received.inc(count)
            if writing is not None:
                await writing
            if block:
                await asyncio.to_thread(write, block)
        return count

    def _latest(self, start: float, count: int) -> float:
        """Returns when more bytes of a body must arrive; the body started at `start` and has `count` bytes so far."""
        return min(asyncio.get_running_loop().time(), start + count / _SLOWEST) + self.settings.body_timeout

    def _too_slow(self, count: int, nbytes: int) -> DeadlineError:
        return DeadlineError(
            f"cannot receive this request: after {self.settings.body_timeout:g} s its body must arrive at "
            f"{_SLOWEST:,} bytes a second, "
            f"got {count:,} of {nbytes:,}; send it again"
        )

    async def revoke(self, owner: str, digest: str) -> None:
        """Revokes keys or a table and ends the jobs that use them. Raises UnknownKeyError, ForeignKeyError."""
        await self._on_disk(owner, self.store.revoke, owner, digest)
        for engine in self.engines:
            engine.forget(digest)
        for job in self.unfinished(owner):
            if digest in (job.spec.keys, job.spec.table):
                self._end(job, "failed", RevokedKeyError(f"{digest[:8]} was revoked by its owner"))
        self.log("object_revoked", client=owner, digest=digest[:8])
        self._update_store_metrics()

    # Jobs

    def require_open(self) -> None:
        """Raises BusyError if the service is stopping."""
        if self.stopping:
            raise BusyError("the service is stopping; retry in 5 s", 5.0)

    def _served(self, spec: JobSpec) -> Served:
        """Returns the object that answers a job. Raises UnknownModelError."""
        return ENCRYPTED_TABLES if spec.kind.needs_table else self.model(spec.model)

    def model(self, name: str) -> Served:
        """Returns a model or table by its name. Raises UnknownModelError."""
        found = self.models.get(name)
        if found is None:
            raise UnknownModelError(f"the service has no model of this name; use one of {', '.join(sorted(self.models))}")
        return found

    async def submit(self, owner: str, spec: JobSpec, nbytes: int, body: Body) -> Job:
        """Accepts a client's job with the request `body`. Returns the existing job if the id is known.

        Raises BusyError, RateError, LimitError, QuotaError, DeadlineError, UnknownModelError and the errors of keys;
        ConflictError if the id was used with another request.
        """
        known = self.jobs.get(f"{owner}/{spec.id}")
        if known is not None:
            if known.state == "receiving":
                raise BusyError("this job's request is being received over another connection; retry in 0.2 s", 0.2)
            await self._require_same(known, spec, nbytes, body)
            return known
        self.require_open()
        assert self._rate is not None
        self._rate.take(owner)
        self._require_admissible(owner, spec, nbytes)
        place = self.folder / secrets.token_hex(16)
        answer = self.spool.answer(self._served(spec).answer_bytes(spec.kind), place.with_suffix(".answer"))
        request = self.spool.take(owner, nbytes, place.with_suffix(".request"))
        job = Job(spec, owner, request, answer, asyncio.get_running_loop().time(), REQUEST.get())
        self.jobs[job.key] = self._unended[job.key] = job
        try:
            count = await self._received(job, body)
            self.metrics.client_received.labels(self.metrics.client(owner)).inc(count)
            if count != nbytes:
                raise _core.DamagedFileError(f"the request's body must have {nbytes:,} bytes, got {count:,}; send it again")
            if job.state == "receiving":
                self._require_queue()  # the queue may have filled meanwhile: a request gets a place once it is complete
        except BaseException:
            self.jobs.pop(job.key, None)
            self._unended.pop(job.key, None)
            self._drop_streaming(job)
            request.close()
            raise
        if job.state == "receiving":
            self._accept(job)
        else:  # the job was cancelled while its request was received
            self._drop_streaming(job)
            request.close()
        return job

    async def _require_same(self, known: Job, spec: JobSpec, nbytes: int, body: Body) -> None:
        """Reads and discards a repeated request. Raises ConflictError if the repeated request differs from the first."""
        sha = hashlib.sha256()
        if (spec.subject, nbytes) == (known.spec.subject, known.request.nbytes):
            await self._written(body, nbytes, sha.update)
            if sha.digest() == known.request.sha.digest():
                return
        raise ConflictError(
            f"cannot submit job {spec.id}: the same id was used with another request; give each request its own id"
        )

    async def _received(self, job: Job, body: Body) -> int:
        """Receives a request into the memory or file that its engine reads. An idle engine reads the request while it
        arrives.
        """
        if not job.request.in_memory:
            return await self._written(body, job.request.nbytes, job.request.write)
        loop, request, reported = asyncio.get_running_loop(), job.request, 0
        start, early = loop.time(), self._begin_streaming(job)

        def taken(piece: memoryview | bytes) -> None:
            request.write(piece)
            report()

        def placed(count: int) -> None:
            request.placed(count)
            report()

        def report() -> None:
            nonlocal reported
            clock.reschedule(self._latest(start, request.have))
            if (
                early is not None and reported + _REPORT <= request.have < request.nbytes
            ):  # the job's `Run` message reports the last part
                reported = request.have
                early.arrived(job.key, reported)

        try:
            async with asyncio.timeout(self.settings.body_timeout) as clock:
                await body.pour(taken, request.place, placed)
        except TimeoutError:
            raise self._too_slow(request.have, request.nbytes) from None
        finally:
            self.metrics.received.inc(request.have)
        return request.have

    def _begin_streaming(self, job: Job) -> Engine | None:
        """Picks an idle engine to read a request while it arrives. Returns None if the job would be queued."""
        if not job.spec.kind.is_streamed or job.request.nbytes < _STREAMED_BYTES or len(self._queue):
            return None
        engine = next((e for e in self.engines if e.free and e.early is None and job.spec.model not in e.refused), None)
        if engine is not None:
            engine.read(Read(**self._run_fields(job)))
        return engine

    def _drop_streaming(self, job: Job) -> None:
        for engine in self.engines:
            engine.drop(job.key)

    def _run_fields(self, job: Job) -> dict[str, Any]:
        """Returns the fields of a job's `Run`, without the output. Raises the errors of keys."""
        spec, path = job.spec, self.store.path
        found: dict[str, Any] = {
            "job": job.key,
            "kind": spec.kind.name,
            "model": spec.model,
            "group": job.group,
            "parts": list(spec.parts),
        }
        found |= {"watch": spec.watch, "request": job.request.path}
        if spec.kind.needs_keys:
            found |= {"keys": str(path(job.owner, spec.keys, "keys")), "keys_digest": spec.keys}
        if spec.kind.needs_table:
            found |= {"table": str(path(job.owner, spec.table, "table")), "table_digest": spec.table}
        return found

    def _accept(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        job.created = loop.time()
        seconds = min(job.spec.seconds or self.settings.max_deadline, self.settings.max_deadline)
        job.timer = loop.call_later(seconds, self._deadline_passed, job, seconds)
        self._queue.put(job)
        job.change("queued")
        self._dispatch()

    def _deadline_passed(self, job: Job, seconds: float) -> None:
        self._end(job, "failed", DeadlineError(f"the job was not done within {seconds:g} s; give it a longer deadline"))

    def _require_admissible(self, owner: str, spec: JobSpec, nbytes: int) -> None:
        """Checks a job's kind, keys, predicted memory and time, and the limits of jobs."""
        served, kind = self._served(spec), spec.kind
        if self._missing(spec.model):
            raise ModelUnavailableError(_UNAVAILABLE.format(served.name))
        if kind not in served.kinds:
            allowed = ", ".join(one.name for one in served.kinds)
            raise _core.ParameterError(f"{served.name} answers jobs of kind {allowed}; got {kind.name}")
        if kind.needs_table:
            self.store.path(owner, spec.table, "table")
        if kind.needs_keys:
            self.store.path(owner, spec.keys, "keys")
        need, most = served.memory_bytes, served.max_request_bytes(kind)
        if nbytes > most:
            raise _core.LimitError(f"the request must have at most {readable_bytes(most)}, got {readable_bytes(nbytes)}")
        if kind.has_tensors and sum(spec.parts) != nbytes:
            raise _core.LimitError(f"parts= must sum to the request's {nbytes:,} bytes, got {sum(spec.parts):,}")
        if need + nbytes > self.memory:
            raise _core.LimitError(
                f"the job needs {readable_bytes(need + nbytes)} of an engine's memory, the limit is "
                f"{readable_bytes(self.memory)}; send fewer values"
            )
        self._require_queue()
        wait = self.expected_wait()
        if len(self.unfinished(owner)) >= self.settings.max_jobs_per_client:
            raise BusyError(
                f"a client may have at most {self.settings.max_jobs_per_client} unfinished jobs; "
                "wait for one, or cancel one",
                wait,
            )
        takes = self._seconds.get(spec.model, 0.0)
        if spec.seconds is not None and wait + takes > spec.seconds:
            raise BusyError(
                f"the job would not be done within {spec.seconds:g} s: the forecast is {wait + takes:.3g} s; "
                "give it a longer deadline, or retry later",
                wait,
            )

    def _require_queue(self) -> None:
        if len(self._queue) >= self.settings.max_queue:
            wait = self.expected_wait()
            raise BusyError(f"the queue of {self.settings.max_queue} jobs is full; retry in {wait:.3g} s", wait)

    def expected_wait(self) -> float:
        """Estimates the seconds until an engine starts a new job."""
        ahead = [job for job in self._unended.values() if job.state in ("queued", "running")]
        known = sum(self._seconds.get(job.spec.model, 0.05) for job in ahead)
        return float(min(max(known / max(len(self.engines), 1), 0.05 if ahead else 0.0), 600.0))

    @property
    def waiting(self) -> int:
        """The number of queued jobs."""
        return len(self._queue)

    def unfinished(self, owner: str | None = None) -> list[Job]:
        """Returns the unfinished jobs of one client, or of all clients."""
        return [job for job in self._unended.values() if owner in (None, job.owner)]

    def job(self, owner: str, id: str) -> Job:
        """Returns a client's job. Raises UnknownJobError."""
        found = self.jobs.get(f"{owner}/{id}")
        if found is None:
            raise UnknownJobError(
                "the service has no job of this id: it was not accepted, or its answer has expired; submit it again"
            )
        return found

    def cancel(self, owner: str, id: str) -> Job:
        """Cancels an unfinished job and frees its device. Raises UnknownJobError."""
        job = self.job(owner, id)
        self._end(job, "cancelled", _core.CancelledError("the job was cancelled"))
        return job

    # Engines

    def _dispatch(self) -> None:
        """Sends queued jobs to engines. An engine has at most two jobs or batches: it computes one and reads the next."""
        while (found := self._next()) is not None:
            job, engine = found
            try:
                fields = vars(engine.early) if engine.early is not None and engine.reads(job.key) else self._run_fields(job)
                run = Run(**fields | {"output": job.answer.output_path()})
            except (_core.HeliographError, OSError) as error:
                self._end(job, "failed", error)
                continue
            job.attempts, job.engine = job.attempts + 1, engine.number
            engine.send(run)
            self._drop_streaming(job)
            job.change("running")
        self.metrics.queued.set(len(self._queue))
        self.metrics.running.set(sum(len(engine.jobs) for engine in self.engines))

    def _next(self) -> tuple[Job, Engine] | None:
        """Returns the next job in turn and its engine. If no engine is free, returns the next query that can join the batch
        that an engine will read next.
        """
        if free := [engine for engine in self.engines if engine.free]:
            common = set.intersection(*(engine.refused for engine in free))  # models that no free engine has loaded
            job = self._queue.take(without=common)
            if job is None:
                return None
            spec, key = job.spec, job.key
            free = [engine for engine in free if spec.model not in engine.refused]
            return job, min(free, key=lambda e: (not e.reads(key), len(e.jobs), spec.keys not in e.warm))
        for engine in self.engines:
            group = engine.last_group
            if group is not None and engine.takes(group) and (job := self._queue.take(group)) is not None:
                return job, engine
        return None

    def _on_message(self, engine: Engine, message: Message) -> None:
        """Handles a message of an engine."""
        key: str = getattr(message, "job", "")
        job = self.jobs.get(key)
        match message:
            case Ready(refused=refused):
                for name, error in refused.items():
                    self.log("model_refused", model=name, engine=engine.number, error=error["name"], text=error["text"])
                self._refuse_unavailable()
                self._changed()
            case Begun(model=model, count=count):
                self.metrics.batch_size.labels(model).observe(count)
            case Fault(error=what, errno=errno):
                self.log("job_error", job=_short(job), error=what, errno=errno)
            case Damaged(digest=digest) if job is not None:
                self.log("object_damaged", job=_short(job), digest=digest[:8])
                self.store.drop(job.owner, digest)
            case Progress(stage=stage, share=share) if job is not None and job.state == "running":
                job.stage, job.share = stage, share
                job.change()
            case Done(error=reason) if key.startswith(UPDATE):
                self._updated(engine, key.split(":")[1], reason)
            case Done() if job is not None:
                self._finish(job, message)
                asyncio.get_running_loop().call_soon(self._count, engine, job, message)
        if isinstance(message, Ready | Computed | Done):
            self._dispatch()

    def _updated(self, engine: Engine, name: str, error: ErrorFields | None) -> None:
        """Handles the end of an engine's update of a model or table."""
        if error is None:
            engine.refused.discard(name)
            self._changed()
            self.log("model_reloaded", model=name, engine=engine.number)
        else:
            self.log("model_reload_failed", model=name, engine=engine.number, error=error["name"])

    def _refuse_unavailable(self) -> None:
        """Fails queued jobs whose model is no longer loaded by any engine."""
        for job in self._queue.jobs():
            if self._missing(job.spec.model):
                self._end(job, "failed", ModelUnavailableError(_UNAVAILABLE.format(job.spec.model)))

    def _finish(self, job: Job, message: Done) -> None:
        """Handles the end of a job at its engine."""
        error = None if message.error is None else error_from_json(message.error)
        if error is None and job.state == "running":
            try:
                job.answer.take(message.nbytes)
            except (_core.HeliographError, OSError) as raised:
                error = raised
        job.answer.release()
        self._end(job, "done" if error is None else "failed", error)
        if self._saving is None and self.spool.oldest() is not None:
            self._saving = asyncio.create_task(self._save_answers())

    def _count(self, engine: Engine, job: Job, message: Done) -> None:
        """Updates metrics of a job, after its answer was sent."""
        seconds, own = message.seconds, message.seconds / message.batch
        self.metrics.resident.labels(str(engine.number)).set(message.key_bytes)
        self.metrics.queue_seconds.observe(max(asyncio.get_running_loop().time() - seconds - job.created, 0.0))
        if job.spec.kind.has_tensors and message.error is None:
            self._seconds[job.spec.model] = 0.7 * self._seconds.get(job.spec.model, own) + 0.3 * own
            self.metrics.job_seconds.labels(job.spec.model).observe(seconds)
        self.metrics.client_seconds.labels(self.metrics.client(job.owner)).inc(own)

    def _engine_ended(self, engine: Engine, keys: list[str]) -> None:
        """Handles the end of an engine: jobs with attempts left return to the head of the queue; all other jobs fail."""
        self.metrics.restarts.inc()
        self.log("engine_restarted", engine=engine.number, jobs=len(keys), status=engine.status)
        self._changed()
        for place, key in reversed(list(enumerate(keys))):
            job = self.jobs.get(key)
            if job is None:
                continue
            job.answer.release()
            if job.state in ENDS:
                continue
            if job.attempts >= (_MAX_ATTEMPTS if place == 0 else _MAX_ATTEMPTS_QUEUED):
                self._end(
                    job,
                    "failed",
                    _core.DeviceError(f"the engine ended {job.attempts} times during this job; send another request"),
                )
                continue
            job.share, job.stage = 0.0, ""
            self._queue.put(job, first=True)
            job.change("queued")
        self._dispatch()

    def _end(self, job: Job, state: str, error: BaseException | None) -> None:
        """Ends a job, once. Later messages about this job from its engine are ignored."""
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
        asyncio.get_running_loop().call_soon(self._log_end, job, now)
        if not running:
            self._dispatch()

    def _log_end(self, job: Job, now: float) -> None:
        """Logs a job's end, after its answer was sent."""
        outcome = "done" if job.error is None else type(job.error).__name__
        self.metrics.jobs.labels(job.spec.model or "tables", outcome).inc()
        taken = now - job.created
        fields = {"client": job.owner, "model": job.spec.model or None, "kind": job.spec.kind.name, "outcome": outcome}
        self.metrics.client_jobs.labels(self.metrics.client(job.owner)).inc()
        failed = {} if job.error is None else {"errno": error_fields(job.error)["errno"]}
        self.log(
            "job_ended",
            **(job.request_fields | fields),
            job=_short(job),
            seconds=round(taken, 4),
            attempts=job.attempts,
            **failed,
        )
        self.spans.job(taken, **{name: value for name, value in fields.items() if value})


def _stamp(path: Path) -> tuple[int, int, int]:
    """Identifies a version of a file: inode, size, modification time."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _short(job: Job | None) -> str | None:
    return None if job is None else job.spec.id[:8]
