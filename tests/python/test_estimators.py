"""Converted scikit-learn estimators give the same predictions on encrypted features, within the reported errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg

pytest.importorskip("sklearn")
from sklearn import linear_model, neural_network, svm
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # accuracy does not matter here
IRIS, KINDS = load_iris(return_X_y=True)
PEOPLE, ILLNESS = load_diabetes(return_X_y=True)
TWO = KINDS < 2


def encrypted(model: hg.ml.EstimatorModel, samples: Any) -> Any:
    """Returns the decrypted result of a run at a server, without unused slots."""
    secret = hg.SecretKey.generate(model.parameters(samples=len(samples)))
    server = hg.Server(secret.evaluation_keys())
    x = server.from_bytes(model.encrypt(secret, samples).to_bytes())
    return model.decrypt(secret, model(x), like=samples)


REGRESSORS: dict[str, Any] = {
    "linear": linear_model.LinearRegression(),
    "ridge without a constant": linear_model.Ridge(0.1, fit_intercept=False),
    "support vectors, scaled": make_pipeline(StandardScaler(), svm.LinearSVR(max_iter=10_000, random_state=0)),
}
CLASSIFIERS: dict[str, Any] = {
    "logistic": linear_model.LogisticRegression(max_iter=1000),
    "support vectors, scaled": make_pipeline(MinMaxScaler(), svm.LinearSVC(random_state=0)),
    "ridge on main components": make_pipeline(StandardScaler(), PCA(3), linear_model.RidgeClassifier()),
    "discriminants": LinearDiscriminantAnalysis(),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str) -> None:
    """Predictions equal the estimator's to the precision of CKKS and use one level."""
    estimator = REGRESSORS[name].fit(PEOPLE, ILLNESS)
    model = hg.ml.compile(estimator, PEOPLE)
    assert (model.depth, model.features, model.outputs) == (1, 10, 1)
    assert model.report.largest_error < 1e-9
    assert model.report.agreement is None
    found = model.predictions(encrypted(model, PEOPLE[:50]))
    np.testing.assert_allclose(found, estimator.predict(PEOPLE[:50]), atol=1e-3)


def test_several_targets() -> None:
    """Several targets give one column each, as for the estimator."""
    targets = np.stack([ILLNESS, -ILLNESS / 2], axis=1)
    estimator = linear_model.LinearRegression().fit(PEOPLE, targets)
    model = hg.ml.compile(estimator, PEOPLE)
    np.testing.assert_allclose(model.predictions(encrypted(model, PEOPLE[:5])), estimator.predict(PEOPLE[:5]), atol=1e-3)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name: str) -> None:
    """Tests classifiers with three classes, and with two classes that have text names. Probabilities are compared if the
    estimator has them.

    """
    for chosen, classes in ((TWO | ~TWO, KINDS), (TWO, np.where(KINDS == 0, "setosa", "versicolor"))):
        estimator = CLASSIFIERS[name].fit(IRIS[chosen], classes[chosen])
        model = hg.ml.compile(estimator, IRIS[chosen])
        values = encrypted(model, IRIS[chosen])
        np.testing.assert_array_equal(model.predictions(values), estimator.predict(IRIS[chosen]))
        assert model.report.agreement == 1
        decision = estimator.decision_function(IRIS[chosen])
        np.testing.assert_allclose(values[:, 0] if model.outputs == 1 else values, decision, atol=1e-3)
        if hasattr(estimator, "predict_proba"):
            np.testing.assert_allclose(model.probabilities(values), estimator.predict_proba(IRIS[chosen]), atol=1e-3)
        else:
            with pytest.raises(hg.DtypeError, match="no probabilities"):
                model.probabilities(values)


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_perceptrons(activation: str) -> None:
    """Fitted polynomials have the reported error in clear. The encrypted model gives nearly the results of the clear model."""
    perceptron = neural_network.MLPClassifier(
        hidden_layer_sizes=(6,), activation=activation, max_iter=400, random_state=1, tol=1e-3
    )
    estimator = make_pipeline(StandardScaler(), perceptron).fit(IRIS, KINDS)
    model = hg.ml.compile(estimator, IRIS, degree=7)
    assert model.depth == (2 if activation == "identity" else 5)
    clear = model.clear(IRIS)
    values = encrypted(model, IRIS[::5])
    np.testing.assert_allclose(values, clear[::5], atol=1e-3)
    assert np.mean(model.predictions(values) == estimator.predict(IRIS[::5])) > 0.9
    report = model.report
    assert report.agreement is not None
    assert report.agreement == np.mean(model.predictions(clear) == estimator.predict(IRIS))
    off = model.probabilities(clear) - estimator.predict_proba(IRIS)  # perceptrons have no decision_function
    assert np.abs(off).max() == pytest.approx(report.largest_error, rel=1e-6, abs=1e-12)
    if activation == "identity":
        assert report.largest_error < 1e-9
        return
    (fit,) = report.activations
    better = hg.ml.compile(estimator, IRIS, degree=15).report.activations[0]
    assert better.mean_error < fit.mean_error
    assert 0 < fit.mean_error <= fit.largest_error


