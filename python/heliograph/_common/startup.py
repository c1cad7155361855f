"""Settings that `heliograph serve` needs before any other import.

A SIGHUP is recorded: the engine's import takes half a second, during which the signal would end the process. gRPC's core
reads its environment on import, and must not print to a log that may block.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

pending = False  #: whether a SIGHUP arrived


def _note(*_: Any) -> None:
    global pending
    pending = True


@contextlib.contextmanager
def sighup_recorded() -> Iterator[None]:
    """Records a SIGHUP inside the context instead of ending the process. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _serves(words: list[str]) -> bool:
    """Tells whether the command line runs ``heliograph serve`` or ``python -m heliograph.cli serve``."""
    for word, after in itertools.pairwise(words):
        if after == "serve" and (Path(word).name == "heliograph" or word == "heliograph.cli"):
            return True
    return False


if _serves(sys.orig_argv):
    signal.signal(signal.SIGHUP, _note)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
