"""The documents: programs and commands in them run and print what stands beside them, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer

import browser_rig
import heliograph as hg
import page_blocks
from heliograph.cli.commands import commands
from page_blocks import blocks, run_block

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "benchmarks").rglob("*.md"))
#: Pages whose programs go on from block to block; the README's stand alone, and only files pass from one to the next.
#: TFHE's takes seconds, and the README's program of it is its first.
GOING_ON = [
    pytest.param(p, marks=[pytest.mark.full] if p.name == "tfhe.md" else [], id=p.name)
    for p in PAGES
    if p.parent.name == "docs" and "```python" in p.read_text(encoding="utf-8")
]
#: Lines for a shell that the tests are themselves made by, or would build the package once more, and where else they run.
ELSEWHERE = {
    "pip install .": "scripts/install.sh",
    "make demo": "Makefile",
    "make test": "Makefile",
    "make docs": "Makefile",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paste(page: Path, *number: str) -> None:
    """Runs a page's programs, or one of them, in a Python of its own."""
    command = [sys.executable, str(Path(page_blocks.__file__)), str(page), *number]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_programs_of_the_readme(here: Path) -> None:
    """Each as pasted into a Python of its own; files stay."""
    count = len(blocks(ROOT / "README.md", "python"))
    assert count >= 4
    for number in range(count):
        paste(ROOT / "README.md", str(number))


@pytest.mark.parametrize("page", GOING_ON)
def test_programs_of_the_pages(page: Path, here: Path) -> None:
    """One after the other."""
    paste(page)


def test_a_wrong_comment_is_found() -> None:
    """What is promised beside a print is compared, floats to their digits."""
    run_block("print(1.2345, [1, 2])  # 1.23 [1 2]", {}, "page")
    run_block("x = 1\nprint(x)\n", {}, "page")
    for text in ("print(1.24)  # 1.23", "print(1)  # 2", "print(1, 2)  # 1", 'print("a b")  # a c'):
        with pytest.raises(AssertionError, match="prints"):
            run_block(text, {}, "page")


def shell_lines(*texts: str) -> Iterator[str]:
    """Without their comments."""
    for text in texts:
        for line in text.splitlines():
            if words := shlex.split(line, comments=True):
                yield shlex.join(words)


def draw_picture(path: Path) -> None:
    """A one, drawn."""
    Image = pytest.importorskip("PIL.Image")
    ink = np.full((28, 28), 255, dtype=np.uint8)
    ink[4:24, 13:15] = 0
    Image.fromarray(ink).save(path)


