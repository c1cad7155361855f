"""A service takes its settings from the command line, the environment and a file, under the same names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

import heliograph as hg
from heliograph.cli import run as command
from heliograph.serving import server
from heliograph.serving.settings import SETTINGS, Settings, from_file, option_of, variable_of

FILE = """
models = ["digits.hgm", "/tables/phones.hgd"]
store = "store"
port = 0
insecure = true
quota = "2G"
memory_limit = 1048576
rate_limit = 50
time_to_live = "12h"
max_deadline = 1.5
grace_period = 0
device = ["cuda:0", "cuda:1"]
"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Collects the settings with which `heliograph serve` would start a service."""
    found: list[Settings] = []
    monkeypatch.setattr(server, "run", lambda settings: found.append(settings) or 0)
    for name in SETTINGS:
        monkeypatch.delenv(variable_of(name), raising=False)
    return found


def test_a_settings_file_is_read(tmp_path: Path) -> None:
    """A file gives sizes and times as texts or numbers. The paths in the file are relative to the folder of the file."""
    path = tmp_path / "heliograph.toml"
    path.write_text(FILE)
    assert Settings(**from_file(path)) == Settings(
        models=(tmp_path / "digits.hgm", Path("/tables/phones.hgd")),
        store=tmp_path / "store",
        port=0,
        insecure=True,
        quota=2 << 30,
        memory_limit=1 << 20,
        rate_limit=50.0,
        time_to_live=12 * 3600.0,
        max_deadline=1.5,
        grace_period=0.0,
        device=("cuda:0", "cuda:1"),
    )


def test_the_settings_file_of_the_page_is_valid(tmp_path: Path) -> None:
    """The example in docs/serving.md is a valid file."""
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    (tmp_path / "heliograph.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    found = Settings(**from_file(tmp_path / "heliograph.toml"))
    assert (found.max_queue, found.quota, found.tls_cert) == (128, 4 << 30, tmp_path / "server.pem")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_que = 1", "unknown key 'max_que'; use keys of models, store, host"),
        ("body_timeout = 1", "unknown key 'body_timeout'"),
        ("max_queue = '64'", "max_queue must be an integer, got '64'"),
        ("max_queue = true", "max_queue must be an integer, got True"),
        ("max_queue = 0", "max_queue must be a whole number from 1 to 1,000,000,000, got 0"),
        ("insecure = 1", "insecure must be true or false, got 1"),
        ("quota = 1.5", "quota must be an integer or a string, got 1.5"),
        ("quota = '4X'", "quota must be a number of bytes, as in 500M, 4G, 4GiB; got '4X'"),
        ("keep_alive = 'soon'", "keep_alive must be a number of seconds, as in 90s"),
        ("rate_limit = inf", "rate_limit must be a number from 0.001 to 1e+06, got inf"),
        ("models = 'digits.hgm'", "models must be a list, each value a string, got 'digits.hgm'"),
        ("device = [0]", "device must be a list, each value a string, got [0]"),
        ("store = ['a']", "store must be a string, got ['a']"),
        ("[limits]\nmax_queue = 3", "unknown key 'limits'"),
        ("port 1", "write TOML, as in max_queue = 64"),
        ("\x00", "write TOML"),
    ],
)
def test_an_invalid_settings_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """The error names the file, the key and the value, and lists the allowed values."""
    path = tmp_path / "heliograph.toml"
    path.write_text(text)
    with pytest.raises(hg.ParameterError) as caught:
        from_file(path)
    assert str(caught.value).startswith(f"cannot read the settings {path}: ")
    assert said in str(caught.value)


def test_options_precede_variables_and_files(
    tmp_path: Path, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options have precedence over variables, variables over the file, and the file over the defaults."""
    path = tmp_path / "heliograph.toml"
    path.write_text(FILE + 'max_queue = 1\nmax_uploads = 2\ntls_cert = "server.pem"\n')
    monkeypatch.setenv("HELIOGRAPH_MAX_QUEUE", "3")
    monkeypatch.setenv("HELIOGRAPH_QUOTA", "3G")
    monkeypatch.setenv("HELIOGRAPH_INSECURE", "0")
    monkeypatch.setenv("HELIOGRAPH_DEVICE", "cuda:0,cuda:1")
    assert command(["serve", "--config", str(path), "--max-queue", "4", "--grace-period", "0s", "--port", "0"]) == 0
    found = replace(Settings(**from_file(path)), max_queue=4, quota=3 << 30, insecure=False, device=("cuda:0,cuda:1",))
    assert served == [found]
    assert (found.max_uploads, found.max_uploads_per_client) == (2, 16)
    monkeypatch.setenv("HELIOGRAPH_CONFIG", str(path))
    monkeypatch.setenv("HELIOGRAPH_MODELS", "a.hgm:b.hgm")
    assert command(["serve"]) == 0
    assert served[1] == replace(found, max_queue=3, models=(Path("a.hgm"), Path("b.hgm")))
    assert command(["serve", "c.hgm", "--device", "cpu", "--device", "cuda"]) == 0
    assert served[2] == replace(served[1], models=(Path("c.hgm"),), device=("cpu", "cuda"))


def test_an_invalid_variable(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a variable is invalid, the error names the option and the variable. Kubernetes sets an invalid value of a variable
    if a Service has the variable's name.

    """
    monkeypatch.setenv("HELIOGRAPH_PORT", "tcp://10.0.0.1:8443")
    assert command(["serve", "digits.hgm", "--store", "x"]) == 2
    error = capsys.readouterr().err
    assert "--port (HELIOGRAPH_PORT) must be a whole number from 0 to 65,535, got 'tcp://10.0.0.1:8443'" in error
    assert not served


def test_the_page_has_every_setting(served: list[Settings], capsys: pytest.CaptureFixture[str]) -> None:
    """The help and docs/serving.md name every setting, and their defaults are those of `Settings`."""
    assert command(["serve", "--help"]) == 0
    text = capsys.readouterr().out
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    for name in SETTINGS:
        assert name == "models" or option_of(name) in text
        assert option_of(name) in page or f"\n{name} = " in page, name
    for name, declared in SETTINGS.items():
        kind, shown = declared.metadata["kind"], declared.metadata["default"]
        if shown and shown[0].isdigit():
            value: Any = kind.parse(shown, name)
            assert value == declared.default, name
    assert command(["serve", "digits.hgm", "--store", "x"]) == 0
    assert served == [Settings(models=(Path("digits.hgm"),), store=Path("x"))]
