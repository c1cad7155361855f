"""Logistic regression from encrypted sums of monomials of degree up to 6.

A polynomial approximates the loss. The sum of the approximated loss over rows is linear in the moments of the features. The
server computes the moments once. The owner chooses the polynomial by the spread of the predictor, and minimizes the loss in
the clear. Source: Huggins, Adams and Broderick, PASS-GLM, NeurIPS 2017 (arXiv 1709.09216)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Chebyshev, Polynomial

from heliograph import _core
from heliograph._common.arguments import described, is_real, printable
from heliograph.frame.answers import FINISHES, Answer, Moments, counted, pandas
from heliograph.frame.series import Series, Sums, answer_of, complete

Floats = npt.NDArray[np.float64]
DEGREE = 6
_MOST_FEATURES = 6
_DEVIATIONS = 3.25  # half the polynomial's interval, in standard deviations of the predictor
_WIDEST = 16.0  # largest half interval: there the polynomial's error in a probability is 0.11
_MOST_ERROR = 2.0**-7  # largest error of the loss from the noise of the moments


def logistic_sums(series: Sequence[Series], l2: float) -> Answer:
    """Returns the encrypted moments of features and of the target, the last column."""
    target, count = series[-1], len(series) - 1
    if not target.variable.binary:
        raise _core.DtypeError(
            f"the target {printable(target.name)} must be a column of truth values, or of integers declared between 0 and 1"
        )
    if count > _MOST_FEATURES:
        raise _core.ParameterError(
            f"logistic regression takes at most {_MOST_FEATURES} features, because its sums grow as their sixth power; got "
            f"{count}"
        )
    if not is_real(l2) or not 0 <= l2 < math.inf:
        raise _core.ParameterError(f"l2 must be a finite number of at least 0, got {described(l2)}")
    whole, valid = complete(series, "logistic_regression", 3)
    sums = Sums()
    if valid is not None:
        sums.add("ckks", ("rows", 0), valid)
    features, labels = [one.tensor for one in whole[:-1]], whole[-1].tensor
    sums.add("ckks", ("y",), labels)
    for i, x in enumerate(features):
        sums.add("ckks", ("y", i), labels, x)
    powers: dict[tuple[int, ...], Any] = {(i,): x for i, x in enumerate(features)}
    for degree in (2, 3):
        for m in itertools.combinations_with_replacement(range(count), degree):
            powers[m] = powers[m[:-1]] * powers[m[-1:]]
    for degree in range(1, DEGREE + 1):
        for m in itertools.combinations_with_replacement(range(count), degree):
            sums.add("ckks", ("m", *m), powers[m[:3]], powers[m[3:]] if degree > 3 else None)
    return answer_of("logistic_regression", series, sums, l2=float(l2))


class _Loss:
    """The mean loss as a polynomial of the coefficients of (1, features)."""

    def __init__(self, m: Moments, features: int, rows: int) -> None:
        self.exponents, self.degrees, self.weights = [], [], []
        for degree in range(1, DEGREE + 1):
            for one in itertools.combinations_with_replacement(range(features + 1), degree):
                powers = Counter(one)
                label = " ".join(["m", *(str(i - 1) for i in one if i)])
                moment = m.sums[label] / rows if any(one) else 1.0
                self.exponents.append([powers[i] for i in range(features + 1)])
                self.degrees.append(degree)
                ways = math.factorial(degree) // math.prod(map(math.factorial, powers.values()))
                self.weights.append(ways * moment)
        self._exponents, self._degrees = np.array(self.exponents), np.array(self.degrees)
        self._weights = np.array(self.weights)
        means = [m.sums["y"], *(m.sums[f"y {i}"] for i in range(features))]
        sums = [rows, *(m.sums[f"m {i}"] for i in range(features))]
        self.target = (np.array(means) + np.array(sums)) / (2 * rows)  # labels are -1 or 1
        self.penalty: Floats = np.zeros(features + 1)
        self.powers: Floats = np.zeros(DEGREE + 1)

    def value(self, beta: Floats) -> float:
        """Returns the mean loss."""
        return float(self._terms() @ self._monomials(beta, ())) - float(beta @ self.target - self.penalty @ beta**2 / 2)

    def gradient(self, beta: Floats) -> Floats:
        """Returns the gradient, [features + 1]."""
        first = [float(self._terms() @ self._monomials(beta, (i,))) for i in range(len(beta))]
        return np.asarray(np.array(first) - self.target + self.penalty * beta)

    def curvature(self, beta: Floats) -> Floats:
        """Returns the Hessian."""
        k, h = len(beta), np.zeros((len(beta), len(beta)))
        for i in range(k):
            for j in range(i, k):
                h[i, j] = h[j, i] = float(self._terms() @ self._monomials(beta, (i, j)))
        return np.asarray(h + np.diag(self.penalty))

    def _terms(self) -> Floats:
        return np.asarray(self._weights * self.powers[self._degrees])

    def _monomials(self, beta: Floats, by: tuple[int, ...]) -> Floats:
        """Returns the derivatives of the monomials by some coefficients."""
        exponents, factor = self._exponents.copy(), np.ones(len(self._exponents))
        for i in by:
            factor = factor * exponents[:, i]
            exponents[:, i] = np.maximum(exponents[:, i] - 1, 0)
        return np.asarray(factor * np.prod(beta**exponents, axis=1))

    def minimum(self, beta: Floats) -> Floats:
        """Returns the minimum, by Newton's method with step halving."""
        for _ in range(100):
            eigenvalues, vectors = np.linalg.eigh(self.curvature(beta))
            floor = max(1e-12, 1e-9 * float(np.abs(eigenvalues).max()))
            move = -vectors @ ((vectors.T @ self.gradient(beta)) / np.maximum(np.abs(eigenvalues), floor))
            now, step = self.value(beta), 1.0
            while step > 1e-6 and not self.value(beta + step * move) <= now:
                step /= 2
            if step <= 1e-6 or float(np.abs(move).max()) < 1e-9 * (1 + float(np.abs(beta).max())):
                break
            beta = beta + step * move
        return beta


