"""The class of parameter sets of CKKS."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from heliograph import _core
from heliograph._common.arguments import (
    count_of,
    described,
    readable_bytes,
    real,
)
from heliograph._common.parameters import K, RingParameters
from heliograph._common.schemes import engine_property
from heliograph.ckks.scheme import CKKS


class Parameters(RingParameters[K], core=_core.ckks.Parameters):
    """A parameter set of CKKS: ring degree, moduli by level, gadget, scale.

    Sets are immutable; equal sets are interchangeable.

    >>> params
    <CKKS parameters: N=2^14, log q 256, 4 multiplications, scale 2^43.0, 4 slots, 128-bit, w64>
    >>> params.levels, params.security
    (5, '128-bit')
    """

    _scheme = CKKS

    period = engine_property(
        "period",
        int,
        "Number of steps of a full rotation: `slots` if a power of two of slots repeats through the N/2 places, else N/2.",
    )

    @property
    def room(self) -> float:
        """Largest magnitude of a value that fits the modulus of the lowest level, before noise.

        >>> params.room > 2.0**30
        True

        Larger results do not decrypt.
        """
        return float(self._core.room)

    @property
    def bound(self) -> float:
        """Public bound on the magnitude of inputs, unless a call of `encrypt` passes its own bound.

        >>> hg.ckks.parameters(depth=1, precision=20).bound, hg.ckks.parameters(depth=3, bound=100).bound
        (1048576.0, 100.0)

        Without ``parameters(..., bound=)`` the bound is 2^-14 times the room, but at most 2^20, and at least 2^10 if the
        room holds that."""
        return float(self._core.input_bound)

    levels = engine_property(
        "top_level", int, "Level of a fresh ciphertext; each rescaling takes one level, and 1 is the lowest."
    )

    bootstrapping_level = engine_property(
        "bootstrapping_level", int, "Lowest level of a tensor that can be bootstrapped; 0 if the set has no bootstrapping."
    )

    bootstrapping_key_bytes = engine_property(
        "bootstrapping_key_bytes",
        int,
        "Size in memory of the keys of bootstrapping, in bytes; a file takes half. It is 0 if the set has no bootstrapping.",
    )

    @property
    def depth(self) -> int:
        """Number of successive multiplications of a fresh ciphertext."""
        return self.levels - 1

    @property
    def depth_between(self) -> int:
        """Number of successive multiplications between two bootstraps; 0 if the set has no bootstrapping."""
        return self.levels - self.bootstrapping_level if self.bootstrapping_level else 0

    def bootstrapping_precision(self, bound: float = 1.0, iterations: int = 1) -> float:
        """Returns the correct bits after the binary point of values up to `bound` after a bootstrap.

        The number is the minimum of `Tensor.precision` for such a tensor; errors are usually some bits smaller. `iterations`
        is as for `hg.ckks.bootstrap`. The first call for a set makes keys on the `null` device, in about a second at N =
        2^16.

        Raises ParameterError for a set without bootstrapping, for a bound outside 2^-20...2^20 and unless `iterations` is 1
        to 4.

        >>> again = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True)
        >>> again.bootstrapping_precision() > again.bootstrapping_precision(bound=4) > 10
        True
        """
        if not self.bootstrapping_level:
            raise _core.ParameterError("this set has no bootstrapping: choose one by parameters(..., bootstrap=True)")
        most = real(bound, "the bound")
        if not 2.0**-20 <= most <= 2.0**20:
            raise _core.ParameterError(f"the bound of a bootstrap must be between 2^-20 and 2^20, not {described(bound)}")
        return _after_bootstrap(self, most, count_of(iterations, "iterations", 1))

    log_scale = engine_property(
        "spec.log_scale", float, "log2 of the scale of a fresh ciphertext: values are rounded to multiples of 1/scale."
    )

    def scale(self, level: int) -> float:
        """Returns the scale of ciphertexts of a level; operations keep ciphertexts at this scale. Raises LevelError.

        >>> params.scale(params.levels) == x.scale
        True
        """
        return float(self._core.scale(level))

    def ciphertext_bytes(self, degree: int = 1, level: int = 0) -> int:
        """Returns the bytes of one ciphertext in memory at a level (0: the top). A fresh ciphertext takes half as many
        bytes in a file.

        >>> params.ciphertext_bytes(level=1) < params.ciphertext_bytes()
        True
        """
        return int(self._core.ciphertext_bytes(degree, level))

    def _rows(self) -> list[tuple[str, str]]:
        limbs = [self._core.level_limbs(level) for level in (1, self.levels)]
        levels = f"{self.levels}: {self.depth} multiplications in sequence, from {limbs[1]} primes down to {limbs[0]}"
        rows = self._moduli_rows()
        return [
            *rows[:3],
            ("levels", levels),
            *rows[3:],
            (
                "scale",
                f"2^{self.log_scale:.1f}; at the lowest level values up to {_power(self.room)} fit (the "
                f"room){self._shorter()}",
            ),
            ("inputs", f"encryption takes values up to {_magnitude(self.bound)}, or up to its argument bound"),
            ("packing", f"{self.slots:,} real or complex numbers{self._repeats()}"),
            self._security_row(),
            ("publishing", "decrypted values may leak the key: see SecretKey.decrypt, publish_bits"),
            *self._byte_rows(f", at the lowest level {readable_bytes(self.ciphertext_bytes(1, 1))}"),
            *self._bootstrapping_rows(),
        ]

    def _repeats(self) -> str:
        """Returns the part of `explain` on the content of unused places."""
        if self.slots == self.n // 2:
            return ""
        return ", repeated through the ciphertext" if self.period == self.slots else ", zeros behind them"

    def _shorter(self) -> str:
        """Returns the part of `explain` on the bytes that `integer_bits=10` saves, if it saves one prime in each level."""
        limbs, longest = self._core.level_limbs(1), _LONGEST_PRIMES[self.word_size]
        if self.bootstrapping_level or math.ceil(self.log_scale + 1.3) + _LEAST_BITS > longest * (limbs - 1):
            return ""
        saved = self.ciphertext_bytes() // self._core.level_limbs(self.levels)
        return (
            f"; integer_bits={_LEAST_BITS} takes a prime less in each level: ciphertexts have {readable_bytes(saved)} less "
            f"({100 / self._core.level_limbs(self.levels):.0f}%, at the lowest level {100 / limbs:.0f}%)"
        )

    def _differs_from(self, other: object) -> str:
        if isinstance(other, Parameters):
            return str(self._core.difference(other._core))
        return super()._differs_from(other)

    def _bootstrapping_rows(self) -> list[tuple[str, str]]:
        """Returns the lines of `explain` on bootstrapping; none if the set has no bootstrapping."""
        if not self.bootstrapping_level:
            return []
        keys = self.bootstrapping_key_bytes
        return [
            (
                "bootstrapping",
                f"from level {self.bootstrapping_level} back to {self.levels}: {self.depth_between} multiplications "
                f"between bootstraps; a ciphertext fails with probability 2^{_LOG2_FAILURE + math.log2(self.n):.1f}",
            ),
            ("its precision", self._after()),
            ("its keys", f"{readable_bytes(keys)} in all, in a file {readable_bytes(keys / 2)}"),
        ]

    def _after(self) -> str:
        """Returns the part of `explain` on the precision of values up to 1 after a bootstrap."""
        promised = _PROMISED.get(self.name) if self.slots == self.n // 2 else None
        one, two = promised or tuple(self.bootstrapping_precision(iterations=n) for n in (1, 2))
        better = f" ({two:.1f} with iterations=2)" if two > one + 0.5 else ""
        mean = BOOTSTRAPPING.get(self.name)
        usual = f"; the mean error is near 2^-{mean[1]}{' with iterations=2' if self.name in _TWICE else ''}" if mean else ""
        return f"values up to 1 are right to at least {one:.1f} bits after the point{better}{usual}"

    def _summary(self) -> str:
        again = f" ({self.depth_between} after a bootstrap)" if self.bootstrapping_level else ""
        return (
            f"N=2^{self.n.bit_length() - 1}, log q {self.log_q:.0f}, {self.depth} multiplications{again}, "
            f"scale 2^{self.log_scale:.1f}, {self.slots:,} slots, {self.security}, w{self.word_size}"
        )


#: log2 of the probability that one coefficient exceeds the range of bootstrapping's sine: the sum of 32 terms in
#: [-1/2, 1/2], one for each nonzero coefficient of the sparse key, exceeds 15.5 in magnitude.
_LOG2_FAILURE = 1 - 32 - math.log2(math.factorial(32))

#: Named sets with bootstrapping, the cheapest first: multiplications after a bootstrap; correct bits after the point of
#: values up to 1 (mean over slots; n16-b10-h with two iterations); bits before the point at the lowest level.
BOOTSTRAPPING = {
    "n15-b4": (4, 17, 9),
    "n16-b9": (9, 20, 10),
    "n16-b10-h": (10, 30, 2),
    "n16-b13": (13, 20, 10),
    "n16-b18": (18, 20, 10),
    "n16-b11-c": (11, 24, 10),
    "n16-b13/w32": (13, 15, 29),
    "n16-b11/w32": (11, 26, 13),
}
#: Sets for which `BOOTSTRAPPING` states the precision of two iterations.
_TWICE = ("n16-b10-h",)
#: `Parameters.bootstrapping_precision` of each set with all slots, for one and for two iterations.
_PROMISED = {
    "n15-b4": (9.1, 14.9),
    "n16-b9": (14.7, 18.2),
    "n16-b10-h": (14.7, 26.0),
    "n16-b13": (14.7, 18.2),
    "n16-b18": (14.5, 18.2),
    "n16-b11-c": (17.4, 18.2),
    "n16-b13/w32": (9.7, 8.7),
    "n16-b11/w32": (19.5, 24.0),
}
#: Bits of the longest primes, by word size; smallest `integer_bits` that `explain` suggests.
_LONGEST_PRIMES, _LEAST_BITS = {64: 50, 32: 30}, 10


T = TypeVar("T")


@functools.lru_cache(maxsize=32)
def _after_bootstrap(parameters: Parameters, bound: float, iterations: int) -> float:
    """Returns `Parameters.bootstrapping_precision`, by a bootstrap on the `null` device of two items, which are packed as a
    pair.
    """

    def precision(secret: Any, keys: Any) -> float:
        values = np.full((2, parameters.slots), bound, dtype=np.complex128)
        x = secret.encrypt(values, False, parameters.bootstrapping_level, None, (-bound, bound))
        return max(0.0, float(_core.ckks.bootstrap(x, keys, bound, None, iterations).precision))

    return tried(parameters, precision)


def tried(parameters: Parameters, call: Callable[[Any, Any], T]) -> T:
    """Returns the result of a call with a secret key and its keys of bootstrapping on the `null` device.

    The call runs in a thread of its own, because a recording in the caller's thread refuses encryptions.
    """
    with ThreadPoolExecutor(1) as other:
        return other.submit(lambda: call(*_trial(parameters))).result()


@functools.lru_cache(maxsize=1)
def _trial(parameters: Parameters) -> tuple[Any, Any]:
    secret = _core.ckks.SecretKey.generate(parameters._core.on_device("null"))
    return secret, secret.evaluation_keys(True, [], False, None, True)


def _power(value: float) -> str:
    """Formats the largest power of two that is at most `value`."""
    return f"2^{math.floor(math.log2(value))}"


def _magnitude(value: float) -> str:
    """Formats a bound as a number, or as a power of two from 2^14 on."""
    return f"2^{math.log2(value):.4g}" if value >= 1 << 14 else f"{value:,.6g}"
