"""Tables of docs/papers/frame-2015.md: the thesis's numbers, HElib's on a machine of ours, and Heliograph's.

Heliograph's numbers are results of benchmarks/runners/doublecrt.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers import facts
from benchmarks.report import machines
from benchmarks.report.render import Lines, Reports, blocks, commit, link, markdown, seconds, size
from benchmarks.report.results import Report, Row

THESIS = facts.of("frame")
SIZES, TABLES_PRINTED = THESIS["sizes"], THESIS["tables"]
OPERATIONS = ("add", "sub", "mul")
PHASES = {"set-up": "setup_s", "in": "in_s", "compute": "compute_s", "out": "out_s"}
HEADS = ["residues in a row", *(f"{s:,}" for s in SIZES)]
BySize = dict[int, Row]


def ratio(value: float) -> str:
    """Formats a ratio with three digits."""
    return f"{value:.3g}" if float(f"{value:.3g}") < 1000 else f"{float(f'{value:.3g}'):,.0f}"


class Found:
    """The rows of all results files."""

    def __init__(self, reports: Reports) -> None:
        self.peers = [r for report in reports.values() if report["kind"] == "doublecrt-peer" for r in report["results"]]
        self.peer = next((report["peer"] for report in reports.values() if report["kind"] == "doublecrt-peer"), "")
        self.rows: list[Row] = []
        self.kind: dict[str, str] = {}  #: kind of each machine: its description without name and commit
        self._sizes: dict[tuple[str, str, str, bool, int], BySize] = {}
        for report in reports.values():
            if report["kind"] == "doublecrt":
                self.rows += [r | {"where": self.where(r, report)} for r in report["results"] if "level" in r]
        for r in self.rows:
            key = (r["level"], r["operation"], r["where"], r["ring"], r["items"])
            self._sizes.setdefault(key, {})[r["row_size"]] = r

    def where(self, row: Row, report: Report) -> str:
        """Describes where a row was measured: cores, GPU, or ranks with their layout; then machine and commit."""
        gpu = str(report["machine"].get("gpu") or "").removeprefix("NVIDIA ")
        if row["ranks"]:
            kind = gpu or "thread"
            place = f"{row['ranks']} rank{'s' if row['ranks'] > 1 else ''} of one {kind}, {row['layout']}"
        else:
            place = f"one {gpu}" if gpu else str({1: "one core", 2: "two cores"}.get(row["threads"], row["device"]))
            place += "" if row["edition"] == "w64" else ", 32-bit words"
        host = "" if gpu else f", {report['machine']['processor'].replace('(R)', '').removesuffix(' Processor')}"
        rows = "" if report["rows"] == 8 else f", {report['rows']} rows"
        found = f"{place}{rows}{host}, {commit(report['commit'])}"
        self.kind[found] = place
        return found

    def places(self, ranks: bool) -> list[str]:
        """Returns the descriptions of machines that have rows, in the order of the table."""
        return list(dict.fromkeys(r["where"] for r in self.rows if bool(r["ranks"]) == ranks))

    def by_size(self, level: str, operation: str, where: str, ring: bool = False, items: int = 1) -> BySize:
        """Returns rows by the number of residues per row."""
        return self._sizes.get((level, operation, where, ring, items), {})

    def helib(self, level: str, operation: str) -> BySize:
        """Returns the peer's rows, each at the nearest of the thesis's sizes."""
        rows = [r for r in self.peers if (r["level"], r["operation"]) == (level, operation)]
        return {min(SIZES, key=lambda s: abs(s - r["row_size"])): r for r in rows}


def printed(number: str, line: str) -> list[str]:
    """Returns the times of a line in one of the thesis's tables."""
    library = THESIS["titles"][number][1].split(", mul")[0]
    return [f"{line}: thesis, {library} ({number})", *map(seconds, TABLES_PRINTED[number][line])]


def cells(rows: BySize, key: str, columns: list[int] = SIZES) -> list[str]:
    """Returns a table cell with the time at each size."""
    return [seconds(rows[c].get(key)) if c in rows else "-" for c in columns]


def over(rows: BySize, key: str, peer: BySize) -> list[str]:
    """Returns cells with the speed-ups over the peer at each size."""
    return [f"{peer[c]['median_s'] / rows[c][key]:.1f}" if c in rows and c in peer else "-" for c in SIZES]


def function_level(f: Found) -> Iterator[Lines]:
    """Yields tables 5.3, 5.4 and 5.12 to 5.15, and operations with constants, which the thesis omits."""
    lines: list[list[str]] = []
    for op in (*OPERATIONS, *(f"{op} constant" for op in OPERATIONS)):
        for number in ("5.3", "5.4", "5.13", "5.14", "5.15") if op in OPERATIONS else ():
            lines.append(printed(number, op))
        peer = f.helib("function", op)
        if peer:
            lines.append([f"{op}: {f.peer}, one core", *cells(peer, "median_s")])
        for where in f.places(False):
            rows = f.by_size("function", op, where)
            if not rows:
                continue
            lines.append([f"**{op}: here, {where}**", *cells(rows, "median_s")])
            if f.kind[where] == "one core" or not f.kind[where].endswith(("core", "cores", "words")):
                lines.append([f"{op}: {where}, among many", *cells(rows, "pipe_s")])
                lines.append([f"{op}: {where}, floor", *cells(rows, "floor_s")])
                if peer:
                    lines.append([f"{op}: {where}, among many, times faster than HElib", *over(rows, "pipe_s", peer)])
    yield ["### Function level (tables 5.3, 5.4, 5.12 to 5.15)"]
    yield markdown(HEADS, lines)


