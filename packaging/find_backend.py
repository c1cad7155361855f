"""Checks that the CUDA backend loads if it is installed beside Heliograph; a GPU is not needed.

Without a GPU, the error comes from the driver. If the backend is missing or incompatible, the error names the backend.
"""

import os
import sys
from pathlib import Path

os.environ["HELIOGRAPH_DEVICE"] = "cuda"
import heliograph as hg

try:
    print(hg.devices())
except hg.HeliographError as error:
    print(f"{type(error).__name__}: {error}")
    if "backend" in str(error):
        sys.exit(1)
if "libheliograph_cuda.so" not in Path("/proc/self/maps").read_text(encoding="utf-8"):
    sys.exit("libheliograph_cuda.so was not loaded")
