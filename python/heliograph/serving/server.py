"""The service's process: sockets, certificates, signals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._common import startup as _startup
from heliograph._common.arguments import printable
from heliograph.serving.access import Access
from heliograph.serving.certificates import Certificates
from heliograph.serving.connections import Connections, files_for, listening
from heliograph.serving.core import Service
from heliograph.serving.garbage import Collector
from heliograph.serving.grpc_proxy import GrpcProxy
from heliograph.serving.grpc_service import GrpcService
from heliograph.serving.log import Log, catch_libraries, error_fields, open_standard_streams
from heliograph.serving.metrics import Metrics, Spans
from heliograph.serving.numeric import whole
from heliograph.serving.served import served_of
from heliograph.serving.settings import Settings
from heliograph.serving.store import Store
from heliograph.serving.uvicorn_protocol import HttpServer, require_accepted_version, use_small_tls_buffers
from heliograph.serving.web import Web

_LOG_INTERVAL = 1.0  # seconds between two log lines of failed handshakes
_LAST_LINES = 1.0  # seconds to write the last log lines
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def require_safe(settings: Settings) -> None:
    """Raises SecurityError for a service that other machines can reach without TLS or authentication, unless --insecure is
    given.
    """
    if settings.insecure or settings.host in _LOOPBACK:
        return
    if settings.tls_cert is None:
        raise _core.SecurityError(
            "cannot listen to other machines without TLS: tokens and ciphertexts could be read and changed on the network; "
            "give --tls-cert, or --insecure behind a proxy that terminates TLS"
        )
    if settings.tokens is None and settings.client_ca is None:
        raise _core.SecurityError(
            "cannot listen to other machines without authentication of clients: give --tokens or --client-ca, or --insecure"
        )


def named_models(paths: Iterable[Path]) -> dict[str, Path]:
    """Maps the files' model names to their paths. Raises ParameterError for two files of one name, and the errors of
    `served_of`.

    """
    found: dict[str, Path] = {}
    for path in paths:
        name = served_of(path).name
        if name in found:
            raise _core.ParameterError(
                f"cannot serve two models named {name}: {printable(str(found[name]))} and {printable(str(path))}; "
                "give one, or save one under another name"
            )
        found[name] = path.resolve()
    return found


def certificates_of(settings: Settings) -> Certificates | None:
    """Returns the TLS files; None without TLS. Raises ParameterError for an option that requires another option, and the
    errors of `Certificates`.

    """
    if settings.tls_cert is None:
        if settings.client_ca is not None:
            raise _core.ParameterError("--client-ca requires --tls-cert: client certificates need TLS")
        if settings.tls_key is not None:
            raise _core.ParameterError("--tls-key requires --tls-cert, the certificate of this private key")
    if settings.client_crl is not None and settings.client_ca is None:
        raise _core.ParameterError("--client-crl requires --client-ca, the authorities whose revocation lists these are")
    if settings.tls_cert is None:
        return None
    return Certificates(
        settings.tls_cert, settings.tls_key, settings.client_ca, settings.client_crl, required=settings.tokens is None
    )


def notify(state: str) -> None:
    """Sends a state to systemd, if systemd started this process with a notify socket."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)


