"""Evaluation keys that are loaded with a memory limit stay in their file. Tests the peak memory of processes, the results,
and changes of the file.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg

Work = Callable[[Any], Any]
MIB = 1 << 20
#: The limit applies to the memory of the host, which the tests measure.
on_cores = pytest.mark.skipif(
    any(device.startswith("cuda") for device in hg.devices()), reason="keys on a GPU are in GPU memory"
)


class Party:
    """A secret key, evaluation keys in a file, and operations of a server that use one key at a time."""

    def __init__(self, secret: Any, values: Any, works: list[Work], folder: Path, **keys: Any) -> None:
        self.secret, self.works, self.path = secret, works, folder / "keys.hg"
        self.keys = secret.evaluation_keys(**keys)
        self.keys.save(self.path)
        self.x = secret.encrypt(values, pad=True) if "tfhe" not in type(secret).__module__ else secret.encrypt(values)

    def results(self, keys: Any) -> list[bytes]:
        x = hg.Server(keys).bind(self.x)
        return [work(x).to_bytes() for work in self.works]


def party(scheme: str, folder: Path) -> Party:
    if scheme == "tfhe":
        secret = hg.SecretKey.generate(hg.tfhe.parameters("boolean"))
        return Party(secret, np.array([True, False]), [lambda x: x & ~x], folder)
    if scheme == "ckks":
        secret = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20))
        turns: list[Work] = [lambda x, k=k: hg.ckks.rotate(x, k) for k in (1, 2, 4)]
    else:
        module = getattr(hg, scheme)
        secret = hg.SecretKey.generate(module.parameters(depth=1, plain_bits=20))
        turns = [lambda x, k=k: hg.rotate_rows(x, k) for k in (1, 2, 4)]
    return Party(secret, [1, 2, 3], [lambda x: x * x, *turns, lambda x: x * x], folder, rotations=[1, 2, 4])


def little(p: Party) -> int:
    """Returns a limit below the size of all keys and above the size of one key."""
    if isinstance(p.keys, hg.tfhe.EvaluationKeys):
        return int(p.path.stat().st_size // 2)
    return int(p.keys.parameters.switch_key_bytes * 3 // 2)


@pytest.mark.parametrize("scheme", ["bfv", "bgv", "ckks", "tfhe"])
def test_keys_in_a_file_give_the_results_of_keys_in_memory(scheme: str, tmp_path: Path) -> None:
    p = party(scheme, tmp_path)
    expected, whole = p.results(p.keys), p.path.read_bytes()
    keys: Any = hg.load(p.path, type(p.keys), memory=little(p))
    if scheme != "tfhe":  # TFHE's evaluation keys contain no rotations
        assert (keys.rotations, keys.relinearize) == (p.keys.rotations, p.keys.relinearize)
    assert (keys.id, keys.nbytes, keys.parameters) == (p.keys.id, p.keys.nbytes, p.keys.parameters)
    for _ in range(2):
        assert p.results(keys) == expected
    p.path.unlink()  # the open file can be read without a name
    assert keys.to_bytes() == whole
    keys.save(p.path)  # another file with the old name is not read
    assert p.path.read_bytes() == whole
    p.path.write_bytes(b"another")
    assert p.results(keys) == expected
    assert hg.from_bytes(keys.to_bytes()).id == keys.id


@pytest.mark.parametrize("spoil", ["changed", "truncated"])
@pytest.mark.parametrize("scheme", ["bfv", "ckks", "tfhe"])
def test_a_file_that_changes_is_an_error_and_never_a_wrong_result(scheme: str, spoil: str, tmp_path: Path) -> None:
    p = party(scheme, tmp_path)
    size = p.path.stat().st_size
    keys = hg.load(p.path, memory=little(p))
    with p.path.open("r+b") as file:
        if spoil == "changed":  # changes every word after the header, so all keys are damaged
            file.seek(size // 8)
            file.write(bytes(size * 7 // 8))
        else:
            file.truncate(size // 8)
    for call in (lambda: p.results(keys), keys.to_bytes, lambda: keys.save(tmp_path / "copy.hg")):
        with pytest.raises(hg.DamagedFileError, match=f"keys.hg.*{spoil}"):
            call()
    assert not (tmp_path / "copy.hg").exists()


def test_a_program_takes_keys_from_a_file(tmp_path: Path) -> None:
    p = party("ckks", tmp_path)
    each = p.keys.parameters.switch_key_bytes
    program = hg.program(lambda x: hg.ckks.rotate(x * x, 1), hg.Server(p.keys).bind(p.x))
    expected = program(hg.Server(p.keys).bind(p.x)).to_bytes()
    keys = hg.load(p.path, memory=each * 3 // 2)  # only one key at a time fits the limit
    for _ in range(2):
        assert program(hg.Server(keys).bind(p.x)).to_bytes() == expected


@on_cores
def test_one_sum_needs_all_its_keys_at_once(tmp_path: Path) -> None:
    parameters = hg.ckks.parameters(depth=1, precision=20)
    matrix = hg.ckks.LinearTransform(parameters, np.ones((4, 4)))
    p = Party(
        hg.SecretKey.generate(parameters), [1, 2, 3, 4], [matrix.__matmul__], tmp_path, rotations=[*matrix.rotations, 5, 6]
    )
    short = hg.load(p.path, memory=len(matrix.rotations) * parameters.switch_key_bytes)
    with pytest.raises(
        hg.LimitError, match="in use at the same time"
    ):  # reading the last key takes memory for half a key more
        p.results(short)
    enough = hg.load(p.path, memory=(len(matrix.rotations) + 1) * parameters.switch_key_bytes)
    assert p.results(enough) == p.results(p.keys)


def test_invalid_memory_limits_are_refused(tmp_path: Path) -> None:
    p = party("bfv", tmp_path)
    each = p.keys.parameters.switch_key_bytes
    with pytest.raises(hg.LimitError, match="one of these keys"):
        hg.load(p.path, memory=each)
    p.x.save(tmp_path / "x.hg")
    p.secret.public_key().save(tmp_path / "public.hg")
    for name in ("x.hg", "public.hg"):
        with pytest.raises(hg.LimitError):
            hg.load(tmp_path / name, memory=1000)
        hg.load(tmp_path / name, memory=64 * MIB)
    with pytest.raises(hg.ParameterError, match="memory must be at least 0 bytes"):
        hg.load(p.path, memory=-1)
    with pytest.raises(hg.DtypeError, match="memory must be a number of bytes"):
        hg.load(p.path, memory="1 GB")  # type: ignore[call-overload]
    assert hg.load(p.path, memory=1 << 70).id == p.keys.id


PEAKS = """
import os, sys
import heliograph as hg

