"""The files of the command `compile`: samples and class numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from heliograph.cli.workflow import CommandError


def samples_of(model: Path, calibrate: Path | None, labels: Path | None) -> Any:
    """Returns the calibration data of `hg.ml.compile`: None, samples, or a pair of samples and class numbers [count].

    Raises CommandError for files that are not arrays, and for labels without samples or of a model of trees; OSError.
    """
    samples = None if calibrate is None else _array(calibrate)
    if labels is None:
        return samples
    if samples is None:
        raise CommandError("--labels requires --calibrate: labels are the class numbers of its samples")
    if model.suffix.lower() != ".onnx":
        raise CommandError(f"--labels is an option of networks (.onnx), and {model.name} is a model of trees; leave it out")
    numbers = _array(labels)
    if numbers.shape != samples.shape[:1] or numbers.dtype.kind not in "iu":
        raise CommandError(
            f"cannot use {labels}: labels must be whole numbers of shape {samples.shape[:1]}, one for each sample of "
            f"--calibrate, got {numbers.dtype} of shape {numbers.shape}"
        )
    return samples, numbers


def _array(path: Path) -> Any:
    """Returns the array of a .npy file. Pickled objects are refused."""
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CommandError(f"cannot read {path}: it must be a .npy file of numbers; {error}") from None
    if not isinstance(found, np.ndarray):
        raise CommandError(f"cannot read {path}: it must be a .npy file of one array, not an archive of several (.npz)")
    return found
