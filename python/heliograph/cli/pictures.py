"""Converts a picture of one digit to MNIST's form: light on dark, 20 pixels tall or wide, centred by mass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import heliograph as hg

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE, INK = 28, 20
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
_CONTRAST = 24.0  # least difference of ink and background in grey levels
_FAINT_INK = 45.0  # a digit with less ink, in full pixels, is thickened


def expand(paths: list[Path]) -> list[Path]:
    """Returns the files, and for each folder the pictures in it."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.suffix.lower() in _SUFFIXES)
            if not inside:
                raise hg.FormatError(f"no pictures in {path}; it must contain files named {', '.join(sorted(_SUFFIXES))}")
            files += inside
        else:
            files.append(path)
    return files


def read(path: Path) -> npt.NDArray[np.uint8]:
    """Reads one digit [28, 28] from a picture file. Raises FormatError if the file holds no picture or no digit."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise hg.HeliographError("cannot read pictures: this needs Pillow: pip install 'heliograph[demo]'") from None
    try:
        with Image.open(path) as picture:
            picture.load()
            return prepare(_grey(picture), str(path))
    except UnidentifiedImageError:
        raise hg.FormatError(f"{path} is not a picture of a known format (PNG, JPEG, ...)") from None
    except (Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise hg.FormatError(f"{path} cannot be read: {error}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise hg.DamagedFileError(f"{path} is damaged: {error}") from None


def _grey(picture: Image) -> npt.NDArray[np.float64]:
    """Converts a picture to grey levels of 0 to 255. Transparent parts become white, or black if the picture is blank on
    white.
    """
    if not picture.has_transparency_data:
        return np.asarray(picture.convert("L"), dtype=np.float64)
    on_white = _on(picture, "white")
    return on_white if np.ptp(on_white) >= _CONTRAST else _on(picture, "black")


def _on(picture: Image, colour: str) -> npt.NDArray[np.float64]:
    """Composites a picture on a background colour, in grey."""
    from PIL import Image

    layered = picture.convert("RGBA")
    behind = Image.new("RGBA", layered.size, colour)
    return np.asarray(Image.alpha_composite(behind, layered).convert("L"), dtype=np.float64)


def prepare(grey: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.uint8]:
    """Converts a grey picture to MNIST's form. Raises FormatError if it shows no digit."""
    edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    background = float(np.median(edge))
    ink = background - grey if background > 127 else grey - background
    ink = np.clip(ink, 0, None)
    if ink.max(initial=0) < _CONTRAST:
        raise hg.FormatError(
            f"no digit is visible in {name}: ink and background must differ by {_CONTRAST:g} of 255 grey levels"
        )
    if grey.shape == (SIDE, SIDE) and background == 0:
        return grey.astype(np.uint8)  # MNIST's own image
    ink = np.where(ink < 0.15 * ink.max(), 0, ink) * (255 / ink.max())
    return _centred(_scaled(ink))


def _scaled(ink: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Crops the digit, scales its longer side to 20 pixels and thickens faint strokes."""
    from PIL import Image, ImageFilter

    rows, columns = np.flatnonzero(ink.max(1)), np.flatnonzero(ink.max(0))
    box = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = INK / max(box.shape)
    size = (max(1, round(box.shape[1] * scale)), max(1, round(box.shape[0] * scale)))
    how = Image.Resampling.BOX if scale < 1 else Image.Resampling.BICUBIC
    picture = Image.fromarray(box.astype(np.uint8)).resize(size, how)
    values = np.asarray(picture, dtype=np.float64)
    if values.sum() / 255 < _FAINT_INK:
        padded = Image.fromarray(np.pad(values, 1).astype(np.uint8))
        values = np.asarray(padded.filter(ImageFilter.MaxFilter(3)), dtype=np.float64)
    return np.minimum(values * (255 / max(1.0, float(values.max()))), 255)


def _centred(digit: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Places the digit in 28 x 28 pixels with its centre of mass in the middle, completely inside."""
    height, width = digit.shape
    total = digit.sum()
    y = float((digit.sum(1) * np.arange(height)).sum() / total)
    x = float((digit.sum(0) * np.arange(width)).sum() / total)
    top = int(np.clip(round((SIDE - 1) / 2 - y), 0, SIDE - height))
    left = int(np.clip(round((SIDE - 1) / 2 - x), 0, SIDE - width))
    result = np.zeros((SIDE, SIDE), dtype=np.uint8)
    result[top : top + height, left : left + width] = np.rint(digit).astype(np.uint8)
    return result
