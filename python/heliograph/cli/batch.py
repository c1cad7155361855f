"""Classifies many images with a network, one image in each slot: encrypts, classifies, decrypts and compares with the clear
network.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
from heliograph import nn
from heliograph._common.arguments import readable_bytes
from heliograph.cli import terminal


def peak_bytes() -> int:
    """Returns the largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass
class Result:
    """The results of a run over many images."""

    logits: list[npt.NDArray[Any]] = field(default_factory=list)
    sent: int = 0
    received: int = 0
    noise: float = float("inf")


@dataclass(frozen=True)
class Run:
    """The images, the network and its parameters, and how many images to compare with the clear network."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.uint8]
    setup: nn.Setup
    parameters: hg.bfv.Parameters
    data: str = ""  #: name of the data set, printed with the accuracy
    check: int | None = None  #: number of first images whose logits are compared; None: all

    @property
    def batches(self) -> int:
        """The number of encryptions, each of up to `slots` images."""
        return -(-len(self.images) // self.parameters.slots)


def classify_all(run: Run) -> bool:
    """Runs all batches and prints the results. Returns whether every compared logit is right."""
    network = run.setup.load()
    _announce(network, run)
    stages = terminal.Stages()
    with stages.stage("make keys"):
        secret = hg.SecretKey.generate(run.parameters)
        server = hg.Server(secret.evaluation_keys(**run.setup.keys()))
    if len(run.parameters.plain_moduli) > 1:  # several moduli: a long run
        seconds = rough_seconds(network, secret, server) * run.batches
        terminal.say(f"about {_duration(seconds)} to classify, estimated from a short measurement of each operation")
    result = Result()
    for first in range(0, len(run.images), run.parameters.slots):
        part = run.images[first : first + run.parameters.slots]
        which = f" {first // run.parameters.slots + 1} of {run.batches}" if run.batches > 1 else ""
        _one_batch(network, secret, server, part, stages, which, result)
    with stages.stage("the clear network, to compare") as progress:
        expected = network.clear_logits(run.images[: run.check], lambda share: progress("", share))
    return _print_report(result, stages, expected, run, len(server.keys.to_bytes()))


def _announce(network: nn.Network, run: Run) -> None:
    parameters, images = run.parameters, len(run.images)
    counts = network.counts()
    need, have = network.memory(parameters), parameters.free_memory
    terminal.say(repr(parameters))
    terminal.say(
        f"{images:,} images in {run.batches} batch(es) of up to {parameters.slots:,}: "
        "a ciphertext for each pixel, a slot for each image"
    )
    moduli = len(parameters.plain_moduli)
    each = f", for each of {moduli} plaintext moduli in turn" if moduli > 1 else ""
    terminal.say(
        f"network {network.name}: {counts.inputs:,} ciphertexts in, {counts.products:,} squares, {counts.constants:,} "
        f"ciphertext-constant products, {counts.relinearizations:,} relinearizations, {network.classes} ciphertexts "
        f"out{each}"
    )
    if network.name.startswith("hcnn5"):
        both = (nn.load("hcnn5").counts().constants, nn.load("hcnn5-paper").counts().constants)
        terminal.say(
            f"(--network dense: filters read all maps, {both[0]:,} products; --network paper: one map, {both[1]:,})"
        )
    terminal.say(f"memory: about {readable_bytes(need)}; {readable_bytes(have)} free")
    if need > have:
        raise hg.OutOfMemoryError(
            f"cannot classify: this needs about {readable_bytes(need)} of memory, you have {readable_bytes(have)}"
        )
    network.require_fit(parameters)


def rough_seconds(network: nn.Network, secret: hg.bfv.SecretKey, server: hg.Server) -> float:
    """Estimates the seconds of one evaluation from a few squares, relinearizations and constant products of one plaintext
    modulus.
    """
    items, rows, counts = 128, 64, network.counts()
    values = np.arange(items)[:, None]
    x = server.bind(secret.encrypt(values, pad=True, moduli=range(1)))
    squares = hg.square(x)
    weights = np.arange(rows * items).reshape(rows, items) % 127 - 63

    def seconds(work: Any) -> float:
        best = float("inf")
        for _ in range(2):  # the first call also prepares constants; the minimum leaves that time out
            start = time.perf_counter()
            work().wait()
            best = min(best, time.perf_counter() - start)
        return best

    each = (
        counts.products * seconds(lambda: hg.square(x)) / items
        + counts.relinearizations * seconds(lambda: hg.relinearize(squares)) / items
        + counts.constants * seconds(lambda: hg.matmul(weights, x)) / (rows * items)
    )
    return each * len(secret.parameters.plain_moduli)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _one_batch(
    network: nn.Network,
    secret: hg.bfv.SecretKey,
    server: hg.Server,
    images: npt.NDArray[np.uint8],
    stages: terminal.Stages,
    which: str,
    result: Result,
) -> None:
    start = dict(stages.times)
    moduli = len(secret.parameters.plain_moduli)
    values = np.ascontiguousarray(network.arrange(images))
    answers = []
    for modulus in range(moduli):  # one modulus at a time, to save memory
        with stages.stage("encrypt") as progress:
            plain_moduli = range(modulus, modulus + 1)
            encrypted = secret.encrypt(values, pad=True, moduli=plain_moduli, progress=lambda share: progress("", share))
            request = [server.bind(encrypted)]
            del encrypted
        result.sent += request[0].nbytes // 2  # the uniform half is sent as a seed
        if modulus + 1 == moduli:
            del values
        with stages.stage("classify") as progress:
            answers.append(network.evaluate(request.pop(), progress))
            answers[-1].wait()
    with stages.stage("decrypt"):
        answer = hg.shrink(hg.join_moduli(answers))
        result.logits.append(np.ascontiguousarray(secret.decrypt(answer).T))
    result.received += len(answer.to_bytes())
    result.noise = min(result.noise, secret.noise_budget(answer))
    spent = {name: stages.times[name] - start.get(name, 0.0) for name in ("encrypt", "classify", "decrypt")}
    each = ", ".join(f"{name} {terminal.seconds(value)}" for name, value in spent.items())
    terminal.say(f"batch{which}: {len(images):,} images: {each}")


def _print_report(result: Result, stages: terminal.Stages, expected: npt.NDArray[Any], run: Run, key_bytes: int) -> bool:
    logits = np.concatenate(result.logits)
    compared = logits[: len(expected)]
    equal = int((compared == expected).sum())
    right = int((logits.argmax(1) == run.labels).sum())
    rows = [(name, terminal.seconds(value)) for name, value in stages.times.items()]
    terminal.say()
    terminal.table("", ("stage", "time"), rows)
    sent, back = readable_bytes(result.sent), readable_bytes(result.received)
    terminal.say(f"to the server: keys {readable_bytes(key_bytes)}, requests {sent}; back: {back}")
    terminal.say(f"noise left in the answers, measured with the secret key: {result.noise:.0f} bits")
    terminal.say(f"peak memory of the process: {readable_bytes(peak_bytes())}")
    every = "every logit equal" if equal == expected.size else f"ONLY {equal:,} OF {expected.size:,} LOGITS EQUAL"
    some = "" if len(expected) == len(logits) else f", of the first {len(expected):,} images"
    terminal.say(f"{every} to the clear integer network's ({expected.size:,} compared{some})", "bold")
    of = f" on {run.data}" if run.data else ""
    count = len(run.labels)
    terminal.say(f"accuracy{of}: {right:,} of {count:,} right, {100 * right / count:.2f}%", "bold")
    return equal == expected.size
