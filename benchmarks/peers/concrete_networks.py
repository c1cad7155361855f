"""Times Concrete-ML's encrypted networks. `benchmarks.runners.beside_networks --concrete PYTHON` starts this program.

    PYTHON benchmarks/peers/concrete_networks.py network.npz

PYTHON is an interpreter of an environment with `pip install concrete-ml==1.9.0`. The file has the layers, weights, calibration samples and
test samples of a network. The program prints one JSON object: seconds to compile, to make keys, and of each sample. It counts the samples
whose encrypted class equals the class of the network in the clear.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np


def built(layers: list[dict[str, Any]], arrays: Any) -> Any:
    """Returns the network as a module of PyTorch."""
    import torch
    from torch import nn

    made: list[Any] = []
    for i, layer in enumerate(layers):
        kind = layer["kind"]
        if kind == "dense":
            outputs, inputs = arrays[f"w{i}"].shape
            made.append(nn.Linear(inputs, outputs))
        elif kind == "convolution":
            outputs, inputs, size, _ = arrays[f"w{i}"].shape
            made.append(nn.Conv2d(inputs, outputs, size, padding=layer["pad"]))
        else:
            made.append({"pool": lambda: nn.AvgPool2d(2), "flatten": nn.Flatten, "relu": nn.ReLU}[kind]())
        if kind in ("dense", "convolution"):
            made[-1].weight.data = torch.tensor(arrays[f"w{i}"], dtype=torch.float32)
            made[-1].bias.data = torch.tensor(arrays[f"b{i}"], dtype=torch.float32)
    return nn.Sequential(*made).eval()


def measured(path: str, bits: int, rounded: int, rows: int) -> dict[str, Any]:
    """Returns the times of compilation, keys and each sample."""
    import torch
    from concrete.ml.torch.compile import compile_torch_model

    arrays = np.load(path)
    network = built(json.loads(str(arrays["layers"])), arrays)
    test = arrays["test"][:rows].astype(np.float32)
    with torch.no_grad():
        clear = network(torch.tensor(test)).numpy().argmax(axis=1)
    start = time.perf_counter()
    calibration = torch.tensor(arrays["calibration"][:100], dtype=torch.float32)
    model = compile_torch_model(network, calibration, n_bits=bits, rounding_threshold_bits=rounded, p_error=0.01)
    compiled = time.perf_counter()
    model.fhe_circuit.keygen()
    keys = time.perf_counter()
    seconds, equal = [], 0
    for i in range(len(test)):
        begin = time.perf_counter()
        found = model.forward(test[i : i + 1], fhe="execute")
        seconds.append(time.perf_counter() - begin)
        equal += int(found.argmax() == clear[i])
    simulated = model.forward(arrays["test"].astype(np.float32), fhe="disable").argmax(axis=1)
    with torch.no_grad():
        exact = network(torch.tensor(arrays["test"], dtype=torch.float32)).numpy().argmax(axis=1)
    return {
        "peer": "concrete-ml",
        "versions": {name: version(name) for name in ("concrete-ml", "concrete-python", "torch", "numpy")},
        "bits": bits,
        "rounding_bits": rounded,
        "p_error": 0.01,
        "compile_seconds": compiled - start,
        "key_seconds": keys - compiled,
        "row_seconds": seconds,
        "equal_rows": equal,
        "rows": len(seconds),
        "quantized_same_class": float((simulated == exact).mean()),
    }


def main() -> None:
    """Prints the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="file that the runner writes")
    parser.add_argument("--bits", type=int, default=6, help="bits of quantized values")
    parser.add_argument("--rounding", type=int, default=6, help="bits of table look-ups")
    parser.add_argument("--rows", type=int, default=1)
    given = parser.parse_args()
    json.dump(measured(given.network, given.bits, given.rounding, given.rows), sys.stdout)
    print()


if __name__ == "__main__":
    main()
