"""What Python checks before the engine is called: dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core

Int64Array = npt.NDArray[np.int64]


def integers(values: Any, what: str) -> Int64Array:
    """`values` as int64, unchanged in value.

    Raises DtypeError for anything but integers and booleans, PlaintextRangeError beyond 64 bits signed.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise _core.ShapeError(f"{what} are ragged: rows of different lengths") from None
    if array.dtype == object and all(isinstance(v, int) for v in array.flat):
        array = _from_objects(array, what)
    if array.dtype.kind not in "iub":
        raise _core.DtypeError(f"{what} must be integers, not {array.dtype}; scale and round real numbers first")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        raise _core.PlaintextRangeError(f"{what} hold {int(array.max())}, which is beyond 2^63")
    return np.asarray(array, dtype=np.int64, order="C")


def whole(value: Any, what: str) -> int:
    """`value` as an int. Raises DtypeError for anything but integers."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise _core.DtypeError(f"{what} must be an integer, not {value!r}")


def axis_of(axis: Any, ndim: int, what: str) -> int:
    """`axis` counted from the front. Raises ShapeError where there is no such axis."""
    position = whole(axis, "an axis")
    if not -ndim <= position < ndim:
        raise _core.ShapeError(f"{what} has no axis {axis}")
    return position % ndim


def _from_objects(array: npt.NDArray[Any], what: str) -> Int64Array:
    try:
        return array.astype(np.int64)
    except OverflowError:
        raise _core.PlaintextRangeError(f"{what} hold integers beyond 2^63") from None


def last_axis(values: Any, axis: int, what: str) -> Int64Array:
    """`values` with `axis` moved to the end. Raises ShapeError where there is no such axis."""
    array = integers(values, what)
    if not -array.ndim <= axis < array.ndim:
        raise _core.ShapeError(f"{what} of shape {array.shape} have no axis {axis}")
    return np.ascontiguousarray(np.moveaxis(array, axis, -1))


def readable_bytes(count: float) -> str:
    """5.1 GiB, for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
