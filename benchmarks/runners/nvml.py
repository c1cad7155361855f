"""Reads name, memory and energy of GPUs from the management library of NVIDIA's driver.

The module uses ctypes, so no package is needed. Values are None or empty if the library or the GPU is absent."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def count() -> int:
    """Returns the number of GPUs of this process; 0 if the library is absent."""
    if (listed := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return len([name for name in listed.split(",") if name.strip()])
    found = ctypes.c_uint(0)
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    return 0 if library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(found)) else found.value


class Gpus:
    """A group of GPUs, named by the CUDA runtime's numbers in this process; values are sums. For devices other than GPUs,
    these values are empty.
    """

    def __init__(self, numbers: Sequence[int] = (0,), computing: bool = True) -> None:
        self.count = len(numbers)
        self._library: Any = None
        self._handles: list[ctypes.c_void_p] = []
        if not computing or not numbers:
            return
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if library.nvmlInit_v2() == 0:
            self._handles = [handle for number in numbers if (handle := self._find(library, number))]
            if len(self._handles) == self.count:
                self._library = library

    def _find(self, library: Any, number: int) -> ctypes.c_void_p | None:
        listed = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = listed.split(",") if listed else [str(n) for n in range(number + 1)]
        chosen = names[number].strip() if number < len(names) else ""
        handle = ctypes.c_void_p()
        if chosen.startswith(("GPU-", "MIG-")):
            failed = library.nvmlDeviceGetHandleByUUID(chosen.encode(), ctypes.byref(handle))
        elif chosen.isdigit():
            failed = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(chosen)), ctypes.byref(handle))
        else:
            return None
        return None if failed else handle

    def _text(self, function: str, *arguments: Any) -> str | None:
        text = ctypes.create_string_buffer(96)
        if self._library is None or getattr(self._library, function)(*arguments, text, ctypes.c_uint(len(text))):
            return None
        return text.value.decode()

    def describe(self) -> dict[str, Any]:
        """Returns name and memory of the first GPU, the number of GPUs, the driver."""
        if self._library is None:
            return {}
        memory = _Memory()
        known = self._library.nvmlDeviceGetMemoryInfo(self._handles[0], ctypes.byref(memory)) == 0
        return {
            "gpu": self._text("nvmlDeviceGetName", self._handles[0]),
            "gpus": self.count,
            "gpu_driver": self._text("nvmlSystemGetDriverVersion"),
            "gpu_memory_gib": round(memory.total / 2**30, 1) if known else None,
        }

    def used_bytes(self) -> int | None:
        """Returns the memory in use on all GPUs, by any process."""
        if self._library is None:
            return None
        total = 0
        for handle in self._handles:
            memory = _Memory()
            if self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
                return None
            total += memory.used
        return total

    def joules(self) -> float | None:
        """Returns the energy in joules that the boards have used since the driver was loaded. The counter changes about ten
        times per second.
        """
        if self._library is None:
            return None
        total = 0.0
        for handle in self._handles:
            used = ctypes.c_ulonglong()
            if self._library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(used)):
                return None
            total += used.value / 1000
        return total
