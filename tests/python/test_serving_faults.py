"""A service when things go wrong: killed processes, full disks, too many jobs, slow and greedy clients, a stop in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
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
from heliograph.serving import asking
from serving_rig import DIGIT, Running, expected, go_on, party, running, stop

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Sealed once."""
    return rig.seal(tmp_path_factory.mktemp("models"))


@pytest.fixture
def digits(models: list[Path], tmp_path: Path) -> Iterator[Running]:
    """A service of one's own."""
    with running(models[0], "--store", tmp_path / "store", "--queue", "3", "--jobs", "3") as service:
        yield service


def client_of(service: Running, model: str | None = "digits", **options: Any) -> hg.Client:
    """By HTTP alone."""
    return hg.Client(f"http://127.0.0.1:{service.ports['http']}", model=model, **options)


class Asking(threading.Thread):
    """A run on another thread, and what came of it."""

    def __init__(self, client: hg.Client, **options: Any) -> None:
        super().__init__(daemon=True)
        self.client, self.options, self.came = client, options, None
        self.start()

    def run(self) -> None:
        """What came, a result or an error."""
        try:
            self.came: Any = self.client.run(DIGIT, **self.options)
        except hg.HeliographError as error:
            self.came = error

    def result(self) -> Any:
        """Once it is there."""
        self.join(30)
        return self.came


# Killed


def test_an_engine_that_is_killed(digits: Running) -> None:
    """In the middle of a job: another engine does it, with the keys that are there."""
    client = client_of(digits)
    party(client)
    (engine,) = digits.engines()
    stop(engine)
    asking = Asking(client)
    digits.until(lambda: client.status()["engines"][0]["jobs"])
    os.kill(engine, signal.SIGKILL)
    assert np.array_equal(asking.result(), expected())
    assert digits.events("engine ended")
    assert digits.engines() != [engine]
    jobs = digits.until(lambda: len(told := digits.events("job")) == 2 and told)  # the log is read by another thread
    assert [words["attempts"] for words in jobs] == [1, 2]


def test_an_engine_that_is_killed_again_and_again(models: list[Path], tmp_path: Path) -> None:
    """A job at which two engines ended is answered by a DeviceError, and the next is computed."""
    with running(*models, "--store", tmp_path / "store") as service:
        client, quick = client_of(service, "slow"), client_of(service)
        party(client)
        party(quick)
        asking, before = Asking(client), list[int]()
        for _ in range(2):

            def busy(before: list[int] = before) -> Any:
                engines = service.engines()
                return engines not in ([], before) and client.status()["engines"][0]["jobs"] and engines

            before = service.until(busy)
            os.kill(before[0], signal.SIGKILL)
        came = asking.result()
        assert isinstance(came, hg.DeviceError)
        assert "2 times" in str(came)
        assert np.array_equal(quick.run(DIGIT), expected())


def test_a_service_that_is_killed(models: list[Path], tmp_path: Path) -> None:
    """With jobs and an upload under way: a new one has the keys and the upload's bytes; the client's call gets its answer there."""
    arguments = [models[0], "--store", tmp_path / "store"]
    with running(*arguments) as first:
        client = client_of(first, timeout=30.0)
        secret = party(client)
        data = client.model.keys(secret).to_bytes()
        client._piece("0" * 64, memoryview(data)[: 4 << 20], 0, len(data))
        stop(*first.engines())
        asking = Asking(client)
        digits = first.until(lambda: client_of(first, None).status()["queue"]["unfinished"])
        assert digits == 1
        (engine,) = first.engines()
        first.process.kill()
        go_on(engine)
        first.ended()
        first.until(
            lambda: not Path(f"/proc/{engine}").exists() or "Z" in Path(f"/proc/{engine}/stat").read_text().split()[2]
        )
    with running(*arguments) as second:
        moved = client_of(second, secret=secret, keys=client.keys)
        assert np.array_equal(moved.run(DIGIT), expected())
        assert moved._line.ask("HEAD", f"/v1/blobs/{'0' * 64}", until=time.monotonic() + 5).headers["Upload-Offset"] == str(
            4 << 20
        )
        client._line.port = second.ports["http"]  # where its service is again
        assert np.array_equal(asking.result(), expected())


# Too much


