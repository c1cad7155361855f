"""Digests of many results from fixed seeds. Run as a program, it prints the digests of the device in HELIOGRAPH_DEVICE."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

import heliograph as hg
import rigs
from heliograph import _core


def digest(tensor: Any) -> str:
    """Returns the SHA-256 of a tensor's or key's file."""
    return hashlib.sha256(tensor.to_bytes()).hexdigest()


def results(n: int, log_q: int, special: int, word_size: int, batch: int, scheme: str = "bfv") -> dict[str, str]:
    """Returns a digest of the result of each operation, on a batch that is too large for one pass."""
    moduli = _core.exact.batching_primes(n, 30, 2)
    core = _core.exact.Parameters(_core.exact.make_spec(n, log_q, special, moduli, word_size, 0, True, scheme))
    secret = rigs.secret_for_test(hg.bfv.Parameters(core))
    keys = secret.evaluation_keys(rotations=[1, -3], columns=True)
    server = hg.Server(keys)
    rng = np.random.default_rng(3)
    x = server.bind(secret.encrypt(rng.integers(-9, 9, (batch, n))))
    y = server.bind(secret.encrypt(rng.integers(-9, 9, (3, 1, n))))
    plain = server.encode(rng.integers(-9, 9, n))
    product = x * y
    w = rng.integers(-300, 300, (5, batch))
    found = {
        "keys": keys,
        "encrypt": x,
        "add": x + y,
        "multiply": product,
        "square": hg.square(x),
        "relinearize": hg.relinearize(product),
        "plain": x * plain + plain,
        "integers": x * rng.integers(-99, 99, batch) - 5,
        "rotate": hg.rotate_rows(x, [1, -3]),
        "columns": hg.rotate_columns(x),
        "matmul": hg.matmul(w, x, np.arange(5)),
        "convolution": hg.conv2d(x[:16].reshape(1, 4, 4), w[:3, :9].reshape(3, 1, 3, 3), padding=1),
        "sum": hg.sum(product, 0),
        "shrink": hg.shrink(hg.relinearize(product), 1 if word_size == 64 else 2),
    }
    digests = {name: digest(t) for name, t in found.items()}
    digests["decrypt"] = hashlib.sha256(secret.decrypt(product).tobytes()).hexdigest()
    return digests


#: The parameter sets in numbers: both word sizes, each with one and with several special primes.
SETS: dict[str, tuple[Any, ...]] = {
    "w64": (1024, 130, 1, 64, 20),
    "w64 digits": (1024, 190, 2, 64, 17),
    "w32": (1024, 110, 1, 32, 20),
    "w32 digits": (2048, 100, 2, 32, 16),
    "bgv w64": (1024, 190, 2, 64, 17, "bgv"),
    "bgv w32": (2048, 170, 1, 32, 16, "bgv"),
}

if __name__ == "__main__":
    print(json.dumps({name: results(*SETS[name]) for name in sys.argv[1:] or SETS}))
