"""On random encrypted tables, queries give the results of DuckDB and pandas on the clear tables."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heliograph as hg
import tfhe_rig
from sql_rig import by_duckdb, same, served

pytest.importorskip("sqlglot")
duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

FIRST = datetime.date(1998, 8, 1)


def asked(table: Any, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    """Answers a query by an encrypted table; keys, table and answer are serialized in between."""
    layout = hg.sql.layout(table, **options)
    secret, _, server = served(layout, table)
    rows: list[tuple[Any, ...]] = hg.sql.Answer.from_bytes(server.sql(sql).to_bytes()).decrypt(secret, sql=sql).rows
    return rows


@cache
def lineitem() -> Any:
    """Returns a table like TPC-H's lineitem that has a few hundred rows."""
    rng, rows = np.random.default_rng(11), 400

    def money(values: Any, places: int = 2) -> Any:
        return pa.array([Decimal(int(v)).scaleb(-places) for v in values], pa.decimal128(12, places))

    quantity = rng.integers(1, 51, rows)
    return pa.table(
        {
            "returnflag": pa.array(["ANR"[f] for f in rng.integers(0, 3, rows)]),
            "linestatus": pa.array(["OF"[f] for f in rng.integers(0, 2, rows)]),
            "quantity": pa.array(quantity),
            "price": money(quantity * rng.integers(90_000, 209_900, rows)),
            "discount": money(rng.integers(0, 11, rows)),
            "tax": money(rng.integers(0, 9, rows)),
            "shipdate": pa.array([FIRST + datetime.timedelta(days=int(d)) for d in rng.integers(0, 60, rows)]),
        }
    )


Q1 = """SELECT returnflag, linestatus, SUM(quantity) AS sum_qty, SUM(price) AS sum_base, SUM(price * (1 - discount)) AS sum_disc,
SUM(price * (1 - discount) * (1 + tax)) AS sum_charge, AVG(quantity) AS avg_qty, AVG(price) AS avg_price, AVG(discount) AS avg_disc,
COUNT(*) AS count_order FROM t WHERE shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY GROUP BY returnflag, linestatus"""


def test_query_1_of_tpc_h() -> None:
    """The answer to query 1 of TPC-H, the pricing summary, is exactly that of DuckDB and pandas."""
    sums = ["quantity", "price", "discount", "price * discount", "price * tax", "price * discount * tax"]
    ours = asked(lineitem(), Q1, filters=["returnflag", "linestatus", "shipdate"], sums=sums)
    assert same(ours, by_duckdb(lineitem(), Q1), keys=2)
    frame = lineitem().to_pandas()
    frame = frame[frame.shipdate <= datetime.date(1998, 9, 2)]
    one = Decimal(1)
    frame["disc"] = frame.price * (one - frame.discount)
    frame["charge"] = frame.disc * (one + frame.tax)
    for (flag, status), group in frame.groupby(["returnflag", "linestatus"]):
        row = next(row for row in ours if row[:2] == (flag, status))
        exact = (group.quantity.sum(), group.price.sum(), group.disc.sum(), group.charge.sum())
        assert row[2:6] == exact
        assert row[6] == pytest.approx(group.quantity.mean(), rel=1e-12)
        assert row[9] == len(group)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(v), AVG(v), COUNT(v), COUNT(*) FROM t",
        "SELECT g, SUM(v), AVG(v), COUNT(v), COUNT(*) FROM t GROUP BY g",
        "SELECT SUM(v), AVG(v), COUNT(v), COUNT(*) FROM t WHERE g = 'all null'",
        "SELECT g, AVG(v) FROM t WHERE d > DATE '2026-12-31' GROUP BY g",
        "SELECT SUM(v), COUNT(*), AVG(v) FROM t WHERE d BETWEEN DATE '2026-01-02' AND DATE '2026-01-01'",
        "SELECT AVG(v), SUM(v * w), COUNT(*) FROM t WHERE d BETWEEN DATE '2026-01-01' AND DATE '2026-01-01'",
        "SELECT COUNT(*), SUM(w) FROM t WHERE d < DATE '2026-01-01' OR d IS NULL",
        "SELECT AVG(w), SUM(w), COUNT(w) FROM t WHERE NOT g = 'some'",
        "SELECT COUNT(*) FROM t WHERE w >= -0.5 AND w < 0.25",
    ],
)
def test_nulls_negatives_and_nothing(sql: str) -> None:
    """Answers are right for groups that have only NULLs, negative averages, empty ranges, and days at the ends of the range
    of their column.

    """
    table = pa.table(
        {
            "g": ["all null", "some", "all null", "some", "none", "some"],
            "v": pa.array([None, -7, None, 3, -(10**9), None], pa.int64()),
            "w": pa.array(
                [Decimal(v).scaleb(-2) if v is not None else None for v in (-50, -1, 25, None, 24, -999)],
                pa.decimal128(9, 2),
            ),
            "d": pa.array(
                [
                    datetime.date(2026, 1, 1),
                    datetime.date(2026, 1, 31),
                    None,
                    datetime.date(2026, 1, 1),
                    None,
                    datetime.date(2026, 1, 2),
                ]
            ),
        }
    )
    ours = asked(table, sql, filters=["g", "d", "w"], sums=["v", "w", "v * w"])
    assert same(ours, by_duckdb(table, sql), keys=1 if "GROUP" in sql else 0), (ours, by_duckdb(table, sql))


