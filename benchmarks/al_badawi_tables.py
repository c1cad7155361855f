"""What docs/papers/al-badawi-2020.md says of the paper's tables and figures: theirs as printed, ours from the committed files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import table
from al_badawi_facts import CASES, TABLE_2, TABLE_3, TABLE_4, TABLE_5, Times

Row = dict[str, Any]
Reports = dict[str, Row]
Time = Callable[[float | None], str]
FIGURE_4 = "Figure 4"
COLUMNS_2 = ("inputs", "outputs", "products", "constants", "additions", "biases")
#: The ways of Figure 4, by what the workbench calls them, as the paper does.
WAYS = {
    "peer copies, one a row": "peer copies, a segment each (Algorithms 1 and 2)",
    "peer copies, one a block": "peer copies, two-dimensional",
    "peer loads": "loads by the GPU that gets a block",
    "unified memory": "unified memory",
    "through the host": "through the host",
    "through pinned host memory": "through pinned host memory",
}


def source(report: Row, name: str) -> str:
    """Machine and commit of a file, and the file."""
    machine: Row = report["machine"] if "machine" in report else report["settings"]
    commit = str(report.get("commit", machine.get("commit", "?")))[:12]
    away = name if name.startswith("../") else f"benchmarks/results/{name}"
    cores = table.processor(machine, name) if "processor" in machine else machine.get("device", "?")
    what = machine.get("gpu") or cores
    return f"{str(what).removeprefix('NVIDIA ')}, {commit} ([{Path(name).name}]({away}))"


def shared(report: Row) -> bool:
    """Whether cores had other work besides at the run's end."""
    loads, threads = report.get("load"), [r["threads"] for r in report["results"] if r.get("threads")]
    return isinstance(loads, list) and bool(threads) and table.busy(loads[-1], max(threads), report["machine"])


def workloads(reports: Reports, workload: str) -> Iterator[tuple[str, dict[int, Row]]]:
    """Lines of a workload: words that tell them apart, and rows by the number of processing units. Cores first."""
    found: dict[str, dict[int, Row]] = {}
    for name, report in reports.items():
        for r in report.get("results", ()):
            if (
                not str(r.get("case", "")).startswith(CASES[workload])
                or "median_s" not in r
                or r.get("layout", "auto") != "auto"
            ):
                continue
            p = r["parameters"]
            products = f", {p['products']['constants']:,} products with constants" if "products" in p else ""
            units = r.get("threads") or r.get("devices", 1)
            kind = ("shared cores of " if shared(report) else "cores of ") if r.get("threads") else ""
            words = f"{kind}{source(report, name)}: {p.get('name') or r['case']}, {p['edition']}{products}, {p['security']}"
            found.setdefault(words, {})[units] = r
    yield from sorted(found.items(), key=lambda line: not line[0].startswith(("cores", "shared")))


def counts_of(times: Times, ours: dict[str, list[tuple[str, dict[int, Row]]]]) -> list[int]:
    """All numbers of processing units that a table has."""
    theirs = {n for by in times.values() for line in by.values() for n in line}
    return sorted(theirs | {n for lines in ours.values() for _, line in lines for n in line})


def short(reports: Reports, seconds: Time) -> list[str]:
    """Each workload's fastest: the paper's on cores and GPUs, and here at 128 bits, on how many, which and at which commit."""
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
    return table.table(["", "paper, Cingulata on cores", "paper, GPUs", *ways], lines)


def beside(reports: Reports, seconds: Time, times: Times) -> list[str]:
    """Seconds by the number of processing units: cores or GPUs."""
    ours = {what: list(workloads(reports, what)) for what in times}
    counts = counts_of(times, ours)
    lines = []
    for what, by in times.items():
        for hardware, found in by.items():
            lines.append([what, f"paper: {hardware}", *(f"{found[n]:,} s" if n in found else "-" for n in counts)])
        for words, line in ours[what]:
            lines.append([what, f"here: {words}", *(seconds(line[n]["median_s"]) if n in line else "-" for n in counts)])
    return table.table(["workload", "on", *map(str, counts)], lines)


