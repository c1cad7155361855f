"""Reads CIFAR-10: the binary version's batches, arrays of pixels, or JPEG streams."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph.cli.workflow import CommandError

SIDE, CLASSES = 32, 10
LARGEST = 1 << 30  #: bytes; largest array that is read
_RECORD = 1 + 3 * SIDE * SIDE  # bytes of a record: a label and three colour planes
_NAMES = ("test_batch.bin", "cifar-10-batches-bin/test_batch.bin", "test.npz", "test_jpeg.npz")
_PARAMETERS = ("hcnn11", "hcnn11-2020")

Images = npt.NDArray[np.uint8]


def setup_and_set(parameters: str, insecure: bool) -> tuple[nn.Setup, hg.bfv.Parameters]:
    """Returns the network and the named set. Raises CommandError for a set of another network, or an insecure set without
    --insecure.
    """
    if parameters.split("/")[0] not in _PARAMETERS:
        raise CommandError(f'--parameters must be {" or ".join(_PARAMETERS)}, got "{parameters}"')
    try:
        parameter_set = hg.bfv.parameters(parameters, insecure=insecure)
    except hg.SecurityError:
        raise CommandError(f"{parameters} has less than 128 bits of security; --insecure allows it") from None
    return nn.setup("hcnn11"), parameter_set


def read(path: Path) -> tuple[Images, Images, str]:
    """Reads images [count, 3, 32, 32], labels, and the data's name.

    Raises FormatError, DamagedFileError, OSError; HeliographError for JPEG without Pillow.
    """
    if path.is_dir():
        files = [path / name for name in _NAMES if (path / name).is_file()]
        if not files:
            raise hg.FormatError(f"no CIFAR-10 in {path}: it must contain one of {', '.join(_NAMES)}")
        path = files[0]
    with path.open("rb") as stream:
        packed = stream.read(4) == b"PK\3\4"
    return _read_arrays(path) if packed else _read_binary(path)


def _read_binary(path: Path) -> tuple[Images, Images, str]:
    size = path.stat().st_size
    if size > LARGEST or size % _RECORD or not size:
        raise hg.FormatError(
            f"{path} is not a batch of CIFAR-10's binary version: its size must be a multiple of {_RECORD} bytes "
            f"up to {LARGEST:,}, got {size:,}"
        )
    records = np.fromfile(path, dtype=np.uint8).reshape(-1, _RECORD)
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE), _labels(records[:, 0], len(records), path), "CIFAR-10"


def _read_arrays(path: Path) -> tuple[Images, Images, str]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            required = {"jpeg", "offsets", "labels"} if "jpeg" in arrays else {"images", "labels"}
            if not required <= set(arrays):
                raise hg.FormatError(
                    f"{path} must hold the arrays images and labels, or jpeg, offsets and labels; got "
                    f"{', '.join(arrays) or 'none'}"
                )
            have: dict[str, npt.NDArray[Any]] = {name: arrays[name] for name in required}
    except hg.HeliographError:
        raise
    except Exception as error:  # zipfile and NumPy raise many types for damaged files
        raise hg.DamagedFileError(f"{path} is damaged: {error}") from None
    if any(array.nbytes > LARGEST or array.dtype.kind not in "iu" for array in have.values()):
        raise hg.FormatError(f"{path} must hold arrays of integers of at most {LARGEST:,} bytes each")
    if "jpeg" in have:
        streams = _streams(have["jpeg"], have["offsets"], path)
        images, quality = _decoded(streams, path)
        return images, _labels(have["labels"], len(images), path), f"CIFAR-10, JPEG{quality}"
    return (*_pixels(have["images"], have["labels"], path), f"CIFAR-10 ({path.name})")


def _pixels(images: npt.NDArray[Any], labels: npt.NDArray[Any], path: Path) -> tuple[Images, Images]:
    if images.ndim == 4 and images.shape[1:] == (SIDE, SIDE, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.shape[1:] != (3, SIDE, SIDE):
        raise hg.ShapeError(
            f"{path} must hold images of {SIDE} x {SIDE} pixels in three colours, got shape {images.shape[1:]}"
        )
    if images.dtype != np.uint8:
        raise hg.FormatError(f"{path} must hold pixels of type uint8, got {images.dtype}")
    return np.ascontiguousarray(images), _labels(labels, len(images), path)


def _labels(labels: npt.NDArray[Any], count: int, path: Path) -> Images:
    if labels.shape != (count,):
        raise hg.ShapeError(f"{path} must hold one label for each of {count:,} images, got labels of shape {labels.shape}")
    if count and not 0 <= int(labels.min()) <= int(labels.max()) < CLASSES:
        raise hg.FormatError(f"{path} must hold labels from 0 to {CLASSES - 1}, got {labels.min()} to {labels.max()}")
    return labels.astype(np.uint8)


def _streams(jpeg: npt.NDArray[Any], offsets: npt.NDArray[Any], path: Path) -> list[bytes]:
    if jpeg.dtype != np.uint8 or jpeg.ndim != 1 or offsets.ndim != 1 or not len(offsets):
        raise hg.FormatError(f"{path}: jpeg must be concatenated streams (uint8, one axis), with their offsets on one axis")
    ends = offsets.astype(np.int64)
    if ends[0] != 0 or ends[-1] != len(jpeg) or (np.diff(ends) <= 0).any():
        raise hg.DamagedFileError(f"{path}: the offsets of its JPEG streams must rise from 0 to {len(jpeg):,}")
    raw = jpeg.tobytes()
    return [raw[first:last] for first, last in itertools.pairwise(ends)]


def _decoded(streams: list[bytes], path: Path) -> tuple[Images, str]:
    """Decodes JPEG streams. Returns the pixels and the quality of the first stream."""
    try:
        from PIL import Image
    except ImportError:
        raise hg.HeliographError("cannot read JPEG: this needs Pillow: pip install 'heliograph[demo]'") from None
    images = np.zeros((len(streams), 3, SIDE, SIDE), dtype=np.uint8)
    quality = ""
    for index, stream in enumerate(streams):
        try:
            with Image.open(io.BytesIO(stream), formats=["JPEG"]) as picture:
                if picture.size != (SIDE, SIDE):
                    raise hg.ShapeError(
                        f"image {index} of {path} is {picture.width} x {picture.height}, must be {SIDE} x {SIDE}"
                    )
                images[index] = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
                quality = quality or _quality(getattr(picture, "quantization", {}))
        except (OSError, SyntaxError, ValueError) as error:
            raise hg.DamagedFileError(f"image {index} of {path} cannot be decoded: {error}") from None
    return images, quality


def _quality(tables: dict[int, list[int]]) -> str:
    """Returns the JPEG quality, such as " q75", if the first table is the standard's (first row 16 11 10 16 24 40 51 61)
    scaled for it.
    """
    first = tuple(tables.get(0, ())[:8])
    for quality in range(1, 101):
        scale = 5000 // quality if quality < 50 else 200 - 2 * quality
        row = tuple(max(1, min(255, (step * scale + 50) // 100)) for step in (16, 11, 10, 16, 24, 40, 51, 61))
        if row == first:
            return f" q{quality}"
    return ""
