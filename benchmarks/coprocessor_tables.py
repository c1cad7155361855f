"""The page of the co-processor: the slides' rows beside ours."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

Row = dict[str, Any]
FACTS = json.loads(Path(__file__).with_name("coprocessor_facts.json").read_text(encoding="utf-8"))
AREAS = "rtl-xc7.json"
PLACED = "rtl-ecp5.json"
CYCLES = "rtl-coprocessor.json"
MUTANTS = "rtl-mutants.json"
#: The slides' variant, our module, and latency and interval of ours (rtl/src/hg_pkg.sv; the bench asserts them).
MULTIPLIERS = (
    ("naive remainder", "", None),
    ("window of 6 bits, not pipelined", "", None),
    ("window of 6 bits, pipelined", "window6", 11),
    ("window of 6 bits, tables in LUT RAM", "window6", 11),
    ("window of 6 bits, 2 primes", "window6-fixed", 11),
    ("window of 6 bits, 15 primes", "window6-fixed-15-primes", 11),
    ("window of 2 bits, 15 primes", "window2-fixed-15-primes", 34),
    ("window of 2 bits, 15 primes, table in one dimension", "window2-fixed-15-primes", 34),
    ("window of 2 bits, 15 primes, registers for negative shifts too", "", None),
    ("a known factor (Shoup): 53 bits in the slides, 30 here", "shoup", 8),
    ("Montgomery", "montgomery", 9),
    ("Barrett", "barrett", 12),
)
COLUMNS = ("dsp", "lut", "ff", "bram18")


def _numbers(row: Row | None) -> list[str]:
    """DSP, LUT, FF, BRAM18; LUTs with those that are memory and shift registers."""
    if row is None:
        return ["-"] * len(COLUMNS)
    full = row | {"lut": row["lut"] + row.get("srl", 0) + row.get("lut_ram", 0)} if "lut" in row else row
    return [f"{full[name]:,}" if name in full else "-" for name in COLUMNS]


def _table(head: str, rows: list[list[str]]) -> list[str]:
    return [head, "|" + "|".join("---" if i == 0 else "---:" for i in range(head.count("|") - 1)) + "|"] + [
        "| " + " | ".join(row) + " |" for row in rows
    ]


def multipliers(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """Modular products: the slides' and ours."""
    modules, rows = reports[AREAS]["modules"], []
    for theirs, ours, latency in MULTIPLIERS:
        slide = FACTS["multipliers"].get(theirs)
        cycles = f"{slide['cycles']} / {slide['interval']}" if slide else "-"
        mine = modules[ours] if ours else None
        rows.append([theirs, cycles, *_numbers(slide), ours or "-", f"{latency} / 1" if latency else "-", *_numbers(mine)])
    head = "| product | slides: cycles / interval | DSP | LUT | FF | BRAM18 | ours | cycles / interval | DSP | LUT | FF | BRAM18 |"
    return _table(head, rows)