def test_too_many_jobs(digits: Running) -> None:
    """Beyond the queue: BusyError that says when to come again, until it may; nothing is lost of what was accepted."""
    client = client_of(digits)
    party(client)
    (engine,) = digits.engines()
    stop(engine)
    asking = [Asking(client) for _ in range(3)]
    digits.until(lambda: client.status()["queue"]["unfinished"] == 3)
    with pytest.raises(hg.BusyError, match="have not ended") as caught:
        client_of(digits, secret=client._secret, keys=client.keys, timeout=0.5).run(DIGIT)
    assert caught.value.retry_after > 0
    patient = Asking(client)
    go_on(engine)
    for one in (*asking, patient):
        assert np.array_equal(one.result(), expected())


def test_cancelled_tasks_hold_up_nobody(models: list[Path], tmp_path: Path) -> None:
    """More tasks than threads: one that is cancelled ends at once, and what had not begun is never sent."""
    with running(*models, "--store", tmp_path / "store", "--jobs", "64") as service:
        client = client_of(service, "slow")
        party(client)

        async def several() -> tuple[bool, list[Any]]:
            tasks = [asyncio.create_task(client.arun(DIGIT)) for _ in range(60)]
            await asyncio.sleep(0.1)
            tasks[-1].cancel()
            await asyncio.wait([tasks[-1]])
            waited = tasks[-2].done()
            for task in tasks[1:]:
                task.cancel()
            return waited, await asyncio.gather(*tasks, return_exceptions=True)

        waited, came = asyncio.run(several())
        assert not waited  # for those before it
        assert np.array_equal(came[0], expected())
        assert all(isinstance(one, asyncio.CancelledError) for one in came[1:])
        service.until(lambda: client.status()["queue"]["unfinished"] == 0)
        sent = sum(e["kind"] == "run" for e in service.events("job"))
        assert sent <= asking._MOST  # those that had begun: calls at once, whose threads wait for the first of them


def test_a_client_that_asks_too_often(models: list[Path], tmp_path: Path) -> None:
    """A typed refusal, within the rate none; another client is not touched."""
    tokens = rig.tokens(tmp_path / "tokens", "ann", "bob")
    with running(models[0], "--store", tmp_path / "store", "--rate", "2", "--tokens", tmp_path / "tokens") as service:
        ann, bob = (client_of(service, token=tokens[name]) for name in ("ann", "bob"))
        keys = ann.model.keys(hg.SecretKey.generate(ann.model.parameters))
        ann.upload_keys(keys)
        query = f"/v1/jobs?kind=session&model=digits&keys={ann.keys}&id=often-often-often-"

        def often() -> None:
            for k in range(4):
                ann._line.once("POST", f"{query}{k}")

        with pytest.raises(hg.RateError, match="at most 2 requests a second") as caught:
            often()
        assert 0 < caught.value.retry_after <= 0.5
        bob.upload_keys(keys)
        ann.upload_keys(keys)  # the client waits as it is told


def test_memory_beyond_the_engine(models: list[Path], tmp_path: Path) -> None:
    """A model that an engine has no room for is refused at the start, in one line."""
    done = command(["serve", str(models[1]), "--store", str(tmp_path), "--memory", "100M", "--port", "0"])
    assert done == 1


def test_quota_and_eviction(models: list[Path], tmp_path: Path) -> None:
    """A client's own bytes are bounded; beyond all clients' what was used least recently goes, and says so."""
    tokens = rig.tokens(tmp_path / "tokens", "ann", "bob", "carl")
    limits = ["--quota", "25M", "--capacity", "30M", "--tokens", tmp_path / "tokens"]
    with running(models[0], "--store", tmp_path / "store", *limits) as service:
        ann, bob, carl = (client_of(service, token=token) for token in tokens.values())
        party(ann)
        first = ann.keys
        party(ann)
        with pytest.raises(hg.QuotaError, match=r"of yours; 25\.0 MiB may be"):
            party(ann)
        party(bob)  # ann's first keys give way
        party(carl)
        with pytest.raises(hg.EvictedKeyError, match="upload them again"):
            client_of(service, token=tokens["ann"], secret=ann._secret, keys=first).run(DIGIT)
        assert np.array_equal(carl.run(DIGIT), expected())


def test_keys_that_nobody_uses_go(models: list[Path], tmp_path: Path) -> None:
    """After their time."""
    with running(models[0], "--store", tmp_path / "store", "--time-to-live", "1s") as service:
        client = client_of(service)
        party(client)
        time.sleep(1.2)
        with pytest.raises(hg.ExpiredKeyError, match="not used for as long"):
            client.run(DIGIT)
        assert not list((tmp_path / "store").rglob("*.hg"))


