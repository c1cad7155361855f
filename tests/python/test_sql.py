"""Results of SQL on encrypted tables equal DuckDB's on the clear tables. Unsupported constructs are refused, and the error
names them.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heliograph as hg
from heliograph.cli import explain
from sql_rig import by_duckdb, same, served

pytest.importorskip("sqlglot")
duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

ROWS = 300


@cache
def frame() -> Any:
    """Returns a table with every kind of column; two columns have NULLs."""
    rng = np.random.default_rng(3)
    days = [datetime.date(1994, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 400, ROWS)]
    null = rng.integers(0, 6, ROWS) == 0
    return pa.table(
        {
            "day": pa.array(days),
            "discount": pa.array([Decimal(int(d)).scaleb(-2) for d in rng.integers(0, 11, ROWS)], pa.decimal128(4, 2)),
            "quantity": pa.array([None if n else int(q) for q, n in zip(rng.integers(-20, 31, ROWS), null, strict=True)]),
            "price": pa.array([int(p) for p in rng.integers(-100_000, 10_000_000, ROWS)]),
            "flag": pa.array([None if f == 3 else "ANR"[f] for f in rng.integers(0, 4, ROWS)]),
            "paid": pa.array([bool(p) for p in rng.integers(0, 2, ROWS)]),
        }
    )


@cache
def owner() -> tuple[Any, Any, Any]:
    """Returns the secret key, the table and the server."""
    filters = ["day", "discount", "quantity", "flag", "paid"]
    layout = hg.sql.layout(frame(), filters=filters, sums=["price * discount", "price", "quantity"], conditions=4, depth=5)
    return served(layout, frame())


QUERIES = (
    "SELECT SUM(price * discount) FROM t WHERE day >= DATE '1994-01-01' + INTERVAL '1' MONTH AND day < '1994-10-05' "
    "AND discount BETWEEN 0.06 - 0.01 AND 0.07 AND quantity < 24",
    "SELECT COUNT(*), COUNT(quantity), SUM(quantity), AVG(quantity) FROM t",
    "SELECT flag, SUM(price * (1 - discount)) AS net, AVG(price), COUNT(*) FROM t WHERE quantity > 3 GROUP BY flag",
    "SELECT flag, paid, COUNT(*), SUM(quantity) FROM t WHERE flag IN ('A', 'N') GROUP BY flag, paid",
    "SELECT COUNT(*) FROM t WHERE NOT (quantity < 5 OR flag = 'A') AND paid",
    "SELECT COUNT(*), SUM(price) FROM t WHERE quantity IS NULL OR (discount <> 0.05 AND flag >= 'N')",
    "SELECT SUM(price), COUNT(*), AVG(price) FROM t WHERE day = DATE '2001-01-01'",
    "SELECT SUM(price), COUNT(*) FROM t WHERE quantity < -3.5 AND NOT paid AND day <> '1994-03-03' AND flag IS NOT NULL",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_results_equal_duckdbs(sql: str) -> None:
    """Results equal DuckDB's exactly; the answers are serialized in between."""
    secret, _, server = owner()
    answer = hg.sql.Answer.from_bytes(server.sql(sql).to_bytes())
    assert same(answer.decrypt(secret, sql=sql).rows, by_duckdb(frame(), sql), keys=2)
    assert answer.noise_budget is None or answer.noise_budget > 0 or not answer.plan.results


def condition() -> st.SearchStrategy[str]:
    """Draws a random comparison."""
    signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    day = st.integers(-5, 410).map(lambda d: f"DATE '{datetime.date(1994, 1, 1) + datetime.timedelta(days=d)}'")
    values = {
        "day": day,
        "quantity": st.integers(-25, 35).map(str),
        "discount": st.integers(-1, 12).map(lambda d: str(Decimal(d).scaleb(-2))),
        "flag": st.sampled_from(["'A'", "'N'", "'R'", "'Z'"]),
    }

    def of(name: str) -> st.SearchStrategy[str]:
        value = values[name]
        return st.one_of(
            st.builds(lambda s, v: f"{name} {s} {v}", signs, value),
            st.builds(lambda a, b: f"{name} BETWEEN {a} AND {b}", value, value),
            st.lists(value, min_size=1, max_size=3).map(lambda v: f"{name} IN ({', '.join(v)})"),
            st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL"]),
        )

    return st.sampled_from(sorted(values)).flatmap(of)


