"""Renders results as tables of Markdown. A table declares its columns; its rows are the cases of files, or are computed from them."""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from benchmarks.report.results import FOLDER, Report, Row

#: Maps the name of a results file to its report.
Reports = dict[str, Report]
Lines = list[str]
Writer = Callable[[Reports], Lines]
#: A template of fields, or a function of the row.
Cell = str | Callable[[Row], str | None]
ROOT = FOLDER.parents[1]
RESULTS = "benchmarks/results/"


# Values


def seconds(value: float | None) -> str:
    """Formats a time with three digits."""
    if value is None:
        return "-"
    if float(f"{value:.3g}") >= 1000:
        return f"{value:,.0f} s"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if float(f"{value * scale:.3g}") >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def joules(value: float | None) -> str:
    """Formats an energy with three digits."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f} J"
    return f"{value:.3g} J" if value >= 1 else f"{value * 1e3:.3g} mJ"


def size(value: float | None) -> str:
    """Formats bytes with three digits."""
    if value is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def commit(value: str) -> str:
    """Shortens a commit."""
    return str(value)[:12]


def link(name: str) -> str:
    """Returns a link to a file of results; `placed` makes the link relative to a page."""
    return f"[{Path(name).name}]({name if '/' in name else RESULTS + name})"


def links(names: Iterable[str]) -> str:
    """Returns links to files of results."""
    return ", ".join(map(link, names))


def commits(reports: Reports) -> str:
    """Returns the commits of reports, each once."""
    return ", ".join(dict.fromkeys(commit(report["commit"]) for report in reports.values()))


#: Format specifications beside Python's.
FORMATS: dict[str, Callable[[Any], str]] = {
    "time": seconds,
    "energy": joules,
    "size": size,
    "commit": commit,
    "link": link,
    "GB/s": lambda value: f"{value / 1e9:.1f} GB/s",
    "GiB": lambda value: f"{value / 2**30:.2f} GiB",
    "MiB": lambda value: f"{value / 2**20:.0f} MiB",
    "kB": lambda value: f"{value / 1000:.0f} kB",
}


class _Template(string.Formatter):
    """Formats fields of nested rows: "{parameters.security}, {median_s:time}". An absent field is "-".

    "{a+b}" is a sum, "{a/b}" a ratio; both are "-" if a field is absent, and a ratio also if the divisor is zero.
    "{a:yes/NO}" is for truth values.
    """

    def get_field(self, name: str, args: Sequence[Any], row: Mapping[str, Any]) -> Any:
        above, _, below = name.partition("/")
        value = _sum(row, above)
        if not below:
            return value, name
        divisor = _sum(row, below)
        return value / divisor if value is not None and divisor else None, name

    def format_field(self, value: Any, spec: str) -> str:
        if value is None:
            return "-"
        if isinstance(value, bool) and "/" in spec:
            return spec.split("/")[not value]
        return FORMATS[spec](value) if spec in FORMATS else format(value, spec)


def _sum(row: Mapping[str, Any], names: str) -> Any:
    """Returns a field, or the sum of fields; None if a field is absent."""
    values: list[Any] = []
    for name in names.split("+"):
        value: Any = row
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        values.append(value)
    return None if None in values else reduce(add, values)


filled = _Template().vformat


# Tables


@dataclass(frozen=True)
class Column:
    """A column: its head and its cell."""

    head: str
    cell: Cell

    def of(self, row: Row) -> str:
        """Returns the cell of a row; "-" if the function returns None."""
        return filled(self.cell, (), row) if isinstance(self.cell, str) else self.cell(row) or "-"


def columns(*texts: str, **cells: Cell) -> list[Column]:
    """Returns columns from texts such as "head: {field:format} | head: {cell}"; `cells` has the computed cells by name.

    Raises ValueError for a computed cell that no column shows.
    """
    found, unused = [], set(cells)
    for part in " | ".join(texts).split(" | "):
        head, _, text = part.partition("{")[0].rpartition(": ")
        template = text + part[len(head) + len(": ") + len(text) :]
        name = template.strip("{}")
        unused.discard(name)
        found.append(Column(head, cells.get(name, template)))
    if unused:
        raise ValueError(f"no column shows the cells {', '.join(sorted(unused))}")
    return found


def cases(reports: Reports) -> Iterable[Row]:
    """Yields the cases of all files, each with the name of its `file` and its `run`."""
    for name, report in reports.items():
        for row in report["results"]:
            yield row | {"file": name, "run": report}


@dataclass(frozen=True)
class Table:
    """A table of Markdown with a row per case, then a note."""

    columns: Sequence[Column]
    rows: Callable[[Reports], Iterable[Row]] = cases
    note: Callable[[Reports], str] | None = None

    def __call__(self, reports: Reports) -> Lines:
        """Returns the lines of the table; no lines if there are no rows."""
        lines = render(self.columns, self.rows(reports))
        return [*lines, "", self.note(reports)] if lines and self.note else lines


def render(columns: Sequence[Column], rows: Iterable[Row]) -> Lines:
    """Returns a table of rows."""
    return markdown([column.head for column in columns], [[column.of(row) for column in columns] for row in rows])


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Lines:
    """Returns a table of texts; an empty text if there are no lines."""
    rows = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in (heads, *lines)]
    return [rows[0], "|" + "---|" * len(heads), *rows[1:]] if lines else []


def blocks(*parts: Lines) -> Lines:
    """Joins parts by empty lines; empty parts are left out."""
    return [line for part in parts if part for line in (*part, "")][:-1]


# Pages


def placed(lines: Lines, page: Path) -> str:
    """Returns the text of lines on a page: links to files of results become relative to the page."""
    text = "\n".join(lines)
    for folder in (RESULTS, "workbench/results/"):
        away = os.path.relpath(ROOT / folder, page.resolve().parent)
        text = text.replace(f"]({folder}", "](" if away == "." else f"]({away}/")
    return text
