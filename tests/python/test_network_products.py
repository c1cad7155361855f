"""Products of computed values in compiled networks: normalizations, softmax, attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph
from heliograph.ml.interpreter import run
from heliograph.ml.networks import NetworkModel, compare, compile_graph
from heliograph.ml.networks.evaluation import evaluate
from heliograph.ml.networks.files import arrays_of, circuit_of
from heliograph.ml.networks.primitives import with_factors, with_primitives
from network_graphs import Builder, attention
from test_ml_read_onnx import model, node, reference


def tokens(count: int, seed: int = 1, shape: tuple[int, ...] = (4, 8)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *shape))


@pytest.fixture(scope="module")
def small() -> Any:
    return hg.ckks.parameters(n=2**11, depth=13, log_scale=39, bootstrap=True, insecure=True)


@pytest.fixture(scope="module")
def owner(small: Any) -> Any:
    return hg.SecretKey.generate(small)


@pytest.fixture(scope="module")
def transformer(small: Any) -> NetworkModel:
    return compile_graph(attention(), tokens(150), accuracy=0.1, parameters=small)


def gated() -> Graph:
    b = Builder((6,))
    value = b.multiply(b.dense("x", 5), b.activation(b.dense("x", 5), "sigmoid"))
    return b.graph(b.multiply(value, b.multiply(value, value)))


def normalized(axes: int) -> Graph:
    b = Builder((3, 4, 5))
    return b.graph(b.normalize(b.activation("x", "tanh"), axes))


def weighted(axis: int) -> Graph:
    b = Builder((3, 4, 5))
    return b.graph(b.multiply(b.softmax("x", axis), "x"))


def multiplied() -> Graph:
    b = Builder((3, 4, 5))
    return b.graph(b.matmul("x", b.transpose("x", (0, 2, 1))))


GRAPHS: dict[str, Callable[[], Graph]] = {
    "products": gated,
    "layer normalization": lambda: normalized(1),
    "instance normalization": lambda: normalized(2),
    "softmax": lambda: weighted(2),
    "softmax of the first axis": lambda: weighted(0),
    "matrix product": multiplied,
    "attention": attention,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_rewritten_graphs_compute_the_same(name: str) -> None:
    graph = GRAPHS[name]()
    x = 2 * tokens(20, 2, tuple(graph.shapes["x"]))
    made = with_factors(with_primitives(graph, x.astype(np.float32)))
    np.testing.assert_allclose(evaluate(made, x)[made.outputs[0]], run(graph, x)[graph.outputs[0]], atol=1e-9)
    assert with_factors(made).nodes == made.nodes  # a file is rewritten again
    assert not {"normalize", "matmul", "softmax"} & {node.operation for node in made.nodes}


def test_a_layer_of_a_transformer(transformer: NetworkModel, owner: Any) -> None:
    x = tokens(2, 7)
    server = hg.Server(transformer.keys(owner))
    values = transformer.decrypt(owner, transformer(server.bind(transformer.encrypt(owner, x[0]))))
    np.testing.assert_allclose(values, transformer.simulate(x[:1]), atol=2e-3)
    found = compare(transformer, owner, x[1:], server.keys)
    assert found.worst.from_polynomials < 1e-2  # of the inverse sums, which are steep
    assert found.layers[-1].from_polynomials < 1e-3
    parts = {"exp", "inverse sum", "inverse deviation", "distance from the mean", "factor", "square"}
    assert parts <= {layer.node.partition("(")[2].rstrip(")") for layer in found.layers}


def test_its_guards_notice_other_inputs(transformer: NetworkModel, owner: Any) -> None:
    server = hg.Server(transformer.keys(owner))
    wrong = transformer.encrypt(owner, tokens(1, 7) * 2.5, unchecked=True)
    with pytest.raises(hg.OutOfIntervalError, match=r"/(normalize|softmax|activation)\d+"):
        transformer.decrypt(owner, transformer(server.bind(wrong)))


def test_simulation_reports_what_the_guard_of_a_factor_reports(small: Any, owner: Any) -> None:
    """Each element is inside the calibrated range, and a sum of them, which is a factor, is not."""
    b = Builder((6,))
    factor = b.dense("x", 6)
    weight = b.nodes[-1].attributes["weight"]
    graph = b.graph(b.multiply(factor, b.activation("x", "sigmoid")))
    single = np.eye(6)[np.arange(120) % 6] * np.random.default_rng(5).uniform(-1, 1, (120, 1))
    model = compile_graph(graph, single, accuracy=0.05, parameters=small)
    wide = 0.9 * np.sign(weight[np.abs(weight).sum(axis=1).argmax()])[None]
    server = hg.Server(model.keys(owner))
    with pytest.raises(hg.OutOfIntervalError, match=r"/multiply2 \(factor\)"):
        model.decrypt(owner, model(server.bind(model.encrypt(owner, wide))))
    with pytest.raises(hg.OutOfIntervalError, match=r"/multiply2 \(factor\)"):
        model.simulate(wide)
    assert np.isnan(model.simulate(wide, beyond="nan")).all()


def test_a_bundle_of_it(transformer: NetworkModel, owner: Any, tmp_path: Path) -> None:
    transformer.export(tmp_path / "layer.hgm")
    again = hg.ModelBundle.load(tmp_path / "layer.hgm")
    x = tokens(1, 9)
    answer = again.run(hg.Server(again.keys(owner)), again.client().encrypt(owner, x))
    np.testing.assert_allclose(again.client().decrypt(owner, answer), transformer.simulate(x), atol=2e-3)


def test_two_samples_in_a_request(small: Any, owner: Any) -> None:
    model = compile_graph(weighted(1), tokens(60, shape=(3, 4, 5)), accuracy=0.1, batch=2, parameters=small)
    x = tokens(3, 3, (3, 4, 5))
    np.testing.assert_allclose(model.run(owner, x), model.simulate(x), atol=5e-3)


def test_a_changed_plan_of_a_product_is_refused(transformer: NetworkModel) -> None:
    circuit = transformer.circuit
    name = next(cut.name for cut in circuit.network.cuts if cut.is_product)
    places = {**circuit.plan.places, name: replace(circuit.plan.places[name], before=True)}
    arrays = arrays_of(replace(circuit, plan=replace(circuit.plan, places=places)))
    with pytest.raises(hg.DamagedFileError, match="no argument to bootstrap"):
        circuit_of(arrays, circuit.parameters, 1)


def test_too_large_products_and_ranges_are_refused_by_name() -> None:
    b = Builder((256, 256))
    graph = b.graph(b.matmul("x", b.activation("x", "tanh")))
    with pytest.raises(ModelError, match=r"/matmul1 \(matmul\).*at most 8,388,608 terms, and has 16,777,216"):
        compile_graph(graph, tokens(1, shape=(256, 256)))
    b = Builder((5,))
    graph = b.graph(b.multiply(b.softmax("x"), "x"))
    with pytest.raises(ModelError, match=r"/softmax0 \(softmax\).*span"):
        compile_graph(graph, 5000 * tokens(10, shape=(5,)))


@pytest.mark.parametrize("product", [False, True])
def test_outputs_fit_a_small_room(product: bool) -> None:
    """One value is the sum of 900 values, whose bound is far larger than the sums on samples."""
    b = Builder((900,))
    value = b.activation("x", "tanh")
    if product:
        value = b.multiply(value, b.activation("x", "sigmoid"))
    graph = b.graph(b.dense(value, 1))
    parameters = hg.ckks.parameters(depth=8, precision=17, integer_bits=1, slots=2**10)
    model = compile_graph(graph, tokens(100, shape=(900,)), accuracy=0.05, classifies=False, parameters=parameters)
    x = tokens(1, 3, (900,))
    np.testing.assert_allclose(model.run(hg.SecretKey.generate(parameters), x), model.simulate(x), atol=1e-3)


def masked(low: float, operation: str, whole_row: bool = False) -> Any:
    """Attention of five tokens with a causal mask, as an ONNX model."""
    rng = np.random.default_rng(3)
    kept = np.tril(np.ones((5, 5), bool), -int(whole_row))
    constants = {name: rng.normal(size=(4, 4)).astype(np.float32) / 2 for name in "qkv"}
    constants |= {"kept": kept, "low": np.float32(low), "mask": np.where(kept, 0, low).astype(np.float32)}
    constants["bias"] = rng.normal(size=(5, 5)).astype(np.float32)
    operands = {"Add": "scores mask", "Where": "kept scores low"}[operation]
    nodes = [node("MatMul", f"x {name}", f"x{name}") for name in "qkv"]
    nodes += [node("Transpose", "xk", "kt", perm=[0, 2, 1]), node("MatMul", "xq kt", "scores")]
    nodes += [
        node(operation, operands, "masked"),
        node("Add", "masked bias", "sum"),
        node("Softmax", "sum", "soft"),
        node("MatMul", "soft xv", "y"),
    ]
    used = {name for one in nodes for name in one.input}
    return model(nodes, {"x": [1, 5, 4]}, ["y"], {name: v for name, v in constants.items() if name in used})


@pytest.mark.parametrize(("low", "operation"), [(-np.inf, "Add"), (-1e9, "Add"), (-np.inf, "Where"), (-1e4, "Where")])
def test_causal_masks(low: float, operation: str, small: Any, owner: Any, tmp_path: Path) -> None:
    proto = masked(low, operation)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    x = tokens(120, 4, (5, 4)).astype(np.float32)
    made = hg.ml.compile(tmp_path / "m.onnx", x, accuracy=0.1, classifies=False, parameters=small)
    x = x[:2] / 2
    wanted = np.stack([np.ravel(reference(proto, {"x": one[None]})[0]) for one in x])
    np.testing.assert_allclose(made.clear(x), wanted, atol=1e-5)
    np.testing.assert_allclose(made.run(owner, x[:1]), made.simulate(x[:1]), atol=2e-3)


def test_a_mask_of_a_whole_row_is_refused(small: Any, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(masked(-1e9, "Add", True).SerializeToString())
    with pytest.raises(ModelError, match=r"soft \(Softmax\).*at least one argument of each row"):
        hg.ml.compile(tmp_path / "m.onnx", tokens(20, shape=(5, 4)), parameters=small)
