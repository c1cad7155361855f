"""Tensors of encrypted real and complex numbers: NumPy's shapes and operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heliograph import _core
from heliograph._arrays import complexes, described, exponent_of, moved_last, of_kind, readable_bytes, real, whole
from heliograph._shapes import ShapeCalls, Shaped
from heliograph.ckks.parameters import Parameters

if TYPE_CHECKING:
    from heliograph.ckks.keys import EvaluationKeys

Progress = Callable[[float], None]
_ONES = (1j, -1j)


class Tensor(Shaped):
    """Ciphertexts in an array. ``shape`` counts ciphertexts; ``slots`` are the values inside each.

    Operators act as on an array of shape ``(*shape, slots)`` and broadcast: with tensors, numbers, arrays (the last axis lies
    along the slots, or has length 1: a number for each ciphertext) and plaintexts (`encode`). A product takes one level, but by
    integers; it is relinearized and rescaled at once (`hg.ckks.multiply` leaves that for later). Operands of different levels
    meet at the lower one. Values are right to `precision` bits after the binary point.
    """

    __slots__ = ()
    _keys: EvaluationKeys | None
    _calls: ClassVar[ShapeCalls[_core.CkksCiphertext]] = ShapeCalls(
        _core.ckks_reshape,
        _core.ckks_slice,
        _core.ckks_index,
        _core.ckks_transpose,
        _core.ckks_broadcast_to,
        _core.ckks_concatenate,
    )

    def __init__(self, core: _core.CkksCiphertext, keys: EvaluationKeys | None = None) -> None:
        super().__init__(core, keys)

    # What it is

    @property
    def slots(self) -> int:
        """Values used in each ciphertext."""
        return int(self._core.slots)

    @property
    def degree(self) -> int:
        """Degree in the secret key: 1, or 2 for a product that is not relinearized."""
        return int(self._core.degree)

    @property
    def level(self) -> int:
        """Each rescaling takes one; 1 is the lowest."""
        return int(self._core.level)

    @property
    def scale(self) -> float:
        """What the values are multiplied by inside; tracked exactly."""
        return float(self._core.scale)

    @property
    def dtype(self) -> Any:
        """What decryption gives: float64 or complex128."""
        return np.dtype(np.complex128 if self._core.complex else np.float64)

    @property
    def precision(self) -> float | None:
        """Bits after the binary point that are right: a bound from the noise model and the size of what was encrypted here; 0
        where it is less than one. None where nothing can be promised: where anything came from a file, keys included, or where
        values may have outgrown their modulus on the way.
        """
        bits = float(self._core.precision)
        return bits if math.isfinite(bits) else None

    @property
    def fresh(self) -> bool:
        """Whether nothing was computed on it since it was encrypted, or its file says so."""
        return bool(self._core.fresh)

    @property
    def parameters(self) -> Parameters:
        """The parameter set."""
        return Parameters(self._core.parameters)

    def __repr__(self) -> str:
        p, bits = self.parameters, self.precision
        none = "precision unknown (loaded)" if math.isnan(self._core.precision) else "no bit right (outgrown)"
        right = none if bits is None else f"{bits:.0f} bits after the point (estimate)"
        seeded = ", seeded" if self._core.seeded else ""
        return (
            f"<CKKS tensor {self.shape} x {self.slots:,} {self.dtype}: N=2^{p.n.bit_length() - 1}, log q {p.log_q:.0f}, "
            f"{p.security}, degree {self.degree}, level {self.level} of {p.levels}, scale 2^{math.log2(self.scale):.1f}, {right}, "
            f"{readable_bytes(self.nbytes)}{seeded}, key {self.key_id[:8]}>"
        )

    def __bool__(self) -> bool:
        raise TypeError("an encrypted value cannot steer the program: nobody here knows it")

    def __float__(self) -> float:
        raise TypeError("an encrypted value is no number before the secret key decrypts it")

    # Arithmetic

    def _with(self, core: _core.CkksCiphertext, other: Tensor) -> Tensor:
        return Tensor(core, self._keys or other._keys)

    def __add__(self, other: Any) -> Tensor:
        if isinstance(other, Tensor):
            return self._with(_core.ckks_add(self._core, other._core), other)
        if isinstance(other, Plaintext):
            return self._wrap(_core.ckks_add_plain(self._core, other._core))
        array, is_complex, each = _operand(self, other, "the values added")
        if each:
            return self._wrap(_core.ckks_add_constants(self._core, array, is_complex))
        plain = _core.ckks_encode(self._core.parameters, array, is_complex, self.level, self.scale)
        return self._wrap(_core.ckks_add_plain(self._core, plain))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        if isinstance(other, Tensor):
            return self._with(_core.ckks_subtract(self._core, other._core), other)
        if isinstance(other, Plaintext):
            return -(-self).__add__(other)
        array, is_complex, _ = _operand(self, other, "the values subtracted")
        return self.__add__(-array if is_complex else -array.real)

    def __rsub__(self, other: Any) -> Tensor:
        return (-self).__add__(other)

    def __neg__(self) -> Tensor:
        return self._wrap(_core.ckks_negate(self._core))

    def __mul__(self, other: Any) -> Tensor:
        return product(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Tensor:
        if isinstance(other, (Tensor, Plaintext)):
            raise _core.DtypeError("CKKS divides by clear numbers alone; polynomial(x, ...) approximates 1/x")
        array, is_complex, _ = _operand(self, other, "the divisors")
        if not np.all(array):
            raise _core.PlaintextRangeError("division by zero")
        inverse = 1 / array
        return product(self, inverse if is_complex else inverse.real)

    def __rtruediv__(self, other: Any) -> Tensor:
        raise _core.DtypeError("CKKS divides by clear numbers alone; polynomial(x, ...) approximates 1/x")

    def __pow__(self, exponent: int) -> Tensor:
        """In ceil(log2(exponent)) levels."""
        powers = {1: self}

        def power(n: int) -> Tensor:
            if n not in powers:
                largest = 1 << ((n - 1).bit_length() - 1)
                powers[n] = power(largest) * power(n - largest)
            return powers[n]

        return power(exponent_of(exponent))

    def __matmul__(self, matrix: Any) -> Tensor:
        from heliograph.ckks.functions import matmul

        if isinstance(matrix, Tensor):
            raise _core.DtypeError("one side of a matrix product is clear; inner_product multiplies two tensors")
        return matmul(np.asarray(complexes(matrix, "the matrix")[0]).T, self)

    def __rmatmul__(self, matrix: Any) -> Tensor:
        from heliograph.ckks.functions import matmul

        return matmul(matrix, self)

    def sum(self, axis: int | None = None) -> Tensor:
        """As `hg.ckks.sum`: over ciphertexts."""
        from heliograph.ckks.functions import sum as total

        return total(self, axis)

    def conjugate(self, *, progress: Progress | None = None) -> Tensor:
        """As `hg.ckks.conjugate`."""
        from heliograph.ckks.functions import conjugate

        return conjugate(self, progress=progress)


class Plaintext:
    """Encoded values, one for each slot, for adding to and multiplying tensors. Made by `encode`."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.CkksPlaintext) -> None:
        self._core = core

    @property
    def shape(self) -> tuple[int, ...]:
        """Plaintext polynomials along each axis."""
        return tuple(self._core.shape)

    @property
    def level(self) -> int:
        """The highest level of tensors it goes with."""
        return self._core.level

    @property
    def scale(self) -> float:
        """What the values are multiplied by inside."""
        return self._core.scale

    def __repr__(self) -> str:
        return f"<CKKS plaintext {self.shape}: level {self.level}, scale 2^{math.log2(self.scale):.1f}>"


