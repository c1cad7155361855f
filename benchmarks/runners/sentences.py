"""Measures sentence embeddings by compiled transformers: agreement with the clear model by simulation, and encrypted runs.

    python -m benchmarks.runners.sentences --model minilm.onnx --tokens tokens.npz --out benchmarks/results/mine-sentences.jsonl

`tokens.npz` has arrays input_ids and attention_mask [count, tokens]. `python examples/sentences/write_tokens.py` writes such a
file from a text. The first --calibration of them calibrate the model, the others are tested. With --write the compiled network is written to a file
and nothing is encrypted; --read takes such a file, so that another machine runs it. An output of a vector for each token is averaged over the
tokens that the mask keeps. Neighbours are the passages of largest cosine, among all tested ones.
"""

from __future__ import annotations

import json
import resource
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common
from benchmarks.runners.models import DeviceMemory, replay_seconds
from heliograph.ml.networks import NetworkModel
from heliograph.ml.networks.files import arrays_of, circuit_of
from heliograph.ml.outputs import Output

_BEST = 3  # nearest neighbours that are compared
_KEPT = 16  # samples that are written with a compiled network


def embeddings(values: Any, mask: Any, features: int) -> Any:
    """Returns vectors of length 1 [count, features] of outputs [count, values]. Outputs of a vector for each token are averaged
    over the tokens of `mask`."""
    y = np.asarray(values, np.float64).reshape(len(mask), -1, features)
    if y.shape[1] > 1:
        y = y * mask[:, :, None]
    y = y.sum(axis=1)
    return y / np.linalg.norm(y, axis=1, keepdims=True)


def agreement(clear: Any, made: Any) -> dict[str, Any]:
    """Returns the cosines of embeddings [count, features], and the shares of equal neighbours."""
    inside = np.isfinite(made).all(axis=1)
    cosines = (clear[inside] * made[inside]).sum(axis=1)

    def nearest(queries: Any) -> Any:
        scores = queries @ clear.T
        scores[np.arange(len(scores)), np.flatnonzero(inside)] = -np.inf
        return np.argsort(-scores, axis=1)[:, :_BEST]

    one, two = nearest(clear[inside]), nearest(made[inside])
    return {
        "sentences": len(clear),
        "outside_intervals": int((~inside).sum()),
        "mean_cosine": float(cosines.mean()),
        "least_cosine": float(cosines.min()),
        "same_nearest": float((one[:, 0] == two[:, 0]).mean()),
        "same_three": float((one == two).all(axis=1).mean()),
    }


def timed_cuts(model: Any, request: Any) -> list[dict[str, Any]]:
    """Returns the seconds of each cut of a call that waits after each of them."""
    rows: list[dict[str, Any]] = []
    last = time.perf_counter()

    def observer(name: str, value: Any) -> None:
        nonlocal last
        value.wait()
        now = time.perf_counter()
        place = model.circuit.plan.places[name]
        rows.append(
            {
                "cut": name,
                "milliseconds": round(1e3 * (now - last), 3),
                "ciphertexts": len(value),
                "levels": [place.form, place.argument, place.value],
                "bootstrapped": place.before + place.after,
            }
        )
        last = now

    model.circuit(request, observer)
    return rows


def encrypted(case: Case, count: int, calls: int, replay: bool) -> Iterator[dict[str, Any]]:
    """Yields rows of encrypted requests."""
    network = case.network
    secret = hg.SecretKey.generate(network.parameters)
    with DeviceMemory(network.parameters) as memory:
        start = time.perf_counter()
        server = hg.Server(network.keys(secret))
        keyed = time.perf_counter()
        network.circuit.prepare()
        encoded = time.perf_counter()
        print({"key_seconds": keyed - start, "encode_seconds": encoded - keyed}, flush=True)
        seconds, off, cosines = [], [], []
        for number in [0] * calls + list(range(count)):
            vector = case.vectors[number]
            request = server.bind(network.encrypt(secret, vector))
            request.wait()
            begin = time.perf_counter()
            answer = network(request)
            answer.wait()
            seconds.append(time.perf_counter() - begin)
            print({"call": seconds[-1]}, flush=True)
            if len(seconds) > calls:
                values = network.decrypt(secret, answer, like=vector)
                off.append(float(np.abs(values - network.simulate(vector[None])).max()))
                made = embeddings(values, case.mask[number : number + 1], case.clear.shape[1])[0]
                cosines.append(float(made @ case.clear[number]))
                yield {"sentence": number, "seconds": seconds[-1], "cosine": cosines[-1], "difference": off[-1]}
        replayed = replay_seconds(hg.program(network), request) if replay else None
    yield {
        "seconds": statistics.median(seconds[1:] or seconds),
        "first_seconds": seconds[0],
        "replay_seconds": replayed,
        "key_seconds": keyed - start,
        "encode_seconds": encoded - keyed,
        "key_bytes": int(server.keys.nbytes),
        "request_bytes": len(request.to_bytes()),
        "answer_bytes": len(answer.to_bytes()),
        "peak_device_bytes": memory.peak,
        "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "encrypted_sentences": len(cosines),
        "least_cosine": min(cosines, default=None),
        "largest_difference_from_simulation": max(off, default=None),
    }
    yield {"cuts": timed_cuts(network, request)}


