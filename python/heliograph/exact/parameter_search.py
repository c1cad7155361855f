"""Search for the smallest BFV or BGV set that runs a computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from heliograph import _core
from heliograph._common.arguments import count_of, flag, last_axis, word_size_of
from heliograph._common.clear_tensor import ClearTensor
from heliograph._common.schemes import chooser
from heliograph.exact.keys import TrialKeys
from heliograph.exact.parameters import Parameters, plain_moduli_of
from heliograph.exact.scheme import EXACT
from heliograph.exact.tensor import Tensor

_LONGEST = {64: 50, 32: 30}


@chooser(EXACT)
def search(
    function: Callable[[Any], Any],
    example: Any,
    scheme: str,
    *,
    slots: int | None = -1,
    plain_bits: int | None = None,
    plain_modulus: int | Sequence[int] | None = None,
    margin_bits: int = 2,
    n: int | None = None,
    word_size: int = 64,
    exact: bool | None = None,
) -> Parameters:
    """Implements `hg.parameters_for` for BFV and BGV.

    1. A run on clear values determines the plaintext bits, unless they or the plaintext moduli are given.
    2. For exact integers, a run on a trial set determines the bound that decryption will check.
    3. Runs on trial sets determine the smallest modulus by the noise model and the cheapest gadget by the counted products.
    """
    word_size = word_size_of(word_size)
    if n is not None and not _core.exact.largest_secure_log_qp(n := count_of(n, "n")):
        raise _core.ParameterError(f"n must be a power of two from 2^10 to 2^17, not {n}")
    margin_bits = count_of(margin_bits, "margin_bits")
    values = last_axis(example, -1 if slots is None else slots, "the example")
    moduli = plain_moduli_of(plain_modulus)
    exact = not moduli if exact is None else flag(exact, "exact")
    finds_moduli = not moduli and plain_bits is None
    if moduli:
        plain_bits = math.prod(moduli).bit_length() - 1
    elif plain_bits is None:
        result = function(ClearTensor(values))
        if not isinstance(result, ClearTensor):
            raise _core.DtypeError(f"the function must return a tensor, not {type(result).__name__}")
        plain_bits = result.bound().bit_length() + margin_bits
    plain_bits = count_of(plain_bits, "plain_bits", 1)
    width = values.shape[-1]
    sizes = [n] if n else [1 << k for k in range(12, 18) if 1 << k >= width]
    if sizes and finds_moduli and exact:
        bits = max(plain_bits, ClearTensor(values).bound().bit_length() + 1)
        plain_bits = max(
            plain_bits, _proven(function, values, sizes[0], bits, word_size, scheme).bit_length() + max(1, margin_bits)
        )
    for size in sizes:
        trials = list(_candidates(function, values, size, plain_bits, moduli, word_size, scheme))
        if trials:
            best = min(trials, key=lambda trial: trial.products)
            best.spec.insecure = False
            best.spec.exact = exact
            parameters = Parameters(_core.exact.Parameters(best.spec))
            parameters.needs = best.needs
            return parameters
    raise _core.ParameterError(f"no 128-bit set with N in {sizes} runs this computation with {plain_bits} plaintext bits")


@dataclass(frozen=True)
class _Trial:
    spec: _core.exact.Spec
    budget: float
    products: int
    bound: int
    needs: dict[str, Any]


def _candidates(
    function: Callable[[Any], Any], values: Any, n: int, plain_bits: int, moduli: list[int], word_size: int, scheme: str
) -> Iterator[_Trial]:
    """Yields each gadget and plaintext split that works at ring degree n, with its smallest modulus."""
    bound = _core.exact.largest_secure_log_qp(n)
    fewest = -(-plain_bits // 59)
    for plain in [moduli] if moduli else [_core.exact.batching_primes(n, plain_bits, fewest + k) for k in (0, 1)]:
        for special in range(5):
            log_q = bound - special * _LONGEST[word_size]
            candidate = None
            while log_q > math.log2(max(plain)):
                try:
                    spec = _core.exact.make_spec(n, log_q, special, plain, word_size, min(values.shape[-1], n), True, scheme)
                except _core.ParameterError:
                    log_q -= 1
                    continue
                trial = _run(function, values, spec)
                if trial.budget < 0:
                    break
                candidate = trial
                log_q -= max(1, int(trial.budget) - 1)
            if candidate:
                yield candidate


def _proven(function: Callable[[Any], Any], values: Any, n: int, plain_bits: int, word_size: int, scheme: str) -> int:
    """Returns the bound that decryption checks on the result, for inputs like `values`."""
    plain = _core.exact.batching_primes(n, plain_bits)
    spec = _core.exact.make_spec(
        n, _core.exact.largest_secure_log_qp(n), 0, plain, word_size, min(values.shape[-1], n), True, scheme
    )
    return _run(function, values, spec).bound


def _run(function: Callable[[Any], Any], values: Any, spec: _core.exact.Spec) -> _Trial:
    """Runs the function on the `null` device and returns its noise budget, modular products and used keys."""
    core = _core.exact.Parameters(spec).on_device("null")
    secret = _core.exact.SecretKey.generate(core)
    keys = TrialKeys(secret)
    x = Tensor(secret.encrypt(values, "slots"), keys)
    core.reset_counts()
    result = function(x)
    products = sum(c["products"] for c in core.counts().values())
    turns = sorted({s % (spec.n // 2) for s in keys.steps} - {0})
    needs = {"relinearize": True, "rotations": turns, "columns": keys.swaps}
    bound = int(result._core.vouched_bound or "0", 16)
    return _Trial(spec, result._core.noise_budget, products, bound, needs)
