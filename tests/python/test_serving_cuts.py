"""Tests the client over TLS. Connections are cut, reset, silent, corrupted or idle, and services are stopped or killed.

Each test counts lost calls and wrong answers, and both must be 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import http.server
import json
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import heliograph as hg
import serving_rig as rig
from heliograph._common.service.kinds import KINDS
from heliograph.client import client as client_module
from heliograph.client import http_client
from heliograph.client.retry import CutError, Stage, failure_of
from serving_rig import DIGIT, Place, expected, party, running

for needed in ("starlette", "uvicorn", "prometheus_client", "cryptography"):
    pytest.importorskip(needed)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Runs one service for most tests; it closes connections that are idle for 0.1 s."""
    made = Place(tmp_path_factory.mktemp("service"), "ann", "bob")
    with made.running("--keep-alive", "0.1s", "--metrics-address", "127.0.0.1:0"):
        yield made


@pytest.fixture
def proxy(place: Place) -> Iterator[Any]:
    """Runs a proxy between clients and the service that injects faults."""
    from benchmarks.serving.proxy import Proxy

    with Proxy(place.service.ports["http"]) as made:
        yield made


def through(place: Place, proxy: Any, name: str = "ann", **options: Any) -> hg.Client:
    """Returns a client that connects by the proxy. If there is silence for half a second, the client regards the connection
    as failed.
    """
    client = hg.Client(
        f"https://localhost:{proxy.port}", model="digits", token=place.tokens[name], ca=place.authority.file, **options
    )
    client._http.silence = 0.5
    return client


def armed(proxy: Any, kind: str, up: bool, after: int, every: int = 0) -> None:
    """Sets the next fault of the proxy."""
    from benchmarks.serving.proxy import Fault

    proxy.arm(Fault(kind, up, after, every))


def session_of(client: hg.Client) -> dict[str, Any]:
    """Returns the session with which another client can use the same keys."""
    return {"secret": client._secret, "keys": client.keys}


# Failing connections


