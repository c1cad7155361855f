"""heliograph mnist: the MNIST test images, all encrypted; and pictures of digits."""

from __future__ import annotations

import itertools
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph._arrays import Int64Array, readable_bytes
from heliograph.cli import idx, pictures, screen


def peak_bytes() -> int:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def free_bytes() -> int | None:
    """Memory that can be had now, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


@dataclass
class Result:
    """What a run over many images gave."""

    logits: list[Int64Array] = field(default_factory=list)
    batches: int = 0
    sent: int = 0
    received: int = 0
    noise: float = float("inf")


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


def classify_all(
    images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8], setup: nn.Setup, parameters: hg.bfv.Parameters
) -> bool:
    """The whole run, told as it goes. Whether every logit was right."""
    network = setup.load()
    batches = -(-len(images) // parameters.slots)
    _announce(network, parameters, len(images), batches)
    stages = screen.Stages()
    with stages.stage("make keys"):
        secret = hg.SecretKey.generate(parameters)
        server = hg.Server(secret.evaluation_keys(**setup.keys()))
    result = Result()
    for first in range(0, len(images), parameters.slots):
        part = images[first : first + parameters.slots]
        which = f" {first // parameters.slots + 1} of {batches}" if batches > 1 else ""
        _one_batch(network, secret, server, part, stages, which, result)
    with stages.stage("the clear network, to compare"):
        expected = network.clear_logits(images)
    return _tell(result, stages, expected, labels, len(server.keys.to_bytes()))


def _announce(network: nn.Network, parameters: hg.bfv.Parameters, images: int, batches: int) -> None:
    counts = network.counts()
    need = network.memory(parameters)
    have = free_bytes()
    screen.say(repr(parameters))
    screen.say(
        f"{images:,} images in {batches} batch(es) of up to {parameters.slots:,}: a pixel a ciphertext, an image a slot"
    )
    screen.say(
        f"network {network.name}: {counts.inputs:,} ciphertexts in, {counts.products:,} squares, {counts.constants:,} "
        f"ciphertext-constant products, {counts.relinearizations:,} relinearizations, {network.classes} ciphertexts out"
    )
    if network.name.startswith("hcnn5"):
        both = (nn.load("hcnn5").counts().constants, nn.load("hcnn5-paper").counts().constants)
        screen.say(f"(--network dense: filters read all maps, {both[0]:,} products; --network paper: one map, {both[1]:,})")
    screen.say(f"memory: about {readable_bytes(need)} at most" + (f"; {readable_bytes(have)} free" if have else ""))
    if have is not None and need > have:
        raise hg.OutOfMemoryError(f"needs about {readable_bytes(need)}, you have {readable_bytes(have)}")


def _one_batch(
    network: nn.Network,
    secret: hg.SecretKey,
    server: hg.Server,
    images: npt.NDArray[np.uint8],
    stages: screen.Stages,
    which: str,
    result: Result,
) -> None:
    start = dict(stages.times)
    with stages.stage("encrypt") as progress:
        values = network.arrange(images)
        request = [server.bind(secret.encrypt(values, pad=True, progress=lambda share: progress("", share)))]
    del values
    result.sent += request[0].nbytes // 2  # the uniform half travels as a seed
    with stages.stage("classify") as progress:
        answer = network.evaluate(request.pop(), progress)
    result.received += len(answer.to_bytes())
    with stages.stage("decrypt"):
        result.logits.append(np.ascontiguousarray(secret.decrypt(answer).T))
    result.noise = min(result.noise, secret.noise_budget(answer))
    result.batches += 1
    spent = {name: stages.times[name] - start.get(name, 0.0) for name in ("encrypt", "classify", "decrypt")}
    each = ", ".join(f"{name} {screen.seconds(value)}" for name, value in spent.items())
    screen.say(f"batch{which}: {len(images):,} images: {each}")


def _tell(
    result: Result, stages: screen.Stages, expected: Int64Array, labels: npt.NDArray[np.uint8], key_bytes: int
) -> bool:
    logits = np.concatenate(result.logits)
    equal = int((logits == expected).sum())
    right = int((logits.argmax(1) == labels).sum())
    rows = [(name, screen.seconds(value)) for name, value in stages.times.items()]
    screen.say()
    screen.table("", ("stage", "time"), rows)
    sent, back = readable_bytes(result.sent), readable_bytes(result.received)
    screen.say(f"to the server: keys {readable_bytes(key_bytes)}, requests {sent}; back: {back}")
    screen.say(f"noise left in the answers, measured with the secret key: {result.noise:.0f} bits")
    screen.say(f"peak memory of the process: {readable_bytes(peak_bytes())}")
    every = "every logit equal" if equal == logits.size else f"ONLY {equal:,} OF {logits.size:,} LOGITS EQUAL"
    screen.say(f"{every} to the clear integer network's ({logits.size:,} compared)", "bold")
    screen.say(f"accuracy: {right:,} of {len(labels):,} right, {100 * right / len(labels):.2f}%", "bold")
    return equal == logits.size


def classify_pictures(paths: list[Path]) -> None:
    """Each picture: shown as the network sees it, encrypted, classified, decrypted."""
    files = pictures.expand(paths)
    images = [(path, pictures.read(path)) for path in files]
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


def _one_picture(path: Path, image: npt.NDArray[np.uint8], secret: hg.SecretKey, server: hg.Server, run: Any) -> None:
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
