"""Clear tensors: the interface of tensors over plain integers, as the reference of encrypted computations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import (
    IndexingError,
    Int64Array,
    absolute_sums,
    axes_of,
    axis_of,
    centred,
    described,
    integers,
    is_whole,
    largest,
    listed,
    order_of,
    residues,
    whole_numbers,
)
from heliograph._common.matrices import (
    Axis,
    IntegerLayers,
    Kernel,
    along_axis,
    bias_of,
    matrix_of,
    pool_of,
    require_columns,
    require_one_meaning,
    sums_slots,
)


class ClearTensor(IntegerLayers):
    """Integers [ciphertext axes..., slots] with the operations of a `Tensor` of BFV, computed exactly and in the clear.

    With a `modulus` below 2^31, it computes centred residues, as a tensor does for each plaintext modulus; results of
    several moduli combine to larger integers. Without a `modulus`, raises PlaintextRangeError if a result could exceed 63
    bits.

    >>> x = hg.ClearTensor([[1, 2, 3, 4], [5, 6, 7, 8]])  # two "ciphertexts" of four values, in the clear
    >>> hg.matmul([[1, -1]], x * x).values
    array([[-24, -32, -40, -48]])
    """

    __array_ufunc__ = None
    __slots__ = ("modulus", "values")

    def __init__(self, values: Any, modulus: int | None = None) -> None:
        if modulus is not None and not (is_whole(modulus) and 2 <= modulus < 1 << 31):
            raise _core.ParameterError(
                f"the modulus of a clear tensor must be an integer of at least 2 and below 2^31, not {described(modulus)}"
            )
        self.modulus = modulus
        self.values: Int64Array = self._integers(values, "clear values")
        if not self.values.ndim:
            raise _core.ShapeError("a clear tensor must have at least one axis, that of the slots, not shape ()")

    def _integers(self, values: Any, what: str) -> Int64Array:
        return integers(values, what) if self.modulus is None else residues(values, self.modulus, what)

    def _reduced(self, values: Int64Array) -> ClearTensor:
        """Wraps an array of results in a clear tensor, reduced modulo the modulus."""
        return self._view(values if self.modulus is None else centred(values, self.modulus))

    def _view(self, values: Int64Array) -> ClearTensor:
        """Wraps an array of values that need no reduction in a clear tensor."""
        result: ClearTensor = object.__new__(ClearTensor)
        result.modulus, result.values = self.modulus, values
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes, without the axis of slots."""
        return self.values.shape[:-1]

    @property
    def ndim(self) -> int:
        """Number of axes, without the axis of slots."""
        return self.values.ndim - 1

    @property
    def slots(self) -> int:
        """Number of values along the last axis."""
        return int(self.values.shape[-1])

    @property
    def size(self) -> int:
        """Number of entries, not counting the values in the slots."""
        return int(np.prod(self.shape, dtype=np.int64))

    def bound(self) -> int:
        """Returns the largest absolute value.

        >>> hg.ClearTensor([[1, -7, 3]]).bound()
        7
        """
        return largest(self.values)

    def _operand(self, other: Any) -> Int64Array:
        if isinstance(other, ClearTensor):
            if other.modulus != self.modulus:
                raise _core.MismatchError(
                    f"clear tensors must have the same modulus, not {self.modulus} and {other.modulus}"
                )
            return other.values
        array = self._integers(other, "the other operand")
        require_one_meaning(self, array)
        return array[..., None]

    def _summand(self, other: Any) -> Int64Array:
        operand = self._operand(other)
        _require_fit(self.shape, operand.shape[:-1])
        _require_range(self.bound() + largest(operand))
        return operand

    def __add__(self, other: Any) -> ClearTensor:
        return self._reduced(self.values + self._summand(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> ClearTensor:
        return self._reduced(self.values - self._summand(other))

    def __rsub__(self, other: Any) -> ClearTensor:
        return self._reduced(self._summand(other) - self.values)

    def __neg__(self) -> ClearTensor:
        _require_range(self.bound())
        return self._reduced(-self.values)

    def __pos__(self) -> ClearTensor:
        return self

    def __mul__(self, other: Any) -> ClearTensor:
        operand = self._operand(other)
        _require_fit(self.shape, operand.shape[:-1])
        _require_range(self.bound() * largest(operand))
        return self._reduced(self.values * operand)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> ClearTensor:
        if not isinstance(exponent, int) or exponent < 1:
            raise _core.ParameterError(
                f"an exponent of a tensor must be an integer of at least 1, not {described(exponent)}"
            )
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result

    def multiply(self, other: Any, *, progress: Any = None) -> ClearTensor:
        """Same as `heliograph.multiply`."""
        product: ClearTensor = self * other
        return product

    def relinearize(self, *, keys: Any = None, progress: Any = None) -> ClearTensor:
        """Same as `heliograph.relinearize`. Returns the tensor itself."""
        return self

    def shrink(self, level: int = 0) -> ClearTensor:
        """Same as `heliograph.shrink`. Returns the tensor itself."""
        return self

    def split_moduli(self) -> list[ClearTensor]:
        """Same as `heliograph.split_moduli`. Returns the tensor itself."""
        return [self]

    def join_moduli(self, others: Any) -> ClearTensor:
        """Same as `heliograph.join_moduli`, of this tensor alone."""
        if len(others):
            raise _core.MismatchError(f"join_moduli takes one clear tensor, not {1 + len(others)}")
        return self

    @classmethod
    def _join(cls, tensors: Any, axis: int) -> ClearTensor:
        """Implements `heliograph.concatenate` for at least one tensor."""
        first = tensors[0]
        along = axis_of(axis, first.ndim, f"a tensor of shape {first.shape}")
        joined: ClearTensor = first._view(np.concatenate([first._operand(t) for t in tensors], along))
        return joined

    def __getitem__(self, key: Any) -> ClearTensor:
        keys = key if isinstance(key, tuple) else (key,)
        if not any(k is Ellipsis for k in keys):
            keys = (*keys, Ellipsis)
        try:
            return self._view(self.values[(*keys, slice(None))])
        except IndexError as error:
            raise IndexingError(f"a clear tensor of shape {self.shape}: {error}") from None

    def reshape(self, *shape: Any) -> ClearTensor:
        """Same as `heliograph.Tensor.reshape`."""
        lengths = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self._view(self.values.reshape(*lengths, self.slots))

    def transpose(self, *order: Any) -> ClearTensor:
        """Same as `heliograph.Tensor.transpose`."""
        axes = order_of(order, self.ndim, f"a tensor of shape {self.shape}")
        if sorted(axes) != list(range(self.ndim)):
            raise _core.ShapeError(f"transpose takes each axis once, not {tuple(axes)}")
        return self._view(self.values.transpose(*axes, self.ndim))

    @property
    def T(self) -> ClearTensor:
        """The tensor with its axes reversed."""
        return self.transpose()

    def broadcast_to(self, shape: Any) -> ClearTensor:
        """Same as `heliograph.Tensor.broadcast_to`."""
        _require_fit(self.shape, tuple(shape))
        return self._view(np.broadcast_to(self.values, (*shape, self.slots)))

    def sum(self, axis: Axis = None, *, keys: Any = None, progress: Any = None) -> ClearTensor:
        """Same as `heliograph.sum`."""
        if sums_slots(self, axis):
            along_axis(self, "slots" if axis is None else axis)
            _require_range(self.bound() * self.slots)
            total = self.values.sum(-1, keepdims=True)
            return self._reduced(np.repeat(total, self.slots, -1))
        along = axes_of(axis, self.shape)
        _require_range(self.bound() * int(np.prod([self.shape[a] for a in along], dtype=np.int64)))
        return self._reduced(self.values.sum(tuple(along)))

    def sum_pool2d(self, size: int) -> ClearTensor:
        """Same as `heliograph.sum_pool2d`."""
        size = pool_of(size)
        if self.ndim < 2 or self.shape[-2] % size or self.shape[-1] % size:
            raise _core.ShapeError(f"windows of {size} x {size} do not tile a tensor of shape {self.shape}")
        _require_range(self.bound() * size * size)
        *lead, height, width = self.shape
        windows = self.values.reshape(*lead, height // size, size, width // size, size, self.slots)
        return self._reduced(windows.sum((-4, -2)))

    def matmul(self, weights: Any, bias: Any = None, *, axis: Axis = None, progress: Any = None) -> ClearTensor:
        """Same as `heliograph.matmul`."""
        weights = matrix_of(weights, integers)
        if self.ndim == 0:
            raise _core.ShapeError(
                f"matmul takes a tensor of at least one axis, not of shape (), for weights {weights.shape}"
            )
        along = along_axis(self, 0 if axis is None else axis)
        if along is None:
            raise _core.DtypeError("clear tensors have no matrices on slots")
        require_columns(self, weights.shape, along)
        weights, bias = self._integers(weights, "the weights"), self._bias(bias, len(weights))
        _require_range(self.bound() * max(absolute_sums(weights), default=0) + largest(bias))
        values = np.moveaxis(self.values, along, 0)
        out = _exact_product(weights, values.reshape(len(values), -1))
        if bias.size:
            out = out + bias[:, None]
        return self._reduced(np.moveaxis(out.reshape(weights.shape[0], *values.shape[1:]), 0, along))

    def _bias(self, bias: Any, outputs: int) -> Int64Array:
        bias = bias_of(bias)
        if bias.size and len(bias) != outputs:
            raise _core.ShapeError(f"the bias must have {outputs} values, one for each output, not {len(bias)}")
        return self._integers(bias, "the bias")

    def _convolved_squares(
        self, kernel: Kernel, bias: Any, pool: int, stretch: int, keys: Any, progress: Any
    ) -> ClearTensor:
        outputs = self._convolved(kernel, bias, progress)
        return (outputs * outputs).sum_pool2d(pool)

    def _convolved(self, kernel: Kernel, bias: Any, progress: Any) -> ClearTensor:
        if self.ndim == 4:
            each = [self[i]._convolved(kernel, bias, progress).values for i in range(self.shape[0])]
            return self._view(np.stack(each))
        weights, stride, padding, groups = kernel
        outputs, per_group, height, width = weights.shape
        if self.ndim != 3 or self.shape[0] != per_group * groups or outputs % groups:
            raise _core.ShapeError(
                f"weights of shape {weights.shape} do not fit a tensor of shape {self.shape} in {groups} groups"
            )
        weights, bias = self._integers(weights, "the weights"), self._bias(bias, outputs)
        padded = np.pad(self.values, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))[:, ::stride, ::stride]
        parts = []
        for g in range(groups):
            w = weights[g * outputs // groups : (g + 1) * outputs // groups].reshape(outputs // groups, -1)
            block = windows[g * per_group : (g + 1) * per_group]  # channel, y, x, slot, i, j
            columns = block.transpose(0, 4, 5, 1, 2, 3)
            flat = np.ascontiguousarray(columns).reshape(w.shape[1], -1)
            parts.append(_exact_product(w, flat).reshape(w.shape[0], *columns.shape[3:]))
        _require_range(self.bound() * max(absolute_sums(weights), default=0) + largest(bias))
        out = np.concatenate(parts)
        return self._reduced(out + bias[:, None, None, None] if bias.size else out)

    def rotate_rows(self, steps: Any, *, keys: Any = None, compose: Any = None, progress: Any = None) -> ClearTensor:
        """Same as `heliograph.rotate_rows`, for values that fill all slots."""
        several = whole_numbers(steps, "a rotation")
        half = self.slots // 2
        rows = self.values.reshape(*self.shape, 2, half)
        turned = self._view(np.stack([np.roll(rows, -s, -1).reshape(self.values.shape) for s in several]))
        return turned[0] if listed(steps) is None else turned

    def rotate_columns(self, *, keys: Any = None, progress: Any = None) -> ClearTensor:
        """Same as `heliograph.rotate_columns`, for values that fill all slots."""
        return self._view(np.roll(self.values, self.slots // 2, -1))

    def __repr__(self) -> str:
        return f"<clear tensor {self.shape} x {self.slots:,} slots, largest {self.bound()}>"


def _require_fit(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Raises ShapeError unless both shapes broadcast."""
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        raise _core.ShapeError(f"shapes {a} and {b} do not broadcast") from None


def _require_range(bound: int) -> None:
    if bound >= 1 << 63:
        raise _core.PlaintextRangeError(f"a clear result could reach {bound}, beyond 63 bits; pass a modulus")


def _exact_product(weights: Int64Array, x: Int64Array) -> npt.NDArray[np.int64]:
    """Returns weights @ x, by floating-point BLAS if floats represent every partial sum exactly."""
    most = largest(x)
    if max(absolute_sums(weights), default=0) * most < 1 << 53:
        return (weights.astype(np.float64) @ x.astype(np.float64)).astype(np.int64)
    if most < 1 << 24:  # splitting x would not help: multiply integers modulo 2^64
        return weights @ x
    high = x >> 24  # split x so that products with each half are exact
    low = x - (high << 24)
    return (_exact_product(weights, high) << 24) + _exact_product(weights, low)
