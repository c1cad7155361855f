"""Inputs of compiled trees: categories, names of columns, missing values, objectives and ties."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import ml

pytest.importorskip("sklearn")
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)


def boosted(library: str, **options: Any) -> Any:
    """Returns an estimator of a library."""
    module = pytest.importorskip(library)
    if library == "xgboost":
        return module.XGBClassifier(n_estimators=4, max_depth=3, **options)
    return module.LGBMClassifier(n_estimators=4, max_depth=3, verbose=-1, **options)


def saved(model: Any, path: Path) -> str:
    """Writes an estimator or a Booster in its library's format, and returns the file's name."""
    name = str(path / ("model.json" if "xgboost" in type(model).__module__ else "model.txt"))
    getattr(model, "booster_", model).save_model(name)
    return name


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_pandas_categories(library: str, tmp_path: Path) -> None:
    """Categories that are their own codes are compiled; others raise ModelError, also from files."""
    pandas = pytest.importorskip("pandas")
    codes = RNG.integers(0, 4, 300)
    options = {"enable_categorical": True, "max_cat_to_onehot": 1} if library == "xgboost" else {"min_data_per_group": 5}
    for categories in ([0, 1, 2, 3], [1, 0, 2, 3], [40, 10, 30, 20], ["a", "b", "c", "d"]):
        column = pandas.Categorical.from_codes(codes, categories=categories)
        frame = pandas.DataFrame({"a": X[:, 0], "c": column})
        estimator = boosted(library, **options).fit(frame, (codes % 2) ^ (X[:, 0] > 1))
        for source in (estimator, saved(estimator, tmp_path)):
            if categories == [0, 1, 2, 3]:
                found = ml.compile(source).predict(frame, fhe="clear")
                assert np.array_equal(found, estimator.predict(frame))
                continue
            with pytest.raises(ml.ModelError, match="codes of this column"):
                ml.compile(source)


def test_early_stopping(tmp_path: Path) -> None:
    """The best iteration counts for estimators, loaded estimators, callbacks and files; a Booster uses all trees."""
    xgboost = pytest.importorskip("xgboost")
    rows = {"eval_set": [(X[:150], Y[:150][::-1])], "verbose": False}
    made = []
    for options in ({"early_stopping_rounds": 2}, {"callbacks": [xgboost.callback.EarlyStopping(rounds=2)]}):
        made.append(xgboost.XGBClassifier(n_estimators=20, max_depth=3, **options).fit(X[150:], Y[150:], **rows))
    loaded = xgboost.XGBClassifier()
    loaded.load_model(saved(made[0], tmp_path))
    steps = made[0].best_iteration + 1
    assert steps < made[0].get_booster().num_boosted_rounds()
    for source in (*made, loaded, saved(made[0], tmp_path)):
        model = ml.compile(source)
        assert len(model._reader.ensemble.trees) == steps
        assert np.abs(model.predict_proba(X, fhe="clear") - made[0].predict_proba(X)).max() < 1e-6
    whole = ml.compile(made[0].get_booster())
    own = made[0].get_booster().predict(xgboost.DMatrix(X))
    assert np.abs(whole.predict_proba(X, fhe="clear")[:, 1] - own).max() < 1e-6


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_names_of_columns(library: str, tmp_path: Path) -> None:
    """Files and Boosters match the columns of data frames by name, without a warning."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a b", "c", "d", "e"] if library == "lightgbm" else ["a", "c", "d", "e"])
    estimator = boosted(library).fit(frame, Y)
    booster = estimator.booster_ if library == "lightgbm" else estimator.get_booster()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (booster, saved(estimator, tmp_path)):
            model = ml.compile(source)
            for samples in (frame, frame[frame.columns[::-1]]):
                assert np.array_equal(model.predict(samples, fhe="clear"), estimator.predict(frame))
            with pytest.raises(hg.ShapeError, match="must have the columns"):
                model.predict(frame.rename(columns={"c": "z"}), fhe="clear")


