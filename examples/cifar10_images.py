"""Load CIFAR-10 for the training script: decode JPEG streams, split the images, and copy them to a device."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

HELD_OUT, VALIDATION = 4000, 5000  # the first and the last training images


@dataclass(frozen=True)
class Images:
    """Images as (number, 3, 32, 32) uint8 RGB, with their labels, on the device."""

    pixels: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Images:
        return Images(self.pixels[part], self.labels[part])

    def batches(self, size: int = 1000) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches of pixels and labels."""
        return zip(self.pixels.split(size), self.labels.split(size), strict=True)


@dataclass(frozen=True)
class Data:
    """The parts of CIFAR-10; `everything` is all training images, in the official order."""

    everything: Images
    original: Images  # the first training images, in original pixels
    test: Images
    skipped: int  # first images, excluded from training
    validated: int  # last images, excluded from training
    sha256: dict[str, str]

    @property
    def train(self) -> Images:
        """Return the training images."""
        return self.everything[self.skipped : len(self.everything) - self.validated]

    @property
    def validation(self) -> Images:
        """Return the validation images."""
        return self.everything[len(self.everything) - self.validated :]


def decode(streams: list[bytes]) -> np.ndarray:
    """Decode JPEG streams to (number, 32, 32, 3) uint8."""
    return np.stack([np.asarray(Image.open(io.BytesIO(stream)).convert("RGB")) for stream in streams])


def read_jpeg(path: Path, chosen: np.ndarray | None, workers: multiprocessing.pool.Pool) -> tuple[np.ndarray, np.ndarray]:
    """Decode a file of concatenated JPEG streams: all images, or the chosen ones."""
    with np.load(path) as file:
        stream, offsets, labels = file["jpeg"].tobytes(), file["offsets"].tolist(), file["labels"]
    indices = range(len(labels)) if chosen is None else chosen.tolist()
    streams = [stream[offsets[i] : offsets[i + 1]] for i in indices]
    parts = workers.map(decode, [streams[first : first + 500] for first in range(0, len(streams), 500)])
    return np.concatenate(parts), labels[list(indices)]


def load_data(folder: Path, quick: bool) -> tuple[Data, dict[str, str]]:
    """Decode all images to the CPU, and compute the digests of the decoded arrays; `quick` decodes a small part."""
    held, validated = (60, 100) if quick else (HELD_OUT, VALIDATION)
    some = np.concatenate([np.arange(60), np.arange(4000, 4400), np.arange(45000, 45100)]) if quick else None
    with multiprocessing.get_context("fork").Pool(min(16, os.cpu_count() or 1)) as workers:
        train = read_jpeg(folder / "train_jpeg.npz", some, workers)
        test = read_jpeg(folder / "test_jpeg.npz", np.arange(100) if quick else None, workers)
    with np.load(folder / "train_first4000_original.npz") as file:
        original = file["images"][:held], file["labels"][:held]
    assert (original[1] == train[1][:held]).all(), "the original images are not the first training images"
    digests = {
        name: hashlib.sha256(part[0].tobytes()).hexdigest()
        for name, part in (("train", train), ("test", test), ("train_first4000_original", original))
    }
    parts = [
        Images(torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy()), torch.from_numpy(labels.astype(np.int64)))
        for pixels, labels in (train, original, test)
    ]
    return Data(parts[0], parts[1], parts[2], held, validated, digests), digests


def on_device(data: Data, device: torch.device) -> Data:
    """Copy all images to the device."""

    def copy(images: Images) -> Images:
        return Images(images.pixels.to(device), images.labels.to(device))

    return Data(copy(data.everything), copy(data.original), copy(data.test), data.skipped, data.validated, data.sha256)


class Augmentation:
    """Shift, mirror and partly mask images at random, in one batch."""

    def __init__(self, data: Images, blot: int, generator: torch.Generator, reach: int = 4) -> None:
        parts = [functional.pad(pixels.float(), [reach] * 4, mode="reflect").byte() for pixels in data.pixels.split(5000)]
        self.padded, self.labels, self.reach, self.blot = torch.cat(parts), data.labels, reach, blot
        self.side, self.generator = data.pixels.shape[-1], generator

    def random(self, count: int, below: int) -> Tensor:
        """Return random integers 0..below - 1."""
        return torch.randint(below, (count,), device=self.padded.device, generator=self.generator)

    def epoch(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield every image once, in full batches; the remaining images are skipped in this epoch."""
        order = torch.randperm(len(self.labels), device=self.padded.device, generator=self.generator)
        size = min(size, len(order))
        for chosen in order[: len(order) // size * size].split(size):
            yield self.batch(chosen), self.labels[chosen]

    def batch(self, chosen: Tensor) -> Tensor:
        """Return the chosen images after augmentation."""
        count, side, device = len(chosen), self.side, self.padded.device
        windows = self.padded[chosen].unfold(2, side, 1).unfold(3, side, 1)
        places = 2 * self.reach + 1
        rows, columns = self.random(count, places), self.random(count, places)
        pixels = windows[torch.arange(count, device=device), :, rows, columns]
        mirrored = self.random(count, 2).bool().view(-1, 1, 1, 1)
        pixels = torch.where(mirrored, pixels.flip(3), pixels)
        if not self.blot:
            return pixels
        axis = torch.arange(side, device=device)

        def covered() -> Tensor:
            first = self.random(count, side + self.blot - 1)[:, None] - self.blot + 1
            return (axis >= first) & (axis < first + self.blot)

        hole = covered()[:, None, :, None] & covered()[:, None, None, :]
        return pixels.masked_fill(hole, 120)  # value of masked pixels, near the mean pixel
