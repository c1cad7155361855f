"""Maximum pools of encrypted networks: as maxima of pairs, against the interpreter, and encrypted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import heliograph as hg
from benchmarks.runners.resnets import write_resnet18
from heliograph.ml.canonical import canonical
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph, Node
from heliograph.ml.interpreter import run
from heliograph.ml.networks import NetworkModel, compare, compile_graph, cuts
from heliograph.ml.networks.cuts import network_of
from heliograph.ml.networks.evaluation import evaluate
from heliograph.ml.networks.files import arrays_of, circuit_of
from heliograph.ml.networks.pools import stages_of, without_pools
from heliograph.ml.read.onnx import read_onnx
from network_graphs import Builder


@pytest.fixture(scope="module")
def small() -> Any:
    return hg.ckks.parameters(n=2**11, depth=13, log_scale=39, bootstrap=True, insecure=True)


@pytest.fixture(scope="module")
def owner(small: Any) -> Any:
    return hg.SecretKey.generate(small)


def images(count: int, shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *shape))


@st.composite
def pools(draw: st.DrawFn) -> tuple[Graph, tuple[int, ...]]:
    """One or two pools with kernels, strides and pads, some of them after an activation."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    b = Builder(shape)
    value = "x"
    for _ in range(draw(st.integers(1, 2))):
        if function := draw(st.sampled_from(["", "relu", "tanh", "abs"])):
            value = b.activation(value, function)
        size = b.shapes[value][1:]
        kernel = [draw(st.integers(1, 7)) for _ in range(2)]
        pads = [draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
        kernel = [min(kernel[i], size[i] + pads[i] + pads[i + 2]) for i in range(2)]
        pads = [min(pads[i], kernel[i % 2] - 1) for i in range(4)]
        kernel = [min(kernel[i], size[i] + pads[i] + pads[i + 2]) for i in range(2)]
        strides = [draw(st.integers(1, 3)) for _ in range(2)]
        value = b.maximum_pool(value, tuple(kernel), tuple(strides), tuple(pads))
    return b.graph(value), shape


@settings(max_examples=150, deadline=None)
@given(pools())
def test_maxima_of_pairs_equal_the_interpreter(case: tuple[Graph, tuple[int, ...]]) -> None:
    graph, shape = case
    x = images(3, shape)
    rewritten = without_pools(graph)
    made = evaluate(rewritten, x)[rewritten.outputs[0]]
    np.testing.assert_allclose(made, run(graph, x)[graph.outputs[0]], atol=1e-12)
    assert not any(node.operation == "maximum_pool" for node in rewritten.nodes)
    network_of(graph)  # each operation is linear or an activation


@pytest.mark.parametrize(
    ("kernel", "stride", "count", "maxima"), [(2, 2, 16, 16), (3, 2, 16, 32), (3, 1, 16, 32), (4, 2, 8, 17), (8, 1, 1, 7)]
)
def test_windows_share_maxima(kernel: int, stride: int, count: int, maxima: int) -> None:
    stages = stages_of(kernel, stride, count)
    assert len(stages) == (kernel - 1).bit_length()
    assert sum(stage.result.count for stage in stages) == maxima


def test_pools_move_before_activations_that_never_fall() -> None:
    def order(function: str, stride: int, **parameters: float) -> list[str]:
        b = Builder((2, 8, 8))
        value = b.activation(b.convolution("x", 2), function, **parameters)
        network = network_of(b.graph(b.maximum_pool(value, (2, 2), (stride, stride))))
        return [str(cut.node.attributes["function"]) for cut in network.activations if cut.node is not None]

    for function in ("relu", "sigmoid"):
        assert order(function, 2) == ["identity", "abs", "abs", function]
        assert order(function, 1) == ["identity", "abs", "abs", function]  # 7 x 7 windows
    assert order("gelu", 2) == ["gelu", "abs", "abs"]
    assert order("leaky_relu", 2, alpha=0.1) == ["identity", "abs", "abs", "leaky_relu"]
    assert order("leaky_relu", 2, alpha=-0.1) == ["leaky_relu", "abs", "abs"]
    b = Builder((2, 4, 4))  # an operand of two tensors is kept
    value = b.other("concatenate", b.activation("x"), (4, 4, 4), axis=0)
    b.nodes[-1] = replace(b.nodes[-1], inputs=("x", b.nodes[0].output))
    assert network_of(b.graph(b.maximum_pool(value, (2, 2), (1, 1)))).activations[1].label.endswith("(operand)")
    for is_read in (False, True):  # a result is kept for layers alone
        b = Builder((2, 8, 8))
        value = b.flatten(b.maximum_pool("x", (2, 2), (2, 2)))
        network = network_of(b.graph(b.dense(value, 3) if is_read else value))
        assert [cut.is_linear for cut in network.activations] == [False] * 2 + [True] * is_read
    b = Builder((2, 8, 8))  # another node reads the activation
    value = b.activation(b.convolution("x", 2))
    both = b.add(b.maximum_pool(value, (3, 3), (1, 1), (1, 1, 1, 1)), value)
    assert next(cut.label for cut in network_of(b.graph(both)).activations) == "/activation1"


def test_names_of_the_file_stay_free() -> None:
    b = Builder((1, 4, 4))
    value = b.maximum_pool("x", (2, 2), (2, 2))
    b.nodes.insert(0, Node("scale", ("x",), f"{value}/slice0", {"factor": np.array(3.0), "offset": np.array(1.0)}))
    b.shapes[f"{value}/slice0"] = (1, 4, 4)
    b.nodes[1] = replace(b.nodes[1], inputs=(f"{value}/slice0",))
    graph, x = b.graph(value), images(2, (1, 4, 4))
    network = network_of(graph)
    assert len({node.output for node in network.graph.nodes}) == len(network.graph.nodes)
    np.testing.assert_allclose(evaluate(network.graph, x)[value], run(graph, x)[value])


def test_windows_of_padding_are_refused_by_name() -> None:
    b = Builder((1, 4, 4))
    graph = b.graph(b.maximum_pool("x", (2, 2), (1, 1), (2, 0, 0, 0)))
    with pytest.raises(ModelError, match=r"/maximum_pool0 \(maximum_pool\).*smaller than its kernel"):
        network_of(graph)


def pooled() -> Graph:
    """Two convolutions with maximum pools of 3 x 3 and of 2 x 2."""
    b = Builder((2, 8, 8))
    value = b.maximum_pool(b.activation(b.convolution("x", 8)), (3, 3), (2, 2), (1, 1, 1, 1))
    value = b.maximum_pool(b.activation(b.convolution(value, 4)), (2, 2), (2, 2))
    return b.graph(b.dense(b.flatten(value), 5))


@pytest.fixture(scope="module")
def network(small: Any) -> NetworkModel:
    return compile_graph(pooled(), images(200, (2, 8, 8)), accuracy=0.1, parameters=small)


@pytest.fixture(scope="module")
def keys(network: NetworkModel, owner: Any) -> Any:
    return network.keys(owner)


def test_an_encrypted_pool_equals_the_simulation(network: NetworkModel, owner: Any, keys: Any) -> None:
    x = images(2, (2, 8, 8), 2) * 0.8
    np.testing.assert_allclose(network.run(owner, x, keys), network.simulate(x), atol=2e-4)
    exact = run(pooled(), x)[pooled().outputs[0]]
    np.testing.assert_allclose(network.clear(x), exact, atol=1e-5)
    assert np.abs(network.simulate(x) - exact).max() < 0.5
    read = circuit_of(arrays_of(network.circuit), network.parameters, 1)
    assert read.needs == network.needs
    assert read.guarded == network.circuit.guarded


def test_reports_and_comparisons_name_the_pool(network: NetworkModel, owner: Any, keys: Any) -> None:
    found = compare(network, owner, images(1, (2, 8, 8), 3) * 0.8, keys)
    assert found.worst.from_polynomials < 1e-4
    labels = [layer.node for layer in found.layers]
    stages = [f"/maximum_pool2 ({axis}, stage {i} of 2)" for axis in ("rows", "columns") for i in (1, 2)]
    assert labels[:6] == ["/maximum_pool2 (operand)", *stages, "/activation1"]
    assert [row.node for row in network.report.activations][:5] == labels[1:6]
    assert not any("identity" in name for name in network.circuit.guarded)


def test_differences_outside_their_interval_are_named(network: NetworkModel, owner: Any, keys: Any) -> None:
    x = images(1, (2, 8, 8), 4)
    x *= 20 / np.abs(x).max()
    answer = network(hg.Server(keys).bind(network.encrypt(owner, x, unchecked=True)))
    with pytest.raises(hg.OutOfIntervalError, match=r"maximum_pool2 \(rows, stage 1 of 2\)"):
        network.decrypt(owner, answer)
    assert np.isnan(network.simulate(x, beyond="nan")).all()


def test_pools_of_several_ciphertexts_and_samples(small: Any, owner: Any) -> None:
    b = Builder((8, 16, 16))
    value = b.maximum_pool(b.convolution("x", 8), (3, 3), (2, 2), (1, 1, 0, 0))
    graph = b.graph(b.average_pool(value, 2))
    x = images(60, (8, 16, 16))
    model = compile_graph(graph, x, accuracy=0.3, parameters=small, classifies=False)
    assert [model.circuit.design.layouts[cut.name].ciphertexts for cut in model.network.cuts[:3]] == [2, 2, 1]
    np.testing.assert_allclose(model.run(owner, x[:1]), model.simulate(x[:1]), atol=1e-3)
    b = Builder((2, 4, 4))
    graph = b.graph(b.dense(b.flatten(b.maximum_pool("x", (2, 2), (2, 1))), 3))
    x = images(60, (2, 4, 4))
    model = compile_graph(graph, x, accuracy=0.2, batch=8, parameters=small, classifies=False)
    np.testing.assert_allclose(model.run(owner, x[:5]), model.simulate(x[:5]), atol=1e-3)


@pytest.mark.parametrize("change", ["bootstrap", "polynomial", "other polynomial"])
def test_changed_bundles_of_kept_values_are_refused(network: NetworkModel, change: str) -> None:
    arrays = arrays_of(network.circuit)
    text = json.loads(arrays["network"].tobytes())
    kept, other = (network.network.activations[i].name for i in (0, 1))
    if change == "bootstrap":
        text["plan"][kept][2:5] = [True, False, 1]
    else:
        name, source = (kept, other) if change == "polynomial" else (other, kept)
        text["polynomials"][name] = text["polynomials"][source]
    changed = np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)
    with pytest.raises(hg.DamagedFileError, match="its guard" if change == "bootstrap" else "polynomial x"):
        circuit_of(arrays | {"network": changed}, network.parameters, 1)


