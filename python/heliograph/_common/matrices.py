"""Checks of the arguments of matrix products, convolutions and sums, for every scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import Computable, Int64Array, axis_of, described, integers, long_integers, whole
from heliograph._common.operations import composite

if TYPE_CHECKING:
    from heliograph._common.tensor import Progress

#: The axis of a product or sum: an axis of ciphertexts, several for a sum, or the slots.
Axis = int | Sequence[int] | Literal["slots"] | None


def along_axis(x: Any, axis: Any) -> int | None:
    """Returns a non-negative ciphertext axis, or None for the slots. Raises ShapeError, DtypeError."""
    if isinstance(axis, str):
        if axis != "slots":
            raise _core.DtypeError(f'an axis must be an integer, for ciphertexts, or "slots", not {described(axis)}')
        return None
    return axis_of(axis, x.ndim, f"a tensor of shape {x.shape}")


def sums_slots(x: Any, axis: Any) -> bool:
    """Tells whether a sum is over the slots: if `axis` says so, or if there is one ciphertext and no `axis`."""
    return isinstance(axis, str) or (axis is None and x.ndim == 0)


def require_one_meaning(x: Any, array: Any) -> None:
    """Raises ShapeError for an array of clear integers whose last axis fits both the slots and the ciphertexts."""
    length = array.shape[-1] if array.ndim else 1
    if length > 1 and length == x.slots and (x.ndim == 0 or x.shape[-1] in (1, length)):
        raise _core.ShapeError(
            f"an array of shape {array.shape} is ambiguous: it has an integer for each of the {length:,} slots or for each "
            f"ciphertext of a tensor of shape {x.shape}. For slots pass hg.bfv.encode(parameters, array); for ciphertexts "
            f"give both operands a last axis of length 1, x.reshape({', '.join(map(str, (*x.shape, 1)))}) and "
            "array[..., None]"
        )


def matrix_of(weights: Any, as_array: Callable[[Any, str], Any]) -> Any:
    """Returns clear weights [rows, columns]. Raises ShapeError, and the errors of `as_array`."""
    w = as_array(weights, "the weights")
    if w.ndim != 2:
        raise _core.ShapeError(
            f"weights of a matrix product must have two axes, not {w.ndim}; hg.dot(x, weights) multiplies by one vector"
        )
    return w


def require_vectors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Raises ShapeError unless both shapes are equal and have one axis."""
    if len(a) != 1 or a != b:
        raise _core.ShapeError(f"dot takes two vectors of one length, not shapes {a} and {b}")


class Kernel(NamedTuple):
    """Clear weights [outputs, channels of a group, height, width] and geometry of a convolution."""

    weights: Int64Array
    stride: int
    padding: int
    groups: int


def kernel_of(weights: Any, stride: Any, padding: Any, groups: Any) -> Kernel:
    """Returns a checked kernel. Raises ShapeError, DtypeError."""
    w = integers(weights, "the weights")
    if w.ndim != 4:
        raise _core.ShapeError(f"weights of a convolution must have four axes, not {w.ndim}")
    if whole(stride, "the stride") < 1 or whole(padding, "the padding") < 0 or whole(groups, "groups") < 1:
        raise _core.ShapeError(
            f"stride and groups must be at least 1 and padding at least 0, not stride {stride}, groups {groups}, padding "
            f"{padding}"
        )
    return Kernel(w, stride, padding, groups)


def bias_of(bias: Any) -> npt.NDArray[Any]:
    """Returns a bias [outputs], empty for None, as int64 or as Python integers beyond 64 bits.

    Raises ShapeError, DtypeError.
    """
    values = np.zeros(0, dtype=np.int64) if bias is None else long_integers(bias, "the bias")
    if values.ndim != 1:
        raise _core.ShapeError(f"a bias must have one axis, with a value for each output, not shape {values.shape}")
    return values


def pool_of(size: Any, stretch: Any = 0) -> int:
    """Returns the size of a pooling window. Raises ShapeError, DtypeError."""
    if whole(size, "the size of a window") < 1:
        raise _core.ShapeError(f"the size of a window must be at least 1, not {size}")
    if whole(stretch, "a stretch") < 0:
        raise _core.ShapeError(f"a stretch must be a number of channels, or 0 for the default, not {stretch}")
    return int(size)


def require_columns(x: Any, matrix: tuple[int, int], along: int) -> None:
    """Raises ShapeError, with alternatives, unless a matrix has as many columns as there are ciphertexts along an axis."""
    rows, columns = matrix
    have = x.shape[along]
    if have != columns:
        where = [str(i) for i, length in enumerate(x.shape) if length == columns]
        instead = f"; axis={' or '.join(where)} has {columns}" if where else ""
        raise _core.ShapeError(
            f"a matrix of {rows} x {columns} does not fit {have:,} ciphertexts along axis {along} of a tensor of shape "
            f"{x.shape}{instead}; hg.dot(x, weights) multiplies by one vector"
        )


class IntegerLayers(Computable):
    """Products with clear integer weights, shared by encrypted and clear tensors."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: Any

        def matmul(self, weights: Any, bias: Any = None, *, axis: Axis = None, progress: Progress | None = None) -> Self:
            """Same as `hg.matmul`."""

        def _convolved(self, kernel: Kernel, bias: Any, progress: Progress | None) -> Self: ...

        def _convolved_squares(
            self, kernel: Kernel, bias: Any, pool: int, stretch: int, keys: Any, progress: Progress | None
        ) -> Self: ...

    @composite
    def __matmul__(self, weights: Any) -> Self:
        return self.matmul(matrix_of(weights, integers).T, axis=-1)

    @composite
    def __rmatmul__(self, weights: Any) -> Self:
        return self.matmul(weights)

    @composite
    def dot(self, other: Any) -> Self:
        """Same as `hg.dot`."""
        x: Any = self
        result: Self
        if isinstance(other, IntegerLayers):
            require_vectors(self.shape, other.shape)
            result = (x * other).sum(0)
        else:
            vector = integers(other, "the weights")
            require_vectors(self.shape, vector.shape)
            result = x.matmul(vector[None, :])[0]
        return result

    @composite
    def conv2d(
        self,
        weights: Any,
        bias: Any = None,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.conv2d`."""
        return self._convolved(kernel_of(weights, stride, padding, groups), bias, progress)

    @composite
    def conv2d_square_pool(
        self,
        weights: Any,
        bias: Any = None,
        *,
        pool: int = 1,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        stretch: int = 0,
        keys: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.conv2d_square_pool`."""
        kernel = kernel_of(weights, stride, padding, groups)
        return self._convolved_squares(kernel, bias, pool_of(pool, stretch), stretch, keys, progress)
