"""Networks that no other test has: random ones, high degrees, open sizes, several output axes; bytes and seconds in advance."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml import ModelError
from heliograph.ml.activations import FUNCTIONS
from heliograph.ml.canonical import canonical
from heliograph.ml.interpreter import run
from heliograph.ml.networks import compile_graph
from heliograph.ml.networks.cuts import network_of
from heliograph.ml.networks.design import design_of
from heliograph.ml.networks.fitting import Observed, fit
from heliograph.ml.networks.layouts import raster, strided
from heliograph.ml.networks.program import level_key_bytes
from heliograph.ml.read.onnx import read_onnx
from heliograph.programs import forecast as forecasting
from network_graphs import Builder, perceptron

onnx = pytest.importorskip("onnx")
held_graphs = pytest.importorskip("benchmarks.held_graphs")


def samples(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_random_networks_have_the_values_of_onnxruntime() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.set_default_logger_severity(3)
    for seed in range(40):
        network = held_graphs.random_network(seed)
        graph = canonical(read_onnx(network))
        x = samples(1, *graph.shapes["x"], seed=seed).astype(np.float32)
        session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted = session.run(None, {"x": x})[0]
        found = run(graph, x)[graph.outputs[0]].reshape(wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4, err_msg=f"seed {seed}")


def test_random_networks_run_encrypted_as_simulated(tmp_path: Path) -> None:
    for seed in (31, 46):
        path = tmp_path / "net.onnx"
        path.write_bytes(held_graphs.random_network(1000 + seed).SerializeToString())
        x = samples(300, *read_onnx(path).shapes["x"][1:])
        model = hg.ml.compile(path, calibrate=x, accuracy=0.05)
        secret = hg.SecretKey.generate(model.parameters)
        keys = model.keys(secret)
        assert keys.nbytes == model.report.key_bytes
        np.testing.assert_allclose(model.run(secret, x[:1], keys), model.simulate(x[:1]), atol=1e-3)


def test_each_value_of_a_random_network_has_a_place_of_its_own() -> None:
    for seed in (4018, 5063, *range(60)):
        try:
            network = network_of(canonical(read_onnx(held_graphs.random_network(seed))))
        except ModelError:
            continue
        design = design_of(network, 1 << 13)
        for layout in (*design.layouts.values(), design.output):
            assert len(np.unique(layout.places)) == len(layout.places), f"seed {seed}: {layout}"
            assert layout.places.max() < layout.period, f"seed {seed}: {layout}"


@pytest.mark.parametrize("sizes", [(1, 16), (2, 8), (3, 2), (16, 1), (2, 2)])
def test_strides_over_short_axes(sizes: tuple[int, int]) -> None:
    for strides in ((4, 4), (2, 4), (1, 2), (8, 8)):
        source = raster((4, *sizes), 1 << 12)
        shape = (40, *(-(-n // s) for n, s in zip(sizes, strides, strict=True)))
        made = strided(source, strides, shape)
        assert made is not None
        assert len(np.unique(made.places)) == len(made.places)
        assert made.places.max() < made.period


def test_key_bytes_of_sets_with_one_prime_a_digit() -> None:
    made = hg.ckks.parameters(depth=9, precision=17, integer_bits=6, slots=8192)
    p = type(made)(made._core.on_device("null"))
    secret = hg.SecretKey.generate(p)
    for level in (1, 5, p.levels):
        keys = secret.evaluation_keys(relinearize=False, level_rotations={level: [1]})
        assert level_key_bytes(p, level) == keys.nbytes


def test_higher_degrees_are_more_exact_up_to_the_ends_of_the_interval() -> None:
    seen = Observed.of([samples(20000)], 1.3)
    fits = [fit(FUNCTIONS["relu"], seen, degree) for degree in (15, 31, 63, 127, 255)]
    for low, high in pairwise(fits):
        assert high.mean_error < 0.5 * low.mean_error
        assert high.largest_error < 0.6 * low.largest_error
    assert fits[1].largest_error < 0.1
    assert fit(FUNCTIONS["gelu"], seen, 255).degree < 64  # no negligible coefficients


def test_a_relu_within_a_thousandth() -> None:
    x = samples(200, 12)
    model = compile_graph(perceptron(), x, accuracy=0.004, classifies=False)
    assert max(row.degree for row in model.report.activations) > 63
    secret = hg.SecretKey.generate(model.parameters)
    found = model.run(secret, x[:1])
    np.testing.assert_allclose(found, model.simulate(x[:1]), atol=1e-3)
    assert np.abs(found - model.clear(x[:1])).max() < 0.02 * np.abs(model.clear(x)).max()


def test_linear_layers_in_a_row() -> None:
    b = Builder((8, 12, 12))
    value = "x"
    for _ in range(3):
        value = b.convolution(value, 8)
    x = samples(100, 8, 12, 12)
    model = compile_graph(b.graph(b.dense(b.activation(b.flatten(value), "square"), 2)), x, accuracy=0.01)
    np.testing.assert_allclose(model.simulate(x[:2]), model.clear(x[:2]), atol=1e-3)


def saved(path: Path, nodes: list[Any], shape: list[Any], **constants: Any) -> Path:
    """Writes a network of nodes with one input ``x`` and the output of the last node."""
    ends = [onnx.helper.make_tensor_value_info("x", 1, shape)]
    kind = 7 if nodes[-1].op_type == "ArgMax" else 1
    out = [onnx.helper.make_tensor_value_info(nodes[-1].output[0], kind, None)]
    arrays = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = onnx.helper.make_graph(nodes, "small", ends, out, arrays)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def node(operator: str, inputs: str, output: str, **attributes: Any) -> Any:
    return onnx.helper.make_node(operator, inputs.split(), [output], name=output, **attributes)


WEIGHT = samples(4, 3, seed=2).astype(np.float32)


def test_calibration_samples_give_the_open_sizes_of_a_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "open.onnx", [node("MatMul", "x w", "s"), node("Relu", "s", "y")], ["n", "time", 4], w=WEIGHT)
    x = samples(60, 5, 4)
    model = hg.ml.compile(path, calibrate=x, accuracy=0.2)
    assert (model.input_shape, model.output_shape) == ((5, 4), (5, 3))
    assert model.output.kind == "values"  # several axes are no scores of classes
    with pytest.raises(ModelError, match=r"\(time\) has no fixed size; .* samples of the full shape to hg.ml.compile"):
        hg.ml.compile(path, calibrate=x[0])
    with pytest.raises(ModelError, match="no fixed size"):
        hg.ml.compile(path, calibrate=[[[1.0]], [2.0]])
    with pytest.raises(hg.ParameterError, match="at least two outputs along one axis"):
        hg.ml.compile(path, calibrate=x, classifies=True)


def test_integers_inside_a_file_of_floats(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "s"), node("Gather", "s places", "g", axis=1), node("ArgMax", "g", "y", axis=1)]
    path = saved(tmp_path / "net.onnx", nodes, ["n", 4], w=WEIGHT, places=np.array([2, 0, 1]))
    x = samples(60, 4)
    model = hg.ml.compile(path, calibrate=x, accuracy=0.05)
    assert model.predict(x).tolist() == (x @ WEIGHT[:, [2, 0, 1]]).argmax(axis=1).tolist()


@pytest.mark.parametrize("operator", ["Softmax", "ArgMax"])
def test_a_last_softmax_of_several_axes_is_refused(tmp_path: Path, operator: str) -> None:
    nodes = [node("MatMul", "x w", "s"), node(operator, "s", "y", axis=2)]
    path = saved(tmp_path / "net.onnx", nodes, ["n", 5, 4], w=WEIGHT)
    with pytest.raises(ModelError, match=r"node y .* of one axis of at least 2 scores, got an output of shape \(5, 3\)"):
        hg.ml.compile(path, calibrate=samples(60, 5, 4))


def test_forecasts_count_the_reads_of_keys_and_plaintexts() -> None:
    ring = forecasting._Ring(byte=1e-9, key_bytes=1 << 24)
    core = SimpleNamespace(
        times=(0.0, 1.0), calls={}, peak_bytes=0, constant_bytes=1 << 28, key_numbers=[3], bytes_read=1 << 40
    )
    without = SimpleNamespace(**{**vars(core), "constant_bytes": 0, "key_numbers": []})
    more = ring.seconds(core, 0) - ring.seconds(without, 0)  # type: ignore[operator]
    assert more == pytest.approx(1e-9 * 0.5 * ((1 << 28) + (1 << 24) - (1 << 21)))
    assert ring.seconds(core, None) == ring.seconds(without, None)
