"""Accepted connections of all listeners: so many of one address, so many in all. Idle connections are closed to make room."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from heliograph.serving.access import Pace

_NEW = 128  # connections a second of one address at least, before others are refused
_GOODBYE = 1.0  # seconds for TLS's last words
_MOST_AT_ONCE = 64  # connections that are accepted in a row before other events have their turn
_BACKLOG = 2048  # connections that the system holds until they are accepted
_RETRY = 1.0  # seconds until connections are accepted again after the system had no room for one
# While jobs run: the burst of handshakes of one address, its handshakes a second, and the queue's handshakes a second for all addresses.
_BURST, _PACE, _TURNS = 64, 4, 10


def address_of(peer: Any) -> str:
    """What counts as one client's address: an IPv4 address, or the /64 network of an IPv6 address, of which a client has all."""
    try:
        found = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except (ValueError, IndexError, TypeError):
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


#: The peer of the connection that a task has accepted, during its handshake too.
PEER: ContextVar[str | None] = ContextVar("heliograph_peer", default=None)


def shown_address(peer: Any) -> str:
    """A peer's address and port, as logs have it."""
    if not isinstance(peer, tuple) or len(peer) < 2:
        return str(peer)
    return f"[{peer[0]}]:{peer[1]}" if ":" in str(peer[0]) else f"{peer[0]}:{peer[1]}"


class Accepted(socket.socket):
    """A connection, which `Connections` counts until it is closed."""

    owner: Connections | None = None
    address = ""
    peer = ""  #: its address and port, for the log
    is_beyond = False  #: whether it was one too many, and is here to hear so
    transport: Any = None  #: asyncio's, once the connection is made, by which it says goodbye

    def close(self) -> None:
        """As a socket has it."""
        owner, self.owner, self.transport = self.owner, None, None
        if owner is not None:
            owner._left(self)
        super().close()


