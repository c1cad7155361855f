"""Statistics of encrypted numbers: over the values that each ciphertext really has, `slots` of them, of any number.

What stands behind these values in a ciphertext does not count. Results are in every slot. All need the rotations `sum_rotations(parameters.period)`.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.polynomial import chebyshev

from heliograph import _core
from heliograph._arrays import whole
from heliograph._matrices import along_axis
from heliograph._shapes import keys_of, of_tensors
from heliograph.ckks.automatic import is_automatic, ready
from heliograph.ckks.functions import polynomial_depth
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Plaintext, Tensor, factor_scale, sum_rotations
from heliograph.functions import concatenate


def mean(x: Tensor, axis: int | Literal["slots"] | None = None, *, keys: EvaluationKeys | None = None) -> Tensor:
    """The mean of each ciphertext's values, axis="slots", the default for one ciphertext, a vector; with an integer of all values
    along that ciphertext axis, which goes. Of several ciphertexts the axis is to be named. One level.

    Raises LevelError, MissingKeyError, ShapeError.

    >>> secret.decrypt(hg.ckks.mean(x, "slots")).round(4)[:, 0]
    array([2. , 2.5])
    """
    x, along, count = _sample(x, axis, "mean", 1, keys)
    return _mean(x, along, count)


def var(
    x: Tensor, axis: int | Literal["slots"] | None = None, *, ddof: int = 0, keys: EvaluationKeys | None = None
) -> Tensor:
    """The mean squared distance from the mean, values taken together as by `mean`; divided by their number less `ddof`, as
    NumPy's. Two levels where the slots are as many as the set's `period`, else three. Complex values need the conjugation key.

    Raises LevelError, MissingKeyError, ShapeError, ParameterError for as many degrees of freedom as values.

    >>> secret.decrypt(hg.ckks.var(x, "slots")).round(4)[:, 0]
    array([1.25, 1.25])
    """
    x, along, count = _sample(x, axis, "var", 1 + _centring(x), keys)
    freedom = _freedom(count, ddof)
    z = ready(_centred(x, along, count, 1 / math.sqrt(freedom)), 1, None)
    made = _products(z, z.conjugate() if z.dtype == np.complex128 else z, along)
    return made._narrowed(_core.ckks_with_variances, x._core, count / freedom)


def cov(x: Tensor, y: Tensor | None = None, *, ddof: int = 1, keys: EvaluationKeys | None = None) -> Tensor:
    """The covariances of variables, each a ciphertext whose slots are the observations: x of shape (variables,), or () for one,
    and y's after them. Shape (variables, variables), or () of one alone, as `numpy.cov`. Levels and errors as `var`.

    >>> secret.decrypt(hg.ckks.cov(x))[..., 0].round(3)
    array([[1.667, 1.667],
           [1.667, 1.667]])
    """
    v, count = _variables(x, y, "cov", 1 + _centring(x), keys)
    freedom = _freedom(count, ddof)
    c = _gram(_centred(v, None, count, 1 / math.sqrt(freedom)))
    c = c._narrowed(_core.ckks_with_covariances, v._core, count / freedom)
    return c[0, 0] if c.size == 1 else c


def corrcoef(
    x: Tensor,
    y: Tensor | None = None,
    *,
    variances: tuple[float, float],
    degree: int = 15,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """The correlation coefficients of real variables, given as to `cov`, as `numpy.corrcoef`.

    `variances` = (low, high): between them lie the variances of all variables; 1/sqrt(variance) is a polynomial of `degree`
    there, so that coefficients are right to about 2 / (1 + 2 / (sqrt(high / low) - 1)) ** degree; nothing notices a variance
    outside. It takes `polynomial_depth(degree)` and two levels more than `cov`: where the coefficients are only decrypted, the
    owner of the key had better divide what `cov` decrypts to.

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
        raise _core.ParameterError(f"a degree is at least 1 here, not {degree}")
    v, count = _variables(x, y, "corrcoef", 3 + _centring(x) + polynomial_depth(degree), keys)
    if v.dtype == np.complex128:
        raise _core.DtypeError("corrcoef takes real variables: of complex ones divide what cov decrypts to")
    # Scaled so that the sum of squares, less `middle`, lies in [-1, 1].
    z = _centred(v, None, count, math.sqrt(2 / ((high - low) * count)))
    middle = (high + low) / (high - low)

    def inverse_root(u: Any) -> Any:
        return 1 / np.sqrt(u + middle)

    coefficients = chebyshev.chebinterpolate(inverse_root, degree)
    inside = (_products(z, z, None) - middle).within(1)  # by the caller's `variances`
    c = _gram(z * inside.polynomial(coefficients, "chebyshev"))
    return c[0, 0] if c.size == 1 else c


def _interval(variances: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in variances)
    except (TypeError, ValueError):
        raise _core.ParameterError(f"variances are between two numbers, not {variances!r}") from None
    if not 0 < low < high < math.inf:
        raise _core.ParameterError(f"variances lie between two positive numbers, the lower one first, not {variances!r}")
    return low, high


