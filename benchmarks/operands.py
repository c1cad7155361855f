"""What measured operations are called on: tensors of random values at a server."""

from __future__ import annotations

from typing import Any

import numpy as np

import heliograph as hg


def packing(p: hg.bfv.Parameters) -> dict[str, int]:
    """Where the last axis of values goes: into the slots where the set has any."""
    return {"slots": -1} if p.has_slots else {"coefficients": -1}


def bits(secret: hg.SecretKey, server: hg.Server, *batch: int) -> tuple[Any, Any]:
    """Two tensors of ciphertexts full of zeros and ones, of BFV or BGV."""
    rng, p = np.random.default_rng(7), server.parameters
    first, second = (secret.encrypt(rng.integers(0, 2, (*batch, p.n)), **packing(p)) for _ in range(2))
    return server.bind(first), server.bind(second)


def reals(secret: hg.SecretKey, server: hg.Server, *batch: int) -> tuple[Any, Any]:
    """Two tensors of ciphertexts full of numbers in [-1, 1], of CKKS."""
    rng, p = np.random.default_rng(7), server.parameters
    first, second = (secret.encrypt(rng.uniform(-1, 1, (*batch, p.slots))) for _ in range(2))
    return server.bind(first), server.bind(second)
