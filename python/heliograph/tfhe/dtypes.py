"""Element types of TFHE's tensors, and conversion of clear values to words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common import arguments

uint24 = "uint24"
int24 = "int24"

Words = npt.NDArray[np.uint64]
_INTEGER = re.compile(r"(u?)int([1-9][0-9]?)")


def name_of(dtype: Any) -> str:
    """Returns the engine's name of a NumPy dtype or of a name such as "uint24". Raises DtypeError."""
    if isinstance(dtype, str):
        match = _INTEGER.fullmatch(dtype)
        if match and int(match[2]) <= 64:
            return dtype
    try:
        numpy_dtype = np.dtype(dtype)
    except (TypeError, ValueError, OverflowError, SyntaxError):  # NumPy parses strings such as "01,i4" as Python
        raise _core.DtypeError(
            "a dtype of TFHE must be bool, uint8 to uint64, int8 to int64, uint24 or int24, not "
            f"{arguments.described(dtype)}"
        ) from None
    if numpy_dtype.kind == "b":
        return "bool"
    if numpy_dtype.kind not in "iu":
        raise _core.DtypeError(f"tensors of TFHE hold booleans and integers, not {numpy_dtype}")
    return str(numpy_dtype.name)


def bits_of(name: str) -> int:
    """Returns the bits of a type; 1 for bool."""
    return 1 if name == "bool" else int(name.lstrip("uint"))


def is_signed(name: str) -> bool:
    """Tells whether values of a type may be negative."""
    return name.startswith("int")


def widened(name: str, count: int) -> str:
    """Returns the integer type of a sum of `count` values: the values' own type for one value, else the narrowest NumPy type
    that holds the sum, at most 64 bits.

    """
    bits = bits_of(name) + max(0, count - 1).bit_length()
    if count <= 1:
        return name
    return f"{'' if is_signed(name) else 'u'}int{next((w for w in (8, 16, 32) if w >= bits), 64)}"


def holder(name: str) -> np.dtype[Any]:
    """Returns the narrowest NumPy dtype that holds a type's values."""
    if name == "bool":
        return np.dtype(bool)
    width = next(w for w in (8, 16, 32, 64) if w >= bits_of(name))
    return np.dtype(f"{'' if is_signed(name) else 'u'}int{width}")


def array_of(values: Any, what: str) -> npt.NDArray[Any]:
    """Returns an array of booleans or integers, of Python integers beyond 64 bits. Raises DtypeError, ShapeError."""
    array = arguments.array_of(values, what)
    is_integer_objects = array.dtype == object and array.size and all(isinstance(v, (int, np.integer)) for v in array.flat)
    if array.dtype.kind not in "iub" and not is_integer_objects:
        raise _core.DtypeError(f"{what} must be booleans or integers, not {arguments.kind_of(values, array)}")
    return array


def words_of(values: Any, name: str, what: str) -> Words:
    """Returns values of a type as 64-bit words in two's complement. Raises DtypeError, PlaintextRangeError."""
    array = array_of(values, what)
    bits = bits_of(name)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(name) else (0, (1 << bits) - 1)
    if array.size:
        least, most = int(array.min()), int(array.max())
        if least < low or most > high:
            beyond = least if least < low else most
            raise _core.PlaintextRangeError(
                f"{what}: {arguments.described(beyond)} is out of range; {name} is {low} to {high}"
            )
    signed = array.astype(np.int64 if is_signed(name) else np.uint64)
    return np.asarray(signed, order="C").view(np.uint64)


def values_of(words: Words, name: str) -> npt.NDArray[Any]:
    """Returns the values of words in the type's NumPy dtype: the inverse of `words_of`."""
    return words.astype(holder(name))
