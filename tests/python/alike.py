"""Helpers shared by several test files: checks of refusals, threads, programs loaded by path."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def require_refused(attempt: Callable[[], Any], error: type[Exception], message: str) -> None:
    """Checks that `attempt` raises `error` with this message."""
    with pytest.raises(error, match=message):
        attempt()


def in_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """Returns the results of work(0), work(1), ..., each of which runs in its own thread. If one of the calls raises an
    exception, raises this exception again.

    """
    found: dict[int, Any] = {}
    failed: list[BaseException] = []

    def one(k: int) -> None:
        try:
            found[k] = work(k)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failed:
        raise error
    return [found[k] for k in range(count)]


def load_program(path: Path) -> ModuleType:
    """Loads a Python program that belongs to no package, by its path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses looks up the module there
    spec.loader.exec_module(module)
    return module
