"""HTTP as the client speaks it: connections that are kept, tries that are repeated, errors by their names. Of Python's own library alone."""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from heliograph import _core
from heliograph._arrays import described, path_of, printable
from heliograph.serving.errors import AccessError, BusyError, ServiceError, UnreachableError, from_wire

_LONGEST_TEXT = 1 << 22  # of an answer that is JSON
_LONGEST_ANSWER = 1 << 34
_MOST_KEPT = 8  # connections that wait for a next use
_PIECE = 256 << 10  # bytes that TLS is given at a time
_PROBE = 5.0  # seconds to find out whether TLS is spoken somewhere
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


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


class Line:
    """Requests to one service. Several threads may call it. Raises ParameterError for an address that is none; OSError for files."""

    def __init__(self, address: Any, token: str | None, certificate: Any, key: Any, ca: Any, timeout: float) -> None:
        scheme, self.host, self.port = _address(address)
        self.timeout = timeout
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
        self._kept: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{'https' if self._tls else 'http'}://{printable(self.host)}:{self.port}"

    # Connections

    def _taken(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._kept:
                return self._kept.pop()
        if self._tls is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self._tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def _given_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < _MOST_KEPT and connection.sock is not None:
                self._kept.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Closes what is kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
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

    def once(self, method: str, path: str, body: Any = None, seconds: float | None = None, **headers: str) -> Reply:
        """One try. Raises OSError and http.client.HTTPException where there is no answer, the error of an answer that is one."""
        connection = self._taken()
        try:
            wait = self.timeout if seconds is None else max(seconds, 0.001)
            connection.timeout = wait
            if connection.sock is not None:
                connection.sock.settimeout(wait)
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            try:
                _send(connection, method, path, body, self._headers | named)
            except (BrokenPipeError, ConnectionResetError):
                if connection.sock is None:
                    raise
                # The service may have answered before all was sent: its answer says why.
            answer = connection.getresponse()
            length = int(answer.headers.get("Content-Length") or 0)
            if length > _LONGEST_ANSWER:
                raise ServiceError("an answer is longer than any")
            data = answer.read()
        except BaseException:
            connection.close()
            raise
        self._given_back(connection)
        reply = Reply(answer.status, answer.headers, data)
        if answer.status >= 400:
            raise _refusal(reply)
        return reply

    def ask(self, method: str, path: str, body: Any = None, *, until: float, **headers: str) -> Reply:
        """As `once`, again and again until that time where nobody answers or the service is busy. For what may be sent twice.

        Raises UnreachableError, BusyError in the end, and other errors of the service at once.
        """
        pause, probed = _FIRST_PAUSE, False
        while True:
            try:
                return self.once(method, path, body, min(self.timeout, max(until - time.monotonic(), 0.05)), **headers)
            except BusyError as error:
                wait = max(error.retry_after, 0.01) * random.uniform(1.0, 1.2)
                if time.monotonic() + wait > until:
                    raise
            except (ssl.SSLCertVerificationError, ssl.CertificateError) as error:
                raise UnreachableError(
                    f"{self!r} does not show a certificate that is trusted here: {_untrusted(error)}"
                ) from None
            except ssl.SSLError as error:
                _require_taken(self, error)
                raise UnreachableError(f"{self!r} does not speak TLS as it should: {printable(reason(error))}") from None
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:  # no later try finds it
                    raise UnreachableError(f"{self!r} does not answer: no machine is known by this name") from None
                if isinstance(error, http.client.RemoteDisconnected) and self._tls is None and not probed:
                    probed = True
                    if self._speaks_tls():
                        raise UnreachableError(f"{self!r} does not answer: it speaks TLS, and may want https://") from None
                wait = pause * random.uniform(0.5, 1.0)
                pause = min(2 * pause, _LONGEST_PAUSE)
                if time.monotonic() + wait > until:
                    said = (
                        "not in time" if isinstance(error, socket.timeout) else printable(str(error)) or type(error).__name__
                    )
                    raise UnreachableError(f"{self!r} does not answer: {said}") from None
            time.sleep(wait)


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


def _require_taken(line: Line, error: ssl.SSLError) -> None:
    """Raises AccessError where the service says that it takes no client without a certificate, or not this one."""
    said = str(error.reason or "").upper()
    if "ALERT" in said and any(word in said for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")):
        raise AccessError(f"{line!r} does not take this client: {printable(reason(error))}") from None


_NO_AUTHORITY = (18, 19, 20, 21)  # X509_V_ERR_...: signed by itself, or by whom nobody here knows


def _untrusted(error: ssl.CertificateError) -> str:
    """Why not, and what to do where an authority is missing."""
    said = printable(getattr(error, "verify_message", "") or str(error))
    missing = getattr(error, "verify_code", 0) in _NO_AUTHORITY
    return said + ("; ca= (--ca) is the file of the authority that issued it" if missing else "")


def reason(error: ssl.SSLError) -> str:
    """OpenSSL's word, as a text."""
    return (error.reason or "it cannot be read").lower().replace("_", " ")


def path(*parts: str, **query: Any) -> str:
    """A path below /v1, with what stands after the question mark."""
    told = {name: value for name, value in query.items() if value is not None}
    return "/v1/" + "/".join(quote(part, safe="") for part in parts) + (f"?{urlencode(told)}" if told else "")


def _send(connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: dict[str, str]) -> None:
    """A request: its head at once, so that the service knows of it while the body is written."""
    connection.putrequest(method, path, skip_accept_encoding=True)
    length = body.nbytes if isinstance(body, Written) else 0 if body is None else memoryview(body).nbytes
    for name, text in headers.items():
        connection.putheader(name, text)
    if method in ("PUT", "POST"):
        connection.putheader("Content-Length", str(length))
    connection.endheaders()
    if isinstance(body, Written):
        body.write(connection.send)
    elif length:
        connection.send(body)


def _refusal(reply: Reply) -> Exception:
    """The error that a service answered with."""
    try:
        said = json.loads(reply.body[:_LONGEST_TEXT] or b"{}")
    except (ValueError, RecursionError):
        said = {}
    if isinstance(said, dict) and isinstance(said.get("error"), dict):
        return from_wire(said["error"])
    if name := reply.headers.get("Heliograph-Error"):
        return from_wire({"name": name})
    if reply.status == 503:
        return BusyError("the service takes no more connections at present", 0.5)
    return ServiceError(f"what answered is no service of Heliograph, or something before it: HTTP {reply.status}")


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
