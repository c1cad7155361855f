"""Tables of what benchmarks/slow_network.py measured: four hosts on links of several speeds, beside one rank."""

from __future__ import annotations

import math
from typing import Any

import table

Row = dict[str, Any]
LAYOUTS = {
    "auto": "the mesh's choice",
    "batch": "items (`batch`)",
    "limb": "limbs (`limb`)",
    "coefficient": "coefficients (`coefficient`)",
}


def _links(report: Row) -> list[str]:
    """What was asked of the links, and what they did."""
    lines = [
        [
            row["link"],
            table.seconds(row["round_trip_s"]),
            _rate(row["stream_bytes_s"]),
            _rate(row["received_by_each_bytes_s"]),
        ]
        for row in report["results"]
        if row["part"] == "links"
    ]
    return table.table(["link", "a byte there and back", "one stream", "each host receives, all sending to all"], lines)


def _rate(bytes_s: float) -> str:
    return f"{bytes_s / 1e6:,.0f} MB/s ({bytes_s * 8e-9:.2f} Gbit/s)"


def _what(row: Row) -> str:
    """An operation."""
    if row["part"] == "hcnn5":
        return str(row["what"])
    if row["level"] == "circuit" and row["ring"]:
        return f"{row['items']} BGV multiplication{'s' if row['items'] > 1 else ''} + relinearization, N={row['row_size']:,}"
    if row["level"] == "circuit":
        return f"product of three parts, {row['row_size']:,} residues a row"
    where = "copied around" if row["level"] == "phase" else "resident"
    return f"{row['items']} product{'s' if row['items'] > 1 else ''}, {row['row_size']:,} residues a row, {where}"


def _sent(row: Row) -> float:
    """Bytes that a rank sends in a call: of copies those from and to rank 0."""
    if row["part"] == "hcnn5":
        return float(row["most_sent_bytes"] / row["calls"])
    return float(row["dealt"] + row["moved"] if row["level"] == "phase" else row["sent"])


def _exchanges(row: Row) -> str:
    return "-" if row.get("level") == "phase" else f"{row['exchanges'] / row.get('calls', 1):.0f}"


def _by_operation(report: Row) -> tuple[list[str], dict[str, list[Row]], dict[str, float]]:
    """The links; rows of several ranks by operation; one rank's seconds."""
    links = [row["link"] for row in report["results"] if row["part"] == "links"]
    measured = [
        row for row in report["results"] if row["part"] != "links" and not (row.get("ring") and row["level"] == "function")
    ]
    one = {_what(row): row["median_s"] for row in measured if row["ranks"] == 1}
    several = {
        what: [r for r in measured if _what(r) == what and r["ranks"] > 1] for what in dict.fromkeys(map(_what, measured))
    }
    return links, several, one


def operations(report: Row) -> list[str]:
    """An operation and a layout a line: of each link the time, and the floor in brackets."""
    links, several, one = _by_operation(report)
    lines = []
    for what, rows in several.items():
        if what in one:
            lines.append([what, "one rank", "-", "-", *[table.seconds(one[what])] * len(links)])
        for layout in dict.fromkeys(row["layout"] for row in rows):
            found = {row["link"]: row for row in rows if row["layout"] == layout}
            some = next(iter(found.values()))
            cells = [
                table.seconds(found[link]["median_s"]) + _floor(found[link]) if link in found else "-" for link in links
            ]
            lines.append([what, LAYOUTS[layout], table.size(_sent(some)), _exchanges(some), *cells])
    return table.table(["what", "layout", "a rank sends", "exchanges", *(f"{link} (floor)" for link in links)], lines)


def _floor(row: Row) -> str:
    """In brackets; none where nothing is sent."""
    return f" ({table.seconds(row['floor_s'])})" if row["floor_s"] > 0 and _sent(row) >= 1000 else ""


def _splits(row: Row, hosts: int) -> bool:
    """Whether every host has a part of the work."""
    return row["layout"] in ("limb", "coefficient") or row.get("exchanges", 0) >= 1 or row.get("items", 1) >= hosts


def _least(row: Row, link: Row, one: float, hosts: int) -> float:
    """What hosts with a core each take at best: their share of one rank's time, then bytes and exchanges by the link as asked."""
    bytes_s = link["bits_a_second"] / 8 if link["bits_a_second"] else link["stream_bytes_s"]
    delay = link["delay_s"] or link["round_trip_s"] / 2
    return one / hosts + _sent(row) / bytes_s + row["exchanges"] / row.get("calls", 1) * delay


def verdicts(report: Row) -> list[str]:
    """Of each link the layout that four hosts with a core each take least with; one rank where none is less."""
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
            cells.append(f"{LAYOUTS[layout]}: {table.seconds(least[layout])}" if pays else "one rank")
        split = [r for r in rows if r["link"] == links[0] and _splits(r, report["hosts"])]
        lines.append([what, table.seconds(one[what]), *cells, _from(split, one[what], report["hosts"])])
    return table.table(["what", "one rank", *links, "splitting pays from, at 1 ms"], lines)


def _from(rows: list[Row], one: float, hosts: int) -> str:
    """The slowest link of 1 ms on which a layout takes less than one rank, for hosts with a core each."""
    found = []
    for row in rows:
        left = one * (1 - 1 / hosts) - row["exchanges"] / row.get("calls", 1) * 1e-3
        if row["layout"] != "auto" or row["part"] == "hcnn5":
            found.append(_sent(row) * 8 / left if left > 0 else math.inf)
    least = min(found, default=math.inf)
    if least == math.inf:
        return "no link"
    return "any link" if least < 1e6 else f"{least / 1e9:.2g} Gbit/s"


def tables(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """All of it, file by file."""
    lines: list[str] = []
    for name, report in reports.items():
        parts = (_links(report), operations(report), verdicts(report))
        machine = report["machine"]
        cores = f"{table.processor(machine)}, {machine['cores']} cores for {report['hosts']} ranks"
        where = f"**{name}**: {cores}; commit {report['commit'][:12]}; {report['date']}; load {report['load']}"
        lines += [*([""] if lines else []), where]
        for part in parts:
            lines += ["", *part]
    return lines
