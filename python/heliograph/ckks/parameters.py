"""CKKS parameter sets: real and complex numbers to a precision, many to a ciphertext."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from heliograph import _core
from heliograph._arrays import count_of, described, flag, readable_bytes, require_alone, set_name
from heliograph._parameters import RingParameters
from heliograph._schemes import told
from heliograph.ckks.scheme import CKKS

if TYPE_CHECKING:
    from heliograph.ckks.keys import SecretKey  # noqa: F401


class Parameters(RingParameters["SecretKey"], core=_core.CkksParameters):
    """A parameter set: ring degree, moduli by level, gadget, scale. Immutable; equal sets are interchangeable.

    >>> params
    <CKKS parameters: N=2^14, log q 226, 4 multiplications, scale 2^41.0, 4 slots, 128-bit, w64>
    >>> params.levels, params.security
    (5, '128-bit')
    """

    _scheme = CKKS

    @property
    def period(self) -> int:
        """What rotations turn: the slots where they are a power of two, else all N/2 places."""
        return self.slots if self.slots & (self.slots - 1) == 0 else self.n // 2

    levels = told("top_level", int, "The level of a fresh ciphertext; each rescaling takes one, and 1 is the lowest.")

    bootstrapping_level = told(
        "bootstrapping_level", int, "The level that bootstrapping starts at; 0 where the set has none."
    )

    @property
    def depth(self) -> int:
        """Multiplications in sequence that a fresh ciphertext has levels for."""
        return self.levels - 1

    log_scale = told(
        "spec.log_scale", float, "log2 of the scale of a fresh ciphertext: values are kept in steps of 1/scale."
    )

    def scale(self, level: int) -> float:
        """What operations keep ciphertexts of a level at. Raises LevelError.

        >>> params.scale(params.levels) == x.scale
        True
        """
        return float(self._core.scale(level))

    def ciphertext_bytes(self, degree: int = 1, level: int = 0) -> int:
        """Bytes of one ciphertext in memory at a level (0: the top); a fresh one takes half of that in a file.

        >>> params.ciphertext_bytes(level=1) < params.ciphertext_bytes()
        True
        """
        return int(self._core.ciphertext_bytes(degree, level))

    def _rows(self) -> list[tuple[str, str]]:
        limbs = [self._core.level_limbs(level) for level in (1, self.levels)]
        room = _log2_product(self._core, 1) - 1 - math.log2(self.scale(1))
        levels = f"{self.levels}: {self.depth} multiplications in sequence, from {limbs[1]} primes down to {limbs[0]}"
        rows = self._moduli_rows()
        return [
            *rows[:3],
            ("levels", levels),
            *rows[3:],
            ("scale", f"2^{self.log_scale:.1f}; at the lowest level values up to 2^{room:.0f} fit"),
            ("packing", f"{self.slots:,} real or complex numbers"),
            self._security_row(),
            ("publishing", "decrypted values may tell of the key: see SecretKey.decrypt, publish_bits"),
            *self._byte_rows(f", at the lowest level {readable_bytes(self.ciphertext_bytes(1, 1))}"),
        ]

    def _summary(self) -> str:
        return (
            f"N=2^{self.n.bit_length() - 1}, log q {self.log_q:.0f}, {self.depth} multiplications, "
            f"scale 2^{self.log_scale:.1f}, {self.slots:,} slots, {self.security}, {self.edition}"
        )


def _log2_product(core: _core.CkksParameters, level: int) -> float:
    """log2 of a level's modulus."""
    s = core.spec
    primes = [s.chain[i] for i in s.levels[level - 1]] if s.levels else s.chain[:level]
    return sum(math.log2(q) for q in primes)


def parameters(
    name: str | None = None,
    *,
    depth: int | None = None,
    precision: int = 30,
    integer_bits: int = 10,
    slots: int = 0,
    n: int | None = None,
    levels: int | None = None,
    log_scale: float = 40,
    base_bits: int = 50,
    special: int = 1,
    edition: str = "w64",
    insecure: bool = False,
) -> Parameters:
    """A CKKS parameter set, in one of three ways.

    - By name: ``parameters("n16-l24")``; ``/w32`` after it names the 32-bit edition.
    - By need: ``parameters(depth=10, precision=30)``: the smallest 128-bit set for `depth` multiplications in sequence of
      values below 2^`integer_bits` with results right to `precision` bits after the binary point, with at least `slots` slots.
    - By numbers: ``parameters(n=2**14, levels=6, log_scale=40, base_bits=50, special=2)``: levels of `log_scale` bits above a
      base of `base_bits`, `special` primes for key switching.

    Raises ParameterError where no such set exists, SecurityError below 128 bits without ``insecure=True``.

    >>> hg.ckks.parameters("n14-l8").levels
    8
    >>> hg.ckks.parameters(depth=3, precision=30, slots=1000).n
    16384
    >>> hg.ckks.parameters(n=2**14, levels=6, log_scale=40, base_bits=50, special=2).security
    '128-bit'
    """
    depth, n, levels = (
        None if count is None else count_of(count, label)
        for label, count in (("depth", depth), ("n", n), ("levels", levels))
    )
    precision, integer_bits = count_of(precision, "precision"), count_of(integer_bits, "integer_bits")
    slots, base_bits, special = count_of(slots, "slots"), count_of(base_bits, "base_bits"), count_of(special, "special")
    if not isinstance(log_scale, (int, float, np.integer, np.floating)) or not 1 <= log_scale <= 1024:
        raise _core.ParameterError(f"log_scale is a number of bits, not {described(log_scale)}")
    insecure = flag(insecure, "insecure")
    numbers = {"n": n is not None, "levels": levels is not None}
    if name is not None:
        name = set_name(name, edition, **numbers, depth=depth is not None, slots=slots)
        return Parameters(_core.CkksParameters(_core.ckks_named_spec(name, insecure)))
    if n is not None and levels is not None:
        require_alone("a set by n and levels", depth=depth is not None)
        spec = _core.ckks_make_spec(n, levels, float(log_scale), base_bits, special, edition, slots, insecure)
        return Parameters(_core.CkksParameters(spec))
    if depth is None:
        raise _core.ParameterError("say a name, or depth and precision, or n and levels")
    require_alone("a set by depth and precision", **numbers)
    return Parameters(_core.CkksParameters(_core.ckks_choose(depth, precision, integer_bits, slots, edition)))


def named() -> list[str]:
    """The named sets.

    >>> hg.ckks.named()
    ['n13-l4', 'n14-l8', 'n15-l20', 'n16-l24', 'n16-l28']
    """
    return _core.ckks_named_specs()
