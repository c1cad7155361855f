"""Compilation of trained models for encrypted data."""

from __future__ import annotations

from typing import Any

from heliograph.ml.estimators import compile_estimator
from heliograph.ml.model import Model


def compile(
    model: Any,
    calibrate: Any = None,
    *,
    degree: int | None = None,
    error: float | None = None,
    margin: float = 1.25,
    intervals: str = "calibrated",
) -> Model:
    """Makes a model for encrypted features of a fitted estimator of scikit-learn.

    Supported estimators:

    - Linear models: LinearRegression, Ridge, Lasso, ElasticNet, SGDRegressor, LinearSVR, PoissonRegressor and others;
      LogisticRegression, RidgeClassifier, LinearSVC, SGDClassifier, Perceptron, LinearDiscriminantAnalysis.
    - Multilayer perceptrons: MLPClassifier, MLPRegressor.
    - These at the end of a Pipeline with linear steps: StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA,
      TruncatedSVD, selections (SelectKBest and others), and a ColumnTransformer of such steps.
    - These in a search (GridSearchCV), by its `best_estimator_`.

    Other estimators, steps and options raise DtypeError, as does a subclass that overrides predictions.

    The model reproduces the estimator's classes with their type, probabilities, multiple labels, and the exponential of a
    Poisson regressor. On the calibration data its results are compared with the estimator's `predict`, `decision_function`
    and `predict_proba`; a difference beyond rounding raises DtypeError. The client computes the final softmax, logistic
    function or exponential (`predictions`, `probabilities`).

    `calibrate` holds samples [count, features] like the future inputs, such as the training data. The samples determine
    the magnitude of values and the intervals of activations. An activation becomes a least-squares polynomial of `degree`
    (7) on an interval `margin` times as wide as its observed arguments. Outside the interval the polynomial diverges, so
    `encrypt` refuses such samples. `ranges` holds the range of each feature, widened by `margin`. `report` states the
    differences to the estimator.

    With `error` instead of `degree`, an activation becomes the polynomial of the smallest degree whose error is at most
    `error` on the whole interval (`hg.ckks.approximate`).

    With ``intervals="proven"`` the intervals cover all samples inside `ranges`, by interval arithmetic over the layers.
    Clients without the weights then refuse all samples that could be wrong. Wider intervals need a larger `degree`.

    If the estimator was fitted with column names, the columns of data frames are matched by name.

    Raises DtypeError for unsupported estimators, ParameterError if the estimator is not fitted or all its decision values
    are 0, ShapeError, and PlaintextRangeError for samples or weights with infinities or NaN.

    >>> from sklearn.linear_model import LinearRegression
    >>> samples = np.random.default_rng(1).normal(size=(20, 3))
    >>> fitted = LinearRegression().fit(samples, samples @ [1, 2, 3])
    >>> model = hg.ml.compile(fitted, calibrate=samples)
    >>> secret = hg.SecretKey.generate(model.parameters(samples=len(samples)))
    >>> x = hg.Server(secret.evaluation_keys()).bind(model.encrypt(secret, samples))
    >>> found = model.predictions(model.decrypt(secret, model(x), like=samples))
    >>> bool(np.abs(found - fitted.predict(samples)).max() < 1e-3)
    True
    """
    return compile_estimator(model, calibrate, degree=degree, error=error, margin=margin, intervals=intervals)
