"""The listener of gRPC: bounds connections, ends TLS, and passes HTTP/2 to gRPC's own server over a Unix socket.

gRPC's library asks all clients for a certificate or none, and does not bound connections. This listener asks as HTTP's does. It
connects to gRPC's server from a Unix socket with a name of its own, by which a call finds its client's address and certificate.
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

from heliograph.serving.bounds import widen
from heliograph.serving.connections import Accepted, Connections, Listener
from heliograph.serving.protocol import common_name

_HIGH = 1 << 20  # bytes that wait for one side before the other side is not read
_WORTH = 256 << 10  # bytes from a client after which TLS reads more at a time


class Link:
    """A client's connection, as a call finds it."""

    def __init__(self, connections: Connections, accepted: Accepted | None, certificate: str | None) -> None:
        self.certificate, self.address = certificate, "" if accepted is None else accepted.address
        self.peer = "" if accepted is None else accepted.peer
        self.retired = False  #: it takes no more calls: its client is to shake hands again
        self._connections, self._accepted, self._calls = connections, accepted, 0

    def begin(self) -> None:
        """A call is in progress."""
        self._calls += 1
        self._connections.set_busy(self._accepted, True)

    def end(self) -> None:
        """It ended."""
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


class Front:
    """Passes connections on to the server at `path`, a socket in a folder of the service's user alone."""

    def __init__(self, listener: Listener, context: ssl.SSLContext | None) -> None:
        self.listener, self.context = listener, context
        self.links: dict[str, Link] = {}
        self.path, self._folder = "", -1
        self._prefix, self._number = f"heliograph-{os.getpid()}-{secrets.token_hex(8)}", 0

    def prepare(self, folder: Path) -> None:
        """Says where the server listens. Raises OSError."""
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.path = f"/proc/self/fd/{self._folder}/grpc"  # a socket's path has 107 bytes at most

    def start(self, busy: Callable[[], bool]) -> None:
        """Listens; as `Listener.start`."""
        self.listener.start(lambda: _Outer(self), self.context, busy)

    def close(self) -> None:
        """Takes no more connections."""
        self.listener.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def retire(self) -> None:
        """Clients that have shown a certificate show one again."""
        for link in list(self.links.values()):
            if link.certificate is not None:
                link.retire()

    def link(self, peer: str) -> Link | None:
        """The client's connection of a call, by what gRPC says of its peer."""
        return self.links.get(peer)

    async def connect(self, outer: _Outer) -> None:
        """The other half of a connection."""
        self._number += 1
        name = f"{self._prefix}-{self._number}"
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            inner.bind(f"\0{name}")
            outer.peer = f"unix-abstract:{name}"
            if outer.transport is None:
                raise ConnectionResetError
            accepted = self.listener.connections.made(outer.transport)
            self.links[outer.peer] = Link(self.listener.connections, accepted, common_name(outer.transport))
            loop = asyncio.get_running_loop()
            await loop.sock_connect(inner, self.path)
            await loop.create_connection(lambda: _Inner(outer), sock=inner)
        except OSError:
            inner.close()
            self.links.pop(outer.peer, None)
            if outer.transport is not None:
                outer.transport.abort()


class _Half(asyncio.Protocol):
    """One side of a connection that is passed on; `other` is the other side's transport."""

    transport: Any = None
    other: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(_HIGH)

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
        self.transport = self.other = None  # else a cycle holds TLS's buffers until a full garbage collection


class _Outer(_Half):
    """The client's side."""

    peer = ""
    _count = 0
    _connecting: asyncio.Task[None] | None = None

    def __init__(self, front: Front) -> None:
        self.front = front

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self.front.connect(self))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._count < _WORTH <= self._count + len(data):
            widen(self.transport)
        self._count += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.front.links.pop(self.peer, None)


class _Inner(_Half):
    """The side of gRPC's server."""

    def __init__(self, outer: _Outer) -> None:
        self._outer = outer

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.other, self._outer.other = self._outer.transport, transport
        if self.other is None or self.other.is_closing():
            transport.close()
        else:
            with contextlib.suppress(RuntimeError):
                self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._outer.front.links.pop(self._outer.peer, None)
