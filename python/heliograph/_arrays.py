"""What Python checks before the engine is called: dtypes and shapes."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from heliograph import _core

#: What from_bytes reads: bytes in a row.
Buffer = bytes | bytearray | memoryview
Int64Array = npt.NDArray[np.int64]
_MOST_AXES = 64  # of an array of NumPy
E = TypeVar("E", bound=np.generic)
K = TypeVar("K")


class IndexingError(_core.ShapeError, IndexError):
    """An index that a tensor does not have: out of range, too many, or of a kind that indices are not. Python's `IndexError` too."""


class Computable:
    """What the library's functions take: tensors of every scheme, and clear ones."""

    __slots__ = ()

    # TFHE's tensors compare; without these, == of the others would be Python's, of objects: false.

    def _not_compared(self, _: Any) -> Any:
        raise _core.DtypeError("only tensors of TFHE are compared: hg.tfhe compares encrypted integers")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _not_compared
    __hash__ = object.__hash__


class Encrypted(Computable):
    """What every scheme's tensor is."""

    __slots__ = ()
    _scheme: ClassVar[Any]


def array_of(values: Any, what: str) -> npt.NDArray[Any]:
    """Clear `values` as NumPy has them. Raises ShapeError for rows of different lengths, MismatchError for what is encrypted,
    DtypeError for another of the library's objects.
    """
    if isinstance(values, Encrypted):
        raise _core.MismatchError(
            f"{what}: here belong clear values, not a tensor of {values._scheme.title}; tensors of two schemes do not mix"
        )
    scheme = getattr(values, "_scheme", None)
    if scheme is not None:
        kind = type(values).__name__
        raise _core.DtypeError(f"{what}: here belong clear values or a tensor, not a {kind} of {scheme.title}")
    require_unmasked(values, what)
    try:
        return np.asarray(values)
    except ValueError:
        raise _core.ShapeError(f"{what}: ragged, rows of different lengths") from None


def has_masked(values: Any, depth: int = 0) -> bool:
    """Whether values are, or lists of them hold, a masked array of NumPy with a masked value, or ``np.ma.masked`` itself."""
    if isinstance(values, (list, tuple)):
        several = (one for one in values if isinstance(one, (list, tuple, np.ma.MaskedArray)))
        return depth < _MOST_AXES and any(has_masked(one, depth + 1) for one in several)
    return isinstance(values, np.ma.MaskedArray) and bool(np.ma.is_masked(values))


def require_unmasked(values: Any, what: str) -> None:
    """Raises DtypeError for masked values, which ``np.asarray`` would turn into numbers."""
    if has_masked(values):
        raise _core.DtypeError(
            f"{what} have masked values, which stand for no number: fill them (values.filled(0)), or drop their rows"
        )


def integers(values: Any, what: str) -> Int64Array:
    """`values` as int64, unchanged in value.

    Raises DtypeError for anything but integers and booleans, PlaintextRangeError beyond 64 bits signed.
    """
    array = array_of(values, what)
    if _is_whole_objects(array):
        array = _from_objects(array, what)
    if array.dtype.kind not in "iub":
        instead = "; scale and round real numbers first" if array.dtype.kind == "f" else ""
        raise _core.DtypeError(f"{what} must be integers, not {kind_of(values, array)}{instead}")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        raise _core.PlaintextRangeError(f"{what} hold {int(array.max())}, which is beyond 2^63")
    return np.asarray(array, dtype=np.int64, order="C")


def kind_of(values: Any, array: npt.NDArray[Any]) -> str:
    """What values are, for an error: NumPy's dtype, or the class of what NumPy knows as an object only."""
    if array.dtype != object:
        return str(array.dtype)
    if not array.ndim:
        return type(values).__name__
    for place, value in np.ndenumerate(array):  # an array of objects: the first one that is no number tells more
        if not isinstance(value, (int, float, complex, np.number, np.bool_)):
            at = ", ".join(map(str, place))
            return f"objects: {described(value)} ({type(value).__name__}) stands at [{at}]"
    return "objects"


