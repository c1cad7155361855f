"""Markdown tables from a runner's JSON: what README and docs/benchmarks.md show.

python benchmarks/table.py benchmarks/results/FILE.json
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


def rows_of(report: dict[str, Any]) -> list[str]:
    """One line a case, then one a kernel."""
    lines = ["| what | threads | median | floor | over floor | asked |", "|---|---|---|---|---|---|"]
    for r in report["results"]:
        if "what" in r:
            ratio = f"{r['over_floor']:.2f}" if r["over_floor"] else "-"
            lines.append(
                f"| {r['what']} | {r['threads']} | {seconds(r['median_s'])} | {seconds(r['floor_s'])} | {ratio} | {seconds(r['asked_s'])} |"
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


def replace_figures(target: Path, lines: list[str]) -> None:
    """Puts lines between the two marks of a page."""
    text = target.read_text(encoding="utf-8")
    begin, end = "<!-- figures -->\n", "<!-- end of figures -->"
    head, rest = text.split(begin)
    target.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1], encoding="utf-8")


def main() -> None:
    """Prints the tables of the files named, or puts the first screen's into a page."""
    names = [a for a in sys.argv[1:] if a.endswith(".json")]
    reports = {Path(n).name: json.loads(Path(n).read_text(encoding="utf-8")) for n in names}
    if "--into" in sys.argv:
        replace_figures(Path(sys.argv[sys.argv.index("--into") + 1]), first_screen(reports))
        return
    for name, report in reports.items():
        machine = report["machine"]
        print(
            f"**{name}**: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB; commit {report['commit'][:12]}; {report['date']}\n"
        )
        print("\n".join(rows_of(report)) + "\n")


if __name__ == "__main__":
    main()
