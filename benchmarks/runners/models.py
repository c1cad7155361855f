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

import gzip
import io
import itertools
import os
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common
from heliograph.ml.canonical import canonical
from heliograph.ml.networks import NetworkModel, compile_graph
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
    "lenet5": Case(MODELS / "lenet5.onnx", "mnist", 0.005),
    "resnet20": Case(MODELS / "resnet20.onnx", "cifar10", 0.01, 1.3, *NORMAL),
    "resnet20-square": Case(MODELS / "resnet20-square.onnx", "cifar10", 0.01, 1.3, *NORMAL),
    "resnet18": Case(TRAINED / "resnet18.onnx", "cifar10", 0.01, 1.3, *NORMAL, 2),
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


def encrypted(model: NetworkModel, x: Any, clear: Any, count: int, calls: int) -> dict[str, Any]:
    """Returns times, memory and differences of encrypted runs on the least certain images and on random ones."""
    margins = np.diff(np.sort(clear, axis=1)[:, -2:], axis=1)[:, 0]
    chosen = [*np.argsort(margins)[:count], *np.random.default_rng(1).permutation(len(x))[:count]]
    secret = hg.SecretKey.generate(model.parameters)
    start = time.perf_counter()
    server = hg.Server(model.keys(secret))
    keyed = time.perf_counter()
    model.circuit.prepare()
    encoded = time.perf_counter()
    seconds, processor, off, same, logits = [], [], [], [], []
    for number, i in enumerate(chosen[:1] * calls + chosen):
        request = server.bind(model.encrypt(secret, x[i]))
        begin, used = time.perf_counter(), time.process_time()
        answer = model(request)
        answer.wait()
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
        if number >= calls:
            values = model.decrypt(secret, answer, like=x[i])[0]
            off.append(float(np.abs(values - model.simulate(x[i])[0]).max()))
            same.append(bool(values.argmax() == clear[i].argmax()))
            logits.append([round(float(v), 4) for v in values])
    return {
        "seconds": statistics.median(seconds[1:] or seconds),
        "processor_seconds": statistics.median(processor[1:] or processor),
        "first_seconds": seconds[0],
        "calls": len(seconds),
        "key_seconds": keyed - start,
        "encode_seconds": encoded - keyed,
        "key_bytes": int(server.keys.nbytes),
        "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "encrypted_images": len(same),
        "largest_difference_from_simulation": max(off, default=None),
        "largest_value": float(np.abs(clear).max()),
        "encrypted_same_class": sum(same),
        "logits": logits,
    }


def measure(name: str, case: Case, given: Any) -> dict[str, Any]:
    """Returns the row of a network."""
    x, labels = samples(case, "train", given.calibration, 5)
    start, used = time.perf_counter(), time.process_time()
    graph = canonical(read_onnx(case.path))
    compact = True if given.compact else False if given.whole else None
    options = {"batch": given.batch, "margin": case.margin, "compact": compact}
    model = compile_graph(graph, x if case.random else (x, labels), accuracy=case.accuracy, **options)
    row: dict[str, Any] = {
        "model": f"{name}-random" if case.random else name,
        "compile_seconds": time.perf_counter() - start,
        "compile_processor_seconds": time.process_time() - used,
        "parameters": model.parameters.name or repr(model.parameters),
        "batch": given.batch,
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
        "compile_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(model.report, flush=True)
    test, right = samples(case, "test", given.images, 6)
    agreement, clear = simulated(model, test, right)
    row |= agreement
    if given.encrypted:
        row |= encrypted(model, test, clear, given.encrypted, given.calls)
        row["compact"] = bool(model.circuit.compact)
    return row


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
        batch=(1, "images of a request"),
        compact=(False, "matrices of a tenth of the memory"),
        whole=(False, "matrices that are not compact, even if they take more than half of the memory"),
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
            rows.append(row := measure(name, case, given))
            print({key: value for key, value in row.items() if key != "logits"}, flush=True)
            machine = common.machine() | common.engine()
            results.save(given.out, common.report(rows, machine, kind="models", load=[load, common.load()]))


if __name__ == "__main__":
    main()
