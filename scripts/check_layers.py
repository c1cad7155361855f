#!/usr/bin/env python3
"""Check the order of source folders: includes and imports go downward, and each folder uses only its vocabulary.
Prints every offence as FILE:LINE: message and exits 1 if there is one. Needs nothing but Python.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# Lowest first. A folder may include itself and every folder before it, with the exceptions below.
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
HIDDEN = {"backend"}  # used only through device/
APART = {("lwe", "rlwe"), ("math", "io")}  # folders that must not include each other
#: Subfolders of a large backend, and the subfolders that each may include.
ROOMS = {"runtime": {"runtime"}, "ring": {"runtime", "ring"}, "lwe": {"runtime", "lwe"}}
PUBLIC = {
    "container.h": "io",
    "errors.h": "base",
    "interrupt.h": "base",
    "progress.h": "base",
    "device.h": "mesh",
    "files.h": "ring",
}  # the folders that public headers belong to; the others belong to schemes/

# Rooms of the Python package: its modules and folders, lowest first. A room may import itself and the rooms of the lines
# above, but no other room of the same line.
ROOMS_OF_PYTHON = (
    ("_core",),
    ("_common",),
    ("keys", "programs"),
    ("ckks", "exact", "tfhe"),
    ("bfv", "bgv", "cinnamon", "knn", "ml", "nn", "parameter_search", "pir", "sql", "switching"),
    ("frame", "models"),
    ("client", "serving"),
    ("heliograph",),  # the package's __init__.py
    ("cli",),
)
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS_OF_PYTHON) for room in rooms}

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
        above("mesh"),
        re.compile(r"\bmesh::Mesh\b"),
        False,
        "nothing above mesh/ knows the class Mesh; use mesh::members_of",
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
    """Return the error in an include of `target` from `folder` (file at `place`), or None."""
    parts = target.split("/")
    if len(parts) < 2:
        return f'include "{target}" with its path below src/'
    other = parts[0]
    if other == "heliograph":
        other = PUBLIC.get(parts[1], "schemes")
    if other not in FLOORS:
        return f'"{other}/" is not a folder of src/; add it to FLOORS'
    if folder == other == "backend":
        return backend_error(place, parts)
    if folder == other:
        return None
    if FLOORS.index(other) > FLOORS.index(folder):
        return f"{folder}/ includes upward, from {other}/"
    if other in HIDDEN:
        return f"only backend/ includes {other}/; use the contract in device/"
    if (folder, other) in APART:
        return f"{folder}/ and {other}/ must not include each other"
    return None


def backend_error(place: str, parts: list[str]) -> str | None:
    """Return the error in an include between backends, or between subfolders of a backend; files directly in backend/ may
    include all."""
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
        yield 1, f'"{folder}/" is not a folder of src/; add it to FLOORS'
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
    """Yield the errors in a public header or a source of the Python extension, which may include only public headers."""
    for number, line in code_lines(path):
        match = INCLUDE.match(line)
        if match and "/" in match.group(1) and not match.group(1).startswith("heliograph/"):
            yield number, "only public headers (heliograph/...) are included here"
        if re.search(r"cuda", line, re.I):
            yield number, "nothing above backend/ says cuda"


def name_of(path: Path, package: Path) -> str:
    """Return the dotted name of a module of the package, without "heliograph." before it."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "heliograph"


def room_of(name: str) -> str:
    """Return the room of a module."""
    return name.split(".", maxsplit=1)[0]


def imports_in(tree: ast.Module, names: set[str]) -> Iterator[tuple[str, int]]:
    """Yield name and line of each module of the package that a module imports, also for annotations and in functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in found:
            if name.split(".")[0] == "heliograph":
                name = name.removeprefix("heliograph").removeprefix(".")
                while "." in name and name not in names:  # a class or function: its module
                    name = name.rpartition(".")[0]
                yield name if name in names or name in FLOOR else "heliograph", node.lineno


def late_imports(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each import of the package inside a function."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heliograph"):
                    yield node.lineno


def python_errors() -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and message of every offence in the Python package."""
    package = ROOT / "python" / "heliograph"
    files = {name_of(path, package): path for path in sorted(package.rglob("*.py"))}
    names = {"_core", *files}
    needs: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        tree, room = ast.parse(path.read_text(encoding="utf-8")), room_of(name)
        if room not in FLOOR:
            yield path, 1, f'"{room}" is not a room of the package; add it to ROOMS_OF_PYTHON'
            continue
        for other, line in imports_in(tree, names):
            if name == other:
                continue
            needs[name].add(other)
            if room_of(other) != room and FLOOR.get(room_of(other), 0) >= FLOOR[room]:
                yield path, line, f"{room} imports upward, from {room_of(other)}"
        if room != "cli":  # commands import their modules at use, so that the command starts fast
            yield from ((path, line, "import at the top of the file, not in a function") for line in late_imports(tree))
    yield from ((files[circle[0]], 1, "files import each other: " + " -> ".join(circle)) for circle in circles(needs))


def circles(needs: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield circles of imports. After each circle one of its imports is ignored, so that the search ends."""
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            circle = error.args[1][::-1]
            yield circle
            needs[circle[0]].remove(circle[1])
        else:
            return


def sources(folder: Path) -> list[Path]:
    """Return the C++ files below a folder."""
    return sorted(p for p in folder.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"})


def main() -> int:
    """Check the whole tree."""
    found = [(p, *e) for p in sources(SRC) for e in errors_in(p)]
    faces = sources(ROOT / "python" / "src") + sources(ROOT / "include")
    found += [(p, *e) for p in faces for e in face_errors(p)]
    found += python_errors()
    for path, number, message in found:
        print(f"{path.relative_to(ROOT)}:{number}: {message}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
