"""bare_root.py WHEEL PROGRAM: runs a Python program in a root folder that has only this Python, NumPy and the wheel.

The root has Python's library and the system libraries that these load, but no shell, compiler, MPI, CUDA or configuration.
If chroot is not permitted (no user namespaces), the program prints that it skips the test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__", "*.a", "idlelib", "tkinter")


def place(path: Path, root: Path) -> None:
    """Copies a file to its path below the root."""
    there = root / path.relative_to("/")
    if not there.exists():
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.resolve(), there)


def make(root: Path, wheel: str, program: str) -> Path:
    """Fills the root and returns the interpreter's path."""
    interpreter = Path(sys.executable).resolve()
    place(interpreter, root)
    for name in ("stdlib", "platstdlib"):
        folder = Path(sysconfig.get_path(name, vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix}))
        shutil.copytree(folder, root / folder.relative_to("/"), ignore=LEFT_OUT, dirs_exist_ok=True)
    packages = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(root / "packages"),
        wheel,
        "numpy",
    ]
    subprocess.run(packages, check=True)
    shutil.copy(program, root / "program.py")
    loaded = [interpreter, *(path for path in root.rglob("*") if ".so" in path.suffixes)]
    for path in loaded:
        needed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", needed):
            if not library.startswith(str(root)):
                place(Path(library), root)
    if any(root.rglob("*mpi.so*")) or any(root.rglob("libcuda*")):
        sys.exit("the root contains MPI or CUDA libraries")
    (root / "tmp").mkdir()
    return interpreter


def main() -> None:
    """Makes the root and runs the program in it."""
    enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
    if subprocess.run([*enter, "/", "/bin/true"], capture_output=True, check=False).returncode != 0:
        print("skipped: chroot is not permitted on this machine")
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        interpreter = make(root, sys.argv[1], sys.argv[2])
        line = [shutil.which(enter[0]) or enter[0], *enter[1:], folder, str(interpreter), "-B", "/program.py"]
        done = subprocess.run(line, env={"PYTHONPATH": "/packages"}, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
