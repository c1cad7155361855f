"""Inputs of models converted from scikit-learn: named columns, features far from zero, and their description in model files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign
from heliograph import ml

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, Ridge, SGDClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from estimator_cases import COUNT, FRAME, NAMES, SCORE, THREE, TWO, X

TURNED = FRAME[NAMES[::-1]]
KINDS = np.array(["ill", "well", "unknown"])[THREE]
FITTED = LogisticRegression().fit(FRAME, KINDS)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> hg.ModelBundle:
    """Returns the bundle of a classifier with named columns, saved and loaded."""
    path = tmp_path_factory.mktemp("names") / "named.hgm"
    made: hg.ModelBundle = ml.compile(FITTED, FRAME).export(path, samples=COUNT)
    return made


# Columns


def test_columns_by_name(bundle: hg.ModelBundle) -> None:
    """For a frame with permuted columns, the model and the client's part of its file give correct predictions."""
    model = ml.compile(FITTED, TURNED)  # the columns of the calibration samples are permuted
    assert model.report.agreement == 1
    assert np.array_equal(model.predictions(model.clear(TURNED)), FITTED.predict(FRAME))
    assert model.inside(TURNED).all()
    half = hg.ModelBundle.load(bundle.client().to_bytes())
    secret = hg.SecretKey.generate(half.parameters)
    server = hg.Server(half.keys(secret))
    for key, taker in ((secret, bundle), (secret, half)):
        values = half.decrypt(secret, bundle.run(server, taker.encrypt(key, TURNED)), like=TURNED)
        assert np.abs(values - FITTED.decision_function(FRAME)).max() < 1e-6
        assert np.array_equal(half.predict(values), FITTED.predict(FRAME))
    row = half.decrypt(secret, bundle.run(server, half.encrypt(secret, TURNED.iloc[7])), like=TURNED.iloc[7])
    assert np.abs(row - FITTED.decision_function(FRAME)[7]).max() < 1e-6
    assert "age, height, weight" in half.explain()


def test_missing_and_unknown_columns_are_refused(bundle: hg.ModelBundle) -> None:
    """Missing columns, unknown columns and column names that are not texts are refused, and the error names them."""
    secret = hg.SecretKey.generate(bundle.parameters)
    for takes in (bundle, bundle.client(), ml.compile(FITTED, FRAME)):
        for frame, message in (
            (FRAME.rename(columns={"age": "Age"}), "missing: age; not known: Age"),
            (FRAME.rename(columns={"age": "height"}), "missing: age"),
            (FRAME.drop(columns="age").assign(more=1.0), "missing: age; not known: more"),
        ):
            with pytest.raises(hg.ShapeError, match=message):
                takes.encrypt(secret, frame)
        with pytest.raises(hg.ShapeError):
            takes.encrypt(secret, FRAME.assign(more=1.0))
        with pytest.raises(hg.DtypeError, match="must be strings"):
            takes.encrypt(secret, FRAME.rename(columns={"age": 5}))
        with pytest.raises(hg.DtypeError, match="must be numbers"):
            takes.encrypt(secret, FRAME.assign(age="old"))
        with pytest.raises(hg.PlaintextRangeError, match="no number"):
            takes.encrypt(secret, FRAME.assign(age=np.nan))


def test_names_on_one_side() -> None:
    """If only the samples or only the model has column names, columns are taken in order with a warning, as in scikit-learn."""
    named, bare = ml.compile(FITTED, FRAME), ml.compile(LogisticRegression().fit(X, KINDS), X)
    with pytest.warns(UserWarning, match="the samples have no column names, but the model was fitted with names"):
        assert np.array_equal(named.predictions(named.clear(X)), FITTED.predict(FRAME))
    with pytest.warns(UserWarning, match="the samples have column names, but the model was fitted without names"):
        assert np.array_equal(bare.predictions(bare.clear(FRAME)), FITTED.predict(FRAME))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named.clear(FRAME)
        bare.clear(X)
        bare.clear(pd.DataFrame(X))
        bare.clear(X.tolist())


def test_arrow_tables_and_nullable_frames_are_accepted() -> None:
    """pyarrow tables have column names; pandas nullable types are accepted, but missing values are refused."""
    model = ml.compile(FITTED, FRAME)
    nullable = TURNED.round(3).convert_dtypes()
    assert np.abs(model.clear(nullable) - model.clear(FRAME.round(3))).max() < 1e-12
    nullable.iloc[3, 1] = pd.NA
    with pytest.raises(hg.HeliographError):
        model.clear(nullable)
    pyarrow = pytest.importorskip("pyarrow")
    assert np.array_equal(model.clear(pyarrow.Table.from_pandas(TURNED)), model.clear(FRAME))


