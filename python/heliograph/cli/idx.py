"""Reads IDX files, MNIST's format: a magic number, lengths, bytes; gzipped or not."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

import heliograph as hg

LARGEST = 1 << 30  #: bytes; largest array that is read
_BYTES = 8  # the type code of unsigned bytes


def read(path: str | os.PathLike[str], axes: int) -> npt.NDArray[np.uint8]:
    """Reads a file's array of unsigned bytes. Raises FormatError, DamagedFileError, OSError."""
    name = Path(path)
    with name.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        try:
            if packed:
                with gzip.GzipFile(fileobj=plain) as stream:
                    return _parse(stream, name, axes)
            return _parse(plain, name, axes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise hg.DamagedFileError(f"{name} is a damaged gzip file: {error}") from None


def _parse(stream: BinaryIO | gzip.GzipFile, name: Path, axes: int) -> npt.NDArray[np.uint8]:
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0":
        raise hg.FormatError(f"{name} is not an IDX file")
    if head[2] != _BYTES:
        raise hg.FormatError(f"{name} must hold unsigned bytes (type code {_BYTES:#04x}), got type code {head[2]:#04x}")
    if head[3] != axes:
        raise hg.FormatError(f"{name} must hold an array of {axes} axes, got {head[3]}; are images and labels mixed up?")
    raw = stream.read(4 * axes)
    if len(raw) < 4 * axes:
        raise hg.DamagedFileError(f"{name} ends inside its header")
    shape = struct.unpack(f">{axes}I", raw)
    count = math.prod(shape)
    if count > LARGEST:
        raise hg.DamagedFileError(f"{name} claims {count:,} values, at most {LARGEST:,} are allowed")
    data = stream.read(count + 1)
    if len(data) != count:
        have = "more" if len(data) > count else f"{len(data):,}"
        raise hg.DamagedFileError(f"{name} must hold {count:,} values by its header, got {have} values")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def images(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """Reads images [count, height, width]."""
    return read(path, 3)


def labels(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """Reads labels [count]."""
    return read(path, 1)
