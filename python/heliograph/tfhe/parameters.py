"""Parameter sets of TFHE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from heliograph import _core
from heliograph._common import parameters as common
from heliograph._common.arguments import count_of, described, flag, is_whole, listed, readable_bytes, real, set_name, whole
from heliograph._common.schemes import engine_property
from heliograph.tfhe.dtypes import name_of
from heliograph.tfhe.scheme import TFHE

if TYPE_CHECKING:
    from heliograph.tfhe.keys import SecretKey  # noqa: F401


#: Costs that depend on clear arguments, by operation: f(parameters, dtype, arguments, result's dtype, variant, goal) returns
#: (bootstraps, layers). Other modules register functions here.
COSTS: dict[str, Callable[[Any, str, Any, str, str, str], tuple[int, int]]] = {}


class Parameters(common.Parameters["SecretKey"], core=_core.tfhe.Parameters):
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
        """Returns the bytes of one element in memory. A fresh one takes 8 bytes for each LWE ciphertext in a file.

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

        `operation` is a name in `operations()`, and `dtypes` are those of the operands. `goal` is "fewest" (bootstraps) or
        "shallow" (fewest layers); by default the faster one on this device. `dtype` is the result's, if the operation does
        not determine it. `arguments` are clear operands; for a look-up they are the table, with an entry for each value.
        Without `arguments` the cost is that of a random table, the worst case. Raises DtypeError, ParameterError.

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


#: ("tuniform", b) or ("gaussian", log2 of the deviation in turns).
Noise = tuple[Literal["tuniform", "gaussian"], float]


def _noise(noise: _core.tfhe.Noise) -> str:
    return f"TUniform({noise.value:.0f})" if noise.tuniform else f"2^{noise.value:g} turns"


def _noise_of(value: Any, what: str) -> _core.tfhe.Noise:
    """Returns the engine's noise of ("tuniform", b) or ("gaussian", log2 of the deviation in turns).

    Raises ParameterError.
    """
    noise = _core.tfhe.Noise()
    try:
        kind, number = value
        noise.tuniform, noise.value = {"tuniform": True, "gaussian": False}[kind], float(number)
    except (TypeError, ValueError, KeyError, OverflowError):
        raise _core.ParameterError(
            f'{what} must be ("tuniform", b) or ("gaussian", log2 of the deviation in turns), not {described(value)}'
        ) from None
    return noise


def _gadget(value: Any, what: str) -> tuple[int, int]:
    """Returns a gadget (log_base, length). Raises ParameterError."""
    if not (isinstance(value, tuple) and len(value) == 2):
        raise _core.ParameterError(f"the gadget {what} must be (log_base, length), not {described(value)}")
    return count_of(value[0], f"the gadget {what}'s log_base", 1), count_of(value[1], f"the gadget {what}'s length", 1)


def _small(value: Any, what: str) -> int:
    count = count_of(value, what)
    if count >= 1 << 20:
        raise _core.ParameterError(f"{what} must be below 2^20, not {count}")
    return count


def parameters(
    name: str | None = None,
    *,
    n: int | None = None,
    k: int | None = None,
    degree: int | None = None,
    lwe_noise: Noise | None = None,
    glwe_noise: Noise | None = None,
    bootstrap: tuple[int, int] | None = None,
    switch: tuple[int, int] | None = None,
    message_bits: int | None = None,
    carry_bits: int | None = None,
    norm: int | None = None,
    group: int | None = None,
    log2_failure: float = -64,
    insecure: bool = False,
) -> Parameters:
    """Returns a TFHE parameter set, chosen in one of two ways.

    By name: ``parameters("2_2")``, the default; see `named`.

    By numbers, of which all but `group` and `log2_failure` are required:

    - `n`: dimension of the narrow LWE key.
    - `k`, `degree`: components and ring degree N of the GLWE key.
    - `lwe_noise`, `glwe_noise`: ``("tuniform", b)`` in units of 2^-64 turns, or
      ``("gaussian", log2 of the deviation in turns)``.
    - `bootstrap`, `switch`: gadgets ``(log_base, length)``.
    - `message_bits`, `carry_bits`: bits of a digit; both 0 for one ciphertext per bit.
    - `norm`: the largest sum of squared weights of a bootstrap's input.
    - `group`: key bits in each step of a blind rotation.
    - `log2_failure`: log2 of the largest allowed failure probability of a bootstrap at its largest noise.

    Raises ParameterError, which lists all missing numbers; SecurityError below 128 bits without ``insecure=True``.

    >>> import heliograph as hg
    >>> own = hg.tfhe.parameters(  # the numbers of "2_2", under no name
    ...     n=920, k=1, degree=2048, lwe_noise=("tuniform", 45), glwe_noise=("tuniform", 17),
    ...     bootstrap=(23, 1), switch=(3, 5), message_bits=2, carry_bits=2, norm=17,
    ... )
    >>> own.security, own == hg.tfhe.parameters("2_2")
    ('128-bit', True)
    """
    numbers: dict[str, Any] = {
        "n": n,
        "k": k,
        "degree": degree,
        "lwe_noise": lwe_noise,
        "glwe_noise": glwe_noise,
        "bootstrap": bootstrap,
        "switch": switch,
        "message_bits": message_bits,
        "carry_bits": carry_bits,
        "norm": norm,
    }
    missing = [what for what, value in numbers.items() if value is None]
    by_numbers = len(missing) < len(numbers) or group is not None
    if by_numbers and name is not None:
        raise _core.ParameterError("parameters takes a name or numbers, not both")
    insecure = flag(insecure, "insecure")
    if not by_numbers:
        return Parameters(_core.tfhe.Parameters(_core.tfhe.named_spec("2_2" if name is None else set_name(name), insecure)))
    if missing:
        raise _core.ParameterError(
            f"a set by numbers needs {', '.join(missing)} too; hg.tfhe.parameters' docstring has an example"
        )
    spec = _core.tfhe.Spec()
    spec.insecure = insecure
    for key, value in {**numbers, "group": 2 if group is None else group}.items():
        if key in ("lwe_noise", "glwe_noise"):
            setattr(spec, key, _noise_of(value, key))
        elif key in ("bootstrap", "switch"):
            log_base, length = _gadget(value, key)
            setattr(spec, f"{key}_log_base", log_base)
            setattr(spec, f"{key}_levels", length)
        else:
            setattr(spec, key, _small(value, key))
    limit = real(log2_failure, "log2_failure")
    parameter_set = Parameters(_core.tfhe.Parameters(spec))
    if not parameter_set.log2_failure <= limit:
        raise _core.ParameterError(
            f"a bootstrap of this set must fail with a probability of at most 2^{limit:g}, but fails with "
            f"2^{parameter_set.log2_failure:.0f}: use less noise, longer gadgets or a smaller norm, or pass a larger "
            "log2_failure"
        )
    return parameter_set


def named() -> list[str]:
    """Returns the names of the named sets.

    >>> hg.tfhe.named()
    ['2_2', '2_2/p64', '2_2/latency', '1_1', '1_1/p64', 'boolean', 'boolean/p64', 'morshed-2020']
    """
    return _core.tfhe.named_specs()


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
