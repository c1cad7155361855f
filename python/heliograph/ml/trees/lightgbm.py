"""Reads LightGBM's text files. The module does not import LightGBM."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.outputs import Output
from heliograph.ml.trees.ensemble import Builder, Condition, Ensemble, require_codes, whole

_IDENTITY = frozenset(
    ["regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg", "custom"]
)
_EXPONENTIAL = frozenset(["poisson", "gamma", "tweedie"])
_BITS = 32
_MOST_CATEGORIES = 1 << 20


def read_text(text: str, name: str = "LightGBM model", classes: Any = None, names: Any = None) -> Ensemble:
    """Reads the text of a model (``Booster.model_to_string``). Raises ModelError.

    `names` are the names of the columns, by default those of the text. Names that LightGBM made do not count.
    """
    if not text.startswith("tree\n"):
        raise ModelError(f"cannot read {name}: a text file of LightGBM must start with the line 'tree'")
    _require_codes(text, name)
    blocks = re.split(r"^Tree=\d+\s*$", text.split("\nend of trees", 1)[0], flags=re.MULTILINE)
    head = _fields(blocks[0], name)
    features = whole(head.get("max_feature_idx", ""), f"max_feature_idx of {name}", 0, 1 << 20) + 1
    per_step = whole(head.get("num_tree_per_iteration", "1"), f"num_tree_per_iteration of {name}", 1, 1 << 10)
    if names is None:
        names = _column_names(head, name)
    output, is_classifier = _output(head.get("objective", ""), name, per_step)
    builder = Builder(name, features, per_step)
    if len(blocks) < 2 or (len(blocks) - 1) % per_step:
        raise ModelError(
            f"cannot read {name}: the number of trees must be a multiple of {per_step} above 0, got {len(blocks) - 1}"
        )
    factor = 1.0
    if "average_output" in head:
        factor = per_step / (len(blocks) - 1)
    for number, block in enumerate(blocks[1:]):
        _tree(builder, _fields(block, f"tree {number} of {name}"), number % per_step, factor, f"tree {number} of {name}")
    if not is_classifier:
        classes = None
    elif classes is None:
        classes = np.arange(max(2, per_step))
    return builder.made(np.zeros(per_step), output, classes, single=False, cast="truncate", names=names)


def _require_codes(text: str, name: str) -> None:
    """Raises ModelError unless the categories of pandas columns equal their codes 0, 1, ..."""
    lines = [line for line in text.split("\nend of trees", 1)[-1].splitlines() if line.startswith("pandas_categorical:")]
    for line in lines:
        try:
            columns = json.loads(line.partition(":")[2])
        except (ValueError, RecursionError):
            columns = 0
        if columns is not None and not isinstance(columns, list):
            raise ModelError(f"cannot read {name}: pandas_categorical must be a list of lists of categories")
        for number, categories in enumerate(columns or []):
            require_codes(categories, f"categorical column {number}", name)


def _column_names(head: dict[str, str], name: str) -> list[str] | None:
    """Returns the names of the columns, or None if the model was trained without names."""
    names = head.get("feature_names", "").split()
    if all(one == f"Column_{place}" for place, one in enumerate(names)):
        return None
    if len(set(names)) != len(names):
        raise ModelError(f"cannot read {name}: its feature_names must differ")
    return names


def _fields(block: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in block.splitlines():
        key, _, value = line.partition("=")
        if key and key in found:
            raise ModelError(f"cannot read {where}: the field {key[:40]} occurs twice")
        found[key.strip()] = value.strip()
    return found


def _output(objective: str, name: str, outputs: int) -> tuple[Output, bool]:
    """Returns the output of an objective such as "binary sigmoid:1", and whether it has classes."""
    words = objective.split()
    kind = words[0] if words else ""
    options = dict(word.split(":", 1) for word in words[1:] if ":" in word)
    try:
        scale = float(options.get("sigmoid", "1"))
    except ValueError:
        scale = math.nan
    if not 0 < scale < math.inf:
        raise ModelError(f"cannot read {name}: sigmoid of its objective must be a number above 0, got {objective[:80]!r}")
    if kind == "binary" and outputs == 1:
        return Output("class", probability="logistic", scale=scale), True
    if kind == "multiclass" and outputs > 1:
        return Output("class", probability="softmax"), True
    if kind == "multiclassova" and outputs > 1:
        return Output("class", probability="each", scale=scale), True
    if kind in ("cross_entropy", "xentropy"):
        return Output(link="logistic"), False
    if kind in _IDENTITY or not kind:
        return Output(link="signed_square" if "sqrt" in words else "identity"), False
    if kind in _EXPONENTIAL:
        return Output(link="exp"), False
    known = ", ".join(sorted({"binary", "multiclass", "multiclassova", "cross_entropy", *_IDENTITY, *_EXPONENTIAL}))
    raise ModelError(f"cannot read {name}: its objective must be one of {known}, got {objective[:80]!r}")


def _numbers(fields: dict[str, str], key: str, count: int, kind: type[Any], where: str) -> npt.NDArray[Any]:
    words = fields.get(key, "").split()
    if len(words) != count:
        raise ModelError(f"cannot read {where}: {key} must have {count} numbers, got {len(words)}")
    try:
        return np.array([kind(word) for word in words], dtype=np.float64 if kind is float else np.int64)
    except (ValueError, OverflowError):
        raise ModelError(f"cannot read {where}: {key} must have numbers only") from None


def _tree(builder: Builder, fields: dict[str, str], output: int, factor: float, where: str) -> None:
    """Adds a tree: inner nodes first, then leaves. A child below 0 is the leaf -child - 1."""
    leaves = whole(fields.get("num_leaves", ""), f"num_leaves of {where}", 1, 1 << 20)
    if fields.get("is_linear", "0") != "0":
        raise ModelError(f"cannot read {where}: leaves must be constants, not linear models; train with linear_tree=False")
    inner = leaves - 1
    values = np.zeros((inner + leaves, 1))
    values[inner:, 0] = factor * _numbers(fields, "leaf_value", leaves, float, where)
    if not inner:
        builder.add([0], [-1], [-1], values, where, output)
        return
    children = []
    for key in ("left_child", "right_child"):
        child = _numbers(fields, key, inner, int, where)
        if (child >= inner).any() or (child < -leaves).any():
            raise ModelError(f"cannot read {where}: {key} must be from {-leaves} to {inner - 1}")
        children.append(np.concatenate([np.where(child < 0, inner - 1 - child, child), np.full(leaves, -1)]))
    features, kinds = (_numbers(fields, key, inner, int, where) for key in ("split_feature", "decision_type"))
    thresholds = _numbers(fields, "threshold", inner, float, where)
    sets = _category_sets(fields, where)
    condition = np.zeros(inner + leaves, dtype=np.int64)
    for node in range(inner):
        one = _condition(int(features[node]), float(thresholds[node]), int(kinds[node]), sets, where)
        condition[node] = builder.condition(one, where)
    builder.add(condition, children[0], children[1], values, where, output)


def _condition(feature: int, threshold: float, kind: int, sets: list[tuple[float, ...]], where: str) -> Condition:
    """Returns the condition of a node. Bit 0 of its kind: categories; bit 1: missing values go left; bits 2, 3: which."""
    if not 0 <= kind < 16 or kind >> 2 == 3:
        raise ModelError(f"cannot read {where}: a decision_type must be 0 to 11, got {kind}")
    if kind & 1:
        if not threshold.is_integer() or not 0 <= threshold < len(sets):
            raise ModelError(f"cannot read {where}: a categorical threshold must be 0 to {len(sets) - 1}, got {threshold}")
        return Condition(feature, 0.0, False, None, sets[int(threshold)], True)
    default, missing = bool(kind & 2), kind >> 2
    if missing == 0:  # a missing value counts as 0
        return Condition(feature, threshold, threshold >= 0.0)
    return Condition(feature, threshold, default, default if missing == 1 else None)


def _category_sets(fields: dict[str, str], where: str) -> list[tuple[float, ...]]:
    count = whole(fields.get("num_cat", "0"), f"num_cat of {where}", 0, 1 << 20)
    if not count:
        return []
    ends = _numbers(fields, "cat_boundaries", count + 1, int, where)
    words = fields.get("cat_threshold", "").split()
    if ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != len(words) or len(words) * _BITS > _MOST_CATEGORIES:
        raise ModelError(f"cannot read {where}: cat_boundaries must rise from 0 to the number of words of cat_threshold")
    bits = [whole(word, f"cat_threshold of {where}", 0, (1 << _BITS) - 1) for word in words]
    return [
        tuple(
            float(_BITS * place + bit)
            for place, word in enumerate(bits[start:end])
            for bit in range(_BITS)
            if word >> bit & 1
        )
        for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