def test_regressors_with_objectives_of_classes() -> None:
    """A binary objective gives probabilities, as the library's predict; other objectives are refused."""
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    for regressor in (
        xgboost.XGBRegressor(n_estimators=3, max_depth=3, objective="binary:logistic"),
        lightgbm.LGBMRegressor(n_estimators=3, max_depth=3, objective="binary", verbose=-1),
    ):
        regressor.fit(X, Y)
        model = ml.compile(regressor, calibrate=X)
        assert model.classes is None
        assert np.abs(model.predict(X, fhe="clear") - regressor.predict(X)).max() < 1e-5
    for refused in (
        xgboost.XGBRegressor(n_estimators=3, objective="binary:hinge"),
        xgboost.XGBClassifier(n_estimators=3, objective="binary:logitraw"),
        xgboost.XGBRegressor(n_estimators=3, objective="multi:softprob", num_class=2),
        lightgbm.LGBMRegressor(n_estimators=3, objective="multiclass", num_class=2, verbose=-1),
        lightgbm.LGBMRegressor(n_estimators=3, objective="binary", sigmoid=0.5, verbose=-1),
    ):
        with pytest.raises(ml.ModelError, match="objective"):
            ml.compile(refused.fit(X, Y))
    with pytest.raises(ml.ModelError, match="at least two classes"):
        ml.compile(xgboost.XGBClassifier(n_estimators=1).fit(X, 0 * Y))


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_calibration_data_as_the_model_reads_them(library: str) -> None:
    """Permuted columns, objects and lists are compared with the library. A refusal of the library raises ModelError."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    estimator = RandomForestClassifier(3, max_depth=3) if library == "sklearn" else boosted(library)
    estimator.fit(frame, Y)
    for samples in (frame[list("dcba")], frame.astype(object)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ml.compile(estimator, calibrate=samples).report.agreement == 1
    if library != "lightgbm":
        with pytest.raises(hg.PlaintextRangeError, match="float32"):
            ml.compile(estimator, calibrate=frame * 1e300)
    if library == "sklearn":
        return
    estimator.predict = lambda samples: 1 / 0
    with pytest.raises(ml.ModelError, match="must accept the calibration data, but raised ZeroDivisionError"):
        ml.compile(estimator, calibrate=frame)


def test_missing_values_that_the_library_refuses() -> None:
    """Gradient boosting refuses NaN, with and without calibration data."""
    holes = X[:5].copy()
    holes[2, 1] = np.nan
    estimator = GradientBoostingClassifier(n_estimators=2, max_depth=2).fit(X, Y)
    with pytest.raises(hg.PlaintextRangeError, match="row 2: feature 1 must not be missing"):
        ml.compile(estimator).predict(holes, fhe="clear")
    with pytest.raises(hg.PlaintextRangeError, match="row 2: feature 1 must not be missing"):
        ml.compile(estimator, calibrate=holes)


@pytest.mark.parametrize("scheme", ["ckks", "bgv"])
def test_ties_of_classes(scheme: str, tmp_path: Path) -> None:
    """A leaf of equal shares has the first class, as in the library, and the report counts the samples."""
    samples = np.repeat(np.arange(4.0), 6)[:, None]
    for targets in (np.tile([0, 1], 12), np.tile([2, 0, 1], 8)):
        classes = np.where(samples[:, 0] == 3, 1, targets)
        estimator = DecisionTreeClassifier(random_state=0).fit(samples, classes)
        model = ml.compile(estimator, calibrate=samples, scheme=scheme)
        assert model.report.ties == 18
        assert "18 ties of classes" in str(model.report)
        own = estimator.predict(samples)
        for seed in range(3):
            values = model.simulate(samples, seed=seed)
            assert np.array_equal(model.predictions(values), own)
        assert np.array_equal(model.predict(samples[::6], fhe="execute"), own[::6])
        half = model.export(tmp_path / "tied.hgm").client()
        assert np.array_equal(half.predict(values), own)
        assert half.predict(values[0]) == own[0]
    zero = GradientBoostingClassifier(n_estimators=1, init="zero", max_depth=1).fit(samples, np.tile([0, 1], 12))
    found = ml.compile(zero, calibrate=samples, scheme=scheme).predict(samples)
    assert np.array_equal(found, zero.predict(samples))


def test_errors_name_the_remedy() -> None:
    """Sparse samples, limits, other ensembles and schemes."""
    sparse = pytest.importorskip("scipy.sparse")
    forest = RandomForestClassifier(2, max_depth=2).fit(X, Y)
    model = ml.compile(forest)
    assert ml.compile(forest, scheme=model.scheme).scheme == "CKKS"
    with pytest.raises(hg.DtypeError, match=r"pass samples.toarray\(\)"):
        model.predict(sparse.csr_matrix(X))
    with pytest.raises(hg.DtypeError, match=r"pass samples.toarray\(\)"):
        ml.compile(LogisticRegression().fit(X, Y), calibrate=sparse.csr_matrix(X))
    with pytest.raises(hg.LimitError, match="limit= allows"):
        ml.compile(forest, limit=hg.Costs(nbytes=10))
    with pytest.raises(ml.ModelError, match="AdaBoostClassifier is not supported; use one of RandomForest"):
        ml.compile(AdaBoostClassifier(n_estimators=2).fit(X, Y))


def test_the_scheme_follows_memory_and_requests() -> None:
    """Products of 1,000 conditions need gigabytes: they are not chosen for 20 rows, nor beyond a limit."""
    forest = RandomForestClassifier(30, random_state=0).fit(X, RNG.integers(0, 2, 300))
    assert ml.compile(forest, batch=20).scheme == "CKKS"
    assert ml.compile(forest, batch=1 << 14, limit=hg.Costs(nbytes=1 << 28)).scheme == "CKKS"


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_trees_of_several_classes_hold_one_value_for_each_node(library: str, tmp_path: Path) -> None:
    """A tree of boosting has values of its class alone; both schemes and bundles have the library's classes."""
    kinds = RNG.integers(0, 3, 300)
    estimator = boosted(library).set_params(n_estimators=1).fit(X, kinds)
    for scheme in ("ckks", "bgv"):
        model = ml.compile(estimator, calibrate=X, scheme=scheme)
        assert {tree.values.shape[1] for tree in model._reader.ensemble.trees} == {1}
        bundle = model.export(tmp_path / "classes.hgm")
        half = bundle.client()
        secret = hg.SecretKey.generate(half.parameters)
        answer = bundle.run(hg.Server(half.keys(secret)), half.encrypt(secret, X[0]))
        assert half.predict(half.decrypt(secret, answer, like=X[0])) == estimator.predict(X[:1])[0]


def test_trees_that_are_too_large() -> None:
    """The error names the limits of both schemes, and recommends none that was tried."""
    line = np.arange(60.0)[:, None]
    deep = DecisionTreeClassifier().fit(line, line[:, 0] % 2, sample_weight=2.0 ** -line[:, 0])
    assert deep.get_depth() > 32
    with pytest.raises(ml.ModelError, match=r"at most 32, got [0-9]+; use scheme='bgv', or fewer or shallower trees"):
        ml.compile(deep, scheme="ckks")
    many = RandomForestClassifier(40, random_state=0).fit(X, RNG.integers(0, 9, 300))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heliograph.ml.trees.compile._MOST_BYTES", 1 << 30)
        with pytest.raises(ml.ModelError, match=r"at most 1.0 GiB of memory, not .* use scheme='ckks', or fewer"):
            ml.compile(many, scheme="bgv")
        patch.setattr("heliograph.ml.trees.compile._RINGS", ())
        with pytest.raises(ml.ModelError) as caught:
            ml.compile(many)
    assert "scheme=" not in str(caught.value)
    assert str(caught.value).endswith("; use fewer or shallower trees")