@pytest.mark.parametrize("kind", ["reset", "close", "corrupt", "duplicate", "stall"])
def test_a_connection_may_fail_at_any_byte(place: Place, proxy: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a connection fails at any byte of handshake, request or response, the call still gets its answer."""
    monkeypatch.setattr(client_module, "_WAIT", 1.0)
    direct = place.client()
    party(direct)
    lost, wrong = list[str](), 0
    places = [(up, after) for up in (True, False) for after in (0, 100, 700, 1500, 3000, 40_000, 120_000)]
    if kind == "stall":  # each stall lasts for the complete silence limit
        places = [(True, 100), (True, 40_000), (False, 40_000)]
    for number, (up, after) in enumerate(places):
        client = through(place, proxy, timeout=rig.PATIENCE, **session_of(direct))
        if number % 2:
            client.close()  # then the client opens a new connection, and the fault occurs in its handshake
        armed(proxy, kind, up, after)
        try:
            wrong += not np.array_equal(client.run(DIGIT), expected())
        except hg.HeliographError as error:
            lost.append(f"{kind} up={up} after={after}: {error}")
        assert proxy.happened == number + 1, (up, after)
        client.close()
    assert (lost, wrong) == ([], 0)


def test_all_connections_of_a_client_may_fail_at_once(place: Place, proxy: Any) -> None:
    """If all connections of a client fail at the same time, each of its threads opens a new connection."""
    direct = place.client()
    party(direct)
    client = through(place, proxy, **session_of(direct))
    answers, stop = list[bool](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(np.array_equal(client.run(DIGIT), expected()))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for count in range(1, 6):
        place.service.until(lambda count=count: len(answers) > 3 * count)
        proxy.cut()
    stop.set()
    for thread in threads:
        thread.join(rig.PATIENCE)
    assert all(answers)
    assert not any(thread.is_alive() for thread in threads)


def test_a_slow_link_is_no_failure(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that takes longer than the silence limit but makes progress is sent only once, over one connection."""
    from benchmarks.serving.proxy import Proxy

    direct = place.client()
    party(direct)
    for slower in (1, 4, 16):  # repeats until the service answers within the silence limit, which a busy machine may exceed
        monkeypatch.setattr(client_module, "_WAIT", 0.1 * slower)
        with Proxy(place.service.ports["http"], rate=250_000.0 / slower) as proxy:
            client = through(place, proxy, timeout=rig.PATIENCE, **session_of(direct))
            client._http.silence = 0.25 * slower
            wire_bytes = len(client.model.encrypt(direct._secret, DIGIT).to_bytes())
            before, proxy.passed = proxy.connections, 0
            assert np.array_equal(client.run(DIGIT), expected())
            # One connection more is allowed, because the first connection may have been closed as idle.
            once = proxy.connections <= before + 1 and proxy.passed < 1.1 * wire_bytes
        if once:
            break
    assert once


def test_repeated_bytes_have_no_effect(place: Place, proxy: Any) -> None:
    """If the client's bytes are repeated, the copy is not valid TLS and has no effect."""
    client = through(place, proxy)
    secret = party(client)
    client.close()
    proxy.shadowed = True
    assert np.array_equal(client.run(DIGIT), expected())
    assert np.array_equal(through(place, proxy, secret=secret, keys=client.keys).run(DIGIT), expected())


def test_a_connection_that_was_idle_for_too_long(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls and uploads work after the service has closed an idle connection. The client may notice this before or after
    sending.

    """
    client, other = place.client(), place.client(model="slow")
    party(client)
    for seen in (True, False):
        if not seen:
            monkeypatch.setattr(http_client, "_is_closed", lambda _: False)
        keys = other.model.keys(hg.SecretKey.generate(other.model.parameters))  # this model has small keys
        other.models()
        assert np.array_equal(client.run(DIGIT), expected())
        time.sleep(0.25)
        assert np.array_equal(client.run(DIGIT), expected())
        assert other._upload(memoryview(keys.to_bytes()), None) == hashlib.sha256(keys.to_bytes()).hexdigest()


# Uploads


@pytest.mark.parametrize("kind", ["reset", "corrupt"])
def test_an_upload_survives_many_interruptions(place: Place, proxy: Any, kind: str) -> None:
    """If an upload is interrupted more often than the limit of retries, it continues each time after the received bytes."""
    client = through(place, proxy)
    data = client.model.keys(hg.SecretKey.generate(client.model.parameters)).to_bytes()
    armed(proxy, kind, True, 800_000, every=800_000)
    shares = list[float]()
    digest = client._upload(memoryview(data), shares.append)
    proxy.arm(None)
    assert digest == hashlib.sha256(data).hexdigest()
    assert proxy.happened > 8
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert proxy.passed < len(data) + proxy.happened * (5 << 20)  # each interruption repeats only the piece being sent
    assert digest in [kept["digest"] for kept in client.uploads()]
    client.revoke(digest)


def test_concurrent_uploads_of_the_same_keys(place: Place, proxy: Any) -> None:
    """Concurrent uploads of the same keys succeed, for one client name or for two, while one of them is interrupted."""
    clients = [through(place, proxy), place.client(), place.client("bob")]
    keys = clients[0].model.keys(hg.SecretKey.generate(clients[0].model.parameters))
    data, came = keys.to_bytes(), list[Any]()
    digest, start = hashlib.sha256(data).hexdigest(), threading.Barrier(len(clients))

    def send(client: hg.Client) -> None:
        start.wait()
        try:
            came.append(client._upload(memoryview(data), None))
        except hg.HeliographError as error:
            came.append(error)

    armed(proxy, "reset", True, 2_000_000)
    threads = [threading.Thread(target=send, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(rig.PATIENCE)
    assert came == [digest] * 3
    for client in clients[1:]:
        client.revoke(digest)


@pytest.mark.parametrize("after", [0, 10])
def test_an_upload_whose_last_answer_is_lost(place: Place, proxy: Any, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response to the last piece of an upload would say that the upload was verified. If this response is lost, the
    upload succeeds all the same.
    """
    client = through(place, proxy)
    data = client.model.keys(hg.SecretKey.generate(client.model.parameters)).to_bytes()
    original, shares = client._piece, list[float]()

    def piece(digest: str, data: memoryview, offset: int, *more: Any) -> Any:
        if offset == 8 << 20 and not proxy.happened:
            armed(proxy, "reset", False, after)
        return original(digest, data, offset, *more)

    monkeypatch.setattr(client, "_piece", piece)
    assert client._upload(memoryview(data), shares.append) == hashlib.sha256(data).hexdigest()
    assert proxy.happened == 1
    assert shares[-1] == 1
    client.revoke(hashlib.sha256(data).hexdigest())


# Services that stop or are killed


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGKILL,), pytest.param((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM), marks=pytest.mark.full)],
    ids=["killed", "stopped and killed"],
)
def test_restarts_lose_no_call(place: Place, tmp_path: Path, signals: tuple[signal.Signals, ...]) -> None:
    """If services end during calls and uploads and start again, no call is lost and no answer is wrong."""
    from benchmarks.serving.proxy import Proxy

    words = [place.models[0], "--store", tmp_path / "store", "--tokens", place.folder / "tokens"]
    words += ["--tls-cert", place.authority.folder / "localhost.pem"]
    answers, uploads, stop = list[Any](), list[Any](), threading.Event()
    with Proxy(None) as proxy, contextlib.ExitStack() as ended:
        threads, secret = list[threading.Thread](), None
        for number in (*signals, None):
            with running(*words) as service:
                proxy.target = service.ports["http"]
                if secret is None:
                    client = through(place, proxy)
                    secret = party(client)
                    threads = [
                        *(threading.Thread(target=asking, args=(client, answers, stop)) for _ in range(2)),
                        threading.Thread(target=uploading, args=(through(place, proxy), uploads, stop)),
                    ]
                    ended.callback(lambda threads=threads: [stop.set(), *(thread.join(rig.PATIENCE) for thread in threads)])
                    for thread in threads:
                        thread.start()
                have = len(answers), len(uploads)
                service.until(lambda have=have: len(answers) > have[0] + 2 and len(uploads) > have[1])
                if number is None:
                    stop.set()
                    for thread in threads:
                        thread.join(rig.PATIENCE)
                else:
                    service.signal(number)
                    service.ended()
                    proxy.target = None
        assert not any(thread.is_alive() for thread in threads)
    assert [one for one in answers + uploads if one is not True] == []


