"""The client over TLS when connections die: cut, reset, silent, corrupted, idle for too long, and services that are stopped and killed.

Each test counts calls that were lost and answers that were wrong. There are none.
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
from heliograph.serving import client as client_module
from heliograph.serving import wire
from heliograph.serving.retrying import CutError, Stage, failure_of
from serving_rig import DIGIT, Place, expected, party, running

for needed in ("starlette", "uvicorn", "prometheus_client", "cryptography"):
    pytest.importorskip(needed)

pytestmark = pytest.mark.usefixtures("benchmarks")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for most tests. It closes connections that are idle for a tenth of a second."""
    made = Place(tmp_path_factory.mktemp("service"), "ann", "bob")
    with made.running("--keep-alive", "0.1s", "--metrics", "127.0.0.1:0"):
        yield made


@pytest.fixture
def proxy(place: Place) -> Iterator[Any]:
    """Before that service."""
    from serving_proxy import Proxy

    with Proxy(place.service.ports["http"]) as made:
        yield made


def through(place: Place, proxy: Any, name: str = "ann", **options: Any) -> hg.Client:
    """A client that the proxy's faults meet, and to which a connection is silent for half a second at most."""
    client = hg.Client(
        f"https://localhost:{proxy.port}", model="digits", token=place.tokens[name], ca=place.authority.file, **options
    )
    client._line.silence = 0.5
    return client


def armed(proxy: Any, kind: str, up: bool, after: int, every: int = 0) -> None:
    """The proxy's next fault."""
    from serving_proxy import Fault

    proxy.arm(Fault(kind, up, after, every))


def session_of(client: hg.Client) -> dict[str, Any]:
    """What another client needs to compute with the keys of this one."""
    return {"secret": client._secret, "keys": client.keys}


# A connection that dies


@pytest.mark.parametrize("kind", ["reset", "close", "corrupt", "duplicate", "stall"])
def test_a_connection_that_dies_at_any_byte(place: Place, proxy: Any, kind: str) -> None:
    """Of the handshake, the request, and the answer: the answer comes all the same."""
    direct = place.client()
    party(direct)
    lost, wrong = list[str](), 0
    places = [(up, after) for up in (True, False) for after in (0, 100, 700, 1500, 3000, 40_000, 120_000)]
    if kind == "stall":  # each of these waits until the silence is over
        places = [(True, 100), (True, 40_000), (False, 40_000)]
    for number, (up, after) in enumerate(places):
        client = through(place, proxy, timeout=8.0, **session_of(direct))
        if number % 2:
            client.close()  # the fault meets a handshake
        armed(proxy, kind, up, after)
        try:
            wrong += not np.array_equal(client.run(DIGIT), expected())
        except hg.HeliographError as error:
            lost.append(f"{kind} up={up} after={after}: {error}")
        assert proxy.happened == number + 1, (up, after)
        client.close()
    assert (lost, wrong) == ([], 0)


def test_all_connections_of_a_client_die_at_once(place: Place, proxy: Any) -> None:
    """Each of its threads goes on with a new one."""
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
        thread.join(20)
    assert all(answers)
    assert not any(thread.is_alive() for thread in threads)


