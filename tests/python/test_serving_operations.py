"""Tests how a service is operated: log, supervision of engines, signals, certificates, health, metrics."""

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
from serving_rig import DIGIT, Running, client_of, expected, party, running

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a model file that is computed quickly."""
    return rig.export(tmp_path_factory.mktemp("models"))[0]


def page(port: int, path: str) -> tuple[int, str]:
    """Returns the status and text of a page at the metrics address, or of a service without TLS."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=rig.PATIENCE) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(port: int, name: str) -> float:
    """Returns a metric that has this name and these labels."""
    for line in page(port, "/metrics")[1].splitlines():
        if line.startswith(f"heliograph_{name} "):
            return float(line.split()[-1])
    raise AssertionError(f"the metrics have no heliograph_{name}")


def until(told: Any, seconds: float = rig.PATIENCE) -> Any:
    """Polls until `told` returns a true value, and returns it."""
    end = time.monotonic() + seconds
    while not (found := told()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def named(digits: Path) -> Iterator[tuple[Running, hg.Client, str]]:
    """Returns a service with metrics, a client whose keys are uploaded, and the token of the client."""
    tokens = rig.tokens(digits.parent / "tokens", "ann")
    words = ["--store", digits.parent / "store", "--tokens", digits.parent / "tokens", "--metrics-address", "127.0.0.1:0"]
    with running(digits, *words) as service, client_of(service, token=tokens["ann"]) as client:
        party(client)
        client.run(DIGIT)
        yield service, client, tokens["ann"]


# The log


@contextmanager
def logging_to(descriptor: int, folder: Path, digits: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Runs a service whose log goes to a descriptor; yields the process and the port."""
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
        process.wait(rig.PATIENCE)


def child_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Returns the process ids of the engines."""
    pid = process.pid
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("log", ["left", "stuck", pytest.param("full", marks=pytest.mark.full)])
def test_a_service_works_with_a_blocked_log(digits: Path, tmp_path: Path, log: str) -> None:
    """If the reader of the log has exited or stalls, or the log's disk is full, the service still answers, restarts engines
    and stops.

    """
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
        for _ in range(60):  # each request writes a line to the log
            assert page(port, "/v1/models")[0] == 401
        (engine,) = child_of(process)
        os.kill(engine, signal.SIGKILL)
        until(lambda: child_of(process) not in ([], [engine]))
        assert np.array_equal(client.run(DIGIT), expected())
        process.send_signal(signal.SIGTERM)
        assert process.wait(rig.PATIENCE) == 0


def test_the_page_lists_all_events() -> None:
    """docs/serving.md lists the log events and metrics of the program, with their levels."""
    from heliograph.serving.log import EVENTS
    from heliograph.serving.metrics import Metrics

    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| `(info|warning|error)` \|", page, re.MULTILINE)
    assert {event: level for events, level in rows for event in re.findall(r"`(\w+)`", events)} == EVENTS
    metrics = Metrics()
    metrics.count("log_lines_dropped", "", lambda: 0)
    for family in metrics.registry.collect():
        name = family.name.removeprefix("heliograph_") + ("_total" if family.type == "counter" else "")
        assert f"`{name}`" in page or name.startswith("process_")


def test_the_page_lists_all_statuses() -> None:
    """docs/errors.md lists the HTTP status and the gRPC status code of each class."""
    from heliograph._common.service.errors import KINDS, status_of

    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    told = {name: (int(http), grpc) for http, grpc, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert {name: status_of(KINDS[name].__new__(KINDS[name])) for name in told} == told
    others = {status_of(kind.__new__(kind)) for name, kind in KINDS.items() if name not in told}
    assert others == {(400, "INVALID_ARGUMENT")}
    assert status_of(OSError()) == status_of(MemoryError()) == (500, "INTERNAL")


def test_lost_lines_are_counted_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full log pipe blocks no caller. The next line reports the lost lines, and if a line was written partly, it is ended
    first.
    """
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


def test_logging_resumes_on_a_disk_with_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging continues when the disk has space again."""
    from heliograph.serving import log as module

    full, write = [True], os.write

    def limited(descriptor: int, data: bytes) -> int:
        if not full[0]:
            return write(descriptor, data)
        if len(data) > 10:  # the file ends with part of a line
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
    """Log lines have the client, address and request id. The answer has the id that the client chose if it is valid,
    otherwise an id by the service.
    """
    service, _, token = named
    address = f"http://127.0.0.1:{service.ports['http']}/v1/jobs/0000000000000000"
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}", "X-Request-Id": "a-name.1"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=rig.PATIENCE)
    assert caught.value.headers["X-Request-Id"] == "a-name.1"
    told = service.until(lambda: service.events("request_refused"))[0]
    assert (told["client"], told["request"], told["error"]) == ("ann", "a-name.1", "UnknownJobError")
    assert re.fullmatch(r"127\.0\.0\.1:\d+", told["address"])
    asked.add_header("X-request-id", "two words\u00e9")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=rig.PATIENCE)
    assert re.fullmatch("[0-9a-f]{16}", caught.value.headers["X-Request-Id"])
    job = service.until(lambda: service.events("job_ended"))[-1]
    assert (job["client"], job["outcome"]) == ("ann", "done")
    assert {"address", "request"} <= job.keys()


# Supervision


def test_the_end_of_the_supervisor_ends_the_process(digits: Path, tmp_path: Path) -> None:
    """If the supervisor fails, the process exits with status 1, so systemd restarts it. Output of engines is logged as JSON."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'heliograph.serving.worker' in sys.orig_argv: print('hello\\x1b', file=sys.stderr)\n"
        "from heliograph.serving import core\n"
        "def broken(self, *_):\n"
        "    raise RuntimeError('broken')\n"
        "core.Service._engine_ended = broken\n"
    )
    path = os.pathsep.join([str(tmp_path), rig.environment_of_tests()["PYTHONPATH"]])
    with running(digits, "--store", tmp_path / "store", environment={"PYTHONPATH": path}) as service:
        (told,) = service.events("engine_output")
        assert (told["engine"], told["text"]) == (0, "hello\\x1b")
        os.kill(service.engines()[0], signal.SIGKILL)
        assert service.ended() == 1
        (told,) = service.events("task_failed")
        assert (told["task"], told["error"]) == ("supervision of engine 0", "RuntimeError")


def tables(folder: Path) -> Path:
    """Writes a table for look-ups."""
    hg.pir.Database({"phone": ["1", "2"], "name": ["Ada", "Grace"]}, key="phone").save(folder / "phones.hgd")
    return folder / "phones.hgd"


def test_a_damaged_file_disables_only_its_table(digits: Path, tmp_path: Path) -> None:
    """If the file of a table is damaged when an engine restarts, only that table fails, and the failure is reported. SIGHUP
    loads a repaired file.
    """
    phones = tables(tmp_path)
    whole = phones.read_bytes()
    with running(digits, phones, "--store", tmp_path / "store", "--metrics-address", "127.0.0.1:0") as service:
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
        service.until(lambda: service.events("model_reloaded"))
        assert table.get("2")["name"] == "Grace"
        assert metric(metrics, 'model_available{engine="0",model="phones"}') == 1


def test_jobs_wait_for_an_engine_that_has_their_model() -> None:
    """A job that an engine cannot run is skipped and keeps its turn."""
    from heliograph._common.service.kinds import GET
    from heliograph.serving.jobs import Job, JobSpec, Queue

    def job(owner: str, model: str) -> Job:
        return Job(JobSpec("0" * 16, GET, "", model), owner, None, None, 0.0)  # type: ignore[arg-type]

    queue, jobs = Queue(), [job("ann", "phones"), job("bob", "faces"), job("ann", "faces")]
    for one in jobs:
        queue.put(one)
    assert queue.take(without={"phones"}) is jobs[1]
    assert queue.take(without={"phones"}) is None
    assert [queue.take(), queue.take(), queue.take()] == [jobs[0], jobs[2], None]


def test_a_replaced_model_file_is_not_used(tmp_path: Path) -> None:
    """If a model file is replaced, a restarted engine does not compute with the new model under the digest of the old one."""
    model = rig.export(tmp_path)[0]
    with running(model, "--store", tmp_path / "store") as service:
        client = client_of(service)
        party(client)
        hg.nn.setup("digits").export(model, version="other")
        os.kill(service.engines()[0], signal.SIGKILL)
        (told,) = service.until(lambda: service.events("model_refused"))
        assert told["error"] == "MismatchError"
        with pytest.raises(hg.ModelUnavailableError):
            client.run(DIGIT)
        assert page(service.ports["http"], "/readyz") == (503, "no model's file can be read\n")
        assert page(service.ports["http"], "/livez") == (200, "ok\n")


def test_a_damaged_file_is_refused_at_the_start(tmp_path: Path) -> None:
    """A damaged file is refused at the start; the message has its name and the error."""
    phones = tables(tmp_path)
    phones.write_bytes(phones.read_bytes()[:-50] + bytes(50))
    words = ["serve", str(phones), "--store", str(tmp_path / "store"), "--port", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "heliograph.cli", *words],
        capture_output=True,
        text=True,
        timeout=rig.PATIENCE,
        env=rig.environment_of_tests(),
    )
    assert done.returncode == 1
    assert "digest" in done.stderr
    assert "phones.hgd" in done.stderr.replace("\n", "")


# Signals


def test_sighup_during_the_start_reloads_files_later(digits: Path, tmp_path: Path) -> None:
    """SIGHUP during the start does not end the service; the files are read again as soon as the service listens."""
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
            if events[-1] == "tokens_reloaded":
                break
        assert events == ["started", "listening", "tokens_reloaded"]
    finally:
        process.kill()
        process.communicate()


def test_sigterm_works_during_the_start(digits: Path, tmp_path: Path) -> None:
    """SIGTERM also works before the engines have started."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nif 'heliograph.serving.worker' in sys.orig_argv: time.sleep(600)\n"
    )
    environment = rig.environment_of_tests()
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    words = ["serve", digits, "--store", tmp_path / "store", "--port", 0]
    command = [sys.executable, "-m", "heliograph.cli", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        until(lambda: child_of(process) or process.poll() is not None)  # type: ignore[arg-type]
        process.send_signal(signal.SIGTERM)
        assert process.wait(rig.PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


# Certificates


class Revoking(rig.Authority):
    """An authority that can revoke certificates."""

    def revoke(self, path: Path, *certificates: Path, days: int = 1) -> None:
        """Writes a list that revokes these certificates."""
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
    """Sends SIGHUP, waits until all of these events are in the log, and returns the new events."""
    before = len(service.lines)
    service.signal(signal.SIGHUP)

    def told() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in service.lines[before:]]
        return found if {words["event"] for words in found} >= set(events) else []

    return service.until(told)  # type: ignore[no-any-return]


def test_sighup_reloads_certificates(digits: Path, tmp_path: Path) -> None:
    """SIGHUP reloads the certificates of HTTP and gRPC for new handshakes. If a file is damaged or only half of a pair is
    given, nothing changes.
    """
    grpc = pytest.importorskip("grpc")
    authority = rig.Authority(tmp_path)
    server, other = authority.issue("localhost"), authority.issue("other")
    words = ["--store", tmp_path / "store", "--tls-cert", server, "--grpc-port", "0", "--metrics-address", "127.0.0.1:0"]
    with running(digits, *words) as service:
        ports = service.ports

        def shown(port: int) -> bytes:
            context = ssl.create_default_context(cafile=str(authority.file))
            with (
                socket.create_connection(("127.0.0.1", port), timeout=rig.PATIENCE) as line,
                context.wrap_socket(line, server_hostname="localhost") as wrapped,
            ):
                return wrapped.getpeercert(binary_form=True) or b""

        first = shown(ports["http"])
        assert shown(ports["grpc"]) == first
        with hg.Client(f"https://localhost:{ports['http']}", model="digits", ca=authority.file) as client:
            party(client)
            server.write_bytes(b"nonsense")
            told = hung_up(service, "tls_reload_failed")
            assert [words["error"] for words in told if words["event"] == "tls_reload_failed"] == ["ParameterError"]
            assert shown(ports["http"]) == shown(ports["grpc"]) == first
            assert metric(ports["metrics"], "config_last_reload_successful") == 0
            server.write_bytes(other.read_bytes())
            hung_up(service, "tls_reloaded")
            assert shown(ports["http"]) == shown(ports["grpc"]) != first
            assert metric(ports["metrics"], "config_last_reload_successful") == 1
            assert np.array_equal(client.run(DIGIT), expected())  # open connections continue to work
    assert grpc


@pytest.fixture(scope="module")
def mutual(digits: Path) -> Iterator[tuple[Running, Revoking, dict[str, Path]]]:
    """Runs a service with mutual TLS for two clients, ann and bob."""
    folder = digits.parent / "mutual"
    folder.mkdir()
    authority = Revoking(folder)
    people = {name: authority.issue(name) for name in ("ann", "bob")}
    authority.revoke(folder / "crl.pem")
    words = ["--store", folder / "store", "--tls-cert", authority.issue("localhost"), "--client-ca", authority.file]
    words += ["--client-crl", folder / "crl.pem", "--grpc-port", "0", "--metrics-address", "127.0.0.1:0"]
    with running(digits, *words) as service:
        yield service, authority, people


def test_a_client_whose_certificate_is_revoked(mutual: tuple[Running, Revoking, dict[str, Path]]) -> None:
    """After SIGHUP a revoked client is refused, over HTTP even if it is connected, and over gRPC. A damaged list changes
    nothing.

    """
    grpc = pytest.importorskip("grpc")
    from heliograph.serving.protobuf import SERVICE, classes

    service, authority, people = mutual
    crl = authority.folder / "crl.pem"
    address, messages = f"https://localhost:{service.ports['http']}", classes()

    def client(name: str) -> hg.Client:
        return hg.Client(address, model="digits", certificate=people[name], ca=authority.file, timeout=rig.PATIENCE)

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
                return models(messages["ModelsRequest"](), timeout=rig.PATIENCE).models[0].name
            except grpc.RpcError as error:
                return error.details()

    with client("ann") as ann, client("bob") as bob:
        assert ann.models()
        assert call("ann") == "digits"
        (crl).write_bytes(b"nonsense")
        hung_up(service, "tls_reload_failed")
        assert ann.models()
        authority.revoke(crl, people["ann"])
        hung_up(service, "tls_reloaded")
        with pytest.raises(hg.HeliographError, match=r"revoked|certificate"):
            ann.models()
        assert call("ann") != "digits"
        assert bob.models()
        assert call("bob") == "digits"
        (told, *_) = service.until(lambda: service.events("tls_handshake_failed"))
        assert told["error"] == "certificate revoked"
        assert told["address"].startswith("127.0.0.1:")
        assert metric(service.ports["metrics"], 'tls_handshake_failures_total{reason="certificate"}') >= 1
        authority.revoke(crl, days=-1)  # an expired revocation list
        hung_up(service, "tls_reloaded")
        assert call("bob") != "digits"
        with pytest.raises(hg.HeliographError):
            bob.models()


def test_invalid_revocation_lists_are_refused(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Revocation lists without client CAs are refused, and so is a file that contains no list."""
    from heliograph.cli import run as command

    authority = rig.Authority(tmp_path)
    words = [
        "serve",
        str(digits),
        "--store",
        str(tmp_path / "store"),
        "--port",
        "0",
        "--tls-cert",
        str(authority.issue("localhost")),
    ]
    assert command([*words, "--client-crl", str(authority.file)]) == 1
    assert "--client-ca" in capsys.readouterr().err
    assert command([*words, "--client-ca", str(authority.file), "--client-crl", str(authority.file)]) == 1
    assert "revocation list" in capsys.readouterr().err.replace("\n", " ")


# Health and metrics


def test_the_images_health_check_needs_no_client_certificate(mutual: tuple[Running, Revoking, dict[str, Path]]) -> None:
    """The health check of the image needs no client certificate, and detects a service that does not run."""
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
    """Binds a socket like that of systemd, to which a service sends notifications; yields the environment of the service."""
    heard.bind(str(path))
    heard.settimeout(rig.PATIENCE)
    yield {"NOTIFY_SOCKET": str(path)}


def test_liveness_and_readiness_differ(digits: Path, tmp_path: Path) -> None:
    """A service that is stopping is alive but not ready. The service reports its state over HTTP, the metrics address, gRPC
    and systemd. `/healthz` no longer exists.

    """
    grpc = pytest.importorskip("grpc")
    health = pytest.importorskip("grpc_health.v1.health_pb2")
    from heliograph.serving.protobuf import SERVICE

    words = [digits, "--store", tmp_path / "store", "--grpc-port", "0", "--metrics-address", "127.0.0.1:0"]
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
            rpc = [check(health.HealthCheckRequest(service=name), timeout=rig.PATIENCE).status for name in ("", SERVICE)]
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


def test_metrics_report_resources(named: tuple[Running, hg.Client, str]) -> None:
    """The metrics report descriptors, connections, disk, engines, latency, clients and the build."""
    service, client, _ = named
    port = service.ports["metrics"]
    client.models()  # this client holds a connection open
    service.until(lambda: metric(port, 'client_stored_bytes{client="ann"}') > 0)
    assert 10 < metric(port, "process_open_fds") < metric(port, "process_max_fds")
    assert metric(port, "process_resident_memory_bytes") > 1 << 20
    assert 1 <= metric(port, "connections") <= metric(port, "max_connections")
    assert 0 < metric(port, "store_free_bytes") <= metric(port, "store_size_bytes")
    assert metric(port, "store_writable") == 1
    assert metric(port, 'engine_up{engine="0"}') == 1
    assert metric(port, 'request_duration_seconds_count{operation="submit",protocol="http"}') >= 1
    assert metric(port, 'client_jobs_total{client="ann"}') >= 1
    assert metric(port, 'client_compute_seconds_total{client="ann"}') > 0
    assert metric(port, 'client_received_bytes_total{client="ann"}') > 1 << 20
    assert metric(port, "log_lines_dropped_total") == 0
    assert 'heliograph_build_info{commit="' in page(port, "/metrics")[1]
    assert f'version="{_core.version()}"' in page(port, "/metrics")[1]
    rig.stop(service.engines()[0])
    os.kill(service.engines()[0], signal.SIGKILL)
    service.until(lambda: service.events("engine_restarted"))
    assert metric(port, "engine_restarts_total") == 1


def test_labels_of_clients_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client names beyond the limit have one label together."""
    from prometheus_client import generate_latest

    from heliograph.serving import metrics as module

    monkeypatch.setattr(module, "_MAX_CLIENTS", 2)
    figures = module.Metrics()
    assert [figures.client(name) for name in ("ann", "bob", "carl", "ann")] == ["ann", "bob", module.OTHERS, "ann"]
    figures.set_client_bytes({"ann": 1, "carl": 2, "dora": 3}.items())
    text = generate_latest(figures.registry).decode()
    assert 'client_stored_bytes{client="other_clients"} 5.0' in text
    assert 'client_stored_bytes{client="bob"} 0.0' in text
    figures.set_client_bytes({}.items())
    assert 'client_stored_bytes{client="other_clients"} 0.0' in generate_latest(figures.registry).decode()


def test_engines_get_half_of_the_control_groups_memory(tmp_path: Path) -> None:
    """The default memory of an engine is half of the limit of the control group, and does not depend on the memory of the
    machine.
    """
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
        pytest.skip(f"a control group cannot be made: {error}")
    try:
        program = "from heliograph.serving.settings import half_of_memory as h; print(h())"
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
