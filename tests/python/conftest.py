"""Several processes of pytest share the machine: each computes with one thread, unless the environment says otherwise."""

from __future__ import annotations

import os

import pytest

from figures_rig import FOLDER

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("HELIOGRAPH_THREADS", "1")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks' own modules can be imported, as their runner does."""
    monkeypatch.syspath_prepend(str(FOLDER))
