"""Measures bootstraps of values that repeat with a period, beside whole bootstraps, and counts their products and bytes.

    python -m benchmarks.runners.bootstrap_periods --out benchmarks/results/mine-bootstrap-periods.jsonl
    python -m benchmarks.runners.bootstrap_periods --set n15-b4 --levels 4 --periods 1024,2048,4096 --counts yes

Each row is one level of the result and one period: one real ciphertext, or a pair with the key of the rotation by the period.
Counts are those of the forecast; with `--counts yes` nothing is measured, and the null device makes the keys."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common
from heliograph import ckks


def rows_of(p: ckks.Parameters, levels: list[int], periods: list[int], seconds: float) -> Iterator[dict[str, Any]]:
    """Yields the rows; with 0 seconds they have counts only."""
    secret = hg.SecretKey.generate(p)
    keys = secret.evaluation_keys(bootstrap=True, rotations=[period for period in periods if 2 * period <= p.slots])
    server = hg.Server(keys)
    for level in levels:
        for period in [p.slots, *periods]:
            values = np.tile(np.random.default_rng(1).uniform(-1, 1, period), p.slots // period)
            for items in (1, 2):
                batch = np.broadcast_to(values, (items, p.slots))
                x = server.bind(secret.encrypt(batch, bound=1, level=p.bootstrapping_level))

                def call(x: Any = x, level: int = level, period: int = period) -> Any:
                    return hg.ckks.bootstrap(x, level=level, period=period)

                made = hg.forecast(call, x)
                row = {"case": f"l{level}-p{period}-x{items}", "products": made.products, "bytes_read": made.bytes_read}
                if seconds:
                    times = common.measure(lambda call=call: call().wait(), seconds)
                    row["median_s"] = statistics.median(times)
                yield row


def main() -> None:
    """Measures the cases and writes a row for each."""
    given = common.parser(
        __doc__,
        set=("n16-b13", "name of the parameter set"),
        levels=("17,6", "comma-separated levels of the results"),
        periods=("16384,8192,4096", "comma-separated periods"),
        counts="",
        seconds=3.0,
    ).parse_args()
    p = ckks.parameters(given.set)
    if given.counts:
        p = ckks.Parameters(p._core.on_device("null"))
    levels, periods = ([int(number) for number in text.split(",")] for text in (given.levels, given.periods))
    rows: list[dict[str, Any]] = []
    for row in rows_of(p, levels, periods, 0 if given.counts else given.seconds):
        rows.append(row)
        print(row, flush=True)
        machine = common.machine() | common.engine()
        results.save(given.out, common.report(rows, machine, kind="bootstrap-periods", set=given.set, load=common.load()))


if __name__ == "__main__":
    main()
