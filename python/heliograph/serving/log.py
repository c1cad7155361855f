"""The service's log: lines of JSON on standard error, which never hold the service up. No value, token or key is in any."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from typing import IO, Any

_MOST_LINES = 10_000  # lines that wait for the stream; more are dropped
_EVERY = 1.0  # seconds between two lines of one kind from a library
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_RETRY = 1000  # milliseconds between two looks at a full pipe that does not block

#: What the running request is: its client, address and id. `Log` adds it to every line.
REQUEST: ContextVar[dict[str, str]] = ContextVar("heliograph_request", default={})  # noqa: B039  never changed in place


@contextlib.contextmanager
def request_fields(**fields: str | None) -> Iterator[None]:
    """Within it log lines have these fields besides."""
    token = REQUEST.set(REQUEST.get() | {name: value for name, value in fields.items() if value is not None})
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a generator that another context closes
            REQUEST.reset(token)


def request_id(given: str | None) -> str:
    """What the client calls its request, or a new name where that is none that a log should have."""
    return given if given is not None and _ID.fullmatch(given) else secrets.token_hex(8)


def error_fields(error: BaseException) -> dict[str, Any]:
    """An error's fields of a log line: its class, and the system's name of its number (ENOSPC). Its text may quote a client."""
    cause = error if isinstance(error, OSError) else error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    return {"error": type(error).__name__, "errno": number and errno.errorcode.get(number, str(number))}


class Log:
    """Lines of JSON: when, what, and figures. A thread writes them; a stream that is stuck, full or closed loses lines.

    Lost lines are counted (`dropped`), and the next line that is written says how many.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lines: deque[tuple[str, int]] = deque()  # each with how many lost lines it stands for
        self._changed = threading.Condition()
        self._writing = self._torn = False
        self._unreported = 0
        self.dropped = 0  #: lines that were lost
        threading.Thread(target=self._write_lines, name="heliograph-log", daemon=True).start()

    def __call__(self, event: str, **words: Any) -> None:
        """One line. Words are names, sizes, times and classes of errors. Neither blocks nor raises OSError."""
        line = _line(event, REQUEST.get() | words)
        with self._changed:
            if len(self._lines) >= _MOST_LINES:
                self._lose(1)
                return
            self._report()
            self._lines.append((line, 0))
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Waits until all lines are written, or so many seconds."""
        with self._changed:
            self._report()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._lines and not self._writing, seconds)

    def _report(self) -> None:
        if self._unreported:
            self._lines.append((_line("log_lines_dropped", {"lines": self._unreported}), self._unreported))
            self._unreported = 0

    def _lose(self, count: int, again: bool = False) -> None:
        self._unreported += count
        self.dropped += 0 if again else count

    def _write_lines(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line, stands_for = self._lines.popleft()
                self._writing = True
            try:
                self._write(line)
            except (OSError, ValueError, AttributeError):  # a full disk, a reader that left; a closed stream, or none
                with self._changed:
                    self._lose(stands_for or 1, again=stands_for > 0)
            finally:
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()

    def _write(self, line: str) -> None:
        data = ("\n" if self._torn else "").encode() + line.encode()
        descriptor, done = self._stream.fileno(), 0
        try:
            while done < len(data):
                try:
                    done += os.write(descriptor, data[done:])
                except BlockingIOError:
                    waits = select.poll()
                    waits.register(descriptor, select.POLLOUT)
                    waits.poll(_RETRY)
        finally:
            if done:  # half a line is ended before the next
                self._torn = done < len(data)


def _line(event: str, words: dict[str, Any]) -> str:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
    said = {"time": stamp, "event": event, **{k: v for k, v in words.items() if v is not None}}
    return json.dumps(said, ensure_ascii=True) + "\n"


def open_standard_streams() -> None:
    """Opens /dev/null where a standard stream is closed: another file would get its number, and what libraries print."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class _Quiet(logging.Handler):
    """What the libraries below log, as lines of the same log, by their place alone: their texts may quote what they were sent."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log, self._last = log, dict[tuple[Any, ...], float]()

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        raised = record.exc_info[1] if record.exc_info else None
        key, now = (record.name, record.levelname, kind), time.monotonic()
        if (
            now - self._last.get(key, -_EVERY) < _EVERY
        ):  # a peer, or a machine out of files, can make thousands of one a second
            return
        self._last[key] = now
        self._log("library", logger=record.name, level=record.levelname, **(error_fields(raised) if raised else {}))


def catch_libraries(log: Log) -> None:
    """Into the log goes what uvicorn, grpc and asyncio have to say."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "grpc", "asyncio", "starlette"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = (
            ([] if name.startswith("uvicorn.") else [_Quiet(log)]),
            name.startswith("uvicorn."),
        )
