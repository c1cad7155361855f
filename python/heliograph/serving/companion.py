"""The demo page's other half: a process on its user's machine that encrypts, asks the service, and decrypts."""

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
from heliograph._arrays import printable
from heliograph.host import logger
from heliograph.keys import SecretKey
from heliograph.serving import page
from heliograph.serving.client import Client
from heliograph.serving.errors import EvictedKeyError, ExpiredKeyError, UnknownKeyError, to_wire
from heliograph.serving.numeric import whole

_LONGEST = 1 << 20


class Companion:
    """A client that browsers of this machine ask. `allowed` is the origin of one page from elsewhere that may ask it, too.

    Raises ParameterError for an origin that is none, and for a model that takes no pictures.
    """

    def __init__(self, client: Client, secret: SecretKey[Any, Any], allowed: str | None = None) -> None:
        side = client.model.inputs[0]
        if len(client.model.inputs) != 1 or len(side.shape) != 2:
            raise _core.ParameterError(f"the page draws pictures, and the model {client.model.name} takes none")
        parts = urlsplit(allowed or "")
        if allowed is not None and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query):
            raise _core.ParameterError('a page\'s origin is as in "https://host:8443"')
        self.client, self.secret, self.allowed = client, secret, allowed
        self.page = page.read("demo")
        self._lock = threading.Lock()
        if client.keys is None:
            client.upload_keys(secret)

    def told(self) -> dict[str, Any]:
        """What the page must know."""
        model = self.client.model
        side = model.inputs[0]
        return {
            "model": model.name,
            "title": model.title,
            "shape": list(side.shape),
            "high": side.high if side.low == 0 or side.high is None else min(side.high, 255),  # of a drawing's pixels
            "request_bytes": model.input_bytes,
        }

    def classify(self, said: Any) -> dict[str, Any]:
        """A drawing's scores. Raises as `Client.run`."""
        if not isinstance(said, dict) or not isinstance(said.get("pixels"), list):
            raise _core.ParameterError("a drawing is {pixels: rows of numbers}")
        try:
            picture = np.asarray(said["pixels"])
        except (ValueError, TypeError, OverflowError):
            picture = np.empty(0)
        if picture.dtype.kind != "i":  # fractions, NaN, booleans and texts are no pixels
            raise _core.ParameterError("a drawing is rows of whole numbers, as many in each")
        try:
            scores = self.client.run(picture)
        except (UnknownKeyError, ExpiredKeyError, EvictedKeyError):
            with self._lock:
                self.client.upload_keys(self.secret)
            scores = self.client.run(picture)
        return {"scores": scores.tolist(), "answer": str(self.client.model.predict(scores))}


def server_of(companion: Companion, port: int) -> ThreadingHTTPServer:
    """An HTTP server on this machine alone. Raises OSError where the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def _fit(self) -> bool:
            """Asked by a page of ours, or the one that is allowed; by the name of this machine, lest another name's page reach it."""
            hosts = {f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")}  # type: ignore[attr-defined]
            origin = self.headers.get("Origin")
            # A browser names no origin where a page may not read the answer, and says so here; a link to our page is let pass.
            foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
            followed = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.path == "/"
            if origin is None and foreign and not followed:
                return False
            fine = (None, companion.allowed, *(f"http://{host}" for host in hosts))
            return self.headers.get("Host") in hosts and origin in fine

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            told = companion.page.headers | {"Content-Type": kind, "Content-Length": str(len(body))}
            for name, text in told.items():
                self.send_header(name, text)
            if companion.allowed is not None and self.headers.get("Origin") == companion.allowed:
                self.send_header("Access-Control-Allow-Origin", companion.allowed)
                self.send_header("Access-Control-Allow-Headers", "Content-Type")
                self.send_header("Access-Control-Allow-Private-Network", "true")
            self.end_headers()
            self.wfile.write(body)

        def _json(self, status: int, said: Any) -> None:
            self._answer(status, json.dumps(said).encode(), "application/json")

        def do_OPTIONS(self) -> None:
            self._answer(204 if self._fit() else 403, b"", "text/plain")

        def do_GET(self) -> None:
            if not self._fit():
                self._json(403, {"error": {"name": "AccessError", "text": "this page may not ask this process"}})
            elif self.path == "/":
                self._answer(200, companion.page.body, "text/html; charset=utf-8")
            elif self.path == "/model":
                self._json(200, companion.told())
            else:
                self._json(
                    404, {"error": {"name": "ParameterError", "text": "there is / and /model, and /classify to post to"}}
                )

        def do_POST(self) -> None:
            fits = self._fit() and self.headers.get("Content-Type") == "application/json" and self.path == "/classify"
            length = -1
            with contextlib.suppress(_core.ParameterError):
                length = whole(self.headers.get("Content-Length"), "Content-Length", 0, _LONGEST)
            if not fits or length < 0:
                self.close_connection = True
                self._json(403, {"error": {"name": "AccessError", "text": "this page may not ask this process so"}})
                return
            try:
                self._json(200, companion.classify(json.loads(self.rfile.read(length))))
            except (ValueError, RecursionError):
                self._json(400, {"error": {"name": "ParameterError", "text": "a drawing is JSON"}})
            except _core.HeliographError as error:
                self._json(400, {"error": to_wire(error)})

        def log_message(self, format: str, *args: Any) -> None:
            logger.debug("page: %s", printable(format % args))

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, f"127.0.0.1:{port}") from None


def run(client: Client, port: int, path: Path | None, allowed: str | None) -> None:
    """Until Ctrl-C. The secret key is read from its file, or made, and written there."""
    if path is not None and path.exists():
        secret: SecretKey[Any, Any] = SecretKey.load(path)
    else:
        secret = SecretKey.generate(client.model.parameters)
        if path is not None:
            secret.save(path)
    with server_of(Companion(client, secret, allowed), port) as server:
        print(f"the page is at http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
