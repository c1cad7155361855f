"""Draw the pictures of docs/papers/kim-2025.md, timeline.svg and roofline.svg, from the committed results.

Run python docs/pictures/kim.py [--png]; it needs matplotlib (the extra "plot").
"""

from __future__ import annotations

import bisect
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import svg

mpl.use("agg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "heliograph", "font.size": 9})

from matplotlib import pyplot  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CARDS = ("h200", "h100")
SHOWN = 250.0  # microseconds of each run that the timeline shows
KINDS = {
    "limb_sums": ("sums of limbs", "#8a94a6"),
    "ntt": ("transforms", "#c8553d"),
    "convert": ("conversions between bases", "#1b2a41"),
}
OTHER = ("copies and fills", "#d9b44a")
LEVELS = {"dram": ("DRAM", "copy in DRAM", "o"), "l2": ("L2", "copy in L2", "s")}
RADICES = {2: "#c8553d", 4: "#d9b44a", 8: "#4f7cac", 16: "#1b2a41"}


def write(figure: Any, picture: Path) -> None:
    """Write a figure as SVG or PNG, by the suffix of the path."""
    if picture.suffix == ".svg":
        svg.save(figure, picture)
    else:
        figure.savefig(picture, dpi=150)


def colour(name: str) -> str:
    """Return the colour of a kernel."""
    return next((value for key, (_, value) in KINDS.items() if name.startswith(key)), OTHER[1])


def densest(events: list[dict[str, Any]], microseconds: float) -> list[dict[str, Any]]:
    """Return the events of the interval in which most events begin, with times from 0."""
    begins = sorted(e["ts"] for e in events)
    start = max(begins, key=lambda t: bisect.bisect_left(begins, t + microseconds) - bisect.bisect_left(begins, t))
    return [e | {"ts": e["ts"] - start} for e in events if start <= e["ts"] < start + microseconds]


def timeline(trace: Path, picture: Path, microseconds: float) -> None:
    """Draw some microseconds of each run in a trace of benchmarks/runners/timeline.py."""
    found = json.loads(trace.read_text(encoding="utf-8"))
    names = {e["pid"]: e["args"]["name"] for e in found["traceEvents"] if e["ph"] == "M"}
    figure, axes = pyplot.subplots(len(names), 1, figsize=(8, 1.2 * len(names) + 0.6), sharex=True, layout="constrained")
    for axis, (pid, words) in zip([axes] if len(names) == 1 else axes, names.items(), strict=True):
        shown = densest([e for e in found["traceEvents"] if e["ph"] == "X" and e["pid"] == pid], microseconds)
        for lane in sorted({e["tid"] for e in shown}):
            mine = [e for e in shown if e["tid"] == lane]
            axis.broken_barh(
                [(e["ts"], min(e["dur"], microseconds - e["ts"])) for e in mine],
                (lane + 0.08, 0.84),
                facecolors=[colour(e["name"]) for e in mine],
            )
        axis.set_title(words, loc="left", fontsize=9)
        axis.set_ylim(max((e["tid"] for e in shown), default=0) + 1, 0)
        axis.set_xlim(0, microseconds)
        axis.set_yticks([])
        axis.spines[["top", "left", "right"]].set_visible(False)
    axis.set_xlabel(f"microseconds, {found['otherData']['device']}; one kernel a lane")
    patches = [Patch(color=value, label=label) for label, value in (*KINDS.values(), OTHER)]
    figure.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False)
    write(figure, picture)


def roofline(source: Path, picture: Path) -> None:
    """Draw the results of workbench/roofline.py: operations per second over operations per byte, one panel per stage."""
    found = json.loads(source.read_text(encoding="utf-8"))
    roofs = {r["what"]: r["per_second"] for r in found["roofs"]}
    top = roofs["forward butterfly"]
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 4), sharey=True, layout="constrained")
    reach = [
        row[f"operations_a_{level}_byte"]
        for row in found["kernels"]
        for level in LEVELS
        if row[f"operations_a_{level}_byte"]
    ]
    left, right = min(reach) / 2, max(*reach, top / roofs["copy in DRAM"]) * 2
    for axis, stage in zip(axes, ("stage 1", "stage 2"), strict=True):
        axis.plot([left, right], [top, top], color="#1b2a41", linewidth=1)
        for level, (_, roof, mark) in LEVELS.items():
            ends = [left, min(right, top / roofs[roof])]
            axis.plot(
                ends,
                [x * roofs[roof] for x in ends],
                color="#8a94a6",
                linewidth=1,
                linestyle="-" if level == "dram" else "--",
            )
            for row in (r for r in found["kernels"] if r["stage"] == stage and r[f"operations_a_{level}_byte"]):
                ours = row["kernel"] == "product"
                axis.plot(
                    row[f"operations_a_{level}_byte"],
                    row["operations_per_second"],
                    mark,
                    color=RADICES[row["radix"]],
                    markerfacecolor=RADICES[row["radix"]] if ours else "white",
                    markersize=7,
                )
        axis.set_title(stage, loc="left", fontsize=9)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(left, right)
        axis.set_xlabel("integer operations a byte")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("integer operations a second")
    said = [
        Line2D([], [], color=c, marker="o", linestyle="", markerfacecolor="white", label=f"radix {r}")
        for r, c in RADICES.items()
    ]
    said.append(Line2D([], [], color=RADICES[16], marker="o", linestyle="", label="the product's"))
    said += [
        Line2D([], [], color="#8a94a6", marker="o", linestyle="-", label="DRAM"),
        Line2D([], [], color="#8a94a6", marker="s", linestyle="--", label="L2"),
    ]
    said.append(Line2D([], [], color="#1b2a41", label="butterflies in registers"))
    figure.legend(handles=said, loc="outside lower center", ncols=4, frameon=False)
    write(figure, picture)


def main() -> None:
    """Draw each picture whose results exist."""
    suffix = ".png" if "--png" in sys.argv else ".svg"
    for name, folder, of, draw in (
        ("timeline", "benchmarks", "timeline-trace", lambda source, picture: timeline(source, picture, SHOWN)),
        ("roofline", "workbench", "roofline", roofline),
    ):
        sources = [ROOT / folder / "results" / f"{card}-{of}.json" for card in CARDS]
        source = next((path for path in sources if path.is_file()), None)
        if source is None:
            print(f"{name}: none of {', '.join(path.name for path in sources)} exists")
        else:
            draw(source, Path(__file__).with_name(name + suffix))
            print(f"{name}{suffix}, of {source.name}")


if __name__ == "__main__":
    main()
