"""The local process of the demo page: on its user's machine it encrypts, queries the service and decrypts."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph._common.service.errors import EvictedKeyError, ExpiredKeyError, UnknownKeyError
from heliograph.client.client import Client
from heliograph.keys import SecretKey
from heliograph.serving import web_pages
from heliograph.serving.local_page import local_page, require_origin


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
        require_origin(allowed_origin)
        self.client, self.secret, self.allowed_origin = client, secret, allowed_origin
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
    """Returns the page's HTTP server at 127.0.0.1. Raises OSError if the port is in use."""
    return local_page(
        web_pages.text_of("demo"),
        {"/classify": client.classify},
        facts={"/model": client.description},
        port=port,
        allowed_origin=client.allowed_origin,
    )


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
