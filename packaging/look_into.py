"""look_into.py WHEEL MOST: checks a wheel's size (at most MOST MB), its undefined symbols and its needed libraries.

Undefined symbols must have a version, because auditwheel checks only versioned symbols. A symbol without a version may be missing from an older
C library. Only the system's libraries may be needed: no MPI.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

#: Undefined symbols that are allowed without a version: Python's, and those of the linker, the compiler and the C++ library.
OTHERS = re.compile(r"_?Py|__gmon_start__$|_ITM_|_ZGTt|__cxa_pure_virtual$")
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d$|ld-linux-x86-64\.so\.2$")


def said(*line: str) -> list[str]:
    """Returns the lines that a command prints."""
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()


def errors_in(library: Path) -> list[str]:
    """Returns the errors of a library."""
    found = []
    for line in said("readelf", "--dyn-syms", "--wide", str(library)):
        words = line.split()
        if len(words) > 7 and words[6] == "UND" and "@" not in words[7] and not OTHERS.match(words[7]):
            found.append(f"{words[7]} has no symbol version")
    for line in said("readelf", "--dynamic", "--wide", str(library)):
        needed = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if needed and not SYSTEM.match(needed[1]):
            found.append(f"needs {needed[1]}")
    return [f"{library.name}: {error}" for error in found]


def main() -> None:
    """Checks a wheel and exits with its errors."""
    wheel, most = Path(sys.argv[1]), float(sys.argv[2])
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB")
    errors = [f"the wheel has {size:.1f} MB; the limit is {most:g} MB"] if size > most else []
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        libraries = [path for path in Path(folder).rglob("*") if ".so" in path.suffixes]
        errors += [error for library in libraries for error in errors_in(library)]
    if not libraries:
        errors.append("the wheel contains no library")
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