def test_a_column_of_nulls() -> None:
    """A column that has only NULLs has no sum, no average and a count of 0."""
    table = pa.table({"a": [1, 2, 3], "n": pa.array([None, None, None], pa.int64())})
    columns = {"n": hg.sql.Column("int", low=-5, high=5, nullable=True)}
    for sql in (
        "SELECT SUM(n), AVG(n), COUNT(n), COUNT(*) FROM t",
        "SELECT COUNT(*), SUM(a) FROM t WHERE n > 0 OR n <= 0",
        "SELECT SUM(a) FROM t WHERE n IS NULL AND a <> 2",
    ):
        assert same(asked(table, sql, filters=["a", "n"], sums=["a", "n"], columns=columns), by_duckdb(table, sql))


NAMES = {"day": pa.date32(), "whole": pa.int64(), "money": pa.decimal128(9, 2), "text": pa.string(), "truth": pa.bool_()}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "day": st.integers(0, 40).map(lambda d: FIRST + datetime.timedelta(days=d)),
    "whole": st.integers(-60, 60),
    "money": st.integers(-300, 300).map(lambda v: Decimal(v).scaleb(-2)),
    "text": st.sampled_from(["A", "N", "R"]),
    "truth": st.booleans(),
}


@st.composite
def tables(draw: st.DrawFn) -> Any:
    """Draws a table of 2 to 12 rows with NULLs, in which each column has at least two known values."""
    rows = draw(st.integers(2, 12))
    made = {}
    for name, kind in NAMES.items():
        known = draw(st.lists(VALUES[name], min_size=2, max_size=rows))
        nulls = [None] * (rows - len(known))
        made[name] = pa.array(draw(st.permutations([*known, *nulls])), kind)
    return pa.table(made)


