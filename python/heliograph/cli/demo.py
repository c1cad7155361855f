"""heliograph demo: both parties with scikit-learn's handwritten digits; on a co-processor, with drawn digits."""

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
from heliograph._common.arguments import readable_bytes
from heliograph.cli import pen_digits, terminal, workflow

_TEST = 360
DigitArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Folders:
    """The parties' folders. The server gets only paths in `shared`."""

    client: Path
    shared: Path


@contextmanager
def folders(keep: Path | None) -> Iterator[Folders]:
    """Yields temporary folders, or subfolders of `keep`."""
    if keep is None:
        temporary = tempfile.TemporaryDirectory
        with temporary(prefix="heliograph-client-") as own, temporary(prefix="heliograph-shared-") as shared:
            yield Folders(Path(own), Path(shared))
        return
    workflow.make_folder(keep)
    places = Folders(keep / "client", keep / "shared")
    for place in (places.client, places.shared):
        if place.exists() and any(place.iterdir()):
            raise workflow.CommandError(f"{place} is not empty; give --keep a new or empty folder")
        workflow.make_folder(place)
    yield places


def all_digits() -> tuple[DigitArray, DigitArray]:
    """Returns scikit-learn's digits, [count, 8, 8] of 0 ... 16, and their labels."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise hg.HeliographError("cannot load the digits: this needs scikit-learn: pip install 'heliograph[demo]'") from None
    digits = load_digits()
    return digits.images.astype(np.int64), digits.target.astype(np.int64)


def held_out_digits() -> tuple[DigitArray, DigitArray]:
    """Returns the last 360 digits, which the network was not trained on."""
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
    """Runs the server in its own process, which gets only the paths of its keys, the requests and the answers."""
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
        raise workflow.CommandError(f"the server failed: {complaint.removeprefix('heliograph: ') or process.returncode}")
    return report


@dataclass
class Exchange:
    """The results of one exchange between client and server."""

    logits: list[DigitArray]
    noise: float
    rows: list[tuple[str, str, str]]
    cycles: list[hg.Cycles]  #: cycles of each request, on a simulated device


def exchange(setup: nn.Setup, batches: list[DigitArray], at: Folders, device: str | None) -> Exchange:
    """Generates keys, encrypts, runs the server and decrypts. Each batch is one request."""
    parameters = setup.parameters()
    stages = terminal.Stages()
    secret_at, keys_at = at.client / f"{setup.name}-secret.hg", at.shared / f"{setup.name}-keys.hg"
    requests = [at.shared / f"{setup.name}-request-{i + 1}.hg" for i in range(len(batches))]
    answers = [at.shared / f"{setup.name}-answer-{i + 1}.hg" for i in range(len(batches))]
    with stages.stage("make keys"):
        secret = workflow.make_keys(setup, parameters, secret_at, keys_at)
    with stages.stage("encrypt"):
        for images, request in zip(batches, requests, strict=True):
            secret.encrypt(workflow.pack(setup, images, parameters), pad=True).save(request)
    with stages.stage("server") as progress:
        report = serve(setup, keys_at, requests, answers, progress, device)
    with stages.stage("decrypt"):
        own = hg.bfv.SecretKey.load(secret_at)
        replies = [workflow.load_answer(path) for path in answers]
        logits = [workflow.unpack(setup, own.decrypt(reply), parameters) for reply in replies]
    noise = min(own.noise_budget(reply) for reply in replies)
    sizes = {"keys": workflow.size(keys_at)}
    sizes["request"], sizes["answer"] = (sum(map(workflow.size, files)) // len(batches) for files in (requests, answers))
    cycles = [hg.Cycles(**counted) for counted in report["cycles"]]
    return Exchange(logits, noise, _rows(stages, report, len(batches), sizes), cycles)


def _rows(stages: terminal.Stages, report: dict[str, Any], count: int, sizes: dict[str, int]) -> list[tuple[str, str, str]]:
    own, server_times = stages.times, report["seconds"]
    each = f" (each of {count})" if count > 1 else ""

    to = {what: readable_bytes(each_size) for what, each_size in sizes.items()}
    wait = own["server"] - sum(server_times.values())
    return [
        ("client: make keys", terminal.seconds(own["make keys"]), f"{to['keys']} to the server"),
        (f"client: encrypt{each}", terminal.seconds(own["encrypt"] / count), f"{to['request']} to the server"),
        ("server: start the process", terminal.seconds(wait), ""),
        ("server: read the keys", terminal.seconds(server_times["load keys"]), ""),
        ("server: prepare the weights", terminal.seconds(server_times["prepare weights"]), ""),
        (f"server: read the request{each}", terminal.seconds(server_times["load request"] / count), ""),
        (f"server: classify{each}", terminal.seconds(sorted(report["classify"])[count // 2]), ""),
        (
            f"server: write the answer{each}",
            terminal.seconds(server_times["write answer"] / count),
            f"{to['answer']} to the client",
        ),
        (f"client: decrypt{each}", terminal.seconds(own["decrypt"] / count), ""),
    ]


def run(count: int, keep: Path | None, seed: int | None, device: str | None) -> None:
    """Runs the demo: single digits, then the whole test split; on a co-processor only the drawn digits."""
    start = time.perf_counter()
    with folders(keep) as at:
        if device is not None and device.startswith("rtl"):
            classify_pen_digits(at, device)
        else:
            images, labels = held_out_digits()
            one_by_one(images, labels, count, seed, at, device)
            terminal.say()
            all_at_once(images, labels, at, device)
        if keep is not None:
            terminal.say(f"\nThe files are in {keep}; `heliograph inspect FILE` shows them.")
    terminal.say(f"\nAll of it took {terminal.seconds(time.perf_counter() - start)}.")


def one_by_one(
    images: DigitArray, labels: DigitArray, count: int, seed: int | None, at: Folders, device: str | None
) -> None:
    """Classifies some digits, one for each request."""
    setup = nn.setup("digits")
    sample = np.random.default_rng(seed).choice(len(images), size=min(count, len(images)), replace=False)
    terminal.say("One digit at a time, at low latency", "bold")
    terminal.say(
        "The 64 pixels are packed in one ciphertext. The server has only evaluation keys: it computes on ciphertexts and "
        "cannot read them."
    )
    terminal.say(f"{setup.parameters()!r}\n")
    result = exchange(setup, [images[[i]] for i in sample], at, device)
    predictions = [int(logits[0].argmax()) for logits in result.logits]
    captions = [terminal.verdict(p, int(labels[i])) for p, i in zip(predictions, sample, strict=True)]
    terminal.gallery([images[i] for i in sample], 16, captions)
    terminal.say()
    terminal.table("", ("stage", "time", "bytes"), result.rows)
    terminal.say(f"noise left in the answer, measured with the secret key: {result.noise:.0f} bits")
    _equal(setup, result, images[sample])


def all_at_once(images: DigitArray, labels: DigitArray, at: Folders, device: str | None) -> None:
    """Classifies the whole test split in one request."""
    setup = nn.setup("digits-batch")
    terminal.say(f"All {len(images)} digits of the test split at once", "bold")
    terminal.say("Each pixel has a ciphertext, each image a slot: the work is the same for one image and for a full set.")
    terminal.say(f"{setup.parameters()!r}\n")
    result = exchange(setup, [images], at, device)
    predictions = result.logits[0].argmax(1)
    right = int((predictions == labels).sum())
    sample = list(range(6))
    captions = [terminal.verdict(int(predictions[i]), int(labels[i])) for i in sample]
    terminal.gallery([images[i] for i in sample], 16, captions)
    terminal.say()
    terminal.table("", ("stage", "time", "bytes"), result.rows)
    terminal.say(f"noise left in the answer, measured with the secret key: {result.noise:.0f} bits")
    _equal(setup, result, images)
    terminal.say(f"accuracy: {right} of {len(labels)} right, {100 * right / len(labels):.1f}%", "bold")


def classify_pen_digits(at: Folders, device: str) -> None:
    """Classifies the ten drawn digits in one request to the network of the smallest ring."""
    setup = nn.setup("mnist-small")
    images = np.stack([pen_digits.render(digit) for digit in pen_digits.DIGITS]).astype(np.int64)
    terminal.say(f"Ten digits in one request, on {device}", "bold")
    terminal.say(
        "The 28 x 28 pixels of all ten digits are packed in 25 ciphertexts. The server has only evaluation keys: it "
        "computes on ciphertexts and cannot read them."
    )
    terminal.say(f"{setup.parameters()!r}\n")
    result = exchange(setup, [images], at, device)
    captions = [
        terminal.verdict(int(p), digit) for p, digit in zip(result.logits[0].argmax(1), pen_digits.DIGITS, strict=True)
    ]
    terminal.gallery(list(images), 255, captions)
    terminal.say()
    terminal.table("", ("stage", "time", "bytes"), result.rows)
    for counted in result.cycles:
        terminal.say(f"the server's card, classifying: {terminal.cycles(counted)}", "bold")
        terminal.say(
            f"that is {terminal.seconds(counted.seconds / len(images))} a digit; a full request has {setup.layout().images}"
        )
    terminal.say(f"noise left in the answer, measured with the secret key: {result.noise:.0f} bits")
    _equal(setup, result, images)


def _equal(setup: nn.Setup, result: Exchange, images: DigitArray) -> None:
    """Raises InternalError if a logit differs from the clear network's."""
    if not np.array_equal(np.concatenate(result.logits), setup.load().clear_logits(images)):
        raise hg.InternalError("a decrypted logit differs from the clear network's")
    terminal.say("every logit equals the clear network's")
