"""Parameter sets: what those of every scheme share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from heliograph import _core
from heliograph._arrays import printable, readable_bytes
from heliograph._pickling import REDUCERS
from heliograph._schemes import Faced, told

if TYPE_CHECKING:  # Python 3.11's have no defaults
    from typing_extensions import TypeVar

    #: The secret keys of a set's scheme.
    K = TypeVar("K", default=Any)
    P = TypeVar("P", bound="Parameters[Any]", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    P = TypeVar("P")


class Parameters(Faced, Generic[K]):
    """A parameter set of any scheme. Immutable; equal sets are interchangeable."""

    def __init__(self, core: Any) -> None:
        self._core = core
        #: What `parameters_for` saw a computation use: the arguments of `SecretKey.evaluation_keys`.
        self.needs: dict[str, Any] = {}

    @property
    def scheme(self) -> str:
        """ "BFV", "BGV", "CKKS" or "TFHE"."""
        return self._scheme.title

    name = told("spec.name", str, "The set's name; empty where it has none.")

    @property
    def security(self) -> str:
        """128-bit, or how far below."""
        if self._core.secure:
            return "128-bit"
        return f"insecure, about {self._core.security_bits}-bit"

    hash = told("hash", str, "SHA-256 of the defining numbers, hex.")
    free_memory = told("free_memory", int, "Bytes that the device has left.")

    def _rows(self) -> list[tuple[str, str]]:
        """What `explain` says, with a label each."""
        raise NotImplementedError

    def _scheme_row(self, more: str = "") -> tuple[str, str]:
        """Of `explain`: the scheme and the set's name."""
        return ("scheme", f"{self.scheme}{self._spaced_name()}{more}")

    def _spaced_name(self) -> str:
        return f" {printable(self.name)}" if self.name else ""

    def _differs_from(self, other: object) -> str:
        """What tells two sets apart, in words."""
        return f"parameters: {self!r} and {other!r}"

    def _summary(self) -> str:
        """What a repr says behind the name."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        """For pickle: the bytes of a file of this set that holds nothing, and `needs`."""
        return REDUCERS["parameters"](self)

    def explain(self) -> str:
        """Several lines for a person.

        >>> print(params.explain())
                scheme  BFV, edition w64
           ring degree  N = 8,192
               modulus  log q = 133.0 in 3 primes
                gadget  3 digits of 1 prime(s), 0 special; log QP = 133.0
             plaintext  t = 1785857
                values  exact integers up to 892,928 in magnitude; what may be larger is refused (RoomError)
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


class OfParameters(Faced, Generic[P]):
    """An object of a parameter set: a key, a tensor, a plaintext."""

    __slots__ = ()

    def __init__(self, core: Any) -> None:
        self._core = core

    @property
    def parameters(self) -> P:
        """The parameter set."""
        found: P = Parameters(self._core.parameters)  # type: ignore[assignment]  # of its scheme
        return found


class RingParameters(Parameters[K]):
    """A set whose ciphertexts hold many values, over a ring with a chain of moduli."""

    n = told("spec.n", int, "Ring degree N.")
    slots = told("slots", int, "Values in one ciphertext.")
    log_q = told("log_q", float, "log2 of the ciphertext modulus.")
    log_qp = told("log_qp", float, "log2 of ciphertext modulus times special primes: what security is judged by.")
    edition = told("spec.edition", str, '"w64" or "w32": the words residues are kept in.')
    switch_key_bytes = told(
        "switch_key_bytes",
        int,
        "Bytes of one relinearization, rotation or conjugation key in memory; half of that in a file.",
    )

    def _sent_key_bytes(self, relinearize: bool = True, rotations: Any = (), **others: bool) -> int:
        """Bytes of evaluation keys when they are sent: bodies without masks."""
        keys = int(relinearize) + len(rotations) + sum(wanted for name, wanted in others.items() if name != "bootstrap")
        more = self._core.bootstrapping_key_bytes if others.get("bootstrap") else 0
        return int(keys * self.switch_key_bytes + more) // 2

    def ciphertext_bytes(self, degree: int = 1) -> int:
        """Bytes of one ciphertext in memory; a fresh one takes half of that in a file.

        >>> params.ciphertext_bytes(), params.ciphertext_bytes(degree=2)  # of one, before and after a product
        (393216, 589824)
        """
        return int(self._core.ciphertext_bytes(degree))

    def _moduli_rows(self) -> list[tuple[str, str]]:
        """Of `explain`: what the set is and what it rests on."""
        s = self._core.spec
        digit = max(s.digits) if s.digits else 0
        gadget = f"{len(s.digits)} digits of {digit} prime(s), {len(s.special)} special"
        return [
            self._scheme_row(f", edition {s.edition}"),
            ("ring degree", f"N = {s.n:,}"),
            ("modulus", f"log q = {self.log_q:.1f} in {len(s.chain)} primes"),
            ("gadget", f"{gadget}; log QP = {self.log_qp:.1f}"),
        ]

    def _security_row(self) -> tuple[str, str]:
        bound = _core.largest_secure_log_qp(self.n)
        return ("security", f"{self.security} (log QP at most {bound} for 128 bits at this N; ePrint 2024/463)")

    def _byte_rows(self, more: str = "") -> list[tuple[str, str]]:
        """Of `explain`: sizes."""
        each, key = self.ciphertext_bytes(), self.switch_key_bytes
        return [
            ("ciphertext", f"{readable_bytes(each)}, fresh in a file {readable_bytes(each / 2)}{more}"),
            ("switching key", f"{readable_bytes(key)} each, in a file {readable_bytes(key / 2)}"),
        ]
