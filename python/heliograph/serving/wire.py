"""HTTP as the client speaks it: connections that are kept, tries that are repeated, errors by their names. Of Python's own library alone.

A try has no bound but progress: each byte may take some seconds (`Line.silence`), and all of them until the call's time is over.
"""

from __future__ import annotations

import fcntl
import http.client
import io
import json
import os
import select
import socket
import ssl
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from heliograph import _core
from heliograph._arrays import described, path_of, printable
from heliograph.serving.errors import BusyError, RateError, ServiceError, UnreachableError, from_wire
from heliograph.serving.retrying import CutError, Patience, Stage, failure_of, reason

_LONGEST_TEXT = 1 << 22  # of an answer that is JSON
_LONGEST_LINE, _LONGEST_ANSWER = 1 << 16, 1 << 34
_MOST_KEPT = 8  # connections that wait for a next use
_LONGEST_IDLE = 45.0  # seconds for which it waits: balancers forget connections after 60
_PIECE = 256 << 10  # bytes that TLS is given at a time
_PROBE = 5.0  # seconds to find out whether TLS is spoken somewhere
_SILENCE = (5.0, 30.0)  # seconds, at least and at most, in which a byte must come or go
_LOOK = 0.5  # seconds between two looks whether a request is still leaving
_GATEWAY = (408, 502, 504)  # statuses by which a balancer says that the service did not answer it


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Any  #: a mapping that takes names in any case
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object. Raises ServiceError."""
        try:
            found = json.loads(self.body[:_LONGEST_TEXT])
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ServiceError("what answered is no service of Heliograph")
        return found


class Written:
    """A body that is written while it is sent: the bytes of tensors, one after another, `sizes` of them each."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = [tensor._core for tensor in tensors]
        self.sizes = tuple(tensor.written_bytes for tensor in self._tensors)

    @property
    def nbytes(self) -> int:
        """Of all."""
        return sum(self.sizes)

    def write(self, send: Callable[[memoryview], object]) -> None:
        """All of it to `send`, in pieces of some size: each is a call of the system."""
        room, have = memoryview(bytearray(min(self.nbytes, _PIECE))), 0

        def gathered(piece: memoryview) -> None:
            nonlocal have
            if have + len(piece) > len(room):
                if have:
                    send(room[:have])
                have = 0
                if len(piece) == len(room):
                    send(piece)
                    return
            room[have : have + len(piece)] = piece
            have += len(piece)

        for tensor in self._tensors:
            tensor.write(gathered)
        send(room[:have])


