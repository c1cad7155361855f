"""How a service is run: its log, the supervision of engines, signals, certificates, health, metrics."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import serving_rig as rig
from heliograph import _core
from serving_rig import DIGIT, Running, expected, party, running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed model, quick to compute."""
    return rig.seal(tmp_path_factory.mktemp("models"))[0]


def client_of(service: Running, model: str | None = "digits", **options: Any) -> hg.Client:
    """By HTTP alone."""
    return hg.Client(f"http://127.0.0.1:{service.ports['http']}", model=model, **options)


def page(port: int, path: str) -> tuple[int, str]:
    """Of the metrics' address, or of the service's own without TLS."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(port: int, name: str) -> float:
    """A figure by its name, with its labels."""
    for line in page(port, "/metrics")[1].splitlines():
        if line.startswith(f"heliograph_{name} "):
            return float(line.split()[-1])
    raise AssertionError(f"there is no heliograph_{name}")


def until(told: Any, seconds: float = 20.0) -> Any:
    """What that gives once it gives something."""
    end = time.monotonic() + seconds
    while not (found := told()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def named(digits: Path) -> Iterator[tuple[Running, hg.Client, str]]:
    """A service with metrics, a client with keys there, and its token."""
    tokens = rig.tokens(digits.parent / "tokens", "ann")
    words = ["--store", digits.parent / "store", "--tokens", digits.parent / "tokens", "--metrics", "127.0.0.1:0"]
    with running(digits, *words) as service, client_of(service, token=tokens["ann"]) as client:
        party(client)
        client.run(DIGIT)
        yield service, client, tokens["ann"]


# The log


@contextmanager
def logging_to(descriptor: int, folder: Path, digits: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A service whose log goes there, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    tokens = rig.tokens(folder / "tokens", "ann")
    words = ["serve", digits, "--store", folder / "store", "--port", port, "--tokens", folder / "tokens"]
    command = [sys.executable, "-m", "heliograph.cli", *map(str, words)]
    process = subprocess.Popen(command, stderr=descriptor, env=rig.environment_of_tests())
    (folder / "token").write_text(tokens["ann"])
    try:
        yield process, port
    finally:
        process.kill()
        process.wait(10)


def child_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Engines."""
    pid = process.pid
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("log", ["left", "stuck", pytest.param("full", marks=pytest.mark.full)])
def test_a_log_that_takes_nothing(digits: Path, tmp_path: Path, log: str) -> None:
    """Its reader has left, or does not read, or its disk is full: refusals are answered, engines started again, SIGTERM heeded."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    if log == "left":
        os.close(reads)
    if log == "full":
        os.close(writes)
        writes = os.open("/dev/full", os.O_WRONLY)
    with logging_to(writes, tmp_path, digits) as (process, port):
        client = hg.Client(f"http://127.0.0.1:{port}", model="digits", token=(tmp_path / "token").read_text())
        party(client)
        for _ in range(60):  # each is a line of the log
            assert page(port, "/v1/models")[0] == 401
        (engine,) = child_of(process)
        os.kill(engine, signal.SIGKILL)
        until(lambda: child_of(process) not in ([], [engine]))
        assert np.array_equal(client.run(DIGIT), expected())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_lost_lines_are_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose pipe is full blocks nobody; what is lost is said by the next line, and half a line is ended first."""
    from heliograph.serving import log as module

    monkeypatch.setattr(module, "_MOST_LINES", 10)
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    with os.fdopen(reads, "rb", 0) as reader, os.fdopen(writes, "w") as stream:
        log = module.Log(stream)
        for k in range(200):
            log("event", number=k, text="x" * 200)
        assert log.dropped > 100
        dropped = log.dropped
        lines = b""
        while lines.count(b"\n") < 200 - dropped:
            lines += reader.read(65536)
        log("last")
        log.close(5)
        lines += reader.read(65536)
    told = [json.loads(line) for line in lines.decode().splitlines()]
    assert [words["event"] for words in told[-2:]] == ["log_lines_dropped", "last"]
    assert told[-2]["lines"] == dropped == 200 - (len(told) - 2)


