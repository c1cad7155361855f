"""heliograph mnist: classifies the encrypted MNIST test images, or pictures of digits."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph._common.arguments import readable_bytes
from heliograph.cli import idx, pictures, terminal
from heliograph.cli.workflow import CommandError


def test_set(images_at: Path, labels_at: Path, limit: int | None) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Reads images and labels, the first `limit` of them. Raises ShapeError if they do not fit together."""
    images, labels = idx.images(images_at), idx.labels(labels_at)
    if len(images) != len(labels):
        raise hg.ShapeError(f"images and labels must be equally many, got {len(images):,} images and {len(labels):,} labels")
    if images.shape[1:] != (28, 28):
        raise hg.ShapeError(f"the images must be 28 x 28, got {images.shape[1]} x {images.shape[2]}")
    if not len(images):
        raise hg.ShapeError(f"{images_at} holds no images; give a file with at least one")
    return images[:limit], labels[:limit]


def require_files(images: Path | None, labels: Path | None) -> None:
    """Raises CommandError that names all missing options and files."""
    if images is None and labels is None:
        raise CommandError("give pictures, or --images FILE and --labels FILE")
    options = {"--images": images, "--labels": labels}
    lacking = [f"{option} FILE" for option, path in options.items() if path is None]
    lacking += [f"{option}'s file {path}" for option, path in options.items() if path is not None and not path.exists()]
    if lacking:
        raise CommandError(f"missing: {', '.join(lacking)}")


def _readable(files: list[Path], limit: int | None) -> tuple[list[tuple[Path, npt.NDArray[np.uint8]]], int]:
    """Reads the first `limit` pictures of a digit. Returns the pictures and the number of unreadable files."""
    images: list[tuple[Path, npt.NDArray[np.uint8]]] = []
    passed = 0
    for path in files:
        if len(images) == limit:
            break
        try:
            images.append((path, pictures.read(path)))
        except (hg.FormatError, OSError) as error:
            if len(files) == 1:
                raise
            passed += 1
            terminal.complain(f"skipped: {f'{error.strerror}: {path}' if isinstance(error, OSError) else error}")
    return images, passed


def classify_pictures(paths: list[Path], limit: int | None = None) -> bool:
    """Shows each picture as the network sees it, encrypts, classifies and decrypts it. Returns whether all pictures were
    readable.
    """
    images, passed = _readable(pictures.expand(paths), limit)
    if not images:
        raise CommandError(f"none of {passed} pictures is readable; give pictures of one digit each (PNG, JPEG, ...)")
    setup = nn.setup("mnist-packed")
    parameters = setup.parameters()
    layout = setup.layout()
    terminal.say(repr(parameters))
    stages = terminal.Stages()
    with stages.stage("make keys"):
        secret = hg.SecretKey.generate(parameters)
        server = hg.Server(secret.evaluation_keys(**setup.keys()))
    with stages.stage("prepare weights"):
        run = layout.server(server.parameters)
    terminal.say(f"keys {readable_bytes(server.keys.nbytes / 2)} in {terminal.seconds(stages.times['make keys'])}, "
               f"weights prepared in {terminal.seconds(stages.times['prepare weights'])}")  # fmt: skip
    for path, image in images:
        _one_picture(path, image, secret, server, run)
    if passed:
        terminal.say(f"\n{passed} of {passed + len(images)} pictures were skipped")
    return not passed


def _one_picture(path: Path, image: npt.NDArray[np.uint8], secret: hg.bfv.SecretKey, server: hg.Server, run: Any) -> None:
    clock = [time.perf_counter()]
    x = server.bind(secret.encrypt(run.layout.pack(image)))
    clock.append(time.perf_counter())
    y = run.run(x)
    clock.append(time.perf_counter())
    logits = run.layout.unpack(secret.decrypt(y))
    clock.append(time.perf_counter())
    first, second = (int(k) for k in logits.argsort()[::-1][:2])
    terminal.say(f"\n{path}")
    terminal.gallery([image], 255, [terminal.verdict(first)])
    encrypt, classify, decrypt = (terminal.seconds(b - a) for a, b in itertools.pairwise(clock))
    terminal.say(
        f"next best {second}; encrypt {encrypt}, classify {classify}, decrypt {decrypt}; "
        f"{readable_bytes(x.nbytes / 2)} to the server, {readable_bytes(len(y.to_bytes()))} back, "
        f"{secret.noise_budget(y):.0f} bits of noise left"
    )
    if not np.array_equal(logits, run.layout.network.clear_logits(image[None])[0]):
        raise hg.InternalError("a decrypted logit differs from the clear network's")
