"""Pickling, as what is pickled sees it: modules above say how each kind is read (`heliograph.keys`, `heliograph.sealed`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What `__reduce__` returns, by the kind of an object.
REDUCERS: dict[str, Callable[[Any], tuple[Any, ...]]] = {}