# Features far from zero, or of extreme sizes


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler])
@pytest.mark.parametrize(("far", "spread"), [(1e5, 1.0), (1.6e9, 1e3), (-3e7, 1e-3), (0.0, 1e-9), (0.0, 1e12), (1e-3, 1e-8)])
def test_predictions_of_far_features_are_precise(scaler: Any, far: float, spread: float) -> None:
    """Encrypted predictions have the requested 25 bits; the model and its ranges are in the units of the features."""
    samples = far + spread * X
    estimator = make_pipeline(scaler(), LinearRegression()).fit(samples, SCORE)
    model = ml.compile(estimator, samples)
    own = estimator.predict(samples)
    secret = hg.SecretKey.generate(model.parameters(samples=COUNT))
    server = hg.Server(secret.evaluation_keys())
    found = model.predictions(model.decrypt(secret, model(server.bind(model.encrypt(secret, samples)))))[:COUNT]
    # scikit-learn's own results are doubles of this magnitude, with this spacing between neighbours.
    lost = 4 * np.spacing(max(abs(far), spread)) / spread
    assert np.abs(found - own).max() < 2.0**-25 + 100 * lost
    assert model.report.largest_error < 1e-12 + 100 * lost
    assert model.ranges is not None
    low, high = np.array(model.ranges.low), np.array(model.ranges.high)
    assert (low <= samples.min(0)).all()
    assert (high >= samples.max(0)).all()
    assert (high - low <= 1.3 * np.ptp(samples, axis=0)).all()
    with pytest.raises(hg.PlaintextRangeError, match="outside"):
        model.encrypt(secret, far + 10 * spread * X)


def test_far_features_of_a_perceptron(tmp_path: Path) -> None:
    """Proven intervals hold for all samples within the features' ranges; model files contain centres and units."""
    samples = 1.6e9 + 1e3 * X
    estimator = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", max_iter=200, random_state=1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(samples, SCORE)
    model = ml.compile(estimator, samples, degree=15, intervals="proven")
    assert model.ranges is not None
    assert model.ranges.proven == 1
    low, high = np.array(model.ranges.low), np.array(model.ranges.high)
    corners = np.where(np.random.default_rng(1).random((COUNT, 5)) < 0.5, low, high)
    whole = model.export(tmp_path / "far.hgm", samples=COUNT)
    half = hg.ModelBundle.load(whole.client().to_bytes())
    assert half.inputs[0].ranges == tuple(zip(model.ranges.low, model.ranges.high, strict=True))
    assert "between 1599" in half.explain()
    secret = hg.SecretKey.generate(half.parameters)
    values = half.decrypt(secret, whole.run(hg.Server(half.keys(secret)), half.encrypt(secret, corners)), like=corners)
    assert np.abs(values - model.clear(corners)).max() < 1e-5
    assert (
        np.abs(half.predict(values) - estimator.predict(corners)).max() < 1
    )  # the error of the polynomial at the ends of its interval
    with pytest.raises(
        hg.PlaintextRangeError, match=r"row 3: feature 2 is 1700000000, outside its calibrated range \[1599.*, 1600.*\]"
    ):
        half.encrypt(secret, np.where((np.arange(COUNT)[:, None] == 3) & (np.arange(5) == 2), 1.7e9, corners))


def test_values_without_room() -> None:
    """A model is refused if its decision values are smaller than CKKS's errors or exceed the room of every set. The error
    states the remedy.

    """
    faint = LogisticRegression().fit(X, TWO)
    faint.coef_, faint.intercept_ = faint.coef_ * 1e-7, faint.intercept_ * 1e-7
    for tiny in (faint, Ridge().fit(X, 1e-9 * SCORE)):
        model = ml.compile(tiny, X)
        with pytest.raises(hg.ParameterError, match=r"precision must be at least \d+, not 25"):
            model.parameters(samples=COUNT)
    zero = Perceptron().fit(X, TWO)
    zero.coef_[:], zero.intercept_[:] = 0, 0
    with pytest.raises(hg.ParameterError, match="must not all be 0"):
        ml.compile(zero, X)
    model = ml.compile(faint, X)
    secret = hg.SecretKey.generate(model.parameters(precision=30, samples=COUNT))
    values = model.decrypt(secret, model(hg.Server(secret.evaluation_keys()).bind(model.encrypt(secret, X))), like=X)
    assert (model.predictions(values) == faint.predict(X)).mean() > 0.95
    diverged = SGDClassifier(loss="squared_error", random_state=0).fit(X, THREE)
    model = ml.compile(diverged, X)
    with pytest.raises(hg.ParameterError, match=r"at most 2\^39.*StandardScaler"):
        model.parameters(samples=COUNT)


def test_a_model_does_not_follow_later_changes() -> None:
    """A model does not share memory with its estimator."""
    estimator = Ridge().fit(X, SCORE)
    model = ml.compile(estimator, X)
    before = model.clear(X)
    estimator.coef_ *= 2
    estimator.intercept_ += 1
    assert np.array_equal(model.clear(X), before)


