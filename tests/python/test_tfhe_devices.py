"""The same programs are right on every device and mesh, also with secure sets and with a very large number of gates."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import tfhe_rig
from places import places
from rigs import DEVICES

LARGE = [d for d in DEVICES if d != "ref" and not d.startswith("cpu:")]  # other devices are too slow for the secure sets


@functools.cache
def party(name: str, device: str) -> tfhe_rig.Party:
    """Returns a secret key and a server whose tensors are on `device`."""
    own = tfhe_rig.parameters(name) if name in tfhe_rig.NUMBERS else hg.tfhe.parameters(name)
    return tfhe_rig.Party(hg.tfhe.Parameters(own._core.on_device(device)))


def operands(count: int, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, size=count, dtype=dtype, endpoint=True)
    b = rng.integers(info.min, info.max, size=count, dtype=dtype, endpoint=True)
    a[:2], b[:2] = [info.min, info.max], [info.max, info.max]
    return a, b


@pytest.mark.parametrize("name", ["digits", "bits"])
@pytest.mark.parametrize("device", places())
def test_integers_on_every_device(name: str, device: str) -> None:
    """Sums, products, comparisons, selections and reductions give NumPy's results."""
    for count in (2,) if device == "ref" else (2, 7):
        check_integers(name, count, device)


def check_integers(name: str, count: int, device: str) -> None:
    """Checks operations on `count` integers."""
    p = party(name, device)
    a, b = operands(count, np.int8, count)
    x, y = p.tensor(a), p.tensor(b)
    with np.errstate(over="ignore"):
        p.check(x + y, a + b)
        p.check(x * y, a * b)
        p.check(hg.tfhe.select(x < y, x, y), np.minimum(a, b))
        if device != "ref":
            p.check(hg.tfhe.sum(x, dtype="int8"), np.sum(a, dtype=np.int8))
            p.check(x.reshape(-1, 1) - y, a.reshape(-1, 1) - b)


@pytest.mark.parametrize("name", ["2_2", "boolean"])
@pytest.mark.parametrize("device", places(*LARGE, usual=("cpu", "cuda:0")))
def test_real_sets_on_every_device(name: str, device: str) -> None:
    """Operations with the secure sets are right on every device."""
    p = party(name, device)
    a, b = operands(5, np.uint8, 9)
    p.check(p.tensor(a) + p.tensor(b), a + b)
    p.check(p.tensor(a) > p.tensor(b), a > b)


@pytest.mark.parametrize("on_cores", [600, pytest.param(8_000, marks=pytest.mark.full)])
def test_very_many_gates(on_cores: int) -> None:
    """A million gates on a GPU, and a smaller number on cores, give no wrong result. HELIOGRAPH_TEST_GATES sets the number
    of gates.
    """
    gpus = [d for d in hg.devices() if d.startswith("cuda")]
    total = int(os.environ.get("HELIOGRAPH_TEST_GATES", 1_000_000 if gpus else on_cores))
    p = party("boolean", "cuda" if gpus else "cpu")
    rng = np.random.default_rng(3)
    batch = min(total, 100_000 if gpus else on_cores // 3)
    a, b = (rng.integers(0, 2, size=batch).astype(bool) for _ in range(2))
    x, y = p.tensor(a), p.tensor(b)
    done = wrong = 0
    gates = [(hg.tfhe.nand, np.logical_and, True), (hg.tfhe.xor, np.logical_xor, False), (hg.tfhe.or_, np.logical_or, False)]
    while done < total:
        # The operands of each gate are results of the previous gate, so an error would persist.
        for gate, model, inverted in gates:
            x, y = gate(x, y), x
            a, b = model(a, b) ^ inverted, a
            done += batch
        wrong += int(np.count_nonzero(p.secret.decrypt(x) != a))
    assert wrong == 0
