"""Retries of the client: which connection failures end a call, which are retried, and when.

Every request may be sent twice: GET, HEAD and DELETE are idempotent, and the service identifies a job by its id and an
upload by its digest and offset. So a call whose connection dies ends only at its timeout.
"""

from __future__ import annotations

import enum
import http.client
import random
import socket
import ssl
import time

from heliograph._common.arguments import printable
from heliograph._common.service.errors import AccessError, BusyError, CertificateError, ServiceError, UnreachableError
from heliograph._common.service.tls import reason

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between two attempts
_LEAST = 0.05  # least seconds left for another attempt
# Consecutive handshakes that fail on their content: a corrupted byte causes one failure, a wrong setting makes all fail.
_MAX_HANDSHAKE_FAILURES = 3
_NO_AUTHORITY = (18, 19, 20, 21)  # X509_V_ERR_...: self-signed, or issuer unknown
_REFUSED = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")  # TLS alerts about the client's certificate


class Stage(enum.IntEnum):
    """How far a request has got."""

    CONNECTING = 0  #: nothing was sent
    SENDING = 1  #: the service has at most a part of the request
    WAITING = 2  #: the whole request was sent
    READING = 3  #: the answer has begun


_STAGE_TEXTS = {
    Stage.CONNECTING: "while connecting",
    Stage.SENDING: "while sending the request",
    Stage.WAITING: "while waiting for the answer",
    Stage.READING: "while reading the answer",
}


class CutError(UnreachableError):
    """An attempt got no complete answer from the service. Another attempt may succeed; `Patience` converts the last failure
    to an UnreachableError.

    """

    def __init__(self, text: str, stage: Stage, *, kept: bool = False, doubtful: bool = False) -> None:
        super().__init__(text)
        self.stage = stage
        self.kept = kept  #: whether the connection was reused after it was idle: the service probably closed it then
        self.doubtful = doubtful  #: whether the peers may be incompatible


def failure_of(error: Exception, service: str, stage: Stage, kept: bool = False) -> ServiceError:
    """Converts an OSError or HTTPException of one attempt to a typed error: a CutError if another attempt may succeed.

    Untrusted certificates, TLS alerts about the client and unknown host names are final. Any other failure counts as a dead
    connection: resets, ends of file with and without close_notify, corrupted or truncated records and heads, and timeouts.
    """
    if isinstance(error, ssl.CertificateError):
        return CertificateError(f"cannot trust the certificate of {service}: {_certificate_text(error)}")
    if isinstance(error, ssl.SSLError):
        alert = str(getattr(error, "reason", None) or "").upper()
        if "ALERT" in alert and any(word in alert for word in _REFUSED):
            return AccessError(
                f"{service} refuses this client: {printable(reason(error))}; "
                "give certificate= and key= (--certificate, --key) "
                "of an authority that it trusts"
            )
    if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
        return UnreachableError(f"cannot connect to {service}: its host name has no address; check the address")
    return CutError(
        f"{_description(error)} {_STAGE_TEXTS[stage]}", stage, kept=kept, doubtful=_is_handshake_failure(error, stage)
    )


def _is_handshake_failure(error: Exception, stage: Stage) -> bool:
    """Returns whether a handshake failed on its content. After the handshake, an SSLError means a corrupted record."""
    dead = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    return stage is Stage.CONNECTING and isinstance(error, ssl.SSLError) and not isinstance(error, dead)


def _description(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no byte was sent or received in time"
    if isinstance(
        error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.RemoteDisconnected, http.client.IncompleteRead)
    ):
        return "the connection was closed"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {printable(reason(error))}"
    return printable(getattr(error, "strerror", None) or str(error)) or type(error).__name__


def _certificate_text(error: ssl.CertificateError) -> str:
    """Returns the reason, with a remedy if the authority is unknown."""
    text = printable(getattr(error, "verify_message", "") or str(error))
    missing = getattr(error, "verify_code", 0) in _NO_AUTHORITY
    return text + ("; give ca= (--ca), the PEM file of the authority that issued it" if missing else "")


class Patience:
    """The attempts of one request: their deadline (`time.monotonic`), and jittered pauses that grow."""

    def __init__(self, service: str, seconds: float) -> None:
        self._service = service
        self.anew(seconds)

    def anew(self, seconds: float) -> None:
        """Starts again after progress: the deadline is `seconds` from now, pauses are short."""
        self._began = time.monotonic()
        self.until = self._began + seconds
        self.tries = self._handshake_failures = 0
        self._pause = _FIRST_PAUSE

    def extend(self, seconds: float) -> None:
        """Moves the deadline to `seconds` from now, because another client made progress. The pauses between attempts keep
        their lengths.

        """
        self.until = max(self.until, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.until - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether no time is left for another attempt."""
        return self.left < _LEAST

    def again(self, error: ServiceError) -> None:
        """Returns when the next attempt may follow this error. If no attempt may follow, raises the error, or
        UnreachableError after a cut.
        """
        if isinstance(error, BusyError):
            wait = max(error.retry_after, _FIRST_PAUSE) * random.uniform(1.0, 1.2)
            if wait > self.left:
                raise error from None
            time.sleep(wait)
        elif isinstance(error, CutError):
            self.tries += 1
            self._handshake_failures = self._handshake_failures + 1 if error.doubtful else 0
            if self._handshake_failures == _MAX_HANDSHAKE_FAILURES:
                raise UnreachableError(
                    f"cannot complete a TLS handshake with {self._service}: {error}; "
                    "check the address and both sides' TLS versions"
                ) from None
            if self.is_over:
                tried = (
                    f"{self.tries} {'attempt' if self.tries == 1 else 'attempts'} in {time.monotonic() - self._began:.3g} s"
                )
                raise UnreachableError(f"{self._service} does not answer: {error}; {tried}") from None
            if not (error.kept and self.tries == 1):  # a reused connection was closed, which says nothing about the service
                self.pause()
        else:
            raise error from None

    def pause(self) -> None:
        """Sleeps until the next attempt: longer each time, but at most half of the time left."""
        time.sleep(max(min(self._pause * random.uniform(0.5, 1.0), self.left / 2), 0.0))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
