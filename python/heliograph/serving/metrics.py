"""The service's metrics for Prometheus, health checks and OpenTelemetry spans. Metrics and spans contain no encrypted or
decrypted value, token or key."""

from __future__ import annotations

import importlib.metadata
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from heliograph import _core

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_MAX_CLIENTS = 200  # clients that have their own label; further clients share `OTHERS`
OTHERS = "other_clients"  #: label of the clients beyond `_MAX_CLIENTS`
Health = Callable[[], tuple[bool, str]]


class Metrics:
    """The metrics of one service, in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._clients: set[str] = set()
        self.requests = self._metric(
            Counter, "requests", "Requests by protocol, operation and outcome", "protocol", "operation", "outcome"
        )
        self.request_seconds = self._metric(
            Histogram,
            "request_duration_seconds",
            "Seconds from a request's head to the start of its answer",
            *("protocol", "operation"),
            buckets=_SECONDS,
        )
        self.refusals = self._metric(Counter, "refusals", "Refusals, by the error's class", "error")
        self.jobs = self._metric(Counter, "jobs", "Ended jobs, by model and outcome", "model", "outcome")
        self.job_seconds = self._metric(
            Histogram, "job_duration_seconds", "Seconds of computation of a job", "model", buckets=_SECONDS
        )
        self.batch_size = self._metric(
            Histogram, "batch_size", "Queries of a table answered in one batch", "model", buckets=_BATCH_SIZES
        )
        self.queue_seconds = self._metric(
            Histogram,
            "queue_duration_seconds",
            "Seconds from a job's acceptance until an engine starts it",
            buckets=_SECONDS,
        )
        self.received = self._metric(Counter, "received_bytes", "Bytes of uploads and requests")
        self.sent = self._metric(Counter, "sent_bytes", "Bytes of answers")
        self.queued = self._metric(Gauge, "queue_length", "Queued jobs")
        self.running = self._metric(Gauge, "running_jobs", "Jobs sent to an engine")
        self.stored = self._metric(Gauge, "stored_objects", "Keys and tables in the store", "kind")
        self.stored_bytes = self._metric(Gauge, "stored_bytes", "Bytes in the store, including unfinished uploads")
        self.removals = self._metric(
            Counter, "store_removals", "Keys and tables removed from the store: evicted, expired, revoked, damaged", "reason"
        )
        self.store_writable = self._metric(Gauge, "store_writable", "1 if the store's disk is writable, else 0")
        self.store_free = self._metric(Gauge, "store_free_bytes", "Free bytes on the store's disk")
        self.store_size = self._metric(Gauge, "store_size_bytes", "Size of the store's disk in bytes")
        self.resident = self._metric(Gauge, "resident_key_bytes", "Bytes of keys in an engine's memory", "engine")
        self.engine_up = self._metric(Gauge, "engine_up", "1 if the engine takes jobs, 0 while it starts", "engine")
        self.restarts = self._metric(Counter, "engine_restarts", "Restarts of engines")
        self.model_available = self._metric(
            Gauge,
            "model_available",
            "1 if the engine has loaded the model or table, 0 if it refused the file",
            "model",
            "engine",
        )
        self.connections = self._metric(Gauge, "connections", "Open connections")
        self.max_connections = self._metric(Gauge, "max_connections", "Limit of open connections")
        self.handshakes = self._metric(
            Counter, "tls_handshake_failures", "Failed TLS handshakes: certificate, protocol", "reason"
        )
        self.reloaded = self._metric(
            Gauge, "config_last_reload_successful", "1 if the last SIGHUP reloaded all files, else 0"
        )
        self.reloaded.set(1)
        self.reload_time = self._metric(
            Gauge, "config_last_reload_success_timestamp_seconds", "Time of the last complete reload, in seconds since 1970"
        )
        self.reload_time.set_to_current_time()
        self.client_jobs = self._metric(Counter, "client_jobs", "Ended jobs of a client", "client")
        self.client_seconds = self._metric(
            Counter, "client_compute_seconds", "Seconds of computation of a client's jobs", "client"
        )
        self.client_received = self._metric(
            Counter, "client_received_bytes", "Bytes of a client's uploads and requests", "client"
        )
        self.client_stored = self._metric(
            Gauge, "client_stored_bytes", "Bytes of a client's keys, tables and uploads", "client"
        )
        build = self._metric(
            Gauge, "build_info", "1; labels have the version and, if known, the commit", "version", "commit"
        )
        build.labels(_core.version(), commit()).set(1)
        ProcessCollector(namespace="heliograph", registry=self.registry)

    def _metric(self, kind: Callable[..., Any], name: str, text: str, *labels: str, **options: Any) -> Any:
        return kind(f"heliograph_{name}", text, labels, registry=self.registry, **options)

    def count(self, name: str, text: str, total: Callable[[], float]) -> None:
        """Registers a counter whose value is read when metrics are collected."""
        self.registry.register(_CallbackCounter(f"heliograph_{name}", text, total))

    def client(self, owner: str) -> str:
        """Returns a client's label: the client's name for the first clients, then `OTHERS`."""
        if owner not in self._clients:
            if len(self._clients) >= _MAX_CLIENTS:
                return OTHERS
            self._clients.add(owner)
        return owner

    def set_client_bytes(self, uses: Iterable[tuple[str, int]]) -> None:
        """Updates the stored bytes of each client. The bytes of a client without contents become 0."""
        sums = dict.fromkeys([*self._clients, *([OTHERS] if len(self._clients) >= _MAX_CLIENTS else [])], 0)
        for owner, nbytes in uses:
            name = self.client(owner)
            sums[name] = sums.get(name, 0) + nbytes
        for name, nbytes in sums.items():
            self.client_stored.labels(name).set(nbytes)

    def serve(self, host: str, port: int, pages: dict[str, Health]) -> Any:
        """Serves metrics and health checks over HTTP on separate threads. Raises OSError if the port is in use."""
        metrics = make_wsgi_app(self.registry)

        def application(environ: dict[str, Any], start: Any) -> Any:
            page = pages.get(environ.get("PATH_INFO", ""))
            if page is None:
                return metrics(environ, start)
            healthy, text = page()
            start("200 OK" if healthy else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
            return [f"{text}\n".encode()]

        class Server(ThreadingWSGIServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        server: Any = make_server(host.strip("[]"), port, application, Server, _QuietHandler)
        threading.Thread(target=server.serve_forever, name="heliograph-metrics", daemon=True).start()
        return server


class _CallbackCounter(Collector):
    def __init__(self, name: str, text: str, total: Callable[[], float]) -> None:
        self._name, self._text, self._total = name, text, total

    def collect(self) -> list[CounterMetricFamily]:
        """Implements `prometheus_client.registry.Collector`."""
        return [CounterMetricFamily(self._name, self._text, value=self._total())]


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Drops the line: requests for metrics are not logged."""


def commit() -> str:
    """Returns the commit of the build if pip installed it from a repository, else ""."""
    try:
        origin = json.loads(importlib.metadata.distribution("heliograph").read_text("direct_url.json") or "{}")
        return str(origin.get("vcs_info", {}).get("commit_id", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError, AttributeError, OSError):
        return ""


class Spans:
    """Records an OpenTelemetry span for each job, if enabled. The environment variables of OpenTelemetry configure the
    spans.

    """

    def __init__(self, enabled: bool) -> None:
        self._tracer: Any = None
        if not enabled:
            return
        try:
            from opentelemetry import trace
        except ImportError:
            raise _core.HeliographError(
                "cannot record spans: OpenTelemetry is not installed; pip install opentelemetry-sdk and an exporter"
            ) from None
        self._tracer = trace.get_tracer("heliograph.serving", _core.version())

    def job(self, seconds: float, **attributes: Any) -> None:
        """Records the span of a job that has ended now and took `seconds` from its acceptance."""
        if self._tracer is not None:
            now = time.time_ns()
            named = {f"heliograph.{name}": value for name, value in attributes.items()}
            self._tracer.start_span("job", start_time=now - int(seconds * 1e9), attributes=named).end(now)
