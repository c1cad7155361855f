"""One client cannot stop a service for the others: what each may hold is bounded, and what it says wrong is refused by type."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import secrets
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
from heliograph.serving.store import Bounds, Store
from serving_rig import Running, running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
from heliograph.serving import core, protocol

NO_NUMBERS = ("nan", "NaN", "inf", "-inf", "-1", "1e309", "0x10", "1_0", "", "٣", "1" * 400)


class Asker:
    """A client of HTTP that says what it likes."""

    def __init__(self, service: Running, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", service.ports["http"], timeout=20)
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """The status, and the answer as JSON."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self._connection.request(method, path, body, self._headers | named)
        reply = self._connection.getresponse()
        data = reply.read()
        return reply.status, json.loads(data) if data.startswith(b"{") else {}

    def put(self, body: bytes, total: int | None = None, digest: str | None = None) -> tuple[int, dict[str, Any]]:
        """The first piece of an upload; by default all of it."""
        digest = digest or hashlib.sha256(body).hexdigest()
        length = str(len(body) if total is None else total)
        return self.ask("PUT", f"/v1/blobs/{digest}", body, Upload_Offset="0", Upload_Length=length)


def tiny(number: int) -> bytes:
    """A whole upload of some hundred bytes, which says that it is evaluation keys."""
    about = {"arrays": [], "header": {"i": number}, "type": "heliograph.bfv.evaluation-keys"}
    head = json.dumps(about, separators=(",", ":"), sort_keys=True).encode()
    aligned = -(-(32 + len(head)) // 64) * 64
    body = bytes.fromhex("8948454c494f0d0a") + struct.pack("<IIQQ", 2, 0, len(head), aligned + 32) + head
    body += bytes(aligned - len(body))
    return body + hashlib.sha256(body).digest()


LIMITS = (
    "--max-connections-per-client",
    "20",
    "--queue",
    "8",
    "--jobs",
    "6",
    "--max-objects-per-client",
    "5",
    "--max-uploads-per-client",
    "3",
    "--capacity",
    "40M",
    "--quota",
    "36M",
)


class Tenants:
    """A service with small limits, and who asks it."""

    def __init__(self, service: Running, tokens: dict[str, str], model: Path) -> None:
        self.service, self.tokens, self.model = service, tokens, model

    def asker(self, name: str) -> Asker:
        """A client that says what it likes."""
        return Asker(self.service, self.tokens[name])

    def client(self, name: str, model: str | None = "digits", **options: Any) -> hg.Client:
        """A client as it should be."""
        return hg.Client(f"http://127.0.0.1:{self.service.ports['http']}", model=model, token=self.tokens[name], **options)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """One service for all tests; each has clients of its own."""
    folder = tmp_path_factory.mktemp("hostile")
    model = rig.seal(folder)[0]
    tokens = rig.tokens(folder / "tokens", *(f"client{n}" for n in range(20)), "ann", "greedy")
    with running(model, "--store", folder / "store", "--tokens", folder / "tokens", *LIMITS) as service:
        yield Tenants(service, tokens, model)


# Numbers


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number(text: str) -> None:
    """Neither a text nor what JSON and Python make of it passes the one parser."""
    with pytest.raises(hg.ParameterError, match=r"^wait must be a number from 0 to 30, got "):
        numeric.real(text, "wait", 0, 30)
    with pytest.raises(hg.ParameterError, match=r"^parts must be a whole number from 1 to 99, got "):
        numeric.whole(text, "parts", 1, 99)


@pytest.mark.parametrize("value", [None, True, float("nan"), float("inf"), 10**400, 31, -1, [1], 2.5j])
def test_values_that_are_no_numbers(value: Any) -> None:
    """Of JSON and of gRPC's fields."""
    with pytest.raises(hg.ParameterError, match="wait must be"):
        numeric.real(value, "wait", 0, 30)


def test_numbers() -> None:
    """Within their bounds."""
    assert numeric.real("1.5e1", "wait", 0, 30) == 15.0
    assert numeric.real(30, "wait", 0, 30) == 30.0
    assert numeric.whole("007", "parts", 1, 99) == 7


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e309", "0x10", "%D9%A3", ""])
def test_numbers_in_questions(tenants: Tenants, text: str) -> None:
    """No number of a question reaches a timer unchecked: a typed refusal each time, before a job is looked for or accepted."""
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
    """They hold no file of the process between requests, and are as many as a client may have; another client is not touched."""
    asker, folder = tenants.asker("client0"), Path(f"/proc/{tenants.service.process.pid}/fd")
    before = len(list(folder.iterdir()))
    statuses = [asker.put(b"x", 2, secrets.token_hex(32)) for _ in range(6)]
    assert [status for status, _ in statuses] == [200] * 3 + [507] * 3
    assert statuses[-1][1]["error"]["name"] == "QuotaError"
    assert "at most 3 unfinished uploads" in statuses[-1][1]["error"]["text"]
    assert not [path for path in folder.iterdir() if path.readlink().suffix == ".part"]
    assert len(list(folder.iterdir())) <= before + 1  # this connection
    assert tenants.asker("client1").put(b"x", 2, secrets.token_hex(32))[0] == 200


def test_an_upload_that_goes_on_nowhere_leaves_nothing(tenants: Tenants) -> None:
    """One that begins in the middle takes no place."""
    asker = tenants.asker("client2")
    for _ in range(5):
        status, _ = asker.ask("PUT", f"/v1/blobs/{secrets.token_hex(32)}", b"x", Upload_Offset="1", Upload_Length="3")
        assert status == 409
    assert asker.put(b"x", 2, secrets.token_hex(32))[0] == 200


def test_announced_bytes_take_nothing(tenants: Tenants) -> None:
    """A client that announces, or sends, more than its share makes nobody give way who has less."""
    ann, greedy = tenants.client("ann"), tenants.asker("greedy")
    rig.party(ann)  # 11 MB of 40
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
    """As many as it may have; listings come in pages."""
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
    assert asker.put(tiny(9))[0] == 201  # what was taken back leaves its place


# Jobs


def job_path(client: hg.Client, id: str, nbytes: int, **more: Any) -> str:
    """Of a run of digits."""
    query = {"id": id, "kind": "run", "model": "digits", "keys": client.keys, "parts": nbytes, "wait": 20} | more
    return "/v1/jobs?" + "&".join(f"{name}={value}" for name, value in query.items())


def test_an_id_of_another_request(tenants: Tenants) -> None:
    """The same request again has the same answer; another body, or other words, under its id are a conflict."""
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
    assert tenants.service.events("job")[-1]["outcome"] == "done"


def test_half_sent_requests_take_no_place_in_the_queue(tenants: Tenants) -> None:
    """As many of one client as it may have jobs; others are served at once."""
    greedy, ann = tenants.client("greedy"), tenants.client("client5")
    greedy.upload_keys(greedy.model.keys(hg.SecretKey.generate(greedy.model.parameters)))
    rig.party(ann)
    nbytes, port = 200_000, tenants.service.ports["http"]
    with contextlib.ExitStack() as held:
        for number in range(8):  # as long as the queue
            line = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            path = job_path(greedy, f"half-sent-half-sent-{number}", nbytes)
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenants.tokens['greedy']}\r\n"
            line.sendall(f"{head}Content-Length: {nbytes}\r\n\r\nabc".encode())
        tenants.service.until(lambda: ann.status()["queue"]["unfinished"] == 6)
        assert (ann.run(rig.DIGIT) == rig.expected()).all()
        assert ann.status()["queue"]["waiting"] == 0
    tenants.service.until(lambda: ann.status()["queue"]["unfinished"] == 0)


