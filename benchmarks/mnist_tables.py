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
    """A line a network, then a line a query; behind each median the least time."""

    def times(r: Row, step: str) -> str:
        return f"{seconds(r[f'{step}_s'])} ({seconds(r[f'{step}_least_s'])})"

    networks = [
        "| network | set | images a request | encrypt | classify | decrypt | right | logits exact | noise left | file |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    queries = ["| query | set | time | question | answer | exact | file |", "|---|---|---|---|---|---|---|"]
    for name, report in reports.items():
        for r in report["results"]:
            p = r["parameters"]
            kind = f"N={p['n']:,}, log q {p['log_q']:.0f}, {p['edition']}"
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
    return [*networks, "", *queries]
