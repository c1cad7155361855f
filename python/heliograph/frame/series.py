"""Columns of an encrypted frame, and sums of their products, from which the owner finishes statistics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, bgv, ckks
from heliograph._common.arguments import described, is_real, is_whole, printable
from heliograph.frame.answers import Answer, Variable
from heliograph.frame.parameters import Parameters


@dataclass(frozen=True)
class Series:
    """An encrypted column. Operators are those of pandas: ``+``, ``-``, ``*``, powers, of columns of one kind and numbers.

    A NULL in an operand gives NULL. Exact columns take integers and decimals, and become reals only by `astype`.

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
            return self._derived(self.tensor, offset=self.variable.offset + number)
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
            return self._derived(self.tensor, scale=v.scale * number, offset=v.offset * number)
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
        if isinstance(other, Series) or self.is_exact:
            raise _core.DtypeError(
                "a column of reals divides by numbers only: use astype(float) for an exact column, and divide decrypted "
                "results for quotients of columns"
            )
        number = _real(other)
        if number == 0:
            raise _core.ParameterError("cannot divide a column by 0")
        return self * (1 / number)

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

    def _derived(self, tensor: Any, valid: Any = None, **changes: Any) -> Series:
        variable: Variable = replace(self.variable, binary=False, **changes)
        return replace(self, tensor=tensor, valid=self.valid if valid is None else valid, variable=variable, copy=None)

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
        x, y = _times(x, a.scale / scale), _times(y, b.scale / scale)
        return self._derived(x + y, valid, name=name, scale=scale, offset=a.offset + b.offset)

    def _product(self, other: Series) -> Series:
        self._require(other)
        a, b = self.variable, other.variable
        name, valid = f"{a.name} * {b.name}", joint(self.valid, other.valid)
        if self.is_exact:
            return self._derived(self.tensor * other.tensor, valid, name=name, places=a.places + b.places)
        scale = 1.0
        factors = []
        for one in (self, other):  # x / unit, with unit so large that x / unit is in [-1, 1]
            v = one.variable
            unit = abs(v.scale) + abs(v.offset)
            t = _times(one.tensor, v.scale / unit)
            factors.append(t + one._ones() * (v.offset / unit) if v.offset else t)
            scale *= unit
        return self._derived(factors[0] * factors[1], valid, name=name, scale=scale, offset=0.0)

    def standardize(self, std: tuple[float, float], *, error: float = 2.0**-16) -> Series:
        """Returns (value - mean) / standard deviation, encrypted, for further operations. The deviation divides by the rows.

        `std` = (low, high) bounds the standard deviation. A deviation outside gives a wrong result without an error.
        `error` is the relative error of 1/std. It takes four levels more than `hg.ckks.rsqrt`, and the rotations of
        ``evaluation_keys(standardize=True)``.

        Raises DtypeError for an exact column, ParameterError for one with NULLs, LevelError, MissingKeyError.

        >>> heights = {"height": [1.6, 1.7, 1.8, 1.9]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(heights, depth=14))
        >>> h = hg.frame.Server(key.evaluation_keys(standardize=True)).bind(key.encrypt(heights))
        >>> z = h["height"].standardize((0.05, 0.2))
        >>> round(key.decrypt((z * z).sum()), 3)
        4.0
        """
        if self.is_exact:
            raise _core.DtypeError(f"standardize takes reals: write {self.name}.astype(float).standardize(...)")
        if self.valid is not None:
            raise _core.ParameterError(f"standardize takes a column without NULLs, and {printable(self.name)} has them")
        try:
            low, high = (_real(end) for end in std)
        except (TypeError, ValueError):
            raise _core.ParameterError(f"std must be two numbers, (low, high), got {described(std)}") from None
        if not 0 < low < high:
            raise _core.ParameterError(f"std must be two positive numbers, the lower one first, got {described(std)}")
        rows, scale = self.parameters.rows, self.variable.scale
        ones = rows_of(self.parameters, "ckks")
        centred = self.tensor - self.tensor.sum(0).sum_slots().reshape(1) * (ones / rows)
        squares = centred.multiply(centred, relinearize=False, rescale=False).sum(0).relinearize().rescale()
        variance = squares.sum_slots() * (1 / rows)
        root = ckks.rsqrt(variance, domain=((low / scale) ** 2, (high / scale) ** 2), error=error * abs(scale) / high)
        return self._derived(centred * root.reshape(1), scale=math.copysign(1.0, scale), offset=0.0)

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


def rows_of(parameters: Parameters, scheme: str) -> npt.NDArray[Any]:
    """Returns 1 in rows of the frame and 0 in slots after the last, [blocks, slots]."""
    blocks, slots = parameters.blocks(scheme), parameters.set_of(scheme).slots
    ones = np.zeros(blocks * slots, np.int64 if scheme == "bgv" else np.float64)
    ones[: parameters.rows] = 1
    return ones.reshape(blocks, slots)


def joint(a: Any, b: Any) -> Any:
    """Returns the product of two vectors of 0 and 1, of which None is all ones."""
    return b if a is None else a if b is None or b is a else a * b


def _times(x: Any, factor: float) -> Any:
    """Returns x * factor, without a level for an integer."""
    return x if factor == 1 else x * (int(factor) if factor.is_integer() else factor)


def _real(number: Any) -> float:
    if not is_real(number) or isinstance(number, bool) or not np.isfinite(float(number)):
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
        """Adds the sum of a * b over rows; of a without b."""
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
        """Adds counts, sums and products of pairs of columns, times a weight of 0 or 1, over rows where both have values."""
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
    functions = {name, *(function for _, function in header.get("requests", []))}
    squares = bool(functions & {"var", "std", "describe", "cov", "corr"})
    sums = Sums()
    for group, weight in enumerate(weights):
        for scheme, vector in list(weight.items())[:1]:
            sums.add(scheme, ("rows", group), vector)
        sums.moments(series, pairs, group, weight, squares)
    return answer_of(name, series, sums, ddof=int(ddof), groups=list(groups), **header)


def answer_of(name: str, series: Sequence[Series], sums: Sums, **header: Any) -> Answer:
    """Returns an answer with its sums stacked, at the lowest level."""
    parameters = series[0].parameters
    return Answer._made(name, [one.variable for one in series], sums.tensors, parameters, header)


def complete(series: Sequence[Series], what: str, products: int) -> tuple[list[Series], Any]:
    """Returns columns in which rows with any NULL are 0, and the vector of rows without NULL; None if no row has one.

    Raises LevelError if a level for each of `products` successive products does not remain.
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
