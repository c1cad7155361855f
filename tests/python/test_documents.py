"""The programs and commands of the documentation run and print the text beside them; links have targets."""

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
from alike import load_program
from heliograph.cli.commands import commands
from page_blocks import blocks, run_block

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "benchmarks").rglob("*.md"))
#: Pages on which each program continues the program of the previous block. The blocks of the README are separate programs
#: that share only files. `make test` does not run the page on TFHE, because this page takes seconds and its first program is
#: also in the README.
GOING_ON = [
    pytest.param(p, marks=[pytest.mark.full] if p.name == "tfhe.md" else [], id=p.name)
    for p in PAGES
    if p.parent.name == "docs" and "```python" in p.read_text(encoding="utf-8")
]
#: Shell lines that this file does not run, because they build the package or run the tests. Each line has the place that
#: runs it.
ELSEWHERE = {"pip install .": "scripts/install.sh", "make demo": "Makefile", "make test": "Makefile"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paste(page: Path, *number: str) -> None:
    """Runs the programs of a page, or only one of them, in a new Python process."""
    command = [sys.executable, str(Path(page_blocks.__file__)), str(page), *number]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_programs_of_the_readme(here: Path) -> None:
    """Each program runs in a new Python process; files remain for the next programs."""
    count = len(blocks(ROOT / "README.md", "python"))
    assert count >= 4
    for number in range(count):
        paste(ROOT / "README.md", str(number))


@pytest.mark.parametrize("page", GOING_ON)
def test_programs_of_the_pages(page: Path, here: Path) -> None:
    """The programs of a page run one after another."""
    paste(page)


def test_a_wrong_comment_is_detected() -> None:
    """The comment beside a print is compared with the output; floats are compared up to the digits shown."""
    run_block("print(1.2345, [1, 2])  # 1.23 [1 2]", {}, "page")
    run_block("x = 1\nprint(x)\n", {}, "page")
    for text in ("print(1.24)  # 1.23", "print(1)  # 2", "print(1, 2)  # 1", 'print("a b")  # a c'):
        with pytest.raises(AssertionError, match="prints"):
            run_block(text, {}, "page")


def shell_lines(*texts: str) -> Iterator[str]:
    """Yields the lines of shell blocks without their comments."""
    for text in texts:
        for line in text.splitlines():
            if words := shlex.split(line, comments=True):
                yield shlex.join(words)


def draw_picture(path: Path) -> None:
    """Writes a picture of the digit 1."""
    Image = pytest.importorskip("PIL.Image")
    ink = np.full((28, 28), 255, dtype=np.uint8)
    ink[4:24, 13:15] = 0
    Image.fromarray(ink).save(path)


def heliograph(line: str) -> None:
    """Runs a command line of heliograph."""
    command = [sys.executable, "-m", "heliograph.cli", *shlex.split(line)[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_commands_of_the_readme(here: Path) -> None:
    """The commands run in a folder with a picture; build commands are skipped."""
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
def test_the_client_and_server_commands_run(here: Path) -> None:
    """The commands of client and server run one after another."""
    pytest.importorskip("sklearn")
    text = next(block for block in blocks(ROOT / "docs/command.md", "sh") if "keygen" in block)
    for line in shell_lines(text):
        heliograph(line)


def parsed(line: str) -> None:
    """Parses a command line; raises a usage error for unknown options."""
    words = shlex.split(line)[1:]
    group = typer.main.get_command(commands)
    command = group.get_command(None, words[0])  # type: ignore[attr-defined, arg-type]
    assert command is not None, line
    command.make_context(words[0], words[1:]).close()


def test_every_command_has_its_options() -> None:
    """Every option on the pages exists; commands are parsed but not run."""
    lines = [line for page in PAGES for line in shell_lines(*blocks(page, "sh")) if line.startswith("heliograph ")]
    assert len(lines) > 10
    for line in lines:
        parsed(line)
    with pytest.raises(Exception, match="--no-such"):
        parsed("heliograph devices --no-such")


# Links

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub names them."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    """Linked files, folders and headings exist; links to other sites are not checked."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for link in LINK.findall(text):
        name, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_files_in_pages_exist() -> None:
    """If a page names a source file with its folder, the repository has the file, at this path or at the end of a longer
    path.

    """
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    there = {"/".join(parts[k:]) for parts in (name.split("/") for name in listed) for k in range(len(parts))}
    named = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:cpp|cuh?|h|md|py|sh|sv|txt))`")
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    missing = {(page.name, name) for page in pages for name in named.findall(page.read_text(encoding="utf-8"))}
    assert sorted((page, name) for page, name in missing if name not in there) == []


def gathered(folder: Path) -> set[str]:
    """Returns the pages of `make docs`, without those that mkdocs.yml includes only through an overview page."""
    subprocess.run([sys.executable, ROOT / "scripts/docs_pages.py", folder], check=True)
    left_out = ("docs/adr/0", "benchmarks/results/", "examples/")
    found = {str(page.relative_to(folder)) for page in folder.rglob("*.md")}
    return {page for page in found if not page.startswith(left_out) or page == "examples/README.md"}


def test_every_page_is_on_the_site(tmp_path: Path) -> None:
    """Every page is in the site's navigation; decisions and results are listed by overview pages."""
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    there = {str(page.relative_to(ROOT)) for page in PAGES if page.parent.name not in ("results", "adr")}
    assert there <= listed
    assert all((ROOT / name).is_file() for name in listed)
    assert gathered(tmp_path) <= listed
    decisions = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    assert all(f"({path.name})" in decisions for path in (ROOT / "docs/adr").glob("0*.md"))


SITE = ROOT / "build/docs/site/index.html"
SOURCES = [ROOT / "mkdocs.yml", ROOT / "docs/iframe-worker.js"]


@pytest.mark.skipif(browser_rig.found() is None, reason="Chromium is not installed")
@pytest.mark.skipif(
    not SITE.is_file() or SITE.stat().st_mtime < max(path.stat().st_mtime for path in SOURCES),
    reason="the site is missing or older than its sources; make docs builds it",
)
def test_the_site_is_searched_from_its_folder() -> None:
    """The site's search works from files, without a server or network."""
    with browser_rig.browser() as chromium:
        page = chromium.page()
        page.go(SITE.as_uri())
        page.click(".md-search__input")
        page.type(".md-search__input", "bootstrapping_level")
        page.until("document.querySelector('.md-search-result__link')?.href.startsWith('file:')")
        page.reads("bootstrapping_level", ".md-search-result__list")
        assert page.hosts() == {"file://"}
        assert not page.complaints()


def test_the_steps_of_a_call_exist() -> None:
    """Each step of the call that architecture.md follows is a function in the named file, and the picture shows the number
    of the step.

    """
    steps = re.findall(
        r"^\| (\d) \| `(.+)` \| `(\w+)` \|", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.M
    )
    assert [int(number) for number, _, _ in steps] == list(range(1, 10))
    for _, path, name in steps:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), (path, name)
    drawn = load_program(ROOT / "docs/pictures/architecture.py")
    rows = {room: words.split() for rooms, _, words in (*drawn.PYTHON, *drawn.ENGINE) for room in rooms.split("|")}
    for number, path, _ in steps:
        room = (
            "_core"
            if path.startswith("python/src")
            else path.removeprefix("python/heliograph/").removeprefix("src/").split("/")[0]
        )
        assert number in rows[room], (number, room)
    assert (ROOT / "docs/pictures/architecture.svg").read_text(encoding="utf-8") == drawn.picture()


# Errors


def test_the_page_lists_every_error() -> None:
    """The page lists every error with its base class, meaning and remedy."""
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
        assert own.endswith("."), f"{name} has no docstring that ends with a full stop"
        if getattr(hg, name).__module__ == "heliograph._core":
            assert own == re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", row[2]), name


# Pictures


def test_the_drawn_digits_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the digits of the README's picture, the server sees only noise, and the decrypted scores are correct."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/pictures"))
    import readme  # type: ignore[import-not-found, unused-ignore]

    images = {name: readme.render(name) for name in readme.SHOWN}
    for name, (noise, scores) in zip(images, readme.classified(list(images.values())), strict=True):
        assert int(scores.argmax()) == name
        assert len(np.unique(noise)) > 200


def test_the_pictures_are_drawn(tmp_path: Path) -> None:
    """Each picture has a script beside it that draws it, and some page shows the picture."""
    shown = {Path(link).name for page in PAGES for link in LINK.findall(page.read_text(encoding="utf-8")) if ".svg" in link}
    pictures = {path.name for path in (ROOT / "docs/pictures").glob("*.svg")}
    assert pictures == shown
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/pictures").glob("*.py")]
    assert all(any(name in script for script in scripts) for name in pictures)
    pytest.importorskip("matplotlib")
    for name in ("readme.py", "svg.py"):
        shutil.copy(ROOT / "docs/pictures" / name, tmp_path)
    done = subprocess.run([sys.executable, str(tmp_path / "readme.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.glob("*.svg")} == {"digits.svg", "parties.svg"}
