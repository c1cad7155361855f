"""Columns of an encrypted frame, and sums of their products, from which the owner finishes statistics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np

from heliograph import _core, bgv
from heliograph._common.arguments import described, is_real, is_whole, printable
from heliograph.ckks.approximation import error_bound
from heliograph.frame import functions
from heliograph.frame.answers import Answer, Variable
from heliograph.frame.functions import joint, rows_of, times, unit_values
from heliograph.frame.order import order_sums
from heliograph.frame.parameters import Parameters


@dataclass(frozen=True, eq=False)
class Series:
    """An encrypted column. Operators are those of pandas: ``+``, ``-``, ``*`` and powers, of columns of one kind and
    numbers.

    If an operand is NULL in a row, the result is NULL in this row. Exact columns take integers and decimals, and become
    reals only by `astype`.

    >>> f["price"] * 1.2 + 3
    <encrypted column of 4 reals, with NULLs>
    >>> f["price"] * f["quantity"]
    Traceback (most recent call last):
        ...
    heliograph.DtypeError: price is real and quantity is exact: write quantity.astype(float), or declare both alike
    """

    parameters: Parameters
    frame_id: str  #: rows of equal frames are in the same order
    variable: Variable  #: name, kind and scale
    tensor: Any = field(repr=False)  #: [blocks], 0 for NULL: the value is scale * tensor + offset
    valid: Any = field(default=None, repr=False)  #: [blocks], 1 unless NULL; None if no row is NULL
    copy: Series | None = field(default=None, repr=False)  #: the same column as reals
    step: float = 0.0  #: all values are multiples of this step; 0 if the values may be any reals
    limits: tuple[float, float] | None = None  #: interval of the values that are not NULL; None if unknown or exact

    @property
    def name(self) -> str:
        """The column's name."""
        return self.variable.name

    @property
    def is_exact(self) -> bool:
        """Whether values are exact, by BGV."""
        return self.variable.exact

    def __repr__(self) -> str:
        kind = "exact numbers" if self.is_exact else "reals"
        null = ", with NULLs" if self.valid is not None else ""
        return f"<encrypted column of {self.parameters.rows:,} {kind}{null}>"

    def rename(self, name: str) -> Series:
        """Returns the column with another name in results.

        >>> (f["price"] * 2).rename("double").name
        'double'
        """
        return replace(self, variable=replace(self.variable, name=name))

    def astype(self, kind: Any) -> Series:
        """Returns the column as reals, for ``astype(float)``: its copy by CKKS. Raises DtypeError, ParameterError.

        >>> f["quantity"].astype(float)
        <encrypted column of 4 reals>
        """
        if kind not in (float, "float", "float64", np.float64):
            raise _core.DtypeError(f"an encrypted column becomes float only, not {described(kind)}")
        if not self.is_exact:
            return self
        if self.copy is None:
            raise _core.ParameterError(
                f"{printable(self.name)} has no copy as reals: make the frame with parameters_for(..., copies=True), and "
                "call astype before other operations"
            )
        return self.copy

    # Operators

    def __add__(self, other: Any) -> Series:
        if isinstance(other, Series):
            return self._sum(other)
        if not self.is_exact:
            number = _real(other)
            limits = None if self.limits is None else (self.limits[0] + number, self.limits[1] + number)
            step = functions.common_step(self.step, number)
            return self._derived(self.tensor, limits=limits, step=step, offset=self.variable.offset + number)
        integer, places = _integer(other, self.name)
        shift = max(places, self.variable.places)
        x = self.tensor * 10 ** (shift - self.variable.places)
        factor = integer * 10 ** (shift - places)
        ones = bgv.encode(x.parameters, self._ones() * factor) if self.valid is None else self.valid * factor
        return self._derived(x + ones, places=shift)

    def __mul__(self, other: Any) -> Series:
        if isinstance(other, Series):
            return self._product(other)
        v = self.variable
        if not self.is_exact:
            number = _real(other)
            if number == 0:
                raise _core.ParameterError("a column times 0 is constant; omit it")
            limits = functions.product_of(self.limits, (number, number))
            step = self.step * abs(number)
            return self._derived(self.tensor, limits=limits, step=step, scale=v.scale * number, offset=v.offset * number)
        integer, places = _integer(other, self.name)
        return self._derived(self.tensor * integer, places=v.places + places)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Series:
        return self.__mul__(-1)

    def __sub__(self, other: Any) -> Series:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Series:
        return (-self).__add__(other)

    def __truediv__(self, other: Any) -> Series:
        if isinstance(other, Series):
            return self.divide(other)
        functions.require_reals(self, "a quotient")
        number = _real(other)
        if number == 0:
            raise _core.ParameterError("cannot divide a column by 0")
        return self * (1 / number)

    def __rtruediv__(self, other: Any) -> Series:
        functions.require_reals(self, "a quotient")
        return _series(functions.quotient(_real(other), self, None, functions.DEFAULT_ERROR, f"1 / {self.name}"))

    def __gt__(self, other: Any) -> Series:
        return self.gt(other)

    def __lt__(self, other: Any) -> Series:
        return self.lt(other)

    def __ge__(self, other: Any) -> Series:
        return self.ge(other)

    def __le__(self, other: Any) -> Series:
        return self.le(other)

    def __eq__(self, other: object) -> Any:
        return self.eq(other)

    def __ne__(self, other: object) -> Any:
        return self.ne(other)

    def __pow__(self, power: Any) -> Series:
        if not is_whole(power) or power < 1:
            raise _core.ParameterError(f"a power of a column must be an integer of at least 1, got {described(power)}")
        if power == 1:
            return self
        half: Series = self ** (power // 2)
        square = half._product(half)
        return square._product(self) if power % 2 else square

    def __bool__(self) -> bool:
        raise TypeError("an encrypted column has no truth value: decrypt it with its secret key")

    def _derived(self, tensor: Any, valid: Any = None, *, limits: Any = None, step: float = 0.0, **changes: Any) -> Series:
        variable: Variable = replace(self.variable, binary=False, **changes)
        valid = self.valid if valid is None else valid
        return replace(self, tensor=tensor, valid=valid, variable=variable, copy=None, step=step, limits=limits)

    def _ones(self) -> Any:
        """Returns 1 in rows that are not NULL, an array or a tensor, [blocks, slots] or [blocks]."""
        return rows_of(self.parameters, "bgv" if self.is_exact else "ckks") if self.valid is None else self.valid

    def _require(self, other: Series) -> None:
        if self.frame_id != other.frame_id:
            raise _core.MismatchError(
                f"{printable(self.name)} and {printable(other.name)} are of different frames, whose rows may be in "
                "different orders: encrypt both columns in one frame"
            )
        if self.is_exact != other.is_exact:
            exact, real = (self, other) if self.is_exact else (other, self)
            raise _core.DtypeError(
                f"{printable(real.name)} is real and {printable(exact.name)} is exact: write {exact.name}.astype(float), or "
                "declare both alike"
            )

    def _sum(self, other: Series) -> Series:
        self._require(other)
        a, b = self.variable, other.variable
        name = f"{a.name} + {b.name}"
        x = self.tensor if other.valid is None else self.tensor * other.valid
        y = other.tensor if self.valid is None else other.tensor * self.valid
        valid = joint(self.valid, other.valid)
        if self.is_exact:
            places = max(a.places, b.places)
            x, y = x * 10 ** (places - a.places), y * 10 ** (places - b.places)
            return self._derived(x + y, valid, name=name, places=places)
        scale = max(abs(a.scale), abs(b.scale))
        x, y = times(x, a.scale / scale), times(y, b.scale / scale)
        error = a.error * abs(a.scale / scale) + b.error * abs(b.scale / scale)
        limits = None
        if self.limits is not None and other.limits is not None:
            limits = self.limits[0] + other.limits[0], self.limits[1] + other.limits[1]
        step = self.step if self.step == other.step else 0.0
        known: dict[str, Any] = {"limits": limits, "step": step, "error": error}
        return self._derived(x + y, valid, name=name, scale=scale, offset=a.offset + b.offset, **known)

    def _product(self, other: Series) -> Series:
        self._require(other)
        a, b = self.variable, other.variable
        name, valid = f"{a.name} * {b.name}", joint(self.valid, other.valid)
        if self.is_exact:
            return self._derived(self.tensor * other.tensor, valid, name=name, places=a.places + b.places)
        (x, unit), (y, other_unit) = unit_values(self), unit_values(other)
        error = a.error * abs(a.scale) / unit + b.error * abs(b.scale) / other_unit
        limits = functions.square_of(self.limits) if self is other else functions.product_of(self.limits, other.limits)
        known: dict[str, Any] = {"limits": limits, "step": self.step * other.step, "error": error}
        return self._derived(x * y, valid, name=name, scale=unit * other_unit, offset=0.0, **known)

    # Functions

    def divide(
        self, other: Series, *, domain: tuple[float, float] | None = None, error: float = functions.DEFAULT_ERROR
    ) -> Series:
        """Returns quotients of reals. The interval of `other`, by its bounds, must not contain 0.

        `domain` = (low, high) declares another interval of `other`; decryption raises OutOfIntervalError for values outside.
        `error` is the error of 1 / other, relative to the largest value of 1 / other. The division takes the levels of
        `hg.ckks.inverse` and one more. ``a / b`` is ``a.divide(b)``.

        Raises ParameterError for an interval with 0, DtypeError for an exact column, MismatchError, LevelError.

        >>> rows = {"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 1.0]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows, depth=10))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> round(key.decrypt((g["a"] / g["b"]).sum()), 3)
        4.0
        """
        if not isinstance(other, Series):
            raise _core.DtypeError(f"divide takes a column, got {described(other)}; write column / number")
        for one in (self, other):
            functions.require_reals(one, "a quotient")
        self._require(other)
        name = f"{self.name} / {other.name}"
        return _series(functions.quotient(self, other, domain, error_bound(error), name))

    def clip(self, lower: float | None = None, upper: float | None = None, *, error: float = 2.0**-10) -> Series:
        """Returns values limited to [lower, upper]; None means no limit on this side.

        `error` is relative to half the interval of the column. The function takes the levels of `hg.ckks.clip` and one
        more. Raises ParameterError unless the lower limit is below the upper one and values may be between them,
        DtypeError, LevelError.

        >>> rows = {"a": [1.0, 2.0, 9.0]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows, depth=14))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> round(key.decrypt(g["a"].clip(upper=4, error=2**-6).sum()), 1)
        7.0
        """
        return _series(functions.clipped(self, lower, upper, error_bound(error)))

    def gt(self, other: Any, *, gap: float | None = None, error: float | None = None) -> Series:
        """Returns 1 in rows with a value above `other`, a number or a column of reals, and 0 in other rows. In rows of NULL,
        the result is NULL.

        Values at least `gap` from `other` give 1 or 0, each with an error of at most `error`; nearer values give a number
        between 0 and 1. An exact column that became reals by `astype` needs no gap. ``x > 3`` is ``x.gt(3)``; the methods
        `lt`, `ge`, `le`, `eq` and `ne` implement the other operators. `eq` gives 1 up to a distance of gap/2, and 0 from a
        distance of 3/2 gap on.

        The comparison takes the levels of `hg.ckks.compare` and one more. With the default `error`, sums over rows are
        within 1/8 of the count. Raises ParameterError without a gap for other reals, DtypeError for an exact column,
        NoiseError, LevelError.

        >>> rows = {"n": [1, 2, 3, 5]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows, depth=14))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> round(key.decrypt((g["n"].astype(float) > 2).sum()), 3)
        2.0
        """
        return _series(functions.compared(self, ">", other, gap, error))

    def lt(self, other: Any, *, gap: float | None = None, error: float | None = None) -> Series:
        """Same as `hg.frame.Series.gt`, for values below `other`."""
        return _series(functions.compared(self, "<", other, gap, error))

    def ge(self, other: Any, *, gap: float | None = None, error: float | None = None) -> Series:
        """Same as `hg.frame.Series.gt`, for values of at least `other`."""
        return _series(functions.compared(self, ">=", other, gap, error))

    def le(self, other: Any, *, gap: float | None = None, error: float | None = None) -> Series:
        """Same as `hg.frame.Series.gt`, for values of at most `other`."""
        return _series(functions.compared(self, "<=", other, gap, error))

    def eq(self, other: Any, *, gap: float | None = None, error: float | None = None) -> Series:
        """Same as `hg.frame.Series.gt`, for values equal to `other`."""
        return _series(functions.compared(self, "==", other, gap, error))

    def ne(self, other: Any, *, gap: float | None = None, error: float | None = None) -> Series:
        """Same as `hg.frame.Series.gt`, for values that differ from `other`."""
        return _series(functions.compared(self, "!=", other, gap, error))

    def where(self, condition: Series) -> Series:
        """Returns the column with NULL in rows where the condition is 0 or NULL. The condition is a column of truth values
        of the same kind, or a result of a comparison.

        >>> rows = {"n": [1, 2, 3], "new": [True, False, True]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> key.decrypt(g["n"].where(g["new"]).mean())
        2.0
        """
        return _series(functions.chosen(self, condition))

    def standardize(
        self, std: tuple[float, float] | None = None, *, least: float | None = None, error: float = 2.0**-12
    ) -> Series:
        """Returns (value - mean) / standard deviation, encrypted, for further operations. The standard deviation divides by
        the number of rows.

        The result holds if the deviation is at least `least`, by default 2^-4 of the largest deviation that the column's
        bounds allow. If the deviation of a column is smaller, the result is nearer to 0. `std` = (low, high) bounds the
        deviation
        instead: fewer levels, and decryption raises OutOfIntervalError for a deviation outside. `error` is relative to the
        result.

        The call takes the levels of `hg.ckks.standardize` and two more, and the rotations of
        ``evaluation_keys(standardize=True)``.

        Raises DtypeError for an exact column, ParameterError for a column with NULLs, NoiseError, LevelError,
        MissingKeyError.

        >>> heights = {"height": [1.6, 1.7, 1.8, 1.9]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(heights, depth=14))
        >>> h = hg.frame.Server(key.evaluation_keys(standardize=True)).bind(key.encrypt(heights))
        >>> z = h["height"].standardize((0.05, 0.2))
        >>> round(key.decrypt((z * z).sum()), 3)
        4.0
        """
        return _series(functions.standardized(self, std, least, error_bound(error)))

    # Statistics

    def sum(self) -> Answer:
        """Returns the encrypted sum; the owner decrypts a number.

        >>> owner.decrypt(f["quantity"].sum())
        16
        """
        return statistic("sum", [self], single=True)

    def count(self) -> Answer:
        """Returns the encrypted number of values that are not NULL.

        >>> owner.decrypt(f["price"].count())
        3
        """
        return statistic("count", [self], single=True)

    def mean(self) -> Answer:
        """Returns the encrypted mean.

        >>> owner.decrypt(f["quantity"].mean())
        4.0
        """
        return statistic("mean", [self], single=True)

    def var(self, *, ddof: int = 1) -> Answer:
        """Returns the encrypted variance.

        >>> round(owner.decrypt(f["price"].var()), 4)
        100.0
        """
        return statistic("var", [self], single=True, ddof=ddof)

    def std(self, *, ddof: int = 1) -> Answer:
        """Returns the encrypted standard deviation, of which the owner takes the root.

        >>> round(owner.decrypt(f["price"].std()), 4)
        10.0
        """
        return statistic("std", [self], single=True, ddof=ddof)

    def quantile(self, q: float | Sequence[float] = 0.5, *, bins: int = 64) -> Answer:
        """Returns encrypted counts of values below public limits, from which the owner finds quantiles.

        The limits divide the column's interval into `bins`. A quantile of reals has an error of at most 3/2 of a bin, and
        mostly far less. A column of at most `bins` + 1 integers or decimals, as reals by `astype`, has exact quantiles.
        Each limit between bins takes a comparison of the column. Interpolation is linear, as in pandas.

        The counts take the levels of `hg.ckks.compare` for a gap of 1/4 of a bin, and one more. Raises ParameterError,
        DtypeError for an exact column, NoiseError, LevelError.

        >>> rows = {"n": [1, 2, 3, 5]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows, depth=14))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> key.decrypt(g["n"].astype(float).quantile([0.5, 0.9])).round(2)
        0.5    2.5
        0.9    4.4
        Name: n, dtype: float64
        """
        return ordered("quantile", [self], q, bins, single=True)

    def median(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.Series.quantile`, for the median."""
        return ordered("quantile", [self], 0.5, bins, single=True)

    def min(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.Series.quantile`, for the smallest value."""
        return ordered("quantile", [self], 0.0, bins, single=True)

    def max(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.Series.quantile`, for the largest value."""
        return ordered("quantile", [self], 1.0, bins, single=True)

    def cov(self, other: Series, *, ddof: int = 1) -> Answer:
        """Returns the encrypted covariance with another column of the same kind.

        >>> round(owner.decrypt(f["price"].cov(f["quantity"].astype(float))), 4)
        -10.0
        """
        return statistic("cov", [self, other], single=True, ddof=ddof)

    def corr(self, other: Series) -> Answer:
        """Returns the encrypted correlation with another column of the same kind.

        >>> round(owner.decrypt(f["price"].corr(f["quantity"].astype(float))), 3)
        -0.397
        """
        return statistic("corr", [self, other], single=True)


def _series(found: Any) -> Series:
    made: Series = found
    return made


def _real(number: Any) -> float:
    if not functions.is_number(number):
        raise _core.DtypeError(f"a column of reals takes columns and finite numbers, got {described(number)}")
    return float(number)


def _integer(number: Any, name: str) -> tuple[int, int]:
    """Returns a number as an integer and its decimal places."""
    if is_whole(number) and not isinstance(number, (bool, np.bool_)):
        return int(number), 0
    if isinstance(number, Decimal) and number.is_finite():
        places = max(0, -int(number.as_tuple().exponent))
        return int(number.scaleb(places)), places
    raise _core.DtypeError(
        f"the exact column {printable(name)} takes integers and decimal.Decimal, got {described(number)}; write "
        f"{name}.astype(float) to compute with reals"
    )


# Sums


class Sums:
    """Encrypted sums over rows, by label. The owner adds the slots."""

    def __init__(self) -> None:
        self.tensors: dict[str, dict[str, Any]] = {"ckks": {}, "bgv": {}}

    def add(self, scheme: str, label: tuple[Any, ...], a: Any, b: Any = None) -> None:
        """Adds the sum of a * b over rows, or the sum of a if there is no b."""
        text = " ".join(map(str, label))
        if text in self.tensors[scheme]:
            return
        if b is None:
            total = a.sum(0)
        elif scheme == "ckks":
            total = a.multiply(b, relinearize=False, rescale=False).sum(0).relinearize().rescale()
        else:
            total = (a * b).sum(0).relinearize()
        self.tensors[scheme][text] = total

    def moments(
        self, series: Sequence[Series], pairs: Iterable[tuple[int, int]], group: int, weight: dict[str, Any], squares: bool
    ) -> None:
        """Adds counts, sums and products of pairs of columns, times a weight of 0 or 1, over rows where both columns have
        values.

        """
        weighted: dict[int, tuple[Any, Any]] = {}
        for i, one in enumerate(series):
            w = weight.get(_scheme(one))
            valid = joint(one.valid, w)
            weighted[i] = one.tensor if w is None else one.tensor * w, valid
        for i, j in pairs:
            scheme = _scheme(series[i])
            (x, v), (y, _) = weighted[i], weighted[j]
            other_x, other_y = series[j].valid, series[i].valid
            if other_x is not None or other_y is not None:
                self.add(scheme, ("n", group, i, j), v if i == j or other_x is None else joint(v, other_x))
            if i == j:
                self.add(scheme, ("x", group, i, i), x)
            else:
                self.add(scheme, ("x", group, i, j), x, other_x)
                self.add(scheme, ("x", group, j, i), y, other_y)
            if squares:
                self.add(scheme, ("xy", group, i, j), x, series[j].tensor)
            if squares and i != j:  # squares over the rows of the pair
                for a, b, t, valid in ((i, j, x, other_x), (j, i, y, other_y)):
                    if valid is not None:
                        self.add(scheme, ("xx", group, a, b), t * valid, t)


def _scheme(one: Series) -> str:
    return "bgv" if one.is_exact else "ckks"


def statistic(
    name: str,
    series: Sequence[Series],
    *,
    ddof: int = 1,
    groups: tuple[Any, ...] = (),
    weights: Sequence[dict[str, Any]] = ({},),
    **header: Any,
) -> Answer:
    """Computes the sums of a statistic of columns. `weights` has a vector of 0 and 1 for each group and scheme."""
    if not is_whole(ddof) or ddof < 0:
        raise _core.ParameterError(f"ddof must be an integer of at least 0, got {described(ddof)}")
    for one in series:
        if one.frame_id != series[0].frame_id:
            series[0]._require(one)
    count = len(series)
    pairs = [(i, i) for i in range(count)]
    if name in ("cov", "corr"):
        for one in series[1:]:
            series[0]._require(one)
        pairs = [(i, j) for i in range(count) for j in range(i, count)]
    functions = {name, *(function for _, function, _ in header.get("requests", []))}
    squares = bool(functions & {"var", "std", "describe", "cov", "corr"})
    sums = Sums()
    for group, weight in enumerate(weights):
        for scheme, vector in list(weight.items())[:1]:
            sums.add(scheme, ("rows", group), vector)
        sums.moments(series, pairs, group, weight, squares)
    return answer_of(name, series, sums, ddof=int(ddof), groups=list(groups), **header)


def ordered(
    name: str,
    series: Sequence[Series],
    q: Any,
    bins: Any,
    *,
    groups: tuple[Any, ...] = (),
    weights: Sequence[dict[str, Any]] = ({},),
    **header: Any,
) -> Answer:
    """Computes the counts of quantiles of columns of reals, and for "describe" also the moments."""
    is_list = not is_real(q)
    shares = [float(share) if is_real(share) else math.nan for share in (q if is_list and hasattr(q, "__iter__") else [q])]
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise _core.ParameterError(f"a quantile must be a number from 0 to 1, or a list of them, got {described(q)}")
    for one in series:
        functions.require_reals(one, name)
    sums = Sums()
    for group, weight in enumerate(weights):
        if weight:
            sums.add("ckks", ("rows", group), weight["ckks"])
        sums.moments(series, [(i, i) for i in range(len(series))], group, weight, squares=name == "describe")
    limits = [order_sums(sums, i, one, weights, bins) for i, one in enumerate(series)]
    header |= {"q": shares, "is_list": is_list, "limits": limits}
    return answer_of(name, series, sums, ddof=1, groups=list(groups), **header)


def answer_of(name: str, series: Sequence[Series], sums: Sums, **header: Any) -> Answer:
    """Returns an answer with its sums stacked, at the lowest level."""
    parameters = series[0].parameters
    return Answer._made(name, [one.variable for one in series], sums.tensors, parameters, header)


def complete(series: Sequence[Series], what: str, products: int) -> tuple[list[Series], Any]:
    """Returns columns in which rows with any NULL are 0, and the vector of rows without NULL; None if no row has a NULL.

    Raises LevelError unless at least one level for each of `products` successive products remains.
    """
    for one in series[1:]:
        series[0]._require(one)
    valid = [one.valid for one in series if one.valid is not None]
    levels = products + (1 + (len(valid) - 1).bit_length() if valid else 0)
    left = min(one.tensor.level for one in series) - 1
    if not series[0].is_exact and left < levels:
        raise _core.LevelError(
            f"{what} takes {levels} levels here, of which NULLs in {len(valid)} columns take {levels - products}, and the "
            f"columns have {left}: make the frame with parameters_for(..., depth={levels})"
        )
    while len(valid) > 1:
        valid = [valid[k] * valid[k + 1] if k + 1 < len(valid) else valid[k] for k in range(0, len(valid), 2)]
    if not valid:
        return list(series), None
    return [replace(one, tensor=one.tensor * valid[0], valid=None) for one in series], valid[0]
