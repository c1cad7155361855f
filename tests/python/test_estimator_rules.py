"""scikit-learn estimators with their options are converted exactly, with their decision rules, or refused by a typed error."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
from estimator_cases import CASES, COUNT, fitted

pytestmark = pytest.mark.filterwarnings("ignore")
TAKEN = [name for name, case in CASES.items() if not case.refused]
ENCRYPTED = [
    "PoissonRegressor",
    "RidgeClassifier of labels",
    "Ridge of seconds",
    "LogisticRegression of uint64",
    "MLPRegressor tanh, poisson",
]


def method(estimator: Any, name: str, samples: Any) -> Any:
    """Returns the result of the estimator's method, or None if it has none."""
    return getattr(estimator, name)(copy.deepcopy(samples)) if hasattr(estimator, name) else None


def compared(name: str, model: Any, values: Any, slack: float, bundle: Any = None, samples: Any = None) -> None:
    """Checks that the predictions, decision values and probabilities of values [count, outputs] equal those of the
    estimator.

    """
    case, estimator = CASES[name], fitted(name)
    samples = case.samples if samples is None else samples
    single = "float32" in name
    error = model.report.largest_error + (1e-5 if single else 1e-9) + slack
    own = np.asarray(method(estimator, "predict", samples))
    found = model.predictions(values) if bundle is None else bundle.predict(values)
    assert found.shape == own.shape
    decided, chances = (method(estimator, which, samples) for which in ("decision_function", "predict_proba"))
    if model.classes is None:
        relative = np.abs(own) if model.output.link == "exp" else 1
        assert (np.abs(found - own) <= error + slack * relative).all()
        assert found.dtype.kind == own.dtype.kind == "f"
    else:
        assert found.dtype.kind == own.dtype.kind
        assert found.dtype == own.dtype or found.dtype.kind in "OU"
        same = (found == own).reshape(COUNT, -1).all(1)
        if case.clear and not slack:
            assert same.all()
        assert abs(same.mean() - model.report.agreement) <= (0.1 if slack else 0)
    if decided is not None:
        assert np.abs((values[:, 0] if decided.ndim == 1 else values) - decided).max() <= error
    if chances is not None:
        made = model.probabilities(values) if bundle is None else bundle.predict_proba(values)
        assert made.shape == chances.shape
        assert np.abs(made - chances).max() <= error
    elif bundle is None:
        with pytest.raises(hg.DtypeError, match="no probabilities"):
            model.probabilities(values)


@pytest.mark.parametrize("name", TAKEN)
def test_converted_estimators_predict_like_their_estimator(name: str) -> None:
    """In clear, predictions of the converted model equal the estimator's up to rounding, or up to the reported error."""
    case, estimator = CASES[name], fitted(name)
    before = np.array(case.samples)
    model = hg.ml.compile(estimator, case.samples)
    assert np.array_equal(before, case.samples)
    assert model.features == np.shape(case.samples)[1]
    if case.clear:
        scale = max(1.0, np.abs(model.clear(case.samples)).max())
        assert model.report.largest_error <= scale * (1e-5 if "float32" in name else 1e-9)
        assert model.report.agreement in (None, 1.0)
    compared(name, model, model.clear(case.samples), 0)
    if case.clear:  # predictions for other samples are equal, too
        compared(name, model, model.clear(case.shuffled()), 0, samples=case.shuffled())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_unsupported_estimators_are_refused(name: str) -> None:
    """Refused estimators raise a typed error with the reason."""
    case = CASES[name]
    with pytest.raises((hg.DtypeError, hg.PlaintextRangeError, hg.ParameterError, hg.ml.ModelError), match=case.refused):
        hg.ml.compile(fitted(name), case.samples)


def test_there_are_enough_cases() -> None:
    """At least 120 cases are converted and at least 40 are refused."""
    assert len(TAKEN) >= 120
    assert len(CASES) - len(TAKEN) >= 40


@pytest.mark.parametrize(
    "name", [*ENCRYPTED, *(pytest.param(name, marks=pytest.mark.full) for name in TAKEN if name not in ENCRYPTED)]
)
def test_encrypted(name: str, tmp_path: Path) -> None:
    """A client that has only its part of the model file decrypts the results of the estimator with 20 fractional bits."""
    case = CASES[name]
    model = hg.ml.compile(fitted(name), case.samples)
    whole = model.export(tmp_path / "model.hgm", samples=COUNT)
    half = whole.client()
    secret = hg.SecretKey.generate(half.parameters)
    answer = whole.run(hg.Server(half.keys(secret)), half.encrypt(secret, case.samples))
    values = half.decrypt(secret, answer, like=case.samples)
    compared(name, model, values, 2.0**-20, half)
