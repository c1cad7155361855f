"""Several processes of pytest share the machine: each computes with one thread, unless the environment says otherwise."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("HELIOGRAPH_THREADS", "1")