class Process:
    """The service with its HTTP and gRPC interfaces. Raises the errors of its parts before it listens."""

    def __init__(self, settings: Settings, log: Log | None = None) -> None:
        require_safe(settings)
        self.settings, self.log, self.metrics = settings, log or Log(), Metrics()
        self.certificates = certificates_of(settings)
        if self.certificates is not None:
            self.certificates.on_failure = self._handshake_failed
        with contextlib.ExitStack() as opened:
            self.access = Access(settings.tokens, settings.client_ca is not None)
            assert settings.store is not None
            store = Store(settings.store, settings)
            opened.callback(store.close)
            devices: list[str | None] = [*settings.device] or [None]
            self.service = Service(
                named_models(settings.models),
                store,
                self.access,
                settings,
                devices=devices,
                log=self.log,
                metrics=self.metrics,
                spans=Spans(settings.opentelemetry),
                alive=functools.partial(notify, "WATCHDOG=1"),
            )
            self.connections = Connections(files_for(settings.max_connections), settings.max_connections_per_client)
            self.metrics.max_connections.set(self.connections.most)
            self.metrics.connections.set_function(lambda: len(self.connections))
            self.socket = listening(settings.host, settings.port, self.connections)
            opened.callback(self.socket.close)
            self.ports: dict[str, int] = {"http": self.socket.getsockname()[1]}
            self.proxy: GrpcProxy | None = None
            if settings.grpc_port is not None:
                if settings.grpc_port and settings.grpc_port == settings.port:
                    raise _core.ParameterError(
                        f"--port and --grpc-port must be different ports, got {settings.port} for both"
                    )
                self.proxy = GrpcProxy(listening(settings.host, settings.grpc_port, self.connections), self._context)
                opened.callback(self.proxy.close)
                self.ports["grpc"] = self.proxy.listener.getsockname()[1]
            self._opened = opened.pop_all()
        self.http: HttpServer
        self.listens = self._hung_up = False  #: whether the service accepts requests
        self._rereading: asyncio.Task[None] | None = None
        self._handshakes, self._last_handshake = 0, -_LOG_INTERVAL

    def close(self) -> None:
        """Releases the store and the ports."""
        self._opened.close()

    @property
    def _context(self) -> ssl.SSLContext | None:
        return None if self.certificates is None else self.certificates.context

    async def run(self) -> int:
        """Runs until SIGTERM or SIGINT; then refuses new jobs and finishes accepted jobs. Returns the exit status."""
        catch_libraries(self.log)
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._on_sighup)
        metrics = self._metrics()
        stopped = asyncio.create_task(stop.wait())
        starting = asyncio.create_task(self.service.start())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # preparing tables may take minutes
            starting.cancel()
            await asyncio.wait({starting})
            self.log("stopped")
            return 0
        await starting
        application = Web(self.service, self.settings.max_connections_per_client).application()
        self.http = HttpServer(application, self.connections, self.settings.keep_alive)
        served = await self.http.start()
        self.socket.start(self.http.protocol, self._context, self._busy)
        rpc = await self._grpc()
        if self.certificates is not None and (problem := self.certificates.problem()) is not None:
            self.log("tls_certificate_invalid", error=problem)
        collecting = asyncio.create_task(Collector(self._busy).run())
        self.log("listening", host=self.settings.host, tls=self.certificates is not None, **self.ports)
        notify("READY=1")
        self.listens = True
        if self._hung_up or _startup.pending:  # a SIGHUP that arrived during the start
            self._on_sighup()
        failed = asyncio.create_task(self.service.failure.wait())
        await asyncio.wait({served, stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        collecting.cancel()
        broken = self.service.failure.is_set()
        notify("STOPPING=1")
        await self.service.stop(0.0 if broken else self.settings.grace_period)
        if rpc is not None:
            await rpc.stop(1.0)
        self.socket.close()
        if self.proxy is not None:
            self.proxy.close()
        self.http.stop()
        await served
        if metrics is not None:
            metrics.shutdown()
        return 1 if broken else 0

    def _busy(self) -> bool:
        return bool(self.service.unfinished())

    def _metrics(self) -> Any:
        if self.settings.metrics_address is None:
            return None
        host, _, port = self.settings.metrics_address.rpartition(":")
        number = whole(
            port, f"the port of --metrics-address {printable(self.settings.metrics_address)} (HOST:PORT or :PORT)", 0, 65535
        )
        pages = {"/livez": self.service.live, "/readyz": self.service.ready}
        try:
            found = self.metrics.serve(host or "127.0.0.1", number, pages)
        except OSError as error:
            raise OSError(error.errno, f"cannot serve metrics: {error}", self.settings.metrics_address) from None
        self.ports["metrics"] = found.server_port
        return found

    async def _grpc(self) -> Any:
        if self.proxy is None:
            return None
        self.proxy.prepare(self.service.folder)
        rpc = GrpcService(self.service, self.proxy, self.settings.max_streams_per_client)
        server = await rpc.start()
        self.proxy.start(self._busy)
        return server

    def _handshake_failed(self, kind: str, reason: str, address: str | None) -> None:
        self.metrics.handshakes.labels(kind).inc()
        now = asyncio.get_running_loop().time()
        if now - self._last_handshake >= _LOG_INTERVAL:  # an unknown peer can cause thousands of failures a second
            self._last_handshake = now
            self.log("tls_handshake_failed", address=address, error=reason, total=self._handshakes + 1)
        self._handshakes += 1

    # Reloading at SIGHUP

    def _on_sighup(self) -> None:
        """Handles SIGHUP: reloads tokens, certificates and tables in turn. A file that cannot be read changes nothing."""
        self._hung_up = True
        if self.listens:
            _startup.pending = False
            if self._rereading is None or self._rereading.done():
                self._rereading = asyncio.create_task(self._reread())

    async def _reread(self) -> None:
        while self._hung_up:
            self._hung_up = False
            valid = all([self._read("tokens", self.access.read), self._read("tls", self._read_certificates)])
            valid = await self.service.reread() and valid
            self.metrics.reloaded.set(valid)
            if valid:
                self.metrics.reload_time.set_to_current_time()

    def _read(self, what: str, read: Callable[[], bool]) -> bool:
        """Reloads files of one kind. Returns whether the files were valid."""
        try:
            if read():
                self.log(f"{what}_reloaded")
            return True
        except (_core.HeliographError, OSError, ValueError) as error:
            self.log(f"{what}_reload_failed", **error_fields(error), text=str(error))
            return False

    def _read_certificates(self) -> bool:
        if self.certificates is None:
            return False
        changed = self.certificates.read()
        if changed and self.settings.client_ca is not None:  # connected clients must present their certificates again
            self.http.close_connections()
            if self.proxy is not None:
                self.proxy.retire()
        if (problem := self.certificates.problem()) is not None:
            self.log("tls_certificate_invalid", error=problem)
        return changed


def run(settings: Settings) -> int:
    """Runs `heliograph serve` and returns its exit status."""
    before = os.umask(0o077)  # files that the process writes are readable only by its user
    require_accepted_version()
    use_small_tls_buffers()
    open_standard_streams()
    log = Log(sys.stderr)
    try:
        with _startup.sighup_recorded(), asyncio.Runner(loop_factory=functools.partial(asyncio.new_event_loop)) as runner:
            process = Process(settings, log)
            try:
                return runner.run(process.run())
            except Exception as error:
                if not process.listens:
                    raise
                log("service_failed", **error_fields(error))  # logged, not printed: standard error may have no reader
                return 1
            finally:
                process.close()
    finally:
        log.close(_LAST_LINES)
        os.umask(before)
