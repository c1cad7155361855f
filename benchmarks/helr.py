"""HELR's figures: examples/helr on a table, its leveled part timed by the iteration.

python benchmarks/helr.py --csv table.txt --iterations 4,8 --out benchmarks/results/mine-helr.json

Every run is made twice in one process and the second is kept: the first prepares what later ones find ready. There is no
bootstrapping: an iteration is an inner product, a cubic, a product and sums over all slots, on as many levels as are left.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import run as runner


def main() -> None:
    """Parses the command line and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, help="a table; default: 16,000 synthetic rows of 15 attributes")
    parser.add_argument("--iterations", default="4,8", help="comma-separated")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    helr = runner.example("helr", "helr")
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
    runner.save(options.out, runner.report(rows, runner.machine() | runner.engine(), kind="helr", load=runner.load()))


if __name__ == "__main__":
    main()
