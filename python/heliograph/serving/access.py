"""Who asks: clients by token or certificate, and how often each may ask."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from heliograph import _core
from heliograph._arrays import printable
from heliograph.serving.errors import AccessError, RateError

_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._@-]{0,63})\s+([0-9a-f]{64})")
_MOST_CLIENTS = 1 << 16  # whose rate is remembered
ANYBODY = "anybody"  #: the client of a service without tokens and certificates


def new_token(name: str) -> tuple[str, str]:
    """A token for a client, and the line of the service's file that knows it: its digest, from which nobody gets the token.

    Raises ParameterError for what is no name of a client.
    """
    token = secrets.token_urlsafe(32)
    line = f"{name} {hashlib.sha256(token.encode()).hexdigest()}"
    if not _LINE.fullmatch(line):
        raise _core.ParameterError(
            "a client's name is 1 to 64 letters, digits, dots, dashes, underscores and @, and begins with a letter or digit"
        )
    return token, line


class Access:
    """Names of clients, by the digests of their tokens. Two lines may name one client: an old token and a new one.

    Raises OSError, ParameterError for a file with another line.
    """

    def __init__(self, tokens: Path | None, certificates: bool) -> None:
        self.certificates = certificates
        self._names: dict[str, str] = {}
        self._path = tokens
        self.read()

    def read(self) -> bool:
        """The file, again: SIGHUP does it. Whether there is one."""
        if self._path is None:
            return False
        names: dict[str, str] = {}
        # Bytes that are no text are no line of it, and refused as such.
        for number, line in enumerate(self._path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise _core.ParameterError(
                    f"line {number} of the file of tokens {printable(str(self._path))} is not a client's name and 64 hexadecimal digits, as heliograph token prints"
                )
            names[match[2]] = match[1]
        self._names = names
        return True

    @property
    def open(self) -> bool:
        """Whether anybody may ask."""
        return self._path is None and not self.certificates

    def name(self, authorization: str | None, certificate: str | None) -> str:
        """The client's name, of ``Bearer TOKEN`` or of a certificate that the handshake has checked. Raises AccessError."""
        if self.open:
            return ANYBODY
        if certificate is not None and self.certificates:
            return f"certificate:{certificate}"
        scheme, _, token = (authorization or "").partition(" ")
        # Looked up by digest: how long it takes tells of digests, and of a random token's nothing can be found.
        found = self._names.get(hashlib.sha256(token.strip().encode()).hexdigest()) if scheme.lower() == "bearer" else None
        if found is None:
            raise AccessError("this service knows its clients by token or certificate, and knows neither of these")
        return found


class Rate:
    """So many requests a second for each client, a second's worth at once. Raises RateError beyond."""

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, owner: str) -> None:
        """One request of a client."""
        if self._rate is None:
            return
        now, most = self._clock(), max(self._rate, 1.0)
        left, then = self._left.pop(owner, (most, now))
        left = min(most, left + (now - then) * self._rate)
        allowed = left >= 1
        self._left[owner] = (left - allowed, now)
        if len(self._left) > _MOST_CLIENTS:
            del self._left[next(iter(self._left))]
        if not allowed:
            raise RateError(f"at most {self._rate:g} requests a second", (1 - left) / self._rate)


class Pace:
    """So many requests a second of each client, after a burst of so many: for what comes faster, how long it is to be held back."""

    def __init__(self, rate: float, burst: int, longest: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._longest, self._clock = rate, burst, longest, clock
        self._levels: dict[str, tuple[float, float]] = {}

    def delay(self, client: str) -> float:
        """Seconds for one more request of a client."""
        now = self._clock()
        level, then = self._levels.pop(client, (0.0, now))
        most = self._burst + self._rate * self._longest
        level = min(max(level - (now - then) * self._rate, 0.0) + 1, most)
        self._levels[client] = (level, now)
        if len(self._levels) > _MOST_CLIENTS:
            del self._levels[next(iter(self._levels))]
        return max(level - self._burst, 0.0) / self._rate
