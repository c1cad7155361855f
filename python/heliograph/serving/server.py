"""A service as a process: sockets, certificates, signals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from heliograph import _core, _startup
from heliograph._arrays import printable
from heliograph.serving.access import Access
from heliograph.serving.bounds import bounded, files_for, narrow_at_first
from heliograph.serving.certificates import Certificates
from heliograph.serving.connections import Connections, listening
from heliograph.serving.core import Limits, Service
from heliograph.serving.figures import Figures, Spans
from heliograph.serving.front import Front
from heliograph.serving.garbage import Collector
from heliograph.serving.log import Log, catch_libraries, error_fields, open_standard_streams
from heliograph.serving.numeric import whole
from heliograph.serving.protocol import protocol_of
from heliograph.serving.rpc import Rpc
from heliograph.serving.store import Bounds, Store
from heliograph.serving.tables import served_of
from heliograph.serving.web import Web

_EVERY = 1.0  # seconds between two lines of failed handshakes
_LAST_LINES = 1.0  # seconds that the log has at the end
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Options:
    """What `heliograph serve` was told."""

    models: list[Path]
    store: Path
    host: str = "127.0.0.1"
    port: int = 8443
    grpc: int | None = None  #: the port of gRPC; None: no gRPC
    tls: Path | None = None  #: a certificate, and those that lead to its authority
    tls_key: Path | None = None  #: its private key; None: in the same file
    clients: Path | None = None  #: authorities of clients' certificates
    client_crl: Path | None = None  #: their revocation lists
    tokens: Path | None = None
    metrics: str | None = None  #: host:port, or :port
    insecure: bool = False  #: without TLS, or without clients' names, beyond this machine
    bounds: Bounds = field(default_factory=Bounds)
    devices: list[str] = field(default_factory=list)
    spans: bool = False
    max_connections: int = 2000  #: of all clients, HTTP and gRPC together
    max_connections_per_client: int = 256  #: of one address; requests of one named client that are in progress
    max_streams_per_client: int = 256  #: calls of gRPC in progress, of one address
    grace: float = 60.0  #: seconds that accepted jobs have at the end
    keep_alive: float = 75.0  #: seconds that a connection stays open between two requests
    limits: Limits = field(default_factory=Limits)


def require_safe(options: Options) -> None:
    """Raises SecurityError for what would be open to others than this machine, and was not said to be meant."""
    if options.insecure or options.host in _LOOPBACK:
        return
    if options.tls is None:
        raise _core.SecurityError(
            "without --tls tokens and encrypted data would cross the network for all to read and change: give --tls, or --insecure behind a proxy that has it"
        )
    if options.tokens is None and options.clients is None:
        raise _core.SecurityError("without --tokens and --clients anybody may use the service: give one, or --insecure")


def named_models(paths: list[Path]) -> dict[str, Path]:
    """By the names that they have. Raises ParameterError for two of one name, and as `served_of`."""
    found: dict[str, Path] = {}
    for path in paths:
        name = served_of(path).name
        if name in found:
            raise _core.ParameterError(
                f"two models are called {name}: {printable(str(found[name]))} and {printable(str(path))}"
            )
        found[name] = path.resolve()
    return found


def certificates_of(options: Options) -> Certificates | None:
    """What TLS is done by; None without. Raises ParameterError for options that need others, and as `Certificates`."""
    if options.tls is None:
        if options.clients is not None:
            raise _core.ParameterError("clients' certificates need TLS: give --tls")
        if options.tls_key is not None:
            raise _core.ParameterError("--tls-key is the private key of a certificate, which is missing: give --tls, too")
    if options.client_crl is not None and options.clients is None:
        raise _core.ParameterError(
            "--client-crl revokes certificates of clients, whose authorities are missing: give --clients, too"
        )
    if options.tls is None:
        return None
    return Certificates(options.tls, options.tls_key, options.clients, options.client_crl, required=options.tokens is None)


def notify(state: str) -> None:
    """Tells systemd, where it started this process and wants to know."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)


