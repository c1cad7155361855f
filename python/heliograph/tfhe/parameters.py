"""TFHE parameter sets: exact bits and integers, computations of any depth."""

from __future__ import annotations

from typing import Any

from heliograph import _core
from heliograph._arrays import count_of, described, printable, readable_bytes
from heliograph.tfhe.dtypes import name_of


class Parameters:
    """A parameter set: dimensions, noise, gadgets, encoding. Immutable; equal sets are interchangeable."""

    def __init__(self, core: _core.TfheParameters) -> None:
        self._core = core

    @property
    def name(self) -> str:
        """The set's name; empty where it has none."""
        return self._core.spec.name

    @property
    def n(self) -> int:
        """Dimension of the narrow LWE key: what a bootstrap runs over."""
        return self._core.spec.n

    @property
    def degree(self) -> int:
        """Ring degree N."""
        return self._core.spec.degree

    @property
    def message_bits(self) -> int:
        """Bits of a digit; 0 where each bit has its own ciphertext."""
        return self._core.spec.message_bits

    @property
    def carry_bits(self) -> int:
        """Room above a digit for sums."""
        return self._core.spec.carry_bits

    @property
    def security(self) -> str:
        """128-bit, or how far below."""
        if self._core.secure:
            return "128-bit"
        return f"insecure, about {self._core.security_bits}-bit"

    @property
    def log2_failure(self) -> float:
        """log2 of the probability that one bootstrap at its noisiest gives a wrong value."""
        return self._core.log2_failure

    @property
    def hash(self) -> str:
        """SHA-256 of the defining numbers, hex."""
        return self._core.hash

    @property
    def free_memory(self) -> int:
        """Bytes that the device has left."""
        return self._core.free_memory

    @property
    def parallel_bootstraps(self) -> int:
        """Bootstraps at once that keep the device busy; fewer take no less time."""
        return self._core.parallel_bootstraps

    def wires(self, dtype: Any) -> int:
        """LWE ciphertexts of one element of a type."""
        name = name_of(dtype)
        if name == "bool":
            return 1
        return -(-int(name.lstrip("uint")) // max(1, self.message_bits))

    def ciphertext_bytes(self, dtype: Any) -> int:
        """Bytes of one element in memory; a fresh one takes 8 for each LWE ciphertext in a file."""
        return self.wires(dtype) * self._core.lwe_bytes

    @property
    def evaluation_key_bytes(self) -> int:
        """Bytes of the bootstrapping and key-switching keys in memory."""
        return self._core.bootstrap_key_bytes + self._core.switch_key_bytes

    def cost(
        self,
        operation: str,
        *dtypes: Any,
        arguments: Any = (),
        dtype: Any = None,
        variant: str = "",
        goal: str = "",
    ) -> tuple[int, int]:
        """(bootstraps, layers) of an operation by its engine name (`operations()`) on one element; nothing is computed.

        `goal` is "fewest" (bootstraps), "shallow" (fewest layers), or what this device does faster. `dtype` is the result's where
        the operation does not tell.
        """
        kind = "" if dtype is None else name_of(dtype)
        names = [name_of(d) for d in dtypes]
        return self._core.cost(operation, [int(v) for v in arguments], kind, variant, goal, names)

    def explain(self) -> str:
        """Several lines for a person."""
        s = self._core.spec
        if s.message_bits:
            bits = "1 bit" if s.message_bits == 1 else f"{s.message_bits} bits"
            encoding = f"digits of {bits} and {s.carry_bits} for carries below one of padding"
        else:
            encoding = "bits as -1/8 and 1/8 of a turn"
        rows = [
            ("scheme", f"TFHE{' ' + printable(s.name) if s.name else ''}"),
            ("LWE", f"n = {s.n}, noise {_noise(s.lwe_noise)}"),
            ("GLWE", f"k = {s.k}, N = {s.degree:,}, noise {_noise(s.glwe_noise)}"),
            ("bootstrap", f"gadget 2^{s.bootstrap_log_base} x {s.bootstrap_levels}, {s.group} key bits a step"),
            ("key switch", f"gadget 2^{s.switch_log_base} x {s.switch_levels}"),
            ("encoding", encoding),
            ("security", self.security),
            ("failure", f"a bootstrap at its noisiest (squared weights up to {s.norm}) errs with 2^{self.log2_failure:.0f}"),
            (
                "ciphertext",
                f"{readable_bytes(self.ciphertext_bytes('uint32'))} for 32 bits in {self.wires('uint32')} LWE ciphertexts; "
                f"fresh in a file {readable_bytes(8 * self.wires('uint32'))}",
            ),
            (
                "keys",
                f"bootstrap {readable_bytes(self._core.bootstrap_key_bytes)}, "
                f"key switch {readable_bytes(self._core.switch_key_bytes)}",
            ),
        ]
        return "\n".join(f"{label:>14}  {text}" for label, text in rows)

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        s = self._core.spec
        encoding = f"{s.message_bits}+{s.carry_bits}-bit digits" if s.message_bits else "bits"
        name = f" {printable(s.name)}" if s.name else ""
        return (
            f"<TFHE parameters{name}: n={s.n}, k={s.k}, N={s.degree}, {encoding}, {self.security}, "
            f"failure 2^{self.log2_failure:.0f}>"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameters) and self._core == other._core

    def __hash__(self) -> int:
        return hash(self._core.hash)


def _noise(noise: _core.TfheNoise) -> str:
    return f"TUniform({noise.value:.0f})" if noise.tuniform else f"2^{noise.value:g} turns"


def _noise_of(value: Any, what: str) -> _core.TfheNoise:
    """("tuniform", b) or ("gaussian", log2 of the deviation in turns)."""
    made = _core.TfheNoise()
    try:
        kind, number = value
        made.tuniform, made.value = {"tuniform": True, "gaussian": False}[kind], float(number)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise _core.ParameterError(
            f'{what} is ("tuniform", b) or ("gaussian", log2 of a turn), not {described(value)}'
        ) from None
    return made


def parameters(name: str | None = None, *, insecure: bool = False, **numbers: Any) -> Parameters:
    """A TFHE parameter set: by name ("2_2" unless given; see `named`), or by numbers.

    Numbers: n, k, degree (N), lwe_noise and glwe_noise (``("tuniform", b)`` in units of 2^-64 turns or ``("gaussian", log2)``),
    bootstrap and switch (gadgets ``(log_base, length)``), group, message_bits and carry_bits (0: bits), norm.
    Raises ParameterError for what cannot be, SecurityError below 128 bits without ``insecure=True``.
    """
    if numbers and name is not None:
        raise _core.ParameterError("say a name or numbers, not both")
    if not numbers:
        return Parameters(_core.TfheParameters(_core.tfhe_named_spec("2_2" if name is None else name, insecure)))
    spec = _core.TfheSpec()
    spec.insecure = insecure
    for key, value in numbers.items():
        if key in ("lwe_noise", "glwe_noise"):
            setattr(spec, key, _noise_of(value, key))
        elif key in ("bootstrap", "switch"):
            if not (isinstance(value, tuple) and len(value) == 2):
                raise _core.ParameterError(f"the gadget {key} is (log_base, length), not {described(value)}")
            setattr(spec, f"{key}_log_base", count_of(value[0], f"the gadget {key}'s log_base", 1))
            setattr(spec, f"{key}_levels", count_of(value[1], f"the gadget {key}'s length", 1))
        elif key in ("n", "k", "degree", "group", "message_bits", "carry_bits", "norm"):
            count = count_of(value, key)
            if count >= 1 << 20:
                raise _core.ParameterError(f"{key} is below 2^20, not {count}")
            setattr(spec, key, count)
        else:
            raise _core.ParameterError(f"a TFHE set has no number {key}")
    return Parameters(_core.TfheParameters(spec))


def named() -> list[str]:
    """The named sets."""
    return _core.tfhe_named_specs()


def operations() -> list[str]:
    """The engine's operations by name, for `Parameters.cost`."""
    return _core.tfhe_operations()
