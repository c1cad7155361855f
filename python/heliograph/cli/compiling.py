"""The files of the command `compile`: samples and class numbers."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from heliograph.cli.workflow import CommandError


def samples_of(model: Path, calibrate: Path | None, labels: Path | None) -> Any:
    """Returns the calibration data of `hg.ml.compile`: None, samples, or a pair of samples and class numbers [count].

    Raises CommandError for files that are not arrays, and for labels without samples or of a model of trees; OSError.
    """
    samples = None if calibrate is None else _arrays(calibrate, model)
    if labels is None:
        return samples
    if samples is None:
        raise CommandError("--labels requires --calibrate: labels are the class numbers of its samples")
    if model.suffix.lower() != ".onnx":
        raise CommandError(f"--labels is an option of networks (.onnx), and {model.name} is a model of trees; leave it out")
    numbers = _array(labels)
    first = next(iter(samples.values())) if isinstance(samples, dict) else samples
    if numbers.shape != first.shape[:1] or numbers.dtype.kind not in "iu":
        raise CommandError(
            f"cannot use {labels}: labels must be whole numbers of shape {first.shape[:1]}, one for each sample of "
            f"--calibrate, got {numbers.dtype} of shape {numbers.shape}"
        )
    return samples, numbers


def _load(path: Path) -> Any:
    try:
        found = np.load(path, allow_pickle=False)
        return found if isinstance(found, np.ndarray) else dict(found)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(f"cannot read {path}: it must be a .npy file of numbers; {error}") from None


def _arrays(path: Path, model: Path) -> Any:
    """Returns the array of a .npy file, or for a network the arrays of a .npz file by the names of its inputs."""
    found = _load(path)
    if isinstance(found, dict) and (model.suffix.lower() != ".onnx" or not found or any(a.ndim < 1 for a in found.values())):
        raise CommandError(
            f"cannot read {path}: a model of trees takes one array, not an archive of several (.npz); that of a network "
            "(.onnx) has the samples of its inputs by name"
        )
    return found


def _array(path: Path) -> Any:
    """Returns the array of a .npy file. Pickled objects are refused."""
    found = _load(path)
    if not isinstance(found, np.ndarray):
        raise CommandError(f"cannot read {path}: it must be a .npy file of one array, not an archive of several (.npz)")
    return found