def test_a_log_on_a_disk_that_was_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on where there is room again."""
    from heliograph.serving import log as module

    full, write = [True], os.write

    def limited(descriptor: int, data: bytes) -> int:
        if not full[0]:
            return write(descriptor, data)
        if len(data) > 10:  # half a line
            return write(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    with (tmp_path / "log").open("w") as stream:
        monkeypatch.setattr(module.os, "write", limited)
        log = module.Log(stream)
        log("lost")
        log.close(5)
        until(lambda: log.dropped)
        full[0] = False
        log("there")
        log.close(5)
    first, *rest = (tmp_path / "log").read_text().splitlines()
    assert first.startswith('{"time"')
    assert [json.loads(line)["event"] for line in rest] == ["log_lines_dropped", "there"]


def test_log_lines_name_client_address_and_request(named: tuple[Running, hg.Client, str]) -> None:
    """And the request's id is in its answer: the client's own if it is a name, else one of the service's."""
    service, _, token = named
    address = f"http://127.0.0.1:{service.ports['http']}/v1/jobs/0000000000000000"
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}", "X-Request-Id": "a-name.1"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=20)
    assert caught.value.headers["X-Request-Id"] == "a-name.1"
    told = service.until(lambda: service.events("refused"))[0]
    assert (told["client"], told["request"], told["error"]) == ("ann", "a-name.1", "UnknownJobError")
    assert re.fullmatch(r"127\.0\.0\.1:\d+", told["address"])
    asked.add_header("X-request-id", "two words\u00e9")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=20)
    assert re.fullmatch("[0-9a-f]{16}", caught.value.headers["X-Request-Id"])
    job = service.until(lambda: service.events("job"))[-1]
    assert (job["client"], job["outcome"]) == ("ann", "done")
    assert {"address", "request"} <= job.keys()


# Supervision


def test_a_supervisor_that_ends_takes_the_process_with_it(digits: Path, tmp_path: Path) -> None:
    """With status 1, for systemd to start it again. What engines print is in the log, as JSON like all else."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'heliograph.serving.worker' in sys.orig_argv: print('hello\\x1b', file=sys.stderr)\n"
        "from heliograph.serving import core\n"
        "def broken(self, *_):\n"
        "    raise RuntimeError('broken')\n"
        "core.Service._lost = broken\n"
    )
    path = os.pathsep.join([str(tmp_path), rig.environment_of_tests()["PYTHONPATH"]])
    with running(digits, "--store", tmp_path / "store", environment={"PYTHONPATH": path}) as service:
        (told,) = service.events("engine_output")
        assert (told["engine"], told["text"]) == (0, "hello\\x1b")
        os.kill(service.engines()[0], signal.SIGKILL)
        assert service.ended() == 1
        (told,) = service.events("fault")
        assert (told["what"], told["error"]) == ("supervision of engine 0 ended", "RuntimeError")


def tables(folder: Path) -> Path:
    """A table for look-ups."""
    hg.query.Database({"phone": ["1", "2"], "name": ["Ada", "Grace"]}, key="phone").save(folder / "phones.hgd")
    return folder / "phones.hgd"


def test_a_damaged_file_takes_its_table_alone(digits: Path, tmp_path: Path) -> None:
    """At an engine's restart: others are served, its users get a typed error, health and metrics say so; SIGHUP takes a mended file."""
    phones = tables(tmp_path)
    whole = phones.read_bytes()
    with running(digits, phones, "--store", tmp_path / "store", "--metrics", "127.0.0.1:0") as service:
        metrics, client, table = service.ports["metrics"], client_of(service), client_of(service, "phones")
        party(client)
        assert table.get("2")["name"] == "Grace"
        assert page(metrics, "/readyz") == (200, "ok\n")
        phones.write_bytes(whole[:-50] + bytes(50))
        (engine,) = service.engines()
        os.kill(engine, signal.SIGKILL)
        (told,) = service.until(lambda: service.events("model_refused"))
        assert (told["model"], told["engine"], told["error"]) == ("phones", 0, "DamagedFileError")
        assert np.array_equal(client.run(DIGIT), expected())
        with pytest.raises(hg.ModelUnavailableError, match="cannot use phones"):
            table.get("2")
        assert page(metrics, "/readyz") == (200, "ok: 1 of 2 models are unavailable\n")
        assert metric(metrics, 'model_available{engine="0",model="phones"}') == 0
        assert metric(metrics, 'model_available{engine="0",model="digits"}') == 1
        phones.write_bytes(whole)
        service.signal(signal.SIGHUP)
        service.until(lambda: service.events("updated"))
        assert table.get("2")["name"] == "Grace"
        assert metric(metrics, 'model_available{engine="0",model="phones"}') == 1


