"""The client's HTTP: reused connections, retries, errors by name. Uses only Python's standard library.

An attempt is limited by progress: each byte must come within `HttpClient.silence` seconds, and all of them within the
call's time.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from heliograph import _core
from heliograph._common.arguments import described, path_of, printable
from heliograph._common.service.errors import BusyError, RateError, ServiceError, UnreachableError, error_from_json
from heliograph._common.service.tls import pem
from heliograph.client.retry import CutError, Patience, Stage, failure_of

_LONGEST_TEXT = 1 << 22  # bytes of a JSON answer
_LONGEST_LINE, _LONGEST_ANSWER = 1 << 16, 1 << 34
_MAX_IDLE = 8  # limit of idle connections
_LONGEST_IDLE = 45.0  # seconds for which an idle connection is reused; load balancers drop them after 60
_PIECE = 256 << 10  # bytes passed to TLS at a time
_PROBE = 5.0  # seconds to probe a port for TLS
_SILENCE = (5.0, 30.0)  # seconds, least and most, within which a byte must be sent or received
_POLL = 0.5  # seconds between checks whether the request is still being sent
_GATEWAY = (408, 502, 504)  # statuses of a load balancer that got no answer from the service


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: Any  #: a mapping with case-insensitive names
    body: bytes

    def json(self) -> dict[str, Any]:
        """Parses the body as a JSON object. Raises ServiceError."""
        try:
            found = json.loads(self.body[:_LONGEST_TEXT])
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ServiceError(
                "the answer is not from a Heliograph service: its body must be a JSON object; check the address"
            )
        return found


class TensorBody:
    """A request body that serializes tensors while it is sent, one after another. `sizes` has the number of bytes of each
    tensor.

    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = [tensor._core for tensor in tensors]
        self.sizes = tuple(tensor.written_bytes for tensor in self._tensors)

    @property
    def nbytes(self) -> int:
        """Total number of bytes of the body."""
        return sum(self.sizes)

    def write(self, send: Callable[[memoryview], object]) -> None:
        """Passes the bytes to `send` in large pieces: each piece is a system call."""
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


