"""The service over gRPC: sessions, jobs and their progress, for any language; health and reflection. Uploads are HTTP's alone.

A call's deadline is its job's, and a call that its client gives up cancels its job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from heliograph import _core
from heliograph.serving import errors
from heliograph.serving.core import Service
from heliograph.serving.jobs import ENDS, Asked, Job
from heliograph.serving.messages import METHODS, SERVICE, classes
from heliograph.serving.spool import Body
from heliograph.serving.web import models_of, told_of

PIECE = 64 << 10  #: bytes of an answer in a message
_LONGEST_MESSAGE = 1 << 20
_LOOK = 1.0  # seconds between two looks whether a job has changed
#: The error's name, for clients, in the call's trailing metadata; its text is the call's.
TRAILER = "heliograph-error"
_CODES: tuple[tuple[type[BaseException], grpc.StatusCode], ...] = (
    (errors.AccessError, grpc.StatusCode.UNAUTHENTICATED),
    (errors.ForeignKeyError, grpc.StatusCode.PERMISSION_DENIED),
    (errors.UnknownModelError, grpc.StatusCode.NOT_FOUND),
    (errors.UnknownJobError, grpc.StatusCode.NOT_FOUND),
    (errors.UnknownKeyError, grpc.StatusCode.NOT_FOUND),
    (errors.RevokedKeyError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.ExpiredKeyError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.EvictedKeyError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.RateError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.BusyError, grpc.StatusCode.UNAVAILABLE),
    (errors.ConflictError, grpc.StatusCode.ALREADY_EXISTS),
    (errors.QuotaError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.DeadlineError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (_core.CancelledError, grpc.StatusCode.CANCELLED),
    (_core.OutOfMemoryError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (_core.DeviceError, grpc.StatusCode.INTERNAL),
    (_core.InternalError, grpc.StatusCode.INTERNAL),
    (_core.HeliographError, grpc.StatusCode.INVALID_ARGUMENT),
)


def code_of(error: BaseException) -> grpc.StatusCode:
    """gRPC's status for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


