"""Run PyPI's yosys (pip install pyosys): native, with slang as its reader of SystemVerilog."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RTL = Path(__file__).resolve().parent
MISSING = "yosys is not installed (pip install pyosys)"
SKIPPED = 77  # exit status of a script without yosys, which ctest counts as skipped
#: Each run is a separate process: a failing pass ends its process, and the output belongs to this run alone.
RUN = "import sys; from pyosys import libyosys as y; d = y.Design(); [y.run_pass(c, d) for c in sys.argv[1:]]"


def found() -> bool:
    """Returns whether yosys is installed."""
    return importlib.util.find_spec("pyosys") is not None


def run(commands: Sequence[str]) -> str:
    """Run commands, in the folder of the sources; return yosys' output."""
    done = subprocess.run([sys.executable, "-c", RUN, *commands], cwd=RTL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"yosys failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def version() -> str:
    """Return yosys' name and version."""
    code = "from pyosys import libyosys as y; print(y.yosys_maybe_version())"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return output.split(" (")[0].strip()


def read(top: str, files: Sequence[Path | str], parameters: dict[str, object]) -> str:
    """Return the command that reads a module with parameters."""
    given = " ".join(f"-G {name}={value}" for name, value in parameters.items())
    return f"read_slang --threads 1 --top {top} {given} {' '.join(map(str, files))}"
