"""Statistics of numbers encrypted by CKKS, over the `slots` values of each ciphertext, for any number of slots.

Unused places do not count. Every slot holds the result. All functions need the rotations `sum_rotations(parameters.period)`.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.polynomial import chebyshev

from heliograph import _core
from heliograph._common.arguments import whole
from heliograph._common.functions import concatenate
from heliograph._common.matrices import along_axis
from heliograph._common.tensor import keys_of, of_tensors
from heliograph.ckks.automatic import is_automatic, ready
from heliograph.ckks.functions import polynomial_depth
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Plaintext, Tensor, factor_scale, sum_rotations


def mean(x: Tensor, axis: int | Literal["slots"] | None = None, *, keys: EvaluationKeys | None = None) -> Tensor:
    """Returns the mean, in every slot. The mean takes one level.

    With ``axis="slots"``, the default for one ciphertext, it is the mean of each ciphertext's values. With an integer it is
    the mean of all values along that axis of ciphertexts, which is removed. A tensor of several ciphertexts needs `axis`.

    Raises LevelError, MissingKeyError, ShapeError.

    >>> secret.decrypt(hg.ckks.mean(x, "slots")).round(4)[:, 0]
    array([2. , 2.5])
    """
    x, along, count = _sample(x, axis, "mean", 1, keys)
    return _mean(x, along, count)


def var(
    x: Tensor, axis: int | Literal["slots"] | None = None, *, ddof: int = 0, keys: EvaluationKeys | None = None
) -> Tensor:
    """Returns the variance, in every slot: the sum of squared distances from the mean, divided by the number of values less
    `ddof`.

    `axis` is as for `mean`. The variance takes two levels if the set's `period` equals its slots, else three. Complex values
    need the conjugation key.

    Raises LevelError, MissingKeyError, ShapeError, and ParameterError unless `ddof` is below the number of values.

    >>> secret.decrypt(hg.ckks.var(x, "slots")).round(4)[:, 0]
    array([1.25, 1.25])
    """
    x, along, count = _sample(x, axis, "var", 1 + _centring(x), keys)
    freedom = _freedom(count, ddof)
    z = ready(_centred(x, along, count, 1 / math.sqrt(freedom)), 1, None)
    products = _products(z, z.conjugate() if z.dtype == np.complex128 else z, along)
    return products._narrowed(_core.ckks.with_variances, x._core, count / freedom)


def cov(x: Tensor, y: Tensor | None = None, *, ddof: int = 1, keys: EvaluationKeys | None = None) -> Tensor:
    """Returns the covariance matrix of variables, as `numpy.cov`. Each variable is a ciphertext whose slots are
    observations.

    `x` has shape (variables,), or () for one variable; the variables of `y` follow. The result has shape
    (variables, variables), or () for one variable. Levels and errors are those of `var`.

    >>> secret.decrypt(hg.ckks.cov(x))[..., 0].round(3)
    array([[1.667, 1.667],
           [1.667, 1.667]])
    """
    v, count = _variables(x, y, "cov", 1 + _centring(x), keys)
    freedom = _freedom(count, ddof)
    c = _gram(_centred(v, None, count, 1 / math.sqrt(freedom)))
    c = c._narrowed(_core.ckks.with_covariances, v._core, count / freedom)
    return c[0, 0] if c.size == 1 else c


def corrcoef(
    x: Tensor,
    y: Tensor | None = None,
    *,
    variances: tuple[float, float],
    degree: int = 15,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the correlation coefficients of real variables, as `numpy.corrcoef`. Variables are as for `cov`.

    `variances` = (low, high) bounds the variances of all variables. A variance outside gives a wrong result without an
    error. 1/sqrt(variance) is approximated there by a polynomial of `degree`, with an error of about 2 / (1 + 2 / (sqrt(high
    / low) - 1)) ** degree.

    `corrcoef` takes `polynomial_depth(degree)` + 2 levels more than `cov`. If the coefficients are only decrypted, decrypt
    `cov` and divide in the clear instead.

    Raises LevelError, MissingKeyError, ShapeError, ParameterError, DtypeError for complex values.

    >>> deep = hg.SecretKey.generate(hg.ckks.parameters(depth=8, precision=25, slots=4))
    >>> rows = deep.encrypt([[1, 2, 3, 4], [1, 2, 3, 5]])  # two variables, four people
    >>> rows = hg.Server(deep.evaluation_keys(rotations=[1, 2])).bind(rows)
    >>> deep.decrypt(hg.ckks.corrcoef(rows, variances=(1, 3)))[..., 0].round(3)
    array([[1.   , 0.983],
           [0.983, 1.   ]])
    """
    low, high = _interval(variances)
    if whole(degree, "a degree") < 1:
        raise _core.ParameterError(f"the degree of corrcoef must be at least 1, not {degree}")
    v, count = _variables(x, y, "corrcoef", 3 + _centring(x) + polynomial_depth(degree), keys)
    if v.dtype == np.complex128:
        raise _core.DtypeError("corrcoef takes real variables, not complex ones; decrypt their cov and divide in the clear")
    # Scaled so that the sum of squares minus `middle` is in [-1, 1].
    z = _centred(v, None, count, math.sqrt(2 / ((high - low) * count)))
    middle = (high + low) / (high - low)

    def inverse_root(u: Any) -> Any:
        return 1 / np.sqrt(u + middle)

    coefficients = chebyshev.chebinterpolate(inverse_root, degree)
    inside = (_products(z, z, None) - middle).within(1)  # declared by the caller's `variances`
    c = _gram(z * inside._polynomial(coefficients, "chebyshev", "the variances of corrcoef"))
    return c[0, 0] if c.size == 1 else c


