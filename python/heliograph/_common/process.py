"""Process-wide facilities: the log, the number of threads, cycles of a simulated device."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from heliograph import _core
from heliograph._common.arguments import described, is_whole, printable

#: The library's logger. The logger prints nothing until a handler is set up: ``logging.basicConfig(level=logging.INFO)``.
logger = logging.getLogger("heliograph")
logger.addHandler(logging.NullHandler())

_SETTING = "HELIOGRAPH_THREADS"
_MOST = 512
_is_logged = False


def log_device() -> None:
    """Logs the process's devices, once."""
    global _is_logged
    if _is_logged or not logger.isEnabledFor(logging.INFO):
        return
    _is_logged = True
    for line in _core.device.describe():
        logger.info("computing on %s", printable(line))


def threads(count: int | None = None) -> int:
    """Returns the number of CPU threads, after setting it to `count` (1 to 512) if given. The call opens the device.

    The number replaces the environment variable `HELIOGRAPH_THREADS`. Set it before any computation: an open device keeps
    its threads, and another number raises DeviceError. With a GPU, the threads do the host's work, such as encoding and
    files. Raises DtypeError, ParameterError for an invalid number.

    >>> import heliograph as hg
    >>> hg.threads(hg.threads()) == hg.threads()
    True
    """
    if count is None:
        return _in_use()
    if not is_whole(count):
        raise _core.DtypeError(f"a number of threads must be an integer, not {described(count)}")
    if not 1 <= count <= _MOST:
        raise _core.ParameterError(f"a number of threads must be 1 to {_MOST}, not {described(count)}")
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
        f"cannot change the number of threads: the device is open with {have} thread(s); call threads({count}) before any "
        f"computation, or set {_SETTING}"
    )


def _in_use() -> int:
    """Returns the number of threads of a CPU device; for other devices, the number of threads for the host's work."""
    counts = [int(n) for line in _core.device.describe() for n in re.findall(r"^cpu: (\d+) thread", line)]
    return counts[0] if counts else int(os.environ.get(_SETTING) or len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Cycles:
    """Counters of a simulated device; ``a - b`` counts between two readings.

    - `cycles`: cycles with work; `predicted`: the cycles that the device's model predicts.
    - `waited`: cycles in which an instruction waited for a unit, an operand or a bank.
    - `busy`: cycles with work, by unit.
    - `lists`, `instructions`: instruction lists and instructions performed.
    - `bytes_read`, `bytes_written`: bytes of the card's memory.
    - `stalled`: handshakes that the test bench delayed on purpose.
    - `sampled`, `moved`: limbs of random numbers and words that software sampled or moved.
    - `clock`: the assumed clock, in Hz.

    >>> import heliograph as hg
    >>> names = "waited lists instructions bytes_read bytes_written stalled sampled moved"
    >>> counts = dict.fromkeys(names.split(), 0)
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
        """Seconds of the cycles at the assumed clock."""
        return self.cycles / self.clock

    def __sub__(self, other: Cycles) -> Cycles:
        """Subtracts each counter."""
        counts = {f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self) if f.type == "int"}
        busy = {unit: count - other.busy.get(unit, 0) for unit, count in self.busy.items()}
        return Cycles(**counts, busy=busy, clock=self.clock)


def cycles() -> Cycles | None:
    """Returns the counters of a simulated device ("rtl") since it was opened; None for other devices.

    The call opens the device and waits for its work.

    >>> import heliograph as hg
    >>> hg.cycles() is None or hg.cycles().seconds >= 0
    True
    """
    counted: Any = _core.device.cycles()  # None if the device is not simulated
    return None if counted is None else Cycles(**counted)


class Span(NamedTuple):
    """An instruction of a simulated device: its unit, and its cycles [begin, end) within its list.

    >>> import heliograph as hg
    >>> hg.Span("ntt", 100, 3193).end
    3193
    """

    unit: str
    begin: int
    end: int


def timeline() -> list[Span]:
    """Returns the instructions of the last list that a simulated device ("rtl") performed, in order; empty for other
    devices.

    The call waits for the device's work. Times are those of the device's model (`cycles().predicted`). Units work in
    parallel. For several devices, the function returns the timeline of the first device.

    >>> import heliograph as hg
    >>> all(i.begin < i.end for i in hg.timeline())
    True
    """
    return [Span(*fields) for fields in _core.device.timeline()]
