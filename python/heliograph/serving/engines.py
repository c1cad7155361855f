"""Engines as the service manages them: one process for each set of devices, restarted when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph._common.service.errors import error_from_json
from heliograph.serving import engine_messages as messages
from heliograph.serving.log import Log, error_fields

_START = 120.0  # seconds for an engine to become ready, without the time for its files
_PREPARE_RATE = 8 << 20  # bytes a second; slowest rate at which an engine prepares models and tables
_CANCEL_SECONDS = 5.0  # seconds for a cancelled job to end; then the engine is killed
_OUTPUT_SECONDS = 1.0  # seconds to read an ended engine's standard error
_MOST_LINE = 1 << 20
_MOST_TEXT = 500  # characters of a line of an engine's standard error
UPDATE = "update:"  #: prefix of the ids of updates; ids of jobs contain a slash instead
_DEPTH = 2  # jobs or batches that an engine has at a time: the first is computed, the next is read


class _Lines(asyncio.Protocol):
    """Reads lines from an engine and passes each line, without its end, to `handle`. The future `ended` is done when the
    connection ends. A ValueError of `handle` ends the connection, and so does a line of more than `longest` bytes (None:
    such lines are truncated).

    """

    def __init__(self, handle: Callable[[bytes], None], longest: int | None = None) -> None:
        self._handle, self._longest, self._rest = handle, longest, b""
        self.ended = asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements `asyncio.Protocol`."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            for line in lines:
                self._handle(line)
        except ValueError:
            self.transport.abort()
        if self._longest is None:
            self._rest = self._rest[:_MOST_TEXT]
        elif len(self._rest) > self._longest:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Implements `asyncio.Protocol`."""
        if not self.ended.done():
            self.ended.set_result(None)


