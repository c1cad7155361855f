#!/usr/bin/env python3
"""Check that files stay readable and that no data set is committed.

Files have at most 800 lines. Lines of the product have at most 125 columns, and its functions at most 80 lines.

Reads the files that git tracks or would track. Prints every offence and exits 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 800
MAX_COLUMNS = 125
MAX_FUNCTION_LINES = 80  # length of a function, without its docstring
MAX_BYTES = 1_000_000
SOURCE = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".sv"}
CPP = {".h", ".cpp", ".cu", ".cuh"}
PRODUCT = {"src", "include", "python"}  # folders whose lines and functions are measured
TEXT = {*SOURCE, ".html"}
#: Long functions whose registers or inlining decide their speed; comments name their phases.
KERNELS = {
    "apply_key_fused",
    "blind_rotation",
    "int8_kernel",
    "plain_rotation",
    "quick_rotation",
    "switch_rows_kernel",
    "turned_product_kernel",
}
#: Comments, strings, characters and preprocessor lines of C++.
OPAQUE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^[ \t]*\#(?:\\\n|[^\n])*""", re.S | re.M)
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b[^()]*$")
DATA = re.compile(r"idx[13]-ubyte|\.(gz|npy|csv|tsv|parquet|h5|zip|tar)$")


def files() -> list[Path]:
    """Return every file that git tracks, or would after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [p for name in names.split("\0") if name and (p := ROOT / name).is_file()]


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield name, first line and number of lines of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            has_docstring = ast.get_docstring(node, clean=False) is not None
            docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def cpp_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield head, first line and number of lines of each function at the scope of a namespace or class."""
    text = OPAQUE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    open_blocks: list[tuple[str, int, bool]] = []  # open braces: text before the brace, position, whether it opens a scope
    end = 0  # end of the last statement
    for mark in re.finditer("[{};]", text):
        if mark[0] == "{":
            head = text[end : mark.start()]
            start = mark.start() - len(head.lstrip())
            open_blocks.append((" ".join(head.split()), start, SCOPE.search(head) is not None))
        elif mark[0] == "}" and open_blocks:
            head, start, is_scope = open_blocks.pop()
            if "(" in head and not is_scope and all(outer for _, _, outer in open_blocks):
                yield head, text.count("\n", 0, start) + 1, text.count("\n", start, mark.start()) + 1
        end = mark.end()


def long_functions(path: Path) -> list[str]:
    """Return an error for each long function of a file. Kernels may be long."""
    text = path.read_text(encoding="utf-8")
    functions = python_functions(text) if path.suffix == ".py" else cpp_functions(text)
    return [
        f"line {line}: a function of {lines} lines; {MAX_FUNCTION_LINES} at most: {head[:60]}"
        for head, line, lines in functions
        if lines > MAX_FUNCTION_LINES and not any(re.search(rf"\b{name}\(", head) for name in KERNELS)
    ]


def long_lines(path: Path) -> list[str]:
    """Return an error for each long line of a file."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [f"line {i}: {len(x)} columns; {MAX_COLUMNS} at most" for i, x in lines if len(x) > MAX_COLUMNS]


def error_in(path: Path) -> str | None:
    """Return the error in one file, or None."""
    if DATA.search(path.name):
        return "data sets are not committed; state their source in a script"
    if path.stat().st_size > MAX_BYTES:
        return f"over {MAX_BYTES} bytes"
    if path.suffix in SOURCE:
        lines = path.read_bytes().count(b"\n")
        if lines > MAX_LINES:
            return f"{lines} lines; {MAX_LINES} at most"
    return None


def main() -> int:
    """Check every file."""
    paths = files()
    found = [(path, error) for path in paths if (error := error_in(path))]
    product = [path for path in paths if path.relative_to(ROOT).parts[0] in PRODUCT]
    found += [(path, error) for path in product if path.suffix in TEXT for error in long_lines(path)]
    found += [(path, error) for path in product if path.suffix in {".py", *CPP} for error in long_functions(path)]
    for path, error in found:
        print(f"{path.relative_to(ROOT)}: {error}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
