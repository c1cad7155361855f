"""Results of SQL on integers encrypted by TFHE equal SQLite's and DuckDB's on the clear table. The set is small and
insecure.
"""

from __future__ import annotations

import datetime
import operator
import random
import re
import sqlite3
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import tfhe_rig
from heliograph.sql import tfhe_layout as integers
from sql_rig import Rows, same, served

pytest.importorskip("sqlglot")

ROWS = 37
FIRST = datetime.date(1994, 1, 1)


@cache
def columns() -> dict[str, list[Any]]:
    """Returns columns of every kind except decimals, in the types of SQLite: days are texts, booleans are 0 and 1."""
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
    """Converts numbers of days to dates."""
    return [None if v is None else FIRST + datetime.timedelta(days=v) for v in values]


@cache
def frame() -> dict[str, Any]:
    """Returns the table in the types of Python."""
    return {name: days(v) if name in ("shipped", "received") else v for name, v in columns().items()}


@cache
def owner() -> tuple[Any, Any, Any]:
    """Returns the secret key, the table and the server; table and keys are serialized in between."""
    layout = hg.sql.layout(frame(), scheme="tfhe", parameters=tfhe_rig.parameters("digits"))
    return served(layout, frame())


@cache
def sqlite() -> sqlite3.Connection:
    """Returns a connection to SQLite that has the clear table."""
    found = sqlite3.connect(":memory:")
    names = list(frame())
    found.execute(f"CREATE TABLE t ({', '.join(names)})")
    shown = [[None if v is None else str(v) if isinstance(v, datetime.date) else v for v in frame()[n]] for n in names]
    rows = zip(*shown, strict=True)
    found.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows)
    return found


def clear(sql: str) -> list[tuple[Any, ...]]:
    """Runs a query by SQLite, which compares days as texts."""
    return sqlite().execute(sql.replace("DATE '", "'")).fetchall()


def plain(rows: Rows) -> Rows:
    """Converts rows to the types of SQLite."""

    def of(v: Any) -> Any:
        return str(v) if isinstance(v, datetime.date) else int(v) if isinstance(v, bool) else v

    return [tuple(map(of, row)) for row in rows]


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
def test_results_equal_sqlites(sql: str) -> None:
    """Results equal SQLite's exactly; the answers are serialized in between."""
    secret, _, server = owner()
    answer = hg.sql.Answer.from_bytes(server.sql(sql).to_bytes())
    assert same(plain(answer.decrypt(secret, sql=sql).rows), clear(sql), keys=2), (answer.decrypt(secret).rows, clear(sql))


def condition(rng: random.Random, depth: int = 2) -> str:
    """Returns a random condition."""
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
            rng.choice(["received IS NULL", "change IS NOT NULL", "paid", "NOT paid"]),
        ]
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_queries(seed: int) -> None:
    """Random queries give the results of SQLite."""
    rng = random.Random(seed)
    secret, _, server = owner()
    head, tail = ("paid, ", " GROUP BY paid") if seed % 3 == 0 else ("", "")
    column = rng.choice(["price", "change", "received", "target"])
    sql = f"SELECT {head}COUNT(*), SUM(change), MIN({column}), MAX({column}) FROM t WHERE {condition(rng)}{tail}"
    assert same(plain(server.sql(sql).decrypt(secret).rows), clear(sql), keys=2), sql