def rotated_products(level: int, count: int = 63, calls: int = 5) -> dict[str, Any]:
    """Returns the microseconds of a term of attention, and of a product and a rotation apart, each of 2 x `count`."""
    parameters = hg.ckks.parameters("n16-b13")
    secret = hg.SecretKey.generate(parameters)
    steps = list(range(1, count + 1))
    server = hg.Server(secret.evaluation_keys(relinearize=True, level_rotations={level: steps}))
    values = np.random.default_rng(1).uniform(-0.5, 0.5, (2, parameters.slots))
    x = hg.ckks.lower(server.bind(secret.encrypt(values)), level)
    many = x.rotate(steps)

    def microseconds(call: Any) -> float:
        call().wait()
        seconds = []
        for _ in range(calls):
            begin = time.perf_counter()
            call().wait()
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds) * 1e6 / (2 * count)

    row = {
        "level": level,
        "batch": 2 * count,
        "hoisted_rotation_us": microseconds(lambda: x.rotate(steps)),
        "term_of_a_sum_us": microseconds(lambda: hg.ckks.inner_product(many, many)),
        "product_us": microseconds(lambda: many * many),
        "rotation_us": microseconds(lambda: many.rotate(1)),
    }
    ours = row["hoisted_rotation_us"] + row["term_of_a_sum_us"]
    return row | {"ratio": ours / (row["product_us"] + row["rotation_us"])}


@dataclass(frozen=True)
class Case:
    """A compiled network, prepared samples, their masks, and the clear embeddings."""

    network: NetworkModel
    vectors: Any  #: [count, values]
    mask: Any  #: [count, tokens]
    clear: Any  #: [count, features]
    compiled: dict[str, Any]  #: the row of the compilation

    def write(self, path: Path) -> None:
        """Writes the case as an archive of arrays."""
        circuit = self.network.circuit
        about = {**self.compiled, "batch": circuit.design.batch, "share": circuit.design.share}
        arrays = {f"network/{name}": array for name, array in arrays_of(circuit).items()}
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        kept = {"vectors": self.vectors.astype(np.float32), "mask": self.mask, "clear": self.clear, "about": text}
        np.savez_compressed(path, **arrays, **kept)

    @staticmethod
    def read(path: Path) -> Case:
        """Reads a file of `write`."""
        every = dict(np.load(path))
        about = json.loads(every["about"].tobytes())
        arrays = {name.removeprefix("network/"): a for name, a in every.items() if name.startswith("network/")}
        parameters = hg.ckks.parameters(about["parameters"])
        circuit = circuit_of(arrays, parameters, about.pop("batch"), about.pop("share"))
        network = NetworkModel(circuit, cast(Any, None), Output("values"))
        return Case(network, every["vectors"].astype(np.float64), every["mask"], every["clear"], about)


def compiled(given: Any) -> Iterator[Any]:
    """Yields the rows of a compilation and of the simulation, then the case."""
    arrays = dict(np.load(given.tokens))
    ids, mask = arrays["input_ids"].astype(np.int64), arrays["attention_mask"].astype(np.int64)
    every = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    every = {one.name: every[one.name] for one in onnx.load(given.model).graph.input}

    def some(start: int, count: int) -> Any:
        return {name: values[start : start + count] for name, values in every.items()}

    start, used = time.perf_counter(), time.process_time()
    model = hg.ml.compile(
        given.model,
        calibrate=some(0, given.calibration),
        accuracy=given.accuracy,
        margin=given.margin,
        classifies=False,
        **({"outputs": given.output} if given.output else {}),
        **({"target": given.target} if given.target else {}),
    )
    report = model.report
    row = {
        "model": Path(given.model).stem,
        "tokens": int(ids.shape[1]),
        "calibration": given.calibration,
        "compile_seconds": time.perf_counter() - start,
        "compile_processor_seconds": time.process_time() - used,
        "compile_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "parameters": model.parameters.name,
        "bootstraps": report.bootstraps,
        "diagonals": report.diagonals,
        "forecast_seconds": report.seconds,
        "forecast_matrix_bytes": report.matrix_bytes,
        "forecast_key_bytes": report.key_bytes,
        "forecast_work_bytes": report.work_bytes,
        "loss": report.loss.lost,
    }
    yield row
    count = min(given.simulated, len(ids) - given.calibration)
    tested = some(given.calibration, count)
    kept = mask[given.calibration : given.calibration + count]
    features = model.network.output_shape[-1]
    clear = embeddings(model.clear(tested), kept, features)
    yield {"simulated": agreement(clear, embeddings(model.simulate(tested, beyond="nan"), kept, features))}
    few = {name: values[:_KEPT] for name, values in tested.items()}
    yield Case(model.network, model.prepare(few), kept[:_KEPT], clear[:_KEPT], row)


def main() -> None:
    """Runs the program."""
    made = common.parser(
        __doc__,
        model="",
        tokens="",
        output="",
        calibration=32,
        simulated=64,
        encrypted=3,
        calls=2,
        accuracy=0.05,
        margin=1.3,
        target="",
        replay=False,
        products=(False, "also the times of products with rotations"),
        write=("", "file to write the compiled network to"),
        read=("", "file of a compiled network"),
    )
    given = made.parse_args()
    load, rows = common.load(), []

    def every() -> Iterator[dict[str, Any]]:
        if given.products:
            yield from ({"products": rotated_products(level)} for level in (5, 8))
        case = Case.read(Path(given.read)) if given.read else None
        if case is not None:
            yield case.compiled | {"compiled_elsewhere": True}
        for row in compiled(given) if case is None else ():
            if isinstance(row, Case):
                case = row
            else:
                yield row
        if given.write and case is not None:
            case.write(Path(given.write))
        elif case is not None and given.encrypted:
            yield from encrypted(case, given.encrypted, given.calls, given.replay)

    for row in every():
        rows.append(row)
        print({key: value for key, value in row.items() if key != "cuts"}, flush=True)
        machine = common.machine() | common.engine()
        results.save(given.out, common.report(rows, machine, kind="sentences", load=[load, common.load()]))


if __name__ == "__main__":
    main()
