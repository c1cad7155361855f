"""Compilation of trained models for encrypted data."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import count_of, described, path_of, real
from heliograph.ml.canonical import canonical
from heliograph.ml.errors import AccuracyError, ModelError
from heliograph.ml.estimators import EstimatorModel, compile_estimator
from heliograph.ml.fitted import kind_of
from heliograph.ml.graph import Graph
from heliograph.ml.model import Model
from heliograph.ml.networks.compiling import compile_graph
from heliograph.ml.networks.preparation import Preparation
from heliograph.ml.networks.prepared import PreparedModel
from heliograph.ml.outputs import Output
from heliograph.ml.partition import partition
from heliograph.ml.read.onnx import read_onnx
from heliograph.ml.read.torch import read_torch
from heliograph.ml.trees import lightgbm, sklearn, xgboost
from heliograph.ml.trees.compile import compile_ensemble
from heliograph.ml.trees.ensemble import Ensemble
from heliograph.ml.trees.model import EnsembleModel
from heliograph.programs.forecast import Costs, forecast

#: Kinds of models that `compile` takes, for errors.
KINDS = (
    "a fitted estimator, tree or ensemble of scikit-learn, XGBoost or LightGBM",
    "a path of an ONNX file (.onnx), or of a model of XGBoost (.json, .ubj) or LightGBM (.txt)",
    "a torch.nn.Module",
    "a heliograph.ml.graph.Graph",
)
_OPTIONS = {
    "estimator": ("degree", "error", "margin", "intervals"),
    "ensemble": ("scheme", "reveal", "target"),
    "network": ("target", "guard", "margin", "classifies", "parameters", "lean", "compact", "outputs"),
}
_LARGEST_FILE = 1 << 30


def compile(
    model: Any,
    calibrate: Any = None,
    *,
    batch: int = 1,
    accuracy: float | None = None,
    limit: Costs | None = None,
    **options: Any,
) -> Any:
    """Makes a model for encrypted inputs of a trained model: an estimator or ensemble of trees, or a file of one.

    Returns a `Model`: `EnsembleModel` for trees, `EstimatorModel` for other estimators, another class for networks.

    Models:

    - Trees of scikit-learn: decision trees, random forests, extra trees, gradient boosting, histogram gradient boosting and
      isolation forests. Trees of XGBoost and LightGBM, also as files. They run by CKKS for few rows and by BGV for many.
      Values are within 2^-20 of the largest leaf.
    - Linear models of scikit-learn: LinearRegression, Ridge, Lasso, ElasticNet, SGDRegressor, LinearSVR, PoissonRegressor
      and others; LogisticRegression, RidgeClassifier, LinearSVC, SGDClassifier, Perceptron, LinearDiscriminantAnalysis.
    - Perceptrons of scikit-learn: MLPClassifier, MLPRegressor.
    - Linear models and perceptrons at the end of a Pipeline with linear steps: StandardScaler, MinMaxScaler, MaxAbsScaler,
      RobustScaler, PCA, TruncatedSVD, selections (SelectKBest and others), and a ColumnTransformer of such steps.
    - These in a search (GridSearchCV), by its `best_estimator_`.
    - Networks: ONNX files, `torch.nn.Module`.

    `calibrate` holds samples [count, features] like the future inputs, such as the training data. On these the results are
    compared with the model's own; a difference beyond rounding is an error. Trees need no calibration data; with them,
    missing values are refused in features that have none.

    `batch` is the number of rows or samples of a request, from which the scheme of trees is chosen. `accuracy` is the
    largest share of samples that may change their class, or the largest relative error of a regressor. `limit` refuses a
    model whose forecast is beyond a maximum of seconds or bytes on the device in use, before any keys exist.

    Options of trees:

    - `scheme`: "auto", "ckks" (sums of paths) or "bgv" (products of conditions), in any case.
    - `reveal`: the content of the client's half. "thresholds": features and thresholds of all conditions. "trees": also
      the conditions of each group of trees, which makes requests several times faster. "auto": "thresholds" if the
      conditions fit one ciphertext.

    - `target`: a cost profile: a name, a file of `heliograph profile`, or a profile. Forecasts and `limit` are then
      those of that device.

    Options of estimators:

    - `degree`: an activation becomes a least-squares polynomial of this degree (7) on an interval `margin` (1.25) times as
      wide as its observed arguments. Outside the interval the polynomial diverges, so `encrypt` refuses such samples.
    - `error`, instead of `degree`: the polynomial has the smallest degree whose error is at most `error` on the whole
      interval (`hg.ckks.approximate`).
    - `intervals`: with "proven" the intervals cover all samples inside `ranges`, by interval arithmetic over the layers.
      Clients without the weights then refuse all samples that could be wrong. Wider intervals need a larger `degree`.

    Options of networks:

    - `calibrate` may be a pair of samples and class numbers. Then `accuracy` is the share of right classes that may be lost.
    - Samples of several inputs, or of token numbers and masks, are a dict of arrays by input name. The client then looks up
      embeddings and prepares masks in the clear.
    - `margin`: intervals of activations are the calibrated ranges, widened at both ends by (margin - 1) times their largest
      magnitude (1.3). `guard=False` makes no guards of these intervals.
    - `target`: name or path of the profile of the machine for which seconds are predicted (`heliograph profile`).
    - `parameters`: a parameter set. By default the set of 128 bits with the least predicted time.
    - `classifies`: whether outputs are scores of classes; by default they are, if there are at least two. Several sigmoids
      are probabilities of labels by default: `predict` then returns 0 or 1 for each.
    - `outputs`: name of the output of a file with several outputs.
    - `compact`: encoded matrices take about a tenth of the memory and are transformed again for each product.
    - `lean`: encoded matrices are not kept between calls.

    If the model was fitted with column names, the columns of data frames are matched by name.

    Raises DtypeError for unsupported estimators, and ModelError for other unsupported or damaged models. Raises
    ParameterError if the estimator is not fitted or all its decision values are 0. Raises ShapeError, AccuracyError,
    LimitError, and PlaintextRangeError for samples or weights with infinities or NaN.

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
    count = count_of(batch, "batch", 1)
    if accuracy is not None and not 0 <= real(accuracy, "the accuracy") <= 1:
        raise _core.ParameterError(f"accuracy must be a share from 0 to 1, not {described(accuracy)}")
    if limit is not None and not isinstance(limit, Costs):
        raise _core.DtypeError(f"limit must be a hg.Costs, not {described(limit)}")
    inner = model
    while hasattr(inner, "best_estimator_"):
        inner = inner.best_estimator_
    inner = _last_step(inner)
    ensemble, own = _ensemble(inner)
    if ensemble is not None:
        _require_options("ensemble", options)
        made = compile_ensemble(ensemble, calibrate, batch=count, limit=limit, own=own, **options)
        _require_accuracy(made, accuracy)
        return made
    if isinstance(model, (str, os.PathLike, Graph)) or _module_of(model, "torch"):
        _require_options("network", options)
        return _network(model, calibrate, {"batch": count, "accuracy": accuracy, "limit": limit, **options})
    _require_known_ensemble(inner)
    if not _module_of(inner, "sklearn") and not hasattr(inner, "predict"):
        raise ModelError(f"cannot compile {described(model)}: it must be {'; '.join(KINDS)}")
    _require_options("estimator", options)
    fitted = compile_estimator(model, calibrate, **options)
    fitted.batch = count if count > 1 else 0
    _require_accuracy(fitted, accuracy)
    if limit is not None:
        _require_costs(fitted, limit, count)
    return fitted


