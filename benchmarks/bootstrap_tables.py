"""Tables of what benchmarks/bootstrap.py measured: times beside what is asked and floors, precision, keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def is_bootstrap(report: Row) -> bool:
    """Whether it is of this runner."""
    return report.get("kind") == "bootstrap"


def on_gpu(row: Row) -> bool:
    """Whether it was measured on GPUs: a machine that has some has cores too."""
    return str(row["device"]).startswith("cuda")


def where(report: Row, row: Row) -> str:
    """So many cores of a processor, or GPUs."""
    machine = report["machine"]
    if on_gpu(row):
        return f"{row['devices']} {machine['gpu']}" if row["devices"] > 1 else str(machine["gpu"])
    if threads := row.get("threads"):
        return f"{threads} core{'s' if threads > 1 else ''}"
    return str(row["device"])


def whole(reports: dict[str, Row], seconds: Callable[[float | None], str]) -> list[str]:
    """A line a case; then a line for each set's keys; then what was not measured."""
    times = [
        "| where | set | what | one call, alone | in a row | each ciphertext | floor | asked | bits right, mean / worst | levels |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = [
        "| where | set | security | keys on the device | in a file | made in | memory of the process |",
        "|---|---|---|---|---|---|---|",
    ]
    missing = []
    of_keys: dict[tuple[str, str], tuple[str, float]] = {}  # the process's memory grows from case to case
    for report in reports.values():
        for r in report["results"]:
            if "skipped" in r:
                missing.append(f"Not measured: {r['case']} on {r['device']}: {r['skipped']}")
            if "what" not in r:
                continue
            p, extra, at = r["parameters"], r["extra"], where(report, r)
            name = (p["name"] or f"N={p['n']:,}") + (
                "" if p.get("slots", p["n"] // 2) == p["n"] // 2 else f", {p['slots']:,} slots"
            )
            told = extra.get("precision")
            bits = f"{told['mean_bits']:.1f} / {told['worst_bits']:.1f} of {told['ciphertexts']}" if told else "-"
            levels = f"{p['level_before']} to {p['level_after']}" if told else str(p["levels"])
            asked = seconds(r["asked_s"] if on_gpu(r) and r["devices"] == 1 else None)
            cells = [at, name, r["what"].removeprefix("CKKS ").rpartition(", ")[0]]
            cells += [seconds(v) for v in (r["median_s"], r["pipe_s"], r["pipe_s"] / r["items"], r["floor_s"])]
            times.append("| " + " | ".join([*cells, asked, bits, levels]) + " |")
            line = f"{p['security']} | {extra['keys_bytes'] / 2**30:.2f} GiB | {extra['keys_file_bytes'] / 2**30:.2f} GiB | {seconds(extra['keys_s'])}"
            of_keys[at, name] = line, extra["peak_gib"]
    keys += [f"| {at} | {name} | {line} | {peak:.1f} GiB |" for (at, name), (line, peak) in of_keys.items()]
    return [*times, "", *keys, *(["", *missing] if missing else [])]
