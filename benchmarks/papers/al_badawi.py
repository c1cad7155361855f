"""Tables of docs/papers/al-badawi-2020.md: the paper's numbers as printed, and Heliograph's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.papers import facts
from benchmarks.report import machines
from benchmarks.report.render import Lines, Reports, Table, cases, columns, commit, link, markdown, seconds
from benchmarks.report.results import Report, Row

PAPER = facts.of("al_badawi")
TABLE_4, TABLE_5 = PAPER["table 4"], PAPER["table 5"]
FIGURE_4 = "Figure 4"
#: Methods of Figure 4: the workbench's names and the page's names.
WAYS = {
    "peer copies, one a row": "peer copies, a segment each (Algorithms 1 and 2)",
    "peer copies, one a block": "peer copies, two-dimensional",
    "peer loads": "loads by the GPU that gets a block",
    "unified memory": "unified memory",
    "through the host": "through the host",
    "through pinned host memory": "through pinned host memory",
}


def source(report: Report, name: str) -> str:
    """Returns the machine and the commit of a results file, and a link to the file."""
    machine: Row = report["machine"] if "machine" in report else report["settings"]
    at = commit(report.get("commit") or machine.get("commit") or "?")
    cores = machines.processor(machine, name) if "processor" in machine else machine.get("device", "?")
    return f"{str(machine.get('gpu') or cores).removeprefix('NVIDIA ')}, {at} ({link(name)})"


def place(row: Row) -> str:
    """Returns machine and commit of a case."""
    return source(row["run"], row["file"])


def shared(report: Report) -> bool:
    """Returns whether other processes used the cores at the end of the run."""
    loads, threads = report.get("load"), [r["threads"] for r in report["results"] if r.get("threads")]
    return isinstance(loads, list) and bool(threads) and machines.busy(loads[-1], max(threads), report["machine"])


def results(reports: Reports) -> Iterator[Row]:
    """Yields the cases of all reports that have cases; the workbench's reports have none."""
    yield from cases({name: report for name, report in reports.items() if "results" in report})


def workloads(reports: Reports, workload: str) -> Iterator[tuple[str, dict[int, Row]]]:
    """Yields the rows of a workload: a description and the results by the number of cores or GPUs. Cores come first."""
    found: dict[str, dict[int, Row]] = {}
    beginnings = tuple(PAPER["cases"][workload])
    for name, report in reports.items():
        for r in report.get("results", ()):
            named = str(r.get("case", "")).startswith(beginnings)
            if not named or "median_s" not in r or r.get("layout", "auto") != "auto":
                continue
            p = r["parameters"]
            products = f", {p['products']['constants']:,} products with constants" if "products" in p else ""
            units = r.get("threads") or r.get("devices", 1)
            kind = ("shared cores of " if shared(report) else "cores of ") if r.get("threads") else ""
            words = f"{kind}{source(report, name)}: {p.get('name') or r['case']}, {p['edition']}{products}, {p['security']}"
            found.setdefault(words, {})[units] = r
    yield from sorted(found.items(), key=lambda line: not line[0].startswith(("cores", "shared")))


def counts_of(times: Row, ours: dict[str, list[tuple[str, dict[int, Row]]]]) -> list[int]:
    """Returns all numbers of cores or GPUs in a table, sorted."""
    theirs = {int(n) for by in times.values() for line in by.values() for n in line}
    return sorted(theirs | {n for lines in ours.values() for _, line in lines for n in line})


def short(reports: Reports) -> Lines:
    """Returns the fastest result of each workload: the paper's on cores and GPUs, and Heliograph's at 128 bits. Each result
    has the number of cores or GPUs and the commit.

    """
    ways: dict[str, Callable[[Row], bool]] = {
        "cores here": lambda r: bool(r.get("threads")),
        "one GPU here": lambda r: not r.get("threads") and r.get("devices", 1) == 1,
        "several GPUs here": lambda r: not r.get("threads") and r.get("devices", 1) > 1,
    }
    lines = []
    for what in (*TABLE_4, "HCNN-5", "HCNN-11, ten plaintext moduli"):
        theirs = (TABLE_4 | TABLE_5)[what]
        cells = []
        for cores in (True, False):
            among = [
                (t, n, on) for on, line in theirs.items() for n, t in line.items() if on.startswith("Cingulata") == cores
            ]
            best = min(among, default=None)
            cells.append(f"{best[0]:,} s ({best[1]}: {best[2]})" if best else "-")
        found = [
            (r["median_s"], n, words.partition(" ([")[0].removeprefix("shared ").removeprefix("cores of "), r)
            for words, line in workloads(reports, what)
            for n, r in line.items()
            if r["parameters"]["security"] == "128-bit"
        ]
        for way in ways.values():
            ours = min((f for f in found if way(f[3])), key=lambda f: f[0], default=None)
            cells.append(f"{seconds(ours[0])} ({ours[1]}: {ours[2]})" if ours else "-")
        lines.append([what, *cells])
    return markdown(["", "paper, Cingulata on cores", "paper, GPUs", *ways], lines)


