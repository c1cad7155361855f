"""Reads trees of scikit-learn from fitted attributes. The module does not import scikit-learn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from heliograph._core import ParameterError
from heliograph.ml.errors import ModelError
from heliograph.ml.outputs import Output
from heliograph.ml.trees.ensemble import Builder, Condition, Ensemble, Floats, at_most

_TREES = {"DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"}
_FORESTS = {"RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"}
_BOOSTED = {"GradientBoostingClassifier", "GradientBoostingRegressor"}
_HISTOGRAMS = {"HistGradientBoostingClassifier", "HistGradientBoostingRegressor"}
KINDS = frozenset(_TREES | _FORESTS | _BOOSTED | _HISTOGRAMS | {"IsolationForest"})
_CONSTANTS = ("DummyClassifier", "DummyRegressor")
#: Losses of HistGradientBoostingRegressor and the links of their predictions.
_LINKS = {"gamma": "exp", "poisson": "exp"}


def read(estimator: Any, kind: str) -> Ensemble:
    """Reads a fitted ensemble or tree. Raises ParameterError if it is not fitted, ModelError if it is not supported."""
    if kind in _HISTOGRAMS:
        made = _histogram(estimator, kind)
    elif kind == "IsolationForest":
        made = _isolation(estimator)
    elif kind in _BOOSTED:
        made = _boosted(estimator, kind)
    else:
        made = _averaged(estimator, kind)
    return made if _allows_missing(estimator) else replace(made, accepts_missing=(False,) * made.features)


def _allows_missing(estimator: Any) -> bool:
    """Tells whether an estimator's predictions accept NaN, by its tags."""
    if hasattr(estimator, "__sklearn_tags__"):
        return bool(estimator.__sklearn_tags__().input_tags.allow_nan)
    return bool(estimator._get_tags()["allow_nan"])  # before scikit-learn 1.6


def _fitted(estimator: Any, name: str) -> Any:
    if not hasattr(estimator, name):
        raise ParameterError(f"this {type(estimator).__name__} must be fitted first; it has no attribute {name}")
    return getattr(estimator, name)


def _names(estimator: Any) -> Any:
    return getattr(estimator, "feature_names_in_", None)


def _add(builder: Builder, tree: Any, values: Floats, where: str, features: Any = None) -> None:
    """Adds a `tree_` of scikit-learn with values [nodes, outputs]. `features` maps its features to those of samples."""
    left = np.asarray(tree.children_left, dtype=np.int64)
    right = np.asarray(tree.children_right, dtype=np.int64)
    missing = getattr(tree, "missing_go_to_left", np.zeros(len(left)))
    condition = np.zeros(len(left), dtype=np.int64)
    for node in np.flatnonzero(left >= 0):
        feature = int(tree.feature[node]) if features is None else int(features[tree.feature[node]])
        threshold = at_most(tree.threshold[node])
        condition[node] = builder.condition(Condition(feature, threshold, bool(missing[node])), where)
    builder.add(condition, left, right, values, where)


def _averaged(estimator: Any, kind: str) -> Ensemble:
    """Reads a tree, or a forest whose prediction is the mean of its trees."""
    trees = [_fitted(estimator, "tree_")] if kind in _TREES else [one.tree_ for one in _fitted(estimator, "estimators_")]
    classes = (
        np.asarray(estimator.classes_) if kind.endswith("Classifier") and not isinstance(estimator.classes_, list) else None
    )
    if kind.endswith("Classifier") and (classes is None or estimator.n_outputs_ != 1):
        raise ModelError(
            f"cannot compile {kind} of {estimator.n_outputs_} outputs: it must have one; fit one model for each"
        )
    if not trees:
        raise ModelError(f"cannot compile {kind}: it must have at least one tree")
    values = [_leaf_values(tree, classes is not None) / len(trees) for tree in trees]
    outputs = values[0].shape[1]
    two = classes is not None and outputs == 2
    if two:  # one value, the second probability less the first
        values, outputs = [v[:, 1:] - v[:, :1] for v in values], 1
    if classes is not None and len(classes) == 1:
        raise ModelError(f"cannot compile {kind}: it must have at least two classes, got one; fit it on more")
    builder = Builder(kind, estimator.n_features_in_, outputs)
    for number, (tree, leaves) in enumerate(zip(trees, values, strict=True)):
        _add(builder, tree, leaves, f"tree {number} of {kind}")
    output = Output("values" if classes is None else "class", probability="" if classes is None else "average")
    return builder.made(np.zeros(outputs), output, classes, single=True, names=_names(estimator))


def _leaf_values(tree: Any, classifies: bool) -> Floats:
    """Returns the values [nodes, outputs] of a tree; probabilities of the classes for a classifier."""
    values = np.asarray(tree.value, dtype=np.float64)
    if not classifies:
        return np.ascontiguousarray(values[:, :, 0])
    counts = values[:, 0, :]
    sums = counts.sum(1, keepdims=True)
    return np.asarray(counts / np.where(sums > 0, sums, 1.0))


