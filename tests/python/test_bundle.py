"""Model files: the loaded model equals the model that was written, and malicious files are refused."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
import resign
import resign_uses
from heliograph import ml, nn
from heliograph.cli import run as command

SETS = ("digits", "digits-batch", "mnist-small")


def data(name: str, path: Path) -> bytes:
    """Returns the bytes of a model's file."""
    found: bytes = nn.setup(name).export(path / "m.hgm").to_bytes()
    return found


@pytest.mark.parametrize("name", SETS)
def test_a_model_runs_from_its_file(name: str, tmp_path: Path) -> None:
    """A client without the weights runs a model from the bytes of its file. The client needs exactly the keys that the file
    lists.
    """
    whole = hg.ModelBundle.load(data(name, tmp_path))
    half = hg.ModelBundle.load(whole.client().to_bytes())
    network = nn.setup(name).load()
    assert half.digest == whole.digest
    assert not half._container.arrays
    secret = hg.SecretKey.generate(half.parameters)
    keys = half.keys(secret)
    assert len(keys.to_bytes()) == pytest.approx(half.key_bytes, rel=0.01)
    image = np.random.default_rng(1).integers(0, whole.inputs[0].high + 1, whole.inputs[0].shape)
    request = half.encrypt(secret, image).to_bytes()
    assert len(request) <= half.input_bytes * 1.01
    server = hg.Server(hg.from_bytes(keys.to_bytes()))
    answer = whole.run(server, server.from_bytes(request)).to_bytes()
    scores = half.decrypt(secret, hg.from_bytes(answer), like=image)
    assert np.array_equal(scores, network.clear_logits([image])[0])
    with pytest.raises(hg.MissingKeyError, match="client's half"):
        half.run(server, server.from_bytes(request))
    with pytest.raises(hg.PlaintextRangeError):
        half.encrypt(secret, image + 300)
    with pytest.raises(hg.ShapeError):
        half.encrypt(secret, image[:3])
    if whole.needs.get("rotations"):
        with pytest.raises(hg.MissingKeyError, match="rotations"):
            whole.run(hg.Server(secret.evaluation_keys()), secret.encrypt([0], pad=True))


def test_damaged_model_files_are_refused(tmp_path: Path) -> None:
    """Flipped bits, other lengths, other kinds and later formats are refused."""
    good = data("digits", tmp_path)
    for place in [*range(0, 1400, 7), *range(1400, len(good), 97)]:
        bad = bytearray(good)
        bad[place] ^= 1
        with pytest.raises(hg.FormatError):
            hg.ModelBundle.load(bytes(bad))
    for length in (0, 7, 31, 32, 500, len(good) - 1):
        with pytest.raises(hg.FormatError):
            hg.ModelBundle.load(good[:length])
    with pytest.raises(hg.FormatError, match=r"ModelBundle\.load"):
        hg.load(tmp_path / "m.hgm")
    later = resign.take_apart(good)
    later.header["format"] = 4
    with pytest.raises(hg.VersionError, match="format 4"):
        hg.ModelBundle.load(resign.signed(later))


@pytest.mark.parametrize("name", SETS)
def test_changed_models(name: str, tmp_path: Path) -> None:
    """A file that was changed and got a new digest is read or gives a typed error; a loaded model describes itself."""
    good = data(name, tmp_path)
    assert resign.signed(resign.take_apart(good)) == good
    read = refused = 0
    for number in range(250):
        mutator = resign.Mutator(f"bundle:{name}:{number}")
        document = resign.take_apart(good)
        how = random.Random(number).randrange(3)
        if how == 0:
            document.header = mutator.changed(document.header)
        elif how == 1:
            document.header["model"] = mutator.changed(document.header["model"])
        else:
            mutator._arrays(document)
        try:
            hg.ModelBundle.load(resign.signed(document, mutator.text)).explain()
            read += 1
        except hg.HeliographError:
            refused += 1
    assert refused > 100


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes a model file; inspect describes it and detects damage."""
    path = tmp_path / "digits.hgm"
    assert command(["export", str(path)]) == 0
    assert command(["export", str(path)]) == 1  # the file exists already, so the command refuses
    assert command(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "network.packed" in said
    assert "whole: digest" in said
    assert hg.ModelBundle.load(path).inputs[0].shape == (28, 28)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert command(["inspect", str(path)]) == 1
    assert "DAMAGED" in capsys.readouterr().out


def test_estimators(tmp_path: Path) -> None:
    """Bundles of estimators give the same results as in clear. The estimators: one output, several outputs, a regressor, and
    an estimator with a polynomial.
    """
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (60, 4))
    square = ml.Activation("square", -2.0, 2.0, (0.5, 0.0, 0.5), 0.0, 0.0)
    one, three = ml.Dense(rng.normal(size=(1, 4)), rng.normal(size=1)), ml.Dense(rng.normal(size=(3, 4)), rng.normal(size=3))
    # Arguments of the activation are within [-1, 1].
    hidden = ml.Dense(rng.normal(size=(4, 4)) / 8, rng.normal(size=4) / 8, square)
    names, known = np.array(["no", "yes"]), ml.Ranges((-1.0,) * 4, (1.0,) * 4, 16.0, 0.0)
    for number, estimator in enumerate(
        (
            ml.EstimatorModel("one", (one,), names, True, 8.0, ranges=known),
            ml.EstimatorModel("three", (three,), np.array([5, 6, 7]), False, 8.0, ranges=known),
            ml.EstimatorModel("line", (one,), None, False, 8.0, ranges=known),
            ml.EstimatorModel("net", (hidden, one), names, False, 8.0, ranges=known),
        )
    ):
        model = estimator.export(tmp_path / f"{number}.hgm", samples=len(x), name="risk")
        half, whole = (hg.ModelBundle.load(m.to_bytes()) for m in (model.client(), model))
        assert half.nbytes < whole.nbytes
        secret = hg.SecretKey.generate(half.parameters)
        server = hg.Server(hg.from_bytes(half.keys(secret).to_bytes()))
        answer = whole.run(server, server.from_bytes(half.encrypt(secret, x).to_bytes()))
        values = half.decrypt(secret, hg.from_bytes(answer.to_bytes()), like=x)
        assert np.abs(values - estimator.clear(x)).max() < 1e-4
        found, expected = half.predict(values), estimator.predictions(estimator.clear(x))
        if half.labels:
            assert half.labels == tuple(map(str, estimator.classes.tolist()))
            assert np.array_equal(found, expected)
            assert found.dtype == expected.dtype
        else:
            assert np.abs(found - expected).max() < 1e-4
        alone = half.decrypt(secret, whole.run(server, half.encrypt(secret, x[0])), like=x[0])
        assert np.abs(alone - values[0]).max() < 1e-4
        with pytest.raises(hg.ShapeError):
            half.encrypt(secret, x[:, :3])
        with pytest.raises(hg.ParameterError, match="multiplications"):
            estimator.export(tmp_path / "n.hgm", parameters=hg.ckks.parameters(depth=0, precision=20))
    assert resign_uses.refused_models(whole.to_bytes(), "estimator", 120) > 60
