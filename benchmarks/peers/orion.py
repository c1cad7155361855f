"""Times Orion's encrypted networks. `benchmarks.runners.beside_networks --orion PYTHON` starts this program.

    PYTHON benchmarks/peers/orion.py network.npz

PYTHON is an interpreter of an environment with `pip install orion-v2-compiler==2.1.8 orion-v2-evaluator==2.1.8`. The file has the layers,
weights, calibration samples and test samples of a network. The program prints one JSON object: seconds to compile and to make keys, seconds
of each sample, and the largest difference from the network in the clear. Activations are polynomials of one degree, as Orion fits them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np


def built(layers: list[dict[str, Any]], arrays: Any, degree: int) -> Any:
    """Returns the network as a module of Orion."""
    import orion_compiler.nn as on
    import torch

    made: list[Any] = []
    for i, layer in enumerate(layers):
        kind = layer["kind"]
        if kind == "dense":
            outputs, inputs = arrays[f"w{i}"].shape
            made.append(on.Linear(inputs, outputs))
        elif kind == "convolution":
            outputs, inputs, size, _ = arrays[f"w{i}"].shape
            made.append(on.Conv2d(inputs, outputs, size, padding=layer["pad"]))
        elif kind == "pool":
            made.append(on.AvgPool2d(layer["size"]))
        elif kind == "flatten":
            made.append(on.Flatten())
        else:
            made.append(on.Chebyshev(degree, torch.relu))
        if kind in ("dense", "convolution"):
            made[-1].weight.data = torch.tensor(arrays[f"w{i}"], dtype=torch.float32)
            made[-1].bias.data = torch.tensor(arrays[f"b{i}"], dtype=torch.float32)

    class Network(on.Module):  # type: ignore[misc]
        """The layers one after another."""

        def __init__(self) -> None:
            super().__init__()
            for i, module in enumerate(made):
                setattr(self, f"layer{i}", module)

        def forward(self, x: Any) -> Any:
            """Computes the layers."""
            for i in range(len(made)):
                x = getattr(self, f"layer{i}")(x)
            return x

    return Network().eval()


def measured(path: str, degree: int, scale: int, log_n: int, levels: int) -> dict[str, Any]:
    """Returns the times of compilation, keys and each sample."""
    import torch
    from lattigo import ckks, rlwe
    from orion_compiler import CKKSParams, Compiler
    from orion_evaluator import Evaluator, Model

    arrays = np.load(path)
    layers = json.loads(str(arrays["layers"]))
    network = built(layers, arrays, degree)
    parameters = CKKSParams(
        logn=log_n, logq=(55, *[scale] * levels), logp=(61, 61, 61, 61), log_default_scale=scale, ring_type="standard"
    )
    start = time.perf_counter()
    compiler = Compiler(network, parameters)
    calibration = torch.utils.data.TensorDataset(torch.tensor(arrays["calibration"], dtype=torch.float32))
    compiler.fit(torch.utils.data.DataLoader(calibration, batch_size=1))
    model = Model.load(compiler.compile().to_bytes())
    compiled = time.perf_counter()
    given, manifest, level = model.client_params()
    inner = ckks.Parameters.from_dict(given)
    maker = rlwe.KeyGenerator(inner)
    secret = maker.gen_secret_key()
    public = maker.gen_public_key(secret)
    galois = [maker.gen_galois_key(secret, int(one)) for one in manifest["galois_elements"]]
    keys = rlwe.MemEvaluationKeySet(maker.gen_relin_key(secret), galois).marshal_binary()
    made = time.perf_counter()
    encoder, encryptor, decryptor = ckks.Encoder(inner), rlwe.Encryptor(inner, public), rlwe.Decryptor(inner, secret)
    evaluator = Evaluator(given, keys)
    test = torch.tensor(arrays["test"], dtype=torch.float32)
    with torch.no_grad():
        clear = network(test).numpy()
    seconds, processor, off, same = [], [], 0.0, 0
    for i, sample in enumerate(arrays["test"]):
        values = np.zeros(inner.max_slots())
        values[: sample.size] = sample.reshape(-1)
        request = encryptor.encrypt_new(encoder.encode(values.tolist(), level, inner.default_scale())).marshal_binary()
        begin, cpu = time.perf_counter(), time.process_time()
        answer = evaluator.forward(model, [request])
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - cpu)
        plain = decryptor.decrypt_new(rlwe.Ciphertext.unmarshal_binary(answer[0]))
        found = np.array(encoder.decode(plain, inner.max_slots()))[: clear.shape[1]]
        off = max(off, float(np.abs(found - clear[i]).max()))
        same += int(found.argmax() == clear[i].argmax())
    return {
        "peer": "orion",
        "versions": {name: version(name) for name in ("orion-v2-compiler", "orion-v2-evaluator", "torch")},
        "degree": degree,
        "log_n": log_n,
        "levels": levels,
        "compile_seconds": compiled - start,
        "key_seconds": made - compiled,
        "key_bytes": len(keys),
        "row_seconds": seconds,
        "row_processor_seconds": processor,
        "largest_difference": off,
        "largest_value": float(np.abs(clear).max()),
        "equal_rows": same,
        "rows": len(seconds),
    }


def main() -> None:
    """Prints the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="file that the runner writes")
    parser.add_argument("--degree", type=int, default=31, help="degree of each activation's polynomial")
    parser.add_argument("--scale", type=int, default=36, help="bits of a level")
    parser.add_argument("--log-n", type=int, default=16)
    parser.add_argument("--levels", type=int, default=31)
    given = parser.parse_args()
    json.dump(measured(given.network, given.degree, given.scale, given.log_n, given.levels), sys.stdout)
    print()


if __name__ == "__main__":
    main()
