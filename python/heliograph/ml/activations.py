"""Elementwise functions of canonical graphs: NumPy definitions, exact up to rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


def relu(x: Array) -> Array:
    """Return max(x, 0)."""
    return np.asarray(np.maximum(x, 0))


def leaky_relu(x: Array, alpha: float = 0.01) -> Array:
    """Return x for x >= 0 and alpha x below."""
    return np.where(x >= 0, x, alpha * x)


def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return x for x >= 0 and alpha (exp(x) - 1) below."""
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0)))


def celu(x: Array, alpha: float = 1.0) -> Array:
    """Return x for x >= 0 and alpha (exp(x / alpha) - 1) below."""
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def selu(x: Array, alpha: float = _SELU_ALPHA, gamma: float = _SELU_GAMMA) -> Array:
    """Return gamma times `elu` of alpha."""
    return np.asarray(gamma * elu(x, alpha))


def clip(x: Array, low: float = -math.inf, high: float = math.inf) -> Array:
    """Return min(max(x, low), high)."""
    return np.minimum(np.maximum(x, low), high)


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def hard_sigmoid(x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """Return alpha x + beta, limited to [0, 1]."""
    return clip(alpha * x + beta, 0.0, 1.0)


def hard_swish(x: Array) -> Array:
    """Return x times min(max(x / 6 + 1 / 2, 0), 1)."""
    return np.asarray(x * hard_sigmoid(x, 1 / 6, 0.5))


def silu(x: Array, alpha: float = 1.0) -> Array:
    """Return x times the sigmoid of alpha x; SiLU for alpha 1, Swish otherwise."""
    return np.asarray(x * sigmoid(alpha * x))


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)), without overflow."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def softsign(x: Array) -> Array:
    """Return x / (1 + |x|)."""
    return np.asarray(x / (1 + np.abs(x)))


def mish(x: Array) -> Array:
    """Return x tanh(softplus(x))."""
    return np.asarray(x * np.tanh(softplus(x)))


def _series(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Return a polynomial by Horner's rule, the coefficient of the highest power first."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _erfc_fraction(x: Array) -> Array:
    """Return exp(x^2) erfc(x) sqrt(pi) for x >= 2, by 60 steps of the continued fraction x + (k / 2) / (x + ...)."""
    fraction = x.copy()
    for k in range(60, 0, -1):
        fraction = x + (k / 2) / fraction
    return np.asarray(1 / fraction)


def erf(x: Array) -> Array:
    """Return the error function, within 2^-50: a Taylor series up to |x| = 2, a continued fraction of erfc beyond."""
    wide = np.asarray(x, np.float64)
    size = np.minimum(np.abs(wide), 7.0)  # erf(7) rounds to 1
    low = np.minimum(size, 2.0)
    terms = tuple((-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(32, -1, -1))
    near = 2 / math.sqrt(math.pi) * low * _series(low * low, terms)
    high = np.maximum(size, 2.0)
    far = 1 - np.exp(-high * high) / math.sqrt(math.pi) * _erfc_fraction(high)
    return np.where(np.isnan(wide), np.nan, np.copysign(np.where(size < 2, near, far), wide)).astype(
        np.result_type(x, np.float32)
    )


def gelu(x: Array) -> Array:
    """Return x / 2 (1 + erf(x / sqrt(2)))."""
    return np.asarray(x / 2 * (1 + erf(x / math.sqrt(2))))


def gelu_tanh(x: Array) -> Array:
    """Return x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the approximation of GELU by tanh."""
    return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))


def identity(x: Array) -> Array:
    """Return x. A factor of a product of computed values, with a calibrated range."""
    return np.asarray(x)


def power(x: Array, exponent: float) -> Array:
    """Return x to a constant exponent. A negative x with a fractional exponent gives NaN."""
    return np.asarray(np.power(x, exponent))


def reciprocal(x: Array) -> Array:
    """Return 1 / x."""
    return np.asarray(1 / x)


#: Functions of `activation` nodes by name. Each takes an array of floats, and its parameters by keyword.
FUNCTIONS: dict[str, Callable[..., Array]] = {
    "identity": np.asarray,
    "abs": np.abs,
    "celu": celu,
    "clip": clip,
    "cos": np.cos,
    "elu": elu,
    "erf": erf,
    "exp": np.exp,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
    "leaky_relu": leaky_relu,
    "log": np.log,
    "mish": mish,
    "power": power,
    "reciprocal": reciprocal,
    "relu": relu,
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": silu,
    "sin": np.sin,
    "softplus": softplus,
    "softsign": softsign,
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}
