"""What docs/papers/frame-2015.md says of the thesis's tables and figures: theirs, HElib's on a machine of ours, and ours.

Ours are results of benchmarks/doublecrt.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from frame_facts import SIZES, TABLES, TITLES, TOTIENTS

Row = dict[str, Any]
Reports = dict[str, Row]
Time = Callable[[float | None], str]
OPERATIONS = ("add", "sub", "mul")
PHASES = {"set-up": "setup_s", "in": "in_s", "compute": "compute_s", "out": "out_s"}


def is_doublecrt(report: Row) -> bool:
    """Whether it is of this runner, or of the peer's program."""
    return str(report.get("kind", "")).startswith("doublecrt")


def table(heads: list[str], lines: list[list[str]]) -> list[str]:
    """A table of Markdown with an empty line behind it; none without lines."""
    if not lines:
        return []
    return ["| " + " | ".join(row) + " |" if row else "|" + "---|" * len(heads) for row in (heads, [], *lines)] + [""]


def size(value: float) -> str:
    """Bytes with three figures."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def ratio(value: float) -> str:
    """With three figures."""
    return f"{value:.3g}" if float(f"{value:.3g}") < 1000 else f"{float(f'{value:.3g}'):,.0f}"


class Found:
    """All lines of all files."""

    def __init__(self, reports: Reports) -> None:
        self.peers = [r for report in reports.values() if report["kind"] == "doublecrt-peer" for r in report["results"]]
        self.peer = next((report["peer"] for report in reports.values() if report["kind"] == "doublecrt-peer"), "")
        self.rows: list[Row] = []
        self.kind: dict[str, str] = {}  #: of each place: what it is without machine and commit
        for report in reports.values():
            if report["kind"] == "doublecrt":
                self.rows += [r | {"where": self.where(r, report)} for r in report["results"] if "level" in r]

    def where(self, row: Row, report: Row) -> str:
        """One core, two cores, a GPU's name; ranks and their layout; machine and commit."""
        gpu = str(report["machine"].get("gpu") or "").removeprefix("NVIDIA ")
        if row["ranks"]:
            kind = gpu or "thread"
            place = f"{row['ranks']} rank{'s' if row['ranks'] > 1 else ''} of one {kind}, {row['layout']}"
        else:
            place = f"one {gpu}" if gpu else {1: "one core", 2: "two cores"}.get(row["threads"], row["device"])
            place += "" if row["edition"] == "w64" else ", 32-bit words"
        host = "" if gpu else f", {report['machine']['processor'].replace('(R)', '').removesuffix(' Processor')}"
        rows = "" if report["rows"] == 8 else f", {report['rows']} rows"
        found = f"{place}{rows}{host}, {report['commit'][:12]}"
        self.kind[found] = place
        return found

    def places(self, ranks: bool) -> list[str]:
        """Where there are lines of, in order."""
        return list(dict.fromkeys(r["where"] for r in self.rows if bool(r["ranks"]) == ranks))

    def by_size(self, level: str, operation: str, where: str, ring: bool = False, items: int = 1) -> dict[int, Row]:
        """Lines by the size of a row."""
        wanted = {"level": level, "operation": operation, "where": where, "ring": ring, "items": items}
        return {r["row_size"]: r for r in self.rows if all(r[key] == value for key, value in wanted.items())}

    def helib(self, level: str, operation: str) -> dict[int, Row]:
        """The peer's, at the size its row is nearest to."""
        rows = [r for r in self.peers if (r["level"], r["operation"]) == (level, operation)]
        return {min(SIZES, key=lambda s: abs(s - r["row_size"])): r for r in rows}


def thesis(number: str, line: str, seconds: Time) -> list[str]:
    """A line of one of its tables."""
    return [f"{line}: thesis, {TITLES[number][1].split(', mul')[0]} ({number})", *map(seconds, TABLES[number][line])]


def cells(rows: dict[int, Row], key: str, seconds: Time, columns: tuple[int, ...] = SIZES) -> list[str]:
    """A time at each size."""
    return [seconds(rows[c].get(key)) if c in rows else "-" for c in columns]


def over(rows: dict[int, Row], key: str, peer: dict[int, Row]) -> list[str]:
    """How many times faster than the peer."""
    return [f"{peer[c]['median_s'] / rows[c][key]:.1f}" if c in rows and c in peer else "-" for c in SIZES]


