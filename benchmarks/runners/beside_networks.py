"""Runs a network encrypted by Heliograph and by other libraries: times, and agreement with the network in the clear.

    python -m benchmarks.runners.beside_networks --orion PYTHON --concrete PYTHON --out benchmarks/results/mine-networks-beside.jsonl

The networks: a perceptron 64-32-10 of scikit-learn's digits, and examples/models/lenet5.onnx on MNIST (HELIOGRAPH_DATA). PYTHON is an
interpreter of an environment with the other library (benchmarks/peers). A peer that fails or exceeds --limit gets a row with the error.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common
from heliograph.ml.canonical import canonical
from heliograph.ml.graph import Graph, Node
from heliograph.ml.read.onnx import read_onnx

#: Options of Orion's program: levels for degree 31, and log2 of the ring degree.
ORION = {"digits": ["--levels", "9", "--log-n", "15"], "lenet5": ["--levels", "31", "--log-n", "16"]}


def digits() -> tuple[list[dict[str, Any]], dict[str, Any], Any, Any]:
    """Returns the layers and weights of a perceptron, training samples and test samples."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    x, y = load_digits(return_X_y=True)
    x = x / 16
    fitted = MLPClassifier((32,), tol=0.01, learning_rate_init=0.01, random_state=0).fit(x[:1400], y[:1400])
    arrays = {f"w{2 * i}": np.ascontiguousarray(w.T) for i, w in enumerate(fitted.coefs_)}
    arrays |= {f"b{2 * i}": b for i, b in enumerate(fitted.intercepts_)}
    return [{"kind": "dense"}, {"kind": "relu"}, {"kind": "dense"}], arrays, x[:1000], x[1400:1700]


def lenet5() -> tuple[list[dict[str, Any]], dict[str, Any], Any, Any]:
    """Returns the layers and weights of LeNet-5, training samples and test samples."""
    from benchmarks.runners.models import CASES, samples

    layers: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    raw = read_onnx(CASES["lenet5"].path)
    for node in raw.nodes:
        weights = [raw.constants[name] for name in node.inputs if name in raw.constants]
        kinds = {"Conv": "convolution", "Gemm": "dense", "Relu": "relu", "AveragePool": "pool", "Reshape": "flatten"}
        layer: dict[str, Any] = {"kind": kinds[node.operation]}
        if node.operation in ("Conv", "Gemm"):
            arrays[f"w{len(layers)}"], arrays[f"b{len(layers)}"] = weights
        if node.operation == "Conv":
            layer["pad"] = int(node.attributes["pads"][0])
        if node.operation == "AveragePool":
            layer["size"] = int(node.attributes["kernel"][0])
        layers.append(layer)
    return layers, arrays, samples(CASES["lenet5"], "train", 1000, 5)[0], samples(CASES["lenet5"], "test", 300, 6)[0]


def graph_of(layers: list[dict[str, Any]], arrays: dict[str, Any], name: str) -> Graph:
    """Returns the graph of the layers, for `hg.ml.compile`."""
    if name == "lenet5":
        from benchmarks.runners.models import CASES

        return canonical(read_onnx(CASES["lenet5"].path))
    nodes, shapes, value, size = [], {"x": (64,)}, "x", 64
    for i, layer in enumerate(layers):
        if layer["kind"] == "dense":
            size = len(arrays[f"w{i}"])
            nodes.append(Node("dense", (value,), f"v{i}", {"weight": arrays[f"w{i}"], "bias": arrays[f"b{i}"]}, f"dense{i}"))
        else:
            nodes.append(Node("activation", (value,), f"v{i}", {"function": "relu", "parameters": {}}, f"relu{i}"))
        value = f"v{i}"
        shapes[value] = (size,)
    return Graph(("x",), (value,), tuple(nodes), shapes)


def ours(graph: Graph, calibration: Any, test: Any, rows: int) -> dict[str, Any]:
    """Returns the times and agreements of Heliograph."""
    start = time.perf_counter()
    model = hg.ml.compile(graph, calibrate=calibration, accuracy=0.01)
    compiled = time.perf_counter()
    secret = hg.SecretKey.generate(model.parameters)
    keys = model.keys(secret)
    made = time.perf_counter()
    server = hg.Server(keys)
    model.circuit.prepare()
    clear = model.clear(test)
    seconds, processor, off, same = [], [], 0.0, 0
    for i in [0, *range(rows)]:
        request = server.bind(model.encrypt(secret, test[i]))
        begin, cpu = time.perf_counter(), time.process_time()
        answer = model(request)
        answer.wait()
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - cpu)
        values = model.decrypt(secret, answer, like=test[i])[0]
        off = max(off, float(np.abs(values - clear[i]).max()))
        same += int(values.argmax() == clear[i].argmax())
    simulated = model.simulate(test, beyond="nan")
    inside = np.isfinite(simulated).all(axis=1)
    return {
        "parameters": repr(model.parameters),
        "degrees": [one.degree for one in model.report.activations],
        "compile_seconds": compiled - start,
        "key_seconds": made - compiled,
        "key_bytes": int(keys.nbytes),
        "row_seconds": seconds[1:],
        "row_processor_seconds": processor[1:],
        "forecast_seconds": model.report.seconds,
        "largest_difference": off,
        "largest_value": float(np.abs(clear).max()),
        "equal_rows": same - 1,
        "rows": rows,
        "simulated_same_class": float((inside & (np.nan_to_num(simulated).argmax(1) == clear.argmax(1))).mean()),
    }


def peer(command: list[str], limit: float) -> dict[str, Any]:
    """Returns a peer's row, or its error."""
    try:
        done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no result within {limit:g} s"}
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if "it/s" not in line and "s/it" not in line]
        return {"error": f"exit {done.returncode}: {(lines or [''])[-1][:400]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def shown(row: dict[str, Any]) -> None:
    """Prints a row."""
    if "error" in row:
        print(f"{row['network']}, {row['who']}: {row['error']}", flush=True)
        return
    times = ", ".join(f"{one:.3g} s" for one in row["row_seconds"])
    print(f"{row['network']}, {row['who']}: {times}; same class {row['equal_rows']} of {row['rows']}", flush=True)


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(
        __doc__,
        only="",
        orion=("", "Python interpreter with Orion"),
        concrete=("", "Python interpreter with Concrete-ML"),
        rows=(3, "encrypted samples"),
        limit=(900.0, "seconds of a peer"),
    ).parse_args()
    table = common.Rows(given.out, shown, kind="networks beside")
    table.machine |= common.engine()
    for name, make in {"digits": digits, "lenet5": lenet5}.items():
        if given.only and not name.startswith(tuple(given.only.split(","))):
            continue
        layers, arrays, calibration, test = make()
        table.add(
            {"network": name, "who": "Heliograph", **ours(graph_of(layers, arrays, name), calibration, test, given.rows)}
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.npz"
            np.savez(path, layers=json.dumps(layers), calibration=calibration, test=test[: given.rows], **arrays)
            peers = common.ROOT / "benchmarks" / "peers"
            if given.orion:
                command = [given.orion, str(peers / "orion.py"), str(path), *ORION[name]]
                table.add({"network": name, "who": "Orion", **peer(command, given.limit)})
            if given.concrete:
                command = [given.concrete, str(peers / "concrete_networks.py"), str(path)]
                table.add({"network": name, "who": "Concrete-ML", **peer(command, given.limit)})


if __name__ == "__main__":
    main()
