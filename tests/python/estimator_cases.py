"""scikit-learn estimators with their options, for tests of conversion: each is converted exactly or refused."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from scipy import sparse
from sklearn import (
    base,
    calibration,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    isotonic,
    linear_model,
    model_selection,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    svm,
)
from sklearn import preprocessing as pre
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

VERSION: str = sklearn.__version__
COUNT, FEATURES = 80, 5
_RNG = np.random.default_rng(5)
X = _RNG.normal(size=(COUNT, FEATURES))
SCORE = X @ np.array([1.0, -2.0, 0.5, 0.0, 1.5]) + 0.3 * _RNG.normal(size=COUNT)
NAMES = ["age", "height", "weight", "pulse", "sleep"]
FRAME = pd.DataFrame(X, columns=NAMES)
TWO = (SCORE > 0).astype(np.int64)
THREE = np.digitize(SCORE, [-1, 1])
TARGETS = np.stack([SCORE, -SCORE / 2 + X[:, 3]], axis=1)
LABELS = (X[:, :3] + 0.3 * X[:, 2:5] > 0).astype(np.int64)
COUNTS = np.round(np.exp(0.3 * SCORE) + 1)


@dataclass(frozen=True)
class Case:
    """An estimator, its training data, and the expected outcome of its conversion."""

    make: Callable[[], Any]
    y: Any
    x: Any = None  #: training samples; None: the common samples X
    refused: str = ""  #: text in the expected error; empty if the conversion succeeds
    # whether predictions equal those of the estimator up to rounding, because no polynomial approximates a function
    clear: bool = True
    after: Callable[[Any], Any] | None = None  #: function that changes the fitted estimator before its conversion

    @property
    def samples(self) -> Any:
        return X if self.x is None else self.x

    def copy(self) -> Any:
        """Returns a copy of the samples, because scalers may write into the samples."""
        return copy.deepcopy(self.samples)

    def shuffled(self) -> Any:
        """Returns other samples with the same ranges: each column is permuted separately."""
        mixed = np.random.default_rng(9).permuted(np.asarray(self.samples), axis=0)
        return mixed if not isinstance(self.samples, pd.DataFrame) else pd.DataFrame(mixed, columns=self.samples.columns)


@cache
def fitted(name: str) -> Any:
    """Returns the fitted estimator of a case."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = case.make().fit(case.copy(), case.y)
        return estimator if case.after is None else case.after(estimator)


def _sparse(estimator: Any) -> Any:
    return estimator.sparsify()


def _after(step: Any, model: Any) -> Any:
    """Returns a pipeline with a new copy of the step, because a pipeline fits the objects that it gets."""
    return make_pipeline(step if isinstance(step, str) else base.clone(step), model)