def speedups(reports: Reports, seconds: Time) -> list[str]:
    """Figure 7: how many times faster than one processing unit."""
    ours = {what: [(w, line) for w, line in workloads(reports, what) if 1 in line and len(line) > 1] for what in TABLE_4}
    counts = [n for n in counts_of(TABLE_4, ours) if n > 1]
    lines = []
    for what, by in TABLE_4.items():
        for hardware, found in by.items():
            cells = [f"{found[1] / found[n]:.2f}" if n in found else "-" for n in counts]
            lines.append([what, f"paper: {hardware}", *cells])
        for words, line in ours[what]:
            one = line[1]["median_s"]
            lines.append(
                [what, f"here: {words}", *(f"{one / line[n]['median_s']:.2f}" if n in line else "-" for n in counts)]
            )
    return table.table(["workload", "on", *map(str, counts)], lines)


def energy(reports: Reports, seconds: Time) -> list[str]:
    """Figure 8: watts of each GPU, and joules of a call of all."""
    lines = []
    for what in ("HVAdd", "HVMul", "HCNN-5", "HCNN-11, ten plaintext moduli"):
        for words, line in workloads(reports, what):
            for units, r in sorted(line.items()):
                if r.get("joules") and not r.get("threads"):
                    each, lasted = f"{r['watts'] / units:,.0f} W", seconds(r["joules"] / r["watts"])
                    lines.append([what, words, str(units), each, table.joules(r["joules"]), lasted, seconds(r["median_s"])])
    return table.table(
        ["workload", "on", "GPUs", "each, on the average", "a call, all of them", "in", "one call alone"], lines
    )


def operations(reports: Reports, seconds: Time) -> list[str]:
    """Table 2: how many operations."""
    heads = ["workload", "", "inputs", "outputs", "C x C", "C x P", "C + C", "C + P"]
    lines = [[what, "paper", *(f"{n:,}" for n in numbers)] for what, numbers in TABLE_2.items()]
    for name, report in reports.items():
        for r in report.get("results", ()):
            if "counts" in r and "skipped" not in r:
                lines.append([r["counts"], f"here, {source(report, name)}", *(f"{r[key]:,}" for key in COLUMNS_2)])
    names = list(dict.fromkeys(line[0].split(",")[0] for line in lines))
    return table.table(heads, sorted(lines, key=lambda line: names.index(line[0].split(",")[0])))


def machines(reports: Reports, seconds: Time) -> list[str]:
    """Table 3: what is measured on."""
    lines = [[f"paper, {who}", *(both[at] for both in TABLE_3.values())] for at, who in enumerate(("K80", "P100"))]
    for name, report in reports.items():
        machine = report.get("machine")
        if not machine or any("counts" in r for r in report["results"]):
            continue
        memory = f"{machine['gpu_memory_gib']:.0f} GiB" if machine.get("gpu_memory_gib") else "-"
        links = next((d for d in machine.get("devices", ()) if d.startswith("links")), "-").removeprefix("links: ")
        gpus = f"{machine.get('gpus', 1)} {machine['gpu'].removeprefix('NVIDIA ')}" if machine.get("gpu") else "-"
        host = f"{table.processor(machine, name)}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB"
        driver = f"driver {machine['gpu_driver']}" if machine.get("gpu_driver") else "-"
        lines.append([f"here, [{name}](benchmarks/results/{name})", gpus, memory, links, host, driver])
    return table.table(["", *TABLE_3], lines)


