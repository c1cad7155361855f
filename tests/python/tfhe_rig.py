"""Small, fast and insecure sets of TFHE, and a client and server for each."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import heliograph as hg

NOISE: dict[str, Any] = {"lwe_noise": ("gaussian", -22), "glwe_noise": ("gaussian", -40)}
NUMBERS: dict[str, dict[str, Any]] = {
    "digits": {"degree": 1024, "message_bits": 2, "carry_bits": 2, "norm": 17},
    "small digits": {"degree": 512, "message_bits": 1, "carry_bits": 1, "norm": 5},
    "bits": {"degree": 256, "message_bits": 0, "carry_bits": 0, "norm": 3},
}


def parameters(name: str) -> hg.tfhe.Parameters:
    """Returns a small set whose bootstraps take a fraction of a millisecond."""
    common: dict[str, Any] = {"n": 32, "k": 1, "bootstrap": (18, 1), "switch": (4, 4), "group": 2}
    return hg.tfhe.parameters(**common, **NOISE, **NUMBERS[name], insecure=True)


class Party:
    """A secret key and its server."""

    def __init__(self, parameters: hg.tfhe.Parameters) -> None:
        self.parameters = parameters
        self.secret = hg.SecretKey.generate(parameters)
        self.keys = self.secret.evaluation_keys()
        self.server = hg.Server(self.keys)

    def tensor(self, values: Any, dtype: Any = None) -> hg.tfhe.Tensor:
        """Encrypts values and binds the ciphertexts to the server."""
        return self.server.bind(self.secret.encrypt(values, dtype))

    def check(self, tensor: hg.tfhe.Tensor, expected: Any) -> None:
        """Checks that a tensor decrypts to `expected`, in the tensor's dtype if NumPy has this dtype."""
        found = self.secret.decrypt(tensor)
        want = np.asarray(expected)
        assert tensor.dtype in (want.dtype, "uint24", "int24"), (tensor.dtype, want.dtype)
        np.testing.assert_array_equal(found, want)


@functools.cache
def party(name: str = "digits") -> Party:
    """Returns the shared party of a set."""
    return Party(parameters(name))


@functools.cache
def stranger() -> Party:
    """Returns a party of the same set with another secret key."""
    return Party(parameters("digits"))
