"""The ten digits as pen strokes, drawn by this program and not from a data set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
#: Points of each stroke in a unit square, x to the right and y down.
DIGITS: dict[int, list[list[tuple[float, float]]]] = {
    0: [[(0.52, 0.06), (0.28, 0.20), (0.20, 0.52), (0.30, 0.84), (0.52, 0.94), (0.74, 0.80), (0.80, 0.48), (0.72, 0.18),
         (0.52, 0.06)]],
    1: [[(0.56, 0.06), (0.53, 0.50), (0.48, 0.94)]],
    2: [[(0.22, 0.30), (0.34, 0.14), (0.58, 0.10), (0.74, 0.26), (0.66, 0.48), (0.44, 0.68), (0.22, 0.88)],
        [(0.22, 0.88), (0.50, 0.84), (0.80, 0.90)]],
    3: [[(0.24, 0.16), (0.50, 0.08), (0.72, 0.22), (0.64, 0.40), (0.42, 0.48)],
        [(0.42, 0.48), (0.70, 0.56), (0.76, 0.76), (0.54, 0.92), (0.22, 0.86)]],
    4: [[(0.36, 0.10), (0.26, 0.34), (0.20, 0.54)], [(0.20, 0.54), (0.48, 0.56), (0.80, 0.52)],
        [(0.66, 0.14), (0.63, 0.48), (0.58, 0.92)]],
    5: [[(0.76, 0.10), (0.36, 0.12)], [(0.36, 0.12), (0.30, 0.44)],
        [(0.30, 0.44), (0.56, 0.42), (0.74, 0.60), (0.66, 0.84), (0.42, 0.94), (0.20, 0.86)]],
    6: [[(0.62, 0.06), (0.38, 0.28), (0.28, 0.60), (0.36, 0.88), (0.58, 0.92), (0.70, 0.74), (0.58, 0.58), (0.32, 0.68)]],
    7: [[(0.18, 0.16), (0.46, 0.15), (0.80, 0.13)], [(0.80, 0.13), (0.60, 0.46), (0.44, 0.92)]],
    8: [[(0.52, 0.48), (0.30, 0.32), (0.34, 0.12), (0.56, 0.06), (0.70, 0.20), (0.52, 0.48), (0.32, 0.72), (0.40, 0.92),
         (0.62, 0.90), (0.70, 0.72), (0.52, 0.48)]],
    9: [[(0.70, 0.24), (0.50, 0.10), (0.28, 0.24), (0.34, 0.44), (0.56, 0.46), (0.70, 0.26)],
        [(0.70, 0.24), (0.66, 0.56), (0.56, 0.94)]],
}  # fmt: skip


def render(digit: int, width: float = 1.5) -> npt.NDArray[np.uint8]:
    """Returns a digit as an image [28, 28] of 0 to 255, 20 pixels tall and centred, as MNIST's."""
    side, tall = 28, 20
    at = np.arange(side) + 0.5
    x, y = np.meshgrid(at, at)
    nearest = np.full((side, side), np.inf)
    for stroke in DIGITS[digit]:
        knots = np.array(stroke) * tall + (side - tall) / 2
        steps = np.linspace(0, len(knots) - 1, 60)
        curve = np.stack([_smooth(knots[:, axis], steps) for axis in (0, 1)])
        for px, py in curve.T:
            nearest = np.minimum(nearest, np.hypot(x - px, y - py))
    return np.rint(255 * np.clip(width - nearest + 0.5, 0, 1)).astype(np.uint8)


def _smooth(values: Array, steps: Array) -> Array:
    """Interpolates the knots smoothly (Catmull-Rom)."""
    padded = np.concatenate([[2 * values[0] - values[1]], values, [2 * values[-1] - values[-2]]])
    i = np.minimum(steps.astype(int), len(values) - 2)
    t = steps - i
    a, b, c, d = (padded[i + k] for k in range(4))
    smooth: Array = 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
    return smooth
