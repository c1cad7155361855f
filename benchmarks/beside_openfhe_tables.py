"""Markdown of CKKS beside OpenFHE: times in turns on the same cores, then both sides' parameters, precision and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
SIDES = ("ours", "peer")


def is_beside_openfhe(report: Row) -> bool:
    """Whether it is of benchmarks/beside_openfhe.py."""
    return report.get("kind") == "beside openfhe"


def name_of(side: str, told: Row) -> str:
    """Who computed."""
    if side == "ours":
        return "ours"
    return f"OpenFHE {told['version'].removeprefix('v')}{' with HEXL' if told['hexl'] else ''}"


def rows(reports: dict[str, Row], seconds: Callable[[float | None], str]) -> list[str]:
    """A line a case and number of cores; then a line for each side's parameters."""
    times = [
        "| what | cores | ours | OpenFHE | times as fast | asked | ours, over one core | OpenFHE, over one core |",
        "|---|---|---|---|---|---|---|---|",
    ]
    about = [
        "| for | by | security | N | log Q | log QP | scale | limbs + special | digits | levels | bits right, mean / worst | keys made in |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for report in reports.values():
        results = report["results"]
        alone = {r["case"]: r for r in results if r["threads"] == 1}
        for r in results:
            one = alone.get(r["case"])
            gains = [f"{one[s]['median_s'] / r[s]['median_s']:.2f}" if one and r is not one else "-" for s in SIDES]
            cells = [r["what"], str(r["threads"]), *(seconds(r[s]["median_s"]) for s in SIDES), f"{r['ratio']:.2f}"]
            asked = f"{r['asked']:g}" if r["asked"] and r["threads"] == 1 else "-"
            times.append("| " + " | ".join([*cells, asked, *gains]) + " |")
        last = {r["bootstraps"]: r for r in results}  # precision is measured there
        for bootstraps, r in last.items():
            for side in SIDES:
                told = r[side]
                p, bits = told["parameters"], told.get("precision")
                levels = f"{p['level_before']} to {p['level_after']}" if bootstraps else str(p["levels"])
                right = f"{bits['mean_bits']:.1f} / {bits['worst_bits']:.1f} of {bits['ciphertexts']}" if bits else "-"
                cells = ["bootstraps" if bootstraps else "the others", name_of(side, told), p["security"], f"{p['n']:,}"]
                cells += [
                    f"{p['log_q']:.0f}",
                    f"{p['log_qp']:.0f}",
                    f"2^{p['log_scale']:g}",
                    f"{p['limbs']} + {p['special']}",
                ]
                about.append(
                    "| " + " | ".join([*cells, str(p["digits"]), levels, right, seconds(told.get("keys_s"))]) + " |"
                )
    return [*times, "", *dict.fromkeys(about)]  # reports of one set differ in cores alone
