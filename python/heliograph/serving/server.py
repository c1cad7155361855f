"""A service as a process: sockets, certificates, signals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import signal
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from heliograph import _core
from heliograph._arrays import printable
from heliograph.serving.access import Access
from heliograph.serving.bounds import Handshake, bounded, files_for, narrow_at_first
from heliograph.serving.connections import Connections, listening
from heliograph.serving.core import Limits, Service
from heliograph.serving.figures import Figures, Log, Spans, catch_libraries
from heliograph.serving.front import Front
from heliograph.serving.numeric import whole
from heliograph.serving.protocol import protocol_of
from heliograph.serving.rpc import Rpc
from heliograph.serving.store import Bounds, Store
from heliograph.serving.tables import served_of
from heliograph.serving.web import Web
from heliograph.serving.wire import pem, reason

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


def tls_context(options: Options) -> ssl.SSLContext | None:
    """As the handshake is to be. Raises OSError (ssl.SSLError) for files that are none."""
    if options.tls is None:
        if options.clients is not None:
            raise _core.ParameterError("clients' certificates need TLS: give --tls")
        if options.tls_key is not None:
            raise _core.ParameterError("--tls-key is the private key of a certificate, which is missing: give --tls, too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslobject_class = Handshake
    with pem("certificate with its private key", options.tls, options.tls_key):
        context.load_cert_chain(options.tls, options.tls_key)
    if options.clients is not None:
        with pem("certificates of authorities", options.clients):
            context.load_verify_locations(options.clients)
        context.verify_mode = ssl.CERT_OPTIONAL if options.tokens else ssl.CERT_REQUIRED
    return context


def problem_of(context: ssl.SSLContext, chain: Path) -> str | None:
    """Why every client would refuse this certificate at this time, or None: a handshake in memory, in which it is trusted itself."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusting.load_verify_locations(chain)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = trusting.wrap_bio(down, up), context.wrap_bio(up, down, server_side=True)
    try:
        for side in (client, server, client):  # its hello, the certificate, what the client says to it
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLError as error:
        return getattr(error, "verify_message", None) or reason(error)
    return None


class Process:
    """A service with its faces. Raises what its parts raise, before it listens."""

    def __init__(self, options: Options, log: Log | None = None) -> None:
        require_safe(options)
        self.options, self.log, self.figures = options, log or Log(), Figures()
        self.context = tls_context(options)
        self.access = Access(options.tokens, options.clients is not None)
        store = Store(options.store, options.bounds)
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
        )
        self.connections = Connections(files_for(options.max_connections), options.max_connections_per_client)
        self.socket = listening(options.host, options.port, self.connections)
        self.ports: dict[str, int] = {"http": self.socket.getsockname()[1]}
        self.front: Front | None = None
        if options.grpc is not None:
            if options.grpc and options.grpc == options.port:
                raise _core.ParameterError(f"--port and --grpc are one, {options.port}: each has a port of its own")
            secure = tls_context(options)
            if secure is not None:
                secure.set_alpn_protocols(["h2"])
            self.front = Front(listening(options.host, options.grpc, self.connections), secure)
            self.ports["grpc"] = self.front.listener.getsockname()[1]

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
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
        )
        config.load()
        config.ssl = self.context
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment, unused-ignore]  # ours are below
        return server

    async def run(self) -> None:
        """Until a SIGTERM or SIGINT: then jobs that were accepted end, and new ones are refused."""
        catch_libraries(self.log)
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reread)
        metrics = self._metrics()
        await self.service.start()
        web = self._uvicorn()
        served = asyncio.create_task(web.serve(sockets=[self.socket]))
        while not web.started and not served.done():  # what is said to listen does
            await asyncio.sleep(0.002)
        rpc = await self._grpc()
        if self.context is not None and self.options.tls is not None and not self.options.tls.is_fifo():
            problem = problem_of(self.context, self.options.tls)
            if problem is not None:
                self.log("fault", what="tls", error=problem)
        gc.collect()
        gc.freeze()  # what is there to stay: else each full collection, of connections that ended, looks at all of it again
        self.log("listening", host=self.options.host, tls=self.context is not None, **self.ports)
        waiting = asyncio.create_task(stop.wait())
        await asyncio.wait({served, waiting}, return_when=asyncio.FIRST_COMPLETED)
        gc.unfreeze()
        if rpc is not None:
            rpc[0].stopping()
        await self.service.stop(self.options.grace)
        if rpc is not None:
            await rpc[1].stop(1.0)
        if self.front is not None:
            self.front.close()
        web.should_exit = True
        await served
        if metrics is not None:
            metrics[0].shutdown()

    def _metrics(self) -> Any:
        if self.options.metrics is None:
            return None
        host, _, port = self.options.metrics.rpartition(":")
        number = whole(port, f"--metrics is HOST:PORT, or :PORT: the port of {printable(self.options.metrics)}", 0, 65535)
        try:
            found = self.figures.serve(host or "127.0.0.1", number)
        except OSError as error:
            raise OSError(error.errno, f"no metrics there: {error}", self.options.metrics) from None
        self.ports["metrics"] = found[0].server_port
        return found

    async def _grpc(self) -> tuple[Rpc, Any] | None:
        if self.front is None:
            return None
        self.front.prepare(self.service.folder)
        rpc = Rpc(self.service, self.front, self.options.max_streams_per_client)
        server = await rpc.start()
        await self.front.start()
        return rpc, server

    def _reread(self) -> None:
        """SIGHUP: tokens and tables anew; a file that cannot be read changes nothing."""
        self._rereading = asyncio.ensure_future(self.service.reread())
        try:
            self.access.read()
            self.log("tokens read")
        except (_core.HeliographError, OSError) as error:
            self.log("fault", what="tokens", error=type(error).__name__)


def run(options: Options) -> None:
    """`heliograph serve`."""
    before = os.umask(0o077)  # what it writes is for its own user, whoever started it
    narrow_at_first()
    try:
        process = Process(options, Log(sys.stderr))
        with asyncio.Runner(loop_factory=functools.partial(asyncio.new_event_loop)) as runner:
            runner.run(process.run())
    finally:
        os.umask(before)
