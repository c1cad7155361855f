"""Draw docs/pictures/trace.svg: the traces of a computation in BFV and of one in CKKS.

Run python docs/pictures/trace.py; it needs matplotlib (the extra "plot").
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

import heliograph as hg

mpl.use("svg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "heliograph", "font.size": 9})

from matplotlib import pyplot  # noqa: E402
from svg import save  # noqa: E402


def exact() -> hg.Trace:
    """Trace a polynomial of encrypted integers, and its sum over the slots of a row."""
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=3, plain_bits=20))
    server = hg.Server(secret.evaluation_keys(rotations=[1, 2, 4]))
    with hg.trace() as t:
        x = server.bind(secret.encrypt(np.arange(100), pad=True))
        y = hg.relinearize(x * x) * x
        y = hg.relinearize(y) + 5
        for step in (4, 2, 1):
            y = y + hg.rotate_rows(y, step)
    return t


def numbers() -> hg.Trace:
    """Trace a logistic step: an inner product with weights, then a cubic polynomial."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=5, precision=30, slots=1024))
    server = hg.Server(secret.evaluation_keys(rotations=hg.ckks.sum_rotations(1024)))
    rng = np.random.default_rng(1)
    with hg.trace() as t:
        x = server.bind(secret.encrypt(rng.uniform(-1, 1, 1024), bound=1.0))
        y = hg.ckks.sum_slots(x * rng.uniform(-1, 1, 1024) / 64)
        y = y * (y * y * -0.004 + 0.197) + 0.5
    return t


def main() -> None:
    """Draw both traces, one above the other."""
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(7.5, 5.6), layout="constrained")
    for axes, title, followed in ((above, "BFV", exact), (below, "CKKS", numbers)):
        followed()  # a first run prepares constants, so that the second is timed alone
        followed().plot(axes).set_title(title, loc="left")
    path = Path(__file__).with_name("trace.svg")
    save(figure, path)


if __name__ == "__main__":
    main()
