"""Encoding of a client's samples as encrypted features: columns by name, centres and units."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import array_of, complexes, printable, require_unmasked

Floats = npt.NDArray[np.float64]
MOST_RANGES = 1 << 14  #: maximum ranges in a file's header; more features share one range, centre and unit
_CENTRED_FROM = 8  #: features are centred if the magnitude of their middle exceeds half their range by this factor
_EXPONENTS = 900  # largest exponent of a unit, so that its inverse is finite
_LEAST, _MOST = 2.0**-6, 2.0**6  #: magnitudes of features that are encrypted without a unit


@dataclass(frozen=True)
class Inputs:
    """The encoding of samples as encrypted features: (x - centre) / unit for each column.

    A centre other than 0 and a unit other than 1 are used only if encryption would lose precision, as for times in seconds,
    or micrograms in kilograms. Centres and units follow from the ranges and are public.

    >>> ages = ml.Inputs(("age",), (40.0,), (32.0,))
    >>> ages.encoded(np.array([[40.0, 56.0]]))  # [features, samples]
    array([[0. , 0.5]])
    """

    names: tuple[str, ...] = ()  #: names of the columns; empty if the estimator was fitted without names
    centre: tuple[float, ...] = ()  #: centre of each feature; empty if all are 0
    unit: tuple[float, ...] = ()  #: unit of each feature, a power of two; empty if all are 1

    def require_fits(self, features: int) -> None:
        """Raises ParameterError unless there is an entry for each feature and units are powers of two.

        >>> ml.Inputs(("age",)).require_fits(1)
        """
        for what, values in (("names", self.names), ("centre", self.centre), ("unit", self.unit)):
            if len(values) not in (0, features):
                raise _core.ParameterError(
                    f"{what} of inputs must be empty or {features}, one for each feature, not {len(values)}"
                )
        if not np.isfinite(self.centre).all() or not all(
            0 < value < np.inf and np.frexp(value)[0] == 0.5 for value in self.unit
        ):
            raise _core.ParameterError("a centre of inputs must be finite, and a unit a finite power of two above 0")

    def encoded(self, x: Floats) -> Floats:
        """Returns the values to encrypt of features [features, count].

        >>> ml.Inputs().encoded(np.array([[3.0]]))
        array([[3.]])
        """
        if self.centre:
            x = x - np.array(self.centre)[:, None]
        return x / np.array(self.unit)[:, None] if self.unit else x

    def decoded(self, x: Floats) -> Floats:
        """Returns the features [features, count] of encrypted values: the inverse of `encoded`.

        >>> ml.Inputs((), (40.0,), (32.0,)).decoded(np.array([[0.5]]))
        array([[56.]])
        """
        if self.unit:
            x = x * np.array(self.unit)[:, None]
        return x + np.array(self.centre)[:, None] if self.centre else x

    def matrix(self, samples: Any, features: int, what: str) -> Floats:
        """Returns samples as real numbers [count, features], with the columns of a data frame in the model's order.

        `what` names the samples in errors. Raises ShapeError, DtypeError, PlaintextRangeError.

        >>> ml.Inputs().matrix([[1, 2], [3, 4]], 2, "the samples")
        array([[1., 2.],
               [3., 4.]])
        """
        require_unmasked(samples, what)
        require_dense(samples, what)
        order = self._order(samples, what)
        array, is_complex = complexes(samples, what)
        if is_complex:
            raise _core.DtypeError(f"{what} must be real numbers, not complex ones")
        if order is not None and array.ndim == 2:
            array = array[:, order]
        if array.ndim != 2 or array.shape[1] != features:
            raise _core.ShapeError(f"{what} must have shape [count, {features} features], not {array.shape}")
        return np.ascontiguousarray(array.real)

    def _order(self, samples: Any, what: str) -> list[int] | None:
        """Returns the positions of the model's columns in a data frame; None to keep their order, as scikit-learn does."""
        names = column_names(samples, what)
        if names == self.names or (not names and not self.names):
            return None
        if not names or not self.names:
            have, other = ("no column names", "with") if not names else ("column names", "without")
            warnings.warn(
                f"{what} have {have}, but the model was fitted {other} names: columns are used in the given order",
                UserWarning,
                stacklevel=5,
            )
            return None
        places = {name: place for place, name in enumerate(names)}
        missing = [name for name in self.names if name not in places]
        extra = [name for name in names if name not in set(self.names)]
        if missing or extra or len(places) != len(names):
            differences = [
                text
                for text, those in (("missing", missing), ("not known", extra))
                if those
                for text in [f"{text}: {some(those)}"]
            ] or ["some names are duplicates"]
            raise _core.ShapeError(
                f"{what} must have the columns that the model was fitted on, {some(self.names)}; {'; '.join(differences)}: "
                "pass samples[names] with these names, in any order"
            )
        return [places[name] for name in self.names]


def column_names(samples: Any, what: str) -> tuple[str, ...]:
    """Returns the column names of a data frame (pandas, polars, pyarrow); empty if it has none or they are not strings.

    The rule is that of scikit-learn. Raises DtypeError if only some of the names are strings.
    """
    if isinstance(samples, np.ndarray):
        return ()
    for attribute in ("columns", "column_names"):  # pyarrow's `columns` are arrays
        columns = getattr(samples, attribute, None)
        try:
            names = [] if columns is None or isinstance(columns, str) or callable(columns) else list(columns)
        except TypeError:
            continue
        texts = [isinstance(name, str) for name in names]
        if any(texts):
            if not all(texts):
                raise _core.DtypeError(
                    f"the column names of {what} must be strings, all or none of them: convert them by columns.astype(str)"
                )
            return tuple(str(name) for name in names)
    return ()


def require_dense(samples: Any, what: str) -> None:
    """Raises DtypeError for sparse matrices."""
    if hasattr(samples, "toarray") and hasattr(samples, "nnz"):
        raise _core.DtypeError(f"{what} must be dense, not a sparse {type(samples).__name__}: pass samples.toarray()")


def single(sample: Any) -> Any:
    """Returns one sample [features] as samples [1, features]; a pandas series keeps its names."""
    index = getattr(sample, "index", None)
    if index is not None and not callable(index) and hasattr(sample, "to_frame"):
        return sample.to_frame().T
    return array_of(sample, "the sample")[None]


def encoding(names: tuple[str, ...], low: Floats, high: Floats) -> Inputs:
    """Returns the encoding of features with ranges low, high [features]."""
    if len(low) > MOST_RANGES:
        low, high = np.full(len(low), low.min()), np.full(len(high), high.max())
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    centre = np.where(np.abs(middle) > _CENTRED_FROM * half, middle, 0.0)
    largest = np.maximum(np.abs(low - centre), np.abs(high - centre))
    exponent = np.ceil(np.log2(np.where(largest > 0, largest, 1.0)))
    exponent = np.clip(exponent, -_EXPONENTS, _EXPONENTS)
    unit = np.where((largest > 0) & ((largest < _LEAST) | (largest > _MOST)), 2.0**exponent, 1.0)
    return Inputs(names, tuple(centre.tolist()) if centre.any() else (), tuple(unit.tolist()) if (unit != 1).any() else ())


def some(names: Any) -> str:
    """Formats the first five names for a message."""
    text = ", ".join(printable(str(name))[:40] for name in list(names)[:5])
    return text + (f", ... ({len(names)} in all)" if len(names) > 5 else "")
