"""A small, fast and insecure CKKS set, and a client and server that use it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg

SLOTS = 512
ROTATIONS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, -1)


def parameters(word_size: int = 64, *, n: int = 2 * SLOTS, levels: int = 7, slots: int = 0) -> hg.ckks.Parameters:
    """Returns a set with six multiplications at a scale of 40 bits."""
    numbers: dict[str, Any] = {"levels": levels, "log_scale": 40, "base_bits": 50, "special": 2}
    if word_size == 32:  # a level has two primes
        numbers |= {"log_scale": 48, "base_bits": 58, "special": 5}
    return hg.ckks.parameters(n=n, **numbers, slots=slots, word_size=word_size, insecure=True)


class Party:
    """A secret key and a server with its evaluation keys."""

    def __init__(self, parameters: hg.ckks.Parameters, rotations: tuple[int, ...] = ROTATIONS) -> None:
        self.parameters = parameters
        self.secret = hg.SecretKey.generate(parameters)
        self.keys = self.secret.evaluation_keys(rotations=rotations, conjugate=True)
        self.server = hg.Server(self.keys)

    def tensor(self, values: Any, **options: Any) -> hg.ckks.Tensor:
        """Encrypts values and binds the ciphertexts to the server."""
        return self.server.bind(self.secret.encrypt(values, **options))

    def bound(self, keys: hg.ckks.EvaluationKeys, values: Any, **options: Any) -> hg.ckks.Tensor:
        """Encrypts values and binds the ciphertexts to a server with other keys."""
        return hg.Server(keys).bind(self.secret.encrypt(values, **options))

    def check(self, tensor: hg.ckks.Tensor, expected: Any, error: float = 2e-6) -> None:
        """Checks that a tensor decrypts to `expected` within `error`, and also within the error bound of the tensor."""
        found = self.secret.decrypt(tensor)
        want = np.asarray(expected)
        assert found.dtype == (np.complex128 if np.iscomplexobj(want) else np.float64)
        assert found.shape == want.shape
        worst = float(np.abs(found - want).max(initial=0.0))
        assert worst < error, worst
        assert tensor.precision is not None
        assert worst <= 2.0**-tensor.precision + 1e-9, (worst, tensor.precision)


@functools.cache
def party(word_size: int = 64) -> Party:
    """Returns the shared party of a set."""
    return Party(parameters(word_size))


@functools.cache
def stranger() -> Party:
    """Returns a party of the same set with another secret key."""
    return Party(parameters())


def real(*shape: int, seed: int = 1, size: float = 1.0) -> npt.NDArray[np.float64]:
    """Returns values in [-size, size], with `SLOTS` values along the last axis."""
    return np.random.default_rng(seed).uniform(-size, size, (*shape, SLOTS))


def complexes(*shape: int, seed: int = 2) -> npt.NDArray[np.complex128]:
    """Returns complex values whose real and imaginary parts are in [-1, 1]."""
    return real(*shape, seed=seed) + 1j * real(*shape, seed=seed + 100)
