"""Compares encrypted data frames with pandas: statistics, groups and files. Also tests typed errors."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import heliograph as hg


class Rig:
    """An owner, a server, and one frame in two forms: encrypted and in clear."""

    def __init__(self, frame: Any, parameters: hg.frame.Parameters | None = None, **options: Any) -> None:
        self.clear = frame
        self.parameters = parameters or hg.frame.parameters_for(frame, **options)
        self.owner = hg.frame.SecretKey.generate(self.parameters)
        self.server = hg.frame.Server(self.owner.evaluation_keys())
        self.frame = self.server.bind(self.owner.encrypt(frame))

    def found(self, answer: hg.frame.Answer) -> Any:
        """Returns the decrypted answer after it was written to bytes and read again."""
        return self.owner.decrypt(hg.frame.Answer.from_bytes(answer.to_bytes()))


def random_frame(seed: int, rows: int = 60) -> pd.DataFrame:
    """Returns columns of all kinds; for every second seed they have NULLs."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(rng.uniform(-50, 50), 10 ** rng.uniform(-3, 3), rows),
            "b": rng.uniform(-1, 1, rows),
            "c": rng.exponential(3.0, rows),
            "n": rng.integers(-40, 100, rows),
            "m": rng.integers(0, 9, rows),
            "flag": rng.random(rows) < 0.3,
            "region": rng.choice(["east", "north", "south"], rows),
        }
    )
    if seed % 2:
        frame["n"] = frame["n"].astype("Int64")
        for name in ("b", "c", "n", "region"):
            frame.loc[rng.random(rows) < 0.3, name] = None
    return frame


REALS, EXACT = ["a", "b", "c"], ["n", "m", "flag"]


@pytest.fixture(scope="module", params=[0, 1, 3])
def rig(request: pytest.FixtureRequest) -> Rig:
    """Returns a frame without NULLs and two frames with NULLs, one at a time."""
    return Rig(random_frame(request.param), depth=3 + request.param % 2)


