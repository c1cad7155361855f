"""Measures compiled neural networks: agreement with the clear network by simulation, and encrypted runs beside the simulation.

    HELIOGRAPH_DATA=/path python -m benchmarks.runners.models --out benchmarks/results/mine-models.jsonl

HELIOGRAPH_DATA has MNIST in `mnist` and CIFAR-10 as JPEG streams in `cifar10` (examples/train_lenet.py, train_resnet.py). The networks
are those of examples/models, and ResNet-18 of HELIOGRAPH_DATA/models/resnet18.onnx, which examples/train_resnet.py writes. With
--random a ResNet-18 of random weights replaces a missing file: its times and memory are of interest, and not its accuracy. --model adds
another ONNX file of CIFAR-10, whose inputs have --mean and --deviation. Each network is compiled on training images with their classes.
Then --images test images are simulated. Encrypted runs take the test images of the smallest margin between the best two classes, and as
many random ones.
"""

from __future__ import annotations

import gc
import gzip
import io
import itertools
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common
from heliograph.ml.canonical import canonical
from heliograph.ml.graph import Graph
from heliograph.ml.networks import NetworkModel, compile_graph
from heliograph.ml.networks.compiling import key_bytes
from heliograph.ml.networks.cuts import network_of
from heliograph.ml.networks.program import Circuit, matrices, matrix_bytes
from heliograph.ml.networks.sets import Chooser
from heliograph.ml.profile import profile_of
from heliograph.ml.read.onnx import read_onnx

MODELS = common.ROOT / "examples" / "models"
TRAINED = Path(os.environ.get("HELIOGRAPH_DATA", ".")) / "models"  # files that are too large for the repository
_RANDOM_ACCURACY = 0.1  # share of classes that a network of random weights may change


@dataclass(frozen=True)
class Case:
    """A network, its data, and the loss of right classes that its compilation allows."""

    path: Path
    data: str
    accuracy: float
    margin: float = 1.5
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    deviation: tuple[float, ...] = (1.0, 1.0, 1.0)
    repeats: int = 1  #: copies of each pixel in a row and in a column
    random: bool = False  #: whether the weights are random; then the loss is the share of changed classes


#: Means and deviations of the channels in examples/train_resnet.py.
NORMAL = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CASES = {
    "lenet5": Case(MODELS / "lenet5.onnx", "mnist", 0.003),
    "resnet20": Case(MODELS / "resnet20.onnx", "cifar10", 0.003, 1.3, *NORMAL),
    "resnet20-square": Case(MODELS / "resnet20-square.onnx", "cifar10", 0.003, 1.3, *NORMAL),
    "resnet18": Case(TRAINED / "resnet18.onnx", "cifar10", 0.003, 1.3, *NORMAL, 2),
}