def beside(reports: Reports, times: Row) -> Lines:
    """Returns seconds by the number of cores or GPUs."""
    ours = {what: list(workloads(reports, what)) for what in times}
    counts = counts_of(times, ours)
    lines = []
    for what, by in times.items():
        for hardware, found in by.items():
            lines.append([what, f"paper: {hardware}", *(f"{found[str(n)]:,} s" if str(n) in found else "-" for n in counts)])
        for words, line in ours[what]:
            lines.append([what, f"here: {words}", *(seconds(line[n]["median_s"]) if n in line else "-" for n in counts)])
    return markdown(["workload", "on", *map(str, counts)], lines)


def speedups(reports: Reports) -> Lines:
    """Returns Figure 7: speed-ups over one core or GPU."""
    ours = {what: [(w, line) for w, line in workloads(reports, what) if 1 in line and len(line) > 1] for what in TABLE_4}
    counts = [n for n in counts_of(TABLE_4, ours) if n > 1]
    lines = []
    for what, by in TABLE_4.items():
        both = [(f"paper: {on}", {int(n): t for n, t in line.items()}) for on, line in by.items()]
        both += [(f"here: {words}", {n: r["median_s"] for n, r in line.items()}) for words, line in ours[what]]
        for words, found in both:
            lines.append([what, words, *(f"{found[1] / found[n]:.2f}" if n in found else "-" for n in counts)])
    return markdown(["workload", "on", *map(str, counts)], lines)


def powered(reports: Reports) -> Iterator[Row]:
    """Yields the cases of Figure 8."""
    for what in ("HVAdd", "HVMul", "HCNN-5", "HCNN-11, ten plaintext moduli"):
        for words, line in workloads(reports, what):
            for units, r in sorted(line.items()):
                if r.get("joules") and not r.get("threads"):
                    yield r | {"workload": what, "on": words, "units": units}


ENERGY = Table(
    columns(
        "workload: {workload} | on: {on} | GPUs: {units} | each, on the average: {watts/units:,.0f} W",
        "a call, all of them: {joules:energy} | in: {joules/watts:time} | one call alone: {median_s:time}",
    ),
    powered,
)
COUNTED = ("inputs", "outputs", "products", "constants", "additions", "biases")


def operations(reports: Reports) -> Lines:
    """Returns Table 2: numbers of operations."""
    lines = [[what, "paper", *(f"{n:,}" for n in numbers)] for what, numbers in PAPER["table 2"].items()]
    for r in results(reports):
        if "counts" in r and "skipped" not in r:
            lines.append([r["counts"], f"here, {source(r['run'], r['file'])}", *(f"{r[key]:,}" for key in COUNTED)])
    names = list(dict.fromkeys(line[0].split(",")[0] for line in lines))
    heads = ["workload", "", "inputs", "outputs", "C x C", "C x P", "C + C", "C + P"]
    return markdown(heads, sorted(lines, key=lambda line: names.index(line[0].split(",")[0])))


def machine_table(reports: Reports) -> Lines:
    """Returns Table 3: the machines."""
    lines = [[f"paper, {who}", *(both[at] for both in PAPER["table 3"].values())] for at, who in enumerate(("K80", "P100"))]
    for name, report in reports.items():
        machine = report.get("machine")
        if not machine or any("counts" in r for r in report["results"]):
            continue
        memory = f"{machine['gpu_memory_gib']:.0f} GiB" if machine.get("gpu_memory_gib") else "-"
        between = next((d for d in machine.get("devices", ()) if d.startswith("links")), "-").removeprefix("links: ")
        gpus = f"{machine.get('gpus', 1)} {machine['gpu'].removeprefix('NVIDIA ')}" if machine.get("gpu") else "-"
        host = f"{machines.processor(machine, name)}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB"
        driver = f"driver {machine['gpu_driver']}" if machine.get("gpu_driver") else "-"
        lines.append([f"here, {link(name)}", gpus, memory, between, host, driver])
    return markdown(["", *PAPER["table 3"]], lines)