def test_a_slow_link_is_not_dead(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request takes longer than the client's silence, and each part of it arrives: it is sent once, over one connection."""
    from serving_proxy import Proxy

    monkeypatch.setattr(client_module, "_WAIT", 0.1)
    direct = place.client()
    party(direct)
    with Proxy(place.service.ports["http"], rate=250_000.0) as proxy:
        client = through(place, proxy, timeout=8.0, **session_of(direct))
        client._line.silence = 0.25
        wire_bytes = len(client.model.encrypt(direct._secret, DIGIT).to_bytes())
        before, proxy.passed = proxy.connections, 0
        assert np.array_equal(client.run(DIGIT), expected())
        assert proxy.connections <= before + 1  # the model's may have been closed as idle
        assert proxy.passed < 1.1 * wire_bytes


def test_connections_that_are_opened_twice(place: Place, proxy: Any) -> None:
    """By something that repeats what a client sends: the repetition is no TLS, and does nothing."""
    client = through(place, proxy)
    secret = party(client)
    client.close()
    proxy.shadowed = True
    assert np.array_equal(client.run(DIGIT), expected())
    assert np.array_equal(through(place, proxy, secret=secret, keys=client.keys).run(DIGIT), expected())


def test_a_connection_that_was_idle_for_too_long(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service has closed it: calls and uploads go on, whether the client sees the end before it sends, or too late."""
    client, other = place.client(), place.client(model="slow")
    party(client)
    for seen in (True, False):
        if not seen:
            monkeypatch.setattr(wire, "_is_over", lambda _: False)
        keys = other.model.keys(hg.SecretKey.generate(other.model.parameters))  # small ones
        other.models()
        assert np.array_equal(client.run(DIGIT), expected())
        time.sleep(0.25)
        assert np.array_equal(client.run(DIGIT), expected())
        assert other._upload(memoryview(keys.to_bytes()), None) == hashlib.sha256(keys.to_bytes()).hexdigest()


# Uploads


@pytest.mark.parametrize("kind", ["reset", "corrupt"])
def test_an_upload_that_is_cut_again_and_again(place: Place, proxy: Any, kind: str) -> None:
    """More often than a client may begin anew: each time it goes on where the service has it."""
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
    assert proxy.passed < len(data) + proxy.happened * (5 << 20)  # what was there before a piece is not sent again
    assert digest in [kept["digest"] for kept in client.uploads()]
    client.revoke(digest)


def test_two_clients_that_upload_the_same(place: Place, proxy: Any) -> None:
    """At the same time, of the same name: both succeed, while one is cut; and so do two of different names."""
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
        thread.join(60)
    assert came == [digest] * 3
    for client in clients[1:]:
        client.revoke(digest)


@pytest.mark.parametrize("after", [0, 10])
def test_an_upload_whose_last_answer_is_lost(place: Place, proxy: Any, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All bytes are there, and the client does not know whether they were verified."""
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


# Services that end


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGKILL,), pytest.param((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM), marks=pytest.mark.full)],
    ids=["killed", "stopped and killed"],
)
def test_services_that_end(place: Place, tmp_path: Path, signals: tuple[signal.Signals, ...]) -> None:
    """In the middle of calls and of uploads, and start again: no call is lost, no answer is wrong."""
    from serving_proxy import Proxy

    words = [place.models[0], "--store", tmp_path / "store", "--tokens", place.folder / "tokens"]
    words += ["--tls", place.authority.folder / "localhost.pem"]
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
                    ended.callback(lambda threads=threads: [stop.set(), *(thread.join(30) for thread in threads)])
                    for thread in threads:
                        thread.start()
                have = len(answers), len(uploads)
                service.until(lambda have=have: len(answers) > have[0] + 2 and len(uploads) > have[1])
                if number is None:
                    stop.set()
                    for thread in threads:
                        thread.join(30)
                else:
                    service.signal(number)
                    service.ended()
                    proxy.target = None
        assert not any(thread.is_alive() for thread in threads)
    assert [one for one in answers + uploads if one is not True] == []


def asking(client: hg.Client, answers: list[Any], stop: threading.Event) -> None:
    """Runs, and what came of each: whether it was right, or an error."""
    while not stop.is_set():
        try:
            answers.append(np.array_equal(client.run(DIGIT), expected()))
        except hg.HeliographError as error:
            answers.append(error)


def uploading(client: hg.Client, uploads: list[Any], stop: threading.Event) -> None:
    """Uploads of new keys, slowly, and their revocations."""
    while not stop.is_set():
        data = client.model.keys(hg.SecretKey.generate(client.model.parameters)).to_bytes()
        try:
            digest = client._upload(memoryview(data), lambda _: time.sleep(0.05))
            client.revoke(digest)
            uploads.append(digest == hashlib.sha256(data).hexdigest())
        except hg.HeliographError as error:
            uploads.append(error)


# What ends a call


def test_certificates_are_final(place: Place, proxy: Any, tmp_path: Path) -> None:
    """One handshake, no request, and an error of its own class: for another authority, and for another name."""
    stranger = rig.Authority(tmp_path)
    with pytest.raises(hg.CertificateError, match=r"not trusted|trusted here: .*; ca= \(--ca\)") as caught:
        hg.Client(f"https://localhost:{proxy.port}", model="digits", ca=stranger.file, timeout=600.0)
    assert proxy.connections == 1
    assert isinstance(caught.value, hg.UnreachableError)
    with Scripted(tmp_path, [MODELS], "127.0.0.2") as server:
        with pytest.raises(hg.CertificateError, match=r"127\.0\.0\.2"):
            server.client(timeout=600.0).models()
        assert server.asked == []


