"""The model that computed an answer, as long as the answer is in this process. Files and messages do not carry it."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from heliograph import _core

T = TypeVar("T")
_MAKERS: dict[int, tuple[weakref.ref[Any], Any]] = {}  # by the answer's id, since tensors do not compare as a whole


def _forget(key: int, _: Any) -> None:
    _MAKERS.pop(key, None)


def made_by(answer: T, maker: Any) -> T:
    """Returns an answer, a tensor or a tuple of tensors, and notes the model that computed it.

    >>> made_by((), "a model")
    ()
    """
    for one in answer if isinstance(answer, tuple) else (answer,):
        _MAKERS[id(one)] = (weakref.ref(one, functools.partial(_forget, id(one))), maker)
    return answer


def is_equal(a: Any, b: Any) -> bool:
    """Tells whether two values are equal, field by field for dataclasses and element by element for arrays and tuples.

    >>> is_equal((1.0, float("nan")), (1.0, float("nan"))), is_equal(1.0, 2.0)
    (True, False)
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes())
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_equal, a, b))
    if dataclasses.is_dataclass(a):
        return all(is_equal(getattr(a, one.name), getattr(b, one.name)) for one in dataclasses.fields(a))
    return bool(a == b or (a != a and b != b))


def require_maker(answer: Any, reader: Any, same: Callable[[Any, Any], bool]) -> None:
    """Raises MismatchError if another model of the reader's class computed an answer, unless both are the `same`.

    >>> require_maker(None, "a model", lambda a, b: a == b)  # not computed here
    """
    for one in answer if isinstance(answer, (tuple, list)) else (answer,):
        noted, maker = _MAKERS.get(id(one), (None, None))
        if noted is None or noted() is not one or maker is reader or type(maker) is not type(reader):
            continue
        if not same(maker, reader):
            raise _core.MismatchError(
                f"another model computed this answer: {maker!r}, not {reader!r}. Send requests of a model to the server of "
                "the same model; digest= of hg.Client pins a model, and unchecked=True takes the numbers as they are"
            )
