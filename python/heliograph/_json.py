"""JSON of strangers: bounded in length and depth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

LONGEST, DEEPEST = 1 << 24, 100


def read_json(
    text: str | bytes, *, longest: int = LONGEST, deepest: int = DEEPEST, parse_float: Callable[[str], Any] | None = None
) -> Any:
    """The value of a JSON text of at most `longest` characters, nested at most `deepest` deep; NaN and infinities are none.

    Raises ValueError for every other text.

    >>> from heliograph._json import read_json
    >>> read_json("[" * 500 + "]" * 500)
    Traceback (most recent call last):
        ...
    ValueError: JSON is nested deeper than 100
    """
    if len(text) > longest:
        raise ValueError(f"JSON of {len(text):,} characters; at most {longest:,} are read")
    try:
        found = json.loads(text, parse_float=parse_float, parse_constant=_refused)
    except (RecursionError, MemoryError):
        raise ValueError(f"JSON is nested deeper than {deepest}") from None
    require_shallow(found, deepest)
    return found


def require_shallow(value: Any, deepest: int = DEEPEST) -> None:
    """Raises ValueError for lists and objects nested deeper."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, (list, tuple, dict))]:
        depth += 1
        if depth > deepest:
            raise ValueError(f"JSON is nested deeper than {deepest}")
        level = [part for one in level for part in (one.values() if isinstance(one, dict) else one)]


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no number")