HEADS = ["residues in a row", *(f"{s:,}" for s in SIZES)]


def function_level(f: Found, seconds: Time) -> Iterator[str]:
    """Tables 5.3, 5.4 and 5.12 to 5.15, and the same with constants, which the thesis leaves out."""
    lines: list[list[str]] = []
    for op in (*OPERATIONS, *(f"{op} constant" for op in OPERATIONS)):
        for number in ("5.3", "5.4", "5.13", "5.14", "5.15") if op in OPERATIONS else ():
            lines.append(thesis(number, op, seconds))
        peer = f.helib("function", op)
        if peer:
            lines.append([f"{op}: {f.peer}, one core", *cells(peer, "median_s", seconds)])
        for where in f.places(False):
            rows = f.by_size("function", op, where)
            if not rows:
                continue
            lines.append([f"**{op}: here, {where}**", *cells(rows, "median_s", seconds)])
            if f.kind[where] == "one core" or not f.kind[where].endswith(("core", "cores", "words")):
                lines.append([f"{op}: {where}, among many", *cells(rows, "pipe_s", seconds)])
                lines.append([f"{op}: {where}, floor", *cells(rows, "floor_s", seconds)])
                if peer:
                    lines.append([f"{op}: {where}, among many, times faster than HElib", *over(rows, "pipe_s", peer)])
    yield "### Function level (tables 5.3, 5.4, 5.12 to 5.15)\n"
    yield from table(HEADS, lines)


def circuit_level(f: Found, seconds: Time) -> Iterator[str]:
    """Tables 5.1, 5.2 and 5.8 to 5.11."""
    lines: list[list[str]] = []
    for op, name, raw in (("add", "add", "add"), ("sub", "sub", "sub"), ("mul", "multiply", "tensor")):
        lines += [thesis(number, op, seconds) for number in ("5.1", "5.2", "5.9", "5.10", "5.11")]
        peer = f.helib("circuit", name)
        if peer:
            lines.append([f"{op}: {f.peer}, one core", *cells(peer, "median_s", seconds)])
        for where in f.places(False):
            rows = f.by_size("circuit", raw, where)
            if rows:
                what = f"{op}, product of three parts" if raw == "tensor" else op
                lines.append([f"**{what}: here, {where}**", *cells(rows, "median_s", seconds)])
                lines.append([f"{what}: {where}, floor", *cells(rows, "floor_s", seconds)])
    yield "### Circuit level (tables 5.1, 5.2, 5.8 to 5.11)\n"
    yield from table(HEADS, lines)
    rings = tuple(sorted({r["row_size"] for r in f.rows if r["ring"] and not r["ranks"]}))
    lines = []
    for op in ("add", "sub", "multiply"):
        for where in f.places(False):
            rows = f.by_size("circuit", op, where, ring=True)
            if rows:
                lines.append([f"{op}: {where}", *cells(rows, "median_s", seconds, rings)])
                lines.append([f"{op}: {where}, floor", *cells(rows, "floor_s", seconds, rings)])
    yield from table(["BGV's ciphertexts, multiplied and relinearized; N", *(f"{n:,}" for n in rings)], lines)


def phase_level(f: Found, seconds: Time) -> Iterator[str]:
    """Tables 5.5 to 5.7."""
    lines: list[list[str]] = []
    for number, op in (("5.5", "add"), ("5.6", "sub"), ("5.7", "mul")):
        for phase, key in PHASES.items():
            lines.append([f"{op}, {phase}: thesis, GPUHElib ({number})", *map(seconds, TABLES[number][phase])])
            for where in f.places(False):
                rows = f.by_size("phase", op, where)
                if rows:
                    lines.append([f"{op}, {phase}: here, {where}", *cells(rows, key, seconds)])
    yield "### Phase level (tables 5.5 to 5.7; figures 5.5 to 5.10 are their charts)\n"
    yield from table(HEADS, lines)


