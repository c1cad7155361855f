"""The types that mypy infers in users' programs, if mypy is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

PROGRAM = """
from typing import assert_type
import numpy as np
import heliograph as hg

c = hg.SecretKey.generate(hg.ckks.parameters(depth=1)).encrypt([1.0])
b = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20)).encrypt([1])
t = hg.SecretKey.generate(hg.tfhe.parameters()).encrypt([1])
assert_type(np.ones(3) * c, hg.ckks.Tensor)
assert_type(np.ones(3) + c, hg.ckks.Tensor)
assert_type(np.ones(3) - c, hg.ckks.Tensor)
assert_type(np.float64(2) * c, hg.ckks.Tensor)
assert_type(2.0 * c, hg.ckks.Tensor)
assert_type(np.ones((3, 3)) @ c, hg.ckks.Tensor)
assert_type(c * np.ones(3), hg.ckks.Tensor)
assert_type(c[[0, 1]], hg.ckks.Tensor)
assert_type(np.arange(3) * b, hg.bfv.Tensor)
assert_type(np.int64(3) * b, hg.bfv.Tensor)
assert_type(np.arange(3) * t, hg.tfhe.Tensor)
assert_type(np.arange(3) < t, hg.tfhe.Tensor)
assert_type(np.arange(3) // t, hg.tfhe.Tensor)
assert_type(np.uint8(3) << t, hg.tfhe.Tensor)
"""


def test_an_array_beside_a_tensor_is_a_tensor(tmp_path: Path) -> None:
    """An operation of an array and a tensor, on either side, has the type of the tensor and not NumPy's ndarray."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    cache = Path(__file__).resolve().parents[2] / "build/mypy"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "--config-file=", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
