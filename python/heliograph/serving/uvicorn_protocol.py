"""uvicorn's HTTP/1.1 server with the service's limits. All uses of private parts of uvicorn and asyncio are in this file.

uvicorn does not limit request heads in bytes and seconds, unread bodies, and slow readers; asyncio does not limit TLS
buffers. `require_accepted_version` refuses versions of uvicorn that the tests have not run with.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextlib
import functools
import re
import socket
from typing import Any

import httptools
import uvicorn
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from heliograph import _core
from heliograph.serving.connections import Accepted, Connections
from heliograph.serving.spool import Place, Placed, Write

#: Accepted versions of uvicorn: the first accepted version, and the first refused version after it. The tests ran with the
#: lowest and the highest accepted version.
ACCEPTED_VERSIONS = ((0, 30), (0, 55))
_HEAD_SECONDS = 15.0  # seconds to receive a request's head
_LONGEST_HEAD = 1 << 18  # bytes
_UNREAD_SECONDS = 30.0  # seconds to receive the rest of a request that was already answered
_LONGEST_UNREAD = 64 << 20  # bytes of that rest that are received at most
_ANSWER_SECONDS, _SLOWEST = 30.0, 16 << 10  # seconds for a client to read an answer, plus one second for this many bytes
_NARROW, _WIDE = 16 << 10, 256 << 10  # bytes of TLS's read buffer: at first, and for large transfers
_LONG = 6  # digits of a Content-Length from which the read buffer is enlarged
_ROOM = 256 << 10  # bytes of one read from a connection
_WAKE_BYTES = 128 << 10  # bytes of a body that wake the process, if at least as many are outstanding
_TLS_BUFFER_BYTES = 64 << 10  # bytes that TLS may have buffered already; the process must not wait for these bytes
#: Keys of a request's ASGI scope.
CERTIFICATE, POUR, READ = "heliograph.certificate", "heliograph.pour", "heliograph.read"


def require_accepted_version(version: str = uvicorn.__version__) -> None:
    """Raises HeliographError for a version of uvicorn whose private parts may differ."""
    first, above = ACCEPTED_VERSIONS
    found = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if not first <= found < above:
        allowed = f"from {first[0]}.{first[1]}, below {above[0]}.{above[1]}"
        raise _core.HeliographError(
            f"cannot serve: uvicorn must be a version {allowed}, got {version}; pip install 'heliograph[serve]'"
        )


def use_small_tls_buffers() -> None:
    """Makes TLS connections of this process start with a read buffer of 16 KiB instead of 256 KiB: 2,000 idle connections
    would use 500 MB.
    """
    asyncio.sslproto.SSLProtocol.max_size = _NARROW


def enlarge_tls_buffer(transport: Any) -> None:
    """Enlarges the read buffer of a TLS connection that transfers much data."""
    tls = getattr(transport, "_ssl_protocol", None)
    if tls is not None:
        tls.max_size = _WIDE


class _Transport:
    """A connection's transport. Writes between `hold` and `release` are buffered and then sent as one write. So a response's
    head and first body message are one TLS record and one packet if both are small.

    """

    def __init__(self, transport: Any) -> None:
        self._transport, self._pending = transport, list[bytes]()
        self._holds = False

    def hold(self) -> None:
        """Buffers the following writes."""
        self._holds = True

    def release(self) -> None:
        """Sends the buffered writes."""
        self._holds = False
        pending, self._pending = self._pending, []
        if pending:
            self._transport.writelines(pending)

    def write(self, data: bytes) -> None:
        """Implements `asyncio.WriteTransport`."""
        if self._holds:
            self._pending.append(data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Implements `asyncio.BaseTransport`."""
        self.release()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Closed:
    """Replaces the transport of a lost connection, so that the transport is freed. All methods do nothing."""

    def is_closing(self) -> bool:
        """Returns True: the connection is closing."""
        return True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns the given default."""
        return default

    def write(self, data: bytes) -> None:
        """Drops the data."""

    def close(self) -> None:
        """Does nothing: the connection is closed."""

    abort = hold = release = close


_CLOSED = _Closed()
_ROOM_OF_ALL = memoryview(bytearray(_ROOM))  # shared by all connections: data is consumed before the next read


def _sender(send: Any, transport: Any) -> Any:
    """Returns an ASGI `send` that sends a response's head with its first body message. `send` aborts the connection if the
    client reads the response too slowly.
    """

    async def limited(message: Any) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS + len(message.get("body", b"")) / _SLOWEST):
                if message["type"] == "http.response.start":
                    transport.hold()
                    await send(message)
                else:
                    await send(message)
                    transport.release()
        except TimeoutError:
            transport.abort()

    return limited


class Protocol(asyncio.BufferedProtocol, HttpToolsProtocol):  # type: ignore[misc, unused-ignore]
    """uvicorn's protocol. This protocol passes on the verified certificate's name, reads large bodies directly into their
    destination, past the parser, and limits request heads, unread bodies and slow readers. `limits` is informed which
    connections are idle.

    """

    limits: Connections
    app: Any
    cycle: Any
    flow: Any
    headers: list[tuple[bytes, bytes]]
    limit_concurrency: int | None
    loop: Any
    timeout_keep_alive_task: asyncio.TimerHandle | None
    transport: Any
    _accepted: Accepted | None = None
    _silent: asyncio.TimerHandle | None = None  # aborts a connection without a first request
    _timer: asyncio.TimerHandle | None = None
    _in_body = _head_came = False
    _head = _unread = 0
    _left = 0  # bytes outstanding of the body that `pour` reads
    _write: Write | None = None
    _place: Place | None = None
    _placed: Placed | None = None
    _is_placed = False  # whether the present read stores bytes in the memory of `_place`
    _poured: asyncio.Future[None] | None = None
    _least = 1  # SO_RCVLOWAT of the connection

    def connection_made(self, transport: Any) -> None:
        """Implements `asyncio.BaseProtocol`."""
        wrapped: Any = _Transport(transport)
        super().connection_made(wrapped)
        self._abort_after(_HEAD_SECONDS)
        self._silent = self.loop.call_later(_HEAD_SECONDS, transport.abort)
        self._accepted = self.limits.made(transport)
        # uvicorn answers 503 at this many connections: 0 refuses this connection, None refuses no connection.
        self.limit_concurrency = 0 if self._accepted is not None and self._accepted.is_beyond else None
        self.app = functools.partial(self._call, self.app, common_name(transport))

    async def _call(self, app: Any, certificate: str | None, scope: Any, receive: Any, send: Any) -> None:
        """Calls the application for one request."""
        if self._silent is not None:
            self._silent.cancel()
        cycle = receive.__self__  # `self.cycle` may belong to a pipelined request
        scope[CERTIFICATE], scope[POUR] = certificate, functools.partial(self.pour, cycle)
        try:
            await app(scope, receive, _sender(send, self.transport))
        finally:
            self.transport.release()
            scope.pop(POUR, None)  # breaks a reference cycle of scope and request cycle

    def connection_lost(self, exc: Exception | None) -> None:
        """Implements `asyncio.BaseProtocol`."""
        self._abort_after(None)
        super().connection_lost(exc)
        self._left = 0
        self._end(ClientDisconnect())
        for timer in (self._silent, self.timeout_keep_alive_task):  # uvicorn keeps its timer after a reset
            if timer is not None:
                timer.cancel()
        # Drops references that form cycles: they would keep the buffers of TLS until a full garbage collection.
        self.transport, self.app, self.flow, self.timeout_keep_alive_task, self._silent = _CLOSED, None, None, None, None
        self.pipeline.clear()
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle = None

    def shutdown(self) -> None:
        """Closes an idle connection at once: a client that does not read would not answer TLS's close_notify either."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()  # `abort` precedes the second close, because asyncio's TLS cannot abort after it
        super().shutdown()

    # Limits of time

    def _abort_after(self, seconds: float | None) -> None:
        """Aborts the connection after `seconds`, unless this function is called again before. None cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`."""
        if not self._in_body and self._timer is None:
            self._abort_after(_HEAD_SECONDS)
        was_in_body, self._head_came = self._in_body, False
        super().data_received(data)
        if not was_in_body and not self._in_body and not self._head_came:
            self._head += len(data)
            if self._head > _LONGEST_HEAD:
                self.transport.abort()

    def on_headers_complete(self) -> None:
        """Implements httptools' callback."""
        self._abort_after(None)
        self.limits.set_busy(self._accepted, True)
        self._in_body, self._head_came, self._head, self._unread = True, True, 0, 0
        super().on_headers_complete()
        if any(name == b"content-length" and len(text) >= _LONG for name, text in self.headers):
            enlarge_tls_buffer(self.transport)

    def on_body(self, body: bytes) -> None:
        """Implements httptools' callback."""
        if self.cycle is not None and self.cycle.response_complete:
            self._unread += len(body)
            if self._unread > _LONGEST_UNREAD:
                self.transport.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Implements httptools' callback."""
        self._in_body = False
        self._abort_after(None)
        if self.cycle is not None and self.cycle.response_complete:
            self.limits.set_busy(self._accepted, False)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Overrides uvicorn's method."""
        super().on_response_complete()
        if self._in_body and not self.transport.is_closing():
            self._abort_after(_UNREAD_SECONDS)
        elif self.cycle.response_complete:  # no other request has begun
            self.limits.set_busy(self._accepted, False)

    # Bodies that bypass the parser

    def get_buffer(self, sizehint: int) -> memoryview:
        """Implements `asyncio.BufferedProtocol`."""
        if not self._left:
            return _ROOM_OF_ALL
        place = memoryview(b"") if self._place is None else self._place()[: self._left]
        self._is_placed = bool(place)
        return place if place else _ROOM_OF_ALL[: self._left]

    def buffer_updated(self, nbytes: int) -> None:
        """Implements `asyncio.BufferedProtocol`."""
        if self._left:
            self._take(nbytes)
        else:
            self.data_received(bytes(_ROOM_OF_ALL[:nbytes]))

    async def pour(self, cycle: Any, nbytes: int, write: Write, place: Place | None, placed: Placed | None) -> None:
        """Reads a request's body of `nbytes` bytes, like `Body.pour`. `cycle` is uvicorn's request cycle. An exception of a
        callback is raised by this function, and the rest of the body is discarded. Raises ClientDisconnect.

        """
        if cycle.disconnected or self.transport.is_closing():
            raise ClientDisconnect
        if cycle.waiting_for_100_continue:
            cycle.waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        first, cycle.body = bytes(cycle.body), bytearray()  # the bytes that arrived with the head, through the parser
        if first:
            write(first)
        if not cycle.more_body or nbytes <= len(first):
            return
        self._write, self._place, self._placed = write, place, placed
        self._left, self._poured = nbytes - len(first), self.loop.create_future()
        self._wake_for(self._left - _TLS_BUFFER_BYTES)
        self.flow.resume_reading()
        try:
            await self._poured
        finally:
            self._write = self._place = None

    def _wake_for(self, nbytes: int) -> None:
        """Sets the least number of bytes that wakes the process, within limits: a wake-up costs as much as some thousand
        bytes.
        """
        least = max(min(nbytes, _WAKE_BYTES), 1)
        connection = self.transport.get_extra_info("socket")
        if least != self._least and connection is not None:
            self._least = least
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)

    def _take(self, count: int) -> None:
        """Passes `count` bytes of the body to the receiver."""
        self._left -= count
        error = None
        if self._write is not None:
            try:
                if self._is_placed and self._placed is not None:
                    self._placed(count)
                else:
                    self._write(_ROOM_OF_ALL[:count])
            except Exception as raised:
                error, self._write, self._place = raised, None, None
        self._wake_for(self._left - _TLS_BUFFER_BYTES)
        if not self._left:  # the parser has not seen these bytes: the next request gets a new parser
            self.parser = httptools.HttpRequestParser(self)
            self.on_message_complete()
        if error is not None or not self._left:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if self._poured is None or self._poured.done():
            return
        if error is None:
            self._poured.set_result(None)
        else:
            self._poured.set_exception(error)