class Rpc:
    """gRPC's face of a service."""

    def __init__(self, service: Service) -> None:
        self.service, self.messages = service, classes()
        aio: Any = health.aio  # type: ignore[attr-defined, unused-ignore]
        self._health: Any = aio.HealthServicer()

    # Calls

    def _owner(self, context: Any) -> str:
        told = dict(context.invocation_metadata() or ())
        names = context.auth_context().get("x509_common_name") or []
        name = names[0].decode(errors="replace") if len(names) == 1 else None
        return self.service.access.name(told.get("authorization"), name)

    async def _refused(self, context: Any, what: str, error: Exception) -> None:
        """Ends the call with the error."""
        said = errors.to_wire(error)
        self.service.figures.refusals.labels(said["name"]).inc()
        known = isinstance(error, _core.HeliographError)
        self.service.log("refused" if known else "fault", what=what, error=type(error).__name__)
        trailing = [(TRAILER, said["name"])]
        if "retry_after" in said:
            trailing.append(("retry-after", str(said["retry_after"])))
        text = said["text"].encode("ascii", "backslashreplace").decode()
        await context.abort(code_of(error), text, tuple(trailing))

    def _unary(self, what: str, handler: Callable[[Any, str], Any]) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: Any) -> Any:
            outcome = "ok"
            try:
                return await handler(_message(request), self._owner(context))
            except _core.HeliographError as error:
                outcome = type(error).__name__
                await self._refused(context, what, error)
            finally:
                self.service.figures.requests.labels("grpc", what, outcome).inc()

        return call

    async def models(self, _: Any, owner: str) -> Any:
        """What is served."""
        made = [self.messages["Model"](**model) for model in models_of(self.service)]
        return self.messages["ModelsReply"](models=made)

    async def session(self, request: Any, owner: str) -> Any:
        """Keys fit a model, and are at hand."""
        asked = Asked(request.id, "session", request.keys, request.model)
        job = await self.service.submit(owner, asked, 0, Body(_nothing()))
        await job.wait(self.service.limits.seconds)
        if job.error is not None:
            raise job.error
        return self.messages["SessionReply"]()

    async def job(self, request: Any, owner: str) -> Any:
        """A job's state."""
        return self._told(self.service.job(owner, request.id))

    async def cancel(self, request: Any, owner: str) -> Any:
        """Ends it."""
        return self._told(self.service.cancel(owner, request.id))

    def _told(self, job: Job) -> Any:
        said = told_of(job)
        error = said.get("error", {}).get("name", "")
        return self.messages["JobReply"](
            id=said["id"], state=said["state"], stage=said["stage"], share=said["share"], error=error
        )

    async def run(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """A request's pieces; progress, and the answer's pieces. A call that ends before its job cancels it."""
        outcome, job, owner = "ok", None, ""
        try:
            owner = self._owner(context)
            job = await self._submitted(owner, requests, context)
            async for reply in self._answered(job):
                yield reply
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cut"
            if job is not None and job.state not in ENDS:
                self.service.cancel(owner, job.asked.id)
            raise
        except _core.HeliographError as error:
            outcome = type(error).__name__
            await self._refused(context, "run", error)
        finally:
            self.service.figures.requests.labels("grpc", "run", outcome).inc()

    async def _submitted(self, owner: str, requests: AsyncIterator[Any], context: Any) -> Job:
        first = await anext(requests, None)
        if first is None:
            raise _core.ParameterError("a run begins with a message that says what to compute")
        _message(first)
        if first.kind not in ("", "run", "sql", "get", "nearest"):
            raise _core.ParameterError("a run is of kind run, sql, get or nearest")
        left = context.time_remaining()
        seconds = None if left is None or left > 1e8 else max(left, 0.001)
        parts = tuple(first.parts)
        asked = Asked(first.id, first.kind or "run", first.keys, first.model, first.table, parts, seconds, first.watch)
        if asked.kind == "sql" and len(parts) != 1:
            raise _core.ParameterError("a query's parts are the bytes of its text")
        return await self.service.submit(owner, asked, sum(parts), Body(_data(first, requests)))

    async def _answered(self, job: Job) -> AsyncIterator[Any]:
        reply, seen = self.messages["RunReply"], -1
        while job.state not in ENDS:
            if job.version != seen and (job.asked.watch or seen < 0):
                seen = job.version
                yield reply(state=job.state, stage=job.stage, share=job.share)
            await job.wait(_LOOK, job.version)
        if job.error is not None:
            raise job.error
        self.service.figures.sent.inc(job.answer.nbytes)
        async for piece in job.answer.pieces(PIECE):
            yield reply(state="done", share=1.0, data=piece)

    # The server

    def _handlers(self) -> Any:
        calls = {
            "Models": self._unary("models", self.models),
            "OpenSession": self._unary("session", self.session),
            "Run": self.run,
            "Job": self._unary("job", self.job),
            "Cancel": self._unary("cancel", self.cancel),
        }
        made = {}
        for method in METHODS:
            kind = grpc.stream_stream_rpc_method_handler if all(method.streams) else grpc.unary_unary_rpc_method_handler
            made[method.name] = kind(
                calls[method.name],
                request_deserializer=_reader(self.messages[method.request]),
                response_serializer=self.messages[method.reply].SerializeToString,
            )
        return grpc.method_handlers_generic_handler(SERVICE, made)

    async def start(self, address: str, credentials: Any) -> tuple[Any, int]:
        """A server, and its port. Raises OSError where that is taken."""
        options = [("grpc.max_receive_message_length", _LONGEST_MESSAGE), ("grpc.so_reuseport", 0)]
        server: Any = grpc.aio.server(options=options, maximum_concurrent_rpcs=1000)
        server.add_generic_rpc_handlers((self._handlers(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        try:
            port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        except RuntimeError:
            port = 0
        if not port:
            raise OSError(f"gRPC cannot listen on {address}")
        await self.say(health_pb2.HealthCheckResponse.SERVING)
        await server.start()
        return server, int(port)

    async def say(self, state: Any) -> None:
        """Of its health."""
        for name in ("", SERVICE):
            await self._health.set(name, state)

    async def stopping(self) -> None:
        """Balancers send nobody here any more."""
        await self.say(health_pb2.HealthCheckResponse.NOT_SERVING)


def _reader(kind: Any) -> Callable[[bytes], Any]:
    """A message of bytes, or the error of bytes that are none, which the call raises as its own."""

    def read(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except DecodeError:
            return _core.DamagedFileError("what came is no message of this service's")

    return read


def _message(read: Any) -> Any:
    if isinstance(read, Exception):
        raise read
    return read


async def _nothing() -> AsyncIterator[bytes]:
    none: tuple[bytes, ...] = ()
    for piece in none:
        yield piece


async def _data(first: Any, requests: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    if first.data:
        yield first.data
    async for message in requests:
        yield _message(message).data


def credentials_of(certificate: bytes, key: bytes, authorities: bytes | None) -> Any:
    """TLS; with authorities clients must show a certificate."""
    return grpc.ssl_server_credentials([(key, certificate)], authorities, authorities is not None)
