"""heliograph demo: the whole story on scikit-learn's handwritten digits; on a co-processor, on drawn ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph._arrays import readable_bytes
from heliograph.cli import roles, screen, strokes

_TEST = 360
DigitArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Folders:
    """Where the two parties keep their files. The server is told of `shared` alone."""

    client: Path
    shared: Path


@contextmanager
def folders(keep: Path | None) -> Iterator[Folders]:
    """Temporary folders, or those a person wants to keep."""
    if keep is None:
        temporary = tempfile.TemporaryDirectory
        with temporary(prefix="heliograph-client-") as own, temporary(prefix="heliograph-shared-") as shared:
            yield Folders(Path(own), Path(shared))
        return
    roles.make_folder(keep)
    places = Folders(keep / "client", keep / "shared")
    for place in (places.client, places.shared):
        if place.exists() and any(place.iterdir()):
            raise roles.CommandError(f"{place} is not empty")
        roles.make_folder(place)
    yield places


def all_digits() -> tuple[DigitArray, DigitArray]:
    """scikit-learn's digits, [count, 8, 8] of 0 ... 16, and their labels."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise hg.HeliographError("the digits come with scikit-learn: pip install 'heliograph[demo]'") from None
    digits = load_digits()
    return digits.images.astype(np.int64), digits.target.astype(np.int64)


def held_out_digits() -> tuple[DigitArray, DigitArray]:
    """The last 360, which the network was not trained on."""
    images, labels = all_digits()
    return images[-_TEST:], labels[-_TEST:]