WHERE = st.recursive(
    condition(),
    lambda inner: st.one_of(
        st.builds(lambda a, j, b: f"({a} {j} {b})", inner, st.sampled_from(["AND", "OR"]), inner),
        inner.map(lambda c: f"(NOT {c})"),
    ),
    max_leaves=4,
)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(where=WHERE, grouped=st.booleans())
def test_random_conditions(where: str, grouped: bool) -> None:
    """Random conditions give the result of DuckDB, or are refused because the depth is too small."""
    secret, _, server = owner()
    head, tail = ("paid, ", " GROUP BY paid") if grouped else ("", "")
    sql = f"SELECT {head}COUNT(*), SUM(price * discount), AVG(quantity) FROM t WHERE {where}{tail}"
    refused = ""
    try:
        answer = server.sql(sql)
    except hg.sql.SqlError as error:
        refused = str(error)
    if refused:
        assert refused.startswith("WHERE: it takes")
        return
    assert same(answer.decrypt(secret).rows, by_duckdb(frame(), sql), keys=2)


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT * FROM t", "*"),
        ("SELECT price FROM t", "price"),
        ("SELECT MAX(price) FROM t", "MAX"),
        ("SELECT SUM(price) FROM t JOIN u ON t.a = u.a", "JOIN"),
        ("SELECT SUM(price) FROM t, u", "JOIN"),
        ("SELECT SUM(price) FROM t WHERE flag LIKE 'A%'", "LIKE"),
        ("SELECT SUM(price) FROM t ORDER BY 1", "ORDER BY"),
        ("SELECT SUM(price) FROM t LIMIT 1", "LIMIT"),
        ("SELECT flag, SUM(price) FROM t GROUP BY flag HAVING COUNT(*) > 3", "HAVING"),
        ("SELECT COUNT(DISTINCT flag) FROM t", "COUNT(DISTINCT)"),
        ("SELECT SUM(CASE WHEN paid THEN price END) FROM t", "CASE"),
        ("SELECT SUM(price) / 2 FROM t", "DIV"),
        ("SELECT SUM(price) OVER () FROM t", "WINDOW"),
        ("SELECT SUM(price) FROM t WHERE quantity IN (SELECT 1)", "IN"),
        ("SELECT SUM(price) FROM t WHERE quantity = price", "quantity = price"),
        ("SELECT SUM(price) FROM t WHERE price > 3", "price"),
        ("SELECT SUM(price) FROM t WHERE quantity = 'A'", "quantity"),
        ("SELECT SUM(price) FROM t WHERE flag = 3", "flag"),
        ("SELECT SUM(price) FROM t WHERE flag = NULL", "NULL"),
        ("SELECT SUM(price) FROM t WHERE day < '1994-02-31'", "day"),
        ("SELECT SUM(flag) FROM t", "flag"),
        ("SELECT SUM(price * price) FROM t", "SUM(price * price)"),
        ("SELECT SUM(nothing) FROM t", "nothing"),
        ("SELECT SUM(price) FROM other", "FROM"),
        ("SELECT SUM(price) FROM other.t", "DB"),
        ("SELECT SUM(price) FROM t UNION SELECT 1", "UNION"),
        ("SELECT SUM(price) FROM t; DROP TABLE t", "a query"),
        ("DROP TABLE t", "DROP"),
        ("", "a query"),
        ("(" * 5000, "a query"),
        ("SELECT SUM(price) FROM t WHERE " + "NOT " * 3000 + "paid", "a query"),
        ("SELECT SUM(price) FROM t WHERE quantity < 1e999999999", "a number"),
        ("SELECT SUM(price) FROM t WHERE paid --" + "x" * 20000, "a query"),
    ],
)
def test_refused_by_name(sql: str, construct: str) -> None:
    """Unsupported constructs and invalid queries are refused, and the error names them."""
    with pytest.raises(hg.sql.SqlError) as found:
        owner()[2].sql(sql)
    assert found.value.construct == construct


