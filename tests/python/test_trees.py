"""Ensembles of trees: compiled models have the values and classes of their libraries, in the clear and encrypted."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import ml
from heliograph.cli import run
from heliograph.ml.profile import profile_of
from heliograph.ml.trees import model as tree_model
from heliograph.ml.trees import paths, products
from heliograph.ml.trees.compile import compile_ensemble
from heliograph.ml.trees.ensemble import Builder, Condition

ensemble = pytest.importorskip("sklearn.ensemble")
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor  # noqa: E402

X, KINDS = load_iris(return_X_y=True)
CELLS, ILL = load_breast_cancer(return_X_y=True)
PEOPLE, SCORE = load_diabetes(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
RNG = np.random.default_rng(1)
#: Categories, numbers with missing values, and categories with missing values.
MIXED = np.column_stack([RNG.integers(0, 9, 400) * 2.0, RNG.normal(size=400).round(2), RNG.integers(0, 4, 400)])
MIXED[RNG.random(MIXED.shape) < 0.1] = np.nan
TARGET = (np.nan_to_num(np.sin(MIXED[:, 0])) + np.nan_to_num(MIXED[:, 1]) > 0.2).astype(int)

SKLEARN: dict[str, tuple[Any, Any, Any]] = {
    "a tree": (DecisionTreeClassifier(max_depth=4, random_state=0), X, NAMES[KINDS]),
    "a tree of numbers": (DecisionTreeRegressor(max_depth=4, random_state=0), PEOPLE, SCORE),
    "a stump": (DecisionTreeClassifier(max_depth=1), CELLS, ILL),
    "a forest": (ensemble.RandomForestClassifier(7, max_depth=4, random_state=0), CELLS, ILL > 0),
    "a forest of three classes": (ensemble.RandomForestClassifier(7, max_depth=3, random_state=0), X, KINDS + 5),
    "a forest of numbers": (ensemble.RandomForestRegressor(5, max_depth=4, random_state=0), PEOPLE, SCORE),
    "extra trees": (ensemble.ExtraTreesClassifier(5, max_depth=4, random_state=0), X, KINDS),
    "two targets": (ensemble.ExtraTreesRegressor(5, max_depth=3), PEOPLE, np.stack([SCORE, -SCORE], 1)),
    "boosting": (ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0), X, KINDS),
    "boosting, exponential": (ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=9), CELLS, ILL),
    "boosting of numbers": (ensemble.GradientBoostingRegressor(n_estimators=9), PEOPLE, SCORE),
    "histograms": (ensemble.HistGradientBoostingClassifier(max_iter=5, max_depth=4), X, KINDS),
    "histograms, poisson": (ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=9, max_depth=4), PEOPLE, SCORE),
    "categories": (
        ensemble.HistGradientBoostingClassifier(categorical_features=[0, 2], max_iter=9, max_depth=4), MIXED, TARGET,
    ),
    "outliers": (ensemble.IsolationForest(n_estimators=9, max_samples=16, max_features=0.7, random_state=0), PEOPLE, None),
}  # fmt: skip


def fitted(name: str) -> tuple[Any, Any]:
    """Returns a fitted model of the table and its samples."""
    model, samples, targets = SKLEARN[name]
    return (model.fit(samples) if targets is None else model.fit(samples, targets)), samples


def compare(model: Any, estimator: Any, samples: Any, fhe: str) -> None:
    """Checks predictions, probabilities and decision values against the estimator's own."""
    found, own = model.predict(samples, fhe=fhe), estimator.predict(samples)
    assert found.shape == own.shape
    tolerance = 0.0 if fhe == "clear" else 2.0**-19
    if model.output.kind == "values":
        assert np.abs(found - own).max() <= (tolerance + 1e-12) * 8 * np.abs(own).max()
    else:
        assert found.dtype.kind == own.dtype.kind
        assert np.array_equal(found, own)
    if model.output.kind == "class":
        assert np.abs(model.predict_proba(samples, fhe=fhe) - estimator.predict_proba(samples)).max() <= 8 * tolerance + 1e-6
    if hasattr(estimator, "decision_function"):
        off = model.decision_function(samples, fhe=fhe) - estimator.decision_function(samples)
        assert np.abs(off).max() <= 16 * tolerance + 1e-6


