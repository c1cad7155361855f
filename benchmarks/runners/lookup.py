"""Measures private look-up in a table in clear: seconds per stage, bytes up and down, batches, and the machine's copy rate.

    HELIOGRAPH_THREADS=1 taskset -c 1 python -m benchmarks.runners.lookup --out benchmarks/results/mine-lookup.jsonl
    python -m benchmarks.runners.lookup --device cuda --gigabytes 8 --batch 1 32 256 --out benchmarks/results/mine-lookup.jsonl

Rows are random bytes. `answer` is the time from the question's bytes to the answer's; `engine` excludes the digests and copies of files.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.report import results
from benchmarks.runners import common


def median_of(work: Callable[[], Any], repeats: int) -> float:
    """Returns the median seconds, after one warm-up call."""
    return round(statistics.median(common.times_of(work, 0, at_least=repeats, warm_up=1)[0]), 6)


def rate_of_two(work: Callable[[], Any], repeats: int, questions: int) -> float:
    """Returns the queries per second of two threads; the host's work on one query overlaps the device's work on another."""
    with ThreadPoolExecutor(2) as threads:
        start = time.perf_counter()
        for call in [threads.submit(work) for _ in range(2 * repeats)]:
            call.result()
        return round(2 * repeats * questions / (time.perf_counter() - start), 1)


def copy_rate() -> float:
    """Returns the bytes per second, reads plus writes, of a copy of 1 GiB in this process."""
    a = np.ones(1 << 27)
    b = np.zeros_like(a)
    return 2 * a.nbytes / median_of(lambda: np.copyto(b, a), 5)


def measure(size: int, width: int, repeats: int, batches: list[int]) -> dict[str, Any]:
    """Measures one table of rows of bytes, queried by number."""
    import heliograph as hg

    rng = np.random.default_rng(7)
    count = size // width
    rows = np.frombuffer(rng.bytes(count * width), np.uint8).reshape(count, width)
    start = time.perf_counter()
    db = hg.pir.Database(rows)
    seconds: dict[str, Any] = {"prepare": round(time.perf_counter() - start, 3)}
    client = db.client()
    number = count // 3
    question = client.ask(number)
    sent = question.to_bytes()
    answer = db.answer(sent)
    if question.read(answer) != rows[number].tobytes():
        raise SystemExit("the answer is not the requested row")
    core, table = question._queries[0], db._table
    seconds["ask"] = median_of(lambda: client.ask(number).to_bytes(), repeats)
    seconds["answer"] = median_of(lambda: db.answer(sent), repeats)
    seconds["engine"] = median_of(lambda: table.answer(core.words, core.keys), repeats)
    seconds["read"] = median_of(lambda: question.read(answer), repeats)
    start = time.perf_counter()
    db.update(rows[:1] ^ 255, rows=[number])
    seconds["update"] = round(time.perf_counter() - start, 4)
    found = []
    for batch in batches:
        asked = [client.ask(int(i))._queries[0] for i in rng.integers(0, count, batch)]
        words, keys = np.concatenate([q.words for q in asked]), np.concatenate([q.keys for q in asked])
        again = max(3, repeats // 4)
        row = {"questions": batch, "seconds": median_of(lambda words=words, keys=keys: table.answer(words, keys), again)}  # type: ignore[misc]
        if batch == max(batches) > 1:
            row["two_callers_per_second"] = rate_of_two(
                lambda words=words, keys=keys: table.answer(words, keys), again, batch
            )  # type: ignore[misc]
        found.append(row)
    return {
        **{"bytes": count * width, "rows": count, "row_bytes": width, "seconds": seconds, "batches": found},
        **{"up_bytes": len(sent), "down_bytes": len(answer), "matrix": [db._shape.rows, db._shape.columns]},
        **{"device_bytes": table.bytes, "log2_failure": db.log2_failure, "copy_bytes_per_second": copy_rate()},
    }


def main() -> None:
    """Parses the command line, prints and writes the results."""
    parser = common.parser(__doc__, gigabytes=(1.0, "size of the table in GiB"), row_bytes=256, repeats=15, device=str)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 4, 16])
    given = parser.parse_args()
    if given.device:
        os.environ["HELIOGRAPH_DEVICE"] = given.device
    row = measure(int(given.gigabytes * 2**30), given.row_bytes, given.repeats, given.batch)
    print(json.dumps(row, indent=1))
    what, cores = "private look-up in a table in clear", len(os.sched_getaffinity(0))
    results.save(given.out, common.report([row], what=what, engine=common.engine(), load=common.load(), cores=cores))


if __name__ == "__main__":
    main()
