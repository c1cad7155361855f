"""Tables of TFHE: files of several machines side by side, with peers' times."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from benchmarks.report import machines
from benchmarks.report.render import Lines, Reports, blocks, columns, commits, links, markdown, render, seconds
from benchmarks.report.results import Report, Row

#: Peers' times, measured earlier on similar machines, never in the same run.
PEERS: list[Row] = json.loads(Path(__file__).with_name("tfhe_peers.json").read_text(encoding="utf-8"))["peers"]


def where(report: Report, row: Row) -> str:
    """Returns the number of cores, or the GPU's name."""
    if threads := row.get("threads"):
        return machines.cores(threads)
    machine = report["machine"]
    return str(machine.get("gpu") or machine.get("device", "?").split(":")[0]).removeprefix("NVIDIA ")


def rows(reports: Reports) -> list[Row]:
    """Returns all results, each with its machine."""
    return [row | {"where": where(report, row)} for report in reports.values() for row in report["results"]]


def security(p: Row) -> str:
    """Formats security as in the tables."""
    return "128-bit" if p["security"] == "128-bit" else p["security"].removeprefix("insecure, ")


def cell(row: Row | None) -> str:
    """Formats a time. A skipped case shows its estimate; wrong results are marked."""
    if row is None:
        return "-"
    if "skipped" in row:
        return f"(about {seconds(row['estimate_s'])})" if "estimate_s" in row else "-"
    return seconds(row["median_s"]) + ("\\*" if row.get("wrong") else "")


def peers_of(row: Row) -> str:
    """Returns peers' times on the kind of machine of Heliograph's row."""
    found = [p for p in PEERS if p["case"] == row["case"] and p["where"] in row["where"]]
    return "; ".join(f"{seconds(p['seconds'])} ({p['who']})" for p in found)


KERNELS = columns(
    "kernels of: {shape} | on: {where} | at once: {count:,} | key switch: {key_switch_s:time}",
    "bootstrap: {bootstrap_s:time} | both, with the sum: {all_s:time} | a second: {a_second:,.0f}",
    "floor: {floor_s:time} | over floor: {over_floor:.2f}",
)
CASES = columns(
    "what: {what} | on: {where} | bootstraps of one in layers: {bootstraps} | one call: {cell}",
    "a second: {items/median_s:,.3g} | floor: {floor} | over floor: {over_floor:.2f}",
    "security, failure: {security} | peers, measured earlier: {peers_of}",
    bootstraps=lambda r: f"{r['bootstraps'] // r['items']:,} in {r['levels']:,}",
    cell=cell,
    floor=lambda r: seconds(r.get("floor_s")) if "median_s" in r else None,
    security=lambda r: f"{security(r['parameters'])}, 2^{r['parameters']['log2_failure']:.0f}",
    peers_of=peers_of,
)


def of_kind(found: list[Row], beginning: str) -> Lines:
    """Returns a row per case of gates or integers."""
    some = [r for r in found if r.get("case", "").startswith(beginning) and "parameters" in r]
    order = list(dict.fromkeys(r["what"] for r in some))
    return render(CASES, sorted(some, key=lambda r: order.index(r["what"])))


def errors(found: Iterable[Row]) -> Lines:
    """Returns the number of wrong results."""
    bad = [r for r in found if r.get("wrong")]
    return [f"\\* some elements were wrong: {'; '.join(map(_error, bad))}."] if bad else []


def _error(row: Row) -> str:
    """Describes wrong elements of a result, and how probable the set's failure probability makes them."""
    found = f"{row['what']}, {row['where']}: {row['wrong']} of {row['elements']}"
    if not row.get("bootstraps"):
        return found
    failure = row["parameters"]["log2_failure"]
    likely = -math.expm1(row["bootstraps"] * math.log1p(-(2.0**failure)))
    return f"{found}; {row['bootstraps']:,} bootstraps that fail with 2^{failure:.0f} each cause an error with probability {likely:.2g}"


def whole(reports: Reports) -> Lines:
    """Returns all tables."""
    found = rows(reports)
    kernels = sorted((r for r in found if "shape" in r), key=lambda r: r["shape"])
    return blocks(render(KERNELS, kernels), of_kind(found, "gates/"), of_kind(found, "integers/"), errors(found))


#: Lines of the headlines: description, and the case by kind of machine.
SCREEN = (
    ("one NAND", "boolean", "gates/nand/boolean/x1", "gates/nand/boolean/x1"),
    ("NANDs in a batch, a second", "boolean", "gates/nand/boolean/x256", "gates/nand/boolean/x65536"),
    ("one table look-up of 2 bits (key switch and bootstrap)", "2_2", "gates/bootstrap/2_2/x1", "gates/bootstrap/2_2/x1"),
    ("look-ups in a batch, a second", "2_2", "gates/bootstrap/2_2/x256", "gates/bootstrap/2_2/x16384"),
    ("32-bit addition", "2_2", "integers/add/2_2/x1", "integers/add/2_2/x1"),
    ("32-bit comparison", "2_2", "integers/less/2_2/x1", "integers/less/2_2/x1"),
    ("32-bit multiplication", "2_2", "integers/multiply/2_2/x1", "integers/multiply/2_2/x1"),
    ("32-bit division", "2_2", "integers/divide/2_2/x1", "integers/divide/2_2/x1"),
    ("16x16 matrix product of 16-bit numbers", "2_2", "table9/2_2/default/16", "table9/2_2/default/16"),
)


def screen(reports: Reports) -> Lines:
    """Returns the headlines: machines side by side, and tfhe-rs if it was measured on the same kind."""
    found = rows(reports)
    places = list(dict.fromkeys(r["where"] for r in found if "case" in r and "parameters" in r))
    by_case = {(r["case"], r["where"]): r for r in found if "case" in r}
    lines = []
    for words, set_name, on_cores, on_gpu in SCREEN:
        rate, line, others = words.endswith("a second"), [words, set_name], []
        for place in places:
            case = on_cores if "core" in place else on_gpu
            row = by_case.get((case, place), {})
            done = "median_s" in row
            line.append((f"{row['items'] / row['median_s']:,.0f}" if rate else cell(row)) if done else "-")
        for place in (p for p in ("1 core", "2 cores", "H200") if p in places):
            case = on_cores if "core" in place else on_gpu
            known = [p for p in PEERS if (p["case"], p["where"]) == (case, place) and p["who"].startswith("tfhe-rs")]
            for p in known[:1]:
                count = int(case.rpartition("x")[2])
                others.append(f"{place} {count / p['seconds']:,.0f}" if rate else f"{place} {seconds(p['seconds'])}")
        lines.append([*line, "; ".join(others) or "-"])
    heads = ["TFHE, at 128 bits, failure below 2^-128", "set", *places, "tfhe-rs, measured earlier on similar machines"]
    note = f"Medians of calls waited for, keys ready, commit {commits(reports)}: {links(reports)}."
    return [*markdown(heads, lines), "", note]


TABLES = {"TFHE": machines.headed(whole), "TFHE in short": screen}