@pytest.mark.parametrize("name", SKLEARN)
def test_trees_of_sklearn(name: str) -> None:
    """Values in the clear are the library's, the simulation is within 2^-20 of the largest leaf, encrypted rows agree."""
    estimator, samples = fitted(name)
    model = ml.compile(estimator, calibrate=samples)
    compare(model, estimator, samples, "clear")
    compare(model, estimator, samples[:64], "simulate")
    compare(model, estimator, samples[-2:], "execute")
    assert model.report.agreement == 1
    assert model.report.largest_error <= 2.0**-20 * model.report.largest_leaf
    assert model.parameters().security == "128-bit"


@pytest.mark.parametrize("name", ["a stump", "a forest of three classes", "boosting", "categories", "two targets"])
def test_many_rows(name: str) -> None:
    """A batch of rows is evaluated by products of BGV, with the same values."""
    estimator, samples = fitted(name)
    model = ml.compile(estimator, calibrate=samples, batch=4096, scheme="bgv")
    assert model.scheme == "BGV"
    compare(model, estimator, samples, "execute")
    assert np.array_equal(model.predict(samples), model.predict(samples, fhe="execute"))


def test_the_scheme_follows_the_batch() -> None:
    """CKKS for a row, BGV for thousands; the options select one."""
    estimator, samples = fitted("a forest of three classes")
    schemes = [ml.compile(estimator, batch=batch).scheme for batch in (1, 16384)]
    assert schemes == ["CKKS", "BGV"]
    assert ml.compile(estimator, batch=16384, scheme="ckks").scheme == "CKKS"
    text = str(ml.compile(estimator, samples))
    for words in ("sums of paths", "128-bit", "no bootstraps", "ms for one row", "reveals the features and thresholds"):
        assert words in text


def test_a_limit_refuses_before_keys_exist() -> None:
    """A forecast beyond the limit raises LimitError."""
    estimator, samples = fitted("a stump")
    with pytest.raises(hg.LimitError, match="would take"):
        ml.compile(estimator, samples, limit=hg.Costs(nbytes=1000))
    assert ml.compile(estimator, samples, limit=hg.Costs(nbytes=1 << 32)).forecast.nbytes < 1 << 30
    for scheme in ("ckks", "bgv"):
        model = ml.compile(estimator, samples, scheme=scheme, target="two-cores")
        assert 1e-5 < model.forecast.seconds < 1
        assert "on two-cores" in str(model)
        with pytest.raises(hg.LimitError, match="it would take about"):
            ml.compile(estimator, samples, scheme=scheme, target="two-cores", limit=hg.Costs(seconds=1e-6))
    with pytest.raises(hg.ParameterError, match="there is no profile"):
        ml.compile(estimator, samples, target="abacus")


def test_a_forecast_runs_trial_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of the device in use are those of a trial request, unless it is long; a profile's are counted."""
    estimator, samples = fitted("a stump")
    shapes: list[tuple[int, ...]] = []

    def measured(run: Any, request: Any) -> float:
        shapes.append(run(request).shape)
        return 0.25

    monkeypatch.setattr(tree_model, "measured", measured)
    for scheme, count in (("ckks", 1), ("bgv", 2)):
        made = ml.compile(estimator, samples, scheme=scheme)
        assert made.forecast.seconds == 0.25
        assert "about 250 ms" in str(made)
        assert ml.compile(estimator, samples, scheme=scheme, target="two-cores").forecast.seconds != 0.25
        assert len(shapes) == count
    with monkeypatch.context() as patch:
        patch.setattr(tree_model, "_LONGEST_TRIAL", 0.0)
        assert ml.compile(estimator, samples).forecast.seconds != 0.25
    server = ml.compile(estimator, samples)._complete
    target = profile_of("two-cores")
    monkeypatch.setattr(tree_model, "_IN_CACHE", 1 << 40)
    least = server.seconds(target, 0)
    monkeypatch.setattr(tree_model, "_IN_CACHE", 0)
    read = server._matrix_bytes * server._seconds_of_byte(target)
    assert server.seconds(target, 0) == pytest.approx(least + read)
    keys = len(server._transforms[0].rotations) * server.client.parameters.switch_key_bytes
    assert keys < server._matrix_bytes < keys + (1 << 24)