def encode(
    parameters: Parameters, values: Any, *, slots: int = -1, level: int | None = None, scale: float | None = None
) -> Plaintext:
    """Numbers as plaintexts, once for many uses: the axis `slots` of `values` lies in the slots; fewer than there are slots are
    filled up with zeros. `level` (default the top) and `scale` (default that level's) are those of the tensors they go with.

    Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError, LevelError, ScaleError.
    """
    parameters = of_kind(parameters, Parameters, "CKKS encodes by")
    array, is_complex = complexes(values, "the values")
    array = moved_last(array, slots, "the values")
    at = level_of(parameters, level)
    return Plaintext(
        _core.ckks_encode(parameters._core, array, is_complex, at, 0.0 if scale is None else real(scale, "the scale"))
    )


def level_of(parameters: Parameters, level: int | None) -> int:
    """A level as the engine takes it: 0 for the top. Raises LevelError for what is none."""
    if level is None:
        return 0
    found = whole(level, "a level")
    if not 1 <= found <= parameters.levels:
        raise _core.LevelError(f"there is no level {found}: this set has levels 1 to {parameters.levels}")
    return found


def _operand(x: Tensor, values: Any, what: str) -> tuple[Any, bool, bool]:
    """Clear numbers as [..., slots] or [..., 1], whether complex, and whether they are one for each ciphertext."""
    array, is_complex = complexes(values, what)
    if array.ndim == 0:
        return array.reshape(1), is_complex, True
    if array.shape[-1] == 1:
        return array, is_complex, True
    if array.shape[-1] != x.slots:
        raise _core.ShapeError(
            f"{what} have a last axis of {array.shape[-1]:,}: it lies along the slots and has {x.slots:,} values, or 1"
        )
    return array, is_complex, False


