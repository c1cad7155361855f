"""Levels and scales as the engine takes them."""

from __future__ import annotations

from heliograph import _core
from heliograph._arrays import whole
from heliograph.ckks.parameters import Parameters


def level_of(parameters: Parameters, level: int | None) -> int:
    """A level as the engine takes it: 0 for the top. Raises LevelError for what is none."""
    if level is None:
        return 0
    found = whole(level, "a level")
    if not 1 <= found <= parameters.levels:
        raise _core.LevelError(f"there is no level {found}: this set has levels 1 to {parameters.levels}")
    return found
