#!/usr/bin/env python3
"""Check comments, docstrings and pages against the language rules of docs/developing.md.

    check_language.py              check the tree against scripts/language_exceptions.txt
    check_language.py --show PATH  print every finding of these files and folders
    check_language.py --update     lower the counts of language_exceptions.txt to the present ones

The exceptions hold a count per file, which may only fall. Exits 1 if a file has more findings than its count.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = "scripts/language_exceptions.txt"
MAX_WORDS = 30
SKIPPED = re.compile(r"(^|/)(data|third_party)/|^LICENSE|^NOTICE|^benchmarks/results/")


class Line(NamedTuple):
    """One line of prose and its line number in the file."""

    number: int
    text: str


class Finding(NamedTuple):
    """One offence: its line, the rule, and the sentence."""

    line: int
    rule: str
    sentence: str


# ---- extraction: blocks of consecutive prose lines ----

C_TOKENS = re.compile(
    r'R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"
    r"|(?P<line>//[^\n]*)"
    r"|(?P<block>/\*.*?\*/)",
    re.S,
)


def c_blocks(text: str) -> Iterator[list[Line]]:
    """Yield the comments of C++, CUDA and SystemVerilog; adjacent // lines of one column are one block."""
    block: list[Line] = []
    last_column = -1
    for match in C_TOKENS.finditer(text):
        comment = match["line"] or match["block"]
        if not comment:
            continue
        number = text.count("\n", 0, match.start()) + 1
        start = text.rfind("\n", 0, match.start()) + 1
        column = match.start() - start
        alone = not text[start : match.start()].strip()
        if match["block"]:
            body = comment[2:-2].split("\n")
            yield [Line(number + i, re.sub(r"^\s*\* ?", "", line)) for i, line in enumerate(body)]
            continue
        if block and not (alone and number == block[-1].number + 1 and column == last_column):
            yield block
            block = []
        block.append(Line(number, re.sub(r"^//[/!]?<?", "", comment)))
        last_column = column
    if block:
        yield block