def mnist(folder: Path, part: str) -> tuple[Any, Any]:
    """Returns images [count, 1, 28, 28] of 0 to 1, and labels."""
    name = {"train": "train", "test": "t10k"}[part]
    pixels = np.frombuffer(gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((folder / f"{name}-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    return pixels.reshape(-1, 1, 28, 28), labels


def cifar10(folder: Path, part: str) -> tuple[Any, Any]:
    """Returns JPEG streams and labels."""
    with np.load(folder / f"{part}_jpeg.npz") as file:
        stream, offsets, labels = file["jpeg"].tobytes(), file["offsets"].tolist(), file["labels"]
    return [stream[a:b] for a, b in itertools.pairwise(offsets)], labels


def samples(case: Case, part: str, count: int, seed: int) -> tuple[Any, Any]:
    """Returns some images as the network takes them, and their labels."""
    folder = Path(os.environ["HELIOGRAPH_DATA"]) / case.data
    images, labels = (mnist if case.data == "mnist" else cifar10)(folder, part)
    some = np.random.default_rng(seed).permutation(len(labels))[:count]
    if case.data == "mnist":
        return images[some].astype(np.float32) / 255, labels[some].astype(np.int64)
    from PIL import Image

    pixels = np.stack([np.asarray(Image.open(io.BytesIO(images[i])).convert("RGB")) for i in some])
    pixels = pixels.repeat(case.repeats, axis=1).repeat(case.repeats, axis=2)
    mean, deviation = np.array(case.mean, np.float32), np.array(case.deviation, np.float32)
    return ((pixels.astype(np.float32) / 255 - mean) / deviation).transpose(0, 3, 1, 2), labels[some].astype(np.int64)


def simulated(model: NetworkModel, x: Any, labels: Any) -> tuple[dict[str, Any], Any]:
    """Returns accuracies and agreement over samples, and the clear values."""
    start = time.perf_counter()
    clear, values = model.clear(x), model.simulate(x, beyond="nan")
    inside = np.isfinite(values).all(axis=1)
    right, found = clear.argmax(axis=1), np.where(inside, np.nan_to_num(values).argmax(axis=1), -1)
    return {
        "images": len(x),
        "clear_accuracy": float((right == labels).mean()),
        "simulated_accuracy": float((found == labels).mean()),
        "same_class": float((right == found).mean()),
        "only_clear_right": int(((right == labels) & (found != labels)).sum()),
        "only_simulated_right": int(((right != labels) & (found == labels)).sum()),
        "outside_intervals": int((~inside).sum()),
        "simulation_seconds": time.perf_counter() - start,
    }, clear


class DeviceMemory:
    """Context manager: watches the free memory of the device, in which the process is alone. `peak` has the most used bytes."""

    def __init__(self, parameters: Any) -> None:
        self._parameters, self._ended = parameters, threading.Event()
        self._least = int(parameters.free_memory)
        self._start = self._least

    @property
    def peak(self) -> int:
        """Returns the most bytes that were in use, in addition to those at the start."""
        return self._start - self._least

    def __enter__(self) -> DeviceMemory:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self._least = min(self._least, int(self._parameters.free_memory))


def encrypted(model: NetworkModel, x: Any, clear: Any, count: int, calls: int, replay: bool) -> dict[str, Any]:
    """Returns times, memory and differences of encrypted requests: of the least certain images and of random ones.

    A request has `model.batch` images, the least certain ones first. At least `count` images of each kind are encrypted."""
    margins = np.diff(np.sort(clear, axis=1)[:, -2:], axis=1)[:, 0]
    kinds = (np.argsort(margins), np.random.default_rng(1).permutation(len(x)))
    if model.batch == 1:
        requests = [[i] for kind in kinds for i in kind[:count]]
    else:
        requests = [list(kind[: model.batch]) for kind in kinds]
    secret = hg.SecretKey.generate(model.parameters)
    with DeviceMemory(model.parameters) as memory:
        start = time.perf_counter()
        server = hg.Server(model.keys(secret))
        keyed = time.perf_counter()
        model.circuit.prepare()
        encoded = time.perf_counter()
        seconds, processor, off, same, logits = [], [], [], [], []
        for number, some in enumerate(requests[:1] * calls + requests):
            request = server.bind(model.encrypt(secret, x[some]))
            request.wait()
            begin, used = time.perf_counter(), time.process_time()
            answer = model(request)
            answer.wait()
            seconds.append(time.perf_counter() - begin)
            processor.append(time.process_time() - used)
            if number >= calls:
                values = model.decrypt(secret, answer, like=x[some])
                off.append(float(np.abs(values - model.simulate(x[some])).max()))
                same += [bool(one.argmax() == clear[i].argmax()) for one, i in zip(values, some, strict=True)]
                logits += [[round(float(v), 4) for v in one] for one in values[:4]]
        replayed = replay_seconds(hg.program(model), request) if replay else None
    return {
        "seconds": statistics.median(seconds[1:] or seconds),
        "seconds_of_image": statistics.median(seconds[1:] or seconds) / model.batch,
        "processor_seconds": statistics.median(processor[1:] or processor),
        "replay_seconds": replayed,
        "first_seconds": seconds[0],
        "calls": len(seconds),
        "key_seconds": keyed - start,
        "encode_seconds": encoded - keyed,
        "key_bytes": int(server.keys.nbytes),
        "peak_device_bytes": memory.peak,
        "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "encrypted_images": len(same),
        "largest_difference_from_simulation": max(off, default=None),
        "largest_value": float(np.abs(clear).max()),
        "encrypted_same_class": sum(same),
        "logits": logits,
    }


def replay_seconds(program: Any, request: Any, calls: int = 4) -> float:
    """Returns the median seconds of replays of a recorded call."""
    program(request).wait()
    seconds = []
    for _ in range(calls):
        begin = time.perf_counter()
        program(request).wait()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def of_batch(first: NetworkModel, graph: Graph, batch: int, share: int, compact: bool | None) -> NetworkModel:
    """Returns the network with the polynomials and the set of another model, for another number of samples of a request."""
    circuit, profile = first.circuit, profile_of(None)
    network = network_of(graph)
    largest = {"input": circuit.units.values[network.cuts[0].name], "output": circuit.units.output}
    choice = Chooser(network, largest, batch, first.parameters, profile, compact, share or None).choose(circuit.polynomials)
    if choice is None:
        raise SystemExit(f"{first.parameters!r} has no plan for {batch} samples, {share} of them in a ciphertext")
    made = Circuit(
        network.without_weights(),
        choice.design,
        choice.plan,
        circuit.polynomials,
        choice.units,
        choice.parameters,
        compact=compact,
    )
    every = [one for _, _, one in matrices(choice.design, choice.plan)]
    report = replace(
        first.report,
        levels=made.input_level,
        bootstraps=choice.plan.bootstraps,
        diagonals=sum(one.count for one in every),
        rotations=sum(one.turns for one in every),
        seconds=choice.plan.seconds,
        matrix_bytes=matrix_bytes(choice.parameters, choice.design, choice.plan),
        key_bytes=key_bytes(choice.parameters, made.needs),
        work_bytes=made.work_bytes,
    )
    return NetworkModel(made, report, first.output)


def measure(name: str, case: Case, given: Any) -> Iterator[dict[str, Any]]:
    """Yields the row of a network for each number of images of a request."""
    x, labels = samples(case, "train", given.calibration, 5)
    start, used = time.perf_counter(), time.process_time()
    graph = canonical(read_onnx(case.path))
    compact = True if given.compact == "yes" else False if given.compact == "no" else None
    batches = [int(text) for text in given.batch.split(",")]
    first = compile_graph(
        graph,
        x if case.random else (x, labels),
        accuracy=case.accuracy,
        batch=batches[0],
        margin=case.margin,
        compact=compact,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    compiled = time.perf_counter() - start, time.process_time() - used
    test, right = samples(case, "test", given.images, 6)
    for batch in batches:
        again = batch != batches[0] or given.share
        model = of_batch(first, graph, batch, given.share, compact) if again else first
        design = model.circuit.design
        row: dict[str, Any] = {
            "model": f"{name}-random" if case.random else name,
            "compile_seconds": compiled[0],
            "compile_processor_seconds": compiled[1],
            "parameters": model.parameters.name or repr(model.parameters),
            "batch": batch,
            "share": design.share,
            "groups": design.groups,
            "levels": model.report.levels,
            "bootstraps": model.report.bootstraps,
            "diagonals": model.report.diagonals,
            "rotations": model.report.rotations,
            "rotation_keys": sum(len(steps) for steps in model.needs["level_rotations"].values()),
            "degrees": [one.degree for one in model.report.activations],
            "target": model.report.target,
            "predicted_seconds": model.report.seconds,
            "predicted_matrix_bytes": model.report.matrix_bytes,
            "predicted_key_bytes": model.report.key_bytes,
            "compact": compact,
            "compile_peak_bytes": peak,
        }
        print(model.report, flush=True)
        agreement, clear = simulated(model, test, right)
        row |= agreement
        if given.encrypted:
            row |= encrypted(model, test, clear, given.encrypted, given.calls, given.replay)
            row["compact"] = bool(model.circuit.compact)
            model.circuit.forget()
            gc.collect()
        yield row


def found(name: str, case: Case, random: bool, folder: Path) -> Case | None:
    """Returns a case whose file exists. A missing ResNet-18 gets random weights if `random`; else the case is left out."""
    if case.path.exists():
        return case
    if name != "resnet18" or not random:
        print(f"{name}: there is no file {case.path}; train it by examples/train_resnet.py, or pass --random", flush=True)
        return None
    from benchmarks.runners.resnets import write_resnet18

    write_resnet18(folder / "resnet18.onnx", samples(case, "train", 64, 7)[0])
    return replace(case, path=folder / "resnet18.onnx", accuracy=_RANDOM_ACCURACY, random=True)


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(
        __doc__,
        only="",
        model=(str, "another ONNX file of CIFAR-10"),
        accuracy=(0.01, "share of right classes that the other file may lose"),
        margin=(1.3, "margin of the other file's intervals"),
        mean=("0.4914,0.4822,0.4465", "means of the other file's channels"),
        deviation=("0.2023,0.1994,0.2010", "deviations of the other file's channels"),
        calibration=(2000, "training images of the calibration"),
        images=(10000, "simulated test images"),
        encrypted=(2, "encrypted images of each kind; 0 for none"),
        calls=(3, "timed calls of the first image"),
        replay=(False, "also the time of the replay of a recorded call"),
        batch=("1", "images of a request; several numbers, separated by commas, make several rows"),
        share=(0, "images that share ciphertexts, a power of two; 0 for the forecast's choice"),
        compact=("auto", "matrices of a tenth of the memory: yes, no, or auto by the free memory"),
        random=(False, "random weights for a ResNet-18 whose file is missing"),
    ).parse_args()
    cases = dict(CASES)
    if given.model:
        mean, deviation = (tuple(float(v) for v in text.split(",")) for text in (given.mean, given.deviation))
        path = Path(given.model)
        cases[path.stem] = Case(path, "cifar10", given.accuracy, given.margin, mean, deviation)
    load, rows = common.load(), []
    with tempfile.TemporaryDirectory() as folder:
        for name, asked in cases.items():
            if given.only and not name.startswith(tuple(given.only.split(","))):
                continue
            case = found(name, asked, given.random, Path(folder))
            if case is None:
                continue
            for row in measure(name, case, given):
                rows.append(row)
                print({key: value for key, value in row.items() if key != "logits"}, flush=True)
                machine = common.machine() | common.engine()
                results.save(given.out, common.report(rows, machine, kind="models", load=[load, common.load()]))


if __name__ == "__main__":
    main()
