"""The log, and the number of threads."""

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
from heliograph import host


@pytest.fixture(scope="module")
def exact() -> tuple[Any, Any]:
    """A secret key and evaluation keys."""
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16))
    return secret, secret.evaluation_keys(rotations=[1])


def test_what_is_logged(exact: tuple[Any, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device once, servers, what they read, recordings; nothing of a secret key."""
    monkeypatch.setattr(host, "_told", False)
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
    assert said[0] == f"computing on {hg.devices()[0]}" or said[0].startswith(f"computing on {hg._core.device_name()}")
    assert [line for line in said if line.startswith("server of")] == [f"server of {keys!r}"] * 2
    assert f"read {x!r}" in said
    told = [line for line in said if line.startswith("program <lambda>")]
    assert [line.removeprefix("program <lambda>: ") for line in told] == [
        "recorded 1 calls",
        "other figures for known 1 calls",
        "recorded 1 calls",
        "a recording of 1 calls is dropped",
    ]
    assert sum(line.startswith("computing on") for line in said) == len(hg.devices())
    assert all(record.name == "heliograph" for record in caplog.records)


def test_silent_by_default(exact: tuple[Any, Any]) -> None:
    """Neither output nor a complaint about missing handlers."""
    program = (
        "import heliograph as hg; s = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16)); "
        "hg.Server(s.evaluation_keys()); import logging; logging.getLogger('heliograph').warning('quiet')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_parameters_chosen_and_rates_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At the levels that say how much one wants to know."""
    with caplog.at_level(logging.INFO, logger="heliograph"):
        hg.parameters_for(lambda x: x + x, np.arange(4))
    assert caplog.records[-1].getMessage().startswith("parameters_for chose <BFV parameters")


def counted(count: str, code: str, device: str = "cpu") -> str:
    """What a process of its own prints or complains, with HELIOGRAPH_THREADS set so."""
    import os

    environment = {k: v for k, v in os.environ.items() if k not in ("HELIOGRAPH_THREADS", "HELIOGRAPH_DEVICE")}
    environment |= {"HELIOGRAPH_DEVICE": device} | ({"HELIOGRAPH_THREADS": count} if count else {})
    program = f"import heliograph as hg, os\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    return (done.stdout + done.stderr).strip()


def test_threads() -> None:
    """Before the device is opened any number; after, its own alone; the environment says what holds."""
    assert counted("", "print(hg.threads(2), hg.threads(), os.environ['HELIOGRAPH_THREADS'])") == "2 2 2"
    assert counted("3", "print(hg.threads())") == "3"
    assert counted("3", "print(hg.threads(1), hg.devices()[0].split(',')[0])") == "1 cpu: 1 thread"
    late = "hg.devices()\ntry: hg.threads(5)\nexcept hg.DeviceError as e: print(e)\nprint(hg.threads(), os.environ['HELIOGRAPH_THREADS'])"
    said = counted("3", late)
    assert "has 3 thread(s): call threads(5) before" in said
    assert said.endswith("3 3")
    assert counted("", late.replace("['HELIOGRAPH_THREADS']", ".get('HELIOGRAPH_THREADS')")).endswith(" None")
    assert counted("2", "print(hg.threads())", device="ref") == "2"


@pytest.mark.parametrize(("wrong", "error"), [(0, hg.ParameterError), (513, hg.ParameterError), (1.5, hg.DtypeError)])
def test_no_number_of_threads(wrong: Any, error: type[Exception]) -> None:
    """Typed errors."""
    with pytest.raises(error):
        hg.threads(wrong)


def test_several_threads_compute_with_the_same_objects(exact: tuple[Any, Any]) -> None:
    """Keys, tensors, servers: the bits are those of one thread."""
    secret, keys = exact
    server = hg.Server(keys)
    x = server.bind(secret.encrypt(np.arange(64).reshape(8, 8), pad=True))

    def work() -> bytes:
        y = hg.rotate_rows(hg.relinearize(x * x), 1) + x
        secret.decrypt(y)
        return server.from_bytes(hg.sum(y).to_bytes()).to_bytes()

    expected = work()
    assert in_threads(lambda _: [work() for _ in range(5)], 4) == [[expected] * 5] * 4


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/watching.md, block after block, as one reads it."""
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
