"""Engines as the service has them: a process for each set of devices, which is started again when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import heliograph
from heliograph import _core
from heliograph._arrays import printable
from heliograph.serving.errors import from_wire
from heliograph.serving.log import Log, error_fields

_START = 120.0  # seconds that an engine may take until it says that it is ready
_PREPARED = 8 << 20  # bytes of models and tables a second that it prepares, at least
_PATIENCE = 5.0  # seconds in which a cancelled job ends; after these the engine is ended
_LAST_WORDS = 1.0  # seconds for what an engine printed before it ended
_MOST_LINE = 1 << 20
_MOST_TEXT = 500  # characters of a line that an engine prints
_DEPTH = 2  # jobs that an engine has at a time, or groups answered together: one is computed, the next is read


class _Line(asyncio.Protocol):
    """Lines of JSON from a process, each told as it comes; `ended` is done when no more will."""

    def __init__(self, said: Callable[[dict[str, Any]], None]) -> None:
        self._said, self._rest = said, b""
        self.ended = asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio has it."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """As asyncio has it. What is no such line ends it."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            for line in lines:
                self._said(json.loads(line))
        except ValueError:
            self.transport.abort()
        if len(self._rest) > _MOST_LINE:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio has it."""
        if not self.ended.done():
            self.ended.set_result(None)


class _Printed(asyncio.Protocol):
    """What a process writes to standard error, each line told as it comes."""

    def __init__(self, said: Callable[[str], None]) -> None:
        self._said, self._rest = said, b""
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """As asyncio has it."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_MOST_TEXT]
        for line in lines:
            if line.strip():
                self._said(printable(line.decode(errors="replace"))[:_MOST_TEXT])

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio has it."""
        if not self.ended.done():
            self.ended.set_result(None)


class Engine:
    """A process that computes. `heard` is called with each of its words about a job, `ended` with the jobs that it had as it ended.

    `models` has each file's path, and the digest that it has to have.
    """

    def __init__(
        self,
        number: int,
        device: str | None,
        models: dict[str, tuple[str, str]],
        memory: int,
        together: dict[str, int],
        heard: Callable[[Engine, dict[str, Any]], None],
        ended: Callable[[Engine, list[str]], None],
        log: Log,
    ) -> None:
        self.number, self.device, self.models, self.memory = number, device, models, memory
        self.together = together  #: how many jobs of a group it answers together at most
        self._heard, self._ended, self._log = heard, ended, log
        self.jobs: list[str] = []  # in their order; the first that is not `written` is being computed
        self.written: set[str] = set()  # of these, jobs whose answers are being written
        self._groups: dict[str, str | None] = {}
        self._begun: set[str] = set()  # of those with a group, what it answers now
        self.early: str | None = None  # a job whose request it reads while that comes
        self.warm: dict[str, None] = {}  # digests that it used last
        self.process: asyncio.subprocess.Process | None = None
        self.ready = asyncio.Event()
        self.threads = 0
        self.refused: set[str] = set()  #: models and tables whose files it could not take
        self.status: int | None = None  #: the exit status of the process that ended last
        self._late: asyncio.TimerHandle  # ends a process that does not become ready
        self._why: dict[str, Any] | None = None  # of a process that did not start, as an error travels
        self._line: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._kills: dict[str, asyncio.TimerHandle] = {}

    async def start(self) -> None:
        """Starts it and keeps it up. Raises DeviceError where it does not come up at all, the error of a file that it refuses."""
        self._task = asyncio.create_task(self._keep(), name=f"supervision of engine {self.number}")
        waits = asyncio.create_task(self.ready.wait())
        await asyncio.wait({self._task, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        why = self._why
        if not self.ready.is_set():
            await self.stop()
            said = "its device, or a model, is not what it should be" if why is None else f"{why['name']}: {why['text']}"
            raise _core.DeviceError(f"the engine did not start: {said}")
        if why is not None:
            await self.stop()
            raise from_wire(why)

    @property
    def supervision(self) -> asyncio.Task[None]:
        """What keeps it up, once it was started."""
        assert self._task is not None
        return self._task

    async def _keep(self) -> None:
        """One process after another, until it is stopped, or did not come up the first time."""
        failures = 0
        while True:
            try:
                await self._once()
            except (OSError, MemoryError) as error:  # no descriptor, memory or process for it at present
                self._log("fault", what="engine", engine=self.number, **error_fields(error))
                self._why = {"name": type(error).__name__, "text": str(error)}
            was_ready = self.ready.is_set()
            self.ready.clear()
            lost, self.jobs, self.early = self.jobs, [], None
            self.written.clear()
            self._groups.clear()
            self._begun.clear()
            self.warm.clear()
            if self._stopping or not self.threads:
                return
            failures = 0 if was_ready else failures + 1
            self._ended(self, lost)
            await asyncio.sleep(min(0.1 * 2 ** min(failures, 10), 10.0))

    def _longest_start(self) -> float:
        """Seconds until it has to be ready."""
        size = 0
        for path, _ in self.models.values():
            with contextlib.suppress(OSError):
                size += Path(path).stat().st_size
        return _START + size / _PREPARED

    async def _once(self) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        reads, writes = os.pipe2(os.O_CLOEXEC)
        said = {"line": theirs.fileno(), "models": self.models, "memory": self.memory, "together": self.together}
        environment = dict(os.environ)
        if self.device:
            environment["HELIOGRAPH_DEVICE"] = self.device
        package = str(Path(heliograph.__file__).parent.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "heliograph.serving.worker", json.dumps(said)]
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
        self._late = loop.call_later(self._longest_start(), self.kill)
        printing, printed = await loop.connect_read_pipe(lambda: _Printed(self._prints), os.fdopen(reads, "rb", 0))
        self._line, line = await loop.create_connection(lambda: _Line(self._said), sock=ours)
        try:
            await line.ended
        finally:
            self._late.cancel()
            self._line.close()
            if self.process.returncode is None:
                self.process.kill()
            self.status = await self.process.wait()
            await asyncio.wait({printed.ended}, timeout=_LAST_WORDS)
            printing.close()
            for timer in self._kills.values():
                timer.cancel()
            self._kills.clear()

    def _prints(self, text: str) -> None:
        self._log("engine_output", engine=self.number, text=text)

    def _said(self, words: dict[str, Any]) -> None:
        if words["event"] == "unable":
            self._why = words["error"]
            self._log("fault", what="engine", engine=self.number, error=self._why["name"], text=self._why["text"])
            return
        if words["event"] == "ready":
            self._late.cancel()
            self._why = next(iter(words["refused"].values()), None)
            self.refused = set(words["refused"])
            self.threads = words["threads"]
            self.ready.set()
        elif words["event"] == "begun":
            self._begun = {job for job in words["jobs"] if job in self._groups}
        elif words["event"] == "computed":
            self.written.add(words["job"])
        elif words["event"] in ("done", "failed"):
            self._forget(words["job"])
        self._heard(self, words)

    def _forget(self, job: str) -> None:
        if job in self.jobs:
            self.jobs.remove(job)
        self.written.discard(job)
        self._groups.pop(job, None)
        self._begun.discard(job)
        if timer := self._kills.pop(job, None):
            timer.cancel()

    # What it is told

    @property
    def free(self) -> bool:
        """Whether it takes one more job, whichever."""
        return self.takes(None)

    def takes(self, group: str | None) -> bool:
        """Whether it takes one more job: of this group, which may be answered with what waits there."""
        if not self.ready.is_set():
            return False
        runs, last, count = 0, None, 0
        for job in [*self.jobs, ""]:
            if job in self.written:
                continue
            own, begun = (self._groups.get(job), job in self._begun) if job else (group, False)
            if own is None or (own, begun) != last or (not begun and count == self.together[own]):
                runs, count = runs + 1, 0
            last, count = (own, begun), count + 1
        return runs <= _DEPTH

    @property
    def last_group(self) -> str | None:
        """Of the job that it was given last."""
        return self._groups.get(self.jobs[-1]) if self.jobs else None

    def send(self, job: str, **asked: Any) -> None:
        """A job. Of one that it reads already it knows the rest."""
        self.jobs.append(job)
        self._groups[job] = asked.get("group")
        if digest := asked.get("digest"):
            self.warm.pop(digest, None)
            self.warm[digest] = None
            if len(self.warm) > 64:
                del self.warm[next(iter(self.warm))]
        if self.early == job:
            self.early = None
        self._tell(do="run", job=job, **asked)

    def update(self, model: str, number: int) -> None:
        """A table's file was saved anew: it takes that over between two readings."""
        job = f"update:{model}:{number}"
        if self.ready.is_set():
            self.jobs.append(job)
        self._tell(do="run", job=job, kind="update", model=model, group=None)

    def read(self, job: str, **asked: Any) -> None:
        """A job whose request is still to come, and is to be read as it comes."""
        self.early = job
        self._tell(do="read", job=job, **asked)

    def have(self, job: str, nbytes: int) -> None:
        """So much of that request has come."""
        if self.early == job:
            self._tell(do="have", job=job, bytes=nbytes)

    def drop(self, job: str) -> None:
        """It is not to be read after all, if this engine was at it."""
        if self.early == job:
            self.early = None
            self._tell(do="drop", job=job)

    def cancel(self, job: str) -> None:
        """Its device is free within a moment; an engine that does not heed is ended."""
        self._tell(do="cancel", job=job)
        if job in self.jobs and job not in self._kills:
            self._kills[job] = asyncio.get_running_loop().call_later(_PATIENCE * (1 + self.jobs.index(job)), self.kill)

    def forget(self, digest: str) -> None:
        """Keys that were taken back leave its memory."""
        self.warm.pop(digest, None)
        self._tell(do="forget", digest=digest)

    def _tell(self, **words: Any) -> None:
        if self._line is not None and not self._line.is_closing():
            self._line.write(json.dumps(words).encode() + b"\n")

    def kill(self) -> None:
        """Ends the process; another is started."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    async def stop(self) -> None:
        """Ends it for good."""
        self._stopping = True
        self.kill()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_PATIENCE)
            self._task.cancel()
