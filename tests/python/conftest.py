"""Settings of all tests. Several pytest processes share the machine, so each computes with one thread by default."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("HELIOGRAPH_THREADS", "1")
