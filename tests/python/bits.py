"""Digests of many results from fixed seeds. Run by itself: what they are on the device the environment names.

`python tests/python/bits.py "w64 digits" w32` computes those sets, without names all.
"""

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
    """SHA-256 of a tensor's or key's file."""
    return hashlib.sha256(tensor.to_bytes()).hexdigest()


def results(n: int, log_q: int, special: int, edition: str, batch: int, scheme: str = "bfv") -> dict[str, str]:
    """One of each operation, on a batch larger than what is computed in one go."""
    moduli = _core.batching_primes(n, 30, 2)
    core = _core.Parameters(_core.make_spec(n, log_q, special, moduli, edition, 0, True, scheme))
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
        "shrink": hg.shrink(hg.relinearize(product), 1 if edition == "w64" else 2),
    }
    digests = {name: digest(t) for name, t in found.items()}
    digests["decrypt"] = hashlib.sha256(secret.decrypt(product).tobytes()).hexdigest()
    return digests


#: Both editions, one and several special primes.
SETS: dict[str, tuple[Any, ...]] = {
    "w64": (1024, 130, 1, "w64", 20),
    "w64 digits": (1024, 190, 2, "w64", 17),
    "w32": (1024, 110, 1, "w32", 20),
    "w32 digits": (2048, 100, 2, "w32", 16),
    "bgv w64": (1024, 190, 2, "w64", 17, "bgv"),
    "bgv w32": (2048, 170, 1, "w32", 16, "bgv"),
}

if __name__ == "__main__":
    print(json.dumps({name: results(*SETS[name]) for name in sys.argv[1:] or SETS}))
