"""Encrypted booleans and integers: NumPy's shapes, operators and dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from heliograph import _core, _shapes
from heliograph._arrays import axes_of, printable, readable_bytes
from heliograph._matrices import Axis, along_axis, require_vectors
from heliograph._schemes import told
from heliograph._shapes import Progress
from heliograph.forecasting import announced
from heliograph.tfhe.dtypes import array_of, bits_of, holder, name_of, widened, words_of
from heliograph.tfhe.parameters import Parameters
from heliograph.tfhe.scheme import TFHE

if TYPE_CHECKING:
    from heliograph.tfhe.keys import EvaluationKeys

# a OP b with the operands exchanged
_MIRRORED = {
    **{name: name for name in ("add", "multiply", "and", "or", "xor", "nand", "nor", "xnor", "equal", "not_equal")},
    **{"minimum": "minimum", "maximum": "maximum", "andny": "andyn", "andyn": "andny", "orny": "oryn", "oryn": "orny"},
    **{"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"},
}
_SHIFTS = ("shift_left", "shift_right", "rotate_left", "rotate_right")


class Tensor(_shapes.Tensor[Parameters, "EvaluationKeys"], core=_core.TfheCiphertext):
    """Encrypted booleans or integers in an array, an element each.

    Operators take tensors of one dtype (`astype` converts), integers and integer arrays of values the dtype holds, and
    broadcast. Results are exact and wrap as NumPy's; comparisons give booleans. Differences: a divisor that is zero gives a
    quotient of all ones (-1 where signed) and the dividend as remainder; an encrypted shift amount counts modulo the width
    where that is a power of two. Each operator is one call of the engine.

    >>> secret.decrypt(a + 250)  # wraps, as NumPy's uint8
    array([1, 6], dtype=uint8)
    >>> secret.decrypt(a < b), secret.decrypt(~p | q)
    (array([False,  True]), array([ True, False,  True,  True]))
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == gives a tensor
    _scheme = TFHE

    # What it is

    _name = told("type", str, "Of an element: the engine's and files' word.")

    @property
    def dtype(self) -> Any:
        """NumPy's dtype of an element; the name ("uint24") where NumPy has none."""
        name = self._name
        return holder(name) if holder(name).name == name else name

    def __repr__(self) -> str:
        p, seeded = self.parameters, ", seeded" if self._core.seeded else ""
        name = f" {printable(p.name)}" if p.name else ""
        key = f"key {self.key_id[:8]}" if self.key_id else "no key: clear values"
        return (
            f"<TFHE tensor {self.shape} of {self._name}:{name} n={p.n}, N={p.degree}, {p.security}, {self._core.wires} LWE an element, "
            f"{readable_bytes(self.nbytes)}{seeded}, {key}>"
        )

    def __bool__(self) -> bool:
        raise TypeError(
            "an encrypted value cannot steer the program: nobody here knows it; use hg.tfhe.select(condition, a, b)"
        )

    def __int__(self) -> int:
        raise TypeError("an encrypted value is no integer before the secret key decrypts it")

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

    # Bits

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

    def astype(self, dtype: Any, *, progress: Progress | None = None) -> Tensor:
        """The values in another dtype, as NumPy converts: truncated, or extended by zeros or the sign; to bool: not zero.

        >>> secret.decrypt(b.astype("int8")), secret.decrypt(a.astype(bool))
        (array([  3, -56], dtype=int8), array([ True,  True]))
        """
        name = name_of(dtype)
        return self if name == self._name else run("convert", [self], dtype=name, progress=progress)[0]

    def sum(
        self, axis: Axis = None, *, dtype: Any = None, keys: EvaluationKeys | None = None, progress: Progress | None = None
    ) -> Tensor:
        """As `hg.tfhe.sum`."""
        if isinstance(axis, str) and along_axis(self, axis) is None:
            raise _core.DtypeError(_NO_SLOTS)
        count = math.prod(self.shape[a] for a in axes_of(axis, self.shape))
        name = name_of(dtype) if dtype is not None else "int64" if self._name == "bool" else widened(self._name, count)
        found = _shapes.keys_of([self], keys, "a sum")
        bound = Tensor(self._core, found)
        turned, _ = (bound if self._name == "bool" else bound.astype(name))._along_one(axis)
        note(found, "sum", [turned], dtype=name)

        def computed(progress: Progress | None = None) -> Tensor:
            return Tensor(_core.tfhe_sum(found._core, turned._core, 0, name, progress), found)

        with _announced(found, "add", (name, name), [turned.shape], (), "", computed, [turned]):
            return computed(progress)

    def matmul(self, weights: Any, bias: Any = None, *, axis: Axis = None, progress: Progress | None = None) -> Tensor:
        """As `hg.matmul`, of a matrix that is encrypted or clear."""
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
        made = product_of(weights, flat, progress=progress)
        return made.reshape(made.shape[0], *others).transpose([*range(1, along + 1), 0, *range(along + 1, self.ndim)])

    def multiply(self, other: Any, *, progress: Progress | None = None) -> Tensor:
        """As `hg.multiply`.

        >>> secret.decrypt(a.multiply(3))
        array([21, 36], dtype=uint8)
        """
        return binary("multiply", self, other, progress=progress)

    def dot(self, other: Any) -> Tensor:
        """As `hg.dot`."""
        require_vectors(self.shape, other.shape if isinstance(other, Tensor) else array_of(other, "the factors").shape)
        return product_of(self, other)


