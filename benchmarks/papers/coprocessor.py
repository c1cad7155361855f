"""Tables of the co-processor's pages: the slides' rows beside Heliograph's; areas, clocks and mutants of its modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from benchmarks.papers import facts
from benchmarks.report.render import Column, Lines, Reports, Table, columns, commit, link, markdown
from benchmarks.report.results import Report, Row

FACTS = facts.of("coprocessor")
#: The slides' variant of a product, Heliograph's module, and its latency in cycles (rtl/src/hg_pkg.sv; the bench asserts
#: it). Every module accepts one product per cycle.
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
#: Heliograph's case and module for each of the slides' kernels at N = 8192.
ELEMENTWISE = ("eight element-wise instructions", "pointwise")
KERNELS = {
    "ntt": ("eight limbs through the NTT, from memory to memory", "ntt8"),
    "lift": ("seven primes to eight, from memory to memory", "convert-4x8"),
    "scale": ("fifteen primes to eight, from memory to memory", "convert-4x8"),
    "galois": ("eight permutations", "permute"),
    **dict.fromkeys(("multiply", "add", "product with a constant", "product with an inverse"), ELEMENTWISE),
}
#: Descriptions of the placed and routed modules.
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
CARD = "card-85f"
ASSUMED_MHZ = 200
Modules = dict[str, Row]


def modules_of(report: Report) -> Modules:
    """Returns the modules of a report by name."""
    return {row["name"]: row for row in report["results"]}


def units(side: str) -> list[Column]:
    """Returns the columns of an area. LUTs include those used as memory and shift registers."""

    def cell(name: str) -> Callable[[Row], str | None]:
        def text(row: Row) -> str | None:
            area = row[side] or {}
            more = area.get("srl", 0) + area.get("lut_ram", 0) if name == "lut" else 0
            return f"{area[name] + more:,}" if name in area else None

        return text

    return [Column(head, cell(head.lower())) for head in ("DSP", "LUT", "FF", "BRAM18")]


THEIRS, OURS = units("slide"), units("module")


def multiplier_rows(reports: Reports) -> Iterator[Row]:
    """Yields the rows of modular products. The first report has areas, the second cycles."""
    modules = modules_of(next(iter(reports.values())))
    for theirs, name, latency in MULTIPLIERS:
        slide = FACTS["multipliers"].get(theirs)
        known = {"name": theirs, "slide": slide, "ours": name or "-", "module": modules.get(name)}
        yield known | {
            "theirs": f"{slide['cycles']} / {slide['interval']}" if slide else "-",
            "latency": f"{latency} / 1" if latency else "-",
        }


MULTIPLIER_TABLE = Table(
    [
        *columns("product: {name} | slides: cycles / interval: {theirs}"),
        *THEIRS,
        *columns("ours: {ours} | cycles / interval: {latency}"),
        *OURS,
    ],
    multiplier_rows,
)


def engine_cycles(report: Report) -> dict[int, int]:
    """Returns the cycles of an NTT of N = 4096 by the number of butterflies."""
    return {r["butterflies"]: r["cycles"] for r in report["results"] if r["what"] == "ntt" and r.get("n") == 4096}


def transform_rows(reports: Reports) -> Iterator[Row]:
    """Yields NTT engines at N = 4096."""
    areas, cycles = reports.values()
    for butterflies in (1, 2, 4, 8, 16):
        known = {"name": str(butterflies), "slide": FACTS["ntt"].get(str(butterflies))}
        yield known | {"cycles": engine_cycles(cycles)[butterflies], "module": modules_of(areas)[f"ntt{butterflies}"]}


CYCLES = (Column("slides: cycles", "{slide.cycles:,}"), Column("ours: cycles", "{cycles:,}"))
TRANSFORM_TABLE = Table([Column("butterflies", "{name}"), CYCLES[0], *THEIRS, CYCLES[1], *OURS], transform_rows)


def kernel_rows(reports: Reports) -> Iterator[Row]:
    """Yields the rows of the slides' kernels at N = 8192."""
    areas, cycles = reports.values()
    ours = {row["what"]: row["cycles"] for row in cycles["results"] if row.get("n") == 8192}
    for name, slide in FACTS["kernels"].items():
        case, module = KERNELS.get(name, (None, None))
        known = {"name": name, "slide": slide, "cycles": ours[case] if case else None}
        yield known | {"module": modules_of(areas)[module] if module else None}


