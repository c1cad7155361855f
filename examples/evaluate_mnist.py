"""Measure the accuracy of a trained integer network on the MNIST test images.

The program runs a weight file of train_mnist.py in exact integer arithmetic, without encryption,
and prints its accuracy. With --record, it also writes the accuracy to the file's `meta`. The program is separate so that
training cannot read the test images: run it once, on the chosen network.

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
    """Return the name of a weight file's network."""
    with np.load(path) as archive:
        return json.loads(str(archive["meta"]))["network"]


def main() -> None:
    """Evaluate the network that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help=".npz file of the network")
    parser.add_argument("--images", type=Path, required=True, help="test images, IDX or IDX.gz")
    parser.add_argument("--labels", type=Path, required=True, help="test labels")
    parser.add_argument("--record", action="store_true", help="write the accuracy to the file")
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