def hash_blocks(text: str) -> Iterator[list[Line]]:
    """Yield the # comments of shell, CMake, make, TOML and YAML."""
    block: list[Line] = []
    last_column = -1
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*(?=#(?!!))", line) or re.match(r"""(?:[^"'#]|"[^"]*"|'[^']*')*?\s(?=# )""", line)
        column = match.end() if match else -1
        alone = match is not None and not line[:column].strip()
        if block and not (alone and column == last_column):
            yield block
            block = []
        if match:
            block.append(Line(number, line[column:].lstrip("#@")))
            last_column = column
    if block:
        yield block


def docstrings(tree: ast.Module) -> Iterator[list[Line]]:
    """Yield the docstrings, and the strings that document a name after its assignment."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for i, entry in enumerate(body):
            if not (isinstance(entry, ast.Expr) and isinstance(entry.value, ast.Constant)):
                continue
            documents = i == 0 or isinstance(body[i - 1], ast.Assign | ast.AnnAssign)
            if isinstance(entry.value.value, str) and documents:
                lines = entry.value.value.split("\n")
                yield from docstring_blocks([Line(entry.lineno + j, line) for j, line in enumerate(lines)])


def docstring_blocks(lines: list[Line]) -> Iterator[list[Line]]:
    """Drop examples and literal blocks of a docstring."""
    block: list[Line] = []
    example = literal = False
    indent = 0
    for line in lines:
        blank = not line.text.strip()
        depth = len(line.text) - len(line.text.lstrip())
        literal = literal and (blank or depth > indent)
        example = (example or line.text.lstrip().startswith(">>>")) and not blank
        if blank or example or literal:
            if block:
                yield block
            block = []
            continue
        block.append(line)
        if line.text.rstrip().endswith("::"):
            literal, indent = True, depth
    if block:
        yield block


def python_blocks(text: str) -> Iterator[list[Line]]:
    """Yield the comments and docstrings of a Python file."""
    yield from docstrings(ast.parse(text))
    block: list[Line] = []
    last_column = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or token.string.startswith(("#!", "# type:", "# noqa")):
            continue
        number, column = token.start
        alone = not token.line[:column].strip()
        if block and not (alone and number == block[-1].number + 1 and column == last_column):
            yield block
            block = []
        block.append(Line(number, token.string.lstrip("#:")))
        last_column = column
    if block:
        yield block


def markdown_blocks(text: str) -> Iterator[list[Line]]:
    """Yield the paragraphs, list items and headings of a page; leave out code, tables and generated parts."""
    block: list[Line] = []
    fence = generated = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if fence:
            fence = "" if stripped.startswith(fence) else fence
            continue
        if generated:
            generated = "" if stripped == f"<!-- end of {generated} -->" else generated
            continue
        marker = re.fullmatch(r"<!-- (.*) -->", stripped)
        name = "table" if marker and marker[1].startswith("table ") else marker and marker[1]
        if name and f"<!-- end of {name} -->" in text:
            generated = name
        opened = re.match(r"```+|~~~+", stripped)
        fence = opened[0] if opened else ""
        ends = not stripped or opened or stripped.startswith(("|", "<", "!["))
        if block and (ends or stripped.startswith("#") or block[-1].text.startswith("#")):
            yield block
            block = []
        if not ends:
            block.append(Line(number, stripped))
    if block:
        yield block


READERS: dict[str, Callable[[str], Iterator[list[Line]]]] = {
    **dict.fromkeys((".h", ".cpp", ".cu", ".cuh", ".sv", ".svh"), c_blocks),
    **dict.fromkeys((".sh", ".cmake", ".toml", ".yml", ".yaml", "CMakeLists.txt", "Makefile", "run"), hash_blocks),
    **dict.fromkeys((".py", ".pyi"), python_blocks),
    ".md": markdown_blocks,
}

# ---- sentences ----

ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)]|\(\w\)|#+|@\w+)\s")
FIELD = re.compile(r"\s*\*{0,2}[A-Za-z_]\w*(?:, \*{0,2}\w+)*:\s")  # "name: meaning" in a docstring or a comment
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|al|etc|Fig|Sec|Eq|Thm|Alg|App|Tab|no|pp|St|approx|resp|incl)\.(?=\s)", re.I)
COLUMNS = re.compile(r"\S {3,}\S")


def paragraphs(block: list[Line], fields: bool) -> Iterator[list[Line]]:
    """Split a block at blank lines, list items, lines in columns and, if `fields`, at lines that describe a name."""
    part: list[Line] = []
    for line in block:
        blank = not line.text.strip()
        starts = ITEM.match(line.text + " ") or COLUMNS.search(line.text) or (fields and FIELD.match(line.text + " "))
        if part and (blank or starts or COLUMNS.search(part[-1].text)):
            yield part
            part = []
        if not blank:
            part.append(line)
    if part:
        yield part


def plain(text: str) -> str:
    """Remove the markup: links to their text, code to one word, emphasis to its words."""
    text = re.sub(r"``?[^`]+``?", "`code`", text)
    text = re.sub(r"(?<!\w)([\"'])(?:\w+|\w+ \w+)\1", '"word"', text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", "link", text)
    text = re.sub(r"\*\*|__|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)", "", text)
    return ABBREVIATION.sub(lambda m: m[0].replace(".", ""), text)


def sentences(part: list[Line]) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a paragraph with the line that each starts on."""
    text = ""
    starts: list[tuple[int, int]] = []
    for line in part:
        starts.append((len(text), line.number))
        text += line.text.strip() + " "
    masked = ABBREVIATION.sub(lambda m: m[0].replace(".", "_"), text)
    masked = re.sub(r"`[^`]*`", lambda m: re.sub(r"[.!?]", "_", m[0]), masked)
    begin = 0
    for match in re.finditer(r"[.!?]+[)\"'*_]*(?=\s|$)|$", masked):
        sentence = text[begin : match.end()].strip()
        if sentence:
            offset = begin + len(text[begin:]) - len(text[begin:].lstrip())
            yield max(n for at, n in starts if at <= offset), sentence
        begin = match.end()


# ---- rules ----

# After these verbs a "what" clause is an indirect question: "says what is wrong".
ASKING = (
    r"(?:say|tell|show|explain|describe|know|see|decide|determine|ask|learn|report|print|name|state|specify|define|check|"
    r"understand|document|compare|record|remember|guess|depend|matter|note|reveal|inspect|list|set|exactly|just|precisely)"
    r"(?:s|es|d|ed|ing|n)?|said|told|saw|seen|knew|known|shown|saying|seeing|deciding|describing|"
    r"(?:depend|depends|depending) on|about|no matter|to the question of"
)
QUESTION = re.compile(r"\?[)\"'*_]*$")
START = (
    (r"what(?:ever)?\b(?!-)", "a noun in place of a clause with what"),
    (r"who(?:ever)?\b(?!le)", "a noun in place of who, whoever"),
    (r"nobody\b|no one\b", "a noun in place of nobody"),
    (r"none (?:of|that|is|are|was|has|have|can|may|must|does|do|will|reads|in|but|other)\b", "a noun in place of none"),
    (r"all that\b|all who\b|all which\b", "a noun in place of all that"),
    (r"that which\b|those which\b", "a noun in place of that which"),
    (
        r"one (?:that|who|which|is|was|has|can|may|must|cannot|could|does|takes|reads|needs|holds|gets|makes|would|will)\b",
        "a noun in place of one",
    ),
)
START_RULES = tuple((re.compile(pattern, re.I), rule) for pattern, rule in START)
WITHIN = re.compile(r"\b(?:whoever|nobody|that which|whatsoever)\b", re.I)
WHAT = re.compile(r"(?<![\w-])what(?:ever)?\b(?![-'’])", re.I)
ASKED = re.compile(rf"(?:\b(?:{ASKING})|[(\"'“])\s*(?:\w+ly )?$", re.I)
NAMES = (
    (re.compile(r"(?<![\w./-])[Ss]eal(?:s|ed|ing)?\b|SealedModel"), "export, model bundle, ModelBundle"),
    (re.compile(r"\b[Ee]ditions?\b"), "word_size"),
    (re.compile(r"\b(?:hg|heliograph)\.query\b(?!\.[a-z])"), "hg.sql, hg.pir, hg.knn"),
    (re.compile(r"\bckks\.lookup\b"), "hg.ckks.functional_bootstrap"),
    (re.compile(r"(?<![\w-])--together\b|questions_together"), "--max-batch-size, heliograph_batch_size"),
    (re.compile(r"(?<![\w-])--queue\b(?!-)"), "--max-queue"),
    (re.compile(r"(?<![\w-])--jobs\b(?!-)"), "--max-jobs-per-client"),
    (re.compile(r"(?<![\w-])--rate\b(?!-)"), "--rate-limit"),
    (re.compile(r"(?<![\w-])--clients\b(?!-)"), "--client-ca"),
    (re.compile(r"(?<![\w-])--tls\b(?!-)"), "--tls-cert"),
    (re.compile(r"(?<![\w-])--grpc\b(?!-)"), "--grpc-port"),
    (re.compile(r"(?<![\w-])--metrics\b(?!-)"), "--metrics-address"),
    (re.compile(r"(?<![\w-])--grace\b(?!-)"), "--grace-period"),
    (re.compile(r"\bvouched\b", re.I), "trusted bound"),
    (re.compile(r"\bBfvMultiply\b"), "ScaledTensor"),
)


def word_count(sentence: str) -> int:
    """Return the number of words, where a formula's signs and numbers do not count."""
    return sum(bool(re.search(r"[A-Za-z]{2}|^[aAI]$", word)) for word in sentence.split())


def offences(sentence: str) -> Iterator[str]:
    """Yield the rules that a sentence breaks."""
    text = plain(sentence)
    if not QUESTION.search(text):
        for clause in re.split(r"[;:]\s|\s[-–—]\s", text):
            start = re.sub(r"^[\s\-*+•#>(\"'“]*(?:\d+[.)]\s)?(?:\[[ x]\]\s)?", "", clause)
            yield from (rule for pattern, rule in START_RULES if pattern.match(start))
            asked = False  # "says what is wrong, what was given and what to do" is one indirect question
            for match in WHAT.finditer(start):
                before = start[: match.start()]
                asked = bool(ASKED.search(before)) or (asked and bool(re.search(r"(?:,|\band|\bor) $", before)))
                if match.start() and not asked:
                    yield "a noun in place of a clause with what"
            yield from (f"a noun in place of {match[0].lower()}" for match in WITHIN.finditer(start) if match.start())
    if (words := word_count(text)) > MAX_WORDS:
        yield f"{words} words; {MAX_WORDS} at most"
    named = re.sub(r"\]\([^)]*\)", "]", sentence)
    for pattern, better in NAMES:
        if match := pattern.search(named):
            yield f"{match[0]} is named {better}"


def reader(path: Path) -> Callable[[str], Iterator[list[Line]]] | None:
    """Return the function that extracts prose from this file, if one does."""
    return READERS.get(path.name) or READERS.get(path.suffix)


def findings(path: Path) -> list[Finding]:
    """Return the offences of a file."""
    read = reader(path)
    if read is None:
        return []
    return [
        Finding(line, rule, sentence)
        for block in read(path.read_text(encoding="utf-8"))
        for part in paragraphs(block, fields=read is not markdown_blocks)
        for line, sentence in sentences(part)
        for rule in offences(sentence)
        if path.name != "CHANGELOG.md" or " is named " not in rule  # a list of renames has the old names
    ]


# ---- the tree ----


def files() -> list[str]:
    """Return the paths below ROOT that git tracks, or would after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name and not SKIPPED.search(name) and (ROOT / name).is_file()})


def read_exceptions(path: Path) -> dict[str, int]:
    """Return the allowed count per file; the lowest, if a merge left two lines for a file."""
    counts: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        if line.strip() and not line.startswith("#"):
            name, _, count = line.rpartition(" ")
            counts[name] = min(int(count), counts.get(name, int(count)))
    return counts


def write_exceptions(path: Path, counts: dict[str, int]) -> None:
    """Write the counts above 0, sorted by file."""
    head = "# Findings of scripts/check_language.py that each file may still have. Counts only fall: check_language.py --update.\n"
    path.write_text(head + "".join(f"{name} {counts[name]}\n" for name in sorted(counts) if counts[name]), encoding="utf-8")


def show(paths: list[str]) -> int:
    """Print every finding of the given files and folders."""
    wanted = [Path(path).resolve() for path in paths]
    count = 0
    for name in files():
        path = ROOT / name
        if any(path == want or want in path.parents for want in wanted):
            for found in findings(path):
                count += 1
                print(f"{name}:{found.line}: {found.rule}: {found.sentence}")
    print(f"{count} findings")
    return 1 if count else 0


def main(arguments: list[str]) -> int:
    """Check the tree, print findings, or lower the counts."""
    if arguments[:1] == ["--show"]:
        return show(arguments[1:] or [str(ROOT)])
    listed = ROOT / EXCEPTIONS
    allowed = read_exceptions(listed)
    found = {name: some for name in files() if (some := findings(ROOT / name))}
    if arguments == ["--update"]:
        first = not listed.is_file()
        write_exceptions(listed, {n: len(f) if first else min(len(f), allowed.get(n, 0)) for n, f in found.items()})
        allowed = read_exceptions(listed)
    failed = False
    for name, some in found.items():
        if len(some) > allowed.get(name, 0):
            failed = True
            for one in some:
                print(f"{name}:{one.line}: {one.rule}: {one.sentence}")
            print(f"{name}: {len(some)} findings, {allowed.get(name, 0)} allowed; docs/developing.md has the rules")
    lower = [name for name in allowed if len(found.get(name, [])) < allowed[name]]
    if lower:
        print(f"{len(lower)} counts of {EXCEPTIONS} can be lowered: scripts/check_language.py --update")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