def xgboost_models() -> dict[str, tuple[Any, Any, Any]]:
    """Returns models of XGBoost with samples and targets."""
    xgb = pytest.importorskip("xgboost")
    xgb.set_config(nthread=1, verbosity=0)
    kinds = ["c", "q", "c"]
    return {
        "binary, missing": (xgb.XGBClassifier(n_estimators=9, max_depth=4), MIXED, TARGET),
        "three classes": (xgb.XGBClassifier(n_estimators=4, max_depth=3), X, KINDS),
        "numbers": (xgb.XGBRegressor(n_estimators=9, max_depth=4), PEOPLE, SCORE),
        "counts": (xgb.XGBRegressor(objective="count:poisson", n_estimators=9, max_depth=3), PEOPLE, SCORE),
        "dart": (xgb.XGBClassifier(booster="dart", rate_drop=0.5, n_estimators=9, max_depth=3), CELLS, ILL),
        "forest": (xgb.XGBRFClassifier(n_estimators=9, max_depth=4), CELLS, ILL),
        "zero is missing": (xgb.XGBClassifier(missing=0.0, n_estimators=4, max_depth=3), np.nan_to_num(MIXED), TARGET),
        "categories": (
            xgb.XGBClassifier(n_estimators=9, max_depth=4, enable_categorical=True, feature_types=kinds, max_cat_to_onehot=2),
            MIXED, TARGET,
        ),
    }  # fmt: skip


def test_xgboost(tmp_path: Path) -> None:
    """XGBoost's margins, by its estimators, boosters and files; float32 comparisons are exact at the thresholds."""
    for name, (estimator, samples, targets) in xgboost_models().items():
        estimator.fit(samples, targets)
        margins = estimator.predict(samples, output_margin=True).reshape(len(samples), -1)
        files = {}
        for kind in ("json", "ubj"):
            files[kind] = tmp_path / f"m.{kind}"
            estimator.get_booster().save_model(files[kind])
        made = {kind: ml.compile(source) for kind, source in {"own": estimator, **files}.items()}
        for kind, model in made.items():
            if kind == "own" or name != "zero is missing":
                assert np.abs(model.clear(samples) - margins).max() < 1e-6 * max(1, np.abs(margins).max()), (name, kind)
        model = ml.compile(estimator, calibrate=samples)
        own = estimator.predict(samples)
        same = (
            model.predict(samples) == own if model.output.kind == "class" else np.isclose(model.predict(samples), own, 1e-5)
        )
        assert same.all(), name
        if name in ("dart", "forest", "counts", "zero is missing"):
            continue
        assert np.abs(model.decision_function(samples[:2], fhe="execute") - margins[:2].squeeze()).max() < 1e-5 * max(
            1, np.abs(margins).max()
        )


def test_thresholds_are_exact() -> None:
    """Samples at the thresholds of trees, and the numbers next to them, take the branches of the libraries."""
    xgb = pytest.importorskip("xgboost")
    estimator = xgb.XGBClassifier(n_estimators=9, max_depth=4).fit(CELLS, ILL)
    model = ml.compile(estimator)
    rows: list[Any] = []
    for condition in model._reader.ensemble.conditions[:100]:
        for direction in (-np.inf, np.inf):
            row = CELLS[len(rows)].copy()
            row[condition.feature] = np.nextafter(np.float32(condition.threshold), np.float32(direction))
            rows += [row, np.where(np.arange(30) == condition.feature, condition.threshold, row)]
    samples = np.array(rows)
    assert np.abs(model.clear(samples)[:, 0] - estimator.predict(samples, output_margin=True)).max() < 1e-5


