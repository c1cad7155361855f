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
    """
    return Ranks(*_core.device_ranks())


def barrier() -> None:
    """Returns when all ranks have called it. Raises DeviceError where one is gone."""
    _core.meet_ranks()


def devices() -> list[str]:
    """What was found to compute on, and what the process's device is: a line each, for people."""
    return [printable(line) for line in _core.describe_devices()]


def sent_bytes() -> int:
    """What this process has sent to other ranks since it joined them: words of tensors and all else a program asks for. 0 alone."""
    return int(_core.device_moved()["sent_bytes"])
