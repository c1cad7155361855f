"""A malicious client cannot deny the service to other clients. A client's resources are limited, and a malicious client gets
typed errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import secrets
import select
import socket
import struct
import time
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import heliograph as hg
import serving_rig as rig
from heliograph.serving import connections, numeric
from heliograph.serving.access import Pace
from heliograph.serving.settings import Settings
from heliograph.serving.store import Store
from serving_rig import Running, running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
from starlette.requests import Request

from heliograph.serving import core, uvicorn_protocol, web

NO_NUMBERS = ("nan", "NaN", "inf", "-inf", "-1", "1e309", "0x10", "1_0", "", "٣", "1" * 400)


class Asker:
    """An HTTP client that sends arbitrary requests."""

    def __init__(self, service: Running, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", service.ports["http"], timeout=rig.PATIENCE)
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """Sends a request and returns the status and the answer as JSON."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self._connection.request(method, path, body, self._headers | named)
        reply = self._connection.getresponse()
        data = reply.read()
        return reply.status, json.loads(data) if data.startswith(b"{") else {}

    def put(self, body: bytes, total: int | None = None, digest: str | None = None) -> tuple[int, dict[str, Any]]:
        """Sends the first piece of an upload, by default the whole upload."""
        digest = digest or hashlib.sha256(body).hexdigest()
        length = str(len(body) if total is None else total)
        return self.ask("PUT", f"/v1/blobs/{digest}", body, Upload_Offset="0", Upload_Length=length)


