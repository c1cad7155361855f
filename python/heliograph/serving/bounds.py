"""What one connection may take: bytes and seconds of a request's head, and of what follows an answer."""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextlib
import resource
from typing import Any

from heliograph.serving.connections import Accepted, Connections

_FILES = 4  # of a connection
_OTHER_FILES = 128  # models, the store's, requests, engines
_HEAD_SECONDS = 15.0  # that the head of a request may take
_LONGEST_HEAD = 1 << 18  # bytes
_UNREAD_SECONDS = 30.0  # that the rest of an answered request may take
_NARROW, _WIDE = 16 << 10, 256 << 10  # bytes that TLS reads at a time
_LONG = 6  # digits of a body's length
_LONGEST_UNREAD = 64 << 20  # bytes of it


def narrow_at_first() -> None:
    """Of this process: a TLS connection takes memory for what it sends once it sends much. asyncio takes 256 KiB as it accepts one."""
    asyncio.sslproto.SSLProtocol.max_size = _NARROW


def widen(transport: Any) -> None:
    """Of a connection that sends much: it reads more at a time."""
    tls = getattr(transport, "_ssl_protocol", None)
    if tls is not None:
        tls.max_size = _WIDE


def files_for(connections: int) -> int:
    """How many connections there are files for, so many at most: the process's own limit is raised to what it may be.

    A connection has up to three: its own, and two of those that pass gRPC on; half as many connections more are told to come again.
    """
    wanted = _FILES * connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, max((soft - _OTHER_FILES) // _FILES, 16))


def bounded(base: Any, connections: Connections) -> Any:
    """uvicorn's protocol with bounds for what it would take without end: heads of requests, and bodies whose answer is sent. It says
    which of the connections are idle.
    """

    class Bounded(base):  # type: ignore[misc, unused-ignore]
        cycle: Any
        loop: asyncio.AbstractEventLoop
        transport: asyncio.Transport
        headers: list[tuple[bytes, bytes]]
        limit_concurrency: int | None
        _accepted: Accepted | None = None
        _timer: asyncio.TimerHandle | None = None
        _in_body = _head_came = False
        _head = _unread = 0

        def _within(self, seconds: float | None) -> None:
            """The connection ends after so many seconds, unless this is called again."""
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._within(_HEAD_SECONDS)
            self._accepted = connections.made(transport)
            # uvicorn answers 503 to as many connections as this and more: to this one always, or never.
            self.limit_concurrency = 0 if self._accepted is not None and self._accepted.is_beyond else None

        def connection_lost(self, exc: Exception | None) -> None:
            self._within(None)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if not self._in_body and self._timer is None:
                self._within(_HEAD_SECONDS)
            before, self._head_came = self._in_body, False
            super().data_received(data)
            if not before and not self._in_body and not self._head_came:
                self._head += len(data)
                if self._head > _LONGEST_HEAD:
                    self.transport.abort()

        def on_headers_complete(self) -> None:
            self._within(None)
            connections.set_busy(self._accepted, True)
            self._in_body, self._head_came, self._head, self._unread = True, True, 0, 0
            super().on_headers_complete()
            if any(name == b"content-length" and len(text) >= _LONG for name, text in self.headers):
                widen(self.transport)

        def on_body(self, body: bytes) -> None:
            if self.cycle is not None and self.cycle.response_complete:
                self._unread += len(body)
                if self._unread > _LONGEST_UNREAD:
                    self.transport.abort()
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._in_body = False
            self._within(None)
            if self.cycle is not None and self.cycle.response_complete:
                connections.set_busy(self._accepted, False)
            super().on_message_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._in_body and not self.transport.is_closing():
                self._within(_UNREAD_SECONDS)
            elif self.cycle.response_complete:  # no other request has begun
                connections.set_busy(self._accepted, False)

    return Bounded