def over_ranks(f: Found, seconds: Time) -> Iterator[str]:
    """Tables 5.16 to 5.21: in and out of ranks, and what it costs where data stays."""
    places = f.places(True)
    lines: list[list[str]] = []
    for op in OPERATIONS:
        for nodes, distribute, sync in ((4, "5.16", "5.17"), (8, "5.18", "5.19"), (16, "5.20", "5.21")):
            lines.append([f"{op}: thesis, {nodes} nodes, distribute ({distribute})", *map(seconds, TABLES[distribute][op])])
            lines.append([f"{op}: thesis, {nodes} nodes, sync ({sync})", *map(seconds, TABLES[sync][op])])
        for where in places:
            copied, resident = f.by_size("phase", op, where), f.by_size("function", op, where)
            if not copied:
                continue
            if f.kind[where].endswith("limb"):
                lines.append([f"{op}: here, {where} (rolling round-robin), copied in", *cells(copied, "in_s", seconds)])
                both = {s: r | {"sync_s": r["compute_s"] + r["out_s"]} for s, r in copied.items()}
                lines.append(
                    [f"{op}: here, {where} (rolling round-robin), computed and copied out", *cells(both, "sync_s", seconds)]
                )
            lines.append([f"**{op}: here, {where}, resident**", *cells(resident, "pipe_s", seconds)])
    if not places:
        return
    yield "### Over ranks (tables 5.16 to 5.21; figures 5.17 to 5.22 are their charts)\n"
    yield from table(HEADS, lines)
    most = max(r["row_size"] for r in f.rows if r["ranks"] and not r["ring"])
    lines = []
    for where in places:
        copied, resident = (f.by_size(level, "mul", where).get(most) for level in ("phase", "function"))
        if copied and resident:
            lines.append(
                [
                    where,
                    seconds(copied["median_s"]),
                    size(copied["dealt"] + copied["moved"]),
                    seconds(resident["pipe_s"]),
                    size(resident["moved"]),
                    f"{copied['median_s'] / resident['pipe_s']:.0f}",
                ]
            )
    heads = [f"one product of objects of {most:,} residues a row", "copied around", "bytes between ranks", "resident"]
    yield from table([*heads, "bytes between ranks", "times faster"], lines)
    lines = []
    first: dict[tuple[int, int], float] = {}
    for r in (r for r in f.rows if r["ranks"] and r["level"] == "circuit" and r["operation"] == "multiply"):
        if r["ranks"] == 1:
            first[r["row_size"], r["items"]] = r["median_s"]
        one = first.get((r["row_size"], r["items"]))
        speedup = f"{one / r['median_s']:.2f}" if one else "-"
        lines.append([f"{r['items']}, N={r['row_size']:,}", r["where"], seconds(r["median_s"]), speedup, size(r["moved"])])
    lines.sort(key=lambda line: line[0])
    yield from table(
        ["multiplications + relinearizations", "where", "time", "times faster than one rank", "bytes between ranks"], lines
    )


#: Function level in short: of one core, of its GPU and of its largest cluster.
THESIS = (("5.3", "one core"), ("5.4", "its GPU"), ("5.15", "16 nodes"))
#: Figures of how much slower: level, words, the slower table and that of one core.
SLOWER = (
    ("circuit", "GPUHElib (figure 5.1)", "5.2", "5.1"),
    ("circuit", "4 nodes (figure 5.11)", "5.9", "5.8"),
    ("circuit", "8 nodes (figure 5.12)", "5.10", "5.8"),
    ("circuit", "16 nodes (figure 5.13)", "5.11", "5.8"),
    ("function", "GPUHElib (figures 5.2 to 5.4)", "5.4", "5.3"),
    ("function", "4 nodes (figures 5.14 to 5.16)", "5.13", "5.12"),
    ("function", "8 nodes (figures 5.14 to 5.16)", "5.14", "5.12"),
    ("function", "16 nodes (figures 5.14 to 5.16)", "5.15", "5.12"),
)