def literal(name: str, value: Any) -> str:
    """Returns a value as a literal of SQL."""
    return {"day": f"DATE '{value}'", "text": f"'{value}'"}.get(name, str(value).upper())


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draws a random comparison."""
    name = draw(st.sampled_from(sorted(NAMES)))
    a, b = (literal(name, draw(VALUES[name])) for _ in range(2))
    sign = draw(st.sampled_from(["=", "<>"] if name == "truth" else ["=", "<>", "<", "<=", ">", ">="]))
    if name == "truth":
        return draw(st.sampled_from([f"{name} = {a}", f"{name} <> {a}", f"NOT {name}", f"{name} IS NULL"]))
    return draw(
        st.sampled_from(
            [f"{name} {sign} {a}", f"{name} BETWEEN {a} AND {b}", f"{name} IN ({a}, {b})", f"{name} IS NOT NULL"]
        )
    )


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, int]:
    """Draws a query of sums, averages and counts with conditions and groups. Returns the query and the number of its group
    columns.
    """
    items = ["COUNT(*)", "COUNT(money)", "SUM(whole)", "AVG(whole)", "SUM(money)", "AVG(money)", "SUM(whole * money)"]
    shown = draw(st.lists(st.sampled_from([*items, "SUM(2 * whole - money + 1)"]), min_size=1, max_size=4))
    where = draw(st.lists(conditions(), max_size=2))
    groups = draw(st.sampled_from([[], [], ["text"], ["truth"], ["text", "truth"]]))
    sql = f"SELECT {', '.join([*groups, *shown])} FROM t"
    if where:
        joined = f" {draw(st.sampled_from(['AND', 'OR']))} ".join(where)
        sql += f" WHERE {draw(st.sampled_from(['', 'NOT ']))}({joined})"
    return sql + (f" GROUP BY {', '.join(groups)}" if groups else ""), len(groups)


def check(table: Any, query: tuple[str, int]) -> None:
    """Checks that our answer equals DuckDB's."""
    sql, groups = query
    options: dict[str, Any] = {"filters": list(NAMES), "sums": ["whole", "money", "whole * money"], "conditions": 3}
    for _ in range(3):
        try:
            ours = asked(table, sql, **options)
            break
        except hg.sql.SqlError as error:  # an OR before a group takes more products than three ANDed conditions
            more = re.search(r"takes (\d) products in a row, .* encrypt it with depth=", str(error))
            if more is None:
                raise
            options["depth"] = int(more[1])
    else:
        pytest.fail(f"no depth suffices for {sql}")
    assert same(ours, by_duckdb(table, sql), keys=groups), (table.to_pylist(), sql, ours, by_duckdb(table, sql))


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(table=tables(), query=queries())
def test_random_tables_and_queries_equal_duckdbs(table: Any, query: tuple[str, int]) -> None:
    """Each random table has its own layout, and answers equal those of DuckDB."""
    check(table, query)


@pytest.mark.full
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=tables(), query=queries())
def test_new_random_tables_equal_duckdbs(table: Any, query: tuple[str, int]) -> None:
    """In each run, answers equal those of DuckDB for new random examples."""
    check(table, query)


@pytest.mark.parametrize("scheme", ["bgv", "tfhe"])
def test_a_sum_leaves_out_rows_with_a_null(scheme: str) -> None:
    """A polynomial is NULL in a row if any of its columns is NULL there, even in terms that do not contain the column."""
    table = pa.table(
        {
            "g": ["x", "x", "y", "y", "x"],
            "a": pa.array([1, 20, None, 3, 5], pa.int64()),
            "b": pa.array([2, None, 7, 4, None], pa.int64()),
        }
    )
    options: dict[str, Any] = {"filters": ["g"], "sums": ["2 * a - b", "a * (1 - b)"]}
    if scheme == "tfhe":
        options = {"scheme": "tfhe", "parameters": tfhe_rig.parameters("digits")}
    for sql in (
        "SELECT SUM(2 * a - b + 1), AVG(a - b), COUNT(a), SUM(a) FROM t",
        "SELECT g, SUM(a * (1 - b)), SUM(a), SUM(b), AVG(b - a) FROM t GROUP BY g",
        "SELECT SUM(a - b), COUNT(b) FROM t WHERE g = 'x'",
        "SELECT SUM(a - b), SUM(b) FROM t WHERE g = 'z'",
    ):
        assert same(asked(table, sql, **options), by_duckdb(table, sql), keys=1 if "GROUP" in sql else 0), sql


def test_null_masks_announced_separately_are_multiplied() -> None:
    """If columns are announced separately, their NULL masks are multiplied. If the depth is too small for these products,
    the error states the necessary number of products in a row.

    """
    table = pa.table({"a": pa.array([1, 20, None], pa.int64()), "b": pa.array([2, None, 7], pa.int64())})
    sql = "SELECT SUM(a + b), AVG(b - a) FROM t"
    assert same(asked(table, sql, sums=["a", "b"], depth=2), by_duckdb(table, sql))
    with pytest.raises(hg.sql.SqlError, match="2 products in a row"):
        asked(table, sql, sums=["a", "b"], depth=1)
