"""Markdown of CKKS's and BGV's results: cores and GPUs side by side, with what peers took on like machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Time = Callable[[float | None], str]

#: Words, the case on cores and what OpenFHE 1.5.1 with HEXL took for it there (its memory kept, one core; s), the case on a GPU
#: alone and in a batch, and what the fastest peer took there for one (s): Cheddar 8df8b26 in words of 32 bits with log QP near
#: 1770, Phantom 1f4a198.
LINES: tuple[tuple[str, str, float | None, str, str, str], ...] = (
    ("CKKS multiply + relinearize + rescale, N=2^16", "ckks-rescaled-2^16", None, "ckks-rescaled-2^16-x1-w64",
     "ckks-rescaled-2^16-x16-w64", "Cheddar 429 us"),
    ("CKKS multiply + relinearize, N=2^16", "ckks-multiply-2^16", 0.171, "ckks-multiply-2^16-x1-w64",
     "ckks-multiply-2^16-x16-w64", ""),
    ("CKKS rotation, N=2^16", "ckks-rotate-2^16", 0.163, "ckks-rotate-2^16-x1-w64", "ckks-rotate-2^16-x16-w64",
     "Cheddar 411 us"),
    ("CKKS rescale, N=2^16", "ckks-rescale-2^16", 0.0191, "ckks-rescale-2^16-x1-w64", "ckks-rescale-2^16-x16-w64", ""),
    ("CKKS multiply + relinearize, N=2^15, 20 limbs", "ckks-multiply-2^15", 0.0657, "", "", ""),
    ("CKKS rotation, N=2^15, 20 limbs", "ckks-rotate-2^15", 0.063, "", "", ""),
    ("CKKS rescale, N=2^15, 20 limbs", "ckks-rescale-2^15", 0.0056, "", "", ""),
    ("BGV multiply + relinearize, N=2^15, 11 limbs", "bgv-multiply-2^15", 0.0279, "bgv-multiply-2^15-x1-w64",
     "bgv-multiply-2^15-x16-w64", "Phantom 323 us"),
    ("BGV multiply + relinearize, N=2^14, 6 limbs", "bgv-multiply-2^14", 0.006, "bgv-multiply-2^14-x1-w64",
     "bgv-multiply-2^14-x64-w64", "Phantom 218 us"),
)  # fmt: skip


def is_levelled(report: Row) -> bool:
    """Whether it holds these cases and no others (peers aside), on one device."""
    names = [r["case"] for r in report["results"] if "case" in r and "devices" not in r]
    own = [n for n in names if n.startswith(("ckks-", "bgv-"))]
    return bool(own) and all(n.startswith("peer-") for n in names if n not in own)


def screen(reports: dict[str, Row], seconds: Time) -> list[str]:
    """The headlines."""
    cases = {r["case"]: r for report in reports.values() for r in report["results"] if "median_s" in r}

    def cell(name: str, share: bool = False) -> str:
        row = cases.get(name)
        return seconds(row["median_s"] / (row.get("items", 1) if share else 1)) if row else "-"

    lines = [
        "| CKKS and BGV, at 128 bits | one core | OpenFHE with HEXL | one H200 | each of many in one call | peer |",
        "|---|---|---|---|---|---|",
    ]
    for words, core, openfhe, alone, batch, peer in LINES:
        if {core, alone, batch} & cases.keys():
            lines.append(
                f"| {words} | {cell(core)} | {seconds(openfhe)} | {cell(alone)} | {cell(batch, True)} | {peer or '-'} |"
            )
    used = ", ".join(f"[{name}](benchmarks/results/{name})" for name in reports)
    commits = ", ".join(dict.fromkeys(report["commit"][:12] for report in reports.values()))
    return [
        *lines,
        "",
        "Medians of single calls, waited for. N=2^16 has 24 primes and log QP 1593 on the core, 28 primes and log QP 1742 on the GPU, "
        "all of 50 bits. OpenFHE and the GPU's peers were measured earlier on like machines, OpenFHE with log QP 1630 at 2^16. "
        f"Commit {commits}: {used}.",
    ]
