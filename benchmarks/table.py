"""Markdown tables from a runner's JSON: what README and docs/benchmarks.md show.

python benchmarks/table.py benchmarks/results/FILE.json              # prints
python benchmarks/table.py FILE.json [FILE.json ...] --into README.md  # between a page's marks: cores and GPUs have their own
python benchmarks/table.py GPU.json --into docs/benchmarks.md --whole  # every case of a GPU
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def seconds(value: float | None) -> str:
    """A time with three figures."""
    if value is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def is_gpu(report: dict[str, Any]) -> bool:
    """Whether it is of a GPU's cases."""
    return any("pipe_s" in r for r in report["results"])


def ratio(time: float, floor: float | None) -> str:
    """How far above the floor."""
    return f"{time / floor:.2f}" if floor else "-"


def joules(value: float | None) -> str:
    """An energy with three figures."""
    if value is None:
        return "-"
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
        levels = list(dict.fromkeys(r["level"] for r in kernels))
        lines += ["", f"| kernel, one core | {' | '.join(levels)} |", "|---" * (len(levels) + 1) + "|"]
        for name in dict.fromkeys(r["kernel"] for r in kernels):
            found = {r["level"]: seconds(r["median_s"]) for r in kernels if r["kernel"] == name}
            lines.append(f"| {name} | {' | '.join(found.get(level, '-') for level in levels)} |")
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
    """The README's table."""
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
        return str(machine["device"])
    return f"{machine['gpu']}, {machine['gpu_memory_gib']:.0f} GiB, driver {machine['gpu_driver']}"


def gpu_screen(reports: dict[str, dict[str, Any]]) -> list[str]:
    """The README's table of a GPU: both editions; floor and energy of the faster one."""
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


def replace_figures(target: Path, lines: list[str], kind: str) -> None:
    """Puts lines between the two marks of a page."""
    text = target.read_text(encoding="utf-8")
    begin, end = f"<!-- {kind} -->\n", f"<!-- end of {kind} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"{target} has no place for {kind}: {begin.strip()} and {end}")
    head, rest = text.split(begin)
    target.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1], encoding="utf-8")


def heading(name: str, report: dict[str, Any]) -> str:
    """Of one file: where and when."""
    machine = report["machine"]
    cores = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    where = f"{gpu_machine(report)} (host: {cores})" if is_gpu(report) else cores
    return f"**{name}**: {where}; commit {report['commit'][:12]}; {report['date']}"


def table_of(report: dict[str, Any]) -> list[str]:
    """Everything in a file."""
    return gpu_rows_of(report) if is_gpu(report) else rows_of(report)


def main() -> None:
    """Prints the tables of the files named, or puts them into a page."""
    names = [a for a in sys.argv[1:] if a.endswith(".json")]
    reports = {Path(n).name: json.loads(Path(n).read_text(encoding="utf-8")) for n in names}
    gpus = {name: report for name, report in reports.items() if is_gpu(report)}
    cores = {name: report for name, report in reports.items() if name not in gpus}
    if "--into" in sys.argv:
        target = Path(sys.argv[sys.argv.index("--into") + 1])
        if cores:
            replace_figures(target, first_screen(cores), "figures")
        if gpus and "--whole" in sys.argv:
            whole = [line for name, report in gpus.items() for line in (heading(name, report), "", *gpu_rows_of(report))]
            replace_figures(target, whole, "gpu figures")
        elif gpus:
            replace_figures(target, gpu_screen(gpus), "gpu figures")
        return
    for name, report in reports.items():
        print(heading(name, report) + "\n")
        print("\n".join(table_of(report)) + "\n")


if __name__ == "__main__":
    main()
