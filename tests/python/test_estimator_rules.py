"""Estimators of scikit-learn with their options: mirrored exactly, with the estimator's own rules, or refused by a typed error."""

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
    """What the estimator's own method gives; None without."""
    return getattr(estimator, name)(copy.deepcopy(samples)) if hasattr(estimator, name) else None


def compared(name: str, model: Any, values: Any, slack: float, sealed: Any = None, samples: Any = None) -> None:
    """Values [outputs, count] become predictions, decision values and probabilities as the estimator's own."""
    case, estimator = CASES[name], fitted(name)
    samples = case.samples if samples is None else samples
    single = "float32" in name
    error = model.report.largest_error + (1e-5 if single else 1e-9) + slack
    own = np.asarray(method(estimator, "predict", samples))
    found = model.predict(values) if sealed is None else sealed.predict(values.T)
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
        assert np.abs((values[0] if decided.ndim == 1 else values.T) - decided).max() <= error
    if chances is not None:
        made = model.predict_proba(values) if sealed is None else sealed.predict_proba(values.T)
        assert made.shape == chances.shape
        assert np.abs(made - chances).max() <= error
    elif sealed is None:
        with pytest.raises(hg.DtypeError, match="no probabilities"):
            model.predict_proba(values)


@pytest.mark.parametrize("name", TAKEN)
def test_mirrored(name: str) -> None:
    """In the clear: equal up to rounding, or up to the error that the report states."""
    case, estimator = CASES[name], fitted(name)
    before = np.array(case.samples)
    model = hg.nn.from_sklearn(estimator, case.samples)
    assert np.array_equal(before, case.samples)
    assert model.features == np.shape(case.samples)[1]
    if case.clear:
        scale = max(1.0, np.abs(model.clear(case.samples)).max())
        assert model.report.largest_error <= scale * (1e-5 if "float32" in name else 1e-9)
        assert model.report.agreement in (None, 1.0)
    compared(name, model, model.clear(case.samples), 0)
    if case.clear:  # on other samples, too
        compared(name, model, model.clear(case.shuffled()), 0, samples=case.shuffled())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_refused(name: str) -> None:
    """By a typed error that says why."""
    case = CASES[name]
    with pytest.raises((hg.DtypeError, hg.PlaintextRangeError, hg.ParameterError), match=case.refused):
        hg.nn.from_sklearn(fitted(name), case.samples)


def test_there_are_many() -> None:
    """At least 120 estimators and options, of both sorts."""
    assert len(TAKEN) >= 120
    assert len(CASES) - len(TAKEN) >= 40


@pytest.mark.parametrize(
    "name", [*ENCRYPTED, *(pytest.param(name, marks=pytest.mark.full) for name in TAKEN if name not in ENCRYPTED)]
)
def test_encrypted(name: str, tmp_path: Path) -> None:
    """From a file, by a client without the weights: as the estimator itself, to 20 bits after the point."""
    case = CASES[name]
    model = hg.nn.from_sklearn(fitted(name), case.samples)
    whole = model.seal(tmp_path / "model.hgm", samples=COUNT)
    half = whole.client()
    secret = hg.SecretKey.generate(half.parameters)
    answer = whole.run(hg.Server(half.keys(secret)), half.encrypt(secret, case.samples))
    values = half.decrypt(secret, answer, like=case.samples).T
    compared(name, model, values, 2.0**-20, half)
