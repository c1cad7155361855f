"""Tests a service under faults: killed processes, full disks, too many jobs, slow clients, clients beyond their limits, and
a shutdown while jobs run.
"""

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
from heliograph.client import async_calls
from serving_rig import DIGIT, Running, client_of, expected, go_on, party, running, stop

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Writes the model files once."""
    return rig.export(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def digits(models: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Runs a service that has small limits."""
    store = tmp_path_factory.mktemp("faults") / "store"
    with running(models[0], "--store", store, "--max-queue", "3", "--max-jobs-per-client", "3") as service:
        yield service


class Asking(threading.Thread):
    """Runs a job on a separate thread and holds its result."""

    def __init__(self, client: hg.Client, **options: Any) -> None:
        super().__init__(daemon=True)
        self.client, self.options, self.came = client, options, None
        self.start()

    def run(self) -> None:
        """Stores the result or the error."""
        try:
            self.came: Any = self.client.run(DIGIT, **self.options)
        except hg.HeliographError as error:
            self.came = error

    def result(self) -> Any:
        """Waits for the result."""
        self.join(rig.PATIENCE)
        return self.came


# Killed processes


def test_an_engine_that_is_killed(digits: Running) -> None:
    """If an engine is killed while it runs a job, another engine runs the job with the stored keys."""
    before, client = len(digits.events("job_ended")), client_of(digits)
    party(client)
    (engine,) = digits.engines()
    stop(engine)
    asking = Asking(client)
    digits.until(lambda: client.status()["engines"][0]["jobs"])
    os.kill(engine, signal.SIGKILL)
    assert np.array_equal(asking.result(), expected())
    assert digits.events("engine_restarted")
    assert digits.engines() != [engine]
    jobs = digits.until(
        lambda: len(told := digits.events("job_ended")[before:]) == 2 and told
    )  # another thread of the test reads the log
    assert [words["attempts"] for words in jobs] == [1, 2]


def test_a_job_that_ends_two_engines_is_refused(models: list[Path], tmp_path: Path) -> None:
    """If two engines have ended while they ran a job, the answer is a DeviceError, and the next job is computed."""
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
    """If a service is killed during jobs and an upload, it restarts with the keys and with the bytes of the upload. The call
    of the client succeeds.

    """
    arguments = [models[0], "--store", tmp_path / "store"]
    with running(*arguments) as first:
        client = client_of(first, timeout=rig.PATIENCE)
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
        told = moved._http.ask("HEAD", f"/v1/blobs/{'0' * 64}", until=time.monotonic() + rig.PATIENCE)
        assert told.headers["Upload-Offset"] == str(4 << 20)
        client._http.port = second.ports["http"]  # the restarted service has another port
        assert np.array_equal(asking.result(), expected())


# Overload


def test_jobs_beyond_the_queue_are_refused(digits: Running) -> None:
    """Jobs beyond the length of the queue get a BusyError with a retry time. Accepted jobs are not lost."""
    client = client_of(digits)
    party(client)
    (engine,) = digits.engines()
    stop(engine)
    asking = [Asking(client) for _ in range(3)]
    digits.until(lambda: client.status()["queue"]["unfinished"] == 3)
    with pytest.raises(hg.BusyError, match="unfinished jobs") as caught:
        rig.within(
            0.5, lambda seconds: client_of(digits, secret=client._secret, keys=client.keys, timeout=seconds).run(DIGIT)
        )
    assert caught.value.retry_after > 0
    patient = Asking(client)
    go_on(engine)
    for one in (*asking, patient):
        assert np.array_equal(one.result(), expected())


