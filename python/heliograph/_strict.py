"""Strict mode: what may go wrong silently is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_STRICT: ContextVar[bool] = ContextVar("heliograph.strict", default=False)


def is_strict() -> bool:
    """Whether this thread, or this task, is inside `strict`."""
    return _STRICT.get()


@contextmanager
def strict(on: bool = True) -> Iterator[None]:
    """Inside, a tensor of CKKS whose values may outgrow their modulus is a RoomError where it would be made, and decryption asks
    for the proof (``checked=True``), as that of BFV's and BGV's exact integers does. Of this thread or task alone; ``strict(False)`` takes it back inside.

    Bounds are those that the process keeps from what it encrypted (`hg.ckks.Tensor.precision`), every sum and product at its
    worst. Nothing is known of tensors from files, nor of what is computed with them, until the key's owner decrypts them: then
    what they say of their `bound` counts.

    >>> import heliograph as hg
    >>> params = hg.ckks.parameters(depth=1, precision=20, integer_bits=4)
    >>> secret = hg.SecretKey.generate(params)
    >>> x = secret.encrypt([3.0] * params.slots, level=1)
    >>> with hg.strict():
    ...     x * 16  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    heliograph._core.RoomError: values may outgrow their modulus here ...
    """
    token = _STRICT.set(bool(on))
    try:
        yield
    finally:
        _STRICT.reset(token)