def _freedom(count: int, ddof: Any) -> int:
    if whole(ddof, "ddof") >= count:
        raise _core.ParameterError(f"ddof is {ddof} for {count:,} values: nothing is left to divide by")
    return count - int(ddof)


def _sample(x: Tensor, axis: Any, what: str, levels: int, keys: EvaluationKeys | None) -> tuple[Tensor, int | None, int]:
    """x with keys, of degree one; the axis from the front; how many values are taken together."""
    of_tensors([x], Tensor, what)
    if x.level <= levels and not is_automatic():
        raise _core.LevelError(
            f"{what} takes {levels} level{'s' if levels > 1 else ''} here, and this tensor is at level {x.level} of "
            f"{x.parameters.levels}, where {x.level - 1} can be taken. Choose parameters of greater depth"
        )
    if axis is None and x.ndim:
        raise _core.ShapeError(
            f'{what} of a tensor of shape {x.shape}: say axis="slots" for each ciphertext\'s own values, or the axis of ciphertexts '
            "whose values are taken together"
        )
    along = along_axis(x, "slots" if axis is None else axis)
    count = x.slots * (1 if along is None else x.shape[along])
    if count == 0:
        raise _core.ShapeError(f"{what} of no values: the tensor's shape is {x.shape}")
    found = keys_of([x], keys, what)
    products, is_complex = what != "mean", what != "mean" and x.dtype == np.complex128
    period = x.parameters.period
    ask = f"rotations=hg.ckks.sum_rotations({period}){', conjugate=True' if is_complex else ''}"
    found._require(what, sum_rotations(period), is_complex, relinearize=products, ask=ask)
    return ready(x, 1, found).relinearize(keys=found)._with_keys(found), along, count


def _variables(x: Tensor, y: Tensor | None, what: str, levels: int, keys: EvaluationKeys | None) -> tuple[Tensor, int]:
    """The ciphertexts of both in a row, and how many values each has."""
    given = [x] if y is None else [x, y]
    of_tensors(given, Tensor, what)
    for t in given:
        if t.ndim > 1 or t.slots != x.slots or t.size == 0:
            shapes = " and ".join(f"{t.shape} of {t.slots:,} slots" for t in given)
            raise _core.ShapeError(f"{what} takes variables along one axis at most, of as many slots each, not {shapes}")
    found = keys_of(given, keys, what)
    given = [ready(t, 1, found) for t in given]
    level = min(t.level for t in given)
    rows = [_sample(t.lower(level), "slots", what, levels, found)[0].reshape(-1) for t in given]
    return concatenate(rows), x.slots


def _centring(x: Any) -> int:
    """Levels that `_centred` takes."""
    of_tensors([x], Tensor, "a statistic")
    return 1 if x.slots == x.parameters.period else 2


def _weighted(x: Tensor, weight: float) -> Tensor:
    """x times a number, not rescaled: sums of it are rescaled once. What stands behind the values is hidden on the way where
    nobody knows it.
    """
    x = ready(x, 1, None)
    if x._core.tail_known:
        return x.multiply(weight, rescale=False)
    values = np.full(x.slots, weight, dtype=np.complex128)  # zeros behind them
    plain = _core.ckks_encode(x._core.parameters, values, False, x.level, factor_scale(x))
    return x.multiply(Plaintext(plain), rescale=False)


def _total(x: Tensor, along: int | None) -> Tensor:
    return (x if along is None else x.sum(along)).sum_slots()


def _mean(x: Tensor, along: int | None, count: int) -> Tensor:
    return _total(_weighted(x, 1 / count), along).rescale()


def _kept(x: Tensor, along: int | None) -> Tensor:
    """The axis that a sum took away, of length 1."""
    return x if along is None else x.reshape(*x.shape[:along], 1, *x.shape[along:])


def _centred(x: Tensor, along: int | None, count: int, factor: float) -> Tensor:
    """(x - mean) * factor in x's slots, 0 in the others. The factor comes before squares are summed: it costs no level there."""
    if x.slots == x.parameters.period:  # in one level: nothing has to be hidden between the mean and its difference
        means = _kept(_total(x, along), along).multiply(factor / count, rescale=False)
        return (x.multiply(factor, rescale=False) - means).rescale()
    return _weighted(x - _kept(_mean(x, along, count), along), factor).rescale()


def _products(a: Tensor, b: Tensor, along: int | None) -> Tensor:
    """The sum of a * b over slots and the axis: rescaled last, so that the sum has one rounding error and not one a slot."""
    products = a.multiply(b, relinearize=False, rescale=False)
    return (products if along is None else products.sum(along)).relinearize().sum_slots().rescale()


def _gram(z: Tensor) -> Tensor:
    """The sums over slots of z[i] * conj(z[j]), of shape (variables, variables): a product for each pair."""
    z = ready(z, 1, None)
    count, is_complex = z.size, z.dtype == np.complex128
    other = z.conjugate() if is_complex else z
    left = concatenate([z[i : i + 1].broadcast_to((count - i,)) for i in range(count)])
    right = concatenate([other[i:] for i in range(count)])
    upper = _products(left, right, None)
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
