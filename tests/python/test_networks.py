"""Compiled networks: encrypted runs against the simulation and the interpreter, guards, errors and reports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml.canonical import canonical
from heliograph.ml.errors import AccuracyError, ModelError
from heliograph.ml.interpreter import run
from heliograph.ml.networks import NetworkModel, compare, compile_graph, placing
from heliograph.ml.networks.cuts import network_of
from heliograph.ml.networks.files import arrays_of, circuit_of
from heliograph.ml.networks.fitting import Polynomial
from heliograph.ml.networks.forecast import seconds_of
from heliograph.ml.networks.placing import Limits, Step, place
from heliograph.ml.networks.program import Circuit
from heliograph.ml.networks.sets import Chooser
from heliograph.ml.profile import Profile, profile_of
from heliograph.ml.read.onnx import read_onnx
from network_graphs import Builder, perceptron, residual
from onnx_graphs import random_model


@pytest.fixture(scope="module")
def small() -> Any:
    return hg.ckks.parameters(n=2**11, depth=13, log_scale=39, bootstrap=True, insecure=True)


def images(count: int, seed: int = 1, shape: tuple[int, ...] = (3, 8, 8)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *shape))


@pytest.fixture(scope="module")
def network(small: Any) -> NetworkModel:
    return compile_graph(residual(), images(200), accuracy=0.1, parameters=small)


@pytest.fixture(scope="module")
def owner(small: Any) -> Any:
    return hg.SecretKey.generate(small)


@pytest.fixture(scope="module")
def keys(network: NetworkModel, owner: Any) -> Any:
    return network.keys(owner)


def test_an_encrypted_run_equals_the_simulation(network: NetworkModel, owner: Any, keys: Any) -> None:
    x = images(2, seed=7) * 0.8
    encrypted, simulated = network.run(owner, x, keys), network.simulate(x)
    assert network.report.bootstraps >= 1
    np.testing.assert_allclose(encrypted, simulated, atol=2e-4)
    exact = run(network.network.graph, x)[network.network.result]
    assert isinstance(network, hg.ml.Model)
    np.testing.assert_allclose(network.clear(x), exact, atol=1e-5)
    assert np.abs(simulated - exact).max() < 0.2


def test_bootstraps_use_the_period_of_a_sample(
    network: NetworkModel, owner: Any, keys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods: list[int | None] = []
    bootstrap = hg.ckks.Tensor.bootstrap

    def noted(x: Any, *given: Any, period: int | None, **options: Any) -> Any:
        periods.append(period)
        return bootstrap(x, *given, period=period, **options)

    monkeypatch.setattr(hg.ckks.Tensor, "bootstrap", noted)
    network(hg.Server(keys).bind(network.encrypt(owner, images(1, seed=7) * 0.8)))
    layouts, places = network.circuit.design.layouts, network.circuit.plan.places
    assert periods == [layouts[name].period for name, place in places.items() if place.before or place.after]
    assert max(p for p in periods if p) < network.parameters.slots


def test_errors_of_each_layer(network: NetworkModel, owner: Any, keys: Any) -> None:
    found = compare(network, owner, images(1, seed=8) * 0.8, keys)
    assert len(found.layers) == 6
    assert found.worst.from_polynomials < 1e-4
    assert all(layer.from_exact < 0.3 for layer in found.layers)
    assert found.worst.node in str(found)


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_values_outside_an_interval_raise_an_error(network: NetworkModel, owner: Any, keys: Any, factor: float) -> None:
    x = images(1, seed=9)
    x *= 4 / np.abs(x).max()
    server = hg.Server(keys)
    unit = network._unit
    if np.abs(x * factor).max() > unit:
        with pytest.raises(hg.PlaintextRangeError, match="calibrated range"):
            network.encrypt(owner, x * factor)
    y = network(server.bind(network.encrypt(owner, x * factor, unchecked=True)))  # the activations' guards notice
    with pytest.raises(hg.OutOfIntervalError, match=r"/activation.* on \[.*calibrate=.*margin=.*unchecked=True"):
        network.decrypt(owner, y)
    assert network.decrypt(owner, y, unchecked=True).shape == (1, 10)
    with pytest.raises((hg.OutOfIntervalError, hg.PlaintextRangeError)):
        network.simulate(x * factor)
    assert np.isnan(network.simulate(x * factor, beyond="nan")).all()


@pytest.mark.parametrize("change", ["channels", "interval", "bias"])
def test_wrong_programs_are_seen_by_compare(network: NetworkModel, owner: Any, keys: Any, change: str) -> None:
    circuit = network.circuit
    cuts = list(circuit.network.cuts)
    name = cuts[2].name
    wrong = replace(circuit, _encoded={})
    if change == "channels":  # two channels of a layer's result are swapped
        maps = dict(circuit.design.maps)
        (only,) = maps[name]
        diagonals = only.diagonals[0, 0]
        entries = [
            (number, (slot + 64 * (slot // 64 % 2 * -2 + 1)) % diagonals.period, w)
            for number, slot, w in diagonals.entries()
        ]
        moved = replace(diagonals, entries=lambda: iter(entries))
        maps[name] = (replace(only, diagonals={(0, 0): moved}),)
        wrong = replace(wrong, design=replace(circuit.design, maps=maps))
    elif change == "interval":
        middle, half = circuit.units.arguments[name]
        arguments = {**circuit.units.arguments, name: (middle, half * 1.1)}
        wrong = replace(wrong, units=replace(circuit.units, arguments=arguments))
    else:
        form = cuts[2].form
        assert form is not None
        cuts[2] = replace(cuts[2], form=replace(form, constant=form.constant + 0.05))
        wrong = replace(wrong, network=replace(circuit.network, cuts=tuple(cuts)))
    found = compare(NetworkModel(wrong, network.report, network.output), owner, images(1, seed=8) * 0.8, keys)
    assert found.layers[1].node == "/activation3"
    assert found.layers[0].from_polynomials < 1e-4
    assert found.layers[1].from_polynomials > 5e-3


def test_a_perceptron_takes_the_smallest_set() -> None:
    x = images(300, shape=(12,))
    graph = perceptron()
    model = compile_graph(graph, x, accuracy=0.05)
    assert model.parameters.security == "128-bit"
    assert model.parameters.n <= 2**14
    assert model.report.bootstraps == 0
    secret = hg.SecretKey.generate(model.parameters)
    some = x[:2]
    np.testing.assert_allclose(model.run(secret, some), model.simulate(some), atol=1e-4)
    assert model.predict(some).tolist() == run(graph, some)[graph.outputs[0]].argmax(axis=1).tolist()
    np.testing.assert_allclose(model.predict_proba(some), run(graph, some)[graph.outputs[0]], atol=0.05)
    labels = run(graph, x)[graph.outputs[0]].argmax(axis=1)
    assert model.score(x, labels) >= 0.95
    assert "relu on" in str(model)


def test_sets_are_compared_by_the_profile() -> None:
    network = network_of(residual())
    chosen = {}
    known = profile_of("two-cores")
    for profile in (known, Profile("none", "none", ())):
        chooser = Chooser(network, {"input": 4.0, "output": 4.0}, 1, hg.ckks.parameters("n16-b13"), profile)
        shape = {cut.name: Polynomial(-4.0, 4.0, (0.5, 0.5, 0.1), 0.0, 0.0) for cut in network.activations}
        found = chooser.choose(shape)
        assert found is not None
        chosen[profile.name] = found
    one = chosen[known.name]
    circuit = Circuit(network, one.design, one.plan, shape, one.units, one.parameters)
    assert one.plan.seconds == pytest.approx(seconds_of(circuit, known))
    assert chosen["none"].plan.seconds == np.inf  # a set without rates comes last


def test_several_samples_share_a_request(small: Any, owner: Any) -> None:
    b = Builder((2, 4, 4))
    value = b.activation(b.convolution("x", 4), "square")
    graph = b.graph(b.dense(b.flatten(b.convolution(value, 2, stride=2)), 3))
    x = images(100, shape=(2, 4, 4))
    model = compile_graph(graph, x, batch=8, parameters=small)
    assert model.circuit.design.share == 8
    np.testing.assert_allclose(model.run(owner, x[:11]), run(graph, x[:11])[graph.outputs[0]], atol=1e-4)
    with pytest.raises(hg.ShapeError, match="at most 8"):
        model.encrypt(owner, x[:9])


def test_tensors_larger_than_a_ciphertext(small: Any, owner: Any) -> None:
    b = Builder((8, 16, 16))
    value = b.activation(b.convolution("x", 8), "square")
    graph = b.graph(b.average_pool(b.convolution(value, 8, stride=2, groups=2), 8))
    x = images(50, shape=(8, 16, 16))
    model = compile_graph(graph, x, parameters=small, classifies=False)
    assert model.encrypt(owner, x[0]).shape == (2,)
    np.testing.assert_allclose(model.run(owner, x[:1]), run(graph, x[:1])[graph.outputs[0]].reshape(1, 8), atol=1e-4)


def test_ciphertexts_without_a_map(small: Any, owner: Any) -> None:
    b = Builder((4, 16, 16))
    padded = b.other("pad", b.convolution("x", 4), (8, 16, 16), pads=((4, 0), (0, 0), (0, 0)))  # the first ciphertext is 0
    graph = b.graph(b.average_pool(b.activation(padded, "square"), 8))
    x = images(50, shape=(4, 16, 16))
    model = compile_graph(graph, x, parameters=small, classifies=False)
    (only,) = model.circuit.design.maps[model.network.cuts[1].name]
    assert set(only.diagonals) == {(1, 0)}
    np.testing.assert_allclose(model.run(owner, x[:1]), run(graph, x[:1])[graph.outputs[0]].reshape(1, 32), atol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_random_models_run_or_are_refused_by_name(seed: int, small: Any, owner: Any) -> None:
    try:
        graph = canonical(read_onnx(random_model(seed)))
        x = np.random.default_rng(seed).uniform(-1, 1, (64, *graph.shapes[graph.inputs[0]]))
        model = compile_graph(graph, x, accuracy=0.5, classifies=False, parameters=small)
    except AccuracyError:
        return
    except ModelError as error:
        if not re.search(r"node n\d+ |depend on its input", str(error)):
            raise
        return
    exact = model.clear(x)
    np.testing.assert_allclose(model.run(owner, x[:1]), model.simulate(x[:1]), atol=1e-3 * np.abs(exact).max() + 1e-6)


def test_unused_slots_and_missing_samples_stay_inside_intervals(small: Any, owner: Any) -> None:
    b = Builder((3, 5, 5))
    inner = b.activation("x", "exp")  # values of 2.7 to 7.4
    graph = b.graph(b.activation(b.add(inner, b.activation(inner, "tanh")), "log"))
    x = np.random.default_rng(3).uniform(1, 2, (60, 3, 5, 5))
    for batch in (1, 4):
        model = compile_graph(graph, x, accuracy=0.05, batch=batch, classifies=False, margin=1.05, parameters=small)
        np.testing.assert_allclose(model.run(owner, x[: 2 * batch - 1]), model.simulate(x[: 2 * batch - 1]), atol=1e-3)


def test_bad_samples_are_refused(network: NetworkModel, owner: Any) -> None:
    x = images(1)
    x[0, 0, 0, 0] = np.nan
    for call in (lambda: network.encrypt(owner, x), lambda: network.simulate(x), lambda: network.predict(x)):
        with pytest.raises(hg.PlaintextRangeError, match="NaN"):
            call()
    with pytest.raises(hg.ShapeError, match="must have shape"):
        network.simulate(images(2, shape=(3, 8, 7)))
    with pytest.raises(hg.DtypeError, match="real numbers"):
        network.simulate(images(1) * 1j)
    with pytest.raises(hg.DtypeError, match="whole class numbers"):
        network.score(images(2), [0.5, 1.0])
    with pytest.raises(hg.ShapeError, match="one class number"):
        network.score(images(2), [1])


def test_bad_calls_are_refused(network: NetworkModel, owner: Any, keys: Any) -> None:
    with pytest.raises(hg.DtypeError, match="secret or public key"):
        network.encrypt(3, images(1))
    other = hg.SecretKey.generate(hg.ckks.parameters(depth=1))
    with pytest.raises(hg.MismatchError, match="model's set"):
        network.encrypt(other, images(1))
    with pytest.raises(hg.DtypeError, match="takes a tensor"):
        network(images(1))
    with pytest.raises(hg.ShapeError, match=r"model\.encrypt"):
        network(hg.Server(keys).bind(owner.encrypt(np.zeros((2, 1024)))))
    with pytest.raises(hg.ParameterError, match="beyond must be"):
        network.simulate(images(1), beyond="clip")


def test_what_cannot_be_compiled() -> None:
    x = images(64, shape=(12,))
    with pytest.raises(AccuracyError, match="calibrate="):
        compile_graph(perceptron(), x, accuracy=0.0, margin=16)
    with pytest.raises(hg.ParameterError, match="accuracy must be"):
        compile_graph(perceptron(), x, accuracy=-1)
    with pytest.raises(hg.ParameterError, match="there is no profile"):
        compile_graph(perceptron(), x, accuracy=0.1, target="abacus")
    assert compile_graph(perceptron(), x, accuracy=0.1, target="two-cores").report.target == "two-cores"
    with pytest.raises(hg.ParameterError, match="margin must be"):
        compile_graph(perceptron(), x, margin=0.5)
    with pytest.raises(hg.LimitError, match="limit= allows"):
        compile_graph(perceptron(), x, accuracy=0.1, limit=hg.Costs(seconds=1e-6))
    with pytest.raises(hg.LimitError, match="keys, matrices and tensors"):
        compile_graph(perceptron(), x, accuracy=0.1, limit=hg.Costs(nbytes=1000))
    b = Builder((12,))
    with pytest.raises(ModelError, match="not finite"):
        compile_graph(b.graph(b.dense(b.activation(b.dense("x", 4), "log"), 2)), x)
    with pytest.raises(ModelError, match="must be one of"):
        compile_graph(b.graph(b.activation("x", "unknown")), x)


def test_a_chain_without_levels_has_no_plan() -> None:
    steps = [Step("x", 0, 0, 1, ()), Step("y", 5, 3, 1, (("x", 1, 4.0, 2),))]
    output = Step("", 0, 0, 1, (("y", 1, 4.0, 2),))
    assert place(steps, output, Limits(7, 0)) is None
    found = place(steps, output, Limits(8, 0))
    assert found is not None
    assert found.places["x"].value == 8
    chain = [steps[0], *(Step(f"y{i}", 5, 3, 1, ((f"y{i - 1}" if i else "x", 1, 4.0, 2),)) for i in range(6))]
    boots = place(chain, Step("", 0, 0, 1, (("y5", 1, 4.0, 2),)), Limits(17, 4))
    assert boots is not None
    assert boots.bootstraps == 2


def test_a_bundle_computes_the_same(network: NetworkModel, owner: Any, keys: Any, tmp_path: Path) -> None:
    bundle = network.export(tmp_path / "net.hgm", labels=[f"class {i}" for i in range(10)])
    read = hg.ModelBundle.load(tmp_path / "net.hgm")
    half = hg.ModelBundle.load(read.client().to_bytes())
    x = images(1, seed=7) * 0.8
    answer = read.run(hg.Server(keys), half.encrypt(owner, x[0]))
    values = half.decrypt(owner, answer, like=x[0])
    np.testing.assert_allclose(values, network.simulate(x)[0], atol=2e-4)
    assert half.predict(values) == f"class {values.argmax()}"
    assert half.predict_proba(values).sum() == pytest.approx(1)
    assert bundle.needs == network.needs
    assert "rotations" in read.explain()
    assert 0.9 < read.key_bytes / len(keys.to_bytes()) < 1.1
    with pytest.raises(hg.MissingKeyError, match="rotations at level"):
        read.require_keys(owner.evaluation_keys(bootstrap=True))
    assert read.nbytes < 200_000  # weights, not encoded matrices
    assert half.nbytes < read.nbytes
    with pytest.raises(hg.PlaintextRangeError, match="calibrated range"):
        half.encrypt(owner, x[0] * 100)
    with pytest.raises(hg.ShapeError):
        half.encrypt(owner, x[0, :2])
    with pytest.raises(hg.MissingKeyError, match="client's half"):
        half.run(hg.Server(keys), answer)


def test_a_service_runs_a_bundle(tmp_path: Path) -> None:
    model = compile_graph(perceptron(), images(300, shape=(12,)), accuracy=0.05)
    model.export(tmp_path / "perceptron.hgm", labels=["a", "b", "c", "d"])
    x = images(1, seed=5, shape=(12,))[0]
    with hg.serving.local(tmp_path / "perceptron.hgm") as address:
        secret = hg.SecretKey.generate(model.parameters)
        client = hg.Client(address, model="perceptron", secret=secret)
        client.upload_keys(secret)
        values = client.run(x)
        np.testing.assert_allclose(values, model.simulate(x)[0], atol=1e-3)
        assert client.model.predict(values) == "abcd"[values.argmax()]


@pytest.fixture(scope="module")
def filled(small: Any) -> NetworkModel:
    """The network with a plan for a machine of expensive diagonals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "_DIAGONAL", 0.01)
        made = compile_graph(residual(), images(200), accuracy=0.1, parameters=small)
    return made


