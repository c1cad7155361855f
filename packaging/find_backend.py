"""Where the CUDA backend is installed beside Heliograph, it loads; whether a GPU is there is another question.

The error of a machine without a GPU is the driver's; that of a missing or foreign backend speaks of the backend.
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
    sys.exit("the backend was not loaded")