def asking(client: hg.Client, answers: list[Any], stop: threading.Event) -> None:
    """Makes calls repeatedly. For each call, records whether the answer was correct, or the error."""
    while not stop.is_set():
        try:
            answers.append(np.array_equal(client.run(DIGIT), expected()))
        except hg.HeliographError as error:
            answers.append(error)


def uploading(client: hg.Client, uploads: list[Any], stop: threading.Event) -> None:
    """Uploads new keys slowly and revokes them, repeatedly."""
    while not stop.is_set():
        data = client.model.keys(hg.SecretKey.generate(client.model.parameters)).to_bytes()
        try:
            digest = client._upload(memoryview(data), lambda _: time.sleep(0.05))
            client.revoke(digest)
            uploads.append(digest == hashlib.sha256(data).hexdigest())
        except hg.HeliographError as error:
            uploads.append(error)


# Errors that are not retried


def test_certificate_errors_are_not_retried(place: Place, proxy: Any, tmp_path: Path) -> None:
    """A certificate of another authority or for another name fails after one handshake, without a request. Such a failure
    has a separate error class.

    """
    stranger = rig.Authority(tmp_path)
    with pytest.raises(hg.CertificateError, match=r"cannot trust the certificate of .*; give ca= \(--ca\)") as caught:
        hg.Client(f"https://localhost:{proxy.port}", model="digits", ca=stranger.file, timeout=600.0)
    assert proxy.connections == 1
    assert isinstance(caught.value, hg.UnreachableError)
    with Scripted(tmp_path, [MODELS], "127.0.0.2") as server:
        with pytest.raises(hg.CertificateError, match=r"127\.0\.0\.2"):
            server.client(timeout=600.0).models()
        assert server.asked == []


def reasoned(name: str, kind: type[ssl.SSLError] = ssl.SSLError) -> ssl.SSLError:
    """Returns an error as OpenSSL raises it."""
    error = kind(1, f"[SSL: {name}]")
    error.reason = name
    return error