def test_needed_depth_is_stated() -> None:
    """If a condition needs more depth than the parameters of the table have, the error states the depth that it needs."""
    small = {"a": list(range(100)), "b": list(range(100))}
    layout = hg.sql.layout(small, filters=["a", "b"], sums=["a"], conditions=1)
    secret = hg.SecretKey.generate(layout.parameters)
    table = hg.sql.encrypt(secret, layout, small)
    with pytest.raises(hg.sql.SqlError, match="products in a row"):
        table.plan("SELECT SUM(a) FROM t WHERE a < 34 AND b < 57")


def test_invalid_columns_are_refused() -> None:
    """Invalid columns are refused; the error names the column and the row."""
    data = {"a": [1, 2, 3], "b": [1.5, 2.25, 3.0]}
    with pytest.raises(hg.DtypeError, match=r"b holds real numbers.*places"):
        hg.sql.layout(data, filters=["b"])
    for announced in ({"sums": ["a * b"]}, {"compares": ["a < b"]}):
        # For such a query, the error must name the kind of the column and must not say that the column does not exist.
        with pytest.raises(hg.DtypeError, match=r"b holds real numbers.*places"):
            hg.sql.layout(data, **announced)  # type: ignore[arg-type]
    with pytest.raises(hg.DtypeError, match=r"row 1: .*2\.25"):
        hg.sql.layout(data, filters=["b"], columns={"b": hg.sql.Column("decimal", places=1)})
    with pytest.raises(hg.PlaintextRangeError, match=r"a, row 2: .*outside"):
        hg.sql.layout(data, sums=["a"], columns={"a": hg.sql.Column("int", low=0, high=2)})
    layout = hg.sql.layout(data, sums=["a"])
    secret = hg.SecretKey.generate(layout.parameters)
    with pytest.raises(hg.PlaintextRangeError, match="NULL in row 1"):
        hg.sql.encrypt(secret, layout, {"a": [1, None, 3]})
    with pytest.raises(hg.ShapeError, match="2 rows"):
        hg.sql.encrypt(secret, layout, {"a": [1, 2]})
    with pytest.raises(hg.ShapeError, match="without rows"):
        hg.sql.layout({"a": []}, sums=["a"])


def test_another_key() -> None:
    """Tables and answers state which key they belong to; another key is refused."""
    secret, table, server = owner()
    other = hg.SecretKey.generate(table.layout.parameters)
    with pytest.raises(hg.WrongKeyError):
        hg.sql.SqlServer(other.evaluation_keys()).add(table)
    answer = server.sql("SELECT SUM(price) FROM t")
    with pytest.raises(hg.WrongKeyError):
        answer.decrypt(other)
    with pytest.raises(hg.MismatchError, match="another query"):
        answer.decrypt(secret, sql="SELECT SUM(price) FROM t WHERE paid")
    with pytest.raises(hg.MismatchError):
        hg.sql.encrypt(hg.SecretKey.generate(hg.bgv.parameters(depth=1, plain_bits=20)), table.layout, frame())


