"""Parameter sets of exact integers, BFV's and BGV's: many to a ciphertext."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heliograph import _core
from heliograph._arrays import count_of, described, flag, is_whole, listed, require_alone, set_name
from heliograph._parameters import RingParameters
from heliograph._schemes import told
from heliograph.exact.scheme import EXACT

if TYPE_CHECKING:
    from heliograph.exact.keys import SecretKey  # noqa: F401


class Parameters(RingParameters["SecretKey"], core=_core.Parameters):
    """A parameter set: ring degree, moduli, gadget, plaintext moduli. Immutable; equal sets are interchangeable.

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

    has_slots = told(
        "has_slots", bool, "Whether values can be batched (each plaintext modulus a prime that is 1 modulo 2N)."
    )
    plain_moduli = told("spec.plain_moduli", list[int], "t, or several: values live modulo their product.")
    exact = told(
        "spec.exact",
        bool,
        "Whether values are integers, and decryption refuses what may have wrapped; else they are residues modulo t.",
    )

    @property
    def plain_modulus(self) -> int:
        """The product of the plaintext moduli."""
        return math.prod(self.plain_moduli)

    @property
    def levels(self) -> int:
        """Primes in the ciphertext modulus."""
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
                f"exact integers up to {self.plain_modulus // 2:,} in magnitude; what may be larger is refused (RoomError)"
            )
        return "residues modulo t: what is larger wraps"

    def _summary(self) -> str:
        packing = f"{self.slots:,} slots" if self.has_slots else "no slots"
        return (
            f"N=2^{self.n.bit_length() - 1}, log q {self.log_q:.0f}, {self.security}, "
            f"{self.plain_modulus.bit_length()}-bit plaintext, {packing}, {self.edition}"
        )


def given_moduli(plain_modulus: int | Sequence[int] | None) -> list[int]:
    """A set's plaintext moduli as the caller gives them. Raises ParameterError."""
    if plain_modulus is None:
        return []
    several = listed(plain_modulus)
    values: list[Any] = [plain_modulus] if several is None else several
    for t in values:
        if not is_whole(t) or not 2 <= t < 1 << 60:
            raise _core.ParameterError(f"a plaintext modulus is an integer between 2 and 2^60, not {described(t)}")
    return [int(t) for t in values]


#: Whose rules choose sets, the present ones last.
VERSIONS = ("0.2", "0.3")


def found(
    scheme: str,
    name: str | None,
    plain_bits: int,
    plain_modulus: int | Sequence[int] | None,
    edition: str,
    insecure: bool,
    version: str | None,
    exact: bool | None,
    wanted: dict[str, Any],
) -> Parameters:
    """What `hg.bfv.parameters` and `hg.bgv.parameters` are asked for."""
    moduli = given_moduli(plain_modulus)
    version = VERSIONS[-1] if version is None else version
    if version not in VERSIONS:
        raise _core.ParameterError(
            f"sets are chosen by the rules of version {' or '.join(map(repr, VERSIONS))}, not of {described(version)}"
        )
    exact = None if exact is None else flag(exact, "exact")
    wanted = {label: None if count is None else count_of(count, label) for label, count in wanted.items()}
    bits = count_of(plain_bits, "plain_bits")
    n, log_q, depth, slots = wanted["n"], wanted["log_q"], wanted["depth"], wanted["slots"]
    insecure = flag(insecure, "insecure")
    numbers = {"n": n is not None, "log_q": log_q is not None}
    if name is not None:
        needs = {"depth": depth is not None, "plain_bits": bits, "plain_modulus": moduli, "slots": slots, "exact": exact}
        whole = set_name(name, edition, **numbers, **needs)
        return Parameters(_core.Parameters(_core.named_spec(whole, insecure, scheme)))
    if n is not None and log_q is not None:
        require_alone("a set by n and log_q", depth=depth is not None)
        sought = not moduli
        if sought:
            moduli = _core.batching_primes(n, bits or 20)
        spec = _core.make_spec(n, log_q, wanted["special"], moduli, edition, slots, insecure, scheme)
        spec.exact = (sought and version != "0.2") if exact is None else exact
        return Parameters(_core.Parameters(spec))
    if depth is None:
        raise _core.ParameterError("say a name, or depth and plain_bits, or n and log_q")
    require_alone("a set by depth", **numbers)
    spec = _core.choose(depth, bits, moduli, slots, wanted["terms"], edition, scheme, version, exact)
    chosen = Parameters(_core.Parameters(spec))
    if slots and not chosen.has_slots:
        raise _core.SlotsError(
            f"t = {', '.join(map(str, moduli))} has no slots at N = {chosen.n}: take a prime that is 1 modulo {2 * chosen.n}, or "
            "plain_bits, which finds one"
        )
    return chosen
