"""Encrypted statistics: sums that a server computed, and the formulas by which the owner finishes them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np

from heliograph import _core, bgv, ckks
from heliograph._common.arguments import is_real, is_whole, printable, readable_bytes
from heliograph._common.ciphertext_files import Parts, Serializable, pieces
from heliograph._common.columns import scaled
from heliograph._common.container import Piece
from heliograph._common.functions import stack
from heliograph.frame.parameters import MOST_PRECISION, Parameters
from heliograph.keys import from_bytes
from heliograph.programs.forecast import HeliographWarning

Number = float | int | Fraction


@dataclass(frozen=True)
class Variable:
    """A column of an answer.

    A real value is scale * encrypted value + offset; an exact value is encrypted value / 10^places.
    """

    name: str
    exact: bool
    scale: float = 1.0
    offset: float = 0.0
    places: int = 0
    binary: bool = False  #: whether all values are 0 or 1 by the column's kind and bounds
    error: float = (
        0.0  #: error of an encrypted value from the functions that computed it, in addition to the set's precision
    )

    @staticmethod
    def of_data(data: Any) -> Variable:
        """Reads a variable of a file. Raises DamagedFileError."""
        try:
            v = Variable(**data)
        except TypeError:
            raise _core.DamagedFileError("this answer's header describes an invalid column") from None
        numbers = all(is_real(n) and math.isfinite(n) for n in (v.scale, v.offset, v.error)) and v.error >= 0
        if not isinstance(v.name, str) or not numbers or not is_whole(v.places) or not 0 <= v.places <= 1000:
            raise _core.DamagedFileError("this answer's header describes an invalid column")
        return v


class Answer(Serializable):
    """An encrypted result of a frame, which `SecretKey.decrypt` turns into numbers, a pandas.Series or a pandas.DataFrame.

    >>> answer = f[["price", "quantity"]].mean()
    >>> answer  # doctest: +ELLIPSIS
    <encrypted mean of 2 columns, ...>
    """

    _TYPE = "heliograph.frame.answer"

    def __init__(self, header: dict[str, Any], tensors: Mapping[str, Any]) -> None:
        if not isinstance(header.get("variables"), list) or not header["variables"]:
            raise _core.DamagedFileError("this answer's header must name its columns")
        self.header = header  #: statistic, columns and labels of the sums
        self.variables = [Variable.of_data(one) for one in header["variables"]]
        self._tensors = dict(tensors)

    @classmethod
    def _made(
        cls, name: str, variables: Any, sums: Mapping[str, Mapping[str, Any]], parameters: Parameters, options: Any
    ) -> Answer:
        """Creates an answer of sums; each sum has a label."""
        header = {
            **{"statistic": name, "rows": parameters.rows, "precision": parameters.precision},
            **{"variables": [asdict(one) for one in variables], **options},
            "labels": [[scheme, list(several)] for scheme, several in sums.items() if several],
        }
        tensors = {}
        for scheme, several in sums.items():
            if several:
                level = min(t.level for t in several.values())
                tensors[scheme] = stack([t.lower(level) if scheme == "ckks" else t for t in several.values()])
                tensors[scheme] = tensors[scheme].lower(1) if scheme == "ckks" else tensors[scheme].shrink()
        return cls(header, tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of the ciphertexts in memory."""
        return sum(int(t.nbytes) for t in self._tensors.values())

    def _pieces(self) -> Iterator[Piece]:
        several = [t.to_bytes() for t in self._tensors.values()]
        return pieces(self._TYPE, self.header, several, [len(one) for one in several])

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        tensors: list[Any] = [from_bytes(bytes(parts[number])) for number in range(len(parts))]
        wrong = _core.DamagedFileError("this answer's header does not match its ciphertexts")
        try:
            labels = dict(parts.header["labels"])
            for (scheme, several), tensor in zip(labels.items(), tensors, strict=True):
                kind: Any = {"ckks": ckks.Tensor, "bgv": bgv.Tensor}[scheme]
                if not isinstance(tensor, kind) or tensor.shape != (len(several),):
                    raise wrong
                if not isinstance(several, list) or not all(isinstance(label, str) for label in several):
                    raise wrong
        except (KeyError, TypeError, ValueError):
            raise wrong from None
        if not is_whole(parts.header.get("rows")) or not is_whole(parts.header.get("precision")):
            raise wrong
        if not 1 <= parts.header["precision"] <= MOST_PRECISION:
            raise wrong
        return cls(parts.header, dict(zip(labels, tensors, strict=True)))

    def _rows(self) -> list[tuple[str, str]]:
        return [("answer", repr(self)[1:-1])]

    def __repr__(self) -> str:
        count = len(self.variables)
        columns = f"{count} column{'s' if count > 1 else ''}"
        return f"<encrypted {self.header.get('statistic')} of {columns}, {readable_bytes(self.nbytes)}>"

    def _decrypted(self, keys: Mapping[str, Any]) -> Any:
        """Decrypts the sums by the secret keys of each scheme, and finishes the statistic, for `SecretKey.decrypt`."""
        header = self.header
        sums: dict[str, Any] = {}
        for scheme, tensor in self._tensors.items():
            if keys.get(scheme) is None:
                raise _core.WrongKeyError(f"this answer has sums by {scheme.upper()}, for which this key has no set")
            values = keys[scheme].decrypt(tensor)
            for label, row in zip(dict(header["labels"])[scheme], values, strict=True):
                sums[label] = math.fsum(row.tolist()) if scheme == "ckks" else sum(int(v) for v in row.tolist())
        finish = FINISHES.get(str(header.get("statistic")))
        if finish is None:
            raise _core.DamagedFileError("this answer's header names an unknown statistic")
        try:
            return finish(Moments(sums, self))
        except (KeyError, TypeError, IndexError, AttributeError):
            raise _core.DamagedFileError("this answer's header does not match its statistic") from None