def _boosted(estimator: Any, kind: str) -> Ensemble:
    """Reads gradient boosting: a constant plus trees times the learning rate."""
    stages = np.asarray(_fitted(estimator, "estimators_"), dtype=object)
    initial = estimator.init_
    outputs = stages.shape[1]
    if isinstance(initial, str) or initial is None:
        base = np.zeros(outputs)
    elif type(initial).__name__ in _CONSTANTS:
        zeros = np.zeros((1, estimator.n_features_in_), dtype=np.float32)
        base = np.asarray(estimator._raw_predict_init(zeros), dtype=np.float64).reshape(-1)
    else:
        raise ModelError(f"cannot compile {kind} with init={type(initial).__name__}: init must be None or 'zero'")
    builder = Builder(kind, estimator.n_features_in_, outputs)
    for number, stage in enumerate(stages):
        for place, one in enumerate(stage):
            values = np.zeros((one.tree_.node_count, outputs))
            values[:, place] = estimator.learning_rate * one.tree_.value[:, 0, 0]
            _add(builder, one.tree_, values, f"tree {number}, {place} of {kind}")
    if kind.endswith("Regressor"):
        return builder.made(base, Output(), None, single=True, names=_names(estimator))
    exponential = estimator.loss == "exponential"
    output = Output("class", probability="softmax" if outputs > 1 else "logistic", scale=2.0 if exponential else 1.0)
    return builder.made(base, output, np.asarray(estimator.classes_), single=True, names=_names(estimator))


def _isolation(estimator: Any) -> Ensemble:
    """Reads an isolation forest. Its value is the mean depth of a sample divided by the depth of an average one."""
    kind = "IsolationForest"
    trees = _fitted(estimator, "estimators_")
    size = len(trees) * _average_depth(np.array([estimator.max_samples_]))[0]
    if not size > 0:
        raise ModelError(f"cannot compile {kind}: max_samples must be at least 2, got {estimator.max_samples_}")
    builder = Builder(kind, estimator.n_features_in_, 1)
    for number, (one, features) in enumerate(zip(trees, estimator.estimators_features_, strict=True)):
        tree = one.tree_
        depth = np.zeros(tree.node_count)
        for node in range(tree.node_count):  # children have larger numbers than their parent
            if tree.children_left[node] >= 0:
                depth[[tree.children_left[node], tree.children_right[node]]] = depth[node] + 1
        values = (depth + _average_depth(np.asarray(tree.n_node_samples))) / size
        _add(builder, tree, values[:, None], f"tree {number} of {kind}", features)
    output = Output("outlier", offset=float(estimator.offset_))
    return builder.made(np.zeros(1), output, None, single=True, names=_names(estimator))


def _average_depth(samples: Any) -> Floats:
    """Returns the mean depth of a leaf in a random tree of that many samples (Liu, Ting and Zhou 2008, equation 1)."""
    n = np.asarray(samples, dtype=np.float64)
    safe = np.maximum(n, 3)
    return np.where(n <= 1, 0.0, np.where(n == 2, 1.0, 2 * (np.log(safe - 1) + np.euler_gamma) - 2 * (safe - 1) / safe))


def _histogram(estimator: Any, kind: str) -> Ensemble:
    """Reads histogram gradient boosting."""
    stages = _fitted(estimator, "_predictors")
    base = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    outputs = len(base)
    builder = Builder(kind, estimator.n_features_in_, outputs)
    order, categories = _columns(estimator)
    known = None
    if categories:
        known, _ = estimator._bin_mapper.make_known_categories_bitsets()
        places = {int(feature): place for place, feature in enumerate(np.flatnonzero(estimator._bin_mapper.is_categorical))}
    for number, stage in enumerate(stages):
        for target, predictor in enumerate(stage):
            where, nodes = f"tree {number}, {target} of {kind}", predictor.nodes
            values = np.zeros((len(nodes), outputs))
            values[:, target] = nodes["value"]
            left = np.where(nodes["is_leaf"], -1, nodes["left"].astype(np.int64))
            condition = np.zeros(len(nodes), dtype=np.int64)
            for place in np.flatnonzero(left >= 0):
                node = nodes[place]
                feature, missing = int(node["feature_idx"]), bool(node["missing_go_to_left"])
                if node["is_categorical"]:
                    chosen = _members(predictor.raw_left_cat_bitsets[node["bitset_idx"]])
                    all_known = _members(known[places[feature]]) if known is not None else chosen
                    members = [code for code in all_known if (code in chosen) != missing]
                    named = tuple(sorted(float(categories[feature][int(code)]) for code in members))
                    one = Condition(order[feature], 0.0, missing, None, named, not missing)
                else:
                    one = Condition(order[feature], float(node["num_threshold"]), missing)
                condition[place] = builder.condition(one, where)
            builder.add(condition, left, nodes["right"].astype(np.int64), values, where)
    if kind.endswith("Regressor"):
        link = _LINKS.get(str(estimator.loss), "identity")
        return builder.made(base, Output(link=link), None, single=False, names=_names(estimator))
    output = Output("class", probability="softmax" if outputs > 1 else "logistic")
    return builder.made(base, output, np.asarray(estimator.classes_), single=False, names=_names(estimator))


def _columns(estimator: Any) -> tuple[list[int], dict[int, Any]]:
    """Returns the sample's column of each feature of the trees, and the categories of categorical features."""
    count = int(estimator.n_features_in_)
    if estimator.is_categorical_ is None:
        return list(range(count)), {}
    encoder = estimator._preprocessor.named_transformers_["encoder"]
    chosen = np.flatnonzero(estimator.is_categorical_)
    others = np.flatnonzero(~np.asarray(estimator.is_categorical_))
    categories: dict[int, Any] = {}
    for feature, column in enumerate(chosen):
        names = np.asarray(encoder.categories_[feature])
        if names.dtype.kind not in "iufb" or not all(math.isfinite(value) for value in names if value == value):
            raise ModelError(
                f"cannot compile this estimator: categories of column {column} must be numbers, not {names.dtype}; "
                f"encode them "
                "by an OrdinalEncoder before it"
            )
        categories[feature] = names
    return [*map(int, chosen), *map(int, others)], categories


def _members(bitset: Any) -> list[int]:
    """Returns the numbers of the bits that are set in words of 32 bits."""
    return [32 * place + bit for place, word in enumerate(bitset) for bit in range(32) if int(word) >> bit & 1]