def test_decimals_and_tables_of_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decimals, and results over several pieces of a table, equal the results of DuckDB."""
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    monkeypatch.setattr(integers, "_MEMORY", 1)
    rng = np.random.default_rng(5)
    rows = 150
    prices = pa.array([Decimal(int(v)).scaleb(-2) for v in rng.integers(-500, 900, rows)], pa.decimal128(6, 2))
    rates = pa.array([Decimal(int(v)).scaleb(-3) for v in rng.integers(0, 999, rows)], pa.decimal128(4, 3))
    days = pa.array([FIRST + datetime.timedelta(days=int(d)) for d in rng.integers(0, 90, rows)])
    data = pa.table(
        {
            **{"price": prices, "rate": rates, "sent": days, "back": days.take(pa.array(rng.permutation(rows)))},
            "extra": pa.array(rng.integers(-9, 10, rows), pa.int32()),  # int32, which DuckDB can add to days
        }
    )
    layout = hg.sql.layout(data, scheme="tfhe", parameters=tfhe_rig.parameters("digits"))
    secret = hg.SecretKey.generate(layout.parameters)
    table = hg.sql.encrypt(secret, layout, data)
    assert table.piece_count == 3
    server = hg.sql.SqlServer(secret.evaluation_keys())
    server.add(table)
    connection = duckdb.connect()
    connection.register("t", data)
    for sql in (
        "SELECT SUM(price * (1 - rate)), MIN(price), MAX(rate), COUNT(*) FROM t WHERE price > rate * 2.5 - 1",
        "SELECT MIN(back), MAX(price), COUNT(*) FROM t WHERE back - sent BETWEEN 3 AND 20 OR sent > back + INTERVAL '6' WEEK",
        "SELECT COUNT(*) FROM t WHERE sent + extra < DATE '1994-02-20'",
    ):
        assert server.sql(sql).decrypt(secret).rows == connection.execute(sql).fetchall()


def test_sums_beyond_64_bits() -> None:
    """The owner adds the sums of several ciphertexts. Summands beyond 63 bits are refused, and bounds that contradict each
    other are ignored.

    """
    large = [2**52 - 5, -(2**52), 2**52, 77]
    data = {"large": large, "times": [1023, 1022, 1000, 3], "few": [5, 0, 3, 7], "down": [-5, 0, -3, -7]}
    layout = hg.sql.layout(data, scheme="tfhe", parameters=tfhe_rig.parameters("digits"))
    secret = hg.SecretKey.generate(layout.parameters)
    server = hg.sql.SqlServer(secret.evaluation_keys())
    server.add(hg.sql.encrypt(secret, layout, data))
    answer = server.sql("SELECT SUM(large * times), SUM(large) FROM t WHERE times > 3")
    assert answer.plan.results > answer.plan.totals
    assert answer.decrypt(secret).rows == [
        (sum(a * b for a, b in zip(large[:3], (1023, 1022, 1000), strict=True)), sum(large[:3]))
    ]
    assert server.sql("SELECT SUM(large * few) FROM t").decrypt(secret).rows == [
        (sum(map(operator.mul, large, data["few"])),)
    ]
    assert server.sql("SELECT COUNT(*), MIN(few) FROM t WHERE few <= down").decrypt(secret).rows == [(1, 0)]
    with pytest.raises(hg.sql.SqlError, match=r"large \* large.*63 are summed"):
        server.sql("SELECT SUM(large * large) FROM t")
    with pytest.raises(hg.sql.SqlError, match="at most 64"):
        server.sql("SELECT COUNT(*) FROM t WHERE large * large * times > times")


def test_the_choice_of_scheme_is_explained() -> None:
    """The scheme follows from the announced queries. The layout states the forecast time of a typical query."""
    data = {"a": [1, 2, 3, 9], "b": [3, None, 1, 8], "far": [0, 10**15, 5, 7]}
    assert hg.sql.layout(data, filters=["a"], sums=["b"]).parameters.scheme == "BGV"
    assert hg.sql.layout(data, compares=["a < 3 AND NOT b >= 1"], sums=["b"]).parameters.scheme == "BGV"
    for aggregates, why in (
        ({"compares": ["a < b + 1"]}, "a < b + 1"),
        ({"extremes": ["b"]}, "MAX of b"),
        ({"scheme": "tfhe"}, "given"),
    ):
        options: dict[str, Any] = {"filters": ["a"], "sums": ["b"], **aggregates}
        layout = hg.sql.layout(data, **options)
        said = dict((line.strip().partition("  ")[::2]) for line in layout.explain().splitlines())
        assert layout.parameters.scheme == "TFHE"
        assert why in said["scheme"]
        assert set(layout.columns) == {"a", "b"}
        told = re.fullmatch(
            r"\s*SELECT SUM\(b\) FROM t WHERE a BETWEEN 3 AND 7: about .+ by TFHE, about .+ by BGV", said["forecast"]
        )
        assert told, said["forecast"]
    assert "by BGV, about" in hg.sql.layout(data, filters=["a"], sums=["b"]).explain()
    with pytest.raises(hg.ParameterError, match=r"a < b compares.*\"bgv\" does not answer"):
        hg.sql.layout(data, compares=["a < b"], scheme="bgv")
    with pytest.raises(hg.ParameterError, match="depth="):
        hg.sql.layout(data, compares=["a < b"], depth=3)
    with pytest.raises(hg.ParameterError, match="extremes= names 'c'"):
        hg.sql.layout(data, extremes=["c"])
    with pytest.raises(hg.sql.SqlError, match="LIKE"):
        hg.sql.layout(data, compares=["a LIKE b"])
    with pytest.raises(hg.DtypeError, match="parameters="):
        hg.sql.layout(data, parameters=hg.bgv.parameters(depth=1, plain_bits=17))  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", ["bgv", "tfhe"])
def test_plans_state_seconds(scheme: str) -> None:
    """The time of a plan grows with the rows and columns that it reads. A plan that was made without a server has no time."""
    seconds, sql = [], "SELECT SUM(a) FROM t WHERE b > 4"
    for rows in (64, 20_000):
        data = {"a": np.arange(rows) % 90, "b": np.arange(rows) % 50}
        options: dict[str, Any] = {"parameters": tfhe_rig.parameters("digits")} if scheme == "tfhe" else {}
        layout = hg.sql.layout(data, filters=["b"], sums=["a"], scheme=scheme, **options)
        secret = hg.SecretKey.generate(layout.parameters)
        server = hg.sql.SqlServer(secret.evaluation_keys())
        table = hg.sql.encrypt(secret, layout, data)
        server.add(table)
        assert table.plan(sql).seconds is None
        plan = server.plan(sql)
        assert 0 < plan.read_bytes <= layout.nbytes
        assert "forecast  about" in plan.explain()
        assert plan.seconds
        seconds.append(plan.seconds)
    assert seconds[1] > (100 if scheme == "tfhe" else 2) * seconds[0]
    assert server.plan("SELECT COUNT(*) FROM t").seconds == 0


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT MAX(price + 1) FROM t", "MAX"),
        ("SELECT MIN(DISTINCT price) FROM t", "MIN(DISTINCT)"),
        ("SELECT COUNT(*) FROM t WHERE price < origin", "price < origin"),
        ("SELECT COUNT(*) FROM t WHERE price < shipped", "price < shipped"),
        ("SELECT COUNT(*) FROM t WHERE paid < (quantity = 1)", "EQ"),
        ("SELECT COUNT(*) FROM t WHERE shipped * 2 < received", "MUL"),
        ("SELECT COUNT(*) FROM t WHERE shipped < received + INTERVAL '1' MONTH", "INTERVAL"),
        ("SELECT COUNT(*) FROM t WHERE price / quantity < 3", "DIV"),
        ("SELECT COUNT(*) FROM t WHERE price < quantity + NULL", "NULL"),
        ('SELECT COUNT(*) FROM t WHERE origin = "AIR"', '"AIR"'),
        ("SELECT COUNT(*) FROM t WHERE 3 < 5", "<"),
        ("SELECT COUNT(*) FROM t WHERE 3 BETWEEN 1 AND 5", "BETWEEN"),
        ("SELECT price, COUNT(*) FROM t GROUP BY price, shipped, quantity", "GROUP BY"),
        ("SELECT COUNT(*) FROM t HAVING MAX(price) > 3", "HAVING"),
        ("SELECT MEDIAN(price) FROM t", "MEDIAN"),
    ],
)
def test_refused_by_name(sql: str, construct: str) -> None:
    """Constructs that neither scheme supports are refused, and the error names them."""
    with pytest.raises(hg.sql.SqlError) as found:
        owner()[2].sql(sql)
    assert found.value.construct == construct, found.value


def test_bgv_names_the_layout_that_answers() -> None:
    """If only TFHE supports a query, the error of BGV names the layout that supports it."""
    data = {"a": [1, 2, 3, 9], "b": [3, 5, 1, 8]}
    layout = hg.sql.layout(data, filters=["a"], sums=["b"])
    secret = hg.SecretKey.generate(layout.parameters)
    server = hg.sql.SqlServer(secret.evaluation_keys())
    server.add(hg.sql.encrypt(secret, layout, data))
    for sql, told in (
        ("SELECT MIN(a) FROM t", "extremes=['a']"),
        ("SELECT COUNT(*) FROM t WHERE a < b", "compares=['a < b']"),
        ("SELECT SUM(a * b) FROM t", 'scheme="tfhe"'),
    ):
        with pytest.raises(hg.sql.SqlError, match=re.escape(told)):
            server.sql(sql)
    assert server.sql("SELECT SUM(b) FROM t WHERE 2 * a - 1 < 5").decrypt(secret).rows == [(8,)]


def test_foreign_and_changed_objects_are_refused(tmp_path: Path) -> None:
    """Another key, a key of another scheme, changed files and files of another layout are refused."""
    _, table, server = owner()
    other = hg.SecretKey.generate(table.layout.parameters)
    with pytest.raises(hg.WrongKeyError):
        hg.sql.SqlServer(other.evaluation_keys()).add(table)
    bgv = hg.SecretKey.generate(hg.bgv.parameters(depth=1, plain_bits=17))
    with pytest.raises(hg.MismatchError):
        hg.sql.SqlServer(bgv.evaluation_keys()).add(table)
    with pytest.raises(hg.MismatchError):
        hg.sql.encrypt(bgv, table.layout, frame())
    answer = server.sql("SELECT MAX(price) FROM t WHERE quantity > 3")
    for key, error in ((other, hg.WrongKeyError), (bgv, hg.WrongKeyError)):
        with pytest.raises(error):
            answer.decrypt(key)
    table.save(tmp_path / "t.hg")
    assert hg.sql.EncryptedTable.load(tmp_path / "t.hg").layout == table.layout
    data = bytearray((tmp_path / "t.hg").read_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(hg.FormatError):
        hg.sql.EncryptedTable.from_bytes(bytes(data))
    said = table.layout.data()
    for wrong in ({"rows": 0}, {"columns": []}, {"filters": ["none"]}, {"sums": [[]]}, {"why": 3}, {"sums": 4}):
        with pytest.raises(hg.DamagedFileError):
            hg.sql.IntegerLayout.of_data({**said, **wrong}, table.layout.parameters)


def test_an_impossible_extreme_is_refused() -> None:
    """If the answer of a server cannot be an extreme of the column, it is refused."""
    secret, _, server = owner()
    answer = server.sql("SELECT MAX(origin), MIN(price) FROM t")
    kind = answer.plan.aggregates[0].type
    answer._tensors[0] = secret.encrypt(3, kind)
    with pytest.raises(hg.DamagedFileError, match="MAX is no value of origin"):
        answer.decrypt(secret)
    answer._tensors[0] = secret.encrypt([1, 2], kind)
    with pytest.raises(hg.DamagedFileError, match="not those of its query"):
        answer.decrypt(secret)
    with pytest.raises(hg.ParameterError, match="none of its columns is known"):
        hg.sql.layout({"a": [1.5, 2.5]}, scheme="tfhe")


def test_tfhe_is_chosen_if_bgv_has_no_set() -> None:
    """If BGV has no set, TFHE is chosen, and a reason is given. A request for BGV, or for impossible sums, is an error."""
    data = {f"c{number}": [0, 10**6] for number in range(140)}
    layout = hg.sql.layout(data, filters=list(data))
    assert "no 128-bit set of BGV" in dict(layout.summary_rows())["scheme"]
    for options in ({"scheme": "bgv"}, {"depth": 10}, {"conditions": 140}):
        with pytest.raises(hg.ParameterError, match="no 128-bit set"):
            hg.sql.layout(data, filters=list(data), **options)
    with pytest.raises(hg.ParameterError, match="exceed 63 bits"):
        hg.sql.layout({"a": [2**40, 1]}, sums=["a * a"])
