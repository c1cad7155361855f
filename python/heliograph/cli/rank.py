"""One rank of ``heliograph run``: starts its program, hands on what it writes and how it ends, and ends with the launcher.

mpirun starts this file by its path; it imports the standard library alone, so that it costs little beside the program.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import pty
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROTOCOL = 1  #: of what the launcher and the ranks say to each other
VARIABLE = "HELIOGRAPH_RUN"  #: where the launcher is: JSON of addresses, port and token
MESSAGE, OUT, ERR, BEAT = b"m", b"o", b"e", b"."  #: kinds of frames
BEAT_SECONDS, SILENCE_SECONDS = 1.0, 5.0  #: between two signs of life; without any, the other side counts as gone
_STOPPED_SECONDS = 4.0  # after which a stopped program counts as dead
_INTERRUPT_SECONDS = 2.0  # for an interrupted program to end by itself
_CONNECT_SECONDS = 5.0
_TICK = 0.05
_BACKLOG = 1 << 20  # bytes that may wait for the launcher before the program's output is left where it is
_HEAD = struct.Struct("!cI")
_LONGEST = 1 << 24


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """A frame to send."""
    return _HEAD.pack(kind, len(payload)) + payload


def message(**fields: Any) -> bytes:
    """A frame of JSON to send."""
    return frame(MESSAGE, json.dumps(fields).encode())


class Splitter:
    """Makes frames of bytes as they come."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames that are whole now: kind and payload. Raises ConnectionError for what is none."""
        self._held += data
        while len(self._held) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._held)
            if kind not in (MESSAGE, OUT, ERR, BEAT) or length > _LONGEST:
                raise ConnectionError("what comes is not of heliograph run")
            if len(self._held) < _HEAD.size + length:
                return
            payload = bytes(self._held[_HEAD.size : _HEAD.size + length])
            del self._held[: _HEAD.size + length]
            yield kind, payload


def receive_message(connection: socket.socket) -> dict[str, Any]:
    """One frame of JSON and no byte more, while the two sides are not sure of each other. Raises OSError."""
    data = b""
    while len(data) < _HEAD.size or len(data) < _HEAD.size + _HEAD.unpack_from(data)[1]:
        wanted = _HEAD.size - len(data) if len(data) < _HEAD.size else _HEAD.size + _HEAD.unpack_from(data)[1] - len(data)
        if wanted > 1 << 16:
            raise ConnectionError("what comes is not of heliograph run")
        got = connection.recv(wanted)
        if not got:
            raise ConnectionError("the connection was closed")
        data += got
    try:
        said = json.loads(data[_HEAD.size :])
    except ValueError:
        said = None
    if data[:1] != MESSAGE or not isinstance(said, dict):
        raise ConnectionError("what comes is not of heliograph run")
    return said


def proof(token: str, who: str, challenge: str) -> str:
    """What only those who know the token can say to a challenge."""
    return hmac.new(token.encode(), f"{who} {challenge}".encode(), hashlib.sha256).hexdigest()


def _connect(place: dict[str, Any], rank: int, port: int | None) -> socket.socket:
    """To the launcher, by the first of its addresses where it proves to be there. Raises OSError.

    port: where rank 0's program is to listen.
    """
    trouble: OSError = ConnectionError("it has no address")
    for address in place["addresses"]:
        try:
            connection = socket.create_connection((address, place["port"]), _CONNECT_SECONDS)
        except OSError as error:
            trouble = error
            continue
        try:
            challenge = secrets.token_hex(16)
            connection.sendall(message(challenge=challenge))
            said = receive_message(connection)
            if not hmac.compare_digest(str(said.get("proof")), proof(place["token"], "launcher", challenge)):
                raise ConnectionError("another program answers")
            connection.sendall(
                message(
                    proof=proof(place["token"], "rank", str(said.get("challenge"))),
                    protocol=PROTOCOL,
                    rank=rank,
                    host=socket.gethostname(),
                    process=os.getpid(),
                    port=port,
                )
            )
            return connection
        except OSError as error:
            trouble = error
            connection.close()
    raise trouble