def reasoned(name: str, kind: type[ssl.SSLError] = ssl.SSLError) -> ssl.SSLError:
    """As OpenSSL has it."""
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
    """Certificates and unknown names do; a connection that died in any other way does not."""
    found = failure_of(error, "https://host:1", stage)
    assert type(found) is kind
    assert getattr(found, "doubtful", False) is doubtful


class Scripted:
    """A server with TLS that gives one answer after another, as they are written: bytes, with which the connection ends.

    With `drip` each byte comes that many seconds after the one before.
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
        """Of it."""
        return hg.Client(f"https://{self.host}:{self._listening.getsockname()[1]}", ca=self.authority.file, **options)


def answer(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    """Written out."""
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
def test_answers_that_are_cut_or_none(tmp_path: Path, first: bytes) -> None:
    """Within their heads too, where half a head could be taken for a whole one; and a balancer that has lost the service."""
    with Scripted(tmp_path, [first, MODELS]) as server:
        assert server.client().models() == []
        assert len(server.asked) == 2


def test_how_far_an_upload_is_comes_from_a_whole_head(tmp_path: Path) -> None:
    """An answer without a body that was cut in a number is no smaller number."""
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
def test_counts_that_no_service_tells(tmp_path: Path, answers: list[bytes]) -> None:
    """A typed error, at once."""
    with Scripted(tmp_path, answers) as server, pytest.raises(hg.ServiceError, match="no service of Heliograph"):
        server.client()._upload(memoryview(bytes(1000)), None)


@pytest.mark.parametrize("name", ["ConflictError", "UploadError", "CancelledError"])
def test_a_job_id_of_another_request(tmp_path: Path, name: str) -> None:
    """HTTP 409: a typed error, and the job is not sent again."""
    said = json.dumps({"error": {"name": name, "text": "this id is of another request"}}).encode()
    refused = answer(said, "409 Conflict", f"Heliograph-Error: {name}")
    with Scripted(tmp_path, [refused, refused]) as server:
        with pytest.raises(getattr(hg, name), match="this id is of another request"):
            server.client(keys="0" * 64).sql("SELECT 1", table="0" * 64)
        assert server.asked == [b"POST"]


def test_a_service_that_never_answers(tmp_path: Path) -> None:
    """The call ends with its time, and its error says what is known."""
    with Scripted(tmp_path, [b""] * 1000) as server:
        client = server.client(timeout=0.4, keys="0" * 64)
        with pytest.raises(
            hg.UnreachableError, match=r"connection was closed while .*; [0-9]+ tries in 0\.[0-9]* s"
        ) as caught:
            client.models()
        assert type(caught.value) is hg.UnreachableError
        with pytest.raises(hg.UnreachableError, match=r"tries in .*; the job (may be|is not) known there"):
            client.sql("SELECT 1", table="0" * 64)
        with pytest.raises(hg.UnreachableError, match=r"does not answer: .*; [0-9]+ tries"):
            client._upload(memoryview(bytes(1000)), None)


@pytest.mark.parametrize("long", [answer(b"{}", "200 OK", "X: " + "x" * 1000), answer(b" " * 1000)], ids=["head", "body"])
def test_an_answer_that_drips(tmp_path: Path, long: bytes) -> None:
    """A byte now and then holds no client beyond its time."""
    with Scripted(tmp_path, [long] * 9, drip=0.005) as server:
        with pytest.raises(hg.UnreachableError, match="in time"):
            server.client(timeout=0.3).models()
        assert server.dripped < len(long)


def test_a_call_that_is_cancelled_while_nobody_answers(tmp_path: Path) -> None:
    """Its job is not sent any more, also if the service comes back."""
    with Scripted(tmp_path, [b""] * 1000) as server:
        client, id = server.client(keys="0" * 64), "cancelled-" * 3
        original = client._line.once

        def once(*arguments: Any, **options: Any) -> Any:
            if len(server.asked) >= 2:
                client._calls.unwanted.add(id)
            return original(*arguments, **options)

        client._line.once = once  # type: ignore[method-assign]
        with pytest.raises(hg.CancelledError):
            client._job("sql", b"SELECT 1", (), "0" * 64, None, id, None, table="0" * 64)
        assert len(server.asked) <= 4


def test_what_speaks_no_tls(tmp_path: Path) -> None:
    """Is told after few tries, not after a minute of them: the handshake itself cannot be read."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(hg.UnreachableError, match="does not speak TLS as it should"):
                hg.Client(f"https://localhost:{server.server_address[1]}", model="digits", timeout=600.0)
        finally:
            server.shutdown()
