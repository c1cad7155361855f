"""Automatic bootstraps before operations that need more levels."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from heliograph import _core
from heliograph._common.arguments import count_of, described, is_finite_real
from heliograph._common.operations import observed, observer_now
from heliograph._common.process import logger
from heliograph.programs.program import recording_now

#: The largest bound that a bootstrap takes.
_MOST = 2.0**20

T = TypeVar("T")
_NOW: ContextVar[AutoBootstrap | None] = ContextVar("heliograph.ckks.auto_bootstrap", default=None)


class AutoBootstrap:
    """The state of a `hg.ckks.auto_bootstrap`. `count` is the number of bootstrapped tensors so far, of any size.

    >>> with hg.ckks.auto_bootstrap(bound=2) as auto:
    ...     y = x * x
    >>> auto.count  # x has levels left
    0
    """

    def __init__(self, bound: float | None, iterations: int) -> None:
        self.bound, self.iterations = bound, iterations
        self.count = 0
        #: Bootstrapped tensors by id: the tensor, its number of in-place changes, its recording, the iterations, and the
        #: result.
        self._done: dict[int, tuple[weakref.ref[Any], int, Any, int, Any]] = {}

    def __repr__(self) -> str:
        most = "their own bounds" if self.bound is None else f"at most {self.bound:g}"
        return f"<automatic bootstraps of values of {most}: {self.count} so far>"

    def _ready(self, x: Any, levels: int, keys: Any, least: int) -> Any:
        """Returns x, bootstrapped first if it has fewer than `levels` levels above the level that bootstrapping starts at.

        A tensor below that level cannot be bootstrapped and is returned unchanged while it has levels left. A product that
        is not rescaled is also returned unchanged, because its level was checked when the product was computed."""
        parameters = x.parameters
        entry, left = parameters.bootstrapping_level, x.level - levels
        enough = left >= max(entry, 1) or (x.level < entry and left >= 1)
        if (enough and x.level >= least) or x.scale > 2 * parameters.scale(x.level):
            return x
        if levels > parameters.depth_between and entry:
            raise _core.LevelError(
                f"this operation takes {levels} levels, but this set has {parameters.depth_between} after a bootstrap: "
                "choose a set with more levels, or compute it in several steps"
            )
        return self._bootstrapped(x, keys, self.iterations)

    def _bootstrapped(self, x: Any, keys: Any, iterations: int) -> Any:
        """Returns x at the top level, bootstrapped at its first use only."""
        now = recording_now()
        if id(x) in self._done:
            whose, changes, recording, times, made = self._done[id(x)]
            if (changes, recording) == (x._changes, now) and whose() is x and times >= iterations:
                return made
        observer = observer_now()
        with observed(None):
            made = bounded(x, self.bound).bootstrap(self.bound, iterations=iterations, keys=keys)
        if observer is not None:
            observer.bootstrapped(made, x)
        self.count += 1
        logger.debug("automatic bootstrap %d: from level %d to %d", self.count, x.level, made.level)
        key, done = id(x), self._done
        done[key] = weakref.ref(x, lambda _: done.pop(key, None)), x._changes, now, iterations, made
        return made


def bounded(x: Any, bound: float | None) -> Any:
    """Returns x with the declared `bound`, or x itself without one.

    Raises PlaintextRangeError if the bound of x exceeds 2^20."""
    if bound is not None:
        return x.within(bound)
    if not x._core.known_bound <= _MOST:
        raise _core.PlaintextRangeError(
            f"cannot bootstrap: values must be at most 2^20, but this tensor's may reach {x._core.known_bound:.6g} by their "
            "tracked bound. Declare a bound that holds: auto_bootstrap(bound=...), Bootstraps(bound=...) or within(x, bound)"
        )
    return x


def ready(x: T, levels: int, keys: Any, least: int = 1) -> T:
    """Returns x for an operation of `levels` levels that starts at level `least` or above.

    Inside `auto_bootstrap`, x is bootstrapped first if it has too few levels.
    """
    auto, observer = _NOW.get(), observer_now()
    made: T = x if auto is None or (observer and observer.decides) else auto._ready(x, levels, keys, least)
    return made


def automatic_now() -> AutoBootstrap | None:
    """Returns the `auto_bootstrap` of this context, unless a program's search decides where bootstraps are."""
    observer = observer_now()
    return None if observer and observer.decides else _NOW.get()


def is_automatic() -> bool:
    """Tells whether operations bootstrap automatically in this context."""
    observer = observer_now()
    return _NOW.get() is not None or (observer is not None and observer.decides)


def rotation_of_halves(x: Any, period: int) -> set[int]:
    """Returns the rotation by which a bootstrap of values of a period puts two halves into one ciphertext.

    Returns none for one half, and for sets with few slots, whose bootstrapping keys have the rotation.
    """
    halves = x.size > 1 or x.dtype == np.complex128
    whole = x.parameters.period == x.parameters.n // 2
    return {period} if whole and halves and 0 < 2 * period <= x.parameters.period else set()


@contextmanager
def by_hand() -> Iterator[None]:
    """Switches automatic bootstraps off inside the context."""
    token = _NOW.set(None)
    try:
        yield
    finally:
        _NOW.reset(token)


@contextmanager
def auto_bootstrap(bound: float | None = None, *, iterations: int = 1) -> Iterator[AutoBootstrap]:
    """Context manager: operations on tensors of CKKS bootstrap their operands when levels run out.

    An operation whose result would be too low for a bootstrap bootstraps its operands first. A tensor that several
    operations use is bootstrapped once. The context holds for this thread or asyncio task; a nested context has its own
    `bound` and `iterations` (`hg.ckks.bootstrap`).

    Signs, comparisons, and functions that use them, choose the places and the iterations of their bootstraps by gap and
    error.

    `bound` declares the largest magnitude of values of all tensors that are bootstrapped (`within`); larger values give
    wrong results. Without `bound`, each tensor's tracked bound is used, which grows with every operation. An unknown bound,
    or a bound above 2^20, raises PlaintextRangeError.

    The keys are those of the operands' server (`evaluation_keys(bootstrap=True)`). A program recorded inside contains the
    bootstraps.

    Operations raise MissingKeyError without keys for bootstrapping, and ParameterError if the set has no bootstrapping.
    Operations raise LevelError if they take more levels than a bootstrap leaves, or if an operand is below the bootstrapping
    level.

    >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
    >>> with hg.ckks.auto_bootstrap(bound=1) as auto:
    ...     for _ in range(9):
    ...         y = 1 - y * y / 2  # far more levels than there are
    >>> auto.count, owner.decrypt(y).round(4)[:3]
    (5, array([0.7442, 0.7442, 0.7442]))
    """
    if bound is not None and (not is_finite_real(bound) or not bound > 0):
        raise _core.ParameterError(f"a bound on values must be a number above 0, not {described(bound)}")
    auto = AutoBootstrap(None if bound is None else float(bound), count_of(iterations, "iterations", 1))
    token = _NOW.set(auto)
    try:
        yield auto
    finally:
        _NOW.reset(token)
        auto._done.clear()
