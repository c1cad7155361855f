"""Reads fitted estimators of scikit-learn: their weights and the rules of their predictions.

The module reads attributes and calls methods of the estimator; it does not import scikit-learn. The module's functions raise
DtypeError for estimators, steps and options that it does not support.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import described
from heliograph.ml.affine import Floats, Pieces, Projection, Scaling, Step, pull, size, wide
from heliograph.ml.inputs import column_names
from heliograph.ml.outputs import Output


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Regressors whose predictions are a matrix product, or a function of one.
REGRESSORS = _words(
    "LinearRegression Ridge RidgeCV Lasso LassoCV ElasticNet ElasticNetCV SGDRegressor LinearSVR HuberRegressor "
    "BayesianRidge ARDRegression Lars LarsCV LassoLars LassoLarsCV LassoLarsIC OrthogonalMatchingPursuit "
    "OrthogonalMatchingPursuitCV MultiTaskLasso MultiTaskLassoCV MultiTaskElasticNet MultiTaskElasticNetCV "
    "QuantileRegressor TheilSenRegressor PoissonRegressor GammaRegressor TweedieRegressor"
)
CLASSIFIERS = _words(
    "LogisticRegression LogisticRegressionCV RidgeClassifier RidgeClassifierCV LinearSVC SGDClassifier Perceptron "
    "LinearDiscriminantAnalysis"
)
PERCEPTRONS = frozenset(("MLPClassifier", "MLPRegressor"))
_SEARCHES = _words("GridSearchCV RandomizedSearchCV HalvingGridSearchCV HalvingRandomSearchCV")
_SCALERS = _words("StandardScaler MinMaxScaler MaxAbsScaler RobustScaler")
_PROJECTIONS = _words("PCA IncrementalPCA TruncatedSVD")
_SELECTORS = _words(
    "SelectKBest SelectPercentile SelectFpr SelectFdr SelectFwe GenericUnivariateSelect VarianceThreshold RFE RFECV "
    "SelectFromModel SequentialFeatureSelector"
)
_UNIONS = frozenset(("ColumnTransformer", "FeatureUnion"))
STEPS = _SCALERS | _PROJECTIONS | _SELECTORS | _UNIONS | {"FunctionTransformer", "Pipeline"}
_MODELS = REGRESSORS | CLASSIFIERS | PERCEPTRONS
#: Attributes that a subclass may override, since they change neither predictions nor transformations.
_HARMLESS = _words(
    "fit _fit partial_fit _partial_fit _validate_params fit_transform fit_predict score get_params set_params "
    "get_feature_names_out get_metadata_routing path set_output _more_tags _get_tags _get_param_names _repr_html_ "
    "_repr_mimebundle_ _doc_link_module _doc_link_template _parameter_constraints _sklearn_auto_wrap_output_keys "
    "_estimator_type _required_parameters _abc_impl"
)
_METHODS = ("predict", "decision_function", "predict_proba", "transform", "get_support")
#: Relative rounding of two orders of summation in float64, and in float32.
_DOUBLE, _SINGLE = 2.0**-42, 2.0**-14


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator: linear steps, then layers of weights [outputs, inputs] with an activation between them."""

    name: str
    steps: tuple[Step, ...]
    weights: list[Floats]
    biases: list[Floats]
    activation: str
    output: Output
    classes: npt.NDArray[Any] | None
    features: int
    names: tuple[str, ...]  #: names of the columns; empty if the estimator was fitted without names
    rounding: float  #: relative rounding error of the estimator's own arithmetic

    def tolerance(self, x: Floats) -> Floats:
        """Returns bounds on rounding errors of the values [outputs], for features [features, count]."""
        sizes = size(self.steps, np.abs(x).max(1, initial=0).astype(np.longdouble)).astype(np.float64)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            sizes = np.abs(weight) @ sizes + np.abs(bias)
            if number + 1 < len(self.weights) and self.activation != "identity":
                sizes = sizes + 1  # no activation has a slope above 1
        return sizes * self.rounding


