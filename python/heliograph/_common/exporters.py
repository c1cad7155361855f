"""Registry of writers of model bundles. `heliograph.models.bundle` fills this registry, so that model classes need not
import that module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Writers by kind of model: f(model, path, **options).
EXPORTERS: dict[str, Callable[..., Any]] = {}


def export(kind: str, model: Any, path: Any, **options: Any) -> Any:
    """Writes a model as a model bundle and returns that `ModelBundle`."""
    return EXPORTERS[kind](model, path, **options)