def tiny(number: int) -> bytes:
    """Returns a complete upload of a few hundred bytes that claims to be evaluation keys."""
    about = {"arrays": [], "header": {"i": number}, "type": "heliograph.bfv.evaluation-keys"}
    head = json.dumps(about, separators=(",", ":"), sort_keys=True).encode()
    aligned = -(-(32 + len(head)) // 64) * 64
    body = bytes.fromhex("8948454c494f0d0a") + struct.pack("<IIQQ", 2, 0, len(head), aligned + 32) + head
    body += bytes(aligned - len(body))
    return body + hashlib.sha256(body).digest()


LIMITS = (
    "--max-connections-per-client",
    "20",
    "--max-queue",
    "8",
    "--max-jobs-per-client",
    "6",
    "--max-objects-per-client",
    "5",
    "--max-uploads-per-client",
    "3",
    "--store-capacity",
    "40M",
    "--quota",
    "36M",
)


class Tenants:
    """A service with small limits and its clients."""

    def __init__(self, service: Running, tokens: dict[str, str], model: Path) -> None:
        self.service, self.tokens, self.model = service, tokens, model

    def asker(self, name: str) -> Asker:
        """Returns a client for arbitrary requests."""
        return Asker(self.service, self.tokens[name])

    def client(self, name: str, model: str | None = "digits", **options: Any) -> hg.Client:
        """Returns a usual client."""
        return hg.Client(f"http://127.0.0.1:{self.service.ports['http']}", model=model, token=self.tokens[name], **options)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """Runs one service for all tests; each test has separate clients."""
    folder = tmp_path_factory.mktemp("hostile")
    model = rig.export(folder)[0]
    tokens = rig.tokens(folder / "tokens", *(f"client{n}" for n in range(20)), "ann", "greedy")
    with running(model, "--store", folder / "store", "--tokens", folder / "tokens", *LIMITS) as service:
        yield Tenants(service, tokens, model)


# Numbers in requests


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_invalid_texts_of_numbers_are_refused(text: str) -> None:
    """Some texts are accepted as numbers by JSON or Python. The parser of numbers refuses such texts."""
    with pytest.raises(hg.ParameterError, match=r"^wait must be a number from 0 to 30, got "):
        numeric.real(text, "wait", 0, 30)
    with pytest.raises(hg.ParameterError, match=r"^parts must be a whole number from 1 to 99, got "):
        numeric.whole(text, "parts", 1, 99)


@pytest.mark.parametrize("value", [None, True, float("nan"), float("inf"), 10**400, 31, -1, [1], 2.5j])
def test_invalid_values_of_numbers_are_refused(value: Any) -> None:
    """Values of JSON and gRPC fields that are not numbers are refused."""
    with pytest.raises(hg.ParameterError, match="wait must be"):
        numeric.real(value, "wait", 0, 30)


def test_numbers() -> None:
    """Numbers within the limits are accepted."""
    assert numeric.real("1.5e1", "wait", 0, 30) == 15.0
    assert numeric.real(30, "wait", 0, 30) == 30.0
    assert numeric.whole("007", "parts", 1, 99) == 7


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e309", "0x10", "%D9%A3", ""])
def test_invalid_numbers_in_requests_are_refused(tenants: Tenants, text: str) -> None:
    """Invalid numbers in query strings and headers are refused by a typed error, before a job is looked up or accepted."""
    asker = tenants.asker("ann")
    job = f"/v1/jobs?id={'x' * 16}&keys={'0' * 64}&model=digits&parts=3"
    paths = [(method, f"{path}wait={text}") for method, path in (("POST", f"{job}&"), ("GET", "/v1/jobs/unknown?"))]
    paths += [("GET", f"/v1/jobs/unknown/answer?wait={text}"), ("GET", f"/v1/jobs/unknown?seen={text}")]
    paths += [("POST", f"{job}&seconds={text}"), ("GET", f"/v1/blobs?limit={text}"), ("GET", f"/v1/models?limit={text}")]
    for method, path in paths:
        status, said = asker.ask(method, path, b"abc" if method == "POST" else None)
        assert (status, said["error"]["name"]) == (400, "ParameterError"), path
        assert "must be a" in said["error"]["text"]
    for name in ("Upload-Offset", "Upload-Length"):
        headers = {"Upload_Offset": "0", "Upload_Length": "5"} | {name.replace("-", "_"): text.replace("%D9%A3", "²")}
        status, said = asker.ask("PUT", f"/v1/blobs/{'0' * 64}", b"abc", **headers)
        assert (status, said["error"]["name"]) == (400, "ParameterError")


# Uploads


def test_unfinished_uploads(tenants: Tenants) -> None:
    """Unfinished uploads hold no file open between requests, and their number per client is limited. Other clients are not
    affected.
    """
    asker, folder = tenants.asker("client0"), Path(f"/proc/{tenants.service.process.pid}/fd")
    before = len(list(folder.iterdir()))
    statuses = [asker.put(b"x", 2, secrets.token_hex(32)) for _ in range(6)]
    assert [status for status, _ in statuses] == [200] * 3 + [507] * 3
    assert statuses[-1][1]["error"]["name"] == "QuotaError"
    assert "at most 3 unfinished uploads" in statuses[-1][1]["error"]["text"]
    assert not [path for path in folder.iterdir() if path.readlink().suffix == ".part"]
    assert len(list(folder.iterdir())) <= before + 1  # the connection that this test uses
    assert tenants.asker("client1").put(b"x", 2, secrets.token_hex(32))[0] == 200


def test_an_upload_without_a_beginning_is_refused(tenants: Tenants) -> None:
    """An upload that begins in the middle is refused and does not count as an unfinished upload."""
    asker = tenants.asker("client2")
    for _ in range(5):
        status, _ = asker.ask("PUT", f"/v1/blobs/{secrets.token_hex(32)}", b"x", Upload_Offset="1", Upload_Length="3")
        assert status == 409
    assert asker.put(b"x", 2, secrets.token_hex(32))[0] == 200


def test_announced_bytes_evict_nothing(tenants: Tenants) -> None:
    """If a client announces or sends more than its share, no objects of clients with fewer bytes are evicted."""
    ann, greedy = tenants.client("ann"), tenants.asker("greedy")
    rig.party(ann)  # uploads 11 MB of the 40 MB capacity
    status, said = greedy.put(b"x", 34 << 20, secrets.token_hex(32))
    assert (status, said["error"]["name"]) == (507, "QuotaError")
    for _ in range(2):
        body = bytes(8 << 20)
        digest = secrets.token_hex(32)
        for start in range(0, 16 << 20, len(body)):
            greedy.ask("PUT", f"/v1/blobs/{digest}", body, Upload_Offset=str(start), Upload_Length=str(18 << 20))
    assert (ann.run(rig.DIGIT) == rig.expected()).all()
    ann.revoke()


def test_objects_of_one_client(tenants: Tenants) -> None:
    """The number of objects per client is limited, and listings are divided into pages."""
    asker = tenants.asker("client3")
    statuses = [asker.put(tiny(n)) for n in range(6)]
    assert [status for status, _ in statuses] == [201] * 5 + [507]
    assert "at most 5 keys and tables" in statuses[-1][1]["error"]["text"]
    digests = sorted(hashlib.sha256(tiny(n)).hexdigest() for n in range(5))
    _, said = asker.ask("GET", "/v1/blobs?limit=3")
    assert [one["digest"] for one in said["blobs"]] == digests[:3]
    _, said = asker.ask("GET", f"/v1/blobs?limit=3&after={said['next']}")
    assert [one["digest"] for one in said["blobs"]] == digests[3:]
    assert "next" not in said
    client = tenants.client("client3", None)
    assert [one["digest"] for one in client.uploads()] == digests
    assert [one["digest"] for one in client.uploads(limit=2, after=digests[1])] == digests[2:4]
    assert [model["name"] for model in client.models(limit=1)] == ["digits"]
    assert client.models(after="digits") == []
    for wrong in (0, -1, True, 2.5):
        with pytest.raises(hg.ParameterError, match="limit must be"):
            client.uploads(limit=wrong)  # type: ignore[arg-type]
    client.revoke(digests[0])
    assert asker.put(tiny(9))[0] == 201  # revoking an object makes room for another


# Jobs


def job_path(client: hg.Client, id: str, nbytes: int, **more: Any) -> str:
    """Returns the path for a job with digits."""
    query = {"id": id, "kind": "run", "model": "digits", "keys": client.keys, "parts": nbytes, "wait": 20} | more
    return "/v1/jobs?" + "&".join(f"{name}={value}" for name, value in query.items())


def test_an_id_of_another_request(tenants: Tenants) -> None:
    """A repeated request gets the same answer. If the body or the parameters differ under the same id, this is a conflict."""
    client, asker = tenants.client("client4"), tenants.asker("client4")
    secret = rig.party(client)
    body, other = (client.model.encrypt(secret, digit).to_bytes() for digit in (rig.DIGIT, rig.DIGIT.T))
    path = job_path(client, "i" * 20, len(body))
    assert asker.ask("POST", path, body)[0] == 200
    assert asker.ask("POST", path, body)[0] == 200
    flipped = body[:-40] + bytes([body[-40] ^ 1]) + body[-39:]
    for wrong in (other, flipped):
        status, said = asker.ask("POST", path, wrong)
        assert (status, said["error"]["name"]) == (409, "ConflictError")
    status, said = asker.ask("POST", job_path(client, "i" * 20, len(body), model="others"), body)
    assert (status, said["error"]["name"]) == (409, "ConflictError")
    assert tenants.service.events("job_ended")[-1]["outcome"] == "done"


def test_incomplete_requests_take_no_place_in_the_queue(tenants: Tenants) -> None:
    """Incomplete requests count as jobs of their client and take no place in the queue. Other clients are served at once."""
    greedy, ann = tenants.client("greedy"), tenants.client("client5")
    greedy.upload_keys(greedy.model.keys(hg.SecretKey.generate(greedy.model.parameters)))
    rig.party(ann)
    nbytes, port = 200_000, tenants.service.ports["http"]
    with contextlib.ExitStack() as held:
        for number in range(8):  # as many jobs as the queue's length
            line = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            path = job_path(greedy, f"half-sent-half-sent-{number}", nbytes)
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenants.tokens['greedy']}\r\n"
            line.sendall(f"{head}Content-Length: {nbytes}\r\n\r\nabc".encode())
        tenants.service.until(lambda: ann.status()["queue"]["unfinished"] == 6)
        assert (ann.run(rig.DIGIT) == rig.expected()).all()
        assert ann.status()["queue"]["waiting"] == 0
    tenants.service.until(lambda: ann.status()["queue"]["unfinished"] == 0)