def status(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name + ":"))

def peak(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    result = work()
    print((status("VmHWM") - before) / 2**20)
    return result

x = hg.load("x.hg")
keys = peak(lambda: hg.load("keys.hg", memory=eval(sys.argv[1])))
peak(lambda: keys.save("again.hg"))
server = hg.Server(keys)
y = server.bind(x)
hg.rotate_rows(y, 1)  # room for what is computed in between; a key is there, too
def work():
    for _ in range(2):
        for k in range(1, 13):
            hg.rotate_rows(y, k)
peak(work)
"""


def peaks(folder: Path, memory: str) -> list[float]:
    """Returns how much the peak memory grows, in MiB, for loading, for saving, and for computing with every key."""
    try:
        Path("/proc/self/clear_refs").write_text("1")
    except OSError:
        pytest.skip("the kernel does not report the peak memory of processes")
    call = [sys.executable, "-c", textwrap.dedent(PEAKS), memory]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


@on_cores
def test_peak_memory_is_within_the_limit(tmp_path: Path) -> None:
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=6, plain_bits=20))
    keys = secret.evaluation_keys(rotations=range(1, 13), relinearize=False)
    keys.save(tmp_path / "keys.hg")
    secret.encrypt([1], pad=True).save(tmp_path / "x.hg")
    # in MiB, for a key on the device; one ciphertext takes 1.8 MiB
    each, slack = keys.parameters.switch_key_bytes / MIB, 6.0
    load, save, work = peaks(tmp_path, "None")
    assert load < 12 * each / 2 + slack  # keys in memory are loaded without a second copy of them
    assert save < slack  # the keys in memory are saved
    assert work > 2 * each + slack  # the work exceeds the limit, so the limit has an effect
    load, save, work = peaks(tmp_path, f"int({3 * each * MIB})")
    assert load < each / 2 + slack
    assert save < each / 2 + slack
    assert work < 2 * each + slack