def serve(
    setup: nn.Setup,
    keys: Path,
    requests: list[Path],
    answers: list[Path],
    progress: Callable[[str, float], None],
    device: str | None = None,
) -> dict[str, Any]:
    """The server: a process of its own that is told the paths of its keys, the requests and the answers, and no other."""
    command = [sys.executable, "-P", "-m", "heliograph.cli", "classify", "--report", "--force", "--network", setup.name]
    command += ["--keys", str(keys)]
    for request, reply in zip(requests, answers, strict=True):
        command += ["--in", str(request), "--out", str(reply)]
    report: dict[str, Any] = {}
    environment = os.environ | ({"HELIOGRAPH_DEVICE": device} if device else {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                report = json.loads(line)
                if "part" in report:
                    progress(report["part"], report["share"])
            complaint = process.stderr.read().strip()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise roles.CommandError(f"the server failed: {complaint.removeprefix('heliograph: ') or process.returncode}")
    return report


@dataclass
class Exchange:
    """One trip through the two processes."""

    logits: list[DigitArray]
    noise: float
    rows: list[tuple[str, str, str]]
    cycles: list[hg.Cycles]  #: of each request, on a simulated device


def exchange(setup: nn.Setup, batches: list[DigitArray], at: Folders, device: str | None) -> Exchange:
    """Keys, encryption, the server's work, decryption: each batch is one request."""
    parameters = setup.parameters()
    stages = screen.Stages()
    secret_at, keys_at = at.client / f"{setup.name}-secret.hg", at.shared / f"{setup.name}-keys.hg"
    requests = [at.shared / f"{setup.name}-request-{i + 1}.hg" for i in range(len(batches))]
    answers = [at.shared / f"{setup.name}-answer-{i + 1}.hg" for i in range(len(batches))]
    with stages.stage("make keys"):
        secret = roles.make_keys(setup, parameters, secret_at, keys_at)
    with stages.stage("encrypt"):
        for images, request in zip(batches, requests, strict=True):
            secret.encrypt(roles.pack(setup, images, parameters), pad=True).save(request)
    with stages.stage("server") as progress:
        report = serve(setup, keys_at, requests, answers, progress, device)
    with stages.stage("decrypt"):
        own = hg.bfv.SecretKey.load(secret_at)
        replies = [roles.load_answer(path) for path in answers]
        logits = [roles.unpack(setup, own.decrypt(reply), parameters) for reply in replies]
    noise = min(own.noise_budget(reply) for reply in replies)
    sizes = {"keys": roles.size(keys_at)}
    sizes["request"], sizes["answer"] = (sum(map(roles.size, files)) // len(batches) for files in (requests, answers))
    cycles = [hg.Cycles(**counted) for counted in report["cycles"]]
    return Exchange(logits, noise, _rows(stages, report, len(batches), sizes), cycles)


def _rows(stages: screen.Stages, report: dict[str, Any], count: int, sizes: dict[str, int]) -> list[tuple[str, str, str]]:
    own, theirs = stages.times, report["seconds"]
    each = f" (each of {count})" if count > 1 else ""

    to = {what: readable_bytes(each_size) for what, each_size in sizes.items()}
    wait = own["server"] - sum(theirs.values())
    return [
        ("client: make keys", screen.seconds(own["make keys"]), f"{to['keys']} to the server"),
        (f"client: encrypt{each}", screen.seconds(own["encrypt"] / count), f"{to['request']} to the server"),
        ("server: start the process", screen.seconds(wait), ""),
        ("server: read the keys", screen.seconds(theirs["load keys"]), ""),
        ("server: prepare the weights", screen.seconds(theirs["prepare weights"]), ""),
        (f"server: read the request{each}", screen.seconds(theirs["load request"] / count), ""),
        (f"server: classify{each}", screen.seconds(sorted(report["classify"])[count // 2]), ""),
        (f"server: write the answer{each}", screen.seconds(theirs["write answer"] / count), f"{to['answer']} to the client"),
        (f"client: decrypt{each}", screen.seconds(own["decrypt"] / count), ""),
    ]


def run(count: int, keep: Path | None, seed: int | None, device: str | None) -> None:
    """Both ways, or on a co-processor what it has room for, with everything shown."""
    start = time.perf_counter()
    with folders(keep) as at:
        if device is not None and device.startswith("rtl"):
            drawn_digits(at, device)
        else:
            images, labels = held_out_digits()
            one_by_one(images, labels, count, seed, at, device)
            screen.say()
            all_at_once(images, labels, at, device)
        if keep is not None:
            screen.say(f"\nThe files are in {keep}; `heliograph inspect FILE` shows them.")
    screen.say(f"\nAll of it took {screen.seconds(time.perf_counter() - start)}.")


def one_by_one(
    images: DigitArray, labels: DigitArray, count: int, seed: int | None, at: Folders, device: str | None
) -> None:
    """Some digits, one to a request."""
    setup = nn.setup("digits")
    chosen = np.random.default_rng(seed).choice(len(images), size=min(count, len(images)), replace=False)
    screen.say("One digit at a time, at low latency", "bold")
    screen.say(
        "The 64 pixels lie side by side in one ciphertext. The server holds evaluation keys alone: it computes on what it "
        "is sent and cannot read it."
    )
    screen.say(f"{setup.parameters()!r}\n")
    done = exchange(setup, [images[[i]] for i in chosen], at, device)
    predictions = [int(logits[0].argmax()) for logits in done.logits]
    captions = [screen.verdict(p, int(labels[i])) for p, i in zip(predictions, chosen, strict=True)]
    screen.gallery([images[i] for i in chosen], 16, captions)
    screen.say()
    screen.table("", ("stage", "time", "bytes"), done.rows)
    screen.say(f"noise left in the answer, measured with the secret key: {done.noise:.0f} bits")
    _equal(setup, done, images[chosen])


def all_at_once(images: DigitArray, labels: DigitArray, at: Folders, device: str | None) -> None:
    """The whole test split in one request."""
    setup = nn.setup("digits-batch")
    screen.say(f"All {len(images)} digits of the test split at once", "bold")
    screen.say("One pixel a ciphertext, one image a slot: one image or a full set, the work is the same.")
    screen.say(f"{setup.parameters()!r}\n")
    done = exchange(setup, [images], at, device)
    predictions = done.logits[0].argmax(1)
    right = int((predictions == labels).sum())
    sample = list(range(6))
    captions = [screen.verdict(int(predictions[i]), int(labels[i])) for i in sample]
    screen.gallery([images[i] for i in sample], 16, captions)
    screen.say()
    screen.table("", ("stage", "time", "bytes"), done.rows)
    screen.say(f"noise left in the answer, measured with the secret key: {done.noise:.0f} bits")
    _equal(setup, done, images)
    screen.say(f"accuracy: {right} of {len(labels)} right, {100 * right / len(labels):.1f}%", "bold")


def drawn_digits(at: Folders, device: str) -> None:
    """The ten digits, drawn, in one request to the network of the smallest ring."""
    setup = nn.setup("mnist-small")
    images = np.stack([strokes.drawn(digit) for digit in strokes.DIGITS]).astype(np.int64)
    screen.say(f"Ten digits in one request, on {device}", "bold")
    screen.say(
        "The 28 x 28 pixels of all ten lie side by side in 25 ciphertexts. The server holds evaluation keys alone: it computes "
        "on what it is sent and cannot read it."
    )
    screen.say(f"{setup.parameters()!r}\n")
    done = exchange(setup, [images], at, device)
    captions = [screen.verdict(int(p), digit) for p, digit in zip(done.logits[0].argmax(1), strokes.DIGITS, strict=True)]
    screen.gallery(list(images), 255, captions)
    screen.say()
    screen.table("", ("stage", "time", "bytes"), done.rows)
    for counted in done.cycles:
        screen.say(f"the server's card, classifying: {screen.cycles(counted)}", "bold")
        screen.say(
            f"that is {screen.seconds(counted.seconds / len(images))} a digit; a full request has {setup.layout().images}"
        )
    screen.say(f"noise left in the answer, measured with the secret key: {done.noise:.0f} bits")
    _equal(setup, done, images)


def _equal(setup: nn.Setup, done: Exchange, images: DigitArray) -> None:
    """Raises InternalError where a logit is not the clear network's."""
    if not np.array_equal(np.concatenate(done.logits), setup.load().clear_logits(images)):
        raise hg.InternalError("a decrypted logit is not the clear network's")
    screen.say("every logit equals the clear network's")
