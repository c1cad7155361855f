"""Compares random queries on encrypted tables with DuckDB on the clear table, and counts silent disagreements.

    python -m benchmarks.runners.query_agreement --queries 2000 --out benchmarks/results/mine-query-agreement.jsonl

Tables have NULLs in any column, masked arrays, data frames of pandas and Arrow, numbers whose sums exceed 64 bits, and columns that are
NULL throughout. Queries have sums in which columns cancel (`x + y - x`, `x * 0`), in SELECT and in WHERE. Refused queries
(`hg.sql.SqlError`) are counted separately; the run goes on until the requested number of answers. BGV uses secure sets. TFHE
uses a small insecure set, which gives the same results.
"""

from __future__ import annotations

import datetime
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common

FIRST = datetime.date(2020, 1, 1)
NUMBERS = ("x", "y", "z", "d")
TEXTS = ["AIR", "MAIL", "SHIP"]
A_TABLE = 25  # number of queries per table
SIGNS = ("=", "<>", "<", "<=", ">", ">=")
Columns = dict[str, list[Any]]


def drawn(rng: random.Random, tfhe: bool) -> Columns:
    """Draws a table's values, None for NULL."""
    rows = rng.randrange(1, 13 if tfhe else 60)
    large = 2**31 - 1 if rng.random() < 0.5 else 40

    def column(value: Callable[[], Any]) -> list[Any]:
        share = rng.choice([0, 0.1, 0.3, 0.3, 1 if rng.random() < 0.1 else 0.5])
        return [None if rng.random() < share else value() for _ in range(rows)]

    found: Columns = {
        "x": column(lambda: rng.randrange(-9, 21)),
        "y": column(lambda: rng.choice([-large, large, rng.randrange(-large, large + 1)])),
        "z": column(lambda: large - rng.randrange(3)),
        "d": column(lambda: Decimal(rng.randrange(-50, 400)).scaleb(-2)),
        "day": column(lambda: FIRST + datetime.timedelta(days=rng.randrange(40))),
        "mode": column(lambda: rng.choice(TEXTS)),
        "paid": column(lambda: rng.random() < 0.5),
    }
    for values in found.values():  # a column without any known value has no type
        if all(value is None for value in values) and rows > 1:
            values[rng.randrange(rows)] = None
    return found


ARROW = {
    **{"x": pa.int64(), "y": pa.int64(), "z": pa.int64(), "d": pa.decimal128(6, 2)},
    **{"day": pa.date32(), "mode": pa.string(), "paid": pa.bool_()},
}
KINDS = {
    **{"x": ("int", 0), "y": ("int", 0), "z": ("int", 0), "d": ("decimal", 2)},
    **{"day": ("date", 0), "mode": ("text", 0), "paid": ("bool", 0)},
}


def masked(name: str, values: list[Any]) -> Any:
    """Returns a column as a masked array. Masked values are valid numbers, so that an ignored mask changes the result."""
    known = [value for value in values if value is not None]
    fill = known[0] if known else {"day": FIRST, "mode": "AIR", "paid": True, "d": Decimal(1)}.get(name, 7)
    dtype = {"day": "M8[D]", "d": object, "mode": object, "paid": bool}.get(name, np.int64)
    whole = np.array([fill if value is None else value for value in values], dtype=dtype)
    return np.ma.array(whole, mask=[value is None for value in values])


def shown(rng: random.Random, table: Columns) -> tuple[str, Any]:
    """Returns the table in a random one of the supported forms."""
    form = rng.choice(["lists", "masked", "arrow", "pandas", "mixed"])
    arrow = {name: pa.array(values, ARROW[name]) for name, values in table.items()}
    if form == "lists":
        return form, table
    if form == "masked":
        return form, {name: masked(name, values) for name, values in table.items()}
    if form == "arrow":
        return form, pa.table(arrow)
    if form == "pandas":
        frame = {name: pd.array(v, dtype="Int64") if name in ("x", "y", "z") else v for name, v in table.items()}
        return form, pd.DataFrame(
            {name: pd.Series(v, dtype=None if name in ("x", "y", "z") else object) for name, v in frame.items()}
        )
    ways: list[Callable[[str], Any]] = [lambda n: table[n], lambda n: masked(n, table[n]), lambda n: arrow[n]]
    return form, {name: rng.choice(ways)(name) for name in table}


# Queries


def expression(rng: random.Random, depth: int = 2) -> str:
    """Draws a polynomial of degree at most two, in which columns often cancel."""
    a, b = rng.choice(NUMBERS), rng.choice(NUMBERS)
    way = rng.randrange(10) if depth else 0
    if way < 3:
        return a
    if way == 3:
        return rng.choice([f"{a} * {b}", "z * z", "y * z"])
    if way == 4:
        return f"({expression(rng, depth - 1)} {rng.choice('+-')} {rng.choice([str(rng.randrange(9)), '0.5', b])})"
    return rng.choice(
        [
            f"({expression(rng, depth - 1)} + {a} - {a})",
            f"({a} * {b} - {b} * {a} + {rng.choice(NUMBERS)})",
            f"({a} * 0 + {b})",
            f"({a} - {a} + {rng.randrange(4)})",
            f"({expression(rng, depth - 1)} + 0 * ({a} - {b}))",
            f"(2 * {a} - ({a} + {a}))",
            f"({a} - {a})",
        ]
    )


