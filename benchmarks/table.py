"""Markdown tables from a runner's JSON: what README, docs/benchmarks.md and the pages in benchmarks/results show.

python benchmarks/table.py benchmarks/results/FILE.json                # prints
python benchmarks/table.py FILE.json [FILE.json ...] --into PAGE.md          # the headlines, between the page's marks of their kind
python benchmarks/table.py FILE.json [FILE.json ...] --into PAGE.md --whole  # every case
python benchmarks/pages.py                                             # all pages anew, from the committed files

Files of one kind make one table: cores and GPUs, several GPUs, TFHE's machines side by side, CKKS and BGV, ranks, DoubleCRT objects
and their peer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import beside_openfhe_tables
import beside_tables
import bootstrap_tables
import forecasts_tables
import frame_tables
import helr_tables
import instructions_tables
import levelled_tables
import mnist_tables
import programs_tables
import ranks_tables
import tfhe_tables


def seconds(value: float | None) -> str:
    """A time with three figures."""
    if value is None:
        return "-"
    if float(f"{value:.3g}") >= 1000:
        return f"{value:,.0f} s"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if float(f"{value * scale:.3g}") >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def is_tfhe(report: dict[str, Any]) -> bool:
    """Whether it is of TFHE's own runner."""
    return report.get("kind") == "tfhe"


def is_mesh(report: dict[str, Any]) -> bool:
    """Whether it is of several devices as one."""
    return any("devices" in r for r in report["results"])


def is_gpu(report: dict[str, Any]) -> bool:
    """Whether it is of a GPU's cases."""
    return any("pipe_s" in r for r in report["results"]) and not is_mesh(report)


#: AMD's generations call themselves alike; files are named by them.
GENERATIONS = {"zen4": "AMD EPYC (Zen 4)", "zen5": "AMD EPYC (Zen 5)"}


def processor(machine: dict[str, Any], name: str = "") -> str:
    """In short; `name` is the file's, which tells AMD's generations apart, the model's number Intel's."""
    known = GENERATIONS.get(name.partition("-")[0].removesuffix(".json"))
    vendor, _, model = str(machine.get("family", "")).partition(" family ")
    model = f" (model {model.rpartition(' ')[2]})" if vendor == "GenuineIntel" else ""
    return known or str(machine["processor"]).replace("(R)", "").removesuffix(" Processor") + model


def busy(load: float, threads: int, machine: dict[str, Any]) -> bool:
    """Whether so many threads had other work beside them on their cores: more than one thread, and than half of the cores left."""
    return load - threads > max(1.0, (machine.get("cores", 0) - threads) / 2)


def ratio(time: float, floor: float | None) -> str:
    """How far above the floor."""
    return f"{time / floor:.2f}" if floor else "-"


def joules(value: float | None) -> str:
    """An energy with three figures."""
    if value is None:
        return "-"
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f} J"
    return f"{value:.3g} J" if value >= 1 else f"{value * 1e3:.3g} mJ"


def gpu_rows_of(report: dict[str, Any]) -> list[str]:
    """One line a case, the layers of networks, one line a kernel."""
    lines = [
        "| what | one call | among many | floor | among many, over floor | asked | energy a call |",
        "|---|---|---|---|---|---|---|",
    ]
    cases = [r for r in report["results"] if "what" in r]
    for r in cases:
        lines.append(
            f"| {r['what']} | {seconds(r['median_s'])} | {seconds(r['pipe_s'])} | {seconds(r['floor_s'])} "
            f"| {ratio(r['pipe_s'], r['floor_s'])} | {seconds(r['asked_s'])} | {joules(r['joules'])} |"
        )
    for r in cases:
        if layers := r["extra"].get("layers_s"):
            lines += ["", f"| {r['what']}: step | time, waited for alone |", "|---|---|"]
            lines += [f"| {name} | {seconds(value)} |" for name, value in layers.items()]
    kernels = [r for r in report["results"] if "kernel" in r]
    if kernels:
        lines += ["", "| kernel | one call | among many | rate | asked | floor |", "|---|---|---|---|---|---|"]
    for r in kernels:
        rate = f"{r['units'] / r['pipe_s']:.3g} {r['unit']}/s" if r["units"] else "-"
        times = (r["median_s"], r["pipe_s"], r["asked_s"], r["floor_s"])
        one, many, asked, floor = (seconds(value) for value in times)
        lines.append(f"| {r['kernel']} | {one} | {many} | {rate} | {asked} | {floor} |")
    return lines


