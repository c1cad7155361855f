"""The tables in the pages equal those generated from the committed results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import pages
from benchmarks.report import results
from benchmarks.report.render import columns, render

ROOT = Path(__file__).resolve().parents[2]


def test_every_table_equals_the_one_made_from_its_files() -> None:
    """The tables in README, docs/benchmarks.md and the pages beside the results equal those made from the result files."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.pages", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_number_changed_by_hand_is_detected_and_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number that was changed by hand inside a table is detected and overwritten; text outside the table's marks stays."""
    page = tmp_path / "page.md"
    page.write_text(
        "Words.\n\n<!-- table GPU in short: h200.jsonl -->\n<!-- end of table -->\n\n<!-- site table TFHE: zen4-tfhe.jsonl -->\nEnd.\n"
    )
    monkeypatch.setattr(pages, "pages", lambda: [page])
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["pages.py"])
    pages.read.cache_clear()
    monkeypatch.setattr(
        pages, "reports_of", lambda files: {"h200.jsonl": results.read(ROOT / "benchmarks/results/h200.jsonl")}
    )
    assert (pages.main(), capsys.readouterr().out) == (0, "page.md\n")
    before = page.read_text()
    assert before.endswith("<!-- end of table -->\n\n<!-- site table TFHE: zen4-tfhe.jsonl -->\nEnd.\n")
    row = next(line for line in before.splitlines() if line.startswith("| 500 additions"))
    page.write_text(before.replace(row, row.replace(" ms |", " s |")))
    monkeypatch.setattr(sys, "argv", ["pages.py", "--check"])
    assert (pages.main(), capsys.readouterr().out.split()[0]) == (1, "page.md")
    monkeypatch.setattr(sys, "argv", ["pages.py"])
    assert (pages.main(), capsys.readouterr().out) == (0, "page.md\n")
    assert page.read_text() == before


def test_unknown_tables_and_files_are_refused(tmp_path: Path) -> None:
    """An unknown table and a missing result file are errors that name it."""
    page = tmp_path / "page.md"
    page.write_text("<!-- site table nothing: h200.jsonl -->\n")
    with pytest.raises(SystemExit, match="unknown table nothing: use "):
        pages.filled(page, site=True)
    page.write_text("<!-- site table TFHE: none-*.jsonl -->\n")
    with pytest.raises(SystemExit, match="no file of results: none"):
        pages.filled(page, site=True)


def test_the_site_has_tables_that_pages_omit() -> None:
    """Every table of every page can be made; large tables are only on the site."""
    for page in pages.pages():
        text = pages.filled(page, site=True)
        assert "site table" not in text, page
        assert text.count("\n|") >= pages.filled(page).count("\n|")


def test_columns_are_declared_by_a_text() -> None:
    """The value of a cell is a field, a sum, a ratio, a truth value, or computed. Absent fields and ratios by zero are "-"."""
    texts = ("what: cycles: {a} | sum: {a+b.c:,} | ratio: {a/b.c:.2f} of one", "right: {ok:yes/NO} | twice: {twice}")
    shown = columns(*texts, twice=lambda row: str(2 * row["a"]))
    rows = [{"a": 3000, "b": {"c": 2000}, "ok": True}, {"a": 1, "b": {"c": 0}, "ok": False}, {"a": 0}]
    assert render(shown, rows) == [
        "| what: cycles | sum | ratio | right | twice |",
        "|---|---|---|---|---|",
        "| 3000 | 5,000 | 1.50 of one | yes | 6000 |",
        "| 1 | 1 | - of one | NO | 2 |",
        "| 0 | - | - of one | - | 0 |",
    ]
    with pytest.raises(ValueError, match="no column shows the cells b"):
        columns("a: {a}", b="{a}")


#: Results that name no commit of this repository, and the reason for each.
WITHOUT_COMMIT = {
    "h200-product-int8.jsonl": "of a build with one way of the product alone; committed by cd68d0a, it names its GPU",
    "h200-product-sums.jsonl": "of a build with one way of the product alone; committed by cd68d0a, it names its GPU",
    "rtl-xc7.jsonl": "each module has the digest of the sources that were synthesised",
    "ring-switch-security.jsonl": "of the lattice estimator at the commit that each row names, not of this repository",
    "zen4-helib.jsonl": "of a release of HElib: nothing of this repository was measured",
}


def commits_of(report: dict[str, Any]) -> list[str]:
    """Returns the commits that a result claims to measure, of the run and of its cases. For commits that were rebased,
    returns the commits that replaced them.
    """
    parts = [report, *(part for key in ("settings", "otherData") if isinstance(part := report.get(key), dict))]
    parts += report.get("results", [])
    if any("rebased_as" in part for part in parts):
        return [part["rebased_as"] for part in parts if "rebased_as" in part]
    said = [str(part["commit"]) for part in parts if "commit" in part] + list(report.get("commits", {}).values())
    return [word for text in said for word in re.findall(r"\b[0-9a-f]{7,40}\b", text)]


def test_every_result_names_a_commit_of_the_repository() -> None:
    """Every result names a commit of this repository or is listed with a reason; the list contains no other files."""
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("needs the repository's full history; this clone is shallow")
    lost = {}
    folders = (ROOT / "benchmarks" / "results", ROOT / "workbench" / "results")
    for path in sorted(path for folder in folders for path in folder.glob("*.json*")):
        named = commits_of(results.read(path))
        known = [
            subprocess.run(["git", "cat-file", "-e", f"{name}^{{commit}}"], cwd=ROOT, capture_output=True).returncode == 0
            for name in named
        ]
        if not (known and all(known)):
            lost[path.name] = named
    assert set(lost) == set(WITHOUT_COMMIT), lost
    assert all(len(reason) > 20 for reason in WITHOUT_COMMIT.values())


def test_commits_are_found_where_results_have_them() -> None:
    """Commits are found at the top level, in settings and in text, also if the field has a mark for uncommitted changes or a
    rebase.
    """
    a, b = "a" * 40, "b" * 40
    assert commits_of({"commit": f"{a}+changes"}) == [a]
    assert commits_of({"settings": {"commit": f"{a[:7]} and changes committed in {b[:7]}"}}) == [a[:7], b[:7]]
    assert commits_of({"commit": a, "rebased_as": b}) == [b]
    assert commits_of({"commits": {"base": a[:7]}}) == [a[:7]]
    assert commits_of({"commit": "v2.3.0"}) == []


def test_every_result_is_named_by_a_page() -> None:
    """Every result file is named by a page or read by one of the page's tables, and the links of the pages exist."""
    named = set()
    for page in [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
        ROOT / "rtl/README.md",
    ]:
        text = page.read_text(encoding="utf-8")
        named |= set(re.findall(r"[\w-]+\.jsonl?", text))
        for files in re.findall(r"<!-- (?:(?:site )?table [^:>]+|files): ([^>]+) -->", text):
            named |= set(pages.reports_of(files))
    assert {path.name for path in (ROOT / "benchmarks" / "results").glob("*.json*")} <= named
    for page in (ROOT / "docs" / "benchmarks.md", *(ROOT / "benchmarks" / "results").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_time_to_the_first_result_is_the_measured_one() -> None:
    """The install page quotes the measured time in its text, which is outside the tables."""
    (measured,) = results.read(ROOT / "benchmarks/results/first-result.jsonl")["results"]
    words = f"{measured['median_s']:.1f} s, of which the program takes {measured['program_s']:.1f} s"
    assert words in " ".join((ROOT / "docs/install.md").read_text(encoding="utf-8").split())