class Moments:
    """Decrypted sums of an answer."""

    def __init__(self, sums: Mapping[str, Any], answer: Answer) -> None:
        self.sums, self.variables, self.header = sums, answer.variables, answer.header
        self.names = [one.name for one in self.variables]
        #: error of an encrypted value, from the set's promise and from the functions that computed the value
        self.error = max([2.0 ** -float(answer.header["precision"]), *(v.error for v in answer.variables)])

    def count(self, i: int, j: int | None = None, group: int = 0) -> int:
        """Returns the number of rows in which both columns are not NULL. Raises NoiseError."""
        number = self.sums.get(f"n {group} {i} {i if j is None else j}")
        return self.rows(group) if number is None else counted(number)

    def rows(self, group: int = 0) -> int:
        """Returns the number of rows of a group, or of rows without NULL."""
        return counted(self.sums.get(f"rows {group}", self.header["rows"]))

    def total(self, i: int, group: int = 0) -> Number:
        """Returns a column's sum."""
        v, raw = self.variables[i], self.sums[f"x {group} {i} {i}"]
        if v.exact:
            return scaled_sum(raw, v)
        n = self.count(i, None, group)
        return v.scale * raw + v.offset * n if n else 0.0

    def mean(self, i: int, group: int = 0) -> float:
        """Returns a column's mean; NaN without values."""
        n = self.count(i, None, group)
        return float(Fraction(self.total(i, group)) / n) if n else math.nan

    def cov(self, i: int, j: int, ddof: int, group: int = 0) -> float:
        """Returns a covariance; NaN for at most `ddof` rows. A variance below its error is 0, with a warning."""
        n = self.count(i, j, group)
        if n <= ddof:
            return math.nan
        a, b = self.variables[i], self.variables[j]
        x, y = self.sums[f"x {group} {i} {j}"], self.sums[f"x {group} {j} {i}"]
        product = self.sums[f"xy {group} {i} {j}"]
        if a.exact:
            return float(Fraction(n * product - x * y, n * (n - ddof)) / 10 ** (a.places + b.places))
        raw = (product - x * y / n) / (n - ddof)
        if i == j and raw <= 4 * self.error * n / (n - ddof):
            raw = 0.0
            self._warn(i)
        return float(raw * a.scale * b.scale)

    def _warn(self, i: int) -> None:
        v = self.variables[i]
        warnings.warn(
            f"the standard deviation of {printable(v.name)} is less than its error, "
            f"{2 * math.sqrt(self.error) * abs(v.scale):.2g}, and counts as 0: "
            "the column is constant, or give narrower bounds in columns=",
            HeliographWarning,
            stacklevel=2,
        )

    def std(self, i: int, ddof: int, group: int = 0) -> float:
        """Returns a standard deviation."""
        return math.sqrt(self.cov(i, i, ddof, group))


