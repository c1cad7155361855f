"""Damaged and hostile model files of trees raise ModelError; random changes never give another error or a hang."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resign_uses
from heliograph import ml
from heliograph.ml.trees import lightgbm, xgboost
from heliograph.ml.trees.compile import compile_ensemble
from heliograph.ml.trees.ensemble import Builder, Condition
from heliograph.ml.trees.ubjson import read_ubjson

TREE = {
    "left_children": [1, 3, -1, -1, -1],
    "right_children": [2, 4, -1, -1, -1],
    "split_indices": [0, 1, 0, 0, 0],
    "split_conditions": [0.5, 1.5, 0.25, -0.75, 1.0],
    "default_left": [1, 0, 0, 0, 0],
    "split_type": [0, 1, 0, 0, 0],
    "categories": [1, 3],
    "categories_nodes": [1],
    "categories_segments": [0],
    "categories_sizes": [2],
    "tree_param": {"num_nodes": "5", "size_leaf_vector": "1"},
}
DOCUMENT: dict[str, Any] = {
    "learner": {
        "gradient_booster": {
            "name": "gbtree",
            "model": {"trees": [TREE, copy.deepcopy(TREE)], "tree_info": [0, 0], "iteration_indptr": [0, 1, 2]},
        },
        "learner_model_param": {"base_score": "[5E-1]", "num_class": "0", "num_feature": "2", "num_target": "1"},
        "objective": {"name": "binary:logistic"},
    }
}
TEXT = """tree
version=v4
num_class=1
num_tree_per_iteration=1
max_feature_idx=1
objective=binary sigmoid:1
feature_names=a b

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
threshold=0.5 0
decision_type=2 1
left_child=1 -1
right_child=-2 -3
leaf_value=0.25 -0.5 1
cat_boundaries=0 1
cat_threshold=10
is_linear=0
shrinkage=1

