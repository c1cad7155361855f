"""Model files of every included network and every kind of estimator. Another process that has only the file runs the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
from heliograph import ml, nn
from heliograph.cli import run

SERVER = """
import heliograph as hg
model, server = hg.ModelBundle.load("model.hgm"), hg.Server(hg.load("keys.hg"))
model.run(server, server.load("request.hg")).save("answer.hg")
"""


def served(folder: Path) -> None:
    """Computes the answer in another process that has only the files."""
    done = subprocess.run([sys.executable, "-c", SERVER], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        *("digits-batch", "mnist-packed", "mnist-small"),  # each class of networks, both word sizes, two moduli
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("digits", "digits/w32", "hcnn5", "hcnn5-paper", "hcnn5/w32")
        ),
    ],
)
def test_a_setup_is_served_from_its_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model file can be inspected. A client that has only its part of the file gets the scores of the unencrypted
    network. All sizes equal the stated sizes.

    """
    nn.setup(name).export(tmp_path / "model.hgm").client().save(tmp_path / "client.hgm")
    for file in ("model.hgm", "client.hgm"):
        assert run(["inspect", str(tmp_path / file)]) == 0
        assert "whole: digest" in capsys.readouterr().out
    half = hg.ModelBundle.load(tmp_path / "client.hgm")
    secret = hg.SecretKey.generate(half.parameters)
    half.keys(secret).save(tmp_path / "keys.hg")
    image = np.random.default_rng(1).integers(0, half.inputs[0].high + 1, half.inputs[0].shape)
    half.encrypt(secret, image).save(tmp_path / "request.hg")
    served(tmp_path)
    scores = half.decrypt(secret, hg.load(tmp_path / "answer.hg"), like=image)
    assert np.array_equal(scores, nn.setup(name).load().clear_logits([image])[0])
    for file, said in (("request.hg", half.input_bytes), ("keys.hg", half.key_bytes)):
        assert (tmp_path / file).stat().st_size == pytest.approx(said, rel=0.01)
    assert (tmp_path / "answer.hg").stat().st_size <= half.output_bytes * 1.01


def test_a_perceptron_is_served_from_its_file(tmp_path: Path) -> None:
    """Another process runs a perceptron from its file; the results are those of its polynomials in clear."""
    network = pytest.importorskip("sklearn.neural_network")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    fitted = network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=300, random_state=1).fit(x, x @ [1, 2, 3, 4])
    model = ml.compile(fitted, x)
    half = hg.ModelBundle.load(model.export(tmp_path / "model.hgm", samples=len(x)).client().to_bytes())
    secret = hg.SecretKey.generate(half.parameters)
    half.keys(secret).save(tmp_path / "keys.hg")
    half.encrypt(secret, x).save(tmp_path / "request.hg")
    served(tmp_path)
    values = half.decrypt(secret, hg.load(tmp_path / "answer.hg"), like=x)
    assert np.abs(values - model.clear(x)).max() < 1e-3
