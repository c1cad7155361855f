"""The service over HTTP: uploads that go on where they stopped, jobs, and two pages for browsers.

    GET    /v1/models?limit=&after=         what is served, by name              as JSON; "next" is the next page's after
    GET    /v1/models/NAME                  a client's half of a model           a sealed model's bytes
    HEAD   /v1/blobs/DIGEST                 how far an upload is                 Upload-Offset, Upload-Complete
    PUT    /v1/blobs/DIGEST                 its bytes from Upload-Offset on, of Upload-Length in all
    DELETE /v1/blobs/DIGEST                 takes it back
    GET    /v1/blobs?limit=&after=          what the client has here, by digest  as JSON; "next" is the next page's after
    POST   /v1/jobs?id=&kind=&model=&keys=  a request; within ?wait= seconds (30 at most) its answer (200), else its state (202)
    GET    /v1/jobs/ID?wait=&seen=          its state                            as JSON
    GET    /v1/jobs/ID/answer?wait=         its answer (200), or its state (202)
    DELETE /v1/jobs/ID                      cancels it
    GET    /v1/status                       models, queue, figures               as JSON

    GET    /livez                           200 while the process does anything  needs no token
    GET    /readyz                          200 while it takes jobs, else 503    needs no token

A request may have an `X-Request-Id`, and each answer below /v1 has one. Refusals are JSON, `{"error": {"name": ..., "text": ...}}`, by the names of docs/errors.md.
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
from heliograph.serving import errors, page
from heliograph.serving.connections import address_of, shown_address
from heliograph.serving.core import Service
from heliograph.serving.jobs import ENDS, LONGEST_SECONDS, Asked, Job
from heliograph.serving.log import REQUEST, error_fields, request_fields, request_id
from heliograph.serving.numeric import real, whole
from heliograph.serving.protocol import CERTIFICATE, POUR, READ
from heliograph.serving.records import DIGEST
from heliograph.serving.spool import Body

CHUNK = 4 << 20  #: bytes of an upload that one request holds, at most twice
LONGEST_PAGE = 1000  #: entries of a listing in one answer
REQUEST_ID = "X-Request-Id"  #: of a request, by which the log names it; without one the service gives it one
_LONGEST_WAIT = 30.0
_AT_ONCE, _PIECE = 4 << 20, 1 << 20  # bytes of an answer that are sent whole, and of a larger one at a time
_DRAINED = 64 << 20  # bytes that a refused client may send before it hears so
_STATUS: tuple[tuple[type[BaseException], int], ...] = (
    (errors.AccessError, 401),
    (errors.ForeignKeyError, 403),
    (errors.UnknownModelError, 404),
    (errors.ModelUnavailableError, 503),
    (errors.UnknownJobError, 404),
    (errors.UnknownKeyError, 404),
    (errors.UploadError, 409),
    (errors.ConflictError, 409),
    (_core.CancelledError, 409),
    (errors.RevokedKeyError, 410),
    (errors.ExpiredKeyError, 410),
    (errors.EvictedKeyError, 410),
    (_core.LimitError, 413),
    (errors.RateError, 429),
    (errors.BusyError, 503),
    (errors.DeadlineError, 504),
    (errors.QuotaError, 507),
    (errors.StorageError, 500),
    (_core.DeviceError, 500),
    (_core.InternalError, 500),
    (_core.OutOfMemoryError, 507),
    (_core.HeliographError, 400),
)
_OWN_MACHINE = "http://127.0.0.1:*"  # where the demo page asks the client process of its user


def status_of(error: BaseException) -> int:
    """HTTP's number for an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def told_of(job: Job) -> dict[str, Any]:
    """A job's state, as JSON."""
    said = {"id": job.asked.id, "state": job.state, "stage": job.stage, "share": round(job.share, 4), "version": job.version}
    return said if job.error is None else said | {"error": errors.to_wire(job.error)}


