"""What queries are forecast to take, and where layouts ask for it: what forecasts stands above them, and says so here when it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What a query is forecast to take on the device in use."""

    seconds: float | None  #: None where nothing forecasts it
    reading: float | None  #: of them, to read the table

    def rows(self) -> list[tuple[str, str]]:
        """A line for a person."""
        if self.seconds is None or self.reading is None:
            return [("forecast", "unknown on this device")]
        return [
            ("forecast", f"about {readable(self.seconds)} on this device, {readable(self.reading)} of it to read the table")
        ]


#: Lines of `explain` for a layout.
foretellers: list[Callable[[Any], list[tuple[str, str]]]] = []


def foretold(layout: Any) -> list[tuple[str, str]]:
    """What a typical query of a layout will take, by each scheme."""
    return [line for tell in foretellers for line in tell(layout)]


def readable(seconds: float) -> str:
    """For a person."""
    if seconds >= 100:
        return f"{float(f'{seconds:.2g}'):,.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