class Process:
    """A service with its faces. Raises what its parts raise, before it listens."""

    def __init__(self, options: Options, log: Log | None = None) -> None:
        require_safe(options)
        self.options, self.log, self.figures = options, log or Log(), Figures()
        self.certificates = certificates_of(options)
        if self.certificates is not None:
            self.certificates.on_failure = self._handshake_failed
        with contextlib.ExitStack() as opened:
            self.access = Access(options.tokens, options.clients is not None)
            store = Store(options.store, options.bounds)
            opened.callback(store.close)
            devices: list[str | None] = [*options.devices] or [None]
            self.service = Service(
                named_models(options.models),
                store,
                self.access,
                options.limits,
                devices=devices,
                log=self.log,
                figures=self.figures,
                spans=Spans(options.spans),
                alive=functools.partial(notify, "WATCHDOG=1"),
            )
            self.connections = Connections(files_for(options.max_connections), options.max_connections_per_client)
            self.figures.most_connections.set(self.connections.most)
            self.figures.connections.set_function(lambda: len(self.connections))
            self.socket = listening(options.host, options.port, self.connections)
            opened.callback(self.socket.close)
            self.ports: dict[str, int] = {"http": self.socket.getsockname()[1]}
            self.front: Front | None = None
            if options.grpc is not None:
                if options.grpc and options.grpc == options.port:
                    raise _core.ParameterError(f"--port and --grpc are one, {options.port}: each has a port of its own")
                self.front = Front(listening(options.host, options.grpc, self.connections), self._context)
                opened.callback(self.front.close)
                self.ports["grpc"] = self.front.listener.getsockname()[1]
            self._opened = opened.pop_all()
        self.web: uvicorn.Server
        self.listens = self._hung_up = False  #: whether clients can ask it
        self._rereading: asyncio.Task[None] | None = None
        self._handshakes, self._last_handshake = 0, -_EVERY

    def close(self) -> None:
        """Lets others have the store and the ports."""
        self._opened.close()

    @property
    def _context(self) -> ssl.SSLContext | None:
        return None if self.certificates is None else self.certificates.context

    def _uvicorn(self) -> uvicorn.Server:
        config = uvicorn.Config(
            Web(self.service, self.options.max_connections_per_client).application(),
            http=protocol_of(bounded(HttpToolsProtocol, self.connections)),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=self.options.keep_alive,  # type: ignore[arg-type, unused-ignore]  # a fraction will do
            timeout_graceful_shutdown=5,
        )
        config.load()
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment, unused-ignore]  # ours are below
        return server

    async def run(self) -> int:
        """Until a SIGTERM or SIGINT: then jobs that were accepted end, and new ones are refused. Its exit status."""
        catch_libraries(self.log)
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        metrics = self._metrics()
        stopped = asyncio.create_task(stop.wait())
        starting = asyncio.create_task(self.service.start())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # it may take minutes to prepare tables
            starting.cancel()
            await asyncio.wait({starting})
            self.log("stopped")
            return 0
        await starting
        self.web = web = self._uvicorn()
        served = asyncio.create_task(web.serve(sockets=[]))  # it listens by no socket of its own
        while not web.started and not served.done():
            await asyncio.sleep(0.002)
        made: Any = web.config.http_protocol_class
        protocol = functools.partial(made, config=web.config, server_state=web.server_state, app_state=web.lifespan.state)
        self.socket.start(protocol, self._context, self._busy)
        rpc = await self._grpc()
        if self.certificates is not None and (problem := self.certificates.problem()) is not None:
            self.log("fault", what="tls", error=problem)
        collecting = asyncio.create_task(Collector(self._busy).run())
        self.log("listening", host=self.options.host, tls=self.certificates is not None, **self.ports)
        notify("READY=1")
        self.listens = True
        if self._hung_up or _startup.pending:  # one that came meanwhile
            self._hang_up()
        failed = asyncio.create_task(self.service.failure.wait())
        await asyncio.wait({served, stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        collecting.cancel()
        broken = self.service.failure.is_set()
        notify("STOPPING=1")
        await self.service.stop(0.0 if broken else self.options.grace)
        if rpc is not None:
            await rpc.stop(1.0)
        self.socket.close()
        if self.front is not None:
            self.front.close()
        web.should_exit = True
        await served
        if metrics is not None:
            metrics.shutdown()
        return 1 if broken else 0

    def _busy(self) -> bool:
        return bool(self.service.unfinished())

    def _metrics(self) -> Any:
        if self.options.metrics is None:
            return None
        host, _, port = self.options.metrics.rpartition(":")
        number = whole(port, f"--metrics is HOST:PORT, or :PORT: the port of {printable(self.options.metrics)}", 0, 65535)
        pages = {"/livez": self.service.live, "/readyz": self.service.ready}
        try:
            found = self.figures.serve(host or "127.0.0.1", number, pages)
        except OSError as error:
            raise OSError(error.errno, f"no metrics there: {error}", self.options.metrics) from None
        self.ports["metrics"] = found.server_port
        return found

    async def _grpc(self) -> Any:
        if self.front is None:
            return None
        self.front.prepare(self.service.folder)
        rpc = Rpc(self.service, self.front, self.options.max_streams_per_client)
        server = await rpc.start()
        self.front.start(self._busy)
        return server

    def _handshake_failed(self, reason: str, why: str, address: str | None) -> None:
        self.figures.handshakes.labels(reason).inc()
        now = asyncio.get_running_loop().time()
        if now - self._last_handshake >= _EVERY:  # a stranger can make thousands a second
            self._last_handshake = now
            self.log("tls_handshake_failed", address=address, error=why, total=self._handshakes + 1)
        self._handshakes += 1

    # SIGHUP

    def _hang_up(self) -> None:
        """SIGHUP: tokens, certificates and tables anew, one after the other; a file that cannot be read changes nothing."""
        self._hung_up = True
        if self.listens:
            _startup.pending = False
            if self._rereading is None or self._rereading.done():
                self._rereading = asyncio.create_task(self._reread())

    async def _reread(self) -> None:
        while self._hung_up:
            self._hung_up = False
            fine = all([self._read("tokens", self.access.read), self._read("tls", self._read_certificates)])
            fine = await self.service.reread() and fine
            self.figures.reloaded.set(fine)
            if fine:
                self.figures.reload_time.set_to_current_time()

    def _read(self, what: str, read: Callable[[], bool]) -> bool:
        """Whether files of one kind were taken."""
        try:
            if read():
                self.log(f"{what} read")
            return True
        except (_core.HeliographError, OSError, ValueError) as error:
            self.log("fault", what=what, **error_fields(error), text=str(error))
            return False

    def _read_certificates(self) -> bool:
        if self.certificates is None:
            return False
        changed = self.certificates.read()
        if changed and self.options.clients is not None:  # who is connected shows a certificate again
            for connection in list(self.web.server_state.connections):
                connection.shutdown()
            if self.front is not None:
                self.front.retire()
        if (problem := self.certificates.problem()) is not None:
            self.log("fault", what="tls", error=problem)
        return changed


def run(options: Options) -> int:
    """`heliograph serve`: its exit status."""
    before = os.umask(0o077)  # what it writes is for its own user, whoever started it
    narrow_at_first()
    open_standard_streams()
    log = Log(sys.stderr)
    try:
        with _startup.held(), asyncio.Runner(loop_factory=functools.partial(asyncio.new_event_loop)) as runner:
            process = Process(options, log)
            try:
                return runner.run(process.run())
            except Exception as error:
                if not process.listens:
                    raise
                log("fault", what="service", **error_fields(error))  # not printed: nobody may read that any more
                return 1
            finally:
                process.close()
    finally:
        log.close(_LAST_LINES)
        os.umask(before)