def transforms(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """NTT engines at N = 4096."""
    modules, rows = reports[AREAS]["modules"], []
    cycles = {
        row["butterflies"]: row["cycles"]
        for row in reports[CYCLES]["results"]
        if row["what"] == "ntt" and row.get("n") == 4096
    }
    for butterflies in (1, 2, 4, 8, 16):
        slide = FACTS["ntt"].get(str(butterflies))
        theirs = f"{slide['cycles']:,}" if slide else "-"
        rows.append(
            [str(butterflies), theirs, *_numbers(slide), f"{cycles[butterflies]:,}", *_numbers(modules[f"ntt{butterflies}"])]
        )
    return _table(
        "| butterflies | slides: cycles | DSP | LUT | FF | BRAM18 | ours: cycles | DSP | LUT | FF | BRAM18 |", rows
    )


def loops(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """The slides' loops of an NTT of N = 4096, and our engine's cycles for the same loops."""
    ours = next(
        row["cycles"]
        for row in reports[CYCLES]["results"]
        if row["what"] == "ntt" and row.get("n") == 4096 and row["butterflies"] == 4
    )
    rows = [
        [
            row["loop"],
            row["latency"],
            row["iteration"],
            str(row["interval"] or "-"),
            str(row["trips"]),
            "yes" if row["pipelined"] else "no",
            f"{ours:,}" if row["loop"] == "stage" else f"{ours / FACTS['loops'][0]['trips']:.0f}, a twelfth",
        ]
        for row in FACTS["loops"]
    ]
    return _table(
        "| loop | slides: cycles | cycles of an iteration | interval | iterations | pipelined | ours, 4 butterflies: cycles |",
        rows,
    )


def operations(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """Ciphertexts' operations on the card."""
    rows = []
    for row in reports[CYCLES]["results"]:
        if "predicted" not in row:
            continue
        off = 100 * (row["predicted"] / row["cycles"] - 1)
        of = row["parameters"]
        secure = "" if of["security"] == "128-bit" else ", no security"
        busy = ", ".join(f"{unit} {round(100 * n / row['cycles'])} %" for unit, n in row["busy"].items() if n)
        rows.append(
            [
                f"{row['what']}, N = {of['n']:,}, {of['levels']} limbs{secure}",
                f"{row['cycles']:,}",
                f"{off:+.1f} %",
                f"{1e3 * row['cycles'] / row['clock']:.2f} ms",
                busy,
                f"{row['cycles'] / row['simulated_s'] / 1e6:.2f} M",
            ]
        )
    return _table(
        "| operation | cycles | model | at 200 MHz, assumed | units at work | cycles simulated in a second of a core |", rows
    )


def kernels(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """The slides' kernels at N = 8192."""
    ours = {row["what"]: row["cycles"] for row in reports[CYCLES]["results"] if row.get("n") == 8192}
    which = {
        "ntt": "eight limbs through the NTT, from memory to memory",
        "lift": "seven primes to eight, from memory to memory",
        "scale": "fifteen primes to eight, from memory to memory",
        "galois": "eight permutations",
        "multiply": "eight element-wise instructions",
        "add": "eight element-wise instructions",
        "product with a constant": "eight element-wise instructions",
        "product with an inverse": "eight element-wise instructions",
    }
    unit = {
        "ntt": "ntt8",
        "lift": "convert-4x8",
        "scale": "convert-4x8",
        "galois": "permute",
        "multiply": "pointwise",
        "add": "pointwise",
        "product with a constant": "pointwise",
        "product with an inverse": "pointwise",
    }
    modules, rows = reports[AREAS]["modules"], []
    for name, row in FACTS["kernels"].items():
        mine = f"{ours[which[name]]:,}" if name in which else "-"
        rows.append(
            [name, f"{row['cycles']:,}", *_numbers(row), mine, *_numbers(modules[unit[name]] if name in unit else None)]
        )
    return _table("| kernel | slides: cycles | DSP | LUT | FF | BRAM18 | ours: cycles | DSP | LUT | FF | BRAM18 |", rows)


def short(reports: dict[str, Row], seconds: Any) -> list[str]:
    """One line of each of the page's three comparisons, taken from them."""
    wanted = (
        (multipliers, "a product modulo a 30-bit prime, window of 6 bits, pipelined", "window of 6 bits, pipelined", 7),
        (transforms, "an NTT of N = 4,096, 8 butterflies", "8", 6),
        (kernels, "eight limbs of N = 8,192 transformed", "ntt", 6),
        (kernels, "seven primes lifted to eight", "lift", 6),
        (kernels, "fifteen primes scaled to eight", "scale", 6),
    )
    rows = []
    for comparison, words, name, ours in wanted:
        line = next(line for line in comparison(reports, seconds) if line.startswith(f"| {name} |"))
        cells = line.strip("| ").split(" | ")
        rows.append([words, *(cells[at] for first in (1, ours) for at in (first, first + 1, first + 2))])
    cycles = reports[CYCLES]
    said = (
        f"Cycles of ours by simulation at commit {cycles['commit'][:12]} ([{CYCLES}](benchmarks/results/{CYCLES})), areas by synthesis "
        f"([{AREAS}](benchmarks/results/{AREAS})); of a product latency and interval."
    )
    return [*_table("| | slides: cycles | DSP | LUT | ours: cycles | DSP | LUT |", rows), "", said]


def areas(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """All that is synthesised."""
    rows = []
    for name, row in reports[AREAS]["modules"].items():
        apart = row["lut_ram"] + row["srl"]
        rows.append([name, f"{row['lut'] + apart:,}", f"{apart:,}", f"{row['ff']:,}", str(row["dsp"]), str(row["bram18"])])
    return _table("| | LUT | of them memory, shift registers | FF | DSP | BRAM18 |", rows)


#: What a reader calls the modules that are placed and routed.
PLACED_NAMES = {
    "add": "a sum modulo q",
    "montgomery": "Montgomery product",
    "shoup": "Shoup product",
    "butterfly": "butterfly",
    "ntt2": "NTT, 2 butterflies",
    "ntt2-grade-6": "the same, speed grade 6",
    "ntt4": "NTT, 4 butterflies",
    "ntt8": "NTT, 8 butterflies",
    "card-85f": "whole card, 2 butterflies",
}
PLACED_CARD = "card-85f"
ASSUMED_MHZ = 200


def _path(path: Row) -> str:
    """The longest path: where it begins and ends, through what, and how long cells and wires take."""
    words = {"MULT18X18D": "multiplier", "CCU2": "carry chain", "DP16KD": "block RAM"}
    cells = Counter[str]()
    for cell, count in path["cells"].items():
        cells[words.get(cell, "LUT")] += count
    through = ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in cells.items()) or "wires alone"
    return f"`{path['from']}` to `{path['to']}`: {through}; {path['cells_ns']:.1f} + {path['wires_ns']:.1f} ns"


def placed(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """Modules placed and routed for an ECP5."""
    rows = []
    for name, row in reports[PLACED]["modules"].items():
        sizes = [f"{row[unit]:,}" for unit in ("lut", "ff", "mult18", "ebr")]
        rows.append(
            [
                PLACED_NAMES[name],
                f"{row['mhz_worst']:.0f}",
                f"{row['mhz_median']:.0f}",
                str(row["seeds"]),
                f"{row['lut'] + row['lut_ram']:,}",
                *sizes[1:],
                _path(row["critical_path"]),
            ]
        )
    entries = reports[PLACED]["modules"].values()
    tools = ", ".join(sorted({row[tool] for row in entries for tool in ("yosys", "nextpnr")}))
    commits = ", ".join(sorted({row["commit"][:12] for row in entries}))
    head = "| module | worst MHz | median MHz | seeds | LUT | FF | multipliers | block RAMs | longest path: cells + wires |"
    said = f"[{PLACED}](benchmarks/results/{PLACED}), by {tools} at commit {commits}."
    return [*_table(head, rows), "", said]


def _slower(reports: dict[str, Row], name: str) -> float:
    """How many times as long a cycle of a placed module is as one at the assumed clock."""
    return float(ASSUMED_MHZ / reports[PLACED]["modules"][name]["mhz_worst"])


def at_both_clocks(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """Times at the assumed clock and at the placed one."""
    rows = []
    for row in reports[CYCLES]["results"]:
        of = row.get("parameters", {})
        if row["what"] == "ntt" and row.get("n") == 4096 and f"ntt{row['butterflies']}" in reports[PLACED]["modules"]:
            words = f"an NTT of N = 4,096, {row['butterflies']} butterflies"
            name = f"ntt{row['butterflies']}"
        elif "predicted" in row and of["security"] == "128-bit" and PLACED_CARD in reports[PLACED]["modules"]:
            words = f"{row['what']}, N = {of['n']:,}, {of['levels']} limbs"
            name = PLACED_CARD
        else:
            continue
        micro = row["cycles"] / ASSUMED_MHZ
        clock = reports[PLACED]["modules"][name]["mhz_worst"]
        rows.append(
            [words, f"{row['cycles']:,}", f"{micro:,.1f} us", f"{micro * _slower(reports, name):,.1f} us", f"{clock:.0f}"]
        )
    rows.sort(key=lambda row: not row[0].startswith("an NTT"))
    return _table("| | cycles | at 200 MHz, assumed | at the placed clock | its MHz |", rows)


def clock(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """What is assumed and what was reached, in words."""
    modules = reports[PLACED]["modules"]
    butterflies = next(count for count in (8, 4, 2) if f"ntt{count}" in modules)
    engine = modules[f"ntt{butterflies}"]
    said = (
        f"**200 MHz is assumed.** Placed and routed on a Lattice ECP5, speed grade {engine['grade']}, "
        f"the NTT of {butterflies} butterflies reaches {engine['mhz_worst']:.0f} MHz"
    )
    if PLACED_CARD not in modules:
        return [f"{said}. The whole card was not placed."]
    card = modules[PLACED_CARD]
    return [
        f"{said} and a whole card of 2 butterflies {card['mhz_worst']:.0f} MHz. "
        f"At the card's clock every time takes {_slower(reports, PLACED_CARD):.1f} times as long as at 200 MHz."
    ]


def mutants(reports: dict[str, Row], _seconds: Any) -> list[str]:
    """Faults planted in the sources, by kind: how many a bench found."""
    found = reports[MUTANTS]["results"].values()
    kinds = sorted({row["kind"] for row in found})
    rows = []
    for kind in [*kinds, "all"]:
        outcomes = [row["outcome"] for row in found if kind in (row["kind"], "all")]
        rows.append([kind, str(len(outcomes)), str(outcomes.count("killed")), str(outcomes.count("survived"))])
    return _table("| kind | mutants | killed | survived |", rows)


TABLES = (multipliers, transforms, loops, kernels, operations)
