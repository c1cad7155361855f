"""Measures HELR: examples/helr on a data set, with the time per iteration of its levelled part.

python -m benchmarks.runners.helr --csv table.txt --iterations 4,8 --out benchmarks/results/mine-helr.jsonl

Every run is made twice in one process and the second counts, because the first prepares constants and plans. There is no bootstrapping:
an iteration is an inner product, a cubic, a product and sums over all slots, on the available levels.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases.examples import example
from benchmarks.report import results
from benchmarks.runners import common


def main() -> None:
    """Parses the command line and writes the results."""
    options = common.parser(
        __doc__,
        needs=("out",),
        csv=(Path, "data set; default: 16,000 synthetic rows of 15 attributes"),
        iterations=("4,8", "comma-separated numbers of iterations"),
    ).parse_args()
    helr = example("helr", "helr")
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
    results.save(options.out, common.report(rows, common.machine() | common.engine(), kind="helr", load=common.load()))


if __name__ == "__main__":
    main()
