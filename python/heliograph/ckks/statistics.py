"""Statistics of numbers encrypted by CKKS, over the `slots` values of each ciphertext, for any number of slots.

Unused places do not count. Every slot holds the result. All functions need the rotations `sum_rotations(parameters.period)`.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from heliograph import _core
from heliograph._common.arguments import described, interval_of, is_finite_real, whole
from heliograph._common.functions import concatenate
from heliograph._common.matrices import along_axis
from heliograph._common.tensor import keys_of, of_tensors
from heliograph.ckks.approximation import error_bound, errors_of, inside, with_errors, without_errors
from heliograph.ckks.automatic import is_automatic, ready
from heliograph.ckks.elementary import inverse_root, inverse_root_from_zero
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.tensor import Plaintext, Tensor, factor_scale, sum_rotations

_LEAST = 2.0**-4  #: default `least`, as a fraction of the largest standard deviation


def mean(x: Tensor, axis: int | Literal["slots"] | None = None, *, keys: EvaluationKeys | None = None) -> Tensor:
    """Returns the mean, in every slot. The mean takes one level.

    With ``axis="slots"``, the default for one ciphertext, the function returns the mean of each ciphertext's values. With
    an integer, it returns the mean of all values along that axis of ciphertexts, which is removed. A tensor of several
    ciphertexts needs `axis`.

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
    least: float | None = None,
    domain: tuple[float, float] | None = None,
    error: float = 2.0**-12,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns the correlation coefficients of real variables, as `numpy.corrcoef`. Variables are as for `cov`.

    Divisions by a standard deviation have a relative error of at most `error`, for standard deviations of at least `least`.
    The default of `least` is 2^-4 of the largest deviation that the tensor's `bounds` allow. A variable of a smaller
    deviation has coefficients nearer to 0; its entry on the diagonal shows the factor, and is 0 for a constant.

    A larger `least` and narrower bounds take fewer levels. `domain` = (low, high) declares an interval of all variances
    instead. A declared interval takes the fewest levels, and decryption raises OutOfIntervalError if a variance is outside.
    `precision` of the result is None.

    If the coefficients are only decrypted, decrypt `cov` and divide in the clear instead.

    Raises LevelError, MissingKeyError, ShapeError, DtypeError for complex values, NoiseError if the noise is above `error`.
    Raises ParameterError for a tensor without bounds, a wrong interval, or an error that is not reached.

    >>> deep = hg.SecretKey.generate(hg.ckks.parameters(depth=18, precision=25, slots=4))
    >>> rows = deep.encrypt([[1, 2, 3, 4], [1, 2, 3, 5]], bound=(1, 5))  # two variables, four people
    >>> rows = hg.Server(deep.evaluation_keys(rotations=[1, 2])).bind(rows)
    >>> deep.decrypt(hg.ckks.corrcoef(rows, least=0.5))[..., 0].round(3)
    array([[1.   , 0.983],
           [0.983, 1.   ]])
    """
    v, count = _variables(x, y, "corrcoef", 2 + _centring(x), keys)
    _require_real(v, "corrcoef")
    division = Division(v, least, domain, error, "corrcoef")
    z = _centred(v, None, count, 1 / math.sqrt(count) / division.largest)
    c = _gram(division.of(z, _products(z, z, None), 1.0))
    c = inside(c, -1 - 2.0**-8, 1 + 2.0**-8)
    return c[0, 0] if c.size == 1 else c


def standardize(
    x: Tensor,
    axis: int | Literal["slots"] | None = None,
    *,
    ddof: int = 0,
    least: float | None = None,
    domain: tuple[float, float] | None = None,
    error: float = 2.0**-12,
    keys: EvaluationKeys | None = None,
) -> Tensor:
    """Returns (x - mean) / standard deviation of real values. `axis` and `ddof` are as for `var`.

    `least`, `domain` and `error` are as for `corrcoef`. Values whose deviation is below `least` are nearer to 0, and a
    constant gives 0. Other results r have an error of at most `error` times 1 + |r|, noise included.

    Raises the errors of `corrcoef`.

    >>> deep = hg.SecretKey.generate(hg.ckks.parameters(depth=17, precision=25, slots=4))
    >>> row = hg.Server(deep.evaluation_keys(rotations=[1, 2])).bind(deep.encrypt([1, 2, 3, 4], bound=(1, 4)))
    >>> deep.decrypt(hg.ckks.standardize(row, least=0.5)).round(3)
    array([-1.342, -0.447,  0.447,  1.342])
    """
    x, along, count = _sample(x, axis, "standardize", 2 + _centring(x), keys)
    _require_real(x, "standardize")
    freedom = _freedom(count, ddof)
    division = Division(x, least, domain, error, "standardize")
    z = _centred(x, along, count, 1 / math.sqrt(freedom) / division.largest)
    squares = _broadcast_back(_products(z, z, along), along)
    return division.of(_centred(x, along, count, 1 / division.largest), squares, math.sqrt(freedom))


def _require_real(x: Tensor, what: str) -> None:
    if x.dtype == np.complex128:
        raise _core.DtypeError(f"{what} takes real variables, not complex ones; decrypt their cov and divide in the clear")


class Division:
    """Divides centred values by their standard deviation.

    `largest` is the largest deviation: variances of values divided by `largest` are at most 1.
    """

    def __init__(self, x: Tensor, least: Any, domain: Any, error: Any, what: str) -> None:
        self.error, self.what = error_bound(error), what
        if domain is not None:
            if least is not None:
                raise _core.ParameterError(f"{what} takes least= or domain=, not both: domain bounds the variances")
            low, high = interval_of(domain)
            if not 0 < low < high:
                raise _core.ParameterError(
                    f"domain must be two positive numbers, the lower one first, that bound the variances; got {domain!r}"
                )
            self.largest, self.low, self.is_declared = math.sqrt(high), low / high, True
            return
        if x.bounds is None:
            raise _core.ParameterError(
                f"{what} needs an interval of the values: this tensor has no bounds; declare one by within, or pass "
                "domain=(low, high) of the variances"
            )
        low, high = x.bounds
        self.largest = (high - low) / 2 or 1.0  # Popoviciu's inequality
        if least is not None and (not is_finite_real(least) or not least > 0):
            raise _core.ParameterError(f"least must be a number above 0, not {described(least)}")
        if least is not None and least > self.largest:
            raise _core.ParameterError(
                f"least must be at most {self.largest:.6g}, the largest deviation of values in [{low:.6g}, {high:.6g}]; got "
                f"{least:.6g}"
            )
        share = _LEAST if least is None else float(least) / self.largest
        self.low, self.is_declared = min(share, 1 - 2.0**-10) ** 2, False

    def of(self, z: Tensor, variance: Tensor, most: float) -> Tensor:
        """Returns z / sqrt(variance), at most `most`, of values divided by `largest`. The result's precision is None."""
        noise = errors_of(z)[1], errors_of(variance)[1]
        v = with_errors(variance, (math.nan, noise[1]))
        v = v.within((self.low, 1.0)) if self.is_declared else inside(v, 0.0, 1.0)
        if self.is_declared:
            y, relative, rounding = inverse_root(v, self.low, 1.0, self.error / 2, f"the variances of {self.what}")
            relative += rounding
        else:
            y, relative = inverse_root_from_zero(v, self.low, 1.0, self.error / 2, f"the variances of {self.what}")
        result = ready(without_errors(z), 1, None) * without_errors(y)
        share = relative + 0.51 * noise[1] / self.low  # relative error of the result
        rest = 1.01 * noise[0] / math.sqrt(self.low) + errors_of(result)[1]
        if not share + rest <= self.error:
            raise _core.NoiseError(
                f"{self.what}: the error is at most 2^{math.log2(share + rest):.1f} for deviations from "
                f"{math.sqrt(self.low) * self.largest:.6g} on, above the 2^{math.log2(self.error):.1f} asked for; encrypt "
                "with a set of higher precision, or pass a larger least= or error="
            )
        return inside(with_errors(result, (math.nan, most * share + rest)), -1.01 * most, 1.01 * most)


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