def partitioning(reports: Reports, seconds: Time) -> list[str]:
    """Figure 4: a matrix from rows to columns and back, in each way."""
    lines = []
    for name, report in reports.items():
        rows = report.get("moves", ())
        for gpus in dict.fromkeys(r["gpus"] for r in rows):
            for way, words in WAYS.items():
                times = {r["direction"]: r["seconds"] for r in rows if (r["way"], r["gpus"]) == (way, gpus)}
                if times:
                    both = (seconds(times.get(d)) for d in ("rows to columns", "columns to rows"))
                    lines.append([words, str(gpus), *both, source(report, name)])
    for name, report in reports.items():
        for r in report.get("results", ()):
            if r.get("exchange") != "repartition" or not str(r.get("matrix")).startswith(FIGURE_4) or r["devices"] < 2:
                continue
            if r["what"] == "rows to columns":
                back = [
                    o["median_s"]
                    for o in report["results"]
                    if o.get("exchange") == "repartition"
                    and (o["matrix"], o["devices"], o["path"], o["what"])
                    == (r["matrix"], r["devices"], r["path"], "columns to rows")
                ]
                words = "the mesh's exchange, " + ("by loads" if r["path"] == "direct" else "through the host")
                lines.append(
                    [
                        words,
                        str(r["devices"]),
                        seconds(r["median_s"]),
                        seconds(back[0] if back else None),
                        source(report, name),
                    ]
                )
    return table.table(["40 x 2^16 words of four bytes", "GPUs", "rows to columns", "columns to rows", "on"], lines)


def programs(reports: Reports, seconds: Time) -> list[str]:
    """A network as it is and recorded, over GPUs."""
    lines = []
    for name, report in reports.items():
        rows = [r for r in report.get("results", ()) if "program_s" in r and "images" in r]
        for r in rows:
            one = next((o for o in rows if o["program"] == r["program"] and o["devices"] == 1), None)
            faster = f"{one['program_s'] / r['program_s']:.2f}" if one else "-"
            times = (seconds(r["eager_s"]), seconds(r["program_s"]), faster)
            calls = f"{r['calls']:,} in {r['launches']:,}"
            same = "yes" if r["same"] else "NO"
            lines.append([r["program"], str(r["devices"]), f"{r['images']:,}", *times, calls, same, source(report, name)])
    heads = [
        "network",
        "GPUs",
        "images",
        "function",
        "program",
        "over one GPU's program",
        "calls in launches",
        "same bits",
        "on",
    ]
    return table.table(heads, lines)


def larger(reports: Reports, seconds: Time) -> list[str]:
    """What is larger than one GPU's memory."""
    lines = []
    for name, report in reports.items():
        for r in (r for r in report.get("results", ()) if "larger" in r):
            spot = source(report, name)
            common = [r["what"], table.size(r.get("bytes")), table.size(r.get("limit_bytes")), str(r["devices"])]
            if "refused" in r:
                lines.append([*common, f"refused: {r['refused']}", "-", spot])
                continue
            if r["larger"] == "keys":
                said = f"made in {seconds(r['made_s'])}; each used once {seconds(r['first_s'])}, again {seconds(r['again_s'])}, "
                said += f"while it is on the GPU {seconds(r['resident_s'])}"
            else:
                said = f"joined in {seconds(r['made_s'])}; one added to all {seconds(r['add_s'])}, all squared {seconds(r['multiply_s'])}"
            lines.append([*common, said, "NO" if r["wrong"] else "yes", spot])
    return table.table(["what", "bytes", "one GPU's", "GPUs", "how it went", "right", "on"], lines)


Lines = Callable[[Reports, Time], list[str]]
#: Mark on the page, and what writes it.
TABLES: dict[str, Lines] = {
    "al-badawi in short": short,
    "al-badawi 2": operations,
    "al-badawi 3": machines,
    "al-badawi figure 4": partitioning,
    "al-badawi 4": partial(beside, times=TABLE_4),
    "al-badawi figure 7": speedups,
    "al-badawi figure 8": energy,
    "al-badawi 5": partial(beside, times=TABLE_5),
    "al-badawi programs": programs,
    "al-badawi larger": larger,
}
