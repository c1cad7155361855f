"""Parameter sets: base classes for all schemes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic

from heliograph import _core
from heliograph._common.arguments import printable, readable_bytes
from heliograph._common.schemes import SCHEMES, EngineObject, engine_property

if TYPE_CHECKING:  # Python 3.11's TypeVar takes no default
    from typing_extensions import TypeVar

    #: The class of secret keys that belongs to the scheme of a parameter set.
    K = TypeVar("K", default=Any)
    P = TypeVar("P", bound="Parameters[Any]", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    P = TypeVar("P")


class Parameters(EngineObject, Generic[K]):
    """A parameter set of any scheme. Sets are immutable; equal sets are interchangeable."""

    def __init__(self, core: Any) -> None:
        self._core = core
        #: Arguments for `SecretKey.evaluation_keys` that `parameters_for` found for its computation.
        self.needs: dict[str, Any] = {}

    @property
    def scheme(self) -> str:
        """ "BFV", "BGV", "CKKS" or "TFHE"."""
        return self._scheme.title

    name = engine_property("spec.name", str, "Name of the set; empty if it has none.")

    @property
    def security(self) -> str:
        """ "128-bit", or "insecure, about N-bit"."""
        if self._core.secure:
            return "128-bit"
        return f"insecure, about {self._core.security_bits}-bit"

    hash = engine_property("hash", str, "SHA-256 of the defining numbers, hex.")
    free_memory = engine_property("free_memory", int, "Free memory of the device, in bytes.")

    def _rows(self) -> list[tuple[str, str]]:
        """Returns the lines of `explain` as (label, text)."""
        raise NotImplementedError

    def _scheme_row(self, more: str = "") -> tuple[str, str]:
        """Returns the line of `explain` with the scheme and the set's name."""
        return ("scheme", f"{self.scheme}{self._spaced_name()}{more}")

    def _spaced_name(self) -> str:
        return f" {printable(self.name)}" if self.name else ""

    def _differs_from(self, other: object) -> str:
        """Describes two different sets, for an error."""
        return f"parameters: {self!r} and {other!r}"

    def _summary(self) -> str:
        """Returns the part of a repr that follows the name."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        """Supports pickle by the fields of a file's header and the attribute `needs`."""
        return from_header, (header_fields(self), self.needs)

    def explain(self) -> str:
        """Returns a description of several lines: modulus, precision or range of values, security, sizes.

        >>> print(params.explain())
                scheme  BFV, 64-bit words
           ring degree  N = 8,192
               modulus  log q = 133.0 in 3 primes
                gadget  3 digits of 1 prime(s), 0 special; log QP = 133.0
             plaintext  t = 1785857
                values  exact integers up to 892,928 in magnitude; decryption refuses larger ones (RoomError)
               packing  4 slots
              security  128-bit (log QP at most 214 for 128 bits at this N; ePrint 2024/463)
               failure  decryption fails with probability below 2^-128 while the noise estimate is positive
            ciphertext  384.0 KiB, fresh in a file 192.0 KiB
         switching key  1.1 MiB each, in a file 576.0 KiB
        """
        return "\n".join(f"{label:>14}  {text}" for label, text in self._rows())

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        return f"<{self.scheme} parameters{self._spaced_name()}: {self._summary()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameters) and type(self) is type(other) and bool(self._core == other._core)

    def __hash__(self) -> int:
        return hash(self._core.hash)


def header_fields(parameters: Parameters[Any]) -> dict[str, Any]:
    """Returns a parameter set as the fields `parameters` and `parameter_hash` of a file's header."""
    return {"parameters": json.loads(parameters._core.to_json()), "parameter_hash": parameters._core.hash}


