"""Checks and conversions of arguments before a call of the engine: dtypes, shapes, numbers, texts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from heliograph import _core

#: Contiguous bytes, as `from_bytes` reads them.
Buffer = bytes | bytearray | memoryview
Int64Array = npt.NDArray[np.int64]
_MOST_AXES = 64  # maximum axes of a NumPy array
E = TypeVar("E", bound=np.generic)
K = TypeVar("K")


class IndexingError(_core.ShapeError, IndexError):
    """An index that a tensor does not have: out of range, too many indices, or an invalid type.

    The class is also a Python `IndexError`.
    """


class Computable:
    """Base class of all tensors: the tensors of every scheme, and clear tensors."""

    __slots__ = ()

    # Only TFHE tensors override these comparisons. Python's default == would compare object identity and return False.

    def _not_compared(self, _: Any) -> Any:
        raise _core.DtypeError("only tensors of TFHE can be compared; encrypt integers with hg.tfhe for comparisons")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _not_compared
    __hash__ = object.__hash__


class Encrypted(Computable):
    """Base class of encrypted tensors."""

    __slots__ = ()
    _scheme: ClassVar[Any]


def array_of(values: Any, what: str) -> npt.NDArray[Any]:
    """Returns clear `values` as a NumPy array. Raises ShapeError for rows of different lengths, MismatchError for an
    encrypted tensor, DtypeError for another object of the library.
    """
    if isinstance(values, Encrypted):
        raise _core.MismatchError(
            f"{what} must be clear values, not a tensor of {values._scheme.title}; tensors of two schemes do not mix"
        )
    scheme = getattr(values, "_scheme", None)
    if scheme is not None:
        kind = type(values).__name__
        raise _core.DtypeError(f"{what} must be clear values or a tensor, not a {kind} of {scheme.title}")
    require_unmasked(values, what)
    try:
        return np.asarray(values)
    except ValueError:
        raise _core.ShapeError(f"{what} must have rows of one length, not a ragged list") from None


def has_masked(values: Any, depth: int = 0) -> bool:
    """Tells whether values, or lists of them, hold a NumPy masked array with a masked value, or ``np.ma.masked``."""
    if isinstance(values, (list, tuple)):
        several = (one for one in values if isinstance(one, (list, tuple, np.ma.MaskedArray)))
        return depth < _MOST_AXES and any(has_masked(one, depth + 1) for one in several)
    return isinstance(values, np.ma.MaskedArray) and bool(np.ma.is_masked(values))


def require_unmasked(values: Any, what: str) -> None:
    """Raises DtypeError for masked values, which ``np.asarray`` would silently unmask."""
    if has_masked(values):
        raise _core.DtypeError(
            f"{what} have masked values, which are missing numbers: fill them (values.filled(0)), or drop their rows"
        )


def integers(values: Any, what: str) -> Int64Array:
    """Returns `values` as int64.

    Raises DtypeError for anything but integers and booleans, PlaintextRangeError beyond signed 64 bits.
    """
    array = array_of(values, what)
    if _is_whole_objects(array):
        array = _from_objects(array, what)
    if array.dtype.kind not in "iub":
        instead = "; scale and round real numbers first" if array.dtype.kind == "f" else ""
        raise _core.DtypeError(f"{what} must be integers, not {kind_of(values, array)}{instead}")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        raise _core.PlaintextRangeError(f"{what} must be below 2^63, not {int(array.max())}")
    return np.asarray(array, dtype=np.int64, order="C")


def kind_of(values: Any, array: npt.NDArray[Any]) -> str:
    """Names the type of values, for an error: NumPy's dtype, or the class of an object without one."""
    if array.dtype != object:
        return str(array.dtype)
    if not array.ndim:
        return type(values).__name__
    for place, value in np.ndenumerate(array):  # the first object that is not a number
        if not isinstance(value, (int, float, complex, np.number, np.bool_)):
            at = ", ".join(map(str, place))
            return f"objects: {described(value)} ({type(value).__name__}) at [{at}]"
    return "objects"


