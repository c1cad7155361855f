"""Reads UBJSON (universal binary JSON, draft 12), in which XGBoost writes models."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from heliograph.ml.errors import ModelError

_NUMBERS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
_DEEPEST = 64


def read_ubjson(data: bytes) -> Any:
    """Returns the value of a document. Raises ModelError for damaged or too deeply nested documents."""
    reader = _Reader(data)
    value = reader.value(reader.marker(), 0)
    if reader.place != len(data):
        raise ModelError("cannot read this UBJSON file: it must end after its value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.place + count > len(self.data):
            raise ModelError("cannot read this UBJSON file: it is truncated")
        self.place += count
        return self.data[self.place - count : self.place]

    def marker(self) -> str:
        found = chr(self.take(1)[0])
        while found == "N":
            found = chr(self.take(1)[0])
        return found

    def number(self, marker: str) -> Any:
        code = _NUMBERS.get(marker)
        if code is None:
            raise ModelError(f"cannot read this UBJSON file: {marker!r} must be a type of numbers")
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def length(self) -> int:
        found = self.number(self.marker())
        if not isinstance(found, int) or not 0 <= found <= len(self.data):
            raise ModelError("cannot read this UBJSON file: a length must be at most the length of the file")
        return found

    def text(self) -> str:
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError:
            raise ModelError("cannot read this UBJSON file: texts must be UTF-8") from None

    def value(self, marker: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ModelError(f"cannot read this UBJSON file: values must be nested at most {_DEEPEST} deep")
        if marker in "ZTF":
            return {"Z": None, "T": True, "F": False}[marker]
        if marker == "S":
            return self.text()
        if marker == "C":
            return chr(self.take(1)[0])
        if marker in "[{":
            return self.container(marker, depth)
        return self.number(marker)

    def container(self, marker: str, depth: int) -> Any:
        kind, count, following = "", -1, self.marker()
        if following == "$":
            kind, following = chr(self.take(1)[0]), self.marker()
        if following == "#":
            count = self.length()
        elif kind:
            raise ModelError("cannot read this UBJSON file: a type of a container must precede a count")
        if marker == "[" and kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self.take(count * dtype.itemsize), dtype=dtype).tolist()
        found: Any = [] if marker == "[" else {}
        end = "]" if marker == "[" else "}"
        while True:
            if count >= 0:
                if len(found) == count:
                    return found
            elif following == end:
                return found
            if marker == "{":
                if count < 0:
                    self.place -= 1  # the length of a key starts with its own type
                key = self.text()
                if key in found:
                    raise ModelError(f"cannot read this UBJSON file: the key {key[:40]!r} occurs twice")
                found[key] = self.value(kind or self.marker(), depth + 1)
            else:
                found.append(self.value(kind or (self.marker() if count >= 0 else following), depth + 1))
            if count < 0:
                following = self.marker()
