"""Reads XGBoost's JSON and UBJSON models. The module does not import XGBoost."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.outputs import Output
from heliograph.ml.trees.ensemble import Builder, Condition, Ensemble, below, require_codes, whole
from heliograph.ml.trees.ubjson import read_ubjson

_LOGISTIC = frozenset(("binary:logistic", "reg:logistic"))
_EXPONENTIAL = frozenset(["count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"])
_IDENTITY = frozenset(
    [
        "reg:squarederror",
        "reg:linear",
        "reg:squaredlogerror",
        "reg:pseudohubererror",
        "reg:absoluteerror",
        "reg:quantileerror",
        "rank:pairwise",
        "rank:ndcg",
        "rank:map",
        "binary:hinge",
    ]
)
_SOFTMAX = frozenset(("multi:softmax", "multi:softprob"))
_LARGEST_CATEGORY = 1 << 24  #: larger codes are not exact in float32


def read_json(data: bytes, name: str = "XGBoost model", **options: Any) -> Ensemble:
    """Reads a model in JSON or UBJSON. `options` are those of `read_document`. Raises ModelError."""
    if data[:1] == b"{" and data[1:2] in (b"i", b"U", b"I", b"l", b"L", b"#", b"$"):
        return read_document(read_ubjson(data), name, **options)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"cannot read {name}: it must be a model of XGBoost in JSON or UBJSON; {str(error)[:80]}") from None
    return read_document(document, name, **options)


def read_document(
    document: Any, name: str, *, classes: Any = None, names: Any = None, missing: float = math.nan, steps: int | None = None
) -> Ensemble:
    """Reads the document of a model. `names` are by default the document's. Raises ModelError.

    `steps` is the number of boosting steps to use; 0 means all. By default the attribute `best_iteration` of early stopping
    is the last step, as in XGBoost's estimators, and all steps are used without it.
    """
    learner = _part(document, "learner", dict, name)
    booster = _part(learner, "gradient_booster", dict, name)
    weights = None
    if booster.get("name") == "dart":
        weights = _list(booster, "weight_drop", name)
        booster = _part(booster, "gbtree", dict, name)
    elif booster.get("name") != "gbtree":
        raise ModelError(f"cannot read {name}: its booster must be gbtree or dart, got {str(booster.get('name'))[:40]!r}")
    model = _part(booster, "model", dict, name)
    _require_codes(model, name)
    trees, groups = _list(model, "trees", name), _list(model, "tree_info", name)
    parameters = _part(learner, "learner_model_param", dict, name)
    features = whole(parameters.get("num_feature"), f"num_feature of {name}", 1, 1 << 20)
    outputs = max(whole(parameters.get(key, "0"), f"{key} of {name}", 0, 1 << 10) for key in ("num_class", "num_target"))
    builder = Builder(name, features, max(outputs, 1))
    if len(groups) != len(trees) or (weights is not None and len(weights) != len(trees)):
        raise ModelError(f"cannot read {name}: tree_info and weight_drop must have an entry for each of {len(trees)} trees")
    if names is None and learner.get("feature_names") is not None:
        names = _list(learner, "feature_names", name)
        if not all(isinstance(one, str) for one in names) or len(set(names)) != len(names):
            raise ModelError(f"cannot read {name}: its feature_names must be different strings")
    if steps is None:
        steps = _best_steps(learner, name)
    used = len(trees) if not steps else _trees_of(model, steps, name, len(trees))
    for number, tree in enumerate(trees[:used]):
        where = f"tree {number} of {name}"
        group = whole(groups[number], f"tree_info of {where}", 0, builder.outputs - 1)
        factor = 1.0 if weights is None else _real(weights[number], f"weight_drop of {where}")
        _tree(builder, tree, group, factor, where)
    objective = str(_part(learner, "objective", dict, name).get("name"))
    base = _base(parameters.get("base_score", "0.5"), objective, builder.outputs, name)
    output, is_classifier = _output(objective, builder.outputs, name)
    if not is_classifier:
        classes = None
    elif classes is None:
        classes = np.arange(max(2, builder.outputs))
    return builder.made(base, output, classes, single=True, cast="floor", missing=missing, names=names)


def _require_codes(model: Any, name: str) -> None:
    """Raises ModelError unless the categories of data frames equal their codes 0, 1, ..."""
    if model.get("cats") is None:
        return
    for feature, column in enumerate(_list(_part(model, "cats", dict, name), "enc", name)):
        where = f"column {feature} of {name}"
        if "offsets" not in column if isinstance(column, dict) else True:
            require_codes(_list(column, "values", where), f"column {feature}", name)
        elif _list(column, "offsets", where):
            raise ModelError(
                f"cannot compile {name}: the categories of column {feature} must be the numbers 0, 1, ..., not texts; "
                "train on the codes of this column (column.cat.codes), and send codes"
            )


def _part(document: Any, key: str, kind: type[Any], name: str) -> Any:
    found = document.get(key) if isinstance(document, dict) else None
    if not isinstance(found, kind):
        raise ModelError(f"cannot read {name}: it must be a model of XGBoost with the field {key}")
    return found


def _list(document: Any, key: str, name: str) -> list[Any]:
    found: list[Any] = _part(document, key, list, name)
    return found


def _real(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ModelError(f"{what} must be a finite number, got {str(value)[:40]!r}")
    return number


def _best_steps(learner: Any, name: str) -> int:
    """Returns the boosting steps up to the best iteration of early stopping; 0 if the model has none."""
    attributes = learner.get("attributes")
    best = attributes.get("best_iteration") if isinstance(attributes, dict) else None
    return 0 if best is None else whole(best, f"best_iteration of {name}", 0, 1 << 30) + 1


def _trees_of(model: Any, steps: int, name: str, most: int) -> int:
    """Returns the number of trees of the first boosting steps."""
    ends = _list(model, "iteration_indptr", name)
    if not 0 < steps < len(ends):
        raise ModelError(f"cannot read {name}: the number of boosting steps must be 1 to {len(ends) - 1}, got {steps}")
    return whole(ends[steps], f"iteration_indptr of {name}", 0, most)


def _base(value: Any, objective: str, outputs: int, name: str) -> npt.NDArray[np.float64]:
    """Returns the base score [outputs] before the link: a probability or a mean is converted as XGBoost does, in float32."""
    words = str(value).strip("[]").split(",") if not isinstance(value, list) else value
    scores = np.array([_real(word, f"base_score of {name}") for word in words], dtype=np.float32)
    if len(scores) not in (1, outputs):
        raise ModelError(f"cannot read {name}: base_score must have 1 or {outputs} numbers, got {len(scores)}")
    scores = np.broadcast_to(scores, (outputs,))
    if objective in _LOGISTIC:
        if not ((scores > 0) & (scores < 1)).all():
            raise ModelError(f"cannot read {name}: base_score of {objective} must be between 0 and 1, got {value}")
        return np.asarray(-np.log(1 / scores - 1), dtype=np.float64)
    if objective in _EXPONENTIAL:
        if not (scores > 0).all():
            raise ModelError(f"cannot read {name}: base_score of {objective} must be above 0, got {value}")
        return np.asarray(np.log(scores), dtype=np.float64)
    return scores.astype(np.float64)


def _output(objective: str, outputs: int, name: str) -> tuple[Output, bool]:
    """Returns the output of an objective, and whether it has classes."""
    if objective == "reg:logistic":
        return Output(link="logistic"), False
    if objective in _LOGISTIC and outputs == 1:
        return Output("class", probability="logistic"), True
    if objective == "binary:hinge" and outputs == 1:
        return Output("class"), True
    if objective in _SOFTMAX and outputs > 1:
        return Output("class", probability="softmax"), True
    if objective in _EXPONENTIAL:
        return Output(link="exp"), False
    if objective in _IDENTITY:
        return Output(), False
    known = ", ".join(sorted(_LOGISTIC | _EXPONENTIAL | _IDENTITY | _SOFTMAX))
    raise ModelError(f"cannot read {name}: its objective must be one of {known}, got {objective[:40]!r}")


def _tree(builder: Builder, tree: Any, group: int, factor: float, where: str) -> None:
    left, right, features, thresholds, defaults = (
        _list(tree, key, where)
        for key in ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    )
    count = len(left)
    if any(len(one) != count for one in (right, features, thresholds, defaults)):
        raise ModelError(f"cannot read {where}: its lists must have one entry for each of {count} nodes")
    size = _part(tree, "tree_param", dict, where).get("size_leaf_vector", "0")
    if whole(size, f"size_leaf_vector of {where}", 0, 1 << 10) > 1:
        raise ModelError(f"cannot read {where}: leaves must have one value; train with multi_strategy='one_output_per_tree'")
    kinds = tree.get("split_type") or [0] * count
    sets = _category_sets(tree, where)
    if not isinstance(kinds, list) or len(kinds) != count:
        raise ModelError(f"cannot read {where}: split_type must have one entry for each of {count} nodes")
    sides = [[whole(child, f"a child in {where}", -1, count - 1) for child in side] for side in (left, right)]
    values = np.zeros((count, 1))
    condition = [0] * count
    for node in range(count):
        with np.errstate(over="ignore"):
            value = float(np.float32(_real(thresholds[node], f"split_conditions of {where}")))
        if sides[0][node] < 0:
            values[node, 0] = factor * value
            continue
        feature = whole(features[node], f"split_indices of {where}", 0, builder.features - 1)
        missing = bool(whole(defaults[node], f"default_left of {where}", 0, 1))
        if whole(kinds[node], f"split_type of {where}", 0, 1):
            if node not in sets:
                raise ModelError(f"cannot read {where}: node {node} must have categories")
            one = Condition(feature, 0.0, missing, None, sets[node], False)  # members go right
        else:
            one = Condition(feature, below(value), missing)
        condition[node] = builder.condition(one, where)
    builder.add(condition, sides[0], sides[1], values, where, group)


def _category_sets(tree: Any, where: str) -> dict[int, tuple[float, ...]]:
    """Returns the categories that go right, by node."""
    if not tree.get("categories_nodes"):
        return {}
    nodes, starts, sizes, codes = (
        _list(tree, key, where) for key in ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    )
    if not len(nodes) == len(starts) == len(sizes):
        raise ModelError(f"cannot read {where}: categories_segments and categories_sizes must have an entry for each node")
    found: dict[int, tuple[float, ...]] = {}
    for node, start, size in zip(nodes, starts, sizes, strict=True):
        first = whole(start, f"categories_segments of {where}", 0, len(codes))
        last = first + whole(size, f"categories_sizes of {where}", 0, len(codes) - first)
        members = {whole(code, f"categories of {where}", 0, _LARGEST_CATEGORY) for code in codes[first:last]}
        found[whole(node, f"categories_nodes of {where}", 0, 1 << 20)] = tuple(float(code) for code in sorted(members))
    return found