def read(estimator: Any) -> Fitted:
    """Reads a fitted estimator. Raises DtypeError if it is not supported, ParameterError if it is not fitted."""
    steps, models, inner = _peeled(estimator)
    kind = kind_of(inner, _MODELS)
    weights, biases = _perceptron(inner) if kind in PERCEPTRONS else _linear(inner)
    chains: list[Step] = []
    for step in steps:
        chains += _step(step)
    models += [*steps, inner]
    features = _first(models, "n_features_in_")
    count = int(pull(chains, weights[0]).shape[1] if features is None else features)
    _require_chain(chains, weights[0], count)
    names = _first(models, "feature_names_in_")
    single = any(_holds_single(one) for one in models)
    classes = None
    if kind in CLASSIFIERS or kind == "MLPClassifier":
        classes = np.array(_required(inner, "classes_"))
        if classes.ndim != 1 or len(classes) != max(2, len(biases[-1])):
            raise _core.DtypeError(
                f"cannot mirror this {kind}: it must have two or more classes, each with a value of its own, not the "
                f"classes {described(classes.tolist())} with {len(biases[-1])} values"
            )
    return Fitted(
        kind,
        tuple(chains),
        weights,
        biases,
        str(inner.activation) if kind in PERCEPTRONS else "identity",
        _output(kind, inner, len(biases[-1])),
        classes,
        count,
        () if names is None else tuple(str(name) for name in names),
        _SINGLE if single else _DOUBLE,
    )


def kind_of(estimator: Any, supported: frozenset[str]) -> str:
    """Returns the name of its class in scikit-learn.

    Raises DtypeError for an unknown class or one that overrides its predictions.
    """
    classes = type(estimator).__mro__
    ours = [base for base in classes if _of_sklearn(base)]
    base = next((base for base in ours if base.__name__ in supported), None)
    before = [] if base is None else [one.__name__ for one in ours[: ours.index(base)] if issubclass(one, base)]
    if base is None or before:
        raise _core.DtypeError(
            f"{type(estimator).__name__} is not supported; use one of {', '.join(sorted(supported))}, or a Pipeline or a "
            "search (GridSearchCV) with one of these at its end"
        )
    for one in classes:
        if one is object or _of_sklearn(one):
            continue
        for name, member in vars(one).items():
            harmless = name in _HARMLESS or (name.startswith("__") and name != "__getattribute__")
            harmless = harmless or (name.startswith("set_") and name.endswith("_request"))
            own = inspect.getattr_static(type(estimator), name, None) is member
            if not harmless and own and any(name in vars(other) for other in (*ours, object)):
                raise _overridden(estimator, f"its class {one.__name__} overrides {name}", base.__name__)
    for name in getattr(estimator, "__dict__", ()):
        member = inspect.getattr_static(type(estimator), name, None)
        if name not in _HARMLESS and (callable(member) or hasattr(member, "__get__")):
            raise _overridden(estimator, f"{name} was replaced on this object", base.__name__)
    for name in _METHODS:
        module = getattr(getattr(type(estimator), name, None), "__module__", None)
        if isinstance(module, str) and module.split(".")[0] != "sklearn":
            raise _overridden(estimator, f"{name} was replaced by a function of the module {module}", base.__name__)
    return base.__name__


def predictions(estimator: Any, fitted: Fitted, samples: Any) -> tuple[npt.NDArray[Any], Floats | None, Floats | None]:
    """Returns the estimator's own predictions, decision values and probabilities; None for methods that it lacks."""
    names = column_names(samples, "the calibration data")
    if fitted.names and names and names != fitted.names:
        columns = list(fitted.names)
        samples = samples.select(columns) if callable(getattr(samples, "select", None)) else samples[columns]
    elif not hasattr(samples, "columns"):
        samples = np.asarray(samples)
    results: list[Any] = []
    for name in ("predict", "decision_function", "predict_proba"):
        method = getattr(estimator, name, None)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                # Scalers with copy=False overwrite their argument.
                result = None if method is None else method(copy.deepcopy(samples))
        except Exception as error:
            raise _core.DtypeError(
                f"cannot mirror {fitted.name}: its own {name} fails on the calibration data: {type(error).__name__}: {error}"
            ) from error
        if not (result is None or isinstance(result, np.ndarray)) or (result is None and name == "predict"):
            raise _core.DtypeError(
                f"cannot mirror {fitted.name}: {name} must return a NumPy array, not {type(result).__name__}; fit it on "
                "dense targets"
            )
        results.append(result)
    return results[0], results[1], results[2]