def test_cancelled_tasks_do_not_delay_others(models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are more tasks than threads, a cancelled task ends at once, and a task that was not started is never sent."""
    monkeypatch.setattr(async_calls, "_MAX_CALLS", 6)  # threads of a new client; each encrypts a large request
    with running(*models, "--store", tmp_path / "store", "--max-jobs-per-client", "64") as service:
        client = client_of(service, "slow")
        party(client)

        async def several() -> tuple[bool, list[Any]]:
            tasks = [asyncio.create_task(client.arun(DIGIT)) for _ in range(12)]
            await asyncio.to_thread(service.until, lambda: client.status()["queue"]["unfinished"] == async_calls._MAX_CALLS)
            stop(service.process.pid)  # no call can end, so no thread can start another task
            tasks[-1].cancel()
            await asyncio.wait([tasks[-1]])
            waited = tasks[-2].done()
            for task in tasks[1:]:
                task.cancel()
            await asyncio.wait(tasks[async_calls._MAX_CALLS :])
            for process in (service.process.pid, *engines):
                go_on(process)
            return waited, await asyncio.gather(*tasks, return_exceptions=True)

        engines = service.engines()
        for engine in engines:
            stop(engine)
        waited, came = asyncio.run(several())
        assert not waited  # the cancelled task does not wait for earlier tasks
        assert np.array_equal(came[0], expected())
        assert all(isinstance(one, asyncio.CancelledError) for one in came[1:])
        service.until(lambda: client.status()["queue"]["unfinished"] == 0)
        sent = sum(e["kind"] == "run" for e in service.events("job_ended"))
        assert sent <= async_calls._MAX_CALLS  # these tasks were already started


def test_the_rate_limit_affects_one_client(models: list[Path], tmp_path: Path) -> None:
    """A client beyond its rate limit gets a typed error; other clients are not affected."""
    tokens = rig.tokens(tmp_path / "tokens", "ann", "bob")
    with running(models[0], "--store", tmp_path / "store", "--rate-limit", "2", "--tokens", tmp_path / "tokens") as service:
        ann, bob = (client_of(service, token=tokens[name]) for name in ("ann", "bob"))
        keys = ann.model.keys(hg.SecretKey.generate(ann.model.parameters))
        ann.upload_keys(keys)
        query = f"/v1/jobs?kind=session&model=digits&keys={ann.keys}&id=often-often-often-"

        def often() -> None:
            # the fourth request is refused at the latest, unless the machine is so busy that it sends fewer than two per
            # second
            for k in range(400):
                ann._http.once("POST", f"{query}{k}")

        with pytest.raises(hg.RateError, match="at most 2 requests a second") as caught:
            often()
        assert 0 < caught.value.retry_after <= 0.5
        bob.upload_keys(keys)
        ann.upload_keys(keys)  # the client waits for the stated time, then succeeds


def test_a_model_larger_than_an_engine_is_refused(models: list[Path], tmp_path: Path) -> None:
    """A model that is larger than the memory of an engine is refused at the start by an error of one line."""
    done = command(["serve", str(models[1]), "--store", str(tmp_path), "--memory-limit", "100M", "--port", "0"])
    assert done == 1


def test_quotas_and_evictions_are_reported(models: list[Path], tmp_path: Path) -> None:
    """The bytes of a client are limited. Beyond the total capacity, the least recently used keys are evicted, and errors say
    so.

    """
    tokens = rig.tokens(tmp_path / "tokens", "ann", "bob", "carl")
    limits = ["--quota", "25M", "--store-capacity", "30M", "--tokens", tmp_path / "tokens"]
    with running(models[0], "--store", tmp_path / "store", *limits) as service:
        ann, bob, carl = (client_of(service, token=token) for token in tokens.values())
        party(ann)
        first = ann.keys
        party(ann)
        with pytest.raises(hg.QuotaError, match=r"the quota is 25\.0 MiB"):
            party(ann)
        party(bob)  # this upload evicts the first keys of ann
        party(carl)
        with pytest.raises(hg.EvictedKeyError, match="upload again"):
            client_of(service, token=tokens["ann"], secret=ann._secret, keys=first).run(DIGIT)
        assert np.array_equal(carl.run(DIGIT), expected())


def test_unused_keys_are_deleted(models: list[Path], tmp_path: Path) -> None:
    """Unused keys are deleted after their time to live."""
    with running(models[0], "--store", tmp_path / "store", "--time-to-live", "1s") as service:
        client = client_of(service)
        party(client)
        time.sleep(1.2)
        with pytest.raises(hg.ExpiredKeyError, match="expired, unused"):
            client.run(DIGIT)
        assert not list((tmp_path / "store").rglob("*.hg"))


def test_the_store_is_exclusive_and_checked(models: list[Path], tmp_path: Path) -> None:
    """A second service on the same store is refused. Files that do not belong to the store stay, and damaged or lost keys
    are requested again.
    """
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
        refused = subprocess.run(again, capture_output=True, text=True, timeout=rig.PATIENCE, env=rig.environment_of_tests())
        assert (refused.returncode, refused.stderr.count("another service uses it")) == (1, 1)
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


def test_a_full_disk_is_a_quota_error(models: list[Path], tmp_path: Path) -> None:
    """If files are limited to 8 MB, an upload of 11 MB gives a QuotaError, and the service keeps working."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))

    with running(*models, "--store", tmp_path / "store", before=limited) as service:
        client = client_of(service)
        with pytest.raises(hg.QuotaError, match="disk is full"):
            party(client)
        other = client_of(service, "slow")
        party(other)  # the service still accepts keys of less than a megabyte
        with pytest.raises(hg.QuotaError, match="disk is full"):
            other.run(DIGIT)  # a request of 12 MB exceeds the limit
        assert client.status()["queue"]["unfinished"] == 0


def test_a_slow_client(digits: Running) -> None:
    """A client that stops sending delays no other client. When such a client disconnects, its request is dropped."""
    client = client_of(digits)
    party(client)
    with socket.create_connection(("127.0.0.1", digits.ports["http"])) as line:
        query = f"id=slowslowslowslow&model=digits&keys={client.keys}&parts=200000"
        line.sendall(f"POST /v1/jobs?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\nabc".encode())
        digits.until(lambda: client.status()["queue"]["unfinished"] == 1)
        for _ in range(3):
            assert np.array_equal(client.run(DIGIT), expected())
    digits.until(lambda: client.status()["queue"]["unfinished"] == 0)
    assert len(list(spool(digits).iterdir())) <= 5  # the file of its request body is deleted


def sent(service: Running, data: bytes, times: int) -> int:
    """Returns how often a peer can send the same data until the service closes the connection."""
    with socket.create_connection(("127.0.0.1", service.ports["http"])) as line:
        line.settimeout(rig.PATIENCE)
        for count in range(times):
            try:
                line.sendall(data)
            except OSError:
                return count
    return times


def test_endless_requests_are_ended(digits: Running) -> None:
    """Endless heads and bodies take no memory and do not keep a connection open."""
    before = digits.memory()
    assert sent(digits, b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 60_000 + b"\r\n", 2000) < 500
    assert sent(digits, b"GET / HTTP/1.1\r\nA: " + b"x" * (1 << 20), 100) < 20
    chunks = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    head = b"%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for refused in (head % b"POST /v1/jobs", head % b"GET /readyz", head % b"PUT /nowhere"):
        assert sent(digits, refused + chunks * 16, 1) == 1
        with socket.create_connection(("127.0.0.1", digits.ports["http"])) as line:
            line.settimeout(rig.PATIENCE)
            line.sendall(refused)
            with pytest.raises(ConnectionError):
                line.sendall(chunks * 6400)
    assert digits.memory() - before < 48 << 20
    client = client_of(digits)
    party(client)
    assert np.array_equal(client.run(DIGIT), expected())


def test_the_end_of_a_body_does_not_count_as_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on the length of heads does not count the end of a body, even if much data arrives at once."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    from heliograph.serving.connections import Connections
    from heliograph.serving.uvicorn_protocol import Protocol

    ended = list[bool]()

    def parse(self: Any, data: bytes) -> None:
        """A simulated parser with three tokens: one begins a message, one ends it, one does neither."""
        word = {b"h": "on_headers_complete", b"e": "on_message_complete"}.get(data[:1])
        if word is not None:
            getattr(self, word)()

    monkeypatch.setattr(HttpToolsProtocol, "data_received", parse)
    monkeypatch.setattr(HttpToolsProtocol, "on_headers_complete", lambda _: None)
    monkeypatch.setattr(HttpToolsProtocol, "on_message_complete", lambda _: None)
    made = Protocol.__new__(Protocol)
    made.limits, made.cycle, made.headers = Connections(9, 9), None, [(b"content-length", b"9999999")]
    made.transport = types.SimpleNamespace(abort=lambda: ended.append(True))
    made.loop = types.SimpleNamespace(call_later=lambda *_: types.SimpleNamespace(cancel=lambda: None))
    for data in (b"h" * 4, b"b" * (1 << 20), b"e" * (1 << 20), b"h" * (1 << 20), b"e"):
        made.data_received(data)
        assert not ended
    made.data_received(b"a" * (1 << 20))
    assert ended


def test_connections_beyond_the_file_limit_are_closed(models: list[Path], tmp_path: Path) -> None:
    """Connections beyond the limit of open files of the process are closed, other connections are served, and the log stays
    short.
    """
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
        )  # these connections are closed before they are idle for too long
        open_ones.close()
        assert np.array_equal(client.run(DIGIT), expected())
        assert len(service.lines) < 40, service.text[:3000]


