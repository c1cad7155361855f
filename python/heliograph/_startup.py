"""SIGHUP of `heliograph serve` before the service can heed it: importing the engine takes half a second, in which it would end the process."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from pathlib import Path
from typing import Any

pending = False  #: whether one came


def _note(*_: Any) -> None:
    global pending
    pending = True


def hold() -> None:
    """From now on a SIGHUP is noted, and ends nothing. On other threads than the main one it does nothing."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, _note)


def _serves(words: list[str]) -> bool:
    """Whether this command line is that of ``heliograph serve``, or of ``python -m heliograph.cli serve``."""
    for word, after in itertools.pairwise(words):
        if after == "serve" and (Path(word).name == "heliograph" or word == "heliograph.cli"):
            return True
    return False


if _serves(sys.orig_argv):
    hold()
