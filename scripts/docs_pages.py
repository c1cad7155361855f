#!/usr/bin/env python3
"""Gathers what the site shows: docs_pages.py FOLDER. The pages, and every file that one of them links to, at the same places.

So a link is right in the repository and on the site. A link to what is no file ends it.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "docs/site.css"]
FOLDERS = ["docs", "benchmarks/results"]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def linked(page: Path) -> list[Path]:
    """Files that a page links to, outside of its blocks of code."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return [(page.parent / name).resolve() for name in LINK.findall(text) if "://" not in name]


def main() -> int:
    """Copies them."""
    into = Path(sys.argv[1])
    waiting = [ROOT / name for name in PAGES] + [p for folder in FOLDERS for p in (ROOT / folder).rglob("*.md")]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if not path.is_file():
            print(f"{path.relative_to(ROOT)} is linked to and is no file here")
            return 1
        target = into / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        if path.suffix == ".md":
            waiting += linked(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