def circuit_level(f: Found) -> Iterator[Lines]:
    """Yields tables 5.1, 5.2 and 5.8 to 5.11."""
    lines: list[list[str]] = []
    for op, name, raw in (("add", "add", "add"), ("sub", "sub", "sub"), ("mul", "multiply", "tensor")):
        lines += [printed(number, op) for number in ("5.1", "5.2", "5.9", "5.10", "5.11")]
        if peer := f.helib("circuit", name):
            lines.append([f"{op}: {f.peer}, one core", *cells(peer, "median_s")])
        for where in f.places(False):
            if rows := f.by_size("circuit", raw, where):
                what = f"{op}, product of three parts" if raw == "tensor" else op
                lines.append([f"**{what}: here, {where}**", *cells(rows, "median_s")])
                lines.append([f"{what}: {where}, floor", *cells(rows, "floor_s")])
    yield ["### Circuit level (tables 5.1, 5.2, 5.8 to 5.11)"]
    yield markdown(HEADS, lines)
    rings = sorted({r["row_size"] for r in f.rows if r["ring"] and not r["ranks"]})
    lines = []
    for op in ("add", "sub", "multiply"):
        for where in f.places(False):
            if rows := f.by_size("circuit", op, where, ring=True):
                lines.append([f"{op}: {where}", *cells(rows, "median_s", rings)])
                lines.append([f"{op}: {where}, floor", *cells(rows, "floor_s", rings)])
    yield markdown(["BGV's ciphertexts, multiplied and relinearized; N", *(f"{n:,}" for n in rings)], lines)


def phase_level(f: Found) -> Iterator[Lines]:
    """Yields tables 5.5 to 5.7."""
    lines: list[list[str]] = []
    for number, op in (("5.5", "add"), ("5.6", "sub"), ("5.7", "mul")):
        for phase, key in PHASES.items():
            lines.append([f"{op}, {phase}: thesis, GPUHElib ({number})", *map(seconds, TABLES_PRINTED[number][phase])])
            for where in f.places(False):
                if rows := f.by_size("phase", op, where):
                    lines.append([f"{op}, {phase}: here, {where}", *cells(rows, key)])
    yield ["### Phase level (tables 5.5 to 5.7; figures 5.5 to 5.10 are their charts)"]
    yield markdown(HEADS, lines)


def over_ranks(f: Found) -> Iterator[Lines]:
    """Yields tables 5.16 to 5.21: copies to and from ranks, and the time of resident data."""
    places = f.places(True)
    if not places:
        return
    lines: list[list[str]] = []
    for op in OPERATIONS:
        for nodes, distribute, sync in ((4, "5.16", "5.17"), (8, "5.18", "5.19"), (16, "5.20", "5.21")):
            for what, number in (("distribute", distribute), ("sync", sync)):
                times = map(seconds, TABLES_PRINTED[number][op])
                lines.append([f"{op}: thesis, {nodes} nodes, {what} ({number})", *times])
        for where in places:
            copied, resident = f.by_size("phase", op, where), f.by_size("function", op, where)
            if not copied:
                continue
            if f.kind[where].endswith("limb"):
                both = {s: r | {"sync_s": r["compute_s"] + r["out_s"]} for s, r in copied.items()}
                named = f"{op}: here, {where} (rolling round-robin)"
                lines.append([f"{named}, copied in", *cells(copied, "in_s")])
                lines.append([f"{named}, computed and copied out", *cells(both, "sync_s")])
            lines.append([f"**{op}: here, {where}, resident**", *cells(resident, "pipe_s")])
    yield ["### Over ranks (tables 5.16 to 5.21; figures 5.17 to 5.22 are their charts)"]
    yield markdown(HEADS, lines)
    most = max(r["row_size"] for r in f.rows if r["ranks"] and not r["ring"])
    lines = []
    for where in places:
        there, here = (f.by_size(level, "mul", where).get(most) for level in ("phase", "function"))
        if there and here:
            cells_of_one = (
                seconds(there["median_s"]),
                size(there["dealt"] + there["moved"]),
                seconds(here["pipe_s"]),
                size(here["moved"]),
            )
            lines.append([where, *cells_of_one, f"{there['median_s'] / here['pipe_s']:.0f}"])
    heads = [f"one product of objects of {most:,} residues a row", "copied around", "bytes between ranks", "resident"]
    yield markdown([*heads, "bytes between ranks", "times faster"], lines)
    lines = []
    first: dict[tuple[int, int], float] = {}
    for r in (r for r in f.rows if r["ranks"] and r["level"] == "circuit" and r["operation"] == "multiply"):
        if r["ranks"] == 1:
            first[r["row_size"], r["items"]] = r["median_s"]
        one = first.get((r["row_size"], r["items"]))
        speedup = f"{one / r['median_s']:.2f}" if one else "-"
        lines.append([f"{r['items']}, N={r['row_size']:,}", r["where"], seconds(r["median_s"]), speedup, size(r["moved"])])
    heads = ["multiplications + relinearizations", "where", "time", "times faster than one rank", "bytes between ranks"]
    yield markdown(heads, sorted(lines, key=lambda line: line[0]))


