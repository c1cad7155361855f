"""The gRPC listener: limits connections, terminates TLS and forwards HTTP/2 to gRPC's own server over a Unix socket.

gRPC's library cannot make client certificates optional, and does not limit connections; this listener does both, as the HTTP
listener does. The listener connects to gRPC's server from a Unix socket with a unique name, by which a call finds its
client's address and certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heliograph.serving.connections import Accepted, Connections, Listener
from heliograph.serving.uvicorn_protocol import common_name, enlarge_tls_buffer

_MAX_BUFFERED = 1 << 20  # bytes buffered for one side before reading from the other side pauses
_LARGE = 256 << 10  # bytes from a client after which TLS's read buffer is enlarged


class ClientConnection:
    """A client's connection, as its gRPC calls use it."""

    def __init__(self, connections: Connections, accepted: Accepted | None, certificate: str | None) -> None:
        self.certificate, self.address = certificate, "" if accepted is None else accepted.address
        self.peer = "" if accepted is None else accepted.peer
        self.retired = False  #: whether the connection refuses further calls: its client must connect again
        self._connections, self._accepted, self._calls = connections, accepted, 0

    def begin(self) -> None:
        """Records the start of a call."""
        self._calls += 1
        self._connections.set_busy(self._accepted, True)

    def end(self) -> None:
        """Records the end of a call."""
        self._calls -= 1
        if not self._calls:
            self._connections.set_busy(self._accepted, False)
            if self.retired:
                self._close()

    def retire(self) -> None:
        """Closes the connection once its calls have ended."""
        self.retired = True
        if not self._calls:
            self._close()

    def _close(self) -> None:
        if self._accepted is not None and self._accepted.transport is not None:
            self._accepted.transport.close()


class GrpcProxy:
    """Forwards connections to the server at `path`, a socket in a folder that only the service's user can read."""

    def __init__(self, listener: Listener, context: ssl.SSLContext | None) -> None:
        self.listener, self.context = listener, context
        self.links: dict[str, ClientConnection] = {}
        self.path, self._folder = "", -1
        self._prefix, self._number = f"heliograph-{os.getpid()}-{secrets.token_hex(8)}", 0

    def prepare(self, folder: Path) -> None:
        """Chooses the path of the gRPC server's Unix socket. Raises OSError."""
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.path = f"/proc/self/fd/{self._folder}/grpc"  # a socket's path is limited to 107 bytes

    def start(self, busy: Callable[[], bool]) -> None:
        """Starts to listen, like `Listener.start`."""
        self.listener.start(lambda: _ClientEnd(self), self.context, busy)

    def close(self) -> None:
        """Stops accepting connections."""
        self.listener.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def retire(self) -> None:
        """Makes clients with certificates connect again, so that their certificates are verified again."""
        for link in list(self.links.values()):
            if link.certificate is not None:
                link.retire()

    def link(self, peer: str) -> ClientConnection | None:
        """Returns the client's connection of a call, by gRPC's name of its peer."""
        return self.links.get(peer)

    async def connect(self, client_end: _ClientEnd) -> None:
        """Connects a client's connection to gRPC's server."""
        self._number += 1
        name = f"{self._prefix}-{self._number}"
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            inner.bind(f"\0{name}")
            client_end.peer = f"unix-abstract:{name}"
            if client_end.transport is None:
                raise ConnectionResetError
            accepted = self.listener.connections.made(client_end.transport)
            self.links[client_end.peer] = ClientConnection(
                self.listener.connections, accepted, common_name(client_end.transport)
            )
            loop = asyncio.get_running_loop()
            await loop.sock_connect(inner, self.path)
            await loop.create_connection(lambda: _ServerEnd(client_end), sock=inner)
        except OSError:
            inner.close()
            self.links.pop(client_end.peer, None)
            if client_end.transport is not None:
                client_end.transport.abort()


class _End(asyncio.Protocol):
    """One side of a forwarded connection. `other` is the transport of the other side."""

    transport: Any = None
    other: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(_MAX_BUFFERED)

    def data_received(self, data: bytes) -> None:
        self.other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()
        self.transport = self.other = None  # breaks a reference cycle that would hold TLS's buffers until a full collection


class _ClientEnd(_End):
    """The client's side."""

    peer = ""
    _count = 0
    _connecting: asyncio.Task[None] | None = None

    def __init__(self, proxy: GrpcProxy) -> None:
        self.proxy = proxy

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self.proxy.connect(self))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._count < _LARGE <= self._count + len(data):
            enlarge_tls_buffer(self.transport)
        self._count += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.proxy.links.pop(self.peer, None)


class _ServerEnd(_End):
    """The side of gRPC's server."""

    def __init__(self, client_end: _ClientEnd) -> None:
        self._client_end = client_end

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.other, self._client_end.other = self._client_end.transport, transport
        if self.other is None or self.other.is_closing():
            transport.close()
        else:
            with contextlib.suppress(RuntimeError):
                self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._client_end.proxy.links.pop(self._client_end.peer, None)