def test_a_body_must_arrive_at_a_minimum_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first seconds, a request body must arrive at a minimum rate."""

    def latest(begun: float, count: int) -> float:
        """Returns how many seconds remain for a body that began `begun` seconds ago."""
        service: Any = types.SimpleNamespace(settings=Settings())
        return core.Service._latest(service, 1000.0 - begun, count) - 1000.0

    monkeypatch.setattr(
        core, "asyncio", types.SimpleNamespace(get_running_loop=lambda: types.SimpleNamespace(time=lambda: 1000.0))
    )
    assert latest(0, 1) == pytest.approx(30, abs=0.1)
    assert latest(29, 6) == pytest.approx(1, abs=0.1)
    assert latest(29, 1 << 20) == pytest.approx(30, abs=0.1)


# Connections


def served(tenants: Tenants, name: str, model: str = "digits") -> bool:
    """Returns whether a new client of this name gets a correct answer."""
    client = tenants.client(name, model, timeout=rig.PATIENCE)
    rig.party(client)
    return bool((client.run(rig.DIGIT) == rig.expected()).all())


def line(tenants: Tenants, source: str = "127.0.0.1") -> socket.socket:
    """Opens a connection."""
    return socket.create_connection(("127.0.0.1", tenants.service.ports["http"]), rig.PATIENCE, (source, 0))


def test_idle_connections_exclude_no_other_client(tenants: Tenants) -> None:
    """Idle connections from one address do not exclude other clients: those that have been idle longest are closed."""
    kept = tenants.client("client6")
    secret = rig.party(kept)
    with contextlib.ExitStack() as held:
        lines = [held.enter_context(line(tenants)) for _ in range(60)]
        for one in lines[::2]:
            with contextlib.suppress(ConnectionError):
                one.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert served(tenants, "client7")
        assert (kept.run(rig.DIGIT) == rig.expected()).all()
        assert kept._secret is secret
        with contextlib.suppress(ConnectionResetError):  # the service closed the connection while the request was in transit
            assert lines[0].recv(1000)[:15] in (b"", b"HTTP/1.1 200 OK")
        assert len(list(Path(f"/proc/{tenants.service.process.pid}/fd").iterdir())) < 60


def test_concurrent_requests_are_limited(tenants: Tenants) -> None:
    """The number of concurrent requests of a client is limited, over all its addresses. Further requests are told to retry,
    and other clients are served.

    """
    client, token = tenants.client("client8"), tenants.tokens["client8"]
    rig.party(client)
    head = f"Host: x\r\nAuthorization: Bearer {token}\r\n"
    with contextlib.ExitStack() as held:
        lines = [held.enter_context(line(tenants, f"127.0.0.{2 + k % 3}")) for k in range(22)]
        path = job_path(client, "half-sent-half-sent", 200_000)
        lines[0].sendall(f"POST {path} HTTP/1.1\r\n{head}Content-Length: 200000\r\n\r\nabc".encode())
        tenants.service.until(lambda: client.status()["queue"]["unfinished"] == 1)
        for one in lines[1:]:
            one.sendall(f"GET /v1/jobs/half-sent-half-sent?wait=30 HTTP/1.1\r\n{head}\r\n".encode())
        refused = list[socket.socket]()
        while len(refused) < 2:
            refused, _, _ = select.select(lines[1:], [], [], rig.PATIENCE)
        lines[0].sendall(bytes(200_000 - 3))  # this ends the job, so requests that wait for it are answered
        answers = [one.recv(1000) for one in lines[1:]]
        assert sorted(answer[9:12] for answer in answers) == [b"200"] * 19 + [b"503"] * 2
        assert any(b"at most 20 requests in progress" in answer for answer in answers)
    assert served(tenants, "client9")


def test_responses_to_refused_clients_are_delayed() -> None:
    """If a client is refused too often, its responses are delayed more and more, up to a limit. Other clients' responses are
    not delayed.
    """
    clock = Steps()
    pace = Pace(10, 20, 2.0, clock)
    assert [pace.delay("ann") for _ in range(20)] == [0.0] * 20
    assert [pace.delay("ann") for _ in range(2)] == pytest.approx([0.1, 0.2])
    assert max(pace.delay("ann") for _ in range(100)) == pytest.approx(2.0)
    assert pace.delay("bob") == 0.0
    clock.now += 4.0
    assert pace.delay("ann") == 0.0


def test_a_client_that_is_refused_often(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is refused often gets late responses, in the long run 20 a second. Another client gets its responses at
    once.
    """
    asker = Asker(tenants.service, "wrong")
    assert {asker.ask("GET", "/v1/models")[0] for _ in range(30)} == {401}
    clock, pauses = Steps(), list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.now += seconds

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def refused() -> list[int]:
        request = Request({"type": "http", "method": "GET", "path": "/v1/models", "headers": []}, receive)
        counted = types.SimpleNamespace(labels=lambda _: types.SimpleNamespace(inc=lambda: None))
        service: Any = types.SimpleNamespace(
            metrics=types.SimpleNamespace(refusals=counted), log=lambda *_, **__: None, settings=Settings(),
            refusals=Pace(core._REFUSALS, 5 * core._REFUSALS, core._LONGEST_DELAY, clock),
        )  # fmt: skip
        counts = list[int]()
        for address in [*["10.0.0.1"] * 140, *["10.0.0.2"] * 60]:
            answer = await web.Web(service)._refused(request, "models", hg.AccessError("no token"), address)
            assert answer.status_code == 401
            counts.append(len(pauses))
        return counts

    monkeypatch.setattr(web, "asyncio", types.SimpleNamespace(sleep=pause, timeout=asyncio.timeout))
    counts = asyncio.run(refused())
    assert counts == [0] * 100 + list(range(1, 41)) + [40] * 60
    assert sum(pauses) == pytest.approx(40 / core._REFUSALS, rel=0.1)


