#!/usr/bin/env python3
"""Check that the house stands: includes run downward, and each floor speaks only of what it may.

Prints every offence as FILE:LINE: message and exits 1 if there is one. Needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# Bottom first. A folder may include itself and every folder before it, with the exceptions below.
FLOORS = (
    "base",
    "io",
    "math",
    "device",
    "program",
    "backend",
    "mesh",
    "ring",
    "rlwe",
    "lwe",
    "schemes",
    "circuits",
    "recording",
)
HIDDEN = {"backend"}  # reached through device/ only
APART = {("lwe", "rlwe"), ("math", "io")}  # neighbours that do not know each other
#: What the rooms of a large backend may include.
ROOMS = {"runtime": {"runtime"}, "ring": {"runtime", "ring"}, "lwe": {"runtime", "lwe"}}
PUBLIC = {
    "errors.h": "base",
    "interrupt.h": "base",
    "device.h": "mesh",
    "files.h": "ring",
}  # the floors of public headers; the others belong to schemes/

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
COMMENT = re.compile(r"//.*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"")


def above(floor: str) -> set[str]:
    """Return every folder above `floor`."""
    return set(FLOORS[FLOORS.index(floor) + 1 :])


# (folders, pattern, whether comments count, message)
WORDS = (
    (above("backend"), re.compile(r"cuda", re.I), True, "nothing above backend/ says cuda"),
    (
        above("mesh"),
        re.compile(r"\b(device_count|device_id|device_index|num_devices|n_devices)\b"),
        False,
        "nothing above mesh/ counts devices",
    ),
    (
        above("ring") - {"lwe"},
        re.compile(r"(\.|->)\s*(template\s+)?at<"),
        False,
        "nothing above ring/ and lwe/ reads words in place",
    ),
    (
        {"circuits", "recording"},
        re.compile(r"\blimbs?\b", re.I),
        False,
        "nothing above schemes/ sees a limb",
    ),
    (
        set(FLOORS) - above("lwe") - {"backend"},
        re.compile(r"\b(case|Scheme)\W+(Scheme::)?(bfv|bgv|ckks|tfhe)\b", re.I),
        False,
        "no scheme branch below schemes/",
    ),
)


def code_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a file."""
    yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)


def include_error(folder: str, place: str, target: str) -> str | None:
    """Say what is wrong with `folder` (file at `place`) including `target`, if anything."""
    parts = target.split("/")
    if len(parts) < 2:
        return f'include "{target}" by its path below src/'
    other = parts[0]
    if other == "heliograph":
        other = PUBLIC.get(parts[1], "schemes")
    if other not in FLOORS:
        return f'"{other}/" is not a floor of the house'
    if folder == other == "backend":
        return backend_error(place, parts)
    if folder == other:
        return None
    if FLOORS.index(other) > FLOORS.index(folder):
        return f"{folder}/ includes upward, from {other}/"
    if other in HIDDEN:
        return f"only backend/ includes {other}/; use the contract in device/"
    if (folder, other) in APART:
        return f"{folder}/ and {other}/ stand side by side"
    return None


def backend_error(place: str, parts: list[str]) -> str | None:
    """Backends do not know each other, files directly in backend/ know them all; rooms of a backend know those below."""
    own = place.split("/")
    if len(own) == 2 or len(parts) == 2:
        return None
    if own[1] != parts[1]:
        return f"backend/{own[1]}/ includes backend/{parts[1]}/"
    if len(own) == 4 and own[2] in ROOMS and len(parts) == 4 and parts[2] not in ROOMS[own[2]]:
        return f"backend/{own[1]}/{own[2]}/ includes {parts[2]}/"
    return None


def errors_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and message of every offence in one source file."""
    place = path.relative_to(SRC).as_posix()
    folder = place.split("/")[0]
    if folder not in FLOORS:
        yield 1, f'"{folder}/" is not a floor of the house'
        return
    for number, line in code_lines(path):
        match = INCLUDE.match(line)
        if match:
            message = include_error(folder, place, match.group(1))
            if message:
                yield number, message
        bare = COMMENT.sub("", line)
        for folders, pattern, with_comments, message in WORDS:
            if folder in folders and pattern.search(line if with_comments else bare):
                yield number, message


def face_errors(path: Path) -> Iterator[tuple[int, str]]:
    """The public headers and the Python face know the public headers alone."""
    for number, line in code_lines(path):
        match = INCLUDE.match(line)
        if match and "/" in match.group(1) and not match.group(1).startswith("heliograph/"):
            yield number, "only public headers (heliograph/...) are included here"
        if re.search(r"cuda", line, re.I):
            yield number, "nothing above backend/ says cuda"


def sources(folder: Path) -> list[Path]:
    """Return the C++ files below a folder."""
    return sorted(p for p in folder.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"})


def main() -> int:
    """Check the whole tree."""
    found = [(p, *e) for p in sources(SRC) for e in errors_in(p)]
    faces = sources(ROOT / "python" / "src") + sources(ROOT / "include")
    found += [(p, *e) for p in faces for e in face_errors(p)]
    for path, number, message in found:
        print(f"{path.relative_to(ROOT)}:{number}: {message}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
