"""HELR's figures: examples/helr on a table, its leveled part timed by the iteration.

python benchmarks/helr.py --csv table.txt --iterations 4,8 --out benchmarks/results/mine-helr.json

Every run is made twice in one process and the second is kept: the first prepares what later ones find ready. There is no
bootstrapping: an iteration is an inner product, a cubic, a product and sums over all slots, on as many levels as are left.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import run as runner

import heliograph as hg


def example() -> Any:
    """examples/helr."""
    path = Path(__file__).resolve().parents[1] / "examples" / "helr" / "helr.py"
    spec = importlib.util.spec_from_file_location("helr", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["helr"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Parses the command line and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, help="a table; default: 16,000 synthetic rows of 15 attributes")
    parser.add_argument("--iterations", default="4,8", help="comma-separated")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    helr = example()
    table = helr.read(options.csv) if options.csv else helr.synthetic(16000, 15)
    rows = []
    for iterations in map(int, options.iterations.split(",")):
        helr.run(table, iterations)
        row = {"table": options.csv.stem if options.csv else "synthetic"} | helr.run(table, iterations)
        rows.append(row)
        print(
            f"{row['table']}: {iterations} iterations, N = {row['n']}, log QP {row['log_qp']:.0f}, {row['security']}: "
            f"{1e3 * row['iteration_s']:.1f} ms an iteration, AUC {row['encrypted']['auc']:.4f} "
            f"(clear {row['same_steps_in_the_clear']['auc']:.4f}), accuracy {row['encrypted']['accuracy']:.4f}",
            flush=True,
        )
    found = {"kind": "helr", "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": runner.commit()}
    found |= {
        "machine": runner.machine() | {"device": hg.devices()[0]},
        "load": round(os.getloadavg()[0], 2),
        "results": rows,
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
