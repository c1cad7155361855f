"""The service over HTTP: resumable uploads, jobs, and two pages for browsers.

    GET    /v1/models?limit=&after=         served models, by name               JSON; "next" is the next page's after
    GET    /v1/models/NAME                  a client's half of a model           a model bundle's bytes
    HEAD   /v1/blobs/DIGEST                 state of an upload                   Upload-Offset, Upload-Complete
    PUT    /v1/blobs/DIGEST                 a piece of an upload from Upload-Offset on, of Upload-Length bytes in total
    DELETE /v1/blobs/DIGEST                 revokes keys or a table
    GET    /v1/blobs?limit=&after=          the client's uploads, by digest      JSON; "next" is the next page's after
    POST   /v1/jobs?id=&kind=&model=&keys=  submits a job; its answer (200) within ?wait= s (at most 30), or its state (202)
    GET    /v1/jobs/ID?wait=&seen=          a job's state                        JSON
    GET    /v1/jobs/ID/answer?wait=         a job's answer (200), or its state (202)
    DELETE /v1/jobs/ID                      cancels a job
    GET    /v1/status                       models, queue, engines, store        JSON

    GET    /livez                           200 while the event loop runs        needs no token
    GET    /readyz                          200 while jobs are accepted, or 503  needs no token

A request may have an `X-Request-Id`; each answer below /v1 has one. Errors are JSON,
`{"error": {"name": ..., "text": ...}}`, with the names of docs/errors.md.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from heliograph import _core
from heliograph._common.arguments import described
from heliograph._common.service import errors
from heliograph._common.service.kinds import RUN, kind_of
from heliograph._common.service.uploads import DIGEST
from heliograph.serving import web_pages
from heliograph.serving.connections import address_of, shown_address
from heliograph.serving.core import Service
from heliograph.serving.jobs import ENDS, LONGEST_SECONDS, Job, JobSpec
from heliograph.serving.log import REQUEST, error_fields, request_fields, request_id
from heliograph.serving.numeric import real, whole
from heliograph.serving.spool import Body, Place, Placed, Write
from heliograph.serving.uvicorn_protocol import CERTIFICATE, POUR, READ

CHUNK = 4 << 20  #: bytes; largest piece of an upload that clients are advised to send, and half of the limit
LONGEST_PAGE = 1000  #: entries of a listing in one answer
REQUEST_ID = "X-Request-Id"  #: header with a request's id for the log; generated if absent
_LONGEST_WAIT = 30.0
_AT_ONCE, _PIECE = 4 << 20, 1 << 20  # bytes of an answer that are sent at once, and bytes of a piece of a larger answer
_DRAINED = 64 << 20  # bytes of a refused request that are read and discarded before the refusal
_OWN_MACHINE = "http://127.0.0.1:*"  # origin of the demo page's local client process


def job_state(job: Job) -> dict[str, Any]:
    """Returns a job's state as JSON."""
    state = {"id": job.spec.id, "state": job.state, "stage": job.stage, "share": round(job.share, 4), "version": job.version}
    return state if job.error is None else state | {"error": errors.error_to_json(job.error)}


def models_of(service: Service, after: str = "", limit: int = LONGEST_PAGE) -> list[dict[str, Any]]:
    """Returns at most `limit` served models after a name, as JSON."""
    fields = ("name", "version", "title", "digest", "kind", "key_bytes", "input_bytes", "output_bytes")
    chosen = sorted((own, model) for own, model in service.models.items() if own > after)[:limit]
    return [{name: getattr(model, name) for name in fields} | {"name": own} for own, model in chosen]


def service_status(service: Service) -> dict[str, Any]:
    """Returns the status page's data, without client names."""
    counts = service.store.counts()
    return {
        "models": models_of(service),
        "queue": {"waiting": service.waiting, "unfinished": len(service.unfinished()), "most": service.settings.max_queue},
        "expected_wait_seconds": round(service.expected_wait(), 3),
        "engines": [
            {
                "number": e.number,
                "ready": e.ready.is_set(),
                "jobs": len(e.jobs),
                "threads": e.threads,
                "refused": sorted(e.refused),
            }
            for e in service.engines
        ],
        "store": {"keys": counts["keys"], "tables": counts["table"], "bytes": service.store.used_bytes()},
        "stopping": service.stopping,
        "version": _core.version(),
    }


