"""Tables of docs/papers/morshed-2020.md: the paper's numbers as printed, and Heliograph's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.papers import facts
from benchmarks.report import machines
from benchmarks.report.render import Lines, Reports, blocks, commit, link, markdown, seconds
from benchmarks.report.results import Report, Row
from benchmarks.report.tfhe import cell, errors, security, where

FACTS = facts.of("morshed")
PAPER = FACTS["tables"]
#: The parts of Table IV, and Heliograph's kernels for each.
PARTS = {"bootstrapping": "bootstrap_s", "key switch": "key_switch_s"}
#: Rows of Table I: description, kind of homomorphism, bootstrapping, and the cases of addition and multiplication.
OURS = (
    ("TFHE, bits", "fully", "exact", "table5/boolean/default/32", "table7/boolean/default/32"),
    ("TFHE, digits", "fully", "exact", "table5/2_2/default/32", "table7/2_2/default/32"),
    ("TFHE, the paper's set", "fully", "exact", "table5/morshed-2020/default/32", "table7/morshed-2020/default/32"),
    ("BFV, N=2^15, log q 600", "somewhat", "no", "add-2^15", "multiply-2^15"),
    ("BFV, N=2^15, log q 600", "somewhat", "no", "add-2^15-x1-w64", "multiply-2^15-x1-w64"),
)
#: Columns of Table II: description, table, column, and its lines; the fastest of these lines is shown.
WORKLOADS = (
    ("AND of 32 bits", "Figure 5", "32", "AND"),
    ("32-bit addition", "V", "32", ""),
    ("32 of them", "VI", "32 x32", ""),
    ("32-bit multiplication", "VII", "32", ""),
    ("16 x 16 matrices, 16-bit", "IX", "16", ""),
)


def shared(report: Report) -> bool:
    """Returns whether other processes used the cores during most rows."""
    rows = [r for r in report["results"] if r.get("threads") and "load" in r]
    return sum(machines.busy(r["load"], r["threads"], report["machine"]) for r in rows) > len(rows) / 2


def placed(name: str, report: Report) -> list[Row]:
    """Returns the results of a file, each with its machine (cores and processor, or the GPU, with their number) and the commit."""
    machine, at = report["machine"], commit(report["commit"])
    many = machine.get("gpus", 1)
    cores = f" of {machines.processor(machine, name)}" + (", shared" if shared(report) else "")
    found = []
    for row in report["results"]:
        on = where(report, row) + cores if row.get("threads") else f"{many} " * (many > 1) + where(report, row)
        found.append(row | {"machine": on, "where": f"{on}, {at}", "at": at})
    return found


def rows(reports: Reports) -> list[Row]:
    """Returns all results of TFHE, each with its machine."""
    of_tfhe = {name: report for name, report in reports.items() if report.get("kind") == "tfhe"}
    return [row for name, report in of_tfhe.items() for row in placed(name, report)]


def parts(found: list[Row]) -> list[Row]:
    """Returns Table IV, from times of kernels and of an AND of as many bits on the same machine. The two results may be from
    different commits.

    """
    made: dict[tuple[str, str, str, str], Row] = {}
    totals = {
        (r["machine"], r["parameters"]["name"], r["column"]): r for r in found if r.get("line") == "AND" and "median_s" in r
    }
    for r in (r for r in found if "shape" in r):
        total = totals.get((r["machine"], r["shape"], str(r["count"])))
        if total is None:
            continue
        times = {line: r[key] for line, key in PARTS.items()}
        rest = total["median_s"] - sum(times.values())
        times |= ({"rest": rest} if rest > 0 else {}) | {"total": total["median_s"]}
        known = {key: total[key] for key in ("parameters", "column")} | {key: r[key] for key in ("where", "machine")}
        for line, value in times.items():
            made[r["machine"], r["shape"], line, total["column"]] = known | {"table": "IV", "line": line, "median_s": value}
    return list(made.values())


def columns_of(paper: Row, ours: list[Row]) -> list[str]:
    """Returns the paper's columns, then Heliograph's; columns that are numbers are sorted."""
    found = list(dict.fromkeys([c for line in paper.values() for c in line] + [r["column"] for r in ours]))
    return sorted(found, key=int) if all(c.isdigit() for c in found) else found


def cores_first(lines: list[list[str]]) -> list[list[str]]:
    """Returns lines of cores, then those of GPUs."""
    return sorted(lines, key=lambda line: "core" in line[0], reverse=True)


def lines_of(ours: list[Row], columns: list[str]) -> list[list[str]]:
    """Returns a row per machine, method and parameter set. Rows without a measurement or an estimate are omitted. Estimates
    are dropped if the same machine has a measurement.
    """

    def same(r: Row) -> tuple[str, ...]:
        return r["machine"], r["line"], r["parameters"]["name"], r["column"]

    done = {same(r) for r in ours if "median_s" in r}
    found: dict[tuple[str, str, str], dict[str, Row]] = {}
    for r in ours:
        if "median_s" in r or same(r) not in done:
            found.setdefault((r["where"], r["line"], r["parameters"]["name"]), {})[r["column"]] = r
    lines = [[f"here, {key[0]}", *key[1:], *(cell(mine.get(c)) for c in columns)] for key, mine in found.items()]
    return cores_first([line for line in lines if set(line[3:]) != {"-"}])


def beside(reports: Reports, name: str) -> Lines:
    """Returns one of the paper's tables with Heliograph's rows: seconds by column."""
    found = rows(reports)
    ours = [r for r in (parts(found) if name == "IV" else found) if r.get("table") == name and "parameters" in r]
    paper = PAPER[name]
    columns = columns_of(paper, ours)
    lines = [["paper", line, "-", *(seconds(values.get(c)) for c in columns)] for line, values in paper.items()]
    table = markdown(["on", "how", "set", *columns], lines + lines_of(ours, columns))
    return blocks([f"By {FACTS['columns'][name]}:"], table, errors(r for r in ours if "what" in r))


def figure(reports: Reports, part: str) -> Lines:
    """Returns a part of Figure 5."""
    wanted, columns = tuple(FACTS["parts"][part]), FACTS["bits"][part]
    ours = [r for r in rows(reports) if r.get("table") == "Figure 5" and r["line"] in wanted]
    lines = [
        ["paper", line, "-", *(seconds(values.get(c)) for c in columns)]
        for line, values in PAPER["Figure 5"].items()
        if line.startswith(wanted) and (part != "5b" or line == "AND, GPU")
    ]
    for who, each in FACTS["printed"].items() if part == "5b" else ():
        lines.append(["Titan Xp", who, "-", *(seconds(each * int(c)) if int(c) >= 256 else "-" for c in columns)])
    return ["By bits:", "", *markdown(["on", "how", "set", *columns], lines + lines_of(ours, columns))]


def _milliseconds(row: Row) -> str:
    return f"{row['median_s'] * 1e3:,.4g}"


def _kilobytes(parameters: Row) -> str:
    """Returns the size of an encrypted 32-bit number in memory, in kB. A BFV number is a ciphertext of two polynomials."""
    if "number_bytes" in parameters:
        return f"{parameters['number_bytes'] / 1000:,.4g}"
    if "log_q" in parameters:
        return f"{2 * parameters['n'] * parameters['log_q'] / 8000:,.4g}"
    return "-"


def features(reports: Reports) -> Lines:
    """Returns Table I: schemes, sizes and times. A machine's times may come from several files, and a set's size from any
    file.
    """
    known: dict[str, dict[str, Row]] = {}
    sizes: dict[str, str] = {}
    for r in (r for name, report in reports.items() for r in placed(name, report) if "case" in r and "median_s" in r):
        known.setdefault(r["machine"], {})[r["case"]] = r
        if (size := _kilobytes(r["parameters"])) != "-":
            sizes[r["parameters"].get("name") or r["case"]] = size
    ours = []
    for spot, cases in known.items():
        for words, kind, bootstrapping, add, multiply in OURS:
            if add not in cases or multiply not in cases:
                continue
            both = first, _ = cases[add], cases[multiply]
            level = security(first["parameters"]).replace("128-bit", "128")
            at = ", ".join(dict.fromkeys(r["at"] for r in both))
            size = sizes.get(first["parameters"].get("name") or add, "-")
            on = "cores" if first.get("threads") else "GPU"
            times = map(_milliseconds, both)
            ours.append([f"here, {spot}, {at}", words, "-", kind, bootstrapping, on, level, size, *times])
    heads = ["on", "scheme", "year", "homomorphism", "bootstrapping", "parallel by", "bits of security", "kB"]
    lines = [["paper", scheme, *cells] for scheme, cells in FACTS["features"].items()]
    return markdown([*heads, "addition, ms", "multiplication, ms"], lines + cores_first(ours))


def summary(reports: Reports) -> Lines:
    """Returns Table II: the fastest result of each machine and set."""
    sets: dict[tuple[str, str], list[Row]] = {}
    found = [r for r in rows(reports) if r.get("table") and "median_s" in r]
    for spot in dict.fromkeys(r["machine"] for r in found):
        for r in (r for r in found if r["machine"] == spot):
            sets.setdefault((spot, r["parameters"]["name"]), []).append(r)
    ours = []
    for (spot, name), mine in sets.items():
        cells = []
        for _, of, column, line in WORKLOADS:
            times = [r["median_s"] for r in mine if (r["table"], r["column"]) == (of, column) and line in ("", r["line"])]
            cells.append(seconds(min(times)) if times else "-")
        if set(cells) != {"-"}:
            ours.append([f"here, {spot}, {', '.join(dict.fromkeys(r['at'] for r in mine))}", name, *cells])
    lines = [["paper", who, *map(seconds, values)] for who, values in FACTS["summary"].items()]
    return markdown(["on", "by", *(words for words, *_ in WORKLOADS)], lines + cores_first(ours))


#: Lines of the summary: description, table and lines of the paper, table and line of Heliograph, column.
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


def short(reports: Reports) -> Lines:
    """Returns the paper's largest cases, and Heliograph's fastest at 128 bits on one core, two cores and one GPU, with set and commit."""
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
    return markdown(["", "paper, sequential", "paper, CPU", "paper, GPU", *places], lines)


def predictions(reports: Reports) -> Lines:
    """Returns Table X's trained models: shares of correctly predicted rows, encrypted and in the clear."""
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
    heads = ["rows x attributes", "training", "random weights", "trained, in the server's integers"]
    heads += ["trained, in floating point", "least squares", "largest difference from floating point, of the allowed one"]
    return markdown([*heads, "decrypted and equal on"], lines)


