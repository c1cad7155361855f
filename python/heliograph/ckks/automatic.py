"""Bootstraps by themselves: whoever computes counts no levels."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar

from heliograph import _core
from heliograph._arrays import count_of, described, is_real
from heliograph.host import logger
from heliograph.recording import recording_now

#: The largest bound that a bootstrap takes.
_MOST = 2.0**20

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class Observer(Protocol):
    """What sees each operation on tensors where bootstraps are placed (`placing`)."""

    decides: bool  #: whether it sees to levels, and nothing else does

    def operation(self, method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Performs one."""

    def same(self, made: Any, x: Any) -> None:
        """Told that `made` has become x."""

    def bootstrapped(self, made: Any, x: Any) -> None:
        """Told that `made` is x, bootstrapped by itself."""


_NOW: ContextVar[AutoBootstrap | None] = ContextVar("heliograph.ckks.auto_bootstrap", default=None)
OBSERVER: ContextVar[Observer | None] = ContextVar("heliograph.ckks.placing", default=None)


def operation(method: Callable[P, R]) -> Callable[P, R]:
    """Marks what makes a tensor of tensors. What it calls itself is a part of it."""

    @functools.wraps(method)
    def called(*args: P.args, **options: P.kwargs) -> R:
        observer = OBSERVER.get()
        if observer is None:
            return method(*args, **options)
        made: R = observer.operation(method, args, options)
        return made

    return called


@contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """By whom operations are seen inside; None: by nobody."""
    token = OBSERVER.set(observer)
    try:
        yield
    finally:
        OBSERVER.reset(token)


class AutoBootstrap:
    """What `hg.ckks.auto_bootstrap` does, and has done: `count` bootstraps, those of a tensor of many ciphertexts as one.

    >>> with hg.ckks.auto_bootstrap(bound=2) as auto:
    ...     y = x * x
    >>> auto.count  # x has levels left
    0
    """

    def __init__(self, bound: float | None, iterations: int) -> None:
        self.bound, self.iterations = bound, iterations
        self.count = 0
        #: By a tensor's identity: the tensor, how often it had been changed, in which recording it was, and what it became.
        self._done: dict[int, tuple[weakref.ref[Any], int, Any, Any]] = {}

    def __repr__(self) -> str:
        most = "their own bounds" if self.bound is None else f"at most {self.bound:g}"
        return f"<automatic bootstraps of values of {most}: {self.count} so far>"

    def _ready(self, x: Any, levels: int, keys: Any, least: int) -> Any:
        """x with so many levels above the one that bootstrapping starts at, bootstrapped where it has not.

        Below that level, where nothing can be done, x as it is while it has levels at all. So is a product that nobody rescaled:
        its level was seen to when it was made.
        """
        parameters = x.parameters
        entry, left = parameters.bootstrapping_level, x.level - levels
        enough = left >= max(entry, 1) or (x.level < entry and left >= 1)
        if (enough and x.level >= least) or x.scale > 2 * parameters.scale(x.level):
            return x
        if levels > parameters.depth_between and entry:
            raise _core.LevelError(
                f"this operation takes {levels} levels, and this set has {parameters.depth_between} after a bootstrap: choose "
                "one of more, or compute it in several steps"
            )
        now = recording_now()
        if id(x) in self._done:
            whose, changes, recording, made = self._done[id(x)]
            if (changes, recording) == (x._changes, now) and whose() is x:
                return made
        observer = OBSERVER.get()
        with observed(None):
            made = bounded(x, self.bound).bootstrap(self.bound, iterations=self.iterations, keys=keys)
        if observer is not None:
            observer.bootstrapped(made, x)
        self.count += 1
        logger.debug("bootstrap %d by itself: from level %d to %d", self.count, x.level, made.level)
        key, done = id(x), self._done
        done[key] = weakref.ref(x, lambda _: done.pop(key, None)), x._changes, now, made
        return made


def bounded(x: Any, bound: float | None) -> Any:
    """x on the user's word that its values are at most `bound`. Without one its own bound has to do: PlaintextRangeError that says so."""
    if bound is not None:
        return x.within(bound)
    if not x._core.known_bound <= _MOST:
        raise _core.PlaintextRangeError(
            f"this tensor's values may reach {x._core.known_bound:.6g} by their tracked bound, and a bootstrap takes at most 2^20: say the "
            "bound that they keep, auto_bootstrap(bound=...) or Bootstraps(bound=...), or say within(x, bound) before"
        )
    return x


def ready(x: T, levels: int, keys: Any, least: int = 1) -> T:
    """x for an operation that takes so many levels, from level `least` at the lowest: bootstrapped first where `auto_bootstrap` is on
    and it has too few.
    """
    auto, observer = _NOW.get(), OBSERVER.get()
    made: T = x if auto is None or (observer and observer.decides) else auto._ready(x, levels, keys, least)
    return made


def is_automatic() -> bool:
    """Whether operations bootstrap by themselves here."""
    observer = OBSERVER.get()
    return _NOW.get() is not None or (observer is not None and observer.decides)


@contextmanager
def by_hand() -> Iterator[None]:
    """Inside, no operation bootstraps."""
    token = _NOW.set(None)
    try:
        yield
    finally:
        _NOW.reset(token)


@contextmanager
def auto_bootstrap(bound: float | None = None, *, iterations: int = 1) -> Iterator[AutoBootstrap]:
    """Inside, an operation on tensors of CKKS that would leave a result too low to bootstrap bootstraps its operands first: no levels
    are counted. Of this thread or task alone; one inside another has its own `bound` and `iterations` (`hg.ckks.bootstrap`).

    `bound`: your word that every tensor that is bootstrapped so has values of at most that magnitude (`within`); larger ones come out
    wrong. Without it each tensor's tracked bound counts, which grows from operation to operation: PlaintextRangeError where it is unknown
    or beyond 2^20. A tensor that several operations use is bootstrapped once.
    The keys are the operands' (`evaluation_keys(bootstrap=True)` at their server). A program that is recorded inside holds the
    bootstraps as calls of its own.

    An operation raises MissingKeyError where there are no keys for it, ParameterError where the set has no bootstrapping, LevelError
    for more levels than a bootstrap leaves, or below the level that it starts at.

    >>> y = party.bind(owner.encrypt(np.full(1024, 0.5)))
    >>> with hg.ckks.auto_bootstrap(bound=1) as auto:
    ...     for _ in range(9):
    ...         y = 1 - y * y / 2  # far more levels than there are
    >>> auto.count, owner.decrypt(y).round(4)[:3]
    (5, array([0.7442, 0.7442, 0.7442]))
    """
    if bound is not None and (not is_real(bound) or not 0 < bound < math.inf):
        raise _core.ParameterError(f"a bound on values is a number above 0, not {described(bound)}")
    auto = AutoBootstrap(None if bound is None else float(bound), count_of(iterations, "iterations", 1))
    token = _NOW.set(auto)
    try:
        yield auto
    finally:
        _NOW.reset(token)
        auto._done.clear()
