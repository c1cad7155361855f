"""heliograph mnist: the MNIST test images, all encrypted; and pictures of digits."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph._arrays import readable_bytes
from heliograph.cli import idx, pictures, screen
from heliograph.cli.roles import CommandError


def test_set(images_at: Path, labels_at: Path, limit: int | None) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images and labels, the first `limit` of them. Raises ShapeError where they do not belong together."""
    images, labels = idx.images(images_at), idx.labels(labels_at)
    if len(images) != len(labels):
        raise hg.ShapeError(f"{len(images):,} images and {len(labels):,} labels")
    if images.shape[1:] != (28, 28):
        raise hg.ShapeError(f"the images are {images.shape[1]} x {images.shape[2]}, not 28 x 28")
    if not len(images):
        raise hg.ShapeError("there are no images")
    return images[:limit], labels[:limit]


def require_files(images: Path | None, labels: Path | None) -> None:
    """Raises CommandError that names all that is missing: options, files."""
    if images is None and labels is None:
        raise CommandError("say --images FILE --labels FILE, or name pictures")
    given = {"--images": images, "--labels": labels}
    lacking = [f"{option} FILE" for option, path in given.items() if path is None]
    lacking += [f"{option}'s file {path}" for option, path in given.items() if path is not None and not path.exists()]
    if lacking:
        raise CommandError(f"missing: {', '.join(lacking)}")


def _readable(files: list[Path], limit: int | None) -> tuple[list[tuple[Path, npt.NDArray[np.uint8]]], int]:
    """The first `limit` pictures that hold a digit, and how many were passed over, each with a line that says why."""
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
            screen.complain(f"passed over: {f'{error.strerror}: {path}' if isinstance(error, OSError) else error}")
    return images, passed


def classify_pictures(paths: list[Path], limit: int | None = None) -> bool:
    """Each picture: shown as the network sees it, encrypted, classified, decrypted. Whether all could be read."""
    images, passed = _readable(pictures.expand(paths), limit)
    if not images:
        raise CommandError(f"none of {passed} pictures can be read")
    setup = nn.setup("mnist-packed")
    parameters = setup.parameters()
    layout = setup.layout()
    screen.say(repr(parameters))
    stages = screen.Stages()
    with stages.stage("make keys"):
        secret = hg.SecretKey.generate(parameters)
        server = hg.Server(secret.evaluation_keys(**setup.keys()))
    with stages.stage("prepare weights"):
        run = layout.server(server.parameters)
    screen.say(f"keys {readable_bytes(server.keys.nbytes / 2)} in {screen.seconds(stages.times['make keys'])}, "
               f"weights prepared in {screen.seconds(stages.times['prepare weights'])}")  # fmt: skip
    for path, image in images:
        _one_picture(path, image, secret, server, run)
    if passed:
        screen.say(f"\n{passed} of {passed + len(images)} pictures were passed over")
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
    screen.say(f"\n{path}")
    screen.gallery([image], 255, [screen.verdict(first)])
    encrypt, classify, decrypt = (screen.seconds(b - a) for a, b in itertools.pairwise(clock))
    screen.say(
        f"next best {second}; encrypt {encrypt}, classify {classify}, decrypt {decrypt}; "
        f"{readable_bytes(x.nbytes / 2)} to the server, {readable_bytes(len(y.to_bytes()))} back, "
        f"{secret.noise_budget(y):.0f} bits of noise left"
    )
    if not np.array_equal(logits, run.layout.network.clear_logits(image[None])[0]):
        raise hg.InternalError("a decrypted logit is not the clear network's")
