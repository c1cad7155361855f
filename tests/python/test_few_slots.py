"""CKKS bootstrapping with few slots gives the same values. Bootstrapping with few slots has special transforms, and packs
real and imaginary parts into one ciphertext.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from rigs import SEED

N = 2048


class Party:
    """A secret key and a server for a set with `slots` slots."""

    def __init__(self, slots: int) -> None:
        p = hg.ckks.parameters(n=N, depth=3, log_scale=39, bootstrap=True, slots=slots, insecure=True)
        self.slots, self.entry, self.top = slots, p.bootstrapping_level, p.levels
        self.secret = hg.ckks.SecretKey(hg._core.ckks.SecretKey.generate_for_test(p._core, SEED))
        self.server = hg.Server(self.secret.evaluation_keys(bootstrap=True))

    def values(self, *shape: int, parts: int = 2) -> Any:
        random = np.random.default_rng(4).uniform(-1, 1, (parts, *shape, self.slots))
        return random[0] if parts == 1 else 0.7 * (random[0] + 1j * random[1])

    def tensor(self, values: Any) -> hg.ckks.Tensor:
        return self.server.bind(self.secret.encrypt(values, level=self.entry, bound=1))

    def off(self, tensor: hg.ckks.Tensor, values: Any) -> float:
        found = self.secret.decrypt(tensor) - values
        return max(float(np.abs(found.real).max()), float(np.abs(found.imag).max()))


party = functools.cache(Party)


@pytest.mark.parametrize("slots", [512, 32, 2, 1])
@pytest.mark.parametrize(
    ("shape", "parts"),
    [((), 1), ((), 2), ((3,), 1), ((2, 2), 1), ((2,), 2)],
    ids=["real", "complex", "pairs", "shape", "two"],
)
def test_bootstrapped_values_have_the_promised_precision(slots: int, shape: tuple[int, ...], parts: int) -> None:
    """The precision is at least the promised precision and at least the precision of the set with all slots. Values repeat
    with the period.

    """
    p = party(slots)
    values = p.values(*shape, parts=parts)
    y = hg.ckks.bootstrap(p.tensor(values))
    assert (y.level, y.shape, y.slots) == (p.top, shape, slots)
    assert y.dtype == values.dtype
    assert p.off(y, values) <= 2**-18.5
    assert y.precision is not None
    assert 17.5 < y.precision < -np.log2(p.off(y, values))
    again = hg.ckks.bootstrap(y * y)
    assert p.off(again, values**2) <= 2**-16.5
    turning = hg.Server(p.secret.evaluation_keys(rotations=hg.ckks.sum_rotations(slots)))
    sums = hg.sum(turning.bind(y), axis="slots")
    assert p.off(sums, values.sum(axis=-1, keepdims=True)) <= slots * 2**-18


def test_complex_values_of_few_slots_take_one_sine() -> None:
    """For a complex tensor, few slots take one sine and all slots take two, as the number of products shows."""

    def products(slots: int, parts: int) -> int:
        p = hg.ckks.parameters(n=N, depth=3, log_scale=39, bootstrap=True, slots=slots, insecure=True)
        null = p._core.on_device("null")
        secret = hg.ckks.SecretKey(hg._core.ckks.SecretKey.generate(null))
        server = hg.Server(secret.evaluation_keys(bootstrap=True))
        values = np.ones(slots) * (1j if parts == 2 else 1)
        x = server.bind(secret.encrypt(values, level=p.bootstrapping_level, bound=1))
        hg.ckks.bootstrap(x)
        null.reset_counts()
        hg.ckks.bootstrap(x)
        return sum(int(count["products"]) for count in null.counts().values())

    assert products(64, 2) < 1.1 * products(64, 1)
    assert products(1024, 2) > 1.3 * products(1024, 1)
    assert products(64, 1) < products(1024, 1)


def test_iterations_bounds_tables_programs_and_files(tmp_path: Path) -> None:
    """Iterations, bounds, tables, programs and files work in the same way as with all slots."""
    p = party(32)
    values = p.values(2)
    x = p.tensor(values)
    assert p.off(hg.ckks.bootstrap(x, iterations=2), values) < 2**-24
    far = p.server.bind(p.secret.encrypt(6 * values, level=p.entry, bound=6))
    assert p.off(hg.ckks.bootstrap(far, bound=6), 6 * values) < 2**-15
    bits = np.random.default_rng(5).integers(0, 2, (3, 32)).astype(float)
    noisy = p.server.bind(p.secret.encrypt(bits + 0.01, level=p.entry))
    assert p.off(hg.ckks.functional_bootstrap(noisy, [0, 1]), bits) < 0.001
    program = hg.program(lambda t: hg.ckks.bootstrap(t) * 0.5)
    whole = program(x)
    assert whole.to_bytes() == program(x).to_bytes() == (hg.ckks.bootstrap(x) * 0.5).to_bytes()
    p.server.keys.save(tmp_path / "keys.hg")
    loaded = hg.Server(hg.load(tmp_path / "keys.hg"))
    assert p.off(hg.ckks.bootstrap(loaded.bind(p.secret.encrypt(values, level=p.entry, bound=1))), values) < 2**-18
    fewer = hg.ckks.bootstrap(p.server.bind(p.secret.encrypt(values[..., :5], level=p.entry, bound=1, pad=True)))
    assert p.off(fewer, values[..., :5]) < 2**-18


def test_sets_by_slots() -> None:
    """Sets with few slots are found by need and by numbers. More slots than places are refused."""
    p = hg.ckks.parameters(depth=4, precision=16, bootstrap=True, slots=300)
    # the number of slots is not a power of two, so the set has the transforms for all places
    assert (p.slots, p.period) == (300, p.n // 2)
    assert hg.ckks.parameters(depth=4, precision=16, bootstrap=True, slots=512).period == 512
    with pytest.raises(hg.ParameterError, match=r"at most 1,024.*, not 2,048"):
        hg.ckks.parameters(n=N, depth=3, log_scale=39, bootstrap=True, slots=2048, insecure=True)
