"""What a service tells of itself: metrics for Prometheus, a log in lines of JSON, spans for OpenTelemetry. No value, token or key is in any."""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from heliograph import _core

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_TOGETHER = (1, 2, 4, 8, 16, 32, 64, 128)


class Figures:
    """Metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._made(
            Counter, "requests", "Requests by protocol, kind and outcome", "protocol", "what", "outcome"
        )
        self.refusals = self._made(Counter, "refusals", "Refusals, by the error's class", "error")
        self.jobs = self._made(Counter, "jobs", "Jobs that ended, by model and how", "model", "outcome")
        self.job_seconds = self._made(Histogram, "job_seconds", "Seconds that a job is computed", "model", buckets=_SECONDS)
        self.together = self._made(
            Histogram, "questions_together", "Questions that are answered together", "model", buckets=_TOGETHER
        )
        self.wait_seconds = self._made(Histogram, "wait_seconds", "Seconds that a job waits for an engine", buckets=_SECONDS)
        self.received = self._made(Counter, "received_bytes", "Bytes of uploads and requests")
        self.sent = self._made(Counter, "sent_bytes", "Bytes of answers")
        self.queued = self._made(Gauge, "queue_length", "Jobs that wait")
        self.running = self._made(Gauge, "running_jobs", "Jobs at an engine")
        self.stored = self._made(Gauge, "stored", "Keys and tables in the store", "kind")
        self.stored_bytes = self._made(Gauge, "stored_bytes", "Bytes of the store, uploads under way included")
        self.resident = self._made(Gauge, "resident_key_bytes", "Bytes of keys in an engine's memory", "engine")
        self.restarts = self._made(Counter, "engine_restarts", "Engines that ended and were started again")
        self._made(Gauge, "memory_bytes", "Memory of the service's own process").set_function(resident_bytes)

    def _made(self, kind: Callable[..., Any], name: str, text: str, *labels: str, **options: Any) -> Any:
        return kind(f"heliograph_{name}", text, labels, registry=self.registry, **options)

    def serve(self, host: str, port: int) -> tuple[Any, Any]:
        """Metrics over HTTP, in a thread of their own. Raises OSError where the port is taken."""
        found: tuple[Any, Any] = start_http_server(port, host, registry=self.registry)
        return found


def resident_bytes() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return float(pages * resource.getpagesize())


class Log:
    """Lines of JSON: when, what, and figures."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr

    def __call__(self, event: str, **words: Any) -> None:
        """One line. Words are names, sizes, times and classes of errors."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        said = {"time": stamp, "event": event, **{k: v for k, v in words.items() if v is not None}}
        self._stream.write(json.dumps(said, ensure_ascii=True) + "\n")
        self._stream.flush()


_EVERY = 1.0  # seconds between two lines of one kind from a library


class _Quiet(logging.Handler):
    """What the libraries below log, as lines of the same log, by their place alone: their texts may quote what they were sent."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log, self._last = log, dict[tuple[Any, ...], float]()

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        key, now = (record.name, record.levelname, kind), time.monotonic()
        if (
            now - self._last.get(key, -_EVERY) < _EVERY
        ):  # a peer, or a machine out of files, can make thousands of one a second
            return
        self._last[key] = now
        self._log("library", logger=record.name, level=record.levelname, error=kind.__name__ if kind else None)


def catch_libraries(log: Log) -> None:
    """Into the log goes what uvicorn, grpc and asyncio have to say."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "grpc", "asyncio", "starlette"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = (
            ([] if name.startswith("uvicorn.") else [_Quiet(log)]),
            name.startswith("uvicorn."),
        )


class Spans:
    """A span for each job, where OpenTelemetry is there and asked for; set up as its own variables say."""

    def __init__(self, wanted: bool) -> None:
        self._tracer: Any = None
        if not wanted:
            return
        try:
            from opentelemetry import trace
        except ImportError:
            raise _core.HeliographError(
                "spans are OpenTelemetry's: pip install opentelemetry-sdk, and an exporter"
            ) from None
        self._tracer = trace.get_tracer("heliograph.serving", _core.version())

    def job(self, seconds: float, **attributes: Any) -> None:
        """One that has ended now, and took so long from its acceptance."""
        if self._tracer is not None:
            now = time.time_ns()
            told = {f"heliograph.{name}": value for name, value in attributes.items()}
            self._tracer.start_span("job", start_time=now - int(seconds * 1e9), attributes=told).end(now)
