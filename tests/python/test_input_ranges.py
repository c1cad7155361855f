"""Models have input ranges: a client refuses samples outside the calibrated ranges before it encrypts or sends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign
import serving_rig as rig
from heliograph import ml, nn

pytest.importorskip("sklearn")
from sklearn.datasets import load_diabetes, make_classification
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = (part[:1000] for part in make_classification(3000, 10, n_informative=6, random_state=1))
ESTIMATOR = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=200, random_state=1)).fit(X, Y)
PEOPLE, ILLNESS = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def model() -> ml.EstimatorModel:
    """Returns a perceptron with 10 features and one hidden layer."""
    return ml.compile(ESTIMATOR, X)


@pytest.fixture(scope="module")
def secret(model: ml.EstimatorModel) -> hg.ckks.SecretKey:
    return hg.SecretKey.generate(model.parameters(samples=1000))


@pytest.fixture(scope="module")
def file(model: ml.EstimatorModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the model's file."""
    path = tmp_path_factory.mktemp("ranges") / "risk.hgm"
    model.export(path, samples=1000)
    return path


def outlier(factor: float) -> Any:
    """Returns the samples, with row 17 scaled by a factor."""
    samples = X.copy()
    samples[17] *= factor
    return samples


def arguments(samples: Any) -> Any:
    """Returns the arguments [count, units] of the hidden units' activation, computed from the coefficients of scikit-learn."""
    scaler, perceptron = ESTIMATOR[0], ESTIMATOR[-1]
    return (samples - scaler.mean_) / scaler.scale_ @ perceptron.coefs_[0] + perceptron.intercepts_[0]


# Models with their weights


def test_an_outlier_is_refused(model: ml.EstimatorModel, secret: hg.ckks.SecretKey) -> None:
    """If row 17 is multiplied by 1 or 3, the result is correct. If it is multiplied by 5 or 10, an error names the row,
    layer and interval.

    """
    server = hg.Server(secret.evaluation_keys())
    for factor in (1, 3):
        samples = outlier(factor)
        values = model.decrypt(secret, model(server.bind(model.encrypt(secret, samples))))[:1000]
        assert np.abs(values - model.clear(samples)).max() < 1e-3
        assert np.array_equal(model.predictions(values)[[17]], ESTIMATOR.predict(samples)[[17]])
    for factor in (5, 10):
        with pytest.raises(
            hg.PlaintextRangeError, match=r"row 17: .* relu in layer 1, unit \d+, is .* outside .* unchecked=True"
        ):
            model.encrypt(secret, outlier(factor))
    with pytest.raises(hg.PlaintextRangeError, match=r"row 17: .* layer 1"):
        model.encrypt(secret, outlier(1e307))
    open_ = model(server.bind(model.encrypt(secret, outlier(10), unchecked=True)))
    with pytest.raises(hg.OutOfIntervalError, match="an argument of the activation relu is outside its interval"):
        secret.decrypt(open_)
    with pytest.raises(hg.RoomError, match="outside of the bounds that were declared"):
        secret.decrypt(open_, unguarded=True)
    open_ = secret.decrypt(open_, unchecked=True)
    assert open_[0, 17] > 1e4
    samples = outlier(10)
    samples[900] *= -10
    with pytest.raises(hg.PlaintextRangeError, match=r"row 17: .*\(2 such rows\)"):
        model.encrypt(secret, samples)


def test_samples_are_refused_exactly_outside_the_intervals(model: ml.EstimatorModel, secret: hg.ckks.SecretKey) -> None:
    """A sample is refused exactly if an argument of an activation is outside its interval. Accepted samples have small
    errors.

    """
    (activation,) = model.report.activations
    rng = np.random.default_rng(3)
    refused = kept = 0
    for row in rng.permutation(1000)[:60]:
        for factor in (1.0, 2.0, 3.0, 5.0):
            sample = X[row : row + 1] * factor
            z = arguments(sample)
            inside = bool((activation.low <= z).all() and (z <= activation.high).all())
            try:
                model._require_inside(sample.T, secret.parameters)
            except hg.PlaintextRangeError:
                refused += 1
                assert not inside
            else:
                kept += 1
                assert inside
    assert refused > 20
    assert kept > 100