def test_the_slowest_body() -> None:
    """A byte now and then does not keep a request alive: beyond the first seconds it must come at a rate."""

    async def latest(start: float, count: int) -> float:
        service: Any = types.SimpleNamespace(limits=core.Limits(idle=30.0))
        return core.Service._latest(service, start, count) - asyncio.get_running_loop().time()

    now = time.monotonic()
    assert asyncio.run(latest(now, 1)) == pytest.approx(30, abs=1)
    assert asyncio.run(latest(now - 29, 6)) == pytest.approx(1, abs=1)
    assert asyncio.run(latest(now - 29, 1 << 20)) == pytest.approx(30, abs=1)


# Connections


def served(tenants: Tenants, name: str, model: str = "digits") -> bool:
    """Whether a new client of that name has its answer."""
    client = tenants.client(name, model, timeout=20.0)
    rig.party(client)
    return bool((client.run(rig.DIGIT) == rig.expected()).all())


def line(tenants: Tenants, source: str = "127.0.0.1") -> socket.socket:
    """A connection."""
    return socket.create_connection(("127.0.0.1", tenants.service.ports["http"]), 20, (source, 0))


def test_idle_connections(tenants: Tenants) -> None:
    """Those of one address, which say something once or nothing at all, keep out nobody: the longest idle ones are closed."""
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
        assert lines[0].recv(1000)[:15] in (b"", b"HTTP/1.1 200 OK")
        assert len(list(Path(f"/proc/{tenants.service.process.pid}/fd").iterdir())) < 60


