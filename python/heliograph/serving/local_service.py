"""A local service for trials: a process on this machine that ends with a block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from heliograph import _core
from heliograph._common.arguments import path_of
from heliograph.serving.settings import SETTINGS, variable_of


@contextmanager
def local(*models: Any) -> Iterator[str]:
    """Serves model bundles and tables (paths) on this machine only, for trials. Yields the address for `hg.Client`. The
    service ends with the block and stores no data.

    Raises HeliographError with the service's message if the service does not start; OSError. For production use `heliograph
    serve`.

    >>> _ = hg.nn.setup("digits").export("digits.hgm")
    >>> with hg.serving.local("digits.hgm") as address:
    ...     print([model["name"] for model in hg.Client(address).models()])
    ['digits']
    """
    paths = [path_of(model) for model in models]
    with tempfile.TemporaryDirectory(prefix="heliograph-") as folder:
        command = [sys.executable, "-m", "heliograph.cli", "serve", *paths, "--store", folder, "--port", "0"]
        ignored = {"HELIOGRAPH_CONFIG", *map(variable_of, SETTINGS)} - {"HELIOGRAPH_DEVICE"}
        environment = {name: value for name, value in os.environ.items() if name not in ignored}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            yield f"http://127.0.0.1:{_port(process)}"
        finally:
            process.terminate()
            process.communicate()


def _port(process: subprocess.Popen[str]) -> int:
    """Returns the port that the service logs."""
    assert process.stderr is not None
    output = []
    for line in process.stderr:
        try:
            event = json.loads(line)
        except ValueError:
            output.append(line)
            continue
        if event.get("event") == "listening":
            return int(event["http"])
    raise _core.HeliographError("the service did not start: " + (output[-1].strip() if output else "it printed nothing"))