def repartitions(reports: Reports) -> Iterator[Row]:
    """Yields Figure 4: a matrix from rows to columns and back, by each method."""
    for name, report in reports.items():
        rows = report.get("moves", ())
        for gpus in dict.fromkeys(r["gpus"] for r in rows):
            for way, words in WAYS.items():
                times = {r["direction"]: r["seconds"] for r in rows if (r["way"], r["gpus"]) == (way, gpus)}
                if times:
                    yield {"way": words, "gpus": gpus, "times": times, "run": report, "file": name}
    found: dict[tuple[str, str, int, str], Row] = {}
    for r in results(reports):
        if r.get("exchange") == "repartition" and str(r.get("matrix")).startswith(FIGURE_4) and r["devices"] > 1:
            row: Row = {"way": "the mesh's exchange, " + ("by loads" if r["path"] == "direct" else "through the host")}
            row |= {"gpus": r["devices"], "times": {}, "run": r["run"], "file": r["file"]}
            found.setdefault((r["file"], r["matrix"], r["devices"], r["path"]), row)["times"][r["what"]] = r["median_s"]
    yield from (row for row in found.values() if "rows to columns" in row["times"])


PARTITIONING = Table(
    columns(
        "40 x 2^16 words of four bytes: {way} | GPUs: {gpus} | rows to columns: {times.rows to columns:time}",
        "columns to rows: {times.columns to rows:time} | on: {place}",
        place=place,
    ),
    repartitions,
)


def recorded(reports: Reports) -> Iterator[Row]:
    """Yields a network as a function and as a recorded program, with the time on one GPU."""
    rows = [r for r in results(reports) if "program_s" in r and "images" in r]
    one = {(r["file"], r["program"]): r["program_s"] for r in reversed(rows) if r["devices"] == 1}
    for r in rows:
        yield r | {"one_s": one.get((r["file"], r["program"]))}


PROGRAMS = Table(
    columns(
        "network: {program} | GPUs: {devices} | images: {images:,} | function: {eager_s:time}",
        "program: {program_s:time} | over one GPU's program: {one_s/program_s:.2f}",
        "calls in launches: {calls:,} in {launches:,} | same bits: {same:yes/NO} | on: {place}",
        place=place,
    ),
    recorded,
)


def larger(reports: Reports) -> Iterator[Row]:
    """Yields the tests that need more than one GPU's memory."""
    for r in (r for r in results(reports) if "larger" in r):
        if "refused" in r:
            yield r | {"said": f"refused: {r['refused']}", "right": "-"}
            continue
        if r["larger"] == "keys":
            said = f"made in {seconds(r['made_s'])}; each used once {seconds(r['first_s'])}, again {seconds(r['again_s'])}, "
            said += f"while it is on the GPU {seconds(r['resident_s'])}"
        else:
            said = f"joined in {seconds(r['made_s'])}; one added to all {seconds(r['add_s'])}, all squared {seconds(r['multiply_s'])}"
        yield r | {"said": said, "right": "NO" if r["wrong"] else "yes"}


LARGER = Table(
    columns(
        "what: {what} | bytes: {bytes:size} | one GPU's: {limit_bytes:size} | GPUs: {devices} | result: {said}",
        "right: {right} | on: {place}",
        place=place,
    ),
    larger,
)
TABLES = {
    "al-badawi in short": short,
    "al-badawi 2": operations,
    "al-badawi 3": machine_table,
    "al-badawi figure 4": PARTITIONING,
    "al-badawi 4": partial(beside, times=TABLE_4),
    "al-badawi figure 7": speedups,
    "al-badawi figure 8": ENERGY,
    "al-badawi 5": partial(beside, times=TABLE_5),
    "al-badawi programs": PROGRAMS,
    "al-badawi larger": LARGER,
}
