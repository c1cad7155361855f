"""scripts/check_language.py: sentences that it refuses, sentences that it accepts, and the exceptions file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from alike import load_program

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_language.py"
LONG = " ".join(["word"] * 31) + "."

REFUSED = {
    "What waits runs before the event is reached.": "what",
    "Whatever a backend does, its words are equal.": "what",
    "Whoever leaves takes long to come back.": "whoever",
    "Nobody watches this buffer.": "nobody",
    "The row is free; nobody reads it.": "nobody",
    "None of the rows is read.": "none",
    "All that follows is skipped.": "all that",
    "That which is left is freed.": "that which",
    "One that is late waits.": "one",
    "Frees what lies there.": "what",
    "The size of what it makes.": "what",
    "The owner, whoever that is, is asked.": "whoever",
    LONG: "31 words",
    "Pass `--queue` to `heliograph serve`.": "--max-queue",
    "A sealed model is read.": "ModelBundle",
}
ACCEPTED = (
    "Pending commands run before the event is signalled.",
    "The error says what was given.",
    "The error says what is wrong, what was given and what to do.",
    'The subject is a noun, not "what" or "nobody".',
    "The caller decides what a missing row means.",
    "What does it cost?",
    "None where the file has no bound.",
    "One bootstrap per output.",
    "`what` names the object in the error.",
    "A what-if run.",
    "The option is `--max-queue`; SEAL is another library.",
    "Computes `a; what b` as e.g. in [the page](what-is-it.md) at https://example.org/?what is.",
    " ".join(["word"] * 30) + ".",
)
SOURCES = {
    "a.cpp": '#include "b.h"\n// {}\nconst char* text = "// What is quoted is code.";\n',
    "a.cuh": "/**\n * {}\n */\nint x;  // The count.\n",
    "a.sv": "module m;  // {}\nendmodule\n",
    "a.py": 'def f() -> None:\n    """Return nothing.\n\n    {}\n\n    >>> print("What is printed is output.")\n    What is.\n    """\n',
    "b.py": "x = 1  # {}\ny = 'What is quoted is code.'\n",
    "a.sh": "echo '# What is quoted is code.' # {}\n",
    "CMakeLists.txt": "# {}\nproject(x)\n",
    "a.md": "# Title\n\n{}\n\n```sh\nWhat is in a fence is code.\n```\n\n| What is a table |\n|---|\n",
}


@pytest.fixture
def check(tmp_path: Path) -> ModuleType:
    """Returns the script as a module, with an empty repository as its tree."""
    module = load_program(SCRIPT)
    module.ROOT = tmp_path
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "language_exceptions.txt").touch()
    return module


@pytest.mark.parametrize("sentence", REFUSED)
def test_sentences_that_break_a_rule_are_refused(check: ModuleType, sentence: str) -> None:
    """For each bad sentence of the list, the message names the broken rule."""
    assert any(REFUSED[sentence] in rule for rule in check.offences(sentence))


@pytest.mark.parametrize("sentence", ACCEPTED)
def test_accepted(check: ModuleType, sentence: str) -> None:
    """The good sentences of the list break no rule."""
    assert not list(check.offences(sentence))


@pytest.mark.parametrize("name", SOURCES)
def test_one_finding_per_language(check: ModuleType, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A bad sentence fails the check of a file in each language; a good sentence passes."""
    (tmp_path / name).write_text(SOURCES[name].format("The row is valid."), encoding="utf-8")
    assert check.main([]) == 0
    (tmp_path / name).write_text(SOURCES[name].format("What is left is freed."), encoding="utf-8")
    line = SOURCES[name].split("{}")[0].count("\n") + 1
    assert [found.line for found in check.findings(tmp_path / name)] == [line]
    assert check.main([]) == 1
    assert f"{name}:{line}: " in capsys.readouterr().out


def test_sentences_span_lines(check: ModuleType, tmp_path: Path) -> None:
    """A comment of several lines is one text. A list item, an aligned column and a blank line each begin another text."""
    half = " ".join(["word"] * 16)
    (tmp_path / "a.h").write_text(f"// {half}\n// {half}.\n", encoding="utf-8")
    (tmp_path / "b.h").write_text(f"// {half}\n// - {half}\n\n// {half}\n//\n// {half}\n// x     {half}\n", encoding="utf-8")
    assert "32 words" in check.findings(tmp_path / "a.h")[0].rule
    assert check.findings(tmp_path / "b.h") == []


def test_fields_are_separate_in_docstrings_only(check: ModuleType, tmp_path: Path) -> None:
    """A line "name: meaning" begins a text in a docstring, and continues a paragraph of a page."""
    half = " ".join(["word"] * 16)
    (tmp_path / "a.py").write_text(f'"""Good.\n\n{half}\nname: {half}.\n"""\n', encoding="utf-8")
    (tmp_path / "a.md").write_text(f"{half}\nname: {half}.\n", encoding="utf-8")
    assert check.findings(tmp_path / "a.py") == []
    assert len(check.findings(tmp_path / "a.md")) == 1


def test_generated_parts_are_left_out(check: ModuleType, tmp_path: Path) -> None:
    """Text between the markers of a generated part is not checked, because a script writes it."""
    page = "{}\n\nWhat is written by a script is skipped.\n\n<!-- end of figures -->\n\nGood.\n"
    (tmp_path / "a.md").write_text(page.format("<!-- figures -->"), encoding="utf-8")
    (tmp_path / "b.md").write_text(page.format("<!-- other -->"), encoding="utf-8")
    assert check.findings(tmp_path / "a.md") == []
    assert len(check.findings(tmp_path / "b.md")) == 1


def test_counts_only_fall(check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file may have as many offences as its listed count and no more; --update lowers a count and never raises one."""
    listed = tmp_path / "scripts" / "language_exceptions.txt"
    source = tmp_path / "a.h"
    bad = "// What is left is freed.\n\n"
    listed.write_text("a.h 2\ngone.h 3\n", encoding="utf-8")
    source.write_text(bad * 2, encoding="utf-8")
    assert check.main([]) == 0
    source.write_text(bad * 3, encoding="utf-8")
    assert check.main([]) == 1
    assert check.main(["--update"]) == 1
    assert check.read_exceptions(listed) == {"a.h": 2}
    source.write_text(bad, encoding="utf-8")
    capsys.readouterr()
    assert check.main([]) == 0
    assert "can be lowered" in capsys.readouterr().out
    assert check.main(["--update"]) == 0
    assert check.read_exceptions(listed) == {"a.h": 1}
    source.write_text("// Good.\n", encoding="utf-8")
    assert check.main(["--update"]) == 0
    assert check.read_exceptions(listed) == {}


def test_a_merge_keeps_the_lower_count(check: ModuleType, tmp_path: Path) -> None:
    """If a merge leaves two lines for one file in the exceptions file, the lower count applies."""
    listed = tmp_path / "scripts" / "language_exceptions.txt"
    listed.write_text("# Counts.\na.h 2\na.h 1\n", encoding="utf-8")
    assert check.read_exceptions(listed) == {"a.h": 1}


@pytest.mark.full
def test_this_tree_passes() -> None:
    """The present tree passes its own check."""
    assert load_program(SCRIPT).main([]) == 0
