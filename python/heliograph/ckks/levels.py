"""Checks of levels."""

from __future__ import annotations

from heliograph import _core
from heliograph._common.arguments import whole
from heliograph.ckks.parameters import Parameters


def level_of(parameters: Parameters, level: int | None) -> int:
    """Returns a level for the engine, 0 for the top. Raises DtypeError, LevelError."""
    if level is None:
        return 0
    number = whole(level, "a level")
    if not 1 <= number <= parameters.levels:
        raise _core.LevelError(f"there is no level {number}: this set has levels 1 to {parameters.levels}")
    return number
