"""Retries: which failures of a connection end a call, after which the request is sent again, and when.

Every request of the client may be sent twice: GET, HEAD and DELETE are idempotent, the service knows a job by its id and an upload by
its digest and offset. So a connection that dies never ends a call by itself; the call's time does.
"""

from __future__ import annotations

import enum
import http.client
import random
import socket
import ssl
import time

from heliograph._arrays import printable
from heliograph.serving.errors import (
    AccessError,
    BusyError,
    CertificateError,
    ServiceError,
    UnreachableError,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between two tries
_LEAST = 0.05  # seconds that must be left for another try
_MOST_DOUBTS = 3  # handshakes in turn that fail on what both sides say: one corrupted byte does so once, a setting always
_NO_AUTHORITY = (18, 19, 20, 21)  # X509_V_ERR_...: self-signed, or the issuer is unknown
_REFUSED = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")  # TLS alerts about the client's certificate


class Stage(enum.IntEnum):
    """How far a request came."""

    CONNECTING = 0  #: nothing of it was sent
    SENDING = 1  #: the service has a part of it at most
    WAITING = 2  #: all was sent
    READING = 3  #: the answer began


_WHILE = {
    Stage.CONNECTING: "while connecting",
    Stage.SENDING: "while the request was sent",
    Stage.WAITING: "while the answer was awaited",
    Stage.READING: "in the middle of the answer",
}


class CutError(UnreachableError):
    """A try got no whole answer, and another try may get one. `Patience` turns the last one into an UnreachableError."""

    def __init__(self, text: str, stage: Stage, *, kept: bool = False, doubtful: bool = False) -> None:
        super().__init__(text)
        self.stage = stage
        self.kept = kept  #: the connection had been idle: most likely the service closed it then
        self.doubtful = doubtful  #: the two sides may not understand each other at all


def failure_of(error: Exception, service: str, stage: Stage, kept: bool = False) -> ServiceError:
    """The typed error of an OSError or HTTPException of one try: a CutError if another try may succeed, else what ends the call.

    Certificates, TLS's refusals and unknown names are final. All else is a connection that died, whichever layer noticed it:
    resets, ends of file with and without TLS's close_notify, records and heads that were corrupted or cut, and silence.
    """
    if isinstance(error, ssl.CertificateError):
        return CertificateError(f"{service} does not show a certificate that is trusted here: {_untrusted(error)}")
    if isinstance(error, ssl.SSLError):
        alert = str(getattr(error, "reason", None) or "").upper()
        if "ALERT" in alert and any(word in alert for word in _REFUSED):
            return AccessError(f"{service} does not take this client: {printable(reason(error))}")
    if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
        return UnreachableError(f"{service} does not answer: no machine is known by this name")
    return CutError(f"{_said(error)} {_WHILE[stage]}", stage, kept=kept, doubtful=_is_doubtful(error, stage))


def _is_doubtful(error: Exception, stage: Stage) -> bool:
    """Whether a handshake failed on its content. After the handshake, an SSLError is a record that was changed on the way."""
    dead = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    return stage is Stage.CONNECTING and isinstance(error, ssl.SSLError) and not isinstance(error, dead)


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no byte came or went in time"
    if isinstance(
        error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.RemoteDisconnected, http.client.IncompleteRead)
    ):
        return "the connection was closed"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {printable(reason(error))}"
    return printable(getattr(error, "strerror", None) or str(error)) or type(error).__name__


def _untrusted(error: ssl.CertificateError) -> str:
    """The reason, and what to do if an authority is missing."""
    said = printable(getattr(error, "verify_message", "") or str(error))
    missing = getattr(error, "verify_code", 0) in _NO_AUTHORITY
    return said + ("; ca= (--ca) is the file of the authority that issued it" if missing else "")


def reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason, as a text."""
    return (getattr(error, "reason", None) or "it cannot be read").lower().replace("_", " ")


class Patience:
    """The tries of one request: until when (`time.monotonic`), and the pauses between them, which grow and are jittered."""

    def __init__(self, service: str, seconds: float) -> None:
        self._service = service
        self.anew(seconds)

    def anew(self, seconds: float) -> None:
        """Begins again, because something came of it: `seconds` from now, short pauses."""
        self._began = time.monotonic()
        self.until = self._began + seconds
        self.tries = self._doubts = 0
        self._pause = _FIRST_PAUSE

    def extend(self, seconds: float) -> None:
        """Until `seconds` from now, because others got on: the pauses stay as they are."""
        self.until = max(self.until, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether no time is left for another try."""
        return self.left < _LEAST

    def again(self, error: ServiceError) -> None:
        """Returns once the next try may follow this error. Raises it, or UnreachableError after a cut, if no try may follow."""
        if isinstance(error, BusyError):
            wait = max(error.retry_after, _FIRST_PAUSE) * random.uniform(1.0, 1.2)
            if wait > self.left:
                raise error from None
            time.sleep(wait)
        elif isinstance(error, CutError):
            self.tries += 1
            self._doubts = self._doubts + 1 if error.doubtful else 0
            if self._doubts == _MOST_DOUBTS:
                raise UnreachableError(f"{self._service} does not speak TLS as it should: {error}") from None
            if self.is_over:
                tried = f"{self.tries} {'try' if self.tries == 1 else 'tries'} in {time.monotonic() - self._began:.3g} s"
                raise UnreachableError(f"{self._service} does not answer: {error}; {tried}") from None
            if not (error.kept and self.tries == 1):  # an idle connection had ended: that says nothing of the service
                self.pause()
        else:
            raise error from None

    def pause(self) -> None:
        """Until the next try: longer each time, and never all of the time that is left."""
        time.sleep(max(min(self._pause * random.uniform(0.5, 1.0), self.left / 2), 0.0))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