def test_bounds_of_requests_do_not_depend_on_the_sample(model: ml.EstimatorModel, secret: hg.ckks.SecretKey) -> None:
    """The server sees the bound of a request. For any sample it is the bound of the model; the bound of a result is the
    model's room.

    """
    assert model.ranges is not None
    requests = [model.encrypt(secret, X[row : row + 1]) for row in (0, 17)]
    for request in requests:
        # files store bounds in steps of 1/16 bit
        assert 1 <= request._core.public_bound / model.ranges.bound < 2 ** (1 / 16)
    result = model(hg.Server(secret.evaluation_keys()).bind(requests[0]))
    assert result._core.public_bound <= model.ranges.reach * 2 ** (1 / 16)


def test_linear_models() -> None:
    """For linear models, results are proven for all samples within the ranges. A sample beyond twice the range is refused."""
    linear = ml.compile(LinearRegression().fit(PEOPLE, ILLNESS), PEOPLE)
    assert linear.ranges is not None
    assert linear.ranges.proven == 1
    low, high = np.array(linear.ranges.low), np.array(linear.ranges.high)
    assert (low <= PEOPLE.min(0)).all()
    assert (high >= PEOPLE.max(0)).all()
    secret = hg.SecretKey.generate(linear.parameters(samples=2))
    server = hg.Server(secret.evaluation_keys())
    signs = linear.layers[0].weight[0] > 0
    # the samples with the largest and the smallest result
    corners = np.stack([np.where(signs, high, low), np.where(signs, low, high)])
    values = secret.decrypt(linear(server.bind(linear.encrypt(secret, corners))))
    assert np.abs(values - linear.clear(corners).T).max() < 1e-2
    with pytest.raises(hg.PlaintextRangeError, match=r"row 1: feature 3 is .* outside"):
        linear.encrypt(secret, np.stack([PEOPLE[0], np.where(np.arange(10) == 3, 2.1 * np.abs(high).max(), PEOPLE[0])]))


@pytest.mark.parametrize("hidden", [(6,), (6, 4)])
def test_proven_intervals(hidden: tuple[int, ...], tmp_path: Path) -> None:
    """With intervals="proven", no sample within the ranges leaves an interval, so clients can check samples without the
    weights."""
    estimator = make_pipeline(StandardScaler(), MLPClassifier(hidden, activation="tanh", max_iter=100, random_state=1)).fit(
        X, Y
    )
    wide, usual = (ml.compile(estimator, X, degree=9, intervals=how) for how in ("proven", "calibrated"))
    assert wide.ranges is not None
    assert usual.ranges is not None
    assert wide.ranges.proven == 1
    assert usual.ranges.proven < 1
    rng = np.random.default_rng(1)
    low, high = np.array(wide.ranges.low), np.array(wide.ranges.high)
    samples = np.where(rng.random((1000, 10)) < 0.5, low, high)
    samples[:500] = rng.uniform(low, high, (500, 10))
    secret = hg.SecretKey.generate(wide.parameters(samples=1000))
    wide.encrypt(secret, samples)
    with pytest.raises(hg.PlaintextRangeError, match="layer 1"):
        usual.encrypt(secret, samples)
    share = usual.ranges.proven
    usual.encrypt(secret, low / 2 + high / 2 + share * (samples - low / 2 - high / 2))
    half = wide.export(tmp_path / "m.hgm", samples=1000).client()
    assert "all results inside are proven" in half.explain()
    half.encrypt(hg.SecretKey.generate(half.parameters), samples)
    with pytest.raises(hg.ParameterError, match="intervals must be calibrated or proven"):
        ml.compile(estimator, X, intervals="exact")


# Model files


