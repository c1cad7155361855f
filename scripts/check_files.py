#!/usr/bin/env python3
"""Check that files stay readable (800 lines at most) and that no data set is committed.

Looks at what git tracks or would track. Prints every offence and exits 1 if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 800
MAX_BYTES = 1_000_000
SOURCE = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".sv"}
DATA = re.compile(r"idx[13]-ubyte|\.(gz|npy|csv|tsv|parquet|h5|zip|tar)$")


def files() -> list[Path]:
    """Return every file that git tracks, or would after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [p for name in names.split("\0") if name and (p := ROOT / name).is_file()]


def error_in(path: Path) -> str | None:
    """Say what is wrong with one file, if anything."""
    if DATA.search(path.name):
        return "data sets are not committed; say in a script where they come from"
    if path.stat().st_size > MAX_BYTES:
        return f"over {MAX_BYTES} bytes"
    if path.suffix in SOURCE:
        lines = path.read_bytes().count(b"\n")
        if lines > MAX_LINES:
            return f"{lines} lines; {MAX_LINES} at most"
    return None


def main() -> int:
    """Check every file."""
    found = [(path, error) for path in files() if (error := error_in(path))]
    for path, error in found:
        print(f"{path.relative_to(ROOT)}: {error}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