def softplus(half: float) -> tuple[Floats, float]:
    """Returns the coefficients of a polynomial near log(1 + e^z) on [-half, half], and the largest error of its derivative.

    >>> from heliograph.frame.logistic import softplus
    >>> round(softplus(4.0)[1], 3)
    0.019
    """
    nodes = half * np.cos(np.pi * (np.arange(256) + 0.5) / 256)
    fit = Chebyshev.fit(nodes, np.logaddexp(0, nodes), DEGREE, domain=[-half, half])
    z = np.linspace(-half, half, 401)
    error = float(np.abs(fit.deriv()(z) - 1 / (1 + np.exp(-z))).max())
    return np.asarray(fit.convert(kind=Polynomial).coef), error


def _fitted(m: Moments) -> Any:
    """Minimizes the loss and returns the coefficients."""
    features, rows = len(m.names) - 1, counted(m.sums.get("rows 0", m.header["rows"]))
    if rows <= features + 1:
        raise _core.ShapeError(
            f"logistic regression of {features} columns needs at least {features + 2} rows without NULL, got {rows}"
        )
    loss = _Loss(m, features, rows)
    ones = loss.target[0] * rows
    if min(ones, rows - ones) < 0.5:
        raise _core.ParameterError(f"all values of the target {m.names[-1]} are equal; the fit has no minimum")
    scales = np.array([v.scale for v in m.variables[:-1]])
    offsets = np.array([v.offset for v in m.variables[:-1]])
    loss.penalty = np.array([0.0, *(float(m.header["l2"]) / rows / scales**2)])
    means = np.array([m.sums[f"m {i}"] / rows for i in range(features)])
    products = np.array([[m.sums[f"m {min(i, j)} {max(i, j)}"] / rows for j in range(features)] for i in range(features)])
    covariance = products - np.outer(means, means)
    half, beta = 4.0, np.zeros(features + 1)
    for _ in range(40):
        loss.powers, error = softplus(half)
        beta = loss.minimum(beta)
        centre = float(beta[0] + beta[1:] @ means)
        spread = math.sqrt(max(0.0, float(beta[1:] @ covariance @ beta[1:])))
        wanted = max(2.5, abs(centre) + _DEVIATIONS * spread)
        if abs(wanted - half) < 1e-3 * half or half > _WIDEST:
            break
        half = (half + wanted) / 2
    noise = m.error * float(np.abs(loss.powers) @ np.abs(beta).sum() ** np.arange(DEGREE + 1))
    if half > _WIDEST or not noise < _MOST_ERROR:
        raise _core.NoiseError(
            f"the predictor's spread is too large for a polynomial of degree {DEGREE} (half interval {half:.1f}, "
            f"error of the loss {noise:.1g}): the classes are nearly separable, or columns nearly dependent; pass a "
            "greater l2, fewer features or narrower bounds"
        )
    weights = beta[1:] / scales
    result = pandas().Series([float(beta[0] - weights @ offsets), *weights], ["intercept", *m.names[:-1]])
    result.attrs = {"rows": rows, "error": error, "interval": half}
    return result


FINISHES["logistic_regression"] = _fitted
