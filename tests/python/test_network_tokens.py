"""Networks of token numbers and masks: the client's operations, encrypted runs, bundles and a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import heliograph as hg
from heliograph.cli import run
from heliograph.ml import ModelError
from heliograph.ml.compiling import _by_arguments
from heliograph.ml.networks.preparation_files import fields_of_preparation, preparation_of
from heliograph.ml.networks.prepared import PreparedModel
from test_ml_partition import feeds, transformer
from test_ml_read_onnx import model, node, reference


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "encoder.onnx"
    onnx.save(transformer(), path)
    return path


@pytest.fixture(scope="module")
def encoder(file: Path) -> PreparedModel:
    small = hg.ckks.parameters(n=2**11, depth=13, log_scale=39, bootstrap=True, insecure=True)
    made = hg.ml.compile(file, calibrate=feeds(200), accuracy=0.05, classifies=False, parameters=small)
    assert isinstance(made, PreparedModel)
    return made


@pytest.fixture(scope="module")
def owner(encoder: PreparedModel) -> Any:
    return hg.SecretKey.generate(encoder.parameters)


def other_feeds(count: int) -> dict[str, np.ndarray]:
    return {name: values[::-1][:count] for name, values in feeds(40).items()}


def test_the_exact_network_is_the_files(encoder: PreparedModel, file: Path) -> None:
    x = other_feeds(5)
    proto = onnx.load(file)
    wanted = [reference(proto, {name: values[i : i + 1] for name, values in x.items()})[0] for i in range(5)]
    np.testing.assert_allclose(encoder.clear(x), np.concatenate(wanted).reshape(5, -1), atol=1e-5)
    assert encoder.report.loss.lost <= 0.05


def test_an_encrypted_run_equals_the_simulation(encoder: PreparedModel, owner: Any) -> None:
    x = other_feeds(2)
    np.testing.assert_allclose(encoder.run(owner, x), encoder.simulate(x), atol=2e-3)


def test_masked_tokens_do_not_count(encoder: PreparedModel) -> None:
    x = other_feeds(1)
    x["mask"][0] = [1, 1, 1, 0, 0, 0]
    changed = {"x": x["x"].copy(), "mask": x["mask"]}
    changed["x"][0, 3:] = (changed["x"][0, 3:] + 7) % 50
    np.testing.assert_allclose(encoder.clear(changed), encoder.clear(x), atol=1e-5)
    np.testing.assert_allclose(encoder.simulate(changed), encoder.simulate(x), atol=2e-2)


def test_bad_samples(encoder: PreparedModel) -> None:
    x = other_feeds(2)
    with pytest.raises(hg.DtypeError, match="dict of arrays of x, mask"):
        encoder.simulate(x["x"])
    with pytest.raises(hg.ShapeError, match="inputs must be x, mask"):
        encoder.simulate({"x": x["x"]})
    with pytest.raises(hg.ShapeError, match="input 'x' must have shape"):
        encoder.simulate({"x": x["x"][:, :5], "mask": x["mask"]})
    with pytest.raises(hg.DtypeError, match="int64"):
        encoder.simulate({"x": x["x"] + 0.5, "mask": x["mask"]})
    with pytest.raises(ModelError, match=r"words \(Gather\)"):
        encoder.simulate({"x": x["x"] + 50, "mask": x["mask"]})
    with pytest.raises(hg.HeliographError):
        encoder.simulate({"x": x["x"], "mask": x["mask"] * 0 + 2})


def test_samples_of_other_types_and_counts(encoder: PreparedModel, owner: Any) -> None:
    x = other_feeds(2)
    np.testing.assert_array_equal(encoder.clear(dict(reversed(x.items()))), encoder.clear(x))
    with pytest.raises(hg.ShapeError, match="at least one sample"):
        encoder.simulate({name: values[:0] for name, values in x.items()})
    with pytest.raises(hg.ShapeError):
        encoder.simulate({"x": [[1, 2], [3]], "mask": x["mask"]})
    with pytest.raises(hg.PlaintextRangeError, match="int64, got 18446744073709551615"):
        encoder.simulate({"x": np.full((2, 6), 2**64 - 1, np.uint64), "mask": x["mask"]})
    found = hg.ml.compare(encoder, owner, {name: values[:1] for name, values in x.items()})
    assert found.layers[-1].from_polynomials < 1e-3
    with pytest.raises(hg.DtypeError, match="compiled network"):
        hg.ml.compare("encoder", owner, x)  # type: ignore[arg-type]


def test_two_inputs_of_floats(owner: Any, tmp_path: Path) -> None:
    nodes = [node("Mul", "a b", "c"), node("Add", "c a", "y")]
    onnx.save(model(nodes, {"a": [1, 4], "b": [1, 4]}, ["y"], {}), tmp_path / "two.onnx")
    x = np.random.default_rng(0).normal(size=(30, 4))
    made = hg.ml.compile(tmp_path / "two.onnx", {"a": x, "b": x[::-1]}, classifies=False, parameters=owner.parameters)
    np.testing.assert_allclose(made.clear({"b": x[1:2], "a": x[:1]}), x[:1] * x[1:2] + x[:1], atol=1e-6)
    for wrong, kind in (
        ({"a": x}, hg.ShapeError),
        ({"a": x, "b": x, "c": x}, hg.ShapeError),
        ({"a": x, "b": x[:, :3]}, hg.ShapeError),
        ({"a": x, "b": x[:2]}, hg.ShapeError),
        ({"a": x, "b": x + 1j}, hg.DtypeError),
        ({"a": x, "b": x.astype(str)}, hg.DtypeError),
    ):
        with pytest.raises(kind, match="input"):
            made.clear(wrong)
    with pytest.raises(hg.DtypeError, match="margin"):
        hg.ml.compile(tmp_path / "two.onnx", {"a": x, "b": x}, margin="wide")


def test_a_dict_of_one_input_and_modules(tmp_path: Path) -> None:
    onnx.save(model([node("Tanh", "a", "y")], {"a": [1, 4]}, ["y"], {}), tmp_path / "one.onnx")
    x = np.random.default_rng(0).normal(size=(30, 4))
    assert hg.ml.compile(tmp_path / "one.onnx", {"a": x}, accuracy=0.1, classifies=False).clear(x).shape == (30, 4)
    with pytest.raises(hg.ShapeError, match="input a, got a dict of b"):
        hg.ml.compile(tmp_path / "one.onnx", {"b": x})

    class Module:
        def forward(self, ids: Any, mask: Any = None, scale: Any = None) -> None: ...

    assert list(_by_arguments(Module(), {"mask": 1, "ids": 2})) == ["ids", "mask"]
    assert list(_by_arguments(Module(), {"b": 1, "a": 2})) == ["b", "a"]


def test_a_bundle_and_its_clients_half(encoder: PreparedModel, owner: Any, tmp_path: Path) -> None:
    whole = encoder.export(tmp_path / "encoder.hgm")
    half = hg.ModelBundle.load(whole.client().to_bytes())
    assert not half.complete
    assert half.digest == whole.digest
    assert [spec.name for spec in half.inputs] == ["x", "mask"]
    x = other_feeds(1)
    answer = whole.run(hg.Server(half.keys(owner)), half.encrypt(owner, x))
    np.testing.assert_allclose(half.decrypt(owner, answer, like=x), encoder.simulate(x), atol=2e-3)
    with pytest.raises(hg.MissingKeyError, match="client's half"):
        half.run(hg.Server(half.keys(owner)), half.encrypt(owner, x))


@pytest.mark.parametrize("value", [[], {}, None, "float8"])
def test_changed_types_of_a_bundle_are_refused(encoder: PreparedModel, value: Any) -> None:
    fields, arrays = fields_of_preparation(encoder.preparation)
    fields["inputs"][0]["dtype"] = value
    with pytest.raises(hg.DamagedFileError, match="known type"):
        preparation_of(fields, arrays)


def test_one_sample_without_an_axis(encoder: PreparedModel, owner: Any, tmp_path: Path) -> None:
    x = other_feeds(1)
    alone = {name: values[0] for name, values in x.items()}
    np.testing.assert_array_equal(encoder.simulate(alone), encoder.simulate(x))
    bundle = encoder.export(tmp_path / "encoder.hgm")
    answer = bundle.run(hg.Server(bundle.keys(owner)), bundle.encrypt(owner, alone))
    assert bundle.decrypt(owner, answer, like=alone).shape == encoder.simulate(x)[0].shape
    with pytest.raises(hg.ShapeError, match="input 'mask'"):
        encoder.simulate({"x": x["x"], "mask": x["mask"][0]})


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", **feeds(60))
    data = ["--calibrate", str(tmp_path / "x.npz")]
    assert run(["compile", str(file), *data, "--accuracy", "0.9", "--out", str(tmp_path / "e.hgm")]) == 0
    assert "by the client in the clear: sum (6, 8), bias (1, 6)" in capsys.readouterr().out
    assert run(["compile", "model.json", *data, "--out", str(tmp_path / "f.hgm")]) != 0
    assert "one array, not an archive" in " ".join(capsys.readouterr().err.split())