def test_lightgbm(tmp_path: Path) -> None:
    """LightGBM's raw scores, with categories, missing values and zeros that count as missing."""
    lgb = pytest.importorskip("lightgbm")
    zeros = np.nan_to_num(MIXED)
    cases: list[tuple[Any, Any, Any, dict[str, Any]]] = [
        (lgb.LGBMClassifier(n_estimators=9, max_depth=4, verbose=-1), MIXED, TARGET, {}),
        (lgb.LGBMClassifier(n_estimators=9, max_depth=4, verbose=-1), MIXED, TARGET, {"categorical_feature": [0, 2]}),
        (lgb.LGBMClassifier(n_estimators=9, max_depth=4, verbose=-1, zero_as_missing=True), zeros, TARGET, {}),
        (lgb.LGBMClassifier(n_estimators=9, max_depth=4, verbose=-1, use_missing=False), zeros, TARGET, {}),
        (lgb.LGBMClassifier(n_estimators=4, max_depth=3, verbose=-1), X, NAMES[KINDS], {}),
        (lgb.LGBMClassifier(objective="multiclassova", n_estimators=4, max_depth=3, verbose=-1), X, KINDS, {}),
        (lgb.LGBMRegressor(n_estimators=9, max_depth=4, verbose=-1, objective="poisson"), PEOPLE, SCORE, {}),
        (lgb.LGBMRegressor(n_estimators=9, max_depth=4, verbose=-1, reg_sqrt=True), PEOPLE, SCORE, {}),
    ]
    odd = np.array([[-0.5, 0.0, 1.7], [99.0, 1e-36, -1.0], [3.5, -0.0, np.nan]])
    for estimator, samples, targets, options in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(samples, targets, **options)
            rows = np.concatenate([samples, odd]) if samples.shape[1] == 3 else samples
            raw = estimator.predict(rows, raw_score=True).reshape(len(rows), -1)
            own = estimator.predict(rows)
        model = ml.compile(estimator, calibrate=rows)
        if model.output.probability:
            assert np.abs(model.predict_proba(rows, fhe="clear") - estimator.predict_proba(rows)).max() < 1e-12
        assert np.abs(model.clear(rows) - raw).max() < 1e-9 * max(1, np.abs(raw).max())
        found = model.predict(rows, fhe="clear")
        assert (found == own).all() if model.classes is not None else np.allclose(found, own, rtol=1e-9)
        estimator.booster_.save_model(tmp_path / "m.txt")
        assert np.array_equal(ml.compile(tmp_path / "m.txt").clear(rows), model.clear(rows))
        if model.classes is None:
            continue
        executed = model.decision_function(rows[-2:], fhe="execute").reshape(2, -1)
        assert np.abs(executed - raw[-2:]).max() < 2.0**-19 * max(1, np.abs(raw).max())


def test_missing_values_are_refused_where_the_calibration_has_none() -> None:
    """A missing value in a feature that always has one is refused; other features accept it."""
    estimator, samples = fitted("categories")
    partly = samples.copy()
    partly[:, 1] = np.nan_to_num(partly[:, 1])
    model = ml.compile(estimator, calibrate=partly)
    secret = hg.SecretKey.generate(model.parameters())
    assert model.encrypt(secret, [[np.nan, 0.5, np.nan]]).shape[0] == 1
    with pytest.raises(hg.PlaintextRangeError, match="row 1: feature 1 must not be missing"):
        model.encrypt(secret, [[0, 0.5, 1], [0, np.nan, 1]])
    with pytest.raises(hg.PlaintextRangeError, match="must be finite or missing"):
        model.encrypt(secret, [[0, np.inf, 1]])
    for wrong, error in (
        (samples[:1, :2], hg.ShapeError),
        ([["a", "b", "c"]], hg.DtypeError),
        ([[1j, 0, 0]], hg.DtypeError),
    ):
        with pytest.raises(error):
            model.encrypt(secret, wrong)
    other = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20))
    with pytest.raises(hg.MismatchError, match="encrypted by a key of"):
        model.encrypt(other, samples[:1])
    with pytest.raises(hg.DtypeError, match="a request of this model"):
        model(samples)
    with pytest.raises(hg.ShapeError, match="must have shape"):
        model(secret.encrypt(np.zeros((1, 2, model.parameters().slots))))


def made(conditions: int, trees: int, depth: int, outputs: int, seed: int) -> Any:
    """Returns a random ensemble of complete trees, some with a single leaf."""
    random = np.random.default_rng(seed)
    builder = Builder("random trees", 8, outputs)
    known = [
        builder.condition(Condition(int(random.integers(8)), float(value)), "t") for value in random.normal(size=conditions)
    ]
    for number in range(trees):
        height = depth if number % 5 else 0
        inner = (1 << height) - 1
        count = 2 * inner + 1
        places = np.arange(count)
        left = np.where(places < inner, 2 * places + 1, -1)
        condition = random.choice(known, count)
        values = random.normal(size=(count, outputs))
        builder.add(condition, left, left + 1, values, "t")
    return builder.made(np.zeros(outputs), ml.Output(), None, single=False)


