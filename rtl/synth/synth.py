#!/usr/bin/env python3
"""Synthesise the co-processor's modules for Xilinx 7-series by yosys, and write benchmarks/results/rtl-xc7.jsonl.

    python rtl/synth/synth.py                  all of CONFIGURATIONS
    python rtl/synth/synth.py montgomery ntt8  these; the file's other entries stay
    python rtl/synth/synth.py --check          no synthesis: lists entries of other sources
    python rtl/synth/synth.py --again ntt8     synthesises, writes nothing: lists entries that changed

yosys is `pip install pyosys` (0.70 is known to work). The counts are yosys' cells: another tool packs and optimises
differently. This script places, routes and times nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import yosys

from benchmarks.report import results

RTL = yosys.RTL
RESULTS = results.FOLDER / "rtl-xc7.jsonl"
PRIME = 1073643521  # the largest below 2^30 that is 1 modulo 2^15
PRIMES = (1073643521, 1073479681, 1073184769, 1073053697, 1072857089, 1072496641, 1071513601, 1071415297, 1071087617)
PRIMES += (1070727169, 1070563329, 1070301185, 1070137345, 1069940737, 1069383681)


def packed(primes: tuple[int, ...]) -> str:
    """Return primes as the value of a packed parameter, the first in the lowest 30 bits."""
    value = sum(q << (30 * i) for i, q in enumerate(primes))
    return f"{30 * len(primes)}'d{value}"


#: For each name: (module, parameters).
CONFIGURATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "montgomery": ("hg_mul_montgomery", {}),
    "shoup": ("hg_mul_shoup", {}),
    "barrett": ("hg_mul_barrett", {}),
    "window6": ("hg_mul_window", {"WIDTH": 6}),
    "window5": ("hg_mul_window", {"WIDTH": 5}),
    "window2": ("hg_mul_window", {"WIDTH": 2}),
    "window6-15-primes": ("hg_mul_window", {"WIDTH": 6, "PRIMES": 15}),
    "window2-15-primes": ("hg_mul_window", {"WIDTH": 2, "PRIMES": 15}),
    "window6-fixed": ("hg_mul_window", {"WIDTH": 6, "RUNTIME": 0, "QS": packed((PRIME,))}),
    "window2-fixed": ("hg_mul_window", {"WIDTH": 2, "RUNTIME": 0, "QS": packed((PRIME,))}),
    "window6-fixed-15-primes": ("hg_mul_window", {"WIDTH": 6, "RUNTIME": 0, "PRIMES": 15, "QS": packed(PRIMES)}),
    "window2-fixed-15-primes": ("hg_mul_window", {"WIDTH": 2, "RUNTIME": 0, "PRIMES": 15, "QS": packed(PRIMES)}),
    "add": ("hg_mod_add", {}),
    "sub": ("hg_mod_sub", {}),
    "butterfly": ("hg_butterfly", {}),
    **{f"ntt{b}": ("hg_ntt", {"B": b, "LOG_N": 12}) for b in (1, 2, 4, 8, 16)},
    "lane": ("hg_lane", {}),
    "pointwise": ("hg_pointwise", {}),
    "permute": ("hg_permute", {}),
    "reduce-sum": ("hg_reduce_sum", {}),
    "convert-4x8": ("hg_convert", {}),
    "convert-4x4": ("hg_convert", {"T": 4}),
    "memory-16": ("hg_memory", {"SLOTS": 16}),
    "scoreboard": ("hg_scoreboard", {}),
    "dma-read": ("hg_dma_read", {}),
    "dma-write": ("hg_dma_write", {}),
    # The whole card in an xc7z020 (220 DSPs, 53,200 LUTs, 280 BRAM18).
    "card-z020": ("hg_card", {"LOG_N": 12, "SLOTS": 16, "TABLES": 1, "P": 2, "T": 4}),
}

# : Device resources per cell of yosys' library: LUTs as logic, as shift registers or as memory.
UNITS: dict[str, tuple[str, int]] = {f"LUT{i}": ("lut", 1) for i in range(1, 7)} | {
    "SRL16E": ("srl", 1),
    "SRLC32E": ("srl", 1),
    "RAM32M": ("lut_ram", 4),
    "RAM64M": ("lut_ram", 4),
    "RAM32X1D": ("lut_ram", 2),
    "RAM64X1D": ("lut_ram", 2),
    "RAM128X1D": ("lut_ram", 4),
    "RAM32X1S": ("lut_ram", 1),
    "RAM64X1S": ("lut_ram", 1),
    "FDRE": ("ff", 1),
    "FDSE": ("ff", 1),
    "FDCE": ("ff", 1),
    "FDPE": ("ff", 1),
    "DSP48E1": ("dsp", 1),
    "RAMB18E1": ("bram18", 1),
    "RAMB36E1": ("bram18", 2),
    "CARRY4": ("carry4", 1),
    "MUXF7": ("muxf7", 1),
    "MUXF8": ("muxf8", 1),
    "INV": ("inv", 1),
}


def sources(module: str) -> list[Path]:
    """Return the files of a module, the package first."""
    known = {p.stem: p for folder in ("src", "lib") for p in sorted((RTL / folder).glob("*.sv"))}
    found: list[str] = []
    wanted = [module]
    while wanted:
        name = wanted.pop()
        if name in known and name not in found:
            found.append(name)
            wanted += re.findall(r"\bhg_\w+", re.sub(r"//.*", "", known[name].read_text(encoding="utf-8")))
    return sorted((known[name] for name in found), key=lambda p: (p.stem != "hg_pkg", p.stem))


def digest(module: str) -> str:
    """Return the digest of the code of a module's sources: without comments, blank lines and spaces at line ends."""
    state = hashlib.sha256()
    for path in sources(module):
        code = re.sub(r"[ \t]*(//.*)?$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        state.update(path.name.encode() + b"\0" + re.sub(r"\n+", "\n", code.lstrip("\n")).encode())
    return state.hexdigest()


def synthesise(module: str, parameters: dict[str, object]) -> dict[str, object]:
    """Run yosys on one module and return its areas."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        stat = Path(folder) / "stat.json"
        yosys.run(
            [
                yosys.read(module, sources(module), parameters),
                f"synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {module}",
                f"tee -q -o {stat} stat -json",
            ]
        )
        statistics = json.loads(stat.read_text(encoding="utf-8"))
    cells: dict[str, int] = {}
    units: dict[str, int] = dict.fromkeys(("lut", "srl", "lut_ram", "ff", "dsp", "bram18"), 0)
    for cell, count in statistics["design"]["num_cells_by_type"].items():
        cells[cell] = count
        if cell not in UNITS:
            raise SystemExit(f"{module}: yosys made {count} of {cell}, which is not in UNITS")
        unit, each = UNITS[cell]
        units[unit] = units.get(unit, 0) + each * count
    return {
        "module": module,
        "parameters": {k: str(v) for k, v in parameters.items()},
        "sources": digest(module),
        **units,
        "cells": dict(sorted(cells.items())),
        "seconds": round(time.monotonic() - start, 1),
    }


def differences(entry: dict[str, object], before: dict[str, object]) -> list[str]:
    """List the values that differ from an earlier entry. LUTs may differ by 2 %, because builds of yosys differ by less."""
    same = all(entry[u] == before.get(u) for u in ("sources", "parameters"))
    unlike = [u for u in ("srl", "lut_ram", "ff", "dsp", "bram18") if entry[u] != before.get(u)]
    if abs(entry["lut"] - before.get("lut", 0)) > 0.02 * entry["lut"]:
        unlike.append("lut")
    return unlike if same else ["sources", *unlike]


def main() -> int:
    """Synthesise the requested modules, or check the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"modules, default all: {', '.join(CONFIGURATIONS)}")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(CONFIGURATIONS)
    if unknown:
        parser.error(f"unknown modules: {', '.join(sorted(unknown))}")
    names = arguments.names or list(CONFIGURATIONS)
    rows = results.read(arguments.output)["results"] if arguments.output.exists() else []
    entries = {row["name"]: row for row in rows}
    if arguments.check:
        stale = [n for n in names if entries.get(n, {}).get("sources") != digest(CONFIGURATIONS[n][0])]
        for name in stale:
            print(f"{name}: out of date or missing; run rtl/synth/synth.py {name}")
        return 1 if stale else 0

    if not yosys.found():
        print(f"skipped: {yosys.MISSING}")
        return yosys.SKIPPED
    version = yosys.version()
    differ = 0
    for name in names:
        module, parameters = CONFIGURATIONS[name]
        before = entries.get(name)
        entries[name] = {"name": name, **synthesise(module, parameters), "tool": version}
        row = ", ".join(f"{entries[name][u]} {u}" for u in ("lut", "srl", "lut_ram", "ff", "dsp", "bram18"))
        print(f"{name}: {row} ({entries[name]['seconds']} s)", flush=True)
        if arguments.again:
            if unlike := differences(entries[name], before or {}):
                print(f"{name}: {arguments.output.name} differs in {', '.join(unlike)}")
                differ += 1
            continue
        ordered = [entries[n] for n in CONFIGURATIONS if n in entries]
        target = "xc7, yosys synth_xilinx -flatten; not placed, routed or timed"
        results.save(arguments.output, {"target": target, "results": ordered})
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