def resolve_output(fitted: Fitted, predicted: npt.NDArray[Any], probable: bool, samples: Any) -> Fitted:
    """Sets the output's kind and shape by the estimator's own predictions, and its rounding by the samples' dtype."""
    if np.asarray(samples).dtype in (np.float32, np.float16):
        fitted = replace(fitted, rounding=_SINGLE)
    output, outputs = fitted.output, len(fitted.biases[-1])
    if fitted.classes is None:
        output = replace(output, column=predicted.ndim == 2 and outputs == 1)
    elif predicted.ndim == 2:
        output = replace(output, kind="labels")
        if output.probability not in ("", "logistic"):
            output = replace(output, probability="")
    if not probable:
        output = replace(output, probability="")
    return replace(fitted, output=output)


def require_same(
    fitted: Fitted, values: Floats, tolerance: Floats, own: tuple[npt.NDArray[Any], Floats | None, Floats | None]
) -> None:
    """Raises DtypeError if values [count, outputs] of the calibration data differ from the estimator's own values."""
    predicted, decided, probabilities = own
    output, outputs = fitted.output, values.shape[1]
    mirrored = output.predict(values, fitted.classes)
    if mirrored.shape != predicted.shape or _sort_of(mirrored) != _sort_of(predicted):
        raise _differs(
            fitted, "predict", f"an array {predicted.shape} of {predicted.dtype}", f"{mirrored.shape} of {mirrored.dtype}"
        )
    if output.kind == "values":
        allowed = (
            tolerance if output.link == "identity" else np.abs(mirrored.reshape(len(mirrored), -1)) * np.expm1(tolerance)
        )
        _require_near(fitted, "predict", predicted, mirrored, allowed)
        return
    if output.kind == "labels":
        is_decided = (np.abs(values) > tolerance).all(1)
    elif outputs == 1:
        is_decided = np.abs(values[:, 0]) > tolerance[0]
    else:
        ordered = np.sort(values, axis=1)
        is_decided = ordered[:, -1] - ordered[:, -2] > 2 * tolerance.max()
    same = np.asarray(predicted == mirrored).reshape(len(mirrored), -1).all(1)
    if not (same | ~is_decided).all():
        row = int(np.argmin(same | ~is_decided))
        raise _differs(fitted, "predict", f"{predicted[row]!r} for row {row}", repr(mirrored[row]))
    if decided is not None:
        _require_near(fitted, "decision_function", decided, values[:, 0] if decided.ndim == 1 else values, tolerance)
    if probabilities is not None and output.probability:
        with np.errstate(all="ignore"):
            mirrored_probabilities = output.probabilities(values, fitted.name)
        _require_near(
            fitted,
            "predict_proba",
            probabilities,
            mirrored_probabilities,
            np.full(1, 4 * tolerance.max() + 16 * fitted.rounding),
        )


def _require_near(fitted: Fitted, method: str, own: Any, mirrored: Floats, allowed: Floats) -> None:
    if own.shape != mirrored.shape:
        raise _differs(fitted, method, f"an array {own.shape}", str(mirrored.shape))
    with np.errstate(invalid="ignore"):
        off = np.abs(own - mirrored)
    off = np.where((own == mirrored) | (np.isnan(own) & np.isnan(mirrored)), 0.0, off).reshape(len(mirrored), -1)
    if not (off <= allowed).all():
        row = int(np.argmax(~(off <= allowed).all(1)))
        raise _differs(fitted, method, f"{own[row]!r} for row {row}", repr(mirrored[row]))


def _differs(fitted: Fitted, method: str, own: str, mirrored: str) -> _core.DtypeError:
    return _core.DtypeError(
        f"cannot mirror this {fitted.name}: its own {method} gives {own} of the calibration data, but its fitted attributes "
        f"give {mirrored}; use an estimator that predicts by its fitted attributes, as scikit-learn's own do"
    )


def _overridden(estimator: Any, what: str, original: str) -> _core.DtypeError:
    return _core.DtypeError(
        f"cannot mirror this {type(estimator).__name__}: {what}; predictions must be those of scikit-learn's {original}; "
        f"use {original} itself, or a subclass that overrides only fit"
    )


def _of_sklearn(base: type) -> bool:
    return base.__module__.split(".")[0] == "sklearn"


