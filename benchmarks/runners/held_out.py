"""Compiles random networks that no test has, and runs them encrypted beside the simulation.

    python -m benchmarks.runners.held_out --seeds 3000:3050 --out benchmarks/results/mine-held-out.jsonl

benchmarks/held_graphs.py makes the network of each seed. Each one runs in a process of its own: `hg.ml.compile` with --accuracy on
normal samples, the loss on --images new samples by simulation, and --encrypted samples with the chosen set. The seconds of a call are
processor time over threads, the least of some calls, so that other load disturbs them least. The seconds are forecast by the profile of
the package, and by one that is measured before the first network on the same machine under the same load. With onnxruntime the reader
is compared with it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.held_graphs import random_network
from benchmarks.runners import common
from heliograph.ml import interpreter
from heliograph.ml.canonical import canonical
from heliograph.ml.networks import NetworkModel
from heliograph.ml.networks.forecast import seconds_of
from heliograph.ml.networks.simulation import Simulator
from heliograph.ml.profile import Profile, measure
from heliograph.ml.read.onnx import read_onnx

_CALIBRATION = 1000  # samples
_CALLS, _LONGEST = 7, 6.0  # timed calls, and seconds after which no further call starts
_LARGEST = 9 << 30  # predicted bytes beyond which a network is not run encrypted
#: Difference of an encrypted output from the polynomials', relative to the largest output, that counts as noise.
NOISE = 2.0**-12


def samples(shape: tuple[int, ...], count: int, seed: int) -> Any:
    """Returns normal samples [count, ...]."""
    return np.random.default_rng((seed, 7)).normal(size=(count, *shape)).astype(np.float32)


def reader_difference(path: Path, x: Any) -> float | None:
    """Returns the largest difference of the canonical graph from onnxruntime, relative to 1; None without onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        return None
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = np.stack([np.asarray(session.run(None, {"x": one[None]})[0]).reshape(-1) for one in x]).astype(np.float64)
    graph = canonical(read_onnx(path))
    found = np.asarray(interpreter.run(graph, x)[graph.outputs[0]], np.float64).reshape(wanted.shape)
    return float((np.abs(found - wanted) / np.maximum(1, np.abs(wanted))).max())


def lost(model: NetworkModel, clear: Any, made: Any) -> float:
    """Returns the loss of simulated values, by the measure that the compilation limits. NaN: beyond an interval."""
    inside = np.isfinite(made).all(axis=1)
    kind = model.output.kind
    if kind == "values":
        some, exact = made[inside], clear[inside]
        return float(np.sqrt(np.mean((some - exact) ** 2)) / max(clear.std(), 1e-30)) if len(some) else math.inf
    if kind == "labels":
        return float((((made > 0.5) != (clear > 0.5)).any(axis=1) | ~inside).mean())
    return float((np.where(inside, np.nan_to_num(made).argmax(axis=1), -1) != clear.argmax(axis=1)).mean())


def simulated(model: NetworkModel, x: Any) -> dict[str, Any]:
    """Returns the loss on new samples, and the samples beyond an interval."""
    start = time.perf_counter()
    clear, made = model.clear(x), model.simulate(x, beyond="nan")
    return {
        "images": len(x),
        "new_loss": lost(model, clear, made),
        "beyond": int((~np.isfinite(made).all(axis=1)).sum()),
        "beyond_input": int((np.abs(x.reshape(len(x), -1)).max(axis=1) > model._unit).sum()),
        "simulation_seconds": time.perf_counter() - start,
    }


def used() -> float:
    """Returns the processor seconds of the process, divided by its threads."""
    found = re.search(r"(\d+) threads?", hg.devices()[0])
    return time.process_time() / (int(found[1]) if found else 1)


