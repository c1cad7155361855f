"""Recorded programs of every scheme can be exported as model files. Clients then need neither the function nor its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign

RNG = np.random.default_rng(4)


def asked(model: hg.ModelBundle, given: Any) -> Any:
    """Returns the client's result, which a server computed from the model file. All exchanged objects are serialized."""
    half = hg.ModelBundle.load(model.client().to_bytes())
    secret = hg.SecretKey.generate(half.parameters)
    server = hg.Server(hg.from_bytes(half.keys(secret).to_bytes()))
    request = half.encrypt(secret, given)
    sent = [t.to_bytes() for t in (request if isinstance(request, tuple) else (request,))]
    assert sum(map(len, sent)) == pytest.approx(half.input_bytes, rel=0.02)
    answer = hg.ModelBundle.load(model.to_bytes()).run(server, [server.from_bytes(b) for b in sent])
    back = [t.to_bytes() for t in (answer if isinstance(answer, tuple) else (answer,))]
    assert sum(map(len, back)) == pytest.approx(half.output_bytes, rel=0.02)
    received = tuple(hg.from_bytes(b) for b in back)
    return half.decrypt(secret, received if len(received) > 1 else received[0])


def ckks_model(path: Path) -> tuple[hg.ModelBundle, Any]:
    """Returns the model of a product of two operands that is rotated; its weights stay on the server."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=2, precision=25))
    server = hg.Server(secret.evaluation_keys(rotations=[1, -2], conjugate=True))
    weights = RNG.uniform(-1, 1, secret.parameters.slots)

    def score(x: Any, w: Any) -> Any:
        return hg.ckks.rotate(x * w, 1) * weights - hg.ckks.rotate(x, -2)

    values = np.zeros(secret.parameters.slots)
    x, w = (server.bind(secret.encrypt(values, bound=4)) for _ in range(2))
    program = hg.program(score, x, w)
    return program.export(path / "score.hgm", title="scores", name="score"), weights


def test_ckks(tmp_path: Path) -> None:
    model, weights = ckks_model(tmp_path)
    slots = model.inputs[0].shape[0]
    assert model.needs == {"relinearize": True, "rotations": [1, slots - 2]}
    assert [side.name for side in model.inputs] == ["x", "w"]
    assert (model.inputs[0].low, model.inputs[0].high) == (-4, 4)
    x, w = RNG.uniform(-4, 4, (2, *model.inputs[0].shape))
    expected = np.roll(x * w, -1) * weights - np.roll(x, 2)
    assert np.abs(asked(model, (x, w)) - expected).max() < 1e-4
    assert np.abs(asked(model, {"w": w, "x": x}) - expected).max() < 1e-4
    half = model.client()
    assert half.nbytes < model.nbytes / 10  # the part of the file for the client has no weights
    secret = hg.SecretKey.generate(half.parameters)
    for wrong, error in (
        ((x, w[:5]), hg.ShapeError),
        ((x,), hg.ShapeError),
        ({"x": x}, hg.ShapeError),
        (x, hg.DtypeError),
        ((x, w * 2), hg.PlaintextRangeError),
    ):
        with pytest.raises(error):
            half.encrypt(secret, wrong)
    server = hg.Server(secret.evaluation_keys(rotations=[1]))
    with pytest.raises(hg.MissingKeyError, match="rotations"):
        model.run(server, half.encrypt(secret, (x, w)))
    full = hg.Server(half.keys(secret))
    with pytest.raises(hg.ShapeError, match="a request must be"):
        model.run(full, half.encrypt(secret, (x, w))[0])
    with pytest.raises(hg.MismatchError):
        model.run(full, [full.bind(hg.ckks.lower(t, 1)) for t in half.encrypt(secret, (x, w))])
    with pytest.raises(hg.MissingKeyError, match="client's half"):
        half.run(full, half.encrypt(secret, (x, w)))


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_exact(scheme: str, tmp_path: Path) -> None:
    secret = hg.SecretKey.generate(getattr(hg, scheme).parameters(depth=1, plain_bits=20, slots=1024))
    server = hg.Server(secret.evaluation_keys(rotations=[1], columns=True))
    x = server.bind(secret.encrypt(np.zeros((3, 1024), dtype=int), pad=True))

    def both(x: Any) -> Any:
        return hg.rotate_columns(hg.relinearize(x[0] * x[1])), x * 3 + 1

    model = hg.program(both, x).export(tmp_path / "both.hgm")
    assert model.needs == {"relinearize": True, "columns": True}
    given = RNG.integers(-50, 50, model.inputs[0].shape)
    assert given.shape == (3, 1024)
    first, second = asked(model, given)
    assert np.array_equal(second[:, :1024], given * 3 + 1)
    expected = secret.decrypt(both(server.bind(secret.encrypt(given, pad=True)))[0])
    assert np.array_equal(first, expected)


def test_tfhe(tmp_path: Path) -> None:
    secret = hg.SecretKey.generate(hg.tfhe.parameters("boolean"))
    server = hg.Server(secret.evaluation_keys())
    x = server.bind(secret.encrypt(np.array([True, False])))
    model = hg.program(lambda x: x[0] ^ x[1], x).export(tmp_path / "differ.hgm")
    assert model.needs == {}
    assert not asked(model, np.array([True, True]))
    assert asked(model, np.array([False, True]))


def test_programs_that_cannot_be_models(tmp_path: Path) -> None:
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=2, precision=25))
    server = hg.Server(secret.evaluation_keys())
    x, y = (server.bind(secret.encrypt(np.zeros(secret.parameters.slots))) for _ in range(2))
    double = hg.program(lambda x: x + x)
    with pytest.raises(hg.RecordingError, match="nothing is recorded"):
        double.export(tmp_path / "m.hgm")
    double(x)
    double.save(tmp_path / "p.hgp")
    with pytest.raises(hg.RecordingError, match="from a file"):
        hg.Program.load(tmp_path / "p.hgp").export(tmp_path / "m.hgm")
    computed = hg.program(
        lambda x: x + x, x * y
    )  # the operand is noisier than a fresh encryption and at a lower level: clients may send a fresh ciphertext there
    assert computed.export(tmp_path / "m.hgm").inputs[0].shape == (secret.parameters.slots,)
    scaled = hg.program(lambda x: x + x, hg.ckks.multiply(x, 2.0, rescale=False))
    with pytest.raises(hg.ParameterError, match="freshly encrypted"):
        scaled.export(tmp_path / "n.hgm")
    none = server.bind(secret.encrypt(np.zeros((0, secret.parameters.slots))))
    with pytest.raises(hg.ParameterError, match="at least one ciphertext"):
        hg.program(lambda x: x + x, none).export(tmp_path / "n.hgm")
    other = hg.SecretKey.generate(secret.parameters)
    z = hg.Server(other.evaluation_keys()).bind(other.encrypt(np.zeros(secret.parameters.slots)))
    with pytest.raises(hg.ParameterError, match="the same key"):
        hg.program(lambda x, z: (x + x, z + z), x, z).export(tmp_path / "n.hgm")
    assert not (tmp_path / "n.hgm").exists()


def test_changed_files(tmp_path: Path) -> None:
    """A file that was changed and got a new digest is read or gives a typed error."""
    good = ckks_model(tmp_path)[0].to_bytes()
    assert resign.signed(resign.take_apart(good)) == good
    refused = 0
    for number in range(150):
        mutator = resign.Mutator(f"program:{number}")
        document = resign.take_apart(good)
        document.header["model"] = mutator.changed(document.header["model"])
        try:
            hg.ModelBundle.load(resign.signed(document, mutator.text)).explain()
        except hg.HeliographError:
            refused += 1
    assert refused > 60
