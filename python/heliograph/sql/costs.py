"""Forecasts of queries. Layouts show these forecasts by `forecast_rows`; the module `forecasts`, which depends on layouts,
registers its functions in this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """The forecast of a query's running time on the device in use."""

    seconds: float | None  #: running time, the reading of the table included; None if no forecast exists
    reading: float | None  #: the part of `seconds` that reading the table takes

    def rows(self) -> list[tuple[str, str]]:
        """Returns the label and the text of the forecast, as `explain` shows them."""
        if self.seconds is None or self.reading is None:
            return [("forecast", "unknown on this device")]
        return [
            ("forecast", f"about {readable(self.seconds)} on this device, {readable(self.reading)} of it to read the table")
        ]


#: Functions that return lines of `explain` for a layout.
FORECASTERS: list[Callable[[Any], list[tuple[str, str]]]] = []


def forecast_rows(layout: Any) -> list[tuple[str, str]]:
    """BGV answers queries on `filters` and `sums` in milliseconds."""
    return [line for forecast_row in FORECASTERS for line in forecast_row(layout)]


def readable(seconds: float) -> str:
    """Formats seconds."""
    if seconds >= 100:
        return f"{float(f'{seconds:.2g}'):,.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