def test_jobs_wait_for_an_engine_that_has_their_model() -> None:
    """Clients whose next job an engine cannot take are passed over, and keep their turn."""
    from heliograph.serving.jobs import Asked, Job, Queue

    def job(owner: str, model: str) -> Job:
        return Job(Asked("0" * 16, "get", "", model), owner, None, None, 0.0)  # type: ignore[arg-type]

    queue, jobs = Queue(), [job("ann", "phones"), job("bob", "faces"), job("ann", "faces")]
    for one in jobs:
        queue.put(one)
    assert queue.take(without={"phones"}) is jobs[1]
    assert queue.take(without={"phones"}) is None
    assert [queue.take(), queue.take(), queue.take()] == [jobs[0], jobs[2], None]


def test_another_model_is_not_taken_for_the_first(tmp_path: Path) -> None:
    """A file that was replaced since the service began: its engine, started again, does not compute another model's answers."""
    model = rig.seal(tmp_path)[0]
    with running(model, "--store", tmp_path / "store") as service:
        client = client_of(service)
        party(client)
        hg.nn.setup("digits").seal(model, version="other")
        os.kill(service.engines()[0], signal.SIGKILL)
        (told,) = service.until(lambda: service.events("model_refused"))
        assert told["error"] == "MismatchError"
        with pytest.raises(hg.ModelUnavailableError):
            client.run(DIGIT)
        assert page(service.ports["http"], "/readyz") == (503, "no model's file can be read\n")
        assert page(service.ports["http"], "/livez") == (200, "ok\n")


def test_a_damaged_file_is_refused_at_the_start(tmp_path: Path) -> None:
    """By its name and its error."""
    phones = tables(tmp_path)
    phones.write_bytes(phones.read_bytes()[:-50] + bytes(50))
    words = ["serve", str(phones), "--store", str(tmp_path / "store"), "--port", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "heliograph.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=rig.environment_of_tests(),
    )
    assert done.returncode == 1
    assert "digest" in done.stderr
    assert "phones.hgd" in done.stderr.replace("\n", "")


# Signals


def test_a_hangup_while_it_starts(digits: Path, tmp_path: Path) -> None:
    """SIGHUP while the engine is imported ends nothing: files are read again once the service listens."""
    rig.tokens(tmp_path / "tokens", "ann")
    words = ["serve", digits, "--store", tmp_path / "store", "--port", 0, "--tokens", tmp_path / "tokens"]
    command = [sys.executable, "-m", "heliograph.cli", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=rig.environment_of_tests())
    try:
        until(lambda: "/_core." in Path(f"/proc/{process.pid}/maps").read_text() or process.poll() is not None)
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        events = []
        for line in process.stderr:
            events.append(json.loads(line)["event"])
            if events[-1] == "tokens read":
                break
        assert events == ["started", "listening", "tokens read"]
    finally:
        process.kill()
        process.communicate()


def test_a_stop_while_it_starts(digits: Path, tmp_path: Path) -> None:
    """SIGTERM is heeded before engines are up, which may take minutes."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nif 'heliograph.serving.worker' in sys.orig_argv: time.sleep(60)\n"
    )
    environment = rig.environment_of_tests()
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    words = ["serve", digits, "--store", tmp_path / "store", "--port", 0]
    command = [sys.executable, "-m", "heliograph.cli", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        until(lambda: child_of(process) or process.poll() is not None)  # type: ignore[arg-type]
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()


# Certificates


class Revoking(rig.Authority):
    """An authority that takes certificates back."""

    def revoke(self, path: Path, *certificates: Path, days: int = 1) -> None:
        """Writes its list of these."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        now = datetime.datetime.now(datetime.UTC)
        made = x509.CertificateRevocationListBuilder().issuer_name(self.name)
        made = made.last_update(now - datetime.timedelta(days=9)).next_update(now + datetime.timedelta(days=days))
        for certificate in certificates:
            serial = x509.load_pem_x509_certificate(
                certificate.read_bytes().split(b"-----END PRIVATE KEY-----\n")[1]
            ).serial_number
            one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            made = made.add_revoked_certificate(one.build())
        path.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def hung_up(service: Running, *events: str) -> list[dict[str, Any]]:
    """What the log says of a SIGHUP, once it has said all of these."""
    before = len(service.lines)
    service.signal(signal.SIGHUP)

    def told() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in service.lines[before:]]
        return found if {words["event"] for words in found} >= set(events) else []

    return service.until(told)  # type: ignore[no-any-return]