def counted(number: float) -> int:
    """Returns a decrypted count as an integer. Raises NoiseError."""
    if abs(number - round(number)) > 0.25:
        raise _core.NoiseError(f"a decrypted count is {number:g}, which is no integer; choose a greater precision")
    return round(number)


def scaled_sum(raw: int, v: Variable) -> Number:
    """Returns a sum of exact values: an int, or a fraction of decimals."""
    return raw if v.places == 0 else Fraction(raw, 10**v.places)


def _shown(m: Moments, i: int, value: Number) -> Any:
    v = m.variables[i]
    return scaled(int(value * 10**v.places), v.places) if v.exact and v.places else value


#: Statistics of one column, as functions of (moments, column, ddof, group).
SIMPLE: dict[str, Callable[[Moments, int, int, int], Any]] = {
    "sum": lambda m, i, ddof, g: _shown(m, i, m.total(i, g)),
    "count": lambda m, i, ddof, g: m.count(i, None, g),
    "mean": lambda m, i, ddof, g: m.mean(i, g),
    "var": lambda m, i, ddof, g: m.cov(i, i, ddof, g),
    "std": lambda m, i, ddof, g: m.std(i, ddof, g),
}


def pandas() -> Any:
    """Returns the module pandas. Raises ImportError."""
    try:
        import pandas as module
    except ImportError:
        raise ImportError("results of several columns are pandas objects: pip install 'heliograph[frame]'") from None
    return module


def _simple(m: Moments) -> Any:
    function = SIMPLE[m.header["statistic"]]
    values = [function(m, i, m.header["ddof"], 0) for i in range(len(m.names))]
    if m.header.get("single"):
        return values[0]
    return pandas().Series(values, m.names, dtype=object if any(isinstance(v, Decimal) for v in values) else None)


def describe(m: Moments) -> Any:
    """Returns counts, means and standard deviations of columns."""
    columns = {name: [m.count(i), m.mean(i), m.std(i, 1)] for i, name in enumerate(m.names)}
    return pandas().DataFrame(columns, ["count", "mean", "std"], dtype=float)


def _matrix(m: Moments, entry: Callable[[int, int], float]) -> Any:
    if m.header.get("single"):
        return entry(0, 1)
    count = len(m.names)
    values = [[entry(min(i, j), max(i, j)) for j in range(count)] for i in range(count)]
    return pandas().DataFrame(values, m.names, m.names, dtype=float)


def _corr(m: Moments) -> Any:
    def entry(i: int, j: int) -> float:
        if i == j:
            return 1.0 if m.cov(i, i, 0) > 0 else math.nan
        # Variances over the rows in which both columns have values; they differ from the variances of a single column if the
        # other column has NULLs.
        value = m.cov(i, j, 0) / math.sqrt(_pair_variance(m, i, j) * _pair_variance(m, j, i))
        return min(1.0, max(-1.0, value)) if value == value else math.nan

    return _matrix(m, entry)


