"""Parser of numbers from untrusted sources: query strings, headers, JSON, gRPC fields and options of the command."""

from __future__ import annotations

import re
from typing import Any

from heliograph import _core
from heliograph._common.arguments import described

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_REAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
LARGEST = 10**18 - 1  #: largest whole number


def whole(value: Any, what: str, low: int = 0, high: int = LARGEST) -> int:
    """Parses a whole number within [low, high] from an int or decimal digits. Raises ParameterError."""
    if isinstance(value, str):
        found = int(value) if _WHOLE.fullmatch(value) else None
    else:
        found = value if type(value) is int else None
    if found is None or not low <= found <= high:
        raise _core.ParameterError(f"{what} must be a whole number from {low:,} to {high:,}, got {_shown(value)}")
    return found


def real(value: Any, what: str, low: float, high: float) -> float:
    """Parses a finite number within [low, high] from an int, a float or decimal digits. Raises ParameterError."""
    if isinstance(value, str):
        found = float(value) if _REAL.fullmatch(value) else None
    else:
        found = float(value) if type(value) is float or (type(value) is int and abs(value) <= LARGEST) else None
    if found is None or not low <= found <= high:  # NaN compares false with every bound
        raise _core.ParameterError(f"{what} must be a number from {low:,g} to {high:,g}, got {_shown(value)}")
    return found


def _shown(value: Any) -> str:
    return "none" if value is None else described(value)