def slower(f: Found, seconds: Time) -> Iterator[str]:
    """Figures 5.1 to 5.4 and 5.11 to 5.16: times of the core's time; below 1 is faster. Ours both copied around and resident."""
    core = next((where for where in f.places(False) if f.kind[where] == "one core"), None)
    lines: list[list[str]] = []
    for op in OPERATIONS:
        for level, words, much, one in SLOWER:
            ratios = (ratio(a / b) for a, b in zip(TABLES[much][op], TABLES[one][op], strict=True))
            lines.append([f"{op}: thesis, {words}, {level}", *ratios])
        base = f.by_size("function", op, core) if core else {}
        for where in f.places(False) + f.places(True):
            if where == core or f.kind[where].endswith(("words", "batch", "coefficient")):
                continue
            for level, key, words in (("phase", "median_s", "copied around"), ("function", "pipe_s", "resident")):
                rows = f.by_size(level, op, where)
                if rows and base:
                    ratios = (ratio(rows[c][key] / base[c]["median_s"]) if c in rows and c in base else "-" for c in SIZES)
                    lines.append([f"{op}: here, {where}, {words}", *ratios])
    yield "### Times slower than one core (figures 5.1 to 5.4 and 5.11 to 5.16)\n"
    yield f"Ours over {core}, resident there.\n" if core else "No core was measured yet.\n"
    yield from table(HEADS, lines)


def pipelined(f: Found, seconds: Time) -> Iterator[str]:
    """Section 3.3, figures 3.3 to 3.6: copies in and out around an operation, in turn and pipelined."""
    rows = [r for r in f.rows if r["level"] == "copies"]
    lines = []
    for op in OPERATIONS:
        for key in dict.fromkeys((r["where"], r["way"], r["order"], r["pinned"]) for r in rows):
            mine = {
                r["row_size"]: r
                for r in rows
                if (r["where"], r["way"], r["order"], r["pinned"], r["operation"]) == (*key, op)
            }
            if mine:
                where, way, order, pinned = key
                how = ", ".join(filter(None, (way, order, "pinned" if pinned else "pageable")))
                lines.append([f"{op}: {how}; {where}", *cells(mine, "seconds", seconds)])
    if lines:
        yield "### Copies pipelined (section 3.3, figures 3.3 to 3.6)\n"
        yield from table(HEADS, lines)


def whole(reports: Reports, seconds: Time) -> list[str]:
    """All tables."""
    f = Found(reports)
    lines = [
        f"The thesis's sizes are HElib's m; its rows had {', '.join(f'{t:,}' for t in TOTIENTS)} residues.",
        "",
    ]
    for part in (circuit_level, function_level, slower, phase_level, pipelined, over_ranks):
        lines += part(f, seconds)
    skipped = [r["skipped"] for report in reports.values() for r in report["results"] if "skipped" in r]
    lines += [f"Not measured: {why}" for why in skipped]
    return lines if lines[-1] else lines[:-1]


def screen(reports: Reports, seconds: Time) -> list[str]:
    """The longest rows, one object: the thesis's, where the peer is, then ours among many with how many times faster than the peer's
    core, file by file.
    """
    peer = Found(reports).helib("function", "add") and Found(reports)
    lines = [
        [
            f"thesis, {who} ({number}), {TOTIENTS[-1]:,} residues",
            "-",
            *(seconds(TABLES[number][op][-1]) for op in OPERATIONS),
            "-",
        ]
        for number, who in THESIS
    ]
    for name, report in reports.items():
        if report["kind"] == "doublecrt-peer" and peer:
            times = (peer.helib("function", op).get(SIZES[-1], {}).get("median_s") for op in OPERATIONS)
            lines.append([f"{peer.peer}, one core", "8", *map(seconds, times), f"[{name}](benchmarks/results/{name})"])
    for name, report in reports.items():
        if report["kind"] != "doublecrt":
            continue
        f = Found({name: report})
        for where in f.places(False):
            found = {op: f.by_size("function", op, where).get(SIZES[-1]) for op in OPERATIONS}
            peers = {op: peer.helib("function", op).get(SIZES[-1]) for op in OPERATIONS} if peer else {}
            cells = []
            for op, row in found.items():
                one = peers.get(op)
                faster = f" ({one['median_s'] / row['pipe_s']:.1f})" if row and one else ""
                cells.append(seconds(row["pipe_s"]) + faster if row else "-")
            if any(found.values()):
                lines.append([where, str(report["rows"]), *cells, f"[{name}](benchmarks/results/{name})"])
    heads = [f"one object, {SIZES[-1]:,} residues a row, among many (times faster than HElib on one core)", "rows"]
    return table([*heads, *OPERATIONS, "file"], lines)[:-1]
