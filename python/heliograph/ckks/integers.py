"""Signs, comparisons and tables of encrypted integers: one functional bootstrap, or a composition of polynomials."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import text_of
from heliograph._common.tensor import keys_of
from heliograph.ckks.approximation import errors_of, met
from heliograph.ckks.functions import polynomial_depth
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.parameters import Parameters, tried
from heliograph.ckks.signs import BOOTSTRAP_PRODUCTS, cost_of_signs
from heliograph.ckks.tensor import Tensor

Method = Literal["auto", "polynomial", "bootstrap"]
METHODS = ("auto", "polynomial", "bootstrap")
MOST = 256  #: integers of a table
_LONG_WAVE = MOST + 2  #: size of a table of an odd wave that takes the levels of MOST numbers
_LONG_WAVE_GROWTH = 2.2  #: of the error of 0 by such a table
_STEP_ERROR = 2.0**-3  #: largest error of an integer that a table takes


def method_of(method: Any, integers: bool, what: str) -> Method:
    """Returns a checked method. Raises ParameterError."""
    chosen = cast(Method, text_of(method, "method", METHODS))
    if chosen == "bootstrap" and not integers:
        raise _core.ParameterError(
            f'{what}: method="bootstrap" takes a table of integers; pass integers=True, which declares that all values are '
            "integers"
        )
    return chosen


class Integers:
    """The integers of a tensor: those from `low` to `high`."""

    def __init__(self, x: Tensor, low: float, high: float, keys: EvaluationKeys | None, what: str) -> None:
        self.x, self.what, self.keys = x, what, keys_of([x], keys, what)
        self.low, self.high = math.ceil(low), math.floor(high)
        if self.low > self.high:
            raise _core.PlaintextRangeError(f"{what}: no integer is in the interval [{low:.6g}, {high:.6g}] of the values")
        self.count = self.high - self.low + 1

    def table(self, f: Callable[[npt.NDArray[np.int64]], Any]) -> npt.NDArray[np.float64]:
        """Returns f of each residue of the integers modulo the size of the table."""
        size = max(2, self.count)
        m = np.arange(size)
        return np.asarray(f((m - self.low) % size + self.low), dtype=np.float64)

    def _chosen(self, f: Callable[[npt.NDArray[np.int64]], Any], error: float | None) -> npt.NDArray[np.float64]:
        """Returns the table that computes f to `error` in the shortest time.

        Tables of odd waves, values[-m] = -values[m] = values[m + p / 2], make polynomials with half of the powers.
        """
        own = self.table(f)
        half = max(-self.low, self.high) + 1
        if half > _LONG_WAVE // 2:
            return own
        m = np.arange(2 * half)
        wave = np.asarray(f((m + half) % (2 * half) - half), dtype=np.float64)
        wave[half] = 0
        is_odd = np.array_equal(wave[-m % (2 * half)], -wave) and np.array_equal(np.roll(wave, half), -wave)
        if not is_odd or _depth(wave) != _depth(own):
            return own
        if len(wave) <= MOST:
            return wave
        limit = 0.0 if error is None else error / 4
        return wave if len(wave) == _LONG_WAVE and errors_of(self.x)[1] * _LONG_WAVE_GROWTH <= limit else own

    def looked_up(self, f: Callable[[npt.NDArray[np.int64]], Any], error: float | None) -> Tensor:
        """Returns f of each integer by one functional bootstrap. Raises ParameterError, NoiseError."""
        if self.count > MOST:
            raise _core.ParameterError(
                f"{self.what}: a table has at most {MOST} integers, but the values are in [{self.low}, {self.high}]; pass a "
                'narrower domain=, or take method="polynomial"'
            )
        if self.x._core.awaits_guard:
            raise _core.ParameterError(
                f"{self.what}: a table has no guard, and the interval of these values is declared; pass guard=False to "
                'take values outside without an error, or take method="polynomial"'
            )
        found = self.x.functional_bootstrap(self._chosen(f, error), keys=self.keys)
        return met(found, errors_of(found), error, self.what)

    def has_table(self, f: Callable[[npt.NDArray[np.int64]], Any], error: float) -> bool:
        """Tells whether one functional bootstrap computes f to `error`."""
        parameters, entry = self.x.parameters, self.x.parameters.bootstrapping_level
        if not entry or not self.keys.bootstrap or self.count > MOST or self.x.level < entry:
            return False
        if self.x._core.awaits_guard:  # a table has no guard
            return False
        noise = errors_of(self.x)[1]
        if not noise <= _STEP_ERROR:  # also for unknown noise
            return False
        table = self._chosen(f, error)
        if _depth(table) >= parameters.levels:
            return False
        return _error_of(parameters, tuple(table.tolist()), _rounded_up(noise)) <= error

    def cost(self, f: Callable[[npt.NDArray[np.int64]], Any]) -> float:
        """Returns the time of a table's functional bootstrap, in products at the top level.

        Levels count as a share of the bootstrap that restores them.
        """
        p = self.x.parameters
        depth = _depth(self.table(f))
        products = 2 * math.sqrt(self.count) + depth if depth else 0
        spent = self.x.level - (p.levels - depth)
        return BOOTSTRAP_PRODUCTS + products + BOOTSTRAP_PRODUCTS * spent / p.depth_between

    def takes_table(
        self, method: str, f: Callable[[npt.NDArray[np.int64]], Any], error: float, largest: float, gap: float
    ) -> bool:  # fmt: skip
        """Tells whether a table is the method: as given, or by cost. `largest` and `gap` are those of the composition."""
        if method != "auto":
            return method == "bootstrap"
        if not self.has_table(f, error):
            return False
        other = cost_of_signs(self.x, largest, gap, error)
        return other is None or self.cost(f) <= other


def _depth(table: npt.NDArray[np.float64]) -> int:
    degree = len(table) - (3 if len(table) == _LONG_WAVE else 1)
    return 0 if len(table) == 2 else polynomial_depth(degree)


def _rounded_up(noise: float) -> float:
    """Rounds a bound up to a power of two, so that tensors of similar noise share one trial."""
    return 2.0 ** max(-40, math.ceil(math.log2(noise))) if noise > 0 else 2.0**-40


@functools.lru_cache(maxsize=64)
def _error_of(parameters: Parameters, table: tuple[float, ...], noise: float) -> float:
    """Returns the error bound of a table's functional bootstrap, by one on the `null` device."""

    def error(secret: Any, keys: Any) -> float:
        values = np.zeros((1, parameters.slots))
        x = secret.encrypt(values, False, parameters.bootstrapping_level, None, (0.0, float(len(table) - 1)))
        found = _core.ckks.functional_bootstrap(_core.ckks.with_error(x, noise, noise), list(table), keys, None)
        return float(_core.ckks.error_bounds(found)[1])

    return tried(parameters, error)
