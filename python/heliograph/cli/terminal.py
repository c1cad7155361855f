"""Output of the commands: drawings, tables, progress. Plain text if the output is not a terminal."""

from __future__ import annotations

import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from heliograph._common.arguments import printable
from heliograph._common.process import Cycles

_LABEL = re.compile(r" *\S.*?  ")
_GAP = 2  # columns between the columns of a table
_PIPE_WIDTH = 200  # columns of a line if the output is not a terminal
_SHADES, _PLAIN_SHADES = " ░▒▓█", " .:+#"


def console() -> Console:
    """Returns a console on the present standard output."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=_PIPE_WIDTH)


def say(text: str = "", style: str | None = None) -> None:
    """Prints lines literally, without markup."""
    console().print(Text(lines_of(text), style=style or ""))


def labelled(text: str, style: str | None = None) -> None:
    """Prints lines of a label, two spaces and a text; long texts wrap with a hanging indent."""
    width = console().width
    for line in lines_of(text).split("\n"):
        label = _LABEL.match(line)
        indent = label.end() if label and label.end() < width // 2 else 0
        wrapped = textwrap.wrap(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)
        say("\n".join(wrapped), style)


def lines_of(text: str) -> str:
    """Escapes a text for a terminal, line by line."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def complain(message: str) -> None:
    """Prints one line on standard error."""
    print("heliograph: " + printable(" ".join(message.split())), file=sys.stderr)


def render(image: npt.NDArray[np.integer], top: int) -> list[str]:
    """Renders an image of 0 ... top as lines of text, about as wide as tall."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    shades = _SHADES if encoding.startswith("utf") else _PLAIN_SHADES
    values = image.astype(np.float64) / top
    if image.shape[0] > 16:  # one character shows two rows
        even = values[: image.shape[0] // 2 * 2]
        values = even.reshape(-1, 2, even.shape[1]).mean(1)
        repeat = 1
    else:
        repeat = 2
    steps = np.rint(np.clip(values, 0, 1) * (len(shades) - 1)).astype(int)
    return ["".join(shades[step] * repeat for step in row) for row in steps]


def gallery(images: Sequence[npt.NDArray[np.integer]], top: int, captions: Sequence[Text]) -> None:
    """Prints drawings side by side, each with its caption."""
    cells = []
    for image, caption in zip(images, captions, strict=True):
        cell = Text("\n".join(render(image, top)) + "\n", no_wrap=True)
        cell.append_text(caption)
        cells.append(cell)
    console().print(Columns(cells, padding=(0, 3)))


def verdict(prediction: int, truth: int | None = None) -> Text:
    """Formats a prediction, together with the true label if it is known."""
    if truth is None:
        return Text(f"read as {prediction}", style="bold")
    style = "bold green" if prediction == truth else "bold red"
    return Text(f"read as {prediction}, is {truth}", style=style)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Prints rows under a header; the first column is text, the others are numbers.

    Columns that do not fit the terminal follow in further tables, each of which repeats the first column.
    """
    cells = [[cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row] for row in rows]
    widths = [max(Text(name).cell_len, *(row[i].cell_len for row in cells)) for i, name in enumerate(header)]
    for number, columns in enumerate(_parts(widths, console().width)):
        heading = (title or None) if number == 0 else None
        grid = Table(title=heading, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for index in columns:
            grid.add_column(header[index], justify="left" if index == 0 else "right", overflow="fold")
        for row in cells:
            grid.add_row(*(row[index] for index in columns))
        if number:
            say()
        console().print(grid)


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Splits columns into as few tables of width `room` as possible, each with the first column."""
    parts = [[0]]
    used = widths[0]
    for index in range(1, len(widths)):
        if used + _GAP + widths[index] > room and len(parts[-1]) > 1:
            parts.append([0])
            used = widths[0]
        parts[-1].append(index)
        used += _GAP + widths[index]
    return parts


def seconds(value: float) -> str:
    """Formats a time with about three digits."""
    if value < 0.00095:
        return f"{value * 1e6:.0f} us"
    if value < 0.0995:
        return f"{value * 1000:.1f} ms"
    return f"{value:.2f} s" if value < 99.5 else f"{value:.0f} s"


def cycles(counted: Cycles) -> str:
    """Formats the cycles of a simulated device and the load of its units."""
    busy = (
        ", ".join(f"{unit} {share / counted.cycles:.0%}" for unit, share in counted.busy.items()) if counted.cycles else ""
    )
    return (
        f"{counted.cycles:,} cycles, {seconds(counted.seconds)} at an assumed {counted.clock / 1e6:g} MHz"
        f"{f'; busy: {busy}' if busy else ''}"
    )


class Stages:
    """Measures named stages, with a progress bar while one runs."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[str, float], None]]:
        """Measures the block. Yields the function that updates the bar by a part's name and its completed share."""
        start = time.perf_counter()
        with bar(name) as update:
            yield update
        self.times[name] = self.times.get(name, 0.0) + time.perf_counter() - start


@contextmanager
def bar(name: str) -> Iterator[Callable[[str, float], None]]:
    """Shows a progress bar on a terminal, nothing elsewhere."""
    out = console()
    if not out.is_terminal:
        yield lambda part, share: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[part]}"), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task(name, total=1.0, part="")

        def update(part: str, share: float) -> None:
            progress.update(task, completed=share, part=part)

        yield update
