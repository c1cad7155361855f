"""The service over gRPC: sessions, jobs and their progress, for any language; health and reflection. Uploads are HTTP's alone.

A call's deadline is its job's, and a call that its client gives up cancels its job.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from heliograph import _core
from heliograph.serving import errors
from heliograph.serving.core import Service
from heliograph.serving.front import Front
from heliograph.serving.jobs import ENDS, Asked, Job
from heliograph.serving.log import REQUEST, error_fields, request_fields, request_id
from heliograph.serving.messages import METHODS, SERVICE, classes
from heliograph.serving.numeric import whole
from heliograph.serving.spool import Body
from heliograph.serving.web import LONGEST_PAGE, models_of, told_of

PIECE = 64 << 10  #: bytes of an answer in a message
_LONGEST_MESSAGE = 1 << 20
_STREAMS = 32  # of one connection, at least, so that watchers leave room; a client that has more of them waits
_LONGEST_METADATA = 16 << 10
_IDLE_MILLISECONDS = 300_000  # that a connection without calls may be there
_SILENCE = 30.0  # seconds that a stream of reflection may say nothing
_LOOK = 1.0  # seconds between two looks whether a job has changed
#: The error's name, for clients, in the call's trailing metadata; its text is the call's.
TRAILER = "heliograph-error"
_CODES: tuple[tuple[type[BaseException], grpc.StatusCode], ...] = (
    (errors.AccessError, grpc.StatusCode.UNAUTHENTICATED),
    (errors.ForeignKeyError, grpc.StatusCode.PERMISSION_DENIED),
    (errors.UnknownModelError, grpc.StatusCode.NOT_FOUND),
    (errors.ModelUnavailableError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.UnknownJobError, grpc.StatusCode.NOT_FOUND),
    (errors.UnknownKeyError, grpc.StatusCode.NOT_FOUND),
    (errors.RevokedKeyError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.ExpiredKeyError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.EvictedKeyError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.RateError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.BusyError, grpc.StatusCode.UNAVAILABLE),
    (errors.ConflictError, grpc.StatusCode.ALREADY_EXISTS),
    (errors.QuotaError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.StorageError, grpc.StatusCode.INTERNAL),
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

    def __init__(self, service: Service, front: Front, streams: int) -> None:
        self.service, self.front, self.messages = service, front, classes()
        self._health, self._calls = Health(), Calls(front, service, self._owner, streams)

    # Calls

    def _owner(self, context: Any) -> str:
        told = dict(context.invocation_metadata() or ())
        link = self.front.link(context.peer())
        if link is None:  # not a connection that the listener passed on
            raise errors.AccessError("this connection was not made through the service's port")
        if link.retired:
            raise errors.BusyError("the service's certificates were read again: connect again", 0.1)
        given = told.get("authorization")
        return self.service.access.name(given if isinstance(given, str) else None, link.certificate)

    async def _refused(self, context: Any, what: str, error: Exception) -> None:
        """Ends the call with the error."""
        said = errors.to_wire(error)
        self.service.figures.refusals.labels(said["name"]).inc()
        known = isinstance(error, _core.HeliographError)
        self.service.log("refused" if known else "fault", what=what, **error_fields(error))
        if delay := self.service.refusals.delay(self._calls.client(context)):
            await asyncio.sleep(delay)
        trailing = [(TRAILER, said["name"])]
        if "retry_after" in said:
            trailing.append(("retry-after", str(said["retry_after"])))
        text = said["text"].encode("ascii", "backslashreplace").decode()
        await context.abort(code_of(error), text, tuple(trailing))

    def _unary(self, what: str, handler: Callable[[Any, str], Any]) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: Any) -> Any:
            outcome, start = "ok", time.perf_counter()
            with request_fields(**self._fields(context)):
                try:
                    owner = self._owner(context)
                    REQUEST.set(REQUEST.get() | {"client": owner})
                    if delay := self.service.requests.delay(self._calls.client(context)):
                        await asyncio.sleep(delay)
                    return await handler(_message(request), owner)
                except Exception as error:
                    outcome = type(error).__name__
                    await self._refused(context, what, error)
                finally:
                    self._count(what, outcome, start)

        return call

    def _fields(self, context: Any) -> dict[str, str]:
        """Of a call, for the log."""
        told, link = dict(context.invocation_metadata() or ()), self.front.link(context.peer())
        given = told.get("x-request-id")
        return {"address": link.peer if link else "", "request": request_id(given if isinstance(given, str) else None)}

    def _count(self, what: str, outcome: str, start: float) -> None:
        self.service.figures.requests.labels("grpc", what, outcome).inc()
        self.service.figures.request_seconds.labels("grpc", what).observe(time.perf_counter() - start)

    async def models(self, request: Any, owner: str) -> Any:
        """A page of what is served."""
        limit = whole(request.limit, "limit", 0, LONGEST_PAGE) or LONGEST_PAGE
        found = models_of(self.service, request.after, limit + 1)
        made = [self.messages["Model"](**model) for model in found[:limit]]
        return self.messages["ModelsReply"](models=made, next=found[limit - 1]["name"] if len(found) > limit else "")

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
        outcome, job, owner, start = "ok", None, "", time.perf_counter()
        REQUEST.set(self._fields(context))  # of this call's own task
        try:
            owner = self._owner(context)
            REQUEST.set(REQUEST.get() | {"client": owner})
            job = await self._submitted(owner, requests, context)
            async for reply in self._answered(job):
                yield reply
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cut"
            if job is not None and job.state not in ENDS:
                self.service.cancel(owner, job.asked.id)
            raise
        except Exception as error:
            outcome = type(error).__name__
            await self._refused(context, "run", error)
        finally:
            self._count("run", outcome, start)

    async def _submitted(self, owner: str, requests: AsyncIterator[Any], context: Any) -> Job:
        try:
            first = await asyncio.wait_for(anext(requests, None), self.service.limits.idle)
        except TimeoutError:
            raise errors.DeadlineError(
                f"cannot run: the first message must come within {self.service.limits.idle:g} s, got none; send it at once"
            ) from None
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

    async def start(self) -> Any:
        """A server behind the listener. Raises OSError."""
        options = [
            ("grpc.max_receive_message_length", _LONGEST_MESSAGE),
            ("grpc.max_concurrent_streams", max(2 * self.service.limits.jobs, self._calls.most_nameless, _STREAMS)),
            ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
            ("grpc.max_metadata_size", _LONGEST_METADATA),
        ]
        server: Any = grpc.aio.server(options=options, interceptors=(self._calls,))
        server.add_generic_rpc_handlers((self._handlers(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        try:
            server.add_insecure_port(f"unix:{self.front.path}")
        except RuntimeError:
            raise OSError(f"gRPC cannot listen on {self.front.path}") from None
        self.service.on_change.append(self._say)
        self._say()
        await server.start()
        return server

    def _say(self) -> None:
        self._health.set("", self.service.live()[0])
        self._health.set(SERVICE, self.service.ready()[0])


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc, unused-ignore]
    """Of "" whether the process lives, of the service's name whether it takes jobs. A watcher that does not read holds up no other."""

    def __init__(self) -> None:
        self._states = dict.fromkeys(("", SERVICE), health_pb2.HealthCheckResponse.NOT_SERVING)
        self._changed = asyncio.Event()

    def set(self, name: str, fine: bool) -> None:
        """Of one of them."""
        self._states[name] = getattr(health_pb2.HealthCheckResponse, "SERVING" if fine else "NOT_SERVING")
        self._changed.set()
        self._changed = asyncio.Event()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """As gRPC's health protocol has it."""
        if request.service not in self._states:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no such service: {SERVICE} is")
        return health_pb2.HealthCheckResponse(status=self._states[request.service])

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """As gRPC's health protocol has it."""
        last = None
        while True:
            changed = self._changed
            state = self._states.get(request.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if state != last:
                last = state
                yield health_pb2.HealthCheckResponse(status=state)
            await changed.wait()


class Calls(grpc.aio.ServerInterceptor):  # type: ignore[misc, unused-ignore]
    """Bounds the streams in progress: `most` of one client, and an eighth as many of one address for health and reflection, for which
    nobody needs a name. A stream of reflection that says nothing ends.
    """

    def __init__(self, front: Front, service: Service, owner: Callable[[Any], str], most: int) -> None:
        self.front, self.most, self._owner, self._access = front, most, owner, service.access
        self.most_nameless = max(most // 8, 1)
        self._pace = service.refusals
        self._streams = Counter[str]()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """As gRPC has it."""
        handler = await continuation(details)
        if handler is None:
            return None
        nameless = not details.method.startswith(f"/{SERVICE}/")
        if handler.unary_unary:
            return handler._replace(unary_unary=self._call(handler.unary_unary))
        kind = "stream_stream" if handler.request_streaming else "unary_stream"
        return handler._replace(**{kind: self._stream(getattr(handler, kind), nameless, handler.request_streaming)})

    def _call(self, behaviour: Any) -> Any:
        async def call(request: Any, context: Any) -> Any:
            with self._linked(context):
                return await behaviour(request, context)

        return call

    def _stream(self, behaviour: Any, nameless: bool, reads: bool) -> Any:
        async def stream(requests: Any, context: Any) -> AsyncIterator[Any]:
            with self._linked(context) as address:
                most = self.most_nameless if nameless else self.most
                whose = f"address {address}" if nameless else self.client(context)
                if self._streams[whose] >= most:
                    if delay := self._pace.delay(whose):  # which holds up this client's next streams on the connection
                        await asyncio.sleep(delay)
                    text = f"cannot take this stream: {whose} may have at most {most:,} in progress; end one of yours"
                    trailing = ((TRAILER, "BusyError"), ("retry-after", "1.0"))
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text, trailing)
                self._streams[whose] += 1
                try:
                    async for reply in behaviour(_spoken(requests, context) if nameless and reads else requests, context):
                        yield reply
                finally:
                    self._streams[whose] -= 1
                    if not self._streams[whose]:
                        del self._streams[whose]

        return stream

    def client(self, context: Any) -> str:
        """Whose call it is. One of nobody that the service knows is its address's, until it is refused."""
        link = self.front.link(context.peer())
        address = "" if link is None else link.address
        try:
            return f"address {address}" if self._access.open else f"client {self._owner(context)}"
        except errors.AccessError:
            return f"address {address}"

    @contextmanager
    def _linked(self, context: Any) -> Iterator[str]:
        """The address of a call, whose connection is not idle meanwhile."""
        link = self.front.link(context.peer())
        if link is None:
            yield ""
            return
        link.begin()
        try:
            yield link.address
        finally:
            link.end()


async def _spoken(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
    """A stream's messages; one that says nothing for as long as a connection may be silent is ended."""
    while True:
        try:
            message = await asyncio.wait_for(anext(requests, None), _SILENCE)
        except TimeoutError:
            text = f"cannot go on with this call: a message must come within {_SILENCE:g} s, got none; begin it again"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text, ((TRAILER, "DeadlineError"),))
        if message is None:
            return
        yield message


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
