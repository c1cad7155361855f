"""The pages of figures are what the committed results make."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "benchmarks" / "pages.py"


def test_every_table_is_what_its_files_make() -> None:
    """README, docs/benchmarks.md and the pages beside the results."""
    done = subprocess.run([sys.executable, str(PAGES), "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_typed_number_is_found_and_written_over(tmp_path: Path) -> None:
    """In a copy; text outside of the marks stays."""
    for name in ("README.md", "docs", "benchmarks", "workbench"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(tmp_path)], check=True)
    (tmp_path / "rtl").mkdir()
    shutil.copy(ROOT / "rtl" / "README.md", tmp_path / "rtl")
    command = [sys.executable, str(tmp_path / "benchmarks" / "pages.py")]
    page = tmp_path / "benchmarks" / "results" / "gpu.md"
    before = page.read_text()
    row = next(line for line in before.splitlines() if line.startswith("| addition, N=2^15"))
    page.write_text("Words.\n" + before.replace(row, row.replace(" us |", " ns |")))
    done = subprocess.run([*command, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (1, "benchmarks/results/gpu.md")
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "benchmarks/results/gpu.md\n"
    assert page.read_text() == "Words.\n" + before


#: Results that name no commit of this repository, and why.
WITHOUT_COMMIT = {
    "h200-product-int8.json": "of a build with one way of the product alone; committed by cd68d0a, it names its GPU",
    "h200-product-sums.json": "of a build with one way of the product alone; committed by cd68d0a, it names its GPU",
    "rtl-xc7.json": "each module has the digest of the sources that were synthesised",
    "zen4-helib.json": "of a release of HElib: nothing of this repository was measured",
}


def commits_of(report: dict[str, Any]) -> list[str]:
    """The commits that a result says it measured; of one that was rebased, what it became."""
    parts = [report, *(part for key in ("settings", "otherData") if isinstance(part := report.get(key), dict))]
    if isinstance(modules := report.get("modules"), dict):
        parts += modules.values()
    if any("rebased_as" in part for part in parts):
        return [part["rebased_as"] for part in parts if "rebased_as" in part]
    said = [str(part["commit"]) for part in parts if "commit" in part] + list(report.get("commits", {}).values())
    return [word for text in said for word in re.findall(r"\b[0-9a-f]{7,40}\b", text)]


def test_every_result_names_a_commit_of_the_repository() -> None:
    """Or is listed with a reason; the list holds no other file."""
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("the repository's history is not here")
    lost = {}
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")) + sorted(
        (ROOT / "workbench" / "results").glob("*.json")
    ):
        named = commits_of(json.loads(path.read_text()))
        known = [
            subprocess.run(["git", "cat-file", "-e", f"{name}^{{commit}}"], cwd=ROOT, capture_output=True).returncode == 0
            for name in named
        ]
        if not (known and all(known)):
            lost[path.name] = named
    assert set(lost) == set(WITHOUT_COMMIT), lost
    assert all(len(reason) > 20 for reason in WITHOUT_COMMIT.values())


def test_commits_are_found_where_results_have_them() -> None:
    """At the top, in settings, with a mark of changes, in words; a rebased one by what it became."""
    a, b = "a" * 40, "b" * 40
    assert commits_of({"commit": f"{a}+changes"}) == [a]
    assert commits_of({"settings": {"commit": f"{a[:7]} and changes committed in {b[:7]}"}}) == [a[:7], b[:7]]
    assert commits_of({"commit": a, "rebased_as": b}) == [b]
    assert commits_of({"commits": {"base": a[:7]}}) == [a[:7]]
    assert commits_of({"commit": "v2.3.0"}) == []


def test_every_result_is_named_by_a_page() -> None:
    """So nobody has to guess which files there are; links lead somewhere."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"[\w-]+\.json", page.read_text(encoding="utf-8"))}
    assert {path.name for path in (ROOT / "benchmarks" / "results").glob("*.json")} <= named
    for page in (ROOT / "docs" / "benchmarks.md", *(ROOT / "benchmarks" / "results").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_time_to_the_first_result_is_the_measured_one() -> None:
    """In words, which no table has."""
    (measured,) = json.loads((ROOT / "benchmarks/results/first-result.json").read_text(encoding="utf-8"))["results"]
    words = f"{measured['median_s']:.1f} s, of which the program takes {measured['program_s']:.1f} s"
    assert words in " ".join((ROOT / "docs/install.md").read_text(encoding="utf-8").split())