def test_requests_in_progress(tenants: Tenants) -> None:
    """One client may have so many, from however many addresses; then it is told to wait, and another is served."""
    client, token = tenants.client("client8"), tenants.tokens["client8"]
    rig.party(client)
    head = f"Host: x\r\nAuthorization: Bearer {token}\r\n"
    with contextlib.ExitStack() as held:
        lines = [held.enter_context(line(tenants, f"127.0.0.{2 + k % 3}")) for k in range(22)]
        path = job_path(client, "half-sent-half-sent", 200_000)
        lines[0].sendall(f"POST {path} HTTP/1.1\r\n{head}Content-Length: 200000\r\n\r\nabc".encode())
        tenants.service.until(lambda: client.status()["queue"]["unfinished"] == 1)
        for one in lines[1:]:
            one.sendall(f"GET /v1/jobs/half-sent-half-sent?wait=1 HTTP/1.1\r\n{head}\r\n".encode())
        answers = [one.recv(1000) for one in lines[1:]]
        assert sorted(answer[9:12] for answer in answers) == [b"200"] * 19 + [b"503"] * 2
        assert any(b"at most 20 in progress" in answer for answer in answers)
    assert served(tenants, "client9")


def test_answers_that_are_held_back() -> None:
    """Of a client that asks, or is refused, too often: longer and longer, and within bounds; others are not held back."""
    clock = Steps()
    pace = Pace(10, 20, 2.0, clock)
    assert [pace.delay("ann") for _ in range(20)] == [0.0] * 20
    assert [pace.delay("ann") for _ in range(2)] == pytest.approx([0.1, 0.2])
    assert max(pace.delay("ann") for _ in range(100)) == pytest.approx(2.0)
    assert pace.delay("bob") == 0.0
    clock.now += 4.0
    assert pace.delay("ann") == 0.0


def test_a_client_that_is_refused_often(tenants: Tenants) -> None:
    """It hears it late, and takes no more than its part of the service's time."""
    asker = Asker(tenants.service, "wrong")
    start, statuses = time.monotonic(), list[int]()
    while time.monotonic() - start < 0.8:
        statuses.append(asker.ask("GET", "/v1/models")[0])
    assert set(statuses) == {401}
    assert len(statuses) < 140


def test_whose_connection_is_closed() -> None:
    """Of the address with the most, the longest idle; a request in progress is none of these."""
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
    assert many[1].recv(1) == b""  # closed
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


