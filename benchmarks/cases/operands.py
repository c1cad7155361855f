"""Operands of measured operations: tensors of random values at a server."""

from __future__ import annotations

from typing import Any

import numpy as np

import heliograph as hg


def packing(p: hg.bfv.Parameters) -> dict[str, int]:
    """Returns the axis option for encryption: slots if the set has them, else coefficients."""
    return {"slots": -1} if p.has_slots else {"coefficients": -1}


def bits(secret: hg.SecretKey, server: hg.Server, *batch: int) -> tuple[Any, Any]:
    """Returns two tensors of BFV or BGV, with a random 0 or 1 in every slot."""
    rng, p = np.random.default_rng(7), server.parameters
    first, second = (secret.encrypt(rng.integers(0, 2, (*batch, p.n)), **packing(p)) for _ in range(2))
    return server.bind(first), server.bind(second)


def reals(secret: hg.SecretKey, server: hg.Server, *batch: int) -> tuple[Any, Any]:
    """Returns two CKKS tensors with random numbers in [-1, 1] in every slot."""
    rng, p = np.random.default_rng(7), server.parameters
    first, second = (secret.encrypt(rng.uniform(-1, 1, (*batch, p.slots))) for _ in range(2))
    return server.bind(first), server.bind(second)
