"""Tensors of every scheme: shapes, indexing, operators, files."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from heliograph import _core
from heliograph._common.arguments import (
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
from heliograph._common.operations import composite, is_marked, operation, view
from heliograph._common.parameters import OfParameters, P
from heliograph._common.pickling import REDUCERS
from heliograph._common.schemes import Scheme, engine_property, scheme_of

#: Callback that receives the completed fraction of a call, from 0 to 1.
Progress = Callable[[float], None]
#: Callback that receives the name of the present step and its completed fraction, from 0 to 1.
StageProgress = Callable[[str, float], None]
C = TypeVar("C")
if TYPE_CHECKING:  # Python 3.11's TypeVar takes no default
    from typing_extensions import TypeVar as DefaultedTypeVar

    K = DefaultedTypeVar("K", default=Any)
else:
    K = TypeVar("K")


@dataclass(frozen=True)
class ShapeCalls(Generic[C]):
    """The engine's functions that change the shape of one scheme's ciphertexts."""

    reshape: Callable[[C, Sequence[int]], C]
    slice: Callable[[C, int, int, int, int], C]
    index: Callable[[C, int, int], C]
    transpose: Callable[[C, Sequence[int]], C]
    broadcast_to: Callable[[C, Sequence[int]], C]
    concatenate: Callable[[Sequence[C], int], C]

    @staticmethod
    def of(scheme: Scheme) -> ShapeCalls[Any]:
        """Returns a scheme's functions, looked up by their field names."""
        return ShapeCalls(*(getattr(scheme.core, field.name) for field in fields(ShapeCalls)))


@dataclass(frozen=True)
class Calls:
    """An engine operation: the function that makes a result, and the function that replaces its first operand."""

    make: Callable[..., Any]
    into: Callable[..., Any]


def lengths_of(shape: Sequence[Any], size: int) -> list[int]:
    """Returns the lengths that arguments of `reshape` stand for; one argument may be -1. Raises DtypeError, ShapeError."""
    lengths = whole_numbers(shape[0] if len(shape) == 1 else shape, "a length")
    if lengths.count(-1) == 1:
        product = -math.prod(lengths)
        lengths[lengths.index(-1)] = size // product if product else 0
    return whole_lengths(lengths)


def whole_lengths(shape: Any) -> list[int]:
    """Returns a shape as a list of ints. Raises DtypeError, and ShapeError for lengths outside 0...2^63 - 1."""
    several = listed(shape)
    lengths: list[int] = [shape] if several is None else several
    for length in lengths:
        if not is_whole(length):
            raise _core.DtypeError(f"a length must be an integer, not {described(length)}")
        if not 0 <= length < 1 << 63:
            raise _core.ShapeError(f"a length must be at least 0 and below 2^63, not {described(length)}")
    return [int(length) for length in lengths]


def take(core: Any, key: Any, calls: ShapeCalls[Any]) -> Any:
    """Returns ``core[key]`` as NumPy does, for integers, slices, None, an ellipsis and one array or mask.

    Raises IndexingError.
    """
    keys = [_index_of(k) for k in (key if isinstance(key, tuple) else (key,))]
    if sum(1 for k in keys if k is Ellipsis) > 1:
        raise IndexingError("an index has at most one ellipsis")
    _require_one_array(keys)
    ndim = len(core.shape)
    indexed = sum(k.ndim if _is_mask(k) else k is not None and k is not Ellipsis for k in keys)
    if indexed > ndim:
        raise IndexingError(f"too many indices: {indexed} for a tensor of {ndim} axes")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * (ndim - indexed)
    axis = 0
    for k in keys:
        core, axis = _take_one(core, axis, k, calls)
    return core


def _is_mask(key: Any) -> bool:
    return isinstance(key, np.ndarray) and key.dtype == bool