def test_certificates_are_read_again(digits: Path, tmp_path: Path) -> None:
    """By SIGHUP, for HTTP and gRPC: new handshakes have the new one. A damaged one, and half of a pair, change nothing."""
    grpc = pytest.importorskip("grpc")
    authority = rig.Authority(tmp_path)
    server, other = authority.issue("localhost"), authority.issue("other")
    words = ["--store", tmp_path / "store", "--tls", server, "--grpc", "0", "--metrics", "127.0.0.1:0"]
    with running(digits, *words) as service:
        ports = service.ports

        def shown(port: int) -> bytes:
            context = ssl.create_default_context(cafile=str(authority.file))
            with (
                socket.create_connection(("127.0.0.1", port), timeout=20) as line,
                context.wrap_socket(line, server_hostname="localhost") as wrapped,
            ):
                return wrapped.getpeercert(binary_form=True) or b""

        first = shown(ports["http"])
        assert shown(ports["grpc"]) == first
        with hg.Client(f"https://localhost:{ports['http']}", model="digits", ca=authority.file) as client:
            party(client)
            server.write_bytes(b"nonsense")
            told = hung_up(service, "fault")
            assert [(words["what"], words["error"]) for words in told if words["event"] == "fault"] == [
                ("tls", "ParameterError")
            ]
            assert shown(ports["http"]) == shown(ports["grpc"]) == first
            assert metric(ports["metrics"], "config_last_reload_successful") == 0
            server.write_bytes(other.read_bytes())
            hung_up(service, "tls read")
            assert shown(ports["http"]) == shown(ports["grpc"]) != first
            assert metric(ports["metrics"], "config_last_reload_successful") == 1
            assert np.array_equal(client.run(DIGIT), expected())  # whoever is connected stays so
    assert grpc


@pytest.fixture(scope="module")
def mutual(digits: Path) -> Iterator[tuple[Running, Revoking, dict[str, Path]]]:
    """A service whose clients, ann and bob, show certificates."""
    folder = digits.parent / "mutual"
    folder.mkdir()
    authority = Revoking(folder)
    people = {name: authority.issue(name) for name in ("ann", "bob")}
    authority.revoke(folder / "crl.pem")
    words = ["--store", folder / "store", "--tls", authority.issue("localhost"), "--clients", authority.file]
    words += ["--client-crl", folder / "crl.pem", "--grpc", "0", "--metrics", "127.0.0.1:0"]
    with running(digits, *words) as service:
        yield service, authority, people


def test_a_client_whose_certificate_is_revoked(mutual: tuple[Running, Revoking, dict[str, Path]]) -> None:
    """By SIGHUP: it is refused over HTTP, connected or not, and over gRPC; others are not. A damaged list changes nothing."""
    grpc = pytest.importorskip("grpc")
    from heliograph.serving.messages import SERVICE, classes

    service, authority, people = mutual
    crl = authority.folder / "crl.pem"
    address, messages = f"https://localhost:{service.ports['http']}", classes()

    def client(name: str) -> hg.Client:
        return hg.Client(address, model="digits", certificate=people[name], ca=authority.file, timeout=20)

    def call(name: str) -> Any:
        pem = people[name].read_bytes()
        ssl_of = grpc.ssl_channel_credentials(authority.file.read_bytes(), pem, pem)
        with grpc.secure_channel(f"localhost:{service.ports['grpc']}", ssl_of) as channel:
            models = channel.unary_unary(
                f"/{SERVICE}/Models",
                request_serializer=messages["ModelsRequest"].SerializeToString,
                response_deserializer=messages["ModelsReply"].FromString,
            )
            try:
                return models(messages["ModelsRequest"](), timeout=20).models[0].name
            except grpc.RpcError as error:
                return error.details()

    with client("ann") as ann, client("bob") as bob:
        assert ann.models()
        assert call("ann") == "digits"
        (crl).write_bytes(b"nonsense")
        hung_up(service, "fault")
        assert ann.models()
        authority.revoke(crl, people["ann"])
        hung_up(service, "tls read")
        with pytest.raises(hg.HeliographError, match=r"revoked|certificate"):
            ann.models()
        assert call("ann") != "digits"
        assert bob.models()
        assert call("bob") == "digits"
        (told, *_) = service.until(lambda: service.events("tls_handshake_failed"))
        assert told["error"] == "certificate revoked"
        assert told["address"].startswith("127.0.0.1:")
        assert metric(service.ports["metrics"], 'tls_handshake_failures_total{reason="certificate"}') >= 1
        authority.revoke(crl, days=-1)  # one that holds no longer
        hung_up(service, "tls read")
        assert call("bob") != "digits"
        with pytest.raises(hg.HeliographError):
            bob.models()