def _reserve_port() -> socket.socket:
    """Bound and not listening: with this option rank 0's program may have the port too, and nobody else is given it."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("", 0))
    return door


class Rank:
    """Looks after one program."""

    def __init__(self, connection: socket.socket) -> None:
        self._parent = os.getppid()
        self._connection = connection
        self._splitter = Splitter()
        self._unsent = bytearray()
        self._wire, self._all = selectors.DefaultSelector(), selectors.DefaultSelector()
        self._sources: dict[int, bytes] = {}  # the program's open outputs: descriptor to kind
        self._program: subprocess.Popen[bytes] | None = None
        self._status: int = -1  # where the program tells what ends it
        self._account = b""
        self._ended = False
        self._stopped_at: float | None = None
        self._kill_at = float("inf")
        self._leaving = False  # the launcher has ordered the end
        self._terminated = False
        self._heard = time.monotonic()
        connection.setblocking(False)
        for selector in (self._wire, self._all):
            selector.register(connection, selectors.EVENT_READ)

    def watch(self) -> int:
        """Until the launcher says so, or is gone; the exit status."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher says when
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_termination)
        beat = 0.0
        try:
            while not (self._leaving and (self._ended or self._program is None) and not self._unsent):
                now = time.monotonic()
                if now - beat >= BEAT_SECONDS:
                    beat = now
                    self._unsent += frame(BEAT)
                if now - self._heard > SILENCE_SECONDS or self._terminated or os.getppid() != self._parent:
                    return self._abandon()
                self._step()
                self._look_at_program()
        except OSError:
            return self._abandon()
        return 0

    def _on_termination(self, *_: Any) -> None:
        self._terminated = True

    def _step(self) -> None:
        """What comes and goes within a tick."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        for selector in (self._wire, self._all):
            selector.modify(self._connection, wanted)
        full = len(self._unsent) > _BACKLOG
        for key, events in (self._wire if full else self._all).select(_TICK):
            if key.fileobj is self._connection:
                if events & selectors.EVENT_READ:
                    data = self._connection.recv(1 << 16)
                    if not data:
                        raise ConnectionError("the launcher is gone")
                    self._heard = time.monotonic()
                    for kind, payload in self._splitter.feed(data):
                        if kind == MESSAGE:
                            self._obey(json.loads(payload))
                if events & selectors.EVENT_WRITE:
                    del self._unsent[: self._connection.send(self._unsent)]
            else:
                self._read(key.fd)

    def _read(self, descriptor: int) -> bool:
        """Hands on what the program has written; False where there was nothing."""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose other end is closed
            data = b""
        if not data:
            self._all.unregister(descriptor)
            os.close(descriptor)
            del self._sources[descriptor]
            return False
        if descriptor == self._status:
            self._account += data
        else:
            self._unsent += frame(self._sources[descriptor], data)
        return True

    def _obey(self, order: dict[str, Any]) -> None:
        if order["order"] == "start":
            try:
                self._start(order)
            except OSError as error:
                text = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
                self._ended = True
                self._unsent += message(event="ended", type=type(error).__name__, text=text, traceback="", status=1)
        elif order["order"] == "end":
            self._leaving = True
            if self._program is not None and not self._ended:
                interrupt = bool(order["interrupt"])
                self._signal(signal.SIGINT if interrupt else signal.SIGKILL)
                self._kill_at = time.monotonic() + (_INTERRUPT_SECONDS if interrupt else 0)

    def _start(self, order: dict[str, Any]) -> None:
        os.chdir(order["folder"])
        environment = os.environ | order["environment"]
        status, status_end = os.pipe()
        out, out_end = self._output(order)
        err, err_end = os.pipe()
        command = [order["target"], *order["arguments"]]
        if order["form"] != "executable":
            runner = str(Path(__file__).with_name("program.py"))
            command = [sys.executable, runner, str(status_end), str(os.getpid()), order["form"], *command]
        try:
            self._program = subprocess.Popen(
                command, stdout=out_end, stderr=err_end, env=environment, pass_fds=[status_end], process_group=0
            )
        finally:
            for end in (status_end, out_end, err_end):
                os.close(end)
        self._status = status
        for descriptor, kind in ((status, MESSAGE), (out, OUT), (err, ERR)):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)
                self._sources[descriptor] = kind
                self._all.register(descriptor, selectors.EVENT_READ)
        self._unsent += message(event="started", process=self._program.pid)

    def _output(self, order: dict[str, Any]) -> tuple[int, int]:
        """For the program's standard output: what to read from (-1: nothing), what it writes to."""
        if not order["shown"]:
            return -1, os.open(os.devnull, os.O_WRONLY)
        if order["terminal"] is None:
            return os.pipe()
        ours, theirs = pty.openpty()
        tty.setraw(theirs)  # the launcher's terminal does what a terminal does to lines
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *order["terminal"], 0, 0))
        return ours, theirs

    def _look_at_program(self) -> None:
        if self._program is None or self._ended:
            return
        now = time.monotonic()
        if now > self._kill_at:
            self._signal(signal.SIGKILL)
        found, how = os.waitpid(self._program.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if found == 0:
            if self._stopped_at is not None and now - self._stopped_at > _STOPPED_SECONDS:
                self._stopped_at = None
                self._unsent += message(event="stopped", seconds=round(_STOPPED_SECONDS))
        elif os.WIFSTOPPED(how):
            self._stopped_at = now
        elif os.WIFCONTINUED(how):
            self._stopped_at = None
        else:
            self._program.returncode = os.waitstatus_to_exitcode(how)
            self._report(self._program.returncode)

    def _report(self, code: int) -> None:
        self._ended = True
        self._signal(signal.SIGKILL)  # what the program has left behind
        for descriptor in list(self._sources):
            while descriptor in self._sources and self._read(descriptor):
                pass
        account = json.loads(self._account) if self._account else {}
        self._unsent += message(event="ended", **account, **({"signal": -code} if code < 0 else {"status": code}))

    def _signal(self, number: int) -> None:
        """To the program and what it has started."""
        assert self._program is not None
        try:
            os.killpg(self._program.pid, number)
        except ProcessLookupError:
            return

    def _abandon(self) -> int:
        """The launcher, or the daemon that started this rank, is gone: nothing stays."""
        if self._program is not None:
            self._signal(signal.SIGKILL)
        # A daemon of mpirun that has lost its connection would keep trying for a quarter of an hour.
        for number in (signal.SIGTERM, signal.SIGKILL):
            if os.getppid() != self._parent or self._terminated:
                break
            os.kill(self._parent, number)
            time.sleep(0.5)
        return 1


def main() -> int:
    """The process that mpirun starts; its exit status."""
    place = json.loads(os.environ.pop(VARIABLE))
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    with contextlib.ExitStack() as held:
        try:
            door = held.enter_context(_reserve_port()) if rank == 0 else None
            connection = _connect(place, rank, int(door.getsockname()[1]) if door else None)
        except OSError as error:
            where = ", ".join(f"{address}:{place['port']}" for address in place["addresses"])
            print(f"rank {rank} ({socket.gethostname()}) cannot reach heliograph run at {where}: {error}", file=sys.stderr)
            return 1
        return Rank(connection).watch()


if __name__ == "__main__":
    sys.exit(main())