def test_filled_copies_compute_the_same(filled: NetworkModel, network: NetworkModel, owner: Any) -> None:
    chosen = [name for name, place in filled.circuit.plan.places.items() if place.filled]
    assert chosen
    assert not any(place.filled for place in network.circuit.plan.places.values())
    assert filled.report.diagonals < network.report.diagonals
    assert filled.report.rotations < network.report.rotations + 8
    x = images(1, seed=7) * 0.8
    keys = filled.keys(owner)
    np.testing.assert_allclose(filled.run(owner, x, keys), filled.simulate(x), atol=2e-4)
    found = compare(filled, owner, x, keys)
    assert found.worst.from_polynomials < 1e-4
    read = circuit_of(arrays_of(filled.circuit), filled.parameters, 1)
    assert read.needs == filled.needs
    assert dict(read.plan.places) == dict(filled.circuit.plan.places)


@pytest.mark.parametrize("change", ["no copies", "no levels", "number"])
def test_changed_plans_with_filled_copies_are_refused(filled: NetworkModel, change: str) -> None:
    arrays = arrays_of(filled.circuit)
    text = json.loads(arrays["network"].tobytes())
    name = next(name for name, place in filled.circuit.plan.places.items() if place.filled)
    if change == "no copies":
        text["plan"]["x"][5] = True
    elif change == "no levels":
        text["plan"][name][4] = filled.parameters.levels - 1
    else:
        text["plan"][name][5] = 1
    changed = np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)
    with pytest.raises(hg.DamagedFileError, match="truth values" if change == "number" else "filled copies"):
        circuit_of(arrays | {"network": changed}, filled.parameters, 1)


