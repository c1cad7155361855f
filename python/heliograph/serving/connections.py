"""Accepted connections of all listeners, limited for each address and in total. Idle connections are closed to make room."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import socket
import ssl
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from heliograph.serving.access import Pace

_FILES = 4  # file descriptors of one connection
_OTHER_FILES = 128  # file descriptors for models, the store, requests and engines
_MIN_NEW = 128  # least limit of new connections a second from one address
_CLOSE_SECONDS = 1.0  # seconds for TLS's close_notify
_MOST_AT_ONCE = 64  # connections accepted before the event loop runs other callbacks
_BACKLOG = 2048  # the listen backlog
_RETRY = 1.0  # seconds of pause after accept() failed for lack of resources
# While jobs run: an address's burst of handshakes, its handshakes a second, and handshakes a second of the queue.
_HANDSHAKE_BURST, _HANDSHAKE_RATE, _TURN_RATE = 64, 4, 10


def address_of(peer: Any) -> str:
    """Returns the address that counts as one client: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except (ValueError, IndexError, TypeError):
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


#: Address and port of the peer of the connection that this task serves; set before the handshake.
PEER: ContextVar[str | None] = ContextVar("heliograph_peer", default=None)


def shown_address(peer: Any) -> str:
    """Returns a peer's address and port for the log."""
    if not isinstance(peer, tuple) or len(peer) < 2:
        return str(peer)
    return f"[{peer[0]}]:{peer[1]}" if ":" in str(peer[0]) else f"{peer[0]}:{peer[1]}"


