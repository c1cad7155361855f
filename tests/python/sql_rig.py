"""Encrypted tables and their servers, the results of DuckDB on the clear tables, and comparisons of rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

import heliograph as hg

Rows = list[tuple[Any, ...]]


def served(layout: Any, data: Any) -> tuple[Any, Any, Any]:
    """Returns the secret key, a table and the table's server; the table and the keys have been serialized."""
    secret = hg.SecretKey.generate(layout.parameters)
    table = hg.sql.EncryptedTable.from_bytes(hg.sql.encrypt(secret, layout, data).to_bytes())
    server = hg.sql.SqlServer(hg.EvaluationKeys.from_bytes(secret.evaluation_keys().to_bytes()))
    server.add(table)
    return secret, table, server


def by_duckdb(table: Any, sql: str) -> Rows:
    """Runs a query by DuckDB on a clear table, named t."""
    connection = pytest.importorskip("duckdb").connect()
    connection.register("t", table)
    found: Rows = connection.execute(sql).fetchall()
    return found


def same(ours: Rows, theirs: Rows, keys: int = 0) -> bool:
    """Compares rows; groups, whose keys are the first values, may be in any order, and averages are compared as floats."""

    def order(row: tuple[Any, ...]) -> list[str]:
        return [str(v) for v in row[:keys]]

    def close(a: Any, b: Any) -> bool:
        averages = isinstance(b, float) and a is not None
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12) if averages else bool(a == b)

    pairs = zip(sorted(ours, key=order), sorted(theirs, key=order), strict=True)
    return len(ours) == len(theirs) and all(close(a, b) for pair in pairs for a, b in zip(*pair, strict=True))
