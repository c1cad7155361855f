"""A request's bytes as an engine reads them: complete, or while they arrive."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from heliograph import _core


class IncomingRequest:
    """A file of `size` bytes, of which the first `count` have arrived; the service writes the rest. The object is a context
    manager that maps the file. Raises OSError.

    """

    def __init__(self, path: str, size: int, count: int = 0) -> None:
        self._path, self._size, self._arrived, self._dropped = path, size, count, False
        self._changed = threading.Condition()

    def set_arrived(self, count: int) -> None:
        """Records that `count` bytes have arrived."""
        with self._changed:
            self._arrived = count
            self._changed.notify()

    def drop(self) -> None:
        """Records that the remaining bytes will not arrive."""
        with self._changed:
            self._dropped = True
            self._changed.notify()

    def part(self, start: int, size: int) -> tuple[memoryview, Callable[[int], None]]:
        """Returns a view of `size` bytes and a function that waits until the first `count` of them have arrived. This
        function raises CancelledError if the bytes will not arrive.

        """

        def arrived(count: int) -> None:
            if self._arrived >= start + count:
                return
            with self._changed:
                while self._arrived < start + count:
                    if self._dropped:
                        raise _core.CancelledError("cannot read the request: its client stopped sending before the end")
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
