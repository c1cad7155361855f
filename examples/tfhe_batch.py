"""Compute a batch of encrypted 32-bit products by TFHE, on CPU cores, GPUs, or those of several hosts.

Use
    python tfhe_batch.py                                          16 products on this machine's devices
    heliograph run --hosts alpha,beta tfhe_batch.py --count 256
    python tfhe_batch.py --set boolean --bits 8
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import heliograph as hg


def main() -> int:
    """Multiply and compare with NumPy. Return 1 if a product differs."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--count", type=int, default=16, help="number of products (16)")
    options.add_argument("--bits", type=int, default=32, choices=(8, 16, 32, 64), help="bits of each integer (32)")
    options.add_argument("--set", default="2_2", help="the parameter set (2_2); heliograph params lists them")
    options.add_argument("--seed", type=int, default=1, help="seed of the integers")
    asked = options.parse_args()

    dtype = np.dtype(f"uint{asked.bits}")
    draw = np.random.default_rng(asked.seed)
    a, b = draw.integers(0, 2**asked.bits, (2, asked.count), dtype=np.uint64).astype(dtype)

    start = time.perf_counter()
    secret = hg.SecretKey.generate(hg.tfhe.parameters(asked.set))
    server = hg.Server(secret.evaluation_keys())
    x, y = (server.bind(secret.encrypt(values)) for values in (a, b))
    print(f"keys made and {2 * asked.count} integers encrypted in {time.perf_counter() - start:.2f} s")

    start = time.perf_counter()
    products = x * y
    products.wait()
    seconds = time.perf_counter() - start
    print(f"{asked.count} products of {asked.bits} bits in {seconds:.2f} s: {1000 * seconds / asked.count:.1f} ms each")

    wrong = int((secret.decrypt(products) != a * b).sum())
    print(f"{wrong} WRONG" if wrong else "every product right")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
