"""Requests of many samples: samples that share ciphertexts, groups, fewer samples, guards, files and services."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ckks.approximation import doubled_parts
from heliograph.ml.graph import Graph
from heliograph.ml.networks import NetworkModel, compare, compile_graph, program, sets
from heliograph.ml.networks.files import circuit_of
from heliograph.ml.networks.forecast import seconds_of
from heliograph.ml.profile import Profile, Row, profile_of
from heliograph.models.compiled_bundle import CompiledForm
from network_graphs import Builder, perceptron


@pytest.fixture(scope="module")
def small() -> Any:
    return hg.ckks.parameters(n=2**11, depth=13, log_scale=39, bootstrap=True, insecure=True)


@pytest.fixture(scope="module")
def owner(small: Any) -> Any:
    return hg.SecretKey.generate(small)


def graph_of(channels: int = 4) -> Graph:
    """Two activations around a residual sum, with a stride and a pool."""
    b = Builder((3, 8, 8))
    stem = b.activation(b.convolution("x", channels), "relu")
    value = b.activation(b.add(b.convolution(stem, channels), stem), "square")
    return b.graph(b.dense(b.flatten(b.average_pool(b.convolution(value, 2 * channels, stride=2))), 5))


def images(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3, 8, 8)) * 0.8


def compiled(small: Any, batch: int, share: int, monkeypatch: pytest.MonkeyPatch, channels: int = 4) -> NetworkModel:
    """Compiles for a number of samples that share ciphertexts."""
    with monkeypatch.context() as patch:
        patch.setattr(sets.Chooser, "_shares", lambda self, slots: [share])
        made = compile_graph(graph_of(channels), images(80), accuracy=0.2, parameters=small, batch=batch)
    assert (made.circuit.design.share, made.circuit.design.groups) == (share, -(-batch // share))
    return made


@pytest.fixture(scope="module")
def single(small: Any) -> NetworkModel:
    return compile_graph(graph_of(), images(80), accuracy=0.2, parameters=small)


@pytest.mark.parametrize(("batch", "share", "counts"), [(3, 1, (3, 2, 1)), (8, 2, (8, 5)), (8, 8, (8, 3)), (5, 4, (5, 1))])
def test_answers_equal_those_of_single_requests(
    small: Any, owner: Any, single: NetworkModel, monkeypatch: pytest.MonkeyPatch, batch: int, share: int, counts: Any
) -> None:
    model = compiled(small, batch, share, monkeypatch)
    server, x = hg.Server(model.keys(owner)), images(batch, 7)
    expected = single.simulate(x)
    for count in counts:
        request = model.encrypt(owner, x[:count])
        groups = -(-count // share)
        assert request.shape[:-1] == ((groups,) if batch > share else ())
        answer = model(server.bind(request))
        values = model.decrypt(owner, answer, like=x[:count])
        np.testing.assert_allclose(values, expected[:count], atol=2e-4)
        assert len(model.decrypt(owner, answer)) == min(batch, groups * share)
    np.testing.assert_allclose(model.run(owner, x[:2], server.keys), expected[:2], atol=2e-4)


def test_tensors_of_several_ciphertexts_in_groups(small: Any, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(small, 12, 4, monkeypatch, channels=8)  # 8 x 8 x 8 values take two ciphertexts of 4 samples
    assert model.circuit.design.most_ciphertexts == 2
    assert model.circuit.plan.bootstraps % 3 == 0
    x = images(9, 3)
    found = compare(model, owner, x)
    assert found.worst.from_polynomials < 1e-4
    keys = model.keys(owner)
    whole = model(hg.Server(keys).bind(model.encrypt(owner, x)))
    monkeypatch.setattr(program, "_PART_BYTES", 0)  # each group alone
    assert model.circuit.part == 1
    parts = model(hg.Server(keys).bind(model.encrypt(owner, x)))
    values = [model.decrypt(owner, one, like=x) for one in (whole, parts)]
    np.testing.assert_allclose(values[0], values[1], atol=2e-4)
    np.testing.assert_allclose(values[0], model.simulate(x), atol=2e-4)


def test_real_and_imaginary_parts(small: Any, owner: Any) -> None:
    z = np.random.default_rng(2).uniform(-1, 1, (3, 1024)) + 1j * np.random.default_rng(3).uniform(-1, 1, (3, 1024))
    x = owner.encrypt(z)
    parts = doubled_parts(hg.Server(owner.evaluation_keys(conjugate=True)).bind(x))
    assert parts.shape == (2, 3)
    assert parts.dtype == np.float64
    np.testing.assert_allclose(owner.decrypt(parts), [2 * z.real, 2 * z.imag], atol=1e-8)
    with pytest.raises(hg.MissingKeyError, match="conjugate=True"):
        doubled_parts(hg.Server(owner.evaluation_keys()).bind(x))
    values = np.zeros(1024)
    values[[5, 700]] = 3.0, -2.0
    declared = hg.Server(owner.evaluation_keys()).bind(owner.encrypt(values, bound=4)).within((-1, 1))
    guarded = declared.polynomial([0, 1, 1, 0, 1], "chebyshev")
    assert owner._core.outside_slots(guarded._core) == [5, 700]
    assert owner._core.outside_slots(x._core) == []
    with pytest.raises(hg.WrongKeyError):
        hg.SecretKey.generate(small)._core.outside_slots(guarded._core)


def test_guards_of_many_ciphertexts() -> None:
    """A set with little room has several guards of one argument, and each of them notices a value."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(n=2**11, depth=6, log_scale=30, bootstrap=True, insecure=True))
    values = np.zeros((70, 1024))
    values[66, 9] = 1.3
    x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt(values, bound=4, level=4)).within((-1, 1))
    y = x.polynomial([0.1] * 8, "chebyshev", guard=True)
    assert 1 < len(y.guards) <= 8
    with pytest.raises(hg.OutOfIntervalError):
        secret.decrypt(y)
    assert secret._core.outside_slots(y._core) == [9]
    values[66, 9] = 0.9
    z = hg.Server(secret.evaluation_keys()).bind(secret.encrypt(values, bound=4, level=4)).within((-1, 1))
    assert secret.decrypt(z.polynomial([0.1] * 8, "chebyshev", guard=True)).shape == values.shape


