"""JSON from untrusted sources, bounded in length and depth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

LONGEST, DEEPEST = 1 << 24, 100


def read_json(
    text: str | bytes, *, longest: int = LONGEST, deepest: int = DEEPEST, parse_float: Callable[[str], Any] | None = None
) -> Any:
    """Parses a JSON text of at most `longest` characters and `deepest` levels of nesting.

    Raises ValueError for other texts, and for NaN and infinities.

    >>> from heliograph._common.json import read_json
    >>> read_json("[" * 500 + "]" * 500)
    Traceback (most recent call last):
        ...
    ValueError: JSON is nested deeper than 100
    """
    if len(text) > longest:
        raise ValueError(f"JSON must have at most {longest:,} characters, not {len(text):,}")
    try:
        value = json.loads(text, parse_float=parse_float, parse_constant=_refused)
    except (RecursionError, MemoryError):
        raise ValueError(f"JSON is nested deeper than {deepest}") from None
    require_shallow(value, deepest)
    return value


def require_shallow(value: Any, deepest: int = DEEPEST) -> None:
    """Raises ValueError for lists and objects nested deeper than `deepest`."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, (list, tuple, dict))]:
        depth += 1
        if depth > deepest:
            raise ValueError(f"JSON is nested deeper than {deepest}")
        level = [part for one in level for part in (one.values() if isinstance(one, dict) else one)]


def _refused(text: str) -> Any:
    raise ValueError(f"JSON must hold finite numbers, not {text}")