@pytest.mark.parametrize("activation", ["tanh", "logistic"])
def test_activations_within_an_error(activation: str) -> None:
    """If an error is requested, the polynomial has the smallest degree whose error on the whole interval is not larger."""
    perceptron = neural_network.MLPClassifier(
        hidden_layer_sizes=(6,), activation=activation, max_iter=100, random_state=1, tol=1e-3
    )
    estimator = make_pipeline(StandardScaler(), perceptron).fit(IRIS, KINDS)
    function = {"tanh": np.tanh, "logistic": lambda v: 1 / (1 + np.exp(-v))}[activation]
    found = []
    for error in (0.03, 1e-4):
        model = hg.ml.compile(estimator, IRIS, error=error, intervals="proven")
        (fit,) = model.report.activations
        places = np.linspace(fit.low, fit.high, 10_001)
        values = np.polynomial.chebyshev.chebval(np.linspace(-1, 1, 10_001), fit.coefficients)
        assert np.abs(values - function(places)).max() <= error
        less = hg.ckks.approximate(function, fit.low, fit.high, error=error)
        assert fit.degree == less.degree
        assert model.ranges is not None
        assert model.ranges.proven == 1
        found.append(fit.degree)
        np.testing.assert_allclose(encrypted(model, IRIS[::5]), model.clear(IRIS)[::5], atol=2e-3)
    assert found[0] < found[1]
    for options in ({"degree": 7, "error": 0.1}, {"error": 0}, {"error": float("nan")}):
        with pytest.raises(hg.ParameterError, match="error"):
            hg.ml.compile(estimator, IRIS, **options)  # type: ignore[arg-type]


def test_a_perceptron_of_two_layers_on_digits() -> None:
    """A perceptron regressor with two hidden layers is correct; the intervals of each layer follow from the previous layer."""
    digits, labels = load_digits(return_X_y=True)
    estimator = neural_network.MLPRegressor(hidden_layer_sizes=(8, 4), activation="tanh", max_iter=60, random_state=0).fit(
        digits / 16, labels
    )
    model = hg.ml.compile(estimator, digits / 16, degree=5)
    assert model.depth == 3 + 2 * 3
    assert len(model.report.activations) == 2
    found = model.clear(digits / 16)[:, 0]
    assert np.abs(found - estimator.predict(digits / 16)).max() == pytest.approx(model.report.largest_error)


def test_repr_and_report() -> None:
    """repr and report state the approximation errors."""
    estimator = neural_network.MLPClassifier(hidden_layer_sizes=(4,), max_iter=50, random_state=0).fit(IRIS, KINDS)
    model = hg.ml.compile(estimator, IRIS)
    assert repr(model).startswith("<model of MLPClassifier: 4 -> 4 -> 3, 5 levels, error")
    assert "relu on [" in str(model.report)
    assert "<th>same class</th>" in model._repr_html_()


class Mine(linear_model.Ridge):  # type: ignore[misc]
    """A subclass of an estimator that does not change predictions."""


def test_errors() -> None:
    """Errors have a type and state the reason."""
    fitted = linear_model.LinearRegression().fit(PEOPLE, ILLNESS)
    assert hg.ml.compile(Mine().fit(PEOPLE, ILLNESS), PEOPLE).name == "Ridge"
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (linear_model.LinearRegression(), PEOPLE, hg.ParameterError, "not fitted"),
        (neural_network.MLPClassifier(), PEOPLE, hg.ParameterError, "not fitted"),
        (AdaBoostClassifier(n_estimators=2).fit(IRIS, KINDS), IRIS, hg.ml.ModelError, "RandomForest"),
        (make_pipeline(PolynomialFeatures(), linear_model.Ridge()).fit(IRIS, KINDS), IRIS, hg.DtypeError, "MaxAbsScaler"),
        (make_pipeline(MinMaxScaler(clip=True), linear_model.Ridge()).fit(IRIS, KINDS), IRIS, hg.DtypeError, "clip"),
        (svm.SVC(kernel="linear").fit(IRIS, KINDS), IRIS, hg.DtypeError, "SVC"),
        (fitted, PEOPLE[:, :3], hg.ShapeError, "10 features"),
        (fitted, PEOPLE[:0], hg.ShapeError, "at least one sample"),
        (fitted, [["a"] * 10], hg.DtypeError, "numbers"),
        (3, PEOPLE, hg.ml.ModelError, "cannot compile 3: it must be a fitted estimator"),
    ]
    for estimator, calibration, error, message in cases:
        with pytest.raises(error, match=message):
            hg.ml.compile(estimator, calibration)
    for wrong in ({"degree": 0}, {"margin": 0.5}, {"margin": float("nan")}):
        with pytest.raises(hg.ParameterError):
            hg.ml.compile(fitted, PEOPLE, **wrong)
    model = hg.ml.compile(fitted, PEOPLE)
    secret = hg.SecretKey.generate(model.parameters())
    with pytest.raises(hg.ShapeError, match="a ciphertext for each feature"):
        model(secret.encrypt(PEOPLE[0], pad=True))
    with pytest.raises(hg.ShapeError, match="slots"):
        model.encrypt(secret, np.zeros((secret.parameters.slots + 1, 10)))
    odd = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20, slots=30))
    with pytest.raises(hg.ParameterError, match="must be a power of two"):
        model.encrypt(odd, PEOPLE[:30])
    with pytest.raises(hg.DtypeError, match="tensor of CKKS"):
        model(PEOPLE)
    with pytest.raises(hg.ShapeError, match="samples"):
        model.predictions(PEOPLE)


def test_the_documents_program(capsys: pytest.CaptureFixture[str]) -> None:
    """The program in docs/ckks.md runs, and its predictions equal those of the estimator."""
    page = (Path(__file__).parents[2] / "docs" / "ckks.md").read_text()
    program = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "MLPClassifier" in block)
    exec(program, {"hg": hg})
    report, share = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert "tanh on [" in report
    assert float(share) > 0.95
