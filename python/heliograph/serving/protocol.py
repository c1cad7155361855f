"""HTTP/1.1 as uvicorn speaks it, and what it has not: certificates' names, an end to silence, bodies that go where they are to lie,
and heads that leave with what follows them.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable
from typing import Any

import httptools
from starlette.requests import ClientDisconnect

_HEAD_SECONDS = 15.0  # in which a new connection must ask something
_UNREAD_SECONDS, _SLOWEST = 30.0, 16 << 10  # in which a client must have read an answer, and bytes a second besides
_ROOM = 256 << 10  # bytes that are read from a connection at a time
_WORTH = 128 << 10  # bytes of a body for which it is worth to wake up, where so many are to come
_HELD = 64 << 10  # bytes of a body that TLS may have already, and not have given out: these must not be waited for
#: Where a request's scope has them.
CERTIFICATE, POUR, READ = "heliograph.certificate", "heliograph.pour", "heliograph.read"


class _Together:
    """A transport whose writes leave at once, as one, when they are let go."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._held = transport, list[bytes]()

    def write(self, data: bytes) -> None:
        """Held."""
        self._held.append(data)

    def let_go(self) -> None:
        """All that is held."""
        held, self._held = self._held, []
        if held:
            self._transport.writelines(held)

    def close(self) -> None:
        """After what is held."""
        self.let_go()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Closed:
    """Replaces the transport of a lost connection, so that the transport is freed. All calls do nothing."""

    def is_closing(self) -> bool:
        """Returns True."""
        return True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns the default."""
        return default

    def write(self, data: bytes) -> None:
        """Drops the data."""

    def close(self) -> None:
        """Does nothing: the connection is closed."""

    abort = close


_CLOSED = _Closed()


def _joined(send: Any) -> Any:
    """An application's `send` whose heads wait for what comes after them: one record of TLS, and one packet, where both are small."""
    cycle, head = send.__self__, None

    async def joined(message: Any) -> None:
        nonlocal head
        if message["type"] == "http.response.start":
            head = message
            return
        if head is None:
            await send(message)
            return
        first, head = head, None
        transport = cycle.transport
        cycle.transport = together = _Together(transport)
        try:
            await send(first)
            await send(message)
        finally:
            cycle.transport = transport
            together.let_go()

    async def read(message: Any) -> None:
        """Ends the connection of a client that reads too slowly what is sent to it."""
        try:
            async with asyncio.timeout(_UNREAD_SECONDS + len(message.get("body", b"")) / _SLOWEST):
                await joined(message)
        except TimeoutError:
            cycle.transport.abort()

    return read


def protocol_of(base: Any) -> Any:
    """uvicorn's protocol `base`, which says besides whose certificate the handshake has checked, lets nobody sit without a word, and
    reads a body past its parser, from the connection to where it is to go.
    """
    room = memoryview(bytearray(_ROOM))  # one for all: what came is taken before anybody else reads

    class Protocol(asyncio.BufferedProtocol, base):  # type: ignore[misc, unused-ignore]
        app: Any
        loop: Any
        transport: Any
        flow: Any
        cycle: Any
        timeout_keep_alive_task: asyncio.TimerHandle | None
        _left = 0  # bytes of the body that is being poured
        _write: Callable[[memoryview | bytes], None] | None = None
        _place: Callable[[], memoryview] | None = None
        _placed: Callable[[int], None] | None = None
        _lies = False  # whether what is being read goes where `_place` says
        _poured: asyncio.Future[None] | None = None
        _least = 1  # bytes for which the system wakes this process
        _silent: asyncio.TimerHandle

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            name, inner = common_name(transport), self.app
            self._silent = self.loop.call_later(_HEAD_SECONDS, transport.abort)

            async def outer(scope: Any, receive: Any, send: Any) -> None:
                self._silent.cancel()
                scope[CERTIFICATE], scope[POUR] = name, functools.partial(self.pour, receive.__self__)
                try:
                    await inner(scope, receive, _joined(send))
                finally:
                    scope.pop(POUR, None)  # it refers to the cycle, whose scope this is

            self.app = outer

        # Reading

        def get_buffer(self, sizehint: int) -> memoryview:
            if not self._left:
                return room
            place = memoryview(b"") if self._place is None else self._place()[: self._left]
            self._lies = bool(place)
            return place if place else room[: self._left]

        def buffer_updated(self, nbytes: int) -> None:
            if self._left:
                self._flow(nbytes)
            else:
                self.data_received(bytes(room[:nbytes]))

        async def pour(
            self,
            cycle: Any,
            nbytes: int,
            write: Callable[[memoryview | bytes], None],
            place: Callable[[], memoryview] | None,
            placed: Callable[[int], None] | None,
        ) -> None:
            """A request's body of `nbytes`, as `Body.pour` has it; `cycle` is uvicorn's of that request. What a callback raises comes
            out, and the rest is let go. Raises ClientDisconnect.
            """
            if cycle.disconnected or self.transport.is_closing():
                raise ClientDisconnect
            if cycle.waiting_for_100_continue:
                cycle.waiting_for_100_continue = False
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            first, cycle.body = bytes(cycle.body), bytearray()  # what came with the head, by the parser
            if first:
                write(first)
            if not cycle.more_body or nbytes <= len(first):
                return
            self._write, self._place, self._placed = write, place, placed
            self._left, self._poured = nbytes - len(first), self.loop.create_future()
            self._wake_for(self._left - _HELD)
            self.flow.resume_reading()
            try:
                await self._poured
            finally:
                self._write = self._place = None

        def _wake_for(self, nbytes: int) -> None:
            """So many bytes at least, within reason: each time costs as much as some thousand of them."""
            least = max(min(nbytes, _WORTH), 1)
            connection = self.transport.get_extra_info("socket")
            if least != self._least and connection is not None:
                self._least = least
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)

        def _flow(self, count: int) -> None:
            self._left -= count
            error = None
            if self._write is not None:
                try:
                    if self._lies and self._placed is not None:
                        self._placed(count)
                    else:
                        self._write(room[:count])
                except Exception as raised:
                    error, self._write, self._place = raised, None, None
            self._wake_for(self._left - _HELD)
            if not self._left:  # the parser was told of none of these bytes: the next request has a new one
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

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._left = 0
            self._end(ClientDisconnect())
            self._silent.cancel()
            if self.timeout_keep_alive_task is not None:  # uvicorn keeps it after a reset, and the connection with it
                self.timeout_keep_alive_task.cancel()
            # Drops references that form cycles: they would keep the buffers of TLS until a full garbage collection.
            self.transport, self.app, self.flow, self.timeout_keep_alive_task = _CLOSED, None, None, None
            self.pipeline.clear()
            if self.cycle is not None and self.cycle.response_complete:
                self.cycle = None

        def shutdown(self) -> None:
            """Idle connections end at once: a client that does not read would not answer TLS's farewell either."""
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()  # before it is closed a second time: asyncio's TLS cannot abort after that
            super().shutdown()

    return Protocol


def common_name(transport: Any) -> str | None:
    """Of the client's certificate; None without one."""
    connection = transport.get_extra_info("ssl_object")
    found = connection.getpeercert() if connection is not None else None
    names = [value for part in (found or {}).get("subject", ()) for name, value in part if name == "commonName"]
    return names[0] if len(names) == 1 else None
