"""The picture of a trace, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliograph.tracing import Step

_LINE, _BARS = "tab:blue", "0.82"
_ROTATED = 45


def draw(axes: Any, steps: Sequence[Step]) -> None:
    """Bars of the times behind, what is left in front."""
    places = range(len(steps))
    times = axes.twinx()
    times.bar(places, [1e3 * step.seconds for step in steps], color=_BARS, width=0.7, zorder=1)
    times.set_ylabel("time of the step, ms", color="0.45")
    times.tick_params(axis="y", colors="0.45")
    axes.set_zorder(times.get_zorder() + 1)
    axes.patch.set_visible(False)
    label, values = _left(steps)
    if label == "level":
        axes.step(places, values, where="mid", color=_LINE, marker="o", markersize=4)
    elif label:
        axes.plot(places, values, color=_LINE, marker="o", markersize=4)
    axes.set_ylabel(
        label or ("this scheme's noise does not grow" if steps else "no steps"), color=_LINE if label else "0.45"
    )
    if label:
        axes.tick_params(axis="y", colors=_LINE)
        axes.set_ylim(bottom=0)
    else:
        axes.set_yticks([])
    axes.set_xticks(places, [step.name for step in steps], rotation=_ROTATED, ha="right", rotation_mode="anchor")


def _left(steps: Sequence[Step]) -> tuple[str, list[float]]:
    """The figure that the steps have, and its values: nan where one has none."""
    for name, label in (("noise_budget", "noise budget, bits"), ("precision", "precision, bits"), ("level", "level")):
        values = [getattr(step, name) for step in steps]
        if any(value is not None for value in values):
            return label, [float("nan") if value is None else float(value) for value in values]
    return "", []
