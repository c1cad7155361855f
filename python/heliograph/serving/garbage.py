"""Garbage collection of the service's process in short steps.

Python collects all generations at once, which takes time for each living object: 0.1 to 0.5 s with 2,000 connections, in which no request
is answered. Here each step looks only at objects that are younger than the step before, and excludes the survivors from later steps.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

_EVERY = 1.0  # seconds between two steps
_GROWTH, _SLACK = (
    2,
    200_000,
)  # a full collection follows once the objects are so many times those of the last, and so many more
_IDLE_SLACK = 10_000  # the same while no job waits: then a pause delays no request


class Collector:
    """Collects in steps; `is_busy` says whether a pause would delay a job."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._kept = self._excluded = 0  # objects after the last full collection, and now
        self.full = 0  #: full collections so far

    def collect(self) -> None:
        """Collects everything, and excludes the survivors from the steps that follow."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._kept = self._excluded = gc.get_freeze_count()  # it counts them one by one, which takes milliseconds
        self.full += 1

    def step(self) -> None:
        """Collects what is young; everything if the excluded objects have become many."""
        most = _GROWTH * self._kept + _SLACK if self._is_busy() else self._kept + _IDLE_SLACK
        if self._excluded > most:
            self.collect()
        else:
            gc.collect()
            self._excluded += len(gc.get_objects())
            gc.freeze()

    async def run(self) -> None:
        """Steps until it is cancelled; then Python collects as it does by default."""
        self.collect()
        try:
            while True:
                await asyncio.sleep(_EVERY)
                self.step()
        finally:
            gc.unfreeze()
