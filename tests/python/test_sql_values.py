"""Tests how table values are converted: NULLs of every library, columns that cancel in a sum, floats, integers beyond 64
bits.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import tfhe_rig
from heliograph._common.columns import frame_of, of_values
from sql_rig import by_duckdb, served

pytest.importorskip("sqlglot")
duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

DATA = {"x": [1, None, 3, 4, None], "y": [10, 20, None, 40, None], "g": [True, True, False, False, True]}
SUMS = ["x", "y", "x * y"]


def clear(sql: str) -> Any:
    """Runs a query on the clear table by DuckDB."""
    return by_duckdb(pa.table({name: pa.array(values) for name, values in DATA.items()}), sql)


@pytest.fixture(scope="module", params=["bgv", "bfv", "tfhe"])
def table(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Returns a key and a server for each scheme."""
    if request.param == "tfhe":
        return served(hg.sql.layout(DATA, scheme="tfhe", parameters=tfhe_rig.parameters("digits")), DATA)[::2]
    return served(hg.sql.layout(DATA, filters=["x", "g"], sums=SUMS, scheme=request.param, depth=3), DATA)[::2]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x + y - x), SUM(x - x + 1), SUM(x - x), SUM(x * 0), AVG(x * 0 + y) FROM t",
        "SELECT SUM(x * y - y * x + 7), AVG(y - y), COUNT(x), SUM(0 * (x - y)) FROM t",
        "SELECT SUM(y - x + x), COUNT(*) FROM t WHERE NOT (x - x = 1)",
        "SELECT COUNT(*) FROM t WHERE x * 0 = 0 OR x - x < 0",
        "SELECT COUNT(*), SUM(x) FROM t WHERE NOT (2 * x - x - x <> 0.5)",
        "SELECT g, SUM(x + y - x), AVG(x - x + 2) FROM t GROUP BY g",
        "SELECT g, SUM(x - x) FROM t WHERE g AND x IS NULL GROUP BY g",
    ],
)
def test_nulls_of_cancelled_columns_count(table: tuple[Any, Any], sql: str) -> None:
    """If a column cancels in a sum, rows in which it is NULL are still excluded, as in DuckDB."""
    secret, server = table
    assert sorted(server.sql(sql).decrypt(secret).rows) == sorted(clear(sql))


def test_announced_sums_that_cancel() -> None:
    """An announced sum may contain a column that cancels. The table answers this sum, although no product contains the
    column.
    """
    secret, _, server = served(layout := hg.sql.layout(DATA, sums=["x + y - x", "x * y + y"]), DATA)
    assert layout.sums == (("y",), ("x", "y"))
    for sql in ("SELECT SUM(x + y - x) FROM t", "SELECT SUM(x * y + y) FROM t"):
        assert server.sql(sql).decrypt(secret).rows == clear(sql)
    secret, _, server = served(layout := hg.sql.layout(DATA, sums=["y + x - x"]), DATA)
    assert server.sql("SELECT SUM(y + x - x) FROM t").decrypt(secret).rows == clear("SELECT SUM(y + x - x) FROM t")


def forms(values: list[Any], kind: Any) -> list[Any]:
    """Returns integers with NULLs in every representation. Masked values cover valid numbers."""
    mask = [v is None for v in values]
    whole = np.array([99 if v is None else v for v in values])
    reals = np.where(mask, np.nan, whole)
    return [
        *(values, [float("nan") if v is None else v for v in values], [np.ma.masked if v is None else v for v in values]),
        *(np.ma.array(whole, mask=mask), np.ma.array(reals, mask=[False] * len(mask)), reals, np.array(values, object)),
        *(pd.Series(values), pd.Series(values, dtype="Int64"), pd.Series(values, dtype="int64[pyarrow]")),
        *(pa.array(values), pa.chunked_array([values[:1], values[1:]]), [pd.NA if v is None else v for v in values]),
        *(
            [Decimal("nan") if v is None else Decimal(v) for v in values],
            [np.float32("nan") if v is None else v for v in values],
        ),
    ]


@pytest.mark.parametrize("at", range(15))
def test_every_null(at: int) -> None:
    """NULLs of every library are recognised as NULL."""
    values = [7, None, 3]
    several = forms(values, int)
    assert len(several) == 15
    frames = [{"c": several[at]}]
    if not isinstance(several[at], list):
        frames.append(pd.DataFrame({"c": several[at]}))
    for frame in frames:
        raw = frame_of(frame)["c"]
        column = of_values(raw, "c").completed(raw, "c")
        assert (column.low, column.high, column.nullable) == (3, 7, True)
        assert column.numbers(raw, "c").tolist() == [7, 0, 3]


def test_masked_tables() -> None:
    """Masked values are NULL in sums and counts."""
    v = np.ma.array([10, 20, 30], mask=[False, True, False])
    secret, _, server = served(hg.sql.layout({"v": v}, sums=["v"]), {"v": v})
    assert server.sql("SELECT SUM(v), COUNT(v), COUNT(*) FROM t").decrypt(secret).rows == [(40, 2, 3)]


