"""The image and the unit: what they say is what the command takes. `make image-test` runs them."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from heliograph.cli.commands import commands

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


def steps() -> list[tuple[str, str]]:
    """Of the Dockerfile: an instruction and the rest of its line."""
    lines = (PACKAGING / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [(name, rest) for line in lines if line and line[0] != "#" for name, _, rest in [line.partition(" ")]]


def parsed(words: list[str]) -> dict[str, object]:
    """What `heliograph serve` makes of these arguments; raises a usage error for others."""
    assert words[0] == "serve"
    command = typer.main.get_command(commands).get_command(None, "serve")  # type: ignore[attr-defined, arg-type]
    assert command is not None
    with command.make_context("serve", words[1:]) as context:
        return dict(context.params)


def test_the_image() -> None:
    """From a wheel, without a compiler, as a user of its own, by a command that there is; SIGTERM reaches the service itself."""
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
    entry = json.loads(next(rest for name, rest in told if name == "ENTRYPOINT"))  # a list: no shell between
    assert entry[0] == "/opt/heliograph/bin/heliograph"
    options = parsed([*entry[1:], "m.hgm", "--tls", "server.pem", "--tokens", "tokens"])
    assert options["port"] == 8443
    check = json.loads(next(rest for name, rest in told if name == "HEALTHCHECK").partition("CMD ")[2])
    assert f"http://{options['metrics']}/readyz" in check[2]
    compile(check[2], "healthcheck", "exec")


def test_the_unit() -> None:
    """Its command has options that there are, and it takes away what the service does not need."""
    unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(PACKAGING / "heliograph.service", encoding="utf-8")
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[0].endswith("/heliograph")
    options = parsed(words[1:])
    assert options["metrics"] == ":9090"
    # A reload reads the tokens again, and systemd does not copy credentials again: the file itself is named.
    assert "CREDENTIALS" not in str(options["tokens"])
    assert "CREDENTIALS" in str(options["tls"])
    assert (service["Type"], service["Restart"]) == ("notify", "on-failure")  # a reload waits until it listens
    assert int(service["WatchdogSec"]) >= 30
    assert service["KillMode"] == "mixed"  # SIGTERM to the service alone: engines are ended by it
    stop = re.fullmatch(r"(\d+)", service["TimeoutStopSec"])
    assert stop is not None
    assert int(stop[1]) > 60  # longer than --grace
    for name in ("NoNewPrivileges", "ProtectSystem", "DynamicUser", "PrivateTmp", "SystemCallFilter", "RestrictNamespaces"):
        assert service[name]
    assert service["CapabilityBoundingSet"] == ""


def test_a_wrong_option_is_found() -> None:
    """The check can fail."""
    with pytest.raises(Exception, match="--no-such"):
        parsed(["serve", "m.hgm", "--no-such"])
