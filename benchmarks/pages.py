"""Writes the tables of all pages from the committed results: README, docs, rtl and the pages beside the results.

    python -m benchmarks.pages                # writes
    python -m benchmarks.pages --check        # lists the pages that are out of date, and exits 1 if there are any
    python -m benchmarks.pages --print PAGE   # prints a page with all its tables

A page says what it shows, between two comments: `<!-- table NAME: FILES -->` and `<!-- end of table -->`. FILES are names or patterns in
benchmarks/results; `<!-- files: FILES -->` gives them for all tables of a page. `<!-- site table NAME: FILES -->`, without an end, is a table
of the site that `make docs` builds.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from benchmarks.report import results
from benchmarks.report.render import ROOT, Reports, placed
from benchmarks.tables import TABLES

NAMED = r"table (?P<name>[^:>]+?)(?:: (?P<files>[^>]+?))? -->"
TABLE = re.compile(rf"(?P<head><!-- {NAMED}\n).*?(?P<end><!-- end of table -->)", re.S)
SITE_TABLE = re.compile(rf"<!-- site {NAMED}")
FILES = re.compile(r"<!-- files: ([^>]+?) -->")


@cache
def read(path: Path) -> results.Report:
    """Returns the report in a results file."""
    return results.read(path)


def reports_of(patterns: str) -> Reports:
    """Returns the reports of the files that match the patterns, by name and in the patterns' order. A name without a slash
    is in benchmarks/results.
    """
    found: Reports = {}
    for pattern in patterns.split():
        named = pattern if "/" in pattern else f"benchmarks/results/{pattern}"
        for path in sorted(ROOT.glob(named)):
            found.setdefault(path.name if "/" not in pattern else str(path.relative_to(ROOT)), read(path))
    if not found:
        raise SystemExit(f"no file of results: {patterns}")
    return found


def filled(page: Path, site: bool = False) -> str:
    """Returns a page's text with its tables written anew; tables of the site are filled only if `site`."""
    text = page.read_text(encoding="utf-8")
    of_page = FILES.search(text)

    def table(mark: re.Match[str]) -> str:
        if mark["name"] not in TABLES:
            raise SystemExit(f"{page}: unknown table {mark['name']}: use {', '.join(TABLES)}")
        files = mark["files"] or (of_page[1] if of_page else "")
        return placed(TABLES[mark["name"]](reports_of(files)), page)

    text = TABLE.sub(lambda mark: f"{mark['head']}{table(mark)}\n{mark['end']}", text)
    return SITE_TABLE.sub(table, text) if site else text


def pages() -> list[Path]:
    """Returns all pages with tables."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    found = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    return [page for page in found if re.search(NAMED, page.read_text(encoding="utf-8"))]


def main() -> int:
    """Writes the pages, or lists those that are out of date."""
    if "--print" in sys.argv:
        print(filled(Path(sys.argv[-1]), site=True), end="")
        return 0
    old = {page: text for page in pages() if (text := filled(page)) != page.read_text(encoding="utf-8")}
    for page, text in old.items():
        if "--check" in sys.argv:
            print(f"{page.relative_to(ROOT)} is out of date; run python -m benchmarks.pages")
        else:
            page.write_text(text, encoding="utf-8")
            print(page.relative_to(ROOT))
    return 1 if old and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