def rows_of(report: dict[str, Any]) -> list[str]:
    """One line a case, then one a kernel."""
    lines = ["| what | threads | median | floor | over floor | asked |", "|---|---|---|---|---|---|"]
    for r in report["results"]:
        if "what" in r:
            above = f"{r['over_floor']:.2f}" if r["over_floor"] else "-"
            lines.append(
                f"| {r['what']} | {r['threads']} | {seconds(r['median_s'])} | {seconds(r['floor_s'])} | {above} | {seconds(r['asked_s'])} |"
            )
    kernels = [r for r in report["results"] if "kernel" in r]
    if kernels:
        sets = list(dict.fromkeys(r["level"] for r in kernels))  # instruction sets
        lines += ["", f"| kernel, one core | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
        for name in dict.fromkeys(r["kernel"] for r in kernels):
            found = {r["level"]: seconds(r["median_s"]) for r in kernels if r["kernel"] == name}
            lines.append(f"| {name} | {' | '.join(found.get(s, '-') for s in sets)} |")
    return lines


FIRST_SCREEN = (
    ("hcnn5-2020", 2, "HCNN-5 on 16,384 encrypted MNIST images (99.20% right, every logit exact)"),
    ("digit-28x28", 2, "one encrypted 28x28 digit (99.04% right), keys ready"),
    ("hvmul250-2^15", 2, "250 multiplications + relinearizations, N=2^15, log q 600, one call"),
    ("multiply-2^15", 1, "one multiplication + relinearization, N=2^15, log q 600"),
    ("multiply-2^14", 1, "one multiplication + relinearization, N=2^14, log q 330"),
    ("add-2^15", 1, "one addition, N=2^15, log q 600"),
)
PEERS = {"multiply-2^15": "peer-tenseal-2^15", "multiply-2^14": "peer-tenseal-2^14"}


def first_screen(reports: dict[str, dict[str, Any]]) -> list[str]:
    """The headlines of cores."""
    rows = {
        (r["case"], r["threads"]): (r, name) for name, report in reports.items() for r in report["results"] if "case" in r
    }
    machine = next(iter(reports.values()))["machine"]
    lines = ["| what, at 128 bits | cores | time | floor | tenseal, same run |", "|---|---|---|---|---|"]
    for case, threads, words in FIRST_SCREEN:
        row, _ = rows[case, threads]
        peer = rows.get((PEERS.get(case, ""), threads))
        lines.append(
            f"| {words} | {threads} | {seconds(row['median_s'])} | {seconds(row['floor_s'])} | {seconds(peer[0]['median_s']) if peer else '-'} |"
        )
    used = ", ".join(f"[{name}](benchmarks/results/{name})" for name in reports)
    commit = next(iter(reports.values()))["commit"][:12]
    lines += [
        "",
        f"Medians on {machine['processor']} (Zen 4, AVX-512 IFMA), commit {commit}; accuracies as the weight files record them: {used}.",
    ]
    return lines


GPU_SCREEN = (
    ("hcnn5-2020", "HCNN-5 on 16,384 encrypted MNIST images"),
    ("digit-28x28", "one encrypted 28x28 digit, keys ready"),
    ("hvmul-2^15-x250", "250 multiplications + relinearizations, N=2^15, log q 600, one call"),
    ("hvadd-2^15-x500", "500 additions, N=2^15, log q 600, one call"),
    ("multiply-2^15-x1", "one multiplication + relinearization, N=2^15, log q 600"),
    ("multiply-2^14-x1", "one multiplication + relinearization, N=2^14, log q 330"),
)


def gpu_machine(report: dict[str, Any]) -> str:
    """The GPU, its memory and its driver."""
    machine = report["machine"]
    if not machine.get("gpu"):
        return str(machine.get("device", "?"))
    several = f"{machine['gpus']} " if machine.get("gpus", 1) > 1 else ""
    return f"{several}{machine['gpu']}, {machine['gpu_memory_gib']:.0f} GiB, driver {machine['gpu_driver']}"


def gpu_screen(reports: dict[str, dict[str, Any]]) -> list[str]:
    """The headlines of a GPU: both editions; floor and energy of the faster one."""
    rows = {r["case"]: r for report in reports.values() for r in report["results"] if "what" in r}
    lines = ["| what, at 128 bits, on one GPU | 64-bit words | 32-bit words | floor | energy |", "|---|---|---|---|---|"]
    for case, words in GPU_SCREEN:
        wide, narrow = rows.get(f"{case}-w64", rows.get(case)), rows.get(f"{case}-w32")
        found = [r for r in (wide, narrow) if r]
        if not found:
            continue
        best = min(found, key=lambda r: float(r["median_s"]))
        times = " | ".join(seconds(r["median_s"]) if r else "-" for r in (wide, narrow))
        lines.append(f"| {words} | {times} | {seconds(best['floor_s'])} | {joules(best['joules'])} |")
    used = ", ".join(f"[{name}](benchmarks/results/{name})" for name in reports)
    first = next(iter(reports.values()))
    lines += [
        "",
        f"Medians of single calls, waited for, on {gpu_machine(first)}, commit {first['commit'][:12]}; floor and energy (of the whole "
        f"board) are those of the faster edition: {used}.",
    ]
    return lines


# Several devices as one

Row = dict[str, Any]


def table(heads: list[str], lines: list[list[str]]) -> list[str]:
    """A table of Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    return ["|" + "|".join(row) + "|" if row[0] == "---" else "| " + " | ".join(row) + " |" for row in rows]


def size(value: float | None) -> str:
    """Bytes with three figures."""
    if value is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def times_faster(row: Row, alone: dict[str, Row]) -> str:
    """How many times faster than on one device: of the same case, without a mesh."""
    one = alone.get(row["case"])
    return f"{one['median_s'] / row['median_s']:.2f}" if one else "-"


def moved(row: Row) -> list[str]:
    """Exchanges and bytes of a call."""
    traffic = row["traffic"]
    if "exchanges" not in traffic:
        return ["-", "-"]
    return [f"{traffic['exchanges']:.3g}", size(traffic["exchanged_bytes"])]


def where_and_how_fast(row: Row, one: str, alone: dict[str, Row]) -> list[str]:
    """What, devices, layout (`one` where there is none), a call's times and how many times faster than on one device."""
    layout = one if row["devices"] == 1 and row["layout"] == "auto" else row["layout"]
    times = [seconds(row["median_s"]), seconds(row["pipe_s"]), times_faster(row, alone)]
    return [row["what"], str(row["devices"]), layout, *times]


def scaling(rows: list[Row], alone: dict[str, Row]) -> list[str]:
    """Workloads by the number of devices, as the mesh lays them out by itself: the time, and times faster than one."""
    counts = sorted({r["devices"] for r in rows})
    lines = []
    for case in dict.fromkeys(r["case"] for r in rows):
        found = {r["devices"]: r for r in rows if r["case"] == case and r["layout"] == "auto"}
        if not found:
            continue
        cells = [
            f"{seconds(found[n]['median_s'])}" + (f" ({times_faster(found[n], alone)})" if n > 1 else "")
            if n in found
            else "-"
            for n in counts
        ]
        what = next(iter(found.values()))["what"]
        lines.append([what, *cells])
        if any(r["median_s"] > LONG and r.get("first_s", 0) > COLD * r["median_s"] for r in found.values()):
            first = [seconds(found[n]["first_s"]) if "first_s" in found.get(n, {}) else "-" for n in counts]
            lines.append([f"{what}: the first call of a process", *first])
    heads = [f"{n} GPU{'s' if n > 1 else ''}" for n in counts]
    return table(["one call (times faster than one GPU)", *heads], lines)


def details(rows: list[Row], alone: dict[str, Row]) -> list[str]:
    """The same line by line, every layout."""
    lines = []
    for r in sorted(rows, key=lambda r: r["devices"]):
        p = r["parameters"]
        lines.append(
            [
                *where_and_how_fast(r, "-", alone),
                seconds(r["floor_s"]),
                ratio(r["pipe_s"], r["floor_s"]),
                *moved(r),
                joules(r["joules"]),
                p["edition"],
                p["security"],
            ]
        )
    lines.sort(key=lambda line: [r["what"] for r in rows].index(line[0]))
    heads = ["what", "GPUs", "layout", "one call", "among many", "times faster", "floor", "among many, over floor"]
    heads += ["exchanges a call", "moved a call", "energy a call", "edition", "security"]
    return table(heads, lines) if lines else []


def by_layout(rows: list[Row], alone: dict[str, Row]) -> list[str]:
    """One ciphertext: what each layout and algorithm makes of it."""
    chosen = [r for r in rows if r["case"].startswith("multiply") and "-x1-" in r["case"]]
    lines = [
        [
            *where_and_how_fast(r, "no mesh", alone),
            *moved(r),
            joules(r["joules"]),
        ]
        for case in dict.fromkeys(r["case"] for r in chosen)
        for r in sorted((r for r in chosen if r["case"] == case), key=lambda r: (r["devices"], r["median_s"]))
    ]
    heads = ["one ciphertext", "GPUs", "layout", "one call", "among many", "times faster", "exchanges a call"]
    return table([*heads, "moved a call", "energy a call"], lines) if lines else []


def repartitioning(rows: list[Row]) -> list[str]:
    """A matrix from rows to columns and back, directly and through the host; a paper's is on its page."""
    heads = [
        "matrix",
        "direction",
        "GPUs",
        "moved",
        "one call",
        "among many",
        "GB/s",
        "through the host, one call",
        "among many",
    ]
    lines = []
    ours = (r for r in rows if r["exchange"] == "repartition" and not r["matrix"].startswith("Figure"))
    for r in (r for r in ours if r["path"] == "direct"):
        same = ("matrix", "what", "devices")
        host = next((h for h in rows if h["path"] == "host" and all(h.get(k) == r[k] for k in same)), None)
        words = f"{r['matrix']}: {r['rows']} x {r['columns']:,} words of {r['word_bytes']} bytes"
        lines.append(
            [words, r["what"], str(r["devices"]), size(r["bytes"]), seconds(r["median_s"]), seconds(r["pipe_s"])]
            + [f"{r['bytes_s'] / 1e9:.3g}" if r["bytes"] else "-"]
            + ([seconds(host["median_s"]), seconds(host["pipe_s"])] if host else ["-", "-"])
        )
    names = list(dict.fromkeys(line[0] for line in lines))
    lines.sort(key=lambda line: names.index(line[0]))
    return table(heads, lines) if lines else []


EVERY = "each member its neighbour's"


def exchanging(rows: list[Row]) -> list[str]:
    """Exchanges by size, and what links carry without a mesh."""
    fewest = {r["what"]: r["devices"] for r in sorted(rows, key=lambda r: -r["devices"]) if r["exchange"] == "link"}
    if EVERY in fewest:  # the only one that more devices change
        rows = [r | {"what": f"{EVERY}, of {r['devices']}"} if r.get("what") == EVERY else r for r in rows]
        fewest |= {r["what"]: r["devices"] for r in rows if r["exchange"] == "link" and r["what"].startswith(EVERY)}
    lines = [
        [
            r["what"],
            f"{r['tensor_bytes'] / 2**20:.3g} MiB",
            str(r["devices"]),
            size(r["bytes"]),
            seconds(r["median_s"]),
            seconds(r["pipe_s"]),
            f"{r['bytes_s'] / 1000000000.0:.3g}" if r["bytes"] else "-",
        ]
        for group in ("exchange", "link")
        for r in rows
        if r["exchange"] == group and (r["devices"] > 1 if group == "exchange" else r["devices"] == fewest[r["what"]])
    ]
    heads = ["what", "size", "GPUs", "read", "one call", "among many", "GB/s"]
    return table(heads, lines) if lines else []


def mesh_rows_of(reports: dict[str, Row]) -> list[str]:
    """Everything of several devices; files of one machine together."""
    every = [r for report in reports.values() for r in report["results"] if "devices" in r and "skipped" not in r]
    rows, moves = [r for r in every if "what" in r and "case" in r], [r for r in every if "exchange" in r]
    alone = {r["case"]: r for r in rows if r["devices"] == 1 and r["layout"] == "auto"}
    sections = []
    if rows:
        sections = [
            scaling(rows, alone),
            by_layout(rows, alone),
            details([r for r in rows if not (r["case"].startswith("multiply") and "-x1-" in r["case"])], alone),
        ]
    sections += [repartitioning(moves), exchanging(moves)]
    left_out = [r for report in reports.values() for r in report["results"] if "devices" in r and "skipped" in r]
    lines = [line for section in sections if section for line in (*section, "")]
    lines += [
        f"Not measured: {r.get('case', 'exchanges')} on {r.get('device', r['devices'])}: {r['skipped']}" for r in left_out
    ]
    return lines if left_out else lines[:-1]


def mesh_screen(reports: dict[str, Row]) -> list[str]:
    """The headlines of several devices: workloads by the number of GPUs."""
    every = [r for report in reports.values() for r in report["results"] if "devices" in r and "skipped" not in r]
    rows = [r for r in every if "what" in r and "case" in r]
    alone = {r["case"]: r for r in rows if r["devices"] == 1 and r["layout"] == "auto"}
    used = ", ".join(f"[{name}](benchmarks/results/{name})" for name in reports)
    commits = ", ".join(dict.fromkeys(report["commit"][:12] for report in reports.values()))
    machine = gpu_machine(next(iter(reports.values())))
    return [*scaling(rows, alone), "", f"Medians of single calls, waited for, on {machine}, commit {commits}: {used}."]


def is_scaling(report: Row) -> bool:
    """Whether it is of benchmarks/scaling.py."""
    return report.get("kind") == "scaling"


def scaling_rows(reports: dict[str, Row]) -> list[str]:
    """What scales, by the number of devices; then what the time was too short for."""
    lines: list[str] = []
    for report in reports.values():  # speed-ups are over one device of the same file
        rows = [r for r in report["results"] if "median_s" in r]
        alone = {r["case"]: r for r in rows if r["devices"] == 1}
        missing = [
            f"Not measured: {r['case']} on {r['devices']}: {r['skipped']}" for r in report["results"] if "skipped" in r
        ]
        lines += [*([""] if lines else []), *scaling(rows, alone), *(["", *missing] if missing else [])]
    return lines


#: A first call is shown apart where it takes so much longer than the others, of cases of so many seconds.
COLD, LONG = 1.5, 0.5
RESULTS = Path(__file__).resolve().parent / "results"


def replace_figures(text: str, where: Path, lines: list[str], kind: str) -> str:
    """A page's text with lines between the two marks of a kind; links to results are the page's own."""
    begin, end = f"<!-- {kind} -->\n", f"<!-- end of {kind} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"{where} has no place for {kind}: {begin.strip()} and {end}")
    head, rest = text.split(begin)
    body = "\n".join(lines)
    away = os.path.relpath(RESULTS, where.resolve().parent)
    body = body.replace("](benchmarks/results/", "](" if away == "." else f"]({away}/")
    return head + begin + body + "\n" + end + rest.split(end)[1]


def heading(name: str, report: dict[str, Any]) -> str:
    """Of one file: where and when."""
    machine = report["machine"]
    cores = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    apart = "gpu" in machine or (not frame_tables.is_doublecrt(report) and (is_gpu(report) or is_mesh(report)))
    if ranks_tables.is_ranks(report):
        return (
            f"**{name}**: {ranks_tables.device_of(report)} (host: {cores}); commit {report['commit'][:12]}; {report['date']}"
        )
    where = f"{gpu_machine(report)} (host: {cores})" if apart else cores
    busy = report.get("load") or []
    load = f"; load {' to '.join(map(str, busy if isinstance(busy, list) else [busy]))}" if busy and not apart else ""
    return f"**{name}**: {where}; commit {report['commit'][:12]}; {report['date']}{load}"


def table_of(report: dict[str, Any]) -> list[str]:
    """Everything in a file."""
    return gpu_rows_of(report) if is_gpu(report) else rows_of(report)


def headed(reports: dict[str, Row]) -> list[str]:
    """Where and when, of each file."""
    return [line for name, report in reports.items() for line in (heading(name, report), "")]


def each(reports: dict[str, Row]) -> list[str]:
    """All of one file after the other."""
    return [line for name, report in reports.items() for line in (heading(name, report), "", *table_of(report), "")][:-1]


#: The kinds that have marks of their own, each known by what says so of a report; the first that says it.
KINDS: dict[str, Callable[[Row], bool]] = {
    "scaling figures": is_scaling,
    "doublecrt figures": frame_tables.is_doublecrt,
    "helr figures": helr_tables.is_helr,
    "helr bootstrap figures": helr_tables.is_bootstrapped,
    "bootstrap figures": bootstrap_tables.is_bootstrap,
    "beside figures": beside_tables.is_beside,
    "beside openfhe figures": beside_openfhe_tables.is_beside_openfhe,
    "forecasts figures": forecasts_tables.is_forecasts,
    "mnist figures": mnist_tables.is_mnist,
    "instructions figures": instructions_tables.is_instructions,
    "programs figures": programs_tables.is_programs,
    "ranks figures": ranks_tables.is_ranks,
    "tfhe figures": is_tfhe,
    "levelled figures": levelled_tables.is_levelled,
    "mesh figures": is_mesh,
    "gpu figures": is_gpu,
}


def kind_of(report: Row) -> str:
    """The name of the marks between which its tables stand."""
    return next((kind for kind, known in KINDS.items() if known(report)), "figures")


Time = Callable[[float | None], str]
Screen = Callable[[dict[str, Row]], list[str]]


def _timed(rows: Callable[[dict[str, Row], Time], list[str]]) -> Screen:
    return lambda reports: rows(reports, seconds)


def _headed(rows: Screen) -> Screen:
    """Below where and when they were measured."""
    return lambda reports: headed(reports) + rows(reports)


#: What stands between the marks: every case, and the headlines.
WHOLE: dict[str, Screen] = {
    **dict.fromkeys(("figures", "gpu figures", "levelled figures"), each),
    "mesh figures": _headed(mesh_rows_of),
    "scaling figures": _headed(scaling_rows),
    "tfhe figures": _headed(_timed(tfhe_tables.whole)),
    "doublecrt figures": _headed(_timed(frame_tables.whole)),
    "ranks figures": _headed(_timed(ranks_tables.whole)),
    "helr figures": _headed(_timed(helr_tables.whole)),
    "helr bootstrap figures": _headed(_timed(helr_tables.bootstrapped)),
    "bootstrap figures": _headed(_timed(bootstrap_tables.whole)),
    "forecasts figures": _headed(_timed(forecasts_tables.rows)),
    "mnist figures": _headed(_timed(mnist_tables.rows)),
    "instructions figures": _headed(_timed(instructions_tables.rows)),
    "programs figures": _headed(_timed(programs_tables.rows)),
    "beside figures": _timed(beside_tables.rows),
    "beside openfhe figures": _headed(_timed(beside_openfhe_tables.rows)),
}
HEADLINES: dict[str, Screen] = WHOLE | {
    "figures": first_screen,
    "gpu figures": gpu_screen,
    "levelled figures": _timed(levelled_tables.screen),
    "mesh figures": mesh_screen,
    "tfhe figures": _timed(tfhe_tables.screen),
    "doublecrt figures": _timed(frame_tables.screen),
}


def by_kind(names: list[Path]) -> dict[str, dict[str, Row]]:
    """The reports of files, by kind and name."""
    found: dict[str, dict[str, Row]] = {}
    for name in names:
        report = json.loads(name.read_text(encoding="utf-8"))
        found.setdefault(kind_of(report), {})[name.name] = report
    return found


def main() -> None:
    """Prints the tables of the files named, or puts them into a page."""
    found = by_kind([Path(a) for a in sys.argv[1:] if a.endswith(".json")])
    if "--into" not in sys.argv:
        for kind, reports in found.items():
            print("\n".join(WHOLE[kind](reports)) + "\n")
        return
    target = Path(sys.argv[sys.argv.index("--into") + 1])
    text = target.read_text(encoding="utf-8")
    for kind, reports in found.items():
        text = replace_figures(text, target, (WHOLE if "--whole" in sys.argv else HEADLINES)[kind](reports), kind)
    target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
