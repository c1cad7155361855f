"""Installation: optional libraries may be missing. Scripts detect a virtual environment that was made in another folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from heliograph import _core

ROOT = Path(__file__).resolve().parents[2]


def python(program: str, **variables: str) -> str:
    """Runs a program in its own process and returns its output."""
    line = [sys.executable, "-c", program]
    return subprocess.run(line, env=os.environ | variables, capture_output=True, text=True, check=True, timeout=60).stdout


# MPI

ALONE = {"HELIOGRAPH_RANKS": "1", "HELIOGRAPH_RANK": "0"}  # removes these variables, which exist if mpirun started the tests


def test_importing_loads_no_mpi() -> None:
    """Neither an import nor a computation loads the MPI library; only has_mpi and runs by MPI load it."""
    program = (
        "import heliograph as hg; hg.devices()\n"
        "print('libmpi' in open('/proc/self/maps').read(), hg._core.device.has_mpi(), 'libmpi' in open('/proc/self/maps').read())"
    )
    assert python(program, **ALONE).split()[-3:] == (["False", "True", "True"] if _core.device.has_mpi() else ["False"] * 3)


def test_a_machine_without_the_library(tmp_path: Path) -> None:
    """Without the MPI library everything else works. The error for MPI names the library."""
    if not _core.device.has_mpi():
        pytest.skip("this build has no MPI support")
    name = re.search(r"libmpi[a-z_]*\.so(\.\d+)?", Path("/proc/self/maps").read_text())
    assert name is not None
    (tmp_path / name[0]).touch()  # an invalid MPI library, which the loader finds first
    program = (
        "import heliograph as hg\n"
        "assert not hg._core.device.has_mpi()\n"
        "try:\n"
        "    hg.devices()\n"
        "except hg.DeviceError as error:\n"
        "    print(error)\n"
    )
    hidden = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert python(program, **hidden, **ALONE) == ""
    said = python(program, **hidden, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2", HELIOGRAPH_RANKS="")
    assert said.startswith("mpirun started this process as rank 0 of 2, but the MPI that it was built with cannot be loaded")
    assert name[0] in said
    assert "HELIOGRAPH_MEET=host:port" in said


# Scripts

OF_MAKE = ("MFLAGS", "GPU", "ARCHITECTURES", "PRESET", "PYTHON", "WERROR")


def bash(folder: Path, command: str) -> str:
    """Runs a command in a folder, without the variables that a surrounding make sets, and returns its output."""
    line = ["bash", "-euo", "pipefail", "-c", command]
    own = {name: value for name, value in os.environ.items() if "MAKE" not in name and name not in OF_MAKE}
    return subprocess.run(line, cwd=folder, env=own, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Returns a folder like a clone that has only the scripts, a simulated Python, and a virtual environment of empty
    programs.

    """
    folder = tmp_path / "a clone"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("CMakeLists.txt", "pyproject.toml", "README.md", "python", "src"):
        (folder / name).mkdir() if "." not in name else (folder / name).touch()
    fake = folder / "fake-python"
    fake.write_text(
        "#!/bin/sh\n"
        '[ "$1 $2" != "-m venv" ] || { mkdir -p .venv/bin && cp "$0" .venv/bin/python && '
        'echo "#!$(pwd -P)/.venv/bin/python3" >.venv/bin/pip; }\n'
    )
    fake.chmod(0o755)
    return folder


def set_up(folder: Path) -> str:
    """Runs setup.sh and returns its output."""
    return bash(folder, 'PYTHON="$PWD/fake-python" CXX=true scripts/setup.sh')


def test_an_environment_of_another_folder_is_recreated(clone: Path, tmp_path: Path) -> None:
    """If a clone is copied or moved, the scripts make its virtual environment again; otherwise they keep it."""
    assert "make a virtual environment" in set_up(clone)
    (clone / ".venv/kept").touch()
    assert "another folder" not in set_up(clone)
    assert (clone / ".venv/kept").exists()
    link = tmp_path / "link"
    link.symlink_to(clone)
    assert "another folder" not in set_up(link)
    copy = tmp_path / "copy"
    shutil.copytree(clone, copy)
    assert ".venv was made in another folder; it is recreated" in set_up(copy)
    assert not (copy / ".venv/kept").exists()
    assert (copy / ".venv/bin/pip").read_text() == f"#!{copy}/.venv/bin/python3\n"
    assert (clone / ".venv/kept").exists()


def test_make_detects_a_moved_environment(clone: Path, tmp_path: Path) -> None:
    """make detects that an environment was moved, although its stamp is newer than its dependencies."""
    make = 'make PYTHON="$PWD/fake-python" CXX=true .venv/.setup'
    assert "make a virtual environment" in bash(clone, make)
    assert "heliograph:" not in bash(clone, make)
    copy = tmp_path / "copy"
    shutil.copytree(clone, copy)  # keeps the times of the files
    assert "was made in another folder" in bash(copy, make)
    assert "heliograph:" not in bash(copy, make)


