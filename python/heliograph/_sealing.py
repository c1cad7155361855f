"""Sealing, as what is sealed sees it: modules above say how each kind of model is written (`heliograph.sealed`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What seals a thing, by its kind: called with the thing, a path and options.
SEALERS: dict[str, Callable[..., Any]] = {}


def seal(kind: str, thing: Any, path: Any, **options: Any) -> Any:
    """Writes a thing as a sealed model; what was written, as `SealedModel.load` reads it."""
    return SEALERS[kind](thing, path, **options)
