"""A web page for the browsers of this machine: a client process serves the page and computes its answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from heliograph import _core
from heliograph._common.arguments import described, printable
from heliograph._common.process import logger
from heliograph._common.service.errors import error_to_json
from heliograph.serving.numeric import whole
from heliograph.serving.web_pages import Page, page_of

_MAX_BODY = 1 << 20
_NOT_ALLOWED = "only this process's own page, or the page of its allowed origin, may use this process"


def require_origin(origin: str | None) -> None:
    """Raises ParameterError for a text that is not a page's origin."""
    parts = urlsplit(origin or "")
    if origin is not None and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query):
        raise _core.ParameterError(
            f'a page\'s origin must be a scheme, host and port, as in "https://host:8443"; got {described(origin)}'
        )


def local_page(
    html: str,
    calls: Mapping[str, Callable[[Any], Any]],
    *,
    facts: Mapping[str, Callable[[], Any]] | None = None,
    port: int = 0,
    allowed_origin: str | None = None,
) -> ThreadingHTTPServer:
    """Returns an HTTP server of one web page at 127.0.0.1, for a client process and the browsers of its machine. Its
    `serve_forever()` runs until `shutdown()`; port 0 selects a free port (`server_port`).

    `html` is the page, with its style and script inside. The page's script sends a POST request with JSON of at most 1 MiB
    to a path of `calls`, and gets the JSON of the result of that function. GET requests to the paths of `facts` call
    functions without an argument. An error of Heliograph becomes status 400 and ``{"error": {"name", "text"}}``. Threads
    call the functions concurrently.

    Requests of other pages and of other host names are refused, because their authors could use the client's key.
    `allowed_origin` is the origin of one foreign page that may use the process too. The Content Security Policy lets the
    page run only its own script and connect only to this process.

    Raises ParameterError for an invalid origin, path or page; OSError if the port is in use.

    >>> html = "<style>p { margin: 0 }</style><p></p><script>fetch('/double', {method: 'POST'})</script>"
    >>> with hg.serving.local_page(html, {"/double": lambda number: 2 * number}) as server:
    ...     server.server_address[0]
    '127.0.0.1'
    """
    require_origin(allowed_origin)
    given = dict(facts or {})
    for path in (*calls, *given):
        if not isinstance(path, str) or not path.startswith("/") or path == "/":
            raise _core.ParameterError(f'a path of a page must be as in "/ask", got {described(path)}')
    try:
        return _PageServer(port, page_of(html), dict(calls), given, allowed_origin)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, f"127.0.0.1:{port}") from None


class _PageServer(ThreadingHTTPServer):
    """The server of one page, and the functions of its paths."""

    def __init__(
        self,
        port: int,
        page: Page,
        calls: dict[str, Callable[[Any], Any]],
        facts: dict[str, Callable[[], Any]],
        allowed_origin: str | None,
    ) -> None:
        self.page, self.calls, self.facts, self.allowed_origin = page, calls, facts, allowed_origin
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _PageServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def _is_allowed(self) -> bool:
        """Returns whether the request is from this process's page or from the allowed foreign page, and names this
        machine (DNS rebinding).
        """
        port = self.server.server_port
        hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        # Browsers omit Origin on requests without CORS and set Sec-Fetch-Site instead. Following a link to the page is
        # allowed.
        foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        followed = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.path == "/"
        if origin is None and foreign and not followed:
            return False
        allowed_origins = (None, self.server.allowed_origin, *(f"http://{host}" for host in hosts))
        return self.headers.get("Host") in hosts and origin in allowed_origins

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        headers = self.server.page.headers | {"Content-Type": kind, "Content-Length": str(len(body))}
        for name, text in headers.items():
            self.send_header(name, text)
        allowed_origin = self.server.allowed_origin
        if allowed_origin is not None and self.headers.get("Origin") == allowed_origin:
            self.send_header("Access-Control-Allow-Origin", allowed_origin)
            self.send_header("Access-Control-Allow-Headers", "Content-Type")
            self.send_header("Access-Control-Allow-Private-Network", "true")
        self.end_headers()
        self.wfile.write(body)

    def _json(self, status: int, content: Any) -> None:
        self._answer(status, json.dumps(content).encode(), "application/json")

    def _error(self, status: int, name: str, text: str) -> None:
        self._json(status, {"error": {"name": name, "text": text}})

    def _result(self, work: Callable[[], Any]) -> None:
        try:
            self._json(200, work())
        except _core.HeliographError as error:
            self._json(400, {"error": error_to_json(error)})

    def do_OPTIONS(self) -> None:
        self._answer(204 if self._is_allowed() else 403, b"", "text/plain")

    def do_GET(self) -> None:
        if not self._is_allowed():
            self._error(403, "AccessError", _NOT_ALLOWED)
        elif self.path == "/":
            self._answer(200, self.server.page.body, "text/html; charset=utf-8")
        elif self.path in self.server.facts:
            self._result(self.server.facts[self.path])
        else:
            known = [f"GET {path}" for path in ("/", *self.server.facts)] + [f"POST {path}" for path in self.server.calls]
            self._error(404, "ParameterError", f"unknown path; use {', '.join(known)}")

    def do_POST(self) -> None:
        calls = self.server.calls
        is_json = self.headers.get("Content-Type") == "application/json"
        length = -1
        with contextlib.suppress(_core.ParameterError):
            length = whole(self.headers.get("Content-Length"), "Content-Length", 0, _MAX_BODY)
        if not self._is_allowed() or not is_json or self.path not in calls or length < 0:
            self.close_connection = True
            self._error(403, "AccessError", f"{_NOT_ALLOWED}, by POST {' or '.join(calls)} of JSON")
            return
        try:
            content = json.loads(self.rfile.read(length))
        except (ValueError, RecursionError):
            self._error(400, "ParameterError", "a request must be JSON")
            return
        self._result(lambda: calls[self.path](content))

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("page: %s", printable(format % args))
