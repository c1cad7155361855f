"""From a client's samples to encrypted features: columns by name, and features far from zero or of extreme sizes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import array_of, complexes, printable, require_unmasked

Floats = npt.NDArray[np.float64]
MOST_RANGES = 1 << 14  #: that the header of a file has room for; more features share one range, centre and unit
_FAR = 8  #: features are centred if their middle is so many times as large as half their range
_EXPONENTS = 900  # of units: their inverses are numbers, too
_LEAST, _MOST = 2.0**-6, 2.0**6  #: magnitudes of features that are encrypted as they are


@dataclass(frozen=True)
class Inputs:
    """How samples become encrypted features: (x - centre) / unit of each column.

    A centre and a unit differ from 0 and 1 only if encryption would cost precision: for times in seconds, or masses in kilograms of
    what weighs micrograms. They follow from the ranges, and are public as these.

    >>> ages = nn.Inputs(("age",), (40.0,), (32.0,))
    >>> ages.encoded(np.array([[40.0, 56.0]]))  # [features, samples]
    array([[0. , 0.5]])
    """

    names: tuple[str, ...] = ()  #: of the columns; empty if the estimator was fitted without
    centre: tuple[float, ...] = ()  #: of each feature; empty if all are 0
    unit: tuple[float, ...] = ()  #: of each feature, a power of two; empty if all are 1

    def require_fits(self, features: int) -> None:
        """Raises ParameterError for other numbers of columns than features, and for units that are no powers of two.

        >>> nn.Inputs(("age",)).require_fits(1)
        """
        for what, values in (("names", self.names), ("centre", self.centre), ("unit", self.unit)):
            if len(values) not in (0, features):
                raise _core.ParameterError(
                    f"{what} of inputs must be empty or {features}, one for each feature, not {len(values)}"
                )
        if not np.isfinite(self.centre).all() or not all(
            0 < value < np.inf and np.frexp(value)[0] == 0.5 for value in self.unit
        ):
            raise _core.ParameterError("a centre of inputs must be finite, and a unit a power of two")

    def encoded(self, x: Floats) -> Floats:
        """What is encrypted of features [features, count].

        >>> nn.Inputs().encoded(np.array([[3.0]]))
        array([[3.]])
        """
        if self.centre:
            x = x - np.array(self.centre)[:, None]
        return x / np.array(self.unit)[:, None] if self.unit else x

    def decoded(self, x: Floats) -> Floats:
        """The features of what is encrypted [features, count].

        >>> nn.Inputs((), (40.0,), (32.0,)).decoded(np.array([[0.5]]))
        array([[56.]])
        """
        if self.unit:
            x = x * np.array(self.unit)[:, None]
        return x + np.array(self.centre)[:, None] if self.centre else x

    def matrix(self, samples: Any, features: int, what: str) -> Floats:
        """Samples as real numbers [count, features], columns of a data frame by their names. Raises ShapeError, DtypeError,
        PlaintextRangeError.

        >>> nn.Inputs().matrix([[1, 2], [3, 4]], 2, "the samples")
        array([[1., 2.],
               [3., 4.]])
        """
        require_unmasked(samples, what)
        order = self._order(samples, what)
        array, is_complex = complexes(samples, what)
        if is_complex:
            raise _core.DtypeError(f"{what} must be real numbers, not complex ones")
        if order is not None and array.ndim == 2:
            array = array[:, order]
        if array.ndim != 2 or array.shape[1] != features:
            raise _core.ShapeError(f"{what} are [count, {features} features], not of shape {array.shape}")
        return np.ascontiguousarray(array.real)

    def _order(self, samples: Any, what: str) -> list[int] | None:
        """The places of the model's columns in a data frame; None to take columns as they lie, as scikit-learn does."""
        given = column_names(samples, what)
        if given == self.names or (not given and not self.names):
            return None
        if not given or not self.names:
            have, other = ("no column names", "with") if not given else ("column names", "without")
            warnings.warn(
                f"{what} have {have}, but the model was fitted {other} names: columns are taken in their order",
                UserWarning,
                stacklevel=5,
            )
            return None
        places = {name: place for place, name in enumerate(given)}
        missing = [name for name in self.names if name not in places]
        extra = [name for name in given if name not in set(self.names)]
        if missing or extra or len(places) != len(given):
            found = [
                text
                for text, those in (("missing", missing), ("not known", extra))
                if those
                for text in [f"{text}: {some(those)}"]
            ] or ["some names are there twice"]
            raise _core.ShapeError(
                f"{what} must have the columns that the model was fitted on, {some(self.names)}; {'; '.join(found)}: pass "
                "samples[names] with these names, in any order"
            )
        return [places[name] for name in self.names]


def column_names(samples: Any, what: str) -> tuple[str, ...]:
    """The names of a data frame's columns (pandas, polars, pyarrow); empty without, or if they are no texts, as scikit-learn takes them.

    Raises DtypeError for names of which some are texts and some are not.
    """
    if isinstance(samples, np.ndarray):
        return ()
    for attribute in ("columns", "column_names"):  # pyarrow's `columns` are arrays
        found = getattr(samples, attribute, None)
        try:
            names = [] if found is None or isinstance(found, str) or callable(found) else list(found)
        except TypeError:
            continue
        texts = [isinstance(name, str) for name in names]
        if any(texts):
            if not all(texts):
                raise _core.DtypeError(
                    f"the columns' names of {what} must be texts, or none of them: convert them by columns.astype(str)"
                )
            return tuple(str(name) for name in names)
    return ()


def single(sample: Any) -> Any:
    """One sample [features] as samples [1, features]; a named series of pandas keeps its names."""
    index = getattr(sample, "index", None)
    if index is not None and not callable(index) and hasattr(sample, "to_frame"):
        return sample.to_frame().T
    return array_of(sample, "the sample")[None]


def encoding(names: tuple[str, ...], low: Floats, high: Floats) -> Inputs:
    """How features of these ranges [features] are encrypted."""
    if len(low) > MOST_RANGES:
        low, high = np.full(len(low), low.min()), np.full(len(high), high.max())
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    centre = np.where(np.abs(middle) > _FAR * half, middle, 0.0)
    largest = np.maximum(np.abs(low - centre), np.abs(high - centre))
    exponent = np.ceil(np.log2(np.where(largest > 0, largest, 1.0)))
    exponent = np.clip(exponent, -_EXPONENTS, _EXPONENTS)
    unit = np.where((largest > 0) & ((largest < _LEAST) | (largest > _MOST)), 2.0**exponent, 1.0)
    return Inputs(
        names,
        tuple(centre.tolist()) if centre.any() else (),
        tuple(unit.tolist()) if (unit != 1).any() else (),
    )


def some(names: Any) -> str:
    """The first of several names, for a person."""
    shown = ", ".join(printable(str(name))[:40] for name in list(names)[:5])
    return shown + (f", ... ({len(names)} in all)" if len(names) > 5 else "")
