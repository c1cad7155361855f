#!/usr/bin/env python3
"""docs_pages.py FOLDER: copies the pages of the site, with all their tables, and every file that a page links to, at the same
relative paths.

So links work in the repository and on the site. A link to a folder becomes a link to its page, or to the page above it. A broken
link is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.pages import filled  # noqa: E402  (from the tree, which is not installed)

PAGES = [
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "examples/README.md",
    "docs/site.css",
    "docs/iframe-worker.js",
]
FOLDERS = ["docs", "benchmarks/results"]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def linked(page: Path) -> list[Path]:
    """Return the files and folders that a page links to, outside its code blocks."""
    text = re.sub(r"```.*?```", "", filled(page, site=True), flags=re.S)
    return [(page.parent / name).resolve() for name in LINK.findall(text) if "://" not in name]


def page_of(folder: Path) -> Path:
    """Return the README of a folder, or the nearest one above."""
    return next(p / "README.md" for p in (folder, *folder.parents) if (p / "README.md").is_file())


def with_pages(page: Path) -> str:
    """Return a page's text, with links to folders replaced by links to their pages."""

    def led(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        if "://" in link[1] or not target.is_dir():
            return link[0]
        return f"]({os.path.relpath(page_of(target), page.parent)})"

    return LINK.sub(led, filled(page, site=True))


def main() -> int:
    """Copy the pages and the linked files."""
    into = Path(sys.argv[1])
    waiting = [ROOT / name for name in PAGES] + [p for folder in FOLDERS for p in (ROOT / folder).rglob("*.md")]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        path = page_of(path) if path.is_dir() else path
        if path in seen:
            continue
        seen.add(path)
        if not path.is_file():
            print(f"{path.relative_to(ROOT)} is the target of a link and does not exist")
            return 1
        target = into / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(with_pages(path), encoding="utf-8")
            waiting += linked(path)
        else:
            shutil.copy(path, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
