#!/usr/bin/env python3
"""Gathers what the site shows: docs_pages.py FOLDER. The pages, and every file that one of them links to, at the same places.

So a link is right in the repository and on the site. A link to a folder goes to the page in it, or above it; one to nothing ends it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
    """Files and folders that a page links to, outside of its blocks of code."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return [(page.parent / name).resolve() for name in LINK.findall(text) if "://" not in name]


def page_of(folder: Path) -> Path:
    """The page that tells of a folder."""
    return next(p / "README.md" for p in (folder, *folder.parents) if (p / "README.md").is_file())


def with_pages(page: Path) -> str:
    """A page's text, links to folders led to pages."""

    def led(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        if "://" in link[1] or not target.is_dir():
            return link[0]
        return f"]({os.path.relpath(page_of(target), page.parent)})"

    return LINK.sub(led, page.read_text(encoding="utf-8"))


def main() -> int:
    """Copies them."""
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
            print(f"{path.relative_to(ROOT)} is linked to and is no file here")
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
