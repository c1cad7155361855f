"""A client's calls for asyncio: each on a thread, and its job ends with its task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_MOST = 32  # calls at once; others wait
_CANCELS = 4  # threads that cancel, which no call holds up
_PATIENCE = 5.0  # seconds in which a job that is on its way must be known to the service, to be cancelled there
_LOOK = 0.05


class Calls:
    """Runs calls. `cancel` ends a job at the service, and says whether the service knew it."""

    def __init__(self, cancel: Callable[[str], bool]) -> None:
        self._cancel = cancel
        # Not asyncio's own threads: a cancellation would wait there until calls are done.
        self._calls = ThreadPoolExecutor(_MOST, "heliograph-call")
        self._cancels = ThreadPoolExecutor(_CANCELS, "heliograph-cancel")
        self.unwanted: set[str] = set()  #: jobs that are not to be sent any more

    async def run(self, id: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """What the call returns, whose job has this id. A task that is cancelled meanwhile takes its job with it."""
        work: Future[Any] = self._calls.submit(call, *arguments)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if not work.cancelled():  # it has begun
                self.unwanted.add(id)
                work.add_done_callback(lambda _: self.unwanted.discard(id))
                await asyncio.wrap_future(self._cancels.submit(self._given_up, id, work))
            raise

    def _given_up(self, id: str, work: Future[Any]) -> None:
        end = time.monotonic() + _PATIENCE
        while not work.done() and not self._cancel(id) and time.monotonic() < end:
            time.sleep(_LOOK)