def _index_of(key: Any) -> Any:
    """Normalizes one index to a slice, None, an ellipsis, an int, or an array of integers or booleans.

    Raises IndexingError.
    """
    if key is None or key is Ellipsis or isinstance(key, slice):
        return key
    if is_whole(key):
        return int(key)
    if isinstance(key, (list, np.ndarray, range)):
        try:
            array = np.asarray(key)
        except (ValueError, TypeError):  # rows of different lengths
            array = np.asarray(None)
        if not array.size and array.dtype.kind == "f":
            array = array.astype(np.int64)  # NumPy makes [] an array of floats
        if array.dtype.kind in "iu" and not array.ndim:
            return int(array)
        if array.dtype.kind in "iu" or (array.dtype == bool and array.ndim):
            return array
    raise IndexingError(
        "a tensor is indexed by integers, slices, None, ..., and one list or array of integers or booleans, not by "
        f"{described(key)}"
        if not isinstance(key, Encrypted)
        else "a tensor cannot be indexed by an encrypted one, whose values are unknown here; use hg.tfhe.look_up or "
        "hg.tfhe.select"
    )


def _require_one_array(keys: Sequence[Any]) -> None:
    """Raises IndexingError for indices that NumPy treats specially: several arrays, which it broadcasts, and an array that
    is not adjacent to an integer, whose axis it moves.
    """
    arrays = [i for i, k in enumerate(keys) if isinstance(k, np.ndarray)]
    if len(arrays) > 1:
        raise IndexingError(f"a tensor is indexed by one list, array or mask at a time, not {len(arrays)}: write x[a][:, b]")
    indices = [i for i, k in enumerate(keys) if isinstance(k, (int, np.ndarray))]
    if arrays and indices[-1] - indices[0] >= len(indices):
        raise IndexingError(
            "a list and an integer must be adjacent in an index, since NumPy moves axes otherwise: write x[:, :, a][0]"
        )


def _take_one(core: Any, axis: int, key: Any, calls: ShapeCalls[Any]) -> tuple[Any, int]:
    """Applies one index along `axis`. Returns the result and the axis of the next index."""
    shape = list(core.shape)
    if key is None:
        return calls.reshape(core, [*shape[:axis], 1, *shape[axis:]]), axis + 1
    if isinstance(key, slice):
        try:
            positions = range(*key.indices(shape[axis]))
        except (TypeError, ValueError):  # an index that is no integer, or a step of 0
            raise IndexingError(f"a slice must have integers and a step other than 0, not {described(key)}") from None
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
    """Returns the non-negative form of an index. Raises IndexingError."""
    position = key + (length if key < 0 else 0)
    if not 0 <= position < length:
        raise IndexingError(f"index {described(key)} is out of range for an axis of length {length}")
    return position


def _take_range(core: Any, axis: int, positions: range, calls: ShapeCalls[Any]) -> Any:
    count = len(positions)
    if positions == range(core.shape[axis]):
        return core
    return calls.slice(core, axis, positions.start if count else 0, positions.step if count > 1 else 1, count)


def _take_several(core: Any, axis: int, positions: Sequence[int], calls: ShapeCalls[Any]) -> Any:
    """Selects positions as runs of constant step. One run is a view; several are concatenated into a copy."""
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


#: NumPy's names of arithmetic operators, with the names of their Python methods without underscores.
_ARITHMETIC = {
    **{"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv"},
    **{"remainder": "mod", "divmod": "divmod", "matmul": "matmul", "left_shift": "lshift", "right_shift": "rshift"},
    **{f"bitwise_{name}": name for name in ("and", "or", "xor")},
}
#: NumPy's names of comparisons: the Python method's name, and its name with the operands swapped.
_COMPARISONS = {
    **{"equal": ("eq", "eq"), "not_equal": ("ne", "ne"), "less": ("lt", "gt"), "greater": ("gt", "lt")},
    **{"less_equal": ("le", "ge"), "greater_equal": ("ge", "le")},
}
#: NumPy's name of an operator, with the methods of the left and of the right operand.
OPERATORS = {
    **{name: (f"__{own}__", f"__r{own}__") for name, own in _ARITHMETIC.items()},
    **{name: (f"__{left}__", f"__{right}__") for name, (left, right) in _COMPARISONS.items()},
}
#: NumPy's names of the operators' methods.
OPERATOR_NAMES = {
    **{right: name for name, (_, right) in OPERATORS.items()},
    **{left: name for name, (left, _) in OPERATORS.items()},  # Python calls one method for a < b and b > a
    **{f"__i{left[2:]}": name for name, (left, _) in OPERATORS.items()},  # methods of in-place operators, as in a += b
    **{"__ipow__": "power", "__pow__": "power", "__neg__": "negative", "__abs__": "absolute", "__invert__": "invert"},
}
_OPERATOR_METHODS = OPERATOR_NAMES.keys() | {"__divmod__", "__rdivmod__"}
#: NumPy's functions that have another name in Heliograph.
_COUNTERPARTS = {"add.reduce": "sum", "inner": "dot"}