def comparison(rng: random.Random, tfhe: bool) -> str:
    """Draws a random condition."""
    sign, other = rng.choice(SIGNS), rng.choice(["x", "d"])
    known = [
        f"x {sign} {rng.randrange(-12, 24)}",
        f"2 * x - x {sign} {rng.randrange(-12, 24)}",
        f"x - x {sign} 0",
        f"x * 0 {sign} {rng.choice(['0', '1', '-0.5'])}",
        f"d {sign} {Decimal(rng.randrange(-60, 420)).scaleb(-2)}",
        f"x BETWEEN {rng.randrange(-12, 8)} AND {rng.randrange(0, 24)}",
        f"mode {sign} '{rng.choice([*TEXTS, 'RAIL'])}'",
        f"mode IN ('AIR', '{rng.choice(TEXTS)}')",
        f"day {sign} DATE '{FIRST + datetime.timedelta(days=rng.randrange(-3, 45))}'",
        f"{rng.choice(['x', 'd', 'mode', 'day', 'paid'])} IS {rng.choice(['', 'NOT '])}NULL",
        rng.choice(["paid", "NOT paid"]),
    ]
    across = [
        f"x {sign} d",
        f"x + {other} - {other} {sign} 5",
        f"d * 2 {sign} x - 1",
        f"x - x + d {sign} 1",
        f"d - x {sign} x * 0",
    ]
    return rng.choice(known + across * 2 if tfhe else known)


def condition(rng: random.Random, tfhe: bool, depth: int = 2) -> str:
    """Draws a random combination of conditions."""
    way = rng.random() if depth else 1
    if way < 0.2:
        return f"NOT ({condition(rng, tfhe, depth - 1)})"
    if way < 0.5:
        return f"({condition(rng, tfhe, depth - 1)} {rng.choice(['AND', 'OR'])} {condition(rng, tfhe, depth - 1)})"
    return comparison(rng, tfhe)


def query(rng: random.Random, tfhe: bool) -> str:
    """Draws a random SELECT statement."""
    items = [
        rng.choice(
            [f"SUM({expression(rng)})"] * 4
            + [f"AVG({expression(rng)})"] * 2
            + ["COUNT(*)", f"COUNT({rng.choice(['x', 'd', 'paid'])})"]
            + [f"{rng.choice(['MIN', 'MAX'])}({rng.choice(['x', 'd', 'day', 'mode'])})"] * (2 if tfhe else 0)
        )
        for _ in range(rng.randrange(1, 4))
    ]
    groups = rng.choice([[], [], ["paid"], ["mode"]])
    text = f"SELECT {', '.join(groups + items)} FROM t"
    if rng.random() < 0.6:
        text += f" WHERE {condition(rng, tfhe)}"
    return text + (f" GROUP BY {', '.join(groups)}" if groups else "")


# Answers of Heliograph and of DuckDB


def equal(ours: Any, theirs: Any) -> bool:
    """Compares two values. Averages are floats: DuckDB's are quotients of rounded sums, Heliograph's have one rounding."""
    if isinstance(theirs, float) and ours is not None:
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9 * (1 + abs(theirs)))
    return type(ours) is type(theirs) and ours == theirs if theirs is None or isinstance(theirs, bool) else ours == theirs


def same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    """Compares rows, in any order of the groups."""
    left, right = (sorted(rows, key=lambda row: str(row[0])) for rows in (ours, theirs))
    return len(left) == len(right) and all(
        len(a) == len(b) and all(equal(v, w) for v, w in zip(a, b, strict=True)) for a, b in zip(left, right, strict=True)
    )


def average(rows: list[tuple[Any, ...]], text: str, theirs: Any) -> list[tuple[Any, ...]]:
    """Returns DuckDB's rows with averages from its own exact sums and counts, because its AVG of large integers uses floats."""
    heads = text[len("SELECT ") : text.index(" FROM ")]
    if "AVG(" not in heads:
        return rows
    exact = theirs.execute(text.replace("AVG(", "SUM(")).fetchall()
    inner = _items(heads)
    counted = ", ".join(f"COUNT({piece[4:-1]})" if piece.startswith("AVG(") else piece for piece in inner)
    counts = theirs.execute(f"SELECT {counted}{text[text.index(' FROM ') :]}").fetchall()
    key = lambda row: str(row[0])  # noqa: E731  groups come first
    if "GROUP BY" in text:
        rows, exact, counts = (sorted(some, key=key) for some in (rows, exact, counts))
    made = []
    for row, total, count in zip(rows, exact, counts, strict=True):
        made.append(
            tuple(
                v if not piece.startswith("AVG(") or v is None else float(Fraction(total[at]) / count[at])
                for at, (piece, v) in enumerate(zip(inner, row, strict=True))
            )
        )
    return made


