"""Registry of pickle reducers. The modules that read files fill this registry, so that tensors and parameters need not
import them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Functions that return the result of `__reduce__`, by kind of object.
REDUCERS: dict[str, Callable[[Any], tuple[Any, ...]]] = {}
