"""Settings of all tests. Several pytest processes share the machine, so by default each computes with one thread."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("HELIOGRAPH_THREADS", "1")