def test_which_idle_connection_is_closed() -> None:
    """Of the address with the most connections, the connection that has been idle longest is closed. A connection with a
    request in progress does not count as idle.
    """
    ends = list[Any]()

    def accepted(address: str) -> connections.Accepted:
        ours, theirs = socket.socketpair()
        ends.append(theirs)
        one = connections.Accepted(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=ours.detach())
        assert every.admit(one, address)
        return one

    every = connections.Connections(4, 3)
    many, one = [accepted("many") for _ in range(3)], accepted("one")
    every.set_busy(many[0], True)
    other = accepted("other")
    assert many[1].recv(1) == b""  # the service closes this connection
    every.set_busy(many[2], True)
    with pytest.raises(BlockingIOError):
        other.recv(1, socket.MSG_DONTWAIT)
    for each in (*many, one, other, *ends):
        each.close()
    assert len(every) == 0
    addresses = ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8::2%eth0", "2001:db8:0:1::1", "what"]
    assert [connections.address_of((one, 80)) for one in addresses] == [
        *("10.0.0.1", "10.0.0.1", "2001:db8::/64", "2001:db8::/64", "2001:db8:0:1::/64", "")
    ]


def test_frequent_handshakes_wait_while_jobs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """While jobs run, peers that connect often wait for their handshake, and other peers do not. Without jobs no peer waits."""
    clock = Steps()
    clock.now = 0.0  # the loop adds its resolution of 1 ns
    monkeypatch.setattr(connections, "time", types.SimpleNamespace(monotonic=clock))

    async def begun() -> None:
        loop, busy, peers = asyncio.get_running_loop(), True, Counter[str]()
        loop.time = clock  # type: ignore[method-assign]  # timers of the loop run if the test advances the clock

        class Made(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                peers[transport.get_extra_info("peername")[0]] += 1

        async def connect(source: str, count: int) -> list[socket.socket]:
            return [socket.create_connection(listener.getsockname(), 60, (source, 0)) for _ in range(count)]

        async def until(count: int, source: str = "127.0.0.2") -> None:
            while peers[source] < count:
                await asyncio.sleep(0)

        listener = connections.listening("127.0.0.1", 0, connections.Connections(300, 300))
        listener.start(Made, None, lambda: busy)
        lines = await connect("127.0.0.2", 120)
        lines += await connect("127.0.0.3", 5)
        await until(5, "127.0.0.3")
        await until(connections._HANDSHAKE_BURST)
        for turn in range(1, 9):
            assert peers["127.0.0.2"] == connections._HANDSHAKE_BURST + turn - 1
            clock.now += 1 / connections._TURN_RATE
            await until(connections._HANDSHAKE_BURST + turn)
        lines.pop(100).close()  # one of the waiting connections
        busy = False
        clock.now += 1 / connections._TURN_RATE
        await until(119)
        lines += await connect("127.0.0.2", 100)
        await until(219)
        busy = True
        lines += await connect("127.0.0.2", 50)
        listener.close()  # closes the waiting connections
        for _ in range(100):
            await asyncio.sleep(0)
        assert peers["127.0.0.2"] < 240
        for line in lines:
            line.close()

    asyncio.run(begun())


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a client does not read its response, its connection is closed."""
    monkeypatch.setattr(uvicorn_protocol, "_ANSWER_SECONDS", 0.02)
    ended = list[bool]()

    async def unread(message: Any) -> None:
        """Waits for space in the buffer, as uvicorn does for a client that does not read."""
        await asyncio.sleep(60)

    async def answered() -> None:
        transport = types.SimpleNamespace(abort=lambda: ended.append(True), hold=lambda: None, release=lambda: None)
        await uvicorn_protocol._sender(unread, transport)({"type": "http.response.body", "body": b"x"})

    asyncio.run(answered())
    assert ended == [True]


def test_ended_jobs_are_forgotten() -> None:
    """Only a limited number of finished jobs of a client is remembered, even if their answers are small. The finished jobs
    of other clients are kept.

    """
    closed = list[str]()

    def ended(owner: str, number: int) -> Any:
        answer = types.SimpleNamespace(nbytes=0, is_shared=False, close=lambda: closed.append(f"{owner}{number}"))
        return types.SimpleNamespace(owner=owner, ended=time.monotonic() - 9 + number, answer=answer)

    async def dropped() -> set[str]:
        jobs = {f"{owner}{n}": ended(owner, n) for owner, count in (("ann", 2), ("greedy", 5)) for n in range(count)}
        spool = types.SimpleNamespace(sweep=lambda: None)
        service: Any = types.SimpleNamespace(jobs=jobs, settings=Settings(max_ended_jobs_per_client=3), spool=spool)
        core.Service._drop_answers(service)
        return set(jobs)

    assert asyncio.run(dropped()) == {"ann0", "ann1", "greedy2", "greedy3", "greedy4"}
    assert closed == ["greedy1", "greedy0"]


# The store without a service


class Steps:
    """A simulated clock that tests set."""

    now = 1.8e9

    def __call__(self) -> float:
        return self.now


def store_of(folder: Path, **limits: Any) -> tuple[Store, Steps]:
    """Returns a store with limits and a simulated clock."""
    clock = Steps()
    return Store(folder, Settings(**limits), clock, clock), clock


def sent(store: Store, owner: str, body: bytes) -> str:
    """Uploads an object completely and returns its digest."""
    digest = hashlib.sha256(body).hexdigest()
    upload = store.begin(owner, digest, 0, len(body))
    upload.write(body)
    assert store.finish(owner, upload, digest)
    return digest


def test_eviction_between_clients(tmp_path: Path) -> None:
    """The client with the most bytes loses its least recently used objects. If a client would have more bytes than others,
    it loses its own objects.

    """
    size = len(tiny(0))
    store, clock = store_of(tmp_path, store_capacity=4 * size)
    kept = list[str]()
    for owner, number in (("ann", 1), ("bob", 2), ("bob", 3), ("carl", 4)):
        clock.now += 1
        kept.append(sent(store, owner, tiny(number)))
    sent(store, "bob", tiny(5))
    assert {owner: len(store.records(owner)) for owner in ("ann", "bob", "carl")} == {"ann": 1, "bob": 2, "carl": 1}
    with pytest.raises(hg.EvictedKeyError):
        store.path("bob", kept[1], "keys")
    clock.now += 1
    store.path("ann", kept[0], "keys")
    sent(store, "ann", tiny(6))  # bob has as many bytes as ann, and his object is the least recently used
    assert {owner: len(store.records(owner)) for owner in ("ann", "bob", "carl")} == {"ann": 2, "bob": 1, "carl": 1}
    assert store.used_bytes() == 4 * size
    with pytest.raises(hg.QuotaError, match="no room"):
        store.begin("carl", "0" * 64, 0, 4 * size - 1)
    assert {owner: len(store.records(owner)) for owner in ("ann", "bob", "carl")} == {"ann": 2, "bob": 1, "carl": 1}


def test_paused_uploads_are_replaced_and_expire(tmp_path: Path) -> None:
    """A paused upload is dropped to make room for another upload of its client, or of another client if its client has the
    most. All uploads expire.

    """
    store, clock = store_of(tmp_path, max_uploads_per_client=2, max_uploads=3, upload_time_to_live=1000.0)
    for number in range(2):
        store.begin("ann", f"{number}" * 64, 0, 10).write(b"x")
        clock.now += 20
    with pytest.raises(hg.QuotaError, match="at most 2 unfinished"):
        store.begin("ann", "2" * 64, 0, 10)
    store.begin("bob", "0" * 64, 0, 10).write(b"x")
    with pytest.raises(hg.BusyError, match="3 of all clients"):
        store.begin("carl", "0" * 64, 0, 10)
    clock.now += 25
    store.begin("carl", "0" * 64, 0, 10).write(b"x")
    assert store.progress("ann", "0" * 64) == (0, False)  # the first upload of ann was removed
    assert store.progress("ann", "1" * 64) == (1, False)
    clock.now += 1001
    store.sweep()
    assert store.used_bytes() == 0
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e400", "[]", "true"])
def test_an_invalid_clock_file(tmp_path: Path, text: str) -> None:
    """If the clock file of the store has an invalid number, the file is ignored."""
    (tmp_path / "clock.json").write_text(text)
    store, clock = store_of(tmp_path, time_to_live=100.0)
    digest = sent(store, "ann", tiny(1))
    assert store.clock.now() == clock.now
    clock.now += 101
    store.sweep()
    with pytest.raises(hg.ExpiredKeyError):
        store.path("ann", digest, "keys")


def test_records_are_limited_and_revocations_kept(tmp_path: Path) -> None:
    """If a client uploads and revokes repeatedly, only a limited number of records remains. Revocations are never forgotten."""
    store, clock = store_of(tmp_path, max_objects_per_client=3)
    for number in range(8):
        clock.now += 1
        store.revoke("ann", sent(store, "ann", tiny(number)))
    assert len(list(tmp_path.glob("*/*.json"))) == 4  # one more file has the name of the client
    store.close()
    # the store also refuses revoked objects after a restart
    for known in (store, store_of(tmp_path, max_objects_per_client=3)[0]):
        for number in range(8):
            with pytest.raises(hg.RevokedKeyError):
                sent(known, "ann", tiny(number))
