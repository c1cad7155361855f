"""Compiled networks with unusual labels, outputs and magnitudes: right results, or errors that name the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml.graph import Graph
from heliograph.ml.interpreter import run
from heliograph.ml.networks import compile_graph
from network_graphs import Builder, perceptron


def samples(count: int = 200, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 12))


@pytest.mark.parametrize("change", [lambda y: y + 1, lambda y: y - 1, lambda y: np.full_like(y, 7)])
def test_labels_without_an_output_are_refused(change: object) -> None:
    x, graph = samples(), perceptron()
    labels = run(graph, x)[graph.outputs[0]].argmax(axis=1)
    with pytest.raises(hg.ParameterError, match="must be numbers of outputs, 0 to 3"):
        compile_graph(graph, (x, change(labels)), accuracy=0.05)  # type: ignore[operator]


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("size", [1e-2, 1e-4])
def test_small_inputs_beside_larger_constants(size: float, guard: bool, tmp_path: Path) -> None:
    b = Builder((4,), 3)
    graph = b.graph(b.dense(b.activation(b.dense("x", 6)), 3))
    for node in graph.nodes:
        if node.operation == "dense":
            node.attributes["bias"][...] *= 10  # type: ignore[index]
    x = np.random.default_rng(2).normal(size=(100, 4)) * size
    model = compile_graph(graph, x, accuracy=0.1, guard=guard)
    secret = hg.SecretKey.generate(model.parameters)
    keys = model.keys(secret)
    np.testing.assert_allclose(model.run(secret, x[:1], keys), model.simulate(x[:1]), atol=1e-3)
    bundle = model.export(tmp_path / "small.hgm")
    answer = hg.from_bytes(bundle.run(hg.Server(keys), bundle.encrypt(secret, x[0])).to_bytes())
    np.testing.assert_allclose(bundle.decrypt(secret, answer, like=x[0]), model.simulate(x[:1])[0], atol=1e-3)


def labelled(client: str = "") -> Graph:
    """A perceptron 12 -> 8 -> 3 that ends in sigmoids, and an operation of the client."""
    b = Builder((12,), 5)
    out = b.activation(b.dense(b.activation(b.dense("x", 8)), 3), "sigmoid")
    return b.graph(b.other(client, out, (3,), axis=0) if client == "softmax" else out)


def test_several_sigmoids_are_probabilities_of_labels(tmp_path: Path) -> None:
    x, graph = samples(), labelled()
    exact = run(graph, x)[graph.outputs[0]]
    model = compile_graph(graph, x, accuracy=0.1)
    assert model.output.kind == "labels"
    np.testing.assert_allclose(model.predict_proba(x), exact, atol=0.1)
    assert (model.predict(x) == (exact > 0.5)).all(axis=1).mean() >= 0.9
    assert model.score(x, (exact > 0.5).astype(int)) >= 0.9
    assert model.report.loss.kind == "share of samples of other labels"
    read = hg.ModelBundle.load(model.export(tmp_path / "labels.hgm").client().to_bytes())
    assert read.predict(exact[:2]).tolist() == (exact[:2] > 0.5).astype(int).tolist()
    np.testing.assert_array_equal(read.predict_proba([[-0.01, 0.3, 1.02]]), [[0, 0.3, 1]])
    with pytest.raises(hg.ParameterError, match="a probability of each label; pass calibrate=samples"):
        compile_graph(graph, (x, exact.argmax(axis=1)), accuracy=0.1)


def test_sigmoids_as_scores_have_no_probabilities(tmp_path: Path) -> None:
    x, graph = samples(), labelled()
    exact = run(graph, x)[graph.outputs[0]]
    model = compile_graph(graph, (x, exact.argmax(axis=1)), accuracy=0.2, classifies=True)
    assert (model.predict(x) == exact.argmax(axis=1)).mean() >= 0.8
    bundle = hg.ModelBundle.load(model.export(tmp_path / "scores.hgm").to_bytes())
    assert bundle.predict(exact[:1]).tolist() == [exact[0].argmax()]
    for call in (lambda: model.predict_proba(x), lambda: bundle.predict_proba(exact)):
        with pytest.raises(hg.DtypeError, match="has no probabilities"):
            call()
    graph = labelled("softmax")  # the network's own softmax
    np.testing.assert_allclose(
        compile_graph(graph, x, accuracy=0.2).predict_proba(x), run(graph, x)[graph.outputs[0]], atol=0.1
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target": 5}, "a target must be the name of a cost profile .*, not 5"),
        ({"target": b"two-cores"}, "a target must be"),
        ({"target": "a\0b"}, "null character"),
        ({"parameters": 5}, "parameters must be a set of CKKS"),
        ({"parameters": "n15-b4"}, "parameters must be a set of CKKS"),
        ({"lean": 1}, "lean must be True or False"),
        ({"guard": "no"}, "guard must be True or False"),
        ({"margin": "wide"}, "the margin"),
    ],
)
def test_options_of_a_wrong_type(options: dict[str, Any], text: str) -> None:
    with pytest.raises(hg.DtypeError, match=text):
        hg.ml.compile(perceptron(), samples(), **options)


@pytest.mark.parametrize("name", ["a\0b.json", "a\0b.onnx", "a\0b.txt"])
def test_paths_with_a_null_character(name: str) -> None:
    for path in (name, Path(name)):
        with pytest.raises(hg.DtypeError, match="null character"):
            hg.ml.compile(path, samples())


def test_answers_of_another_network_are_refused(tmp_path: Path) -> None:
    x = samples()
    one, other, again = (compile_graph(perceptron(seed), x, accuracy=0.1) for seed in (1, 2, 1))
    assert one.parameters == other.parameters == again.parameters
    secret = hg.SecretKey.generate(one.parameters)
    server = hg.Server(secret.evaluation_keys(relinearize=True, level_rotations=_joined(one.needs, other.needs)))
    request = one.encrypt(secret, x[:1])
    answer = other(server.bind(request))
    for wrong in (answer, hg.from_bytes(answer.to_bytes())):
        with pytest.raises(hg.MismatchError, match=r"computed this answer.*the same model.*unchecked=True"):
            one.decrypt(secret, wrong)
    assert one.decrypt(secret, answer, unchecked=True).shape == (1, 4)
    np.testing.assert_allclose(again.decrypt(secret, one(server.bind(request))), one.simulate(x[:1]), atol=1e-3)
    bundles = [model.export(tmp_path / f"{i}.hgm", labels=list("abcd")) for i, model in enumerate((one, other))]
    wrong = bundles[1].run(server, request)
    with pytest.raises(hg.MismatchError, match=r"another model computed this answer: .*digest="):
        bundles[0].client().decrypt(secret, wrong)
    bundles[1].client().decrypt(secret, wrong)
    with pytest.raises(hg.MismatchError, match="its guards are of"):
        bundles[0].decrypt(secret, hg.from_bytes(wrong.to_bytes()))


def _joined(*needs: dict[str, Any]) -> dict[int, list[int]]:
    """Returns the rotations of several models."""
    joined: dict[int, set[int]] = {}
    for one in needs:
        for level, steps in one["level_rotations"].items():
            joined.setdefault(level, set()).update(steps)
    return {level: sorted(steps) for level, steps in sorted(joined.items())}


def test_answers_of_another_ensemble_are_refused(tmp_path: Path) -> None:
    tree = pytest.importorskip("sklearn.tree")
    x = samples()
    one, other, again = (
        hg.ml.compile(tree.DecisionTreeRegressor(max_depth=2, random_state=0).fit(x[:, :4], x[:, i]), x[:, :4])
        for i in (0, 1, 0)
    )
    assert one.parameters() == other.parameters()
    secret = hg.SecretKey.generate(one.parameters())
    answer = other(hg.Server(other.keys(secret)).bind(other.encrypt(secret, x[:1, :4])))
    with pytest.raises(hg.MismatchError, match="another model computed this answer"):
        one.decrypt(secret, answer)
    answer = one(hg.Server(one.keys(secret)).bind(one.encrypt(secret, x[:1, :4])))
    again.decrypt(secret, answer)
    one.export(tmp_path / "tree.hgm").client().decrypt(secret, answer)


def test_forecasts_count_guards() -> None:
    x = samples()
    guarded, bare = (
        compile_graph(perceptron(), x, accuracy=0.1, guard=guard, target="two-cores") for guard in (True, False)
    )
    assert guarded.report.seconds > bare.report.seconds > 0
