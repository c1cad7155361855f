"""Ranks: the processes that compute together."""

from __future__ import annotations

from typing import NamedTuple

from heliograph import _core
from heliograph._common.arguments import printable


class Ranks(NamedTuple):
    """The number of this process, from 0, and the number of processes."""

    rank: int
    size: int


def ranks() -> Ranks:
    """Returns the rank of this process and the number of ranks; (0, 1) for a single process.

    Before the device's first use, the call joins the other ranks, so all ranks must call it. Raises DeviceError if some
    ranks do not join, MismatchError if ranks run different calls.

    >>> hg.ranks()  # alone
    Ranks(rank=0, size=1)
    """
    return Ranks(*_core.device.ranks())


def barrier() -> None:
    """Blocks until all ranks have called this function. Raises DeviceError if a rank has ended.

    >>> hg.barrier()  # a single process: returns at once
    """
    _core.device.meet_ranks()


def devices() -> list[str]:
    """Returns descriptions of the devices that were found, and of the process's device, a line for each.

    >>> len(hg.devices()) > 0
    True
    """
    return [printable(line) for line in _core.device.describe()]


def sent_bytes() -> int:
    """Returns the bytes that this process has sent to other ranks since it joined them; 0 for a single process.

    >>> hg.sent_bytes()  # a single process
    0
    """
    return int(_core.device.moved()["sent_bytes"])