def test_a_replaced_method_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a method of the estimator's class is replaced, the error names it. A hidden replacement is detected by its results
    and refused.

    """

    def predict(self: Any, samples: Any) -> Any:
        return np.zeros(len(samples))

    estimator = Ridge().fit(X, SCORE)
    monkeypatch.setattr(Ridge, "predict", predict, raising=False)
    with pytest.raises(hg.DtypeError, match="predict was replaced by a function of the module"):
        ml.compile(estimator, X)
    predict.__module__ = "sklearn.linear_model"
    with pytest.raises(hg.DtypeError, match=r"its own predict gives 0\.0|its own predict gives np.float64\(0\.0\)"):
        ml.compile(estimator, X)


def test_single_precision() -> None:
    """For float32 samples, the report states the error of scikit-learn's float32 arithmetic. For float64 samples the model
    is exact.

    """
    samples = (1e4 + X).astype(np.float32)
    estimator = make_pipeline(StandardScaler(), LinearRegression()).fit(samples.astype(np.float64), SCORE)
    coarse, fine = (ml.compile(estimator, x).report.largest_error for x in (samples, samples.astype(np.float64)))
    assert 1e-9 < coarse < 1e-2
    assert fine < 1e-9


def test_models_by_hand() -> None:
    """A model whose rules, classes or inputs do not match its layers is refused when it is made."""
    one, two = (ml.Dense(np.ones((count, 2)), np.zeros(count)) for count in (1, 2))
    names = np.array(["no", "yes"])
    for layer, classes, options in (
        (one, None, {"output": ml.Output("class")}),
        (one, names[:1], {}),
        (two, names, {"output": ml.Output("values")}),
        (two, names, {"output": ml.Output("class", probability="logistic")}),
        (two, names, {"output": ml.Output("class", "exp")}),
        (two, None, {"output": ml.Output(column=True)}),
        (two, None, {"output": ml.Output("votes")}),
        (two, None, {"inputs": ml.Inputs(("a",))}),
        (two, None, {"inputs": ml.Inputs((), (), (1.0, 3.0))}),
        (two, None, {"inputs": ml.Inputs((), (np.nan, 0.0))}),
    ):
        with pytest.raises(hg.ParameterError):
            ml.EstimatorModel("m", (layer,), classes, False, 8.0, **options)


@pytest.mark.full
def test_very_many_far_features(tmp_path: Path) -> None:
    """If there are too many features for the header, they share a centre and a unit."""
    rng = np.random.default_rng(0)
    samples = 1e6 + rng.uniform(-1, 1, (3, (1 << 14) + 1))
    estimator = LinearRegression().fit(samples, [1, 2, 3])
    model = ml.compile(estimator, samples)
    assert np.abs(model.predictions(model.clear(samples)) - [1, 2, 3]).max() < 1e-6
    half = model.export(tmp_path / "wide.hgm", samples=4).client()
    assert len(set(half.inputs[0].ranges)) == 1
    assert half._form.model.inputs == model.inputs  # type: ignore[attr-defined]


# Files


def test_classes_in_files(tmp_path: Path) -> None:
    """Classes keep their type. labels= replaces them by texts, and is required for types other than numbers and texts."""
    for number, classes in enumerate(
        (
            np.array([False, True]),
            np.array([-7, 7], dtype=np.int16),
            np.array([5, 2**64 - 1], dtype=np.uint64),
            np.array([-0.5, 1e300]),
            np.array([0, 1], dtype=np.float16),
            np.array(["no", "\u00e9t\u00e9"]),
            np.array(["no", "yes"], dtype=object),
        )
    ):
        model = ml.EstimatorModel("m", (ml.Dense(np.ones((1, 2)), np.zeros(1)),), classes, True, 8.0)
        made = model.export(tmp_path / f"{number}.hgm", samples=2)
        for read in (made, hg.ModelBundle.load(made.client().to_bytes())):
            found = read.predict([[-1.0], [1.0]])
            assert found.dtype == classes.dtype
            assert found.tolist() == classes.tolist()
            assert read.labels == tuple(map(str, classes.tolist()))
            assert read.predict([1.0]).tolist() == classes[1]
        named = model.export(tmp_path / f"named{number}.hgm", samples=2, labels=["a", "b"])
        assert named.predict([[-1.0], [1.0]]).tolist() == ["a", "b"]
    dates = ml.EstimatorModel(
        "m", (ml.Dense(np.ones((1, 2)), np.zeros(1)),), np.array(["2020", "2021"], dtype="M8[Y]"), False, 8.0
    )
    with pytest.raises(hg.ParameterError, match="labels="):
        dates.export(tmp_path / "dates.hgm", samples=2)
    assert dates.export(tmp_path / "dates.hgm", samples=2, labels=["a", "b"]).predict([[1.0]]).tolist() == ["b"]
    with pytest.raises(hg.ShapeError, match=r"scores of m must be \[samples, 1\]"):
        dates.export(tmp_path / "dates.hgm", samples=2, labels=["a", "b"]).predict([[1.0, 2.0]])


def test_long_names(tmp_path: Path) -> None:
    """A column name that is too long for the header is refused when the file is written."""
    frame = FRAME.rename(columns={"age": "a" * 201})
    model = ml.compile(Ridge().fit(frame, SCORE), frame)
    with pytest.raises(hg.ParameterError, match="200 characters"):
        model.export(tmp_path / "long.hgm", samples=COUNT)


@pytest.mark.parametrize("part", ["whole", "half"])
def test_impossible_model_files_are_refused(bundle: hg.ModelBundle, part: str) -> None:
    """A file with impossible names, classes, rules, centres or units is refused as damaged."""
    good = (bundle if part == "whole" else bundle.client()).to_bytes()
    said = resign.take_apart(good).header["model"]
    classes, output, one = said["classes"], said["output"], (1.0).hex()
    lies: list[dict[str, Any]] = [
        *({"columns": wrong} for wrong in (NAMES[:4], [*NAMES, "x"], "age", None, [1, *NAMES[1:]], ["a" * 201, *NAMES[1:]])),
        *({"centre": wrong} for wrong in ([one], ["nan"] * 5, ["inf"] * 5, [(2.0**1001).hex()] * 5, [0] * 5, None, "")),
        {"centre": [(1e6).hex()] * 5},  # with these centres the features' ranges cannot be represented
        *({"unit": [wrong] * 5} for wrong in ((0.0).hex(), (-1.0).hex(), (3.0).hex(), "nan", (2.0**1001).hex(), 1)),
        {"unit": [(2.0**-40).hex()] * 5},
        {"unit": [one]},
        *(
            {"classes": classes | wrong}
            for wrong in ({"type": "datetime64"}, {"type": 3}, {"type": "bool"}, {"type": "int8"})
        ),
        *(
            {"classes": classes | {"values": wrong}}
            for wrong in ([], ["ill", "well"], ["ill"] * 3, [1, 2, 3], "ill", ["a" * 201] * 3)
        ),
        *(
            {"classes": {"type": wrong, "values": ["1", "2", "3"]}}
            for wrong in ("complex128", "datetime64[D]", "float128", "S", "V8")
        ),
        {"classes": {"type": "int8", "values": ["1", "2", "300"]}},
        {"classes": {"type": "int8", "values": ["1", "2", "03"]}},
        {"classes": {"type": "uint8", "values": ["1", "2", "-1"]}},
        {"classes": {"type": "float64", "values": ["nan", one, (2.0).hex()]}},
        {"classes": {"type": "float32", "values": [(1e-300).hex(), one, (2.0).hex()]}},
        {"classes": {"type": "float64", "values": ["1.0", "2.0", "3.0"]}},
        {"classes": classes | {"more": 1}},
        {"classes": []},
        *({"output": output | {"kind": wrong}} for wrong in ("values", "labels", "votes", None)),
        *({"output": output | {"link": wrong}} for wrong in ("exp", "log", 1)),
        *({"output": output | {"probability": wrong}} for wrong in ("logistic", "sigmoid", None)),
        *({"output": output | {"column": wrong}} for wrong in (True, 0, None)),
        {"output": None},
        {"classifies": True},
    ]
    for lie in lies:
        document = resign.take_apart(good)
        document.header["model"] |= lie
        with pytest.raises(hg.DamagedFileError):
            hg.ModelBundle.load(resign.signed(document))
    for name in ("centre", "unit", "columns", "classes", "output", "ranges", "layers", "name"):
        document = resign.take_apart(good)
        del document.header["model"][name]
        with pytest.raises(hg.DamagedFileError):
            hg.ModelBundle.load(resign.signed(document))
    for version in (1, 2):
        document = resign.take_apart(good)
        document.header["format"] = version
        with pytest.raises(hg.DamagedFileError, match="not of format"):
            hg.ModelBundle.load(resign.signed(document))


def test_changed_files(bundle: hg.ModelBundle) -> None:
    """A randomly changed file with a valid digest can be used or gives a typed error."""
    good, refused = bundle.to_bytes(), 0
    for number in range(300):
        mutator = resign.Mutator(f"named:{number}")
        document = resign.take_apart(good)
        document.header["model"] = mutator.changed(document.header["model"])
        try:
            read = hg.ModelBundle.load(resign.signed(document, mutator.text))
            read.explain()
            read.predict(np.zeros((2, read.outputs[0].shape[0])))
        except hg.HeliographError:
            refused += 1
    assert refused > 100
