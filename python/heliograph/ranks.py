"""The processes (ranks) that compute together, for the few lines of a program that need to know."""

from __future__ import annotations

from typing import NamedTuple

from heliograph import _core
from heliograph._arrays import printable


class Ranks(NamedTuple):
    """Which process this is, from 0, of how many."""

    rank: int
    size: int


def ranks() -> Ranks:
    """(0, 1) where this process computes alone. Joins the others where the device has not been used yet: all ranks call it.

    Raises DeviceError where they do not all come, MismatchError where they are not of one mind.

    >>> hg.ranks()  # alone
    Ranks(rank=0, size=1)
    """
    return Ranks(*_core.device_ranks())


def barrier() -> None:
    """Returns when all ranks have called it. Raises DeviceError where one is gone.

    >>> hg.barrier()  # alone: at once
    """
    _core.meet_ranks()


def devices() -> list[str]:
    """What was found to compute on, and what the process's device is: a line each, for people.

    >>> len(hg.devices()) > 0  # lines for people
    True
    """
    return [printable(line) for line in _core.describe_devices()]


def sent_bytes() -> int:
    """Bytes that this process has sent to other ranks since it joined them: words of tensors and all else. 0 alone.

    >>> hg.sent_bytes()  # alone
    0
    """
    return int(_core.device_moved()["sent_bytes"])
