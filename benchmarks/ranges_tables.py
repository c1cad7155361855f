"""Markdown of wrong and refused values, from what benchmarks/ranges.py wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

FILES = ("zen4-ranges.json",)
KNOWN = {
    "process": "known in the process, nothing through files",
    "said": "a bound said: the next power of two",
    "nothing": "nothing said: `Parameters.bound`",
}
#: log2 of rooms.
ROOMS = ((0, 13), (13, 26), (26, 36), (36, 99))


def _sum(rows: Iterable[Row]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update({"runs": row["runs"], **row["counts"]})
    return total


def _line(what: str, rows: list[Row]) -> str:
    c = _sum(rows)
    right = c["right"] + c["refused"]
    part = f"{c['refused']:,} of {right:,} ({100 * c['refused'] / max(1, right):.2f}%)"
    return f"| {what} | {c['runs']:,} | {c['wrong']:,} | {part} | {c['beyond the room, refused']:,} | {c['unencrypted']:,} |"


def _rooms(rows: list[Row]) -> list[str]:
    lines = []
    for low, high in ROOMS:
        some = [row for row in rows if low <= row["room"] < high]
        if some:
            least, most = (pick(row["room"] for row in some) for pick in (min, max))
            lines.append(_line(f"rooms of 2^{least:g} to 2^{most:g}", some))
    return lines


def ranges(reports: dict[str, Row], seconds: Time) -> list[str]:
    """The tables of results: by how input ranges are known, by room, by named parameter set, and of chains of bootstraps."""
    del seconds
    ((name, report),) = reports.items()
    rows = [row for row in report["results"] if row["kind"] == "computations"]
    default, named = ([row for row in rows if row["sets"] == which] for which in ("default", "named"))
    lines = [
        "| inputs | computations | wrong without an error | right, refused | beyond the room, refused | refused at encryption |",
        "|---|---|---|---|---|---|",
        *(_line(words, [row for row in default if row["known"] == known]) for known, words in KNOWN.items()),
        *_rooms(default),
        *(
            _line(f"{row['name']}, room 2^{row['room']:g}: {KNOWN[row['known']].partition(':')[0].partition(',')[0]}", [row])
            for row in named
        ),
        "",
        "| chains of 1 to 10 bootstraps, one word | chains | wrong without an error | wrong and refused | right and refused |",
        "|---|---|---|---|---|",
    ]
    chains = [row for row in report["results"] if row["kind"] == "chains"]
    for behind, words in sorted({(row["zeros_behind"], row["word_too_small"]) for row in chains}):
        c = _sum(row for row in chains if (row["zeros_behind"], row["word_too_small"]) == (behind, words))
        where = "zeros behind the values" if behind else "all places are values"
        word = "that holds" if words == 1 else f"{words} times too small"
        silent = c["wrong, not refused"]
        lines.append(
            f"| {word}, {where} | {c['runs']} | {silent} | {c['wrong'] - silent} | {c['refused'] - c['wrong'] + silent} |"
        )
    return [
        *lines,
        "",
        f"From [{name}](benchmarks/results/{name}), {report['commit'][:12]}: sets of 128 bits, with 4 to 4,096 slots. "
        "A value counts as wrong that is off by more than 2^-8 of the largest.",
    ]