def test_changed_bundles_are_refused(network: NetworkModel) -> None:
    arrays = arrays_of(network.circuit)
    text = json.loads(arrays["network"].tobytes())
    assert circuit_of(arrays, network.parameters, 1).needs == network.needs
    changes: list[tuple[str, Any]] = [
        ("inputs", []),
        ("shape", [2, 8, 8]),
        ("unit", "0x0.0p+0"),
        ("result", 99),
        ("guard", 1),
        ("outputs", ["missing"]),
        ("nodes", text["nodes"][1:]),
        ("plan", text["plan"] | {"x": [1, 1, False, False, 1]}),
        ("polynomials", {}),
        ("constants", {"c": {"array": "missing"}}),
        ("units", text["units"] | {"x": "nan"}),
    ]
    for name, value in changes:
        changed = np.frombuffer(json.dumps(text | {name: value}).encode(), dtype=np.uint8)
        with pytest.raises(hg.DamagedFileError):
            circuit_of(arrays | {"network": changed}, network.parameters, 1)
    operation = json.loads(json.dumps(text))
    operation["nodes"][0]["operation"] = "unknown"
    function = json.loads(json.dumps(text))
    function["nodes"][1]["attributes"]["function"] = "unknown"
    several: list[Any] = [operation, function, [], {"nodes": 1}]
    for wrong in several:
        changed = np.frombuffer(json.dumps(wrong).encode(), dtype=np.uint8)
        with pytest.raises(hg.DamagedFileError):
            circuit_of(arrays | {"network": changed}, network.parameters, 1)
    with pytest.raises(hg.DamagedFileError, match="finite"):
        circuit_of(arrays | {"a0": np.full_like(arrays["a0"], -1)}, network.parameters, 1)
    with pytest.raises(hg.DamagedFileError, match="32 or 64 bits"):
        circuit_of(arrays | {"a0": arrays["a0"].astype(np.int8)}, network.parameters, 1)
