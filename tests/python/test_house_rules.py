"""The checks that hold the house together must themselves be able to fail."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from alike import load_program

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def layers(tmp_path: Path) -> ModuleType:
    """The check of floors, looking at an empty tree."""
    module = load_program(SCRIPTS / "check_layers.py")
    module.ROOT, module.SRC = tmp_path, tmp_path / "src"
    return module


GOOD = {
    "src/math/primes.cpp": '#include "base/errors.h"\n',
    "src/base/errors.h": '#include "heliograph/errors.h"\n',
    "src/backend/cpu/cpu.cpp": '#include "device/device.h"\n#include "backend/cpu/pool.h"\n',
    "src/backend/registry.cpp": '#include "backend/cpu/cpu.h"\n',
    "src/ring/tensor.cpp": '#include "device/kernels.h"\n// view.at<u64>(0)\n',
    "src/schemes/exact/ops.cpp": '#include "rlwe/keys.h"\n#include "heliograph/exact.h"\n',
    "python/src/module.cpp": '#include "heliograph/exact.h"\n#include "arrays.h"\n',
}
BAD = {
    "upward": ("src/math/primes.cpp", '#include "ring/tensor.h"\n', "upward"),
    "public upward": ("src/ring/tensor.h", '#include "heliograph/exact.h"\n', "upward"),
    "backend from above": ("src/ring/tensor.cpp", '#include "backend/cpu/cpu.h"\n', "contract"),
    "backend to backend": (
        "src/backend/cpu/cpu.cpp",
        '#include "backend/ref/ref.h"\n',
        "backend/ref",
    ),
    "cuda": ("src/rlwe/keys.h", "// fast with CUDA\n", "cuda"),
    "words": ("src/schemes/exact/ops.cpp", "x.view().at<u64>(0, 0, 0);\n", "words in place"),
    "scheme": ("src/rlwe/keys.cpp", "if (k == Scheme::bfv) return;\n", "scheme"),
    "unknown floor": ("src/attic/x.h", "\n", "not a floor"),
    "face": ("python/src/module.cpp", '#include "rlwe/keys.h"\n', "public headers"),
}


def write(root: Path, name: str, text: str) -> None:
    """Write a file and the folders above it."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_sound_tree_passes(layers: ModuleType, tmp_path: Path) -> None:
    """Nothing is said where nothing is wrong."""
    for name, text in GOOD.items():
        write(tmp_path, name, text)
    assert layers.main() == 0


@pytest.mark.parametrize("case", BAD)
def test_each_offence_is_found(layers: ModuleType, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong line in one file is found and named."""
    name, text, message = BAD[case]
    write(tmp_path, name, text)
    assert layers.main() == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{name}:1: ")
    assert message in said


def test_this_tree_stands() -> None:
    """The tree at hand passes its own check."""
    assert load_program(SCRIPTS / "check_layers.py").main() == 0


def test_long_files_and_data_are_refused(tmp_path: Path) -> None:
    """Too many lines, too many bytes, and data sets."""
    check = load_program(SCRIPTS / "check_files.py")
    write(tmp_path, "long.py", "\n" * 801)
    write(tmp_path, "short.py", "\n" * 800)
    write(tmp_path, "train-images-idx3-ubyte", "x")
    write(tmp_path, "large.bin", "x" * 1_000_001)
    assert "801 lines" in check.error_in(tmp_path / "long.py")
    assert check.error_in(tmp_path / "short.py") is None
    assert "data" in check.error_in(tmp_path / "train-images-idx3-ubyte")
    assert "bytes" in check.error_in(tmp_path / "large.bin")
