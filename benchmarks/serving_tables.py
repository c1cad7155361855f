"""Markdown of a service's figures, from what benchmarks/serving.py wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

FILES = ("xeon-serving.json",)


def service(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A line for each thing measured."""
    lines = ["| over loopback TLS | time | memory of the service's process | machine | from |", "|---|---|---|---|---|"]
    for name, report in reports.items():
        machine, uploads, crowd = report["machine"], report["uploads"], report["crowd"]
        where = f"{machine['cores']} cores ({machine['processor']}), load {report['load']}"
        source = f"[{name}](benchmarks/results/{name}), {report['commit'][:12]}"

        def line(what: str, time: str, memory: float | None = None, where: str = where, source: str = source) -> str:
            shown = f"{memory / 2**20:.0f} MiB" if memory else "-"
            return f"| {what} | {time} | {shown} | {where} | {source} |"

        for run in report["runs"]:
            what = f"one request of {run['model']}, {run['request_bytes'] / 2**20:.2f} MiB"
            both = f"{seconds(run['service']['median'])}; by the library {seconds(run['library']['median'])}"
            lines.append(line(what, both))
        whole, cut = uploads["whole"], uploads["cut"]
        lines.append(
            line(f"keys of {whole['bytes'] / 1e6:.0f} MB uploaded", seconds(whole["seconds"]), uploads["peak_bytes"])
        )
        lines.append(line("the same gone on with after a cut in the middle", seconds(cut["seconds"])))
        what = f"{crowd['clients']} clients at once, {crowd['model']}, for {crowd['seconds']:.0f} s"
        times = f"{crowd['a_second']:.1f} answers a second; median {seconds(crowd['median'])}, p99 {seconds(crowd['p99'])}"
        lines.append(line(f"{what}; {len(crowd['refused'])} refused", times, crowd["peak_bytes"]))
    return [
        *lines,
        "",
        "Service and clients share the cores. Medians; the library reads the request's bytes, computes and writes the answer's.",
    ]