def keys_of(tensors: tuple[Tensor, ...], keys: EvaluationKeys | None, what: str) -> EvaluationKeys:
    """Any operand's keys. Raises MissingKeyError, MismatchError for another scheme's."""
    from heliograph.ckks.keys import EvaluationKeys as Own

    if keys is not None and not isinstance(keys, Own):
        raise _core.MismatchError(f"{described(keys)} are no evaluation keys of the tensor's scheme")
    for found in (keys, *(t._keys for t in tensors)):
        if found is not None:
            return found
    raise _core.MissingKeyError(f"{what} needs evaluation keys: load the tensor through a Server, or pass keys=")


def require_tensor(x: Any, what: str) -> None:
    """Raises DtypeError for anything but a tensor of CKKS."""
    if not isinstance(x, Tensor):
        raise _core.DtypeError(f"{what} takes a tensor of CKKS, not {type(x).__name__}")


def product(
    x: Tensor,
    other: Any,
    *,
    relinearize: bool = True,
    rescale: bool = True,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """x * other. Not relinearized: of degree two. Not rescaled: at the product of the scales."""
    if isinstance(other, Tensor):
        if x.degree > 1 or other.degree > 1 or relinearize:
            found = keys_of((x, other), keys, "a product")
        a, b = (_core.ckks_relinearize(t._core, found._core) if t.degree > 1 else t._core for t in (x, other))
        if relinearize and rescale:
            return Tensor(_core.ckks_multiply_rescale(a, b, found._core, progress), found)
        made = x._with(_core.ckks_multiply(a, b), other)
        if relinearize:
            return Tensor(_core.ckks_relinearize(made._core, found._core, progress), found)
    elif isinstance(other, Plaintext):
        made = x._wrap(_core.ckks_multiply_plain(x._core, other._core))
    else:
        made, scaled = _times_clear(x, other)
        rescale = rescale and scaled
    return made._wrap(_core.ckks_rescale(made._core, progress)) if rescale else made


def factor_scale(x: Tensor) -> float:
    """The scale of clear factors with which the rescaled product is at its level's scale. Raises ScaleError for a tensor at the
    scale of a product: so few bits would be left of the factors that they would vanish.
    """
    level_scale = x.parameters.scale(x.level)
    if x.scale > 2 * level_scale:
        raise _core.ScaleError(
            f"this tensor has a scale of 2^{math.log2(x.scale):.1f}, its level one of 2^{math.log2(level_scale):.1f}: rescale "
            "products before they are multiplied by clear numbers"
        )
    return level_scale * level_scale / x.scale


def _times_clear(x: Tensor, values: Any) -> tuple[Tensor, bool]:
    """The product with clear numbers, and whether its scale has grown."""
    if isinstance(values, complex) and values in _ONES:
        turned = x._wrap(_core.ckks_multiply_i(x._core))
        return (turned if values == 1j else -turned), False
    array, is_complex, each = _operand(x, values, "the factors")
    integral = np.asarray(values).dtype.kind in "iubO"
    if each and integral:
        return x._wrap(_core.ckks_multiply_constants(x._core, array, 1.0)), False
    scale = factor_scale(x)
    if not each:
        plain = _core.ckks_encode(x._core.parameters, array, is_complex, x.level, scale)
        return x._wrap(_core.ckks_multiply_plain(x._core, plain)), True
    core = _core.ckks_multiply_constants(x._core, np.ascontiguousarray(array.real + 0j), scale)
    if is_complex:
        imaginary = _core.ckks_multiply_constants(x._core, np.ascontiguousarray(array.imag + 0j), scale)
        core = _core.ckks_add(core, _core.ckks_multiply_i(imaginary))
    return x._wrap(core), True
