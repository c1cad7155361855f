"""The service over gRPC: sessions, jobs and their progress, health and reflection. Uploads use HTTP only.

A call's deadline is its job's deadline; a cancelled call cancels its job.
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
from heliograph._common.service import errors
from heliograph._common.service.kinds import RUN, SESSION, SQL, kind_of
from heliograph.serving.core import Service
from heliograph.serving.grpc_proxy import GrpcProxy
from heliograph.serving.jobs import ENDS, Job, JobSpec
from heliograph.serving.log import REQUEST, error_fields, request_fields, request_id
from heliograph.serving.numeric import whole
from heliograph.serving.protobuf import METHODS, SERVICE, classes
from heliograph.serving.spool import Body
from heliograph.serving.web import LONGEST_PAGE, job_state, models_of

PIECE = 64 << 10  #: bytes of an answer in one message
_LONGEST_MESSAGE = 1 << 20
_MIN_STREAMS = 32  # least limit of streams of one connection; further streams wait at the client
_LONGEST_METADATA = 16 << 10
_IDLE_MILLISECONDS = 300_000  # milliseconds after which a connection without calls is closed
_MESSAGE_TIMEOUT = 30.0  # seconds for the next message of a reflection stream
_POLL = 1.0  # seconds between checks for a job's changes
#: Trailing metadata with the error's class; the call's details are its text.
TRAILER = "heliograph-error"


class GrpcService:
    """The service's gRPC interface."""

    def __init__(self, service: Service, proxy: GrpcProxy, streams: int) -> None:
        self.service, self.proxy, self.messages = service, proxy, classes()
        self._health, self._calls = Health(), StreamLimits(proxy, service, self._owner, streams)

    # Calls

    def _owner(self, context: Any) -> str:
        metadata = dict(context.invocation_metadata() or ())
        link = self.proxy.link(context.peer())
        if link is None:  # the listener did not forward this connection
            raise errors.AccessError("cannot take this call: its connection must come through the service's gRPC port")
        if link.retired:
            raise errors.BusyError("the service has reloaded its certificates; connect again", 0.1)
        given = metadata.get("authorization")
        return self.service.access.name(given if isinstance(given, str) else None, link.certificate)

    async def _refused(self, context: Any, what: str, error: Exception) -> None:
        """Ends the call with the error's status."""
        fields = errors.error_to_json(error)
        self.service.metrics.refusals.labels(fields["name"]).inc()
        known = isinstance(error, _core.HeliographError)
        self.service.log("request_refused" if known else "request_failed", operation=what, **error_fields(error))
        if delay := self.service.refusals.delay(self._calls.client(context)):
            await asyncio.sleep(delay)
        trailing = [(TRAILER, fields["name"])]
        if "retry_after" in fields:
            trailing.append(("retry-after", str(fields["retry_after"])))
        text = fields["text"].encode("ascii", "backslashreplace").decode()
        await context.abort(grpc.StatusCode[errors.status_of(error).grpc], text, tuple(trailing))

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
        """Returns a call's log fields."""
        metadata, link = dict(context.invocation_metadata() or ()), self.proxy.link(context.peer())
        given = metadata.get("x-request-id")
        return {"address": link.peer if link else "", "request": request_id(given if isinstance(given, str) else None)}

    def _count(self, what: str, outcome: str, start: float) -> None:
        self.service.metrics.requests.labels("grpc", what, outcome).inc()
        self.service.metrics.request_seconds.labels("grpc", what).observe(time.perf_counter() - start)

    async def models(self, request: Any, owner: str) -> Any:
        """Returns a page of the served models."""
        limit = whole(request.limit, "limit", 0, LONGEST_PAGE) or LONGEST_PAGE
        found = models_of(self.service, request.after, limit + 1)
        made = [self.messages["Model"](**model) for model in found[:limit]]
        return self.messages["ModelsReply"](models=made, next=found[limit - 1]["name"] if len(found) > limit else "")

    async def session(self, request: Any, owner: str) -> Any:
        """Checks that keys fit a model, and loads them."""
        spec = JobSpec(request.id, SESSION, request.keys, request.model)
        job = await self.service.submit(owner, spec, 0, Body(_nothing()))
        await job.wait(self.service.settings.max_deadline)
        if job.error is not None:
            raise job.error
        return self.messages["SessionReply"]()

    async def job(self, request: Any, owner: str) -> Any:
        """Returns a job's state."""
        return self._job_reply(self.service.job(owner, request.id))

    async def cancel(self, request: Any, owner: str) -> Any:
        """Cancels a job."""
        return self._job_reply(self.service.cancel(owner, request.id))

    def _job_reply(self, job: Job) -> Any:
        state = job_state(job)
        error = state.get("error", {}).get("name", "")
        return self.messages["JobReply"](
            id=state["id"], state=state["state"], stage=state["stage"], share=state["share"], error=error
        )

    async def run(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Receives a request's pieces; yields progress and the answer's pieces. A call that ends early cancels its job."""
        outcome, job, owner, start = "ok", None, "", time.perf_counter()
        REQUEST.set(self._fields(context))  # the context of this call's task
        try:
            owner = self._owner(context)
            REQUEST.set(REQUEST.get() | {"client": owner})
            job = await self._submitted(owner, requests, context)
            async for reply in self._answered(job):
                yield reply
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cut"
            if job is not None and job.state not in ENDS:
                self.service.cancel(owner, job.spec.id)
            raise
        except Exception as error:
            outcome = type(error).__name__
            await self._refused(context, "run", error)
        finally:
            self._count("run", outcome, start)

    async def _submitted(self, owner: str, requests: AsyncIterator[Any], context: Any) -> Job:
        try:
            first = await asyncio.wait_for(anext(requests, None), self.service.settings.body_timeout)
        except TimeoutError:
            raise errors.DeadlineError(
                f"cannot run: the first message must arrive within {self.service.settings.body_timeout:g} s, "
                "got none; send it at once"
            ) from None
        if first is None:
            raise _core.ParameterError("cannot run: the call's first message must describe the job, got an empty stream")
        _message(first)
        kind = kind_of(first.kind or RUN.name, SESSION)
        left = context.time_remaining()
        seconds = None if left is None or left > 1e8 else max(left, 0.001)
        parts = tuple(first.parts)
        spec = JobSpec(first.id, kind, first.keys, first.model, first.table, parts, seconds, first.watch)
        if kind is SQL and len(parts) != 1:
            raise _core.ParameterError(f"parts must be one number, the bytes of the query's text; got {len(parts)} numbers")
        return await self.service.submit(owner, spec, sum(parts), Body(_data(first, requests)))

    async def _answered(self, job: Job) -> AsyncIterator[Any]:
        reply, seen = self.messages["RunReply"], -1
        while job.state not in ENDS:
            if job.version != seen and (job.spec.watch or seen < 0):
                seen = job.version
                yield reply(state=job.state, stage=job.stage, share=job.share)
            await job.wait(_POLL, job.version)
        if job.error is not None:
            raise job.error
        self.service.metrics.sent.inc(job.answer.nbytes)
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
        """Starts gRPC's server behind the listener. Raises OSError."""
        options = [
            ("grpc.max_receive_message_length", _LONGEST_MESSAGE),
            (
                "grpc.max_concurrent_streams",
                max(2 * self.service.settings.max_jobs_per_client, self._calls.max_unauthenticated, _MIN_STREAMS),
            ),
            ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
            ("grpc.max_metadata_size", _LONGEST_METADATA),
        ]
        server: Any = grpc.aio.server(options=options, interceptors=(self._calls,))
        server.add_generic_rpc_handlers((self._handlers(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        try:
            server.add_insecure_port(f"unix:{self.proxy.path}")
        except RuntimeError:
            raise OSError(f"gRPC cannot listen on {self.proxy.path}") from None
        self.service.on_change.append(self._update_health)
        self._update_health()
        await server.start()
        return server

    def _update_health(self) -> None:
        self._health.set("", self.service.live()[0])
        self._health.set(SERVICE, self.service.ready()[0])


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc, unused-ignore]
    """gRPC's health service: "" reports whether the process is alive, the service's name whether it accepts jobs.

    A watcher that does not read delays no other call.
    """

    def __init__(self) -> None:
        self._states = dict.fromkeys(("", SERVICE), health_pb2.HealthCheckResponse.NOT_SERVING)
        self._changed = asyncio.Event()

    def set(self, name: str, is_serving: bool) -> None:
        """Sets the status of one name."""
        self._states[name] = getattr(health_pb2.HealthCheckResponse, "SERVING" if is_serving else "NOT_SERVING")
        self._changed.set()
        self._changed = asyncio.Event()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Implements gRPC's health protocol."""
        if request.service not in self._states:
            await context.abort(grpc.StatusCode.NOT_FOUND, f'unknown service; use "" or "{SERVICE}"')
        return health_pb2.HealthCheckResponse(status=self._states[request.service])

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Implements gRPC's health protocol."""
        last = None
        while True:
            changed = self._changed
            state = self._states.get(request.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if state != last:
                last = state
                yield health_pb2.HealthCheckResponse(status=state)
            await changed.wait()


class StreamLimits(grpc.aio.ServerInterceptor):  # type: ignore[misc, unused-ignore]
    """Limits concurrent streams: `most` per client. Health and reflection need no token: at most an eighth of `most` per
    address.

    A reflection stream without messages is closed.
    """

    def __init__(self, proxy: GrpcProxy, service: Service, owner: Callable[[Any], str], most: int) -> None:
        self.proxy, self.most, self._owner, self._access = proxy, most, owner, service.access
        self.max_unauthenticated = max(most // 8, 1)
        self._pace = service.refusals
        self._streams = Counter[str]()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Implements `grpc.aio.ServerInterceptor`."""
        handler = await continuation(details)
        if handler is None:
            return None
        unauthenticated = not details.method.startswith(f"/{SERVICE}/")
        if handler.unary_unary:
            return handler._replace(unary_unary=self._call(handler.unary_unary))
        kind = "stream_stream" if handler.request_streaming else "unary_stream"
        return handler._replace(**{kind: self._stream(getattr(handler, kind), unauthenticated, handler.request_streaming)})

    def _call(self, behaviour: Any) -> Any:
        async def call(request: Any, context: Any) -> Any:
            with self._connected(context):
                return await behaviour(request, context)

        return call

    def _stream(self, behaviour: Any, unauthenticated: bool, reads: bool) -> Any:
        async def stream(requests: Any, context: Any) -> AsyncIterator[Any]:
            with self._connected(context) as address:
                most = self.max_unauthenticated if unauthenticated else self.most
                account = f"address {address}" if unauthenticated else self.client(context)
                if self._streams[account] >= most:
                    if delay := self._pace.delay(account):  # the delay also applies to the client's next streams on the
                        # connection
                        await asyncio.sleep(delay)
                    text = f"cannot open this stream: {account} may have at most {most:,} streams in progress; end one first"
                    trailing = ((TRAILER, "BusyError"), ("retry-after", "1.0"))
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text, trailing)
                self._streams[account] += 1
                try:
                    async for reply in behaviour(
                        _timed(requests, context) if unauthenticated and reads else requests, context
                    ):
                        yield reply
                finally:
                    self._streams[account] -= 1
                    if not self._streams[account]:
                        del self._streams[account]

        return stream

    def client(self, context: Any) -> str:
        """Returns the client of a call, or its address if the service is open to all or does not know the client."""
        link = self.proxy.link(context.peer())
        address = "" if link is None else link.address
        try:
            return f"address {address}" if self._access.open else f"client {self._owner(context)}"
        except errors.AccessError:
            return f"address {address}"

    @contextmanager
    def _connected(self, context: Any) -> Iterator[str]:
        """Yields the address of a call and marks its connection as busy."""
        link = self.proxy.link(context.peer())
        if link is None:
            yield ""
            return
        link.begin()
        try:
            yield link.address
        finally:
            link.end()


async def _timed(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
    """Yields a stream's messages. Ends the call if no message arrives in time."""
    while True:
        try:
            message = await asyncio.wait_for(anext(requests, None), _MESSAGE_TIMEOUT)
        except TimeoutError:
            text = f"cannot continue this call: a message must arrive within {_MESSAGE_TIMEOUT:g} s, got none; call again"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text, ((TRAILER, "DeadlineError"),))
        if message is None:
            return
        yield message


def _reader(kind: Any) -> Callable[[bytes], Any]:
    """Returns a deserializer. For invalid bytes the deserializer returns the error, which the call raises."""

    def read(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except DecodeError:
            return _core.DamagedFileError(f"cannot parse the request: it must be a {kind.DESCRIPTOR.full_name} message")

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
