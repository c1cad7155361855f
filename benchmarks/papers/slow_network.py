"""Tables of benchmarks/runners/slow_network.py's results: four hosts on links of several speeds, compared with one rank."""

from __future__ import annotations

import math

from benchmarks.report import machines
from benchmarks.report.render import Lines, Reports, blocks, columns, commit, markdown, render, seconds, size
from benchmarks.report.results import Report, Row

LAYOUTS = {
    "auto": "the mesh's choice",
    "batch": "items (`batch`)",
    "limb": "limbs (`limb`)",
    "coefficient": "coefficients (`coefficient`)",
}


LINKS = columns(
    "link: {link} | round trip of one byte: {round_trip_s:time} | one stream: {stream}",
    "each host receives, all sending to all: {each}",
    stream=lambda r: _rate(r["stream_bytes_s"]),
    each=lambda r: _rate(r["received_by_each_bytes_s"]),
)


def _rate(bytes_s: float) -> str:
    return f"{bytes_s / 1e6:,.0f} MB/s ({bytes_s * 8e-9:.2f} Gbit/s)"


def _what(row: Row) -> str:
    """Describes an operation."""
    if row["part"] == "hcnn5":
        return str(row["what"])
    if row["level"] == "circuit" and row["ring"]:
        return f"{row['items']} BGV multiplication{'s' if row['items'] > 1 else ''} + relinearization, N={row['row_size']:,}"
    if row["level"] == "circuit":
        return f"product of three parts, {row['row_size']:,} residues a row"
    where = "copied" if row["level"] == "phase" else "resident"
    return f"{row['items']} product{'s' if row['items'] > 1 else ''}, {row['row_size']:,} residues a row, {where}"


def _sent(row: Row) -> float:
    """Returns the bytes that a rank sends in a call; for copied operands, the bytes from and to rank 0."""
    if row["part"] == "hcnn5":
        return float(row["most_sent_bytes"] / row["calls"])
    return float(row["dealt"] + row["moved"] if row["level"] == "phase" else row["sent"])


def _exchanges(row: Row) -> str:
    return "-" if row.get("level") == "phase" else f"{row['exchanges'] / row.get('calls', 1):.0f}"


def _by_operation(report: Report) -> tuple[list[str], dict[str, list[Row]], dict[str, float]]:
    """Returns the links, rows of several ranks by operation, and the seconds of one rank."""
    links = [row["link"] for row in report["results"] if row["part"] == "links"]
    measured = [
        row for row in report["results"] if row["part"] != "links" and not (row.get("ring") and row["level"] == "function")
    ]
    one = {_what(row): row["median_s"] for row in measured if row["ranks"] == 1}
    several = {
        what: [r for r in measured if _what(r) == what and r["ranks"] > 1] for what in dict.fromkeys(map(_what, measured))
    }
    return links, several, one


def operations(report: Report) -> Lines:
    """Returns a row per operation and layout: for each link the time, with the floor in brackets."""
    links, several, one = _by_operation(report)
    lines = []
    for what, rows in several.items():
        if what in one:
            lines.append([what, "one rank", "-", "-", *[seconds(one[what])] * len(links)])
        for layout in dict.fromkeys(row["layout"] for row in rows):
            found = {row["link"]: row for row in rows if row["layout"] == layout}
            some = next(iter(found.values()))
            cells = [seconds(found[link]["median_s"]) + _floor(found[link]) if link in found else "-" for link in links]
            lines.append([what, LAYOUTS[layout], size(_sent(some)), _exchanges(some), *cells])
    return markdown(["what", "layout", "a rank sends", "exchanges", *(f"{link} (floor)" for link in links)], lines)


def _floor(row: Row) -> str:
    """Formats the floor in brackets; empty if nothing is sent."""
    return f" ({seconds(row['floor_s'])})" if row["floor_s"] > 0 and _sent(row) >= 1000 else ""


def _splits(row: Row, hosts: int) -> bool:
    """Returns whether every host has a part of the work."""
    return row["layout"] in ("limb", "coefficient") or row.get("exchanges", 0) >= 1 or row.get("items", 1) >= hosts


def _least(row: Row, link: Row, one: float, hosts: int) -> float:
    """Returns the least time of hosts with one core each: their share of one rank's time, then bytes and exchanges on the nominal link."""
    bytes_s = link["bits_a_second"] / 8 if link["bits_a_second"] else link["stream_bytes_s"]
    delay = link["delay_s"] or link["round_trip_s"] / 2
    return float(one / hosts + _sent(row) / bytes_s + row["exchanges"] / row.get("calls", 1) * delay)


def verdicts(report: Report) -> Lines:
    """Returns, for each link, the fastest layout of four hosts with one core each, or one rank if no layout is faster."""
    links, several, one = _by_operation(report)
    by_name = {row["link"]: row for row in report["results"] if row["part"] == "links"}
    lines = []
    for what, rows in several.items():
        if what not in one or rows[0].get("level") == "phase":
            continue
        cells = []
        for link in links:
            mine = [r for r in rows if r["link"] == link and _splits(r, report["hosts"])]
            mine = [r for r in mine if r["layout"] != "auto"] or mine
            least = {r["layout"]: _least(r, by_name[link], one[what], report["hosts"]) for r in mine}
            layout = min(least, key=lambda name: least[name], default="")
            pays = bool(layout) and least[layout] < one[what]
            cells.append(f"{LAYOUTS[layout]}: {seconds(least[layout])}" if pays else "one rank")
        split = [r for r in rows if r["link"] == links[0] and _splits(r, report["hosts"])]
        lines.append([what, seconds(one[what]), *cells, _from(split, one[what], report["hosts"])])
    return markdown(["what", "one rank", *links, "distribution pays from, at 1 ms"], lines)


def _from(rows: list[Row], one: float, hosts: int) -> str:
    """Returns the slowest link with 1 ms of delay on which a layout is faster than one rank, for hosts with one core each."""
    found = []
    for row in rows:
        left = one * (1 - 1 / hosts) - row["exchanges"] / row.get("calls", 1) * 1e-3
        if row["layout"] != "auto" or row["part"] == "hcnn5":
            found.append(_sent(row) * 8 / left if left > 0 else math.inf)
    least = min(found, default=math.inf)
    if least == math.inf:
        return "no link"
    return "any link" if least < 1e6 else f"{least / 1e9:.2g} Gbit/s"


def tables(reports: Reports) -> Lines:
    """Returns all tables, file by file."""
    parts: list[Lines] = []
    for name, report in reports.items():
        machine = report["machine"]
        cores = f"{machines.processor(machine)}, {machine['cores']} cores for {report['hosts']} ranks"
        where = f"**{name}**: {cores}; commit {commit(report['commit'])}; {report['date']}; load {report['load']}"
        links = render(LINKS, (row for row in report["results"] if row["part"] == "links"))
        parts += [[where], links, operations(report), verdicts(report)]
    return blocks(*parts)


TABLES = {"slow network": tables}