def test_the_clients_part_of_a_model_checks_ranges(file: Path, model: ml.EstimatorModel) -> None:
    """The client's part of a model file has the ranges of the features and refuses samples outside them. The complete model
    also evaluates its layers.

    """
    whole = hg.ModelBundle.load(file)
    half = hg.ModelBundle.load(whole.client().to_bytes())
    assert model.ranges is not None
    for bundle in (whole, half):
        (side,) = bundle.inputs
        assert side.ranges == tuple(zip(model.ranges.low, model.ranges.high, strict=True))
        assert (side.low, side.high) == (min(model.ranges.low), max(model.ranges.high))
        assert "each in its calibrated range" in bundle.explain()
    secret = hg.SecretKey.generate(half.parameters)
    server = hg.Server(half.keys(secret))
    values = half.decrypt(secret, whole.run(server, half.encrypt(secret, X)), like=X)
    assert np.abs(values - model.clear(X)).max() < 1e-3
    for factor in (3, 5, 10):
        with pytest.raises(hg.PlaintextRangeError, match=r"row 17: feature \d is .* outside its calibrated range"):
            half.encrypt(secret, outlier(factor))
    with pytest.raises(hg.PlaintextRangeError, match="row 0: feature"):
        half.encrypt(secret, X[17] * 10)
    with pytest.raises(hg.PlaintextRangeError, match="layer 1"):
        whole.encrypt(secret, outlier(5))
    answer = whole.run(server, half.encrypt(secret, outlier(10), unchecked=True))
    with pytest.raises(hg.OutOfIntervalError, match=r"activation relu .*all results of this request may be wrong"):
        half.decrypt(secret, answer)
    assert half.decrypt(secret, answer, unchecked=True)[17] > 1e4


def test_model_files_of_the_first_format_have_no_ranges(file: Path) -> None:
    """Files of the first format have no ranges. Their client's part refuses no sample, and the complete model checks its
    intervals.

    """
    document = resign.take_apart(file.read_bytes())
    said = document.header["model"]
    document.header["model"] = {"classifies": True, "layers": said["layers"], "name": said["name"], "ranges": said["ranges"]}
    document.header["format"] = 2
    second = hg.ModelBundle.load(resign.signed(document))
    assert second.inputs[0].ranges
    del document.header["model"]["ranges"]
    with pytest.raises(hg.DamagedFileError, match="not of format"):
        hg.ModelBundle.load(resign.signed(document))
    document.header["format"] = 1
    whole = hg.ModelBundle.load(resign.signed(document))
    half = whole.client()
    assert whole.inputs[0].low is None
    assert whole.inputs[0].ranges == ()
    secret = hg.SecretKey.generate(half.parameters)
    server = hg.Server(half.keys(secret))
    values = half.decrypt(secret, whole.run(server, half.encrypt(secret, X)), like=X)
    assert np.abs(values - hg.ModelBundle.load(file)._form.model.clear(X)).max() < 1e-3  # type: ignore[attr-defined]
    for former in (whole, second):  # in those formats, class labels are texts
        assert np.array_equal(former.predict(values).astype(int), hg.ModelBundle.load(file).predict(values))
        with pytest.raises(hg.DtypeError, match=r"format [12] does not say how .* export the model again"):
            former.predict_proba(values)
    half.encrypt(secret, outlier(10))
    with pytest.raises(hg.PlaintextRangeError, match="layer 1"):
        whole.encrypt(secret, outlier(10))


@pytest.mark.parametrize("part", ["whole", "half"])
def test_invalid_ranges_are_refused(file: Path, part: str) -> None:
    """A file is refused as damaged if its ranges are NaN, infinite, reversed, of wrong length, not numbers, or beyond the
    reach.

    """
    whole = hg.ModelBundle.load(file)
    good = whole.to_bytes() if part == "whole" else whole.client().to_bytes()
    low = resign.take_apart(good).header["model"]["ranges"]["low"]
    high = resign.take_apart(good).header["model"]["ranges"]["high"]
    lies: list[dict[str, Any]] = [
        {"low": ["nan", *low[1:]]},
        {"low": ["-inf", *low[1:]]},
        {"high": [*high[:-1], "1e999"]},
        {"low": high, "high": low},
        {"low": low[1:]},
        {"low": low[1:], "high": high[1:]},
        {"low": [*low, low[0]], "high": [*high, high[0]]},
        {"low": low[0]},
        {"low": [0, *low[1:]]},
        {"low": ["-1.5", *low[1:]]},  # the number -1.5 in another notation than the file's
        {"high": [*high[:-1], (2.0**60).hex()]},
        {"reach": "nan"},
        {"reach": (0.0).hex()},
        {"reach": (-1.0).hex()},
        {"reach": (1e300).hex()},  # a range beyond the room of the parameters
        {"proven": (1.5).hex()},
        {"proven": (-0.5).hex()},
        {"proven": True},
        {"more": []},
    ]
    for lie in lies:
        document = resign.take_apart(good)
        document.header["model"]["ranges"] |= lie
        with pytest.raises(hg.DamagedFileError):
            hg.ModelBundle.load(resign.signed(document))
    for wrong in ([], "ranges", {}):
        document = resign.take_apart(good)
        document.header["model"]["ranges"] = wrong
        with pytest.raises(hg.DamagedFileError):
            hg.ModelBundle.load(resign.signed(document))