def models_of(service: Service, after: str = "", limit: int = LONGEST_PAGE) -> list[dict[str, Any]]:
    """What is served, as JSON: so many models after a name."""
    fields = ("name", "version", "title", "digest", "kind", "key_bytes", "input_bytes", "output_bytes")
    chosen = sorted((own, model) for own, model in service.models.items() if own > after)[:limit]
    return [{name: getattr(model, name) for name in fields} | {"name": own} for own, model in chosen]


def status_figures(service: Service) -> dict[str, Any]:
    """For the status page: no names of clients."""
    counts = service.store.counts()
    return {
        "models": models_of(service),
        "queue": {"waiting": service.waiting, "unfinished": len(service.unfinished()), "most": service.limits.queue},
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
        "store": {
            "keys": counts["keys"],
            "tables": counts["table"],
            "bytes": service.store.used_bytes(),
        },
        "stopping": service.stopping,
        "version": _core.version(),
    }


class Web:
    """HTTP's face of a service."""

    def __init__(self, service: Service, most: int = 256) -> None:
        self.service, self._most = service, most  #: requests of one client that are in progress
        self._in_progress = Counter[str]()
        self._pages = {"status": page.read("status"), "demo": page.read("demo", _OWN_MACHINE)}

    def application(self) -> _Jobs:
        """As uvicorn runs it."""
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
        """A handler that knows the client, and whose errors travel by name."""
        figures = self.service.figures

        async def endpoint(request: Request) -> Response:
            outcome, start, whose = "ok", time.perf_counter(), f"address {address_of(request.client)}"
            id = request_id(request.headers.get(REQUEST_ID))
            address = shown_address(tuple(request.client)) if request.client else None
            with request_fields(address=address, request=id):
                try:
                    owner = self.service.access.name(request.headers.get("authorization"), request.scope.get(CERTIFICATE))
                    REQUEST.set(REQUEST.get() | {"client": owner})
                    whose = whose if self.service.access.open else f"client {owner}"
                    with self._counted(owner):
                        if delay := self.service.requests.delay(whose):
                            await asyncio.sleep(delay)
                        response = await handler(request, owner)
                except ClientDisconnect:
                    outcome = "cut"
                    return Response(status_code=400)
                except Exception as error:
                    outcome = type(error).__name__
                    response = await self._refused(request, what, error, whose)
                finally:
                    figures.requests.labels("http", what, outcome).inc()
                    figures.request_seconds.labels("http", what).observe(time.perf_counter() - start)
            response.headers[REQUEST_ID] = id
            return response

        return Route(path, endpoint, methods=[method])

    @contextmanager
    def _counted(self, owner: str) -> Iterator[None]:
        """A request of a client while it is in progress. Raises BusyError beyond what a named client may have."""
        if self._in_progress[owner] >= self._most and not self.service.access.open:
            raise errors.BusyError(
                f"cannot take this request: a client may have at most {self._most:,} in progress; wait for one of yours", 1.0
            )
        self._in_progress[owner] += 1
        try:
            yield
        finally:
            self._in_progress[owner] -= 1
            if not self._in_progress[owner]:
                del self._in_progress[owner]

    async def _refused(self, request: Request, what: str, error: Exception, whose: str) -> Response:
        """What was sent all the same is read and let go, so that the refusal is heard. A client that is refused often hears it late."""
        name = errors.to_wire(error)["name"]
        self.service.figures.refusals.labels(name).inc()
        known = isinstance(error, _core.HeliographError)
        self.service.log("refused" if known else "fault", what=what, **error_fields(error))
        headers = {"Heliograph-Error": name}
        if isinstance(error, errors.BusyError):
            headers["Retry-After"] = str(max(1, round(error.retry_after)))
        if isinstance(error, errors.AccessError):
            headers["WWW-Authenticate"] = "Bearer"
        if delay := self.service.refusals.delay(whose):
            await asyncio.sleep(delay)
        announced = request.headers.get("content-length", "")
        if len(announced) > len(str(_DRAINED)):  # it would take too long
            headers["Connection"] = "close"
            return JSONResponse({"error": errors.to_wire(error)}, status_of(error), headers)
        try:
            async with asyncio.timeout(self.service.limits.idle):
                left = _DRAINED
                async for piece in _rest(request):
                    left -= len(piece)
                    if left < 0:
                        headers["Connection"] = "close"
                        break
        except (TimeoutError, ClientDisconnect, RuntimeError):
            headers["Connection"] = "close"
        return JSONResponse({"error": errors.to_wire(error)}, status_of(error), headers)

    # Pages

    def _page(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(_: Request) -> Response:
            found = self._pages[name]
            return Response(found.body, media_type="text/html", headers=found.headers)

        return endpoint

    def _health(self, health: Callable[[], tuple[bool, str]]) -> Callable[[Request], Awaitable[Response]]:
        """200 or 503. It needs no token, and has no names."""

        async def endpoint(_: Request) -> Response:
            fine, text = health()
            return Response(f"{text}\n", 200 if fine else 503, media_type="text/plain")

        return endpoint

    async def status(self, _: Request, owner: str) -> Response:
        """Figures."""
        return JSONResponse(status_figures(self.service))

    # Models

    async def models(self, request: Request, owner: str) -> Response:
        """A page of what is served."""
        after, limit = _page_of(request)
        found = models_of(self.service, after, limit + 1)
        following = {"next": found[limit - 1]["name"]} if len(found) > limit else {}
        return JSONResponse({"models": found[:limit], "chunk": CHUNK} | following)

    async def model(self, request: Request, owner: str) -> Response:
        """A client's half."""
        found = self.service.model(request.path_params["name"])
        half = self.service.halves[request.path_params["name"]]
        return Response(half, media_type="application/octet-stream", headers={"Heliograph-Model-Digest": found.digest})

    # Uploads

    async def blobs(self, request: Request, owner: str) -> Response:
        """A page of what the client has here."""
        store, (after, limit) = self.service.store, _page_of(request)
        shown, found = store.ages.shown, store.records(owner, after, limit + 1)
        kept = [
            {"digest": r.digest, "kind": r.kind, "bytes": r.nbytes, "added": shown(r.added), "used": shown(r.used)}
            for r in found[:limit]
        ]
        following = {"next": kept[-1]["digest"]} if len(found) > limit else {}
        return JSONResponse({"blobs": kept, "quota": store.bounds.quota} | following)

    async def progress(self, request: Request, owner: str) -> Response:
        """How far an upload is."""
        offset, complete = self.service.store.progress(owner, _digest(request))
        return Response(headers={"Upload-Offset": str(offset), "Upload-Complete": "?1" if complete else "?0"})

    async def upload(self, request: Request, owner: str) -> Response:
        """A piece of one."""
        offset, total, nbytes = (
            whole(request.headers.get(name), name) for name in ("upload-offset", "upload-length", "content-length")
        )
        if nbytes > 2 * CHUNK:
            raise _core.LimitError(f"a piece of an upload has at most {2 * CHUNK:,} bytes")
        have, complete = await self.service.receive(owner, _digest(request), offset, total, nbytes, _stream(request))
        return JSONResponse({"offset": have, "complete": complete}, 201 if complete else 200)

    async def revoke(self, request: Request, owner: str) -> Response:
        """Takes keys or a table back."""
        await self.service.revoke(owner, _digest(request))
        return JSONResponse({"revoked": True})

    # Jobs

    async def submit(self, request: Request, owner: str) -> Response:
        """A job."""
        given, wait = request.query_params, _wait(request)
        asked = Asked(
            id=given.get("id", ""),
            kind=_one_of(given.get("kind", "run"), "run", "session", "sql", "get", "nearest"),
            keys=given.get("keys", ""),
            model=given.get("model", ""),
            table=given.get("table", ""),
            parts=tuple(whole(part, "parts", 1) for part in given.get("parts", "").split(",") if part),
            seconds=None if "seconds" not in given else real(given["seconds"], "seconds", 0, LONGEST_SECONDS),
            watch=given.get("watch") == "1",
        )
        nbytes = whole(request.headers.get("content-length"), "content-length")
        job = await self.service.submit(owner, asked, nbytes, _Poured(request, nbytes))
        return await self._answer(job, wait)

    async def job(self, request: Request, owner: str) -> Response:
        """Its state; with `seen`, once that has changed."""
        wait, seen = _wait(request), request.query_params.get("seen")
        version = None if seen is None else whole(seen, "seen")
        job = self.service.job(owner, request.path_params["id"])
        await job.wait(wait, version)
        return JSONResponse(told_of(job))

    async def cancel(self, request: Request, owner: str) -> Response:
        """Ends it."""
        return JSONResponse(told_of(self.service.cancel(owner, request.path_params["id"])))

    async def answer(self, request: Request, owner: str) -> Response:
        """What came of it."""
        wait = _wait(request)
        return await self._answer(self.service.job(owner, request.path_params["id"]), wait)

    async def _answer(self, job: Job, wait: float) -> Response:
        await job.wait(wait)
        if job.state not in ENDS:
            return JSONResponse(told_of(job), 202)
        if job.error is not None:
            raise job.error
        size = job.answer.nbytes
        self.service.figures.sent.inc(size)
        if size <= _AT_ONCE:
            return Response(job.answer.read(), media_type="application/octet-stream")
        headers = {"Content-Length": str(size)}
        return StreamingResponse(job.answer.pieces(_PIECE), media_type="application/octet-stream", headers=headers)


class _Jobs:
    """An application that has new jobs before it looks for anything else: the endpoint catches what goes wrong there."""

    def __init__(self, submit: Route, others: Starlette) -> None:
        self._path, self._endpoint, self._others = submit.path, submit.endpoint, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self._path and scope["method"] == "POST":
            response = await self._endpoint(Request(scope, receive, send))
            await response(scope, receive, send)
        else:
            await self._others(scope, receive, send)


class _Poured(Body):
    """A request's body: what came with its head by the parser, the rest past it."""

    def __init__(self, request: Request, nbytes: int) -> None:
        super().__init__(_stream(request))
        self._request, self._nbytes = request, nbytes

    async def pour(
        self,
        write: Callable[[memoryview | bytes], None],
        place: Callable[[], memoryview] | None = None,
        placed: Callable[[int], None] | None = None,
    ) -> None:
        """As `Body.pour`. Raises ClientDisconnect."""
        await self._request.scope[POUR](self._nbytes, write, place, placed)
        self._request.scope[READ] = True


async def _rest(request: Request) -> AsyncIterator[bytes]:
    """What is still to come of a body: nothing of one that was poured."""
    if not request.scope.get(READ):
        async for piece in request.stream():
            yield piece


async def _stream(request: Request) -> AsyncIterator[bytes]:
    async for piece in request.stream():
        if piece:
            yield piece


# What a request says


def _digest(request: Request) -> str:
    found: str = request.path_params["digest"]
    if not DIGEST.fullmatch(found):
        raise _core.ParameterError("contents are named by SHA-256, 64 hexadecimal digits")
    return found


def _page_of(request: Request) -> tuple[str, int]:
    """After which entry a listing goes on, and how many it has at most."""
    limit = request.query_params.get("limit", str(LONGEST_PAGE))
    return request.query_params.get("after", ""), whole(limit, "limit", 1, LONGEST_PAGE)


def _wait(request: Request) -> float:
    """Seconds for which an answer is held back at most."""
    return min(real(request.query_params.get("wait", "0"), "wait", 0, LONGEST_SECONDS), _LONGEST_WAIT)


def _one_of(text: str, *known: str) -> str:
    if text not in known:
        raise _core.ParameterError(f"a job is of kind {', '.join(known)}")
    return text
