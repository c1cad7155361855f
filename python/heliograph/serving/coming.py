"""A request's bytes as an engine reads them: whole, or while they come."""

from __future__ import annotations

import os
import threading
from typing import Self

from heliograph import _core


class Coming:
    """A file that somebody else writes, of which so many bytes `have` come. As a context it is open. Raises OSError."""

    def __init__(self, path: str, have: int = 0) -> None:
        self._path, self._descriptor = path, -1
        self._changed = threading.Condition()
        self._have, self._here, self._dropped = have, 0, False

    def more(self, have: int) -> None:
        """So many are there now."""
        with self._changed:
            self._have = have
            self._changed.notify()

    def drop(self) -> None:
        """No more will come, and who waits for them gets a CancelledError."""
        with self._changed:
            self._dropped = True
            self._changed.notify()

    def fill(self, view: memoryview) -> None:
        """The next bytes, as many as the view has, once they are there. Raises CancelledError, DamagedFileError."""
        end = self._here + len(view)
        with self._changed:
            while self._have < end and not self._dropped:
                self._changed.wait()
            if self._dropped:
                raise _core.CancelledError("the request did not come to its end")
        while self._here < end:
            got = os.preadv(self._descriptor, [view[self._here - end :]], self._here)
            if not got:
                raise _core.DamagedFileError("a request has fewer bytes than was said")
            self._here += got

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
