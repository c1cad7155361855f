"""Errors name the invalid argument; values that NumPy accepts are not refused."""

from __future__ import annotations

import numpy as np
import pytest

import heliograph as hg


def test_errors_of_reals() -> None:
    """CKKS refuses unrescaled products and matrices that are too large; a matrix of zeros gives zeros."""
    params = hg.ckks.parameters(depth=3, precision=25, slots=4)
    secret = hg.SecretKey.generate(params)
    x = hg.Server(secret.evaluation_keys(rotations=[1, 2, 3])).bind(secret.encrypt([0.1, 0.2, 0.3, 0.4]))
    product = hg.ckks.multiply(x, x, rescale=False)
    with pytest.raises(hg.ScaleError, match=r"this tensor has a scale of 2\^.*: rescale products"):
        hg.ckks.polynomial(product, [1, 2, 3])
    for matrix in (np.ones((17, 4)), np.ones((4, 17))):
        with pytest.raises(
            hg.ShapeError, match=r"a matrix on slots of (17 x 4|4 x 17): .* as there are slots, 4; use a set of more slots"
        ):
            hg.ckks.LinearTransform(params, matrix)
    for rows in (4, 2):
        zeros = np.zeros((rows, 4))
        layer = hg.ckks.LinearTransform(params, zeros)
        assert layer.rotations == []
        for made in (zeros @ x, layer @ x, hg.matmul(zeros, x, bias=np.zeros(rows))):
            np.testing.assert_allclose(secret.decrypt(made), np.zeros(rows), atol=1e-6)
        assert (layer @ x).level == x.level - 1


def test_unsigned_64_bit_operands_are_accepted() -> None:
    """A clear operand may be an unsigned 64-bit integer; longer integers are refused."""
    cost = hg.tfhe.parameters().cost
    assert cost("multiply", "uint64", arguments=[2**64 - 1])[0] > 0
    assert cost("add", "uint64", arguments=2**63) == cost("add", "uint64", arguments=[2**63])
    for wrong in (2**64, -(2**63) - 1, 1.5, True):
        with pytest.raises(hg.DtypeError, match="an argument must be an integer of at most 64 bits"):
            cost("add", "uint64", arguments=[wrong])