def _require_known_ensemble(model: Any) -> None:
    """Raises ModelError for another ensemble of scikit-learn."""
    if any(base.__module__.startswith("sklearn.ensemble.") for base in type(model).__mro__):
        kinds = ("RandomForest", "ExtraTrees", "GradientBoosting", "HistGradientBoosting", "IsolationForest")
        raise ModelError(f"the ensemble {type(model).__name__} is not supported; use one of {', '.join(kinds)}")


def _require_options(kind: str, options: dict[str, Any]) -> None:
    for name in options:
        if name not in _OPTIONS[kind]:
            kinds = [
                f"{name}= is an option of a model of kind {other}" for other, names in _OPTIONS.items() if name in names
            ]
            raise _core.ParameterError(
                f"compile has no option {name}= for a model of kind {kind}, which has {', '.join(_OPTIONS[kind])}"
                + "".join(f"; {text}" for text in kinds)
            )


def _module_of(model: Any, name: str) -> bool:
    """Tells whether a class of the object is defined by a library."""
    return any(base.__module__.split(".")[0] == name for base in type(model).__mro__)


def _last_step(model: Any) -> Any:
    """Returns the tree model at the end of a Pipeline without other steps; any other object itself. Raises ModelError."""
    if type(model).__name__ != "Pipeline" or not _module_of(model, "sklearn"):
        return model
    steps = [step for _, step in model.steps if step is not None and not (isinstance(step, str) and step == "passthrough")]
    if not steps or not _is_tree(steps[-1]):
        return model
    if len(steps) > 1:
        raise ModelError(
            f"cannot compile a Pipeline with trees after {type(steps[0]).__name__}: trees must be its only step; "
            "transform the samples before, and compile the last step"
        )
    return steps[-1]