def test_days_and_texts_that_are_missing() -> None:
    """NaT of NumPy and pandas is NULL, and so are masked days and texts; times of day are refused."""
    day = datetime.date(2026, 1, 2)
    for column in (
        [np.datetime64(day), np.datetime64("NaT")],
        np.array([day, "NaT"], "M8[ns]"),
        [pd.Timestamp(day), pd.NaT],
        np.ma.array(np.array([day, day], "M8[D]"), mask=[False, True]),
        pa.array([day, None]),
    ):
        raw = frame_of({"c": column})["c"]
        assert of_values(raw, "c").completed(raw, "c").numbers(raw, "c").tolist() == [20455, 0]
    raw = frame_of({"c": np.ma.array(["a", "b"], mask=[True, False])})["c"]
    assert of_values(raw, "c").completed(raw, "c").values == ("b",)
    for column in (pa.array([1], pa.timestamp("ns")), [pd.Timestamp(1)], np.array([1], "M8[ns]")):
        raw = frame_of({"c": column})["c"]
        with pytest.raises(hg.DtypeError, match="c, row 0"):
            of_values(raw, "c").completed(raw, "c")


@pytest.mark.parametrize(
    ("values", "places", "row"),
    [
        ([0.5, 1 + 2**-31], 1, 1),
        ([0.1, 0.1 + 0.2], 1, 1),
        ([1.0, 2.0, 3 + 2**-30], 0, 2),
        ([2.0**53], 0, 0),
        ([0.0, 1.0, float("inf")], 2, 2),
    ],
)
def test_floats_are_exact_or_refused(values: list[float], places: int, row: int) -> None:
    """A float stands for the decimal that rounds to it. For other floats, the error names their row."""
    column = hg.sql.Column("decimal", places=places)
    for array in (np.array(values), np.array(values, object)):
        raw = array, np.ones(len(values), bool)
        with pytest.raises(hg.DtypeError, match=f"c, row {row}: "):
            column.completed(raw, "c")
    exact = np.array([0.1, 0.7, 1e6 + 0.1, -0.3])
    assert hg.sql.Column("decimal", places=1).completed((exact, np.ones(4, bool)), "c").high == 10**7 + 1


def test_errors_name_the_row_at_fault() -> None:
    """The row in an error is the row of the invalid value, also if NULLs precede it."""
    raw = frame_of({"t": ["a", None, "b", "zz"]})["t"]
    with pytest.raises(hg.PlaintextRangeError, match="t, row 3: 'zz' is none of the column's 2 texts"):
        hg.sql.Column("text", values=["a", "b"]).numbers(raw, "t")
    raw = frame_of({"n": [None, 5, 2**53 + 1]})["n"]
    with pytest.raises(hg.DtypeError, match="n, row 2: 9007199254740993 is not between"):
        of_values(raw, "n").completed(raw, "n")
    raw = frame_of({"n": [2**53 + 1, 0.5]})["n"]
    with pytest.raises(hg.DtypeError, match="n holds real numbers"):
        of_values(raw, "n").completed(raw, "n")


def test_arrow_beyond_64_bits() -> None:
    """Sums become Arrow decimals, as in DuckDB. If a sum exceeds 76 digits, the error names the column."""
    data = {"x": [2**31 - 1] * 8, "y": [2**31 - 1] * 8}
    secret, _, server = served(hg.sql.layout(data, sums=["x * y"]), data)
    table = server.sql("SELECT SUM(x * y) AS total, SUM(x * y) AS total, COUNT(*) FROM t").decrypt(secret).to_arrow()
    total = 8 * (2**31 - 1) ** 2
    assert [column.to_pylist() for column in table.columns] == [[total], [total], [8]]
    assert table.schema.types[::2] == [pa.decimal128(38), pa.int64()]
    wide = hg.sql.Result(["n", "m"], [(10**50, 1), (None, -(2**63))]).to_arrow()
    assert wide.schema.types == [pa.decimal256(76), pa.int64()]
    assert wide.column("n").to_pylist() == [10**50, None]
    with pytest.raises(hg.PlaintextRangeError, match="column n holds a number of 81 characters"):
        hg.sql.Result(["n"], [(10**80,)]).to_arrow()
    with pytest.raises(hg.PlaintextRangeError, match="column d holds"):
        hg.sql.Result(["d"], [(Decimal(10) ** 80,)]).to_arrow()


@pytest.mark.full
def test_queries_against_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of the benchmark reports no difference. If a fault is injected, the comparison reports the differences."""
    from benchmarks.runners import query_agreement

    told = query_agreement.measure(7, 20)
    assert told["disagreements"] == []
    assert told["bgv"]["answered"] + told["tfhe"]["answered"] == 20
    monkeypatch.setattr("heliograph.sql.answers.nullable", lambda names, columns: ())
    monkeypatch.setattr("heliograph.sql.slot_plan.nullable", lambda names, columns: ())
    told = {"disagreements": []}
    query_agreement.compare(7, 25, False, told)
    assert told["disagreements"]
