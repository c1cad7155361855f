"""Layers of fitted estimators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heliograph import ckks
from heliograph._common.arguments import array_of
from heliograph._common.functions import matmul

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Activation:
    """A polynomial that approximates an activation on the interval of its arguments on the calibration data.

    >>> square = ml.Activation("square", -2.0, 2.0, (2.0, 0.0, 2.0), 0.0, 0.0)
    >>> square.degree, square.depth
    (2, 2)
    """

    name: str
    low: float
    high: float
    coefficients: tuple[float, ...]  #: coefficients of Chebyshev polynomials on the interval [low, high]
    largest_error: float  #: largest error on the calibration data
    mean_error: float  #: root mean square error on the calibration data

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return len(self.coefficients) - 1

    @property
    def depth(self) -> int:
        """Number of levels that it takes."""
        return ckks.polynomial_depth(self.degree)


@dataclass(frozen=True)
class Dense:
    """A matrix product with an optional activation, whose arguments are scaled to [-1, 1].

    >>> layer.clear(np.array([[1.0], [3.0]]))
    array([[5.5]])
    """

    weight: Floats  #: [outputs, inputs]
    bias: Floats
    activation: Activation | None = None

    def clear(self, x: Floats) -> Floats:
        """Returns the outputs [outputs, samples] of clear x [inputs, samples].

        >>> layer.clear(np.array([[1.0, 2.0], [3.0, 4.0]]))  # two samples of two features
        array([[5.5, 8.5]])
        """
        z: Floats = self.weight @ array_of(x, "samples") + self.bias[:, None]
        if self.activation is None:
            return z
        return np.asarray(np.polynomial.chebyshev.chebval(z, self.activation.coefficients), dtype=np.float64)

    def encrypted(self, x: ckks.Tensor) -> ckks.Tensor:
        """Returns the outputs of an encrypted tensor (inputs,). Arguments of an activation are declared within [-1, 1]:
        `Model.encrypt` checks samples.

        >>> secret = hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20, slots=2))
        >>> x = secret.encrypt([[1, 2], [3, 4]])
        >>> secret.decrypt(layer.encrypted(x)).round(3)
        array([[5.5, 8.5]])
        """
        z = matmul(self.weight, x, self.bias, axis=0)
        if self.activation is None:
            return z
        # The tracked bound of z is a worst case above 1. Clients refuse samples that leave the calibrated interval, so 1
        # holds.
        guard = f"the activation {self.activation.name}"
        return ckks.within(z, 1)._guarded(True)._polynomial(list(self.activation.coefficients), "chebyshev", guard)
