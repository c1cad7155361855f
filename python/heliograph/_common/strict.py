"""Strict mode: results that may be silently wrong raise RoomError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from heliograph import _core
from heliograph._common.arguments import flag

_STRICT: ContextVar[bool] = ContextVar("heliograph.strict", default=False)


def is_strict() -> bool:
    """Tells whether this thread, or this asyncio task, is inside `strict`."""
    return _STRICT.get()


@contextmanager
def strict(on: bool = True) -> Iterator[None]:
    """Context manager: raises RoomError for results that may have exceeded their modulus.

    Inside the context, decryption requires bounds that this process itself derived (``checked=True``). A tensor whose
    bounds exceed its modulus is not bootstrapped, saved or sent. Strict mode holds for this thread or asyncio task;
    ``strict(False)`` suspends it.

    Bounds grow with each sum and product. An intermediate result beyond the modulus is no error, since a later difference
    may fit again. Only decoding and bootstrapping need the room.

    >>> import heliograph as hg
    >>> secret = hg.SecretKey.generate(hg.ckks.parameters("n13-l4"))  # of little room: 2^9
    >>> x = secret.encrypt([300.0] * 4096, level=1)
    >>> with hg.strict():
    ...     secret.decrypt(x + x)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    heliograph._core.RoomError: values of this tensor may have outgrown their modulus ...
    """
    token = _STRICT.set(bool(on))
    try:
        yield
    finally:
        _STRICT.reset(token)


def judged(checked: Any, unchecked: Any) -> str:
    """Returns the check that decryption applies to bounds: "proof", "usual" or "none".

    Raises ParameterError if both flags are given.
    """
    proof, none = flag(checked, "checked"), flag(unchecked, "unchecked")
    if proof and none:
        raise _core.ParameterError("decrypt takes checked=True or unchecked=True, not both")
    return "none" if none else "proof" if proof or is_strict() else "usual"
