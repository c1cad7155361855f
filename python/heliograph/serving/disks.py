"""The store's disk: typed errors, the folder lock and durable renames."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph._common.service.errors import BusyError, QuotaError, StorageError

DISK_FULL = "the service's disk is full; revoke keys that are no longer used, or tell its operator"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Maps an OSError: QuotaError if the disk is full, BusyError if descriptors or memory are exhausted, otherwise
    StorageError.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise QuotaError(DISK_FULL) from error
        if error.errno in _EXHAUSTED:
            raise BusyError("the service has no file descriptor or memory left at present; retry in 1 s", 1.0) from error
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        raise StorageError(f"the service cannot use its disk: {why}; tell its operator") from error


def sync_folder(path: Path) -> None:
    """Flushes the folder's entries, so that renames in it are durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_folder(folder: Path) -> IO[bytes]:
    """Locks a store's folder for this process, until the process ends. Raises ParameterError if another service holds the
    lock; OSError.

    """
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise _core.ParameterError(
            f"cannot open the store {printable(str(folder))}: another service uses it; give another --store"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # the file system has no locks
            file.close()
            raise
    return file
