"""BFV parameter sets: exact integers, many to a ciphertext. BGV's are of the same type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliograph import _core
from heliograph._arrays import count_of, described, is_whole, listed, printable, readable_bytes


class Parameters:
    """A parameter set: ring degree, moduli, gadget, plaintext moduli. Immutable; equal sets are interchangeable."""

    def __init__(self, core: _core.Parameters) -> None:
        self._core = core
        #: What `parameters_for` saw a computation use: {"relinearize": bool, "rotations": [...], "columns": bool}.
        self.needs: dict[str, Any] = {}

    @property
    def scheme(self) -> str:
        """ "BFV" or "BGV"."""
        return self._core.spec.scheme.upper()

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
        """Values in one ciphertext."""
        return self._core.slots

    @property
    def has_slots(self) -> bool:
        """Whether values can be batched (each plaintext modulus a prime that is 1 modulo 2N)."""
        return self._core.has_slots

    @property
    def plain_moduli(self) -> list[int]:
        """t, or several: values live modulo their product."""
        return list(self._core.spec.plain_moduli)

    @property
    def plain_modulus(self) -> int:
        """The product of the plaintext moduli."""
        product = 1
        for t in self.plain_moduli:
            product *= t
        return product

    @property
    def log_q(self) -> float:
        """log2 of the ciphertext modulus."""
        return self._core.log_q

    @property
    def log_qp(self) -> float:
        """log2 of ciphertext modulus times special primes: what security is judged by."""
        return self._core.log_qp

    @property
    def levels(self) -> int:
        """Primes in the ciphertext modulus."""
        return len(self._core.spec.chain)

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

    def ciphertext_bytes(self, degree: int = 1) -> int:
        """Bytes of one ciphertext in memory; a fresh one takes half of that in a file."""
        return self._core.ciphertext_bytes(degree)

    @property
    def switch_key_bytes(self) -> int:
        """Bytes of one relinearization or rotation key in memory; half of that in a file."""
        return self._core.switch_key_bytes

    def explain(self) -> str:
        """Several lines for a person."""
        s = self._core.spec
        bound = _core.largest_secure_log_qp(s.n)
        t = ", ".join(str(v) for v in s.plain_moduli)
        packing = f"{self.slots:,} slots" if self.has_slots else f"{s.n:,} coefficients, no slots"
        gadget = f"{len(s.digits)} digits of {max(s.digits)} prime(s), {len(s.special)} special"
        rows = [
            ("scheme", f"{self.scheme}{' ' + printable(s.name) if s.name else ''}, edition {s.edition}"),
            ("ring degree", f"N = {s.n:,}"),
            ("modulus", f"log q = {self.log_q:.1f} in {len(s.chain)} primes"),
            ("gadget", f"{gadget}; log QP = {self.log_qp:.1f}"),
            ("plaintext", f"t = {t}"),
            ("packing", packing),
            ("security", f"{self.security} (log QP at most {bound} for 128 bits at this N; ePrint 2024/463)"),
            ("failure", "decryption fails with probability below 2^-64 while the noise estimate is positive"),
            (
                "ciphertext",
                f"{readable_bytes(self.ciphertext_bytes())}, fresh in a file {readable_bytes(self.ciphertext_bytes() / 2)}",
            ),
            (
                "switching key",
                f"{readable_bytes(self.switch_key_bytes)} each, in a file {readable_bytes(self.switch_key_bytes / 2)}",
            ),
        ]
        return "\n".join(f"{label:>14}  {text}" for label, text in rows)

    def __repr__(self) -> str:
        name = f" {printable(self.name)}" if self.name else ""
        packing = f"{self.slots:,} slots" if self.has_slots else "no slots"
        return (
            f"<{self.scheme} parameters{name}: N=2^{self.n.bit_length() - 1}, log q {self.log_q:.0f}, {self.security}, "
            f"{self.plain_modulus.bit_length()}-bit plaintext, {packing}, {self.edition}>"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameters) and self._core == other._core

    def __hash__(self) -> int:
        return hash(self._core.hash)


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


def parameters(
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
    edition: str = "w64",
    insecure: bool = False,
) -> Parameters:
    """A BFV parameter set, in one of three ways (BGV's: `hg.bgv.parameters`).

    - By name: ``parameters("hcnn5-2020")``; ``/w32`` after it names the 32-bit edition.
    - By need: ``parameters(depth=4, plain_bits=42, slots=10_000)``: the smallest 128-bit set for `depth` multiplications
      in sequence, each summing up to `terms` products, of integers modulo a plaintext modulus of more than
      `plain_bits` bits (or `plain_modulus`), with at least `slots` slots.
    - By numbers: ``parameters(n=2**14, log_q=330, special=2, plain_modulus=65537)``.

    Raises ParameterError where no such set exists, SecurityError below 128 bits without ``insecure=True``.
    """
    wanted = {"depth": depth, "slots": slots, "terms": terms, "n": n, "log_q": log_q, "special": special}
    return _found("bfv", name, plain_bits, plain_modulus, edition, insecure, wanted)


def _found(
    scheme: str,
    name: str | None,
    plain_bits: int,
    plain_modulus: int | Sequence[int] | None,
    edition: str,
    insecure: bool,
    wanted: dict[str, Any],
) -> Parameters:
    """`parameters` of a scheme."""
    moduli = given_moduli(plain_modulus)
    wanted = {label: None if count is None else count_of(count, label) for label, count in wanted.items()}
    bits = count_of(plain_bits, "plain_bits")
    if name is not None:
        return Parameters(_core.Parameters(_core.named_spec(name, insecure, scheme)))
    n, log_q, depth, slots = wanted["n"], wanted["log_q"], wanted["depth"], wanted["slots"]
    if n is not None and log_q is not None:
        if not moduli:
            moduli = _core.batching_primes(n, bits or 20)
        spec = _core.make_spec(n, log_q, wanted["special"], moduli, edition, slots, insecure, scheme)
        return Parameters(_core.Parameters(spec))
    if depth is None:
        raise _core.ParameterError("say a name, or depth and plain_bits, or n and log_q")
    spec = _core.choose(depth, bits, moduli, slots, wanted["terms"], edition, scheme)
    return Parameters(_core.Parameters(spec))


def named() -> list[str]:
    """The named sets."""
    return _core.named_specs()
