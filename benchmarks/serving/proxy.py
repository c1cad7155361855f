"""A TCP proxy on loopback that injects one fault at a time, for tests and measurements of clients."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass, replace

#: Kinds of faults, in this order: the proxy resets both connections, closes both, forwards no more bytes, flips one bit,
#: sends a piece twice.
KINDS = ("reset", "close", "stall", "corrupt", "duplicate")
_PIECE, _NARROW = 1 << 16, 1 << 14
_NO_LINGER = struct.pack("ii", 1, 0)  # makes close() send a RST


@dataclass
class Fault:
    """A fault of the connection that carries byte number `after`, counted over all connections from the time at which the
    fault is set.
    """

    kind: str  #: one of KINDS
    up: bool  #: whether the fault hits bytes that clients send, else bytes that the service sends
    after: int
    every: int = 0  #: number of bytes after which the fault occurs again; 0: it occurs once


class Proxy:
    """Forwards connections to `target`, a port of this machine; None: it closes them immediately. `rate` limits the bytes per second from
    clients. The proxy is a context manager.

    """

    def __init__(self, target: int | None, rate: float | None = None) -> None:
        self.target, self._rate = target, rate
        self.connections = self.happened = 0
        self.passed = 0  #: number of bytes that clients have sent
        self.shadowed = False  #: whether each connection is opened twice, and the clients' bytes are sent to both
        self._fault: Fault | None = None
        self._lock, self._pairs = threading.Condition(), set[tuple[socket.socket, socket.socket]]()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        if rate is not None:  # small buffers, so that the rate limit slows clients at once
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _NARROW)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, fault: Fault | None) -> None:
        """Sets the next fault, replacing a pending one; None: no fault."""
        with self._lock:
            self._fault = fault

    def wait(self, happened: int, seconds: float) -> bool:
        """Waits until `happened` faults have happened. Returns whether these faults have happened."""
        with self._lock:
            return self._lock.wait_for(lambda: self.happened >= happened, seconds)

    def cut(self) -> None:
        """Resets all connections."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            _reset(*pair)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    # Connections

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            try:
                service = socket.create_connection(("127.0.0.1", self.target or 0), 5)
            except OSError:
                client.close()
                continue
            for one in (client, service):
                one.settimeout(None)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.add((client, service))
            shadow = socket.create_connection(("127.0.0.1", self.target or 0), 5) if self.shadowed else None
            threading.Thread(target=self._pump, args=(client, service, True, shadow), daemon=True).start()
            threading.Thread(target=self._pump, args=(service, client, False, None), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, up: bool, shadow: socket.socket | None) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            if shadow is not None:
                opened.enter_context(shadow)
            while data := source.recv(_PIECE):
                self.passed += len(data) * up
                if up and self._rate is not None:
                    time.sleep(len(data) / self._rate)
                if shadow is not None:
                    with contextlib.suppress(OSError):
                        shadow.sendall(data)
                fault, at = self._due(data, up)
                if fault is None:
                    target.sendall(data)
                    continue
                try:
                    self._do(fault, data, at, source, target)
                except OSError:  # the connection failed before
                    self._put_back(fault)
                    raise
                self._counted()
                if fault.kind in ("reset", "close"):
                    break
                # a stalled connection still reads, so that the sender does not notice
                while fault.kind == "stall" and source.recv(_PIECE):
                    pass
        self._end(source, target, up)

    def _do(self, fault: Fault, data: bytes, at: int, source: socket.socket, target: socket.socket) -> None:
        if fault.kind == "corrupt":
            target.sendall(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        elif fault.kind == "duplicate":
            target.sendall(data + data)
        else:
            target.sendall(data[:at])
        if fault.kind == "reset":
            _reset(source, target)

    def _put_back(self, fault: Fault) -> None:
        with self._lock:
            self._fault = self._fault or replace(fault, after=0)

    def _due(self, data: bytes, up: bool) -> tuple[Fault | None, int]:
        """Returns the fault that hits this piece, and the index of the byte."""
        with self._lock:
            fault = self._fault
            if fault is None or fault.up is not up:
                return None, 0
            if fault.after >= len(data):
                fault.after -= len(data)
                return None, 0
            self._fault = replace(fault, after=fault.every) if fault.every else None
            return fault, fault.after

    def _counted(self) -> None:
        with self._lock:
            self.happened += 1
            self._lock.notify_all()

    def _end(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with self._lock:
            self._pairs.discard((source, target) if up else (target, source))
        for one in (source, target):
            with contextlib.suppress(OSError):
                lingers = one.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == _NO_LINGER
                # shutdown wakes the thread of the other direction
                one.shutdown(socket.SHUT_RD if lingers else socket.SHUT_RDWR)
            # each thread closes one socket, because the other thread may still be in a call on its own socket
            if up is (one is source):
                one.close()


def _reset(*connections: socket.socket) -> None:
    """Resets both sides: the RST is sent when the last thread closes."""
    for one in connections:
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            one.shutdown(socket.SHUT_RD)
