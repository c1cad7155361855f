"""Computes on ciphertexts until their noise budget is exhausted. The data have few distinct values, for which a wrong
decryption is hardest to detect.

`python tests/python/exhausted.py 2000` runs 2000 cases and counts the cases that decrypt wrongly without an error.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import heliograph as hg
import rigs

SCHEMES = ("bfv", "bgv", "ckks")
OPERATIONS = ("doubled", "scaled", "squared")
DATA = ("constant", "two values", "many values")


@functools.cache
def party(scheme: str) -> tuple[Any, hg.Server]:
    """Returns a secret key from a fixed seed and a server with its evaluation keys."""
    if scheme == "ckks":
        parameters = hg.ckks.parameters(depth=2, precision=20)
        secret: Any = hg.ckks.SecretKey(hg._core.ckks.SecretKey.generate_for_test(parameters._core, rigs.SEED))
    else:
        secret = rigs.secret_for_test(getattr(hg, scheme).parameters(depth=1, plain_bits=30, exact=False))
    return secret, hg.Server(secret.evaluation_keys())


@dataclass(frozen=True)
class Case:
    """One of a numbered sequence of cases. The scheme, the operation and the data vary, and whether the result is saved and
    loaded.
    """

    number: int

    @property
    def scheme(self) -> str:
        """Returns the scheme of this case."""
        return SCHEMES[self.number % 3]

    @property
    def loaded(self) -> bool:
        """Returns whether the result is saved and loaded before decryption."""
        return self.number // 3 % 2 == 1

    @property
    def operation(self) -> str:
        """Returns the operation that exhausts the noise budget."""
        return OPERATIONS[self.number // 6 % 3]

    def values(self) -> Any:
        """Returns plain values, most of them equal."""
        rng = np.random.default_rng(self.number)
        secret, _ = party(self.scheme)
        slots = secret.parameters.slots
        kind = DATA[self.number // 18 % 3]
        few = rng.integers(2, 300, {"constant": 1, "two values": 2, "many values": slots}[kind])
        values = few[rng.integers(0, len(few), slots)]
        return values.astype(float) if self.scheme == "ckks" else values.astype(object)

    def run(self) -> tuple[Any, Any]:
        """Returns the exhausted tensor and its expected values (BFV and BGV: modulo t)."""
        secret, server = party(self.scheme)
        rng = np.random.default_rng(self.number + 1)
        expected = self.values()
        x = server.bind(secret.encrypt(expected if self.scheme == "ckks" else expected.astype(np.int64)))
        steps, factor = {"doubled": (75, 2), "scaled": (int(rng.integers(9, 40)), 1000), "squared": (1, 1)}[self.operation]
        if self.operation == "squared":  # multiplies down to the lowest level, then multiplies by clear factors
            for _ in range(2):
                x, expected = self._square(x), self._reduced(expected * expected)
            steps, factor = 12, int(rng.integers(100, 1000))
        for _ in range(steps):
            x = x + x if factor == 2 else x * factor
            expected = self._reduced(expected * factor)
        if self.loaded:
            x = server.from_bytes(x.to_bytes())
        return x, expected

    def _square(self, x: Any) -> Any:
        return x * x if self.scheme == "ckks" else hg.relinearize(x * x)

    def _reduced(self, values: Any) -> Any:
        if self.scheme == "ckks":
            return values
        t = party(self.scheme)[0].parameters.plain_modulus
        return (values + t // 2) % t - t // 2

    def is_right(self, found: Any, expected: Any) -> bool:
        """Returns whether the values are equal (CKKS: to a relative error of 1e-3)."""
        if self.scheme == "ckks":
            return bool(np.allclose(found, expected, rtol=1e-3))
        return bool(np.array_equal(self._reduced(found.astype(object)), expected))


def outcome(case: Case, **word: bool) -> str:
    """Decrypts and returns the outcome: "error", "right" or "wrong"."""
    secret, _ = party(case.scheme)
    x, expected = case.run()
    try:
        found = secret.decrypt(x, **word)
    except hg.NoiseError:
        return "error"
    return "right" if case.is_right(found, expected) else "wrong"


def word_of(case: Case) -> dict[str, bool]:
    """Returns the options by which `decrypt` checks the noise figures of files; only CKKS needs an option."""
    return {"checked": True} if case.scheme == "ckks" else {}


def main(count: int) -> None:
    """Counts outcomes by scheme."""
    found: dict[tuple[str, str], int] = {}
    for number in range(count):
        case = Case(number)
        key = (case.scheme, outcome(case, **word_of(case)))
        found[key] = found.get(key, 0) + 1
        if key[1] == "wrong":
            print("wrong:", case, case.operation, "loaded" if case.loaded else "")
    for key in sorted(found):
        print(*key, found[key])


if __name__ == "__main__":
    main(int(sys.argv[1]))
