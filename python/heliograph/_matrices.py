"""What matrix products, convolutions and sums of every scheme take: checked before a scheme is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from heliograph import _core
from heliograph._arrays import axis_of, described, integers, whole

#: Along what a product or a sum goes: an axis of ciphertexts, several for a sum, or the slots.
Axis = int | Sequence[int] | Literal["slots"] | None


def along_axis(x: Any, axis: Any) -> int | None:
    """A ciphertext axis from the front, or None for the slots. Raises ShapeError, DtypeError for a word that names nothing."""
    if isinstance(axis, str):
        if axis != "slots":
            raise _core.DtypeError(f'an axis is an integer, of ciphertexts, or "slots", not {described(axis)}')
        return None
    return axis_of(axis, x.ndim, f"a tensor of shape {x.shape}")


def matrix_of(weights: Any, as_array: Callable[[Any, str], Any]) -> Any:
    """Clear weights [rows, columns]. Raises ShapeError, and as `as_array`."""
    w = as_array(weights, "the weights")
    if w.ndim != 2:
        raise _core.ShapeError(
            f"weights of a matrix product have two axes, not {w.ndim}; hg.dot(x, weights) multiplies by one vector"
        )
    return w


def require_vectors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Raises ShapeError unless both shapes are those of one vector."""
    if len(a) != 1 or a != b:
        raise _core.ShapeError(f"dot takes two vectors of one length, not shapes {a} and {b}")


def kernel_of(weights: Any, stride: Any, padding: Any, groups: Any) -> Any:
    """Clear weights of a convolution. Raises ShapeError, DtypeError."""
    w = integers(weights, "the weights")
    if w.ndim != 4:
        raise _core.ShapeError(f"weights of a convolution have four axes, not {w.ndim}")
    if whole(stride, "the stride") < 1 or whole(padding, "the padding") < 0 or whole(groups, "groups") < 1:
        raise _core.ShapeError(
            f"stride {stride}, padding {padding}, groups {groups}: a stride and groups are at least 1, padding 0"
        )
    return w


def pool_of(size: Any, stretch: Any = 0) -> int:
    """The size of a window. Raises ShapeError, DtypeError."""
    if whole(size, "the size of a window") < 1:
        raise _core.ShapeError(f"a window of {size} x {size} is none: its size is at least 1")
    if whole(stretch, "a stretch") < 0:
        raise _core.ShapeError(f"a stretch {stretch} is none: it is a number of channels, or 0")
    return int(size)


def require_columns(x: Any, matrix: tuple[int, int], along: int) -> None:
    """Raises ShapeError, with the way out, unless a matrix has as many columns as there are ciphertexts along an axis."""
    rows, columns = matrix
    have = x.shape[along]
    if have != columns:
        where = [str(i) for i, length in enumerate(x.shape) if length == columns]
        instead = f"; axis={' or '.join(where)} has {columns}" if where else ""
        raise _core.ShapeError(
            f"a matrix of {rows} x {columns} does not go with {have:,} ciphertexts along axis {along} of a tensor of shape "
            f"{x.shape}{instead}; hg.dot(x, weights) multiplies by one vector"
        )