def largest(values: Int64Array) -> int:
    """Returns the largest absolute value; NumPy's `abs` would overflow for -2^63."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def absolute_sums(rows: Int64Array) -> list[int]:
    """Returns the sum of absolute values of each row, without overflow."""
    flat = rows.reshape(len(rows), -1) if rows.size else np.zeros((len(rows), 1), dtype=np.int64)
    if largest(flat) * flat.shape[1] >= 1 << 63:
        flat = flat.astype(object)
    return [int(total) for total in np.abs(flat).sum(1)]


def centred(values: Int64Array, modulus: int) -> Int64Array:
    """Returns residues as integers from -(modulus // 2) to modulus // 2. For an even modulus, the residue modulus / 2 stays
    positive.

    """
    with np.errstate(over="ignore"):  # a NumPy scalar warns of the product's overflow, which the subtraction cancels
        rest = values - values // modulus * modulus
    result: Int64Array = np.where(rest > modulus // 2, rest - modulus, rest)
    return result


def residues(values: Any, modulus: int, what: str) -> Int64Array:
    """Returns centred residues of integers of any size. Raises DtypeError for anything but integers."""
    array = array_of(values, what)
    if array.dtype == object and all(isinstance(v, int) for v in array.flat):
        array = array % modulus
    return centred(integers(array, what), modulus)


def long_integers(values: Any, what: str) -> npt.NDArray[Any]:
    """Returns `values` as int64, or as Python integers if one exceeds 64 bits. Raises DtypeError."""
    array = array_of(values, what)
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        return array.astype(object)
    if _is_whole_objects(array) and any(not -(1 << 63) <= v < 1 << 63 for v in array.flat):
        return np.array([int(v) for v in array.flat], object).reshape(array.shape)
    return integers(values, what)


def words_within(array: npt.NDArray[Any], what: str, largest: int) -> tuple[Int64Array, int]:
    """Returns integers as 64-bit words for the engine, and the number of words of one value.

    int64 values are one word each. Python integers become two's complement words along the last axis, the lowest first.
    Raises PlaintextRangeError for Python integers beyond `largest` in magnitude.
    """
    if array.dtype != object:
        return array, 1
    for value in array.flat:
        if abs(value) > largest:
            raise _core.PlaintextRangeError(
                f"{what} hold {described(value)}, of {value.bit_length():,} bits, beyond half the plaintext modulus, "
                f"{described(largest)}: use a set with more plain_bits"
            )
    words = max(value.bit_length() for value in array.flat) // 64 + 1
    data = b"".join(value.to_bytes(8 * words, "little", signed=True) for value in array.flat)
    return np.frombuffer(data, "<i8").reshape(*array.shape[:-1], -1), words


def _is_whole_objects(array: npt.NDArray[Any]) -> bool:
    """Tells whether an array holds Python objects that are all integers."""
    return array.dtype == object and all(isinstance(v, int) or is_whole(v) for v in array.flat)


def from_residues(residues: npt.NDArray[Any], moduli: Sequence[int]) -> npt.NDArray[Any]:
    """Joins canonical residues [moduli, ...] to centred integers by the Chinese remainder theorem.

    The integers are Python's if the product of the moduli exceeds 63 bits.
    """
    if len(moduli) == 1:
        t = moduli[0]
        values: npt.NDArray[Any] = residues[0].astype(np.int64)
        return values if t == 2 else np.where(values > (t - 1) // 2, values - t, values)
    product = 1
    total = np.zeros(residues.shape[1:], dtype=object)
    for r, t in zip(residues, moduli, strict=True):
        # Garner's algorithm: add a multiple of the product of the previous moduli
        lift = (r.astype(object) - total) * pow(product, -1, t) % t
        total = total + lift * product
        product *= t
    total = np.where(total > (product - 1) // 2, total - product, total)
    return total.astype(np.int64) if product < 1 << 63 else total


def _floats(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.float64]:
    """Returns Python's real numbers as float64. Raises PlaintextRangeError for integers beyond floats."""
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise _core.PlaintextRangeError(f"{what} hold integers beyond the largest float, 1.8e308") from None


def complexes(values: Any, what: str) -> tuple[npt.NDArray[np.complex128], bool]:
    """Returns `values` as complex128, and whether they were complex.

    Raises DtypeError for anything but numbers, ShapeError for rows of different lengths, PlaintextRangeError for infinities
    and NaN.
    """
    array = array_of(values, what)
    if array.dtype == object and all(isinstance(v, (int, float)) for v in array.flat):
        array = _floats(array, what)
    if array.dtype.kind not in "iubfc":
        raise _core.DtypeError(f"{what} must be numbers, not {kind_of(values, array)}")
    if not np.all(np.isfinite(array)):
        raise _core.PlaintextRangeError(f"{what} must be finite: they hold infinities or NaN, which is no number")
    return np.asarray(array, dtype=np.complex128, order="C"), array.dtype.kind == "c"


def whole(value: Any, what: str) -> int:
    """Returns `value` as an int. Raises DtypeError for anything but signed integers of 64 bits."""
    if is_whole(value) and -(1 << 63) <= value < 1 << 63:
        return int(value)
    raise _core.DtypeError(f"{what} must be an integer of at most 64 bits, not {described(value)}")


def whole_numbers(values: Any, what: str) -> list[int]:
    """Returns one or several integers as a list. Raises DtypeError for anything else."""
    several = listed(values)
    return [whole(value, what) for value in ([values] if several is None else several)]


def exponent_of(value: Any) -> int:
    """Returns the exponent of a tensor's power. Raises ParameterError for anything but integers of at least 1."""
    if is_whole(value) and 1 <= value < 1 << 63:
        return int(value)
    raise _core.ParameterError(f"an exponent of a tensor must be an integer of at least 1, not {described(value)}")


def is_real(value: Any) -> bool:
    """Tells whether a value is a real number, and not a boolean."""
    return is_whole(value) or isinstance(value, (float, np.floating))


def is_whole(value: Any) -> bool:
    """Tells whether a value is an integer, and not a boolean."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def real(value: Any, what: str) -> float:
    """Returns `value` as a float. Raises DtypeError for anything but a real number within the range of floats."""
    try:
        if is_real(value):
            return float(value)
    except OverflowError:
        pass
    raise _core.DtypeError(f"{what} must be a real number, not {described(value)}")


def is_finite_real(value: Any) -> bool:
    """Tells whether a value is a real number within the range of floats, and not a boolean."""
    try:
        return is_real(value) and math.isfinite(value)
    except OverflowError:
        return False


def reals(values: Any, what: str) -> npt.NDArray[np.float64]:
    """Returns `values` as float64. NaN and infinities are returned unchanged.

    Raises DtypeError for anything but real numbers, ShapeError for rows of different lengths, PlaintextRangeError for
    integers beyond floats.
    """
    array = array_of(values, what)
    if array.dtype == object and all(is_real(v) for v in array.flat):
        array = _floats(array, what)
    if array.dtype.kind not in "iubf":
        raise _core.DtypeError(f"{what} must be real numbers, not {kind_of(values, array)}")
    return np.asarray(array, dtype=np.float64, order="C")


def interval_of(bound: Any) -> tuple[float, float]:
    """Returns a bound on values as (lowest, highest).

    `bound` is a magnitude above 0, or a pair (lowest, highest). Raises ParameterError.
    """
    if is_finite_real(bound) and bound > 0:
        return -float(bound), float(bound)
    pair = listed(bound)
    if pair is not None and len(pair) == 2 and all(is_finite_real(v) for v in pair):
        low, high = (float(v) for v in pair)
        if low <= high and (low or high):
            return low, high
    raise _core.ParameterError(
        f"a bound on values must be a number above 0, or a pair of the lowest and the highest value, not {described(bound)}"
    )


def text_of(value: Any, what: str, allowed: Sequence[str]) -> str:
    """Returns `value` if it is one of the strings `allowed`. Raises ParameterError."""
    if isinstance(value, str) and value in allowed:
        return value
    raise _core.ParameterError(f"{what} must be {' or '.join(allowed)}, not {described(value)}")


def word_size_of(value: Any) -> int:
    """Returns a word size. Raises ParameterError unless the size is 64 or 32."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value not in (64, 32):
        raise _core.ParameterError(f"word_size must be 64 or 32, got {described(value)}")
    return int(value)


def set_name(name: Any, word_size: int = 64, **besides: Any) -> str:
    """Returns the name by which the engine finds a parameter set.

    Raises DtypeError unless `name` is a string, ParameterError if other options are given too.
    """
    if not isinstance(name, str):
        raise _core.DtypeError(
            f"a parameter set's name must be a string, not {described(name)}; pass numbers by keyword, as in depth=3"
        )
    require_alone(f'the named set "{printable(name)}"', **besides)
    return f"{name}/w32" if word_size == 32 and not name.endswith("/w32") else name


def require_alone(what: str, **besides: Any) -> None:
    """Raises ParameterError for given options that do not apply to this way of choosing a parameter set."""
    extra = [name for name, is_set in besides.items() if is_set]
    if extra:
        raise _core.ParameterError(f"{what} takes no {' and no '.join(extra)}")


def listed(value: Any) -> list[Any] | None:
    """Returns an array with axes or another iterable as a list; None for a single value or a string."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else None


def count_of(value: Any, what: str, least: int = 0) -> int:
    """Returns a number of a parameter set as an int.

    Raises ParameterError for anything but integers in `least`...2^31 - 1.
    """
    if is_whole(value) and least <= value < 1 << 31:
        return int(value)
    raise _core.ParameterError(f"{what} must be an integer of at least {least} and below 2^31, not {described(value)}")


def described(value: Any) -> str:
    """Returns the repr of a value for an error, or its type if the repr is long."""
    try:
        text = repr(value.item() if isinstance(value, np.number | np.bool_) else value)
    except Exception:  # Python refuses the repr of integers of thousands of digits
        text = ""
    return text if 0 < len(text) <= 300 else f"a long {type(value).__name__}"


def path_of(path: Any) -> str:
    """Returns a path as a string. Raises DtypeError for anything but a string or an os.PathLike of one, without a null
    character."""
    try:
        name = os.fspath(path)
    except TypeError:
        name = path
    if not isinstance(name, str):
        raise _core.DtypeError(
            f"a path must be a string or an os.PathLike, not {type(path).__name__}; from_bytes reads the bytes of a file"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _core.DtypeError(f"a path must be encodable as UTF-8, not {printable(name)}") from None
    if "\0" in name:
        raise _core.DtypeError(f"a path must have no null character, not {printable(name)}")
    return name


def of_kind(value: Any, kind: type[K], what: str) -> K:
    """Returns `value` unchanged. Raises DtypeError, whose text begins with `what`, for anything but a `kind`."""
    if isinstance(value, kind):
        return value
    scheme = getattr(kind, "_scheme", None)
    place = "hg" if scheme is None else f"hg.{scheme.module}"
    raise _core.DtypeError(f"{what} {place}.{kind.__name__}, not {type(value).__name__}")


def flag(value: Any, what: str) -> bool:
    """Returns `value` as a bool. Raises DtypeError for anything but True and False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise _core.DtypeError(f"{what} must be True or False, not {type(value).__name__}")


def axis_of(axis: Any, ndim: int, what: str) -> int:
    """Returns the non-negative number of an axis. Raises ShapeError if there is no such axis."""
    position = whole(axis, "an axis")
    if not -ndim <= position < ndim:
        raise _core.ShapeError(f"{what} has no axis {axis}")
    return position % ndim


def axes_of(axis: Any, shape: Sequence[int]) -> list[int]:
    """Returns the non-negative numbers of the axes of a reduction; all axes for None. Raises ShapeError."""
    several = range(len(shape)) if axis is None else [axis] if (axes := listed(axis)) is None else axes
    along = [axis_of(a, len(shape), f"a tensor of shape {shape}") for a in several]
    if len(set(along)) < len(along):
        raise _core.ShapeError(f"an axis is named twice: {tuple(along)}")
    return along


def order_of(order: Sequence[Any], ndim: int, what: str) -> list[int]:
    """Returns the non-negative axes for `transpose`, given as one list or as several arguments. Without arguments, returns
    the axes in reverse order.
    """
    several = order[0] if len(order) == 1 else order or None
    return [axis_of(a, ndim, what) for a in (range(ndim)[::-1] if several is None else whole_numbers(several, "an axis"))]


def _from_objects(array: npt.NDArray[Any], what: str) -> Int64Array:
    try:
        return array.astype(np.int64)
    except OverflowError:
        raise _core.PlaintextRangeError(f"{what} must be integers of at most 64 bits; they hold larger ones") from None


def last_axis(values: Any, axis: int, what: str) -> Int64Array:
    """Returns `values` as int64 with `axis` moved to the end. Raises DtypeError, PlaintextRangeError, ShapeError."""
    return moved_last(integers(values, what), axis, what)


def moved_last(array: npt.NDArray[E], axis: int, what: str) -> npt.NDArray[E]:
    """Returns `array` with `axis` moved to the end. Raises ShapeError if there is no such axis."""
    if not -array.ndim <= whole(axis, "an axis") < array.ndim:
        raise _core.ShapeError(f"{what} of shape {array.shape} have no axis {axis}")
    return np.ascontiguousarray(np.moveaxis(array, axis, -1))


def moved_from_last(array: npt.NDArray[E], axis: Any) -> npt.NDArray[E]:
    """Returns `array` with its last axis moved to `axis`. Raises ShapeError if there is no such axis."""
    if not -array.ndim <= whole(axis, "an axis") < array.ndim:
        raise _core.ShapeError(f"values of shape {array.shape} have no axis {axis}")
    return np.moveaxis(array, -1, axis)


def printable(text: str) -> str:
    """Escapes characters that are unsafe in a terminal, as Python's repr does: control characters, marks of direction.

    Texts from files and other ranks may hold such characters.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def digits_of(low: float, high: float) -> int:
    """Returns the number of significant digits, 6 to 17, that a message needs to distinguish the ends of an interval."""
    width, largest = high - low, max(abs(low), abs(high))
    return min(17, max(6, 4 + math.ceil(math.log10(largest / width)))) if 0 < width < math.inf else 6


def readable_bytes(count: float) -> str:
    """Formats bytes as the engine does: "5.1 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


#: The largest number of bytes in the engine's 64-bit counts.
WORD = 2**64 - 1


def require_room(parameters: Any, values: Any, axis: int, each: int, room: int = 0) -> None:
    """Raises OutOfMemoryError if encrypting an array, at `each` bytes a ciphertext, exceeds the free memory.

    The check runs before the array is read, since a broadcast view may be far larger than its memory. `room` is the number
    of values of a ciphertext if the array is split over several.
    """
    if isinstance(values, np.ndarray) and -values.ndim <= axis < values.ndim:
        items = math.prod(values.shape) // max(1, values.shape[axis])
        items *= max(1, -(-values.shape[axis] // room)) if room else 1
        require_memory(parameters, items * each + 16 * math.prod(values.shape), "encrypting this array")


def require_filled(have: int, room: int, what: str, pad: Any) -> None:
    """Raises ShapeError for fewer values than slots unless `pad` is set, DtypeError for a `pad` that is no boolean."""
    if not flag(pad, "pad") and have < room:
        raise _core.ShapeError(f"{have:,} values for {room:,} {what}; pass pad=True to fill the rest with zeros")


def in_ciphertexts(array: npt.NDArray[E], room: int, what: str, split: Any, pad: Any) -> npt.NDArray[E]:
    """Arranges values [..., length] for ciphertexts with `room` slots.

    With `split` the result is [..., ciphertexts, room], and zeros fill the last ciphertext. Without `split`, raises
    ShapeError for more values than `room`, and for fewer unless `pad` is set."""
    have = array.shape[-1]
    if flag(split, "split"):
        count = max(1, -(-have // room))
        full = np.zeros((*array.shape[:-1], count * room), dtype=array.dtype)
        full[..., :have] = array
        return full.reshape(*array.shape[:-1], count, room)
    if have > room:
        raise _core.ShapeError(
            f"{have:,} values for {room:,} {what}; pass split=True to spread them over {-(-have // room):,} ciphertexts, "
            f"and decrypt(..., length={have}) to join them"
        )
    require_filled(have, room, what, pad)
    return array


def joined(values: npt.NDArray[E], length: Any) -> npt.NDArray[E]:
    """Joins values [..., ciphertexts, room] to [..., length], the inverse of `in_ciphertexts` with `split`.

    If `length` is None, returns the values unchanged. Raises ShapeError if there are fewer values than `length`.
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
            f"cannot join to {count:,} values: the last axis of the tensor has {values.shape[-2]:,} ciphertexts of "
            f"{values.shape[-1]:,} values"
        )
    return flat[..., :count]


def require_memory(parameters: Any, count: int, purpose: str) -> None:
    """Raises OutOfMemoryError if the parameters' device has less than `count` bytes of free memory."""
    parameters._core.require_memory(min(count, WORD), purpose)