@pytest.mark.parametrize(
    ("conditions", "trees", "depth", "outputs"),
    [(1, 1, 1, 1), (3, 2, 0, 2), (40, 3, 6, 2), (9, 20, 2, 5), (1000, 130, 5, 1)],
)
def test_random_ensembles(conditions: int, trees: int, depth: int, outputs: int) -> None:
    """Random ensembles, of single leaves to 1,000 conditions: both schemes are within 2^-20 of the largest leaf."""
    source = made(conditions, trees, depth, outputs, conditions)
    x = np.random.default_rng(2).normal(size=(3, 8))
    exact = source.values(source.bits(x))
    for options in ({"scheme": "ckks"}, {"scheme": "bgv", "batch": 4096}, {"scheme": "ckks", "reveal": "trees"}):
        if options["scheme"] == "bgv" and conditions == 1000:
            continue
        model = compile_ensemble(source, **options)
        assert np.abs(model.simulate(x) - exact).max() <= 2.0**-20 * source.largest
        assert np.abs(model._execute(x[:2]) - exact[:2]).max() <= 2.0**-20 * source.largest


def test_layouts_are_equal_in_the_clear() -> None:
    """The matrices of each layout, applied in NumPy, give the ensemble's values; the plan of products too."""
    for seed, depth in enumerate((1, 2, 3, 4, 5, 7, 9)):
        source = made(30, 5, depth, 1 + seed % 3, seed)
        bits = source.bits(np.random.default_rng(seed).normal(size=(16, 8)))
        exact = source.values(bits)
        terms = paths.terms_of(source)
        polynomial = paths.Polynomial(terms.depth)
        for layout in (
            paths.shared_layout(terms, 4096),
            paths.grouped_layout(terms, 4096, 16),
            paths.shared_layout(terms, 64),
        ):
            assert layout is not None
            found = paths.matrices(terms, layout, polynomial)
            slots = layout.encoded(bits)

            def product(piece: int, x: Any, found: Any = found) -> Any:
                return 2 * paths.clear_product(found.diagonals[piece], x).real

            inputs = [slots[:, number] for number in range(layout.inputs)]
            y = paths.evaluate(layout, polynomial, found, inputs, product, np.square, np.multiply)
            sums, size = y, 1
            while size < layout.region:
                sums, size = sums + np.roll(sums, -size, axis=-1), 2 * size
            values = (layout.decoded(sums, source.outputs) + terms.constant) * terms.unit
            assert np.abs(values - exact).max() < 1e-8
        plan = products.plan_of(source)
        assert plan.levels <= max(0, depth - 1)
        model = compile_ensemble(source, scheme="bgv", batch=8)
        assert np.abs(model._complete.simulate(bits, 0) - exact).max() <= 2.0**-20 * source.largest


def test_a_deep_tree_has_few_levels() -> None:
    """Products of a deep tree are balanced; the polynomial's levels grow with the logarithm of the depth."""
    estimator = DecisionTreeClassifier(random_state=0, min_samples_leaf=1).fit(CELLS[:, :4], ILL)
    depth = estimator.get_depth()
    assert depth >= 8
    model = ml.compile(estimator, CELLS[:, :4], batch=2048, scheme="bgv")
    assert model._complete.plan.levels <= np.ceil(np.log2(depth))
    compare(ml.compile(estimator, CELLS[:, :4]), estimator, CELLS[:2, :4], "execute")


