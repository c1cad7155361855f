"""Numbers of papers as printed, from the JSON files beside this module."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def of(paper: str) -> dict[str, Any]:
    """Returns the facts of a paper."""
    facts: dict[str, Any] = json.loads(Path(__file__).with_name(f"{paper}.json").read_text(encoding="utf-8"))
    return facts