def estimates(reports: Reports) -> Lines:
    """Returns the accuracy of estimates, over cases with both a measurement and an estimate in the same run."""
    found = [r for r in rows(reports) if r.get("table") and r.get("median_s") and r.get("estimate_s")]
    words = []
    for kind in ("cores", "GPUs"):
        over = sorted(r["estimate_s"] / r["median_s"] for r in found if bool(r.get("threads")) == (kind == "cores"))
        if over:
            least, most = over[len(over) // 10], over[-1 - len(over) // 10]
            words.append(
                f"{least:.2g} to {most:.2g} times the measured time on {kind} for eight in ten of {len(over)} cases"
            )
    return [f"For cases with an estimate and a measurement, the estimate was {', '.join(words)}."] if words else []


def sources(reports: Reports) -> Lines:
    """Returns the files, with machine, commit and date of each."""
    return [
        f"- {link(name)}: {r['machine'].get('gpu') or machines.processor(r['machine'], name)} "
        f"({r['machine']['cores']} cores), commit {commit(r['commit'])}, {r['date'][:10]}"
        for name, r in reports.items()
    ]


TABLES: dict[str, Callable[[Reports], Lines]] = {
    "morshed in short": short,
    "morshed predictions": predictions,
    "morshed estimates": estimates,
    "morshed I": features,
    "morshed II": summary,
    "morshed IV": partial(beside, name="IV"),
    **{f"morshed {part}": partial(figure, part=part) for part in FACTS["parts"]},
    **{f"morshed {name}": partial(beside, name=name) for name in ("V", "VI", "VII", "VIII", "IX", "X")},
    "morshed sources": sources,
}