def _items(heads: str) -> list[str]:
    """Returns a SELECT list's items. Commas inside parentheses do not separate items."""
    found, depth = [""], 0
    for letter in heads:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def small() -> Any:
    """Returns a small insecure parameter set of TFHE."""
    noise: dict[str, Any] = {"lwe_noise": ("gaussian", -22), "glwe_noise": ("gaussian", -40)}
    sizes: dict[str, Any] = {"degree": 1024, "message_bits": 2, "carry_bits": 2, "norm": 17}
    return hg.tfhe.parameters(n=32, k=1, bootstrap=(18, 1), switch=(4, 4), group=2, **noise, **sizes, insecure=True)


def owner(frame: Any, tfhe: bool) -> tuple[Any, Any]:
    """Returns key and server of an encrypted table."""
    columns = {
        name: hg.sql.Column(kind, places=places)
        for name, (kind, places) in KINDS.items()
        if kind in ("int", "decimal", "date")
    }
    columns |= {"mode": hg.sql.Column("text", values=TEXTS), "paid": hg.sql.Column("bool")}
    if tfhe:
        layout = hg.sql.layout(frame, scheme="tfhe", parameters=small(), columns=columns)
    else:
        sums = [*NUMBERS, *(f"{a} * {b}" for at, a in enumerate(NUMBERS) for b in NUMBERS[at:])]
        filters = ["x", "d", "day", "mode", "paid"]
        layout = hg.sql.layout(frame, filters=filters, sums=sums, columns=columns, depth=5, scheme="bgv")
    secret = hg.SecretKey.generate(layout.parameters)
    server = hg.sql.SqlServer(secret.evaluation_keys())
    server.add(hg.sql.encrypt(secret, layout, frame))
    return secret, server


def compare(seed: int, wanted: int, tfhe: bool, agreement: dict[str, Any]) -> None:
    """Compares random queries with one scheme with DuckDB until `wanted` of them are answered."""
    rng, counts = random.Random(f"{seed}:{tfhe}"), Counter[str]()
    start = time.perf_counter()
    while counts["answered"] < wanted:
        table = drawn(rng, tfhe)
        form, frame = shown(rng, table)
        connection = duckdb.connect()
        connection.register("t", pa.table({name: pa.array(values, ARROW[name]) for name, values in table.items()}))
        secret, server = owner(frame, tfhe)
        counts["tables"] += 1
        counts[f"tables of {form}"] += 1
        for _ in range(A_TABLE):
            text = query(rng, tfhe)
            try:
                answer = server.sql(text)
            except hg.sql.SqlError as error:
                counts["refused"] += 1
                counts[f"refused: {error.construct if error.construct in ('WHERE', 'GROUP BY') else 'other'}"] += 1
                continue
            ours = answer.decrypt(secret).rows
            theirs = average(connection.execute(text).fetchall(), text, connection)
            counts["answered"] += 1
            counts["with sums beyond 64 bits"] += any(isinstance(v, int) and abs(v) >= 1 << 63 for row in ours for v in row)
            counts["with NULL in the result"] += any(v is None for row in ours for v in row)
            counts["grouped"] += "GROUP BY" in text
            counts["with WHERE"] += "WHERE" in text
            if not same(ours, theirs):
                agreement["disagreements"].append(
                    {"sql": text, "form": form, "ours": repr(ours), "duckdb": repr(theirs), "table": repr(table)}
                )
            if counts["answered"] == wanted:
                break
    agreement["tfhe" if tfhe else "bgv"] = {**dict(counts), "seconds": round(time.perf_counter() - start, 1)}


def measure(seed: int, queries: int) -> dict[str, Any]:
    """Compares a tenth of the queries with TFHE, all other queries with BGV."""
    agreement: dict[str, Any] = {"seed": seed, "queries": queries, "duckdb": duckdb.__version__, "disagreements": []}
    by_tfhe = max(1, queries // 10)
    compare(seed, queries - by_tfhe, False, agreement)
    compare(seed, by_tfhe, True, agreement)
    return agreement


def main() -> None:
    """Parses the command line, prints and writes the results."""
    given = common.parser(__doc__, queries=(2000, "number of answers to compare"), seed=1).parse_args()
    row = measure(given.seed, given.queries)
    print(json.dumps(row, indent=1))
    what = "queries on encrypted tables against DuckDB"
    results.save(given.out, common.report([row], what=what, engine=common.engine(), load=common.load()))
    if row["disagreements"]:
        raise SystemExit(f"{len(row['disagreements'])} answers differ from DuckDB's")


if __name__ == "__main__":
    main()
