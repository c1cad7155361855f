"""The extension is built with hardening flags: stack protection, fortified C library calls, read-only relocations."""

import shutil
import subprocess

import pytest

from heliograph import _core

pytestmark = pytest.mark.skipif(
    shutil.which("readelf") is None, reason="readelf is not installed (Debian: apt-get install binutils)"
)


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, _core.__file__], check=True, capture_output=True, text=True).stdout


def test_addresses_are_bound_at_the_start_and_then_read_only():
    dynamic = readelf("--dynamic")
    assert "BIND_NOW" in dynamic or "Flags: NOW" in dynamic
    assert "GNU_RELRO" in readelf("--program-headers")


def test_stacks_are_guarded_and_calls_checked():
    symbols = readelf("--dyn-syms")
    assert "__stack_chk_fail" in symbols
    assert any(
        name in symbols for name in ("__memcpy_chk", "__snprintf_chk", "__vsnprintf_chk", "__sprintf_chk", "__read_chk")
    )


def test_no_stack_is_executable():
    stack = next(line for line in readelf("--program-headers").splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack
