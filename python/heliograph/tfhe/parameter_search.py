"""Search for the cheapest TFHE set that runs a computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from heliograph import _core
from heliograph._common.arguments import real
from heliograph._common.schemes import chooser
from heliograph.tfhe.dtypes import array_of, name_of, words_of
from heliograph.tfhe.keys import EvaluationKeys
from heliograph.tfhe.parameters import Parameters
from heliograph.tfhe.scheme import TFHE
from heliograph.tfhe.tensor import Tensor


@chooser(TFHE)
def search(
    function: Callable[[Any], Any], example: Any, scheme: str, *, dtype: Any = None, log2_failure: float = -128
) -> Parameters:
    """Implements `hg.parameters_for` for TFHE: tries each named set and counts its bootstraps."""
    limit = real(log2_failure, "log2_failure")
    array = array_of(example, "the example")
    name = name_of(array.dtype if dtype is None else dtype)
    words = words_of(array, name, "the example")
    sets: list[tuple[float, int, Parameters]] = []
    runs: dict[tuple[int, int], list[Any] | Exception] = {}  # the calls of each encoding; calls depend on the encoding alone
    for order, each in enumerate(_core.tfhe.named_specs()):
        spec = _core.tfhe.named_spec(each, True)
        parameters = Parameters(_core.tfhe.Parameters(spec))
        if spec.insecure or parameters.log2_failure > limit:
            continue
        encoding = (spec.message_bits, spec.carry_bits)
        if encoding not in runs:
            runs[encoding] = _run(function, words, name, spec)
        noted = runs[encoding]
        if not isinstance(noted, Exception):
            bootstraps = sum(_bootstraps(parameters, *call) for call in noted)
            sets.append((_operations(parameters) * bootstraps, order, parameters))
    if sets:
        return min(sets, key=lambda entry: entry[:2])[2]
    for refused in runs.values():
        if isinstance(refused, Exception):
            raise refused
    raise _core.ParameterError(f"no named set has a failure probability of at most 2^{limit:g}; pass a larger log2_failure")


def _run(function: Callable[[Any], Any], words: Any, name: str, spec: Any) -> list[Any] | Exception:
    """Returns the calls of a run on the `null` device, with small keys; or the error if this encoding cannot run the
    function.
    """
    spec.n, spec.insecure = 8 * spec.group, True
    secret = _core.tfhe.SecretKey.generate(_core.tfhe.Parameters(spec).on_device("null"))
    keys = EvaluationKeys(secret.evaluation_keys(None))
    keys._noted = []
    try:
        function(Tensor(secret.encrypt(words, name, None), keys))
    except _core.DtypeError as error:  # this encoding lacks a type or operation
        return error
    return keys._noted


def _bootstraps(
    parameters: Parameters, name: str, operands: tuple[tuple[str, tuple[int, ...]], ...], arguments: Any, dtype: str
) -> int:
    """Returns the number of bootstraps of one call of the engine on all its elements."""
    types = [kind for kind, _ in operands]
    shape = max((shape for _, shape in operands), key=math.prod)
    if name == "sum":
        terms, elements = (shape[0] if shape else 1), math.prod(shape[1:])
        return elements * parameters.cost("sum", *types * terms, dtype=dtype)[0] if terms else 0
    if name == "matmul":
        (_, left), (_, right) = operands
        inner, elements = left[-1], math.prod(left[:-1]) * right[-1]
        return elements * parameters.cost("dot", *types[:1] * inner, *types[1:] * inner, dtype=types[0])[0] if inner else 0
    each = parameters.cost(name, *types, arguments=arguments, dtype=dtype or None)[0]
    return each * math.prod(shape)


def _operations(parameters: Parameters) -> float:
    """Returns the floating-point operations of a blind rotation (docs/tfhe-parameters.md, "The search")."""
    s = parameters._core.spec
    half = s.degree // 2
    transforms = (s.k + 1) * (s.bootstrap_levels + 1) * 5 * half * math.log2(half)
    products = 2**s.group * (s.k + 1) ** 2 * s.bootstrap_levels * 8 * half
    return float(s.n / s.group * (transforms + products))
