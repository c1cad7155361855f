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
from heliograph.ml.networks.prepared import PreparedModel
from test_ml_partition import feeds, transformer
from test_ml_read_onnx import reference


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


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", **feeds(60))
    data = ["--calibrate", str(tmp_path / "x.npz")]
    assert run(["compile", str(file), *data, "--accuracy", "0.9", "--out", str(tmp_path / "e.hgm")]) == 0
    assert "by the client in the clear: sum (6, 8), bias (1, 6)" in capsys.readouterr().out
    assert run(["compile", "model.json", *data, "--out", str(tmp_path / "f.hgm")]) != 0
    assert "one array, not an archive" in " ".join(capsys.readouterr().err.split())
