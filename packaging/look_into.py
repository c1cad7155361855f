"""look_into.py WHEEL MOST: refuses a wheel of more MB, one whose libraries want what no version of the C library is named for, or MPI.

auditwheel looks at the versions that symbols are asked for in. A symbol asked for in none would be found on the machine that
built the wheel, and may be missing where the C library is older.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

#: Python's own, and what the linker, the compiler and C++'s library put into every library, to be found or not.
OTHERS = re.compile(r"_?Py|__gmon_start__$|_ITM_|_ZGTt|__cxa_pure_virtual$")
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d$|ld-linux-x86-64\.so\.2$")


def said(*line: str) -> list[str]:
    """What a program prints, line by line."""
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()


def errors_in(library: Path) -> list[str]:
    """What is wrong with a library."""
    found = []
    for line in said("readelf", "--dyn-syms", "--wide", str(library)):
        words = line.split()
        if len(words) > 7 and words[6] == "UND" and "@" not in words[7] and not OTHERS.match(words[7]):
            found.append(f"{words[7]} is asked for in no version")
    for line in said("readelf", "--dynamic", "--wide", str(library)):
        needed = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if needed and not SYSTEM.match(needed[1]):
            found.append(f"needs {needed[1]}")
    return [f"{library.name}: {error}" for error in found]


def main() -> None:
    """Look into one wheel."""
    wheel, most = Path(sys.argv[1]), float(sys.argv[2])
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {size:.1f} MB")
    errors = [f"{size:.1f} MB; {most:g} at most"] if size > most else []
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        libraries = [path for path in Path(folder).rglob("*") if ".so" in path.suffixes]
        errors += [error for library in libraries for error in errors_in(library)]
    if not libraries:
        errors.append("there is no library in it")
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
