"""What tests of several files do alike: calls that are refused, threads, programs loaded by their files."""

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
    """It raises that error, which says so."""
    with pytest.raises(error, match=message):
        attempt()


def in_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """What work(0), work(1), ... give, each in a thread of its own; raises what one of them raised."""
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
    """A program that is no module of a package, by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module
