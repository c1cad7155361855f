"""Measures nearest neighbours of an encrypted vector: seconds per stage, bytes up and down; compares all scores with the clear ones.

    python -m benchmarks.runners.vectors --rows 1000000 --dimension 384 --out benchmarks/results/mine-vectors.jsonl
    python -m benchmarks.runners.vectors --device cuda --out benchmarks/results/gpu-vectors.jsonl

Vectors are uniform random bytes. Scores are exact, so the times and the ranking do not depend on the data.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common

TOGETHER = 4  # number of query vectors per pass
BLOCK = 1 << 16  # number of rows per step of the clear computation


def clear_scores(base: Any, vector: Any) -> Any:
    """Computes scores with NumPy, in float64, which represents them exactly."""
    parts = [base[first : first + BLOCK].astype(np.float64) @ vector for first in range(0, len(base), BLOCK)]
    return np.concatenate(parts).astype(np.int64)


def timed(times: dict[str, list[float]], name: str, work: Callable[[], Any]) -> Any:
    """Runs a stage, records its seconds and returns its result."""
    seconds, _, made = common.timed(work)
    times.setdefault(name, []).append(seconds)
    return made


def measure(rows: int, dimension: int, repeats: int) -> dict[str, Any]:
    """Measures one index with several queries, a new vector each time."""
    rng = np.random.default_rng(384)
    base = rng.integers(-128, 128, (rows, dimension), dtype=np.int8)
    times: dict[str, list[float]] = {}
    index = timed(times, "index", lambda: hg.knn.Vectors(base))
    layout = hg.knn.VectorLayout.from_bytes(index.layout.to_bytes())
    client = hg.knn.VectorClient(layout)
    keys = timed(times, "keys", lambda: client.evaluation_keys().to_bytes())
    server = hg.Server(hg.EvaluationKeys.from_bytes(keys))
    for repeat in range(repeats + 1):  # the first is a warm-up: tables, memory, upload of keys
        vector = rng.integers(-128, 128, dimension, dtype=np.int8)
        question = timed(times, "encrypt", lambda v=vector: client.encrypt(v).to_bytes())
        query = timed(times, "read", lambda q=question: server.from_bytes(q))
        answer = timed(times, "scores", lambda q=query: index.scores(q))
        timed(times, "together", lambda q=query: index.scores_together([q] * TOGETHER))
        data = timed(times, "write", answer.to_bytes)
        scores = hg.knn.Scores.from_bytes(data)
        found = timed(times, "nearest", lambda s=scores: client.nearest(s, k=10))
        if repeat == 0:
            times = {name: several for name, several in times.items() if name in ("index", "keys")}
    wanted = clear_scores(base, vector)
    if not np.array_equal(client.scores(scores), wanted) or not np.array_equal(found.scores, np.sort(wanted)[::-1][:10]):
        raise SystemExit("the scores differ from those of the clear vectors")
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
    """Parses the command line, prints and writes the results."""
    given = common.parser(__doc__, rows=1_000_000, dimension=384, repeats=7, device=str).parse_args()
    if given.device:
        os.environ["HELIOGRAPH_DEVICE"] = given.device  # set before the engine opens its device
    row = measure(given.rows, given.dimension, given.repeats)
    print(json.dumps(row, indent=1))
    results.save(
        given.out,
        common.report([row], what="nearest neighbours of an encrypted vector", engine=common.engine(), load=common.load()),
    )


if __name__ == "__main__":
    main()
