"""Bootstraps in recorded programs: options and placement."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from heliograph import _core
from heliograph._common.arguments import count_of, described, is_real
from heliograph._common.html import HtmlRepr, Rows


@dataclass(frozen=True)
class Bootstraps:
    """Options of bootstraps in a program: ``hg.program(f, bootstrap=hg.ckks.Bootstraps(bound=2))``; True is
    ``Bootstraps()``.

    `bound` declares the largest magnitude of values of all tensors of the function, intermediate ones included; larger
    values give wrong results. Without `bound`, each tensor's tracked bound is used; recording raises PlaintextRangeError if
    a tracked bound is unknown or above 2^20. `iterations` is as for `hg.ckks.bootstrap`. Raises ParameterError, DtypeError.

    >>> hg.ckks.Bootstraps(bound=2)
    Bootstraps(bound=2.0, iterations=1)
    """

    bound: float | None = None
    iterations: int = 1

    def __post_init__(self) -> None:
        if self.bound is not None:
            if not is_real(self.bound) or not 0 < self.bound < math.inf:
                raise _core.ParameterError(f"a bound on values must be a number above 0, not {described(self.bound)}")
            object.__setattr__(self, "bound", float(self.bound))
        object.__setattr__(self, "iterations", count_of(self.iterations, "iterations", 1))


def bootstraps_of(option: Any) -> Bootstraps | None:
    """Returns the options of an argument `bootstrap`; None for False. Raises DtypeError."""
    if isinstance(option, Bootstraps):
        return option
    if not isinstance(option, bool):
        raise _core.DtypeError(f"bootstrap must be True, False or an hg.ckks.Bootstraps, not {described(option)}")
    return Bootstraps() if option else None


@dataclass(frozen=True)
class Bootstrapped:
    """One call that bootstraps one tensor, or several tensors together.

    >>> y = party.bind(owner.encrypt(np.full(1024, 0.5), level=small.bootstrapping_level))
    >>> print(hg.program(lambda x: x * x, y, bootstrap=True).bootstraps.bootstraps[0])
    before operation 1, multiply: () at level 4
    """

    operation: int  #: number of the operation that follows the call, from 1
    before: str  #: name of the operation that follows the call
    shapes: tuple[tuple[int, ...], ...]  #: shapes of the tensors
    levels: tuple[int, ...]  #: levels of the tensors before the bootstrap

    @property
    def ciphertexts(self) -> int:
        """Number of ciphertexts in the call."""
        return sum(math.prod(shape) for shape in self.shapes)

    def __str__(self) -> str:
        each = ", ".join(f"{shape} at level {level}" for shape, level in zip(self.shapes, self.levels, strict=True))
        return f"before operation {self.operation}, {self.before}: {each}"


@dataclass(frozen=True)
class Placement(HtmlRepr):
    """The placement of bootstraps in a recorded program, with predicted times: `Program.bootstraps`.

    >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
    >>> f = hg.program(lambda x: (x * x * x * x * x) * 0.5, y, bootstrap=True)
    >>> f.bootstraps.count, f.bootstraps.automatic_count
    (1, 1)
    >>> f.bootstraps.seconds <= f.bootstraps.automatic_seconds
    True
    """

    bootstraps: tuple[Bootstrapped, ...]  #: the calls that bootstrap, in order
    operations: int  #: number of operations that the function's Python calls
    seconds: float | None  #: predicted time of the whole program; None if the device has no rates
    automatic_count: int  #: bootstrap calls of `hg.ckks.auto_bootstrap`, which bootstraps as late as possible
    automatic_seconds: float | None  #: predicted time of the program with the bootstraps of `automatic_count`
    exact: bool  #: whether the search covered all placements that could be cheaper
    automatic: bool  #: whether the placement is that of `hg.ckks.auto_bootstrap`

    @property
    def count(self) -> int:
        """Number of calls that bootstrap."""
        return len(self.bootstraps)

    def _summary(self) -> str:
        how = (
            "placed as by auto_bootstrap"
            if self.automatic
            else "of all placements"
            if self.exact
            else "of the placements searched"
        )
        other = "" if self.automatic else f" (by auto_bootstrap {_counted(self.automatic_count, self.automatic_seconds)})"
        return f"{_counted(self.count, self.seconds)}, {how if self.automatic else f'the fastest {how}'}{other}"

    def _rows(self) -> Rows:
        return [("bootstraps", self._summary()), *(("", str(b)) for b in self.bootstraps)]

    def __repr__(self) -> str:
        return "\n  ".join([f"<{self._summary()}", *map(str, self.bootstraps)]) + ">"

    def to_dict(self) -> dict[str, Any]:
        """Returns the placement as JSON values.

        >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
        >>> hg.program(lambda x: x * x, y, bootstrap=True).bootstraps.to_dict()["bootstraps"]
        ()
        """
        return asdict(self)

    @staticmethod
    def of(data: Any) -> Placement:
        """Reads a placement from the JSON values of `to_dict`. Raises DamagedFileError.

        >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
        >>> f = hg.program(lambda x: x * x, y, bootstrap=True)
        >>> hg.ckks.Placement.of(f.bootstraps.to_dict()) == f.bootstraps
        True
        """
        try:
            each = tuple(
                Bootstrapped(
                    _count(b["operation"]),
                    _text(b["before"]),
                    tuple(tuple(map(_count, shape)) for shape in b["shapes"]),
                    tuple(map(_count, b["levels"])),
                )
                for b in data["bootstraps"]
            )
            if any(len(b.shapes) != len(b.levels) for b in each):
                raise ValueError
            counted = _count(data["automatic_count"])
            flags = (_flag(data["exact"]), _flag(data["automatic"]))
            return Placement(
                each,
                _count(data["operations"]),
                _seconds(data["seconds"]),
                counted,
                _seconds(data["automatic_seconds"]),
                *flags,
            )
        except (ValueError, TypeError, KeyError):
            raise _core.DamagedFileError("damaged program: the placement of its bootstraps is invalid") from None


def _counted(count: int, seconds: float | None) -> str:
    about = "" if seconds is None else f", about {seconds:.3g} s in all"
    return f"{count} bootstrap{'' if count == 1 else 's'}{about}"


def _count(value: Any) -> int:
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