KERNEL_TABLE = Table([Column("kernel", "{name}"), CYCLES[0], *THEIRS, CYCLES[1], *OURS], kernel_rows)


def loop_rows(reports: Reports) -> Iterator[Row]:
    """Yields the cycles of the slides' loops in an NTT of N = 4096, and Heliograph's for the same loops."""
    ours = engine_cycles(list(reports.values())[-1])[4]
    twelfth = f"{ours / FACTS['loops'][0]['trips']:.0f}, a twelfth"
    for row in FACTS["loops"]:
        yield row | {"interval": row["interval"] or "-", "ours": f"{ours:,}" if row["loop"] == "stage" else twelfth}


LOOP_TABLE = Table(
    columns(
        "loop: {loop} | slides: cycles: {latency} | cycles of an iteration: {iteration} | interval: {interval}",
        "iterations: {trips} | pipelined: {pipelined:yes/no} | ours, 4 butterflies: cycles: {ours}",
    ),
    loop_rows,
)


def operation_rows(reports: Reports) -> Iterable[Row]:
    """Returns the table of ciphertext operations on the card."""
    return (row for row in list(reports.values())[-1]["results"] if "predicted" in row)


def shape(row: Row) -> str:
    """Describes an operation with its ring."""
    of = row["parameters"]
    secure = "" if of["security"] == "128-bit" else ", no security"
    return f"{row['what']}, N = {of['n']:,}, {of['levels']} limbs{secure}"


OPERATION_TABLE = Table(
    columns(
        "operation: {shape} | cycles: {cycles:,} | model: {model} | at 200 MHz, assumed: {mhz}",
        "units at work: {units} | cycles simulated in a second of a core: {rate}",
        shape=shape,
        model=lambda r: f"{100 * (r['predicted'] / r['cycles'] - 1):+.1f} %",
        mhz=lambda r: f"{1e3 * r['cycles'] / r['clock']:.2f} ms",
        units=lambda r: ", ".join(f"{u} {round(100 * n / r['cycles'])} %" for u, n in r["busy"].items() if n),
        rate=lambda r: f"{r['cycles'] / r['simulated_s'] / 1e6:.2f} M",
    ),
    operation_rows,
)


def short_rows(reports: Reports) -> Iterator[Row]:
    """Yields one row of each of the page's three comparisons."""
    wanted = (
        (multiplier_rows, "a product modulo a 30-bit prime, window of 6 bits, pipelined", "window of 6 bits, pipelined"),
        (transform_rows, "an NTT of N = 4,096, 8 butterflies", "8"),
        (kernel_rows, "eight limbs of N = 8,192 transformed", "ntt"),
        (kernel_rows, "seven primes lifted to eight", "lift"),
        (kernel_rows, "fifteen primes scaled to eight", "scale"),
    )
    for rows, words, name in wanted:
        row = next(row for row in rows(reports) if row["name"] == name)
        theirs = row.get("theirs") or f"{row['slide']['cycles']:,}"
        yield row | {"words": words, "theirs": theirs, "cycles": row.get("latency") or f"{row['cycles']:,}"}


def short_note(reports: Reports) -> str:
    """Returns a note that says which reports gave the numbers of the short comparison."""
    (areas, _), (name, cycles) = reports.items()
    return (
        f"Heliograph's cycles are simulated at commit {commit(cycles['commit'])} ({link(name)}), areas by synthesis "
        f"({link(areas)}). Products have latency / interval."
    )


SHORT_TABLE = Table(
    [
        Column("", "{words}"),
        Column("slides: cycles", "{theirs}"),
        *THEIRS[:2],
        Column("ours: cycles", "{cycles}"),
        *OURS[:2],
    ],
    short_rows,
    short_note,
)
AREA_TABLE = Table(
    columns(
        ": {name} | LUT: {lut+lut_ram+srl:,} | of these memory, shift registers: {lut_ram+srl:,} | FF: {ff:,}",
        "DSP: {dsp} | BRAM18: {bram18}",
    )
)


def _path(path: Row) -> str:
    """Describes the longest timing path: its ends, its cells, and the delays of cells and wires."""
    words = {"MULT18X18D": "multiplier", "CCU2": "carry chain", "DP16KD": "block RAM"}
    cells = Counter[str]()
    for cell, count in path["cells"].items():
        cells[words.get(cell, "LUT")] += count
    through = ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in cells.items()) or "wires alone"
    return f"`{path['from']}` to `{path['to']}`: {through}; {path['cells_ns']:.1f} + {path['wires_ns']:.1f} ns"