def _instead(name: str, scheme: Scheme) -> str:
    """Returns an error text for a NumPy function on encrypted tensors, with the name of the scheme's own function."""
    own = _COUNTERPARTS.get(name, name)
    places = ["heliograph", f"heliograph.{scheme.module}"]
    modules = [p for p in places if own in getattr(sys.modules.get(p), "__all__", ())]
    place = f"; use hg{modules[0].removeprefix('heliograph')}.{own}" if modules else ""
    return f"NumPy's {name} does not compute on encrypted tensors{place}"


class Tensor(OfParameters[P], Encrypted, Generic[P, K]):
    """An array of ciphertexts, of any scheme: `hg.bfv.Tensor`, `hg.ckks.Tensor`, `hg.tfhe.Tensor`.

    P is the class of its parameter set, K that of its evaluation keys.

    >>> x.shape, x[0].shape, x.key_id == secret.id
    ((2,), (), True)
    """

    __slots__ = ("__weakref__", "_keys")
    _places: ClassVar[bool] = False  #: whether `hg.program` places bootstraps of these tensors
    _calls: ClassVar[ShapeCalls[Any]]
    _keys: K | None

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        own = scheme_of(cls)
        if own is not None:
            cls._calls = ShapeCalls.of(own)
        _mark_operators(cls)

    def __init__(self, core: Any, keys: K | None = None) -> None:
        super().__init__(core.handle())  # each tensor has its own handle: in-place operations change no other tensor
        self._keys = keys

    def _wrap(self, core: Any) -> Self:
        return type(self)(core, self._keys)

    def _with(self, core: Any, other: Tensor[Any, Any]) -> Self:
        """Wraps the result of an operation on two tensors, with the keys of either."""
        return type(self)(core, other._keys if self._keys is None else self._keys)

    shape = engine_property("shape", tuple[int, ...], "Lengths of the axes of ciphertexts.")

    @property
    def ndim(self) -> int:
        """Number of axes of ciphertexts."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of ciphertexts: the product of `shape`."""
        return math.prod(self.shape)

    key_id = engine_property("key_id", str, "Id of the secret key that decrypts the tensor.")
    nbytes = engine_property("nbytes", int, "Size in memory, in bytes.")

    def wait(self) -> None:
        """Blocks until the tensor is computed.

        A GPU computes asynchronously. Decryption and saving wait by themselves; only time measurements need this call.
        Raises DeviceError if the computation failed.

        >>> (x * x).wait()  # returns when the product is computed
        """
        self._core.wait()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of shape () has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError(
            "an encrypted value cannot be a condition: its truth is unknown here; compute both branches and select one "
            "of them"
        )

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def multiply(self, other: Any, *, progress: Progress | None = None) -> Any:
        """Same as `hg.multiply`."""
        raise NotImplementedError

    # In-place operators change the tensor for all its references, as in NumPy. Earlier results and views keep their values.

    def _call(self, calls: Calls, operand: Any, *rest: Any, into: bool) -> Self:
        """Calls the engine on this tensor and an operand. Returns a tensor with the evaluation keys of either operand.

        With `into`, the result replaces this tensor, in its own memory if no view shares it.
        """
        other = operand if isinstance(operand, Tensor) else None
        core = operand if other is None else other._core
        if not into:
            result = calls.make(self._core, core, *rest)
            return self._wrap(result) if other is None else self._with(result, other)
        calls.into(self._core, core, *rest)
        if self._keys is None and other is not None:
            self._keys = other._keys
        return self

    def _become(self, result: Any) -> Self:
        """Replaces this tensor's content by a computed tensor. Raises ShapeError, DtypeError if shape or dtype differ."""
        of = [(t.shape, getattr(t, "slots", None)) for t in (self, result)]
        if of[0] != of[1]:
            raise _core.ShapeError(
                f"cannot compute in place: a result of shape {result.shape} does not fit a tensor of shape {self.shape}"
            )
        kinds = [getattr(t, "dtype", None) for t in (self, result)]
        if kinds[0] != kinds[1]:
            raise _core.DtypeError(f"cannot compute in place: a result of {kinds[1]} does not fit a tensor of {kinds[0]}")
        self._core, self._keys = result._core, result._keys
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

    # NumPy's protocols

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Calls the tensor's operator in place of NumPy's: ``array + x`` is ``x.__radd__(array)``.

        Raises DtypeError for other functions.
        """
        names = OPERATORS.get(function.__name__)
        if method == "__call__" and not options and names is not None and len(inputs) == 2:
            a, b = inputs
            own, other, name = (a, b, names[0]) if isinstance(a, Tensor) else (b, a, names[1])
            operator = getattr(type(own), name, None)
            if operator is not None:
                return operator(own, other)
        name = function.__name__ if method == "__call__" else f"{function.__name__}.{method}"
        raise _core.DtypeError(_instead(name, self._scheme))

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise _core.DtypeError(_instead(function.__name__, self._scheme))

    if not TYPE_CHECKING:  # type checkers then see a tensor as no array, and type array * x by the tensor's operator

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise _core.DtypeError("cannot make an array of an encrypted tensor: decrypt it with its secret key")

    @view
    def __pos__(self) -> Self:
        return self._wrap(self._core)

    @view
    def reshape(self, *shape: Any) -> Self:
        """Returns the same ciphertexts in another shape; one length may be -1. Raises ShapeError.

        >>> x.reshape(2, 1).shape
        (2, 1)
        """
        return self._wrap(self._calls.reshape(self._core, lengths_of(shape, self.size)))

    @view
    def transpose(self, *order: Any) -> Self:
        """Returns the tensor with its axes permuted; by default reversed. `order` is one list or several arguments.

        Raises ShapeError.

        >>> x.reshape(2, 1).transpose([1, 0]).shape
        (1, 2)
        """
        axes = order_of(order, self.ndim, f"a tensor of shape {self.shape}")
        return self._wrap(self._calls.transpose(self._core, axes))

    @property
    def T(self) -> Self:
        """The tensor with its axes reversed."""
        return self.transpose()

    @view
    def broadcast_to(self, shape: Any) -> Self:
        """Returns the tensor repeated along new axes and axes of length 1, without a copy. Raises ShapeError.

        >>> x.broadcast_to((3, 2)).shape
        (3, 2)
        """
        return self._wrap(self._calls.broadcast_to(self._core, whole_lengths(shape)))

    @view
    def __getitem__(self, key: Any) -> Self:
        return self._wrap(take(self._core, key, self._calls))

    def _bare(self) -> Any:
        """Returns the engine's tensor without guards, for the operands of recorded programs."""
        return self._core

    def _leaving(self, what: str) -> None:
        """Raises RoomError in strict mode if the tensor must not be `what` ("saved", "sent")."""

    def to_bytes(self) -> bytes:
        """Returns the tensor in the format of a file. Raises RoomError in strict mode.

        >>> server.from_bytes(x.to_bytes()).shape
        (2,)
        """
        self._leaving("sent")
        data: bytes = self._core.to_bytes()
        return data

    def __reduce__(self) -> Any:
        """Supports pickle by the file's bytes, without the attached evaluation keys."""
        return REDUCERS["tensor"](self)

    def __copy__(self) -> Self:
        return +self

    def __deepcopy__(self, memo: Any) -> Self:
        return +self

    def save(self, path: Any) -> None:
        """Writes the tensor to a file, atomically. Raises RoomError in strict mode.

        >>> x.save("values.hg")
        >>> secret.decrypt(hg.load("values.hg"))[0]
        array([1, 2, 3, 4])
        """
        self._leaving("saved")
        self._core.save(path_of(path))

    @classmethod
    @view
    def _join(cls, tensors: Sequence[Any], axis: int) -> Any:
        """Implements `concatenate` for at least one tensor."""
        tensors = of_tensors(tensors, cls, "concatenate")
        first = tensors[0]
        along = axis_of(axis, first.ndim, f"a tensor of shape {first.shape}")
        keys = next((t._keys for t in tensors if t._keys is not None), None)
        return cls(cls._calls.concatenate([t._core for t in tensors], along), keys)

    def _along_one(self, axis: Any) -> tuple[Self, list[int]]:
        """Returns the tensor with the axes of a reduction merged into one first axis, and the shape of the other axes."""
        along = axes_of(axis, self.shape)
        rest = [a for a in range(self.ndim) if a not in along]
        shape = [self.shape[a] for a in rest]
        if along == [0]:
            return self, shape
        return self.transpose([*along, *rest]).reshape([math.prod(self.shape[a] for a in along), *shape]), shape