def test_a_wrong_pool_is_seen_by_compare(network: NetworkModel, owner: Any, keys: Any) -> None:
    cut = network.network.activations[2]
    maps = dict(network.circuit.design.maps)
    maps[cut.name] = tuple(replace(m, factor=-m.factor) if m.factor else m for m in maps[cut.name])
    wrong = replace(network.circuit, design=replace(network.circuit.design, maps=maps), _encoded={})
    found = compare(NetworkModel(wrong, network.report, network.output), owner, images(1, (2, 8, 8), 3) * 0.8, keys)
    assert [layer.from_polynomials < 1e-4 for layer in found.layers[:3]] == [True, True, False]


def test_a_small_resnet18_runs_encrypted(small: Any, owner: Any, tmp_path: Path) -> None:
    x = images(64, (3, 4, 4), 5).repeat(8, 2).repeat(8, 3) + 0.3 * images(64, (3, 32, 32), 6)
    write_resnet18(tmp_path / "resnet18.onnx", x[:32], widths=(8, 8, 16, 16))
    model = compile_graph(canonical(read_onnx(tmp_path / "resnet18.onnx")), x, accuracy=0.6, parameters=small)
    assert len(model.report.activations) == 21  # 17 ReLUs and 4 stages of the pool
    found = compare(model, owner, x[:1])
    assert [layer.node for layer in found.layers[:2]] == [
        "/maxpool3 (MaxPool) (operand)",
        "/maxpool3 (MaxPool) (rows, stage 1 of 2)",
    ]
    assert found.worst.from_polynomials < 1e-3


