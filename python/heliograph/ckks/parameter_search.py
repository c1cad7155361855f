"""Search for the smallest CKKS set that runs a computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import complexes, count_of, moved_last, real, whole, word_size_of
from heliograph._common.schemes import chooser
from heliograph.ckks.keys import SecretKey, TrialKeys
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.scheme import CKKS
from heliograph.ckks.tensor import Tensor

#: Numbers of levels of the trial sets, in the order of trials. A trial run counts the levels that a computation takes.
_TRIALS = (8, 20, 60)
_SCALES = {64: 40.0, 32: 28.0}


@chooser(CKKS)
def search(
    function: Callable[[Any], Any],
    example: Any,
    scheme: str,
    *,
    slots: int = -1,
    precision: int = 30,
    bound: float | None = None,
    word_size: int = 64,
) -> Parameters:
    """Implements `hg.parameters_for` for CKKS.

    1. Runs on sets with many levels count the levels.
    2. Sets of that depth are tried with increasing room and precision. A set suffices if the results have the precision and,
       for inputs up to the set's bound, their bounds fit the room.
    """
    word_size = word_size_of(word_size)
    precision = count_of(precision, "precision", 1)
    values, is_complex = complexes(example, "the example")
    values = moved_last(values, whole(slots, "the slot axis"), "the example")
    if not values.size:
        raise _core.ShapeError(f"the example must have values, not shape {values.shape}")
    largest = float(np.abs(values).max())
    limit = 2.0 ** math.ceil(math.log2(max(2 * largest, 2.0**-20)))  # inputs may be twice as large as the example's
    if bound is not None:
        limit = real(bound, "the bound")
        if not largest <= limit or not 0 < limit < math.inf:
            raise _core.ParameterError(
                f"the bound must be finite and at least the example's largest magnitude, {largest:g}, not {limit:g}"
            )
        values[..., :1] = limit  # the largest allowed input
        largest = limit
    example = values if is_complex else values.real
    depth = _depth(function, example / max(largest, 1e-300), word_size)
    bits, more = max(1, math.ceil(math.log2(max(limit, 1))) + 1), 0
    refused: Exception | None = None
    last = -math.inf
    while True:
        try:
            spec = _core.ckks.choose(depth, precision + more, bits, values.shape[-1], word_size, bound=limit)
        except _core.ParameterError as error:
            if refused is not None:  # a set with more room did not suffice either
                raise refused from None
            raise _core.ParameterError(
                f"no set gives this computation of {depth} levels a precision of {precision} bits: with {bits} bits for "
                f"values and {more} bits for errors, {error}. Pass a smaller bound or precision, or declare bounds of "
                "intermediate results by hg.ckks.within"
            ) from None
        try:
            core = _core.ckks.Parameters(spec)
        except _core.ParameterError:  # the lowest level has no room for values at this scale
            bits += 1
            continue
        try:
            results, keys = _run(function, example, core)
        except (_core.PlaintextRangeError, _core.RoomError) as error:
            refused, bits = error, bits + 4
            continue
        except _core.NoiseError as error:
            refused, more = error, more + 2
            continue
        beyond = max(float(t._core.bits_beyond_room) for t in results)
        right = min(float(t._core.assumed_precision) for t in results)
        if math.isnan(right) and not any(t._core.rests_on_declaration for t in results):
            raise _core.ParameterError(
                "cannot bound the errors of this computation: it uses data from files; use data encrypted in this process"
            )
        if not beyond <= 0:
            bits += max(1, math.ceil(beyond)) if math.isfinite(beyond) else 1
        elif right < precision:
            if right <= last:
                raise _core.ParameterError(
                    f"the results of this computation have {right:.1f} bits in every set, less than precision={precision}: "
                    "pass a smaller precision, or a smaller error= to functions that approximate"
                )
            last, more = right + 0.25, more + max(1, math.ceil(precision - right))
        else:
            parameters = Parameters(core)
            parameters.needs = {"relinearize": True, "rotations": sorted(keys.steps), "conjugate": keys.swaps}
            return parameters


def _depth(function: Callable[[Any], Any], example: Any, word_size: int) -> int:
    """Returns the number of levels that the function takes."""
    width = example.shape[-1]
    n = max(1 << 12, 2 << (width - 1).bit_length())
    for levels in _TRIALS:
        spec = _core.ckks.make_spec(n, levels, _SCALES[word_size], 50, 2, word_size, width, True)
        try:
            results, _ = _run(function, example, _core.ckks.Parameters(spec))
        except _core.LevelError:
            continue
        return max(levels - t.level for t in results)
    raise _core.ParameterError(f"this computation takes more than {_TRIALS[-1] - 1} successive multiplications, the maximum")


def _run(
    function: Callable[[Any], Any], example: Any, core: Any, bound: float | None = None
) -> tuple[list[Tensor], TrialKeys]:
    """Runs the function on the `null` device and returns its results and the used keys."""
    secret = SecretKey(_core.ckks.SecretKey.generate(core.on_device("null")))
    keys = TrialKeys(secret._core)
    result = function(Tensor(secret.encrypt(example, bound=bound)._core, keys))
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    for t in results:
        if not isinstance(t, Tensor):
            raise _core.DtypeError(f"the function must return one or several tensors, not {type(t).__name__}")
    if not results:
        raise _core.DtypeError("the function must return one or several tensors, not an empty list")
    return results, keys