def test_bundles_and_services(tmp_path: Path) -> None:
    """The client's half has no trees; answers of the whole model, also by a service, are the library's."""
    estimator, samples = fitted("a forest of three classes")
    for options in ({}, {"reveal": "trees"}, {"batch": 4096, "scheme": "bgv"}):
        model = ml.compile(estimator, samples, **options)
        whole = model.export(tmp_path / "forest.hgm", title="flowers")
        half = whole.client()
        assert half.kind == "ensemble"
        assert not half._container.arrays
        assert "trees" not in half.explain()
        assert hg.ModelBundle.load(tmp_path / "forest.hgm").digest == whole.digest == half.digest
        secret = hg.SecretKey.generate(half.parameters)
        server = hg.Server(hg.from_bytes(half.keys(secret).to_bytes()))  # type: ignore[arg-type]
        answer = whole.run(server, server.from_bytes(half.encrypt(secret, samples[:3]).to_bytes()))
        values = half.decrypt(secret, answer, like=samples[:3])
        assert np.array_equal(half.predict(values), estimator.predict(samples[:3]))
        assert np.abs(half.predict_proba(values) - estimator.predict_proba(samples[:3])).max() < 1e-5
        alone = half.decrypt(secret, whole.run(server, half.encrypt(secret, samples[0])), like=samples[0])
        assert np.abs(alone - values[0]).max() < 1e-5
        with pytest.raises(hg.ShapeError, match="at least one sample"):
            model.simulate(samples[:0])
        with pytest.raises(hg.MissingKeyError, match="client's half"):
            half._form.model.clear(samples)
    labelled = model.export(tmp_path / "l.hgm", labels=["a", "b", "c"])
    assert set(labelled.predict(values).tolist()) <= {"a", "b", "c"}


def test_a_service_of_trees(tmp_path: Path) -> None:
    """A service answers requests for a bundle of trees."""
    pytest.importorskip("uvicorn")
    estimator, samples = fitted("a forest of three classes")
    whole = ml.compile(estimator, samples).export(tmp_path / "forest.hgm")
    with hg.serving.local(tmp_path / "forest.hgm") as address:
        client = hg.Client(address, model="forest", digest=whole.digest)
        client.upload_keys(hg.SecretKey.generate(client.model.parameters))
        assert np.array_equal(client.model.predict(client.run(samples[:3])), estimator.predict(samples[:3]))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`heliograph compile` writes a bundle of a model file, prints the report, and never loads pickles."""
    lgb = pytest.importorskip("lightgbm")
    lgb.LGBMClassifier(n_estimators=3, max_depth=3, verbose=-1).fit(CELLS, ILL).booster_.save_model(tmp_path / "m.txt")
    np.save(tmp_path / "x.npy", CELLS)
    arguments = [
        "compile",
        str(tmp_path / "m.txt"),
        "--calibrate",
        str(tmp_path / "x.npy"),
        "--out",
        str(tmp_path / "m.hgm"),
    ]
    assert run(arguments) == 0
    assert "sums of paths" in capsys.readouterr().out
    bundle = hg.ModelBundle.load(tmp_path / "m.hgm")
    assert bundle.kind == "ensemble"
    assert run(arguments) == 1  # the file exists
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    arguments[3] = str(tmp_path / "objects.npy")
    assert run([*arguments, "--force"]) == 1
    assert "must be a .npy file of numbers" in capsys.readouterr().err


def test_limits_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`heliograph compile` forecasts for a target, refuses costs beyond its maxima, and refuses labels of trees."""
    lgb = pytest.importorskip("lightgbm")
    lgb.LGBMClassifier(n_estimators=3, max_depth=3, verbose=-1).fit(CELLS, ILL).booster_.save_model(tmp_path / "m.txt")
    np.save(tmp_path / "x.npy", CELLS)
    np.savez(tmp_path / "several.npz", CELLS)
    words = ["compile", str(tmp_path / "m.txt"), "--out", str(tmp_path / "m.hgm")]
    samples = ["--calibrate", str(tmp_path / "x.npy")]
    for more, status, message in (
        (["--max-seconds", "1e-9", "--target", "two-cores"], 1, "it would take"),
        (["--max-memory", "1K"], 1, "its memory would take"),
        (["--max-memory", "many"], 2, "must be a number of bytes"),
        (["--target", "abacus"], 1, "there is no profile"),
        (["--labels", str(tmp_path / "x.npy")], 1, "requires --calibrate"),
        ([*samples, "--labels", str(tmp_path / "x.npy")], 1, "is an option of networks"),
        (["--calibrate", str(tmp_path / "several.npz")], 1, "one array, not an archive"),
    ):
        assert run([*words, *more]) == status, more
        assert message in " ".join(capsys.readouterr().err.split()), more
    assert not (tmp_path / "m.hgm").exists()
    assert run([*words, "--max-seconds", "60", "--max-memory", "4G", "--target", "two-cores"]) == 0
    assert "on two-cores" in capsys.readouterr().out


