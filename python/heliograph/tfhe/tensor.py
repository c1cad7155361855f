"""Tensors of booleans and integers encrypted by TFHE, with NumPy's shapes, operators and dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common import tensor as tensors
from heliograph._common.arguments import axes_of, printable, readable_bytes
from heliograph._common.matrices import Axis, along_axis, require_vectors
from heliograph._common.operations import composite, operation
from heliograph._common.schemes import engine_property
from heliograph._common.tensor import Progress
from heliograph.programs.forecast import announced
from heliograph.tfhe.dtypes import array_of, bits_of, holder, name_of, widened, words_of
from heliograph.tfhe.evaluation_keys import EvaluationKeys
from heliograph.tfhe.parameters import Parameters
from heliograph.tfhe.scheme import TFHE

#: Evaluation keys of TFHE.
Keys = EvaluationKeys["Tensor"]

# Operation with swapped operands: a OP b = b _MIRRORED[OP] a
_MIRRORED = {
    **{name: name for name in ("add", "multiply", "and", "or", "xor", "nand", "nor", "xnor", "equal", "not_equal")},
    **{"minimum": "minimum", "maximum": "maximum", "andny": "andyn", "andyn": "andny", "orny": "oryn", "oryn": "orny"},
    **{"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"},
}
_SHIFTS = ("shift_left", "shift_right", "rotate_left", "rotate_right")


class Tensor(tensors.Tensor[Parameters, Keys], core=_core.tfhe.Ciphertext):
    """An array of booleans or integers encrypted by TFHE. ``shape`` counts elements.

    Operators take tensors of one dtype (`astype` converts), and integers and integer arrays within the range of the dtype.
    Operands broadcast to a common shape. Results are exact and wrap as in NumPy; comparisons return booleans. Each operator
    is one call of the engine.

    Two results differ from NumPy's. Division by zero gives a quotient of all ones (-1 if signed) and the dividend as
    remainder. An encrypted shift amount counts modulo the width if the width is a power of two.

    >>> secret.decrypt(a + 250)  # wraps, as NumPy's uint8
    array([1, 6], dtype=uint8)
    >>> secret.decrypt(a < b), secret.decrypt(~p | q)
    (array([False,  True]), array([ True, False,  True,  True]))
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == returns a tensor
    _scheme = TFHE

    # Properties

    _name = engine_property("type", str, "Type of an element, as the engine and files name it.")

    @property
    def dtype(self) -> Any:
        """NumPy dtype of an element, or its name if NumPy has no such dtype ("uint24")."""
        name = self._name
        return holder(name) if holder(name).name == name else name

    def __repr__(self) -> str:
        p, seeded = self.parameters, ", seeded" if self._core.seeded else ""
        name = f" {printable(p.name)}" if p.name else ""
        key = f"key {self.key_id[:8]}" if self.key_id else "no key: clear values"
        return (
            f"<TFHE tensor {self.shape} of {self._name}:{name} n={p.n}, N={p.degree}, {p.security}, {self._core.wires} LWE "
            f"an element, {readable_bytes(self.nbytes)}{seeded}, {key}>"
        )

    def __bool__(self) -> bool:
        raise TypeError(
            "an encrypted value cannot be a condition: its truth is unknown here; use hg.tfhe.select(condition, a, b)"
        )

    def __int__(self) -> int:
        raise TypeError("cannot make an integer of an encrypted tensor: decrypt it with its secret key")

    __index__ = __int__

    # Arithmetic

    def __add__(self, other: Any) -> Tensor:
        return binary("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        return binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return binary("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary("multiply", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Tensor:
        return binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return binary("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return binary("floor_remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return binary("floor_remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        q, r = binaries("floor_divmod", self, other)
        return q, r

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        q, r = binaries("floor_divmod", other, self)
        return q, r

    def __neg__(self) -> Tensor:
        return run("negate", [self])[0]

    def __abs__(self) -> Tensor:
        return run("absolute", [self])[0]

    def __matmul__(self, other: Any) -> Tensor:
        return product_of(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return product_of(other, self)

    # Operators on bits

    def __and__(self, other: Any) -> Tensor:
        return binary("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Tensor:
        return binary("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Tensor:
        return binary("xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Tensor:
        return run("not", [self])[0]

    def __lshift__(self, other: Any) -> Tensor:
        return binary("shift_left", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return binary("shift_left", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return binary("shift_right", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return binary("shift_right", other, self)

    # Comparisons

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary("equal", self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary("not_equal", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return binary("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return binary("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return binary("greater_equal", self, other)

    # Types and reductions

    @composite
    def astype(self, dtype: Any, *, progress: Progress | None = None) -> Tensor:
        """Converts to another dtype as NumPy does: truncates, or extends by zeros or the sign. A conversion to bool tests
        whether the value is not zero.

        >>> secret.decrypt(b.astype("int8")), secret.decrypt(a.astype(bool))
        (array([  3, -56], dtype=int8), array([ True,  True]))
        """
        name = name_of(dtype)
        return self if name == self._name else run("convert", [self], dtype=name, progress=progress)[0]

    @composite
    def sum(
        self, axis: Axis = None, *, dtype: Any = None, keys: Keys | None = None, progress: Progress | None = None
    ) -> Tensor:
        """Same as `hg.tfhe.sum`."""
        if isinstance(axis, str) and along_axis(self, axis) is None:
            raise _core.DtypeError(_NO_SLOTS)
        count = math.prod(self.shape[a] for a in axes_of(axis, self.shape))
        name = name_of(dtype) if dtype is not None else "int64" if self._name == "bool" else widened(self._name, count)
        own_keys = tensors.keys_of([self], keys, "a sum")
        bound = Tensor(self._core, own_keys)
        turned, _ = (bound if self._name == "bool" else bound.astype(name))._along_one(axis)
        note(own_keys, "sum", [turned], dtype=name)

        def computed(progress: Progress | None = None) -> Tensor:
            return Tensor(_core.tfhe.sum(own_keys._core, turned._core, 0, name, progress), own_keys)

        with _announced(own_keys, "add", (name, name), [turned.shape], (), "", computed, [turned]):
            return computed(progress)

    @composite
    def matmul(self, weights: Any, bias: Any = None, *, axis: Axis = None, progress: Progress | None = None) -> Tensor:
        """Same as `hg.matmul`; the matrix is encrypted or clear."""
        if bias is not None:
            raise _core.DtypeError("matmul of TFHE takes no bias: add it to the product")
        if axis is None:
            return product_of(weights, self, progress=progress)
        along = along_axis(self, axis)
        if along is None:
            raise _core.DtypeError(_NO_SLOTS)
        rest = [a for a in range(self.ndim) if a != along]
        others = [self.shape[a] for a in rest]
        flat = self.transpose([along, *rest]).reshape(self.shape[along], int(np.prod(others, dtype=int)))
        product = product_of(weights, flat, progress=progress)
        return product.reshape(product.shape[0], *others).transpose([*range(1, along + 1), 0, *range(along + 1, self.ndim)])

    @composite
    def multiply(self, other: Any, *, progress: Progress | None = None) -> Tensor:
        """Same as `hg.multiply`.

        >>> secret.decrypt(a.multiply(3))
        array([21, 36], dtype=uint8)
        """
        return binary("multiply", self, other, progress=progress)

    @composite
    def dot(self, other: Any) -> Tensor:
        """Same as `hg.dot`."""
        require_vectors(self.shape, other.shape if isinstance(other, Tensor) else array_of(other, "the factors").shape)
        return product_of(self, other)


_NO_SLOTS = (
    'a tensor of TFHE has no slots, so axis="slots" is not possible: each element is a ciphertext; pass an axis of its shape'
)

# Calls of the engine


def require_tensors(operands: Sequence[Any], what: str) -> None:
    """Raises DtypeError for anything but tensors of TFHE."""
    for operand in operands:
        if not isinstance(operand, Tensor):
            raise _core.DtypeError(
                f"{what} takes tensors of TFHE, not {type(operand).__name__}; hg.tfhe.trivial makes one of clear values"
            )


def keys_of(operands: Sequence[Any], what: str) -> Keys:
    """Returns the keys of an operand. Raises MissingKeyError, DtypeError."""
    require_tensors(operands, what)
    keys: Keys = tensors.keys_of(operands, None, what)
    return keys


def note(keys: Keys, name: str, operands: Sequence[Tensor], arguments: Sequence[int] = (), dtype: str = "") -> None:
    """Records a call with the keys of a trial run (`hg.parameters_for`)."""
    noted = keys._noted
    if noted is not None:
        noted.append((name, tuple((t._name, t.shape) for t in operands), tuple(arguments), dtype))


@operation
def run(
    name: str,
    operands: Sequence[Tensor],
    arguments: Sequence[int] = (),
    *,
    dtype: str = "",
    variant: str = "",
    goal: str = "",
    progress: Progress | None = None,
) -> list[Tensor]:
    """Runs an operation of the engine by name and returns its results."""
    keys = keys_of(operands, name)
    cores = [t._core for t in operands]
    note(keys, name, operands, arguments, dtype)

    def computed(progress: Progress | None = None) -> list[Tensor]:
        results = _core.tfhe.compute(keys._core, name, cores, list(arguments), dtype, variant, goal, progress)
        return [Tensor(core, keys) for core in results]

    kinds = tuple(t._name for t in operands)
    with _announced(keys, name, kinds, [t.shape for t in operands], tuple(arguments), dtype, computed, operands):
        return computed(progress)


#: Minimum bootstraps of a call whose time is forecast; a call with fewer takes less than a minute on any machine.
_MANY = 5_000


def _announced(
    keys: Keys,
    name: str,
    kinds: tuple[str, ...],
    shapes: Sequence[tuple[int, ...]],
    arguments: tuple[int, ...],
    dtype: str,
    computed: Any,
    operands: Sequence[Tensor],
    terms: int = 1,
) -> AbstractContextManager[None]:
    """Returns `forecasting.announced` for the call `computed` if it has many bootstraps.

    `terms` is the number of calls for one element.
    """
    try:
        elements = math.prod(np.broadcast_shapes(*shapes)) * terms
        many = keys._noted is None and elements * _bootstraps_of(keys.parameters, name, kinds, arguments, dtype) >= _MANY
    except (ValueError, _core.HeliographError):  # the call itself reports the error
        many = False
    what = f"{name} of {operands[0].shape} elements"
    return announced(what, (lambda *_: computed()) if many else None, *(Tensor(t._core, keys) for t in operands))


@lru_cache(maxsize=256)
def _bootstraps_of(parameters: Parameters, name: str, kinds: tuple[str, ...], arguments: tuple[int, ...], dtype: str) -> int:
    return parameters.cost(name, *kinds, arguments=arguments, dtype=dtype or None)[0]


@operation
def trivial(values: Any, like: Tensor, what: str, dtype: str | None = None) -> Tensor:
    """Encodes clear values as a trivial tensor of the type and keys of `like`."""
    name = like._name if dtype is None else dtype
    keys = keys_of([like], what)
    return Tensor(_core.tfhe.trivial(keys._core, words_of(values, name, what), name), keys)


def _constant(words: Any) -> int | None:
    """Returns the single value of a constant array as a signed argument for the engine; None for other arrays."""
    if not words.size or (words.size > 1 and not np.all(words == words.flat[0])):
        return None
    return int(np.asarray(words.flat[0]).view(np.int64))


@operation
def binaries(name: str, a: Any, b: Any, **options: Any) -> list[Tensor]:
    """Runs a binary operation; one operand may be clear. A constant clear operand has a separate circuit."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return run(name, [a, b], **options)
    if not isinstance(a, Tensor):
        if not isinstance(b, Tensor):
            raise _core.DtypeError(f"{name} takes at least one tensor of TFHE")
        return _reflected(name, a, b, **options)
    what = f"the right operand of {name}"
    shift = name in _SHIFTS
    words = _amounts(b, a, what) if shift else words_of(b, a._name, what)
    value = _constant(words)
    if value is None:
        kind = "uint8" if shift else a._name
        keys = keys_of([a], name)
        return run(name, [a, Tensor(_core.tfhe.trivial(keys._core, words, kind), keys)], **options)
    return _spread(run(name, [a], [value], **options), a, words.shape)


def _reflected(name: str, a: Any, b: Tensor, **options: Any) -> list[Tensor]:
    if name in _MIRRORED:
        return binaries(_MIRRORED[name], b, a, **options)
    what = f"the left operand of {name}"
    if name == "subtract":
        words = words_of(a, b._name, what)
        value = _constant(words)
        if value is not None:
            return _spread(run("clear_subtract", [b], [value], **options), b, words.shape)
    return run(name, [trivial(a, b, what), b], **options)


def _amounts(values: Any, like: Tensor, what: str) -> Any:
    """Returns clear shift amounts as words. Raises ParameterError for an array of amounts beyond the width."""
    array = array_of(values, what)
    bits = bits_of(like._name)
    if array.size > 1 and (int(array.min()) < 0 or int(array.max()) >= bits):
        raise _core.ParameterError(
            f"{what}, an array, must be 0 to {bits - 1} for {like._name}, not {int(array.min())} to {int(array.max())}"
        )
    return words_of(array, "int64", what)


def _spread(results: list[Tensor], a: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Broadcasts results to the shape of the operation with the clear operand."""
    try:
        full_shape = np.broadcast_shapes(a.shape, shape)
    except ValueError:
        raise _core.ShapeError(f"shapes {a.shape} and {shape} do not broadcast") from None
    return results if full_shape == a.shape else [r.broadcast_to(full_shape) for r in results]


def binary(name: str, a: Any, b: Any, **options: Any) -> Tensor:
    """Returns the first result of `binaries`."""
    return binaries(name, a, b, **options)[0]


@operation
def product_of(
    a: Any, b: Any, *, algorithm: str = "", variant: str = "", goal: str = "", progress: Progress | None = None
) -> Tensor:
    """Returns a matrix product with NumPy's shapes; one operand may be clear."""
    like = a if isinstance(a, Tensor) else b
    if not isinstance(like, Tensor):
        raise _core.DtypeError("matmul takes at least one tensor of TFHE")
    x = a if isinstance(a, Tensor) else trivial(a, like, "the left matrix")
    y = b if isinstance(b, Tensor) else trivial(b, like, "the right matrix")
    if x.ndim == 0 or y.ndim == 0:
        raise _core.ShapeError(
            f"a matrix product takes operands of at least one axis, not shapes {x.shape} and {y.shape}; use * for a product"
        )
    left, right = x.ndim == 1, y.ndim == 1
    x = x.reshape(1, *x.shape) if left else x
    y = y.reshape(*y.shape, 1) if right else y
    keys = keys_of([x, y], "a matrix product")
    note(keys, "matmul", [x, y])

    def computed(progress: Progress | None = None) -> Tensor:
        return Tensor(_core.tfhe.matmul(keys._core, x._core, y._core, algorithm, variant, goal, progress), keys)

    result = (*x.shape[:-1], y.shape[-1])
    with _announced(keys, "multiply", (x._name, y._name), [result], (), "", computed, [x, y], terms=x.shape[-1]):
        product = computed(progress)
    if right:
        product = product[..., 0]
    return product[..., 0] if left and right else product[..., 0, :] if left else product
