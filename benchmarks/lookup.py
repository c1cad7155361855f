"""Private look-up in a table in clear: seconds of each stage, bytes up and down, batches, and the machine's copy rate beside them.

    HELIOGRAPH_THREADS=1 taskset -c 1 python benchmarks/lookup.py --out benchmarks/results/mine-lookup.json
    python benchmarks/lookup.py --device cuda --gigabytes 8 --batch 1 32 256 --out benchmarks/results/mine-lookup.json

Rows are random bytes. `answer` is from the question's bytes to the answer's; `engine` leaves out the files' digests and copies around it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np


def median_of(work: Callable[[], Any], repeats: int) -> float:
    """Seconds, after one call that warms."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(statistics.median(times), 6)


def rate_of_two(work: Callable[[], Any], repeats: int, questions: int) -> float:
    """Questions a second where two threads ask at once: the host's part of one goes on beside the device's of the other."""
    with ThreadPoolExecutor(2) as threads:
        start = time.perf_counter()
        for call in [threads.submit(work) for _ in range(2 * repeats)]:
            call.result()
        return round(2 * repeats * questions / (time.perf_counter() - start), 1)


def copy_rate() -> float:
    """Bytes a second read and written by a copy of 1 GiB in this process."""
    a = np.ones(1 << 27)
    b = np.zeros_like(a)
    return 2 * a.nbytes / median_of(lambda: np.copyto(b, a), 5)


def measure(size: int, width: int, repeats: int, batches: list[int]) -> dict[str, Any]:
    """One table of rows of bytes, asked by number."""
    import heliograph as hg

    rng = np.random.default_rng(7)
    count = size // width
    rows = np.frombuffer(rng.bytes(count * width), np.uint8).reshape(count, width)
    start = time.perf_counter()
    db = hg.query.Database(rows)
    seconds: dict[str, Any] = {"prepare": round(time.perf_counter() - start, 3)}
    client = db.client()
    number = count // 3
    question = client.ask(number)
    sent = question.to_bytes()
    answer = db.answer(sent)
    if question.read(answer) != rows[number].tobytes():
        raise SystemExit("the answer is not the row that was asked for")
    core, table = question._asked[0], db._table
    seconds["ask"] = median_of(lambda: client.ask(number).to_bytes(), repeats)
    seconds["answer"] = median_of(lambda: db.answer(sent), repeats)
    seconds["engine"] = median_of(lambda: table.answer(core.words, core.keys), repeats)
    seconds["read"] = median_of(lambda: question.read(answer), repeats)
    start = time.perf_counter()
    db.update(rows[:1] ^ 255, rows=[number])
    seconds["update"] = round(time.perf_counter() - start, 4)
    found = []
    for batch in batches:
        asked = [client.ask(int(i))._asked[0] for i in rng.integers(0, count, batch)]
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
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--gigabytes", type=float, default=1, help="of 2^30 bytes")
    parser.add_argument("--row-bytes", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--device", help="as HELIOGRAPH_DEVICE")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.device:
        os.environ["HELIOGRAPH_DEVICE"] = given.device
    import run as runner

    found = {
        **{"what": "private look-up in a table in clear", "when": datetime.now(UTC).isoformat(timespec="seconds")},
        **{"machine": runner.machine(), "engine": runner.engine(), "commit": runner.commit(), "load": runner.load()},
        "cores": len(os.sched_getaffinity(0)),
        "case": measure(int(given.gigabytes * 2**30), given.row_bytes, given.repeats, given.batch),
    }
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
