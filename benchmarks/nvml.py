"""What the management library of NVIDIA's driver tells of a GPU: what it is, and the energy it has used.

By ctypes, so that nothing need be installed. Everything is None or empty where the library or the GPU is absent.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Gpu:
    """The GPU that the CUDA runtime numbers 0 in this process."""

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        self._library: Any = None
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if library.nvmlInit_v2() == 0 and self._find(library):
            self._library = library

    def _find(self, library: Any) -> bool:
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        handle = ctypes.byref(self._handle)
        if chosen.startswith(("GPU-", "MIG-")):
            return bool(library.nvmlDeviceGetHandleByUUID(chosen.encode(), handle) == 0)
        return chosen.isdigit() and library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(chosen)), handle) == 0

    def _text(self, function: str, *arguments: Any) -> str | None:
        text = ctypes.create_string_buffer(96)
        if self._library is None or getattr(self._library, function)(*arguments, text, ctypes.c_uint(len(text))):
            return None
        return text.value.decode()

    def describe(self) -> dict[str, Any]:
        """Name, driver and memory."""
        if self._library is None:
            return {}
        memory = _Memory()
        known = self._library.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(memory)) == 0
        return {
            "gpu": self._text("nvmlDeviceGetName", self._handle),
            "gpu_driver": self._text("nvmlSystemGetDriverVersion"),
            "gpu_memory_gib": round(memory.total / 2**30, 1) if known else None,
        }

    def joules(self) -> float | None:
        """Energy the whole board has used since the driver was loaded. The counter moves some ten times a second."""
        if self._library is None:
            return None
        used = ctypes.c_ulonglong()
        if self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle, ctypes.byref(used)):
            return None
        return used.value / 1000
