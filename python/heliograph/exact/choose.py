"""Sets of BFV and BGV for a computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from heliograph import _core
from heliograph._arrays import count_of, flag, last_axis, text_of
from heliograph._schemes import chooser
from heliograph.clear import ClearTensor
from heliograph.exact.keys import TrialKeys
from heliograph.exact.parameters import Parameters, given_moduli
from heliograph.exact.scheme import EXACT
from heliograph.exact.tensor import Tensor

_LONGEST = {"w64": 50, "w32": 30}


@chooser(EXACT)
def chosen(
    function: Callable[[Any], Any],
    example: Any,
    scheme: str,
    *,
    slots: int | None = -1,
    plain_bits: int | None = None,
    plain_modulus: int | Sequence[int] | None = None,
    margin_bits: int = 2,
    n: int | None = None,
    edition: str = "w64",
    exact: bool | None = None,
) -> Parameters:
    """`hg.parameters_for` of BFV and BGV.

    The function runs once on the clear values, which tells the plaintext bits unless these or the plaintext moduli are given,
    and of exact integers on a trial set, whose bounds tell what decryption will take for proven;
    then on trial sets: the noise model says what modulus it needs, the counted products which gadget is cheapest.
    """
    edition = text_of(edition, "the edition", list(_LONGEST))
    if n is not None and not _core.largest_secure_log_qp(n := count_of(n, "n")):
        raise _core.ParameterError(f"N is a power of two, 2^10 to 2^17, not {n}")
    margin_bits = count_of(margin_bits, "margin_bits")
    values = last_axis(example, -1 if slots is None else slots, "the example")
    moduli = given_moduli(plain_modulus)
    exact = not moduli if exact is None else flag(exact, "exact")
    sought = not moduli and plain_bits is None
    if moduli:
        plain_bits = math.prod(moduli).bit_length() - 1
    elif plain_bits is None:
        result = function(ClearTensor(values))
        if not isinstance(result, ClearTensor):
            raise _core.DtypeError(f"the function returns a tensor, not {type(result).__name__}")
        plain_bits = result.bound().bit_length() + margin_bits
    plain_bits = count_of(plain_bits, "plain_bits", 1)
    width = values.shape[-1]
    sizes = [n] if n else [1 << k for k in range(12, 18) if 1 << k >= width]
    if sizes and sought and exact:
        bits = max(plain_bits, ClearTensor(values).bound().bit_length() + 1)
        plain_bits = max(
            plain_bits, _proven(function, values, sizes[0], bits, edition, scheme).bit_length() + max(1, margin_bits)
        )
    for size in sizes:
        found = list(_candidates(function, values, size, plain_bits, moduli, edition, scheme))
        if found:
            best = min(found, key=lambda trial: trial.products)
            best.spec.insecure = False
            best.spec.exact = exact
            parameters = Parameters(_core.Parameters(best.spec))
            parameters.needs = best.needs
            return parameters
    raise _core.ParameterError(f"no 128-bit set with N in {sizes} runs this computation with {plain_bits} plaintext bits")


@dataclass(frozen=True)
class _Trial:
    spec: _core.Spec
    budget: float
    products: int
    bound: int
    needs: dict[str, Any]


def _candidates(
    function: Callable[[Any], Any], values: Any, n: int, plain_bits: int, moduli: list[int], edition: str, scheme: str
) -> Iterator[_Trial]:
    """Each gadget and plaintext split that works at ring degree n, with its smallest modulus."""
    bound = _core.largest_secure_log_qp(n)
    fewest = -(-plain_bits // 59)
    for plain in [moduli] if moduli else [_core.batching_primes(n, plain_bits, fewest + k) for k in (0, 1)]:
        for special in range(5):
            log_q = bound - special * _LONGEST[edition]
            found = None
            while log_q > math.log2(max(plain)):
                try:
                    spec = _core.make_spec(n, log_q, special, plain, edition, min(values.shape[-1], n), True, scheme)
                except _core.ParameterError:
                    log_q -= 1
                    continue
                trial = _run(function, values, spec)
                if trial.budget < 0:
                    break
                found = trial
                log_q -= max(1, int(trial.budget) - 1)
            if found:
                yield found


def _proven(function: Callable[[Any], Any], values: Any, n: int, plain_bits: int, edition: str, scheme: str) -> int:
    """The bound on the result that decryption goes by, of inputs like these."""
    plain = _core.batching_primes(n, plain_bits)
    spec = _core.make_spec(n, _core.largest_secure_log_qp(n), 0, plain, edition, min(values.shape[-1], n), True, scheme)
    return _run(function, values, spec).bound


def _run(function: Callable[[Any], Any], values: Any, spec: _core.Spec) -> _Trial:
    """One run on the null device: noise left, modular products, keys used."""
    core = _core.Parameters(spec).on_device("null")
    secret = _core.SecretKey.generate(core)
    keys = TrialKeys(secret)
    x = Tensor(secret.encrypt(values, "slots"), keys)
    core.reset_counts()
    result = function(x)
    products = sum(c["products"] for c in core.counts().values())
    turns = sorted({s % (spec.n // 2) for s in keys.steps} - {0})
    needs = {"relinearize": True, "rotations": turns, "columns": keys.swaps}
    bound = int(result._core.vouched_bound or "0", 16)
    return _Trial(spec, result._core.noise_budget, products, bound, needs)
