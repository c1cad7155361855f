"""Count how many MNIST test images a trained integer network gets right.

Runs a weight file of train_mnist.py in exact integer arithmetic, without encryption, and
prints its accuracy. With --record, also writes it into the file's `meta`. It is a program
of its own so that training cannot see the test images: run it once, on the network chosen.

Use
    python evaluate_mnist.py hcnn5.npz --record \\
        --images t10k-images-idx3-ubyte.gz --labels t10k-labels-idx1-ubyte.gz
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import integer_network as integer


def network_name(path: Path) -> str:
    """Read from a weight file which network it is for."""
    with np.load(path) as archive:
        return json.loads(str(archive["meta"]))["network"]


def main() -> None:
    """Evaluate the network that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="the .npz file")
    parser.add_argument("--images", type=Path, required=True, help="test images, IDX or IDX.gz")
    parser.add_argument("--labels", type=Path, required=True, help="test labels")
    parser.add_argument("--record", action="store_true", help="note the accuracy in the file")
    args = parser.parse_args()

    layers = integer.MNIST_NETWORKS[network_name(args.weights)]
    parameters, meta = integer.load(args.weights, layers)
    pixels = integer.quantise(integer.read_idx(args.images), meta["input"]["levels"], integer.WHITE)
    result = integer.evaluate(layers, parameters, pixels)
    accuracy = result.accuracy(integer.read_idx(args.labels))
    print(f"{meta['network']}: accuracy {accuracy:.4f}, max|logit| {result.max_logit}")
    if args.record:
        meta["accuracy"]["test"] = accuracy
        meta["max_abs_logit_test"] = result.max_logit
        integer.save(args.weights, layers, parameters, meta)


if __name__ == "__main__":
    main()
