"""What the process does beside the engine's work: its log, and how many threads it computes with."""

from __future__ import annotations

import logging
import os
import re

from heliograph import _core
from heliograph._arrays import described, is_whole, printable

#: The library's logger. It says nothing until a handler is set up: ``logging.basicConfig(level=logging.INFO)``.
logger = logging.getLogger("heliograph")
logger.addHandler(logging.NullHandler())

_SETTING = "HELIOGRAPH_THREADS"
_MOST = 512
_told = False


def log_device() -> None:
    """One line, the first time that it is asked for: what the process computes on."""
    global _told
    if _told or not logger.isEnabledFor(logging.INFO):
        return
    _told = True
    for line in _core.describe_devices():
        logger.info("computing on %s", printable(line))


def threads(count: int | None = None) -> int:
    """How many threads the cores compute with; with `count` (1 to 512), so many from now on. Opens the device.

    What `HELIOGRAPH_THREADS` does from outside, to be called before anything is computed: a device that is open keeps its threads,
    and asking it for another number is a DeviceError. Where a GPU computes, these are the threads of the host's part: encoding, files.
    Raises DtypeError, ParameterError for what is no such number.

    >>> import heliograph as hg
    >>> hg.threads(hg.threads()) == hg.threads()
    True
    """
    if count is None:
        return _in_use()
    if not is_whole(count):
        raise _core.DtypeError(f"a number of threads is an integer, not {described(count)}")
    if not 1 <= count <= _MOST:
        raise _core.ParameterError(f"a device has 1 to {_MOST} threads, not {described(count)}")
    before = os.environ.get(_SETTING)
    os.environ[_SETTING] = str(int(count))
    have = _in_use()
    if have == count:
        logger.info("%d threads", have)
        return have
    if before is None:
        del os.environ[_SETTING]
    else:
        os.environ[_SETTING] = before
    raise _core.DeviceError(
        f"the device is open and has {have} thread(s): call threads({count}) before anything else is computed, or set {_SETTING}"
    )


def _in_use() -> int:
    """As the device says; where it is none of the processor's, as the host's own work would have."""
    found = [int(n) for line in _core.describe_devices() for n in re.findall(r"^cpu: (\d+) thread", line)]
    return found[0] if found else int(os.environ.get(_SETTING) or len(os.sched_getaffinity(0)))
