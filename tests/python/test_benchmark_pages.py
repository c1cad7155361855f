"""The pages of figures are what the committed results make."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
