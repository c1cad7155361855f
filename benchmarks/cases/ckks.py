"""Operations of CKKS for cores and GPUs: calls, operands, bytes and products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import operands
from heliograph import _core, ckks

Operands = tuple[ckks.Tensor, ...]


@dataclass(frozen=True)
class Operation:
    """A call on operands made from two tensors at the top level, and the number of switching keys that it reads."""

    what: str
    run: Callable[..., ckks.Tensor]
    operands: Callable[[ckks.Tensor, ckks.Tensor], Operands] = lambda a, b: (a, b)
    keys: int = 1


def _unscaled(a: ckks.Tensor, b: ckks.Tensor) -> Operands:
    return (ckks.multiply(a, b, rescale=False),)


OPERATIONS = {
    "add": Operation("addition", lambda a, b: a + b, keys=0),
    "multiply": Operation("multiply + relinearize", lambda a, b: ckks.multiply(a, b, rescale=False)),
    "rescaled": Operation("multiply + relinearize + rescale", lambda a, b: a * b),
    "rescale": Operation("rescale", ckks.rescale, _unscaled, keys=0),
    "rotate": Operation("one rotation", lambda a: ckks.rotate(a, 1), lambda a, b: (a,)),
    "rotate8": Operation("eight hoisted rotations", lambda a: ckks.rotate(a, range(1, 9)), lambda a, b: (a,), keys=8),
}
STEPS = list(range(1, 9))


def describe(p: ckks.Parameters) -> dict[str, Any]:
    """Returns a set's parameters for the results file."""
    return {
        "scheme": "ckks",
        "name": p.name,
        "n": p.n,
        "log_q": round(p.log_q, 2),
        "log_qp": round(p.log_qp, 2),
        "log_scale": round(p.log_scale, 3),
        "limbs": len(p._core.spec.chain),
        "special": len(p._core.spec.special),
        "digits": len(p._core.spec.digits),
        "edition": f"w{p.word_size}",
        "security": p.security,
        "levels": p.levels,
    }


@lru_cache(maxsize=1)  # keeps one set only, because keys and operands of two sets may not fit the memory together
def parties(set_name: str) -> tuple[ckks.SecretKey, hg.Server]:
    """Returns the keys of a set; they are made once."""
    secret = ckks.SecretKey.generate(ckks.parameters(set_name))
    return secret, hg.Server(secret.evaluation_keys(rotations=STEPS))


@lru_cache(maxsize=2)
def pair(set_name: str, items: int) -> Operands:
    """Returns two tensors at the top level, in the NTT domain."""
    made = operands.reals(*parties(set_name), *([items] if items > 1 else []))
    # a fresh ciphertext is transformed to the NTT domain at its first use, which must not be timed
    return tuple(x + 0 for x in made)


@cache
def counts(set_name: str, name: str) -> dict[str, int]:
    """Returns butterflies and other products (by constants or summed) of one item, counted by the null device."""
    p = ckks.parameters(set_name)
    null = p._core.on_device("null")
    secret = ckks.SecretKey(_core.ckks.SecretKey.generate(null))
    server = hg.Server(secret.evaluation_keys(rotations=STEPS))
    operation = OPERATIONS[name]
    a, b = (server.bind(secret.encrypt(np.zeros(p.slots))) + 0 for _ in range(2))
    called = operation.operands(a, b)
    null.reset_counts()
    operation.run(*called)
    found = null.counts()
    butterflies = sum(int(c["products"]) for kernel, c in found.items() if kernel.endswith("_ntt"))
    return {"butterflies": butterflies, "sums": sum(int(c["products"]) for c in found.values()) - butterflies}


# The matrix case repeats a 64 x 64 matrix over all slots. One of its diagonals is zero, so that 63 remain.


def matrix(p: ckks.Parameters, level: int) -> ckks.LinearTransform:
    """Returns the matrix encoded for a level."""
    size = 64
    entries = np.random.default_rng(8).uniform(-1, 1, (size, size)) / size
    entries[np.arange(size), (np.arange(size) + size - 1) % size] = 0
    return ckks.LinearTransform(p, entries, repeats=True, level=level)


def matrix_bytes(transform: ckks.LinearTransform) -> int:
    """Returns the bytes of keys, plaintexts, operand and result at the transform's level, each counted once, in limbs of
    64-bit words.
    """
    p, level = transform.parameters, transform.level
    spec = p._core.spec
    digits, covered = 0, 0
    while covered < level:
        covered += spec.digits[digits]
        digits += 1
    extended = level + len(spec.special)
    limbs = len(transform.rotations) * 2 * digits * extended + 63 * extended + 2 * level + 2 * (level - 1)
    return limbs * p.n * 8


@cache
def matrix_products(set_name: str, level: int) -> int:
    """Returns the modular products of the matrix, counted by the null device."""
    null = ckks.parameters(set_name)._core.on_device("null")
    secret = ckks.SecretKey(_core.ckks.SecretKey.generate(null))
    transform = matrix(secret.parameters, level)
    server = hg.Server(secret.evaluation_keys(relinearize=False, rotations=transform.rotations))
    x = ckks.lower(server.bind(secret.encrypt(np.zeros(secret.parameters.slots))), level)
    null.reset_counts()
    transform(x)
    return sum(int(c["products"]) for c in null.counts().values())