class _Whole(io.BufferedIOBase):
    """What an answer is read from until that time: a head that ends before its blank line is a cut, and not a shorter head."""

    def __init__(self, file: Any, until: float) -> None:
        self._file, self._until = file, until

    def readline(self, limit: int | None = -1) -> bytes:
        """With its end, `limit` bytes at most. Raises RemoteDisconnected; TimeoutError, however slowly bytes drip."""
        line, most = b"", _LONGEST_LINE if limit is None or limit < 0 else limit
        while not line.endswith(b"\n") and len(line) < most:
            if time.monotonic() > self._until:
                raise TimeoutError
            some = self._file.peek(1)
            if not some:
                raise http.client.RemoteDisconnected("the connection was closed within an answer's head")
            line += self._file.read(min(some.find(b"\n") + 1 or len(some), most - len(line)))
        return line

    def read(self, size: int | None = -1) -> bytes:
        found: bytes = self._file.read(size)
        return found

    def read1(self, size: int = -1) -> bytes:
        found: bytes = self._file.read1(size)
        return found

    def close(self) -> None:
        self._file.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that is whole by that time, or raises."""

    def __init__(self, *arguments: Any, until: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fp: Any = _Whole(self.fp, until)


class Line:
    """Requests to one service. Several threads may call it. Raises ParameterError for an address that is none; OSError for files."""

    def __init__(self, address: Any, token: str | None, certificate: Any, key: Any, ca: Any, timeout: float) -> None:
        scheme, self.host, self.port = _address(address)
        self.timeout = timeout
        #: Seconds in which a byte must come or go, or the connection counts as dead: some of them are in a call's time.
        self.silence = min(max(timeout / 6, _SILENCE[0]), _SILENCE[1])
        if scheme == "http" and token and self.host not in ("127.0.0.1", "::1", "localhost"):
            raise _core.SecurityError("a token would cross the network for all to read: use https")
        if key is not None and certificate is None:
            raise _core.ParameterError("a private key goes with its certificate: give certificate=, too")
        self._tls = _context(certificate, key, ca) if scheme == "https" else None
        if token is not None and not (
            isinstance(token, str) and token and token.isascii() and token.isprintable() and " " not in token
        ):
            raise _core.ParameterError("a token is a text of letters, digits and signs, as the service's operator gave it")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._kept: list[tuple[http.client.HTTPConnection, float]] = []  # and since when
        self._lock, self._process = threading.Lock(), os.getpid()

    def __repr__(self) -> str:
        return f"{'https' if self._tls else 'http'}://{printable(self.host)}:{self.port}"

    # Connections

    def _taken(self) -> http.client.HTTPConnection:
        """A connection that is kept and alive as far as this side knows, or a new one, which is not connected yet."""
        if self._process != os.getpid():  # a fork has the same connections as its parent
            self._process = os.getpid()
            self.close()
        while True:
            with self._lock:
                if not self._kept:
                    break
                connection, since = self._kept.pop()
            if time.monotonic() - since < _LONGEST_IDLE and not _is_over(connection):
                return connection
            connection.close()
        made = (
            http.client.HTTPConnection(self.host, self.port)
            if self._tls is None
            else http.client.HTTPSConnection(self.host, self.port, context=self._tls)
        )
        return made

    def _given_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < _MOST_KEPT and connection.sock is not None:
                self._kept.append((connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        """Closes what is kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection, _ in kept:
            connection.close()

    def _speaks_tls(self) -> bool:
        """Whether somebody shakes hands there; nothing is sent, so it may be anybody."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with socket.create_connection((self.host, self.port), min(self.timeout, _PROBE)) as plain:
                context.wrap_socket(plain, server_hostname=self.host).close()
        except OSError as error:
            return "ALERT" in str(getattr(error, "reason", ""))  # it wants a certificate, or an older TLS
        return True

    # Requests

    def once(
        self, method: str, path: str, body: Any = None, *, until: float | None = None, wait: float = 0.0, **headers: str
    ) -> Reply:
        """One try, which may go on until that time; the service may be silent for `wait` seconds more than else before it answers.

        Raises CutError if there is no whole answer and another try may get one, UnreachableError, CertificateError and AccessError
        if no try will, and the error of an answer that is one.
        """
        connection = self._taken()
        kept, stage, broken = connection.sock is not None, Stage.CONNECTING, None
        until = time.monotonic() + self.timeout if until is None else until
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        try:
            if not kept:
                connection.timeout = _within(self.silence, until)
                connection.connect()
            connection.response_class = partial(_Answer, until=until)  # type: ignore[assignment]
            stage = Stage.SENDING
            broken = _send(connection, method, path, body, self._headers | named, self.silence, until)
            if broken is None:  # else the service may have answered before all was sent: its answer says why
                stage = Stage.WAITING
            _await(connection.sock, self.silence + (0.0 if broken else wait), until)
            answer = connection.getresponse()
            stage = Stage.READING
            data = _read(answer, connection, self.silence, until)
        except (OSError, http.client.HTTPException) as error:
            _abort(connection)
            self.close()  # the service may have ended, and what is kept with it
            found = [failure_of(one, repr(self), stage, kept) for one in (broken, error) if one is not None]
            raise next((one for one in found if not isinstance(one, CutError)), found[-1]) from error
        except BaseException:
            _abort(connection)
            raise
        if broken is None:
            self._given_back(connection)
        else:
            connection.close()
        reply = Reply(answer.status, answer.headers, data)
        if answer.status >= 400:
            raise _refusal(reply)
        return reply

    def ask(self, method: str, path: str, body: Any = None, *, until: float, wait: float = 0.0, **headers: str) -> Reply:
        """As `once`, again and again until that time where nobody answers or the service is busy. For what may be sent twice.

        Raises UnreachableError, BusyError in the end, and other errors of the service at once.
        """
        patience = self.patience(until - time.monotonic())
        while True:
            try:
                return self.once(method, path, body, until=patience.until, wait=wait, **headers)
            except ServiceError as error:
                self.again(patience, error)

    def patience(self, seconds: float) -> Patience:
        """For the tries of one request."""
        return Patience(repr(self), seconds)

    def again(self, patience: Patience, error: ServiceError) -> None:
        """As `Patience.again`; besides it is found out whether TLS is spoken where it was not expected."""
        strange = isinstance(error.__cause__, (http.client.BadStatusLine, ConnectionError))
        new = isinstance(error, CutError) and error.stage is Stage.WAITING and not error.kept and patience.tries == 0
        if self._tls is None and strange and new and self._speaks_tls():
            raise UnreachableError(f"{self!r} does not answer: it speaks TLS, and may want https://") from None
        patience.again(error)


def _within(seconds: float, until: float) -> float:
    """Seconds for a step, of those that are left."""
    return max(min(seconds, until - time.monotonic()), 0.05)


def _await(connection: socket.socket, seconds: float, until: float) -> None:
    """Until there is something to read: so many seconds from when the other side has acknowledged the request, or more of it.

    A slow link takes long to carry what the system has taken at once. Raises TimeoutError.
    """
    ready, unsent = select.poll(), _unsent(connection)
    ready.register(connection, select.POLLIN)
    end = time.monotonic() + seconds
    while not ready.poll(1000 * _within(_LOOK, min(end, until))):
        now = time.monotonic()
        before, unsent = unsent, min(_unsent(connection), unsent)
        if unsent < before:
            end = now + seconds
        if now > min(end, until):
            raise TimeoutError
    connection.settimeout(_within(seconds, until))


def _unsent(connection: socket.socket) -> int:
    """Bytes that the system has taken and the other side has not acknowledged; 0 where the system does not tell."""
    try:
        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def _abort(connection: http.client.HTTPConnection) -> None:
    """Closes a connection whose bytes are not wanted any more: those on their way would delay what is sent next."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _is_over(connection: http.client.HTTPConnection) -> bool:
    """Whether an idle connection was closed by the other side, or has bytes that answer no request."""
    found = select.poll()
    try:
        found.register(connection.sock, select.POLLIN)
        return bool(found.poll(0))
    except (OSError, ValueError):
        return True


