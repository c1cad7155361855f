"""Signs by compositions of polynomials. The engine chooses a composition and its bootstraps.

Source: Lee, Lee, No, Kang, Kang, ePrint 2020/834. scripts/sign_composites.py computes the polynomials.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from heliograph import _core
from heliograph.ckks.approximation import Evaluator
from heliograph.ckks.automatic import automatic_now
from heliograph.ckks.integers import table_error
from heliograph.ckks.parameters import Parameters, tried
from heliograph.ckks.tensor import Tensor

_functions = _core.ckks.functions


class SignEvaluator(Evaluator):
    """Performs the operations of signs, and gives the search for bootstraps the properties of keys and bootstraps."""

    def functional_bootstrap(self, x: Tensor, table: Sequence[float]) -> Tensor:
        """Returns the table's entries."""
        return x.functional_bootstrap(table, keys=self.keys)

    def has_bootstrapping(self) -> bool:
        """Tells whether the keys include the keys of bootstrapping."""
        return self.keys.bootstrap

    def is_automatic(self) -> bool:
        """Tells whether signs place bootstraps themselves."""
        return automatic_now() is not None

    def bootstrapped(self, x: Tensor, iterations: int) -> Tensor:
        """Returns the bootstrapped tensor."""
        auto = automatic_now()
        return x if auto is None else cast(Tensor, auto._bootstrapped(x, self.keys, iterations))

    def bootstrap_error(self, iterations: int) -> float:
        """Returns the error bound of values up to 1 after a bootstrap."""
        return float(2.0 ** -self._x.parameters.bootstrapping_precision(iterations=iterations))

    def rounding_error(self, place: int, stage: int) -> float:
        """Returns the error bound of a polynomial's roundings."""
        return _rounding(self._x.parameters, place, stage)

    def table_error(self, table: Sequence[float], noise: float) -> float:
        """Returns the error bound of a table's functional bootstrap."""
        return table_error(self._x.parameters, table, noise)


@functools.cache
def _composites() -> tuple[Any, ...]:
    return tuple(_functions.compositions())


def _fitting(gap: float, error: float) -> list[Any]:
    """Returns the compositions for |x| in [gap, 1]. Raises ParameterError if there is none."""
    return list(_functions.fitting_compositions(gap, error))


def _plan(x: Tensor, candidates: list[Any], has_gap: bool, error: float, scaling: int, after: int = 0) -> Any:
    """Returns the cheapest plan for x. `error`: largest error of the composition and its bootstraps; `scaling`: 1 if
    scaling x takes a level before the first polynomial; `after`: levels that later operations take."""
    return _functions.plan_signs(SignEvaluator(x, None, "sign"), x, candidates, has_gap, error, bool(scaling), after)


@functools.lru_cache(maxsize=4096)
def _rounding(parameters: Parameters, place: int, stage: int) -> float:
    """Returns the error bound of a polynomial's roundings, by an evaluation on the `null` device."""
    coefficients = _composites()[place].stages[stage]

    def error(secret: Any, keys: Any) -> float:
        x = secret.encrypt(np.zeros((1, parameters.slots)), False, parameters.levels, None, (-1.0, 1.0))
        y = _core.ckks.evaluate_polynomial(_core.ckks.with_error(x, 0.0, 0.0), coefficients, True, keys, None, "")
        return float(_core.ckks.error_bounds(y)[1])

    return tried(parameters, error)