def _sort_of(values: npt.NDArray[Any]) -> str:
    return {"f": "number", "i": "integer", "u": "integer"}.get(values.dtype.kind, values.dtype.kind)


# Pipelines and parameter searches: estimators that contain the model


def _peeled(estimator: Any) -> tuple[list[Any], list[Any], Any]:
    """Returns the steps before the model, the searches around it from the outside in, and the model."""
    steps: list[Any] = []
    around: list[Any] = []
    while True:
        kind = kind_of(estimator, _MODELS | _SEARCHES | {"Pipeline"})
        if kind in _MODELS:
            return steps, around, estimator
        if kind == "Pipeline":
            parts = [step for _, step in estimator.steps if step is not None and not _passes(step)]
            if not parts:
                raise _core.DtypeError("a Pipeline must have a model at its end, not only passthrough steps")
            steps += parts[:-1]
            estimator = parts[-1]
        else:
            around.append(estimator)
            if getattr(estimator, "refit", True) is False:
                raise _core.ParameterError(f"this {kind} has no fitted estimator: it must be made with refit=True")
            estimator = _required(estimator, "best_estimator_")


def _passes(step: Any) -> bool:
    return isinstance(step, str) and step == "passthrough"


def _first(objects: list[Any], name: str) -> Any:
    """Returns an attribute of the first object that has it, up to the first step that changes the features; else None."""
    for one in objects:
        value = getattr(one, name, None)
        if value is not None:
            return value
        if kind_of(one, STEPS | _MODELS | _SEARCHES) not in _SEARCHES | {"Pipeline", "FunctionTransformer"}:
            return None
    return None


def _holds_single(estimator: Any) -> bool:
    """Tells whether fitted attributes are of float32 or float16, in which the estimator then computes."""
    values = [v for value in vars(estimator).values() for v in (value if isinstance(value, list) else [value])]
    return any(getattr(v, "dtype", None) in (np.float32, np.float16) for v in values)


def _required(estimator: Any, name: str) -> Any:
    value = getattr(estimator, name, None)
    if value is None:
        raise _core.ParameterError(
            f"this {type(estimator).__name__} is not fitted: it has no {name}; call its fit(X, y) first"
        )
    return value


# Models


def _dense(values: Any) -> Floats:
    """Returns a copy of numbers as a dense float64 array. Raises DtypeError."""
    try:
        return np.array(values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64)
    except (TypeError, ValueError):
        raise _core.DtypeError(
            f"cannot mirror this estimator: its weights must be numbers, not {described(values)}; fit it again"
        ) from None


def _linear(estimator: Any) -> tuple[list[Floats], list[Floats]]:
    weight = np.atleast_2d(_dense(_required(estimator, "coef_")))
    bias = np.atleast_1d(_dense(estimator.intercept_))
    return [weight], [np.broadcast_to(bias, (len(weight),)).astype(np.float64)]


def _perceptron(estimator: Any) -> tuple[list[Floats], list[Floats]]:
    weights = [_dense(w).T for w in _required(estimator, "coefs_")]
    return weights, [_dense(b) for b in estimator.intercepts_]


def _output(kind: str, estimator: Any, outputs: int) -> Output:
    """Returns the output of a model, from its class and options. Raises DtypeError."""
    if kind in PERCEPTRONS:
        last = str(_required(estimator, "out_activation_"))
        links = {"identity": "identity", "exp": "exp"}
        if kind == "MLPRegressor" and last in links:
            return Output(link=links[last])
        if kind == "MLPClassifier" and last in ("logistic", "softmax"):
            return Output("class", probability=last)
        raise _core.DtypeError(
            f'cannot mirror this {kind}: its out_activation_ must be "identity" or "exp" for a regressor, "logistic" or '
            '"softmax" for a '
            f"classifier, not {described(last)}"
        )
    if kind in ("PoissonRegressor", "GammaRegressor"):
        return Output(link="exp")
    if kind == "TweedieRegressor":
        log = estimator.link == "log" or (estimator.link == "auto" and estimator.power > 0)
        return Output(link="exp" if log else "identity")
    if kind in REGRESSORS:
        return Output()
    several = "softmax" if outputs > 1 else "logistic"
    if kind.startswith("LogisticRegression"):
        apart = estimator.solver == "liblinear" or getattr(estimator, "multi_class", "") == "ovr"
        return Output("class", probability="ovr" if apart and outputs > 1 else several)
    if kind == "LinearDiscriminantAnalysis":
        return Output("class", probability=several)
    loss = str(estimator.loss) if kind == "SGDClassifier" else ""
    if loss in ("log_loss", "log"):
        return Output("class", probability="ovr" if outputs > 1 else "logistic")
    return Output("class", probability="modified_huber" if loss == "modified_huber" else "")


