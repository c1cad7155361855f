"""What docs/papers/morshed-2020.md says of the paper's tables and figures: theirs as printed, ours from the committed files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from morshed_facts import BITS_OF_FIGURE_5, COLUMNS, FEATURES, PARTS_OF_FIGURE_5, PRINTED, SUMMARY
from morshed_facts import TABLES as PAPER
from table import busy, processor
from tfhe_tables import cell, errors, security, table, where

Row = dict[str, Any]
Reports = dict[str, Row]
Time = Callable[[float | None], str]
#: The parts of Table IV, by our kernels.
PARTS = {"bootstrapping": "bootstrap_s", "key switch": "key_switch_s"}
#: A row of Table I: words, its kind of homomorphism and bootstrapping, and the cases of addition and multiplication.
OURS = (
    ("TFHE, bits", "fully", "exact", "table5/boolean/default/32", "table7/boolean/default/32"),
    ("TFHE, digits", "fully", "exact", "table5/2_2/default/32", "table7/2_2/default/32"),
    ("TFHE, the paper's set", "fully", "exact", "table5/morshed-2020/default/32", "table7/morshed-2020/default/32"),
    ("BFV, N=2^15, log q 600", "somewhat", "no", "add-2^15", "multiply-2^15"),
    ("BFV, N=2^15, log q 600", "somewhat", "no", "add-2^15-x1-w64", "multiply-2^15-x1-w64"),
)
#: Table II's columns: table, column, and the lines of it of which the fastest is taken.
WORKLOADS = (
    ("AND of 32 bits", "Figure 5", "32", "AND"),
    ("32-bit addition", "V", "32", ""),
    ("32 of them", "VI", "32 x32", ""),
    ("32-bit multiplication", "VII", "32", ""),
    ("16 x 16 matrices, 16-bit", "IX", "16", ""),
)


def shared(report: Row) -> bool:
    """Whether other work ran beside it on the cores, for most of its rows."""
    found = [busy(r["load"], r["threads"], report["machine"]) for r in report["results"] if r.get("threads") and "load" in r]
    return sum(found) > len(found) / 2


def place(report: Row, row: Row, name: str = "") -> str:
    """Cores of which processor, or the GPU, and whether there are several; the commit. `name` is the file's."""
    machine = report["machine"]
    found = where(report, row)
    if row.get("threads"):
        found += f" of {processor(machine, name)}" + (", shared" if shared(report) else "")
    elif (many := machine.get("gpus", 1)) > 1:
        found = f"{many} {found}"
    return f"{found}, {report['commit'][:12]}"


def rows(reports: Reports) -> list[Row]:
    """All results of TFHE, each with where it was measured."""
    return [
        row | {"where": place(report, row, name)}
        for name, report in reports.items()
        if report.get("kind") == "tfhe"
        for row in report["results"]
    ]


def parts(found: list[Row]) -> list[Row]:
    """Table IV from kernels and from the AND of as many bits, of the same machine; the commits may be two."""
    made: dict[tuple[str, str, str, str], Row] = {}
    totals = {
        (machine_of(r), r["parameters"]["name"], r["column"]): r for r in found if r.get("line") == "AND" and "median_s" in r
    }
    for r in (r for r in found if "shape" in r):
        total = totals.get((machine_of(r), r["shape"], str(r["count"])))
        if total is None:
            continue
        times = {line: r[key] for line, key in PARTS.items()}
        rest = total["median_s"] - sum(times.values())
        times |= ({"rest": rest} if rest > 0 else {}) | {"total": total["median_s"]}
        for line, value in times.items():
            known = {key: total[key] for key in ("parameters", "column")} | {"where": r["where"], "table": "IV"}
            made[machine_of(r), r["shape"], line, total["column"]] = known | {"line": line, "median_s": value}
    return list(made.values())


def machine_of(row: Row) -> str:
    """Without the commit."""
    return str(row["where"]).rpartition(", ")[0]