class HttpServer:
    """uvicorn's server for connections that the service accepts itself. Idle connections end after `keep_alive` seconds."""

    def __init__(self, app: Any, connections: Connections, keep_alive: float) -> None:
        config = uvicorn.Config(
            app,
            http=type("Protocol", (Protocol,), {"limits": connections}),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=keep_alive,  # type: ignore[arg-type, unused-ignore]  # a float works
            timeout_graceful_shutdown=5,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment, unused-ignore]

    async def start(self) -> asyncio.Task[None]:
        """Starts the server. Returns the task that ends with the server."""
        task = asyncio.create_task(self._server.serve(sockets=[]))  # uvicorn gets no socket: `Listener` accepts connections
        while not self._server.started and not task.done():
            await asyncio.sleep(0.002)
        return task

    def protocol(self) -> asyncio.BaseProtocol:
        """Returns the protocol of a new connection."""
        config, server = self._server.config, self._server
        made: Any = config.http_protocol_class
        found: asyncio.BaseProtocol = made(config=config, server_state=server.server_state, app_state=server.lifespan.state)
        return found

    def close_connections(self) -> None:
        """Closes each connection once its present request is answered."""
        for connection in list(self._server.server_state.connections):
            connection.shutdown()

    def stop(self) -> None:
        """Closes all connections; then the task of `start` ends."""
        self._server.should_exit = True


def common_name(transport: Any) -> str | None:
    """Returns the common name of the client's certificate; None without one."""
    connection = transport.get_extra_info("ssl_object")
    found = connection.getpeercert() if connection is not None else None
    names = [value for part in (found or {}).get("subject", ()) for name, value in part if name == "commonName"]
    return names[0] if len(names) == 1 else None
