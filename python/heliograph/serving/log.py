"""The service's log: JSON lines on standard error that never block the service. No line contains a value, token or key."""

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

_MOST_LINES = 10_000  # buffered lines; further lines are dropped
_LOG_INTERVAL = 1.0  # seconds between two log lines of one kind from a library
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_RETRY = 1000  # milliseconds between retries on a full non-blocking pipe

#: Level of each event, in the order of docs/serving.md.
EVENTS = {
    "started": "info",
    "listening": "info",
    "stopping": "info",
    "stopped": "info",
    "service_failed": "error",
    "task_failed": "error",
    "job_ended": "info",
    "job_error": "error",
    "request_refused": "info",
    "request_failed": "error",
    "object_uploaded": "info",
    "object_revoked": "info",
    "object_expired": "info",
    "object_evicted": "info",
    "object_damaged": "error",
    "store_damaged": "error",
    "store_read_only": "error",
    "store_writable": "info",
    "sweep_failed": "error",
    "spool_failed": "error",
    "clock_jumped": "warning",
    "engine_output": "info",
    "engine_failed": "error",
    "engine_restarted": "error",
    "model_refused": "error",
    "model_reloaded": "info",
    "model_reload_failed": "error",
    "tokens_reloaded": "info",
    "tokens_reload_failed": "error",
    "tls_reloaded": "info",
    "tls_reload_failed": "error",
    "tls_certificate_invalid": "error",
    "tls_handshake_failed": "info",
    "library_message": "warning",
    "log_lines_dropped": "warning",
}

#: Log fields of the running request: its client, address and id. `Log` adds these fields to every line.
REQUEST: ContextVar[dict[str, str]] = ContextVar("heliograph_request", default={})  # noqa: B039  never mutated


@contextlib.contextmanager
def request_fields(**fields: str | None) -> Iterator[None]:
    """Adds fields to the log lines of the block."""
    token = REQUEST.set(REQUEST.get() | {name: value for name, value in fields.items() if value is not None})
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a generator closed by another context
            REQUEST.reset(token)


def request_id(given: str | None) -> str:
    """Returns the client's request id, or a random id if the client's is not valid in a log."""
    return given if given is not None and _ID.fullmatch(given) else secrets.token_hex(8)


def error_fields(error: BaseException) -> dict[str, Any]:
    """Returns an error's log fields: its class and its errno's name (ENOSPC). The error's text is left out because it may
    quote a client.

    """
    cause = error if isinstance(error, OSError) else error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    return {"error": type(error).__name__, "errno": number and errno.errorcode.get(number, str(number))}


class Log:
    """Writes JSON lines on a thread. Lines are lost if the stream is blocked, full or closed.

    `dropped` counts the lost lines, and the next written line reports their number.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lines: deque[tuple[str, int]] = deque()  # lines, each with the number of lost lines that it reports
        self._changed = threading.Condition()
        self._writing = self._torn = False
        self._unreported = 0
        self.dropped = 0  #: the number of lost lines
        threading.Thread(target=self._write_lines, name="heliograph-log", daemon=True).start()

    def __call__(self, event: str, **fields: Any) -> None:
        """Logs one event. The fields of an event are names, sizes, times and error classes. Writing a record neither blocks
        nor raises OSError.

        """
        line = _line(event, REQUEST.get() | fields)
        with self._changed:
            if len(self._lines) >= _MOST_LINES:
                self._lose(1)
                return
            self._report()
            self._lines.append((line, 0))
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Waits until all lines are written, for at most `seconds`."""
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
            except (OSError, ValueError, AttributeError):  # a full disk, a closed pipe, a closed or missing stream
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
            if done:  # a partial line is terminated before the next line
                self._torn = done < len(data)


def _line(event: str, fields: dict[str, Any]) -> str:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
    line = {
        "time": stamp,
        "level": EVENTS.get(event, "info"),
        "event": event,
        **{k: v for k, v in fields.items() if v is not None},
    }
    return json.dumps(line, ensure_ascii=True) + "\n"


def open_standard_streams() -> None:
    """Opens /dev/null for closed standard streams. Otherwise another file would get the descriptor of the closed stream, and
    receive the libraries' output.

    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class _Quiet(logging.Handler):
    """Logs only the logger's name for records of libraries: their texts may quote requests."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log, self._last = log, dict[tuple[Any, ...], float]()

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        raised = record.exc_info[1] if record.exc_info else None
        key, now = (record.name, record.levelname, kind), time.monotonic()
        # A peer, or a machine out of descriptors, can cause thousands of records a second.
        if now - self._last.get(key, -_LOG_INTERVAL) < _LOG_INTERVAL:
            return
        self._last[key] = now
        self._log(
            "library_message", logger=record.name, level=record.levelname.lower(), **(error_fields(raised) if raised else {})
        )


def catch_libraries(log: Log) -> None:
    """Redirects the records of uvicorn, grpc, asyncio and starlette to the log."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "grpc", "asyncio", "starlette"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = (
            ([] if name.startswith("uvicorn.") else [_Quiet(log)]),
            name.startswith("uvicorn."),
        )
