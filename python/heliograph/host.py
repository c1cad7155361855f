"""What the process does beside the engine's work: its log, how many threads it computes with, a simulated device's cycles."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

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


@dataclass(frozen=True)
class Cycles:
    """What a simulated device has counted; `a - b` is what came between.

    `cycles` while it had work, `predicted` by its model; `waited` of them, an instruction waited for a unit, an operand or a bank.
    `busy`: of each unit, the cycles in which it had work. `lists` of `instructions` were performed, `bytes_read` and `bytes_written` of
    the card's memory; `stalled` handshakes were put off on purpose. By software: `sampled` limbs of random numbers, `moved` words.
    `clock` is assumed, in Hz.

    >>> import heliograph as hg
    >>> counts = dict.fromkeys(("waited", "lists", "instructions", "bytes_read", "bytes_written", "stalled", "sampled", "moved"), 0)
    >>> taken = hg.Cycles(cycles=82_000, predicted=82_010, busy={"ntt": 75_000}, clock=200e6, **counts)
    >>> f"{taken.seconds * 1e3:.2f} ms"
    '0.41 ms'
    """

    cycles: int
    predicted: int
    waited: int
    lists: int
    instructions: int
    bytes_read: int
    bytes_written: int
    stalled: int
    sampled: int
    moved: int
    busy: Mapping[str, int]
    clock: float

    @property
    def seconds(self) -> float:
        """What the cycles take at the assumed clock."""
        return self.cycles / self.clock

    def __sub__(self, other: Cycles) -> Cycles:
        """Count by count."""
        counts = {f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self) if f.type == "int"}
        busy = {unit: count - other.busy.get(unit, 0) for unit, count in self.busy.items()}
        return Cycles(**counts, busy=busy, clock=self.clock)


def cycles() -> Cycles | None:
    """What the device in use has counted since it was opened, once all work is done; None where nothing is simulated ("rtl" is).

    Opens the device.

    >>> import heliograph as hg
    >>> hg.cycles() is None or hg.cycles().seconds >= 0
    True
    """
    counted: Any = _core.device_cycles()  # or None
    return None if counted is None else Cycles(**counted)


class Span(NamedTuple):
    """An instruction of a simulated device: its unit, and the cycles [begin, end) of its list that it takes there.

    >>> import heliograph as hg
    >>> hg.Span("ntt", 100, 3193).end
    3193
    """

    unit: str
    begin: int
    end: int


def timeline() -> list[Span]:
    """The instructions of the last list that the device in use performed, in their order, once all work is done; by the device's
    model of itself, whose cycles `cycles().predicted` are. Several units work at a time. Of several devices the first one's;
    empty where nothing is simulated ("rtl" is).

    >>> import heliograph as hg
    >>> all(i.begin < i.end for i in hg.timeline())
    True
    """
    return [Span(*found) for found in _core.device_timeline()]
