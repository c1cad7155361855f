"""Draws architecture.svg: the folders of the Python package and of the engine, and the steps of one call. Needs only Python:
python docs/pictures/architecture.py

The folders and their order are those of scripts/check_layers.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INK, PAPER, ACCENT, QUIET, LINE = "#1b2a41", "white", "#c8553d", "#5d6778", "#d4d9e1"
WIDTH, LEFT, ROW, BOX = 960, 150, 31, 23
#: The rows from top to bottom: rooms, contents, and the step of the call in the row. "|" separates rooms (boxes).
PYTHON = (
    ("cli", "the command", ""),
    ("heliograph", "the public names, hg.*", ""),
    ("client|serving", "clients of a service; the service", ""),
    ("frame|models", "data frames, model bundles", ""),
    ("bfv|bgv|cinnamon|knn|ml|nn|parameter_search|pir|sql|switching", "schemes, models, queries", ""),
    ("ckks|exact|tfhe", "parameters, keys and tensors of a scheme", "2"),
    ("keys|programs", "keys, server; recorded programs, forecasts", ""),
    ("_common", "arguments, tensors, functions, containers", "1"),
    ("_core", "python/src: nanobind, without the GIL", "3"),
)
ENGINE = (
    ("recording", "operands of recorded programs", ""),
    ("circuits", "TFHE's operations, matrices and polynomials", ""),
    ("schemes", "exact, ckks, cinnamon, lookup, tfhe", "4 5"),
    ("rlwe|lwe", "keys, gadgets, key switching, noise", ""),
    ("ring", "tensors [batch..., component, limb, N]", ""),
    ("mesh", "several devices as one", ""),
    ("backend", "ref, cpu, cuda, null, rtl: the kernels", "8 9"),
    ("program", "tapes, batches, graphs", ""),
    ("device", "the contract: calls, queues, memory", "6 7"),
    ("math|io", "moduli, primes, transforms; file format", ""),
    ("base", "errors, threads, randomness", ""),
)


def checked_rooms() -> tuple[list[set[str]], list[str]]:
    """Returns the rooms of Python and of the engine as scripts/check_layers.py orders them, highest first."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import check_layers  # type: ignore[import-not-found, unused-ignore]

    return [set(rooms) for rooms in reversed(check_layers.ROOMS_OF_PYTHON)], list(reversed(check_layers.FLOORS))


def text(x: float, y: float, words: str, colour: str = INK, more: str = "") -> str:
    """Returns a line of text whose middle has the height `y`."""
    return f'<text x="{x}" y="{y + 4.5}" fill="{colour}" {more}>{escape(words)}</text>'


def row(y: float, rooms: str, contents: str, steps: str) -> Iterator[str]:
    """Yields a row: a box for each room, the contents, and a disc for each step of the call."""
    x: float = LEFT
    for name in rooms.split("|"):
        width = 8.2 * len(name) + 18
        colour = ACCENT if steps and (rooms.count("|") == 0 or name == "exact") else INK
        yield f'<rect x="{x}" y="{y - BOX / 2}" width="{width:.1f}" height="{BOX}" rx="5" fill="{PAPER}" stroke="{colour}"/>'
        yield text(x + 9, y, name, colour, 'font-family="monospace" font-size="13.5"')
        x = round(x + width + 8, 1)
    yield text(max(WIDTH - 390, x + 6), y, contents, QUIET)
    for k, step in enumerate(steps.split()):
        yield f'<circle cx="{WIDTH - 62 + 30 * k}" cy="{y}" r="10.5" fill="{ACCENT}"/>'
        yield text(WIDTH - 62 + 30 * k, y, step, PAPER, 'text-anchor="middle" font-weight="bold"')


def picture() -> str:
    """Returns the SVG picture as one line of text. Raises SystemExit if the picture's boxes ("rooms") are not those of
    scripts/check_layers.py."""
    python, engine = checked_rooms()
    if [set(rooms.split("|")) for rooms, _, _ in PYTHON] != python:
        raise SystemExit(f"rows of Python must be {python}")
    if sorted(name for rooms, _, _ in ENGINE for name in rooms.split("|")) != sorted(engine):
        raise SystemExit(f"rows of the engine must be {engine}")
    parts, y = [], 26.0
    for title, folder, rows in (("Python", "python/heliograph", PYTHON), ("Engine, C++", "src", ENGINE)):
        height = ROW * len(rows) + 12
        parts.append(
            f'<rect x="8" y="{y - 18}" width="{WIDTH - 16}" height="{height}" rx="8" fill="{PAPER}" stroke="{LINE}"/>'
        )
        parts.append(text(20, y, title, INK, 'font-weight="bold"'))
        parts.append(text(20, y + 20, folder, QUIET, 'font-size="12"'))
        for rooms, contents, steps in rows:
            parts += row(y + 4, rooms, contents, steps)
            y += ROW
        y += 26
    parts.append(
        text(20, y - 14, "A folder uses itself and the folders below it. Numbers: the steps of hg.relinearize(y).", QUIET)
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4:.0f}" font-family="sans-serif" font-size="14">'
    )
    return " ".join([head, f'<rect width="100%" height="100%" fill="{PAPER}"/>', *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("architecture.svg").write_text(picture(), encoding="utf-8")
