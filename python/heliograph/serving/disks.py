"""A store's disk: its errors by type, its lock, and what is certain to be on it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from heliograph import _core
from heliograph._arrays import printable
from heliograph.serving.errors import BusyError, QuotaError, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


@contextlib.contextmanager
def full_disks() -> Iterator[None]:
    """Errors of a disk by type: QuotaError if it has no room, BusyError if descriptors or memory are used up, else StorageError."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise QuotaError("the service's disk is full") from error
        if error.errno in _EXHAUSTED:
            raise BusyError("the service has no file descriptor or memory left for this", 1.0) from error
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        raise StorageError(f"the service cannot use its disk: {why}; its operator has to mend that") from error


def sync_folder(path: Path) -> None:
    """What was renamed in it is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def held(folder: Path) -> IO[bytes]:
    """A folder of one service at a time; the lock ends with the process, however that ends. Raises ParameterError, OSError."""
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise _core.ParameterError(
            f"another service runs with the store {printable(str(folder))}: each has a folder of its own"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # what a file system without locks says
            file.close()
            raise
    return file
