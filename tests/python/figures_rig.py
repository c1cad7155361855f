"""For tests of the benchmarks: where they are, what their tables put into a page, and programs that break."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
_TABLE = [sys.executable, str(FOLDER / "table.py")]


def tables_of(*files: Path) -> str:
    """What is printed of these files."""
    return subprocess.run([*_TABLE, *map(str, files)], capture_output=True, text=True, check=True).stdout


def page_of(folder: Path, kind: str, *files: Path, whole: bool = True) -> str:
    """What stands between the marks of a kind of figures after the files' tables were put into a page; the rest of it stays."""
    page, marks = folder / "page.md", (f"before\n<!-- {kind} -->\n", f"\n<!-- end of {kind} -->\nafter\n")
    page.write_text("old".join(marks))
    subprocess.run([*_TABLE, *map(str, files), "--into", str(page), *(["--whole"] if whole else [])], check=True)
    text = page.read_text()
    assert (text[: len(marks[0])], text[-len(marks[1]) :]) == marks
    return text[len(marks[0]) : -len(marks[1])]


def require_lines(text: str, wanted: str) -> None:
    """Each line of `wanted` stands in the text."""
    assert [line for line in wanted.strip().splitlines() if line.strip() not in text] == []


def program_of(path: Path, text: str) -> Path:
    """A program that is to be run by its name, in place of one that was built."""
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    path.chmod(0o755)
    return path


def breaking_program(path: Path, names: str, also: str = "") -> None:
    """A program that prints a row for each of its `names` (an expression) as JSON, and ends at the one that breaks."""
    path.write_text(
        "import json, sys, time\n"
        f"{also}\n"
        f"for name in {names}:\n"
        "    if name == 'breaks': sys.exit('a reason')\n"
        "    if name == 'hangs': time.sleep(60)\n"
        "    print(json.dumps({'case': name}), flush=True)\n"
    )