def test_handshakes_take_turns_while_jobs_are_computed() -> None:
    """A peer that connects often waits; another one does not. Without jobs nobody waits."""

    async def begun() -> None:
        loop, busy, peers = asyncio.get_running_loop(), True, Counter[str]()

        class Made(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                peers[transport.get_extra_info("peername")[0]] += 1

        async def connect(source: str, count: int) -> list[socket.socket]:
            lines = [socket.create_connection(listener.getsockname(), 10, (source, 0)) for _ in range(count)]
            await asyncio.sleep(0.05)
            return lines

        listener = connections.listening("127.0.0.1", 0, connections.Connections(300, 300))
        listener.start(Made, None, lambda: busy)
        lines, start = await connect("127.0.0.2", 120), loop.time()
        assert peers["127.0.0.2"] < 90
        lines += await connect("127.0.0.3", 5)
        assert peers["127.0.0.3"] == 5
        while peers["127.0.0.2"] < 72:
            await asyncio.sleep(0.01)
        assert loop.time() - start > 0.3  # of 10 a second
        lines.pop(100).close()  # one that waits
        busy = False
        while peers["127.0.0.2"] < 119:
            await asyncio.sleep(0.01)
        lines += await connect("127.0.0.2", 100)
        assert peers["127.0.0.2"] >= 219
        busy = True
        lines += await connect("127.0.0.2", 50)
        listener.close()  # those that wait end
        await asyncio.sleep(0.2)
        assert peers["127.0.0.2"] < 240
        for line in lines:
            line.close()

    asyncio.run(begun())


def test_an_answer_that_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of a client that does not read ends."""
    monkeypatch.setattr(protocol, "_UNREAD_SECONDS", 0.02)
    ended = list[bool]()

    class Cycle:
        """uvicorn's, whose client does not read."""

        transport = types.SimpleNamespace(abort=lambda: ended.append(True), writelines=lambda _: None)

        async def send(self, message: Any) -> None:
            """Waits until there is room."""
            await asyncio.sleep(60)

    async def answered() -> None:
        send = protocol._joined(Cycle().send)
        await send({"type": "http.response.start"})
        await send({"type": "http.response.body", "body": b"x"})

    asyncio.run(answered())
    assert ended == [True]


def test_what_ended_is_forgotten() -> None:
    """Of one client's ended jobs only so many are known, however small their answers are; another's are kept."""
    closed = list[str]()

    def ended(owner: str, number: int) -> Any:
        answer = types.SimpleNamespace(nbytes=0, is_lent=False, close=lambda: closed.append(f"{owner}{number}"))
        return types.SimpleNamespace(owner=owner, ended=time.monotonic() - 9 + number, answer=answer)

    async def dropped() -> set[str]:
        jobs = {f"{owner}{n}": ended(owner, n) for owner, count in (("ann", 2), ("greedy", 5)) for n in range(count)}
        spool = types.SimpleNamespace(sweep=lambda: None)
        service: Any = types.SimpleNamespace(jobs=jobs, limits=core.Limits(kept_jobs=3), spool=spool)
        core.Service._drop_answers(service)
        return set(jobs)

    assert asyncio.run(dropped()) == {"ann0", "ann1", "greedy2", "greedy3", "greedy4"}
    assert closed == ["greedy1", "greedy0"]


# The store alone


class Steps:
    """A clock that a test sets."""

    now = 1.8e9

    def __call__(self) -> float:
        return self.now


def store_of(folder: Path, **bounds: Any) -> tuple[Store, Steps]:
    """With bounds, and a clock."""
    clock = Steps()
    return Store(folder, Bounds(**bounds), clock, clock), clock


def sent(store: Store, owner: str, body: bytes) -> str:
    """A whole upload."""
    digest = hashlib.sha256(body).hexdigest()
    upload = store.begin(owner, digest, 0, len(body))
    upload.write(body)
    assert store.finish(owner, upload, digest)
    return digest


def test_who_gives_way(tmp_path: Path) -> None:
    """The client with the most bytes, of its own what was used least recently; one that takes more than others gives way itself."""
    size = len(tiny(0))
    store, clock = store_of(tmp_path, capacity=4 * size)
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
    sent(store, "ann", tiny(6))  # bob has as many, of which one was used longest ago
    assert {owner: len(store.records(owner)) for owner in ("ann", "bob", "carl")} == {"ann": 2, "bob": 1, "carl": 1}
    assert store.used_bytes() == 4 * size
    with pytest.raises(hg.QuotaError, match="no room"):
        store.begin("carl", "0" * 64, 0, 4 * size - 1)
    assert {owner: len(store.records(owner)) for owner in ("ann", "bob", "carl")} == {"ann": 2, "bob": 1, "carl": 1}


def test_unfinished_uploads_give_way_and_expire(tmp_path: Path) -> None:
    """One that rests gives way to another of its client, or of the client that has the most; all of them expire."""
    store, clock = store_of(tmp_path, uploads=2, all_uploads=3, upload_time_to_live=1000.0)
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
    assert store.progress("ann", "0" * 64) == (0, False)  # ann's first gave way
    assert store.progress("ann", "1" * 64) == (1, False)
    clock.now += 1001
    store.sweep()
    assert store.used_bytes() == 0
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e400", "[]", "true"])
def test_a_clock_that_is_no_number(tmp_path: Path, text: str) -> None:
    """A file of the store that says no number of seconds says nothing."""
    (tmp_path / "clock.json").write_text(text)
    store, clock = store_of(tmp_path, time_to_live=100.0)
    digest = sent(store, "ann", tiny(1))
    assert store.ages.now() == clock.now
    clock.now += 101
    store.sweep()
    with pytest.raises(hg.ExpiredKeyError):
        store.path("ann", digest, "keys")


def test_what_has_gone_is_forgotten_in_the_end(tmp_path: Path) -> None:
    """A client that uploads and takes back without end leaves as many records as it may have objects; no revocation is forgotten."""
    store, clock = store_of(tmp_path, objects=3)
    for number in range(8):
        clock.now += 1
        store.revoke("ann", sent(store, "ann", tiny(number)))
    assert len(list(tmp_path.glob("*/*.json"))) == 4  # with the client's name
    store.close()
    for known in (store, store_of(tmp_path, objects=3)[0]):  # what was revoked is known for good, after a start too
        for number in range(8):
            with pytest.raises(hg.RevokedKeyError):
                sent(known, "ann", tiny(number))
