"""Tensors of ONNX files as NumPy arrays. Sizes are checked against limits before memory is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array

#: Element types by their number in the format. Bfloat16 is read as float32, which holds each of its values.
DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    16: np.dtype(np.float32),
}
_BFLOAT16 = 16
_NAMES = {8: "string", 14: "complex64", 15: "complex128"}
#: The field with the values of a type, if they are not raw bytes.
_FIELDS = {1: "float_data", 11: "double_data", 7: "int64_data", 12: "uint64_data", 13: "uint64_data"}
_MOST_AXES = 16


@dataclass(frozen=True)
class Limits:
    """Limits of a model file, checked before memory is allocated."""

    file_bytes: int = (1 << 31) - 1  #: bytes of the file, which the format limits to 2 GiB
    external_bytes: int = 1 << 33  #: bytes of external data
    nodes: int = 50_000  #: operators
    elements: int = 1 << 28  #: elements of one value
    constants: int = 1 << 29  #: elements of all constants, also of those that are computed while reading
    work: int = 1 << 34  #: elementary steps of all operators computed while reading


@dataclass
class Budget:
    """Limits with the elements and steps that a reader has used."""

    limits: Limits
    base: Path | None = None  #: folder of external data; None if there is none to read
    elements: int = 0
    work: int = 0
    external_bytes: int = 0

    def require_elements(self, shape: tuple[int, ...], what: str, constant: bool) -> None:
        """Raise ModelError if a value is too large. Constants also count towards the sum."""
        if len(shape) > _MOST_AXES:
            raise ModelError(f"cannot read {what}: it must have at most {_MOST_AXES} axes, got {len(shape)}")
        if min(shape, default=0) < 0:
            raise ModelError(f"cannot read {what}: sizes must be at least 0, got shape {shape}")
        count = math.prod(shape)
        if count > self.limits.elements:
            raise ModelError(f"cannot read {what}: it must have at most {self.limits.elements} elements, got {count}")
        if constant:
            self.elements += count
            if self.elements > self.limits.constants:
                raise ModelError(f"cannot read {what}: all constants must have at most {self.limits.constants} elements")

    def require_work(self, steps: int, what: str) -> None:
        """Raise ModelError if the operators computed while reading take too long."""
        self.work += steps
        if self.work > self.limits.work:
            raise ModelError(f"cannot read {what}: operators of constants take more than {self.limits.work} steps")


def dtype_of(number: int, what: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type. Raises ModelError for types that the readers do not know."""
    if number not in DTYPES:
        name = _NAMES.get(number, f"number {number}")
        known = "float16, bfloat16, float32, float64, integers of 8 to 64 bits or bool"
        raise ModelError(f"cannot read {what}: its elements must be {known}, got type {name}")
    return DTYPES[number]


def array_of(tensor: Any, budget: Budget, what: str) -> Array:
    """Return a TensorProto as an array. Raises ModelError if its size, type or data do not fit."""
    shape = tuple(int(size) for size in tensor.dims)
    budget.require_elements(shape, what, constant=True)
    dtype, count = dtype_of(tensor.data_type, what), math.prod(shape)
    stored = np.dtype(np.uint16) if tensor.data_type == _BFLOAT16 else dtype
    if tensor.HasField("segment"):
        raise ModelError(f"cannot read {what}: tensors in segments are not supported")
    if tensor.data_location == 1:
        flat = _external(tensor, stored, count, budget, what)
    elif tensor.HasField("raw_data"):
        flat = _raw(tensor.raw_data, stored, count, what)
    else:
        values = getattr(tensor, _FIELDS.get(tensor.data_type, "int32_data"))
        if len(values) != count:
            raise ModelError(f"cannot read {what}: it must have {count} values, got {len(values)}")
        flat = _typed(values, tensor.data_type, stored, what)
    if tensor.data_type == _BFLOAT16:
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    return flat.reshape(shape)


def _raw(data: bytes, dtype: np.dtype[Any], count: int, what: str) -> Array:
    if len(data) != count * dtype.itemsize:
        raise ModelError(f"cannot read {what}: it must have {count * dtype.itemsize} bytes, got {len(data)}")
    if dtype == np.bool_:
        return np.asarray(np.frombuffer(data, np.uint8) != 0)
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)


def _typed(values: Any, number: int, stored: np.dtype[Any], what: str) -> Array:
    """Return values of a repeated field. 16-bit floats are there as their bits in integers."""
    if stored.kind == "b":
        return np.asarray(np.array(values, np.int64) != 0)
    wide = np.array(values, stored if stored.kind == "f" and stored != np.float16 else np.dtype(object))
    if wide.dtype != object:
        return np.asarray(wide)
    bits = np.dtype(np.uint16) if number in (10, _BFLOAT16) else stored
    limits = np.iinfo(bits)
    if any(not limits.min <= value <= limits.max for value in values):
        raise ModelError(f"cannot read {what}: its values must fit {bits}")
    narrow = wide.astype(bits)
    return np.asarray(narrow.view(np.float16) if number == 10 else narrow)


def _external(tensor: Any, dtype: np.dtype[Any], count: int, budget: Budget, what: str) -> Array:
    """Return data of another file, which must lie in the folder of the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if budget.base is None:
        raise ModelError(
            f"cannot read {what}: its data is in file {entries.get('location')!r}; give the model's path, not bytes"
        )
    base = budget.base.resolve()
    try:
        path = (base / entries.get("location", "")).resolve()
        start, size = int(entries.get("offset", "0")), int(entries.get("length", str(count * dtype.itemsize)))
    except (ValueError, OSError, RuntimeError) as error:
        raise ModelError(f"cannot read {what}: its place in another file is damaged") from error
    if not path.is_relative_to(base) or not path.is_file():
        raise ModelError(f"cannot read {what}: {entries.get('location')!r} must be a file in the folder of the model")
    if size != count * dtype.itemsize or start < 0 or start + size > path.stat().st_size:
        raise ModelError(f"cannot read {what}: {path.name!r} must have its {count * dtype.itemsize} bytes at {start}")
    budget.external_bytes += size
    if budget.external_bytes > budget.limits.external_bytes:
        raise ModelError(f"cannot read {what}: external data must have at most {budget.limits.external_bytes} bytes")
    with path.open("rb") as file:
        file.seek(start)
        return _raw(file.read(size), dtype, count, what)