def test_labels_of_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--labels` the loss of a network is that of right classes; wrong labels are refused."""
    onnx = pytest.importorskip("onnx")
    weights = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["h"], name="dense"),
        onnx.helper.make_node("Sigmoid", ["h"], ["y"], name="act"),
        onnx.helper.make_node("MatMul", ["y", "v"], ["z"], name="last"),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 6), ("z", 3))]
    constants = [onnx.numpy_helper.from_array(a, name) for a, name in ((weights, "w"), (weights[:3], "v"))]
    graph = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    x = np.random.default_rng(2).normal(size=(200, 6))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", (1 / (1 + np.exp(-x @ weights)) @ weights[:3]).argmax(1))
    np.save(tmp_path / "short.npy", np.zeros(3, dtype=np.int64))
    words = ["compile", str(tmp_path / "net.onnx"), "--calibrate", str(tmp_path / "x.npy"), "--out", str(tmp_path / "n.hgm")]
    assert run([*words, "--labels", str(tmp_path / "short.npy")]) == 1
    assert "one for each sample" in " ".join(capsys.readouterr().err.split())
    assert run([*words, "--labels", str(tmp_path / "y.npy"), "--accuracy", "0.05", "--max-memory", "1M"]) == 1
    assert "limit= allows 1.0 MiB" in " ".join(capsys.readouterr().err.split())
    assert run([*words, "--labels", str(tmp_path / "y.npy"), "--accuracy", "0.05"]) == 0
    assert "share of right classes lost" in capsys.readouterr().out


def test_names_of_columns() -> None:
    """Columns of a data frame are matched by name."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    estimator = ensemble.RandomForestClassifier(3, max_depth=3, random_state=0).fit(frame, KINDS)
    model = ml.compile(estimator, frame)
    assert np.array_equal(model.predict(frame[["d", "b", "a", "c"]], fhe="clear"), estimator.predict(frame))
    with pytest.raises(hg.ShapeError, match="missing: d"):
        model.predict(frame[["a", "b", "c"]])


def test_models_that_are_refused(tmp_path: Path) -> None:
    """Unsupported models, options and files raise typed errors that name the remedy."""
    forest = ensemble.RandomForestClassifier(2, max_depth=2)
    scaled = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2)).fit(X, KINDS)
    (tmp_path / "m.pkl").write_bytes(b"")
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (forest, {}, hg.ParameterError, "fitted first"),
        (scaled, {}, ml.ModelError, "trees must be its only step"),
        (DecisionTreeClassifier(max_depth=2).fit(X, np.stack([KINDS, KINDS], 1)), {}, ml.ModelError, "of 2 outputs"),
        (tmp_path / "m.pkl", {}, ml.ModelError, "never loaded"),
        (DecisionTreeClassifier(max_depth=2).fit(X, KINDS), {"degree": 3}, hg.ParameterError, "no option degree="),
        (DecisionTreeClassifier(max_depth=2).fit(X, KINDS), {"scheme": "tfhe"}, hg.ParameterError, "scheme must be"),
        (DecisionTreeClassifier(max_depth=2).fit(X, KINDS), {"calibrate": X[:0]}, hg.ShapeError, "at least one sample"),
        (DecisionTreeClassifier(max_depth=2).fit(X, KINDS), {"batch": 0}, hg.ParameterError, "batch"),
        (object(), {}, ml.ModelError, "it must be a fitted estimator"),
    ]
    for model, options, error, message in cases:
        with pytest.raises(error, match=message):
            ml.compile(model, **options)


def test_changed_predictions_are_noticed() -> None:
    """A leaf that was changed after the fit of another model is noticed by the comparison with the library."""
    estimator, samples = fitted("a forest")
    source = ml.compile(estimator)._reader.ensemble
    flipped = [-1 * tree.values for tree in source.trees]
    for tree, values in zip(source.trees, flipped, strict=True):
        tree.values[:] = values
    with pytest.raises(ml.ModelError, match="its own probabilities differ from those of its trees"):
        compile_ensemble(source, samples, own=estimator.predict)


def test_json_of_a_notebook(tmp_path: Path) -> None:
    """A file without a model of trees is refused."""
    (tmp_path / "m.json").write_text(json.dumps({"cells": []}))
    with pytest.raises(ml.ModelError, match="the field learner"):
        ml.compile(tmp_path / "m.json")
