"""What matrix products, convolutions and sums of every scheme take: checked before a scheme is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import Computable, Int64Array, axis_of, described, integers, long_integers, whole

if TYPE_CHECKING:
    from heliograph._shapes import Progress

#: Along what a product or a sum goes: an axis of ciphertexts, several for a sum, or the slots.
Axis = int | Sequence[int] | Literal["slots"] | None


def along_axis(x: Any, axis: Any) -> int | None:
    """A ciphertext axis from the front, or None for the slots. Raises ShapeError, DtypeError for a word that names nothing."""
    if isinstance(axis, str):
        if axis != "slots":
            raise _core.DtypeError(f'an axis is an integer, of ciphertexts, or "slots", not {described(axis)}')
        return None
    return axis_of(axis, x.ndim, f"a tensor of shape {x.shape}")


def sums_slots(x: Any, axis: Any) -> bool:
    """Whether a sum goes over the slots: where it says so, or says nothing and there is one ciphertext alone, a vector."""
    return isinstance(axis, str) or (axis is None and x.ndim == 0)


def require_one_meaning(x: Any, array: Any) -> None:
    """Raises ShapeError for an array of clear integers whose last axis fits the slots and the ciphertexts."""
    length = array.shape[-1] if array.ndim else 1
    if length > 1 and length == x.slots and (x.ndim == 0 or x.shape[-1] in (1, length)):
        raise _core.ShapeError(
            f"an array of shape {array.shape} may mean an integer for each of the {length:,} slots or for each ciphertext of a "
            f"tensor of shape {x.shape}: for slots say hg.bfv.encode(parameters, array); for ciphertexts give "
            f"both an axis of length 1 at the end, x.reshape({', '.join(map(str, (*x.shape, 1)))}) and array[..., None]"
        )


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


class Kernel(NamedTuple):
    """Clear weights of a convolution [outputs, channels of a group, height, width], and how they go over a picture."""

    weights: Int64Array
    stride: int
    padding: int
    groups: int


def kernel_of(weights: Any, stride: Any, padding: Any, groups: Any) -> Kernel:
    """As it was checked. Raises ShapeError, DtypeError."""
    w = integers(weights, "the weights")
    if w.ndim != 4:
        raise _core.ShapeError(f"weights of a convolution have four axes, not {w.ndim}")
    if whole(stride, "the stride") < 1 or whole(padding, "the padding") < 0 or whole(groups, "groups") < 1:
        raise _core.ShapeError(
            f"stride {stride}, padding {padding}, groups {groups}: a stride and groups are at least 1, padding 0"
        )
    return Kernel(w, stride, padding, groups)


def bias_of(bias: Any) -> npt.NDArray[Any]:
    """A value for each output, empty for none: int64, or Python's integers beyond 64 bits. Raises ShapeError, DtypeError."""
    values = np.zeros(0, dtype=np.int64) if bias is None else long_integers(bias, "the bias")
    if values.ndim != 1:
        raise _core.ShapeError(f"a bias has one axis, a value for each output, not shape {values.shape}")
    return values


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


class IntegerLayers(Computable):
    """Products by clear integers as networks take them: what encrypted tensors and clear ones do alike."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: Any

        def matmul(self, weights: Any, bias: Any = None, *, axis: Axis = None, progress: Progress | None = None) -> Self:
            """Each kind's own, as what follows."""

        def _convolved(self, kernel: Kernel, bias: Any, progress: Progress | None) -> Self: ...

        def _convolved_squares(
            self, kernel: Kernel, bias: Any, pool: int, stretch: int, keys: Any, progress: Progress | None
        ) -> Self: ...

    def __matmul__(self, weights: Any) -> Self:
        return self.matmul(matrix_of(weights, integers).T, axis=-1)

    def __rmatmul__(self, weights: Any) -> Self:
        return self.matmul(weights)

    def dot(self, other: Any) -> Self:
        """As `hg.dot`."""
        x: Any = self
        made: Self
        if isinstance(other, IntegerLayers):
            require_vectors(self.shape, other.shape)
            made = (x * other).sum(0)
        else:
            vector = integers(other, "the weights")
            require_vectors(self.shape, vector.shape)
            made = x.matmul(vector[None, :])[0]
        return made

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
        """As `hg.conv2d`."""
        return self._convolved(kernel_of(weights, stride, padding, groups), bias, progress)

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
        """As `hg.conv2d_square_pool`."""
        kernel = kernel_of(weights, stride, padding, groups)
        return self._convolved_squares(kernel, bias, pool_of(pool, stretch), stretch, keys, progress)