@pytest.mark.parametrize(
    ("error", "stage", "kind", "doubtful"),
    [
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), Stage.SENDING, CutError, False),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), Stage.CONNECTING, CutError, False),
        (ssl.SSLZeroReturnError(6, "closed"), Stage.WAITING, CutError, False),
        (reasoned("DECRYPTION_FAILED_OR_BAD_RECORD_MAC"), Stage.READING, CutError, False),
        (reasoned("SSLV3_ALERT_BAD_RECORD_MAC"), Stage.WAITING, CutError, False),
        (reasoned("WRONG_VERSION_NUMBER"), Stage.READING, CutError, False),
        (reasoned("WRONG_VERSION_NUMBER"), Stage.CONNECTING, CutError, True),
        (reasoned("SSLV3_ALERT_HANDSHAKE_FAILURE"), Stage.CONNECTING, CutError, True),
        (reasoned("TLSV1_ALERT_UNKNOWN_CA"), Stage.WAITING, hg.AccessError, False),
        (reasoned("TLSV13_ALERT_CERTIFICATE_REQUIRED"), Stage.READING, hg.AccessError, False),
        (ssl.SSLCertVerificationError(1, "certificate has expired"), Stage.CONNECTING, hg.CertificateError, False),
        (ConnectionResetError(104, "Connection reset by peer"), Stage.READING, CutError, False),
        (BrokenPipeError(32, "Broken pipe"), Stage.SENDING, CutError, False),
        (ConnectionRefusedError(111, "Connection refused"), Stage.CONNECTING, CutError, False),
        (TimeoutError("timed out"), Stage.WAITING, CutError, False),
        (http.client.RemoteDisconnected("closed"), Stage.WAITING, CutError, False),
        (http.client.IncompleteRead(b"x", 5), Stage.READING, CutError, False),
        (http.client.BadStatusLine("x"), Stage.WAITING, CutError, False),
        (socket.gaierror(socket.EAI_AGAIN, "try again"), Stage.CONNECTING, CutError, False),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), Stage.CONNECTING, hg.UnreachableError, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_which_failures_end_a_call(error: Exception, stage: Stage, kind: type[Exception], doubtful: bool) -> None:
    """Certificate errors and unknown host names end a call; other connection failures are retried."""
    found = failure_of(error, "https://host:1", stage)
    assert type(found) is kind
    assert getattr(found, "doubtful", False) is doubtful