def test_requirements_do_not_build_the_package_again(clone: Path) -> None:
    """Changed requirements do not rebuild an installed package. The requirements of virtual hosts are installed before the
    package.

    """
    for name in ("install", "extra", "hosts", "test", "docs"):
        (clone / f"scripts/{name}.sh").write_text(f"#!/bin/sh\necho {name} $*\n")

    def make(goal: str) -> list[str]:
        return re.findall(
            "^(?:install|extra|hosts|test|docs).*", bash(clone, f'make {goal} PYTHON="$PWD/fake-python" CXX=true'), re.M
        )

    assert make("build") == ["install", "extra demo"]
    assert make("lint") == ["extra lint"]
    assert make("docs") == ["extra docs", "docs"]
    assert make("build") == []
    assert make("test") == ["hosts", "extra test", "test release"]
    (clone / "src/new.cpp").touch()
    assert make("lint") == ["install", "extra lint"]


def test_build_folders_of_another_clone_are_removed(clone: Path, tmp_path: Path) -> None:
    """A build folder that belongs to another clone is removed, because CMake refuses it."""
    for name, home in (("own", clone), ("other", tmp_path / "gone")):
        (clone / "build" / name).mkdir(parents=True)
        (clone / "build" / name / "CMakeCache.txt").write_text(f"A:STRING=b\nCMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
    said = bash(clone, "source scripts/common.sh; for f in own other none; do own_build build/$f; done")
    assert said == "heliograph: build/other was configured in another folder; it is rebuilt\n"
    assert (clone / "build/own").exists()
    assert not (clone / "build/other").exists()


def test_the_package_and_its_tests_are_one_build(clone: Path) -> None:
    """The package and the tests share one build folder for each set of backends. Options that are not given keep their
    values.

    """
    (clone / "build/other").mkdir(parents=True)
    cmake = clone / ".venv/bin/cmake"
    cmake.parent.mkdir(parents=True)
    cmake.write_text('#!/bin/sh\necho "$*" >>asked\n')
    for name, says in (
        ("ctest", "true"),
        ("python", 'echo "$SKBUILD_BUILD_DIR $*" >>asked'),
        ("c++", "true"),
        ("valgrind", "true"),
        ("pkg-config", "true"),
    ):
        (clone / ".venv/bin" / name).write_text(f"#!/bin/sh\n{says}\n")
    for program in cmake.parent.iterdir():
        program.chmod(0o755)

    def asked(preset: str, variables: str) -> list[str]:
        (clone / "asked").unlink(missing_ok=True)
        bash(
            clone,
            f"export CUDACXX=nvcc CXX=c++ PATH=$PWD/.venv/bin:$PATH {variables}; mkdir -p build/{preset}/Testing/Temporary\n"
            f"touch build/{preset}/Testing/Temporary/LastTest.log; scripts/install.sh; scripts/cpp-tests.sh {preset}",
        )
        return (clone / "asked").read_text().splitlines()[:2]

    package, tests = asked("release", "WERROR=1")
    assert package.startswith("build/release ")
    assert package.endswith("--config-settings=cmake.define.HELIOGRAPH_WERROR=ON .")
    assert tests.endswith(
        "-B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHELIOGRAPH_TESTS=ON -DHELIOGRAPH_WERROR=ON"
    )
    package, tests = asked("cuda", "GPU=1 ARCHITECTURES=native")
    assert package.startswith("build/cuda ")
    assert re.findall(r"cmake\.define\.(\S+)", package) == ["HELIOGRAPH_CUDA=ON", "CMAKE_CUDA_ARCHITECTURES=native"]
    assert tests.endswith("-DHELIOGRAPH_TESTS=ON -DHELIOGRAPH_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native")
    package, tests = asked("dev", "GPU=0")
    assert "cmake.define" not in package
    assert tests == "--preset dev"


# Documentation


def test_programs_of_the_documents_are_built() -> None:
    """Each C++ program on the pages is also in examples/cpp, and the C++ tests link and run it."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    shown = [block for page in pages for block in re.findall(r"```(?:cpp|c\+\+)\n(.*?)```", page.read_text(), re.S)]
    programs = [path.read_text() for path in (ROOT / "examples/cpp").glob("*.cpp")]
    assert sorted(shown) == sorted(programs)
    tests = (ROOT / "tests/cpp/CMakeLists.txt").read_text()
    for path in (ROOT / "examples/cpp").glob("*.cpp"):
        assert f"prints_{path.stem} " in tests