def _address(text: Any) -> tuple[str, str, int]:
    """Scheme, host and port of an address that says nothing else. Raises ParameterError."""
    try:
        parts = urlsplit(text if isinstance(text, str) and text.isprintable() and " " not in text else "")
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:  # UnicodeError is one
        host, port = "", None
    if isinstance(text, str) and "@" in text:  # not shown: it may hold a password
        raise _core.ParameterError('an address is as in "https://host:8443", without a user or a password')
    if not host or parts.scheme not in ("https", "http") or parts.path not in ("", "/") or parts.query or port == 0:
        raise _core.ParameterError(f'an address is as in "https://host:8443", not {described(text)}')
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def path(*parts: str, **query: Any) -> str:
    """A path below /v1, with what stands after the question mark."""
    told = {name: value for name, value in query.items() if value is not None}
    return "/v1/" + "/".join(quote(part, safe="") for part in parts) + (f"?{urlencode(told)}" if told else "")


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    silence: float,
    until: float,
) -> OSError | None:
    """A request: its head at once, so that the service knows of it while the body is written. Returns the error by which the
    connection died before all of it was sent. Raises TimeoutError.
    """
    connection.putrequest(method, path, skip_accept_encoding=True)
    length = body.nbytes if isinstance(body, Written) else 0 if body is None else memoryview(body).nbytes
    for name, text in headers.items():
        connection.putheader(name, text)
    if method in ("PUT", "POST"):
        connection.putheader("Content-Length", str(length))

    def send(data: Any) -> None:
        view = memoryview(data).cast("B")
        while view:
            _limit(connection.sock, silence, until)
            view = view[connection.sock.send(view[:_PIECE]) :]

    connection.sock.settimeout(_within(silence, until))
    try:
        connection.endheaders()
        if isinstance(body, Written):
            body.write(send)
        elif length:
            send(body)
    except TimeoutError:
        raise
    except OSError as error:
        return error
    return None


