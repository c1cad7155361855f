"""The checks of the repository's structure detect violations."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from alike import load_program

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def layers(tmp_path: Path) -> ModuleType:
    """Returns the check of layers, applied to an empty tree."""
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
    "python/heliograph/_common/tensor.py": "from heliograph import _core\n",
    "python/heliograph/ckks/tensor.py": "from heliograph._common.tensor import Tensor\n",
    "python/heliograph/ckks/keys.py": "from heliograph.ckks import tensor\n",
    "python/heliograph/__init__.py": "from heliograph import ckks\nfrom heliograph.ckks.keys import SecretKey\n",
    "python/heliograph/ckks/__init__.py": "",
    "python/heliograph/cli/run.py": "import heliograph as hg\n\n\ndef run():\n    from heliograph import ckks\n",
}
BAD = {
    "upward": ("src/math/primes.cpp", '#include "ring/tensor.h"\n', "upward"),
    "public upward": ("src/ring/tensor.h", '#include "heliograph/exact.h"\n', "upward"),
    "backend from above": ("src/ring/tensor.cpp", '#include "backend/cpu/cpu.h"\n', "contract"),
    "backend to backend": ("src/backend/cpu/cpu.cpp", '#include "backend/ref/ref.h"\n', "backend/ref"),
    "cuda": ("src/rlwe/keys.h", "// fast with CUDA\n", "cuda"),
    "mesh": (
        "src/schemes/cinnamon/run.cpp",
        "auto* const mesh = dynamic_cast<mesh::Mesh*>(&device);\n",
        "knows the class Mesh",
    ),
    "words": ("src/schemes/exact/ops.cpp", "x.view().at<u64>(0, 0, 0);\n", "words in place"),
    "scheme": ("src/rlwe/keys.cpp", "if (k == Scheme::bfv) return;\n", "scheme"),
    "unknown floor": ("src/attic/x.h", "\n", "not a folder"),
    "import upward": (
        "python/heliograph/_common/tensor.py",
        "from heliograph.ckks import tensor\n",
        "_common imports upward, from ckks",
    ),
    "import of the package": (
        "python/heliograph/keys.py",
        "import heliograph as hg\n",
        "keys imports upward, from heliograph",
    ),
    "import of a neighbour": (
        "python/heliograph/ckks/x.py",
        "from heliograph.tfhe.tensor import Tensor\n",
        "upward, from tfhe",
    ),
    "import for an annotation": (
        "python/heliograph/keys.py",
        "if TYPE_CHECKING: from heliograph.nn.networks import Network\n",
        "upward, from nn",
    ),
    "import in a function": (
        "python/heliograph/keys.py",
        "def f(): from heliograph._common import json\n",
        "at the top of the file",
    ),
    "unknown room": ("python/heliograph/attic/x.py", "\n", "not a room"),
    "face": ("python/src/module.cpp", '#include "rlwe/keys.h"\n', "public headers"),
}


def write(root: Path, name: str, text: str) -> None:
    """Writes a file and the folders that contain it."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_sound_tree_passes(layers: ModuleType, tmp_path: Path) -> None:
    """A correct tree passes."""
    for name, text in GOOD.items():
        write(tmp_path, name, text)
    assert layers.main() == 0


@pytest.mark.parametrize("case", BAD)
def test_each_violation_is_found(layers: ModuleType, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong line in a file is detected, and the message names the line."""
    name, text, message = BAD[case]
    write(tmp_path, name, text)
    assert layers.main() == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{name}:1: ")
    assert message in said


def test_circular_imports_are_found(layers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that import each other are named in the message, also if one of them imports only types."""
    write(tmp_path, "python/heliograph/knn/rows.py", "from heliograph.knn import table\n")
    write(tmp_path, "python/heliograph/knn/table.py", "if TYPE_CHECKING:\n    from heliograph.knn.rows import Row\n")
    assert layers.main() == 1
    assert "files import each other: knn.rows -> knn.table -> knn.rows" in capsys.readouterr().out


def test_this_tree_has_valid_layers() -> None:
    """This repository passes its own check."""
    assert load_program(SCRIPTS / "check_layers.py").main() == 0


def test_long_files_and_data_are_refused(tmp_path: Path) -> None:
    """Files with too many lines or bytes are refused, and so are data sets."""
    check = load_program(SCRIPTS / "check_files.py")
    write(tmp_path, "long.py", "\n" * 801)
    write(tmp_path, "short.py", "\n" * 800)
    write(tmp_path, "train-images-idx3-ubyte", "x")
    write(tmp_path, "large.bin", "x" * 1_000_001)
    assert "801 lines" in check.error_in(tmp_path / "long.py")
    assert check.error_in(tmp_path / "short.py") is None
    assert "data" in check.error_in(tmp_path / "train-images-idx3-ubyte")
    assert "bytes" in check.error_in(tmp_path / "large.bin")


def test_long_functions_are_refused_except_kernels(tmp_path: Path) -> None:
    """Functions of the product that have more than 80 lines without the docstring are refused, except for kernels."""
    check = load_program(SCRIPTS / "check_files.py")
    line = "  x += '{';  // }\n"
    for name, count in (("run", 79), ("shorter", 78), ("quick_rotation", 79)):
        write(tmp_path, f"{name}.cpp", f"namespace a {{\n\nvoid {name}(int& x) {{\n{line * count}}}\n\n}}\n")
    docstring = '    """One.\n\n    Two.\n    """\n'
    write(tmp_path, "run.py", f"def run() -> None:\n{docstring}" + "    print()\n" * 80)
    write(tmp_path, "shorter.py", f"def run() -> None:\n{docstring}" + "    print()\n" * 79)
    assert check.long_functions(tmp_path / "run.cpp") == ["line 3: a function of 81 lines; 80 at most: void run(int& x)"]
    assert check.long_functions(tmp_path / "shorter.cpp") == []
    assert check.long_functions(tmp_path / "quick_rotation.cpp") == []
    assert check.long_functions(tmp_path / "run.py") == ["line 1: a function of 81 lines; 80 at most: run"]
    assert check.long_functions(tmp_path / "shorter.py") == []


def test_long_lines_are_refused(tmp_path: Path) -> None:
    """Lines of the product that have more than 125 columns are refused; a character of several bytes is one column."""
    check = load_program(SCRIPTS / "check_files.py")
    write(tmp_path, "wide.h", "// " + "é" * 122 + "\n// " + "x" * 123 + "\n")
    assert check.long_lines(tmp_path / "wide.h") == ["line 2: 126 columns; 125 at most"]
