"""A small and fast set of CKKS, far below any security, and a party for it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg

SLOTS = 512
ROTATIONS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, -1)


def parameters(edition: str = "w64", *, n: int = 2 * SLOTS, levels: int = 7, slots: int = 0) -> hg.ckks.Parameters:
    """Six multiplications at a scale of 40 bits."""
    numbers: dict[str, Any] = {"levels": levels, "log_scale": 40, "base_bits": 50, "special": 2}
    if edition == "w32":  # a level has two primes
        numbers |= {"log_scale": 48, "base_bits": 58, "special": 5}
    return hg.ckks.parameters(n=n, **numbers, slots=slots, edition=edition, insecure=True)


class Party:
    """A key and a server."""

    def __init__(self, parameters: hg.ckks.Parameters, rotations: tuple[int, ...] = ROTATIONS) -> None:
        self.parameters = parameters
        self.secret = hg.SecretKey.generate(parameters)
        self.keys = self.secret.evaluation_keys(rotations=rotations, conjugate=True)
        self.server = hg.Server(self.keys)

    def tensor(self, values: Any, **options: Any) -> hg.ckks.Tensor:
        """Encrypted and at the server."""
        return self.server.bind(self.secret.encrypt(values, **options))

    def bound(self, keys: hg.ckks.EvaluationKeys, values: Any, **options: Any) -> hg.ckks.Tensor:
        """The same at a server with other keys."""
        return hg.Server(keys).bind(self.secret.encrypt(values, **options))

    def check(self, tensor: hg.ckks.Tensor, expected: Any, error: float = 2e-6) -> None:
        """It decrypts to `expected`, and its own bound on the error holds."""
        found = self.secret.decrypt(tensor)
        want = np.asarray(expected)
        assert found.dtype == (np.complex128 if np.iscomplexobj(want) else np.float64)
        assert found.shape == want.shape
        worst = float(np.abs(found - want).max(initial=0.0))
        assert worst < error, worst
        assert tensor.precision is not None
        assert worst <= 2.0**-tensor.precision + 1e-9, (worst, tensor.precision)


@functools.cache
def party(edition: str = "w64") -> Party:
    """Made once."""
    return Party(parameters(edition))


@functools.cache
def stranger() -> Party:
    """Of the same set, with a key of its own."""
    return Party(parameters())


def real(*shape: int, seed: int = 1, size: float = 1.0) -> npt.NDArray[np.float64]:
    """Values in [-size, size], `SLOTS` along the last axis unless the shape says otherwise."""
    return np.random.default_rng(seed).uniform(-size, size, (*shape, SLOTS))


def complexes(*shape: int, seed: int = 2) -> npt.NDArray[np.complex128]:
    """Complex values in a square."""
    return real(*shape, seed=seed) + 1j * real(*shape, seed=seed + 100)