def test_files(tmp_path: Path) -> None:
    """A table can be written while it is encrypted or afterwards. Changed bytes are detected."""
    small = {"a": [5, 7, 9], "g": ["x", "y", "x"]}
    layout = hg.sql.layout(small, filters=["g"], sums=["a"])
    secret = hg.SecretKey.generate(layout.parameters)
    hg.sql.encrypt(secret, layout, small, path=tmp_path / "t.hg").save(tmp_path / "copy.hg")
    assert (tmp_path / "t.hg").read_bytes() == (tmp_path / "copy.hg").read_bytes()
    server = hg.sql.SqlServer(secret.evaluation_keys())
    assert server.load(tmp_path / "t.hg").layout == layout
    result = server.sql("SELECT g, SUM(a) FROM t GROUP BY g").decrypt(secret)
    assert result.to_arrow().to_pylist() == [{"g": "x", "sum(a)": 14}, {"g": "y", "sum(a)": 7}]
    data = bytearray((tmp_path / "t.hg").read_bytes())
    for position in (40, 200, len(data) // 2, len(data) - 5):
        damaged = bytes(data[:position]) + bytes([data[position] ^ 1]) + bytes(data[position + 1 :])
        with pytest.raises(hg.FormatError):
            hg.sql.EncryptedTable.from_bytes(damaged)
    for damaged in (bytes(data[:-64]), bytes(data) + b"x", b"", secret.encrypt([1], pad=True).to_bytes()):
        with pytest.raises(hg.FormatError):
            hg.sql.EncryptedTable.from_bytes(damaged)


def test_inspect_describes_tables_and_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """inspect describes a table and an answer, and checks without a key that they are not damaged."""
    _, table, server = owner()
    table.save(tmp_path / "t.hg")
    server.sql("SELECT SUM(price) FROM t WHERE quantity < 3").save(tmp_path / "answer.hg")
    for name, said in (("t.hg", "quantity"), ("answer.hg", "SUM(price)")):
        assert explain.inspect(tmp_path / name)
        told = capsys.readouterr().out
        assert said in told
        assert "whole: digest" in told
        data = bytearray((tmp_path / name).read_bytes())
        data[len(data) // 2] ^= 1
        (tmp_path / name).write_bytes(data)
        assert not explain.inspect(tmp_path / name)
        assert "DAMAGED" in capsys.readouterr().out


def test_tables_of_several_ciphertexts() -> None:
    """Results are exact if rows fill several ciphertexts, the last of them only partly, and sums take several limbs."""
    rng = np.random.default_rng(1)
    rows = 70_001
    large = {"a": rng.integers(0, 1000, rows), "v": rng.integers(-(10**12), 10**12, rows)}
    layout = hg.sql.layout(large, filters=["a"], sums=["v"])
    assert layout.blocks > 8
    secret = hg.SecretKey.generate(layout.parameters)
    server = hg.sql.SqlServer(secret.evaluation_keys())
    server.add(hg.sql.encrypt(secret, layout, large))
    chosen = large["a"] >= 613
    found = server.sql("SELECT SUM(v), COUNT(*) FROM t WHERE a >= 613").decrypt(secret)
    assert found.rows == [(int(large["v"][chosen].sum()), int(chosen.sum()))]


ON_THE_CARD = """
import sys
import heliograph as hg

server = hg.sql.SqlServer(hg.load("keys.hg"))
server.load("t.hg")
for number, sql in enumerate(sys.argv[1:]):
    server.sql(sql).save(f"{number}.hg")
print(hg.cycles().cycles > 0)
"""
SUMS = (
    "SELECT SUM(a), COUNT(*), AVG(a) FROM t WHERE g < 'z'",
    "SELECT SUM(a), COUNT(a) FROM t WHERE g = 'x' AND NOT b BETWEEN 2 AND 3",
)


@pytest.mark.parametrize("scheme", ["bfv", pytest.param("bgv", marks=pytest.mark.full)])
def test_on_the_coprocessor(scheme: str, tmp_path: Path) -> None:
    """Sums on the simulated co-processor, which has 32-bit words, have the same bits."""
    try:
        hg.bfv.parameters(depth=1, plain_bits=17, word_size=32)._core.on_device("rtl")
    except hg.DeviceError as error:
        pytest.skip(str(error))
    small = {"a": [5, 7, None, -4, 8], "g": ["x", "y", "x", "z", "x"], "b": [1, 2, 3, 4, 0]}
    layout = hg.sql.layout(small, filters=["g", "b"], sums=["a"], scheme=scheme, word_size=32)
    secret = hg.SecretKey.generate(layout.parameters)
    hg.sql.encrypt(secret, layout, small, path=tmp_path / "t.hg")
    keys = secret.evaluation_keys()
    keys.save(tmp_path / "keys.hg")
    server = hg.sql.SqlServer(keys)
    server.load(tmp_path / "t.hg")
    done = subprocess.run(
        [sys.executable, "-c", ON_THE_CARD, *SUMS],
        **{"env": {**os.environ, "HELIOGRAPH_DEVICE": "rtl"}, "capture_output": True, "text": True, "check": False},
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "True", done.stderr
    right = [[(20, 4, 20 / 3)], [(13, 2)]]
    for number, (sql, rows) in enumerate(zip(SUMS, right, strict=True)):
        answer = hg.sql.Answer.load(tmp_path / f"{number}.hg")
        assert answer.to_bytes() == server.sql(sql).to_bytes()
        assert answer.decrypt(secret, sql=sql).rows == rows
