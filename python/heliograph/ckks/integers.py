"""Methods of signs and comparisons of encrypted integers: one functional bootstrap by a table, or a composition of
polynomials."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from heliograph import _core
from heliograph._common.arguments import text_of
from heliograph.ckks.parameters import Parameters, tried

Method = Literal["auto", "polynomial", "bootstrap"]
METHODS = ("auto", "polynomial", "bootstrap")


def method_of(method: Any, integers: bool, what: str) -> Method:
    """Returns a checked method. Raises ParameterError."""
    chosen = cast(Method, text_of(method, "method", METHODS))
    if chosen == "bootstrap" and not integers:
        raise _core.ParameterError(
            f'{what}: method="bootstrap" takes a table of integers; pass integers=True, which declares that all values are '
            "integers"
        )
    return chosen


def table_error(parameters: Parameters, table: Sequence[float], noise: float) -> float:
    """Returns the error bound of a functional bootstrap of integers with an error of at most `noise`."""
    return _error_of(parameters, tuple(table), noise)


@functools.lru_cache(maxsize=64)
def _error_of(parameters: Parameters, table: tuple[float, ...], noise: float) -> float:
    """Returns the error bound of a table's functional bootstrap, by a trial bootstrap on the `null` device."""

    def error(secret: Any, keys: Any) -> float:
        values = np.zeros((1, parameters.slots))
        x = secret.encrypt(values, False, parameters.bootstrapping_level, None, (0.0, float(len(table) - 1)))
        found = _core.ckks.functional_bootstrap(_core.ckks.with_error(x, noise, noise), list(table), keys, None)
        return float(_core.ckks.error_bounds(found)[1])

    return tried(parameters, error)
