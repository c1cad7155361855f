"""What must be so in `heliograph serve` before anything else is imported.

A SIGHUP is noted: importing the engine takes half a second, in which the signal would end the process. gRPC's core reads its
environment as it is imported, and must not print to a log that may be stuck.
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

pending = False  #: whether one came


def _note(*_: Any) -> None:
    global pending
    pending = True


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Within it a SIGHUP is noted, and ends nothing. On other threads than the main one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _serves(words: list[str]) -> bool:
    """Whether this command line is that of ``heliograph serve``, or of ``python -m heliograph.cli serve``."""
    for word, after in itertools.pairwise(words):
        if after == "serve" and (Path(word).name == "heliograph" or word == "heliograph.cli"):
            return True
    return False


if _serves(sys.orig_argv):
    signal.signal(signal.SIGHUP, _note)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
