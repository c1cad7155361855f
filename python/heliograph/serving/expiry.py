"""The store's clock, by which keys expire. The clock counts only while the service runs, and ignores jumps of the machine's
clock.

If the machine's clock jumped by a year, all keys would expire at once, or none for a year. A jump of the clock is
indistinguishable from a stopped service, so the time of either does not count. The time is seconds since 1970 minus the
excluded seconds. A file stores the excluded seconds; its modification time is the time of the last reading.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from heliograph import _core
from heliograph._common import container
from heliograph._common.json import read_json
from heliograph.serving.numeric import real

_MAX_EXCLUDED = 1e12  # seconds; limit of the excluded time that the file may hold
_JUMP = 60.0  # seconds of difference between the two clocks since the last reading that count as a jump


class ExpiryClock:
    """A clock that does not jump, stored in the file `path`. Thread-safe.

    `clock` returns seconds since 1970; `steady` returns monotonic seconds.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._clock, self._steady = path, clock, steady
        self._lock = threading.Lock()
        self._excluded, self._jumps = 0.0, list[float]()
        self._clock_time, self._steady_time = clock(), steady()
        with contextlib.suppress(OSError, ValueError, TypeError, _core.ParameterError):
            self._excluded = real(
                read_json(path.read_text(encoding="utf-8")), "the time in clock.json", -_MAX_EXCLUDED, _MAX_EXCLUDED
            )
            present, self._clock_time = self._clock_time, path.stat().st_mtime
            self._read(present, self._steady_time)
        self._write()

    def _read(self, wall: float, steady: float) -> None:
        jump = (wall - self._clock_time) - (steady - self._steady_time)
        self._clock_time, self._steady_time = wall, steady
        if abs(jump) > _JUMP:
            self._excluded += jump
            self._jumps.append(jump)

    def now(self) -> float:
        """Returns the time in seconds. Only differences of these times are meaningful."""
        with self._lock:
            before = self._excluded
            self._read(self._clock(), self._steady())
            if self._excluded != before:
                self._write()
            return self._clock_time - self._excluded

    def to_unix_time(self, when: float) -> float:
        """Converts a time of `now` to seconds since 1970 by the machine's present clock."""
        return when + self._excluded

    def save(self) -> None:
        """Stores the time of this reading, so that the time until the next start does not count."""
        self.now()
        with self._lock:
            try:
                os.utime(self._path, (self._clock_time, self._clock_time))
            except OSError:
                self._write()

    def _write(self) -> None:
        """Writes the clock's file. If the disk is full, the old file stays and the next start detects the jump again."""
        with contextlib.suppress(OSError):
            container.save(str(self._path), json.dumps(self._excluded).encode())
            os.utime(self._path, (self._clock_time, self._clock_time))

    def jumps(self) -> list[float]:
        """Returns the jumps since the last call, in seconds; positive if the clock went forward."""
        with self._lock:
            found, self._jumps = self._jumps, []
        return found