class Scripted:
    """A TLS server that sends scripted responses, each as bytes, and then closes the connection.

    With `drip`, there are this many seconds between two bytes.
    """

    def __init__(self, folder: Path, answers: list[bytes], host: str = "localhost", drip: float = 0.0) -> None:
        self._drip, self.dripped = drip, 0
        self.host, self.authority = host, rig.Authority(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.authority.issue("localhost"))
        self.answers, self.asked = answers, list[bytes]()
        self._listening = socket.create_server((host.replace("localhost", "127.0.0.1"), 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self.answers:
            try:
                plain, _ = self._listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as line:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += line.recv(1 << 16)
                head, _, body = data.partition(b"\r\n\r\n")
                length = [int(n.split(b":")[1]) for n in head.split(b"\r\n") if n.lower().startswith(b"content-length")]
                while len(body) < sum(length):
                    body += line.recv(1 << 16)
                self.asked.append(head.split(b" ")[0])
                said = self.answers.pop(0)
                if not self._drip:
                    line.sendall(said)
                for byte in said if self._drip else b"":
                    line.sendall(bytes([byte]))
                    self.dripped += 1
                    time.sleep(self._drip)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def client(self, **options: Any) -> hg.Client:
        """Returns a client of this server."""
        return hg.Client(f"https://{self.host}:{self._listening.getsockname()[1]}", ca=self.authority.file, **options)


def answer(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    """Returns a serialized response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *more, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body


MODELS = answer(b'{"models": []}')


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1",
        MODELS[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
        answer(b"<html>", "502 Bad Gateway"),
        answer(b"<html>", "504 Gateway Timeout"),
        answer(b"<html>", "503 Service Unavailable", "Retry-After: 0"),
        answer(b"<html>", "429 Too Many Requests", "Retry-After: 0"),
    ],
)
def test_truncated_and_missing_answers(tmp_path: Path, first: bytes) -> None:
    """Truncated responses, also if the head is truncated, and gateway errors of a balancer are retried."""
    with Scripted(tmp_path, [first, MODELS]) as server:
        assert server.client().models() == []
        assert len(server.asked) == 2


def test_an_offset_needs_a_complete_head(tmp_path: Path) -> None:
    """If a number in the head of a response is truncated, it is not taken as the offset of the upload."""
    data = bytes(1000)
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nUpload-Complete: ?0\r\nUpload-Offset: 9"
    whole = answer(b"", "200 OK", "Upload-Offset: 990", "Upload-Complete: ?0")
    done = answer(b'{"offset": 1000, "complete": true}')
    with Scripted(tmp_path, [cut, whole, done]) as server:
        shares = list[float]()
        server.client()._upload(memoryview(data), shares.append)
        assert server.asked == [b"HEAD", b"HEAD", b"PUT"]
        assert shares == [1.0]


@pytest.mark.parametrize(
    "answers",
    [
        [answer(b"", "200 OK", "Upload-Offset: \u00b2")],
        [answer(b"", "200 OK", "Upload-Offset: " + "9" * 5000)],
        [answer(b"", "200 OK", "Upload-Offset: 1001")],
        *(
            [answer(b"", "200 OK", "Upload-Offset: 0"), answer(said)]
            for said in (b'{"offset": "x"}', b"{}", b'{"offset": 1e99}')
        ),
    ],
)
def test_impossible_offsets(tmp_path: Path, answers: list[bytes]) -> None:
    """Impossible offsets raise a typed error at once."""
    with Scripted(tmp_path, answers) as server, pytest.raises(hg.ServiceError, match="not from a Heliograph service"):
        server.client()._upload(memoryview(bytes(1000)), None)


@pytest.mark.parametrize("name", ["ConflictError", "UploadError", "CancelledError"])
def test_a_job_id_of_another_request(tmp_path: Path, name: str) -> None:
    """HTTP status 409 is a typed error, and the job is not sent again."""
    said = json.dumps({"error": {"name": name, "text": "this id is of another request"}}).encode()
    refused = answer(said, "409 Conflict", f"Heliograph-Error: {name}")
    with Scripted(tmp_path, [refused, refused]) as server:
        with pytest.raises(getattr(hg, name), match="this id is of another request"):
            server.client(keys="0" * 64).sql("SELECT 1", table="0" * 64)
        assert server.asked == [b"POST"]


def test_a_service_that_never_answers(tmp_path: Path) -> None:
    """If the service never answers, the call ends at its timeout. The error states the number of attempts."""
    with Scripted(tmp_path, [b""] * 1000) as server:
        client = server.client(timeout=0.4, keys="0" * 64)
        with pytest.raises(
            hg.UnreachableError, match=r"connection was closed while .*; [0-9]+ attempts in [0-9.]+ s"
        ) as caught:
            client.models()
        assert type(caught.value) is hg.UnreachableError
        with pytest.raises(hg.UnreachableError, match=r"attempts in .*; the service (may have|does not have) the job"):
            client.sql("SELECT 1", table="0" * 64)
        with pytest.raises(hg.UnreachableError, match=r"does not answer: .*; [0-9]+ attempts"):
            client._upload(memoryview(bytes(1000)), None)


@pytest.mark.parametrize("long", [answer(b"{}", "200 OK", "X: " + "x" * 1000), answer(b" " * 1000)], ids=["head", "body"])
def test_a_slow_response_does_not_extend_the_timeout(tmp_path: Path, long: bytes) -> None:
    """If a response arrives byte by byte, the call still ends at its timeout."""
    with Scripted(tmp_path, [long] * 9, drip=0.005) as server:
        with pytest.raises(hg.UnreachableError, match="in time"):
            server.client(timeout=0.3).models()
        assert server.dripped < len(long)


def test_a_call_cancelled_during_retries(tmp_path: Path) -> None:
    """If a call is cancelled between retries, it is not sent again, even if the service returns."""
    with Scripted(tmp_path, [b""] * 1000) as server:
        client, id = server.client(keys="0" * 64), "cancelled-" * 3
        original = client._http.once

        def once(*arguments: Any, **options: Any) -> Any:
            if len(server.asked) >= 2:
                client._calls.cancelled.add(id)
            return original(*arguments, **options)

        client._http.once = once  # type: ignore[method-assign]
        with pytest.raises(hg.CancelledError):
            client._job(KINDS["sql"], b"SELECT 1", (), "0" * 64, None, id, None, table="0" * 64)
        assert len(server.asked) <= 4


def test_a_server_without_tls(tmp_path: Path) -> None:
    """A server that does not speak TLS is reported after a few attempts."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(hg.UnreachableError, match="cannot complete a TLS handshake"):
                hg.Client(f"https://localhost:{server.server_address[1]}", model="digits", timeout=600.0)
        finally:
            server.shutdown()
