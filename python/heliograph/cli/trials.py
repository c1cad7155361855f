"""heliograph selftest, for all schemes: runs a trial on a device and on the reference."""

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


class Fixture(Generic[T]):
    """Keys and two operands of a trial on one device."""

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
        #: Bytes and seconds of random results, computed once because each draw differs.
        self.recorded = {
            "keys": (key_bytes, clock[1] - clock[0]),
            "encrypt": (self.x.to_bytes() + self.y.to_bytes(), clock[2] - clock[1]),
        }


@dataclass(frozen=True)
class Row:
    """The result of one operation of a trial. `seconds` is the time of a call on the device."""

    trial: str
    operation: str
    seconds: float | None
    fault: str = ""


class Titled(Protocol):
    """A trial of any scheme."""

    @property
    def title(self) -> str:
        """The title in the table."""


def difference(mine: bytes, reference: bytes) -> str:
    """Describes the difference of two results; "" if they are equal."""
    if mine == reference:
        return ""
    if len(mine) != len(reference):
        return f"{len(mine):,} bytes, not {len(reference):,}"
    wrong = np.count_nonzero(np.frombuffer(mine, np.uint8) != np.frombuffer(reference, np.uint8))
    return f"{wrong:,} of {len(mine):,} bytes differ"


def run_steps(
    trial: Titled,
    make_fixture: Callable[[str | None], Fixture[T]],
    steps: Mapping[str, Callable[..., tuple[float, str]]],
    devices: Sequence[str | None] = (None, "ref"),
) -> Iterator[Row]:
    """Runs keys, encryptions and `steps` of a trial, each with a fixture for the device in use, then for the reference."""
    fixtures: list[Fixture[T]] = []

    def recorded(name: str) -> tuple[float, str]:
        mine, spent = fixtures[0].recorded[name]
        return spent, "".join(difference(mine, other.recorded[name][0]) for other in fixtures[1:])

    def prepare() -> tuple[float, str]:
        fixtures.extend(make_fixture(device) for device in devices)
        return recorded("keys")

    yield _attempt(trial, "keys", prepare)
    if len(fixtures) < len(devices):
        return
    yield _attempt(trial, "encrypt", partial(recorded, "encrypt"))
    for name, step in steps.items():
        yield _attempt(trial, name, partial(step, *fixtures))


def _attempt(trial: Titled, name: str, work: Callable[[], tuple[float | None, str]]) -> Row:
    """Runs a step and returns its time and fault. An error of the engine is a fault."""
    try:
        return Row(trial.title, name, *work())
    except hg.HeliographError as error:
        return Row(trial.title, name, None, f"{type(error).__name__}: {error}")
