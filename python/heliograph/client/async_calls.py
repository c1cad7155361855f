"""A client's calls for asyncio: each runs on a thread, and cancelling its task cancels its job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_MAX_CALLS = 32  # concurrent calls; further calls are queued
_CANCEL_THREADS = 4  # threads for cancellations, which calls do not block
_CANCEL_SECONDS = 5.0  # seconds to retry a cancellation until the service knows the job
_POLL = 0.05


class AsyncCalls:
    """Runs calls on threads. `cancel` cancels a job at the service and returns whether the service knew the job."""

    def __init__(self, cancel: Callable[[str], bool]) -> None:
        self._cancel = cancel
        # asyncio's default executor would run a cancellation only after pending calls.
        self._calls = ThreadPoolExecutor(_MAX_CALLS, "heliograph-call")
        self._cancels = ThreadPoolExecutor(_CANCEL_THREADS, "heliograph-cancel")
        self.cancelled: set[str] = set()  #: ids of cancelled jobs, which must not be sent again

    async def run(self, id: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of `call`, which submits the job `id`. Cancelling the task also cancels the job."""
        work: Future[Any] = self._calls.submit(call, *arguments)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            if not work.cancelled():  # the call has begun on its thread
                self.cancelled.add(id)
                work.add_done_callback(lambda _: self.cancelled.discard(id))
                await asyncio.wrap_future(self._cancels.submit(self._cancel_job, id, work))
            raise

    def _cancel_job(self, id: str, work: Future[Any]) -> None:
        end = time.monotonic() + _CANCEL_SECONDS
        while not work.done() and not self._cancel(id) and time.monotonic() < end:
            time.sleep(_POLL)