def from_header(header: Mapping[str, Any], needs: Mapping[str, Any] | None = None) -> Any:
    """Reads the parameter set of a file's header, which the engine checks, and sets `Parameters.needs`.

    Raises DamagedFileError, SecurityError.
    """
    numbers, digest = header["parameters"], header["parameter_hash"]
    name = numbers.get("scheme") if isinstance(numbers, dict) else None
    scheme = next((s for s in SCHEMES.values() if name in s.files), None)
    if scheme is None or not isinstance(digest, str):
        raise _core.DamagedFileError("damaged file: its header must have a parameter set of a known scheme, and its hash")
    parameters: Any = Parameters(scheme.core.Parameters.from_json(json.dumps(numbers), digest))
    parameters.needs = dict(needs or {})
    return parameters


class OfParameters(EngineObject, Generic[P]):
    """An object with a parameter set: a key, a tensor or a plaintext."""

    __slots__ = ()

    def __init__(self, core: Any) -> None:
        self._core = core

    @property
    def parameters(self) -> P:
        """The parameter set."""
        parameters: P = Parameters(self._core.parameters)  # type: ignore[assignment]  # of its scheme
        return parameters


class RingParameters(Parameters[K]):
    """A set of BFV, BGV or CKKS: ciphertexts hold many values, over a ring with a chain of moduli."""

    n = engine_property("spec.n", int, "Ring degree N.")
    slots = engine_property("slots", int, "Number of values in one ciphertext.")
    log_q = engine_property("log_q", float, "log2 of the ciphertext modulus Q.")
    log_qp = engine_property(
        "log_qp", float, "log2 of the ciphertext modulus times the special primes; it determines the security."
    )
    word_size = engine_property("spec.word_size", int, "Bits of the words that hold residues: 64 or 32.")
    switch_key_bytes = engine_property(
        "switch_key_bytes",
        int,
        "Size of one relinearization, rotation or conjugation key in memory, in bytes; a file takes half.",
    )

    def _sent_key_bytes(self, relinearize: bool = True, rotations: Any = (), **others: bool) -> int:
        """Returns the bytes of evaluation keys in a message, which holds seeds in place of masks."""
        keys = (
            int(relinearize) + len(rotations) + sum(requested for name, requested in others.items() if name != "bootstrap")
        )
        more = self._core.bootstrapping_key_bytes if others.get("bootstrap") else 0
        return int(keys * self.switch_key_bytes + more) // 2

    def ciphertext_bytes(self, degree: int = 1) -> int:
        """Returns the bytes of one ciphertext of a degree in memory. A fresh ciphertext takes half as many bytes in a file.

        >>> params.ciphertext_bytes(), params.ciphertext_bytes(degree=2)  # of one, before and after a product
        (393216, 589824)
        """
        return int(self._core.ciphertext_bytes(degree))

    def _moduli_rows(self) -> list[tuple[str, str]]:
        """Returns the lines of `explain` with scheme, ring, modulus and gadget."""
        s = self._core.spec
        digit = max(s.digits) if s.digits else 0
        gadget = f"{len(s.digits)} digits of {digit} prime(s), {len(s.special)} special"
        return [
            self._scheme_row(f", {s.word_size}-bit words"),
            ("ring degree", f"N = {s.n:,}"),
            ("modulus", f"log q = {self.log_q:.1f} in {len(s.chain)} primes"),
            ("gadget", f"{gadget}; log QP = {self.log_qp:.1f}"),
        ]

    def _security_row(self) -> tuple[str, str]:
        bound = self._scheme.core.largest_secure_log_qp(self.n)
        return ("security", f"{self.security} (log QP at most {bound} for 128 bits at this N; ePrint 2024/463)")

    def _byte_rows(self, more: str = "") -> list[tuple[str, str]]:
        """Returns the lines of `explain` with sizes."""
        each, key = self.ciphertext_bytes(), self.switch_key_bytes
        return [
            ("ciphertext", f"{readable_bytes(each)}, fresh in a file {readable_bytes(each / 2)}{more}"),
            ("switching key", f"{readable_bytes(key)} each, in a file {readable_bytes(key / 2)}"),
        ]