def columns_of(paper: dict[str, dict[str, float]], ours: list[Row]) -> list[str]:
    """The paper's, then ours; by size where they are numbers."""
    found = list(dict.fromkeys([c for line in paper.values() for c in line] + [r["column"] for r in ours]))
    return sorted(found, key=int) if all(c.isdigit() for c in found) else found


def lines_of(ours: list[Row], columns: list[str], seconds: Time) -> list[list[str]]:
    """A line for each place, way and set; what was neither measured nor estimated has none, and no estimate stands where the same
    machine has measured.
    """
    done = {(machine_of(r), r["line"], r["parameters"]["name"], r["column"]) for r in ours if "median_s" in r}
    ours = [
        r for r in ours if "median_s" in r or (machine_of(r), r["line"], r["parameters"]["name"], r["column"]) not in done
    ]
    lines = []
    for key in dict.fromkeys((r["where"], r["line"], r["parameters"]["name"]) for r in ours):
        mine = {r["column"]: r for r in ours if (r["where"], r["line"], r["parameters"]["name"]) == key}
        cells = [cell(mine.get(c), seconds) for c in columns]
        if set(cells) != {"-"}:
            lines.append([f"here, {key[0]}", *key[1:], *cells])
    return sorted(lines, key=lambda line: "core" in line[0], reverse=True)


def beside(reports: Reports, seconds: Time, name: str) -> list[str]:
    """One of the paper's tables and ours: seconds by column."""
    found = rows(reports)
    ours = [r for r in (parts(found) if name == "IV" else found) if r.get("table") == name and "parameters" in r]
    paper = PAPER[name]
    columns = columns_of(paper, ours)
    lines = [["paper", line, "-", *(seconds(values.get(c)) for c in columns)] for line, values in paper.items()]
    lines += lines_of(ours, columns, seconds)
    wrong = errors([r for r in ours if "what" in r])
    return [f"By {COLUMNS[name]}:", "", *table(["on", "how", "set", *columns], lines), *(["", *wrong] if wrong else [])]


def figure(reports: Reports, seconds: Time, part: str) -> list[str]:
    """A part of Figure 5."""
    wanted, columns = PARTS_OF_FIGURE_5[part], list(BITS_OF_FIGURE_5[part])
    ours = [r for r in rows(reports) if r.get("table") == "Figure 5" and r["line"] in wanted]
    lines = [
        ["paper", line, "-", *(seconds(values.get(c)) for c in columns)]
        for line, values in PAPER["Figure 5"].items()
        if line.startswith(wanted)
    ]
    if part == "5b":
        lines = [line for line in lines if line[1] == "AND, GPU"]
        lines += [
            ["Titan Xp", who, "-", *(seconds(each * int(c)) if int(c) >= 256 else "-" for c in columns)]
            for who, each in PRINTED.items()
        ]
    lines += lines_of(ours, columns, seconds)
    return ["By bits:", "", *table(["on", "how", "set", *columns], lines)]


def _milliseconds(row: Row) -> str:
    return f"{row['median_s'] * 1e3:,.4g}"


def _kilobytes(parameters: Row) -> str:
    """Of a 32-bit number in memory: of BFV a whole ciphertext of two polynomials."""
    if "number_bytes" in parameters:
        return f"{parameters['number_bytes'] / 1000:,.4g}"
    if "log_q" in parameters:
        return f"{2 * parameters['n'] * parameters['log_q'] / 8000:,.4g}"
    return "-"