def _limit(connection: socket.socket | None, silence: float, until: float) -> None:
    """Bounds the next step where less than `silence` is left. Raises TimeoutError."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if left < silence and connection is not None:
        connection.settimeout(left)


def _read(answer: http.client.HTTPResponse, connection: http.client.HTTPConnection, silence: float, until: float) -> bytes:
    """An answer's body. Raises IncompleteRead where the connection ends before, TimeoutError, ServiceError for what is too long."""
    length, pieces, count = answer.length, list[bytes](), 0
    if length is not None and length > _LONGEST_ANSWER:
        raise ServiceError("an answer is longer than any")
    if connection.sock is not None:
        connection.sock.settimeout(_within(silence, until))
    while piece := answer.read1(_PIECE):
        pieces.append(piece)
        count += len(piece)
        if count > _LONGEST_ANSWER:
            raise ServiceError("an answer is longer than any")
        if answer.length != 0:
            _limit(connection.sock, silence, until)
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    if length is None and not answer.chunked and answer.status < 400:  # its end is not told from a cut
        raise ServiceError("what answered is no service of Heliograph: its answer has no length")
    answer.close()
    return b"".join(pieces)


def _refusal(reply: Reply) -> Exception:
    """The error that a service answered with, or a balancer before it."""
    try:
        said = json.loads(reply.body[:_LONGEST_TEXT] or b"{}")
    except (ValueError, RecursionError):
        said = {}
    after = _number(reply.headers.get("Retry-After"))
    if isinstance(said, dict) and isinstance(said.get("error"), dict):
        return from_wire(said["error"])
    if name := reply.headers.get("Heliograph-Error"):
        return from_wire({"name": name, "retry_after": after})
    if reply.status == 503:
        return BusyError("the service takes no more connections at present", 0.5 if after is None else after)
    if reply.status == 429:
        return RateError("something before the service takes no more requests at present", 1.0 if after is None else after)
    if reply.status in _GATEWAY:
        return CutError(f"something before the service had no answer of it (HTTP {reply.status})", Stage.READING)
    return ServiceError(f"what answered is no service of Heliograph, or something before it: HTTP {reply.status}")


def _number(text: str | None) -> float | None:
    """Of a header that counts seconds; None if there is none, or it is a date."""
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _context(certificate: Any, key: Any, ca: Any) -> ssl.SSLContext:
    """Checks names and authorities, always."""
    with pem("certificates of authorities", ca):
        context = ssl.create_default_context(cafile=None if ca is None else path_of(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        with pem("certificate with its private key", certificate, key):
            context.load_cert_chain(path_of(certificate), None if key is None else path_of(key))
    return context


@contextmanager
def pem(what: str, *paths: Any) -> Iterator[None]:
    """What reads PEM files names them in its errors. Raises ParameterError for files without, OSError."""
    given = [path_of(path) for path in paths if path is not None]
    named = " with ".join(printable(path) for path in given)
    lone = "; where the key is in a file of its own, name that as well" if "private key" in what and len(given) == 1 else ""
    for path in given:  # OpenSSL does not say which of two it could not open
        if not Path(path).is_fifo():  # which is read once
            with Path(path).open("rb"):
                pass
    try:
        yield
    except ssl.SSLError as error:
        raise _core.ParameterError(f"{named} holds no {what} (PEM): {printable(reason(error))}{lone}") from None
    except OSError as error:
        raise type(error)(error.errno, error.strerror, named) from None
