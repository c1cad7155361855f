"""What an operator or a client gives by mistake: refused at once, by its name, in a line."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import serving_rig as rig
from heliograph.cli import run as command
from heliograph.serving import companion, wire
from page_blocks import blocks
from serving_rig import running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, certificates and files that are none of what is asked for."""
    folder = tmp_path_factory.mktemp("inputs")
    rig.nn.setup("digits").seal(folder / "digits.hgm")
    (folder / "bytes").write_bytes(bytes(range(256)) * 4)
    (folder / "empty").touch()
    both = rig.Authority(folder).issue("localhost").read_text()
    key, _, certificate = both.partition("-----BEGIN CERTIFICATE")
    (folder / "lone.pem").write_text("-----BEGIN CERTIFICATE" + certificate)
    (folder / "lone.key").write_text(key)
    return folder


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--store empty", "Not a directory: empty"),
        ("--tokens bytes", "line 1 of the file of tokens bytes is not a client's name"),
        ("--tls bytes", "bytes holds no certificate with its private key"),
        ("--tls lone.pem", "where the key is in a file of its own, name that as well"),
        ("--tls lone.pem --tls-key nowhere", "nowhere"),
        ("--tls-key lone.key", "give --tls, too"),  # no service in clear in place of one with TLS
        ("--tls localhost.pem --clients bytes", "bytes holds no certificates of authorities"),
        ("--port 18999 --grpc 18999", "each has a port of its own"),
        ("--metrics :²", "--metrics is HOST:PORT"),
        ("--metrics :99999", ":99999"),
        ("--quota 0", "with 0 bytes nothing could be served"),
        ("--memory 0", "with 0 bytes nothing could be served"),
        ("--capacity 0G", "with 0 bytes nothing could be served"),
        ("--deadline 0s", "in 0 seconds nothing could be served"),
        ("--time-to-live 0d", "in 0 seconds nothing could be served"),
        ("--rate nan", "a rate a second must be a number from 0.001 to 1e+06, got 'nan'"),
        ("--rate inf", "a rate a second must be"),
        ("--quota 999999999999T", "a size in bytes must be a number"),
        ("--deadline 999999999d", "a time in seconds must be a number"),
        ("--upload-time-to-live 1.5.5s", "a time in seconds must be a number"),
    ],
)
def test_a_service_that_cannot_be(
    folder: Path, options: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not start, and one line tells which option is meant."""
    monkeypatch.chdir(folder)
    words = options.split()
    store = [] if "--store" in words else ["--store", "store"]
    assert command(["serve", "digits.hgm", *store, "--port", "0", *words]) in (1, 2)
    assert said in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize("option", ["--port", "--grpc", "--metrics"])
def test_a_port_that_is_taken(
    folder: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before an engine prepares what is served."""

    async def never(_: Any) -> None:
        pytest.fail("an engine was started")

    monkeypatch.setattr("heliograph.serving.core.Service.start", never)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        value = place if option == "--metrics" else place.partition(":")[2]
        arguments = ["serve", str(folder / "digits.hgm"), "--store", str(tmp_path), "--port", "0", option, value]
        assert command(arguments) == 1
    said = capsys.readouterr().err.replace("\n", "")
    assert "in use" in said
    assert place in said


def test_a_certificate_that_has_expired(folder: Path, tmp_path: Path) -> None:
    """The log tells of it as the service starts; one that holds is not spoken of."""
    with running(folder / "digits.hgm", "--store", tmp_path / "first", "--tls", folder / "localhost.pem") as service:
        assert not service.events("fault")
    old = rig.Authority(tmp_path, ago=9)
    with running(folder / "digits.hgm", "--store", tmp_path / "second", "--tls", old.issue("localhost")) as service:
        (told,) = service.events("fault")
        assert (told["what"], told["error"]) == ("tls", "certificate has expired")
        with pytest.raises(hg.UnreachableError, match="expired"):
            hg.Client(f"https://localhost:{service.ports['http']}", model="digits", ca=old.file)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:8443",
        "https://host:99999",
        "https://host:abc",
        "https://host:0",
        "https://[::1",
        "https://ho st",
        "https://a..b",
        "https://host/path",
        "https://host?x=1",
        "https://a\nb",
        "https://" + "a" * 300,
        None,
    ],
)
def test_addresses_that_are_none(address: Any) -> None:
    """Refused as they are given, not after a minute of tries."""
    with pytest.raises(hg.ParameterError, match=r'as in "https://host:8443"'):
        hg.Client(address, model="digits")