def alike(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    """Checks that two results have the same labels and nearly the same values."""
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(
            found.astype(float), expected.astype(float), rtol=tolerance, atol=1e-9, check_names=False
        )
    else:
        pd.testing.assert_series_equal(
            found.astype(float), expected.astype(float), rtol=tolerance, atol=1e-9, check_names=False
        )


@pytest.mark.parametrize("name", ["sum", "count", "mean", "var", "std"])
def test_statistics_of_columns(rig: Rig, name: str) -> None:
    """Statistics of real and exact columns skip NULLs, as in pandas."""
    for columns in (REALS, EXACT, REALS + EXACT):
        clear = rig.clear[columns].astype({"flag": int}) if "flag" in columns else rig.clear[columns]
        alike(rig.found(getattr(rig.frame[columns], name)()), getattr(clear, name)())


def test_exact_sums_are_exact(rig: Rig) -> None:
    """Sums and products of exact columns are integers."""
    assert rig.found(rig.frame["n"].sum()) == int(rig.clear["n"].sum())
    product = rig.found((rig.frame["n"] * rig.frame["m"] - 3).sum())
    assert product == int((rig.clear["n"] * rig.clear["m"] - 3).sum())
    assert isinstance(product, int)


def test_describe(rig: Rig) -> None:
    """describe takes columns of both kinds and skips texts."""
    expected = rig.clear[REALS + EXACT].astype(float).describe().loc[["count", "mean", "std"]]
    alike(rig.found(rig.frame.describe()), expected)


@pytest.mark.parametrize("name", ["cov", "corr"])
def test_pairs(rig: Rig, name: str) -> None:
    """Covariances and correlations use the rows in which both columns have values."""
    reals, every = rig.frame[REALS], rig.frame[REALS + EXACT].astype(float)
    alike(rig.found(getattr(reals, name)()), getattr(rig.clear[REALS], name)())
    alike(rig.found(getattr(every, name)()), getattr(rig.clear[REALS + EXACT].astype(float), name)())
    alike(rig.found(getattr(rig.frame[EXACT], name)()), getattr(rig.clear[EXACT].astype(float), name)())
    found = rig.found(getattr(rig.frame["a"], name)(rig.frame["c"]))
    assert found == pytest.approx(getattr(rig.clear["a"], name)(rig.clear["c"]), rel=1e-6)


def test_arithmetic(rig: Rig) -> None:
    """Sums, products and powers of columns are NULL where an operand is NULL."""
    f, c = rig.frame, rig.clear
    cases = [
        (f["a"] * f["b"], c["a"] * c["b"]),
        (f["a"] - f["b"], c["a"] - c["b"]),
        (2 - f["c"] / 4, 2 - c["c"] / 4),
        (f["b"] ** 2 + f["c"], c["b"] ** 2 + c["c"]),
        (f["n"].astype(float) * f["b"], c["n"].astype(float) * c["b"]),
        (-f["b"] + f["b"], -c["b"] + c["b"]),
    ]
    for found, expected in cases:
        assert rig.found(found.count()) == expected.count()
        assert rig.found(found.mean()) == pytest.approx(expected.mean(), rel=1e-6, abs=1e-7)


def test_groups(rig: Rig) -> None:
    """Aggregations of groups have the labels of pandas. Rows whose key is NULL are in no group."""
    requests = {"a": ["mean", "std"], "b": ["count", "var"], "n": "sum"}
    found = rig.found(rig.frame.groupby("region").agg(requests))
    expected = rig.clear.groupby("region").agg(requests)
    alike(found, expected)
    assert found.index.name == "region"
    series = rig.found(rig.frame.groupby("region")["c"].mean())
    alike(series, rig.clear.groupby("region")["c"].mean())
    assert series.name == "c"
    alike(rig.found(rig.frame.groupby("flag")[["m"]].sum()), rig.clear.groupby("flag")[["m"]].sum())


def test_forms_of_aggregations(rig: Rig) -> None:
    """Lists, dicts, named results and a list with one key give the labels of pandas."""
    f, c = rig.frame, rig.clear
    for use in (
        lambda t: t.groupby(["region"])["a"].mean(),
        lambda t: t.groupby("region")["a"].agg(["mean", "count"]),
        lambda t: t.groupby("region").agg(total=("n", "sum"), middle=("a", "mean")),
        lambda t: t.groupby("region")[["a", "n"]].agg(["sum"]),
    ):
        found, expected = rig.found(use(f)), use(c)
        alike(found, expected)
        if isinstance(expected, pd.DataFrame):
            assert list(found.columns) == list(expected.columns)
    groups = f.groupby("region")
    wrong: list[Callable[[], Any]] = [
        lambda: groups.agg({"a": ["mean", "mean"]}),
        lambda: groups["a"].agg({"a": "mean"}),
        lambda: groups.agg(np.mean),
        lambda: groups.agg(),
        lambda: groups.agg([]),
        lambda: groups.agg({"a": [["mean"]]}),
        lambda: groups.agg(total="a"),
        lambda: groups.agg("mean", total=("a", "sum")),
        lambda: f.groupby([]),
        lambda: f.groupby(["region", "region"]),
    ]
    for use_of in wrong:
        with pytest.raises(hg.ParameterError):
            use_of()
    with pytest.raises(KeyError, match="the selection has no column 'b'"):
        groups[["a"]].agg({"b": "mean"})


@pytest.mark.parametrize("seed", [0, 1])
def test_groups_of_several_columns(seed: int) -> None:
    """Each combination of keys that occurs in some row is a group."""
    frame = random_frame(seed, 20)
    rig = Rig(frame, depth=4)
    for use in (
        lambda t: t.groupby(["region", "flag"]).agg({"b": ["mean", "std"], "m": "sum"}),
        lambda t: t.groupby(["flag", "region"])["n"].agg(["sum", "var"]),
    ):
        found, expected = rig.found(use(rig.frame)), use(frame)
        alike(found, expected)
        assert found.index.names == expected.index.names
    many = Rig({name: [f"{name}{k}" for k in range(40)] for name in "ab"} | {"x": np.arange(40.0)}, copies=False)
    with pytest.raises(hg.ParameterError, match="1,600 combinations"):
        many.frame.groupby(["a", "b"])


def test_groups_without_values() -> None:
    """A group that has only NULLs sums to 0 and has no mean; a group of one row has no deviation."""
    frame = pd.DataFrame({"k": ["a", "a", "b", None], "x": [1.5, 2.0, np.nan, 3.0], "n": pd.array([1, 2, None, 4], "Int64")})
    rig = Rig(frame)
    found = rig.found(rig.frame.groupby("k").agg(["sum", "count", "mean", "std"]))
    alike(found, frame.groupby("k").agg(["sum", "count", "mean", "std"]))
    assert found.loc["b", ("x", "sum")] == 0


def test_least_squares(rig: Rig) -> None:
    """Coefficients are computed from the complete rows and are within the stated error."""
    rows = rig.clear[["a", "b", "c", "n"]].dropna().astype(float)
    found = rig.found(rig.frame.astype(float).least_squares("b", ["a", "c", "n"]))
    design = np.column_stack([np.ones(len(rows)), rows[["a", "c", "n"]]])
    expected = np.linalg.lstsq(design, rows["b"].to_numpy(), rcond=None)[0]
    assert list(found.index) == ["intercept", "a", "c", "n"]
    assert found.attrs["rows"] == len(rows)
    assert np.abs(found.to_numpy()[1:] - expected[1:]).max() < found.attrs["error"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_exact_least_squares() -> None:
    """Normal equations of exact columns give the exact solution."""
    x = np.arange(20)
    rig = Rig({"x": x, "y": 3 * x - 7})
    found = rig.found(rig.frame.least_squares("y", ["x"]))
    np.testing.assert_allclose(found, [-7, 3], rtol=1e-12)
    assert found.attrs["r2"] == pytest.approx(1)


@pytest.mark.parametrize("nulls", [False, True])
def test_logistic_regression(nulls: bool) -> None:
    """Probabilities agree with scikit-learn's, also for columns whose values are far from 0."""
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, (500, 3))
    label = rng.random(500) < 1 / (1 + np.exp(-x @ [1, -0.7, 0.4] - 0.3))
    frame = pd.DataFrame({"u": 40 + 10 * x[:, 0], "v": x[:, 1], "w": 1e-3 * x[:, 2] * 100, "label": label})
    if nulls:
        frame.loc[rng.random(500) < 0.1, "v"] = None
    rig = Rig(frame, depth=4 if nulls else 3)
    found = rig.found(rig.frame.logistic_regression("label", ["u", "v", "w"], l2=0.5))
    rows = frame.dropna()
    features = rows[["u", "v", "w"]].to_numpy()
    expected = linear.LogisticRegression(C=2.0, tol=1e-10, max_iter=10000).fit(features, rows["label"].astype(bool))
    z = features @ found[["u", "v", "w"]].to_numpy() + found["intercept"]
    assert np.abs(1 / (1 + np.exp(-z)) - expected.predict_proba(features)[:, 1]).max() < 0.005
    assert found.attrs["rows"] == len(rows)
    assert 0.001 < found.attrs["error"] < 0.05


def test_decimals() -> None:
    """Sums of decimals keep the number of their decimal places."""
    frame = {"price": [Decimal("10.25"), None, Decimal("0.75")], "quantity": [3, 4, 5]}
    rig = Rig(frame)
    assert rig.found(rig.frame["price"].sum()) == Decimal("11.00")
    assert rig.found((rig.frame["price"] * rig.frame["quantity"] + Decimal("0.5")).sum()) == Decimal("35.50")
    assert rig.found(rig.frame["price"].mean()) == 5.5
    assert rig.found(rig.frame["price"].astype(float).mean()) == pytest.approx(5.5)


def test_many_rows() -> None:
    """Statistics are right for columns of several ciphertexts, of which the last is partly filled."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(0, 1, 20_011), "n": rng.integers(0, 1000, 20_011)})
    rig = Rig(frame, depth=1)
    assert rig.parameters.blocks("ckks") > 1
    assert rig.parameters.blocks("bgv") > 1
    alike(rig.found(rig.frame.mean()), frame.mean())
    alike(rig.found(rig.frame.std()), frame.std())
    assert rig.found((rig.frame["n"] * rig.frame["n"]).sum()) == int((frame["n"] ** 2).sum())


def test_one_row_and_constants() -> None:
    """As in pandas, one row has no standard deviation, and a constant column has a deviation of 0 and no correlation."""
    one = Rig(pd.DataFrame({"x": [3.5], "n": [2]}))
    alike(one.found(one.frame.mean()), one.clear.mean())
    assert one.found(one.frame.std()).isna().all()
    same = Rig(pd.DataFrame({"x": [3.5] * 4, "y": [1.0, 2.0, 4.0, 3.0], "n": [2] * 4}))
    with pytest.warns(hg.HeliographWarning, match="deviation of x is less than its error"):
        alike(same.found(same.frame.std()), same.clear.std())
    with pytest.warns(hg.HeliographWarning):
        alike(same.found(same.frame.astype(float).corr()), same.clear.astype(float).corr())
    with pytest.warns(hg.HeliographWarning), pytest.raises(hg.ParameterError, match="constant or linearly dependent"):
        same.found(same.frame.least_squares("y", ["x"]))


def test_columns_without_values() -> None:
    """A column that has only NULLs counts 0 and has no mean."""
    rig = Rig(pd.DataFrame({"x": [np.nan, np.nan], "y": [1.0, 2.0]}))
    assert rig.found(rig.frame.count()).to_dict() == {"x": 0, "y": 2}
    assert np.isnan(rig.found(rig.frame["x"].mean()))
    assert np.isnan(rig.found(rig.frame.corr()).loc["x", "y"])


def test_files(tmp_path: Path) -> None:
    """Owner and server exchange everything by files."""
    frame = random_frame(1)
    params = hg.frame.parameters_for(frame)
    owner = hg.frame.SecretKey.generate(params)
    owner.save(tmp_path / "owner")
    owner.evaluation_keys().save(tmp_path / "keys.hg")
    owner.encrypt(frame).save(tmp_path / "frame.hg")
    assert (tmp_path / "owner" / "ckks.hg").stat().st_mode & 0o077 == 0
    assert (tmp_path / "frame.hg").stat().st_size == pytest.approx(params.nbytes, rel=0.05)

    server = hg.frame.Server(hg.frame.EvaluationKeys.load(tmp_path / "keys.hg"))
    f = server.load(tmp_path / "frame.hg")
    assert f.parameters.columns == params.columns
    f.groupby("region").agg({"a": "mean"}).save(tmp_path / "answer.hg")

    again = hg.frame.SecretKey.load(tmp_path / "owner")
    found = again.decrypt(hg.frame.Answer.load(tmp_path / "answer.hg"))
    alike(found, frame.groupby("region").agg({"a": "mean"}))
    with pytest.raises(hg.FormatError, match=r"must hold heliograph\.frame"):
        server.load(tmp_path / "answer.hg")
    damaged = bytearray((tmp_path / "frame.hg").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(hg.DamagedFileError):
        server.from_bytes(bytes(damaged))


def test_categories_of_integers() -> None:
    """Integer categories remain integers, also with NULLs."""
    for values in ([1, 2, 2], [1, None, 2]):
        column = hg.frame.parameters_for(pd.DataFrame({"k": pd.Categorical(values)})).columns["k"]
        assert (column.kind, column.low, column.high) == ("int", 1, 2)


def test_sources() -> None:
    """Arrow tables, pandas categories and masked arrays are read in the same way as pandas frames."""
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"x": [1.5, None, 2.5], "k": ["a", "b", None], "n": [1, None, 3]})
    categories = pd.DataFrame({"x": [1.5, None, 2.5], "k": pd.Categorical(["a", "b", None]), "n": pd.array([1, None, 3])})
    masked = {
        "x": np.ma.masked_array([1.5, 9.0, 2.5], [False, True, False]),
        "k": ["a", "b", None],
        "n": np.ma.masked_array([1, 9, 3], [False, True, False]),
    }
    for source in (table, categories, masked):
        rig = Rig(source)
        assert rig.found(rig.frame["x"].mean()) == pytest.approx(2.0)
        assert rig.found(rig.frame["n"].sum()) == 4
        assert rig.found(rig.frame.groupby("k")["x"].count()).to_dict() == {"a": 1, "b": 0}


def test_polars() -> None:
    """A polars frame is read by way of Arrow."""
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"x": [1.5, None, 2.5], "n": [1, 2, None]})
    for source in (table, {name: table[name] for name in table.columns}):
        rig = Rig(source)
        assert rig.found(rig.frame["x"].mean()) == pytest.approx(2.0)
        assert rig.found(rig.frame["n"].sum()) == 3
        assert isinstance(rig.found(rig.frame["n"].sum()), int)
    with pytest.raises(hg.DtypeError, match="cannot convert this DataFrame to Arrow"):
        hg.frame.parameters_for(table.with_columns(polars.col("n").cast(polars.Int128)))
    with pytest.raises(hg.PlaintextRangeError, match="x is NaN in row 1, which is no NULL"):
        hg.frame.parameters_for(polars.DataFrame({"x": [1.0, float("nan"), None]}))


def test_columns_of_two_kinds_do_not_mix(rig: Rig) -> None:
    """An exact column becomes real only by astype."""
    f = rig.frame
    mixes: list[Callable[[], Any]] = [
        lambda: f["a"] + f["n"],
        lambda: f["a"] * f["n"],
        lambda: f[REALS + EXACT].corr(),
        lambda: f["a"].cov(f["n"]),
    ]
    for mix in mixes:
        with pytest.raises(hg.DtypeError, match=r"is exact: write \w+\.astype\(float\)"):
            mix()
    with pytest.raises(hg.DtypeError, match="takes integers and decimal"):
        f["n"] * 0.5
    with pytest.raises(hg.ParameterError, match="no copy as reals"):
        (f["n"] * 2).astype(float)
    assert not f["n"].astype(float).is_exact


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        ({}, hg.ShapeError, "at least one column"),
        ({"x": []}, hg.ShapeError, "without rows"),
        ({"x": [1.0, np.inf]}, hg.PlaintextRangeError, "infinite in row 1"),
        ({"x": [1.0, 1e300]}, hg.PlaintextRangeError, "change its unit"),
        ({"x": [1.0], "y": [1, 2]}, hg.ShapeError, "lengths 1, 2"),
        ({"x": [1j]}, hg.DtypeError, "x"),
        ({"x": np.array(["2026-01-01"], "datetime64[D]")}, hg.DtypeError, "dates"),
        ({"x": [1, "a"]}, hg.DtypeError, "one kind"),
        ({3: [1.0]}, hg.DtypeError, "name must be a string"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), hg.ParameterError, "two columns called"),
        ({"x": [[1.0, 2.0]]}, hg.HeliographError, "x"),
        ({"x": [None, None], "y": [1, 2]}, hg.DtypeError, "x has only NULLs"),
        (pd.DataFrame({"x": pd.array([None], "Int64")}), hg.DtypeError, "declare the column's kind"),
        ({"x": [1.5, True, None]}, hg.DtypeError, "row 1, True: the values of a column must be of one kind"),
        ({"x": [1.5, Decimal("2.5")]}, hg.DtypeError, "of one kind"),
        ({"x": [10**17]}, hg.DtypeError, "range of a column"),
        ({"x": [f"t{k}" for k in range(300)]}, hg.ParameterError, "300 texts"),
        ([1, 2], hg.DtypeError, "must be a pandas.DataFrame"),
    ],
)
def test_refused_frames(frame: Any, error: type[Exception], message: str) -> None:
    """Frames that have no encrypted form raise typed errors."""
    with pytest.raises(error, match=message):
        hg.frame.parameters_for(frame)


def test_refused_sets() -> None:
    """Errors are raised for a precision at which counts may be wrong, and for exact products without a set."""
    with pytest.raises(hg.ParameterError, match="need a precision of 9 bits, not 6"):
        hg.frame.parameters_for({"x": [0.5] * 100}, precision=6)
    with pytest.raises(hg.ParameterError, match="above the maximum of 100"):
        hg.frame.parameters_for({"n": [1 << 40]}, factors=3)
    with pytest.raises(hg.ParameterError, match="columns= has 'y'"):
        hg.frame.parameters_for({"x": [0.5]}, columns={"y": hg.frame.Real()})
    with pytest.raises(hg.ParameterError, match="low must be below"):
        hg.frame.Real(3, 1)


def test_refused_values(rig: Rig) -> None:
    """A frame must have the columns, rows and bounds that its parameters state."""
    wide = rig.clear.copy()
    wide.loc[2, "a"] = 1e9
    with pytest.raises(hg.PlaintextRangeError, match="a, row 2: 1e\\+09 is outside the column's bounds"):
        rig.owner.encrypt(wide)
    with pytest.raises(hg.ShapeError, match="parameters 60"):
        rig.owner.encrypt(rig.clear.iloc[:-1])
    with pytest.raises(hg.ShapeError, match="columns must be"):
        rig.owner.encrypt(rig.clear.drop(columns="a"))
    if not rig.parameters.columns["a"].nullable:
        with pytest.raises(hg.PlaintextRangeError, match="is NULL in row 5"):
            rig.owner.encrypt(rig.clear.assign(a=[None if k == 5 else 0.0 for k in range(60)]))


def test_refused_uses(rig: Rig) -> None:
    """Wrong uses of a frame raise errors that name the remedy."""
    f = rig.frame
    with pytest.raises(KeyError, match="no column 'z'"):
        f["z"]
    with pytest.raises(hg.DtypeError, match="rows cannot be selected"):
        f[f["a"]]
    with pytest.raises(hg.DtypeError, match="groupby"):
        f["region"]
    with pytest.raises(hg.DtypeError, match="select columns"):
        f.mean()
    with pytest.raises(hg.DtypeError, match="cannot group by n"):
        f.groupby("n")
    with pytest.raises(hg.ParameterError, match="not 'median'"):
        f.groupby("region").agg("median")
    with pytest.raises(hg.ParameterError, match="ddof"):
        f["a"].var(ddof=-1)
    with pytest.raises(hg.DtypeError, match="target"):
        f.logistic_regression("n", ["a"])
    with pytest.raises(hg.ParameterError, match="features"):
        f.least_squares("a", ["a", "b"])
    with pytest.raises(TypeError, match="truth value"):
        bool(f["a"])
    with pytest.raises(hg.DtypeError, match="compute a statistic first"):
        rig.owner.decrypt(f)  # type: ignore[arg-type]
    with pytest.raises(hg.LevelError):
        f["a"] ** 32
    for use in (lambda: f["b"].gt(0, gap=0.01), lambda: f["b"].median(), lambda: f["b"].clip(upper=0)):
        with pytest.raises(hg.LevelError, match=r"takes more levels than the \d that .* has left: make the frame with"):
            use()


def test_two_owners(rig: Rig) -> None:
    """Frames of two owners cannot be combined, and an owner can decrypt only answers for its own key."""
    other = Rig(rig.clear, rig.parameters)
    with pytest.raises(hg.MismatchError, match="different frames"):
        rig.frame["a"] + other.frame["a"]
    with pytest.raises(hg.WrongKeyError):
        other.owner.decrypt(rig.frame["a"].mean())
    with pytest.raises(hg.WrongKeyError):
        rig.server.bind(other.owner.encrypt(rig.clear))
    with pytest.raises(hg.MissingKeyError, match="bind"):
        rig.owner.encrypt(rig.clear)["a"]


def test_exact_results_that_exceed_their_modulus() -> None:
    """An exact product beyond the plaintext modulus raises an error instead of returning a wrong number."""
    rig = Rig({"n": [1000, -999, 77]})
    with pytest.raises((hg.RoomError, hg.NoiseError, hg.PlaintextRangeError)):
        rig.found((rig.frame["n"] ** 4).sum())
    three = Rig({"n": [1000, -999, 77]}, factors=4)
    assert three.found((three.frame["n"] ** 4).sum()) == 1000**4 + 999**4 + 77**4


def test_separable_classes() -> None:
    """A logistic regression that has no minimum raises an error."""
    x = np.linspace(-1, 1, 200)
    rig = Rig({"x": x, "y": x > 0})
    with pytest.raises(hg.NoiseError, match="nearly separable"):
        rig.found(rig.frame.logistic_regression("y", ["x"], l2=0.0))
    same = Rig({"x": x, "y": np.ones(200, bool)})
    with pytest.raises(hg.ParameterError, match="are equal"):
        same.found(same.frame.logistic_regression("y", ["x"]))


def test_tampered_headers(rig: Rig) -> None:
    """An answer is refused if its header does not match its sums."""
    answer = rig.frame["a"].mean()
    changes: list[dict[str, Any]] = [
        {"statistic": "magic"},
        {"statistic": "cov"},
        {"variables": [{"name": 3}]},
        {"variables": []},
    ]
    for change in changes:
        with pytest.raises(hg.DamagedFileError):
            rig.owner.decrypt(hg.frame.Answer({**answer.header, **change}, answer._tensors))
    with pytest.raises(hg.DamagedFileError):
        hg.frame.Parameters.of_data({**rig.parameters.data(), "rows": 0}, None, None)


def test_standardize() -> None:
    """Standardized columns have mean 0 and deviation 1 and can be used in further statistics."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"x": rng.normal(50, 8, 100), "y": rng.normal(0, 1, 100), "n": rng.integers(0, 9, 100)})
    params = hg.frame.parameters_for(frame, depth=14)
    owner = hg.frame.SecretKey.generate(params)
    f = hg.frame.Server(owner.evaluation_keys(standardize=True)).bind(owner.encrypt(frame))
    z = f["x"].standardize((4, 16))
    expected = (frame["x"] - frame["x"].mean()) / frame["x"].std(ddof=0)
    assert owner.decrypt((z * f["y"]).mean()) == pytest.approx((expected * frame["y"]).mean(), abs=1e-4)
    assert owner.decrypt((z * z * z).mean()) == pytest.approx((expected**3).mean(), abs=1e-3)
    with pytest.raises(hg.DtypeError, match=r"write n\.astype\(float\)"):
        f["n"].standardize((1, 2))
    with pytest.raises(hg.OutOfIntervalError, match="the variances of standardize"):
        owner.decrypt(f["x"].standardize((1, 2)).mean())
    with pytest.raises(hg.ParameterError, match="two positive numbers"):
        f["x"].standardize((0, 2))
    plain = hg.frame.Server(owner.evaluation_keys()).bind(owner.encrypt(frame))
    with pytest.raises(hg.MissingKeyError):
        plain["x"].standardize((4, 16))


@pytest.fixture(scope="module")
def deep() -> Rig:
    """A frame for functions, with NULLs."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(2, 8, 50),
            "y": rng.uniform(-1, 1, 50),
            "n": rng.integers(0, 7, 50),
            "k": rng.choice(["a", "b"], 50),
            "new": rng.random(50) < 0.5,
        }
    )
    frame.loc[rng.random(50) < 0.2, "x"] = None
    return Rig(frame, columns={"x": hg.frame.Real(2, 8), "y": hg.frame.Real(-1, 1)}, depth=16, precision=24)


def test_quotients(deep: Rig) -> None:
    """A quotient is NULL where an operand is NULL; a divisor that may be 0 raises an error."""
    f, c = deep.frame, deep.clear
    n = f["n"].astype(float)
    for found, expected in (
        (f["y"] / f["x"], c["y"] / c["x"]),
        (3 / f["x"], 3 / c["x"]),
        (f["x"] / (n + 1), c["x"] / (c["n"] + 1)),
        (f["y"] / (f["x"] * f["x"]), c["y"] / c["x"] ** 2),
        (f["y"].divide(-f["x"], domain=(-9, -1)), -c["y"] / c["x"]),
    ):
        assert deep.found(found.count()) == expected.count()
        assert deep.found(found.sum()) == pytest.approx(expected.sum(), abs=1e-3)
        assert found.variable.error < 1e-3
    with pytest.raises(hg.ParameterError, match=r"cannot divide by y: its values may be in \[-1, 1\], which has 0 inside"):
        f["x"] / f["y"]
    with pytest.raises(hg.DtypeError, match=r"write n\.astype\(float\)"):
        f["x"] / f["n"]
    with pytest.raises(hg.PlaintextRangeError, match=r"outside the domain \[9, 20\]"):
        f["y"].divide(f["x"], domain=(9, 20))
    with pytest.raises(hg.OutOfIntervalError, match="inverse"):
        deep.found(f["y"].divide(f["x"], domain=(4, 6)).mean())
    with pytest.raises(hg.DtypeError, match="finite numbers"):
        f["x"] + 10**400
    with pytest.raises(hg.DtypeError, match="write column / number"):
        f["x"].divide(2)  # type: ignore[arg-type]


def test_comparisons_and_choices(deep: Rig) -> None:
    """Counts of comparisons are exact, and comparisons can select the rows of statistics."""
    f, c = deep.frame, deep.clear
    n = f["n"].astype(float)
    for found, expected in (
        (n > 2, c["n"] > 2),
        (n >= 4, c["n"] >= 4),
        (n * n <= 6.5, c["n"] ** 2 <= 6.5),
        (n.ne(5), c["n"] != 5),
        (f["y"].lt(0, gap=2**-9), c["y"] < 0),
        (1 - 2 * n < -4, 1 - 2 * c["n"] < -4),
        (f["y"].gt(1000, gap=0.01), c["y"] > 1000),
    ):
        assert deep.found(found.sum()) == pytest.approx(expected.sum(), abs=1e-3)
    kept = f["x"].where(n < 4)
    expected = c["x"].where(c["n"] < 4)
    assert deep.found(kept.count()) == expected.count()
    assert deep.found(kept.mean()) == pytest.approx(expected.mean(), abs=1e-3)
    assert deep.found(f["n"].where(f["new"]).sum()) == c["n"].where(c["new"]).sum()
    assert deep.found(f["x"].where(f["new"].astype(float)).mean()) == pytest.approx(c["x"].where(c["new"]).mean(), rel=1e-6)
    with pytest.raises(hg.ParameterError, match=r"needs a gap: .*write y\.gt\(number, gap=...\)"):
        f["y"] > 0  # noqa: B015
    with pytest.raises(hg.ParameterError, match=r"7\.5 is no value of n"):
        n == 7.5  # noqa: B015
    with pytest.raises(hg.DtypeError, match=r"write n\.astype\(float\)"):
        f["n"] > 3  # noqa: B015
    with pytest.raises(hg.DtypeError, match="where takes a column of truth values"):
        f["x"].where(f["y"])
    with pytest.raises(hg.DtypeError, match="is exact"):
        f["x"].where(f["new"])


def test_limited_values(deep: Rig) -> None:
    """Limited values are NULL where the column is NULL; limits that no value fulfils raise an error."""
    f, c = deep.frame, deep.clear
    for limits in ((None, 5), (4, None)):
        found = f["x"].clip(*limits, error=2**-6)
        assert deep.found(found.count()) == c["x"].count()
        assert deep.found(found.mean()) == pytest.approx(c["x"].clip(*limits).mean(), abs=3 * 2**-6)
    for limits in ((5, 4), (9, 10), (float("nan"), 5)):
        with pytest.raises(hg.ParameterError):
            f["x"].clip(*limits)


def test_quantiles(deep: Rig) -> None:
    """Quantiles of integers are exact, and quantiles of reals are within the stated error; NULLs are not counted."""
    f, c = deep.frame, deep.clear
    whole = deep.found(f[["n"]].astype(float).quantile([0, 0.25, 0.5, 1], bins=8))
    pd.testing.assert_frame_equal(whole, c[["n"]].quantile([0, 0.25, 0.5, 1]), check_names=False, atol=1e-12)
    assert whole.attrs["error"]["n"] < 1e-12
    found = deep.found(f[["x"]].describe(percentiles=[0.25, 0.5], bins=8))
    expected = c[["x"]].describe(percentiles=[0.25, 0.5])
    assert list(found.index) == list(expected.index)
    alike(found.iloc[:3], expected.iloc[:3])
    assert (found - expected).iloc[3:].abs().to_numpy().max() <= found.attrs["error"]["x"] <= 1.5 * 6 / 8 + 1e-9
    groups = deep.found(f.astype(float).groupby("k")["n"].median(bins=8))
    answer = f["n"].astype(float).max(bins=8)
    limits = answer.header["limits"][0]
    for change in ({"edges": ["a"]}, {"edges": [2.0, 1.0]}, {"edges": []}, {"step": 1e-320}, {"low": None}):
        with pytest.raises(hg.DamagedFileError):
            deep.owner.decrypt(hg.frame.Answer({**answer.header, "limits": [{**limits, **change}]}, answer._tensors))
    for q in (["x"], [], [2.0], 3):
        with pytest.raises(hg.DamagedFileError):
            deep.owner.decrypt(hg.frame.Answer({**answer.header, "q": q}, answer._tensors))
    pd.testing.assert_series_equal(groups, c.groupby("k")["n"].median(), atol=1e-12)
    assert deep.found(answer) == c["n"].max()
    with pytest.raises(hg.DtypeError, match=r"write n\.astype\(float\)"):
        f["n"].median()
    for q in (-0.1, 1.5, "a", [], [0.5, None]):
        with pytest.raises(hg.ParameterError, match="a quantile must be"):
            f["x"].quantile(q)  # type: ignore[arg-type]
    with pytest.raises(hg.ParameterError, match="bins"):
        f["x"].quantile(bins=1)


def test_forecast(rig: Rig) -> None:
    """A forecast states the number of bytes of the answer, and computes nothing."""
    forecast = rig.frame.forecast(lambda f: f[REALS].cov())
    assert forecast.result_bytes == rig.frame[REALS].cov().nbytes
    with pytest.raises(hg.DtypeError, match="must return an answer"):
        rig.frame.forecast(lambda f: f["a"])


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The regressions of the example agree with those of scikit-learn."""
    pytest.importorskip("sklearn")
    runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "data_frame.py"), run_name="__main__")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("largest difference")]
    assert [float(line.rpartition(" ")[2]) < limit for line, limit in zip(lines, (1e-6, 0.01), strict=True)] == [True, True]


def test_the_notebook() -> None:
    """All cells of the notebook run, and its results agree with those of pandas and scikit-learn."""
    pytest.importorskip("sklearn")
    path = Path(__file__).resolve().parents[2] / "examples" / "tables.ipynb"
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
    limits = {
        **{"describe_error": 1e-8, "corr_error": 1e-7, "group_error": 1e-7, "least_squares_error": 1e-4},
        **{"logistic_error": 0.01, "where_error": 1e-3, "ratio_error": 1e-4},
    }
    assert {name: bool(names[name] < limit) for name, limit in limits.items()} == dict.fromkeys(limits, True)
    stated = names["found"] is not None and names["quartile_errors"]
    assert stated.iloc[:3].to_numpy().max() < 1e-5
    assert stated.iloc[3:].to_numpy().max() < 1.5 * (15 - 11) / 12