def features(reports: Reports, seconds: Time) -> list[str]:
    """Table I: kinds of schemes, their sizes and times. A machine's figures may come from several files, a set's size from any."""
    lines = [["paper", scheme, *facts] for scheme, facts in FEATURES.items()]
    known: dict[str, dict[str, Row]] = {}
    sizes: dict[str, str] = {}
    for name, report in reports.items():
        for r in (r for r in report["results"] if "case" in r and "median_s" in r):
            spot = place(report, r, name)
            known.setdefault(spot.rpartition(", ")[0], {})[r["case"]] = r | {"where": spot}
            if (size := _kilobytes(r["parameters"])) != "-":
                sizes[r["parameters"].get("name") or r["case"]] = size
    ours = []
    for spot, cases in known.items():
        for words, kind, bootstrapping, add, multiply in OURS:
            if add not in cases or multiply not in cases:
                continue
            first, second = cases[add], cases[multiply]
            level = security(first["parameters"]).replace("128-bit", "128")
            commits = ", ".join(dict.fromkeys(r["where"].rpartition(", ")[2] for r in (first, second)))
            size = sizes.get(first["parameters"].get("name") or add, "-")
            on = "cores" if first.get("threads") else "GPU"
            times = _milliseconds(first), _milliseconds(second)
            ours.append([f"here, {spot}, {commits}", words, "-", kind, bootstrapping, on, level, size, *times])
    lines += sorted(ours, key=lambda line: "core" in line[0], reverse=True)
    heads = ["on", "scheme", "year", "homomorphism", "bootstrapping", "parallel by", "bits of security", "kB"]
    return table([*heads, "addition, ms", "multiplication, ms"], lines)


def summary(reports: Reports, seconds: Time) -> list[str]:
    """Table II: the fastest of each place and set."""
    found = [r for r in rows(reports) if r.get("table") and "median_s" in r]
    lines = [["paper", who, *map(seconds, values)] for who, values in SUMMARY.items()]
    ours = []
    for spot in dict.fromkeys(machine_of(r) for r in found):
        mine = [r for r in found if machine_of(r) == spot]
        for name in dict.fromkeys(r["parameters"]["name"] for r in mine):
            cells = []
            for _, of, column, line in WORKLOADS:
                times = [
                    r["median_s"]
                    for r in mine
                    if (r["table"], r["column"], r["parameters"]["name"]) == (of, column, name) and line in ("", r["line"])
                ]
                cells.append(seconds(min(times)) if times else "-")
            commits = ", ".join(
                dict.fromkeys(r["where"].rpartition(", ")[2] for r in mine if r["parameters"]["name"] == name)
            )
            if set(cells) != {"-"}:
                ours.append([f"here, {spot}, {commits}", name, *cells])
    lines += sorted(ours, key=lambda line: "core" in line[0], reverse=True)
    return table(["on", "by", *(words for words, *_ in WORKLOADS)], lines)


#: The lines of the summary: words, the paper's table, its columns' lines, ours, the column.
SHORT = (
    ("AND of 32 bits", "IV", ("sequential, total", "AND, CPU", "GPU, total"), "Figure 5", "AND", "32"),
    ("compound gate of one bit", "Figure 5", ("", "", "compound gate, GPU"), "Figure 5", "compound gate", "1"),
    ("32-bit addition", "V", ("sequential", "CPU", "GPU_1 (bitwise)"), "V", "", "32"),
    ("32 of them", "VI", ("sequential", "CPU", "GPU"), "VI", "", "32 x32"),
    ("32-bit multiplication", "VII", ("naive, sequential", "naive, CPU", "Karatsuba, GPU"), "VII", "", "32"),
    ("32 of them", "VIII", ("sequential", "CPU", "GPU"), "VIII", "", "32 x32"),
    ("2 x 2 matrices of 16 bits", "IX", ("sequential", "CPU", "GPU"), "IX", "", "2"),
    ("16 x 16 matrices of 16 bits", "IX", ("sequential", "CPU", "GPU"), "IX", "", "16"),
    *(
        (f"regression, 300 x 20 {values}: {what}", "X", ("", "", f"GPU, {kind}"), "X", f"{kind}, {what}", "300 x 20")
        for values, kind in (("numbers", "numerical"), ("bits", "binary"))
        for what in ("sums for least squares", "a step of gradient descent")
    ),
)


