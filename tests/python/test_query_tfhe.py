"""Whole queries on encrypted integers: what SQLite and DuckDB give on the clear table. By a small set, below any security."""

from __future__ import annotations

import datetime
import math
import random
import sqlite3
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import tfhe_rig

pytest.importorskip("sqlglot")

ROWS = 37
FIRST = datetime.date(1994, 1, 1)


@cache
def columns() -> dict[str, list[Any]]:
    """Every kind of column but decimals, as SQLite has them: days are texts there, truth values 0 and 1."""
    rng = random.Random(7)
    shipped = [rng.randrange(100) for _ in range(ROWS)]
    return {
        "shipped": shipped,
        "received": [None if rng.random() < 0.15 else day + rng.randrange(-10, 25) for day in shipped],
        "price": [rng.randrange(1, 400) for _ in range(ROWS)],
        "change": [None if rng.random() < 0.2 else rng.randrange(-30, 31) for _ in range(ROWS)],
        "quantity": [rng.randrange(0, 12) for _ in range(ROWS)],
        "origin": [rng.choice(["AIR", "MAIL", "SHIP"]) for _ in range(ROWS)],
        "target": [None if rng.random() < 0.15 else rng.choice(["MAIL", "RAIL", "SHIP", "TRUCK"]) for _ in range(ROWS)],
        "paid": [rng.random() < 0.5 for _ in range(ROWS)],
    }


def days(values: list[Any]) -> list[Any]:
    """Numbers of days as days."""
    return [None if v is None else FIRST + datetime.timedelta(days=v) for v in values]


@cache
def frame() -> dict[str, Any]:
    """As Python has them."""
    return {name: days(v) if name in ("shipped", "received") else v for name, v in columns().items()}


@cache
def owner() -> tuple[Any, Any, Any]:
    """Key, table, server. Tables and keys travel as bytes."""
    layout = hg.query.layout(frame(), scheme="tfhe", parameters=tfhe_rig.parameters("digits"))
    secret = hg.SecretKey.generate(layout.parameters)
    table = hg.query.EncryptedTable.from_bytes(hg.query.encrypt(secret, layout, frame()).to_bytes())
    server = hg.query.SqlServer(hg.EvaluationKeys.from_bytes(secret.evaluation_keys().to_bytes()))
    server.add(table)
    return secret, table, server


@cache
def sqlite() -> sqlite3.Connection:
    """The clear table there."""
    found = sqlite3.connect(":memory:")
    names = list(frame())
    found.execute(f"CREATE TABLE t ({', '.join(names)})")
    rows = zip(*([None if v is None else str(v) if isinstance(v, datetime.date) else v for v in frame()[n]] for n in names))
    found.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows)
    return found


def clear(sql: str) -> list[tuple[Any, ...]]:
    """By SQLite, which compares days as texts."""
    return sqlite().execute(sql.replace("DATE '", "'")).fetchall()


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Values as SQLite has them, in an order."""
    shown = [tuple(str(v) if isinstance(v, datetime.date) else int(v) if isinstance(v, bool) else v for v in r) for r in rows]
    return sorted(shown, key=lambda row: [str(v) for v in row[:2]])


def same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    """In any order; averages as floats."""
    left, right = plain(ours), plain(theirs)
    return len(left) == len(right) and all(
        math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and b is not None else a == b
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one, other, strict=True)
    )


QUERIES = (
    "SELECT COUNT(*), COUNT(received), MIN(received), MAX(shipped) FROM t WHERE shipped < received",
    "SELECT SUM(price * quantity), AVG(change), MIN(change), MAX(change) FROM t WHERE quantity >= 3 AND NOT origin = target",
    "SELECT SUM(price * (10 - quantity)), SUM(change * change) FROM t WHERE price < change * 20 OR quantity = change + 3",
    "SELECT origin, COUNT(*), MAX(price), MIN(target), SUM(change) FROM t WHERE price * quantity > 300 GROUP BY origin",
    "SELECT target, paid, COUNT(*), MIN(price) FROM t WHERE quantity BETWEEN 1 AND change GROUP BY target, paid",
    "SELECT COUNT(*), SUM(price), MIN(price), MAX(origin), AVG(price) FROM t WHERE price > 1000",
    "SELECT COUNT(*), SUM(change), MAX(paid), MIN(price) FROM t",
    "SELECT COUNT(*) FROM t WHERE NOT (quantity IN (1, change, 7) OR target IS NULL) AND origin < target",
    "SELECT COUNT(*), MIN(shipped) FROM t WHERE NOT shipped > received AND shipped >= DATE '1994-01-20' AND origin IN ('AIR', 'SHIP')",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_as_sqlite(sql: str) -> None:
    """Exactly; answers travel as bytes."""
    secret, _, server = owner()
    answer = hg.query.Answer.from_bytes(server.sql(sql).to_bytes())
    assert same(answer.decrypt(secret, sql=sql).rows, clear(sql)), (answer.decrypt(secret).rows, clear(sql))


def condition(rng: random.Random, depth: int = 2) -> str:
    """A random one."""
    if depth and rng.random() < 0.6:
        if rng.random() < 0.25:
            return f"NOT ({condition(rng, depth - 1)})"
        return f"({condition(rng, depth - 1)} {rng.choice(['AND', 'OR'])} {condition(rng, depth - 1)})"
    sign = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    return rng.choice(
        [
            f"change + {rng.randrange(20)} {sign} quantity * {rng.randrange(1, 4)}",
            f"price - change {sign} {rng.randrange(-40, 420)}",
            f"{rng.randrange(9)} {sign} quantity - change",
            f"shipped {sign} received",
            f"origin {sign} target",
            f"target {sign} 'RAIL'",
            f"change NOT BETWEEN quantity AND {rng.randrange(25)}",
            f"quantity IN ({rng.randrange(12)}, {rng.randrange(12)}, {rng.randrange(12)})",
            f"price {sign} {rng.randrange(-10, 410)}",
            rng.choice(["received IS NULL", "change IS NOT NULL", "paid", "paid = (quantity > 3)"[:4]]),
        ]
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_queries(seed: int) -> None:
    """As SQLite's."""
    rng = random.Random(seed)
    secret, _, server = owner()
    head, tail = ("paid, ", " GROUP BY paid") if seed % 3 == 0 else ("", "")
    column = rng.choice(["price", "change", "received", "target"])
    sql = f"SELECT {head}COUNT(*), SUM(change), MIN({column}), MAX({column}) FROM t WHERE {condition(rng)}{tail}"
    assert same(server.sql(sql).decrypt(secret).rows, clear(sql)), sql