def _set(estimator: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(estimator, name, value)
    return estimator


class Clipped(linear_model.Ridge):  # type: ignore[misc]
    """Overrides predict."""

    def predict(self, X: Any) -> Any:
        return np.clip(super().predict(X), -1, 1)


class Careful(linear_model.LogisticRegression):  # type: ignore[misc]
    """Overrides decision_function."""

    def decision_function(self, X: Any) -> Any:
        return super().decision_function(X) - 1


class Rounded(pre.StandardScaler):  # type: ignore[misc]
    """Overrides transform."""

    def transform(self, X: Any, copy: Any = None) -> Any:
        return np.round(super().transform(X, copy))


class Plain(linear_model.Lasso):  # type: ignore[misc]
    """Overrides only methods that do not change predictions."""

    def __init__(self, alpha: float = 0.01) -> None:
        super().__init__(alpha)

    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(X, 2 * y)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return 1.0


class Squared:
    """A mixin that overrides predict."""

    def predict(self, X: Any) -> Any:
        return super().predict(X) ** 2  # type: ignore[misc]


class Mixed(Squared, linear_model.LinearRegression):  # type: ignore[misc]
    """Inherits the override of the mixin."""


class Observed(linear_model.Ridge):  # type: ignore[misc]
    """A regressor that overrides attribute access."""

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Shifted(neural_network.MLPRegressor):  # type: ignore[misc]
    """Overrides a private method."""

    def _forward_pass_fast(self, X: Any, check_input: bool = True) -> Any:
        return super()._forward_pass_fast(X, check_input) + 1


class Piped(Pipeline):  # type: ignore[misc]
    """A pipeline that overrides predict."""

    def predict(self, X: Any, **params: Any) -> Any:
        return -super().predict(X)


_lm = linear_model
_mlp = {"hidden_layer_sizes": (4,), "max_iter": 60, "random_state": 1}
_logistic = partial(_lm.LogisticRegression, max_iter=500)
CASES: dict[str, Case] = {}


def _add(**cases: Case) -> None:
    CASES.update(cases)


# Regressors
for _name, _make in {
    "LinearRegression": _lm.LinearRegression,
    "LinearRegression without intercept": partial(_lm.LinearRegression, fit_intercept=False),
    "LinearRegression positive": partial(_lm.LinearRegression, positive=True),
    "Ridge": _lm.Ridge,
    "Ridge positive": partial(_lm.Ridge, positive=True, solver="lbfgs"),
    "Ridge sag": partial(_lm.Ridge, solver="sag", random_state=0),
    "RidgeCV": _lm.RidgeCV,
    "Lasso": partial(_lm.Lasso, alpha=0.1),
    "LassoCV": _lm.LassoCV,
    "ElasticNet": partial(_lm.ElasticNet, alpha=0.1),
    "ElasticNetCV": _lm.ElasticNetCV,
    "HuberRegressor": _lm.HuberRegressor,
    "BayesianRidge": _lm.BayesianRidge,
    "ARDRegression": _lm.ARDRegression,
    "Lars": _lm.Lars,
    "LarsCV": _lm.LarsCV,
    "LassoLars": partial(_lm.LassoLars, alpha=0.01),
    "LassoLarsCV": _lm.LassoLarsCV,
    "LassoLarsIC": _lm.LassoLarsIC,
    "OrthogonalMatchingPursuit": _lm.OrthogonalMatchingPursuit,
    "OrthogonalMatchingPursuitCV": _lm.OrthogonalMatchingPursuitCV,
    "QuantileRegressor": partial(_lm.QuantileRegressor, alpha=0.01),
    "TheilSenRegressor": partial(_lm.TheilSenRegressor, random_state=0, max_subpopulation=100),
    "LinearSVR": partial(svm.LinearSVR, random_state=0, max_iter=5000),
    "LinearSVR without intercept": partial(svm.LinearSVR, fit_intercept=False, random_state=0, max_iter=5000),
    "SGDRegressor": partial(_lm.SGDRegressor, random_state=0),
    "SGDRegressor huber, averaged": partial(_lm.SGDRegressor, loss="huber", average=True, random_state=0),
}.items():
    CASES[_name] = Case(_make, SCORE)
for _name, _make in {
    "LinearRegression": _lm.LinearRegression,
    "Ridge": _lm.Ridge,
    "RidgeCV": _lm.RidgeCV,
    "Lasso": _lm.Lasso,
    "ElasticNet": _lm.ElasticNet,
    "Lars": _lm.Lars,
    "OrthogonalMatchingPursuit": _lm.OrthogonalMatchingPursuit,
    "MultiTaskLasso": partial(_lm.MultiTaskLasso, alpha=0.1),
}.items():
    CASES[f"{_name} of a column"] = Case(_make, SCORE[:, None])
    CASES[f"{_name} of two targets"] = Case(_make, TARGETS)
CASES |= {
    "MultiTaskLassoCV": Case(_lm.MultiTaskLassoCV, TARGETS),
    "MultiTaskElasticNet": Case(partial(_lm.MultiTaskElasticNet, alpha=0.1), TARGETS),
    "MultiTaskElasticNetCV": Case(_lm.MultiTaskElasticNetCV, TARGETS),
    "Lasso sparsified": Case(_lm.SGDRegressor, SCORE, after=_sparse),
    "PoissonRegressor": Case(_lm.PoissonRegressor, COUNTS),
    "GammaRegressor": Case(_lm.GammaRegressor, COUNTS),
    "GammaRegressor without intercept": Case(partial(_lm.GammaRegressor, fit_intercept=False), COUNTS),
    "TweedieRegressor auto, power 0": Case(_lm.TweedieRegressor, COUNTS),
    "TweedieRegressor auto, power 1.5": Case(partial(_lm.TweedieRegressor, power=1.5), COUNTS),
    "TweedieRegressor log, power 0": Case(partial(_lm.TweedieRegressor, power=0, link="log"), COUNTS),
    "TweedieRegressor identity, power 0": Case(partial(_lm.TweedieRegressor, power=0, link="identity"), COUNTS),
    "Ridge in float32": Case(_lm.Ridge, SCORE.astype(np.float32), x=X.astype(np.float32)),
    "Ridge of integers": Case(_lm.Ridge, SCORE, x=np.round(10 * X).astype(np.int32)),
    "Ridge of features far away": Case(lambda: make_pipeline(pre.StandardScaler(), _lm.Ridge()), SCORE, x=1e5 + X),
    "Ridge of seconds": Case(lambda: make_pipeline(pre.StandardScaler(), _lm.Ridge()), SCORE, x=1.6e9 + 1e3 * X),
    "Ridge of seconds, in a range": Case(lambda: make_pipeline(pre.MinMaxScaler(), _lm.Ridge()), SCORE, x=1.6e9 + 1e3 * X),
    "Ridge of seconds, unscaled": Case(_lm.LinearRegression, SCORE, x=1.6e9 + 1e3 * X),
    "Ridge of micrograms": Case(lambda: make_pipeline(pre.StandardScaler(), _lm.Ridge()), SCORE, x=1e-6 * X),
    "Ridge of giants": Case(lambda: make_pipeline(pre.StandardScaler(), _lm.Ridge()), SCORE, x=1e9 * X),
    "Ridge with a constant feature": Case(_lm.Ridge, SCORE, x=np.where(np.arange(FEATURES) == 2, 7e4, X)),
    "PCA of seconds": Case(lambda: make_pipeline(decomposition.PCA(3, whiten=True), _lm.Ridge()), SCORE, x=1.6e9 + 1e3 * X),
    "Ridge with other weights": Case(_lm.Ridge, SCORE, after=partial(_set, coef_=np.arange(5.0), intercept_=3.0)),
}

# Classifiers
for _name, _make in {
    "LogisticRegression": _logistic,
    "LogisticRegression without intercept": partial(_logistic, fit_intercept=False),
    "LogisticRegression balanced": partial(_logistic, class_weight="balanced"),
    "LogisticRegressionCV": partial(_lm.LogisticRegressionCV, Cs=2, cv=2, max_iter=500),
    "RidgeClassifier": _lm.RidgeClassifier,
    "RidgeClassifierCV": _lm.RidgeClassifierCV,
    "LinearSVC": partial(svm.LinearSVC, random_state=0),
    "LinearSVC without intercept": partial(svm.LinearSVC, fit_intercept=False, random_state=0),
    "Perceptron": partial(_lm.Perceptron, random_state=0),
    "LinearDiscriminantAnalysis": discriminant_analysis.LinearDiscriminantAnalysis,
    "LinearDiscriminantAnalysis eigen": partial(
        discriminant_analysis.LinearDiscriminantAnalysis, solver="eigen", shrinkage="auto"
    ),
    **{
        f"SGDClassifier {loss}": partial(_lm.SGDClassifier, loss=loss, learning_rate="constant", eta0=0.01, random_state=0)
        for loss in ("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron", "squared_error")
    },
}.items():
    CASES[f"{_name}, two classes"] = Case(_make, TWO)
    CASES[f"{_name}, three classes"] = Case(_make, THREE)
_TEXTS = np.array(["ill", "well", "unknown"])
for _name, _classes in {
    "booleans": TWO.astype(bool),
    "int8": (2 * TWO - 1).astype(np.int8),
    "uint64": TWO.astype(np.uint64) + np.uint64(2**63),
    "floats": np.where(TWO, 2.0, -1.0),
    "float32": THREE.astype(np.float32),
    "texts": _TEXTS[THREE],
    "objects": _TEXTS[THREE].astype(object),
    "far integers": np.where(TWO, 7, -7),
    "a column of pandas": pd.Series(_TEXTS[THREE]),
    "categories of pandas": pd.Series(_TEXTS[THREE]).astype("category"),
}.items():
    for _kind, _make in {
        "LogisticRegression": _logistic,
        "MLPClassifier": partial(neural_network.MLPClassifier, **_mlp),
    }.items():
        CASES[f"{_kind} of {_name}"] = Case(_make, _classes, clear=_kind != "MLPClassifier")
CASES |= {
    "LogisticRegression liblinear": Case(partial(_logistic, solver="liblinear"), TWO),
    "LogisticRegression sparsified": Case(_logistic, TWO, after=_sparse),
    "SGDClassifier sparsified": Case(partial(_lm.SGDClassifier, loss="log_loss", random_state=0), THREE, after=_sparse),
    "RidgeClassifier of labels": Case(_lm.RidgeClassifier, LABELS),
    "RidgeClassifierCV of labels": Case(_lm.RidgeClassifierCV, LABELS),
    "SGDClassifier modified_huber, far from all classes": Case(
        partial(_lm.SGDClassifier, loss="modified_huber", random_state=0),
        THREE,
        after=partial(_set, intercept_=np.full(3, -99.0)),
    ),
    "SGDClassifier whose loss was changed": Case(
        partial(_lm.SGDClassifier, loss="log_loss", random_state=0), TWO, after=partial(_set, loss="hinge")
    ),
}

# Perceptrons
for _name in ("identity", "logistic", "tanh", "relu"):
    _clear = _name == "identity"
    _options = _mlp | {"activation": _name}
    CASES |= {
        f"MLPRegressor {_name}": Case(partial(neural_network.MLPRegressor, **_options), SCORE, clear=_clear),
        f"MLPRegressor {_name}, two targets": Case(partial(neural_network.MLPRegressor, **_options), TARGETS, clear=_clear),
        f"MLPRegressor {_name}, a column": Case(
            partial(neural_network.MLPRegressor, **_options), SCORE[:, None], clear=_clear
        ),
        f"MLPRegressor {_name}, poisson": Case(
            partial(neural_network.MLPRegressor, loss="poisson", **_options), COUNTS, clear=_clear
        ),
        f"MLPClassifier {_name}, two classes": Case(partial(neural_network.MLPClassifier, **_options), TWO, clear=_clear),
        f"MLPClassifier {_name}, three classes": Case(
            partial(neural_network.MLPClassifier, **_options), THREE, clear=_clear
        ),
        f"MLPClassifier {_name}, labels": Case(partial(neural_network.MLPClassifier, **_options), LABELS, clear=_clear),
    }
CASES["MLPRegressor of two layers"] = Case(
    partial(neural_network.MLPRegressor, **(_mlp | {"hidden_layer_sizes": (4, 3)})), SCORE, clear=False
)
CASES["MLPRegressor in float32"] = Case(
    partial(neural_network.MLPRegressor, **_mlp), SCORE.astype(np.float32), x=X.astype(np.float32), clear=False
)

# Steps
for _name, _step in {
    "StandardScaler": pre.StandardScaler(),
    "StandardScaler without mean": pre.StandardScaler(with_mean=False),
    "StandardScaler without deviation": pre.StandardScaler(with_std=False),
    "StandardScaler in place": pre.StandardScaler(copy=False),
    "StandardScaler of frames": pre.StandardScaler().set_output(transform="pandas"),
    "MinMaxScaler": pre.MinMaxScaler((-3, 5)),
    "MaxAbsScaler": pre.MaxAbsScaler(),
    "RobustScaler": pre.RobustScaler(),
    "RobustScaler of unit variance": pre.RobustScaler(unit_variance=True, quantile_range=(10, 90)),
    "RobustScaler without centre": pre.RobustScaler(with_centering=False),
    "RobustScaler without scale": pre.RobustScaler(with_scaling=False),
    "PCA": decomposition.PCA(3),
    "PCA, all": decomposition.PCA(),
    "PCA whitened": decomposition.PCA(3, whiten=True),
    "IncrementalPCA": decomposition.IncrementalPCA(2),
    "TruncatedSVD": decomposition.TruncatedSVD(3, random_state=0),
    "SelectKBest": feature_selection.SelectKBest(k=2),
    "SelectPercentile": feature_selection.SelectPercentile(percentile=50),
    "SelectFpr": feature_selection.SelectFpr(feature_selection.f_regression, alpha=0.5),
    "VarianceThreshold": feature_selection.VarianceThreshold(0.9),
    "RFE": feature_selection.RFE(_lm.Ridge(), n_features_to_select=2),
    "SelectFromModel": feature_selection.SelectFromModel(_lm.Ridge()),
    "FunctionTransformer": pre.FunctionTransformer(),
    "passthrough": "passthrough",
    "a nested pipeline": make_pipeline(pre.StandardScaler(), "passthrough", decomposition.PCA(4)),
    "ColumnTransformer": compose.ColumnTransformer([("a", pre.StandardScaler(), [3, 1]), ("b", "passthrough", [0])]),
    "ColumnTransformer with a remainder": compose.ColumnTransformer(
        [("a", pre.MinMaxScaler(), [4, 0]), ("b", "drop", [1])], remainder="passthrough"
    ),
    "ColumnTransformer, scaled remainder": compose.ColumnTransformer(
        [("a", make_pipeline(pre.StandardScaler(), decomposition.PCA(2)), slice(1, 4))], remainder=pre.StandardScaler()
    ),
    "ColumnTransformer with weights": compose.ColumnTransformer(
        [("a", pre.StandardScaler(), [0, 0, 2]), ("b", pre.MaxAbsScaler(), [1])], transformer_weights={"a": 3.0, "b": -0.5}
    ),
    "ColumnTransformer with an empty part": compose.ColumnTransformer(
        [("a", pre.StandardScaler(), [1, 2]), ("b", pre.StandardScaler(), [])]
    ),
    "ColumnTransformer by a mask": compose.ColumnTransformer(
        [("a", pre.StandardScaler(), [True, False, False, True, True])], remainder=decomposition.PCA(1)
    ),
    "FeatureUnion": FeatureUnion([("a", pre.StandardScaler()), ("b", decomposition.PCA(2)), ("c", "drop")]),
    "FeatureUnion with weights": FeatureUnion(
        [("a", pre.StandardScaler()), ("b", "passthrough")], transformer_weights={"b": 10.0}
    ),
}.items():
    CASES[f"{_name}, then Ridge"] = Case(partial(_after, _step, _lm.Ridge()), SCORE)
    CASES[f"{_name}, then LogisticRegression"] = Case(partial(_after, _step, _logistic()), THREE)
_columns = compose.ColumnTransformer(
    [("a", pre.StandardScaler(), ["pulse", "age"])], remainder="passthrough", verbose_feature_names_out=False
)
CASES |= {
    "LinearRegression of a frame": Case(_lm.LinearRegression, SCORE, x=FRAME),
    "LogisticRegression of a frame": Case(_logistic, _TEXTS[THREE], x=FRAME),
    "a pipeline of a frame": Case(lambda: make_pipeline(pre.StandardScaler(), _lm.Ridge()), SCORE, x=FRAME),
    "a pipeline of frames": Case(
        lambda: make_pipeline(pre.StandardScaler(), _lm.Ridge()).set_output(transform="pandas"), SCORE, x=FRAME
    ),
    "passthrough of a frame": Case(lambda: make_pipeline("passthrough", _lm.Ridge()), SCORE, x=FRAME),
    "ColumnTransformer of a frame": Case(lambda: make_pipeline(_columns, _lm.Ridge()), SCORE, x=FRAME),
    "ColumnTransformer of frames": Case(
        lambda: make_pipeline(_columns, _lm.Ridge()).set_output(transform="pandas"), SCORE, x=FRAME
    ),
    "numbers as columns' names": Case(_lm.Ridge, SCORE, x=pd.DataFrame(X)),
    "GridSearchCV": Case(lambda: model_selection.GridSearchCV(_lm.Ridge(), {"alpha": [0.1, 1]}, cv=2), SCORE),
    "GridSearchCV of a pipeline": Case(
        lambda: model_selection.GridSearchCV(make_pipeline(pre.StandardScaler(), _logistic()), {}, cv=2), THREE, x=FRAME
    ),
    "RandomizedSearchCV": Case(
        lambda: model_selection.RandomizedSearchCV(_logistic(), {"C": [1, 2]}, n_iter=1, cv=2, random_state=0), TWO
    ),
    "a search in a pipeline": Case(
        lambda: make_pipeline(pre.StandardScaler(), model_selection.GridSearchCV(_logistic(), {"C": [1]}, cv=2)), TWO
    ),
    "a subclass that overrides fit": Case(Plain, SCORE),
}

# Estimators that the conversion refuses
CASES |= {
    "a subclass that overrides predict": Case(Clipped, SCORE, refused="Clipped overrides predict"),
    "a subclass that overrides decision_function": Case(Careful, TWO, refused="Careful overrides decision_function"),
    "a scaler that overrides transform": Case(
        lambda: make_pipeline(Rounded(), _lm.Ridge()), SCORE, refused="Rounded overrides transform"
    ),
    "a mixin that overrides predict": Case(Mixed, SCORE, refused="Squared overrides predict"),
    "a pipeline that overrides predict": Case(lambda: Piped([("r", _lm.Ridge())]), SCORE, refused="Piped overrides predict"),
    "a search without its best": Case(
        lambda: model_selection.GridSearchCV(_lm.Ridge(), {"alpha": [0.1]}, cv=2, refit=False), SCORE, refused="refit=True"
    ),
    "a subclass that overrides how attributes are read": Case(Observed, SCORE, refused="overrides __getattribute__"),
    "a subclass that overrides a private method": Case(
        partial(Shifted, max_iter=5), SCORE, refused="overrides _forward_pass_fast"
    ),
    "TweedieRegressor whose power was changed": Case(
        partial(_lm.TweedieRegressor, power=0), COUNTS, after=partial(_set, power=1.5), refused="its own predict gives"
    ),
    "weights that are texts": Case(_lm.Ridge, SCORE, after=partial(_set, coef_="none"), refused="must be numbers"),
    "weights of other features": Case(
        _lm.Ridge, SCORE, after=partial(_set, coef_=np.ones(7)), refused="its steps must map its"
    ),
    "a replaced method": Case(
        _lm.Ridge, SCORE, after=partial(_set, predict=lambda x: np.zeros(len(x))), refused="predict was replaced"
    ),
    "a replaced method of a step": Case(
        lambda: make_pipeline(pre.StandardScaler(), _lm.Ridge()),
        SCORE,
        after=lambda e: e.__setattr__("steps", [("s", _set(e[0], transform=np.round)), e.steps[1]]) or e,
        refused="transform was replaced",
    ),
    "clipped MinMaxScaler": Case(
        lambda: make_pipeline(pre.MinMaxScaler(clip=True), _lm.Ridge()), SCORE, refused="clip=True"
    ),
    "clipped MaxAbsScaler": Case(
        lambda: make_pipeline(pre.MaxAbsScaler(), _lm.Ridge()),
        SCORE,
        after=lambda e: _set(e[0], clip=True) and e,
        refused="clip=True",
    ),
    "a function": Case(
        lambda: make_pipeline(pre.FunctionTransformer(np.abs), _lm.Ridge()), SCORE, refused="func must be None"
    ),
    "Normalizer in a ColumnTransformer": Case(
        lambda: make_pipeline(compose.ColumnTransformer([("a", pre.Normalizer(), [0, 1])]), _lm.Ridge()),
        SCORE,
        refused="Normalizer is not supported",
    ),
    "sparse labels": Case(partial(neural_network.MLPClassifier, **_mlp), sparse.csr_matrix(LABELS), refused="dense targets"),
    "one class": Case(
        partial(neural_network.MLPClassifier, **_mlp), np.zeros(COUNT, dtype=int), refused="two or more classes"
    ),
    "an unknown output": Case(
        partial(neural_network.MLPRegressor, **_mlp),
        SCORE,
        after=partial(_set, out_activation_="softplus"),
        refused="out_activation_",
    ),
    "an unknown activation": Case(
        partial(neural_network.MLPRegressor, **_mlp), SCORE, after=partial(_set, activation="sine"), refused="sine"
    ),
    "weights that are no numbers": Case(_lm.Ridge, SCORE, after=partial(_set, coef_=np.full(5, np.nan)), refused="NaN"),
}
for _name, _make, _y in (
    ("SVC", partial(svm.SVC, kernel="linear"), TWO),
    ("SVR", partial(svm.SVR, kernel="linear"), SCORE),
    ("NuSVC", svm.NuSVC, TWO),
    ("GaussianNB", naive_bayes.GaussianNB, TWO),
    ("BernoulliNB", naive_bayes.BernoulliNB, TWO),
    ("KNeighborsClassifier", neighbors.KNeighborsClassifier, TWO),
    ("NearestCentroid", neighbors.NearestCentroid, TWO),
    ("AdaBoostClassifier", partial(ensemble.AdaBoostClassifier, n_estimators=2), TWO),
    ("QuadraticDiscriminantAnalysis", discriminant_analysis.QuadraticDiscriminantAnalysis, TWO),
    ("RANSACRegressor", partial(_lm.RANSACRegressor, random_state=0), SCORE),
    (
        "TransformedTargetRegressor",
        partial(compose.TransformedTargetRegressor, _lm.Ridge(), func=np.sinh, inverse_func=np.arcsinh),
        SCORE,
    ),
    ("CalibratedClassifierCV", partial(calibration.CalibratedClassifierCV, _logistic(), cv=2), TWO),
    ("OneVsRestClassifier", partial(multiclass.OneVsRestClassifier, _logistic()), THREE),
    ("OneVsOneClassifier", partial(multiclass.OneVsOneClassifier, _logistic()), THREE),
    ("MultiOutputRegressor", partial(multioutput.MultiOutputRegressor, _lm.Ridge()), TARGETS),
    ("MultiOutputClassifier", partial(multioutput.MultiOutputClassifier, _logistic()), LABELS),
    ("ClassifierChain", partial(multioutput.ClassifierChain, _logistic()), LABELS),
    ("FixedThresholdClassifier", partial(model_selection.FixedThresholdClassifier, _logistic(), threshold=0.9), TWO),
    ("VotingClassifier", partial(ensemble.VotingClassifier, [("a", _logistic())]), TWO),
    ("SGDOneClassSVM", _lm.SGDOneClassSVM, None),
):
    CASES[_name] = Case(_make, _y, refused="is not supported; use one of")
CASES["IsotonicRegression"] = Case(isotonic.IsotonicRegression, SCORE, x=X[:, :1], refused="is not supported; use one of")
for _name, _step in {
    "Normalizer": pre.Normalizer(),
    "PolynomialFeatures": pre.PolynomialFeatures(2),
    "PowerTransformer": pre.PowerTransformer(),
    "QuantileTransformer": pre.QuantileTransformer(n_quantiles=10),
    "Binarizer": pre.Binarizer(),
    "KBinsDiscretizer": pre.KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    "SplineTransformer": pre.SplineTransformer(),
    "SimpleImputer": SimpleImputer(),
    "KernelPCA": decomposition.KernelPCA(2, kernel="rbf"),
}.items():
    CASES[_name] = Case(partial(_after, _step, _lm.Ridge()), SCORE, refused="is not supported; use one of")
