"""Forecasts of all schemes are calculated from counts of calls and measured rates, without running the computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.programs import forecast as forecasting
from tfhe_rig import party


@pytest.fixture(scope="module")
def exact() -> tuple[Any, Any]:
    """Returns a secret key and a ciphertext at its server."""
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20))
    return secret, hg.Server(secret.evaluation_keys()).bind(secret.encrypt([1, 2, 3], pad=True))


@pytest.fixture(autouse=True)
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a device that takes twice the predicted time. benchmarks/runners/forecasts.py compares forecasts with real times."""
    monkeypatch.setattr(forecasting, "_RATES", {})
    monkeypatch.setattr(forecasting, "measured", seconds_of)


def seconds_of(function: Any, *operands: Any) -> float:
    """Returns twice the engine's predicted time. For TFHE's bootstraps, which the engine does not predict, returns one
    millisecond per layer.

    """
    core, _ = forecasting.recorded(function, *operands)
    return 2 * core.times[1] or 1e-3 * core.calls.get("evaluate", 0)


def near(function: Any, *operands: Any) -> None:
    """Checks that a forecast is within a factor of two of the simulated device's time."""
    found = hg.forecast(function, *operands).seconds
    assert found is not None
    assert seconds_of(function, *operands) / 2 < found < 2 * seconds_of(function, *operands)


def test_exact_schemes(exact: tuple[Any, Any]) -> None:
    """Forecast seconds are within a factor of two; bytes and calls equal those of the recorded program."""
    x = exact[1]

    def function(x: Any) -> Any:
        return hg.relinearize(x * x) + x

    near(function, x)
    f = hg.forecast(function, x)
    core = hg.program(function, x)._calls[0]
    assert f.calls == core.calls == {"bfv_multiply": 1, "key_switch": 1, "add": 1}
    assert (f.nbytes, f.products, f.depth) == (core.peak_bytes, core.products, core.depth)
    assert (f.bytes_read, f.bytes_written) == (core.bytes_read, core.bytes_written)
    assert f.result_bytes == function(x).nbytes
    assert 0 < f.floor < f.seconds
    assert hg.forecast(hg.program(function), x).calls == f.calls


def test_a_forecast_does_no_work(exact: tuple[Any, Any]) -> None:
    """A forecast for 1,000 items takes no time or memory for these items, and predicts 1,000 times as many products."""
    x = exact[1]
    hg.forecast(lambda x: x * x, x)  # the first forecast measures the rates
    one = hg.forecast(lambda x: x * x, x)
    seen = []
    many = hg.forecast(lambda x: seen.append(x * x) or seen[0], x.broadcast_to((1_000,)))  # type: ignore[func-returns-value]
    with pytest.raises(hg.RecordingError, match=r"holds no data|nothing was computed|program"):
        exact[0].decrypt(seen[0])
    assert many.products == 1_000 * one.products
    assert many.seconds > 200 * one.seconds
    with pytest.raises(hg.OutOfMemoryError):
        hg.forecast(lambda x: x * x, x.broadcast_to((10_000_000,)))
    assert many.nbytes >= many.result_bytes == 1_000 * one.result_bytes


def test_ckks_and_tfhe() -> None:
    """CKKS and TFHE have their own rates. Functions may have several operands and results; a function that only makes views
    takes no time.

    """
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=2, precision=20))
    x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt([0.5], pad=True))
    near(lambda a: a * a + a, x)
    p = party()
    a, b = p.tensor(np.array([7, 9], dtype=np.uint8)), p.tensor(np.array([3, 4], dtype=np.uint8))
    near(lambda a, b: a * b, a, b)
    two = hg.forecast(lambda a, b: (a + b, {"less": a < b}), a, b)
    assert two.floor == 0 < two.seconds
    assert two.calls["evaluate"] >= 2
    assert hg.forecast(lambda a: a.reshape(2, 1), a).seconds == 0
    assert hg.forecast(lambda a: a.reshape(1), x.reshape(1)).seconds == 0