def encrypted(model: NetworkModel, x: Any) -> dict[str, Any]:
    """Returns times, bytes and differences of encrypted runs of some samples."""
    circuit = model.circuit
    x = x[np.isfinite(model.simulate(x, beyond="nan")).all(axis=1)]
    secret = hg.SecretKey.generate(model.parameters)
    server = hg.Server(model.keys(secret))
    circuit.prepare()
    polynomial, _ = Simulator(circuit.network, circuit.polynomials).outputs(x)
    exact = polynomial.reshape(len(x), -1)
    seconds: list[float] = []
    clock: list[float] = []
    off = 0.0
    begun = time.perf_counter()
    for i in range(len(x)):
        request = server.bind(model.encrypt(secret, x[i]))
        while True:
            start, processor = time.perf_counter(), used()
            answer = model(request)
            answer.wait()
            clock.append(time.perf_counter() - start)
            seconds.append(used() - processor)
            if (
                len(seconds) >= _CALLS
                or time.perf_counter() - begun > _LONGEST
                or (i == 0 and len(seconds) > 2 and len(x) > 1)
            ):
                break
        off = max(off, float(np.abs(model.decrypt(secret, answer, like=x[i])[0] - exact[i]).max()))
    return {
        "encrypted": len(x),
        "difference": off / circuit.units.output,
        "seconds": min(seconds[1:] or seconds),
        "first_seconds": seconds[0],
        "clock_seconds": min(clock[1:] or clock),
        "calls": len(seconds),
        "key_bytes": int(server.keys.nbytes),
        "matrix_bytes": int(sum(one.bytes for one in circuit._encoded.values())),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def seconds_here(model: NetworkModel, profile: str) -> float | None:
    """Returns the seconds by a profile's file; None without one, or without its rates for bootstraps."""
    if not profile:
        return None
    try:
        return seconds_of(model.circuit, Profile.load(profile))
    except hg.ParameterError:
        return None


def measured_profile(path: Path) -> None:
    """Writes a profile of the device in use, without bootstraps, in processor time."""
    measure("here", bootstrap=None, batches=(1,), processor_time=True).save(path)


def compiled(path: Path, seed: int, given: Any) -> dict[str, Any]:
    """Returns the row of one network: compiled and run, or refused."""
    shape = tuple(read_onnx(path).shapes["x"][1:])
    row: dict[str, Any] = {"input": list(shape), "reader_difference": reader_difference(path, samples(shape, 8, seed + 1))}
    start, processor = time.perf_counter(), time.process_time()
    try:
        model = hg.ml.compile(path, calibrate=samples(shape, _CALIBRATION, seed), accuracy=given.accuracy)
    except hg.HeliographError as error:
        return row | {"result": "refused", "error": type(error).__name__, "message": str(error)[:400]}
    report = model.report
    here = seconds_here(model, given.profile)
    row |= {
        "result": "compiled",
        "compile_seconds": time.perf_counter() - start,
        "compile_processor_seconds": time.process_time() - processor,
        "kind": model.output.kind,
        "parameters": model.parameters.name or repr(model.parameters).strip("<>"),
        "levels": report.levels,
        "bootstraps": report.bootstraps,
        "diagonals": report.diagonals,
        "degrees": [one.degree for one in report.activations],
        "loss": report.loss.lost,
        "target": report.target,
        "predicted_seconds": report.seconds,
        "predicted_seconds_here": here,
        "predicted_key_bytes": report.key_bytes,
        "predicted_matrix_bytes": report.matrix_bytes,
    }
    row |= simulated(model, samples(shape, given.images, seed + 2))
    if given.encrypted and report.memory_bytes <= _LARGEST:
        row |= encrypted(model, samples(shape, given.encrypted, seed + 3))
    return row


def child(seed: int, given: Any) -> None:
    """Prints the row of a seed as JSON."""
    network = random_network(seed)
    row: dict[str, Any] = {"seed": seed, "operators": sorted({node.op_type for node in network.graph.node})}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"seed{seed}.onnx"
        path.write_bytes(network.SerializeToString())
        try:
            row |= compiled(path, seed, given)
        except Exception as error:  # each exception that is no refusal is a fault to record
            row |= {"result": "fault", "error": type(error).__name__, "message": str(error)[:400]}
            traceback.print_exc()
    print(json.dumps(row))


def measured(seed: int, given: Any) -> dict[str, Any]:
    """Runs one seed in a separate process and returns its row."""
    command = [*common.module("runners.held_out"), "--child", str(seed), "--accuracy", str(given.accuracy)]
    command += ["--images", str(given.images), "--encrypted", str(given.encrypted), "--profile", given.profile]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, timeout=given.limit, check=False)
    except subprocess.TimeoutExpired:
        return {"seed": seed, "result": "fault", "error": "timeout", "message": f"no result within {given.limit} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.splitlines() or [""])[-1]
        return {"seed": seed, "result": "fault", "error": f"exit {done.returncode}", "message": last[:400]}
    if done.stderr:
        print(done.stderr, file=sys.stderr)
    row: dict[str, Any] = json.loads(lines[-1])
    return row | {"whole_seconds": time.perf_counter() - start, "load": common.load()}


def shown(row: dict[str, Any]) -> None:
    """Prints a row."""
    words = f"{row['seed']}: {row['result']}"
    if row["result"] == "compiled":
        words += f", {row['parameters']}, degrees {row['degrees']}, loss {row['loss']:.4f}, new {row['new_loss']:.4f}"
        if row["beyond"]:
            words += f" ({row['beyond']} beyond)"
    else:
        words += f", {row['error']}: {row['message']}"
    if "seconds" in row:
        words += (
            f", {row['seconds'] * 1e3:.1f} ms (forecast x{row['predicted_seconds'] / row['seconds']:.2f}, here "
            f"x{(row['predicted_seconds_here'] or 0) / row['seconds']:.2f}), difference "
            f"2^{math.log2(max(row['difference'], 1e-12)):.1f}, keys x{row['predicted_key_bytes'] / row['key_bytes']:.3f}, matrices "
            f"x{row['predicted_matrix_bytes'] / max(1, row['matrix_bytes']):.3f}"
        )
    print(words, flush=True)


def main() -> None:
    """Measures, prints and writes."""
    parser = common.parser(
        __doc__,
        seeds=("3000:3050", "first seed and the one after the last"),
        accuracy=(0.01, "largest loss"),
        images=(500, "new samples that are simulated"),
        encrypted=(2, "encrypted samples"),
        limit=(600.0, "seconds of one network"),
    )
    parser.add_argument("--profile", default="", help="profile of this machine; by default it is measured")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        child(given.child, given)
        return
    first, last = (int(text) for text in given.seeds.split(":"))
    rows = common.Rows(given.out, shown, kind="held out", accuracy=given.accuracy, noise=NOISE)
    rows.machine |= common.engine()
    with tempfile.TemporaryDirectory() as folder:
        if not given.profile:
            given.profile = str(Path(folder) / "here.json")
            measured_profile(Path(given.profile))
        for seed in range(first, last):
            rows.add(measured(seed, given))


if __name__ == "__main__":
    main()