def test_a_set_that_cannot_hold_the_results_is_refused(model: ml.EstimatorModel, tmp_path: Path) -> None:
    """A set that cannot hold the results is refused when the file is written."""
    small = hg.ckks.parameters(n=2**14, levels=6, log_scale=40, base_bits=44, special=1)
    with pytest.raises(hg.ParameterError, match="has room for"):
        model.export(tmp_path / "m.hgm", parameters=small)


def test_very_many_features(tmp_path: Path) -> None:
    """If there are too many features for the header, they share one range."""
    rng = np.random.default_rng(0)
    samples = rng.uniform(-1, 1, (3, (1 << 14) + 1))
    samples[0, 5] = 3
    wide = ml.compile(LinearRegression().fit(samples, [1, 2, 3]), samples)
    half = wide.export(tmp_path / "wide.hgm", samples=4).client()
    assert set(half.inputs[0].ranges) == {(half.inputs[0].low, half.inputs[0].high)}
    assert half.inputs[0].high >= 3


# Invalid values


@pytest.mark.parametrize("part", ["model", "whole", "half"])
def test_invalid_values(part: str, model: ml.EstimatorModel, file: Path) -> None:
    """NaN, infinity, masked values, texts and complex numbers are refused, even with unchecked=True."""
    whole = hg.ModelBundle.load(file)
    encrypt: Any = {"model": model, "whole": whole, "half": whole.client()}[part].encrypt
    secret = hg.SecretKey.generate(whole.parameters)
    for value in (np.nan, np.inf, -np.inf):
        samples = X[:3].copy()
        samples[1, 2] = value
        with pytest.raises(hg.PlaintextRangeError, match="no number"):
            encrypt(secret, samples, unchecked=True)
    masked = np.ma.array(X[:3], mask=np.arange(30).reshape(3, 10) == 4)
    for samples in (masked, masked.astype(np.float32)):
        with pytest.raises(hg.DtypeError, match="masked"):
            encrypt(secret, samples, unchecked=True)
    encrypt(secret, np.ma.array(X[:3], mask=False))  # a masked array in which no value is masked is accepted
    for samples in (X[:3].astype(str), X[:3] * 1j, [[None] * 10]):
        with pytest.raises(hg.DtypeError):
            encrypt(secret, samples, unchecked=True)
    with pytest.raises(hg.DtypeError, match="unchecked"):
        encrypt(secret, X[:3], unchecked="yes")


@pytest.mark.parametrize("name", ["digits", "digits-batch", "mnist-small"])
def test_invalid_pixels_are_refused(name: str, tmp_path: Path) -> None:
    """Pixels must be integers from 0 to the largest pixel value; if not, the error names the row."""
    whole = nn.setup(name).export(tmp_path / "m.hgm")
    half, network, (side,) = whole.client(), nn.setup(name).load(), whole.inputs
    secret = hg.SecretKey.generate(half.parameters)
    top, count = network.top, min(2, side.items)
    good = np.full((count, *side.shape), top)
    half.encrypt(secret, good)
    for value in (-1, top + 1, 2**40):
        bad = good.copy()
        bad[-1, 0, 0] = value
        with pytest.raises(hg.PlaintextRangeError, match=f"row {count - 1}: pixels must be integers from 0 to {top}"):
            half.encrypt(secret, bad)
        with pytest.raises(hg.PlaintextRangeError, match=f"row {count - 1}: pixels"):
            network.clear_logits(bad)
    bad[-1, 0, 0] = top + 1
    half.encrypt(secret, bad, unchecked=True)
    assert np.array_equal(network.quantize(good.astype(float)), network.quantize(good))
    for value in (0.5, np.nan, np.inf, 1e30):
        with pytest.raises(hg.PlaintextRangeError, match="pixels must be integers"):
            network.quantize(np.full((1, *side.shape), value))
    with pytest.raises(hg.DtypeError, match="masked"):
        half.encrypt(secret, np.ma.array(good, mask=good == top))
    with pytest.raises(hg.DtypeError, match="integers"):
        half.encrypt(secret, good / top)