class _CompleteStream(io.BufferedIOBase):
    """The stream from which an answer is read until the time `until`. A head that ends before its blank line is an error,
    not a shorter head.
    """

    def __init__(self, file: Any, until: float) -> None:
        self._file, self._until = file, until

    def readline(self, limit: int | None = -1) -> bytes:
        """Reads a line with its end, at most `limit` bytes. Raises RemoteDisconnected; TimeoutError at `until`."""
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
    """A response that must be complete by the time `until`."""

    def __init__(self, *arguments: Any, until: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fp: Any = _CompleteStream(self.fp, until)


class HttpClient:
    """HTTP requests to one service. Thread-safe. Raises ParameterError for an invalid address; OSError for files."""

    def __init__(self, address: Any, token: str | None, certificate: Any, key: Any, ca: Any, timeout: float) -> None:
        scheme, self.host, self.port = _address(address)
        self.timeout = timeout
        #: Seconds without a byte after which a connection counts as dead; several fit in a call's timeout.
        self.silence = min(max(timeout / 6, _SILENCE[0]), _SILENCE[1])
        if scheme == "http" and token and self.host not in ("127.0.0.1", "::1", "localhost"):
            raise _core.SecurityError(
                f"cannot send a token to {printable(self.host)} without TLS, where others could read it: use https://"
            )
        if key is not None and certificate is None:
            raise _core.ParameterError("key= requires certificate=, the certificate of this private key")
        self._tls = _context(certificate, key, ca) if scheme == "https" else None
        if token is not None and not (
            isinstance(token, str) and token and token.isascii() and token.isprintable() and " " not in token
        ):
            raise _core.ParameterError(
                "a token must be a string of printable ASCII characters without spaces; "
                "use the one from the service's operator"
            )
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._idle: list[
            tuple[http.client.HTTPConnection, float]
        ] = []  # idle connections, with the time since which each is idle
        self._lock, self._process = threading.Lock(), os.getpid()

    def __repr__(self) -> str:
        return f"{'https' if self._tls else 'http'}://{printable(self.host)}:{self.port}"

    # Connections

    def _take(self) -> http.client.HTTPConnection:
        """Returns an idle connection that seems alive, or a new one that is not connected yet."""
        if self._process != os.getpid():  # a forked child shares the connections of its parent
            self._process = os.getpid()
            self.close()
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if time.monotonic() - since < _LONGEST_IDLE and not _is_closed(connection):
                return connection
            connection.close()
        made = (
            http.client.HTTPConnection(self.host, self.port)
            if self._tls is None
            else http.client.HTTPSConnection(self.host, self.port, context=self._tls)
        )
        return made

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE and connection.sock is not None:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        """Closes idle connections."""
        with self._lock:
            kept, self._idle = self._idle, []
        for connection, _ in kept:
            connection.close()

    def _speaks_tls(self) -> bool:
        """Returns whether the port answers a TLS handshake. Certificates are not verified, because nothing is sent."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with socket.create_connection((self.host, self.port), min(self.timeout, _PROBE)) as plain:
                context.wrap_socket(plain, server_hostname=self.host).close()
        except OSError as error:
            return "ALERT" in str(getattr(error, "reason", ""))  # the port requires a certificate, or another TLS version
        return True

    # Requests

    def once(
        self, method: str, path: str, body: Any = None, *, until: float | None = None, wait: float = 0.0, **headers: str
    ) -> Reply:
        """Makes one attempt, until the time `until`. The service may be silent for `wait` more seconds before it answers.

        Raises CutError if there is no complete answer and another attempt may succeed; UnreachableError, CertificateError
        and AccessError if none will; and the error that the service returns.
        """
        connection = self._take()
        kept, stage, broken = connection.sock is not None, Stage.CONNECTING, None
        until = time.monotonic() + self.timeout if until is None else until
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        try:
            if not kept:
                connection.timeout = _step_timeout(self.silence, until)
                connection.connect()
            connection.response_class = partial(_Answer, until=until)  # type: ignore[assignment]
            stage = Stage.SENDING
            broken = _send(connection, method, path, body, self._headers | named, self.silence, until)
            if broken is None:  # otherwise the service may have answered early: its answer has the reason
                stage = Stage.WAITING
            _wait_for_answer(connection.sock, self.silence + (0.0 if broken else wait), until)
            answer = connection.getresponse()
            stage = Stage.READING
            data = _read(answer, connection, self.silence, until)
        except (OSError, http.client.HTTPException) as error:
            _abort(connection)
            self.close()  # the service may have ended, and the idle connections with it
            found = [failure_of(one, repr(self), stage, kept) for one in (broken, error) if one is not None]
            raise next((one for one in found if not isinstance(one, CutError)), found[-1]) from error
        except BaseException:
            _abort(connection)
            raise
        if broken is None:
            self._give_back(connection)
        else:
            connection.close()
        reply = Reply(answer.status, answer.headers, data)
        if answer.status >= 400:
            raise _error_of(reply)
        return reply

    def ask(self, method: str, path: str, body: Any = None, *, until: float, wait: float = 0.0, **headers: str) -> Reply:
        """Repeats `once` until the time `until` while the service is unreachable or busy. Use this function only for
        requests that may be sent twice.

        At the end, raises UnreachableError or BusyError; raises other errors of the service at once.
        """
        patience = self.patience(until - time.monotonic())
        while True:
            try:
                return self.once(method, path, body, until=patience.until, wait=wait, **headers)
            except ServiceError as error:
                self.again(patience, error)

    def patience(self, seconds: float) -> Patience:
        """Returns the attempts of one request."""
        return Patience(repr(self), seconds)

    def again(self, patience: Patience, error: ServiceError) -> None:
        """Same as `Patience.again`; also detects a service that speaks TLS where http:// was given."""
        is_not_http = isinstance(error.__cause__, (http.client.BadStatusLine, ConnectionError))
        new = isinstance(error, CutError) and error.stage is Stage.WAITING and not error.kept and patience.tries == 0
        if self._tls is None and is_not_http and new and self._speaks_tls():
            raise UnreachableError(f"{self!r} does not answer HTTP: the port speaks TLS; use https://") from None
        patience.again(error)


def _step_timeout(seconds: float, until: float) -> float:
    """Returns the timeout of a step: `seconds`, or less if less time is left."""
    return max(min(seconds, until - time.monotonic()), 0.05)


def _wait_for_answer(connection: socket.socket, seconds: float, until: float) -> None:
    """Waits for the answer's first byte: `seconds` from the peer's last acknowledgement of request bytes, because a slow
    link sends long after the system has accepted the data. Raises TimeoutError.
    """
    ready, unsent = select.poll(), _unsent_bytes(connection)
    ready.register(connection, select.POLLIN)
    end = time.monotonic() + seconds
    while not ready.poll(1000 * _step_timeout(_POLL, min(end, until))):
        now = time.monotonic()
        before, unsent = unsent, min(_unsent_bytes(connection), unsent)
        if unsent < before:
            end = now + seconds
        if now > min(end, until):
            raise TimeoutError
    connection.settimeout(_step_timeout(seconds, until))


def _unsent_bytes(connection: socket.socket) -> int:
    """Returns the bytes that the system has accepted and the peer has not acknowledged; 0 if it is not reported."""
    try:
        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def _abort(connection: http.client.HTTPConnection) -> None:
    """Closes a connection and discards its unsent bytes, which would delay later requests."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Returns whether the peer has closed an idle connection, or sent bytes that answer no request."""
    found = select.poll()
    try:
        found.register(connection.sock, select.POLLIN)
        return bool(found.poll(0))
    except (OSError, ValueError):
        return True


def _address(text: Any) -> tuple[str, str, int]:
    """Splits an address into scheme, host and port. Raises ParameterError for other parts."""
    try:
        parts = urlsplit(text if isinstance(text, str) and text.isprintable() and " " not in text else "")
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:  # includes UnicodeError
        host, port = "", None
    if isinstance(text, str) and "@" in text:  # the address is not quoted, because it may hold a password
        raise _core.ParameterError(
            'an address must be as in "https://host:8443", without a user or a password; '
            "authenticate by token= or certificate="
        )
    if not host or parts.scheme not in ("https", "http") or parts.path not in ("", "/") or parts.query or port == 0:
        raise _core.ParameterError(f'an address must be as in "https://host:8443", got {described(text)}')
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def path(*parts: str, **query: Any) -> str:
    """Returns a path below /v1 with a query string."""
    given = {name: value for name, value in query.items() if value is not None}
    return "/v1/" + "/".join(quote(part, safe="") for part in parts) + (f"?{urlencode(given)}" if given else "")


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    silence: float,
    until: float,
) -> OSError | None:
    """Sends a request. The head is sent first, so that the service sees it while the body is serialized.

    Returns the error by which the connection died before the whole request was sent, or None. Raises TimeoutError.
    """
    connection.putrequest(method, path, skip_accept_encoding=True)
    length = body.nbytes if isinstance(body, TensorBody) else 0 if body is None else memoryview(body).nbytes
    for name, text in headers.items():
        connection.putheader(name, text)
    if method in ("PUT", "POST"):
        connection.putheader("Content-Length", str(length))

    def send(data: Any) -> None:
        view = memoryview(data).cast("B")
        while view:
            _limit_timeout(connection.sock, silence, until)
            view = view[connection.sock.send(view[:_PIECE]) :]

    connection.sock.settimeout(_step_timeout(silence, until))
    try:
        connection.endheaders()
        if isinstance(body, TensorBody):
            body.write(send)
        elif length:
            send(body)
    except TimeoutError:
        raise
    except OSError as error:
        return error
    return None


