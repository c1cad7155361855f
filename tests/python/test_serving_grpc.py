"""Tests the service over gRPC, for clients in any language. Also tests encrypted tables, tracing spans and the client's
local page.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
import types
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import heliograph as hg
from serving_rig import DIGIT, PATIENCE, Place, expected, party

grpc = pytest.importorskip("grpc")
pytest.importorskip("grpc_health")
pytest.importorskip("grpc_reflection")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
pytest.importorskip("cryptography")
from heliograph.cli import demo_client  # noqa: E402
from heliograph.serving.protobuf import METHODS, PACKAGE, SERVICE, classes, proto  # noqa: E402


class Calls(Place):
    """A service with a gRPC port for tests, and its clients."""

    def channel(self) -> Any:
        """Returns a gRPC channel."""
        trust = grpc.ssl_channel_credentials(self.authority.file.read_bytes())
        return grpc.secure_channel(f"localhost:{self.service.ports['grpc']}", trust)

    def call(self, channel: Any, name: str, request: Any, token: str | None = None, timeout: float | None = PATIENCE) -> Any:
        """Calls a declared method and returns the reply; for a stream, returns all replies."""
        method, made = next(m for m in METHODS if m.name == name), classes()
        kind = channel.stream_stream if all(method.streams) else channel.unary_unary
        function = kind(
            f"/{SERVICE}/{name}",
            request_serializer=made[method.request].SerializeToString,
            response_deserializer=made[method.reply].FromString,
        )
        return function(
            request, timeout=timeout, metadata=(("authorization", f"Bearer {token or self.tokens[self.first]}"),)
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    """Runs one service for all tests."""
    made = Calls(tmp_path_factory.mktemp("grpc"), "ann")
    with made.running("--grpc-port", "0", "--max-streams-per-client", "16", "--client-ca", made.authority.file):
        yield made


def pieces(body: bytes, **words: Any) -> Iterator[Any]:
    """Yields the request messages of a run."""
    request = classes()["RunRequest"]
    yield request(parts=[len(body)], **words)
    for start in range(0, len(body), 60_000):
        yield request(data=body[start : start + 60_000])


def test_a_digit(place: Calls) -> None:
    """Over gRPC, a session is opened, and a run reports progress, state and result. A run with the same id is the same job."""
    client, made = place.client(model="slow"), classes()
    secret = party(client)
    body = client.model.encrypt(secret, DIGIT).to_bytes()
    with place.channel() as channel:
        models = place.call(channel, "Models", made["ModelsRequest"]()).models
        assert [model.name for model in models] == ["digits", "slow"]
        assert models[1].digest == client.model.digest
        place.call(channel, "OpenSession", made["SessionRequest"](id="session" * 3, model="slow", keys=client.keys))
        words = {"id": "run" * 8, "model": "slow", "keys": client.keys, "watch": True}
        replies = list(place.call(channel, "Run", pieces(body, **words)))
        answer = b"".join(reply.data for reply in replies)
        assert np.array_equal(client.model.decrypt(secret, hg.from_bytes(answer), like=DIGIT), expected())
        assert any(reply.stage and 0 < reply.share <= 1 for reply in replies)
        assert b"".join(reply.data for reply in place.call(channel, "Run", pieces(body, **words))) == answer
        assert place.call(channel, "Job", made["JobRequest"](id="run" * 8)).state == "done"


def refused(place: Calls, name: str, request: Any, code: str, error: str, token: str | None = None) -> None:
    """Checks that a call fails with this status and this error name."""
    with place.channel() as channel:
        with pytest.raises(grpc.RpcError) as caught:
            list(place.call(channel, name, request, token))
        assert caught.value.code().name == code
        assert dict(caught.value.trailing_metadata())["heliograph-error"] == error


def test_refusals(place: Calls) -> None:
    """Refused calls have the same error names as over HTTP."""
    made, client = classes(), place.client()
    party(client)
    refused(place, "Models", made["ModelsRequest"](), "UNAUTHENTICATED", "AccessError", "wrong")
    unknown = made["SessionRequest"](id="x" * 16, model="digits", keys="0" * 64)
    refused(place, "OpenSession", unknown, "NOT_FOUND", "UnknownKeyError")
    refused(place, "Job", made["JobRequest"](id="nothing"), "NOT_FOUND", "UnknownJobError")
    words = {"id": "damaged" * 3, "model": "digits", "keys": client.keys}
    refused(place, "Run", pieces(b"x" * 1000, **words), "INVALID_ARGUMENT", "FormatError")
    refused(place, "Run", iter([]), "INVALID_ARGUMENT", "ParameterError")
    with place.channel() as channel:
        for name in ("Models", "OpenSession", "Job", "Cancel"):
            call = channel.unary_unary(f"/{SERVICE}/{name}")
            with pytest.raises(grpc.RpcError, match=r"must be a heliograph\.v1\.[A-Za-z]+ message") as caught:
                call(b"\xff" * 50, timeout=PATIENCE, metadata=(("authorization", f"Bearer {place.tokens[place.first]}"),))
            assert caught.value.code().name == "INVALID_ARGUMENT"


def test_cancelled_calls_and_deadlines(place: Calls) -> None:
    """If a call is cancelled or its deadline is over, its engine is free."""
    client = place.client(model="slow")
    secret = party(client)
    body = client.model.encrypt(secret, DIGIT).to_bytes()
    with place.channel() as channel:
        call = place.call(channel, "Run", pieces(body, id="given-up-given-up", model="slow", keys=client.keys))
        next(call)
        place.service.until(lambda: client.status()["engines"][0]["jobs"])
        before = len(place.service.events("job_ended"))
        call.cancel()
        (ended,) = place.service.until(lambda: place.service.events("job_ended")[before:])
        assert (ended["model"], ended["outcome"]) == ("slow", "CancelledError")
        place.service.until(lambda: client.status()["engines"][0]["jobs"] == 0)
        with pytest.raises(grpc.RpcError) as caught:
            list(place.call(channel, "Run", pieces(body, id="late" * 5, model="slow", keys=client.keys), timeout=0.4))
        assert caught.value.code().name in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    place.service.until(lambda: client.status()["queue"]["unfinished"] == 0)


def test_health_and_reflection(place: Calls) -> None:
    """Health checks and reflection work with standard tools; reflection returns the declaration."""
    from google.protobuf import descriptor_pool
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    with place.channel() as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=SERVICE), timeout=PATIENCE)
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        database = ProtoReflectionDescriptorDatabase(channel)
        assert SERVICE in database.get_services()
        pool = descriptor_pool.DescriptorPool(database)
        found = pool.FindServiceByName(SERVICE)
        assert [method.name for method in found.methods] == [method.name for method in METHODS]
        assert [field.name for field in pool.FindMessageTypeByName(f"{PACKAGE}.RunReply").fields][-1] == "data"


def test_streams_without_a_token_are_limited(place: Calls) -> None:
    """Health watchers and silent streams need no token. The number of watchers and silent streams is limited per address,
    and they delay no call.
    """
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with place.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        streams = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE) for _ in range(4)]
        ends = list[Any]()
        for stream in streams:
            try:
                assert next(stream).status == health_pb2.HealthCheckResponse.SERVING
            except grpc.RpcError as error:
                ends.append((error.code().name, dict(error.trailing_metadata())["heliograph-error"], error.details()))
        assert [end[:2] for end in ends] == [("RESOURCE_EXHAUSTED", "BusyError")] * 2  # the limit is an eighth of 16
        assert "address 127.0.0.1 may have at most 2 streams in progress" in ends[0][2]
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status == health_pb2.HealthCheckResponse.SERVING
        assert place.call(channel, "Models", classes()["ModelsRequest"]()).models
        for stream in streams:
            stream.cancel()


def test_models_are_listed_in_pages(place: Calls) -> None:
    """Models are listed in pages that begin after a name."""
    request = classes()["ModelsRequest"]
    with place.channel() as channel:
        first = place.call(channel, "Models", request(limit=1))
        assert ([model.name for model in first.models], first.next) == (["digits"], "digits")
        second = place.call(channel, "Models", request(limit=1, after=first.next))
        assert ([model.name for model in second.models], second.next) == (["slow"], "")
    refused(place, "Models", request(limit=1001), "INVALID_ARGUMENT", "ParameterError")


def test_an_id_of_another_request(place: Calls) -> None:
    """If an id is used again with a different body, the request is refused."""
    client = place.client()
    secret = party(client)
    words = {"id": "conflict" * 3, "model": "digits", "keys": client.keys}
    first, other = (client.model.encrypt(secret, digit).to_bytes() for digit in (DIGIT, DIGIT.T))
    with place.channel() as channel:
        assert list(place.call(channel, "Run", pieces(first, **words)))
    refused(place, "Run", pieces(other, **words), "ALREADY_EXISTS", "ConflictError")


class EndedError(Exception):
    """The exception by which a call is aborted."""


class Context:
    """A simulated context of a call, as gRPC passes it to a service."""

    async def abort(self, code: Any, text: str, trailing: Any) -> None:
        """Aborts the call."""
        raise EndedError(code.name, text, dict(trailing).get("heliograph-error"))

    def peer(self) -> str:
        """Returns the peer's address."""
        return ""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the call's metadata."""
        return ()