class Engine:
    """A process that computes. `on_message` is called with each message of the process, `on_end` with the jobs that the
    process had when it ended.

    `models` maps a name to its file's path and the digest that the file must have. `batches` maps a group to its largest
    batch.
    """

    def __init__(
        self,
        number: int,
        device: str | None,
        models: dict[str, tuple[str, str]],
        memory: int,
        batches: dict[str, int],
        on_message: Callable[[Engine, messages.Message], None],
        on_end: Callable[[Engine, list[str]], None],
        log: Log,
    ) -> None:
        self.number, self.device, self.models, self.memory = number, device, models, memory
        self.batches = batches  #: largest batch of each group of jobs
        self._on_message, self._on_end, self._log = on_message, on_end, log
        self.jobs: list[str] = []  # jobs at the engine, in order; the first job that is not in `written` is being computed
        self.written: set[str] = set()  # jobs of `jobs` whose answers are being written
        self._groups: dict[str, str | None] = {}
        self._in_batch: set[str] = set()  # jobs of the batch that is being computed
        self.early: messages.Read | None = None  # the job whose request the engine reads while the request arrives
        self.warm: dict[str, None] = {}  # digests of the keys used last
        self.process: asyncio.subprocess.Process | None = None
        self.ready = asyncio.Event()
        self.threads = 0
        self.refused: set[str] = set()  #: models and tables whose files the process could not load
        self.status: int | None = None  #: the exit status of the last process
        self._start_timer: asyncio.TimerHandle  # kills a process that does not become ready in time
        self._start_error: messages.ErrorFields | None = None  # the error of a process that did not start
        self._line: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._kill_timers: dict[str, asyncio.TimerHandle] = {}

    async def start(self) -> None:
        """Starts the process and its supervision. Raises DeviceError if the process does not start, and the error of a file
        that it refuses.
        """
        self._task = asyncio.create_task(self._supervise(), name=f"supervision of engine {self.number}")
        waits = asyncio.create_task(self.ready.wait())
        await asyncio.wait({self._task, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        error = self._start_error
        if not self.ready.is_set():
            await self.stop()
            reason = "its process ended or was too slow; the log has its output"
            if error is not None:
                reason = f"{error['name']}: {error['text']}"
            raise _core.DeviceError(f"engine {self.number} did not start: {reason}")
        if error is not None:
            await self.stop()
            raise error_from_json(error)

    @property
    def supervision(self) -> asyncio.Task[None]:
        """The task that restarts the process."""
        assert self._task is not None
        return self._task

    async def _supervise(self) -> None:
        """Runs one process after another until the engine is stopped, or until the first process does not become ready."""
        failures = 0
        while True:
            try:
                await self._run_process()
            except (OSError, MemoryError) as error:  # no descriptor, memory or process available
                self._log("engine_failed", engine=self.number, **error_fields(error))
                self._start_error = {"name": type(error).__name__, "text": str(error)}
            was_ready = self.ready.is_set()
            self.ready.clear()
            lost, self.jobs, self.early = self.jobs, [], None
            self.written.clear()
            self._groups.clear()
            self._in_batch.clear()
            self.warm.clear()
            if self._stopping or not self.threads:
                return
            failures = 0 if was_ready else failures + 1
            self._on_end(self, lost)
            await asyncio.sleep(min(0.1 * 2 ** min(failures, 10), 10.0))

    def _longest_start(self) -> float:
        """Returns the seconds in which the process must become ready."""
        size = 0
        for path, _ in self.models.values():
            with contextlib.suppress(OSError):
                size += Path(path).stat().st_size
        return _START + size / _PREPARE_RATE

    async def _run_process(self) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        reads, writes = os.pipe2(os.O_CLOEXEC)
        start = messages.Start(theirs.fileno(), self.models, self.memory, self.batches)
        environment = dict(os.environ)
        if self.device:
            environment["HELIOGRAPH_DEVICE"] = self.device
        package = str(Path(__file__).parents[2])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "heliograph.serving.worker", start.encode().decode()]
        try:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stderr=writes,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(reads)
            raise
        finally:
            theirs.close()
            os.close(writes)
        self._start_timer = loop.call_later(self._longest_start(), self.kill)
        printing, printed = await loop.connect_read_pipe(lambda: _Lines(self._log_output), os.fdopen(reads, "rb", 0))
        self._line, line = await loop.create_connection(lambda: _Lines(self._handle_line, _MOST_LINE), sock=ours)
        try:
            await line.ended
        finally:
            self._start_timer.cancel()
            self._line.close()
            if self.process.returncode is None:
                self.process.kill()
            self.status = await self.process.wait()
            await asyncio.wait({printed.ended}, timeout=_OUTPUT_SECONDS)
            printing.close()
            for timer in self._kill_timers.values():
                timer.cancel()
            self._kill_timers.clear()

    def _log_output(self, line: bytes) -> None:
        if line.strip():
            self._log("engine_output", engine=self.number, text=printable(line.decode(errors="replace"))[:_MOST_TEXT])

    def _handle_line(self, line: bytes) -> None:
        """Handles a message of the process. Raises ValueError for an invalid line."""
        message = messages.decode(line)
        match message:
            case messages.Failure(error):
                self._start_error = error
                self._log("engine_failed", engine=self.number, error=error["name"], text=error["text"])
                return
            case messages.Ready(threads, refused):
                self._start_timer.cancel()
                self._start_error = next(iter(refused.values()), None)
                self.refused, self.threads = set(refused), threads
                self.ready.set()
            case messages.Begun(jobs):
                self._in_batch = {job for job in jobs if job in self._groups}
            case messages.Computed(job):
                self.written.add(job)
            case messages.Done(job):
                self._forget(job)
        self._on_message(self, message)

    def _forget(self, job: str) -> None:
        if job in self.jobs:
            self.jobs.remove(job)
        self.written.discard(job)
        self._groups.pop(job, None)
        self._in_batch.discard(job)
        if timer := self._kill_timers.pop(job, None):
            timer.cancel()

    # Messages to the engine

    @property
    def free(self) -> bool:
        """Whether the engine takes one more job of any kind."""
        return self.takes(None)

    def takes(self, group: str | None) -> bool:
        """Returns whether the engine takes one more job of this group, which may join the batch that is queued there."""
        if not self.ready.is_set():
            return False
        runs, last, count = 0, None, 0
        for job in [*self.jobs, ""]:
            if job in self.written:
                continue
            own, begun = (self._groups.get(job), job in self._in_batch) if job else (group, False)
            if own is None or (own, begun) != last or (not begun and count == self.batches[own]):
                runs, count = runs + 1, 0
            last, count = (own, begun), count + 1
        return runs <= _DEPTH

    @property
    def last_group(self) -> str | None:
        """The group of the job that was last sent to the engine."""
        return self._groups.get(self.jobs[-1]) if self.jobs else None

    def send(self, run: messages.Run) -> None:
        """Sends a job."""
        self.jobs.append(run.job)
        self._groups[run.job] = run.group
        if digest := run.keys_digest:
            self.warm.pop(digest, None)
            self.warm[digest] = None
            if len(self.warm) > 64:
                del self.warm[next(iter(self.warm))]
        if self.reads(run.job):
            self.early = None
        self._write(run)

    def update(self, model: str, number: int) -> None:
        """Makes the engine load a table's new file between two batches."""
        job = f"{UPDATE}{model}:{number}"
        if self.ready.is_set():
            self.jobs.append(job)
        self._write(messages.Update(job, model))

    def read(self, message: messages.Read) -> None:
        """Makes the engine read a job's request while the request arrives."""
        self.early = message
        self._write(message)

    def reads(self, job: str) -> bool:
        """Returns whether the engine reads this job's request while the request arrives."""
        return self.early is not None and self.early.job == job

    def arrived(self, job: str, nbytes: int) -> None:
        """Reports to the engine how many bytes of the request have arrived."""
        if self.reads(job):
            self._write(messages.Arrived(job, nbytes))

    def drop(self, job: str) -> None:
        """Stops the early reading of a job's request, if this engine reads it."""
        if self.reads(job):
            self.early = None
            self._write(messages.Drop(job))

    def cancel(self, job: str) -> None:
        """Cancels a job. If an engine does not end the job in time, the service kills the engine."""
        self._write(messages.Cancel(job))
        if job in self.jobs and job not in self._kill_timers:
            self._kill_timers[job] = asyncio.get_running_loop().call_later(
                _CANCEL_SECONDS * (1 + self.jobs.index(job)), self.kill
            )

    def forget(self, digest: str) -> None:
        """Makes the engine drop revoked or expired keys from its memory."""
        self.warm.pop(digest, None)
        self._write(messages.Forget(digest))

    def _write(self, message: messages.Message) -> None:
        if self._line is not None and not self._line.is_closing():
            self._line.write(message.encode())

    def kill(self) -> None:
        """Kills the process; the supervision starts another one."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    async def stop(self) -> None:
        """Stops the engine permanently."""
        self._stopping = True
        self.kill()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_CANCEL_SECONDS)
            self._task.cancel()
