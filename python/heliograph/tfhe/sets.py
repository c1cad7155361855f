"""Choice of parameter sets of TFHE: by name, by numbers."""

from __future__ import annotations

from typing import Any, Literal

from heliograph import _core
from heliograph._common.arguments import count_of, described, flag, real, set_name
from heliograph.tfhe.keys import SecretKey
from heliograph.tfhe.parameters import Parameters

#: ("tuniform", b) or ("gaussian", log2 of the deviation in turns).
Noise = tuple[Literal["tuniform", "gaussian"], float]


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
) -> Parameters[SecretKey]:
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
