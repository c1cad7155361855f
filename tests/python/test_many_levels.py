"""The named set with 40 multiplications in sequence."""

from __future__ import annotations

import numpy as np
import pytest

import heliograph as hg


@pytest.mark.parametrize("name", ["n16-l41", "n16-l41/w32"])
def test_the_set_of_forty_products(name: str) -> None:
    """The set has 128 bits of security and 41 levels, each of one prime above the lowest."""
    params = hg.ckks.parameters(name)
    assert (params.security, params.levels, params.n) == ("128-bit", 41, 2**16)
    limbs = [params._core.level_limbs(level) for level in range(1, 42)]
    assert np.array_equal(np.diff(limbs), np.ones(40))
    assert abs(np.log2(params.scale(41)) - (29.5 if "w32" in name else 30)) < 0.01
    assert abs(np.log2(params.scale(1)) - np.log2(params.scale(41))) < 1


def test_forty_squarings() -> None:
    """Forty squarings in sequence keep some 13 bits after the binary point in every slot."""
    params = hg.ckks.parameters("n16-l41/w32")
    secret = hg.SecretKey.generate(params)
    values = np.random.default_rng(1).uniform(-0.4, 0.4, params.slots)
    x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt(values, bound=0.4))
    for _ in range(40):
        x = x * x - 0.2
        values = values * values - 0.2
    assert x.level == 1
    assert np.abs(secret.decrypt(x) - values).max() < 2.0**-12.5
