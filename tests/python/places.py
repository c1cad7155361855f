"""The devices of this machine as parameters of tests. `make test` uses some of them, `make test-all` uses all."""

from __future__ import annotations

from typing import Any

import pytest

from rigs import open_devices

#: The devices that `make test` uses. The C++ tests compare the words of every other backend with ref.
USUAL = ("cpu", "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6", "cuda:0")


def places(*among: str, usual: tuple[str, ...] = USUAL) -> list[Any]:
    """Returns the devices that this machine can run; with `among`, only those of this list."""
    found = [d for d in open_devices() if not among or d in among]
    return [pytest.param(d, marks=[] if d in usual else pytest.mark.full) for d in found]