def spool(service: Running) -> Path:
    """Returns the folder in which the service stores request bodies."""
    arguments = list(map(str, service.process.args))  # type: ignore[call-overload]
    return Path(arguments[arguments.index("--store") + 1]) / "spool"


# Shutdown


def test_a_graceful_shutdown(models: list[Path], tmp_path: Path) -> None:
    """After SIGTERM, accepted jobs are answered, new jobs are refused, and the exit status is 0."""
    with running(models[1], "--store", tmp_path / "store") as service:
        client = client_of(service, "slow")
        party(client)
        asking = [Asking(client), Asking(client)]
        service.until(lambda: client.status()["queue"]["unfinished"] == 2)
        (engine,) = service.engines()
        stop(engine)  # the accepted jobs end after the new job was refused
        service.signal(signal.SIGTERM)
        service.until(lambda: service.events("stopping"))
        session = {"secret": client._secret, "keys": client.keys}
        with pytest.raises(hg.BusyError, match="stopping"):
            rig.within(1.0, lambda seconds: client_of(service, "slow", timeout=seconds, **session).run(DIGIT))
        go_on(engine)
        for one in asking:
            assert np.array_equal(one.result(), expected())
        assert service.ended() == 0
        assert service.events("stopped")
        assert not list((tmp_path / "store").glob("spool/*"))


def test_uploads_take_little_memory(models: list[Path], tmp_path: Path) -> None:
    """While 137 MB of keys are uploaded, the service process uses memory for only a few pieces."""
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


def test_exposed_services_need_tls_and_authentication(
    models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the service listens beyond localhost, it requires TLS and client authentication, unless both are explicitly
    disabled.
    """
    assert command(["serve", str(models[0]), "--store", str(tmp_path), "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "--tls-cert" in capsys.readouterr().err
    assert command(["serve", str(models[0]), "--store", str(tmp_path), "--client-ca", "x", "--port", "0"]) == 1
    assert "TLS" in capsys.readouterr().err
