"""Sets of CKKS for a computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._arrays import complexes, count_of, moved_last, real, text_of, whole
from heliograph._schemes import chooser
from heliograph.ckks.keys import SecretKey, TrialKeys
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.scheme import CKKS
from heliograph.ckks.tensor import Tensor

#: Levels of the sets that tell how many a computation takes, one after another.
_TRIALS = (8, 20, 60)
_SCALES = {"w64": 40.0, "w32": 28.0}


@chooser(CKKS)
def chosen(
    function: Callable[[Any], Any],
    example: Any,
    scheme: str,
    *,
    slots: int = -1,
    precision: int = 30,
    bound: float | None = None,
    edition: str = "w64",
) -> Parameters:
    """`hg.parameters_for` of CKKS.

    A run on sets of many levels tells the depth. Then sets of that depth are tried: with the room that the results' bounds need, by the
    rules of each operation for inputs of the set's bound, and with more precision where the results have too little.
    """
    edition = text_of(edition, "the edition", list(_SCALES))
    precision = count_of(precision, "precision", 1)
    values, is_complex = complexes(example, "the example")
    values = moved_last(values, whole(slots, "the slot axis"), "the example")
    if not values.size:
        raise _core.ShapeError(f"an example of shape {values.shape} has no values")
    largest = float(np.abs(values).max())
    limit = 2.0 ** math.ceil(math.log2(max(2 * largest, 2.0**-20)))  # twice as large as what was seen
    if bound is not None:
        limit = real(bound, "the bound")
        if not largest <= limit or not 0 < limit < math.inf:
            raise _core.ParameterError(f"the example's largest value is {largest:g}, and the bound {limit:g}")
        values[..., :1] = limit  # as large as what will come
        largest = limit
    example = values if is_complex else values.real
    depth = _depth(function, example / max(largest, 1e-300), edition)
    bits, more = max(1, math.ceil(math.log2(max(limit, 1))) + 1), 0
    refused: Exception | None = None
    while True:
        try:
            spec = _core.ckks_choose(depth, precision + more, bits, values.shape[-1], edition, bound=limit)
        except _core.ParameterError as error:
            if refused is not None:  # more room did not help
                raise refused from None
            raise _core.ParameterError(
                f"no set keeps {precision} bits of this computation of {depth} levels right: for bounds on values of {bits} bits and "
                f"{more} bits against its errors, {error}. A smaller bound, a lower precision, or hg.ckks.within on the way, may be had"
            ) from None
        try:
            core = _core.CkksParameters(spec)
        except _core.ParameterError:  # the lowest level holds no value beside so small a scale
            bits += 1
            continue
        try:
            results, keys = _run(function, example, core)
        except (_core.PlaintextRangeError, _core.RoomError) as error:
            refused, bits = error, bits + 4
            continue
        beyond = max(float(t._core.bits_beyond_room) for t in results)
        right = min(float(t._core.assumed_precision) for t in results)
        if math.isnan(right) and not any(t._core.rests_on_word for t in results):
            raise _core.ParameterError("no bound is known on this computation's errors: it uses what came from files")
        if not beyond <= 0:
            bits += max(1, math.ceil(beyond)) if math.isfinite(beyond) else 1
        elif right < precision:
            more += max(1, math.ceil(precision - right))
        else:
            parameters = Parameters(core)
            parameters.needs = {"relinearize": True, "rotations": sorted(keys.steps), "conjugate": keys.swaps}
            return parameters


def _depth(function: Callable[[Any], Any], example: Any, edition: str) -> int:
    """Levels that the function takes."""
    width = example.shape[-1]
    n = max(1 << 12, 2 << (width - 1).bit_length())
    for levels in _TRIALS:
        spec = _core.ckks_make_spec(n, levels, _SCALES[edition], 50, 2, edition, width, True)
        try:
            results, _ = _run(function, example, _core.CkksParameters(spec))
        except _core.LevelError:
            continue
        return max(levels - t.level for t in results)
    raise _core.ParameterError(f"this computation takes more than {_TRIALS[-1] - 1} multiplications in sequence")


def _run(
    function: Callable[[Any], Any], example: Any, core: Any, bound: float | None = None
) -> tuple[list[Tensor], TrialKeys]:
    """One run on the null device."""
    secret = SecretKey(_core.CkksSecretKey.generate(core.on_device("null")))
    keys = TrialKeys(secret._core)
    result = function(Tensor(secret.encrypt(example, bound=bound)._core, keys))
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    for t in results:
        if not isinstance(t, Tensor):
            raise _core.DtypeError(f"the function returns a tensor, or several, not {type(t).__name__}")
    if not results:
        raise _core.DtypeError("the function returns a tensor, or several, not none")
    return results, keys