_NO_SLOTS = "a tensor of TFHE has no slots: an element is a ciphertext, and an axis is one of its shape"

# Calls of the engine


def require_tensors(operands: Sequence[Any], what: str) -> None:
    """Raises DtypeError for a clear value, or another scheme's tensor."""
    for operand in operands:
        if not isinstance(operand, Tensor):
            raise _core.DtypeError(
                f"{what} takes tensors of TFHE, not {type(operand).__name__}; hg.tfhe.trivial makes one of clear values"
            )


def keys_of(operands: Sequence[Any], what: str) -> EvaluationKeys:
    """Any operand's keys. Raises MissingKeyError, DtypeError."""
    require_tensors(operands, what)
    found: EvaluationKeys = _shapes.keys_of(operands, None, what)
    return found


def note(
    keys: EvaluationKeys, name: str, operands: Sequence[Tensor], arguments: Sequence[int] = (), dtype: str = ""
) -> None:
    """Tells the keys of a trial run (`hg.parameters_for`) what they are used for."""
    noted = keys._noted
    if noted is not None:
        noted.append((name, tuple((t._name, t.shape) for t in operands), tuple(arguments), dtype))


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
    """One operation of the engine, by its name there."""
    keys = keys_of(operands, name)
    cores = [t._core for t in operands]
    note(keys, name, operands, arguments, dtype)

    def computed(progress: Progress | None = None) -> list[Tensor]:
        made = _core.tfhe_compute(keys._core, name, cores, list(arguments), dtype, variant, goal, progress)
        return [Tensor(core, keys) for core in made]

    kinds = tuple(t._name for t in operands)
    with _announced(keys, name, kinds, [t.shape for t in operands], tuple(arguments), dtype, computed, operands):
        return computed(progress)


#: Bootstraps of a call at least, before its time is forecast: fewer take less than a minute anywhere.
_MANY = 5_000


def _announced(
    keys: EvaluationKeys,
    name: str,
    kinds: tuple[str, ...],
    shapes: Sequence[tuple[int, ...]],
    arguments: tuple[int, ...],
    dtype: str,
    computed: Any,
    operands: Sequence[Tensor],
    terms: int = 1,
) -> AbstractContextManager[None]:
    """`forecasting.announced` for a call, which `computed` makes, of so many bootstraps; `terms`: calls to an element."""
    try:
        elements = math.prod(np.broadcast_shapes(*shapes)) * terms
        many = keys._noted is None and elements * _bootstraps_of(keys.parameters, name, kinds, arguments, dtype) >= _MANY
    except (ValueError, _core.HeliographError):  # which the call says better
        many = False
    what = f"{name} of {operands[0].shape} elements"
    return announced(what, (lambda *_: computed()) if many else None, *(Tensor(t._core, keys) for t in operands))