def short(reports: Reports, seconds: Time) -> list[str]:
    """The paper's largest cases, and the fastest here at 128 bits on one core, on two and on one GPU: set, machine and commit."""
    found = [r for r in rows(reports) if "median_s" in r and r.get("parameters", {}).get("security") == "128-bit"]
    places: dict[str, Callable[[Row], bool]] = {
        "one core here": lambda r: r.get("threads") == 1,
        "two cores here": lambda r: r.get("threads") == 2,
        "one GPU here": lambda r: not r.get("threads") and not r["where"][0].isdigit(),
    }
    lines = []
    for words, printed, theirs, of, line, column in SHORT:
        known = PAPER[printed] | PAPER["Figure 5"]
        cells = [seconds(known.get(name, {}).get(column)) for name in theirs]
        for among in places.values():
            mine = [r for r in found if (r["table"], r["column"]) == (of, column) and line in ("", r["line"]) and among(r)]
            best = min(mine, key=lambda r: r["median_s"], default=None)
            spot = best["where"].rpartition(" of ")[2] if best else ""
            cells.append(f"{seconds(best['median_s'])} ({best['parameters']['name']}; {spot})" if best else "-")
        lines.append([words, *cells])
    return table(["", "paper, sequential", "paper, CPU", "paper, GPU", *places], lines)


def predictions(reports: Reports, seconds: Time) -> list[str]:
    """Table X's trained models: shares of rows predicted right, encrypted and in the clear."""
    compared = {(r["line"], r["column"]): r for r in rows(reports) if r.get("table") == "X" and r.get("wrong") == 0}
    lines = []
    for report in reports.values():
        known = [r for r in report["results"] if "skipped" not in r] if report.get("kind") == "training" else []
        columns = list(dict.fromkeys(r["column"] for r in known))
        for r in sorted(known, key=lambda r: columns.index(r["column"])):
            ours = compared.get((r["line"], r["column"]))
            shares = (f"{r[key]:.1%}" for key in ("start", "exact", "real", "least_squares"))
            spot = ours["where"] if ours else "not run yet"
            lines.append([r["column"], r["line"], *shares, f"{r['error']:.4f} of {r['allowed']:.4f}", spot])
    heads = [
        "rows x attributes",
        "training",
        "weights at random",
        "after it, in the server's integers",
        "after it, in floating point",
    ]
    return table([*heads, "least squares", "farthest from floating point, of what may be", "decrypted and equal on"], lines)


def estimates(reports: Reports, seconds: Time) -> list[str]:
    """How near estimates are to what was measured: of the tables' cases, each run carries its own."""
    words = []
    for kind in ("cores", "GPUs"):
        over = sorted(
            r["estimate_s"] / r["median_s"]
            for r in rows(reports)
            if r.get("table") and r.get("median_s") and r.get("estimate_s") and bool(r.get("threads")) == (kind == "cores")
        )
        if over:
            few = len(over) // 10
            words.append(
                f"on {kind} {over[few]:.2g} to {over[-1 - few]:.2g} times the time for eight in ten of {len(over)} cases"
            )
    return [f"Where a case was estimated and then run, the estimate was {', '.join(words)}."] if words else []


def sources(reports: Reports, seconds: Time) -> list[str]:
    """The files, with machine, commit and date of each."""
    return [
        f"- [{name}](benchmarks/results/{name}): {r['machine'].get('gpu') or processor(r['machine'], name)} "
        f"({r['machine']['cores']} cores), commit {r['commit'][:12]}, {r['date'][:10]}"
        for name, r in reports.items()
    ]


Lines = Callable[[Reports, Time], list[str]]
#: Mark on the page, and what writes it.
TABLES: dict[str, Lines] = {
    "morshed in short": short,
    "morshed predictions": predictions,
    "morshed estimates": estimates,
    "morshed I": features,
    "morshed II": summary,
    "morshed IV": partial(beside, name="IV"),
    **{f"morshed {part}": partial(figure, part=part) for part in PARTS_OF_FIGURE_5},
    **{f"morshed {name}": partial(beside, name=name) for name in ("V", "VI", "VII", "VIII", "IX", "X")},
    "morshed sources": sources,
}