# Steps


def _step(step: Any) -> list[Step]:
    """Converts a transformation of scikit-learn to linear steps. Raises DtypeError, ParameterError."""
    if step is None or _passes(step):
        return []
    kind = kind_of(step, STEPS)
    if kind == "Pipeline":
        return [inner for _, part in step.steps for inner in _step(part)]
    if kind in _SCALERS:
        return [_scaling(kind, step)]
    if kind in _PROJECTIONS:
        return [_projection(kind, step)]
    if kind in _UNIONS:
        return [_pieces(kind, step)]
    if kind == "FunctionTransformer":
        if step.func is not None:
            raise _core.DtypeError(
                f"cannot mirror the step FunctionTransformer: func must be None, not {described(step.func)}; apply the "
                "function to the samples before, and fit on its results"
            )
        return []
    count = int(_required(step, "n_features_in_"))
    support = np.flatnonzero(np.asarray(step.get_support()))
    return [Pieces(count, ((support.astype(np.int64), ()),))]


def _scaling(kind: str, step: Any) -> Scaling:
    if getattr(step, "clip", False):
        raise _core.DtypeError(
            f"cannot mirror the step {kind} with clip=True: it is not a linear function of the features; fit it with "
            "clip=False"
        )
    _required(step, "n_features_in_")
    if kind == "MinMaxScaler":
        return Scaling(0.0, wide(_required(step, "scale_")), wide(step.min_))
    if kind == "MaxAbsScaler":
        return Scaling(0.0, 1 / wide(_required(step, "scale_")), 0.0)
    shifts, scales = (
        (step.with_mean, step.with_std) if kind == "StandardScaler" else (step.with_centering, step.with_scaling)
    )
    before = (step.mean_ if kind == "StandardScaler" else step.center_) if shifts else None
    return Scaling(
        0.0 if before is None else wide(before), 1 / wide(step.scale_) if scales and step.scale_ is not None else 1.0, 0.0
    )


def _projection(kind: str, step: Any) -> Projection:
    matrix = _dense(_required(step, "components_"))
    if kind == "TruncatedSVD":
        return Projection(0.0, matrix)
    if step.whiten:
        deviation = np.sqrt(_dense(step.explained_variance_))
        matrix = matrix / np.maximum(deviation, np.finfo(np.asarray(step.explained_variance_).dtype).eps)[:, None]
    return Projection(wide(step.mean_), matrix)


def _pieces(kind: str, step: Any) -> Pieces:
    count, weights = int(_required(step, "n_features_in_")), step.transformer_weights or {}
    chains: list[tuple[npt.NDArray[np.int64], tuple[Step, ...]]] = []
    for name, part, *_ in _required(step, "transformers_" if kind == "ColumnTransformer" else "transformer_list"):
        if isinstance(part, str) and part == "drop":
            continue
        columns = range(count) if kind == "FeatureUnion" else step._transformer_to_input_indices[name]
        if not len(columns):  # a part without columns is not fitted
            continue
        chain = _step(part)
        if name in weights:
            chain.append(Scaling(0.0, float(weights[name]), 0.0))
        chains.append((np.array(columns, dtype=np.int64), tuple(chain)))
    return Pieces(count, tuple(chains))


def _require_chain(steps: list[Step], weight: Floats, features: int) -> None:
    """Raises DtypeError if the sizes of steps and model do not fit, as in an estimator that was modified by hand."""
    try:
        fits = size(steps, np.zeros(features, dtype=np.longdouble)).shape == (weight.shape[1],)
        fits = fits and pull(steps, weight).shape == (len(weight), features)
    except (ValueError, IndexError):
        fits = False
    if not fits:
        raise _core.DtypeError(
            f"cannot mirror this estimator: its steps must map its {features} features to the {weight.shape[1]} of its "
            "model; fit it again"
        )