def _interval(variances: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in variances)
    except (TypeError, ValueError):
        raise _core.ParameterError(f"variances must be two numbers, (low, high), not {variances!r}") from None
    if not 0 < low < high < math.inf:
        raise _core.ParameterError(f"variances must be two positive numbers, the lower one first, not {variances!r}")
    return low, high


def _freedom(count: int, ddof: Any) -> int:
    if whole(ddof, "ddof") >= count:
        raise _core.ParameterError(f"ddof must be below the number of values, {count:,}, not {ddof}")
    return count - int(ddof)


def _sample(x: Tensor, axis: Any, what: str, levels: int, keys: EvaluationKeys | None) -> tuple[Tensor, int | None, int]:
    """Returns x with its keys and of degree one, the non-negative axis, and the number of values of one statistic."""
    of_tensors([x], Tensor, what)
    if x.level <= levels and not is_automatic():
        raise _core.LevelError(
            f"{what} takes {levels} level{'s' if levels > 1 else ''} here, but this tensor is at level {x.level} of "
            f"{x.parameters.levels} and has {x.level - 1} left. Choose parameters of greater depth"
        )
    if axis is None and x.ndim:
        raise _core.ShapeError(
            f'{what} of a tensor of shape {x.shape} needs an axis: pass axis="slots" for each ciphertext\'s own values, or '
            "the axis "
            "of ciphertexts whose values count together"
        )
    along = along_axis(x, "slots" if axis is None else axis)
    count = x.slots * (1 if along is None else x.shape[along])
    if count == 0:
        raise _core.ShapeError(f"cannot compute {what} of no values: the tensor has shape {x.shape}")
    own_keys = keys_of([x], keys, what)
    products, is_complex = what != "mean", what != "mean" and x.dtype == np.complex128
    period = x.parameters.period
    ask = f"rotations=hg.ckks.sum_rotations({period}){', conjugate=True' if is_complex else ''}"
    own_keys._require(what, sum_rotations(period), is_complex, relinearize=products, ask=ask)
    return ready(x, 1, own_keys).relinearize(keys=own_keys)._with_keys(own_keys), along, count


