"""Bootstraps in recorded programs: what is asked for, and where they are."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from heliograph import _core
from heliograph._arrays import count_of, described, is_real
from heliograph._html import Rows, Shown


@dataclass(frozen=True)
class Bootstraps:
    """How a program bootstraps: ``hg.program(f, bootstrap=hg.ckks.Bootstraps(bound=2))``; True is ``Bootstraps()``.

    `bound`: your word that every tensor of the function, on its way too, has values of at most that magnitude; larger ones come out
    wrong. Without it each tensor's tracked bound counts: PlaintextRangeError where it is unknown or beyond 2^20. `iterations`: as of `hg.ckks.bootstrap`. Raises ParameterError, DtypeError.

    >>> hg.ckks.Bootstraps(bound=2)
    Bootstraps(bound=2.0, iterations=1)
    """

    bound: float | None = None
    iterations: int = 1

    def __post_init__(self) -> None:
        if self.bound is not None:
            if not is_real(self.bound) or not 0 < self.bound < math.inf:
                raise _core.ParameterError(f"a bound on values is a number above 0, not {described(self.bound)}")
            object.__setattr__(self, "bound", float(self.bound))
        object.__setattr__(self, "iterations", count_of(self.iterations, "iterations", 1))


def bootstraps_of(asked: Any) -> Bootstraps | None:
    """What `hg.program` was asked for. Raises DtypeError."""
    if isinstance(asked, Bootstraps):
        return asked
    if not isinstance(asked, bool):
        raise _core.DtypeError(f"bootstrap is True, False or an hg.ckks.Bootstraps, not {described(asked)}")
    return Bootstraps() if asked else None


@dataclass(frozen=True)
class Bootstrapped:
    """One call that bootstraps, of one tensor or of several together.

    >>> y = party.bind(owner.encrypt(np.full(1024, 0.5), level=small.bootstrapping_level))
    >>> print(hg.program(lambda x: x * x, y, bootstrap=True).bootstraps.bootstraps[0])
    before operation 1, multiply: () at level 4
    """

    operation: int  #: which operation of the function it comes before, counted from 1
    before: str  #: what that is
    shapes: tuple[tuple[int, ...], ...]  #: of the tensors
    levels: tuple[int, ...]  #: that they had

    @property
    def ciphertexts(self) -> int:
        """How many there are in the call."""
        return sum(math.prod(shape) for shape in self.shapes)

    def __str__(self) -> str:
        each = ", ".join(f"{shape} at level {level}" for shape, level in zip(self.shapes, self.levels, strict=True))
        return f"before operation {self.operation}, {self.before}: {each}"


@dataclass(frozen=True)
class Placement(Shown):
    """Where a recorded program bootstraps, and what that takes: `Program.bootstraps`.

    >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
    >>> f = hg.program(lambda x: (x * x * x * x * x) * 0.5, y, bootstrap=True)
    >>> f.bootstraps.count, f.bootstraps.automatic_count
    (1, 1)
    >>> f.bootstraps.seconds <= f.bootstraps.automatic_seconds
    True
    """

    bootstraps: tuple[Bootstrapped, ...]
    operations: int  #: of the function, as its Python calls them
    seconds: float | None  #: predicted, of the whole program; None where the device has no rates
    automatic_count: int  #: calls that bootstrap by `hg.ckks.auto_bootstrap`, as late as possible
    automatic_seconds: float | None  #: predicted, of the program with these
    exact: bool  #: whether the search looked at all that could be cheaper
    automatic: bool  #: whether the placement is that of `hg.ckks.auto_bootstrap`

    @property
    def count(self) -> int:
        """Calls that bootstrap."""
        return len(self.bootstraps)

    def _summary(self) -> str:
        how = (
            "as auto_bootstrap places them"
            if self.automatic
            else "of all placements"
            if self.exact
            else "of those looked at"
        )
        other = "" if self.automatic else f" (by auto_bootstrap {_counted(self.automatic_count, self.automatic_seconds)})"
        return f"{_counted(self.count, self.seconds)}, {how if self.automatic else f'the least {how}'}{other}"

    def _rows(self) -> Rows:
        return [("bootstraps", self._summary()), *(("", str(b)) for b in self.bootstraps)]

    def __repr__(self) -> str:
        return "\n  ".join([f"<{self._summary()}", *map(str, self.bootstraps)]) + ">"

    def told(self) -> dict[str, Any]:
        """For JSON.

        >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
        >>> hg.program(lambda x: x * x, y, bootstrap=True).bootstraps.told()["bootstraps"]
        ()
        """
        return asdict(self)

    @staticmethod
    def of(told: Any) -> Placement:
        """From JSON, as a file has it. Raises DamagedFileError.

        >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
        >>> f = hg.program(lambda x: x * x, y, bootstrap=True)
        >>> hg.ckks.Placement.of(f.bootstraps.told()) == f.bootstraps
        True
        """
        try:
            each = tuple(
                Bootstrapped(
                    _whole(b["operation"]),
                    _text(b["before"]),
                    tuple(tuple(map(_whole, shape)) for shape in b["shapes"]),
                    tuple(map(_whole, b["levels"])),
                )
                for b in told["bootstraps"]
            )
            if any(len(b.shapes) != len(b.levels) for b in each):
                raise ValueError
            counted = _whole(told["automatic_count"])
            found = (_flag(told["exact"]), _flag(told["automatic"]))
            return Placement(
                each,
                _whole(told["operations"]),
                _seconds(told["seconds"]),
                counted,
                _seconds(told["automatic_seconds"]),
                *found,
            )
        except (ValueError, TypeError, KeyError):
            raise _core.DamagedFileError("a saved program does not say where it bootstraps") from None


def _counted(count: int, seconds: float | None) -> str:
    about = "" if seconds is None else f", about {seconds:.3g} s in all"
    return f"{count} bootstrap{'' if count == 1 else 's'}{about}"


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if not is_real(value) or not 0 <= value < math.inf:
        raise ValueError
    return float(value)
