"""Random errors of the size that CKKS adds to values in slots, for simulations.

Model: errors of encryption have coefficients of deviation 3.19. A rescaling rounds both components, which adds coefficients
of variance (1 + |s|^2) / 12, with |s|^2 = 2 N / 3 for a uniform ternary secret. The real part of a slot is a sum of N
coefficients times numbers of mean square 1/2. Key switches with special primes add errors of at most the rescaling's size.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from heliograph.ckks.parameters import Parameters

Floats = npt.NDArray[np.float64]
_DEVIATION = 3.19  #: of the coefficients of fresh errors


class Noise:
    """A seeded source of errors for one parameter set."""

    def __init__(self, parameters: Parameters, seed: int = 0) -> None:
        self._parameters, self._random = parameters, np.random.default_rng(seed)

    def fresh(self, values: Floats, level: int, factor: float | Floats = 1.0) -> Floats:
        """Returns values with the error of an encryption by the secret key at a level, `factor` times."""
        return self._with(values, _DEVIATION, level, factor)

    def rescaled(self, values: Floats, level: int, factor: float = 1.0) -> Floats:
        """Returns values with the error of the rescaling from a level to the next, and of a key switch, `factor` times."""
        rounding = math.sqrt((1 + 2 * self._parameters.n / 3) / 12)
        return self._with(values, rounding * math.sqrt(2), max(1, level - 1), factor)

    def deviation(self, level: int) -> float:
        """Returns the deviation of the error of one rescaling from a level to the next."""
        rounding = math.sqrt((1 + 2 * self._parameters.n / 3) / 12)
        return rounding * math.sqrt(self._parameters.n) / self._parameters.scale(max(1, level - 1))

    def _with(self, values: Floats, deviation: float, level: int, factor: float | Floats) -> Floats:
        size = factor * deviation * math.sqrt(self._parameters.n / 2) / self._parameters.scale(level)
        return np.asarray(values + size * self._random.standard_normal(values.shape), dtype=np.float64)

    def normal(self, shape: tuple[int, ...], deviation: float) -> Floats:
        """Returns errors of a deviation."""
        return deviation * self._random.standard_normal(shape)
