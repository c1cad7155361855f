"""Markdown of programs of instructions beside the programs that they were written from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]


def is_instructions(report: Row) -> bool:
    """Whether it is of benchmarks/instructions.py."""
    return report.get("kind") == "instructions"


def rows(reports: dict[str, Row], seconds: Time) -> list[str]:
    """A table for each file: a line a case and a way to run it."""
    lines = []
    for name, report in reports.items():
        machine = report["machine"]
        where = machine.get("gpu") or machine.get("device") or machine["processor"]
        lines += [
            f"{where} ([{name}](benchmarks/results/{name})):",
            "",
            "| what | instructions, chips | parsed in | run as | calls | bytes moved | first run | replay | its host time | over the recorded program |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for r in report["results"]:
            set_name = r["parameters"]["name"] or f"{r['parameters']['limbs']} + {r['parameters']['special']} primes"
            chips = f"{r['instructions']:,}, {r['chips']}" + (f" {r['switching']}" if r["chips"] > 1 else "")
            lines.append(
                f"| {r['what']} ({set_name}) | {chips} | {seconds(r['parse_s'])} | recorded program | | | "
                f"| {seconds(r['program_s'])} | {seconds(r['program_host_s'])} | 1 |"
            )
            for v in r["variants"]:
                moved = (v["bytes_read"] + v["bytes_written"]) / 1e9
                words = v["words"] + (f", {v['devices']} devices" if v["devices"] > 1 else "")
                lines.append(
                    f"| | | | {words} | {v['calls']:,} | {moved:.1f} GB | {seconds(v['first_s'])} | {seconds(v['replay_s'])} "
                    f"| {seconds(v['host_s'])} | {v['replay_s'] / r['program_s']:.2f} |"
                )
        lines.append("")
    return lines[:-1]
