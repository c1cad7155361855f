"""Strict mode: what may go wrong silently is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from heliograph import _core
from heliograph._arrays import flag

_STRICT: ContextVar[bool] = ContextVar("heliograph.strict", default=False)


def is_strict() -> bool:
    """Whether this thread, or this task, is inside `strict`."""
    return _STRICT.get()


@contextmanager
def strict(on: bool = True) -> Iterator[None]:
    """Inside, decryption asks for a proof by this process alone (``checked=True``), and a tensor whose bounds do not fit its modulus
    is not bootstrapped, saved or sent: RoomError. Of this thread or task alone; ``strict(False)`` takes it back inside.

    Bounds grow with each sum and product. Values beyond the room on the way harm nothing: only decoding and bootstrapping need it. So
    the sum of two such tensors is no error, and their difference may be right again.

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
    """What decryption asks of values: "proof", "usual" or "none". Raises ParameterError for both words at once."""
    proof, none = flag(checked, "checked"), flag(unchecked, "unchecked")
    if proof and none:
        raise _core.ParameterError("decrypt takes checked=True or unchecked=True, not both")
    return "none" if none else "proof" if proof or is_strict() else "usual"