class Web:
    """The service's HTTP interface."""

    def __init__(self, service: Service, most: int = 256) -> None:
        self.service, self._most = service, most  #: limit of one client's concurrent requests
        self._in_progress = Counter[str]()
        self._pages = {"status": web_pages.read("status"), "demo": web_pages.read("demo", _OWN_MACHINE)}

    def application(self) -> _Jobs:
        """Returns the ASGI application."""
        submit = self._route("/v1/jobs", "submit", self.submit, "POST")
        others = Starlette(
            routes=[
                Route("/", self._page("status"), methods=["GET"]),
                Route("/demo", self._page("demo"), methods=["GET"]),
                Route("/livez", self._health(self.service.live), methods=["GET"]),
                Route("/readyz", self._health(self.service.ready), methods=["GET"]),
                self._route("/v1/status", "status", self.status),
                self._route("/v1/models", "models", self.models),
                self._route("/v1/models/{name}", "model", self.model),
                self._route("/v1/blobs", "blobs", self.blobs),
                self._route("/v1/blobs/{digest}", "progress", self.progress, "HEAD"),
                self._route("/v1/blobs/{digest}", "upload", self.upload, "PUT"),
                self._route("/v1/blobs/{digest}", "revoke", self.revoke, "DELETE"),
                submit,
                self._route("/v1/jobs/{id}", "job", self.job),
                self._route("/v1/jobs/{id}", "cancel", self.cancel, "DELETE"),
                self._route("/v1/jobs/{id}/answer", "answer", self.answer),
            ]
        )
        return _Jobs(submit, others)

    def _route(
        self, path: str, what: str, handler: Callable[[Request, str], Awaitable[Response]], method: str = "GET"
    ) -> Route:
        """Returns a route that passes the authenticated client to its handler and converts errors to JSON."""
        metrics = self.service.metrics

        async def endpoint(request: Request) -> Response:
            outcome, start, account = "ok", time.perf_counter(), f"address {address_of(request.client)}"
            id = request_id(request.headers.get(REQUEST_ID))
            address = shown_address(tuple(request.client)) if request.client else None
            with request_fields(address=address, request=id):
                try:
                    owner = self.service.access.name(request.headers.get("authorization"), request.scope.get(CERTIFICATE))
                    REQUEST.set(REQUEST.get() | {"client": owner})
                    account = account if self.service.access.open else f"client {owner}"
                    with self._counted(owner):
                        if delay := self.service.requests.delay(account):
                            await asyncio.sleep(delay)
                        response = await handler(request, owner)
                except ClientDisconnect:
                    outcome = "cut"
                    return Response(status_code=400)
                except Exception as error:
                    outcome = type(error).__name__
                    response = await self._refused(request, what, error, account)
                finally:
                    metrics.requests.labels("http", what, outcome).inc()
                    metrics.request_seconds.labels("http", what).observe(time.perf_counter() - start)
            response.headers[REQUEST_ID] = id
            return response

        return Route(path, endpoint, methods=[method])

    @contextmanager
    def _counted(self, owner: str) -> Iterator[None]:
        """Counts a client's request while it is in progress. Raises BusyError if the client exceeds its limit."""
        if self._in_progress[owner] >= self._most and not self.service.access.open:
            raise errors.BusyError(
                f"a client may have at most {self._most:,} requests in progress; retry when one of yours has ended", 1.0
            )
        self._in_progress[owner] += 1
        try:
            yield
        finally:
            self._in_progress[owner] -= 1
            if not self._in_progress[owner]:
                del self._in_progress[owner]

    async def _refused(self, request: Request, what: str, error: Exception, account: str) -> Response:
        """Returns the response for an error. Reads and discards the rest of the request before the response, so that the
        client receives the response.

        Clients with many refusals get delayed responses.
        """
        name = errors.error_to_json(error)["name"]
        self.service.metrics.refusals.labels(name).inc()
        known = isinstance(error, _core.HeliographError)
        self.service.log("request_refused" if known else "request_failed", operation=what, **error_fields(error))
        headers = {"Heliograph-Error": name}
        if isinstance(error, errors.BusyError):
            headers["Retry-After"] = str(max(1, round(error.retry_after)))
        if isinstance(error, errors.AccessError):
            headers["WWW-Authenticate"] = "Bearer"
        if delay := self.service.refusals.delay(account):
            await asyncio.sleep(delay)
        announced = request.headers.get("content-length", "")
        if len(announced) > len(str(_DRAINED)):  # the rest of the request is too long to read
            headers["Connection"] = "close"
            return JSONResponse({"error": errors.error_to_json(error)}, errors.status_of(error).http, headers)
        try:
            async with asyncio.timeout(self.service.settings.body_timeout):
                left = _DRAINED
                async for piece in _rest(request):
                    left -= len(piece)
                    if left < 0:
                        headers["Connection"] = "close"
                        break
        except (TimeoutError, ClientDisconnect, RuntimeError):
            headers["Connection"] = "close"
        return JSONResponse({"error": errors.error_to_json(error)}, errors.status_of(error).http, headers)

    # Pages

    def _page(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(_: Request) -> Response:
            found = self._pages[name]
            return Response(found.body, media_type="text/html", headers=found.headers)

        return endpoint

    def _health(self, health: Callable[[], tuple[bool, str]]) -> Callable[[Request], Awaitable[Response]]:
        """Returns a handler that responds 200 or 503. The handler needs no token and reveals no names."""

        async def endpoint(_: Request) -> Response:
            healthy, text = health()
            return Response(f"{text}\n", 200 if healthy else 503, media_type="text/plain")

        return endpoint

    async def status(self, _: Request, owner: str) -> Response:
        """Returns the status as JSON."""
        return JSONResponse(service_status(self.service))

    # Models

    async def models(self, request: Request, owner: str) -> Response:
        """Returns a page of the served models."""
        after, limit = _page_of(request)
        found = models_of(self.service, after, limit + 1)
        following = {"next": found[limit - 1]["name"]} if len(found) > limit else {}
        return JSONResponse({"models": found[:limit], "chunk": CHUNK} | following)

    async def model(self, request: Request, owner: str) -> Response:
        """Returns the half of a model that clients need: the model without its weights."""
        found = self.service.model(request.path_params["name"])
        half = self.service.halves[request.path_params["name"]]
        return Response(half, media_type="application/octet-stream", headers={"Heliograph-Model-Digest": found.digest})

    # Uploads

    async def blobs(self, request: Request, owner: str) -> Response:
        """Returns a page of the client's uploads."""
        store, (after, limit) = self.service.store, _page_of(request)
        to_unix_time, found = store.clock.to_unix_time, store.records(owner, after, limit + 1)
        kept = [
            {
                "digest": r.digest,
                "kind": r.kind,
                "bytes": r.nbytes,
                "added": to_unix_time(r.added),
                "used": to_unix_time(r.used),
            }
            for r in found[:limit]
        ]
        following = {"next": kept[-1]["digest"]} if len(found) > limit else {}
        return JSONResponse({"blobs": kept, "quota": store.settings.quota} | following)

    async def progress(self, request: Request, owner: str) -> Response:
        """Returns the state of an upload."""
        offset, complete = self.service.store.progress(owner, _digest(request))
        return Response(headers={"Upload-Offset": str(offset), "Upload-Complete": "?1" if complete else "?0"})

    async def upload(self, request: Request, owner: str) -> Response:
        """Receives a piece of an upload."""
        offset, total, nbytes = (
            whole(request.headers.get(name), name) for name in ("upload-offset", "upload-length", "content-length")
        )
        if nbytes > 2 * CHUNK:
            raise _core.LimitError(
                f"a piece of an upload must have at most {2 * CHUNK:,} bytes, got {nbytes:,}; send smaller ones"
            )
        have, complete = await self.service.receive(owner, _digest(request), offset, total, nbytes, _stream(request))
        return JSONResponse({"offset": have, "complete": complete}, 201 if complete else 200)

    async def revoke(self, request: Request, owner: str) -> Response:
        """Revokes keys or a table."""
        await self.service.revoke(owner, _digest(request))
        return JSONResponse({"revoked": True})

    # Jobs

    async def submit(self, request: Request, owner: str) -> Response:
        """Accepts a job."""
        given, wait = request.query_params, _wait(request)
        spec = JobSpec(
            id=given.get("id", ""),
            kind=kind_of(given.get("kind", RUN.name)),
            keys=given.get("keys", ""),
            model=given.get("model", ""),
            table=given.get("table", ""),
            parts=tuple(whole(part, "parts", 1) for part in given.get("parts", "").split(",") if part),
            seconds=None if "seconds" not in given else real(given["seconds"], "seconds", 0, LONGEST_SECONDS),
            watch=given.get("watch") == "1",
        )
        nbytes = whole(request.headers.get("content-length"), "content-length")
        job = await self.service.submit(owner, spec, nbytes, _PouredBody(request, nbytes))
        return await self._answer(job, wait)

    async def job(self, request: Request, owner: str) -> Response:
        """Returns a job's state. With `seen`, waits until the version of the state differs from `seen`."""
        wait, seen = _wait(request), request.query_params.get("seen")
        version = None if seen is None else whole(seen, "seen")
        job = self.service.job(owner, request.path_params["id"])
        await job.wait(wait, version)
        return JSONResponse(job_state(job))

    async def cancel(self, request: Request, owner: str) -> Response:
        """Cancels a job."""
        return JSONResponse(job_state(self.service.cancel(owner, request.path_params["id"])))

    async def answer(self, request: Request, owner: str) -> Response:
        """Returns a job's answer."""
        wait = _wait(request)
        return await self._answer(self.service.job(owner, request.path_params["id"]), wait)

    async def _answer(self, job: Job, wait: float) -> Response:
        await job.wait(wait)
        if job.state not in ENDS:
            return JSONResponse(job_state(job), 202)
        if job.error is not None:
            raise job.error
        size = job.answer.nbytes
        self.service.metrics.sent.inc(size)
        if size <= _AT_ONCE:
            return Response(job.answer.read(), media_type="application/octet-stream")
        headers = {"Content-Length": str(size)}
        return StreamingResponse(job.answer.pieces(_PIECE), media_type="application/octet-stream", headers=headers)


class _Jobs:
    """An application that dispatches job submissions first, without Starlette's routing and error handling: the endpoint
    handles errors.
    """

    def __init__(self, submit: Route, others: Starlette) -> None:
        self._path, self._endpoint, self._others = submit.path, submit.endpoint, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self._path and scope["method"] == "POST":
            response = await self._endpoint(Request(scope, receive, send))
            await response(scope, receive, send)
        else:
            await self._others(scope, receive, send)


class _PouredBody(Body):
    """A request's body. `pour` takes the bytes that arrived with the request's head from the HTTP parser, and reads the rest
    from the connection directly.
    """

    def __init__(self, request: Request, nbytes: int) -> None:
        super().__init__(_stream(request))
        self._request, self._nbytes = request, nbytes

    async def pour(self, write: Write, place: Place | None = None, placed: Placed | None = None) -> None:
        """Implements `Body.pour`. Raises ClientDisconnect."""
        await self._request.scope[POUR](self._nbytes, write, place, placed)
        self._request.scope[READ] = True


async def _rest(request: Request) -> AsyncIterator[bytes]:
    """Yields the rest of a body; nothing if `pour` has read the body."""
    if not request.scope.get(READ):
        async for piece in request.stream():
            yield piece


async def _stream(request: Request) -> AsyncIterator[bytes]:
    async for piece in request.stream():
        if piece:
            yield piece


# Parsing of requests


def _digest(request: Request) -> str:
    found: str = request.path_params["digest"]
    if not DIGEST.fullmatch(found):
        raise _core.ParameterError(
            f"a digest must be a SHA-256, 64 hexadecimal digits in lower case, got {described(found)}"
        )
    return found


def _page_of(request: Request) -> tuple[str, int]:
    """Returns a listing's `after` and `limit`."""
    limit = request.query_params.get("limit", str(LONGEST_PAGE))
    return request.query_params.get("after", ""), whole(limit, "limit", 1, LONGEST_PAGE)


def _wait(request: Request) -> float:
    """Returns the seconds to wait for an answer."""
    return min(real(request.query_params.get("wait", "0"), "wait", 0, LONGEST_SECONDS), _LONGEST_WAIT)
