"""The options in the container image and in the systemd unit are valid for the command. `make image-test` runs both the
image and the unit.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

import heliograph as hg
from heliograph.cli.commands import commands

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


def steps() -> list[tuple[str, str]]:
    """Returns the instructions of the Dockerfile and their arguments."""
    lines = (PACKAGING / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [(name, rest) for line in lines if line and line[0] != "#" for name, _, rest in [line.partition(" ")]]


def parsed(words: list[str]) -> dict[str, object]:
    """Parses the arguments of `heliograph serve`; raises a usage error if an argument is invalid."""
    assert words[0] == "serve"
    command = typer.main.get_command(commands).get_command(None, "serve")  # type: ignore[attr-defined, arg-type]
    assert command is not None
    with command.make_context("serve", words[1:]) as context:
        return dict(context.params)


def test_the_image_runs_as_its_own_user() -> None:
    """The image installs a wheel, has no compiler, runs as a user of its own, and gets SIGTERM directly."""
    told = steps()
    assert {name for name, _ in told} <= {
        "ARG",
        "FROM",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
    }
    assert [name for name, _ in told[:2]] == ["ARG", "FROM"]
    runs = [shlex.split(rest) for name, rest in told if name == "RUN"]
    assert "heliograph[serve]" in runs[1]
    assert not any("apt" in word for words in runs for word in words)
    assert [rest for name, rest in told if name == "USER"] == ["10001"]
    # a JSON list, so no shell runs in between
    entry = json.loads(next(rest for name, rest in told if name == "ENTRYPOINT"))
    assert entry[0] == "/opt/heliograph/bin/heliograph"
    options = parsed([*entry[1:], "m.hgm", "--tls-cert", "server.pem", "--tokens", "tokens"])
    assert options["port"] == 8443
    check = json.loads(next(rest for name, rest in told if name == "HEALTHCHECK").partition("CMD ")[2])
    assert f"http://{options['metrics_address']}/readyz" in check[2]
    compile(check[2], "healthcheck", "exec")


def test_the_unit_has_valid_options() -> None:
    """The command of the unit has valid options, and its sandbox removes privileges that are not needed."""
    unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(PACKAGING / "heliograph.service", encoding="utf-8")
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[0].endswith("/heliograph")
    options = parsed(words[1:])
    assert options["metrics_address"] == ":9090"
    # SIGHUP reads the tokens again. systemd does not copy credentials again, so the unit names the file of tokens directly.
    assert "CREDENTIALS" not in str(options["tokens"])
    assert "CREDENTIALS" in str(options["tls_cert"])
    # systemd's reload waits until the service listens
    assert (service["Type"], service["Restart"]) == ("notify", "on-failure")
    assert int(service["WatchdogSec"]) >= 30
    assert service["KillMode"] == "mixed"  # systemd sends SIGTERM only to the service, which ends its engines
    stop = re.fullmatch(r"(\d+)", service["TimeoutStopSec"])
    assert stop is not None
    assert int(stop[1]) > 60  # systemd waits longer than the grace period of the service
    for name in ("NoNewPrivileges", "ProtectSystem", "DynamicUser", "PrivateTmp", "SystemCallFilter", "RestrictNamespaces"):
        assert service[name]
    assert service["CapabilityBoundingSet"] == ""


def test_an_invalid_option_is_detected() -> None:
    """The check detects an option that is not valid."""
    with pytest.raises(Exception, match="--no-such"):
        parsed(["serve", "m.hgm", "--no-such"])


def test_versions_of_uvicorn() -> None:
    """The service runs only with the versions of uvicorn that were tested; the package requires these versions."""
    from heliograph.serving.uvicorn_protocol import ACCEPTED_VERSIONS, require_accepted_version

    require_accepted_version()
    for version in ("0.30.0", "0.30.6", "0.54.9rc1"):
        require_accepted_version(version)
    for version in ("0.29.9", "0.55.0", "1.0", "1.31.0", ""):
        with pytest.raises(hg.HeliographError, match=r"uvicorn must be a version from 0\.30, below 0\.55, got"):
            require_accepted_version(version)
    first, above = (".".join(map(str, version)) for version in ACCEPTED_VERSIONS)
    assert f'"uvicorn>={first},<{above}"' in (PACKAGING.parent / "pyproject.toml").read_text(encoding="utf-8")
