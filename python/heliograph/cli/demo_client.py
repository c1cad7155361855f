"""The local process of the demo page: on its user's machine it encrypts, queries the service and decrypts."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from heliograph import _core
from heliograph._common.arguments import described, printable
from heliograph._common.process import logger
from heliograph._common.service.errors import EvictedKeyError, ExpiredKeyError, UnknownKeyError, error_to_json
from heliograph.client.client import Client
from heliograph.keys import SecretKey
from heliograph.serving import web_pages
from heliograph.serving.numeric import whole

_MAX_BODY = 1 << 20
_NOT_ALLOWED = "only this process's own page, or the one of --allow-origin, may use this process"


class DemoClient:
    """A client that browsers of this machine use. `allowed_origin` is the origin of one foreign page that may use it too.

    Raises ParameterError for an invalid origin, and for a model whose input is not one picture.
    """

    def __init__(self, client: Client, secret: SecretKey[Any, Any], allowed_origin: str | None = None) -> None:
        model_input = client.model.inputs[0]
        if len(client.model.inputs) != 1 or len(model_input.shape) != 2:
            raise _core.ParameterError(
                f"the page needs a model with one input of 2 axes (a picture), got {printable(client.model.name)} "
                f"with {len(client.model.inputs)} inputs, the first of {len(model_input.shape)} axes"
            )
        parts = urlsplit(allowed_origin or "")
        if allowed_origin is not None and (
            parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query
        ):
            raise _core.ParameterError(
                'a page\'s origin must be a scheme, host and port, as in "https://host:8443"; '
                f"got {described(allowed_origin)}"
            )
        self.client, self.secret, self.allowed_origin = client, secret, allowed_origin
        self.page = web_pages.read("demo")
        self._lock = threading.Lock()
        if client.keys is None:
            client.upload_keys(secret)

    def description(self) -> dict[str, Any]:
        """Returns the model's description for the page."""
        model = self.client.model
        model_input = model.inputs[0]
        return {
            "model": model.name,
            "title": model.title,
            "shape": list(model_input.shape),
            "high": model_input.high
            if model_input.low == 0 or model_input.high is None
            else min(model_input.high, 255),  # largest pixel
            "request_bytes": model.input_bytes,
        }

    def classify(self, drawing: Any) -> dict[str, Any]:
        """Returns the scores of a drawing. Raises the errors of `Client.run`."""
        if not isinstance(drawing, dict) or not isinstance(drawing.get("pixels"), list):
            raise _core.ParameterError('a drawing must be a JSON object {"pixels": rows of whole numbers}')
        try:
            picture = np.asarray(drawing["pixels"])
        except (ValueError, TypeError, OverflowError):
            picture = np.empty(0)
        if picture.dtype.kind != "i":  # refuses fractions, NaN, booleans and strings
            raise _core.ParameterError("a drawing's pixels must be rows of whole numbers, all of one length")
        try:
            scores = self.client.run(picture)
        except (UnknownKeyError, ExpiredKeyError, EvictedKeyError):
            with self._lock:
                self.client.upload_keys(self.secret)
            scores = self.client.run(picture)
        return {"scores": scores.tolist(), "answer": str(self.client.model.predict(scores))}


def http_server(client: DemoClient, port: int) -> ThreadingHTTPServer:
    """Returns an HTTP server bound to 127.0.0.1. Raises OSError if the port is in use."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def _is_allowed(self) -> bool:
            """Returns whether the request is from this process's page or from the allowed foreign page, and names this
            machine (DNS rebinding).
            """
            port = self.server.server_port  # type: ignore[attr-defined]
            hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
            origin = self.headers.get("Origin")
            # Browsers omit Origin on requests without CORS and set Sec-Fetch-Site instead. Following a link to the page is
            # allowed.
            foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
            followed = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.path == "/"
            if origin is None and foreign and not followed:
                return False
            allowed_origins = (None, client.allowed_origin, *(f"http://{host}" for host in hosts))
            return self.headers.get("Host") in hosts and origin in allowed_origins

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            headers = client.page.headers | {"Content-Type": kind, "Content-Length": str(len(body))}
            for name, text in headers.items():
                self.send_header(name, text)
            if client.allowed_origin is not None and self.headers.get("Origin") == client.allowed_origin:
                self.send_header("Access-Control-Allow-Origin", client.allowed_origin)
                self.send_header("Access-Control-Allow-Headers", "Content-Type")
                self.send_header("Access-Control-Allow-Private-Network", "true")
            self.end_headers()
            self.wfile.write(body)

        def _json(self, status: int, content: Any) -> None:
            self._answer(status, json.dumps(content).encode(), "application/json")

        def do_OPTIONS(self) -> None:
            self._answer(204 if self._is_allowed() else 403, b"", "text/plain")

        def do_GET(self) -> None:
            if not self._is_allowed():
                self._json(403, {"error": {"name": "AccessError", "text": _NOT_ALLOWED}})
            elif self.path == "/":
                self._answer(200, client.page.body, "text/html; charset=utf-8")
            elif self.path == "/model":
                self._json(200, client.description())
            else:
                self._json(
                    404,
                    {"error": {"name": "ParameterError", "text": "unknown path; use GET /, GET /model or POST /classify"}},
                )

        def do_POST(self) -> None:
            valid = (
                self._is_allowed() and self.headers.get("Content-Type") == "application/json" and self.path == "/classify"
            )
            length = -1
            with contextlib.suppress(_core.ParameterError):
                length = whole(self.headers.get("Content-Length"), "Content-Length", 0, _MAX_BODY)
            if not valid or length < 0:
                self.close_connection = True
                self._json(403, {"error": {"name": "AccessError", "text": f"{_NOT_ALLOWED}, by POST /classify of JSON"}})
                return
            try:
                self._json(200, client.classify(json.loads(self.rfile.read(length))))
            except (ValueError, RecursionError):
                self._json(400, {"error": {"name": "ParameterError", "text": "a drawing must be JSON"}})
            except _core.HeliographError as error:
                self._json(400, {"error": error_to_json(error)})

        def log_message(self, format: str, *args: Any) -> None:
            logger.debug("page: %s", printable(format % args))

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, f"127.0.0.1:{port}") from None


def run(client: Client, port: int, path: Path | None, allowed_origin: str | None) -> None:
    """Serves the page until Ctrl-C. Reads the secret key from `path`, or generates it and saves it there."""
    if path is not None and path.exists():
        secret: SecretKey[Any, Any] = SecretKey.load(path)
    else:
        secret = SecretKey.generate(client.model.parameters)
        if path is not None:
            secret.save(path)
    with http_server(DemoClient(client, secret, allowed_origin), port) as server:
        print(f"the page is at http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