def _variables(x: Tensor, y: Tensor | None, what: str, levels: int, keys: EvaluationKeys | None) -> tuple[Tensor, int]:
    """Returns the ciphertexts of both tensors along one axis, and the number of values in each."""
    tensors = [x] if y is None else [x, y]
    of_tensors(tensors, Tensor, what)
    for t in tensors:
        if t.ndim > 1 or t.slots != x.slots or t.size == 0:
            shapes = " and ".join(f"{t.shape} of {t.slots:,} slots" for t in tensors)
            raise _core.ShapeError(f"{what} takes variables along one axis at most, of as many slots each, not {shapes}")
    own_keys = keys_of(tensors, keys, what)
    tensors = [ready(t, 1, own_keys) for t in tensors]
    level = min(t.level for t in tensors)
    rows = [_sample(t.lower(level), "slots", what, levels, own_keys)[0].reshape(-1) for t in tensors]
    return concatenate(rows), x.slots


def _centring(x: Any) -> int:
    """Returns the number of levels that `_centred` takes."""
    of_tensors([x], Tensor, "a statistic")
    return 1 if x.slots == x.parameters.period else 2


def _weighted(x: Tensor, weight: float) -> Tensor:
    """Returns x times a number without rescaling, so that a sum of such products is rescaled once.

    If the unused places have unknown content, the factor is a plaintext that clears them.
    """
    x = ready(x, 1, None)
    if x._core.tail_known:
        return x.multiply(weight, rescale=False)
    values = np.full(x.slots, weight, dtype=np.complex128)  # encoding fills unused places with zeros
    plain = _core.ckks.encode(x._core.parameters, values, False, x.level, factor_scale(x))
    return x.multiply(Plaintext(plain), rescale=False)


def _total(x: Tensor, along: int | None) -> Tensor:
    return (x if along is None else x.sum(along)).sum_slots()


def _mean(x: Tensor, along: int | None, count: int) -> Tensor:
    return _total(_weighted(x, 1 / count), along).rescale()


def _broadcast_back(x: Tensor, along: int | None) -> Tensor:
    """Inserts an axis of length 1 in place of the one that a sum removed."""
    return x if along is None else x.reshape(*x.shape[:along], 1, *x.shape[along:])


def _centred(x: Tensor, along: int | None, count: int, factor: float) -> Tensor:
    """Returns (x - mean) * factor in the slots and 0 in unused places. The factor takes no additional level."""
    if x.slots == x.parameters.period:  # one level suffices: no unused places must be cleared before the subtraction
        means = _broadcast_back(_total(x, along), along).multiply(factor / count, rescale=False)
        return (x.multiply(factor, rescale=False) - means).rescale()
    return _weighted(x - _broadcast_back(_mean(x, along, count), along), factor).rescale()


def _products(a: Tensor, b: Tensor, along: int | None) -> Tensor:
    """Returns the sum of a * b over slots and the axis, rescaled last for a single rounding error."""
    products = a.multiply(b, relinearize=False, rescale=False)
    return (products if along is None else products.sum(along)).relinearize().sum_slots().rescale()


def _gram(z: Tensor) -> Tensor:
    """Returns the sums over slots of z[i] * conj(z[j]), of shape (variables, variables), by one product for each pair."""
    z = ready(z, 1, None)
    count, is_complex = z.size, z.dtype == np.complex128
    other = z.conjugate() if is_complex else z
    rows = concatenate([z[i : i + 1].broadcast_to((count - i,)) for i in range(count)])
    right = concatenate([other[i:] for i in range(count)])
    upper = _products(rows, right, None)
    mirrored = upper.conjugate() if is_complex else upper
    place = np.zeros((count, count), dtype=int)
    place[np.triu_indices(count)] = np.arange(upper.size)
    entries = [
        (upper if i <= j else mirrored)[at : at + 1]
        for i in range(count)
        for j in range(count)
        for at in [int(place[min(i, j), max(i, j)])]
    ]
    return concatenate(entries).reshape(count, count)
