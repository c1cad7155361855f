"""Invalid inputs by operators and clients are refused at once, by an error of one line that names the input."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import serving_rig as rig
from heliograph.cli import run as command
from heliograph.client import http_client
from page_blocks import blocks
from serving_rig import Running, running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a model, certificates, and files of wrong kinds."""
    folder = tmp_path_factory.mktemp("inputs")
    rig.nn.setup("digits").export(folder / "digits.hgm")
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
        ("--tokens bytes", "cannot read the token file bytes: line 1 must be a client's name"),
        ("--tls-cert bytes", "bytes holds no certificate with its private key"),
        ("--tls-cert lone.pem", "if the key is in another file, give that too"),
        ("--tls-cert lone.pem --tls-key nowhere", "nowhere"),
        ("--tls-key lone.key", "--tls-key requires --tls-cert"),  # otherwise the service would run without TLS
        ("--tls-cert localhost.pem --client-ca bytes", "bytes holds no CA certificates"),
        ("--port 18999 --grpc-port 18999", "--port and --grpc-port must be different ports"),
        ("--metrics-address :²", "the port of --metrics-address"),
        ("--metrics-address :99999", ":99999"),
        ("--quota 0", "--quota (HELIOGRAPH_QUOTA) must be a whole number from 1 to"),
        ("--memory-limit 0", "must be a whole number from 1 to"),
        ("--store-capacity 0G", "must be a whole number from 1 to"),
        ("--max-deadline 0s", "must be a number from 0.001 to 1e+09, got 0.0"),
        ("--time-to-live 0d", "must be a number from 0.001"),
        ("--rate-limit nan", "(HELIOGRAPH_RATE_LIMIT) must be a number from 0.001 to 1e+06, got 'nan'"),
        ("--rate-limit inf", "(HELIOGRAPH_RATE_LIMIT) must be"),
        ("--quota 999999999999T", "(HELIOGRAPH_QUOTA) must be a whole number from 1"),
        ("--max-deadline 999999999d", "(HELIOGRAPH_MAX_DEADLINE) must be a number"),
        ("--upload-time-to-live 1.5.5s", "(HELIOGRAPH_UPLOAD_TIME_TO_LIVE) must be a number"),
    ],
)
def test_invalid_options_of_a_service(
    folder: Path, options: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service does not start, and an error of one line names the option."""
    monkeypatch.chdir(folder)
    words = options.split()
    store = [] if "--store" in words else ["--store", "store"]
    assert command(["serve", "digits.hgm", *store, "--port", "0", *words]) in (1, 2)
    assert said in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize("option", ["--port", "--grpc-port", "--metrics-address"])
def test_a_port_in_use_is_refused(
    folder: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The port is checked before any engine prepares the models."""

    async def never(_: Any) -> None:
        pytest.fail("an engine was started before the port was checked")

    monkeypatch.setattr("heliograph.serving.core.Service.start", never)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        value = place if option == "--metrics-address" else place.partition(":")[2]
        arguments = ["serve", str(folder / "digits.hgm"), "--store", str(tmp_path), "--port", "0", option, value]
        assert command(arguments) == 1
    said = capsys.readouterr().err.replace("\n", "")
    assert "in use" in said
    assert place in said


@pytest.fixture(scope="module")
def secure(folder: Path) -> Iterator[Running]:
    """Runs a service with TLS."""
    with running(folder / "digits.hgm", "--store", folder / "secure", "--tls-cert", folder / "localhost.pem") as service:
        yield service


def test_a_certificate_that_has_expired(folder: Path, secure: Running, tmp_path: Path) -> None:
    """At the start, the log reports an expired certificate; it does not report a valid certificate."""
    assert not secure.errors()
    old = rig.Authority(tmp_path, ago=9)
    with running(folder / "digits.hgm", "--store", tmp_path / "second", "--tls-cert", old.issue("localhost")) as service:
        (told,) = service.events("tls_certificate_invalid")
        assert told["error"] == "certificate has expired"
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
def test_invalid_addresses(address: Any) -> None:
    """Invalid addresses are refused at once, without connection attempts."""
    with pytest.raises(hg.ParameterError, match=r'as in "https://host:8443"'):
        hg.Client(address, model="digits")


def test_a_password_in_an_address_is_not_repeated() -> None:
    """An address that contains a password is refused, and the error does not repeat the password."""
    with pytest.raises(hg.ParameterError, match="without a user or a password") as caught:
        hg.Client("https://ann:sesame@host/path")
    assert "sesame" not in str(caught.value)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the test fail if a call is retried after a pause."""

    def pause(_: float) -> None:
        pytest.fail("the call was retried")

    monkeypatch.setattr(http_client, "time", types.SimpleNamespace(monotonic=time.monotonic, sleep=pause))


def test_an_unknown_host_name(once: None) -> None:
    """An unknown host name is not retried."""
    with pytest.raises(hg.UnreachableError, match="its host name has no address"):
        hg.Client("https://nowhere.invalid:8443", model="digits", timeout=600.0)


def test_http_to_a_tls_port_is_reported(secure: Running, once: None) -> None:
    """HTTP to a TLS port is reported at once. If the authority is not trusted, the error names the argument that is needed."""
    address = f"localhost:{secure.ports['http']}"
    with pytest.raises(hg.UnreachableError, match="use https"):
        hg.Client(f"http://{address}", model="digits", timeout=600.0)
    with pytest.raises(hg.UnreachableError, match=r"give ca= \(--ca\), the PEM file of the authority"):
        hg.Client(f"https://{address}", model="digits", timeout=600.0)
    with pytest.raises(OSError, match=address.replace("localhost", "127.0.0.1")):
        hg.serving.local_page("", {}, port=secure.ports["http"])


@pytest.mark.parametrize("origin", ["host:8443", "https://", "ftp://host", "https://host/page", "https://host?a=1"])
def test_invalid_origins_and_paths_of_a_page(origin: str) -> None:
    """A foreign page is named by scheme, host and port. A path of a page has a name."""
    with pytest.raises(hg.ParameterError, match="a page's origin must be a scheme, host and port"):
        hg.serving.local_page("", {}, allowed_origin=origin)
    for path in ("ask", "/", "", 3):
        with pytest.raises(hg.ParameterError, match="a path of a page must be"):
            hg.serving.local_page("", {path: len})  # type: ignore[dict-item]
        with pytest.raises(hg.ParameterError, match="a path of a page must be"):
            hg.serving.local_page("", {}, facts={path: list})  # type: ignore[dict-item]


def test_incomplete_arguments_of_a_client_are_refused(folder: Path) -> None:
    """A certificate without its key is refused, and so are a missing token and a missing secret key."""
    address = "https://127.0.0.1:9"
    assert "127.0.0.1" in repr(hg.Client("https://127.0.0.1:8443/"))
    assert "[" not in hg.Client("https://[::1]:8443")._http.host
    with pytest.raises(hg.ParameterError, match="key= requires certificate="):
        hg.Client(address, key=folder / "lone.key")
    with pytest.raises(hg.ParameterError, match="if the key is in another file"):
        hg.Client(address, certificate=folder / "lone.pem")
    for token in ("", "# the token: x"):
        with pytest.raises(hg.ParameterError, match="a token must be a string"):
            hg.Client(address, token=token)
    with pytest.raises(hg.DtypeError, match=r"secret= must be a SecretKey, got .*secret\.hg"):
        hg.Client(address, secret="secret.hg")  # type: ignore[arg-type]


def test_files_that_are_not_sent(folder: Path, tmp_path: Path) -> None:
    """Secret keys, tables in place of keys, folders and endless files are never sent."""
    # no server has this address, so an attempt to connect would take long
    client = hg.Client("https://127.0.0.1:9", timeout=600.0)
    params = hg.bfv.parameters(depth=1, plain_bits=20, slots=8)
    secret = hg.SecretKey.generate(params)
    secret.save(tmp_path / "secret.hg")
    secret.evaluation_keys().save(tmp_path / "keys.hg")
    (tmp_path / "half.hg").write_bytes((tmp_path / "keys.hg").read_bytes()[:20])
    os.mkfifo(tmp_path / "pipe")
    for send in (client.upload_keys, client.upload_table):
        with pytest.raises(hg.FormatError, match=r"secret\.hg is a SECRET key, .* nothing of it was sent"):
            send(tmp_path / "secret.hg")
        with pytest.raises(hg.FormatError, match=r"truncated|(none of|not a) Heliograph"):
            send(tmp_path / "half.hg")
        for name in (".", "pipe"):
            with pytest.raises(hg.DamagedFileError, match="is not a regular file"):
                send(tmp_path / name)
        with pytest.raises(hg.FormatError, match=r"got heliograph\.sealed-model"):
            send(folder / "digits.hgm")
    with pytest.raises(
        hg.FormatError, match=r"keys\.hg must hold an encrypted table, got evaluation keys; upload_keys uploads it"
    ):
        client.upload_table(tmp_path / "keys.hg")


def test_a_query_with_invalid_unicode_is_refused() -> None:
    """Unpaired surrogates in a query are refused as invalid text."""
    with pytest.raises(hg.DtypeError, match="cannot be written in UTF-8"):
        hg.Client("https://127.0.0.1:9", keys="0" * 64).sql("SELECT '\ud800'", table="0" * 64)


def test_connections_without_a_handshake_take_little_memory(folder: Path, secure: Running) -> None:
    """800 connections without a handshake take little memory, and other clients are served."""
    with contextlib.ExitStack() as silent:
        client = hg.Client(f"https://localhost:{secure.ports['http']}", model="digits", ca=folder / "ca.pem")
        rig.party(client)
        before = secure.memory()
        for number in range(800):  # the service allows 256 connections per address
            where = ("127.0.0.1", secure.ports["http"])
            silent.enter_context(socket.create_connection(where, 20, (f"127.0.0.{2 + number % 4}", 0)))
        assert np.array_equal(client.run(rig.DIGIT), rig.expected())
        assert secure.memory() - before < 120 << 20  # asyncio's default buffers alone would take 200 MiB


def test_certificates_of_the_page_are_accepted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands in docs/serving.md make certificates that the service and the client accept."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).resolve().parents[2] / "docs/serving.md"
    (script,) = [block for block in blocks(page, "sh") if "openssl" in block]
    subprocess.run(["sh", "-e", "-c", script], check=True, capture_output=True)
    tls = ["--tls-cert", "server.pem", "--tls-key", "server.key", "--client-ca", "ca.pem"]
    with running(folder / "digits.hgm", "--store", "store", *tls) as service:
        address = f"https://localhost:{service.ports['http']}"
        client = hg.Client(address, model="digits", certificate="ann.pem", key="ann.key", ca="ca.pem")
        rig.party(client)
        assert np.array_equal(client.run(rig.DIGIT), rig.expected())
        assert service.events("object_uploaded")[0]["client"] == "certificate:ann"
        with pytest.raises(hg.AccessError):
            hg.Client(address, model="digits", ca="ca.pem")
