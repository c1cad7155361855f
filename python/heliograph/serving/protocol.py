"""HTTP/1.1 as uvicorn speaks it, and what it has not: certificates' names, an end to silence, and bodies that go where they are to lie."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httptools
from starlette.requests import ClientDisconnect

_HEAD_SECONDS = 15.0  # in which a new connection must ask something
_ROOM = 256 << 10  # bytes that are read from a connection at a time
#: Where a request's scope has them.
CERTIFICATE, POUR, READ = "heliograph.certificate", "heliograph.pour", "heliograph.read"


def protocol_of(base: Any) -> Any:
    """uvicorn's protocol `base`, which says besides whose certificate the handshake has checked, lets nobody sit without a word, and
    reads the rest of a body past its parser, from the connection to where it is to go.
    """
    room = memoryview(bytearray(_ROOM))  # one for all: what came is taken before anybody else reads

    class Protocol(asyncio.BufferedProtocol, base):  # type: ignore[misc, unused-ignore]
        app: Any
        loop: Any
        _left = 0  # bytes of the body that is being poured
        _write: Callable[[memoryview], None] | None = None
        _poured: asyncio.Future[None] | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            name, inner = _common_name(transport.get_extra_info("ssl_object")), self.app
            silent = self.loop.call_later(_HEAD_SECONDS, transport.abort)

            async def outer(scope: Any, receive: Any, send: Any) -> None:
                silent.cancel()
                scope[CERTIFICATE], scope[POUR] = name, self.pour
                await inner(scope, receive, send)

            self.app = outer

        # Reading

        def get_buffer(self, sizehint: int) -> memoryview:
            return room[: self._left] if self._left else room

        def buffer_updated(self, nbytes: int) -> None:
            if self._left:
                self._flow(room[:nbytes])
            else:
                self.data_received(bytes(room[:nbytes]))

        async def pour(self, write: Callable[[memoryview], None], left: int) -> None:
            """The `left` bytes that are still to come of a body through `write`; what that raises comes out, and the rest is let go.
            Raises ClientDisconnect.
            """
            if self.transport.is_closing():
                raise ClientDisconnect
            self._write, self._left, self._poured = write, left, self.loop.create_future()
            self.flow.resume_reading()
            try:
                await self._poured
            finally:
                self._write = None

        def _flow(self, piece: memoryview) -> None:
            self._left -= len(piece)
            error = None
            if self._write is not None:
                try:
                    self._write(piece)
                except Exception as raised:
                    error, self._write = raised, None
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

        def shutdown(self) -> None:
            """Idle connections end at once: a client that does not read would not answer TLS's farewell either."""
            idle = self.cycle is None or self.cycle.response_complete
            super().shutdown()
            if idle:
                self.transport.abort()

    return Protocol


def _common_name(connection: Any) -> str | None:
    """Of the client's certificate; None without one."""
    found = connection.getpeercert() if connection is not None else None
    names = [value for part in (found or {}).get("subject", ()) for name, value in part if name == "commonName"]
    return names[0] if len(names) == 1 else None
