"""bare_root.py WHEEL PROGRAM: runs a program of Python where there is nothing but this Python, NumPy and the wheel.

The root folder has Python's library, the system's libraries that these load, and neither a shell, a compiler, MPI, CUDA nor a
configuration. Where no other root can be entered (no user namespaces), a line says that this is skipped.
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
    """A file at its own place below the root."""
    there = root / path.relative_to("/")
    if not there.exists():
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.resolve(), there)


def make(root: Path, wheel: str, program: str) -> Path:
    """Fill the root; the interpreter's place in it."""
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
        sys.exit("this root is not bare")
    (root / "tmp").mkdir()
    return interpreter


def main() -> None:
    """Make the root and run the program in it."""
    enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
    if subprocess.run([*enter, "/", "/bin/true"], capture_output=True, check=False).returncode != 0:
        print("skipped: no other root can be entered here")
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        interpreter = make(root, sys.argv[1], sys.argv[2])
        line = [shutil.which(enter[0]) or enter[0], *enter[1:], folder, str(interpreter), "-B", "/program.py"]
        done = subprocess.run(line, env={"PYTHONPATH": "/packages"}, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
