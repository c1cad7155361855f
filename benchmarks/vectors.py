"""Nearest neighbours of an encrypted vector: seconds of each stage, bytes up and down, and all scores compared with the clear ones.

    python benchmarks/vectors.py --rows 1000000 --dimension 384 --out benchmarks/results/mine-vectors.json
    python benchmarks/vectors.py --device cuda --out benchmarks/results/gpu-vectors.json

The vectors are drawn here, uniform bytes; scores are exact, so that what is nearest does not depend on them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import run as runner

import heliograph as hg

TOGETHER = 4  # vectors in one pass
BLOCK = 1 << 16  # rows that the clear scores are computed of at a time


def clear_scores(base: Any, vector: Any) -> Any:
    """By NumPy, in float64, which holds them exactly."""
    parts = [base[first : first + BLOCK].astype(np.float64) @ vector for first in range(0, len(base), BLOCK)]
    return np.concatenate(parts).astype(np.int64)


def timed(times: dict[str, list[float]], name: str, work: Callable[[], Any]) -> Any:
    """What it gives; its seconds are noted."""
    start = time.perf_counter()
    made = work()
    times.setdefault(name, []).append(time.perf_counter() - start)
    return made


def measure(rows: int, dimension: int, repeats: int) -> dict[str, Any]:
    """One index, asked some times, a new vector each time."""
    rng = np.random.default_rng(384)
    base = rng.integers(-128, 128, (rows, dimension), dtype=np.int8)
    times: dict[str, list[float]] = {}
    index = timed(times, "index", lambda: hg.query.Vectors(base))
    layout = hg.query.VectorLayout.from_bytes(index.layout.to_bytes())
    client = hg.query.VectorClient(layout)
    keys = timed(times, "keys", lambda: client.evaluation_keys().to_bytes())
    server = hg.Server(hg.EvaluationKeys.from_bytes(keys))
    for repeat in range(repeats + 1):  # the first is not counted: tables, memory, keys that go up
        vector = rng.integers(-128, 128, dimension, dtype=np.int8)
        question = timed(times, "encrypt", lambda v=vector: client.encrypt(v).to_bytes())
        query = timed(times, "read", lambda q=question: server.from_bytes(q))
        answer = timed(times, "scores", lambda q=query: index.scores(q))
        timed(times, "together", lambda q=query: index.scores_together([q] * TOGETHER))
        data = timed(times, "write", answer.to_bytes)
        scores = hg.query.Scores.from_bytes(data)
        found = timed(times, "nearest", lambda s=scores: client.nearest(s, k=10))
        if repeat == 0:
            times = {name: several for name, several in times.items() if name in ("index", "keys")}
    wanted = clear_scores(base, vector)
    if not np.array_equal(client.scores(scores), wanted) or not np.array_equal(found.scores, np.sort(wanted)[::-1][:10]):
        raise SystemExit("scores are not those of the clear vectors")
    return {
        **{"rows": rows, "dimension": dimension, "parameters": repr(layout.parameters)},
        **{"security": layout.parameters.security, "recall_at_10": 1.0, "together": TOGETHER},
        "seconds": {name: round(statistics.median(several), 5) for name, several in times.items()},
        "all": {name: [round(t, 5) for t in several] for name, several in times.items()},
        **{"key_bytes": len(keys), "question_bytes": len(question), "answer_bytes": len(data)},
        **{"prepared_bytes": index.nbytes, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024},
        "layout": layout.explain().splitlines(),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--device", help="cpu or cuda; what HELIOGRAPH_DEVICE says in any case")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.device:
        os.environ["HELIOGRAPH_DEVICE"] = given.device  # before it is opened
    found = {
        **{"what": "nearest neighbours of an encrypted vector", "when": datetime.now(UTC).isoformat(timespec="seconds")},
        **{"machine": runner.machine(), "engine": runner.engine(), "commit": runner.commit(), "load": runner.load()},
        "case": measure(given.rows, given.dimension, given.repeats),
    }
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
