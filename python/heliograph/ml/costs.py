"""Closed-form counts of CKKS operations: calls by kernel, modular products, bytes of keys and plaintexts.

They equal the counts of a program that is recorded on the `null` device, but need no keys and encode nothing. So a search
over layouts and levels can ask for many of them. With a profile (`profile.py`) they give seconds.

The products are those of the expansions in `src/device/expand.cpp`. Names: N is the ring degree, l the primes of a level,
k the special primes, d the digits at that level, and T = N / 2 log2(N) the products of one transform.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import of_kind
from heliograph.ckks import Parameters
from heliograph.ckks.evaluation_keys import EvaluationKeys
from heliograph.ckks.keys import SecretKey
from heliograph.keys import Server
from heliograph.programs.forecast import recorded

_MARGIN = 3.5  # log2 by which special primes exceed each digit of keys for a level


@functools.lru_cache(maxsize=8)
def _trial(parameters: Parameters) -> tuple[SecretKey, EvaluationKeys]:
    """Return a secret key and bootstrapping keys on the `null` device."""
    secret = SecretKey.generate(Parameters(parameters._core.on_device("null")))
    return secret, secret.evaluation_keys(bootstrap=True)


def _bootstrap_rotations(parameters: Parameters) -> frozenset[int]:
    """Return the rotations of the bootstrapping keys of a set."""
    return frozenset(int(step) for step in _trial(parameters)[1].rotations)


@functools.cache
def _known_bootstraps() -> dict[str, dict[str, Any]]:
    """Return the counts of bootstraps of some named sets, by set with its word size, and by level of the result.

    They are those of `_recorded_bootstrap`, which takes seconds (`python -m benchmarks.runners.bootstrap_counts`).
    """
    text = (Path(__file__).parent / "bootstraps.json").read_text(encoding="utf-8")
    known: dict[str, dict[str, Any]] = json.loads(text)
    return known


@functools.lru_cache(maxsize=64)
def _recorded_bootstrap(parameters: Parameters, level: int | None, period: int | None) -> Counts:
    secret, keys = _trial(parameters)
    x = Server(keys).bind(secret.encrypt(np.zeros(parameters.slots)))
    low = x.lower(parameters.bootstrapping_level).within((-1.0, 1.0))
    program, _ = recorded(lambda a: a.bootstrap(1.0, level=level, period=period), low)
    return Counts(dict(program.calls), int(program.products))


@dataclass(frozen=True)
class Counts:
    """Counts of one operation on one ciphertext, or of several together.

    >>> (Counts({"add": 1}) + Counts({"add": 2}, 5)).times(3)
    Counts(calls={'add': 9}, products=15)
    """

    calls: Mapping[str, int] = field(default_factory=dict)  #: calls by kernel
    products: int = 0  #: modular products

    def __add__(self, other: Counts) -> Counts:
        names = {**self.calls, **other.calls}
        calls = {name: self.calls.get(name, 0) + other.calls.get(name, 0) for name in names}
        return Counts(calls, self.products + other.products)

    def times(self, count: int) -> Counts:
        """Return the counts of `count` such operations."""
        return Counts({name: calls * count for name, calls in self.calls.items()}, self.products * count)


class Counter:
    """Counts of the operations of one CKKS parameter set.

    Each method takes the level of the operands. Raises LevelError for a level that the set does not have. With `key_level`,
    rotations and matrices use keys for that level (``evaluation_keys(level_rotations=...)``), which have fewer primes.

    >>> import heliograph as hg
    >>> counter = Counter(hg.ckks.parameters(depth=3, precision=30, slots=1024))
    >>> counter.rotation(2).calls, counter.product(2).products > counter.rotation(2).products
    ({'key_switch': 1}, True)
    """

    def __init__(self, parameters: Parameters, key_level: int | None = None) -> None:
        self.parameters = of_kind(parameters, Parameters, "counts are of")
        spec: Any = parameters._core.spec
        self.n = int(spec.n)
        self._special = len(spec.special)
        levels = spec.levels or [range(count) for count in range(1, len(spec.chain) + 1)]  # none: a level for each prime
        self._levels = [frozenset(int(i) for i in primes) for primes in levels]  # places in the chain, by level
        ends = list(itertools.accumulate(int(size) for size in spec.digits))
        self._digits = [range(end - int(size), end) for end, size in zip(ends, spec.digits, strict=True)]
        self._transform = self.n // 2 * int(math.log2(self.n))
        self._all_special = self._special
        self.key_level = key_level
        if key_level is not None:
            self.limbs(key_level)
            self._digits, self._special = self._gadget(key_level)

    def _gadget(self, level: int) -> tuple[list[range], int]:
        """Return the digits and the number of special primes of keys for a level.

        They are the fewest digits of about equal size, and the fewest special primes whose product exceeds each digit by
        2^3.5; the set's own if there are none (`Context::gadget` in src/schemes/ckks/context.cpp).
        """
        spec: Any = self.parameters._core.spec
        chain = sorted(frozenset().union(*self._levels[:level]))
        for count in range(1, min(len(self._digits), len(chain)) + 1):
            ends = [0, *(chain[len(chain) * j // count - 1] + 1 for j in range(1, count + 1))]
            digits = [range(a, b) for a, b in itertools.pairwise(ends)]
            sizes = [self._digit_bits(spec.chain, primes, digits) for primes in self._levels[:level]]
            largest = max(math.inf if size is None else size for size in sizes)
            bits = 0.0
            for i, prime in enumerate(spec.special, 1):
                bits += math.log2(prime)
                if bits >= largest + _MARGIN:
                    return digits, i
        first = next((i for i, digit in enumerate(self._digits, 1) if digit.stop > chain[-1]), len(self._digits))
        return self._digits[:first], len(spec.special)

    @staticmethod
    def _digit_bits(chain: Sequence[int], primes: frozenset[int], digits: list[range]) -> float | None:
        """Return log2 of the largest digit of some primes; None if a digit before the last one has no prime."""
        sizes = [sum(math.log2(chain[place]) for place in digit if place in primes) for digit in digits]
        used = sum(1 for size in sizes if size)
        return max(sizes) if all(sizes[:used]) else None

    # ---- limbs and bytes ----

    def limbs(self, level: int) -> int:
        """Return the primes of a ciphertext's modulus at a level."""
        top = self.parameters.levels
        if not 1 <= level <= top:
            raise _core.LevelError(f"a level must be between 1 and {top}, got {level}")
        return len(self._levels[level - 1])

    def _require_product(self, level: int) -> None:
        self.limbs(level)
        if level < 2:
            raise _core.LevelError(f"a product needs operands of level 2 or higher, got {level}")

    def rotation_key_bytes(self) -> int:
        """Return the bytes of one rotation key in memory, for the top level or for `key_level`."""
        if self.key_level is None:
            return int(self.parameters.switch_key_bytes)
        primes = len(frozenset().union(*self._levels[: self.key_level])) + self._special
        return 2 * len(self._digits) * primes * self.n * self.parameters.word_size // 8

    def key_bytes(self, rotations: Iterable[int] = (), *, relinearize: bool = True, bootstrap: bool = False) -> int:
        """Return the bytes of evaluation keys in memory: one switching key a rotation, relinearization, bootstrapping.

        With `key_level` the rotation keys are those for that level.

        Bootstrapping keys include relinearization and some rotations, which serve all operations.
        """
        p = self.parameters
        steps = {step % p.period for step in rotations} - {0}
        if not bootstrap:
            return len(steps) * self.rotation_key_bytes() + bool(relinearize) * int(p.switch_key_bytes)
        if not p.bootstrapping_level:
            raise _core.ParameterError("this parameter set has no bootstrapping; use a set of hg.ckks.named() that has")
        shared = _bootstrap_rotations(p) if self.key_level is None else frozenset()
        return len(steps - shared) * self.rotation_key_bytes() + int(p.bootstrapping_key_bytes)

    def plaintext_bytes(self, diagonals: int, level: int, period: int | None = None) -> int:
        """Return the bytes of the encoded diagonals of a matrix for operands of a level, which repeat with `period` slots.

        They have the primes of the level and the special ones. A plaintext of real or complex values that repeat with a
        period needs 2 * period words a prime.
        """
        words = min(2 * (period or self.parameters.slots), self.n)
        return diagonals * words * (self.limbs(level) + self._all_special) * self.parameters.word_size // 8

    def plaintext_transforms(self, level: int) -> int:
        """Return the modular products of the transform of an encoded diagonal for operands of a level."""
        return (self.limbs(level) + self._all_special) * self._transform

    # ---- parts of key switches, in products ----

    def _sizes(self, level: int) -> list[int]:
        """Return the primes of each digit at a level."""
        primes = self._levels[level - 1]
        sizes = (sum(place in primes for place in digit) for digit in self._digits)
        return [size for size in sizes if size]

    def _raise(self, level: int) -> int:
        """Digits from coefficients: conversions to the other primes, and transforms."""
        extended = self.limbs(level) + self._special
        sizes = self._sizes(level)
        convert = sum(self.n * size * (1 + extended - size) for size in sizes)
        return convert + len(sizes) * extended * self._transform

    def _inner(self, level: int) -> int:
        """One product of digits and a key."""
        return 2 * len(self._sizes(level)) * (self.limbs(level) + self._special) * self.n

    def _divide(self, level: int, target: int, special: bool) -> int:
        """A division of a ciphertext of `level`, and of the special primes, to the primes of `target`.

        Dropped primes are transformed back and converted to the target's. Primes of both levels are multiplied by constants.
        """
        both = len(self._levels[level - 1] & self._levels[target - 1])
        dropped, kept = self.limbs(level) - both + self._special * special, self.limbs(target)
        return 2 * ((dropped + kept) * self._transform + self.n * dropped * (1 + kept) + self.n * both)

    def _switch(self, level: int, target: int, added: int) -> int:
        """One key switch that adds `added` components and ends at the level `target`."""
        limbs = self.limbs(level)
        first = limbs * self._transform + self._raise(level) + self._inner(level)
        return first + added * limbs * self.n + self._divide(level, target, True)

    # ---- operations ----

    def addition(self, level: int) -> Counts:
        """Return the counts of a sum of two ciphertexts."""
        self.limbs(level)
        return Counts({"add": 1})

    def product(self, level: int) -> Counts:
        """Return the counts of a product of two ciphertexts, with relinearization and rescaling in one key switch."""
        if self.key_level is not None:  # relinearization keys are for all levels
            return Counter(self.parameters).product(level)
        self._require_product(level)
        tensor = 4 * self.limbs(level) * self.n
        return Counts({"key_switch": 1, "tensor": 1}, tensor + self._switch(level, level - 1, 2))

    def constant_product(self, level: int) -> Counts:
        """Return the counts of a product with a number, with its rescaling."""
        self._require_product(level)
        products = 2 * self.limbs(level) * self.n + self._divide(level, level - 1, False)
        return Counts({"divide": 1, "mul_constants": 1}, products)

    def rotation(self, level: int) -> Counts:
        """Return the counts of one rotation."""
        self.limbs(level)
        return Counts({"key_switch": 1}, self._switch(level, level, 1))

    def bootstrap(self, level: int | None = None, period: int | None = None) -> Counts:
        """Return the counts of a bootstrap of one ciphertext of real values, from a recording on the `null` device.

        `level` and `period` are those of `heliograph.ckks.bootstrap`, with its errors.
        """
        if not self.parameters.bootstrapping_level:
            raise _core.ParameterError("this parameter set has no bootstrapping; use a set of hg.ckks.named() that has")
        p = self.parameters
        known = _known_bootstraps().get(f"{p.name} w{p.word_size}", {}) if period is None else {}
        row = known.get(str(p.levels if level is None else level))
        return _recorded_bootstrap(p, level, period) if row is None else Counts(row["calls"], row["products"])

    def transform(self, level: int, numbers: Iterable[int], baby: int) -> Counts:
        """Return the counts of a `LinearTransform` with these diagonals, in giant steps of `baby` diagonals.

        `numbers` are the numbers of the diagonals, from 0 to the matrix's size - 1.
        """
        if baby < 1:
            raise _core.ParameterError(f"baby must be at least 1, got {baby}")
        return Counts({"linear_sum": 1}, sum(self.transform_parts(level, numbers, baby).values()))

    def blocks(self, level: int, numbers: Sequence[Sequence[Iterable[int]]], baby: int) -> int:
        """Return the modular products of a `BlockTransform`, whose block (o, i) has the diagonals ``numbers[o][i]``.

        The baby steps of an input serve all outputs. An output has one division, and its giant steps.
        """
        self._require_product(level)
        if baby < 1:
            raise _core.ParameterError(f"baby must be at least 1, got {baby}")
        # An output whose first block is zero starts with a product by zero.
        table = [[set(places) or ({0} if i == 0 else set()) for i, places in enumerate(row)] for row in numbers]
        if not table or not table[0] or any(len(row) != len(table[0]) for row in table):
            raise _core.ShapeError("blocks must be rows [outputs][inputs] of one length, at least one block")
        one = self.transform_parts(level, (0, 1), 2)
        limbs = self.limbs(level)
        decompose = limbs * self._transform + self._raise(level)
        diagonal, baby_step = one["diagonal"] // 2, one["baby_step"]
        giant_step = self.transform_parts(level, (0, baby), baby)["giant_step"]
        sums = {(o, place // baby) for o, row in enumerate(table) for places in row for place in places}
        total = 0
        for column in zip(*table, strict=True):
            steps = {place % baby for places in column for place in places}
            total += decompose * bool(steps - {0}) + len(steps - {0}) * baby_step + 2 * limbs * self.n * (0 in steps)
            total += sum(map(len, column)) * diagonal
        total += sum(1 for _, giant in sums if giant) * giant_step
        return total + len(table) * self._divide(level, level - 1, True)

    def transform_parts(self, level: int, numbers: Iterable[int], baby: int) -> dict[str, int]:
        """Return the products of a `LinearTransform` by part: base, baby_step, giant_step, diagonal."""
        self._require_product(level)
        limbs = self.limbs(level)
        extended = limbs + self._special
        places = sorted(set(numbers))
        if not places:
            raise _core.ShapeError("a matrix must have at least one diagonal")
        babies, giants = {number % baby for number in places}, {number // baby for number in places} - {0}
        base = self._divide(level, level - 1, True)
        steps = len(babies - {0})
        if steps:
            base += limbs * self._transform + self._raise(level)
        base += 2 * limbs * self.n * (0 in babies)
        # A giant step divides the second component of its sum to coefficients, and switches it to the key.
        back = extended * self._transform + self.n * self._special * (1 + limbs) + limbs * self.n
        giant = back + self._raise(level) + self._inner(level)
        return {
            "base": base,
            "baby_step": steps * (self._inner(level) + limbs * self.n),
            "giant_step": len(giants) * giant,
            "diagonal": len(places) * 2 * extended * self.n,
        }
