"""Tests log records and the number of threads."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from alike import in_threads
from heliograph._common import process


@pytest.fixture(scope="module")
def exact() -> tuple[Any, Any]:
    """Returns a secret key and evaluation keys."""
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16))
    return secret, secret.evaluation_keys(rotations=[1])


def test_log_records(exact: tuple[Any, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has one record of the device, and records of servers, loaded objects and recordings. The log contains nothing
    of a secret key.

    """
    monkeypatch.setattr(process, "_is_logged", False)
    secret, keys = exact
    with caplog.at_level(logging.DEBUG, logger="heliograph"):
        server = hg.Server(keys)
        hg.Server(keys)
        x = server.from_bytes(secret.encrypt([1, 2], pad=True).to_bytes())
        f = hg.program(lambda x: x + x, x, limit=1)
        f(x)
        f(x * 3)
        with pytest.warns(RuntimeWarning):
            f(x[None])
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"computing on {hg.devices()[0]}" or said[0].startswith(f"computing on {hg._core.device.name()}")
    assert [line for line in said if line.startswith("server of")] == [f"server of {keys!r}"] * 2
    assert f"read {x!r}" in said
    told = [line for line in said if line.startswith("program <lambda>")]
    assert [line.removeprefix("program <lambda>: ") for line in told] == [
        "recorded 1 calls",
        "other noise for known 1 calls",
        "recorded 1 calls",
        "dropped a recording of 1 calls",
    ]
    assert sum(line.startswith("computing on") for line in said) == len(hg.devices())
    assert all(record.name == "heliograph" for record in caplog.records)


def test_nothing_is_logged_by_default(exact: tuple[Any, Any]) -> None:
    """By default there is no output, and no warning about missing handlers."""
    program = (
        "import heliograph as hg; s = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16)); "
        "hg.Server(s.evaluation_keys()); import logging; logging.getLogger('heliograph').warning('quiet')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_parameters_chosen_and_rates_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Chosen parameters are logged at INFO, and measured rates at DEBUG."""
    with caplog.at_level(logging.INFO, logger="heliograph"):
        hg.parameters_for(lambda x: x + x, np.arange(4))
    assert caplog.records[-1].getMessage().startswith("parameters_for chose <BFV parameters")


def counted(count: str, code: str, device: str = "cpu") -> str:
    """Runs code in its own process with this HELIOGRAPH_THREADS and returns its output."""
    import os

    environment = {k: v for k, v in os.environ.items() if k not in ("HELIOGRAPH_THREADS", "HELIOGRAPH_DEVICE")}
    environment |= {"HELIOGRAPH_DEVICE": device} | ({"HELIOGRAPH_THREADS": count} if count else {})
    program = f"import heliograph as hg, os\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    return (done.stdout + done.stderr).strip()


def test_threads() -> None:
    """Before the device opens, any number is accepted; afterwards only the number in use is. The environment variable sets
    the default.

    """
    assert counted("", "print(hg.threads(2), hg.threads(), os.environ['HELIOGRAPH_THREADS'])") == "2 2 2"
    assert counted("3", "print(hg.threads())") == "3"
    assert counted("3", "print(hg.threads(1), hg.devices()[0].split(',')[0])") == "1 cpu: 1 thread"
    late = "hg.devices()\ntry: hg.threads(5)\nexcept hg.DeviceError as e: print(e)\nprint(hg.threads(), os.environ['HELIOGRAPH_THREADS'])"
    said = counted("3", late)
    assert "open with 3 thread(s); call threads(5) before" in said
    assert said.endswith("3 3")
    assert counted("", late.replace("['HELIOGRAPH_THREADS']", ".get('HELIOGRAPH_THREADS')")).endswith(" None")
    assert counted("2", "print(hg.threads())", device="ref") == "2"


@pytest.mark.parametrize(("wrong", "error"), [(0, hg.ParameterError), (513, hg.ParameterError), (1.5, hg.DtypeError)])
def test_invalid_numbers_of_threads(wrong: Any, error: type[Exception]) -> None:
    """Invalid numbers of threads raise typed errors."""
    with pytest.raises(error):
        hg.threads(wrong)


def test_several_threads_compute_with_the_same_objects(exact: tuple[Any, Any]) -> None:
    """Several threads that use the same keys, tensors and servers get the bits of one thread."""
    secret, keys = exact
    server = hg.Server(keys)
    x = server.bind(secret.encrypt(np.arange(64).reshape(8, 8), pad=True))

    def work() -> bytes:
        y = hg.rotate_rows(hg.relinearize(x * x), 1) + x
        secret.decrypt(y)
        return server.from_bytes(hg.sum(y).to_bytes()).to_bytes()

    expected = work()
    assert in_threads(lambda _: [work() for _ in range(5)], 4) == [[expected] * 5] * 4


def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The programs of docs/watching.md run one after another."""
    page = (Path(__file__).parents[2] / "docs" / "watching.md").read_text()
    program = "\n".join(re.findall(r"```python\n(.*?)```", page, re.S))
    assert "logging.basicConfig" in program
    told: dict[str, Any] = {}
    exec(program.replace("logging.basicConfig(level=logging.INFO)", ""), told)
    said = capsys.readouterr().out
    assert "rotate_rows" in said
    assert "<forecast: about" in said
    assert told["first"]["name"] == "encrypt"
    np.testing.assert_array_equal(told["secret"].decrypt(told["y"])[:4], [0, 1, 4, 9])