def test_a_store_that_others_touch(models: list[Path], tmp_path: Path) -> None:
    """Another service is refused; foreign files are left alone; keys that the disk damaged or lost are asked for again."""
    arguments = [models[0], "--store", tmp_path / "store"]
    (tmp_path / "store" / ("a" * 32)).mkdir(parents=True)
    (tmp_path / "store" / ("a" * 32) / "owner.json").write_text('{"no": "name"}')
    (tmp_path / "store" / "notes").write_text("mine")
    with running(*arguments) as service:
        client = client_of(service)
        secret = party(client)
        (path,) = (tmp_path / "store").glob("*/*.hg")
        (path.parent / f"{'1' * 64}.hg").write_bytes(b"none of ours")
        again = [sys.executable, "-m", "heliograph.cli", "serve", *map(str, arguments), "--port", "0"]
        refused = subprocess.run(again, capture_output=True, text=True, timeout=60, env=rig.environment_of_tests())
        assert (refused.returncode, refused.stderr.count("another service runs with the store")) == (1, 1)
        os.kill(service.engines()[0], signal.SIGKILL)
        path.write_bytes(path.read_bytes()[:-40] + bytes(40))
        with pytest.raises(hg.EvictedKeyError, match="damaged on the service's disk"):
            client.run(DIGIT)
        client._keys = client._upload(memoryview(client.model.keys(secret).to_bytes()), None)
        assert np.array_equal(client.run(DIGIT), expected())
        for kept in (tmp_path / "store").glob("*/*.hg"):
            kept.unlink()
        with pytest.raises(hg.EvictedKeyError):
            client.run(DIGIT)
    with running(*arguments):
        assert (tmp_path / "store" / "notes").read_text() == "mine"


def test_a_full_disk(models: list[Path], tmp_path: Path) -> None:
    """Files of 8 MB at most: an upload of 11 MB is a QuotaError, and the service goes on."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))

    with running(*models, "--store", tmp_path / "store", before=limited) as service:
        client = client_of(service)
        with pytest.raises(hg.QuotaError, match="disk is full"):
            party(client)
        other = client_of(service, "slow")
        party(other)  # less than a megabyte
        with pytest.raises(hg.QuotaError, match="disk is full"):
            other.run(DIGIT)  # a request of 12 MB
        assert client.status()["queue"]["unfinished"] == 0


def test_a_slow_client(digits: Running) -> None:
    """One that sends nothing holds up nobody; what it began is let go when it leaves."""
    client = client_of(digits)
    party(client)
    with socket.create_connection(("127.0.0.1", digits.ports["http"])) as line:
        query = f"id=slowslowslowslow&model=digits&keys={client.keys}&parts=200000"
        line.sendall(f"POST /v1/jobs?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\nabc".encode())
        digits.until(lambda: client.status()["queue"]["unfinished"] == 1)
        for _ in range(3):
            assert np.array_equal(client.run(DIGIT), expected())
    digits.until(lambda: client.status()["queue"]["unfinished"] == 0)
    assert len(list(spool(digits).iterdir())) <= 5  # its own is gone


def sent(service: Running, data: bytes, times: int) -> int:
    """How many times a peer could send the same before the service ended its connection."""
    with socket.create_connection(("127.0.0.1", service.ports["http"])) as line:
        line.settimeout(5)
        for count in range(times):
            try:
                line.sendall(data)
            except OSError:
                return count
    return times


def test_heads_and_bodies_without_end(digits: Running) -> None:
    """Neither takes memory, or a connection, for as long as somebody sends."""
    before = digits.memory()
    assert sent(digits, b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 60_000 + b"\r\n", 2000) < 500
    assert sent(digits, b"GET / HTTP/1.1\r\nA: " + b"x" * (1 << 20), 100) < 20
    chunks = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    head = b"%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for refused in (head % b"POST /v1/jobs", head % b"GET /readyz", head % b"PUT /nowhere"):
        assert sent(digits, refused + chunks * 16, 1) == 1
        with socket.create_connection(("127.0.0.1", digits.ports["http"])) as line:
            line.settimeout(20)
            line.sendall(refused)
            with pytest.raises(ConnectionError):
                line.sendall(chunks * 6400)
    assert digits.memory() - before < 48 << 20
    client = client_of(digits)
    party(client)
    assert np.array_equal(client.run(DIGIT), expected())


def test_the_end_of_a_body_is_no_head() -> None:
    """However much comes at once, as it does through TLS on a busy machine."""
    from heliograph.serving.bounds import bounded
    from heliograph.serving.connections import Connections

    ended = list[bool]()

    class Base:
        """A parser of three words."""

        cycle = None
        headers = ((b"content-length", b"9999999"),)

        def data_received(self, data: bytes) -> None:
            """Begins or ends a message, or does neither."""
            word = {b"h": "on_headers_complete", b"e": "on_message_complete"}.get(data[:1])
            if word is not None:
                getattr(self, word)()

        def on_headers_complete(self) -> None:
            """Of uvicorn's."""

        on_message_complete = on_headers_complete

    made = bounded(Base, Connections(9, 9))()
    made.transport = types.SimpleNamespace(abort=lambda: ended.append(True))
    made.loop = types.SimpleNamespace(call_later=lambda *_: types.SimpleNamespace(cancel=lambda: None))
    for data in (b"h" * 4, b"b" * (1 << 20), b"e" * (1 << 20), b"h" * (1 << 20), b"e"):
        made.data_received(data)
        assert not ended
    made.data_received(b"a" * (1 << 20))
    assert ended