@lru_cache(maxsize=256)
def _bootstraps_of(parameters: Parameters, name: str, kinds: tuple[str, ...], arguments: tuple[int, ...], dtype: str) -> int:
    return parameters.cost(name, *kinds, arguments=arguments, dtype=dtype or None)[0]


def clear(values: Any, like: Tensor, what: str, dtype: str | None = None) -> Tensor:
    """Clear values as an operand beside `like`."""
    name = like._name if dtype is None else dtype
    keys = keys_of([like], what)
    return Tensor(_core.tfhe_trivial(keys._core, words_of(values, name, what), name), keys)


def _constant(words: Any) -> int | None:
    """The one value of an array, as the engine's signed argument."""
    if not words.size or (words.size > 1 and not np.all(words == words.flat[0])):
        return None
    return int(np.asarray(words.flat[0]).view(np.int64))


def binaries(name: str, a: Any, b: Any, **options: Any) -> list[Tensor]:
    """A binary operation; one operand may be clear. A clear value that is the same everywhere has a circuit of its own."""
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
        return run(name, [a, Tensor(_core.tfhe_trivial(keys._core, words, kind), keys)], **options)
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
    return run(name, [clear(a, b, what), b], **options)


def _amounts(values: Any, like: Tensor, what: str) -> Any:
    """Clear amounts of a shift as words."""
    array = array_of(values, what)
    bits = bits_of(like._name)
    if array.size > 1 and (int(array.min()) < 0 or int(array.max()) >= bits):
        raise _core.ParameterError(f"{what}, an array, is 0 to {bits - 1} for {like._name}")
    return words_of(array, "int64", what)


def _spread(results: list[Tensor], a: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Results broadcast as if the clear operand had been there."""
    try:
        whole = np.broadcast_shapes(a.shape, shape)
    except ValueError:
        raise _core.ShapeError(f"shapes {a.shape} and {shape} do not broadcast") from None
    return results if whole == a.shape else [r.broadcast_to(whole) for r in results]


def binary(name: str, a: Any, b: Any, **options: Any) -> Tensor:
    """As `binaries`, of one result."""
    return binaries(name, a, b, **options)[0]


def product_of(
    a: Any, b: Any, *, algorithm: str = "", variant: str = "", goal: str = "", progress: Progress | None = None
) -> Tensor:
    """A matrix product of NumPy's shapes; one operand may be clear."""
    like = a if isinstance(a, Tensor) else b
    if not isinstance(like, Tensor):
        raise _core.DtypeError("matmul takes at least one tensor of TFHE")
    x = a if isinstance(a, Tensor) else clear(a, like, "the left matrix")
    y = b if isinstance(b, Tensor) else clear(b, like, "the right matrix")
    if x.ndim == 0 or y.ndim == 0:
        raise _core.ShapeError("a matrix product takes tensors of at least one axis")
    left, right = x.ndim == 1, y.ndim == 1
    x = x.reshape(1, *x.shape) if left else x
    y = y.reshape(*y.shape, 1) if right else y
    keys = keys_of([x, y], "a matrix product")
    note(keys, "matmul", [x, y])

    def computed(progress: Progress | None = None) -> Tensor:
        return Tensor(_core.tfhe_matmul(keys._core, x._core, y._core, algorithm, variant, goal, progress), keys)

    result = (*x.shape[:-1], y.shape[-1])
    with _announced(keys, "multiply", (x._name, y._name), [result], (), "", computed, [x, y], terms=x.shape[-1]):
        made = computed(progress)
    if right:
        made = made[..., 0]
    return made[..., 0] if left and right else made[..., 0, :] if left else made