def test_options_of_certificates(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Revocation lists without authorities revoke nothing, and a file that holds none is no list."""
    from heliograph.cli import run as command

    authority = rig.Authority(tmp_path)
    words = [
        "serve",
        str(digits),
        "--store",
        str(tmp_path / "store"),
        "--port",
        "0",
        "--tls",
        str(authority.issue("localhost")),
    ]
    assert command([*words, "--client-crl", str(authority.file)]) == 1
    assert "--clients" in capsys.readouterr().err
    assert command([*words, "--clients", str(authority.file), "--client-crl", str(authority.file)]) == 1
    assert "revocation list" in capsys.readouterr().err.replace("\n", " ")


# Health and metrics


def test_the_images_check_under_mutual_tls(mutual: tuple[Running, Revoking, dict[str, Path]]) -> None:
    """It needs no client's certificate; it tells a service that runs from none."""
    service, _, _ = mutual
    line = next(line for line in (PACKAGING / "Dockerfile").read_text().splitlines() if line.startswith("HEALTHCHECK"))
    _, words, program = json.loads(line.partition("CMD ")[2])

    def status(port: int) -> int:
        assert "127.0.0.1:9090/" in program
        return subprocess.run(
            [sys.executable, words, program.replace("9090", str(port))], stderr=subprocess.DEVNULL
        ).returncode

    assert status(service.ports["metrics"]) == 0
    service.signal(signal.SIGTERM)
    service.ended()
    assert status(service.ports["metrics"]) == 1


@contextmanager
def bound(heard: socket.socket, path: Path) -> Iterator[dict[str, str]]:
    """Where a service tells what systemd wants to know, as its environment has it."""
    heard.bind(str(path))
    heard.settimeout(10)
    yield {"NOTIFY_SOCKET": str(path)}


def test_alive_is_not_ready(digits: Path, tmp_path: Path) -> None:
    """While it stops it takes no jobs, and lives: over HTTP, at the metrics' address, over gRPC; systemd is told. `/healthz` is no more."""
    grpc = pytest.importorskip("grpc")
    health = pytest.importorskip("grpc_health.v1.health_pb2")
    from heliograph.serving.messages import SERVICE

    words = [digits, "--store", tmp_path / "store", "--grpc", "0", "--metrics", "127.0.0.1:0"]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard,
        bound(heard, tmp_path / "notify") as places,
        running(*words, environment=places) as service,
    ):
        states_told = [heard.recv(100)]
        while states_told[-1] != b"READY=1":
            states_told.append(heard.recv(100))
        assert b"WATCHDOG=1" in states_told
        ports, client = service.ports, client_of(service)
        channel = grpc.insecure_channel(f"127.0.0.1:{ports['grpc']}")
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health.HealthCheckRequest.SerializeToString,
            response_deserializer=health.HealthCheckResponse.FromString,
        )

        def states() -> list[Any]:
            rpc = [check(health.HealthCheckRequest(service=name), timeout=20).status for name in ("", SERVICE)]
            return rpc + [page(ports[name], path)[0] for name in ("http", "metrics") for path in ("/livez", "/readyz")]

        party(client)
        assert states() == [1, 1, 200, 200, 200, 200]
        assert page(ports["http"], "/healthz")[0] == 404
        (engine,) = service.engines()
        rig.stop(engine)
        asking = threading.Thread(target=client.run, args=(DIGIT,), daemon=True)
        asking.start()
        service.until(lambda: client.status()["queue"]["unfinished"] == 1)
        service.signal(signal.SIGTERM)
        service.until(lambda: service.events("stopping"))
        assert states() == [1, 2, 200, 503, 200, 503]
        while heard.recv(100) != b"STOPPING=1":
            pass
        rig.go_on(engine)
        asking.join(20)
        channel.close()
        assert service.ended() == 0


