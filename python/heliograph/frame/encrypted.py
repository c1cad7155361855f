"""Encrypted data frames: created by the owner, computed on by a server."""

from __future__ import annotations

import functools
import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import described, is_real, printable, readable_bytes
from heliograph._common.ciphertext_files import Parts, Serializable, pieces
from heliograph._common.columns import Column
from heliograph._common.container import Piece
from heliograph.frame.answers import SIMPLE, Answer, Variable
from heliograph.frame.columns import NUMBERS, AnyColumn, centre_of, indicators, raws_of
from heliograph.frame.functions import joint
from heliograph.frame.logistic import logistic_sums
from heliograph.frame.parameters import Parameters, Part
from heliograph.frame.series import Series, answer_of, complete, ordered, statistic
from heliograph.frame.series import Sums as _Sums
from heliograph.keys import from_bytes
from heliograph.programs.forecast import Forecast, forecast

_MOST_GROUPS = 1024


class EncryptedFrame(Serializable):
    """An encrypted data frame. A server computes on the frame after `Server.bind` or `Server.load`.

    >>> f  # doctest: +ELLIPSIS
    <encrypted frame: 4 rows, columns price, quantity, region; ..., key ...>
    >>> owner.decrypt(f.groupby("region")["price"].mean()).round(6)
    region
    north    15.0
    south    30.0
    Name: price, dtype: float64
    """

    _TYPE = "heliograph.frame"

    def __init__(
        self,
        parameters: Parameters,
        frame_id: str,
        tensors: Mapping[tuple[str, str, str], Any],
        *,
        columns: Sequence[str] | None = None,
        reals: bool = False,
        bound: bool = False,
    ) -> None:
        self.parameters = parameters  #: the description of the frame: columns, rows and sets
        self._id, self._tensors, self._is_bound, self._reals = frame_id, dict(tensors), bound, reals
        self.columns = list(parameters.columns if columns is None else columns)  #: names

    @property
    def nbytes(self) -> int:
        """Bytes of the ciphertexts in memory."""
        return sum(int(t.nbytes) for t in self._tensors.values())

    @property
    def key_ids(self) -> dict[str, str]:
        """Ids of the secret keys, by scheme."""
        return {scheme: t.key_id for (_, _, scheme), t in self._tensors.items()}

    def __len__(self) -> int:
        return self.parameters.rows

    def __repr__(self) -> str:
        key = " and ".join(key[:8] for key in dict.fromkeys(self.key_ids.values()))
        names = ", ".join(printable(name) for name in self.columns)
        return f"<encrypted frame: {len(self):,} rows, columns {names}; {readable_bytes(self.nbytes)}, key {key}>"

    def _rows(self) -> list[tuple[str, str]]:
        return self.parameters._rows()

    # Files

    def _pieces(self) -> Iterator[Piece]:
        header = {"frame": self.parameters.data(), "id": self._id, "keys": self.key_ids}
        several = [self._tensors[part.column, part.role, part.scheme].to_bytes() for part in self.parameters.parts]
        return pieces(self._TYPE, header, several, [len(one) for one in several])

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        wrong = _core.DamagedFileError("this file's header does not match its ciphertexts")
        tensors: list[Any] = [from_bytes(bytes(parts[number])) for number in range(len(parts))]
        header = parts.header
        if set(header) != {"frame", "id", "keys"} or not isinstance(header["id"], str):
            raise wrong
        sets = {("bgv" if t.parameters.scheme == "BGV" else "ckks"): t.parameters for t in tensors}
        parameters = Parameters.of_data(header["frame"], sets.get("ckks"), sets.get("bgv"))
        if len(tensors) != len(parameters.parts):
            raise wrong
        several = {}
        for part, tensor in zip(parameters.parts, tensors, strict=True):
            blocks = parameters.blocks(part.scheme)
            shape = (part.vectors, blocks) if part.role == "group" else (blocks,)
            if tensor.shape != shape or tensor.parameters != parameters.set_of(part.scheme):
                raise wrong
            several[part.column, part.role, part.scheme] = tensor
        return cls(parameters, header["id"], several)

    # Columns

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, list):
            for name in key:
                self._column(name)
            if len(set(key)) < len(key) or not key:
                raise _core.ParameterError(f"a selection must name different columns, at least one; got {described(key)}")
            return self._like(columns=key)
        column = self._column(key)
        if not self._is_bound:
            raise _core.MissingKeyError("this frame has no evaluation keys: bind it by hg.frame.Server(keys).bind(frame)")
        if column.kind not in NUMBERS:
            raise _core.DtypeError(f"{printable(key)} is a column of text, which has no numbers: use groupby({key!r})")
        reals = self._series(key, "ckks") if (key, "value", "ckks") in self._tensors else None
        if column.kind == "real" or self._reals:
            if reals is None:
                raise _core.ParameterError(
                    f"{printable(key)} has no copy as reals: make the frame with parameters_for(..., copies=True)"
                )
            return reals
        return replace(self._series(key, "bgv"), copy=reals)

    def _like(self, **changes: Any) -> EncryptedFrame:
        options = {"columns": self.columns, "reals": self._reals, "bound": self._is_bound, **changes}
        tensors = options.pop("tensors", self._tensors)
        return EncryptedFrame(self.parameters, self._id, tensors, **options)

    def _column(self, name: Any) -> AnyColumn:
        if not isinstance(name, str):
            raise _core.DtypeError(
                f"a frame is indexed by a column's name or a list of names, not by {described(name)}; rows "
                "cannot be selected"
            )
        if name not in self.columns:
            raise KeyError(f"the frame has no column {name!r}; its columns are {', '.join(self.columns)}")
        return self.parameters.columns[name]

    def _series(self, name: str, scheme: str) -> Series:
        column = self.parameters.columns[name]
        binary = column.kind == "bool" or (column.kind == "int" and (column.low, column.high) == (0, 1))
        exact = scheme == "bgv"
        scale, offset = (1.0, 0.0) if exact else centre_of(column)
        places = column.places if exact and isinstance(column, Column) else 0
        variable = Variable(name, exact, scale, offset, places, binary)
        tensor, valid = (self._tensors.get((name, role, scheme)) for role in ("value", "valid"))
        step = 10.0**-column.places if isinstance(column, Column) and not exact else 0.0
        limits = None if exact else (offset - scale, offset + scale)
        return Series(self.parameters, self._id, variable, tensor, valid, step=step, limits=limits)

    def astype(self, kind: Any) -> EncryptedFrame:
        """Returns the frame with its exact columns converted to reals, for ``astype(float)``. Raises DtypeError,
        ParameterError.

        >>> owner.decrypt(f[["price", "quantity"]].astype(float).corr()).round(3)
                  price  quantity
        price     1.000    -0.397
        quantity -0.397     1.000
        """
        if kind not in (float, "float", "float64", np.float64):
            raise _core.DtypeError(f"the exact columns of a frame become float only, not {described(kind)}")
        return self._like(reals=True)

    def _numbers(self, what: str, *, skip: bool = False) -> list[Series]:
        names = [name for name in self.columns if self.parameters.columns[name].kind in NUMBERS]
        texts = [name for name in self.columns if name not in names]
        if (texts and not skip) or not names:
            raise _core.DtypeError(
                f"{what} takes columns of numbers, and {printable((texts or ['the frame'])[0])} has none: select columns, "
                f"as f[[...]].{what}()"
            )
        return [self[name] for name in names]

    def forecast(self, function: Callable[[EncryptedFrame], Answer]) -> Forecast:
        """Returns the forecast time and memory of a statistic on this device, like `hg.forecast`, without computing the
        statistic.

        >>> f.forecast(lambda f: f[["price"]].std()).result_bytes > 100_000
        True
        """
        if not self._is_bound:
            raise _core.MissingKeyError("this frame has no evaluation keys: bind it by hg.frame.Server(keys).bind(frame)")
        places = list(self._tensors)

        def computed(*tensors: Any) -> list[Any]:
            answer = function(self._like(tensors=dict(zip(places, tensors, strict=True))))
            if not isinstance(answer, Answer):
                raise _core.DtypeError(f"the function must return an answer, as f.mean(), got {type(answer).__name__}")
            return list(answer._tensors.values())

        return forecast(computed, *self._tensors.values())

    # Statistics

    def sum(self) -> Answer:
        """Returns encrypted sums of the columns; sums of exact columns are exact.

        >>> owner.decrypt(f[["quantity"]].sum())
        quantity    16
        dtype: int64
        """
        return statistic("sum", self._numbers("sum"))

    def count(self) -> Answer:
        """Returns encrypted numbers of values that are not NULL.

        >>> owner.decrypt(f[["price", "quantity"]].count())
        price       3
        quantity    4
        dtype: int64
        """
        return statistic("count", self._numbers("count"))

    def mean(self) -> Answer:
        """Returns encrypted means of the columns, without NULLs.

        >>> owner.decrypt(f[["quantity"]].mean())
        quantity    4.0
        dtype: float64
        """
        return statistic("mean", self._numbers("mean"))

    def var(self, *, ddof: int = 1) -> Answer:
        """Returns encrypted variances.

        >>> owner.decrypt(f[["quantity"]].var(ddof=0))
        quantity    8.5
        dtype: float64
        """
        return statistic("var", self._numbers("var"), ddof=ddof)

    def std(self, *, ddof: int = 1) -> Answer:
        """Returns encrypted standard deviations, of which the owner takes the roots.

        >>> owner.decrypt(f[["price"]].std()).round(4)
        price    10.0
        dtype: float64
        """
        return statistic("std", self._numbers("std"), ddof=ddof)

    def describe(self, *, percentiles: Sequence[float] | None = None, bins: int = 64) -> Answer:
        """Returns encrypted counts, means and standard deviations of the columns of numbers.

        With `percentiles`, such as (0.25, 0.5, 0.75), the rows min, 25%, 50%, 75% and max follow, as in pandas. Quantiles
        need columns of reals, a deep set and a comparison for each of the `bins`; `quantile` describes their error and
        levels.

        >>> owner.decrypt(f.describe()).round(3)
               price  quantity
        count    3.0     4.000
        mean    20.0     4.000
        std     10.0     3.367
        """
        series = self._numbers("describe", skip=True)
        return statistic("describe", series) if percentiles is None else ordered("describe", series, percentiles, bins)

    def quantile(self, q: float | Sequence[float] = 0.5, *, bins: int = 64) -> Answer:
        """Returns encrypted counts of values below public limits, from which the owner finds quantiles of each column.

        ``attrs["error"]`` of the result has a bound of the error for each column. Options, levels and errors are those of
        `Series.quantile`.

        >>> rows = {"n": [1, 2, 3, 5], "m": [3, 3, 4, 2]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows, depth=14))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> key.decrypt(g.astype(float).quantile([0.5]))
               n    m
        0.5  2.5  3.0
        """
        return ordered("quantile", self._numbers("quantile"), q, bins, label=True)

    def median(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.EncryptedFrame.quantile`, for medians."""
        return ordered("quantile", self._numbers("median"), 0.5, bins)

    def min(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.EncryptedFrame.quantile`, for the smallest values."""
        return ordered("quantile", self._numbers("min"), 0.0, bins)

    def max(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.EncryptedFrame.quantile`, for the largest values."""
        return ordered("quantile", self._numbers("max"), 1.0, bins)

    def cov(self, *, ddof: int = 1) -> Answer:
        """Returns encrypted covariances. Each pair counts the rows in which both columns are not NULL, as in pandas.

        >>> owner.decrypt(f[["price"]].cov()).round(3)
               price
        price  100.0
        """
        return statistic("cov", self._numbers("cov"), ddof=ddof)

    def corr(self) -> Answer:
        """Returns encrypted correlations. Each pair counts the rows in which both columns are not NULL, as in pandas.

        >>> owner.decrypt(f[["price"]].corr())
               price
        price    1.0
        """
        return statistic("corr", self._numbers("corr"))

    def least_squares(self, target: str, features: Sequence[str]) -> Answer:
        """Returns the encrypted normal equations of a linear regression with intercept, over rows without NULL.

        The owner gets coefficients; ``attrs`` of the result has `rows`, `r2` and `error`, a bound on the error of the
        coefficients. NULLs take two levels, and one more level for each doubling of the number of columns that have NULLs.

        Raises DtypeError for columns of different kinds, ParameterError, LevelError; `SecretKey.decrypt` raises
        ParameterError for dependent columns.

        >>> owner.decrypt(f.astype(float).least_squares("quantity", ["price"])).round(3)
        intercept    7.333
        price       -0.100
        dtype: float64
        """
        series, valid = complete([*self._features(target, features), self[target]], "least_squares", 1)
        count, sums = len(series), _Sums()
        if valid is not None:
            sums.add("bgv" if series[0].is_exact else "ckks", ("rows", 0), valid)
        pairs = [(i, j) for i in range(count) for j in range(i, count)]
        sums.moments(series, pairs, 0, {}, squares=True)
        return answer_of("least_squares", series, sums, ddof=0)

    def logistic_regression(self, target: str, features: Sequence[str], *, l2: float = 1.0) -> Answer:
        """Returns encrypted sums from which the owner fits a logistic regression with intercept, over rows without NULL.

        `target` is a column of truth values, or of integers between 0 and 1; `features` are reals. `l2` is the penalty
        1/2 l2 |coefficients|^2, as scikit-learn's 1/C. The regression takes three levels, and one or more for NULLs.

        A polynomial of degree 6 replaces the logistic loss. ``attrs`` of the result has `rows`, `interval` and `error`: the
        largest difference of the polynomial's derivative from the logistic function, for predictors up to `interval`.

        Raises DtypeError, ParameterError for more than 6 features, LevelError; `SecretKey.decrypt` raises NoiseError if the
        predictors' spread exceeds the polynomial's range.

        >>> rows = {"x": [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], "y": [False, True, False, True, False, True]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> key.decrypt(g.logistic_regression("y", ["x"])).abs().round(2)
        intercept    0.00
        x            0.43
        dtype: float64
        """
        return logistic_sums([*self._features(target, features), self[target].astype(float)], l2)

    def _features(self, target: str, features: Sequence[str]) -> list[Series]:
        names = [features] if isinstance(features, str) else list(features)
        if not names or len(set(names)) < len(names) or target in names:
            raise _core.ParameterError(
                f"features must be different columns, at least one and without the target {target!r}; got {names}"
            )
        return [self[name] for name in names]

    def groupby(self, by: str | Sequence[str]) -> GroupBy:
        """Returns the groups of a column of text, categories or truth values, whose values are known. Rows whose key is NULL
        are in no group.

        Several columns give one group for each combination of their values that occurs; each column after the first takes
        one more level.

        >>> owner.decrypt(f.groupby("region").agg({"price": "mean", "quantity": "sum"})).round(6).reset_index()
          region  price  quantity
        0  north   15.0        13
        1  south   30.0         3
        """
        names: list[Any] = [by] if isinstance(by, str) or not hasattr(by, "__iter__") else list(by)
        if not names or len(set(map(str, names))) < len(names):
            raise _core.ParameterError(f"groupby must have different columns, at least one; got {described(by)}")
        for name in names:
            column = self._column(name)
            if column.kind not in ("text", "bool"):
                raise _core.DtypeError(
                    f"cannot group by {printable(name)}, a column of {column.kind}: its values must be texts, categories or "
                    "truth values; convert the column to strings before encryption"
                )
        groups: int = math.prod(int(self.parameters.columns[name].high or 0) + 1 for name in names)
        if groups > _MOST_GROUPS:
            raise _core.ParameterError(
                f"the columns {', '.join(map(printable, names))} have {groups:,} combinations of values, above the maximum "
                f"of {_MOST_GROUPS:,}; group by fewer columns"
            )
        return GroupBy(self, tuple(names))


@dataclass(frozen=True)
class GroupBy:
    """Groups of an encrypted frame, created by `EncryptedFrame.groupby`.

    >>> f.groupby("region")["quantity"].columns
    ('quantity',)
    """

    frame: EncryptedFrame
    by: tuple[str, ...]
    columns: tuple[str, ...] = ()
    is_single: bool = False

    def __getitem__(self, key: Any) -> GroupBy:
        names = [key] if isinstance(key, str) else list(key)
        for name in names:
            self.frame._column(name)
        return replace(self, columns=tuple(names), is_single=isinstance(key, str))

    def agg(self, functions: Any = None, *, ddof: int = 1, **named: tuple[str, str]) -> Answer:
        """Returns encrypted statistics of each group: sum, count, mean, var or std.

        `functions` is a name or a list of names for all columns, or a dict of them by column, as in pandas. Named arguments
        are pairs of a column and a function: ``agg(total=("quantity", "sum"))``.

        Raises ParameterError, DtypeError, KeyError for an unknown column.

        >>> owner.decrypt(f.groupby("region")["quantity"].agg(["sum", "count"])).to_numpy()
        array([[13,  2],
               [ 3,  1]])
        """
        frame = self.frame
        flat, nested = self._requests(functions) if functions is not None or not named else ([], False)
        for label, pair in named.items():
            if functions is not None or not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise _core.ParameterError(
                    f"named arguments of agg must be pairs of a column and a function, without others, got {label}="
                    f"{described(pair)}"
                )
            flat.append((*pair, label))
        for name, one, _ in flat:
            if not isinstance(one, str) or one not in SIMPLE:
                raise _core.ParameterError(f"a group has {', '.join(SIMPLE)}, not {described(one)}")
            if self.columns and name not in self.columns:
                raise KeyError(f"the selection has no column {name!r}; its columns are {', '.join(self.columns)}")
        if not flat or len(set(flat)) < len(flat):
            raise _core.ParameterError("agg must have at least one function of one column, and each of them once")
        chosen = list(dict.fromkeys(name for name, _, _ in flat))
        series = [frame[name] for name in chosen]
        groups, weights = self._weights({"bgv" if one.is_exact else "ckks" for one in series})
        return statistic(
            "groupby",
            series,
            ddof=ddof,
            groups=groups,
            weights=weights,
            by=list(self.by),
            requests=[[chosen.index(name), one, label] for name, one, label in flat],
            nested=nested,
            single=self.is_single and not nested and not named,
        )

    def _requests(self, functions: Any) -> tuple[list[tuple[Any, Any, Any]], bool]:
        """Returns the column, the function and the label of each result, and whether labels are pairs."""
        if self.is_single and isinstance(functions, Mapping):
            raise _core.ParameterError("agg of one column takes a function or a list of functions, not a dict")
        names = list(self.columns or (n for n in self.frame.columns if n not in self.by))
        requests = functions if isinstance(functions, Mapping) else dict.fromkeys(names, functions)
        flat = []
        for name, value in requests.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                flat.append((name, one if isinstance(one, str) else repr(one), one if self.is_single else None))
        nested = any(isinstance(value, (list, tuple)) for value in requests.values())
        return (flat if nested else [(name, one, None) for name, one, _ in flat]), nested

    def quantile(self, q: float = 0.5, *, bins: int = 64) -> Answer:
        """Returns encrypted counts, from which the owner finds a quantile of each group, as `Series.quantile`.

        >>> rows = {"n": [1, 2, 3, 5], "k": ["a", "b", "a", "a"]}
        >>> key = hg.frame.SecretKey.generate(hg.frame.parameters_for(rows, depth=15))
        >>> g = hg.frame.Server(key.evaluation_keys()).bind(key.encrypt(rows))
        >>> key.decrypt(g.astype(float).groupby("k")["n"].median()).to_dict()
        {'a': 3.0, 'b': 2.0}
        """
        if not is_real(q):
            raise _core.ParameterError(f"a quantile of groups must be a number from 0 to 1, got {described(q)}")
        names = list(self.columns or (name for name in self.frame.columns if name not in self.by))
        series = [self.frame[name] for name in names]
        groups, weights = self._weights({"ckks"})
        single = self.is_single
        return ordered("quantile", series, q, bins, groups=groups, weights=weights, by=list(self.by), single=single)

    def median(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.GroupBy.quantile`, for medians."""
        return self.quantile(0.5, bins=bins)

    def min(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.GroupBy.quantile`, for the smallest values."""
        return self.quantile(0.0, bins=bins)

    def max(self, *, bins: int = 64) -> Answer:
        """Same as `hg.frame.GroupBy.quantile`, for the largest values."""
        return self.quantile(1.0, bins=bins)

    def _weights(self, schemes: set[str]) -> tuple[tuple[Any, ...], list[dict[str, Any]]]:
        """Returns the groups' keys, and the vectors of 0 and 1 that select the groups' rows."""
        columns: list[Any] = [self.frame.parameters.columns[name] for name in self.by]
        codes = list(itertools.product(*(range(int(column.high or 0) + 1) for column in columns)))
        shown = [tuple(column.shown(code) for column, code in zip(columns, several, strict=True)) for several in codes]
        weights: list[dict[str, Any]] = [{} for _ in codes]
        for scheme in sorted(schemes):
            vectors = [self.frame._tensors[name, "group", scheme] for name in self.by]
            for weight, several in zip(weights, codes, strict=True):
                parts = [vector[code] for vector, code in zip(vectors, several, strict=True)]
                weight[scheme] = functools.reduce(joint, parts)
        return tuple(shown if len(columns) > 1 else [one for (one,) in shown]), weights

    def sum(self) -> Answer:
        """Same as `hg.frame.GroupBy.agg`, for sums."""
        return self.agg("sum")

    def count(self) -> Answer:
        """Same as `hg.frame.GroupBy.agg`, for counts."""
        return self.agg("count")

    def mean(self) -> Answer:
        """Same as `hg.frame.GroupBy.agg`, for means."""
        return self.agg("mean")

    def var(self, *, ddof: int = 1) -> Answer:
        """Same as `hg.frame.GroupBy.agg`, for variances."""
        return self.agg("var", ddof=ddof)

    def std(self, *, ddof: int = 1) -> Answer:
        """Same as `hg.frame.GroupBy.agg`, for standard deviations."""
        return self.agg("std", ddof=ddof)


def encrypted(frame: Any, parameters: Parameters, keys: Mapping[str, Any]) -> EncryptedFrame:
    """Encrypts a data frame with the secret or public keys of each scheme."""
    raws = raws_of(frame)
    if list(raws) != list(parameters.columns):
        raise _core.ShapeError(
            f"the frame's columns must be {', '.join(parameters.columns)}, in this order; got {', '.join(raws)}"
        )
    rows = len(next(iter(raws.values()))[0])
    if rows != parameters.rows:
        raise _core.ShapeError(
            f"the frame has {rows:,} rows, its parameters {parameters.rows:,}; make parameters for this frame"
        )
    numbers = {name: column.numbers(raws[name], name) for name, column in parameters.columns.items()}
    tensors = {}
    for part in parameters.parts:
        column, valid = parameters.columns[part.column], raws[part.column][1]
        values = _values(part, column, numbers[part.column], valid)
        slots, blocks = parameters.set_of(part.scheme).slots, parameters.blocks(part.scheme)
        padded = np.zeros((*values.shape[:-1], blocks * slots), values.dtype)
        padded[..., :rows] = values
        most = 1
        if part.role == "value" and part.scheme == "bgv":
            most = max(1, abs(int(column.low or 0)), abs(int(column.high or 0)))
        vector = padded.reshape(*values.shape[:-1], blocks, slots)
        tensors[part.column, part.role, part.scheme] = keys[part.scheme].encrypt(vector, bound=most)
    return EncryptedFrame(parameters, secrets.token_hex(16), tensors)


def _values(part: Part, column: AnyColumn, numbers: npt.NDArray[Any], valid: Any) -> npt.NDArray[Any]:
    dtype = np.int64 if part.scheme == "bgv" else np.float64
    if part.role == "valid":
        return np.asarray(valid, dtype=dtype)
    if part.role == "group":
        assert isinstance(column, Column)
        return indicators(column, numbers, valid).astype(dtype)
    if part.scheme == "bgv":
        return np.where(valid, numbers, 0).astype(np.int64)
    scale, offset = centre_of(column)
    unit = 10.0**-column.places if isinstance(column, Column) else 1.0
    return np.where(valid, np.clip((numbers * unit - offset) / scale, -1, 1), 0.0)
