"""Write figures of matplotlib as compact SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def save(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure in one line, without date and program, so that equal figures give equal bytes."""
    figure.savefig(path, metadata={"Date": None, "Creator": None}, **options)
    path.write_text(" ".join(path.read_text(encoding="utf-8").split()) + "\n", encoding="utf-8")
