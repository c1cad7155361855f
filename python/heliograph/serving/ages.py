"""The time by which a service tells how long something has been there: it counts while the service runs, whatever the machine's clock does.

A clock that jumps by a year would otherwise let all keys expire at once, or none for a year; from outside a jump cannot be told from a
service that was away as long. So neither counts. What is told is seconds since 1970, less those that did not count; these are in a file,
whose time of change is when the clock was last looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from heliograph import _container, _core
from heliograph._json import read_json
from heliograph.serving.numeric import real

_LONGEST = 1e12  # seconds that may not count
_JUMP = 60.0  # seconds that a clock may go otherwise between two looks: more is a jump, or an absence


class Ages:
    """A clock that does not jump. `path` is its file. Several threads may ask it.

    `clock` gives seconds since 1970, `steady` those since some start, which nobody sets.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._clock, self._steady = path, clock, steady
        self._lock = threading.Lock()
        self._away, self._jumps = 0.0, list[float]()
        self._wall, self._at = clock(), steady()
        with contextlib.suppress(OSError, ValueError, TypeError, _core.ParameterError):
            self._away = real(read_json(path.read_text(encoding="utf-8")), "the time in clock.json", -_LONGEST, _LONGEST)
            present, self._wall = self._wall, path.stat().st_mtime
            self._look(present, self._at)
        self._write()

    def _look(self, wall: float, steady: float) -> None:
        jump = (wall - self._wall) - (steady - self._at)
        self._wall, self._at = wall, steady
        if abs(jump) > _JUMP:
            self._away += jump
            self._jumps.append(jump)

    def now(self) -> float:
        """Seconds, of which differences alone say something."""
        with self._lock:
            before = self._away
            self._look(self._clock(), self._steady())
            if self._away != before:
                self._write()
            return self._wall - self._away

    def shown(self, when: float) -> float:
        """A time that `now` gave, in seconds since 1970 by the machine's present clock."""
        return when + self._away

    def save(self) -> None:
        """That the clock was looked at: what comes between now and a next start does not count."""
        self.now()
        with self._lock:
            try:
                os.utime(self._path, (self._wall, self._wall))
            except OSError:
                self._write()

    def _write(self) -> None:
        """A disk without room keeps what was there: then the same jump is found once more."""
        with contextlib.suppress(OSError):
            _container.save(str(self._path), json.dumps(self._away).encode())
            os.utime(self._path, (self._wall, self._wall))

    def jumps(self) -> list[float]:
        """Seconds that did not count, one for each jump since the last question: above 0 where the clock went forward."""
        with self._lock:
            found, self._jumps = self._jumps, []
        return found
