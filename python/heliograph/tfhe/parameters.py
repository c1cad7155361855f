"""Parameter sets of TFHE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliograph import _core
from heliograph._common import parameters as common
from heliograph._common.arguments import is_whole, listed, readable_bytes, whole
from heliograph._common.schemes import engine_property
from heliograph.tfhe.dtypes import name_of
from heliograph.tfhe.scheme import TFHE

#: Costs that depend on clear arguments, by operation: f(parameters, dtype, arguments, result's dtype, variant, goal) returns
#: (bootstraps, layers). Other modules register their functions in this table.
COSTS: dict[str, Callable[[Any, str, Any, str, str, str], tuple[int, int]]] = {}


class Parameters(common.Parameters[common.K], core=_core.tfhe.Parameters):
    """A parameter set of TFHE: dimensions, noise, gadgets, encoding.

    Sets are immutable; equal sets are interchangeable.

    >>> secret.parameters
    <TFHE parameters boolean: n=688, k=3, N=512, bits, 128-bit, failure 2^-130>
    >>> secret.parameters.log2_failure < -128
    True
    """

    _scheme = TFHE

    n = engine_property("spec.n", int, "Dimension of the narrow LWE key, over which a blind rotation runs.")
    degree = engine_property("spec.degree", int, "Ring degree N.")
    message_bits = engine_property("spec.message_bits", int, "Bits of a digit; 0 if each bit has its own ciphertext.")
    carry_bits = engine_property("spec.carry_bits", int, "Bits above a digit for carries of sums.")
    log2_failure = engine_property(
        "log2_failure", float, "log2 of the probability that one bootstrap at the largest allowed noise gives a wrong value."
    )
    parallel_bootstraps = engine_property(
        "parallel_bootstraps", int, "Number of simultaneous bootstraps that saturates the device; fewer take no less time."
    )

    def wires(self, dtype: Any) -> int:
        """Returns the number of LWE ciphertexts of one element of a type.

        >>> secret.parameters.wires("uint8")  # bit by bit
        8
        """
        name = name_of(dtype)
        if name == "bool":
            return 1
        return -(-int(name.lstrip("uint")) // max(1, self.message_bits))

    def ciphertext_bytes(self, dtype: Any) -> int:
        """Returns the bytes of one element in memory. A fresh element takes 8 bytes for each LWE ciphertext in a file.

        >>> secret.parameters.ciphertext_bytes("uint8")  # of one element, in memory
        102400
        """
        return int(self.wires(dtype) * self._core.lwe_bytes)

    @property
    def evaluation_key_bytes(self) -> int:
        """Size of the bootstrapping and key-switching keys in memory, in bytes."""
        return int(self._core.bootstrap_key_bytes + self._core.switch_key_bytes)

    def _sent_key_bytes(self) -> int:
        """Returns the bytes of evaluation keys in a message, which holds seeds in place of masks (docs/format.md)."""
        s = self._core.spec
        bootstrap = 8 * (s.n // s.group) * 2**s.group * (s.k + 1) * s.bootstrap_levels * s.degree
        return int(bootstrap + 4 * s.k * s.degree * s.switch_levels)

    def cost(
        self, operation: str, *dtypes: Any, arguments: Any = (), dtype: Any = None, variant: str = "", goal: str = ""
    ) -> tuple[int, int]:
        """Returns (bootstraps, layers) of an operation on one element, without computing anything.

        `operation` is a name in `operations()`, and `dtypes` are the dtypes of the operands. `goal` is "fewest" (bootstraps)
        or "shallow" (fewest layers); by default the goal that is faster on this device. `dtype` is the result's dtype, if
        the operation does not determine it. `arguments` are clear operands; for a look-up they are the table, with an entry
        for each value. Without `arguments` the cost is that of a random table, the worst case. Raises DtypeError,
        ParameterError.

        >>> bootstraps, layers = secret.parameters.cost("add", "uint32", "uint32", goal="shallow")
        >>> layers < secret.parameters.cost("add", "uint32", "uint32", goal="fewest")[1]
        True
        >>> threshold = [value >= 12_345 for value in range(1 << 12)]
        >>> secret.parameters.cost("look_up", "uint12", arguments=threshold, dtype=bool)[0] < 200
        True
        """
        kind = "" if dtype is None else name_of(dtype)
        names = [name_of(d) for d in dtypes]
        own = COSTS.get(operation) if isinstance(operation, str) else None
        if own is not None and len(names) == 1:
            return own(self, names[0], arguments, kind, variant, goal)
        several = listed(arguments)
        arguments_list = [_argument(value) for value in ([arguments] if several is None else several)]
        bootstraps, layers = self._core.cost(operation, arguments_list, kind, variant, goal, names)
        return int(bootstraps), int(layers)

    def _rows(self) -> list[tuple[str, str]]:
        s, core = self._core.spec, self._core
        if s.message_bits:
            bits = "1 bit" if s.message_bits == 1 else f"{s.message_bits} bits"
            encoding = f"digits of {bits} and {s.carry_bits} for carries below one of padding"
        else:
            encoding = "bits as -1/8 and 1/8 of a turn"
        each, wires = self.ciphertext_bytes("uint32"), self.wires("uint32")
        keys = f"bootstrap {readable_bytes(core.bootstrap_key_bytes)}, key switch {readable_bytes(core.switch_key_bytes)}"
        return [
            self._scheme_row(),
            ("LWE", f"n = {s.n}, noise {_noise(s.lwe_noise)}"),
            ("GLWE", f"k = {s.k}, N = {s.degree:,}, noise {_noise(s.glwe_noise)}"),
            ("bootstrap", f"gadget 2^{s.bootstrap_log_base} x {s.bootstrap_levels}, {s.group} key bits a step"),
            ("key switch", f"gadget 2^{s.switch_log_base} x {s.switch_levels}"),
            ("encoding", encoding),
            ("security", self.security),
            (
                "failure",
                f"a bootstrap at its largest noise (squared weights up to {s.norm}) fails with 2^{self.log2_failure:.0f}",
            ),
            (
                "ciphertext",
                f"{readable_bytes(each)} for 32 bits in {wires} LWE ciphertexts; fresh in a file "
                f"{readable_bytes(8 * wires)}",
            ),
            ("keys", keys),
        ]

    def _summary(self) -> str:
        s = self._core.spec
        encoding = f"{s.message_bits}+{s.carry_bits}-bit digits" if s.message_bits else "bits"
        return f"n={s.n}, k={s.k}, N={s.degree}, {encoding}, {self.security}, failure 2^{self.log2_failure:.0f}"


def _noise(noise: _core.tfhe.Noise) -> str:
    return f"TUniform({noise.value:.0f})" if noise.tuniform else f"2^{noise.value:g} turns"


def _argument(value: Any) -> int:
    """Returns a clear operand as a signed 64-bit word. Raises DtypeError beyond 64 bits."""
    if is_whole(value) and 1 << 63 <= value < 1 << 64:
        return int(value) - (1 << 64)
    return whole(value, "an argument")


def operations() -> list[str]:
    """Returns the names of the engine's operations, for `Parameters.cost`.

    >>> "add" in hg.tfhe.operations()
    True
    """
    return _core.tfhe.operations()