def test_without_keys_and_on_the_lowest_level() -> None:
    """Without keys or at the lowest level, the rate of products cannot be measured, but sums can still be forecast."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20))
    for x in (secret.encrypt([0.5], pad=True), secret.encrypt([0.5], pad=True, level=1)):
        assert hg.forecast(lambda a: a + a, x).seconds > 0
    with pytest.raises(hg.MissingKeyError):
        hg.forecast(lambda a: a * a, x)


def test_errors(exact: tuple[Any, Any], tmp_path: Path) -> None:
    """Errors of the function propagate, and unsupported functions raise typed errors. Recording ends after each error."""
    secret, x = exact

    def fails(x: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        hg.forecast(fails, x)
    with pytest.raises(hg.RecordingError):
        hg.forecast(lambda a: secret.decrypt(a), x)
    with pytest.raises(hg.DtypeError, match="tensors"):
        hg.forecast(lambda a: 3, x)
    with pytest.raises(hg.DtypeError, match="at least one ciphertext tensor"):
        hg.forecast(lambda: x)
    with pytest.raises(hg.DtypeError):
        hg.forecast(lambda a: a, 3)
    hg.program(lambda a: a + a, x).save(tmp_path / "p.hgp")
    with pytest.raises(hg.RecordingError, match="has no function"):
        hg.forecast(hg.Program.load(tmp_path / "p.hgp"), x)
    np.testing.assert_array_equal(secret.decrypt(x + x)[:3], [2, 4, 6])


def test_repr_and_report(exact: tuple[Any, Any]) -> None:
    """repr gives one line; notebooks show a table."""
    f = hg.forecast(lambda x: x + x, exact[1])
    assert repr(f).startswith("<forecast: about ")
    assert "1 add" in repr(f)
    assert "<th>memory</th>" in f._repr_html_()


def test_forecasts_follow_measured_rates(exact: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are measured: on a device that is twice as slow, a forecast has twice the seconds."""
    x = exact[1]
    measured = forecasting.measured
    monkeypatch.setattr(forecasting, "_RATES", {})
    before = hg.forecast(lambda x: hg.relinearize(x * x), x).seconds
    monkeypatch.setattr(forecasting, "_RATES", {})
    monkeypatch.setattr(forecasting, "measured", lambda *what: 3 * measured(*what))
    assert hg.forecast(lambda x: hg.relinearize(x * x), x).seconds > 1.3 * before


def test_a_server_refuses_computations_beyond_its_limits(exact: tuple[Any, Any]) -> None:
    """A server forecasts a computation before running it. If the forecast exceeds the server's limits, the computation is
    refused; others run.

    """
    secret, x = exact
    keys = x._keys

    def square(x: Any) -> Any:
        return hg.relinearize(x * x)

    told = hg.forecast(square, x)
    many = x.broadcast_to((200,))
    for costs, message in (
        (hg.Costs(result_bytes=told.result_bytes), "its results would take .* MiB; this server allows .* KiB"),
        (hg.Costs(nbytes=told.nbytes), "its memory would take"),
        (hg.Costs(seconds=told.seconds * 10), "it would take about .*; this server allows .* [mu]s"),
    ):
        server = hg.Server(keys, costs=costs)
        y = server.compute(square, server.bind(x))
        np.testing.assert_array_equal(secret.decrypt(y)[:3], [1, 4, 9])
        with pytest.raises(hg.LimitError, match=message):
            server.compute(square, many)
        np.testing.assert_array_equal(secret.decrypt(server.compute(hg.program(square), x))[:3], [1, 4, 9])
        np.testing.assert_array_equal(secret.decrypt(many[7])[:3], [1, 2, 3])
    assert hg.Server(keys).compute(square, many).shape == (200,)
    seen = []
    with pytest.raises(hg.LimitError):
        hg.Server(keys, costs=hg.Costs(seconds=0)).compute(lambda x: seen.append(x) or square(x), x)
    assert len(seen) == 1  # for the limit, the function is recorded and forecast but does not run


def test_invalid_costs(exact: tuple[Any, Any]) -> None:
    """Invalid limits raise typed errors. If limits are set, computations that cannot be forecast are refused."""
    for wrong in ({"seconds": "1"}, {"nbytes": 1.5}, {"result_bytes": True}):
        with pytest.raises(hg.DtypeError):
            hg.Costs(**wrong)
    for wrong in ({"seconds": -1.0}, {"seconds": float("nan")}, {"nbytes": -1}):
        with pytest.raises((hg.ParameterError, hg.DtypeError)):
            hg.Costs(**wrong)
    with pytest.raises(hg.DtypeError, match=r"hg\.Costs"):
        hg.Server(exact[1]._keys, costs=3)
    unknown = hg.forecast(lambda x: x + x, exact[1])
    with pytest.raises(hg.LimitError, match="this device"):
        hg.Costs(seconds=1.0).require(hg.Forecast(**(vars(unknown) | {"seconds": None})))
    hg.Costs(nbytes=1 << 40).require(hg.Forecast(**(vars(unknown) | {"seconds": None})))