def _is_tree(model: Any) -> bool:
    return any(
        base.__name__ in sklearn.KINDS if base.__module__.split(".")[0] == "sklearn" else False
        for base in type(model).__mro__
    ) or any(_module_of(model, name) for name in ("xgboost", "lightgbm"))


def _ensemble(model: Any) -> tuple[Ensemble | None, Callable[[Any], Any] | None]:
    """Returns the ensemble of a model of trees and its own predictions; None for another model."""
    if isinstance(model, (str, os.PathLike)):
        return _ensemble_of_file(Path(path_of(model))), None
    if _module_of(model, "xgboost"):
        return _of_xgboost(model)
    if _module_of(model, "lightgbm"):
        return _of_lightgbm(model)
    if _module_of(model, "sklearn") and _is_tree(model):
        return sklearn.read(model, kind_of(model, sklearn.KINDS)), model.predict
    return None, None


def _ensemble_of_file(path: Path) -> Ensemble | None:
    """Reads a file of XGBoost or LightGBM; returns None for an ONNX file. Raises ModelError for other files, OSError."""
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        return None
    if suffix not in (".json", ".ubj", ".txt"):
        raise ModelError(
            f"cannot compile the file {path.name!r}: its name must end in .onnx, .json or .ubj (XGBoost) or .txt "
            f"(LightGBM). "
            "Pickles run code and are never loaded"
        )
    if path.stat().st_size > _LARGEST_FILE:
        raise ModelError(f"cannot compile the file {path.name!r}: it must have at most {_LARGEST_FILE >> 20} MiB")
    data = path.read_bytes()
    if suffix != ".txt":
        return xgboost.read_json(data, path.name)
    try:
        return lightgbm.read_text(data.decode(), path.name)
    except UnicodeDecodeError:
        raise ModelError(f"cannot compile the file {path.name!r}: a text file of LightGBM must be UTF-8") from None


def _of_xgboost(model: Any) -> tuple[Ensemble, Callable[[Any], Any] | None]:
    name = type(model).__name__
    if hasattr(model, "get_booster"):
        try:
            booster = model.get_booster()
        except Exception as error:
            raise _core.ParameterError(f"this {name} must be fitted first: {error}") from None
        steps = int(getattr(model, "best_iteration", -1)) + 1  # also of a model that was loaded from a file
        missing = float(getattr(model, "missing", float("nan")))
        classifies = _is_classifier(model)
        classes = getattr(model, "classes_", None) if classifies else None
        if classifies and classes is not None and len(classes) < 2:
            raise ModelError(f"cannot compile {name}: it must have at least two classes, got {len(classes)}; fit it on more")
        own: Callable[[Any], Any] | None = model.predict
    else:
        booster, steps, missing, classes, own, classifies = model, 0, float("nan"), None, None, True
    if not hasattr(booster, "save_raw"):
        raise ModelError(f"cannot compile {name}: it must be a Booster or an estimator of XGBoost")
    data = bytes(booster.save_raw("json"))
    found = xgboost.read_json(
        data,
        name,
        classes=classes,
        names=booster.feature_names,
        missing=missing,
        steps=steps,
    )
    return found if classifies else _of_numbers(found), own


def _is_classifier(model: Any) -> bool:
    """Tells whether an estimator derives from a classifier of its library."""
    return any(base.__name__.endswith("Classifier") for base in type(model).__mro__)


def _of_numbers(ensemble: Ensemble) -> Ensemble:
    """Returns the ensemble of a regressor or ranker, whose predictions are numbers also with an objective of classes.

    A binary objective gives probabilities. Raises ModelError for others.
    """
    output = ensemble.output
    if output.kind != "class":
        return ensemble
    if output.probability != "logistic" or output.scale != 1:
        kind = f"{ensemble.outputs} classes" if ensemble.outputs > 1 else "classes"
        raise ModelError(
            f"cannot compile {ensemble.name}: a regressor must have an objective of numbers or logistic probabilities, got "
            f"an objective of {kind}; fit a classifier"
        )
    return replace(ensemble, output=Output(link="logistic"), classes=None)


def _of_lightgbm(model: Any) -> tuple[Ensemble, Callable[[Any], Any] | None]:
    name = type(model).__name__
    if hasattr(model, "model_to_string"):
        return lightgbm.read_text(model.model_to_string(), name), None
    try:
        booster = model.booster_
    except Exception as error:
        raise _core.ParameterError(f"this {name} must be fitted first: {error}") from None
    classes = model.classes_ if hasattr(model, "_le") and getattr(model, "_le", None) is not None else None
    names = getattr(model, "feature_names_in_", None) if hasattr(model, "_Booster") else None
    automatic = names is None or all(str(one) == f"Column_{i}" for i, one in enumerate(names))
    found = lightgbm.read_text(booster.model_to_string(), name, classes=classes, names=None if automatic else names)
    return found if _is_classifier(model) else _of_numbers(found), model.predict


