"""A request's bytes as an engine reads them: whole, or while they come."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from heliograph import _core


class Coming:
    """A file of `size` bytes, of which `have` have come; somebody else writes the rest. As a context it is in memory. Raises OSError."""

    def __init__(self, path: str, size: int, have: int = 0) -> None:
        self._path, self._size, self._have, self._dropped = path, size, have, False
        self._changed = threading.Condition()

    def more(self, have: int) -> None:
        """So many are there now."""
        with self._changed:
            self._have = have
            self._changed.notify()

    def drop(self) -> None:
        """No more will come."""
        with self._changed:
            self._dropped = True
            self._changed.notify()

    def part(self, start: int, size: int) -> tuple[memoryview, Callable[[int], None]]:
        """So many bytes, and what returns once so many of the first of them are there; it raises CancelledError where they will not be."""

        def arrived(count: int) -> None:
            if self._have >= start + count:
                return
            with self._changed:
                while self._have < start + count:
                    if self._dropped:
                        raise _core.CancelledError("the request did not come to its end")
                    self._changed.wait()

        return self._view[start : start + size], arrived

    def __enter__(self) -> Self:
        with Path(self._path).open("rb") as file:
            self._map = mmap.mmap(file.fileno(), self._size, access=mmap.ACCESS_READ)
        self._view = memoryview(self._map)
        return self

    def __exit__(self, *_: object) -> None:
        self._view.release()
        self._map.close()
