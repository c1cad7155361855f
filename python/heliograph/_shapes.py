"""Shapes and indices, the same for tensors of every scheme."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from heliograph import _core
from heliograph._arrays import (
    Encrypted,
    IndexingError,
    axes_of,
    axis_of,
    described,
    exponent_of,
    is_whole,
    listed,
    order_of,
    path_of,
    whole_numbers,
)
from heliograph._parameters import OfParameters, P
from heliograph._pickling import REDUCERS
from heliograph._schemes import Scheme, scheme_of, told

#: Told how much of a call is done, from 0 to 1.
Progress = Callable[[float], None]
C = TypeVar("C")
if TYPE_CHECKING:  # Python 3.11's have no defaults
    from typing_extensions import TypeVar as DefaultedTypeVar

    K = DefaultedTypeVar("K", default=Any)
else:
    K = TypeVar("K")


@dataclass(frozen=True)
class ShapeCalls(Generic[C]):
    """The engine's calls for one scheme's ciphertexts."""

    reshape: Callable[[C, Sequence[int]], C]
    slice: Callable[[C, int, int, int, int], C]
    index: Callable[[C, int, int], C]
    transpose: Callable[[C, Sequence[int]], C]
    broadcast_to: Callable[[C, Sequence[int]], C]
    concatenate: Callable[[Sequence[C], int], C]

    @staticmethod
    def of(scheme: Scheme) -> ShapeCalls[Any]:
        """Found by their names."""
        return ShapeCalls(*(scheme.call(field.name) for field in fields(ShapeCalls)))


def lengths_of(shape: Sequence[Any], size: int) -> list[int]:
    """The arguments of `reshape` as lengths; one of them may be -1. Raises ShapeError."""
    lengths = whole_numbers(shape[0] if len(shape) == 1 else shape, "a length")
    if lengths.count(-1) == 1:
        known = -math.prod(lengths)
        lengths[lengths.index(-1)] = size // known if known else 0
    return whole_lengths(lengths)


def whole_lengths(shape: Any) -> list[int]:
    """A shape as the engine takes it. Raises ShapeError for lengths that no axis has."""
    several = listed(shape)
    lengths: list[int] = [shape] if several is None else several
    for length in lengths:
        if not is_whole(length):
            raise _core.DtypeError(f"a length must be an integer, not {described(length)}")
        if not 0 <= length < 1 << 63:
            raise _core.ShapeError(f"no axis has a length of {described(length)}")
    return [int(length) for length in lengths]


def take(core: Any, key: Any, calls: ShapeCalls[Any]) -> Any:
    """``core[key]`` as NumPy: integers, slices, None, an ellipsis, and one list, array or mask. Raises IndexingError."""
    keys = [_index_of(k) for k in (key if isinstance(key, tuple) else (key,))]
    if sum(1 for k in keys if k is Ellipsis) > 1:
        raise IndexingError("an index has at most one ellipsis")
    _require_one_array(keys)
    ndim = len(core.shape)
    named = sum(k.ndim if _is_mask(k) else k is not None and k is not Ellipsis for k in keys)
    if named > ndim:
        raise IndexingError(f"{named} indices for a tensor of {ndim} axes")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * (ndim - named)
    axis = 0
    for k in keys:
        core, axis = _take_one(core, axis, k, calls)
    return core


def _is_mask(key: Any) -> bool:
    return isinstance(key, np.ndarray) and key.dtype == bool


def _index_of(key: Any) -> Any:
    """One index: a slice, None, an ellipsis, an int, or an array of integers or booleans. Raises IndexingError for anything else."""
    if key is None or key is Ellipsis or isinstance(key, slice):
        return key
    if is_whole(key):
        return int(key)
    if isinstance(key, (list, np.ndarray, range)):
        try:
            array = np.asarray(key)
        except (ValueError, TypeError):  # ragged
            array = np.asarray(None)
        if not array.size and array.dtype.kind == "f":
            array = array.astype(np.int64)  # as NumPy takes []
        if array.dtype.kind in "iu" and not array.ndim:
            return int(array)
        if array.dtype.kind in "iu" or (array.dtype == bool and array.ndim):
            return array
    raise IndexingError(
        f"a tensor is indexed by integers, slices, None, ..., and one list or array of integers or booleans, not by {described(key)}"
        if not isinstance(key, Encrypted)
        else "a tensor is not indexed by an encrypted one: nobody here knows it; hg.tfhe.look_up and hg.tfhe.select choose by encrypted values"
    )


def _require_one_array(keys: Sequence[Any]) -> None:
    """Raises IndexingError for several arrays, which NumPy pairs, and for one apart from an integer, whose axis NumPy moves."""
    arrays = [i for i, k in enumerate(keys) if isinstance(k, np.ndarray)]
    if len(arrays) > 1:
        raise IndexingError("a tensor is indexed by one list, array or mask at a time: x[a][:, b]")
    chosen = [i for i, k in enumerate(keys) if isinstance(k, (int, np.ndarray))]
    if arrays and chosen[-1] - chosen[0] >= len(chosen):
        raise IndexingError(
            "a list and an integer with something between them move axes in NumPy: index one after the other"
        )


def _take_one(core: Any, axis: int, key: Any, calls: ShapeCalls[Any]) -> tuple[Any, int]:
    """One index applied along `axis`; where the next one goes."""
    shape = list(core.shape)
    if key is None:
        return calls.reshape(core, [*shape[:axis], 1, *shape[axis:]]), axis + 1
    if isinstance(key, slice):
        try:
            positions = range(*key.indices(shape[axis]))
        except (TypeError, ValueError):  # what is no integer, a step of 0
            raise IndexingError(f"a slice is made of integers and its step is not 0: {described(key)}") from None
        return _take_range(core, axis, positions, calls), axis + 1
    if isinstance(key, int):
        return calls.index(core, axis, _position(key, shape[axis])), axis
    if _is_mask(key):
        axes = shape[axis : axis + key.ndim]
        if list(key.shape) != axes:
            raise IndexingError(f"a mask of shape {key.shape} does not fit axes of lengths {tuple(axes)}")
        core = calls.reshape(core, [*shape[:axis], key.size, *shape[axis + key.ndim :]])
        return _take_several(core, axis, np.flatnonzero(key).tolist(), calls), axis + 1
    several = [_position(int(k), shape[axis]) for k in key.flat]
    core = _take_several(core, axis, several, calls)
    if key.ndim != 1:
        core = calls.reshape(core, [*shape[:axis], *key.shape, *shape[axis + 1 :]])
    return core, axis + key.ndim


def _position(key: int, length: int) -> int:
    """An index from the front. Raises IndexingError."""
    position = key + (length if key < 0 else 0)
    if not 0 <= position < length:
        raise IndexingError(f"index {described(key)} is out of range for an axis of {length}")
    return position


def _take_range(core: Any, axis: int, positions: range, calls: ShapeCalls[Any]) -> Any:
    count = len(positions)
    if positions == range(core.shape[axis]):
        return core
    return calls.slice(core, axis, positions.start if count else 0, positions.step if count > 1 else 1, count)


def _take_several(core: Any, axis: int, positions: Sequence[int], calls: ShapeCalls[Any]) -> Any:
    """By runs of a constant step, each a view; of several a copy is made."""
    runs: list[range] = []
    at = 0
    while at < len(positions):
        step = positions[at + 1] - positions[at] if at + 1 < len(positions) else 1
        end = at + 1
        while step and end < len(positions) and positions[end] - positions[end - 1] == step:
            end += 1
        runs.append(range(positions[at], positions[end - 1] + (1 if step >= 0 else -1), step or 1))
        at = end
    parts = [_take_range(core, axis, run, calls) for run in runs or [range(0)]]
    return parts[0] if len(parts) == 1 else calls.concatenate(parts, axis)


#: The operators by NumPy's names, as Python calls their methods.
_ARITHMETIC = {
    **{"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv"},
    **{"remainder": "mod", "divmod": "divmod", "matmul": "matmul", "left_shift": "lshift", "right_shift": "rshift"},
    **{f"bitwise_{name}": name for name in ("and", "or", "xor")},
}
#: With what they are where the operands change places.
_COMPARISONS = {
    **{"equal": ("eq", "eq"), "not_equal": ("ne", "ne"), "less": ("lt", "gt"), "greater": ("gt", "lt")},
    **{"less_equal": ("le", "ge"), "greater_equal": ("ge", "le")},
}
#: NumPy's name of an operator: its methods here, of the left and of the right operand.
OPERATORS = {
    **{name: (f"__{own}__", f"__r{own}__") for name, own in _ARITHMETIC.items()},
    **{name: (f"__{left}__", f"__{right}__") for name, (left, right) in _COMPARISONS.items()},
}
#: NumPy's functions that have a counterpart here under another name than their own.
_COUNTERPARTS = {"add.reduce": "sum", "inner": "dot"}


def _instead(name: str, scheme: Scheme) -> str:
    """Why NumPy's function is not for encrypted tensors, and what is for those of a scheme."""
    own = _COUNTERPARTS.get(name, name)
    places = ["heliograph", f"heliograph.{scheme.module}"]
    found = [p for p in places if own in getattr(sys.modules.get(p), "__all__", ())]
    place = f"; there is hg{found[0].removeprefix('heliograph')}.{own}" if found else ""
    return f"NumPy's {name} does not compute on encrypted tensors{place}"


