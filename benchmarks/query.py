"""TPC-H's query 6 on an encrypted table: seconds of each stage, bytes, memory, and the answer compared with the clear one.

    python benchmarks/query.py --rows 1000000 --out benchmarks/results/mine-query.json
    python benchmarks/query.py --scheme tfhe --rows 64 --out benchmarks/results/mine-query-tfhe.json

The rows are drawn here with the ranges and distributions of TPC-H's lineitem (shipdate, discount, quantity, extendedprice), not by its own
generator; the answer is compared with NumPy's. The owner encrypts into a file, the server loads it and answers from it: its times are with
the file in the system's cache.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import run as runner

import heliograph as hg

Q6 = """SELECT SUM(price * discount) AS revenue FROM lineitem
WHERE shipdate >= DATE '1994-01-01' AND shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
AND discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND quantity < 24"""


def lineitem(rows: int) -> dict[str, Any]:
    """Four columns; money and discounts in hundredths."""
    rng = np.random.default_rng(6)
    quantity = rng.integers(1, 51, rows)
    return {
        "shipdate": np.datetime64("1992-01-02") + rng.integers(0, 2526, rows),
        "discount": rng.integers(0, 11, rows),
        "quantity": quantity,
        "price": quantity * rng.integers(90_000, 209_900, rows),
    }


def expected(frame: dict[str, Any]) -> int:
    """By NumPy, in ten-thousandths."""
    day, discount = frame["shipdate"], frame["discount"]
    chosen = (day >= np.datetime64("1994-01-01")) & (day < np.datetime64("1995-01-01"))
    chosen &= (discount >= 5) & (discount <= 7) & (frame["quantity"] < 24)
    return int((frame["price"] * discount)[chosen].sum())


def timed(stages: dict[str, float], name: str, work: Any) -> Any:
    """What it gives; its seconds are noted."""
    start = time.perf_counter()
    made = work()
    stages[name] = round(time.perf_counter() - start, 4)
    return made


def measure(rows: int, scheme: str, repeats: int, depth: int | None) -> dict[str, Any]:
    """One table, and Q6 asked some times."""
    frame, stages = lineitem(rows), dict[str, float]()
    shown = {**frame, "discount": frame["discount"] / 100, "price": frame["price"] / 100}
    columns = {name: hg.query.Column("decimal", places=2) for name in ("discount", "price")}
    options: dict[str, Any] = {
        **{"filters": ["shipdate", "discount", "quantity"], "sums": ["price * discount"], "columns": columns},
        **{"scheme": scheme, "depth": depth},
    }
    layout = timed(stages, "layout", lambda: hg.query.layout(shown, table="lineitem", **options))
    secret = timed(stages, "keys", lambda: hg.SecretKey.generate(layout.parameters))
    server = hg.query.SqlServer(secret.evaluation_keys())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lineitem.hg"
        timed(stages, "encrypt", lambda: hg.query.encrypt(secret, layout, shown, path=path))
        timed(stages, "load", lambda: server.load(path))
        plan = timed(stages, "plan", lambda: server.plan(Q6))
        size, times = path.stat().st_size, []
        for _ in range(repeats):
            start = time.perf_counter()
            answer = server.sql(Q6)
            data = answer.to_bytes()  # waits until it is computed
            times.append(time.perf_counter() - start)
        result = timed(stages, "decrypt", lambda: hg.query.Answer.from_bytes(data).decrypt(secret, sql=Q6))
    found = int((result.rows[0][0] or 0) * 10_000)
    if found != expected(frame):
        raise SystemExit(f"the answer is {found}, and should be {expected(frame)}")
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
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, help="1,000,000; of TFHE 64, which take longer")
    parser.add_argument("--scheme", choices=("bgv", "bfv", "tfhe"), default="bgv")
    parser.add_argument(
        "--depth", type=int, help="products in a row, of BGV and BFV; less: a larger table that answers sooner"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = given.rows or (64 if given.scheme == "tfhe" else 1_000_000)
    found = {
        **{"what": "TPC-H Q6 on an encrypted table", "when": datetime.now(UTC).isoformat(timespec="seconds")},
        **{"machine": runner.machine(), "engine": runner.engine(), "commit": runner.commit(), "load": runner.load()},
        "case": measure(rows, given.scheme, given.repeats, given.depth),
    }
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