def test_constants_are_encoded_once_and_add_the_same_bits(single: NetworkModel, owner: Any) -> None:
    server = hg.Server(single.keys(owner))
    request = server.bind(single.encrypt(owner, images(1)))
    first = single(request)
    kept = dict(single.circuit._constants)
    assert len(kept) == 3
    again = single(request)
    assert {key: id(value) for key, value in kept.items()} == {k: id(v) for k, v in single.circuit._constants.items()}
    lean = replace(single.circuit, lean=True, _encoded={})
    other = lean(request)
    assert not lean._constants
    assert not lean._encoded
    assert [owner.decrypt(y, unguarded=True).tolist() for y in (again, other)] == [
        owner.decrypt(first, unguarded=True).tolist()
    ] * 2


def test_programs_replay_a_network(small: Any, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(small, 4, 2, monkeypatch)
    server, x = hg.Server(model.keys(owner)), images(4, 5)
    recorded = hg.program(model)
    requests = [server.bind(model.encrypt(owner, some)) for some in (x, x[::-1])]
    answers = [recorded(request) for request in requests]
    for request, answer in zip(requests, answers, strict=True):
        plain = model(request)
        assert owner.decrypt(answer).tolist() == owner.decrypt(plain).tolist()
        assert answer.guards == plain.guards != ()


def test_batched_replays_of_several_ciphertexts(small: Any, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay batches equal calls of the parts of a request, as a graph on a GPU does."""
    monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    monkeypatch.setattr(program, "_PART_BYTES", 1)  # parts of one group
    model = compiled(small, 8, 4, monkeypatch, channels=8)
    assert (model.circuit.design.most_ciphertexts, model.circuit.part) == (2, 1)
    server, x = hg.Server(model.keys(owner)), images(8, 5)
    recorded = hg.program(model)
    requests = [server.bind(model.encrypt(owner, some)) for some in (x, x[::-1])]
    answers = [recorded(request) for request in requests]
    for request, answer in zip(requests, answers, strict=True):
        assert owner.decrypt(answer).tolist() == owner.decrypt(model(request)).tolist()
    replayed = list(recorded._recorded.values())[-1].core
    assert replayed.graphs == 1
    assert replayed.launches < sum(replayed.calls.values())


@pytest.mark.parametrize(("batch", "share", "bad", "named"), [(8, 8, 3, "sample 3,"), (8, 4, 5, "one of the samples 1, 5,")])
def test_guards_name_the_samples(
    small: Any, owner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, batch: int, share: int, bad: int, named: str
) -> None:
    model = compiled(small, batch, share, monkeypatch)
    x = images(6, 9)
    x[bad] *= 3.8 / np.abs(x[bad]).max() * 3
    server = hg.Server(model.keys(owner))
    answer = model(server.bind(model.encrypt(owner, x, unchecked=True)))
    with pytest.raises(hg.OutOfIntervalError, match=f"/activation.*interval for .*{named} and all values"):
        model.decrypt(owner, answer, like=x)
    half = model.export(tmp_path / "net.hgm").client()
    with pytest.raises(hg.OutOfIntervalError, match=named):
        half.decrypt(owner, answer, like=x)
    assert model.decrypt(owner, answer, like=x, unchecked=True).shape == (6, 5)


def test_wrong_shapes_and_counts_are_refused(small: Any, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled(small, 4, 2, monkeypatch)
    server, x = hg.Server(model.keys(owner)), images(5, 2)
    with pytest.raises(hg.ShapeError, match="at most 4 samples, not 5"):
        model.encrypt(owner, x)
    for shape in ((1,), (3, 1), (2, 2), (1, 1, 1)):
        wrong = server.bind(owner.encrypt(np.zeros((*shape, 1024)), level=model.circuit.input_level))
        with pytest.raises(hg.ShapeError, match=r"shape \(1, 1\) to \(2, 1\) at level"):
            model(wrong)
    answer = model(server.bind(model.encrypt(owner, x[:2])))
    assert answer.shape == (1, 1)
    for count in (3, 4):
        with pytest.raises(hg.ShapeError, match="at most 2 samples"):
            model.decrypt(owner, answer, like=x[:count])
    whole = model(server.bind(model.encrypt(owner, x[:4])))
    with pytest.raises(hg.ShapeError, match="pass the samples of its request"):
        model.decrypt(owner, whole, like=x[:1])


def test_answers_of_another_batch_are_refused(
    small: Any, owner: Any, single: NetworkModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = compiled(small, 4, 4, monkeypatch)
    answer = other(hg.Server(other.keys(owner)).bind(other.encrypt(owner, images(1))))
    with pytest.raises(hg.MismatchError, match="model"):
        single.decrypt(owner, answer)


def test_bundles_of_groups(small: Any, owner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = compiled(small, 6, 2, monkeypatch)
    model.export(tmp_path / "net.hgm")
    read = hg.ModelBundle.load(tmp_path / "net.hgm")
    half = hg.ModelBundle.load(read.client().to_bytes())
    x, keys = images(6, 4), model.keys(owner)
    assert read.needs == model.needs == half.needs
    for count in (6, 3):
        answer = read.run(hg.Server(keys), half.encrypt(owner, x[:count]))
        np.testing.assert_allclose(half.decrypt(owner, answer, like=x[:count]), model.simulate(x[:count]), atol=2e-4)
    with pytest.raises(hg.ShapeError, match="at most 4 items"):
        half.decrypt(owner, answer, like=x)
    with pytest.raises(hg.ShapeError, match="or 1 to 6 of them"):
        half.encrypt(owner, images(7))


@pytest.mark.parametrize(
    ("field", "change", "error"),
    [
        ("input", {"share": 3}, "powers of two"),
        ("output", {"share": 1}, "one number of samples"),
        ("batch", 1, "at most those of a request"),
        ("batch", 0, "batch must be an integer from 1"),
        ("input", {"share": 1024, "period": 256}, "at most 32 ciphertexts"),
        ("input", {"batch": 2}, "exactly the fields"),
    ],
)
def test_changed_bundles_are_refused(
    small: Any, monkeypatch: pytest.MonkeyPatch, field: str, change: Any, error: str
) -> None:
    model = compiled(small, 6, 2, monkeypatch)
    form = CompiledForm.of(model)
    fields = form.described()
    value = fields[field] | change if isinstance(change, dict) else change
    with pytest.raises(hg.DamagedFileError, match=error):
        CompiledForm.read(fields | {field: value}, None, small)
    for share, batch in ((4, 6), (2, 5)):  # another share or batch than that of the client's fields
        read = circuit_of(form.arrays(), small, batch, share)
        assert (read.needs == model.needs) is (share == 2)
        assert read.design.share == share
    with pytest.raises(hg.DamagedFileError, match="64 ciphertexts, at most 32"):
        circuit_of(form.arrays(), small, 256, 256)


def test_a_service_answers_groups(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(300, 12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets.Chooser, "_shares", lambda self, slots: [2])
        model = compile_graph(perceptron(), x, accuracy=0.05, batch=4)
    assert model.needs["conjugate"]
    model.export(tmp_path / "perceptron.hgm")
    with hg.serving.local(tmp_path / "perceptron.hgm") as address:
        secret = hg.SecretKey.generate(model.parameters)
        client = hg.Client(address, model="perceptron", secret=secret)
        client.upload_keys(secret)
        for count in (4, 3):
            np.testing.assert_allclose(client.run(x[:count]), model.simulate(x[:count]), atol=1e-3)
    assert model.predict(x[:6], fhe="execute").tolist() == model.predict(x[:6]).tolist()


def test_the_forecast_chooses_shares() -> None:
    x = np.random.default_rng(1).normal(size=(200, 12))
    many = compile_graph(perceptron(), x, accuracy=0.1, batch=64, target="h200")
    one = compile_graph(perceptron(), x, accuracy=0.1, target="h200")
    assert many.circuit.design.share > 1
    assert many.report.seconds < 8 * one.report.seconds
    assert "64 in a request by" in str(many)
    profile = profile_of("h200")
    rows = tuple(replace(row, seconds=row.seconds * (100 if row.batch == 1 else 1)) for row in profile.rows)
    assert seconds_of(many.circuit, Profile("slow", profile.device, rows)) > seconds_of(many.circuit, profile)
    tiny = Profile("tiny", "a card, 0 GiB", profile.rows)
    assert seconds_of(many.circuit, tiny) > seconds_of(many.circuit, profile)  # the transforms of compact matrices
    assert Profile("none", "no memory named", (Row("rotation", 64, 1, 1, 1.0),)).memory is None