def test_ranges_of_recorded_programs(tmp_path: Path) -> None:
    """The input ranges of a recorded program are the bounds of its recorded operands. The input ranges are at most those of
    the parameter set, which unchecked=True cannot exceed.

    """
    owner = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=25))
    server = hg.Server(owner.evaluation_keys())
    slots = owner.parameters.slots
    x, y = (server.bind(owner.encrypt(np.zeros(slots), bound=bound)) for bound in (4, None))
    whole = hg.program(lambda price, count: price * count, x, y).export(tmp_path / "sum.hgm")
    half = whole.client()
    assert next((side.name, side.low, side.high) for side in half.inputs) == ("price", -4, 4)
    room = half.inputs[1].high
    assert room is not None
    assert room >= 1000
    secret = hg.SecretKey.generate(half.parameters)
    price, count = np.full(slots, 3.5), np.full(slots, 7.0)
    answer = whole.run(hg.Server(half.keys(secret)), half.encrypt(secret, (price, count)))
    assert np.abs(half.decrypt(secret, answer) - 24.5).max() < 1e-3
    wrong = price.copy()
    wrong[9] = -4.5
    for unchecked in (False, True):
        with pytest.raises(hg.PlaintextRangeError, match=r"operand price: the value -4.5 at \(9,\) is outside \[-4, 4\]"):
            half.encrypt(secret, {"price": wrong, "count": count}, unchecked=unchecked)
    with pytest.raises(hg.PlaintextRangeError, match="operand count: the value"):
        half.encrypt(secret, (price, count * room))
    for values, error in (
        (price * np.nan, hg.PlaintextRangeError),
        (price * 1j, hg.DtypeError),
        (price.astype(str), hg.DtypeError),
    ):
        with pytest.raises(error, match="operand price"):
            half.encrypt(secret, (values, count))
    with pytest.raises(hg.DtypeError, match="masked"):
        half.encrypt(secret, {"price": np.ma.array(price, mask=price > 3), "count": count})


def test_programs_of_integers(tmp_path: Path) -> None:
    """Integers beyond a dtype or a plaintext modulus raise an error that names the operand."""
    owner = hg.SecretKey.generate(hg.tfhe.parameters("boolean"))
    server = hg.Server(owner.evaluation_keys())
    model = hg.program(lambda a, b: a ^ b, *(server.bind(owner.encrypt([3], "uint4")) for _ in range(2))).export(
        tmp_path / "x.hgm"
    )
    secret = hg.SecretKey.generate(model.parameters)
    for value in (16, -1):
        with pytest.raises(hg.PlaintextRangeError, match=r"operand b: .*uint4 is 0 to 15"):
            model.client().encrypt(secret, ([15], [value]))


# A service


def test_a_refused_sample_causes_no_request(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of a service refuses a sample outside the ranges and sends no request; with unchecked=True it sends the
    request.

    """
    for module in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(module)
    with rig.running(file, "--store", tmp_path / "store") as service:
        client = hg.Client(f"http://127.0.0.1:{service.ports['http']}", model="risk")
        client.upload_keys(hg.SecretKey.generate(client.model.parameters))
        values = client.run(X)
        assert np.array_equal(client.model.predict(values).astype(int), ESTIMATOR.predict(X)) or np.abs(values).max() < 1e3
        with monkeypatch.context() as patch:
            patch.setattr(client, "_job", lambda *_: pytest.fail("the client sent a job"))
            for factor in (3, 5, 10):
                with pytest.raises(hg.PlaintextRangeError, match="row 17: feature"):
                    client.run(outlier(factor))
        assert client.run(outlier(10), unchecked=True)[17] > 1e4
        client.close()
        assert "row 17" not in json.dumps(service.lines)
