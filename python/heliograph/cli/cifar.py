"""CIFAR-10 as it comes: the binary version's batches, arrays of pixels, or JPEG streams."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph.cli.roles import CommandError

SIDE, CLASSES = 32, 10
LARGEST = 1 << 30  #: bytes of one array accepted
_RECORD = 1 + 3 * SIDE * SIDE  # a label, then the planes
_NAMES = ("test_batch.bin", "cifar-10-batches-bin/test_batch.bin", "test.npz", "test_jpeg.npz")
_PARAMETERS = ("hcnn11", "hcnn11-2020")

Images = npt.NDArray[np.uint8]


def setup_and_set(parameters: str, insecure: bool) -> tuple[nn.Setup, hg.bfv.Parameters]:
    """The network and the named set. Raises CommandError for a set of other networks, or an insecure one that was not allowed."""
    if parameters.split("/")[0] not in _PARAMETERS:
        raise CommandError(f'--parameters is {" or ".join(_PARAMETERS)}, not "{parameters}"')
    try:
        chosen = hg.bfv.parameters(parameters, insecure=insecure)
    except hg.SecurityError:
        raise CommandError(f"{parameters} is below 128 bits of security; --insecure uses it all the same") from None
    return nn.setup("hcnn11"), chosen


def read(path: Path) -> tuple[Images, Images, str]:
    """Images [count, 3, 32, 32], labels, and what they are, to name an accuracy by.

    Raises FormatError, DamagedFileError, OSError; HeliographError where JPEG cannot be read for want of Pillow.
    """
    if path.is_dir():
        found = [path / name for name in _NAMES if (path / name).is_file()]
        if not found:
            raise hg.FormatError(f"there is no CIFAR-10 in {path}: none of {', '.join(_NAMES)}")
        path = found[0]
    with path.open("rb") as stream:
        packed = stream.read(4) == b"PK\3\4"
    return _read_arrays(path) if packed else _read_binary(path)


def _read_binary(path: Path) -> tuple[Images, Images, str]:
    size = path.stat().st_size
    if size > LARGEST or size % _RECORD or not size:
        raise hg.FormatError(
            f"{path} is no batch of CIFAR-10's binary version: its {size:,} bytes are no records of {_RECORD}"
        )
    records = np.fromfile(path, dtype=np.uint8).reshape(-1, _RECORD)
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE), _labels(records[:, 0], len(records), path), "CIFAR-10"


def _read_arrays(path: Path) -> tuple[Images, Images, str]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            wanted = {"jpeg", "offsets", "labels"} if "jpeg" in arrays else {"images", "labels"}
            if not wanted <= set(arrays):
                raise hg.FormatError(f"{path} holds neither images and labels, nor jpeg, offsets and labels")
            have: dict[str, npt.NDArray[Any]] = {name: arrays[name] for name in wanted}
    except hg.HeliographError:
        raise
    except Exception as error:  # zipfile and NumPy raise all sorts for damage
        raise hg.DamagedFileError(f"{path} is damaged: {error}") from None
    if any(array.nbytes > LARGEST or array.dtype.kind not in "iu" for array in have.values()):
        raise hg.FormatError(f"{path} holds other things than integers, or more than {LARGEST:,} bytes of them")
    if "jpeg" in have:
        streams = _streams(have["jpeg"], have["offsets"], path)
        images, quality = _decoded(streams, path)
        return images, _labels(have["labels"], len(images), path), f"CIFAR-10, JPEG{quality}"
    return (*_pixels(have["images"], have["labels"], path), f"CIFAR-10 ({path.name})")


def _pixels(images: npt.NDArray[Any], labels: npt.NDArray[Any], path: Path) -> tuple[Images, Images]:
    if images.ndim == 4 and images.shape[1:] == (SIDE, SIDE, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.shape[1:] != (3, SIDE, SIDE):
        raise hg.ShapeError(f"{path} holds images of shape {images.shape[1:]}, not {SIDE} x {SIDE} of three colours")
    if images.dtype != np.uint8:
        raise hg.FormatError(f"{path} holds pixels of type {images.dtype}, not bytes")
    return np.ascontiguousarray(images), _labels(labels, len(images), path)


def _labels(labels: npt.NDArray[Any], count: int, path: Path) -> Images:
    if labels.shape != (count,):
        raise hg.ShapeError(f"{path} holds {count:,} images and labels of shape {labels.shape}")
    if count and not 0 <= int(labels.min()) <= int(labels.max()) < CLASSES:
        raise hg.FormatError(f"{path} holds labels beyond 0 ... {CLASSES - 1}")
    return labels.astype(np.uint8)


def _streams(jpeg: npt.NDArray[Any], offsets: npt.NDArray[Any], path: Path) -> list[bytes]:
    if jpeg.dtype != np.uint8 or jpeg.ndim != 1 or offsets.ndim != 1 or not len(offsets):
        raise hg.FormatError(f"{path} holds no JPEG streams end to end")
    ends = offsets.astype(np.int64)
    if ends[0] != 0 or ends[-1] != len(jpeg) or (np.diff(ends) <= 0).any():
        raise hg.DamagedFileError(f"{path}: the offsets of its JPEG streams do not fit")
    raw = jpeg.tobytes()
    return [raw[first:last] for first, last in itertools.pairwise(ends)]


def _decoded(streams: list[bytes], path: Path) -> tuple[Images, str]:
    """Pixels, and the quality of the first stream."""
    try:
        from PIL import Image
    except ImportError:
        raise hg.HeliographError("reading JPEG needs Pillow: pip install 'heliograph[demo]'") from None
    images = np.zeros((len(streams), 3, SIDE, SIDE), dtype=np.uint8)
    quality = ""
    for index, stream in enumerate(streams):
        try:
            with Image.open(io.BytesIO(stream), formats=["JPEG"]) as picture:
                if picture.size != (SIDE, SIDE):
                    raise hg.ShapeError(
                        f"image {index} of {path} is {picture.width} x {picture.height}, not {SIDE} x {SIDE}"
                    )
                images[index] = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
                quality = quality or _quality(getattr(picture, "quantization", {}))
        except (OSError, SyntaxError, ValueError) as error:
            raise hg.DamagedFileError(f"image {index} of {path} cannot be decoded: {error}") from None
    return images, quality


def _quality(tables: dict[int, list[int]]) -> str:
    """Such as " q75" where the first table is the standard's (its first row: 16 11 10 16 24 40 51 61), scaled for that quality."""
    first = tuple(tables.get(0, ())[:8])
    for quality in range(1, 101):
        scale = 5000 // quality if quality < 50 else 200 - 2 * quality
        row = tuple(max(1, min(255, (step * scale + 50) // 100)) for step in (16, 11, 10, 16, 24, 40, 51, 61))
        if row == first:
            return f" q{quality}"
    return ""