def heliograph(line: str) -> None:
    """Runs a line that begins so."""
    command = [sys.executable, "-m", "heliograph.cli", *shlex.split(line)[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_commands_of_the_readme(here: Path) -> None:
    """They run in a folder where there is a picture; what builds is run by whoever builds."""
    pytest.importorskip("sklearn")
    draw_picture(here / "picture.png")
    for line in shell_lines(*blocks(ROOT / "README.md", "sh")):
        if line in ELSEWHERE:
            word = line.removeprefix("make ") + ":" if line.startswith("make") else "-m pip install"
            assert word in (ROOT / ELSEWHERE[line]).read_text(encoding="utf-8")
        else:
            assert line.startswith("heliograph "), line
            heliograph(line)


@pytest.mark.full
def test_the_roles_of_the_command_page(here: Path) -> None:
    """One after the other."""
    pytest.importorskip("sklearn")
    text = next(block for block in blocks(ROOT / "docs/command.md", "sh") if "keygen" in block)
    for line in shell_lines(text):
        heliograph(line)


def parsed(line: str) -> None:
    """Raises a usage error for options that a command does not have."""
    words = shlex.split(line)[1:]
    group = typer.main.get_command(commands)
    command = group.get_command(None, words[0])  # type: ignore[attr-defined, arg-type]
    assert command is not None, line
    command.make_context(words[0], words[1:]).close()


def test_every_command_has_its_options() -> None:
    """Of all pages; nothing is run."""
    lines = [line for page in PAGES for line in shell_lines(*blocks(page, "sh")) if line.startswith("heliograph ")]
    assert len(lines) > 10
    for line in lines:
        parsed(line)
    with pytest.raises(Exception, match="--no-such"):
        parsed("heliograph devices --no-such")


# Links

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Files, folders and headings; other sites are not asked."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for link in LINK.findall(text):
        name, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def gathered(folder: Path) -> set[str]:
    """Pages that `make docs` shows, but those that mkdocs.yml leaves out of the list."""
    subprocess.run([sys.executable, ROOT / "scripts/docs_pages.py", folder], check=True)
    left_out = ("docs/adr/0", "benchmarks/results/", "examples/")
    found = {str(page.relative_to(folder)) for page in folder.rglob("*.md")}
    return {page for page in found if not page.startswith(left_out) or page == "examples/README.md"}


def test_every_page_is_on_the_site(tmp_path: Path) -> None:
    """In its list of pages, by name: decisions and results have a page that lists them."""
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    there = {str(page.relative_to(ROOT)) for page in PAGES if page.parent.name not in ("results", "adr")}
    assert there <= listed
    assert all((ROOT / name).is_file() for name in listed)
    assert gathered(tmp_path) <= listed
    decisions = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    assert all(f"({path.name})" in decisions for path in (ROOT / "docs/adr").glob("0*.md"))


SITE = ROOT / "build/docs/site/index.html"
SOURCES = [ROOT / "mkdocs.yml", ROOT / "docs/iframe-worker.js"]


@pytest.mark.skipif(browser_rig.found() is None, reason="there is no chromium")
@pytest.mark.skipif(
    not SITE.is_file() or SITE.stat().st_mtime < max(path.stat().st_mtime for path in SOURCES),
    reason="make docs builds the site",
)
def test_the_site_is_searched_from_its_folder() -> None:
    """Opened as a file, without a server and without a network: words lead to their page."""
    with browser_rig.browser() as chromium:
        page = chromium.page()
        page.go(SITE.as_uri())
        page.click(".md-search__input")
        page.type(".md-search__input", "bootstrapping_level")
        page.until("document.querySelector('.md-search-result__link')?.href.startsWith('file:')")
        page.reads("bootstrapping_level", ".md-search-result__list")
        assert page.hosts() == {"file://"}
        assert not page.complaints()


# Errors


def test_every_error_stands_on_its_page() -> None:
    """With what it is a kind of, what it means and what to do."""
    rows = [line.split(" | ") for line in (ROOT / "docs/errors.md").read_text(encoding="utf-8").splitlines() if "|" in line]
    told = {match[1]: row for row in rows if (match := re.match(r"\| `(\w+)`$", row[0]))}
    errors = {name for name in dir(hg) if isinstance(kind := getattr(hg, name), type) and issubclass(kind, Exception)}
    assert errors == told.keys()
    assert errors <= set(hg.__all__)
    for name, row in told.items():
        assert len(row) == 4, name
        base = getattr(hg, name).__bases__[0].__name__
        assert row[1] == f"`{base}`", name
        assert all(len(cell.strip(" |")) > 10 for cell in row[2:]), name
        own = (getattr(hg, name).__dict__.get("__doc__") or "").strip()
        assert own.endswith("."), f"{name} has no docstring"
        if getattr(hg, name).__module__ == "heliograph._core":
            assert own == re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", row[2]), name


# Pictures


def test_the_drawn_digits_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the README's picture, encrypted: what the server sees is noise, and the scores say which they are."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/pictures"))
    import readme  # type: ignore[import-not-found, unused-ignore]

    images = {name: readme.drawn(name) for name in readme.SHOWN}
    for name, (noise, scores) in zip(images, readme.classified(list(images.values())), strict=True):
        assert int(scores.argmax()) == name
        assert len(np.unique(noise)) > 200


def test_the_pictures_are_drawn(tmp_path: Path) -> None:
    """Each by a script beside it, and each is shown."""
    shown = {Path(link).name for page in PAGES for link in LINK.findall(page.read_text(encoding="utf-8")) if ".svg" in link}
    pictures = {path.name for path in (ROOT / "docs/pictures").glob("*.svg")}
    assert pictures == shown
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/pictures").glob("*.py")]
    assert all(any(name in script for script in scripts) for name in pictures)
    pytest.importorskip("matplotlib")
    shutil.copy(ROOT / "docs/pictures/readme.py", tmp_path)
    done = subprocess.run([sys.executable, str(tmp_path / "readme.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.glob("*.svg")} == {"digits.svg", "parties.svg"}
