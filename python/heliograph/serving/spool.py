"""Requests while they come, and until they are read: in memory, or beyond so many bytes of all of them in files."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from heliograph.serving.errors import QuotaError
from heliograph.serving.store import full_disks


class Body:
    """What a client sends, piece by piece. A face that can do without pieces in between has a `pour` of its own."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def pour(self, write: Callable[[memoryview | bytes], None]) -> None:
        """All of it through `write`, which keeps no piece. What that raises comes out."""
        async for piece in self:
            write(piece)


class Request:
    """A request's bytes, which one process writes and an engine reads by `path`."""

    def __init__(self, spool: Spool, nbytes: int, file: Path) -> None:
        self.nbytes, self._spool, self._file = nbytes, spool, file
        self.in_memory = spool.held + nbytes <= spool.memory
        self.have = 0
        if not self.in_memory:
            self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self.path = str(file)
            return
        # Anonymous: written by no disk, which others may keep busy, so that it can be written in the loop.
        self._descriptor = os.memfd_create("heliograph-request", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        try:
            os.ftruncate(self._descriptor, nbytes)  # engines map it while it comes
            fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        except OSError:
            os.close(self._descriptor)
            raise
        spool.held += nbytes

    def write(self, data: memoryview | bytes | bytearray) -> None:
        """Goes on. Raises QuotaError where there is no room."""
        view = memoryview(data)
        with full_disks():
            while view:
                done = os.write(self._descriptor, view)
                if not done:
                    raise QuotaError("the service's disk is full")
                self.have += done
                view = view[done:]

    def close(self) -> None:
        """Nobody reads it any more."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        os.close(descriptor)
        if self.in_memory:
            self._spool.held -= self.nbytes
        else:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)


class Spool:
    """Makes them. `memory` is how many bytes of requests are held in memory at most."""

    def __init__(self, memory: int) -> None:
        self.memory, self.held = memory, 0

    def take(self, nbytes: int, file: Path) -> Request:
        """For a request of so many bytes; `file` is where it lies if not in memory. Raises QuotaError, OSError."""
        with full_disks():
            return Request(self, nbytes, file)
