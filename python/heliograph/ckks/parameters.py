"""CKKS parameter sets: real and complex numbers to a precision, many to a ciphertext."""

from __future__ import annotations

import math

import numpy as np

from heliograph import _core
from heliograph._arrays import count_of, described, printable, readable_bytes


class Parameters:
    """A parameter set: ring degree, moduli by level, gadget, scale. Immutable; equal sets are interchangeable."""

    def __init__(self, core: _core.CkksParameters) -> None:
        self._core = core

    @property
    def name(self) -> str:
        """The set's name; empty where it has none."""
        return self._core.spec.name

    @property
    def n(self) -> int:
        """Ring degree N."""
        return self._core.spec.n

    @property
    def slots(self) -> int:
        """Values in one ciphertext: at most N/2."""
        return self._core.slots

    @property
    def period(self) -> int:
        """What rotations turn: the slots where they are a power of two, else all N/2 places."""
        return self.slots if self.slots & (self.slots - 1) == 0 else self.n // 2

    @property
    def levels(self) -> int:
        """The level of a fresh ciphertext; each rescaling takes one, and 1 is the lowest."""
        return self._core.top_level

    @property
    def depth(self) -> int:
        """Multiplications in sequence that a fresh ciphertext has levels for."""
        return self.levels - 1

    @property
    def log_scale(self) -> float:
        """log2 of the scale of a fresh ciphertext: values are kept in steps of 1/scale."""
        return self._core.spec.log_scale

    def scale(self, level: int) -> float:
        """What operations keep ciphertexts of a level at. Raises LevelError."""
        return self._core.scale(level)

    @property
    def log_q(self) -> float:
        """log2 of the ciphertext modulus."""
        return self._core.log_q

    @property
    def log_qp(self) -> float:
        """log2 of ciphertext modulus times special primes: what security is judged by."""
        return self._core.log_qp

    @property
    def edition(self) -> str:
        """ "w64" or "w32": the words residues are kept in."""
        return self._core.spec.edition

    @property
    def security(self) -> str:
        """128-bit, or how far below."""
        if self._core.secure:
            return "128-bit"
        return f"insecure, about {self._core.security_bits}-bit"

    @property
    def hash(self) -> str:
        """SHA-256 of the defining numbers, hex."""
        return self._core.hash

    @property
    def free_memory(self) -> int:
        """Bytes that the device has left."""
        return self._core.free_memory

    def ciphertext_bytes(self, degree: int = 1, level: int = 0) -> int:
        """Bytes of one ciphertext in memory at a level (0: the top); a fresh one takes half of that in a file."""
        return self._core.ciphertext_bytes(degree, level)

    @property
    def switch_key_bytes(self) -> int:
        """Bytes of one relinearization, rotation or conjugation key in memory; half of that in a file."""
        return self._core.switch_key_bytes

    def explain(self) -> str:
        """Several lines for a person."""
        s = self._core.spec
        bound = _core.largest_secure_log_qp(s.n)
        limbs = [self._core.level_limbs(level) for level in (1, self.levels)]
        digit = max(s.digits) if s.digits else 0
        room = _log2_product(self._core, 1)
        rows = [
            ("scheme", f"CKKS{' ' + printable(s.name) if s.name else ''}, edition {s.edition}"),
            ("ring degree", f"N = {s.n:,}"),
            ("modulus", f"log q = {self.log_q:.1f} in {len(s.chain)} primes"),
            (
                "levels",
                f"{self.levels}: {self.depth} multiplications in sequence, from {limbs[1]} primes down to {limbs[0]}",
            ),
            ("gadget", f"{len(s.digits)} digits of {digit} prime(s), {len(s.special)} special; log QP = {self.log_qp:.1f}"),
            (
                "scale",
                f"2^{s.log_scale:.1f}; at the lowest level values up to 2^{room - 1 - math.log2(self.scale(1)):.0f} fit",
            ),
            ("packing", f"{self.slots:,} real or complex numbers"),
            ("security", f"{self.security} (log QP at most {bound} for 128 bits at this N; ePrint 2024/463)"),
            ("publishing", "decrypted values may tell of the key: see SecretKey.decrypt, publish_bits"),
            (
                "ciphertext",
                f"{readable_bytes(self.ciphertext_bytes())}, fresh in a file {readable_bytes(self.ciphertext_bytes() / 2)}, "
                f"at the lowest level {readable_bytes(self.ciphertext_bytes(1, 1))}",
            ),
            (
                "switching key",
                f"{readable_bytes(self.switch_key_bytes)} each, in a file {readable_bytes(self.switch_key_bytes / 2)}",
            ),
        ]
        return "\n".join(f"{label:>14}  {text}" for label, text in rows)

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        name = f" {printable(self.name)}" if self.name else ""
        return (
            f"<CKKS parameters{name}: N=2^{self.n.bit_length() - 1}, log q {self.log_q:.0f}, {self.depth} multiplications, "
            f"scale 2^{self.log_scale:.1f}, {self.slots:,} slots, {self.security}, {self.edition}>"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameters) and self._core == other._core

    def __hash__(self) -> int:
        return hash(self._core.hash)


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
    """
    depth, n, levels = (
        None if count is None else count_of(count, label)
        for label, count in (("depth", depth), ("n", n), ("levels", levels))
    )
    precision, integer_bits = count_of(precision, "precision"), count_of(integer_bits, "integer_bits")
    slots, base_bits, special = count_of(slots, "slots"), count_of(base_bits, "base_bits"), count_of(special, "special")
    if not isinstance(log_scale, (int, float, np.integer, np.floating)) or not 1 <= log_scale <= 1024:
        raise _core.ParameterError(f"log_scale is a number of bits, not {described(log_scale)}")
    if name is not None:
        return Parameters(_core.CkksParameters(_core.ckks_named_spec(name, insecure)))
    if n is not None and levels is not None:
        spec = _core.ckks_make_spec(n, levels, float(log_scale), base_bits, special, edition, slots, insecure)
        return Parameters(_core.CkksParameters(spec))
    if depth is None:
        raise _core.ParameterError("say a name, or depth and precision, or n and levels")
    return Parameters(_core.CkksParameters(_core.ckks_choose(depth, precision, integer_bits, slots, edition)))


def named() -> list[str]:
    """The named sets."""
    return _core.ckks_named_specs()