def _network(model: Any, calibrate: Any, options: dict[str, Any]) -> Model:
    """Compiles an ONNX file, a torch.nn.Module or a graph. Raises ParameterError without calibration data."""
    if calibrate is None:
        raise _core.ParameterError(
            "cannot compile a network without calibration data: calibrate= must be samples of its input"
        )
    options = {name: value for name, value in options.items() if value is not None}
    outputs = _names_of(options.pop("outputs", None))
    if isinstance(model, Graph):
        if outputs is not None:
            raise _core.ParameterError("outputs= selects outputs of a file or a module, not of a graph")
        return compile_graph(model, calibrate, **options)
    samples, labels = _split(calibrate)
    if isinstance(model, (str, os.PathLike)):
        raw = read_onnx(path_of(model), outputs=outputs, sample=_sample_shapes(samples))
    else:
        if isinstance(samples, Mapping):
            samples = _by_arguments(model, samples)
        example = tuple(samples.values()) if isinstance(samples, Mapping) else calibrate
        raw = read_torch(model, example, outputs=outputs)
        if isinstance(samples, Mapping):
            samples = dict(zip(raw.inputs, samples.values(), strict=True))
    if len(raw.inputs) == 1 and raw.inputs[0] not in raw.dtypes:
        if isinstance(samples, Mapping):
            if set(samples) != set(raw.inputs):
                names = ", ".join(map(str, samples)) or "none"
                raise _core.ShapeError(f"calibrate= must be samples of the input {raw.inputs[0]}, got a dict of {names}")
            samples = samples[raw.inputs[0]]
            calibrate = samples if labels is None else (samples, labels)
        return compile_graph(canonical(raw), calibrate, **options)
    parts = partition(raw)
    preparation = Preparation.of(parts, samples, real(options.get("margin", 1.3), "the margin"))
    graph, masks = preparation.joined(parts.canonical())
    vectors = preparation(samples)
    made = compile_graph(graph, vectors if labels is None else (vectors, labels), masks=masks, **options)
    return PreparedModel(made, preparation)


def _by_arguments(module: Any, samples: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Returns samples in the order of the arguments of `module.forward`, if their names are arguments. Else the order of the
    samples is that of the arguments."""
    places = list(inspect.signature(getattr(module, "forward", module)).parameters)
    if not all(name in places for name in samples):
        return samples
    return {name: samples[name] for name in places if name in samples}


def _names_of(outputs: Any) -> list[str] | None:
    """Returns the name of the selected output as a list; None without a selection. Raises DtypeError."""
    if outputs is None:
        return None
    names = [outputs] if isinstance(outputs, str) else list(outputs) if isinstance(outputs, (list, tuple)) else []
    if len(names) != 1 or not isinstance(names[0], str):
        raise _core.DtypeError(f"outputs must be the name of one output of the model, not {described(outputs)}")
    return names


def _split(calibrate: Any) -> tuple[Any, Any]:
    """Returns the samples, a dict of arrays or one array, and the class numbers; None without them."""
    if isinstance(calibrate, tuple) and len(calibrate) == 2:
        samples, labels = calibrate
        if isinstance(samples, Mapping) or np.ndim(samples) > np.ndim(labels):
            return samples, labels
    return calibrate, None


def _sample_shapes(samples: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of one sample by input, "" for the only one. They give the sizes that a file leaves open."""
    try:
        if isinstance(samples, Mapping):
            return {str(name): tuple(np.shape(values)[1:]) for name, values in samples.items()}
        return {"": tuple(np.shape(samples)[1:])}
    except ValueError:  # lists of different lengths, which the calibration refuses
        return {}


def _require_accuracy(model: EstimatorModel | EnsembleModel, accuracy: float | None) -> None:
    """Raises AccuracyError if the report states a larger loss than `accuracy`."""
    report = model.report
    if accuracy is None or report is None or not report.samples:
        return
    loss = 1 - report.agreement if report.agreement is not None else 0.0
    if isinstance(model, EstimatorModel) and model.classes is None and model.output.kind == "values":
        loss = report.largest_error / max(model._largest, 1e-300)
    if loss > accuracy:
        raise AccuracyError(
            f"cannot compile {model.name} within accuracy={accuracy:g}: the loss on the calibration data is "
            f"{loss:.3g}; use a "
            "larger degree=, or error="
        )


def _require_costs(model: EstimatorModel, limit: Costs, count: int) -> None:
    limit.require(forecast(model, model._example(count)), "limit=")
