"""Element types of encrypted tensors, and clear values as the engine takes them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _arrays, _core

uint24 = "uint24"
int24 = "int24"

Words = npt.NDArray[np.uint64]
_INTEGER = re.compile(r"(u?)int([1-9][0-9]?)")


def name_of(dtype: Any) -> str:
    """A NumPy dtype, or a name such as "uint24", as the engine's name. Raises DtypeError."""
    if isinstance(dtype, str):
        match = _INTEGER.fullmatch(dtype)
        if match and int(match[2]) <= 64:
            return dtype
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, OverflowError, SyntaxError):  # NumPy evaluates what stands in "01,i4"
        raise _core.DtypeError(
            f"there is no encrypted {_arrays.described(dtype)}: bool, uint8 to uint64, int8 to int64, uint24, int24"
        ) from None
    if found.kind == "b":
        return "bool"
    if found.kind not in "iu":
        raise _core.DtypeError(f"tensors of TFHE hold booleans and integers, not {found}")
    return str(found.name)


def bits_of(name: str) -> int:
    """Bits of a type by name; 1 of a boolean."""
    return 1 if name == "bool" else int(name.lstrip("uint"))


def is_signed(name: str) -> bool:
    """Whether values of the type may be negative."""
    return name.startswith("int")


def widened(name: str, count: int) -> str:
    """The integer type that holds a sum of so many values of a type: its own for one, else the next of NumPy's; 64 bits at most."""
    bits = bits_of(name) + max(0, count - 1).bit_length()
    if count <= 1:
        return name
    return f"{'' if is_signed(name) else 'u'}int{next((w for w in (8, 16, 32) if w >= bits), 64)}"


def holder(name: str) -> np.dtype[Any]:
    """The NumPy dtype that holds a type's values: its own, or the next wider one."""
    if name == "bool":
        return np.dtype(bool)
    width = next(w for w in (8, 16, 32, 64) if w >= bits_of(name))
    return np.dtype(f"{'' if is_signed(name) else 'u'}int{width}")


def array_of(values: Any, what: str) -> npt.NDArray[Any]:
    """An array of booleans or integers, Python's where 64 bits do not hold them. Raises DtypeError, ShapeError."""
    array = _arrays.array_of(values, what)
    whole = array.dtype == object and array.size and all(isinstance(v, (int, np.integer)) for v in array.flat)
    if array.dtype.kind not in "iub" and not whole:
        raise _core.DtypeError(f"{what} must be booleans or integers, not {_arrays.kind_of(values, array)}")
    return array


def words_of(values: Any, name: str, what: str) -> Words:
    """Values of the type as 64-bit words (two's complement). Raises DtypeError, PlaintextRangeError."""
    array = array_of(values, what)
    bits = bits_of(name)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(name) else (0, (1 << bits) - 1)
    if array.size:
        least, most = int(array.min()), int(array.max())
        if least < low or most > high:
            beyond = least if least < low else most
            raise _core.PlaintextRangeError(
                f"{what}: {_arrays.described(beyond)} is out of range; {name} is {low} to {high}"
            )
    signed = array.astype(np.int64 if is_signed(name) else np.uint64)
    return np.asarray(signed, order="C").view(np.uint64)


def values_of(words: Words, name: str) -> npt.NDArray[Any]:
    """What `words_of` was given, in the type's holder."""
    return words.astype(holder(name))
