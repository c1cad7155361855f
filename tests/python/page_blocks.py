"""Runs the Python programs of a page. page_blocks.py PAGE runs all blocks in sequence, page_blocks.py PAGE NUMBER only one
block.

If a print has a comment, the print must give the text of the comment. If the print gives another text, the run fails and
shows the printed text.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import re
import sys
from pathlib import Path
from typing import Any


def blocks(page: Path, language: str) -> list[str]:
    """Returns the fenced code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def words_of(text: str) -> list[str]:
    """Splits text into words, without the brackets and commas of lists and arrays."""
    return re.sub(r"[\[\](),]", " ", text).split()


def same_word(said: str, printed: str) -> bool:
    """Compares two words; numbers are compared up to the number of digits that the page shows."""
    try:
        value = float(said)
    except ValueError:
        return said == printed
    digits = len(said.partition(".")[2])
    return abs(float(printed) - value) <= 0.51 * 10.0**-digits if digits else said == printed


_NEEDED = {"sklearn": "sklearn", "serving.local": "uvicorn"}


def run_block(text: str, names: dict[str, Any], page: str) -> None:
    """Executes a block and checks each print that has a comment. Skips blocks that need an optional extra that is not
    installed.
    """
    if any(words in text and importlib.util.find_spec(needed) is None for words, needed in _NEEDED.items()):
        return
    lines = text.splitlines()

    def checked(*values: Any, **how: Any) -> None:
        line = lines[sys._getframe(1).f_lineno - 1]
        buffer = io.StringIO()
        builtins.print(*values, **how, file=buffer)
        if "  # " in line:
            said, printed = words_of(line.rpartition("  # ")[2]), words_of(buffer.getvalue())
            fits = len(said) == len(printed) and all(map(same_word, said, printed))
            assert fits, f"{page}: {line.strip()}\nprints {buffer.getvalue()}"

    names["print"] = checked
    exec(compile(text, page, "exec"), names)


if __name__ == "__main__":
    shown = blocks(Path(sys.argv[1]), "python")
    everything: dict[str, Any] = {"__name__": "__main__"}
    for program in shown if len(sys.argv) < 3 else [shown[int(sys.argv[2])]]:
        run_block(program, everything, Path(sys.argv[1]).name)
