"""Markdown of TFHE's results (benchmarks/tfhe.py): files of several machines side by side, with peers' figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tfhe_facts import PEERS

Row = dict[str, Any]
Reports = dict[str, Row]
Time = Callable[[float | None], str]


def table(heads: list[str], lines: list[list[str]]) -> list[str]:
    """A table of Markdown; none without lines."""
    if not lines:
        return []
    return ["| " + " | ".join(row) + " |" if row else "|" + "---|" * len(heads) for row in (heads, [], *lines)]


def where(report: Row, row: Row) -> str:
    """One core, two cores, or the GPU's name."""
    if threads := row.get("threads"):
        return f"{threads} core{'s' if threads > 1 else ''}"
    machine = report["machine"]
    return str(machine.get("gpu") or machine.get("device", "?").split(":")[0]).removeprefix("NVIDIA ")


def rows(reports: Reports) -> list[Row]:
    """All results, each with where it was measured; what was left out without a word of how long it takes is none."""
    found = []
    for report in reports.values():
        found += [row | {"where": where(report, row)} for row in report["results"]]
    return found


def security(p: Row) -> str:
    """As the tables say it."""
    return "128-bit" if p["security"] == "128-bit" else p["security"].removeprefix("insecure, ")


def cell(row: Row | None, seconds: Time) -> str:
    """A time; where it was left out, what it would take; a mark where results were wrong."""
    if row is None:
        return "-"
    if "skipped" in row:
        return f"(about {seconds(row['estimate_s'])})" if "estimate_s" in row else "-"
    return seconds(row["median_s"]) + ("\\*" if row.get("wrong") else "")


def kernels(found: list[Row], seconds: Time) -> list[str]:
    """Batches of each set."""
    lines = [
        [
            r["shape"],
            r["where"],
            f"{r['count']:,}",
            seconds(r["key_switch_s"]),
            seconds(r["bootstrap_s"]),
            seconds(r["all_s"]),
            f"{r['a_second']:,.0f}",
            seconds(r.get("floor_s")),
            f"{r['over_floor']:.2f}" if r.get("over_floor") else "-",
        ]
        for r in sorted((r for r in found if "shape" in r), key=lambda r: r["shape"])
    ]
    heads = [
        "kernels of",
        "on",
        "at once",
        "key switch",
        "bootstrap",
        "both, with the sum",
        "a second",
        "floor",
        "over floor",
    ]
    return table(heads, lines)


def peers_of(case: str, place: str, seconds: Time) -> str:
    """What others took, where ours was measured."""
    places = {"1 core": "1 core", "2 cores": "2 cores"}.get(place, place)
    return "; ".join(f"{seconds(p.seconds)} ({p.who})" for p in PEERS if p.case == case and p.where in places) or "-"


def plain(found: list[Row], beginning: str, seconds: Time) -> list[str]:
    """Gates or integers: every case a line."""
    lines = []
    for r in found:
        if not r.get("case", "").startswith(beginning) or "parameters" not in r:
            continue
        done = "median_s" in r
        lines.append(
            [
                r["what"],
                r["where"],
                f"{r['bootstraps'] // r['items']:,} in {r['levels']:,}",
                cell(r, seconds),
                f"{r['items'] / r['median_s']:,.3g}" if done and r["median_s"] else "-",
                seconds(r.get("floor_s")) if done else "-",
                f"{r['over_floor']:.2f}" if r.get("over_floor") else "-",
                f"{security(r['parameters'])}, 2^{r['parameters']['log2_failure']:.0f}",
                peers_of(r["case"], r["where"], seconds),
            ]
        )
    order = list(dict.fromkeys(line[0] for line in lines))
    lines.sort(key=lambda line: order.index(line[0]))
    heads = ["what", "on", "bootstraps of one in layers", "one call", "a second", "floor", "over floor"]
    return table([*heads, "security, failure", "peers, measured earlier"], lines)


def errors(found: list[Row]) -> list[str]:
    """Results that were wrong, and how many."""
    bad = [r for r in found if r.get("wrong")]
    if not bad:
        return []
    return [f"\\* some elements were wrong: {'; '.join(map(_error, bad))}."]


def _error(row: Row) -> str:
    """What was wrong, and how likely that was by the set's own figure."""
    found = f"{row['what']}, {row['where']}: {row['wrong']} of {row['elements']}"
    if not row.get("bootstraps"):
        return found
    failure = row["parameters"]["log2_failure"]
    likely = -math.expm1(row["bootstraps"] * math.log1p(-(2.0**failure)))
    return f"{found}, where {row['bootstraps']:,} bootstraps that err with 2^{failure:.0f} each make an error with probability {likely:.2g}"


def whole(reports: Reports, seconds: Time) -> list[str]:
    """Everything, for docs/benchmarks.md."""
    found = rows(reports)
    sections = [kernels(found, seconds), plain(found, "gates/", seconds), plain(found, "integers/", seconds), errors(found)]
    lines = [line for section in sections if section for line in (*section, "")]
    return lines[:-1]


#: The headlines' lines: words, and the case by kind of machine.
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


def screen(reports: Reports, seconds: Time) -> list[str]:
    """The headlines: machines side by side, and tfhe-rs where it was measured on the same kind."""
    found = rows(reports)
    places = list(dict.fromkeys(r["where"] for r in found if "case" in r and "parameters" in r))
    by_case = {(r["case"], r["where"]): r for r in found if "case" in r}
    peers = [p for p in ("1 core", "2 cores", "H200") if p in places]
    lines = []
    for words, set_name, on_cores, on_gpu in SCREEN:
        rate = words.endswith("a second")
        line = [words, set_name]
        for place in places:
            row = by_case.get((on_cores if "core" in place else on_gpu, place))
            if rate and row and "median_s" in row:
                line.append(f"{row['items'] / row['median_s']:,.0f}")
            else:
                line.append(cell(row, seconds) if not rate and row and "median_s" in row else "-")
        others = []
        for place in peers:
            case = on_cores if "core" in place else on_gpu
            known = [p for p in PEERS if p.case == case and p.where == place and p.who.startswith("tfhe-rs")]
            for p in known[:1]:
                count = int(case.rpartition("x")[2])
                others.append(f"{place} {count / p.seconds:,.0f}" if rate else f"{place} {seconds(p.seconds)}")
        lines.append([*line, "; ".join(others) or "-"])
    heads = ["TFHE, at 128 bits, failure below 2^-128", "set", *places, "tfhe-rs, measured earlier on like machines"]
    used = ", ".join(f"[{name}](benchmarks/results/{name})" for name in reports)
    commits = ", ".join(dict.fromkeys(r["commit"][:12] for r in reports.values()))
    return [*table(heads, lines), "", f"Medians of calls waited for, keys ready, commit {commits}: {used}."]
