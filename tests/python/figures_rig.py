"""Helpers for tests of the benchmarks: tables made from result files, and simulated programs, some of which fail."""

from __future__ import annotations

import contextlib
import queue
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import tables
from benchmarks.report import results
from benchmarks.runners import common

ROOT = common.ROOT
FOLDER = ROOT / "benchmarks"
module = common.module


def table_of(name: str, *files: Path) -> str:
    """Returns the table that the benchmarks make from these result files."""
    return "\n".join(tables.TABLES[name]({file.name: results.read(file) for file in files}))


def require_lines(text: str, wanted: str) -> None:
    """Checks that the text contains each line of `wanted`."""
    assert [line for line in wanted.strip().splitlines() if line.strip() not in text] == []


def program_of(path: Path, text: str) -> Path:
    """Writes an executable Python program that replaces a built one."""
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    path.chmod(0o755)
    return path


def breaking_program(path: Path, names: str, also: str = "") -> None:
    """Writes a program that prints a row of JSON for each name in `names` (a Python expression). When it reaches the name
    "breaks", the program fails. When it reaches the name "hangs", the program writes the previous name to a file "hangs"
    beside the program, and waits."""
    path.write_text(
        "import json, os, sys, time\n"
        f"{also}\n"
        "last = ''\n"
        f"for name in {names}:\n"
        "    if name == 'breaks': sys.exit('a reason')\n"
        "    if name == 'hangs':\n"
        "        file = os.path.join(os.path.dirname(__file__), 'hangs')\n"
        "        with open(file + '.new', 'w') as out: out.write(last)\n"
        "        os.replace(file + '.new', file)\n"
        "        time.sleep(600)\n"
        "    print(json.dumps({'case': name}), flush=True)\n"
        "    last = name\n"
    )


def hanging_queue(hangs: Path) -> SimpleNamespace:
    """Returns a replacement of the module `queue` for the lines of a `breaking_program`. A wait for a line times out as soon
    as the last line has been read and the file `hangs` exists, which shows that the program hangs.

    """

    class Lines(queue.Queue[Any]):
        last = ""

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            while not (hangs.exists() and hangs.read_text() in self.last):
                with contextlib.suppress(queue.Empty):
                    self.last = super().get(timeout=0.01) or ""
                    return self.last or None
            raise queue.Empty

    return SimpleNamespace(Queue=Lines, Empty=queue.Empty)


def replace_modules(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Runs programs from a folder in place of the benchmark modules with the same last name."""

    def command(name: str) -> list[str]:
        return [sys.executable, str(folder / f"{name.rpartition('.')[2]}.py")]

    monkeypatch.setattr(common, "module", command)
