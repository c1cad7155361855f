"""Measures TPC-H's query 6 on an encrypted table: seconds per stage, bytes, memory; compares the answer with the clear one.

    python -m benchmarks.runners.query --rows 1000000 --out benchmarks/results/mine-query.jsonl
    python -m benchmarks.runners.query --scheme tfhe --rows 64 --out benchmarks/results/mine-query-tfhe.jsonl

Rows are drawn with the ranges and distributions of TPC-H's lineitem (shipdate, discount, quantity, extendedprice), not by
TPC-H's own generator. The answer is compared with NumPy's. The owner encrypts the table into a file; the server loads this
file and answers from it, with the file in the system's cache.
"""

from __future__ import annotations

import json
import resource
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common

Q6 = """SELECT SUM(price * discount) AS revenue FROM lineitem
WHERE shipdate >= DATE '1994-01-01' AND shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
AND discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND quantity < 24"""


def lineitem(rows: int) -> dict[str, Any]:
    """Draws the table's four columns; money and discounts are in hundredths."""
    rng = np.random.default_rng(6)
    quantity = rng.integers(1, 51, rows)
    return {
        "shipdate": np.datetime64("1992-01-02") + rng.integers(0, 2526, rows),
        "discount": rng.integers(0, 11, rows),
        "quantity": quantity,
        "price": quantity * rng.integers(90_000, 209_900, rows),
    }


def expected(frame: dict[str, Any]) -> int:
    """Returns the expected answer, computed with NumPy, in ten-thousandths."""
    day, discount = frame["shipdate"], frame["discount"]
    chosen = (day >= np.datetime64("1994-01-01")) & (day < np.datetime64("1995-01-01"))
    chosen &= (discount >= 5) & (discount <= 7) & (frame["quantity"] < 24)
    return int((frame["price"] * discount)[chosen].sum())


def timed(stages: dict[str, float], name: str, work: Any) -> Any:
    """Runs a stage, records its seconds and returns its result."""
    seconds, _, made = common.timed(work)
    stages[name] = round(seconds, 4)
    return made


def _answered(server: Any) -> tuple[Any, bytes]:
    """Returns the answer and its bytes; serializing the answer waits for the computation."""
    answer = server.sql(Q6)
    return answer, answer.to_bytes()


def measure(rows: int, scheme: str, repeats: int, depth: int | None) -> dict[str, Any]:
    """Measures one table, with `repeats` answers to Q6."""
    frame, stages = lineitem(rows), dict[str, float]()
    shown = {**frame, "discount": frame["discount"] / 100, "price": frame["price"] / 100}
    columns = {name: hg.sql.Column("decimal", places=2) for name in ("discount", "price")}
    options: dict[str, Any] = {
        **{"filters": ["shipdate", "discount", "quantity"], "sums": ["price * discount"], "columns": columns},
        **{"scheme": scheme, "depth": depth},
    }
    layout = timed(stages, "layout", lambda: hg.sql.layout(shown, table="lineitem", **options))
    secret = timed(stages, "keys", lambda: hg.SecretKey.generate(layout.parameters))
    server = hg.sql.SqlServer(secret.evaluation_keys())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lineitem.hg"
        timed(stages, "encrypt", lambda: hg.sql.encrypt(secret, layout, shown, path=path))
        timed(stages, "load", lambda: server.load(path))
        plan = timed(stages, "plan", lambda: server.plan(Q6))
        size, times = path.stat().st_size, []
        for _ in range(repeats):
            took, _, (answer, data) = common.timed(lambda: _answered(server))
            times.append(took)
        result = timed(stages, "decrypt", lambda: hg.sql.Answer.from_bytes(data).decrypt(secret, sql=Q6))
    found = int((result.rows[0][0] or 0) * 10_000)
    if found != expected(frame):
        raise SystemExit(f"wrong answer: got {found}, expected {expected(frame)}")
    stages["answer"] = round(statistics.median(times), 4)
    return {
        **{"rows": rows, "scheme": scheme, "parameters": repr(layout.parameters), "security": layout.parameters.security},
        **{"seconds": stages, "answers": times, "file_bytes": size, "answer_bytes": len(data), "vectors": len(layout.parts)},
        **{"key_bytes": server.keys.nbytes, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024},
        **{
            "plan": plan.explain().splitlines(),
            "forecast": plan.seconds,
            "layout": layout.explain().splitlines(),
            "noise_budget": answer.noise_budget,
        },
    }


def main() -> None:
    """Parses the command line, prints and writes the results."""
    parser = common.parser(
        __doc__,
        rows=(int, "rows of the table; default: 1,000,000; for TFHE 64"),
        depth=(int, "sequential products, for BGV and BFV; fewer: a larger table with faster answers"),
        repeats=5,
    )
    parser.add_argument("--scheme", choices=("bgv", "bfv", "tfhe"), default="bgv")
    given = parser.parse_args()
    rows = given.rows or (64 if given.scheme == "tfhe" else 1_000_000)
    row = measure(rows, given.scheme, given.repeats, given.depth)
    print(json.dumps(row, indent=1))
    results.save(
        given.out, common.report([row], what="TPC-H Q6 on an encrypted table", engine=common.engine(), load=common.load())
    )


if __name__ == "__main__":
    main()