def test_silent_streams_end_and_system_errors_show_no_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent stream ends. If a system error occurs, the client gets an error without its text or paths."""
    from heliograph.serving import grpc_service
    from heliograph.serving.settings import Settings

    async def silence() -> Any:
        await asyncio.sleep(60)
        yield None

    async def broken(*_: Any) -> Any:
        raise OSError(2, "No such file", "/var/lib/secret")

    log: list[Any] = []
    metrics = types.SimpleNamespace(refusals=MagicMock(), requests=MagicMock(), request_seconds=MagicMock())
    service: Any = types.SimpleNamespace(
        settings=Settings(body_timeout=0.02),
        metrics=metrics,
        log=lambda *a, **_: log.append(a),
        access=types.SimpleNamespace(open=False),
        refusals=types.SimpleNamespace(delay=lambda _: 0.0),
        requests=types.SimpleNamespace(delay=lambda _: 0.0),
    )
    face = grpc_service.GrpcService(service, types.SimpleNamespace(link=lambda _: None), 9)  # type: ignore[arg-type]
    monkeypatch.setattr(face, "_owner", lambda _: "ann")
    monkeypatch.setattr(grpc_service, "_MESSAGE_TIMEOUT", 0.02)

    async def run(call: Any) -> None:
        async for _ in call:
            pass

    with pytest.raises(EndedError) as caught:
        asyncio.run(run(face.run(silence(), Context())))
    assert caught.value.args[0::2] == ("DEADLINE_EXCEEDED", "DeadlineError")
    with pytest.raises(EndedError) as caught:
        asyncio.run(run(grpc_service._timed(silence(), Context())))
    assert caught.value.args[0::2] == ("DEADLINE_EXCEEDED", "DeadlineError")
    with pytest.raises(EndedError) as caught:
        asyncio.run(face._unary("models", broken)(None, Context()))
    assert caught.value.args[0::2] == ("INTERNAL", "InternalError")
    assert "secret" not in caught.value.args[1]
    monkeypatch.setattr(face, "_submitted", broken)
    with pytest.raises(EndedError) as caught:
        asyncio.run(run(face.run(silence(), Context())))
    assert caught.value.args[0::2] == ("INTERNAL", "InternalError")
    assert [event for (event,) in log] == ["request_refused", "request_failed", "request_failed"]


def test_certificates_and_tokens_together(place: Calls) -> None:
    """A client is authenticated by certificate or by token, as over HTTP. A client without both is refused."""
    trust = place.authority.file.read_bytes()
    key, begin, certificate = place.authority.issue("bob").read_bytes().partition(b"-----BEGIN CERTIFICATE")
    named = grpc.ssl_channel_credentials(trust, key, begin + certificate)
    for credentials, token, code in (
        (named, "wrong", None),
        (grpc.ssl_channel_credentials(trust), place.tokens["ann"], None),
        (grpc.ssl_channel_credentials(trust), "wrong", "UNAUTHENTICATED"),
    ):
        with grpc.secure_channel(f"localhost:{place.service.ports['grpc']}", credentials) as channel:
            if code is None:
                assert place.call(channel, "Models", classes()["ModelsRequest"](), token).models
                continue
            with pytest.raises(grpc.RpcError) as caught:
                place.call(channel, "Models", classes()["ModelsRequest"](), token)
            assert caught.value.code().name == code


def test_the_declaration_as_a_file() -> None:
    """The command writes the declaration, from which tools of other languages make clients."""
    text = proto()
    assert "rpc Run(stream RunRequest) returns (stream RunReply);" in text
    assert "  repeated Model models = 1;" in text
    done = subprocess.run(
        [sys.executable, "-m", "heliograph.cli", "serve", "--proto"], capture_output=True, text=True, check=True
    )
    assert done.stdout == text


# Tables


def test_an_encrypted_table(place: Calls, tmp_path: Path) -> None:
    """A table is uploaded once and queried in SQL. Unsupported SQL and a table of another client are typed errors."""
    pytest.importorskip("sqlglot")
    frame = {"age": np.array([25, 41, 33, 58, 29, 62]), "salary": np.array([2500, 4100, 3300, 5200, 2900, 4800])}
    layout = hg.sql.layout(frame, table="t", filters=["age"], sums=["salary"])
    secret = hg.SecretKey.generate(layout.parameters)
    hg.sql.encrypt(secret, layout, frame, path=tmp_path / "t.hg")
    client = place.client(model=None)
    client.upload_keys(secret.evaluation_keys())
    table = client.upload_table(tmp_path / "t.hg")
    assert client.upload_table(hg.sql.EncryptedTable.load(tmp_path / "t.hg")) == table
    answer = client.sql("SELECT SUM(salary), COUNT(*) FROM t WHERE age < 40", table=table)
    assert answer.decrypt(secret).rows == [(8700, 3)]
    with pytest.raises(hg.sql.SqlError, match="ORDER BY") as caught:
        client.sql("SELECT SUM(salary) FROM t ORDER BY 1", table=table)
    assert caught.value.construct == "ORDER BY"
    with pytest.raises(hg.UnknownKeyError):
        client.sql("SELECT COUNT(*) FROM t", table="0" * 64)
    assert {kept["kind"] for kept in client.uploads()} == {"keys", "table"}


# The page


def test_the_page_of_the_client(place: Calls) -> None:
    """The user's own process classifies a drawing; it refuses pages of other origins."""
    client = place.client()
    page = demo_client.http_server(demo_client.DemoClient(client, hg.SecretKey.generate(client.model.parameters)), 0)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{page.server_port}"

    def ask(path: str, said: Any = None, **headers: str) -> Any:
        body = None if said is None else json.dumps(said).encode()
        told = {"Content-Type": "application/json"} | headers
        with urllib.request.urlopen(urllib.request.Request(base + path, body, told), timeout=PATIENCE) as reply:
            return reply.read()

    assert b"Draw a digit" in ask("/")
    assert json.loads(ask("/model"))["shape"] == [8, 8]
    said = json.loads(ask("/classify", {"pixels": DIGIT.tolist()}))
    assert said["scores"] == expected().tolist()
    assert said["answer"] == str(expected().argmax())
    # Python's JSON accepts NaN
    for broken in ((DIGIT + 0.5).tolist(), (DIGIT * float("nan")).tolist(), [[True] * 8] * 8):
        with pytest.raises(urllib.error.HTTPError, match="400") as caught:
            ask("/classify", {"pixels": broken})
        assert "rows of whole numbers" in json.loads(caught.value.read())["error"]["text"]
    client.revoke()
    for wrong in ({"pixels": DIGIT.tolist()}, {"pixels": [[1], [1, 2]]}, {"pixels": "x"}, {}, 3):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask("/classify", wrong)
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask("/model", **headers)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask("/classify", {"pixels": DIGIT.tolist()}, **{"Content-Type": "text/plain"})
    page.shutdown()
    page.server_close()


# Tracing spans


def test_each_job_has_one_span() -> None:
    """Each job has one span, which has only its name, model and outcome."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from heliograph.serving.metrics import Spans

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    Spans(False).job(1.0, model="digits")
    Spans(True).job(0.25, model="digits", outcome="done")
    (span,) = kept.get_finished_spans()
    assert dict(span.attributes) == {"heliograph.model": "digits", "heliograph.outcome": "done"}
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(0.25, abs=1e-3)
    assert time.time_ns() - span.end_time < PATIENCE * 1e9