def test_a_password_in_an_address_is_not_repeated() -> None:
    """Nor is it silently left out."""
    with pytest.raises(hg.ParameterError, match="without a user or a password") as caught:
        hg.Client("https://ann:sesame@host/path")
    assert "sesame" not in str(caught.value)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tries a second time fails: a pause comes before it."""

    def pause(_: float) -> None:
        pytest.fail("a call is tried again")

    monkeypatch.setattr(wire, "time", types.SimpleNamespace(monotonic=time.monotonic, sleep=pause))


def test_a_name_that_nobody_has(once: None) -> None:
    """No try that follows would find it, so there is none."""
    with pytest.raises(hg.UnreachableError, match="no machine is known by this name"):
        hg.Client("https://nowhere.invalid:8443", model="digits", timeout=600.0)


def test_http_where_tls_is_spoken(folder: Path, tmp_path: Path, once: None) -> None:
    """Told at once; and which argument an authority that nobody knows wants."""
    with running(folder / "digits.hgm", "--store", tmp_path, "--tls", folder / "localhost.pem") as service:
        address = f"localhost:{service.ports['http']}"
        with pytest.raises(hg.UnreachableError, match="may want https"):
            hg.Client(f"http://{address}", model="digits", timeout=600.0)
        with pytest.raises(hg.UnreachableError, match=r"ca= \(--ca\) is the file of the authority"):
            hg.Client(f"https://{address}", model="digits", timeout=600.0)
        with pytest.raises(OSError, match=address.replace("localhost", "127.0.0.1")):
            companion.server_of(None, service.ports["http"])  # type: ignore[arg-type]


def test_arguments_of_a_client(folder: Path) -> None:
    """Half a certificate, no token, no secret key."""
    address = "https://127.0.0.1:9"
    assert "127.0.0.1" in repr(hg.Client("https://127.0.0.1:8443/"))
    assert "[" not in hg.Client("https://[::1]:8443")._line.host
    with pytest.raises(hg.ParameterError, match="give certificate=, too"):
        hg.Client(address, key=folder / "lone.key")
    with pytest.raises(hg.ParameterError, match="name that as well"):
        hg.Client(address, certificate=folder / "lone.pem")
    for token in ("", "# the token: x"):
        with pytest.raises(hg.ParameterError, match="a token is a text"):
            hg.Client(address, token=token)
    with pytest.raises(hg.DtypeError, match=r"secret= is a SecretKey, not .*secret\.hg"):
        hg.Client(address, secret="secret.hg")  # type: ignore[arg-type]


def test_files_that_are_not_sent(folder: Path, tmp_path: Path) -> None:
    """A secret key above all: nothing of it leaves this machine. Nor does a table as keys, a folder, or what would never end."""
    client = hg.Client("https://127.0.0.1:9", timeout=600.0)  # nobody is there, so a try would take long
    params = hg.bfv.parameters(depth=1, plain_bits=20, slots=8)
    secret = hg.SecretKey.generate(params)
    secret.save(tmp_path / "secret.hg")
    secret.evaluation_keys().save(tmp_path / "keys.hg")
    (tmp_path / "half.hg").write_bytes((tmp_path / "keys.hg").read_bytes()[:20])
    os.mkfifo(tmp_path / "pipe")
    for send in (client.upload_keys, client.upload_table):
        with pytest.raises(hg.FormatError, match=r"secret\.hg is a SECRET key, .* nothing of it was sent"):
            send(tmp_path / "secret.hg")
        with pytest.raises(hg.FormatError, match=r"truncated|none of Heliograph"):
            send(tmp_path / "half.hg")
        for name in (".", "pipe"):
            with pytest.raises(hg.DamagedFileError, match="is a folder, or no file of bytes"):
                send(tmp_path / name)
        with pytest.raises(hg.FormatError, match=r"not heliograph\.sealed-model"):
            send(folder / "digits.hgm")
    with pytest.raises(hg.FormatError, match=r"keys\.hg is a file of keys: upload_keys sends it"):
        client.upload_table(tmp_path / "keys.hg")


def test_a_query_that_no_request_holds() -> None:
    """Half of a surrogate pair is refused as a text, by name."""
    with pytest.raises(hg.DtypeError, match="UTF-8 cannot write"):
        hg.Client("https://127.0.0.1:9", keys="0" * 64).sql("SELECT '\ud800'", table="0" * 64)


def test_connections_that_never_shake_hands(folder: Path, tmp_path: Path) -> None:
    """Each takes little, and a client beside them is served; bodies are read in pieces as large as before."""
    with (
        running(folder / "digits.hgm", "--store", tmp_path, "--tls", folder / "localhost.pem") as service,
        contextlib.ExitStack() as silent,
    ):
        client = hg.Client(f"https://localhost:{service.ports['http']}", model="digits", ca=folder / "ca.pem")
        rig.party(client)
        before = service.memory()
        for number in range(800):  # of addresses that may have 256 each
            where = ("127.0.0.1", service.ports["http"])
            silent.enter_context(socket.create_connection(where, 20, (f"127.0.0.{2 + number % 4}", 0)))
        assert np.array_equal(client.run(rig.DIGIT), rig.expected())
        assert service.memory() - before < 120 << 20  # 200 MiB would be asyncio's buffers alone


def test_certificates_as_the_page_makes_them(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/serving.md, by which a service and a client find each other."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).resolve().parents[2] / "docs/serving.md"
    (script,) = [block for block in blocks(page, "sh") if "openssl" in block]
    subprocess.run(["sh", "-e", "-c", script], check=True, capture_output=True)
    tls = ["--tls", "server.pem", "--tls-key", "server.key", "--clients", "ca.pem"]
    with running(folder / "digits.hgm", "--store", "store", *tls) as service:
        address = f"https://localhost:{service.ports['http']}"
        client = hg.Client(address, model="digits", certificate="ann.pem", key="ann.key", ca="ca.pem")
        rig.party(client)
        assert np.array_equal(client.run(rig.DIGIT), rig.expected())
        assert service.events("uploaded")[0]["client"] == "certificate:ann"
        with pytest.raises(hg.AccessError):
            hg.Client(address, model="digits", ca="ca.pem")
