"""Draw the README's pictures, digits.svg and parties.svg.

Run python docs/pictures/readme.py; it needs matplotlib (the extra "plot"). The digits are strokes
(heliograph.cli.pen_digits), not a data set. The program encrypts, classifies and decrypts the digits. The ciphertexts in the
picture are real, so they differ from run to run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from svg import save

import heliograph as hg
from heliograph import nn
from heliograph.cli.pen_digits import render

Array = npt.NDArray[Any]
SHOWN = (2, 4, 7)
INK, PAPER, ACCENT, QUIET = "#1b2a41", "white", "#c8553d", "#8a94a6"


def classified(images: list[Array]) -> list[tuple[Array, Array]]:
    """Return for each image a part of its ciphertext as pixels [28, 28], and the decrypted scores of the ten digits."""
    setup = nn.setup("mnist-packed")
    secret = hg.SecretKey.generate(setup.parameters())
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    run = setup.layout().server(server.parameters)
    seen = []
    for image in images:
        request = secret.encrypt(run.layout.pack(image)).to_bytes()
        words = np.frombuffer(request, np.uint8)[-(1 << 16) :][: 8 * 28 * 28].reshape(28, 28, 8)[..., 0]
        scores = run.layout.unpack(secret.decrypt(run.run(server.from_bytes(request))))
        seen.append((words, scores))
    return seen


def digits(path: Path) -> None:
    """Draw each digit, its ciphertext and its decrypted scores."""
    from matplotlib import pyplot as plt

    images = {name: render(name) for name in SHOWN}
    answers = classified(list(images.values()))
    figure, axes = plt.subplots(len(images), 3, figsize=(8, 5.4), width_ratios=[1, 1, 2.1])
    for row, (name, image), (noise, scores) in zip(axes, images.items(), answers, strict=True):
        if int(scores.argmax()) != name:
            raise SystemExit(f"a drawn {name} was read as {int(scores.argmax())}")
        row[0].imshow(image, cmap="gray_r")
        row[1].imshow(noise, cmap="gray_r")
        for square in row[:2]:
            square.set_xticks([])
            square.set_yticks([])
        best = scores == scores.max()
        row[2].bar(range(10), scores - scores.min(), color=np.where(best, ACCENT, QUIET))
        row[2].set_xticks(range(10))
        row[2].set_yticks([])
        row[2].spines[["top", "left", "right"]].set_visible(False)
    heads = ("you draw", "the server sees", "you decrypt: the score of each digit")
    for cell, head in zip(axes[0], heads, strict=True):
        cell.set_title(head, fontsize=11, color=INK)
    figure.tight_layout()
    save(figure, path, facecolor=PAPER)


def parties(path: Path) -> None:
    """Draw the data and keys of client and server, and the messages between them."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import FancyBboxPatch

    figure, axes = plt.subplots(figsize=(8, 3.1))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 38)
    axes.axis("off")
    boxes = (
        (2, "You (client)", ("your data, in the clear", "secret key: encrypts, decrypts", "reads the result"), ACCENT),
        (65, "Server", ("evaluation keys: compute only", "its program or model", "sees ciphertexts alone"), INK),
    )
    for left, head, lines, colour in boxes:
        style = "round,pad=0.4,rounding_size=1.6"
        axes.add_patch(FancyBboxPatch((left, 4), 33, 30, boxstyle=style, facecolor=PAPER, edgecolor=colour, linewidth=1.8))
        axes.text(left + 16.5, 29, head, ha="center", va="center", fontsize=13, weight="bold", color=colour)
        for i, line in enumerate(lines):
            axes.text(left + 16.5, 22 - 6.4 * i, line, ha="center", va="center", fontsize=9.5, color=INK)
    arrows = (
        (29, 36.5, 64, "evaluation keys, once", QUIET),
        (20, 36.5, 64, "encrypted request", ACCENT),
        (9, 64, 36.5, "encrypted answer", ACCENT),
    )
    for height, start, end, words, colour in arrows:
        shape = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8, "mutation_scale": 14}
        axes.annotate("", (end, height), (start, height), arrowprops=shape)
        axes.text(50.2, height + 1.4, words, ha="center", va="bottom", fontsize=9.5, color=INK)
    figure.tight_layout(pad=0.2)
    save(figure, path, facecolor=PAPER)


def begin() -> None:
    """Set options of matplotlib that make the picture equal on all machines."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "heliograph", "font.family": "DejaVu Sans"})


def main() -> None:
    """Write both pictures beside this file."""
    begin()
    digits(Path(__file__).with_name("digits.svg"))
    parties(Path(__file__).with_name("parties.svg"))


if __name__ == "__main__":
    main()