end of trees
"""


def changed(path: str, value: Any) -> bytes:
    """Returns the document with one value changed; a path has keys and places."""
    document: Any = copy.deepcopy(DOCUMENT)
    *inner, last = ["learner", *path.split("/")]
    part = document
    for key in inner:
        part = part[int(key) if isinstance(part, list) else key]
    part[int(last) if isinstance(part, list) else last] = value
    return json.dumps(document).encode()


T = "gradient_booster/model/trees/0"
CASES: list[tuple[str, Any, str]] = [
    (f"{T}/left_children", [1, 0, -1, -1, -1], "must have one parent"),
    (f"{T}/left_children", [0, 3, -1, -1, -1], "must have one parent"),
    (f"{T}/right_children", [1, 4, -1, -1, -1], "must have one parent"),
    (f"{T}/left_children", [1, 10**12, -1, -1, -1], "must be an integer from -1 to 4"),
    (f"{T}/left_children", [1, -7, -1, -1, -1], "must be an integer from -1 to 4"),
    (f"{T}/left_children", [1, 1.5, -1, -1, -1], "must be an integer"),
    (f"{T}/right_children", [2, -1, -1, -1, -1], "must be 0 to 4"),
    (f"{T}/left_children", [], "one entry for each of 0 nodes"),
    (f"{T}/split_indices", [5, 1, 0, 0, 0], "from 0 to 1"),
    (f"{T}/split_conditions", [float("nan"), 1.5, 0.25, -0.75, 1.0], "finite number"),
    (f"{T}/split_conditions", ["a", 1.5, 0.25, -0.75, 1.0], "finite number"),
    (f"{T}/split_conditions", [1e39, 1.5, float("inf"), -0.75, 1.0], "finite"),
    (f"{T}/categories_sizes", [9], "from 0 to 2"),
    (f"{T}/categories_nodes", [0], "node 1 must have categories"),
    (f"{T}/categories", [1, -3], "from 0 to"),
    (f"{T}/tree_param", {"size_leaf_vector": "3"}, "leaves must have one value"),
    (f"{T}/default_left", [2, 0, 0, 0, 0], "from 0 to 1"),
    (f"{T}", 7, "field left_children"),
    ("gradient_booster/model/tree_info", [0], "an entry for each of 2 trees"),
    ("gradient_booster/model/tree_info", [0, 4], "from 0 to 0"),
    ("gradient_booster/name", "gblinear", "must be gbtree or dart"),
    ("objective/name", "binary:secret", "its objective must be one of"),
    ("learner_model_param/num_feature", "9999999999", "num_feature"),
    ("learner_model_param/base_score", "[2.0]", "between 0 and 1"),
    ("learner_model_param/base_score", "[]", "finite number"),
    ("learner_model_param", [], "field learner_model_param"),
]


@pytest.mark.parametrize(("path", "value", "message"), CASES)
def test_changed_json(path: str, value: Any, message: str) -> None:
    """Each change of a valid model is refused with a message that names the field."""
    assert len(xgboost.read_json(json.dumps(DOCUMENT).encode()).trees) == 2
    with pytest.raises(ml.ModelError, match=message):
        xgboost.read_json(changed(path, value))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("left_child=1 -1", "left_child=0 -1", "must have one parent"),
        ("left_child=1 -1", "left_child=5 -1", "must be from -3 to 1"),
        ("right_child=-2 -3", "right_child=-2 -9", "must be from -3 to 1"),
        ("threshold=0.5 0", "threshold=nan 0", "a threshold must be a number"),
        ("threshold=0.5 0", "threshold=0.5 3", "must be 0 to 0"),
        ("threshold=0.5 0", "threshold=0.5 0 1", "must have 2 numbers, got 3"),
        ("threshold=0.5 0", "threshold=0.5 nan", "categorical threshold"),
        ("leaf_value=0.25 -0.5 1", "leaf_value=0.25 -0.5 inf", "finite"),
        ("leaf_value=0.25 -0.5 1", "leaf_value=0.25 x 1", "numbers only"),
        ("split_feature=0 1", "split_feature=0 9", "a feature must be 0 to 1"),
        ("split_feature=0 1", "split_feature=0 99999999999999999999", "numbers only"),
        ("decision_type=2 1", "decision_type=2 77", "decision_type must be"),
        ("cat_boundaries=0 1", "cat_boundaries=0 5", "cat_boundaries must rise"),
        ("cat_threshold=10", "cat_threshold=-10", "cat_threshold"),
        ("num_leaves=3", "num_leaves=99999999", "num_leaves"),
        ("max_feature_idx=1", "max_feature_idx=z", "max_feature_idx"),
        ("is_linear=0", "is_linear=1", "constants, not linear models"),
        ("objective=binary sigmoid:1", "objective=binary sigmoid:-1", "sigmoid"),
        ("objective=binary sigmoid:1", "objective=mystery", "its objective must be one of"),
        ("Tree=0", "Tree=0\nnum_leaves=2", "occurs twice"),
        ("tree\nversion", "version", "must start with the line 'tree'"),
    ],
)
def test_changed_text(old: str, new: str, message: str) -> None:
    """Each change of a valid text file is refused."""
    assert lightgbm.read_text(TEXT).leaves == 3
    assert old in TEXT
    with pytest.raises(ml.ModelError, match=message):
        lightgbm.read_text(TEXT.replace(old, new))


def test_values_of_the_samples_of_files() -> None:
    """The valid documents of this module evaluate as their trees say."""
    found = lightgbm.read_text(TEXT)
    values = found.values(found.bits(np.array([[0.5, 1.0], [0.5, 2.0], [0.6, 1.0], [np.nan, 3.9]])))[:, 0]
    assert values.tolist() == [0.25, 1.0, -0.5, 0.25]
    found = xgboost.read_json(json.dumps(DOCUMENT).encode())
    values = found.values(found.bits(np.array([[0.5, 1.0], [0.4, 1.0], [0.4, 2.0], [np.nan, np.nan]])))[:, 0]
    assert values.tolist() == [0.5, 2.0, -1.5, 2.0]


def test_damaged_bytes() -> None:
    """Random changes of bytes of JSON, UBJSON and text are a model or a ModelError."""
    source = random.Random(1)
    ubj = b"{i\x01aSi\x02xyi\x01b[$d#i\x02\x3f\x80\x00\x00\x40\x00\x00\x00i\x01c[i\x05TZ]i\x01d{}}"
    assert read_ubjson(ubj) == {"a": "xy", "b": [1.0, 2.0], "c": [5, True, None], "d": {}}
    for number in range(600):
        data = bytearray([json.dumps(DOCUMENT).encode(), ubj, TEXT.encode()][number % 3])
        for _ in range(source.randint(1, 4)):
            place = source.randrange(len(data))
            kind = source.randrange(3)
            if kind == 0:
                data[place] = source.randrange(256)
            elif kind == 1:
                del data[place : place + source.randint(1, 9)]
            else:
                data[place:place] = bytes(source.randrange(256) for _ in range(source.randint(1, 4)))
        try:
            if number % 3 == 2:
                lightgbm.read_text(data.decode(errors="replace"))
            elif number % 3:
                read_ubjson(bytes(data))
            else:
                xgboost.read_json(bytes(data))
        except ml.ModelError:
            pass
    for damaged in (b"[" * 10_000, b"{" + b"i\x01a{" * 200, b"[#L\x7f" + b"\xff" * 7, b"", b"[$d#i\x7f", b"Si\xff"):
        with pytest.raises(ml.ModelError):
            read_ubjson(damaged)
    with pytest.raises(ml.ModelError):
        xgboost.read_json(b"[" * 100_000)


def test_changed_bundles(tmp_path: Path) -> None:
    """Signed bundles with changed fields or trees raise typed errors, or describe a consistent model."""
    builder = Builder("a model", 2, 1)
    for place in range(3):
        conditions = [builder.condition(Condition(place % 2, 0.5 * place), "t"), 0, 0]
        builder.add(conditions, [1, -1, -1], [2, -1, -1], [[0.0], [1.0], [-place]], "t")
    source = builder.made([0.25], ml.Output("class", probability="logistic"), np.array(["no", "yes"]), single=False)
    refused = 0
    for scheme in ("ckks", "bgv"):
        good = compile_ensemble(source, scheme=scheme).export(tmp_path / "m.hgm").to_bytes()
        refused += resign_uses.refused_models(good, f"ensemble:{scheme}", 60)
    assert refused > 60


def test_random_trees_agree_with_a_walk() -> None:
    """Ensembles of random shapes, with missing values and categories: values equal those of a walk, node by node."""
    for seed in range(40):
        source = np.random.default_rng(seed)
        builder = Builder("random", 3, 2)
        for tree in range(4):
            left, right, condition, values = [-1], [-1], [0], [source.normal(size=2)]
            for _ in range(int(source.integers(0, 12))):
                leaf = int(source.choice([node for node, child in enumerate(left) if child < 0]))
                categories = tuple(sorted({float(v) for v in source.integers(0, 4, 2)})) if source.random() < 0.3 else None
                one = Condition(
                    int(source.integers(3)), float(source.integers(4)), bool(source.integers(2)),
                    None if source.random() < 0.7 else bool(source.integers(2)), categories, bool(source.integers(2)),
                )  # fmt: skip
                condition[leaf] = builder.condition(one, "t")
                left[leaf], right[leaf] = len(left), len(left) + 1
                for side in (left, right):
                    side += [-1, -1]
                condition += [0, 0]
                values += [source.normal(size=2), source.normal(size=2)]
            builder.add(condition, left, right, values, f"tree {tree}")
        made = builder.made(np.zeros(2), ml.Output(), None, single=False)
        x = np.where(source.random((20, 3)) < 0.2, np.nan, source.integers(0, 5, (20, 3)).astype(float))
        found = made.values(made.bits(x))
        for row, exact in zip(x, found, strict=True):
            total = np.zeros(2)
            for own in made.trees:
                node = 0
                while own.left[node] >= 0:
                    one = made.conditions[own.condition[node]]
                    bit = one.results(row[[one.feature]], "")[0]
                    node = int(own.left[node] if bit else own.right[node])
                total += own.values[node]
            assert np.allclose(total, exact)
        model = compile_ensemble(made, scheme="bgv", batch=8)
        assert np.abs(model.simulate(x) - found).max() <= 2.0**-20 * made.largest
