"""Markdown of nearest neighbours, from what benchmarks/vectors.py wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

FILES = tuple(f"{machine}-vectors.json" for machine in ("xeon", "zen5", "h100", "h200"))


def vectors(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line a machine."""
    lines = [
        "| on | prepare all | encrypt a vector | all scores | of 4 vectors at once | write the answer | open, find 10 | prepared | from |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        case, machine, engine = report["case"], report["machine"], report["engine"]["device"]
        where = engine.split(",")[0].removeprefix("cuda: ") if engine.startswith("cuda") else f"{machine['cores']} cores"
        times = [
            seconds(case["seconds"].get(stage)) for stage in ("index", "encrypt", "scores", "together", "write", "nearest")
        ]
        lines.append(
            f"| {where} ({machine['processor']}) | {' | '.join(times)} | {case['prepared_bytes'] / 2**30:.2f} GiB "
            f"| [{name}](benchmarks/results/{name}), {report['commit'][:12]} |"
        )
    first = next(iter(reports.values()))["case"]
    return [
        *lines,
        "",
        f"{first['rows']:,} rows of {first['dimension']} components, {first['security']} security. Up: keys of {first['key_bytes'] / 1e6:.2f} MB once, "
        f"{first['question_bytes'] / 1e3:.0f} kB a vector; down: {first['answer_bytes'] / 1e6:.2f} MB. Medians, the answer written as a file's bytes; all scores are "
        f"compared with NumPy's, so recall is 1.",
    ]