#: Rows of the short table, which has the level of functions only: one core, the GPU and the largest cluster of the thesis.
IN_SHORT = (("5.3", "one core"), ("5.4", "its GPU"), ("5.15", "16 nodes"))
#: Figures of slow-downs: level, description, the table of the slower machine, and the table of one core.
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


def slower(f: Found) -> Iterator[Lines]:
    """Yields figures 5.1 to 5.4 and 5.11 to 5.16: times relative to one core's (below 1 is faster). Heliograph's data are
    copied or resident.
    """
    core = next((where for where in f.places(False) if f.kind[where] == "one core"), None)
    lines: list[list[str]] = []
    for op in OPERATIONS:
        for level, words, much, one in SLOWER:
            ratios = (ratio(a / b) for a, b in zip(TABLES_PRINTED[much][op], TABLES_PRINTED[one][op], strict=True))
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
    yield ["### Times slower than one core (figures 5.1 to 5.4 and 5.11 to 5.16)"]
    yield [f"Heliograph's rows are relative to {core}, resident." if core else "No core was measured yet."]
    yield markdown(HEADS, lines)


def pipelined(f: Found) -> Iterator[Lines]:
    """Yields section 3.3, figures 3.3 to 3.6: copies in and out around an operation, sequential and pipelined."""
    found: dict[tuple[str, str], BySize] = {}
    keys: list[str] = []
    for r in (r for r in f.rows if r["level"] == "copies"):
        how = ", ".join(filter(None, (r["way"], r["order"], "pinned" if r["pinned"] else "pageable")))
        keys.append(f"{how}; {r['where']}")
        found.setdefault((r["operation"], keys[-1]), {})[r["row_size"]] = r
    order = ((op, key) for op in OPERATIONS for key in dict.fromkeys(keys))
    lines = [[f"{op}: {key}", *cells(found[op, key], "seconds")] for op, key in order if (op, key) in found]
    if lines:
        yield ["### Copies pipelined (section 3.3, figures 3.3 to 3.6)"]
        yield markdown(HEADS, lines)


def whole(reports: Reports) -> Lines:
    """Returns all tables."""
    f = Found(reports)
    totients = ", ".join(f"{t:,}" for t in THESIS["totients"])
    parts = [[f"The thesis's sizes are HElib's m; its rows had {totients} residues."]]
    for part in (circuit_level, function_level, slower, phase_level, pipelined, over_ranks):
        parts += part(f)
    skipped = [r["skipped"] for report in reports.values() for r in report["results"] if "skipped" in r]
    return blocks(*parts, [f"Not measured: {why}" for why in skipped])


def screen(reports: Reports) -> Lines:
    """Returns the times of one object with the longest rows: the thesis's time, the peer's if there is one, and Heliograph's
    per call among many. Heliograph's rows, file by file, have the speed-up over the peer's core.

    """
    peer = Found({name: report for name, report in reports.items() if report["kind"] == "doublecrt-peer"})
    peers = {op: peer.helib("function", op).get(SIZES[-1]) for op in OPERATIONS}
    rows = f"{THESIS['totients'][-1]:,} residues"
    lines = [
        [f"thesis, {who} ({number}), {rows}", "-", *(seconds(TABLES_PRINTED[number][op][-1]) for op in OPERATIONS), "-"]
        for number, who in IN_SHORT
    ]
    for name, report in reports.items():
        if report["kind"] == "doublecrt-peer":
            times = (seconds((row or {}).get("median_s")) for row in peers.values())
            lines.append([f"{peer.peer}, one core", "8", *times, link(name)])
    for name, report in reports.items():
        f = Found({name: report})
        for where in f.places(False):
            cells = []
            for op, one in peers.items():
                row = f.by_size("function", op, where).get(SIZES[-1])
                faster = f" ({one['median_s'] / row['pipe_s']:.1f})" if row and one else ""
                cells.append(seconds(row["pipe_s"]) + faster if row else "-")
            if set(cells) != {"-"}:
                lines.append([where, str(report["rows"]), *cells, link(name)])
    heads = [f"one object, {SIZES[-1]:,} residues a row, among many (times faster than HElib on one core)", "rows"]
    return markdown([*heads, *OPERATIONS, "file"], lines)


TABLES = {"frame": machines.headed(whole), "frame in short": screen}
