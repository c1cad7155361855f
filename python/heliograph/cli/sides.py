"""heliograph selftest: a device and the reference side by side, whatever the scheme."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

import heliograph as hg

Array = npt.NDArray[Any]
T = TypeVar("T", bound=hg.Tensor[Any, Any])


class Side(Generic[T]):
    """One device at work on a trial: keys and two operands."""

    def __init__(self, secret: Any, values: Sequence[Array], **keys: Any) -> None:
        self.secret = secret
        clock = [time.perf_counter()]
        self.keys = secret.evaluation_keys(**keys)
        key_bytes = self.keys.to_bytes()
        clock.append(time.perf_counter())
        self.server: hg.Server[T] = hg.Server(self.keys)
        self.x, self.y = (self.server.bind(secret.encrypt(each)) for each in values)
        self.y.wait()
        clock.append(time.perf_counter())
        #: Made once, for each draw is another: bytes and seconds.
        self.made = {
            "keys": (key_bytes, clock[1] - clock[0]),
            "encrypt": (self.x.to_bytes() + self.y.to_bytes(), clock[2] - clock[1]),
        }


@dataclass(frozen=True)
class Row:
    """What became of one operation of one trial. `seconds` is a call's on the device, its operands there."""

    trial: str
    operation: str
    seconds: float | None
    fault: str = ""


class Titled(Protocol):
    """A trial of any scheme."""

    @property
    def title(self) -> str:
        """For a table."""


def difference(mine: bytes, reference: bytes) -> str:
    """What is to be said of two results; nothing where they are equal."""
    if mine == reference:
        return ""
    if len(mine) != len(reference):
        return f"{len(mine):,} bytes, not {len(reference):,}"
    wrong = np.count_nonzero(np.frombuffer(mine, np.uint8) != np.frombuffer(reference, np.uint8))
    return f"{wrong:,} of {len(mine):,} bytes differ"


def run_steps(
    trial: Titled,
    side: Callable[[str | None], Side[T]],
    steps: Mapping[str, Callable[..., tuple[float, str]]],
    devices: Sequence[str | None] = (None, "ref"),
) -> Iterator[Row]:
    """Keys, encryptions and `steps` of a trial, each given a side for each device: the one in use, then the reference."""
    sides: list[Side[T]] = []

    def made(name: str) -> tuple[float, str]:
        found, spent = sides[0].made[name]
        return spent, "".join(difference(found, other.made[name][0]) for other in sides[1:])

    def prepare() -> tuple[float, str]:
        sides.extend(side(device) for device in devices)
        return made("keys")

    yield _attempt(trial, "keys", prepare)
    if len(sides) < len(devices):
        return
    yield _attempt(trial, "encrypt", partial(made, "encrypt"))
    for name, step in steps.items():
        yield _attempt(trial, name, partial(step, *sides))


def _attempt(trial: Titled, name: str, work: Callable[[], tuple[float | None, str]]) -> Row:
    """The work's time and fault; an error of the engine's is a fault too."""
    try:
        return Row(trial.title, name, *work())
    except hg.HeliographError as error:
        return Row(trial.title, name, None, f"{type(error).__name__}: {error}")