def files_for(connections: int) -> int:
    """Raises the process's file limit for `connections` and returns how many connections fit, at most `connections`.

    A connection uses up to three descriptors: its own, and two of the gRPC proxy. In addition, half as many connections are
    accepted only to be answered with HTTP 503.
    """
    wanted = _FILES * connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, max((soft - _OTHER_FILES) // _FILES, 16))


class Accepted(socket.socket):
    """A connection that `Connections` counts until it is closed."""

    owner: Connections | None = None
    address = ""
    peer = ""  #: address and port, for the log
    is_beyond = False  #: whether the connection exceeds the limit and is answered with HTTP 503
    transport: Any = None  #: asyncio's transport, once the handshake is done

    def close(self) -> None:
        """Overrides `socket.socket.close`."""
        owner, self.owner, self.transport = self.owner, None, None
        if owner is not None:
            owner._remove(self)
        super().close()


class Connections:
    """Limits the connections of all listeners: `most` in total, `most_of_one` for one address.

    At a limit, an idle connection is closed first: the longest idle one of that address, or of the address with the most
    connections. An address may connect `most_of_one` / 2 times a second after a burst of 2 `most_of_one`; further attempts
    are refused before the handshake.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most, self.most_of_one = most, min(most_of_one, most)
        self._pace = Pace(max(most_of_one / 2, _MIN_NEW), max(2 * most_of_one, 4 * _MIN_NEW), 1.0, time.monotonic)
        self._count = 0
        self._per_address: dict[str, int] = {}
        self._idle: dict[str, OrderedDict[Accepted, None]] = {}  # idle connections by address, the longest idle first
        self._by_file: dict[int, Accepted] = {}

    def __len__(self) -> int:
        return self._count

    def admit(self, one: Accepted, address: str) -> bool:
        """Counts a new connection if there is room or if an idle connection can be closed. Up to `most` / 2 further
        connections are admitted, only to be answered with HTTP 503.

        """
        own = self._per_address.get(address, 0)
        if self._pace.delay(address):  # a TLS handshake costs the service more than its peer
            return False
        if own >= self.most_of_one and not self._close_idle(address):
            return False
        full = self._count >= self.most and not self._close_idle(max(self._per_address, key=self._per_address.__getitem__))
        if full and 2 * self._count >= 3 * self.most:
            return False
        one.owner, one.address, one.is_beyond = self, address, full
        self._count += 1
        self._per_address[address] = self._per_address.get(address, 0) + 1
        self._by_file[one.fileno()] = one
        self.set_busy(one, False)
        return True

    def made(self, transport: Any) -> Accepted | None:
        """Returns the accepted connection of a transport."""
        plain = transport.get_extra_info("socket")
        one = None if plain is None else self._by_file.get(plain.fileno())
        if one is not None:
            one.transport = transport
        return one

    def set_busy(self, one: Accepted | None, busy: bool) -> None:
        """Records whether a request is in progress on the connection."""
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
        self._remove(one)
        if one.transport is not None:
            one.transport.close()
            asyncio.get_running_loop().call_later(_CLOSE_SECONDS, one.transport.abort)  # a peer need not answer close_notify
        else:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # ends a handshake in progress
        return True

    def _remove(self, one: Accepted) -> None:
        self._count -= 1
        self._per_address[one.address] -= 1
        if not self._per_address[one.address]:
            del self._per_address[one.address]
        idle = self._idle.get(one.address, OrderedDict())
        idle.pop(one, None)
        if not idle:
            self._idle.pop(one.address, None)
        if self._by_file.get(one.fileno()) is one:
            del self._by_file[one.fileno()]


class Listener(socket.socket):
    """A listening socket that counts its connections and queues handshakes while jobs run.

    A handshake takes about 1 ms of processor time, so a peer that starts many handshakes must not slow other clients' jobs.
    """

    connections: Connections

    def start(
        self, factory: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext | None, busy: Callable[[], bool]
    ) -> None:
        """Starts to listen. `factory` creates a connection's protocol; `busy` returns whether jobs are being computed."""
        self._loop, self._factory, self._context, self._busy = asyncio.get_running_loop(), factory, context, busy
        self._pace = Pace(_HANDSHAKE_RATE, _HANDSHAKE_BURST, 1.0, time.monotonic)
        self._waiting: dict[str, deque[Accepted]] = {}  # queued handshakes by address, in the order of their turns
        self._turn_timer: asyncio.TimerHandle | None = None
        self._connecting = set[asyncio.Task[None]]()
        self.setblocking(False)
        self.listen(_BACKLOG)
        self._resume()

    def _resume(self) -> None:
        if self.fileno() >= 0:
            self._loop.add_reader(self.fileno(), self._accept_all)

    def close(self) -> None:
        """Stops listening and closes connections whose handshakes are queued."""
        if hasattr(self, "_loop") and self.fileno() >= 0:
            self._loop.remove_reader(self.fileno())
            for one in [one for own in self._waiting.values() for one in own]:
                one.close()
            self._waiting.clear()
        super().close()

    def _accept_all(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                plain, peer = self.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors or memory
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
                if self._turn_timer is None:
                    self._turn_timer = self._loop.call_later(1 / _TURN_RATE, self._next)

    def _next(self) -> None:
        """Starts the handshake of the next address in turn, or all queued handshakes if no job is being computed."""
        self._turn_timer = None
        begun = 0
        while self._waiting and (not begun or not self._busy()):
            address = next(iter(self._waiting))
            own = self._waiting.pop(address)
            one = own.popleft()
            if own:
                self._waiting[address] = own  # puts the address at the end of the queue
            if one.owner is None:  # the connection was closed to make room
                one.close()
            else:
                self._begin(one)
                begun += 1
        if self._waiting:
            self._turn_timer = self._loop.call_later(1 / _TURN_RATE, self._next)

    def _begin(self, one: Accepted) -> None:
        task = self._loop.create_task(self._connect(one))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, one: Accepted) -> None:
        PEER.set(one.peer)
        with contextlib.suppress(OSError):  # failed handshakes are reported by `Handshake`; the transport closes the socket
            await self._loop.connect_accepted_socket(self._factory, one, ssl=self._context)


def listening(host: str, port: int, connections: Connections) -> Listener:
    """Returns a bound socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named. Nagle's algorithm would add 40 ms to an answer of two segments.
    found = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.connections = connections
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise type(error)(error.errno, error.strerror, f"{host}:{port}") from None
    return found