def test_more_connections_than_files(models: list[Path], tmp_path: Path) -> None:
    """Those beyond what a process may open are closed, the others are served, and the log stays short."""
    few = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (64, 192))
    with running(models[0], "--store", tmp_path / "store", before=few) as service, contextlib.ExitStack() as open_ones:
        client = client_of(service)
        party(client)
        for _ in range(400):
            line = open_ones.enter_context(socket.socket())
            line.settimeout(2)
            with contextlib.suppress(OSError):
                line.connect(("127.0.0.1", service.ports["http"]))
        service.until(
            lambda: len(list(Path(f"/proc/{service.process.pid}/fd").iterdir())) < 90, 8
        )  # before their silence is over
        open_ones.close()
        assert np.array_equal(client.run(DIGIT), expected())
        assert len(service.lines) < 40, service.text[:3000]


def spool(service: Running) -> Path:
    """Where its requests lie."""
    arguments = list(map(str, service.process.args))  # type: ignore[call-overload]
    return Path(arguments[arguments.index("--store") + 1]) / "spool"


# A stop


def test_a_graceful_stop(models: list[Path], tmp_path: Path) -> None:
    """SIGTERM: accepted jobs end with their answers, new ones are refused, and the status is 0."""
    with running(models[1], "--store", tmp_path / "store") as service:
        client = client_of(service, "slow")
        party(client)
        asking = [Asking(client), Asking(client)]
        service.until(lambda: client.status()["queue"]["unfinished"] == 2)
        service.signal(signal.SIGTERM)
        service.until(lambda: service.events("stopping"))
        with pytest.raises(hg.BusyError, match="stopping"):
            client_of(service, "slow", secret=client._secret, keys=client.keys, timeout=1.0).run(DIGIT)
        for one in asking:
            assert np.array_equal(one.result(), expected())
        assert service.ended() == 0
        assert service.events("stopped")
        assert not list((tmp_path / "store").glob("spool/*"))


def test_memory_stays_flat(models: list[Path], tmp_path: Path) -> None:
    """While 137 MB of keys stream in, the service's own process takes no more than some pieces of them."""
    with running(models[0], "--store", tmp_path / "store") as service:
        client = client_of(service)
        secret = hg.SecretKey.generate(client.model.parameters)
        needs = client.model.needs
        keys = secret.evaluation_keys(**needs | {"rotations": sorted({*needs["rotations"], *range(1, 170)})})
        assert len(keys.to_bytes()) > 120 << 20
        before = service.memory()
        client.upload_keys(keys)
        assert service.memory() - before < 40 << 20
        assert service.memory() < 256 << 20


def test_where_others_could_read(models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beyond this machine only with TLS and names of clients, unless it is meant."""
    assert command(["serve", str(models[0]), "--store", str(tmp_path), "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "--tls" in capsys.readouterr().err
    assert command(["serve", str(models[0]), "--store", str(tmp_path), "--clients", "x", "--port", "0"]) == 1
    assert "TLS" in capsys.readouterr().err
