"""Parameter sets of BFV and BGV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from heliograph import _core
from heliograph._common.arguments import count_of, described, flag, is_whole, listed, require_alone, set_name, word_size_of
from heliograph._common.parameters import K, RingParameters
from heliograph._common.schemes import engine_property
from heliograph.exact.scheme import EXACT


class Parameters(RingParameters[K], core=_core.exact.Parameters):
    """A parameter set of BFV or BGV: ring degree, moduli, gadget, plaintext moduli.

    Sets are immutable; equal sets are interchangeable.

    >>> params
    <BFV parameters: N=2^13, log q 133, 128-bit, 21-bit plaintext, 4 slots, w64>
    >>> params.n, params.security
    (8192, '128-bit')
    >>> params == hg.bfv.parameters(depth=2, plain_bits=20, slots=4)
    True
    """

    _scheme = EXACT

    @property
    def scheme(self) -> str:
        """ "BFV" or "BGV"."""
        return str(self._core.spec.scheme.upper())

    has_slots = engine_property(
        "has_slots", bool, "Whether ciphertexts have slots: each plaintext modulus is a prime that is 1 modulo 2N."
    )
    plain_moduli = engine_property(
        "spec.plain_moduli", list[int], "The plaintext moduli; values are residues modulo their product t."
    )
    exact = engine_property(
        "spec.exact",
        bool,
        "Whether decryption refuses integers that may have wrapped modulo t; else values are residues modulo t.",
    )

    @property
    def plain_modulus(self) -> int:
        """The product of the plaintext moduli."""
        return math.prod(self.plain_moduli)

    @property
    def levels(self) -> int:
        """Number of primes in the ciphertext modulus."""
        return len(self._core.spec.chain)

    def _rows(self) -> list[tuple[str, str]]:
        return [
            *self._moduli_rows(),
            ("plaintext", f"t = {', '.join(str(v) for v in self.plain_moduli)}"),
            ("values", self._values()),
            ("packing", f"{self.slots:,} slots" if self.has_slots else f"{self.n:,} coefficients, no slots"),
            self._security_row(),
            ("failure", "decryption fails with probability below 2^-128 while the noise estimate is positive"),
            *self._byte_rows(),
        ]

    def _values(self) -> str:
        if self.exact:
            return (
                f"exact integers up to {self.plain_modulus // 2:,} in magnitude; decryption refuses larger ones (RoomError)"
            )
        return "residues modulo t: larger integers wrap"

    def _summary(self) -> str:
        packing = f"{self.slots:,} slots" if self.has_slots else "no slots"
        return (
            f"N=2^{self.n.bit_length() - 1}, log q {self.log_q:.0f}, {self.security}, "
            f"{self.plain_modulus.bit_length()}-bit plaintext, {packing}, w{self.word_size}"
        )


def plain_moduli_of(plain_modulus: int | Sequence[int] | None) -> list[int]:
    """Returns the plaintext moduli of an argument `plain_modulus` as a list. Raises ParameterError."""
    if plain_modulus is None:
        return []
    several = listed(plain_modulus)
    values: list[Any] = [plain_modulus] if several is None else several
    for t in values:
        if not is_whole(t) or not 2 <= t < 1 << 60:
            raise _core.ParameterError(f"a plaintext modulus must be an integer between 2 and 2^60, not {described(t)}")
    return [int(t) for t in values]


#: Versions whose rules for choosing sets are available, the default last.
VERSIONS = ("0.2", "0.3")


def set_for(
    scheme: str,
    name: str | None = None,
    *,
    depth: int | None = None,
    plain_bits: int = 0,
    plain_modulus: int | Sequence[int] | None = None,
    slots: int = 0,
    terms: int = 1024,
    n: int | None = None,
    log_q: int | None = None,
    special: int = 1,
    word_size: int = 64,
    insecure: bool = False,
    version: str | None = None,
    exact: bool | None = None,
) -> Parameters:
    """Implements `hg.bfv.parameters` and `hg.bgv.parameters`."""
    moduli, word_size = plain_moduli_of(plain_modulus), word_size_of(word_size)
    version = VERSIONS[-1] if version is None else version
    if version not in VERSIONS:
        raise _core.ParameterError(
            f"version must be {' or '.join(map(repr, VERSIONS))}, whose rules choose a set, not {described(version)}"
        )
    exact = None if exact is None else flag(exact, "exact")
    optional = {"n": n, "log_q": log_q, "depth": depth}
    counts = {"plain_bits": plain_bits, "slots": slots, "terms": terms, "special": special}
    n, log_q, depth = (None if count is None else count_of(count, label) for label, count in optional.items())
    bits, slots, terms, special = (count_of(count, label) for label, count in counts.items())
    insecure = flag(insecure, "insecure")
    numbers = {"n": n is not None, "log_q": log_q is not None}
    if name is not None:
        needs = {"depth": depth is not None, "plain_bits": bits, "plain_modulus": moduli, "slots": slots, "exact": exact}
        full_name = set_name(name, word_size, **numbers, **needs)
        return Parameters(_core.exact.Parameters(_core.exact.named_spec(full_name, insecure, scheme)))
    if n is not None and log_q is not None:
        require_alone("a set by n and log_q", depth=depth is not None)
        finds_moduli = not moduli
        if finds_moduli:
            moduli = _core.exact.batching_primes(n, bits or 20)
        spec = _core.exact.make_spec(n, log_q, special, moduli, word_size, slots, insecure, scheme)
        spec.exact = (finds_moduli and version != "0.2") if exact is None else exact
        return Parameters(_core.exact.Parameters(spec))
    if depth is None:
        raise _core.ParameterError("parameters needs a name, or depth and plain_bits, or n and log_q")
    require_alone("a set by depth", **numbers)
    spec = _core.exact.choose(depth, bits, moduli, slots, terms, word_size, scheme, version, exact)
    parameters = Parameters(_core.exact.Parameters(spec))
    if slots and not parameters.has_slots:
        raise _core.SlotsError(
            f"the plaintext modulus {', '.join(map(str, moduli))} has no slots at N = {parameters.n}: use a prime that is 1 "
            f"modulo {2 * parameters.n}, or pass plain_bits to have one chosen"
        )
    return parameters
