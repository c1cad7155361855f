"""A service of one's own, to try: a process on this machine, for as long as it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from heliograph import _core
from heliograph._arrays import path_of


@contextmanager
def local(*models: Any) -> Iterator[str]:
    """A service of sealed models and tables (paths) on this machine alone: its address, for `hg.Client`. It ends with the block, and keeps nothing.

    Raises HeliographError where it does not start: the message is its own; OSError. `heliograph serve` is for more.

    >>> _ = hg.nn.setup("digits").seal("digits.hgm")
    >>> with hg.serving.local("digits.hgm") as address:
    ...     print([model["name"] for model in hg.Client(address).models()])
    ['digits']
    """
    paths = [path_of(model) for model in models]
    with tempfile.TemporaryDirectory(prefix="heliograph-") as folder:
        command = [sys.executable, "-m", "heliograph.cli", "serve", *paths, "--store", folder, "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            yield f"http://127.0.0.1:{_port(process)}"
        finally:
            process.terminate()
            process.communicate()


def _port(process: subprocess.Popen[str]) -> int:
    """Where it listens, as its log says."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        try:
            words = json.loads(line)
        except ValueError:
            said.append(line)
            continue
        if words.get("event") == "listening":
            return int(words["http"])
    raise _core.HeliographError("the service did not start: " + (said[-1].strip() if said else "it said nothing"))
