"""Authentication of clients by token or certificate, and their rate limits."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from heliograph import _core
from heliograph._common.arguments import described, printable
from heliograph._common.service.errors import AccessError, RateError

_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._@-]{0,63})\s+([0-9a-f]{64})")
_MAX_CLIENTS = 1 << 16  # clients whose rate is remembered
ANONYMOUS = "anybody"  #: the name of all clients of a service without tokens and certificates


def new_token(name: str) -> tuple[str, str]:
    """Returns a random token for a client and the token's line for the service's token file. The line holds the token's
    SHA-256 only.

    Raises ParameterError if `name` is not a valid client name.
    """
    token = secrets.token_urlsafe(32)
    line = f"{name} {hashlib.sha256(token.encode()).hexdigest()}"
    if not _LINE.fullmatch(line):
        raise _core.ParameterError(
            "a client's name must be 1 to 64 letters, digits, dots, dashes, underscores or @, "
            "and begin with a letter or digit; "
            f"got {described(name)}"
        )
    return token, line


class Access:
    """Maps the SHA-256 of tokens to client names. Two lines may name one client, so that a token can be replaced without a
    break.

    Raises OSError; ParameterError for a file with an invalid line.
    """

    def __init__(self, tokens: Path | None, certificates: bool) -> None:
        self.certificates = certificates
        self._names: dict[str, str] = {}
        self._path = tokens
        self.read()

    def read(self) -> bool:
        """Reads the token file, at the start and on SIGHUP. Returns whether there is a token file."""
        if self._path is None:
            return False
        names: dict[str, str] = {}
        # Bytes that are not UTF-8 become a line that does not match, which is refused.
        for number, line in enumerate(self._path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise _core.ParameterError(
                    f"cannot read the token file {printable(str(self._path))}: line {number} must be a client's name and "
                    "64 hexadecimal digits; heliograph token NAME prints such a line"
                )
            names[match[2]] = match[1]
        self._names = names
        return True

    @property
    def open(self) -> bool:
        """Whether the service accepts clients without a token or certificate."""
        return self._path is None and not self.certificates

    def name(self, authorization: str | None, certificate: str | None) -> str:
        """Returns the client's name, from ``Bearer TOKEN`` or from a certificate that the TLS handshake has verified. Raises
        AccessError.
        """
        if self.open:
            return ANONYMOUS
        if certificate is not None and self.certificates:
            return f"certificate:{certificate}"
        scheme, _, token = (authorization or "").partition(" ")
        # The look-up's time depends only on the SHA-256 of a token, which reveals nothing about a random token.
        found = self._names.get(hashlib.sha256(token.strip().encode()).hexdigest()) if scheme.lower() == "bearer" else None
        if found is None:
            given = "an unknown one" if authorization or certificate else "none"
            raise AccessError(
                f"the service requires a token or certificate that it knows, got {given}; "
                "ask its operator for a token (heliograph token NAME)"
            )
        return found


class Rate:
    """Limits each client to `rate` requests a second, with a burst of one second's worth (at least 1). If `rate` is None,
    there is no limit.

    """

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, owner: str) -> None:
        """Counts one request of a client. Raises RateError if the client exceeds its limit."""
        if self._rate is None:
            return
        now, most = self._clock(), max(self._rate, 1.0)
        left, then = self._left.pop(owner, (most, now))
        left = min(most, left + (now - then) * self._rate)
        allowed = left >= 1
        self._left[owner] = (left - allowed, now)
        if len(self._left) > _MAX_CLIENTS:
            del self._left[next(iter(self._left))]
        if not allowed:
            wait = (1 - left) / self._rate
            raise RateError(
                f"the service accepts at most {self._rate:g} requests a second of one client; retry in {wait:.3g} s", wait
            )


class Pace:
    """Computes how long to delay requests of a client that sends more than `rate` a second after a burst of `burst`
    requests.
    """

    def __init__(self, rate: float, burst: int, longest: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._longest, self._clock = rate, burst, longest, clock
        self._levels: dict[str, tuple[float, float]] = {}

    def delay(self, client: str) -> float:
        """Counts one request of a client. Returns the client's delay in seconds, at most `longest`."""
        now = self._clock()
        level, then = self._levels.pop(client, (0.0, now))
        most = self._burst + self._rate * self._longest
        level = min(max(level - (now - then) * self._rate, 0.0) + 1, most)
        self._levels[client] = (level, now)
        if len(self._levels) > _MAX_CLIENTS:
            del self._levels[next(iter(self._levels))]
        return max(level - self._burst, 0.0) / self._rate
