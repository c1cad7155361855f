"""Garbage collection of the service's process in short steps.

Python collects all generations at once, which takes time for each living object: 0.1 to 0.5 s with 2,000 connections, in which no request
is answered. Here each step looks only at objects that are younger than the step before, and excludes the survivors from later steps.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

_EVERY = 1.0  # seconds between two steps
_GROWTH, _SLACK = 2, 50_000  # a full collection follows once the objects are so many times those of the last, and so many more
_IDLE_SLACK = 10_000  # the same while no job waits: then a pause delays no request


class Collector:
    """Collects in steps; `is_busy` says whether a pause would delay a job."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._kept = 0  # objects after the last full collection
        self.full = 0  #: full collections so far

    def collect(self) -> None:
        """Collects everything, and excludes the survivors from the steps that follow."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._kept, self.full = gc.get_freeze_count(), self.full + 1

    def step(self) -> None:
        """Collects what is young; everything if the excluded objects have become many."""
        excluded = gc.get_freeze_count()
        most = _GROWTH * self._kept + _SLACK if self._is_busy() else self._kept + _IDLE_SLACK
        if excluded > most:
            self.collect()
        else:
            gc.collect()
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