def test_figures_of_what_is_used(named: tuple[Running, hg.Client, str]) -> None:
    """Descriptors, connections, disk, engines, latency, clients, build."""
    service, client, _ = named
    port = service.ports["metrics"]
    client.models()  # a connection that stays open
    service.until(lambda: metric(port, 'client_stored_bytes{client="ann"}') > 0)
    assert 10 < metric(port, "process_open_fds") < metric(port, "process_max_fds")
    assert metric(port, "process_resident_memory_bytes") > 1 << 20
    assert 1 <= metric(port, "connections") <= metric(port, "max_connections")
    assert 0 < metric(port, "store_free_bytes") <= metric(port, "store_size_bytes")
    assert metric(port, "store_writable") == 1
    assert metric(port, 'engine_up{engine="0"}') == 1
    assert metric(port, 'request_duration_seconds_count{protocol="http",what="submit"}') >= 1
    assert metric(port, 'client_jobs_total{client="ann"}') >= 1
    assert metric(port, 'client_compute_seconds_total{client="ann"}') > 0
    assert metric(port, 'client_received_bytes_total{client="ann"}') > 1 << 20
    assert metric(port, "log_lines_dropped_total") == 0
    assert 'heliograph_build_info{commit="' in page(port, "/metrics")[1]
    assert f'version="{_core.version()}"' in page(port, "/metrics")[1]
    rig.stop(service.engines()[0])
    os.kill(service.engines()[0], signal.SIGKILL)
    service.until(lambda: service.events("engine ended"))
    assert metric(port, "engine_restarts_total") == 1


def test_names_of_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond share one."""
    from prometheus_client import generate_latest

    from heliograph.serving import figures as module

    monkeypatch.setattr(module, "_MOST_CLIENTS", 2)
    figures = module.Figures()
    assert [figures.client(name) for name in ("ann", "bob", "carl", "ann")] == ["ann", "bob", module.OTHERS, "ann"]
    figures.tell_stored({"ann": 1, "carl": 2, "dora": 3}.items())
    text = generate_latest(figures.registry).decode()
    assert 'client_stored_bytes{client="other_clients"} 5.0' in text
    assert 'client_stored_bytes{client="bob"} 0.0' in text
    figures.tell_stored({}.items())
    assert 'client_stored_bytes{client="other_clients"} 0.0' in generate_latest(figures.registry).decode()


def test_memory_is_the_control_groups(tmp_path: Path) -> None:
    """An engine's default memory is half of what the container or the unit may have, not of the machine's."""
    told = Path("/proc/self/cgroup").read_text()
    v2, v1 = re.search(r"^0::(.*)$", told, re.M), re.search(r"^\d+:[^:]*\bmemory\b[^:]*:(.*)$", told, re.M)
    if v1:
        group, limit = Path(f"/sys/fs/cgroup/memory{v1[1]}/heliograph-test-{os.getpid()}"), "memory.limit_in_bytes"
    else:
        group, limit = Path(f"/sys/fs/cgroup{v2[1] if v2 else ''}/heliograph-test-{os.getpid()}"), "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(3 << 30))
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"a control group cannot be made here: {error}")
    try:
        program = "from heliograph.serving.core import half_of_memory as h; print(h())"
        done = subprocess.run(
            [sys.executable, "-c", program],
            preexec_fn=lambda: (group / "cgroup.procs").write_text("0"),
            capture_output=True,
            text=True,
            env=rig.environment_of_tests(),
        )
        assert int(done.stdout) == min(3 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // 2, done.stderr
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.02)
