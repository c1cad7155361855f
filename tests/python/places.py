"""Devices as parameters of tests: those that this machine runs; some for `make test`, the others for `make test-all`."""

from __future__ import annotations

from typing import Any

import pytest

from rigs import open_devices

#: What `make test` computes on. That every backend's words are those of ref is held by the C++ tests.
USUAL = ("cpu", "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6", "cuda:0")


def places(*among: str, usual: tuple[str, ...] = USUAL) -> list[Any]:
    """All that this machine runs, or those of them that are `among` some."""
    found = [d for d in open_devices() if not among or d in among]
    return [pytest.param(d, marks=[] if d in usual else pytest.mark.full) for d in found]