def placed_note(reports: Reports) -> str:
    """Returns tools and commits of the placed modules."""
    name, report = next(iter(reports.items()))
    tools = ", ".join(sorted({row[tool] for row in report["results"] for tool in ("yosys", "nextpnr")}))
    return f"{link(name)}, by {tools} at commit {', '.join(sorted({commit(row['commit']) for row in report['results']}))}."


PLACED_TABLE = Table(
    columns(
        "module: {module} | worst MHz: {mhz_worst:.0f} | median MHz: {mhz_median:.0f} | seeds: {seeds}",
        "LUT: {lut+lut_ram:,} | FF: {ff:,} | multipliers: {mult18:,} | block RAMs: {ebr:,}",
        "longest path: cells + wires: {longest}",
        module=lambda r: PLACED_NAMES[r["name"]],
        longest=lambda r: _path(r["critical_path"]),
    ),
    lambda reports: next(iter(reports.values()))["results"],
    placed_note,
)


def clock_rows(reports: Reports) -> Iterator[Row]:
    """Yields times at the assumed clock and at the clock after placement. The files are placed modules and cycles."""
    placed, cycles = reports.values()
    modules = modules_of(placed)
    found = []
    for row in cycles["results"]:
        secure = "predicted" in row and row["parameters"]["security"] == "128-bit"
        engine = f"ntt{row['butterflies']}" if row["what"] == "ntt" and row.get("n") == 4096 else ""
        if engine in modules:
            found.append((f"an NTT of N = 4,096, {row['butterflies']} butterflies", row["cycles"], modules[engine]))
        elif secure and CARD in modules:
            found.append((shape(row), row["cycles"], modules[CARD]))
    for words, count, module in sorted(found, key=lambda line: not line[0].startswith("an NTT")):
        mhz = module["mhz_worst"]
        yield {"what": words, "cycles": count, "assumed": count / ASSUMED_MHZ, "placed": count / mhz, "mhz": mhz}


CLOCK_TABLE = Table(
    columns(
        ": {what} | cycles: {cycles:,} | at 200 MHz, assumed: {assumed:,.1f} us",
        "at the placed clock: {placed:,.1f} us | its MHz: {mhz:.0f}",
    ),
    clock_rows,
)


def clock(reports: Reports) -> Lines:
    """Describes the assumed clock and the clock after placement."""
    modules = modules_of(next(iter(reports.values())))
    butterflies = next(count for count in (8, 4, 2) if f"ntt{count}" in modules)
    engine = modules[f"ntt{butterflies}"]
    said = (
        f"**200 MHz is assumed.** Placed and routed on a Lattice ECP5, speed grade {engine['grade']}, "
        f"the NTT of {butterflies} butterflies reaches {engine['mhz_worst']:.0f} MHz"
    )
    if CARD not in modules:
        return [f"{said}. The whole card was not placed."]
    mhz = modules[CARD]["mhz_worst"]
    return [
        f"{said} and a whole card of 2 butterflies {mhz:.0f} MHz. "
        f"At the card's clock every time takes {ASSUMED_MHZ / mhz:.1f} times as long as at 200 MHz."
    ]


def mutants(reports: Reports) -> Lines:
    """Returns the numbers of mutants by kind, and how many the benches found."""
    found = next(iter(reports.values()))["results"]
    rows = []
    for kind in [*sorted({row["kind"] for row in found}), "all"]:
        outcomes = [row["outcome"] for row in found if kind in (row["kind"], "all")]
        rows.append([kind, str(len(outcomes)), str(outcomes.count("killed")), str(outcomes.count("survived"))])
    return markdown(["kind", "mutants", "killed", "survived"], rows)


TABLES = {
    "coprocessor multipliers": MULTIPLIER_TABLE,
    "coprocessor transforms": TRANSFORM_TABLE,
    "coprocessor loops": LOOP_TABLE,
    "coprocessor kernels": KERNEL_TABLE,
    "coprocessor operations": OPERATION_TABLE,
    "coprocessor in short": SHORT_TABLE,
    "coprocessor areas": AREA_TABLE,
    "coprocessor placed": PLACED_TABLE,
    "coprocessor at both clocks": CLOCK_TABLE,
    "coprocessor clock": clock,
    "coprocessor mutants": mutants,
}
