"""Hook through which all operations on tensors run, for traces, automatic bootstraps and the search for bootstraps.

Each method or function that makes a tensor by a call of the engine has one of three decorators, `operation`, `view` or
`composite`.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Observer(Protocol):
    """Interface of an object that performs the operations of one context and may change their operands."""

    decides: bool  #: whether this observer alone decides on bootstraps and levels

    def operation(self, method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Performs an operation."""

    def same(self, made: Any, x: Any) -> None:
        """Reports that `made` now holds the content of x, after an in-place operation."""

    def bootstrapped(self, made: Any, x: Any) -> None:
        """Reports that `made` is x after an automatic bootstrap."""


#: A tracer is called for each outermost operation of any thread. The tracer's arguments are the operation's name, the
#: caller's frame, and a function that performs the operation. The tracer calls this function and returns its result.
Tracer = Callable[[str, FrameType, Callable[[], Any]], Any]

_OBSERVER: ContextVar[Observer | None] = ContextVar("heliograph.observer", default=None)
_INSIDE: ContextVar[bool] = ContextVar("heliograph.inside_operation", default=False)
_TRACERS: list[Tracer] = []
_LOCK = threading.Lock()


def observer_now() -> Observer | None:
    """Returns the observer of this context."""
    return _OBSERVER.get()


@contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """Sets the observer of operations inside the context; None for no observer."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def add_tracer(tracer: Tracer) -> None:
    """Adds a tracer of all threads."""
    with _LOCK:
        _TRACERS.append(tracer)


def remove_tracer(tracer: Tracer) -> None:
    """Removes a tracer."""
    with _LOCK:
        _TRACERS.remove(tracer)


def operation(method: Callable[P, R]) -> Callable[P, R]:
    """Marks a function that computes a tensor as one operation for the observer, and as a step of traces."""
    return _marked(method, _observed(method), is_step=True)


def view(method: Callable[P, R]) -> Callable[P, R]:
    """Marks a function whose result holds ciphertexts of its operand: an operation for observers, but no step of traces."""
    return _marked(method, _observed(method), is_step=False)


def composite(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function that consists of operations, or that makes tensors of other data. A trace shows the function as one
    step."""
    return _marked(function, function, is_step=True)


def is_marked(function: Any) -> bool:
    """Tells whether a function has one of the marks."""
    return hasattr(function, "__heliograph_step__")


def _observed(method: Callable[P, R]) -> Callable[P, R]:
    def performed(*args: P.args, **options: P.kwargs) -> R:
        observer = _OBSERVER.get()
        if observer is None:
            return method(*args, **options)
        made: R = observer.operation(method, args, options)
        return made

    return performed


def _marked(method: Callable[P, R], performed: Callable[P, R], is_step: bool) -> Callable[P, R]:
    @functools.wraps(method)
    def called(*args: P.args, **options: P.kwargs) -> R:
        if not _TRACERS or _INSIDE.get():
            return performed(*args, **options)
        token = _INSIDE.set(True)
        try:
            if not is_step:
                return performed(*args, **options)
            name = str(getattr(args[0], "_name", method.__name__)) if method.__name__ == "__call__" else method.__name__
            return _traced(name, functools.partial(performed, *args, **options))
        finally:
            _INSIDE.reset(token)

    called.__heliograph_step__ = is_step  # type: ignore[attr-defined]
    return called


def _traced(name: str, perform: Callable[[], R]) -> R:
    caller = sys._getframe(2)
    while caller.f_back is not None and caller.f_globals.get("__name__") == "heliograph._common.tensor":
        caller = caller.f_back  # skip frames of an operator called by NumPy
    for tracer in tuple(_TRACERS):
        perform = functools.partial(tracer, name, caller, perform)
    return perform()