def largest(values: Int64Array) -> int:
    """The largest absolute value; of -2^63 too, which NumPy's `abs` leaves negative."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def absolute_sums(rows: Int64Array) -> list[int]:
    """The sum of absolute values of each row, whatever its length."""
    flat = rows.reshape(len(rows), -1) if rows.size else np.zeros((len(rows), 1), dtype=np.int64)
    if largest(flat) * flat.shape[1] >= 1 << 63:
        flat = flat.astype(object)
    return [int(total) for total in np.abs(flat).sum(1)]


def centred(values: Int64Array, modulus: int) -> Int64Array:
    """Residues in -(modulus // 2) ... modulus // 2, the odd one at the upper end."""
    with np.errstate(over="ignore"):  # of the product, for a single number; the difference is right
        rest = values - values // modulus * modulus
    result: Int64Array = np.where(rest > modulus // 2, rest - modulus, rest)
    return result


def residues(values: Any, modulus: int, what: str) -> Int64Array:
    """Integers of any size modulo `modulus`, centred. Raises DtypeError for what are no integers."""
    array = array_of(values, what)
    if array.dtype == object and all(isinstance(v, int) for v in array.flat):
        array = array % modulus
    return centred(integers(array, what), modulus)


def long_integers(values: Any, what: str) -> npt.NDArray[Any]:
    """`values` as int64, or as Python's integers where some exceed 64 bits. Raises DtypeError."""
    array = array_of(values, what)
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        return array.astype(object)
    if _is_whole_objects(array) and any(not -(1 << 63) <= v < 1 << 63 for v in array.flat):
        return np.array([int(v) for v in array.flat], object).reshape(array.shape)
    return integers(values, what)


def words_within(array: npt.NDArray[Any], what: str, largest: int) -> tuple[Int64Array, int]:
    """Integers for the engine: int64 as they are, Python's as words of two's complement, the lowest first, along the last axis; and
    how many words a value has. Raises PlaintextRangeError for Python's beyond `largest` in magnitude.
    """
    if array.dtype != object:
        return array, 1
    for value in array.flat:
        if abs(value) > largest:
            raise _core.PlaintextRangeError(
                f"{what} hold {described(value)}, of {value.bit_length():,} bits, beyond half the plaintext modulus, "
                f"{described(largest)}: take a set of more plain_bits"
            )
    words = max(value.bit_length() for value in array.flat) // 64 + 1
    data = b"".join(value.to_bytes(8 * words, "little", signed=True) for value in array.flat)
    return np.frombuffer(data, "<i8").reshape(*array.shape[:-1], -1), words


def _is_whole_objects(array: npt.NDArray[Any]) -> bool:
    """Whether an array is of Python's objects, all of them integers."""
    return array.dtype == object and all(isinstance(v, int) or is_whole(v) for v in array.flat)


def from_residues(residues: npt.NDArray[Any], moduli: Sequence[int]) -> npt.NDArray[Any]:
    """Centred integers from canonical residues [moduli, ...] (Chinese remainders): Python's where 63 bits do not hold all."""
    if len(moduli) == 1:
        t = moduli[0]
        values: npt.NDArray[Any] = residues[0].astype(np.int64)
        return values if t == 2 else np.where(values > (t - 1) // 2, values - t, values)
    product = 1
    total = np.zeros(residues.shape[1:], dtype=object)
    for r, t in zip(residues, moduli, strict=True):
        # Garner: lift the result so far by a multiple of the product so far
        lift = (r.astype(object) - total) * pow(product, -1, t) % t
        total = total + lift * product
        product *= t
    total = np.where(total > (product - 1) // 2, total - product, total)
    return total.astype(np.int64) if product < 1 << 63 else total


def complexes(values: Any, what: str) -> tuple[npt.NDArray[np.complex128], bool]:
    """`values` as complex128, and whether they were complex.

    Raises DtypeError for anything but numbers, ShapeError for rows of different lengths, PlaintextRangeError for infinities
    and what is no number.
    """
    array = array_of(values, what)
    if array.dtype == object and all(isinstance(v, (int, float)) for v in array.flat):
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise _core.PlaintextRangeError(f"{what} hold integers beyond what a float holds") from None
    if array.dtype.kind not in "iubfc":
        raise _core.DtypeError(f"{what} must be numbers, not {kind_of(values, array)}")
    if not np.all(np.isfinite(array)):
        raise _core.PlaintextRangeError(f"{what} hold infinities or what is no number")
    return np.asarray(array, dtype=np.complex128, order="C"), array.dtype.kind == "c"


def whole(value: Any, what: str) -> int:
    """`value` as an int. Raises DtypeError for anything but integers of 64 bits."""
    if is_whole(value) and -(1 << 63) <= value < 1 << 63:
        return int(value)
    raise _core.DtypeError(f"{what} must be an integer of at most 64 bits, not {described(value)}")


def whole_numbers(values: Any, what: str) -> list[int]:
    """Several integers, or one alone, as a list. Raises DtypeError for anything else."""
    several = listed(values)
    return [whole(value, what) for value in ([values] if several is None else several)]


def exponent_of(value: Any) -> int:
    """What a tensor is raised to. Raises ParameterError for anything but integers of at least 1."""
    if is_whole(value) and 1 <= value < 1 << 63:
        return int(value)
    raise _core.ParameterError(f"a tensor can be raised to integers of at least 1, not to {described(value)}")


def is_real(value: Any) -> bool:
    """Whether it is a real number, and no truth value."""
    return is_whole(value) or isinstance(value, (float, np.floating))


def is_whole(value: Any) -> bool:
    """Whether it is an integer, and no truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def real(value: Any, what: str) -> float:
    """`value` as a float. Raises DtypeError for what is no real number, or beyond floats."""
    try:
        if is_real(value):
            return float(value)
    except OverflowError:
        pass
    raise _core.DtypeError(f"{what} must be a real number, not {described(value)}")


def interval_of(bound: Any) -> tuple[float, float]:
    """A bound on values as their lowest and highest: a number above 0, or such a pair. Raises ParameterError."""
    if is_real(bound) and 0 < bound <= sys.float_info.max:
        return -float(bound), float(bound)
    pair = listed(bound)
    if pair is not None and len(pair) == 2 and all(is_real(v) and abs(v) <= sys.float_info.max for v in pair):
        low, high = (float(v) for v in pair)
        if low <= high and (low or high):
            return low, high
    raise _core.ParameterError(
        f"a bound on values is a number above 0, or a pair of the lowest and the highest value, not {described(bound)}"
    )


def text_of(value: Any, what: str, known: Sequence[str]) -> str:
    """One of some words. Raises ParameterError."""
    if isinstance(value, str) and value in known:
        return value
    raise _core.ParameterError(f"{what} is {' or '.join(known)}, not {described(value)}")


def set_name(name: Any, edition: str = "w64", **besides: Any) -> str:
    """A named set as the engine calls it. Raises DtypeError for what is no text, ParameterError for numbers given besides."""
    if not isinstance(name, str):
        raise _core.DtypeError(f"a parameter set's name is a text, not {described(name)}; numbers have names: depth=3")
    require_alone(f'a set by name, "{printable(name)}",', **besides)
    if edition not in ("w64", "w32"):
        raise _core.ParameterError(f"there is no edition {described(edition)}; there are w64 and w32")
    return f"{name}/{edition}" if edition == "w32" and not name.endswith("/w32") else name


def require_alone(what: str, **besides: Any) -> None:
    """Raises ParameterError for options that this way of asking for a set would leave unheard."""
    extra = [name for name, said in besides.items() if said]
    if extra:
        raise _core.ParameterError(f"{what} takes no {' and no '.join(extra)}")


def listed(value: Any) -> list[Any] | None:
    """What there are several of, as a list; None for one thing alone."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else None


def count_of(value: Any, what: str, least: int = 0) -> int:
    """A number of a parameter set as an int. Raises ParameterError for anything but integers from `least` to 2^31 - 1."""
    if is_whole(value) and least <= value < 1 << 31:
        return int(value)
    raise _core.ParameterError(f"{what} must be an integer of at least {least} and below 2^31, not {described(value)}")


def described(value: Any) -> str:
    """A value as an error tells it: short, whatever it is."""
    try:
        text = repr(value.item() if isinstance(value, np.number | np.bool_) else value)
    except Exception:  # an integer of thousands of digits has none
        text = ""
    return text if 0 < len(text) <= 300 else f"a long {type(value).__name__}"


def path_of(path: Any) -> str:
    """A path as the engine takes it. Raises DtypeError for what is none, bytes too: those are read by from_bytes."""
    try:
        name = os.fspath(path)
    except TypeError:
        name = path
    if not isinstance(name, str):
        raise _core.DtypeError(
            f"a path is a text or an os.PathLike, not {type(path).__name__}; bytes of a file are read by from_bytes"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _core.DtypeError(f"a path is a text of whole characters, not {printable(name)}") from None
    return name


def of_kind(value: Any, kind: type[K], what: str) -> K:
    """`value` as it is. Raises DtypeError for anything but a `kind`: `what` says what it is taken for."""
    if isinstance(value, kind):
        return value
    scheme = getattr(kind, "_scheme", None)
    place = "hg" if scheme is None else f"hg.{scheme.module}"
    raise _core.DtypeError(f"{what} {place}.{kind.__name__}, not {type(value).__name__}")


def flag(value: Any, what: str) -> bool:
    """`value` as a bool. Raises DtypeError for anything but True and False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise _core.DtypeError(f"{what} is True or False, not {type(value).__name__}")


def axis_of(axis: Any, ndim: int, what: str) -> int:
    """`axis` counted from the front. Raises ShapeError where there is no such axis."""
    position = whole(axis, "an axis")
    if not -ndim <= position < ndim:
        raise _core.ShapeError(f"{what} has no axis {axis}")
    return position % ndim


def axes_of(axis: Any, shape: Sequence[int]) -> list[int]:
    """The axes that a reduction goes over, from the front: one, several, all where none is named. Raises ShapeError."""
    several = range(len(shape)) if axis is None else [axis] if (named := listed(axis)) is None else named
    along = [axis_of(a, len(shape), f"a tensor of shape {shape}") for a in several]
    if len(set(along)) < len(along):
        raise _core.ShapeError(f"an axis is named twice: {tuple(along)}")
    return along


def order_of(order: Sequence[Any], ndim: int, what: str) -> list[int]:
    """The arguments of `transpose`, one list or an axis each, counted from the front; reversed where there are none."""
    several = order[0] if len(order) == 1 else order or None
    return [axis_of(a, ndim, what) for a in (range(ndim)[::-1] if several is None else whole_numbers(several, "an axis"))]


def _from_objects(array: npt.NDArray[Any], what: str) -> Int64Array:
    try:
        return array.astype(np.int64)
    except OverflowError:
        raise _core.PlaintextRangeError(f"{what} hold integers beyond 2^63") from None


def last_axis(values: Any, axis: int, what: str) -> Int64Array:
    """`values` with `axis` moved to the end. Raises ShapeError where there is no such axis."""
    return moved_last(integers(values, what), axis, what)


def moved_last(array: npt.NDArray[E], axis: int, what: str) -> npt.NDArray[E]:
    """`array` with `axis` moved to the end. Raises ShapeError where there is no such axis."""
    if not -array.ndim <= whole(axis, "an axis") < array.ndim:
        raise _core.ShapeError(f"{what} of shape {array.shape} have no axis {axis}")
    return np.ascontiguousarray(np.moveaxis(array, axis, -1))


def moved_from_last(array: npt.NDArray[E], axis: Any) -> npt.NDArray[E]:
    """`array` with its last axis moved to `axis`. Raises ShapeError where there is no such axis."""
    if not -array.ndim <= whole(axis, "an axis") < array.ndim:
        raise _core.ShapeError(f"values of shape {array.shape} have no axis {axis}")
    return np.moveaxis(array, -1, axis)


def printable(text: str) -> str:
    """`text` as a terminal may show it: what files and other ranks say may hold more than letters. As Python's repr, escapes
    control characters, marks of direction and the like.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def digits_of(low: float, high: float) -> int:
    """How many digits tell the ends of an interval apart in a message: 6, and more far from zero."""
    width, largest = high - low, max(abs(low), abs(high))
    return min(17, max(6, 4 + math.ceil(math.log10(largest / width)))) if 0 < width < math.inf else 6


def readable_bytes(count: float) -> str:
    """5.1 GiB, for people, as the engine writes sizes, too."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


#: The largest number of bytes the engine counts.
WORD = 2**64 - 1


def require_room(parameters: Any, values: Any, axis: int, each: int, room: int = 0) -> None:
    """Raises OutOfMemoryError where encrypting an array takes more than there is, `each` bytes a ciphertext: before the array is
    looked at, for a broadcast view may stand for far more than it is. `room`: the values of a ciphertext, if it is split.
    """
    if isinstance(values, np.ndarray) and -values.ndim <= axis < values.ndim:
        items = math.prod(values.shape) // max(1, values.shape[axis])
        items *= max(1, -(-values.shape[axis] // room)) if room else 1
        require_memory(parameters, items * each + 16 * math.prod(values.shape), "encrypting this array")


def require_filled(have: int, room: int, what: str, pad: Any) -> None:
    """Raises ShapeError for fewer values than there is room, unless `pad` says so; DtypeError for a pad that is no flag."""
    if not flag(pad, "pad") and have < room:
        raise _core.ShapeError(f"{have:,} values for {room:,} {what}; say pad=True to leave the rest empty")


def in_ciphertexts(array: npt.NDArray[E], room: int, what: str, split: Any, pad: Any) -> npt.NDArray[E]:
    """Values [..., length] as ciphertexts of `room` values take them. With `split` [..., ciphertexts, room], the last one filled up with
    zeros. Raises ShapeError for more values than room, and for fewer without `pad`.
    """
    have = array.shape[-1]
    if flag(split, "split"):
        count = max(1, -(-have // room))
        full = np.zeros((*array.shape[:-1], count * room), dtype=array.dtype)
        full[..., :have] = array
        return full.reshape(*array.shape[:-1], count, room)
    if have > room:
        raise _core.ShapeError(
            f"{have:,} values for {room:,} {what}; say split=True to spread them over {-(-have // room):,} ciphertexts, and "
            f"decrypt(..., length={have}) to join them"
        )
    require_filled(have, room, what, pad)
    return array


def joined(values: npt.NDArray[E], length: Any) -> npt.NDArray[E]:
    """Values [..., ciphertexts, room] as [..., length]: the first ones of all ciphertexts in a row. As they are for None. Raises
    ShapeError if there are not so many.
    """
    if length is None:
        return values
    count = count_of(length, "length")
    if values.ndim < 2:
        raise _core.ShapeError(
            "cannot join ciphertexts: the tensor must have an axis of ciphertexts, as encrypt(..., split=True) makes"
        )
    flat = values.reshape(*values.shape[:-2], values.shape[-2] * values.shape[-1])
    if count > flat.shape[-1]:
        raise _core.ShapeError(
            f"cannot join to {count:,} values: the last axis of the tensor has {values.shape[-2]:,} ciphertexts of {values.shape[-1]:,} values"
        )
    return flat[..., :count]


def require_memory(parameters: Any, count: int, purpose: str) -> None:
    """Raises OutOfMemoryError where the device of the parameters has fewer bytes left, however many `count` are."""
    parameters._core.require_memory(min(count, WORD), purpose)
