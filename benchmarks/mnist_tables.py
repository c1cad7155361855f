"""Tables of what benchmarks/mnist.py measured: networks and queries in small rings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]


def is_mnist(report: Row) -> bool:
    """Whether it is of this runner."""
    return report.get("kind") == "mnist"


def rows(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a network, then a line a query; behind each median the least time. Of a simulated device, lines of cycles."""

    def times(r: Row, step: str) -> str:
        return f"{seconds(r[f'{step}_s'])} ({seconds(r[f'{step}_least_s'])})"

    networks = [
        "| network | set | images a request | encrypt | classify | decrypt | right | logits exact | noise left | file |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    queries = ["| query | set | time | question | answer | exact | file |", "|---|---|---|---|---|---|---|"]
    cycles = [
        "| simulated | set | cycles | by the model | at the assumed clock | memory read, written | busiest unit | simulated in | file |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        for r in report["results"]:
            p = r["parameters"]
            kind = f"N={p['n']:,}, log q {p['log_q']:.0f}, {p['edition']}"
            if "cycles" in r:
                cycles.append(simulated(r, kind, seconds, name))
                continue
            exact = "all" if r["exact"] else "NO"
            if "query" in r:
                sizes = [f"{r[key]:,} bytes" for key in ("question_bytes", "answer_bytes")]
                queries.append("| " + " | ".join([r["what"], kind, times(r, "run"), *sizes, exact, name]) + " |")
            else:
                steps = [times(r, step) for step in ("encrypt", "run", "decrypt")]
                right = f"{r['right']:,} of {r['of']:,}"
                cells = [
                    r["network"],
                    kind,
                    str(r["images"]),
                    *steps,
                    right,
                    exact,
                    f"{r['least_noise_bits']:.0f} bits",
                    name,
                ]
                networks.append("| " + " | ".join(cells) + " |")
    tables = [lines for lines in (networks, queries, cycles) if len(lines) > 2]
    return [line for lines in tables for line in (*lines, "")][:-1]


def simulated(r: Row, kind: str, seconds: Time, name: str) -> str:
    """A line of cycles."""
    c = r["cycles"]
    what = r["what"] if "query" in r else f"{r['network']}, a request of {min(r['of'], r['images'])}"
    moved = f"{c['bytes_read'] / 1e6:,.1f}, {c['bytes_written'] / 1e6:,.1f} MB"
    unit = max(c["busy"], key=c["busy"].get)
    busy = f"{unit} {c['busy'][unit] / c['cycles']:.0%}"
    clock = f"{seconds(r['assumed_clock_s'])} ({c['clock'] / 1e6:g} MHz)"
    cells = [what, kind, f"{c['cycles']:,}", f"{c['predicted']:,}", clock, moved, busy, seconds(r["run_s"]), name]
    return "| " + " | ".join(cells) + " |"
