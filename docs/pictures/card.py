"""Draw the co-processor's card, card.svg, from its sources (rtl/src).

Run python docs/pictures/card.py; it needs matplotlib (the extra "plot").

The boxes are the modules that hg_card and hg_core instantiate, with the defaults of their parameters. The program fails
if a box has no instance, or an instance no box.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from readme import ACCENT, INK, PAPER, QUIET, begin
from svg import save

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "rtl" / "src"

#: For each module: x, y, width, height and label of its box. Names in braces are parameters of hg_card.
BOXES: dict[str, tuple[float, float, float, float, str]] = {
    "hg_registers": (0.2, 6.1, 2.5, 0.9, "registers\nAXI4-Lite, counters"),
    "hg_ring": (0.2, 4.8, 2.5, 0.9, "descriptor ring\n64 bytes an instruction"),
    "hg_dispatch": (3.3, 4.8, 2.7, 2.2, "dispatch and scoreboard\nno slot read before written,\nno bank with two readers"),
    "hg_dma_read": (0.2, 2.5, 2.5, 1.1, "loads\nAXI4, {BITS} bits a beat"),
    "hg_dma_write": (0.2, 0.9, 2.5, 1.1, "stores\nAXI4, {BITS} bits a beat"),
    "hg_memory": (3.3, 0.9, 2.7, 2.7, "{SLOTS} slots in {BANKS} banks\na limb of up to 2^{LOG_N}\nwords each, two groups of\nrows of {B} words"),
    "hg_ntt": (6.8, 5.5, 3.0, 1.5, "NTT, both directions\n{B} butterflies,\n{TABLES} tables of twiddles"),
    "hg_pointwise": (6.8, 3.9, 3.0, 1.2, "element-wise\n{B} lanes, c + a b"),
    "hg_permute": (6.8, 2.4, 3.0, 1.1, "permutation\nautomorphisms, {B} words a cycle"),
    "hg_convert": (6.8, 0.6, 3.0, 1.4, "conversion of bases\n{P} coefficients by {T} targets,\n{SOURCES} sources, {SETS} sets"),
}  # fmt: skip
#: Arrows: start box, end box, and whether words of limbs flow along the arrow (otherwise commands).
ARROWS = (
    ("hg_registers", "hg_ring", False),
    ("hg_ring", "hg_dispatch", False),
    ("hg_dispatch", "hg_ntt", False),
    ("hg_dispatch", "hg_memory", False),
    ("hg_dma_read", "hg_memory", True),
    ("hg_memory", "hg_dma_write", True),
    ("hg_memory", "hg_ntt", True),
    ("hg_memory", "hg_pointwise", True),
    ("hg_memory", "hg_permute", True),
    ("hg_memory", "hg_convert", True),
)


def text_of(module: str) -> str:
    """Return a module's source without comments."""
    return re.sub(r"//.*", "", (SOURCES / f"{module}.sv").read_text(encoding="utf-8"))


def held_by(module: str) -> set[str]:
    """Return the modules that a module instantiates."""
    return set(re.findall(r"^\s+(hg_\w+)\s+(?:#\s*\(|i_\w+)", text_of(module), re.MULTILINE))


def parameters(module: str) -> dict[str, int]:
    """Return the defaults of a module's parameters."""
    return {name: int(value) for name, value in re.findall(r"parameter int unsigned (\w+) = (\d+)", text_of(module))}


def draw(path: Path) -> None:
    """Draw the picture. Raises SystemExit if the boxes and the instances differ."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import FancyBboxPatch

    held = (held_by("hg_card") | held_by("hg_core")) - {"hg_core"}
    if held != set(BOXES):
        raise SystemExit(f"boxes without an instance: {set(BOXES) - held}; instances without a box: {held - set(BOXES)}")
    numbers: dict[str, Any] = parameters("hg_card")
    numbers["BITS"] = 64 * numbers["B"]
    figure, axis = plt.subplots(figsize=(9.6, 6.4))
    axis.add_patch(FancyBboxPatch((-0.1, 0.2), 10.3, 7.3, boxstyle="round,pad=0.05", fc="none", ec=QUIET, lw=1, ls=":"))
    axis.text(-0.05, 7.38, "hg_card", color=QUIET, fontsize=9, va="top")
    for name, (x, y, width, height, words) in BOXES.items():
        axis.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.04", fc=PAPER, ec=INK, lw=1.3))
        axis.text(
            x + width / 2, y + height - 0.06, name, color=ACCENT, fontsize=8, ha="center", va="top", family="monospace"
        )
        axis.text(
            x + width / 2, y + height / 2 - 0.14, words.format(**numbers), color=INK, fontsize=9, ha="center", va="center"
        )
    for start, end, words in ARROWS:
        (ax, ay, aw, ah, _), (bx, by, bw, bh, _) = BOXES[start], BOXES[end]
        if abs(ax - bx) < 0.1:
            tail, head = (ax + aw / 2, ay), (bx + bw / 2, by + bh)
        else:
            right = ax < bx
            level = min(max(by + bh / 2, ay + 0.2), ay + ah - 0.2)
            tail, head = (ax + aw if right else ax, level), (bx if right else bx + bw, by + bh / 2)
        both = words and start == "hg_memory" and end != "hg_dma_write"
        style = {"arrowstyle": "<->" if both else "->", "color": INK if words else QUIET, "lw": 1.6 if words else 1.0}
        axis.annotate("", xy=head, xytext=tail, arrowprops={**style, "shrinkA": 3, "shrinkB": 3})
    axis.text(5.0, -0.15, "dark: words of limbs; grey: what is to be done", color=QUIET, fontsize=9, ha="center", va="top")
    axis.set_xlim(-0.3, 10.4)
    axis.set_ylim(-0.5, 7.7)
    axis.set_axis_off()
    figure.tight_layout()
    save(figure, path, facecolor=PAPER)


if __name__ == "__main__":
    begin()
    draw(Path(__file__).with_name("card.svg"))