def _limit_timeout(connection: socket.socket | None, silence: float, until: float) -> None:
    """Shortens the connection's timeout if less than `silence` is left. Raises TimeoutError."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if left < silence and connection is not None:
        connection.settimeout(left)


def _read(answer: http.client.HTTPResponse, connection: http.client.HTTPConnection, silence: float, until: float) -> bytes:
    """Reads an answer's body. Raises IncompleteRead if the connection ends early, TimeoutError, ServiceError for a body that
    is too long.
    """
    length, pieces, count = answer.length, list[bytes](), 0
    if length is not None and length > _LONGEST_ANSWER:
        raise ServiceError("an answer exceeds the longest answer of a service")
    if connection.sock is not None:
        connection.sock.settimeout(_step_timeout(silence, until))
    while piece := answer.read1(_PIECE):
        pieces.append(piece)
        count += len(piece)
        if count > _LONGEST_ANSWER:
            raise ServiceError("an answer exceeds the longest answer of a service")
        if answer.length != 0:
            _limit_timeout(connection.sock, silence, until)
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    if length is None and not answer.chunked and answer.status < 400:  # a cut would look like the end
        raise ServiceError("the answer is not from a Heliograph service: it must have a Content-Length; check the address")
    answer.close()
    return b"".join(pieces)


def _error_of(reply: Reply) -> Exception:
    """Returns the error of a response of the service, or of a load balancer before it."""
    try:
        content = json.loads(reply.body[:_LONGEST_TEXT] or b"{}")
    except (ValueError, RecursionError):
        content = {}
    after = _number(reply.headers.get("Retry-After"))
    if isinstance(content, dict) and isinstance(content.get("error"), dict):
        return error_from_json(content["error"])
    if name := reply.headers.get("Heliograph-Error"):
        return error_from_json({"name": name, "retry_after": after})
    if reply.status == 503:
        return BusyError("the service accepts no more connections at present; retry later", 0.5 if after is None else after)
    if reply.status == 429:
        return RateError(
            "a proxy before the service limits requests (HTTP 429); retry later", 1.0 if after is None else after
        )
    if reply.status in _GATEWAY:
        return CutError(f"a proxy before the service got no answer from it (HTTP {reply.status})", Stage.READING)
    return ServiceError(
        f"the answer is not from a Heliograph service, or a proxy before it refused: HTTP {reply.status}; check the address"
    )


def _number(text: str | None) -> float | None:
    """Parses a header that counts seconds; None if it is absent or a date."""
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _context(certificate: Any, key: Any, ca: Any) -> ssl.SSLContext:
    """Returns the client's TLS context. Host names and certificates are always verified."""
    with pem("CA certificates", ca):
        context = ssl.create_default_context(cafile=None if ca is None else path_of(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        with pem("certificate with its private key", certificate, key):
            context.load_cert_chain(path_of(certificate), None if key is None else path_of(key))
    return context