class Connections:
    """Of all listeners: `most` in all, of which one address may have `most_of_one`. Beyond either a connection that has no request
    in progress is closed first: the longest idle one of that address, or of the address with the most connections. An address that
    connects too often is refused before a handshake: half of `most_of_one` a second, after twice as many at once.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most, self.most_of_one = most, min(most_of_one, most)
        self._pace = Pace(max(most_of_one / 2, _NEW), max(2 * most_of_one, 4 * _NEW), 1.0, time.monotonic)
        self._count = 0
        self._of: dict[str, int] = {}
        self._idle: dict[str, OrderedDict[Accepted, None]] = {}  # by address; the longest idle is first
        self._by_file: dict[int, Accepted] = {}

    def __len__(self) -> int:
        return self._count

    def admit(self, one: Accepted, address: str) -> bool:
        """Counts a new connection, if there is room or another can be closed. Half as many more than `most` may come to hear that the
        service is busy.
        """
        mine = self._of.get(address, 0)
        if self._pace.delay(address):  # handshakes cost the service more than its peers
            return False
        if mine >= self.most_of_one and not self._close_idle(address):
            return False
        full = self._count >= self.most and not self._close_idle(max(self._of, key=self._of.__getitem__))
        if full and 2 * self._count >= 3 * self.most:
            return False
        one.owner, one.address, one.is_beyond = self, address, full
        self._count += 1
        self._of[address] = self._of.get(address, 0) + 1
        self._by_file[one.fileno()] = one
        self.set_busy(one, False)
        return True

    def made(self, transport: Any) -> Accepted | None:
        """The connection that a transport has been made of."""
        plain = transport.get_extra_info("socket")
        one = None if plain is None else self._by_file.get(plain.fileno())
        if one is not None:
            one.transport = transport
        return one

    def set_busy(self, one: Accepted | None, busy: bool) -> None:
        """Whether a request is in progress."""
        if one is None or one.owner is None:
            return
        idle = self._idle.setdefault(one.address, OrderedDict())
        idle.pop(one, None)
        if not busy:
            idle[one] = None

    def _close_idle(self, address: str) -> bool:
        idle = self._idle.get(address)
        if not idle:
            return False
        one = next(iter(idle))
        one.owner = None
        self._left(one)
        if one.transport is not None:
            one.transport.close()
            asyncio.get_running_loop().call_later(_GOODBYE, one.transport.abort)  # a peer need not answer TLS's goodbye
        else:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # the handshake ends with it
        return True

    def _left(self, one: Accepted) -> None:
        self._count -= 1
        self._of[one.address] -= 1
        if not self._of[one.address]:
            del self._of[one.address]
        idle = self._idle.get(one.address, OrderedDict())
        idle.pop(one, None)
        if not idle:
            self._idle.pop(one.address, None)
        if self._by_file.get(one.fileno()) is one:
            del self._by_file[one.fileno()]


class Listener(socket.socket):
    """A listening socket whose connections are counted, and whose handshakes wait their turn while the service is busy: a handshake takes
    about a millisecond of processor time, and a peer that begins many must not slow the jobs of others.
    """

    connections: Connections

    def start(
        self, factory: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext | None, busy: Callable[[], bool]
    ) -> None:
        """Listens. `factory` makes a connection's protocol, `busy` says whether jobs are computed."""
        self._loop, self._factory, self._context, self._busy = asyncio.get_running_loop(), factory, context, busy
        self._pace = Pace(_PACE, _BURST, 1.0, time.monotonic)
        self._waiting: dict[str, deque[Accepted]] = {}  # by address; the one whose turn it is is first
        self._turn: asyncio.TimerHandle | None = None
        self._making = set[asyncio.Task[None]]()
        self.setblocking(False)
        self.listen(_BACKLOG)
        self._resume()

    def _resume(self) -> None:
        if self.fileno() >= 0:
            self._loop.add_reader(self.fileno(), self._accept_all)

    def close(self) -> None:
        """Accepts no more; connections whose handshakes wait are closed."""
        if hasattr(self, "_loop") and self.fileno() >= 0:
            self._loop.remove_reader(self.fileno())
            for one in [one for mine in self._waiting.values() for one in mine]:
                one.close()
            self._waiting.clear()
        super().close()

    def _accept_all(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                plain, peer = self.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors, no memory
                self._loop.call_exception_handler({"message": "cannot accept a connection", "exception": error})
                self._loop.remove_reader(self.fileno())
                self._loop.call_later(_RETRY, self._resume)
                return
            one = Accepted(plain.family, plain.type, plain.proto, fileno=plain.detach())
            one.setblocking(False)
            address = address_of(peer)
            if not self.connections.admit(one, address):
                one.close()
                continue
            one.peer = shown_address(peer)
            if address not in self._waiting and not (self._busy() and self._pace.delay(address)):
                self._begin(one)
            else:
                self._waiting.setdefault(address, deque()).append(one)
                if self._turn is None:
                    self._turn = self._loop.call_later(1 / _TURNS, self._next)

    def _next(self) -> None:
        """The handshake of the address whose turn it is; all that wait, once no job is computed."""
        self._turn = None
        begun = 0
        while self._waiting and (not begun or not self._busy()):
            address = next(iter(self._waiting))
            mine = self._waiting.pop(address)
            one = mine.popleft()
            if mine:
                self._waiting[address] = mine  # behind the others
            if one.owner is None:  # it gave way to another
                one.close()
            else:
                self._begin(one)
                begun += 1
        if self._waiting:
            self._turn = self._loop.call_later(1 / _TURNS, self._next)

    def _begin(self, one: Accepted) -> None:
        task = self._loop.create_task(self._connect(one))
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    async def _connect(self, one: Accepted) -> None:
        PEER.set(one.peer)
        with contextlib.suppress(OSError):  # of a handshake, which `Handshake` reports; the transport closes the socket
            await self._loop.connect_accepted_socket(self._factory, one, ssl=self._context)


def listening(host: str, port: int, connections: Connections) -> Listener:
    """A bound socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, or asyncio leaves Nagle's delay on: 40 ms an answer of two segments.
    found = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.connections = connections
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise type(error)(error.errno, error.strerror, f"{host}:{port}") from None
    return found
