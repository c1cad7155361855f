"""Draw multiplication.svg: the work of each unit of the simulated co-processor during a product and its relinearization.

Run python docs/pictures/multiplication.py; it needs matplotlib (the extra "plot") and a build with Verilator. The
product is computed on the card, decrypted and compared. The picture shows `hg.timeline()`, whose end must be within 2 %
of the simulated cycles.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from readme import ACCENT, INK, PAPER, QUIET, begin
from svg import save

import heliograph as hg

UNITS = {"load": "loads", "ntt": "NTT", "pointwise": "element-wise", "convert": "conversion", "store": "stores"}


def product() -> tuple[list[hg.Span], hg.Cycles]:
    """Compute the product on the card. Returns the timeline and the counters of the product."""
    parameters = hg.bfv.parameters(n=4096, log_q=106, special=0, plain_modulus=65537, word_size=32)
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys())
    a, b = np.arange(4096) % 251, np.arange(4096) % 241
    x, y = (server.bind(secret.encrypt(v)) for v in (a, b))
    multiply = hg.program(lambda x, y: hg.relinearize(x * y))
    multiply(x, y)
    before = hg.cycles()
    z = multiply(x, y)
    after = hg.cycles()
    if before is None or after is None:
        raise SystemExit("this device counts no cycles")
    spans = hg.timeline()
    if ((secret.decrypt(z) - a * b) % 65537).any():
        raise SystemExit("the product is wrong")
    return spans, after - before


def draw(path: Path) -> None:
    """Draw a row for each unit."""
    from matplotlib import pyplot as plt

    spans, counted = product()
    end = max(span.end for span in spans)
    if abs(end / counted.cycles - 1) > 0.02:
        raise SystemExit(f"the model says {end:,} cycles, the simulation {counted.cycles:,}")
    used = {span.unit for span in spans}
    if used != set(UNITS):
        raise SystemExit(f"rows are of {', '.join(UNITS)}; the card used {', '.join(sorted(used))}")
    figure, axis = plt.subplots(figsize=(9.6, 3.2))
    for row, (unit, title) in enumerate(UNITS.items()):
        mine = [(span.begin, span.end - span.begin) for span in spans if span.unit == unit]
        colour = ACCENT if unit == "ntt" else INK
        axis.broken_barh(mine, (-row - 0.36, 0.72), fc=colour, ec="white", lw=0.3)
        busy = f"{len(mine)} instructions, {100 * counted.busy[unit] / counted.cycles:.0f} % of the time"
        axis.text(end * 1.01, -row, busy, color=QUIET, fontsize=8, va="center")
        axis.text(-end * 0.01, -row, title, color=INK, fontsize=9, ha="right", va="center")
    axis.set_xlim(0, end)
    axis.set_yticks([])
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_xlabel(f"cycles, {counted.cycles:,} in all: {1e3 * counted.seconds:.2f} ms at an assumed 200 MHz", color=INK)
    axis.spines[["top", "left", "right"]].set_visible(False)
    figure.subplots_adjust(left=0.1, right=0.76, bottom=0.17, top=0.97)
    save(figure, path, facecolor=PAPER)


if __name__ == "__main__":
    os.environ["HELIOGRAPH_DEVICE"] = "rtl"  # read when the engine first computes
    begin()
    draw(Path(__file__).with_name("multiplication.svg"))