def _pair_variance(m: Moments, i: int, j: int) -> float:
    """Returns the variance of column i over the rows in which column j is not NULL either."""
    n, v = m.count(min(i, j), max(i, j)), m.variables[i]
    if not n:
        return math.nan
    x, square = m.sums[f"x 0 {i} {j}"], m.sums.get(f"xx 0 {i} {j}", m.sums[f"xy 0 {i} {i}"])
    if v.exact:
        return float(Fraction(n * square - x * x, n * n) / 10 ** (2 * v.places)) or math.nan
    raw = (square - x * x / n) / n
    return raw * v.scale**2 if raw > 4 * m.error else math.nan


def group_keys(m: Moments, kept: list[int]) -> Any:
    """Returns the index of groups: their keys, or tuples of keys."""
    names, groups = m.header["by"], [m.header["groups"][g] for g in kept]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise TypeError
    if len(names) == 1:
        return pandas().Index(groups, name=names[0])
    if not all(isinstance(one, (list, tuple)) and len(one) == len(names) for one in groups):
        raise TypeError
    return pandas().MultiIndex.from_arrays([[one[k] for one in groups] for k in range(len(names))], names=names)


def _groupby(m: Moments) -> Any:
    pd, header = pandas(), m.header
    kept = [g for g in range(len(header["groups"])) if m.rows(g)]
    keys = group_keys(m, kept)
    columns = {}
    for i, function, name in header["requests"]:
        if not (name is None or isinstance(name, str)):
            raise TypeError
        label = (m.names[i], function) if name is None and header["nested"] else name or m.names[i]
        values = [SIMPLE[function](m, i, header["ddof"], g) for g in kept]
        columns[label] = pd.Series(values, keys, dtype=object if any(isinstance(v, Decimal) for v in values) else None)
    if header["single"]:
        series = next(iter(columns.values()))
        return series.rename(m.names[header["requests"][0][0]])
    return pd.DataFrame(columns, keys)


def _least_squares(m: Moments) -> Any:
    """Solves the normal equations of centred columns; the last column is the target."""
    k, n = len(m.names) - 1, m.count(0)
    if n <= k + 1:
        raise _core.ShapeError(f"least squares of {k} columns needs at least {k + 2} rows without NULL, got {n}")
    c = np.array([[m.cov(min(i, j), max(i, j), 0) for j in range(k + 1)] for i in range(k + 1)], dtype=float)
    scales = np.array([abs(v.scale) if not v.exact else math.sqrt(c[i, i]) or 1.0 for i, v in enumerate(m.variables)])
    c /= np.outer(scales, scales)
    error = 0.0 if m.variables[0].exact else 4 * m.error
    least = float(np.linalg.eigvalsh(c[:k, :k])[0])
    if least <= max(16 * k * error, 1e-12):
        raise _core.ParameterError(
            f"the columns {', '.join(m.names[:k])} are constant or linearly dependent, as far as their error shows (least "
            f"eigenvalue {least:.1g}); omit a column"
        )
    beta = np.linalg.solve(c[:k, :k], c[:k, k])
    bounds = error * (1 + np.abs(beta).sum()) * math.sqrt(k) / least * scales[k] / scales[:k]
    beta = beta * scales[k] / scales[:k]
    means = np.array([m.mean(i) for i in range(k + 1)])
    residual = float(c[k, k]) * scales[k] ** 2 - float(beta @ (c[:k, k] * scales[:k] * scales[k]))
    result = pandas().Series([means[k] - float(beta @ means[:k]), *beta], ["intercept", *m.names[:k]])
    variance = float(c[k, k]) * scales[k] ** 2
    result.attrs = {
        "rows": n,
        "r2": float(1 - residual / variance) if variance > 0 else math.nan,
        "error": float(bounds.max()),
    }
    return result


FINISHES: dict[str, Callable[[Moments], Any]] = {
    **dict.fromkeys(SIMPLE, _simple),
    "describe": describe,
    "cov": lambda m: _matrix(m, lambda i, j: m.cov(i, j, m.header["ddof"])),
    "corr": _corr,
    "groupby": _groupby,
    "least_squares": _least_squares,
}
