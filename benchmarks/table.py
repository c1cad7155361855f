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


def main() -> None:
    """Prints the tables of the file named."""
    path = Path(sys.argv[1])
    report = json.loads(path.read_text(encoding="utf-8"))
    machine = report["machine"]
    print(
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB; commit {report['commit'][:12]}; {report['date']}\n"
    )
    print("\n".join(rows_of(report)))


if __name__ == "__main__":
    main()