class Tensor(OfParameters[P], Encrypted, Generic[P, K]):
    """Ciphertexts in an array, of any scheme: `hg.bfv.Tensor`, `hg.ckks.Tensor`, `hg.tfhe.Tensor`. Nothing here computes.

    P is the class of the parameter set, K that of the evaluation keys.

    >>> x.shape, x[0].shape, x.key_id == secret.id
    ((2,), (), True)
    """

    __slots__ = ("_keys",)
    _places: ClassVar[bool] = False  #: whether a program's bootstraps are of these
    _calls: ClassVar[ShapeCalls[Any]]
    _keys: K | None

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        own = scheme_of(cls)
        if own is not None:
            cls._calls = ShapeCalls.of(own)

    def __init__(self, core: Any, keys: K | None = None) -> None:
        super().__init__(core.handle())  # its own: what changes one tensor in place changes no other
        self._keys = keys

    def _wrap(self, core: Any) -> Self:
        return type(self)(core, self._keys)

    def _with(self, core: Any, other: Tensor[Any, Any]) -> Self:
        """A result of two, with the keys of either."""
        return type(self)(core, other._keys if self._keys is None else self._keys)

    shape = told("shape", tuple[int, ...], "Lengths of the axes.")

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The product of the lengths."""
        return math.prod(self.shape)

    key_id = told("key_id", str, "Which key it was encrypted under.")
    nbytes = told("nbytes", int, "Bytes in memory.")

    def wait(self) -> None:
        """Blocks until it is computed: a GPU computes while its caller goes on. Only measuring needs it; decrypting and saving
        wait by themselves. Raises DeviceError where the computation failed.

        >>> (x * x).wait()  # returns when it is computed: for whoever takes times
        """
        self._core.wait()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("an encrypted value cannot steer the program: nobody here knows it")

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def multiply(self, other: Any, *, progress: Progress | None = None) -> Any:
        """As `hg.multiply`: each scheme's own."""
        raise NotImplementedError

    # In place, as NumPy: the tensor itself changes, for all who hold it. What was made of it before keeps its values.

    def _call(self, name: str, operand: Any, *rest: Any, into: bool) -> Self:
        """The engine's call of that name on this tensor and another operand: in place, in the tensor's own memory where nothing
        else shows it, or as a new tensor. With the keys of either.
        """
        other = operand if isinstance(operand, Tensor) else None
        core = operand if other is None else other._core
        if not into:
            made = self._scheme.call(name)(self._core, core, *rest)
            return self._wrap(made) if other is None else self._with(made, other)
        self._scheme.call(f"{name}_into")(self._core, core, *rest)
        if self._keys is None and other is not None:
            self._keys = other._keys
        return self

    def _become(self, made: Any) -> Self:
        """Changes to what was computed apart. Raises ShapeError, DtypeError where that is of another shape or kind."""
        of = [(t.shape, getattr(t, "slots", None)) for t in (self, made)]
        if of[0] != of[1]:
            raise _core.ShapeError(
                f"in place, a result of shape {made.shape} does not go into a tensor of shape {self.shape}"
            )
        kinds = [getattr(t, "dtype", None) for t in (self, made)]
        if kinds[0] != kinds[1]:
            raise _core.DtypeError(f"in place, a result of {kinds[1]} does not go into a tensor of {kinds[0]}")
        self._core, self._keys = made._core, made._keys
        return self

    def __iadd__(self, other: Any) -> Self:
        return self._become(operator.add(self, other))

    def __isub__(self, other: Any) -> Self:
        return self._become(operator.sub(self, other))

    def __imul__(self, other: Any) -> Self:
        return self._become(operator.mul(self, other))

    def __itruediv__(self, other: Any) -> Self:
        return self._become(operator.truediv(self, other))

    def __ifloordiv__(self, other: Any) -> Self:
        return self._become(operator.floordiv(self, other))

    def __imod__(self, other: Any) -> Self:
        return self._become(operator.mod(self, other))

    def __ipow__(self, exponent: int) -> Self:
        return self._become(operator.pow(self, exponent))

    def __imatmul__(self, other: Any) -> Self:
        return self._become(operator.matmul(self, other))

    def __iand__(self, other: Any) -> Self:
        return self._become(operator.and_(self, other))

    def __ior__(self, other: Any) -> Self:
        return self._become(operator.or_(self, other))

    def __ixor__(self, other: Any) -> Self:
        return self._become(operator.xor(self, other))

    def __ilshift__(self, other: Any) -> Self:
        return self._become(operator.lshift(self, other))

    def __irshift__(self, other: Any) -> Self:
        return self._become(operator.rshift(self, other))

    def __pow__(self, exponent: int) -> Self:
        exponent = exponent_of(exponent)
        if exponent == 1:
            return +self
        half = self ** (exponent // 2)
        product: Self = half.multiply(half)
        if exponent % 2:
            product = product.multiply(self)
        return product

    # NumPy's functions

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's operators are ours: ``array + x`` asks x. Raises DtypeError for its other functions."""
        names = OPERATORS.get(function.__name__)
        if method == "__call__" and not options and names is not None and len(inputs) == 2:
            a, b = inputs
            own, other, name = (a, b, names[0]) if isinstance(a, Tensor) else (b, a, names[1])
            found = getattr(type(own), name, None)
            if found is not None:
                return found(own, other)
        name = function.__name__ if method == "__call__" else f"{function.__name__}.{method}"
        raise _core.DtypeError(_instead(name, self._scheme))

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise _core.DtypeError(_instead(function.__name__, self._scheme))

    if not TYPE_CHECKING:  # for type checkers a tensor is nothing like an array: array * x is what x's operator gives

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise _core.DtypeError("an encrypted tensor has no values for an array: only the secret key's decrypt has")

    def __pos__(self) -> Self:
        return self._wrap(self._core)

    def reshape(self, *shape: Any) -> Self:
        """The same ciphertexts in another shape; one length may be -1.

        >>> x.reshape(2, 1).shape
        (2, 1)
        """
        return self._wrap(self._calls.reshape(self._core, lengths_of(shape, self.size)))

    def transpose(self, *order: Any) -> Self:
        """Axes in another order, as one list or as several arguments; without one, reversed.

        >>> x.reshape(2, 1).transpose([1, 0]).shape
        (1, 2)
        """
        axes = order_of(order, self.ndim, f"a tensor of shape {self.shape}")
        return self._wrap(self._calls.transpose(self._core, axes))

    @property
    def T(self) -> Self:
        """Axes reversed."""
        return self.transpose()

    def broadcast_to(self, shape: Any) -> Self:
        """Repeated along new or unit axes; nothing is copied.

        >>> x.broadcast_to((3, 2)).shape
        (3, 2)
        """
        return self._wrap(self._calls.broadcast_to(self._core, whole_lengths(shape)))

    def __getitem__(self, key: Any) -> Self:
        return self._wrap(take(self._core, key, self._calls))

    def _leaving(self, what: str) -> None:
        """Raises RoomError in strict mode for a tensor that should not be `what` ("saved")."""

    def to_bytes(self) -> bytes:
        """The tensor as a file's bytes.

        >>> server.from_bytes(x.to_bytes()).shape
        (2,)
        """
        self._leaving("sent")
        data: bytes = self._core.to_bytes()
        return data

    def __reduce__(self) -> Any:
        """For pickle: the file's bytes, without the keys at hand."""
        return REDUCERS["tensor"](self)

    def __copy__(self) -> Self:
        return +self

    def __deepcopy__(self, memo: Any) -> Self:
        return +self

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing.

        >>> x.save("values.hg")
        >>> secret.decrypt(hg.load("values.hg"))[0]
        array([1, 2, 3, 4])
        """
        self._leaving("saved")
        self._core.save(path_of(path))

    @classmethod
    def _joined(cls, tensors: Sequence[Any], axis: int) -> Any:
        """`concatenate` of at least one."""
        tensors = of_tensors(tensors, cls, "concatenate")
        first = tensors[0]
        along = axis_of(axis, first.ndim, f"a tensor of shape {first.shape}")
        keys = next((t._keys for t in tensors if t._keys is not None), None)
        return cls(cls._calls.concatenate([t._core for t in tensors], along), keys)

    def _along_one(self, axis: Any) -> tuple[Self, list[int]]:
        """The tensor with the axes of a reduction as one at the front, and the shape of the others."""
        along = axes_of(axis, self.shape)
        rest = [a for a in range(self.ndim) if a not in along]
        shape = [self.shape[a] for a in rest]
        if along == [0]:
            return self, shape
        return self.transpose([*along, *rest]).reshape([math.prod(self.shape[a] for a in along), *shape]), shape


class RingTensor(Tensor[P, K]):
    """Of a scheme whose ciphertexts hold many values: polynomials modulo a chain of primes."""

    __slots__ = ()

    slots = told("slots", int, "Values used in each ciphertext.")
    degree = told("degree", int, "Degree in the secret key: 1, or 2 for a product that is not relinearized.")
    fresh = told("fresh", bool, "Whether nothing was computed on it since it was encrypted, or its file says so.")

    def __mul__(self, other: Any) -> Self:
        product: Self = self.multiply(other)
        return product

    __rmul__ = __mul__

    def _add(self, other: Any, call: str, into: bool = False) -> Self:
        """self + other or self - other: `call` is "add" or "subtract"; `into`: in place."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Self:
        return self._add(other, "add")

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Self:
        return self._add(other, "add", into=True)

    def __sub__(self, other: Any) -> Self:
        return self._add(other, "subtract")

    def __neg__(self) -> Self:
        return self._wrap(self._scheme.call("negate")(self._core))

    def __rsub__(self, other: Any) -> Self:
        return (-self)._add(other, "add")

    def __isub__(self, other: Any) -> Self:
        return self._add(other, "subtract", into=True)


class Plaintext(OfParameters[P]):
    """Encoded values, for adding to and multiplying tensors. Made by `hg.encode`, of any scheme that has them.

    >>> server.encode([1, 0, 2, 0])
    <BFV plaintext ()>
    """

    _options: ClassVar[tuple[str, ...]]  #: of `encode`

    shape = told("shape", tuple[int, ...], "Plaintext polynomials along each axis.")

    def __repr__(self) -> str:
        return f"<{self.parameters.scheme} plaintext {self.shape}>"


S = TypeVar("S", bound=Tensor[Any, Any])


def of_tensors(tensors: Sequence[Any], kind: type[S], what: str) -> Sequence[S]:
    """The tensors as they are. Raises DtypeError for what is none of that scheme."""
    for tensor in tensors:
        if not isinstance(tensor, kind):
            raise _core.DtypeError(f"{what} takes a tensor of {kind._scheme.title}, not {_kind_of(tensor)}")
    return tensors


def _kind_of(value: Any) -> str:
    scheme = getattr(type(value), "_scheme", None)
    return type(value).__name__ if scheme is None else f"{type(value).__name__} of {scheme.title}"


def keys_of(tensors: Sequence[Tensor[Any, K]], keys: K | None, what: str) -> K:
    """Any operand's keys, those given first. Raises MissingKeyError, MismatchError for another scheme's."""
    if keys is not None and getattr(type(keys), "_scheme", None) is not tensors[0]._scheme:
        raise _core.MismatchError(f"{described(keys)} are no evaluation keys of the tensor's scheme")
    for found in (keys, *(t._keys for t in tensors)):
        if found is not None:
            return found
    raise _core.MissingKeyError(
        f"{what} needs evaluation keys: load the tensor through a Server, or bind it with Server.bind"
    )


def require_keys(x: Any, what: str, needs: dict[str, Any]) -> None:
    """Raises MissingKeyError that names all keys of `what` if a tensor that has keys lacks some of them. Clear tensors need none."""
    held: Any = x._keys if isinstance(x, Tensor) else None
    if held is not None:
        steps, swap = needs.get("rotations", ()), any(needs.get(name, False) for name in ("columns", "conjugate"))
        held._require(what, steps, swap, relinearize=needs.get("relinearize", False))