def bottlenecks(blocks: int, factors: tuple[float, ...]) -> Graph:
    """Blocks of a convolution, ReLU and a convolution, each added to its input, which is scaled and has no activation."""
    b = Builder((4, 4, 4))
    value = b.convolution("x", 4)
    for _ in range(blocks):
        inner = b.convolution(b.activation(b.convolution(value, 8, 1, pad=0)), 4, 1, pad=0)
        value = b.other("scale", value, (4, 4, 4), factor=np.array(factors)[:, None, None], offset=np.zeros(1))
        value = b.add(value, b.other("scale", inner, (4, 4, 4), factor=np.array(0.3), offset=np.array(0.0)))
    return b.graph(b.dense(b.flatten(value), 3))


@pytest.mark.parametrize("limit", [100, 1 << 20])
def test_large_values_of_several_maps_are_computed_once(
    limit: int, small: Any, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "MOST_WHOLE", limit)
    x = images(100, (4, 4, 4))
    model = compile_graph(bottlenecks(18, (0.9, 0.8, 0.9, 0.7)), x, accuracy=0.2, parameters=small)
    kept = [cut for cut in model.network.activations if cut.is_linear]
    largest = max(len(maps) for maps in model.circuit.design.maps.values())
    assert (len(kept), largest) == ((19, 2) if limit == 100 else (0, 18))
    places = [model.circuit.plan.places[cut.name] for cut in kept]
    assert any(place.before for place in places) == bool(kept)
    found = compare(model, owner, x[:1] * 0.8)
    assert found.worst.from_polynomials < 1e-4
    assert circuit_of(arrays_of(model.circuit), small, 1).needs == model.needs
    if kept:
        answer = model(hg.Server(model.keys(owner)).bind(model.encrypt(owner, x[:1] * 9, unchecked=True)))
        with pytest.raises(hg.OutOfIntervalError, match=r"on \["):
            model.decrypt(owner, answer)


def test_a_pool_takes_a_set_without_bootstraps() -> None:
    b = Builder((1, 8, 8))
    value = b.maximum_pool(b.activation(b.convolution("x", 4)), (2, 2), (2, 2))
    model = compile_graph(b.graph(b.dense(b.flatten(value), 10)), images(200, (1, 8, 8)), accuracy=0.1, target="two-cores")
    assert (model.parameters.n, model.report.bootstraps, model.parameters.bootstrapping_level) == (2**15, 0, 0)


def test_chains_of_values_in_place_take_no_levels(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "MOST_WHOLE", 100)
    model = compile_graph(bottlenecks(4, (1.0, 1.0, 1.0, 1.0)), images(50, (4, 4, 4)), accuracy=0.5, parameters=small)
    units = model.circuit.units
    kept = [cut.name for cut in model.network.activations if cut.is_linear]
    assert len(kept) == 5  # the last one is the flattened image, which is not in place
    assert len({units.values[name] for name in kept[:4]}) == 1
    assert all(units.arguments[name] == (0.0, units.values[name]) for name in kept)