def _mark_operators(cls: type) -> None:
    """Marks the operators of a class as operations, unless they have a mark."""
    for name in _OPERATOR_METHODS & vars(cls).keys():
        if not is_marked(vars(cls)[name]):
            setattr(cls, name, composite(vars(cls)[name]))


_mark_operators(Tensor)


class RingTensor(Tensor[P, K]):
    """A tensor of BFV, BGV or CKKS: its ciphertexts are polynomials modulo a chain of primes and hold many values."""

    __slots__ = ()

    slots = engine_property("slots", int, "Number of values in each ciphertext.")
    degree = engine_property("degree", int, "Degree in the secret key: 1, or 2 for a product that is not relinearized.")
    fresh = engine_property(
        "fresh", bool, "Whether the tensor is unchanged since encryption, as far as this process or its file knows."
    )

    def __mul__(self, other: Any) -> Self:
        product: Self = self.multiply(other)
        return product

    __rmul__ = __mul__

    def _add(self, other: Any, call: str, into: bool = False) -> Self:
        """Returns ``self + other`` or ``self - other`` by `call`, "add" or "subtract"; in place with `into`."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Self:
        return self._add(other, "add")

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Self:
        return self._add(other, "add", into=True)

    def __sub__(self, other: Any) -> Self:
        return self._add(other, "subtract")

    @operation
    def __neg__(self) -> Self:
        return self._wrap(self._scheme.core.negate(self._core))

    def __rsub__(self, other: Any) -> Self:
        return (-self)._add(other, "add")

    def __isub__(self, other: Any) -> Self:
        return self._add(other, "subtract", into=True)


class Plaintext(OfParameters[P]):
    """Encoded clear values, for sums and products with tensors. `hg.encode` makes these plaintexts; TFHE has none.

    >>> server.encode([1, 0, 2, 0])
    <BFV plaintext ()>
    """

    _options: ClassVar[tuple[str, ...]]  #: names of the options of `encode`

    shape = engine_property("shape", tuple[int, ...], "Lengths of the axes of plaintext polynomials.")

    def __repr__(self) -> str:
        return f"<{self.parameters.scheme} plaintext {self.shape}>"


S = TypeVar("S", bound=Tensor[Any, Any])


def of_tensors(tensors: Sequence[Any], kind: type[S], what: str) -> Sequence[S]:
    """Returns the tensors unchanged. Raises DtypeError for anything but tensors of the class `kind`."""
    for tensor in tensors:
        if not isinstance(tensor, kind):
            raise _core.DtypeError(f"{what} takes a tensor of {kind._scheme.title}, not {_kind_of(tensor)}")
    return tensors


def _kind_of(value: Any) -> str:
    scheme = getattr(type(value), "_scheme", None)
    return type(value).__name__ if scheme is None else f"{type(value).__name__} of {scheme.title}"


def keys_of(tensors: Sequence[Tensor[Any, K]], keys: K | None, what: str) -> K:
    """Returns the given keys, or the keys of an operand.

    Raises MissingKeyError if there are no keys, MismatchError for keys of another scheme.
    """
    if keys is not None and getattr(type(keys), "_scheme", None) is not tensors[0]._scheme:
        raise _core.MismatchError(
            f"keys must be evaluation keys of the tensor's scheme, {tensors[0]._scheme.title}, not {described(keys)}"
        )
    for candidate in (keys, *(t._keys for t in tensors)):
        if candidate is not None:
            return candidate
    raise _core.MissingKeyError(
        f"{what} needs evaluation keys: load the tensor through a Server, or bind it with Server.bind"
    )


def require_keys(x: Any, what: str, needs: dict[str, Any]) -> None:
    """Raises MissingKeyError, which lists all keys of `what`, if the tensor's keys lack some.

    Ignores tensors that have no keys attached.
    """
    own_keys: Any = x._keys if isinstance(x, Tensor) else None
    if own_keys is not None:
        steps, swap = needs.get("rotations", ()), any(needs.get(name, False) for name in ("columns", "conjugate"))
        own_keys._require(what, steps, swap, relinearize=needs.get("relinearize", False))
