"""What a service tells of itself: metrics for Prometheus, health, spans for OpenTelemetry. No value, token or key is in any."""

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
_TOGETHER = (1, 2, 4, 8, 16, 32, 64, 128)
_MOST_CLIENTS = 200  # that metrics name; those beyond share a name
OTHERS = "other_clients"  #: no client's own: a name has no more than letters, digits, dots, dashes, underscores and @, and certificates' a prefix
Health = Callable[[], tuple[bool, str]]


class Figures:
    """Metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._clients: set[str] = set()
        self.requests = self._made(
            Counter, "requests", "Requests by protocol, kind and outcome", "protocol", "what", "outcome"
        )
        self.request_seconds = self._made(
            Histogram,
            "request_duration_seconds",
            "Seconds from a request's head to its answer",
            *("protocol", "what"),
            buckets=_SECONDS,
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
        self.removals = self._made(
            Counter, "store_removals", "Keys and tables that left the store: evicted, expired, revoked, damaged", "reason"
        )
        self.store_writable = self._made(Gauge, "store_writable", "1 if the store's disk can be written, 0 if not")
        self.store_free = self._made(Gauge, "store_free_bytes", "Bytes free on the store's disk")
        self.store_size = self._made(Gauge, "store_size_bytes", "Bytes of the store's disk")
        self.resident = self._made(Gauge, "resident_key_bytes", "Bytes of keys in an engine's memory", "engine")
        self.engine_up = self._made(Gauge, "engine_up", "1 if an engine takes jobs, 0 if it is being started", "engine")
        self.restarts = self._made(Counter, "engine_restarts", "Engines that ended and were started again")
        self.model_available = self._made(
            Gauge, "model_available", "1 if an engine has the model or table, 0 if it refused the file", "model", "engine"
        )
        self.connections = self._made(Gauge, "connections", "Open connections")
        self.most_connections = self._made(Gauge, "max_connections", "Connections that are served at once at most")
        self.handshakes = self._made(
            Counter, "tls_handshake_failures", "Failed TLS handshakes: certificate, protocol", "reason"
        )
        self.reloaded = self._made(Gauge, "config_last_reload_successful", "1 if all files were taken at the last SIGHUP")
        self.reloaded.set(1)
        self.reload_time = self._made(
            Gauge, "config_last_reload_success_timestamp_seconds", "When all files were last taken, in seconds since 1970"
        )
        self.reload_time.set_to_current_time()
        self.client_jobs = self._made(Counter, "client_jobs", "Jobs of a client that ended", "client")
        self.client_seconds = self._made(
            Counter, "client_compute_seconds", "Seconds in which an engine computed a client's jobs", "client"
        )
        self.client_received = self._made(
            Counter, "client_received_bytes", "Bytes of a client's uploads and requests", "client"
        )
        self.client_stored = self._made(
            Gauge, "client_stored_bytes", "Bytes of a client's keys, tables and uploads", "client"
        )
        build = self._made(Gauge, "build_info", "1, with the version and, if known, the commit", "version", "commit")
        build.labels(_core.version(), commit()).set(1)
        ProcessCollector(namespace="heliograph", registry=self.registry)

    def _made(self, kind: Callable[..., Any], name: str, text: str, *labels: str, **options: Any) -> Any:
        return kind(f"heliograph_{name}", text, labels, registry=self.registry, **options)

    def count(self, name: str, text: str, total: Callable[[], float]) -> None:
        """A counter whose value is asked for when metrics are."""
        self.registry.register(_Asked(f"heliograph_{name}", text, total))

    def client(self, owner: str) -> str:
        """The label of a client: its name, of the first clients that came; then `OTHERS`."""
        if owner not in self._clients:
            if len(self._clients) >= _MOST_CLIENTS:
                return OTHERS
            self._clients.add(owner)
        return owner

    def tell_stored(self, uses: Iterable[tuple[str, int]]) -> None:
        """Bytes of each client. One that has none any more has 0."""
        sums = dict.fromkeys([*self._clients, *([OTHERS] if len(self._clients) >= _MOST_CLIENTS else [])], 0)
        for owner, nbytes in uses:
            name = self.client(owner)
            sums[name] = sums.get(name, 0) + nbytes
        for name, nbytes in sums.items():
            self.client_stored.labels(name).set(nbytes)

    def serve(self, host: str, port: int, pages: dict[str, Health]) -> Any:
        """Metrics and health over HTTP, in threads of their own. Raises OSError where the port is taken."""
        metrics = make_wsgi_app(self.registry)

        def application(environ: dict[str, Any], start: Any) -> Any:
            page = pages.get(environ.get("PATH_INFO", ""))
            if page is None:
                return metrics(environ, start)
            fine, text = page()
            start("200 OK" if fine else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
            return [f"{text}\n".encode()]

        class Server(ThreadingWSGIServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        server: Any = make_server(host.strip("[]"), port, application, Server, _Silent)
        threading.Thread(target=server.serve_forever, name="heliograph-metrics", daemon=True).start()
        return server


class _Asked(Collector):
    def __init__(self, name: str, text: str, total: Callable[[], float]) -> None:
        self._name, self._text, self._total = name, text, total

    def collect(self) -> list[CounterMetricFamily]:
        """As prometheus_client has it."""
        return [CounterMetricFamily(self._name, self._text, value=self._total())]


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests of metrics are no events."""


def commit() -> str:
    """Of the build, if pip installed it from a repository; else ""."""
    try:
        told = json.loads(importlib.metadata.distribution("heliograph").read_text("direct_url.json") or "{}")
        return str(told.get("vcs_info", {}).get("commit_id", ""))
    except (importlib.metadata.PackageNotFoundError, ValueError, AttributeError, OSError):
        return ""


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
